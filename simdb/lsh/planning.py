"""Choosing bands and rows for a threshold and a wanted recall (MMDS 3.4.2, 3.4.3)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, isnan, nan, nextafter
from typing import Any

import numpy as np
from msgspec import Struct, structs

from simdb import arrow, notebooks
from simdb.arguments import number_within, require_whole, short
from simdb.arrays import Float64s
from simdb.errors import ConfigurationError
from simdb.lsh import fast_sketches
from simdb.lsh.amplification import And, Construction, Or, candidate_shares, fixed_points, s_curve
from simdb.lsh.cascades import BYTES_A_KEY, WORTH_OF_A_BYTE, Cascade, mean_probability
from simdb.lsh.curves import Curve, JaccardCurve, Sensitivity, SumCurve, UnstatedCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS
from simdb.results import Brief, Tabular

JACCARD = JaccardCurve()
USUAL_RECALL = Fraction(99, 100)
_MOST_BANDS = 128
_MOST_ROWS = 128
MOST_BY_CHANCE = 2  # items that an item meets, where their number is known: one pair an item
_BYTES_A_ROW = 2  # a stored row
_MOST_COUNTED = 2_048  # rows of which all choices are counted, in half a second
_MOST_ITEMS = 10**18
_MOST_POINTS = 1_000_000  # of a curve
_MOST_SYMBOLS = 2**32  # of two sets; of so many the law is that of independent rows

_DIGITS = 10_000  # of what is told as attained: rounded so that it is not what was asked for


def require_items(name: str, value: int | None) -> int | None:
    """Return how many items there are to be, or None; ConfigurationError: no such number."""
    number = require_whole(name, value, 1)
    if number is not None and number > _MOST_ITEMS:
        raise ConfigurationError(f"{name} must be at most {_MOST_ITEMS:,}, not {short(number)}")
    return number


def wrong_recall(recall: object) -> ConfigurationError:
    """What to raise for a recall that no index is planned for."""
    return ConfigurationError(
        "recall must be a number above 0 and below 1, or 1 for an index that misses nothing, which "
        f"few kinds have, not {short(recall)}"
    )


class Plan(Brief, Tabular, Struct, frozen=True):
    """Bands and rows for a threshold; as a table, the S-curve.

    Attributes:
        threshold: the similarity, or the distance, that the plan was made for.
        bands, rows: the number of groups of base functions, with one bucket key each, and the
            number of functions in a group.
        family: the collision probability of a base function.
        cascade: the bands in which two items must agree, unless any one suffices.
    """

    threshold: Fraction
    bands: int
    rows: int
    family: Curve = JACCARD
    cascade: Cascade | None = None

    @property
    def construction(self) -> Construction:
        """What is made of base functions: ``Or(bands, And(rows))``, or the cascade."""
        return Or(self.bands, And(self.rows)) if self.cascade is None else self.cascade.construction

    @property
    def keys(self) -> int:
        """Bucket keys of an item, where every band gives it one; see ``Kind.expected_keys``."""
        return self.bands if self.cascade is None else self.cascade.key_count

    @property
    def signature_rows(self) -> int:
        """Base functions of a signature: bands * rows."""
        return self.bands * self.rows

    def expected_recall(self, value: float | Fraction, union: int | None = None) -> float:
        """Return the probability that a pair of this similarity, or distance, is found.

        1 - (1 - p^rows)^bands (MMDS 3.4.2), p being the collision probability of the family, or
        what AND and OR of a cascade make of p (MMDS 3.6.3); less the probability, at most 1 in
        10,000, that the pair, when searched at or below its similarity, is dropped for sharing too
        few rows. Identical items are never lost. nan where the family states no probability.

        Fast sketches find more than the formula says, the fewer different symbols two sets have
        together. With that number as ``union`` the exact law is used (``lsh.fast_sketches``). The
        formula is its limit, and a lower bound at the threshold of every plan that is chosen for a
        recall of 0.8 and above; of bands and rows that were asked for it may be too high for sets
        of few symbols: of one band by 0.125, of two by 0.06. Below the threshold, too: of sets of
        few symbols up to a quarter less is found than it says, and more than that where it is below
        0.2.

        Raises:
            ConfigurationError: a similarity that is not between 0 and 1, a distance below 0; a
                ``union`` of other than bands of minhashes, or none at all.
        """
        found = self.candidate_probability(value, 0, union)
        is_sure = self.family.probability(float(value)) >= 1
        return found if is_sure or isnan(found) else max(0.0, found - self.family.loss)

    def candidate_probability(
        self, value: float | Fraction, needed: int = 0, union: int | None = None
    ) -> float:
        """Return the probability that a pair of this similarity, or distance, is a candidate.

        It is one if the bands, or the cascade, agree, and if at least ``needed`` rows of the
        signatures do, as a search asks for by its bound. Far below that bound it is the rows that
        are too few. ``union`` is as of ``expected_recall``. nan where the family states no
        probability. Of more than 2,048 independent rows, in bands of several, it is right within
        0.02.

        Raises:
            ConfigurationError: a similarity that is not between 0 and 1, a distance below 0; more
                rows than there are; a ``union`` of other than bands of minhashes, or none at all.
        """
        single = self.family.probability(self._value(value))
        require_whole("needed", needed, 0, self.signature_rows, optional=False)
        if union is not None:
            self._require_sketches(union)
        if single >= 1:
            return 1.0
        return nan if isnan(single) else self.candidate_by(single, needed, union)

    def candidate_by(self, single: float, needed: int, union: int | None = None) -> float:
        """Return ``candidate_probability`` by the collision probability of one function."""
        if not needed and union is None:
            return float(self.construction.probability(single))
        functions = self.signature_rows
        law = fast_sketches.agreements(single, functions, union)
        if union is None and functions > _MOST_COUNTED:
            shares = self.construction.probability(np.arange(functions + 1) / functions)
        else:
            shares = candidate_shares(self.construction, functions)
        return min(1.0, float(law[needed:] @ shares[needed:]))

    def _value(self, value: Any) -> float:
        """Return what is a number that a similarity, or a distance, can be; else raise."""
        name, most = ("a distance", inf) if self.family.falls else ("a similarity", 1)
        return number_within(name, value, most)

    def _require_sketches(self, union: int) -> None:
        if self.cascade is not None or type(self.family) not in (JaccardCurve, SumCurve):
            raise ConfigurationError(
                "union= is only for bands of minhashes, where recall depends on it"
            )
        require_whole("union", union, 1, _MOST_SYMBOLS, optional=False)

    def curve(self, points: int = 101) -> Float64s:
        """Return the S-curve, float64 (points, 2): collision and candidate probability.

        For Jaccard similarity the collision probability is the similarity itself.

        Raises:
            ConfigurationError: ``points`` is no whole number of at least 1.
        """
        require_whole("points", points, 1, _MOST_POINTS, optional=False)
        return s_curve(self.construction, points)

    def to_arrow(self) -> Any:
        """Return ``curve()`` as a ``pyarrow.Table``: ``collision`` and ``candidate``.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        collision, candidate = self.curve().T
        return arrow.table({"collision": collision.copy(), "candidate": candidate.copy()})

    def _repr_html_(self) -> str:
        """Draw the S-curve, for notebooks."""
        told: list[tuple[str, object]] = [
            ("made for", float(self.threshold)),
            ("construction", self.construction),
            ("bucket keys of an item", self.keys),
            ("base functions of an item", self.signature_rows),
            ("expected recall there", f"{self.expected_recall(self.threshold):.4f}"),
        ]
        at = self.family.probability(float(self.threshold))
        words = "probability of being a candidate, by that of the collision of one function"
        points = ((float(x), float(y)) for x, y in self.curve())
        return notebooks.table("plan", ("", ""), told) + notebooks.curve(
            words, points, None if isnan(at) else at
        )

    def fixed_points(self) -> list[float]:
        """Return the collision probabilities that stay as they are (MMDS 3.6.3), rising."""
        return fixed_points(self.construction)

    def sensitivity(self, near: float, far: float) -> Sensitivity:
        """State how items at a near distance are told from those at a far one (MMDS 3.6.1).

        Of a similarity, the distance is 1 minus it.

        Raises:
            ConfigurationError: a distance is below 0 or, of a similarity, above 1; or the far one
                is not the larger.
        """
        most = inf if self.family.falls else 1
        distances = [number_within("a distance", distance, most) for distance in (near, far)]
        return self.family.sensitivity(*distances).amplified(self.construction)

    def chance_meetings(self, items: int) -> float:
        """Return about how many of all items share a bucket with an item by chance.

        A base function of unrelated items agrees as ``Curve.chance`` says; for sets these share a
        twentieth. The number grows with the number of items, and each meeting costs a comparison in
        vain. nan if the family states no probability.

        Raises:
            ConfigurationError: ``items`` is no whole number, or below 0.
        """
        chance = self.family.chance(float(self.threshold))
        count = require_whole("items", items, 0, _MOST_ITEMS, optional=False)
        return count * float(self.construction.probability(chance))

    def false_candidates(self) -> float:
        """Return the probability that a pair that is not similar enough is a candidate.

        The collision probability is taken as uniform between that of unrelated items and that at
        the threshold, and the S-curve integrated by the trapezoidal rule.
        """
        return mean_probability(self.construction, self.family, float(self.threshold))


