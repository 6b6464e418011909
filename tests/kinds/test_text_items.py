"""The stored form of a text, what is refused, and the tables of character classes."""

from __future__ import annotations

import random
import re
import threading
import unicodedata
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb import kinds
from simdb.errors import BadItemError
from simdb.kinds import characters
from simdb.kinds.base import MAXIMUM_ITEM_BYTES
from simdb.kinds.text import TextItems
from simdb.lsh.family import polynomial_base, secret_words
from tests.support import oracle

ITEMS = TextItems(kinds.Text(), b"secret")


@cache
def every_character() -> str:
    return "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)


@given(st.text())
def test_a_text_comes_back_as_it_was_given(text):
    data = ITEMS.encode(text)
    assert data == text.encode()
    assert ITEMS.decode(data) == ITEMS.decode(memoryview(data)) == text


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (b"bytes", r"must be a str, not bytes b'bytes'"),
        (None, "must be a str, not NoneType None"),
        (float("nan"), "must be a str, not float nan .*missing text"),
        (np.float64("nan"), "missing text"),
        (list(range(1000)), r"must be a str, not list \[0, 1, 2, 3, 4, 5, \.\.\.\]"),
        ("ab\ud800c", r"half a surrogate pair, U\+D800, at position 2"),
    ],
)
def test_what_is_no_text_is_refused_with_its_reason(item, message):
    with pytest.raises(BadItemError, match=message):
        ITEMS.encode(item)


def test_a_text_of_the_maximum_length_is_taken_and_a_longer_one_is_not():
    assert len(ITEMS.encode("x" * MAXIMUM_ITEM_BYTES)) == MAXIMUM_ITEM_BYTES
    with pytest.raises(BadItemError, match=r"33,554,434 bytes in UTF-8, more than the 33,554,432"):
        ITEMS.encode("é" * (MAXIMUM_ITEM_BYTES // 2 + 1))


def test_symbols_are_the_same_from_bytes_and_memoryviews_alone_and_in_a_batch():
    texts = ["plain words here", "wörds with accents", "", "plain again"] * 2
    data = [ITEMS.encode(text) for text in texts]
    with np.errstate(over="ignore"):
        batch = ITEMS.symbols(data)
        views = ITEMS.symbols([memoryview(item) for item in data])
        alone = [ITEMS.symbols([item]).values.tolist() for item in data]
    assert views.values.tolist() == batch.values.tolist() == list(chain(*alone))
    assert batch.offsets.tolist() == [0, *np.cumsum([len(symbols) for symbols in alone]).tolist()]


def test_no_items_have_no_symbols():
    sets = ITEMS.symbols([])
    assert (len(sets), sets.values.size, sets.offsets.tolist()) == (0, 0, [0])


def test_the_class_table_says_what_str_and_re_say_of_every_character():
    classes = characters.character_classes(0x110000)
    expected = np.zeros_like(classes)
    for value, found in (
        (1, filter(str.isspace, every_character())),
        (2, re.findall(r"\w", every_character())),
    ):
        expected[[*map(ord, found)]] += value
    expected[0xD800:0xE000] = classes[0xD800:0xE000]  # no characters
    assert np.flatnonzero(classes != expected).tolist() == []
    assert characters.character_classes(128).tolist() == classes[:128].tolist()


def test_the_fold_table_says_what_casefold_says_where_that_is_one_character():
    folds = characters.case_folds(0x110000)
    expected = np.arange(0x110000)
    for character, folded in zip(
        every_character(), map(str.casefold, every_character()), strict=True
    ):
        if character != folded and len(folded) == 1:
            expected[ord(character)] = ord(folded)
    expected[0xD800:0xE000] = folds[0xD800:0xE000]  # no characters
    assert np.flatnonzero(folds != expected).tolist() == []
    assert folds[0xD800] == 0xD800
    assert characters.case_folds(128).tolist() == folds[:128].tolist()


def test_threads_that_shingle_at_once_get_their_own_symbols():
    data = [ITEMS.encode(f"text number {number} of many, " * 20) for number in range(40)]
    with np.errstate(over="ignore"):
        expected = [ITEMS.symbols([item]).values.tolist() for item in data]
    wrong: list[int] = []

    def work() -> None:
        with np.errstate(over="ignore"):
            wrong.extend(
                number
                for number, item in enumerate(data)
                if ITEMS.symbols([item]).values.tolist() != expected[number]
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_secret_words_are_those_of_blake2b_and_differ_by_purpose():
    words = secret_words(b"secret", b"simdb.text", 20).tolist()
    assert words == oracle.secret_words(b"secret", b"simdb.text", 20)
    assert words[:3] == secret_words(b"secret", b"simdb.text", 3).tolist()
    assert not set(words) & set(secret_words(b"secret", b"simdb.row", 20).tolist())
    assert 2**58 <= polynomial_base(0) <= polynomial_base(2**64 - 1) < 2**59


# -- normal forms --------------------------------------------------------------------------------

MARKS = ("\u0301\u0316", "\u0344\u0f73\u0316", "\u0308\u0301", "\u3099\u0bbe\u0345\u05b0")


def disorder(text: str) -> int:
    """The pairs of neighbouring marks that are not in order."""
    ranks = list(map(unicodedata.combining, text))
    return sum(left > right > 0 for left, right in pairwise(ranks))


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_long_runs_of_marks_have_the_normal_form_of_unicode(form):
    generator = random.Random(1)
    for marks in MARKS:
        for count in (1_000, 1_023, 1_024, 1_100, 2_500):
            run = "".join(generator.choices(marks, k=count))
            text = f"a caf\u00e9{run} o{run[:70]}\u1e69{run}\ufb01\uac00"
            expected = unicodedata.normalize(form, text)
            assert characters.in_normal_form(form, text) == expected


def test_no_long_run_of_marks_is_left_to_be_put_in_order_by_insertion(monkeypatch):
    left = []
    normalize = unicodedata.normalize

    def noted(form: Any, text: str) -> str:
        left.append(disorder(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", noted)
    characters.in_normal_form("NFC", "a" + "\u0301\u0316" * 5_000 + "b" + "\u0344\u0316" * 5_000)
    assert sum(left) < 10


def test_every_mark_consists_of_marks_so_that_a_run_can_be_put_in_order_by_itself():
    for mark in every_character():
        if unicodedata.combining(unicodedata.normalize("NFD", mark)[0]):
            assert ord(mark) < characters._TOLD
            assert all(map(unicodedata.combining, unicodedata.normalize("NFKD", mark)))
