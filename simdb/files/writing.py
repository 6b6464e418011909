"""Files out: complete or not there at all."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedRandom, BufferedWriter, FileIO
from pathlib import Path
from typing import IO, Any

from simdb.errors import UsageError
from simdb.extras import require
from simdb.files.compression import STANDARD_STREAM, compressing, plain_name
from simdb.unfinished import held, remove_abandoned, sync_folder

# Where the first page of an LMDB file has its magic number, and what that is.
_MAGIC_AT = 16
_MAGIC = bytes.fromhex("dec0efbe")
_BESIDE_A_STORE = re.compile("(?<=.)-(lock|turn)$")
TABLES = ("parquet", "arrow")
# What readers expect by the name of a file; other names promise nothing.
_PROMISED = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "an array",
    ".npz": "an array",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".lz4": "LZ4",
    ".zip": "zip",
    ".xls": "Excel",
    ".xlsx": "Excel",
    ".htm": "HTML",
    ".html": "HTML",
    ".sqlite": "SQLite",
    ".duckdb": "DuckDB",
}
# Besides those below a blank, which JSON escapes anyway: DEL, the C1 controls, marks of direction.
_OBEYED = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _belongs_to_a_store(path: Path) -> bool:
    """Whether a file is a store or one of those beside it, which no output may replace."""
    try:
        with path.with_name(_BESIDE_A_STORE.sub("", path.name)).open("rb") as file:
            return file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC
    except OSError:
        return False


class _Named(FileIO):
    """A file whose errors name another one, in whose place it is to be, or its folder."""

    def __init__(self, file: Path | int, mode: str, target: str) -> None:
        super().__init__(file, mode, closefd=not isinstance(file, int))
        self._target = target

    def write(self, content: Any) -> int:
        """Write bytes; an error names the target."""
        with named_by(self._target):
            return super().write(content)


class Output:
    """A file that appears under its name only when it is complete, or standard output.

    Written beside its target under a name of its own, so that the rename stays within one file
    system; ``finish`` brings it to the disk, ``publish`` gives it its name. Of runs that were
    killed the next one to the same target removes what they left. What is no ordinary
    file (a pipe, ``/dev/null``) is written directly: nothing may take its place. A terminal gets
    no character that it would obey.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._on_terminal = target == STANDARD_STREAM and sys.stdout.buffer.isatty()
        self._temporary: Path | None = None
        self._final = Path(target)
        try:
            self._stored = self._stream = self._opened()
            self._stream = compressing(self._stored, target)
        except BaseException:
            self.discard()
            raise

    def _opened(self) -> IO[bytes]:
        if self.target == STANDARD_STREAM:
            return sys.stdout.buffer
        # Of a link to a pipe, as /dev/stdout may be, what it leads to has no name.
        named = Path(self.target)
        mode = named.stat().st_mode if named.exists() else None
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "is a folder", self.target)
        if mode is not None and not stat.S_ISREG(mode):
            return named.open("wb")
        self._final = Path(os.path.realpath(self.target))
        if _belongs_to_a_store(self._final):
            raise UsageError(f"{self.target} belongs to a store; name another file for the output")
        beginning = f".{self._final.name[:100]}."
        remove_abandoned(self._final.parent, f"{glob.escape(beginning)}*.part")
        while True:
            temporary = self._final.with_name(f"{beginning}{os.urandom(8).hex()}.part")
            self._temporary = temporary  # before it is there: an interrupt may come at once
            with named_by(self.target):
                stored = BufferedWriter(_Named(temporary, "xb", self.target))
            if held(stored.fileno()):
                break
            stored.close()  # another run took it for abandoned before it was held
        if mode is not None:
            os.fchmod(stored.fileno(), stat.S_IMODE(mode))
        return stored

    @property
    def file(self) -> IO[bytes]:
        """What is written to, for whoever writes a whole file of his own form."""
        return self._stream

    def write(self, content: bytes) -> None:
        """Append bytes."""
        if self._on_terminal:
            content = printable(content.decode("utf-8", "backslashreplace"), "\n\t").encode()
        self._stream.write(content)

    def finish(self) -> None:
        """Write all that is left, to the disk itself."""
        if self._stream is not self._stored:
            self._stream.close()
        self._stored.flush()
        if self._temporary is not None:  # closed, and so no longer held, when it is published
            with named_by(self.target):
                os.fsync(self._stored.fileno())
        elif self.target != STANDARD_STREAM:
            self._stored.close()

    def publish(self) -> None:
        """Put the finished file in the place of its target, in one step."""
        if self._temporary is None:
            return
        self._temporary.replace(self._final)
        self._temporary = None
        self._stored.close()
        sync_folder(self._final.parent)

    def discard(self) -> None:
        """Remove what was written; the target stays as it was."""
        if self.target != STANDARD_STREAM:
            # What compresses first: left open, it would write its end into a closed file.
            streams = (getattr(self, name, None) for name in ("_stream", "_stored"))
            for stream in streams:  # one that was not opened is not there
                with contextlib.suppress(OSError):
                    if stream is not None:
                        stream.close()
        if self._temporary is not None:
            # It may not be there, and what is to be told is why the output was not written.
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            self._temporary = None


