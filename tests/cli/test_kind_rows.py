"""The forms that items of every kind are read in by the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.kinds import Field, Record
from tests.support.commands import done, lines_of, run
from tests.support.kind_cases import ALL

CASES = {
    "bag": ALL["bag:sum"],
    "bits": ALL["bits:40:hamming"],
    "vector": ALL["vector:6:euclidean"],
    "fingerprint": ALL["fingerprint:160:160"],
    "record": ALL["record"],
}
BAD = {
    "bag": ('{"bag": 5}', '{"bag": {"a": -1}}', '{"bag": [1, "a"]}'),
    "bits": ('{"bits": "012"}', '{"bits": "0x1"}', '{"bits": 1.0}', '{"bits": [0, 2]}'),
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


@pytest.mark.parametrize("name", CASES)
def test_bad_rows_are_told_by_line(name, tmp_path):
    case, bad = CASES[name], BAD[name]
    good = json.dumps(case.row(1, case.plain[0]))
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
    done("add", path, case, source, "--other-keys", *options)  # each form has keys of its own


def stored(path: Path, case: str) -> dict[Any, Any]:
    return {row["id"]: row[case] for row in map(json.loads, exported(path, case))}


def exported(path: Path, case: str) -> list[str]:
    return done("export", path, case).stdout.splitlines()


def test_vectors_come_from_csv_lines_baskets_and_arrays(tmp_path):
    path = tmp_path / "s.simdb"
    one, other = CASES["vector"].plain[:2]
    blank, comma = " ".join(map(str, one)), ",".join(map(str, other))
    add(path, "vector", tmp_path / "a.csv", f"id,vector,n\na,{blank},1\n", "--id-field", "id")
    (tmp_path / "b.csv").write_text(f"u,v,w,x,y,z,id\n{comma},b\n")
    columns = [word for name in "uvwxyz" for word in ("--item-field", name)]
    done("add", path, "vector", tmp_path / "b.csv", *columns, "--id-field", "id")
    add(path, "vector", tmp_path / "c.txt", f"c {blank}\n", "--id-field", 1)
    add(path, "vector", tmp_path / "d.basket", f"d,{comma}\n", "--id-field", 1)
    add(path, "vector", tmp_path / "e.txt", f"{comma}\n", "--separator", ",")
    assert stored(path, "vector") == {"a": one, "b": other, "c": one, "d": other, 1: other}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8])
def test_rows_of_arrays_are_vectors(dtype, tmp_path):
    path = tmp_path / "s.simdb"
    array = np.arange(1, 31).reshape(5, 6).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    add(path, "vector", tmp_path / "a.npy", None)
    keys: dict[str, Any] = {"keys": np.array(["p", "q", "r", "s", "t"]), "other": np.zeros(3)}
    np.savez(tmp_path / "b.npz", vector=array, **keys)
    add(path, "vector", tmp_path / "b.npz", None, "--id-field", "keys")
    np.savez_compressed(tmp_path / "c.npz", array, ids=np.arange(50, 55))
    add(path, "vector", tmp_path / "c.npz", None, "--id-field", "ids")
    rows = array.astype(float).tolist()
    by_key = dict(enumerate(rows, 1)) | dict(zip("pqrst", rows, strict=True))
    assert stored(path, "vector") == by_key | dict(enumerate(rows, 50))
    done("dedupe", tmp_path / "a.npy", "-o", tmp_path / "kept", *CASES["vector"].new)
    assert (tmp_path / "kept").read_text() == "1\n2\n3\n4\n5\n"


def test_bits_come_as_text_hexadecimal_and_arrays(tmp_path):
    path = tmp_path / "s.simdb"
    bits = CASES["bits"].plain[0]
    digits = f"0x{int(bits, 2):010x}"
    add(path, "bits", tmp_path / "a.jsonl",
        json.dumps({"bits": digits}) + "\n" + json.dumps(list(map(int, bits))) + "\n")  # fmt: skip
    add(path, "bits", tmp_path / "b.csv", f"id,bits\nb,{digits}\nc,{' '.join(bits)}\n",
        "--id-field", "id")  # fmt: skip
    add(path, "bits", tmp_path / "d.txt", f"d {bits}\n", "--id-field", 1)
    rows = np.array([list(map(int, bits))] * 2, np.uint8)
    for number, array in enumerate((rows, rows.astype(bool), np.packbits(rows, axis=1))):
        keys = np.array([10, 11]) + 10 * number
        np.savez(tmp_path / "e.npz", bits=array, id=keys)
        add(path, "bits", tmp_path / "e.npz", None, "--id-field", "id")
    keys_of_all = [1, 2, "b", "c", "d", 10, 11, 20, 21, 30, 31]
    assert stored(path, "bits") == dict.fromkeys(keys_of_all, bits)


def test_fingerprints_come_from_files_of_minutiae(tmp_path):
    folder = tmp_path / "prints"
    folder.mkdir()
    for number, print_ in enumerate(CASES["fingerprint"].plain[:2]):
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
    assert "'x' is not the number of a square" in run("add", path, "s", tmp_path / "s.txt").stderr


def test_records_come_from_columns(tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / "people.csv"
    fields = ["name", "town", {"name": "age", "compare": "numeric"}]
    settings = json.dumps({"fields": fields, "candidates": ["town"]})
    done("create", path, "c", "--kind", "record", "--settings", settings)
    source.write_text("id,name,town,age,shop\n1,Ann,Ulm,30,x\n2,Bob,,,y\n3,Eve,Ulm,old,z\n")
    report = json.loads(
        done("add", path, "c", source, "--id-field", "id", "--on-bad", "skip", "--json").stdout
    )
    assert [row["place"] for row in report["bad_rows"]] == [f"{source}, line 4"]
    columns = ("--settings", settings.replace(', {"name": "age", "compare": "numeric"}', ', "age"'))
    planned = done("plan", "--kind", "record", *columns, source, "--items", 300, "--json").stdout
    assert json.loads(planned)["rules"] == [
        {
            **{"rule": "town", "records": 2, "largest": 2, "largest_pairs": 1, "pairs": 1},
            "expected_pairs": 14950.0,
        }
    ]
    others = tmp_path / "others.csv"
    others.write_text("id,name,town,age\n1,Al,Ulm,3\n2,Bo,Ulm,4\n3,Cy,Bonn,5\n4,Di,Ulm,6\n")
    join = ("plan", "--kind", "record", *columns, source, "--other", others)
    between = json.loads(done(*join, "--items", 30, "--other-items", 400, "--json").stdout)
    assert between["rules"] == [
        {
            **{"rule": "town", "records": 6, "largest": 5, "largest_pairs": 6, "pairs": 6},
            "expected_pairs": 6000.0,
        }
    ]
    of_ages = ("--settings", settings)
    others.write_text(others.read_text() + "5,Ed,Ulm,old\n")
    source.write_text("id,name,town,age\n1,Ann,Ulm,30\n")
    refused = run("plan", "--kind", "record", *of_ages, source, "--other", others)
    assert f"{others}, line 6: " in refused.stderr
    assert "--other is for a join" in run("plan", "--other", others).stderr
    assert "--other-items needs --other" in run("plan", "--other-items", 3).stderr
    source.write_text("id,name,town,age,shop\n1,Ann,Ulm,30,x\n2,Bob,,,y\n3,Eve,Ulm,old,z\n")
    assert "14,950" in done("plan", "--kind", "record", *columns, source, "--items", 300).stdout
    assert "--items is for buckets" in run("plan", "--exact", "--items", 3).stderr
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


def test_what_measures_what_is_missing_fits_the_answer(tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / "people.csv"
    source.write_text("id,name,town\n1,Ann,Ulm\n2,Ann,Ulm\n")
    for name in ("c", "d"):
        done("create", path, name, *CASES["record"].new)
        done("add", path, name, source, "--id-field", "id")
    assert "simdb audit measures how many" in done("pairs", path, "c").stderr
    assert "simdb audit measures how many" in done("groups", path, "c").stderr
    assert "some may be missing: --exact on a sample" in done("join", path, "c", "d").stderr
    assert "audit" not in done("join", path, "c", "d", "--json").stderr
    assert "none is missing" in done("join", path, "c", "d", "--exact").stderr


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


@pytest.mark.parametrize("policy", [(), ("--policy", "longest")])
def test_ratings_are_deduplicated_without_a_store(tmp_path, policy):
    source, kept = tmp_path / "ratings.csv", tmp_path / "kept.csv"
    source.write_text("user,movie,rating\na,m1,5\na,m2,4\nb,m1,5\nb,m2,4\nc,m3,5\n")
    fields = ("--id-field", "user", "--text-field", "movie", "--ratings", "liked:4")
    told = done("dedupe", source, "--kind", "set", *fields, *policy, "--threshold", "0.8",
                "-o", kept, "--json")  # fmt: skip
    assert (json.loads(told.stdout)["rows"], json.loads(told.stdout)["kept"]) == (3, 2)


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
    ("name", "content", "message"),
    [
        ("a.npy", b"", "not a NumPy file"),
        ("a.npy", b"nonsense", "not a NumPy file"),
        ("a.npz", b"PK\x03\x04nonsense", "not a NumPy file"),
        (
            "a.npy",
            b"\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'shape': (2,".ljust(74),
            "not a NumPy file",
        ),
        ("a.npy", np.zeros(3), "rows of numbers"),
        ("a.npy", np.zeros((2, 2), "M8[s]"), "rows of numbers"),
        ("a.npy", np.array([[1, {}]], object), "not a NumPy file"),
        ("a.npy", np.full((2, 6), np.nan), "a.npy, row 1: the component nan"),
        ("a.npy", np.ones((2, 5)), "a.npy, row 1: the vectors of this collection have 6"),
        ("a.npy.gz", b"", "cannot be read from standard input or compressed"),
        ("absent.npy", None, "no such file"),
    ],
)
def test_arrays_that_hold_no_vectors_are_refused(name, content, message, tmp_path):
    path, source = tmp_path / "s.simdb", tmp_path / name
    if isinstance(content, bytes):
        source.write_bytes(content)
    elif content is not None:
        np.save(source, content)
    done("create", path, "c", *CASES["vector"].new)
    refused = run("add", path, "c", source)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_arrays_and_their_keys_have_names(tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", *CASES["vector"].new)
    rows = np.ones((2, 6))
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "b.npz", one=rows, two=rows, short=np.arange(1), real=np.ones(2))
    for source, options, message in (
        ("a.npy", ("--id-field", "id"), "the row numbers are the keys"),
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
