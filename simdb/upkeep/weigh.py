"""Weights of evidence learnt from a collection, and what they say of a pair.

Candidates are compared level by level and counted by their patterns; random pairs, drawn among a
sample of items, say how often others agree. ``simdb.linkage.weights`` makes evidence of both, and
the kind settings that give points for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.answers.method import ProgressCallback, number_of
from simdb.arguments import number_within, short
from simdb.arrays import Bools, Float64s, UInt32s, UInt64s
from simdb.errors import ConfigurationError
from simdb.extras import require
from simdb.kinds import Kind
from simdb.kinds.base import Agreement, FieldAgreement
from simdb.linkage.chosen import learn_by_choice, scale
from simdb.linkage.weights import (
    MISSING,
    Evidence,
    Known,
    Patterns,
    Rivals,
    learn_labelled,
    learn_unlabelled,
    of_patterns,
    require_both,
)
from simdb.lsh.family import mixed
from simdb.results import Key
from simdb.upkeep import labelling
from simdb.upkeep.agreeing import Compared, Part, agreement_of, candidates
from simdb.upkeep.calibrate import Sides, items_of, random_pairs

BYTES_A_CANDIDATE = 64  # of memory, while weights are learnt
BYTES_A_CHOICE = 384  # a candidate, while pairs are chosen one to one
LEAST_PAIRS = 10_000  # that are learnt from, however little memory there is
SAMPLED_ITEMS = 2_000  # of each side, among which random pairs are drawn
MOST_FREQUENT = 1_000  # values of a field, whose equality says less
FEW = 5  # pairs that say little
_ROUNDING = 1e-9  # of shares of the evidence


@dataclass(frozen=True, slots=True)
class LevelWeight:
    """The evidence of one level of a field.

    Attributes:
        least: the share of the field's weight from which on it is reached; 0 of the lowest.
        bits: its evidence for a match; below 0 it is against one.
        m: the share of matches on this level, by expectation maximisation; None if weights come
            from labels.
        u: the share of other pairs, None if weights come from labels.
    """

    least: float
    bits: float
    m: float | None = None
    u: float | None = None


@dataclass(frozen=True, slots=True)
class FieldWeight:
    """The evidence of a field.

    Attributes:
        name: of the field.
        levels: the highest first.
        missing: the share of candidates, or labelled pairs, without a value; it says nothing.
        frequent: values whose equality says less than that of others, and by how many bits.
    """

    name: str
    levels: tuple[LevelWeight, ...]
    missing: float
    frequent: Mapping[str, float] = field(default_factory=dict, repr=False)


_Columns: TypeAlias = tuple[UInt32s, UInt32s, npt.NDArray[np.int16], UInt64s]


class Counted(NamedTuple):
    """How candidates agree, from which later items are counted on.

    Attributes:
        left, right: the items of each pair by number, sorted.
        codes: (pairs, fields), the level of each field; MISSING where a value is.
        rules: which propose each pair, a bit for each.
        settings: a hash of the history of the store and the identity of the one collection; nothing
            of two.
        items, deleted: how many items the collection had ever had, and how many were gone.
        one_of: the pairs are one of so many, by a hash; a power of two.
    """

    left: UInt32s
    right: UInt32s
    codes: npt.NDArray[np.int16]
    rules: UInt64s
    settings: bytes
    items: int
    deleted: int
    one_of: int


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learnt of matches, and settings that say it.

    Attributes:
        fields: the scored fields.
        prior: the evidence before a pair is looked at, in bits.
        kind: the settings with points for the evidence, 100 a bit and less for frequent values, so
            that scores have the order of the evidence.
        pairs: how many candidates, or labelled pairs, the weights were learnt from.
        matches: how many of them match, as expected or as labelled.
        warnings: reasons for doubt.
        counted: the state that ``learn(earlier=)`` continues from; None if labels were used.
    """

    fields: tuple[FieldWeight, ...]
    prior: float
    kind: Kind
    pairs: int
    matches: float
    warnings: tuple[str, ...]
    counted: Counted | None = field(default=None, repr=False, compare=False)

    def probability(self, bits: float) -> float:
        """Return the probability of a match, given the evidence of the fields."""
        odds = (bits + self.prior) * math.log(2)
        return 0.0 if odds <= -700 else 1 / (1 + math.exp(-odds))  # nan of nan

    def threshold(self, probability: float = 0.5) -> Fraction:
        """Return the similarity by ``kind`` from which on pairs match with a probability.

        Raises:
            ConfigurationError: the probability is not between 0 and 1, or no pair reaches it.
        """
        wanted = number_within("the probability", probability, 1)
        if wanted in (0, 1):
            raise ConfigurationError(
                f"the probability must be above 0 and below 1, not {short(probability)}"
            )
        bits = math.log2(wanted / (1 - wanted)) - self.prior
        least, most = self._range
        share = (bits - least) / (most - least)
        if share > 1 + _ROUNDING:
            digits = min(17, 6 - int(math.log10(1 - wanted)))  # as many as tell both from 1
            raise ConfigurationError(
                f"no pair matches with a probability of {wanted!r}: the most that one can have is "
                f"{self.probability(most):.{digits}g}"
            )
        steps = math.ceil(10_000 * (share - _ROUNDING))
        return Fraction(min(max(steps, 1), 10_000), 10_000)

    def probability_at(self, similarity: float) -> float:
        """Return the probability that a pair with a similarity by ``kind`` matches."""
        least, most = self._range
        return self.probability(least + similarity * (most - least))

    @property
    def _range(self) -> tuple[float, float]:
        """The least and the most evidence of the fields of a pair; a missing value is 0 of it."""
        least = sum(min(0.0, one.levels[-1].bits) for one in self.fields)
        most = sum(max(0.0, one.levels[0].bits) for one in self.fields)
        return least, most


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """What one field says of a pair.

    Attributes:
        name: of the field.
        left, right: its values, None where there is none.
        level: the least share of the level that is reached; None where a value is missing.
        bits: the evidence; 0 of a missing value.
        adjustment: what of it is for a frequent value, at most 0.
    """

    name: str
    left: Any
    right: Any
    level: float | None
    bits: float
    adjustment: float = 0.0


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """What all fields say of a pair.

    Attributes:
        prior: the evidence before any field, in bits.
        fields: the scored fields.
        bits: the evidence of all fields together.
        probability: the probability that the two match.
    """

    prior: float
    fields: tuple[FieldEvidence, ...]
    bits: float
    probability: float

    def __str__(self) -> str:
        """Draw a waterfall: where the evidence is after each field."""
        lines = [f"{'prior':<16} {self.prior:+8.2f} bits"]
        at = self.prior
        for one in self.fields:
            at += one.bits
            shown = "missing" if one.level is None else f"from {one.level:g}"
            frequent = f", {one.adjustment:+.2f} as frequent" if one.adjustment else ""
            lines.append(
                f"{one.name:<16} {one.bits:+8.2f} to {at:+8.2f}  {one.left!r} and {one.right!r} "
                f"({shown}{frequent})"
            )
        lines.append(f"{'probability':<16} {self.probability:8.4f}")
        return "\n".join(lines)


