"""Signatures that come with the rows of a table or a dump, made by the recipe of the collection."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from simdb import arrow
from simdb.arrays import Bools, UInt16s
from simdb.batches.signer import Signed, Signer, Signing
from simdb.errors import ConfigurationError, UsageError
from simdb.ingest.rows import RowBatch
from simdb.opened.catalogue import CollectionSettings
from simdb.recipe import Recipe

_FINGERPRINT = re.compile("[0-9a-f]{32}")


class GivenSignatures:
    """A column of signatures, read as the rows beside it are.

    Args:
        column: its name: bytes of little-endian uint16 words.
        recipe: by which they were made, or its fingerprint.
        settings: of the collection.
    """

    def __init__(self, column: str, recipe: Recipe | str, settings: CollectionSettings) -> None:
        told = recipe if isinstance(recipe, str) else recipe.fingerprint
        if not _FINGERPRINT.fullmatch(told):  # nor is it shown: a recipe as JSON has the secret
            raise ConfigurationError(
                "recipe must be a simdb.Recipe or its fingerprint, 32 hexadecimal digits; "
                "Recipe.from_json reads a recipe"
            )
        if told != settings.recipe.fingerprint:
            raise ConfigurationError(
                f"the signatures were made by the recipe {told}, and {settings.title} has "
                f"{settings.recipe.fingerprint}: sign by Collection.recipe(), or leave them out"
            )
        self._family = settings.family()
        if self._family is None:
            raise ConfigurationError(f"{settings.title} has no probable index: nothing is signed")
        self._column = column
        # The first row of each part, ascending, its signatures, and which rows have none.
        self._held: deque[tuple[int, UInt16s, Bools]] = deque()
        self._rows = 0

    def beside(self, data: Any) -> Any:
        """Return a table as a ``pyarrow.RecordBatchReader`` whose signatures are held."""
        if not arrow.is_table(data):
            raise UsageError(f"signature names a column of a table, not of {type(data).__name__}")
        schema, found = arrow.batches(data)
        if self._column not in schema.names:
            raise UsageError(
                f"there is no column {self._column!r}; there are: {', '.join(schema.names)}"
            )
        return arrow.library().RecordBatchReader.from_batches(schema, self.passing(found))

    def passing(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of a table, and hold their signatures until they are asked for."""
        assert self._family is not None
        for batch in batches:
            column = batch.column(self._column)
            lacks = np.asarray(column.is_null())
            if lacks.any():  # as bad items do, which are told of by themselves
                column = column.fill_null(bytes(2 * self._family.words))
            found = arrow.matrix(column, np.uint16, self._family.words)
            if found is None:
                raise UsageError(
                    f"from row {self._rows:,} on the column {self._column!r} does not hold "
                    f"signatures of {2 * self._family.words} bytes each"
                )
            self._held.append((self._rows, found, lacks))
            self._rows += batch.num_rows
            yield batch

    def start(self, batch: RowBatch, signer: Signer) -> Signing:
        """Return what is stored of a batch; ConfigurationError if its first row is signed wrong.

        That tells columns that have been put together wrongly; of all others they are believed.
        """
        rows = np.asarray(batch.rows, np.int64)
        if not rows.size:
            return Signing(signer.empty())
        while len(self._held) > 1 and self._held[1][0] <= rows[0]:
            self._held.popleft()
        first = self._held[0][0]
        lacks = np.concatenate([part for _, _, part in self._held])[rows - first]
        if lacks.any():
            raise UsageError(
                f"row {rows[lacks][0]:,} has no signature in the column {self._column!r}, "
                "and its item can be stored"
            )
        whole = np.concatenate([part for _, part, _ in self._held])
        signatures = whole[rows - first]
        own = signer.sign(batch.items[:1])
        if not np.array_equal(own.signatures[0], signatures[0]):
            raise ConfigurationError(
                f"row {batch.rows[0]:,} has another signature than its item has by the recipe: "
                "signatures and items belong to different rows, or the recipe is another one"
            )
        # Of sets of symbols zeros are the signature of nothing; all else can be compared.
        comparable = np.ones(rows.size, np.bool_)
        if signer.kind.has_symbols:
            comparable = np.asarray(signatures.any(axis=1))
        return Signing(
            Signed.together([Signed(signatures, signer.bucket_keys(signatures), comparable)])
        )
