"""dedupe against its definition in ten lines of Python, over every kind of input."""

import csv
import gzip
import io
import json
import os
import random
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import simdb
from simdb.cli.feed import Feed
from simdb.files import writing
from simdb.zstandard import library as zstandard
from tests.support.cli_stores import likeness, text_of
from tests.support.commands import done, failed, run, write_rows


def variant(seed: int, changes: int) -> str:
    generator = random.Random(seed * 1000 + changes)
    words = text_of(seed).split()
    for _ in range(changes):
        words[generator.randrange(len(words))] = f"new{generator.randrange(10**6)}"
    return " ".join(words)


ROWS: list[dict[str, Any]] = [
    {"id": f"{seed}-{changes}", "text": variant(seed, changes), "extra": {"é": [seed, None]}}
    for changes in (0, 1, 3, 6, 10)
    for seed in range(8)
]


def defined(
    rows: list[dict[str, Any]], stored: dict[Any, str] | None = None, threshold: float = 0.8
) -> tuple[list[int], dict[int, tuple[Any, float]]]:
    """What dedupe means: positions kept, and of the others whose copy they are and how similar."""
    kept_texts = dict(stored or {})
    kept, removed = [], {}
    for position, row in enumerate(rows):
        similar = ((key, likeness(text, row["text"])) for key, text in kept_texts.items())
        found = next(((key, value) for key, value in similar if value >= threshold), None)
        if found is None:
            kept.append(position)
            kept_texts[row["id"]] = row["text"]
        else:
            removed[position] = found
    return kept, removed


def bytes_of(rows: list[dict[str, Any]]) -> list[bytes]:
    """Lines that differ in every way that JSON leaves open."""
    lines = []
    for position, row in enumerate(rows):
        separators = (" , ", " : ") if position % 3 else (",", ":")
        text = json.dumps(row, ensure_ascii=position % 2 == 0, separators=separators)
        lines.append(text.encode() + (b" \r\n" if position % 5 == 0 else b"\n"))
    lines[-1] = lines[-1].rstrip()
    return lines


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_kept_rows_are_the_bytes_of_the_input_and_removed_rows_say_why(tmp_path):
    lines = bytes_of(ROWS)
    (tmp_path / "in.jsonl").write_bytes(b"".join(lines))
    kept, removed = defined(ROWS)
    assert len(kept) >= 8
    assert len(removed) >= 8

    result = done(
        "dedupe", tmp_path / "in.jsonl", "--text-field", "text", "--id-field", "id",
        "--threshold", 0.8, "-o", tmp_path / "kept.jsonl", "--removed", tmp_path / "removed.jsonl",
    )  # fmt: skip

    assert (tmp_path / "kept.jsonl").read_bytes() == b"".join(lines[place] for place in kept)
    told = [json.loads(line) for line in (tmp_path / "removed.jsonl").read_bytes().splitlines()]
    assert told == [
        {
            "line": place + 1,
            "id": ROWS[place]["id"],
            "duplicate_of": key,
            "similarity": similarity,
            "within_input": True,
            "row": ROWS[place],
        }
        for place, (key, similarity) in removed.items()
    ]
    assert f"{len(ROWS)} rows: {len(kept)} kept, {len(removed)} removed" in result.stderr
    assert result.stdout == ""
    assert names_in(tmp_path) == ["in.jsonl", "kept.jsonl", "removed.jsonl"]


def test_with_a_store_the_next_file_is_compared_with_all_before(tmp_path):
    store = tmp_path / "s.simdb"
    done("create", store, "documents", "--seed", 1)  # some rows are just about similar
    first, second = ROWS[:20], ROWS[20:]
    for name, rows in (("first", first), ("second", second)):
        write_rows(tmp_path / name, rows)

    def dedupe(name: str, output: str) -> bytes:
        done(
            "dedupe", tmp_path / name, "--format", "jsonl", "--id-field", "id", "--store", store,
            "-o", tmp_path / output, "--removed", tmp_path / "removed",
        )  # fmt: skip
        return Path(tmp_path / output).read_bytes()

    kept_first, _ = defined(first)
    stored = {first[place]["id"]: first[place]["text"] for place in kept_first}
    kept_second, removed_second = defined(second, stored)

    assert dedupe("first", "a").count(b"\n") == len(kept_first)
    kept = dedupe("second", "b")
    assert [json.loads(line)["id"] for line in kept.splitlines()] == [
        second[place]["id"] for place in kept_second
    ]
    told = [json.loads(line) for line in (tmp_path / "removed").read_bytes().splitlines()]
    assert [(row["duplicate_of"], row["similarity"]) for row in told] == list(
        removed_second.values()
    )
    assert [row["within_input"] for row in told] == [
        row["duplicate_of"] not in stored for row in told
    ]
    # The same file again is itself, not a copy of itself.
    assert dedupe("second", "c") == kept
    assert dedupe("first", "d").count(b"\n") == len(kept_first)


