"""The commands on a store: what they print, leave and return."""

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.files.writing import Output
from tests.support import cli_stores
from tests.support.cli_stores import ROWS, likeness, near_copy, text_of, words
from tests.support.commands import done, failed, lines_of, run, write_rows
from tests.support.kind_cases import ALL
from tests.support.processes import started

rows_file, store = cli_stores.rows_file, cli_stores.store
TWICE = {"name": "a", "equivalents": [["a", "b"], ["b", "c"]]}


def test_pairs_are_lines_of_left_right_and_true_similarity(store):
    pairs = lines_of("pairs", store, "news", "--threshold", 0.8)

    assert sorted((pair["left"], pair["right"]) for pair in pairs) == [
        ("a", "c"),
        ("b", "e\x1b[31m"),
    ]
    assert {tuple(pair) for pair in pairs} == {("left", "right", "similarity")}
    by_left = {pair["left"]: pair["similarity"] for pair in pairs}
    assert by_left["a"] == likeness(text_of(1), near_copy(1))


def test_pairs_for_people_are_lines_without_control_characters(store):
    result = done("pairs", store, "news")

    assert "\te\\x1b[31m\n" in result.stdout
    assert "\x1b" not in result.stdout
    assert "2 pairs" in result.stderr
    assert "recall" in result.stderr


def test_groups_are_lines_with_a_representative(store):
    assert lines_of("groups", store, "news") == [
        {"representative": "a", "keys": ["a", "c"]},
        {"representative": "b", "keys": ["b", "e\x1b[31m"]},
    ]
    assert done("groups", store, "news").stdout.startswith("2\ta\tc\n")


def test_search_finds_by_text_file_and_key(store, tmp_path):
    (tmp_path / "probe.txt").write_text(text_of(1))
    similar = likeness(text_of(1), near_copy(1))
    own = {"key": "a", "similarity": 1.0, "metadata": {"source": "one"}}
    both: list[dict[str, object]] = [own, {"key": "c", "similarity": similar}]

    assert lines_of("search", store, "news", "--text", text_of(1), "--threshold", 0.8) == both
    assert lines_of("search", store, "news", "--file", tmp_path / "probe.txt") == both
    assert lines_of("search", store, "news", "--text", text_of(1), "--limit", 1) == both[:1]
    assert lines_of("search", store, "news", "--key", "a") == both[1:]
    assert lines_of("search", store, "news", "--key", "a", "--limit", 1) == both[1:]
    assert lines_of("search", store, "news", "--text", "nothing like it") == []


def test_search_for_people_shows_the_texts(store):
    result = done("search", store, "news", "--key", "b")

    assert "e\\x1b[31m" in result.stdout
    assert words(2)[0] in result.stdout
    assert "1 match;" in result.stderr


def test_many_matches_are_printed_in_several_tables(store, tmp_path, monkeypatch):
    rows = [{"text": text_of(1)}, {"text": text_of(2)}, {"text": text_of(3)}]
    asked = ("search", store, "news", "--input", write_rows(tmp_path / "probes.jsonl", rows))
    in_one = done(*asked).stdout.splitlines()
    monkeypatch.setattr("simdb.cli.search._AT_ONCE", 2)
    in_several = done(*asked).stdout.splitlines()

    def cells(lines: list[str]) -> list[list[str]]:
        return [[*map(str.strip, line.split("│"))] for line in lines if line.startswith("│")]

    assert cells(in_several) == cells(in_one)
    assert len(cells(in_one)) == 5
    assert len(in_several) - len(in_one) == 2 * 4  # lines around the rows of a table


def test_matches_that_were_found_before_an_interruption_are_printed(store, tmp_path, monkeypatch):
    search = simdb.CollectionView.search

    def interrupted(self: Any, item: str, **options: Any) -> simdb.Matches:
        if item == text_of(3):
            raise KeyboardInterrupt
        return search(self, item, **options)

    monkeypatch.setattr(simdb.CollectionView, "search", interrupted)
    probes = write_rows(tmp_path / "probes.jsonl", [{"text": text_of(n)} for n in (1, 3)])
    result = run("search", store, "news", "--input", probes)

    assert result.exit_code == 130
    assert words(1)[0] in result.stdout
    assert words(3)[0] not in result.stdout


