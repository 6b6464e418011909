"""An item is found by itself in the probable index, also if no rule or function covers it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import simdb

GENERATOR = random.Random(9)


def minutiae(count: int) -> list[tuple[int, int, int]]:
    draw = GENERATOR.randrange
    return [(draw(400), draw(600), draw(360)) for _ in range(count)]


PRINTS = [minutiae(GENERATOR.choice([1, 2, 3, 8, 30])) for _ in range(30)]
SQUARES = [GENERATOR.sample(range(600), GENERATOR.choice([1, 2, 50])) for _ in range(60)]
PEOPLE: list[dict[str, Any]] = [
    {"name": f"name {number}", "city": f"city {number % 7}"} for number in range(40)
]
PEOPLE += [{"name": f"other {number}", "phone": str(number), "city": "x"} for number in range(20)]
FIELDS = [
    simdb.Field("name", missing="ignore"),
    simdb.Field("city", missing="ignore"),
    simdb.Field("phone", missing="ignore"),
    simdb.Field("born", compare="date", missing="ignore"),
]

CASES: dict[str, tuple[simdb.Fingerprint | simdb.Record, list[Any]]] = {
    "one grid": (simdb.Fingerprint(400, 600), PRINTS),
    "groups of odd sizes": (simdb.Fingerprint(400, 600, functions=33, groups=3), PRINTS),
    "grids around minutiae": (
        simdb.Fingerprint(400, 600, alignment="turn", square=24, functions=50),
        PRINTS,
    ),
    "squares": (simdb.Fingerprint(400, 600, items="squares", measure="squares"), SQUARES),
    "a rule": (simdb.Record(FIELDS, ["phone"]), PEOPLE),
    "rules": (simdb.Record(FIELDS, [("phone", "city"), "born"]), PEOPLE),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[simdb.Fingerprint | simdb.Record, list[Any]]:
    return CASES[request.param]


def those_that_find_themselves(collection: simdb.Collection, items: list[Any]) -> set[int]:
    return {
        key
        for key, item in enumerate(items)
        if key in {match.key for match in collection.search(item, guarantee="probable")}
    }


def test_every_item_finds_itself_and_is_not_stored_again(tmp_path, case):
    kind, items = case
    everything = set(range(len(items)))
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", kind, threshold=1, seed=1)
        assert collection.add_many(enumerate(items), on_duplicate="skip").added == len(items)
        assert those_that_find_themselves(collection, items) == everything
        again = collection.add_many(((-1 - n, item) for n, item in enumerate(items)))
        assert again.added == len(items)
        copies = {(n, -1 - n) for n in everything}
        assert {(pair.left, pair.right) for pair in collection.pairs()} == copies
        assert {frozenset(group.keys) for group in collection.groups()} == {*map(frozenset, copies)}
        collection.delete_many(-1 - n for n in everything)
        assert collection.add("one more", items[0], on_duplicate="skip").duplicate_of == 0
        rows = ((str(n), item) for n, item in enumerate([*items, *items]))
        assert collection.add_many(rows, on_duplicate="skip").added == 0
        assert database.check(deep=True).sound
        collection.compact()
        other = database.collection("d", kind, threshold=1)
        other.add_many(enumerate(items))
        assert {(pair.left, pair.right) for pair in other.join(collection)} == {
            (n, n) for n in everything
        }


def test_what_was_stored_without_stays_so_until_it_is_rebuilt(tmp_path, case, monkeypatch):
    kind, items = case
    path = tmp_path / "s.simdb"
    with monkeypatch.context() as patch, simdb.open(path) as database:
        patch.setattr(type(kind), "may_miss_equals", False)
        database.collection("c", kind, threshold=1, seed=1).add_many(enumerate(items[:-5]))
    with simdb.open(path) as database:
        collection = database.collection("c", kind, threshold=1)
        collection.add_many((len(items) - 5 + n, item) for n, item in enumerate(items[-5:]))
        assert len(those_that_find_themselves(collection, items)) < len(items) - 5
        assert database.check(deep=True).sound
        collection.rebuild()
        assert those_that_find_themselves(collection, items) == set(range(len(items)))
        assert database.check(deep=True).sound


def test_records_without_any_value_stay_apart(tmp_path):
    """They are equal, and similar to nothing: no bucket makes candidates of each with each."""
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", simdb.Record(FIELDS, ["phone"]), threshold=1)
        people.add_many((number, {"name": None}) for number in range(500))
        people.add_many((500 + number, PEOPLE[number]) for number in range(40))
        assert list(people.pairs(budget=50)) == []
        assert people.stats()["rules"][0]["records"] == 0
        assert people.search({}).candidates == 0
