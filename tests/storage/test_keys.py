"""Keys: numbers and users' keys become bytes that sort as they should, and come back."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import BadItemError, CorruptionError
from simdb.kinds.base import joined
from simdb.ragged import ByteStrings
from simdb.results import listed
from simdb.storage.tables import layout
from simdb.storage.tables.layout import (
    Table,
    decode_user_key,
    decode_user_keys,
    encode_user_key,
    encode_user_keys,
)

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(min_size=1, max_size=100).filter(
    lambda text: not any("\ud800" <= character <= "\udfff" for character in text)
)


@given(INTEGERS | TEXTS)
def test_every_key_comes_back_as_it_was(key):
    decoded = decode_user_key(memoryview(encode_user_key(key)))
    assert decoded == key
    assert type(decoded) is type(key)


@given(st.lists(INTEGERS, min_size=2))
def test_the_bytes_of_integers_sort_as_the_integers(numbers):
    assert [decode_user_key(key) for key in sorted(map(encode_user_key, numbers))] == sorted(
        numbers
    )


@given(st.lists(TEXTS, min_size=2))
def test_the_bytes_of_texts_sort_as_their_code_points(texts):
    assert [decode_user_key(key) for key in sorted(map(encode_user_key, texts))] == sorted(texts)


def test_the_number_1_and_the_text_1_differ():
    assert encode_user_key(1) != encode_user_key("1")


@pytest.mark.parametrize(
    "number", [np.int8(-5), np.uint16(7), np.int64(2**63 - 1), np.uint64(3), np.intp(0)]
)
def test_integers_of_numpy_are_integers(number):
    assert encode_user_key(number) == encode_user_key(int(number))


@given(st.lists(INTEGERS, min_size=1) | st.lists(TEXTS, min_size=1))
def test_many_keys_have_the_bytes_of_each(some_keys):
    assert encode_user_keys(some_keys) == list(map(encode_user_key, some_keys))


@pytest.mark.parametrize(
    "some_keys", [["a"], ["x" * 500, "a"], ["é" * 250], [-(2**63), 2**63 - 1], [0]]
)
def test_many_keys_may_be_as_long_and_as_large_as_one(some_keys):
    assert encode_user_keys(some_keys) == list(map(encode_user_key, some_keys))


@pytest.mark.parametrize("some_keys", [["a"], ["x" * 500, "a"], ["é" * 250], [-(2**63), 2**63 - 1]])
def test_many_keys_that_can_be_stored_are_not_looked_at_one_by_one(some_keys, monkeypatch):
    monkeypatch.delattr(layout, "encode_user_key")
    assert [decode_user_key(key) for key in encode_user_keys(some_keys)] == some_keys


@pytest.mark.parametrize(
    ("some_keys", "message"),
    [
        (["a", "", "b"], "0 bytes"),
        (["a", "x" * 501], "501 bytes"),
        (["a", "a\ud800"], "surrogate at position 1"),
        ([1, 2**63], "64 bits"),
        ([-(2**63) - 1, 1], "64 bits"),
    ],
)
def test_one_key_of_many_that_cannot_be_stored_is_refused_with_the_reason(some_keys, message):
    with pytest.raises(BadItemError, match=message):
        encode_user_keys(some_keys)


def test_a_subclass_of_str_is_text():
    assert encode_user_key(np.str_("abc")) == encode_user_key("abc")


@pytest.mark.parametrize(
    "key", [None, 1.0, True, np.True_, b"abc", ("a",), np.float64(1), object()]
)
def test_keys_of_other_types_are_refused(key):
    with pytest.raises(TypeError, match="a key must be str or int, not"):
        encode_user_key(key)


def test_a_message_shows_a_long_key_short():
    with pytest.raises(TypeError, match=r"not bytes: b'x{26}\.\.\.x{28}'$"):
        encode_user_key(b"x" * 100)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "0 bytes"),
        ("x" * 501, "^key 'x{60}' takes 501 bytes"),
        ("é" * 251, "502 bytes"),
        ("x" * 70 + "\ud800", "^key 'x{60}' holds a lone surrogate at position 70"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (np.uint64(2**63), "64 bits"),
    ],
)
def test_keys_that_cannot_be_stored_are_refused_with_the_reason(key, message):
    with pytest.raises(BadItemError, match=message):
        encode_user_key(key)


@pytest.mark.parametrize("key", ["x" * 500, "\0", "é" * 250, "\U0010ffff" * 125])
def test_the_longest_and_strangest_keys_fit_into_a_key_of_lmdb(key):
    assert len(layout.owner_prefix(1) + encode_user_key(key)) <= 511


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "unknown tag"),
        (b"\x01abc", "cannot be decoded"),
        (b"\x02\xff", "cannot be decoded"),
        (b"\x01" + b"a" * 9, "cannot be decoded"),
        (b"\x03abcdefgh", "unknown tag 03"),
        (b"\x00abcdefgh", "unknown tag 00"),
    ],
)
def test_bytes_that_are_no_key_are_damage(stored, message):
    with pytest.raises(CorruptionError, match=message):
        decode_user_key(stored)


@pytest.mark.parametrize("size", [0, 7, 9, 15, 17])
def test_keys_of_another_length_are_damage_and_not_an_error_of_their_own(size):
    with pytest.raises(CorruptionError, match=f"a key of {size} bytes is damaged"):
        layout.unpack_numbered(bytes(size))


def test_the_keys_of_a_collection_begin_with_what_they_are():
    assert layout.collection_key("né") == b"cn\xc3\xa9"
    assert layout.manifest_key(258) == b"#\x00\x00\x01\x02"
    assert layout.owner_prefix(258) == b"\x00\x00\x01\x02"
    assert (layout.HEADER_KEY, layout.GARBAGE_KEY) == (b"simdb", b"g")


@given(st.lists(INTEGERS) | st.lists(TEXTS) | st.lists(INTEGERS | TEXTS))
def test_many_keys_come_back_as_columns(keys):
    found = decode_user_keys(ByteStrings(*joined(list(map(encode_user_key, keys)))))
    assert listed(found) == keys
    kinds = set(map(type, keys))
    expected = {frozenset({int}): np.ndarray, frozenset({str}): ByteStrings}
    assert isinstance(found, expected.get(frozenset(kinds), list))


@pytest.mark.parametrize("second", [b"\x02\xa9", b"\x02\xff", b"\x01short", b"\x03a", b""])
def test_many_keys_of_which_one_is_none_are_damage(second):
    # Of the first, joined to the text before it, a character would come.
    with pytest.raises(CorruptionError):
        decode_user_keys(ByteStrings(*joined([b"\x02\xc3", second])))
    with pytest.raises(CorruptionError):
        decode_user_keys(ByteStrings(*joined([encode_user_key("a"), second])))


def test_numbered_keys_and_chunk_keys_sort_as_their_numbers():
    generator = random.Random(1)
    numbered = [(generator.getrandbits(32), generator.getrandbits(32)) for _ in range(500)]
    packed = sorted(layout.pack_numbered(*key) for key in numbered)
    assert [layout.unpack_numbered(key) for key in packed] == sorted(numbered)
    many = [
        (generator.getrandbits(2), generator.getrandbits(64), generator.getrandbits(32))
        for _ in range(500)
    ]
    packed = sorted(layout.pack_chunk(*key) for key in many)
    assert [struct.unpack(">IQI", key) for key in packed] == sorted(many)


def test_table_numbers_never_change():
    # They seed the checksums of every stored record.
    assert [table.name for table in Table] == [
        "META",
        "DOCUMENTS",
        "KEYS",
        "SIGNATURES",
        "MARKS",
        "BANDS",
        "POSTINGS",
        "SYMBOLS",
        "ITEMS",
    ]
    assert list(Table) == list(range(9))
    assert layout.TABLE_NAMES[Table.DOCUMENTS] == b"documents"


def test_stored_keys_and_names_stay_within_the_limits():
    assert (layout.LONGEST_KEY, layout.LONGEST_NAME) == (500, 200)


def test_the_longest_name_of_a_collection_fits():
    assert len(layout.collection_key("x" * layout.LONGEST_NAME)) <= 511
