"""Values: what is packed comes back, and no changed byte goes unnoticed."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import CorruptionError
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(),
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert layout.unpack(layout.pack(value)) == value


@given(st.binary())
def test_foreign_bytes_are_decoded_or_refused_and_nothing_else(data):
    with contextlib.suppress(CorruptionError):
        layout.unpack(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"\x01\x02",
        msgpack.packb({1: 2}),
        msgpack.packb(msgpack.ExtType(5, b"x")),
        msgpack.packb(b"\xff").replace(b"\xc4\x01", b"\xa1"),
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5_000 + b"\x01",
    ],
    ids=["empty", "unused", "short", "extra", "key", "extension", "utf8", "list", "bytes", "deep"],
)
def test_bytes_that_were_never_packed_are_damage(data):
    with pytest.raises(CorruptionError):
        layout.unpack(data)


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**64, "\ud800"])
def test_what_cannot_be_packed_is_refused(value):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        layout.pack([value])


def test_no_flipped_bit_of_a_sealed_value_goes_unnoticed():
    sealed = layout.seal(Table.KEYS, b"key", b"payload")
    assert bytes(layout.unseal(Table.KEYS, b"key", memoryview(sealed))) == b"payload"
    for position in range(len(sealed)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptionError):
                layout.unseal(Table.KEYS, b"key", memoryview(damaged))


def test_a_sealed_value_belongs_to_its_table_and_its_key():
    sealed = memoryview(layout.seal(Table.KEYS, b"key", b"payload"))
    for table, key in ((Table.META, b"key"), (Table.KEYS, b"kez"), (Table.KEYS, b"")):
        with pytest.raises(CorruptionError):
            layout.unseal(table, key, sealed)


def test_no_cut_off_value_is_taken_for_a_whole_one():
    sealed = layout.seal(Table.KEYS, b"key", b"payload")
    for size in range(len(sealed)):
        with pytest.raises(CorruptionError):
            layout.unseal(Table.KEYS, b"key", memoryview(sealed[:size]))


def nested(depth):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_counted_up_to_its_limit():
    assert [layout.nesting(nested(depth)) for depth in (0, 1, 5, 64)] == [0, 1, 5, 64]
    assert layout.nesting(nested(5_000)) > layout.DEEPEST_NESTING
    assert layout.nesting({"a": [{"b": 1}], "c": 1}) == 3
    assert layout.nesting([]) == layout.nesting({}) == 1


def test_the_deepest_nesting_that_is_stored_can_be_read():
    deepest = nested(layout.DEEPEST_NESTING)
    assert layout.unpack(layout.pack(deepest)) == deepest
