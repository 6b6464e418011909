"""Pairs explained: what the kinds say agrees with their measures and with the indexes."""

from __future__ import annotations

import html
import pickle  # noqa: TID251 - that users may pickle answers
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simdb
from simdb import kinds
from simdb.errors import KeyNotFoundError
from simdb.evidence import Evidence, Facets, labelled
from simdb.kinds.base import SymbolKind
from simdb.kinds.characters import IGNORED
from simdb.kinds.fingerprints import FingerprintMeasure
from tests.support.kind_cases import ALL


def test_evidence_costs_a_few_calls_a_character(tmp_path):
    """It was some dozens, so that to explain removed rows took longer than all else."""
    text = " ".join(f"word{number}" for number in range(100))
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), seed=1)
        collection.add("a", text)
        collection.explain_match(text, "a")
        calls = [0]

        def count(_frame: object, _event: str, _argument: object) -> None:
            calls[0] += 1

        sys.setprofile(count)
        try:
            collection.explain_match(text + " more", "a")
        finally:
            sys.setprofile(None)
    assert calls[0] < 20 * len(text)


def test_a_text_is_cut_into_labels_only_where_they_are_told(tmp_path, monkeypatch):
    """Labels of all shingles, of which five were told, took most of the time."""
    made: list[int] = []

    def counted(*given: Any) -> Any:
        labels = labelled(*given)
        made.append(len(labels))
        return labels

    monkeypatch.setattr("simdb.kinds.text.labelled", counted)
    text = " ".join(f"word{number}" for number in range(100))
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), seed=1)
        collection.add("a", text)
        told = collection.explain_match("first " + text + " at the end", "a")
    assert told.to_dict(5)["only_left"] == 17
    assert str(told).count("only left") == 5
    assert sum(made) == 10
    assert len(told.facets) == len(text) - 8 + 17
    assert told == pickle.loads(pickle.dumps(told))


SHINGLES = [
    simdb.CharacterShingles(3),
    simdb.WordShingles(2),
    simdb.StopWordShingles(1, ("the", "É")),
]
TEXTS = st.text(
    st.sampled_from("aAbÉé\u0301 \u00a0\tthe,İΣσŉ한ᄒ\u0323\u2019\u201412\u00ad<>&;中"), max_size=30
)


@pytest.mark.parametrize(
    ("stop_word", "words", "common"),
    [("daß", "runs", 1), ("dass", "runs", 1), ("\ufb01", "runs", 0), ("don't", "unicode", 1)],
)
def test_stop_words_are_those_that_the_index_has(tmp_path, stop_word, words, common):
    """Folded character by character, by which some are not what they are folded as a whole."""
    kind = simdb.Text(simdb.StopWordShingles(1, (stop_word,)), words=words)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=0.5, seed=1)
        collection.add("a", "Daß es dass Don't fi es daß es dass es don't x")
        collection.add("b", "daß es DASS DON'T es \ufb01 x dass es don't x")
        told = collection.explain_pair("a", "b")
        (pair,) = collection.score([("a", "b")])
        assert told.value == pair.similarity
        assert len([facet for facet in told.facets if facet.left and facet.right]) >= common


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_what_a_kind_says_makes_its_measure(case: Any, tmp_path: Path) -> None:
    examples = case.examples
    kind = examples.kind
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        bound = "max_distance" if kind.is_distance else "threshold"
        # What the laws of fast sketches say takes long, and is tried below.
        sets: Any = {"exact_floor": examples.bound, "sketch": "classical"}
        floor = sets if kind.has_symbols else {}
        collection = db.collection("c", kind, **{bound: examples.bound}, **floor)
        collection.add_many(list(enumerate(examples.items)))
        for key, item in enumerate(examples.near[:3]):
            other = (key + 1) % 3
            told = collection.explain_match(item, key)
            unlike = collection.explain_match(item, other)
            assert told.similar
            assert not unlike.similar
            found = collection.search(item, guarantee="probable")
            assert (key in [match.key for match in found]) == told.met
            assert bool(told.met_by) >= bool(told.met)
            assert told.value == collection.search(item)[0].value
            assert unlike.value == collection.explain_pair(key, other).value or unlike.facets
            assert str(told).startswith(f"{told.measured} {told.value:.6f}, similar")
            assert told.to_dict()["similar"]
            for one in (told, unlike):
                if one.facets:
                    assert_makes(kind, one)


