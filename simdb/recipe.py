"""A recipe: what a collection is made by, apart from its items: settings, secret and bound.

Two collections of one recipe are the same collection of other items: an item has the same symbols,
the same signature and the same buckets in both. So signatures that are made elsewhere, by
``simdb.steps`` on a cluster, are those that the collection would make.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction
from operator import index
from typing import Any, Literal, get_args

from msgspec import Struct

from simdb.arguments import is_whole, require_choice, short
from simdb.errors import ConfigurationError, SimdbError, UnknownTokeniserError, WrongTypeError
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.kinds import Items, Kind, SketchScheme, require, restore
from simdb.kinds.base import plan_request
from simdb.lsh.amplification import Construction
from simdb.lsh.cascades import Cascade, CascadeFamily
from simdb.lsh.family import Family
from simdb.lsh.planning import Plan, PlanRequest

SECRET_BYTES = 32
FORMAT = 1
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")  # of Unicode
_QUOTIENT = re.compile(r"[0-9]+(/[0-9]+)?")  # as fractions are stored
# What values that no recipe has may raise.
_WRONG = KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError
_LONGEST_SEED = 4_300  # digits, as many as Python writes
_MARK = "simdb_recipe"  # the field of JSON that holds the format


class Recipe(Struct, frozen=True, kw_only=True):
    """Everything that makes a collection, except its name: a frozen value that you can pass on.

    ``Recipe.of`` plans a recipe, ``Collection.recipe`` is that of a collection, and
    ``Database.collection(name, recipe=...)`` makes a collection from it. A recipe contains the
    secret: whoever has it can make items that share all hashes of another item.

    Attributes:
        kind: the kind of the items.
        threshold: the similarity, on the scale of indexes, or the distance that the probable index
            is planned for; the floor of the exact index if there is only that.
        recall: the share of pairs at the threshold that the index should find.
        bands, rows: of the probable index; 0 without one.
        sketch: the scheme of minhash.
        secret: the key of all hashes.
        unicode_version: of the Python that made it; classes of newer characters may differ.
        exact_floor: the least threshold of an exact index; None without one.
        containment: the exact index posts all symbols, and serves every threshold and measure.
        finds_equal: equal items share a bucket even if the family has none for them.
        cascade: the bands in which items must agree, unless any one suffices.
    """

    kind: Kind
    threshold: Fraction
    recall: Fraction
    bands: int
    rows: int
    sketch: SketchScheme
    secret: bytes
    unicode_version: str
    exact_floor: Fraction | None = None
    containment: bool = False
    finds_equal: bool = False
    cascade: Cascade | None = None

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({parts})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what is printed: all but the secret."""
        told = (name for name in self.__struct_fields__ if name != "secret")
        return [(name, getattr(self, name)) for name in told]

    # -- making one ------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        kind: Kind,
        *,
        threshold: ThresholdLike | Literal["default"] | None = "default",
        max_distance: ThresholdLike | None = None,
        recall: ThresholdLike | None = None,
        bands: int | None = None,
        rows: int | None = None,
        sketch: SketchScheme = "fast",
        seed: int | None = None,
        exact_floor: ThresholdLike | None = None,
        containment: bool = False,
        row_budget: int | None = None,
        false_candidates: ThresholdLike = 1,
        cascade: Construction | None = None,
        items: int | None = None,
    ) -> Recipe:
        """Plan what ``Database.create_collection`` of the same arguments would make.

        Args:
            kind: the kind of the items; the other arguments are those of ``Database.collection``.
            items: how many there will be, as for ``simdb.plan``.

        Raises:
            ConfigurationError: a value is out of range, or no plan reaches the recall, unless bands
                and rows are both given.
        """
        kind = require(kind)
        kind.require_useful()
        plan = plan_request(
            recall,
            false_candidates,
            bands=bands,
            rows=rows,
            row_budget=row_budget,
            cascade=cascade,
            items=items,
        )
        return planned(
            kind,
            bound=kind.planned_bound(threshold, max_distance),
            plan=plan,
            sketch=sketch,
            secret=secret_of(seed),
            floor=kind.parse_floor(exact_floor),
            containment=containment,
        )

    # -- travelling ------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return all of it as plain values; the secret as bytes."""
        values: dict[str, Any] = {part: getattr(self, part) for part in Recipe.__struct_fields__}
        values["kind"] = self.kind.stored()
        floor = [] if self.exact_floor is None else ["exact_floor"]
        for part in ("threshold", "recall", *floor):
            values[part] = str(values[part])
        if self.cascade is not None:
            values["cascade"] = self.cascade.encode()
        return values

    def to_json(self) -> str:
        """Return the recipe as text for ``from_json``. The text contains the secret."""
        plain = self.plain()
        return json.dumps({_MARK: FORMAT, **plain, "secret": plain["secret"].hex()}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Recipe:
        """Read what ``to_json`` returned.

        Raises:
            ConfigurationError: the text is not a recipe, or is of another version.
            UnknownKindError: this process does not know the kind.
        """
        try:
            stored = json.loads(text)
            version = stored.pop(_MARK)
            if version != FORMAT:
                problem = f"the recipe has format {version!r}; this version reads {FORMAT}"
                raise ConfigurationError(problem)
            stored["secret"] = bytes.fromhex(stored["secret"])
            recipe = cls(**restored(stored))
            recipe.require_possible()
        except SimdbError:
            raise
        except _WRONG as error:
            raise ConfigurationError(
                f"this is not a recipe as written by Recipe.to_json: {error}"
            ) from error
        return recipe

    def signs_alike(self, other: Recipe) -> bool:
        """Whether items have the same signatures and bucket keys by another recipe."""
        return self.kind.signs_alike(require_recipe(other).kind) and all(
            getattr(self, part) == getattr(other, part)
            for part in Recipe.__struct_fields__
            if part not in ("kind", "threshold")
        )

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, the same for equal recipes only; they guard signatures."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    @property
    def title(self) -> str:
        """What messages call it."""
        return "the recipe"

    def require_same_unicode(self) -> None:
        """Raise ConfigurationError if this Python knows other characters than the recipe's.

        A text could have other shingles here than where the recipe was made.
        """
        if unicodedata.unidata_version != self.unicode_version:
            raise ConfigurationError(
                f"{self.title} was made with Unicode {self.unicode_version}, and this Python has "
                f"{unicodedata.unidata_version}: use one version of Python everywhere"
            )

    # -- what it says ----------------------------------------------------------------------------

    @property
    def is_probable(self) -> bool:
        """Whether there is a probable index."""
        return self.bands > 0

    @property
    def is_complete(self) -> bool:
        """Whether that misses nothing within the bound it is planned for."""
        return self.is_probable and self.kind.misses_nothing(self.recall)

    @property
    def is_exact(self) -> bool:
        """Whether there is an exact index."""
        return self.exact_floor is not None

    @property
    def bound(self) -> Bound:
        """What its probable index is planned for, as indexes work with it."""
        return self.kind.bound_of(self.threshold)

    @property
    def posted_floor(self) -> Threshold | None:
        """The floor that says how much of a set the exact index posts; None for all of it."""
        if self.exact_floor is None or self.containment:
            return None
        return Threshold(self.exact_floor)

    @property
    def plan(self) -> Plan:
        """The banding with its S-curve; ConfigurationError if there is no probable index."""
        if not self.is_probable:
            problem = f"{self.title} has no probable index"
            raise ConfigurationError(problem, remedies=[self.kind.index_remedy])
        make_curve = self.kind.make_complete_curve if self.is_complete else self.kind.make_curve
        curve = make_curve(self.threshold)
        return Plan(self.threshold, self.bands, self.rows, curve, self.cascade)

    def expected_recall(self, bound: Bound) -> float:
        """Return the share of the pairs at a bound that the probable index finds.

        The bound is one as indexes have it, such as ``bound``; ``plan.expected_recall`` takes
        numbers. WrongTypeError: it is none.
        """
        given: Any = bound
        if not isinstance(given, Bound):
            problem = f"bound must be as Recipe.bound is, not {type(given).__name__}"
            raise WrongTypeError(f"{problem}; plan.expected_recall takes numbers")
        return self.plan.expected_recall(bound.fraction)

    def make_items(self) -> Items:
        """The codec of items; UnknownTokeniserError says what cannot be used without."""
        try:
            return self.kind.make_items(self.secret)
        except UnknownTokeniserError as error:
            raise UnknownTokeniserError(
                error.name, error.version, f"{self.title} cannot be used: "
            ) from error

    def family(self) -> Family | None:
        """Return the locality-sensitive family of the probable index; None without one."""
        if not self.is_probable:
            return None
        if self.is_complete:
            return self.kind.make_complete_family(
                self.threshold, bands=self.bands, rows=self.rows, secret=self.secret
            )
        family = self.kind.make_family(
            self.threshold,
            bands=self.bands,
            rows=self.rows,
            sketch=self.sketch,
            secret=self.secret,
        )
        if self.cascade is not None:
            return CascadeFamily(family, self.cascade)
        return self.kind.finding_equals(family) if self.finds_equal else family

    @property
    def expected_keys(self) -> int:
        """About how many bucket keys an item has, by which merges are paced."""
        if self.cascade is not None:
            return self.cascade.key_count
        return self.kind.expected_keys(self.bands)

    @property
    def most_keys(self) -> int:
        """How many bucket keys an item has at most, by which batches are cut."""
        if self.cascade is not None:
            return self.cascade.key_count
        return self.kind.most_keys(self.bands, self.rows)

    def require_possible(self) -> None:
        """Raise ValueError for what planning never gives: it would take memory."""
        self._require_possible_banding()
        self._require_possible_bounds()
        if not _VERSION.fullmatch(self.unicode_version):
            raise ValueError(f"{self.unicode_version[:60]!r} is no version of Unicode")

    def _require_possible_banding(self) -> None:
        bands, rows = self.bands, self.rows
        whole = type(bands) is int and type(rows) is int
        if not whole or not (bands == rows == 0 or self.kind.can_have(bands, rows)):
            kind = type(self.kind).__name__
            raise ValueError(f"no index of {kind} has {bands!r} bands of {rows!r} rows")
        if self.cascade is not None and (bands, rows) != (self.cascade.atoms, self.cascade.rows):
            raise ValueError(f"no cascade {self.cascade} has {bands} bands of {rows} rows")

    def _require_possible_bounds(self) -> None:
        floor, largest = self.exact_floor, Fraction(1)
        if self.kind.is_distance:
            largest = self.kind.largest_distance
        elif not self.threshold:
            raise ValueError("the threshold is 0")
        if not self.threshold <= largest or not 0 < self.recall <= 1:
            raise ValueError(f"nothing is planned for {self.threshold} and recall {self.recall}")
        banding = self.threshold, self.bands, self.rows
        if self.is_complete and not self.kind.can_be_complete(*banding):
            raise ValueError(
                f"no plan within {banding[0]} has {self.bands} bands of {self.rows} rows"
            )
        if floor is not None and not (self.kind.has_symbols and 0 < floor <= 1):
            raise ValueError(f"no exact index of {type(self.kind).__name__} has the floor {floor}")
        if self.sketch not in ("fast", "classical") or not isinstance(self.secret, bytes):
            raise ValueError(f"sketches {self.sketch!r} with such a secret are not known")
        if not self.secret:
            raise ValueError("the secret is empty")
        if not all(type(one) is bool for one in (self.containment, self.finds_equal)):
            raise ValueError("containment and finds_equal are true or false")
        if self.containment and floor is None:
            raise ValueError("containment needs an exact floor")


def require_recipe(given: object) -> Recipe:
    """Return a recipe; WrongTypeError if it is something else."""
    if not isinstance(given, Recipe):
        raise WrongTypeError(
            f"a recipe must be a simdb.Recipe, not {type(given).__name__}; Recipe.from_json reads "
            "one from text"
        )
    return given


# -- from what is asked, from what is stored ---------------------------------------------------


def planned(
    kind: Kind,
    *,
    bound: Bound | None,
    plan: PlanRequest,
    sketch: SketchScheme,
    secret: bytes,
    floor: Threshold | None,
    containment: bool,
) -> Recipe:
    """Return a recipe, bands and rows planned where they are not given.

    Without a bound there is no probable index, without a floor no exact one. Only kinds without
    symbols can do without both: they are compared with all. ConfigurationError: a value is out
    of range, no plan reaches the recall, or there would be no index.
    """
    require_choice("sketch", sketch, *get_args(SketchScheme))
    if floor is not None and not kind.has_symbols:
        raise ConfigurationError(f"{kind} has no exact index: exact answers compare all items")
    if floor is None and containment:
        raise ConfigurationError("containment=True needs an exact_floor")
    chosen, asked = None, plan
    if bound is not None:
        asked = kind.settled(bound.fraction, asked)
        chosen = kind.plan(bound.fraction, asked)
    elif not asked.is_free or asked.items is not None:
        what = "bands and rows need" if asked.cascade is None else "a cascade needs"
        if asked.is_free:
            what = "a number of items needs"
        raise ConfigurationError(f"{what} a threshold, or a max_distance")
    wanted = chosen.threshold if chosen is not None else floor.fraction if floor else None
    if wanted is None:
        if kind.has_symbols:
            raise ConfigurationError("a collection needs a threshold, an exact_floor, or both")
        wanted = kind.widest_bound
    return Recipe(
        kind=kind,
        threshold=wanted,
        recall=asked.recall,
        bands=0 if chosen is None else chosen.bands,
        rows=0 if chosen is None else chosen.rows,
        sketch=sketch,
        secret=secret,
        unicode_version=unicodedata.unidata_version,
        exact_floor=None if floor is None else floor.fraction,
        containment=containment,
        finds_equal=kind.may_miss_equals and chosen is not None,
        cascade=None if chosen is None else chosen.cascade,
    )


def restored(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values, as ``Recipe.plain`` has them, as what they stand for; others as are."""
    values = {**stored, "kind": restore(stored["kind"])}
    floor = [] if stored["exact_floor"] is None else ["exact_floor"]
    for part in ("threshold", "recall", *floor):
        values[part] = fraction(stored[part])
    if stored.get("cascade") is not None:
        values["cascade"] = Cascade.decode(stored["cascade"])
    return values


def fraction(stored: str) -> Fraction:
    """Read a quotient of whole numbers; ValueError if it is something else."""
    if not _QUOTIENT.fullmatch(stored):  # 1e999999999 would be computed
        raise ValueError(f"{stored[:60]!r} is no fraction")
    return Fraction(stored)


def secret_of(seed: int | None) -> bytes:
    """Return a secret: random, or the same one for the same seed."""
    if seed is None:
        return os.urandom(SECRET_BYTES)
    if not is_whole(seed):
        raise ConfigurationError(f"seed must be a whole number or None, not {short(seed)}")
    if abs(index(seed)) >= 10**_LONGEST_SEED:
        raise ConfigurationError(f"seed must have at most {_LONGEST_SEED:,} digits")
    return hashlib.blake2b(str(index(seed)).encode(), person=b"simdb seed", digest_size=32).digest()
