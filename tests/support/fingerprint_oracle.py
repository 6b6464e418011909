"""Slow and obvious twins of what is computed on fingerprints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from simdb.kinds import Fingerprint

Minutia = tuple[float, float, float]


def squares_of(minutia: Minutia, kind: Fingerprint, columns: int, rows: int) -> set[int]:
    """Return the squares in which a minutia counts, by trying all corners of its surroundings."""
    x, y, direction = (Fraction(value) for value in minutia)
    found = set()
    slack = 8 if kind.sectors > 1 else 0
    of_column, of_row, of_sector = (
        {math.floor((x + side * kind.border) / kind.square) for side in (-1, 1)},
        {math.floor((y + side * kind.border) / kind.square) for side in (-1, 1)},
        {math.floor((direction + side * slack) % 360 * kind.sectors / 360) for side in (-1, 1)},
    )
    for column, row, sector in product(of_column, of_row, of_sector):
        if 0 <= column < columns and 0 <= row < rows:
            found.add((row * columns + column) * kind.sectors + sector)
    return found


def grid_of(minutiae: Sequence[Minutia], kind: Fingerprint) -> set[int]:
    return set().union(*(squares_of(one, kind, *kind.plate_grid) for one in minutiae))


def grids_around(minutiae: Sequence[Minutia], kind: Fingerprint) -> list[set[int]]:
    """Return one grid for each minutia, in whose middle it is; itself is not in it."""
    columns, rows = kind.function_grid
    grids = []
    for x, y, direction in minutiae:
        heading = direction if kind.alignment == "turn" else 0.0
        grid: set[int] = set()
        for other in minutiae:
            if other == (x, y, direction):
                continue
            across, down = other[0] - x, other[1] - y
            if kind.alignment == "turn":
                angle = math.radians(heading)
                across, down = (
                    math.cos(angle) * across + math.sin(angle) * down,
                    math.cos(angle) * down - math.sin(angle) * across,
                )
                across, down = math.floor(across * 16) / 16, math.floor(down * 16) / 16
            middle = (columns * kind.square / 2, rows * kind.square / 2)
            moved = (across + middle[0], down + middle[1], other[2] - heading)
            grid |= squares_of(moved, kind, columns, rows)
        grids.append(grid)
    return grids


def yes(grids: Iterable[set[int]], functions: Sequence[Sequence[int]]) -> set[int]:
    """Return the numbers of the functions all of whose squares one of the grids has."""
    whole = [sum(1 << square for square in grid) for grid in grids]
    asked = [sum(1 << square for square in set(squares)) for squares in functions]
    return {
        number
        for number, squares in enumerate(asked)
        if any(squares & grid == squares for grid in whole)
    }


def first_shared(left: set[int], right: set[int], size: int, groups: int) -> int:
    shared = left & right
    if {number // size for number in shared} != set(range(groups)):
        return -1
    return min(shared)


def bits(row: np.ndarray) -> set[int]:
    width = 8 * row.dtype.itemsize
    return {
        place * width + bit
        for place, word in enumerate(row.tolist())
        for bit in range(width)
        if word >> bit & 1
    }


def most_matched(left: Sequence[Minutia], right: Sequence[Minutia], kind: Fingerprint) -> int:
    """Lay each minutia on each and count; greedy, so that it is only nearly the best."""
    best = 0
    for one, other in product(left, right):
        turn = other[2] - one[2]
        angle = math.radians(turn)
        free = list(right)
        for minutia in left:
            x, y = minutia[0] - one[0], minutia[1] - one[1]
            place = (
                math.cos(angle) * x - math.sin(angle) * y + other[0],
                math.sin(angle) * x + math.cos(angle) * y + other[1],
            )
            near = [
                there
                for there in free
                if math.dist(place, there[:2]) <= kind.tolerance
                and abs((there[2] - minutia[2] - turn + 180) % 360 - 180)
                <= kind.direction_tolerance
            ]
            if near:
                free.remove(min(near, key=lambda there: math.dist(place, there[:2])))
        best = max(best, len(right) - len(free))
    return best


def random_print(random: np.random.Generator, count: int, kind: Fingerprint) -> list[Minutia]:
    """Return minutiae in whole units, no two alike, ascending."""
    limits = (kind.width, kind.height, 360)
    rows = {tuple(float(random.integers(limit)) for limit in limits) for _ in range(count)}
    return sorted(rows)  # type: ignore[arg-type]
