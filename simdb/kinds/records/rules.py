"""Rules: which fields of two records, alike in which way, make them candidates (MMDS 3.8.2).

A rule is a tuple of parts, all of which must hold. Each part makes keys of a record, and the keys
of a rule are all combinations of those of its parts: an AND. Records are candidates if they share a
key of any rule: an OR. So a part is whatever sends near values to a common key: equality, cells of
a width, bands of minhashes, segments of a string.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise, product
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import numpy as np
from msgspec import Meta

from simdb.arguments import short
from simdb.arrays import Bools, Int64s, UInt16s, UInt64s
from simdb.errors import ConfigurationError
from simdb.exact.thresholds import Threshold, exact_fraction
from simdb.kinds.base import Settings
from simdb.kinds.records.items import (
    COUNTED,
    TRANSFORMATIONS,
    Place,
    RecordColumn,
    RecordFeatures,
    chained,
)
from simdb.kinds.records.points import EARTH, METRES
from simdb.lsh.family import BucketKeys, Family, MinHash, SymbolSets, mixed, secret_words
from simdb.lsh.planning import Plan, PlanRequest, plan
from simdb.ragged import offsets_of

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record

MOST_KEYS = 1_024  # of a record, by all rules
MOST_EDITS = 3
WORDS_A_KEY = 4
ROWS_OF_ALIKE = 128  # of minhashes, more below the similarity where two rows a band are too many
_WIDEST = 10**18  # windows
_LEAST_PLANNED = 1e-9  # of less similar ones far more rows are needed than there may be
TWO_ROWS_FROM = 0.3
RAREST_WORDS = 32
SAMPLED_MEETINGS = 32_768
_SECRET_WORDS = 4
_NO_DIGEST = bytes(8)
_KEEPS_SOMETHING = ("lowercase", "first", "last")
_ROUNDED = 1e-9  # what cells on the Earth are larger than they need be
_LENGTHS_KEPT = 256  # of texts, how they are cut
_LARGEST_CHOICE = 4_096  # of fields that differ, and how much: see certain_loss

Fields: TypeAlias = Mapping[str, "Field"]
Hasher: TypeAlias = Callable[[RecordFeatures], UInt64s]


def listed(given: object, problem: str, *, one: type | UnionType | None = None) -> tuple[Any, ...]:
    """Return the parts of a collection, ``one`` part alone as a tuple of one; else the problem."""
    if one is not None and isinstance(given, one):
        return (given,)
    if isinstance(given, str | Part | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(problem)
    return tuple(given)


def sorted_pairs(
    counts: Mapping[str, int] | Sequence[tuple[str, int]],
) -> tuple[tuple[str, int], ...]:
    """Return counts as sorted pairs, which can be hashed and stored."""
    known = dict(counts)
    return tuple((name, known[name]) for name in sorted(known))


def require_transformations(owner: str, given: object) -> tuple[str, ...]:
    """Return the names of transformations, one alone as a tuple of one."""
    kept = listed(given, f"{owner} must be a sequence of names, not {short(given)}", one=str)
    for name in kept:
        if isinstance(name, str) and (name in TRANSFORMATIONS or COUNTED.fullmatch(name)):
            continue
        raise ConfigurationError(
            f"{owner} names {name!r}, which is none of {', '.join(TRANSFORMATIONS)}, first:4, "
            "last:4 (or another number)"
        )
    return kept


# -- parts of rules -------------------------------------------------------------------------------


class Part(Settings, frozen=True):
    """A part of a rule: what it makes of a record, as keys of which two records must share one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that it looks at."""
        raise NotImplementedError

    @property
    def key_count(self) -> int:
        """The most keys of a record."""
        return 1

    def require_fitting(self, fields: Fields) -> None:
        """Raise ConfigurationError if its fields cannot be looked at so."""

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        """Return what makes the keys of records, uint64 (n, key_count), 0 where there is none.

        Keys of one record differ from each other.
        """
        raise NotImplementedError

    def least_loss(self, fields: Fields) -> Fraction:
        """The points that two records surely lose, or more, where they share no key."""
        return Fraction(0)

    def counted(self, fields: Fields, features: RecordFeatures) -> Part:
        """Return the same with what is to be counted of some records."""
        return self


class Equal(Part, frozen=True):
    """Two records agree if both have this field and its values are equal (MMDS 3.8.2).

    ``Equal("phone", "digits")`` compares the digits, ``Equal("surname", "first:4")`` the first four
    letters, ``Equal("surname", "soundex")`` the sound of a name. The field's own preparation is
    applied first, and words of one group of its equivalents are equal. Numbers and dates are equal
    if they are the same number or day, however written.

    Attributes:
        field: the name of the field.
        transformations: transformations of the value, in this order.
    """

    field: str
    transformations: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        names = require_transformations(f"Equal({short(self.field)})", self.transformations)
        self._set("transformations", names)
        super().__post_init__()

    def __str__(self) -> str:
        return " ".join((self.field, *self.transformations))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.field,)

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        def keys(features: RecordFeatures) -> UInt64s:
            column = features.columns[self.field]
            return column_hashes(column, secret, self.transformations)[:, np.newaxis]

        return keys

    def least_loss(self, fields: Fields) -> Fraction:
        stems = {name.partition(":")[0] for name in self.transformations}
        if not stems.issubset(_KEEPS_SOMETHING):
            return Fraction(0)  # equal values of which nothing is left have no bucket
        return fields[self.field].loss_beyond(1) if fields[self.field].is_edited else Fraction(0)


class Within(Part, frozen=True, tag_field="by", tag="within"):
    """Two records agree if their numbers or dates in a field differ by ``window`` at most.

    No pair within the window is missed; pairs up to twice as far apart may also agree. (Cells have
    the width of the window; a value belongs to its own cell and to the next one.)

    Attributes:
        field: the name of a field that is compared as numbers or as dates.
        window: the largest difference; for dates in days.
    """

    field: str
    window: Annotated[int, Meta(gt=0, le=_WIDEST)] | Annotated[float, Meta(gt=0, le=_WIDEST)]

    def __str__(self) -> str:
        return f"{self.field} within {self.window:g}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.field,)

    @property
    def key_count(self) -> int:
        return 2

    def require_fitting(self, fields: Fields) -> None:
        if fields[self.field].compare not in ("numeric", "relative", "date"):
            raise ConfigurationError(
                f"Within({short(self.field)}) is for numbers and dates, but the field is compared "
                f"by {fields[self.field].compare!r}"
            )

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        width = exact_fraction(self.window)

        def keys(features: RecordFeatures) -> UInt64s:
            column = features.columns[self.field]
            cells = [math.floor(number / width) % 2**64 for number in column.numbers]
            own = np.array([*cells, 0], np.uint64)[:, np.newaxis] + np.arange(2, dtype=np.uint64)
            hashed = np.maximum(mixed(own ^ secret[0]), np.uint64(1))
            hashed[-1] = 0  # of a missing value, whose code is -1
            return hashed[column.codes]

        return keys

    def least_loss(self, fields: Fields) -> Fraction:
        if fields[self.field].compare == "relative":
            return Fraction(0)
        return fields[self.field].loss_beyond(exact_fraction(self.window))


class Near(Part, frozen=True, tag_field="by", tag="near"):
    """Two records agree if their places are at most ``kilometres`` apart.

    No pair within the radius is missed; some pairs up to three times as far apart also agree.
    (Cells have the size of the radius; a place belongs to its own cell and to the next ones to the
    north and to the east. Near a pole a cell spans as many degrees as that takes.)

    Attributes:
        field: the name of a field that is compared as places.
        kilometres: the radius, at most 1,000.
    """

    field: str
    kilometres: Annotated[int, Meta(gt=0, le=1_000)] | Annotated[float, Meta(gt=0, le=1_000)]

    def __str__(self) -> str:
        return f"{self.field} within {self.kilometres:g} km"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.field,)

    @property
    def key_count(self) -> int:
        return 4

    def require_fitting(self, fields: Fields) -> None:
        if fields[self.field].compare != "place":
            raise ConfigurationError(
                f"Near({short(self.field)}) is for places, but the field is compared by "
                f"{fields[self.field].compare!r}"
            )

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        digest = _digests(secret)

        def keys(features: RecordFeatures) -> UInt64s:
            column = features.columns[self.field]
            hashed = np.zeros((len(column.places) + 1, self.key_count), np.uint64)
            for row, place in enumerate(column.places):
                hashed[row] = [digest(cell) for cell in self._cells(place)]
            return hashed[column.codes]

        return keys

    def _cells(self, place: Place) -> Iterator[str]:
        """Yield the names of the cells of a place: in two rows of cells, two each."""
        height = math.degrees((self.kilometres * METRES + 1) / EARTH) * (1 + _ROUNDED)
        row = math.floor(place.north / height)
        for north in (row, row + 1):  # in which there are places from north - 1 to north + 1
            nearest_pole = min(90.0, max(abs(north - 1), abs(north + 1)) * height)
            narrowing = max(0.0, math.cos(math.radians(nearest_pole)) * (1 - _ROUNDED))
            half = math.sin(math.radians(height) / 2)
            if half >= narrowing:  # all round the pole
                yield from (f"{north}", f"{north} again")
                continue
            width = 2 * math.degrees(math.asin(half / narrowing)) * (1 + _ROUNDED)
            columns = math.floor(360 / width)
            column = math.floor((place.east + 180) / 360 * columns) % columns
            beside = (column + 1) % columns
            yield f"{north} {column}"
            yield f"{north} {beside}" if beside != column else f"{north} again"

    def least_loss(self, fields: Fields) -> Fraction:
        return fields[self.field].loss_beyond(exact_fraction(self.kilometres))


class Edits(Part, frozen=True, tag_field="by", tag="edits"):
    """Two records agree if their texts in a field are at most ``edits`` edits apart.

    No such pair is missed: a text is cut into one more segment than there may be edits, so the
    other text contains at least one of them unchanged (PassJoin; see ``exact.segments``). Edits are
    those that the field counts, or else insertions, deletions and mutations, between texts whose
    equivalents are replaced. All texts of up to
    twice as many characters as edits agree (three times as many if neighbours may be transposed).

    Attributes:
        field: the name of a field of texts.
        edits: 1 to 3, with up to 5, 13 and 27 keys for a record.
    """

    field: str
    edits: Annotated[int, Meta(ge=1, le=MOST_EDITS)] = 1

    def __str__(self) -> str:
        return f"{self.field} within {self.edits} {'edit' if self.edits == 1 else 'edits'}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.field,)

    @property
    def key_count(self) -> int:
        # Of a text so long that no window ends with it, and the one of short texts.
        counts = (
            len(_window(number, self.edits, self.edits, shorter, 4 * self.edits))
            for number in range(self.edits + 1)
            for shorter in range(self.edits + 1)
        )
        return 1 + sum(counts)

    def require_fitting(self, fields: Fields) -> None:
        _require_texts("Edits", self.names, fields)

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        gap = int(fields[self.field].compare in ("alignment", "damerau"))
        digest = _digests(secret)

        def keys(features: RecordFeatures) -> UInt64s:
            column = features.columns[self.field]
            hashed = np.zeros((len(column.canonical) + 1, self.key_count), np.uint64)
            for row, text in enumerate(column.canonical):
                own = [digest(piece) for piece in dict.fromkeys(_pieces(text, self.edits, gap))]
                hashed[row, : len(own)] = own
            return hashed[column.codes]

        return keys

    def least_loss(self, fields: Fields) -> Fraction:
        field = fields[self.field]
        is_distance = field.is_edited and not field.equivalents
        return field.loss_beyond(self.edits + 1) if is_distance else Fraction(0)


class Alike(Part, frozen=True, tag_field="by", tag="alike"):
    """Two records agree if they have enough words in common.

    The words of all given fields form a set. Two sets agree, with a stated probability, if a band
    of their minhashes agrees (MMDS 3.4). Bands and rows are chosen to reach the recall at the
    similarity. More similar sets agree more often: with the defaults 17 % of those at 0.2, 95 % at
    0.5 and 99.9 % at 0.65.

    With a recall of 1, two sets agree if they share one of their rarest words, where so many words
    count that two such similar sets must share one (the prefix of MMDS 3.9.4). No such pair is
    missed among records of up to 31 / (1 - similarity) words, 62 at 0.5; of larger records the 32
    rarest words count. ``Record.counted`` counts how rare words are. Without these counts the order
    of words is arbitrary, and common words propose many pairs.

    Attributes:
        fields: a field of texts, or several.
        similarity: the Jaccard similarity of sets from which on pairs should be found: a number or
            text (``"2/3"``), which stays text where no float prints as it.
        of: ``"words"``, or the length of q-grams: 3 for runs of three characters, with a blank
            before and after a text.
        recall: the share of the pairs at the similarity that should agree.
        frequencies: in how many records each word is, for a recall of 1; words of a single record
            are left out.
    """

    fields: str | Sequence[str]
    similarity: Annotated[float, Meta(gt=0, le=1)] | str = 0.5
    of: Literal["words"] | Annotated[int, Meta(ge=1, le=64)] = "words"
    recall: Annotated[float, Meta(gt=0, le=1)] = 0.95
    frequencies: Mapping[str, int] | Sequence[tuple[str, Annotated[int, Meta(ge=1)]]] = ()

    def __post_init__(self) -> None:
        problem = f"Alike.fields must be a field's name or several, not {short(self.fields)}"
        names = listed(self.fields, problem, one=str)
        if not names:
            raise ConfigurationError(problem)
        self._set("fields", names)
        least = Threshold.parse(self.similarity, name="Alike.similarity").fraction
        is_float = exact_fraction(float(least)) == least
        self._set("similarity", float(least) if is_float else str(least))
        super().__post_init__()
        self._set("recall", float(self.recall))  # a whole 1 is stored as it is read again
        self._set("frequencies", sorted_pairs(self.frequencies))
        _ = self.key_count  # which may refuse

    def __str__(self) -> str:
        pieces = "words" if self.of == "words" else f"{self.of}-grams"
        return f"{' and '.join(self.fields)} alike in {pieces} from {self._shown}"

    @property
    def _shown(self) -> str:
        least = self.similarity
        return least if isinstance(least, str) else f"{least:g}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.fields)

    @property
    def misses_nothing(self) -> bool:
        """Whether sets agree by their rarest words."""
        return self.recall == 1

    @property
    def plan(self) -> Plan:
        """The bands and rows, and the probability that pairs of any similarity agree."""
        least = exact_fraction(self.similarity)
        share = max(float(least), _LEAST_PLANNED)
        times = math.ceil(max(1.0, (TWO_ROWS_FROM / share) ** 2))
        request = PlanRequest(exact_fraction(self.recall), row_budget=times * ROWS_OF_ALIKE)
        return plan(least, request)

    @property
    def key_count(self) -> int:
        return RAREST_WORDS if self.misses_nothing else self.plan.bands

    def require_fitting(self, fields: Fields) -> None:
        _require_texts("Alike", self.names, fields)

    def hasher(self, fields: Fields, secret: UInt64s) -> Hasher:
        hashed = self._rarest(secret) if self.misses_nothing else self._banded(secret)

        def keys(features: RecordFeatures) -> UInt64s:
            sets, places = self._sets(fields, features)
            return hashed(sets)[places]

        return keys

    def counted(self, fields: Fields, features: RecordFeatures) -> Part:
        if not self.misses_nothing:
            return self
        sets, places = self._sets(fields, features)
        counted: Counter[str] = Counter()
        for place, records in enumerate(np.bincount(places, minlength=len(sets)).tolist()):
            counted.update(dict.fromkeys(sets[place], records))
        return self.changed(frequencies={word: n for word, n in counted.items() if n > 1})

    def _banded(self, secret: UInt64s) -> Callable[[list[list[str]]], UInt64s]:
        """Return what makes keys of the bands of minhashes of sets of words."""
        family = MinHash("fast", self.plan.bands, self.plan.rows, secret.tobytes())
        digest = _digests(secret)

        def keys(sets: list[list[str]]) -> UInt64s:
            symbols = {piece: digest(piece) for piece in {*chain.from_iterable(sets)}}
            values = np.array([symbols[piece] for piece in chain.from_iterable(sets)], np.uint64)
            sizes = np.array(list(map(len, sets)), np.int64)
            signatures = family.sign(SymbolSets(values, offsets_of(sizes)))
            hashed = family.band_keys(signatures)
            hashed[~signatures.any(axis=1)] = 0
            return hashed

        return keys

    def _rarest(self, secret: UInt64s) -> Callable[[list[list[str]]], UInt64s]:
        """Return what makes keys of the rarest words of sets."""
        frequencies = dict(cast("tuple[tuple[str, int], ...]", self.frequencies))
        least = Threshold(exact_fraction(self.similarity))
        digest = _digests(secret)

        def keys(sets: list[list[str]]) -> UInt64s:
            rising = sorted(
                (frequencies.get(piece, 1), digest(piece), piece)
                for piece in {*chain.from_iterable(sets)}
            )
            ranks = {piece: rank for rank, (_, _, piece) in enumerate(rising)}
            words = np.array([word for _, word, _ in rising], np.uint64)
            hashed = np.zeros((len(sets), RAREST_WORDS), np.uint64)
            prefixes: dict[int, int] = {}
            for row, pieces in enumerate(sets):
                ordered = sorted({ranks[piece] for piece in pieces})
                size = len(ordered)
                if size not in prefixes:
                    prefixes[size] = min(least.prefix_length(size), RAREST_WORDS)
                count = prefixes[size]
                hashed[row, :count] = words[ordered[:count]]
            return hashed

        return keys

    def _sets(self, fields: Fields, features: RecordFeatures) -> tuple[list[list[str]], Int64s]:
        """Return the words of each different record, and the place of each record among them."""
        columns = [features.columns[name] for name in self.fields]
        known = [fields[name] for name in self.fields]
        codes = np.stack([column.codes for column in columns], axis=1)
        distinct, places = np.unique(codes, axis=0, return_inverse=True)
        sets = [
            [
                piece
                for field, column, code in zip(known, columns, row, strict=True)
                if code >= 0
                for piece in self._pieces(field, column.canonical[code])
            ]
            for row in distinct.tolist()
        ]
        return sets, places.reshape(-1)

    def _pieces(self, field: Field, text: str) -> Iterable[str]:
        if self.of == "words":
            return field.words_of(text)
        padded = f" {text} "
        return (padded[at : at + self.of] for at in range(max(1, len(padded) - self.of + 1)))


PARTS: dict[str, type[Part]] = {"within": Within, "edits": Edits, "alike": Alike, "near": Near}

Rule: TypeAlias = tuple[Part, ...]


def rule_of(given: object) -> Rule:
    """Return a rule as the tuple of all its parts, which may be in their plain form."""
    problem = f"a rule must be an Equal, a field's name or a tuple of them, not {short(given)}"
    rule = []
    for part in listed(given, problem, one=str | Part | Mapping):
        made = part
        if isinstance(part, str):
            made = Equal(part)
        elif isinstance(part, Mapping):
            made = _restored(part)
        if not isinstance(made, Part):
            raise ConfigurationError(
                "a rule consists of Equal, Within, Near, Edits, Alike and field names, "
                f"not {short(part)}"
            )
        rule.append(made)
    if not rule:
        raise ConfigurationError("a rule must name a field, or all records would be candidates")
    return tuple(rule)


def _restored(plain: Mapping[str, Any]) -> Part:
    settings = dict(plain)
    by = settings.pop("by", None)
    if by is not None and by not in PARTS:
        raise ConfigurationError(
            f"a part of a rule is by {by!r}, which is none of {', '.join(PARTS)}; without 'by' it "
            "is of equal fields"
        )
    named = next((name for name in PARTS if name in settings), None)
    if by is None and named is not None:
        raise ConfigurationError(
            f'a part of a rule that is by {named!r} is written as {{"by": "{named}", ...}}'
        )
    return (Equal if by is None else PARTS[by]).restored(settings)


def key_count_of(rule: Rule) -> int:
    """The most keys of a record by a rule."""
    return math.prod(part.key_count for part in rule)


def certain_loss(rules: Sequence[Rule], fields: Fields) -> Fraction:
    """Return the points that two records surely lose, or more, that agree in no rule.

    Of every rule one part at least does not hold, which costs the points of its field; the cheapest
    such parts are sought among all choices. 0 where there are too many.
    """
    costs: list[list[tuple[str, Fraction]]] = []
    for rule in rules:
        losses = [(part.names[0], part.least_loss(fields)) for part in rule]
        if all(loss for _, loss in losses):  # else it may fail at no cost
            costs.append(losses)
    levels: dict[str, set[Fraction]] = {}
    for name, loss in (each for losses in costs for each in losses):
        levels.setdefault(name, {Fraction(0)}).add(loss)
    if math.prod(map(len, levels.values())) > _LARGEST_CHOICE:
        return Fraction(0)
    choices = (dict(zip(levels, chosen, strict=True)) for chosen in product(*levels.values()))
    return min(
        sum(lost.values(), Fraction(0))
        for lost in choices
        if all(any(lost[name] >= loss for name, loss in losses) for losses in costs)
    )


def _require_texts(owner: str, names: Sequence[str], fields: Fields) -> None:
    for name in names:
        if not fields[name].is_text:
            raise ConfigurationError(
                f"{owner}({name!r}) is for texts, but the field is compared by "
                f"{fields[name].compare!r}"
            )


# -- hashes ---------------------------------------------------------------------------------------


def _digests(secret: UInt64s) -> Callable[[str], int]:
    """Return a function from texts to words of 64 bits that are not 0, keyed by a secret."""
    key = secret.astype("<u8").tobytes()

    def digest(text: str) -> int:
        word = int.from_bytes(blake2b(key + text.encode(), digest_size=8).digest(), "little")
        return word or 1

    return digest


def column_hashes(
    column: RecordColumn, secret: UInt64s, transformations: Sequence[str] = ()
) -> UInt64s:
    """Return a hash of what transformations make of each record's value; 0 if nothing is left.

    The values are hashed by BLAKE2b with the secret before them, each different one once.
    """
    texts: Iterable[str] = column.canonical
    if transformations:
        texts = map(chained(transformations), texts)
    key = secret.astype("<u8").tobytes()
    digests = b"".join(
        blake2b(key + text.encode(), digest_size=8).digest() if text else _NO_DIGEST
        for text in texts
    )
    # The last one is what the code of a missing value, -1, refers to.
    hashes = np.frombuffer(digests + _NO_DIGEST, "<u8").astype(np.uint64)
    return hashes[column.codes]


def _window(number: int, start: int, edits: int, shorter: int, room: int) -> range:
    """Return where a segment of a text can begin in another, ``shorter`` characters longer.

    ``number`` edits at most are before it, the rest behind it; ``room`` is the last place.
    """
    behind = edits - number
    first = max(-number, shorter - behind)
    last = min(number, shorter + behind, room - start)
    return range(start + max(first, -start), start + last + 1)


def _pieces(text: str, edits: int, gap: int) -> Iterator[str]:
    """Yield what stands for the segments of all texts near to one and no longer, its own included.

    Two near texts have one in common: the longer one has it of the length of the shorter.
    """
    for name, begin, end in _cuts(len(text), edits, gap):
        yield name + text[begin:end]


@lru_cache(maxsize=_LENGTHS_KEPT)
def _cuts(size: int, edits: int, gap: int) -> list[tuple[str, int, int]]:
    """Return the name of each piece of a text of some characters, and where it begins and ends."""
    segments = edits + 1
    least = segments + gap * edits  # characters that can be cut
    cuts = [("short", 0, 0)] if size < least + edits else []
    for length in range(max(least, size - edits), size + 1):
        own, more = divmod(length - gap * edits, segments)
        start = 0
        for number in range(segments):
            if number == segments - more:
                own += 1  # the last ones have one character more
            places = _window(number, start, edits, size - length, size - own)
            cuts += [(f"{length} {number} ", place, place + own) for place in places]
            start += own + gap
    return cuts


# -- candidates -----------------------------------------------------------------------------------


class RecordFamily(Family):
    """Hash what each rule makes of a record; equal hashes are one bucket.

    Two different values of a rule have the same hash with a probability of about 2^-63, whoever
    chose them.

    Attributes:
        rules: as the settings have them.
        columns: of each rule, which of an item's keys are its own.
        finds_equal: a record that has a value for no rule has one key, the hash of all its values,
            in the place of the first one. It is odd, and the keys of rules are even.
    """

    def __init__(self, settings: Record, secret: bytes) -> None:
        self.rules = settings.rules
        ends = offsets_of(np.array(list(map(key_count_of, self.rules)), np.int64)).tolist()
        self.columns = [slice(*pair) for pair in pairwise(ends)]
        self._key_count = ends[-1]
        self.words = WORDS_A_KEY * self._key_count
        fields = {field.name: field for field in settings.fields}
        parts = dict.fromkeys(part for rule in self.rules for part in rule)
        words = secret_words(secret, b"simdb.record", _SECRET_WORDS * len(parts))
        secrets = words.reshape(-1, _SECRET_WORDS)
        self._hashers = {
            part: part.hasher(fields, own) for part, own in zip(parts, secrets, strict=True)
        }
        count = sum(map(len, self.rules))
        # Odd factors, so that multiplying is a bijection; another one in each place of each rule.
        self._factors = secret_words(secret, b"simdb.rule", count) | np.uint64(1)
        self.finds_equal = False
        self._secret = secret

    def sign(self, features: RecordFeatures) -> UInt16s:
        """Return the signatures, uint16 (n, words): 64 bits a key, 0 where there is none."""
        hashed = {part: hasher(features) for part, hasher in self._hashers.items()}
        least = np.uint64(2 if self.finds_equal else 1)
        count = len(features)
        keys = np.zeros((count, self._key_count), np.uint64)
        factors = iter(self._factors)
        for rule, own in zip(self.rules, self.columns, strict=True):
            there = np.ones((count, 1), np.bool_)
            state = np.zeros((count, 1), np.uint64)
            for part in rule:  # all combinations of the keys before with those of this part
                hashes = hashed[part][:, np.newaxis, :]
                width = state.shape[1] * hashes.shape[2]
                added = hashes * next(factors)
                state = (state[:, :, np.newaxis] + added).reshape(count, width)
                there = (there[:, :, np.newaxis] & (hashes != 0)).reshape(count, width)
            keys[:, own] = np.maximum(state & ~(least - np.uint64(1)), least) * there
        alone = ~keys.any(axis=1)
        if self.finds_equal and alone.any():
            keys[alone, 0] = self._hashes_of_all(features)[alone]
        return keys.view(np.uint16)

    def _hashes_of_all(self, features: RecordFeatures) -> UInt64s:
        """Return an odd hash of all values of each record, 0 of one without any."""
        secrets = secret_words(self._secret, b"simdb.equal", 5 * len(features.columns))
        state = np.zeros(len(features), np.uint64)
        there = np.zeros(len(features), np.bool_)
        for column, own in zip(features.columns.values(), secrets.reshape(-1, 5), strict=True):
            hashes = column_hashes(column, own[:4])
            there |= hashes != 0
            state += hashes * (own[4] | np.uint64(1))
        return np.where(there, state | np.uint64(1), np.uint64(0))

    def keys(self, signatures: UInt16s) -> UInt64s:
        """Return the keys of signatures, uint64 (n, keys), 0 where there is none."""
        return np.ascontiguousarray(signatures).view(np.uint64)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the bucket keys: those of each rule whose fields all have a value."""
        keys = self.keys(signatures)
        there = keys != 0
        return BucketKeys(keys[there], offsets_of(there.sum(axis=1)))

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return the rule that each key of a single record is by."""
        keys = self.keys(signatures)[0]
        if self.finds_equal and (keys & np.uint64(1) == 1).any():
            return ["equal records"]
        names = [
            f"rule {' and '.join(map(str, rule))}"
            for rule, own in zip(self.rules, self.columns, strict=True)
            for _ in range(own.stop - own.start)
        ]
        return [name for name, key in zip(names, keys.tolist(), strict=True) if key]

    def keys_of_rule(self, signatures: UInt16s, number: int) -> UInt64s:
        """Return the keys of one rule, without those that equal records alone share."""
        keys = self.keys(signatures)[:, self.columns[number]].copy()
        if self.finds_equal:
            keys[keys & np.uint64(1) == 1] = 0
        return keys

    def agreeing_rules(self, left: UInt16s, right: UInt16s) -> Bools:
        """Tell which rules pairs of signatures agree in, (pairs, rules)."""
        shared = [
            common_keys(self.keys_of_rule(left, number), self.keys_of_rule(right, number)) > 0
            for number in range(len(self.rules))
        ]
        return np.stack(shared, axis=1)


def common_keys(left: UInt64s, right: UInt64s) -> Int64s:
    """Count the keys, in rows without repeats, that two rows each have in common; 0 is none."""
    common = np.zeros(len(left), np.int64)
    others = list(map(np.ascontiguousarray, used_columns(right).T))
    for column in map(np.ascontiguousarray, used_columns(left).T):
        same = np.zeros(len(left), np.bool_)
        for other in others:
            same |= column == other
        common += same & (column != 0)
    return common


def used_columns(keys: UInt64s) -> UInt64s:
    """Return the columns in which any row has a key: few where there may be many."""
    return keys[:, keys.any(axis=0)]


def _buckets(keys: UInt64s) -> tuple[UInt64s, Int64s, Int64s, Int64s]:
    """Return the keys that rows have, where each begins in the rows, how often, and rows by key."""
    rows, columns = np.nonzero(keys)
    values = keys[rows, columns]
    order = np.argsort(values, kind="stable")
    distinct, begins, sizes = np.unique(values[order], return_index=True, return_counts=True)
    return distinct, begins, sizes, rows[order]


def meetings(*tables: UInt64s) -> tuple[Int64s, list[tuple[Int64s, Int64s, Int64s]]]:
    """Return how many pairs share each key, of one table or of two; and of each table its rows.

    Of two tables these are the keys that both have. Rows are by key: where each begins, how many
    they are, and all of them.
    """
    known = list(map(_buckets, tables))
    if len(known) == 1:
        _, begins, sizes, rows = known[0]
        return sizes * (sizes - 1) // 2, [(begins, sizes, rows)]
    (ones, *_), (others, *_) = known
    _, *common = np.intersect1d(ones, others, assume_unique=True, return_indices=True)
    both = zip(known, common, strict=True)
    sides = [(begins[own], sizes[own], rows) for (_, begins, sizes, rows), own in both]
    return sides[0][1] * sides[1][1], sides


def proposed(*tables: UInt64s) -> dict[str, int]:
    """Count what a rule makes candidates of, by the keys of one table, (n, keys), or of two.

    ``records`` have a key, ``buckets`` are different ones, ``largest`` records have the same, which
    makes ``largest_pairs`` of them, and ``pairs`` are candidates. Where pairs may share several
    keys they meet as often: their number is that of all meetings by the mean of 1 / keys shared,
    over all or over 32,768 meetings. Of two tables, buckets are keys that both have, and records
    those of both.
    """
    met, sides = meetings(*tables)
    (begins, sizes, rows), (other_begins, other_sizes, other_rows) = sides[0], sides[-1]
    ends = np.concatenate([[0], np.cumsum(met)])
    pairs = total = int(ends[-1])
    if tables[0].shape[1] > 1 and total:
        sampled = np.unique(np.linspace(0, total - 1, SAMPLED_MEETINGS).astype(np.int64))
        own = np.searchsorted(ends, sampled, side="right") - 1
        place = sampled - ends[own]
        if len(tables) == 1:  # the place of the pair (i, j) with i < j is j (j - 1) / 2 + i
            later = ((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
            later -= later * (later - 1) // 2 > place
            later += later * (later + 1) // 2 <= place
            earlier = place - later * (later - 1) // 2
        else:
            earlier, later = np.divmod(place, other_sizes[own])
        left, right = rows[begins[own] + earlier], other_rows[other_begins[own] + later]
        shared = common_keys(tables[0][left], tables[-1][right])
        pairs = round(total * float(np.mean(1 / shared)))
    largest_pairs = int(met.max(initial=0))
    both = sizes if len(tables) == 1 else sizes + other_sizes
    return {
        "records": sum(int(table.any(axis=1).sum()) for table in tables),
        "buckets": met.size,
        "largest": int(both[met == largest_pairs].max(initial=0)),
        "largest_pairs": largest_pairs,
        "pairs": pairs,
    }
