"""Every kind of item on the command line: from files into a store, and what is asked of it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.cli.bounds import Bound
from simdb.cli.describing import KindOptions
from simdb.config import (
    Bag,
    Bits,
    CharacterShingles,
    Equal,
    Field,
    Fingerprint,
    Record,
    Set,
    StopWordShingles,
    Text,
    Vector,
    WordShingles,
)
from simdb.errors import ConfigurationError, UsageError
from tests.test_cli_stores import done, lines_of, run, write_rows

GENERATOR = np.random.default_rng(3)


def bits_of(count: int) -> list[str]:
    far = GENERATOR.integers(0, 2, (count, 40))
    near = far.copy()
    near[:, 7] ^= 1
    return ["".join(map(str, row)) for row in [*far.tolist(), *near.tolist()]]


def hamming(one: str, other: str) -> float:
    return sum(left != right for left, right in zip(one, other, strict=True))


def tanimoto(one: str, other: str) -> float:
    both = sum(left + right == "11" for left, right in zip(one, other, strict=True))
    return both / sum(left + right != "00" for left, right in zip(one, other, strict=True))


def vectors_of(count: int) -> list[list[float]]:
    far = GENERATOR.normal(size=(count, 6)).astype(np.float32)
    near = far + np.float32(0.01)
    return [*far.tolist(), *near.tolist()]


def bag_of_sum(one: list[str], other: list[str]) -> float:
    return (Counter(one) & Counter(other)).total() / (len(one) + len(other))


def bag_of_maximum(one: list[str], other: list[str]) -> float:
    return (Counter(one) & Counter(other)).total() / (Counter(one) | Counter(other)).total()


WORDS = [f"word{number}" for number in range(60)]
BAGS = [GENERATOR.choice(WORDS, 9).tolist() for _ in range(5)]
BAGS += [[*bag, bag[0]] for bag in BAGS]
SETS = [sorted(set(bag)) for bag in BAGS]
TEXTS = [" ".join(bag) for bag in BAGS]
PEOPLE: list[dict[str, Any]] = [
    {"name": f"{word}son", "town": f"town {number}", "age": 20 + number}
    for number, word in enumerate(["smith", "ander", "john", "peter", "niel"])
]
PEOPLE += [{**record, "name": record["name"] + "n"} for record in PEOPLE]
PRINTS = [
    np.column_stack((GENERATOR.uniform(20, 120, (12, 2)), GENERATOR.uniform(0, 360, 12)))
    .round(1)
    .tolist()
    for _ in range(5)
]
PRINTS += [[[x + 1, y + 1, angle] for x, y, angle in print_] for print_ in PRINTS]
RECORD = {
    "fields": [{"name": "name", "tolerance": 5}, "town", {"name": "age", "compare": "numeric"}],
    "candidates": ["town"],
}
PRINT = {"width": 160, "height": 160, "functions": 2048, "groups": 1}


@dataclass(frozen=True)
class Case:
    kind: tuple[object, ...]
    bound: tuple[object, ...]
    items: list[Any]
    is_similar: Callable[[Any, Any], bool]
    field: str
    measured: str = "similarity"

    @property
    def new(self) -> tuple[object, ...]:
        return (*self.kind, *self.bound)

    def row(self, key: object, item: Any) -> dict[str, Any]:
        return {"id": key, **(item if self.field == "record" else {self.field: item}), "more": "x"}

    @property
    def pairs(self) -> set[tuple[int, int]]:
        numbered = list(enumerate(self.items, 1))
        return {
            (left, right)
            for (left, one), (right, other) in combinations(numbered, 2)
            if self.is_similar(one, other)
        }


def shifted(one: Any, other: Any) -> bool:
    """Whether two are an item and its near copy, which are made so that this is clear."""
    left, right = sorted((PRINTS.index(one), PRINTS.index(other)))
    return right - left == 5


CASES = {
    "text": Case(
        ("--shingles", "word:1"),
        ("--threshold", 0.8),
        TEXTS,
        lambda one, other: len({*one.split()} & {*other.split()}) >= 7,
        "text",
    ),
    "set": Case(
        ("--kind", "set"),
        ("--threshold", 0.8),
        SETS,
        lambda one, other: len({*one} & {*other}) / len({*one} | {*other}) >= 0.8,
        "set",
    ),
    "bag-sum": Case(
        ("--kind", "bag"),
        ("--threshold", 0.4),
        BAGS,
        lambda one, other: bag_of_sum(one, other) >= 0.4,
        "bag",
    ),
    "bag-maximum": Case(
        ("--kind", "bag:maximum"),
        ("--threshold", 0.8),
        BAGS,
        lambda one, other: bag_of_maximum(one, other) >= 0.8,
        "bag",
    ),
    "hamming": Case(
        ("--kind", "bits:40"),
        ("--max-distance", 2),
        (BITS := bits_of(5)),
        lambda one, other: hamming(one, other) <= 2,
        "bits",
        "distance",
    ),
    "tanimoto": Case(
        ("--kind", "bits:40:tanimoto"),
        ("--threshold", 0.9),
        BITS,
        lambda one, other: tanimoto(one, other) >= 0.9,
        "bits",
    ),
    "euclidean": Case(
        ("--kind", "vector:6:euclidean"),
        ("--max-distance", 0.1),
        (VECTORS := vectors_of(5)),
        lambda one, other: math.dist(one, other) <= 0.1,
        "vector",
        "distance",
    ),
    "fingerprint": Case(
        ("--kind", "fingerprint", "--settings", json.dumps(PRINT)),
        ("--threshold", 0.8),
        PRINTS,
        shifted,
        "fingerprint",
    ),
    "record": Case(
        ("--kind", "record", "--settings", json.dumps(RECORD)),
        ("--threshold", 0.95),
        PEOPLE,
        lambda one, other: one["town"] == other["town"],
        "record",
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request):
    return request.param


@pytest.fixture
def store(case: Case, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "kinds.simdb"
    rows = [case.row(key, item) for key, item in enumerate(case.items, 1)]
    write_rows(tmp_path / "in.jsonl", rows)
    done("create", path, "c", *case.new, "--seed", 1, "--recall", 0.999)
    report = json.loads(
        done("add", path, "c", tmp_path / "in.jsonl", "--id-field", "id", "--json").stdout
    )
    assert (report["added"], report["since"]) == (len(case.items), 0)
    yield path
    assert run("check", path, "--deep").exit_code == 0


def test_pairs_and_groups_are_the_true_ones(case, store):
    pairs = lines_of("pairs", store, "c", "--exact")
    assert {(pair["left"], pair["right"]) for pair in pairs} == case.pairs
    assert len(case.pairs) >= 5
    assert {tuple(pair) for pair in pairs} == {("left", "right", case.measured)}
    shown = done("pairs", store, "c", "--exact", *case.bound)
    assert shown.stdout.count("\n") == len(case.pairs)
    assert f"{pairs[0][case.measured]:.6f}\t" in shown.stdout
    assert "none is missing" in shown.stderr
    groups = lines_of("groups", store, "c", *case.bound)
    assert groups[0]["keys"] == [1, 6]


def test_a_search_takes_every_form_of_probe(case, store, tmp_path):
    item = case.items[0]
    by_key = lines_of("search", store, "c", "--key", 1, "--integer-keys", *case.bound)
    assert [match["key"] for match in by_key] == [6]
    assert set(by_key[0]) == {"key", case.measured}
    found = lines_of("search", store, "c", "--item", json.dumps(item))
    assert [match["key"] for match in found] == [1, 6]
    assert found[1] == by_key[0]
    write_rows(tmp_path / "probe.jsonl", [case.row(1, item)])
    probe = tmp_path / "probe.jsonl"
    if case.field == "text":
        probe.write_text(item)
    if case.field in ("set", "bag"):
        probe.write_text(" ".join(item))
        assert lines_of("search", store, "c", "--set", " ".join(item)) == found
    assert lines_of("search", store, "c", "--input", probe) == found
    shown = done("search", store, "c", "--item", json.dumps(item))
    assert case.measured in shown.stdout
    assert "2 matches; " in shown.stderr


def test_what_is_exported_is_added_again(case, store, tmp_path):
    out = tmp_path / "out.jsonl"
    done("export", store, "c", "-o", out)
    done("create", store, "again", *case.new)
    done("add", store, "again", out, "--id-field", "id")
    assert done("export", store, "again").stdout == out.read_text()
    with simdb.open(store, read_only=True) as db:
        for one, other in zip(db["c"].items(), db["again"].items(), strict=True):
            assert (
                (one.key, one.metadata) == (other.key, other.metadata) == (other.key, {"more": "x"})
            )
            assert np.array_equal(one.item, other.item)
    got = lines_of("get", store, "again", 1, "--integer-keys")[0]
    write_rows(tmp_path / "got.jsonl", [case.row(99, got["item"])])
    done("add", store, "again", tmp_path / "got.jsonl", "--id-field", "id")
    assert lines_of("search", store, "again", "--key", 99, "--integer-keys")[0]["key"] == 1
    assert done("get", store, "again", 1, "--integer-keys").stdout.startswith("key: 1\nmore: x\n\n")


def test_duplicates_are_found_and_removed(case, store, tmp_path):
    out, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
    lines = (tmp_path / "in.jsonl").read_text().splitlines(keepends=True)
    arguments = ("dedupe", tmp_path / "in.jsonl", *case.new, "--recall", "0.999")
    done(*arguments, "-o", out, "--removed", removed, "--id-field", "id")
    assert out.read_text() == "".join(lines[:5])
    rows = [json.loads(line) for line in removed.read_text().splitlines()]
    assert [row["duplicate_of"] for row in rows] == [1, 2, 3, 4, 5]
    assert case.measured in rows[0]
    duplicates = tmp_path / "duplicates.jsonl"
    (tmp_path / "new.jsonl").write_text(lines[2].replace('"id": 3', '"id": 30'))
    done(
        "add", store, "c", tmp_path / "new.jsonl", "--id-field", "id", "--duplicates", duplicates,
        *case.bound,
    )  # fmt: skip
    (row,) = [json.loads(line) for line in duplicates.read_text().splitlines()]
    assert (row["duplicate_of"], row["stored"], case.measured in row) == (3, True, True)
    with_store = ("dedupe", tmp_path / "in.jsonl", "--store", store, "--collection", "c")
    done(*with_store, "-o", tmp_path / "none.jsonl", "--id-field", "id", *case.kind)
    assert (tmp_path / "none.jsonl").read_text() == "".join(lines)  # each is itself


def test_two_collections_are_joined(case, store):
    joined = lines_of("join", store, "c", "c", "--exact", *case.bound)
    both = case.pairs | {(right, left) for left, right in case.pairs}
    both |= {(key, key) for key in range(1, len(case.items) + 1)}
    assert {(pair["left"], pair["right"]) for pair in joined} == both
    assert done("join", store, "c", "c").stdout.count("\n") <= len(both)


def test_a_collection_is_rebuilt_audited_and_described(case, store):
    done("rebuild", store, "c", *case.bound, "--seed", 2)
    report = json.loads(done("audit", store, "c", *case.bound, "--json").stdout)
    assert report["true_pairs"] == 2 * len(case.pairs)
    bound = "max_distance" if case.measured == "distance" else "threshold"
    assert 0 < report[bound] <= 2
    assert bound.replace("_", " ") in done("audit", store, "c").stdout
    for command in (("stats",), ("stats", "--json"), ("pairs", "c", "--guarantee", "probable")):
        done(command[0], store, *command[1:])


def test_the_wrong_bound_is_refused_by_name(case, store, tmp_path):
    wrong = ("--threshold", 0.5) if case.measured == "distance" else ("--max-distance", 3)
    right = str(case.bound[0])
    item = json.dumps(case.items[0])
    for command in (
        ("search", store, "c", "--item", item),
        ("pairs", store, "c"),
        ("groups", store, "c"),
        ("join", store, "c", "c"),
        ("audit", store, "c"),
        ("rebuild", store, "c"),
        ("add", store, "c", tmp_path / "in.jsonl"),
        ("create", tmp_path / "new.simdb", "c", *case.kind),
        ("plan", *case.kind),
        ("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "out", *case.kind),
    ):
        refused = run(*command, *wrong)
        assert (refused.exit_code, refused.stdout) == (2, ""), command
        assert f"are compared by {case.measured}: give {right}, not" in refused.stderr, command
    both = run("pairs", store, "c", "--threshold", 0.5, "--max-distance", 1)
    assert "--threshold and --max-distance contradict" in both.stderr
    assert not (tmp_path / "new.simdb").exists()


def test_a_plan_is_shown_for_every_kind(case):
    plan = json.loads(done("plan", *case.new, "--json").stdout)
    assert plan["bands"] >= 1
    if case.field in ("record", "fingerprint"):
        assert plan["expected_recall"] is None or plan["expected_recall"] <= 1
    else:
        assert 0.99 <= plan["expected_recall"] < 1
        assert set(plan["curve"][0]) == {case.measured, "probability"}
        most = [point["probability"] for point in plan["curve"]]
        assert most == sorted(most, reverse=case.measured == "distance")
    assert done("plan", *case.new).stdout


def test_a_curve_is_drawn_into_a_file(tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "curve.svg"
    for new in (CASES["euclidean"].new, CASES["tanimoto"].new, CASES["bag-sum"].new, ()):
        target.unlink(missing_ok=True)
        done("plan", *new, "--plot", target)
        assert target.read_bytes().startswith(b"<?xml")
    assert run("plan", *CASES["fingerprint"].new, "--plot", target).exit_code == 2
    assert run("plan", "--exact", "--plot", target).exit_code == 2
    assert run("plan", "--plot", tmp_path / "curve.pdf").exit_code == 2
    assert run("plan", "--kind", "vector:3", "--exact").exit_code == 2
    assert run("plan", "--kind", "vector:3").exit_code == 2


BAD = {
    "bag": ('{"bag": 5}', '{"bag": {"a": -1}}', '{"bag": [1, "a"]}'),
    "bits": ('{"bits": "012"}', '{"bits": "0x1"}', '{"bits": 1}', '{"bits": [0, 2]}'),
    "vector": (
        '{"vector": "1 2"}',
        '{"vector": [1, 2, 3, 4, 5, 1%s]}' % ("0" * 400),
        '{"vector": [1, "x"]}',
        '{"vector": [1]}',
        "7",
    ),
    "fingerprint": ('{"fingerprint": {}}', '{"fingerprint": [[1, 2]]}', '{"fingerprint": []}'),
    "record": ('{"nam": "x"}', "[1]", '{"name": {"x": 1}}', '{"age": "young"}'),
}


@pytest.mark.parametrize(
    "name", ["bag-sum", "hamming", "tanimoto", "euclidean", "fingerprint", "record"]
)
def test_bad_rows_are_told_by_line(name, tmp_path):
    case = CASES[name]
    bad = BAD[case.field]
    good = json.dumps(case.row(1, case.items[0]))
    path, source = tmp_path / "s.simdb", tmp_path / "in.jsonl"
    source.write_text("\n".join((good, *bad, good)))
    done("create", path, "c", *case.new)
    stopped = run("add", path, "c", source)
    assert stopped.exit_code == 2
    assert "in.jsonl, line " in stopped.stderr
    arguments = ("add", path, "c", source, "--on-existing", "skip", "--on-bad", "skip", "--json")
    report = json.loads(done(*arguments).stdout)
    assert (report["added"] + report["present"], report["bad"]) == (2, len(bad))
    places = sorted(int(row["place"].rpartition(" ")[2]) for row in report["bad_rows"])
    assert places == list(range(2, 2 + len(bad)))


def add(path: Path, case: str, source: Path, content: str | None, *options: object) -> None:
    if content is not None:
        source.write_text(content)
    run("create", path, case, *CASES[case].new)
    done("add", path, case, source, *options)


def stored(path: Path, case: str) -> dict[Any, Any]:
    return {row["id"]: row[CASES[case].field] for row in map(json.loads, exported(path, case))}


def exported(path: Path, case: str) -> list[str]:
    return done("export", path, case).stdout.splitlines()


def test_vectors_come_from_csv_lines_baskets_and_arrays(tmp_path):
    path = tmp_path / "s.simdb"
    one, other = VECTORS[:2]
    blank, comma = " ".join(map(str, one)), ",".join(map(str, other))
    add(path, "euclidean", tmp_path / "a.csv", f"id,vector,n\na,{blank},1\n", "--id-field", "id")
    (tmp_path / "b.csv").write_text(f"u,v,w,x,y,z,id\n{comma},b\n")
    columns = [word for name in "uvwxyz" for word in ("--item-field", name)]
    done("add", path, "euclidean", tmp_path / "b.csv", *columns, "--id-field", "id")
    add(path, "euclidean", tmp_path / "c.txt", f"c {blank}\n", "--id-field", 1)
    add(path, "euclidean", tmp_path / "d.basket", f"d,{comma}\n", "--id-field", 1)
    add(path, "euclidean", tmp_path / "e.txt", f"{comma}\n", "--separator", ",")
    assert stored(path, "euclidean") == {"a": one, "b": other, "c": one, "d": other, 1: other}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8])
def test_rows_of_arrays_are_vectors(dtype, tmp_path):
    path = tmp_path / "s.simdb"
    array = np.arange(1, 31).reshape(5, 6).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    add(path, "euclidean", tmp_path / "a.npy", None)
    keys: dict[str, Any] = {"keys": np.array(["p", "q", "r", "s", "t"]), "other": np.zeros(3)}
    np.savez(tmp_path / "b.npz", vector=array, **keys)
    add(path, "euclidean", tmp_path / "b.npz", None, "--id-field", "keys")
    np.savez_compressed(tmp_path / "c.npz", array, ids=np.arange(50, 55))
    add(path, "euclidean", tmp_path / "c.npz", None, "--id-field", "ids")
    rows = array.astype(float).tolist()
    by_key = dict(enumerate(rows, 1)) | dict(zip("pqrst", rows, strict=True))
    assert stored(path, "euclidean") == by_key | dict(enumerate(rows, 50))
    done("dedupe", tmp_path / "a.npy", "-o", tmp_path / "kept", *CASES["euclidean"].new)
    assert (tmp_path / "kept").read_text() == "1\n2\n3\n4\n5\n"


def test_bits_come_as_text_hexadecimal_and_arrays(tmp_path):
    path = tmp_path / "s.simdb"
    bits = BITS[0]
    digits = f"0x{int(bits, 2):010x}"
    add(path, "hamming", tmp_path / "a.jsonl",
        json.dumps({"bits": digits}) + "\n" + json.dumps(list(map(int, bits))) + "\n")  # fmt: skip
    add(path, "hamming", tmp_path / "b.csv", f"id,bits\nb,{digits}\nc,{' '.join(bits)}\n",
        "--id-field", "id")  # fmt: skip
    add(path, "hamming", tmp_path / "d.txt", f"d {bits}\n", "--id-field", 1)
    rows = np.array([list(map(int, bits))] * 2, np.uint8)
    for number, array in enumerate((rows, rows.astype(bool), np.packbits(rows, axis=1))):
        keys = np.array([10, 11]) + 10 * number
        np.savez(tmp_path / "e.npz", bits=array, id=keys)
        add(path, "hamming", tmp_path / "e.npz", None, "--id-field", "id")
    keys_of_all = [1, 2, "b", "c", "d", 10, 11, 20, 21, 30, 31]
    assert stored(path, "hamming") == dict.fromkeys(keys_of_all, bits)


def test_fingerprints_come_from_files_of_minutiae(tmp_path):
    folder = tmp_path / "prints"
    folder.mkdir()
    for number, print_ in enumerate(PRINTS[:2]):
        lines = [f"{x} {y} {angle} 50" for x, y, angle in print_]
        (folder / f"{number}.xyt").write_text("\n".join([*lines, ""]))
    (folder / "bad.txt").write_text("1 2 3\n\n4 5\n")
    path = tmp_path / "s.simdb"
    done("create", path, "c", *CASES["fingerprint"].new)
    report = json.loads(done("add", path, "c", folder, "--on-bad", "skip", "--json").stdout)
    (bad,) = report["bad_rows"]
    assert bad["place"].endswith("file 3")
    assert "'bad.txt': line 3 has 2 numbers" in bad["problem"]
    assert [row["key"] for row in lines_of("search", path, "c", "--input", folder / "0.xyt")] == [
        "0.xyt"
    ]
    add(path, "fingerprint", folder / "1.xyt", None)
    squares = {"width": 100, "height": 100, "items": "squares", "measure": "squares"}
    done("create", path, "s", "--kind", "fingerprint", "--settings", json.dumps(squares))
    (tmp_path / "s.txt").write_text("3 1\n2")
    done("add", path, "s", tmp_path / "s.txt")
    assert json.loads(done("export", path, "s").stdout)["fingerprint"] == [1, 2, 3]
    (tmp_path / "s.txt").write_text("3 x")
    assert "'x' is no number of a square" in run("add", path, "s", tmp_path / "s.txt").stderr


def test_records_come_from_columns(tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / "people.csv"
    done("create", path, "c", *CASES["record"].new)
    source.write_text("id,name,town,age,shop\n1,Ann,Ulm,30,x\n2,Bob,,,y\n3,Eve,Ulm,old,z\n")
    report = json.loads(
        done("add", path, "c", source, "--id-field", "id", "--on-bad", "skip", "--json").stdout
    )
    assert [row["place"] for row in report["bad_rows"]] == [f"{source}, line 4"]
    got = lines_of("get", path, "c", 2)[0]
    assert got["item"] == {"name": "Bob", "town": "", "age": ""}
    assert got["metadata"] == {"shop": "y"}
    source.write_text("id,name,age\n4,Ann,30\n")
    assert "no field 'town'" in run("add", path, "c", source, "--id-field", "id").stderr
    assert "is a field of the records" in run("add", path, "c", source, "--id-field", "age").stderr
    assert run("add", path, "c", source, "--item-field", "name").exit_code == 2
    assert run("export", path, "c", "--item-field", "name").exit_code == 2
    assert run("export", path, "c", "--id-field", "town").exit_code == 2
    assert "no field 'nam'" in run("search", path, "c", "--item", '{"nam": "x"}').stderr


def test_dates_in_records_are_written_as_they_are_read(tmp_path):
    import datetime

    path = tmp_path / "s.simdb"
    kind = Record([Field("born", compare="date", tolerance=30), Field("name")])
    with simdb.open(path) as db:
        item = {"born": datetime.date(2001, 2, 3), "name": "x"}
        db.collection("c", kind).add("k", item, metadata={"n": 1})
    assert json.loads(done("export", path, "c").stdout) == {
        "id": "k", "born": "2001-02-03", "name": "x", "n": 1,
    }  # fmt: skip
    assert "born: 2001-02-03; name: x" in done("get", path, "c", "k").stdout


def test_ratings_become_sets_and_bags(tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / "ratings.csv"
    source.write_text("user,film,rating\na,x,5\na,y,1\nb,x,4\nb,y,3\nb,z,many\n")
    options = ("--id-field", "user", "--set-field", "film", "--on-bad", "skip", "--json")
    done("create", path, "fans", "--kind", "set")
    report = json.loads(done("add", path, "fans", source, "--ratings", "liked:4", *options).stdout)
    assert report["bad_rows"][0]["place"] == f"{source}, line 6"
    assert [row["set"] for row in map(json.loads, exported_of(path, "fans"))] == [["x"], ["x"]]
    done("create", path, "stars", "--kind", "bag")
    done("add", path, "stars", source, "--ratings", "stars", *options)
    bags = {row["id"]: Counter(row["bag"]) for row in map(json.loads, exported_of(path, "stars"))}
    assert bags == {"a": {"x": 5, "y": 1}, "b": {"x": 4, "y": 3}}
    done("create", path, "texts")
    for wrong in (
        ("fans", "--ratings", "stars"),
        ("fans", "--ratings", "loved"),
        ("fans", "--rating-field", "n"),
        ("texts", "--ratings", "stars"),
    ):
        assert run("add", path, wrong[0], source, *options, *wrong[1:]).exit_code == 2


def exported_of(path: Path, name: str) -> list[str]:
    return done("export", path, name).stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Text()),
        ({"kind": "text", "settings": '{"shingles": "word:2"}'}, Text(WordShingles(2))),
        (
            {"settings": '{"shingles": {"of": "stop-word", "following": 1}, "lowercase": true}'},
            Text(StopWordShingles(1), lowercase=True),
        ),
        ({"settings": '{"unicode": "keep"}', "shingles": "character:4"},
         Text(CharacterShingles(4), unicode="keep")),
        ({"kind": "set"}, Set()),
        ({"kind": "bag"}, Bag()),
        ({"kind": "bag:maximum"}, Bag("maximum")),
        ({"kind": "bits:64:tanimoto"}, Bits(64, "tanimoto")),
        ({"kind": "bits", "settings": '{"length": 9}'}, Bits(9)),
        ({"kind": "vector:3", "settings": '{"measure": "manhattan"}'}, Vector(3, "manhattan")),
        ({"settings": '{"kind": "vector", "dimension": 2}'}, Vector(2)),
        ({"kind": "fingerprint:300:200"}, Fingerprint(300, 200)),
        (
            {"settings": json.dumps({"kind": "record", **RECORD})},
            Record([Field("name", tolerance=5), Field("town"), Field("age", compare="numeric")],
                   ["town"]),
        ),
        (
            {"kind": "record", "settings": '{"fields": ["a", "b"], "candidates": '
             '[["a", {"field": "b", "transformations": ["first:2"]}]]}'},
            Record([Field("a"), Field("b")], [("a", Equal("b", ["first:2"]))]),
        ),
    ],
)  # fmt: skip
def test_kinds_are_described_by_names_and_json(options, kind):
    assert KindOptions(**options).new() == kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "image"}, "--kind must be text or set"),
        ({"kind": "bits"}, "--kind bits needs length"),
        ({"kind": "record"}, "--kind record needs fields"),
        ({"kind": "vector:many"}, "the dimension must be a whole number"),
        ({"kind": "set:3"}, "--kind is at most set"),
        ({"kind": "vector:3:cosine:4"}, "--kind is at most vector:DIMENSION:MEASURE"),
        ({"kind": "vector:0"}, "--kind and --settings: Vector.dimension"),
        ({"kind": "bag:most"}, "Bag.union must be"),
        ({"kind": "bits:8", "settings": '{"length": 9}'}, "both give length"),
        ({"kind": "bits:8", "settings": '{"kind": "set"}'}, "--kind says bits"),
        ({"settings": '{"kind": "sets"}'}, "the kind of --settings"),
        ({"settings": '{"kind": ["set"]}'}, "the kind of --settings"),
        ({"settings": '{"kind": "set"'}, "--settings: not JSON"),
        ({"settings": '{"colour": 3}'}, "text has no setting 'colour'; it has shingles"),
        ({"settings": '{"shingles": 3}'}, "shingles must be"),
        ({"settings": '{"shingles": {"of": "word", "sizes": 3}}'}, "no setting 'sizes'"),
        ({"kind": "record", "settings": '{"fields": {}}'}, "fields must be a list"),
        ({"kind": "record", "settings": '{"fields": [3]}'}, "a field must be a name"),
        ({"kind": "record", "settings": '{"fields": [{"weight": 3}]}'}, "a field must be"),
        ({"kind": "record", "settings": '{"fields": [{"name": "a", "w": 3}]}'}, "no setting 'w'"),
        ({"kind": "record", "settings": '{"fields": ["a"], "candidates": "a"}'}, "must be a list"),
        (
            {"kind": "record", "settings": '{"fields": ["a"], "candidates": ["b"]}'},
            "names the field",
        ),
        ({"kind": "vector:3", "lowercase": True}, "--lowercase is a setting of texts, not of vect"),
    ],
)
def test_wrong_settings_name_the_option(options, message):
    with pytest.raises(UsageError, match=message):
        KindOptions(**options).new()


def test_settings_come_from_a_file(tmp_path):
    path = tmp_path / "kind.json"
    path.write_text('\ufeff{"kind": "bits", "length": 12}', encoding="utf-8")
    assert KindOptions(settings=str(path)).new() == Bits(12)
    path.write_text("[]")
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        KindOptions(settings=str(path)).new()
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        KindOptions(settings=str(path)).new()
    path.unlink()
    refused = run("create", tmp_path / "s.simdb", "c", "--settings", path)
    assert refused.exit_code == 2
    assert "kind.json" in refused.stderr


def test_changed_settings_keep_the_others(tmp_path):
    base = Vector(3, "euclidean", bucket_width=2.0)
    changed = KindOptions(settings='{"bucket_width": 3.0}').changed(base)
    assert changed == Vector(3, "euclidean", bucket_width=3.0)
    with pytest.raises(ConfigurationError, match="holds vectors"):
        KindOptions(kind="set").changed(base)
    path = tmp_path / "s.simdb"
    done("create", path, "c", "--kind", "bits:8", "--max-distance", 1)
    done("rebuild", path, "c", "--settings", '{"measure": "tanimoto"}', "--threshold", "0.5")
    assert "tanimoto" in done("stats", path, "c", "--json").stdout
    assert run("rebuild", path, "c", "--settings", '{"length": 9}').exit_code == 2


def test_without_a_distance_all_are_compared_with_all(tmp_path):
    path = tmp_path / "s.simdb"
    created = done("create", path, "c", "--kind", "vector:2:euclidean")
    assert "comparing with all" in created.stderr
    (tmp_path / "in.jsonl").write_text("[0, 0]\n[0, 1]\n")
    done("add", path, "c", tmp_path / "in.jsonl")
    pairs = lines_of("pairs", path, "c", "--max-distance", "1")
    assert pairs == [{"left": 1, "right": 2, "distance": 1.0}]
    refused = run("dedupe", tmp_path / "in.jsonl", "-o", "-", "--kind", "vector:2")
    assert "need --max-distance" in refused.stderr
    assert run("create", path, "d", "--kind", "vector:2", "--exact-floor", "0.5").exit_code == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"", "no NumPy file"),
        ("a.npy", b"nonsense", "no NumPy file"),
        ("a.npz", b"PK\x03\x04nonsense", "no NumPy file"),
        ("a.npy", np.zeros(3), "rows of numbers"),
        ("a.npy", np.zeros((2, 2), "M8[s]"), "rows of numbers"),
        ("a.npy", np.array([[1, {}]], object), "no NumPy file"),
        ("a.npy", np.full((2, 6), np.nan), "a.npy, row 1: the component nan"),
        ("a.npy", np.ones((2, 5)), "a.npy, row 1: the vectors of this collection have 6"),
        ("a.npy.gz", b"", "read from files, as they are"),
        ("absent.npy", None, "no such file"),
    ],
)
def test_arrays_that_hold_no_vectors_are_refused(name, content, message, tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / name
    if isinstance(content, bytes):
        source.write_bytes(content)
    elif content is not None:
        np.save(source, content)
    done("create", path, "c", *CASES["euclidean"].new)
    refused = run("add", path, "c", source)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_arrays_and_their_keys_have_names(tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", *CASES["euclidean"].new)
    rows = np.ones((2, 6))
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "b.npz", one=rows, two=rows, short=np.arange(1), real=np.ones(2))
    for source, options, message in (
        ("a.npy", ("--id-field", "id"), "their numbers are the keys"),
        ("a.npy", ("--item-field", "a", "--item-field", "b"), "one array"),
        ("b.npz", (), "there is no array 'vector'; there are 'one', 'two'"),
        ("b.npz", ("--item-field", "one", "--id-field", "id"), "there is no array 'id'"),
        ("b.npz", ("--item-field", "one", "--id-field", "short"), "must be 2 whole numbers"),
        ("b.npz", ("--item-field", "one", "--id-field", "real"), "must be 2 whole numbers"),
    ):
        refused = run("add", path, "c", tmp_path / source, *options)
        assert refused.exit_code == 2
        assert message in refused.stderr
    np.savez(tmp_path / "c.npz", vector=rows, id=np.array(["x\ny", "007"]))
    skip = ("--id-field", "id", "--on-bad", "skip", "--json")
    report = json.loads(done("add", path, "c", tmp_path / "c.npz", *skip).stdout)
    assert (report["added"], report["bad_rows"][0]["place"]) == (1, f"{tmp_path / 'c.npz'}, row 1")
    integers = run("add", path, "c", tmp_path / "c.npz", "--id-field", "id", "--integer-keys")
    assert integers.exit_code == 2
    assert run("add", path, "c", "-", "--format", "numpy").exit_code == 2


@pytest.mark.parametrize("item", ["", "[1", "1, 2", "NaN", "null", '"\\ud800"', "[" * 100_000])
def test_items_that_are_no_json_are_refused(item, tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", *CASES["euclidean"].new)
    refused = run("search", path, "c", "--item", item)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("simdb: --item: ")
    assert refused.stderr.count("\n") == 1


def test_probes_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "v", *CASES["euclidean"].new)
    done("create", path, "b", "--kind", "bag")
    for name, option, hint in (("v", "--text", "--item"), ("v", "--set", "--item"),
                               ("b", "--text", "--set")):  # fmt: skip
        refused = run("search", path, name, option, "1 2")
        assert refused.exit_code == 2
        assert f"{hint} gives one" in refused.stderr
    assert run("search", path, "v", "--item", "[1]", "--elements", "auto").exit_code == 2
    assert run("search", path, "v", "--item", "[1]", "--key", "x").exit_code == 2


def test_bounds_are_taken_as_they_are_written():
    assert Bound.parse("1/3", None).of(Set())["threshold"].denominator == 3
    assert Bound.parse(None, "0.1").of(Vector(2))["max_distance"].denominator == 10
    assert Bound.parse(None, None).of(Vector(2)) == {}
    for wrong in ("-1", "nan", "far"):
        with pytest.raises(UsageError, match="--max-distance must be"):
            Bound.parse(None, wrong)


@pytest.mark.data
def test_real_minutiae_and_records_and_vectors_are_added(data_directory, tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "words", "--kind", "vector:25", "--max-distance", 10, "--recall", 0.9)
    vectors = data_directory / "vectors" / "glove_twitter_25d.npy"
    assert json.loads(done("add", path, "words", vectors, "--json").stdout)["added"] == 11925
    settings = {"fields": ["name", "address", "city", "cuisine"], "candidates": ["name", "address"]}
    done(
        "create",
        path,
        "guides",
        "--kind",
        "record",
        "--settings",
        json.dumps(settings),
        "--threshold",
        0.6,
    )
    rows = data_directory / "records" / "fodors_zagat.csv"
    report = done("add", path, "guides", rows, "--id-field", "id", "--json").stdout
    assert json.loads(report)["added"] == 864
    assert len(lines_of("pairs", path, "guides")) > 50
