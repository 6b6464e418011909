"""The plain twins: small random inputs, and the same computed the obvious way.

That of a kernel is named after it in ``TWINS``; it draws inputs, runs the kernel, and asserts what
ten lines of Python, sets and whole numbers say of them. That of the sorted runs of a store is
``TwinRuns``, a list of rows.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import cmath
import gc
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations, groupby, pairwise, product
from operator import or_
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

import simdb.kernels
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.kernels import kept
from simdb.kernels.order import Classes
from simdb.kernels.postings import (
    CANDIDATES,
    PAIRS,
    SCANNED,
    VERIFIED,
    Bounds,
    Candidates,
    Hits,
    Sets,
    bucket_state,
    prefix_buckets,
)
from simdb.kinds.characters import CODE_POINTS
from simdb.kinds.words import breaks
from simdb.lsh.family import poisson_counts
from simdb.ragged import Pieces, read_only
from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import MergeCounters, RunDirectory, RunWriter, due_merges
from simdb.storage.tables.views import RunView
from tests.support import oracle
from tests.support.similarities import jaccard

Twin = Callable[[np.random.Generator], None]
TWINS: dict[str, Twin] = {}
kernels: Any = simdb.kernels  # its functions are called with rows of columns
SECRET = np.uint64(0x1234_5678_9ABC_DEF1)
BASE = np.uint64((1 << 58) | 12345)
SPREAD = 0x9E3779B97F4A7C15


def twin_of(*names: str) -> Callable[[Twin], Twin]:
    def enter(twin: Twin) -> Twin:
        TWINS.update(dict.fromkeys(names, twin))
        return twin

    return enter


# -- drawn inputs and plain views ----------------------------------------------------------------


def some_bits(random: np.random.Generator, count: int = 9, words: int = 3) -> npt.NDArray[Any]:
    """Bit vectors that are dense, sparse, empty and full."""
    vectors = random.integers(0, 2**64, (count, words), dtype=np.uint64)
    vectors[: count // 2] &= random.integers(0, 2**64, words, dtype=np.uint64)
    vectors[0], vectors[-1] = 0, 2**64 - 1
    return vectors


def bits_of(vector: npt.NDArray[Any]) -> set[int]:
    """The positions of set bits, as ``np.packbits`` numbers them."""
    return set(np.flatnonzero(np.unpackbits(vector.view(np.uint8))).tolist())


def some_sets(random: np.random.Generator, count: int = 30, universe: int = 40) -> list[list[int]]:
    sets = [sorted(set(random.integers(1, universe, size).tolist())) for size in range(count)]
    return [*sets, sets[5], sets[5][1:], []]


def columns(sets: Iterable[Iterable[int]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    lists = [list(one) for one in sets]
    values = np.array([symbol for one in lists for symbol in one], np.uint64)
    return values, np.cumsum([0, *map(len, lists)]).astype(np.int64)


def rows_of(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> list[list[Any]]:
    return [values[start:stop].tolist() for start, stop in pairwise(offsets.tolist())]


def drawn_pairs(random: np.random.Generator, count: int, pairs: int = 20) -> Any:
    return (random.integers(0, count, pairs), random.integers(0, count, pairs))


# -- checksums and columns -----------------------------------------------------------------------


def some_strings(random: np.random.Generator, count: int = 40) -> list[bytes]:
    """Strings that begin alike, come twice, are empty, or are of any length that is told apart."""
    sizes = [0, 1, 3, 4, 8, 9, 16, 17, 32, 33, 96, 128, 129, 240, 241, 1024, 1025, 2100]
    drawn = random.choice(sizes, count).tolist()
    strings = [random.integers(0, 256, size, dtype=np.uint8).tobytes() for size in drawn]
    return [*strings, strings[0], strings[1] + b"x", b"alike 1", b"alike 2", b"alike", b""]


def column_of(strings: list[bytes]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    offsets = np.cumsum([0, *map(len, strings)]).astype(np.int64)
    return read_only(np.frombuffer(b"".join(strings), np.uint8)), offsets


def strings_of(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> list[bytes]:
    return [values[begin:end].tobytes() for begin, end in pairwise(offsets.tolist())]


@twin_of("checksums.checksums")
def checksums_of_strings(random: np.random.Generator) -> None:
    strings = some_strings(random)
    values, offsets = column_of(strings)
    seeds = random.integers(0, 2**64, len(strings), dtype=np.uint64)
    seeds[:3] = 0, 1, 2**64 - 1
    found = kernels.checksums.checksums(values, offsets[:-1], offsets[1:], seeds)
    pairs = zip(strings, seeds.tolist(), strict=True)
    assert found.tolist() == [xxhash.xxh3_64_intdigest(one, seed) for one, seed in pairs]


@twin_of("columns.order")
def order_of_strings(random: np.random.Generator) -> None:
    for strings in (some_strings(random), sorted(set(some_strings(random))), [b"one"], []):
        places, differ = kernels.columns.order(*column_of(strings))
        assert places.tolist() == sorted(range(len(strings)), key=strings.__getitem__)
        assert differ == (len(set(strings)) == len(strings))


@twin_of("columns.taken")
def strings_taken(random: np.random.Generator) -> None:
    strings = some_strings(random)
    rows = random.integers(0, len(strings), 30)
    for prefix in (b"", b"before "):
        front = read_only(np.frombuffer(prefix, np.uint8))
        found = kernels.columns.taken(*column_of(strings), rows, front)
        assert strings_of(*found) == [prefix + strings[row] for row in rows.tolist()]


@twin_of("columns.documents")
def documents_of_columns(random: np.random.Generator) -> None:
    keys, items, metadata = (some_strings(random) for _ in range(3))
    parts = [part for strings in (keys, items, metadata) for part in column_of(strings)]
    expected = [
        len(item).to_bytes(4, "little") + len(key).to_bytes(2, "little") + key + item + rest
        for key, item, rest in zip(keys, items, metadata, strict=True)
    ]
    assert strings_of(*kernels.columns.documents(*parts)) == expected


@twin_of("columns.copied")
def strings_copied(random: np.random.Generator) -> None:
    values, _ = column_of(some_strings(random))
    begins = random.integers(0, values.size // 2, 30)
    ends = begins + random.integers(0, values.size // 2, 30)
    ends[:3] = begins[:3]
    expected = [values[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)]
    at = values.ctypes.data
    assert strings_of(*kernels.columns.copied(begins + at, ends + at)) == expected


@twin_of("columns.are_equal")
def strings_compared(random: np.random.Generator) -> None:
    strings = some_strings(random)
    others = [*some_strings(random), *strings, *(one[:-1] + b"!" for one in strings if one)]
    left = random.integers(0, len(strings), 200)
    right = random.integers(0, len(others), 200)
    right[:100] = left[:100] + len(some_strings(random))
    found = kernels.columns.are_equal(*column_of(strings), left, *column_of(others), right)
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    assert found.tolist() == [strings[one] == others[other] for one, other in pairs]
    assert found[:100].all()


@twin_of("columns.rows_of_blocks")
def rows_out_of_blocks(random: np.random.Generator) -> None:
    numbers = np.flatnonzero(random.random(60) < random.choice([0.5, 1])).astype(np.uint32)
    rows = random.integers(0, 256, (numbers.size, 6), dtype=np.uint8)
    cuts = np.unique([0, *random.integers(1, numbers.size, 3), numbers.size])
    begins, lasts = cuts[:-1], numbers[cuts[1:] - 1]
    wanted = np.flatnonzero(random.random(70) < 0.5).astype(np.uint32)
    held, found = np.zeros(wanted.size, np.uint8), np.zeros((wanted.size, 6), np.uint8)
    addresses = (array.ctypes.data + begins * array.strides[0] for array in (numbers, rows))
    kernels.columns.rows_of_blocks(
        *(numbers[begins], lasts, np.diff(cuts), *addresses, wanted, found, held)
    )
    known = dict(zip(numbers.tolist(), rows.tolist(), strict=True))
    assert held.tolist() == [number in known for number in wanted.tolist()]
    assert found.tolist() == [known.get(number, [0] * 6) for number in wanted.tolist()]


@twin_of("columns.numbers_of_rows")
def numbers_out_of_blocks(random: np.random.Generator) -> None:
    numbers = np.sort(random.choice(1000, 60, replace=False)).astype(np.uint32)
    bounds = np.array([0, *np.sort(random.integers(0, 61, 3)), 60])  # of which some may be empty
    addresses = numbers.ctypes.data + bounds[:-1] * numbers.itemsize
    chosen = np.flatnonzero(random.random(60) < random.choice([0, 0.1, 1]))
    before = int(random.integers(0, 61))
    rows = chosen - before
    found = kernels.columns.numbers_of_rows(bounds, addresses, before, rows)
    assert found.tolist() == numbers[chosen].tolist()


@twin_of("columns.documents_of_blocks", "columns.keys_of_documents")
def documents_out_of_blocks(random: np.random.Generator) -> None:
    keys, items, rests = ([one[:400] for one in some_strings(random)] for _ in range(3))
    flags = random.choice([0, 0x40, 0x80], len(keys)).tolist()
    records: list[bytes] = []
    lengths: list[tuple[int, ...]] = []  # of key, item or frame, and all; and what is told of it
    for key, item, rest, flag in zip(keys, items, rests, flags, strict=True):
        size = int(random.integers(2**32)) if flag else len(item)
        head = size.to_bytes(4, "little") + (len(key) | flag << 8).to_bytes(2, "little")
        records.append(head + key + item + rest)
        end = 6 + len(key) + len(item) + (len(rest) if flag else 0)
        lengths.append((6, 6 + len(key), end, len(records[-1]), size, flag))
    count, owner = len(records), int(random.integers(2**32))
    spread = int(random.choice([1, 3]))
    numbers = np.sort(random.choice(spread * count, count, replace=False)).astype(np.uint32)
    cuts = np.array([0, *sorted(random.choice(np.arange(1, count), 3, replace=False)), count])
    column = (*column_of(records), numbers, np.empty(0, np.uint64), cuts, np.uint64(owner))
    values, bounds = kernels.columns.blocks(*column)
    at_numbers = values.ctypes.data + bounds[:-1] + 16
    begins: dict[int, int] = {}  # of the records, among the values
    sizes = np.array([sum(map(len, records[one:end])) for one, end in pairwise(cuts.tolist())])
    places = (numbers[cuts[:-1]], numbers[cuts[1:] - 1], np.diff(cuts), at_numbers, sizes)
    for block in range(cuts.size - 1):
        chosen = range(cuts[block], cuts[block + 1])
        begin = bounds[block + 1] - sizes[block]
        for place in chosen:
            begins[place] = int(begin)
            begin += len(records[place])
    wanted = np.flatnonzero(random.random(spread * count + 5) < 0.6).astype(np.uint32)
    place_of = {number: place for place, number in enumerate(numbers.tolist())}
    expected = []
    for number in wanted.tolist():
        if number not in place_of:
            expected.append((0,) * 6)
            continue
        own = lengths[place_of[number]]
        address = values.ctypes.data + begins[place_of[number]]
        expected.append((*(address + one for one in own[:4]), *own[4:]))
    read, known, every = kernels.columns.documents_of_blocks, np.uint64(owner), 2**62
    parts, done, is_sound = read(*places, wanted, every, known)
    assert (done, is_sound) == (wanted.size, True)
    assert list(map(tuple, parts.T.tolist())) == expected
    nothing = (np.empty(0, np.uint32),) * 2 + (np.empty(0, np.int64),) * 3
    assert not read(*nothing, wanted, every, known)[0].any()
    mixed = random.permutation(np.append(wanted, wanted[:2]))
    by_number = dict(zip(wanted.tolist(), expected, strict=True))
    in_turn, _, _ = read(*places, mixed, every, known)
    assert list(map(tuple, in_turn.T.tolist())) == [by_number[one] for one in mixed.tolist()]
    keys_found, key_bounds = kernels.columns.keys_of_documents(*places, mixed, known)
    own_keys = [keys[place_of[one]] if one in place_of else b"" for one in mixed.tolist()]
    cut = [keys_found[begin:end].tobytes() for begin, end in pairwise(key_bounds)]
    assert cut == own_keys
    # It stops when it has read so much, and goes on where it stopped.
    most, begin, some = int(random.choice([1, 500, 5_000])), 0, []
    while begin < wanted.size:
        parts, done, is_sound = read(*places, wanted[begin:], most, known)
        come_to = wanted[begin : begin + done].tolist()
        so_far = [lengths[place_of[number]][3] for number in come_to if number in place_of]
        assert is_sound
        assert sum(so_far[:-1]) < most
        assert done == wanted.size - begin or sum(so_far) >= most
        some += list(map(tuple, parts[:, :done].T.tolist()))
        begin += done
    assert some == expected
    # What is damaged is told: another owner's, a byte, an end; and so is a record too short.
    present = [number for number in wanted.tolist() if number in place_of]
    first = wanted.tolist().index(present[0])
    assert read(*places, wanted, every, known ^ np.uint64(1))[1:] == (first, False)
    worse = int(random.choice(present))
    at_byte = begins[place_of[worse]] + 3
    values[at_byte] ^= 1
    until = wanted.tolist().index(worse)
    assert read(*places, wanted, every, known)[1:] == (until, False)
    _, key_bounds = kernels.columns.keys_of_documents(*places, wanted, known)
    assert (key_bounds[until:] == key_bounds[-1]).all()
    values[at_byte] ^= 1
    for stored in ((8).to_bytes(4, "little") + (3).to_bytes(2, "little") + b"key", b"short"):
        both = np.array([5, 6], np.uint32)
        alone = (*column_of([stored] * 2), both, np.empty(0, np.uint64), np.array([0, 2]))
        made, _ = kernels.columns.blocks(*alone, known)
        lies = np.array([made.ctypes.data + 16]), np.array([2 * len(stored)])
        where = (both[:1], both[1:], np.array([2]), *lies)
        assert read(*where, both, every, known)[1:] == (0, False)
    for wrong in (0, 11, 2**62, 2**63 + 1):
        made[24:32] = np.frombuffer(wrong.to_bytes(8, "little"), np.uint8)
        made[32:40] = made[24:32]
        assert read(*where, both, every, known)[1:] == (0, False)


@twin_of("columns.blocks")
def blocks_of_records(random: np.random.Generator) -> None:
    records, owner = some_strings(random), int(random.integers(2**32))
    count = len(records)
    numbers = np.sort(random.choice(2**32 - 1, count, replace=False)).astype(np.uint32)
    cuts = [0, 1, *sorted(random.choice(np.arange(2, count), 3, replace=False).tolist()), count]
    own = [
        xxhash.xxh3_64_intdigest(record, owner << 32 | number)
        for record, number in zip(records, numbers.tolist(), strict=True)
    ]
    for sums in (np.empty(0, np.uint64), random.integers(0, 2**64, count, dtype=np.uint64)):
        found = kernels.columns.blocks(
            *column_of(records), numbers, sums, np.array(cuts), np.uint64(owner)
        )
        stored = sums.tolist() or own
        for (first, stop), block in zip(pairwise(cuts), strings_of(*found), strict=True):
            ends = np.cumsum([len(record) for record in records[first:stop]])
            parts = [
                np.array([stop - first, 0], np.uint32),
                np.append(numbers[first:stop], np.zeros((stop - first) % 2, np.uint32)),
                ends.astype(np.uint64),
                np.array(stored[first:stop], np.uint64),
            ]
            assert block[8:] == b"".join([part.tobytes() for part in parts] + records[first:stop])


# -- bits ----------------------------------------------------------------------------------------


@twin_of("bits.counts_of_rows", "bits.compare_rows")
def bit_counts(random: np.random.Generator) -> None:
    vectors, others = read_only(some_bits(random)), read_only(some_bits(random))
    sets, other_sets = [*map(bits_of, vectors)], [*map(bits_of, others)]
    assert kernels.bits.counts_of_rows(vectors).tolist() == [*map(len, sets)]
    left, right = drawn_pairs(random, len(vectors))
    common, united = kernels.bits.compare_rows(vectors, others, left, right)
    pairs = [(sets[one], other_sets[other]) for one, other in zip(left, right, strict=True)]
    assert common.tolist() == [len(one & other) for one, other in pairs]
    assert united.tolist() == [len(one | other) for one, other in pairs]


@twin_of("bits.near_pairs")
def near_pairs_of_bits(random: np.random.Generator) -> None:
    ones, others = some_bits(random, 40, 2), some_bits(random, 50, 2)
    limit = int(random.integers(0, 128))
    starts = random.integers(0, 50, 40)
    stops = np.minimum(50, starts + random.integers(0, 40, 40))
    masks = np.array([[255, 0], [0, 1 << 63]], np.uint64)[: int(random.integers(0, 3))]
    expected = []
    for one, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        for other in range(start, stop):
            apart = len(bits_of(ones[one]) ^ bits_of(others[other]))
            different = ones[one] ^ others[other]
            if apart <= limit and all((different & mask).any() for mask in masks):
                expected.append((one, other, apart))
    found: list[tuple[int, int, int]] = []
    state, room = np.zeros(2, np.int64), [np.empty(7, np.int64) for _ in range(3)]
    most = int(random.integers(1, 200))
    while state[0] < 40:
        row = int(state[0])
        count = kernels.bits.near_pairs(
            ones, others, starts, stops, masks, limit, most, state, *room
        )
        passed = np.maximum(stops - starts, 0)[row + 1 : state[0] - 1].sum()
        assert passed < most  # of the rows between that of the call's begin and that of its end
        found += zip(*(column[:count].tolist() for column in room), strict=True)
    assert found == expected


def some_pieces(random: np.random.Generator, rows: npt.NDArray[Any]) -> Pieces:
    """Cut rows into pieces, some of them empty, which one after the other are the rows."""
    cuts = np.sort(random.integers(0, len(rows) + 1, 3)).tolist()
    begins, ends = [0, *cuts], [*cuts, len(rows)]
    parts = [rows[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return Pieces(*map(np.concatenate, zip(*map(Pieces.of, parts), strict=True)))


def assert_nearest(rows: Any, found: Any, apart: npt.NDArray[Any], wanted: int) -> None:
    """Assert that the nearest so many, and what is as near, are among some rows."""
    last = np.sort(apart)[min(wanted, apart.size) - 1]
    assert (np.diff(rows) > 0).all()
    assert found.tolist() == apart[rows].tolist()
    assert set(np.flatnonzero(apart <= last).tolist()) <= set(rows.tolist())
    assert rows.size < apart.size or wanted >= apart.size // 2


@twin_of("bits.scan_hamming", "bits.scan_tanimoto", "bits.scan_columns")
def bit_scans(random: np.random.Generator) -> None:
    vectors = read_only(some_bits(random, 40))
    probe = vectors[random.integers(40)]
    limit = int(random.integers(0, 120))
    apart = [len(bits_of(probe) ^ bits_of(vector)) for vector in vectors]
    rows, distances = kernels.bits.scan_hamming(probe, *Pieces.of(vectors), limit, 0)
    assert rows.tolist() == [row for row in range(40) if apart[row] <= limit]
    assert distances.tolist() == [apart[row] for row in rows]
    words = read_only(random.integers(0, 2**64, (9_000, 1), dtype=np.uint64))
    most = int(random.choice([12, 20, 33]))
    pieces = some_pieces(random, words)
    rows, distances = kernels.bits.scan_hamming(words[8_999], *pieces, most, 0)
    apart = np.bitwise_count(words[:, 0] ^ words[8_999, 0])
    assert rows.tolist() == np.flatnonzero(apart <= most).tolist()
    assert distances.tolist() == apart[rows].tolist()
    wanted = int(random.choice([1, 10, 700, 10_000]))
    rows, distances = kernels.bits.scan_hamming(words[8_999], *pieces, 64, wanted)
    assert_nearest(rows, distances, apart, wanted)
    least = Fraction(int(random.integers(1, 20)), 20)
    sets = [*map(bits_of, vectors)]
    similar = []
    for row, other in enumerate(sets):
        both, either = len(bits_of(probe) & other), len(bits_of(probe) | other)
        if both and Fraction(both, either) >= least:
            similar.append((row, both, either))
    needed = Threshold(least).needed_overlap_table(2 * 192)
    found = kernels.bits.scan_tanimoto(probe, vectors, needed)
    assert [*zip(*(column.tolist() for column in found), strict=True)] == similar
    rising = np.repeat(sorted(range(40), key=lambda row: len(sets[row])), 20)  # several blocks
    counts = np.array([len(sets[row]) for row in rising])
    words = random.permutation(np.flatnonzero(probe))
    places, common = kernels.bits.scan_columns(
        probe, vectors.T.take(rising, axis=1), counts, 3, 790, words, needed
    )
    shared = {row: both for row, both, _ in similar}
    expected = [place for place in range(3, 790) if rising[place] in shared]
    assert places.tolist() == expected
    assert common.tolist() == [shared[rising[place]] for place in expected]


@twin_of("bits.bit_symbols", "bits.sampled_bits")
def bit_signatures(random: np.random.Generator) -> None:
    vectors = some_bits(random)
    values, offsets = kernels.bits.bit_symbols(vectors, 192, SECRET)
    expected = [[oracle.mixed(bit, int(SECRET)) for bit in sorted(bits_of(v))] for v in vectors]
    assert rows_of(values, offsets) == expected
    bands, rows = int(random.integers(1, 4)), int(random.integers(1, 40))
    positions = random.integers(0, 192, bands * rows)
    words = kernels.bits.sampled_bits(read_only(vectors), positions, bands)
    for vector, signature in zip(vectors, words.tolist(), strict=True):
        expected_words = []
        for band in positions.reshape(bands, rows).tolist():
            sides = [int(position in bits_of(vector)) for position in band] + [1]
            number = sum(side << place for place, side in enumerate(sides))
            expected_words += [number >> 16 * word & 0xFFFF for word in range(rows // 16 + 1)]
        assert signature == expected_words


# -- buckets -------------------------------------------------------------------------------------


def buckets_of(keys: list[list[int]], classes: list[int]) -> dict[int, list[int]]:
    """The items that have each key, by class, where there are two or more."""
    found = defaultdict(list)
    for item in sorted(range(len(keys)), key=lambda item: (classes[item], item)):
        for key in keys[item]:
            found[key].append(item)
    return {key: found[key] for key in sorted(found) if len(found[key]) > 1}


def ends_of_classes(starts: Any, classes: Any) -> npt.NDArray[Any]:
    """Where the run of one class ends that each member of a bucket stands in."""
    ends: list[int] = []
    for begin, end in pairwise(starts.tolist()):
        last = {one: place for place, one in enumerate(classes[begin:end].tolist(), begin + 1)}
        ends += [last[one] for one in classes[begin:end].tolist()]
    return np.array(ends, np.int64)


@twin_of("buckets.bucket_pairs", "buckets.share_every_group")
def pairs_of_buckets(random: np.random.Generator) -> None:
    items, bands, rows, needed = 14, 3, 2, int(random.integers(0, 5))
    classes = random.integers(0, 10, items).tolist()
    signatures = random.integers(0, 3, (items, bands * rows)).astype(np.uint16)
    keys = [
        [band << 32 | int(a) << 16 | int(b) for band, (a, b) in enumerate(one.reshape(bands, rows))]
        for one in signatures
    ]
    buckets = buckets_of(keys, classes)
    starts = np.cumsum([0, *map(len, buckets.values())])
    members = np.array([item for bucket in buckets.values() for item in bucket], np.int64)
    ends = ends_of_classes(starts, np.array(classes)[members])
    values, offsets = columns(keys)
    groups = np.array([key >> 32 for one in keys for key in one], np.uint8)
    left, right = (np.array(side) for side in zip(*combinations(range(items), 2), strict=True))

    def shared(one: int, other: int) -> set[int]:
        return set(keys[one]) & set(keys[other])

    met = kernels.buckets.share_every_group(values, offsets, groups, 7, left, right)
    assert met.tolist() == [len(shared(*pair)) == bands for pair in zip(left, right, strict=True)]
    other_class = [
        (one, other)
        for one, other in combinations(range(items), 2)
        if shared(one, other) and classes[one] != classes[other]
    ]
    equal = (signatures[:, None] == signatures).sum(axis=2)
    expected = [pair for pair in other_class if equal[pair] >= needed]
    names = np.array([key >> 32 for key in buckets], np.int32)
    listed = kernels.buckets.BucketMembers(
        starts, members, ends, np.array(list(buckets), np.uint64), names
    )
    no_groups = np.zeros_like(groups)
    for band_words, wanted in ((rows, expected), (0, other_class)):
        of_items = kernels.buckets.BucketItems(
            signatures, band_words, values, offsets, no_groups, 1
        )
        cursor, counters = np.full(3, -1, np.int64), np.zeros(2, np.int64)
        room = np.empty(5, np.int64), np.empty(5, np.int64)
        found: list[tuple[int, int]] = []
        while cursor[0] < starts.size - 1:
            written = kernels.buckets.bucket_pairs(
                listed, of_items, needed, False, 7, cursor, *room, counters
            )
            found += zip(room[0][:written].tolist(), room[1][:written].tolist(), strict=True)
        assert sorted((min(pair), max(pair)) for pair in found) == wanted
        assert counters[0] - counters[1] >= len(found)


@twin_of("buckets.next_earlier")
def earlier_rows(random: np.random.Generator) -> None:
    items, bands = 12, 3
    keys = [[band * 10 + int(random.integers(4)) for band in range(bands)] for _ in range(items)]
    together = defaultdict(list)
    for item, own in enumerate(keys):
        for key in own:
            together[key].append(item)
    members: list[int] = []
    places, first = np.empty((items, bands), np.int64), {}
    for key, bucket in together.items():
        first[key] = len(members)
        for item in bucket:
            places[item, keys[item].index(key)] = len(members)
            members.append(item)
    begin = np.array([[first[key] for key in own] for own in keys], np.int64)
    status = random.integers(0, 3, items).astype(np.uint8)
    signatures = random.integers(0, 2, (items, 4)).astype(np.uint16)
    undecided = np.flatnonzero(status == kernels.buckets.UNDECIDED)
    last, similar_to = np.full((2, items), -1, np.int64)
    earlier = np.empty((undecided.size, 2), np.int64)
    kernels.buckets.next_earlier(
        *(undecided, np.array(members), places, begin, last, similar_to),
        *(status, signatures, 2, earlier),
    )
    none = int(kernels.buckets.NONE_LEFT)
    for row, found in zip(undecided.tolist(), earlier.tolist(), strict=True):
        expected = [
            other
            for other in range(row)
            if set(keys[row]) & set(keys[other])
            and status[other] != kernels.buckets.DROPPED
            and (signatures[row] == signatures[other]).sum() >= 2
        ]
        assert found == [*expected, none, none][:2]
        assert (status[row] == kernels.buckets.KEPT) == (not expected)


# -- elements ------------------------------------------------------------------------------------


@twin_of("elements.element_symbols", "elements.bag_parts", "elements.occurrence_symbols")
def stored_elements(random: np.random.Generator) -> None:
    secret, base, text_secret = (int(word) for word in random.integers(0, 2**58, 3) | (1 << 58))
    keys = np.array([secret, base, text_secret], np.uint64)
    numbers = random.integers(0, 200, 5).tolist()
    words = [b"", b"a", bytes(random.integers(97, 123, 300).astype(np.uint8))]
    lengths = b"".join(len(word).to_bytes(2, "little") for word in words)
    sets = {
        bytes([1, *numbers]): [oracle.mixed(number, secret) for number in numbers],
        b"\x08" + (-3).to_bytes(8, "little", signed=True): [oracle.mixed(2**64 - 3, secret)],
        b"\x12" + (3).to_bytes(4, "little") + lengths + b"".join(words): [
            oracle.mixed(oracle.polynomial(word, base), text_secret) for word in words
        ],
        b"": [],
    }
    data, ends = joined(sets)
    values, offsets = kernels.elements.element_symbols(data, ends, keys)
    assert rows_of(values, offsets) == list(sets.values())
    counts = [random.integers(1, 300, len(symbols)).tolist() for symbols in sets.values()]
    bags = [
        b"\x02" + one + b"".join(count.to_bytes(2, "little") for count in own) if own else b""
        for one, own in zip(sets, counts, strict=True)
    ]
    found = kernels.elements.bag_parts(*joined(bags), 10_000)
    assert found[0].tobytes() == data.tobytes()
    assert found[1].tolist() == ends.tolist()
    assert rows_of(found[2], found[3]) == counts
    assert kernels.elements.bag_parts(*joined(bags), 3)[3][0] == -1
    expanded = kernels.elements.occurrence_symbols(values, found[2], offsets, SECRET)
    assert rows_of(*expanded) == [
        [
            oracle.mixed(symbol ^ occurrence, int(SECRET))
            for symbol, count in zip(symbols, own, strict=True)
            for occurrence in range(1, count + 1)
        ]
        for symbols, own in zip(sets.values(), counts, strict=True)
    ]
    damaged = kernels.elements.element_symbols(*joined([b"\x01\x05", b"\x02\x05"]), keys)
    assert damaged[1][0] == -2


def joined(parts: Iterable[bytes]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    parts = list(parts)
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum([*map(len, parts)])


# -- fingerprints --------------------------------------------------------------------------------


def squares_of(minutia: Any, grid: Any, shift: Any = (0, 0)) -> set[int]:
    """The squares within the tolerances of a minutia, by its four corners and two turns."""
    width, height, side, border, sectors, slack = (int(one) for one in grid)
    x, y, direction = int(minutia[0]) + shift[0], int(minutia[1]) + shift[1], int(minutia[2])
    found = set()
    for over in (-border, border):
        for up in (-border, border):
            for turn in (-slack, slack):
                column, row = (x + over) // side, (y + up) // side
                sector = (direction + turn) % 23_040 * sectors // 23_040
                if 0 <= column < width and 0 <= row < height:
                    found.add((row * width + column) * sectors + sector)
    return found


@twin_of(
    *("fingerprints.grids_of_minutiae", "fingerprints.functions_of_minutiae"),
    *("fingerprints.functions_of_grids", "fingerprints.members"),
)
def functions_of_prints(random: np.random.Generator) -> None:
    minutiae = random.integers(0, 160, (24, 3)).astype(np.int32)
    minutiae[:, 2] = random.integers(0, 23_040, 24)
    offsets = np.array([0, 9, 9, 24])
    grid = np.array([5, 4, 30, 6, 2, 512], np.int64)
    prints = [minutiae[start:stop] for start, stop in pairwise(offsets)]
    for centre in (np.empty(0, np.int64), np.array([75, 60])):
        grids = kernels.fingerprints.grids_of_minutiae(minutiae, offsets, grid, centre)
        for one, row in zip(prints, grids, strict=True):
            shift = (0, 0)
            if centre.size and len(one):
                means = [int(total) // len(one) for total in one[:, :2].sum(axis=0, dtype=int)]
                shift = (int(centre[0]) - means[0], int(centre[1]) - means[1])
            assert set_bits(row) == set().union(*(squares_of(m, grid, shift) for m in one))
    functions = np.sort(random.integers(0, 40, (100, 2)), axis=1).astype(np.int32)
    words = kernels.fingerprints.functions_of_grids(grids.view(np.uint16), functions)
    for row, signature in zip(grids, words, strict=True):
        yes = {n for n, squares in enumerate(functions.tolist()) if set(squares) <= set_bits(row)}
        assert set_bits(signature) == yes
    around = kernels.fingerprints.functions_of_minutiae(minutiae, offsets, grid, False, functions)
    for one, signature in zip(prints, around, strict=True):
        yes = set()
        for anchor, middle in enumerate(one.tolist()):
            shift = 75 - middle[0], 60 - middle[1]
            others = np.delete(one, anchor, axis=0)
            occupied = set().union(*(squares_of(other, grid, shift) for other in others))
            yes |= {n for n, squares in enumerate(functions.tolist()) if set(squares) <= occupied}
        assert set_bits(signature) == yes
    numbers, starts = kernels.fingerprints.members(words)
    assert rows_of(numbers, starts) == [sorted(set_bits(signature)) for signature in words]


def set_bits(row: npt.NDArray[Any]) -> set[int]:
    width = 8 * row.itemsize
    return {
        place * width + bit
        for place, word in enumerate(row.tolist())
        for bit in range(width)
        if word >> bit & 1
    }


@twin_of("fingerprints.triangles_of_minutiae")
def shapes_of_triangles(random: np.random.Generator) -> None:
    minutiae = random.integers(0, 900, (31, 3)).astype(np.int32)
    minutiae[:, 2] = random.integers(0, 23_040, 31)
    minutiae[:3, 0] = [10, 20, 30]  # on a line
    minutiae[:3, 1] = 7
    offsets = np.array([0, 3, 3, 5, 31])
    prints = [minutiae[start:stop].tolist() for start, stop in pairwise(offsets)]
    secret = np.uint64(random.integers(2**63))
    for border, most in ((0, 300), (20, 300), (0, 5)):
        settings = np.array([4, 100, border, 16, 700, 2, most], np.int64)
        kernel = kernels.fingerprints.triangles_of_minutiae
        for one, row in zip(prints, kernel(minutiae, offsets, settings, secret), strict=True):
            shapes = {word for each in triangles_of(one, 4) for word in shapes_of(each, border)}
            hashes = {oracle.mixed(word, int(secret)) for word in shapes}
            for group, found in enumerate(row.tolist()):
                own = sorted({word >> 32 for word in hashes if word % 2 == group} - {0})[:most]
                assert found == own + [0] * (most - len(own))


def triangles_of(one: list[list[int]], neighbours: int) -> list[list[list[int]]]:
    """The triangles of which one corner has both others among its nearest."""
    found = set()
    for here, middle in enumerate(one):
        others = sorted(
            (math.dist(middle[:2], other[:2]), there)
            for there, other in enumerate(one)
            if there != here
        )
        near = [there for _, there in others[:neighbours]]
        found |= {frozenset((here, *couple)) for couple in combinations(near, 2)}
    return [[one[corner] for corner in each] for each in found]


def shapes_of(corners: list[list[int]], border: int) -> set[int]:
    """The shapes of a triangle in ranges of 100 for sides up to 700, and of 22.5 degrees."""
    middle = complex(*(sum(corner[axis] for corner in corners) / 3 for axis in (0, 1)))
    ordered = sorted(corners, key=lambda corner: cmath.phase(complex(*corner[:2]) - middle))
    (ax, ay, _), (bx, by, _), (cx, cy, _) = ordered
    if (bx - ax) * (cy - ay) == (by - ay) * (cx - ax):
        return set()
    sides = [int(math.dist(ordered[i][:2], ordered[(i + 1) % 3][:2])) for i in range(3)]
    shapes = set()
    for begin in range(3):
        if max(sides) > 700 or sides[begin] < max(sides) - border:
            continue
        turned = [ordered[(begin + step) % 3] for step in range(3)]
        x, y = (turned[1][axis] - turned[0][axis] for axis in (0, 1))
        heading = math.floor(math.degrees(math.atan2(y, x)) * 64 + 0.5)
        sectors = [(corner[2] - heading) % 23_040 // 1_440 for corner in turned]
        ranges = [
            {max(length - border, 0) // 100, (length + border) // 100}
            for length in (sides[(begin + step) % 3] for step in range(3))
        ]
        for lengths in product(*ranges):
            shapes.add(
                sum(sector << 4 * place for sector, place in zip(sectors, (2, 1, 0), strict=True))
                << 36
                | lengths[0] << 24
                | lengths[1] << 12
                | lengths[2]
            )
    return shapes


@twin_of("fingerprints.first_shared", "fingerprints.in_every_group")
def groups_of_functions(random: np.random.Generator) -> None:
    left, right = (random.integers(0, 2**16, (2, 30, 4)) & random.integers(0, 2**16, 4)).astype(
        np.uint16
    )
    size, groups = 20, 3
    found = kernels.fingerprints.first_shared(left, right, size, groups)
    for one, other, first in zip(left, right, found.tolist(), strict=True):
        shared = {bit for bit in set_bits(one) & set_bits(other) if bit < size * groups}
        every = {bit // size for bit in shared} == set(range(groups))
        assert first == (min(shared) if every else -1)
    items = random.integers(0, 70, 200).astype(np.uint32)
    of_group = random.integers(0, groups, 200).astype(np.uint8)
    united = [{int(i) for i in items[of_group == group]} for group in range(groups)]
    inside = sorted(set.intersection(*united) & set(range(66)))
    assert kernels.fingerprints.in_every_group(items, of_group, groups, 66).tolist() == inside


@twin_of("fingerprints.matched_minutiae", "fingerprints.couples_of")
def aligned_prints(random: np.random.Generator) -> None:
    """A print turned and shifted, with some minutiae gone and others come, is laid on itself."""
    one = np.column_stack([random.permutation(60)[:20] * 100 for _ in range(2)])
    directions = random.integers(0, 23_040, 20)
    turn, shift = int(random.integers(-10, 11)), random.integers(-300, 301, 2)
    angle = math.radians(turn)
    turned = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    there = (one - 3_000) @ turned.T + 3_000 + shift
    other = np.column_stack([np.rint(there), (directions + turn * 64) % 23_040])[:17]
    left = np.column_stack([one, directions])
    minutiae = np.concatenate([left, other, left]).astype(np.int32)
    offsets = np.array([0, 20, 37, 57, 57])
    settings = np.array([60, 640, 11_520, 6_000, 6_000], np.int64)
    pairs = np.array([0, 1, 0, 0, 3]), np.array([1, 0, 2, 3, 0])
    found = kernels.fingerprints.matched_minutiae(minutiae, offsets, *pairs, settings).tolist()
    assert found[0] == found[1]
    assert 15 <= found[0] <= 17
    assert found[2:] == [20, 0, 0]
    couples = kernels.fingerprints.couples_of(minutiae, offsets[:3], settings)
    assert np.count_nonzero(couples >= 0) == found[0]
    assert (couples[couples >= 0] == np.flatnonzero(couples >= 0)).all()


# -- order ---------------------------------------------------------------------------------------


@twin_of("order.fill_ranks", "order.symbol_keys")
def keys_of_symbols(random: np.random.Generator) -> None:
    """The frequent symbols have the largest keys; the rest keep their order, all one to one."""
    largest = 2**64 - 1
    pool = [*range(20), *(largest - number for number in range(20))]
    frequent = [pool[place] for place in random.permutation(len(pool))[:12]]
    keys = SymbolOrder(np.array(frequent, np.uint64)).keys(np.array(pool, np.uint64)).tolist()
    of = dict(zip(pool, keys, strict=True))
    assert [of[symbol] for symbol in frequent] == [2**64 - 12 + rank for rank in range(12)]
    holes = sorted(symbol for symbol in frequent if symbol < 2**64 - 12)
    moved = [s for s in sorted(pool) if s >= 2**64 - 12 and s not in frequent]
    for symbol in pool:
        if symbol not in frequent:
            expected = holes[moved.index(symbol)] if symbol in moved else symbol
            assert of[symbol] == expected
    ranks = SymbolOrder(np.array(frequent, np.uint64)).ranks
    twice = ranks._replace(frequent=np.zeros(2, np.uint64), table=np.full(32, -1, np.int32))
    assert not kernels.order.fill_ranks(twice)


@twin_of("order.sort_sets", "order.drop_repeats")
def sorted_sets(random: np.random.Generator) -> None:
    sets = [random.integers(0, 2**63, size).tolist() for size in (0, 1, 7, 40, 300)]
    sets.append([*random.integers(2**64 - 50, 2**64, 60, dtype=np.uint64).tolist(), 5, 5])
    sets.append([7] * 100)
    values, offsets = columns(sets)
    crowded = kernels.order.sort_sets(values, offsets, np.uint64(2**64 - 50))
    rows = rows_of(values, offsets)
    assert crowded.tolist()[-1]
    for own, row, left in zip(sets, rows, crowded.tolist(), strict=True):
        assert sorted(row) == sorted(own)
        assert left or row == sorted(own)
    values, offsets = columns(map(sorted, sets))
    kept = kernels.order.drop_repeats(values, offsets)
    assert rows_of(values, kept) == [sorted(set(own)) for own in sets]


@twin_of("order.identical_representatives", "order.expand_pairs")
def classes_of_sets(random: np.random.Generator) -> None:
    sets = [tuple(sorted(set(random.integers(0, 4, 3).tolist()))) for _ in range(40)]
    values, offsets = columns(sets)
    found, bitmaps = kernels.order.identical_representatives(values, offsets)
    assert found.tolist() == [sets.index(one) for one in sets]
    assert bitmaps.tolist() == [sum(1 << symbol % 64 for symbol in one) for one in sets]
    distinct = sorted(set(sets))
    members = [[item for item, own in enumerate(sets) if own == one] for one in distinct]
    classes = Classes(np.cumsum([0, *map(len, members)]), np.concatenate(members))
    pairs = drawn_pairs(random, len(distinct), 6)
    for same in (False, True):
        state, room = np.zeros(3, np.int64), tuple(np.empty(7, np.int64) for _ in range(3))
        rows: list[tuple[int, ...]] = []
        while state[0] < 6:
            count = kernels.order.expand_pairs(
                pairs, classes, classes, same=same, state=state, found=room
            )
            rows += zip(*(column[:count].tolist() for column in room), strict=True)
        expected = []
        for row, (one, other) in enumerate(zip(*pairs, strict=True)):
            of_pair = [(a, b) for a in members[one] for b in members[other]]
            if same and one == other:
                of_pair = list(combinations(members[one], 2))
            expected += [(row, *pair) for pair in of_pair]
        assert rows == expected


# -- overlaps ------------------------------------------------------------------------------------


@twin_of("overlaps.probe_overlaps", "overlaps.pair_overlaps")
def overlaps_of_sets(random: np.random.Generator) -> None:
    sets = [[*one, *one[:2]] for one in some_sets(random)]
    values, offsets = columns(sets)
    probe = sets[7]
    found = kernels.overlaps.probe_overlaps(np.array(probe, np.uint64), values, offsets)
    assert found[0].tolist() == [len(set(probe) & set(own)) for own in sets]
    assert found[1].tolist() == [len(set(own)) for own in sets]
    assert found[2] == len(set(probe))
    left, right = drawn_pairs(random, len(sets))
    left.sort()
    both, one, other = kernels.overlaps.pair_overlaps(values, offsets, left, right)
    pairs = [(set(sets[a]), set(sets[b])) for a, b in zip(left, right, strict=True)]
    assert both.tolist() == [len(a & b) for a, b in pairs]
    assert one.tolist() == [len(a) for a, _ in pairs]
    assert other.tolist() == [len(b) for _, b in pairs]


# -- postings ------------------------------------------------------------------------------------


def arranged(sets: list[list[int]], prefixes: npt.NDArray[Any]) -> Sets:
    values, offsets = columns(sets)
    bitmaps = [0] * len(sets)
    for item, own in enumerate(sets):
        for symbol in own:
            bitmaps[item] ^= 1 << symbol % 64
    sizes = np.diff(offsets)
    return Sets(values, offsets[:-1], sizes, prefixes, np.array(bitmaps, np.uint64))


@twin_of(
    *("postings.mark_symbols", "postings.marked_entries", "postings.count_slots"),
    *("postings.number_buckets", "postings.fill_buckets"),
)
def posted_prefixes(random: np.random.Generator) -> None:
    sets = sorted(some_sets(random), key=len)
    sizes = np.array([*map(len, sets)])
    ranges = [random.integers(0, sizes + 1) for _ in range(2)]
    for same in (False, True):
        prefixes = (np.minimum(*ranges), ranges[1]) if same else ranges
        sides = [arranged(sets, one) for one in prefixes]
        found = prefix_buckets(*sides, same=same)
        expected: list[dict[int, list[tuple[int, int, int]]]] = [defaultdict(list) for _ in "lr"]
        for side, most in zip(expected, prefixes, strict=True):
            for item, own in enumerate(sets):
                for place, symbol in enumerate(own[: most[item]], 1):
                    side[symbol].append((item, place, len(own) - place))
        shared = {
            symbol
            for symbol in expected[0]
            if len(expected[1].get(symbol, [])) >= (2 if same else 1)
        }
        for postings, side in zip(found, expected, strict=True):
            rows = [*zip(postings.items, postings.positions, postings.suffixes, strict=True)]
            buckets = [rows[start:stop] for start, stop in pairwise(postings.starts.tolist())]
            assert sorted(buckets) == sorted(side[symbol] for symbol in shared)
        names = [
            [sets[p.items[start]][p.positions[start] - 1] for start in p.starts[:-1]] for p in found
        ]
        assert names[0] == names[1]


@twin_of("postings.bucket_candidates", "postings.verify_candidates")
def joined_sets(random: np.random.Generator) -> None:
    """Also without bitmaps, and in any room: ``join_work`` counts in the tests of joins."""
    threshold = Threshold(Fraction(int(random.integers(5, 20)), 20))
    sets = sorted({tuple(own) for own in some_sets(random, 20, 25) if own}, key=len)
    lists = [list(own) for own in sets]
    sizes = np.array([*map(len, sets)])
    both = arranged(lists, threshold.prefix_lengths(sizes))
    if random.integers(2):
        both = both._replace(bitmaps=np.empty(0, np.uint64))
    postings = prefix_buckets(both, both, same=True)
    tables = {
        "needed": threshold.needed_overlap_table(2 * int(sizes.max())),
        "minimum": threshold.minimum_sizes(np.arange(sizes.max() + 1)),
    }
    similar = {
        (one, other): len({*sets[one]} & {*sets[other]})
        for one, other in combinations(range(len(sets)), 2)
        if jaccard({*sets[one]}, {*sets[other]}) >= threshold.fraction
    }
    for bounded in (True, False):
        state, counters = bucket_state(*postings), np.zeros(4, np.int64)
        found: dict[tuple[int, int], int] = {}
        while state[0] < postings[0].starts.size - 1:
            room = Candidates(*(np.empty(9, np.uint32) for _ in range(4)))
            overlaps = np.empty(9, np.int64)
            count = kernels.postings.bucket_candidates(
                *postings,
                **tables,
                same=True,
                bounded=bounded,
                stop=postings[0].starts.size - 1,
                most=13,
                state=state,
                found=room,
                counters=counters,
            )
            kept = kernels.postings.verify_candidates(
                both,
                both,
                needed=tables["needed"],
                count=count,
                found=room,
                overlaps=overlaps,
                counters=counters,
            )
            pairs = zip(room.left[:kept].tolist(), room.right[:kept].tolist(), strict=True)
            found.update(zip(pairs, overlaps[:kept].tolist(), strict=True))
        assert found == similar
        assert counters[PAIRS] == len(similar) <= counters[VERIFIED]
        assert counters[VERIFIED] <= counters[CANDIDATES] <= counters[SCANNED]


@twin_of("postings.overlaps_reached")
def reached_overlaps(random: np.random.Generator) -> None:
    sides = some_sets(random), some_sets(random)
    left, right = drawn_pairs(random, min(map(len, sides)))
    needed = random.integers(1, 6, left.size)
    common = [
        len({*sides[0][one]} & {*sides[1][other]}) for one, other in zip(left, right, strict=True)
    ]
    found = kernels.postings.overlaps_reached(
        *columns(sides[0]), *columns(sides[1]), left, right, needed
    )
    assert found.tolist() == [
        both if both >= need else -1 for both, need in zip(common, needed.tolist(), strict=True)
    ]


@twin_of("postings.probe_candidates")
def probed_postings(random: np.random.Generator) -> None:
    threshold = Threshold(Fraction(int(random.integers(5, 20)), 20))
    sets = [own for own in some_sets(random) if own]
    probe = sets[int(random.integers(10, len(sets)))]
    prefix = threshold.prefix_length(len(probe))
    found = [
        [
            (n, own.index(s) + 1, len(own) - own.index(s) - 1)
            for n, own in enumerate(sets)
            if s in own
        ]
        for s in probe[:prefix]
    ]
    rows = np.array([row for rows in found for row in rows], np.uint32).reshape(-1, 3)
    smallest, largest = threshold.minimum_size(len(probe)), threshold.maximum_size(len(probe))
    sizes = np.arange(smallest, largest + 1)
    items, counts = kernels.postings.probe_candidates(
        Hits(np.cumsum([0, *map(len, found)]), *np.ascontiguousarray(rows.T)),
        Bounds(
            smallest,
            threshold.needed_overlaps(len(probe) + sizes),
            threshold.prefix_lengths(sizes),
            len(probe),
            prefix,
        ),
    )
    common = [{*probe[:prefix]} & {*own[: threshold.prefix_length(len(own))]} for own in sets]
    assert [len(common[item]) for item in items] == counts.tolist()
    similar = {n for n, own in enumerate(sets) if jaccard({*own}, {*probe}) >= threshold.fraction}
    assert similar <= set(items.tolist())
    assert all(smallest <= len(sets[item]) <= largest for item in items)


# -- runs ----------------------------------------------------------------------------------------


def chunk(rows: Sequence[tuple[int, ...]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Keys and columns of sorted rows, as a chunk of a run holds them."""
    keys = np.array([row[0] for row in rows], np.uint64)
    return keys, np.array([row[1:] for row in rows], np.uint32).reshape(-1, 2).T.copy()


