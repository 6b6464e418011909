"""What the commands say when they fail: options and commands, never calls; and exit codes."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

import simdb
from simdb import starting
from simdb.cli import main, search
from simdb.cli.failures import told_when_interrupted
from simdb.storage.file.errors import translated
from tests.support import cli_stores
from tests.support.cli_stores import THREE_ROWS
from tests.support.commands import failed, program, run
from tests.support.processes import ended, interpreted

store = cli_stores.store_of_three


def test_remedies_are_options_and_commands(store):
    told = failed("add", store, "news", "-", "--id-field", "id", stdin=THREE_ROWS)
    assert "--on-existing skip leaves it, or --on-existing replace overwrites it" in told

    told = failed("create", store, "news")
    assert f"simdb rebuild {store} news changes its settings" in told

    for command in ("search", "pairs", "groups"):
        probe = ["--text", "one"] if command == "search" else []
        told = failed(command, store, "news", *probe, "--threshold", "0.5")
        assert f"simdb rebuild {store} news --threshold 0.5 plans for it" in told
        assert f"simdb rebuild {store} news --exact-floor 0.5" in told
        assert "--min-recall 0." in told
        assert "--exact misses nothing" in told
        told = failed(command, store, "news", *probe, "--threshold", "0.5", "--min-recall", "0.99")
        assert "less than the 0.99 asked for" in told

    contained = ("--text", "one", "--measure", "stored-in-probe", "--guarantee", "probable")
    told = failed("search", store, "news", *contained)
    assert "no probable index for stored-in-probe similarity; --exact misses nothing" in told


def test_a_store_that_may_only_be_read_is_told_without_arguments_of_python(store, monkeypatch):
    """Commands that only read open it so of themselves."""

    def refused(*_, **__):
        with translated(Path(store)):
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(simdb, "open", refused)
    with pytest.raises(
        simdb.StorageError, match=r"simdb.open\(read_only=True\) opens a store there"
    ):
        simdb.open(store)
    told = run("add", store, "news", "-", stdin=THREE_ROWS)
    assert told.stderr == f"simdb: {store}: the file system is read-only\n"
    assert told.exit_code == 3


@pytest.mark.parametrize("option", ["--find-duplicates", "--on-duplicate"])
def test_adding_below_the_threshold_names_no_option_that_adding_lacks(store, tmp_path, option):
    adding = [option, *["skip"] * (option == "--on-duplicate")]
    for told in (
        failed(
            *("add", store, "news", "-", *adding, "--threshold", "0.5", "--id-field", "id"),
            stdin=THREE_ROWS,
        ),
        failed(
            *("dedupe", "-", "-o", tmp_path / "out", "--store", store, "--collection", "news"),
            *("--threshold", "0.5", "--id-field", "id"),
            stdin=THREE_ROWS,
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


def test_options_that_need_others_name_them(store, tmp_path):
    given, output = tmp_path / "in.jsonl", ["-o", tmp_path / "out"]
    given.write_text(THREE_ROWS)
    apart = ["--apart", given]
    assert "--apart needs --one-to-one" in failed("join", store, "news", "news", *apart)
    assert "--apart needs --one-to-one" in failed("link", given, given, *output, *apart)
    told = failed("dedupe", given, *output, "--containment", "0.9")
    assert "--containment needs --measure both" in told
    for measure in ("containment", "both"):
        told = failed("dedupe", given, *output, "--measure", measure, "--recall", "0.9")
        assert f"--recall is not for --measure {measure}" in told
    for exact in (["--exact"], ["--guarantee", "exact"]):
        told = failed("pairs", store, "news", *exact, "--min-recall", "0.9")
        assert "--min-recall is not for exact answers" in told
    of_vectors = ["--kind", "vector:2", "--max-distance", "1", "--measure", "containment"]
    told = failed("dedupe", given, *output, *of_vectors)
    assert "vectors are not compared by containment: leave out --measure containment" in told
    assert "give a row budget of 460" in failed("plan", "--threshold", "0.01")


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

    monkeypatch.setattr(search, "promise", fail)
    monkeypatch.setenv("SIMDB_TRACEBACK", "0")
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
        pytest.param(["stats", "STORE"], marks=pytest.mark.slow),
        ["pairs", "STORE", "news"],
        pytest.param(["export", "STORE", "news"], marks=pytest.mark.slow),
        pytest.param(["get", "STORE", "news", "a", "--json"], marks=pytest.mark.slow),
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


def test_without_a_present_folder_whole_names_do_and_others_tell_it(store, tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(THREE_ROWS)
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run("dedupe", rows, "-o", "-").stdout == THREE_ROWS
    assert failed("dedupe", rows, "-o", "kept.jsonl") == "simdb: the present folder is gone"
    assert failed("export", store, "news", "-o", "out.jsonl") == "simdb: the present folder is gone"
    assert run("create", "s.simdb", "c").stderr == "simdb: s.simdb: the present folder is gone\n"


def test_a_message_that_cannot_be_written_leaves_the_exit_code(store):
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = program("get", store, "news", "absent", stderr=full)
    assert done.returncode == 2


@pytest.mark.parametrize("gone", ["full", pytest.param("ended", marks=pytest.mark.slow)])
def test_a_note_that_cannot_be_written_keeps_nothing_from_being_done(store, tmp_path, gone):
    """On standard error, as where the disk of a log is full or its reader has ended."""
    if gone == "full" and not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "bad"}\n' + THREE_ROWS.replace('"id": "', '"id": "new'))
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("w") if gone == "full" else os.fdopen(writing, "w") as errors:
        options = "--id-field", "id", "--on-bad", "skip"
        done = program("add", store, "news", rows, *options, stderr=errors)
    if gone == "full":
        os.close(writing)
    assert done.returncode == 0
    with simdb.open(store) as db:
        assert len(db["news"]) == 6


@pytest.mark.parametrize(
    ("closed", "command", "code", "told"),
    [
        ("2>&-", "get STORE news absent", 2, ""),
        (">&-", "get STORE news a", 3, "simdb: the output could not be written: Bad file"),
        ("<&-", "dedupe - -o OUT", 2, "simdb: standard input is closed"),
        ("<&- >&- 2>&-", "dedupe IN -o OUT", 0, ""),
        *(
            pytest.param(closed, "dedupe IN -o OUT", 0, told, marks=pytest.mark.slow)
            for closed, told in (("2>&-", ""), (">&-", "3 rows: "), ("<&-", "3 rows: "))
        ),
    ],
)
def test_a_closed_standard_stream_matters_only_where_it_is_used(store, closed, command, code, told):
    given, output = store.with_name("in.jsonl"), store.with_name("out.jsonl")
    given.write_text(THREE_ROWS)
    places = {"STORE": store, "IN": given, "OUT": output}
    words = [sys.executable, "-m", "simdb", *(places.get(one, one) for one in command.split())]
    done = ended("sh", "-c", f'exec "$@" {closed}', "sh", *words, code=code)
    assert done.stdout == ""
    assert done.stderr.startswith(told) if told else done.stderr == ""
    if code == 0:
        assert output.read_bytes() == given.read_bytes()


# ---------------------------------------------------------------------------- interruptions


# What a command imports once it is called, and what is imported before.
INTACT = "simdb: interrupted; what was committed before is intact\n"
OF_COMMANDS = [("numpy", INTACT), ("simdb.results", INTACT)]
OF_THE_START = [("typer", ""), ("simdb.cli.app", "")]


@pytest.mark.parametrize(("module", "told"), OF_COMMANDS + OF_THE_START)
def test_an_interruption_of_the_imports_shows_no_traceback(module, told):
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["/usr/bin/simdb", "plan"]
from simdb.cli import main  # as the command does that pip makes
main()
"""
    done = interpreted(code, code=130)
    assert (done.stderr, done.stdout) == (told, "")


