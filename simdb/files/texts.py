"""Plain files and folders of them: one file is one text or fingerprint, its path is its key."""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

from simdb.errors import BadItemError, UsageError
from simdb.files.compression import STANDARD_STREAM, InputStream
from simdb.files.rows import (
    BYTE_ORDER_MARK,
    LONGEST_RECORD,
    Item,
    ReadingOptions,
    Row,
    RowProblemError,
    RowReader,
    decoded,
    whole_number,
)
from simdb.results import Key


def iter_files(folder: Path, pattern: str | None = None) -> Iterator[str]:
    """Yield the paths of the files below a folder, relative to it, with ``/`` on every system.

    Names that begin with a dot are left out, and so are links to folders (they may lead in
    circles) and what is no ordinary file. Sorted by the names along the path.
    """
    waiting = [("", folder)]
    while waiting:
        relative, path = waiting.pop()
        if relative and not path.is_dir():
            if pattern is None or fnmatch.fnmatchcase(path.name, pattern):
                yield relative
            continue
        with os.scandir(path) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and (entry.is_dir(follow_symlinks=False) or _is_file(entry))
            )
        prefix = relative + "/" if relative else ""
        waiting.extend((prefix + name, path / name) for name in reversed(names))


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or leads to one; a link that leads to itself does not."""
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def leads_out(folder: Path, path: Path) -> bool:
    """Whether a file in a folder is a link to one outside, which its giver need not own."""
    return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())


def lines_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file or of standard input that are not empty, with their numbers.

    Raises:
        UsageError: one is not UTF-8, or too long.
    """
    with InputStream(source) as stream:
        for number, line, problem in stream.whole_lines(LONGEST_RECORD):
            raw = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            try:
                text = decoded(raw.removesuffix(b"\n").removesuffix(b"\r"))
            except RowProblemError as error:
                raise UsageError(f"{source}, line {number}: {error}") from None
            if problem is not None:
                raise UsageError(f"{source}, line {number}: {problem}")
            if text:
                yield number, text


def is_folder(source: str) -> bool:
    """Whether an input is a folder; a query of a database may be longer than any name can be."""
    try:
        return source != STANDARD_STREAM and Path(source).is_dir()
    except OSError:
        return False


class TextReader(RowReader):
    """Rows of a file, of a folder of them, or of the whole of standard input.

    The key is the path: of a file the one given, of files in a folder the one relative to the
    folder. ``raw`` is the key and a line end, so that the kept rows are a list of files.
    """

    def __init__(self, source: str, options: ReadingOptions) -> None:
        super().__init__(source, options)
        self._folder = Path(source) if is_folder(source) else None

    def __iter__(self) -> Iterator[Row]:
        if self._folder is None:
            yield self._row(1, self.source, self.source)
            return
        paths = iter_files(self._folder, self.options.pattern)
        for number, relative in enumerate(paths, 1):
            yield self._row(number, relative, str(self._folder / relative))

    def _row(self, number: int, path: str, name: str) -> Row:
        raw = os.fsencode(path) + b"\n"
        key: Key | None = None
        try:
            _check_path(raw)
            key = whole_number(path) if self.options.integer_keys else path
            item: Item = self.options.kind.item_of_text(self._text(name))
        except (RowProblemError, BadItemError) as problem:
            return Row(number, key, None, None, raw, f"{self.naming(path)}{problem}")
        return Row(number, key, item, None, raw)

    def _text(self, name: str) -> str:
        if self._folder is not None and leads_out(self._folder, Path(name)):
            raise RowProblemError("a link to a file outside the folder")
        try:
            with InputStream(name) as stream:
                content = stream.read(self.options.longest + 1)
        except (OSError, UsageError) as error:
            # In a folder one file that cannot be read is a bad row; alone it is the whole input.
            if self._folder is None:
                raise
            raise RowProblemError(getattr(error, "strerror", None) or str(error)) from None
        if len(content) > self.options.longest:
            raise RowProblemError(f"longer than {self.options.longest} bytes")
        return decoded(content.removeprefix(BYTE_ORDER_MARK), self.options.encoding)

    def fields(self, raw: bytes) -> dict[str, str]:
        """Return the path of a file; its text is where it was."""
        return {"path": os.fsdecode(raw.removesuffix(b"\n"))}

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return self.source if self._folder is None else f"{self.source}, file {line}"

    def naming(self, key: Key) -> str:
        """Return the name of a file in the folder, as the message about one has it that is read."""
        return "" if self._folder is None else f"{str(key)!a}: "


def _check_path(raw: bytes) -> None:
    if raw.splitlines(keepends=True) != [raw]:
        raise RowProblemError("the path contains a line break, which a list of files cannot hold")
    try:
        decoded(raw)
    except RowProblemError as problem:
        raise RowProblemError(f"the path is {problem}") from None
