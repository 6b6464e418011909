"""Examples, figures and exercises of MMDS 3.2 to 3.4, by number."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import numpy.typing as npt
import pytest

from simdb import kernels, kinds
from simdb.kinds.text import TextItems
from simdb.lsh.amplification import And, Or, s_curve, steepest
from simdb.lsh.family import MinHash, SymbolSets
from simdb.lsh.planning import Plan
from tests.support import oracle
from tests.support.similarities import jaccard

SECRET = b"secret"
FIRST_SENTENCE_OF_3_2 = (
    "The most effective way to represent documents as sets, for the purpose of identifying "
    "lexically similar documents is to construct from the document the set of short strings that "
    "appear within it."
)

FIGURE_3_2 = {"S1": {"a", "d"}, "S2": {"c"}, "S3": {"b", "d", "e"}, "S4": {"a", "c", "d"}}
FIGURE_3_4 = [{0, 3}, {2}, {1, 3, 4}, {0, 2, 3}]
FIGURE_3_5 = [{2, 5}, {0, 1}, {3, 4}, {0, 2, 4}]

pytestmark = pytest.mark.usefixtures("wrap_around")


def threshold_estimate(bands: int, rows: int) -> float:
    """Where the S-curve is about steepest (MMDS 3.4.2)."""
    return float((1 / bands) ** (1 / rows))


def symbols_of(text: str, kind: kinds.Text) -> npt.NDArray[np.uint64]:
    return TextItems(kind, SECRET).symbols([text.encode()]).values


def one_symbol(shingle: str, kind: kinds.Text) -> int:
    """Return the symbol of a text that is a single shingle."""
    (symbol,) = symbols_of(shingle, kind).tolist()
    return int(symbol)


# ------------------------------------------------------------------------------- 3.2 shingling


def test_example_3_3_shingles_of_abcdabd():
    kind = kinds.Text(kinds.CharacterShingles(2))
    assert oracle.shingle_set("abcdabd", kind) == {"ab", "bc", "cd", "da", "bd"}
    symbols = symbols_of("abcdabd", kind).tolist()
    assert len(symbols) == 6
    assert symbols[0] == symbols[4]  # "ab" twice
    assert set(symbols) == {one_symbol(shingle, kind) for shingle in ("ab", "bc", "cd", "da", "bd")}
    values = np.array(symbols, np.uint64)
    _, sizes, size = kernels.overlaps.probe_overlaps(values, values, np.array([0, 6]))
    assert sizes.tolist() == [5]
    assert size == 5


def test_example_3_4_blanks_tell_touch_down_from_touchdown():
    kind = kinds.Text(kinds.CharacterShingles(9))
    plane = symbols_of("The plane was ready\n\t for touch  down.", kind)
    quarterback = symbols_of("The quarterback scored a touchdown.", kind)
    assert {one_symbol("touch dow", kind), one_symbol("ouch down", kind)} <= set(plane.tolist())
    assert one_symbol("touchdown", kind) in quarterback
    assert one_symbol("touchdown", kind) not in plane
    assert one_symbol("touchdown", kind) in symbols_of("Theplanewasreadyfortouchdown.", kind)


def test_example_3_5_stop_words_find_the_article_and_not_the_advertisement():
    kind = kinds.Text(kinds.StopWordShingles(2))
    article = (
        "A spokesperson for the Sudzo Corporation revealed today that studies have shown it is "
        "good for people to buy Sudzo products."
    )
    symbols = symbols_of(article, kind).tolist()
    assert len(set(symbols)) == 9
    first = ["A spokesperson for", "for the Sudzo", "the Sudzo Corporation"]
    assert symbols[:3] == [
        oracle.symbols(shingle, kinds.Text(kinds.WordShingles(3)), SECRET)[0] for shingle in first
    ]
    assert symbols_of("Buy Sudzo.", kind).size == 0


def test_exercise_3_2_1_first_ten_3_shingles():
    kind = kinds.Text(kinds.CharacterShingles(3))
    first = ["The", "he ", "e m", " mo", "mos", "ost", "st ", "t e", " ef", "eff"]
    assert oracle.shingle_list(FIRST_SENTENCE_OF_3_2, kind)[:10] == first
    kept = kinds.Text(kinds.CharacterShingles(3), white_space="keep")
    symbols = symbols_of(FIRST_SENTENCE_OF_3_2, kind)[:10].tolist()
    assert symbols == [one_symbol(shingle, kept) for shingle in first]


def test_exercise_3_2_2_stop_words_of_at_most_three_letters():
    words = {w.strip(",.") for w in FIRST_SENTENCE_OF_3_2.split()}
    short = tuple(sorted(word for word in words if len(word) <= 3))
    kind = kinds.Text(kinds.StopWordShingles(2, short))
    shingles = [
        *("The most effective", "way to represent", "to represent documents", "as sets for"),
        *("for the purpose", "the purpose of", "of identifying lexically", "is to construct"),
        *("to construct from", "the document the", "the set of", "set of short"),
        "of short strings",
    ]
    words_kind = kinds.Text(kinds.WordShingles(3))
    assert symbols_of(FIRST_SENTENCE_OF_3_2, kind).tolist() == [
        one_symbol(shingle, words_kind) for shingle in shingles
    ]


def test_exercise_3_2_3_a_text_of_n_has_at_most_n_minus_k_plus_1_shingles():
    text = "".join(map(chr, range(33, 93)))
    for size in (1, 5, 60):
        symbols = symbols_of(text, kinds.Text(kinds.CharacterShingles(size)))
        assert len(set(symbols.tolist())) == len(text) - size + 1


# -------------------------------------------------------------------------------- 3.3 minhashing


def test_example_3_6_and_figure_3_2_the_matrix_of_four_sets():
    rows = {"a": "1001", "b": "0010", "c": "0101", "d": "1011", "e": "0010"}
    for element, row in rows.items():
        assert row == "".join(str(int(element in members)) for members in FIGURE_3_2.values())


def test_example_3_7_and_figure_3_3_minhash_in_the_order_beadc():
    minhashes = [oracle.minhash("beadc", members) for members in FIGURE_3_2.values()]
    assert minhashes == ["a", "c", "b", "a"]


def test_section_3_3_2_a_row_is_the_first_element_in_its_permuted_order():
    """Each classical row orders the elements by its hash; a set has the row of its first."""
    rows = 16
    words = oracle.secret_words(SECRET, b"simdb.classical", 2 * rows)
    sketcher = MinHash("classical", 1, rows, SECRET)
    values = np.array([symbol for members in FIGURE_3_4 for symbol in sorted(members)], np.uint64)
    sketches = sketcher.sign(SymbolSets(values, np.cumsum([0, *map(len, FIGURE_3_4)])))
    alone = sketcher.sign(SymbolSets(np.arange(5, dtype=np.uint64), np.arange(6)))
    for row in range(rows):
        multiplier = words[row] % (oracle.MODULUS - 1) + 1
        addend = words[rows + row] % oracle.MODULUS
        order = sorted(range(5), key=lambda x, a=multiplier, b=addend: (a * x + b) % oracle.MODULUS)  # type: ignore[misc]
        for column, members in enumerate(FIGURE_3_4):
            assert sketches[column, row] == alone[oracle.minhash(order, members), row]  # type: ignore[index]


def test_example_3_8_and_figure_3_4_the_signature_matrix():
    """``oracle.signature`` is what the classical sketches are tested against."""
    functions = [lambda x: (x + 1) % 5, lambda x: (3 * x + 1) % 5]
    matrix = [oracle.signature(sorted(members), functions) for members in FIGURE_3_4]
    assert matrix == [[1, 0], [3, 2], [0, 0], [1, 0]]
    agreement = [
        Fraction(sum(i == j for i, j in zip(matrix[0], matrix[column], strict=True)), 2)
        for column in (3, 2, 1)
    ]
    assert agreement == [1, Fraction(1, 2), 0]
    true = [jaccard(FIGURE_3_4[0], FIGURE_3_4[column]) for column in (3, 2, 1)]
    assert true == [Fraction(2, 3), Fraction(1, 4), 0]


def test_exercise_3_3_1_minhashes_agree_in_the_share_of_permutations_that_jaccard_says():
    for left, right in combinations(FIGURE_3_2.values(), 2):
        equal = sum(
            oracle.minhash(order, left) == oracle.minhash(order, right)
            for order in permutations("abcde")
        )
        assert Fraction(equal, 120) == jaccard(left, right)


def test_exercise_3_3_2_two_more_hash_functions():
    functions = [lambda x: (2 * x + 4) % 5, lambda x: (3 * x - 1) % 5]
    matrix = [oracle.signature(members, functions) for members in FIGURE_3_4]
    assert matrix == [[0, 3], [3, 0], [0, 1], [0, 0]]


def test_exercise_3_3_3_and_figure_3_5_six_rows():
    functions: list[Callable[[int], int]] = [
        lambda x: (2 * x + 1) % 6,
        lambda x: (3 * x + 2) % 6,
        lambda x: (5 * x + 2) % 6,
    ]
    matrix = [oracle.signature(members, functions) for members in FIGURE_3_5]
    assert matrix == [[5, 2, 0], [1, 2, 1], [1, 2, 4], [1, 2, 0]]
    permuting = [len({function(x) for x in range(6)}) == 6 for function in functions]
    assert permuting == [False, False, True]


# ----------------------------------------------------------------------------------- 3.4 banding


def test_example_3_9_signatures_of_a_million_documents():
    """The book keeps 4 bytes a row, 1,000 a document; simdb keeps 2 bytes a row."""
    sketch = MinHash("fast", 1, 250, SECRET).sign(
        SymbolSets(np.arange(9, dtype=np.uint64), np.array([0, 9]))
    )
    assert sketch.nbytes * 2 == 1000
    assert comb(10**6, 2) == 499_999_500_000
    assert 5 < comb(10**6, 2) / 10**6 / 86_400 < 6  # days, at a microsecond a pair


def test_example_3_10_and_figure_3_6_equal_columns_of_a_band_share_a_bucket():
    first_band = [[1, 3, 0], [0, 2, 1], [0, 1, 3], [0, 2, 1], [2, 2, 1]]
    others = [[100 * column + row for row in range(9)] for column in range(5)]
    signatures = np.hstack((np.array(first_band), np.array(others))).astype(np.uint16)
    keys = MinHash("fast", 4, 3, SECRET).band_keys(signatures)
    sharing = [(i, j) for i, j in combinations(range(5), 2) if (keys[i] == keys[j]).any()]
    assert sharing == [(1, 3)]
    assert (keys[1] == keys[3]).tolist() == [True, False, False, False]
    assert kernels.sketches.matching_rows(signatures[1:2], signatures[3:4]).tolist() == [3]


def test_figure_3_7_the_curve_rises_first_ever_faster_and_then_ever_slower():
    curve = s_curve(Or(16, And(4)), 1001)[:851]  # beyond, doubles no longer tell it from 1
    rises = np.diff(curve[:, 1])
    steepest_step = int(np.argmax(rises))
    assert (rises > 0).all()
    assert (np.diff(rises[:steepest_step]) > 0).all()
    assert (np.diff(rises[steepest_step:]) < 0).all()
    assert threshold_estimate(16, 4) == 0.5


def test_example_3_11_and_figure_3_8_twenty_bands_of_five_rows():
    curve = Plan(Fraction(1, 2), 20, 5).curve(11)[:, 1]
    assert [round(float(p), 3) for p in curve[2:8]] == [0.006, 0.047, 0.186, 0.470, 0.802, 0.975]
    assert round(float(curve[8]), 4) == 0.9996
    half = (1 - 0.5 ** (1 / 20)) ** (1 / 5)
    assert Or(20, And(5)).probability(half) == pytest.approx(0.5)
    assert 0.5 < half < 0.52
    assert curve[6] - curve[4] > 0.6
    assert steepest(Or(20, And(5)))[1] > 3
    assert round(1 - 0.8**5, 3) == 0.672
    assert 0.00035 <= 1 - float(curve[8]) < 0.00036
    assert 2500 < 1 / (1 - float(curve[8])) < 3000  # "roughly one in 3000"


@pytest.mark.parametrize(
    ("rows", "bands", "table"),
    [
        (3, 10, [0.01, 0.0772, 0.2394, 0.4839, 0.7369, 0.9123, 0.985, 0.9992, 1.0]),
        (6, 20, [0.0, 0.0013, 0.0145, 0.0788, 0.2702, 0.6154, 0.9182, 0.9977, 1.0]),
        (5, 50, [0.0005, 0.0159, 0.1145, 0.4023, 0.7956, 0.9825, 0.9999, 1.0, 1.0]),
    ],
)
def test_exercise_3_4_1_the_s_curve_for_three_choices(rows, bands, table):
    exact = [float(1 - (1 - Fraction(s, 10) ** rows) ** bands) for s in range(1, 10)]
    assert [round(value, 4) for value in exact] == table
    curve = s_curve(Or(bands, And(rows)), 11)[1:-1, 1]
    assert curve == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("rows", "bands"), [(3, 10), (6, 20), (5, 50)])
def test_exercise_3_4_2_the_estimated_threshold_is_a_little_above_the_true_one(rows, bands):
    half = (1 - 0.5 ** (1 / bands)) ** (1 / rows)
    assert Or(bands, And(rows)).probability(half) == pytest.approx(0.5)
    assert half < threshold_estimate(bands, rows) < half + 0.07


def test_exercise_3_4_3_for_small_similarities_the_curve_is_bands_times_s_to_the_rows():
    for similarity in (0.01, 0.05, 0.1):
        estimate = 20 * similarity**5
        assert Or(20, And(5)).probability(similarity) == pytest.approx(estimate, rel=1e-3)
