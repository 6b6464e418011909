"""The contract of kinds: all that simdb asks of a kind of item.

A kind is a frozen class of settings. Its methods make what the rest works with: what encodes items
(``Items``), what compares them (``Measure``), and the locality-sensitive family of its probable
index with the curve by which that is planned. Nothing outside ``simdb.kinds`` asks which kind it
has before it.

A kind of sets derives from ``SymbolKind``: its items need only become sets of 64-bit symbols, and
minhash, exact indexes and Jaccard's similarity follow.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from fractions import Fraction
from functools import cache, lru_cache, wraps
from itertools import chain
from operator import index, is_
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, inspect

from simdb import kernels
from simdb.arguments import is_whole, short
from simdb.arrays import Bools, Float64s, Int64s, UInt8s, UInt16s, UInt64s
from simdb.errors import BadItemError, ConfigurationError, CorruptionError, Remedy, WrongTypeError
from simdb.evidence import Evidence, Label, facets_of_labels
from simdb.exact.joins import ALONE, Workers
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold, ThresholdLike
from simdb.lsh.amplification import Construction
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS, Family, MinHash, SketchScheme, SymbolSets
from simdb.lsh.planning import USUAL_RECALL, Plan, PlanRequest, plan, wrong_recall
from simdb.ragged import ByteStrings, Column, Ragged, sizes_of
from simdb.work import Work

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from simdb.exact.pigeonhole import Near

MAXIMUM_ITEM_BYTES = 32 * 2**20
DEFAULT_THRESHOLD = Fraction(4, 5)
MOST_COUNTED = 2**53  # sums with lengths of items stay far from the end of 64 bits

# Of files; a user's kind may read some of them.
Format: TypeAlias = Literal[
    "jsonl", "json", "parquet", "arrow", "csv", "text", "lines", "baskets", "numpy"
]

OBJECTS: dict[str, Format] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".json": "json",
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
TOKENS: dict[str, Format] = {
    **OBJECTS,
    ".csv": "csv",
    **dict.fromkeys((".txt", ".text", ".dat"), "lines"),
    ".basket": "baskets",
}
ROWS_OF_NUMBERS: dict[str, Format] = {**TOKENS, ".npy": "numpy", ".npz": "numpy"}

Stored: TypeAlias = bytes | memoryview
# Made again and again of what is stored.
_threshold, _maximum_distance = lru_cache(256)(Threshold), lru_cache(256)(MaximumDistance)
# Of pairs of stored items in one field.
Differences: TypeAlias = Callable[[Sequence[bytes], Sequence[bytes]], Float64s]


# -- settings ------------------------------------------------------------------------------------


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Frozen settings, checked against their annotations, with a plain form to be stored.

    A value that is given is kept as it is, but for texts and numbers of other classes, which
    become Python's own; ``__post_init__`` of a subclass may put it into one form first.
    """

    def __post_init__(self) -> None:
        """Refuse values that are not of the annotated types; the message names the setting."""
        for field in _fields(type(self)):
            setting, given = self._named(field.name), getattr(self, field.name)
            plain = _plain(setting, given)
            if plain is not given:
                self._set(field.name, plain)
            _checked(setting, field, plain)

    @classmethod
    def restored(cls, plain: Mapping[str, Any]) -> Self:
        """Return settings from plain values; ConfigurationError says which is wrong, and where."""
        known = {field.name: field for field in _fields(cls)}
        values = {}
        for name, value in plain.items():
            if name not in known:
                has = ", ".join(known) or "none"
                raise ConfigurationError(f"{cls.__name__} has no setting {name!r}; it has {has}")
            setting = f"{cls.__name__}.{name}"
            values[name] = _checked(setting, known[name], _plain(setting, value))
        missing = [name for name, field in known.items() if field.required and name not in values]
        if missing:
            raise ConfigurationError(f"{cls.__name__} needs {missing[0]}")
        return cls(**values)

    def _named(self, setting: str) -> str:
        """The words of messages for a setting."""
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


def _plain(setting: str, value: Any) -> Any:
    """Return a value whose texts and numbers are Python's own, the same if they all are so.

    ConfigurationError: a text holds half a surrogate pair, which cannot be stored.
    """
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                problem = f"{setting} has {short(value)}, which holds half a surrogate pair"
                raise ConfigurationError(problem) from None
        return value if type(value) is str else str.__str__(value)
    if is_whole(value):
        return value if type(value) is int else index(value)
    if isinstance(value, float):
        return value if type(value) is float else float(value)
    if type(value) in (list, tuple):
        parts = [_plain(setting, part) for part in value]
        return value if all(map(is_, parts, value)) else type(value)(parts)
    if isinstance(value, Mapping):
        plain = {_plain(setting, name): _plain(setting, part) for name, part in value.items()}
        same = all(map(is_, chain(plain, plain.values()), chain(value, value.values())))
        return value if same else plain
    return value


