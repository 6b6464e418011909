"""Running commands, in this process and in one of their own."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from simdb.cli.app import app
from tests.support.processes import ended

# At each call typer makes all commands anew, which takes longer than most of them do.
pytest.MonkeyPatch().setattr("typer.testing._get_command", cache(typer.main.get_command))


def run(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def done(*arguments: object, stdin: bytes | str | None = None) -> Result:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def lines_of(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(*arguments, "--json").stdout.splitlines()]


def failed(*arguments: object, stdin: str | None = None) -> str:
    """The one line that a command of wrong usage tells; no name of a call is in it."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.stderr
    line: str = result.stderr.splitlines()[-1]
    assert line.startswith("simdb: ")
    words = " ".join(word for word in line.split() if not word.startswith(("/", "'/")))
    for of_python in ("()", "=", "_", "'skip'", "(threshold", "True"):
        assert of_python not in words, line
    return line


def program(*arguments: object, **options: Any) -> Any:
    """What ``python -m simdb`` does with arguments, as ``processes.ended`` runs it."""
    return ended(sys.executable, "-m", "simdb", *arguments, **{"code": None, **options})


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return path