@twin_of("runs.mark_keys", "runs.marked_keys")
def marked_keys(random: np.random.Generator) -> None:
    chunks = [random.integers(0, 2**64, size, dtype=np.uint64) for size in (9, 1, 20)]
    starts, counts = np.array([4, 0, 20]), np.array(list(map(len, chunks)))
    addresses = np.array([keys.ctypes.data for keys in chunks])
    shift, words = np.uint64(61), np.zeros(8, np.uint64)
    kernels.runs.mark_keys(addresses, starts, counts, shift, words)

    def bits(key: int) -> int:
        places = (key * 0x9E3779B97F4A7C15 % 2**64) >> 40
        return reduce(or_, (1 << (places >> part & 63) for part in (0, 6, 12, 18)))

    expected = [0] * 8
    for start, keys in zip(starts.tolist(), chunks, strict=True):
        for key in keys[start:].tolist():
            expected[key >> 61] |= bits(key)
    assert words.tolist() == expected
    queries = np.append(chunks[2], random.integers(0, 2**64, 50, dtype=np.uint64))
    places = np.empty(queries.size + 1, np.uint32)
    found = kernels.runs.marked_keys(queries, shift, words, places)
    asked = ((place, key, bits(key)) for place, key in enumerate(queries.tolist()))
    assert places[:found].tolist() == [
        place for place, key, own in asked if expected[key >> 61] & own == own
    ]