def _checked(
    setting: str, field: msgspec.structs.FieldInfo, value: object, *, spelled: bool = False
) -> Any:
    """Return a value as its field is annotated, ConfigurationError if it, or a part, is wrong."""
    try:
        return msgspec.convert(value, field.type, strict=not spelled)
    except msgspec.ValidationError as error:
        is_large = isinstance(value, Mapping | list | tuple)
        wanted = None if is_large else _in_words(inspect.type_info(field.type))
        if wanted is None:
            raise ConfigurationError(f"{setting}: {error}".replace("`", "")) from None
        raise ConfigurationError(f"{setting} must be {wanted}, not {short(value)}") from None


def _in_words(permitted: inspect.Type) -> str | None:
    """The permitted values in words; None where that takes too many."""
    if isinstance(permitted, inspect.UnionType):
        types = permitted.types
        if any(isinstance(one, inspect.FloatType) for one in types):  # which whole numbers are, too
            types = tuple(one for one in types if not isinstance(one, inspect.IntType))
        alternatives = [_in_words(one) for one in types]
        return None if None in alternatives else " or ".join(filter(None, alternatives))
    if isinstance(permitted, inspect.LiteralType):
        values = list(map(repr, permitted.values))
        return " or ".join(values) if len(values) < 3 else f"one of {', '.join(values)}"
    if isinstance(permitted, inspect.IntType | inspect.FloatType):
        noun = "a whole number" if isinstance(permitted, inspect.IntType) else "a number"
        low, above, high = permitted.ge, permitted.gt, permitted.le
        if low is not None and high is not None:
            return f"{noun} from {low:,} to {high:,}"
        limits = (("of at least", low), ("above", above), ("at most", high))
        shown = [f"{words} {limit:,}" for words, limit in limits if limit is not None]
        return " ".join((noun, " and ".join(shown))).rstrip()
    if isinstance(permitted, inspect.StructType):
        return permitted.cls.__name__
    words = {
        inspect.BoolType: "True or False",
        inspect.NoneType: "None",
        inspect.StrType: "a string",
    }
    return words.get(type(permitted))


# -- items and their measure ---------------------------------------------------------------------


class Compared(NamedTuple):
    """Values of a measure, each numerator / denominator: two arrays of one length.

    int64 wherever the measure is rational, so that comparing with a threshold is exact; else
    float64. 0 / 0 stands for 0: nothing is similar to an empty item.
    """

    numerators: npt.NDArray[Any]
    denominators: npt.NDArray[Any]

    def values(self) -> Float64s:
        """Return the quotients as float64, correctly rounded; 0 / 0 is 0."""
        result = np.zeros(self.numerators.shape, np.float64)
        np.divide(self.numerators, self.denominators, out=result, where=self.denominators != 0)
        return result

    @classmethod
    def whole(cls, values: npt.NDArray[Any]) -> Compared:
        """The values themselves, each over 1."""
        ones = np.empty_like(values)
        ones.fill(1)
        return Whole(values, ones)

    @classmethod
    def together(cls, parts: Sequence[Compared]) -> Compared:
        """The values of several parts, or of none."""
        if len(parts) == 1:
            return parts[0]
        nothing = cls(np.empty(0, np.int64), np.empty(0, np.int64))
        return cls(*map(np.concatenate, zip(*(parts or [nothing]), strict=True)))


class Whole(Compared):
    """Values each of which is over 1."""

    def values(self) -> Float64s:
        """Return the numerators as float64."""
        return self.numerators.astype(np.float64)


class Items(ABC):
    """The items of one collection, under its settings and its secret.

    The stored form is canonical: equal items are equal bytes.

    Attributes:
        width: bytes of every item in stored form; 0 when it varies.
        expands: a few bytes may stand for many features, of which ``weights`` tells if it can.
    """

    width: int = 0
    expands: bool = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let what a class outside simdb returns be looked at; simdb's own are tested."""
        super().__init_subclass__(**arguments)
        if cls.__module__.partition(".")[0] != "simdb":
            for name, require in _REQUIRED_OF_ITEMS.items():
                if name in vars(cls):
                    setattr(cls, name, _looked_at(vars(cls)[name], require))

    @abstractmethod
    def encode(self, item: Any) -> bytes:
        """Return the stored form of an item; BadItemError: it is none, or too large."""

    @abstractmethod
    def decode(self, data: Stored) -> Any:
        """Return the item of its stored form; CorruptionError if it is no such form."""

    @abstractmethod
    def features(self, items: Sequence[Stored]) -> Any:
        """Make of items in stored form what they are hashed and compared by: a batch with a length.

        CorruptionError: one of them is no stored form.
        """

    def contents(self, items: Sequence[Stored]) -> Sequence[Stored]:
        """Return bytes that are equal where stored forms are of the same content.

        Under a key that is stored, an item of the same content is that item come again. Equal forms
        are; a kind may have others that mean the same.
        """
        return items

    def are_same(self, one: Stored, other: Stored) -> bool:
        """Whether two stored forms are of the same content."""
        return bool(one == other) or list(self.contents([one])) == list(self.contents([other]))

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        """Return ``encode`` of many items."""
        return [self.encode(item) for item in items]  # a StopIteration would end a map unnoticed

    def encode_column(self, column: Column) -> Sequence[Stored] | None:
        """Return the stored forms of the items in a column of a table, without a value for each.

        None where this kind, or one of the items, is to be encoded one by one.
        """
        return None

    def features_of_rows(self, rows: UInt8s) -> Any:
        """Return the features of items of one width, which lie in the rows of uint8 (n, width)."""
        return self.features([row.tobytes() for row in rows])

    def weights(self, items: Sequence[Stored]) -> Int64s:
        """Return an eighth of the bytes that the features of each item take; batches end by it."""
        return lengths_of(items)

    def symbols(self, items: Sequence[Stored]) -> SymbolSets:
        """Return the symbols of items, if there are any: the features, unless these are quicker."""
        symbols: SymbolSets = self.features(items)
        return symbols

    def labels(self, item: Stored) -> Sequence[Label]:
        """Return what each symbol of an item stands for, in the order of ``symbols``."""
        raise NotImplementedError


