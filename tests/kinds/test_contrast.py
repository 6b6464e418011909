"""Messages name the settings that differ, with both values, and nothing else."""

from __future__ import annotations

import pytest

import simdb
from simdb import kinds
from simdb.kinds.contrast import contrast

NAME, TOWN = simdb.Field("name"), simdb.Field("town")
MANY = tuple(f"word{number}" for number in range(99))


@pytest.mark.parametrize(
    ("present", "wanted", "words"),
    [
        (simdb.Text(), simdb.Text(), ""),
        (simdb.Text(), simdb.Set(), "it holds texts, not sets"),
        (
            simdb.Text(simdb.WordShingles(1), lowercase=True),
            simdb.Text(simdb.WordShingles(2)),
            "shingles.size is 1, not 2; lowercase is True, not False",
        ),
        (
            simdb.Text(),
            simdb.Text(simdb.StopWordShingles(stop_words=MANY)),
            "shingles is character:9, not stop-word:2",
        ),
        (
            simdb.Text(simdb.StopWordShingles()),
            simdb.Text(simdb.StopWordShingles(stop_words=MANY)),
            "shingles.stop_words differs",
        ),
        (
            simdb.Record([NAME, TOWN], ["town"]),
            simdb.Record([TOWN.changed(weight=50)], ["town", ("town", "town")]),
            "fields are name, town, not town; fields.town.weight is 100, not 50; candidates is "
            "((town)), not ((town), (town, town))",
        ),
        (
            simdb.Record([NAME]),
            simdb.Record([simdb.Field("name", 1, "exact", 3, (), missing=1, invalid="missing")]),
            "fields.name.weight is 100, not 1; fields.name.compare is 'edit', not 'exact'; "
            "fields.name.tolerance is 10, not 3; "
            "fields.name.prepare is ('lowercase', 'collapse'), not (); "
            "fields.name.missing is 0, not 1; 1 more differs",
        ),
    ],
)
def test_what_differs_is_said_in_words(present: kinds.Kind, wanted: kinds.Kind, words: str) -> None:
    assert contrast(present, wanted) == words
