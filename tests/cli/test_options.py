"""Options of all commands, before them and after them, and the summaries of commands."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import pytest

import simdb
from simdb.cli.app import app
from simdb.storage.file import log
from tests.support import cli_stores
from tests.support.cli_stores import THREE_ROWS
from tests.support.commands import failed, run

store = cli_stores.store_of_three


def test_quiet_stands_before_or_after_the_command(store, tmp_path):
    (tmp_path / "in.jsonl").write_text(THREE_ROWS)
    commands: list[list[object]] = [
        ["pairs", store, "news"],
        ["groups", store, "news"],
        ["search", store, "news", "--text", "one"],
        ["delete", store, "news", "a", "--missing", "skip"],
        ["export", store, "news", "-o", tmp_path / "out.jsonl"],
        ["add", store, "news", tmp_path / "in.jsonl", "--on-existing", "skip", "--id-field", "id"],
        ["dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl"],
        ["rebuild", store, "news"],
        ["identical", tmp_path],
    ]
    for command in commands:
        assert run(*command).stderr, command
        for quiet in ("--quiet", "-q"):
            for arguments in ([quiet, *command], [*command, quiet]):
                result = run(*arguments)
                assert result.exit_code == 0, result.stderr
                assert result.stderr == "", arguments
    for number, place in enumerate((1, 3)):
        command = ["backup", store, tmp_path / f"{number}.simdb"]
        assert run(*command[:place], "-q", *command[place:]).stderr == ""
        command = ["create", store, f"c{number}"]
        assert run(*command[:place], "-q", *command[place:]).stderr == ""


SILENT = {"recipe", "get", "stats", "plan", "list"}  # what they print is the answer
SHORT = {
    *("changes", "create", "delete", "explain", "get", "group", "list", "plan", "recipe"),
    *("serve", "show", "spark", "stats", "warm", "rename", "drop"),
}


def every_command() -> dict[str, Any]:
    import typer.main

    return dict(vars(typer.main.get_command(app))["commands"])


def test_every_command_has_the_options_that_mean_something_for_it():
    for name, command in every_command().items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name
        assert ("--quiet" in options) == (name not in SILENT), name
        assert ("--progress" in options) == (name not in SHORT), name


def test_every_command_that_may_take_long_tells_how_far_it_is(store, tmp_path, monkeypatch):
    monkeypatch.setattr("simdb.reports.charts.drawn", lambda *_: "<svg></svg>")
    rows = tmp_path / "in.jsonl"
    rows.write_text(THREE_ROWS)
    year = simdb.Field("year", weight=0, compare="numeric")
    kind = simdb.Record([*map(simdb.Field, ("name", "town", "street")), year])
    with simdb.open(store) as db:
        people = db.collection("people", kind, threshold=0.5)
        for number in range(40):
            named = f"{number // 2:x}" * 9
            person = {"name": named, "town": named, "street": named, "year": number}
            people.add(number, person)
    table = tmp_path / "people.csv"
    table.write_text("id,name\n1,ann smith\n2,bob miller\n")
    commands: dict[str, list[object]] = {
        "add": [store, "news", rows, "--on-existing", "skip", "--id-field", "id"],
        "audit": [store, "news"],
        "backup": [store, tmp_path / "copy.simdb"],
        "calibrate": [store, "people", "year", "--random", 5],
        "check": [store],
        "compact": [store],
        "dedupe": [rows, "-o", tmp_path / "kept.jsonl"],
        "dump": [store, tmp_path / "dumped"],
        "export": [store, "news", "-o", tmp_path / "out.jsonl"],
        "groups": [store, "news"],
        "identical": [tmp_path],
        "join": [store, "news", "news", "-o", tmp_path / "joined.parquet"],
        "label": [store, "people", "--limit", 1],
        "learn": [store, "people"],
        "link": [table, table, "-o", tmp_path / "m.csv", "--threshold", 0.9],
        "load": [tmp_path / "dumped", tmp_path / "loaded.simdb"],
        "pairs": [store, "news"],
        "rebuild": [store, "news"],
        "report": [store, "news", "-o", tmp_path / "page.html"],
        "tune": [rows],
        "repair": [store, tmp_path / "repaired.simdb"],
        "restore": [tmp_path / "copy.simdb", tmp_path / "restored.simdb"],
        "score": [store, "people", tmp_path / "pairs.tsv", "--integer-keys"],
        "search": [store, "news", "--input", rows, "--id-field", "id"],
    }
    (tmp_path / "pairs.tsv").write_text("0\t1\n")
    assert sorted([*commands, *SHORT]) == sorted(every_command())
    for name, arguments in commands.items():
        if name in {"add", "check", "dedupe", "search"}:
            plain = run(name, *arguments, "--progress")
            assert plain.exit_code == 0, plain.stderr
            assert "\ndone in " in "\n" + plain.stderr, name
        told = run(name, *arguments, "--progress", "--json")
        assert told.exit_code == 0, told.stderr
        lines = told.stderr.splitlines()
        steps = [json.loads(line) for line in lines if line.startswith('{"task"')]
        assert steps[-1]["task"] == "done", name
        assert all(0 <= step["share"] <= 1 for step in steps if step["share"] is not None)
    assert "adding: 3, 100%" in run("add", *commands["add"], "--progress").stderr
    assert "contradict" in failed("add", *commands["add"], "--progress", "--quiet")


def test_reports_for_programs_are_one_line(store, tmp_path):
    def report(*arguments: object) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("\n") == 1
        assert result.stderr == ""
        return json.loads(result.stdout)

    created = report("create", store, "sets", "--kind", "set", "--exact-floor", "0.6")
    assert created["collection"] == "sets"
    assert created["settings"]["exact_floor"] == 0.6
    rebuilt = report("rebuild", store, "sets", "--exact-floor", "0.5")
    assert rebuilt["settings"] == {**created["settings"], "exact_floor": 0.5}
    target = tmp_path / "backup.simdb"
    assert report("backup", store, target) == {
        "store": str(store),
        "target": str(target),
        "bytes": target.stat().st_size,
    }
    output = tmp_path / "out.jsonl"
    told = report("export", store, "news", "-o", output)
    assert told == {"collection": "news", "output": str(output), "items": 3}
    assert len(output.read_text().splitlines()) == 3
    assert run("export", store, "news", "--json").exit_code == 2


def test_rebuild_claims_no_defaults_that_it_has_not():
    told = " ".join(run("rebuild", "--help").stdout.split())
    for default in ("(0.99; for bits", "(character:9)", "(NFC)", "(collapse)", "(fast)", "random"):
        assert default not in told
        assert default in " ".join(
            (run("create", "--help").stdout + run("dedupe", "--help").stdout).split()
        )
    assert told.count("(unchanged)") == 10
    assert "Settings that are not given stay as they are" in told


def test_a_store_is_made_as_private_as_it_is_asked_to_be(tmp_path):
    store = tmp_path / "s.simdb"
    assert run("--mode", "600", "create", store, "texts").exit_code == 0
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    for spelling in ("0600", "0o600"):
        other = tmp_path / f"{spelling}.simdb"
        assert run("--mode", spelling, "create", other, "texts").exit_code == 0
        assert other.stat().st_mode & 0o777 == 0o600
    output = tmp_path / "out.jsonl"
    kept = tmp_path / "kept.simdb"
    rows = '{"id": 1, "text": "a text"}\n'
    keyed = ("--id-field", "id", "--store", kept)
    result = run("--mode", "640", "dedupe", "-", "-o", output, *keyed, stdin=rows)
    assert result.exit_code == 0, result.stderr
    assert kept.stat().st_mode & 0o777 == 0o640


def test_a_store_made_of_a_dump_or_a_backup_is_as_private_as_it_is_asked_to_be(tmp_path):
    store, backup, dump = (tmp_path / name for name in ("s.simdb", "b.simdb", "dump"))
    for command in (["create", store, "texts"], ["backup", store, backup], ["dump", store, dump]):
        assert run(*command).exit_code == 0
    store.chmod(0o644)
    for path in (dump, dump / "simdb.json"):
        path.chmod(0o755)  # else the dump is its owner's alone, and so is what is loaded
    for mode in (0o640, 0o600):
        for command in (["load", dump], ["restore", backup]):
            new = tmp_path / f"{command[0]}-{mode:o}.simdb"
            result = run("--mode", f"{mode:o}", *command, new)
            assert result.exit_code == 0, result.stderr
            assert new.stat().st_mode & 0o777 == mode
    assert run("--mode", "600", "restore", backup, store).exit_code == 0
    assert store.stat().st_mode & 0o777 == 0o644  # it was there
    for make in (simdb.load, simdb.restore):
        with pytest.raises(simdb.ConfigurationError, match="must let the owner read and write"):
            make(dump, tmp_path / "new.simdb", mode=0o400)


@pytest.mark.parametrize(
    "mode", ["9", "888", "1777", "rw", "", "-600", "0o", "0o60", "0x600", "600\n"]
)
def test_permissions_are_three_octal_digits(tmp_path, mode):
    result = run("--mode", mode, "create", tmp_path / "s.simdb", "texts")
    assert result.exit_code == 2
    assert "--mode must be three octal digits, such as 600" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("forked_reader")
def test_a_damaged_store_is_told_before_it_is_read_if_it_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LARGEST_COMMIT", 0)  # of a log, damage is always told
    store = tmp_path / "s.simdb"
    assert run("create", store, "texts").exit_code == 0
    assert run("add", store, "texts", "-", stdin='{"text": "a rare text"}\n').exit_code == 0
    assert run("--untrusted", "stats", store).exit_code == 0
    content = store.read_bytes()
    assert content.count(b"a rare text") >= 1
    store.write_bytes(content.replace(b"a rare text", b"a fake text"))
    assert run("stats", store).exit_code == 0
    result = run("--untrusted", "stats", store)
    assert result.exit_code == 3
    assert "is damaged" in result.stderr
    assert "not opened" in result.stderr


@pytest.mark.parametrize(
    ("option", "example"),
    [
        (["--mode", "600"], "--mode OCTAL"),
        (["--mode=600"], "--mode OCTAL"),
        (["--untrusted"], "--untrusted"),
        (["--memory", "64"], "--memory MIB"),
        (["--threads", "2"], "--threads N"),
        (["--busy-timeout", "1"], "--busy-timeout SECONDS"),
    ],
)
def test_an_option_of_simdb_after_the_command_is_told_its_place(tmp_path, option, example):
    store = tmp_path / "s.simdb"
    told = failed("create", store, "texts", *option)
    assert f"{example.split()[0]} stands before the command: " in told
    assert told.endswith(f" {example} create ...")
    assert not store.exists()
    assert "No such option: --bogus" in failed("create", store, "texts", "--bogus")
    assert "No such option: --bogus" in failed("--bogus", "create", store, "texts")


def test_answers_for_programs_keep_their_summary_beside_them(store):
    row = '{"id": "own", "text": "one two three four"}\n'
    assert run("add", store, "news", "-", "--id-field", "id", stdin=row).exit_code == 0
    commands: list[list[object]] = [
        ["search", store, "news", "--text", "one two three four"],
        ["pairs", store, "news"],
        ["join", store, "news", "news"],
        ["groups", store, "news"],
    ]
    for command in commands:
        for_people, for_programs = run(*command), run(*command, "--json")
        assert for_programs.exit_code == 0
        assert for_programs.stderr == for_people.stderr
        assert "missing" in for_people.stderr or "recall" in for_people.stderr
        answers = [json.loads(line) for line in for_programs.stdout.splitlines()]
        assert answers, command
        assert all(isinstance(answer, dict) for answer in answers)
        assert run(*command, "--json", "--quiet").stderr == ""


def test_search_reads_rows_and_not_one_text_where_a_field_is_named(store, tmp_path):
    probes = tmp_path / "probes"  # a name that tells no format, as standard input
    probes.write_text(THREE_ROWS)
    result = run("search", store, "news", "--input", probes, "--text-field", "text", "--json")
    assert result.exit_code == 0, result.stderr
    assert {json.loads(line)["similarity"] for line in result.stdout.splitlines()} >= {1.0}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--collection", "news"], "--collection needs --store"),
        (["--on-existing", "replace"], "--on-existing needs --store"),
        (["--other-keys"], "--other-keys needs --store"),
        (["--sync", "batch"], "--sync needs --store"),
        (["--integer-keys"], "--integer-keys needs --id-field"),
        (["--on-bad", "error", "--bad", "bad"], "--bad and --on-bad error contradict each other"),
        (
            ["--id-field", "id", "--id-field", "n"],
            "--id-field takes one value, but is given 2 times",
        ),
        (["-o", "-"], "--output takes one value, but is given 2 times"),
    ],
)
def test_an_option_without_effect_is_refused(tmp_path, given, told):
    (tmp_path / "in.jsonl").write_text(THREE_ROWS)
    command = ["dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl"]
    assert told in failed(*command, *given)
    assert not (tmp_path / "kept.jsonl").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--input", "in.jsonl", "--delimiter", ";"], "--delimiter does nothing for in.jsonl"),
        (["--input", "in.jsonl", "--integer-keys"], "--integer-keys needs --id-field"),
        (["--input", "sqlite:in.db:q", "--format", "csv"], "--format does nothing for sqlite:"),
        (["--input", "plain", "--delimiter", ";"], "--delimiter does nothing for plain: each a"),
        (["--input", "-", "--delimiter", ";"], "--delimiter does nothing for -: each a text"),
        (["--key", "7", "--separator", ";"], "--separator needs --set or --input"),
        (["--item", '"x"', "--separator", ";"], "--separator needs --set or --input"),
        (["--key", "7", "--elements", "strings"], "--elements needs --set, --item or --input"),
        (["--text", "x", "--integer-keys"], "--integer-keys needs --key or --input"),
        (["--text", "x", "--exists", "--limit", "5"], "--exists prints no matches: leave out"),
    ],
)
def test_an_option_of_a_search_without_effect_is_refused(store, tmp_path, monkeypatch, given, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(THREE_ROWS)
    assert told in failed("search", store, "news", *given)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_questions_are_refused_whose_answers_would_be_read_as_rows(store, name):
    asking = ["tune", name, "--format", "jsonl", "--ask", "3"], ["label", store, "--pairs", name]
    for command in asking:
        told = failed(*command, stdin=THREE_ROWS)
        assert f"answers are read from standard input: give a file, not {name}" in told


def test_options_as_by_default_and_a_yes_are_no_question(tmp_path):
    (tmp_path / "in.jsonl").write_text(THREE_ROWS)
    given = ["--yes", "--on-existing", "error", "--sync", "full"]
    told = run("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl", *given)
    assert told.exit_code == 0, told.stderr


def test_a_database_has_no_format_and_options_before_the_command_are_given_once(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect("a.db")) as database:
        database.execute("CREATE TABLE t (id, text)")
        database.commit()
    table = "sqlite:a.db:t"
    message = failed("dedupe", table, "-o", "-", "--format", "csv")
    assert f"--format does nothing for {table}: a database" in message
    assert "--threads takes one value" in failed("--threads", 1, "--threads", 2, "list", "s")
    assert run("-q", "-q", "dedupe", table, "-o", "-", "-q").exit_code == 0
