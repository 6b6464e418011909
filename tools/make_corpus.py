"""Make a corpus with planted near copies, as large as wanted and the same for the same seed.

Documents are as long as those of Reuters-21578, in sentences of Zipf-distributed invented words.
Of them 30 % carry boilerplate (a header, a footer or a paragraph that many share, up to half of
the document), and 2 % are the two halves of near-copy pairs, whose Jaccard similarities on
character 9-shingles are spread over 0.5 to 1. Nothing else in the corpus is that similar but
by boilerplate, which stays well below 0.5.

::

    python tools/make_corpus.py --count 1000000 --output corpus.jsonl --pairs pairs.tsv

or, from a program, ``documents(count, seed)`` and ``planted_pairs(count, seed)``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Words in a document of Reuters-21578 (21,578 bodies, runs between white space): quantiles. The
# least is 10 instead of 0, so that no two documents are equal by chance.
LENGTH_PROBABILITIES = (
    *(0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    *(0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0),
)
LENGTH_WORDS = (
    *(10, 12, 15, 17, 35, 51, 67, 82, 95),
    *(121, 177, 275, 398, 581, 685, 756, 866, 1668),
)
VOCABULARY_SIZE = 60_000
ZIPF_SHIFT = 2.7  # Mandelbrot's correction: the first ranks of real text are flatter than 1/rank
SENTENCE_WORDS = 18
BATCH = 5_000
PLANTED_SHARE = 0.01  # pairs a document: 10,000 in a million
BOILERPLATE_SHARE = 0.3
BOILERPLATE_BLOCKS = 1_000
SHINGLE_SIZE = 9
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
# Per cent, in the order of LETTERS.
LETTER_FREQUENCIES = (
    *(12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.1, 6.0, 4.3, 4.0, 2.8, 2.8),
    *(2.4, 2.4, 2.2, 2.0, 2.0, 1.9, 1.5, 1.0, 0.8, 0.15, 0.15, 0.1, 0.07),
)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """The keys of two near copies, the earlier first, and their true Jaccard similarity."""

    left: str
    right: str
    similarity: float


def jaccard_similarity(left: str, right: str, size: int = SHINGLE_SIZE) -> float:
    """Compute the Jaccard similarity of two texts on character shingles, the obvious way.

    Runs of white space count as one blank, as in a simdb collection by default.
    """
    first, second = (
        {text[i : i + size] for i in range(max(1, len(text) - size + 1))}
        for text in (" ".join(left.split()), " ".join(right.split()))
    )
    return len(first & second) / len(first | second)


def document_key(position: int) -> str:
    """Return the key of the document at a position, counted from 0."""
    return f"d{position}"


class Corpus:
    """A corpus of ``count`` documents, wholly determined by ``count`` and ``seed``."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count = count
        self.seed = seed
        self.pair_count = int(count * PLANTED_SHARE)
        random = np.random.default_rng([seed, 0])
        words = _vocabulary(random)
        capitals = [word.capitalize() for word in words]
        # A word's number plus VOCABULARY_SIZE times (1 if it begins, 2 if it ends a sentence).
        self._forms = [
            *words,
            *capitals,
            *[word + "." for word in words],
            *[word + "." for word in capitals],
        ]
        self._word_table = _zipf_table(VOCABULARY_SIZE, ZIPF_SHIFT, 20)
        self._block_table = _zipf_table(BOILERPLATE_BLOCKS, 0.0, 16)
        block_lengths = random.integers(20, 120, BOILERPLATE_BLOCKS)
        self._blocks = self._passages(random, block_lengths)
        places = random.permutation(count)[: 2 * self.pair_count].reshape(-1, 2)
        self._places = np.sort(places, axis=1)

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield (key, text) in the order of the keys' numbers."""
        planted = dict(zip(self._places.ravel().tolist(), self.planted_texts, strict=True))
        for start in range(0, self.count, BATCH):
            size = min(BATCH, self.count - start)
            for position, text in enumerate(self._batch(start // BATCH, size), start):
                yield document_key(position), planted.get(position, text)

    def planted_pairs(self) -> list[PlantedPair]:
        """Return the planted pairs with their true similarities."""
        texts = self.planted_texts
        return [
            PlantedPair(
                document_key(left),
                document_key(right),
                jaccard_similarity(texts[2 * pair], texts[2 * pair + 1]),
            )
            for pair, (left, right) in enumerate(self._places.tolist())
        ]

    def _passages(self, random: np.random.Generator, lengths: Integers) -> list[list[str]]:
        """Draw one list of words a length, in sentences, each passage ending in a full stop."""
        total = int(lengths.sum())
        numbers = self._word_table[random.integers(0, self._word_table.size, total)]
        ends = random.random(total) < 1 / SENTENCE_WORDS
        stops = np.cumsum(lengths)
        ends[stops - 1] = True
        begins = np.concatenate(([True], ends[:-1]))
        forms = numbers + VOCABULARY_SIZE * (begins + 2 * ends)
        words = list(map(self._forms.__getitem__, forms.tolist()))
        return [words[begin:end] for begin, end in itertools.pairwise(itertools.chain([0], stops))]

    def _batch(self, number: int, size: int) -> Iterator[str]:
        """Draw the texts of one batch, independently of all other batches."""
        random = np.random.default_rng([self.seed, 1, number])
        lengths = _draw_lengths(random, size)
        carries = random.random(size) < BOILERPLATE_SHARE
        shares = random.uniform(0.1, 0.5, size)
        blocks = self._block_table[random.integers(0, self._block_table.size, size)]
        borrowed = np.where(carries, (lengths * shares).astype(np.int64), 0)
        places = random.integers(0, 3, size).tolist()
        passages = self._passages(random, np.maximum(lengths - borrowed, 1))
        for words, take, block, place in zip(
            passages, borrowed.tolist(), blocks.tolist(), places, strict=True
        ):
            text = " ".join(words)
            if not take:
                yield text
                continue
            shared = " ".join(self._blocks[block][:take])
            middle = len(words) // 2
            yield (
                f"{shared}\n\n{text}",
                f"{text}\n\n{shared}",
                f"{' '.join(words[:middle])}\n\n{shared}\n\n{' '.join(words[middle:])}",
            )[place]

    @cached_property
    def planted_texts(self) -> list[str]:
        """The texts of planted pair 0, left and right, then of pair 1, and so on."""
        random = np.random.default_rng([self.seed, 2])
        lengths = np.maximum(_draw_lengths(random, self.pair_count), 30)
        # Neighbouring edits damage common shingles, so that low targets are missed upwards.
        targets = np.minimum(random.uniform(0.47, 1.02, self.pair_count), 1.0)
        texts: list[str] = []
        for words, target in zip(self._passages(random, lengths), targets.tolist(), strict=True):
            texts += (" ".join(words), self._near_copy(random, words, target))
        return texts

    def _near_copy(self, random: np.random.Generator, words: list[str], target: float) -> str:
        """Change a text so that its similarity to the original comes near to ``target``."""
        text = " ".join(words)
        # A replaced word of w letters takes away w + 8 of n shingles and adds about as many:
        # J = (n - d) / (n + d), so d = n (1 - J) / (1 + J).
        lost = len(text) * (1 - target) / (1 + target)
        edits = round(lost / (len(text) / len(words) + SHINGLE_SIZE - 1))
        if edits == 0 or random.random() < 0.3:
            return text[: max(SHINGLE_SIZE, round(len(text) * target))].rstrip()
        changed = list(words)
        numbers = self._word_table[random.integers(0, self._word_table.size, edits)]
        places = random.permutation(len(words))[:edits]
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            changed[place] = self._forms[number]
        return " ".join(changed)


def documents(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the (key, text) rows of the corpus of ``count`` documents."""
    return Corpus(count, seed).documents()


def planted_pairs(count: int, seed: int = 0) -> list[PlantedPair]:
    """Return the near copies planted in the corpus of ``count`` documents."""
    return Corpus(count, seed).planted_pairs()


def _vocabulary(random: np.random.Generator) -> list[str]:
    """Invent different words, the frequent ones shorter, with English letter frequencies."""
    ranks = np.arange(VOCABULARY_SIZE * 2)
    lengths = 2 + (np.log(ranks + 1) * 0.45).astype(np.int64) + random.integers(0, 2, ranks.size)
    probabilities = np.array(LETTER_FREQUENCIES) / sum(LETTER_FREQUENCIES)
    letters = "".join(
        random.choice(list(LETTERS), size=int(lengths.sum()), p=probabilities).tolist()
    )
    stops = [0, *np.cumsum(lengths).tolist()]
    words = dict.fromkeys(letters[begin:end] for begin, end in itertools.pairwise(stops))
    return list(words)[:VOCABULARY_SIZE]


def _zipf_table(size: int, shift: float, bits: int) -> Integers:
    """Tabulate a Zipf distribution: a uniform index gives rank r with probability ~ 1/r."""
    weights = 1.0 / (np.arange(1, size + 1) + shift)
    cumulative = np.cumsum(weights) / weights.sum()
    steps = (np.arange(1 << bits) + 0.5) / (1 << bits)
    return np.searchsorted(cumulative, steps).astype(np.int64)


def _draw_lengths(random: np.random.Generator, size: int) -> Integers:
    """Draw document lengths in words by the inverse of the measured distribution."""
    drawn = np.interp(random.random(size), LENGTH_PROBABILITIES, LENGTH_WORDS)
    return drawn.astype(np.int64)


def main() -> None:
    """Write the corpus and its planted pairs to files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="JSON Lines; standard output if not given")
    parser.add_argument("--pairs", type=Path, help="tab-separated: left, right, similarity")
    arguments = parser.parse_args()
    corpus = Corpus(arguments.count, arguments.seed)
    rows = (json.dumps({"id": key, "text": text}) + "\n" for key, text in corpus.documents())
    if arguments.output is None:
        sys.stdout.writelines(rows)
    else:
        with arguments.output.open("w", encoding="utf-8") as file:
            file.writelines(rows)
    if arguments.pairs is not None:
        with arguments.pairs.open("w", encoding="utf-8") as file:
            for pair in corpus.planted_pairs():
                file.write(f"{pair.left}\t{pair.right}\t{pair.similarity:.6f}\n")


if __name__ == "__main__":
    main()
