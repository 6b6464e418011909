"""What the inputs are that a user names: files, folders, patterns, tables of databases."""

from __future__ import annotations

import fnmatch
import glob
import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec.structs import replace

from simdb.errors import ConfigurationError, Remedy, UsageError
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.databases import database_of
from simdb.files.formats import FORMATS
from simdb.files.rows import ReadingOptions
from simdb.files.separated import delimiter_of
from simdb.files.texts import is_folder, iter_files, leads_out
from simdb.kinds.base import Format

_LIST, _ABOUT = "state.json", "dataset_info.json"  # in a folder that ``datasets`` saved
# In folders of data sets of Hugging Face, and in those that Spark and its kin write.
_BESIDE_SHARDS = {_LIST, _ABOUT, "dataset_dict.json"}
_BESIDE_SHARDS |= {"_SUCCESS", "_metadata", "_common_metadata"}


def is_pattern(source: str) -> bool:
    """Whether an input is a pattern of names, such as ``shards/*.parquet``."""
    if not glob.has_magic(source) or database_of(source) is not None:
        return False
    return source != STANDARD_STREAM and not Path(source).exists()


def _fixed(pattern: str) -> Path:
    """Return the folder that all that matches a pattern lies in."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts))


def _matches(pattern: str) -> list[str]:
    """Return what matches, sorted, without names that begin with a dot; no file twice."""
    folder = _fixed(pattern)
    rest = str(Path(pattern).relative_to(folder))
    try:
        found = sorted(
            path
            for path in folder.glob(rest)
            if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        )
    except RecursionError:  # of folders in each other, which a folder's name alone reads
        raise UsageError(f"{pattern}: folders are nested too deeply for a pattern") from None
    if not found:
        raise FileNotFoundError(2, "no such file or folder", pattern)
    return list(map(str, _without_overlaps(found)))


def _without_overlaps(found: Sequence[Path]) -> Iterator[Path]:
    """Yield what of sorted paths has each file once, which a folder and what is in it have twice.

    A folder goes if each of its files is named itself; else what is in it does.
    """
    named = set(found)
    around = {parent for path in found for parent in path.parents}
    whole: set[Path] = set()
    for path in found:
        if not whole.isdisjoint(path.parents):
            continue
        if path in around:
            if all(path / relative in named for relative in iter_files(path)):
                continue
            whole.add(path)
        yield path


def has_folder(source: str) -> bool:
    """Whether an input is a folder, or one matches its pattern."""
    names = _matches(source) if is_pattern(source) else [source]
    return any(map(is_folder, names))


def require_there(*sources: str) -> None:
    """Raise FileNotFoundError unless each input is standard input, or is there."""
    for source in sources:
        if is_pattern(source):
            _matches(source)
            continue
        database = database_of(source)
        name = source if database is None else database[1]
        if name not in (STANDARD_STREAM, "") and not Path(name).exists():
            raise FileNotFoundError(2, "no such file or folder", name)


def is_read_within(place: str, source: str, pattern: str | None = None) -> bool:
    """Whether a file, or those of a folder, would be read with a folder around or a pattern.

    It need not be there. Of a folder some files may match any pattern.
    """
    if place == STANDARD_STREAM:
        return False
    named = Path(place)
    if is_pattern(source):
        # By their names, and by where the folders lie that these lead to.
        before = [*takewhile(lambda part: not glob.has_magic(part), Path(source).parts)]
        resolved = Path(*before).resolve().parts + Path(source).parts[len(before) :]
        by_names = _matches_parts(named.absolute().parts, Path(source).absolute().parts)
        return by_names or _matches_parts(named.resolve().parts, resolved)
    if not is_folder(source):
        return False
    around, path = Path(source).resolve(), named.resolve()
    if around not in path.parents:
        return False
    is_file = not (place.endswith("/") or named.is_dir())
    if is_file and pattern is not None and not fnmatch.fnmatchcase(path.name, pattern):
        return False
    return not any(part.startswith(".") for part in path.relative_to(around).parts)


def _matches_parts(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern, of which ``**`` is any number."""
    if not wanted:
        return not parts
    first, *others = wanted
    if first == "**":
        return any(_matches_parts(parts[begin:], others) for begin in range(len(parts) + 1))
    is_one = bool(parts) and fnmatch.fnmatchcase(parts[0], first)
    return is_one and _matches_parts(parts[1:], others)


def files_behind(source: str, pattern: str | None = None) -> Iterator[str]:
    """Yield the names of all that is read of an input; those of a folder that match a pattern."""
    database = database_of(source)
    if is_pattern(source):
        for name in _matches(source):
            yield from files_behind(name, pattern)
    elif database is not None:
        if database[0] == "duckdb":
            yield STANDARD_STREAM  # what its queries read besides, only DuckDB can tell
        yield from filter(None, database[1:2])
    elif not is_folder(source):
        yield source
    else:
        for relative in iter_files(Path(source), pattern):
            yield str(Path(source, relative))


def format_of_name(source: str, options: ReadingOptions) -> Format | None:
    """Return the format that the name of a file tells."""
    suffix = Path(plain_name(source)).suffix.lower()
    return options.kind.suffixes.get(".csv" if suffix == ".tsv" else suffix)


