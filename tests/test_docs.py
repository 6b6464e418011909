"""What the documents show works: their Python runs, commands exist, links lead somewhere."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def python_blocks() -> Iterator[Any]:
    for document in DOCUMENTS:
        for number, block in enumerate(PYTHON_BLOCK.findall(document.read_text())):
            yield pytest.param(block, id=f"{document.name}-{number}")


@pytest.mark.parametrize("block", list(python_blocks()))
def test_a_python_block_runs_twice_in_an_empty_folder(block, tmp_path):
    """Twice, since a script is run again tomorrow on the store of today."""
    script = tmp_path / "block.py"
    script.write_text(block)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_to_files_that_exist(document):
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_two_commands_at_the_top_of_the_readme_exist():
    top = (ROOT / "README.md").read_text().split("## ")[0]
    commands = re.findall(r"^python3 (\S+) (\w+)", top, re.MULTILINE)
    assert [command for _, command in commands] == ["demo", "test"]
    for script, command in commands:
        assert f'"{command}"' in (ROOT / script).read_text()
