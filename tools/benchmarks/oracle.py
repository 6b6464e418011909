"""Every pair of texts above a threshold, found exactly and without any code of simdb.

A prefix filter (MMDS 3.9.4) proposes pairs and the intersection of the whole sets decides, on
64-bit hashes of the shingles; integers only, the threshold being a fraction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tools.benchmarks.corpora import normalised

SHINGLE_SIZE = 9
BASE = np.uint64(0x2545F4914F6CDD1D)
BUCKET_BITS = 24  # shingles are ranked by how often their bucket occurs: any fixed order is right

Hashes = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]


def shingle_hashes(text: str, size: int = SHINGLE_SIZE) -> Hashes:
    """Return the sorted, distinct hashes of a text's character shingles."""
    encoded = normalised(text).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(encoded, "<u4").astype(np.uint64) + np.uint64(1)
    if codes.size == 0:
        return codes
    length = min(size, codes.size)
    hashes = np.zeros(codes.size - length + 1, np.uint64)
    for place in range(length):
        hashes = hashes * BASE + codes[place : place + hashes.size]
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(32)
    return np.unique(hashes)


def exact_pairs(
    texts: Sequence[str], threshold: Fraction, size: int = SHINGLE_SIZE
) -> dict[tuple[int, int], float]:
    """Map every pair of positions whose Jaccard similarity reaches the threshold to it.

    Pairs are (lower, higher) position. Texts without a shingle are in no pair.
    """
    sets = [shingle_hashes(text, size) for text in texts]
    found = {}
    for left, right in _candidates(sets, threshold).tolist():
        overlap = np.intersect1d(sets[left], sets[right], assume_unique=True).size
        union = sets[left].size + sets[right].size - overlap
        if overlap * threshold.denominator >= union * threshold.numerator:
            found[left, right] = overlap / union
    return found


def cached_exact_pairs(
    folder: Path, texts: Sequence[str], threshold: Fraction
) -> dict[tuple[int, int], float]:
    """Compute ``exact_pairs`` once for the same texts and keep the answer in a folder."""
    digest = hashlib.blake2b(f"{threshold} {SHINGLE_SIZE}".encode(), digest_size=12)
    for text in texts:
        digest.update(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest())
    path = folder / f"pairs-{digest.hexdigest()}.npz"
    if not path.exists():
        found = exact_pairs(texts, threshold)
        pairs = np.array(list(found), np.int64).reshape(-1, 2)
        np.savez(path, pairs=pairs, similarities=np.array(list(found.values()), np.float64))
    with np.load(path) as kept:
        pairs, similarities = kept["pairs"].tolist(), kept["similarities"].tolist()
    return {(left, right): value for (left, right), value in zip(pairs, similarities, strict=True)}


def _candidates(sets: Sequence[Hashes], threshold: Fraction) -> Integers:
    """Return pairs of positions that share a symbol of their prefixes, each pair once."""
    shift = np.uint64(64 - BUCKET_BITS)
    frequencies = np.zeros(1 << BUCKET_BITS, np.int64)
    for hashes in sets:
        np.add.at(frequencies, hashes >> shift, 1)
    symbols, owners = [], []
    for position, hashes in enumerate(sets):
        if hashes.size == 0:
            continue
        frequency = frequencies[hashes >> shift]
        needed = -(-hashes.size * threshold.numerator // threshold.denominator)
        prefix = np.argsort(frequency, kind="stable")[: hashes.size - needed + 1]
        shared = prefix[frequency[prefix] > 1]
        symbols.append(hashes[shared])
        owners.append(np.full(shared.size, position, np.int64))
    if not symbols:
        return np.empty((0, 2), np.int64)
    return _pairs_within(
        np.concatenate(symbols), np.concatenate(owners), np.array([s.size for s in sets]), threshold
    )


def _pairs_within(
    symbols: Hashes, owners: Integers, sizes: Integers, threshold: Fraction
) -> Integers:
    """Pair the owners of equal symbols whose sizes do not exclude each other (3.9.3)."""
    order = np.lexsort((owners, symbols))
    symbols, owners = symbols[order], owners[order]
    width = np.int64(sizes.size)
    packed: Integers = np.empty(0, np.int64)
    rows = np.arange(symbols.size)
    distance = 0
    while True:
        distance += 1
        rows = rows[rows + distance < symbols.size]
        rows = rows[symbols[rows] == symbols[rows + distance]]
        if rows.size == 0:
            break
        left, right = owners[rows], owners[rows + distance]
        shorter = np.minimum(sizes[left], sizes[right])
        longer = np.maximum(sizes[left], sizes[right])
        possible = shorter * threshold.denominator >= longer * threshold.numerator
        packed = np.union1d(packed, left[possible] * width + right[possible])
    return np.stack((packed // width, packed % width), axis=1)
