"""Whole tables in one call: near duplicates out of a frame, its similar pairs, two frames linked.

Data are a frame of pandas or polars, a table of pyarrow, a relation of DuckDB, a data set of
Hugging Face, or a list of dicts; answers are of the same kind. Without ``store`` the items go to a
file that is removed at the end; with it they stay, and the next call meets them. A relation, a
stream or a data set is read whole first; beyond the table, simdb's setting bounds the memory. For
tables that do not fit there is ``add_many`` of a collection, which reads batch by batch.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from copy import copy
from itertools import compress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from simdb import arrow
from simdb.arguments import require_choice, short
from simdb.arrow import Columns
from simdb.collection import (
    Collection,
    CollectionView,
    DedupeMeasure,
    OnBad,
    OnExisting,
    has_number_keys,
)
from simdb.database import Database, is_there, open_database, open_throwaway
from simdb.errors import ConfigurationError, KeyExistsError, NothingAlikeError, UsageError
from simdb.exact.thresholds import ThresholdLike, admits
from simdb.extras import require
from simdb.kinds import Kind, Set, Text
from simdb.kinds import require as require_kind
from simdb.kinds.contrast import contrast
from simdb.kinds.records.proposal import Proposal, propose_record, sampled
from simdb.kinds.whole import WholeRows, told_of_whole_rows, whole_row, whole_rows
from simdb.policies import OF_ROWS, Policy, PolicyLike
from simdb.results import Entry, Key, Outcome, Pairs, source_of_keys

Names = str | Sequence[str]
Show = Literal["kept", "all"]
SIDES = ("left", "right")  # as messages call two tables
COLLECTION = "documents"
_NO_ARGUMENTS = ("guarantee", "min_recall")  # of collections, which these calls do not take
_MAKERS = {"polars": "collect", "pyarrow": "to_table"}  # methods that make a table


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
    are found. The same data give the same rows: texts in any kind of table, other items in the
    same kind.

    Args:
        data: a frame of pandas or polars, a table of pyarrow, a relation of DuckDB, a data set of
            Hugging Face, or a list of dicts.
        item: the column of the items; several columns make an object of each row, as for records.
            Of a stored collection of records the fields among them are taken, none of which may be
            missing.
        key: the column of the keys, which are distinct; without it the number of the row, from 0.
        kind: the kind of the items; texts by default. For several columns, settings of records are
            proposed (``propose_record``), and weights are learnt from the table unless there is a
            threshold. Warnings name the columns that are left out. If nothing can be proposed or
            learnt, as for two columns, a warning says so, and only rows that are equal in all these
            columns are duplicates; for a store that is an error.
        threshold: the least similarity of duplicates. By default 0.8, or with learnt weights the
            similarity at which rows match with a probability of one half.
        max_distance: the largest distance of duplicates, for kinds that measure a distance. They
            need it, unless the store has the collection already.
        measure: ``"containment"`` removes rows that a larger row contains, wherever that is; a
            store must then be new. ``"both"`` removes these and similar rows.
        containment: for ``"both"``, the share that must be contained.
        policy: which of several similar rows is kept, if not the first; as for
            ``Collection.dedupe``. Its fields are columns of the table, and ``key`` and ``item``
            where there are no such columns. Numbers, dates, times and durations are compared
            by value; categories are texts. A function gets key and item, and all other columns
            without bytes as metadata, in the form of JSON. A store keeps only these columns.
        show: ``"kept"`` rows only; or ``"all"`` rows with two more columns: ``duplicate_of``, the
            key of the first similar row that is kept, and ``similarity`` or ``distance``. Both are
            null in rows that are kept.
        on_bad: ``"skip"`` keeps rows that cannot be compared, such as a null; ``"error"`` refuses
            them.
        store: a database that the rows are added to and compared with; made if there is none,
            unless the call is refused before its rows are looked at. A row whose key is stored
            there with the same item is the same row, and is kept.
        collection: its name in the store.

    Returns:
        A table of the same type as the data, in the same order. A relation of DuckDB belongs to
        its default connection; a data set that is read as a stream becomes a ``Dataset``.

    Raises:
        UsageError: a column is missing; or there is a store and no key.
        NothingAlikeError: there is a new store, and nothing can be proposed or learnt.
        BadItemError, KeyExistsError: a row cannot be stored; ``row`` says which, from 0.
        MissingExtraError: pyarrow is not installed, and the data are not a list.
    """
    require_choice("show", show, "kept", "all")
    require_choice("on_bad", on_bad, "error", "skip")
    require_choice("measure", measure, *get_args(DedupeMeasure))
    bound = _bound(threshold, max_distance)
    order = None if policy is None else Policy(policy)
    table = _Table(data, Columns.named(key, item, ()), order)
    order = table.read_by(order)
    if kind is None and not isinstance(item, str) and not _is_stored(store, collection):
        if not table.count:
            _require_of_records(bound)
            return _kept(table, _Marks(), show, "similarity")
        (table,), kind, bound = _records_of([table], bound, on_bad, is_stored=store is not None)
        order = table.for_whole_rows(order)
    marks = _Marks()
    how: dict[str, Any] = {"measure": measure, "containment": containment, "policy": order}

    def run(target: Collection, rows: Iterable[Any] = ()) -> str:
        measured = "distance" if target.kind.is_distance else "similarity"
        if show == "all":
            table.require_without("duplicate_of", measured)
            table.require_column_of(target.key_types())
        with _told_of_keys(is_stored=store is not None):
            target.dedupe(rows, on_bad=on_bad, outcomes=marks.note, **how, **bound)
        return measured

    named = table, kind, bound, store, collection
    with _collection_for(*named, rehearse=run, measure=measure) as target:
        table = table if kind is not None else table.of_fields(target.kind)
        measured = run(target, table.rows())
    return _kept(table, marks, show, measured)


