"""The collections of a store: their settings, their creation, and what is left to remove."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from simdb.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    Remedy,
    StorageError,
    UnknownKindError,
    UnknownTokeniserError,
    WrongTypeError,
)
from simdb.exact.thresholds import Bound, Threshold
from simdb.kinds import Items, Kind, SketchScheme, restore
from simdb.lsh.cascades import Cascade, CascadeFamily
from simdb.lsh.family import Family
from simdb.lsh.planning import Plan
from simdb.storage.collection.manifest import EpochManifest, ExactManifest, IndexManifest, Manifest
from simdb.storage.collection.reader import CollectionReader, stored_settings
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import RunDirectory

SECRET_BYTES = 32
_COLLECTION_TABLES = (Table.DOCUMENTS, Table.KEYS, Table.MARKS, Table.ITEMS)
_COLLECTIONS, _OWNERS = 0, 1  # what is numbered: collections; indexes and epochs
BYTES_A_WORD = 2  # of a stored signature
COMPRESSIONS = ("zstd",)
_QUOTIENT = re.compile(r"[0-9]+(/[0-9]+)?")  # as fractions are stored


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """What a collection is: fixed when it is made, changed only by ``rebuild``."""

    name: str
    number: int
    kind: Kind
    # What its probable index is planned for: a similarity or distance, the floor of the exact index
    # if there is only that, and the share of pairs there that it is to find.
    threshold: Fraction
    recall: Fraction
    bands: int  # 0 without a probable index, as rows
    rows: int
    sketch: SketchScheme
    secret: bytes  # key of all hashes; drawn at random unless a seed was given
    unicode_version: str  # of the Python that made it; classes of newer characters may differ
    exact_floor: Fraction | None = None  # least threshold of the exact index; None without one
    containment: bool = False  # it posts all symbols, and serves every threshold and measure
    finds_equal: bool = False  # equal items share a bucket, though the family has none for them
    key_sources: tuple[str, ...] = ()  # where the keys of the rows come from, if anyone has said
    cascade: Cascade | None = None  # in which of its bands items must agree, if not any one
    compression: str | None = None  # of documents: one of COMPRESSIONS; None without
    # How questions are answered under them; see answers/choose.py. Not part of the settings.
    methods: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_probable(self) -> bool:
        """Whether there is a probable index."""
        return self.bands > 0

    @property
    def is_complete(self) -> bool:
        """Whether that misses nothing within the bound it is planned for."""
        return self.is_probable and self.kind.misses_nothing(self.recall)

    @property
    def is_exact(self) -> bool:
        """Whether there is an exact index."""
        return self.exact_floor is not None

    @property
    def bound(self) -> Bound:
        """What its probable index is planned for, as indexes work with it."""
        return self.kind.bound_of(self.threshold)

    @property
    def posted_floor(self) -> Threshold | None:
        """The floor that says how much of a set the exact index posts; None for all of it."""
        if self.exact_floor is None or self.containment:
            return None
        return Threshold(self.exact_floor)

    @property
    def plan(self) -> Plan:
        """The banding with its S-curve; ConfigurationError if there is no probable index."""
        if not self.is_probable:
            problem = f"collection {self.name!r} has no probable index"
            raise ConfigurationError(problem, remedies=[self.kind.index_remedy(self.threshold)])
        make_curve = self.kind.make_complete_curve if self.is_complete else self.kind.make_curve
        curve = make_curve(self.threshold)
        return Plan(self.threshold, self.bands, self.rows, curve, self.cascade)

    def expected_recall(self, bound: Bound) -> float:
        """Return the share of the pairs at a bound that the probable index finds."""
        return self.plan.expected_recall(bound.fraction)

    def make_items(self) -> Items:
        """The codec of its items; UnknownTokeniserError names the collection too."""
        try:
            return self.kind.make_items(self.secret)
        except UnknownTokeniserError as error:
            raise UnknownTokeniserError(
                error.name, error.version, f"collection {self.name!r} cannot be used: "
            ) from error

    def family(self) -> Family | None:
        """Return the locality-sensitive family of the probable index; None without one."""
        if not self.is_probable:
            return None
        if self.is_complete:
            return self.kind.make_complete_family(
                self.threshold, bands=self.bands, rows=self.rows, secret=self.secret
            )
        family = self.kind.make_family(
            self.threshold,
            bands=self.bands,
            rows=self.rows,
            sketch=self.sketch,
            secret=self.secret,
        )
        if self.cascade is not None:
            return CascadeFamily(family, self.cascade)
        return self.kind.finding_equals(family) if self.finds_equal else family

    @property
    def expected_keys(self) -> int:
        """About how many bucket keys an item has, by which merges are paced."""
        if self.cascade is not None:
            return self.cascade.key_count
        return self.kind.expected_keys(self.bands)

    @property
    def most_keys(self) -> int:
        """How many bucket keys an item has at most, by which batches are cut."""
        if self.cascade is not None:
            return self.cascade.key_count
        return self.kind.most_keys(self.bands, self.rows)

    def require_possible_banding(self) -> None:
        """Raise ValueError for a banding that planning never gives: it would take memory."""
        bands, rows = self.bands, self.rows
        whole = type(bands) is int and type(rows) is int
        if not whole or not (bands == rows == 0 or self.kind.can_have(bands, rows)):
            kind = type(self.kind).__name__
            raise ValueError(f"no index of {kind} has {bands!r} bands of {rows!r} rows")
        if self.cascade is not None and (bands, rows) != (self.cascade.atoms, self.cascade.rows):
            raise ValueError(f"no cascade {self.cascade} has {bands} bands of {rows} rows")

    def require_possible_bounds(self) -> None:
        """Raise ValueError for bounds and schemes that nothing is planned for."""
        floor, largest = self.exact_floor, Fraction(1)
        if self.kind.is_distance:
            largest = self.kind.largest_distance
        elif not self.threshold:
            raise ValueError("the threshold is 0")
        if not self.threshold <= largest or not 0 < self.recall <= 1:
            raise ValueError(f"nothing is planned for {self.threshold} and recall {self.recall}")
        if floor is not None and not (self.kind.has_symbols and 0 < floor <= 1):
            raise ValueError(f"no exact index of {type(self.kind).__name__} has the floor {floor}")
        if self.sketch not in ("fast", "classical") or not isinstance(self.secret, bytes):
            raise ValueError(f"sketches {self.sketch!r} with such a secret are not known")

    def require_known_compression(self) -> None:
        """Raise ValueError for a compression of another version."""
        if self.compression not in (None, *COMPRESSIONS):
            raise ValueError(f"this version knows no compression {self.compression!r}")

    def encode(self) -> bytes:
        """Return the payload of the settings record."""
        parts = [part.name for part in fields(self) if part.init and part.name != "name"]
        stored = {part: getattr(self, part) for part in parts}
        stored["kind"] = self.kind.describe()
        floor = [] if self.exact_floor is None else ["exact_floor"]
        for part in ("threshold", "recall", *floor):
            stored[part] = str(stored[part])
        if self.cascade is not None:
            stored["cascade"] = self.cascade.encode()
        for later in ("finds_equal", "key_sources", "cascade", "compression"):
            if not stored[later]:  # as in what was made before there was this setting
                del stored[later]
        return layout.pack(stored)

    @classmethod
    def decode(cls, name: str, payload: bytes) -> CollectionSettings:
        """Read what ``encode`` stored; CorruptionError if this version does not know it."""
        stored = layout.unpack(payload)
        try:
            stored["kind"] = restore(stored["kind"])
            floor = [] if stored["exact_floor"] is None else ["exact_floor"]
            for part in ("threshold", "recall", *floor):
                stored[part] = _fraction(stored[part])
            stored["key_sources"] = tuple(map(str, stored.get("key_sources", ())))
            if "cascade" in stored:
                stored["cascade"] = Cascade.decode(stored["cascade"])
            settings = cls(name=name, **stored)
            settings.require_possible_banding()
            settings.require_possible_bounds()
            settings.require_known_compression()
        except UnknownKindError as error:
            raise UnknownKindError(error.name, f"collection {name!r} cannot be used: ") from error
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptionError(
                f"the settings of collection {name!r} cannot be read: {error}"
            ) from error
        return settings


def _fraction(stored: str) -> Fraction:
    if not _QUOTIENT.fullmatch(stored):  # 1e999999999 would be computed
        raise ValueError(f"{stored[:60]!r} is no fraction")
    return Fraction(stored)


def secret_of(seed: int | None) -> bytes:
    """Return a secret: random, or the same one for the same seed."""
    if seed is None:
        return os.urandom(SECRET_BYTES)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ConfigurationError(f"seed must be a whole number or None, not {seed!r}")
    import hashlib

    return hashlib.blake2b(str(seed).encode(), person=b"simdb seed", digest_size=32).digest()


def check_name(name: object) -> str:
    """Return a collection's name; ConfigurationError if it is empty, too long or not printable."""
    if not isinstance(name, str):
        raise WrongTypeError(f"a collection's name must be str, not {type(name).__name__}")
    if not name or not name.isprintable() or len(name.encode()) > layout.LONGEST_NAME:
        raise ConfigurationError(
            f"a collection's name must be 1 to {layout.LONGEST_NAME} bytes of printable text, "
            f"not {name[:60]!r}"
        )
    return name