@twin_of("runs.merge", "runs.probe", "runs.gather_column", "runs.sort_by_key")
def sorted_runs(random: np.random.Generator) -> None:
    rows = [
        sorted(
            (int(key) << 58, item, 100 * run + item)
            for item, key in enumerate(random.integers(0, 9, size), 10 * run)
        )
        for run, size in enumerate((7, 0, 12))
    ]
    dead = {int(item) for item in random.integers(0, 40, 4)}
    marks = np.zeros(5, np.uint8)
    for item in dead:
        marks[item >> 3] |= 1 << (item & 7)
    chunks = [chunk(run) for run in rows]
    addresses = [np.array([part[side].ctypes.data for part in chunks]) for side in (0, 1)]
    counts = np.array([len(run) for run in rows])
    keys, merged = np.empty(30, np.uint64), np.empty((2, 30), np.uint32)
    written = kernels.runs.merge(
        *(*addresses, counts, np.zeros(3, np.int64), np.ones(3, np.uint8), 2, 0, marks),
        *(keys, merged, 0),
    )
    alive = sorted(row for run in rows for row in run if row[1] not in dead)
    assert [*zip(keys[:written].tolist(), *merged[:, :written].tolist(), strict=True)] == alive
    present = [place for place, run in enumerate(rows) if run]
    fences = np.array([rows[place][0][0] for place in present], np.uint64)
    queries = np.arange(10, dtype=np.uint64) << np.uint64(58)
    room = tuple(np.empty(19, np.uint32) for _ in range(3))
    of_runs = [column[present] for column in (*addresses, np.zeros(3, np.int64), counts)]
    verified, unverified = np.ones(2, np.uint8), np.zeros(2, np.uint8)
    found, unchecked = kernels.runs.probe(
        *(of_runs[0], *of_runs[2:], fences, np.arange(3)),
        *(verified, queries, 99, *room, unverified),
    )
    values = np.empty(found, np.uint32)
    kernels.runs.gather_column(of_runs[1], of_runs[3], *room[1:], 1, values)
    expected = [
        (query, row[2])
        for query, key in enumerate(queries.tolist())
        for run in rows
        for row in run
        if row[0] == key
    ]
    assert unchecked == 0
    assert [*zip(room[0].tolist(), values.tolist(), strict=True)] == expected
    spread = random.integers(0, 2**64, 200, dtype=np.uint64)
    spread[150:] = spread[:50]
    order = np.empty(200, np.int64)
    assert kernels.runs.sort_by_key(spread, order)
    assert order.tolist() == np.argsort(spread, kind="stable").tolist()
    assert not kernels.runs.sort_by_key(np.zeros(300, np.uint64), np.empty(300, np.int64))


