"""A store as a folder of Parquet files and back: between versions, machines and engines.

=============  ====================================================================
file           what it holds
=============  ====================================================================
simdb.json     the format, and of each collection its name, settings, secret and labels
N.groups.json  the groups that it keeps: ids, aliases, changes; where it keeps any
N.parquet      the items of one collection in order of insertion: key, item, metadata
=============  ====================================================================

Items are as ``simdb export`` has them: texts and what else is written as text in a column of
texts, everything else as JSON. Keys are int64 or texts, and JSON where a collection has both.
Metadata is JSON, null where there is none; NaN, infinities and bytes, which earlier versions took,
are text. A column of signatures comes beside them by choice; simdb.json then has the fingerprint of
the recipe that they were made by.

simdb.json has digests (BLAKE2b) of itself and of all files, so that damage is not loaded. A folder
that something else has written may do without.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy.typing as npt

from simdb import arrow as tables
from simdb.errors import (
    BadItemError,
    CorruptionError,
    FormatVersionError,
    KeyExistsError,
    StorageError,
    UnknownKindError,
    UsageError,
)
from simdb.extras import is_of_handler
from simdb.ingest.given import GivenSignatures
from simdb.metadata import json_text
from simdb.opened.catalogue import CollectionSettings, check_name
from simdb.opened.labels import Label
from simdb.results import Entry, Key, Progress
from simdb.storage.tables import layout
from simdb.unfinished import held, remove_abandoned, sync_folder

FORMAT = 1
_CATALOGUE = "simdb.json"
_NATIVE, _JSON = "native", "json"  # forms of a column
_COLUMNS = ("key", "item", "metadata")
_SIGNATURE = "signature"
# What values that no dump has may raise, those of settings and of JSON too.
_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class DumpedCollection:
    """A collection of a folder: what it is made with, and how many items are to be read."""

    settings: CollectionSettings
    count: int
    file: Path
    keys: str
    items: str
    labels: tuple[Label, ...] = ()
    groups: Any = None  # those that are kept, as ``upkeep.regroup`` has them
    signed_by: str | None = None  # the fingerprint of the recipe of the signatures beside items

    def given(self) -> GivenSignatures | None:
        """What is to hold the signatures, if there are any; StorageError if they do not belong."""
        if self.signed_by is None:
            return None
        with self.signatures_refused():
            return GivenSignatures(_SIGNATURE, self.signed_by, self.settings)

    @contextmanager
    def rows_refused(self) -> Iterator[None]:
        """Say of rows that a collection does not take in which file they are."""
        try:
            yield
        except KeyExistsError as error:
            raise StorageError(f"{self.file}: two rows have the key {error.key!r}") from error
        except BadItemError as error:
            raise StorageError(f"{self.file}: {error.problem}") from error

    @contextmanager
    def signatures_refused(self) -> Iterator[None]:
        """Say of signatures that do not belong to the items that these can do without them."""
        try:
            yield
        except (BadItemError, KeyExistsError):
            raise
        except UsageError as error:
            raise StorageError(
                f"{self.file}: {error}; load it without its signatures, which are made anew then"
            ) from error

    def rows(self, given: GivenSignatures | None = None) -> Iterator[tuple[Key, Any, Any]]:
        """Yield key, item and metadata, as inserted; StorageError if they cannot be read.

        Their signatures are ``given`` to what holds them.
        """
        arrow = tables.library()
        kind = self.settings.kind
        try:
            with tables.parquet().ParquetFile(_plain(self.file)) as source:
                batches = _batches(source)
                for batch in batches if given is None else given.passing(batches):
                    keys, items, metadata = (batch.column(name).to_pylist() for name in _COLUMNS)
                    for key, item, noted in zip(keys, items, metadata, strict=True):
                        plain = json.loads(item) if self.items == _JSON else item
                        made = kind.loaded_item(plain)
                        if made is NotImplemented:
                            raise ValueError(f"{key!r} is not {kind.json_form}")
                        yield (
                            json.loads(key) if self.keys == _JSON else key,
                            made,
                            None if noted is None else json.loads(noted),
                        )
        except (arrow.ArrowException, OSError, LookupError, *_WRONG) as error:
            if is_of_handler(error):
                raise
            raise StorageError(f"{self.file} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class DumpedPart:
    """A collection that is to be written; ``entries`` begins anew at every call.

    ``signatures`` returns the rows of those of some keys; None where none are to be written.
    """

    settings: CollectionSettings
    count: int
    entries: Callable[[], Iterable[Entry]]
    labels: Sequence[Label] = ()
    groups: Any = None
    signatures: Callable[[Sequence[Key]], npt.NDArray[Any]] | None = None


def write(
    folder: str | os.PathLike[str],
    parts: Iterable[DumpedPart],
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Write collections into a new folder, which appears when it is complete.

    Only its owner may read the folder: whoever knows a secret can make items that collide. Errors
    are those of ``Database.dump``.
    """
    tables.parquet()
    with _appearing(Path(folder)) as temporary:
        described = []
        for number, part in enumerate(parts):
            file = temporary / f"{number}.parquet"
            forms = _write_items(file, part, _NATIVE, progress)
            forms = forms or _write_items(file, part, _JSON, progress)
            plain = layout.unpack(part.settings.encode())
            plain["secret"] = plain["secret"].hex()
            signed = (
                {} if part.signatures is None else {"signed_by": part.settings.recipe.fingerprint}
            )
            groups = {} if part.groups is None else {"groups": _written(file, part.groups)}
            written = [file, *(file.with_name(name) for name in groups.values())]
            described.append(
                {
                    "name": part.settings.name,
                    "file": file.name,
                    "count": part.count,
                    **(forms or {}),
                    "settings": plain,
                    **({"labels": sorted(part.labels, key=repr)} if part.labels else {}),
                    **signed,
                    **groups,
                    "digests": {one.name: _digest_of_file(one) for one in written},
                }
            )
        document = {"format": FORMAT, "collections": described, "digest": _digest(described)}
        (temporary / _CATALOGUE).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _digest_of_file(file: Path) -> str:
    with file.open("rb") as written:
        return hashlib.file_digest(written, "blake2b").hexdigest()


