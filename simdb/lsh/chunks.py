"""Chunks of bit vectors: buckets that miss no vector within a Hamming distance (MMDS 3.9, 3.7.1).

The bits are dealt into chunks, no bit into two. Each chunk has a radius, and the radii are such
that vectors of which *every* chunk differs in more bits than its radius differ in more than d bits
in all: the sum of (radius + 1) over the chunks is d + 1. So vectors at most d bits apart differ in
some chunk by no more than its radius (the pigeonhole principle; with radii Norouzi, Punjani and
Fleet, CVPR 2012; without, for d + 1 chunks, Manku, Jain and Das Sarma, WWW 2007). An item has one
bucket a chunk. A probe looks into the buckets of all values within the radius of its own chunk.

Bits of a chunk that are left out change nothing of this: fewer bits differ in fewer places.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt16s, UInt64s
from simdb.errors import ConfigurationError
from simdb.late import cached_property
from simdb.lsh.curves import WithinCurve
from simdb.lsh.family import BandedFamily, BucketKeys, derived_words
from simdb.lsh.planning import Plan, PlanRequest
from simdb.ragged import read_only

MOST_BITS = 32  # of a chunk: as many values as there are item numbers
USUAL_BITS = 31  # with the bit after its last, two words of a signature
MOST_PROBES = 4_096  # buckets that one search may look into

# What a plan is weighed for: so many random items. Measured on 23.5 million hashes of 64 bits, a
# key that is looked up takes as long as comparing 200 in place, and a candidate, which lies
# anywhere, as 275.
_ITEMS = 2**24
_PROBE_COST, _CANDIDATE_COST = 200, 275
_MOST = 4 * _ITEMS  # from here on comparing with all is quicker by far
# Up to this a search takes about as long as one by sampled bits: 64 bits within 8, 256 within 24.
QUICK = _ITEMS // 9
_BYTES_OF_KEY, _BYTES_OF_WORD = 12, 2

_WORD_BITS = 16


def radii(most: int, chunks: int) -> list[int]:
    """Deal a distance to chunks: in how many bits each may differ.

    >>> radii(4, 3)
    [1, 1, 0]
    """
    pigeons, more = divmod(most + 1, chunks)
    return [pigeons + (chunk < more) - 1 for chunk in range(chunks)]


def probed(most: int, chunks: int, bits: int) -> int:
    """Count the buckets that a search looks into.

    >>> probed(4, 3, 21)
    45
    """
    pigeons, more = divmod(most + 1, chunks)  # as ``radii`` deals them, which are of two sizes
    larger, smaller = (_values_within(bits, radius) for radius in (pigeons, pigeons - 1))
    return more * larger + (chunks - more) * smaller


def _values_within(bits: int, radius: int) -> int:
    return sum(comb(bits, flips) for flips in range(radius + 1))


def can_have(length: int, most: int, chunks: int, bits: int) -> bool:
    """Whether a plan may have so many chunks of so many bits, which bounds what a search takes."""
    return (
        0 < chunks <= most + 1
        and 0 < bits <= MOST_BITS
        and chunks * bits <= length
        and probed(most, chunks, bits) <= MOST_PROBES
    )


def plan_chunks(length: int, distance: Fraction, request: PlanRequest) -> Plan:
    """Choose how many chunks, and of how many bits, serve a search within a distance best.

    It takes the least product of the time of a search and the size of the index. Bands and rows
    that are given stay; when both are, they are taken whatever they cost.
    ConfigurationError: however they are dealt, a search would look at a large part of all vectors;
    or bands and rows that are given cannot be.
    """
    most, bands, rows = int(distance), request.bands, request.rows
    if not replace(request, bands=None, rows=None).is_free:
        raise ConfigurationError(
            "recall 1 uses chunks of bits, not row_budget, false_candidates or a cascade; leave "
            "these out"
        )
    choices = [
        (chunks, bits)
        for chunks in ([bands] if bands else range(1, most + 2))
        for bits in ([rows] if rows else [min(USUAL_BITS, length // chunks)])
        if can_have(length, most, chunks, bits)
        if (bands and rows) or weighed(most, chunks, bits) < _MOST
    ]
    if not choices:
        wanted = "" if bands is rows is None else f" with bands={bands} and rows={rows}"
        raise ConfigurationError(
            f"recall 1 within {most} of {length:,} bits cannot be reached by chunks of the "
            f"bits{wanted}: a search would look at most vectors; ask for a recall below 1, as 0.99,"
            " or leave out max_distance in a new collection, which then compares all"
        )
    chunks, bits = min(choices, key=lambda choice: weighed(most, *choice) * _item_bytes(*choice))
    return Plan(distance, chunks, bits, WithinCurve(float(distance), is_distance=True))


def weighed(most: int, chunks: int, bits: int) -> float:
    """Weigh a search, in comparisons of one vector in place."""
    buckets = probed(most, chunks, bits)
    return buckets * (_PROBE_COST + _CANDIDATE_COST * _ITEMS / float(2**bits))


def _item_bytes(chunks: int, bits: int) -> int:
    """Count the bytes of an item in an index: its keys and its signature."""
    return chunks * (_BYTES_OF_KEY + _BYTES_OF_WORD * _words_of(bits))


def _words_of(bits: int) -> int:
    """Count the words of a signature that a chunk takes, with the bit after its last."""
    return bits // _WORD_BITS + 1


class Chunks(BandedFamily):
    """The values of disjoint chunks of bit vectors, and the buckets near them.

    Nothing is missed within the distance ``most``. Bands are chunks, rows the bits of each; the
    secret says which bits are in which chunk.
    """

    looks_around = True

    def __init__(self, length: int, most: int, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, _words_of(rows), secret)
        self.positions = _drawn(length, bands * rows, secret)
        self.radii = radii(most, bands)
        # Those of all values within the largest radius, of which each chunk takes its own.
        self.keys_of_probe = bands * _values_within(rows, max(self.radii))

    def sign(self, features: UInt64s) -> UInt16s:
        """Return the signatures of packed bit vectors, uint64 (n, words)."""
        return kernels.bits.sampled_bits(read_only(features), self.positions, self.bands)

    def probe_keys(self, features: UInt64s, signatures: UInt16s) -> BucketKeys:
        """Return the keys of all buckets that hold items within the radius of a chunk."""
        probes, flips = len(signatures), self._flips
        own = signatures.reshape(probes, 1, self.bands, self.band_words)
        near = own ^ flips[np.newaxis, :, np.newaxis, :]
        keys = self.band_keys(near.reshape(probes * len(flips), self.words))
        chosen = keys.reshape(probes, len(flips), self.bands)[:, self._within]
        return BucketKeys(chosen.ravel(), np.arange(probes + 1) * chosen.shape[1])

    @cached_property
    def _within(self) -> Bools:
        """Which of these are within the radius of which chunk: (values, chunks)."""
        counts = [_values_within(self.rows, radius) for radius in self.radii]
        within: Bools = np.arange(len(self._flips))[:, np.newaxis] < np.array(counts)
        return within

    @cached_property
    def _flips(self) -> UInt16s:
        """The bits in which values of a chunk differ from one, fewest first: (values, words)."""
        places = [
            flipped
            for flips in range(max(self.radii) + 1)
            for flipped in combinations(range(self.rows), flips)
        ]
        masks = np.zeros((len(places), self.band_words), np.uint16)
        for row, flipped in enumerate(places):
            for bit in flipped:
                masks[row, bit // _WORD_BITS] |= np.uint16(1 << (bit % _WORD_BITS))
        return masks


def _drawn(length: int, count: int, secret: bytes) -> Int64s:
    """Draw different positions: the first of a random order of all (Fisher and Yates)."""
    moved: dict[int, int] = {}
    drawn = []
    for place, word in enumerate(derived_words(secret, b"simdb.chunks", count).tolist()):
        other = place + (word * (length - place) >> 64)
        drawn.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return np.array(drawn, np.int64)
