"""Signatures from elsewhere: rows of minhash values, by which similarities can only be estimated.

An item is a signature alone, of a set that nobody has here: an array of values, or an object of a
library that makes them. Two are compared by the share of their rows that are equal, which
estimates the Jaccard similarity of the sets (MMDS 3.3.3), if both were made by the same hash
functions. The stored form is the values, little-endian, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from simdb.arguments import is_whole, short
from simdb.arrays import Int64s, UInt8s
from simdb.errors import BadItemError, WrongTypeError
from simdb.evidence import Evidence, Facet
from simdb.kinds.base import (
    ROWS_OF_NUMBERS,
    Compared,
    Examples,
    Items,
    Kind,
    Measure,
    PairedMeasure,
    Stored,
    rows_of,
    shown,
    unmasked,
)
from simdb.lsh.curves import Curve, EstimateCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS, Family, SampledRows, SketchScheme
from simdb.ragged import ByteStrings, Column

_FORMS = {32: "<u4", 64: "<u8"}
_EMPTY = {form: np.iinfo(form).max for form in _FORMS.values()}  # what libraries begin with
_COMPARED_AT_ONCE = 8_192
_WHOLE = re.compile("[0-9]{1,4300}")  # Python reads no longer ones


class Signature(Kind, frozen=True):
    """Minhash signatures made elsewhere, compared by the share of equal rows.

    An item is an array or a list of whole numbers, a MinHash of datasketch (2.0) or one of rensa
    (0.5); ``get`` returns an array. Every similarity is an estimate, and every answer says so.
    ``Signature.like(example)`` has the settings of an object of these libraries. An object made by
    another source, or with another seed, is refused; arrays do not say what made them.

    Attributes:
        length: the number of rows of every signature.
        bits: the bits of a value, 32 or 64.
        source: what made the signatures; shown to people, and compared with what objects report.
        seed: the seed of the hash functions, if known; also compared with what objects report.
    """

    length: Annotated[int, Meta(ge=1, le=MAXIMUM_FUNCTIONS)] = 128
    bits: Literal[32, 64] = 32
    source: str = "rows"
    seed: int | None = None

    plural = "signatures"
    in_the_name = ("length", "bits")
    suffixes = ROWS_OF_NUMBERS
    json_form = "a list of whole numbers"
    estimates = True

    @classmethod
    def like(cls, example: object) -> Self:
        """Return the settings of signatures like one of datasketch or rensa.

        Raises:
            WrongTypeError: it is none of these.
        """
        read = _read(example)
        if read is None:
            raise WrongTypeError(
                f"Signature.like takes a MinHash of datasketch or rensa, not {shown(example)}"
            )
        return cls(*_told(*read))

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = [[(place + 2) * (row + 7) ** 3 % 65_521 for row in range(64)] for place in range(5)]
        near = [[*item[:60], 1, 2, 3, 4] for item in items]
        invalid = (
            None,
            3.5,
            "1 2",
            [1] * 63,
            [-1] * 64,
            [2**32] * 64,
            ["x"] * 64,
            [2**32 - 1] * 64,
        )
        return (Examples(cls(64), "0.8", items, near, invalid),)

    def make_items(self, secret: bytes) -> SignatureItems:
        return SignatureItems(self)

    def make_measure(self) -> Measure:
        return SignatureMeasure()

    def make_curve(self, bound: Fraction) -> Curve:
        return EstimateCurve()

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return SampledRows(self.length, bands, rows, secret)

    def stores_alike(self, other: Self) -> bool:
        return (self.length, self.bits) == (other.length, other.bits)

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        if several and type(value) is int:
            return [value]
        return value if isinstance(value, list) else NotImplemented

    def item_of_tokens(self, tokens: list[str]) -> list[int]:
        wrong = next((token for token in tokens if not _WHOLE.fullmatch(token)), None)
        if wrong is not None:
            raise BadItemError(f"{wrong[:60]!r} is not a whole number")
        return list(map(int, tokens))

    def plain_item(self, item: npt.NDArray[Any]) -> list[int]:
        values: list[int] = item.tolist()
        return values

    def column_item(self, item: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return item

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        rows = zip(items.decode(left).tolist(), items.decode(right).tolist(), strict=True)
        facets = (
            Facet(row, one, other, float(one == other)) for row, (one, other) in enumerate(rows)
        )
        return Evidence("rows", tuple(facets))

    def shown_item(self, item: npt.NDArray[Any]) -> str:
        return " ".join(map(str, item.tolist()))


class SignatureItems(Items):
    """Encode signatures of one length, whose values have so many bits."""

    def __init__(self, settings: Signature) -> None:
        self._settings = settings
        self._form = _FORMS[settings.bits]
        self.width = settings.length * settings.bits // 8

    def encode(self, item: object) -> bytes:
        values: Any = item
        read = _read(item)
        if read is not None:
            self._require_like(*read)
            values = read[0]
        if not isinstance(values, np.ndarray | list | tuple):
            raise BadItemError(
                "a signature must be an array or a list of whole numbers, or a MinHash of "
                f"datasketch or rensa, not {shown(item)}"
            )
        return self._stored(unmasked(values))

    def _require_like(self, values: npt.NDArray[Any], source: str, seed: int | None) -> None:
        """Raise BadItemError unless an object was made as the settings say, where both do."""
        has, own = self._settings, _told(values, source, seed)
        wanted = has.length, has.bits, has.source, has.seed
        names = ("length", "bits", "source", "seed")
        for name, want, given in zip(names, wanted, own, strict=True):
            unknown = (name == "source" and want == "rows") or want is None or given is None
            if want != given and not unknown:
                raise BadItemError(
                    f"a signature of {name} {given} cannot be compared with those of the "
                    f"collection, which have {want}"
                )

    def _stored(self, values: Any) -> bytes:
        if isinstance(values, np.ndarray):
            wrong = values.dtype.kind not in "iu"
        else:
            wrong = not all(map(is_whole, values))
        if wrong:
            raise BadItemError("the values of a signature must be whole numbers")
        if np.ndim(values) != 1 or len(values) != self._settings.length:
            raise BadItemError(
                f"the signatures of this collection have {self._settings.length:,} rows, but this "
                f"one has {'x'.join(map(str, np.shape(values)))}"
            )
        low, high = int(min(values)), int(max(values))
        if low < 0 or high >= 1 << self._settings.bits:
            outside = low if low < 0 else high
            raise BadItemError(
                f"the values of a signature must have {self._settings.bits} bits and no sign, "
                f"but {short(outside)} does not"
            )
        stored = np.array(values, self._form)
        if (stored == _EMPTY[self._form]).all():
            raise BadItemError(
                "this is the signature of an empty set, which is similar to nothing: leave it out"
            )
        return stored.tobytes()

    def encode_column(self, column: Column) -> ByteStrings | None:
        values, sizes = column.values, np.diff(column.offsets)
        if column.form != "numbers" or values.dtype.kind != "u" or not values.size:
            return None
        if (sizes != self._settings.length).any() or int(values.max()) >> self._settings.bits:
            return None
        rows = values.reshape(sizes.size, self._settings.length).astype(self._form)
        return None if (rows == _EMPTY[self._form]).all(axis=1).any() else ByteStrings.of_rows(rows)

    def decode(self, data: bytes | memoryview) -> npt.NDArray[Any]:
        return np.array(self.features([data])[0])

    def features(self, items: Sequence[bytes | memoryview]) -> npt.NDArray[Any]:
        return rows_of(items, self.width, "signature").view(self._form)

    def features_of_rows(self, rows: UInt8s) -> npt.NDArray[Any]:
        return np.ascontiguousarray(rows).view(self._form)


def _read(item: object) -> tuple[npt.NDArray[Any], str, int | None] | None:
    """Return the values of an object of a library, what made it, and its seed; None of others.

    Neither library is loaded: whoever has such an object has.
    """
    module = type(item).__module__.partition(".")[0]
    if module not in ("datasketch", "rensa"):
        return None
    made: Any = item
    name = type(item).__name__
    if module == "datasketch" and hasattr(made, "hashvalues") and hasattr(made, "seed"):
        scheme = getattr(made, "scheme", "legacy")
        return np.asarray(made.hashvalues), f"datasketch {scheme}", int(made.seed)
    if module == "rensa" and hasattr(made, "digest"):
        seed = None
        if hasattr(made, "__getnewargs__"):  # rows and seed
            seed = int(made.__getnewargs__()[1])
        return np.array(made.digest(), np.uint32), f"rensa {name}", seed
    return None


def _told(
    values: npt.NDArray[Any], source: str, seed: int | None
) -> tuple[int, Literal[32, 64], str, int | None]:
    """Return the settings that an object of a library tells."""
    is_wide = values.dtype.itemsize > 4 and not source.endswith("legacy")
    return values.size, 64 if is_wide else 32, source, seed


class SignatureMeasure(PairedMeasure):
    """The share of rows that are equal, which estimates a similarity."""

    def compare_between(
        self, ones: npt.NDArray[Any], others: npt.NDArray[Any], left: Int64s, right: Int64s
    ) -> Compared:
        equal = np.zeros(left.size, np.int64)
        for begin in range(0, left.size, _COMPARED_AT_ONCE):
            some = slice(begin, begin + _COMPARED_AT_ONCE)
            equal[some] = np.count_nonzero(ones[left[some]] == others[right[some]], axis=1)
        return Compared(equal, np.full(left.size, ones.shape[1], np.int64))
