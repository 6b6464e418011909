"""NumPy files: the rows of an array are vectors or bit vectors."""

from __future__ import annotations

import contextlib
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from simdb.errors import BadItemError, ConfigurationError, StorageError
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.rows import (
    Item,
    ReadingOptions,
    Row,
    RowProblemError,
    RowReader,
    whole_number,
)
from simdb.results import Key

_ARCHIVE = b"PK"  # with which a zip file begins
_ARRAY = b"\x93NUMPY"
_PORTION = 2**20  # bytes of an archive unpacked at once
# What NumPy, zipfile and zlib raise for files that are damaged or made to do harm.
_UNREADABLE = (
    *(ValueError, TypeError, OverflowError, SyntaxError, RecursionError, tokenize.TokenError),
    *(EOFError, OSError, MemoryError, struct.error),
    *(zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError),
)


class ArrayReader(RowReader):
    """Rows of a ``.npy`` file, or of an array in a ``.npz`` file; nothing in them is executed.

    The array has two dimensions. In a ``.npz`` file the item's field names it, where there is more
    than one; ``options.id_field`` names the array of keys. Without keys the key is the number of
    the row, from 1 as line numbers are. Bits are 0 and 1, or packed into bytes as by
    ``np.packbits``. Files are read as far as they are needed; the arrays of a ``.npz`` file are
    unpacked into temporary files first, not into memory. ``raw`` is the key and a line end, so that
    the kept rows are a list of keys.
    """

    def __init__(self, source: str, options: ReadingOptions) -> None:
        super().__init__(source, options)
        if source == STANDARD_STREAM or plain_name(source) != source:
            raise ConfigurationError(
                f"{source}: a NumPy file cannot be read from standard input or compressed"
            )
        if len(options.text_fields) > 1:
            raise ConfigurationError("of a NumPy file, exactly one array holds the items")
        self._rows_read = 0
        self._items: npt.NDArray[Any] | None = None

    def __iter__(self) -> Iterator[Row]:
        items, keys = self._arrays()
        self._items = items
        item_of_row = self.options.kind.item_of_row
        for number in range(len(items)):
            self._rows_read = number + 1
            key: Key | None = None
            try:
                key = number + 1 if keys is None else self._key(keys[number].item())
            except RowProblemError as problem:
                yield Row(number + 1, None, None, None, b"", str(problem))
                continue
            item: Item = item_of_row(items[number])
            yield Row(number + 1, key, item, None, f"{key}\n".encode())

    def _key(self, key: Key) -> Key:
        if isinstance(key, int):
            return key
        if key and key.splitlines() != [key]:  # an empty one is told as every other is
            raise RowProblemError("the key contains a line break, which a list of keys cannot hold")
        return whole_number(key) if self.options.integer_keys else key

    def _arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return the array of items and that of their keys."""
        try:
            with Path(self.source).open("rb") as file:
                begin = file.read(len(_ARRAY))
            if begin.startswith(_ARCHIVE):
                with zipfile.ZipFile(self.source) as archive:
                    return self._of_archive(archive)
            is_array = begin == _ARRAY
            items = np.load(self.source, mmap_mode="r", allow_pickle=False) if is_array else None
        except BadItemError:
            raise
        except _UNREADABLE as error:
            raise _unreadable(self.source, error) from error
        if items is None:
            raise BadItemError(f"{self.source}: not a NumPy file, by its first bytes")
        if self.options.id_field is not None:
            raise BadItemError(
                f"{self.source}: a .npy file holds no keys; the row numbers are the keys"
            )
        return self._require_rows(items), None

    def _of_archive(
        self, archive: zipfile.ZipFile
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        id_field, (item_field,) = self.options.id_field, self.options.text_fields
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        names = [name for name in members if name != id_field]
        if item_field not in names and len(names) == 1:
            item_field = names[0]
        for name in (item_field, id_field):
            if name is not None and name not in members:
                known = ", ".join(map(repr, members)) or "none"
                raise BadItemError(f"{self.source}: there is no array {name!r}; there are {known}")
        items = self._require_rows(self._unpacked(archive, members[item_field]))
        if id_field is None:
            return items, None
        keys = self._unpacked(archive, members[id_field])
        if keys.shape != items.shape[:1] or keys.dtype.kind not in "iuU":
            raise BadItemError(
                f"{self.source}: the array {id_field!r} must be {len(items):,} whole numbers or "
                f"strings, not {keys.dtype} of shape {keys.shape}"
            )
        return items, keys

    def _unpacked(self, archive: zipfile.ZipFile, member: str) -> npt.NDArray[Any]:
        """Map an array of an archive from a temporary file, which goes with the array.

        A small archive can unpack to a thousand times its size: that takes disk here, not memory.
        """
        with (
            archive.open(member) as packed,
            _temporary_file(self.source) as unpacked,
        ):
            for portion in self._portions(packed):
                unpacked.write(portion)
            unpacked.flush()
            array: npt.NDArray[Any] = np.load(unpacked.name, mmap_mode="r", allow_pickle=False)
            return array

    def _portions(self, packed: IO[bytes]) -> Iterator[bytes]:
        # What fails here is the archive's fault, not that of the temporary file.
        try:
            while portion := packed.read(_PORTION):
                yield portion
        except _UNREADABLE as error:
            raise _unreadable(self.source, error) from error

    def _require_rows(self, items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if items.ndim != 2 or items.dtype.kind not in "biuf":
            raise BadItemError(
                f"{self.source}: an array of rows of numbers is needed, not {items.dtype} of shape "
                f"{items.shape}"
            )
        return items

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the key of a row; its item is where it was."""
        return {self.options.id_field or "row": raw.decode().removesuffix("\n")}

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.source}, row {line}"

    @property
    def bytes_read(self) -> int:
        """How many bytes of the array were taken so far."""
        return self._rows_read * (0 if self._items is None else self._items[:1].nbytes)

    @property
    def bytes_total(self) -> int | None:
        """How many bytes the array has, None before it is opened."""
        return None if self._items is None else self._items.nbytes


@contextlib.contextmanager
def _temporary_file(source: str) -> Iterator[IO[bytes]]:
    """Make a file that is gone afterwards; what the system says of it is no fault of the source."""
    try:
        with tempfile.NamedTemporaryFile(prefix="simdb-", suffix=".npy") as file:
            yield file
    except OSError as error:
        folder = tempfile.tempdir or "the temporary folder"
        raise StorageError(
            f"{folder}: an array of {source} cannot be unpacked there: {error.strerror or error}; "
            "TMPDIR names another folder"
        ) from error


def _unreadable(source: str, error: BaseException) -> BadItemError:
    reason = str(error) or "it promises more than memory holds"
    return BadItemError(f"{source}: not a NumPy file that can be read: {reason}")
