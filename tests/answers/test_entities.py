"""Entities of stored items: one to one between collections, groups that do not chain."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

import simdb
from simdb.answers import entities
from tests.support.strategies import cluster_corpus

WORDS = simdb.Text(simdb.WordShingles(1))
CHAIN = [(key, set(range(first, first + 8))) for key, first in zip("abcde", range(5), strict=True)]


@pytest.fixture
def chained(tmp_path: Any) -> Any:
    """Sets of which neighbours have 7 of 9 in common, next ones 6 of 10."""
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add_many(CHAIN)
        yield collection


def keys_of(groups: simdb.Groups) -> list[tuple[simdb.Key, ...]]:
    return [group.keys for group in groups]


def renewed(groups: simdb.Groups) -> int:
    """How many components were clustered for an answer."""
    assert isinstance(groups.made, entities.Grouped)
    return groups.made.entities.renewed


def test_a_star_does_not_chain_and_its_centre_represents_it(chained):
    assert keys_of(chained.groups(0.7)) == [tuple("abcde")]
    stars = chained.groups(0.7, method="star")
    assert keys_of(stars) == [("b", "a", "c"), ("d", "e")]
    assert stars.method == "star"
    assert stars.guarantee == "exact"
    told = json.loads(stars.to_arrow().schema.metadata[b"simdb"])
    assert told == {
        "guarantee": "exact",
        "expected_recall": 1.0,
        "method": "star",
        "objective": None,
    }


def test_the_objective_is_what_lies_between_groups_and_what_does_not_belong_in_them(chained):
    found = chained.groups(0.7, method="correlation")
    group_of = {key: group for group in found for key in group.keys}
    pairs = {(pair.left, pair.right): pair.similarity for pair in chained.pairs(0.7)}
    expected = 0.0
    for two in combinations("abcde", 2):
        together = group_of.get(two[0], two[0]) == group_of.get(two[1], two[1])
        if together is not (two in pairs):
            expected += pairs.get(two, 1.0)
    assert found.objective == pytest.approx(expected)


@pytest.mark.parametrize("method", ["chain", "star", "average", "correlation"])
def test_what_is_said_to_be_apart_is_in_no_group_and_its_similarity_is_told(chained, method):
    found = chained.groups(0.7, method=method, apart=[("c", "b"), ("a", "e")])
    for keys in keys_of(found):
        assert not {"b", "c"} <= {*keys}
        assert not {"a", "e"} <= {*keys}
    (wrong,) = found.contradictions
    assert (wrong.left, wrong.right) == ("b", "c")
    assert wrong.similarity == pytest.approx(7 / 9)


@pytest.mark.parametrize("method", ["star", "average", "correlation"])
def test_new_and_deleted_items_join_the_groups_there_are_as_if_all_were_new(tmp_path, method):
    rows = [(number, text) for number, (_, text) in enumerate(cluster_corpus(3, 24, 6))]
    half = len(rows) // 2
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", WORDS, threshold=0.5, exact_floor=0.5)
        collection.add_many(rows[:half])
        before = collection.groups(0.6, method=method)
        collection.delete_many([3, 17])
        collection.replace(21, rows[22][1])
        collection.compact()
        collection.add_many(rows[half:])
        made = collection.groups(0.6, method=method, earlier=before.state())
        again = collection.groups(0.6, method=method, earlier=made)
        assert keys_of(again) == keys_of(made)
        assert renewed(again) == 0 < renewed(made)
        anew = collection.groups(0.6, method=method)
        assert keys_of(made) == keys_of(anew)
        assert made.objective == pytest.approx(anew.objective)
        assert len(made) > len(before)
        assert renewed(made) < renewed(anew)
        with pytest.raises(
            simdb.ConfigurationError, match="not from this collection, bound and method"
        ):
            collection.groups(0.7, method=method, earlier=before)


def test_exact_groups_do_not_go_on_from_probable_ones(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        sets = db.collection("c", simdb.Set(), threshold=0.8, bands=1, rows=30, seed=3)
        sets.add_many((number, range(3 * number, 3 * number + 30)) for number in range(60))
        lossy = sets.groups(method="star", guarantee="probable")
        exact = sets.groups(method="star", guarantee="exact")
        assert len(lossy) < len(exact)
        with pytest.raises(simdb.ConfigurationError, match="these would be with 'exact': ask for"):
            sets.groups(method="star", guarantee="exact", earlier=lossy.state())
        with pytest.raises(simdb.ConfigurationError, match="found with guarantee='exact'"):
            sets.groups(method="star", guarantee="probable", earlier=exact.state())
        again = sets.groups(method="star", guarantee="exact", earlier=exact.state())
        assert keys_of(again) == keys_of(exact)


def test_groups_do_not_go_on_where_numbers_may_mean_other_items(tmp_path):
    path, backup = tmp_path / "s.simdb", tmp_path / "backup"
    near = [("a", {1, 2, 3}), ("b", {1, 2, 3, 4}), ("c", {20, 21, 22}), ("d", {20, 21, 22, 23})]
    with simdb.open(path) as db:
        collection = db.collection("c", simdb.Set(), threshold="1/2", seed=1)
        collection.add_many([("x", {9}), ("y", {8}), *near])
        db.backup(backup)
        collection.delete_many(["x", "a"])
        state = collection.groups(method="star").state()
        collection.compact()
        collection.rebuild(recall=0.9)
        db.backup(tmp_path / "later")
        whole = collection.groups(method="star").state()
        assert keys_of(collection.groups(method="star", earlier=whole)) == [("c", "d")]
        collection.rebuild(compression="zstd")  # neither changes an answer
        collection.rebuild(groups="chain")
        assert keys_of(collection.groups(method="star", earlier=whole)) == [("c", "d")]
        with pytest.raises(simdb.ConfigurationError, match=r"it was rebuilt .* without them"):
            collection.groups(method="star", earlier=state)
        db.dump(tmp_path / "dump")
    with simdb.open(tmp_path / "later") as db:  # a copy has the history of what it is a copy of
        assert keys_of(db["c"].groups(method="star", earlier=whole)) == [("c", "d")]
    simdb.load(tmp_path / "dump", tmp_path / "loaded.simdb")
    simdb.repair(path, tmp_path / "repaired.simdb")
    simdb.restore(backup, path)  # which brings an item back
    for name in ("loaded", "repaired", "s"):
        with simdb.open(tmp_path / f"{name}.simdb") as db:
            for one in (state, whole):
                with pytest.raises(simdb.ConfigurationError, match="loaded, repaired or restored"):
                    db["c"].groups(method="star", earlier=one)
            made = db["c"].groups(method="star")
            assert keys_of(db["c"].groups(method="star", earlier=made.state())) == keys_of(made)


def test_of_bits_the_nearest_are_one_to_one_and_groups_are_within_the_distance(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        one, other = (db.collection(name, simdb.Bits(8), max_distance=2) for name in ("l", "r"))
        one.add_many([("a", 0b0), ("b", 0b1)])
        other.add_many([("x", 0b0), ("y", 0b10000001), ("z", 0b11)])
        pairs = [*one.join(other, one_to_one=True)]
        # a and x are equal, and so b must not have x, to which it is nearer than to y.
        assert [(pair.left, pair.right) for pair in pairs] == [("a", "x"), ("b", "y")]
        assert [pair.distance for pair in pairs] == [0, 1]
        kept = [*one.join(other, one_to_one=True, apart=[("a", "x")])]
        assert [(pair.left, pair.right) for pair in kept] == [("a", "y"), ("b", "x")]
        other.add_many([("v", 0b1), ("w", 0b1110)])  # v is near to all others but w
        assert keys_of(other.groups(method="star")) == [("v", "x", "y", "z")]
        assert [*one.join(other, max_distance=0, one_to_one=True)][1].right == "v"


def test_groups_keep_their_pairs_where_nothing_is_to_be_kept_apart_yet(chained):
    before = chained.groups(0.7, apart=[])
    assert keys_of(before) == [tuple("abcde")]
    chained.add("f", CHAIN[0][1])
    after = chained.groups(0.7, apart=[("a", "f")], earlier=before.state())
    assert keys_of(after) == keys_of(chained.groups(0.7, apart=[("a", "f")]))


def test_what_cannot_be_is_refused_in_words(chained, tmp_path):
    other = {"apart": [("a", "b")]}
    with pytest.raises(simdb.KeyNotFoundError, match="'q' is not stored"):
        chained.groups(0.7, method="star", apart=[("a", "q")])
    with pytest.raises(simdb.ConfigurationError, match="apart from itself"):
        chained.groups(0.7, apart=[("a", "a")])
    for wrong in (["ab"], [("a", "b", "c")], [3], 3):
        with pytest.raises(simdb.WrongTypeError, match="pairs of keys"):
            chained.groups(0.7, apart=wrong)
    with pytest.raises(simdb.ConfigurationError, match="one_to_one=True"):
        chained.join(chained, 0.7, **other)
    with pytest.raises(simdb.ConfigurationError, match="resume"):
        chained.join(chained, 0.7, one_to_one=True, resume="x")
    with pytest.raises(simdb.ConfigurationError, match="method must be one of 'chain', 'star'"):
        chained.groups(0.7, method="stars")
    with pytest.raises(simdb.ConfigurationError, match="hold no pairs"):
        chained.groups(0.7, earlier=chained.groups(0.7))
    with pytest.raises(simdb.ConfigurationError, match="keep no pairs to continue from"):
        chained.groups(0.7).state()
    kept = chained.groups(0.7, method="star").state()
    for state in (b"", b"PK\3\4", kept[: len(kept) // 2], kept.replace(b"pairs", b"pears")):
        with pytest.raises(simdb.ConfigurationError, match=r"is not the state of .* keeps$"):
            chained.groups(0.7, method="star", earlier=state)


def test_more_pairs_than_have_room_are_refused_before_they_are_all_held(chained, monkeypatch):
    monkeypatch.setattr(entities, "BYTES_A_PAIR", 2**30)
    for call in (
        lambda: chained.groups(0.7, method="star"),
        lambda: list(chained.join(chained, 0.7, one_to_one=True)),
    ):
        with pytest.raises(simdb.ConfigurationError, match=r"more than the 1 pairs.*memory="):
            call()


def test_two_tables_are_linked_one_to_one():
    left = [{"t": "one two three four"}, {"t": "one two three five"}]
    right = [{"t": "one two three four"}, {"t": "one two three four five"}]
    found = simdb.link(left, right, item="t", kind=WORDS, threshold=0.5, one_to_one=True)
    assert [(row["left"], row["right"]) for row in found] == [(0, 0), (1, 1)]