def test_rows_of_an_input_are_searched_for_together_and_what_is_explained_alone(
    store, tmp_path, monkeypatch
):
    calls: list[str] = []

    def counting(name: str) -> None:
        method = getattr(simdb.CollectionView, name)

        def called(self: Any, *given: Any, **options: Any) -> Any:
            calls.append(name)
            return method(self, *given, **options)

        monkeypatch.setattr(simdb.CollectionView, name, called)

    counting("search")
    counting("search_many")
    rows = [{"id": f"p{n}", "text": text_of(n % 4)} for n in range(100)]
    asked = ("search", store, "news", "--input", write_rows(tmp_path / "probes.jsonl", rows))
    found = lines_of(*asked, "--id-field", "id")
    assert calls[:2] == ["search", "search_many"]
    assert len(calls) < 15
    monkeypatch.setattr("simdb.cli.search._PROBES", 1)
    calls.clear()
    assert lines_of(*asked, "--id-field", "id") == found
    assert calls == ["search"] * 100
    assert len({line["probe"] for line in found}) == 75
    monkeypatch.undo()
    counting("search_many")
    calls.clear()
    write_rows(tmp_path / "probes.jsonl", rows[:4])
    assert lines_of(*asked, "--explain")
    assert calls == []


@pytest.mark.parametrize("wrong", ["[1, 2]", "[1, 2, 3, 4", "[1, 2, 3, 4, 5]"])
def test_rows_before_a_wrong_one_are_answered_also_where_they_are_searched_for_together(
    tmp_path, wrong
):
    with simdb.open(tmp_path / "s.simdb") as db:
        vectors = db.create_collection("c", simdb.Vector(4), max_distance=0.1)
        vectors.add("a", [1, 2, 3, 4])
    lines = ["[1, 2, 3, 4]"] * 5 + [wrong] + ["[1, 2, 3, 4]"] * 2
    (tmp_path / "probes.jsonl").write_text("".join(f'{{"vector": {line}}}\n' for line in lines))
    asked = ("search", tmp_path / "s.simdb", "c", "--input", tmp_path / "probes.jsonl", "--json")
    result = run(*asked)
    assert result.exit_code == 2
    assert [json.loads(line)["probe"] for line in result.stdout.splitlines()] == [1, 2, 3, 4, 5]
    assert "components" in result.stderr or "line 6: not JSON" in result.stderr


@pytest.mark.parametrize(("suffix", "place"), [("jsonl", "line 6"), ("npy", "row 6")])
def test_search_says_in_which_row_of_which_file_a_wrong_item_stands_as_add_does(
    tmp_path, suffix, place
):
    with simdb.open(tmp_path / "s.simdb") as db:
        db.create_collection("c", simdb.Vector(2), max_distance=0.1)
    right, wrong = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    vectors = np.ones((8, 2))
    for path, third in ((right, 1.0), (wrong, np.nan)):
        vectors[5, 1] = third
        if suffix == "npy":
            np.save(path, vectors)
        else:
            rows = [{"vector": row if row == [1, 1] else [1]} for row in vectors.tolist()]
            write_rows(path, rows)
    inputs = f"{tmp_path}/?.{suffix}"
    told = failed("search", tmp_path / "s.simdb", "c", "--input", inputs)
    assert f"{wrong}, {place}: " in told
    assert told == failed("add", tmp_path / "s.simdb", "c", wrong)


def test_search_reads_standard_input(store):
    result = done("search", store, "news", "--file", "-", "--json", stdin=text_of(3).encode())

    assert json.loads(result.stdout)["key"] == "d"


def test_get_returns_the_item_and_its_metadata(store):
    assert lines_of("get", store, "news", "b", "a") == [
        {"key": "b", "item": text_of(2), "metadata": {"n": [1, None, 2.5]}},
        {"key": "a", "item": text_of(1), "metadata": {"source": "one"}},
    ]
    assert "source: one" in done("get", store, "news", "a").stdout


