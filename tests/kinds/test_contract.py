"""The contract of kinds, held by the examples that every kind gives, a user's among them."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import pytest

import simdb
from simdb import kinds
from tests.support.kind_cases import ALL, cases_of

SECRET = bytes(range(32))
GUARANTEES: tuple[Literal["exact", "probable"], ...] = ("exact", "probable")


@pytest.fixture(params=list(ALL.values()), ids=list(ALL))
def case(request):
    return request.param


@pytest.fixture
def items(case):
    return case.kind.make_items(SECRET)


@pytest.fixture
def stored(case, items):
    return items.encode_many(case.items)


def test_every_kind_gives_examples():
    for kind in kinds.OWN:
        assert kind.examples(), kind
    for case in ALL.values():
        assert len(case.examples.items) == len(case.examples.near) >= 5
        assert case.examples.invalid


def test_settings_are_known_by_their_plain_form(case):
    plain = json.loads(json.dumps(case.kind.describe()))
    assert kinds.restore(plain) == case.kind
    assert hash(kinds.restore(plain)) == hash(case.kind)


def test_equal_items_are_equal_bytes(case, items, stored):
    assert len(set(stored)) == len(case.items)
    for item, data in zip(case.items, stored, strict=True):
        assert items.encode(item) == data
        assert items.encode(items.decode(data)) == data
        assert items.width in {0, len(data)}
        assert items.decode(memoryview(data)) is not None


def test_items_have_a_form_in_json_that_is_read_back(case, items, stored):
    for data in stored:
        plain = json.loads(json.dumps(case.kind.plain_item(items.decode(data))))
        assert items.encode(case.kind.item_of_json(plain)) == data
        assert case.kind.shown_item(items.decode(data))


def test_what_is_no_item_is_refused_in_words(case, items):
    for invalid in case.examples.invalid:
        with pytest.raises(simdb.BadItemError, match=r"\w+ \w+"):
            items.encode(invalid)


def test_what_is_not_a_stored_form_is_refused(case, items, stored):
    for damaged in (stored[0][:-1], stored[0] + b"\x07", b"\xff"):
        try:
            again = items.encode(items.decode(damaged))
        except simdb.CorruptionError:
            continue
        assert again == damaged  # it is that of another item


def test_only_near_items_are_within_the_bound(case, items, stored):
    features, measure = items.features(stored), case.kind.make_measure()
    count = len(stored)
    assert len(features) == count
    left, right = np.divmod(np.arange(count * count), count)
    compared = measure.compare_pairs(features, left, right)
    within = case.parsed_bound.meets_many(compared.numerators, compared.denominators)
    near = (left - right) % (count // 2) == 0
    assert within.tolist() == near.tolist()
    values = compared.values().reshape(count, count)
    np.testing.assert_allclose(values, values.T, rtol=1e-12, atol=1e-5)
    for place, row in enumerate(values):
        alone = measure.compare_probe(items.features([stored[place]]), features)
        np.testing.assert_allclose(alone.values(), row, rtol=1e-12, atol=1e-5)


def test_equal_items_have_equal_signatures_however_they_come(case, items, stored, path):
    with simdb.open(path) as database:
        plan = database.collection("c", case.kind, **case.bound).plan
    family = case.kind.make_family(
        case.parsed_bound.fraction, bands=plan.bands, rows=plan.rows, sketch="fast", secret=SECRET
    )
    signed_by = items.features if case.kind.signs_what_it_compares else items.symbols
    together = family.sign(signed_by(stored))
    assert together.dtype == np.uint16
    assert together.shape == (len(stored), family.words)
    for place, data in enumerate(stored):
        assert np.array_equal(family.sign(signed_by([data]))[0], together[place])


def test_a_store_finds_what_is_near_and_keeps_what_is_not(case, path):
    far = len(case.examples.items)
    with simdb.open(path) as database:
        made = database.collection("c", case.kind, seed=1, recall=0.999, **case.bound)
        report = made.dedupe(enumerate(case.items))
        assert (report.added, report.duplicates_new) == (far, far)
        made.add_many((far + place, item) for place, item in enumerate(case.examples.near))
        for guarantee in GUARANTEES[case.kind.estimates :]:
            pairs = {(pair.left, pair.right) for pair in made.pairs(guarantee=guarantee)}
            assert pairs == {(place, far + place) for place in range(far)}
            assert {match.key for match in made.search(case.items[0], guarantee=guarantee)} == {
                0,
                far,
            }
        with pytest.raises(simdb.UsageError):
            made.add("bad", case.examples.invalid[0])
        assert database.check(deep=True).sound


def test_a_kind_without_examples_is_tried_with_nothing():
    class Silent(kinds.SymbolKind, frozen=True):
        pass

    assert cases_of(Silent) == {}


def test_an_array_without_a_dimension_is_no_item(case, tmp_path):
    """It has no length, by which rows are weighed before they are looked at."""
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", case.kind)
        for wrong in (np.array(5), np.array(0.5), np.array(None), np.array("a"), np.ma.masked):
            with pytest.raises(simdb.BadItemError):
                collection.add("a", wrong)
            with pytest.raises(simdb.BadItemError):
                collection.search(wrong)
        rows = [(1, case.items[0]), (2, np.array(5)), (3, case.items[1])]
        report = collection.add_many(rows, on_bad="skip")
        assert [row for row, _ in report.bad_rows] == [1]
        assert len(collection) == 2


def test_a_masked_value_of_an_array_is_none(case, items, tmp_path):
    """What lies beneath a mask is not stored; an array that masks nothing is as any other."""
    given = case.items[0]
    try:
        whole = np.array(sorted(given) if isinstance(given, frozenset) else given)
        stored = items.encode(whole)
    except simdb.BadItemError:
        return  # of no array
    assert items.encode(np.ma.masked_array(whole)) == stored
    assert items.encode(np.ma.masked_array(whole, np.zeros(whole.shape, np.bool_))) == stored
    masked = np.ma.masked_array(whole, np.arange(whole.size).reshape(whole.shape) == 2)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", case.kind)
        for wrong in (masked, list(masked) if masked.ndim > 1 else masked):
            for ask in (collection.search, lambda item: collection.add("a", item)):
                with pytest.raises(simdb.BadItemError, match="must not be masked"):
                    ask(wrong)
        assert len(collection) == 0