# -- learning --------------------------------------------------------------------------------------


def learn(
    sides: Sides,
    *,
    sample: int,
    seed: int,
    one_to_one: bool = False,
    earlier: Weights | None = None,
    progress: ProgressCallback | None = None,
) -> Weights:
    """Learn weights without labels; see ``Collection.learn``."""
    agreement_of(sides)  # raises of what has no weights, before anything is asked for
    require("statistics", "learning weights needs", "scipy")
    found = _unlabelled(
        sides, sample=sample, seed=seed, one_to_one=one_to_one, earlier=earlier, progress=progress
    )
    return _of_chosen(sides, found, found.counted) if one_to_one else found


def _unlabelled(
    sides: Sides,
    *,
    sample: int,
    seed: int,
    one_to_one: bool,
    earlier: Weights | None,
    progress: ProgressCallback | None,
) -> Weights:
    """Learn the evidence for pairs by themselves."""
    items = Compared(sides, held=True)
    agreement = items.agreement
    counted = _counted(sides, items, None if earlier is None else earlier.counted, progress)
    live = (sides.left.reader.manifest.live, sides.right.reader.manifest.live)
    patterns, rivals = _patterns_of(counted, agreement.looks_at, is_one=sides.is_one, items=live)
    drawn = _random_levels(items, sample, seed, is_one=sides.is_one)
    pairs = live[0] * (live[0] - 1) // 2 if sides.is_one else live[0] * live[1]
    looks_at = agreement.looks_at
    found = learn_unlabelled(
        patterns,
        drawn.shares,
        drawn.least,
        looks_at,
        present=drawn.present,
        pairs=pairs,
        rivals=rivals,
        one_to_one=one_to_one,
    )
    if one_to_one and not sides.is_one and _has_room(sides, counted):
        found = learn_by_choice(found, patterns, rivals)
    total = float(patterns.counts.sum())
    absent = (patterns.codes == MISSING) * patterns.counts[:, np.newaxis]
    missing = absent.sum(axis=0) / total
    doubts = [
        f"every rule that proposes pairs with values of {agreement.names[place]!r} looks at it: "
        "its evidence is too strong; a rule that looks at other fields mends that"
        for place in found.by_own_rules
    ]
    if not found.settled:
        doubts.append("expectation maximisation did not settle")
    if counted.one_of > 1:
        doubts.append(
            f"learnt from one candidate in {counted.one_of}: there is no room in memory for all, "
            f"{BYTES_A_CANDIDATE} bytes each"
        )
    return _weights(
        agreement,
        found.bits,
        prior=found.prior,
        missing=missing,
        pairs=total,
        matches=found.matches,
        doubts=doubts,
        found=found,
        frequent=drawn.frequent,
        counted=counted,
    )


