"""Inputs of commands: how they are read for a collection, and what they are."""

from __future__ import annotations

import hashlib
import stat
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import typer
from msgspec import Struct
from msgspec.structs import replace

import simdb
from simdb.cli.feed import Feed, without_lasting_keys
from simdb.cli.options import IntegerKeys
from simdb.errors import ConfigurationError, UsageError
from simdb.files.compression import STANDARD_STREAM
from simdb.files.databases import database_of
from simdb.files.formats import FORMATS
from simdb.files.inputs import (
    files_behind,
    has_folder,
    inputs_of,
    is_read_within,
    told_format,
)
from simdb.files.rows import (
    Elements,
    MadeKeys,
    ReadingOptions,
    RowProblemError,
    Tokens,
)
from simdb.files.separated import treatment_from
from simdb.files.texts import is_folder
from simdb.files.writing import require_fitting_name
from simdb.kinds import Kind
from simdb.kinds.base import Format
from simdb.kinds.whole import WholeRows
from simdb.results import source_of_keys

T = TypeVar("T")
PROPOSED_KEYS = ("id", "ID", "Id", "iD")  # the column that has the keys if nothing else tells which

_LOOKED_AT = 1_000  # stored sets, of which most may be empty


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Files (JSON, CSV, Parquet, Arrow, NumPy or text, also .gz or .zst), "
        "folders, patterns such as 'part-*.parquet', sqlite:FILE:TABLE, duckdb:FILE:QUERY, "
        "or - for standard input.",
    ),
]


OnBadRow = Annotated[
    Literal["error", "skip"] | None,
    typer.Option("--on-bad", help="What to do with a row that cannot be read or stored (error)."),
]


