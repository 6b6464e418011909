"""What decides between methods: estimates beside true counters, and answers that miss no more."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import choose, costs
from simdb.answers.exact import memory
from simdb.answers.exact.method import Exact
from simdb.errors import ConfigurationError
from simdb.storage.collection.reader import read_items


@pytest.fixture
def database(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db


def crowded(database: Any, count: int = 400) -> Any:
    """Vectors so alike that a bucket holds nearly all of them."""
    generator = np.random.default_rng(1)
    collection = database.collection(
        "v", simdb.Vector(20, measure="manhattan"), max_distance=3, seed=1
    )
    collection.add_many(enumerate(generator.random((count, 20), np.float32)))
    return collection


def spread(database: Any, count: int = 400) -> Any:
    generator = random.Random(2)
    collection = database.collection("b", simdb.Bits(256), max_distance=10, recall=0.99, seed=1)
    collection.add_many((number, generator.getrandbits(256)) for number in range(count))
    return collection


@pytest.fixture
def little_is_much(monkeypatch):
    monkeypatch.setattr(choose, "FEW_ITEMS", 10)
    monkeypatch.setattr(choose, "FEW_PAIRS", 10)


@pytest.fixture
def same_rates(monkeypatch):
    """As if an item took as long to compare wherever it lies: then counts alone decide."""
    monkeypatch.setattr(costs, "rates_of", lambda *_: costs.Rates(1e-6, 1e-6, 1e-6))


def test_where_the_index_proposes_nearly_all_pairs_all_are_compared(
    database, little_is_much, same_rates
):
    collection = crowded(database)
    asked = {"max_distance": 3}
    pairs = collection.pairs(**asked)
    everything = [(pair.left, pair.right) for pair in pairs]
    assert pairs.guarantee == "exact"
    assert pairs.looked_at == 400 * 399 // 2
    probable = collection.pairs(guarantee="probable", **asked)
    assert set(probable) <= set(collection.pairs(guarantee="exact", **asked))
    assert probable.looked_at > pairs.looked_at
    assert probable.guarantee == "probable"
    assert len(everything) == len(set(everything))
    item = collection.get(7).item
    assert collection.search(item).guarantee == "exact"
    assert collection.search(item, guarantee="probable").guarantee == "probable"
    assert collection.join(collection).guarantee == "exact"


def test_where_the_index_proposes_few_it_answers(database, little_is_much, same_rates):
    collection = spread(database)
    item = collection.get(7).item
    assert collection.search(item).guarantee == "probable"
    assert collection.pairs().guarantee == "probable"
    explained = collection.explain("search")
    assert explained.chosen.method == "buckets"
    assert explained.chosen.looked_at < 60


def alike(database: Any, kind: Any, item: Any, **settings: Any) -> Any:
    """Items of which most are like most others."""
    generator = random.Random(3)
    collection = database.collection("s", kind, threshold=0.5, seed=1, **settings)
    sets = [{n for n in range(24) if generator.random() < 0.8} for _ in range(200)]
    collection.add_many((number, item(one)) for number, one in enumerate(sets))
    return collection


def test_pairs_of_sets_are_joined_exactly_where_buckets_propose_many(
    database, monkeypatch, little_is_much, same_rates
):
    collection = alike(database, simdb.Set(), set)
    assert collection.pairs().guarantee == "exact"
    explained = collection.explain("pairs", run=True)
    told = {one.method: one for one in explained.alternatives}
    assert told["exact"].chosen
    assert told["exact"].looked_at == pytest.approx(explained.work["looked_at"], rel=0.5)
    assert told["exact"].seconds < told["buckets"].seconds
    assert explained.answers == len(list(collection.pairs(guarantee="exact")))
    assert collection.pairs(guarantee="probable").guarantee == "probable"
    few = database.collection("f", simdb.Set(), threshold=0.5, seed=1)
    few.add_many((number, range(10 * number, 10 * number + 12)) for number in range(200))
    assert few.pairs().guarantee == "probable"
    monkeypatch.setattr(memory, "BYTES_A_SYMBOL", 2**40)  # then they might not fit
    assert collection.pairs().guarantee == "probable"
    buckets, exact = collection.explain("pairs").alternatives
    assert (buckets.method, exact.method) == ("buckets", "exact")
    assert exact.seconds == pytest.approx(told["exact"].seconds)


def test_pairs_that_turn_out_not_to_fit_are_found_by_buckets_and_say_so(
    database, monkeypatch, little_is_much, same_rates
):
    collection = alike(database, simdb.Set(), set)
    probable = collection.pairs(guarantee="probable")
    grouped = collection.groups(guarantee="probable", method="star")
    pairs = collection.pairs()
    monkeypatch.setattr(Exact, "surely_fits", lambda *_: True)  # as by a sample without large ones
    monkeypatch.setattr(memory, "BYTES_A_SYMBOL", 2**40)
    assert collection.pairs().guarantee == "exact"
    assert [*collection.pairs()] == [*probable]
    assert [*pairs] == [*probable]
    assert pairs.guarantee == "probable"
    assert pairs.expected_recall == probable.expected_recall
    assert collection.explain("pairs", run=True).chosen.method == "buckets"
    for given in ({"method": "star"}, {"where": lambda _: True}):
        groups = collection.groups(**given)
        assert [len(one) for one in groups] == [len(one) for one in grouped]
        assert groups.guarantee == "probable"
    with pytest.raises(ConfigurationError, match="guarantee='probable'"):
        list(collection.pairs(guarantee="exact"))


def test_bits_are_scanned_where_an_exact_index_meets_many(database, little_is_much, same_rates):
    def number(one: set[int]) -> int:
        return sum(1 << bit for bit in one)

    collection = alike(database, simdb.Bits(24, "tanimoto"), number, exact_floor=0.5)
    probe = collection.get(7).item
    assert collection.explain("search").chosen.method == "scan"
    looked_up = collection.search(probe, limit=5)
    assert looked_up.candidates == 200
    assert looked_up.guarantee == "exact"


def test_what_looks_at_little_is_never_measured(database, monkeypatch):
    monkeypatch.setattr(costs, "rates_of", lambda *_: pytest.fail("a rate was measured"))
    collection = crowded(database, 100)
    assert collection.search(collection.get(7).item).guarantee == "probable"
    assert collection.pairs().guarantee == "probable"


@pytest.mark.parametrize("asked", [{"guarantee": "probable"}, {"min_recall": 0.1}])
def test_what_is_asked_for_is_taken(database, little_is_much, same_rates, asked):
    collection = crowded(database)
    assert collection.pairs(**asked).guarantee == "probable"
    assert collection.search(collection.get(7).item, **asked).guarantee == "probable"


def test_of_batches_of_records_a_pair_costs_what_it_takes_among_many(database, monkeypatch):
    kind = simdb.Record([simdb.Field("a"), simdb.Field("b")], candidates=[["a"]])
    collection = database.collection("r", kind, threshold=0.5)
    collection.add_many((n, {"a": f"a{n // 2}", "b": f"b{n}"}) for n in range(100))

    def told(verb: str) -> dict[str, Any]:
        return {one.method: one for one in collection.explain(verb).alternatives}

    assert told("pairs")["scan"].seconds > 0  # as measured
    monkeypatch.setattr(costs, "rates_of", lambda *_: costs.Rates(1e-3, 1e-3, 0.0, 1e-6))
    everything = 100 * 99 / 2
    assert told("pairs")["scan"].looked_at == everything
    assert told("pairs")["scan"].seconds == pytest.approx(everything * 1e-6)
    assert told("pairs")["buckets"].seconds < 2 * 100 * 1e-3  # each is read once
    assert told("search")["scan"].seconds == pytest.approx(100 * 1e-3)


def test_the_choice_is_made_anew_when_the_collection_has_grown(database, monkeypatch, same_rates):
    monkeypatch.setattr(choose, "FEW_PAIRS", 1_000)
    collection = crowded(database, 4)
    assert collection.pairs().guarantee == "probable"
    more = np.random.default_rng(3).random((400, 20), np.float32)
    collection.add_many((10 + number, row) for number, row in enumerate(more))
    assert collection.pairs().guarantee == "exact"


@pytest.mark.parametrize(
    ("make", "verb"),
    [*((crowded, verb) for verb in ("search", "pairs", "groups", "join")), (spread, "search")],
)
def test_estimates_are_near_the_true_counters(database, verb, make, same_rates):
    collection = make(database)
    item = collection.get(7).item
    other = {"other": collection} if verb == "join" else {}
    for guarantee in ("exact", "probable"):
        told = collection.explain(verb, item, guarantee=guarantee, run=True, **other)
        assert told.chosen.chosen
        assert [one.chosen for one in told.alternatives].count(True) == 1
        true = told.work["looked_at"]
        if verb != "groups":  # which leave out what is connected already
            assert told.chosen.looked_at / 3 - 20 <= true <= 3 * told.chosen.looked_at + 20
        assert told.seconds >= 0


def test_of_pairs_that_meet_only_those_that_agree_are_expected_to_be_compared(database):
    """Sets that share two of three elements meet in many buckets, and agree in too few words."""
    generator = random.Random(4)
    collection = database.collection("s", simdb.Set(), threshold=0.8, seed=1)
    shared = [*range(40)]
    collection.add_many(
        (
            number,
            {*generator.sample(shared, 34), *(1_000 * number + own for own in range(100, 104))},
        )
        for number in range(300)
    )
    told = collection.explain("pairs", guarantee="probable", run=True)
    with collection._opened() as opened:
        words = opened.signer.agreement(opened.settings.bound).words
        counts = costs.counts_of(opened)
    dropped = told.work["too_unlike"] / told.work["looked_at"]
    assert 0.2 < dropped < 1
    assert counts.agreeing(words) == pytest.approx(1 - dropped, abs=0.15)
    assert counts.agreeing(0) == 1
    assert costs.Counts(5).agreeing(10) == 1  # nothing is known


def test_an_explanation_shows_what_cannot_be_had(database):
    texts = database.collection("t", simdb.Text(), threshold=0.8)
    texts.add_many((number, f"one text, number {number}, of a few") for number in range(20))
    told = texts.explain("search", threshold=0.2, guarantee="exact")
    assert told.chosen.method == "scan"
    assert "is planned" in told.refused["probable"]
    assert "probable is refused" in str(told)
    ran = texts.explain("search", "one text, number 3, of a few", run=True)
    assert ran.answers == len(texts.search("one text, number 3, of a few"))
    assert "* buckets" in str(ran)
    exact = texts.explain("pairs", guarantee="exact", run=True)
    assert exact.chosen.method == "exact"
    assert exact.answers == len(list(texts.pairs(guarantee="exact")))


def test_an_empty_collection_is_explained(database):
    told = database.collection("t", simdb.Text(), exact_floor=0.5).explain("pairs", run=True)
    assert (told.items, told.answers) == (0, 0)
    assert told.chosen.looked_at == 0


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("dedupe", {}),
        ("join", {}),
        ("search", {"run": True}),
        ("pairs", {"other": 1}),
        ("groups", {"measure": "overlap"}),
    ],
)
def test_questions_that_cannot_be_explained_say_so(database, verb, more):
    collection = database.collection("t", simdb.Text())
    more = {name: collection if name == "other" else value for name, value in more.items()}
    with pytest.raises(simdb.ConfigurationError):
        collection.explain(verb, **more)


def test_what_squares_of_prints_cost_is_estimated(database, little_is_much):
    """Their features are several arrays: one of them is no slice of all."""
    squares = next(
        one for one in simdb.Fingerprint.examples() if getattr(one.kind, "measure", "") == "squares"
    )
    prints = database.collection("f", squares.kind, threshold=squares.bound, seed=1)
    prints.add_many(enumerate([*squares.items, *squares.near] * 3))
    assert len(list(prints.pairs())) > 0


def test_an_estimate_reads_few_items_where_they_are_large(database, monkeypatch):
    read: list[int] = []

    def counted(reader: Any, numbers: Any) -> Any:
        read.append(numbers.size)
        return read_items(reader, numbers)

    monkeypatch.setattr(costs, "read_items", counted)
    for name, most in (("few", 10_000), ("all", costs.SAMPLED_BYTES)):
        monkeypatch.setattr(costs, "SAMPLED_BYTES", most)
        collection = database.collection(name, simdb.Text(), threshold=0.8)
        collection.add_many((number, f"{number:020}" * 50) for number in range(200))
        collection.explain("pairs")
    assert read == [10, 200]
