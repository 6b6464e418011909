"""How the functions of fingerprints do on prints: counted, and simulated (MMDS 3.8.5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.arrays import UInt16s
from simdb.kinds.fingerprints import SquaresFamily


class Rates(NamedTuple):
    """How a family does on prints.

    Attributes:
        looked_at: share of the prints of other fingers that are candidates: false positives.
        false_negatives: share of the prints of the same finger that are not.
    """

    looked_at: float
    false_negatives: float


def rates_of(
    family: SquaresFamily,
    signatures: UInt16s,
    fingers: npt.NDArray[np.int64],
    *,
    most: int = 2_000_000,
) -> Rates:
    """Count candidates among all pairs of signed prints, or of the nearest ones in their order.

    Args:
        family: that signed them.
        signatures: uint16 (n, words).
        fingers: int64 (n,), whose print each is.
        most: pairs to look at; the first prints are compared with all, if that many allow it.
    """
    yes = family.yes(signatures)
    count = len(yes)
    other, looked, same, missed = 0, 0, 0, 0
    for apart in range(1, count):
        if other + same >= most:
            break
        left, right = np.arange(count - apart), np.arange(apart, count)
        candidates = _sharing(family, yes[left], yes[right])
        mated = fingers[left] == fingers[right]
        other += int((~mated).sum())
        looked += int((~mated & candidates).sum())
        same += int(mated.sum())
        missed += int((mated & ~candidates).sum())
    return Rates(looked / max(1, other), missed / max(1, same))


def simulated_rates(
    family: SquaresFamily,
    densities: npt.NDArray[np.float64],
    kept: npt.NDArray[np.float64],
    *,
    fullness: npt.NDArray[np.float64] | None = None,
    prints: int = 2_000,
    pairs: int = 2_000_000,
    seed: int = 0,
) -> Rates:
    """Simulate the whole AND and OR on prints with one grid of independent squares (MMDS 3.8.5).

    Functions share squares and groups share prints, so that the rates of one function raised to
    powers, as in example 3.22, are not those of the whole: rich prints meet in every group.

    Args:
        family: of one grid.
        densities: float64 (squares,), how often each is occupied.
        kept: float64 (squares,), how often a second print of the finger occupies a square that the
            first does; it occupies others so often that its densities are the same.
        fullness: factors on the densities, one of which every finger draws; prints with many
            minutiae and few. Without it all are alike. What a second print has by chance follows
            it, so that sparse prints keep less than ``kept``.
        prints: fingers, two prints of each.
        pairs: of other fingers, that are looked at; at most about so many.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    scale = np.ones(prints) if fullness is None else random.choice(fullness, prints)
    wanted = np.minimum(densities * scale[:, None], 1.0)
    first = random.random(wanted.shape) < wanted
    second = second_prints(random, first, wanted, densities, kept)
    signatures = [packed(family, squares) for squares in (first, second)]
    others = rates_of(family, signatures[0], np.arange(prints), most=pairs)
    together = candidate_pairs(family, *signatures)
    return Rates(others.looked_at, float((~together).mean()))


def second_prints(
    random: np.random.Generator,
    first: npt.NDArray[np.bool_],
    wanted: npt.NDArray[np.float64],
    densities: npt.NDArray[np.float64],
    kept: npt.NDArray[np.float64],
) -> npt.NDArray[np.bool_]:
    """Draw another print of each finger, as ``simulated_rates`` does.

    Args:
        random: where numbers come from.
        first: bool (n, squares).
        wanted: float64 (n, squares), how often each print of the finger occupies each square.
        densities: float64 (squares,), the same of prints of ordinary fullness.
        kept: float64 (squares,), of prints of ordinary fullness.
    """
    beyond = np.divide(
        kept - densities, 1.0 - densities, out=np.zeros_like(kept), where=densities < 1.0
    )
    again = wanted + (1.0 - wanted) * np.maximum(beyond, 0.0)
    fresh = np.divide(
        wanted * (1.0 - again), 1.0 - wanted, out=np.zeros_like(wanted), where=wanted < 1.0
    )
    drawn: npt.NDArray[np.bool_] = random.random(first.shape) < np.where(first, again, fresh)
    return drawn


def packed(family: SquaresFamily, occupied: npt.NDArray[np.bool_]) -> UInt16s:
    """Return the signatures of grids given as truths, bool (n, squares)."""
    data = np.zeros((len(occupied), 2 * family.words), np.uint8)
    bits = np.packbits(occupied, axis=1, bitorder="little")
    data[:, : bits.shape[1]] = bits
    return data.view("<u2").astype(np.uint16)


def candidate_pairs(family: SquaresFamily, left: UInt16s, right: UInt16s) -> npt.NDArray[np.bool_]:
    """Return which pairs of signatures are candidates: bool (m,)."""
    return family.first_shared(left, right) >= 0


def _sharing(family: SquaresFamily, left: UInt16s, right: UInt16s) -> npt.NDArray[np.bool_]:
    """Return which pairs share a function in every group, of bit sets of functions."""
    return np.asarray(
        kernels.fingerprints.first_shared(left, right, family.group_size, family.groups) >= 0
    )
