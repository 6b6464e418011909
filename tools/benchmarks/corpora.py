"""The texts that are measured on."""

from __future__ import annotations

import gzip
import json
import random
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from tools.make_corpus import Corpus

PASSAGE_WORDS = 40


def load_texts(files: Iterable[str | Path]) -> list[tuple[str, str]]:
    """Read (key, text) rows from gzipped JSON Lines; the file's name makes the keys different."""
    rows: list[tuple[str, str]] = []
    for path in map(Path, files):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                rows.append((f"{path.name.partition('.')[0]}/{row['id']}", row["text"]))
    return rows


def unseen_texts(count: int, corpus_seed: int, seed: int) -> list[str]:
    """Draw texts that a made corpus does not hold, of its own words and boilerplate.

    Texts of another vocabulary would find every bucket empty.

    Args:
        count: how many.
        corpus_seed: the seed of the corpus, which decides its words and passages.
        seed: another one, from which lengths, sentences and planted copies are drawn.
    """
    corpus = Corpus(count, corpus_seed)
    corpus.seed = seed
    return [text for _, text in corpus.documents()]


def texts_and_passages(count: int, passages: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts, and passages of forty words: half of them cut from one, half from no text."""
    texts = [text for _, text in Corpus(count, seed).documents()]
    generator = random.Random(seed)
    sources = generator.sample(texts, passages // 2)
    sources += unseen_texts(passages - len(sources), seed, seed + 1)
    cut = []
    for words in (source.split() for source in sources):
        begin = generator.randrange(max(1, len(words) - PASSAGE_WORDS))
        cut.append(" ".join(words[begin : begin + PASSAGE_WORDS]))
    return texts, cut


def normalised(text: str) -> str:
    """Return the text as a simdb collection compares it by default, computed the obvious way."""
    return " ".join(unicodedata.normalize("NFC", text).split())