def test_by_containment_the_longer_row_stays_wherever_it_is(tmp_path):
    long = text_of(1)
    source = write_rows(
        tmp_path / "rows.jsonl",
        [
            {"id": "part", "text": long[:60]},
            {"id": "other", "text": text_of(2)},
            {"id": "whole", "text": long},
        ],
    )
    kept, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
    asked = ("--id-field", "id", "--threshold", "0.9", "--measure", "containment")
    done("dedupe", source, "-o", kept, "--removed", removed, "--explain", *asked)
    assert kept.read_bytes().splitlines() == source.read_bytes().splitlines()[1:]
    (told,) = map(json.loads, removed.read_text().splitlines())
    assert (told["line"], told["duplicate_of"], told["similarity"]) == (1, "whole", 1.0)
    assert told["evidence"]["similarity"] < 0.9
    assert "similar" not in told["evidence"]
    store = tmp_path / "s.simdb"
    done("dedupe", source, "-o", kept, "--store", store, *asked)
    assert "has items" in failed("dedupe", source, "-o", kept, "--store", store, *asked)


def test_a_policy_decides_which_of_like_rows_is_kept(tmp_path):
    rows = [
        {"id": f"{seed}{name}", "text": text + name, "site": site, "n": str(count)}
        for seed, text in enumerate((text_of(1), text_of(2)))
        for name, site, count in (("a", "mirror", 9), ("b", "wiki", 10), ("c", "mirror", 8))
    ]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    lines = source.read_bytes().splitlines()
    kept, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
    asked = ("dedupe", source, "-o", kept, "--id-field", "id")
    for policy, chosen in [
        ("site in wiki", 1),
        ("number(n) asc", 2),
        ("n desc", 0),  # as text
        ("site in mirror, number(n) desc", 0),
        ("first", 0),
    ]:
        done(*asked, "--policy", policy)
        assert kept.read_bytes().splitlines() == [lines[chosen], lines[3 + chosen]], policy
    # A better row takes the place of one that is stored, and that is told.
    store = ("--store", tmp_path / "s.simdb")
    done(*asked, *store, "--policy", "n desc")
    better = write_rows(tmp_path / "better.jsonl", [{**rows[0], "id": "new", "n": "99"}])
    again = ("dedupe", better, "-o", kept, "--id-field", "id", *store, "--removed", removed)
    told = done(*again, "--policy", "n desc").stderr
    assert "1 kept" in told
    assert "1 stored row was replaced by a better one" in told
    assert json.loads(removed.read_text()) == {"id": "0a", "superseded_by": "new"}
    assert "asc (least first) or desc" in failed(*asked, "--policy", "n")
    assert "no row has the field 'm'" in done(*asked, "--policy", "m desc").stderr
    told = done(*asked, "--policy", "m desc, n asc", "--measure", "containment").stderr
    assert "'m'" in told
    assert "'n'" not in told


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_csv_keeps_its_header_and_its_bytes(tmp_path, suffix):
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "text", "more"])
    starts = []
    for row in ROWS:
        starts.append(target.tell())
        writer.writerow([row["id"], row["text"].replace(" ", "\n", 1), 'quote " and, comma'])
    content = b"\xef\xbb\xbf" + target.getvalue().encode()
    # Without the time in it, of which the secret would be made, and another index.
    pack = {
        "": content,
        ".gz": gzip.compress(content, mtime=0),
        ".zst": zstandard().compress(content),
    }
    (tmp_path / f"in.csv{suffix}").write_bytes(pack[suffix])
    # White space is collapsed before texts are compared.
    kept, removed = defined(ROWS)

    done(
        "dedupe", tmp_path / f"in.csv{suffix}", "--id-field", "id", "-o", tmp_path / "kept.csv",
        "--removed", tmp_path / "removed",
    )  # fmt: skip

    written = (tmp_path / "kept.csv").read_bytes()
    assert written.startswith(b'\xef\xbb\xbf"id","text","more"\r\n')
    body = list(csv.reader(io.StringIO(written.decode("utf-8-sig"), newline="")))[1:]
    assert [row[0] for row in body] == [ROWS[place]["id"] for place in kept]
    ends = [*starts[1:], len(target.getvalue())]
    spans = [target.getvalue()[starts[place] : ends[place]] for place in kept]
    assert written.endswith("".join(spans).encode())
    told = [json.loads(line) for line in (tmp_path / "removed").read_bytes().splitlines()]
    assert [row["line"] for row in told] == [2 + 2 * place for place in removed]
    assert set(told[0]["row"]) == {"id", "text", "more"}


