"""The stored form of a set, what is refused, and the symbols of its elements."""

from __future__ import annotations

import enum
import itertools
import struct
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simdb import kinds
from simdb.errors import BadItemError, CorruptionError
from simdb.kinds.base import MAXIMUM_ITEM_BYTES
from simdb.kinds.sets import SetItems, stored_integer_sets
from simdb.kinds.text import TextItems
from tests.support import oracle

SECRET = b"secret"
ITEMS = SetItems(SECRET)

integers = st.integers(-(2**63), 2**63 - 1)
small_integers = st.integers(0, 2**9) | st.integers(2**16 - 5, 2**16 + 5) | integers
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.text(
    "ab1", max_size=3
)
sets = st.frozensets(small_integers) | st.frozensets(strings)


def taken(item: object) -> Any:
    return ITEMS.decode(ITEMS.encode(item))


def slow_symbols(elements: Any, secret: bytes = SECRET) -> list[int]:
    """The symbol of every element, in sorted order, as the docstring of the kernel defines it."""
    words = oracle.secret_words(secret, b"simdb.set", 3)
    base = oracle.polynomial_base(words[1])
    return [
        oracle.mixed(oracle.polynomial(element.encode(), base), words[2])
        if isinstance(element, str)
        else oracle.mixed(element % 2**64, words[0])
        for element in sorted(elements)
    ]


def symbols_of(*items: bytes | memoryview) -> tuple[list[int], list[int]]:
    with np.errstate(over="ignore"):
        symbols = ITEMS.symbols(items)
    assert symbols.values.dtype == np.uint64
    assert symbols.offsets.dtype == np.int64
    return symbols.values.tolist(), symbols.offsets.tolist()


@st.composite
def collections(draw: st.DrawFn) -> Any:
    """Sets as they are given: of any plain type, in any order, with repeats."""
    of = draw(st.sampled_from([list, tuple, set, frozenset]))
    return of(draw(st.lists(small_integers, max_size=12) | st.lists(st.integers(0, 300))))


@given(st.lists(collections(), max_size=8))
@example([[], [3, 1, 3], [], (), {2**32, 2**32 - 1}, [-1], [2**63 - 1, -(2**63)], [0], []])
@example([[256], [255], [65_536], [65_535]])
@example([[]])
def test_sets_stored_together_are_as_if_stored_one_by_one(items):
    assert ITEMS.encode_many(items) == [ITEMS.encode(item) for item in items]
    if any(len(item) for item in items):
        assert stored_integer_sets(items) is not None


@pytest.mark.parametrize(
    "item", [["a", "b"], np.array([2, 1]), range(3), [np.int64(5), 1], {"x"}, np.array([])]
)
def test_sets_that_are_not_plain_integers_are_stored_one_by_one(item):
    assert ITEMS.encode_many([[1, 2], item]) == [ITEMS.encode([1, 2]), ITEMS.encode(item)]


@pytest.mark.parametrize(
    "item", [[1, True], [1.0], [2**63], [-(2**63) - 1], "ab", {1: 2}, None, [1, "a"], [None]]
)
def test_a_bad_set_among_good_ones_is_refused_as_it_is_alone(item):
    with pytest.raises(BadItemError) as alone:
        ITEMS.encode(item)
    with pytest.raises(BadItemError) as among:
        ITEMS.encode_many([[1, 2], item, [3]])
    assert str(among.value) == str(alone.value)


@given(sets)
@example(frozenset())
@example(frozenset({""}))
@example(frozenset({"x" * 255}))
@example(frozenset({"x" * 256, "é" * 200}))
@example(frozenset({"x" * 65535}))
@example(frozenset({"x" * 65536, "y"}))
@example(frozenset({0, 2**32 - 1}))
@example(frozenset({2**32}))
@example(frozenset({-1, 2**63 - 1, -(2**63)}))
def test_a_set_comes_back_and_its_symbols_are_those_of_the_definition(item):
    data = ITEMS.encode(item)
    decoded = ITEMS.decode(data)
    assert type(decoded) is frozenset
    assert decoded == ITEMS.decode(memoryview(data)) == item
    assert {type(element) for element in decoded} <= {int, str}
    assert symbols_of(data) == (slow_symbols(item), [0, len(item)])


@given(st.lists(sets, max_size=8))
def test_symbols_of_a_batch_are_those_of_each_set(batch):
    values, offsets = symbols_of(*(memoryview(ITEMS.encode(item)) for item in batch))
    assert values == list(chain.from_iterable(map(slow_symbols, batch)))
    assert offsets == [0, *itertools.accumulate(map(len, batch))]