def _looked_at(
    method: Callable[..., Any], require: Callable[[str, Any, Any], None]
) -> Callable[..., Any]:
    @wraps(method)
    def called(self: Items, given: Any) -> Any:
        returned = method(self, given)
        require(f"{type(self).__name__}.{method.__name__}", given, returned)
        return returned

    return called


def _require_bytes(method: str, _item: object, returned: object) -> None:
    if not isinstance(returned, bytes):
        raise WrongTypeError(f"{method} must return bytes, not {type(returned).__name__}")


def _require_batch(method: str, items: Sequence[Stored], returned: Any) -> None:
    """Raise WrongTypeError unless features are of as many items, and symbols as kernels read them.

    Kernels trust the offsets of symbols: wrong ones would let them read past the end.
    """
    if isinstance(returned, SymbolSets):
        values, offsets = returned.values, returned.offsets
        for name, array, dtype in (("values", values, np.uint64), ("offsets", offsets, np.int64)):
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
                raise WrongTypeError(
                    f"{method} must return {name} of SymbolSets as an array of one dimension of "
                    f"{np.dtype(dtype)}"
                )
        if not offsets.size or offsets[0] or offsets[-1] != values.size:
            raise WrongTypeError(
                f"{method} must return offsets of SymbolSets from 0 to the number of values"
            )
    if not isinstance(returned, Sized) or len(returned) != len(items):
        count = f"{len(returned):,}" if isinstance(returned, Sized) else "no length"
        raise WrongTypeError(f"{method} must return a batch of {len(items):,} items, not {count}")


_REQUIRED_OF_ITEMS: dict[str, Callable[[str, Any, Any], None]] = {
    "encode": _require_bytes,
    "features": _require_batch,
    "symbols": _require_batch,
}


# One that looks only at some of the features counts them in an attribute, ``looked_at``.
Finder: TypeAlias = Callable[[Any], tuple[Int64s, Compared]]


class Measure(ABC):
    """How items of a kind are compared: exactly, in batches of their features.

    Attributes:
        arranges: ``arranged`` returns another form.
        reads_pieces: a finder takes ``Pieces`` of items of one width, too.
        finds_nearest: a finder can be told how many of the nearest are wanted.
        is_slow_to_prepare: the features of an item cost more than comparing a pair; so batches
            are prepared once for many pairs, and compared by ``compare_between``.
    """

    arranges: bool = False
    reads_pieces: bool = False
    finds_nearest: bool = False
    is_slow_to_prepare: bool = False

    @abstractmethod
    def compare_probe(self, probe: Any, features: Any) -> Compared:
        """Compare the one item of ``probe`` with many."""

    @abstractmethod
    def compare_pairs(self, features: Any, left: Int64s, right: Int64s) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""

    def compare_between(self, ones: Any, others: Any, left: Int64s, right: Int64s) -> Compared:
        """Compare ``ones[left[i]]`` with ``others[right[i]]``."""
        raise NotImplementedError

    def near_pairs(
        self, ones: Any, others: Any, bound: Bound, work: Work, workers: Workers = ALONE
    ) -> Iterator[Near]:
        """Find every pair within a bound, each once; of ``ones`` with later ones if no others.

        Asked for where the kind tells its ``share_looked_at``; features can be indexed by places.
        Threads of ``workers`` may share the work, and change neither the pairs nor their order.
        """
        raise NotImplementedError

    def first_equal(self, features: Any) -> Int64s:
        """Find the first of the features that is equal to each: by default of equal bytes."""
        if isinstance(features, Ragged):
            met: dict[bytes, int] = {}
            equal = [met.setdefault(features.row_bytes(row), row) for row in range(len(features))]
            return np.array(equal, np.int64)
        whole = np.ascontiguousarray(features).view(f"V{features.itemsize * features.shape[1]}")
        _, firsts, classes = np.unique(whole[:, 0], return_index=True, return_inverse=True)
        first_equal: Int64s = firsts[classes]
        return first_equal

    def arranged(self, features: Any) -> Any:
        """Return features in whatever form is the quickest for ``finder`` with many probes."""
        return features

    def finder(self, probe: Any, bound: Bound, most: int = 0) -> Finder:
        """The function that finds among features what is within a bound of a probe.

        ``most``, for what ``finds_nearest``, is how many of the nearest are wanted, 0 meaning all:
        of what is farther than the last of them it may leave some out.
        """

        def find(features: Any) -> tuple[Int64s, Compared]:
            compared = self.compare_probe(probe, features)
            places = np.flatnonzero(bound.meets_many(compared.numerators, compared.denominators))
            return places, Compared(compared.numerators[places], compared.denominators[places])

        return find


