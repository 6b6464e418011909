"""What calls return: frozen records, and the answers that are iterated.

Nearly all are structs of msgspec, which are made in a fifth of the time of dataclasses; and so are
their classes, in a fiftieth.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from math import isnan, nan
from typing import Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

import msgspec
import numpy as np
from msgspec import NODEFAULT, Struct, structs

from simdb import arrow, notebooks
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError, Remedy
from simdb.ragged import ByteStrings, distinct_of
from simdb.work import Work

T = TypeVar("T")
LISTED = 5  # of many parts, as many are printed
KEYS_LISTED = 10  # of a group that is drawn
Key: TypeAlias = str | int
# Many keys: numbers, the UTF-8 of texts, or some of both.
KeyColumn: TypeAlias = Int64s | ByteStrings | list[Key]
Guarantee: TypeAlias = Literal["exact", "probable", "estimate"]
Action: TypeAlias = Literal["added", "replaced", "present", "duplicate", "merged", "bad"]
Sides: TypeAlias = Literal["new-new", "old-new", "new-old"]
Metadata: TypeAlias = Mapping[str, Any] | None


class Tabular:
    """An answer that is also an Arrow stream, and converts to a frame of pandas or polars."""

    __slots__: tuple[str, ...] = ()

    @abstractmethod
    def to_arrow(self) -> Any:
        """Return it as a ``pyarrow.Table``."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream it as Arrow columns; see ``to_arrow``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the columns of ``to_arrow`` as a ``pandas.DataFrame``.

        Raises:
            MissingExtraError: pandas, or pyarrow, is not installed.
        """
        arrow.require_pandas()
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the columns of ``to_arrow`` as a ``polars.DataFrame``.

        Raises:
            MissingExtraError: polars, or pyarrow, is not installed.
        """
        return arrow.polars().from_arrow(self.to_arrow())


class Entry(Struct, frozen=True):
    """A stored item: its key, the item as it was given, and the caller's metadata."""

    key: Key
    item: Any
    metadata: Mapping[str, Any] | None = None


class Brief:
    """What prints short: the first field and those that differ from their defaults, cut if long."""

    __slots__: tuple[str, ...] = ()
    _unprinted: ClassVar[tuple[str, ...]] = ()  # fields

    def __repr__(self) -> str:
        (first, _), *others = _printed(self)
        told = [first, *(name for name, default in others if getattr(self, name) != default)]
        parts = ", ".join(f"{name}={_shortened(getattr(self, name))}" for name in told)
        return f"{type(self).__name__}({parts})"


def _printed(record: Any) -> list[tuple[str, Any]]:
    """Return the fields of a record that are printed, each with what it is by default."""
    if not isinstance(record, Struct):
        known = [(one.name, one.default) for one in fields(record)]
    else:
        names, defaults = record.__struct_fields__, record.__struct_defaults__
        required = repeat(NODEFAULT, len(names) - len(defaults))
        known = list(zip(names, chain(required, defaults), strict=True))
    return [(name, default) for name, default in known if name not in record._unprinted]


def _shortened(value: Any) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):g}" if Fraction(f"{float(value):g}") == value else str(value)
    if not isinstance(value, tuple) or len(value) <= LISTED:
        return repr(value)
    listed = ", ".join(map(repr, value[:LISTED]))
    return f"({listed}, ... {len(value):,} in all)"


class _Measured(Brief):
    """What two items have that are compared: a similarity or a distance."""

    __slots__: tuple[str, ...] = ()
    similarity: float | None
    distance: float | None

    @property
    def value(self) -> float:
        """The one of the two that the collection measures."""
        value = self.similarity if self.distance is None else self.distance
        assert value is not None
        return value


class Match(_Measured, Struct, frozen=True):
    """A stored item that is similar to the probe.

    Attributes:
        key: the key of the item.
        similarity: the true similarity of the two; None if the collection measures distances.
        distance: the true distance of the two; None if the collection measures similarities.
        estimated: the similarity is an estimate from signatures alone, not the true one.
        metadata: of the item, if requested and present.
    """

    key: Key
    similarity: float | None = None
    distance: float | None = None
    estimated: bool = False
    metadata: Metadata = None


