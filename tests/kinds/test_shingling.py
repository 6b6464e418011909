"""Shingles of texts as symbols: the kernels against slicing, and frozen vectors."""

from __future__ import annotations

import importlib
from functools import cache
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simdb import kinds
from simdb.errors import ConfigurationError, CorruptionError
from simdb.kernels import shingles
from simdb.kinds.characters import IGNORED
from simdb.kinds.text import MANY, TextItems
from simdb.kinds.words import breaks
from tests.support import oracle
from tests.support.grids import grid

SECRET = bytes(range(32))
STOP_WORDS = ("the", "a", "For", "ou\u0300", "ΚΑΙΣ")

WORDS = st.one_of(
    st.builds(kinds.WordShingles, st.integers(1, 4)),
    st.builds(kinds.StopWordShingles, st.integers(1, 3), st.just(STOP_WORDS)),
)
forms = {
    "lowercase": st.booleans(),
    "white_space": st.sampled_from(["collapse", "keep"]),
    "unicode": st.sampled_from(["NFC", "NFD", "NFKC", "NFKD", "keep"]),
    "ignore": st.one_of(st.just(()), st.lists(st.sampled_from(IGNORED), unique=True)),
}
settings = st.one_of(
    st.builds(
        kinds.Text,
        shingles=st.one_of(st.builds(kinds.CharacterShingles, st.integers(1, 12)), WORDS),
        **forms,
    ),
    st.builds(kinds.Text, shingles=WORDS, words=st.just("unicode"), **forms),
)
pieces = st.sampled_from(
    [
        "a",
        "A",
        "the",
        "The",
        "for",
        "FOR",
        "z",
        "Z",
        "[",
        "@",
        "`",
        "{",
        "_",
        "7",
        " ",
        "  ",
        "\t\n",
        "\x1c",
        "-",
        ".",
        "\0",
        "é",
        "e\u0301",
        "Ü",
        "ß",
        "İ",
        "ﬁ",
        "où",
        "OÙ",
        "ΚΑΙΣ",
        "καις",
        "\u00a0",
        "\u2003",
        "\u0085",
        "漢字",
        "\U0001d518",
        "😀",
        "\u0300",
        "²",
        "\u200b",
        "\U0010ffff",
        *("<b>", "</p>", "<!-- x", "-->", "<script>", "</SCRIPT >", "&amp;", "&lt;", "&#233", "<"),
        *(
            "'",
            "\u2019",
            "\u201c",
            "\u2014",
            "12",
            "٣",
            "€",
            "\u00ad",
            "ø",
            "トー",
            "วั",
            "नि",
            "ŉ",
            ":",
        ),
    ]
)
texts = st.one_of(
    st.text(max_size=40), st.text("aB \n", max_size=60), st.lists(pieces, max_size=30).map("".join)
)

pytestmark = pytest.mark.usefixtures("wrap_around")


def symbols_of(text: str, kind: kinds.Text, secret: bytes = SECRET) -> list[int]:
    items = TextItems(kind, secret)
    return [int(symbol) for symbol in items.symbols([items.encode(text)]).values]


@cache
def arithmetic():
    """Functions that are compiled into kernels, as functions of Python."""
    hashes, _ = map(importlib.import_module, ("simdb.kernels.hashes", "simdb.kernels.compiling"))
    inlined = hashes.reduced, hashes.multiply_add, hashes.mixed
    return [numba.njit(getattr(one, "py_func", one)) for one in inlined]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**59 - 1), st.integers(0, 3 * 2**61 - 1))
@example(2**61 - 1, 2**59 - 1, 3 * 2**61 - 1)
@example(2**62 - 2, 2**59 - 1, 0)
@example(2**64 - 1, 2**59 - 1, 3 * 2**61 - 1)
def test_arithmetic_modulo_the_prime_is_that_of_whole_numbers(value, factor, addend):
    words = (np.uint64(value), np.uint64(factor), np.uint64(addend))
    reduced, multiply_add, mixed = arithmetic()
    assert int(reduced(words[0])) == value % oracle.MODULUS
    unreduced = int(multiply_add(*words))
    assert unreduced % oracle.MODULUS == (value * factor + addend) % oracle.MODULUS
    assert unreduced <= 3 * 2**62
    assert int(mixed(words[0], words[1])) == oracle.mixed(value, factor)