def test_delete_takes_keys_and_files_of_keys(store, tmp_path):
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbfa\r\n\nb\n")

    assert run("delete", store, "news", "absent").exit_code == 2
    assert "2 of 2" in done("delete", store, "news", "--keys", tmp_path / "keys").stderr
    skipping = done("delete", store, "news", "a", "d", "--missing", "skip", "--json")
    assert json.loads(skipping.stdout) == {"keys": 2, "deleted": 1}
    assert run("get", store, "news", "a").exit_code == 2
    done("delete", store, "news", "--keys", "-", stdin=b"c\n")
    assert lines_of("pairs", store, "news") == []


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_what_was_exported_can_be_added_again(store, tmp_path, suffix):
    target = tmp_path / f"out{suffix}"
    done("export", store, "news", "-o", target)
    done("create", store, "again")
    done("add", store, "again", target, "--id-field", "id")

    printed = done("export", store, "news").stdout
    assert [json.loads(line) for line in printed.splitlines()] == ROWS
    assert done("export", store, "again").stdout == printed


def test_export_never_hides_metadata_behind_the_key(tmp_path, rows_file):
    path = tmp_path / "s.simdb"
    done("create", path, "news")
    done("add", path, "news", rows_file)

    result = run("export", path, "news", "-o", tmp_path / "out.jsonl")

    assert result.exit_code == 2
    assert "--id-field" in result.stderr
    assert not (tmp_path / "out.jsonl").exists()
    lines = done("export", path, "news", "--id-field", "line").stdout.splitlines()
    assert json.loads(lines[0]) == {"line": 1, **ROWS[0]}


def test_integer_keys_are_not_text(tmp_path):
    path = tmp_path / "s.simdb"
    (tmp_path / "in.csv").write_text(f"id,text\n7,{text_of(1)}\n8,{near_copy(1)}\n")
    done("create", path, "c")
    done("add", path, "c", tmp_path / "in.csv", "--id-field", "id", "--integer-keys")

    assert lines_of("search", path, "c", "--key", "7", "--integer-keys")[0]["key"] == 8
    assert run("get", path, "c", "7").exit_code == 2
    assert lines_of("get", path, "c", "7", "--integer-keys")[0]["key"] == 7
    done("delete", path, "c", "7", "--integer-keys")


def test_stats_check_compact_backup_and_audit_answer(store, tmp_path):
    assert json.loads(done("stats", store, "--json").stdout)
    assert json.loads(done("stats", store, "news", "--json").stdout)
    told = done("stats", store).stdout
    assert re.search(r"news +│ text +│ from 0\.\d+ +│ +\d+ │", told)
    assert "signature_bytes" not in told
    assert json.loads(done("check", store, "--json").stdout)["sound"] is True
    assert "sound" in done("check", store, "news").stdout
    done("compact", store)
    json.loads(done("compact", store, "news", "--json").stdout)
    done("backup", store, tmp_path / "copy.simdb")
    done("backup", store, tmp_path / "small.simdb", "--compact")
    for copy in ("copy.simdb", "small.simdb"):
        assert lines_of("pairs", tmp_path / copy, "news") == lines_of("pairs", store, "news")
    audit = json.loads(done("audit", store, "news", "--sample", 3, "--json").stdout)
    assert audit["expected_recall"] >= 0.99
    assert "recall" in done("audit", store, "news").stdout


def test_a_collection_is_renamed_and_dropped(store):
    pairs = lines_of("pairs", store, "news")
    with simdb.open(store) as database:
        database.create_collection("other", simdb.Set())
    taken = run("rename", store, "news", "other")
    assert (taken.exit_code, taken.stderr) == (2, "simdb: there already is a collection 'other'\n")

    done("rename", store, "news", "papers")
    assert lines_of("pairs", store, "papers") == pairs
    assert "there are: 'other', 'papers'" in run("stats", store, "news").stderr
    assert done("list", store).stdout == "other\npapers\n"
    assert json.loads(done("list", store, "--json").stdout) == {"collections": ["other", "papers"]}

    asked = run("drop", store, "papers")
    assert asked.exit_code == 2
    assert "--yes" in asked.stderr
    assert json.loads(done("drop", store, "papers", "--yes", "--json").stdout)["items"]
    assert "there are: 'other'" in run("stats", store, "papers").stderr


