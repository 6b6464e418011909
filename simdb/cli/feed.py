"""Rows of inputs on their way into a collection, and their outcomes on the way back."""

from __future__ import annotations

import glob
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

import simdb
from simdb.arguments import WHOLE_NUMBER
from simdb.arrow import Keys, Part, Parts, joined_keys
from simdb.cli.output import note
from simdb.errors import BadItemError, KeyExistsError, UsageError
from simdb.files import open_rows
from simdb.files.formats import FORMATS
from simdb.files.inputs import told_format
from simdb.files.rows import ColumnRows, ReadingOptions, Row, RowReader
from simdb.files.separated import delimiter_in_words
from simdb.files.spans import Spans
from simdb.files.spilled import Spilled, SpilledKeys
from simdb.files.texts import is_folder
from simdb.files.writing import Output, json_line
from simdb.ragged import Column
from simdb.results import AddReport, Key, Outcome, Outcomes

_LOOKED_AT = 1_000  # stored rows whose keys are read at once
_BAD_ROWS_TOLD = 20
_WITH_FOLDER = (
    " (keys are paths within the folder here; if this is another text under the same name, the "
    "pattern {pattern!r} in place of the folder makes keys that have its name)"
)
_WITH_PLACE = (
    " (keys are the name of the input and the line here; another file needs another name, or "
    "--key-prefix)"
)
_MOST_KEPT_BACK, _BYTES_KEPT_BACK = 100_000, 2**26  # rows that cannot be read, and what they take


def _files_like(source: str, key: Key | None) -> str:
    """Return a pattern, with the name of a folder, of its files that are like one of them."""
    folder, path = Path(source), PurePosixPath(str(key))
    if folder.name in ("", ".."):
        folder = folder.resolve()
    below = "*" if len(path.parts) == 1 else "**/*"
    return f"{glob.escape(str(folder))}/{below}{path.suffix}"


def duplicate_fields(outcome: Outcome, line: int, *, is_distance: bool) -> dict[str, Any]:
    """Return what is written about a row that duplicates another, by one measure or the other.

    Of one whose key is stored with other content there is neither.
    """
    measure = "distance" if is_distance else "similarity"
    return {
        "line": line,
        "id": outcome.key,
        "duplicate_of": outcome.duplicate_of,
        measure: getattr(outcome, measure),
        "within_input": outcome.within_input,
        **({"estimated": True} if outcome.estimated else {}),
    }


class Waiting(Struct):
    """Successive rows of an input whose outcomes are not known yet.

    Attributes:
        reader: of the input.
        lines, keys: one for each row.
        raws: the bytes of each, if they are kept.
    """

    reader: RowReader
    lines: Sequence[int]
    keys: Sequence[Key | None]
    raws: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.lines)

    def cut(self, some: slice) -> Waiting:
        """Return some of the rows."""
        return Waiting(self.reader, self.lines[some], self.keys[some], self.raws[some])

    def raw(self, place: int) -> bytes:
        """Return the bytes of a row."""
        return self.raws[place] if self.raws else b""

    def about(self, place: int, problem: str) -> tuple[str, str]:
        """Return the place of a row and its problem, with its key if that helps."""
        key = self.keys[place]
        naming = "" if key is None else self.reader.naming(key)
        return self.reader.place(self.lines[place]), naming + problem


def _in_other_type(key: Key) -> Key | None:
    """Return the text of a number, or the number that a text spells; None if it spells none."""
    if isinstance(key, int):
        return str(key)
    return int(key) if WHOLE_NUMBER.fullmatch(key) else None


def _type_of(key: Key) -> type[Key]:
    return str if isinstance(key, str) else int


def _hash_of(key: Key | None) -> int:
    """Return a hash that keys share by chance only, as -1 and -2 do not; 1 and "1" differ."""
    return hash(repr(key))


def ways_to_key(form: str) -> str:
    """Say which options give rows of a format keys other than the numbers of lines."""
    if form == "numpy":
        return "--id-field names an array of keys in a .npz file"
    return "--id-field names the field of the key, and --make-keys makes keys"


