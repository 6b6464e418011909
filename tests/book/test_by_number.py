"""Every example, exercise and figure of MMDS 3.5 to 3.8 has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
BY_NUMBER = re.compile(r"^def (test_(?:examples?|exercises?|figures?|section)_\w+)\(", re.MULTILINE)

EXAMPLES = [f"3.{number}" for number in range(12, 24)]
FIGURES = [f"3.{number}" for number in range(9, 14)]
EXERCISES = [
    *(f"3.5.{number}" for number in range(1, 11)),
    *(f"3.6.{number}" for number in range(1, 5)),
    *(f"3.7.{number}" for number in range(1, 6)),
    *(f"3.8.{number}" for number in range(1, 6)),
]


@pytest.fixture(scope="module")
def names() -> list[str]:
    """Return the names of all tests that begin with a number of the book."""
    sources = [path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py"))]
    return [name for source in sources for name in BY_NUMBER.findall(source)]


@pytest.mark.parametrize(
    ("what", "number"),
    [
        *(("example", number) for number in EXAMPLES),
        *(("figure", number) for number in FIGURES),
        *(("exercise", number) for number in EXERCISES),
    ],
)
def test_a_number_of_the_book_has_a_test_of_its_name(what, number, names):
    wanted = re.compile(rf"{what}s?_(?:\w+_)?{number.replace('.', '_')}(?!\d|_\d)")
    assert any(wanted.search(name) for name in names)
