"""The header of a store: the record that says what the file is and what made it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from simdb.errors import FormatVersionError, NotADatabaseError
from simdb.storage.tables import values
from simdb.storage.tables.keys import HEADER_KEY, Table

MAGIC = "simdb"
FORMAT_VERSION = 2


def new_header(engine_version: tuple[int, ...]) -> dict[str, Any]:
    """Return the header of a new store, with an identifier of its own.

    Args:
        engine_version: of LMDB.
    """
    from importlib import metadata

    try:
        version = metadata.version("simdb-store")
    except metadata.PackageNotFoundError:  # used from a checkout that is not installed
        version = "of a checkout"
    return {
        "magic": MAGIC,
        "format": FORMAT_VERSION,
        "uuid": uuid.uuid4().bytes,
        "lmdb": list(engine_version),
        "created_by": f"simdb-store {version}",
    }


def seal_header(header: dict[str, Any]) -> bytes:
    """Return the record of a header."""
    return values.seal(Table.META, HEADER_KEY, values.pack(header))


def read_uuid(path: Path, environment: Any, meta: Any) -> uuid.UUID:
    """Return the identifier of a store from its header.

    Args:
        path: of the store.
        environment: LMDB's.
        meta: the handle of table ``meta``.

    Raises:
        NotADatabaseError: there is no header, or it is another program's.
        FormatVersionError: the file has a format that this simdb does not know.
        CorruptionError: the header is damaged.
    """
    with environment.begin(buffers=True) as transaction:
        record = transaction.get(HEADER_KEY, None, meta)
        if record is None:
            raise NotADatabaseError(f"{path} is an LMDB file of another program, not a simdb store")
        header = values.unpack(values.unseal(Table.META, HEADER_KEY, record))
    if header.get("magic") != MAGIC:
        raise NotADatabaseError(f"{path} is not a simdb store")
    if header.get("format") != FORMAT_VERSION:
        raise FormatVersionError(
            f"{path} has format {header.get('format')}, this simdb reads and writes "
            f"{FORMAT_VERSION}; use the simdb that wrote it ({header.get('created_by')})"
        )
    return uuid.UUID(bytes=header["uuid"])
