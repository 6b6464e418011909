"""Joins of two collections, or one and a table, against brute force in fractions."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest

import simdb
from simdb.answers import costs
from simdb.answers.exact import memory as exact_memory
from simdb.errors import ConfigurationError, ThresholdTooLowError, UsageError
from tests.support import oracle
from tests.support.exact_oracle import adversarial_sets, similar_across
from tests.support.exact_stores import (
    SERVED,
    WAYS,
    as_floats,
    join_by,
    pairs_found,
    small_epochs,
)
from tests.support.grids import grid
from tests.support.processes import answer_of


def two_corpora(seed: int, threshold: Fraction) -> tuple[list[set[int]], list[set[int]]]:
    generator = random.Random(seed)
    sets: list[set[int]] = []
    while len(sets) < 80:
        sets += adversarial_sets(generator, threshold)
    generator.shuffle(sets)
    return sets[:45], sets[30:]


@pytest.mark.parametrize(("seed", "way"), grid(range(4), WAYS, step=3))
def test_a_join_gives_each_similar_pair_of_a_left_and_a_right_item_once(
    seed: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    join_by(monkeypatch, way)
    threshold = SERVED[(seed * 13 + 9) % len(SERVED)]
    left, right = two_corpora(seed, threshold)
    with simdb.open(tmp_path / "s") as db:
        one = db.collection("one", simdb.Set(), threshold=None, exact_floor="1/3")
        other = db.collection("other", simdb.Set(), threshold=0.9, exact_floor="1/3")
        for collection, sets in ((one, left), (other, right)):
            half = len(sets) // 2
            collection.add_many(list(enumerate(sets[:half])))
            for key in range(half, len(sets)):
                collection.add(key, sets[key])
            for key in (2, 5, 7):
                collection.delete(key)
                sets[key] = set()
        expected = as_floats(similar_across(left, right, threshold))
        assert pairs_found(one.join(other, threshold)) == expected
        with db.snapshot() as state:
            assert pairs_found(state["one"].join(state["other"], threshold)) == expected
        assert pairs_found(other.join(one, threshold)) == {
            (b, a): similarity for (a, b), similarity in expected.items()
        }
        assert pairs_found(one.join(enumerate(right), threshold)) == expected
        assert db.check(deep=True).sound


@pytest.mark.parametrize("way", WAYS)
def test_texts_of_two_databases_with_other_secrets_are_joined(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way)
    generator = random.Random(5)
    words = [f"w{number}" for number in range(9)]
    kind = simdb.Text(simdb.WordShingles(1))
    left, right = (
        [" ".join(generator.choices(words, k=generator.randint(0, 7))) for _ in range(50)]
        for _ in range(2)
    )
    expected = {
        (i, j): float(oracle.text_similarity(one, other, kind))
        for i, one in enumerate(left)
        for j, other in enumerate(right)
        if one and oracle.text_similarity(one, other, kind) >= Fraction(3, 5)
    }
    with simdb.open(tmp_path / "a") as db, simdb.open(tmp_path / "b") as other_db:
        a = db.collection("a", kind)
        b = other_db.collection("b", kind, exact_floor=0.6)
        a.add_many(list(enumerate(left)))
        b.add_many(list(enumerate(right)))
        assert pairs_found(a.join(b, 0.6)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_a_join_that_was_left_off_goes_on_after_its_token(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way)
    monkeypatch.setattr(exact_memory, "LOADED_AT_ONCE", 64)
    left, right = two_corpora(3, Fraction(1, 2))
    with simdb.open(tmp_path / "s") as db:
        one = db.collection("one", simdb.Set(), threshold=None, exact_floor=0.5)
        other = db.collection("other", simdb.Set(), threshold=None, exact_floor=0.5)
        for begin in range(0, len(left), 9):  # in blocks of their own
            one.add_many(list(enumerate(left))[begin : begin + 9])
        other.add_many(list(enumerate(right)))
        expected = sorted(similar_across(left, right, Fraction(1, 2)))
        whole = len(list(one.join(other, 0.5).batches()))
        assert whole > (1 if way == "sweep" else 0)
        for stop in range(whole + 1):
            pairs = one.join(other, 0.5)
            batches = list(islice(pairs.batches(), stop))
            batches += one.join(other, 0.5, resume=pairs.token).batches()
            found = [
                pair
                for batch in batches
                for pair in zip(batch.left.tolist(), batch.right.tolist(), strict=True)
            ]
            assert sorted(found) == expected
        with pytest.raises(ConfigurationError, match="of a join of two collections"):
            list(one.pairs(0.5, resume=pairs.token))
        own = one.pairs(0.5)
        list(own.batches())
        with pytest.raises(ConfigurationError, match="not one of a join of two"):
            list(one.join(other, 0.5, resume=own.token))
        third = db.collection("third", simdb.Set(), threshold=None, exact_floor=0.5)
        third.add_many(list(enumerate(right)))
        for sides in ((other, one), (one, third), (third, other)):
            with pytest.raises(ConfigurationError, match="of other ones"):
                list(sides[0].join(sides[1], 0.5, resume=pairs.token))
        with simdb.open(tmp_path / "elsewhere") as elsewhere:
            twins = [
                elsewhere.collection(name, simdb.Set(), threshold=None, exact_floor=0.5)
                for name in ("one", "other")
            ]
            for begin in range(0, len(left), 9):
                twins[0].add_many(list(enumerate(left))[begin : begin + 9])
            twins[1].add_many(list(enumerate(right)))
            with pytest.raises(ConfigurationError, match="of other ones"):
                list(twins[0].join(twins[1], 0.5, resume=pairs.token))
        other.add("new", {1})
        with pytest.raises(ConfigurationError, match="has changed"):
            list(one.join(other, 0.5, resume=pairs.token))


def test_collections_of_different_items_are_not_joined(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        words = db.collection("words", simdb.Text(simdb.WordShingles(2)))
        others = db.collection("others", simdb.Text(simdb.WordShingles(3)))
        with pytest.raises(ConfigurationError, match=r"'words' shingles\.size is 2, not 3"):
            words.join(others, 0.8)


def test_what_does_not_fit_into_memory_needs_an_index_on_the_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, "sweep")
    with simdb.open(tmp_path / "s") as db:
        one = db.collection("one", simdb.Set())
        other = db.collection("other", simdb.Set(), exact_floor=0.9)
        one.add(1, {1, 2})
        other.add(2, {1, 2})
        with pytest.raises(ConfigurationError, match=r"rebuild\(exact_floor=0\.8\) adds one"):
            list(other.join(one, 0.8, guarantee="exact"))
        with pytest.raises(ThresholdTooLowError, match=r"rebuild\(exact_floor=0\.8\)"):
            list(one.join(other, 0.8, guarantee="exact"))
        assert pairs_found(one.join(other, 0.9)) == {(1, 2): 1.0}


TABLE = pa.table({"id": ["x", "y", "z"], "tags": [[1, 2, 3, 4], [7, 8], [2, 3, 4]]})


@pytest.fixture
def tags(tmp_path: Path) -> Iterator[simdb.Collection]:
    with simdb.open(tmp_path / "s") as db:
        made = db.collection("tags", simdb.Set(), threshold=0.7)
        made.add_many([("a", {1, 2, 3, 4}), ("b", {7, 8})])
        yield made


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files that are soon deleted."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_table_is_joined_whatever_library_it_is_of(tags: simdb.Collection) -> None:
    expected = {("a", "x"): 1.0, ("a", "z"): 0.75, ("b", "y"): 1.0}
    for table in (TABLE, TABLE.to_pandas(), pl.DataFrame(TABLE), TABLE.to_reader()):
        assert pairs_found(tags.join(table, key="id", item="tags")) == expected
    assert pairs_found(tags.join(TABLE, 0.8, item="tags")) == {("a", 0): 1.0, ("b", 1): 1.0}
    chosen = tags.join(TABLE, 0.5, key="id", item="tags", one_to_one=True).to_arrow().to_pydict()
    assert [*zip(chosen["left"], chosen["right"], strict=True)] == [("a", "x"), ("b", "y")]
    assert not tags.join([]).count()
    later = tags.checkpoint()
    tags.add("c", {7, 8, 9})
    assert pairs_found(tags.join(TABLE, 0.6, key="id", item="tags", since=later)) == {
        ("c", "y"): 2 / 3
    }


def test_a_table_is_kept_for_as_long_as_its_pairs(tags: simdb.Collection, temporary: Path) -> None:
    pairs = tags.join(TABLE, key="id", item="tags")
    for _ in range(2):
        assert pairs.count() == 3
        assert len([*temporary.iterdir()]) == 1
    held = [pairs]
    del pairs

    def let_go_of() -> int:
        held.clear()
        return len([*temporary.iterdir()])

    assert answer_of(let_go_of) == "1"  # a child that ends has no part in it
    assert held[0].count() == 3
    held.clear()
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        (3, {}, "other must be a collection, a table or rows, not int"),
        ("text", {}, "other must be a collection, a table or rows, not str"),
        (TABLE, {}, "item= must name the column of the items"),
        (TABLE, {"item": "tag"}, "the table has no column 'tag'; it has 'id', 'tags'"),
        ([("a", {1}), ("a", {2})], {}, "key 'a' comes twice"),
        ([("a", {1}), ("b", 3)], {}, "row 1: a set must be a collection of"),
        (pa.table({"tags": [[1], None]}), {"item": "tags"}, "row 1: the column 'tags' is null"),
        ([("a", {1})], {"item": "tags"}, "name columns of a table, but the rows are list"),
        ([{"tags": {1}}], {"item": "tags"}, "are dicts: pyarrow.Table.from_pylist(rows) makes"),
        ([("a", {1})], {"other_since": 0}, "other_since=, other_where= and resume= need a coll"),
        ([("a", {1})], {"other_where": {"n": 1}}, "other_since=, other_where= and resume= nee"),
    ],
)
def test_rows_that_cannot_be_joined_are_told_of_and_nothing_is_left(
    tags: simdb.Collection, temporary: Path, rows: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(simdb.SimdbError, match=re.escape(told)):
        tags.join(rows, **options)
    for wrong in ({"guarantee": "x"}, {"threshold": 7}, {"one_to_one": "yes"}, {"apart": [(1, 2)]}):
        given = iter([("a", {1})])
        with pytest.raises(UsageError):
            tags.join(given, **cast("Any", wrong))
        assert list(given)  # nothing is read before
    with pytest.raises(UsageError, match="key= and item= name columns"):
        tags.join(tags, item="tags")
    assert not [*temporary.iterdir()]


def test_what_no_longer_fits_into_memory_is_said_to(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("c", simdb.Set(), threshold=0.8)
        made.add_many((key, range(key, key + 100_000)) for key in range(8))
        told = r"do not fit into the memory setting \(16 MiB\), and collection 'c' has no exact"
        for pairs in (made.pairs(guarantee="exact"), made.join(made, guarantee="exact")):
            with pytest.raises(ConfigurationError, match=told):
                list(pairs)


def numbered(first: int, count: int, size: int = 10) -> list[tuple[int, range]]:
    """Sets that are like no other, by keys from 0."""
    begins = [first + size * key for key in range(count)]
    return [(key, range(begin, begin + size)) for key, begin in enumerate(begins)]


@pytest.fixture
def room_for_1000_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both sides of a join, in a store opened with 16 MiB."""
    monkeypatch.setattr(exact_memory, "BYTES_A_SYMBOL", 2**24 // 2_000)


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_one_side_of_a_join_may_take_the_memory_that_the_other_leaves(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        few, many, more = (
            db.collection(name, simdb.Set(), threshold=0.8) for name in ("few", "many", "more")
        )
        few.add_many(numbered(400, 1))
        many.add_many(numbered(0, 48))
        more.add_many(numbered(0, 95))
        for left, right, found in ((few, many, (0, 40)), (many, few, (40, 0))):
            pairs = left.join(right)
            assert pairs_found(pairs) == {found: 1.0}
            chosen = left.explain("join", other=right).alternatives[0]
            assert (chosen.method, chosen.chosen) == ("exact", True)
            assert chosen.seconds < 1
        assert pairs_found(more.join(few, guarantee="exact")) == {(40, 0): 1.0}
        assert pairs_found(many.join(many, guarantee="exact")) == {(k, k): 1.0 for k in range(48)}


def test_bags_of_few_bytes_and_many_occurrences_may_not_fit_into_memory(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        bags = db.collection("bags", simdb.Bag(union="maximum"), threshold=0.9)
        bags.add_many((number, {1: 3_000, 2 + number: 20}) for number in range(200))
        assert bags.pairs().guarantee == bags.join(bags).guarantee == "probable"
        assert len(list(bags.join(bags))) == 200 * 200


def test_sets_of_few_elements_take_memory_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_memory, "BYTES_A_SET", 2**24 // 1_000)
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        few, many = (db.collection(name, simdb.Set(), threshold=0.8) for name in ("few", "many"))
        few.add_many(numbered(0, 200, size=1))
        many.add_many(numbered(0, 600, size=1))
        assert few.join(few).guarantee == "exact"
        assert few.join(many).guarantee == many.join(many).guarantee == "probable"
        with pytest.raises(ConfigurationError, match="do not fit into the memory setting"):
            list(many.pairs(guarantee="exact"))


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_what_fits_is_joined_whichever_items_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_memory, "LOADED_AT_ONCE", 400)
    many: list[Any] = [item for _, item in numbered(0, 30)]
    long = [{f"{number:0300}"} for number in range(120)]
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        for name, items in (("first", [*many, *long]), ("last", [*long, *many])):
            made = db.collection(name, simdb.Set(), threshold=0.8)
            made.add_many(enumerate(items))
            few = db.collection(f"few {name}", simdb.Set(), threshold=0.8)
            few.add_many(enumerate(many[:3]))
            assert len(list(few.join(made, guarantee="exact"))) == 3
            assert list(made.pairs(guarantee="exact")) == []
            contained = few.join(made, 0.9, measure="probe-in-stored")
            assert len(list(contained)) == 3


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_items_of_two_sorts_that_take_turns_are_not_told_by_one(tmp_path: Path) -> None:
    sets = [item for _, item in numbered(0, 150)]
    titles = [{f"{number:02000}"} for number in range(150)]
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("s", simdb.Set(), threshold=0.8)
        made.add_many(enumerate(one for two in zip(titles, sets, strict=True) for one in two))
        assert made.join(made).guarantee == "probable"


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_what_fits_is_judged_anew_when_items_are_replaced_by_larger_ones(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("s", simdb.Set(), threshold=0.8)
        made.add_many((key, {f"{key:0100}"}) for key in range(40))
        assert made.join(made).guarantee == "exact"
        made.add_many(numbered(0, 40, 50), on_existing="replace")
        assert made.join(made).guarantee == "probable"


def test_the_further_a_join_looks_the_more_memory_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_memory, "BYTES_A_POSTING", 2**24 // 1_000)
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("s", simdb.Set(), threshold=0.5)
        made.add_many(numbered(0, 110))

        def exact_pairs(threshold: float) -> list[simdb.Pair]:
            return list(made.pairs(threshold, guarantee="exact"))

        for _ in range(2):
            with pytest.raises(ConfigurationError, match="do not fit into the memory setting"):
                exact_pairs(0.5)
        assert exact_pairs(0.8) == exact_pairs(0.8) == []
        monkeypatch.setattr(exact_memory, "load", None)  # from the second time on they are kept
        assert exact_pairs(0.8) == []
        with pytest.raises(ConfigurationError, match="do not fit") as refused:
            exact_pairs(0.5)
        remedies = [remedy.argument for remedy in refused.value.remedies]
        assert remedies == ["exact_floor", "guarantee"]
        assert made.join(made, 0.8).guarantee == "exact"
        assert made.join(made, 0.5).guarantee == "probable"


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_a_join_that_goes_on_under_less_memory_is_told_that_it_was_made_in_memory(
    tmp_path: Path,
) -> None:
    with (
        simdb.open(tmp_path / "s", memory=2**30) as roomy,
        simdb.open(tmp_path / "s", memory=2**24) as small,
    ):
        sets = roomy.collection("sets", simdb.Set(), threshold=0.8)
        sets.add_many(numbered(0, 60))
        pairs = sets.join(sets)
        assert pairs.guarantee == "exact"
        next(pairs.batches())
        again = small["sets"]
        assert again.join(again).guarantee == "probable"
        with pytest.raises(ConfigurationError, match="do not fit into the memory setting now"):
            list(again.join(again, resume=pairs.token))


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_a_join_that_may_not_fit_into_memory_is_answered_by_buckets_and_says_so(
    tmp_path: Path,
) -> None:
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        few, many, others = (
            db.collection(name, simdb.Set(), threshold=0.8) for name in ("few", "many", "others")
        )
        few.add_many(numbered(400, 2, size=3))
        few.add_many([("wide", range(2_000, 2_600))])
        many.add_many(numbered(0, 45))
        others.add_many(numbered(400, 3))
        assert others.join(many).guarantee == "exact"
        # As many items as before, but not as many symbols: what was chosen then does not count.
        for left, right in ((few, many), (many, few), (many, many)):
            for bounds in ({}, {"min_recall": 0.9}, {"threshold": 0.9}):
                pairs = left.join(right, **cast("Any", bounds))
                assert pairs.guarantee == "probable"
                assert pairs.expected_recall > 0.9
                same = left.explain("join", other=right, **cast("Any", bounds))
                assert same.alternatives[0].method == "buckets"
                assert len(list(pairs)) == (45 if left is right else 0)
        told = "do not fit into the memory setting"
        with pytest.raises(ConfigurationError, match=told):
            list(few.join(many, guarantee="exact"))
        with pytest.raises(ConfigurationError, match=told):  # for which no buckets are planned
            list(few.join(many, threshold=0.3))
        with simdb.open(tmp_path / "s", memory=2**30) as roomy:
            assert roomy["many"].join(roomy["many"]).guarantee == "exact"
        many.rebuild(exact_floor=0.8)
        assert many.join(many).guarantee == "exact"
        assert len(list(many.join(many))) == 45


@pytest.mark.usefixtures("room_for_1000_symbols")
def test_a_join_that_turns_out_not_to_fit_is_answered_by_buckets_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "SAMPLED_ITEMS", 4)  # which miss the only large one
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("s", simdb.Set(), threshold=0.8)
        made.add_many((key, {f"{key:0100}"}) for key in range(60))
        made.add(60, range(3_000))
        for given in ({}, {"one_to_one": True}, {"min_recall": 0.5}):
            pairs = made.join(made, **cast("Any", given))
            assert (pairs.guarantee, pairs.expected_recall) == ("exact", 1.0)
            assert pairs.count() == 61
            assert pairs.guarantee == "probable"
            assert 0.9 < pairs.expected_recall < 1
        schema = made.join(made).to_reader().schema.metadata
        assert json.loads(schema[b"simdb"])["guarantee"] == "probable"
        told = made.explain("join", other=made, run=True)
        assert (told.chosen.method, told.chosen.chosen, told.answers) == ("buckets", True, 61)
        with pytest.raises(ConfigurationError, match="do not fit into the memory setting"):
            list(made.join(made, guarantee="exact"))
        with pytest.raises(ConfigurationError, match="do not fit into the memory setting"):
            list(made.join(made, 0.3))  # for which no buckets are planned
        pairs = made.join(made)
        made.rebuild(threshold=0.95)
        with pytest.raises(ConfigurationError, match="was rebuilt after these pairs were asked"):
            list(pairs)
        made.rebuild(exact_floor=0.8)
        assert len(list(pairs)) == 61
        assert pairs.guarantee == "exact"
