"""What every way of answering does, and its answers as callers see them: their values, their keys.

They are in ``buckets`` (by the probable index), ``exact`` (an index of symbols, or memory),
``slabs`` (items at hand, sorted so that near ones lie together) and ``scan`` (everything with
everything). ``choose`` says which one answers a question; each says of itself what that would cost.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, structs

from simdb.answers.compare import Ranked
from simdb.answers.costs import Task
from simdb.answers.exact.probe import Prober
from simdb.answers.ranking import Ranking
from simdb.arguments import WHOLE_NUMBER
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.errors import CorruptionError, KeyNotFoundError, UsageError, WrongTypeError
from simdb.exact.measures import SetSimilarity
from simdb.exact.thresholds import Bound
from simdb.forest import Forest
from simdb.kinds import Kind
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.ragged import distinct_of
from simdb.results import (
    Guarantee,
    Key,
    KeyColumn,
    Lookup,
    Match,
    Matches,
    PairBatch,
    Progress,
    listed,
)
from simdb.storage.collection.reader import FEW, CollectionReader
from simdb.storage.tables.layout import (
    Document,
    decode_user_key,
    decode_user_keys,
    encode_user_key,
    unpack,
)

T = TypeVar("T")

ProgressCallback: TypeAlias = Callable[[Progress], None]

# A batch of pairs by item number, in values as the index has them, and the token to go on after it.
Batches: TypeAlias = Iterator[tuple[PairBatch, str | None]]

# The same in values as callers know them, with what looks up the keys and metadata of each side.
AnsweredBatch: TypeAlias = tuple[PairBatch, tuple[Lookup, Lookup], str | None]

WITHOUT_DOCUMENT = "an item that was found has no document; run 'simdb check'"
_SORTED_AS_FAST = 64  # values beside those that are wanted


class Method(Struct, frozen=True):
    """A way of answering, for one bound."""

    bound: Bound
    # The share of the true matches *at* the bound that is expected to be found; nan if unknown.
    recall: float = 1.0
    measure: SetSimilarity = SetSimilarity.JACCARD  # where items have symbols
    resume: str | None = None  # the token to go on after, of one that ``can_resume``
    guarantee: ClassVar[Guarantee] = "exact"
    name: ClassVar[str]  # what ``explain`` calls it
    sorts: ClassVar[bool] = False  # near pairs of items at hand are found without comparing all

    @property
    def can_resume(self) -> bool:
        """Whether its pairs come with tokens to go on after."""
        return False

    def promise(self, kind: Kind) -> Guarantee:
        """Return what its answers about items of a kind promise."""
        return "estimate" if kind.estimates else self.guarantee

    @abstractmethod
    def search(self, opened: Opened, item: bytes, limit: int | None) -> Matches:
        """Find the stored items that are similar to one item in canonical form, best first."""

    def search_many(
        self, opened: Opened, items: Sequence[bytes], limit: int | None
    ) -> list[Matches]:
        """Search for each of several items."""
        return [self.search(opened, item, limit) for item in items]

    @abstractmethod
    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Yield all pairs of live items with one of a number from ``since`` on, each once."""

    @abstractmethod
    def join(self, left: Opened, right: Opened) -> Batches:
        """Yield all pairs of a live left and a live right item that are similar enough, each once.

        The index of the right collection answers, and its signer cuts the items of both.
        """

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Find the groups of items connected by similar pairs."""
        forest = Forest(opened.reader.places())
        for batch, _ in self.pairs(opened):
            chosen = _chosen(batch, opened, opened)
            forest.connect(chosen.left, chosen.right)
            if progress is not None:
                progress(Progress("comparing", opened.work.looked_at, None))
        return forest.groups()

    def is_served_by(self, settings: CollectionSettings) -> bool:
        """Whether a collection, perhaps rebuilt meanwhile, has the index for what is promised."""
        return True

    def prober(self, opened: Opened) -> Prober | None:
        """What looks items up in the exact index, if that is what answers."""
        return None

    # -- what it would cost --------------------------------------------------------------------

    def looked_at(self, task: Task) -> float:
        """Estimate by counts how many items, or pairs, are looked at."""
        return task.everything

    def steps(self, task: Task) -> float:
        """Estimate what is looked at, and what takes as long besides."""
        return self.looked_at(task)

    def seconds(self, task: Task) -> float:
        """Estimate how long the answer takes one thread."""
        return self.looked_at(task) * task.rates(self.bound).scanned

    # -- matches -------------------------------------------------------------------------------

    def matches(
        self, opened: Opened, found: Ranked, limit: int | None, *, candidates: int | None = None
    ) -> Matches:
        """Make an answer of what is within the bound: the best first, equal ones by item number.

        ``candidates`` is how many items were compared, if not those of ``found``.
        """
        numbers, values, met = found.numbers, found.values, found.met
        compared = values.size if candidates is None else candidates
        if not met.size:
            return self.answer(opened, (), compared)
        order = self.bound.order(values[met])
        if opened.only is None:
            best = met[best_first(order, limit)]
        else:
            ranked = met[best_first(order)]
            best = ranked[opened.only.first(numbers[ranked], limit)]
        read = found.documents
        chosen = None if read is None else [read[place] for place in best.tolist()]
        rows = self._rows(opened, numbers[best], values[best], chosen)
        return self.answer(opened, rows, compared)

    def answer(self, opened: Opened, rows: Sequence[Match], compared: int) -> Matches:
        """Make an answer of matches, the best first, and of how many items were compared."""
        kind = opened.settings.kind
        promise = self.promise(kind)
        of_numbers = not rows and opened.has_number_keys
        told = kind.is_distance, opened.with_metadata, of_numbers
        return Matches(tuple(rows), promise, self.recall, compared, *told)

    def matches_of_many(
        self,
        opened: Opened,
        found: Iterable[tuple[Int64s, UInt32s, Float64s]],
        candidates: Sequence[int],
        limit: int | None,
    ) -> list[Matches]:
        """Make the answers of several probes.

        ``found`` is, of what is within the bound, in parts, the position of the probe, the number
        and the value; ``candidates`` of each probe, with how many items it was compared.
        """
        ranking = Ranking(self.bound, len(candidates), limit, opened.only)
        for part in found:
            ranking.add(*part)
        probes, numbers, values = ranking.ranked()
        rows = self._rows(opened, numbers, values, None) if numbers.size else []
        kind = opened.settings.kind
        promise = self.promise(kind)
        told = kind.is_distance, opened.with_metadata, opened.has_number_keys
        bounds = [0, *np.cumsum(np.bincount(probes, minlength=len(candidates))).tolist()]
        answers: list[Matches] = []
        without: dict[int, Matches] = {}  # matches, by candidates: most that find none are equal
        for (begin, end), count in zip(pairwise(bounds), candidates, strict=True):
            known = without.get(count) if begin == end else None
            if known is None:
                known = Matches(tuple(rows[begin:end]), promise, self.recall, count, *told)
                if begin == end:
                    without[count] = known
            answers.append(known)
        return answers

    def _rows(
        self,
        opened: Opened,
        numbers: UInt32s,
        values: Float64s,
        documents: Sequence[Document] | None,
    ) -> list[Match]:
        """Make the matches of some items; their documents are read if they have not been."""
        kind = opened.settings.kind
        metadata: list[Mapping[str, Any] | None] = []
        if documents is None:
            try:
                keys = keys_of_numbers(opened.reader, numbers)
                if opened.with_metadata:
                    distinct, places = distinct_of(numbers)
                    told = metadata_column(opened.reader, distinct)
                    metadata = [told[place] for place in places.tolist()]
            except KeyNotFoundError as error:
                raise CorruptionError(WITHOUT_DOCUMENT) from error
        else:
            keys = [decode_user_key(document.key) for document in documents]
            if opened.with_metadata:
                metadata = list(map(metadata_of, documents))
        if kind.is_distance:
            rows = [
                Match(key, distance=value) for key, value in zip(keys, values.tolist(), strict=True)
            ]
        else:
            if self.measure is SetSimilarity.JACCARD:
                values = kind.outer_values(values)
            rows = list(map(Match, keys, values.tolist()))
        if kind.estimates:
            rows = [structs.replace(row, estimated=True) for row in rows]
        if metadata:
            rows = [
                structs.replace(row, metadata=own) for row, own in zip(rows, metadata, strict=True)
            ]
        return rows


# -- instead ---------------------------------------------------------------------------------


class NoRoomError(Exception):
    """Items were expected to fit into memory, and do not; another method answers instead.

    Raised before any pair is found, and caught by ``by_what_has_room``: no caller sees it.
    """

    def __init__(self, instead: Method) -> None:
        super().__init__(instead.name)
        self.instead = instead


def by_what_has_room(method: Method, find: Callable[[Method], T]) -> T:
    """Find an answer by a method, or by what takes its place if items turn out not to fit."""
    try:
        return find(method)
    except NoRoomError as error:
        instead = error.instead
    return find(instead)


# -- groups ----------------------------------------------------------------------------------


def connected(
    method: Method, opened: Opened, progress: ProgressCallback | None = None
) -> list[UInt32s]:
    """Find the groups of items connected by similar pairs of those that the question is about."""
    if opened.only is None:
        return method.groups(opened, progress)
    return Method.groups(method, opened, progress)  # no quicker way, which would connect others


def metadata_of_groups(
    opened: Opened, found: Sequence[UInt32s]
) -> list[list[Mapping[str, Any] | None]] | None:
    """Return the metadata of the items of groups, None where they are not asked for."""
    if not opened.with_metadata:
        return None
    distinct, places = distinct_of(np.concatenate([np.empty(0, np.uint32), *found]))
    metadata = metadata_column(opened.reader, distinct)
    told = [metadata[place] for place in places.tolist()]
    ends = np.cumsum([0, *map(len, found)]).tolist()
    return [told[begin:end] for begin, end in pairwise(ends)]


# -- pairs -------------------------------------------------------------------------------------


def answered(
    method: Method, left: Opened, right: Opened, batches: Batches
) -> Iterator[AnsweredBatch]:
    """Turn pairs into what callers see; of one collection ``left`` and ``right`` are the same.

    Those with an item that the question is not about are left out.
    """
    known = lookups(left, right)
    for inner, token in batches:
        batch = inner
        if method.measure is SetSimilarity.JACCARD:
            batch = outer_pairs(left.settings.kind, inner)
        yield _chosen(batch, left, right), known, token


def lookups(left: Opened, right: Opened) -> tuple[Lookup, Lookup]:
    """Return what looks up keys and metadata of either side; of one collection it is the same."""
    known = Lookup(partial(key_column, left.reader), partial(metadata_column, left.reader))
    if left is right:
        return known, known
    return known, Lookup(partial(key_column, right.reader), partial(metadata_column, right.reader))


def _chosen(batch: PairBatch, left: Opened, right: Opened) -> PairBatch:
    """Leave out the pairs with an item that the question is not about."""
    for numbers, side in (("left", left), ("right", right)):
        if side.only is not None and len(batch):
            accepted = side.only.among(getattr(batch, numbers))
            if not accepted.all():
                batch = batch.select(np.flatnonzero(accepted))
    return batch


def outer_pairs(kind: Kind, batch: PairBatch) -> PairBatch:
    """Give pairs the similarities that callers know."""
    values = kind.outer_values(batch.similarity)
    if values is batch.similarity:
        return batch
    return PairBatch(batch.left, batch.right, values)


def number_of(opened: Opened, key: Key) -> int:
    """Look up the item number of a key; KeyNotFoundError if it is not stored."""
    number = opened.reader.find(encode_user_key(key))
    if number is None:
        raise not_stored(opened.reader, opened.settings.name, key)
    return number


def not_stored(
    reader: CollectionReader, collection: str, key: Key, more: str = ""
) -> KeyNotFoundError:
    """What to raise for a key; it says whether the number, or the text, of its digits is stored."""
    problem = f"key {key!r} is not stored in {collection!r}"
    other: Key = str(key) if isinstance(key, int) else key
    if isinstance(key, str) and WHOLE_NUMBER.fullmatch(key):
        other = int(key)
    with contextlib.suppress(UsageError):  # a number that no key can be
        if other != key and reader.find(encode_user_key(other)) is not None:
            form = "number" if isinstance(other, int) else "text"
            told = f"{problem}, but the {form} {other!r} is{more}"
            return KeyNotFoundError(told, key=key, stored=other)
    return KeyNotFoundError(f"{problem}{more}", key=key)


def keys_of_live(collection: CollectionReader, numbers: Sequence[int] | UInt32s) -> list[Key]:
    """Look up the keys of item numbers that a caller gives.

    KeyNotFoundError: one is not stored, or not any more. WrongTypeError: they are not numbers.
    """
    try:
        given = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        given = np.array(None)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise WrongTypeError("item numbers must be a list of whole numbers, as in a PairBatch")
    for number in given[(given < 0) | (given >= 2**32)].tolist():
        raise KeyNotFoundError(f"{number} is not an item number")
    wanted = given.astype(np.uint32)
    for number in wanted[~collection.alive(wanted)].tolist():
        raise KeyNotFoundError(f"item number {number} was deleted")
    return keys_of_numbers(collection, wanted)


def keys_of_numbers(collection: CollectionReader, numbers: UInt32s) -> list[Key]:
    """Look up the keys of item numbers in any order; KeyNotFoundError if one is not stored."""
    if numbers.size <= FEW:
        return _few_keys(collection, numbers)
    distinct, places = distinct_of(numbers)
    keys = listed(key_column(collection, distinct))
    return [keys[place] for place in places.tolist()]


def metadata_of(document: Document) -> Mapping[str, Any] | None:
    """Return the metadata of a document, None where it has none."""
    return unpack(document.metadata) if len(document.metadata) else None


def metadata_column(
    collection: CollectionReader, numbers: UInt32s
) -> list[Mapping[str, Any] | None]:
    """Look up the metadata of ascending item numbers; KeyNotFoundError if one is not stored."""
    found, encoded = collection.metadata_of(numbers)
    if found.size < numbers.size:
        raise _missing(numbers, found)
    return [unpack(one) if one else None for one in encoded]


def key_column(collection: CollectionReader, numbers: UInt32s) -> KeyColumn:
    """Look up the keys of ascending item numbers; KeyNotFoundError if one is not stored.

    Up to ``FEW`` may come in any order, and repeat.
    """
    if numbers.size <= FEW:
        return _few_keys(collection, numbers)
    places, column = collection.keys_of(numbers)
    if places.size < numbers.size:
        raise _missing(numbers, places)
    return decode_user_keys(column)


def _few_keys(collection: CollectionReader, numbers: UInt32s) -> list[Key]:
    """Look up the keys of ``FEW`` item numbers at most, as ``key_column`` does."""
    encoded = collection.known_keys(numbers)
    if b"" in encoded:
        found = dict(collection.each_key(numbers))
        if len(found) < numbers.size:
            raise _missing(numbers, [*found])
        encoded = list(map(bytes, found.values()))
    return list(map(decode_user_key, encoded))


def _missing(numbers: UInt32s, found: Int64s | list[int]) -> KeyNotFoundError:
    """Return what to raise of item numbers of which only those at some places are found."""
    return KeyNotFoundError(f"item number {np.delete(numbers, found)[0]} is not stored")


def best_first(order: Float64s, limit: int | None = None) -> Int64s:
    """Return the places of all values, or of so many, the least first; equal ones as they stand."""
    if limit is None or order.size <= limit + _SORTED_AS_FAST:
        return order.argsort(kind="stable")[:limit]
    if not limit:
        return np.empty(0, np.int64)
    last = np.partition(order, limit - 1)[limit - 1]
    near = np.flatnonzero(~(order > last))  # a value that is no number is the last
    return near[order[near].argsort(kind="stable")][:limit]
