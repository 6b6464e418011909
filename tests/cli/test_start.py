"""What the command loads before it works, its help in groups, and completion by the shell."""

from __future__ import annotations

import gc
from inspect import cleandoc
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from simdb.cli import collector
from simdb.cli.app import COMMANDS, app, documented, function_of
from tests.support.commands import done, run, write_rows
from tests.support.processes import CHECKOUT, interpreted

SLOW = {
    "pydantic",
    "numba",
    "llvmlite",
    "scipy",
    "rich",
    "pyarrow",
    "pandas",
    "polars",
    "duckdb",
    "sqlite3",
}
REPORT = (
    "import sys; from simdb.cli.app import app; app(standalone_mode=False); print(*sys.modules)"
)


@pytest.mark.heavy
@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_what_asks_no_store_loads_neither_numpy_nor_what_a_store_needs(tmp_path, arguments):
    variables = {"PYTHONPATH": str(CHECKOUT)}
    ran = interpreted(REPORT, *arguments, cwd=tmp_path, variables=variables)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert not {name.partition(".")[0] for name in loaded} & {*SLOW, "numpy", "lmdb"}
    assert not {"simdb.kinds", "simdb.collection", "simdb.database"} & loaded


# What questions of a store load only for what they ask.
UNASKED = {
    *("simdb.frames", "simdb.reports", "simdb.tuning", "simdb.planning"),
    *("simdb.ingest.add", "simdb.recovery.dump", "simdb.recovery.repair"),
    *("simdb.upkeep.calibrate", "simdb.upkeep.weigh", "simdb.answers.entities"),
    *("simdb.kinds.records", "simdb.kinds.fingerprints", "simdb.cli.settings"),
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "s.simdb"],
        pytest.param(["get", "s.simdb", "c", "a"], marks=pytest.mark.slow),
        ["search", "s.simdb", "c", "--text", "a text"],
    ],
)
def test_a_quick_command_loads_nothing_slow_and_no_other_command(tmp_path, arguments):
    write_rows(tmp_path / "in.jsonl", [{"id": "a", "text": "a text"}])
    done("create", tmp_path / "s.simdb", "c")
    done("add", tmp_path / "s.simdb", "c", tmp_path / "in.jsonl", "--id-field", "id")
    variables = {"PYTHONPATH": str(CHECKOUT)}
    ran = interpreted(REPORT, *arguments, cwd=tmp_path, variables=variables)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert "simdb.cli.app" in loaded
    assert not UNASKED & loaded
    assert ("simdb.answers.choose" in loaded) == (arguments[0] == "search")
    assert not {name.partition(".")[0] for name in loaded} & SLOW
    others = {f"simdb.cli.{name}" for name in chain.from_iterable(COMMANDS.values())}
    assert others & loaded <= {f"simdb.cli.{arguments[0]}"}


@pytest.mark.heavy
def test_numbers_of_a_table_are_read_without_pandas(tmp_path):
    rows = {"id": [3, 1, 2], "vector": [[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]}
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    command = ["dedupe", "in.parquet", "-o", "kept.parquet", "--id-field", "id"]
    command += ["--kind", "vector:2", "--max-distance", "1"]
    variables = {"PYTHONPATH": str(CHECKOUT)}
    ran = interpreted(REPORT, *command, cwd=tmp_path, variables=variables)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert "pyarrow" in loaded
    assert "pandas" not in loaded
    assert pq.read_table(tmp_path / "kept.parquet")["id"].to_pylist() == [3, 1]


def test_the_collector_of_cycles_rests_until_a_command_begins(tmp_path):
    collector.rest()
    try:
        assert not gc.isenabled()
        done("create", tmp_path / "s.simdb", "c")
        assert gc.isenabled()
    finally:
        gc.enable()


def test_the_help_lists_every_command_in_its_group():
    told = run("--help").stdout
    for group, names in COMMANDS.items():
        section = told.split(f"{group}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(names)


@pytest.mark.parametrize("name", [*chain.from_iterable(COMMANDS.values())])
def test_the_help_reads_what_a_command_does_from_its_source(name):
    assert documented(name) == cleandoc(function_of(name).__doc__ or "")


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("simdb de", ["dedupe", "delete"]),
        ("simdb pairs --thr", ["--threshold"]),
        ("simdb dedupe --on-bad ", ["error", "skip"]),
    ],
)
def test_a_shell_completes_commands_options_and_choices(words, completions):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ran = CliRunner().invoke(
        app, [], env={"_SIMDB_COMPLETE": "complete_bash", **asked}, prog_name="simdb"
    )
    assert ran.stdout.split() == completions


SPINNING = """
import os, sys
from simdb.cli import main
sys.argv = ["simdb", "--version"]
try:
    main()
except SystemExit:
    print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
"""


@pytest.mark.heavy
@pytest.mark.parametrize(("given", "wanted"), [({}, "20"), ({"OPENBLAS_THREAD_TIMEOUT": "4"}, "4")])
def test_threads_of_numpy_do_not_spin_for_long_unless_they_are_told_to(tmp_path, given, wanted):
    variables = {"PYTHONPATH": str(CHECKOUT), **given}
    ran = interpreted(SPINNING, cwd=tmp_path, variables=variables)
    assert ran.stdout.split()[-1] == wanted


@pytest.mark.heavy
def test_the_help_is_the_same_where_python_drops_docstrings(tmp_path):
    program = """
from simdb.cli.app import app
for arguments in (["--help"], ["backup", "--help"]):
    app(arguments, prog_name="simdb", standalone_mode=False)
"""
    variables = {"PYTHONPATH": str(CHECKOUT)}
    shown, dropped = (
        interpreted(program, cwd=tmp_path, variables=variables | more).stdout
        for more in ({}, {"PYTHONOPTIMIZE": "2"})
    )
    assert "Usage: simdb backup" in shown
    assert shown == dropped