def test_a_csv_file_of_no_kept_rows_still_has_its_header(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"id,text\n")

    done("dedupe", tmp_path / "in.csv", "-o", tmp_path / "kept.csv")

    assert (tmp_path / "kept.csv").read_bytes() in (b"id,text\n", b"")
    (tmp_path / "empty.csv").write_bytes(b"id,text\n1,\n")
    done("dedupe", tmp_path / "empty.csv", "--on-bad", "skip", "-o", tmp_path / "kept.csv")
    assert (tmp_path / "kept.csv").read_bytes().startswith(b"id,text\n")


def test_of_a_folder_the_kept_files_are_listed(tmp_path):
    folder = tmp_path / "texts"
    for row in ROWS:
        seed, changes = row["id"].split("-")
        (folder / changes.zfill(2)).mkdir(parents=True, exist_ok=True)
        (folder / changes.zfill(2) / f"{seed}.txt").write_text(row["text"])
    kept, removed = defined(ROWS)

    done("dedupe", folder, "-o", tmp_path / "kept", "--removed", tmp_path / "removed")

    def path_of(place: int) -> str:
        seed, changes = ROWS[place]["id"].split("-")
        return f"{changes.zfill(2)}/{seed}.txt"

    assert (tmp_path / "kept").read_text().splitlines() == [path_of(place) for place in kept]
    told = [json.loads(line) for line in (tmp_path / "removed").read_bytes().splitlines()]
    assert [row["row"] for row in told] == [{"path": path_of(place)} for place in removed]