def _kept(table: _Table, marks: _Marks, show: Show, measured: str) -> Any:
    """Return the rows that are kept, or all with what became of them."""
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
    ``sides`` then says which of the two are new, as ``Pair.sides`` does. Without it, texts, sets
    and bags are compared exactly at thresholds that are too low for an index.

    Args:
        data, item, key, kind, threshold, max_distance, store, collection: as for ``dedupe``.
        on_bad: ``"skip"`` leaves out rows that cannot be compared, or whose key is stored with
            other content.

    Returns:
        A table of the same type as the data. Keys are those of ``key``, or numbers of rows.

    Raises:
        UsageError, NothingAlikeError, BadItemError, KeyExistsError, MissingExtraError: as for
            ``dedupe``.
    """
    require_choice("on_bad", on_bad, "error", "skip")
    bound = _bound(threshold, max_distance)
    table = _Table(data, Columns.named(key, item, ()))
    if kind is None and not isinstance(item, str) and not _is_stored(store, collection):
        if not table.count:
            _require_of_records(bound)
            return table.no_pairs(table, table)
        (table,), kind, bound = _records_of([table], bound, on_bad, is_stored=store is not None)

    def rehearse(target: Collection) -> None:
        if target.kind.limits_candidates:  # which are known when all rows are there
            with _told_of_keys(is_stored=True):
                target.add_many(table.rows(), on_existing="same", on_bad=on_bad)
        target.pairs(since=0, **bound)

    named = table, kind, bound, store, collection
    with _collection_for(*named, rehearse=rehearse, joins=True) as target:
        table = table if kind is not None else table.of_fields(target.kind)
        if store is not None:  # rows of a call that is refused would be no new ones of the next
            target.pairs(since=target.checkpoint(), **bound)
        on_existing: OnExisting = "error" if store is None else "same"
        with _told_of_keys(is_stored=store is not None):
            report = target.add_many(table.rows(), on_existing=on_existing, on_bad=on_bad)
        since = None if store is None else report.since
        if store is None and not _is_planned_for(target, bound):
            return table.made_of(target.pairs(guarantee="exact", **bound), table, table)
        return table.made_of(target.pairs(since=since, **bound), table, table)


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
            those of ``left``; of the same names, each goes with its own. Of a collection of records
            they are fields.
        kind, threshold, max_distance, on_bad: as for ``pairs``. For several columns without a kind,
            settings of records are proposed (``propose_record``). Without a threshold weights are
            learnt, and rows that match with a probability of one half are linked. If nothing can be
            learnt, as for two columns, a warning says so, and rows that are equal in all columns
            are linked; numbers then equal the texts that write them, times of midnight their
            dates, and empty texts missing values.
        one_to_one, apart: as for ``Collection.join``.

    Returns:
        A table of the same type as ``left``, or as ``right`` if only that is a table: the keys
        ``left`` and ``right``, and how similar they are.

    Raises:
        UsageError, BadItemError, KeyExistsError, MissingExtraError: as for ``dedupe``.
        ConfigurationError: a column has both texts and fractional numbers, or no pair matches with
            a probability of one half.
    """
    require_choice("on_bad", on_bad, "error", "skip")
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
    given: list[CollectionView | _Table] = []
    for side, data, own in zip(SIDES, (left, right), columns, strict=True):
        with _of_table(side):
            given.append(data if isinstance(data, CollectionView) else _Table(data, own))
    place, other = (1, 0) if isinstance(given[1], _Table) else (0, 1)
    renamed = given[place]
    are_several = not any(isinstance(one.item, str) for one in (columns[other], columns[0]))
    if isinstance(renamed, _Table) and are_several:
        given[place] = renamed.called(columns[other].item_names(), is_right=place == 1)
    if stored and kind is stored[0].kind:
        naming = "item" if place == 1 or right_item is None else "right_item"
        given = [one.of_fields(kind, naming) if isinstance(one, _Table) else one for one in given]
    tables = [one for one in given if isinstance(one, _Table)]
    if one_to_one:
        require("statistics", "one to one needs", "scipy")
    if kind is None and not any(isinstance(one.item, str) for one in columns):
        if not all(table.count for table in tables):
            _require_of_records(bound)
            return tables[0].no_pairs(*given)
        tables, kind, bound = _records_of(tables, bound, on_bad, one_to_one=one_to_one)
        given = list(tables)
    with ExitStack() as opened:
        sides: list[CollectionView] = []
        for name, one in zip(SIDES, given, strict=True):
            if isinstance(one, _Table):
                beside = stored[0] if stored else None
                rows = _collection_for(one, kind, bound, name=name, joins=True, beside=beside)
                made = opened.enter_context(rows)
                with _of_table(name), _told_of_keys(is_stored=False):
                    made.add_many(one.rows(), on_bad=on_bad)
            sides.append(made if isinstance(one, _Table) else one)
        found = sides[0].join(sides[1], one_to_one=one_to_one, apart=apart, **bound)
        return tables[0].made_of(found, *given)


