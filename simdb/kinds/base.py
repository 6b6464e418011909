"""The contract of kinds: all that simdb asks of a kind of item.

A kind is a frozen class of settings. Its methods make what the rest works with: what encodes items
(``Items``), what compares them (``Measure``), and the locality-sensitive family of its probable
index with the curve by which that is planned. Nothing outside ``simdb.kinds`` asks which kind it
has before it.

A kind of sets derives from ``SymbolKind``: its items need only become sets of 64-bit symbols, and
minhash, exact indexes and Jaccard's similarity follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

import msgspec
import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.exact.thresholds import Bound
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS, Family, MinHash, SketchScheme
from simdb.lsh.planning import Plan, plan
from simdb.lsh.symbols import SymbolSets

MAXIMUM_ITEM_BYTES = 32 * 2**20
MOST_COUNTED = 2**53  # sums with lengths of items stay far from the end of 64 bits

# Of files; a user's kind may read some of them.
Format: TypeAlias = Literal["jsonl", "csv", "text", "lines", "baskets", "numpy"]

JSON_LINES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl"}
TOKENS: dict[str, Format] = {
    **JSON_LINES,
    ".csv": "csv",
    **dict.fromkeys((".txt", ".text", ".dat"), "lines"),
    ".basket": "baskets",
}
ROWS_OF_NUMBERS: dict[str, Format] = {**TOKENS, ".npy": "numpy", ".npz": "numpy"}

Stored: TypeAlias = bytes | memoryview
Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


# -- settings ------------------------------------------------------------------------------------


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Frozen settings, checked against their annotations, with a plain form to be stored.

    A value that is given is kept as it is; ``__post_init__`` of a subclass may put it into one
    form first.
    """

    def __post_init__(self) -> None:
        """Refuse values that are not of the annotated types.

        Raises:
            ConfigurationError: one is not; the message names the setting.
        """
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                raise _wrong(self._named(field.name), field, value, error) from None

    @classmethod
    def restored(cls, plain: Mapping[str, Any]) -> Self:
        """Return settings from their plain form, as JSON has it.

        Raises:
            ConfigurationError: one is missing, unknown or wrong; the message says where it stands.
        """
        known = {field.name: field for field in _fields(cls)}
        values = {}
        for name, value in plain.items():
            if name not in known:
                has = ", ".join(known) or "none"
                raise ConfigurationError(f"{cls.__name__} has no setting {name!r}; it has {has}")
            try:
                values[name] = msgspec.convert(value, known[name].type)
            except msgspec.ValidationError as error:
                raise _wrong(f"{cls.__name__}.{name}", known[name], value, error) from None
        missing = [name for name, field in known.items() if field.required and name not in values]
        if missing:
            raise ConfigurationError(f"{cls.__name__} needs {missing[0]}")
        return cls(**values)

    def _named(self, setting: str) -> str:
        """Return what messages call a setting."""
        return f"{type(self).__name__}.{setting}"

    def _set(self, setting: str, value: object) -> None:
        """Put a setting into its one form; for ``__post_init__`` only."""
        msgspec.structs.force_setattr(self, setting, value)

    def changed(self, **settings: Any) -> Self:
        """Return the same settings but for those given."""
        return msgspec.structs.replace(self, **settings)


