"""The shell commands that the page of the command line shows first run, on small files."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "command-line.md"
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVERY_KIND = ("create", "add", "search", "pairs", "groups", "dedupe", "join")


def commands_of(document: Path) -> list[list[str]]:
    """Return the commands of the first block that deduplicates a file."""
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    (block, *_) = [block for block in blocks if "simdb dedupe posts.jsonl.gz" in block]
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("simdb ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files that the commands name, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "photos").mkdir()
    texts = [
        f"{number} is the number that this text is about, and not {number + 1}. " * 3
        for number in range(5)
    ]
    rows = [
        json.dumps({"id": f"r{place}", "text": text})
        for place, text in enumerate([*texts, texts[0] + "!"])
    ]
    content = "".join(row + "\n" for row in rows)
    (tmp_path / "january.jsonl").write_text(content)
    with gzip.open("posts.jsonl.gz", "wt") as posts:
        posts.write(content)
    with gzip.open("more.jsonl.gz", "wt") as more:
        more.write(content.replace('"r', '"s'))
    with gzip.open("retail.txt.gz", "wt") as retail:
        retail.write("38 39 47 48\n38 39 47 48 170\n32 41\n")
    np.save("words.npy", np.random.default_rng(1).normal(size=(10, 25)).astype(np.float32))
    return tmp_path


def test_the_commands_that_it_shows_first_run_as_they_stand(folder):
    commands = commands_of(GUIDE)
    assert len(commands) >= 5
    for arguments in commands:
        result = run(*[part.replace("~", str(folder)) for part in arguments])
        assert result.exit_code == 0, (arguments, result.stderr, result.exception)
    kept = (folder / "kept.jsonl").read_text().splitlines()
    removed = [json.loads(line) for line in (folder / "removed.jsonl").read_text().splitlines()]
    assert len(kept) == 5
    assert [(row["id"], row["duplicate_of"]) for row in removed] == [("r5", "r0")]


def test_every_command_that_all_kinds_have_is_shown_with_what_it_prints():
    shown = GUIDE.read_text(encoding="utf-8").split("## Kinds of items")[1].split("\n## ")[0]
    for command in EVERY_KIND:
        assert f"\nsimdb {command} " in shown, command