@contextmanager
def _of_table(side: str) -> Iterator[None]:
    """Say of an error which of two tables it is about."""
    try:
        yield
    except UsageError as error:
        raise error.about(f"the {side} table") from error


@contextmanager
def _told_what_helps(collection: str | None, name: str) -> Iterator[None]:
    """Leave to an error the remedies that there are: these calls take no more than a bound.

    What changes the collection of a name is called on ``collection``, as Python opens it; None if
    it is gone afterwards.
    """
    try:
        yield
    except UsageError as error:
        remedies = []
        for remedy in error.remedies:
            if remedy.method in ("rebuild", "note_key_source"):
                if collection is not None:
                    remedies.append(replace(remedy, method=f"{collection}.{remedy.method}"))
                elif repr(name) not in error.problem:  # of the other side of a link
                    remedies.append(remedy)
            elif remedy.method != "collection" and remedy.argument not in _NO_ARGUMENTS:
                remedies.append(remedy)
        if remedies == list(error.remedies):
            raise
        raise error.helped_by(remedies) from error


@contextmanager
def _told_of_keys(*, is_stored: bool) -> Iterator[None]:
    """Say of a key that is there what there is to do: these calls have no option for it."""
    try:
        yield
    except KeyExistsError as error:
        twice = error.within_input or not is_stored
        if not twice:
            problem = f"{error.problem}; Collection.replace updates it"
        elif error.within_input and not error.remedies:  # with other content, as dedupe has it
            problem = error.problem
        else:
            problem = f"key {error.key!r} comes twice"
        named: dict[str, Any] = {"row": error.row, "key": error.key}
        raise KeyExistsError(problem, **named, within_input=twice) from error


