"""Inputs of every kind: many at once, patterns, partitioned folders, databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simdb.files import databases
from tests.support.commands import done, failed, run, write_rows

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "another text about the price of copper in London",
    "nothing here is like any of the other rows at all",
]
KEPT = [{"id": f"k{number}", "text": text} for number, text in enumerate(TEXTS)]
COPIES = [{"id": f"c{number}", "text": f"{text}!"} for number, text in enumerate(TEXTS)]
ID = ("--id-field", "id")


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def added(tmp_path: Path, *arguments: object) -> dict[str, dict[str, object]]:
    """What the items of a new collection and their metadata are, by key."""
    done("create", tmp_path / "s.simdb", "c")
    done("add", tmp_path / "s.simdb", "c", *arguments)
    lines = done("export", tmp_path / "s.simdb", "c").stdout.splitlines()
    return {row.pop("id"): row for row in map(json.loads, lines)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two months of rows, the second of which are copies of the first."""
    for month, rows in (("1", KEPT), ("2", COPIES)):
        (tmp_path / "in" / month).mkdir(parents=True)
        write_rows(tmp_path / "in" / month / "rows.jsonl", rows)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / month / "rows.parquet")
    return tmp_path / "in"


@pytest.mark.parametrize(
    "named",
    [["1/rows.jsonl", "2/rows.jsonl"], ["*/rows.jsonl"], ["1/*.jsonl", "[2-9]/r*"], ["**/*.jsonl"]],
)
def test_several_inputs_and_patterns_are_all_of_their_rows(folder, tmp_path, named):
    if named[-1] == "[2-9]/r*":
        (folder / "2" / "rows.parquet").unlink()
    done("dedupe", *[folder / name for name in named], "-o", tmp_path / "kept.jsonl", *ID)
    assert ids(tmp_path / "kept.jsonl") == ["k0", "k1", "k2"]


def test_folders_too_deep_for_a_pattern_are_told(tmp_path, monkeypatch):
    def too_deep(*_):
        raise RecursionError

    monkeypatch.setattr(Path, "glob", too_deep)
    told = failed("dedupe", tmp_path / "**" / "*.txt", "-o", tmp_path / "kept")
    assert "*.txt: folders are nested too deeply for a pattern" in told


def test_a_pattern_of_nothing_and_an_input_twice_are_refused(folder, tmp_path):
    output = ("-o", tmp_path / "kept.jsonl")
    assert "no such file" in failed("dedupe", folder / "*.csv", *output)
    twice = failed("dedupe", folder / "1" / "rows.jsonl", folder / "1" / "*.jsonl", *output, *ID)
    assert "rows.jsonl is given as an input twice" in twice
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "b.md", ".c.txt"):
        (tmp_path / "texts" / name).write_text(f"the text of {name}, which is another one")
    texts = ["dedupe", tmp_path / "texts", *output]
    assert "a.txt is given as an input twice: " in failed(*texts, tmp_path / "texts" / "*.txt")
    beside = [tmp_path / "texts" / name for name in (".c.txt", "*.txt")]  # not read of the folder
    done("dedupe", tmp_path / "texts", *beside, "--pattern", "*.md", "-o", tmp_path / "list")
    assert "is an input" in failed(
        "dedupe", folder / "*" / "*.jsonl", "-o", folder / "1/rows.jsonl"
    )
    unlike = failed("dedupe", folder / "1" / "rows.jsonl", write_csv(tmp_path), *output, *ID)
    assert "inputs of csv and jsonl cannot share an output" in unlike
    assert not (tmp_path / "kept.jsonl").exists()