def without_lasting_keys(form: str) -> UsageError:
    """Return what to raise of rows of a format that a new store would know by their lines."""
    return UsageError(
        "a store needs keys that do not change, and line numbers come again in the next file: "
        f"{ways_to_key(form)}"
    )


def noted(reader: RowReader, rows: Iterable[Row] | None = None) -> Iterator[Row]:
    """Yield the rows of a reader, or some of them, and print its notes on standard error."""
    told = 0 if rows is None else len(reader.notes)
    try:
        for row in reader if rows is None else rows:
            for text in reader.notes[told:]:
                note(text)
            told = len(reader.notes)
            yield row
    finally:
        for text in reader.notes[told:]:
            note(text)


def _require_one_form(reader: RowReader, first: RowReader) -> None:
    """Raise BadItemError unless rows of an input can stand in one file with those of another."""
    if (reader.header, reader.unnamed) != (first.header, first.unnamed):
        raise BadItemError(f"{reader.source}: its header differs from that of {first.source}")
    if reader.delimiter is not None and reader.delimiter != first.delimiter:
        own, other = map(delimiter_in_words, (reader.delimiter, first.delimiter or ""))
        raise BadItemError(
            f"{reader.source}: {own} separates its fields, and {other} those of {first.source}: "
            "rows of both cannot share a file"
        )


class _Rows(Part):
    """Rows that are read one by one."""

    def __init__(self, first: int, rows: Iterator[Any]) -> None:
        self.first = first
        self._rows = rows

    def rows(self) -> Iterator[Any]:
        return self._rows


class _Columns(Part):
    """Rows of tables in columns.

    Args:
        first: the position of the first.
        pieces: some of them each.
        one_by_one: the same rows, read so.
    """

    def __init__(
        self, first: int, pieces: list[ColumnRows], one_by_one: Callable[[], Iterator[Any]]
    ) -> None:
        self.first = first
        self._pieces = pieces
        self._one_by_one = one_by_one

    def rows(self) -> Iterator[Any]:
        return self._one_by_one()

    def columns(self) -> tuple[Keys, Column, list[Any] | None] | None:
        first, *others = self._pieces
        column = first.item_column(others)
        if column is None:
            return None
        keys = [piece.keys for piece in self._pieces]
        metadata = [piece.metadata_of_rows() for piece in self._pieces]
        told = None
        if any(one is not None for one in metadata):
            pairs = zip(keys, metadata, strict=True)
            told = [one for own, known in pairs for one in known or [None] * len(own)]
        return joined_keys(keys), column, told


