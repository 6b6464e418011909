"""Stores that what a test does to them must not harm, as fixtures that modules take over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import simdb
from tests.support.strategies import SURE

WORDS = simdb.Text(simdb.WordShingles(1))
CHARACTERS = simdb.Text(simdb.CharacterShingles(9))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[simdb.Database]:
    """A store with a collection of one text, which must be there and be found at the end."""
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add("kept", "what was stored before")
        yield db
        assert next(record.key for record in collection.items()) == "kept"
        assert [match.key for match in collection.search("what was stored before")][:1] == ["kept"]
        assert db.check(deep=True).sound


@pytest.fixture
def collection(database: simdb.Database) -> simdb.Collection:
    """Its collection of one text."""
    return database["c"]