@given(st.lists(texts, max_size=6), settings, st.sampled_from([0, MANY]))
def test_symbols_are_those_of_the_slow_version(batch, kind, more):
    """Few texts are normalised one by one; among many, those in which neighbours decide."""
    items = TextItems(kind, SECRET)
    sets = items.symbols([items.encode(text) for text in [*batch, *["x"] * more]])
    expected = [oracle.symbols(text, kind, SECRET) for text in batch]
    expected += [oracle.symbols("x", kind, SECRET)] * more
    offsets = sets.offsets.tolist()
    assert len(sets) == len(batch) + more
    assert [sets.values[i:j].tolist() for i, j in pairwise(offsets)] == expected
    assert sets.values.dtype == np.uint64
    assert sets.offsets.dtype == np.int64


def as_text(stands: int) -> str:
    """What a number of the table stands for."""
    if stands < shingles.PAIR:
        return chr(stands)
    return "" if stands == shingles.DROPPED else chr(stands >> 15 & 0x7FFF) + chr(stands & 0x7FFF)


@pytest.mark.parametrize(
    ("case", "form"),
    grid(["keep", "lower", "ignored"], ["NFC", "NFD", "NFKC", "NFKD", "keep"], step=2),
)
def test_characters_that_stand_for_themselves_do_so_next_to_any_other(case, form):
    ignore = [name for name in IGNORED if name not in ("html", "digits")]
    kind = kinds.Text(
        unicode=form, lowercase=case == "lower", ignore=ignore if case == "ignored" else ()
    )
    items = TextItems(kind, SECRET)
    stands_for = items._stands_for
    plain = np.flatnonzero(stands_for != shingles.DEPENDS)
    random = np.random.default_rng(7)
    parts = np.array_split(random.permutation(plain), 3)
    around_it = (plain, np.arange(0xC0, 0x250), np.arange(0x1100, 0x1200))
    for part, around in zip(parts, around_it, strict=True):
        chosen = np.concatenate([part, random.choice(around, 10_000)])
        chosen = chosen[stands_for[chosen] != shingles.DEPENDS]
        random.shuffle(chosen)
        expected = "".join(map(as_text, stands_for[chosen].tolist()))
        assert kind.form.normalised("".join(map(chr, chosen))) == expected
    few = sum(stands_for[0x80:0x250] == shingles.DEPENDS)
    assert few <= {"NFC": 1, "keep": 1}.get(form, 300)  # what most texts consist of is told


@pytest.mark.parametrize(
    "wrong",
    [
        *(b"cut short \xc3", b"cut short \xe2\x82", b"no beginning \x82"),
        *(b"longer than need be \xc1\x81", b"also \xe0\x81\x81", b"\xf0\x80\x81\x81"),
        *(b"half a pair \xed\xa0\x80", b"no character \xf4\x90\x80\x80", b"\xff"),
    ],
)
def test_a_stored_text_that_is_not_utf8_is_damage_also_among_many(wrong):
    items = TextItems(kinds.Text(), SECRET)
    with pytest.raises(CorruptionError, match="a stored text cannot be read"):
        items.symbols([b"sound"] * MANY + [wrong])


@given(texts, texts, settings)
def test_symbols_are_equal_exactly_where_shingles_are(left, right, kind):
    shingles = oracle.shingle_list(left, kind) + oracle.shingle_list(right, kind)
    symbols = symbols_of(left, kind) + symbols_of(right, kind)
    assert len(set(zip(shingles, symbols, strict=True))) == len(set(shingles)) == len(set(symbols))


@pytest.mark.parametrize("length", [1, 2, 8, 9, 10, 11, 12, 255, 256, 257, 1000])
@pytest.mark.parametrize("size", [1, 2, 9, 300])
def test_every_length_around_the_seams_agrees_with_slicing(length, size):
    kind = kinds.Text(kinds.CharacterShingles(size), white_space="keep")
    text = "".join(chr(97 + i * i % 23) for i in range(length))
    assert symbols_of(text, kind) == oracle.symbols(text, kind, SECRET)


