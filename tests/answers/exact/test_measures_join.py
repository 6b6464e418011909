"""Pairs and joins by Dice, cosine and containment miss nothing, whatever lies on the threshold."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers.exact import memory as exact_memory
from simdb.errors import ConfigurationError, ThresholdTooLowError
from simdb.exact import containment
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.thresholds import Threshold
from tests.cli.test_exact import write_sets
from tests.support.commands import done, lines_of, run
from tests.support.exact_stores import WAYS, exact_store, join_by, pairs_found, small_epochs
from tests.support.grids import grid

Value = Callable[[int, int, int], Fraction]

# Of overlap, size of the left set, size of the right set. The square of the cosine, for o >= 0.
VALUES: dict[str, Value] = {
    "dice": lambda o, s, t: Fraction(2 * o, s + t),
    "cosine": lambda o, s, t: Fraction(o * o, s * t),
    "stored-in-probe": lambda o, _, t: Fraction(o, t),
    "probe-in-stored": lambda o, s, _: Fraction(o, s),
    "overlap": lambda o, s, t: Fraction(o, min(s, t)),
}
SYMMETRIC = ["dice", "cosine", "overlap"]
THRESHOLDS = [Fraction(2, 3), Fraction(3, 4), Fraction(4, 5), Fraction(7, 9), Fraction(1)]
Sets = list[set[int]]


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work that is cut into epochs and portions be cut into many."""
    small_epochs(monkeypatch)
    monkeypatch.setattr("simdb.answers.exact.probe.CHUNK", 5)
    monkeypatch.setattr("simdb.answers.exact.probe.COMPARED_AT_ONCE", 3)
    monkeypatch.setattr("simdb.answers.exact.memory.LOADED_AT_ONCE", 400)


def meets(measure: str, left: set[int], right: set[int], least: Fraction) -> bool:
    overlap = len(left & right)
    if not overlap:
        return False
    if measure == "cosine":
        above, below = least.as_integer_ratio()
        return (overlap * below) ** 2 >= above * above * len(left) * len(right)
    return VALUES[measure](overlap, len(left), len(right)) >= least


def shown(measure: str, left: set[int], right: set[int]) -> float:
    value = VALUES[measure](len(left & right), len(left), len(right))
    return float(value) ** 0.5 if measure == "cosine" else float(value)


def on_the_threshold(measure: str, least: Fraction) -> list[tuple[int, int, int]]:
    """All (overlap, left size, right size) whose similarity is the threshold itself."""
    exact = least**2 if measure == "cosine" else least
    return [
        (overlap, left, right)
        for left in range(1, 19)
        for right in range(1, 19)
        for overlap in range(1, min(left, right) + 1)
        if VALUES[measure](overlap, left, right) == exact
    ]


def hard_sets(seed: int, measure: str, least: Fraction, count: int = 50) -> tuple[Sets, Sets]:
    """Pairs of sets on the threshold, just below it, equal, nested and empty."""
    generator = random.Random(seed)
    cases = on_the_threshold(measure, least)
    lefts: Sets = [set(), {1}]
    rights: Sets = [set(), {1}]
    while len(lefts) < count:
        overlap, left, right = generator.choice(cases)
        symbols = generator.sample(range(60), left + right - overlap)
        lefts.append(set(symbols[:left]))
        less = generator.random() < 0.4
        rights.append(set(symbols[left - overlap + less : left - overlap + less + right]))
        if generator.random() < 0.2:
            lefts.append(set(rights[-1]))
            rights.append(set(generator.choice(rights)))
    generator.shuffle(rights)
    return lefts, rights


def nested(lefts: Sets, rights: Sets, least: Fraction) -> list[tuple[int, int]]:
    """Pairs of which one has so much of the other, which is most that a measure can be."""
    width = 1 + max(max(one, default=0) for one in [*lefts, *rights])
    sides = [np.zeros((len(sets), width)) for sets in (lefts, rights)]
    for sets, side in zip((lefts, rights), sides, strict=True):
        for row, one in enumerate(sets):
            side[row, list(one)] = 1
    left, right = sides
    smaller = np.minimum.outer(left.sum(axis=1), right.sum(axis=1))
    found = np.nonzero(left @ right.T * least.denominator >= smaller * least.numerator)
    return [(int(one), int(other)) for one, other in zip(*found, strict=True)]