@dataclass(frozen=True, slots=True, repr=False)
class Matches(Brief, Tabular, Sequence[Match]):
    """The answer of a search: the best matches first, equal ones in order of insertion.

    Attributes:
        guarantee: ``"exact"`` (none is missing), ``"probable"``, or ``"estimate"`` (items are
            signatures alone, so similarities are only estimated).
        expected_recall: the share of the true matches *at the threshold* expected in the answer;
            for more similar items it is higher. 1.0 when exact; nan if no probability can be
            stated (``self_audit`` then measures it). Of plans for a recall below 0.8 it may be too
            high, and at a threshold below the planned one by a quarter for sets of few symbols, by
            more where it is below 0.2 (``Plan.expected_recall``).
        candidates: how many stored items were compared in full.
        is_distance: whether the collection measures distances.
        with_metadata: whether matches carry metadata, where their items have some.
        of_numbers: whether all keys are numbers; of an answer with matches these tell it.
    """

    matches: tuple[Match, ...]
    guarantee: Guarantee
    expected_recall: float = field(compare=False)  # nan is not equal to itself
    candidates: int = 0
    is_distance: bool = False
    with_metadata: bool = field(default=False, compare=False)
    of_numbers: bool = field(default=False, compare=False)
    _unprinted: ClassVar[tuple[str, ...]] = ("is_distance", "with_metadata", "of_numbers")

    def __len__(self) -> int:
        return len(self.matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | Sequence[Match]:
        return self.matches[index]

    def _repr_html_(self) -> str:
        """Draw the best matches, for notebooks."""
        told = _counted(len(self), "match", "matches")
        if len(self) > notebooks.SHOWN:
            told += f", the best {notebooks.SHOWN} of them"
        best = self.matches[: notebooks.SHOWN]
        return notebooks.table(
            f"{told}; {_promise(self.guarantee, self.expected_recall)}",
            ("key", _measured(is_distance=self.is_distance)),
            [(match.key, match.value) for match in best],
        )

    def to_arrow(self) -> Any:
        """Return the matches as a ``pyarrow.Table``: ``key``, and ``similarity`` or ``distance``.

        If metadata were asked for, there is also a column ``metadata`` of JSON text. Without a
        match, the keys are a column of numbers if all in the collection are, else of texts.

        The metadata of the schema contain the promise, as for ``Pairs.to_arrow``.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        columns = _columns_of_matches(
            self.matches,
            is_distance=self.is_distance,
            with_metadata=self.with_metadata,
            of_numbers=self.of_numbers,
        )
        return arrow.table(columns, _promised(self))


# No list: of one pyarrow and DuckDB do not see that it is a stream.
class Answers(Sequence[Matches], Tabular):
    """The answers of several searches, in the order of the items that were searched for."""

    def __init__(
        self,
        answers: Iterable[Matches] = (),
        *,
        is_distance: bool = False,
        with_metadata: bool = False,
        of_numbers: bool = False,
    ) -> None:
        self._answers = list(answers)
        self._is_distance = is_distance
        self._with_metadata = with_metadata
        self._of_numbers = of_numbers

    def __repr__(self) -> str:
        """Count the searches and what they found."""
        searches = _counted(len(self), "search", "searches")
        matches = _counted(sum(map(len, self)), "match", "matches")
        return f"<simdb answers of {searches}, {matches}>"

    def __eq__(self, other: object) -> bool:
        """Whether others, or a list or tuple, have equal answers."""
        return isinstance(other, Answers | list | tuple) and self._answers == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Matches]:
        return iter(self._answers)

    @overload
    def __getitem__(self, index: int) -> Matches: ...
    @overload
    def __getitem__(self, index: slice) -> Answers: ...
    def __getitem__(self, index: int | slice) -> Matches | Answers:
        if isinstance(index, slice):
            part = copy(self)
            part._answers = self._answers[index]
            return part
        return self._answers[index]

    def to_arrow(self) -> Any:
        """Return all matches as a ``pyarrow.Table``: ``probe``, ``key``, and the measured value.

        ``probe`` is the position of the item that was searched for, int64 from 0.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        probes = np.repeat(np.arange(len(self)), list(map(len, self)))
        matches = [match for found in self for match in found]
        columns = _columns_of_matches(
            matches,
            is_distance=self._is_distance,
            with_metadata=self._with_metadata,
            of_numbers=self._of_numbers,
        )
        return arrow.table({"probe": probes, **columns}, _promised(self[0]) if self else None)


def _measured(*, is_distance: bool) -> str:
    return "distance" if is_distance else "similarity"


def _columns_of_matches(
    matches: Sequence[Match], *, is_distance: bool, with_metadata: bool, of_numbers: bool
) -> dict[str, Any]:
    keys = arrow.keys_column([match.key for match in matches], of_numbers=of_numbers)
    values = np.array([match.value for match in matches], np.float64)
    columns = {"key": keys, _measured(is_distance=is_distance): values}
    if with_metadata:
        columns["metadata"] = arrow.json_column([match.metadata for match in matches])
    return columns


class Pair(_Measured, Struct, frozen=True):
    """Two similar stored items.

    Attributes:
        left, right: their keys, ``left`` the earlier inserted; of a join the one of the left
            collection, of ``score`` as they were given.
        similarity, distance: the true value of the one that the collection measures; the other is
            None.
        estimated: the similarity is an estimate from signatures alone, not the true one.
        sides: for pairs since some state, which of the two items are later: ``"new-new"``,
            ``"old-new"`` (the right one) or ``"new-old"``. None for other pairs.
        left_metadata, right_metadata: of the items, if requested and present.
    """

    left: Key
    right: Key
    similarity: float | None = None
    distance: float | None = None
    estimated: bool = False
    sides: Sides | None = None
    left_metadata: Metadata = None
    right_metadata: Metadata = None


class PairBatch(Struct, frozen=True, eq=False):
    """Many pairs as columns.

    Attributes:
        left, right: item numbers, uint32; ``keys_of`` of the collection or of the snapshot turns
            them into keys, of a join that of each side. Pairs within one collection have ``left[i]
            < right[i]``, but for those of ``score``, which are as they were given.
        similarity: float64, the true similarity if the collection measures it, else nan.
        distance: float64, the true distance if the collection measures it, else nan.
        estimated: similarities are estimates from signatures alone, not the true ones.
    """

    left: UInt32s
    right: UInt32s
    similarity: Float64s
    distance: Float64s = msgspec.field(default_factory=lambda: np.empty(0))
    estimated: bool = False

    def __post_init__(self) -> None:
        if self.distance.size != self.similarity.size:
            structs.force_setattr(self, "distance", np.full(self.similarity.size, nan))

    @property
    def is_of_distances(self) -> bool:
        """Whether the collection measures distances; not told by a batch without pairs."""
        return self.distance.size > 0 and not isnan(float(self.distance[0]))

    @classmethod
    def of(cls, left: UInt32s, right: UInt32s, values: Float64s, *, is_distance: bool) -> PairBatch:
        """Return pairs with the similarities, or the distances, that values are."""
        if is_distance:
            return cls(left, right, np.full(values.size, nan), values)
        return cls(left, right, values)

    def __len__(self) -> int:
        return int(self.left.size)

    def select(self, places: Int64s) -> PairBatch:
        """Return the pairs at some places."""
        return PairBatch(
            self.left[places],
            self.right[places],
            self.similarity[places],
            self.distance[places],
            self.estimated,
        )

    @classmethod
    def together(cls, batches: Sequence[PairBatch]) -> PairBatch:
        """Return the pairs of one batch or more in one."""
        return cls(
            np.concatenate([batch.left for batch in batches]),
            np.concatenate([batch.right for batch in batches]),
            np.concatenate([batch.similarity for batch in batches]),
            np.concatenate([batch.distance for batch in batches]),
            batches[0].estimated,
        )

    def since(self, number: int) -> PairBatch:
        """Return the pairs with an item of this number or a higher one."""
        new = self.right >= number
        if new.all():
            return self
        return self.select(np.flatnonzero(new))


class Group(Brief, Struct, frozen=True):
    """Items that belong together.

    Attributes:
        representative: the item inserted first; with the method ``"star"`` the centre.
        keys: the keys of all its items, the representative first, then in order of insertion.
        metadata: of each item, if requested; else empty.
    """

    representative: Key
    keys: tuple[Key, ...]
    metadata: tuple[Metadata, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)


# A report holds 100,000 of them, and none refers to another: nothing for the collector of cycles.
class Outcome(Brief, Struct, frozen=True, gc=False):
    """What became of one input row.

    Attributes:
        row: position in the input, from 0.
        key: the row's key, or None if it could not be read.
        action: ``"added"``, ``"replaced"``, ``"present"`` (the key is stored already),
            ``"duplicate"`` (similar to an item kept before it), ``"merged"`` (merged with that
            item, under its key) or ``"bad"``.
        duplicate_of: the key of that item; of several, the one inserted first.
        similarity, distance: the true value to ``duplicate_of``, whichever the collection measures.
        within_input: True if ``duplicate_of`` came with the same input (new-new), False if it was
            stored before (new-old). For a bad row whose key is stored with other content, whether
            that content came with the same input.
        problem: what is wrong with a bad row.
        estimated: the similarity is an estimate from signatures alone, not the true one.
        superseded: keys of earlier items that were deleted, because this row is similar to them and
            better by the policy.
    """

    row: int
    key: Key | None
    action: Action
    duplicate_of: Key | None = None
    similarity: float | None = None
    within_input: bool | None = None
    problem: str | None = None
    distance: float | None = None
    estimated: bool = False
    superseded: tuple[Key, ...] = ()


class Outcomes(Sequence[Outcome], Tabular):
    """What became of several rows, in their order.

    Attributes:
        apart: outcomes by position, from 0, that have more than an action: duplicates and bad rows
            at least.
    """

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        found = list(outcomes)
        self.apart: dict[int, Outcome] = dict(enumerate(found))
        self._columns: tuple[Sequence[Any], ...] = (found,)

    def __repr__(self) -> str:
        """Count what became of the rows."""
        counted = Counter(outcome.action for outcome in self)
        told = ", ".join(f"{count:,} {action}" for action, count in counted.items())
        return f"<simdb outcomes, {len(self):,}{': ' * bool(told)}{told}>"

    @classmethod
    def of_columns(
        cls,
        rows: Sequence[int],
        keys: Sequence[Key],
        actions: Sequence[Action],
        apart: dict[int, Outcome],
    ) -> Outcomes:
        """Return the outcomes of rows given as columns; those that are no others are made late."""
        made = cls()
        made.apart, made._columns = apart, (rows, keys, actions)
        return made

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Outcome]:
        for place, columns in enumerate(zip(*self._columns, strict=True)):
            yield self.apart.get(place) or Outcome(*columns)

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Outcome]: ...
    def __getitem__(self, index: int | slice) -> Outcome | Sequence[Outcome]:
        places = range(len(self))[index]
        if isinstance(places, int):
            known = self.apart.get(places)
            return known or Outcome(*(column[places] for column in self._columns))
        return [self[place] for place in places]

    def to_arrow(self) -> Any:
        """Return the outcomes as a ``pyarrow.Table`` with a column for each field of ``Outcome``.

        The column ``estimated`` is there only if similarities are estimates, and ``superseded``,
        lists of keys, only if items were superseded.

        Raises:
            MissingExtraError: pyarrow is not installed.
            UsageError: some keys are texts and some are numbers.
        """
        keyed = ("key", "duplicate_of")
        of_numbers = {type(outcome.key) for outcome in self} - {type(None)} == {int}
        library = arrow.library()
        types = {
            "row": library.int64(),
            "similarity": library.float64(),
            "distance": library.float64(),
            "within_input": library.bool_(),
            "estimated": library.bool_(),
        }
        columns: dict[str, Any] = {}
        rare = ("estimated", "superseded")
        for name in Outcome.__struct_fields__:
            if name in rare and not any(getattr(told, name) for told in self.apart.values()):
                continue
            values = [getattr(outcome, name) for outcome in self]
            if name == "superseded":
                keys = [key for keys in values for key in keys]
                flat = arrow.keys_column(keys, of_numbers=of_numbers)
                ends = np.cumsum([0, *map(len, values)])
                columns[name] = library.ListArray.from_arrays(ends.astype(np.int32), flat)
                continue
            kind = types.get(name, library.string())
            columns[name] = (
                arrow.keys_column(values, of_numbers=of_numbers)
                if name in keyed
                else arrow.column(values, kind)
            )
        return arrow.table(columns)


