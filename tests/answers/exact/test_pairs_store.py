"""Exact pairs, groups and duplicates of a store against brute force in fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb import kernels
from simdb.answers.exact import memory as exact_memory
from simdb.answers.exact import method as exact_method
from simdb.answers.exact import sweep as exact_sweeping
from simdb.errors import ConfigurationError, ThresholdTooLowError
from simdb.exact import joins
from simdb.exact.thresholds import Threshold
from tests.support import oracle
from tests.support.exact_oracle import similar_pairs
from tests.support.exact_stores import (
    SERVED,
    WAYS,
    as_floats,
    corpus,
    exact_store,
    join_by,
    pairs_found,
    small_epochs,
)
from tests.support.grids import grid
from tests.support.numbers import MOST_ROOM, room_of, use_up
from tests.support.strategies import connected, set_text


@pytest.mark.parametrize(("way", "seed"), grid(WAYS, range(4), step=3))
def test_pairs_and_groups_are_those_of_brute_force(
    way: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    join_by(monkeypatch, way)
    threshold = SERVED[(seed * 11 + 20) % len(SERVED)]
    sets = corpus(seed, threshold)
    generator = random.Random(seed)
    with exact_store(tmp_path / "s") as collection:
        half = len(sets) // 2
        collection.add_many(list(enumerate(sets[:half])))
        for key in range(half, len(sets)):
            collection.add(key, sets[key])
        for key in generator.sample(range(len(sets)), 6):
            collection.delete(key)
            sets[key] = set()
        expected = as_floats(similar_pairs(sets, threshold))
        for _ in range(2):
            assert pairs_found(collection.pairs(threshold)) == expected
            groups = collection.groups(threshold)
            assert groups.guarantee == "exact"
            assert [group.keys for group in groups] == connected(
                range(len(sets)), similar_pairs(sets, threshold)
            )
            collection.compact()


@pytest.mark.parametrize(
    ("seed", "counted", "room"), grid(range(2), [False, True], [16, 10**6], step=3)
)
def test_pairs_of_texts_are_swept_from_postings_and_those_of_brute_force(
    seed: int, counted: bool, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    monkeypatch.setattr(exact_sweeping, "room_of", lambda _memory: room)
    if not counted:
        monkeypatch.setattr(exact_sweeping, "CANDIDATES_A_POSTING", 0)
        monkeypatch.setattr(exact_sweeping, "CANDIDATES_AT_ONCE", 8)
    generator = random.Random(seed)
    words = [f"w{number}" for number in range(60)]
    texts: list[str] = []
    for _ in range(70):
        if texts and generator.random() < 0.5:
            copy = generator.choice(texts).split()
            if copy and generator.random() < 0.6:
                copy[generator.randrange(len(copy))] = generator.choice(words)
            texts.append("  ".join(copy))
        else:
            texts.append(" ".join(generator.choices(words, k=generator.randint(0, 20))))
    kind = simdb.Text(simdb.WordShingles(2))
    sets = [{*oracle.shingle_set(text, kind)} for text in texts]
    numbered = {one: number for number, one in enumerate(sorted(set().union(*sets), key=repr))}
    plain = [{numbered[shingle] for shingle in one} for one in sets]
    with simdb.open(tmp_path / "s", sync="batch") as db:
        collection = db.collection("c", kind, exact_floor=0.5)
        for begin in range(0, len(texts), 15):
            collection.add_many(list(enumerate(texts))[begin : begin + 15])
        for threshold in (Fraction(1, 2), Fraction(4, 5), Fraction(1)):
            options: dict[str, Any] = {"threshold": threshold, "guarantee": "exact"}
            expected = similar_pairs(plain, threshold)
            assert pairs_found(collection.pairs(**options)) == as_floats(expected)
            groups = [group.keys for group in collection.groups(**options)]
            assert groups == connected(range(len(plain)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_pairs_of_many_random_stores_are_those_of_brute_force(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    join_by(monkeypatch, way)
    for seed in range(300):
        threshold = SERVED[seed % len(SERVED)]
        sets = corpus(seed, threshold, 30)
        with exact_store(tmp_path / str(seed)) as collection:
            for begin in range(0, len(sets), 7):
                collection.add_many(list(enumerate(sets))[begin : begin + 7])
            expected = as_floats(similar_pairs(sets, threshold))
            assert pairs_found(collection.pairs(threshold)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_many_equal_items_cost_no_square_until_their_pairs_are_asked_for(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way, room=4_096)
    count = 2_500
    near = set(range(1, 40))
    with exact_store(tmp_path / "s", floor=0.8) as collection:
        collection.add_many((key, range(40)) for key in range(count))
        collection.add("near", near)
        with collection._opened() as opened:
            batches = exact_method.Exact(Threshold.parse(0.8)).pairs(opened)
            assert sum(len(batch) for batch, _ in islice(batches, 3)) > 100_000
            assert opened.work.looked_at <= 40
        groups = list(collection.groups(0.8))
        assert [len(group) for group in groups] == [count + 1]
        assert groups[0].representative == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_join_that_was_left_off_goes_on_after_its_token(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way)
    monkeypatch.setattr(joins, "CHUNK", 8)
    sets = corpus(3, Fraction(1, 2), 40)
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(list(enumerate(sets)))
        everything = pairs_found(collection.pairs(0.5))
        whole = len(list(collection.pairs(0.5).batches()))
        assert whole > 5
        for stop in {0, 1, *range(2, whole, 1 + whole // 4), whole}:
            pairs = collection.pairs(0.5)
            first = list(islice(pairs.batches(), stop))
            assert (pairs.token is None) == (stop == 0)
            rest = list(collection.pairs(0.5, resume=pairs.token).batches())
            assert len(first) + len(rest) == whole
            numbers = [
                pair
                for batch in first + rest
                for pair in zip(batch.left.tolist(), batch.right.tolist(), strict=True)
            ]
            assert sorted(numbers) == sorted(everything)
        again = collection.pairs(0.5)
        for begun in (iter, simdb.Pairs.batches):
            assert len(list(again)) == len(everything)
            assert again.token is not None
            begun(again)
            assert again.token is None
        with pytest.raises(ConfigurationError, match=r"at 0\.5, not at 0\.6"):
            list(collection.pairs(0.6, resume=pairs.token))
        collection.add("new", {1})
        with pytest.raises(ConfigurationError, match="has changed"):
            list(collection.pairs(0.5, resume=pairs.token))
        for nonsense in ("", "m:1/2", "x:1/2:1:2:3", "m:a:b:c", "s:1/2:1"):
            with pytest.raises(ConfigurationError, match="not a resume token"):
                list(collection.pairs(0.5, resume=nonsense))


@pytest.mark.parametrize("begin", ["pairs", "batches"])
def test_a_token_is_that_of_the_iteration_that_was_left_off_not_of_one_before(
    begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joins, "CHUNK", 8)
    sets = corpus(3, Fraction(1, 2), 60)
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(list(enumerate(sets)))
        pairs = collection.pairs(0.5)
        whole = [(pair.left, pair.right) for pair in pairs]
        assert pairs.token is not None
        done = 0
        if begin == "batches":
            done = len(next(pairs.batches()))
        else:
            next(iter(pairs))
        rest = [(pair.left, pair.right) for pair in collection.pairs(0.5, resume=pairs.token)]
        assert rest == whole[done:]
        # One that goes on begins anew where it went on.
        later = collection.pairs(0.5, resume=pairs.token)
        assert len(list(later.batches())) > 1
        next(iter(later))
        assert later.token == pairs.token


def test_exact_pairs_need_no_index_where_everything_fits_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = corpus(4, Fraction(2, 5))
    expected = as_floats(similar_pairs(sets, Fraction(2, 5)))
    with simdb.open(tmp_path / "s") as db:
        collection = db.collection("c", simdb.Set())
        collection.add_many(list(enumerate(sets)))
        assert pairs_found(collection.pairs("2/5", guarantee="exact")) == expected
        assert collection.pairs(0.8).guarantee == "probable"
        with pytest.raises(ConfigurationError, match="only exact pairs"):
            collection.pairs(0.8, resume="m:4/5:1:1:1")
        monkeypatch.setattr(exact_memory, "SHARE_OF_MEMORY", 2**60)
        with pytest.raises(ConfigurationError, match=r"rebuild\(exact_floor=0\.4\) adds one"):
            list(collection.pairs("2/5", guarantee="exact"))
        collection.rebuild(exact_floor=0.5)
        with pytest.raises(ThresholdTooLowError, match=r"rebuild\(exact_floor=0\.4\)"):
            list(collection.pairs("2/5", guarantee="exact"))
        collection.rebuild(exact_floor="2/5")
        assert pairs_found(collection.pairs("2/5", guarantee="exact")) == expected


def test_a_join_made_in_memory_is_not_resumed_with_less_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exact_store(tmp_path / "s") as collection:
        collection.add_many([(1, {1, 2}), (2, {1, 2})])
        own, across = collection.pairs(0.5), collection.join(collection, 0.5)
        assert len(list(own.batches())) == len(list(across.batches())) == 1
        join_by(monkeypatch, "sweep")
        with pytest.raises(ConfigurationError, match="more memory"):
            list(collection.pairs(0.5, resume=own.token))
        with pytest.raises(ConfigurationError, match="more memory"):
            list(collection.join(collection, 0.5, resume=across.token))


def test_a_slice_reads_only_what_its_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, "sweep", room=64)
    sets = corpus(8, Fraction(1, 2), 120)
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(list(enumerate(sets)))
        expected = as_floats(similar_pairs(sets, Fraction(1, 2)))
        assert pairs_found(collection.pairs(0.5)) == expected


@pytest.mark.parametrize(
    ("kind", "item"), [(simdb.Set(), sorted), (simdb.Text(simdb.WordShingles(1)), set_text)]
)
def test_sweeps_take_no_room_for_the_numbers_of_items_that_are_gone(
    kind: Any, item: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, "sweep")
    monkeypatch.setattr(exact_sweeping, "CANDIDATES_AT_ONCE", 4_096)  # for which there is room
    sets = 2 * corpus(3, Fraction(1, 2), 20)  # each has an equal one
    half = len(sets) // 2 + 5
    with simdb.open(tmp_path / "s", threads=1) as db:
        collection = db.create_collection("c", kind, threshold=None, exact_floor=0.5)
        collection.add_many((key, item(sets[key])) for key in range(half))
        use_up(collection)
        collection.add_many((key, item(sets[key])) for key in range(half, len(sets)))
        for key in range(0, len(sets), 9):
            collection.delete(key)
            sets[key] = set()
        expected = similar_pairs(sets, Fraction(1, 2))
        assert pairs_found(collection.pairs(0.5)) == as_floats(expected)
        groups = [group.keys for group in collection.groups(0.5)]
        assert groups == connected(range(len(sets)), expected)
        assert room_of(lambda: list(collection.pairs(0.5))) < MOST_ROOM


# -- incremental many-many (MMDS 3.9.4) ----------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_the_union_of_the_increments_equals_the_batch_join(batch: int, tmp_path: Path) -> None:
    threshold = Fraction(3, 5)
    sets = corpus(12, threshold, 40)
    union: dict[tuple[Any, Any], float] = {}
    with exact_store(tmp_path / "s", floor="3/5") as collection:
        for begin in range(0, len(sets), batch):
            new = list(enumerate(sets))[begin : begin + batch]
            for key, one in new:
                for match in collection.search(one):
                    union[match.key, key] = match.value
            if len(new) > 1:
                with exact_store(tmp_path / f"batch {begin}", floor="3/5") as alone:
                    alone.add_many(new)
                    union |= pairs_found(alone.pairs())
            collection.add_many(new)
        assert union == as_floats(similar_pairs(sets, threshold))
        assert union == pairs_found(collection.pairs())


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("batch", [1, 13, 1_000])
def test_duplicates_are_those_of_the_definition(drop: bool, batch: int, tmp_path: Path) -> None:
    threshold = Fraction(3, 5)
    sets = corpus(13, threshold, 50)
    similar = similar_pairs(sets, threshold)
    expected: dict[int, tuple[int, float] | None] = {}
    kept: list[int] = []
    for row in range(len(sets)):
        first = next((earlier for earlier in kept if (earlier, row) in similar), None)
        expected[row] = None if first is None else (first, float(similar[first, row]))
        if not drop or first is None:
            kept.append(row)
    outcomes: list[simdb.Outcome] = []
    with exact_store(tmp_path / "s", floor="3/5") as collection:
        for begin in range(0, len(sets), batch):
            collection.add_many(
                list(enumerate(sets))[begin : begin + batch],
                find_duplicates=True,
                on_duplicate="skip" if drop else "keep",
                outcomes=outcomes.extend,
            )
        assert len(collection) == len(kept)
        assert list(collection.keys_of(range(len(kept)))) == kept
    for outcome in outcomes:
        assert isinstance(outcome.key, int)
        target = expected[outcome.key]
        found = None if outcome.duplicate_of is None else (outcome.duplicate_of, outcome.similarity)
        assert found == target
        assert outcome.action == ("duplicate" if drop and target else "added")


def test_dedupe_with_an_exact_index_keeps_what_is_similar_to_nothing_before(
    tmp_path: Path,
) -> None:
    sets = corpus(14, Fraction(1, 2), 90)
    kept: list[set[int]] = []
    for one in sets:
        if not similar_pairs([*kept, one], Fraction(1, 2)):
            kept.append(one)
    for threads in (1, 2):
        with simdb.open(tmp_path / str(threads), threads=threads) as db:
            collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
            report = collection.dedupe(enumerate(sets))
            assert report.added == len(kept)
            assert [set(record.item) for record in collection.items()] == kept


def test_items_are_loaded_anew_until_the_same_state_is_joined_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, own = [], exact_memory.live_sets

    def counted(*given: Any) -> Any:
        loads.append(given)
        return own(*given)

    monkeypatch.setattr(exact_memory, "live_sets", counted)
    with exact_store(tmp_path / "s") as collection:
        collection.add_many([("a", {1, 2, 3, 4}), ("b", {1, 2, 3, 4})])
        for threshold in ("0.9", "0.8", "1", "0.9"):
            assert pairs_found(collection.pairs(threshold)) == {("a", "b"): 1.0}
        assert len(loads) == 2
        collection.add("c", {1, 2, 3, 4, 5})
        for _ in range(3):
            found = pairs_found(collection.pairs("0.8"))
            assert found == {("a", "b"): 1.0, ("a", "c"): 0.8, ("b", "c"): 0.8}
        assert len(loads) == 4
        monkeypatch.setattr(exact_memory, "SHARE_KEPT", 2**40)  # no memory for it
        collection.delete("b")
        for _ in range(3):
            assert pairs_found(collection.pairs("0.8")) == {("a", "c"): 0.8}
        assert len(loads) == 7


def test_what_does_not_fit_one_handle_does_not_keep_another_from_joining(tmp_path: Path) -> None:
    sets = [(number, {*range(10 * number, 10 * number + 2_000)}) for number in range(300)]
    with simdb.open(tmp_path / "s.simdb", memory=2**30, threads=1) as database:
        large = database.collection("sets", simdb.Set(), threshold=0.8)
        large.add_many(sets)
        with simdb.open(tmp_path / "s.simdb", memory=2**24, threads=1) as other:
            small = other["sets"]
            for _ in range(2):
                with pytest.raises(ConfigurationError, match="16 MiB"):
                    list(small.pairs(0.9, guarantee="exact"))
        assert len(pairs_found(large.pairs(0.9, guarantee="exact"))) > 299


def test_long_texts_of_few_shingles_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    """What is read at once is bounded by the bytes of items, not only by the symbols they leave."""
    monkeypatch.setattr(exact_memory, "LOADED_AT_ONCE", 50_000)
    monkeypatch.setattr(exact_sweeping, "PART_BYTES_A_SYMBOL", 0)
    texts = [f"{number} " + "abcdefgh" * 2_000 for number in range(12)]
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        kind = simdb.Text(simdb.CharacterShingles(5))
        collection = db.collection("c", kind, threshold=None, exact_floor=0.5)
        collection.add_many(enumerate(texts))
        read, cut = [], kernels.shingles.character_shingles

        def noting(*given: Any) -> Any:
            read.append(given[0].size)
            return cut(*given)

        monkeypatch.setattr(kernels.shingles, "character_shingles", noting)
        assert collection.pairs(0.6, guarantee="exact").count() == 66
        assert len(read) >= 4
        assert max(read) <= 50_000
