"""Rules by similarity: nothing within them is missed, and what they propose is counted."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import cos, prod, radians
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simdb
from simdb.errors import ConfigurationError, MissingExtraError
from simdb.kinds import restore
from simdb.kinds.records import Alike, Edits, Equal, Field, Near, Record, RecordFamily, Within
from simdb.kinds.records.items import Place, RecordItems
from simdb.kinds.records.points import metres_between
from simdb.kinds.records.rules import common_keys
from tests.kinds.test_record_strings import slow_distance
from tests.support.record_stores import opened, scored

FIELDS = (
    Field("name", compare="levenshtein"),
    Field("town", compare="alignment"),
    Field("size", compare="numeric"),
    Field("born", compare="date"),
    Field("home", compare="place", tolerance=100),
)


def shared_keys(rule: Any, rows: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """How many keys of a rule each two rows have in common, by their places."""
    kind = Record(FIELDS, [rule])
    items, family = RecordItems(kind), RecordFamily(kind, b"secret")
    signatures = family.sign(items.features([items.encode(row) for row in rows]))
    keys = family.keys_of_rule(signatures, 0)
    for own in keys:
        assert len(set(own[own != 0].tolist())) == np.count_nonzero(own)
    pairs = list(combinations(range(len(rows)), 2))
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    counts = common_keys(keys[left], keys[right]).tolist()
    assert (
        family.agreeing_rules(signatures[left], signatures[right])[:, 0] == np.sign(counts)
    ).all()
    return dict(zip(pairs, counts, strict=True))


@given(
    st.text("abcd", max_size=12),
    st.lists(st.tuples(st.sampled_from("idmt"), st.integers(0, 12)), min_size=1, max_size=3),
    st.sampled_from(["name", "town"]),
)
@example("aabb", [("t", 1)], "town")  # across two segments
@example("ab", [("t", 0)], "town")
def test_texts_within_so_many_edits_share_a_key(text, changes, field):
    other = text
    for change, place in changes:
        head, tail = other[:place], other[place:]
        insertion = {"i": f"x{tail}", "d": tail[1:], "m": f"x{tail[1:]}"}
        other = head + insertion.get(change, tail[1:2] + tail[:1] + tail[2:])
    rows = [{field: text}, {field: other}]
    distance = slow_distance(text, other, mutations=True, transpositions=field == "town")
    for edits in (1, 2, 3):
        (count,) = shared_keys(Edits(field, edits), rows).values()
        if distance <= edits and text and other:
            assert count
        if not (text and other):
            assert not count


@given(
    st.lists(st.decimals(-9, 9, places=1).map(float), min_size=2, max_size=6),
    st.sampled_from([0.1, 0.7, 3, 2.5]),
)
def test_numbers_and_days_within_a_window_share_a_key(numbers, window):
    rows = [{"size": number, "born": f"2001-01-{10 + int(number):02}"} for number in numbers]
    for field, values in (("size", numbers), ("born", [int(number) for number in numbers])):
        for (one, other), count in shared_keys(Within(field, window), rows).items():
            apart = round(abs(values[one] - values[other]), 6)
            if apart <= window:
                assert count
            if apart >= 2 * window:
                assert not count


@given(
    st.sampled_from([-90, -89.9, -45, 0, 47, 88, 89.99, 90]),
    st.sampled_from([-180, -179.99, -1, 0, 90, 179.99, 180]),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.sampled_from([0.5, 30, 1_000]),
)
@example(47, -180, 0.0, -0.9, 30)  # across the date line
@example(89.99, 90, 0.0, 1.0, 30)
def test_places_within_a_radius_share_a_key(north, east, up, along, kilometres):
    degrees = kilometres / 111.2
    other_north = max(-90.0, min(90.0, north + up * degrees))
    narrowing = max(1e-3, cos(radians(max(abs(north), abs(other_north)))))
    other_east = (east + along * degrees / narrowing + 180) % 360 - 180
    rows = [{"home": f"{n:.9f}, {e:.9f}"} for n, e in ((north, east), (other_north, other_east))]
    (count,) = shared_keys(Near("home", kilometres), rows).values()
    places = [Place(*map(float, row["home"].split(", "))) for row in rows]
    if metres_between(places[:1], places[1:])[0] <= 1_000 * kilometres:
        assert count


def test_words_and_grams_agree_as_often_as_they_are_planned_to():
    generator = np.random.default_rng(3)
    words = [f"w{number}" for number in range(4_000)]
    rows: list[dict[str, Any]] = []
    for _ in range(300):  # two records with 6 words each, 4 of them the same: J = 1/2
        chosen = generator.choice(words, 8, replace=False).tolist()
        rows += [{"name": " ".join(chosen[:6])}, {"name": chosen[2], "town": " ".join(chosen[3:])}]
    rule = Alike(["name", "town"])
    kind = Record(FIELDS, [rule])
    items, family = RecordItems(kind), RecordFamily(kind, b"secret")
    keys = family.keys(family.sign(items.features([items.encode(row) for row in rows])))
    found = np.count_nonzero(common_keys(keys[::2], keys[1::2]))
    assert rule.plan.expected_recall(Fraction(1, 2)) * 300 == pytest.approx(found, abs=15)
    assert shared_keys(Alike("name", 0.6, 3), [{"name": "abcd efgh"}, {"name": "abcd efg"}])[0, 1]


@given(
    st.lists(st.text("abcdefg", max_size=8), min_size=2, max_size=6),
    st.sampled_from([0.2, 0.5, 0.8, 1]),
)
def test_sets_as_similar_as_asked_for_share_one_of_their_rarest_words(texts, similarity):
    rows = [{"name": " ".join(text)} for text in texts]
    kind = Record(FIELDS, [Alike("name", similarity, recall=1)])
    counted = kind.counted(rows)
    often = {letter: sum(letter in text for text in texts) for letter in "abcdefg"}
    (part,) = counted.rules[0]
    assert isinstance(part, Alike)
    assert dict(part.frequencies) == {word: count for word, count in often.items() if count > 1}
    assert restore(json.loads(json.dumps(counted.describe()))) == counted
    for rule in (part, kind.rules[0][0]):
        for (one, other), count in shared_keys(rule, rows).items():
            both = {*texts[one]} | {*texts[other]}
            common = {*texts[one]} & {*texts[other]}
            if both and Fraction(len(common), len(both)) >= Fraction(str(similarity)):
                assert count
    if similarity == 1:  # the rarest word of each
        assert set(shared_keys(part, [{"name": "a b"}, {"name": "a b"}]).values()) == {1}


def test_a_rule_of_several_parts_is_all_of_them_and_rules_are_alternatives(tmp_path):
    rows = [
        {"name": "smithson", "size": 4},
        {"name": "smitson", "size": 5},
        {"name": "smithson", "size": 40},
        {"name": "petersen", "size": 5},
        {"name": "petersen", "size": None, "town": "ulm"},
        {"town": "ulm"},
    ]
    kind = Record(FIELDS, [("town",), (Edits("name"), Within("size", 2)), Equal("name")])
    with opened(tmp_path / "s", rows, rows, [], kind=kind, threshold="0.01") as (one, other, new):
        assert scored(one.pairs()).keys() == {(0, 1), (0, 2), (3, 4), (4, 5)}
        linked = {(min(pair), max(pair)) for pair in scored(one.join(other)) if len({*pair}) > 1}
        assert linked == {(0, 1), (0, 2), (3, 4), (4, 5)}
        by_columns = one.score(one.join(other), other).to_arrow().to_pydict()
        assert by_columns == one.join(other).to_arrow().to_pydict()
        with pytest.raises(simdb.KeyNotFoundError, match="9 is not stored"):
            list(one.score([(0, 9)]))
        with pytest.raises(simdb.WrongTypeError, match="two keys, left and right, not 'ab'"):
            one.score(["ab"])
        with pytest.raises(simdb.WrongTypeError, match="an iterable of two keys each, not int"):
            one.score(5)
        assert [group.keys for group in one.groups()] == [(0, 1, 2), (3, 4, 5)]
        assert [match.key for match in one.search(rows[1])] == [1, 0]
        new.dedupe(enumerate(rows), threshold="0.01")
        assert [entry.key for entry in new.items()] == [0, 3, 5]  # 5 is like 4, which is dropped
        described = one.stats()["rules"]
        assert [rule["rule"] for rule in described] == [
            "town", "name within 1 edit and size within 2", "name",
        ]  # fmt: skip
        assert [rule["pairs"] for rule in described] == [1, 1, 2]
        assert not one.check(deep=True).problems


def test_settings_of_rules_are_restored_from_json():
    named = Field("name", levels=[(1, 100), ("8/9", 50)])
    rules = [Within("size", 2.5), (Equal("town", "soundex"), Alike("name", 1, 3, recall=1))]
    kind = Record([named, *FIELDS[1:]], [*rules, Near("home", 5)])
    plain = json.dumps(kind.describe())
    assert restore(json.loads(plain)) == kind
    assert json.dumps(restore(json.loads(plain)).describe()) == plain  # else all is read anew
    plain = json.loads('[{"by": "edits", "field": "name", "edits": 2}, "town"]')
    assert Record(FIELDS, plain).rules == ((Edits("name", 2),), (Equal("town"),))


def test_a_pair_beyond_what_the_rules_cannot_miss_is_certain():
    kind = Record(FIELDS, [Within("size", 5), Edits("name", 2), (Equal("town"), Alike("name"))])
    assert kind.certain_above() == 1 - Fraction(25 + 9, 500)  # 5 and 3 of a tolerance of 10
    assert float(kind.changed(candidates=[Alike("name")]).certain_above()) == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Within("name", 3), "Within\\('name'\\) is for numbers and dates"),
        (Near("name", 3), "Near\\('name'\\) is for places"),
        (Edits("size"), "Edits\\('size'\\) is for texts"),
        (Alike(["name", "born"]), "Alike\\('born'\\) is for texts"),
        (Within("age", 3), "names the field 'age', but the fields are name"),
        ((Alike("name"), Edits("town", 3), Edits("name")), "up to 3,105 keys of a record"),
        ({"by": "magic"}, "by 'magic', which is none of within, edits, alike, near"),
        ({"field": "born", "within": 2}, r'by \'within\' is written as {"by": "within"'),
    ],
)
def test_rules_that_do_not_fit_their_fields_are_refused(rule, message):
    with pytest.raises(ConfigurationError, match=message):
        Record(FIELDS, [rule])


def test_what_names_sound_like_needs_an_extra(monkeypatch):
    rows = [{"name": name} for name in ("Müller x1", "Mueller 7", "Miller")]
    fake = SimpleNamespace(soundex=lambda word: word[:1] + str(len(word)))
    monkeypatch.setitem(sys.modules, "jellyfish", fake)
    counts = shared_keys(Equal("name", "soundex"), rows)
    assert counts == {(0, 1): 0, (0, 2): 0, (1, 2): 0}
    monkeypatch.setitem(sys.modules, "jellyfish", None)
    with pytest.raises(MissingExtraError, match="phonetics extra"):
        shared_keys(Equal("name", "soundex"), rows)


@pytest.mark.parametrize(
    ("code", "names"),
    [("soundex", ["Robert", "Rupert", "Rubin"]), ("metaphone", ["Knight", "Night", "Day"])],
)
def test_names_that_sound_alike_share_a_key(code, names):
    counts = shared_keys(Equal("name", code), [{"name": name} for name in names])
    assert counts == {(0, 1): 1, (0, 2): 0, (1, 2): 0}


def test_what_rules_propose_is_counted_planned_audited_and_refused_beyond_a_budget(tmp_path):
    kind = Record(FIELDS, [Edits("name", 2), "town"], large_bucket=3, rule_budget=5)
    rows = [{"name": f"smithson{letter}", "town": letter} for letter in "abcd"]
    rows += [{"name": "anderson", "town": "a"}, {"town": "b"}]
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", kind, threshold=0.01)
        people.add_many(enumerate(rows))
        edits, town = people.stats()["rules"]
        assert (edits["records"], edits["largest"], edits["pairs"]) == (5, 4, 6)
        assert town["pairs"] == 2
        large, many = people.stats()["warnings"]
        assert large.startswith("4 records share a key of name within 2 edits: that rule compares")
        refusal = "name within 2 edits proposes 6 pairs, more than the rule_budget of 5"
        assert refusal in many
        fresh = database.create_collection("fresh", kind, threshold=0.01)
        for question in (
            people.pairs, people.groups, partial(people.groups, method="star"), people.learn,
            partial(people.explain, "pairs", run=True), partial(people.explain, "groups", run=True),
            partial(people.pairs, since=0),
            partial(people.calibrate, "name"), partial(fresh.dedupe, enumerate(rows), threshold=1),
        ):  # fmt: skip
            with pytest.raises(ConfigurationError, match=refusal):
                question()
        # Of another seed: each of two names is near to four, the third is equal to one.
        others = database.collection("others", kind, threshold=0.01, seed=5)
        others.add_many(enumerate([*rows[:1], {"name": "smithsonx", "town": "z"}, *rows[4:]]))
        with pytest.raises(ConfigurationError, match="name within 2 edits proposes 9 pairs, more"):
            others.join(people)
        with pytest.raises(ConfigurationError, match="name within 2 edits proposes 9 pairs, more"):
            people.join(others)
        for collection in (people, others):
            collection.rebuild(kind.changed(rule_budget=9))
        assert len(list(others.join(people))) == 9 + 4
        people.rebuild(kind.changed(rule_budget=6))
        assert len(list(people.pairs())) == 8
        by_edits, by_town = people.self_audit(sample=6).rules  # each pair from both its sides
        assert by_edits == simdb.RuleAudit("name within 2 edits", 12, 12, 12)
        assert by_town == simdb.RuleAudit("town", 4, 4, 4)
    planned = simdb.plan_rules(rows, kind, items=60)
    assert [(rule.rule, rule.pairs) for rule in planned] == [
        ("name within 2 edits", 6),
        ("town", 2),
    ]
    assert planned[0].expected_pairs == 6 * (60 * 59) / (6 * 5)
    with pytest.raises(ConfigurationError, match="only records have rules"):
        simdb.plan_rules(["a"], simdb.Text())


ROWS = st.lists(
    st.fixed_dictionaries({}, optional={"town": st.sampled_from("abc"), "size": st.integers(0, 9)}),
    max_size=8,
)


@given(ROWS, ROWS)
def test_what_rules_propose_between_two_tables_is_what_pairs_one_by_one_say(left, right):
    def keys_of(row: dict[str, Any]) -> list[set[Any]]:
        """The keys of a row by each rule: its town, its cell and the next one, and both."""
        towns = {row["town"]} if "town" in row else set()
        cells = {row["size"] // 2, row["size"] // 2 + 1} if "size" in row else set()
        return [towns, cells, set(product(towns, cells))]

    near = Within("size", 2)
    kind = Record(FIELDS, ["town", near, ["town", near]])
    planned = simdb.plan_rules(left, kind, items=50, other=iter(right), other_items=30)
    for number, rule in enumerate(planned):
        ones, others = ([keys_of(row)[number] for row in side] for side in (left, right))
        assert rule.records == sum(map(bool, [*ones, *others]))
        assert rule.pairs == sum(bool(one & other) for one, other in product(ones, others))
        many = 50 * 30 / max(1, len(left) * len(right))
        assert rule.expected_pairs == pytest.approx(many * rule.pairs)
        buckets = [
            [sum(key in own for own in side) for side in (ones, others)]
            for key in set().union(*ones)
        ]
        most, records = max([(prod(sizes), sum(sizes)) for sizes in buckets], default=(0, 0))
        assert (rule.largest_pairs, rule.largest) == (most, records if most else 0)
    with pytest.raises(ConfigurationError, match="other_items needs other"):
        simdb.plan_rules(left, kind, other_items=3)


def test_the_similarity_of_alike_is_exactly_the_number_that_is_written():
    """As all bounds: 2/3, which no float is, finds sets that are as similar as that."""
    assert Alike("name", "0.4", recall=1) == Alike("name", 0.4, recall=1)
    assert Alike("name", Fraction(2, 5)) == Alike("name", 0.4)  # type: ignore[arg-type]
    rule = Alike("name", "2/3", recall=1)
    assert (rule.similarity, str(rule)) == ("2/3", "name alike in words from 2/3")
    kind = Record(FIELDS, [rule])
    assert restore(json.loads(json.dumps(kind.describe()))) == kind
    assert shared_keys(rule, [{"name": "a b c d e"}, {"name": "a b c d f"}])[0, 1]
    assert Alike("name", "2/3").plan.threshold == Fraction(2, 3)
    for wrong in ("0", "4/3", "x", 0, 1.5, True):
        with pytest.raises(ConfigurationError, match=r"Alike\.similarity"):
            Alike("name", wrong)
