"""Choosing settings for texts whose threshold nobody knows: several are tried on a sample.

Each setting is a collection of its own, whose pairs are found exactly from a low threshold on. So
it is known what each threshold would remove, how many pairs lie beside it, and which they are.
"""

from __future__ import annotations

import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import islice
from math import nextafter, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from simdb.arguments import (
    can_be_iterated,
    number_within,
    require_function,
    require_whole,
    short,
)
from simdb.arrays import Float64s, Int64s
from simdb.arrow import one_by_one
from simdb.database import Database, open_throwaway
from simdb.errors import BadItemError, ConfigurationError, WrongTypeError
from simdb.exact.thresholds import Threshold
from simdb.kinds import Kind, Text
from simdb.kinds.text import PROFILES, CharacterShingles, WordShingles
from simdb.results import Pairs, Progress
from simdb.upkeep.audit import exact_interval

THRESHOLDS = (0.6, 0.7, 0.8, 0.9)
LOWEST = 0.5
EXAMPLES = 10  # pairs on each side of a threshold
MOST_KEPT = 50_000  # pairs of a trial, if there are more
_MATRIX = 2**26  # bytes
BIN = 0.05
_LARGEST_SET = 10**7  # symbols of two texts together, about
_LAST_BIN = round((1 - LOWEST) / BIN) - 1
FEW = 10  # rows removed, whose number says little of what other rows would do
TRIED: tuple[tuple[str, Text], ...] = (
    ("character:9", Text()),
    ("character:9 lowercase", Text(lowercase=True)),
    ("character:5 lowercase", Text(CharacterShingles(5), lowercase=True)),
    ("word:1 lowercase", Text(WordShingles(1), lowercase=True)),
    ("word:2 lowercase", Text(WordShingles(2), lowercase=True)),
    ("word:3 lowercase", Text(WordShingles(3), lowercase=True)),
    *((f"profile {name}", Text.profile(name)) for name in PROFILES),
)


