"""Reports: one page of HTML that shows a collection, or what became of the rows of a job.

The page needs no other file and no network: styles are in it, charts are SVG, and there is no
script. All that comes from a store is escaped by the templates, and a content-security policy lets
nothing be loaded or run even so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import isnan
from typing import Any

from simdb.collection import CollectionView
from simdb.differences import Marked, rows, shortened
from simdb.errors import ConfigurationError, MissingExtraError, SimdbError
from simdb.evidence import PairExplanation, plain
from simdb.reports import charts
from simdb.results import Key
from simdb.upkeep.survey import Survey

GROUPED = 50_000  # items of a collection whose groups are made for a report
BIN = 0.05
PAIRS_A_BIN = 3
MISSES = 8
GROUPS_SHOWN = 8
MEMBERS_SHOWN = 5
LINES_SHOWN = 30
EQUAL_SHOWN = 240  # characters of two texts that are equal
CHARACTERS_SHOWN = 6_000  # of a text, of which what differs is looked for
MEASURED = 200  # pairs by which the curve is measured
TRIES = 10
_SIZES = ((2, 2), (3, 3), (4, 5), (6, 10), (11, 30), (31, 100), (101, 1_000), (1_001, None))


@dataclass(frozen=True, slots=True)
class Shown:
    """Two items side by side: lines with pieces, each marked or not."""

    left: str
    right: str
    value: str
    lines: Sequence[tuple[Marked, str, Marked]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Some pairs under a title."""

    title: str
    about: str
    pairs: Sequence[Shown]