class InputOptions(Struct, frozen=True):
    """How inputs are read."""

    HEADING: ClassVar[str] = "How the input is read"

    text_field: Annotated[
        list[str] | None,
        typer.Option(
            "--text-field",
            "--set-field",
            "--item-field",
            metavar="FIELD",
            help="The field of the item (named like its kind), such as body or meta.text; if "
            "repeated, the fields are joined.",
        ),
    ] = None
    id_field: Annotated[
        str | None,
        typer.Option(
            "--id-field",
            metavar="FIELD",
            help="The field of the key (the line number is the key); for lines and baskets its "
            "position, counted from 1.",
        ),
    ] = None
    format_name: Annotated[
        Format | None,
        typer.Option("--format", help="The format, if the name of the input does not indicate it."),
    ] = None
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="GLOB",
            help="In a folder, read only the files whose names match, such as '*.txt'.",
        ),
    ] = None
    integer_keys: IntegerKeys = False
    elements: Annotated[
        Elements | None,
        typer.Option(
            "--elements",
            help="How set and bag elements are read from text; auto: as in the collection, or "
            "else as in the first row.",
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator",
            metavar="TEXT",
            help="What separates elements or numbers (white space).",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="CHARACTER",
            help="What separates CSV fields (,); 'tab' for a tab.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="The encoding of the text (utf-8), such as cp1252 or latin-1.",
        ),
    ] = None
    metadata_field: Annotated[
        str | None,
        typer.Option(
            "--metadata-field",
            metavar="FIELD",
            help="The field that holds the metadata (all other fields are metadata).",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="COLUMN",
            help="Keep only this column of a table, besides key and item (all); may be repeated.",
        ),
    ] = None
    make_keys: Annotated[
        MadeKeys | None,
        typer.Option(
            "--make-keys",
            help="Make keys for rows without one, from their content or from file and line.",
        ),
    ] = None
    key_prefix: Annotated[
        str | None,
        typer.Option(
            "--key-prefix", metavar="TEXT", help="With --make-keys: a prefix of the keys."
        ),
    ] = None
    other_keys: Annotated[
        bool,
        typer.Option(
            "--other-keys",
            help="Allow keys from another source than those of the stored rows.",
        ),
    ] = False
    ratings: Annotated[
        str | None,
        typer.Option(
            "--ratings",
            metavar="liked:LEAST|liked-hated:LEAST,MOST|stars",
            help="Make sets or bags from ratings: --id-field names the rater (or what was "
            "rated), and the item field the other of the two.",
        ),
    ] = None
    rating_field: Annotated[
        str | None,
        typer.Option(
            "--rating-field",
            metavar="FIELD",
            help="With --ratings: the field of the rating (rating).",
        ),
    ] = None
    on_bad: OnBadRow = None
    bad: Annotated[
        str | None,
        typer.Option(
            "--bad",
            metavar="FILE",
            help="Skip bad rows, and write them here with the reason, as JSON lines.",
        ),
    ] = None

    whole_rows: WholeRows | None = None

    def __post_init__(self) -> None:
        if self.bad is not None:
            require_fitting_name(self.bad, "jsonl")
            if self.on_bad == "error":
                raise UsageError("--bad and --on-bad error contradict each other")

    @property
    def when_bad(self) -> Literal["error", "skip"]:
        """What to do with a bad row; --bad implies skip."""
        return self.on_bad or ("error" if self.bad is None else "skip")

    def of(self, kind: Kind, collection: simdb.CollectionView | None = None) -> ReadingOptions:
        """Return how items of a kind are read for a collection.

        Unless the user says what the elements of sets are, they have the type that the collection
        holds, because ``1`` and ``"1"`` never match.
        """
        if self.ratings is None and self.rating_field is not None:
            raise UsageError("--rating-field needs --ratings")
        if self.make_keys is None and self.key_prefix is not None:
            raise UsageError("--key-prefix needs --make-keys")
        for what, value, fits in (
            ("--elements is for sets and bags, not for", self.elements, kind.of_elements),
            ("--separator is for sets, bags and vectors, not for", self.separator, kind.of_tokens),
            ("--ratings makes sets or bags, not", self.ratings, kind.of_elements),
        ):
            if value is not None and not fits:
                raise UsageError(f"{what} {kind.plural}")
        elements: Elements = self.elements or "auto"
        if kind.of_elements and elements == "auto" and collection is not None:
            elements = _held(collection)
        return ReadingOptions(
            text_fields=self._item_fields(kind),
            id_field=self.id_field,
            format=self.format_name,
            integer_keys=self.integer_keys,
            pattern=self.pattern,
            kind=kind,
            elements=elements,
            separator=self.separator,
            delimiter="\t" if self.delimiter in ("tab", "\\t") else self.delimiter,
            encoding=self.encoding or "utf-8",
            metadata_field=self.metadata_field,
            columns=None if self.columns is None else tuple(self.columns),
            made_keys=self.make_keys,
            key_prefix=self.key_prefix or "",
            ratings=None if self.ratings is None else treatment_from(self.ratings),
            rating_field=self.rating_field or "rating",
            whole_rows=self.whole_rows,
        )

    def _item_fields(self, kind: Kind) -> tuple[str, ...]:
        names = kind.field_names
        if self.whole_rows is not None:
            return tuple(self.text_field or ())
        if names is None:
            return tuple(self.text_field or (kind.name,))
        if self.text_field:
            raise UsageError(
                "--text-field and --item-field are not for records, whose settings name the "
                "fields: give --settings that name these, or a table without the other columns"
            )
        if self.id_field in names:
            raise UsageError(
                f"{self.id_field!r} is a field of the records and cannot be the key as well"
            )
        return names

    def sources(self, names: Sequence[str], options: ReadingOptions) -> dict[str, str]:
        """Return the files of the inputs, each with its path below the input.

        A folder may be one input or many shards.
        """
        if self.pattern is not None and not any(map(has_folder, names)):
            raise UsageError("--pattern is only for folders")
        several = [file for name in names for file in inputs_of(name, options).items()]
        found = dict(several)
        if len(found) < len(several):
            (twice, _), *_ = Counter(name for name, _ in several).most_common(1)
            raise UsageError(f"{twice} is given as an input twice")
        folders = {Path(name): name for name in found if is_folder(name)}
        for name in found if folders else ():
            around = (folders[place] for place in Path(name).parents if place in folders)
            for folder in around:
                if is_read_within(name, folder, self.pattern):
                    raise UsageError(f"{name} is given as an input twice: {folder} has it, too")
        if self.format_name is not None and all(map(database_of, names)):
            raise UsageError(f"--format does nothing for {', '.join(names)}: a database")
        told = {told_format(file, options) for file in found}
        formats = [FORMATS[name] for name in sorted(told)]
        for name in sorted({name for each in FORMATS.values() for name in each.options}):
            does_nothing = not any(name in each.options for each in formats)
            if formats and does_nothing and getattr(self, name) is not None:
                words = " and ".join(dict.fromkeys(each.words for each in formats))
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} does nothing for {', '.join(names)}: {words}")
        return found

    def measured(
        self, names: Sequence[str], kind: Kind, most: int, measure: Callable[[Iterator[Any]], T]
    ) -> T:
        """Return what is made of the first items of inputs; errors name the place of their row."""
        options = self.of(kind)
        sources = self.sources(names, options)
        options = replace(options, raw=False, metadata=False, below=sources)
        feed = Feed(sources, options, on_bad="error")
        try:
            return measure(row[1] for row in islice(feed, min(most, sys.maxsize)))
        except UsageError as error:
            raise feed.placed(error) from error

    def require_key_field(self, sources: Collection[str], options: ReadingOptions) -> None:
        """Raise if keys shall be read as numbers, and none is read: of texts it is their path."""
        if not self.integer_keys or self.id_field is not None:
            return
        if {told_format(one, options) for one in sources} != {"text"}:
            raise UsageError("--integer-keys needs --id-field: numbers of lines are numbers anyway")

    def keyed_as(self, present: simdb.Collection) -> InputOptions:
        """Return how rows are read whose keys are in a column that was proposed, if it was."""
        named = [name for name in PROPOSED_KEYS if source_of_keys(name) in present.key_sources]
        return replace(self, id_field=named[0]) if len(named) == 1 else self

    def require_lasting_keys(self, kind: Kind, sources: Collection[str]) -> None:
        """Raise unless the keys of rows are theirs alone: line numbers come again in each file."""
        if (self.id_field or self.make_keys) is not None:
            return
        for form in sorted({told_format(one, self.of(kind)) for one in sources} - {"text"}):
            raise without_lasting_keys(form)

    def require_keys(
        self, target: simdb.Collection | None, kind: Kind, sources: Collection[str]
    ) -> None:
        """Raise unless keys tell the rows apart and are from where those of the rows stored are.

        Where they are from, the collection notes.
        """
        source = "the numbers of lines"
        if self.id_field is not None:
            source = source_of_keys(self.id_field)
        elif self.make_keys is not None:
            if self.make_keys == "place" and self.key_prefix is None:
                _require_names(sources)
            made = {"content": "the content", "place": "the names and lines of inputs"}
            source = made[self.make_keys]
        elif {told_format(one, self.of(kind)) for one in sources} == {"text"}:
            source = "the paths of texts"
        elif len(sources) > 1:
            raise UsageError(
                "line numbers would give several inputs the same keys: --id-field names the field "
                "of the key, and --make-keys makes other keys"
            )
        if target is None:
            return
        try:
            target.note_key_source(source, also=self.other_keys)
        except ConfigurationError as error:
            named = "" if self.id_field else "--id-field names the field of the key, and "
            raise UsageError(f"{error.problem}; {named}--other-keys allows both") from error