def test_an_interruption_of_another_programs_imports_is_told():
    code = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
import simdb.database
"""
    assert "KeyboardInterrupt" in interpreted(code, code=-signal.SIGINT).stderr


@pytest.mark.parametrize(("module", "told"), [*OF_COMMANDS[1:], ("typer", "")])
def test_an_interruption_of_python_m_shows_no_traceback(module, told, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
"""
    )
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = program("plan", env=variables)
    assert (done.returncode, done.stderr, done.stdout) == (130, told, "")


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_an_interruption_before_the_command_begins_is_quiet(monkeypatch, is_wrapped):
    def interrupt(*arguments: object, **options: object) -> None:
        if is_wrapped:  # as by Python 3.11 where a class is made, of a module that is imported
            raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr("simdb.extras.own_version", interrupt)
    result = run("--version")
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


def test_an_interruption_of_the_first_lines_of_the_command_is_quiet(monkeypatch):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simdb.cli.collector.rest", interrupt)
    monkeypatch.setattr("simdb.cli.collector.finish", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.mark.parametrize("command", ["repair", "restore", "restore over one"])
def test_an_interruption_says_that_no_store_was_made(store, tmp_path, monkeypatch, command):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    verb, _, over = command.partition(" ")
    monkeypatch.setattr(f"simdb.{verb}", interrupt)
    new = tmp_path / "new.simdb"
    if over:
        new.touch()
    result = run(verb, store, new)
    assert result.exit_code == 130
    told = f"{new} is as it was" if over else f"{new} was not written"
    assert result.stderr == f"simdb: interrupted; {told}\n"


def test_an_interruption_within_a_kernel_is_one(monkeypatch):
    def interrupt(*arguments: object, **options: object) -> None:
        # What C makes of one that it did not look for, and of that again.
        told = "returned a result with an exception set"
        inner = SystemError(told)
        inner.__cause__ = KeyboardInterrupt()
        raise SystemError(told) from inner

    monkeypatch.setattr("simdb.open", interrupt)
    result = run("create", "s.simdb", "c")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    with (
        pytest.raises(KeyboardInterrupt, match="interrupted; 5 rows"),
        told_when_interrupted(lambda: "5 rows"),
    ):
        interrupt()


def test_an_interruption_that_python_ignores_comes_again():
    code = """
import importlib.metadata, signal, sys, time
from simdb.cli import main
class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def version(name):
    Finalised()
    time.sleep(60)
importlib.metadata.version, sys.argv = version, ["simdb", "--version"]
main()
"""
    began = time.monotonic()
    assert interpreted(code, code=130).stdout == ""
    assert time.monotonic() - began < 50


@pytest.mark.parametrize("name", ["simdb.late", "msgspec", "simdb.cli", "simdb.cli.collector"])
def test_an_interruption_while_the_command_loads_is_quiet(name):
    code = f"""
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["/usr/bin/simdb", "--version"]
from simdb.cli import main
main()
"""
    ended = interpreted(code, code=130)
    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.parametrize("begin", ["simdb.SimdbError", "simdb.cli.app.app(['plan', '--help'])"])
def test_an_interruption_is_told_as_usual_once_simdb_is_used_or_its_command_begins(begin):
    code = f"""
import signal, sys
sys.argv = ["simdb"]
import simdb.cli.app
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
try:
    {begin}
except SystemExit:
    pass
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    told = interpreted(code).stdout.splitlines()
    assert told[0] == "False"
    assert told[-1] == "True"


def test_a_library_that_catches_an_interruption_while_the_command_loads_does_not_go_on():
    code = """
import signal, sys
class Catching:
    def find_spec(self, name, path=None, target=None):
        if name == "simdb.cli.plan":
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                print("went on")
sys.meta_path.insert(0, Catching())
sys.argv = ["simdb", "plan", "--threshold", "0.8"]
from simdb.cli import main
main()
"""
    assert interpreted(code, code=130).stdout == ""


def test_a_program_that_is_called_as_the_command_is_ended_by_interruptions_as_any():
    code = """
import signal, sys, threading
sys.argv = ["simdb"]
import simdb
thread = threading.Thread(target=lambda: simdb.open)  # in which Python lets nobody say so
thread.start()
thread.join()
try:
    signal.raise_signal(signal.SIGINT)
finally:
    print("cleaned up")
"""
    ended = interpreted(code, code=-signal.SIGINT)
    assert ended.stdout == "cleaned up\n"


def test_only_the_main_thread_takes_interruptions_back_and_an_ignored_one_stays_ignored():
    code = """
import signal, sys, threading
sys.argv = ["simdb"]
signal.signal(signal.SIGINT, signal.SIG_IGN)
from simdb import starting
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
signal.signal(signal.SIGINT, starting._end)
thread = threading.Thread(target=starting.finish)
thread.start()
thread.join()
print(signal.getsignal(signal.SIGINT) is starting._end)
"""
    assert interpreted(code).stdout == "True\nTrue\n"


@pytest.mark.parametrize(
    ("program", "began", "is_command"),
    [
        ("/usr/bin/simdb", ["python", "/usr/bin/simdb"], True),
        ("-m", ["python", "-X", "dev", "-m", "simdb"], True),
        ("-m", ["python", "-msimdb"], True),
        ("-m", ["python", "-m", "pytest"], False),
        ("simdb.py", ["python", "simdb.py"], False),
        ("-c", ["python", "-c", "import simdb"], False),
        ("", ["python"], False),
    ],
)
def test_only_the_own_process_of_the_command_is_quiet(monkeypatch, program, began, is_command):
    for arguments in ([], ["list", "-m", "simdb"]):
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        monkeypatch.setattr(sys, "orig_argv", [*began, *arguments])
        assert starting.is_command() == is_command


def test_a_damaged_store_names_the_repair_that_takes_it(tmp_path):
    store = tmp_path / "s.simdb"
    assert run("create", store, "texts").exit_code == 0
    assert run("add", store, "texts", "-", stdin='{"text": "a rare text"}\n').exit_code == 0
    whole = store.read_bytes()
    damages = (
        ("one", whole.replace(b"a rare text", b"a fake text"), 1),
        ("cut", whole[:8192], 3),  # of which nothing can be read
    )
    for name, content, code in damages:
        store.write_bytes(content)
        told = run("get", store, "texts", "1", "--integer-keys")
        assert told.exit_code == 3, name
        assert "'simdb repair' or restore a backup" in told.stderr, name
        assert run("repair", store, tmp_path / name).exit_code == code, name