# -- reading -----------------------------------------------------------------------------------


def settings_of(transaction: ReadTransaction, name: str) -> CollectionSettings | None:
    """Return the settings of a collection, or None if there is none of that name."""
    stored = stored_settings(transaction, name)
    return None if stored is None else CollectionSettings.decode(name, stored)


def require_settings(transaction: ReadTransaction, name: str) -> CollectionSettings:
    """Return the settings of a collection; CollectionNotFoundError says which ones there are."""
    settings = settings_of(transaction, check_name(name))
    if settings is None:
        known = ", ".join(repr(known) for known in names(transaction)) or "none yet"
        raise CollectionNotFoundError(f"there is no collection {name!r} (there are: {known})")
    return settings


def present_settings(
    transaction: ReadTransaction, before: CollectionSettings
) -> CollectionSettings:
    """Return the settings of a collection that were others before, as after a rebuild.

    CollectionNotFoundError: it was dropped; ConfigurationError if one of another kind has its name.
    """
    present = require_settings(transaction, before.name)
    if present.number != before.number and present.kind != before.kind:
        raise ConfigurationError(
            f"collection {before.name!r} of {before.kind} was dropped; the one of that name is of "
            f"{present.kind}: open that one"
        )
    return present


def require_unchanged(
    transaction: ReadTransaction, before: CollectionSettings
) -> CollectionSettings:
    """Return the present settings, which may have noted since where keys come from.

    StorageError if anything else of them has changed while a rebuild was at work.
    """
    now = require_settings(transaction, before.name)
    if now != replace(before, key_sources=now.key_sources):
        raise StorageError(
            f"the rebuild was cancelled: collection {before.name!r} was rebuilt, or dropped and "
            "made anew, meanwhile; run it again"
        )
    return now


