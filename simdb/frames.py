"""Whole tables in one call: near duplicates out of a frame, its similar pairs, two frames linked.

Data are a frame of pandas or polars, a table of pyarrow, a relation of DuckDB, a data set of
Hugging Face, or a list of dicts; answers are of the same kind. Without ``store`` the items go to a
file that is removed at the end; with it they stay, and the next call meets them. A relation, a
stream or a data set is read whole first; beyond the table, simdb's setting bounds the memory. For
tables that do not fit there is ``add_many`` of a collection, which reads batch by batch.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from datetime import date
from datetime import time as clock
from itertools import compress
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from simdb import arrow
from simdb.arrow import Columns
from simdb.collection import Collection, CollectionView, DedupeMeasure, OnBad, OnExisting
from simdb.database import open_database, open_throwaway
from simdb.errors import KeyExistsError, NothingAlikeError, UsageError
from simdb.exact.thresholds import ThresholdLike
from simdb.extras import require
from simdb.kinds import Kind, Record, Text
from simdb.kinds.records.proposal import all_equal, propose_record
from simdb.policies import Policy, PolicyLike
from simdb.results import Key, Outcome, Pairs

Names = str | Sequence[str]
Show = Literal["kept", "all"]
COLLECTION = "documents"
SAMPLED_ROWS = 5_000  # of each table, by which settings are proposed


def dedupe(
    data: Any,
    *,
    item: Names,
    key: str | None = None,
    kind: Kind | None = None,
    threshold: ThresholdLike | None = None,
    max_distance: ThresholdLike | None = None,
    measure: DedupeMeasure = "jaccard",
    containment: ThresholdLike | None = None,
    policy: PolicyLike | None = None,
    show: Show = "kept",
    on_bad: OnBad = "error",
    store: str | os.PathLike[str] | None = None,
    collection: str = COLLECTION,
) -> Any:
    """Return the rows of a table without near duplicates of rows kept before them.

    ``Collection.dedupe`` defines which rows are removed. The index finds 99 % of the duplicates at
    the threshold and more of those above it; every removed row is a duplicate. With containment all
    are found. The same data give the same rows.

    Args:
        data: a frame of pandas or polars, a table of pyarrow, a relation of DuckDB, a data set of
            Hugging Face, or a list of dicts.
        item: the column of the items; several columns make an object of each row, as for records.
        key: the column of the keys, which are distinct; without it the number of the row, from 0.
        kind: the kind of the items; texts by default. For several columns, settings of records are
            proposed (``propose_record``), and weights are learnt from the table unless there is a
            threshold. If nothing can be proposed or learnt, as for two columns, a warning says so,
            and only equal rows are duplicates.
        threshold: the least similarity of duplicates. By default 0.8, or with learnt weights the
            similarity at which rows match with a probability of one half.
        max_distance: the largest distance of duplicates, for kinds that measure a distance.
        measure: ``"containment"`` removes rows that a larger row contains, wherever that is; a
            store must then be new. ``"both"`` removes these and similar rows.
        containment: for ``"both"``, the share that must be contained.
        policy: which of several similar rows is kept, if not the first; as for
            ``Collection.dedupe``. Its fields are columns of the table; a function gets all columns
            as metadata. A store keeps only these columns.
        show: ``"kept"`` rows only; or ``"all"`` rows with two more columns: ``duplicate_of``, the
            key of the first similar row that is kept, and ``similarity`` or ``distance``. Both are
            null in rows that are kept.
        on_bad: ``"skip"`` keeps rows that cannot be compared, such as a null; ``"error"`` refuses
            them.
        store: a database that the rows are added to and compared with; made if there is none. A row
            whose key is stored there with the same item is the same row, and is kept.
        collection: its name in the store.

    Returns:
        A table of the same type as the data, in the same order.

    Raises:
        UsageError: a column is missing; or there is a store and no key.
        BadItemError, KeyExistsError: a row cannot be stored; ``row`` says which, from 0.
        MissingExtraError: pyarrow is not installed, and the data are not a list.
    """
    if show not in ("kept", "all"):
        raise UsageError(f"show must be 'kept' or 'all', not {show!r}")
    bound = _bound(threshold, max_distance)
    order = None if policy is None else Policy(policy)
    table = _Table(data, Columns.named(key, item, () if order is None else order.fields or ()))
    if order is not None and order.fields is None:
        table = _Table(data, Columns.named(key, item, table.others()))
    if kind is None and not isinstance(item, str) and not _is_stored(store, collection):
        table, kind, bound = _records_of(table, bound, on_bad)
    planned = bound if measure == "jaccard" else {}  # by containment no index finds anything
    with _collection_for(table, kind, planned, store, collection) as target:
        table = table if kind is not None else table.of_fields(target.kind)
        marks = _Marks()
        how: dict[str, Any] = {"measure": measure, "containment": containment, "policy": policy}
        with _told_of_keys(is_stored=store is not None):
            target.dedupe(table.rows(), on_bad=on_bad, outcomes=marks.note, **how, **bound)
        measured = "distance" if target.kind.is_distance else "similarity"
    if show == "kept":
        return table.select(np.array([of is None for of in marks.duplicate_of], np.bool_))
    return table.with_columns({"duplicate_of": marks.duplicate_of, measured: marks.values})


def pairs(
    data: Any,
    *,
    item: Names,
    key: str | None = None,
    kind: Kind | None = None,
    threshold: ThresholdLike | None = None,
    max_distance: ThresholdLike | None = None,
    on_bad: OnBad = "error",
    store: str | os.PathLike[str] | None = None,
    collection: str = COLLECTION,
) -> Any:
    """Return the pairs of similar rows of a table: ``left``, ``right``, and how similar they are.

    With ``store``, these are the pairs of the new rows: with each other and with stored rows.

    Args:
        data, item, key, kind, threshold, max_distance, store, collection: as for ``dedupe``.
        on_bad: ``"skip"`` leaves out rows that cannot be compared, or whose key is stored with
            other content.

    Returns:
        A table of the same type as the data. Keys are those of ``key``, or numbers of rows.

    Raises:
        UsageError, BadItemError, KeyExistsError, MissingExtraError: as for ``dedupe``.
    """
    bound = _bound(threshold, max_distance)
    table = _Table(data, Columns.named(key, item, ()))
    if kind is None and not isinstance(item, str) and not _is_stored(store, collection):
        table, kind, bound = _records_of(table, bound, on_bad)
    with _collection_for(table, kind, bound, store, collection) as target:
        table = table if kind is not None else table.of_fields(target.kind)
        on_existing: OnExisting = "error" if store is None else "same"
        with _told_of_keys(is_stored=store is not None):
            report = target.add_many(table.rows(), on_existing=on_existing, on_bad=on_bad)
        since = None if store is None else report.since
        return table.made_of(target.pairs(since=since, **bound))


def link(
    left: Any,
    right: Any,
    *,
    item: Names,
    right_item: Names | None = None,
    key: str | None = None,
    right_key: str | None = None,
    kind: Kind | None = None,
    threshold: ThresholdLike | None = None,
    max_distance: ThresholdLike | None = None,
    one_to_one: bool = False,
    apart: Iterable[tuple[Key, Key]] = (),
    on_bad: OnBad = "error",
) -> Any:
    """Return the similar pairs of a row of one table and a row of another.

    Args:
        left, right: tables, as for ``dedupe``. One of them may be a collection; its kind and bound
            then hold for both, unless they are given.
        item, key: columns of ``left``, as for ``dedupe``; and of ``right`` too, unless
            ``right_item`` or ``right_key`` name others there. Several others stand in the order of
            those of ``left``; of the same names, each goes with its own.
        kind, threshold, max_distance, on_bad: as for ``pairs``. For several columns without a kind,
            settings of records are proposed (``propose_record``). Without a threshold weights are
            learnt, and rows that match with a probability of one half are linked. If nothing can be
            learnt, as for two columns, a warning says so, and rows that are equal in all columns
            are linked.
        one_to_one, apart: as for ``Collection.join``.

    Returns:
        A table of the same type as ``left``, or as ``right`` if only that is a table: the keys
        ``left`` and ``right``, and how similar they are.

    Raises:
        UsageError, BadItemError, KeyExistsError, MissingExtraError: as for ``dedupe``.
        ConfigurationError: nothing can be proposed, or learnt.
    """
    bound = _bound(threshold, max_distance)
    named = Columns.named(key, item, ())
    right_named = Columns.named(
        right_key or key, named.item if right_item is None else right_item, ()
    )
    columns = named, right_named
    stored = [side for side in (left, right) if isinstance(side, CollectionView)]
    if len(stored) == 2:
        raise UsageError("link takes a table: to link two collections, use join()")
    if stored:
        kind = kind or stored[0].kind
        measure = "max_distance" if kind.is_distance else "threshold"
        bound = bound or _bound(**{measure: getattr(stored[0], measure)})
    given = [
        data if isinstance(data, CollectionView) else _Table(data, named)
        for data, named in zip((left, right), columns, strict=True)
    ]
    if isinstance(given[1], _Table) and not isinstance(item, str):
        given[1] = given[1].called(columns[0].item_names())
    tables = [one for one in given if isinstance(one, _Table)]
    learns = kind is None and not any(isinstance(one.item, str) for one in columns)
    if one_to_one:
        require("statistics", "one to one needs", "scipy")
    if learns and not bound:
        require("statistics", "learning weights needs", "scipy")
    if learns:
        kind, bound = _proposed(tables, bound)
        tables = [one.of_fields(kind) for one in tables]
        given = list(tables)
    with ExitStack() as opened:
        sides: list[CollectionView] = []
        made: list[Collection] = []
        for one in given:
            if isinstance(one, _Table):
                made.append(opened.enter_context(_collection_for(one, kind, bound)))
                made[-1].add_many(one.rows(), on_bad=on_bad)
            sides.append(made[-1] if isinstance(one, _Table) else one)
        if learns and not bound:
            kind, bound = _learnt(made, one_to_one=one_to_one)
            for one in made:
                one.rebuild(kind, **bound)
        found = sides[0].join(sides[1], one_to_one=one_to_one, apart=apart, **bound)
        return tables[0].made_of(found)


@contextmanager
def _told_of_keys(*, is_stored: bool) -> Iterator[None]:
    """Say of a key that is there what there is to do: these calls have no option for it."""
    try:
        yield
    except KeyExistsError as error:
        twice = error.within_input or not is_stored
        problem = error.problem if error.within_input else f"key {error.key!r} comes twice"
        if not twice:
            problem = f"{error.problem}; Collection.replace updates it"
        named: dict[str, Any] = {"row": error.row, "key": error.key}
        raise KeyExistsError(problem, **named, within_input=twice) from error


def _proposed(tables: Sequence[_Table], bound: dict[str, Any]) -> tuple[Record, dict[str, Any]]:
    """Return settings for records of two tables, or of one, and the bound.

    Where rows that lie evenly in the tables say nothing, rows that are equal in all columns are
    alike.
    """
    items = [[row[1] for row in table.rows() if isinstance(row[1], Mapping)] for table in tables]
    some = [rows[:: math.ceil(len(rows) / SAMPLED_ROWS) or 1] for rows in items]
    try:
        return propose_record(*some, rows=tuple(map(len, items))).kind, bound
    except NothingAlikeError as error:
        return _equal_in_all(all_equal(*some), error)


def _learnt(made: Sequence[Collection], *, one_to_one: bool = False) -> tuple[Kind, dict[str, Any]]:
    """Return weights that are learnt of one collection or two, and the bound.

    Where nothing is learnt, rows that are equal in all columns are alike.
    """
    try:
        weights = made[0].learn(other=made[-1] if made[1:] else None, one_to_one=one_to_one)
    except NothingAlikeError as error:
        return _equal_in_all(all_equal(fields=cast("Record", made[0].kind).fields), error)
    return weights.kind, {"threshold": weights.threshold()}


def _equal_in_all(kind: Record | None, error: NothingAlikeError) -> tuple[Record, dict[str, Any]]:
    """Return settings by which equal rows are alike, and the bound; warn that it is so."""
    if kind is None:
        raise error
    told = f"{error.problem}; only rows that are equal in all columns count as the same"
    warnings.warn(told, stacklevel=4)
    return kind, {"threshold": 1}


def _records_of(
    table: _Table, bound: dict[str, Any], on_bad: OnBad
) -> tuple[_Table, Kind, dict[str, Any]]:
    """Return one table and settings for its records; weights are learnt without a bound."""
    if not bound:
        require("statistics", "learning weights needs", "scipy")
    kind, bound = _proposed([table], bound)
    table = table.of_fields(kind)
    if bound:
        return table, kind, bound
    with _collection_for(table, kind, {"threshold": 0.5}) as rows:
        rows.add_many(table.rows(), on_bad=on_bad)
        return table, *_learnt([rows])


def _is_stored(store: str | os.PathLike[str] | None, collection: str) -> bool:
    """Whether a store has the collection already, whose settings then hold."""
    if store is None or not Path(store).exists():
        return False
    with open_database(store) as database:
        return collection in database


def _bound(
    threshold: ThresholdLike | None = None, max_distance: ThresholdLike | None = None
) -> dict[str, Any]:
    """Return the bound that is given, if one is."""
    given = {"threshold": threshold, "max_distance": max_distance}
    return {name: value for name, value in given.items() if value is not None}


class _Marks:
    """What became of each row: the key that it is a duplicate of, and how similar the two are."""

    def __init__(self) -> None:
        self.duplicate_of: list[Key | None] = []
        self.values: list[float | None] = []

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """Note the outcomes of a batch; they come in the order of the rows."""
        for outcome in outcomes:
            value = outcome.similarity if outcome.distance is None else outcome.distance
            self.duplicate_of.append(outcome.duplicate_of)
            self.values.append(value)


@contextmanager
def _collection_for(
    table: _Table,
    kind: Kind | None,
    bound: dict[str, Any],
    store: str | os.PathLike[str] | None = None,
    name: str = COLLECTION,
) -> Iterator[Collection]:
    """Open the collection that is meant, or a new one that is gone afterwards."""
    if store is None:
        with (
            tempfile.TemporaryDirectory(prefix="simdb-") as place,
            open_throwaway(Path(place) / "rows.simdb") as database,
        ):
            # The same data give the same answer only under the same hash functions.
            yield database.create_collection(name, kind or Text(), seed=table.seed(), **bound)
        return
    if table.columns.key is None:
        raise UsageError("a store needs keys that do not change: key= must name their column")
    with open_database(store) as database:
        if kind is None and name in database:
            target = database[name]
        else:
            target = database.collection(name, kind or Text(), **bound)
        target.note_key_source(f"the field {table.columns.key!r}")
        yield target


def _plain(value: Any) -> Any:
    """Return a value as metadata have it: dates and times as text, which sorts as they do."""
    return value.isoformat() if isinstance(value, date | clock) else value


class _Table:
    """A table of any library, and how one like it is made.

    Attributes:
        columns: which of its columns are read.
    """

    def __init__(self, data: Any, columns: Columns) -> None:
        """Read the columns that are named.

        Raises:
            UsageError: the data are no table, or lack a column.
        """
        self.columns = columns
        self._data = data
        self._library = ""  # that of a list of dicts
        self._read: Any = data
        if arrow.is_table(data):
            self._library = type(data).__module__.partition(".")[0].lstrip("_")
            if hasattr(data, "columns") and self._library == "pandas":
                # Others of its columns may not fit into Arrow.
                columns.require_among(list(map(str, data.columns)))
                data = data[list(dict.fromkeys(columns.names()))]
            self._read = arrow.read(data)
            columns.require_in(self._read.schema)
        elif isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
            known = list(dict.fromkeys(name for row in data for name in row))
            if data:
                columns.require_among(known)
        else:
            is_path = isinstance(data, str | os.PathLike)
            advice = "; read the file into one, or use the command simdb" if is_path else ""
            raise UsageError(
                "the data must be a table (pandas, polars, pyarrow, DuckDB, Hugging Face) or a "
                f"list of dicts, not {type(data).__name__}{advice}"
            )

    def of_fields(self, kind: Kind) -> _Table:
        """Return the same table with only the fields of a kind for items of several columns."""
        if kind.field_names is None or isinstance(self.columns.item, str):
            return self
        narrowed = copy(self)
        narrowed.columns = replace(self.columns, item=kind.field_names)
        return narrowed

    def called(self, names: Sequence[str]) -> _Table:
        """Return the table with the columns of its items called as those of another, in turn.

        Raises:
            UsageError: these are more, or fewer.
        """
        own = self.columns.item_names()
        if set(own) == set(names):
            return self
        if len(own) != len(names):
            raise UsageError(
                f"item names {len(names)} columns and right_item {len(own)}: each has its other"
            )
        key = self.columns.key
        while key is not None and key in names:
            key += "_"
        wanted = {
            **dict(zip(names, own, strict=True)),
            **({} if key is None else {key: self.columns.key}),
        }
        other = copy(self)
        other.columns = replace(self.columns, item=tuple(names), key=key)
        if self._library:
            other._read = arrow.library().table(
                {new: self._read[old] for new, old in wanted.items()}
            )
        else:
            other._read = [{new: row.get(old) for new, old in wanted.items()} for row in self._read]
        return other

    def rows(self) -> Iterable[Any]:
        """Return the rows as ``add_many`` takes them."""
        return arrow.Rows(self._read, self.columns) if self._library else self._rows_of_dicts()

    def _rows_of_dicts(self) -> Iterator[Any]:
        names = self.columns.item
        for number, row in enumerate(self._read):
            item = (
                row.get(names)
                if isinstance(names, str)
                else {name: row.get(name) for name in names}
            )
            found = (number if self.columns.key is None else row.get(self.columns.key)), item
            known = self.columns.metadata
            yield (*found, {name: _plain(row.get(name)) for name in known}) if known else found

    def others(self) -> list[str]:
        """Return the names of the columns that are not read."""
        names = self._data.columns if self._library == "pandas" else self._names()
        return [name for name in map(str, names) if name not in self.columns.names()]

    def seed(self) -> int:
        """Return a seed that only the same items give.

        Whoever writes a row to make it collide with others would have to know all of them.
        """
        digest = hashlib.blake2b(digest_size=32)
        if self._library:
            for batch in self._read.select(self.columns.item_names()).to_batches():
                digest.update(batch.serialize())
        else:
            for _, item, *_ in self.rows():
                digest.update(repr(item).encode("utf-8", "surrogatepass") + b"\0")
        return int.from_bytes(digest.digest())

    def select(self, kept: npt.NDArray[np.bool_]) -> Any:
        """Return the rows that are to be kept, in a table of the same kind."""
        if not self._library:
            return list(compress(self._data, kept.tolist()))
        if self._library == "pandas":
            return self._data[kept]
        if self._library == "polars":
            return self._data[np.flatnonzero(kept)]
        if self._library == "datasets":
            return self._data.select(np.flatnonzero(kept))
        return self._like(arrow.selected(self._read, kept))

    def with_columns(self, added: dict[str, list[Any]]) -> Any:
        """Return the table with columns more.

        Raises:
            UsageError: it has a column of such a name already.
        """
        names = self._data.columns if self._library == "pandas" else self._names()
        for name in added:
            if name in names:
                raise UsageError(f"the table has a column {name!r} already: rename it")
        if not self._library:
            rows = zip(*added.values(), strict=True)
            marks = (dict(zip(added, row, strict=True)) for row in rows)
            return [{**row, **mark} for row, mark in zip(self._data, marks, strict=True)]
        columns = arrow.library().table(added)
        if self._library == "pandas":
            whole_numbers = sys.modules["pandas"].Int64Dtype()  # which have a null
            made = columns.to_pandas(
                types_mapper=lambda kind: whole_numbers if kind == "int64" else None
            )
            return self._data.assign(**{name: made[name].array for name in added})
        whole = self._read
        for name in added:
            whole = whole.append_column(name, columns[name])
        return self._like(whole)

    def made_of(self, found: Pairs) -> Any:
        """Return pairs as a table of the same kind."""
        made = arrow.read(found) if self._library else None
        if made is not None:
            return self._like(made)
        return [
            {"left": pair.left, "right": pair.right, measured: pair.value}
            for pair in found
            for measured in ("similarity" if pair.distance is None else "distance",)
        ]

    def _names(self) -> Iterable[str]:
        if self._library:
            names: list[str] = self._read.schema.names
            return names
        return list(dict.fromkeys(name for row in self._data for name in row))

    def _like(self, made: Any) -> Any:
        """Return a table of pyarrow as one of the library that the data are of."""
        module = sys.modules.get(self._library)  # it made the data, so it is loaded
        if self._library == "pandas":
            return made.to_pandas()
        if module is not None and self._library in ("polars", "duckdb"):
            return module.from_arrow(made)
        if module is not None and self._library == "datasets":
            return module.Dataset(made)
        return made
