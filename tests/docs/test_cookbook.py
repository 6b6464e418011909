"""The commands of the cookbook print what it says, one after the other in one folder."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.docs.test_cli_examples import FILE
from tests.support.commands import run

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.heavy  # it imports what the doors lead to
def test_the_commands_of_the_cookbook_print_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLE.findall(COOKBOOK.read_text(encoding="utf-8"))
    assert len(examples) >= 10
    for commands, expected in examples:
        for name, content in FILE.findall(commands):
            (tmp_path / name).write_text(content)
        printed = ""
        for line in FILE.sub("", commands).splitlines():
            program, *arguments = shlex.split(line)
            if program == "python":
                runpy.run_path(arguments[0])
                continue
            assert program == "simdb"
            result = run(*arguments)
            assert result.exit_code == 0, (line, result.stderr, result.exception)
            printed += result.stdout
        assert printed == expected, commands