class PlanRequest(Struct, frozen=True):
    """What is asked of a plan; what is None is left to planning."""

    recall: Fraction = USUAL_RECALL  # of pairs at the threshold, the share that is to be found
    bands: int | None = None  # taken as given, as rows
    rows: int | None = None
    row_budget: int | None = None  # base functions of an item; None for that of the family
    # The largest probability that a pair beyond the threshold is a candidate.
    false_candidates: Fraction = Fraction(1)
    # Taken as given, if it finds enough; the rest but the recall is then not to be asked for.
    cascade: Construction | None = None
    is_usual: bool = False  # nobody asked for the recall: a kind may take another one
    # How many there will be: what is planned lets an item meet at most two others by chance.
    items: int | None = None

    def __post_init__(self) -> None:
        for name in ("bands", "rows", "row_budget"):
            value = require_whole(name, getattr(self, name), 1)
            if value is not None and value > MAXIMUM_FUNCTIONS:
                raise ConfigurationError(
                    f"{name} is {short(value)}, more than the {MAXIMUM_FUNCTIONS:,} of a signature"
                )
            structs.force_setattr(self, name, value)
        structs.force_setattr(self, "items", require_items("items", self.items))
        if self.cascade is None:
            return
        if not isinstance(self.cascade, Construction):
            raise ConfigurationError(
                f"a cascade must consist of simdb.And and simdb.Or, not {short(self.cascade)}"
            )
        if not structs.replace(self, cascade=None).is_free:
            raise ConfigurationError(
                "a cascade says what an index is made of: leave out bands, rows, row_budget and "
                "false_candidates"
            )

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked of the index but its recall, for however many items."""
        return self == PlanRequest(self.recall, is_usual=self.is_usual, items=self.items)


NOTHING_ASKED = PlanRequest()


@lru_cache(maxsize=64)
def plan(
    threshold: Fraction,
    request: PlanRequest = NOTHING_ASKED,
    family: Curve = JACCARD,
    told: Fraction | None = None,
) -> Plan:
    """Choose bands and rows such that pairs at the threshold are found with the wanted recall.

    Within the budget of rows, it takes the fewest false candidates, weighed against the size of the
    index. ``bands`` or ``rows`` that are given stay; when both are, they are taken whatever their
    recall, which ``Plan.expected_recall`` tells. Messages call the threshold by ``told``, if the
    caller knows another scale. ConfigurationError: a value is out of range, or the budget does not
    reach the recall; the message says what it reaches, and what would do.
    """
    if not family.falls and not 0 < threshold <= 1:
        raise ConfigurationError(f"threshold must be above 0 and at most 1, not {threshold}")
    if not 0 < request.recall < 1:
        raise wrong_recall(float(request.recall))
    shown = float(threshold if told is None else told)
    asked = f"at {'distance' if family.falls else 'threshold'} {shown}"
    if request.cascade is not None:
        return _plan_cascade(threshold, request.cascade, request.recall, family, asked)
    bands, rows = request.bands, request.rows
    if bands is not None and rows is not None:
        if bands * rows > MAXIMUM_FUNCTIONS:
            raise ConfigurationError(
                f"bands * rows is {bands * rows:,}, more than the {MAXIMUM_FUNCTIONS:,} of a "
                "signature"
            )
        return Plan(threshold, bands, rows, family)
    if isinstance(family, UnstatedCurve):
        raise ConfigurationError(
            "bands and rows cannot be planned without a known probability: give both"
        )
    budget = request.row_budget or family.row_budget
    least = _least(request.recall)
    enough, nearest = _enough(threshold, request, budget, least, family)
    if not nearest:
        raise ConfigurationError(
            f"bands={bands}, rows={rows} leaves no plan within {budget:,} rows of signature; "
            "give both, or a larger row_budget, to go beyond it"
        )
    if not enough:
        best = max(nearest, key=lambda choice: choice.expected_recall(threshold))
        is_own = request.row_budget is not None or rows is not None
        several = (
            "" if is_own else " and two or more a band (one only with a row budget of your own)"
        )
        raise ConfigurationError(
            f"recall {float(request.recall)} {asked} cannot be reached with {budget:,} rows of "
            f"signature{several}; {best.bands} bands of {best.rows} rows reach "
            f"{floor(best.expected_recall(threshold) * _DIGITS) / _DIGITS:.4f}: lower the recall, "
            f"{_larger_budget(threshold, request, family)}or give bands and rows"
        )
    most = request.false_candidates
    few = [choice for choice in enough if choice.false_candidates() <= most]
    if not few:
        best = min(enough, key=Plan.false_candidates)
        raise ConfigurationError(
            f"false_candidates {float(most)} {asked} cannot be reached with {budget:,} rows of "
            f"signature; {best.bands} bands of {best.rows} rows have "
            f"{ceil(best.false_candidates() * _DIGITS) / _DIGITS:.4f}: ask for more, lower the "
            "recall, or raise row_budget"
        )
    if request.items is not None:
        return _plan_for_many(threshold, request, budget, least, family)
    return min(few, key=_cost)


def _more_rows(request: PlanRequest) -> str:
    """Say what would allow more rows of signature, where something given does not."""
    if request.rows is not None or request.bands is not None:
        return "no rows and bands, "
    return "" if request.row_budget is None else "a larger row_budget, or none, "


def _plan_for_many(
    threshold: Fraction, request: PlanRequest, budget: int, least: float, family: Curve
) -> Plan:
    """Spend rows, as many as it takes, until an item meets at most two others by chance."""
    items = request.items or 0
    while True:
        enough, _ = _enough(threshold, request, budget, least, family)
        few = [choice for choice in enough if choice.false_candidates() <= request.false_candidates]
        rare = [choice for choice in few if not choice.chance_meetings(items) > MOST_BY_CHANCE]
        if rare and budget == family.row_budget:
            return min(rare, key=_cost)
        if rare:
            return min(rare, key=lambda choice: (choice.signature_rows, choice.rows))
        if request.row_budget is not None or 2 * budget > MAXIMUM_FUNCTIONS:
            best = min(choice.chance_meetings(items) for choice in few)
            raise ConfigurationError(
                f"with {budget:,} rows of signature an item meets {best:,.0f} of {items:,} others "
                f"by chance: give {_more_rows(request)}a higher threshold or a lower recall"
            )
        budget *= 2


def _plan_cascade(
    threshold: Fraction, construction: Construction, recall: Fraction, family: Curve, told: str
) -> Plan:
    """Take a cascade, keyed as costs least; ConfigurationError if it does not find enough."""
    cascade = Cascade.of(construction)
    chosen = Plan(threshold, cascade.atoms, cascade.rows, family)
    if not cascade.is_banding:
        cascade = cascade.planned(family, float(threshold))
        chosen = structs.replace(chosen, cascade=cascade)
    reached = chosen.expected_recall(threshold)
    if reached < recall:  # where none is stated, as much as can be known is reached
        share = int(reached * 1000) / 1000
        asked = f"ask for recall={share:g}, or " if share else ""  # a recall of 0 is refused
        raise ConfigurationError(
            f"the cascade {construction} finds {reached:.4f} {told}, less than the "
            f"recall {float(recall):g}: {asked}take a larger OR or a smaller AND"
        )
    return chosen


def _enough(
    threshold: Fraction, request: PlanRequest, budget: int, least: float, family: Curve
) -> tuple[list[Plan], list[Plan]]:
    """List, for each number of rows, the best plan that finds enough, and that which finds most."""
    enough, nearest = [], []
    for choices in _choices(threshold, request, budget, family):
        # More bands find more, and propose more: the fewest that find enough are the best.
        first = bisect_left(choices, least, key=lambda choice: choice.expected_recall(threshold))
        enough += choices[first : first + 1]
        nearest += choices[-1:]
    return enough, nearest


def _least(recall: Fraction) -> float:
    """Return the least float not below a recall, so that comparing with it is as good."""
    least = float(recall)
    return least if least >= recall else nextafter(least, inf)


@lru_cache(maxsize=256)
def enough_rows(
    threshold: Fraction, request: PlanRequest, family: Curve
) -> tuple[int | None, int | None]:
    """Return the least budgets that are enough: with several rows a band, and with one.

    None where no budget is, or where one row a band takes no fewer.
    """
    request = structs.replace(request, row_budget=MAXIMUM_FUNCTIONS)
    enough, _ = _enough(threshold, request, MAXIMUM_FUNCTIONS, _least(request.recall), family)
    several = min((choice.signature_rows for choice in enough if choice.rows > 1), default=None)
    single = min((choice.signature_rows for choice in enough if choice.rows == 1), default=None)
    return several, single if single is not None and single < (several or inf) else None


def _larger_budget(threshold: Fraction, request: PlanRequest, family: Curve) -> str:
    """Name the budgets that are enough, if any."""
    several, single = enough_rows(threshold, request, family)
    budgets = [] if several is None else [f"of {several}"]
    budgets += [] if single is None else [f"of {single} for bands of a single row"]
    return f"give a row budget {', or '.join(budgets)}, " if budgets else ""


def _choices(
    threshold: Fraction, request: PlanRequest, budget: int, family: Curve
) -> Iterator[list[Plan]]:
    """Yield, for each number of rows, the plans within a budget by rising number of bands.

    With one row a band, pairs that are hardly alike are candidates: those are left out unless they
    are asked for, or a budget of the caller's own says that the threshold is so low.
    """
    is_own = request.row_budget is not None
    fewest = 1 if is_own else 2
    most_bands = budget if is_own else min(budget, _MOST_BANDS)
    for rows in [request.rows] if request.rows else range(fewest, min(budget, _MOST_ROWS) + 1):
        most = min(most_bands, budget // rows)
        chosen = range(1, most + 1)
        if request.bands is not None:
            chosen = range(request.bands, request.bands + (request.bands * rows <= budget))
        yield [Plan(threshold, bands, rows, family) for bands in chosen]


def _cost(choice: Plan) -> tuple[float, int]:
    index_bytes = BYTES_A_KEY * choice.bands + _BYTES_A_ROW * choice.signature_rows
    cost = choice.false_candidates() + WORTH_OF_A_BYTE * index_bytes
    return cost, choice.signature_rows