def write_csv(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("id,text\nx,y\n")
    return tmp_path / "a.csv"


def test_a_name_with_the_signs_of_a_pattern_is_that_file(tmp_path):
    write_rows(tmp_path / "rows[1].jsonl", KEPT)
    done("dedupe", tmp_path / "rows[1].jsonl", "-o", tmp_path / "kept.jsonl")
    assert ids(tmp_path / "kept.jsonl") == ["k0", "k1", "k2"]


def test_line_numbers_of_several_inputs_are_told_apart(folder, tmp_path):
    inputs = [folder / "1" / "rows.jsonl", folder / "2" / "rows.jsonl"]
    done("dedupe", *inputs, "-o", tmp_path / "kept.jsonl", "--removed", tmp_path / "removed.jsonl")
    removed = [json.loads(line) for line in (tmp_path / "removed.jsonl").read_text().splitlines()]
    assert [(row["id"], row["duplicate_of"]) for row in removed] == [
        (f"{inputs[1]}:{line}", f"{inputs[0]}:{line}") for line in (1, 2, 3)
    ]
    done("create", tmp_path / "s.simdb", "c")
    refused = failed("add", tmp_path / "s.simdb", "c", *inputs)
    assert "line numbers would give several inputs the same keys" in refused


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("file", [1, 2])
def test_line_numbers_are_no_keys_of_a_new_store(folder, tmp_path, file, is_there):
    """The rows of the next file would come under the same; nor of a collection without items."""
    if is_there:
        done("create", tmp_path / "s.simdb", "documents")
    inputs = [folder / str(number) / "rows.jsonl" for number in range(1, file + 1)]
    command = ("dedupe", *inputs, "-o", tmp_path / "kept.jsonl", "--store", tmp_path / "s.simdb")
    assert "line numbers come again in the next file: --id-field" in failed(*command)
    assert not (tmp_path / "kept.jsonl").exists()
    done(*command, "--make-keys", "content")


def test_arrays_are_told_of_keys_in_words_of_their_own_and_texts_have_theirs(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.zeros((3, 4), numpy.float32))
    command = ("--kind", "vector:4:euclidean", "--max-distance", "1", "-o", tmp_path / "keys")
    stored = ("--store", tmp_path / "s.simdb")
    refused = failed("dedupe", tmp_path / "a.npy", *command, *stored)
    assert "names an array of keys in a .npz file" in refused
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one text of some words")
    texts = ("dedupe", tmp_path / "texts", *stored, "-o", tmp_path / "kept")
    for _ in range(2):
        done(*texts)
        assert (tmp_path / "kept").read_text() == "a.txt\n"
    (tmp_path / "texts" / "a.txt").write_text("another text altogether, and longer")
    refused = failed(*texts)
    assert "--on-existing replace updates it" in refused
    assert "line numbers" not in refused


def test_what_stands_in_a_line_is_not_replaced_by_that_of_another_file(folder, tmp_path):
    done("create", tmp_path / "s.simdb", "texts")
    done("add", tmp_path / "s.simdb", "texts", folder / "1" / "rows.jsonl")
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "text": "what no other file has in its first line"}\n')
    refused = failed(
        *("dedupe", other, "-o", tmp_path / "k"),
        *("--store", tmp_path / "s.simdb", "--collection", "texts"),
    )
    told = "keys are line numbers here; in a new collection --id-field names"
    assert told in refused
    assert "replace" not in refused
    store = (tmp_path / "s.simdb", "texts")
    assert told in done("add", *store, other, "--bad", tmp_path / "bad").stderr
    assert told in (tmp_path / "bad").read_text()
    named = ("--store", store[0], "--collection", "texts", "--on-bad", "skip")
    with other.open("a") as more:
        more.writelines(f"""{{"text": "one of number {number**9}"}}\n""" for number in range(9))
    assert told in done("dedupe", other, "-o", tmp_path / "k", *named).stderr


def test_what_another_file_had_under_the_name_of_this_one_is_not_replaced(tmp_path):
    source = tmp_path / "rows.jsonl"
    command = ["dedupe", source, "--make-keys", "place", "-o", tmp_path / "kept.jsonl"]
    command += ["--store", tmp_path / "s.simdb"]
    write_rows(source, KEPT)
    done(*command)
    write_rows(source, [{"text": f"{text}, but of next month"} for text in TEXTS])
    told = "keys are the name of the input and the line here; another file needs another name"
    refused = failed(*command)
    assert told in refused
    assert "--on-existing" not in refused
    assert told in run(*command, "--on-bad", "skip").stderr
    adding = ["add", tmp_path / "s.simdb", "documents", source, "--make-keys", "place"]
    assert told in failed(*adding)
    assert "3 rows" in done(*command, "--key-prefix", "next/", "--yes").stderr


