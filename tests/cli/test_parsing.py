"""The command line without any store: help, options, messages, output."""

import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from simdb.cli.app import app
from simdb.cli.failures import told_when_interrupted
from simdb.cli.feed import Feed
from simdb.cli.options import key_from
from simdb.cli.output import ProgressBar, excerpt
from simdb.cli.settings import KindOptions
from simdb.errors import ConfigurationError, UsageError
from simdb.files.rows import ReadingOptions
from simdb.files.spilled import SpilledKeys
from simdb.files.writing import printable
from simdb.kinds import CharacterShingles, Set, StopWordShingles, Text, WordShingles
from simdb.results import Outcome, Outcomes, Progress
from tests.support.commands import program, run, write_rows
from tests.support.processes import interpreted

COMMANDS = [
    "report",
    "show",
    "tune",
    "serve",
    "create",
    "add",
    "search",
    "pairs",
    "groups",
    "group",
    "changes",
    "dedupe",
    "get",
    "delete",
    "export",
    "stats",
    "list",
    "rename",
    "drop",
    "check",
    "compact",
    "backup",
    "calibrate",
    "repair",
    "restore",
    "dump",
    "load",
    "rebuild",
    "score",
    "plan",
    "audit",
    "explain",
    "join",
    "label",
    "learn",
    "link",
    "identical",
    "warm",
    "recipe",
    "spark",
]
GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"


def parser() -> Any:
    return typer.main.get_command(app)


def test_the_commands_are_those_that_users_rely_on():
    assert sorted(parser().commands) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_is_documented(command):
    parsed = parser().commands[command]
    guide = GUIDE.read_text(encoding="utf-8")

    assert run(command, "--help").exit_code == 0
    assert parsed.help
    assert f"\n### simdb {command}\n" in guide
    section = guide.split(f"\n### simdb {command}\n")[1].split("\n### ")[0]
    section += "`--quiet` `--progress`"  # which many have, and are told once
    for parameter in parsed.params:
        if parameter.name == "help":
            continue
        assert parameter.help, parameter.name
        for option in parameter.opts:
            if option.startswith("--"):
                assert f"`{option}" in section, (command, option)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_the_help_of_a_command_can_be_given(command):
    parsed = parser().commands[command]
    name, *arguments = shlex.split(parsed.help.rpartition("Example: simdb ")[2])
    assert name == command
    assert parsed.make_context(name, arguments)