def names(transaction: ReadTransaction) -> list[str]:
    """Return the names of all collections, sorted."""
    found = transaction.scan(Table.META, layout.COLLECTION_PREFIX)
    return sorted(bytes(key[1:]).decode() for key, _ in found)


# -- changing ----------------------------------------------------------------------------------


def create(transaction: WriteTransaction, settings: CollectionSettings) -> CollectionSettings:
    """Store a new, empty collection under the next number."""
    manifests = transaction.scan(Table.META, layout.MANIFEST_PREFIX)
    taken = [int.from_bytes(key[1:5], "big") for key, _ in manifests]
    number = _new_numbers(transaction, _COLLECTIONS, taken)
    settings = replace(settings, number=number)
    write_settings(transaction, settings)
    state = Manifest(
        next_number=0,
        live=0,
        tombstones=0,
        item_bytes=0,
        changes=0,
        index=new_index(transaction, settings),
        item_width=settings.make_items().width,
    )
    _store(transaction, layout.manifest_key(number), state.encode())
    return settings


def write_settings(transaction: WriteTransaction, settings: CollectionSettings) -> None:
    """Store the settings of a collection."""
    _store(transaction, layout.collection_key(settings.name), settings.encode())


def note_key_source(
    transaction: WriteTransaction, settings: CollectionSettings, source: str, *, also: bool
) -> None:
    """Note where keys come from; see ``Collection.note_key_source``."""
    known = settings.key_sources
    if source in known:
        return
    if not CollectionReader(transaction, settings.number).manifest.live:
        known = ()
    if known and not also:
        raise ConfigurationError(
            f"the keys in the collection {settings.name!r} come from {' and '.join(known)}, and "
            f"those of these rows from {source}",
            remedies=[Remedy("also", value=True, effect="takes both", method="note_key_source")],
        )
    write_settings(transaction, replace(settings, key_sources=(*known, source)))


def _store(transaction: WriteTransaction, key: bytes, payload: bytes) -> None:
    transaction.put(Table.META, key, layout.seal(Table.META, key, payload))


def _load(transaction: ReadTransaction, key: bytes) -> list[Any]:
    value = transaction.get(Table.META, key)
    return [] if value is None else layout.unpack(layout.unseal(Table.META, key, value))


def new_index(transaction: WriteTransaction, settings: CollectionSettings) -> IndexManifest:
    """Return an empty index under a number that no index has had.

    The numbers of its runs begin past those of any index that had the number under an earlier
    version of simdb, since addresses are cached by them: the number of the commit grows for ever,
    and no commit makes as many runs as are left between two.
    """
    number = new_owners(transaction, 1 + settings.is_exact)
    family = settings.family()
    index = IndexManifest(
        number=number,
        signature_width=0 if family is None else family.words * BYTES_A_WORD,
        entries_per_item=settings.expected_keys,
        bands=RunDirectory(next_number=transaction.identity << 8),
    )
    if settings.is_exact:
        index.exact = ExactManifest(new_epoch(transaction, number + 1))
    return index