def _digest(described: Any) -> str:
    """Return the digest of what is said of the collections, as it is when read again."""
    again = json.loads(json.dumps(described))
    return hashlib.blake2b(json.dumps(again).encode()).hexdigest()


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Make a folder that gets its name when it is durable, or is removed.

    What killed runs to the same target have left, with its secrets, is removed before.
    """
    if target.exists():
        raise StorageError(f"{target} already exists; name a new folder")
    remove_abandoned(target.parent, f".{glob.escape(target.name)}.*.part")
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}.part")
    try:
        temporary.mkdir(mode=0o700)
        folder = os.open(temporary, os.O_RDONLY)
        try:
            held(folder)
            yield temporary
            for file in temporary.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            os.fsync(folder)
            temporary.rename(target)
        finally:
            os.close(folder)
        sync_folder(target.parent)
    except OSError as error:
        if is_of_handler(error):
            raise
        raise StorageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_items(
    file: Path, part: DumpedPart, keys: str, progress: Callable[[Progress], None] | None
) -> dict[str, str] | None:
    """Write items; return in which forms, None where keys of two types are to be native."""
    arrow = tables.library()
    kind = part.settings.kind
    entries = iter(part.entries())
    first = list(islice(entries, 1))
    of_texts = all(isinstance(row.key, str) for row in first)
    are_texts = any(isinstance(kind.dumped_item(row.item), str) for row in first)

    def told(row: Entry) -> tuple[Key, str, str | None]:
        """Return the values of a row."""
        plain: Any = kind.dumped_item(row.item)
        return (
            row.key,
            plain if are_texts else json.dumps(plain),
            None if row.metadata is None else json_text(row.metadata),
        )

    key_type = arrow.string() if of_texts or keys == _JSON else arrow.int64()
    types = {"key": key_type, "item": arrow.large_string(), "metadata": arrow.string()}
    if part.signatures is not None:
        types[_SIGNATURE] = arrow.binary()
    schema = arrow.schema(types)
    done = 0
    with tables.parquet().ParquetWriter(_plain(file), schema, compression="zstd") as target:
        for rows in tables.parts_of(map(told, chain(first, entries)), tables.column_size):
            if keys == _NATIVE and any(isinstance(key, str) != of_texts for key, _, _ in rows):
                return None
            columns: list[Any] = list(map(list, zip(*rows, strict=True)))
            if part.signatures is not None:
                columns.append(tables.bytes_column(part.signatures(columns[0])))
            if keys == _JSON:
                columns[0] = list(map(json.dumps, columns[0]))
            made = [
                tables.column(values, kind)
                for values, kind in zip(columns, schema.types, strict=True)
            ]
            target.write_table(arrow.table(made, schema=schema))
            done += len(rows)
            if progress is not None:
                progress(Progress("writing", done, part.count))
    return {"keys": keys, "items": _NATIVE if are_texts else _JSON}


def _batches(source: Any) -> Iterator[Any]:
    """Yield the rows of a file of Parquet in batches of as many as are written at once.

    None is of several row groups: of these, values that repeat are counted once.
    """
    for rows, groups in tables.groups_by_rows(source, tables.BATCH_ROWS, tables.PART_BYTES):
        for group in groups:
            yield from source.iter_batches(rows, row_groups=[group])


@contextmanager
def translated(file: Path) -> Iterator[None]:
    """Turn what groups may raise that no dump has into StorageError."""
    try:
        yield
    except (*_WRONG, LookupError) as error:
        raise StorageError(f"the groups beside {file} cannot be read: {error}") from error


def _written(file: Path, groups: Any) -> str:
    """Write the groups of a collection beside its items; return the name of their file."""
    beside = file.with_suffix(".groups.json")
    beside.write_text(json.dumps(groups), encoding="utf-8")
    return beside.name


def _plain(file: Path) -> Path:
    """Return a path in which pyarrow takes no folder ``~`` for the user's."""
    return file.absolute()


