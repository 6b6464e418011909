"""Stores of texts that commands made."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import done, run, write_rows
from tests.support.similarities import jaccard

WORDS = [f"word{number}" for number in range(500)]


def words(seed: int, count: int = 120) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def text_of(seed: int) -> str:
    return " ".join(words(seed))


def near_copy(seed: int) -> str:
    """The text of a seed with its last two words changed."""
    return " ".join([*words(seed)[:-2], "changed", "words"])


def likeness(left: str, right: str, size: int = 9) -> float:
    """The similarity of two texts by the shingles that they have."""
    one, other = (
        {text[start : start + size] for start in range(len(text) - size + 1)}
        for text in (left, right)
    )
    return float(jaccard(one, other))


ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": text_of(1), "source": "one"},
    {"id": "b", "text": text_of(2), "n": [1, None, 2.5]},
    {"id": "c", "text": near_copy(1)},
    {"id": "d", "text": text_of(3)},
    {"id": "e\x1b[31m", "text": near_copy(2)},
]


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.jsonl", ROWS)


@pytest.fixture
def store(tmp_path: Path, rows_file: Path) -> Iterator[Path]:
    path = tmp_path / "news.simdb"
    done("create", path, "news", "--kind", "text", "--shingles", "character:9", "--threshold", 0.8)
    done("add", path, "news", rows_file, "--text-field", "text", "--id-field", "id")
    yield path
    assert run("check", path, "--deep").exit_code == 0


THREE_ROWS = "".join(
    json.dumps({"id": key, "text": text}) + "\n"
    for key, text in [("a", "one two three four"), ("b", "five six"), ("c", "seven")]
)


@pytest.fixture
def store_of_three(tmp_path: Path) -> Path:
    path = tmp_path / "s.simdb"
    done("create", path, "news", "--shingles", "word:1")
    done("add", path, "news", "-", "--id-field", "id", stdin=THREE_ROWS)
    return path