class Feed(Parts):
    """The rows of one input after the other, for ``add_many`` and ``dedupe``; tables in columns.

    Rows that cannot be read never reach the collection: they are told on standard error and
    counted, or end the work. The collection counts the others from 0; ``settled`` takes its
    outcomes in the same order and gives them their rows back.

    Args:
        sources: names of files and folders, ``-`` for standard input.
        options: how they are read.
        on_bad: ``"error"`` or ``"skip"``.
        keep_raw: keep the bytes of rows until they are settled.
        spilled: where they and the keys are kept if all rows wait for the last one.
        in_one: raise BadItemError where the rows of two inputs cannot share a file.
        keep_lines: give rows without their metadata, and remember their lines. The target has
            nothing but these rows.
        stays: rows are recognised by their keys when they come again. The first key must be of a
            type that stored ones have, and no row may have a key that is stored, or came before, in
            the other type.

    Attributes:
        target: the collection, where it may be asked for the number of an earlier row.
        bad_file: where the bad rows are written, if they are.
        on_opening: called with the reader of each input before it is read, if it is set.
        bad: how many rows could not be read or stored, of those that are told so far.
        done: how many rows have an outcome.
        preambles: what stood before the rows of each input that was read.
        arrays: those of these inputs whose rows are the elements of a JSON array.
    """

    def __init__(
        self,
        sources: Collection[str],
        options: ReadingOptions,
        *,
        on_bad: str,
        keep_raw: bool = False,
        spilled: IO[bytes] | None = None,
        in_one: bool = False,
        keep_lines: bool = False,
        stays: bool = False,
    ) -> None:
        self.target: simdb.CollectionView | None = None
        self.bad_file: Output | None = None
        self.on_opening: Callable[[RowReader], None] | None = None
        self.preambles: dict[str, bytes] = {}
        self.arrays: set[str] = set()
        self.bad = 0
        self.bad_rows: list[dict[str, str]] = []
        # Rows that cannot be read, each with how many were handed over before it: they are told in
        # their places among those that cannot be stored, which is known later.
        self._refused: deque[tuple[int, Waiting, str]] = deque()
        self._refused_bytes = 0
        self.done = 0
        self.reader: RowReader | None = None
        self._sources = sources
        self._options = options
        self._stop_at_bad = on_bad == "error"
        self._keep_raw = keep_raw
        self._spilled = spilled
        self._in_one = in_one
        self._keep_lines = keep_lines
        self._stays = stays
        self._types: set[type[Key]] = set()  # of keys, stored ones too
        # Hashes of the keys that were handed over and are not stored: at first of removed rows, 8
        # bytes each; of all that wait too, when keys of the second type come.
        self._removed = array("q")
        self._unstored: set[int] | None = None
        # Of the rows stored, by their numbers: the lines, and where those of each input begin.
        self._lines = Spans()
        self._begun: list[tuple[int, RowReader]] = []
        self._numbers: dict[Key, int] = {}  # known when a key is met twice
        self._waiting: deque[Waiting] = deque()
        self._handed = 0
        self._finished = 0

    @property
    def is_of_several(self) -> bool:
        """Whether there are several inputs, so that a line number alone is ambiguous."""
        return len(self._sources) > 1

    def parts(self, most_rows: int, most_bytes: int) -> Iterator[Part]:
        """Yield the rows that can be stored; afterwards ``reader`` is the last input."""
        for in_columns, sources in groupby(self._sources, self._reads_columns):
            if in_columns:
                yield from self._parts_in_columns(sources, most_rows, most_bytes)
            else:
                yield _Rows(self._handed, self._rows_of(sources))

    def _reads_columns(self, source: str) -> bool:
        return FORMATS[told_format(source, self._options)].reads_columns(self._options)

    def _opened(self, sources: Iterable[str]) -> Iterator[RowReader]:
        """Yield a reader of each input; it stays open until the next one."""
        for source in sources:
            with open_rows(source, self._options) as reader:
                self.reader = reader
                if self.on_opening is not None:
                    self.on_opening(reader)
                yield reader
                # The elements of the next input are what those of this one were.
                self._options = replace(self._options, elements=reader.tokens.elements)
                self.preambles[source] = reader.preamble
                if reader.is_array:
                    self.arrays.add(source)
            self._finished += 1

    def _rows_of(self, sources: Iterable[str]) -> Iterator[Any]:
        first: RowReader | None = None
        for reader in self._opened(sources):
            rows = noted(reader)
            begun = list(islice(rows, 1))  # what stands before it is read then
            if self._in_one and (begun or reader.header is not None):
                first = first or reader
                _require_one_form(reader, first)
            for row in chain(begun, rows):
                yield from self._handed_over(reader, row)

    def _handed_over(self, reader: RowReader, row: Row) -> Iterator[tuple[Any, ...]]:
        """Yield a row as the collection takes it; nothing if it is refused."""
        if row.problem is not None or row.key is None or row.item is None:
            self._refuse(Waiting(reader, [row.line], [row.key], [row.raw]), row.problem)
            return
        self._require_like(reader, [row.line], [row.key])
        last = self._waiting[-1] if self._waiting else None
        if last is None or last.reader is not reader or not isinstance(last.lines, list):
            last = Waiting(reader, [], self._kept_keys([]), self._kept([]))
            self._waiting.append(last)
        self._handed += 1
        raw = row.raw if self._keep_raw or self.bad_file is not None else b""
        columns: tuple[Any, ...] = (last.lines, last.keys, last.raws)
        for column, value in zip(columns, (row.line, row.key, raw), strict=True):
            column.append(value)
        bare = self._keep_lines or row.metadata is None
        yield (row.key, row.item) if bare else (row.key, row.item, row.metadata)

    def _parts_in_columns(
        self, sources: Iterable[str], most_rows: int, most_bytes: int
    ) -> Iterator[Part]:
        """Yield the rows column by column, as far as they can be read so."""
        pieces: list[tuple[RowReader, ColumnRows]] = []
        rows = size = 0  # of the pieces
        for reader in self._opened(sources):
            for block in reader.blocks(most_bytes):
                if not isinstance(block, ColumnRows):
                    yield from self._joined(pieces)
                    yield _Rows(self._handed, self._rows_read(reader, noted(reader, block)))
                    continue
                begin = 0
                while begin < len(block.keys):
                    unlike = bool(pieces) and not pieces[-1][1].is_like(block)
                    if unlike or rows >= most_rows or size >= most_bytes:
                        yield from self._joined(pieces)
                    if not pieces:
                        rows = size = 0
                    piece = block.cut(begin, begin + most_rows - rows)
                    pieces.append((reader, piece))
                    begin += len(piece.keys)
                    rows += len(piece.keys)
                    size += piece.nbytes
        yield from self._joined(pieces)

    def _kept(self, raws: Sequence[bytes]) -> Sequence[bytes]:
        """Return the bytes of rows where they are kept."""
        if self._spilled is None:
            return raws
        spilled = Spilled(self._spilled)
        spilled.extend(raws)
        return spilled

    def _kept_keys(self, keys: Sequence[Key]) -> Sequence[Key | None]:
        """Return the keys of rows where they are kept."""
        if self._spilled is None:
            return keys
        spilled = SpilledKeys(Spilled(self._spilled))
        spilled.extend(keys)
        return spilled

    def _rows_read(self, reader: RowReader, rows: Iterator[Row]) -> Iterator[Any]:
        for row in rows:
            yield from self._handed_over(reader, row)

    def _joined(self, pieces: list[tuple[RowReader, ColumnRows]]) -> Iterator[Part]:
        """Hand pieces over as one part, if there are any, and forget them."""
        if not pieces:
            return
        taken, pieces[:] = list(pieces), []
        first = self._handed
        for reader, piece in taken:
            self._require_like(reader, piece.lines, piece.keys)
            raws = self._kept(piece.raws)
            keys = self._kept_keys(piece.keys)
            self._waiting.append(Waiting(reader, piece.lines, keys, raws))
            self._handed += len(piece.keys)

        def one_by_one() -> Iterator[Any]:
            self._handed = first
            for _ in taken:
                self._waiting.pop()
            for reader, piece in taken:
                yield from self._rows_read(reader, noted(reader, piece.rows()))

        yield _Columns(first, [piece for _, piece in taken], one_by_one)

    def _require_like(self, reader: RowReader, lines: Sequence[int], keys: Sequence[Key]) -> None:
        """Raise if keys of one type are not of that of those stored, or came as the other type.

        Otherwise a row would be removed as a copy of itself: the first time, or when the same rows
        come again.
        """
        target = self.target
        if not self._stays or target is None:
            return
        if not self._handed:
            self._types |= target.key_types()
            if self._types and _type_of(keys[0]) not in self._types:
                self._refuse_type(next(target.items()).key, keys[0])
        self._types.add(_type_of(keys[0]))
        if len(self._types) == 1:
            return
        if self._unstored is None:
            waiting = chain.from_iterable(rows.keys for rows in self._waiting)
            self._unstored = {*self._removed, *map(_hash_of, waiting)}
        for line, key in zip(lines, keys, strict=True):
            other = _in_other_type(key)
            if other is None:
                continue
            is_stored = other in target
            if (is_stored or _hash_of(other) in self._unstored) and key not in target:
                how = "is stored" if is_stored else "came earlier"
                raise UsageError(
                    f"{reader.place(line)}: the key {key!r} {how} as {other!r}, and the row "
                    "would be removed as a copy of itself: write all keys as text or all as whole "
                    "numbers (--integer-keys reads numbers written as text)"
                )
            self._unstored.add(_hash_of(key))

    def _note_unstored(self, rows: Waiting, told: Mapping[int, Outcome]) -> None:
        """Remember which keys are not stored, of those that the other type could express."""
        gone = {place for place, one in told.items() if one.action in ("duplicate", "bad")}
        if self._unstored is not None:
            kept = (key for place, key in enumerate(rows.keys) if place not in gone)
            self._unstored.difference_update(map(_hash_of, kept))
            return
        keys = (key for place in gone if (key := rows.keys[place]) is not None)
        self._removed.extend(_hash_of(key) for key in keys if _in_other_type(key) is not None)

    def _refuse_type(self, stored: Key, key: Key) -> NoReturn:
        """Raise since the first key of the input has another type than those that are stored."""
        kinds = ["texts" if isinstance(one, str) else "whole numbers" for one in (stored, key)]
        own = f"{kinds[1]}, such as {key!r}"
        if self._options.id_field is None and self._options.made_keys is None:
            own = "line numbers"
        raise UsageError(
            f"the keys in the collection are {kinds[0]}, such as {stored!r}, and those of this "
            f"input are {own}: --id-field names the field of the key, and --integer-keys reads "
            "numbers written as text"
        )

    def _refuse(self, row: Waiting, problem: str | None) -> None:
        if self._stop_at_bad:
            raise BadItemError(f"{row.reader.place(row.lines[0])}: {problem or 'not a row'}")
        if self.bad_file is None:
            row.raws = []
        self._refused.append((self._handed, row, problem or "not a row"))
        self._refused_bytes += len(row.raw(0))
        if self.done == self._handed:
            self._tell_refused(self._handed)
        while len(self._refused) > _MOST_KEPT_BACK or self._refused_bytes > _BYTES_KEPT_BACK:
            self._tell_refused(self._refused[0][0])

    def _tell_refused(self, handed: int) -> None:
        """Tell the rows that cannot be read and came before so many others were handed over."""
        while self._refused and self._refused[0][0] <= handed:
            _, row, problem = self._refused.popleft()
            self._refused_bytes -= len(row.raw(0))
            self._tell_bad(row, 0, row.reader.place(row.lines[0]), problem)

    def _tell_bad(self, rows: Waiting, number: int, place: str, problem: str) -> None:
        self.bad += 1
        if self.bad_file is not None:
            source = {"input": rows.reader.source} if self.is_of_several else {}
            text = rows.raw(number).decode(self._options.encoding, "backslashreplace")
            fields = {"line": rows.lines[number], "id": rows.keys[number], "problem": problem}
            self.bad_file.write(json_line({**source, **fields, "row": text.rstrip("\r\n")}))
        if self.bad <= _BAD_ROWS_TOLD:
            self.bad_rows.append({"place": place, "problem": problem})
            note(f"{place}: {problem}")
        elif self.bad == _BAD_ROWS_TOLD + 1:
            note("further bad rows are only counted")

    def settled(self, outcomes: Outcomes) -> Iterator[tuple[Waiting, dict[int, Outcome]]]:
        """Yield the rows of a commit, grouped by input; bad rows are reported.

        With them come, by position, the outcomes of rows that were not simply stored.
        """
        begin, apart = 0, sorted(outcomes.apart)
        while begin < len(outcomes):
            waiting = self._waiting[0]
            end = min(begin + len(waiting), len(outcomes))
            rows = waiting.cut(slice(end - begin))
            if end - begin == len(waiting):
                self._waiting.popleft()
            else:
                self._waiting[0] = waiting.cut(slice(end - begin, None))
            places = apart[bisect_left(apart, begin) : bisect_left(apart, end)]
            told = {place - begin: outcomes.apart[place] for place in places}
            if self._keep_lines:
                self._note_lines(rows, told)
            if self._stays:
                self._note_unstored(rows, told)
            for place, outcome in told.items():
                if outcome.action == "bad":
                    self._tell_refused(self.done + place)
                    problem = outcome.problem or "cannot be stored"
                    if outcome.within_input is not None:  # its key is stored with other content
                        problem += self._of_key(rows, outcome.key, outcome.within_input)
                    self._tell_bad(rows, place, *rows.about(place, problem))
            self.done += len(rows)
            self._tell_refused(self.done)
            yield rows, told
            begin = end

    def _note_lines(self, rows: Waiting, told: Mapping[int, Outcome]) -> None:
        """Remember the lines of the rows that are stored."""
        if not self._begun or self._begun[-1][1] is not rows.reader:
            self._begun.append((len(self._lines), rows.reader))
        left_out = [place for place, outcome in told.items() if outcome.action != "added"]
        self._lines.extend(np.delete(np.array(rows.lines, np.int64), left_out))

    def placed(self, error: UsageError) -> UsageError:
        """Return an error about a row with the position of the row in its input."""
        number = getattr(error, "row", None)
        if not isinstance(number, int) or not self.done <= number < self._handed:
            return error
        # The row's number among those handed over means nothing to the user of a file.
        place = number - self.done
        for waiting in self._waiting:
            if place < len(waiting):
                break
            place -= len(waiting)
        problem = error.problem.removeprefix(f"row {number}: ")
        text = ": ".join(waiting.about(place, problem))
        remedies = error.remedies
        if isinstance(error, KeyExistsError):
            text += self._of_key(waiting, error.key, error.within_input)
            if self._of_lines(waiting):
                remedies = ()  # to replace what another file has in that line would lose it
        return UsageError(text, remedies=remedies)

    def _of_key(self, rows: Waiting, key: Key | None, within_input: bool) -> str:
        """Return of a key that is stored already where it comes from, as the end of a message."""
        text = self._earlier(key) if within_input else ""
        source = rows.reader.source
        text += self._of_lines(rows)
        if told_format(source, self._options) == "text" and is_folder(source):
            # To replace what a file of another folder has under that name would lose it.
            text += _WITH_FOLDER.format(pattern=_files_like(source, key))
        return text

    def _of_lines(self, rows: Waiting) -> str:
        """Return what keys are that hang on lines, as the end of a message; nothing of others."""
        form = told_format(rows.reader.source, self._options)
        if form == "text" or self._options.id_field is not None:
            return ""
        if self._options.made_keys == "place":
            return _WITH_PLACE
        if self._options.made_keys is not None:
            return ""
        return f" (keys are line numbers here; in a new collection {ways_to_key(form)})"

    def _earlier(self, key: Key | None) -> str:
        """Return the position of the earlier row of a key, as the end of a message."""
        if not self._keep_lines or self.target is None or key is None:
            return ""
        for first in range(len(self._numbers), len(self._lines), _LOOKED_AT):
            numbers = range(first, min(first + _LOOKED_AT, len(self._lines)))
            self._numbers.update(zip(self.target.keys_of(numbers), numbers, strict=True))
        number = self._numbers.get(key)
        if number is None:  # that row was removed
            return ""
        before = self._begun[bisect_right(self._begun, number, key=itemgetter(0)) - 1][1]
        return f": {before.place(self._lines[number])}"

    def counted(self, report: AddReport, **counts: int) -> dict[str, int]:
        """Return the number of rows, and the counts of their outcomes."""
        self._tell_refused(self._handed)
        rows = self.done + self.bad - report.bad
        return {"rows": rows, **counts, "bad": self.bad}

    def share(self) -> float | None:
        """Return the share of the inputs that is done, from 0 to 1; None if it is unknown.

        By the bytes read, less the share of the rows that were read ahead.
        """
        part = 0.0
        if self.reader is not None and self._finished < len(self._sources):
            total = self.reader.bytes_total
            if not total:
                return None
            part = self.reader.bytes_read / total
        read = min(1.0, (self._finished + part) / len(self._sources))
        return read * self.done / max(1, self._handed)
