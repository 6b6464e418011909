"""Strings within an edit distance share a segment: who is cut into how many, and joins in memory.

A string that may be k edits from another is cut into k + 1 segments, and one edit changes one
segment at most. So one of them is in the other string as it is (the pigeonhole principle; PassJoin:
Li, Deng, Wang and Feng, VLDB 2011), and not anywhere: let segment i be the first such that at most
i edits are made up to its end (the last is, for k). More than i - 1 are made up to the end of the
one before it, so exactly i, all before it, and none in it: i at most before it, k - i at most after
it. Each edit moves what follows by one character at most, so the segment begins within i characters
of where it did, counted from the left, and within k - i counted from the right.

To transpose two neighbours is one edit as well, which changes two characters. Then one character is
left out between segments, so that again no edit reaches two of them. (What is deleted or inserted
between two transposed characters are edits of their own, and the same argument counts them.)

By a normalised similarity of at least t, 1 - d / longer, two strings are at most (1 - t) longer
edits apart. One of length l is cut for the longest string that is similar enough to it, of at most
l / t characters. Against any other fewer edits are allowed, and fewer of its segments needed.

What is too short for so many segments, or would need too many, has one key for its length, or for a
class of long lengths, and is compared with all of about that length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arrays import Int64s, UInt64s
from simdb.exact.joins import ALONE, Workers, in_order
from simdb.exact.thresholds import Bound, MaximumDistance
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.kernels.strings import Entries, Limits, Strings

MOST_SEGMENTS = 17  # of a string, so at most 16 edits
ROOM = 65_536  # pairs found at a time
PROBES_AT_ONCE = 4_096
STEPS_AT_ONCE = 2**24  # of the kernel, however few it finds: a tenth of a second or two
_LARGEST_DENOMINATOR = 2**20
KEYS_A_PART = 2  # of the directory of keys, on average


class Cut(NamedTuple):
    """How far apart strings may be, and how many segments they may be cut into.

    Two strings, the longer of n characters, may be (edits + numerator n) // denominator apart.
    """

    edits: int
    numerator: int
    denominator: int
    most_segments: int
    gap: int  # characters left out between two segments

    @classmethod
    def within(cls, bound: Bound, most_segments: int, *, transposes: bool) -> Cut:
        """Return what serves a bound: a distance, or a normalised similarity."""
        gap = int(transposes)
        if isinstance(bound, MaximumDistance):
            edits = min(int(bound.fraction), kernels.strings.MOST_LENGTH)
            return cls(edits, 0, 1, most_segments, gap)
        share = 1 - bound.fraction
        if share.denominator > _LARGEST_DENOMINATOR:  # a little more is allowed then
            parts = -(-share.numerator * _LARGEST_DENOMINATOR // share.denominator)
            share = Fraction(parts, _LARGEST_DENOMINATOR)
            if share == 1:  # all but one edit, of strings of any length
                most = kernels.strings.MOST_LENGTH
                share = Fraction(most - 1, most)
        return cls(0, share.numerator, share.denominator, most_segments, gap)

    @property
    def limits(self) -> Limits:
        """The same for kernels."""
        return kernels.strings.Limits(*self)


class Comparison(NamedTuple):
    """By which ``measure`` of ``kernels.strings``, and under which secrets segments are hashed."""

    measure: int
    secrets: UInt64s


class Found(NamedTuple):
    """Pairs of strings: rows on the left and on the right, and their distances."""

    left: Int64s
    right: Int64s
    distances: Int64s


def near_pairs(
    ones: Strings,
    others: Strings | None,
    cut: Cut,
    how: Comparison,
    work: Work,
    *,
    workers: Workers = ALONE,
) -> Iterator[Found]:
    """Find every pair of strings that are near enough, each once; exact.

    Of ``ones`` with ``others``, or with each other if these are None, in any order of the two.
    By a measure that verifies nothing all pairs come that may be near enough.
    """
    strings = ones if others is None else others
    limits = cut.limits
    entries = _entries(strings, limits, how.secrets)
    count = ones.bags.size
    step = partial(
        kernels.strings.near_pairs,
        *(ones, strings, entries, limits, how.secrets, how.measure, others is None, STEPS_AT_ONCE),
    )
    join = _Join(step, work.budget, work.looked_at, workers.pool is None)
    probes = (
        _Probes(join, np.array([begin, min(begin + PROBES_AT_ONCE, count), 0]))
        for begin in range(0, count, PROBES_AT_ONCE)
    )
    for looked_at, parts in in_order(probes, workers, join.stop):
        work.note(looked_at)
        yield from parts


class _Join(Struct):
    """A join under way."""

    step: Callable[..., int]
    budget: int | None
    looked_at: int  # by all threads, about: ahead of what is noted
    by_steps: bool

    def stop(self) -> None:
        """Let threads end after the step that each is at, when nobody waits for more."""
        self.by_steps = True

    def note(self, looked_at: int) -> None:
        """Count what a thread has looked at; where the budget ends, probes are joined by steps."""
        self.looked_at += looked_at
        if self.budget is not None and self.looked_at > self.budget:
            self.by_steps = True


class _Probes(Struct):
    """Some probes of a join, and how far they are joined: a ``Portion`` of it."""

    join: _Join
    state: Int64s  # of the kernel: the next probe, where to stop, entries looked at
    room: int = ROOM

    @property
    def done(self) -> bool:
        return bool(self.state[0] >= self.state[1])

    def advance(self, most: int) -> tuple[int, list[Found]]:
        """Join on; return how many entries were looked at, and what was found."""
        parts: list[Found] = []
        found = 0
        begun = False
        while found < most and not self.done and not (begun and self.join.by_steps):
            begun = True
            row, before = self.state[0], int(self.state[2])
            columns = [np.empty(self.room, np.int64) for _ in range(3)]
            written = self.join.step(self.state, *columns)
            self.join.note(int(self.state[2]) - before)
            if self.state[0] == row and not written:
                self.room *= 4  # one probe has more pairs than that
                continue
            parts.append(Found(*(column[:written].copy() for column in columns)))
            found += written
        looked_at = int(self.state[2])
        self.state[2] = 0
        return looked_at, parts


def _entries(strings: Strings, limits: Limits, secrets: UInt64s) -> Entries:
    """Sort the keys of all strings, and make a directory of them."""
    matrix = kernels.strings.segment_keys(strings, limits, secrets)
    rows, columns = np.nonzero(matrix)
    keys = matrix[rows, columns]
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    bits = max(1, (keys.size // KEYS_A_PART).bit_length())
    shift = 64 - bits
    firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(shift)
    starts = np.append(np.searchsorted(keys, firsts), keys.size)
    lengths = np.unique(np.diff(strings.offsets))
    return kernels.strings.Entries(keys, rows, strings.bags[rows], starts, shift, lengths)
