"""Strings by edit distance: every question beside a double loop over the table of distances."""

from __future__ import annotations

import random
import unicodedata
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdb
from simdb import kernels
from simdb.exact import segments
from simdb.kinds.distances import damerau_distance
from tests.support import oracle
from tests.support.grids import some_of
from tests.support.histories import added_in_two_parts

MEASURES: dict[str, Any] = {
    "levenshtein": cache(partial(oracle.edits, transposes=False)),
    "alignment": cache(partial(oracle.edits, transposes=True)),
    "damerau": cache(damerau_distance),
}


def edited(generator: random.Random, word: str) -> str:
    """A word after an edit: a letter more, less or another, or two in the other order."""
    letters, place = list(word), generator.randrange(len(word) + 1)
    way = generator.randrange(4)
    if way == 0:
        letters.insert(place, generator.choice("abcdé"))
    elif way == 1:
        letters[place : place + 1] = []
    elif way == 2:
        letters[place : place + 1] = generator.choice("abcdé")
    else:
        letters[place : place + 2] = reversed(letters[place : place + 2])
    return "".join(letters)


def words_near(seed: int, count: int = 80) -> list[str]:
    """Around a few centres of all lengths from none on: many near, many too far, some equal."""
    generator = random.Random(seed)
    centres = ["".join(generator.choices("abcd", k=length)) for length in (0, 1, 3, 5, 8, 12, 20)]
    words = []
    for _ in range(count):
        word = generator.choice(centres)
        for _ in range(generator.randrange(4)):
            word = edited(generator, word)
        words.append(word)
    return words


def similarity(measure: str, one: str, other: str) -> Fraction:
    longer = max(len(one), len(other))
    return 1 - Fraction(MEASURES[measure](one, other), longer) if longer else Fraction(1)


def is_near(kind: simdb.String, bound: Any, one: str, other: str) -> bool:
    if kind.normalised:
        return similarity(kind.measure, one, other) >= Fraction(str(bound))
    return bool(MEASURES[kind.measure](one, other) <= bound)


def value(kind: simdb.String, one: str, other: str) -> float:
    if kind.normalised:
        return float(similarity(kind.measure, one, other))
    return float(MEASURES[kind.measure](one, other))


CASES = {
    "levenshtein 2": (simdb.String("levenshtein"), 2),
    "alignment 1": (simdb.String("alignment"), 1),
    "levenshtein 0": (simdb.String("levenshtein"), 0),
    "levenshtein of 0.75": (simdb.String("levenshtein", normalised=True), 0.75),
    "levenshtein 6": (simdb.String("levenshtein"), 6),
    "damerau 3": (simdb.String("damerau"), 3),
    "alignment 2": (simdb.String("alignment"), 2),
    "alignment of 2/3": (simdb.String("alignment", normalised=True), "2/3"),
    "levenshtein of 0.2": (simdb.String("levenshtein", normalised=True), 0.2),
    "damerau of 0.9": (simdb.String("damerau", normalised=True), 0.9),
}


@pytest.fixture(params=some_of(CASES, 3))
def case(request):
    return CASES[request.param]


def named(kind: simdb.String, bound: Any) -> dict[str, Any]:
    return {"threshold" if kind.normalised else "max_distance": bound}


@pytest.fixture
def collection(tmp_path, case):
    kind, bound = case
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db.collection("c", kind, seed=1, **named(kind, bound))


@pytest.fixture
def rows(collection):
    return added_in_two_parts(collection, words_near(1))


def test_searches_are_those_of_a_loop(collection, rows, case):
    kind, bound = case
    probes = [*words_near(1)[:12], *words_near(2)[:4], "", "dcba"]
    narrow = Fraction(9, 10) if kind.normalised else min(1, bound)
    for asked in (bound, narrow):
        answers = collection.search_many(probes, guarantee="probable", **named(kind, asked))
        scanned = collection.search_many(probes, guarantee="exact", **named(kind, asked))
        for probe, found, other in zip(probes, answers, scanned, strict=True):
            expected = {
                (key, value(kind, probe, row))
                for key, row in rows.items()
                if is_near(kind, asked, probe, row)
            }
            assert {(match.key, match.value) for match in found} == expected
            assert list(found) == list(other)
            assert found.guarantee == other.guarantee == "exact"


def test_beyond_its_bound_everything_is_compared(collection, rows, case):
    kind, _ = case
    wide = 0.1 if kind.normalised else 9
    found = collection.search("abcd", **named(kind, wide))
    expected = {key for key, row in rows.items() if is_near(kind, wide, "abcd", row)}
    assert {match.key for match in found} == expected
    assert found.guarantee == "exact"
    with pytest.raises(simdb.ThresholdTooLowError):
        collection.search("abcd", guarantee="probable", **named(kind, wide))


