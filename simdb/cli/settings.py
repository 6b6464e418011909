"""Options that are settings of a collection: of its kind, and of its indexes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import typer

from simdb import kinds
from simdb.arguments import require_once
from simdb.cli.options import Bound, rational
from simdb.errors import ConfigurationError, UnknownKindError, UsageError
from simdb.kinds import Kind
from simdb.lsh.amplification import parse_construction


def _option(name: str, metavar: str | None, what: str) -> Callable[[str], Any]:
    """Return a function that makes an option of its default, as the help states it."""
    return lambda default: typer.Option(
        name, metavar=metavar, help=f"{what} ({default}).", rich_help_panel=Bound.HEADING
    )


_recall = _option("--recall", "SHARE", "The share of the pairs at the threshold to find")
_sketch = _option("--sketch", None, "How signatures are made")
_seed = _option("--seed", None, "The seed of the hash functions")
Recall = Annotated[str | None, _recall("0.99; for bits 1, where that is as fast")]
Sketch: TypeAlias = Literal["fast", "classical"] | None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The requirements on the bands and rows of an index."""

    HEADING: ClassVar[str] = "The index"

    recall: Recall = None
    bands: Annotated[
        int | None,
        typer.Option("--bands", help="The number of bands (planned from the threshold)."),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option("--rows", help="The number of rows per band (planned from the threshold)."),
    ] = None
    row_budget: Annotated[
        int | None,
        typer.Option(
            "--row-budget",
            metavar="ROWS",
            help="The most rows that all bands may have together (128); low thresholds need more.",
        ),
    ] = None
    false_candidates: Annotated[
        str | None,
        typer.Option(
            "--false-candidates",
            metavar="SHARE",
            help="The largest share of dissimilar pairs that may be compared (no limit).",
        ),
    ] = None
    cascade: Annotated[
        str | None,
        typer.Option(
            "--cascade",
            metavar="AND-OR",
            help="AND and OR instead of bands and rows, such as 'And(4, Or(4, And(2)))'.",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """Return what was given, under its name in the Python API."""
        values = asdict(self)
        told = {"recall": "recall"}
        for name in values.keys() & {"recall", "false_candidates", "exact_floor"}:
            if values[name] is not None:
                option = told.get(name, f"--{name.replace('_', '-')}")
                values[name] = rational(values[name], name=option)
        if self.cascade is not None:
            values["cascade"] = parse_construction(self.cascade)
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class IndexOptions(PlanOptions):
    """The indexes of a new collection."""

    sketch: Annotated[Sketch, _sketch("fast")] = None
    seed: Annotated[int | None, _seed("random")] = None
    exact_floor: Annotated[
        str | None,
        typer.Option(
            "--exact-floor",
            metavar="SIMILARITY",
            help="Add an exact index, which serves thresholds from this one up.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class OtherIndexOptions(IndexOptions):
    """The indexes of an existing collection; settings that are not given stay."""

    recall: Annotated[str | None, _recall("unchanged")] = None
    sketch: Annotated[Sketch, _sketch("unchanged")] = None
    seed: Annotated[int | None, _seed("unchanged")] = None


G = TypeVar("G")
# The options that are settings of kinds.
_OF_KINDS = {name: option for kind in kinds.OWN for name, option in kind.options.items()}


def _with_settings_of_kinds(held: str | None = None) -> Callable[[type[G]], type[G]]:
    """Add the options that are settings of kinds to a group.

    Args:
        held: the default that the help states; None for the default of a new kind.
    """

    def with_them(group: type[G]) -> type[G]:
        annotations = dict(group.__annotations__)
        for name, option in _OF_KINDS.items():
            both = "/".join(filter(None, (_named(name), option.off)))
            taken = bool if option.form is None else str
            told = _option(both, option.form, option.meaning)(held or option.default)
            annotations[name] = Annotated[taken | None, told]
            setattr(group, name, None)
        group.__annotations__ = annotations
        return group

    return with_them


def _named(setting: str) -> str:
    """Return the option of a setting."""
    return f"--{setting.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
@_with_settings_of_kinds()
class KindOptions:
    """The kind of a new collection."""

    HEADING: ClassVar[str] = "What the items are"

    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="|".join(map(kinds.name_of, kinds.OWN)),
            help="The kind of the items (text), optionally with settings: bag:maximum, "
            "bits:1024:tanimoto, vector:128:euclidean.",
        ),
    ] = None
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings of the kind as JSON, in a file or as the object itself.",
        ),
    ] = None

    def new(self, usual: str = "text") -> Kind:
        """Return the kind of a new collection; by default the usual one."""
        name, chosen = self._chosen()
        name = name or usual
        known = kinds.named(name)
        for needed in known.needed():
            if needed not in chosen:
                if self.kind is None and self.settings is not None:
                    raise ConfigurationError(f"--settings must give {needed}, for {known.plural}")
                in_name = "".join(f":{place.upper()}" for place in known.in_the_name)
                way = f"--kind {name}{in_name}, or with --settings" if in_name else "--settings"
                raise ConfigurationError(f"--kind {name} needs {needed}: give it as {way}")
        return self._restored(known, chosen, {})

    def changed(self, base: Kind) -> Kind:
        """Return a kind with the given settings changed."""
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
        """Return a kind with the chosen settings, and the others as in ``base``."""
        name = kinds.name_of(known)
        told = {setting: getattr(self, setting) for setting in _OF_KINDS}
        told = {setting: value for setting, value in told.items() if value is not None}
        for setting in told:
            if setting not in (*known.__struct_fields__, *known.options):
                owners = " and ".join(kind.plural for kind in kinds.OWN if setting in kind.options)
                raise ConfigurationError(
                    f"{_named(setting)} is a setting of {owners}, not of {known.plural}"
                )
        try:
            settings = known.prepared({**chosen, **told})
            return kinds.restore({**base, **settings, "kind": name})
        except UsageError as error:
            given = [one for one in ("kind", "settings") if getattr(self, one) is not None]
            options = " and ".join(map(_named, told or given))
            raise ConfigurationError(f"{options}: {error.problem}") from error