# -- shingles ------------------------------------------------------------------------------------


@twin_of("shingles.decoded")
def decoded_texts(random: np.random.Generator) -> None:
    """Characters of one to four bytes, some of which depend on others; and no UTF-8 at all."""
    stands_for = np.arange(0x1F700, dtype=np.uint32)
    stands_for[ord("É")] = ord("é")
    stands_for[0x0301] = kernels.shingles.DEPENDS
    stands_for[ord("ß")] = kernels.shingles.PAIR | np.uint32(ord("s") << 15 | ord("s"))
    stands_for[ord("語")] = kernels.shingles.DROPPED
    sound = "aé É中語😀z00ß"
    texts = ["".join(random.choice(list(sound), size)).encode() for size in (0, 1, 5, 40)]
    texts += [b"plain 1n0, 101", "e\u0301".encode(), "\U0001f700".encode()]
    broken = [
        b"\xc3",
        b"\x80",
        b"\xc0\x80",
        b"\xe4\xb8",
        b"\xf8\x88\x80\x80\x80",
        b"\xff",
        b"\xc3(",
    ]
    broken += [b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf"]
    data = np.frombuffer(b"".join([*texts, *broken]), np.uint8)
    offsets = np.cumsum([0, *map(len, [*texts, *broken])])
    plain = np.arange(128, dtype=np.uint8)
    plain[ord("n")], plain[ord("1")] = kernels.shingles.NARROW_DROPPED, ord("0")
    joins = bool(random.integers(2))
    for table in (plain, np.empty(0, np.uint8)):
        narrow, wide, spans, unsettled = kernels.shingles.decoded(
            data, offsets, stands_for, table, joins
        )
        for text, (sort, start, stop) in zip([*texts, *broken], spans.tolist(), strict=True):
            if sort == kernels.shingles.WIDE:
                read = text.decode().replace("É", "é").replace("語", "").replace("ß", "ss")
                read = re.sub("0+", "0", read) if joins else read
                assert wide[start:stop].tobytes() == read.encode("utf-32-le")
            elif sort == kernels.shingles.NARROW and table.size:
                read = text.decode().replace("n", "").replace("1", "0")
                read = re.sub("0+", "0", read) if joins else read
                assert narrow[start:stop].tobytes().decode() == read
            else:
                assert data[start:stop].tobytes() == text
                assert text.isascii() == (sort == kernels.shingles.NARROW)
    settled = sum(not text.isascii() for text in texts[:-2])
    assert np.count_nonzero(spans[:, 0] == kernels.shingles.WIDE) == settled
    assert unsettled == np.count_nonzero(spans[:, 0] == kernels.shingles.UNSETTLED) == 11


@twin_of("shingles.word_places")
def words_by_breaks(random: np.random.Generator) -> None:
    """As the words of a text are told slowly; and Hebrew, whose quotes are within words."""
    some = list("ab1 _.,':·中のトカวัni\u0301\u200d")
    texts = ["".join(random.choice(some, size)) for size in (0, 1, 3, 12, 40)]
    for text in (*texts, 'ד"ר א\' "א" 5"5'):
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        places = kernels.shingles.word_places(points, breaks(CODE_POINTS)).tolist()
        hebrew = ['ד"ר', "א'", "א", "5", "5"]
        expected = hebrew if "ד" in text else oracle.words_by_breaks(text)
        assert [text[start:stop] for start, stop in places] == expected


@twin_of("forest.connect", "forest.roots")
def _forest(random):
    """Groups as sets, joined one pair after the other."""
    groups = {item: {item} for item in range(40)}
    parents = np.arange(40, dtype=np.uint32)
    for size in (0, 1, 15, 15):
        left, right = (side.astype(np.uint32) for side in drawn_pairs(random, 40, size))
        kernels.forest.connect(parents, left, right)
        for one, other in zip(left.tolist(), right.tolist(), strict=True):
            groups.update(dict.fromkeys(joined := groups[one] | groups[other], joined))
        items = random.permutation(40).astype(np.uint32)
        found = kernels.forest.roots(parents, items)
        assert found.tolist() == [min(groups[item]) for item in items.tolist()]


@twin_of("markup.unmarked")
def unmarked_texts(random: np.random.Generator) -> None:
    """Markup as a regular expression finds it; and values in quotes, which have what they like."""
    inline, hidden = (
        np.array([int.from_bytes(name, "big") for name in names], np.uint64)
        for names in ((b"b", b"i", b"em", b"a", b"span"), (b"script", b"style", b"template"))
    )
    some = ["<b>", "</b>", "<p class=x>", "a", "é", "<", ">", " ", "<!-- ", "-->", "<br/>", "</ x"]
    some += [
        "<script>",
        "</script>",
        "<STYLE >",
        "</style",
        "<!doctype x>",
        "&lt;",
        "<longer-name>",
    ]
    texts = ["".join(random.choice(some, size)) for size in (0, 1, 4, 20, 60)]
    known = {
        '<a href="x>y" title=\'"\'>in</a> out<p title="<b>">x': "in out x",
        '<a href="x>in</a>': "in",  # a quote that nothing ends is none
        '<a b="c><i d="e">': "",
        "5 < 6 and a<b but not > x <y": "5 < 6 and a x <y",
    }
    data = np.frombuffer("".join([*texts, *known]).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(text.encode()) for text in (*texts, *known))])
    kept, bounds, places = kernels.markup.unmarked(data, offsets, inline, hidden, True)
    found = [kept[i:j].tobytes().decode() for i, j in pairwise(bounds.tolist())]
    assert found == [*map(oracle.unmarked, texts), *known.values()]
    same = kept == data[places]
    assert (kept[~same] == ord(" ")).all()
    assert (data[places[~same]] == ord("<")).all()
    again = kernels.markup.unmarked(data, offsets, inline, hidden, False)
    assert again[0].tolist() == kept.tolist()


