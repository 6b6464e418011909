"""Options that several commands share, alone and in groups, and what their text means.

A group is a dataclass: each of its fields is an option of every command that takes it.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.models import OptionInfo

from simdb import kinds
from simdb.cli import collector
from simdb.errors import ConfigurationError, UnknownKindError, UsageError
from simdb.exact.thresholds import MaximumDistance, Threshold
from simdb.kinds import Kind
from simdb.lsh.amplification import parse_construction
from simdb.results import Key


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses: typer sees each of their fields as an option.

    A field without an option's annotation is none and has its default: so a group can leave out
    an option of the group that it derives from. A group's ``HEADING`` is that of its options in
    the help.
    """
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    seen: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not (isinstance(group, type) and is_dataclass(group)):
            seen.append(parameter)
            continue
        hints = get_type_hints(group, include_extras=True)
        heading = getattr(group, "HEADING", None)
        options = [
            field.replace(kind=parameter.kind, annotation=_headed(hints[field.name], heading))
            for field in inspect.signature(group).parameters.values()
            if get_origin(hints[field.name]) is Annotated or hints[field.name] is typer.Context
        ]
        groups[parameter.name] = (group, [option.name for option in options])
        seen += options

    @functools.wraps(command)
    def with_groups(**given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{option: given.pop(option) for option in options})
        collector.resume()
        command(**given)

    # typer reads both.
    vars(with_groups)["__signature__"] = inspect.Signature(seen)
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in seen}
    return with_groups