class UnstoredInputs(InputOptions, frozen=True):
    """How inputs are read that are not stored: without metadata, and without bad rows."""

    integer_keys: bool = False
    metadata_field: str | None = None
    columns: list[str] | None = None
    make_keys: MadeKeys | None = None
    key_prefix: str | None = None
    other_keys: bool = False
    ratings: str | None = None
    rating_field: str | None = None
    on_bad: Literal["error", "skip"] | None = None
    bad: str | None = None


def _held(collection: simdb.CollectionView) -> Elements:
    for record in islice(collection.items(), _LOOKED_AT):
        for element in record.item:
            return "strings" if isinstance(element, str) else "integers"
    return "auto"


def set_from(text: str, options: ReadingOptions) -> list[Any]:
    """Return the set that is written in a text of the command line."""
    tokens = Tokens(options)
    try:
        return tokens.typed(tokens.split(text))
    except RowProblemError as error:
        raise UsageError(str(error)) from None


def _require_names(sources: Iterable[str]) -> None:
    """Raise UsageError if an input has a name that others have at other times, as a pipe has."""
    for name in sources:
        if name == STANDARD_STREAM or _is_stream(name):
            shown = "standard input" if name == STANDARD_STREAM else name
            raise UsageError(
                f"--make-keys place gives the rows of {shown} the same keys each time: "
                "--key-prefix tells them apart"
            )


def require_no_input(
    outputs: Iterable[str | None], sources: Iterable[str], pattern: str | None = None
) -> None:
    """Raise if an output would overwrite an input, or be read with one the next time.

    They are compared as files, not as names; a file in an input folder is an input if it is
    read. Standard streams, pipes and devices are never the same.
    """
    named, read = [name for name in outputs if name], list(sources)
    wanted = {place: name for name in named if (place := _place_of(name))}
    behind = (name for source in read for name in files_behind(source, pattern))
    for name in behind if wanted else ():
        place = _place_of(name)
        if place in wanted:
            spelled = "" if wanted[place] == name else f", {name}"
            raise UsageError(
                f"{wanted[place]} is an input{spelled}; name another file for the output"
            )
    for name, source in product(named, read):
        if is_read_within(name, source, pattern):
            raise UsageError(
                f"the output {name} is within the input {source}, where it would be read the next "
                "time: name a place outside it"
            )


def content_seed(sources: Iterable[str], pattern: str | None) -> int | None:
    """Return a seed that depends on the content; None for inputs that can be read only once.

    Hash functions that are known before a row is written allow rows that are made to collide with
    those of others. Whoever writes a row here would have to know all other rows, and with every
    try the functions become others. SHA-256, for which processors have instructions.
    """
    digest = hashlib.sha256()
    for name in (name for source in sources for name in files_behind(source, pattern)):
        if _place_of(name) is None:
            return None
        with Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return int.from_bytes(digest.digest())


def require_again(*names: str, advice: str = "give a file") -> None:
    """Raise UsageError if one of these inputs cannot be read twice, as a pipe cannot."""
    for name in names:
        shown = "standard input" if name == STANDARD_STREAM else name
        if name == STANDARD_STREAM or _is_stream(name):
            raise UsageError(f"rows are read twice, which is impossible with {shown}: {advice}")


def _is_stream(name: str) -> bool:
    """Whether a name leads to a pipe, a socket or a device."""
    try:
        mode = Path(name).stat().st_mode
    except (OSError, ValueError):  # none, or what is no name of a file
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _place_of(name: str) -> tuple[int, int] | None:
    """Return the identity of an ordinary file; None if there is no such file."""
    if name == STANDARD_STREAM:
        return None
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
