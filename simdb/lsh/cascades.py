"""Buckets of any cascade of AND and OR over a banded family (MMDS 3.6.3).

The innermost AND is a band of the family, an *atom*; the layers around it say which atoms two items
must agree in. Distributed, a cascade is an OR of ANDs of atoms, its *clauses*, and a bucket key for
each of these would make candidates of exactly the right pairs. But an AND of k members that have n
clauses each has n^k. So bucket keys are made of the first few members of each AND only, of which
more pairs share one, and the stored signatures, by which all atoms are known, decide. Either way
the candidates are those of the cascade, and its curve is the formula of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import isnan, prod
from typing import Any

import numpy as np

from simdb.arrays import Bools, Int64s, UInt16s
from simdb.errors import ConfigurationError
from simdb.late import cached_property
from simdb.lsh.amplification import (
    And,
    Construction,
    Layer,
    of_layers,
    parse_construction,
)
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS, BandedFamily, BucketKeys, Family, mixed

MOST_KEYS = 1_024  # of an item, where a cascade that has as many ORed atoms does not need more

BYTES_A_KEY = 12  # a bucket entry: key and item number
# What a byte of index an item is worth in probability that a dissimilar pair is a candidate. It
# decides only among plans whose false candidates hardly differ: at 0.8 and 0.99 12 x 5 saves 120
# bytes of 16 x 6 and has 0.02 more.
WORTH_OF_A_BYTE = 5e-5
_WORTH_OF_A_LOOK = 0.1  # at two signatures, in comparisons in full


@dataclass(frozen=True, slots=True)
class Cascade:
    """A cascade as it is indexed.

    Attributes:
        layers: what is around the atoms, alternating, the outermost first; not a single OR, which
            is banding.
        rows: base functions of an atom, all of which must agree.
        keyed: of each AND in ``layers``, how many members bucket keys are made of.
    """

    layers: tuple[Layer, ...]
    rows: int
    # Of no meaning for what is found: what is planned otherwise some day is the same cascade.
    keyed: tuple[int, ...] = field(compare=False)

    @classmethod
    def of(cls, construction: Construction) -> Cascade:
        """Read a construction; every AND is keyed by one member, for a start.

        ConfigurationError: it has more base functions than a signature.
        """
        layers, rows = construction.layers, 1
        functions = prod(layer.members for layer in layers)
        if functions > MAXIMUM_FUNCTIONS:
            raise ConfigurationError(
                f"the cascade {construction} has {functions:,} base functions, more than the "
                f"{MAXIMUM_FUNCTIONS:,} that a signature may have"
            )
        if layers and layers[-1].combine is And:
            rows = layers.pop().members
        return cls(tuple(layers), rows, (1,) * sum(layer.combine is And for layer in layers))

    @property
    def is_banding(self) -> bool:
        """Whether it is ``Or(bands, And(rows))``."""
        return not self.keyed

    @property
    def atoms(self) -> int:
        """How many bands the family has."""
        return prod(layer.members for layer in self.layers)

    @property
    def construction(self) -> Construction:
        """The cascade as AND and OR."""
        return of_layers([*self.layers, Layer(And, self.rows)])

    @property
    def key_count(self) -> int:
        """Bucket keys of an item."""
        return _clause_count(self._keyed_layers)

    @property
    def proposing(self) -> Construction:
        """What the bucket keys alone make candidates of: the cascade with fewer members."""
        return of_layers([*self._keyed_layers, Layer(And, self.rows)])

    @property
    def _keyed_layers(self) -> list[Layer]:
        keyed = iter(self.keyed)
        return [Layer(And, next(keyed)) if layer.combine is And else layer for layer in self.layers]

    def clauses(self) -> Int64s:
        """Return the atoms whose agreement each bucket key stands for: (keys, atoms of a key)."""
        found: list[tuple[int, ...]] = [(0,)]  # of the layers inside, which hold so many atoms
        atoms, keyed = 1, list(self.keyed)
        for layer in reversed(self.layers):
            taken = keyed.pop() if layer.combine is And else layer.members
            copies = [
                [tuple(atom + copy * atoms for atom in clause) for clause in found]
                for copy in range(taken)
            ]
            if layer.combine is And:
                found = [sum(chosen, ()) for chosen in product(*copies)]
            else:
                found = [clause for copy in copies for clause in copy]
            atoms *= layer.members
        return np.array(found, np.int64)

    def holds(self, agreeing: Bools) -> Bools:
        """Return of which pairs, bool (n, atoms) saying where they agree, the cascade holds."""
        for layer in reversed(self.layers):
            pairs, members = agreeing.shape
            inside = agreeing.reshape(pairs, members // layer.members, layer.members)
            agreeing = (np.all if layer.combine is And else np.any)(inside, axis=2)
        return agreeing.reshape(-1)

    def planned(self, curve: Curve, value: float) -> Cascade:
        """Choose how many members each AND is keyed by, for items similar at a value.

        The fewest candidates of the keys, weighed against the size of the index.
        """
        return min(self._choices(), key=lambda choice: choice._cost(curve, value))

    def _choices(self) -> Iterator[Cascade]:
        members = [layer.members for layer in self.layers if layer.combine is And]
        yield self
        for keyed in product(*(range(1, most + 1) for most in members)):
            choice = replace(self, keyed=keyed)
            if choice.key_count <= MOST_KEYS:
                yield choice

    def _cost(self, curve: Curve, value: float) -> float:
        if isnan(curve.probability(value)):
            curve, value = JaccardCurve(), 1.0  # as good as any
        looks = mean_probability(self.proposing, curve, value)
        return _WORTH_OF_A_LOOK * looks + WORTH_OF_A_BYTE * BYTES_A_KEY * self.key_count

    def encode(self) -> dict[str, Any]:
        """Return it as plain values, as it is stored."""
        return {"form": str(self.construction), "keyed": list(self.keyed)}

    @classmethod
    def decode(cls, stored: Any) -> Cascade:
        """Return what ``encode`` stored; ValueError if planning never gives it."""
        form, keyed = stored["form"], tuple(stored["keyed"])
        cascade = replace(cls.of(parse_construction(form)), keyed=keyed)
        members = [layer.members for layer in cascade.layers if layer.combine is And]
        if len(members) != len(keyed) or not members:
            raise ValueError(f"no cascade {form} is keyed by {keyed}")
        for most, chosen in zip(members, keyed, strict=True):
            if type(chosen) is not int or not 0 < chosen <= most:
                raise ValueError(f"no cascade {form} is keyed by {keyed}")
        if cascade.key_count > MOST_KEYS and set(keyed) != {1}:
            raise ValueError(f"the cascade {form}, keyed by {keyed}, has too many bucket keys")
        return cascade

    def __str__(self) -> str:
        return str(self.construction)


def mean_probability(construction: Construction, curve: Curve, value: float) -> float:
    """Return the mean probability of a candidate pair that is not similar enough.

    The collision probability is taken as uniform between that of unrelated items and that of items
    at the value, and integrated by the trapezoidal rule.
    """
    near, far = curve.probability(value), curve.unrelated(value)
    single = np.linspace(far, near, 201)
    area = np.trapezoid(construction.probability(single), single)
    return float(area) / max(near - far, 1e-9)


def _clause_count(layers: Sequence[Layer]) -> int:
    count = 1
    for layer in reversed(layers):
        count = count**layer.members if layer.combine is And else count * layer.members
    return count


class CascadeFamily(Family):
    """A cascade over a banded family, whose bands are its atoms."""

    def __init__(self, inner: Family, cascade: Cascade) -> None:
        if not isinstance(inner, BandedFamily) or inner.bands != cascade.atoms:
            raise ConfigurationError(
                f"a cascade needs a family of bands of equal size, which {type(inner).__name__} "
                "is not"
            )
        self._inner = inner
        self._cascade = cascade
        self.words = inner.words
        self.is_fast = inner.is_fast
        self.decides = cascade.proposing != cascade.construction

    def sign(self, features: Any) -> UInt16s:
        """Return the signatures of the family."""
        return self._inner.sign(features)

    @cached_property
    def _clauses(self) -> Int64s:
        return self._cascade.clauses()

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return one key a clause: the mixed sum of the keys of its atoms, which differ."""
        own = self._inner.bucket_keys(signatures)
        atoms = own.values.reshape(-1, self._inner.bands)
        keys = np.zeros((len(atoms), len(self._clauses)), np.uint64)
        for part in self._clauses.T:
            keys += atoms[:, part]
        has_keys = own.sizes > 0
        spread = np.zeros((len(signatures), keys.shape[1]), np.uint64)
        spread[has_keys] = mixed(keys)
        return BucketKeys.of_matrix(spread, has_keys)

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return the atoms that each key of a single signature is made of."""
        if not self.bucket_keys(signatures).values.size:
            return []
        return [f"atoms {' and '.join(map(str, part + 1))}" for part in self._clauses]

    def needed_matches(self, bound: Any) -> int:
        """Return how many equal words a similar pair of the family has with near certainty."""
        return self._inner.needed_matches(bound)

    def are_candidates(self, left: UInt16s, right: UInt16s) -> Bools:
        """Return for which pairs of signatures the cascade holds."""
        shape = len(left), self._inner.bands, self._inner.band_words
        return self._cascade.holds((left == right).reshape(shape).all(axis=2))
