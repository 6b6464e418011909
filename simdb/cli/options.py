"""Options that several commands share, alone and in groups, and what their text means.

A group is a dataclass: each of its fields is an option of every command that takes it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, get_origin, get_type_hints, overload

import typer

from simdb.cli.stores import settings_of
from simdb.errors import UsageError
from simdb.exact.thresholds import MaximumDistance, Threshold
from simdb.kinds import Kind
from simdb.results import Key


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses: typer sees each of their fields as an option.

    A field without an option's annotation is none and has its default: so a group can leave out
    an option of the group that it derives from.
    """
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    seen: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not (isinstance(group, type) and is_dataclass(group)):
            seen.append(parameter)
            continue
        hints = get_type_hints(group, include_extras=True)
        options = [field for field in fields(group) if get_origin(hints[field.name]) is Annotated]
        groups[parameter.name] = (group, [option.name for option in options])
        for option in options:
            default = parameter.empty if option.default is MISSING else option.default
            seen.append(
                inspect.Parameter(
                    option.name,
                    parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=hints[option.name],
                )
            )

    @functools.wraps(command)
    def with_groups(**given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{option: given.pop(option) for option in options})
        command(**given)

    # typer reads both.
    with_groups.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in seen}
    return with_groups


StorePath = Annotated[str, typer.Argument(metavar="STORE", help="The store's file.")]
CollectionName = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The collection in the store.")
]
OptionalCollectionName = Annotated[
    str | None, typer.Argument(metavar="COLLECTION", help="Only this collection.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs on standard output.")]
Bands = Annotated[int | None, typer.Option("--bands", help="Bands of the index (planned).")]
Rows = Annotated[int | None, typer.Option("--rows", help="Rows a band (planned).")]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        min=1,
        metavar="PAIRS",
        help="Look at no more than so many pairs, else end with an error.",
    ),
]
ExactFloor = Annotated[
    str | None,
    typer.Option(
        "--exact-floor",
        metavar="SIMILARITY",
        help="Also an exact index, which serves thresholds from this one on.",
    ),
]
IntegerKeys = Annotated[
    bool, typer.Option("--integer-keys", help="Keys that are text are whole numbers: 7 is not '7'.")
]
Recall = Annotated[
    str | None,
    typer.Option(
        "--recall", metavar="SHARE", help="Share of pairs at the threshold to find (0.99)."
    ),
]
SyncMode = Annotated[
    Literal["full", "batch"],
    typer.Option(
        "--sync", help="full: every commit survives a power cut; batch: faster, the last may not."
    ),
]


def _quiet(context: typer.Context, given: bool) -> bool:
    return given or settings_of(context).quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_quiet, help="No progress and no summary."),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """How similar is similar, or how far is far: one of the two, by the kind."""

    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="How similar is similar: above 0, at most 1, as 0.8 or 4/5.",
        ),
    ] = None
    max_distance: Annotated[
        str | None,
        typer.Option(
            "--max-distance",
            metavar="DISTANCE",
            help="How far similar items may be apart, where they are compared by distance.",
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
        """Return what was given, for a method of a collection of this kind.

        Raises:
            UsageError: items of the kind are compared by the other.
        """
        if self.threshold is not None and kind.is_distance:
            raise UsageError(
                f"these {kind.plural} are compared by distance: give --max-distance, not "
                "--threshold"
            )
        if self.max_distance is not None and not kind.is_distance:
            raise UsageError(
                f"these {kind.plural} are compared by similarity: give --threshold, not "
                "--max-distance"
            )
        return self.given()


@dataclass(frozen=True, slots=True)
class Question:
    """What may be missing in an answer."""

    guarantee: Annotated[
        Literal["auto", "exact", "probable"],
        typer.Option("--guarantee", help="What may be missing."),
    ] = "auto"
    exact: Annotated[bool, typer.Option("--exact", help="The same as --guarantee exact.")] = False
    min_recall: Annotated[
        float | None,
        typer.Option(
            "--min-recall",
            metavar="SHARE",
            help="Below the collection's threshold: answer when at least this recall is expected.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.exact and self.guarantee == "probable":
            raise UsageError("--exact and --guarantee probable contradict each other")

    def asked(self) -> dict[str, Any]:
        """Return it under the names that it has in the Python API."""
        guarantee = "exact" if self.exact else self.guarantee
        return {"guarantee": guarantee, "min_recall": self.min_recall}


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The index of a new collection, where it is not planned."""

    bands: Bands = None
    rows: Rows = None
    sketch: Annotated[
        Literal["fast", "classical"] | None,
        typer.Option("--sketch", help="How signatures are made (fast)."),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Of the hash functions (random).")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class OtherIndexOptions(IndexOptions):
    """The index of a collection that has one; what is not named stays."""

    sketch: Annotated[
        Literal["fast", "classical"] | None,
        typer.Option("--sketch", help="How signatures are made (unchanged)."),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the hash functions (unchanged).")
    ] = None


@overload
def rational(text: str, *, name: str = "threshold") -> Fraction: ...
@overload
def rational(text: None, *, name: str = "threshold") -> None: ...
@overload
def rational(text: str | None, *, name: str = "threshold") -> Fraction | None: ...
def rational(text: str | None, *, name: str = "threshold") -> Fraction | None:
    """Return a share between 0 and 1 exactly as it was written, None for None."""
    return None if text is None else Threshold.parse(text, name=name).fraction


def key_from(text: str, *, integer_keys: bool) -> Key:
    """Return a key of the command line: text, or a whole number where those were asked for."""
    if not integer_keys:
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the key {text!r} is not a whole number") from None