def near_of(kind: simdb.String, bound: Any, rows: dict[int, str]) -> set[tuple[int, int, float]]:
    return {
        (one, other, value(kind, rows[one], rows[other]))
        for one, other in combinations(rows, 2)
        if is_near(kind, bound, rows[one], rows[other])
    }


def test_pairs_and_groups_are_those_of_a_double_loop(collection, rows, case):
    kind, bound = case
    expected = near_of(kind, bound, rows)
    found = [(pair.left, pair.right, pair.value) for pair in collection.pairs()]
    assert len(found) == len(set(found))
    assert set(found) == expected
    group_of = {key: key for key in rows}
    for one, other, _ in sorted(expected):
        gone, stays = group_of[other], group_of[one]
        group_of = {key: stays if own == gone else own for key, own in group_of.items()}
    members: dict[int, set[int]] = {}
    for key, own in group_of.items():
        members.setdefault(own, set()).add(key)
    groups = sorted(sorted(group.keys) for group in collection.groups())
    assert groups == sorted(sorted(each) for each in members.values() if len(each) > 1)


def test_threads_change_neither_the_pairs_nor_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "PROBES_AT_ONCE", 9)
    monkeypatch.setattr(segments, "ROOM", 5)
    names = [f"{'ab' * (number % 7)}{number}" for number in range(70)]
    found = []
    for threads in (1, 3):
        with simdb.open(tmp_path / f"{threads}.simdb", sync="batch", threads=threads) as db:
            words = db.collection("c", simdb.String())
            words.add_many(enumerate(names))
            found.append([(p.left, p.right, p.distance) for p in words.pairs(max_distance=2)])
            assert found[0] == found[-1]
            with pytest.raises(simdb.OperationInterruptedError):
                list(words.pairs(max_distance=2, budget=20))
    expected = near_of(simdb.String(), 2, dict(enumerate(names)))
    assert sorted(found[0]) == sorted(expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_looks_at_few_entries_however_few_are_near(tmp_path, monkeypatch, threads):
    """Random words: all have the key of their length, and nearly none are near."""
    generator = random.Random(4)
    names = ["".join(generator.choices("abcdefgh", k=12)) for _ in range(60)]
    kind = simdb.String(normalised=True)
    steps: list[int] = []
    advance = segments._Probes.advance

    def counted(self: Any, most: int) -> Any:
        found = advance(self, 2**62)  # as many pairs as there are
        steps.append(found[0])
        return found

    monkeypatch.setattr(segments._Probes, "advance", counted)
    with simdb.open(tmp_path / "a.simdb", sync="batch", threads=threads) as db:
        words = db.collection("c", kind, threshold=None)
        words.add_many(enumerate(names))
        whole = words.pairs(0.1)
        expected = [(pair.left, pair.right, pair.value) for pair in whole]
        assert steps == [whole.looked_at]
        assert whole.looked_at > 1_000
        monkeypatch.setattr(segments, "STEPS_AT_ONCE", 1)
        steps.clear()
        assert [(pair.left, pair.right, pair.value) for pair in words.pairs(0.1)] == expected
        assert sum(steps) == whole.looked_at
        if threads == 1:  # else a thread goes on by itself
            assert max(steps) < len(names)
        steps.clear()
        with pytest.raises(simdb.OperationInterruptedError):
            list(words.pairs(0.1, budget=100))
        assert sum(steps) <= 100 + 2 * len(names)


def test_threads_end_after_the_step_that_each_is_at(monkeypatch):
    """When nobody waits for more, not when all of their probes are joined."""
    calls: list[int] = []

    def step(state: Any, *room: Any) -> int:
        calls.append(int(state[0]))
        state[0] += 1
        if len(calls) == 3:
            join.stop()
        return 0

    join = segments._Join(step, None, 0, by_steps=False)
    probes = segments._Probes(join, np.array([0, 100, 0]))
    probes.advance(2**62)
    assert calls == [0, 1, 2]
    assert not probes.done


def test_new_items_are_joined_with_all(collection, rows, case):
    kind, bound = case
    for count in (2, 40):
        since = collection.checkpoint()
        added = {len(rows) + 500 + place: word for place, word in enumerate(words_near(7, count))}
        collection.add_many(added.items())
        rows |= added
        found = {(pair.left, pair.right, pair.value) for pair in collection.pairs(since=since)}
        expected = near_of(kind, bound, rows)
        assert found == {pair for pair in expected if {*pair[:2]} & added.keys()}


@pytest.mark.parametrize("count", [2, 50])
def test_a_join_is_a_double_loop(collection, rows, case, count, tmp_path):
    kind, bound = case
    with simdb.open(tmp_path / "other.simdb", sync="batch", threads=1) as db:
        left = db.collection("left", kind, threshold=None)
        own = dict(enumerate(words_near(5, count)))
        left.add_many(own.items())
        found = [(pair.left, pair.right, pair.value) for pair in left.join(collection)]
    expected = {
        (one, other, value(kind, a, b))
        for one, a in own.items()
        for other, b in rows.items()
        if is_near(kind, bound, a, b)
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_duplicates_are_those_of_the_definition(collection, case):
    """A row is a duplicate of the first row kept before it that is near enough."""
    kind, bound = case
    rows = words_near(4)
    kept: dict[int, str] = {}
    expected: list[Any] = []
    for key, row in enumerate(rows):
        target = next(
            (one for one, other in kept.items() if is_near(kind, bound, row, other)), None
        )
        expected.append(target)
        if target is None:
            kept[key] = row
    outcomes: list[simdb.Outcome] = []
    numbered = list(enumerate(rows))
    for begin in range(0, len(rows), 30):
        collection.add_many(
            numbered[begin : begin + 30], on_duplicate="skip", outcomes=outcomes.extend
        )
    assert [outcome.duplicate_of for outcome in outcomes] == expected
    assert sorted(entry.key for entry in collection.items()) == sorted(kept)


def test_the_index_is_checked_rebuilt_and_audited(collection, rows, case):
    kind, _ = case
    assert collection.check(deep=True).problems == ()
    assert collection.self_audit(sample=30).recall == 1
    collection.compact()
    narrow = 0.95 if kind.normalised else 1
    collection.rebuild(**named(kind, narrow))
    found = {match.key for match in collection.search(rows[0])}
    assert found == {key for key, row in rows.items() if is_near(kind, narrow, row, rows[0])}
    assert collection.check(deep=True).problems == ()


# -- what strings are ----------------------------------------------------------------------------


def distance(tmp_path: Any, kind: simdb.String, one: str, other: str) -> float:
    with simdb.open(tmp_path / "d.simdb", sync="batch", threads=1) as db:
        words = db.collection(f"{hash(kind)}", kind)
        words.add(1, one, on_existing="replace")
        return float(words.search(other)[0].value)


def test_strings_are_compared_by_code_points_as_the_settings_normalise_them(tmp_path):
    composed, apart = "café", unicodedata.normalize("NFD", "café")
    plain = simdb.String()
    assert distance(tmp_path, plain, composed, apart) == 0
    assert distance(tmp_path, simdb.String(unicode="keep"), composed, apart) == 2
    assert distance(tmp_path, plain, "Straße 東京🙂", "straße 東亰") == 3
    assert distance(tmp_path, simdb.String(lowercase=True), "ÉCOLE", "école") == 0
    assert distance(tmp_path, plain, " a  b\t", "a b") == 3
    assert distance(tmp_path, simdb.String(white_space="collapse"), " a  b\t", "a b") == 0


def test_what_was_given_comes_back(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        words = db.collection("w", simdb.String(lowercase=True), max_distance=1)
        given = ["", "Ä", "a\u0308", "x" * 70_000]
        words.add_many(enumerate(given))
        assert [words.get(key).item for key in range(4)] == given
        assert {match.key for match in words.search("ä")} == {0, 1, 2}
        assert [match.key for match in words.search("x" * 70_001)] == [3]


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="ab\U0001f642é", max_size=150), max_size=4), st.text(max_size=9))
def test_distances_of_any_strings_are_those_of_the_table(words, probe):
    for kind in (simdb.String("levenshtein"), simdb.String("alignment")):
        items, measure = kind.make_items(b""), kind.make_measure()
        normal = [unicodedata.normalize("NFC", word) for word in [*words, probe]]
        features = items.features([items.encode(word) for word in [*words, probe]])
        compared = measure.compare_probe(features[len(words) :], features)
        expected = [oracle.edits(word, normal[-1], transposes=kind.transposes) for word in normal]
        assert compared.numerators.tolist() == expected