class PairedMeasure(Measure):
    """A measure that compares two batches pair by pair: with it, a probe is a batch of one."""

    @abstractmethod
    def compare_between(self, ones: Any, others: Any, left: Int64s, right: Int64s) -> Compared: ...

    def compare_probe(self, probe: Any, features: Any) -> Compared:
        rows = np.arange(len(features), dtype=np.int64)
        return self.compare_between(probe, features, np.zeros_like(rows), rows)

    def compare_pairs(self, features: Any, left: Int64s, right: Int64s) -> Compared:
        return self.compare_between(features, features, left, right)


class FieldAgreement(Struct, frozen=True, eq=False):
    """How pairs of items agree in one field.

    Attributes:
        codes: (n,), the level of each pair, from 0; -1 where a value is missing.
        value: (n,), the place in ``values`` of the value that both items have; -1 where theirs
            differ, or one is missing.
        values: the values of the left items as texts.
    """

    codes: Int64s
    value: Int64s
    values: Sequence[str]


class Agreement(ABC):
    """How items that have fields agree, field by field, of one collection's settings.

    Attributes:
        names: of the fields that are scored.
        levels: of each field, from which share on each level above the lowest is reached, rising.
        looks_at: (rules, fields), which fields each rule for candidates looks at.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Fraction, ...], ...]
    looks_at: Bools

    @abstractmethod
    def fields(self, ones: Any, others: Any, left: Int64s, right: Int64s) -> list[FieldAgreement]:
        """Compare item ``left[i]`` of one batch of features with item ``right[i]`` of another."""

    @abstractmethod
    def keys(self, features: Any) -> UInt64s:
        """Return the bucket keys of items, (n, keys), 0 where there is none."""

    @abstractmethod
    def proposed(self, ones: UInt64s, others: UInt64s, left: Int64s, right: Int64s) -> UInt64s:
        """Tell which rules propose the same pairs, by keys of items: a bit for each rule."""

    @abstractmethod
    def value_counts(self, features: Any, places: Int64s) -> list[dict[str, int]]:
        """Count the values of each field, of some items by place."""

    @abstractmethod
    def weighed(self, bits: Sequence[Float64s], frequent: Sequence[Mapping[str, float]]) -> Kind:
        """Return settings whose points are evidence: of each field, bits that rise by level.

        And of each the bits, at most 0, by which equality of a value says more than of others.
        """


# -- kinds ---------------------------------------------------------------------------------------


class Examples(Struct, frozen=True):
    """What a kind is tried with under some of its settings: little, and the same in every process.

    Of ``items`` and ``near`` together two are within the bound if and only if they stand at one
    place of both.

    Attributes:
        kind: the settings.
        bound: a threshold, or the largest distance of a kind of distances, as a caller writes it.
        items: some that are far from each other; five are enough.
        near: as many, each near to the item at its place, and not equal to it.
        invalid: what ``encode`` refuses.
    """

    kind: Kind
    bound: str
    items: Sequence[Any]
    near: Sequence[Any]
    invalid: Sequence[Any]


class SettingOption(Struct, frozen=True):
    """A setting as an option of the command line of its own, named as the setting is.

    Attributes:
        meaning: in words, for the help.
        default: what holds where it is not given, as the help tells it.
        form: what it takes; None of what is on or off.
        off: what turns off what is on or off, such as ``--keep-case``.
    """

    meaning: str
    default: str
    form: str | None = None
    off: str | None = None


class Kind(Settings, frozen=True, tag_field="kind", tag=str.lower):
    """What the items of a collection are, how they are compared, and how they are indexed.

    The fields of a subclass are its settings, stored with a collection. Its name is that of the
    class in small letters, or what ``tag=`` of the class statement says.

    Attributes:
        plural: what messages call several items.
        is_slow_to_read: symbols are computed anew from items, at more cost than reading postings.
        slice_bytes: of items whose features are made and signed in one go: enough that threads
            seldom wait for the interpreter's lock between two kernels, and not so many that the
            allocator gives the features' memory back to the system after each.
        in_the_name: the settings that may follow the name on the command line, in their order:
            ``bits:1024:tanimoto``.
        added: settings that stores of earlier versions lack, with what holds there; they are stored
            only where they are something else.
        options: the settings that are options of the command line, besides ``--settings``.
        suffixes: formats of files that items are read from, by the ends of their names.
        of_lines: a line of a file may be an item as it stands, instead of tokens.
        of_elements: items are collections of integers or of strings, cut from text into tokens.
        of_counts: such a collection may be an object of elements and counts.
        of_weights: items are elements with weights, which are maps in tables.
        may_miss_equals: an item may have no bucket; see ``finding_equals``.
        estimates: what the measure tells of two items is an estimate; nothing about them is exact.
        has_rules: candidates come of rules; ``rule_counts`` says of how many pairs.
        json_form: what stands for an item in JSON, for messages.
        probe_option: the option of ``simdb search`` that gives an item.
        probe_format: how ``simdb search --input`` reads a file; None goes by its name.
    """

    plural: ClassVar[str] = "items"
    is_slow_to_read: ClassVar[bool] = False
    slice_bytes: ClassVar[int] = 2**19
    in_the_name: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[Mapping[str, object]] = {}
    options: ClassVar[Mapping[str, SettingOption]] = {}
    suffixes: ClassVar[Mapping[str, Format]] = OBJECTS
    of_lines: ClassVar[bool] = False
    of_elements: ClassVar[bool] = False
    of_counts: ClassVar[bool] = False
    of_weights: ClassVar[bool] = False
    may_miss_equals: ClassVar[bool] = False
    estimates: ClassVar[bool] = False
    has_rules: ClassVar[bool] = False
    json_form: ClassVar[str] = "an item"
    probe_option: ClassVar[str] = "--item"
    probe_format: ClassVar[Format | None] = None

    # -- what a kind must have -------------------------------------------------------------------

    def make_items(self, secret: bytes) -> Items:
        """The codec of the kind's items, keyed by the collection's secret."""
        raise NotImplementedError

    def make_measure(self) -> Measure:
        """The measure that compares items, on the scale of ``inner_similarity``."""
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

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        """Return what the kind is tried with, under each of the settings that differ in kind."""
        return ()

    def finding_equals(self, family: Family) -> Family:
        """Return a family in which items without a bucket share one with items equal to them.

        Asked for where the kind ``may_miss_equals``, of collections that note it in their settings.
        """
        return family

    def require_useful(self) -> None:
        """Raise ConfigurationError for settings that stored collections may have, but no new ones.

        Earlier versions took them, so what is stored with them is opened and read as ever.
        """

    def settled(self, bound: Fraction, request: PlanRequest) -> PlanRequest:
        """Say which recall an index is planned for, where ``request.is_usual``."""
        return request

    def misses_nothing(self, recall: Fraction) -> bool:
        """Whether an index planned for a recall misses nothing, by the three methods below."""
        return False

    def can_be_complete(self, bound: Fraction, bands: int, rows: int) -> bool:
        """Whether bands and rows may have been planned to miss nothing within a bound."""
        return True

    def make_complete_family(
        self, bound: Fraction, *, bands: int, rows: int, secret: bytes
    ) -> Family:
        """Return a family whose buckets miss nothing within a bound."""
        raise NotImplementedError

    def make_complete_curve(self, bound: Fraction) -> Curve:
        """Return its curve: 1 within the bound."""
        raise NotImplementedError

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

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        """Choose bands and rows, ConfigurationError if none will do; see ``lsh.planning.plan``."""
        told = bound if self.is_distance else self.outer_similarity(bound)
        return plan(bound, request, self.make_curve(bound), told)

    def can_have(self, bands: int, rows: int) -> bool:
        """Whether ``plan`` may have given bands and rows, however little is indexed yet."""
        return bands > 0 and rows > 0 and bands * rows <= MAXIMUM_FUNCTIONS

    def expected_keys(self, bands: int) -> int:
        """The bucket keys of an item, about, by which merges are paced."""
        return bands

    def most_keys(self, bands: int, rows: int) -> int:
        """The most bucket keys that an item has, by which batches are cut."""
        return bands

    def index_in_words(self, bands: int, rows: int) -> str:
        """The parts of a probable index, in words."""
        return f"{bands} bands of {rows} rows"

    def stores_alike(self, other: Self) -> bool:
        """Whether items of other settings of the kind have the same stored form."""
        return True

    def signs_alike(self, other: Self) -> bool:
        """Whether items have the same signatures and bucket keys under other settings of the kind.

        A rebuild then leaves the index as it is.
        """
        return False

    def inner_similarity(self, similarity: Fraction) -> Fraction:
        """Return a similarity as ``measure`` has it; ConfigurationError if no items reach it."""
        return similarity

    def outer_similarity(self, similarity: Fraction) -> Fraction:
        """Return a similarity of ``measure`` as the caller knows it."""
        return similarity

    def outer_values(self, values: Float64s) -> Float64s:
        """Return similarities of ``measure`` as the caller knows them."""
        return values

    def outer_curve(self, curve: Curve) -> Curve:
        """Return a curve over the similarities that the caller knows."""
        return curve

    # -- bounds: callers know *outer* similarities, indexes and kernels *inner* ones -------------

    def parse_bound(
        self, threshold: ThresholdLike | None, max_distance: ThresholdLike | None = None
    ) -> Bound | None:
        """Read what a caller asks for, None for nothing; ConfigurationError if it cannot be."""
        if self.is_distance and threshold is not None:
            raise ConfigurationError(
                f"{self} is compared by distance: give max_distance, not threshold"
            )
        if not self.is_distance and max_distance is not None:
            raise ConfigurationError(
                f"{self} is compared by similarity: give threshold, not max_distance"
            )
        if threshold is not None:
            return self.inner_threshold(Threshold.parse(threshold))
        if max_distance is None:
            return None
        bound = MaximumDistance.parse(max_distance)
        if bound.fraction > self.largest_distance:
            raise ConfigurationError(
                f"max_distance {short(max_distance)} is more than {self.largest_distance}, "
                f"the largest possible distance between items of {self}"
            )
        return bound

    def planned_bound(
        self, threshold: ThresholdLike | None, max_distance: ThresholdLike | None
    ) -> Bound | None:
        """Read what a new collection is to be planned for; None for no probable index.

        The threshold ``"default"`` is an inner similarity of 0.8 (4/9 for bags whose union adds up
        the counts, which is the same), and nothing where items are compared by distance.
        """
        if not isinstance(threshold, str) or threshold != "default":
            return self.parse_bound(threshold, max_distance)
        if self.is_distance or max_distance is not None:
            return self.parse_bound(None, max_distance)
        return Threshold(DEFAULT_THRESHOLD)

    def parse_floor(self, exact_floor: ThresholdLike | None) -> Threshold | None:
        """Read the floor of an exact index; None for no such index."""
        if exact_floor is None:
            return None
        return self.inner_threshold(Threshold.parse(exact_floor, name="exact_floor"))

    def bound_of(self, value: Fraction) -> Bound:
        """Return a stored similarity or distance as a bound."""
        return (_maximum_distance if self.is_distance else _threshold)(value)

    @property
    def widest_bound(self) -> Fraction:
        """The bound of a collection that has none: the largest distance, or 4/5."""
        return self.largest_distance if self.is_distance else DEFAULT_THRESHOLD

    @property
    def identical_value(self) -> float:
        """How similar, or how distant, equal items are."""
        return 0.0 if self.is_distance else 1.0

    def inner_threshold(self, threshold: Threshold) -> Threshold:
        """Return a threshold as indexes and kernels work with it."""
        return Threshold(self.inner_similarity(threshold.fraction))

    def outer_bound(self, bound: Bound) -> Bound:
        """Return a bound as the caller knows it."""
        if isinstance(bound, Threshold):
            return Threshold(self.outer_similarity(bound.fraction))
        return bound

    def outer_plan(self, planned: Plan) -> Plan:
        """Return a plan in the similarities that the caller knows."""
        curve = self.outer_curve(planned.family)
        if curve is planned.family:
            return planned
        threshold = self.outer_similarity(planned.threshold)
        return msgspec.structs.replace(planned, threshold=threshold, family=curve)

    @property
    def index_remedy(self) -> Remedy:
        """The remedy that adds a probable index, for any bound, to a collection without one."""
        argument = "max_distance" if self.is_distance else "threshold"
        return Remedy(argument, ..., "adds one", "rebuild")

    # -- what some kinds have --------------------------------------------------------------------

    def share_looked_at(self, bound: Fraction) -> float | None:
        """The share of all pairs that ``near_pairs`` of the measure looks at, about.

        Of items at random; 1 where it compares all, but in batches. None where the measure has no
        such method, and compares one with many.
        """
        return None

    def candidate_stats(
        self, family: Family, signatures: Callable[[], Iterator[UInt16s]], live: int
    ) -> dict[str, Any]:
        """Statistics of what proposes candidates, as plain values; none where bands do.

        ``signatures`` reads those of all ``live`` items, some rows at a time.
        """
        return {}

    @property
    def limits_candidates(self) -> bool:
        """Whether ``require_candidates`` may raise."""
        return False

    def require_candidates(
        self,
        family: Family,
        signatures: Callable[[], Iterator[UInt16s]],
        probes: Callable[[], Iterator[UInt16s]] | None = None,
    ) -> None:
        """Raise ConfigurationError if more pairs would be candidates than the settings permit.

        Asked before all pairs of a collection are looked for by its buckets, or those with the
        items of another one, which ``probes`` signs by the same family; ``signatures`` as for
        ``candidate_stats``.
        """

    def rule_counts(
        self,
        family: Family,
        signatures: Callable[[], Iterator[UInt16s]],
        probes: Callable[[], Iterator[UInt16s]] | None = None,
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each rule in words and what it proposes, counted; nothing if there are no rules.

        Pairs are those of all items, or with ``probes`` those with items of another collection; see
        ``require_candidates``.
        """
        yield from ()

    def proposing_rules(self, family: Family, left: UInt16s, right: UInt16s) -> Mapping[str, Bools]:
        """Return which pairs of signatures each rule proposes; none where there are no rules."""
        return {}

    def field_differences(self, field: str) -> Differences:
        """A function that computes the differences of items in a field that is not scored.

        ConfigurationError says that items have no fields, or not such a one.
        """
        raise ConfigurationError(
            f"only records have fields; for {self} give a function of two items, not {short(field)}"
        )

    def agreement(self, family: Family | None) -> Agreement:
        """How items agree field by field; ConfigurationError says that they have no fields.

        Args:
            family: of the collection.
        """
        raise ConfigurationError(f"only records have fields with weights, not {self.plural}")

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return what two items in stored form are compared by; nothing where a kind tells none."""
        return Evidence()

    # -- items on the command line and in files --------------------------------------------------

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of files that items are read from."""
        lines: tuple[Format, ...] = ("lines",) if self.of_lines else ()
        return tuple(dict.fromkeys((*self.suffixes.values(), *lines)))

    @property
    def of_tokens(self) -> bool:
        """Whether an item is spelled by tokens of a line or of a field."""
        return "lines" in self.formats and not self.of_lines

    @property
    def field_names(self) -> tuple[str, ...] | None:
        """The fields of a row that are an item together; None where one field is an item."""
        return None

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        """Return the item that a value of JSON stands for, ``NotImplemented`` for none.

        It may be one of ``several`` fields of a row that are one item.
        """
        return value

    def item_of_tokens(self, tokens: list[str]) -> Any:
        """Return the item that words of a line spell, BadItemError for none."""
        raise NotImplementedError

    def item_of_text(self, text: str) -> Any:
        """Return the item that a file, a line or a field of CSV holds, BadItemError for none."""
        raise NotImplementedError

    def item_of_row(self, row: npt.NDArray[Any]) -> Any:
        """Return the item in a row of an array."""
        return np.array(row)

    def joined(self, parts: list[Any]) -> Any:
        """Make one item of several fields of a row; BadItemError if they are not one."""
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
        """Return the value of a setting that a text spells; ConfigurationError for none."""
        field = next(field for field in _fields(cls) if field.name == setting)
        return _checked(f"the {setting}", field, text, spelled=True)

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings as a user writes them in JSON, in the form that is stored."""
        return dict(described)

    def plain_item(self, item: Any) -> Any:
        """Return an item as JSON can hold it, in a form that ``add`` reads back."""
        return item

    def dumped_item(self, item: Any) -> Any:
        """Return an item as JSON holds it, of which ``loaded_item`` makes the very same again."""
        return self.plain_item(item)

    def loaded_item(self, plain: Any) -> Any:
        """Return the item that ``dumped_item`` wrote; NotImplemented if it is something else."""
        return self.item_of_json(plain)

    def column_item(self, item: Any) -> Any:
        """Return an item as a column of Arrow holds it: as JSON does, or an array as it is."""
        return self.plain_item(item)

    def shown_item(self, item: Any) -> str:
        """Return an item as text for people."""
        return str(item)

    def describe(self) -> dict[str, Any]:
        """Return the name and the settings as plain values."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        return described

    def stored(self) -> dict[str, Any]:
        """Return what is stored of them: all, but for those ``added`` that are as ever."""
        as_ever = {name for name, value in self.added.items() if getattr(self, name) == value}
        return {name: value for name, value in self.describe().items() if name not in as_ever}


