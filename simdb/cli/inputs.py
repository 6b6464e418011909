"""How inputs are read, once it is known what the collection holds."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from simdb.cli.kinds import name_of, plural_of
from simdb.cli.options import one_of
from simdb.config import Bag, Bits, Fingerprint, Kind, Record, Set, Vector
from simdb.errors import UsageError
from simdb.files import Elements, Format, ReadingOptions
from simdb.files.compression import STANDARD_STREAM
from simdb.files.ratings import treatment_from
from simdb.files.rows import RowProblemError
from simdb.files.texts import iter_files
from simdb.files.tokens import Tokens

if TYPE_CHECKING:
    from simdb.collection import CollectionView

_LOOKED_AT = 1_000  # stored sets, of which most may be empty


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The options of an input as the user gave them."""

    item_fields: list[str] | None = None
    id_field: str | None = None
    format_name: str | None = None
    integer_keys: bool = False
    pattern: str | None = None
    elements: str | None = None
    separator: str | None = None
    ratings: str | None = None
    rating_field: str | None = None

    def __post_init__(self) -> None:
        if self.format_name is not None:
            one_of(
                "--format", self.format_name, "jsonl", "csv", "text", "lines", "baskets", "numpy"
            )
        if self.elements is not None:
            one_of("--elements", self.elements, "auto", "integers", "strings")
        if self.id_field is not None and self.id_field in (self.item_fields or ()):
            raise UsageError(f"{self.id_field!r} cannot be both the key and the item")
        if self.ratings is None and self.rating_field is not None:
            raise UsageError("--rating-field is for --ratings")

    def of(self, kind: Kind, collection: CollectionView | None = None) -> ReadingOptions:
        """Return how items of a kind are read for a collection.

        Where the user does not say what the elements of sets are, they are what the collection
        holds: ``1`` and ``"1"`` would never meet.
        """
        elements = self.elements or "auto"
        if isinstance(kind, Set | Bag) and elements == "auto" and collection is not None:
            elements = _held(collection)
        self._require_options_of(kind)
        return ReadingOptions(
            text_fields=self._item_fields(kind),
            id_field=self.id_field,
            format=cast("Format | None", self.format_name),
            integer_keys=self.integer_keys,
            pattern=self.pattern,
            kind=name_of(kind),
            elements=cast("Elements", elements),
            separator=self.separator,
            ratings=None if self.ratings is None else treatment_from(self.ratings),
            rating_field=self.rating_field or "rating",
            length=kind.length if isinstance(kind, Bits) else 0,
            squares=isinstance(kind, Fingerprint) and kind.items == "squares",
        )

    def _require_options_of(self, kind: Kind) -> None:
        """Raise if an option is for items of another kind."""
        if self.elements is not None and not isinstance(kind, Set | Bag):
            raise UsageError(f"--elements is for sets and bags, not for {plural_of(kind)}")
        if self.separator is not None and not isinstance(kind, Set | Bag | Bits | Vector):
            raise UsageError(
                f"--separator is for sets, bags and vectors, not for {plural_of(kind)}"
            )
        if self.ratings is not None and not isinstance(kind, Set | Bag):
            raise UsageError(f"--ratings makes sets or bags, not {plural_of(kind)}")

    def _item_fields(self, kind: Kind) -> tuple[str, ...]:
        if not isinstance(kind, Record):
            return tuple(self.item_fields or (name_of(kind),))
        if self.item_fields:
            raise UsageError("--text-field is not for records: their settings name the fields")
        names = tuple(field.name for field in kind.fields)
        if self.id_field in names:
            raise UsageError(
                f"{self.id_field!r} is a field of the records: it cannot be the key as well"
            )
        return names


def _held(collection: CollectionView) -> str:
    for record in islice(collection.items(), _LOOKED_AT):
        for element in record.item:
            return "strings" if isinstance(element, str) else "integers"
    return "auto"


def set_from(text: str, options: ReadingOptions) -> list[Any]:
    """Return the set that a text of the command line spells.

    Raises:
        UsageError: its elements are to be integers, and one is not.
    """
    tokens = Tokens(options)
    try:
        return tokens.typed(tokens.split(text))
    except RowProblemError as error:
        raise UsageError(str(error)) from None


def require_inputs(sources: list[str]) -> None:
    """Raise unless every input is there.

    Raises:
        FileNotFoundError: one is not.
    """
    for source in sources:
        if source != "-" and not Path(source).exists():
            raise FileNotFoundError(2, "no such file or folder", source)


def require_no_input(
    outputs: Iterable[str | None], sources: Iterable[str], pattern: str | None = None
) -> None:
    """Raise if an output would take the place of an input.

    They are compared as files, not as names; a file in an input folder is an input if it is
    read. Standard streams, pipes and devices are never the same.

    Raises:
        UsageError: an output is one of the inputs.
    """
    wanted = {place: name for name in outputs if name and (place := _place_of(name))}
    if not wanted:
        return
    for name in chain.from_iterable(_files_of(source, pattern) for source in sources):
        place = _place_of(name)
        if place in wanted:
            spelled = "" if wanted[place] == name else f", {name}"
            raise UsageError(
                f"{wanted[place]} is an input{spelled}; name another file for the output"
            )


def _files_of(source: str, pattern: str | None) -> Iterator[str]:
    if source == STANDARD_STREAM or not Path(source).is_dir():
        yield source
        return
    for relative in iter_files(Path(source), pattern):
        yield str(Path(source, relative))


def _place_of(name: str) -> tuple[int, int] | None:
    """Return what two names of one ordinary file share; None where there is no such file."""
    if name == STANDARD_STREAM:
        return None
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