@twin_of("shingles.character_shingles", "shingles.word_shingles")
def shingled_texts(random: np.random.Generator) -> None:
    """Whitespace is 0 to 2, words are 65 to 90: the classes are the caller's."""
    texts = [
        random.choice([0, 1, 65, 70, 90, 97, 200], size).tolist() for size in (0, 1, 5, 30, 80)
    ]
    size = int(random.integers(1, 6))
    keys = np.array([BASE, MODULUS - pow(int(BASE), size, MODULUS), SECRET, BASE + 7], np.uint64)
    classes = np.zeros(256, np.uint8)
    classes[:3], classes[65:123] = kernels.shingles.WHITE_SPACE, kernels.shingles.WORD
    narrow = np.array([code for text in texts[::2] for code in text], np.uint8)
    wide = np.array([code for text in texts[1::2] for code in text], np.uint32)
    spans, places = [], [0, 0]
    for number, text in enumerate(texts):
        side = number % 2
        spans.append((side, places[side], places[side] + len(text)))
        places[side] += len(text)
    buffers = read_only(narrow), wide, np.array(spans)

    def windows(values: list[int]) -> list[list[int]]:
        length = min(len(values), size)
        return [values[i : i + length] for i in range(len(values) - length + 1)] if values else []

    def symbols(values: list[int]) -> list[int]:
        return [
            oracle.mixed(oracle.polynomial(part, int(BASE)), int(SECRET))
            for part in windows(values)
        ]

    lower = [
        [c + 32 if 65 <= c <= 90 and n % 2 == 0 else c for c in t] for n, t in enumerate(texts)
    ]
    found = kernels.shingles.character_shingles(
        *(*buffers, classes, classes, kernels.shingles.LOWERCASE, size, keys[:3])
    )
    assert rows_of(*found) == [symbols(text) for text in lower]
    collapsed = [" ".join("".join(" " if c < 3 else chr(c) for c in t).split(" ")) for t in texts]
    spaced = [[ord(c) for c in " ".join(text.split())] for text in collapsed]
    found = kernels.shingles.character_shingles(
        *(*buffers, classes, classes, kernels.shingles.COLLAPSE, size, keys[:3])
    )
    assert rows_of(*found) == [symbols(text) for text in spaced]
    none, nothing = np.empty(0, np.uint32), np.empty(0, np.uint64)
    found = kernels.shingles.word_shingles(
        *(*buffers, classes, classes, none, none, nothing, 0, size, keys)
    )
    words = ["".join(chr(c) if 65 <= c < 123 else " " for c in text).split() for text in texts]
    hashes = [[oracle.polynomial(map(ord, word), int(keys[3])) for word in text] for text in words]
    assert rows_of(*found) == [symbols(text) for text in hashes]
    folds = np.arange(256, dtype=np.uint32)
    folds[65:91] += np.uint32(32)
    stops = sorted(
        {oracle.polynomial(map(ord, word.lower()), int(keys[3])) for word in words[3][:2]}
    )
    found = kernels.shingles.word_shingles(
        *(*buffers, classes, classes, folds, folds, np.array(stops, np.uint64), 0, size, keys)
    )
    expected = [
        [
            symbols(own[i : i + size])[0]
            for i in range(len(own) - size + 1)
            if oracle.polynomial(map(ord, text[i].lower()), int(keys[3])) in stops
        ]
        for own, text in zip(hashes, words, strict=True)
    ]
    assert rows_of(*found) == expected


