"""What the commands say when they fail: options and commands, never calls; and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import simdb
from simdb.cli import app as app_module
from simdb.cli import querying
from simdb.cli.app import app

ROWS = "".join(
    json.dumps({"id": key, "text": text}) + "\n"
    for key, text in [("a", "one two three four"), ("b", "five six"), ("c", "seven")]
)


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.simdb"
    assert run("create", path, "news", "--shingles", "word:1").exit_code == 0
    assert run("add", path, "news", "-", "--id-field", "id", stdin=ROWS).exit_code == 0
    return path


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simdb", *map(str, arguments)],
        cwd=Path(__file__).parent.parent,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


def failed(*arguments: object, stdin: str | None = None) -> str:
    """The one line that a command of wrong usage tells; no name of a call is in it."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.stderr
    line: str = result.stderr.splitlines()[-1]
    assert line.startswith("simdb: ")
    words = " ".join(word for word in line.split() if not word.startswith("/"))
    for of_python in ("()", "=", "_", "'skip'", "(threshold", "True"):
        assert of_python not in words, line
    return line


def test_remedies_are_options_and_commands(store):
    told = failed("add", store, "news", "-", "--id-field", "id", stdin=ROWS)
    assert "--on-existing skip leaves it, or --on-existing replace overwrites it" in told

    told = failed("create", store, "news")
    assert "simdb rebuild STORE COLLECTION changes its settings" in told

    for command in ("search", "pairs", "groups"):
        probe = ["--text", "one"] if command == "search" else []
        told = failed(command, store, "news", *probe, "--threshold", "0.5")
        assert "simdb rebuild STORE COLLECTION --threshold 0.5 plans for it" in told
        assert "simdb rebuild STORE COLLECTION --exact-floor 0.5" in told
        assert "--min-recall 0." in told
        assert ("--exact misses nothing" in told) == (command != "search")
        told = failed(command, store, "news", *probe, "--threshold", "0.5", "--min-recall", "0.99")
        assert "less than the 0.99 asked for" in told

    told = failed("search", store, "news", "--text", "one", "--exact")
    assert "simdb rebuild STORE COLLECTION --exact-floor 0.8 adds one" in told


@pytest.mark.parametrize("option", ["--find-duplicates", "--on-duplicate"])
def test_adding_below_the_threshold_names_no_option_that_adding_lacks(store, tmp_path, option):
    adding = [option, *["skip"] * (option == "--on-duplicate")]
    for told in (
        failed("add", store, "news", "-", *adding, "--threshold", "0.5", stdin=ROWS),
        failed(
            *("dedupe", "-", "-o", tmp_path / "out", "--store", store, "--collection", "news"),
            *("--threshold", "0.5"),
            stdin=ROWS,
        ),
    ):
        assert "--threshold 0.5 plans for it" in told
        assert "--exact-floor 0.5" in told
        assert "--min-recall" not in told
        assert "--exact " not in told


def test_settings_that_contradict_are_told_by_their_options(store):
    assert "--containment needs --exact-floor" in failed("create", store, "d", "--containment")
    assert "--exact-floor must be" in failed("create", store, "d", "--exact-floor", "2")
    rebuild = ["rebuild", store, "news"]
    assert "leave no index" in failed(*rebuild, "--drop-exact", "--drop-probable")
    assert "--drop-exact" in failed(*rebuild, "--drop-exact", "--exact-floor", "0.5")
    assert "--drop-probable" in failed(*rebuild, "--drop-probable", "--threshold", "0.5")


TWICE = (
    '{"id": "a", "text": "one two three"}\n'
    '{"id": "b", "text": "four five six"}\n'
    '{"id": "a", "text": "seven eight nine"}\n'
)


def test_a_key_that_comes_twice_names_the_line_before(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(TWICE)
    arguments = ["dedupe", path, "-o", tmp_path / "out.jsonl", "--id-field", "id"]

    told = failed(*arguments)
    assert f"{path}, line 3: key 'a' came earlier in the input" in told
    assert told.endswith(f"{path}, line 1")
    assert "stored" not in told

    skipped = run(*arguments, "--on-bad", "skip", "--json")
    assert skipped.exit_code == 0
    problem = json.loads(skipped.stdout)["bad_rows"][0]["problem"]
    assert problem.endswith(f"{path}, line 1")
    assert (tmp_path / "out.jsonl").read_text() == "".join(TWICE.splitlines(keepends=True)[:2])


def test_a_key_stored_by_another_input_is_stored(tmp_path):
    for name, text in (("one", "one two"), ("two", "three four")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "a", "text": text}) + "\n")
    arguments = ["-o", tmp_path / "out", "--id-field", "id", "--store", tmp_path / "s.simdb"]
    assert run("dedupe", tmp_path / "one.jsonl", *arguments).exit_code == 0
    assert "is stored with other content" in failed("dedupe", tmp_path / "two.jsonl", *arguments)