@given(st.lists(small_integers) | st.lists(strings), st.randoms())
def test_equal_sets_are_equal_bytes_however_they_were_given(elements, generator):
    data = ITEMS.encode(elements)
    shuffled = [*elements, *elements]
    generator.shuffle(shuffled)
    forms: list[Any] = [tuple(shuffled), set(shuffled), frozenset(shuffled)]
    forms += [dict.fromkeys(shuffled).keys(), np.array(shuffled, object)]
    if not elements or isinstance(elements[0], int):
        forms.append(np.array(shuffled, np.int64))
        forms.append(np.array(shuffled, np.int64).astype(">i8"))
        forms.append([np.int64(element) for element in shuffled])
    assert all(ITEMS.encode(form) == data for form in forms)


def test_integers_take_the_fewest_bytes_that_hold_all():
    for largest, width in [(255, 1), (256, 2), (65535, 2), (65536, 4), (2**32 - 1, 4), (2**32, 8)]:
        assert len(ITEMS.encode({0, 1, largest})) == 1 + 3 * width
        assert len(ITEMS.encode(np.array([0, 1, largest]))) == 1 + 3 * width
    assert len(ITEMS.encode({-1})) == 9
    assert ITEMS.encode({3, 1}) == bytes([1, 1, 3])
    assert ITEMS.encode({"b", "é"}) == bytes([17, 2, 0, 0, 0, 1, 2]) + "bé".encode()
    assert ITEMS.encode([]) == ITEMS.encode(np.array([])) == ITEMS.encode(np.array([], int)) == b""


def test_an_integer_has_one_symbol_in_whatever_width_it_is_stored():
    widths = [{7}, {7, 300}, {7, 70_000}, {7, 2**40}, {-1, 7}]
    symbol = slow_symbols([7])[0]
    assert all(symbol in symbols_of(ITEMS.encode(item))[0] for item in widths)


def test_integers_and_strings_of_the_same_look_are_different():
    assert ITEMS.encode({1}) != ITEMS.encode({"1"})
    both = symbols_of(ITEMS.encode(set(range(100))), ITEMS.encode(set(map(str, range(100)))))[0]
    assert len(set(both)) == 200


def test_strings_are_not_normalised():
    composed, decomposed = "\u00e9", "e\u0301"
    assert taken([composed, decomposed]) == {composed, decomposed}


def test_other_secrets_give_other_symbols():
    data = [ITEMS.encode({1, 2, 3}), ITEMS.encode({"a", "b"})]
    with np.errstate(over="ignore"):
        other = SetItems(b"other").symbols(data).values.tolist()
    assert other == slow_symbols({1, 2, 3}, b"other") + slow_symbols({"a", "b"}, b"other")
    assert not set(other) & set(symbols_of(*data)[0])


class Colour(enum.IntEnum):
    RED = 5


class Word(str, enum.Enum):  # noqa: UP042 - its str() is its name, which is the point
    ONE = "one"


class Name(str):
    __slots__ = ()


def test_what_is_an_integer_or_a_string_by_another_name_is_one():
    assert taken([Colour.RED, np.uint8(3), 7]) == {5, 3, 7}
    decoded = taken([Name("x"), np.str_("y"), Word.ONE, "z"])
    assert decoded == {"x", "y", "one", "z"}
    assert {type(element) for element in decoded} == {str}
    assert ITEMS.encode(np.array(["x", "y"])) == ITEMS.encode(["x", "y"])
    assert ITEMS.encode(np.array([5, 3], np.uint64)) == ITEMS.encode({3, 5})
    assert ITEMS.encode(range(3)) == ITEMS.encode({0, 1, 2})


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("text", "not str 'text'; a text is no set of its characters"),
        (b"bytes", "not bytes b'bytes'; a text"),
        ({"a": 1}, "not dict {'a': 1}"),
        (None, "a set must be a collection of integers or of strings, not NoneType None"),
        (float("nan"), r"not float nan \(a nan usually stands for a missing set\)"),
        (7, "not int 7"),
        (iter([1, 2]), "not list_iterator .*make a list of what can be read only once"),
        (itertools.repeat(7), "not repeat .*make a list"),
        ([1, "a"], "all integers or all strings, not both: 1 and 'a'"),
        (["a", np.int64(1)], "not both: 'a' and 1"),
        ([1, True], "must be an integer or a string, not bool True"),
        ({True}, "not bool True"),
        ([1, np.True_], "not bool"),
        ([1.0, 2.0], "not float 1.0"),
        ([1, None], "not NoneType None"),
        (["a", b"b"], "not bytes b'b'"),
        ([1, [2]], r"not list \[2\]"),
        ([(1, 2)], r"not tuple \(1, 2\)"),
        ([1, 2**63], r"between -2\^63 and 2\^63 - 1, but 9223372036854775808 does not"),
        ([-(2**63) - 1], "but -9223372036854775809 does not"),
        ([10**1000], "but 1000000"),
        (["a", "b\ud800"], r"element 'b\\ud800' holds half a surrogate pair, U\+D800"),
        (["\ud83d", "\ude00"], "half a surrogate pair"),
        (np.array([1.5]), "not float64"),
        (np.array([True]), "not bool"),
        (np.array([[1, 2]]), "one dimension, not of 2"),
        (np.array(5), "one dimension, not of 0"),
        (np.array([2**63], np.uint64), "but 9223372036854775808 does not"),
        (np.array(["2020-01-01"], "datetime64[ns]"), r"not datetime64\[ns\]"),
        (np.array([1, "a"], object), "not both"),
    ],
)
def test_what_is_no_set_is_refused_with_its_reason(item, message):
    with pytest.raises(BadItemError, match=message):
        ITEMS.encode(item)