MODULUS = 2**61 - 1


# -- sketches ------------------------------------------------------------------------------------


@twin_of("sketches.fast_sketches", "sketches.classical_sketches")
def sketched_sets(random: np.random.Generator) -> None:
    sets = [random.integers(0, 2**64, size, dtype=np.uint64).tolist() for size in (0, 1, 3, 40, 3)]
    sets.append([2**64 - 1, 5])
    repeats = [1, 1, 1, 1, 150, 200]  # those of the last ones are dropped
    values, offsets = columns(
        [[*own * times, *own[:1]] for own, times in zip(sets, repeats, strict=True)]
    )
    rows, secret = int(random.integers(1, 20)), b"twin"
    final = oracle.secret_words(secret, b"simdb.row", 1)[0]
    words = np.array(oracle.secret_words(secret, b"simdb.fast", 2 * rows), np.uint64)
    found = kernels.sketches.fast_sketches(values, offsets, rows, words, np.uint64(final))
    assert found.tolist() == [oracle.fast_sketch(own, rows, secret) for own in sets]
    drawn = oracle.secret_words(secret, b"simdb.classical", 2 * rows)
    multipliers = np.array([word % (MODULUS - 1) + 1 for word in drawn[:rows]], np.uint64)
    addends = np.array([word % MODULUS for word in drawn[rows:]], np.uint64)
    found = kernels.sketches.classical_sketches(
        values, offsets, multipliers, addends, np.uint64(final)
    )
    assert found.tolist() == [oracle.classical_sketch(own, rows, secret) for own in sets]


@twin_of("sketches.fast_minima", "sketches.classical_minima", "sketches.sketches_of_minima")
def minima_of_parts(random: np.random.Generator) -> None:
    """The least of the minima of two parts are those of the whole, which make its sketch."""
    sets = [random.integers(0, 2**64, size, dtype=np.uint64).tolist() for size in (0, 1, 3, 40)]
    parts = [columns([own[start::2] for own in sets]) for start in (0, 1)]
    rows, secret = int(random.integers(1, 20)), b"twin"
    final = np.uint64(oracle.secret_words(secret, b"simdb.row", 1)[0])
    words = np.array(oracle.secret_words(secret, b"simdb.fast", 2 * rows), np.uint64)
    drawn = np.array(oracle.secret_words(secret, b"simdb.classical", 2 * rows), np.uint64)
    prime = np.uint64(MODULUS)
    lines = drawn[:rows] % (prime - np.uint64(1)) + np.uint64(1), drawn[rows:] % prime
    sketches = kernels.sketches
    fast = np.minimum(*(sketches.fast_minima(*part, rows, words) for part in parts))
    slow = np.minimum(*(sketches.classical_minima(*part, *lines) for part in parts))
    for minima, sketch in ((fast, oracle.fast_sketch), (slow, oracle.classical_sketch)):
        found = sketches.sketches_of_minima(minima, final)
        assert found.tolist() == [sketch(own, rows, secret) for own in sets]


@twin_of("sketches.bucket_keys", "sketches.matching_rows", "sketches.agreeing_rows")
def bands_of_signatures(random: np.random.Generator) -> None:
    bands, rows = 4, 3
    signatures = random.integers(0, 3, (20, bands * rows)).astype(np.uint16)
    keys = kernels.sketches.bucket_keys(signatures, bands, BASE, SECRET)
    cut = signatures.reshape(20, bands, rows).tolist()
    assert keys.tolist() == [
        [
            oracle.mixed(oracle.polynomial([band, *own], int(BASE)), int(SECRET))
            for band, own in enumerate(one)
        ]
        for one in cut
    ]
    left, right = drawn_pairs(random, 20, 60)
    equal = kernels.sketches.matching_rows(signatures[left], signatures[right])
    assert equal.tolist() == (signatures[left] == signatures[right]).sum(axis=1).tolist()
    enough = kernels.sketches.agreeing_rows(signatures, left, signatures, right, rows)
    assert enough.tolist() == (equal >= rows).tolist()


@twin_of("sketches.agreeing_hits")
def hits_of_queries(random: np.random.Generator) -> None:
    left, right = (random.integers(0, 2, (count, 40)).astype(np.uint16) for count in (9, 30))
    owners, least = random.integers(0, 9, 25), int(random.choice([0, 100]))
    queries = random.integers(0, 25, 70).astype(np.uint32)
    rows = (least + random.integers(0, 30, 70)).astype(np.uint32)
    items = random.permutation(200)[:70].astype(np.uint32)
    horizon = random.choice([0, 90, 2**32 - 1], 9)
    present = random.random(30) < 0.8
    needed = int(random.integers(15, 25))
    told = (queries, items, rows, least, owners, horizon, left, right, present, needed)
    near = [
        bool(
            items[hit] <= horizon[owners[query]]
            and present[rows[hit] - least]
            and (left[owners[query]] == right[rows[hit] - least]).sum() >= needed
        )
        for hit, query in enumerate(queries.tolist())
    ]
    assert kernels.sketches.agreeing_hits(*told).tolist() == near


# -- strings -------------------------------------------------------------------------------------


def some_words(random: np.random.Generator, count: int = 40) -> list[str]:
    """Words of few letters, some empty, many near to another one, some long."""
    lengths = [*random.integers(0, 9, count - 3), 70, 71, 150]
    words = ["".join(random.choice([*"abcé"], length)) for length in lengths]
    return words + [word[1:] + word[:1] for word in words[::2]]


def as_strings(words: Sequence[str]) -> Any:
    """Words as the kernels have them."""
    whole = "".join(words).encode("utf-32-le")
    spans = np.zeros((len(words), 3), np.int64)
    ends = np.cumsum([0, *map(len, words)])
    spans[:, 0], spans[:, 1], spans[:, 2] = 1, ends[:-1], ends[1:]
    wide = np.frombuffer(whole, "<u4").astype(np.uint32)
    nothing = np.empty(0, np.uint8)
    parts = kernels.strings.gathered(read_only(nothing), wide, spans, 0, nothing)
    return kernels.strings.Strings(*parts)


def drawn_cut(random: np.random.Generator) -> tuple[Any, Callable[[int], int]]:
    """Limits by a distance or by a similarity, and how many edits they allow at a length."""
    gap = int(random.integers(0, 2))
    if random.random() < 0.5:
        edits = int(random.choice([*range(5), 9, 40, 400]))
        return kernels.strings.Limits(edits, 0, 1, 6, gap), lambda longer: edits
    parts = int(random.integers(0, 8))
    return kernels.strings.Limits(0, parts, 10, 6, gap), lambda longer: parts * longer // 10


def differing(one: str, other: str) -> int:
    """How many characters, by their classes, one has at least that the other has not."""
    counted = [Counter(ord(letter) % 32 for letter in word) for word in (one, other)]
    seen = [{(c, n) for c, count in own.items() for n in range(min(2, count))} for own in counted]
    return max(len(seen[0] - seen[1]), len(seen[1] - seen[0]))


