"""Thresholds and labels from one half of the entities of tables, F1 reported on the other half.

Records that belong together by the truth are an entity, and so is one that has no match. The hash
of the key of its first record says which half an entity is in. A pair is in the half of its left
record, so a true pair is in the half of its entity, and every pair is in one half: a wrong pair
costs as much as it does in the whole tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.linkage.assignment import one_to_one
from tools.benchmarks.record_data import Pair, Task

TRIED = 100  # thresholds, evenly from the lowest score of a match to the highest
RESAMPLED = 1_000  # times, all entities of the half that is reported
INTERVAL = (2.5, 97.5)  # percentiles
LEAST_WEIGHT = 1e-6  # of a pair, where scores are brought to (0, 1]


@dataclass(frozen=True, slots=True)
class Split:
    """Which entity each left record is of, and which entities thresholds are chosen on.

    Attributes:
        truth: the pairs that match.
        entity: of each left record.
        is_chosen_on: of each entity; the others are reported.
        matches: of each entity.
    """

    truth: set[Pair]
    entity: Int64s
    is_chosen_on: Bools
    matches: Int64s


@dataclass(frozen=True, slots=True)
class Scored:
    """The pairs that a program proposes, with their scores.

    Attributes:
        left, right: positions of records.
        scores: the higher, the more a pair looks like a match.
        is_own: which of them the program itself takes for matches, by no threshold that anybody
            chose; None if it does not say.
    """

    left: UInt32s
    right: UInt32s
    scores: Float64s
    is_own: Bools | None = None


def split_of(task: Task) -> Split:
    """Halve the entities of a task."""
    lefts = len(task.left)
    rights, shift = (0, 0) if task.right is None else (len(task.right), lefts)
    ends = np.array(sorted(task.truth), np.int64).reshape(-1, 2) + np.array([0, shift])
    nodes = lefts + rights
    graph = coo_array((np.ones(len(ends), np.int8), (ends[:, 0], ends[:, 1])), (nodes, nodes))
    count, labels = connected_components(graph, directed=False)
    _, firsts = np.unique(labels, return_index=True)
    is_chosen_on = np.array([_hashed(int(first)) % 2 == 0 for first in firsts], np.bool_)
    matches = np.bincount(labels[ends[:, 0]], minlength=count)
    return Split(task.truth, labels[:lefts].astype(np.int64), is_chosen_on, matches)


def labels_of(split: Split, pairs: Iterable[Pair]) -> list[tuple[int, int, bool]]:
    """Return those of some pairs that are in the half that is not reported, with the answers."""
    return [
        (left, right, (left, right) in split.truth)
        for left, right in pairs
        if split.is_chosen_on[split.entity[left]]
    ]


def scored(
    pairs: Sequence[Pair], scores: Sequence[float], own: Iterable[Pair] | None = None
) -> Scored:
    """Return pairs as columns; ``own`` are those that the program takes for matches."""
    ends = np.array(pairs, np.uint32).reshape(-1, 2)
    is_own = None
    if own is not None:
        taken = set(own)
        is_own = np.array([pair in taken for pair in pairs], np.bool_)
    return Scored(ends[:, 0], ends[:, 1], np.array(scores, np.float64), is_own)


def judged(split: Split, found: Scored, *, is_clean: bool) -> Iterator[dict[str, Any]]:
    """Yield F1 on the reported half, by the threshold that is chosen on the other half.

    Of a program that takes pairs for matches itself, F1 of these too; and if ``is_clean``, which
    is that a record matches one other at most, all of it one to one as well.
    """
    is_true = np.array(
        [
            pair in split.truth
            for pair in zip(found.left.tolist(), found.right.tolist(), strict=True)
        ],
        np.bool_,
    )
    on_chosen = split.is_chosen_on[split.entity[found.left]]
    of_matches = found.scores[is_true & on_chosen]
    tried = np.zeros(1)
    if of_matches.size:
        tried = np.linspace(of_matches.min(), of_matches.max(), TRIED)
    for alone in (False, True)[: 1 + is_clean]:
        told = []
        for one in tried:
            counted = _counted(split, found, is_true, found.scores >= one, alone=alone)
            pairs, common, matches = counted[:, split.is_chosen_on].sum(axis=1)
            told.append(2 * common / max(1, pairs + matches))
        best = np.flatnonzero(np.array(told) == max(told))
        threshold = float(tried[best[best.size // 2]])
        kept = {f"from {threshold:.3g}, chosen on the other half": found.scores >= threshold}
        if found.is_own is not None:
            kept["as the program says"] = found.is_own
        for way, is_kept in kept.items():
            counted = _counted(split, found, is_true, is_kept, alone=alone)
            low, f1, high = interval(counted[:, ~split.is_chosen_on])
            words = f"{way}, one to one" if alone else way
            is_own = is_kept is found.is_own
            measured = {"f1": f1, "low": low, "high": high}
            yield {"way": words, "is_own": is_own, "is_alone": alone, **measured}


def interval(counted: Int64s) -> tuple[float, float, float]:
    """Return the lower end, F1 and the upper end, entities being drawn again and again.

    Args:
        counted: of each entity (columns) the pairs found, those that match, and all that match.
    """
    entities = counted.shape[1]
    draws = np.random.default_rng(0).multinomial(entities, np.ones(entities) / entities, RESAMPLED)
    found, common, matches = (draws @ counted.T).T
    low, high = np.percentile(2 * common / np.maximum(1, found + matches), INTERVAL)
    found, common, matches = counted.sum(axis=1)
    return float(low), float(2 * common / max(1, found + matches)), float(high)


def _counted(split: Split, found: Scored, is_true: Bools, is_kept: Bools, *, alone: bool) -> Int64s:
    """Return of each entity the pairs found, those that match, and all that match."""
    kept = np.flatnonzero(is_kept)
    if alone:
        kept = kept[one_to_one(found.left[kept], found.right[kept], _weights(found.scores)[kept])]
    entity = split.entity[found.left[kept]]
    count = split.matches.size
    pairs = np.bincount(entity, minlength=count)
    common = np.bincount(entity[is_true[kept]], minlength=count)
    return np.stack([pairs, common, split.matches])


def _weights(scores: Float64s) -> Float64s:
    """Return scores as weights above 0, at most 1; similarities are weights themselves."""
    low, high = float(scores.min(initial=1)), float(scores.max(initial=1))
    if low > 0 and high <= 1:
        return scores
    return np.maximum((scores - low) / (high - low), LEAST_WEIGHT)


def _hashed(key: int) -> int:
    return blake2b(str(key).encode("ascii"), digest_size=1).digest()[0]
