"""The stored form of a bag, what is refused, and the symbols of its occurrences."""

from __future__ import annotations

import enum
from collections import Counter
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simdb import kernels
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.kinds import Bag
from simdb.kinds.bags import LARGEST_BAG, BagItems
from simdb.kinds.base import MAXIMUM_ITEM_BYTES
from simdb.kinds.sets import SetItems
from tests.support import oracle
from tests.support.processes import interpreted

SECRET = b"secret"
ITEMS = BagItems(SECRET)

integers = st.integers(0, 2**9) | st.integers(-(2**63), 2**63 - 1)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.text(
    "ab1", max_size=3
)
counts = st.integers(1, 3) | st.sampled_from([255, 256])
bags = st.dictionaries(integers, counts, max_size=20) | st.dictionaries(
    strings, counts, max_size=20
)

pytestmark = pytest.mark.usefixtures("wrap_around")


def taken(item: object) -> Any:
    return ITEMS.decode(ITEMS.encode(item))


def slow_symbols(bag: dict[Any, int], secret: bytes = SECRET) -> list[int]:
    """The symbols of every occurrence, as the docstrings of the kernels define them."""
    words = oracle.secret_words(secret, b"simdb.bag", 4)
    base = oracle.polynomial_base(words[1])
    symbols = []
    for element in sorted(bag):
        if isinstance(element, str):
            symbol = oracle.mixed(oracle.polynomial(element.encode(), base), words[2])
        else:
            symbol = oracle.mixed(element % 2**64, words[0])
        symbols += [oracle.mixed(symbol ^ k, words[3]) for k in range(1, bag[element] + 1)]
    return symbols


def symbols_of(*items: bytes | memoryview) -> list[list[int]]:
    symbols = ITEMS.features(items)
    assert symbols.values.dtype == np.uint64
    assert symbols.offsets.dtype == np.int64
    return [symbols.values[begin:end].tolist() for begin, end in pairwise(symbols.offsets)]


@given(bags)
@example({})
@example({"": 1})
@example({"": 2, "é" * 200: 300})
@example({"x" * 70_000: 1, "y": 2})
@example({-1: 1, 2**63 - 1: 256, -(2**63): 65_536})
@example({2**32 - 1: 255})
def test_a_bag_comes_back_and_its_symbols_are_those_of_the_definition(bag):
    data = ITEMS.encode(bag)
    decoded = ITEMS.decode(data)
    assert type(decoded) is Counter
    assert decoded == ITEMS.decode(memoryview(data)) == Counter(bag)
    assert list(decoded) == sorted(bag)
    assert {type(element) for element in decoded} <= {int, str}
    assert symbols_of(data) == [slow_symbols(bag)]


@given(st.lists(bags, max_size=8))
def test_symbols_of_a_batch_are_those_of_each_bag(batch):
    stored = [memoryview(ITEMS.encode(bag)) for bag in batch]
    assert symbols_of(*stored) == list(map(slow_symbols, batch))


@settings(max_examples=10)
@given(bags, st.randoms(use_true_random=False))
def test_equal_bags_are_equal_bytes_however_they_are_given(bag, generator):
    listed = list(Counter(bag).elements())
    generator.shuffle(listed)
    turned = list(bag.items())
    generator.shuffle(turned)
    forms: list[Any] = [Counter(bag), dict(turned), listed, tuple(listed), MappingProxyType(bag)]
    forms += [turned, tuple(map(list, turned))]
    forms.append({**bag, **{element: 0 for element in (1, 2) if element not in bag}})
    if listed and isinstance(listed[0], int):
        forms.append(np.array(listed, np.int64))
    elif listed:
        forms[-1] = Counter({**bag, "\x00 absent": 0})
        forms.append(np.array(listed, object))
    assert {ITEMS.encode(form) for form in forms} == {ITEMS.encode(bag)}


@given(bags, bags)
def test_other_bags_are_other_bytes(left, right):
    assert (ITEMS.encode(left) == ITEMS.encode(right)) == (left == right)


def test_a_bag_is_stored_compactly():
    elements = list(range(1_000, 1_100))
    assert len(ITEMS.encode(elements)) == 1 + len(SetItems(SECRET).encode(elements)) == 202
    assert len(ITEMS.encode(elements * 255)) == 302
    assert len(ITEMS.encode(elements * 256)) == 402


class Drink(enum.StrEnum):
    TEA = "tea"


