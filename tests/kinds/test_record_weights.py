"""Weights of stored records, learnt without labels and from them, and why two records match."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import ConfigurationError, WrongTypeError
from simdb.upkeep import calibrate, weigh
from tests.support.commands import done, failed, run
from tests.support.record_stores import opened

KIND = simdb.Record(
    fields=[
        simdb.Field("name"),
        simdb.Field("street", compare="levenshtein", tolerance=4, missing="ignore"),
        simdb.Field("town", compare="exact"),
        simdb.Field("note", weight=0),
    ],
    candidates=["name", "street", ("town", simdb.Equal("name", "first:2"))],
)
MATCHES = 120
COUNT = 160  # products
SAMPLE = 20_000
SEEDED = random.Random(4)


def word(length: int) -> str:
    return "".join(SEEDED.choices("abcdefghij", k=length))


def two_tables() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tables whose rows at one place match; of the second some values are wrong, or not there."""
    left, right = [], []
    for number in range(MATCHES):
        town = "big" if number % 2 else f"town {number % 14}"
        person = {"name": word(9), "street": word(8), "town": town}
        wrong: dict[str, Any] = dict(person)
        if SEEDED.random() < 0.2:
            wrong["name"] = wrong["name"][:-1] + "x"
        if SEEDED.random() < 0.3:
            wrong["street"] = SEEDED.choice(["y" + wrong["street"][1:], word(8), None])
        if SEEDED.random() < 0.1:
            wrong["town"] = "elsewhere"
        left.append(person)
        right.append(wrong)
    return left, right


LEFT, RIGHT = two_tables()


@pytest.fixture
def tables(tmp_path):
    with opened(tmp_path / "s", LEFT, RIGHT, kind=KIND, threshold="0.01") as found:
        yield found


def test_without_labels_the_matches_are_found(tables):
    left, right = tables
    weights = left.learn(other=right, seed=1, sample=SAMPLE)
    assert weights.warnings == ()
    assert weights.matches == pytest.approx(MATCHES, rel=0.15)
    assert [field.name for field in weights.fields] == ["name", "street", "town"]
    by_name = {field.name: field for field in weights.fields}
    assert by_name["town"].levels[0].m == pytest.approx(0.9, abs=0.08)
    assert by_name["town"].levels[0].u == pytest.approx(0.25, abs=0.03)
    pairs = list(left.join(right))
    probable = left.match_probabilities(pairs, weights, other=right)
    found = {
        (pair.left, pair.right) for pair, own in zip(pairs, probable, strict=True) if own > 0.5
    }
    reached = {(number, number) for number in range(MATCHES)} & {
        (pair.left, pair.right) for pair in pairs
    }
    assert len(found & reached) >= 0.95 * len(reached)
    assert len(found - reached) <= 3


def test_the_random_pairs_to_learn_from_may_be_more_than_there_are(tables, monkeypatch):
    monkeypatch.setattr(calibrate, "DRAWN_AT_ONCE", 1_000)
    left, right = tables
    all_there_are = left.learn(other=right, seed=1, sample=MATCHES**2)
    assert left.learn(other=right, seed=1, sample=2**70) == all_there_are


