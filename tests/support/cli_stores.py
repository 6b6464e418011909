"""Stores that commands made, once, and of which each test has a copy."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import simdb
from tests.support.commands import done, write_rows
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


_MADE: dict[Callable[[Path], None], Path] = {}


def copied(make: Callable[[Path], None], factory: pytest.TempPathFactory, folder: Path) -> None:
    """Put into a folder what a function has made in another when it was first asked for."""
    if make not in _MADE:
        made = factory.mktemp("made")
        make(made)
        _MADE[make] = made
    locks = shutil.ignore_patterns("*.simdb-*")
    shutil.copytree(_MADE[make], folder, ignore=locks, dirs_exist_ok=True)


def require_sound(path: Path) -> None:
    with simdb.open(path, read_only=True) as database:
        assert database.check(deep=True).sound


def _make_news(folder: Path) -> None:
    path = folder / "news.simdb"
    rows = write_rows(folder / "rows.jsonl", ROWS)
    done("create", path, "news", "--kind", "text", "--shingles", "character:9", "--threshold", 0.8)
    done("add", path, "news", rows, "--text-field", "text", "--id-field", "id")


def _make_three(folder: Path) -> None:
    path = folder / "s.simdb"
    done("create", path, "news", "--shingles", "word:1")
    done("add", path, "news", "-", "--id-field", "id", stdin=THREE_ROWS)


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.jsonl", ROWS)


@pytest.fixture
def store(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    copied(_make_news, tmp_path_factory, tmp_path)
    yield tmp_path / "news.simdb"
    require_sound(tmp_path / "news.simdb")


THREE_ROWS = "".join(
    json.dumps({"id": key, "text": text}) + "\n"
    for key, text in [("a", "one two three four"), ("b", "five six"), ("c", "seven")]
)


@pytest.fixture
def store_of_three(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied(_make_three, tmp_path_factory, tmp_path)
    return tmp_path / "s.simdb"