def expected_pairs(measure: str, sets: Sets, least: Fraction) -> dict[tuple[int, int], float]:
    return {
        (one, other): shown(measure, sets[one], sets[other])
        for one, other in nested(sets, sets, least)
        if one < other and meets(measure, sets[one], sets[other], least)
    }


def expected_across(
    measure: str, lefts: Sets, rights: Sets, least: Fraction
) -> dict[tuple[int, int], float]:
    return {
        (one, other): shown(measure, lefts[one], rights[other])
        for one, other in nested(lefts, rights, least)
        if meets(measure, lefts[one], rights[other], least)
    }


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize(("way", "measure", "least"), grid(WAYS, SYMMETRIC, THRESHOLDS, step=7))
def test_pairs_are_those_of_brute_force(
    way: str, measure: str, least: Fraction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way)
    lefts, rights = hard_sets(1, measure, least)
    sets = [*lefts, *rights]
    with exact_store(tmp_path / "s", containment=measure == "overlap") as collection:
        half = len(sets) // 2
        collection.add_many(enumerate(sets[:half]))
        mark = collection.checkpoint()
        collection.add_many(enumerate(sets[half:], half))
        expected = expected_pairs(measure, sets, least)
        assert expected
        found = collection.pairs(least, measure=measure)
        assert pairs_found(found) == pytest.approx(expected, rel=1e-15)
        assert found.token is None
        assert all((batch.left < batch.right).all() for batch in found.batches())
        new = {pair: value for pair, value in expected.items() if pair[1] >= half}
        since = collection.pairs(least, measure=measure, since=mark)
        assert pairs_found(since) == pytest.approx(new, rel=1e-15)
        gone = set(range(0, len(sets), 3))
        collection.delete_many(sorted(gone))
        left = {pair: value for pair, value in expected.items() if not gone & {*pair}}
        again = collection.pairs(least, measure=measure)
        assert pairs_found(again) == pytest.approx(left, rel=1e-15)


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize(("way", "measure", "least"), grid(WAYS, VALUES, THRESHOLDS, step=7))
def test_joins_are_those_of_brute_force(
    way: str, measure: str, least: Fraction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, way)
    lefts, rights = hard_sets(2, measure, least)
    containment = measure in ("probe-in-stored", "overlap")
    with (
        simdb.open(tmp_path / "left") as db,
        exact_store(tmp_path / "right", containment=containment) as right,
    ):
        left = db.collection("sets", simdb.Set())  # which needs no exact index
        left.add_many(enumerate(lefts))
        right.add_many(enumerate(rights))
        expected = expected_across(measure, lefts, rights, least)
        assert expected
        found = left.join(right, least, measure=measure)
        assert pairs_found(found) == pytest.approx(expected, rel=1e-15)
        left.delete_many(range(0, len(lefts), 5))
        right.delete_many(range(1, len(rights), 4))
        kept = {pair: value for pair, value in expected.items() if pair[0] % 5 and pair[1] % 4 != 1}
        found = left.join(right, least, measure=measure)
        assert pairs_found(found) == pytest.approx(kept, rel=1e-15)


@pytest.mark.parametrize("measure", SYMMETRIC)
def test_pairs_have_the_similarities_of_a_search(measure: str, tmp_path: Path) -> None:
    lefts, rights = hard_sets(3, measure, Fraction(4, 5))
    sets = [*lefts, *rights]
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(enumerate(sets))
        for pair in collection.pairs("4/5", measure=measure):
            assert isinstance(pair.right, int)
            found = collection.search(sets[pair.right], threshold="4/5", measure=measure)
            values = {match.key: match.similarity for match in found}
            assert values[pair.left] == pair.similarity