def _counted(
    sides: Sides, items: Compared, before: Counted | None, progress: ProgressCallback | None
) -> Counted:
    """Compare candidates; of one collection only those of later items, where that does.

    What was counted of another collection, or of a later state of this one, is left aside; so is
    what was counted before the store was restored, loaded or repaired.
    Of more than have room in memory one of two is taken, or of four, as many as it takes.
    """
    state = sides.right.reader.manifest
    # Of another history numbers may mean other items. Weights may be passed on, the secret in the
    # identity must not be.
    identity = sides.right.reader.transaction.environment.history + sides.right.settings.identity
    settings = hashlib.blake2b(identity).digest() if sides.is_one else b""
    deleted, since, one_of = state.next_number - state.live, 0, 1
    fields = len(items.agreement.names)
    nothing = np.empty(0, np.uint32)
    room = max(LEAST_PAIRS, sides.right.resources.memory // BYTES_A_CANDIDATE)
    parts: list[_Columns] = [
        (nothing, nothing, np.empty((0, fields), np.int16), np.empty(0, np.uint64))
    ]
    if (
        before is not None
        and sides.is_one
        and (before.settings, before.deleted) == (settings, deleted)
        and before.items <= state.next_number
        # Of those of which fewer were taken than have room now all are met anew.
        and (before.one_of == 1 or 2 * before.left.size > room + room // 8)
    ):
        parts.append((before.left, before.right, before.codes, before.rules))
        since, one_of = before.items, before.one_of
    found = items.parts(candidates(sides, progress, since=since), with_rules=True)
    for part in chain([None], found):
        if part is not None:
            parts.append(_one_of((part.left, part.right, part.codes, part.rules), one_of))
        while sum(columns[0].size for columns in parts) > room:
            one_of *= 2
            parts = [_one_of(columns, one_of) for columns in parts]
    left, right, codes, rules = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((right, left))  # so that sums are rounded in the same way
    left, right, codes, rules = left[order], right[order], codes[order], rules[order]
    return Counted(left, right, codes, rules, settings, state.next_number, deleted, one_of)


def _one_of(columns: _Columns, one_of: int) -> _Columns:
    """Return one of so many pairs, the same ones however they are divided."""
    if one_of == 1:
        return columns
    left, right, codes, rules = columns
    pairs = left.astype(np.uint64) << np.uint64(32) | right
    kept = mixed(pairs) % np.uint64(one_of) == 0
    return left[kept], right[kept], codes[kept], rules[kept]


def _patterns_of(
    counted: Counted, looks_at: Bools, *, is_one: bool, items: tuple[int, int]
) -> tuple[Patterns, Rivals]:
    """Return how often candidates agree in which way, and which pairs do."""
    masks, places = np.unique(counted.rules, return_inverse=True)
    bits = np.uint64(1) << np.arange(len(looks_at), dtype=np.uint64)
    proposes = (masks[:, np.newaxis] & bits) > 0
    of_masks = (proposes[:, :, np.newaxis] & ~looks_at).any(axis=1) | looks_at.all(axis=0)
    teaches: Bools = np.asarray(of_masks)[places.reshape(-1)]
    codes = np.column_stack([counted.codes, teaches])
    rows = codes.view(np.dtype((np.void, codes.itemsize * codes.shape[1]))).reshape(-1)
    _, firsts, pattern, counts = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True
    )
    all_counts = counts.astype(np.float64) * counted.one_of
    patterns = Patterns(counted.codes[firsts].astype(np.int64), all_counts, teaches[firsts])
    sides = counted.left, counted.right
    return patterns, Rivals(*sides, pattern.reshape(-1), is_one, items, counted.one_of)


def learn_from(
    sides: Sides,
    labels: Iterable[tuple[Key, Key, bool]] | Literal["stored"],
    *,
    sample: int,
    seed: int,
    one_to_one: bool = False,
    earlier: Weights | None = None,
    progress: ProgressCallback | None = None,
) -> Weights:
    """Learn weights from labelled pairs, beginning with what is learnt without.

    Few labels, and those of uncertain pairs only, would say nothing of what nobody asks about.
    """
    agreement = agreement_of(sides)
    require("statistics", "learning weights needs", "scipy")
    doubts: list[str] = []
    if isinstance(labels, str):
        labels, doubts = _stored(labels, sides)
    lefts, rights, said = [], [], []
    for left, right, label in labelling.to_learn_from(labels, is_one=sides.is_one):
        lefts.append(left)
        rights.append(right)
        said.append(label)
    numbers = numbers_of(sides, lefts, rights)
    require_both(said)
    before: Weights | None = None
    try:
        before = _unlabelled(
            sides,
            sample=sample,
            seed=seed,
            one_to_one=one_to_one,
            earlier=earlier,
            progress=progress,
        )
    except ConfigurationError as error:
        doubts.append(f"learnt from labels alone, since nothing is learnt without: {error.problem}")
    parts = list(Compared(sides).parts(iter([numbers])))
    codes = np.concatenate([part.codes for part in parts])
    levels = [len(leasts) + 1 for leasts in agreement.levels]
    known = None
    if before is not None:
        risen = [np.array([one.bits for one in own.levels[::-1]]) for own in before.fields]
        besides = [
            np.sum([own.adjustments(one) for own, one in _of_fields(sides, before, part)], axis=0)
            for part in parts
        ]
        known = Known(risen, before.prior, np.concatenate(besides))
    found = learn_labelled(codes, np.array(said, np.bool_), levels, known)
    if not found.settled:
        doubts.append("the regression did not settle")
    missing = (codes == MISSING).mean(axis=0)
    if before is None:
        present = dict(zip(agreement.names, (codes != MISSING).sum(axis=0).tolist(), strict=True))
        doubts += (
            f"only {count} labelled pairs have the field {name!r}"
            for name, count in present.items()
            if 0 < count < FEW
        )
    else:
        missing = np.array([own.missing for own in before.fields])
    weights = _weights(
        agreement,
        found.bits,
        prior=found.prior,
        missing=missing,
        pairs=float(len(said)),
        matches=float(sum(said)),
        doubts=doubts,
        frequent=() if before is None else [one.frequent for one in before.fields],
    )
    if before is None or not one_to_one:
        return weights
    return _of_chosen(sides, weights, before.counted)


def _of_chosen(sides: Sides, weights: Weights, counted: Counted | None) -> Weights:
    """Return weights by which probabilities are of pairs that are chosen one to one.

    Scores are the same: what changes is the evidence that a score stands for. Where there is no
    room for a choice among all candidates, nothing does, and a warning says so.
    """
    if sides.is_one or counted is None:
        return weights
    if not _has_room(sides, counted):
        doubt = (
            "weights and probabilities are of pairs by themselves, not of pairs chosen one to one: "
            f"choosing takes {BYTES_A_CHOICE} bytes of memory for each candidate"
        )
        return replace(weights, warnings=(*weights.warnings, doubt))
    bits = [np.array([level.bits for level in one.levels[::-1]]) for one in weights.fields]
    total = of_patterns(counted.codes, bits, weights.prior)
    live = (sides.left.reader.manifest.live, sides.right.reader.manifest.live)
    found = scale(counted.left, counted.right, total, live)
    if found is None:
        return weights
    fields = tuple(
        replace(
            one,
            levels=tuple(replace(level, bits=found.slope * level.bits) for level in one.levels),
            frequent={value: found.slope * bits for value, bits in one.frequent.items()},
        )
        for one in weights.fields
    )
    return replace(weights, fields=fields, prior=found.slope * weights.prior + found.shift)


def _has_room(sides: Sides, counted: Counted) -> bool:
    """Whether all candidates are there, and can be chosen among within the memory."""
    size = counted.left.size * BYTES_A_CHOICE
    return counted.one_of == 1 and size <= sides.right.resources.memory


def _stored(labels: str, sides: Sides) -> tuple[labelling.Labels, list[str]]:
    """Return the labels that the store keeps, and what is to be warned of."""
    if labels != "stored":
        raise ConfigurationError(
            f"labels must be triples of two keys and a bool, or 'stored', not {short(labels)}"
        )
    found = labelling.stored(*sides).require()
    return found, found.doubts


def numbers_of(
    sides: Sides, lefts: Sequence[Key], rights: Sequence[Key]
) -> tuple[UInt32s, UInt32s]:
    """Return the item numbers of keys of either side; KeyNotFoundError: one is not stored."""
    left = np.array([number_of(sides.left, key) for key in lefts], np.uint32)
    return left, np.array([number_of(sides.right, key) for key in rights], np.uint32)


class _Drawn(NamedTuple):
    """What random pairs tell of each field."""

    shares: list[Float64s]  # of pairs on each level
    least: list[Float64s]  # what the shares of pairs that do not match are at least
    present: list[float]  # share of the pairs of which both have a value
    frequent: list[dict[str, float]]  # bits that equality of a value says less than that of others


def _random_levels(items: Compared, sample: int, seed: int, *, is_one: bool) -> _Drawn:
    """Compare random pairs; how often values are equal is counted over all pairs of the sample.

    So it is known of values that hardly any two records share.
    """
    generator = np.random.default_rng(seed)
    agreement = items.agreement
    features, places = zip(*items.drawn(generator, SAMPLED_ITEMS), strict=True)
    counts = list(map(agreement.value_counts, features, places))
    sizes = [drawn.size for drawn in places]
    if min(sizes) <= is_one:
        raise ConfigurationError("there are no pairs to learn from")
    levels = [np.zeros(len(leasts) + 1) for leasts in agreement.levels]
    count = 0
    for left, right in random_pairs(generator, (sizes[0], sizes[-1]), sample, is_one=is_one):
        count += left.size
        found = agreement.fields(features[0], features[-1], places[0][left], places[-1][right])
        for place, one in enumerate(found):
            known = one.codes[one.codes != MISSING]
            levels[place] += np.bincount(known, minlength=levels[place].size)
    told = _Drawn([], [], [], [])
    for place, (own, leasts) in enumerate(zip(levels, agreement.levels, strict=True)):
        ones, others = counts[0][place], counts[-1][place]
        equal = _equality(ones, others, is_one=is_one)
        shares = (own + 0.5 / own.size) / (own.sum() + 0.5)
        least = np.full(own.size, equal.seen)
        common: dict[str, float] = {}
        if leasts[-1] == 1:
            by_chance = equal.share
            if not is_one:
                by_chance = max(equal.seen, min(equal.share, _within(ones, others)))
                least[-1] = by_chance
            shares[:-1] *= (1.0 - by_chance) / max(float(shares[:-1].sum()), 1e-300)
            shares[-1] = by_chance
            common = _frequent(ones, others, is_one=is_one)
        told.shares.append(shares)
        told.least.append(least)
        told.present.append(max(0.5, float(own.sum())) / count)
        told.frequent.append(common)
    return told


def _within(*sides: Mapping[str, int]) -> float:
    """Return how often two values of one table are equal, of the table where that is rarer.

    Two tables that are linked have few duplicates in themselves, so hardly any of these match. Of
    pairs of both tables some do, and what is told apart from them by what they agree in could be
    anything.
    """
    return min(_equality(one, one, is_one=True).share for one in sides)


class _Equality(NamedTuple):
    """How often two values of a field are equal."""

    share: float
    seen: float  # the least that could be seen


def _equality(ones: Mapping[str, int], others: Mapping[str, int], *, is_one: bool) -> _Equality:
    """Count how often values of two samples, or two of one, are equal."""
    left, right = sum(ones.values()), sum(others.values())
    pairs = left * (left - 1) if is_one else left * right
    if pairs <= 0:
        return _Equality(0.0, 0.5)
    seen = 0.5 / pairs
    same = sum(count * (others.get(value, 0) - is_one) for value, count in ones.items())
    return _Equality(max(same / pairs, seen), seen)


def _frequent(
    ones: Mapping[str, int], others: Mapping[str, int], *, is_one: bool
) -> dict[str, float]:
    """Return the bits, below 0, by which equality of frequent values says more than of any.

    Where a value is there so often on either side, as many pairs of it may match as the rarer side
    has, of one table as many as have it besides a record, and the others are equal by chance.
    Equality of it is evidence by the quotient of the two, and any equality by that of their sums
    over all values. What one side writes in another way is never equal, and is not frequent; nor
    is a value of one record, or of two that are one.
    """
    matching = {value: min(count, others.get(value, 0)) - is_one for value, count in ones.items()}
    by_chance = {
        value: count * (others.get(value, 0) - is_one) - matching[value] * (1 - is_one)
        for value, count in ones.items()
    }
    matches, chances = sum(matching.values()), sum(by_chance.values())
    bits = {
        value: math.log2(matching[value] * chances / (matches * often))
        for value, often in by_chance.items()
        if often > 0 and max(ones[value], others[value]) > 1 + is_one
    }
    frequent = sorted((own, value) for value, own in bits.items() if own < 0)
    return {value: own for own, value in islice(frequent, MOST_FREQUENT)}


def _weights(
    agreement: Agreement,
    bits: Sequence[Float64s],
    *,
    prior: float,
    missing: Float64s,
    pairs: float,
    matches: float,
    doubts: list[str],
    found: Evidence | None = None,
    frequent: Sequence[Mapping[str, float]] = (),
    counted: Counted | None = None,
) -> Weights:
    """Return what was learnt; of a field that is missing everywhere, nothing."""
    warnings = list(doubts)
    fields, rising = [], []
    for place, (name, leasts) in enumerate(zip(agreement.names, agreement.levels, strict=True)):
        own = bits[place]
        if missing[place] == 1:
            own = np.zeros(own.size)
            warnings.append(f"the field {name!r} is missing everywhere: it says nothing")
        rising.append(own)
        levels = [
            LevelWeight(
                float(least),
                float(own[level]),
                None if found is None else float(found.m[place][level]),
                None if found is None else float(found.u[place][level]),
            )
            for level, least in enumerate((Fraction(0), *leasts))
        ]
        least = float(own[0] - own[-1])  # not below what is not alike at all
        told = frequent[place].items() if frequent and least < 0 else ()
        common = {value: max(bits, least) for value, bits in told}
        fields.append(FieldWeight(name, tuple(levels[::-1]), float(missing[place]), common))
    kind = agreement.weighed(rising, [one.frequent for one in fields])
    return Weights(tuple(fields), prior, kind, round(pairs), matches, tuple(warnings), counted)


# -- what they say of pairs ------------------------------------------------------------------------


def evidence(sides: Sides, weights: Weights, left: UInt32s, right: UInt32s) -> Float64s:
    """Return the evidence for pairs of items by number, in bits, prior and all fields together."""
    parts = (bits for *_, bits in evidence_of(sides, weights, iter([(left, right)])))
    return np.concatenate([np.empty(0), *parts])


def evidence_of(
    sides: Sides, weights: Weights, pairs: Iterator[tuple[UInt32s, UInt32s]]
) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
    """Yield pairs of items by number, in parts of their order, and the ``evidence`` for each."""
    for part in Compared(sides).parts(pairs):
        total = np.full(part.left.size, weights.prior)
        for own, agreed in _of_fields(sides, weights, part):
            total += own.bits[agreed.codes] + own.adjustments(agreed)
        yield part.left, part.right, total


def explain_pair(sides: Sides, weights: Weights, left: Key, right: Key) -> PairEvidence:
    """Say what each field is evidence of; see ``Collection.explain_pair``."""
    numbers = numbers_of(sides, [left], [right])
    (part,) = Compared(sides).parts(iter([numbers]))
    decode = sides.right.signer.items.decode
    one = decode(items_of(sides.left.reader, numbers[0])[0])
    other = decode(items_of(sides.right.reader, numbers[1])[0])
    fields = []
    for own, agreed in _of_fields(sides, weights, part):
        code = int(agreed.codes[0])
        adjustment = float(own.adjustments(agreed)[0])
        fields.append(
            FieldEvidence(
                own.field.name,
                one.get(own.field.name),
                other.get(own.field.name),
                None if code == MISSING else own.field.levels[-1 - code].least,
                float(own.bits[code]) + adjustment,
                adjustment,
            )
        )
    bits = sum(field.bits for field in fields)
    return PairEvidence(weights.prior, tuple(fields), bits, weights.probability(bits))


class _Weighed(NamedTuple):
    """A field's weights as arrays."""

    field: FieldWeight
    bits: Float64s  # by code; that of MISSING, which is the last, is 0

    def adjustments(self, agreed: FieldAgreement) -> Float64s:
        """Return what equal values say less since they are frequent."""
        found = np.zeros(agreed.codes.size)
        if self.field.frequent:
            by_value = np.array([self.field.frequent.get(value, 0.0) for value in agreed.values])
            equal = agreed.value >= 0  # what reaches the highest level need not be equal
            found[equal] = by_value[agreed.value[equal]]
        return found


def _of_fields(
    sides: Sides, weights: Weights, part: Part
) -> Iterator[tuple[_Weighed, FieldAgreement]]:
    """Yield each field with how some pairs agree in it.

    ConfigurationError: the weights are of other fields or levels.
    """
    agreement = agreement_of(sides)
    # A field to which the learnt settings give no points is not scored once they are in force.
    scored = {*weights.kind.agreement(sides.right.signer.family).names, *agreement.names}
    fields = [one for one in weights.fields if one.name in scored]
    known = [(one.name, [level.least for level in one.levels[::-1]]) for one in fields]
    own = [
        (name, [0.0, *map(float, leasts)])
        for name, leasts in zip(agreement.names, agreement.levels, strict=True)
    ]
    if known != own:
        raise ConfigurationError("the weights belong to other fields, or to other levels")
    for one, agreed in zip(fields, part.fields, strict=True):
        bits = np.array([*(level.bits for level in one.levels[::-1]), 0.0])
        yield _Weighed(one, bits), agreed
