"""Texts, corpora and settings that tests draw from, and the answers brute force gives for them."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any, Literal

from hypothesis import strategies

import simdb
from simdb.answers.choose import Question, choose
from simdb.work import Work
from tests.support import oracle
from tests.support.similarities import jaccard

# Pairs at the threshold are missed with probability (1 - 1/4)^40 = 1e-5: never, with these seeds.
SURE: dict[str, Any] = {"threshold": 0.5, "bands": 40, "rows": 2, "seed": 1}

SHINGLES: list[simdb.CharacterShingles | simdb.WordShingles | simdb.StopWordShingles] = [
    simdb.CharacterShingles(4),
    simdb.WordShingles(2),
    simdb.StopWordShingles(1, stop_words=("The", "of", "É", "straße")),
]
KINDS = [
    simdb.Text(shingles, lowercase=lowercase, white_space=white_space, unicode=unicode)  # type: ignore[arg-type]
    for shingles, lowercase, white_space, unicode in product(
        SHINGLES, (False, True), ("collapse", "keep"), ("NFC", "NFD", "NFKC", "NFKD", "keep")
    )
]

_PLAIN = ["the", "of", "and", "news", "market", "rose", "fell", "on", "Monday", "Tuesday"]
_PLAIN += ["price", "oil", "bank", "The", "Of"]
_ODD = ["café", "cafe\u0301", "É", "é", "ﬁsh", "fish", "Straße", "straße", "STRASSE", "İstanbul"]
_ODD += ["x²", "x2", "東京", "都市", "🙂", "naïve", "Å", "\u212b", "o'clock", "3.14", "a_b", "ﾊﾝ"]
_BLANKS = [" ", " ", " ", "  ", "\t", "\n", "\u00a0", " \u2003", ", ", ". "]


def odd_text(generator: random.Random, words: int) -> str:
    """Make a text with accents, ligatures, odd white space and letters of several scripts."""
    text = "".join(
        generator.choice(_ODD if generator.random() < 0.3 else _PLAIN) + generator.choice(_BLANKS)
        for _ in range(words)
    )
    return text if generator.random() < 0.5 else text.strip()


def near_copy(generator: random.Random, text: str, changes: int) -> str:
    """Exchange words and white space, letter case or normal form of a text."""
    words = text.split(" ")
    for _ in range(changes):
        words[generator.randrange(len(words))] = generator.choice(_PLAIN + _ODD)
    changed = " ".join(words)
    treatment = generator.randrange(5)
    if treatment == 0:
        changed = changed.upper()
    elif treatment == 1:
        changed = unicodedata.normalize("NFD", changed)
    elif treatment == 2:
        changed = changed.replace(" ", generator.choice(["  ", "\n", "\u00a0"]))
    return changed


def odd_corpus(seed: int, originals: int = 7) -> list[str]:
    """Make texts, near copies of them, exact copies, and the empty and the tiny."""
    generator = random.Random(seed)
    texts = ["", " ", "a", "the"]
    for _ in range(originals):
        text = odd_text(generator, generator.randint(3, 40))
        texts.append(text)
        copies = generator.randrange(3)
        texts += [near_copy(generator, text, generator.randrange(4)) for _ in range(copies)]
        if generator.random() < 0.3:
            texts.append(text)
    generator.shuffle(texts)
    return texts


def set_text(numbers: Iterable[int]) -> str:
    """Write a set of numbers as a text that one-word shingles read as that set."""
    return " ".join(f"w{number}" for number in numbers)


def pair_of_similarity(
    generator: random.Random, similarity: Fraction, union: int, first: int
) -> tuple[str, str]:
    """Make two texts whose sets of words have exactly this similarity (``union`` a multiple)."""
    overlap = similarity * union
    assert overlap.denominator == 1, (similarity, union)
    words = list(range(first, first + union))
    generator.shuffle(words)
    common, rest = words[: int(overlap)], words[int(overlap) :]
    cut = generator.randint(0, len(rest))
    return set_text(common + rest[:cut]), set_text(common + rest[cut:])


def cluster_corpus(seed: int, clusters: int, size: int, words: int = 30) -> list[tuple[int, str]]:
    """Make clusters of texts that share most of their words, a chain from similar to unlike.

    Returns (cluster, text); texts of different clusters have no word in common.
    """
    generator = random.Random(seed)
    rows: list[tuple[int, str]] = []
    for cluster in range(clusters):
        base = [cluster * 10_000 + number for number in range(words)]
        for member in range(generator.randint(1, size)):
            if member and generator.random() < 0.2:
                rows.append((cluster, generator.choice([t for c, t in rows if c == cluster])))
                continue
            rows.append((cluster, set_text(base)))
            for _ in range(generator.randint(0, 8)):
                base[generator.randrange(words)] = cluster * 10_000 + generator.randint(100, 9_000)
    generator.shuffle(rows)
    return rows


# ------------------------------------------------------------------------------ brute force


def similar_to(
    probe: str, stored: Iterable[tuple[Any, str]], kind: simdb.Text, threshold: Fraction
) -> list[tuple[Any, float]]:
    """Return what a search that misses nothing answers: by falling similarity, then insertion."""
    similarities = [(key, oracle.text_similarity(probe, text, kind)) for key, text in stored]
    similar = [(key, value) for key, value in similarities if value >= threshold]
    return [(key, float(value)) for key, value in sorted(similar, key=lambda match: -match[1])]


def similar_pairs(
    stored: Sequence[tuple[Any, str]], kind: simdb.Text, threshold: Fraction
) -> dict[tuple[Any, Any], float]:
    """Return all similar pairs of stored items, the earlier one on the left."""
    sets = [(key, oracle.shingle_set(text, kind)) for key, text in stored]
    pairs = (
        ((left, right), jaccard(left_set, right_set))
        for (left, left_set), (right, right_set) in combinations(sets, 2)
    )
    return {keys: float(value) for keys, value in pairs if value >= threshold}


def connected(keys: Sequence[Any], pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    """Return the groups of two keys and more, in the order of ``keys``."""
    group = {key: {key} for key in keys}
    for left, right in pairs:
        if group[left] is not group[right]:
            group[left] |= group[right]
            for key in group[right]:
                group[key] = group[left]
    seen: set[Any] = set()
    groups = []
    for key in keys:
        if key not in seen and len(group[key]) > 1:
            groups.append(tuple(other for other in keys if other in group[key]))
            seen |= group[key]
    return groups


def found_pairs(collection: simdb.CollectionView, **options: Any) -> dict[tuple[Any, Any], float]:
    """Return the pairs of a collection, each of which must come once."""
    pairs = list(collection.pairs(**options))
    found = {(pair.left, pair.right): pair.value for pair in pairs}
    assert len(found) == len(pairs), "a pair came twice"
    return found


def found_groups(collection: simdb.CollectionView, **options: Any) -> list[tuple[Any, ...]]:
    """Return the groups of a collection."""
    groups = list(collection.groups(**options))
    assert all(group.representative == group.keys[0] for group in groups)
    return [group.keys for group in groups]


# ------------------------------------------------------------------------------- Hypothesis

_VOCABULARY = ["a", "b", "c", "d", "e", "f"]

small_keys = strategies.one_of(
    strategies.integers(-2, 5), strategies.sampled_from(["0", "1", "é", "k" * 500])
)
small_texts = strategies.lists(strategies.sampled_from(_VOCABULARY), max_size=7).map(" ".join)


def work_of(collection: simdb.Collection, verb: Literal["pairs", "groups"]) -> Work:
    """What finding all pairs or groups by the buckets of a collection costs."""
    with collection._opened() as opened:
        method = choose(opened.settings, Question(verb))
        assert method.guarantee == "probable"
        if verb == "groups":
            method.groups(opened)
        else:
            for _ in method.pairs(opened):
                pass
        return opened.work
