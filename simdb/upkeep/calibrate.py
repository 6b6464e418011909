"""How many pairs of a score are true matches, by a field that is not scored (MMDS 3.8.3).

Of true matches the field differs by h0 on average, of random pairs by h1. If the pairs of a score
differ by h, a fraction f of them are true: h = f h0 + (1 - f) h1, so f = (h1 - h) / (h1 - h0). No
pair need be labelled. It holds if the field depends on the score only by way of the match: papers
of the same authors are of similar years though they are different papers, and a year then promises
more matches among them than there are.

The candidates of the probable index are scored and put into buckets by their score; of each bucket
only sums are kept, so that memory does not grow with the number of pairs.

Pairs that share an item tell less than as many that share none, so what intervals rest on is found
by resampling items, not pairs: in each of some replicates a random half of them counts twice and
the others not at all, and a pair counts as often as its two items do, less once. What a pair varies
by itself is then counted with each of its items, and taken off once (Cameron, Gelbach and Miller
2011, Robust inference with multiway clustering).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.answers.buckets import Buckets
from simdb.answers.choose import require_alike
from simdb.answers.method import ProgressCallback, number_of, outer_pairs
from simdb.arguments import number_within, require_choice, short
from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError, KeyNotFoundError
from simdb.exact.thresholds import Bound, Threshold
from simdb.extras import of_extra, require
from simdb.opened.opened import Opened
from simdb.ragged import as_bytes, picked
from simdb.results import PairBatch, Progress
from simdb.storage.collection.reader import CollectionReader, read_items
from simdb.upkeep import labelling

# The difference of two items, as they were given; None where it is unknown.
Difference: TypeAlias = Callable[[Any, Any], float | None]
# The differences of stored items, nan where they are unknown.
Between: TypeAlias = Callable[[Sequence[bytes], Sequence[bytes]], Float64s]

LEAST_SCORE = Threshold(Fraction(1, 10**9))
READ_AT_ONCE = 8_192  # pairs
DRAWN_AT_ONCE = 131_072  # random pairs
REPLICATES = 256  # in which items are resampled: variances are known to a tenth
MUCH, MANY = 0.1, 100  # of matches, of pairs: too much for the lowest scores
_LARGEST = 1e100  # differences and scores, whose squares can be computed
SURE_BINS = 4  # of scores of pairs that surely match, which must not differ
_SIDES = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F  # left and right items are drawn apart
STEPS = tuple(Fraction(step, 20) for step in range(1, 21))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of differences and how sure it is."""

    value: float
    variance: float = 0.0  # of the mean, not of the single difference; 0 if it is not estimated
    spread: float = 0.0  # the standard deviation of the single difference


