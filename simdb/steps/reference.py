"""The plans of ``docs/steps.md`` on pyarrow alone: what they mean, and what engines are tested by.

Tables of (number, item), all in memory. Rows are dealt to ``parts`` by hash and cut into batches of
``batch`` rows, as an engine does; neither changes an answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from simdb import arrow
from simdb.errors import BadItemError
from simdb.recipe import Recipe
from simdb.steps import buckets, deciding, graph, posting, schemas, signing, verifying
from simdb.steps.schemas import Schema
from simdb.steps.streams import numbers_of

SAMPLED = 20_000  # items, for an order of symbols
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Reference:
    """The plans of one recipe.

    Attributes:
        recipe: what is similar enough.
        exact: by postings, which miss nothing, in the place of buckets.
        collapse: items that are equal take part once.
        parts, batch: tasks of a shuffle, and rows of a batch.
        most: candidates of a component beyond which it is cut into blocks.
    """

    recipe: Recipe
    exact: bool = False
    collapse: bool = True
    parts: int = 3
    batch: int = 1_000
    most: int = graph.PAIRS_OF_TASK

    # -- answers ---------------------------------------------------------------------------------

    def pairs(self, items: Any, *, boundary: int | None = None) -> list[tuple[int, int, float]]:
        """Return left, right and value of all similar pairs, sorted.

        With a ``boundary`` those of an item below it and one that is not: a join of two sides.
        """
        signed, kept, copies = self._signed(items, boundary)
        candidates = self._candidates(signed, kept, boundary)
        left, right = (numbers_of(candidates, name) for name in ("left", "right"))
        vertices, labels = graph.components(left, right)
        label_of = dict(zip(vertices.tolist(), labels.tolist(), strict=True))
        groups = [label_of[number] for number in left.tolist()]
        rows = self._gathered(kept, label_of)
        library = arrow.library()
        edges = schemas.GATHERED.batch(
            np.array(groups, np.int64), left, right, library.nulls(left.size, library.binary())
        )
        gathered = library.Table.from_batches([rows, edges], schemas.GATHERED.arrow)
        counts = Counter(groups)
        blocks = {
            label: graph.blocks_of(count, self.most)
            for label, count in counts.items()
            if count > self.most
        }
        gathered = self._run(graph.spread, schemas.GATHERED, gathered, blocks=blocks)
        found = self._run(verifying.verify, schemas.SIMILAR, gathered, sort=["group"])
        pairs = set(zip(*(column.to_pylist() for column in found.columns), strict=True))
        members: dict[int, list[int]] = defaultdict(list)
        for number, of in copies.items():
            members[of].append(number)
        alike = self._alike()
        whole = [
            (min(one, other), max(one, other), value)
            for left_one, right_one, value in pairs
            for one, other in product(
                members.get(left_one, [left_one]), members.get(right_one, [right_one])
            )
        ]
        if boundary is None:
            whole += [(*two, alike) for own in members.values() for two in combinations(own, 2)]
        return sorted((min(a, b), max(a, b), value) for a, b, value in whole)

    def dedupe(self, items: Any) -> list[tuple[int, int, float]]:
        """Return number, target and value of what ``Collection.dedupe`` drops, sorted."""
        told = {
            number: (target, value)
            for number, target, value in self._decided(deciding.dedupe, schemas.DROPPED, items)
        }
        for number, of in self._signed(items)[2].items():
            if number != of:
                told[number] = told.get(of, (of, self._alike()))
        return sorted((number, *rest) for number, rest in told.items())

    def groups(self, items: Any) -> list[list[int]]:
        """Return the groups of two items or more, each ascending, by their first."""
        first = dict(self._decided(deciding.groups, schemas.GROUPED, items))
        for number, of in self._signed(items)[2].items():
            if number != of:
                first.setdefault(of, of)
                first[number] = first[of]
        members: dict[int, list[int]] = defaultdict(list)
        for number in sorted(first):
            members[first[number]].append(number)
        return sorted(members.values())

    # -- the plans -------------------------------------------------------------------------------

    def _signed(
        self, items: Any, boundary: int | None = None
    ) -> tuple[Any, Any, Mapping[int, int]]:
        """Return signatures and canonical forms of what takes part, and the first of each copy.

        BadItemError: of the first bad item.
        """
        signed = self._run(signing.sign, schemas.SIGNED, items, exact=self.exact)
        copies: dict[int, int] = {}
        met: dict[Any, int] = {}
        names = ("number", "digest", "problem")
        rows = zip(*(signed.column(name).to_pylist() for name in names), strict=True)
        for number, digest, problem in sorted(rows, key=lambda row: row[0]):
            if problem is not None:
                raise BadItemError(f"item {number}: {problem}")
            if digest is not None and self.collapse:
                side = boundary is not None and number >= boundary
                copies[number] = met.setdefault((side, digest), number)
        numbers = numbers_of(signed, "number")
        own = np.array([copies.get(number, number) for number in numbers.tolist()], np.int64)
        places = arrow.numbers(np.flatnonzero(own == numbers))
        kept = self._run(signing.encode, schemas.ITEMS, items)
        return signed.take(places), kept.take(places), copies

    def _candidates(self, signed: Any, kept: Any, boundary: int | None = None) -> Any:
        if self.exact:
            ordered = self._ordered(kept)
            posted = self._run(posting.post, schemas.POSTINGS, kept, by=ordered)
            met = self._run(
                posting.meet_posted,
                schemas.PAIRS,
                posted,
                by=ordered,
                sort=["key", "size", "number"],
                boundary=boundary,
            )
            return met.group_by(["left", "right"]).aggregate([])
        shared = self._shared(signed)
        sort = ["bucket", "number"]
        return self._run(buckets.meet, schemas.PAIRS, shared, sort=sort, boundary=boundary)

    def _shared(self, signed: Any) -> Any:
        entries = self._run(buckets.entries, schemas.ENTRIES, signed)
        some = self._run(buckets.shared, schemas.ENTRIES, entries, sort=["bucket"])
        whole = some.join(signed.select(["number", "signature"]), "number")
        return whole.select(schemas.SHARED.names)

    def _ordered(self, kept: Any) -> posting.Ordered:
        step = max(1, kept.num_rows // SAMPLED)
        some = kept.take(arrow.numbers(np.arange(0, kept.num_rows, step)))
        symbols = self._run(posting.sample, schemas.SYMBOLS, some)
        return posting.order_of(self.recipe, numbers_of(symbols, "symbol"))

    def _decided(
        self, step: Callable[..., Iterator[Any]], schema: Schema, items: Any
    ) -> Iterator[tuple[Any, ...]]:
        signed, kept, _ = self._signed(items)
        if self.exact:
            edges = self._candidates(signed, kept)
        else:
            shared = self._shared(signed)
            edges = self._run(buckets.connect, schemas.PAIRS, shared, sort=["bucket", "number"])
        sides = (numbers_of(edges, name) for name in ("left", "right"))
        vertices, labels = graph.components(*sides)
        rows = self._gathered(kept, dict(zip(vertices.tolist(), labels.tolist(), strict=True)))
        gathered = arrow.library().Table.from_batches([rows], schemas.GATHERED.arrow)
        sort = ["group", "number"]
        found = self._run(step, schema, gathered, sort=sort, exact=self.exact)
        return zip(*(column.to_pylist() for column in found.columns), strict=True)

    def _gathered(self, kept: Any, label_of: Mapping[int, int]) -> Any:
        """Return the items of all components as ``GATHERED``."""
        numbers = numbers_of(kept, "number")
        group = np.array([label_of.get(number, -1) for number in numbers.tolist()], np.int64)
        places = np.flatnonzero(group >= 0)
        items = kept.column("item").take(arrow.numbers(places)).combine_chunks()
        none = np.full(places.size, -1)
        return schemas.GATHERED.batch(group[places], numbers[places], none, items)

    def _alike(self) -> float:
        """Return how similar, or how distant, copies are."""
        value = np.array([self.recipe.kind.identical_value])
        return float(verifying.told(self.recipe, value)[0])

    # -- what an engine does -----------------------------------------------------------------------

    def _run(
        self,
        step: Callable[..., Iterator[Any]],
        schema: Schema,
        given: Any,
        *,
        by: Any = None,
        sort: list[str] | None = None,
        **options: Any,
    ) -> Any:
        """Run a step on a table, or on each part of one that is dealt and sorted by columns."""
        parts = [given] if sort is None else self._dealt(given, sort)
        found: list[Any] = []
        for part in parts:
            batches = (one for one in part.to_batches(max_chunksize=self.batch) if one.num_rows)
            found += step(self.recipe if by is None else by, batches, **options)
        return arrow.library().Table.from_batches(found, schema.arrow)

    def _dealt(self, given: Any, sort: list[str]) -> Iterator[Any]:
        values = np.ascontiguousarray(numbers_of(given, sort[0])).view(np.uint64)
        part = ((values * _SPREAD) >> np.uint64(40)).astype(np.int64) % self.parts
        for number in range(self.parts):
            some = given.take(arrow.numbers(np.flatnonzero(part == number)))
            yield some.sort_by([(name, "ascending") for name in sort])
