"""Prints that were turned by any angle and shifted: how many are found, and what is looked at."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import simdb
from simdb.kinds import Fingerprint
from tools.benchmarks import stores
from tools.make_fingerprints import SIDE, Statistics, made_prints, read_minutiae

PLATE = 2 * SIDE  # holds a print that was turned about its middle, wherever that lies
MADE_FINGERS = 2_000
MADE_PROBES = 300
THRESHOLD = 0.1

KINDS = {
    "grids turned at minutiae, 8,192 functions": Fingerprint(
        *(PLATE, PLATE), alignment="turn", square=16, reach=96, sectors=8, functions=8_192
    ),
    **{
        f"triangles with {neighbours} neighbours, {groups} groups": Fingerprint(
            *(PLATE, PLATE),
            alignment="triangles",
            square=8,
            border=0,
            sectors=16,
            reach=120,
            neighbours=neighbours,
            functions=functions,
            groups=groups,
        )
        for neighbours, functions, groups in ((5, 256, 2), (12, 512, 4))
    },
}

Floats = npt.NDArray[np.float64]


def moved(minutiae: Floats, random: np.random.Generator) -> Floats:
    """Turn a print about the middle of its plate by any angle, and shift it."""
    turn = random.uniform(0, 360)
    cosine, sine = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    x, y = (minutiae[:, :2] - SIDE / 2).T
    shift = PLATE / 2 + random.uniform(-SIDE / 4, SIDE / 4, 2)
    turned = np.column_stack((cosine * x - sine * y, sine * x + cosine * y)) + shift
    there = np.column_stack((turned, minutiae[:, 2] + turn))
    return np.asarray(there[((turned >= 0) & (turned < PLATE)).all(axis=1)])


def looked_up(
    kind: Fingerprint,
    stored: Sequence[tuple[int, Floats]],
    probes: Iterable[tuple[int, int, Floats]],
    work: Path,
) -> dict[str, float]:
    """Search a store of prints for probes.

    ``stored`` has the finger of each print, ``probes`` the number of the stored print that each is
    (-1 if it is none) and its finger. Returns the shares of probes whose most similar other print
    is of their finger, of other prints looked at, of the prints of a finger found; milliseconds.
    """
    hits, looked_at, found, mates, searched = 0, 0, 0, 0, 0
    fingers = np.array([finger for finger, _ in stored])
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "prints.simdb") as database,
    ):
        prints = database.collection(stores.NAME, kind, threshold=THRESHOLD, seed=1)
        prints.add_many(enumerate(minutiae for _, minutiae in stored))
        prints.search(stored[0][1])
        begin = time.process_time()
        for own, finger, minutiae in probes:
            answer = prints.search(minutiae, guarantee="probable")
            keys = [int(match.key) for match in answer if match.key != own]
            searched += 1
            looked_at += answer.candidates - (own >= 0)
            hits += bool(keys) and bool(fingers[keys[0]] == finger)
            found += int(np.count_nonzero(fingers[keys] == finger))
            mates += int(np.count_nonzero(fingers == finger)) - (own >= 0)
        seconds = time.process_time() - begin
    return {
        "rank-1": hits / searched,
        "looked at": looked_at / (searched * len(stored)),
        "found": found / mates,
        "milliseconds": 1e3 * seconds / searched,
    }


def run_real(data: Path, work: Path) -> dict[str, dict[str, float]]:
    """Look the real prints up by each kind, all of them moved."""
    real, of_finger = read_minutiae(data / "fingerprints" / "fvc_minutiae.csv")
    random = np.random.default_rng(1)
    own = [(int(finger), moved(one, random)) for one, finger in zip(real, of_finger, strict=True)]
    probes = [(place, *one) for place, one in enumerate(own)]
    return {f"{name}, real": looked_up(kind, own, probes, work) for name, kind in KINDS.items()}


def run_made(data: Path, work: Path, fingers: int = MADE_FINGERS) -> dict[str, dict[str, float]]:
    """Look moved second prints of made fingers up by each kind among the moved first ones."""
    real, of_finger = read_minutiae(data / "fingerprints" / "fvc_minutiae.csv")
    random = np.random.default_rng(1)
    first, second = made_prints(Statistics.measured(real, of_finger), fingers, seed=1)
    made = list(enumerate(moved(one, random) for one in first))
    others = [(-1, finger, moved(one, random)) for finger, one in enumerate(second)]
    return {
        f"{name}, made": looked_up(kind, made, others[:MADE_PROBES], work)
        for name, kind in KINDS.items()
    }