def plan_request(
    recall: ThresholdLike | None,
    false_candidates: ThresholdLike,
    *,
    bands: int | None,
    rows: int | None,
    row_budget: int | None,
    cascade: Construction | None,
    items: int | None = None,
) -> PlanRequest:
    """Read what a caller asks of a plan; ConfigurationError: a value is out of range."""
    try:
        least = USUAL_RECALL if recall is None else Threshold.parse(recall, name="recall").fraction
    except ConfigurationError:
        raise wrong_recall(recall) from None
    most = Threshold.parse(false_candidates, name="false_candidates").fraction
    return PlanRequest(
        least, bands, rows, row_budget, most, cascade, is_usual=recall is None, items=items
    )


def name_of(kind: type[Kind]) -> str:
    """Return the name of a kind."""
    return str(kind.__struct_config__.tag)


class SymbolKind(Kind, frozen=True):
    """A kind of sets of symbols, compared by Jaccard similarity (MMDS 3.1.1).

    A subclass need only have ``make_items``, whose features are ``SymbolSets``. Its family is
    minhash, whose curve is the similarity itself. Where its items have ``labels`` too, pairs are
    explained by these.

    Attributes:
        labelled: what messages call several of what symbols stand for.
    """

    labelled: ClassVar[str] = "elements"

    @property
    def has_symbols(self) -> bool:
        return True

    def make_measure(self) -> Measure:
        return SetMeasure()

    def make_curve(self, bound: Fraction) -> Curve:
        return JaccardCurve()

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return MinHash(sketch, bands, rows, secret)

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        try:
            labels = [items.labels(left), items.labels(right)]
        except NotImplementedError:  # of a kind of a user's own
            return Evidence()
        whats = [what for own in labels for what, _ in own]
        names = dict(zip(items.symbols([left, right]).values.tolist(), whats, strict=True))
        return Evidence(self.labelled, facets_of_labels(*labels), names)