def written_forms(source: str, options: ReadingOptions) -> tuple[str, ...]:
    """Return the formats that rows of an input can be written in.

    They are those of its own format, in which ``"tsv"`` is told from ``"csv"`` by what separates
    the fields; the other of the two where the file is called so, or the options call it CSV. Rows
    of databases become lines of JSON.
    """
    if database_of(source) is not None:
        return ("jsonl",)
    told = told_format(source, options)
    if told != "csv":
        return FORMATS[told].kept
    form = "tsv" if _delimiter_in(source, options) == "\t" else "csv"
    name = plain_name(source).lower()
    called = {
        "csv": name.endswith(".csv") or options.format == "csv",
        "tsv": name.endswith(".tsv") and options.delimiter is None,
    }
    return (form, *(other for other in called if called[other] and other != form))


def _delimiter_in(source: str, options: ReadingOptions) -> str:
    """Return what stands between the fields of a CSV file, by its header where it may be read."""
    if options.delimiter is None and options.ratings is None and Path(source).is_file():
        with FORMATS["csv"].reader(source, options) as reader:
            next(iter(reader), None)
            if reader.delimiter is not None:
                return reader.delimiter
    return delimiter_of(source, options)


def _rows_below(folder: Path, pattern: str | None) -> Iterator[str]:
    """Yield the files below a folder that may have its rows, as paths relative to it.

    Of a data set of Hugging Face they are those that it lists: ``datasets`` leaves others beside
    them, of answers that it keeps and of earlier rows.
    """
    paths = list(map(Path, iter_files(folder)))
    of_tables = {path.parent for path in paths if path.name == _ABOUT or path.suffix == ".arrow"}
    saved = {path.parent for path in paths if path.name == _LIST} & of_tables
    listed = {place: _listed(folder, place) for place in saved}
    for path in paths:
        found = [str(path)]
        if path.parent in listed:
            found, listed[path.parent] = listed[path.parent], []
        for one in found:
            if pattern is None or fnmatch.fnmatchcase(Path(one).name, pattern):
                yield one


def _listed(folder: Path, place: Path) -> list[str]:
    """Return the files that a data set of Hugging Face in a folder lists, in their order.

    Raises:
        ConfigurationError: the list cannot be read, or is empty, or a file is not in the folder.
    """
    state = folder / place / _LIST
    try:
        names = [str(file["filename"]) for file in json.loads(state.read_bytes())["_data_files"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            f"{state} lists no files of a data set as Hugging Face writes it: {error!r}"
        ) from error
    if not names:
        raise ConfigurationError(f"{state} lists no files")
    for name in names:
        if Path(name).name != name or not state.with_name(name).is_file():
            raise ConfigurationError(f"{state} lists {name}, which is no file in its folder")
    return [str(place / name) for name in names]


def inputs_of(source: str, options: ReadingOptions) -> dict[str, str]:
    """Return the inputs that an input is: itself, its shards, or what matches its pattern.

    A folder whose files' names tell a format of rows is all of these; a folder of texts is one
    input, of a text a file.

    Returns:
        by the name of each, its path below the folder or the pattern; of an input that is alone,
        the name without its folder.

    Raises:
        ConfigurationError: the name is empty; or the files in a folder have several formats, or one
            is a link out of it.
        FileNotFoundError: nothing matches the pattern.
    """
    if not source:  # as of a variable of the shell that is not set
        raise ConfigurationError("the name of an input is empty; . is the current folder")
    if is_pattern(source):
        matches = _matches(source)
        filled = [match for match in matches if not _is_empty(match, options)]
        names = [one for match in filled or matches for one in inputs_of(match, options)]
        return {name: str(Path(name).relative_to(_fixed(source))) for name in names}
    if not is_folder(source) or options.format == "text":
        return {source: Path(source).name}
    names = list(_rows_below(Path(source), options.pattern))
    if not names:
        matching = "" if options.pattern is None else f" that matches {options.pattern}"
        raise FileNotFoundError(2, f"no file in this folder{matching}", source)
    files = {
        str(Path(source, name)): name for name in names if Path(name).name not in _BESIDE_SHARDS
    }
    formats = {options.format or format_of_name(name, options) for name in files}
    if not formats - {None, "text"}:
        return {source: Path(source).name}
    if len(formats) > 1:
        told = ", ".join(sorted(one or "unknown" for one in formats))
        raise ConfigurationError(
            f"{source} holds files of several formats ({told}): choose some of them with "
            "a pattern or a format"
        )
    for name in files:
        if leads_out(Path(source), Path(name)):
            raise ConfigurationError(f"{name} is a link to a file outside the folder")
    return files


def _is_empty(source: str, options: ReadingOptions) -> bool:
    """Whether an input is a folder of rows in which there is no file of them."""
    return is_folder(source) and not any(_rows_below(Path(source), options.pattern))


def told_format(source: str, options: ReadingOptions) -> Format:
    """Return the format of an input, as its name or the options tell it."""
    formats = options.kind.formats
    if database_of(source) is not None:
        if "arrow" not in formats:
            raise ConfigurationError(f"{source}: {options.kind.plural} cannot be read from tables")
        return "arrow"
    if options.format is not None:
        return options.format
    if source == STANDARD_STREAM:
        return options.unnamed or "jsonl"
    if is_folder(source):
        return "text" if "text" in formats else formats[0]
    told = format_of_name(source, options) or options.unnamed
    if told is None:
        raise ConfigurationError(
            f"the format of {source} is not clear from its name; choose one of "
            f"{', '.join(formats)}",
            remedies=[Remedy("format", ..., "names it")],
        )
    replace(options, format=told)  # it has to agree with the other options too
    return told
