"""Making the groups that a collection keeps anew, from all pairs: one commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb import kernels, recipe
from simdb.answers.choose import Question, choose
from simdb.answers.entities import SHARE_OF_CELLS, Scale
from simdb.answers.kept import ACTIONS, components_of, groups_of
from simdb.answers.method import ProgressCallback, answered, keys_of_numbers
from simdb.arguments import short
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.batches.meeting import are_shared
from simdb.batches.signer import Signer
from simdb.errors import CorruptionError
from simdb.exact.thresholds import Bound
from simdb.ingest.grouping import Log
from simdb.linkage.entities import Clustering, SimilarPairs, cluster
from simdb.linkage.living import NO_GROUP, happened, inherit, shares_of
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings, GroupMethod, KeptGroups
from simdb.opened.opened import Opened, Resources, WriteAccess
from simdb.places import Places
from simdb.ragged import sizes_of
from simdb.results import Key, PairBatch, Progress
from simdb.storage.collection.groups import END, Edges, GroupReader, GroupWriter
from simdb.storage.collection.manifest import IndexManifest
from simdb.storage.collection.reader import CollectionReader, chosen_items, live_batches
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables.layout import decode_user_key, encode_user_key


def regroup(
    access: WriteAccess,
    before: CollectionSettings,
    wanted: KeptGroups | None,
    progress: ProgressCallback | None = None,
) -> None:
    """Make the groups that are wanted, or forget all, in a commit of its own."""
    with access.write() as transaction:
        present = catalogue.present_settings(transaction, before)
        writer = CollectionWriter(transaction, present.number)
        settings = replace(present, groups=wanted)
        make_groups(access, writer, present.groups, settings, progress=progress)
        catalogue.write_settings(transaction, settings)


def make_groups(
    access: WriteAccess,
    writer: CollectionWriter,
    before: KeptGroups | None,
    settings: CollectionSettings,
    *,
    progress: ProgressCallback | None = None,
    known: dict[str, dict[int, int]] | None = None,
) -> None:
    """Make all groups anew, or forget them; ids go to the groups that ``linkage.living`` says.

    They are made of all pairs that the index of ``writer`` finds, which may be another than the one
    that is switched from; all entries of it must have been committed. ``known`` are the ids of
    items at each bound, if not those that are stored. Writers wait meanwhile. All pairs are held in
    memory.
    """
    tables = GroupWriter(writer.transaction, writer.number)
    if settings.groups is None:
        if before is not None:
            tables.clear(whole=True)
        return
    index = IndexManifest.decode(writer.manifest.index.encode())  # a copy: that one changes
    with writer.transaction.before() as snapshot:
        reader = CollectionReader(snapshot, writer.number, index)
        resources = Resources(access.memory, access.pool)
        opened = Opened(settings, Signer(settings), reader, resources)
        if known is None:
            known = known_groups(tables, before)
        _Regrouping(opened, writer, tables, known, progress).run()


def known_groups(tables: GroupReader, kept: KeptGroups | None) -> dict[str, dict[int, int]]:
    """Return of each bound which item has which label."""
    if kept is None:
        return {}
    return {
        str(bound): dict(tables.labels(groups_of(level, kept.method)))
        for level, bound in enumerate(kept.bounds)
    }


def plain_groups(opened: Opened) -> dict[str, Any] | None:
    """Return the groups that are kept, with their ids and their log, as JSON has it."""
    kept = opened.settings.groups
    if kept is None:
        return None
    tables = GroupReader(opened.reader.transaction, opened.reader.number)
    return plain_of(
        tables,
        kept,
        lambda numbers: keys_of_numbers(opened.reader, np.array(numbers, np.uint32)),
    )


def plain_of(
    tables: GroupReader, kept: KeptGroups, keys_of: Callable[[Sequence[int]], Iterable[Key]]
) -> dict[str, Any]:
    """Return groups as JSON has them, by what tells the keys of item numbers."""
    labels: dict[str, dict[int, list[Key]]] = {}
    for bound, known in known_groups(tables, kept).items():
        found = labels.setdefault(bound, {})
        for key, label in zip(keys_of([*known]), known.values(), strict=True):
            found.setdefault(label, []).append(key)
    return {
        "state": tables.state(),
        "first": tables.first_change(),
        "aliases": list(tables.aliases()),
        "groups": {bound: list(found.items()) for bound, found in labels.items()},
        "changes": [
            [*change[:4], list(map(decode_user_key, change[4]))] for _, change in tables.changes(1)
        ],
    }


def restore_groups(access: WriteAccess, settings: CollectionSettings, plain: Any) -> None:
    """Make the groups of a collection that was filled anew, by what ``plain_groups`` told.

    Items that are not there any more have left. ValueError and its like: it told nothing such, or
    what ``check`` calls damaged.
    """
    with access.write() as transaction:
        present = catalogue.present_settings(transaction, settings)
        writer = CollectionWriter(transaction, present.number)
        tables = GroupWriter(transaction, present.number)
        next_label, next_change = map(_number, plain["state"])
        first = _number(plain["first"]) if "first" in plain else 1
        for alias, label in plain["aliases"]:
            tables.add_alias(_number(alias), _number(label))
        changes = [
            [
                _number(action),
                _read_bound(bound),
                _number(label),
                _number(other),
                _encoded(keys),
            ]
            for action, bound, label, other, keys in plain["changes"]
        ]
        if len(changes) != next_change - first:
            raise ValueError("changes of groups are missing")
        known: dict[str, dict[int, int]] = {}
        for told, groups in {**plain["groups"]}.items():
            bound = _read_bound(told)
            own = known.setdefault(bound, {})
            for label, keys in groups:
                found = {key: writer.find(key) for key in _encoded(keys)}
                own.update((item, _number(label)) for item in found.values() if item is not None)
                lost = [key for key, item in found.items() if item is None]
                if lost:
                    changes.append([ACTIONS.index("left"), bound, _number(label), 0, lost])
        tables.begin_log(first)
        tables.log(first, changes)
        tables.set_state(next_label, first + len(changes))
        if any(not 0 < label < next_label for own in known.values() for label in own.values()):
            raise ValueError("a group has an id that no group has had")
        for _, _, problem in problems_of_log(tables):
            if problem:
                raise ValueError(problem)
        settings = replace(present, groups=settings.groups)
        make_groups(access, writer, None, settings, known=known)
        catalogue.write_settings(transaction, settings)


def _number(plain: Any) -> int:
    """Return what numbers a group, a change or an action; ValueError: it is no such number."""
    if type(plain) is not int or not 0 <= plain < END:
        raise ValueError(f"{short(plain)} is no number of a group or a change")
    return plain


def _read_bound(text: Any) -> str:
    """Return the bound that a text spells; ValueError: it spells none."""
    try:
        return str(recipe.fraction(text))
    except ZeroDivisionError as error:
        raise ValueError(f"{text!r} is no bound") from error


def _encoded(keys: Iterable[Key]) -> list[bytes]:
    return list(map(encode_user_key, keys))


def groups_problems(opened: Opened, *, deep: bool) -> Iterator[tuple[str, int, str]]:
    """Yield of each bound at which groups are kept how many records were read, and what is wrong.

    The problem is empty where there is none.
    """
    kept = opened.settings.groups
    assert kept is not None
    tables = GroupReader(opened.reader.transaction, opened.reader.number)
    live = opened.reader.live_numbers()
    equal = Equal.of(opened, kept.method) if deep else None
    yield from problems_of_log(tables)
    for level, fraction in enumerate(kept.bounds):
        bound = str(fraction)
        labels: dict[int, dict[int, int]] = {}
        for partition in sorted({components_of(level), groups_of(level, kept.method)}):
            labels[partition] = own = dict(tables.labels(partition))
            yield bound, len(own), ""
            if own != {item: label for label, item in tables.all_members(partition)}:
                yield bound, 0, "what items say of their groups is not what groups say of items"
            if not np.isin(np.array([*own], np.uint32), live).all():
                yield bound, 0, "an item that is not stored is in a group"
        chains = labels[components_of(level)]
        pairs = _edges(tables, level, chains)
        yield bound, len(pairs.left), ""
        if _parts(chains) != _groups_of(pairs, "chain"):
            yield bound, 0, "groups are not what the pairs between their items connect"
        if np.isnan(pairs.weights).any():
            yield bound, 0, "pairs are not weighed; rebuild(groups='star') makes the groups anew"
        stars = labels[groups_of(level, kept.method)]
        if kept.method == "star" and _parts(stars) != _groups_of(pairs, "star"):
            yield bound, 0, "stars are not those of the pairs between their items"
        if equal is not None:
            found = all_pairs(opened, opened.settings.kind.bound_of(fraction), equal).pairs
            if _parts(stars) != _groups_of(found, kept.method):
                yield bound, 0, "groups are not those of all pairs that the index finds"


def problems_of_log(tables: GroupReader) -> Iterator[tuple[str, int, str]]:
    """Yield how many records tell what became of groups, and what is wrong with them."""
    next_label, next_change = tables.state()
    first = tables.first_change()
    if not (0 < next_label < END and 0 < first <= next_change < END):
        numbers = f"{next_label:,}, {first:,} and {next_change:,}"
        yield "", 0, f"the next group, first and next change cannot be {numbers}"
        return
    told = next_change - first
    largest = count = 0
    for alias, label in tables.aliases():
        largest = max(largest, alias, label)
        if not 0 < label < alias:
            yield "", 0, f"group {alias:,} is an alias of {label:,}, which is no older group"
    for number, change in tables.changes(1):
        count += 1
        if not _can_have_been(change):
            yield "", count, f"change {number:,} of the groups cannot be read"
            return
        largest = max(largest, *change[2:4])
    if count != told:
        yield "", 0, f"{count:,} changes of the groups are logged, and not {told:,}"
    if largest >= next_label:
        yield "", 0, f"there is a group {largest:,}, beyond the last number, {next_label - 1:,}"
    yield "", 1 + count, ""


def _can_have_been(change: Any) -> bool:
    """Whether a logged change says what can have become of groups."""
    action, bound, label, other, keys = change
    try:
        deque(map(decode_user_key, keys), 0)
        is_known = action in range(len(ACTIONS)) and label >= 1 and other >= 0
        return is_known and _read_bound(bound) == bound
    except (ValueError, CorruptionError):
        return False


def _edges(tables: GroupReader, level: int, labels: Mapping[int, int]) -> SimilarPairs:
    """Return what is noted between the items of one component each; without weights, 1."""
    left, right, weights = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)], [np.empty(0)]
    for item in tables.edge_items(level):
        edges = tables.edges(level, item)
        inside = np.array([labels.get(one) == labels.get(item, -1) for one in edges.items.tolist()])
        inside = inside.astype(np.bool_)
        left.append(edges.items[inside])
        right.append(np.full(int(inside.sum()), item, np.uint32))
        weights.append(edges.weights[inside] if edges.weights.size else np.ones(left[-1].size))
    return SimilarPairs.of(np.concatenate(left), np.concatenate(right), np.concatenate(weights))


def _groups_of(pairs: SimilarPairs, method: GroupMethod) -> set[frozenset[int]]:
    found = cluster(pairs, SimilarPairs.none(), Clustering(method, 0.0, 0))
    return {frozenset(members.tolist()) for members in found.groups()}


def _parts(labels: Mapping[int, int]) -> set[frozenset[int]]:
    """Return the groups of two items or more that labels say."""
    parts: dict[int, set[int]] = {}
    for item, label in labels.items():
        parts.setdefault(label, set()).add(item)
    return {frozenset(items) for items in parts.values() if len(items) > 1}


class AllPairs(NamedTuple):
    """What a collection keeps its groups by.

    Attributes:
        pairs: with their weights; in chains, of what is equal and similar to an earlier item only
            the one with the first of these, of any weight.
        copies: the item numbers of what that is.
        scale: of the weights.
    """

    pairs: SimilarPairs
    copies: set[int]
    scale: Scale


class Equal(NamedTuple):
    """Which live items are equal.

    Attributes:
        places: of the live items.
        first: by place, that of the first item of the same stored form.
        sizes: by place, the bytes of the item.
    """

    places: Places
    first: UInt32s
    sizes: Int64s

    @classmethod
    def of(cls, opened: Opened, method: GroupMethod) -> Equal:
        """Return what matters for a method: in stars, which need all pairs, nothing is equal."""
        places = opened.reader.places()
        if method == "chain":
            return cls(places, *first_equal(opened, places))
        own = np.arange(places.size, dtype=np.uint32)
        return cls(places, own, np.zeros(places.size, np.int64))


def all_pairs(
    opened: Opened,
    bound: Bound,
    equal: Equal,
    progress: ProgressCallback | None = None,
) -> AllPairs:
    """Return the pairs of a collection that those find who keep its groups.

    Only two of equal items are looked at, which tell whether these are similar.
    """
    method = choose(opened.settings, Question("add", bound))
    scale = Scale.of(method, opened.settings.kind)
    places, first, sizes = equal
    own = np.arange(places.size, dtype=np.uint32)
    while True:
        copies = np.flatnonzero(first != own).astype(np.uint32)
        seconds = copies[np.unique(first[copies], return_index=True)[1]]
        others = copies[~np.isin(copies, seconds)]
        without = opened.reader.without(places.numbers(others), int(sizes[others].sum()))
        few = replace(opened, reader=without)
        is_copy, linked, missed = np.zeros((3, own.size), np.bool_)
        is_copy[copies] = True
        parts = [PairBatch(np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0))]
        for batch, _, _ in answered(method, few, few, method.pairs(few)):
            left, right = places.of(batch.left), places.of(batch.right)
            linked[left[first[right] == left]] = True
            apart = is_copy[left] | is_copy[right]
            missed[left[apart]] = missed[right[apart]] = True
            parts.append(batch.select(np.flatnonzero(~apart)))
            if progress is not None:
                progress(Progress("grouping", opened.work.looked_at, None))
        # What the index does not find to be similar to its equals has pairs of its own.
        unlike = first[seconds[missed[seconds] & ~linked[first[seconds]]]]
        if not unlike.size:
            break
        first = np.where(np.isin(first, unlike), own, first)
    copies = copies[linked[first[copies]]]
    numbers = places.numbers(copies)
    whole = PairBatch.together(parts)
    pairs = SimilarPairs.of(
        np.concatenate([whole.left, places.numbers(first[copies])]),
        np.concatenate([whole.right, numbers]),
        np.concatenate([scale.weights(whole), np.full(copies.size, scale.least)]),
    )
    return AllPairs(pairs, set(numbers.tolist()), scale)


def first_equal(opened: Opened, places: Places) -> tuple[UInt32s, Int64s]:
    """Return, by place, that of the first item of the same stored form, and the bytes of that.

    By checksums, and of items that share one by digests of BLAKE2b: two that differ have the same
    with a chance of 2^-128.
    """
    first = np.arange(places.size, dtype=np.uint32)
    sizes = np.zeros(first.size, np.int64)
    numbers, checksums = [np.empty(0, np.uint32)], [np.empty(0, np.uint64)]
    for batch in live_batches(opened.reader):
        values, offsets = batch.items.values, batch.items.offsets
        seeds = np.zeros(batch.numbers.size, np.uint64)
        found = kernels.checksums.checksums(values, offsets[:-1], offsets[1:], seeds)
        numbers.append(batch.numbers)
        checksums.append(found)
        sizes[places.of(batch.numbers)] = sizes_of(offsets)
    live, keys = np.concatenate(numbers), np.concatenate(checksums)
    order = kernels.runs.order_of(keys)
    repeated = np.sort(live[order[are_shared(keys[order])]])
    firsts: dict[bytes, int] = {}
    for chosen, items in chosen_items(opened.reader, repeated):
        same = (blake2b(item, digest_size=16).digest() for item in items)
        own = places.of(repeated[chosen])
        first[own] = [*map(firsts.setdefault, same, own.tolist())]
    return first, sizes


class _Regrouping:
    """Groups of all levels, made anew."""

    def __init__(
        self,
        opened: Opened,
        writer: CollectionWriter,
        tables: GroupWriter,
        known: dict[str, dict[int, int]],
        progress: ProgressCallback | None,
    ) -> None:
        assert opened.settings.groups is not None
        self._opened = opened
        self._tables = tables
        self._progress = progress
        self._kept = opened.settings.groups
        self._equal = Equal.of(opened, self._kept.method)
        self._known = known
        self._log = Log(writer, tables)

    def run(self) -> None:
        """Make them."""
        self._tables.clear(whole=False)
        kind = self._opened.settings.kind
        for level, fraction in enumerate(self._kept.bounds):
            self._make(level, kind.bound_of(fraction), self._known.pop(str(fraction), {}))
        for bound, labels in self._known.items():  # that is kept no more
            moved = {item: (label, NO_GROUP) for item, label in labels.items()}
            self._log.tell(bound, happened(moved, inherit({}, [], 0)), {})
        self._log.write()

    def _make(self, level: int, bound: Bound, known: dict[int, int]) -> None:
        found = all_pairs(self._opened, bound, self._equal, self._progress)
        pairs, scale = found.pairs, found.scale
        is_star = self._kept.method == "star"
        self._note_edges(level, found, with_weights=is_star)
        room = self._opened.resources.memory // SHARE_OF_CELLS
        nothing = SimilarPairs.none()
        chains = cluster(pairs, nothing, Clustering("chain", scale.least, room)).groups()
        if is_star:
            for members in chains:
                (label,) = self._log.take_labels(1)
                for item in np.sort(members).tolist():
                    self._tables.set_label(components_of(level), item, NO_GROUP, label)
            chains = cluster(pairs, nothing, Clustering("star", scale.least, room)).groups()
        groups = [sorted(members.tolist()) for members in chains]
        grouped = {item for members in groups for item in members}
        groups += [[item] for item in sorted(known.keys() - grouped)]
        made = inherit(shares_of(groups, known), list(map(len, groups)), self._log.next_label)
        self._log.take_labels(len(made.new))
        moved = {}
        for own, label in zip(groups, made.ids, strict=True):
            for item in own:
                moved[item] = known.get(item, NO_GROUP), label
                if label:
                    partition = groups_of(level, self._kept.method)
                    self._tables.set_label(partition, item, NO_GROUP, label)
        self._log.tell(str(bound.fraction), happened(moved, made), made.aliases)

    def _note_edges(self, level: int, found: AllPairs, *, with_weights: bool) -> None:
        for item, left, weights in _by_later(found.pairs):
            noted = weights if with_weights else weights[:0]
            is_copy = item in found.copies
            self._tables.set_edges(level, item, Edges(left, noted, is_copy=is_copy))


def _by_later(pairs: SimilarPairs) -> Iterator[tuple[int, UInt32s, Float64s]]:
    """Yield every item with the earlier ones that it is similar to."""
    order = np.lexsort((pairs.left, pairs.right))
    later = pairs.right[order]
    cuts = np.append(np.flatnonzero(np.append(True, later[1:] != later[:-1])), later.size)
    if not later.size:
        return
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        own = order[begin:end]
        yield int(later[begin]), pairs.left[own], pairs.weights[own]
