"""Work is cut into portions that bound the memory: where the cuts fall changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import compare as comparing
from simdb.answers.exact import probe as exact_probing
from simdb.batches import compare as batch_comparing
from simdb.opened import epochs
from simdb.storage.collection.reader import live_batches
from simdb.upkeep import check as exact_checking
from tests.support.exact_stores import small_epochs
from tests.support.strategies import SURE, cluster_corpus

WORDS = simdb.Text(simdb.WordShingles(1))
TEXTS = [text for _, text in cluster_corpus(3, 8, 6)]
PEOPLE = simdb.Record([simdb.Field("name"), simdb.Field("town")], candidates=["town"])


@pytest.fixture
def portions(monkeypatch):
    """Make all portions small when called."""

    def small() -> None:
        for module in (comparing, batch_comparing):
            monkeypatch.setattr(module, "COMPARED_BYTES", 200)
        monkeypatch.setattr(
            live_batches, "__kwdefaults__", {**(live_batches.__kwdefaults__ or {}), "most_items": 3}
        )
        monkeypatch.setattr(exact_checking, "RECOMPUTED_BYTES", 100)
        monkeypatch.setattr(exact_probing, "COMPARED_BYTES", 200)
        monkeypatch.setattr(exact_probing, "REMEMBERED", 2)
        monkeypatch.setattr(exact_probing, "CACHED_ROWS", 3)
        monkeypatch.setattr(epochs, "ORDERS_KEPT", 1)

    return small


@pytest.fixture
def database(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db


def twice(ask: Any, portions: Any) -> Any:
    """Return the answer, which must be the same in small portions."""
    expected = ask()
    portions()
    assert ask() == expected
    return expected


def similar(collection: Any, probes: Any, **options: Any) -> tuple[Any, Any]:
    """Return the matches of all probes, and all pairs."""
    matches = [
        [(match.key, match.similarity) for match in found]
        for found in collection.search_many(probes, **options)
    ]
    pairs = collection.pairs(**options)
    return matches, sorted((pair.left, pair.right, pair.similarity) for pair in pairs)


@pytest.mark.parametrize("guarantee", ["probable", "exact"])
def test_texts_are_searched_and_joined_alike(database, portions, guarantee):
    texts = database.collection("c", WORDS, exact_floor=0.5, **SURE)
    texts.add_many(enumerate([*TEXTS, *TEXTS[:5]]))
    matches, pairs = twice(
        lambda: similar(texts, TEXTS, threshold=0.5, guarantee=guarantee), portions
    )
    assert all(matches)
    assert len(pairs) >= 5


def test_a_search_that_finds_nothing_finds_nothing_in_portions_either(database, portions):
    vectors = database.collection("v", simdb.Vector(4, "euclidean"), max_distance=1)
    vectors.add_many((number, [number, 0, 0, 0]) for number in range(10))

    def ask() -> Any:
        return len(vectors.search([0, 90, 0, 0], guarantee="exact"))

    assert twice(ask, portions) == 0


def test_records_are_scanned_alike(database, portions):
    people = database.collection("r", PEOPLE, threshold=0.6, seed=1)
    names = ["anna", "anne", "annette", "bert", "berta", "hanna", "johanna"]
    people.add_many(
        (number, {"name": name, "town": "ulm"}) for number, name in enumerate(names * 2)
    )
    probes = [{"name": name, "town": "ulm"} for name in names]
    matches, pairs = twice(
        lambda: similar(people, probes, threshold=0.6, guarantee="exact"), portions
    )
    assert all(len(found) >= 2 for found in matches)
    assert len(pairs) >= len(names)


@pytest.mark.parametrize(
    ("kind", "bound", "items"),
    [
        (WORDS, {"threshold": 0.5, "bands": 3, "rows": 3}, TEXTS),
        (
            simdb.Vector(4, "euclidean"),
            {"max_distance": 1.5, "bands": 3, "rows": 3},
            np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32),
        ),
    ],
    ids=["texts", "vectors"],
)
def test_an_audit_counts_alike_and_says_how_far_it_is(database, portions, kind, bound, items):
    collection = database.collection("c", kind, seed=1, **bound)
    collection.add_many(enumerate(items))
    told: list[simdb.Progress] = []
    report = twice(
        lambda: collection.self_audit(sample=1_000, seed=2, progress=told.append), portions
    )
    assert report.true_pairs > 0
    assert max(progress.done for progress in told) == len(collection)


def test_a_check_of_an_exact_index_finds_alike(database, portions):
    sets = database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5)
    sets.add_many((number, set(range(number, number + 9))) for number in range(50))
    assert twice(lambda: database.check(deep=True), portions).sound


def test_new_items_are_looked_up_alike_though_similar_ones_are_forgotten(database, portions):
    sets = database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5)
    sets.add_many((number, set(range(number % 9, number % 9 + 9))) for number in range(700))
    since = sets.checkpoint()
    sets.add_many((1_000 + number, set(range(number % 3, number % 3 + 9))) for number in range(9))

    def ask() -> Any:
        pairs = sets.pairs(0.5, guarantee="exact", since=since)
        return sorted((pair.left, pair.right, pair.similarity) for pair in pairs)

    assert len(twice(ask, portions)) > 9 * 70


def test_orders_of_more_collections_than_are_kept_are_read_again(database, portions, monkeypatch):
    small_epochs(monkeypatch)
    for name in "abc":
        sets = database.collection(name, simdb.Set(), threshold=None, exact_floor=0.5)
        for number in range(60):
            sets.add(number, set(range(number % 7, number % 7 + 9)))

    def ask() -> Any:
        return [
            [match.key for match in database[name].search(set(range(9)), guarantee="exact")]
            for name in "abcabc"
        ]

    assert all(twice(ask, portions))


def test_a_repaired_store_is_filled_alike(tmp_path, portions):
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as db:
        db.collection("c", WORDS, **SURE).add_many(enumerate(TEXTS))

    portions()
    report = simdb.repair(path, tmp_path / "new.simdb", threads=1)
    assert report.complete
    with simdb.open(tmp_path / "new.simdb", threads=1) as db:
        assert [(entry.key, entry.item) for entry in db["c"].items()] == list(enumerate(TEXTS))


def test_items_that_are_read_in_parts_are_compared_with_their_own(database, portions, monkeypatch):
    """The values of parts come in the order of what was asked, both of each quotient."""
    collection = database.collection("c", simdb.Set(), **SURE)
    collection.add_many((n, range(n + 1)) for n in range(40))
    numbers = np.array([38, 2, 17, 30, 5, 11, 0, 25], np.uint32)
    portions()
    for module in (comparing, batch_comparing):
        monkeypatch.setattr(module, "COMPARED_BYTES", 20)
    with collection._opened() as opened:
        probe = opened.signer.items.encode(range(20))
        compared = comparing.compare_batch_with_stored(
            opened, [probe], np.zeros(numbers.size, np.int64), numbers
        )
    assert len(compared.numerators) == numbers.size
    sizes = [int(number) + 1 for number in numbers]
    assert compared.values().tolist() == [min(20, size) / max(20, size) for size in sizes]
