"""Compiling ahead, by the command."""

from __future__ import annotations

import pytest

from simdb import starting
from simdb.cli.failures import tell_of_compiling
from simdb.kernels import strings
from simdb.kernels.compiler import IS_INTERPRETED
from tests.support.commands import run


@pytest.mark.skipif(IS_INTERPRETED, reason="nothing is compiled")
def test_the_kernels_of_a_kind_are_ready_when_it_is_warm():
    told = run("warm", "string")
    assert told.exit_code == 0
    assert told.stdout == ""
    assert told.stderr.splitlines() == ["string: ready", "1 kind ready"]
    for name in ("segment_keys", "compare_rows", "near_pairs", "probe_keys", "gathered"):
        assert getattr(strings, name).variants, name
    assert run("warm", "string", "--quiet").stderr == ""


def test_a_command_that_must_compile_says_so_unless_it_is_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(starting, "before_compiling", [tell_of_compiling])
    run("pairs", tmp_path / "none")
    (tell,) = starting.before_compiling
    tell()
    assert capsys.readouterr().err.startswith("compiling for this processor, once")
    run("pairs", tmp_path / "none", "--quiet")
    assert starting.before_compiling == []


def test_an_unknown_kind_is_told_with_those_there_are():
    told = run("warm", "texts")
    assert told.exit_code == 2
    assert "'texts'" in told.stderr
    assert "text, set, bag" in told.stderr