class SetMeasure(Measure):
    """Compare sets by the symbols that they share; repeats of a symbol count once.

    The values are overlap / union in whole numbers; two empty sets are 0 / 0, which counts as 0.
    Pairs may come in any order; runs of pairs with equal ``left`` are the fastest.
    """

    def compare_probe(self, probe: SymbolSets, features: SymbolSets) -> Compared:
        overlaps, sizes, probe_size = kernels.overlaps.probe_overlaps(
            probe.values, features.values, features.offsets
        )
        return Compared(overlaps, sizes + probe_size - overlaps)

    def compare_pairs(self, features: SymbolSets, left: Int64s, right: Int64s) -> Compared:
        overlaps, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(
            features.values, features.offsets, left, right
        )
        return Compared(overlaps, left_sizes + right_sizes - overlaps)


# -- what modules of kinds share: messages, stored forms -----------------------------------------


def shortened(text: str, longest: int = 60) -> str:
    """Return text quoted for a message, cut after ``longest`` characters."""
    return ascii(text) if len(text) <= longest else ascii(text[:longest]) + " …"


def shown(value: object) -> str:
    """Return the type and the value of something for a message, cut where it is long."""
    return f"{type(value).__name__} {short(value)}"


def loaded(found: EntryPoint) -> Any:
    """Return what an installed package brings; ConfigurationError if it cannot be loaded."""
    try:
        return found.load()
    except Exception as error:
        package = "a package" if found.dist is None else f"the package {found.dist.name}"
        raise ConfigurationError(
            f"{package} says that it brings {found.name!r} ({found.value}), which cannot be "
            f"loaded: {type(error).__name__}: {error}"
        ) from error