@twin_of("strings.gathered", "strings.near_bags")
def bags_of_strings(random: np.random.Generator) -> None:
    words = some_words(random)
    strings, (limits, edits) = as_strings(words), drawn_cut(random)
    assert strings.bags.dtype == np.uint64
    assert [
        bytes(strings.characters[start:stop]).decode("utf-32-le")
        for start, stop in pairwise(strings.offsets.tolist())
    ] == words
    left, right = drawn_pairs(random, len(words))
    lengths = np.diff(strings.offsets).astype(np.uint64)
    sides = (strings.bags[left], lengths[left], strings.bags[right], lengths[right])
    near = kernels.strings.near_bags(*sides, limits)
    for place, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        allowed = edits(max(len(words[one]), len(words[other])))
        apart = abs(len(words[one]) - len(words[other]))
        fits = max(apart, differing(words[one], words[other])) <= allowed
        assert near[place] == fits


@twin_of("strings.compare_rows", "strings.scan")
def edit_distances(random: np.random.Generator) -> None:
    words = some_words(random)
    strings, (limits, edits) = as_strings(words), drawn_cut(random)
    left, right = drawn_pairs(random, len(words))
    chosen = int(random.integers(0, len(words)))
    probe = as_strings([words[chosen]])
    for measure, transposes in ((0, False), (1, True)):
        distances, longer = kernels.strings.compare_rows(strings, strings, left, right, measure)
        pairs = [(words[one], words[other]) for one, other in zip(left, right, strict=True)]
        assert longer.tolist() == [max(map(len, pair)) for pair in pairs]
        assert distances.tolist() == [oracle.edits(*pair, transposes=transposes) for pair in pairs]
        expected = []
        for row, word in enumerate(words):
            longer_one = max(len(word), len(words[chosen]))
            apart = oracle.edits(word, words[chosen], transposes=transposes)
            if apart <= edits(longer_one):
                expected.append((row, apart, longer_one))
        found = kernels.strings.scan(probe, strings, limits, measure, 0)
        assert [*zip(*(column.tolist() for column in found), strict=True)] == expected
        most = int(random.integers(1, 8))
        columns = kernels.strings.scan(probe, strings, limits, measure, most)
        nearest = {*zip(*(column.tolist() for column in columns), strict=True)}
        far = {one: Fraction(one[1], max(one[2], 1) if limits.numerator else 1) for one in expected}
        least = [*sorted(far.values())[:most], *([Fraction(1_000)] * most)][most - 1]
        assert {one for one in expected if far[one] <= least} <= nearest <= {*expected}


@twin_of("strings.segment_keys", "strings.probe_keys", "strings.near_pairs")
def pairs_by_segments(random: np.random.Generator) -> None:
    """Near strings share a key; joined are those that are near, each once."""
    words, others = some_words(random), some_words(random)
    probes, strings = as_strings(words), as_strings(others)
    limits, edits = drawn_cut(random)
    secrets = np.array([BASE, SECRET], np.uint64)

    def may_be_near(one: str, other: str) -> bool:
        """Whether the edits are enough for the difference of the lengths."""
        return abs(len(one) - len(other)) <= edits(max(len(one), len(other)))

    for measure, transposes in ((0, False), (1, True)):
        if transposes and not limits.gap:
            continue
        keys = kernels.strings.segment_keys(strings, limits, secrets)
        assert keys.shape == (len(others), limits.most_segments)
        looked_up = rows_of(*kernels.strings.probe_keys(probes, limits, secrets))
        near = {
            (one, other, apart)
            for one, word in enumerate(words)
            for other, stored in enumerate(others)
            if may_be_near(word, stored)
            and (apart := oracle.edits(word, stored, transposes=transposes))
            <= edits(max(len(word), len(stored)))
        }
        for one, other, _ in near:
            assert {*looked_up[one]} & {*keys[other].tolist()} - {0}
        assert joined_strings(probes, strings, limits, measure, is_own=False) == sorted(near)
        own = {
            (one, other, apart)
            for one, other in combinations(range(len(others)), 2)
            if may_be_near(others[one], others[other])
            and (apart := oracle.edits(others[one], others[other], transposes=transposes))
            <= edits(max(len(others[one]), len(others[other])))
        }
        found = joined_strings(strings, strings, limits, measure, is_own=True)
        assert sorted((*sorted(pair[:2]), pair[2]) for pair in found) == sorted(own)


def joined_strings(
    probes: Any, strings: Any, limits: Any, measure: int, *, is_own: bool
) -> list[tuple[int, int, int]]:
    """What the join finds in a room of few pairs, sorted."""
    secrets = np.array([BASE, SECRET], np.uint64)
    matrix = kernels.strings.segment_keys(strings, limits, secrets)
    rows, places = np.nonzero(matrix)
    keys = matrix[rows, places]
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    starts = np.searchsorted(keys, np.arange(4, dtype=np.uint64) << np.uint64(62))
    starts = np.append(starts, keys.size)
    lengths = np.unique(np.diff(strings.offsets))
    entries = kernels.strings.Entries(keys, rows, strings.bags[rows], starts, 62, lengths)
    most = len(strings.bags)
    sides = (probes, strings, entries, limits, secrets, measure, is_own, most)
    found: list[tuple[int, int, int]] = []
    state = np.array([0, probes.bags.size, 0])
    room = [np.empty(len(strings.bags) + 5, np.int64) for _ in range(3)]
    while state[0] < state[1]:
        count = kernels.strings.near_pairs(*sides, state, *room)
        found += zip(*(column[:count].tolist() for column in room), strict=True)
    return sorted(found)


# -- vectors -------------------------------------------------------------------------------------


def some_weighted(
    random: np.random.Generator, count: int = 12
) -> tuple[list[dict[int, float]], tuple[Any, Any, Any]]:
    """Weighted sets, and they as arrays; one is empty."""
    symbols = random.integers(0, 2**64, 15, dtype=np.uint64)
    sets = []
    for _ in range(count):
        chosen = sorted(random.choice(symbols, random.integers(1, 9), replace=False).tolist())
        sets.append({symbol: float(random.exponential()) + 0.01 for symbol in chosen})
    sets[0] = {}
    offsets = np.cumsum([0, *map(len, sets)])
    values = np.array([symbol for one in sets for symbol in one], np.uint64)
    return sets, (values, np.array([weight for one in sets for weight in one.values()]), offsets)


def weighted_sums(one: dict[int, float], other: dict[int, float]) -> tuple[Fraction, Fraction]:
    """The sums of minima and of maxima of two weighted sets."""
    pairs = [
        (Fraction(one.get(symbol, 0.0)), Fraction(other.get(symbol, 0.0)))
        for symbol in one.keys() | other.keys()
    ]
    return Fraction(sum(map(min, pairs))), Fraction(sum(map(max, pairs)))


@twin_of("weighted.compare_pairs")
def sums_of_weights(random: np.random.Generator) -> None:
    sets, arrays = some_weighted(random)
    left, right = (places.ravel() for places in np.indices((len(sets), len(sets))))
    minima, maxima = kernels.weighted.compare_pairs(*arrays, *arrays, left, right)
    for one, other, least, most in zip(left, right, minima, maxima, strict=True):
        expected = weighted_sums(sets[one], sets[other])
        assert (least, most) == tuple(map(float, expected))


@twin_of("weighted.tails", "weighted.prefix_ends", "weighted.near_candidates")
def weighted_prefixes(random: np.random.Generator) -> None:
    sets, (values, weights, offsets) = some_weighted(random, 30)
    summed = kernels.weighted.tails(weights, offsets)
    ends = kernels.weighted.prefix_ends(summed, offsets, 0.6)
    for number, one in enumerate(sets):
        parts = list(one.values())
        begin = int(offsets[number])
        for place in range(len(parts)):
            assert math.isclose(summed[begin + place], sum(parts[place:]), rel_tol=1e-9)
        prefix = int(ends[number]) - begin
        assert sum(parts[prefix:]) < 0.6 * sum(parts) or not parts
        assert not prefix or sum(parts[prefix - 1 :]) >= 0.6 * sum(parts) * (1 - 1e-12)
    ranks = np.unique(values, return_inverse=True)[1].astype(np.int64)
    weighed = kernels.weighted.Weighed(ranks, weights, summed, offsets)
    owners = np.repeat(np.arange(len(sets)), np.diff(offsets))
    by_rank = np.argsort(ranks, kind="stable")
    starts = np.searchsorted(ranks[by_rank], np.arange(ranks.max() + 2))
    posted = kernels.weighted.Posted(starts, owners[by_rank], by_rank)
    similar = set()
    for left, right in product(range(len(sets)), repeat=2):
        least, most = weighted_sums(sets[left], sets[right])
        if least and least >= Fraction("0.6") * most:
            similar.add((left, right))
    for is_own in (False, True):
        sides = (weighed, ends, posted, weighed, 0.6 * (1 - 1e-9), is_own)
        whole, met = weighted_candidates(sides, 2**40, 1_000)
        assert set(whole) == {pair for pair in similar if not is_own or pair[0] > pair[1]}
        assert len(whole) == len(set(whole)) <= met
        # In portions of any size all is met in the same order.
        steps, room = random.integers(1, (200, 9)).tolist()
        assert weighted_candidates(sides, steps, room) == (whole, met)


def weighted_candidates(
    sides: tuple[Any, ...], most: int, room: int
) -> tuple[list[tuple[int, int]], int]:
    """What calls find, each of so many steps at most and in such a room; the pairs met."""
    ends, others = sides[1], sides[3]
    state, seen = np.zeros(4, np.int64), np.full(others.offsets.size - 1, -1)
    columns = np.empty(room, np.int64), np.empty(room, np.int64)
    found: list[tuple[int, int]] = []
    while state[0] < ends.size:
        before = int(state[3])
        count = kernels.weighted.near_candidates(*sides, most, state, seen, *columns)
        assert state[3] - before <= most  # each pair that is met takes a step at least
        found += zip(*(column[:count].tolist() for column in columns), strict=True)
    return found, int(state[3])


@twin_of("weighted.dart_sketches")
def darts_of_weights(random: np.random.Generator) -> None:
    sets, arrays = some_weighted(random, 4)
    rows, counts = 8, poisson_counts()
    seeds = random.integers(0, 2**64, 256, dtype=np.uint64)
    sketches = kernels.weighted.dart_sketches(*arrays, rows, counts, seeds)
    for one, sketch in zip(sets, sketches.tolist(), strict=True):
        least: dict[int, tuple[Fraction, int]] = {}
        for band in range(-32, 64):
            if not one or len(least) == rows:
                break
            for symbol, weight in one.items():
                own = oracle.mixed(symbol, int(seeds[3 + band + 32]))
                reach = Fraction(weight) * Fraction(2) ** band
                for cell in range(math.ceil(reach)):
                    drawn = oracle.mixed((own + cell * SPREAD) % 2**64, int(seeds[0]))
                    for dart in range(1, 1 + sum(drawn >= int(count) for count in counts)):
                        across = oracle.mixed((drawn + dart * SPREAD) % 2**64, int(seeds[1]))
                        up = oracle.mixed(across, int(seeds[2]))
                        if cell + Fraction(across >> 24, 2**40) >= reach:
                            continue
                        low = 0 if band == -32 else Fraction(2) ** band
                        rank = low + Fraction(2) ** band * Fraction(up >> 24, 2**40)
                        row = up % 2**24 * rows >> 24
                        least[row] = min(least.get(row, (rank, up)), (rank, up))
        expected = [oracle.mixed(least[row][1], int(seeds[1])) % 2**16 for row in sorted(least)]
        assert sketch == (expected or [0] * rows)


