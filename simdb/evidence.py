"""Why two items are similar, or not: what they are compared by, and which buckets have both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from simdb.arrays import UInt64s
from simdb.late import cached_property
from simdb.results import Key

BUCKETS_TOLD = 3
RARE = "rare "  # how the parts of the exact index begin
Span: TypeAlias = tuple[int, int]  # of a text: where it begins and ends, in code points


class Facet(Struct, frozen=True, gc=False):
    """One of the things that two items are compared by.

    Attributes:
        what: a shingle as it is compared, an element, the number of a bit, a component or a row,
            the name of a field, a minutia.
        left, right: what each item has of it, None where it has nothing: the places of a shingle in
            the text as it was given, how often it has an element, the value of a field.
        share: how far the two agree in it, from 0 to 1.
        weight: what it counts beside other facets.
        is_frequent: they agree wholly, in a value that counts less because many have it.
        least, most: the shares of two that agree in nothing, and of two that agree wholly.
    """

    what: Any
    left: Any
    right: Any
    share: float
    weight: float = 1.0
    is_frequent: bool = False
    least: float = 0.0
    most: float = 1.0

    @property
    def agrees(self) -> bool:
        """Whether the two agree in it wholly."""
        return self.share >= self.most or self.is_frequent

    @property
    def is_common(self) -> bool:
        """Whether the two agree in it at all."""
        return self.share > self.least or self.agrees


class Facets(Sequence[Facet]):
    """The facets of two items, and which of them are told."""

    def __init__(self, facets: Iterable[Facet]) -> None:
        self._facets = tuple(facets)

    @property
    def all(self) -> tuple[Facet, ...]:
        """Every one."""
        return self._facets

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, place: Any) -> Any:
        return self.all[place]

    def __eq__(self, other: object) -> bool:
        return self.all == other.all if isinstance(other, Facets) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.all)

    def __reduce__(self) -> Any:
        return Facets, (self.all,)

    def differing(self, most: int | None = None) -> tuple[Facet, ...]:
        """Return those in which the two do not wholly agree, at most so many."""
        return tuple(facet for facet in self.all if not facet.agrees and facet.weight)[:most]

    def count_differing(self) -> int:
        """Count the ones in which the two do not wholly agree."""
        return len(self.differing())

    def frequent(self) -> tuple[Facet, ...]:
        """Return those in which the two agree as many do."""
        return tuple(facet for facet in self.all if facet.is_frequent)

    def counts(self) -> dict[str, int]:
        """Count those that are common, those that differ, and those that one has alone."""
        counts = dict.fromkeys(("common", "different", "only_left", "only_right"), 0)
        for facet in self.all:
            if not (facet.share or facet.weight):  # as of a field that does not count
                continue
            if (facet.left is None) != (facet.right is None):
                counts["only_right" if facet.left is None else "only_left"] += 1
            else:
                counts["common" if facet.agrees else "different"] += 1
        return counts


class SymbolFacets(Facets):
    """The facets of two sets of symbols, each made when it is asked for: of most none is told.

    Args:
        symbols: of each item, in the order of its labels; equal where the labels are.
        labels: returns the labels of each item, or those at some places, which all have a span.
    """

    def __init__(
        self,
        symbols: Sequence[UInt64s],
        labels: Sequence[Callable[[list[int] | None], list[Label]]],
    ) -> None:
        self._symbols = symbols
        self._labels = labels
        # The first place of each symbol: what is put last into a dictionary stays.
        self._places = [
            dict(zip(own[::-1].tolist(), range(own.size - 1, -1, -1), strict=True))
            for own in symbols
        ]

    @cached_property
    def all(self) -> tuple[Facet, ...]:
        """Every one."""
        return facets_of_labels(*(labels(None) for labels in self._labels))

    def __len__(self) -> int:
        return len(self._places[0].keys() | self._places[1].keys())

    def differing(self, most: int | None = None) -> tuple[Facet, ...]:
        """Return those that one has alone, at most so many."""
        left, right = self._places
        alone = sorted(left.keys() - right.keys(), key=left.__getitem__)
        alone += sorted(right.keys() - left.keys(), key=right.__getitem__)
        told = np.array(alone[:most], np.uint64)
        return facets_of_labels(
            *(
                labels(np.flatnonzero(np.isin(own, told)).tolist())
                for own, labels in zip(self._symbols, self._labels, strict=True)
            )
        )

    def count_differing(self) -> int:
        """Count those that one has alone."""
        return len(self._places[0].keys() ^ self._places[1].keys())

    def frequent(self) -> tuple[Facet, ...]:
        """Return none: no symbol counts less than another."""
        return ()

    def counts(self) -> dict[str, int]:
        """Count those that are common, and those that one has alone."""
        left, right = self._places
        common = len(left.keys() & right.keys())
        alone = {"only_left": len(left) - common, "only_right": len(right) - common}
        return {"common": common, "different": 0, **alone}

    def name(self, symbol: int) -> Any:
        """Return what a symbol of either stands for."""
        side = 0 if symbol in self._places[0] else 1
        return self._labels[side]([self._places[side][symbol]])[0].what


class Evidence(Struct, frozen=True):
    """What a kind says of two of its items.

    Attributes:
        unit: what messages call several facets: ``"shingles"``, ``"fields"``.
        facets: those that either item has, or all.
        names: of symbols, where items are sets of them, what each stands for.
    """

    unit: str = "facets"
    facets: Sequence[Facet] = ()
    names: Mapping[int, Any] = {}

    def name(self, symbol: int) -> Any:
        """Return what a symbol of either item stands for; None of a kind that names none."""
        if isinstance(self.facets, SymbolFacets):
            return self.facets.name(symbol)
        return self.names.get(symbol)


@dataclass(frozen=True, slots=True, repr=False)
class PairExplanation:
    """Why two items are similar, or not, and whether an index would find them.

    Attributes:
        left, right: their keys; ``left`` is None for an item that is not stored.
        items: the two, as they were given.
        similarity, distance: the true value, whichever the collection measures.
        bound: that for similar items, of the collection or of the call.
        similar: whether the two are within it.
        unit: what several of the parts are called that the two are compared by.
        parts: these, each made when it is asked for; ``facets`` has all of them.
        met_by: the parts of the indexes that both share: bands, rules or prefixes, in words.
        met: whether the probable index makes them candidates at that bound; None without one. They
            must share a part of it, of some indexes more than one, and as many rows of their
            signatures as similar items have but for 1 in 10,000.
        probability: the probability that an index with the same settings and other random functions
            makes them candidates: that of ``met``. For fast sketches it depends on how many
            symbols the two have together; beyond 512 rows, it is that of the formula all the same
            (one of 0.2 is then up to a tenth higher). Of L1 and L-infinity distances a lower bound;
            None without an index, or if none is stated.
        shown: a function that turns an item of the kind into text.
    """

    left: Key | None
    right: Key
    items: tuple[Any, Any]
    similarity: float | None
    distance: float | None
    bound: float
    similar: bool
    unit: str
    parts: Facets = field(repr=False)
    met_by: tuple[str, ...]
    met: bool | None
    probability: float | None
    shown: Callable[[Any], str] = field(repr=False, compare=False, default=str)

    @property
    def value(self) -> float:
        """The one of similarity and distance that the collection measures."""
        value = self.similarity if self.distance is None else self.distance
        assert value is not None
        return value

    @property
    def measured(self) -> str:
        """Which of the two that is."""
        return "similarity" if self.distance is None else "distance"

    @property
    def facets(self) -> tuple[Facet, ...]:
        """The parts that are compared; empty if the kind names none."""
        return self.parts.all

    @property
    def common(self) -> tuple[Facet, ...]:
        """The facets in which the two agree at all."""
        return tuple(facet for facet in self.facets if facet.is_common)

    @property
    def differing(self) -> tuple[Facet, ...]:
        """The facets in which they do not wholly agree."""
        return self.parts.differing()

    def texts(self) -> tuple[str, str]:
        """Return both items as text for people."""
        return self.shown(self.items[0]), self.shown(self.items[1])

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return it as plain values, as JSON has them, and at most so many facets that differ."""
        differing, frequent = (
            [
                {"what": plain(facet.what), "left": plain(facet.left), "right": plain(facet.right)}
                | ({} if facet.share in (0, 1) else {"share": facet.share})
                | ({} if facet.weight == 1 else {"weight": facet.weight})
                for facet in facets
            ]
            for facets in (self.parts.differing(most), self.parts.frequent()[:most])
        )
        return {
            self.measured: self.value,
            "similar": self.similar,
            "unit": self.unit,
            **self.counts(),
            "met_by": list(self.met_by),
            "met": self.met,
            "probability": self.probability,
            "differing": differing,
            **({"frequent": frequent} if frequent else {}),
        }

    def counts(self) -> dict[str, int]:
        """Count the facets that are common, those that differ, and those that one has alone."""
        return self.parts.counts()

    def __repr__(self) -> str:
        """Tell it in a few lines."""
        return "\n".join(self.lines())

    def counted(self, left: str = "on the left", right: str = "on the right") -> str:
        """Return the counts in words; those that differ only where there are such."""
        counts = self.counts()
        different = f"{counts['different']:,} different, " if counts["different"] else ""
        return (
            f"{counts['common']:,} common, {different}{counts['only_left']:,} only {left}, "
            f"{counts['only_right']:,} only {right}"
        )

    def lines(self, most: int = 5) -> Iterator[str]:
        """Yield it line by line, with at most so many of the facets that differ."""
        verdict = "similar" if self.similar else "not similar"
        yield f"{self.measured} {self.value:.6f}, {verdict}: the bound is {self.bound:g}"
        if self.parts:
            yield f"{self.unit}: {self.counted()}"
        some, differing = self.parts.differing(most), self.parts.count_differing()
        yield from (f"  {_told(facet)}" for facet in some)
        if differing > len(some):
            yield f"  and {differing - len(some):,} more that differ"
        yield from (f"  {_told(facet)}" for facet in self.parts.frequent()[:most])
        if self.met is not None:
            shares = any(not name.startswith(RARE) for name in self.met_by)
            why = ": what it has of both is not enough" if shares and not self.met else ""
            makes = "makes" if self.met else "does not make"
            yield f"the probable index {makes} them candidates{why}"
        shown = ", ".join(self.met_by[:BUCKETS_TOLD])
        others = len(self.met_by) - BUCKETS_TOLD
        more = f" and {others:,} more" if others > 0 else ""
        yield f"both are in: {shown}{more}" if self.met_by else "no part of an index has both"
        if self.probability is not None:
            words = "an index of these settings would meet them with probability"
            yield f"{words} {self.probability:.6f}"