def test_elements_and_counts_of_numpy_and_of_subclasses_are_taken_as_pythons():
    assert taken({np.int16(3): np.uint8(2)}) == {3: 2}
    assert taken([np.int64(3), 3, np.str_("3")][:2]) == {3: 2}
    assert taken({Drink.TEA: 2}) == taken(["tea", Drink.TEA]) == {"tea": 2}
    assert taken(np.array(["b", "a", "b"])) == {"a": 1, "b": 2}
    assert taken(np.array([], np.float64)) == taken([]) == taken({}) == taken({"x": 0}) == {}
    assert taken({"a", "b"}) == taken({"a": None, "b": None}.keys()) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ("milk", "a text is no bag of its characters"),
        (b"milk", "a text is no bag"),
        (iter(["a"]), "make a list"),
        (5, "a bag must be a collection"),
        (float("nan"), "a missing bag"),
        (None, "a bag must be a collection"),
        (["a", 1], "all integers or all strings, not both: 'a' and 1"),
        ({"a": 1, 1: 1}, "all integers or all strings"),
        ([1.0], "an element of a bag must be an integer or a string, not float 1.0"),
        ([True], "not bool True"),
        ({("a", 1): 1}, "not tuple"),
        ({"a": 1.5}, "the count of 'a' must be a whole number, not float 1.5"),
        ({"a": 2.0}, "must be a whole number, not float 2.0"),
        ({"a": "2"}, "must be a whole number, not str '2'"),
        ({"a": True}, "must be a whole number, not bool"),
        ({"a": None}, "must be a whole number, not NoneType"),
        ({"a": -1}, "the count of 'a' must not be negative, but is -1"),
        ([("a", -1)], "the count of 'a' must not be negative, but is -1"),
        ([("a", 1), ["a", 2]], "the element 'a' has two counts: add them up"),
        ([("a", 1), "ab"], "an element of a bag must be an integer or a string, not tuple"),
        ([(["a"], 1)], "an element of a bag must be an integer or a string, not list"),
        ({2**63: 1}, "must lie between -2^63 and 2^63 - 1"),
        (["\ud800"], "half a surrogate pair"),
        (np.array([[1]]), "one dimension, not of 2"),
        (np.array([1.5]), "not float64"),
    ],
)
def test_what_is_no_bag_is_refused(item, part):
    with pytest.raises(BadItemError) as refused:
        ITEMS.encode(item)
    assert part in str(refused.value)


def test_a_bag_of_a_million_occurrences_is_taken_and_one_more_is_refused_with_the_count():
    assert taken({"a": LARGEST_BAG}) == {"a": LARGEST_BAG}
    assert taken({7: LARGEST_BAG - 1, 8: 1}).total() == LARGEST_BAG
    too_large: list[Any] = [
        {"a": LARGEST_BAG + 1},
        {"a": LARGEST_BAG, "b": 1},
        [1] * (LARGEST_BAG + 1),
        np.zeros(LARGEST_BAG + 1, np.int8),
        range(LARGEST_BAG + 1),
    ]
    for item in too_large:
        with pytest.raises(BadItemError, match="has 1,000,001 elements, repetitions included"):
            ITEMS.encode(item)
    with pytest.raises(BadItemError, match=f"has {10**30:,} elements"):
        ITEMS.encode({"a": 10**30})


@pytest.mark.parametrize("count", [10**12, 10**30])
def test_what_counts_more_elements_than_any_bag_has_is_refused_before_it_is_read(count):
    with pytest.raises(BadItemError, match="a bag must have at most 33,554,432 elements, not"):
        ITEMS.encode(range(count))


def test_a_bag_longer_than_an_item_may_be_is_refused():
    with pytest.raises(BadItemError, match=r"the bag of 2 elements takes .* bytes, more than"):
        ITEMS.encode({"x" * MAXIMUM_ITEM_BYTES: 1, "y": 1})


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",  # no elements after the first byte
        b"\x03\x01a",  # no width of counts
        b"\x05\x01a\x01",
        b"\x01\x01",
        b"\x00\x00",
        b"\x00\x03abc",  # no width of elements
        b"\x01\x01a",  # an element without its count
        b"\x01\x01a\x00",  # a count of 0
        b"\x01\x02aa\x01\x01",
        b"\x04\x01a\x00\x00\x10\x00",  # 1,048,576 occurrences
        b"\x04\x01ab\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x11\x01\x00\x00",  # strings cut short
        b"\x00\x11\x01\x00\x00\x00\x02a",
        b"\x01\x11\xff\xff\xff\xff\x01a\x02",  # 4,294,967,295 strings
        b"\x01\x11\x01\x00\x00\x00\x01a",  # the last letter is taken for the count
        b"\x00\x18\x01\x00\x00\x00" + bytes(20),  # strings with lengths of eight bytes
        b"\xff\x11\x01\x00\x00\x00\x01a\x02",
    ],
)
def test_damaged_bytes_are_refused_and_never_read_past(data):
    sound = ITEMS.encode({"a": 2})
    with pytest.raises(CorruptionError, match="a stored bag cannot be read"):
        ITEMS.decode(data)
    with pytest.raises(CorruptionError, match="a stored bag, 1 of its batch, cannot be read"):
        ITEMS.features([sound, data, sound])