@twin_of("vectors.compare_rows", "vectors.scan")
def distances_of_vectors(random: np.random.Generator) -> None:
    vectors = random.standard_normal((12, 70)).astype(np.float32)
    vectors[3], vectors[4] = vectors[2] * np.float32(2), 0
    vectors = read_only(vectors)
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact**2).sum(axis=1))
    apart = exact[:, None] - exact

    def by(measure: int) -> npt.NDArray[np.float64]:
        if measure == kernels.vectors.EUCLIDEAN:
            return np.asarray(np.sqrt((apart**2).sum(axis=2)))
        if measure == kernels.vectors.MANHATTAN:
            return np.asarray(np.abs(apart).sum(axis=2))
        if measure == kernels.vectors.MAXIMUM:
            return np.asarray(np.abs(apart).max(axis=2))
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.nan_to_num(exact @ exact.T / np.outer(lengths, lengths), nan=1.0)
        return np.degrees(np.arccos(np.clip(cosines, -1, 1)))

    every = np.arange(12)
    scales = np.repeat(np.array([1e-44, 1e-30, 1e-19, 1, 1e15, 1e19, 2e37], np.float32), 8)
    long = random.standard_normal((scales.size, 300)).astype(np.float32)
    long[::3] = long[0] + long[::3] * np.float32(1e-3)
    long = read_only(long * scales[:, None])
    # More than are looked at together; and long ones, of which some are read in parts.
    for shape in ((9_000, 3), (1_300, 300)):
        many = read_only(random.standard_normal(shape).astype(np.float32))
        every_row = np.arange(len(many))
        for measure, share in product(range(4), (0.01, 0.5)):
            own = kernels.vectors.compare_rows(
                many, many, np.full_like(every_row, 7), every_row, measure
            )
            limit = float(np.quantile(own, share))
            rows, near = kernels.vectors.scan(
                many[7], *some_pieces(random, many), measure, limit, 0
            )
            assert rows.tolist() == np.flatnonzero(own <= limit).tolist()
            assert near.tolist() == own[rows].tolist()
            wanted = int(random.choice([1, 10, 300]))
            pieces = some_pieces(random, many)
            rows, near = kernels.vectors.scan(many[7], *pieces, measure, np.inf, wanted)
            assert_nearest(rows, near, own, wanted)
    for measure in range(4):
        for probe in range(0, len(long), 7):
            of_one = np.full(len(long), probe), np.arange(len(long))
            own = kernels.vectors.compare_rows(long, long, *of_one, measure)
            for limit in random.choice(own, 3).tolist():
                pieces = some_pieces(random, long)
                rows, near = kernels.vectors.scan(long[probe], *pieces, measure, limit, 0)
                assert rows.tolist() == np.flatnonzero(own <= limit).tolist()
                assert near.tolist() == own[rows].tolist()
        expected = by(measure)
        left, right = np.repeat(every, 12), np.tile(every, 12)
        found = kernels.vectors.compare_rows(vectors, vectors, left, right, measure)
        np.testing.assert_allclose(found, expected.ravel(), rtol=1e-9, atol=3e-6)
        limit = float(np.median(found))
        rows, near = kernels.vectors.scan(vectors[5], *Pieces.of(vectors), measure, limit, 0)
        own = kernels.vectors.compare_rows(vectors, vectors, np.full(12, 5), every, measure)
        assert rows.tolist() == np.flatnonzero(own <= limit).tolist()
        assert near.tolist() == own[rows].tolist()


@twin_of("vectors.sign_words", "vectors.line_words")
def words_of_projections(random: np.random.Generator) -> None:
    """By exact sums: the entries of vectors and directions are small whole numbers."""
    bands, rows, dimension = 3, int(random.integers(1, 20)), 40
    vectors = random.integers(-3, 4, (9, dimension)).astype(np.float32)
    directions = random.integers(-2, 3, (bands * rows, dimension)).astype(np.float32)
    sums = (vectors @ directions.T).astype(np.int64)
    noise = random.uniform(-0.9, 0.9, sums.shape)
    near = (sums + noise).astype(np.float32)
    by_row = near.reshape(9, bands, rows).swapaxes(1, 2).reshape(9, -1).copy()
    words = kernels.vectors.sign_words(by_row, np.ones(9, np.float32), vectors, directions, bands)
    for own, signature in zip((sums >= 0).reshape(9, bands, rows), words.tolist(), strict=True):
        expected = []
        for band in own.tolist():
            number = sum(side << place for place, side in enumerate([*band, True]))
            expected += [number >> 16 * word & 0xFFFF for word in range(rows // 16 + 1)]
        assert signature == expected
    shifts = random.integers(0, 8, bands * rows) / 2.0
    for projected in (near, (sums + noise)):
        errors = np.ones(9, projected.dtype)
        found = kernels.vectors.line_words(projected, errors, vectors, directions, shifts, 4.0)
        assert found.tolist() == (np.floor((sums + shifts) / 4) % 65_535 + 1).tolist()


# -- stored runs ---------------------------------------------------------------------------------

NO_MARKS = np.empty(0, np.uint8)
INDEX = 7


class AbortError(Exception):
    """Undoes a transaction on purpose."""


class TwinRuns:
    """A run set beside the slow obvious one: a list of (key, columns...), and a set of the dead."""

    def __init__(self, environment, seed, *, columns=1, item_column=0, key_count=200, most=40):
        self.environment = environment
        self.random = Random(seed)
        self.columns, self.item_column = columns, item_column
        self.key_count, self.most = key_count, most
        self.stored = RunDirectory().encode()
        self.rows: list[tuple[int, ...]] = []
        self.dead: set[int] = set()
        self.next_item = 0
        self.counters = MergeCounters()

    def marks(self):
        marks = np.zeros(self.next_item // 8 + 1, np.uint8)
        for item in self.dead:
            marks[item >> 3] |= 1 << (item & 7)
        return marks

    def writer(self, transaction, directory):
        return RunWriter(
            transaction,
            Table.BANDS,
            INDEX,
            directory,
            column_count=self.columns,
            item_column=self.item_column,
        )

    def new_rows(self):
        rows, first = [], self.next_item
        for item in range(first, first + self.random.randint(1, 4)):
            for _ in range(self.random.randint(0, self.most)):
                # Squaring makes some keys far more frequent than others.
                key = int(self.random.random() ** 2 * self.key_count)
                row = [self.random.randrange(5) for _ in range(self.columns)]
                row[self.item_column] = item
                rows.append((key << 40 | key, *row))
        return sorted(rows), first, item

    def append(self, writer):
        rows, first, last = self.new_rows()
        keys = np.array([row[0] for row in rows], np.uint64)
        columns = np.array([row[1:] for row in rows], np.uint32).reshape(-1, self.columns).T
        writer.append(keys, columns, first, last)
        writer.merge_after(len(rows), self.marks)
        return rows, last + 1

    def delete(self, directory, writer):
        alive = sorted({row[1 + self.item_column] for row in self.rows} - self.dead)
        doomed = self.random.sample(alive, len(alive) // 4)
        for item in doomed:
            self.dead.add(item)
            count = sum(row[1 + self.item_column] == item for row in self.rows)
            directory.note_deleted(item, count)
        writer.merge_after(len(doomed), self.marks)

    def change(self):
        """Do one random transaction; some are undone."""
        choice = self.random.random()
        undone = self.random.random() < 0.15
        directory = RunDirectory.decode(self.stored)
        added, next_item, dead = [], self.next_item, set(self.dead)
        try:
            with self.environment.write(1) as transaction:
                writer = self.writer(transaction, directory)
                if choice < 0.75:
                    added, next_item = self.append(writer)
                elif choice < 0.85:
                    writer.step(self.marks)
                elif choice < 0.95:
                    self.delete(directory, writer)
                else:
                    writer.start_full_merge()
                if undone:
                    raise AbortError  # noqa: TRY301 - undoes the transaction
        except AbortError:
            self.dead = dead
            return
        self.stored = directory.encode()
        self.rows = sorted(self.rows + added)
        self.next_item = next_item
        for name in ("steps", "entries", "bytes"):
            total = getattr(self.counters, name) + getattr(writer.counters, name)
            setattr(self.counters, name, total)

    def alive_rows(self):
        return [row for row in self.rows if row[1 + self.item_column] not in self.dead]

    def view(self, transaction):
        directory = RunDirectory.decode(self.stored)
        return RunView(transaction, Table.BANDS, INDEX, directory, column_count=self.columns)

    def check(self):
        with self.environment.read() as transaction:
            view = self.view(transaction)
            self.check_probe(view)
            self.check_sweep(view)
        self.check_directory()

    def check_probe(self, view):
        present = range(self.key_count + 5)
        wanted = [key << 40 | key for key in self.random.sample(present, min(20, len(present)))]
        found = view.probe(np.array(wanted, np.uint64))
        columns = [view.column(found, column).tolist() for column in range(self.columns)]
        rows = [
            (wanted[query], *row)
            for query, *row in zip(found.queries.tolist(), *columns, strict=True)
            if row[self.item_column] not in self.dead
        ]
        assert sorted(rows) == [row for row in self.alive_rows() if row[0] in wanted]
        if self.item_column == 0:
            order = list(zip(found.queries.tolist(), columns[0], strict=True))
            assert order == sorted(order)

    def check_sweep(self, view):
        room = self.random.choice([1, 7, 64, 10_000])
        largest = max(Counter(row[0] for row in self.rows).values(), default=0)
        swept: list[tuple[int, ...]] = []
        for keys, columns in view.sweep(self.marks(), item_column=self.item_column, room=room):
            assert not swept or swept[-1][0] < int(keys[0])  # no bucket is cut
            assert len(keys) <= max(room, 2 * largest)
            swept += zip(keys.tolist(), *columns.tolist(), strict=True)
        assert [row[:2] for row in swept] == [row[:2] for row in self.alive_rows()]
        assert sorted(swept) == self.alive_rows()

    def check_directory(self):
        directory = RunDirectory.decode(self.stored)
        ranges = [(run.first_item, run.last_item) for run in directory.runs if not run.is_output]
        assert ranges == sorted(ranges)
        assert all(before[1] < after[0] for before, after in pairwise(ranges))
        due = {run.number for group in due_merges(directory.runs) for run in group}
        for is_merging, segment in groupby(directory.runs, key=lambda run: run.merge > 0):
            idle = [] if is_merging else segment
            levels = [run.level for run in idle if run.number not in due]
            assert all(levels.count(level) < runs.FAN_IN for level in levels)

    def finish(self):
        """Merge all runs into one."""
        for _ in range(2):  # what is under way first
            more = True
            while more:
                directory = RunDirectory.decode(self.stored)
                with self.environment.write(1) as transaction:
                    writer = self.writer(transaction, directory)
                    more = writer.step(self.marks)
                self.stored = directory.encode()
            directory = RunDirectory.decode(self.stored)
            with self.environment.write(1) as transaction:
                self.writer(transaction, directory).start_full_merge()
            self.stored = directory.encode()
        directory = RunDirectory.decode(self.stored)
        with self.environment.write(1) as transaction:
            while self.writer(transaction, directory).step(self.marks):
                pass
        self.stored = directory.encode()


def entries_of(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Make so many entries with keys of their own, of one item."""
    keys = np.arange(count, dtype=np.uint64) * np.uint64(1_000) + np.uint64(first)
    return keys, np.full((1, count), first, np.uint32)


def append_runs(writer, sizes, first=0):
    for item, size in enumerate(sizes, first):
        writer.append(*entries_of(item, size), item, item)


def compile_part(part: int, parts: int) -> None:
    """Run the twins of every so many-th module of kernels, which compiles those not kept yet."""
    gc.disable()  # the compiler makes millions of small objects and few cycles: a tenth sooner
    modules = sorted({name.partition(".")[0] for name in TWINS})[part::parts]
    missing = [
        twin
        for name, twin in TWINS.items()
        if name.partition(".")[0] in modules and not kept.find(name)
    ]
    for run_twin in dict.fromkeys(missing):
        run_twin(np.random.default_rng(0))


if __name__ == "__main__":
    compile_part(*map(int, sys.argv[1:]))
