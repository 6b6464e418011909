"""Commands that fail, on a store of three texts: running them, and what they tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

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
        cwd=Path(__file__).parents[2],
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
