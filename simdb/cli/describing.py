"""Kinds as the command line describes them: by a name with settings, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from simdb.cli.kinds import KINDS, name_of, plural_of
from simdb.errors import ConfigurationError, UsageError
from simdb.files import KindOfRows
from simdb.kinds import (
    CharacterShingles,
    Equal,
    Field,
    Kind,
    Shingles,
    StopWordShingles,
    Text,
    WordShingles,
)

_Made = TypeVar("_Made")

# The settings that may follow the name of a kind, in order: bits:1024:tanimoto.
_IN_THE_NAME: dict[KindOfRows, tuple[str, ...]] = {
    "bag": ("union",),
    "bits": ("length", "measure"),
    "vector": ("dimension", "measure"),
    "fingerprint": ("width", "height"),
}
_WHOLE_NUMBERS = {"length", "dimension", "width", "height"}
_NEEDED: dict[KindOfRows, tuple[str, ...]] = {
    "bits": ("length",),
    "vector": ("dimension",),
    "fingerprint": ("width", "height"),
    "record": ("fields",),
}
_SHINGLES: dict[str, type[Shingles]] = {
    "character": CharacterShingles,
    "word": WordShingles,
    "stop-word": StopWordShingles,
}


@dataclass(frozen=True, slots=True)
class KindOptions:
    """What the user says about the kind of a new collection."""

    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="text|set|bag|bits|vector|fingerprint|record",
            help="What the items are (text), also with settings: bag:maximum, bits:1024:tanimoto, "
            "vector:128:euclidean.",
        ),
    ] = None
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings of the kind, as JSON: a file, or {...} itself.",
        ),
    ] = None
    shingles: Annotated[
        str | None,
        typer.Option(
            "--shingles",
            metavar="character:N|word:N|stop-word:N",
            help="What texts are compared by (character:9).",
        ),
    ] = None
    lowercase: Annotated[
        bool | None,
        typer.Option(
            "--lowercase/--keep-case", help="Compare without regard to case (--keep-case)."
        ),
    ] = None
    white_space: Annotated[
        str | None,
        typer.Option(
            "--white-space", metavar="collapse|keep", help="Runs of white space (collapse)."
        ),
    ] = None
    unicode: Annotated[
        str | None,
        typer.Option(
            "--unicode", metavar="NFC|NFD|NFKC|NFKD|keep", help="Normalise characters first (NFC)."
        ),
    ] = None

    def new(self) -> Kind:
        """Return the kind of a new collection; texts where nothing is said.

        Raises:
            ConfigurationError: a setting is none of the kind, or wrong; the option is named.
        """
        name, chosen = self._chosen()
        return self._with_options(_made(name or "text", chosen))

    def changed(self, base: Kind) -> Kind:
        """Return a kind with the settings that were given changed.

        Raises:
            ConfigurationError: they are settings of another kind, or wrong.
        """
        name, chosen = self._chosen()
        if name is not None and name != name_of(base):
            raise ConfigurationError(f"the collection holds {plural_of(base)}")
        return self._with_options(_changed(base, chosen))

    def _chosen(self) -> tuple[KindOfRows | None, dict[str, Any]]:
        """Return the name and the settings that --kind and --settings give together."""
        name, chosen = _from_name(self.kind)
        if self.settings is None:
            return name, chosen
        described = _described(self.settings)
        told = described.pop("kind", name)
        if told is not None:
            told = one_of("the kind of --settings", told, *KINDS)
        if name is not None and told != name:
            raise ConfigurationError(f"--kind says {name}, and --settings {told}")
        twice = next((one for one in chosen if one in described), None)
        if twice is not None:
            raise ConfigurationError(f"--kind and --settings both give {twice}")
        return cast("KindOfRows | None", told), {**chosen, **described}

    def _with_options(self, base: Kind) -> Kind:
        options = (self.shingles, self.lowercase, self.white_space, self.unicode)
        if isinstance(base, Text):
            return text_kind(base, *options)
        names = ("--shingles", "--lowercase", "--white-space", "--unicode")
        for option, value in zip(names, options, strict=True):
            if value is not None:
                raise ConfigurationError(
                    f"{option} is a setting of texts, not of {plural_of(base)}"
                )
        return base


@dataclass(frozen=True, slots=True)
class OtherKindOptions(KindOptions):
    """What the user says about the kind of a collection there is; what is not named stays."""

    kind: str | None = None
    shingles: Annotated[
        str | None,
        typer.Option(
            "--shingles",
            metavar="character:N|word:N|stop-word:N",
            help="What texts are compared by (unchanged).",
        ),
    ] = None
    lowercase: Annotated[
        bool | None,
        typer.Option("--lowercase/--keep-case", help="Compare without regard to case (unchanged)."),
    ] = None
    white_space: Annotated[
        str | None,
        typer.Option(
            "--white-space", metavar="collapse|keep", help="Runs of white space (unchanged)."
        ),
    ] = None
    unicode: Annotated[
        str | None,
        typer.Option(
            "--unicode",
            metavar="NFC|NFD|NFKC|NFKD|keep",
            help="Normalise characters first (unchanged).",
        ),
    ] = None


def _from_name(text: str | None) -> tuple[KindOfRows | None, dict[str, Any]]:
    """Return the kind and the settings that ``bits:1024:tanimoto`` spells."""
    if text is None:
        return None, {}
    name, *values = text.split(":")
    kind = cast("KindOfRows", one_of("--kind", name, *KINDS))
    places = _IN_THE_NAME.get(kind, ())
    if len(values) > len(places):
        form = ":".join((name, *map(str.upper, places)))
        raise ConfigurationError(f"--kind is at most {form}, not {text!r}")
    chosen: dict[str, Any] = dict(zip(places, values, strict=False))
    for place in _WHOLE_NUMBERS & chosen.keys():
        value = chosen[place]
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise ConfigurationError(f"--kind {text}: the {place} must be a whole number")
        chosen[place] = int(value)
    return kind, chosen


def _described(text: str) -> dict[str, Any]:
    """Return the JSON object that stands in a file or on the command line itself."""
    if text.lstrip().startswith("{"):
        where, content = "--settings", text
    else:
        where = f"--settings {text}"
        try:
            content = Path(text).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigurationError(f"{where}: not UTF-8") from None
    try:
        described = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: not JSON: {error}") from None
    if not isinstance(described, dict):
        raise ConfigurationError(f"{where}: not a JSON object")
    return described


def _made(name: KindOfRows, chosen: dict[str, Any]) -> Kind:
    for needed in _NEEDED.get(name, ()):
        if needed not in chosen:
            in_name = "".join(f":{place.upper()}" for place in _IN_THE_NAME.get(name, ()))
            way = f"--kind {name}{in_name}, or with --settings" if in_name else "--settings"
            raise ConfigurationError(f"--kind {name} needs {needed}: give it as {way}")
    construct: Callable[..., Kind] = KINDS[name]
    return _constructed(KINDS[name], name, chosen, construct)


def _changed(base: Kind, chosen: dict[str, Any]) -> Kind:
    if not chosen:
        return base
    return _constructed(type(base), name_of(base), chosen, base.changed)


def _constructed(
    known: type[Any], what: str, chosen: dict[str, Any], construct: Callable[..., _Made]
) -> _Made:
    """Call what makes a setting; its errors name the option."""
    names = known.__struct_fields__
    for name in chosen:
        if name not in names:
            has = ", ".join(names) or "none"
            raise ConfigurationError(f"--settings: {what} has no setting {name!r}; it has {has}")
    values = {name: _NESTED.get(name, _as_it_is)(value) for name, value in chosen.items()}
    try:
        return construct(**values)
    except UsageError as error:
        raise ConfigurationError(f"--kind and --settings: {error.problem}") from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"--settings: {what}: {error}") from error


def _as_it_is(value: object) -> object:
    return value


def _shingles(value: object) -> Shingles:
    """Return shingles from ``"word:3"`` or from ``{"of": "word", "size": 3}``."""
    if isinstance(value, str):
        return shingles_from(value)
    if not isinstance(value, dict) or value.get("of") not in _SHINGLES:
        raise ConfigurationError(
            f'--settings: shingles must be "character:9" or {{"of": "character", "size": 9}}, not '
            f"{json.dumps(value)}"
        )
    settings = {name: part for name, part in value.items() if name != "of"}
    known = _SHINGLES[value["of"]]
    construct: Callable[..., Shingles] = known
    return _constructed(known, f"{value['of']} shingles", settings, construct)


def _fields(value: object) -> list[Field]:
    """Return the fields of a record: each an object of settings, or a name alone."""
    return [_object(one, "name", Field, "a field") for one in _listed(value, "fields")]


def _rules(value: object) -> list[list[Equal]]:
    """Return the rules of a record: each a name, an object, or a list of them."""
    rules = [one if isinstance(one, list) else [one] for one in _listed(value, "candidates")]
    return [[_object(part, "field", Equal, "a rule") for part in rule] for rule in rules]


def _listed(value: object, name: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise ConfigurationError(f"--settings: {name} must be a list, not {json.dumps(value)}")
    return value


def _object(value: object, name: str, known: type[_Made], what: str) -> _Made:
    given = {name: value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or name not in given:
        raise ConfigurationError(
            f"--settings: {what} must be a name or an object with {name!r}, not {json.dumps(value)}"
        )
    return _constructed(known, what, dict(given), known)


# The settings that are made of settings.
_NESTED: dict[str, Callable[[object], object]] = {
    "shingles": _shingles,
    "fields": _fields,
    "candidates": _rules,
}


def one_of(option: str, value: str, *choices: str) -> Any:
    """Return a value that is among the choices of an option, else raise UsageError."""
    if value not in choices:
        raise UsageError(f"{option} must be {' or '.join(choices)}, not {value!r}")
    return value


def shingles_from(text: str) -> Shingles:
    """Return what ``character:9`` or ``word:3`` means; the size may be left out."""
    kinds: dict[str, type[Shingles]] = {
        "character": CharacterShingles,
        "word": WordShingles,
        "stop-word": StopWordShingles,
    }
    name, colon, size = text.partition(":")
    if name not in kinds or (colon and not (size.isascii() and size.isdigit() and len(size) < 10)):
        raise ConfigurationError(
            f"--shingles must be character:N, word:N or stop-word:N, not {text!r}"
        )
    return kinds[name](int(size)) if colon else kinds[name]()


def text_kind(
    base: Text,
    shingles: str | None,
    lowercase: bool | None,
    white_space: str | None,
    unicode: str | None,
) -> Text:
    """Return a kind of collection with the given settings changed and the others as in ``base``."""
    changes: dict[str, Any] = {
        "shingles": None if shingles is None else shingles_from(shingles),
        "lowercase": lowercase,
        "white_space": white_space,
        "unicode": unicode,
    }
    return base.changed(**{name: value for name, value in changes.items() if value is not None})