def test_texts_and_bags_are_paired_by_their_symbols(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        texts = db.collection("texts", simdb.Text(simdb.WordShingles(1)), exact_floor=0.5)
        texts.add_many(enumerate(["a b c", "b c d", "x y"]))
        assert pairs_found(texts.pairs("2/3", measure="dice")) == {(0, 1): 2 / 3}
        bags = db.collection("bags", simdb.Bag(union="sum"), threshold=None, exact_floor="1/4")
        bags.add_many(enumerate([["a", "a", "b"], ["a", "b", "b"], ["a", "a", "b"]]))
        # The bags share 2 of 3 and 3: Dice 2/3, above what a similarity by the sum can be.
        found = {(0, 1): 2 / 3, (1, 2): 2 / 3, (0, 2): 1.0}
        assert pairs_found(bags.pairs("2/3", measure="dice")) == found
        assert len(bags.search(["a", "a", "b"], threshold="2/3", measure="dice")) == 3
        assert len(pairs_found(bags.join(bags, "2/3", measure="cosine"))) == 9


def test_an_empty_collection_has_no_pairs(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s") as collection:
        assert not pairs_found(collection.pairs(0.8, measure="cosine"))
        collection.add(1, set())
        collection.add(2, set())
        assert not pairs_found(collection.pairs(0.8, measure="cosine"))
        assert not pairs_found(collection.join(collection, 0.8, measure="stored-in-probe"))


@pytest.mark.parametrize("measure", SYMMETRIC)
def test_pairs_in_memory_need_no_index(measure: str, tmp_path: Path) -> None:
    least = Fraction(3, 4)
    lefts, rights = hard_sets(4, measure, least)
    with simdb.open(tmp_path / "s") as db:
        left = db.collection("left", simdb.Set())
        right = db.collection("right", simdb.Set(), threshold=None, exact_floor=0.9)
        left.add_many(enumerate(lefts))
        right.add_many(enumerate(rights))
        for guarantee in ("auto", "exact"):
            own = left.pairs(least, measure=measure, guarantee=guarantee)
            expected = expected_pairs(measure, lefts, least)
            assert pairs_found(own) == pytest.approx(expected, rel=1e-15)
            both = left.join(right, least, measure=measure, guarantee=guarantee)
            expected = expected_across(measure, lefts, rights, least)
            assert pairs_found(both) == pytest.approx(expected, rel=1e-15)


def test_one_place_in_whole_numbers_decides_where_cosines_are_close() -> None:
    """Squares of cosines that floating-point numbers cannot tell from the bound."""
    criterion = Criterion(SetSimilarity.COSINE, Threshold(Fraction(1, 3)))
    sizes = np.array([3 * 10**8, 3 * 10**8, 3 * 10**8])
    overlaps = np.array([10**8 - 1, 10**8, 10**8 + 1])
    assert criterion.are_met(overlaps, sizes, sizes).tolist() == [False, True, True]


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize(
    ("at_once", "measure", "least"),
    grid([1, 2**21], ["stored-in-probe", "probe-in-stored", "overlap"], THRESHOLDS, step=3),
)
def test_containment_is_joined_without_an_index(
    at_once: int, measure: str, least: Fraction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "MET_AT_ONCE", at_once)
    lefts, rights = hard_sets(7, measure, least)
    with simdb.open(tmp_path / "s") as db:
        left, right = (db.collection(name, simdb.Set()) for name in ("left", "right"))
        left.add_many(enumerate(lefts))
        right.add_many(enumerate(rights))
        left.delete(3)
        expected = {
            pair: value
            for pair, value in expected_across(measure, lefts, rights, least).items()
            if pair[0] != 3
        }
        found = left.join(right, least, measure=measure)
        assert pairs_found(found) == pytest.approx(expected, rel=1e-15)
        assert found.looked_at >= len(expected)
        for probe in lefts[:12]:
            matches = right.search(probe, threshold=least, measure=measure)
            assert matches.guarantee == "exact"
            assert {match.key for match in matches} == {
                key for key, one in enumerate(rights) if meets(measure, probe, one, least)
            }


def test_few_common_symbols_are_met_for_few_contained_sets(tmp_path: Path) -> None:
    """Passages are found by their rarest symbols: most of the texts meet nothing."""
    generator = random.Random(1)
    common = list(range(10))
    texts = [{*common, *generator.sample(range(100, 100_000), 20)} for _ in range(500)]
    passages = [{*generator.sample(common, 3), *list(texts[key] - {*common})[:9]} for key in (7, 9)]
    with simdb.open(tmp_path / "s") as db:
        left, right = (db.collection(name, simdb.Set()) for name in ("texts", "passages"))
        left.add_many(enumerate(texts))
        right.add_many(enumerate(passages))
        found = left.join(right, 0.9, measure="stored-in-probe")
        assert pairs_found(found) == {(7, 0): 1.0, (9, 1): 1.0}
        assert found.looked_at < 20
        told = left.explain("join", other=right, threshold=0.9, measure="stored-in-probe", run=True)
        assert (told.chosen.method, told.answers) == ("scan", 2)
        # The other way round too: is enough of a probe in a stored item?
        found = right.join(left, 0.9, measure="probe-in-stored")
        assert pairs_found(found) == {(0, 7): 1.0, (1, 9): 1.0}


@pytest.mark.parametrize("measure", ["stored-in-probe", "probe-in-stored"])
def test_many_are_read_whole_and_few_looked_up_where_an_index_serves(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(2)
    stored = [{int(300 * generator.random() ** 2) for _ in range(60)} for _ in range(250)]
    stored += [{*sorted(one)[:20]} for one in stored[:20]]
    with simdb.open(tmp_path / "s") as db:
        settings: dict[str, Any] = {"exact_floor": 0.3, "containment": True, "seed": 1}
        many, few = (db.collection(name, simdb.Set(), **settings) for name in ("many", "few"))
        many.add_many(enumerate(stored))
        few.add_many(enumerate(stored[-2:]))
        asked: dict[str, Any] = {"threshold": 0.9, "measure": measure}
        for left, lefts, method in ((few, stored[-2:], "exact"), (many, stored, "scan")):
            told = left.explain("join", other=many, **asked)
            assert [one.method for one in told.alternatives if one.chosen] == [method]
            expected = expected_across(measure, lefts, stored, Fraction(9, 10))
            assert pairs_found(left.join(many, **asked)) == pytest.approx(expected, rel=1e-15)
    join_by(monkeypatch, "sweep")  # as if nothing fitted into memory: the index answers
    with simdb.open(tmp_path / "s") as db:
        many = db["many"]
        assert pairs_found(many.join(many, **asked)) == pytest.approx(expected, rel=1e-15)


def test_contained_sets_are_counted_alike_however_small_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_memory, "BYTES_A_POSTING", 2**24 // 1_000)
    sets = [(key, range(10 * key, 10 * key + 10)) for key in range(110)]
    with simdb.open(tmp_path / "s", memory=2**24) as db:
        made = db.collection("sets", simdb.Set())
        made.add_many(sets)
        assert list(made.pairs(0.1, measure="overlap")) == []
        assert len(list(made.join(made, 0.1, measure="probe-in-stored"))) == len(sets)
        rows = db.collection("rows", simdb.Set())
        assert rows.dedupe(sets, measure="containment", threshold=0.1).added == len(sets)


def test_what_neither_fits_nor_has_an_index_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, "sweep")  # as if nothing fitted into memory
    with simdb.open(tmp_path / "s") as db:
        probable = db.collection("probable", simdb.Set())
        exact = db.collection("exact", simdb.Set(), threshold=None, exact_floor=0.6)
        vectors = db.collection("vectors", simdb.Vector(2, "cosine"))
        for one in (probable, exact):
            one.add_many(enumerate([{1, 2, 3}, {2, 3, 4}]))
        for one, threshold, measure, problem in (
            (probable, 0.8, "dice", "no exact index"),
            (exact, 0.7, "dice", "below the floor"),  # 7/13 < 0.6
            (exact, 0.75, "cosine", "below the floor"),  # 9/16 < 0.6
            (vectors, None, "dice", "measure must be left out: vectors have only one measure"),
        ):
            for asked in (one.pairs, lambda *a, one=one, **k: one.join(one, *a, **k)):
                with pytest.raises((ConfigurationError, ThresholdTooLowError), match=problem):
                    list(asked(threshold, measure=measure))
            if one is not vectors:
                found = one.search({1, 2, 3}, threshold=threshold, measure=measure)
                assert [match.key for match in found] == [0]
        with pytest.raises(ThresholdTooLowError, match="containment=True"):
            list(exact.join(exact, 0.8, measure="probe-in-stored"))
        with pytest.raises(ConfigurationError, match="no probable index"):
            exact.pairs(0.8, measure="dice", guarantee="probable")
        with pytest.raises(ConfigurationError, match="depends on the order"):
            exact.pairs(0.8, measure="stored-in-probe")
        with pytest.raises(ConfigurationError, match="measure must be one of"):
            exact.pairs(0.8, measure="hamming")
        for asked in (exact.pairs, lambda *a, **k: exact.join(exact, *a, **k)):
            with pytest.raises(ConfigurationError, match="can be resumed"):
                asked(0.8, measure="dice", resume="token")


def test_a_kind_of_one_measure_names_no_others(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        strings = db.collection("strings", simdb.String(), max_distance=1)
        asks: tuple[Any, ...] = (strings.pairs, partial(strings.join, strings))
        asks += (partial(strings.search, "a"),)
        unknown: tuple[Any, ...] = ("x", "dice", "overlap", None, 3)
        for measure, ask in product(unknown, asks):
            with pytest.raises(ConfigurationError, match=r"^measure must be left out: strings"):
                ask(measure=measure)
        assert list(strings.search("a", measure=SetSimilarity.JACCARD)) == []


def test_the_command_line_takes_measures(tmp_path: Path) -> None:
    store = tmp_path / "s.simdb"
    sets = {
        "left": [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [7, 8, 9, 10]],
        "right": [[1, 2], [7, 8, 9, 11], [1, 2, 3, 4, 5, 6]],
    }
    for name, rows in sets.items():
        done("create", store, name, "--kind", "set", "--threshold", 0.8, "--exact-floor", 0.5)
        done("add", store, name, write_sets(tmp_path / f"{name}.txt", rows))

    def told(*arguments: object) -> dict[tuple[int, int], float]:
        rows = lines_of(*arguments)
        return {(row["left"], row["right"]): row["similarity"] for row in rows}

    assert told("pairs", store, "left", "--threshold", 0.8) == {}
    by_dice = told("pairs", store, "left", "--threshold", 0.8, "--measure", "dice")
    assert by_dice == {(1, 2): 0.8}
    contained = ("--measure", "stored-in-probe", "--threshold", 1)
    assert told("join", store, "left", "right", *contained) == {(1, 1): 1.0, (2, 1): 1.0}
    by_cosine = told("join", store, "left", "right", "--measure", "cosine", "--threshold", "3/4")
    assert by_cosine == pytest.approx(
        {(1, 3): 5 / 30**0.5, (2, 3): 5 / 30**0.5, (3, 2): 0.75}, rel=1e-15
    )
    assert "none is missing" in done("pairs", store, "left", "--measure", "dice").stderr
    assert run("pairs", store, "left", "--measure", "stored-in-probe").exit_code == 2
    by_dice = told("join", store, "left", "right", "--measure", "dice", "--threshold", 0.9)
    assert by_dice == pytest.approx(dict.fromkeys(by_dice, 10 / 11), rel=1e-15)
    whole = ("--measure", "probe-in-stored", "--threshold", 0.6)
    expected = {
        (number, other): len({*one} & {*two}) / len(one)
        for number, one in enumerate(sets["left"], start=1)
        for other, two in enumerate(sets["right"], start=1)
        if len({*one} & {*two}) / len(one) >= 0.6
    }
    assert told("join", store, "left", "right", *whole) == pytest.approx(expected, rel=1e-15)