@cache
def _fields(settings: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(settings)


def _wrong(
    setting: str, field: msgspec.structs.FieldInfo, value: object, error: Exception
) -> ConfigurationError:
    """Say what is wrong with a setting, or with a part of it, which the error names."""
    wanted = None if isinstance(value, Mapping | list | tuple) else _wanted(field.type)
    if wanted is None:
        return ConfigurationError(f"{setting}: {error}".replace("`", ""))
    return ConfigurationError(f"{setting} must be {wanted}, not {value!r}")


def _wanted(annotated: Any) -> str | None:
    """Return what values an annotation permits, in words; None where that takes too many."""
    alternatives = [annotated]
    if get_origin(annotated) in (Union, UnionType):
        alternatives = list(get_args(annotated))
        if any(_plain(each) is float for each in alternatives):
            alternatives = [each for each in alternatives if _plain(each) is not int]
    words = [_in_words(each) for each in alternatives]
    return None if None in words else " or ".join(filter(None, words))


def _plain(annotated: Any) -> Any:
    return get_args(annotated)[0] if get_origin(annotated) is Annotated else annotated


def _in_words(annotated: Any) -> str | None:
    plain = _plain(annotated)
    if get_origin(plain) is Literal:
        values = list(map(repr, get_args(plain)))
        return " or ".join(values) if len(values) < 3 else f"one of {', '.join(values)}"
    words = {bool: "True or False", NoneType: "None", str: "a string", int: "a whole number"}
    if plain in (int, float):
        limits = get_args(annotated)[1] if plain is not annotated else msgspec.Meta()
        return f"{words.get(plain, 'a number')}{_range_in_words(limits)}"
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        return plain.__name__
    return words.get(plain)


def _range_in_words(limits: msgspec.Meta) -> str:
    if limits.ge is not None and limits.le is not None:
        return f" from {limits.ge:,} to {limits.le:,}"
    bounds = (("of at least", limits.ge), ("above", limits.gt), ("at most", limits.le))
    shown = " and ".join(f"{words} {limit:,}" for words, limit in bounds if limit is not None)
    return f" {shown}" if shown else ""


# -- items and their measure ---------------------------------------------------------------------


class Compared(NamedTuple):
    """Values of a measure, each numerator / denominator: two arrays of one length.

    int64 wherever the measure is rational, so that comparing with a threshold is exact; else
    float64. 0 / 0 stands for 0: nothing is similar to an empty item.
    """

    numerators: npt.NDArray[Any]
    denominators: npt.NDArray[Any]

    def values(self) -> Floats:
        """Return the quotients as float64, correctly rounded; 0 / 0 is 0."""
        result = np.zeros(self.numerators.shape, np.float64)
        np.divide(self.numerators, self.denominators, out=result, where=self.denominators != 0)
        return result


class Items(ABC):
    """The items of one collection, under its settings and its secret.

    The stored form is canonical: equal items are equal bytes.

    Attributes:
        width: bytes of every item in stored form; 0 when it varies.
        expands: a few bytes may stand for many features, as ``weights`` tells.
    """

    width: int = 0
    expands: bool = False

    @abstractmethod
    def encode(self, item: Any) -> bytes:
        """Return the stored form of an item; equal items are equal bytes.

        Raises:
            BadItemError: it is no item of this kind, or too large.
        """

    @abstractmethod
    def decode(self, data: Stored) -> Any:
        """Return the item of its stored form.

        Raises:
            CorruptionError: it is no such form.
        """

    @abstractmethod
    def features(self, items: Sequence[Stored]) -> Any:
        """Return what items in stored form are hashed and compared by, as one batch with a length.

        Raises:
            CorruptionError: one of them is no stored form.
        """

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        """Return ``encode`` of many items."""
        return list(map(self.encode, items))

    def features_of_rows(self, rows: npt.NDArray[np.uint8]) -> Any:
        """Return the features of items of one width, which lie in the rows of uint8 (n, width)."""
        return self.features([row.tobytes() for row in rows])

    def weights(self, items: Sequence[Stored]) -> Integers:
        """Return an eighth of the bytes that the features of each item take, by which batches end.

        A few bytes may stand for a million symbols; mostly an item of so many bytes has so many.
        """
        return np.fromiter(map(len, items), np.int64, len(items))

    def symbols(self, items: Sequence[Stored]) -> SymbolSets:
        """Return the symbols of items in stored form, where the kind has any; repeats count once.

        They are the features, unless items are compared by something quicker.
        """
        symbols: SymbolSets = self.features(items)
        return symbols


Finder: TypeAlias = Callable[[Any], tuple[Integers, Compared]]


class Measure(ABC):
    """How items of a kind are compared: exactly, in batches of their features."""

    @abstractmethod
    def compare_probe(self, probe: Any, features: Any) -> Compared:
        """Compare the one item of ``probe`` with many."""

    @abstractmethod
    def compare_pairs(self, features: Any, left: Integers, right: Integers) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""

    def arranged(self, features: Any) -> Any:
        """Return features in whatever form is the quickest for ``finder`` with many probes."""
        return features

    def finder(self, probe: Any, bound: Bound) -> Finder:
        """Return what finds, among the features of many items, those within a bound of a probe.

        Returns:
            a function of features that returns places, int64 rising, and how these compare.
        """

        def find(features: Any) -> tuple[Integers, Compared]:
            compared = self.compare_probe(probe, features)
            places = np.flatnonzero(bound.meets_many(compared.numerators, compared.denominators))
            return places, Compared(compared.numerators[places], compared.denominators[places])

        return find


# -- kinds ---------------------------------------------------------------------------------------


class Kind(Settings, frozen=True, tag_field="kind", tag=str.lower):
    """What the items of a collection are, how they are compared, and how they are indexed.

    The fields of a subclass are its settings, stored with a collection. Its name is that of the
    class in small letters, or what ``tag=`` of the class statement says.

    Attributes:
        plural: what messages call several items.
        is_distance: items are compared by a distance, not by a similarity.
        has_symbols: items are sets of symbols, which an exact index may hold.
        is_slow_to_read: symbols are computed anew from items, at more cost than reading postings.
        slice_bytes: of items whose features are made and signed in one go; they then stay in the
            cache.
        in_the_name: the settings that may follow the name on the command line, in their order:
            ``bits:1024:tanimoto``.
        suffixes: formats of files that items are read from, by the ends of their names.
        of_elements: items are collections of integers or of strings, cut from text into tokens.
        of_counts: such a collection may be an object of elements and counts.
        json_form: what stands for an item in JSON, for messages.
        probe_option: the option of ``simdb search`` that gives an item.
        probe_format: how ``simdb search --input`` reads a file; None goes by its name.
    """

    plural: ClassVar[str] = "items"
    is_slow_to_read: ClassVar[bool] = False
    slice_bytes: ClassVar[int] = 131_072
    in_the_name: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[Mapping[str, Format]] = JSON_LINES
    of_elements: ClassVar[bool] = False
    of_counts: ClassVar[bool] = False
    json_form: ClassVar[str] = "an item"
    probe_option: ClassVar[str] = "--item"
    probe_format: ClassVar[Format | None] = None

    # -- what a kind must have -------------------------------------------------------------------

    def make_items(self, secret: bytes) -> Items:
        """Return what encodes items and makes features of them, under a collection's secret."""
        raise NotImplementedError

    def make_measure(self) -> Measure:
        """Return how items are compared, on the scale of ``inner_similarity``."""
        raise NotImplementedError

    def make_curve(self, bound: Fraction) -> Curve:
        """Return the collision probability of the family that serves a similarity or distance."""
        raise NotImplementedError

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        """Return the locality-sensitive family of the probable index.

        Args:
            bound: the similarity or distance that it is to serve.
            bands, rows: what ``plan`` chose.
            sketch: scheme of minhash sketches.
            secret: of the collection; everything random follows from it.
        """
        raise NotImplementedError

    # -- what a kind may have --------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the kind, as it is stored and as the command line calls it."""
        return name_of(type(self))

    @property
    def is_distance(self) -> bool:
        """Whether items are compared by a distance, not by a similarity."""
        return False

    @property
    def largest_distance(self) -> Fraction:
        """A distance that no two items exceed, where they are compared by one."""
        return Fraction(2**160)

    @property
    def has_symbols(self) -> bool:
        """Whether items are sets of symbols, which an exact index may hold."""
        return False

    @property
    def signs_what_it_compares(self) -> bool:
        """Whether what items are signed by are the features that they are compared by."""
        return True

    @property
    def symbols_a_byte(self) -> float | None:
        """Symbols that a byte of an ordinary item gives; None where nothing is known of items."""
        return None

    def plan(self, bound: Fraction, recall: Fraction, bands: int | None, rows: int | None) -> Plan:
        """Choose bands and rows; see ``lsh.planning.plan``.

        Raises:
            ConfigurationError: no plan reaches the recall, or what is given is out of range.
        """
        return plan(bound, recall, bands, rows, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        """Whether ``plan`` may have given bands and rows, however little is indexed yet."""
        return bands > 0 and rows > 0 and bands * rows <= MAXIMUM_FUNCTIONS

    def expected_keys(self, bands: int) -> int:
        """Return about how many bucket keys an item has, by which merges are paced."""
        return bands

    def index_in_words(self, bands: int, rows: int) -> str:
        """Return what a probable index is made of."""
        return f"{bands} bands of {rows} rows"

    def stores_alike(self, other: Self) -> bool:
        """Whether items of other settings of the kind have the same stored form."""
        return True

    def inner_similarity(self, similarity: Fraction) -> Fraction:
        """Return the similarity of ``measure`` that one the caller knows amounts to.

        Raises:
            ConfigurationError: no two items are so similar.
        """
        return similarity

    def outer_similarity(self, similarity: Fraction) -> Fraction:
        """Return a similarity of ``measure`` as the caller knows it."""
        return similarity

    def outer_values(self, values: Floats) -> Floats:
        """Return similarities of ``measure`` as the caller knows them."""
        return values

    def outer_curve(self, curve: Curve) -> Curve:
        """Return a curve over the similarities that the caller knows."""
        return curve

    def candidate_stats(
        self, family: Family, signatures: Callable[[], Iterator[npt.NDArray[np.uint16]]], live: int
    ) -> dict[str, Any]:
        """Return what proposes candidates, as plain values; nothing where bands do.

        Args:
            family: of the probable index.
            signatures: what reads the signatures of all live items, some rows at a time.
            live: how many items there are.
        """
        return {}

    def field_differences(self, field: str) -> Callable[[Sequence[bytes], Sequence[bytes]], Floats]:
        """Return what computes the differences of items in a field that is not scored.

        Raises:
            ConfigurationError: items have no fields, or not such a one.
        """
        raise ConfigurationError(
            f"only records have fields; of {self} give a function of two items, not {field!r}"
        )

    # -- items on the command line and in files --------------------------------------------------

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of files that items are read from."""
        return tuple(dict.fromkeys(self.suffixes.values()))

    @property
    def field_names(self) -> tuple[str, ...] | None:
        """The fields of a row that are an item together; None where one field is an item."""
        return None

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        """Return the item that a value of JSON stands for, ``NotImplemented`` for none.

        Args:
            value: as ``json`` reads it.
            several: several fields of a row are one item, and this is one of them.
        """
        return value

    def item_of_tokens(self, tokens: list[str]) -> Any:
        """Return the item that words of a line spell; for formats of tokens only.

        Raises:
            BadItemError: they spell none.
        """
        raise NotImplementedError

    def item_of_text(self, text: str) -> Any:
        """Return the item that a file or a field of CSV holds; for formats of texts only.

        Raises:
            BadItemError: it holds none.
        """
        raise NotImplementedError

    def item_of_row(self, row: npt.NDArray[Any]) -> Any:
        """Return the item in a row of an array."""
        return np.array(row)

    def joined(self, parts: list[Any]) -> Any:
        """Return what several fields of a row are together.

        Raises:
            BadItemError: they cannot be one item.
        """
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(part, list) for part in parts):
            return [element for part in parts for element in part]
        raise BadItemError(f"several fields cannot be one {self.name}")

    @classmethod
    def needed(cls) -> tuple[str, ...]:
        """Return the settings without a default."""
        return tuple(field.name for field in _fields(cls) if field.required)

    @classmethod
    def setting_from(cls, setting: str, text: str) -> Any:
        """Return the value of a setting that a text spells.

        Raises:
            ConfigurationError: it spells none.
        """
        annotated = next(field.type for field in _fields(cls) if field.name == setting)
        try:
            return msgspec.convert(text, annotated, strict=False)
        except msgspec.ValidationError:
            raise ConfigurationError(
                f"the {setting} must be {_wanted(annotated)}, not {text!r}"
            ) from None

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings as a user writes them in JSON, in the form that is stored."""
        return dict(described)

    def plain_item(self, item: Any) -> Any:
        """Return an item as JSON can hold it, in a form that ``add`` reads back."""
        return item

    def shown_item(self, item: Any) -> str:
        """Return an item as text for people."""
        return str(item)

    def describe(self) -> dict[str, Any]:
        """Return the name and the settings as plain values, as they are stored."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        return described


def name_of(kind: type[Kind]) -> str:
    """Return the name of a kind."""
    return str(kind.__struct_config__.tag)


class SymbolKind(Kind, frozen=True):
    """A kind of sets of symbols, compared by Jaccard similarity (MMDS 3.1.1).

    A subclass need only have ``make_items``, whose features are ``SymbolSets``.
    """

    @property
    def has_symbols(self) -> bool:
        """Whether items are sets of symbols: they are."""
        return True

    def make_measure(self) -> Measure:
        """Return Jaccard similarity."""
        return SetMeasure()

    def make_curve(self, bound: Fraction) -> Curve:
        """Return that of minhash: the similarity itself."""
        return JaccardCurve()

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        """Return minhash."""
        return MinHash(sketch, bands, rows, secret)


class SetMeasure(Measure):
    """Compare sets by the symbols that they share; repeats of a symbol count once.

    The values are overlap / union in whole numbers; two empty sets are 0 / 0, which counts as 0.
    """

    def compare_probe(self, probe: SymbolSets, features: SymbolSets) -> Compared:
        """Compare one set, all of ``probe``, with many."""
        overlaps, sizes, probe_size = kernels.overlaps.probe_overlaps(
            probe.values, features.values, features.offsets
        )
        return Compared(overlaps, sizes + probe_size - overlaps)

    def compare_pairs(self, features: SymbolSets, left: Integers, right: Integers) -> Compared:
        """Compare the sets at positions ``left[i]`` and ``right[i]``.

        Any order is correct; runs of pairs with equal ``left`` are the fastest.
        """
        overlaps, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(
            features.values, features.offsets, left, right
        )
        return Compared(overlaps, left_sizes + right_sizes - overlaps)


def shortened(text: str, longest: int = 60) -> str:
    """Return text quoted for a message, cut after ``longest`` characters."""
    return ascii(text) if len(text) <= longest else ascii(text[:longest]) + " …"


# -- stored forms of one width -------------------------------------------------------------------


def rows_of(items: Sequence[Stored], width: int, what: str) -> npt.NDArray[np.uint8]:
    """Return a copy of stored forms of one width, uint8 (n, width).

    Raises:
        CorruptionError: one of them, which the message calls a stored ``what``, has another width.
    """
    joined = bytearray().join(items)  # and not bytes, which would be a type more to compile for
    require_sound(np.fromiter(map(len, items), np.int64, len(items)) == width, what)
    return np.frombuffer(joined, np.uint8).reshape(len(items), width)


def require_sound(sound: npt.NDArray[np.bool_], what: str) -> None:
    """Raise unless all stored forms of a batch are sound.

    Raises:
        CorruptionError: one of them is not; the message says which one is the first.
    """
    if not sound.all():
        raise CorruptionError(f"a stored {what}, {sound.argmin()} of its batch, cannot be read")