def read(folder: str | os.PathLike[str]) -> list[DumpedCollection]:
    """Return the collections of a folder that ``write`` wrote; errors are those of ``load``."""
    tables.parquet()
    source = Path(folder)
    try:
        document = json.loads((source / _CATALOGUE).read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise FormatVersionError(
                f"{source} has format {document['format']!r}; this version reads {FORMAT}"
            )
        del document["format"]
        return _collections(source, **document)  # which knows no other names
    except CorruptionError as error:  # of settings and labels, which name no file
        raise CorruptionError(f"{source}: {error}") from error
    except (UnknownKindError, StorageError):
        raise
    except (*_WRONG, OSError, LookupError, AttributeError) as error:
        if is_of_handler(error):
            raise
        problem = repr(error)
        if isinstance(error, OSError):
            problem = f"{error.filename}: {error.strerror}"
        raise StorageError(f"{source} is not a dump of a store: {problem}") from error


def _collections(
    source: Path, *, collections: Any, digest: str | None = None
) -> list[DumpedCollection]:
    if digest not in (None, _digest(collections)):
        raise StorageError(f"{source / _CATALOGUE} is damaged: it is not as it was written")
    found = [_collection(source, one) for one in collections]
    if len({one.settings.name for one in found}) < len(found):
        raise ValueError("two collections have one name")
    return found


def _collection(source: Path, described: dict[str, Any]) -> DumpedCollection:
    for name, digest in described.get("digests", {}).items():
        file = source / Path(name).name
        if _digest_of_file(file) != digest:
            raise StorageError(f"{file} is damaged: it is not as it was written")
    plain = {**described["settings"]}
    plain["secret"] = bytes.fromhex(plain["secret"])
    settings = CollectionSettings.decode(check_name(described["name"]), layout.pack(plain))
    if settings.compression is not None and settings.make_items().width:
        raise ValueError(f"{settings.kind.plural} are not compressed")
    if not isinstance(described.get("signed_by", ""), str):
        raise TypeError(f"{described['signed_by']!r} is not the fingerprint of a recipe")
    if type(described["count"]) is not int:
        raise ValueError(f"{described['count']!r} is not a number of items")
    if not {described["keys"], described["items"]} <= {_NATIVE, _JSON}:
        raise ValueError("a form of keys or items is not known")
    return DumpedCollection(
        settings,
        described["count"],
        source / Path(described["file"]).name,
        described["keys"],
        described["items"],
        tuple(Label.decode(layout.pack(label)) for label in described.get("labels", ())),
        json.loads((source / Path(described["groups"]).name).read_text(encoding="utf-8"))
        if "groups" in described
        else None,
        described.get("signed_by"),
    )
