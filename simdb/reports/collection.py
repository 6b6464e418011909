"""The report of a collection, or of what became of the rows of a job."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isnan
from typing import Any

import numpy as np

from simdb.arguments import require_whole
from simdb.collection import CollectionView
from simdb.errors import ConfigurationError, SimdbError, WrongTypeError
from simdb.evidence import in_words
from simdb.extras import require
from simdb.reports import charts
from simdb.reports.pages import Section, Shown, beside, rendered, texts_beside
from simdb.results import Key
from simdb.upkeep.survey import Survey

GROUPED = 50_000  # items of a collection whose groups are made for a report
BIN = 0.05
PAIRS_A_BIN = 3
MISSES = 8
GROUPS_SHOWN = 8
MEMBERS_SHOWN = 3  # beside the one that the others are compared with
GROUPS_HELD = 64  # of the largest so far, of which rows are kept while a job runs
MEASURED = 200  # pairs by which the curve is measured
TRIES = 10
LONG = 60_000  # characters of two texts, whose shingles are not counted for a page
BOUNDS, RANGES = 50, 25  # of the charts
_TINY = 1e-9
_SIZES = ((2, 2), (3, 3), (4, 5), (6, 10), (11, 30), (31, 100), (101, 1_000), (1_001, None))


@dataclass(slots=True)
class Removed:
    """What became of the rows of a job: counted as it runs, and some examples kept.

    Attributes:
        by: what rows were removed by, if not the similarity of the collection: containment.
        counts: of rows, by names for people.
        edges, by_value: how many removed rows were how similar to the one kept.
        groups: how many rows were removed for each kept one.
        members: of the largest groups, some of the rows removed: key, value and item.
        values: how many removed rows were how similar to the one kept.
    """

    is_distance: bool
    by: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    groups: Counter[Key] = field(default_factory=Counter)
    members: dict[Key, list[tuple[Key | None, float, Any]]] = field(default_factory=dict)
    values: Counter[float] = field(default_factory=Counter)
    _least: int = 0
    _examples: dict[int, list[tuple[Key | None, Key, float, Any]]] = field(default_factory=dict)
    _seen: Counter[int] = field(default_factory=Counter)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def note(
        self, key: Key | None, kept: Key, value: float | None, item: Callable[[], Any]
    ) -> None:
        """Note a removed row; of each range of values some are kept, all equally likely."""
        self.groups[kept] += 1
        if value is None:
            return
        self.values[float(f"{value:.4g}")] += 1
        place = int(value / BIN + 1e-9) if not self.is_distance else 0
        self._seen[place] += 1
        kept_rows = self._examples.setdefault(place, [])
        row = self._random.randrange(self._seen[place])
        if len(kept_rows) < PAIRS_A_BIN:
            kept_rows.append((key, kept, value, item()))
        elif row < PAIRS_A_BIN:
            kept_rows[row] = key, kept, value, item()
        if self._is_large(kept) and len(self.members[kept]) < MEMBERS_SHOWN:
            self.members[kept].append((key, value, item()))

    def _is_large(self, kept: Key) -> bool:
        """Return whether a group is one of the largest so far, and hold its rows if so."""
        if kept in self.members:
            return True
        if len(self.members) == GROUPS_HELD:
            if self.groups[kept] <= self._least:  # groups only grow, so this bound stays true
                return False
            smallest = min(self.members, key=self.groups.__getitem__)
            self._least = self.groups[smallest]
            if self.groups[kept] <= self._least:
                return False
            del self.members[smallest]
        self.members[kept] = []
        return True

    def examples(self) -> Iterable[tuple[Key | None, Key, float, Any]]:
        """Yield the examples, the most similar first."""
        for place in sorted(self._examples, reverse=not self.is_distance):
            yield from self._examples[place]


def report(
    collection: CollectionView,
    *,
    sample: int = 1_000,
    seed: int = 0,
    title: str | None = None,
    command: str | None = None,
    removed: Removed | None = None,
) -> str:
    """Return a report of a collection as one page of HTML.

    The page shows settings, how many rows each threshold would remove, pairs by similarity with
    near misses below the threshold, the S-curve with the recall measured on real pairs, groups, and
    pairs of every similarity side by side with the differences marked. Figures below the threshold
    are estimated from a sample; the cost is that of ``sample`` searches.

    Args:
        collection: or one of a snapshot.
        sample: how many items are searched for.
        seed: of the random choice.
        title: of the page.
        command: how to repeat what was done, as it is shown.
        removed: of a job, what became of its rows.

    Raises:
        WrongTypeError: the collection is none.
        ConfigurationError: a number is out of range.
        MissingExtraError: jinja2 or matplotlib is not installed (the extra ``report``).
    """
    if not isinstance(collection, CollectionView):
        raise WrongTypeError(f"a report is of a collection, not of a {type(collection).__name__}")
    sample = require_whole("sample", sample, 1, optional=False)
    seed = require_whole("seed", seed, 0, optional=False)
    require("report", "a report needs", "jinja2", "matplotlib")
    page = _Page(collection, sample, seed, removed)
    groups, drawn = page.groups(), page.charts()
    if groups is not None:
        drawn.append(groups.pop("chart"))
    return rendered(
        "collection.html",
        title=title or f"simdb: {collection.name}",
        command=command,
        numbers=page.numbers(),
        settings=page.settings(),
        charts=drawn,
        groups=groups,
        sections=page.sections(),
        note=page.note,
    )


def _edges(found: Survey) -> tuple[list[float], float]:
    """Return the edges of ranges of values, one of which parts what is within the bound; that one.

    What is at the bound is within it: above the edge as a similarity, below it as a distance.
    """
    low, high = (0.0, found.lowest) if found.is_distance else (found.lowest, 1.0)
    cut = float(np.nextafter(found.bound, np.inf)) if found.is_distance else found.bound
    narrow = max(cut - low, high - low, _TINY) / RANGES
    high = max(high, cut + narrow)  # at a threshold of 1 some are within it, too
    share = (cut - low) / (high - low)
    below = min(RANGES - 1, max(1, round(share * RANGES))) if cut > low else 0
    parts = [np.linspace(low, cut, below + 1)[:-1]] if below else []
    edges: list[float] = np.concatenate(
        [*parts, np.linspace(cut, high, RANGES - below + 1)]
    ).tolist()
    return edges, cut


@dataclass(frozen=True, slots=True)
class _Group:
    """One of the largest groups."""

    size: str
    about: str
    pairs: Sequence[Shown]


class _Page:
    """What a report shows, gathered part by part."""

    def __init__(
        self, collection: CollectionView, sample: int, seed: int, removed: Removed | None
    ) -> None:
        self._collection = collection
        self._kind = collection.kind
        self._removed = removed
        self._random = random.Random(seed)  # noqa: S311 - not secret
        self._items = len(collection)
        self._measured = "distance" if self._kind.is_distance else "similarity"
        self.note = ""
        self._survey: Survey | None = None
        if removed is not None and removed.by:
            self.note = f"Rows were removed by {removed.by}: other thresholds were not tried."
        elif self._items:
            try:
                self._survey = collection.survey(sample=sample, seed=seed)
            except ConfigurationError as error:
                self.note = f"Nothing was searched for: {error}"
        if not self._items:
            self.note = "The collection holds no items: there is nothing to compare."
        elif self._survey is not None:
            looked = self._survey
            self.note = (
                f"Figures that are called estimated come from {looked.sampled:,} of "
                f"{looked.items:,} items, drawn at random and searched for down to a "
                f"{self._measured} of {looked.lowest:g}."
            )

    def numbers(self) -> list[tuple[str, str]]:
        """The numbers at the top."""
        found = self._survey
        counted = {} if self._removed is None else self._removed.counts
        told = {**counted} or {"items": self._items}
        shown = [(name, f"{count:,}") for name, count in told.items()]
        if found is not None and self._removed is None:
            (estimate,) = found.removed([found.bound])
            shown.append(("similar to an earlier item, estimated", f"{estimate:,.0f}"))
        if found is not None:
            shown.append((f"{self._measured} that counts as similar", f"{found.bound:g}"))
        return shown

    def settings(self) -> list[tuple[str, str]]:
        """The settings of the collection."""
        kind, collection = self._kind, self._collection
        described: Mapping[str, Any] = kind.describe()
        told = [(name.replace("_", " "), _setting(value)) for name, value in described.items()]
        if self._removed is not None and self._removed.by:
            return told  # the command tells the shares
        bounds = {
            "threshold": collection.threshold,
            "largest distance": collection.max_distance,
            "exact from": collection.exact_floor,
        }
        told += [(name, f"{float(one):g}") for name, one in bounds.items() if one is not None]
        try:
            plan = collection.plan
        except SimdbError:
            return told
        told.append(("index", kind.index_in_words(plan.bands, plan.rows)))
        told.append(("recall planned", f"{float(collection.recall):g}"))
        return told

    # -- charts ----------------------------------------------------------------------------------

    def charts(self) -> list[tuple[str, str, str]]:
        """The charts: title, what it says, SVG."""
        found = self._survey
        if found is None:
            return []
        drawn = [self._removal(found), self._histogram(found)]
        recall = self._curve(found)
        if recall is not None:
            drawn.append(recall)
        return drawn

    def _bounds(self, found: Survey) -> list[float]:
        ends = (0.0, found.lowest) if found.is_distance else (found.lowest, 1.0)
        bounds: list[float] = np.linspace(*ends, BOUNDS + 1).tolist()
        return bounds

    def _removal(self, found: Survey) -> tuple[str, str, str]:
        bounds = self._bounds(found)
        counts = found.removed(bounds)
        job = self._removed
        if job is not None:  # of the rows removed it is known, of those kept estimated
            counts = [
                count
                + sum(
                    many
                    for value, many in job.values.items()
                    if (value <= bound if found.is_distance else value >= bound)
                )
                for count, bound in zip(counts, bounds, strict=True)
            ]
        svg = charts.removal(bounds, counts, found.bound, measured=self._measured)
        words = (
            "How many rows have a similar one before them, by each threshold: no fewer than dedupe "
            "would remove."
        )
        if job is not None:
            words = (
                "How many of the rows removed are so similar to the row that is kept for them: a "
                "stricter threshold would remove no fewer. Beyond the line, with those kept that "
                "are like a row before them."
            )
        return "Rows removed by each threshold", f"{words} The dashed line is the present one.", svg

    def _histogram(self, found: Survey) -> tuple[str, str, str]:
        edges, cut = _edges(found)
        pairs = found.histogram(edges)
        job = self._removed
        if job is not None:  # which are within the bound, to be rounded though they are
            within = min if found.is_distance else max
            values = [within(value, found.bound) for value in job.values]
            counted, _ = np.histogram(
                np.clip(values, edges[0], edges[-1]), edges, weights=list(job.values.values())
            )
            pairs = (np.array(pairs) + counted).tolist()
        svg = charts.histogram(
            edges, pairs, found.bound, measured=self._measured, below=found.is_distance
        )
        beyond = sum(
            many
            for many, begin in zip(pairs, edges[:-1], strict=True)
            if (begin >= cut) == found.is_distance
        )
        words = f"Beyond the dashed line are near misses: about {beyond:,.0f} pairs."
        return "Pairs by " + self._measured, words, svg

    def _curve(self, found: Survey) -> tuple[str, str, str] | None:
        try:
            plan = self._collection.plan
        except SimdbError:
            return None
        points = [(bound, plan.expected_recall(bound)) for bound in self._bounds(found)]
        if any(isnan(share) for _, share in points):
            return None
        pairs = list(zip(found.left, found.right, strict=True))
        chosen = self._random.sample(range(len(pairs)), min(MEASURED, len(pairs)))
        met = self._collection.shares_met([pairs[place] for place in chosen], tries=TRIES)
        bins: dict[int, list[tuple[float, float]]] = {}
        for place, share in zip(chosen, met, strict=True):
            value = float(found.values[place])
            bins.setdefault(_bin(found, value), []).append((value, share))
        seen = [
            (
                sum(value for value, _ in some) / len(some),
                sum(share for _, share in some) / len(some),
                len(some),
            )
            for some in bins.values()
        ]
        svg = charts.curve(points, sorted(seen), found.bound, measured=self._measured)
        words = (
            f"The line is what the settings promise; each circle is the share of {TRIES} other "
            f"indexes of these settings that met real pairs ({len(chosen)} in all)."
        )
        return "Recall", words, svg

    # -- groups ----------------------------------------------------------------------------------

    def groups(self) -> dict[str, Any] | None:
        """The sizes of groups, and the largest ones."""
        job = self._removed
        if job is not None:
            some = [(kept, job.groups[kept], rows) for kept, rows in job.members.items() if rows]
            some.sort(key=lambda one: -one[1])
            largest = [
                _Group(
                    f"{count + 1:,}",
                    f"{kept} is kept for {_of(len(rows), count, 'row', 'rows')} removed:",
                    [self._example(key, kept, value, item) for key, value, item in rows],
                )
                for kept, count, rows in some[:GROUPS_SHOWN]
            ]
            return self._drawn_groups([many + 1 for many in job.groups.values()], largest)
        if self._survey is None or self._items > GROUPED:
            return None
        try:
            found = list(self._collection.groups())
        except SimdbError:
            return None
        largest = [
            self._group(group.keys)
            for group in islice(sorted(found, key=len, reverse=True), GROUPS_SHOWN)
        ]
        return self._drawn_groups([len(group) for group in found], largest)

    def _group(self, keys: Sequence[Key]) -> _Group:
        first, others = keys[0], keys[1 : 1 + MEMBERS_SHOWN]
        about = f"{first} beside {_of(len(others), len(keys) - 1, 'other row', 'other rows')}:"
        return _Group(f"{len(keys):,}", about, [self._pair(first, other) for other in others])

    def _drawn_groups(
        self, lengths: Sequence[int], largest: Sequence[_Group]
    ) -> dict[str, Any] | None:
        if not lengths:
            return None
        counts = [
            (
                f"{low}" if low == high else f"{low}+" if high is None else f"{low}-{high}",
                sum(low <= size and (high is None or size <= high) for size in lengths),
            )
            for low, high in _SIZES
        ]
        last = max(place for place, (_, many) in enumerate(counts) if many)
        return {
            "shown": "The only group."
            if len(lengths) == 1
            else f"{_of(len(largest), len(lengths), 'group', 'groups')}, the largest first.",
            "chart": (
                "Groups by size",
                f"{sum(lengths):,} rows belong to {len(lengths):,} "
                f"{'group' if len(lengths) == 1 else 'groups'}.",
                charts.sizes(counts[: last + 1]),
            ),
            "largest": largest,
        }

    # -- pairs -----------------------------------------------------------------------------------

    def sections(self) -> list[Section]:
        """Pairs side by side."""
        found, sections = self._survey, []
        if self._removed is not None:
            shown = [self._example(*one) for one in self._removed.examples()]
            about = f"Drawn at random among the rows removed, some of each {self._measured}."
            sections.append(Section("Rows removed, and the rows kept for them", about, shown))
        if found is None or not found.values.size:
            return [one for one in sections if one.pairs]
        within = found.values <= found.bound if found.is_distance else found.values >= found.bound
        seen: set[frozenset[Key]] = set()
        if self._removed is None:
            places = [place for place, near in enumerate(within.tolist()) if near]
            self._random.shuffle(places)
            by_bin: dict[int, list[int]] = {}
            for place in places:
                value = float(found.values[place])
                number = _bin(found, value)
                keys = frozenset((found.left[place], found.right[place]))
                if keys not in seen and len(by_bin.setdefault(number, [])) < PAIRS_A_BIN:
                    seen.add(keys)
                    by_bin[number].append(place)
            shown = [
                self._pair(found.left[place], found.right[place])
                for number in sorted(by_bin, reverse=not found.is_distance)
                for place in by_bin[number]
            ]
            about = f"Drawn at random, some of each {self._measured}."
            sections.append(Section("Similar pairs", about, shown))
        order = (found.values if found.is_distance else -found.values).argsort(kind="stable")
        misses: list[Shown] = []
        for place in order.tolist():
            keys = frozenset((found.left[place], found.right[place]))
            if not within[place] and keys not in seen and len(misses) < MISSES:
                seen.add(keys)
                misses.append(self._pair(found.left[place], found.right[place]))
        about = "Those of the sample that a somewhat looser bound would call similar."
        sections.append(Section("The nearest misses", about, misses))
        return [one for one in sections if one.pairs]

    def _pair(self, left: Key, right: Key) -> Shown:
        one, other = self._collection.get(left).item, self._collection.get(right).item
        if _are_long(one, other):
            (pair,) = self._collection.score([(left, right)])
            return self._long(pair.value, (str(left), one), (str(right), other))
        return beside(self._collection.explain_pair(left, right), str(left), str(right))

    def _long(self, value: float, left: tuple[str, str], right: tuple[str, str]) -> Shown:
        return texts_beside(f"{self._measured} {value:.3f}", left, right)

    def _example(self, key: Key | None, kept: Key, value: float, item: Any) -> Shown:
        names = "removed" if key is None else f"removed: {key}", f"kept: {kept}"
        if item is None or kept not in self._collection:  # a better row has taken its place since
            lines = [([("(no longer at hand)", False)], " ", [("(no longer at hand)", False)])]
            return Shown(*names, f"{self._measured} {value:.3f}", lines)
        stored = self._collection.get(kept).item
        if _are_long(item, stored):
            shown = self._long(value, (names[0], item), (names[1], stored))
        else:
            shown = beside(self._collection.explain_match(item, kept), *names)
        if self._removed is None or not self._removed.by:
            return shown
        note = f"{shown.value}; {shown.note}" if shown.note else ""
        return replace(shown, value=f"{self._removed.by} {value:.3f}", note=note)


def _are_long(one: Any, other: Any) -> bool:
    """Whether two texts are too long to compare shingle by shingle for a page."""
    return isinstance(one, str) and isinstance(other, str) and len(one) + len(other) > LONG


def _setting(value: Any) -> str:
    """Return the value of a setting as people read it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_setting(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_setting, value)) or "nothing"
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "nothing"}[value]
    return in_words(value)


def _of(shown: int, count: int, one: str, several: str) -> str:
    """Return how many of some rows are shown, in words."""
    if count == 1:
        return f"the {one}"
    return f"all {count:,} {several}" if shown == count else f"{shown:,} of the {count:,} {several}"


def _bin(found: Survey, value: float) -> int:
    """Return the number of the range that a value is in."""
    return round(value) if found.is_distance else int(value / BIN + 1e-9)