def test_standard_input_and_output_make_a_filter():
    # Its hash functions are drawn, so no row is about as like another one as the threshold.
    rows = [row for row in ROWS if row["id"].endswith(("-0", "-1", "-10"))]
    lines = bytes_of(rows)
    kept, removed = defined(rows)
    assert len(removed) == 8

    result = done("dedupe", "-", "-o", "-", stdin=b"".join(lines))

    assert result.stdout_bytes == b"".join(lines[place] for place in kept)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_the_output_is_compressed_by_its_suffix(tmp_path, suffix):
    write_rows(tmp_path / "in.jsonl", ROWS)
    done("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / f"kept.jsonl{suffix}")

    packed = (tmp_path / f"kept.jsonl{suffix}").read_bytes()
    content = gzip.decompress(packed) if suffix == ".gz" else zstandard().decompress(packed)
    assert content.count(b"\n") == len(defined(ROWS)[0])


def test_bad_rows_end_the_work_and_nothing_is_written(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(
        json.dumps(ROWS[0]).encode() + b"\n{broken\n" + json.dumps(ROWS[1]).encode()
    )
    (tmp_path / "kept.jsonl").write_bytes(b"old")

    result = run("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl")

    assert result.exit_code == 2
    assert "in.jsonl, line 2: not JSON" in result.stderr
    assert (tmp_path / "kept.jsonl").read_bytes() == b"old"
    assert names_in(tmp_path) == ["in.jsonl", "kept.jsonl"]


def test_bad_rows_can_be_skipped_and_are_counted(tmp_path):
    lines = bytes_of(ROWS[:3])
    (tmp_path / "in.jsonl").write_bytes(
        lines[0] + b"{broken\n" + lines[1] + b'{"text": 5}\n' * 30 + lines[2]
    )

    result = done(
        "dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl", "--on-bad", "skip",
        "--json",
    )  # fmt: skip

    summary = json.loads(result.stdout)
    assert (summary["rows"], summary["kept"], summary["bad"]) == (34, 3, 31)
    assert (tmp_path / "kept.jsonl").read_bytes() == b"".join(lines)
    assert "line 2: not JSON" in result.stderr
    assert "only counted" in result.stderr


def test_another_text_under_a_stored_key_is_a_bad_row(tmp_path):
    write_rows(tmp_path / "one.jsonl", [{"id": "x", "text": text_of(1)}])
    write_rows(tmp_path / "two.jsonl", [{"id": "x", "text": text_of(2)}])
    common = ["--id-field", "id", "--store", tmp_path / "s.simdb", "-o", tmp_path / "kept"]
    done("dedupe", tmp_path / "one.jsonl", *common)

    result = run("dedupe", tmp_path / "two.jsonl", *common)

    assert result.exit_code == 2
    assert "two.jsonl, line 1" in result.stderr


def test_an_interruption_leaves_the_outputs_and_no_temporary_store(tmp_path, monkeypatch):
    write_rows(tmp_path / "in.jsonl", ROWS)
    (tmp_path / "kept.jsonl").write_bytes(b"old")
    settled = Feed.settled

    def interrupted(self, outcomes):
        yield from settled(self, outcomes)
        raise KeyboardInterrupt

    monkeypatch.setattr(Feed, "settled", interrupted)
    result = run("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl")

    assert result.exit_code == 130
    assert "is as it was" in result.stderr
    assert (tmp_path / "kept.jsonl").read_bytes() == b"old"
    assert names_in(tmp_path) == ["in.jsonl", "kept.jsonl"]
    result = run("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "new.jsonl")
    assert "new.jsonl was not written" in result.stderr


def test_a_store_of_other_settings_is_refused(tmp_path):
    write_rows(tmp_path / "in.jsonl", ROWS)
    common = [tmp_path / "in.jsonl", "--id-field", "id", "--store", tmp_path / "s.simdb"]
    done("dedupe", *common, "--shingles", "word:3", "-o", tmp_path / "kept")

    for options in (["--shingles", "word:4"], ["--lowercase"], ["--recall", 0.9]):
        result = run("dedupe", *common, *options, "-o", tmp_path / "kept")
        assert result.exit_code == 2, options
    done("dedupe", *common, "-o", tmp_path / "kept")
    done("dedupe", *common, "--shingles", "word:3", "--recall", 0.99, "-o", tmp_path / "kept")


def spelled(source: Path, spelling: str) -> Path:
    """Another name of a file."""
    other = source.with_name("other.jsonl")
    if spelling == "dots":
        return source.parent / "folder" / ".." / source.name
    if spelling == "symbolic link":
        other.symlink_to(source)
    elif spelling == "hard link":
        other.hardlink_to(source)
    else:
        return source
    return other


@pytest.mark.parametrize("spelling", ["same", "dots", "symbolic link", "hard link"])
def test_an_output_never_takes_the_place_of_an_input(tmp_path, spelling):
    source, store = tmp_path / "in.jsonl", tmp_path / "s.simdb"
    write_rows(source, ROWS[:3])
    (tmp_path / "folder").mkdir()
    output, content = spelled(source, spelling), source.read_bytes()
    done("create", store, "news")
    commands: list[list[object]] = [
        ["dedupe", source, "-o", output],
        ["dedupe", source, "-o", output, "--store", tmp_path / "new.simdb"],
        ["dedupe", source, "-o", tmp_path / "kept", "--removed", output],
        ["dedupe", output, "-o", source],
        ["add", store, "news", source, "--duplicates", output],
    ]
    for command in commands:
        refused = run(*command)
        assert refused.exit_code == 2, command
        assert "is an input" in refused.stderr
        assert source.read_bytes() == content
        assert not {"kept", "new.simdb"} & set(names_in(tmp_path))
    assert len(done("export", store, "news").stdout) == 0


def test_an_output_in_an_input_folder_may_not_be_one_of_its_files(tmp_path):
    folder, store = tmp_path / "texts", tmp_path / "s.simdb"
    folder.mkdir()
    (folder / "a.txt").write_text("some text of some length")
    (folder / "list").write_text("earlier")
    done("create", store, "news")
    for command in (
        ["dedupe", folder, "-o", folder / "a.txt"],
        ["dedupe", folder, "-o", folder / "list"],
        ["dedupe", folder, "--pattern", "*.txt", "-o", folder / "a.txt"],
        ["add", store, "news", folder, "--duplicates", folder / "a.txt"],
    ):
        refused = run(*command)
        assert refused.exit_code == 2, command
        assert "is an input" in refused.stderr
    assert (folder / "a.txt").read_text() == "some text of some length"
    assert (folder / "list").read_text() == "earlier"
    done("dedupe", folder, "--pattern", "*.txt", "-o", folder / "list")  # which is not read
    assert (folder / "list").read_text() == "a.txt\n"


def test_streams_and_devices_are_both_input_and_output(tmp_path):
    assert done("dedupe", "-", "-o", "-", stdin=b'{"text": "a"}\n').stdout == '{"text": "a"}\n'
    done("dedupe", "/dev/null", "--format", "jsonl", "-o", "/dev/null")


def test_the_hash_functions_are_those_of_the_content_and_not_known_before(tmp_path, monkeypatch):
    made = simdb.Database.create_collection
    seeds = []

    def recorded(*arguments: Any, **options: Any) -> simdb.Collection:
        seeds.append(options["seed"])
        return made(*arguments, **options)

    monkeypatch.setattr(simdb.Database, "create_collection", recorded)
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    write_rows(one, ROWS)
    write_rows(two, [*ROWS[:-1], {**ROWS[-1], "text": "another"}])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a text")
    for source in (one, one, two, tmp_path / "folder"):
        done("dedupe", source, "-o", tmp_path / "kept")
    done("dedupe", "-", "-o", tmp_path / "kept", stdin=one.read_bytes())
    first, again, other, folder, streamed = seeds
    assert first == again
    assert len({first, other, folder}) == 3
    assert min(first, other, folder) > 2**128
    assert streamed is None, "drawn"


def test_a_collection_that_another_process_makes_meanwhile_is_taken(tmp_path, monkeypatch):
    rows = write_rows(tmp_path / "in.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}])
    create = simdb.Database.create_collection

    def second(*given: Any, **settings: Any) -> simdb.Collection:
        create(*given, **settings)
        return create(*given, **settings)

    monkeypatch.setattr(simdb.Database, "create_collection", second)
    done("dedupe", rows, "-o", "-", "--store", tmp_path / "s.simdb", "--id-field", "id")
    assert "other settings: shingles is character:9, not word:2" in failed(
        *("dedupe", rows, "-o", "-", "--store", tmp_path / "s.simdb", "--id-field", "id"),
        *("--shingles", "word:2"),
    )


@pytest.mark.parametrize(
    "waits", [["--policy", "number(score) desc"], ["--on-existing", "replace"]]
)
def test_rows_that_wait_for_the_last_come_out_as_they_came(tmp_path, waits):
    rows = [
        {"id": f"r{number}", "text": text_of(number // 2), "score": number, "pad": "é" * number}
        for number in range(40)
    ]
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, some in zip(files, (rows[:25], rows[25:]), strict=True):
        write_rows(file, some)
    kept, removed, store = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl", tmp_path / "s.simdb"
    command = ["dedupe", *files, "-o", kept, "--removed", removed, "--id-field", "id", *waits]
    again = [["--store", store]] * 2
    for more in again if "--on-existing" in waits else [[], *again]:
        done(*command, *more)
        best = 1 if "--policy" in waits else 0
        lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
        assert kept.read_bytes() == b"".join(lines[best::2])
        told = [json.loads(line)["row"] for line in removed.read_text().splitlines()]
        assert told == rows[1 - best :: 2]
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".simdb")]


WAITS = [["--policy", "longest"], ["--on-existing", "replace"], ["--measure", "containment"], []]


@pytest.mark.parametrize("waits", WAITS, ids=["policy", "replace", "containment", "none"])
def test_every_row_of_an_input_with_keys_that_come_twice_comes_out(tmp_path, monkeypatch, waits):
    """A batch with such a key is read again row by row, one without them is not."""
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", 3)
    for seed in (0, 4, 6):
        generator = random.Random(seed)
        given: Counter[str] = Counter()
        for shard in range(2):
            lines = []
            for number in range(10):
                row = {"id": 10 * shard + number, "text": text_of(generator.randrange(1000))}
                fit = generator.random() < 0.9
                lines.append(json.dumps(row) if fit else '{"id": 1.5, "text": "x"}')
                lines.extend(lines[-1:] * (generator.random() < 0.3))
            (tmp_path / f"{shard}.jsonl").write_text("\n".join(lines) + "\n")
            given.update(lines)
        sources = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
        outputs = {name: tmp_path / f"{name}-{seed}" for name in ("kept", "removed", "bad")}
        options = ["--removed", outputs["removed"], "--bad", outputs["bad"], "--id-field", "id"]
        if "--on-existing" in waits:
            options += ["--store", tmp_path / f"{seed}.simdb"]
        done("dedupe", *sources, "-o", outputs["kept"], *options, *waits)
        kept, removed, bad = (path.read_text().splitlines() for path in outputs.values())
        told = [json.dumps(row["row"]) for row in map(json.loads, removed) if "row" in row]
        told += [row["row"] for row in map(json.loads, bad)]
        assert Counter(kept + told) == given


def test_a_row_whose_policy_fields_have_changed_stands_by_the_new_ones(tmp_path):
    text = "the council approved the new bridge over the river on monday evening"
    months = [
        [{"id": "A", "text": text, "score": 1}],
        [{"id": "A", "text": text, "score": 9}, {"id": "B", "text": f"{text}!", "score": 5}],
    ]
    for on_existing in ("error", "keep", "replace"):
        for number, rows in enumerate(months):
            write_rows(tmp_path / f"{number}.jsonl", rows)
            done("dedupe", tmp_path / f"{number}.jsonl", "-o", tmp_path / "kept.jsonl",
                 "--removed", tmp_path / "removed.jsonl", "--id-field", "id",
                 "--store", tmp_path / f"{on_existing}.simdb", "--on-existing", on_existing,
                 "--policy", "number(score) desc")  # fmt: skip
        kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
        assert kept == [months[1][0]]
        (removed,) = map(json.loads, (tmp_path / "removed.jsonl").read_text().splitlines())
        assert (removed["id"], removed["duplicate_of"]) == ("B", "A")
        with simdb.open(tmp_path / f"{on_existing}.simdb") as database:
            (stored,) = database["documents"].items()
        noted = {"score": 9 if on_existing == "replace" else 1}
        assert (stored.key, stored.metadata) == ("A", noted)


def test_a_policy_compares_decimals_of_tables_by_value(tmp_path):
    prices = pa.array([Decimal("9.50"), Decimal("10.00")])
    of = pa.StructArray.from_arrays([prices], ["price"])
    table = pa.table({"text": ["the same text in both rows"] * 2, "price": prices, "of": of})
    parquet.write_table(table, tmp_path / "d.parquet")
    for policy in ("price asc", "of.price asc"):
        run("dedupe", tmp_path / "d.parquet", "--policy", policy, "-o", tmp_path / "kept.jsonl")
        assert json.loads((tmp_path / "kept.jsonl").read_text())["price"] == "9.50"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_policy_calls_key_and_item_by_the_names_of_their_fields(tmp_path, form):
    source, store = tmp_path / f"in.{form}", tmp_path / "s.simdb"
    rows = [{"n": "a", "body": text_of(1)}, {"n": "b", "body": f"{text_of(1)}!"}]
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), source)
    elif form == "csv":
        source.write_text("n,body\n" + "".join("{n},{body}\n".format(**row) for row in rows))
    else:
        write_rows(source, rows)
    named = ["--id-field", "n", "--text-field", "body"]
    command = ["dedupe", source, *named, "-o", tmp_path / "out.jsonl" if form == "parquet" else "-"]
    for policy, kept in (
        ("n desc", "b"),
        ("n in b", "b"),
        ("length(body) desc", "b"),
        ("body desc", "b"),
        ("n asc", "a"),
        ("no desc", "a"),
    ):
        ran = done(*command, "--policy", policy, "--removed", tmp_path / "removed.jsonl")
        assert json.loads((tmp_path / "removed.jsonl").read_text())["duplicate_of"] == kept
        assert ("no row has the field 'no'" in ran.stderr) == (policy == "no desc"), policy
    assert "calls the key itself 'key', and the item 'item'" in ran.stderr
    # A stored row stands by its key, too.
    done(*command, "--store", store)
    later = write_rows(tmp_path / "later.jsonl", [{"n": "c", "body": f"{text_of(1)}!!"}])
    for policy, count in (("n asc", 0), ("n desc", 1)):
        again = ["dedupe", later, *named, "-o", tmp_path / "kept.jsonl", "--store", store]
        done(*again, "--policy", policy)
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == count


def test_a_policy_on_one_of_the_fields_of_the_item_is_refused(tmp_path):
    rows = [{"id": n, "title": "x" * n, "of": {"body": text_of(1), "n": n}} for n in range(3)]
    source, kept = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "kept.jsonl"
    parts = ["--text-field", "title", "--text-field", "of.body"]
    command = ["dedupe", source, "--id-field", "id", *parts, "-o", kept, "--policy"]
    for policy, name in (("length(title) desc", "title"), ("of.n asc, of.body in x", "of.body")):
        assert f"--policy looks at '{name}', which is joined" in failed(*command, policy)
        assert not kept.exists()
    for policy in ("longest", "length(item) desc", "of.n desc", "key desc"):
        done(*command, policy)
        assert json.loads(kept.read_text())["id"] == 2
    source.with_name("in.csv").write_text("id,x,x.y,t\n1,same text,5,a b\n2,same text,7,a b\n")
    parts = ["--text-field", "x", "--text-field", "t", "--policy", "x.y desc"]
    told = done("dedupe", source.with_name("in.csv"), "--id-field", "id", *parts, "-o", "-")
    assert told.stdout.splitlines()[1].startswith("2,")


def test_a_field_of_the_metadata_goes_before_a_key_so_called(tmp_path):
    rows = [{"id": f"{n}", "text": text_of(1), "of": {"id": -n, "key": -n}} for n in range(2)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    command = ["dedupe", source, "--id-field", "id", "--metadata-field", "of", "-o", "-"]
    for policy in ("id desc", "key desc"):
        assert json.loads(done(*command, "--policy", policy).stdout) == rows[0]


def test_key_and_item_are_these_whatever_fields_are_called(tmp_path):
    rows = [{"id": n, "key": f"{text_of(1)}{'!' * (2 - n)}"} for n in range(2)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    command = ["dedupe", source, "--id-field", "id", "--text-field", "key", "-o", "-"]
    for policy, kept in (("key desc", 1), ("length(item) desc", 0)):
        assert json.loads(done(*command, "--policy", policy).stdout)["id"] == kept


def test_an_empty_cell_is_no_number(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(f"id,text,src,n\n1,{text_of(1)},,3\n2,{text_of(1)}!,b,\n")
    command = ["dedupe", source, "--id-field", "id", "-o", "-", "--policy"]
    for skipping in ([], ["--on-bad", "skip"]):
        ran = done(*command, "src in b, number(n) desc", *skipping)
        assert ran.stdout.splitlines()[1].startswith("2,")
        assert done(*command, "number(n) asc", *skipping).stdout.splitlines()[1].startswith("1,")


def test_keys_of_two_types_stand_in_two_inputs(tmp_path):
    texts = write_rows(tmp_path / "a.jsonl", [{"id": "a", "text": text_of(1)}])
    numbers = write_rows(tmp_path / "b.jsonl", [{"id": 7, "text": text_of(2)}])
    for sources in ([texts, numbers], [numbers, texts]):
        done("dedupe", *sources, "--id-field", "id", "-o", tmp_path / "out.jsonl")
        kept = [
            json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()
        ]
        assert kept == [json.loads(source.read_text())["id"] for source in sources]


@pytest.mark.parametrize("name", ["in.dat", "in.basket"])
def test_the_key_of_a_line_is_no_element_of_what_was_removed(tmp_path, monkeypatch, name):
    monkeypatch.setattr("simdb.reports.charts.drawn", lambda *_: "<svg></svg>")
    rows = ["11 1 2 3 4 5 6", "12 1 2 3 4 5 6", "13 9 10"]
    between = "," if name.endswith("basket") else " "
    source, removed = tmp_path / name, tmp_path / "removed.jsonl"
    source.write_text("".join(row.replace(" ", between) + "\n" for row in rows))
    command = ["dedupe", source, "-o", tmp_path / "out", "--kind", "set", "--id-field", 1]
    done(*command, "--removed", removed, "--explain", "--report", tmp_path / "report.html")
    told = json.loads(removed.read_text())
    assert told["row"] == {"set": [1, 2, 3, 4, 5, 6]}
    assert told["evidence"]["similarity"] == told["similarity"] == 1
    assert told["evidence"]["differing"] == []


def test_packed_bits_of_a_table_are_explained(tmp_path, monkeypatch):
    monkeypatch.setattr("simdb.reports.charts.drawn", lambda *_: "<svg></svg>")
    table = pa.table({"id": [1, 2], "bits": [b"\xb5\x8f", b"\xb5\x8e"]})
    parquet.write_table(table, tmp_path / "in.parquet")
    removed = tmp_path / "removed.jsonl"
    command = ["dedupe", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--id-field"]
    limits = ["--kind", "bits:16", "--max-distance", 1, "--removed", removed, "--explain"]
    done(*command, "id", *limits, "--report", tmp_path / "report.html")
    assert json.loads(removed.read_text())["evidence"]["distance"] == 1


def test_a_row_removed_for_its_key_has_the_measure_of_its_kind(tmp_path):
    removed, name = tmp_path / "removed.jsonl", tmp_path / "in.jsonl"
    command = ["dedupe", name, "-o", tmp_path / "out.jsonl", "--id-field", "id", "--store"]
    limits = [tmp_path / "x.simdb", "--kind", "string", "--max-distance", 1]
    for text in ("one text", "and another"):
        name.write_text(json.dumps({"id": "a", "string": text}) + "\n")
        done(*command, *limits, "--on-existing", "keep", "--removed", removed)
    told = json.loads(removed.read_text())
    assert (told["duplicate_of"], told["distance"], "similarity" in told) == ("a", None, False)


def test_only_a_line_feed_ends_a_line_of_json(tmp_path):
    """A file whose last CRLF was cut in two is followed by another."""
    sources = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    lines = [json.dumps({"id": f"r{number}", "text": text_of(number)}) for number in range(2)]
    sources[0].write_bytes(lines[0].encode() + b"\r")
    sources[1].write_bytes(lines[1].encode() + b"\n")
    done("dedupe", *sources, "--id-field", "id", "-o", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes().splitlines() == [line.encode() for line in lines]
    done("dedupe", tmp_path / "out.jsonl", "--id-field", "id", "-o", tmp_path / "again.jsonl")


@pytest.mark.parametrize("measure", ["containment", "both"])
def test_by_containment_a_key_that_comes_again_is_bad(tmp_path, measure):
    sets = [("a", [1, 2, 3, 4, 5]), ("b", [1, 2, 3]), ("c", [7, 8, 9]), ("a", [20, 21])]
    rows = write_rows(tmp_path / "in.jsonl", [{"id": key, "set": own} for key, own in sets])
    command = ["dedupe", rows, "--kind", "set", "--id-field", "id", "-o", tmp_path / "out.jsonl"]
    told = done(*command, "--measure", measure, "--threshold", 1, "--on-bad", "skip", "--json")
    counts = json.loads(told.stdout)
    assert (counts["kept"], counts["removed_new"], counts["bad"]) == (2, 1, 1)
    assert "line 4: key 'a' came earlier in the input" in told.stderr


@pytest.mark.parametrize("library", ["sqlite", "duckdb"])
def test_a_policy_orders_the_rows_of_a_database(tmp_path, library):
    module = pytest.importorskip("sqlite3" if library == "sqlite" else "duckdb")
    database = module.connect(str(tmp_path / "a.db"))
    database.execute("CREATE TABLE t (id TEXT, text TEXT, score DECIMAL(10, 2))")
    rows = [("a", text_of(1), 9), ("b", text_of(1), 10)]
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
    source, output = f"{library}:{tmp_path / 'a.db'}:t", tmp_path / "out.jsonl"
    done("dedupe", source, "--id-field", "id", "--policy", "score desc", "-o", output)
    assert json.loads(output.read_text())["id"] == "b"


def test_an_output_of_nothing_is_a_sound_compressed_file(tmp_path):
    rows = write_rows(tmp_path / "in.jsonl", [{"id": "a", "text": text_of(1)}])
    for suffix in (".gz", ".zst"):
        removed = tmp_path / f"removed.jsonl{suffix}"
        command = ["dedupe", rows, "--id-field", "id", "-o", tmp_path / "out.jsonl"]
        done(*command, "--removed", removed)
        done("dedupe", removed, "-o", tmp_path / "again.jsonl")
        assert removed.stat().st_size > 0


def test_a_header_is_written_also_after_an_empty_file(tmp_path):
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "in.csv").write_text(f"id,text\nk,{text_of(1)}\n")
    (tmp_path / "next.csv").write_text(f"id,text\nz,{text_of(1)}\n")
    asked = ["--id-field", "id", "--store", tmp_path / "s.simdb", "-o", tmp_path / "out.csv"]
    done("dedupe", tmp_path / "in.csv", *asked)
    done("dedupe", tmp_path / "empty.csv", tmp_path / "next.csv", *asked, "--yes")
    assert (tmp_path / "out.csv").read_text() == "id,text\n"


def test_fields_in_another_order_are_the_same_metadata(tmp_path):
    row = {"id": "a", "text": text_of(1), "x": 1, "y": [2, {"z": 3, "q": 4}]}
    store, output = tmp_path / "s.simdb", tmp_path / "out.jsonl"
    other = {"y": [2, {"q": 4, "z": 3}], "x": 1, "text": text_of(1), "id": "a"}
    for given, updated in ((row, 0), (other, 0), ({**row, "x": 2}, 1)):
        source = write_rows(tmp_path / "in.jsonl", [given])
        asked = ["--id-field", "id", "--store", store, "--on-existing", "replace", "--json"]
        told = json.loads(done("dedupe", source, "-o", output, *asked).stdout)
        assert told["updated"] == updated


def test_a_single_text_is_told_to_be_one(tmp_path):
    """Who has a file of lines finds nothing removed, and should learn why."""
    lines = tmp_path / "corpus.txt"
    lines.write_text("alpha beta gamma\nalpha beta gamma\n")
    told = run("dedupe", lines, "-o", tmp_path / "kept.txt")
    assert told.exit_code == 0
    assert "corpus.txt is one text; --format lines reads each of its lines as one" in told.stderr
    told = run("dedupe", lines, "-o", tmp_path / "kept.txt", "--format", "lines")
    assert "is one text" not in told.stderr
    assert (tmp_path / "kept.txt").read_text() == "alpha beta gamma\n"


@pytest.mark.parametrize("stays", [False, True])
def test_a_full_disk_of_rows_that_wait_is_told_by_its_folder(tmp_path, monkeypatch, stays):
    full = partial(Path("/dev/full").open, "r+b", buffering=0)
    opened = SimpleNamespace(TemporaryFile=lambda **_: full())
    monkeypatch.setattr(writing, "tempfile", opened)
    source = write_rows(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "stores").mkdir()
    store = ["--store", tmp_path / "stores" / "s.simdb", "--id-field", "id"] if stays else []
    told = run("dedupe", source, "-o", tmp_path / "k.jsonl", "--policy", "longest", *store)
    folder = tmp_path / "stores" if stays else tmp_path
    assert told.exit_code == 3
    assert f"could not be written to {folder}: No space left on device" in told.stderr


@pytest.mark.parametrize(
    ("flag", "code", "told"),
    [(os.ST_RDONLY, 3, "k.jsonl: Read-only file system"), (0, 2, "no permission to write")],
)
def test_why_nothing_can_be_written_beside_an_output_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, code: int, told: str
) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS[:2])
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flag))
    result = run("dedupe", tmp_path / "rows.jsonl", "-o", tmp_path / "k.jsonl")
    assert (result.exit_code, told in result.stderr) == (code, True)
