"""Zstandard: records compressed one by one, with what many of them have in common.

A *frame* is what one record becomes. It says neither its dictionary nor a checksum: who stores it
knows both. Short records have little in themselves that comes twice; a dictionary, trained on some
of them, is what a frame may refer to as if it stood before the record.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from simdb.errors import CorruptionError
from simdb.late import cached_property

LEVEL = 3
WINDOW_LOG = 21  # of all frames: so reading one takes so little beside the record itself
DICTIONARY_BYTES = 2**15
LEAST_SAMPLE, LARGEST_SAMPLE = 2**18, 2**21  # bytes that a dictionary is trained on
SAMPLE_PER_BYTE = 8  # of the dictionary, at least


def library() -> Any:
    """Return Python's own library of Zstandard, or what brings it to older Pythons."""
    own = sys.version_info >= (3, 14)
    return importlib.import_module("compression.zstd" if own else "backports.zstd")


def trained(records: Sequence[bytes | memoryview]) -> bytes:
    """Return a dictionary of what records have in common; empty if they are too few or too short.

    It depends on the records alone.
    """
    size = sum(map(len, records))
    if size < LEAST_SAMPLE:
        return b""
    places = range(0, len(records), max(1, size // LARGEST_SAMPLE))
    sample = [bytes(records[place]) for place in places]
    most = min(DICTIONARY_BYTES, sum(map(len, sample)) // SAMPLE_PER_BYTE)
    try:
        made: bytes = library().train_dict(sample, most).dict_content
    except library().ZstdError:  # it finds nothing in common
        return b""
    return made


class Codec:
    """Makes frames and reads them, with a dictionary if that is not empty. Safe for threads."""

    def __init__(self, dictionary: bytes = b"") -> None:
        self.dictionary = dictionary

    @cached_property
    def _loaded(self) -> Any:
        """The dictionary as the library takes it."""
        if not self.dictionary:
            return None
        try:
            loaded = library().ZstdDict(self.dictionary)
            library().ZstdDecompressor(loaded)  # only this looks into it
        except (ValueError, self._error) as error:
            raise CorruptionError(f"a dictionary of compression is damaged: {error}") from error
        return loaded

    def require_sound(self) -> None:
        """Raise CorruptionError for what is no dictionary, or of a size that none is trained to."""
        if not 0 < len(self.dictionary) <= DICTIONARY_BYTES:
            size = len(self.dictionary)
            raise CorruptionError(f"a dictionary of compression has {size:,} bytes")
        _ = self._loaded

    @cached_property
    def _reader(self) -> Callable[[], Any]:
        """Makes what reads one frame; the library has nothing that reads another one after it."""
        options = {library().DecompressionParameter.window_log_max: WINDOW_LOG}
        return partial(library().ZstdDecompressor, self._loaded, options)

    @cached_property
    def _error(self) -> type[Exception]:
        error: type[Exception] = library().ZstdError
        return error

    def frames(self, records: Iterator[bytes | memoryview]) -> Iterator[bytes]:
        """Yield the frame of each record; no lock is held while it is made."""
        names = library().CompressionParameter
        compressor = library().ZstdCompressor(
            options={
                names.compression_level: LEVEL,
                names.window_log: WINDOW_LOG,
                names.checksum_flag: 0,
                names.dict_id_flag: 0,
            },
            zstd_dict=self._loaded,
        )
        for record in records:
            yield compressor.compress(record, compressor.FLUSH_FRAME)

    def record(self, frame: memoryview, most: int) -> bytes:
        """Return the record of a frame; CorruptionError if it is damaged or of more bytes."""
        reader = self._reader()
        try:
            record: bytes = reader.decompress(frame, most + 1)
        except self._error as error:
            raise CorruptionError(f"a compressed record is damaged: {error}") from error
        if len(record) > most or not reader.eof or reader.unused_data:
            raise CorruptionError(f"a compressed record is not one of at most {most:,} bytes")
        return record
