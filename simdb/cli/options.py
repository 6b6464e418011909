"""Arguments and options that several commands share, and what their text means."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, cast, overload

import typer

from simdb.config import CharacterShingles, Shingles, StopWordShingles, Text, WordShingles
from simdb.errors import ConfigurationError, UsageError
from simdb.exact import thresholds
from simdb.results import Key

StorePath = Annotated[str, typer.Argument(metavar="STORE", help="The store's file.")]
CollectionName = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The collection in the store.")
]
OptionalCollectionName = Annotated[
    str | None, typer.Argument(metavar="COLLECTION", help="Only this collection.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs on standard output.")]
ThresholdText = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="SIMILARITY",
        help="How similar is similar: above 0, at most 1, as 0.8 or 4/5.",
    ),
]
KindText = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="text|set|bag|bits|vector|fingerprint|record",
        help="What the items are (text), also with settings: bag:maximum, bits:1024:tanimoto, "
        "vector:128:euclidean.",
    ),
]
SettingsText = Annotated[
    str | None,
    typer.Option(
        "--settings", metavar="FILE", help="Settings of the kind, as JSON: a file, or {...} itself."
    ),
]
MinRecall = Annotated[
    float | None,
    typer.Option(
        "--min-recall",
        metavar="SHARE",
        help="Below the collection's threshold: answer when at least this recall is expected.",
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        min=1,
        metavar="PAIRS",
        help="Look at no more than so many pairs, else end with an error.",
    ),
]
Exact = Annotated[bool, typer.Option("--exact", help="The same as --guarantee exact.")]
ExactFloor = Annotated[
    str | None,
    typer.Option(
        "--exact-floor",
        metavar="SIMILARITY",
        help="Also an exact index, which serves thresholds from this one on.",
    ),
]
GuaranteeText = Annotated[
    str, typer.Option("--guarantee", metavar="auto|exact|probable", help="What may be missing.")
]
IntegerKeys = Annotated[
    bool, typer.Option("--integer-keys", help="Keys that are text are whole numbers: 7 is not '7'.")
]
TextFields = Annotated[
    list[str] | None,
    typer.Option(
        "--text-field",
        "--set-field",
        "--item-field",
        metavar="FIELD",
        help="The field of the item (named as its kind); several are joined.",
    ),
]
IdField = Annotated[
    str | None,
    typer.Option(
        "--id-field",
        metavar="FIELD",
        help="The field, or in lines and baskets the place from 1, of the key; else the line.",
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="jsonl|csv|text|lines|baskets|numpy",
        help="Where the input's name does not tell it.",
    ),
]
ElementsText = Annotated[
    str | None,
    typer.Option(
        "--elements",
        metavar="auto|integers|strings",
        help="What the elements of sets and bags in text are; auto asks the collection, then the "
        "first.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="TEXT", help="Between elements or numbers, instead of white space."
    ),
]
Ratings = Annotated[
    str | None,
    typer.Option(
        "--ratings",
        metavar="liked:LEAST|liked-hated:LEAST,MOST|stars",
        help="Rows are ratings: --id-field is who (or what) becomes a set or bag, the item field "
        "what was rated (or who did).",
    ),
]
RatingField = Annotated[
    str | None,
    typer.Option("--rating-field", metavar="FIELD", help="The field of the rating (rating)."),
]
Pattern = Annotated[
    str | None,
    typer.Option("--pattern", metavar="GLOB", help="Of a folder, only files named so: '*.txt'."),
]
OnBad = Annotated[
    str,
    typer.Option("--on-bad", metavar="error|skip", help="A row that cannot be read or stored."),
]
SyncMode = Annotated[
    str,
    typer.Option(
        "--sync",
        metavar="full|batch",
        help="full: every commit survives a power cut; batch: faster, the last may not.",
    ),
]


def _setting(name: str, metavar: str | None, what: str, default: str) -> tuple[Any, Any]:
    """Return an option for a new collection, and the same one for a collection there is."""
    return (
        typer.Option(name, metavar=metavar, help=f"{what} ({default})."),
        typer.Option(name, metavar=metavar, help=f"{what} (unchanged)."),
    )


_SHINGLES = _setting(
    "--shingles", "character:N|word:N|stop-word:N", "What texts are compared by", "character:9"
)
_LOWERCASE = _setting(
    "--lowercase/--keep-case", None, "Compare without regard to case", "--keep-case"
)
_WHITE_SPACE = _setting("--white-space", "collapse|keep", "Runs of white space", "collapse")
_UNICODE = _setting("--unicode", "NFC|NFD|NFKC|NFKD|keep", "Normalise characters first", "NFC")
_RECALL = _setting("--recall", "SHARE", "Share of pairs at the threshold to find", "0.99")
_BANDS = _setting("--bands", None, "Bands of the index", "planned")
_ROWS = _setting("--rows", None, "Rows a band", "planned")
_SKETCH = _setting("--sketch", "fast|classical", "How signatures are made", "fast")
_SEED = _setting("--seed", None, "Of the hash functions", "random")

ShinglesText = Annotated[str | None, _SHINGLES[0]]
Lowercase = Annotated[bool | None, _LOWERCASE[0]]
WhiteSpace = Annotated[str | None, _WHITE_SPACE[0]]
UnicodeForm = Annotated[str | None, _UNICODE[0]]
Recall = Annotated[str | None, _RECALL[0]]
Bands = Annotated[int | None, _BANDS[0]]
Rows = Annotated[int | None, _ROWS[0]]
Sketch = Annotated[str | None, _SKETCH[0]]
Seed = Annotated[int | None, _SEED[0]]

OtherShinglesText = Annotated[str | None, _SHINGLES[1]]
OtherLowercase = Annotated[bool | None, _LOWERCASE[1]]
OtherWhiteSpace = Annotated[str | None, _WHITE_SPACE[1]]
OtherUnicodeForm = Annotated[str | None, _UNICODE[1]]
OtherRecall = Annotated[str | None, _RECALL[1]]
OtherSketch = Annotated[str | None, _SKETCH[1]]
OtherSeed = Annotated[int | None, _SEED[1]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of ``simdb`` itself, before the command; ``--quiet`` may also stand after it."""

    threads: int | None = None
    memory: int = 2**30
    busy_timeout: float = 10.0
    quiet: bool = False
    mode: int | None = None
    untrusted: bool = False