@given(st.text("aB 1.'\n\t", max_size=40), settings)
def test_an_ascii_text_has_the_same_symbols_on_the_wide_path(text, kind):
    items = TextItems(kind, SECRET)
    narrow = items.symbols([text.encode()])
    code_points = np.array([*map(ord, kind.form.normalised(text))], np.uint32)
    wide = items._run(np.frombuffer(b"", np.uint8), code_points, np.array([[1, 0, len(text)]]))
    assert narrow.values.tolist() == wide.values.tolist()


def test_every_ascii_character_is_lowered_as_str_does():
    text = "".join(map(chr, range(128)))
    characters = kinds.Text(kinds.CharacterShingles(1), lowercase=True, white_space="keep")
    assert symbols_of(text, characters) == symbols_of(text.lower(), characters)
    assert symbols_of(text, characters) == oracle.symbols(text, characters, SECRET)
    words = kinds.Text(kinds.WordShingles(1), lowercase=True)
    assert symbols_of("AZ[]@ Z", words) == symbols_of("az z", words)


def test_stop_words_are_normalised_like_the_text():
    shingles = kinds.StopWordShingles(1, ("OU\u0300",))
    assert len(symbols_of("là où tu es", kinds.Text(shingles, unicode="NFC"))) == 1
    assert symbols_of("là où tu es", kinds.Text(shingles, unicode="keep")) == []


def test_words_are_told_apart_by_their_boundaries():
    kind = kinds.Text(kinds.WordShingles(2))
    assert not set(symbols_of("ab c", kind)) & set(symbols_of("a bc", kind))
    assert symbols_of("ab c", kind) == symbols_of(" ab,\n c!", kind)


def test_a_short_text_is_told_apart_from_a_shingle_it_begins():
    kind = kinds.Text(kinds.CharacterShingles(3), white_space="keep")
    short = {text: symbols_of(text, kind) for text in ("a", "\0", "\0\0", "\0\0\0", "aa", "aaa")}
    assert all(len(symbols) == 1 for symbols in short.values())
    assert len({symbols[0] for symbols in short.values()}) == len(short)


def test_texts_without_anything_to_shingle_have_no_symbols():
    for kind in (kinds.Text(), kinds.Text(kinds.WordShingles())):
        assert symbols_of("", kind) == symbols_of(" \n\t", kind) == symbols_of("\u2003", kind) == []
    assert symbols_of("... !?", kinds.Text(kinds.WordShingles())) == []
    assert symbols_of("no such thing", kinds.Text(kinds.StopWordShingles(2, ("where",)))) == []
    assert symbols_of("", kinds.Text(white_space="keep")) == []
    assert len(symbols_of(" ", kinds.Text(white_space="keep"))) == 1


def test_other_secrets_give_unrelated_symbols():
    text = "the quick brown fox jumps over the lazy dog"
    for kind in (kinds.Text(), kinds.Text(kinds.WordShingles(1))):
        assert not set(symbols_of(text, kind)) & set(symbols_of(text, kind, b"another"))


def test_a_shingle_size_beyond_any_text_is_served():
    kind = kinds.Text(kinds.CharacterShingles(10**12))
    assert symbols_of("abc", kind) == oracle.symbols("abc", kind, SECRET)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (
            kinds.Text(kinds.CharacterShingles(3)),
            "abcd",
            ["c950950e5967b071", "e3c37982bf2cd16d"],
        ),
        (
            kinds.Text(kinds.CharacterShingles(9), lowercase=True),
            "Ünï  Côdé",
            ["d4463757b1c444fa"],
        ),
        (
            kinds.Text(kinds.WordShingles(2)),
            "so it goes",
            ["329cce72f5cc196f", "270181bd7aae0636"],
        ),
        (
            kinds.Text(kinds.StopWordShingles(1)),
            "And SO it goes",
            ["4c1e22d5cc8919f4", "73d4c5e123a0c3db", "270181bd7aae0636"],
        ),
    ],
)
def test_symbols_never_change(kind, text, expected):
    """Stored indexes depend on them: a change here is a change of the file format."""
    assert [f"{symbol:016x}" for symbol in symbols_of(text, kind)] == expected


