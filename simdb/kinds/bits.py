"""Bit vectors of one length: Hamming distance and Tanimoto similarity (MMDS 3.5.6, 3.7.1).

The stored form is the bits in bytes, the first in the highest bit of the first byte (as
``np.packbits`` has them), filled up with zero bits to a whole number of 8 bytes: of one width for
all, so that stored vectors are an array of uint64 as they lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from operator import index
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
from msgspec import Meta
from msgspec.structs import replace

from simdb import kernels
from simdb.arguments import is_whole, short
from simdb.arrays import Int64s, UInt8s, UInt64s
from simdb.errors import BadItemError, ConfigurationError
from simdb.evidence import Evidence, Label, facets_of_labels, labelled
from simdb.exact import pigeonhole
from simdb.exact.joins import ALONE, Workers
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold
from simdb.kinds.base import (
    MAXIMUM_ITEM_BYTES,
    ROWS_OF_NUMBERS,
    Compared,
    Examples,
    Finder,
    Items,
    Measure,
    PairedMeasure,
    Stored,
    SymbolKind,
    require_sound,
    rows_of,
    shortened,
    shown,
    unmasked,
)
from simdb.late import cached_property
from simdb.lsh.chunks import QUICK, Chunks, can_have, plan_chunks, weighed
from simdb.lsh.curves import Curve, HammingCurve, WithinCurve
from simdb.lsh.family import Family, SketchScheme, SymbolSets, secret_words
from simdb.lsh.planning import Plan, PlanRequest
from simdb.lsh.projections import BitSampling
from simdb.ragged import ByteStrings, Column, Pieces, cut_rows
from simdb.work import Work

MAXIMUM_LENGTH = 8 * MAXIMUM_ITEM_BYTES
_WORD_BITS = 64
_STORED_WORDS = np.dtype("<u8")
_HEXADECIMAL = re.compile(r"(0[xX])?([0-9a-fA-F]+)")


class Bits(SymbolKind, frozen=True):
    """Bit vectors of one length.

    An item is one of these: an array or a list of 0 and 1 (or False and True); a text of ``0`` and
    ``1``; a whole number, whose highest bit of ``length`` comes first; that number in hexadecimal
    digits, one for every 4 bits, as tools for perceptual hashes print it (with or without ``0x``);
    or the bits packed into ``bytes`` as by ``np.packbits``. ``get`` returns an array of 0 and 1.

    Attributes:
        length: the number of bits of every vector.
        measure: ``"hamming"`` compares by the number of bits that differ (MMDS 3.5.6),
            ``"tanimoto"`` by the number of bits set in both vectors, divided by the number set in
            at least one.
    """

    length: Annotated[int, Meta(ge=1, le=MAXIMUM_LENGTH)]
    measure: Literal["hamming", "tanimoto"] = "hamming"

    plural = "bit vectors"
    in_the_name = ("length", "measure")
    suffixes = ROWS_OF_NUMBERS
    json_form = "a text of 0 and 1, a text 0x…, a list or a whole number"

    labelled: ClassVar[str] = "bits"

    @property
    def is_distance(self) -> bool:
        return self.measure == "hamming"

    @property
    def largest_distance(self) -> Fraction:
        return Fraction(self.length)

    @property
    def has_symbols(self) -> bool:
        return self.measure == "tanimoto"

    @property
    def signs_what_it_compares(self) -> bool:
        return not self.has_symbols

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        numbers = [(place + 2) * 0x9E3779B97F4A7C15 % 2**40 for place in range(5)]
        items, near = ([f"{n ^ flipped:040b}" for n in numbers] for flipped in (0, 2**20))
        invalid = (None, 3.5, -1, 2**40, "012", "0" * 39, [0, 2])
        return (
            Examples(cls(40), "2", items, near, invalid),
            Examples(cls(40, "tanimoto"), "0.9", items, near, invalid),
        )

    def make_items(self, secret: bytes) -> BitsItems:
        return BitsItems(self, secret)

    def make_measure(self) -> Measure:
        return BitsMeasure(self.measure)

    def make_curve(self, bound: Fraction) -> Curve:
        return super().make_curve(bound) if self.has_symbols else HammingCurve(self.length)

    def share_looked_at(self, bound: Fraction) -> float | None:
        return None if self.has_symbols else pigeonhole.share_looked_at(self.length, int(bound))

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        if self.has_symbols:
            return super().make_family(bound, bands=bands, rows=rows, sketch=sketch, secret=secret)
        return BitSampling(self.length, bands, rows, secret)

    def settled(self, bound: Fraction, request: PlanRequest) -> PlanRequest:
        """Take chunks, which miss nothing, where they are as quick as sampled bits, and smaller."""
        if self.has_symbols or not (request.is_usual and request.is_free):
            return request
        complete = replace(request, recall=Fraction(1))
        try:
            chunks = plan_chunks(self.length, bound, complete)
            sampled = super().plan(bound, replace(request, items=None))
        except ConfigurationError:
            return request
        are_quick = weighed(int(bound), chunks.bands, chunks.rows) <= QUICK
        return complete if are_quick and chunks.keys <= sampled.keys else request

    def misses_nothing(self, recall: Fraction) -> bool:
        return recall == 1 and not self.has_symbols

    def can_be_complete(self, bound: Fraction, bands: int, rows: int) -> bool:
        return can_have(self.length, int(bound), bands, rows)

    def make_complete_family(
        self, bound: Fraction, *, bands: int, rows: int, secret: bytes
    ) -> Family:
        return Chunks(self.length, int(bound), bands, rows, secret)

    def make_complete_curve(self, bound: Fraction) -> Curve:
        return WithinCurve(float(bound), is_distance=True)

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        if self.misses_nothing(request.recall):
            return plan_chunks(self.length, bound, request)
        return super().plan(bound, request)

    def stores_alike(self, other: Self) -> bool:
        return self.length == other.length

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        if isinstance(value, list | bytes):  # bytes, which JSON has not, are of a table
            return value
        if type(value) is int:
            if several:  # beside others nobody knows how long it is
                raise BadItemError("bits written as a whole number must be in one field")
            return value
        return self.item_of_tokens([value]) if isinstance(value, str) else NotImplemented

    def item_of_tokens(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def item_of_row(self, row: npt.NDArray[Any]) -> Any:
        packed = -(-self.length // 8)
        if row.dtype == np.uint8 and row.size == packed != self.length:
            return row.tobytes()
        return np.array(row)

    def joined(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        bits: list[Any] = []
        for part in parts:
            wrong = part.strip("01") if isinstance(part, str) else ""
            if wrong:
                raise BadItemError(
                    f"{shortened(wrong[0])} is not a bit; hexadecimal bits must be in one field"
                )
            bits += map(int, part) if isinstance(part, str) else part
        return bits

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return the bits that are set in either, and for Hamming distance where both are not."""
        if self.has_symbols:
            return super().evidence(items, left, right)
        set_bits = ([Label(bit) for bit in _set_bits(items.decode(side))] for side in (left, right))
        return Evidence(self.labelled, facets_of_labels(*set_bits))

    def plain_item(self, item: UInt8s) -> str:
        return "".join(map(str, item.tolist()))

    shown_item = plain_item


