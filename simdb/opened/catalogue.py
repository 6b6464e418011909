"""The collections of a store: their settings, their creation, and what is left to remove."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from simdb.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    Remedy,
    StorageError,
    UnknownKindError,
    WrongTypeError,
)
from simdb.exact.thresholds import decimal
from simdb.kinds import named
from simdb.kinds.contrast import contrast
from simdb.late import cached_property
from simdb.recipe import Recipe, fraction, restored
from simdb.storage.collection.manifest import EpochManifest, ExactManifest, IndexManifest, Manifest
from simdb.storage.collection.reader import CollectionReader, stored_settings
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import RunDirectory

_COLLECTION_TABLES = (Table.DOCUMENTS, Table.KEYS, Table.MARKS, Table.ITEMS)
_COLLECTIONS, _OWNERS = 0, 1  # what is numbered: collections; indexes and epochs
BYTES_A_WORD = 2  # of a stored signature
COMPRESSIONS = ("zstd",)
_READ_SETTINGS = 4  # that are kept, since each transaction asks for them
# In the order in which they are stored, of which a change would be one of every collection.
_STORED = (
    *("number", "kind", "threshold", "recall", "bands", "rows", "sketch", "secret"),
    *("unicode_version", "exact_floor", "containment", "finds_equal", "key_sources", "cascade"),
    *("compression", "groups"),
)
GroupMethod: TypeAlias = Literal["chain", "star"]
GROUP_METHODS: tuple[GroupMethod, ...] = ("chain", "star")
MOST_LEVELS = 100  # bounds at which groups are kept


class KeptGroups(Struct, frozen=True):
    """The groups that a collection keeps: how they are made, and at which bounds.

    Attributes:
        method: one of ``GROUP_METHODS``.
        bounds: of the pairs they are made of, as the kind stores bounds, the widest first; a group
            is of one *level*, the place of its bound.
    """

    method: GroupMethod
    bounds: tuple[Fraction, ...]

    def __str__(self) -> str:
        return f"{self.method!r} at {', '.join(map(decimal, self.bounds))}"

    def plain(self) -> dict[str, Any]:
        """Return both as plain values."""
        return {"method": self.method, "bounds": [str(bound) for bound in self.bounds]}

    @classmethod
    def of_plain(cls, stored: Any) -> KeptGroups:
        """Read what ``plain`` returned; ValueError if this version does not know it."""
        bounds = tuple(map(fraction, stored["bounds"]))
        if stored["method"] not in GROUP_METHODS or not 0 < len(bounds) <= MOST_LEVELS:
            raise ValueError(f"this version keeps no such groups: {stored}")
        return cls(stored["method"], bounds)


class CollectionSettings(Recipe, frozen=True, kw_only=True, dict=True):
    """What a collection is: fixed when it is made, changed only by ``rebuild``."""

    name: str
    number: int
    key_sources: tuple[str, ...] = ()  # where the keys of the rows come from, if anyone has said
    compression: str | None = None  # of documents: one of COMPRESSIONS; None without
    groups: KeptGroups | None = None  # that are kept with the items

    @cached_property
    def methods(self) -> dict[Any, Any]:
        """How questions are answered under them (answers/choose.py): no part of the settings."""
        return {}

    @cached_property
    def questions(self) -> dict[Any, Any]:
        """What the arguments of calls ask under them (answers/choose.py): no part of them."""
        return {}

    @property
    def title(self) -> str:
        """What messages call them."""
        return f"collection {self.name!r}"

    @property
    def recipe(self) -> Recipe:
        """What the collection has in common with one of other items that is made as it is."""
        return Recipe(**{part: getattr(self, part) for part in Recipe.__struct_fields__})

    @classmethod
    def made_by(
        cls, recipe: Recipe, name: str, *, number: int = 0, compression: str | None = None
    ) -> CollectionSettings:
        """Return the settings of a collection that is made by a recipe."""
        made = {part: getattr(recipe, part) for part in Recipe.__struct_fields__}
        return cls(name=name, number=number, compression=compression, **made)

    def require_known_compression(self) -> None:
        """Raise ValueError for a compression of another version."""
        if self.compression not in (None, *COMPRESSIONS):
            raise ValueError(f"this version knows no compression {self.compression!r}")

    def encode(self) -> bytes:
        """Return the payload of the settings record."""
        plain = self.plain()
        stored = {part: plain[part] if part in plain else getattr(self, part) for part in _STORED}
        stored["groups"] = None if self.groups is None else self.groups.plain()
        for later in ("finds_equal", "key_sources", "cascade", "compression", "groups"):
            if not stored[later]:  # as in what was made before there was this setting
                del stored[later]
        return layout.pack(stored)

    @property
    def identity(self) -> bytes:
        """What tells the collection under these settings from all others: its secret among them.

        Without what changes no answer.
        """
        return replace(self, key_sources=(), compression=None, groups=None).encode()

    @classmethod
    def decode(cls, name: str, payload: bytes) -> CollectionSettings:
        """Read what ``encode`` stored; CorruptionError if this version does not know it."""
        try:
            values = _values(bytes(payload))
            if type(values["kind"]) is not named(values["kind"].name):  # loaded again since
                _values.cache_clear()
                values = _values(bytes(payload))
            settings = cls(name=name, **values)
            settings.require_possible()
            settings.require_known_compression()
        except UnknownKindError as error:
            where = f"collection {name!r} cannot be used: "
            raise UnknownKindError(error.name, where, why=error.why) from error
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptionError(
                f"the settings of collection {name!r} cannot be read: {error}"
            ) from error
        return settings


@lru_cache(_READ_SETTINGS)
def _values(payload: bytes) -> dict[str, Any]:
    """Read settings, all of whose values are frozen; those of a kind may hold many words."""
    values = restored(layout.unpack(payload))
    if not _is_collection(values["number"]):
        raise ValueError(f"{values['number']!r} is no number of a collection")
    values["key_sources"] = tuple(map(str, values.get("key_sources", ())))
    if "groups" in values:
        values["groups"] = KeptGroups.of_plain(values["groups"])
    return values


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
        raise _not_found(transaction, name)
    return settings


def _not_found(transaction: ReadTransaction, name: str) -> CollectionNotFoundError:
    known = ", ".join(repr(known) for known in names(transaction)) or "none yet"
    return CollectionNotFoundError(f"there is no collection {name!r} (there are: {known})")


def present_settings(
    transaction: ReadTransaction, before: CollectionSettings
) -> CollectionSettings:
    """Return the settings of a collection that were others before, as after a rebuild.

    CollectionNotFoundError: it was dropped, or renamed, also where another one has its name now;
    ConfigurationError: it was dropped, and one of another kind has its name.
    """
    present = require_settings(transaction, before.name)
    if present.number != before.number and before.number in numbers(transaction):
        raise CollectionNotFoundError(
            f"collection {before.name!r} was renamed, and another one has that name now; open "
            "the one that is meant"
        )
    if present.number != before.number and present.kind != before.kind:
        raise ConfigurationError(
            f"collection {before.name!r} was dropped and created again with other settings "
            f"({contrast(present.kind, before.kind)}); open it again"
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
            "created again, meanwhile; run it again"
        )
    return now


def names(transaction: ReadTransaction) -> list[str]:
    """Return the names of all collections, sorted."""
    found = transaction.scan(Table.META, layout.COLLECTION_PREFIX)
    try:
        return sorted(check_name(bytes(key[1:]).decode()) for key, _ in found)
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise CorruptionError(f"the name of a collection cannot be read: {error}") from error


def numbers(transaction: ReadTransaction) -> list[int]:
    """Return the numbers of all collections, also of kinds that are not known here."""
    manifests = transaction.scan(Table.META, layout.MANIFEST_PREFIX)
    found = [int.from_bytes(key[1:], "big") for key, _ in manifests]
    if not all(map(_is_collection, found)):
        raise CorruptionError("the state of a collection has a number that no collection has")
    return found


def named_numbers(transaction: ReadTransaction) -> list[int]:
    """Return the numbers of all collections, by their names."""
    stored = (stored_settings(transaction, name) for name in names(transaction))
    try:
        found = [layout.unpack(settings or b"")["number"] for settings in stored]
    except (KeyError, TypeError):
        found = [None]
    if not all(map(_is_collection, found)):
        raise CorruptionError("the settings of a collection have no number")
    return found


def indexes(transaction: ReadTransaction) -> list[IndexManifest]:
    """Return what the indexes of all collections know of themselves, as ``numbers`` lists them."""
    return [
        Manifest.decode(layout.unseal(Table.META, bytes(key), value)).index
        for key, value in transaction.scan(Table.META, layout.MANIFEST_PREFIX)
    ]


# -- changing ----------------------------------------------------------------------------------


def create(transaction: WriteTransaction, settings: CollectionSettings) -> CollectionSettings:
    """Store a new, empty collection under the next number."""
    number = _new_numbers(transaction, _COLLECTIONS, numbers(transaction))
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
            remedies=[
                Remedy("source", source, "takes both", "note_key_source", (("also", True),)),
            ],
        )
    write_settings(transaction, replace(settings, key_sources=(*known, source)))


def _store(transaction: WriteTransaction, key: bytes, payload: bytes) -> None:
    transaction.put(Table.META, key, layout.seal(Table.META, key, payload))


def _load(transaction: ReadTransaction, key: bytes) -> Any:
    value = transaction.get(Table.META, key)
    return [] if value is None else layout.unpack(layout.unseal(Table.META, key, value))


def _is_collection(number: object) -> bool:
    return _is_owner(number, layout.LARGEST_COLLECTION)


def _is_owner(number: object, most: int = layout.LARGEST_OWNER) -> bool:
    return type(number) is int and 0 <= number <= most


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
    taken = [owner for index in (*indexes(transaction), *others) for owner in index.owners]
    return _new_numbers(transaction, _OWNERS, taken, count)


def _new_numbers(
    transaction: WriteTransaction, which: int, taken: list[int], count: int = 1
) -> int:
    """Return the first of some numbers that are never used again, and note that they are used.

    A number used twice would let whoever still works for the first user write to the second's
    records. Stores of earlier versions have no note: their numbers follow those that are taken.
    """
    used = used_numbers(transaction)
    removed = [owner for _, owner in garbage(transaction)]
    first = 1 + max([used[which], *taken, *removed])
    used[which] = first + count - 1
    is_collection = which == _COLLECTIONS
    if used[which] > (layout.LARGEST_COLLECTION if is_collection else layout.LARGEST_OWNER):
        raise StorageError("no number is left for another collection or index; dump and load")
    _store(transaction, layout.NUMBERS_KEY, layout.pack(used))
    return first


def used_numbers(transaction: ReadTransaction) -> list[int]:
    """Return the last numbers that were given to a collection, and to an index or an epoch."""
    used = _load(transaction, layout.NUMBERS_KEY) or [0, 0]
    is_pair = isinstance(used, list) and len(used) == 2
    if not is_pair or not (_is_collection(used[_COLLECTIONS]) and _is_owner(used[_OWNERS])):
        raise CorruptionError("what numbers collections have had cannot be read")
    return used


def drop(transaction: WriteTransaction, name: str) -> None:
    """Forget a collection; its records become garbage."""
    number = require_settings(transaction, name).number
    index = CollectionReader(transaction, number).manifest.index
    transaction.delete(Table.META, layout.collection_key(name))
    labels = [bytes(key) for key, _ in transaction.scan(Table.META, layout.label_key(number))]
    for key in (layout.manifest_key(number), *layout.dictionary_keys(number), *labels):
        transaction.delete(Table.META, key)
    add_garbage(transaction, tables_of(number, index))


def rename(transaction: WriteTransaction, name: str, new: str) -> None:
    """Give a collection another name; ConfigurationError if another one has that."""
    settings = stored_settings(transaction, check_name(name))
    if settings is None:
        raise _not_found(transaction, name)
    if new == name:
        return
    if stored_settings(transaction, check_name(new)) is not None:
        raise ConfigurationError(f"there already is a collection {new!r}")
    transaction.delete(Table.META, layout.collection_key(name))
    _store(transaction, layout.collection_key(new), settings)


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
    listed = _load(transaction, layout.GARBAGE_KEY)
    try:
        owned = [(Table(table), owner) for table, owner in listed]
    except (TypeError, ValueError):
        owned = [(Table.META, -1)]
    # What begins as the number of no collection is not its groups, but what all need.
    if not all(
        _is_owner(owner) if table in layout.INDEX_TABLES else _is_collection(owner)
        for table, owner in owned
    ):
        raise CorruptionError("what is to be removed cannot be read")
    return owned


def tables_of(number: int, index: IndexManifest) -> list[tuple[Table, int]]:
    """Return the tables in which a collection and its index have records, and under which owners.

    Of groups, META has records also where they were dropped.
    """
    own = [(table, number) for table in (*_COLLECTION_TABLES, Table.META)]
    return own + index_tables(index)


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
    kept = [entry for entry in listed if _is_reserved(transaction, *entry)]
    left = remove_records(transaction, [entry for entry in listed if entry not in kept], most_bytes)
    _write_garbage(transaction, kept + left)
    return bool(left)


def is_being_built(transaction: WriteTransaction) -> bool:
    """Whether someone is building an index, of any collection, that is not used yet."""
    return any(_is_reserved(transaction, *entry) for entry in garbage(transaction))


def _is_reserved(transaction: WriteTransaction, table: Table, owner: int) -> bool:
    """Whether someone builds the index whose records these are; collections have other numbers."""
    return table in layout.INDEX_TABLES and transaction.environment.is_reserved(owner)


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
