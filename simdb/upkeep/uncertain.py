"""The pairs of which it would help most to know whether they match: those of uncertain score."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from simdb.answers.method import ProgressCallback, keys_of_live, number_of
from simdb.results import Key
from simdb.upkeep import labelling
from simdb.upkeep.agreeing import candidates
from simdb.upkeep.calibrate import Sides
from simdb.upkeep.weigh import Weights, evidence_of

ALIKE = 2.0**-20  # bits: pairs whose evidence differs by less agree in the same way


class UncertainPair(NamedTuple):
    """A pair that nobody has labelled yet.

    Attributes:
        left, right: the keys.
        probability: the probability that the two match, by the weights.
    """

    left: Key
    right: Key
    probability: float


def uncertain(
    sides: Sides, weights: Weights, limit: int, progress: ProgressCallback | None = None
) -> list[UncertainPair]:
    """Return the pairs nearest to one half; see ``Collection.uncertain``."""
    known = {
        (number_of(sides.left, left), number_of(sides.right, right))
        for left, right, _ in labelling.stored(*sides)
    }
    if sides.is_one:
        known |= {(right, left) for left, right in known}
    seen: Counter[int] = Counter()
    kept: list[tuple[float, float, int, int]] = []
    for left, right, bits in evidence_of(sides, weights, candidates(sides, progress)):
        patterns = np.rint(bits / ALIKE).astype(np.int64)
        order = np.argsort(patterns, kind="stable")
        _, begins = np.unique(patterns[order], return_index=True)
        for places in np.split(order, begins[1:]):
            pattern = int(patterns[places[0]]) if places.size else 0
            for place in places.tolist():
                if seen[pattern] == limit:
                    break
                pair = int(left[place]), int(right[place])
                if pair not in known:
                    # One more that agrees in the same way tells less: as if it were a bit surer.
                    own = float(bits[place])
                    kept.append((abs(own) + seen[pattern], own, *pair))
                    seen[pattern] += 1
        kept = sorted(kept)[:limit]
    numbers = np.array([pair[2:] for pair in kept], np.uint32).reshape(-1, 2)
    lefts, rights = (
        keys_of_live(side.reader, own) for side, own in zip(sides, numbers.T, strict=True)
    )
    return [
        UncertainPair(left, right, weights.probability(bits - weights.prior))
        for (_, bits, *_), left, right in zip(kept, lefts, rights, strict=True)
    ]