def unmasked(item: Any) -> Any:
    """Return an array as one of NumPy's own class, and any other item as it is.

    BadItemError: a value of a masked array is masked, which is none, whatever lies beneath.
    """
    if type(item) is np.ndarray or not isinstance(item, np.ndarray):
        return item
    masked = np.flatnonzero(np.ma.getmaskarray(item))  # none of another class is
    if masked.size:
        raise BadItemError(f"a value of an array must not be masked, as at position {masked[0]} is")
    return np.asarray(item)


def utf8(text: str, what: str) -> bytes:
    """Return the UTF-8 of a text, which messages call ``what``; BadItemError if it has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadItemError(
            f"{what} holds half a surrogate pair, U+{ord(text[error.start]):04X}, at position "
            f"{error.start}, which is not a character"
        ) from None


def require_readable(item: Sized, what: str, most: int = MAXIMUM_ITEM_BYTES) -> None:
    """Raise BadItemError for what has more elements than any item, as a range may, unread."""
    try:
        size = len(item)
    except OverflowError:
        size = sys.maxsize
    if size > most:
        raise BadItemError(f"a {what} must have at most {most:,} elements, not {size:,}")


def lengths_of(items: Sequence[Stored]) -> Int64s:
    """Count the bytes of each item in stored form."""
    if type(items) is ByteStrings:
        return sizes_of(items.offsets)
    return np.fromiter(map(len, items), np.int64, len(items))


def joined(items: Sequence[Stored]) -> tuple[UInt8s, Int64s]:
    """Return the bytes of items, one after the other, and where each begins and the last ends."""
    if type(items) is ByteStrings:  # sooner than asking an abstract class
        return items.values, items.offsets
    if len(items) == 1:  # as of most searches
        return np.frombuffer(items[0], np.uint8), np.array([0, len(items[0])], np.int64)
    offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum(lengths_of(items), out=offsets[1:])
    return np.frombuffer(b"".join(items), np.uint8), offsets


def rows_of(items: Sequence[Stored], width: int, what: str) -> UInt8s:
    """Return a copy of stored forms of one width, uint8 (n, width); CorruptionError for another."""
    joined = b"".join(items)
    if len(items) > 1 or len(joined) != width:  # as of few searches
        require_sound(lengths_of(items) == width, what)
    return np.frombuffer(joined, np.uint8).reshape(len(items), width)


def require_sound(sound: Bools, what: str) -> None:
    """Raise CorruptionError for the first stored form of a batch that is not sound."""
    if not sound.all():
        raise CorruptionError(f"a stored {what}, {sound.argmin()} of its batch, cannot be read")
