"""Bit vectors: what is taken as one, the stored form, and the symbols of set bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.kinds import Bits
from simdb.kinds.bits import MAXIMUM_LENGTH, BitsItems
from tests.support import oracle

SECRET = b"secret"

bit_lists = st.lists(st.integers(0, 1), min_size=1, max_size=200)


def items_of(length: int) -> BitsItems:
    return BitsItems(Bits(length), SECRET)


def slow_stored(bits: list[int]) -> bytes:
    text = "".join(map(str, bits)).ljust(-(-len(bits) // 64) * 64, "0")
    return bytes(int(text[start : start + 8], 2) for start in range(0, len(text), 8))


def slow_symbols(bits: list[int], secret: bytes = SECRET) -> list[int]:
    key = oracle.secret_words(secret, b"simdb.bits", 1)[0]
    return [oracle.mixed(position, key) for position, bit in enumerate(bits) if bit]


@given(bit_lists)
def test_every_form_of_a_vector_has_one_stored_form_and_comes_back(bits):
    items = items_of(len(bits))
    array = np.array(bits)
    packed = np.packbits(array.astype(bool))
    text = "".join(map(str, bits))
    forms: list[Any] = [bits, tuple(bits), [bool(bit) for bit in bits], text, int(text, 2)]
    forms += [array, array.astype(bool), array.astype(np.uint8), list(array)]
    forms += [packed.tobytes(), bytearray(packed.tobytes()), memoryview(packed.tobytes())]
    data = slow_stored(bits)
    assert items.width == len(data)
    assert all(items.encode(form) == data for form in forms)
    assert items.encode_many(forms) == [data] * len(forms)
    assert items.encode_many([array, array.astype(bool)]) == [data] * 2
    with pytest.raises(BadItemError, match="0 and 1"):
        items.encode_many([array, array + 2])
    decoded = items.decode(memoryview(data))
    assert decoded.dtype == np.uint8
    assert decoded.tolist() == bits
    assert items.encode(decoded) == data


@given(bit_lists, bit_lists)
def test_equal_vectors_are_equal_bytes_and_others_are_not(one, other):
    other = (other * len(one))[: len(one)]
    items = items_of(len(one))
    assert (items.encode(one) == items.encode(other)) == (one == other)


def test_an_example_of_the_stored_form():
    assert items_of(10).encode("1000000001") == bytes([0b10000000, 0b01000000, 0, 0, 0, 0, 0, 0])
    assert items_of(3).encode(1) == bytes([0b00100000] + 7 * [0])
    assert items_of(64).width == 8
    assert items_of(65).width == 16


def test_numbers_of_numpy_are_numbers():
    assert (
        items_of(8).encode(np.uint8(5)) == items_of(8).encode(5) == items_of(8).encode("00000101")
    )


def test_features_are_the_stored_bytes_as_words():
    items = items_of(70)
    stored = [items.encode("1" * 70), items.encode(1), items.encode(0)]
    features = items.features([stored[0], memoryview(stored[1]), stored[2]])
    assert features.dtype == np.uint64
    assert features.shape == (3, 2)
    assert features.astype("<u8").tobytes() == b"".join(stored)
    assert items.features([]).shape == (0, 2)


@given(st.lists(st.lists(st.integers(0, 1), min_size=75, max_size=75), max_size=4))
def test_symbols_are_keyed_hashes_of_the_positions_of_set_bits(vectors):
    items = items_of(75)
    with np.errstate(over="ignore"):
        symbols = items.symbols([items.encode(vector) for vector in vectors])
    assert symbols.values.dtype == np.uint64
    assert symbols.values.tolist() == [s for vector in vectors for s in slow_symbols(vector)]
    sizes = [sum(vector) for vector in vectors]
    assert symbols.offsets.tolist() == [sum(sizes[:end]) for end in range(len(sizes) + 1)]
    assert len(set(symbols.values.tolist())) == sum(any(column) for column in zip(*vectors))  # noqa: B905


def test_a_vector_of_zeros_has_no_symbol_and_other_secrets_give_others():
    items = items_of(9)
    with np.errstate(over="ignore"):
        assert items.symbols([items.encode(0)]).values.size == 0
        other = BitsItems(Bits(9), b"other").symbols([items.encode("111000000")])
    assert other.values.tolist() == slow_symbols([1, 1, 1], b"other")
    assert not set(other.values.tolist()) & set(slow_symbols([1] * 9))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([0, 1, 0, 1, 0, 1, 0, 1, 0, 2], "0 and 1, not int 2 at position 9"),
        ([0, 1, 0, 1, 0, 1, 0, 1, 0, 0.0], "not float 0.0 at position 9"),
        ([0, 1, 0, 1, 0, 1, 0, 1, 0, "1"], "not str '1' at position 9"),
        ([0, 1, 0, 1, 0, 1, 0, 1, 0, None], "not NoneType None at position 9"),
        ([0, 1], "have 10 bits, but this one is a list of 2"),
        (np.zeros(11, np.uint8), "have 10 bits, but this one is an array of 11"),
        (np.array([0] * 9 + [7]), "not 7 at position 9; packed bits are given as bytes"),
        (np.array([0] * 9 + [-1]), "not -1 at position 9"),
        (np.zeros(10), "not of float64"),
        (np.zeros((2, 5), np.uint8), "one dimension, not 2"),
        (np.array(5), "one dimension, not 0"),
        ("01010101012", "not the character '2' at position 10"),
        ("12", "'12' has 2 hexadecimal digits, but 10 bits have 3"),
        ("0x11", "'0x11' has 2 hexadecimal digits, but 10 bits have 3"),
        ("0101 1010 1", "not the character ' ' at position 4"),
        ("\u0660" * 10, r"not the character '\\u0660' at position 0"),
        ("", "this one is a text of 0"),
        ("010101", "this one is a text of 6"),
        (b"\0", "have 10 bits, packed into 2 bytes, but this one is 1 bytes"),
        (b"\0\1", "the last 6 bits of the packed 2 bytes lie beyond the length of 10 bits"),
        (1024, r"lies between 0 and 2\^10 - 1, but 1024 does not"),
        (-1, "but -1 does not"),
        (True, "not bool True"),
        (1.0, "not float 1.0"),
        (None, "not NoneType None"),
        ({0, 1}, r"not set \{0, 1\}"),
    ],
)
def test_what_is_no_bit_vector_is_refused_with_its_reason(item, message):
    with pytest.raises(BadItemError, match=message):
        items_of(10).encode(item)


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 9, b"\0" * 16, b"\0\x20" + b"\0" * 6])
def test_a_damaged_vector_is_told(data):
    items = items_of(10)
    good = items.encode(3)
    with pytest.raises(CorruptionError, match="a stored bit vector, 1 of its batch, cannot be"):
        items.features([good, data, good])
    for read in (items.decode, lambda data: items.symbols([data])):
        with pytest.raises(CorruptionError):
            read(data)


def test_sizes_that_add_up_to_the_right_one_are_damaged_all_the_same():
    with pytest.raises(CorruptionError, match="0 of its batch"):
        items_of(10).features([b"\0" * 7, b"\0" * 9])


@pytest.mark.parametrize("length", [0, -1, 1.0, "8", True, None, MAXIMUM_LENGTH + 1])
def test_impossible_lengths_are_refused(length):
    with pytest.raises(ConfigurationError, match=r"Bits\.length must be a whole number from 1 to"):
        Bits(length)


def test_an_unknown_measure_is_refused():
    with pytest.raises(ConfigurationError, match="must be 'hamming' or 'tanimoto', not 'jaccard'"):
        Bits(8, "jaccard")  # type: ignore[arg-type]
    assert (Bits(8).measure, Bits(8, "tanimoto").measure) == ("hamming", "tanimoto")


@pytest.mark.parametrize(
    ("length", "text", "number"),
    [
        (64, "f0f0f0f0f0f0f0f1", 0xF0F0F0F0F0F0F0F1),
        (64, "0xF0F0F0F0F0F0F0F1", 0xF0F0F0F0F0F0F0F1),
        (64, "1" * 16, 0x1111111111111111),  # 16 characters cannot be 64 bits
        (9, "1ff", 0b111111111),
        (4, "0101", 0b0101),
        (4, "a", 0b1010),
        (1, "1", 1),
    ],
)
def test_hexadecimal_digits_are_the_number_that_they_spell(length, text, number):
    items = Bits(length).make_items(b"secret")
    assert items.encode(text) == items.encode(number)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("f0f", "'f0f' has 3 hexadecimal digits, but 64 bits have 16"),
        ("0x1", "'0x1' has 1 hexadecimal digits, but 64 bits have 16"),
        ("123", "'123' has 3 hexadecimal digits, but 64 bits have 16"),
        ("1" * 60 + "12", "the character '2' at position 61"),
        ("f0f0f0f0f0f0f0fg", "the character 'f' at position 0"),
    ],
)
def test_what_has_the_wrong_digits_says_so(text, problem):
    with pytest.raises(BadItemError, match=problem):
        Bits(64).make_items(b"secret").encode(text)