@dataclass(frozen=True, slots=True)
@_with_settings_of_kinds("unchanged")
class OtherKindOptions(KindOptions):
    """The kind of an existing collection; settings that are not given stay."""

    kind: str | None = None


def _known(option: str, name: object) -> type[Kind]:
    """Return the class of a kind by its name."""
    if isinstance(name, str):
        with suppress(UnknownKindError):
            return kinds.named(name)
    raise UsageError(f"{option} must be {' or '.join(kinds.names())}, not {name!r}")


def _from_name(text: str | None) -> tuple[str | None, dict[str, Any]]:
    """Return the kind and the settings of a text such as ``bits:1024:tanimoto``."""
    if text is None:
        return None, {}
    name, *values = text.split(":")
    known = _known("--kind", name)
    places = known.in_the_name
    if len(values) > len(places):
        form = ":".join((name, *map(str.upper, places)))
        raise ConfigurationError(f"--kind takes at most {form}, not {text!r}")
    try:
        return name, {
            place: known.setting_from(place, value)
            for place, value in zip(places, values, strict=False)
        }
    except ConfigurationError as error:
        raise ConfigurationError(f"--kind {text}: {error.problem}") from None


def is_object(text: str) -> bool:
    """Whether settings stand on the command line itself, not in a file."""
    return text.lstrip().startswith("{")


def _described(text: str) -> dict[str, Any]:
    """Return the JSON object in a file or on the command line itself."""
    is_json = is_object(text)
    where = "--settings" if is_json else f"--settings {text}"
    try:
        given = text if is_json else Path(text).read_text(encoding="utf-8-sig")
        described = json.loads(given, object_pairs_hook=_object)
        # What is not UTF-8 comes from a command line as surrogates, which JSON can also spell.
        json.dumps(described, ensure_ascii=False).encode()
    except UnicodeError:
        raise ConfigurationError(f"{where}: not UTF-8") from None
    except ConfigurationError as error:
        raise error.about(where) from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: not JSON: {error}") from None
    if not isinstance(described, dict):
        raise ConfigurationError(f"{where}: not a JSON object")
    described.pop("about", None)  # what a file says of itself
    return described


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; ConfigurationError: it has a name twice."""
    require_once([name for name, _ in pairs], "an object has the name")
    return dict(pairs)