def test_rebuild_changes_only_what_is_named(store):
    low = run("pairs", store, "news", "--threshold", 0.5)
    assert low.exit_code == 2
    assert "rebuild" in low.stderr

    done("rebuild", store, "news", "--threshold", 0.5, "--shingles", "word:2")

    assert len(lines_of("pairs", store, "news", "--threshold", 0.5)) == 2


READING = [
    ["search", "STORE", "news", "--text", "some text to look for", "--json"],
    ["search", "STORE", "news", "--key", "a"],
    ["pairs", "STORE", "news", "--json"],
    ["groups", "STORE", "news"],
    ["get", "STORE", "news", "a"],
    ["export", "STORE", "news"],
    ["stats", "STORE"],
    ["check", "STORE", "--deep"],
    ["audit", "STORE", "news"],
]


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: " ".join(arguments[:1]))
def test_commands_that_read_leave_the_bytes_of_the_store_unchanged(store, arguments):
    before = hashlib.sha256(store.read_bytes()).hexdigest()

    done(*(store if argument == "STORE" else argument for argument in arguments))

    assert hashlib.sha256(store.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("command", ["stats", "check", "compact"])
def test_a_store_that_is_absent_or_foreign_is_exit_code_3_and_stays_so(tmp_path, command):
    absent, foreign = tmp_path / "absent.simdb", tmp_path / "foreign.simdb"
    foreign.write_bytes(b"hello, this is a text file\n" * 1000)

    for path in (absent, foreign):
        result = run(command, path)
        assert result.exit_code == 3, result.exception
        assert result.stderr.startswith("simdb: ")
        assert result.stderr.count("\n") == 1

    assert not absent.exists()
    assert foreign.read_bytes() == b"hello, this is a text file\n" * 1000


@pytest.mark.parametrize("command", ["stats", "compact"])
def test_a_circle_of_links_is_not_called_absent(tmp_path, command):
    (tmp_path / "s.simdb").symlink_to(tmp_path / "s.simdb")
    result = run(command, tmp_path / "s.simdb")
    assert result.exit_code == 3
    assert "levels of symbolic links" in result.stderr


def test_a_store_without_collections_is_told_to_have_none_to_compact(tmp_path):
    simdb.open(tmp_path / "s.simdb").close()
    result = done("compact", tmp_path / "s.simdb")
    assert (result.stdout, result.stderr) == ("", "the store has no collections\n")
    assert json.loads(done("compact", tmp_path / "s.simdb", "--json").stdout) == {}


@pytest.mark.parametrize(
    "options",
    [
        ["--threshold", "0.0001"],
        ["--recall", "2"],
        ["--kind=record", "--settings", json.dumps({"fields": [TWICE]})],
    ],
)  # fmt: skip
def test_a_collection_that_cannot_be_leaves_no_new_store(tmp_path, options):
    failed("create", tmp_path / "new.simdb", "c", *options)
    assert not list(tmp_path.iterdir())


def test_errors_about_collections_and_keys_are_exit_code_2(store, tmp_path):
    for arguments in (
        ["pairs", store, "absent"],
        ["get", store, "news", "absent"],
        ["create", store, "news"],
        ["search", store, "news", "--text", "x", "--threshold", 0.1],
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.exception
        assert result.stderr.count("\n") == 1
    assert "there are: 'news'" in run("pairs", store, "absent").stderr


def shut_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a store in a folder that may not be searched, as who is root may all."""
    shut, look = folder / "shut" / "s.simdb", os.stat

    def refusing(name: Any, *rest: Any, **options: Any) -> os.stat_result:
        if str(name).startswith(str(shut)):
            raise PermissionError(13, "Permission denied", str(name))
        return look(name, *rest, **options)

    monkeypatch.setattr(os, "stat", refusing)
    return shut


@pytest.mark.parametrize(
    "line",
    [
        "stats SHUT",
        "check SHUT",
        "--untrusted list SHUT",
        "backup SHUT copy.simdb",
        "join STORE news news --right-store SHUT",
        "create SHUT c",
        "restore SHUT new.simdb",
        "restore STORE SHUT",
        "repair SHUT new.simdb",
        "repair STORE SHUT",
        "serve SHUT",
        "dedupe ROWS -o out.jsonl --id-field id --store SHUT",
    ],
)
def test_a_store_in_a_folder_that_may_not_be_searched_is_exit_code_3(
    store, rows_file, tmp_path, monkeypatch, line
):
    shut = shut_away(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    places = {"SHUT": shut, "STORE": store, "ROWS": rows_file}
    ran = run(*(places.get(word, word) for word in line.split()))
    assert ran.exit_code == 3, ran.stderr
    assert ran.stderr.splitlines()[-1] == f"simdb: {shut}: Permission denied"


def test_a_call_that_keeps_a_store_tells_the_same_of_its_folder(tmp_path, monkeypatch):
    shut = shut_away(tmp_path, monkeypatch)
    rows = [{"id": 1, "name": "Ann", "city": "York"}]
    with pytest.raises(simdb.StorageError, match=r"s\.simdb: Permission denied"):
        simdb.dedupe(rows, key="id", item=["name", "city"], threshold=0.8, store=shut)


def test_the_parser_does_not_judge_which_store_may_be_read(store, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    done("restore", store, tmp_path / "new.simdb")
    done("restore", store, tmp_path / "new.simdb")
    done("repair", store, tmp_path / "repaired.simdb")
    assert "already exists" in run("repair", store, tmp_path / "repaired.simdb").stderr


def test_the_only_collection_of_a_store_need_not_be_named(store):
    asked = (["pairs"], ["export"], ["search", "--key", "a"], ["recipe"])
    named = [run(one, store, "news", *others).stdout for one, *others in asked]
    assert [run(one, store, *others).stdout for one, *others in asked] == named
    assert run("show", store, "a", "b").stdout == run("show", store, "news", "a", "b").stdout
    assert run("explain", store, "pairs").stdout.startswith("pairs among")
    told = run("pairs", store, "news", "more")
    assert (told.exit_code, "not news and more" in told.stderr) == (2, True)

    run("create", store, "others")
    for one, *others in (*asked, ["show", "a", "b"]):
        told = run(one, store, *others)
        assert told.exit_code == 2
        assert "the store has several: name one of news, others" in told.stderr
    told = run("join", store, "news", "others", "--threshold", "0.7", "--guarantee", "probable")
    assert "simdb rebuild STORE COLLECTION --threshold 0.7" in told.stderr

    rows = store.parent / "more.jsonl"
    rows.write_text('{"id": "x", "text": "one two three four"}\n')
    lower = ("--id-field", "id", "--threshold", "0.7", "--collection", "news")
    told = run("dedupe", rows, "-o", "-", *lower, "--store", store)
    assert f"simdb rebuild {store} news --threshold 0.7" in told.stderr


def test_a_check_that_finds_problems_is_exit_code_1(store, monkeypatch):
    from simdb.database import Database
    from simdb.results import CheckReport, Problem

    report = CheckReport(7, (Problem("documents", "item 3\x1b", "does not match its checksum"),))
    monkeypatch.setattr(Database, "check", lambda *_, **__: report)

    shown, printed = run("check", store), run("check", store, "--json")
    monkeypatch.undo()

    assert (shown.exit_code, printed.exit_code) == (1, 1)
    assert "documents, item 3\\x1b: does not match its checksum" in shown.stdout
    assert json.loads(printed.stdout)["problems"][0]["table"] == "documents"


@pytest.mark.parametrize(
    ("policy", "again"),
    [("error", "with --on-existing skip"), ("replace", "the same command")],
)
def test_an_interruption_of_add_says_how_far_it_came(store, tmp_path, monkeypatch, policy, again):
    """Who replaces and goes on with ``skip`` would keep the old items of the other rows."""
    from simdb.cli.feed import Feed

    more = write_rows(tmp_path / "more.jsonl", [{"id": "z", "text": text_of(50)}])

    def interrupted(self, most_rows, most_bytes):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(Feed, "parts", interrupted)
    result = run("add", store, "news", more, "--id-field", "id", "--on-existing", policy)

    assert result.exit_code == 130
    told = f"simdb: interrupted; 0 rows are stored; repeat {again} to continue\n"
    assert result.stderr == told


def test_a_reader_that_goes_away_is_no_error_to_talk_about(store):
    process = started(sys.executable, "-m", "simdb", "export", store, "news")
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)

    assert errors == ""
    assert process.returncode == 141


@pytest.mark.parametrize("ending", ["", "-lock", "-turn"])
def test_no_output_takes_the_place_of_a_store(tmp_path, ending):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        db.collection("c", simdb.Text()).add("a", "a text of some words")
        db.close()
    Path(f"{path}{ending}").touch()
    with pytest.raises(simdb.UsageError, match="belongs to a store"):
        Output(f"{path}{ending}")
    with simdb.open(path) as db:
        assert "a" in db["c"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_records_without_any_value_are_exported_and_added_again(tmp_path, suffix):
    path, out = tmp_path / "s.simdb", tmp_path / f"out{suffix}"
    records: list[dict[str, Any]] = [{}, {"a": "x"}, {}]
    with simdb.open(path, threads=1) as db:
        kind = simdb.Record([simdb.kinds.Field("a"), simdb.kinds.Field("b")])
        for name in ("c", "again"):
            db.create_collection(name, kind, threshold=0.5, seed=1)
        db["c"].add_many(enumerate(records))
    done("export", path, "c", "-o", out)
    done("add", path, "again", out, "--id-field", "id")
    with simdb.open(path, read_only=True) as db:
        added = [*db["again"].items()]
    values = [{name: one.item[name] for name in one.item if one.item[name]} for one in added]
    assert [one.key for one in added] == [0, 1, 2]
    assert values == records
    written = [json.loads(line) for line in done("export", path, "c").stdout.splitlines()]
    assert written == [
        {"id": 0, "a": None, "b": None},
        {"id": 1, "a": "x"},
        {**written[0], "id": 2},
    ]


def test_metadata_are_no_field_that_a_record_lacks(tmp_path):
    path, out = tmp_path / "s.simdb", tmp_path / "out.jsonl"
    with simdb.open(path, threads=1) as db:
        kind = simdb.Record([simdb.kinds.Field("a"), simdb.kinds.Field("b")])
        db.create_collection("c", kind, threshold=0.5, seed=1).add(
            0, {"a": "x"}, metadata={"b": "y"}
        )
    told = failed("export", path, "c", "-o", out)
    assert "the metadata of 0 has a field 'b': name another with --metadata-field" in told
    told = failed("export", path, "c", "-o", out, "--id-field", "b")
    assert "records have a field 'b': name another with --id-field" in told
    done("export", path, "c", "-o", out, "--metadata-field", "more")
    assert json.loads(out.read_text()) == {"id": 0, "a": "x", "more": {"b": "y"}}


@pytest.mark.parametrize("name", [name for name in ALL if ALL[name].kind.field_names is None])
def test_items_of_every_kind_are_exported_to_a_table_and_added_again(tmp_path, name):
    case, path, out = ALL[name], tmp_path / "s.simdb", tmp_path / "out.parquet"
    with simdb.open(path, threads=1) as db:
        recipe = db.create_collection("c", case.kind, **case.bound, seed=1).recipe()
        db["c"].add_many(enumerate(case.items))
        db.create_collection("again", recipe=recipe)
    done("export", path, "c", "-o", out)
    done("add", path, "again", out, "--id-field", "id", "--item-field", case.kind.name)
    with simdb.open(path, read_only=True) as db:
        of_both = [[(e.key, repr(e.item)) for e in db[one].items()] for one in ("c", "again")]
    assert of_both[0] == of_both[1]
