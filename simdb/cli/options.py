"""Options that several commands share, alone and in groups, and what their text means.

A group is a struct, or a dataclass: each of its fields is an option of every command that takes
it.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import is_dataclass
from fractions import Fraction
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from msgspec import Struct
from typer.models import OptionInfo

from simdb.arguments import WHOLE_NUMBER
from simdb.cli import collector
from simdb.errors import UsageError
from simdb.exact.thresholds import MaximumDistance, Threshold
from simdb.files.texts import lines_of
from simdb.files.writing import promised_form
from simdb.metadata import accepting
from simdb.results import Key

if TYPE_CHECKING:
    from simdb.kinds import Kind


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups: typer sees each of their fields as an option.

    A field without an option's annotation is none and has its default: so a group can leave out
    an option of the group that it derives from. A group's ``HEADING`` is that of its options in
    the help.
    """
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    seen: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not (isinstance(group, type) and (issubclass(group, Struct) or is_dataclass(group))):
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
    """Return the annotation of an option with a heading of the help."""
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
        help="Stop with an error once more pairs than this were examined; a pair counts as often "
        "as it meets in a bucket.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Explain each answer: what both items share, what differs, and where they met in "
        "the index.",
    ),
]
IntegerKeys = Annotated[
    bool, typer.Option("--integer-keys", help="Read keys as whole numbers: 7, not '7'.")
]
Groups = Annotated[
    Literal["chain", "star"] | None,
    typer.Option(
        "--groups",
        help="Keep groups whose ids survive changes: chain connects all similar items; star "
        "groups the items within the threshold of a centre.",
    ),
]
GroupsAt = Annotated[
    list[str] | None,
    typer.Option(
        "--groups-at",
        metavar="BOUND",
        help="The similarity or distance of the groups, if not the collection's; may be repeated.",
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


class Bound(Struct, frozen=True):
    """What counts as similar: a least similarity or a largest distance, by the kind."""

    HEADING: ClassVar[str] = "What is similar"

    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="The lowest similarity that counts as similar: above 0 and at most 1, such as "
            "0.8 or 4/5.",
        ),
    ] = None
    max_distance: Annotated[
        str | None,
        typer.Option(
            "--max-distance",
            metavar="DISTANCE",
            help="The largest distance that counts as similar, for kinds that are compared by "
            "distance.",
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


class Question(Bound, frozen=True):
    """What is similar enough, and what may be missing in an answer."""

    guarantee: Annotated[
        Literal["auto", "exact", "probable"],
        typer.Option(
            "--guarantee",
            help="exact: nothing is missing; probable: the index may miss some; auto: exact where "
            "an exact index serves, or saves much time.",
        ),
    ] = "auto"
    exact: Annotated[bool, typer.Option("--exact", help="The same as --guarantee exact.")] = False
    min_recall: Annotated[
        float | None,
        typer.Option(
            "--min-recall",
            metavar="SHARE",
            help="Allow a threshold below the collection's if at least this recall is expected.",
        ),
    ] = None

    def __post_init__(self) -> None:
        Bound.__post_init__(self)
        if self.exact and self.guarantee == "probable":
            raise UsageError("--exact and --guarantee probable contradict each other")
        if self.min_recall is not None and (self.exact or self.guarantee == "exact"):
            raise UsageError("--min-recall is not for exact answers, in which nothing is missing")

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


class Where(Struct, frozen=True):
    """Which items a question is about."""

    HEADING: ClassVar[str] = "Which items"

    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="NAME=VALUE",
            help="Only items with this metadata. If a name is repeated, either value matches; "
            "different names must all match.",
        ),
    ] = None

    def __post_init__(self) -> None:
        filter_from("--where", self.where)

    def given(self) -> dict[str, Any]:
        """Return the arguments for a method of a collection."""
        return {"where": filter_from("--where", self.where)}


class Carrying(Where, frozen=True):
    """Which items a question is about, and whether the answer carries their metadata."""

    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also print the metadata of the items.")
    ] = False

    def given(self) -> dict[str, Any]:
        """Return the arguments for a method of a collection."""
        return {**Where.given(self), "metadata": self.metadata}


