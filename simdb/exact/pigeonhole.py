"""All pairs of bit vectors within a Hamming distance: no two differ in more chunks than in bits.

The bits are dealt into one chunk more than may differ, so two vectors that are near enough are
equal in a chunk at least (the pigeonhole principle; for hashes Manku, Jain and Das Sarma, WWW
2007). The vectors are sorted by each chunk in turn, those that are equal there are compared in
full, and a pair comes out in the first chunk in which it is equal, so exactly once. No index is
kept: to sort is as quick as to read one.

Which bits are in which chunk changes no answer, only how many pairs are looked at. Bits that are
set in about half of the vectors tell most, so these are dealt out first, one to each chunk in turn.
Where vectors have so little variety that the chunks would propose more pairs than there are, all
are compared with all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simdb import kernels
from simdb.arrays import Float64s, Int64s, UInt16s, UInt64s
from simdb.ragged import read_only
from simdb.work import Work

CHUNK_BITS = 15  # of a chunk to sort by: a word, with the marker of ``sampled_bits``
SAMPLED_WORDS = 8_192  # by which bits are told that are set in half of the vectors
ROOM = 131_072  # pairs found at a time
WORDS_AT_ONCE = 2**27  # looked at, however few pairs are found: a tenth of a second or two


class Near(NamedTuple):
    """Pairs of vectors: rows on the left and on the right, and how far they are apart."""

    left: Int64s
    right: Int64s
    distances: Int64s | Float64s


def share_looked_at(length: int, most: int) -> float:
    """Estimate which share of all pairs of random vectors is compared in full."""
    bits = min(CHUNK_BITS, length // (most + 1))
    return min(1.0, (most + 1) * 2.0**-bits)


def near_pairs(ones: UInt64s, others: UInt64s | None, most: int, work: Work) -> Iterator[Near]:
    """Find every pair of vectors that differ in ``most`` bits or fewer, each once; exact.

    Of ``ones``, (n, words) and contiguous, with ``others``, or with later ones if these are None.
    OperationInterruptedError: the budget of the work does not reach for a chunk.
    """
    sides = [ones] if others is None else [ones, others]
    if not all(map(len, sides)):
        return
    chunks = _chunks(ones, most)
    keys = [[_keys(side, chunk) for side in sides] for chunk in chunks]
    met = [_met(*of_chunk) for of_chunk in keys]
    total = len(ones) * (len(ones) - 1) // 2 if others is None else len(ones) * len(others)
    if sum(met) > total:
        chunks, met = [np.empty(0, np.int64)], [total]
        keys = [[_keys(side, chunks[0]) for side in sides]]
    masks = np.stack([_mask(chunk, ones.shape[1]) for chunk in chunks])
    for number, of_chunk in enumerate(keys):
        work.spend(met[number])
        yield from _near_in_chunk(sides, of_chunk, masks[:number], most)


def _chunks(vectors: UInt64s, most: int) -> list[Int64s]:
    """Deal the positions of bits into ``most`` + 1 chunks, those first that tell most."""
    sample = vectors[:: max(1, vectors.size // SAMPLED_WORDS)]
    shares = np.unpackbits(sample.astype("<u8").view(np.uint8), axis=1).mean(axis=0)
    positions = np.argsort(np.abs(shares - 0.5), kind="stable")
    positions = positions[(shares[positions] > 0) & (shares[positions] < 1)]
    if share_looked_at(positions.size, most) == 1:
        return [np.empty(0, np.int64)]  # all with all
    # Copies, since kernels are compiled for whole arrays.
    return [positions[chunk :: most + 1][:CHUNK_BITS].copy() for chunk in range(most + 1)]


def _mask(chunk: Int64s, words: int) -> UInt64s:
    bits = np.zeros(64 * words, np.uint8)
    bits[chunk] = 1
    mask: UInt64s = np.packbits(bits).view("<u8").astype(np.uint64)
    return mask


def _keys(vectors: UInt64s, chunk: Int64s) -> UInt16s:
    keys: UInt16s = kernels.bits.sampled_bits(read_only(vectors), chunk, 1)[:, 0]
    return keys


def _met(keys: UInt16s, others: UInt16s | None = None) -> int:
    """Count the pairs that are equal in a chunk."""
    counts = np.bincount(keys, minlength=2**16)
    if others is None:
        return int((counts * (counts - 1) // 2).sum())
    return int((counts * np.bincount(others, minlength=2**16)).sum())


def _near_in_chunk(
    sides: list[UInt64s], keys: list[UInt16s], earlier: UInt64s, most: int
) -> Iterator[Near]:
    orders = [np.argsort(of_side, kind="stable") for of_side in keys]
    ones, others = (sides[side][orders[side]] for side in (0, -1))
    left_keys, right_keys = (keys[side][orders[side]] for side in (0, -1))
    stops = np.searchsorted(right_keys, left_keys, side="right")
    if len(sides) == 1:
        starts = np.arange(1, stops.size + 1)
    else:
        starts = np.searchsorted(right_keys, left_keys)
    state = np.zeros(2, np.int64)
    while state[0] < stops.size:
        left, right, distances = (np.empty(ROOM, np.int64) for _ in range(3))
        count = kernels.bits.near_pairs(
            ones,
            others,
            starts,
            stops,
            earlier,
            most,
            WORDS_AT_ONCE,
            state,
            left,
            right,
            distances,
        )
        yield Near(orders[0][left[:count]], orders[-1][right[:count]], distances[:count].copy())