@pytest.mark.parametrize("fault", [TypeError, ValueError, KeyError, AssertionError])
def test_a_fault_of_simdb_is_told_as_one(store, monkeypatch, fault):
    def fail(*arguments: object, **options: object) -> None:
        raise fault("of ours")

    monkeypatch.setattr(querying, "_print_matches", fail)
    monkeypatch.delenv("SIMDB_TRACEBACK", raising=False)
    result = run("search", store, "news", "--text", "one")
    assert result.exit_code == 70
    assert result.stderr.count("\n") == 1
    assert f"a fault of simdb: {fault.__name__}: " in result.stderr
    assert "please report it" in result.stderr

    monkeypatch.setenv("SIMDB_TRACEBACK", "1")
    traced = run("search", store, "news", "--text", "one")
    assert traced.exit_code == 70
    assert "Traceback" in traced.stderr
    assert result.stderr in traced.stderr


def test_other_errors_keep_their_exit_code_with_their_traceback(store, monkeypatch):
    monkeypatch.setenv("SIMDB_TRACEBACK", "1")
    result = run("get", store, "news", "absent")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        ["stats", "STORE"],
        ["pairs", "STORE", "news"],
        ["export", "STORE", "news"],
        ["get", "STORE", "news", "a", "--json"],
        ["--help"],
    ],
)
def test_an_output_that_cannot_be_written_is_said_in_words(store, command):
    if command[0] == "pairs":
        with simdb.open(store) as db:
            db["news"].add("d", "one two three four")
    arguments = [str(store) if word == "STORE" else word for word in command]
    with Path("/dev/full").open("w") as full:
        done = program(*arguments, stdout=full)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "simdb: the output could not be written: No space left on device"
    )
    assert "Errno" not in done.stderr


def test_a_message_that_cannot_be_written_leaves_the_exit_code(store):
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "simdb", "get", str(store), "news", "absent"],
            stderr=full,
            check=False,
        )
    assert done.returncode == 2


# ---------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("module", ["numpy", "simdb.datatypes", "typer", "simdb.cli.storing"])
def test_an_interruption_of_the_imports_is_quiet(module):
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["simdb", "plan"]
from simdb.cli import main  # as the command does that pip makes
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (130, "", "")


def test_an_interruption_before_the_command_begins_is_quiet(monkeypatch):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module, "version", interrupt)
    result = run("--version")
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


def test_nothing_is_imported_before_interruptions_are_quiet():
    code = (
        "import sys; before = set(sys.modules); from simdb.cli import main; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['__future__', 'simdb', 'simdb.cli']\n"


# ------------------------------------------------------------------- options of all commands


def test_quiet_stands_before_or_after_the_command(store, tmp_path):
    (tmp_path / "in.jsonl").write_text(ROWS)
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


def test_every_command_that_writes_a_summary_takes_quiet():
    silent = {"get", "stats", "plan", "repair"}  # what they print is the answer
    import typer.main

    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--quiet" in options) == (name not in silent), name
        assert ("--json" in options) == (name != "demo"), name


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
    for default in ("(0.99)", "(character:9)", "(NFC)", "(collapse)", "(fast)", "random"):
        assert default not in told
        assert default in " ".join(
            (run("create", "--help").stdout + run("dedupe", "--help").stdout).split()
        )
    assert told.count("(unchanged)") == 7
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
    rows = '{"text": "a text"}\n'
    result = run("--mode", "640", "dedupe", "-", "-o", output, "--store", kept, stdin=rows)
    assert result.exit_code == 0, result.stderr
    assert kept.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "mode", ["9", "888", "1777", "rw", "", "-600", "0o", "0o60", "0x600", "600\n"]
)
def test_permissions_are_three_octal_digits(tmp_path, mode):
    result = run("--mode", mode, "create", tmp_path / "s.simdb", "texts")
    assert result.exit_code == 2
    assert "--mode must be three octal digits, as 600" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_damaged_store_is_told_before_it_is_read_if_it_is_not_trusted(tmp_path):
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
    assert run("add", store, "news", "-", stdin='{"text": "one two three four"}\n').exit_code == 0
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


def test_a_damaged_store_names_the_repair_that_takes_it(tmp_path):
    store = tmp_path / "s.simdb"
    assert run("create", store, "texts").exit_code == 0
    assert run("add", store, "texts", "-", stdin='{"text": "a rare text"}\n').exit_code == 0
    whole = store.read_bytes()
    damages = {"one": whole.replace(b"a rare text", b"a fake text"), "cut": whole[:-4096]}
    for name, content in damages.items():
        store.write_bytes(content)
        told = run("get", store, "texts", "1", "--integer-keys")
        assert told.exit_code == 3, name
        assert "'simdb repair' or restore a backup" in told.stderr, name
        assert run("repair", store, tmp_path / name).exit_code == 1, name