@dataclass(frozen=True, slots=True)
class Example:
    """Two texts of the sample, by their places in it, and how similar they are."""

    left: int
    right: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Removal:
    """What one threshold would do.

    Attributes:
        threshold: from which on texts are similar.
        rows, bytes: that would be removed, by ``dedupe``: those similar to one kept before.
        beside: pairs less than 0.05 away from the threshold, which another one would take or leave.
        above, below: the nearest pairs on either side, of those that the trial keeps.
    """

    threshold: float
    rows: int
    bytes: int
    beside: int
    above: tuple[Example, ...] = field(repr=False)
    below: tuple[Example, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting, tried.

    Attributes:
        name: of its shingles, as the command line spells them, or of its profile.
        kind: the setting.
        removals: of each threshold.
        histogram: pairs by similarity, 0.05 apart from 0.5 on.
        keys: bucket keys of a text at a threshold of 0.8.
        seconds: of processor time to add 1,000 texts with that index.
        pairs: those of at least 0.5; if there are more than 50,000, some of each range of the
            histogram, which counts them all.
    """

    name: str
    kind: Text
    removals: tuple[Removal, ...]
    histogram: tuple[int, ...]
    keys: int
    seconds: float
    pairs: tuple[Example, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of ``tune``.

    Attributes:
        rows, bytes: of the sample.
        trials: one for each setting.
        proposed, threshold: the proposed setting and threshold. So few pairs lie near it, as a
            share of the rows removed, that no other choice has clearly fewer; see ``tune``.
        reason: why these are proposed, in a sentence.
        texts: the sample, to which the places of examples refer.
    """

    rows: int
    bytes: int
    trials: tuple[Trial, ...]
    proposed: Trial
    threshold: float
    reason: str
    texts: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        """Return what is proposed and why, and what each setting removes, in lines."""
        removed = (
            f"  {trial.name}: "
            + ", ".join(f"{one.rows:,} at {one.threshold:g}" for one in trial.removals)
            for trial in self.trials
        )
        return "\n".join(
            [
                f"of {self.rows:,} texts, {self.proposed.name} at {self.threshold:g} is proposed",
                self.reason,
                "rows removed:",
                *removed,
            ]
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """What yes and no on examples say of a threshold.

    Attributes:
        threshold: from which on texts are similar.
        precision, recall: of the pairs from there on the share that are true, and of the true
            pairs of at least 0.5 the share from there on; None where that takes in a range of
            similarities of which no pair was judged, or no true pair is known.
        precision_interval, recall_interval: 95 %, whatever is true of the other ranges; None where
            nothing is known. Pairs that have a text in common count as one.
    """

    threshold: float
    precision: float | None
    recall: float | None
    precision_interval: tuple[float, float] | None
    recall_interval: tuple[float, float] | None


def tune(
    texts: Iterable[str],
    *,
    sample: int = 5_000,
    thresholds: Sequence[float] = THRESHOLDS,
    tried: Sequence[tuple[str, Text]] | None = None,
    threads: int | None = None,
    memory: int = 2**30,
    progress: Callable[[Progress], None] | None = None,
) -> Tuning:
    """Try several settings on the first texts, and say what each threshold would remove.

    Pairs are found exactly, but only within the sample; among all texts more have a similar one.

    The proposed choice is one whose result changes little with the threshold: few pairs lie near
    the threshold, compared with the rows that it removes. Counts are small, so all choices within
    one standard error of the best are candidates (L. Breiman and others, Classification and
    Regression Trees, 3.4.3). Of these the first setting is taken, with its strictest threshold.
    This does not tell what you mean by "the same": look at examples, or judge some (``judge``).

    Args:
        texts: the texts to compare.
        sample: how many of them are looked at.
        thresholds: above 0.5, at most 1.
        tried: settings by name; by default characters and words, with and without case, and the
            profiles.
        threads: threads that sign and compare; by default as many as there are processors.
        memory: bytes that this may take, as for ``open``, besides the texts and the pairs kept.
        progress: called after each setting.

    Raises:
        ConfigurationError: there are no two texts, or a threshold is out of range.
        WrongTypeError: ``texts`` is a table or a mapping, or ``tried`` is not pairs of a name and
            a ``simdb.Text``.
        BadItemError: an item is not a text.
    """
    require_function("progress", progress)
    every: list[Any] = [*thresholds] if can_be_iterated(thresholds) else []
    if not every:
        raise ConfigurationError(f"thresholds must be some to try, not {short(thresholds)}")
    sample = require_whole("sample", sample, 2, optional=False)
    thresholds = [number_within("thresholds", threshold, 1) for threshold in every]
    if (least := min(thresholds)) <= LOWEST:
        raise ConfigurationError(f"thresholds must be above 0.5 and at most 1, not {short(least)}")
    settings = _settings(TRIED if tried is None else tried)
    chosen = list(islice(one_by_one("texts", texts, "texts", "text"), min(sample, sys.maxsize)))
    if len(chosen) < 2:
        raise ConfigurationError(
            f"a sample needs at least two texts to compare, and there are {len(chosen)}"
        )
    for row, text in enumerate(chosen):
        if not isinstance(text, str):
            raise BadItemError(f"row {row} is not a text, but {type(text).__name__}", row=row)
    sizes = np.array([len(text.encode("utf-8", "replace")) for text in chosen], np.int64)
    trials: list[Trial] = []
    for setting in settings:
        with (
            tempfile.TemporaryDirectory(prefix="simdb-") as folder,
            open_throwaway(Path(folder) / "rows.simdb", threads=threads, memory=memory) as database,
        ):
            trials.append(_tried(database, setting, chosen, sizes, thresholds))
        if progress is not None:
            progress(Progress("trying settings", len(trials), len(settings)))
    proposed, removal, reason = _proposed(trials, thresholds, len(chosen))
    return Tuning(
        len(chosen),
        int(sizes.sum()),
        tuple(trials),
        proposed,
        removal.threshold,
        reason,
        tuple(chosen),
    )


def _settings(tried: Any) -> list[tuple[str, Text]]:
    """Return settings by name as they are given; WrongTypeError: they are others."""
    settings = [*tried] if can_be_iterated(tried) else [tried]
    for one in settings or [tried]:
        pair = one if isinstance(one, tuple | list) else ()
        if len(pair) != 2 or not isinstance(pair[0], str) or not _is_of_texts(pair[1]):
            raise WrongTypeError(
                f"tried must be pairs of a name and a simdb.Text, not {short(one)}"
            )
    return settings


def _is_of_texts(kind: object) -> bool:
    """Whether items of a kind are texts that are cut, so that a similarity counts their symbols."""
    return isinstance(kind, Kind) and kind.json_form == Text.json_form and kind.has_symbols


def _proposed(
    trials: Sequence[Trial], thresholds: Sequence[float], rows: int
) -> tuple[Trial, Removal, str]:
    """Return the setting and the threshold that are proposed for so many rows, and why."""
    choices = [(trial, one) for trial in trials for one in trial.removals if one.rows]
    if not choices:
        first = trials[0]
        reason = f"No setting finds similar rows among {rows:,}; among more there may be some."
        return first, first.removals[len(thresholds) // 2], reason
    least = min((one for _, one in choices), key=lambda one: one.beside / one.rows)
    error = sqrt(max(least.beside, 1)) / least.rows  # of a count by the law of Poisson
    within = [
        (trial, one)
        for trial, one in choices
        if one.beside / one.rows <= least.beside / least.rows + error
    ]
    proposed = within[0][0]
    removal = max(
        (one for trial, one in within if trial is proposed), key=lambda one: one.threshold
    )
    pairs = {0: "no pair lies", 1: "1 pair lies"}.get(
        removal.beside, f"{removal.beside:,} pairs lie"
    )
    removed = "1 row" if removal.rows == 1 else f"{removal.rows:,} rows"
    reason = (
        f"{proposed.name} removes {removed}, and {pairs} within {BIN:g} of the threshold "
        f"{removal.threshold:g}. No other choice has clearly fewer such pairs for each row removed."
    )
    if removal.rows < FEW:
        reason += (
            f" But the sample of {rows:,} is too small to judge by: so few rows removed say little "
            "of the others. Take more rows, or look at the pairs yourself."
        )
    return proposed, removal, reason


def _tried(
    database: Database,
    setting: tuple[str, Text],
    texts: Sequence[str],
    sizes: np.ndarray,
    thresholds: Sequence[float],
) -> Trial:
    name, kind = setting
    # What is not yet compiled on this machine would count as a cost of the setting.
    database.create_collection("compiled", kind, seed=0).add_many(enumerate(texts[:100]))
    collection = database.create_collection("tried", kind, seed=0)
    begun = time.process_time()
    collection.add_many(enumerate(texts))
    seconds = (time.process_time() - begun) * 1_000 / len(texts)
    found = _Found(partial(collection.pairs, guarantee="exact"), len(texts), thresholds)
    keys = collection.plan.keys
    removals = tuple(_removal(found, sizes, place) for place in range(len(thresholds)))
    shown = tuple(pair for pair in found.kept if pair.similarity >= LOWEST)
    histogram = tuple(found.histogram[-_LAST_BIN - 1 :].tolist())
    return Trial(name, kind, removals, histogram, keys, seconds, shown)


class _Found:
    """The pairs of so many texts, which are found anew each time: counted, and some kept."""

    def __init__(
        self, find: Callable[[float], Pairs], texts: int, thresholds: Sequence[float]
    ) -> None:
        self.thresholds = thresholds
        self.histogram = np.zeros(_LAST_BIN + 2, np.int64)  # from LOWEST - BIN on
        self.beside = [0] * len(thresholds)
        self._find = find
        self._occurs = np.zeros(texts, np.bool_)  # in a pair that counts
        kept = _NO_PAIRS
        for values, places in self._batches(LOWEST - BIN):
            self.histogram += np.bincount(_ranges(values), minlength=_LAST_BIN + 2)
            for number, threshold in enumerate(thresholds):
                is_beside = np.abs(values - threshold) < BIN - 1e-9
                self.beside[number] += int(np.count_nonzero(is_beside))
            self._occurs[places[values >= least_within(min(thresholds))]] = True
            kept = np.concatenate((kept[0], values)), np.concatenate((kept[1], places))
            if kept[0].size > 2 * MOST_KEPT:
                kept = _some(*kept)
        if self.histogram.sum() > MOST_KEPT:
            kept = _some(*kept)
        values, places = kept
        self.kept = [
            Example(left, right, value)
            for value, (left, right) in zip(values.tolist(), places.tolist(), strict=True)
        ]
        self.kept.sort(key=lambda one: (one.similarity, one.left, one.right))

    def removed(self, threshold: float) -> list[int]:
        """Return the texts that are similar to one kept before them, rising."""
        least = least_within(threshold)
        if len(self.kept) == self.histogram.sum():
            earlier: dict[int, list[int]] = {}
            for pair in self.kept:
                if pair.similarity >= least:
                    earlier.setdefault(pair.right, []).append(pair.left)
            removed: set[int] = set()
            for right in sorted(earlier):  # the first kept before it decides
                if any(left not in removed for left in earlier[right]):
                    removed.add(right)
            return sorted(removed)
        texts = np.flatnonzero(self._occurs)
        place_of = np.cumsum(self._occurs) - 1
        is_kept = np.ones(texts.size, np.bool_)
        height = max(1, _MATRIX // texts.size)
        for first in range(0, texts.size, height):  # pairs are too many to hold: texts by texts
            similar = np.zeros((min(height, texts.size - first), texts.size), np.bool_)
            for values, places in self._batches(threshold):
                left, right = place_of[places[values >= least]].T
                inside = (right >= first) & (right < first + height)
                similar[right[inside] - first, left[inside]] = True
            for row, lefts in enumerate(similar, first):
                is_kept[row] = not np.any(lefts & is_kept)
        found: list[int] = texts[~is_kept].tolist()
        return found

    def _batches(self, threshold: float) -> Iterator[tuple[Float64s, Int64s]]:
        """Yield similarities of pairs, and the places of their texts."""
        for batch in self._find(threshold).batches():
            assert batch.similarity is not None
            sides = [np.asarray(side, np.int64) for side in (batch.left, batch.right)]
            yield np.asarray(batch.similarity, np.float64), np.column_stack(sides)


def least_within(threshold: float) -> float:
    """Return the least similarity of two sets that meets a threshold as it is written.

    A quotient of whole numbers may be below the decimal number that it prints as: 5 / 9 is.
    """
    nearest = Fraction(threshold).limit_denominator(_LARGEST_SET)
    meets = nearest >= Threshold.parse(threshold).fraction
    return threshold if meets else nextafter(threshold, 2)


_NO_PAIRS: tuple[Float64s, Int64s] = np.empty(0), np.empty((0, 2), np.int64)


def _ranges(values: Float64s) -> Int64s:
    """Return the range of each similarity, of which the first is that below the lowest."""
    return np.clip(((values - LOWEST) / BIN + 1e-9 + 1).astype(np.int64), 0, _LAST_BIN + 1)


def _some(values: Float64s, places: Int64s) -> tuple[Float64s, Int64s]:
    """Return at most so many pairs of each range of similarities, the same ones of any trial."""
    ranges = _ranges(values)
    left, right = places.astype(np.uint64).T
    mixed = ((left << np.uint64(32)) ^ right) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    order = np.lexsort((mixed, ranges))
    firsts = np.searchsorted(ranges[order], np.arange(_LAST_BIN + 2))
    within = np.arange(order.size) - firsts[ranges[order]]
    chosen = order[within < MOST_KEPT // (_LAST_BIN + 2)]
    return values[chosen], places[chosen]


def _removal(found: _Found, sizes: np.ndarray, number: int) -> Removal:
    threshold, pairs = found.thresholds[number], found.kept
    cut = bisect_left(pairs, least_within(threshold), key=lambda one: one.similarity)
    removed = found.removed(threshold)
    return Removal(
        threshold,
        len(removed),
        int(sizes[removed].sum()) if removed else 0,
        found.beside[number],
        tuple(pairs[cut : cut + EXAMPLES]),
        tuple(pairs[max(0, cut - EXAMPLES) : cut][::-1]),
    )


def to_judge(trial: Trial, count: int, *, seed: int = 0) -> list[Example]:
    """Return pairs to be judged: as many of each range of similarities, drawn at random.

    The first of them are spread over all similarities, too: who stops early has judged a sample.
    """
    generator = np.random.default_rng(seed)
    by_bin: dict[int, list[Example]] = {}
    for pair in trial.pairs:
        by_bin.setdefault(_bin(pair), []).append(pair)
    piles = [
        [some[place] for place in generator.permutation(len(some))] for some in by_bin.values()
    ]
    # Multiples of the golden ratio: however many come first lie about evenly among all.
    spread = sorted(range(len(piles)), key=lambda place: place * 0.618034 % 1)
    turns = range(min(count, max(map(len, piles), default=0)))
    taken = [piles[at][turn] for turn in turns for at in spread if turn < len(piles[at])]
    return taken[:count]


def judge(
    trial: Trial,
    answers: Mapping[tuple[int, int], bool],
    *,
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[Judged]:
    """Say what precision and recall follow from yes and no on some pairs of a trial.

    Args:
        trial: whose pairs were judged, as ``to_judge`` drew them.
        answers: whether two texts are the same, by their places, left and right.
        thresholds: about which it is said.
    """
    judged = [pair for pair in trial.pairs if (pair.left, pair.right) in answers]
    kept = np.maximum(1, np.bincount(list(map(_bin, trial.pairs)), minlength=_LAST_BIN + 1))
    told = []
    for threshold in thresholds:
        of_bins = [_bin(pair) for pair in trial.pairs if pair.similarity >= threshold - 1e-9]
        above = np.bincount(of_bins, minlength=_LAST_BIN + 1)
        above = np.rint(above * trial.histogram / kept).astype(np.int64)
        true = [_true_pairs(judged, answers, pairs) for pairs in (above, trial.histogram - above)]
        (found, found_interval, pairs), (missed, missed_interval, others) = true
        precision = precision_interval = recall = recall_interval = None
        every = int(above.sum())
        if pairs:
            precision = found / pairs if pairs == every else None
            precision_interval = found_interval[0] / every, found_interval[1] / every
        if found + missed:
            is_known = pairs + others == sum(trial.histogram)
            recall = found / (found + missed) if is_known else None
            recall_interval = (
                1 - _largest_share(missed, missed_interval, found, found_interval),
                _largest_share(found, found_interval, missed, missed_interval),
            )
        told.append(Judged(threshold, precision, recall, precision_interval, recall_interval))
    return told


def _true_pairs(
    judged: Sequence[Example], answers: Mapping[tuple[int, int], bool], pairs: Int64s
) -> tuple[float, tuple[float, float], int]:
    """Return how many pairs are true, the 95 % interval of it, and of how many pairs.

    ``pairs`` counts them by ranges of similarities. Of ranges of which none was judged, the number
    tells nothing, and the interval holds that none of their pairs is true, and that all are.

    The interval is the exact one of as many independent answers as would make the share as
    uncertain as these do (E. L. Korn and B. I. Graubard, Survey Methodology 1998). Of a few answers
    of a range that are all alike it does not follow that the others are, too: a range counts as no
    more certain than with one more answer, half yes and half no, or, if that is less, than all
    ranges together.
    """
    chosen = [pair for pair in judged if pairs[_bin(pair)]]
    if not chosen:
        return 0.0, (0.0, float(pairs.sum())), 0
    bins = [_bin(pair) for pair in chosen]
    asked = np.bincount(bins, minlength=_LAST_BIN + 1)
    yes = np.bincount(bins, [answers[pair.left, pair.right] for pair in chosen], _LAST_BIN + 1)
    known = asked > 0
    unknown = int(pairs[~known].sum())
    asked, yes, pairs = asked[known], yes[known], pairs[known]
    total = int(pairs.sum())
    share = min(1.0, float(yes @ (pairs / asked)) / total)
    weights = (pairs / total) ** 2 / asked
    pooled = share * (1 - share)
    independent = 1 / weights.sum()
    if pooled:
        shares, doubted = yes / asked, (yes + 0.5) / (asked + 1)
        measured = weights @ (shares * (1 - shares) * asked / np.maximum(asked - 1, 1))
        supposed = weights @ np.minimum(doubted * (1 - doubted), pooled)
        independent = pooled / max(measured, supposed)
    low, high = exact_interval(share, independent * _apart(chosen) / len(chosen))
    return share * total, (low * total, high * total + unknown), total


def _apart(pairs: Iterable[Example]) -> int:
    """Count pairs none of which have a text in common: one text is in several pairs."""
    seen: set[int] = set()
    apart = 0
    for pair in pairs:
        if seen.isdisjoint((pair.left, pair.right)):
            apart += 1
            seen.update((pair.left, pair.right))
    return apart


def _largest_share(
    one: float, of_one: tuple[float, float], other: float, of_other: tuple[float, float]
) -> float:
    """Return the upper end of the interval of one / (one + other), by the intervals of both.

    As a ratio of the two (A. Donner and G. Y. Zou, Statistical Methods in Medical Research 2012).
    """
    high, low = of_one[1], of_other[0]
    if not low:
        return 1.0
    product, rest = one * other, low * (2 * other - low)
    root = sqrt(max(0.0, product**2 + high * (high - 2 * one) * rest))
    return (product + root) / (product + root + rest)


def _bin(pair: Example) -> int:
    return min(_LAST_BIN, int((pair.similarity - LOWEST) / BIN + 1e-9))
