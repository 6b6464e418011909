"""Kinds as the command line describes them: by a name with settings, and as JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from simdb import kinds
from simdb.errors import ConfigurationError, UnknownKindError, UsageError
from simdb.kinds import Kind

# Options of texts, which any kind with settings of these names has too.
_OPTIONS = {
    "shingles": "--shingles",
    "lowercase": "--lowercase",
    "white_space": "--white-space",
    "unicode": "--unicode",
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
        name = name or "text"
        known = kinds.named(name)
        for needed in known.needed():
            if needed not in chosen:
                in_name = "".join(f":{place.upper()}" for place in known.in_the_name)
                way = f"--kind {name}{in_name}, or with --settings" if in_name else "--settings"
                raise ConfigurationError(f"--kind {name} needs {needed}: give it as {way}")
        return self._restored(known, chosen, {})

    def changed(self, base: Kind) -> Kind:
        """Return a kind with the settings that were given changed.

        Raises:
            ConfigurationError: they are settings of another kind, or wrong.
        """
        name, chosen = self._chosen()
        if name is not None and name != base.name:
            raise ConfigurationError(f"the collection holds {base.plural}")
        return self._restored(type(base), chosen, base.describe())

    def _chosen(self) -> tuple[str | None, dict[str, Any]]:
        """Return the name and the settings that --kind and --settings give together."""
        name, chosen = _from_name(self.kind)
        if self.settings is None:
            return name, chosen
        described = _described(self.settings)
        told = described.pop("kind", name)
        if told is not None:
            _known("the kind of --settings", told)
        if name is not None and told != name:
            raise ConfigurationError(f"--kind says {name}, and --settings {told}")
        twice = next((one for one in chosen if one in described), None)
        if twice is not None:
            raise ConfigurationError(f"--kind and --settings both give {twice}")
        return told, {**chosen, **described}

    def _restored(self, known: type[Kind], chosen: dict[str, Any], base: dict[str, Any]) -> Kind:
        """Return a kind with the settings chosen, also by options, and the others as in base."""
        name = kinds.name_of(known)
        given = {setting: getattr(self, setting) for setting in _OPTIONS}
        for setting, value in given.items():
            if value is not None and setting not in known.__struct_fields__:
                raise ConfigurationError(
                    f"{_OPTIONS[setting]} is a setting of texts, not of {known.plural}"
                )
        told = {setting: value for setting, value in given.items() if value is not None}
        try:
            settings = known.prepared({**chosen, **told})
            return kinds.restore({**base, **settings, "kind": name})
        except UsageError as error:
            options = " and ".join(_OPTIONS[setting] for setting in told) or "--kind and --settings"
            raise ConfigurationError(f"{options}: {error.problem}") from error


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


def _known(option: str, name: object) -> type[Kind]:
    """Return the class of a kind by its name."""
    if isinstance(name, str):
        with suppress(UnknownKindError):
            return kinds.named(name)
    raise UsageError(f"{option} must be {' or '.join(kinds.known())}, not {name!r}")


def _from_name(text: str | None) -> tuple[str | None, dict[str, Any]]:
    """Return the kind and the settings that ``bits:1024:tanimoto`` spells."""
    if text is None:
        return None, {}
    name, *values = text.split(":")
    known = _known("--kind", name)
    places = known.in_the_name
    if len(values) > len(places):
        form = ":".join((name, *map(str.upper, places)))
        raise ConfigurationError(f"--kind is at most {form}, not {text!r}")
    try:
        return name, {
            place: known.setting_from(place, value)
            for place, value in zip(places, values, strict=False)
        }
    except ConfigurationError as error:
        raise ConfigurationError(f"--kind {text}: {error.problem}") from None


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
