"""Rows of inputs on their way into a collection, remembered until their outcome is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simdb.cli.output import note
from simdb.errors import BadItemError, KeyExistsError, UsageError
from simdb.files import ReadingOptions, Row, RowReader, open_rows
from simdb.results import Key, Outcome

if TYPE_CHECKING:
    from simdb.collection import CollectionView

_BAD_ROWS_TOLD = 20
_LINE = "line"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row that was handed over and whose outcome is not known yet."""

    reader: RowReader
    line: int
    key: Key
    raw: bytes

    @property
    def place(self) -> str:
        """Where the row stands, for a message."""
        return self.reader.place(self.line)

    def about(self, problem: str) -> str:
        """Return what is wrong with the row, with its key where the place needs it."""
        return self.reader.naming(self.key) + problem


class Feed:
    """The rows of one input after the other, for ``add_many`` and ``dedupe``.

    Rows that cannot be read never reach the collection: they are told on standard error and
    counted, or end the work. The collection counts the others from 0; ``settled`` takes its
    outcomes in the same order and gives each its row back.

    Args:
        sources: names of files and folders, ``-`` for standard input.
        options: how they are read.
        on_bad: ``"error"`` or ``"skip"``.
        keep_raw: keep the bytes of rows until they are settled.
        keep_lines: give the line of a row instead of its metadata, so that ``target`` knows it.

    Attributes:
        target: the collection, where it may be asked for the line of an earlier row.
        bad: how many rows could not be read or stored so far.
        done: how many rows have an outcome.
    """

    def __init__(
        self,
        sources: Sequence[str],
        options: ReadingOptions,
        *,
        on_bad: str,
        keep_raw: bool,
        keep_lines: bool = False,
    ) -> None:
        self.target: CollectionView | None = None
        self.bad = 0
        self.bad_rows: list[tuple[str, str]] = []
        self.done = 0
        self.reader: RowReader | None = None
        self._sources = sources
        self._options = options
        self._stop_at_bad = on_bad == "error"
        self._keep_raw = keep_raw
        self._keep_lines = keep_lines
        self._waiting: deque[Waiting] = deque()
        self._finished = 0

    def rows(self) -> Iterator[tuple[Key, Any] | tuple[Key, Any, Mapping[str, Any]]]:
        """Yield (key, item), or (key, item, metadata), of the rows that can be stored.

        Afterwards ``reader`` is the last input.
        """
        for source in self._sources:
            with open_rows(source, self._options) as reader:
                self.reader = reader
                for row in reader:
                    if row.problem is not None or row.key is None or row.item is None:
                        self._refuse(reader, row)
                        continue
                    raw = row.raw if self._keep_raw else b""
                    self._waiting.append(Waiting(reader, row.line, row.key, raw))
                    if self._keep_lines:
                        yield row.key, row.item, {_LINE: row.line}
                    elif row.metadata is None:
                        yield row.key, row.item
                    else:
                        yield row.key, row.item, row.metadata
                # The elements of the next input are what those of this one were.
                self._options = replace(self._options, elements=reader.tokens.elements)
            self._finished += 1

    def _refuse(self, reader: RowReader, row: Row) -> None:
        place, problem = reader.place(row.line), row.problem or "not a row"
        if self._stop_at_bad:
            raise BadItemError(f"{place}: {problem}")
        self._tell_bad(place, problem)

    def _tell_bad(self, place: str, problem: str) -> None:
        self.bad += 1
        if self.bad <= _BAD_ROWS_TOLD:
            self.bad_rows.append((place, problem))
            note(f"{place}: {problem}")
        elif self.bad == _BAD_ROWS_TOLD + 1:
            note("further bad rows are only counted")

    def settled(self, outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, Waiting]]:
        """Yield each outcome with its row; the bad ones are told."""
        for outcome in outcomes:
            waiting = self._waiting.popleft()
            self.done += 1
            if outcome.action == "bad":
                problem = outcome.problem or "cannot be stored"
                if outcome.within_input:
                    problem += self._earlier(waiting.reader, outcome.key)
                self._tell_bad(waiting.place, waiting.about(problem))
            yield outcome, waiting

    def placed(self, error: UsageError) -> UsageError:
        """Return an error about a row with the place of that row in its input."""
        number = getattr(error, "row", None)
        if not isinstance(number, int) or not 0 <= number - self.done < len(self._waiting):
            return error
        # The row's number among those handed over means nothing to the user of a file.
        waiting = self._waiting[number - self.done]
        text = f"{waiting.place}: {waiting.about(error.problem.removeprefix(f'row {number}: '))}"
        if isinstance(error, KeyExistsError):
            if error.within_input:
                text += self._earlier(waiting.reader, error.key)
            if self._options.id_field is None:
                text += " (keys are line numbers here; --id-field names a field instead)"
        return UsageError(text, remedies=error.remedies)

    def _earlier(self, reader: RowReader, key: Key | None) -> str:
        """Return where the row of a key came before, as the end of a message."""
        if not self._keep_lines or self.target is None or key is None:
            return ""
        metadata = self.target.get(key).metadata or {}
        return f": {reader.place(metadata[_LINE])}"

    def share(self) -> float | None:
        """Return what part of the inputs is done, from 0 to 1, None where it is unknown.

        By the bytes read, less the share of the rows that were read ahead.
        """
        part = 0.0
        if self.reader is not None and self._finished < len(self._sources):
            total = self.reader.bytes_total
            if not total:
                return None
            part = self.reader.bytes_read / total
        read = min(1.0, (self._finished + part) / len(self._sources))
        return read * self.done / max(1, self.done + len(self._waiting))