@given(st.binary(max_size=40), bags)
def test_any_bytes_are_either_a_bag_or_refused(data, bag):
    stored = ITEMS.encode(bag)
    for hostile in (data, stored[: len(data)], data[:1] + stored[1:], stored + data):
        try:
            symbols = symbols_of(hostile)
        except CorruptionError:
            continue
        try:
            decoded = ITEMS.decode(hostile)
        except CorruptionError:  # strings that are no UTF-8 have symbols all the same
            continue
        assert len(symbols[0]) >= decoded.total()


def test_too_many_distinct_elements_are_damage():
    data = b"\x00\x08" + np.arange(LARGEST_BAG + 1, dtype="<i8").tobytes()
    with pytest.raises(CorruptionError):
        ITEMS.decode(data)
    with pytest.raises(CorruptionError):
        ITEMS.features([data])


def test_symbols_depend_on_the_secret_and_are_not_those_of_sets():
    data = ITEMS.encode([1, 2, 2])
    (mine,) = symbols_of(data)
    assert len(set(mine)) == 3
    others = BagItems(b"other").features([data]).values.tolist()
    sets = SetItems(SECRET).features([SetItems(SECRET).encode([1, 2])]).values.tolist()
    assert not set(mine) & {*others, *sets}


def test_occurrences_of_large_bags_do_not_share_symbols():
    bag = dict.fromkeys(range(100), 1000)
    (symbols,) = symbols_of(ITEMS.encode(bag))
    assert len(set(symbols)) == 100_000


def test_the_kernels_leave_the_sets_of_the_elements_as_they_were():
    batch: list[dict[Any, int]] = [{"a": 3, "bc": 1}, {}, {5: 300}, {"é": 1}]
    stored = [ITEMS.encode(bag) for bag in batch]
    sets = [SetItems(SECRET).encode(set(bag)) for bag in batch]
    ends = np.cumsum([len(data) for data in stored])
    data, set_ends, element_counts, offsets = kernels.elements.bag_parts(
        np.frombuffer(b"".join(stored), np.uint8), ends, LARGEST_BAG
    )
    assert data.tobytes() == b"".join(sets)
    assert set_ends.tolist() == np.cumsum([len(data) for data in sets]).tolist()
    assert element_counts.tolist() == list(chain([3, 1], [300], [1]))
    assert offsets.tolist() == [0, 2, 2, 3, 4]


def test_the_union_of_bags_is_one_of_two():
    assert Bag() == Bag(union="sum") != Bag(union="maximum")
    with pytest.raises(ConfigurationError, match="'maximum' or 'sum', not 'min'"):
        Bag(union="min")  # type: ignore[arg-type]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 70_000)), max_size=5))
def test_a_bag_weighs_its_occurrences_or_its_bytes(batch):
    stored = [ITEMS.encode(bag) for bag in batch]
    expected = [max(len(d), sum(bag.values())) for d, bag in zip(stored, batch, strict=True)]
    assert ITEMS.weights(stored).tolist() == expected


MEMORY_OF_LARGE_BAGS = """
import resource, sys, tempfile
import simdb
rows = [(number, {number: 1_000_000}) for number in range(40)]
with simdb.open(tempfile.mkdtemp() + "/s.simdb", memory=16 * 2**20, threads=1) as database:
    bags = database.collection("bags", simdb.Bag("maximum"), threshold=0.8, seed=1)
    assert bags.add_many(rows[:5]).added == 5
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert bags.add_many(rows[5:], on_duplicate="skip").added == 35
    assert len(bags.search({3: 1_000_000})) == 1
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_a_batch_of_large_bags_is_measured_by_what_it_becomes():
    """40 bags of a million occurrences are 320 MB of symbols, and 1 kB of JSON."""
    assert int(interpreted(MEMORY_OF_LARGE_BAGS).stdout) < 150  # MiB