class MetadataFilter:
    """A filter on metadata: each name must have one of some values.

    It records which names occur, because a name that no item has is probably misspelled.
    """

    def __init__(self, option: str, wanted: Mapping[str, Sequence[Any]]) -> None:
        self._option = option
        self._accepts = accepting(wanted)
        self._unmet = set(wanted)
        self._was_asked = False

    def __call__(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether metadata match."""
        self._was_asked = True
        self._unmet -= (metadata or {}).keys()
        return self._accepts(metadata)

    def tell_unmet(self, note: Callable[[str], None]) -> None:
        """Report the names that no similar item had."""
        for name in sorted(self._unmet if self._was_asked else ()):
            note(f"{self._option}: no similar item has metadata named {name!r}")


def filter_from(option: str, given: list[str] | None) -> MetadataFilter | None:
    """Return the filter on metadata of some NAME=VALUE; None if there are none.

    A value matches as text, and as the JSON value that it spells.
    """
    if not given:
        return None
    found: dict[str, list[Any]] = {}
    for one in given:
        name, sign, text = one.partition("=")
        if not (name and sign):
            raise UsageError(f"{option} takes NAME=VALUE, such as source=web, not {one!r}")
        values = found.setdefault(name, [])
        values.append(text)
        with suppress(ValueError, RecursionError):
            values.append(json.loads(text))
    return MetadataFilter(option, found)


def tell_unmet(asked: Mapping[str, Any], note: Callable[[str], None]) -> None:
    """Report, after an answer, the names that no similar item had."""
    for name in ("where", "other_where"):
        if asked.get(name) is not None:
            asked[name].tell_unmet(note)


class Apart(Struct, frozen=True):
    """Pairs that never belong together."""

    HEADING: ClassVar[str] = "Which items"

    apart: Annotated[
        str | None,
        typer.Option(
            "--apart",
            metavar="FILE",
            help="A file of pairs of keys that never belong together: two keys per line "
            "separated by a tab, or .jsonl objects with left and right.",
        ),
    ] = None
    integer_keys: IntegerKeys = False

    def files(self) -> list[str]:
        """Return the names of the files that are read."""
        return [] if self.apart is None else [self.apart]

    def pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of the file; UsageError names a line that is none."""
        if self.apart is None:
            return []
        return pairs_of_keys(self.apart, integer_keys=self.integer_keys)


class ApartPairs(Apart, frozen=True):
    """Pairs that never belong together, where each item is in at most one pair."""

    apart: Annotated[
        str | None,
        typer.Option(
            "--apart",
            metavar="FILE",
            help="With --one-to-one: a file of pairs of keys that never belong together: two keys "
            "per line separated by a tab, or .jsonl objects with left and right.",
        ),
    ] = None

    def require(self, *, one_to_one: bool) -> None:
        """Raise UsageError if there are such pairs without --one-to-one."""
        if self.apart is not None and not one_to_one:
            raise UsageError("--apart needs --one-to-one")


def pairs_of_keys(name: str, *, integer_keys: bool) -> list[tuple[Key, Key]]:
    """Return the pairs of keys of a file; UsageError names a line that is none."""
    rows = _rows_of_keys(name, "left", "right", integer_keys=integer_keys)
    return [(left, right) for _, (left, right) in rows]


def _rows_of_keys(name: str, *fields: str, integer_keys: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield the fields of each line: separated by tabs, or of the objects of a .jsonl file.

    The first two are keys. Each comes with where it stands. UsageError names a line that does not
    have exactly these.
    """
    is_json = promised_form(name) == "jsonl"
    for number, line in lines_of(name):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        try:
            found = json.loads(line) if is_json else None
            row = line.split("\t") if found is None else [found[field] for field in fields]
        except (ValueError, TypeError, KeyError, RecursionError):
            row = []
        if len(row) != len(fields):
            form = "a JSON object with" if is_json else "tabs between"
            told = f", not {len(row)} fields" if len(row) > 1 else ""
            raise UsageError(f"{place}: expected {form} {', '.join(fields)}{told}")
        try:
            keys = [key_from(key, integer_keys=integer_keys) for key in row[:2]]
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
        yield place, keys + row[2:]


_LABELS = {"1": True, "0": False, "true": True, "false": False}


def labels_of(
    name: str, *, integer_keys: bool, forgets: bool = False
) -> list[tuple[Key, Key, bool | None]]:
    """Return the labels of a file: left key, right key, 1 or 0, or ? to forget one."""
    labelled = []
    rows = _rows_of_keys(name, "left", "right", "match", integer_keys=integer_keys)
    for place, (left, right, said) in rows:
        label = _LABELS.get(str(said).lower())
        if label is None and not (forgets and said == "?"):
            known = "1, 0, or ? to forget it" if forgets else "1 or 0"
            raise UsageError(f"{place}: a label is {known}, not {said!r}")
        labelled.append((left, right, label))
    return labelled


def rational(text: str, *, name: str = "threshold") -> Fraction:
    """Return a share between 0 and 1 exactly as it was written."""
    return Threshold.parse(text, name=name).fraction


def key_from(text: Key, *, integer_keys: bool) -> Key:
    """Return a key as it was written, in JSON too: text, or a whole number with --integer-keys."""
    if type(text) is int or (type(text) is str and not integer_keys):
        return text
    if not integer_keys:
        raise UsageError(f"a key is a text or a whole number, not {text!r}")
    if isinstance(text, str) and WHOLE_NUMBER.fullmatch(text):
        return int(text)
    raise UsageError(f"the key {text!r} is not a whole number in its usual spelling")