def settings_of(context: typer.Context) -> Settings:
    """Return the options before the command."""
    settings = context.obj
    return settings if isinstance(settings, Settings) else Settings()


def _quiet(context: typer.Context, given: bool) -> bool:
    return given or settings_of(context).quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_quiet, help="No progress and no summary."),
]


def one_of(option: str, value: str, *choices: str) -> Any:
    """Return a value that is among the choices of an option, else raise UsageError."""
    if value not in choices:
        raise UsageError(f"{option} must be {' or '.join(choices)}, not {value!r}")
    return value


def guarantee_of(guarantee: str, *, exact: bool) -> Any:
    """Return what --guarantee and --exact ask for together."""
    asked = one_of("--guarantee", guarantee, "auto", "exact", "probable")
    if exact and asked == "probable":
        raise UsageError("--exact and --guarantee probable contradict each other")
    return "exact" if exact else asked


@overload
def rational(text: str, *, name: str = "threshold") -> Fraction: ...
@overload
def rational(text: None, *, name: str = "threshold") -> None: ...
@overload
def rational(text: str | None, *, name: str = "threshold") -> Fraction | None: ...
def rational(text: str | None, *, name: str = "threshold") -> Fraction | None:
    """Return a share between 0 and 1 exactly as it was written, None for None."""
    return None if text is None else thresholds.Threshold.parse(text, name=name).fraction


def mode_from(text: str | None) -> int | None:
    """Return the permissions that ``600``, ``0600`` or ``0o600`` spells, None for None."""
    if text is None:
        return None
    if re.fullmatch("(0o?)?[0-7]{3}", text, re.ASCII) is None:
        raise UsageError(f"--mode must be three octal digits, as 600, not {text!r}")
    mode = int(text, 8)
    if mode & 0o600 != 0o600:
        raise UsageError(f"--mode must let the owner read and write, as 600 does, not {text}")
    return mode


def key_from(text: str, *, integer_keys: bool) -> Key:
    """Return a key of the command line: text, or a whole number where those were asked for."""
    if not integer_keys:
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the key {text!r} is not a whole number") from None


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
    return replace(base, **{name: value for name, value in changes.items() if value is not None})


def sketch_scheme(sketch: str | None) -> Literal["fast", "classical"] | None:
    """Return the scheme of a sketch, None for None."""
    if sketch is None:
        return None
    return cast('Literal["fast", "classical"]', one_of("--sketch", sketch, "fast", "classical"))
