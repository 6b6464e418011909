"""Rows of ratings, gathered into a set or bag a user, or a set or bag an item (MMDS 3.1.3)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from simdb.errors import BadItemError, ConfigurationError
from simdb.files.compression import InputStream
from simdb.files.reader import RowReader
from simdb.files.rows import (
    LONGEST_RECORD,
    ReadingOptions,
    Row,
    RowProblemError,
)
from simdb.files.separated import SeparatedReader
from simdb.kinds import Text
from simdb.kinds.base import Format, shortened
from simdb.kinds.ratings import Liked, LikedOrHated, RatingTable, Stars, Treatment
from simdb.results import Key

_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


def treatment_from(text: str) -> Treatment:
    """Return what a text of the command line wants made of ratings.

    ``liked:4`` keeps ratings of at least 4; ``liked-hated:4,2`` tells those from ratings of at most
    2; ``stars`` makes as many copies as there are stars.

    Raises:
        ConfigurationError: it is none of these.
    """
    name, _, given = text.partition(":")
    numbers = [Fraction(number) for number in given.split(",") if _NUMBER.fullmatch(number)]
    if text == "stars":
        return Stars()
    if len(numbers) == given.count(",") + 1:
        if name == "liked" and len(numbers) == 1:
            return Liked(numbers[0])
        if name == "liked-hated" and len(numbers) == 2:
            return LikedOrHated(*numbers)
    raise ConfigurationError(
        "ratings are taken as 'liked:LEAST', 'liked-hated:LEAST,MOST' or 'stars', not as "
        f"{shortened(text)}"
    )


class RatingsReader(RowReader):
    """Rows of a CSV file of ratings: one set or bag a value of the key's field.

    The file is read whole before the first set is complete; ratings that cannot be read are rows
    with a problem before that. A row of a set has the line of its first rating, and all its ratings
    as ``raw``. Sets and bags come in the order of their first ratings.
    """

    format: ClassVar[Format] = "csv"

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream.name, options)
        # Of a single rating the rated is a text; it becomes a string or an integer here.
        self._ratings = SeparatedReader(
            stream, replace(options, kind=Text(), ratings=None), longest=longest
        )
        self._table = RatingTable(options.ratings or Stars())

    def __iter__(self) -> Iterator[Row]:
        lines: dict[Key, int] = {}
        raws: dict[Key, list[bytes]] = {}
        for row in self._ratings:
            self.preamble, self.header = self._ratings.preamble, self._ratings.header
            problem = row.problem or self._take(row)
            if problem is not None or row.key is None:
                yield replace(row, item=None, metadata=None, problem=problem)
                continue
            lines.setdefault(row.key, row.line)
            raws.setdefault(row.key, []).append(row.raw)
        self.preamble, self.header = self._ratings.preamble, self._ratings.header
        for key in self._table:
            counts = self._table.counts(key)
            item = dict(counts) if self.options.kind.of_counts else list(counts)
            yield Row(lines[key], key, item, None, _joined(raws.pop(key)))

    def _take(self, row: Row) -> str | None:
        """Take a rating into the table; return what is wrong with it."""
        rating = (row.metadata or {}).get(self.options.rating_field)
        if rating is None:
            return f"the field {self.options.rating_field!r} is missing"
        if not _NUMBER.fullmatch(rating):
            return f"the rating {shortened(rating)} is not a number"
        if row.key is None or not isinstance(row.item, str):
            return "not a rating"
        try:
            (rated,) = self.tokens.typed([row.item])
            self._table.add(row.key, rated, Fraction(rating))
        except (RowProblemError, BadItemError) as problem:
            return str(problem)
        return None

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the ratings of a row, each by the names of the header."""
        names = self.header or ()
        records = csv.reader(io.StringIO(raw.decode(), newline=""))
        return {"ratings": [dict(zip(names, record, strict=True)) for record in records]}

    @property
    def bytes_read(self) -> int:
        """How many bytes of the input, as it is stored, were taken so far."""
        return self._ratings.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """How many bytes the input has, None where that cannot be known."""
        return self._ratings.bytes_total

    def close(self) -> None:
        """Close the input."""
        self._ratings.close()


def _joined(raws: list[bytes]) -> bytes:
    """Return records one after the other; the last of a file may lack the end of its line."""
    return b"".join(raw if raw.endswith((b"\n", b"\r")) else raw + b"\n" for raw in raws)
