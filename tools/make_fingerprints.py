"""Read real minutiae, measure their statistics, and make prints of the same statistics.

A made finger has as many minutiae as a real print, at places of the real density, each with the
direction of the nearest minutia of one real print. A made print of it moves and turns the finger,
keeps a share of its minutiae and puts others in the place of the rest. Shares, shifts and turns are
as between real prints of a finger.

How minutiae stand to their neighbours matters to grids around them and is only roughly imitated:
other models of it, no less likely, gave shares of candidates up to one half larger, and ten real
fingers cannot tell which is right. This one was chosen since it came closest.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import FingerprintItems, FingerprintMeasure

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SIDE = 300  # of the plate of the real prints, in pixels
_PLACE_JITTER = 4.0  # pixels, about a place of the real density
_JITTER = 3.0  # pixels, of a minutia that is found again
_DIRECTION_JITTER = 6.0  # degrees; the file rounds to 11.25


def read_minutiae(path: Path) -> tuple[list[Floats], Integers]:
    """Read prints: float64 (m, 3) each, and the finger of each.

    The file has half the direction, measured against the way from the x axis to the y axis.
    """
    prints: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["finger"]), int(row["impression"])
            direction = -2.0 * float(row["angle_deg"]) % 360.0
            prints.setdefault(key, []).append((float(row["x"]), float(row["y"]), direction))
    return [np.array(prints[key]) for key in prints], np.array([key[0] for key in prints])


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is measured on real prints.

    Attributes:
        prints: minutiae, float64 (m, 3) each.
        kept: of each pair of prints of a finger, the share of minutiae that is found again.
        turns: standard deviation of the turn between prints of a finger, in degrees.
        shifts: of the shift along x and along y, in pixels.
    """

    prints: list[Floats]
    kept: Floats
    turns: float = 5.0
    shifts: tuple[float, float] = (40.0, 55.0)

    @classmethod
    def measured(cls, prints: list[Floats], fingers: Integers) -> Statistics:
        """Align all pairs; what pairs of other fingers match by chance is taken off."""
        kind = Fingerprint(SIDE, SIDE, rotation=30)
        items = FingerprintItems(kind)
        features = items.features([items.encode(print_) for print_ in prints])
        left, right = np.triu_indices(len(prints), 1)
        matched = FingerprintMeasure(kind).compare_pairs(features, left, right).numerators
        sizes = np.diff(features.offsets)
        share = matched / np.minimum(sizes[left], sizes[right])
        mated = fingers[left] == fingers[right]
        chance = float(share[~mated].mean())
        return cls(prints, np.clip((share[mated] - chance) / (1.0 - chance), 0.0, 1.0))

    def finger(self, random: np.random.Generator) -> Floats:
        """Make a finger."""
        count = len(self.prints[random.integers(len(self.prints))])
        flow = self.prints[random.integers(len(self.prints))]
        return self._drawn(random, count, flow)

    def print_of(self, random: np.random.Generator, finger: Floats) -> Floats:
        """Make another print of a finger."""
        again = finger + random.normal(0.0, [_JITTER, _JITTER, _DIRECTION_JITTER], finger.shape)
        turn = random.normal(0.0, self.turns)
        cosine, sine = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        x, y = (again[:, :2] - SIDE / 2).T
        shift_x, shift_y = random.normal(0.0, self.shifts)
        again[:, 0] = cosine * x - sine * y + SIDE / 2 + shift_x
        again[:, 1] = sine * x + cosine * y + SIDE / 2 + shift_y
        again[:, 2] += turn
        again = again[((again[:, :2] >= 0.0) & (again[:, :2] < SIDE)).all(axis=1)]
        # What has left the plate is a part of what real prints do not have in common.
        kept = random.choice(self.kept) * len(finger) / max(1, len(again))
        again = again[random.random(len(again)) < kept]
        fresh = self._drawn(random, len(finger) - len(again), finger)
        return np.concatenate((again, fresh))

    def _drawn(self, random: np.random.Generator, count: int, flow: Floats) -> Floats:
        """Draw minutiae with the directions of the nearest ones of a print."""
        pool = np.concatenate(self.prints)
        drawn = pool[random.integers(len(pool), size=count)].copy()
        drawn[:, :2] += random.normal(0.0, _PLACE_JITTER, (count, 2))
        apart = ((drawn[:, None, :2] - flow[None, :, :2]) ** 2).sum(axis=2)
        drawn[:, 2] = flow[apart.argmin(axis=1), 2]
        drawn[:, 2] += random.normal(0.0, _DIRECTION_JITTER, count)
        return _on_plate(drawn)


def _on_plate(minutiae: Floats) -> Floats:
    minutiae[:, :2] = np.clip(minutiae[:, :2], 0.0, SIDE - 0.5)
    return minutiae


def made_prints(
    statistics: Statistics, fingers: int, seed: int
) -> tuple[Sequence[Floats], Sequence[Floats]]:
    """Make two prints of each of so many fingers."""
    random = np.random.default_rng(seed)
    first = [statistics.finger(random) for _ in range(fingers)]
    return first, [statistics.print_of(random, finger) for finger in first]