def test_help_has_headings_and_words_for_types():
    told = run("dedupe", "--help").stdout
    headings = [line for line in told.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings[:3] == ["Arguments:", "Options:", "What is similar:"]
    assert headings[-1] == "Output:"
    told += run("--help").stdout + run("serve", "--help").stdout
    assert "[default: 1024; at least 16]" in told
    assert "0 to 65535" in told
    assert not re.search("<[a-z]|x>=|<=x", told)


def test_the_options_before_the_command_are_documented():
    guide = GUIDE.read_text(encoding="utf-8")

    for parameter in parser().params:
        assert all(f"`{option}`" in guide for option in parameter.opts if option[:2] == "--")


def test_without_a_command_the_help_is_shown():
    assert run().exit_code == 0
    assert "dedupe" in run().stdout
    assert run("--version").stdout.startswith("simdb")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["search"],
        ["dedupe", "in.jsonl"],
        ["search", "S", "c", "--limit", "many"],
        ["plan", "--threshold", "nan"],
        ["plan", "--threshold", "0"],
        ["plan", "--threshold", "1.0000001"],
        ["plan", "--threshold", "1e-999999999"],
        ["plan", "--recall", "2"],
        ["create", "S", "c", "--kind", "image"],
        ["create", "S", "c", "--shingles", "letter:3"],
        ["create", "S", "c", "--white-space", "drop"],
        ["create", "S", "c", "--sketch", "slow"],
        ["search", "S", "c"],
        ["search", "S", "c", "--text", "a", "--key", "b"],
        ["search", "S", "c", "--text", "a", "--guarantee", "sure"],
        ["search", "S", "c", "--text", "a", "--limit", "0"],
        ["delete", "S", "c"],
        ["delete", "S", "c", "x", "--integer-keys"],
        ["delete", "S", "c", "x", "--missing", "maybe"],
        ["add", "S", "c", "absent.jsonl"],
        ["add", "S", "c", "-", "--on-bad", "ignore"],
        ["add", "S", "c", "-", "--format", "xml"],
        ["dedupe", "absent.jsonl", "-o", "out"],
        ["dedupe", "-", "-o", "-", "--json"],
        ["dedupe", "-", "-o", "out", "--threshold", "2"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2_and_leaves_nothing(arguments, tmp_path):
    inside = CliRunner()
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        result = inside.invoke(app, arguments)
    finally:
        os.chdir(before)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("simdb: ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_shingles_are_named_by_kind_and_size():
    def shingles_from(text: str) -> Any:
        kind = KindOptions(**{"shingles": text}).new()
        assert isinstance(kind, Text)
        return kind.shingles

    assert shingles_from("character:5") == CharacterShingles(5)
    assert shingles_from("word:3") == WordShingles(3)
    assert shingles_from("stop-word:2") == StopWordShingles(2)
    assert shingles_from("stop-word") == StopWordShingles()
    for wrong in ["", "word:", "word:-1", "word:٣", "word:3.0", "words:3", "word:9999999999"]:
        with pytest.raises(ConfigurationError, match="--shingles"):
            shingles_from(wrong)
    with pytest.raises(ConfigurationError, match=r"int >= 1 - at \$\.size"):
        shingles_from("word:0")


def test_a_kind_keeps_what_was_not_named():
    base = Text(WordShingles(2), lowercase=True, white_space="keep", unicode="keep")
    assert KindOptions().changed(base) == base
    given: dict[str, Any] = {"shingles": "word:4", "lowercase": False}
    changed = KindOptions(**given, **{"white_space": "collapse", "unicode": "NFKC"}).changed(base)
    assert changed == Text(WordShingles(4), lowercase=False, white_space="collapse", unicode="NFKC")


def test_keys_are_text_unless_whole_numbers_are_asked_for():
    assert key_from("7", integer_keys=False) == "7"
    assert key_from("7", integer_keys=True) == 7
    assert key_from(7, integer_keys=True) == 7
    others: list[Any] = ["x", "007", "1_0", "+3", " 4 ", "\u0661", 2.9, True, None, [1]]
    for other in others:
        with pytest.raises(UsageError, match="is not a whole number in its usual spelling"):
            key_from(other, integer_keys=True)


def test_nothing_that_a_terminal_obeys_is_printed():
    hostile = "a\x1b[31m\r\n\x07\x9b\u202eb\u2028\ud800é\U0001f600"

    shown = printable(hostile)

    assert shown == "a\\x1b[31m\\r\\n\\x07\\x9b\\u202eb\\u2028\\ud800é\U0001f600"
    assert printable("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"
    assert excerpt("one\n two\x00" + " three" * 100, 12) == "one two\\x00 th…"


def test_progress_is_silent_where_standard_error_is_no_terminal(capsys):
    with ProgressBar() as bar:
        assert bar.callback is None
        bar.advance("work", 1, 2)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("share", [None, lambda: 0.5, lambda: None])
def test_progress_on_a_terminal_shows_the_count(monkeypatch, capsys, share):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar(share) as bar:
        assert bar.callback is not None
        bar.callback(Progress("adding [rows]", 1234, None))
        bar.callback(Progress("merging", 5, 10))

    shown = capsys.readouterr().err
    assert "1,234" in shown
    assert "adding [rows]" in shown
    assert "merging" in shown


@pytest.mark.parametrize("kind", [Set(), Text()])
def test_keys_of_rows_that_wait_for_the_last_one_are_not_held(tmp_path, kind):
    """Long ones took more memory than all else of a row."""
    name = "set" if kind == Set() else "text"
    rows = [{"id": f"k{n}", "set": [1], "text": "a text"} for n in range(5)]
    path = write_rows(tmp_path / "in.jsonl", rows)
    options = ReadingOptions(kind=kind, text_fields=(name,), id_field="id")
    with tempfile.TemporaryFile() as file:
        feed = Feed([str(path)], options, on_bad="error", keep_raw=True, spilled=file)
        given = []
        for part in feed.parts(3, 10**6):  # of columns, and then row by row
            assert {type(waiting.keys) for waiting in feed._waiting} <= {SpilledKeys}
            given += [row[0] for row in part.rows()]
        assert given == [row["id"] for row in rows]
        assert {type(waiting.keys) for waiting in feed._waiting} == {SpilledKeys}
        outcomes = Outcomes(Outcome(number, f"k{number}", "added") for number in range(5))
        assert [key for waiting, _ in feed.settled(outcomes) for key in waiting.keys] == given


def test_the_share_that_is_done_leaves_out_the_rows_read_ahead(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"set": [1]}\n' * 8)  # sets are read line by line
    options = ReadingOptions(kind=Set(), text_fields=("set",))
    feed = Feed([str(path), str(path)], options, on_bad="error", keep_raw=False)
    assert feed.share() == 0

    rows = iter(feed)
    for _ in range(12):
        next(rows)
    outcomes = Outcomes(Outcome(number, number, "added") for number in range(6))
    assert [list(waiting.lines) for waiting, _ in feed.settled(outcomes)] == [[1, 2, 3, 4, 5, 6]]
    # One file and half of the other are read, and half of those rows are done.
    assert feed.share() == 0.75 / 2
    assert len(list(rows)) == 4


def test_an_interruption_says_what_is_committed():
    with (
        pytest.raises(KeyboardInterrupt, match="interrupted; 5 rows are stored"),
        told_when_interrupted(lambda: "5 rows are stored"),
    ):
        raise KeyboardInterrupt


def test_the_plan_is_shown_for_people_and_for_programs():
    shown = run("plan", "--threshold", "0.8")
    printed = run("plan", "--threshold", "4/5", "--points", "3", "--json")

    assert shown.exit_code == 0
    assert "bands" in shown.stdout
    plan = json.loads(printed.stdout)
    assert plan["expected_recall"] >= 0.99
    assert [point["similarity"] for point in plan["curve"]] == [0.0, 0.5, 1.0]
    assert plan["curve"][2]["probability"] == 1.0


def test_help_does_not_wait_for_the_engine():
    code = (
        "import sys\n"
        "sys.argv = ['simdb', '--help']\n"
        "from simdb.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "loaded = {'numba', 'scipy', 'backports.zstd'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )

    interpreted(code)


def test_the_module_is_the_command():
    done = program("plan", "--json")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")