@dataclass(frozen=True, slots=True)
class Sums:
    """What is kept of many differences: their number, mean, and squares about the mean.

    Attributes:
        design: by how much the variance of their mean is larger than if they knew nothing of each
            other (Kish's design effect); at least 1.
    """

    count: int = 0
    average: float = 0.0
    squares: float = 0.0
    design: float = 1.0

    @classmethod
    def of(cls, differences: Float64s) -> Sums:
        """Return the sums of differences; those that cannot be squared are left out."""
        known = differences[_are_known(differences)]
        if not known.size:
            return cls()
        average = float(known.mean())
        return cls(known.size, average, float(np.square(known - average).sum()))

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both together (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        if not self.count or not other.count:
            return self if self.count else other
        shift = other.average - self.average
        return Sums(
            count,
            self.average + shift * (other.count / count),
            self.squares + other.squares + shift**2 * (self.count * other.count / count),
        )

    @property
    def spread(self) -> float:
        """The standard deviation of the single difference; 0 of a single one."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def mean(self) -> Mean:
        """The mean and how sure it is."""
        spread = self.spread
        return Mean(self.average, self.design * spread**2 / max(1, self.count), spread)


def _are_known(differences: Float64s) -> Bools:
    return np.asarray(np.abs(differences) <= _LARGEST, np.bool_)  # nan is not


class Tally:
    """The sums of the differences of pairs, and what resampled items make of them."""

    def __init__(self) -> None:
        self._sums = Sums()
        # In each replicate: the sum of the differences, and of the pairs, by their signs.
        self._resampled = np.zeros((2, REPLICATES))

    def add(self, differences: Float64s, signs: Float64s) -> None:
        """Add differences; ``signs`` (n, REPLICATES) say what their pairs' items count."""
        known = _are_known(differences)
        self._sums = self._sums.plus(Sums.of(differences))
        columns = np.stack([differences[known], np.ones(int(known.sum()))])
        self._resampled += columns @ signs[known]

    def plus(self, other: Tally) -> Tally:
        """Return the tally of both together."""
        both = Tally()
        both._sums = self._sums.plus(other._sums)
        both._resampled = self._resampled + other._resampled
        return both

    @property
    def sums(self) -> Sums:
        """The sums, with the design effect."""
        if not self._sums.squares:
            return self._sums
        deviations = self._resampled[0] - self._sums.average * self._resampled[1]
        variance = float(np.square(deviations).mean()) / self._sums.squares
        return replace(self._sums, design=max(1.0, variance - 1.0))


def signs_of(left: UInt32s, right: UInt32s, seed: int, *, is_one: bool) -> Float64s:
    """Draw what the items of pairs count in each replicate: the sum of 1 or -1 of either.

    The same item has the same signs in all pairs; of two collections the sides have their own.
    """
    sides = (left, right)
    drawn = [_signs(side, seed, _SIDES[0 if is_one else place]) for place, side in enumerate(sides)]
    return (drawn[0] + drawn[1]).astype(np.float64)


def _signs(numbers: UInt32s, seed: int, side: int) -> npt.NDArray[np.int8]:
    """Return (n, REPLICATES) of 1 and -1, each by a bit of a hash of the number (SplitMix64)."""
    words = np.arange(REPLICATES // 64, dtype=np.uint64)
    start = np.uint64((seed * _SIDES[1] + side) % 2**64)
    state = numbers.astype(np.uint64)[:, np.newaxis] * np.uint64(words.size) + words
    state = (state + np.uint64(1)) * np.uint64(_SIDES[0]) + start
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    bits = np.unpackbits(np.ascontiguousarray(state).view(np.uint8), axis=1)
    return 2 * bits.astype(np.int8) - 1


@dataclass(frozen=True, slots=True)
class ScoreBucket:
    """The pairs whose scores lie in one interval.

    Attributes:
        low: the lowest score; it belongs to the bucket.
        high: the score above; it does not, but in the last bucket.
        pairs: how many, those without a difference not counted.
        difference: their mean difference, h; nan without pairs.
        fraction: of true matches, in [0, 1]; nan without pairs.
        fraction_low: the lower end of its confidence interval.
        fraction_high: the upper end.
        fitted: the fraction by isotonic regression, by which it never falls as the score rises;
            nan without pairs.
    """

    low: float
    high: float
    pairs: int
    difference: float
    fraction: float
    fraction_low: float
    fraction_high: float
    fitted: float = math.nan


@dataclass(frozen=True, slots=True)
class AssumptionTest:
    """Whether pairs that surely match differ in the field by their score: an analysis of variance.

    Attributes:
        bins: of scores, with two pairs or more, that were compared.
        pairs: in them.
        statistic: F, how much more the means of bins differ than chance lets them.
        p_value: how often chance alone makes it as large.
    """

    bins: int
    pairs: int
    statistic: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fraction of true matches at each score.

    Attributes:
        buckets: by ascending score.
        matched: the mean difference of true matches, h0.
        random: the mean difference of random pairs, h1.
        confidence: of the intervals.
        test: the test of the assumption on pairs that surely match; None if these have one score or
            are too few. A lower ``certain`` then makes it possible.
    """

    buckets: tuple[ScoreBucket, ...]
    matched: Mean
    random: Mean
    confidence: float
    test: AssumptionTest | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the pairs contradict the assumption that the field depends on the match alone.

        Each warning is about a value beyond its interval: pairs that surely match but differ more
        or less at other scores (by ``test``), pairs that differ more than random ones or less than
        true matches, fractions that fall as the score rises, or matches at the lowest scores, where
        hardly any are expected. Without a warning the assumption may still fail.
        """
        known = [bucket for bucket in self.buckets if bucket.pairs]
        return (
            *self._differing(),
            *_high_from_the_beginning(known),
            *self._impossible(known),
            *_falling(known),
        )

    def _differing(self) -> Iterator[str]:
        test = self.test
        if test is not None and test.p_value < 1 - self.confidence:
            yield (
                f"the {test.pairs:,} pairs that surely match differ otherwise at other scores "
                f"(F = {test.statistic:.3g}, p = {test.p_value:.2g}): the field hangs on the "
                "score by more than the match"
            )

    def _impossible(self, buckets: Sequence[ScoreBucket]) -> Iterator[str]:
        for bucket in buckets:
            found = fraction_of_matches(bucket.difference, self.matched.value, self.random.value)
            where = f"the {bucket.pairs:,} pairs of scores from {bucket.low:g} to {bucket.high:g}"
            if found < 0 and bucket.fraction_high <= 0:
                yield f"{where} differ more than random pairs do: the field is no guide there"
            elif found > 1 and bucket.fraction_low >= 1:
                yield f"{where} differ less than true matches do: the field is no guide there"

    def probability(self, score: float) -> float:
        """Return the fraction of pairs of a score that match; it never falls as the score rises.

        This is the ``fitted`` fraction of the score's bucket, or of the nearest lower one with
        pairs; nan below all of them.
        """
        found = [one.fitted for one in self.buckets if one.pairs and one.low <= score]
        return found[-1] if found else math.nan

    def threshold_for(self, precision: float) -> float | None:
        """Return the lowest score from which on pairs have a wanted precision.

        It is the low end of a bucket; None if not even the highest scores have that precision.

        Raises:
            ConfigurationError: the precision is not in (0, 1].
        """
        precision = number_within("the precision", precision, 1)
        if not precision:
            raise ConfigurationError("the precision must be above 0 and at most 1, not 0")
        lowest: float | None = None
        pairs, total = 0, 0.0
        for bucket in reversed([bucket for bucket in self.buckets if bucket.pairs]):
            pairs += bucket.pairs
            total += bucket.pairs * bucket.difference
            matching = fraction_of_matches(total / pairs, self.matched.value, self.random.value)
            if matching >= precision:
                lowest = bucket.low
        return lowest


def _high_from_the_beginning(buckets: Sequence[ScoreBucket]) -> Iterator[str]:
    """Tell whether pairs of the lowest of several scores differ less than random ones.

    Surely, or by much among many pairs: what many of them share, as a name, may be why.
    """
    lowest = buckets[0] if len(buckets) > 1 else None
    if lowest is not None and (
        lowest.fraction_low > 0 or (lowest.fraction >= MUCH and lowest.pairs >= MANY)
    ):
        yield (
            f"of the pairs of the lowest scores, from {lowest.low:g} on, {lowest.fraction:.0%} "
            "seem to match already: if they do not, false matches resemble each other in the "
            "field, and the fractions are too high; a lower threshold= shows whether they fall to "
            f"0, and if they do not, random={lowest.difference:.3g} takes these for random pairs"
        )


def _falling(buckets: Sequence[ScoreBucket]) -> Iterator[str]:
    """Compare each bucket with the surest one of lower scores."""
    surest = buckets[0] if buckets else None
    for bucket in buckets:
        assert surest is not None
        if bucket.fraction_high < surest.fraction_low:
            yield (
                f"fewer pairs seem to match from {bucket.low:g} on ({bucket.fraction:.0%}) "
                f"than from {surest.low:g} on ({surest.fraction:.0%}): the field hangs "
                "on the score by more than the match"
            )
        if bucket.fraction_low > surest.fraction_low:
            surest = bucket


def fraction_of_matches(difference: Any, matched: Any, random: Any) -> Any:
    """Compute the fraction of true matches, (h1 - h) / (h1 - h0) (MMDS 3.8.3).

    Of the mean differences h, h0 and h1, as numbers or arrays; exact for ``Fraction``. It may lie
    outside [0, 1] where these are estimates. ConfigurationError if h0 and h1 are equal: the field
    tells nothing.

    >>> fraction_of_matches(45, 10, 45)
    0.0
    """
    if matched == random:
        raise ConfigurationError(
            f"true matches and random pairs both differ by {matched} on average: this field "
            "cannot tell them apart"
        )
    return (random - difference) / (random - matched)


def require_edges(edges: Sequence[float] | Float64s) -> Float64s:
    """Return the edges of buckets of scores; ConfigurationError unless two or more ascend."""
    try:
        bounds = np.asarray(edges, np.float64)
    except (TypeError, ValueError, OverflowError):
        bounds = np.empty(0)
    ascend = bounds.ndim == 1 and bounds.size > 1 and (np.diff(bounds) > 0).all()
    if not ascend or not np.isfinite(bounds).all():
        raise ConfigurationError(
            f"edges must be at least two numbers in ascending order, not {short(edges)}"
        )
    return bounds


def require_confidence(confidence: float) -> float:
    """Return a confidence of intervals; ConfigurationError unless it is between 0 and 1."""
    number = number_within("the confidence", confidence, 1)
    if not 0 < number < 1:
        raise ConfigurationError(f"the confidence must be between 0 and 1, not {number:g}")
    return number


def assumption_test(sure: Sequence[Sums]) -> AssumptionTest | None:
    """Compare the means of bins of pairs that surely match, by score; None if there are not two.

    The F test of Fisher's analysis of variance, each bin's pairs counting for fewer by its design.
    """
    bins = [own for own in sure if own.count > 1]
    if len(bins) < 2:
        return None
    with of_extra("statistics", "calibrating needs"):
        from scipy.special import fdtrc

    counts = np.array([own.count for own in bins])
    means = np.array([own.average for own in bins])
    effective = counts / np.array([own.design for own in bins])
    between = float((effective * (means - np.average(means, weights=effective)) ** 2).sum())
    pairs, freedom = int(counts.sum()), len(bins) - 1
    within = sum(own.squares for own in bins) / (pairs - len(bins))
    if not within:  # each bin is of one difference
        return AssumptionTest(len(bins), pairs, *((math.inf, 0.0) if between else (0.0, 1.0)))
    statistic = between / freedom / within
    p_value = float(fdtrc(freedom, pairs - len(bins), statistic))
    return AssumptionTest(len(bins), pairs, statistic, p_value)


def calibrate_sums(
    edges: Float64s,
    sums: Sequence[Sums],
    *,
    matched: Mean,
    random: Mean,
    confidence: float,
    sure: Sequence[Sums] = (),
) -> Calibration:
    """Estimate the fraction of true matches among the pairs of each bucket of scores.

    The intervals are by Student's distribution and the propagation of errors; that of a bucket of
    one pair is all of [0, 1]. ``sure`` are bins of pairs that surely match, by score.
    """
    confidence = require_confidence(confidence)
    buckets = [
        _bucket(low, high, own, matched=matched, random=random, confidence=confidence)
        for own, (low, high) in zip(sums, pairwise(edges.tolist()), strict=True)
    ]
    known = [place for place, own in enumerate(sums) if own.count]
    if known:
        for place, fitted in zip(known, _rising(sums, known, matched, random), strict=True):
            buckets[place] = replace(buckets[place], fitted=fitted)
    return Calibration(tuple(buckets), matched, random, confidence, assumption_test(sure))


def _rising(sums: Sequence[Sums], known: Sequence[int], matched: Mean, random: Mean) -> list[float]:
    """Return the fractions of buckets with pairs that rise and are nearest to those found.

    Isotonic regression by pooling adjacent violators, weighted by pairs.
    """
    with of_extra("statistics", "calibrating needs"):
        from scipy.optimize import isotonic_regression

    means = np.array([sums[place].average for place in known])
    weights = np.array([sums[place].count / sums[place].design for place in known])
    found = fraction_of_matches(means, matched.value, random.value)
    fitted: list[float] = np.clip(isotonic_regression(found, weights=weights).x, 0, 1).tolist()
    return fitted


def _bucket(
    low: float, high: float, sums: Sums, *, matched: Mean, random: Mean, confidence: float
) -> ScoreBucket:
    if not sums.count:
        return ScoreBucket(low, high, 0, math.nan, math.nan, 0.0, 1.0)
    fraction = float(fraction_of_matches(sums.average, matched.value, random.value))
    around = math.inf
    if sums.count > 1:
        with of_extra("statistics", "calibrating needs"):
            from scipy.special import stdtrit

        # A few pairs may agree by chance; even true matches spread as much as those of h0.
        spread = max(sums.spread, matched.spread)
        width = random.value - matched.value
        variance = (
            sums.design * spread**2 / sums.count
            + fraction**2 * matched.variance
            + (1.0 - fraction) ** 2 * random.variance
        ) / width**2
        quantile = float(stdtrit(sums.count - 1, (1.0 + confidence) / 2))
        around = quantile * math.sqrt(variance)
    kept = min(max(fraction, 0.0), 1.0)
    lowest, highest = max(fraction - around, 0.0), min(fraction + around, 1.0)
    return ScoreBucket(
        low, high, sums.count, sums.average, kept, min(lowest, kept), max(highest, kept)
    )


# -- of a collection ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be calibrated: arguments of ``Collection.calibrate``, which describes them."""

    edges: Sequence[float] | None
    certain: float
    matched: float | Literal["labelled"] | None
    random: float | None
    sample: int
    seed: int
    confidence: float

    def checked(self) -> Wanted:
        """Return the same in plain numbers; ConfigurationError: one is out of its range."""
        matched, random = self.matched, self.random
        if isinstance(matched, str):
            require_choice("matched", matched, "labelled")
        elif matched is not None:
            matched = number_within("matched", matched, _LARGEST)
        return replace(
            self,
            edges=None if self.edges is None else require_edges(self.edges).tolist(),
            certain=number_within("certain", self.certain, _LARGEST),
            matched=matched,
            random=None if random is None else number_within("random", random, _LARGEST),
            confidence=require_confidence(self.confidence),
        )


class Sides(NamedTuple):
    """The collections of the left and right items: the same object for pairs within one."""

    left: Opened
    right: Opened  # whose index proposes the pairs

    @property
    def is_one(self) -> bool:
        """Whether the pairs are those of one collection."""
        return self.left is self.right

    def candidates(self, *, since: int = 0) -> Iterator[tuple[UInt32s, UInt32s]]:
        """Yield all that the probable index proposes, by item numbers; of one, of later items."""
        method = Buckets(LEAST_SCORE)
        if self.is_one:
            return method.candidates(self.right, since=since)
        return method.candidates_between(self.left, self.right)

    def pairs(self, bound: Bound, *, since: int = 0) -> Iterator[PairBatch]:
        """Yield the candidates of the probable index within a bound; of one, of later items."""
        method = Buckets(bound)
        if self.is_one:
            found = method.pairs(self.right, since=since)
        else:
            found = method.join(self.left, self.right)
        return (batch for batch, _ in found)


def _differences(
    sides: Sides, between: Between, left: UInt32s, right: UInt32s
) -> Iterator[tuple[slice, Float64s]]:
    """Yield the differences of items ``left[i]`` and ``right[i]`` in parts; nan is unknown."""
    for begin in range(0, left.size, READ_AT_ONCE):
        part = slice(begin, begin + READ_AT_ONCE)
        ones = items_of(sides.left.reader, left[part])
        yield part, between(ones, items_of(sides.right.reader, right[part]))


def calibrate(
    sides: Sides,
    field: str | Difference,
    asked: Bound | None,
    wanted: Wanted,
    progress: ProgressCallback | None = None,
) -> Calibration:
    """Estimate the fraction of true matches by score; see ``Collection.calibrate``."""
    settings = sides.right.settings
    require_alike(sides.left.settings, settings)
    if settings.kind.is_distance or not settings.is_probable:
        raise ConfigurationError(
            f"collection {settings.name!r} has no probable index of similarities, which proposes "
            "the pairs to calibrate by"
        )
    require("statistics", "calibrating needs", "scipy")
    bound = asked or settings.bound
    least = settings.kind.outer_bound(bound).fraction
    steps = list(map(float, (least, *(step for step in STEPS if step > least))))
    if wanted.edges is None and len(steps) < 2:
        raise ConfigurationError("a threshold of 1 leaves no range of scores: give a lower one")
    edges = require_edges(steps if wanted.edges is None else wanted.edges)
    if isinstance(field, str):
        between = settings.kind.field_differences(field)
    else:
        difference, decode = field, sides.right.signer.items.decode

        def between(left: Sequence[bytes], right: Sequence[bytes]) -> Float64s:
            # No map, which a StopIteration of the function would end as if there were no more.
            pairs = zip(left, right, strict=True)
            apart = [difference(decode(one), decode(other)) for one, other in pairs]
            return np.array(apart, np.float64)  # None becomes nan

    tallies = [Tally() for _ in range(edges.size - 1)]
    sure = [Tally() for _ in range(SURE_BINS)]
    # Bins of sure scores up to the highest edge; above it is the last one, too.
    cuts = np.linspace(wanted.certain, max(wanted.certain, float(edges[-1])), SURE_BINS + 1)[1:-1]
    for inner in sides.pairs(bound):
        batch = outer_pairs(settings.kind, inner)
        for part, apart in _differences(sides, between, batch.left, batch.right):
            scores = batch.similarity[part]
            signs = signs_of(batch.left[part], batch.right[part], wanted.seed, is_one=sides.is_one)
            places = np.searchsorted(edges, scores, side="right") - 1
            places[scores == edges[-1]] = edges.size - 2
            _add_to(tallies, places, apart, signs)
            bins = np.searchsorted(cuts, scores, side="right")
            _add_to(sure, np.where(scores >= wanted.certain, bins, -1), apart, signs)
            if progress is not None:
                progress(Progress("comparing", sides.right.work.looked_at, None))
    surely = reduce(Tally.plus, sure).sums
    if wanted.matched is None and not surely.count:
        raise ConfigurationError(
            f"no pair with a known difference has a score of {wanted.certain:g}: give certain=, "
            "a lower score from which on pairs surely match, or matched=, their mean difference"
        )
    if isinstance(wanted.matched, str):
        matched = _labelled_mean(sides, between)
    else:
        matched = surely.mean if wanted.matched is None else Mean(wanted.matched)
    random = _random_mean(sides, between, wanted) if wanted.random is None else Mean(wanted.random)
    return calibrate_sums(
        edges,
        [tally.sums for tally in tallies],
        matched=matched,
        random=random,
        confidence=wanted.confidence,
        sure=[tally.sums for tally in sure],
    )


def _add_to(
    tallies: Sequence[Tally], places: Int64s, differences: Float64s, signs: Float64s
) -> None:
    """Add differences to the tallies at their places; what is at none is left out."""
    for place in np.unique(places[(places >= 0) & (places < len(tallies))]).tolist():
        own = places == place
        tallies[place].add(differences[own], signs[own])


def _labelled_mean(sides: Sides, between: Between) -> Mean:
    """Return the mean difference of the pairs that are labelled as matches."""
    said = labelling.stored(*sides).require()
    lefts, rights = (
        np.array([number_of(side, pair[place]) for pair in said if pair[2]], np.uint32)
        for place, side in enumerate(sides)
    )
    sums = Sums()
    for _, apart in _differences(sides, between, lefts, rights):
        sums = sums.plus(Sums.of(apart))
    if not sums.count:
        raise ConfigurationError(
            f"of {len(said):,} labelled pairs none matches and has a known difference"
        )
    return sums.mean


def _random_mean(sides: Sides, between: Between, wanted: Wanted) -> Mean:
    """Estimate the mean difference of pairs drawn at random, never an item with itself."""
    generator = np.random.default_rng(wanted.seed)
    lefts, rights = sides.left.reader.live_numbers(), sides.right.reader.live_numbers()
    sizes = lefts.size, rights.size
    sums = Sums()
    for left, right in random_pairs(generator, sizes, wanted.sample, is_one=sides.is_one):
        for _, apart in _differences(sides, between, lefts[left], rights[right]):
            sums = sums.plus(Sums.of(apart))
    if not sums.count:
        raise ConfigurationError(
            "no random pair has a known difference: give random=, their mean difference"
        )
    return sums.mean


def random_pairs(
    generator: np.random.Generator, sizes: tuple[int, int], wanted: int, *, is_one: bool
) -> Iterator[tuple[Int64s, Int64s]]:
    """Draw pairs of places on either side, some at a time; of one side never a place with itself.

    They are drawn with replacement, and unless they are few no more than there are, in either
    order: further ones say nothing new.
    """
    pairs = sizes[0] * (sizes[1] - is_one)
    count = min(wanted, max(pairs, DRAWN_AT_ONCE)) if pairs else 0
    for begin in range(0, count, DRAWN_AT_ONCE):
        some = min(DRAWN_AT_ONCE, count - begin)
        left = generator.integers(sizes[0], size=some)
        if is_one:
            yield left, (left + generator.integers(1, sizes[0], size=some)) % sizes[0]
        else:
            yield left, generator.integers(sizes[1], size=some)


def items_of(collection: CollectionReader, numbers: UInt32s) -> list[bytes]:
    """Return the items of numbers in any order."""
    distinct, places = np.unique(numbers, return_inverse=True)
    positions, items = read_items(collection, distinct)
    if positions.size < distinct.size:
        raise KeyNotFoundError("an item of a pair is not stored, or no longer")
    return as_bytes(picked(items, places))