@contextlib.contextmanager
def temporary_in(folder: Path, named: str) -> Iterator[IO[bytes]]:
    """Open a file without a name in a folder; errors of writing it name another place."""
    with tempfile.TemporaryFile(dir=folder, prefix=".simdb-", buffering=0) as file:
        buffered = BufferedRandom(_Named(file.fileno(), "r+b", named))
        try:
            yield buffered
        finally:
            with contextlib.suppress(OSError):  # what was not read again is not needed
                buffered.close()


@contextlib.contextmanager
def named_by(target: str) -> Iterator[None]:
    """Let an error about what is made beside an output name the output, or its folder."""
    try:
        yield
    except OSError as error:
        _require_folder(target)
        raise OSError(error.errno, error.strerror, target) from None


def require_folders(*targets: str) -> None:
    """Raise before long work that would be lost if an output is a folder, or has none.

    IsADirectoryError, FileNotFoundError.
    """
    for target in targets:
        if target != STANDARD_STREAM and Path(target).is_dir():
            raise IsADirectoryError(21, "is a folder", target)
        _require_folder(target)


def _require_folder(target: str) -> None:
    folder = None if target == STANDARD_STREAM else Path(os.path.realpath(target)).parent
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(2, "no such folder", str(folder)) from None


def promised_form(target: str) -> str | None:
    """Return the format that the name of an output promises, None where it promises nothing."""
    return _PROMISED.get(Path(plain_name(target)).suffix.lower())


def require_fitting_name(target: str, *written: str) -> None:
    """Raise if the name of an output promises another format than can be written there.

    MissingExtraError: it means a table, and the library for tables is not installed.
    """
    promised = promised_form(target)
    if promised is not None and promised not in written:
        (*others, last) = written
        can = f"{', '.join(others)} or {last} can" if others else f"{last} would"
        raise UsageError(f"the name of {target} means {promised}, but {can} be written")
    if promised in TABLES and plain_name(target) != target:
        raise UsageError(
            f"{target}: tables are already compressed inside: leave out the second ending"
        )
    if promised in TABLES:
        require("arrow", "files of Parquet and Arrow need", "pyarrow")


@contextlib.contextmanager
def folders_made(targets: Iterable[str]) -> Iterator[None]:
    """Make the folders of outputs; those that were made go again if the block fails."""
    made: list[Path] = []
    try:
        for parent in {Path(target).parent for target in targets}:
            missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                made.append(folder)
        yield
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def require_distinct(*targets: str) -> None:
    """Raise UsageError if two outputs are the same file."""
    places = [name if name == STANDARD_STREAM else os.path.realpath(name) for name in targets]
    for target, place in zip(targets, places, strict=True):
        takes_several = Path(place).exists() and not Path(place).is_file()  # a device, a pipe
        if places.count(place) > 1 and not takes_several:
            raise UsageError(f"two outputs cannot both go to {target}")


@contextlib.contextmanager
def written_together(*targets: str) -> Iterator[tuple[Output, ...]]:
    """Write several files of which none appears before all are complete.

    When the block fails or is interrupted, every target stays as it was and nothing is left beside
    it.

    Raises:
        UsageError: two targets are the same file.
    """
    require_distinct(*targets)
    outputs: list[Output] = []
    try:
        # By functions of C, which no interrupt parts: else one could be open and not noted here.
        outputs.extend(map(Output, targets))
        yield tuple(outputs)
        for output in outputs:
            output.finish()
        for output in outputs:
            output.publish()
    finally:
        with contextlib.ExitStack() as ending:
            for output in outputs:
                ending.callback(output.discard)


def printable(text: str, keep: str = "") -> str:
    r"""Return text with every character that a terminal could obey as an escape.

    Control characters, marks of direction and halves of surrogate pairs become ``\x1b``,
    ``\u202e`` and the like; those in ``keep`` stay.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def json_line(fields: Mapping[str, Any]) -> bytes:
    r"""Return an object as one line of JSON in UTF-8, its ``\n`` included.

    Characters stand for themselves but for those that a terminal obeys, which are escaped; text
    that UTF-8 cannot hold makes the line one of escapes. Floats are written with all their digits.

    Raises:
        ValueError: NaN or an infinity, which JSON does not know.
        TypeError: a value that JSON cannot hold, such as bytes.
    """
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
        if not text.isprintable():
            text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(fields, allow_nan=False).encode("ascii") + b"\n"