def new_epoch(transaction: ReadTransaction, number: int) -> EpochManifest:
    """Return an empty epoch; its runs are numbered as those of a new index are."""
    return EpochManifest(number, postings=RunDirectory(next_number=transaction.identity << 8))


def new_owners(transaction: WriteTransaction, count: int, *others: IndexManifest) -> int:
    """Return the first of some new numbers of indexes and epochs; ``others`` are not stored yet."""
    stored = [
        Manifest.decode(layout.unseal(Table.META, bytes(key), value)).index
        for key, value in transaction.scan(Table.META, layout.MANIFEST_PREFIX)
    ]
    taken = [owner for index in (*stored, *others) for owner in index.owners]
    return _new_numbers(transaction, _OWNERS, taken, count)


def _new_numbers(
    transaction: WriteTransaction, which: int, taken: list[int], count: int = 1
) -> int:
    """Return the first of some numbers that are never used again, and note that they are used.

    A number used twice would let whoever still works for the first user write to the second's
    records. Stores of earlier versions have no note: their numbers follow those that are taken.
    """
    used: list[int] = _load(transaction, layout.NUMBERS_KEY) or [0, 0]
    removed = [owner for _, owner in garbage(transaction)]
    first = 1 + max([used[which], *taken, *removed])
    used[which] = first + count - 1
    _store(transaction, layout.NUMBERS_KEY, layout.pack(used))
    return first


def drop(transaction: WriteTransaction, name: str) -> None:
    """Forget a collection; its records become garbage."""
    number = require_settings(transaction, name).number
    index = CollectionReader(transaction, number).manifest.index
    transaction.delete(Table.META, layout.collection_key(name))
    for key in (layout.manifest_key(number), *layout.dictionary_keys(number)):
        transaction.delete(Table.META, key)
    owned = [(table, number) for table in _COLLECTION_TABLES]
    add_garbage(transaction, [*owned, *index_tables(index)])


# -- garbage: records that nothing refers to any more, removed in bounded steps ------------------


def index_tables(index: IndexManifest) -> list[tuple[Table, int]]:
    """Return the tables in which an index has records, and under which owners."""
    owned = [(Table.SIGNATURES, index.number), (Table.BANDS, index.number)]
    return owned + [entry for number in index.owners[1:] for entry in epoch_tables(number)]


def epoch_tables(number: int) -> list[tuple[Table, int]]:
    """Return the tables in which an epoch of an exact index has records."""
    return [(Table.POSTINGS, number), (Table.SYMBOLS, number)]


def garbage(transaction: ReadTransaction) -> list[tuple[Table, int]]:
    """Return tables and owners whose records are to be removed."""
    return [(Table(table), owner) for table, owner in _load(transaction, layout.GARBAGE_KEY)]


def add_garbage(transaction: WriteTransaction, owned: list[tuple[Table, int]]) -> None:
    """Note records to be removed."""
    _write_garbage(transaction, garbage(transaction) + owned)


def keep_from_garbage(transaction: WriteTransaction, owned: list[tuple[Table, int]]) -> None:
    """Take records off the list."""
    _write_garbage(transaction, [entry for entry in garbage(transaction) if entry not in owned])


def _write_garbage(transaction: WriteTransaction, owned: list[tuple[Table, int]]) -> None:
    _store(transaction, layout.GARBAGE_KEY, layout.pack(owned))


def collect_garbage(transaction: WriteTransaction, most_bytes: int) -> bool:
    """Remove so many bytes of garbage; return whether some is left that can be removed.

    An index that is being built is listed, so that nothing remains of it if its builder ends, and
    reserved as long as that works on it.
    """
    listed = garbage(transaction)
    kept = [entry for entry in listed if transaction.environment.is_reserved(entry[1])]
    left = remove_records(transaction, [entry for entry in listed if entry not in kept], most_bytes)
    _write_garbage(transaction, kept + left)
    return bool(left)


def is_being_built(transaction: WriteTransaction) -> bool:
    """Whether someone is building an index, of any collection, that is not used yet."""
    return any(transaction.environment.is_reserved(owner) for _, owner in garbage(transaction))


def remove_records(
    transaction: WriteTransaction, owned: list[tuple[Table, int]], most_bytes: int
) -> list[tuple[Table, int]]:
    """Remove so many bytes of the records of owners; return those that may have some left."""
    for place, (table, owner) in enumerate(owned):
        doomed: list[bytes] = []
        for key, value in transaction.scan(table, layout.owner_prefix(owner)):
            if most_bytes <= 0:
                break
            doomed.append(bytes(key))
            most_bytes -= len(key) + len(value)
        for name in doomed:
            transaction.delete(table, name)
        if most_bytes <= 0:
            return owned[place:]
    return []
