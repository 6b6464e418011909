"""Rows of databases: a table or a query of SQLite, by Python's own library, or of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from simdb import arrow
from simdb.errors import BadItemError, UsageError
from simdb.extras import of_extra
from simdb.files.tables import BATCH_ROWS, Part, TableReader

if TYPE_CHECKING:
    from sqlite3 import Connection

_DATABASE = re.compile("(sqlite|duckdb):([^:]*):(.+)", re.DOTALL)
_SQLITE = b"SQLite format 3\0"  # how its files begin
# Otherwise DuckDB downloads the extensions that it lacks.
_OFFLINE = {"autoinstall_known_extensions": "false"}
_QUERY = re.compile(  # comments may come first
    r"(?:\s|--[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(select|with|from|values)\b",
    re.IGNORECASE,
)


def database_of(source: str) -> tuple[str, str, str] | None:
    """Return what ``sqlite:FILE:TABLE`` names: library, file, and a table or a query; else None.

    Raises:
        UsageError: it begins so, but does not name all of them.
    """
    found = _DATABASE.fullmatch(source)
    if found is not None and (found[2] or found[1] == "duckdb"):
        return found[1], found[2], found[3]
    is_file = True
    if source.startswith(("sqlite:", "duckdb:")):
        is_file = False
        with suppress(OSError):  # a query is longer than names of files may be
            is_file = Path(source).exists()
    if not is_file:
        raise UsageError(
            f"{source} does not name a table: sqlite:FILE:TABLE, duckdb:FILE:TABLE or a query "
            "(SELECT ...) in the place of the table; duckdb::QUERY needs no file"
        )
    return None


class DatabaseReader(TableReader):
    """Rows that ``sqlite:FILE:TABLE`` names, ``duckdb:FILE:TABLE``, or a query in its place.

    The file is opened to be read only. Rows come in the order that the database gives them; the
    place of a row is its number, from 1. Of SQLite a part is what its values are, whatever the
    types of its columns say.
    """

    def _require_readable(self) -> None:
        found = database_of(self.source)
        assert found is not None
        self._library, self._file, self._named = found
        self._is_query = _QUERY.match(self._named) is not None
        if self._library == "duckdb":
            _duckdb()  # first: its extra brings Arrow, too
            arrow.library()

    @property
    def has_batches(self) -> bool:
        """Whether the rows come in record batches of Arrow."""
        return self._library == "duckdb"

    def _parts(self) -> Iterator[Part]:
        return self._of_sqlite() if self._library == "sqlite" else super()._parts()

    def _of_sqlite(self) -> Iterator[Part]:
        import sqlite3

        place = quote(str(Path(self._file).absolute()))
        try:
            with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as database:
                broken: list[bytes] = []

                def text_of(raw: bytes) -> str:
                    # What is not UTF-8 makes a bad row of its row, and not of all.
                    try:
                        return raw.decode()
                    except UnicodeDecodeError:
                        broken.append(raw)
                        return raw.decode("utf-8", "surrogateescape")

                database.text_factory = text_of
                is_query = self._is_query and self._named not in _tables_of(database)
                if not is_query:
                    self._require_table(database)
                quoted = '"{}"'.format(self._named.replace('"', '""'))
                of_table = " ".join(["SELECT * FROM", quoted])
                found = database.execute(self._named if is_query else of_table)
                names = [column[0] for column in found.description or ()]
                wanted = self._wanted(names)
                for rows in arrow.parts_of(found, arrow.column_size):
                    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                    binary = [name for name in wanted if bytes in set(map(type, columns[name]))]
                    told = {name: _plain(columns[name]) for name in wanted}
                    yield Part(told, binary, is_sound=not broken)
                    broken.clear()
        except sqlite3.Error as error:
            raise BadItemError(f"{self.source}: SQLite cannot read it: {error}") from error

    def _require_table(self, database: Connection) -> None:
        names = _tables_of(database)
        if self._named not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise BadItemError(
                f"{self.source}: there is no table {self._named!r}; there are {known}"
            )

    def schema(self) -> Any:
        """Return the schema of the rows of DuckDB; None of SQLite."""
        if self._library == "sqlite":
            return None
        with self._of_duckdb() as (schema, _):
            return schema

    def batches(self) -> Iterator[tuple[Any, bool]]:
        """Yield the rows of DuckDB as record batches, and whether all text in each is UTF-8."""
        with self._of_duckdb() as (schema, batches):
            wanted = self._wanted(schema.names)
            for batch in batches:
                chosen = _without_infinities(batch.select(wanted))
                for begin in range(0, batch.num_rows, BATCH_ROWS):
                    piece = chosen.slice(begin, BATCH_ROWS)
                    yield piece, arrow.is_sound(piece)

    @contextmanager
    def _of_duckdb(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        duckdb = _duckdb()
        try:
            with duckdb.connect(
                self._file or ":memory:", read_only=bool(self._file), config=_OFFLINE
            ) as database:
                relation = database.sql if self._is_query else database.table
                found = arrow.of_duckdb(relation(self._named))
                yield found.schema, iter(found)
        except (duckdb.Error, OSError) as error:  # as streams of Arrow have it, if rows came before
            raise BadItemError(f"{self.source}: {self._told(error)}") from error

    def _told(self, error: Exception) -> str:
        """Return in words what DuckDB says, and what can be done about an extension it lacks."""
        if self._file and _begins_with(self._file, _SQLITE):
            return f"the file is one of SQLite, which sqlite:{self._file}:{self._named} reads"
        told = "DuckDB cannot read it: " + str(error).partition("\n")[0]
        if "INSTALL " not in str(error):  # as it proposes for an extension that it lacks
            return told
        return f"{told.rstrip('.:!')}; it downloads no extension here: INSTALL in DuckDB does"


def _begins_with(file: str, expected: bytes) -> bool:
    with suppress(OSError), Path(file).open("rb") as opened:
        return opened.read(len(expected)) == expected
    return False


def _without_infinities(batch: Any) -> Any:
    """Return rows of DuckDB in which dates and times without end are text, as are all beside them.

    As numbers they are the largest of so many bits.
    """
    types = arrow.library().types
    for place, field in enumerate(batch.schema):
        if not (types.is_date32(field.type) or types.is_timestamp(field.type)):
            continue
        column = batch.column(place)
        numbers = arrow.numbers_in(column.view(f"int{field.type.bit_width}").fill_null(0))
        ends = np.abs(numbers) == np.iinfo(numbers.dtype).max
        if ends.any():
            told = [arrow.plain(value) for value in arrow.values_as_text(column)]
            for row in np.flatnonzero(ends).tolist():
                told[row] = "infinity" if numbers[row] > 0 else "-infinity"
            made = arrow.column(told, arrow.library().string())
            batch = batch.set_column(place, field.with_type(made.type), made)
    return batch


def _plain(column: Sequence[Any]) -> Sequence[Any]:
    """Return values of SQLite as JSON can express them, which knows no infinities."""
    return [*map(arrow.plain, column)] if float in set(map(type, column)) else column


def _duckdb() -> ModuleType:
    with of_extra("duckdb", "inputs of DuckDB need"):
        import duckdb
    return duckdb


def _tables_of(database: Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    return [name for (name,) in found]