def _records_of(
    tables: Sequence[_Table],
    bound: dict[str, Any],
    on_bad: OnBad,
    *,
    one_to_one: bool = False,
    is_stored: bool = False,
) -> tuple[list[_Table], Kind, dict[str, Any]]:
    """Return one table or two, settings for their records, and the bound; without one it is learnt.

    Where nothing can be proposed or learnt, rows that are equal in all columns are alike; a store
    would keep to that.
    """
    if not bound:
        require("statistics", "learning weights needs", "scipy")
    left_out: Mapping[str, str] = {}
    try:
        proposal = _proposed(tables)
        left_out = proposal.left_out
        kind: Kind = proposal.kind
        read = [table.of_fields(kind) for table in tables]
        if not bound:
            kind, bound = _learnt(read, kind, on_bad, one_to_one=one_to_one)
        found = read, kind, bound
    except NothingAlikeError as error:
        _require_of_records(bound)
        if is_stored:
            raise
        left_out, names = left_out or error.left_out, tables[0].columns.item_names()
        how = told_of_whole_rows("that item= names", names, left_out)
        warnings.warn(f"{error.problem}; {how}", stacklevel=3)
        forms = whole_rows(names, *map(_items_of, tables))
        found = [table.of_whole_rows(forms) for table in tables], Set(), {"threshold": 1}
    for name, problem in left_out.items():
        warnings.warn(f"column {name!r} is left out because it {problem}", stacklevel=3)
    return found


def _proposed(tables: Sequence[_Table]) -> Proposal:
    """Return settings for records of two tables, or of one, by some rows of each."""
    some, counts = zip(*(sampled(_items_of(table)) for table in tables), strict=True)
    dates = {name for table in tables for name in table.dates()}
    return propose_record(*some, rows=counts, dates=dates)


def _items_of(table: _Table) -> Iterator[Any]:
    """Yield the items of a table, without those of rows that have something wrong."""
    return (row[1] for row in table.rows() if isinstance(row, tuple))


def _learnt(
    tables: Sequence[_Table], kind: Kind, on_bad: OnBad, *, one_to_one: bool
) -> tuple[Kind, dict[str, Any]]:
    """Return weights that are learnt of one table or two, and the bound."""
    with ExitStack() as opened:
        made: list[Collection] = []
        for side, table in zip(SIDES, tables, strict=False):
            rows = _collection_for(table, kind, {"threshold": 0.5})
            made.append(opened.enter_context(rows))
            of_table = _of_table(side) if tables[1:] else nullcontext()
            with of_table, _told_of_keys(is_stored=False):
                made[-1].add_many(table.rows(), on_bad=on_bad)
        weights = made[0].learn(other=made[-1] if made[1:] else None, one_to_one=one_to_one)
    try:
        return weights.kind, {"threshold": weights.threshold()}
    except ConfigurationError as error:
        why = (
            "; one_to_one is misled by rows that a table has twice: deduplicate that table, or "
            "leave out one_to_one"
        )
        told = f"{error.problem}{why if one_to_one else ''}; threshold= compares without weights"
        raise ConfigurationError(told) from error


def _is_stored(store: str | os.PathLike[str] | None, collection: str) -> bool:
    """Whether a store has the collection already, whose settings then hold."""
    if store is None or not is_there(store):
        return False
    with open_database(store) as database:
        return collection in database


def _bound(
    threshold: ThresholdLike | None = None, max_distance: ThresholdLike | None = None
) -> dict[str, Any]:
    """Return the bound that is given, if one is."""
    given = {"threshold": threshold, "max_distance": max_distance}
    return {name: value for name, value in given.items() if value is not None}


def _require_of_records(bound: dict[str, Any]) -> None:
    """Raise ConfigurationError for a bound that records cannot have: as sets, no distance."""
    if bound:
        Set().parse_bound(bound.get("threshold"), bound.get("max_distance"))