SENTENCES = {
    "我们今天去北京看朋友。": 10,
    "สวัสดีครับ": 7,
    "東京タワーへ行く": 6,
    "हिन्दी में लिखा": 3,
    "don't pay 3.14 to a_b": 5,
}


def test_a_word_is_one_in_any_language():
    by_breaks = kinds.Text(kinds.WordShingles(1), words="unicode")
    for sentence, count in SENTENCES.items():
        assert len(symbols_of(sentence, by_breaks)) == count, sentence
    assert len(symbols_of("我们今天去北京看朋友。", kinds.Text(kinds.WordShingles(1)))) == 1


def test_classes_of_characters_are_those_of_unicode():
    """Some of each class that no category alone tells; all were held against the annex once."""
    table = breaks(0x110000).tolist()
    for name, characters in (
        ("ALONE", "中ひกລខမ²𠀀"),
        ("KATAKANA", "トーﾄ゛㌀"),
        ("LETTER", "aЖ한ㄅ々Ⓐ"),
        ("HEBREW", "אﬠ"),
        ("NUMBER", "7٣"),
        ("CONNECTOR", "_‿"),
        ("MARK", "\u0301\u200d\u00ad\uff9eि"),
        ("NOTHING", " \u200b\u202f-!😀"),
    ):
        found = {character: table[ord(character)] for character in characters}
        assert found == dict.fromkeys(characters, getattr(shingles, name)), name


def test_what_is_ignored_does_not_count():
    for name, left, right in (
        ("html", "<p>fish &amp; <b>ch</b>ips</p><script>x</script>", " fish & chips"),
        ("case", "Straße", "STRASSE"),
        ("diacritics", "Crème Łódź", "Creme Lodz"),
        ("quotes", "\u201cno\u201d \u2013 it\u2019s", '"no" - it\'s'),
        ("punctuation", "It's so, isn't it?! +", "Its so isnt it"),
        ("digits", "on 12 May 1999", "on 3 May 42"),
        ("invisible", "zero\u200bwidth soft\u00adhyphen", "zerowidth softhyphen"),
    ):
        plain, without = (kinds.Text(kinds.CharacterShingles(2), ignore=i) for i in ((), (name,)))
        assert symbols_of(left, plain) != symbols_of(right, plain)
        assert symbols_of(left, without) == symbols_of(right, without), name


def test_an_entity_may_have_a_number_of_any_length():
    kind = kinds.Text(kinds.CharacterShingles(2), ignore=["html"])
    long = f"a &#{'0' * 5000}65; &#{'1' * 5000};"
    assert symbols_of(long, kind) == symbols_of("a A \ufffd", kind)
    labels = kind.make_items(b"secret").labels(long.encode())
    assert [label.what for label in labels] == ["a ", " A", "A ", " \ufffd"]


def test_marks_that_make_another_letter_stay():
    kind = kinds.Text(kinds.CharacterShingles(1), ignore=["diacritics"])
    for letters in ("がか", "हिंहा", "ก่ก"):
        assert len(set(symbols_of(letters, kind))) == len(set(oracle.shingle_list(letters, kind)))
    assert symbols_of("が", kind) != symbols_of("か", kind)


def test_settings_that_came_later_are_stored_only_where_they_say_something():
    assert kinds.Text().stored().keys() == {
        *("kind", "shingles", "lowercase", "white_space", "unicode")
    }
    web = kinds.Text.profile("web", ignore=["digits", "case"])
    assert web.ignore == ("case", "digits")
    assert kinds.restore(web.stored()) == web
    assert kinds.restore(kinds.Text().stored()) == kinds.Text()
    assert kinds.Text.profile("news", shingles=kinds.CharacterShingles(5)).words == "runs"
    assert "ignore" not in kinds.String().stored()


def test_what_is_ignored_and_profiles_are_known_by_name():
    wrong: Any = ["capitals"]
    with pytest.raises(ConfigurationError, match=r"takes html, case, .*, not 'capitals'"):
        kinds.Text(ignore=wrong)
    assert kinds.Text(ignore="case, html").ignore == ("html", "case")
    with pytest.raises(ConfigurationError, match="news or web or code or chat, not 'mail'"):
        kinds.Text.profile("mail")
    with pytest.raises(ConfigurationError, match="CharacterShingles have no words"):
        kinds.Text(words="unicode")
