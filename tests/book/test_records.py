"""Examples and exercises of MMDS 3.5.5 and 3.8.1 to 3.8.3, by number."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

from simdb.kinds.distances import (
    damerau_distance,
    edit_distance,
    levenshtein_distance,
    longest_common_subsequence,
)
from simdb.kinds.records import Field, Record, RecordFamily
from simdb.kinds.records.items import RecordItems
from simdb.kinds.records.points import RecordMeasure
from simdb.upkeep.calibrate import fraction_of_matches
from tests.support.calibrating import calibrate, mean_difference
from tests.support.record_stores import candidate_pairs

EXERCISE_3_5_7 = {
    "a": ("abcdef", "bdaefc"),
    "b": ("abccdabc", "acbdcab"),
    "c": ("abcdef", "baedfc"),
}


def common_by_trying(left: str, right: str) -> int:
    """The longest of all strings that are made from ``left`` by deleting, if ``right`` has it."""
    for length in range(len(left), -1, -1):
        for kept in combinations(left, length):
            letters = iter(right)
            if all(letter in letters for letter in kept):
                return length
    raise AssertionError("the empty string is common to all")


def neighbours(text: str, alphabet: str, *, mutations: bool) -> set[str]:
    """All strings that one edit makes of a text; of deletions, which insertions undo, and swaps."""
    made = {text[:place] + text[place + 1 :] for place in range(len(text))}
    made |= {
        text[:place] + letter + text[place:]
        for place, letter in product(range(len(text) + 1), alphabet)
    }
    if mutations:
        made |= {
            text[:place] + letter + text[place + 1 :]
            for place, letter in product(range(len(text)), alphabet)
        }
        made |= {
            text[:place] + text[place + 1] + text[place] + text[place + 2 :]
            for place in range(len(text) - 1)
        }
    return made


def edits_by_searching(left: str, right: str, *, mutations: bool) -> int:
    """The edits of the shortest way from one string to another, found from both ends."""
    alphabet = "".join(sorted(set(left + right)))
    reached, steps = [{left}, {right}], 0
    while not reached[0] & reached[1]:
        side = steps % 2
        for text in list(reached[side]):
            reached[side] |= neighbours(text, alphabet, mutations=mutations)
        steps += 1
    return steps


def test_example_3_14_three_edits_turn_abcde_into_acfdeg():
    assert edit_distance("abcde", "acfdeg") == 3
    assert edits_by_searching("abcde", "acfdeg", mutations=False) == 3


def test_example_3_15_the_longest_common_subsequence_gives_the_edit_distance():
    assert longest_common_subsequence("abcde", "acfdeg") == len("acde") == 4
    assert edit_distance("abcde", "acfdeg") == 5 + 6 - 2 * 4
    assert longest_common_subsequence("aba", "bab") == 2
    assert edit_distance("aba", "bab") == 3 + 3 - 2 * 2


@pytest.mark.parametrize(("part", "distance"), [("a", 4), ("b", 5), ("c", 6)])
def test_exercise_3_5_7_edit_distances_by_insertions_and_deletions(part, distance):
    left, right = EXERCISE_3_5_7[part]
    assert len(left) + len(right) - 2 * common_by_trying(left, right) == distance
    assert edit_distance(left, right) == distance


@pytest.mark.parametrize("part", EXERCISE_3_5_7)
def test_exercise_3_5_8_edit_distances_with_mutations_and_transpositions(part):
    left, right = EXERCISE_3_5_7[part]
    expected = edits_by_searching(left, right, mutations=True)
    assert damerau_distance(left, right) == expected == {"a": 4, "b": 3, "c": 4}[part]


def test_exercise_3_5_8_a_mutation_and_a_transposition_count_one_each():
    assert (edit_distance("jones", "jomes"), levenshtein_distance("jones", "jomes")) == (2, 1)
    assert (edit_distance("jones", "jnoes"), levenshtein_distance("jones", "jnoes")) == (2, 2)
    assert damerau_distance("jones", "jnoes") == 1


@cache
def short_strings() -> tuple[str, ...]:
    return tuple("".join(letters) for size in range(4) for letters in product("abc", repeat=size))


@cache
def damerau(left: str, right: str) -> int:
    return damerau_distance(left, right)


def test_exercise_3_5_9_the_edit_distance_of_exercise_3_5_8_is_a_distance_measure():
    """It is the length of a shortest way in a graph whose steps can be gone back: all axioms hold.

    Every triple of the 40 strings of at most three letters; that the distance is that of the
    shortest way is held for every pair of the 13 of at most two.
    """
    strings = short_strings()
    for x, y in product(strings, repeat=2):
        assert damerau(x, y) >= 0
        assert (damerau(x, y) == 0) == (x == y)
        assert damerau(x, y) == damerau(y, x)
        assert all(damerau(x, y) <= damerau(x, z) + damerau(z, y) for z in strings)
    for x, y in product([text for text in strings if len(text) < 3], repeat=2):
        assert damerau(x, y) == edits_by_searching(x, y, mutations=True)


CHAPTER = Record(
    fields=(
        Field("name", equivalents=(("william", "bill"),)),
        Field("address"),
        Field("phone"),
    )
)


def scored(left: dict[str, str], right: dict[str, str]) -> float:
    items, comparing = RecordItems(CHAPTER), RecordMeasure(CHAPTER)
    features = items.features([items.encode(left), items.encode(right)])
    compared = comparing.compare_pairs(features, np.array([0]), np.array([1]))
    return float(compared.values()[0] * CHAPTER.total_weight)


PERSON = {"name": "William Clinton", "address": "15 Main Street", "phone": "415-555-0123"}


def test_section_3_8_2_records_that_agree_in_all_three_fields_score_300():
    assert scored(PERSON, dict(PERSON)) == 300


@pytest.mark.parametrize("distance", range(12))
def test_section_3_8_2_the_penalty_grows_quadratically_with_the_edit_distance(distance):
    other = {**PERSON, "phone": PERSON["phone"] + "9" * distance}
    assert scored(PERSON, other) == 200 + max(0, 100 - distance**2)


def test_section_3_8_2_bill_and_william_differ_as_if_in_one_letter():
    assert edit_distance("bill", "william") == 5
    assert scored(PERSON, {**PERSON, "name": "Bill Clinton"}) == 299
    assert scored(PERSON, {**PERSON, "name": "Bill Klinton"}) == 300 - 3**2
    assert scored(PERSON, {**PERSON, "name": "Will Clinton"}) == 300 - 3**2  # not in the table


def test_section_3_8_2_one_equal_field_one_different_and_a_small_discrepancy_score_185():
    other = {"name": PERSON["name"], "address": "20 Sunset Blvd", "phone": PERSON["phone"][:-4]}
    assert scored(PERSON, other) == 100 + 0 + (100 - 4**2)  # 184: no square gives 185


def test_section_3_8_2_three_rules_find_what_agrees_in_one_field_and_nothing_else():
    rows = [
        {"name": name, "address": address, "phone": phone}
        for name, address, phone in product(("ann", "bob"), ("here", "there"), ("1", "2"))
    ]
    items, family = RecordItems(CHAPTER), RecordFamily(CHAPTER, b"secret")
    keys = family.keys(family.sign(items.features([items.encode(row) for row in rows])))
    found = [
        (int(one), int(other))
        for left, right in candidate_pairs(keys)
        for one, other in zip(left, right, strict=True)
    ]
    agreeing = [
        (one, other)
        for one, other in combinations(range(8), 2)
        if any(rows[one][name] == rows[other][name] for name in rows[one])
    ]
    assert sorted(found) == agreeing


def test_section_3_8_3_a_delay_of_x_days_means_45_minus_x_by_35():
    for delay in range(10, 46):
        fraction = fraction_of_matches(Fraction(delay), Fraction(10), Fraction(45))
        assert fraction == Fraction(45 - delay, 35)
        assert Fraction(delay) == 10 * fraction + 45 * (1 - fraction)
    assert mean_difference(range(91), [0]) == 45  # days between 0 and 90


def test_section_3_8_3_buckets_of_scores_give_the_fractions_of_the_chapter():
    scores = [300.0] * 4 + [185.0] * 4 + [115.0] * 4
    delays = [8, 12, 9, 11, 9, 11, 8, 12, 40, 50, 20, 60]
    result = calibrate(scores, delays, matched=10, random=45, edges=[100, 150, 250, 300])
    assert [bucket.difference for bucket in result.buckets] == [42.5, 10, 10]
    assert [bucket.fraction for bucket in result.buckets] == [pytest.approx(2.5 / 35), 1, 1]
    assert result.threshold_for(0.99) == 150


@cache
def years_apart(years: int) -> Fraction:
    return Fraction(
        sum(abs(one - other) for one in range(years) for other in range(years)), years**2
    )


def test_exercise_3_8_1_two_years_apart_means_13_of_32_are_the_same_publication():
    random = years_apart(10)
    assert random == Fraction(33, 10)
    assert mean_difference(range(2003, 2013)) == pytest.approx(3.3)
    assert fraction_of_matches(Fraction(2), Fraction(1, 10), random) == Fraction(13, 32)
