"""Byte streams in and out, compressed by the suffix of their name: ``.gz`` and ``.zst``.

Both directions have bounded memory. A compressed input that ends early is an error and never a
shorter input.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from types import ModuleType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from simdb.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_STREAM = "-"
COMPRESSED_SUFFIXES = (".gz", ".zst")

_CHUNK = 1 << 20
# One byte of Zstandard can stand for 32 KiB, so small portions bound what one call returns.
_ZSTANDARD_PORTION = 1024


def plain_name(name: str) -> str:
    """Return a file's name without the suffix of its compression."""
    for suffix in COMPRESSED_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def _zstandard() -> ModuleType:
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(
            '.zst files need the zstandard extra: pip install "simdb-store[zstandard]"'
        ) from error
    return zstandard


class _ZstandardFile(io.RawIOBase):
    """The content of a Zstandard file; unlike the library's own reader it notices a cut one."""

    def __init__(self, compressed: IO[bytes]) -> None:
        self._library: Any = _zstandard()
        self._compressed = compressed
        self._frame: Any = None
        self._unread = memoryview(b"")

    def readable(self) -> bool:
        """Tell that this is a stream to read from."""
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        """Fill ``target`` as far as the next frames reach; 0 is the end."""
        view = memoryview(target).cast("B")
        while not self._unread and self._decompress():
            pass
        count = min(len(view), len(self._unread))
        view[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count

    def _decompress(self) -> bool:
        portion = self._compressed.read(_ZSTANDARD_PORTION)
        if not portion:
            if self._frame is not None:
                raise EOFError("the compressed data end in the middle")
            return False
        content = []
        try:
            while portion:
                if self._frame is None:
                    self._frame = self._library.ZstdDecompressor().decompressobj()
                content.append(self._frame.decompress(portion))
                portion = b""
                if self._frame.eof:
                    portion = self._frame.unused_data
                    self._frame = None
        except self._library.ZstdError as error:
            raise EOFError(str(error)) from error
        self._unread = memoryview(b"".join(content))
        return True


class InputStream:
    """The decompressed bytes of a file or of standard input, as a context manager.

    Args:
        name: as the user gave it.
        content: what there is to read, without any file.

    Attributes:
        name: as the user gave it.
        size: bytes of the file as it is stored, None when it is no ordinary file.
    """

    def __init__(self, name: str, content: bytes | None = None) -> None:
        self.name = name
        self.size: int | None = None
        if content is not None:
            self._owned = False
            self._stored: IO[bytes] = io.BytesIO(content)
            self._stream: IO[bytes] = self._stored
            return
        self._owned = name != STANDARD_STREAM
        self._stored = io.BufferedReader(io.FileIO(name)) if self._owned else sys.stdin.buffer
        try:
            if self._owned:
                status = os.fstat(self._stored.fileno())
                self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
            self._stream = self._decompressed()
        except BaseException:
            self.close()
            raise

    def _decompressed(self) -> IO[bytes]:
        if self.name.lower().endswith(".gz"):
            # GzipFile is no RawIOBase but reads like one; a buffer above it makes lines fast.
            unpacked: Any = gzip.GzipFile(fileobj=self._stored, mode="rb")
            return io.BufferedReader(unpacked, _CHUNK)
        if self.name.lower().endswith(".zst"):
            return io.BufferedReader(_ZstandardFile(self._stored), _CHUNK)
        return self._stored

    @property
    def position(self) -> int:
        """Bytes taken so far from the file as it is stored; for progress, not for seeking."""
        return self._stored.tell() if self.size is not None else 0

    def read(self, longest: int) -> bytes:
        """Return up to ``longest`` bytes, fewer only at the end."""
        try:
            return self._stream.read(longest)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(error) from error

    def readline(self, longest: int) -> bytes:
        r"""Return the bytes up to and with the next ``\n``, or the first ``longest`` of them."""
        try:
            return self._stream.readline(longest)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> UsageError:
        return UsageError(f"{self.name}: the compressed file is damaged or cut short: {error}")

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._owned:
            self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def compressing(stored: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream that compresses into ``stored`` as the suffix of ``name`` asks.

    The same content gives the same bytes: no time and no name is written. Closing the returned
    stream completes the compressed data and leaves ``stored`` open.
    """
    if name.lower().endswith(".gz"):
        packed: Any = gzip.GzipFile(
            filename="", fileobj=stored, mode="wb", compresslevel=6, mtime=0
        )
        return io.BufferedWriter(packed, _CHUNK)
    if name.lower().endswith(".zst"):
        writer: IO[bytes] = (
            _zstandard().ZstdCompressor(level=3).stream_writer(stored, closefd=False)
        )
        return writer
    return stored