class Stats(dict[str, Any], Tabular):
    """Counts, sizes and settings by their names, some of them nested."""

    def to_arrow(self) -> Any:
        """Return the values as a ``pyarrow.Table``: ``name``, with dots, and ``value``, as JSON.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        library, leaves = arrow.library(), list(leaves_of(self))
        values = [None if _is_nan(value) else json.dumps(value) for _, value in leaves]
        text = library.string()
        names = arrow.column([name for name, _ in leaves], text)
        return arrow.table({"name": names, "value": arrow.column(values, text)})


def leaves_of(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no mapping by the path of its names.

    In a list of mappings each has its ``name``, or else its number, in the path.
    """
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield from leaves_of(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for number, one in enumerate(value):
                rest = {name: part for name, part in one.items() if name != "name"}
                yield from leaves_of(rest, f"{prefix}{name}.{one.get('name', number)}.")
        else:
            yield f"{prefix}{name}", value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


class AddReport(Brief, Tabular, Struct, frozen=True):
    """What ``add_many`` and ``dedupe`` did; as a table, the duplicates.

    Attributes:
        rows: rows read.
        added, replaced, present: rows that were new, that replaced an item, or whose key was
            stored before.
        duplicates_old: rows similar to an item that is not of the input.
        duplicates_new: rows similar to an earlier row of the input, which an earlier ``dedupe`` of
            the same input may have stored.
        bad: rows that could not be stored.
        superseded: stored items that better rows replaced, by a policy.
        merged: rows that were merged with an item.
        lacking: fields of the policy that no row had, so that they decided nothing.
        bad_rows: position and problem of the first 1,000 bad rows.
        duplicates: the first 100,000 duplicate rows, with both keys; ``outcomes=`` of ``add_many``
            streams all. ``to_pandas`` has a row for each.
        since: the state of the collection before the call: ``pairs(since=report.since)`` finds the
            pairs of the added items, with each other and with earlier items.
    """

    rows: int = 0
    added: int = 0
    replaced: int = 0
    present: int = 0
    duplicates_old: int = 0
    duplicates_new: int = 0
    bad: int = 0
    bad_rows: tuple[tuple[int, str], ...] = ()
    duplicates: tuple[Outcome, ...] = ()
    since: int = 0
    superseded: int = 0
    merged: int = 0
    lacking: tuple[str, ...] = ()
    _unprinted: ClassVar[tuple[str, ...]] = ("duplicates",)

    def __len__(self) -> int:
        """The number of ``duplicates``: the rows of its table."""
        return len(self.duplicates)

    def __bool__(self) -> bool:
        return True  # also a report without duplicates is one

    def to_arrow(self) -> Any:
        """Return ``duplicates`` as a ``pyarrow.Table``, as ``Outcomes.to_arrow`` does.

        Raises:
            MissingExtraError, UsageError: as for ``Outcomes.to_arrow``.
        """
        return Outcomes(self.duplicates).to_arrow()


class Problem(Struct, frozen=True):
    """Something that ``check`` found: where, and what is wrong."""

    table: str
    record: str
    problem: str


class CheckReport(Brief, Struct, frozen=True):
    """The answer of ``check``: how much was read and what was wrong with it."""

    records: int
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


class AuditBin(Struct, frozen=True):
    """True pairs of a range of similarities and how many of them the index found."""

    lowest: float
    highest: float
    true_pairs: int
    found_pairs: int


class RuleAudit(Struct, frozen=True):
    """What one rule for candidates does for a sample of records.

    Attributes:
        rule: in words.
        candidates: pairs that it proposes.
        found_pairs: those of them that are true.
        added_pairs: those of these that no other rule proposes.
    """

    rule: str
    candidates: int
    found_pairs: int
    added_pairs: int


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport(Brief):
    """Measured quality of a collection's present settings, on a sample.

    Attributes:
        sampled: items whose true neighbours were computed by brute force.
        compared: stored items each of them was compared with.
        threshold: the similarity that counts as similar.
        true_pairs: (sampled item, other item) pairs at or above the threshold.
        found_pairs: those of them that a search finds.
        recall: their ratio, None without true pairs.
        recall_interval: its 95 % interval, which allows for pairs of one item being found or missed
            together.
        expected_recall: the recall that the settings promise at the threshold.
        candidates: pairs that the index proposed for the sample.
        precision: the share of candidates that are true pairs, None without candidates. (The
            *answers* of simdb are verified: their precision is 1.)
        bins: true and found pairs by range of similarity.
        rules: for records, what each rule adds.
    """

    sampled: int
    compared: int
    threshold: float
    true_pairs: int
    found_pairs: int
    recall: float | None
    recall_interval: tuple[float, float] | None
    expected_recall: float = field(compare=False)
    candidates: int
    precision: float | None
    bins: tuple[AuditBin, ...] = ()
    rules: tuple[RuleAudit, ...] = ()
    _unprinted: ClassVar[tuple[str, ...]] = ("bins", "rules")

    def _repr_html_(self) -> str:
        """Draw it, for notebooks."""
        told: list[tuple[str, object]] = [
            ("sampled", self.sampled),
            ("compared with", self.compared),
            ("true pairs", self.true_pairs),
            ("found", self.found_pairs),
            ("candidates", self.candidates),
        ]
        if self.recall is not None:
            low, high = self.recall_interval or (0.0, 1.0)
            told.append(("recall measured", notebooks.Bar(self.recall)))
            told.append(("its 95 % interval", f"{low:.4f} to {high:.4f}"))
        told.append(("recall expected at the bound", f"{self.expected_recall:.4f}"))
        drawn = notebooks.table(f"audit at {self.threshold:g}", ("", ""), told)
        if self.bins:
            drawn += notebooks.table(
                "by similarity",
                ("from", "to", "true pairs", "found"),
                [
                    (
                        f"{one.lowest:.2f}",
                        f"{one.highest:.2f}",
                        one.true_pairs,
                        notebooks.Bar(one.found_pairs / one.true_pairs) if one.true_pairs else "-",
                    )
                    for one in self.bins
                ],
            )
        rules = self.rules
        if rules:
            drawn += notebooks.table(
                "by rule",
                ("rule", "candidates", "true", "by it alone"),
                [
                    (one.rule, one.candidates, one.found_pairs, one.added_pairs)
                    for one in self.rules
                ],
            )
        return drawn


class Alternative(Struct, frozen=True):
    """A way in which a question could be answered, and what it is expected to cost.

    Attributes:
        method: ``"buckets"``, ``"exact"``, ``"chunk index"``, ``"pigeonhole"`` or ``"scan"``.
        guarantee, expected_recall: as for an answer.
        looked_at: items, or pairs, that it would look at, estimated from the counts of the store.
        seconds: estimated time of one thread, by rates measured on this machine.
        chosen: whether this method answers.
    """

    method: str
    guarantee: Guarantee
    expected_recall: float
    looked_at: float
    seconds: float
    chosen: bool = False


class Explanation(Struct, frozen=True):
    """How a question is answered, and what that costs.

    Attributes:
        verb: the call.
        items: live ones in the collection.
        alternatives: all methods that could answer, the chosen one first; if it was run, the one
            that answered.
        refused: for each guarantee that is not available, the reason.
        answers: matches, pairs or groups found, if it was run.
        work: counters of the answer, if it was run: ``looked_at``, ``compared`` and others.
        seconds: processor time of the answer, all threads, if it was run.
    """

    verb: str
    items: int
    alternatives: tuple[Alternative, ...]
    refused: Mapping[str, str]
    answers: int | None = None
    work: Mapping[str, int] | None = None
    seconds: float | None = None

    @property
    def chosen(self) -> Alternative:
        """The method that answers."""
        return self.alternatives[0]

    def __repr__(self) -> str:
        lines = [f"{self.verb} among {self.items:,} items"]
        for one in self.alternatives:
            mark = "*" if one.chosen else " "
            lines.append(
                f"{mark} {one.method:<12} {one.guarantee:<9} looks at about {one.looked_at:,.0f}, "
                f"{one.seconds:.2g} s"
            )
        lines += [f"  {guarantee} is refused: {why}" for guarantee, why in self.refused.items()]
        if self.work is not None:
            counted = ", ".join(f"{name} {count:,}" for name, count in self.work.items() if count)
            lines.append(f"ran in {self.seconds:.2g} s: {self.answers:,} found; {counted}")
        return "\n".join(lines)


class Progress(Struct, frozen=True):
    """How far a long call has come, passed to its ``progress`` callback.

    Attributes:
        task: the present task, in words.
        done: units finished (rows, items, entries).
        total: units in all, or None if not known in advance.
    """

    task: str
    done: int
    total: int | None


GroupsRepaired: TypeAlias = Literal["kept", "new", "none"]


class RepairedCollection(Struct, frozen=True):
    """What became of a collection of a damaged store.

    Attributes:
        name: its name.
        items: items that the new store holds.
        lost: stored items that could not be read; a lower bound if their keys were lost too.
        lost_keys: the first of their keys.
        uncertain: items of the new store that may have been deleted or replaced before.
        groups: the kept groups: ``"kept"`` with their ids, aliases and changes; ``"new"`` if some
            of these could not be read, so that groups were made anew from the items, with new ids
            and a new log of changes; ``"none"`` if the collection keeps none, or kept them at
            bounds that its index does not serve.
    """

    name: str
    items: int
    lost: int
    lost_keys: tuple[Key, ...]
    uncertain: int
    groups: GroupsRepaired = "none"


class RepairReport(Struct, frozen=True):
    """What ``repair`` read, and what it could not.

    Attributes:
        collections: the collections that the new store holds.
        lost_collections: names, or numbers, of those whose settings could not be read.
        certain: all settings and keys could be read, so nothing else is lost.
        problems: the damage that was found.
    """

    collections: tuple[RepairedCollection, ...]
    lost_collections: tuple[str, ...]
    certain: bool
    problems: tuple[Problem, ...]

    @property
    def complete(self) -> bool:
        """Whether it is certain that nothing is lost."""
        whole = all(not (found.lost or found.uncertain) for found in self.collections)
        return whole and self.certain and not self.lost_collections


# Looks up the keys of ascending item numbers.
KeysOf: TypeAlias = Callable[[UInt32s], KeyColumn]

# Looks up their metadata.
MetadataOf: TypeAlias = Callable[[UInt32s], list[Metadata]]


class Lookup(Struct, frozen=True):
    """What looks up what ascending item numbers of a collection stand for."""

    keys: KeysOf
    metadata: MetadataOf


class Promise(Struct):
    """What an answer says of itself; it may become less while the first pairs are looked for."""

    guarantee: Guarantee
    expected_recall: float


# Batches, what looks their left and their right items up, a token to go on after.
PairSource = Callable[[], Iterator[tuple[PairBatch, tuple[Lookup, Lookup], str | None]]]


class Pairs(Tabular):
    """All similar pairs, found while they are iterated; every iteration begins anew.

    Attributes:
        token: for exact pairs, where ``pairs(..., resume=token)`` continues: after the last batch
            that ``batches`` has returned, or the last one whose pairs have all been iterated. A
            new iteration begins it anew.
    """

    def __init__(
        self,
        source: PairSource,
        promise: Promise,
        *,
        work: Work,
        token: str | None,
        is_distance: bool = False,
        since: Since | None = None,
        with_metadata: bool = False,
        have_number_keys: Callable[[], tuple[bool, bool]] = lambda: (False, False),
    ) -> None:
        self._source = source
        self._have_number_keys = have_number_keys
        self._since = since
        self._with_metadata = with_metadata
        self._work = work
        self._measured = "distance" if is_distance else "similarity"
        self._first_token = self.token = token
        self._promise = promise

    @property
    def guarantee(self) -> Guarantee:
        """What is promised: ``"exact"`` (none is missing), ``"probable"`` or ``"estimate"``.

        Unless exact ones were asked for, it becomes ``"probable"`` as the first pairs are looked
        for, where items turn out not to fit into memory.
        """
        return self._promise.guarantee

    @property
    def expected_recall(self) -> float:
        """The share of the pairs *at the threshold* that is expected to be found.

        By the index as it was when they were asked for.
        """
        return self._promise.expected_recall

    def __repr__(self) -> str:
        """Describe the answer; finds nothing."""
        return (
            f"<simdb pairs, {_promise(self.guarantee, self.expected_recall)}; found by iterating, "
            "counted by count()>"
        )

    @property
    def looked_at(self) -> int:
        """Pairs that the last iteration has looked at so far, which ``budget`` limits.

        A pair counts as often as it meets in a bucket or in postings. It may exceed the budget,
        since a step is finished before it is checked.
        """
        return self._work.looked_at

    @property
    def candidates(self) -> int | None:
        """Candidates of probable pairs compared in full so far, over all iterations."""
        return None if self.guarantee == "exact" else self._work.compared

    def __iter__(self) -> Iterator[Pair]:
        """Yield one ``Pair`` after the other."""
        return self._each(self._begun())  # begun now: the token is of this iteration

    def _each(
        self, found: Iterator[tuple[PairBatch, tuple[Lookup, Lookup], str | None]]
    ) -> Iterator[Pair]:
        for batch, lookups, token in found:
            columns: dict[str, Sequence[Any]] = {}
            if self._since is not None:
                columns["sides"] = self._since.sides(batch)
            if self._with_metadata:
                columns |= dict(zip(_OF_SIDES, _metadata(batch, *lookups), strict=True))
            yield from _with_keys(self._marked(batch), *lookups, columns)
            self.token = token

    def count(self) -> int:
        """Find all pairs and return how many there are, without looking their keys up."""
        return sum(len(batch) for batch, _, _ in self._source())

    def __len__(self) -> NoReturn:
        """Refuse: ``list`` asks for it before it iterates, and all would be found twice."""
        raise TypeError("pairs are found while they are iterated: pairs.count() counts them")

    def batches(self) -> Iterator[PairBatch]:
        """Yield the pairs as columns of item numbers; ``keys_of`` turns these into keys."""
        return self._each_batch(self._begun())

    def _each_batch(
        self, found: Iterator[tuple[PairBatch, tuple[Lookup, Lookup], str | None]]
    ) -> Iterator[PairBatch]:
        for batch, _, token in found:
            self.token = token
            yield self._marked(batch)

    def _repr_html_(self) -> str:
        """Draw the first pairs, for notebooks; they are found for it, as by iterating."""
        token = self.token
        found = list(islice(self, notebooks.SHOWN + 1))
        self.token = token  # what was looked at is not done
        told = _counted(len(found), "pair", "pairs")
        if len(found) > notebooks.SHOWN:
            told = f"the first {notebooks.SHOWN} pairs"
        return notebooks.table(
            f"{told}; {_promise(self.guarantee, self.expected_recall)}",
            ("left", "right", self._measured),
            [(pair.left, pair.right, pair.value) for pair in found[: notebooks.SHOWN]],
        )

    def _begun(self) -> Iterator[tuple[PairBatch, tuple[Lookup, Lookup], str | None]]:
        """Find the pairs anew: the token of an earlier iteration says nothing of this one."""
        self.token = self._first_token
        return self._source()

    def _marked(self, batch: PairBatch) -> PairBatch:
        return structs.replace(batch, estimated=True) if self.guarantee == "estimate" else batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream the pairs as Arrow columns, found as they are read; see ``to_arrow``."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """Return the pairs as a ``pyarrow.Table``: ``left``, ``right`` and the measured value.

        Keys are int64 or texts, as in the collection where there are no pairs; of pairs that came
        with later items ``sides`` tells which of the two did, and metadata that were asked for are
        JSON text. Under ``simdb`` the metadata of the schema has, as JSON, the guarantee, the
        expected recall at the threshold, and of pairs of ``pairs`` that came with later items
        ``since`` and ``new``, the side that is always one.

        Raises:
            MissingExtraError: pyarrow is not installed.
            UsageError: some keys are texts and some are numbers.
        """
        return self.to_reader().read_all()

    def to_reader(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader`` of the pairs, found as they are read.

        Raises:
            MissingExtraError, UsageError: as ``to_arrow``, the latter also while reading.
        """
        told = {} if self._since is None else self._since.told()
        return arrow.reader(self._columns(), self._no_columns, lambda: {**_promised(self), **told})

    def _no_columns(self) -> dict[str, Any]:
        """Return the columns of no pairs."""
        none: dict[str, Any] = {
            name: arrow.keys_column([], of_numbers=are_numbers)
            for name, are_numbers in zip(("left", "right"), self._have_number_keys(), strict=True)
        }
        none[self._measured] = np.empty(0)
        if self._since is not None:
            none["sides"] = arrow.column([], arrow.library().string())
        if self._with_metadata:
            none |= {name: arrow.json_column([]) for name in _OF_SIDES}
        return none

    def _columns(self) -> Iterator[dict[str, Any]]:
        """Yield the pairs as columns by name, one batch after the other."""
        for batch, lookups, token in self._begun():
            left, right = (
                arrow.taken(keys, places) for keys, places in _keys_and_places(batch, *lookups)
            )
            measured = getattr(batch, self._measured)
            columns = {"left": left, "right": right, self._measured: measured}
            if self._since is not None:
                names = arrow.column(_SIDES, arrow.library().string())
                columns["sides"] = names.take(arrow.numbers(self._since.places(batch)))
            if self._with_metadata:
                for name, metadata in zip(_OF_SIDES, _metadata(batch, *lookups), strict=True):
                    columns[name] = arrow.json_column(metadata)
            yield columns
            self.token = token


_SIDES: tuple[Sides, ...] = ("new-new", "old-new", "new-old")
_OF_SIDES = "left_metadata", "right_metadata"


class Since(Struct, frozen=True):
    """From which item numbers on items are new, of either side of pairs that have a new one."""

    left: int
    right: int
    of_one: bool  # both sides are of one collection

    def places(self, batch: PairBatch) -> Int64s:
        """Return of each pair which of ``_SIDES`` it is; 3 of two old items."""
        left_new, right_new = batch.left >= self.left, batch.right >= self.right
        return np.where(left_new, np.where(right_new, 0, 2), np.where(right_new, 1, 3))

    def sides(self, batch: PairBatch) -> list[Sides]:
        """Return which items of each pair are new."""
        return [_SIDES[place] for place in self.places(batch).tolist()]

    def among(self, batch: PairBatch) -> PairBatch:
        """Return the pairs with a new item."""
        new = (batch.left >= self.left) | (batch.right >= self.right)
        return batch if new.all() else batch.select(np.flatnonzero(new))

    def told(self) -> dict[str, Any]:
        """Return it as the metadata of a schema have it."""
        if self.of_one:
            return {"since": self.right, "new": "right"}
        return {"since": self.left, "other_since": self.right}


def source_of_keys(field: str) -> str:
    """Return what a collection notes of keys that are in a field of the rows."""
    return f"the field {field!r}"


def listed(keys: KeyColumn) -> list[Key]:
    """Return keys of any form as a list."""
    if isinstance(keys, list):
        return keys
    return [str(key, "utf-8") for key in keys] if isinstance(keys, ByteStrings) else keys.tolist()


def _found_and_places(
    batch: PairBatch, left: Callable[[UInt32s], T], right: Callable[[UInt32s], T]
) -> Iterator[tuple[T, Int64s]]:
    """Yield what is looked up, and where among it that of the left items is, and of the right ones.

    Each is looked up once; of one collection that of both sides at once.
    """
    if left is right:
        distinct, places = distinct_of(np.concatenate([batch.left, batch.right]))
        found = left(distinct)
        yield found, places[: len(batch)]
        yield found, places[len(batch) :]
        return
    for numbers, look_up in ((batch.left, left), (batch.right, right)):
        distinct, places = distinct_of(numbers)
        yield look_up(distinct), places


def _keys_and_places(
    batch: PairBatch, left: Lookup, right: Lookup
) -> Iterator[tuple[KeyColumn, Int64s]]:
    return _found_and_places(batch, left.keys, right.keys)


def _metadata(batch: PairBatch, left: Lookup, right: Lookup) -> Iterator[list[Metadata]]:
    """Yield the metadata of the left items of pairs, and of the right ones."""
    for found, places in _found_and_places(batch, left.metadata, right.metadata):
        yield [found[place] for place in places.tolist()]


def _with_keys(
    batch: PairBatch, left: Lookup, right: Lookup, others: Mapping[str, Sequence[Any]]
) -> list[Pair]:
    """Look the keys of a batch up; ``others`` are further columns."""
    lefts, rights = (
        map(listed(keys).__getitem__, places.tolist())
        for keys, places in _keys_and_places(batch, left, right)
    )
    if others:
        is_distance = batch.is_of_distances
        measured, values = (
            ("distance", batch.distance) if is_distance else ("similarity", batch.similarity)
        )
        made = partial(Pair, estimated=batch.estimated)
        names = "left", "right", measured, *others
        rows = zip(lefts, rights, values.tolist(), *others.values(), strict=True)
        return [made(**dict(zip(names, row, strict=True))) for row in rows]
    if batch.is_of_distances:
        return [Pair(*pair) for pair in zip(lefts, rights, repeat(None), batch.distance.tolist())]
    columns = (lefts, rights, batch.similarity.tolist())
    if batch.estimated:
        return [Pair(*pair, estimated=True) for pair in zip(*columns, strict=True)]
    return list(map(Pair, *columns))


class Resumable(Protocol):
    """What groups were made of."""

    def state(self) -> bytes:
        """Return all of it."""


class KeptGroup(Brief, Struct, frozen=True):
    """A group that a collection keeps.

    Attributes:
        id: stays the same, whatever items come and go, as long as one is left; None for an item in
            no group.
        keys: the keys of its items, in order of insertion.
        bound: the least similarity, or largest distance, of the pairs that it is made of.
    """

    id: int | None
    keys: tuple[Key, ...]
    bound: Fraction


GroupAction: TypeAlias = Literal["created", "joined", "left", "merged", "split"]


class GroupChange(Brief, Struct, frozen=True):
    """What happened to a group.

    ``created``: the group began with the items. ``joined``: the items came to the group. ``left``:
    the items were deleted, belong to no group any more, or belong to another group, which they then
    join. ``merged``: all items of the ``other`` group came to this one; the other id is an alias
    from then on. ``split``: the items went to the ``other`` group, which began with them.

    Attributes:
        number: changes are counted from 1, for all bounds together.
        action: one of the five above.
        group: the id of the group.
        other: the id of the other group, for ``merged`` and ``split``.
        keys: the keys of the items at that time; none for ``merged``, which takes those of the
            other group.
        bound: as for ``KeptGroup``; a distance of a time when the collection measured distances,
            and a similarity of one when it measured these.
    """

    number: int
    action: GroupAction
    group: int
    other: int | None
    keys: tuple[Key, ...]
    bound: Fraction


class Groups(Sequence[Group], Tabular):
    """Groups of items that belong together, in order of their first items.

    Attributes:
        guarantee: the guarantee of the pairs that they come from.
        expected_recall: the share of the pairs *at the threshold* expected to be found.
        looked_at: pairs that were looked at, which ``budget`` limits.
        method: how groups were made from pairs; see ``Collection.groups``.
        objective: for ``"correlation"`` the sum that it minimises: the similarities of pairs that
            are separated (1 - d / 2D for a distance d of at most D), but for ``contradictions``,
            and 1 for each two items that are together without being a pair. None for other methods.
        contradictions: similar pairs that ``apart`` names; they are separated.
        made: the state that a later call continues from with ``earlier=``; None if no pairs are
            held.
    """

    def __init__(
        self,
        keys: list[list[Key]],
        guarantee: Guarantee,
        expected_recall: float,
        looked_at: int,
        *,
        method: str = "chain",
        objective: float | None = None,
        contradictions: Iterable[Pair] = (),
        made: Resumable | None = None,
        metadata: list[list[Metadata]] | None = None,
        of_numbers: bool = False,
    ) -> None:
        self._keys = keys
        self._of_numbers = of_numbers
        self._metadata = metadata
        self.made = made
        self.looked_at = looked_at
        self.guarantee = guarantee
        self.expected_recall = expected_recall
        self.method = method
        self.objective = objective
        self.contradictions = tuple(contradictions)

    def state(self) -> bytes:
        """Return the state for ``earlier=`` of a later call, also in another process.

        Raises:
            ConfigurationError: the groups were made by ``"chain"``, which holds no pairs.
        """
        if self.made is None:
            raise ConfigurationError(
                "groups by method='chain' keep no pairs to continue from",
                remedies=[Remedy("method", "star", "holds them")],
            )
        return self.made.state()

    def __repr__(self) -> str:
        """Describe the answer."""
        return f"<simdb groups, {len(self):,}; {_promise(self.guarantee, self.expected_recall)}>"

    def _repr_html_(self) -> str:
        """Draw the largest groups, for notebooks."""
        largest = sorted(self, key=len, reverse=True)[: notebooks.SHOWN]
        groups = _counted(len(self), "group", "groups")
        told = f"{groups} of {sum(map(len, self._keys)):,} items"
        if len(largest) < len(self):
            told += f", the largest {len(largest)} of them"
        return notebooks.table(
            f"{told}; {_promise(self.guarantee, self.expected_recall)}",
            ("size", "representative", "others"),
            [
                (len(group), group.representative, _listed_shortly(group.keys[1:]))
                for group in largest
            ],
        )

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` with a row for each member: ``representative``, ``key``.

        Keys are int64 or texts, as in the collection where there are no groups. Requested metadata
        are JSON text. The metadata of the schema contain the promise, as for
        ``Pairs.to_arrow``, the method and the objective.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        sizes = list(map(len, self._keys))
        places = np.repeat(np.cumsum([0, *sizes[:-1]]) if sizes else [], sizes).astype(np.int64)
        members = arrow.keys_column(
            [key for keys in self._keys for key in keys], of_numbers=self._of_numbers
        )
        columns = {"representative": members.take(arrow.numbers(places)), "key": members}
        if self._metadata is not None:
            columns["metadata"] = arrow.json_column(list(chain.from_iterable(self._metadata)))
        return arrow.table(
            columns,
            {**_promised(self), "method": self.method, "objective": self.objective},
        )

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> Group: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Group]: ...
    def __getitem__(self, index: int | slice) -> Group | Sequence[Group]:
        """Return a group, or several, by their places."""
        places = range(len(self))[index]
        if isinstance(places, int):
            keys = self._keys[places]
            metadata = () if self._metadata is None else tuple(self._metadata[places])
            return Group(keys[0], tuple(keys), metadata)
        return [self[place] for place in places]


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _listed_shortly(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - KEYS_LISTED:,} more" if len(keys) > KEYS_LISTED else ""
    return ", ".join(map(str, keys[:KEYS_LISTED])) + more


def _promised(answer: Matches | Pairs | Groups) -> dict[str, Any]:
    """The promise of an answer, as JSON has it: no nan."""
    recall = None if isnan(answer.expected_recall) else answer.expected_recall
    return {"guarantee": answer.guarantee, "expected_recall": recall}


def _promise(guarantee: Guarantee, expected_recall: float) -> str:
    if guarantee == "exact":
        return "exact: none is missing"
    if guarantee == "estimate":
        return f"estimated by signatures: expected recall of these {expected_recall:.4f}"
    return f"probable: expected recall at the threshold {expected_recall:.4f}"
