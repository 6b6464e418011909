"""The columns that go from step to step, in words that every engine knows.

Bucket keys and symbols are unsigned 64-bit numbers, and travel as the int64 of the same bits, since
Java has no unsigned ones.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import arrow

Type: TypeAlias = Literal["int64", "int32", "double", "binary", "string"]


class Schema(NamedTuple):
    """Names and types of columns, in their order."""

    columns: tuple[tuple[str, Type], ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]

    @property
    def arrow(self) -> Any:
        """The schema as one of pyarrow."""
        library = arrow.library()
        kinds = {"int64": library.int64(), "int32": library.int32(), "double": library.float64()}
        kinds |= {"binary": library.binary(), "string": library.string()}
        return library.schema([(name, kinds[kind]) for name, kind in self.columns])

    def batch(self, *columns: Any) -> Any:
        """Return a record batch of columns: arrays of NumPy, or of Arrow."""
        library, schema = arrow.library(), self.arrow
        made = [
            _array(column, field.type) if isinstance(column, np.ndarray) else column
            for column, field in zip(columns, schema, strict=True)
        ]
        return library.RecordBatch.from_arrays(made, schema=schema)


def _array(values: npt.NDArray[Any], kind: Any) -> Any:
    """Return an array of NumPy as one of Arrow: ``pyarrow.array`` would import pandas for it."""
    library = arrow.library()
    whole = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return library.Array.from_buffers(kind, whole.size, [None, library.py_buffer(whole)])


def _of(**columns: Type) -> Schema:
    return Schema(tuple(columns.items()))


ITEMS = _of(number="int64", item="binary")  # items in canonical form
# The digest is null where equal items are not copies; a bad item has a problem, and nothing else.
SIGNED = _of(number="int64", digest="binary", signature="binary", problem="string")
ENTRIES = _of(bucket="int64", number="int64")
PACKED = _of(part="int64", entries="binary")  # many rows of ENTRIES each, of one part of all keys
COPIES = _of(number="int64", of="int64")  # an item, and the first that it equals
SHARED = _of(bucket="int64", number="int64", signature="binary")
PAIRS = _of(left="int64", right="int64")
LABELS = _of(number="int64", label="int64")  # the smallest number of the component of each
# Items of a group (right is -1) and its candidates (item is null).
GATHERED = _of(group="int64", number="int64", right="int64", item="binary")
SIMILAR = _of(left="int64", right="int64", value="double")  # similarity, or distance
DROPPED = _of(number="int64", target="int64", value="double")
GROUPED = _of(number="int64", first="int64")
SYMBOLS = _of(symbol="int64")
POSTINGS = _of(key="int64", number="int64", position="int32", size="int32", bitmap="int64")
MINIMA = _of(number="int64", minima="binary")