def test_records_that_are_in_a_table_many_times_are_found_without_labels(tmp_path):
    rows = []
    for number in range(300):
        person = {"name": word(9), "street": word(8), "town": f"town {SEEDED.randrange(9)}"}
        copies = 5 if number < 40 else 1
        rows += [{**person, "name": person["name"][: 9 - copy % 2]} for copy in range(copies)]
    kind = KIND.changed(candidates=["name", "street"])
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.01") as (people,):
        weights = people.learn(seed=1, sample=SAMPLE)
        assert weights.matches == pytest.approx(40 * 10, rel=0.02)
        people.rebuild(weights.kind, threshold=weights.threshold())
        found = list(people.pairs())
        assert len(found) == 40 * 10
        assert all(pair.left // 5 == pair.right // 5 < 40 for pair in found)


def test_points_are_the_evidence_in_hundredths_of_bits(tables):
    left, right = tables
    weights = left.learn(other=right, seed=1, sample=SAMPLE)
    lowest = sum(field.levels[-1].bits for field in weights.fields)
    most = Fraction(weights.kind.total_weight)
    for collection in tables:
        collection.rebuild(weights.kind, threshold="0.01")
    pairs = list(left.join(right))
    assert len(pairs) > 130
    for pair in pairs[::5]:
        told = left.explain_pair(pair.left, pair.right, weights, other=right)
        assert pair.similarity * most / 100 == pytest.approx(told.bits - lowest, abs=0.03)
        assert weights.probability_at(pair.similarity) == pytest.approx(told.probability, abs=0.01)
    at_half = float(weights.threshold(0.5))
    assert at_half * float(most) / 100 + lowest == pytest.approx(-weights.prior, abs=0.03)
    kept = {(pair.left, pair.right) for pair in left.join(right, at_half)}
    assert 0.9 * MATCHES < len(kept) < 1.1 * MATCHES
    for probability in (0.1, 0.5, 0.9, weights.probability_at(1)):
        assert weights.probability_at(float(weights.threshold(probability))) >= probability - 1e-9
    beyond = (1 + weights.probability_at(1)) / 2
    with pytest.raises(ConfigurationError, match="the most that one can have is"):
        weights.threshold(beyond)
    assert math.isnan(weights.probability(math.nan))
    sure = replace(weights, prior=35 - sum(field.levels[0].bits for field in weights.fields))
    with pytest.raises(ConfigurationError) as raised:
        sure.threshold(1 - 1e-15)
    asked, reached = map(float, re.findall(r"0\.\d+", str(raised.value)))
    assert sure.probability_at(1) == pytest.approx(reached, abs=1e-14)
    assert reached < asked < 1
    for wrong in ("0.5", 0, 1, 1.5, None):
        with pytest.raises(ConfigurationError, match="the probability must be"):
            weights.threshold(wrong)


def some_products(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tables of the same products, each described by some of its words and some of its family's.

    What one family has in common no evidence of independent fields foresees.
    """
    drawn = random.Random(5)

    def word(length: int) -> str:
        return "".join(drawn.choices("abcdefghij", k=length))

    families = [[word(5) for _ in range(6)] for _ in range(count // 8)]
    left: list[dict[str, Any]] = []
    right: list[dict[str, Any]] = []
    for _ in range(count):
        family = drawn.choice(families)
        own = [*drawn.sample(family, 3), word(4), word(4)]
        for side in (left, right):
            described = [one for one in own if drawn.random() < 0.8] or own
            loose = [*drawn.sample(family, 2), *drawn.sample(own, 2)]
            maker = family[0] if drawn.random() < 0.9 else "unknown"
            side.append({"title": " ".join(described), "note": " ".join(loose), "maker": maker})
    return left, right


def test_of_pairs_chosen_one_to_one_the_probable_ones_are_about_the_best_choice(tmp_path):
    kind = simdb.Record(
        [
            *(simdb.Field(name, compare="overlap") for name in ("title", "note")),
            simdb.Field("maker", compare="exact"),
        ],
        [simdb.Alike("title", 0.2, recall=1), simdb.Alike("note", 0.5, recall=1)],
    )
    sides = some_products(COUNT)
    with opened(tmp_path / "s", *sides, kind=kind, threshold="0.01") as found:
        left, right = found
        apart = left.learn(other=right, seed=1, sample=SAMPLE)
        chosen = left.learn(other=right, seed=1, sample=SAMPLE, one_to_one=True)
        labels = [(number, (number + shift) % COUNT, not shift) for number in range(60)
                  for shift in (0, 1)]  # fmt: skip
        labelled = left.learn(labels, other=right, seed=1, sample=SAMPLE, one_to_one=True)
        for weights in (chosen, labelled):
            for collection in found:
                collection.rebuild(weights.kind, threshold="0.01")
            quality = {
                one: f1(left.join(right, one, one_to_one=True))
                for one in (weights.threshold(), *(Fraction(step, 10) for step in range(1, 10)))
            }
            assert quality[weights.threshold()] > 0.85 * max(quality.values()), quality
        assert apart.prior != chosen.prior


def f1(pairs: Any) -> float:
    told: list[bool] = [pair.left == pair.right for pair in pairs]
    return 2 * sum(told) / (len(told) + COUNT)


def test_what_was_counted_before_is_not_counted_again(tables):
    left, _ = tables
    others = [(1_000 + number, row) for number, row in enumerate(RIGHT)]
    left.add_many(others[:60])
    before = left.learn(seed=1, sample=SAMPLE)
    left.add_many(others[60:])
    whole = left.learn(seed=1, sample=SAMPLE)
    after = left.learn(seed=1, sample=SAMPLE, earlier=before)
    assert after == whole
    for one, other in zip(after.counted[:4], whole.counted[:4], strict=True):
        assert np.array_equal(one, other)
    assert before.pairs < after.pairs
    left.delete(1_000)
    assert left.learn(seed=1, sample=SAMPLE, earlier=after) == left.learn(seed=1, sample=SAMPLE)


def test_what_learn_did_not_return_are_no_weights(tables):
    left, _ = tables
    wrong: Any = "x"
    with pytest.raises(WrongTypeError, match=r"earlier must come from learn\(\), not str"):
        left.learn(earlier=wrong)
    told = r"weights must come from learn\(\), not str"
    with pytest.raises(WrongTypeError, match=told):
        left.explain_pair(0, 1, wrong)
    with pytest.raises(WrongTypeError, match=told):
        left.match_probabilities([], wrong)


def test_what_was_counted_of_other_collections_counts_for_nothing(tables, tmp_path):
    left, right = tables
    asked: dict[str, Any] = {"seed": 1, "sample": SAMPLE}
    left.add_many((1_000 + number, row) for number, row in enumerate(RIGHT))
    right.add_many((1_000 + number, row) for number, row in enumerate(LEFT[::2]))
    wholes = [one.learn(**asked) for one in tables]
    of_two = left.learn(other=right, **asked)
    for one, whole, foreign in zip(tables, wholes, wholes[::-1], strict=True):
        for earlier in (foreign, of_two):
            assert one.learn(**asked, earlier=earlier) == whole


def test_what_was_counted_of_a_later_state_counts_for_nothing(tmp_path):
    asked: dict[str, Any] = {"seed": 1, "sample": SAMPLE}
    store = tmp_path / "s.simdb"
    with simdb.open(store) as database:
        people = database.create_collection("people", KIND, threshold="0.01")
        people.add_many((2 * number, row) for number, row in enumerate(LEFT))
        people.add_many((2 * number + 1, row) for number, row in enumerate(RIGHT[:60]))
        database.backup(tmp_path / "kept.simdb")
        people.add_many((2 * number + 1, row) for number, row in enumerate(RIGHT) if number >= 60)
        later = people.learn(**asked)
    with simdb.open(tmp_path / "kept.simdb") as database:
        people = database["people"]
        assert people.learn(**asked, earlier=later) == people.learn(**asked) != later


def test_what_was_counted_with_less_memory_is_counted_anew(tables, monkeypatch):
    """With room for all of them, or for more of them, one in so many is not what a call takes."""
    asked: dict[str, Any] = {"seed": 1, "sample": SAMPLE}
    left, _ = tables
    left.add_many((1_000 + number, row) for number, row in enumerate(RIGHT))
    whole = left.learn(**asked)
    monkeypatch.setattr(weigh, "BYTES_A_CANDIDATE", 2**40)
    few = {}
    for part in (3, 9):
        monkeypatch.setattr(weigh, "LEAST_PAIRS", whole.pairs // part)
        few[part] = left.learn(**asked)
    assert left.learn(**asked, earlier=few[3]) == few[9]
    monkeypatch.setattr(weigh, "LEAST_PAIRS", whole.pairs // 3)
    assert left.learn(**asked, earlier=few[9]) == few[3] != few[9]
    monkeypatch.undo()
    assert left.learn(**asked, earlier=few[9]) == whole


def test_what_was_counted_before_a_restore_counts_for_nothing(tmp_path):
    asked: dict[str, Any] = {"seed": 1, "sample": SAMPLE}
    store, kept = tmp_path / "s.simdb", tmp_path / "kept.simdb"
    others = [(2 * number + 1, row) for number, row in enumerate(RIGHT)]
    with simdb.open(store) as database:
        people = database.create_collection("people", KIND, threshold="0.01")
        people.add_many((2 * number, row) for number, row in enumerate(LEFT))
        database.backup(kept)
        people.add_many(others[:60])
        before = people.learn(**asked)
    simdb.restore(kept, store)
    with simdb.open(store) as database:
        people = database["people"]
        people.add_many(others[60:])  # under the numbers of those before
        assert people.learn(**asked, earlier=before) == people.learn(**asked)


def test_of_more_candidates_than_have_room_some_are_learnt_from(tables, monkeypatch):
    left, right = tables
    whole = left.learn(other=right, seed=1, sample=SAMPLE)
    monkeypatch.setattr(weigh, "LEAST_PAIRS", whole.pairs // 3)
    monkeypatch.setattr(weigh, "BYTES_A_CANDIDATE", 1 << 40)
    found = left.learn(other=right, seed=1, sample=SAMPLE)
    assert "learnt from one candidate in 4: there is no room" in found.warnings[0]
    assert found.pairs == pytest.approx(whole.pairs, rel=0.3)
    assert found.matches == pytest.approx(MATCHES, rel=0.4)
    for one, other in zip(found.fields, whole.fields, strict=True):
        assert one.levels[0].bits == pytest.approx(other.levels[0].bits, abs=4)


def test_without_room_for_a_choice_the_evidence_is_that_of_pairs_by_themselves(
    tmp_path, monkeypatch
):
    kind = KIND.changed(candidates=["street", "town"])
    with opened(tmp_path / "s", LEFT, RIGHT, kind=kind, threshold="0.01") as (left, right):
        asked: dict[str, Any] = {"other": right, "seed": 1, "sample": SAMPLE, "one_to_one": True}
        chosen = left.learn(**asked)
        monkeypatch.setattr(weigh, "BYTES_A_CHOICE", 1 << 40)
        alone = left.learn(**asked)
    assert (chosen.warnings, len(alone.warnings)) == ((), 1)
    assert "of pairs by themselves, not of pairs chosen one to one" in alone.warnings[0]
    assert alone.kind != chosen.kind
    assert alone.prior != chosen.prior


def test_why_two_records_match_is_told_field_by_field(tables):
    left, right = tables
    weights = left.learn(other=right, seed=1, sample=SAMPLE)
    lost = next(number for number, row in enumerate(RIGHT) if row["street"] is None)
    told = left.explain_pair(lost, lost, weights, other=right)
    name, street, town = told.fields
    assert (street.left, street.right) == (LEFT[lost]["street"], None)
    assert (street.level, street.bits) == (None, 0)
    assert told.bits == pytest.approx(name.bits + town.bits)
    assert told.probability == pytest.approx(weights.probability(told.bits))
    assert [told.probability] == pytest.approx(
        left.match_probabilities([(lost, lost)], weights, other=right)
    )
    assert "street" in str(told)
    assert "missing" in str(told)
    # Half of all live in one town: that says less than another one.
    big, small = (
        next(n for n in range(side, MATCHES, 2) if RIGHT[n]["town"] == LEFT[n]["town"])
        for side in (1, 0)
    )
    by_name = {field.name: field for field in weights.fields}
    assert by_name["name"].frequent == {}  # each name is of one person, so none is
    assert {"big"} <= by_name["town"].frequent.keys()
    frequent, rare = (
        left.explain_pair(number, number, weights, other=right).fields[2] for number in (big, small)
    )
    assert frequent.adjustment < 0 == rare.adjustment
    assert frequent.bits == pytest.approx(rare.bits + frequent.adjustment)


def test_a_value_that_the_other_table_writes_in_another_way_is_not_frequent(tmp_path):
    """Half of all live in one town; where both tables write it alike, that they do says much."""
    right = [
        {**row, "town": f"{row['town']} town" if number % 40 else row["town"]}
        for number, row in enumerate(RIGHT)
    ]
    with opened(tmp_path / "s", LEFT, right, kind=KIND, threshold="0.01") as (one, other):
        weights = one.learn(other=other, seed=1, sample=SAMPLE)
        town = weights.fields[2]
        assert all(bits > -0.5 for bits in town.frequent.values())
        alike = next(n for n in range(0, MATCHES, 40) if right[n]["town"] == LEFT[n]["town"])
        told = one.explain_pair(alike, alike, weights, other=other).fields[2]
        assert told.bits > town.levels[-1].bits + 1


def test_values_are_as_frequent_as_they_are_equal_by_chance():
    found = weigh._frequent({"a": 500, "b": 1}, {"a": 400, "c": 3}, is_one=False)
    assert found == {}  # all that is equal is so by one value
    found = weigh._frequent({"a": 50, "b": 2, "c": 9}, {"a": 40, "b": 2}, is_one=False)
    matching, by_chance = 40 + 2, (50 * 40 - 40) + (2 * 2 - 2)
    assert found == {"a": pytest.approx(np.log2(40 / (50 * 40 - 40) / (matching / by_chance)))}
    there = {"a": 50, "b": 2, "c": 1, "d": 1}
    of_one = weigh._frequent(there, there, is_one=True)
    assert of_one == {"a": pytest.approx(np.log2(49 / (50 * 49) / (50 / (50 * 49 + 2))))}
    alike = {"a": 3, "b": 3, "c": 1, "d": 1}
    assert weigh._frequent(alike, alike, is_one=True) == {}


def test_labels_teach_the_same_signs_and_must_be_of_stored_keys(tables, tmp_path):
    left, right = tables
    labels = [(number, number, True) for number in range(60)]
    labels += [(number, number + 1, False) for number in range(60)]
    weights = left.learn(labels, other=right)
    for field in weights.fields:
        assert field.levels[0].bits > 0 > field.levels[-1].bits
        assert field.levels[0].m is None
    pairs = [(number, number) for number in range(60, MATCHES)]
    probable = left.match_probabilities(pairs, weights, other=right)
    assert sum(own > 0.5 for own in probable) > 50
    with pytest.raises(simdb.KeyNotFoundError, match="'nobody' is not stored"):
        left.learn([("nobody", 1, True)], other=right)
    with pytest.raises(ConfigurationError, match="labels must include pairs"):
        left.learn(labels[:9], other=right)


def test_a_field_that_is_missing_everywhere_says_nothing_and_is_told(tmp_path):
    kind = KIND.changed(fields=[*KIND.fields[:3], simdb.Field("note")])
    with opened(tmp_path / "s", LEFT, RIGHT, kind=kind, threshold="0.01") as (left, right):
        weights = left.learn(other=right, sample=SAMPLE)
        assert weights.warnings == ("the field 'note' is missing everywhere: it says nothing",)
        assert weights.kind.fields[3].weight == 0


def turned_towns() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tables of which the second has the words of some frequent towns in another order."""
    seeded = random.Random(1)
    left, right = [], []
    for number in range(60):
        words = ["new", "york"] if number % 2 else ["town", str(number % 6)]
        name, street, other = ("".join(seeded.choices("abcdefghij", k=8)) for _ in range(3))
        left.append({"name": name, "street": street, "town": " ".join(words)})
        right.append(dict(left[-1]))
        if number % 4 < 2:
            right[-1]["street" if number % 4 else "name"] = other
        if number % 7 == 0:
            right[-1]["town"] = " ".join(words[::-1])
    return left, right


TURNED = simdb.Record(
    [
        *(simdb.Field(name, compare="levenshtein", tolerance=4) for name in ("name", "street")),
        simdb.Field("town", compare="words"),
        simdb.Field("fax"),
    ],
    candidates=["name", "street"],
)


def test_only_equal_values_are_frequent_whichever_record_comes_first(tmp_path):
    left, right = turned_towns()
    for store, rows, pairs in (
        ("one", [left + right], [(7, 67), (67, 7), (3, 63)]),
        ("two", [left, right], [(7, 7), (35, 35), (3, 3)]),
        ("turned", [right, left], [(7, 7), (35, 35), (3, 3)]),
    ):
        with opened(tmp_path / store, *rows, kind=TURNED, threshold="0.1") as tables:
            other = tables[1] if len(tables) > 1 else None
            weights = tables[0].learn(other=other)
            told = [tables[0].explain_pair(*pair, weights, other=other) for pair in pairs]
            towns = [one.fields[2] for one in told]
            assert [town.level for town in towns] == [1, 1, 1]
            assert [town.adjustment for town in towns[:2]] == [0, 0]
            assert towns[2].adjustment < 0
            assert told[0].bits == told[1].bits


def test_what_was_learnt_holds_once_it_is_the_settings(tmp_path):
    """Though a field that says nothing is not scored any more."""
    left, right = turned_towns()
    with opened(tmp_path / "s", left + right, kind=TURNED, threshold="0.1") as (table,):
        weights = table.learn()
        assert weights.kind.fields[3].weight == 0
        pairs = [(7, 67), (67, 7), (3, 63), (3, 4)]
        before = table.match_probabilities(pairs, weights)
        table.rebuild(weights.kind, threshold="0.1")
        assert table.match_probabilities(pairs, weights) == before
        told = table.explain_pair(7, 67, weights)
        assert [one.name for one in told.fields] == ["name", "street", "town"]
        fields = [simdb.Field("name", weight=0), *weights.kind.fields[1:]]
        table.rebuild(weights.kind.changed(fields=fields), threshold="0.1")
        with pytest.raises(ConfigurationError, match="the weights belong to other fields"):
            table.explain_pair(7, 67, weights)


def persons(seed: int) -> tuple[list[dict[str, Any]], list[tuple[int, int, bool]]]:
    """A table of pairs that lack some values, and what it says of a pair that it has a town.

    Of even seeds a match, whether or not the towns are equal; of odd ones none.
    """
    seeded = random.Random(seed)
    rows: list[dict[str, Any]] = []
    labels = []
    for number in range(60):
        name, street = ("".join(seeded.choices("abcdefghij", k=8)) for _ in range(2))
        town = seeded.choice("abc")
        other = seeded.choice([None, town, "d"])
        rows += [
            {"name": name, "street": street, "town": town},
            {"name": name, "street": seeded.choice([None, street, name]), "town": other},
        ]
        labels.append((2 * number, 2 * number + 1, (other is None) == bool(seed % 2)))
    return rows, labels


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_labelled", [True, False])
def test_probabilities_and_thresholds_are_those_of_the_settings_that_were_learnt(
    seed, is_labelled, tmp_path
):
    """Where a field is evidence against a match whatever its values are, or for one, as well."""
    rows, labels = persons(seed)
    kind = TURNED.changed(fields=[*TURNED.fields[:2], simdb.Field("town", compare="exact")])
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.01") as (table,):
        weights = table.learn(labels if is_labelled else None, seed=1, sample=SAMPLE)
        town = [level.bits for level in weights.fields[2].levels]
        if is_labelled:
            assert max(town) < 0 if seed % 2 else min(town) > 0
        pairs = [(pair.left, pair.right) for pair in table.pairs()]
        before = table.match_probabilities(pairs, weights)
        table.rebuild(weights.kind, threshold="0.01")
        assert table.match_probabilities(pairs, weights) == pytest.approx(before)
        scores = [pair.value for pair in table.score(pairs)]
        assert [weights.probability_at(score) for score in scores] == pytest.approx(
            before, abs=0.005
        )
        for probability in (0.2, 0.5, 0.9 * max(before)):
            least = weights.threshold(probability)
            for own, score in zip(before, scores, strict=True):
                if abs(own - probability) > 0.005:
                    assert (score >= least) == (own > probability)


def test_other_kinds_have_no_weights(tmp_path):
    with simdb.open(tmp_path / "s") as database:
        sets = database.collection("sets", simdb.Set())
        with pytest.raises(ConfigurationError, match="only records have fields with weights"):
            sets.learn()


def test_the_command_learns_explains_and_writes_settings_for_a_rebuild(tmp_path):
    with opened(tmp_path / "s", LEFT, RIGHT, kind=KIND, threshold="0.01") as (left, right):
        weights = left.learn(other=right, seed=1, sample=SAMPLE)
    settings = tmp_path / "settings.json"
    told = done("learn", tmp_path / "s", "c0", "--right", "c1", "--seed", 1, "--sample", SAMPLE,
                "-o", settings, "--pair", "1", "1", "--plot", tmp_path / "why.svg",
                "--integer-keys")  # fmt: skip
    drawn = (tmp_path / "why.svg").read_bytes()
    assert all(text in drawn for text in (b"prior", LEFT[1]["name"].encode(), b"probability"))
    assert "█" in told.stdout
    assert f"of them matches; prior {weights.prior:+.2f} bits" in told.stdout
    assert "probability" in told.stdout
    assert "of others" in told.stdout
    done("rebuild", tmp_path / "s", "c0", "--settings", settings, "--threshold", "0.3")
    with simdb.open(tmp_path / "s") as database:
        assert database["c0"].kind == weights.kind
    labels = tmp_path / "labels.tsv"
    labels.write_text("".join(f"{n}\t{n + n % 2}\t{1 - n % 2}\n" for n in range(40)))
    learnt = json.loads(done("learn", tmp_path / "s", "c1", "--labels", labels, "--integer-keys",
                             "--json").stdout)  # fmt: skip
    assert learnt["pairs"] == 40
    assert learnt["matches"] == 20
    told = done("learn", tmp_path / "s", "c1", "--labels", labels, "--integer-keys")
    assert "40 labelled pairs, 20 of them matches" in told.stdout
    assert "of others" not in told.stdout  # labels say nothing of either share
    both = failed("learn", tmp_path / "s", "c1", "-o", settings, "--pair", 1, 1, "--plot", settings)
    assert "two outputs cannot both go to" in both
    labels.write_text("1\t1\tmaybe\n")
    message = failed("learn", tmp_path / "s", "c1", "--labels", labels, "--integer-keys")
    assert "a label is 1 or 0, not 'maybe'" in message


def test_settings_that_are_learnt_and_their_picture_appear_together(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path / "why.svg"))

    with opened(tmp_path / "s", LEFT[:20], RIGHT[:20], kind=KIND, threshold="0.01"):
        labels = [f"{n}\t{n}\t1\n{n}\t{n + 1}\t0\n" for n in range(19)]
        (tmp_path / "labels.tsv").write_text("".join(labels))
    monkeypatch.setattr("simdb.cli.learn.draw_waterfall", full)
    learning = run("learn", tmp_path / "s", "c0", "--right", "c1", "--integer-keys", "--labels",
                   tmp_path / "labels.tsv", "--pair", 1, 1, "-o", tmp_path / "settings.json",
                   "--plot", tmp_path / "why.svg")  # fmt: skip
    assert learning.exit_code == 3, learning.stderr
    assert f"could not be written to {tmp_path / 'why.svg'}" in learning.stderr
    assert [path.name for path in tmp_path.glob("*.*")] == ["labels.tsv"]
