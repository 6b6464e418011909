"""The database: one file with any number of collections."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, Self
from uuid import UUID

from msgspec.structs import replace

from simdb import answers, ingest, kinds, recovery, upkeep
from simdb.arguments import (
    OWNER_MAY,
    require_choice,
    require_function,
    require_mode,
    require_truth,
    require_whole,
    short,
)
from simdb.collection import Collection, CollectionView
from simdb.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    StorageError,
    UnknownKindError,
)
from simdb.exact.thresholds import ThresholdLike
from simdb.kinds.base import plan_request
from simdb.lsh.amplification import Construction
from simdb.lsh.planning import USUAL_RECALL
from simdb.opened import catalogue, labels
from simdb.opened.catalogue import CollectionSettings, GroupMethod
from simdb.opened.opened import Handle
from simdb.opened.request import (
    UNASKED,
    IndexRequest,
    new_settings,
    require_absent,
    require_same,
    settings_by,
)
from simdb.recipe import Recipe, require_recipe
from simdb.results import CheckReport, Problem, Progress, Stats
from simdb.storage.file import creation, preflight
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.file.errors import translated
from simdb.storage.file.preflight import parse_path, resolved_path

SMALLEST_MEMORY = 16 * 2**20
SMALLEST_MAP = 2**20
LARGEST_ADDRESS = 2**47 - 1  # what a process can address
LONGEST_TIMEOUT = int(threading.TIMEOUT_MAX)  # seconds


class Snapshot:
    """One state of a database, for several reads that must agree with each other.

    An open snapshot prevents the pages of its state from being reused, so close it soon. Several
    threads may read in it. What calls read that have begun stays until they return or raise, and
    what iterators read until they end, or are gone: at their next step they end with an error.
    """

    def __init__(self, handle: Handle, transaction: ReadTransaction) -> None:
        self._handle = handle
        self._transaction = transaction

    def collection_names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        with self._handle.read_in(self._transaction), self._transaction.translated():
            return catalogue.names(self._transaction)

    def __getitem__(self, name: str) -> CollectionView:
        """Return the reading half of a collection.

        Raises:
            CollectionNotFoundError: there is none of that name.
        """
        return CollectionView(self._handle, name, self._transaction)

    def __contains__(self, name: object) -> bool:
        """Whether there is a collection of that name."""
        return isinstance(name, str) and name in self.collection_names()

    def __repr__(self) -> str:
        return f"<simdb snapshot of {self._handle.path}>"


class Database:
    """An open store. Made by ``simdb.open``; a context manager that closes it at the end.

    Safe to use from several threads; several processes may have the same file open, one of them
    writing at a time.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # -- opening and closing -----------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file."""
        return self._handle.path

    @property
    def uuid(self) -> UUID:
        """Drawn when the file was made; copies share it."""
        return self._handle.environment.uuid

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._handle.read_only

    def close(self) -> None:
        """Close the store; a second call does nothing.

        Open iterators end with an error at their next step, those over pairs once the batch that
        they have read is used up. Until they end, or are gone, they hold the file, as
        snapshots do. Calls of other threads are completed before the file is released.
        """
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<simdb database {self.path}>"

    # -- collections -------------------------------------------------------------------------

    def collection_names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        with self._handle.read() as transaction:
            return catalogue.names(transaction)

    def __getitem__(self, name: str) -> Collection:
        """Return a collection.

        Raises:
            CollectionNotFoundError: there is none of that name.
        """
        return Collection(self._handle, name, None)

    def __contains__(self, name: object) -> bool:
        """Whether there is a collection of that name."""
        return isinstance(name, str) and name in self.collection_names()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all collections."""
        return iter(self.collection_names())

    def __len__(self) -> int:
        """The number of collections."""
        return len(self.collection_names())

    def __bool__(self) -> bool:
        """Return True: an open store without collections is a store."""
        return True

    def collection(
        self,
        name: str,
        kind: kinds.Kind | None = None,
        *,
        threshold: ThresholdLike | None = "default",
        max_distance: ThresholdLike | None = None,
        recall: ThresholdLike | None = None,
        bands: int | None = None,
        rows: int | None = None,
        sketch: kinds.SketchScheme = "fast",
        seed: int | None = None,
        exact_floor: ThresholdLike | None = None,
        containment: bool = False,
        row_budget: int | None = None,
        false_candidates: ThresholdLike = 1,
        cascade: Construction | None = None,
        compression: Literal["zstd"] | None = None,
        groups: GroupMethod | None = None,
        groups_at: Iterable[ThresholdLike] | None = None,
        recipe: Recipe | None = None,
    ) -> Collection:
        """Open a collection, or create it if there is none of that name.

        Args:
            name: any printable text.
            kind: the kind of its items. Without it the collection must exist, and its own kind is
                meant; without any setting it is opened as it is.
            threshold: the similarity that the probable index is planned for; None for no such
                index. The default is 0.8, and 4/9 for bags whose union adds up the counts. Kinds
                compared by distance have no default.
            max_distance: the distance that the probable index is planned for, for kinds compared
                by distance. Without it there is no index: every answer compares with all items, and
                nothing looks for duplicates (``dedupe``, ``find_duplicates``).
            recall: the share of pairs at the threshold that the index should find; 0.99 by
                default. For bits by Hamming distance the default is 1 (exact answers) where an
                index that misses nothing is as fast and smaller: up to 8 of 64 bits, 15 of 128, 29
                of 256, and some distances of longer ones.
            bands: the number of bands of the index; planned if not given.
            rows: the number of rows of a band; planned if not given.
            sketch: ``"fast"`` similarity sketching, or the ``"classical"`` n hash functions.
            seed: makes all hashes reproducible, and known to everyone who knows the seed. Without
                one the store draws a secret.
            exact_floor: the least threshold that an exact index serves; without it there is none.
            containment: the exact index posts all symbols of every item, not only as many as the
                floor needs. It then serves every threshold and every measure of ``search``.
            row_budget, false_candidates: for the planning, as for ``simdb.plan``: for thresholds so
                low that 128 rows are too few, and for fewer comparisons in vain.
            cascade: a cascade of AND and OR in place of bands and rows, such as
                ``simdb.And(4, simdb.Or(4))``. ``simdb.Or(bands, simdb.And(rows))`` is the same as
                bands and rows (MMDS 3.6.3).
            compression: ``"zstd"`` stores items and metadata compressed, each separately, with a
                dictionary trained on the first batch of 256 KiB or more. Answers do not change.
                Kinds whose items all have one size cannot be compressed.
            groups: keep groups with the items. ``"chain"`` groups whatever pairs connect. In a
                ``"star"`` each item is within the bound of the centre (``Collection.groups``).
                Every commit that changes items also changes the groups, so they are always those
                that ``groups`` would make anew, and each keeps its id (``group_of``, ``group``,
                ``changes``). With a probable index they consist of the pairs that it finds when the
                later item is added.
            groups_at: thresholds, or largest distances, at which groups are kept, none wider than
                the index serves; by default the collection's own bound.
            recipe: the recipe of another collection (``Collection.recipe``, ``simdb.Recipe.of``),
                including its secret. It replaces ``kind`` and all settings but ``compression``,
                ``groups`` and ``groups_at``.

        Raises:
            ConfigurationError: the collection exists with other settings (``rebuild`` changes
                them), or a setting that a recipe contains is given beside it.
            CollectionNotFoundError: the collection does not exist, and no kind is given.
        """
        plan = plan_request(
            recall, false_candidates, bands=bands, rows=rows, row_budget=row_budget, cascade=cascade
        )
        asked = IndexRequest(
            threshold, max_distance, plan, sketch, seed, exact_floor, containment, compression
        )
        how = groups, None if groups_at is None else answers.kept.listed(groups_at), recipe
        if kind is None and recipe is None:
            with self._handle.read() as transaction:
                kind = catalogue.require_settings(transaction, name).kind
            if asked == UNASKED and how == (None, None, None):
                return self[name]
        wanted = _wanted(name, kind, asked, how)
        present = self._present_or_created(wanted, is_planned=recipe is None)
        if recipe is None and recall is None and present.recall == USUAL_RECALL != wanted.recall:
            # Also where a new collection of the kind would have another one.
            plan = replace(plan, is_usual=False)
            wanted = _wanted(name, kind, replace(asked, plan=plan), how)
        require_same(present, wanted, seeded=seed is not None or recipe is not None)
        return self[name]

    def _present_or_created(
        self, wanted: CollectionSettings, *, is_planned: bool
    ) -> CollectionSettings:
        """Return the settings of the collection of a name, which is made if there is none.

        ``is_planned``: they are new, not those of a recipe, which a stored collection may have.
        """
        with self._handle.read() as transaction:
            present = catalogue.settings_of(transaction, wanted.name)
        if present is None:
            if is_planned:
                wanted.kind.require_useful()
            with self._handle.write() as transaction:
                # Another process may have been first.
                present = catalogue.settings_of(transaction, wanted.name)
                present = present or catalogue.create(transaction, wanted)
        return present

    def create_collection(
        self,
        name: str,
        kind: kinds.Kind | None = None,
        *,
        threshold: ThresholdLike | None = "default",
        max_distance: ThresholdLike | None = None,
        recall: ThresholdLike | None = None,
        bands: int | None = None,
        rows: int | None = None,
        sketch: kinds.SketchScheme = "fast",
        seed: int | None = None,
        exact_floor: ThresholdLike | None = None,
        containment: bool = False,
        row_budget: int | None = None,
        false_candidates: ThresholdLike = 1,
        cascade: Construction | None = None,
        compression: Literal["zstd"] | None = None,
        groups: GroupMethod | None = None,
        groups_at: Iterable[ThresholdLike] | None = None,
        recipe: Recipe | None = None,
    ) -> Collection:
        """Create a collection; see ``collection``.

        Raises:
            ConfigurationError: a collection of that name exists.
        """
        plan = plan_request(
            recall, false_candidates, bands=bands, rows=rows, row_budget=row_budget, cascade=cascade
        )
        asked = IndexRequest(
            threshold, max_distance, plan, sketch, seed, exact_floor, containment, compression
        )
        wanted = _wanted(name, kind, asked, (groups, groups_at, recipe))
        with self._handle.read() as transaction:
            require_absent(transaction, name)  # without waiting for who writes
        if recipe is None:
            wanted.kind.require_useful()
        with self._handle.write() as transaction:
            require_absent(transaction, name)  # another process may have been first
            catalogue.create(transaction, wanted)
        return self[name]

    def drop_collection(self, name: str) -> None:
        """Remove a collection and everything in it, and labels of pairs with it.

        It is gone at once. Pages that cannot be freed at that moment, for example in a full map,
        are freed by the next ``compact``, ``rebuild`` or removal.

        Raises:
            CollectionNotFoundError: there is no collection of that name.
        """
        with self._handle.writing() as access:
            with access.write() as transaction:
                catalogue.drop(transaction, name)
                for number in catalogue.numbers(transaction):
                    labels.forget_with(transaction, number, name)
            upkeep.rebuild.clear_up(access)

    def rename_collection(self, name: str, new: str) -> None:
        """Give a collection another name, in one commit.

        Labels of its pairs follow. A ``Collection`` that was opened under the old name then raises
        CollectionNotFoundError, also if another one gets that name; open it under the new name.

        Raises:
            CollectionNotFoundError: there is no collection of that name.
            ConfigurationError: the new name is taken or not valid.
        """
        with self._handle.write() as transaction:
            catalogue.rename(transaction, name, new)
            for number in catalogue.numbers(transaction):
                labels.rename(transaction, number, name, new)

    # -- the whole store ---------------------------------------------------------------------

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Hold one state of the store for several reads: ``with db.snapshot() as state:``."""
        with self._handle.read() as transaction:
            yield Snapshot(self._handle, transaction)

    def stats(self) -> Stats:
        """Return counts, sizes and settings as plain values.

        A collection whose kind is not known here has only its name and the ``problem``.
        """
        found = {
            "path": str(self.path),
            "uuid": str(self.uuid),
            "store": self._handle.environment.statistics(self._handle.busy_timeout),
            "collections": list(self._stats_of_each()),
        }
        return Stats(found)

    def _stats_of_each(self) -> Iterator[dict[str, Any]]:
        for name in self.collection_names():
            with suppress(CollectionNotFoundError):  # dropped meanwhile
                try:
                    yield self[name].stats()
                except UnknownKindError as error:
                    yield {"name": name, "problem": str(error)}

    def check(
        self, *, deep: bool = False, progress: Callable[[Progress], None] | None = None
    ) -> CheckReport:
        """Read the whole store and compare it with its checksums and with itself.

        Args:
            deep: also compute every signature anew from its item.
            progress: called now and then.
        """
        require_function("progress", progress)
        records = 0
        problems: list[Problem] = []
        with self._handle.read() as transaction:
            try:
                names = catalogue.names(transaction)
            except CorruptionError as error:
                return CheckReport(0, (Problem("meta", "", str(error)),))
            problems += (
                Problem("meta", "", told) for told in upkeep.check.store_problems(transaction)
            )
            for name in names:
                try:
                    view = CollectionView(self._handle, name, transaction)
                    report = view.check(deep=deep, progress=progress)
                except (CorruptionError, UnknownKindError) as error:
                    problems.append(Problem("meta", name, str(error)))
                else:
                    records += report.records
                    problems += report.problems
        return CheckReport(records, tuple(problems))

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        compact: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Write a consistent copy of the store, while others read and write.

        Args:
            target: a file that does not exist yet.
            compact: leave out free pages, which makes the copy smaller. Otherwise the copy begins
                between two writes.
            progress: called now and then with the bytes written; the total is not known in advance
                if free pages are left out.

        Raises:
            StorageError: the target exists, or cannot be written.
            DatabaseBusyError: a writer held the store for longer than ``busy_timeout``.
        """
        require_function("progress", progress)

        def told(done: int, whole: int) -> None:
            if progress is not None:
                progress(Progress("copying", done, None if compact else whole))

        with self._handle.use() as environment:
            file = parse_path(target)
            timeout = self._handle.busy_timeout
            environment.copy(file, compact=compact, timeout=timeout, progress=told)

    def dump(
        self,
        folder: str | os.PathLike[str],
        *,
        signatures: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Write the whole store into a new folder of Parquet files, for ``simdb.load``.

        The folder holds items, metadata, labels and settings, but no indexes; a store loaded from
        it gives the same answers. It shows one state of the store, while others read and write. It
        contains the secrets of the collections, so only its owner may read it. NaN, infinities and
        bytes (as hexadecimal) in metadata, which earlier versions took, are written as text.

        Args:
            folder: a folder that does not exist yet; it appears when it is complete.
            signatures: also write the signatures of collections with a probable index, as the bytes
                of a column: ``load`` need not sign the items then. Where the items are signatures
                there is no such column.
            progress: called now and then.

        Raises:
            StorageError: the folder exists, or cannot be written.
            UnknownKindError: this process does not know a kind in the store.
            MissingExtraError: pyarrow is not installed.
        """
        require_truth("signatures", signatures)
        require_function("progress", progress)
        with self._handle.read() as transaction:
            parts = []
            for name in catalogue.names(transaction):
                settings = catalogue.require_settings(transaction, name)
                view = CollectionView(self._handle, name, transaction)
                said = tuple(labels.of_collection(transaction, settings.number))
                with view._opened() as opened:
                    groups = upkeep.regroup.plain_groups(opened)
                signs = signatures and settings.is_probable and not settings.kind.estimates
                parts.append(
                    recovery.dump.DumpedPart(
                        settings,
                        *(len(view), view.items, said, groups),
                        view.signatures if signs else None,
                    )
                )
            recovery.dump.write(parse_path(folder), parts, progress)

    def compact(
        self, *, progress: Callable[[Progress], None] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Compact every collection; see ``Collection.compact``.

        Raises:
            UnknownKindError: this process does not know the kind of one; all others are compacted.
        """
        require_function("progress", progress)
        with self._handle.writing() as access:
            # What is left of removed collections has none that would do it.
            upkeep.rebuild.collect_garbage(access)
        done: dict[str, dict[str, Any]] = {}
        unknown: UnknownKindError | None = None
        for name in self.collection_names():
            try:
                done[name] = self[name].compact(progress=progress)
            except CollectionNotFoundError:
                continue  # dropped meanwhile
            except UnknownKindError as error:
                unknown = unknown or error
        if unknown is not None:
            raise unknown
        return done


def open_database(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    sync: Literal["full", "batch"] = "full",
    busy_timeout: float | None = 10.0,
    threads: int | None = None,
    memory: int = 2**30,
    map_size: int | None = None,
    mode: int | None = None,
    untrusted: bool = False,
) -> Database:
    """Open a store, creating the file if there is none.

    Args:
        path: the file. LMDB keeps its lock file beside it (``-lock``), simdb another (``-turn``).
        read_only: do not write; the file must exist.
        sync: ``"full"``: a commit that has returned survives power loss. ``"batch"`` is faster, but
            a power loss may lose the last commit, and none before it. Neither loses anything when
            the process is killed.
        busy_timeout: seconds to wait for another writer; None waits for ever. The first read after
            a fork waits for one, too, unless the store was opened with ``read_only``.
        threads: threads for bulk work; by default as many as there are processors.
        memory: bytes that bulk work may take, whatever the number of items, in addition to the map.
        map_size: bytes of address space to reserve, and of the file that items may fill; what is
            deleted in a full one may take a twentieth more, from 4 MiB to 1 GiB. One that was full
            takes fewer items from then on, as few as half, though all are deleted; a copy by
            ``backup(compact=True)``, restored, takes all again. By default as much as the system
            gives, up to 1 TiB.
        mode: permissions of a new file, at least for the owner, such as 0o600; by default 0o644
            less the umask. The files beside it get the same.
        untrusted: the file may be damaged, or made to do harm. Before it is opened, its pages are
            verified, and a child process reads all of it as ``check(deep=True)`` does.

    A process has a file open once, whatever ``open`` is called for it: all callers share ``sync``
    and ``map_size``, and if the first opens it with ``read_only``, no later one may write. One that
    may write can be opened with ``read_only`` besides.

    Raises:
        ConfigurationError: an argument is wrong; or the file is open in this process with another
            ``sync`` or ``map_size``, or, if this call is to write, with ``read_only`` alone.
        WrongTypeError: ``read_only`` or ``untrusted`` is neither True nor False.
        DatabaseNotFoundError: no such file with ``read_only``, or no such folder.
        NotADatabaseError: the file is not a store.
        FormatVersionError: the file has another format.
        CorruptionError: the file is damaged.
        StorageError: it may not be read here; or, with ``untrusted``, not be verified: for want of
            memory, say.
        MissingExtraError: with ``untrusted``: a kind in it needs a library that is not installed.
        DatabaseBusyError: without ``read_only``: another writer held the store for longer than
            ``busy_timeout``.
    """
    require_choice("sync", sync, "full", "batch")
    read_only = require_truth("read_only", read_only)
    untrusted = require_truth("untrusted", untrusted)
    is_number = isinstance(busy_timeout, int | float) and not isinstance(busy_timeout, bool)
    if busy_timeout is not None and not (is_number and 0 <= busy_timeout <= LONGEST_TIMEOUT):
        raise ConfigurationError(
            f"busy_timeout must be between 0 and {LONGEST_TIMEOUT:,} seconds, or None to wait for "
            f"ever, not {short(busy_timeout)}"
        )
    threads, memory = _resources(threads, memory)
    map_size = require_whole("map_size", map_size, SMALLEST_MAP, LARGEST_ADDRESS)
    mode = require_mode(mode)
    file = resolved_path(path)
    if untrusted and file.exists():
        recovery.untrusted.require_sound(file)
    handle = Handle(
        file,
        read_only=read_only,
        sync=sync,
        busy_timeout=busy_timeout,
        threads=threads,
        memory=memory,
        map_size=map_size,
        mode=mode,
    )
    return Database(handle)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file where a store may be; errors of the path as of ``open_database``."""
    return parse_path(path).exists()


def open_throwaway(path: Path, *, threads: int | None = None, memory: int = 2**30) -> Database:
    """Open a new store that is deleted before long: after a power cut it may be unreadable.

    Nothing of it is synced; threads and memory are as for ``open_database``.
    """
    threads, memory = _resources(threads, memory)
    return Database(Handle(path, sync="never", threads=threads, memory=memory))


def _resources(threads: int | None, memory: int) -> tuple[int, int]:
    """Return the threads and the memory that are asked for; ConfigurationError: too few."""
    asked = require_whole("threads", threads, 1)
    least = require_whole("memory", memory, SMALLEST_MEMORY, optional=False)
    return asked or len(os.sched_getaffinity(0)), least


def load(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    signatures: bool = True,
    threads: int | None = None,
    memory: int = 2**30,
    mode: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Make a store from a folder that ``Database.dump`` wrote; it gives the same answers.

    Keys, items, metadata, labels, settings, secrets and the order of insertion are those of the
    dump. The numbers of items are new, so earlier tokens and checkpoints are not valid. Unless
    ``mode`` says otherwise, who may not read the folder may not read the store.

    Args:
        folder: the folder with ``simdb.json``.
        path: the new store; it appears when it is complete.
        signatures: take those of the folder, if it has some, as ``add_many(signature=)`` does: the
            first of each batch is compared with its item's; or sign all items anew.
        threads: threads that sign; by default as many as there are processors.
        memory: bytes that this may take, whatever the number of items, in addition to the map.
        mode: permissions of the new store, as for ``open``.
        progress: called now and then.

    Raises:
        StorageError: the folder is not a dump, or is damaged; or its signatures are not those that
            the items have here; or the store exists.
        FormatVersionError: a newer version wrote the folder.
        UnknownKindError: this process does not know a kind, or a tokeniser, in the folder.
        MissingExtraError: pyarrow is not installed.
    """
    require_truth("signatures", signatures)
    require_function("progress", progress)
    mode = require_mode(mode)
    target = parse_path(path)
    if target.exists():
        raise StorageError(f"{target} already exists; name a new file")
    source = parse_path(folder)
    collections = recovery.dump.read(source)
    may = [preflight.file_mode(one) for one in (source, source / "simdb.json")]
    with creation.temporary_beside(target) as temporary:
        with translated(target):  # whose errors name it, and not what is made in its place
            creation.create(temporary, mode)
        with open_database(temporary, threads=threads, memory=memory) as database:
            if mode is None:  # before the secrets are in it
                temporary.chmod(preflight.file_mode(temporary) & (may[0] & may[1] | OWNER_MAY))
            for one in collections:
                with database._handle.write() as transaction:
                    made = catalogue.create(transaction, replace(one.settings, groups=None))
                    labels.put(transaction, made.number, one.labels)
                filled = database[one.settings.name]
                given = one.given() if signatures else None
                with (
                    one.rows_refused(),
                    one.signatures_refused() if given is not None else nullcontext(),
                ):
                    filled._load(
                        filled._known,
                        ingest.add.AddPolicy(),
                        one.rows(given),
                        progress=_of_total(progress, one.count),
                        given=given,
                    )
                if len(filled) != one.count:
                    raise StorageError(
                        f"{one.file} has {len(filled):,} items, not {one.count:,} as dumped"
                    )
                if one.groups is not None:
                    kept = replace(made, groups=one.settings.groups)
                    with database._handle.writing() as access, recovery.dump.translated(one.file):
                        upkeep.regroup.restore_groups(access, kept, one.groups)
        creation.link_into_place(temporary, target)


def _of_total(
    progress: Callable[[Progress], None] | None, total: int
) -> Callable[[Progress], None] | None:
    """Return what tells progress, if anything does, with the total that is known of the rows."""
    if progress is None:
        return None
    return lambda now: progress(replace(now, total=total))


def _wanted(
    name: str,
    kind: kinds.Kind | None,
    asked: IndexRequest,
    how: tuple[GroupMethod | None, Iterable[ThresholdLike] | None, Recipe | None],
) -> CollectionSettings:
    """Return the settings of a new collection: those asked for, or those of a recipe.

    ``how``: which groups it keeps, at which bounds, and that recipe.
    """
    groups, bounds, recipe = how
    if recipe is None:
        made = new_settings(name, kind, asked)
    elif kind is not None or asked != replace(UNASKED, compression=asked.compression):
        raise ConfigurationError(
            "a recipe contains the kind and all settings: leave the other arguments out, or make "
            "another recipe for other settings (simdb.Recipe.of)"
        )
    else:
        made = settings_by(require_recipe(recipe), name, asked.compression)
    if groups is None and bounds is None:
        return made
    return replace(made, groups=answers.kept.kept_groups_of(made, groups, bounds))