def _told(facet: Facet) -> str:
    """Return what one facet says, in words."""
    if (facet.left is None) != (facet.right is None):
        side = "right" if facet.left is None else "left"
        return f"only {side}: {facet.what!r}"
    earned = f"{facet.share * facet.weight:.2f} of {facet.weight:g}"
    if facet.is_frequent:
        both = dict.fromkeys((_side(facet.left), _side(facet.right)))  # written alike, or not
        return f"{facet.what!r}: {' and '.join(both)} in both, which many have ({earned})"
    share = f" ({earned})" if facet.weight != 1 or facet.share else ""
    return f"{facet.what!r}: {_side(facet.left)} and {_side(facet.right)}{share}"


def _side(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def in_words(value: Any) -> str:
    """Return a value as people read it."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(in_words, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- what kinds make facets of --------------------------------------------------------------------


class Label(NamedTuple):
    """What a symbol of an item stands for, and where that is in a text."""

    what: Hashable
    span: Span | None = None


def labelled(whats: Iterable[Hashable], spans: Iterable[Span | None] = repeat(None)) -> list[Label]:
    """Return labels of what symbols stand for and where that is, without a call for each."""
    return list(map(partial(tuple.__new__, Label), zip(whats, spans, strict=False)))


def facets_of_labels(left: Iterable[Label], right: Iterable[Label]) -> tuple[Facet, ...]:
    """Return the facets of items that are sets, or bags, of labels, in order of their first place.

    Of texts a side has all places of a shingle, of others how often it has an element.
    """
    ones, others = _held(left), _held(right)
    found = []
    for what in {**ones, **others}:
        one, other = ones.get(what), others.get(what)
        share = 0.0 if one is None or other is None else 1.0
        if share and one != other and isinstance(one, int) and isinstance(other, int):
            share = min(one, other) / max(one, other)  # an element twice here, once there
        found.append(Facet(what, one, other, share))
    return tuple(found)


def _held(labels: Iterable[Label]) -> dict[Hashable, int | tuple[Span | None, ...]]:
    """Return the places of each label, or how many they are if the first is not known."""
    known = list(labels)
    # Most labels come once, and are told of without a list for each.
    held: dict[Hashable, Any] = {what: (span,) for what, span in known}
    if len(held) < len(known):
        several: dict[Hashable, list[Span | None]] = {
            what: [] for what, count in Counter(what for what, _ in known).items() if count > 1
        }
        for what, span in known:
            if what in several:
                several[what].append(span)
        held.update((what, tuple(spans)) for what, spans in several.items())
    return {what: len(spans) if spans[0] is None else spans for what, spans in held.items()}


def facets_of_amounts(left: Mapping[Any, float], right: Mapping[Any, float]) -> tuple[Facet, ...]:
    """Return the facets of items that have so much of each element, or of each component."""
    found = []
    for what in dict.fromkeys([*left, *right]):
        one, other = left.get(what), right.get(what)
        share = 0.0
        if one is not None and other is not None:
            larger = max(abs(one), abs(other))
            share = max(0.0, 1 - abs(one - other) / larger) if larger else 1.0
        found.append(Facet(what, one, other, share))
    return tuple(found)