def assert_makes(kind: Any, told: Any) -> None:
    """The measured value follows from the facets."""
    shares = [facet.share for facet in told.facets]
    counts = told.counts()
    match told.unit, kind.is_distance:
        case ("elements" | "shingles" | "bits" | "squares", False):
            amounts = [
                [1 if kind.name == "text" else side or 0 for side in (facet.left, facet.right)]
                if facet.left and facet.right
                else [0, (facet.left or facet.right) if kind.name in ("bag", "weighted") else 1]
                for facet in told.facets
            ]
            least, most = (sum(f(pair) for pair in amounts) for f in (min, max))
            expected = (
                least / (least + most)
                if kind.name == "bag" and kind.union == "sum"
                else least / most
            )
            assert told.value == pytest.approx(expected)
        case ("bits", True):
            assert told.value == len(told.differing)
        case ("minutiae", False):
            assert told.value == counts["common"] / len(shares)
        case ("fields", False):
            weights = sum(facet.weight for facet in told.facets)
            points = sum(facet.weight * facet.share for facet in told.facets)
            assert told.value == pytest.approx(points / weights)
        case ("rows", False):
            assert told.value == counts["common"] / len(shares)
        case ("components", True):
            assert len(shares) == kind.dimension
        case ("runs of characters", _):
            texts = (
                "".join(side or "" for side in sides)
                for sides in zip(*((facet.left, facet.right) for facet in told.facets), strict=True)
            )
            assert tuple(texts) == told.items
        case _:
            raise AssertionError(told.unit)


@given(
    st.tuples(TEXTS, TEXTS),
    st.sampled_from(SHINGLES),
    st.booleans(),
    st.sampled_from(["collapse", "keep"]),
    st.tuples(
        st.sampled_from(["NFC", "NFKD", "keep"]), st.lists(st.sampled_from(IGNORED), unique=True)
    ),
)
def test_labels_of_shingles_are_equal_as_their_symbols_are(
    texts: tuple[str, str], shingles: Any, lowercase: Any, white_space: Any, form: Any
) -> None:
    unicode, ignore = form
    words = "runs" if isinstance(shingles, simdb.CharacterShingles) else "unicode"
    kind = simdb.Text(shingles, lowercase, white_space, unicode, ignore, words)  # type: ignore[arg-type]
    items = kind.make_items(b"secret")
    labels: dict[Any, int] = {}
    for text in texts:
        stored = items.encode(text)
        symbols = items.symbols([stored]).values.tolist()
        for label, symbol in zip(items.labels(stored), symbols, strict=True):
            assert labels.setdefault(label.what, symbol) == symbol
            if label.span is not None:
                begin, end = label.span
                # White space at the border of a run that combines is not told apart.
                of_text = unicodedata.normalize("NFKD", html.unescape(text[begin:end])).casefold()
                of_text = re.sub("[12]", "0", of_text) if "digits" in ignore else of_text
                what = unicodedata.normalize("NFKD", str(label.what)).casefold()
                letters = re.sub(r"[\W_]+", "", what)
                assert set(letters) <= set(of_text)
    assert len(set(labels.values())) == len(labels)


@example(("abcdefghijklm", "nopqrstuvwxyz"), SHINGLES[0], False, 3)
@given(st.tuples(TEXTS, TEXTS), st.sampled_from(SHINGLES), st.booleans(), st.integers(0, 5))
def test_what_is_told_of_texts_is_as_of_all_their_shingles(
    texts: tuple[str, str], shingles: Any, lowercase: Any, most: int
) -> None:
    kind = simdb.Text(shingles, lowercase)
    items = kind.make_items(b"secret")
    pair = [items.encode(text) for text in texts]
    found, whole = kind.evidence(items, *pair), SymbolKind.evidence(kind, items, *pair)
    told, every = found.facets, Facets(whole.facets)
    assert isinstance(told, Facets)
    for number in (most, None):
        assert told.differing(number) == every.differing(number)
    assert (told.counts(), len(told)) == (every.counts(), len(every))
    assert told.count_differing() == every.count_differing()
    assert tuple(told) == whole.facets
    assert (told == every, hash(told)) == (True, hash(every))
    assert {symbol: found.name(symbol) for symbol in whole.names} == whole.names


def test_shingles_have_their_places_in_the_text_as_it_was_given(tmp_path: Path) -> None:
    kind = simdb.Text(simdb.WordShingles(2), lowercase=True)
    with simdb.open(tmp_path / "s.simdb") as db:
        texts = db.collection("t", kind, threshold="0.3", exact_floor="0.3")
        texts.add("a", "The  Big rede\u0301 fox")
        texts.add("b", "a big rede\u0301 fox, the big")
        told = texts.explain_pair("a", "b")
        places = {facet.what: (facet.left, facet.right) for facet in told.facets}
        assert places["the big"] == (((0, 8),), ((17, 24),))
        assert places["big red\u00e9"] == (((5, 14),), ((2, 11),))
        assert (told.left, told.right, told.unit) == ("a", "b", "shingles")
        for facet in told.common:
            for text, spans in zip(told.items, (facet.left, facet.right), strict=True):
                for begin, end in spans:
                    assert facet.what[:2] == text[begin:end].lower()[:2]
        assert any("rare shingle" in name for name in told.met_by)
        assert "probability" in str(told)
        with pytest.raises(KeyNotFoundError):
            texts.explain_pair("a", "nothing")
        with pytest.raises(KeyNotFoundError):
            texts.explain_match("text", "nothing")