@pytest.mark.parametrize("item", [1, None, b"a", "\ud800", float("nan"), ["a"]])
def test_what_is_no_string_is_refused(tmp_path, item):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        words = db.collection("w", simdb.String())
        with pytest.raises(simdb.BadItemError, match="string"):
            words.add(1, item)


def test_settings_that_cannot_be_are_refused(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        for kind, given, message in (
            (simdb.String(), {"max_distance": 17}, "at most 16"),
            (simdb.String(), {"threshold": 0.8}, "max_distance"),
            (simdb.String(normalised=True), {"max_distance": 1}, "threshold"),
            (simdb.String(), {"max_distance": 1, "bands": 2}, "segments"),
            (simdb.String(), {"max_distance": 1, "exact_floor": 0.5}, "exact index"),
        ):
            with pytest.raises(simdb.ConfigurationError, match=message):
                db.collection("c", kind, **given)
        with pytest.raises(simdb.ConfigurationError, match="measure"):
            simdb.String().changed(measure="hamming")


def test_many_probes_without_a_bound_are_answered_by_the_strings_that_are_there(tmp_path):
    """A bound of millions of edits makes no turn for lengths that no string has."""
    words = ["abc", "abd", "xyz" * 30, "", "a" * 700]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.collection("c", simdb.String())
        collection.add_many(enumerate(words))
        alone = [[*collection.search(word)] for word in words]
        assert [[*one] for one in collection.search_many(words * 20)] == alone * 20
        largest = collection.kind.largest_distance
        assert len([*collection.join(collection, max_distance=largest)]) == len(words) ** 2


@pytest.mark.parametrize(("share", "length"), [((999, 1_000), 100), ((999_999, 1_000_000), 1)])
def test_a_probe_takes_a_turn_for_each_class_of_the_lengths_that_are_allowed(
    monkeypatch, share, length
):
    """By a low threshold they are more than could be visited one by one."""
    kernel: Any = kernels.strings
    turns: list[int] = []
    for name in ("_limit_of", "_longest_of", "_class_of", "_after_class_of", "_segments_of"):
        function = getattr(kernel, name)
        monkeypatch.setattr(kernel, name, getattr(function, "py_func", function))
    segments_of = kernel._segments_of

    def counted(length: int, limits: Any) -> Any:
        turns.append(length)
        assert len(turns) < 1_000
        return segments_of(length, limits)

    monkeypatch.setattr(kernel, "_segments_of", counted)
    monkeypatch.setattr(kernel, "_key", lambda *given: np.uint64(given[3]))
    limits = kernel.Limits(0, *share, 12, 0)
    probe = kernel.Strings(np.ones(length, np.uint32), np.array([0, length]), np.zeros(1))
    found = getattr(kernel.probe_keys, "py_func", kernel.probe_keys)(probe, limits, np.zeros(2))
    wide = (
        first + 128 * halved
        for halved in range(1, 32)
        for first in range(8, 16)
        if first << (halved + 2) <= length * share[1]
    )
    assert found[0].tolist() == [*range(1, 64), *wide]


def test_long_strings_by_a_low_threshold_are_under_the_keys_of_their_lengths():
    """The edits that the longest string similar to them allows would overflow."""
    kind = simdb.String(normalised=True)
    features = kind.make_items(b"").features([b"x" * 10**7])
    low = kind.make_family(Fraction(1, 10**6), bands=12, rows=1, sketch="fast", secret=b"")
    assert low.sign(features)[0, :48].any()


def test_a_threshold_below_a_millionth_misses_no_long_string(tmp_path):
    length = 2**20 + 1
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.String(normalised=True), threshold=None)
        collection.add_many([("short", "a"), ("long", "a" * length)])
        for threshold, found in (("0.00000096", ["short"]), ("0.0000009", ["short", "long"])):
            asked: Any = {"threshold": threshold, "guarantee": "exact"}
            assert [match.key for match in collection.search("a", **asked)] == found
            assert len([*collection.pairs(**asked)]) == len(found) - 1


def test_long_strings_are_explained_by_their_runs(tmp_path):
    """Where letters are compared each with each, the time grows with the square."""
    generator = random.Random(1)
    one = "".join(generator.choices("abcdefgh", k=30_000))
    other = "y" + one[1:10_000] + "z" + one[10_000:20_000] + one[20_003:-1] + "x"
    with simdb.open(tmp_path / "s.simdb") as database:
        strings = database.collection("strings", simdb.String(normalised=True), threshold=0.5)
        strings.add_many([(1, one), (2, other)])
        told = strings.explain_pair(1, 2).facets
    assert "".join(facet.left or "" for facet in told) == one
    assert "".join(facet.right or "" for facet in told) == other
    assert len(told) <= 12
    assert sum(len(facet.left or "") for facet in told if facet.left == facet.right) > 29_900
