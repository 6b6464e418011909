"""Collections: items of one kind, indexed for one threshold, in one store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from simdb import config, engine
from simdb.datatypes import (
    AddReport,
    Key,
    Outcome,
    Progress,
)
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    KeyNotFoundError,
    SimdbError,
    UsageError,
    WrongTypeError,
)
from simdb.exact.thresholds import Bound, ThresholdLike
from simdb.storage.tables.keys import encode_user_key
from simdb.views import CollectionView

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from simdb.ingest.add import AddPolicy
    from simdb.opened.catalogue import CollectionSettings
    from simdb.storage.file.environment import Environment

DELETED_AT_ONCE = 10_000
OnExisting = Literal["error", "skip", "replace"]
OnDuplicate = Literal["keep", "skip"]
OnBad = Literal["error", "skip"]


class Collection(CollectionView):
    """A collection of a database.

    Reading methods see the last commit, or a snapshot of it for as long as they iterate. Every
    writing method is durable when it returns.
    """

    # -- adding ------------------------------------------------------------------------------

    def add(
        self,
        key: Key,
        item: object,
        *,
        metadata: dict[str, Any] | None = None,
        on_existing: OnExisting = "error",
        on_duplicate: OnDuplicate = "keep",
        find_duplicates: bool = False,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> Outcome:
        """Store an item under a key, in one durable transaction.

        Args:
            key: str or whole number; 1 and "1" are different keys.
            item: what to store.
            metadata: anything JSON-like, given back by ``get``.
            on_existing: ``"error"``, ``"skip"`` or ``"replace"`` if the key is stored.
            on_duplicate: ``"skip"`` does not store an item that is similar to a stored one.
            find_duplicates: say what the item duplicates, though it is stored.
            threshold: what is similar enough; the collection's if not given.
            max_distance: the same, where the collection measures distances.

        Returns:
            What was done; ``duplicate_of`` and ``similarity`` if it was looked for and found.

        Raises:
            KeyExistsError: the key is stored, and ``on_existing`` is ``"error"``.
            BadItemError, WrongTypeError: the key, the item or the metadata cannot be stored.
        """
        outcomes: list[Outcome] = []
        with _plain_errors():
            self.add_many(
                [(key, item, metadata)],
                on_existing=on_existing,
                on_duplicate=on_duplicate,
                find_duplicates=find_duplicates,
                threshold=threshold,
                max_distance=max_distance,
                outcomes=outcomes.extend,
            )
        return outcomes[0]

    def add_many(
        self,
        rows: Iterable[Any],
        *,
        on_existing: OnExisting = "error",
        on_duplicate: OnDuplicate = "keep",
        on_bad: OnBad = "error",
        find_duplicates: bool = False,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        progress: Callable[[Progress], None] | None = None,
        outcomes: Callable[[Sequence[Outcome]], None] | None = None,
    ) -> AddReport:
        """Store many items, in batches that are one durable transaction each.

        Memory is bounded by the database's setting, whatever the number of rows. If the work ends
        early, all batches before are stored; with ``on_existing="skip"`` it can be run again.

        Args:
            rows: (key, item) or (key, item, metadata) each; any iterable.
            on_existing: what a key that is stored already means.
            on_duplicate: ``"skip"`` does not store rows similar to a stored item or to an earlier
                row.
            on_bad: ``"error"`` ends the work at a row that cannot be stored, ``"skip"`` leaves it
                out and reports it.
            find_duplicates: report what rows duplicate, though they are stored.
            threshold: what is similar enough; the collection's if not given.
            max_distance: the same, where the collection measures distances.
            progress: called after every batch.
            outcomes: called after every batch with one ``Outcome`` for each of its rows.

        Raises:
            KeyExistsError, BadItemError: a row cannot be stored; ``row`` says which, from 0.
        """
        _require_choice("on_existing", on_existing, ("error", "skip", "replace"))
        _require_choice("on_duplicate", on_duplicate, ("keep", "skip"))
        looks = find_duplicates or on_duplicate == "skip"
        policy = engine.indexing.AddPolicy(
            on_existing=on_existing,
            bound=self._duplicate_bound(threshold, max_distance) if looks else None,
            drop_duplicates=on_duplicate == "skip",
            skip_bad=_skips_bad(on_bad),
        )
        return self._load(rows, policy, progress, outcomes)

    def dedupe(
        self,
        rows: Iterable[Any],
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        on_bad: OnBad = "error",
        progress: Callable[[Progress], None] | None = None,
        outcomes: Callable[[Sequence[Outcome]], None] | None = None,
    ) -> AddReport:
        """Store the rows that are similar to nothing kept before them.

        A row is dropped if it is similar enough to a row *kept* before it: to a stored item first,
        then to an earlier row. A row whose key is stored with equal content is itself and is kept,
        so running the same input again gives the same answer. How the input is cut into batches,
        threads and interruptions change nothing.

        Args:
            rows: (key, item) or (key, item, metadata) each.
            threshold: what is similar enough; the collection's if not given.
            max_distance: the same, where the collection measures distances.
            on_bad: as in ``add_many``; a key stored with other content is bad.
            progress: called after every batch.
            outcomes: called after every batch with one ``Outcome`` for each of its rows:
                ``"added"`` or ``"present"`` rows are kept, ``"duplicate"`` ones dropped.
        """
        policy = engine.indexing.AddPolicy(
            on_existing="same",
            bound=self._duplicate_bound(threshold, max_distance),
            drop_duplicates=True,
            skip_bad=_skips_bad(on_bad),
        )
        return self._load(rows, policy, progress, outcomes)

    def _duplicate_bound(
        self, threshold: ThresholdLike | None, max_distance: ThresholdLike | None
    ) -> Bound:
        with self._reading() as transaction:
            settings = self._refresh(transaction).settings
        bound = engine.kinds.parse_bound(settings.kind, threshold, max_distance)
        return engine.serving.serve(settings, bound, None, "auto", adding=True).bound

    def _load(
        self,
        rows: Iterable[Any],
        policy: AddPolicy,
        progress: Callable[[Progress], None] | None,
        outcomes: Callable[[Sequence[Outcome]], None] | None,
    ) -> AddReport:
        with self._writing() as environment:
            # Should they have changed since, the adder notices within its transaction.
            stored, settings, signer = self._known
            adder = engine.indexing.BatchAdder(
                environment,
                stored,
                settings,
                signer,
                policy=policy,
                busy_timeout=self._handle.busy_timeout,
            )
            return engine.loading.load(
                rows,
                signer,
                adder,
                pool=self._pool(),
                memory=self._handle.memory,
                skip_bad=policy.skip_bad,
                progress=progress,
                outcomes=outcomes,
            )

    def _pool(self) -> Executor | None:
        return self._handle.pool()

    # -- changing ----------------------------------------------------------------------------

    def replace(self, key: Key, item: object, *, metadata: dict[str, Any] | None = None) -> None:
        """Store another item under a stored key, in one durable transaction.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        encode_user_key(key)  # says what is wrong with one that cannot be stored
        policy = engine.indexing.AddPolicy(
            on_existing="require", bound=None, drop_duplicates=False, skip_bad=False
        )
        with _plain_errors():
            self._load([(key, item, metadata)], policy, None, None)

    def delete(self, key: Key) -> None:
        """Delete an item, in one durable transaction.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        self.delete_many([key])

    def delete_many(
        self, keys: Iterable[Key], *, missing: Literal["error", "skip"] = "error"
    ) -> int:
        """Delete many items, in batches that are one durable transaction each.

        Args:
            keys: any iterable, also one over this collection's own items or pairs.
            missing: ``"skip"`` passes over keys that are not stored.

        Returns:
            How many were deleted.

        Raises:
            KeyNotFoundError: a key is not stored; nothing of its batch is deleted.
        """
        _require_choice("missing", missing, ("error", "skip"))
        deleted = 0
        for batch in _distinct_batches(keys):
            with self._writing() as environment:
                absent = engine.indexing.delete_keys(
                    environment,
                    self._name,
                    [encoded for encoded, _ in batch],
                    self._handle.busy_timeout,
                    all_or_nothing=missing == "error",
                )
            if absent and missing == "error":
                before = f"; {deleted:,} items of earlier batches were deleted" if deleted else ""
                raise KeyNotFoundError(
                    f"key {batch[absent[0]][1]!r} is not stored in {self._name!r}{before}"
                )
            deleted += len(batch) - len(absent)
        return deleted

    # -- maintaining -------------------------------------------------------------------------

    def compact(self, *, progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
        """Merge all runs and drop everything that belongs to deleted items, in bounded steps.

        Others may read and write meanwhile. The file does not shrink; its free pages are used
        again. ``Database.backup(compact=True)`` writes a smaller copy.
        """
        with self._writing() as environment:
            with self._reading() as transaction:
                signer = self._refresh(transaction).signer
            return engine.maintaining.compact(
                environment, signer, self._handle.busy_timeout, progress
            )

    def rebuild(
        self,
        kind: config.Kind | None = None,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        recall: ThresholdLike | None = None,
        bands: int | None = None,
        rows: int | None = None,
        sketch: config.SketchScheme | None = None,
        seed: int | None = None,
        exact_floor: ThresholdLike | None = None,
        containment: bool | None = None,
        drop_exact: bool = False,
        drop_probable: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Index all stored items anew under other settings, in bounded steps.

        What is not given stays; bands and rows are planned anew unless both are given. Others may
        read and write meanwhile, and see the old index until one transaction switches.

        Args:
            kind: what the items are; the same kind with other settings.
            threshold, max_distance, recall, bands, rows, sketch: of the probable index, which a
                threshold or a distance adds
                where there is none.
            seed: of all hashes.
            exact_floor: of the exact index, which a floor adds where there is none.
            containment: whether the exact index posts all symbols.
            drop_exact: leave the exact index out.
            drop_probable: leave the probable index out.
            progress: called now and then.
        """
        with self._reading() as transaction:
            present = self._refresh(transaction)
        settings = engine.settings.changed_settings(
            present.settings,
            kind=kind,
            threshold=threshold,
            max_distance=max_distance,
            recall=recall,
            bands=bands,
            rows=rows,
            sketch=sketch,
            seed=seed,
            exact_floor=exact_floor,
            containment=containment,
            drop_exact=drop_exact,
            drop_probable=drop_probable,
        )
        with self._writing() as environment, self._told_which_settings(present.settings):
            engine.maintaining.rebuild(
                environment,
                settings,
                pool=self._pool(),
                memory=self._handle.memory,
                busy_timeout=self._handle.busy_timeout,
                progress=progress,
            )

    @contextmanager
    def _told_which_settings(self, before: CollectionSettings) -> Iterator[None]:
        """Let an interruption (Ctrl-C) say whether the settings are still those of before."""
        try:
            yield
        except KeyboardInterrupt:
            now = None
            with suppress(SimdbError), self._reading() as transaction:
                now = engine.catalogue.settings_of(transaction, self._name)
            if now is None:
                raise
            which = "old" if now == before else "new"
            told = f"interrupted; the collection has its {which} settings"
            raise KeyboardInterrupt(told) from None

    @contextmanager
    def _writing(self) -> Iterator[Environment]:
        with self._handle.use() as environment:
            self._handle.require_writable()
            yield environment


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise what was wrong with a single item as what it is: there are no rows to tell apart."""
    try:
        yield
    except BadItemError as error:
        if isinstance(error.__cause__, UsageError | TypeError):
            raise error.__cause__ from error.__cause__.__cause__
        raise BadItemError(error.problem.removeprefix("row 0: ")) from error.__cause__


def _distinct_batches(keys: Iterable[Key]) -> Iterator[list[tuple[bytes, Key]]]:
    if isinstance(keys, str | bytes):
        raise WrongTypeError("keys must be an iterable of keys, not one text")
    batch: dict[bytes, Key] = {}
    for key in keys:
        batch.setdefault(encode_user_key(key), key)
        if len(batch) >= DELETED_AT_ONCE:
            yield list(batch.items())
            batch = {}
    if batch:
        yield list(batch.items())


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _skips_bad(on_bad: OnBad) -> bool:
    _require_choice("on_bad", on_bad, ("error", "skip"))
    return on_bad == "skip"
