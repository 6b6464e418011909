"""What is taken as a fingerprint, its stored form, and the grids over it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import MAXIMUM_MINUTIAE, FingerprintItems
from tests.support import fingerprint_oracle as oracle

PLATE = Fingerprint(100, 60)
SQUARES = Fingerprint(100, 60, items="squares", measure="squares")  # 5 x 3 squares
ONE = (10.0, 20.0, 90.0)


def test_minutiae_come_back_sorted_and_without_repeats():
    items = FingerprintItems(PLATE)
    given = [(50, 20, 10), (10.5, 20.25, 350.5), (50, 20, 370), (10.5, 20.25, -9.5)]
    assert items.decode(items.encode(given)) == ((10.5, 20.25, 350.5), (50.0, 20.0, 10.0))


def test_lists_tuples_and_arrays_of_a_print_are_the_same_bytes():
    items = FingerprintItems(PLATE)
    rows = [(1, 2, 3), (4, 5, 6)]
    of_arrays = np.empty(2, object)  # as pandas reads lists of lists from Parquet
    of_arrays[:] = [np.array(row) for row in rows]
    forms: list[Any] = [rows, tuple(map(list, reversed(rows))), of_arrays]
    forms += [np.array(rows, kind) for kind in (int, np.float32, object)]
    assert len({items.encode(form) for form in forms}) == 1


def test_stored_minutiae_are_three_little_endian_words_each():
    assert FingerprintItems(PLATE).encode([(1, 2, 3)]) == bytes([16, 0, 32, 0, 192, 0])


def test_what_rounds_to_the_far_border_stays_on_the_plate():
    items = FingerprintItems(PLATE)
    assert items.decode(items.encode([(99.99, 59.99, 359.999)])) == ((99.9375, 59.9375, 0.0),)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ([], "at least one minutia"),
        (np.empty((0, 3)), "at least one minutia"),
        ([ONE, (100, 20, 0)], r"minutia 1 at \(100.0, 20.0\) lies off the plate"),
        ([(-0.1, 20, 0)], "off the plate"),
        ([(10, 60, 0)], "off the plate"),
        ([(math.nan, 2, 3)], "minutia 0 must be three finite numbers"),
        ([ONE, (1, 2, math.inf)], "minutia 1 must be three finite numbers"),
        ([(1, 2)], "three numbers"),
        ([1, 2, 3], "three numbers"),
        ([(1, 2, "3")], "three numbers"),
        ([(1, 2, True)], "three numbers"),
        ([(1, 2, 10**400)], "three numbers"),
        (["abc"], "three numbers"),
        (np.zeros((2, 4)), r"shape \(2, 4\)"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([["1", "2", "3"]]), "three numbers"),
        (np.array([["1", "2", "3"]], object), "three numbers"),
        (np.array(None), "three numbers"),
        ("a print", "sequence of minutiae"),
        ({ONE}, "sequence of minutiae"),
        (None, "sequence of minutiae"),
        (range(10**12), "at most 1,024 elements, not 1,000,000,000,000"),
        (np.ones((MAXIMUM_MINUTIAE + 1, 3)), "at most 1,024 minutiae, not 1,025"),
    ],
)
def test_bad_minutiae_are_refused_with_what_is_wrong(item: Any, words: str) -> None:
    with pytest.raises(BadItemError, match=words):
        FingerprintItems(PLATE).encode(item)


def test_what_counts_more_squares_than_any_print_has_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadItemError, match="at most 33,554,432 elements, not 1,000,000,000,000"):
        FingerprintItems(SQUARES).encode(range(10**12))


def test_squares_come_back_as_a_set():
    items = FingerprintItems(SQUARES)
    data = items.encode([14, 0, 3, np.int64(0)])
    assert data == bytes([0b00001001, 0b01000000])
    assert len(data) == items.width
    assert items.decode(data) == frozenset({0, 3, 14})
    (words,) = items.features([data]).grids
    assert oracle.bits(words) == {0, 3, 14}


def test_collections_and_arrays_of_squares_are_the_same_bytes():
    items = FingerprintItems(SQUARES)
    squares = [14, 0, 3]
    forms: list[Any] = [squares, tuple(squares), set(squares), iter(squares)]
    forms += [dict.fromkeys(squares), [np.int64(14), 0, np.uint8(3)]]
    forms += [np.array(squares, kind) for kind in ("i8", "u1", "u8", ">i2", object)]
    forms.append(np.array([14, 99, 0, 99, 3])[::2])
    assert {items.encode(form) for form in forms} == {bytes([0b00001001, 0b01000000])}


@pytest.mark.parametrize("columns", [15, 64, 100, 128])
def test_rows_of_squares_have_the_features_of_each(columns: int) -> None:
    kind = Fingerprint(
        columns, 1, items="squares", measure="squares", square=1, border=0, functions=10
    )
    items = FingerprintItems(kind)
    drawn = np.random.default_rng(columns).random((20, columns)) < 0.5
    encoded = [items.encode(np.flatnonzero(row)) for row in drawn]
    rows = np.frombuffer(b"".join(encoded), np.uint8).reshape(20, items.width)
    buffer = np.empty(rows.size + 1, np.uint8)
    buffer[1:] = rows.reshape(-1)
    for form in (
        rows,
        rows.copy(),
        np.repeat(rows, 2, axis=0)[::2],
        buffer[1:].reshape(rows.shape),
    ):
        prints = items.features_of_rows(form)
        assert prints.grids.flags.carray
        assert np.array_equal(prints.grids, items.features(encoded).grids)
        assert len(prints) == 20


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ([15], "numbered from 0 to 14; there is no square 15"),
        (np.array([3, 15, 16]), "numbered from 0 to 14; there is no square 15"),
        (np.array([-1]), "there is no square -1"),
        (np.array([2**64 - 1], np.uint64), f"there is no square {2**64 - 1}"),
        ([0, 2**70], f"there is no square {2**70}"),
        ([np.int64(1), -(2**70)], f"there is no square -{2**70}"),
        (np.array([], np.int64), "at least one occupied"),
        (np.array([1.0]), "must be an integer"),
        (np.array([True]), "must be an integer"),
        (np.array([[1, 2]]), "must be an integer"),
        ({1: 2, None: 3}, "must be an integer"),
        ([-1], "there is no square -1"),
        ([], "at least one occupied"),
        ([1.0], "must be an integer"),
        ([True], "must be an integer"),
        ("12", "collection of square numbers"),
        (7, "collection of square numbers"),
        ([ONE], "must be an integer"),
    ],
)
def test_bad_squares_are_refused_with_what_is_wrong(item: Any, words: str) -> None:
    with pytest.raises(BadItemError, match=words):
        FingerprintItems(SQUARES).encode(item)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (PLATE, b"12345"),
        (PLATE, bytes(6 * (MAXIMUM_MINUTIAE + 1))),
        (PLATE, b"\xff\xff\0\0\0\0"),
        (PLATE, b"\0\0\0\0\0\x5a"),  # a direction of 360 degrees
        (SQUARES, b"\0"),
        (SQUARES, b"\0\x80"),  # square 15
    ],
)
def test_damaged_bytes_are_corruption(kind: Fingerprint, data: bytes) -> None:
    with pytest.raises(CorruptionError):
        FingerprintItems(kind).decode(data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 0}, "width"),
        ({"height": 4_096}, "height"),
        ({"border": 10}, "border 10 must be less than half"),
        ({"square": 1, "border": 0, "width": 4_000, "height": 4_000}, "grid of 16,000,000"),
        ({"width": 20, "height": 20}, "grid of 1 squares"),
        ({"alignment": "left"}, "alignment must be one of"),
        ({"items": "squares"}, "needs measure='squares'"),
        ({"functions": True}, "functions"),
        ({"groups": 5}, "groups"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Fingerprint(**{"width": 100, "height": 60, **settings})


@pytest.mark.parametrize("sectors", [1, 4, 7])
@pytest.mark.parametrize("border", [0, 3])
def test_grids_are_those_of_the_slow_way(sectors: int, border: int) -> None:
    random = np.random.default_rng(sectors)
    kind = Fingerprint(100, 60, square=9, border=border, sectors=sectors)
    items = FingerprintItems(kind)
    prints = [oracle.random_print(random, count, kind) for count in (1, 5, 40)]
    features = items.features([items.encode(one) for one in prints])
    assert len(features) == 3
    for one, words in zip(prints, features.grids, strict=True):
        assert oracle.bits(words) == oracle.grid_of(one, kind)


def test_a_minutia_close_to_a_border_counts_for_both_squares():
    kind = Fingerprint(100, 60, square=20, border=4)
    items = FingerprintItems(kind)
    expected = {30.0: {1}, 36.5: {1, 2}, 23.5: {0, 1}, 24.0: {1}, 36.0: {1, 2}}
    for x, squares in expected.items():
        assert oracle.bits(items.features([items.encode([(x, 10, 0)])]).grids[0]) == squares


def test_centring_makes_the_grid_of_a_moved_print_the_same():
    kind = Fingerprint(100, 60, square=10, alignment="centre")
    items = FingerprintItems(kind)
    first = [(20.0, 20.0, 0.0), (40.0, 20.0, 0.0), (30.0, 35.0, 0.0)]
    moved = [(x + 13, y + 5, direction) for x, y, direction in first]
    grids = items.features([items.encode(first), items.encode(moved)]).grids
    assert np.array_equal(grids[0], grids[1])
    plain = FingerprintItems(Fingerprint(100, 60, square=10))
    grids = plain.features([plain.encode(first), plain.encode(moved)]).grids
    assert not np.array_equal(grids[0], grids[1])


def test_no_items_are_no_features():
    for kind in (PLATE, SQUARES):
        assert len(FingerprintItems(kind).features([])) == 0