def test_a_set_of_the_maximum_size_is_taken_and_a_larger_one_is_not():
    largest = np.arange((MAXIMUM_ITEM_BYTES - 1) // 4, dtype=np.int64)
    assert len(ITEMS.encode(largest)) <= MAXIMUM_ITEM_BYTES
    message = "the set of 10,000,000 elements takes 40,000,001 bytes, more than the 33,554,432"
    with pytest.raises(BadItemError, match=message):
        ITEMS.encode(np.arange(10_000_000))
    with pytest.raises(BadItemError, match="the set of 2 elements takes"):
        ITEMS.encode(["x" * (MAXIMUM_ITEM_BYTES - 10), "y"])
    with pytest.raises(BadItemError, match="the set of 1 elements takes"):
        ITEMS.encode(["x" * (MAXIMUM_ITEM_BYTES + 1)])


@pytest.mark.parametrize("count", [MAXIMUM_ITEM_BYTES + 1, 10**12, 10**30])
def test_what_counts_more_elements_than_any_set_has_is_refused_before_it_is_read(count):
    with pytest.raises(BadItemError, match="a set must have at most 33,554,432 elements, not"):
        ITEMS.encode(range(count))


def test_no_items_have_no_symbols():
    sets_of_nothing = ITEMS.symbols([])
    assert sets_of_nothing.offsets.tolist() == [0]
    assert symbols_of(b"", b"") == ([], [0, 0, 0])


DAMAGED = [
    bytes([3, 1, 2, 3]),  # no such width
    bytes([0]),
    bytes([16, 0, 0, 0, 0]),
    bytes([24, 0, 0, 0, 0]),
    bytes([33, 1]),
    bytes([129, 1]),
    bytes([2, 1]),  # half a number
    bytes([8, *range(9)]),
    bytes([17, 1]),  # no whole count
    bytes([17, 2, 0, 0, 0, 1]),  # more lengths than there are
    bytes([17, 255, 255, 255, 255, 1]),
    bytes([17, 1, 0, 0, 0, 5]) + b"abc",  # a string past the end
    bytes([17, 1, 0, 0, 0, 1]) + b"abc",  # and one too early
    struct.pack("<BII", 20, 1, 2**32 - 1),
]


@pytest.mark.parametrize("data", DAMAGED, ids=bytes.hex)
def test_a_damaged_set_is_told_and_never_read_past_its_end(data):
    good = ITEMS.encode({1, 2, 3})
    with np.errstate(over="ignore"), pytest.raises(CorruptionError, match="a stored set, 1 of its"):
        ITEMS.symbols([good, data, good])
    with pytest.raises(CorruptionError, match="a stored set cannot be read"):
        ITEMS.decode(data)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda data: b"\x11" + data))
def test_bytes_of_any_kind_are_a_set_or_damaged(data):
    with np.errstate(over="ignore"):
        try:
            count = ITEMS.symbols([data]).values.size
        except CorruptionError:
            count = None
    if count is None:
        with pytest.raises(CorruptionError):
            ITEMS.decode(data)


def test_the_kind_chooses_the_class():
    assert isinstance(kinds.Set().make_items(SECRET), SetItems)
    assert isinstance(kinds.Text().make_items(SECRET), TextItems)