@dataclass(slots=True)
class Removed:
    """What became of the rows of a job: counted as it runs, and some examples kept.

    Attributes:
        counts: of rows, by names for people.
        edges, by_value: how many removed rows were how similar to the one kept.
        groups: how many rows were removed for each kept one.
        others: of kept ones with several, the keys of some of these.
    """

    is_distance: bool
    counts: dict[str, int] = field(default_factory=dict)
    groups: Counter[Key] = field(default_factory=Counter)
    others: dict[Key, list[Key]] = field(default_factory=dict)
    values: Counter[float] = field(default_factory=Counter)
    _examples: dict[int, list[tuple[Key | None, Key, float, Any]]] = field(default_factory=dict)
    _seen: Counter[int] = field(default_factory=Counter)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def note(
        self, key: Key | None, kept: Key, value: float | None, item: Callable[[], Any]
    ) -> None:
        """Note a removed row; of each range of values some are kept, all equally likely."""
        self.groups[kept] += 1
        if self.groups[kept] > 1 and key is not None:
            others = self.others.setdefault(kept, [])
            if len(others) < MEMBERS_SHOWN:
                others.append(key)
        if value is None:
            return
        self.values[round(value, 3)] += 1
        place = int(value / BIN + 1e-9) if not self.is_distance else 0
        self._seen[place] += 1
        kept_rows = self._examples.setdefault(place, [])
        row = self._random.randrange(self._seen[place])
        if len(kept_rows) < PAIRS_A_BIN:
            kept_rows.append((key, kept, value, item()))
        elif row < PAIRS_A_BIN:
            kept_rows[row] = key, kept, value, item()

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

    Settings, how many rows each threshold would remove, pairs by similarity with near misses below
    the threshold, the S-curve with the recall that is measured on real pairs, groups, and pairs of
    every similarity side by side with the differences marked. What lies below the threshold is
    estimated from a sample; the cost is that of so many searches.

    Args:
        collection: or one of a snapshot.
        sample: items that are searched for.
        seed: of the random choice.
        title: of the page.
        command: how to repeat what was done, as it is shown.
        removed: of a job, what became of its rows.

    Raises:
        MissingExtraError: jinja2 or matplotlib is not installed (the extra ``report``).
    """
    page, template = _Page(collection, sample, seed, removed), _template()
    groups, drawn = page.groups(), page.charts()
    if groups is not None:
        drawn.append(groups.pop("chart"))
    text: str = template.render(
        title=title or f"simdb: {collection.name}",
        command=command,
        made=page.made(),
        numbers=page.numbers(),
        settings=page.settings(),
        charts=drawn,
        groups=groups,
        sections=page.sections(),
        note=page.note,
    )
    return text


@cache
def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError(
            'a report needs the extra of its name: pip install "simdb-store[report]"'
        ) from None
    made = Environment(
        loader=PackageLoader("simdb.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return made.get_template("page.html")


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
        if self._items:
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

    def made(self) -> str:
        """By what the page was made."""
        import platform  # neither is needed for anything else
        from importlib.metadata import PackageNotFoundError, version

        try:
            own = version("simdb-store")
        except PackageNotFoundError:
            own = "(not installed)"
        return f"simdb {own}, Python {platform.python_version()}"

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
        told = [(name, str(value)) for name, value in described.items()]
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
        if found.is_distance:
            return [found.lowest * step / 50 for step in range(51)]
        return [found.lowest + (1 - found.lowest) * step / 50 for step in range(51)]

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
        words = "How many rows another threshold would remove. The dashed line is the present one."
        return "Rows removed by each threshold", words, svg

    def _histogram(self, found: Survey) -> tuple[str, str, str]:
        low, high = (0.0, found.lowest) if found.is_distance else (found.lowest, 1.0)
        count = 25
        edges = [low + (high - low) * step / count for step in range(count + 1)]
        pairs = found.histogram(edges)
        job = self._removed
        if job is not None:
            for value, many in job.values.items():
                place = min(count - 1, max(0, int((value - low) / max(high - low, 1e-9) * count)))
                pairs[place] += many
        svg = charts.histogram(
            edges, pairs, found.bound, measured=self._measured, below=found.is_distance
        )
        beyond = sum(
            many
            for many, (begin, end) in zip(pairs, pairwise(edges), strict=True)
            if ((begin + end) / 2 > found.bound) == found.is_distance
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
        if self._removed is not None:
            counted = self._removed.groups
            largest = [
                (many + 1, [key], _told_others(self._removed.others.get(key, [])))
                for key, many in counted.most_common(GROUPS_SHOWN)
            ]
            return self._drawn_groups([many + 1 for many in counted.values()], largest)
        if self._survey is None or self._items > GROUPED:
            return None
        try:
            found = list(self._collection.groups())
        except SimdbError:
            return None
        largest = [
            (len(group), list(group.keys[:MEMBERS_SHOWN]), "")
            for group in sorted(found, key=len, reverse=True)[:GROUPS_SHOWN]
        ]
        return self._drawn_groups([len(group) for group in found], largest)

    def _drawn_groups(
        self, lengths: Sequence[int], largest: Sequence[tuple[int, Sequence[Key], str]]
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
            "count": f"{len(lengths):,}",
            "rows": f"{sum(lengths):,}",
            "chart": (
                "Groups by size",
                f"{len(lengths):,} groups of {sum(lengths):,} rows that belong together.",
                charts.sizes(counts[: last + 1]),
            ),
            "largest": [
                {
                    "size": f"{size:,}",
                    "members": [(str(key), self._excerpt(key)) for key in keys],
                    "more": more,
                }
                for size, keys, more in largest
            ],
        }

    def _excerpt(self, key: Key, longest: int = 240) -> str:
        if key not in self._collection:  # a better row has taken its place since
            return ""
        text = self._kind.shown_item(self._collection.get(key).item)[: longest * 4]
        words = " ".join(text.split())
        return words if len(words) <= longest else words[: longest - 1] + "…"

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
                self._pair(found, place)
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
                misses.append(self._pair(found, place))
        about = "Those of the sample that a somewhat looser bound would call similar."
        sections.append(Section("The nearest misses", about, misses))
        return [one for one in sections if one.pairs]

    def _pair(self, found: Survey, place: int) -> Shown:
        told = self._collection.explain_pair(found.left[place], found.right[place])
        return self._shown(told, str(told.left), str(told.right))

    def _example(self, key: Key | None, kept: Key, value: float, item: Any) -> Shown:
        names = f"removed: {key}", f"kept: {kept}"
        if item is None or kept not in self._collection:
            lines = [([("(where it was)", False)], " ", [(self._excerpt(kept), False)])]
            return Shown(*names, f"{self._measured} {value:.3f}", lines)
        return self._shown(self._collection.explain_match(item, kept), *names)

    def _shown(self, told: PairExplanation, left: str, right: str) -> Shown:
        one, other = told.items
        if isinstance(one, str) and isinstance(other, str):
            lines = [
                (shortened(row.left), row.mark, shortened(row.right))
                for row, _ in zip(
                    rows(one[:CHARACTERS_SHOWN], other[:CHARACTERS_SHOWN]),
                    range(LINES_SHOWN),
                    strict=False,
                )
            ] or [([(f"(equal) {one[:EQUAL_SHOWN]}", False)], " ", [("(equal)", False)])]
        else:
            lines = list(_facets(told))
        counts = told.counts()
        note = (
            f"{told.unit}: {counts['common']:,} common, {counts['only_left']:,} only left, "
            f"{counts['only_right']:,} only right"
            if told.facets
            else ""
        )
        return Shown(left, right, f"{told.measured} {told.value:.3f}", lines, note)


def _told_others(keys: Sequence[Key]) -> str:
    return f"Removed for it, among others: {', '.join(map(str, keys))}" if keys else ""


def _bin(found: Survey, value: float) -> int:
    """Return the number of the range that a value is in."""
    return round(value) if found.is_distance else int(value / BIN + 1e-9)


def _facets(told: PairExplanation) -> Iterable[tuple[Marked, str, Marked]]:
    """Yield what two items are compared by, what differs first."""
    ordered = [*told.differing, *(facet for facet in told.facets if facet.share == 1)]
    for facet in ordered[:LINES_SHOWN]:
        equal = facet.share == 1
        sides = [
            [("-" if side is None else f"{facet.what}: {plain(side)}"[:200], not equal)]
            for side in (facet.left, facet.right)
        ]
        yield sides[0], " " if equal else "|", sides[1]
    if len(ordered) > LINES_SHOWN:
        more = [(f"... {len(ordered) - LINES_SHOWN:,} more", False)]
        yield more, " ", []
