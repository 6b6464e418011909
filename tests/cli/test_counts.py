"""Every row of ``dedupe`` is in exactly one of kept, updated, removed and bad, always."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.commands import done, run

FOX, COPPER, OTHER = (
    "the quick brown fox jumps over the lazy dog",
    "another text about the price of copper in London",
    "nothing here is like any of the other rows at all",
)
STORED = [("a", FOX), ("b", COPPER)]
ROWS: list[tuple[str | None, str | None]] = [
    ("a", FOX),  # itself
    ("b", OTHER),  # stored with another content
    ("c", FOX + "!"),  # like one stored
    ("d", "one that is quite new to everybody"),
    ("e", "one that is quite new to everybody!"),  # like one of the input
    ("d", "the key of a row before, with another content"),
    ("f", None),  # bad
    (None, "no key at all, and so a bad row"),
]


def write(path: Path, rows: list[tuple[str | None, str | None]]) -> Path:
    fields = [{"id": key, "text": text} for key, text in rows]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(fields), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *rows])
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in fields))
    return path


def numbers_in(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("stays", [False, True], ids=["no store", "store"])
def test_every_row_is_in_exactly_one_place_under_all_options(tmp_path, ending, stays):
    rows = [row for row in ROWS if ending != "csv" or None not in row]
    source = write(tmp_path / f"in.{ending}", rows)
    written: Counter[tuple[Any, Any]] = Counter(
        (row["id"], row["text"]) for row in numbers_in(source)
    )
    policies = ["error", "keep", "replace"] if stays else ["error"]
    places_of_keys = itertools.product(policies, [(1, False), (2, False), (2, True)])
    for number, (on_existing, (shards, made)) in enumerate(places_of_keys):
        store: list[Any] = ["--store", tmp_path / f"{number}.simdb"] if stays else []
        keys = ["--make-keys", "content"] if made else ["--id-field", "id"]
        if stays:
            before = write(tmp_path / f"before.{ending}", list(STORED))
            done("dedupe", before, "-o", tmp_path / f"b.{ending}", *store, *keys)
        inputs = [source]
        if shards == 2:
            half = len(rows) // 2
            inputs = [
                write(tmp_path / f"half{place}.{ending}", part)
                for place, part in enumerate([rows[:half], rows[half:]])
            ]
        kept, removed, bad = (tmp_path / f"{name}{number}" for name in ("kept", "removed", "bad"))
        kept = kept.with_suffix(f".{ending}")
        told = done(
            "dedupe", *inputs, "-o", kept, "--removed", removed, "--bad", bad, *store, *keys,
            *(["--on-existing", on_existing] if stays else []), "--json",
        ).stdout  # fmt: skip
        counts = json.loads(told)
        places = {
            "kept": [(row["id"], row["text"]) for row in numbers_in(kept)],
            "removed": [(row["row"]["id"], row["row"]["text"]) for row in numbers_in(removed)],
            "bad": [row_of(row["row"], ending) for row in numbers_in(bad)],
        }
        assert sum(map(Counter, places.values()), Counter()) == written, (number, counts)
        assert counts["rows"] == len(rows)
        assert counts["kept"] + counts["updated"] == len(places["kept"])
        assert counts["removed_old"] + counts["removed_new"] == len(places["removed"])
        assert counts["bad"] == len(places["bad"])
        if stays and not made:
            assert (counts["updated"] == 1) == (on_existing == "replace")


def row_of(raw: str, ending: str) -> tuple[Any, Any]:
    """The key and the text of a row as it stands in its input."""
    if ending == "csv":
        (found,) = csv.reader([raw])
        return found[0], found[1]
    fields = json.loads(raw)
    return fields["id"], fields["text"]


def test_over_nine_tenths_removed_needs_a_yes(tmp_path):
    texts = [
        f"{number} is the number that this text is about, not {number + 1}. " * 3
        for number in range(120)
    ]
    for name, mark in (("one", ""), ("two", "x")):
        rows: list[tuple[str | None, str | None]] = [
            (f"{mark}{number}", text) for number, text in enumerate(texts)
        ]
        write(tmp_path / f"{name}.jsonl", rows)
    store = ("--store", tmp_path / "s.simdb", "--id-field", "id")
    done("dedupe", tmp_path / "one.jsonl", "-o", tmp_path / "kept.jsonl", *store)
    output = tmp_path / "kept2.jsonl"
    refused = run("dedupe", tmp_path / "two.jsonl", "-o", output, *store)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert not output.exists()
    done("dedupe", tmp_path / "two.jsonl", "-o", output, "--yes", *store)
    assert output.read_text() == ""


def test_the_summary_says_at_which_threshold_rows_were_removed(tmp_path):
    source = write(tmp_path / "in.jsonl", list(STORED))
    keep = ("dedupe", source, "-o", tmp_path / "kept.jsonl", "--id-field", "id")
    stored = (*keep, "--store", tmp_path / "s.simdb")
    assert "; threshold 0.8; " in done(*keep).stderr
    assert "; threshold 0.7; " in done(*stored, "--threshold", "0.7").stderr
    assert json.loads(done(*stored, "--json").stdout)["threshold"] == "0.7"
    assert json.loads(done(*stored, "--threshold", "0.75", "--json").stdout)["threshold"] == "0.75"