def test_places_of_standard_input_are_no_keys_of_a_store(tmp_path):
    """What comes next would have the same; a prefix makes others."""
    rows = "".join(json.dumps(row) + "\n" for row in KEPT)
    place, store = ["--make-keys", "place"], tmp_path / "s.simdb"
    done("create", store, "documents")
    command = ["dedupe", "-", "-o", tmp_path / "kept.jsonl", *place]
    adding = ["add", store, "documents", "-", *place]
    for asked in ([*command, "--store", store], adding):
        refused = failed(*asked, stdin=rows)
        assert "the rows of standard input the same keys each time: --key-prefix" in refused
    done(*command, stdin=rows)
    done(*command, "--store", store, "--key-prefix", "first ", stdin=rows)
    assert ids(tmp_path / "kept.jsonl") == ["k0", "k1", "k2"]
    done(*adding, "--key-prefix", "second ", stdin=rows)


def test_texts_of_two_folders_under_one_name_have_keys_by_a_pattern(tmp_path, monkeypatch):
    for month, topic in (("jan", "copper in london"), ("feb", "snow in the north")):
        (tmp_path / month / "new").mkdir(parents=True)
        for path in ("1.txt", "new/2.txt"):
            (tmp_path / month / path).write_text(f"a text about {topic}, of {path}")
    monkeypatch.chdir(tmp_path)
    command = ("-o", "-", "--store", "s.simdb")
    done("dedupe", "jan", *command)
    for source in ("feb", "./feb/"):
        refused = failed("dedupe", source, *command)
        assert "'feb/*.txt' in place of the folder makes keys that have its name" in refused
        assert "--on-existing replace" in refused
    skipped = done("dedupe", "feb", *command, "--bad", "bad")
    for told in (skipped.stderr, Path("bad").read_text()):
        assert "'feb/*.txt' in place of the folder makes keys that have its name" in told
    assert "feb/*.txt' in place" in failed("dedupe", "jan", "feb", "-o", "-")
    monkeypatch.chdir("feb")
    assert "/feb/*.txt' in place" in failed("dedupe", ".", "-o", "-", "--store", "../s.simdb")
    monkeypatch.chdir("..")
    Path("feb/1.txt").unlink()
    assert "'feb/**/*.txt' in place of the folder" in failed("dedupe", "feb", *command)
    assert done("dedupe", "feb/**/*.txt", *command).stdout == "feb/new/2.txt\n"


def test_inputs_go_to_a_folder_each_under_its_name(folder, tmp_path):
    done("dedupe", folder / "*" / "*.parquet", "-o", f"{tmp_path / 'out'}/", *ID)
    assert pq.read_table(tmp_path / "out" / "1" / "rows.parquet").to_pylist() == KEPT
    assert pq.read_table(tmp_path / "out" / "2" / "rows.parquet").num_rows == 0
    clash = [folder / "1" / "rows.parquet", folder / "2" / "rows.parquet"]
    assert "would both go to" in failed("dedupe", *clash, "-o", f"{tmp_path / 'new'}/", *ID)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def partitioned(tmp_path: Path) -> Path:
    """A folder whose names are columns, one of which the files have themselves."""
    for place, rows in (
        ("lang=en/day=1", KEPT),
        ("lang=a%2Fb/day=__HIVE_DEFAULT_PARTITION__", COPIES),
    ):
        path = tmp_path / "in" / place
        path.mkdir(parents=True)
        whole = pa.Table.from_pylist([{**row, "day": 7} for row in rows])
        pq.write_table(whole, path / "part-0.parquet")
    return tmp_path / "in"