def test_couples_of_minutiae_are_as_many_as_the_measure_counts() -> None:
    (examples, *_) = simdb.Fingerprint.examples()
    items, measure = examples.kind.make_items(b""), examples.kind.make_measure()
    assert isinstance(measure, FingerprintMeasure)
    prints = [[(20.0, 20.0, 30.0)], [(30.0, 40.0, 300.0)], *examples.items[:2], *examples.near[:2]]
    for one in prints:
        for other in prints:
            two = items.features([items.encode(one), items.encode(other)])
            couples = measure.couples(two)
            compared = measure.compare_pairs(two, np.array([0]), np.array([1]))
            assert sum(place >= 0 for place in couples) == compared.numerators[0]
            taken = [place for place in couples if place >= 0]
            assert len(set(taken)) == len(taken)


def test_a_kind_without_facets_is_explained_by_its_value(tmp_path: Path) -> None:
    class Plain(kinds.Items):
        def encode(self, item: Any) -> bytes:
            return bytes(item)

        def decode(self, data: Any) -> Any:
            return data

        def features(self, items: Any) -> Any:
            return items

    assert simdb.Set().evidence(Plain(), b"", b"") == Evidence()
    assert kinds.Kind().evidence(Plain(), b"", b"") == Evidence()


@pytest.mark.parametrize(("missing", "differing"), [("ignore", 0), (0, 1)])
def test_a_field_that_both_lack_differs_only_where_that_counts(tmp_path, missing, differing):
    fields = [simdb.Field("name", weight=2), simdb.Field("city", weight=2, missing=missing)]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Record(fields), threshold=0.4)
        collection.add_many([(1, {"name": "Anna Smith"}), (2, {"name": "Anna Smith"})])
        explained = collection.explain_pair(1, 2)
    told = {"common": 1, "different": differing, "only_left": 0, "only_right": 0}
    assert explained.counts() == told
    assert len(explained.differing) == differing


def test_values_that_agree_wholly_are_common_whatever_points_their_field_gives(tmp_path):
    """Learnt levels may be evidence against a match even where values are equal, or for one."""
    against = simdb.Field("town", weight=300, compare="exact", levels=[(1, 200)], missing=300)
    for_one = simdb.Field("name", weight=400, compare="exact", levels=[(1, 400), (0, 100)])
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Record([for_one, against], ["town"]), threshold=0.1)
        collection.add_many(enumerate([{"name": "p", "town": "ulm"}, {"name": "q", "town": "ulm"}]))
        told = collection.explain_pair(0, 1)
    assert [facet.what for facet in told.common] == ["town"]
    assert [facet.what for facet in told.differing] == ["name"]
    assert (told.counts()["common"], told.counts()["different"]) == (1, 1)
    assert "'name': 'p' and 'q' (100.00 of 400)" in str(told)


def test_a_value_that_many_have_is_common_though_it_earns_less(tmp_path):
    town = simdb.Field("town", weight=100, compare="exact", frequent={"york": 50})
    kind = simdb.Record([simdb.Field("name", weight=100), town], ["name"])
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=0.4)
        collection.add_many((key, {"name": "ann", "town": key[:4]}) for key in ("york", "york2"))
        collection.add("bath", {"name": "ann", "town": "bath"})
        alike, unlike = (collection.explain_pair("york", key) for key in ("york2", "bath"))
    assert alike.similarity == 0.75
    assert (alike.counts()["common"], alike.differing) == (2, ())
    assert "'town': 'york' in both, which many have (50.00 of 100)" in str(alike)
    (frequent,) = alike.to_dict()["frequent"]
    assert (frequent["left"], frequent["share"]) == ("york", 0.5)
    assert "frequent" not in unlike.to_dict()
    assert [facet.what for facet in unlike.differing] == ["town"]


@pytest.mark.parametrize("sketch", ["fast", "classical"])
def test_the_probability_of_a_pair_is_that_of_being_a_candidate(
    tmp_path: Path, sketch: Any
) -> None:
    """Far below the bound most pairs of a bucket agree in too few rows, and are no candidates."""
    generator = np.random.default_rng(1)
    rows = []
    for pair in range(400):
        drawn = generator.integers(0, 2**62, 30).tolist()
        rows += [(2 * pair, drawn[:25]), (2 * pair + 1, drawn[:20] + drawn[25:])]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.collection("sets", simdb.Set(), sketch=sketch, seed=1)
        sets.add_many(rows)
        told = [sets.explain_pair(2 * pair, 2 * pair + 1) for pair in range(400)]
        (probability,) = {one.probability for one in told}
        assert probability is not None
        assert probability < sets.plan.expected_recall(2 / 3) - 0.05
        met = sum(bool(one.met) for one in told) / 400
    assert met == pytest.approx(probability, abs=4 * 0.023)


def test_pairs_of_a_cascade_are_explained_too(tmp_path):
    cascade = simdb.And(2, simdb.Or(20, simdb.And(4)))
    with simdb.open(tmp_path / "s.simdb") as database:
        sets = database.collection("c", simdb.Set(), threshold=0.8, cascade=cascade, seed=1)
        sets.add_many([(1, range(100)), (2, range(20, 110))])
        told = sets.explain_pair(1, 2)
        assert told.similarity is not None
        assert told.probability is not None
        planned = sets.plan.candidate_probability(told.similarity)
        assert 0.9 < told.probability < planned  # which does not ask for rows that agree
