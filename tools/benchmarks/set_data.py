"""The sets that joins are measured on: real ones, and as many made ones as wanted.

Every element, be it a number or a word shingle, is given a 64-bit symbol of its own, one to one, so
that all programs compare the very same sets and no hash decides anything.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tools.benchmarks.corpora import normalised

SHINGLE_WORDS = 3
LEAST_ELEMENTS = 5
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying is one to one modulo 2^64
UNIVERSE = 2**20
COPY_SHARE = 0.01
BATCH = 10_000

Symbols = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file of sets.

    Attributes:
        name: what to call it.
        file: its path in the data folder.
        kind: ``"texts"`` become sets of lower-cased word 3-shingles; of ``"numbers"``, one set a
            line, those of 5 or more elements take part.
        thresholds: at which it is joined.
    """

    name: str
    file: str
    kind: Literal["texts", "numbers"]
    thresholds: tuple[str, ...]

    def rows(self, folder: Path, most: int | None = None) -> list[Any]:
        """Return the first, or all, of the items that take part: texts, or lists of integers."""
        with gzip.open(folder / self.file, "rt", encoding="utf-8") as lines:
            if self.kind == "texts":
                texts = (json.loads(line)["text"] for line in lines)
                long = (text for text in texts if len(_words(text)) >= SHINGLE_WORDS)
                return list(islice(long, most))
            sets = (sorted(set(map(int, line.split()))) for line in lines)
            return list(islice((one for one in sets if len(one) >= LEAST_ELEMENTS), most))

    def elements(self, item: str | list[int]) -> set[str] | set[int]:
        """Return the elements of an item, the obvious way."""
        if not isinstance(item, str):
            return set(item)
        words = _words(item)
        return {" ".join(words[i : i + SHINGLE_WORDS]) for i in range(len(words) - 2)}

    def prepare(self, folder: Path, work: Path) -> Path:
        """Write the sets as arrays into the work folder, unless they are there; return where."""
        path = work / f"sets-{self.name}-{(folder / self.file).stat().st_size}.npz"
        if not path.exists():
            values, offsets = as_symbols(map(self.elements, self.rows(folder)))
            np.savez(path, values=values, offsets=offsets)
        return path


DATA_SETS = (
    DataSet("reuters21578", "text/reuters21578.jsonl.gz", "texts", ("0.9", "0.8")),
    DataSet("newsgroups20", "text/newsgroups20.jsonl.gz", "texts", ("0.9", "0.8")),
    DataSet("retail", "sets/retail.txt.gz", "numbers", ("0.8", "0.6")),
    DataSet("kosarak", "sets/kosarak.txt.gz", "numbers", ("0.8", "0.6")),
    DataSet("mushroom", "sets/mushroom.txt.gz", "numbers", ("0.8", "0.6")),
)


def as_symbols(sets: Iterable[Iterable[Any]]) -> tuple[Symbols, Integers]:
    """Give every element a symbol; return the symbols of all sets, and n + 1 offsets."""
    numbers: dict[Any, int] = {}
    ends = [0]
    members: list[int] = []
    for elements in sets:
        members.extend(numbers.setdefault(element, len(numbers)) for element in elements)
        ends.append(len(members))
    return np.array(members, np.uint64) * SPREAD, np.array(ends, np.int64)


def load_symbols(path: str | Path) -> tuple[Symbols, Integers]:
    """Read what ``DataSet.prepare`` wrote."""
    with np.load(path) as kept:
        return kept["values"], kept["offsets"]


def pack_pairs(left: npt.ArrayLike, right: npt.ArrayLike, count: int) -> Integers:
    """Return pairs of positions below ``count`` as one sorted number each."""
    one, other = np.asarray(left, np.int64), np.asarray(right, np.int64)
    return np.sort(np.minimum(one, other) * count + np.maximum(one, other))


@dataclass(frozen=True, slots=True)
class Settled:
    """What two answers to one join have in common, every difference decided in fractions.

    Attributes:
        pairs: of our answer.
        missed, wrong: true pairs that ours lacks, and pairs of ours that are none.
        peer_missed, peer_wrong: the same of the peer's.
        examples: similarities of some of the pairs in dispute.
    """

    pairs: int
    missed: int
    wrong: int
    peer_missed: int
    peer_wrong: int
    examples: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether ours is right wherever the answers differ."""
        return not self.missed and not self.wrong

    def __str__(self) -> str:
        if not any((self.missed, self.wrong, self.peer_missed, self.peer_wrong)):
            return f"{self.pairs:,} pairs, equal"
        return (
            f"{self.pairs:,} pairs; the peer lacks {self.peer_missed} true ones and has "
            f"{self.peer_wrong} false ones, simdb {self.missed} and {self.wrong}; "
            f"J = {', '.join(self.examples)}"
        )


def settle(
    sets: tuple[Symbols, Integers], threshold: Fraction, own: Integers, peer: Integers
) -> Settled:
    """Compare two answers, packed by ``pack_pairs``, and compute every pair in dispute.

    A pair that an answer has twice counts as a false one of it.
    """
    values, offsets = sets
    count = offsets.size - 1
    counts = {"missed": 0, "wrong": 0, "peer_missed": 0, "peer_wrong": 0}
    for side, answer in (("wrong", own), ("peer_wrong", peer)):
        counts[side] += answer.size - np.unique(answer).size
    examples: list[str] = []
    for packed in np.setxor1d(own, peer).tolist():
        left, right = (
            set(values[offsets[place] : offsets[place + 1]].tolist())
            for place in divmod(packed, count)
        )
        similarity = Fraction(len(left & right), len(left | right))
        is_own = bool(np.isin(packed, own))
        if similarity >= threshold:
            counts["peer_missed" if is_own else "missed"] += 1
        else:
            counts["wrong" if is_own else "peer_wrong"] += 1
        if len(examples) < 3:
            examples.append(f"{len(left & right)}/{len(left | right)}")
    return Settled(own.size, **counts, examples=tuple(examples))


def made_sets(count: int, seed: int = 0) -> Iterator[Integers]:
    """Yield sets of integers whose frequencies fall as 1 / rank; 1 % are near copies.

    They have 5 to 45 elements of 2^20, repeats dropped. A near copy is one of another set of its
    batch of 10,000, of which each element is left out with a probability of up to 20 %.
    """
    for start in range(0, count, BATCH):
        random = np.random.default_rng([seed, start])
        size = min(BATCH, count - start)
        sizes = random.integers(5, 46, size)
        drawn = np.exp(random.random(int(sizes.sum())) * np.log(UNIVERSE)).astype(np.int64)
        sets = [np.unique(part) for part in np.split(drawn, np.cumsum(sizes)[:-1])]
        for place in np.flatnonzero(random.random(size) < COPY_SHARE).tolist():
            source = sets[random.integers(0, size)]
            kept = random.random(source.size) >= random.uniform(0, 0.2)
            sets[place] = source[kept] if kept.any() else source
        yield from sets


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", normalised(text).lower())