def _created(
    database: Database,
    name: str,
    kind: Kind,
    bound: dict[str, Any],
    measure: DedupeMeasure = "jaccard",
    *,
    joins: bool = False,
    beside: CollectionView | None = None,
    **settings: Any,
) -> Collection:
    """Return a new collection; say of what it asks for what these calls take.

    It is refused where these calls would refuse it: a store would keep a collection that does not
    serve the corrected call. For pairs only (``joins``) sets need no index: where none is planned
    for the bound, there is the usual one. What is linked with a collection ``beside`` it has the
    index of that one then, which may be planned with what these calls do not take.
    """
    if require_kind(kind).is_distance and not bound:
        raise ConfigurationError(f"{kind.plural} compared by distance need max_distance=")
    if measure != "jaccard" and kind.has_symbols:  # by containment no index finds anything
        bound = {}
    try:
        return database.collection(name, kind, **settings, **bound)
    except ConfigurationError as error:
        is_unreached = "cannot be reached" in error.problem
        needs_no_index = joins and kind.has_symbols
        if is_unreached and needs_no_index:
            return database.collection(name, kind, **settings)
        # Of a stored collection, also a kind of which no new one would be made (require_useful).
        if (
            beside is not None
            and beside.kind == kind
            and (_is_planned_for(beside, bound) or needs_no_index)
        ):
            return database.collection(name, recipe=beside.recipe())
        if not is_unreached:
            raise
        told = f"{error.problem}: Database.collection takes these; this call, another bound"
        raise ConfigurationError(told) from error


def _is_planned_for(collection: CollectionView, bound: dict[str, Any]) -> bool:
    """Whether the index of a collection serves a bound, if it has one."""
    wanted = collection.kind.parse_bound(bound.get("threshold"), bound.get("max_distance"))
    recipe = collection.recipe()
    return wanted is None or not recipe.is_probable or admits(recipe.bound, wanted)


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
    *,
    rehearse: Callable[[Collection], object] | None = None,
    measure: DedupeMeasure = "jaccard",
    joins: bool = False,
    beside: CollectionView | None = None,
) -> Iterator[Collection]:
    """Open the collection that is meant, or a new one that is gone afterwards.

    One of a store that has no items is rehearsed by one that is thrown away: a call that is refused
    then leaves no store behind, nor a collection whose settings would refuse the corrected call.
    """
    new = Text() if kind is None else kind
    if store is None:
        with _told_what_helps(None, name), _throwaway() as database:
            # The same data give the same answer only under the same hash functions.
            how: dict[str, Any] = {"joins": joins, "beside": beside, "seed": table.seed()}
            yield _created(database, name, new, bound, measure, **how)
        return
    if table.columns.key is None:
        raise UsageError("a store needs keys that do not change: key= must name their column")
    path = os.fspath(store) if isinstance(store, os.PathLike) else store  # or what opening refuses
    opened = f"simdb.open({path!r})[{name!r}]"
    if rehearse is not None and not _is_stored(store, name):
        with _told_what_helps(None, name), _throwaway() as database:
            rehearse(_created(database, name, new, bound, measure))
    with _told_what_helps(opened, name), open_database(store) as database:
        is_stored = name in database
        target = database[name] if is_stored else _created(database, name, new, bound, measure)
        if is_stored and kind is not None and kind != target.kind:
            told = contrast(target.kind, kind)
            raise ConfigurationError(f"collection {name!r} has other settings: {told}")
        stored = target.key_types()
        others = table.key_types() - stored
        if stored and others:
            names = {str: "texts", int: "whole numbers"}
            raise UsageError(
                f"the keys in the collection are {names[stored.pop()]}, and those of the column "
                f"{table.columns.key!r} are {names[others.pop()]}: a row that comes again would be "
                "taken for a copy of itself; give the keys as they were"
            )
        if rehearse is not None and is_stored and not target.checkpoint():
            with _throwaway() as scratch:
                rehearse(scratch.collection(name, recipe=target.recipe()))
        target.note_key_source(source_of_keys(table.columns.key))
        yield target