def test_the_folders_of_a_partitioned_one_are_columns(partitioned, tmp_path):
    rows = added(tmp_path, partitioned, *ID)
    assert rows["k0"] == {"text": TEXTS[0], "lang": "en", "day": 7}
    assert rows["c0"]["lang"] == "a/b"
    done("dedupe", partitioned, "-o", tmp_path / "kept.parquet", *ID)
    kept = pq.read_table(tmp_path / "kept.parquet", partitioning=None)
    assert kept.schema.names == ["id", "text", "day", "lang"]
    assert set(map(tuple, kept.select(["lang", "day"]).to_pylist()[0].items())) <= {
        ("lang", "a/b"), ("lang", "en"), ("day", 7),
    }  # fmt: skip
    done("dedupe", partitioned, "-o", f"{tmp_path / 'out'}/", *ID)
    names = {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.parquet")}
    assert names == {path.relative_to(partitioned) for path in partitioned.rglob("*.parquet")}
    shard = next((tmp_path / "out").rglob("*.parquet"))
    assert pq.ParquetFile(shard).schema_arrow.names == ["id", "text", "day"]


def test_a_partition_may_be_the_key_or_the_item(tmp_path):
    for number, text in enumerate(TEXTS):
        path = tmp_path / "in" / f"id=k{number}"
        path.mkdir(parents=True)
        pq.write_table(pa.table({"text": [text]}), path / "a.parquet")
    assert set(added(tmp_path, tmp_path / "in", *ID)) == {"k0", "k1", "k2"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as made:
        made.execute('CREATE TABLE "my posts" (id TEXT, text TEXT, n REAL, image BLOB)')
        for row in KEPT + COPIES:
            made.execute('INSERT INTO "my posts" VALUES (?, ?, 1.5, ?)', (*row.values(), b"\0"))
    made.close()
    return path


def test_a_table_of_sqlite_is_its_rows(database, tmp_path):
    before = database.read_bytes()
    source = f"sqlite:{database}:my posts"
    done("dedupe", source, "-o", tmp_path / "kept.jsonl", "--removed", tmp_path / "removed", *ID)
    assert ids(tmp_path / "kept.jsonl") == ["k0", "k1", "k2"]
    row = json.loads((tmp_path / "removed").read_text().splitlines()[0])["row"]
    assert row == {**COPIES[0], "n": 1.5, "image": "AA=="}
    again = tmp_path / "again.jsonl"
    done("dedupe", source, "-o", again, *ID)
    assert again.read_bytes() == (tmp_path / "kept.jsonl").read_bytes()
    assert database.read_bytes() == before


def test_bytes_are_left_out_of_metadata_and_that_is_said(database, tmp_path):
    done("create", tmp_path / "s.simdb", "c")
    ran = done("add", tmp_path / "s.simdb", "c", f"sqlite:{database}:my posts", *ID)
    assert ran.stderr.count("bytes of the column 'image' are not kept as metadata") == 1
    line = done("get", tmp_path / "s.simdb", "c", "k0", "--json").stdout
    assert json.loads(line)["metadata"] == {"n": 1.5}


def test_a_query_is_a_table_too(database, tmp_path):
    query = f"sqlite:{database}:SELECT id AS key, text FROM 'my posts' WHERE id LIKE 'c%'"
    assert set(added(tmp_path, query, "--id-field", "key")) == {"c0", "c1", "c2"}


def test_duckdb_reads_tables_and_queries(tmp_path):
    with duckdb.connect(tmp_path / "d.duckdb") as made:
        made.sql("create table posts (id text, text text, day date)")
        made.executemany(
            "insert into posts values (?, ?, '2026-01-02')", [list(row.values()) for row in KEPT]
        )
    rows = added(tmp_path, f"duckdb:{tmp_path / 'd.duckdb'}:posts", *ID)
    assert rows["k1"] == {"text": TEXTS[1], "day": "2026-01-02"}
    pq.write_table(pa.Table.from_pylist(KEPT + COPIES), tmp_path / "in.parquet")
    query = f"duckdb::SELECT id, text FROM '{tmp_path / 'in.parquet'}'"
    done("dedupe", query, "-o", tmp_path / "kept.jsonl", *ID)
    assert ids(tmp_path / "kept.jsonl") == ["k0", "k1", "k2"]


def test_duckdb_downloads_no_extension(tmp_path):
    setting = "current_setting('autoinstall_known_extensions')::text"
    done("dedupe", f"duckdb::SELECT 1 AS id, {setting} AS text", "-o", tmp_path / "k.jsonl", *ID)
    assert json.loads((tmp_path / "k.jsonl").read_text())["text"] == "false"


def test_infinities_and_far_times_of_databases_are_text(tmp_path):
    with sqlite3.connect(tmp_path / "q.db") as made:
        made.execute("CREATE TABLE t (id TEXT, text TEXT, r REAL)")
        made.execute("INSERT INTO t VALUES ('a', 'some text to keep', 9e999)")
        made.execute("INSERT INTO t VALUES ('b', NULL, -9e999)")
    made.close()
    source, kept, bad = f"sqlite:{tmp_path / 'q.db'}:t", tmp_path / "k.jsonl", tmp_path / "bad"
    done("dedupe", source, "-o", kept, "--bad", bad, *ID)
    row = {"id": "a", "text": "some text to keep", "r": "inf"}
    assert json.loads(kept.read_text(), parse_constant=pytest.fail) == row
    told = json.loads(json.loads(bad.read_text())["row"], parse_constant=pytest.fail)
    assert told["r"] == "-inf"
    query = (
        "duckdb::SELECT 'a' id, 'some text to keep' as text, ['inf'::float8, 'nan', 1] r, "
        "'-infinity'::timestamptz z, 'infinity'::timestamp t, '290000-01-01'::date d"
    )
    far: dict[str, Any] = {
        "r": ["inf", None, 1.0],
        "z": "-infinity",
        "t": "infinity",
        "d": "290000-01-01",
    }
    for number, (one, told) in enumerate([(source, {"r": "inf"}), (query, far)]):
        store = tmp_path / f"{number}.simdb"
        done("dedupe", one, "-o", kept, "--store", store, "--on-bad", "skip", *ID)
        assert json.loads(kept.read_text(), parse_constant=pytest.fail) == {**row, **told}
        line = done("get", store, "documents", "a", "--json").stdout
        assert json.loads(line)["metadata"] == told


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "in.jsonl", KEPT)
    for command in (["dedupe", "", "-o", "-"], ["dedupe", "in.jsonl", "", "-o", "-"]):
        assert "the name of an input is empty" in failed(*command)
    assert ids(tmp_path / "in.jsonl") == ["k0", "k1", "k2"]


def test_queries_that_begin_with_many_comments_are_read_at_once():
    begin = "/* -- * -- **/\n" * 200
    assert databases._QUERY.match(f"{begin}select 1")
    assert not databases._QUERY.match(f"{begin}pragma 1")


def test_a_long_query_can_be_read_twice(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db")) as made:
        made.execute("CREATE TABLE t (id TEXT, name TEXT, town TEXT)")
        rows = [(n, f"name {n * 7919 % 97} {n * n}", f"town {n % 9}") for n in range(60)]
        made.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        made.commit()
    query = f"sqlite:{tmp_path / 'a.db'}:SELECT * FROM t WHERE 1 = 1 {'AND 1 = 1 ' * 40}"
    done("dedupe", query, "--kind", "record", "-o", tmp_path / "kept.jsonl", "--threshold", "0.9")


def test_tables_of_sqlite_may_be_called_like_queries(tmp_path):
    """And queries may begin with comments."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as made:
        for name in ("values", "with-data", "select list", "("):
            made.execute(f'CREATE TABLE "{name}" (id TEXT, text TEXT)')
            made.execute(f'INSERT INTO "{name}" VALUES (?, ?)', (name, "some text of words"))
        made.commit()
    named = ["values", "with-data", "select list", "("]
    queries = ["-- all\n select * from 'values'", "/* all\n */ select * from 'values'"]
    for source in named + queries:
        done("dedupe", f"sqlite:{path}:{source}", "-o", tmp_path / "kept.jsonl", *ID)
        assert ids(tmp_path / "kept.jsonl") == [source if source in named else "values"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("sqlite:{}:none", "there is no table 'none'; there are 'my posts'"),
        ("sqlite:{}:select text from nowhere", "SQLite cannot read it: no such table"),
        ("sqlite:{}:select id from 'my posts'", "there is no column 'text'; there are 'id'"),
        ("sqlite:{}:select text, text from 'my posts'", "there are two columns 'text'"),
        ("sqlite:{}", "does not name a table"),
        ("duckdb:select " + "a, " * 200 + "b from t", "does not name a table"),
        ("sqlite:{}.gone:t", "no such file or folder"),
        ("duckdb:{}.gone:t", "no such file or folder"),
        ("duckdb::select * from nowhere", "DuckDB cannot read it: "),
        ("duckdb::select if(i > 9, error('no'), 'x') as text from range(99) r(i)", "read it: "),
        ("sqlite:{}.torn:t", "SQLite cannot read it: file is not a database"),
        ("duckdb:{0}:t", "is one of SQLite, which sqlite:{0}:t reads"),
        ("duckdb::select * from 'a.xlsx'", "it downloads no extension here"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_and_nothing_is_written(
    database, tmp_path, monkeypatch, source, told
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where DuckDB has its extensions
    Path(f"{database}.torn").write_bytes(b"no database" * 100)
    message = failed("dedupe", source.format(database.name), "-o", "kept.jsonl")
    assert told.format(database.name) in message
    assert not Path("kept.jsonl").exists()


def test_dates_and_times_of_duckdb_without_end_are_text(tmp_path):
    query = """duckdb::SELECT * FROM (VALUES
        (1, 'some words', DATE 'infinity', TIMESTAMP '-infinity', '11'::BIT),
        (2, 'other texts', DATE '2020-02-03', NULL, '1'::BIT)) t(id, text, d, t, b)"""
    done("dedupe", query, "-o", tmp_path / "kept.jsonl", *ID)
    lines = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert [list(json.loads(line).values())[2:] for line in lines] == [
        ["infinity", "-infinity", "11"],
        ["2020-02-03", None, "1"],
    ]


def test_an_output_that_is_the_database_is_refused(database):
    before = database.read_bytes()
    assert "is an input" in failed("dedupe", f"sqlite:{database}:my posts", "-o", database)
    assert database.read_bytes() == before


def test_rows_of_tables_that_hold_anything_are_rows(tmp_path):
    table = pa.table(
        {
            "id": ["a", "b", "c"],
            "text": TEXTS,
            "share": [0.5, float("nan"), float("inf")],
            "image": [{"bytes": b"\0", "path": "x"}, None, {"bytes": None, "path": "y"}],
            "raw": [b"\0", None, b"1"],
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    rows = added(tmp_path, tmp_path / "in.parquet", *ID)
    assert rows["a"] == {"text": TEXTS[0], "share": 0.5, "image": {"path": "x"}}
    assert rows["b"] == {"text": TEXTS[1], "share": None}
    assert rows["c"] == {"text": TEXTS[2], "share": "inf", "image": {"bytes": None, "path": "y"}}


def test_shards_of_other_types_are_told_before_any_row_is_read(tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a"], "n": [1]}), tmp_path / "in" / "1.parquet")
    pq.write_table(pa.table({"text": ["b"], "n": [0.5]}), tmp_path / "in" / "2.parquet")
    told = failed("dedupe", tmp_path / "in", "-o", tmp_path / "kept.parquet")
    assert "2.parquet: its columns differ from those of" in told
    assert "it has 'n' of double, not int64" in told
    (tmp_path / "in" / "2.parquet").unlink()
    pq.write_table(pa.table({"text": ["b"]}), tmp_path / "in" / "3.parquet")
    told = failed("dedupe", tmp_path / "in", "-o", tmp_path / "kept.parquet")
    assert told.rstrip().endswith("it lacks 'n' of int64")
    assert run("dedupe", tmp_path / "in", "-o", tmp_path / "kept.jsonl").exit_code == 0


def test_a_query_may_be_longer_than_the_name_of_a_file(tmp_path):
    more = "".join(f", {number} AS column_{number}" for number in range(40))
    query = f"duckdb::SELECT 1 AS id, 'some words of a text' AS text{more}"
    printed = done("dedupe", query, "-o", "-", "--id-field", "id")
    assert json.loads(printed.stdout)["column_39"] == 39
    done("create", tmp_path / "s.simdb", "c")
    done("add", tmp_path / "s.simdb", "c", query, "--id-field", "id")