def _headed(annotation: Any, heading: str | None) -> Any:
    """Return the annotation of an option that stands under a heading of the help."""
    kind, *told = get_args(annotation) or (annotation,)
    if heading is None or not (told and isinstance(told[0], OptionInfo)):
        return annotation
    option = copy(told[0])
    option.rich_help_panel = heading
    return Annotated[kind, option]


Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        min=1,
        metavar="PAIRS",
        help="End with an error rather than look at more pairs than this.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say why each is similar: what both have, what differs, and where they met in "
        "the index.",
    ),
]
IntegerKeys = Annotated[
    bool, typer.Option("--integer-keys", help="Read keys as whole numbers: 7 and not '7'.")
]
Groups = Annotated[
    Literal["chain", "star"] | None,
    typer.Option(
        "--groups",
        help="Keep groups whose ids survive changes: chain connects all similar items, star "
        "those within the threshold of a centre.",
    ),
]
GroupsAt = Annotated[
    list[str] | None,
    typer.Option(
        "--groups-at",
        metavar="BOUND",
        help="Keep the groups at this similarity, or distance, if not the collection's; may "
        "be repeated.",
    ),
]
SyncMode = Annotated[
    Literal["full", "batch"],
    typer.Option(
        "--sync",
        help="full: every commit survives a power failure; batch: faster, but the last "
        "commit may not.",
    ),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """What counts as similar: a least similarity or a largest distance, by the kind."""

    HEADING: ClassVar[str] = "What is similar"

    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="Items are similar from this similarity on: above 0 and at most 1, such as 0.8 "
            "or 4/5.",
        ),
    ] = None
    max_distance: Annotated[
        str | None,
        typer.Option(
            "--max-distance",
            metavar="DISTANCE",
            help="Items are similar up to this distance, for kinds that are compared by distance.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.max_distance is not None:
            raise UsageError("--threshold and --max-distance contradict each other")
        self.given()

    def given(self) -> dict[str, Any]:
        """Return what was given, exactly as it was written, under its name in the Python API."""
        if self.threshold is not None:
            return {"threshold": rational(self.threshold)}
        if self.max_distance is not None:
            farthest = MaximumDistance.parse(self.max_distance, name="--max-distance")
            return {"max_distance": farthest.fraction}
        return {}

    def of(self, kind: Kind) -> dict[str, Any]:
        """Return what was given, for a method of a collection of this kind."""
        measured, wanted, other = "similarity", "--threshold", "--max-distance"
        if kind.is_distance:
            measured, wanted, other = "distance", other, wanted
        if (self.threshold if kind.is_distance else self.max_distance) is not None:
            raise UsageError(
                f"these {kind.plural} are compared by {measured}: give {wanted}, not {other}"
            )
        return self.given()


@dataclass(frozen=True, slots=True)
class Question(Bound):
    """What is similar enough, and what may be missing in an answer."""

    guarantee: Annotated[
        Literal["auto", "exact", "probable"],
        typer.Option(
            "--guarantee",
            help="exact: nothing is missing; probable: what the index may miss; auto: exact if "
            "that costs no more.",
        ),
    ] = "auto"
    exact: Annotated[bool, typer.Option("--exact", help="The same as --guarantee exact.")] = False
    min_recall: Annotated[
        float | None,
        typer.Option(
            "--min-recall",
            metavar="SHARE",
            help="Below the collection's threshold: answer if at least this recall is expected.",
        ),
    ] = None

    def __post_init__(self) -> None:
        Bound.__post_init__(self)
        if self.exact and self.guarantee == "probable":
            raise UsageError("--exact and --guarantee probable contradict each other")

    def of(self, kind: Kind) -> dict[str, Any]:
        """Return it for a method of a collection of this kind, as ``Bound.of`` does."""
        guarantee = "exact" if self.exact else self.guarantee
        return {**Bound.of(self, kind), "guarantee": guarantee, "min_recall": self.min_recall}

    def of_reasons(self, measure: str, note: Callable[[str], None]) -> dict[str, Any]:
        """Return the bound that reasons name, which are of one measure whatever was asked for."""
        if measure == "jaccard":
            return self.given()
        note(f"--explain names the Jaccard similarity, beside the {measure} that was asked for")
        return {}


def _option(name: str, metavar: str | None, what: str) -> Callable[[str], Any]:
    """Return an option that is told with what holds where it is not given."""
    return lambda default: typer.Option(name, metavar=metavar, help=f"{what} ({default}).")


_recall = _option("--recall", "SHARE", "The share of the pairs at the threshold to find")
_sketch = _option("--sketch", None, "How signatures are made")
_seed = _option("--seed", None, "The seed of the hash functions")
Recall = Annotated[str | None, _recall("0.99; of bits 1, where that is as quick")]
Sketch: TypeAlias = Literal["fast", "classical"] | None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is asked of the bands and rows of an index."""

    HEADING: ClassVar[str] = "The index"

    recall: Recall = None
    bands: Annotated[
        int | None, typer.Option("--bands", help="Bands of the index (planned from the threshold).")
    ] = None
    rows: Annotated[
        int | None, typer.Option("--rows", help="Rows of each band (planned from the threshold).")
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
            help="The largest share of dissimilar pairs that may be compared (any).",
        ),
    ] = None
    cascade: Annotated[
        str | None,
        typer.Option(
            "--cascade",
            metavar="AND-OR",
            help="A construction in place of bands and rows, such as 'And(4, Or(4, And(2)))'.",
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
    """The indexes of a new collection, where they are not planned."""

    sketch: Annotated[Sketch, _sketch("fast")] = None
    seed: Annotated[int | None, _seed("random")] = None
    exact_floor: Annotated[
        str | None,
        typer.Option(
            "--exact-floor",
            metavar="SIMILARITY",
            help="Make an exact index too, for thresholds from this one on.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class OtherIndexOptions(IndexOptions):
    """The indexes of a collection that has some; what is not named stays."""

    recall: Annotated[str | None, _recall("unchanged")] = None
    sketch: Annotated[Sketch, _sketch("unchanged")] = None
    seed: Annotated[int | None, _seed("unchanged")] = None


@dataclass(frozen=True, slots=True)
class Where:
    """Which items a question is about."""

    HEADING: ClassVar[str] = "Which items"

    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="NAME=VALUE",
            help="Only items with this metadata. Given twice for one name, either value will do; "
            "different names must all hold.",
        ),
    ] = None

    def __post_init__(self) -> None:
        filter_from("--where", self.where)

    def given(self) -> dict[str, Any]:
        """Return what was given as a method of a collection takes it."""
        return {"where": filter_from("--where", self.where)}


@dataclass(frozen=True, slots=True)
class Carrying(Where):
    """Which items a question is about, and whether the answer carries their metadata."""

    metadata: Annotated[
        bool, typer.Option("--metadata", help="Print the metadata of the items too.")
    ] = False

    def given(self) -> dict[str, Any]:
        """Return what was given as a method of a collection takes it."""
        return {**Where.given(self), "metadata": self.metadata}


class MetadataFilter:
    """Which metadata are wanted: of every name one of some values.

    It notes which names it has met, since one that nothing has is likely to be misspelled.
    """

    def __init__(self, option: str, wanted: Mapping[str, Sequence[Any]]) -> None:
        self._option = option
        self._wanted = wanted
        self._unmet = set(wanted)
        self._was_asked = False

    def __call__(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether metadata are wanted."""
        known = metadata or {}
        self._was_asked = True
        self._unmet -= known.keys()
        return all(known.get(name) in values for name, values in self._wanted.items())

    def tell_unmet(self, note: Callable[[str], None]) -> None:
        """Tell which names nothing had that was similar."""
        for name in sorted(self._unmet if self._was_asked else ()):
            note(f"{self._option}: nothing that is similar has metadata named {name!r}")


def filter_from(option: str, given: list[str] | None) -> MetadataFilter | None:
    """Return the filter on metadata that some NAME=VALUE are; None where there are none.

    A value is the text, or the number or what else of JSON it spells.
    """
    if not given:
        return None
    found: dict[str, list[Any]] = {}
    for one in given:
        name, sign, text = one.partition("=")
        if not (name and sign):
            raise UsageError(f"{option} takes NAME=VALUE, as source=web, not {one!r}")
        values = found.setdefault(name, [])
        values.append(text)
        with suppress(ValueError, RecursionError):
            values.append(json.loads(text))
    return MetadataFilter(option, found)


def tell_unmet(asked: Mapping[str, Any], note: Callable[[str], None]) -> None:
    """Tell, after an answer, which names the filters that were asked have not met."""
    for name in ("where", "other_where"):
        if asked.get(name) is not None:
            asked[name].tell_unmet(note)


@dataclass(frozen=True, slots=True)
class Apart:
    """What is never the same."""

    HEADING: ClassVar[str] = "Which items"

    apart: Annotated[
        str | None,
        typer.Option(
            "--apart",
            metavar="FILE",
            help="A file of pairs of keys that never belong together: two keys a line separated "
            "by a tab, or .jsonl objects with left and right.",
        ),
    ] = None
    integer_keys: IntegerKeys = False

    def pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of the file; UsageError names a line that is none."""
        if self.apart is None:
            return []
        return pairs_of_keys(self.apart, integer_keys=self.integer_keys)


def pairs_of_keys(name: str, *, integer_keys: bool) -> list[tuple[Key, Key]]:
    """Return the pairs of keys of a file; UsageError names a line that is none."""
    return [
        (key_from(left, integer_keys=integer_keys), key_from(right, integer_keys=integer_keys))
        for left, right in rows_of_keys(name, "left", "right")
    ]


def rows_of_keys(name: str, *fields: str) -> list[list[Any]]:
    """Return the fields of each line: with tabs between them, or of the objects of a .jsonl file.

    UsageError names a line that has not all of them, and no more.
    """
    rows = []
    for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line) if name.endswith(".jsonl") else None
            row = line.split("\t") if found is None else [found[field] for field in fields]
        except (ValueError, TypeError, KeyError):
            row = []
        if len(row) != len(fields):
            raise UsageError(f"{name}, line {number}: not {', '.join(fields)}")
        rows.append(row)
    return rows


_LABELS = {"1": True, "0": False, "true": True, "false": False}


def labels_of(
    name: str, *, integer_keys: bool, forgets: bool = False
) -> list[tuple[Key, Key, bool | None]]:
    """Return the labels of a file: left key, right key, 1 or 0, or ? where that forgets one."""
    labelled = []
    for left, right, said in rows_of_keys(name, "left", "right", "match"):
        label = _LABELS.get(str(said).lower())
        if label is None and not (forgets and said == "?"):
            known = "1, 0, or ? to forget it" if forgets else "1 or 0"
            raise UsageError(f"{name}: a label is {known}, not {said!r}")
        one, other = (key_from(key, integer_keys=integer_keys) for key in (left, right))
        labelled.append((one, other, label))
    return labelled


def rational(text: str, *, name: str = "threshold") -> Fraction:
    """Return a share between 0 and 1 exactly as it was written."""
    return Threshold.parse(text, name=name).fraction


def key_from(text: Key, *, integer_keys: bool) -> Key:
    """Return a key of the command line: text, or a whole number where those were asked for."""
    if not integer_keys:
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the key {text!r} is not a whole number") from None


G = TypeVar("G")
# The options that are settings of kinds.
_OF_KINDS = {name: option for kind in kinds.OWN for name, option in kind.options.items()}


def _with_settings_of_kinds(held: str | None = None) -> Callable[[type[G]], type[G]]:
    """Let a group have the options that are settings of kinds.

    Args:
        held: what holds where one is not given, in the help; else the default of a new kind.
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
    """What the user says about the kind of a new collection."""

    HEADING: ClassVar[str] = "What the items are"

    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="|".join(map(kinds.name_of, kinds.OWN)),
            help="The kind of the items (text); with settings as in bag:maximum, "
            "bits:1024:tanimoto or vector:128:euclidean.",
        ),
    ] = None
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings of the kind as JSON: a file, or the object itself.",
        ),
    ] = None

    def new(self) -> Kind:
        """Return the kind of a new collection; texts where nothing is said."""
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
        """Return a kind with the settings that were given changed."""
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
            options = " and ".join(map(_named, told)) or "--kind and --settings"
            raise ConfigurationError(f"{options}: {error.problem}") from error


@dataclass(frozen=True, slots=True)
@_with_settings_of_kinds("unchanged")
class OtherKindOptions(KindOptions):
    """What the user says about the kind of a collection there is; what is not named stays."""

    kind: str | None = None


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
        raise ConfigurationError(f"--kind takes at most {form}, not {text!r}")
    try:
        return name, {
            place: known.setting_from(place, value)
            for place, value in zip(places, values, strict=False)
        }
    except ConfigurationError as error:
        raise ConfigurationError(f"--kind {text}: {error.problem}") from None


def _described(text: str) -> dict[str, Any]:
    """Return the JSON object that stands in a file or on the command line itself."""
    is_json = text.lstrip().startswith("{")
    where = "--settings" if is_json else f"--settings {text}"
    try:
        described = json.loads(text if is_json else Path(text).read_text(encoding="utf-8-sig"))
        # What is not UTF-8 comes from a command line as surrogates, which JSON can also spell.
        json.dumps(described, ensure_ascii=False).encode()
    except UnicodeError:
        raise ConfigurationError(f"{where}: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: not JSON: {error}") from None
    if not isinstance(described, dict):
        raise ConfigurationError(f"{where}: not a JSON object")
    described.pop("about", None)  # what a file says of itself
    return described