@contextmanager
def _throwaway() -> Iterator[Database]:
    """Open a database that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="simdb-") as place,
        open_throwaway(Path(place) / "rows.simdb") as database,
    ):
        yield database


class _Table:
    """A table of any library, and how one like it is made.

    Attributes:
        columns: which of its columns are read.
    """

    def __init__(self, data: Any, columns: Columns, order: Policy | None = None) -> None:
        """Read the columns that are named, and those that a policy looks at.

        Raises:
            UsageError: the data are no table, or lack a column.
        """
        self.columns = columns
        self._data = data
        self._library = ""  # that of a list of dicts
        self._forms: WholeRows | None = None  # of rows that are compared whole
        self._read: Any
        if arrow.is_table(data):
            self._library = type(data).__module__.partition(".")[0].lstrip("_")
            is_pandas = arrow.is_pandas(data)
            if is_pandas or arrow.is_polars(data):
                self._library = "pandas" if is_pandas else "polars"
                self._choose(list(map(str, data.columns)), order)
                self._read = arrow.narrowed(data, self.columns)
            else:
                self._read = arrow.read(data)
                self._choose(self._read.schema.names, order)
            if not isinstance(self._read, list):
                self._leave_out(order)
                if self._read.num_rows:
                    self.columns.require_in(self._read.schema)
                else:  # nothing says of what type its columns are
                    self.columns.require_among(self._read.schema.names)
        elif isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
            self._read = data
            self._choose(list(dict.fromkeys(name for row in data for name in row)), order)
            if data:
                self.columns.require_among(self._names)
        else:
            is_path = isinstance(data, str | os.PathLike)
            advice = "; read the file into one, or use the command simdb" if is_path else ""
            library = type(data).__module__.partition(".")[0]
            if callable(getattr(type(data), maker := _MAKERS.get(library, ""), None)):
                advice = f"; its .{maker}() makes a table"
            given = f"not {type(data).__name__}{advice}"
            if isinstance(data, list):
                rows = enumerate(data)
                place, row = next(one for one in rows if not isinstance(one[1], Mapping))
                given = f"but row {place} is {type(row).__name__} {short(row)}"
            raise UsageError(
                "the data must be a table (pandas, polars, pyarrow, DuckDB, Hugging Face) or a "
                f"list of dicts, {given}"
            )
        if isinstance(self._read, list):
            self._leave_out(order)

    def key_types(self) -> set[type[Key]]:
        """Return which of the types that keys may have, ``str`` and ``int``, those given have."""
        key = self.columns.key
        assert key is not None
        if not isinstance(self._read, list):
            kind = arrow.key_type(self._read.schema, key) if self._read.num_rows else None
            return set() if kind is None else {kind}
        given = {type(row.get(key)) for row in self._read}
        whole = any(issubclass(one, int | np.integer) and one is not bool for one in given)
        found: set[type[Key]] = {int} if whole else set()
        return found | {str} if any(issubclass(one, str) for one in given) else found

    def _choose(self, names: list[str], order: Policy | None) -> None:
        """Take the columns that a policy looks at as metadata, of all that the table has."""
        self._names = names
        if order is None:
            return
        if order.fields is None:
            taken = self.columns.names()
            wanted = [name for name in names if name not in taken]
        else:
            # Rows have their key and their item, and need them twice only where "key" or "item" is
            # the name of a column, which a policy means then.
            own = self.columns.key, self.columns.item
            wanted = [
                name
                for name in order.fields
                if (name in names if name in OF_ROWS else name not in own)
            ]
        self.columns = replace(self.columns, metadata=tuple(wanted))

    def _leave_out(self, order: Policy | None) -> None:
        """Give functions no columns that metadata cannot have, such as those of bytes."""
        if order is None or order.fields is not None:
            return
        kept = filter(self._fits_metadata, self.columns.metadata)
        self.columns = replace(self.columns, metadata=tuple(kept))

    def _fits_metadata(self, name: str) -> bool:
        if isinstance(self._read, list):
            return all(arrow.is_json(arrow.plain(row.get(name))) for row in self._read)
        return not arrow.has_bytes(self._read.schema.field(name).type)

    def read_by(self, order: Policy | None) -> Policy | None:
        """Return a policy that compares by value what is no text in this table.

        The columns of the key and of the item, which rows do not have as metadata, are these.
        """
        if order is None:
            return None
        names, item = self.columns.metadata, self.columns.item
        order = order.naming(key=self.columns.key, item=item if isinstance(item, str) else None)
        if isinstance(self._read, list):
            read = arrow.read_by_policy_of(self._read, names)
        else:
            read = arrow.read_by_policy(self._read.schema, names)
        return order.reading(read)

    def of_fields(self, kind: Kind, naming: str = "item") -> _Table:
        """Return the same table with only the fields of a kind for items of several columns.

        Args:
            kind: whose fields these are.
            naming: the argument that names them.

        Raises:
            UsageError: one of them is not among the columns.
        """
        if kind.field_names is None or isinstance(self.columns.item, str):
            return self
        missing = [name for name in kind.field_names if name not in self.columns.item]
        if missing:
            raise UsageError(
                f"the records of the collection have the field {missing[0]!r}, which {naming}= "
                "does not name; a table without it needs an empty column"
            )
        narrowed = copy(self)
        narrowed.columns = replace(self.columns, item=kind.field_names)
        return narrowed

    def of_whole_rows(self, forms: WholeRows) -> _Table:
        """Return the same table with items that are equal only if all their columns are."""
        whole = copy(self)
        whole._forms = forms
        return whole

    def for_whole_rows(self, order: Policy | None) -> Policy | None:
        """Return a policy that sees the columns of a row where its item has become another."""
        if order is None or order.fields is not None or self._forms is None:
            return order
        names = self.columns.item_names()
        metadata = dict.fromkeys((*self.columns.metadata, *names))
        self.columns = replace(self.columns, metadata=tuple(metadata))
        self._leave_out(order)
        known = [name for name in names if name in self.columns.metadata]

        def with_columns(row: Entry) -> Entry:
            fields = row.metadata or {}
            return replace(row, item={name: fields[name] for name in known})

        return order.seeing(with_columns)

    def called(self, names: Sequence[str], *, is_right: bool) -> _Table:
        """Return one of two tables with the columns of its items called as the other's, in turn.

        Raises:
            UsageError: these are more, or fewer.
        """
        own = self.columns.item_names()
        if set(own) == set(names):
            return self
        if len(own) != len(names):
            left, right = (names, own) if is_right else (own, names)
            raise UsageError(
                f"item names {len(left)} columns and right_item {len(right)}: name as many in both"
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
        if isinstance(self._read, list):
            other._read = [{new: row.get(old) for new, old in wanted.items()} for row in self._read]
        else:
            other._read = arrow.library().table(
                {new: self._read[old] for new, old in wanted.items()}
            )
        return other

    def rows(self) -> Iterable[Any]:
        """Return the rows as ``add_many`` takes them."""
        if isinstance(self._read, list):
            rows: Iterable[Any] = arrow.rows_of_dicts(self._read, self.columns)
        elif not self.count:
            rows = ()
        else:
            rows = arrow.Rows(self._read, self.columns)
        return rows if self._forms is None else map(self._whole_row, rows)

    def dates(self) -> list[str]:
        """Return the columns whose type says that the texts of their items are dates."""
        return [] if isinstance(self._read, list) else arrow.dates_of(self._read.schema)

    def _whole_row(self, row: Any) -> Any:
        if not isinstance(row, tuple):  # what is wrong with it
            return row
        key, item, *others = row
        assert self._forms is not None
        return key, whole_row(item, self._forms), *others

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._read)

    @property
    def has_number_keys(self) -> bool:
        """Whether its keys are numbers, as far as can be told."""
        key = self.columns.key
        if key is None:
            return True
        if isinstance(self._read, list):
            return any(not isinstance(row.get(key), str) for row in self._read)
        return not arrow.has_texts(self._read.schema.field(key).type)

    def seed(self) -> int:
        """Return a seed that only the same items give: texts in any table, others in its kind.

        Whoever writes a row to make it collide with others would have to know all of them. SHA-256,
        for which processors have instructions.
        """
        digest = hashlib.sha256()
        for name in self.columns.item_names():
            if isinstance(self._read, list):
                parts: Iterable[Any] = [[row.get(name) for row in self._read]]
            else:
                parts = self._read.column(name).chunks
            sizes, content = hashlib.sha256(), hashlib.sha256()
            for part in parts:
                lengths, values = arrow.bytes_of(part)
                sizes.update(lengths.astype(np.int64).tobytes())
                content.update(values)
            digest.update(sizes.digest() + content.digest())
        return int.from_bytes(digest.digest())

    def select(self, kept: npt.NDArray[np.bool_]) -> Any:
        """Return the rows that are to be kept, in a table of the same kind."""
        if not self._library:
            return list(compress(self._data, kept.tolist()))
        if self._library == "pandas":
            return _rows_of_pandas(self._data, kept)
        if self._library == "polars":
            return self._data[np.flatnonzero(kept)]
        if self._library == "datasets" and hasattr(self._data, "select"):  # no stream of one
            return self._data.select(np.flatnonzero(kept))
        return self._like(arrow.selected(self._read, kept))

    def require_without(self, *names: str) -> None:
        """Raise UsageError if it has a column of such a name already."""
        for name in names:
            if name in self._names:
                raise UsageError(f"the table has a column {name!r} already: rename it")

    def require_column_of(self, keys: set[type[Key]]) -> None:
        """Raise UsageError if a column of this table cannot hold keys of all these types."""
        if self._library and len(keys) > 1:
            raise UsageError(
                "some keys in the store are texts and some are numbers, which one column cannot "
                "hold: show='kept' has no such column, and a list of dicts holds both"
            )

    def with_columns(self, added: dict[str, list[Any]]) -> Any:
        """Return the table with columns more.

        Raises:
            UsageError: it has a column of such a name already.
        """
        self.require_without(*added)
        if not self._library:
            rows = zip(*added.values(), strict=True)
            marks = (dict(zip(added, row, strict=True)) for row in rows)
            return [{**row, **mark} for row, mark in zip(self._data, marks, strict=True)]
        duplicate_of, values = added.values()
        keys = arrow.keys_column(duplicate_of, of_numbers=self.has_number_keys)
        made_columns = keys, arrow.library().array(values, arrow.library().float64())
        columns = arrow.library().table(dict(zip(added, made_columns, strict=True)))
        if self._library == "pandas":
            whole_numbers = sys.modules["pandas"].Int64Dtype()  # which have a null
            made = columns.to_pandas(
                types_mapper=lambda kind: whole_numbers if kind == "int64" else None
            )
            return self._data.assign(**{name: made[name].array for name in added})
        if arrow.is_polars(self._data):
            return self._data.hstack(self._like(columns))
        whole = self._read
        for name in added:
            whole = whole.append_column(name, columns[name])
        if self._library == "datasets" and hasattr(self._data, "select"):
            return self._as_data_set(whole)
        return self._like(whole)

    def _as_data_set(self, made: Any) -> Any:
        """Return a table, of more columns, as a data set of the split, info and format of the data.

        ``add_column`` would write one with an order of its own to the disk first.
        """
        data, info = self._data, self._data.info.copy()
        info.features = None  # which the table knows
        whole, form = type(data)(made, info=info, split=data.split), data.format
        hidden = set(data.column_names) - set(form["columns"])
        return whole.with_format(
            form["type"],
            [name for name in whole.column_names if name not in hidden] if hidden else None,
            form["output_all_columns"],
            **form["format_kwargs"],
        )

    def made_of(self, found: Pairs, *sides: _Table | CollectionView) -> Any:
        """Return pairs of two sides as a table of the same kind."""
        if self._library:
            made = arrow.read(found)
            if not made.num_rows:
                names = made.column_names[2:]  # after both keys, of whatever type
                return self.no_pairs(*sides, beside=made.select(names))
            return self._like(made)
        return [
            {
                **{"left": pair.left, "right": pair.right},
                "similarity" if pair.distance is None else "distance": pair.value,
                **({} if pair.sides is None else {"sides": pair.sides}),
            }
            for pair in found
        ]

    def no_pairs(self, *sides: _Table | CollectionView, beside: Any = None) -> Any:
        """Return no pairs of two sides as a table of the same kind, with others beside keys."""
        if not self._library:
            return []
        columns = {
            name: arrow.keys_column(
                [],
                of_numbers=side.has_number_keys
                if isinstance(side, _Table)
                else has_number_keys(side),
            )
            for name, side in zip(("left", "right"), sides, strict=True)
        }
        if beside is None:
            beside = arrow.table({"similarity": np.empty(0)})
        columns |= {name: beside[name] for name in beside.column_names}
        return self._like(arrow.table(columns))

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


def _rows_of_pandas(frame: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return rows of a frame of pandas, as ``arrow.selected`` does where pyarrow cannot pick."""
    library, whole, apart = arrow.library(), frame.copy(deep=False), {}
    for place, (name, kind) in enumerate(frame.dtypes.items()):
        if hasattr(kind, "pyarrow_dtype"):
            values = frame.iloc[:, place].array
            column = library.chunked_array(library.array(values))
            if not arrow.can_pick(column):
                picked = arrow.selected(library.table({str(name): column}), kept)
                apart[place] = type(values)(picked.column(0))
                whole.isetitem(place, range(len(frame)))  # in its place
    rows = whole[kept]
    for place, values in apart.items():
        rows.isetitem(place, values)
    return rows