class BitsItems(Items):
    """Encode bit vectors of one length, and hash their set bits under a collection's secret."""

    def __init__(self, settings: Bits, secret: bytes) -> None:
        self._length = settings.length
        self._bytes = -(-settings.length // 8)
        self.width = -(-settings.length // _WORD_BITS) * 8
        self._has_symbols = settings.has_symbols
        self._secret = secret_words(secret, b"simdb.bits", 1)[0]
        # The bits of the last word that lie past the end.
        past_end = np.arange(8 * self.width - _WORD_BITS, 8 * self.width) >= settings.length
        self._past_end = np.packbits(past_end).view(_STORED_WORDS)[0]

    def encode(self, item: object) -> bytes:
        if isinstance(item, np.ndarray):
            return self._from_array(unmasked(item))
        if isinstance(item, bytes | bytearray | memoryview):
            return self._from_bytes(bytes(item))
        if isinstance(item, str):
            return self._from_text(item)
        if is_whole(item):
            return self._from_number(index(item))
        if isinstance(item, list | tuple):
            return self._from_array(self._array_of(item))
        raise BadItemError(
            "a bit vector must be an array, a list or a text of 0 and 1, bytes or a whole "
            f"number, not {shown(item)}"
        )

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        shape = (self._length,)
        are_plain = (
            type(i) is np.ndarray and i.dtype.kind in "biu" and i.shape == shape for i in items
        )
        if items and all(are_plain):
            rows = self._packed(np.array(items))
            if rows is not None:
                return cut_rows(rows)
        return super().encode_many(items)

    def _packed(self, bits: npt.NDArray[Any]) -> UInt8s | None:
        """Return rows of bits as they are stored, None unless all are 0 or 1."""
        if bits.size and not 0 <= int(bits.min()) <= int(bits.max()) <= 1:
            return None
        rows = np.zeros((len(bits), self.width), np.uint8)
        rows[:, : self._bytes] = np.packbits(bits.astype(np.uint8, copy=False), axis=1)
        return rows

    def encode_column(self, column: Column) -> ByteStrings | None:
        if column.form == "text" or column.values.dtype.kind not in "biu":
            return None
        count, sizes = column.offsets.size - 1, np.diff(column.offsets)
        if column.form == "numbers" and (sizes == self._length).all():
            rows = self._packed(column.values.reshape(count, self._length))
            return None if rows is None else ByteStrings.of_rows(rows)
        if column.form != "bytes" or (sizes != self._bytes).any():
            return None
        rows = np.zeros((count, self.width), np.uint8)
        rows[:, : self._bytes] = column.values.reshape(count, self._bytes)
        return ByteStrings.of_rows(rows) if self._ends_in_zeros(rows) else None

    def _ends_in_zeros(self, rows: UInt8s) -> bool:
        """Whether no bit is set past the length."""
        free = 8 * self._bytes - self._length
        return not (rows[:, self._bytes - 1] & ((1 << free) - 1)).any()

    def decode(self, data: bytes | memoryview) -> UInt8s:
        words = self.features([data])
        return np.unpackbits(words.view(np.uint8)[0])[: self._length]

    def features_of_rows(self, rows: UInt8s) -> UInt64s:
        vectors: UInt64s = np.ascontiguousarray(rows).view(np.uint64)
        return vectors

    def features(self, items: Sequence[bytes | memoryview]) -> UInt64s:
        words = rows_of(items, self.width, "bit vector").view(_STORED_WORDS)
        if self._past_end:
            require_sound(words[:, -1] & self._past_end == 0, "bit vector")
        return words.astype(np.uint64, copy=False)

    def weights(self, items: Sequence[bytes | memoryview]) -> Int64s:
        """Return the set bits of each vector, where they become symbols, or its bytes."""
        lengths = super().weights(items)
        if not self._has_symbols or not len(items):
            return lengths
        set_bits = np.bitwise_count(rows_of(items, self.width, "bit vector"))
        heavier: Int64s = np.maximum(lengths, set_bits.sum(axis=1, dtype=np.int64))
        return heavier

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of the set bits: different bits never share one."""
        return SymbolSets(
            *kernels.bits.bit_symbols(self.features(items), self._length, self._secret)
        )

    def labels(self, item: bytes | memoryview) -> list[Label]:
        return labelled(_set_bits(self.decode(item)))

    # -- what is taken as a bit vector -----------------------------------------------------------

    def _from_array(self, item: npt.NDArray[Any]) -> bytes:
        if item.ndim != 1:
            raise BadItemError(f"a bit vector must be an array of one dimension, not {item.ndim}")
        if item.dtype.kind not in "biu":
            self._refuse(f"of {item.dtype} {short(item.tolist())}")
        if item.size != self._length:
            self._refuse_length(f"an array of {item.size:,}")
        wrong = np.flatnonzero((item != 0) & (item != 1))
        if wrong.size:
            self._refuse(f"{item[wrong[0]]} at position {wrong[0]}; packed bits are given as bytes")
        return self._filled(np.packbits(item.astype(np.bool_)).tobytes())

    def _array_of(self, item: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
        if len(item) != self._length:
            self._refuse_length(f"a list of {len(item):,}")
        for position, bit in enumerate(item):
            if not (is_whole(bit) or isinstance(bit, bool | np.bool_)) or bit not in (0, 1):
                self._refuse(f"{shown(bit)} at position {position}")
        return np.array(item, np.bool_)

    def _from_bytes(self, item: bytes) -> bytes:
        if len(item) != self._bytes:
            self._refuse_length(f"{len(item):,} bytes", f", packed into {self._bytes:,} bytes")
        free = 8 * self._bytes - self._length
        if free and item[-1] & ((1 << free) - 1):
            raise BadItemError(
                f"the last {free} bits of the packed {self._bytes:,} bytes lie beyond the "
                "length of "
                f"{self._length:,} bits and must be 0, as np.packbits leaves them"
            )
        return self._filled(item)

    def _from_text(self, item: str) -> bytes:
        digits = -(-self._length // 4)
        found = _HEXADECIMAL.fullmatch(item)
        # A text of as many characters as there are bits is one of bits, also of a single one.
        if found is not None and len(item) != self._length:
            if len(found[2]) == digits:
                return self._from_number(int(found[2], 16))
            # Too many decimal digits, none of them a letter, are rather meant as bits.
            if item.strip("01") and (len(item) <= digits or not item.isdigit()):
                raise BadItemError(
                    f"{shortened(item)} has {len(found[2]):,} hexadecimal digits, but "
                    f"{self._length:,} bits have {digits:,}"
                )
        wrong = item.strip("01")
        if wrong:
            self._refuse(f"the character {wrong[0]!a} at position {item.index(wrong[0])}")
        if len(item) != self._length:
            self._refuse_length(f"a text of {len(item):,}")
        return self._from_number(int(item, 2))

    def _from_number(self, item: int) -> bytes:
        if item < 0 or item.bit_length() > self._length:
            raise BadItemError(
                f"a whole number of {self._length:,} bits lies between 0 and 2^{self._length} - 1, "
                f"but {short(item)} does not"
            )
        free = 8 * self._bytes - self._length
        return self._filled((item << free).to_bytes(self._bytes, "big"))

    def _filled(self, packed: bytes) -> bytes:
        return packed.ljust(self.width, b"\0")

    def _refuse(self, wrong: str) -> NoReturn:
        raise BadItemError(f"the bits of a vector must be 0 and 1, not {wrong}")

    def _refuse_length(self, given: str, form: str = "") -> NoReturn:
        raise BadItemError(
            f"the vectors of this collection have {self._length:,} bits{form}, "
            f"but this one is {given}"
        )


def _set_bits(bits: UInt8s) -> list[int]:
    places: list[int] = np.flatnonzero(bits).tolist()
    return places


class ByCount(NamedTuple):
    """Vectors by rising numbers of set bits, these numbers, and the place of each before.

    ``columns`` has the vectors side by side: uint64 (words, n).
    """

    columns: UInt64s
    counts: Int64s
    places: Int64s


class TanimotoFinder:
    """Finds vectors similar to a probe, among all or those of fitting numbers of set bits."""

    def __init__(self, measure: BitsMeasure, probe: UInt64s, threshold: Threshold) -> None:
        length = _WORD_BITS * probe.shape[1]
        size = int(kernels.bits.counts_of_rows(probe)[0])
        self._measure = measure
        self._probe = probe
        self._size = size
        self._needed = _needed_overlaps(threshold, 2 * length)
        self._fewest = threshold.minimum_size(size)
        self._most = min(threshold.maximum_size(size), length)
        self.looked_at = 0

    def __call__(self, features: UInt64s | ByCount) -> tuple[Int64s, Compared]:
        """Find the places of similar vectors, rising, and how they compare: exact."""
        if not isinstance(features, ByCount):
            self.looked_at += len(features)
            return self._measure.scan_tanimoto(self._probe, features, self._needed)
        columns, counts, places = features
        start, stop = np.searchsorted(counts, (self._fewest, self._most + 1)).tolist()
        self.looked_at += stop - start
        rows, common = kernels.bits.scan_columns(
            self._probe[0], columns, counts, start, stop, self._fullest, self._needed
        )
        rising = np.argsort(places[rows])
        rows, common = rows[rising], common[rising]
        return places[rows], Compared(common, self._size + counts[rows] - common)

    @cached_property
    def _fullest(self) -> Int64s:
        """The words with set bits, the fullest first: most of these tell that all is unlike."""
        counts = np.bitwise_count(self._probe[0]).astype(np.int64)
        return np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]


class BitsMeasure(PairedMeasure):
    """Compare bit vectors by one measure, exactly.

    Hamming's is a distance, the number of bits that differ, over 1. Tanimoto's is a similarity, the
    common set bits over all set bits: the Jaccard similarity of the sets of their positions; of two
    vectors without a set bit it is 0 / 0.
    """

    def __init__(self, measure: Literal["hamming", "tanimoto"]) -> None:
        self._hamming = measure == "hamming"
        self.arranges = not self._hamming
        self.reads_pieces = self.finds_nearest = self._hamming

    def finder(self, probe: UInt64s, bound: Bound, most: int = 0) -> Finder:
        """The finder: it reads all at about the speed of memory, and writes only what matches."""
        length = _WORD_BITS * probe.shape[1]
        if isinstance(bound, MaximumDistance):
            limit = min(int(bound.fraction), length)
            return partial(self.scan, probe[0], limit=limit, most=most)
        return TanimotoFinder(self, probe, bound)

    def near_pairs(
        self,
        ones: UInt64s,
        others: UInt64s | None,
        bound: Bound,
        work: Work,
        workers: Workers = ALONE,
    ) -> Iterator[pigeonhole.Near]:
        """Find all pairs within a Hamming distance; see ``exact.pigeonhole.near_pairs``."""
        return pigeonhole.near_pairs(ones, others, int(bound.fraction), work)

    def arranged(self, features: UInt64s) -> UInt64s | ByCount:
        """Return vectors by their number of set bits: too few or too many are similar to no probe.

        The length filter of sets (MMDS 3.9.3): at best all of the fewer set bits are common.
        """
        if self._hamming:
            return features
        counts = kernels.bits.counts_of_rows(features)
        places = np.argsort(counts, kind="stable")
        return ByCount(features.T.take(places, axis=1), counts[places], places)

    def scan(
        self, probe: UInt64s, features: UInt64s | Pieces, limit: int, most: int = 0
    ) -> tuple[Int64s, Compared]:
        """Find the rows of ``features`` at most ``limit`` bits from a probe's words, exactly."""
        if not isinstance(features, Pieces):
            features = np.ascontiguousarray(features)
            return self.scan(probe, Pieces.of(features), limit, most)
        rows, distances = kernels.bits.scan_hamming(probe, *features, limit, most)
        return rows, Compared.whole(distances)

    def scan_tanimoto(
        self, probe: UInt64s, features: UInt64s, needed: Int64s
    ) -> tuple[Int64s, Compared]:
        """Find the rows with as many common bits as a table says are needed, and how similar."""
        rows, common, united = kernels.bits.scan_tanimoto(probe[0], features, needed)
        return rows, Compared(common, united)

    def compare_between(
        self, ones: UInt64s, others: UInt64s, left: Int64s, right: Int64s
    ) -> Compared:
        common, united = kernels.bits.compare_rows(ones, others, left, right)
        if self._hamming:
            return Compared.whole(united - common)
        return Compared(common, united)


# A table takes longer to make than many vectors to scan.
_needed_overlaps = lru_cache(maxsize=8)(Threshold.needed_overlap_table)
