"""Outputs of commands: names that promise another format, runs that would remove nearly all."""

import gzip
import json
import os
import tempfile
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simdb
from simdb.ingest import rows as rows_of
from tests.support.cli_stores import ROWS, text_of
from tests.support.commands import done, failed, program, run, write_rows

ID = ("--id-field", "id")


@pytest.mark.parametrize(
    "name", ["k.parquet", "out.csv", "out.CSV.gz", "k.npy", "k.arrow", "rows.tsv.zst"]
)
def test_an_output_whose_name_promises_another_format_is_refused(tmp_path, name):
    source = write_rows(tmp_path / "in.jsonl", ROWS)
    store = tmp_path / "s.simdb"
    done("create", store, "c")
    for command in (
        ["dedupe", source, "-o", tmp_path / name],
        ["dedupe", source, "-o", tmp_path / "kept", "--removed", tmp_path / name],
        ["add", store, "c", source, "--duplicates", tmp_path / name],
        ["export", store, "c", "-o", tmp_path / name],
    ):
        if command[0] == "export" and name in ("k.parquet", "k.arrow"):
            continue  # it writes tables
        assert f"the name of {tmp_path / name} means " in failed(*command)
    assert not (tmp_path / name).exists()
    (tmp_path / "in.csv").write_text("text\none\n")
    assert "means jsonl, but csv would be written" in failed(
        "dedupe", tmp_path / "in.csv", "-o", tmp_path / "out.jsonl"
    )
    done("dedupe", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    packed = failed("export", store, "c", "-o", tmp_path / "k.parquet.gz")
    assert "tables are already compressed inside" in packed


def test_tabs_that_are_named_may_stand_in_a_file_called_csv(tmp_path):
    content = "id\ttext\na\tsome words\n"
    (tmp_path / "x.csv").write_text(content)
    for name in ("y.csv", "y.tsv", "y.csv.gz"):
        done("dedupe", tmp_path / "x.csv", "--delimiter", "tab", "-o", tmp_path / name, *ID)
    assert (tmp_path / "y.csv").read_text() == (tmp_path / "y.tsv").read_text() == content
    as_csv = ("--format", "csv", "--delimiter", "tab", *ID)
    with (tmp_path / "x.csv").open("rb") as piped:
        program("dedupe", "-", *as_csv, "-o", tmp_path / "piped.csv", stdin=piped)
    assert (tmp_path / "piped.csv").read_text() == content
    (tmp_path / "x.tsv").write_text(content)
    assert "tsv would be written" in failed(
        "dedupe", tmp_path / "x.tsv", "-o", tmp_path / "z.csv", *ID
    )


@pytest.mark.parametrize(
    ("source", "mark", "fitting", "other"),
    [
        ("d.csv", "\t", ("csv", "tsv", "tsv.gz"), None),
        ("d.tsv", ";", ("csv", "tsv"), None),
        ("d.csv", ";", ("csv",), "tsv"),
        ("d.csv.gz", "\t", ("csv", "tsv"), None),
        ("d.tsv", "\t", ("tsv",), "csv"),
    ],
)
def test_the_name_of_an_output_fits_the_delimiter_that_the_header_tells(
    tmp_path, source, mark, fitting, other
):
    content = f"id{mark}text\na{mark}some words\n".encode()
    packed = gzip.compress(content) if source.endswith(".gz") else content
    (tmp_path / source).write_bytes(packed)
    for ending in fitting:
        done("dedupe", tmp_path / source, "-o", tmp_path / f"kept.{ending}", *ID)
    assert (tmp_path / f"kept.{fitting[0]}").read_bytes() == content
    if other is not None:
        told = failed("dedupe", tmp_path / source, "-o", tmp_path / f"no.{other}", *ID)
        assert f"means {other}, but {fitting[0]} would be written" in told


def test_the_delimiter_of_what_is_read_once_is_told_by_its_name(tmp_path):
    content = "id\ttext\na\tsome words\n"
    command = ["dedupe", "-", "--format", "csv", *ID, "-o"]
    done(*command, tmp_path / "kept.csv", stdin=content)
    assert (tmp_path / "kept.csv").read_text() == content
    assert "but csv would be written" in failed(*command, tmp_path / "kept.tsv", stdin=content)


@pytest.mark.parametrize("beside", ["", "-lock", "-turn"])
def test_an_output_that_would_be_the_store_is_refused_before_there_is_one(tmp_path, beside):
    source, store = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "s.simdb"
    output = f"{store}{beside}"
    for given in (["-o", tmp_path / "k", "--removed", output], ["-o", output]):
        told = failed("dedupe", source, *given, "--store", store, *ID)
        assert f"{output} belongs to the store" in told
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_table_from_standard_input_is_refused_whatever_is_written(tmp_path):
    for output in ("-", tmp_path / "o.parquet", tmp_path / "o.jsonl"):
        told = failed("dedupe", "-", "--format", "parquet", "-o", output, *ID)
        assert "-: a table cannot be read from standard input or compressed" in told


def test_line_numbers_are_refused_where_texts_are_keys(tmp_path):
    source = write_rows(tmp_path / "in.jsonl", ROWS)
    arguments = ["dedupe", source, "-o", tmp_path / "kept.jsonl", "--store", tmp_path / "s.simdb"]
    done(*arguments, "--id-field", "id")
    kept = (tmp_path / "kept.jsonl").read_bytes()
    refused = failed(*arguments)
    assert "come from the field 'id', and those of these rows from the numbers of lines" in refused
    assert "--id-field names the field of the key, and --other-keys allows both" in refused
    refused = failed(*arguments, "--other-keys")
    assert "are texts, such as 'a', and those of this input are line numbers" in refused
    assert (tmp_path / "kept.jsonl").read_bytes() == kept
    done(*arguments, "--id-field", "id")
    assert (tmp_path / "kept.jsonl").read_bytes() == kept


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_number_whose_text_is_a_stored_key_is_refused_in_any_row(tmp_path, form):
    store, texts = tmp_path / "s.simdb", [f"number {n} is a text about {n * n}" for n in range(4)]
    rows = [{"id": key, "text": text} for key, text in zip("a1b", texts, strict=False)]
    done("dedupe", write_rows(tmp_path / "0.jsonl", rows[:2]), "-o", "-", *ID, "--store", store)
    later: list[dict[str, Any]] = [rows[2], {"id": 1, "text": texts[1]}]
    source = write_rows(tmp_path / "1.jsonl", later)
    if form == "parquet":
        source = tmp_path / "in"
        source.mkdir()
        for number, row in enumerate(later):
            pq.write_table(pa.Table.from_pylist([row]), source / f"{number}.parquet")
    told = failed("dedupe", source, "-o", tmp_path / "out.jsonl", *ID, "--store", store)
    place = f"{source}, line 2" if form == "jsonl" else f"{source / '1.parquet'}, row 1"
    assert f"{place}: the key 1 is stored as '1'" in told
    assert not (tmp_path / "out.jsonl").exists()
    with simdb.open(store) as db:
        assert 1 not in db["documents"]
        assert ("b" in db["documents"]) == (form == "parquet")  # a batch of its own
    # Other numbers are keys of their own, also when the rows come again.
    mixed = write_rows(tmp_path / "2.jsonl", [rows[2], {"id": 7, "text": texts[3]}])
    for _ in range(2):
        ran = done("dedupe", mixed, "-o", "-", *ID, "--store", store)
        assert ran.stdout.encode() == mixed.read_bytes()


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("waits", [[], ["--policy", "longest"]])
def test_a_key_of_both_types_is_refused_in_the_first_run_as_in_the_second(tmp_path, order, waits):
    store, text = tmp_path / "s.simdb", "the council approved the new bridge over the river"
    rows: list[dict[str, Any]] = [{"id": 1, "text": text}, {"id": "1", "text": f"{text}!"}]
    rows = rows[::order]
    source = write_rows(tmp_path / "in.jsonl", rows)
    command = ["dedupe", source, *ID, "-o", tmp_path / "out.jsonl", *waits]
    own, other = (repr(row["id"]) for row in rows[::-1])
    for _ in range(2):
        told = failed(*command, "--store", store)
        assert f"in.jsonl, line 2: the key {own} came earlier as {other}" in told
        assert not (tmp_path / "out.jsonl").exists()
    with simdb.open(store) as db:
        assert not len(db["documents"])
    done(*command)  # no later row is compared with a store that goes


def test_the_key_of_a_removed_row_is_refused_in_the_other_type(tmp_path, monkeypatch):
    """Otherwise it would be stored, and the removed row be refused when the rows come again."""
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", 2)
    store, texts = tmp_path / "s.simdb", [f"number {n} is a text about {n * n}" for n in range(5)]
    # For Python -1 and -2 have one hash; only -2 was removed.
    given: list[tuple[Any, int]] = [(7, 0), (-2, 0), (8, 1), (9, 1), ("a", 2), ("-1", 3), ("b", 4)]
    rows = [{"id": key, "text": texts[which]} for key, which in [*given, ("-2", 2)]]
    source = write_rows(tmp_path / "in.jsonl", rows)
    for _ in range(2):
        told = failed("dedupe", source, *ID, "-o", tmp_path / "out.jsonl", "--store", store)
        assert "line 8: the key '-2' came earlier as -2" in told
    with simdb.open(store) as db:
        assert "-1" in db["documents"]
        assert -2 not in db["documents"]


def test_rows_of_both_types_come_again_in_any_order(tmp_path):
    """Under a policy the first row stored, and its key, need not be the first of the input."""
    store = tmp_path / "s.simdb"
    rows: list[dict[str, Any]] = [
        {"id": 1, "text": "a text of one"},
        {"id": "b", "text": "and another one, longer"},
    ]
    source = write_rows(tmp_path / "in.jsonl", rows)
    for _ in range(2):
        ran = done("dedupe", source, *ID, "-o", "-", "--store", store, "--policy", "longest")
        assert ran.stdout.encode() == source.read_bytes()
    # In a collection of both, all keys are looked up in the other type.
    later = write_rows(tmp_path / "later.jsonl", [{"id": "1", "text": "a text of one"}])
    told = failed("dedupe", later, *ID, "-o", "-", "--store", store)
    assert "line 1: the key '1' is stored as 1" in told


def test_keys_from_elsewhere_are_refused_until_that_is_meant(tmp_path):
    rows = [{"id": f"a{seed}", "url": f"b{seed}", "text": text_of(seed)} for seed in range(5)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    store, kept = tmp_path / "s.simdb", tmp_path / "kept.jsonl"
    adding, deduping = ["add", store, "c", source], ["dedupe", source, "-o", kept]
    deduping += ["--store", store, "--collection", "c"]
    done("create", store, "c")
    bad = write_rows(tmp_path / "bad.jsonl", [{"text": 1}])
    failed("add", store, "c", bad)  # stores nothing, so its way of making keys binds nobody
    done(*adding, "--id-field", "id")
    done("rebuild", store, "c", "--seed", "1")
    (told,) = json.loads(done("stats", store, "c", "--json").stdout)["settings"]["key_sources"]
    assert told == "the field 'id'"
    for other, told in (
        (["--id-field", "url"], "from the field 'url'"),
        (["--make-keys", "content"], "from the content"),
        (["--make-keys", "place"], "from the names and lines of inputs"),
        ([], "from the numbers of lines"),
    ):
        for command in (adding, deduping):
            refused = failed(*command, *other)
            assert f"come from the field 'id', and those of these rows {told}" in refused
            assert "--other-keys allows both" in refused
    assert not kept.exists()
    done(*deduping, "--id-field", "id")
    assert kept.read_bytes() == source.read_bytes()
    done(*deduping, "--id-field", "url", "--other-keys")  # and from now on without saying so
    assert "5 rows: 0 kept" in done(*deduping, "--id-field", "url").stderr
    done("dump", store, tmp_path / "dumped")
    done("load", tmp_path / "dumped", tmp_path / "loaded.simdb")
    with simdb.open(tmp_path / "loaded.simdb") as database:
        sources = database["c"].stats()["settings"]["key_sources"]
    assert sources == ["the field 'id'", "the field 'url'"]


def test_a_run_that_would_remove_nearly_all_rows_asks_first(tmp_path):
    for name in ("old", "new"):
        rows = [{"id": f"{name}{seed}", "text": text_of(seed)} for seed in range(120)]
        write_rows(tmp_path / f"{name}.jsonl", rows)
    arguments = ["-o", tmp_path / "kept.jsonl", "--store", tmp_path / "s.simdb", "--id-field", "id"]
    done("dedupe", tmp_path / "old.jsonl", *arguments)
    assert (tmp_path / "kept.jsonl").read_bytes().count(b"\n") == 120
    refused = failed("dedupe", tmp_path / "new.jsonl", *arguments)
    assert "120 of 120 rows would be removed: 120 duplicate rows stored under other" in refused
    assert (tmp_path / "kept.jsonl").read_bytes().count(b"\n") == 120
    done("dedupe", tmp_path / "new.jsonl", *arguments, "--yes")
    assert (tmp_path / "kept.jsonl").read_bytes() == b""
    done("dedupe", tmp_path / "old.jsonl", *arguments)  # rows that are themselves are kept


def test_an_export_of_one_text_everywhere_empties_no_store(tmp_path):
    def write(name: str, texts: list[str]) -> Any:
        rows = [{"id": f"k{number}", "text": text} for number, text in enumerate(texts)]
        write_rows(tmp_path / name, rows)
        return tmp_path / name

    texts = [text_of(seed) for seed in range(120)]
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--on-existing", "replace"]
    kept = ["-o", tmp_path / "kept.jsonl", *store]

    def stored() -> list[str]:
        with simdb.open(tmp_path / "s.simdb") as database:
            return [record.item for record in database["documents"].items()]

    done("dedupe", write("good.jsonl", texts), *kept)
    before = (tmp_path / "kept.jsonl").read_bytes()
    broken = write("broken.jsonl", ["error 500: there is no such server"] * 120)
    refused = failed("dedupe", broken, *kept)
    assert "119 of 120 rows would delete the stored rows with the same keys" in refused
    assert "repeat the command with --yes" in refused
    assert stored() == texts
    assert (tmp_path / "kept.jsonl").read_bytes() == before

    some = write("some.jsonl", [*texts[:12], *["error 500: there is no such server"] * 108])
    done("dedupe", some, *kept)  # 107 of 120 are fewer than nine tenths
    assert len(stored()) == 13
    done("dedupe", write("good.jsonl", texts), *kept)
    done("dedupe", broken, *kept, "--yes")
    assert stored() == ["error 500: there is no such server"]


def test_a_store_is_asked_for_before_better_rows_replace_what_it_has(tmp_path):
    def write(name: str, texts: list[str]) -> Any:
        rows = [{"id": f"{name[0]}{number}", "text": text} for number, text in enumerate(texts)]
        write_rows(tmp_path / name, rows)
        return tmp_path / name

    texts = [text_of(seed) for seed in range(120)]
    removed = tmp_path / "removed.jsonl"
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--policy", "longest"]
    wanted = ["-o", tmp_path / "kept.jsonl", "--removed", removed, *store]
    done("dedupe", write("january.jsonl", texts), *wanted)
    shorter, longer = [text[:-2] for text in texts[:110]], [text + "!!" for text in texts[110:]]
    february = write("february.jsonl", shorter + longer)
    refused = failed("dedupe", february, *wanted)
    assert "110 of 120 rows so far would be removed, since they duplicate rows stored" in refused
    assert "10 stored rows would be replaced by better ones" in refused
    with simdb.open(tmp_path / "s.simdb") as database:
        assert sorted(entry.item for entry in database["documents"].items()) == sorted(texts)
    assert removed.read_bytes() == b""
    done("dedupe", february, *wanted, "--yes")
    told = map(json.loads, removed.read_text().splitlines())
    named = [row["id"] for row in told if "superseded_by" in row]
    assert sorted(named) == [f"j{number}" for number in range(110, 120)]


def test_a_store_is_asked_for_before_the_first_part_of_a_batch_is_stored(tmp_path):
    """A batch is cut where an item that goes decides about a later row."""
    texts = [text_of(seed) for seed in range(120)]
    old = [{"id": f"o{n}", "text": text, "n": 5 if n == 0 else 9} for n, text in enumerate(texts)]
    new = [{"id": f"n{n}", "text": text, "n": 3} for n, text in enumerate(texts[1:])]
    new += [{"id": "better", "text": texts[0], "n": 8}]
    new += [{"id": "worse", "text": f"{texts[0]} end", "n": 4}]
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--policy", "n desc"]
    for name, rows in (("old.jsonl", old), ("new.jsonl", new)):
        write_rows(tmp_path / name, rows)
    done("dedupe", tmp_path / "old.jsonl", "-o", tmp_path / "kept.jsonl", *store)
    command = ["dedupe", tmp_path / "new.jsonl", "-o", tmp_path / "more.jsonl", *store]
    assert "119 of 121 rows so far" in failed(*command)
    with simdb.open(tmp_path / "s.simdb") as database:
        assert sorted(entry.key for entry in database["documents"].items()) == sorted(
            row["id"] for row in old
        )
    done(*command, "--yes")
    with simdb.open(tmp_path / "s.simdb") as database:
        assert "o0" not in {entry.key for entry in database["documents"].items()}


def test_rows_that_another_stored_item_removes_once_one_is_gone_are_asked_about(tmp_path):
    """The item that decides about them goes in the first part of their batch."""
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--policy", "n desc"]
    store += ["--kind", "string", "--max-distance", 1]
    old = [{"id": "gone", "string": "abcde", "n": 5}, {"id": "stays", "string": "abcxy", "n": 1}]
    new = [{"id": "better", "string": "zbcde", "n": 9}]
    new += [{"id": f"row {n}", "string": "abcxe", "n": -n} for n in range(120)]
    for name, rows in (("old.jsonl", old), ("new.jsonl", new)):
        write_rows(tmp_path / name, rows)
    done("dedupe", tmp_path / "old.jsonl", "-o", tmp_path / "kept.jsonl", *store)
    command = ["dedupe", tmp_path / "new.jsonl", "-o", tmp_path / "more.jsonl", *store]
    assert "120 of 121 rows so far" in failed(*command)
    with simdb.open(tmp_path / "s.simdb") as database:
        assert {entry.key for entry in database["documents"].items()} == {"gone", "stays"}


def test_rows_that_only_the_better_row_removes_are_not_asked_about(tmp_path):
    """The stored item that would decide goes for it, in the first part of their batch."""
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--policy", "n desc"]
    store += ["--kind", "string", "--max-distance", 1]
    new = [{"id": "better", "string": "abcdz", "n": 9}]
    new += [{"id": f"row {n}", "string": "abcdy", "n": 1} for n in range(150)]
    write_rows(tmp_path / "old.jsonl", [{"id": "old", "string": "abcde", "n": 5}])
    write_rows(tmp_path / "new.jsonl", new)
    for name in ("old", "new"):
        told = done("dedupe", tmp_path / f"{name}.jsonl", "-o", tmp_path / "kept.jsonl", *store)
    assert "150 removed (0 like stored rows, 150 like rows of this input)" in told.stderr


def test_rows_that_their_own_keys_drop_are_asked_about_as_what_they_are(tmp_path):
    """As of exports whose keys begin again each month, of which the later would be lost."""
    for name, first in (("january", 0), ("february", 120)):
        rows = [{"id": f"k{n}", "text": text_of(first + n)} for n in range(120)]
        write_rows(tmp_path / f"{name}.jsonl", rows)
    arguments = ["-o", tmp_path / "kept.jsonl", "--store", tmp_path / "s.simdb", "--id-field", "id"]
    done("dedupe", tmp_path / "january.jsonl", *arguments)
    again = [tmp_path / "february.jsonl", *arguments, "--on-existing", "keep"]
    assert (
        "120 of 120 rows would be removed: the keys of 120 are stored, whose rows --on-existing "
        "keep keeps; if that is intended, repeat the command with --yes"
    ) in failed("dedupe", *again)
    assert "0 kept, 120 removed (120 like stored rows" in done("dedupe", *again, "--yes").stderr


def test_rows_that_their_keys_drop_are_asked_about_before_a_part_is_stored(tmp_path):
    """Where stored rows keep their content, and their batch has to be cut."""
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id", "--policy", "n desc"]
    texts = [text_of(seed) for seed in range(241)]
    old = [{"id": f"s{n}", "text": text, "n": 10} for n, text in enumerate(texts[:120])]
    old.append({"id": "old", "text": texts[120], "n": 50})
    new = [{"id": "better", "text": texts[120] + " better", "n": 90}]
    new.append({"id": "worse", "text": texts[120] + " worse", "n": 40})
    new += [{"id": f"s{n}", "text": text, "n": 5} for n, text in enumerate(texts[121:])]
    for name, rows in (("old.jsonl", old), ("new.jsonl", new)):
        write_rows(tmp_path / name, rows)
    done("dedupe", tmp_path / "old.jsonl", "-o", tmp_path / "kept.jsonl", *store)
    command = ["dedupe", tmp_path / "new.jsonl", "-o", tmp_path / "more.jsonl", *store]
    assert "120 of 122 rows so far" in failed(*command, "--on-existing", "keep")
    with simdb.open(tmp_path / "s.simdb") as database:
        assert {entry.key for entry in database["documents"].items()} == {row["id"] for row in old}


def test_metadata_that_is_not_json_keeps_no_other_item_from_being_exported(tmp_path, monkeypatch):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        texts = db.collection("c", simdb.Text())
        texts.add("a", "a text", metadata={"n": 1})
        with monkeypatch.context() as earlier:
            earlier.setattr(rows_of, "encode_metadata", msgpack.packb)
            texts.add("b", "another", metadata={"x": [float("nan"), {"y": b"\xff"}], "z": -1e999})
        texts.add("c", "a third one")
    result = done("export", path, "c")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    assert lines[1] == {"id": "b", "text": "another", "x": ["nan", {"y": "ff"}], "z": "-inf"}
    assert result.stderr.count("is not all JSON") == 1
    assert "'b'" in result.stderr
    assert json.loads(done("get", path, "c", "b", "--json").stdout)["metadata"]["z"] == "-inf"


def test_answers_carry_metadata_that_only_earlier_versions_took(tmp_path, monkeypatch):
    path, table = tmp_path / "s.simdb", tmp_path / "t.parquet"
    with simdb.open(path) as db, monkeypatch.context() as earlier:
        earlier.setattr(rows_of, "encode_metadata", msgpack.packb)
        sets = db.collection("c", simdb.Set(), threshold=0.5)
        sets.add_many([(key, {1}, {"x": float("nan"), "y": b"\xff"}) for key in "ab"])
    told = {"x": "nan", "y": "ff"}
    pair = json.loads(done("pairs", path, "--metadata", "--json").stdout.splitlines()[0])
    assert (pair["left_metadata"], pair["right_metadata"]) == (told, told)
    assert done("pairs", path, "--metadata").stdout.count(json.dumps(told)) == 2
    group = json.loads(done("groups", path, "--metadata", "--json").stdout.splitlines()[0])
    assert group["metadata"] == [told, told]
    match = json.loads(done("search", path, "--key", "a", "--json").stdout.splitlines()[0])
    assert match["metadata"] == told
    done("export", path, "--metadata-field", "metadata", "-o", table)
    assert [json.loads(one) for one in pq.read_table(table)["metadata"].to_pylist()] == [told, told]
    with simdb.open(path) as db:
        columns = db["c"].pairs(metadata=True).to_arrow()
    assert json.loads(columns["left_metadata"][0].as_py()) == told


@pytest.mark.parametrize("folder", ["absent", "a file", "/proc"])
def test_a_file_that_cannot_be_made_is_named_as_it_was_given(tmp_path, folder):
    """An output is usage, a store, copy or dump is storage: as docs/command-line.md says."""
    store, rows, dumped = tmp_path / "s.simdb", tmp_path / "rows.jsonl", tmp_path / "dump"
    write_rows(rows, [{"id": "a", "text": text_of(1)}, {"id": "b", "text": text_of(2)}])
    done("create", store, "c")
    done("add", store, "c", rows, "--id-field", "id")
    done("dump", store, dumped)
    missing = tmp_path / folder  # /proc itself: what is absolute replaces it
    named = f"{missing}/new" if folder == "/proc" else str(missing)
    if folder == "a file":
        missing.touch()
    for code, *command in (
        (2, "dedupe", rows, "-o", missing / "new.jsonl"),
        (2, "dedupe", rows, "-o", tmp_path / "kept.jsonl", "--removed", missing / "new.jsonl"),
        (2, "add", store, "c", rows, "--id-field", "id", "--bad", missing / "new.jsonl"),
        (2, "search", store, "c", "--text", "a", "-o", missing / "new.jsonl"),
        (2, "export", store, "c", "-o", missing / "new.jsonl"),
        (3, "create", missing / "new.simdb", "c"),
        (3, "backup", store, missing / "new.simdb"),
        (3, "restore", store, missing / "new.simdb"),
        (3, "dump", store, missing / "new"),
        (3, "load", dumped, missing / "new.simdb"),
        (3, "repair", store, missing / "new.simdb"),
    ):
        refused = run(*command)
        assert refused.exit_code == code, command
        assert named in refused.stderr, command
        assert "/.new" not in refused.stderr, command
        assert "/.simdb" not in refused.stderr, command
        if code == 3 and folder != "/proc" and command[0] != "dump":
            assert f"there is no folder {missing} for new.simdb" in refused.stderr


def test_an_output_without_a_name_is_refused_in_words(tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.jsonl", [{"id": "a", "text": text_of(1)}])
    done("create", tmp_path / "s.simdb", "c")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for command in (("export", "s.simdb", "-o", ""), ("dedupe", "rows.jsonl", "-o", "")):
        refused = run(*command)
        assert refused.exit_code == 2
        assert refused.stderr == "simdb: the name of an output is empty\n"
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_is_no_dump_is_refused_in_words(tmp_path):
    refused = run("load", tmp_path / "nothing", tmp_path / "new.simdb").stderr
    named = tmp_path / "nothing" / "simdb.json"
    assert refused.endswith(f"is not a dump of a store: {named}: No such file or directory\n")


@pytest.mark.parametrize("command", [("recipe",), ("recipe", "--json")])
def test_a_recipe_is_one_line_and_several_with_json(tmp_path, command):
    done("create", tmp_path / "s.simdb", "c")
    name, *options = command
    printed = done(name, tmp_path / "s.simdb", "c", *options).stdout
    assert (printed.count("\n") > 1) == bool(options)
    assert simdb.Recipe.from_json(printed).kind == simdb.Text()


def test_what_leads_to_a_pipe_is_written_to(tmp_path):
    """As ``/dev/stdout`` does, or ``>(command)`` of a shell: what a link leads to has no name."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "text": "some words of a text"}\n')
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        run("dedupe", source, "-o", f"/dev/fd/{writing}", "--id-field", "id", "-q")
        os.close(writing)
        assert json.loads(pipe.read())["id"] == 1


def test_what_is_stored_meanwhile_lies_beside_the_file_that_a_link_leads_to(tmp_path, monkeypatch):
    """``/dev/stdout`` may lead to a file: in /dev there is no room."""
    source, here, there = tmp_path / "in.jsonl", tmp_path / "here", tmp_path / "there"
    source.write_text('{"id": 1, "text": "some words of a text"}\n')
    for folder in (here, there):
        folder.mkdir()
    (there / "out.jsonl").touch()
    (here / "link.jsonl").symlink_to(there / "out.jsonl")
    made, folders = tempfile.TemporaryDirectory, []

    def noted(**options: Any) -> Any:
        folders.append(options["dir"])
        return made(**options)

    monkeypatch.setattr("simdb.cli.dedupe.tempfile.TemporaryDirectory", noted)
    done("dedupe", source, "-o", here / "link.jsonl", "--id-field", "id")
    assert folders == [there]


@pytest.mark.parametrize("name", ["k.jsonl.bz2", "k.csv.xz", "k.zip"])
def test_a_name_of_a_compression_that_is_not_written_is_refused(tmp_path, name):
    source = write_rows(tmp_path / "in.jsonl", [{"id": 1, "text": "some words"}])
    told = failed("dedupe", source, "-o", tmp_path / name, "--id-field", "id")
    assert "but jsonl would be written" in told
