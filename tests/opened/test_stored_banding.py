"""Stored bands and rows that no planning gives are damage, however few items there are."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import simdb
from simdb.errors import CorruptionError
from simdb.lsh.family import MAXIMUM_FUNCTIONS
from simdb.opened import catalogue

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (simdb.Text(), {"threshold": 0.8}),
    "set": (simdb.Set(), {"threshold": 0.8}),
    "bag": (simdb.Bag(), {"threshold": 0.4}),
    "bits": (simdb.Bits(64), {"max_distance": 3}),
    "cosine": (simdb.Vector(4), {"max_distance": 10}),
    "euclidean": (simdb.Vector(4, measure="euclidean"), {"max_distance": 1}),
    "record": (simdb.Record([simdb.Field("name"), simdb.Field("town")]), {"threshold": 0.8}),
    "fingerprint": (simdb.Fingerprint(300, 400), {"threshold": 0.5}),
}
NEVER: list[tuple[Any, Any]] = [
    (10**9, 10**9),
    (10**9, 1),
    (1, 10**9),
    (MAXIMUM_FUNCTIONS + 1, 1),
    (-1, -1),
    (0, 5),
    (5, 0),
    (2.0, 5),
    (True, 1),
    ("12", 5),
    (None, None),
]


@pytest.fixture(params=KINDS)
def database(request, path):
    kind, options = KINDS[request.param]
    with simdb.open(path, threads=1) as database:
        database.create_collection("c", kind, **options)
        yield database


def settings_of(database: simdb.Database) -> catalogue.CollectionSettings:
    with database._handle.read() as transaction:
        return catalogue.require_settings(transaction, "c")


def test_bands_and_rows_that_cannot_be_are_found_in_an_empty_collection(database):
    present = settings_of(database)
    for bands, rows in NEVER:
        with database._handle.write() as transaction:
            catalogue.write_settings(transaction, replace(present, bands=bands, rows=rows))
        with pytest.raises(CorruptionError, match="settings of collection 'c' cannot be read"):
            database["c"]
        report = database.check()
        assert [(found.table, found.record) for found in report.problems] == [("meta", "c")]


def test_what_planning_gives_is_read_as_it_was_written(database):
    present = settings_of(database)
    without = replace(present, bands=0, rows=0)
    for settings in (present, without):
        assert catalogue.CollectionSettings.decode("c", settings.encode()) == settings
    assert database.check().sound


@pytest.mark.parametrize("name", ["record", "fingerprint"])
def test_rules_and_functions_are_those_of_the_kind(path, name):
    kind, options = KINDS[name]
    with simdb.open(path, threads=1) as database:
        database.create_collection("c", kind, **options)
        present = settings_of(database)
    for bands, rows in ((present.bands + 1, present.rows), (present.bands, present.rows + 1)):
        with pytest.raises(CorruptionError, match=f"{bands} bands of {rows} rows"):
            catalogue.CollectionSettings.decode(
                "c", replace(present, bands=bands, rows=rows).encode()
            )


@pytest.mark.parametrize("most", [12, 20, 40])
def test_a_distance_that_chunks_cannot_be_planned_for_is_damage(path, most):
    """A search within it would look into buckets without bound."""
    with simdb.open(path, threads=1) as database:
        database.create_collection("c", simdb.Bits(64), max_distance=4)
        present = settings_of(database)
    assert present.recall == 1
    with pytest.raises(CorruptionError, match=f"no plan within {most} has"):
        catalogue.CollectionSettings.decode("c", replace(present, threshold=most).encode())


def test_the_largest_banding_that_can_be_given_is_kept(path):
    with simdb.open(path, threads=1) as database:
        database.create_collection("c", simdb.Set(), threshold=0.8, bands=MAXIMUM_FUNCTIONS, rows=1)
    with simdb.open(path, threads=1) as database:
        assert database["c"].plan.bands == MAXIMUM_FUNCTIONS
