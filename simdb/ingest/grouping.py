"""The groups that a collection keeps, changed by the commit that changes its items.

A *level* is a bound. At each, every pair of live items that was found when the later of the two was
added is noted with that item, its *edges*; of equal items that chain, only that they are equal. An
item that is added joins what its edges lead to. From what an item leaves, the edges of those that
stay say what is still connected, so no items are compared again; what only an equal item's edges
say is handed on to one that stays.

Chains are the connected components. Stars are made anew, by ``linkage.clusters``, of the components
that changed, which are kept as a partition of their own, without aliases and log. Which group is
which says ``linkage.living``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from simdb.answers.choose import Question, choose
from simdb.answers.entities import SHARE_OF_CELLS, Scale
from simdb.answers.kept import ACTIONS, components_of, groups_of
from simdb.answers.method import Method
from simdb.arrays import Float64s, UInt32s
from simdb.batches.deciding import MOST_HELD
from simdb.batches.signer import Signed, Signer
from simdb.exact.thresholds import Bound
from simdb.forest import Forest
from simdb.ingest.neighbours import Found, Neighbours
from simdb.kinds.base import Stored
from simdb.linkage.entities import Clustering, SimilarPairs, cluster
from simdb.linkage.living import NO_GROUP, Happened, Share, happened, inherit, shares_of
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened, Resources, WriteAccess
from simdb.ragged import slices_of
from simdb.results import PairBatch
from simdb.storage.collection.groups import Edges, GroupWriter
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables.views import KeyFilter


class Piece(NamedTuple):
    """Items of a component that are connected still, now that others are gone."""

    label: int
    items: tuple[int, ...]


class Whole(NamedTuple):
    """A component that nothing has left."""

    label: int


Node: TypeAlias = "int | Piece | Whole"  # a number is that of an item that is in no component


class _Arrived:
    """Rows that come at a level, and what their pairs connect.

    Attributes:
        first: the number that the first row gets.
        rows: how many there are.
        over: what is stored that they are connected with, each with a row of these.
    """

    def __init__(self, first: int, rows: int) -> None:
        self.first = first
        self.rows = rows
        self.over: dict[Node, int] = {}
        self._forest = Forest(rows)
        # The later row of the first pair of each, of pairs with what is stored, then of those with
        # other rows, then of copies: by this new groups are numbered.
        self._places = np.full(rows, 3 * rows)

    def connect(self, found: Found, node_of: Callable[[int], Node]) -> None:
        """Join what pairs connect; ``node_of`` says what a stored item is in."""
        among = found.earlier >= self.first
        places = found.later + self.rows * (among * (1 + found.equal))
        np.minimum.at(self._places, found.later, places)
        self._forest.connect(found.later[among], found.earlier[among] - self.first)
        later = found.later[~among]
        numbers, firsts, which = np.unique(
            found.earlier[~among], return_index=True, return_inverse=True
        )
        over = [
            self.over.setdefault(node_of(number), row)
            for number, row in zip(numbers.tolist(), later[firsts].tolist(), strict=True)
        ]
        self._forest.connect(later, np.array(over, np.int64)[which])

    def parts(self, pieces: Sequence[Piece]) -> list[list[Node]]:
        """Return what is connected, of pieces, all else that is stored, and rows."""
        roots = self._forest.smallest()
        parts: dict[Piece | int, list[Node]] = {}
        for piece in pieces:
            name = int(roots[self.over[piece]]) if piece in self.over else piece
            parts.setdefault(name, []).append(piece)
        first_places = np.full(self.rows, 3 * self.rows)
        np.minimum.at(first_places, roots, self._places)
        connected = np.flatnonzero(first_places[roots] < 3 * self.rows)
        order = np.argsort(first_places[roots[connected]], kind="stable")
        for row in connected[order].tolist():
            parts.setdefault(int(roots[row]), []).append(self.first + row)
        for node, row in self.over.items():
            if not isinstance(node, Piece):
                parts[int(roots[row])].append(node)
        return list(parts.values())


class Log:
    """What happened to groups in one commit, and the labels that it gave.

    Attributes:
        next_label: the first that is free.
        keys: of items that are gone when it is written.
    """

    def __init__(self, writer: CollectionWriter, tables: GroupWriter) -> None:
        self._writer = writer
        self._tables = tables
        self._before = tables.state()
        self.next_label, self._next_change = self._before
        self.keys: dict[int, bytes] = {}
        self._changes: list[tuple[str, Happened]] = []

    def take_labels(self, count: int) -> range:
        """Return so many labels that nothing has had."""
        taken = range(self.next_label, self.next_label + count)
        self.next_label += count
        return taken

    def tell(self, bound: str, changes: Iterable[Happened], aliases: dict[int, int]) -> None:
        """Note what happened at a bound, and which labels stand for others from now on."""
        for label, stands_for in aliases.items():
            self._tables.add_alias(label, stands_for)
        self._changes += [(bound, change) for change in changes]

    def note_keys(self, numbers: UInt32s) -> None:
        """Note the keys of items, given by ascending numbers."""
        found = self._writer.each_key(numbers)
        self.keys.update((int(numbers[position]), bytes(key)) for position, key in found)

    def write(self) -> None:
        """Store it, with the keys of the items."""
        named = {item for _, change in self._changes for item in change.items} - self.keys.keys()
        self.note_keys(np.array(sorted(named), np.uint32))
        changes = [
            [
                *(ACTIONS.index(change.action), bound, change.group, change.other),
                [self.keys[item] for item in change.items],
            ]
            for bound, change in self._changes
        ]
        self._tables.log(self._next_change, changes)
        now = self.next_label, self._next_change + len(changes)
        if now != self._before:
            self._tables.set_state(*now)


class Keeper:
    """Keeps the groups of a collection within one transaction.

    Args:
        writer: of the collection.
        settings: those at present; they say which groups are kept.
        signer: by which its rows are signed.
        access: says what memory may be taken.
    """

    def __init__(
        self,
        writer: CollectionWriter,
        settings: CollectionSettings,
        signer: Signer,
        access: WriteAccess,
    ) -> None:
        assert settings.groups is not None
        self._writer = writer
        self._settings = settings
        self._signer = signer
        self._access = access
        self._method = settings.groups.method
        self._bounds = [settings.kind.bound_of(bound) for bound in settings.groups.bounds]
        self._tables = GroupWriter(writer.transaction, writer.number)
        self._log = Log(writer, self._tables)
        self._gone: set[int] = set()
        self._pieces: list[dict[int, list[Piece]]] = [{} for _ in self._bounds]
        self._piece_of: list[dict[int, Piece]] = [{} for _ in self._bounds]
        self._was: list[dict[int, tuple[int, int]]] = [{} for _ in self._bounds]
        self._arrived = [_Arrived(0, 0) for _ in self._bounds]

    # -- items that go ---------------------------------------------------------------------------

    def leave(self, numbers: Iterable[int]) -> None:
        """Note that items go, before they do."""
        self._gone = set(numbers)
        labelled: set[int] = set()
        for level in range(len(self._bounds)):
            component, group = components_of(level), groups_of(level, self._method)
            touched: set[int] = set()
            for number in sorted(self._gone):
                label = self._tables.label(component, number)
                told = label if component == group else self._tables.label(group, number)
                if label or told:
                    self._was[level][number] = label, told
                    labelled.add(number)
                touched.add(label)
            for label in touched - {NO_GROUP}:
                pieces = self._pieces[level][label] = self._pieces_of(level, label)
                self._piece_of[level].update(
                    (one, piece) for piece in pieces for one in piece.items
                )
            for number in self._was[level]:
                self._tables.set_edges(level, number, Edges.none())
        self._log.note_keys(np.array(sorted(labelled), np.uint32))

    def _pieces_of(self, level: int, label: int) -> list[Piece]:
        """Cut a component by what goes of it."""
        members = self._tables.members(components_of(level), label)
        edges = {number: self._tables.edges(level, number) for number in members.tolist()}
        if any(one.is_copy for one in edges.values()):
            edges.update(self._handed_on(level, members, edges))
        staying = [number not in self._gone for number in members.tolist()]
        stays = members[np.array(staying, np.bool_)]
        leads = [edges[number].items for number in stays.tolist()]
        counts = np.array([len(items) for items in leads], np.int64)
        forest = Forest(stays.size)
        for some in slices_of(counts, MOST_HELD):
            others = np.concatenate(leads[some])
            places = np.minimum(np.searchsorted(stays, others), stays.size - 1)
            own = np.repeat(np.arange(stays.size)[some], counts[some])
            stay = stays[places] == others
            forest.connect(own[stay], places[stay])
        labels = forest.labels()
        order = np.argsort(labels, kind="stable")
        parts = np.split(stays[order], np.flatnonzero(np.diff(labels[order])) + 1)
        return [Piece(label, tuple(part.tolist())) for part in parts if part.size]

    def _handed_on(
        self, level: int, members: UInt32s, edges: Mapping[int, Edges]
    ) -> dict[int, Edges]:
        """Note the edges of equal items, of which some go, with those that stay; return these.

        The first of them that stays gets the edges of all, the others an edge to that one.
        """
        classes = self._classes(members, edges)
        heads = {number: head for head, some in classes.items() for number in some}
        leads: dict[int, set[int]] = defaultdict(set)  # from head to head, either way
        for number, head in heads.items():
            for one in edges[number].items.tolist():
                other = heads.get(one, head)
                if other != head:
                    leads[head].add(other)
                    leads[other].add(head)
        changed: dict[int, Edges] = {}
        for head, some in classes.items():
            if len(some) > 1:
                to_head = Edges(np.array([head], np.uint32), np.empty(0), is_copy=True)
                changed.update((number, to_head) for number in some)
                changed[head] = Edges(np.array(sorted(leads[head]), np.uint32), np.empty(0))
        for number in changed.keys() - self._gone:
            self._tables.set_edges(level, number, changed[number])
        return changed

    def _classes(self, members: UInt32s, edges: Mapping[int, Edges]) -> dict[int, list[int]]:
        """Return items by the first one that is equal and stays; none of which all equals go."""
        equal: dict[bytes, list[int]] = defaultdict(list)
        for position, document in self._writer.documents_of(members):
            equal[bytes(document.item)].append(int(members[position]))
        classes: dict[int, list[int]] = {}
        for own in equal.values():
            # Equal items of which none is a copy are not similar to themselves.
            copied = any(edges[number].is_copy for number in own)
            for some in [own] if copied else [[number] for number in own]:
                head = next((number for number in some if number not in self._gone), None)
                if head is not None:
                    classes[head] = some
        return classes

    # -- items that come -------------------------------------------------------------------------

    def arrive(
        self, items: Sequence[Stored], signed: Signed, first: int, stored_keys: KeyFilter
    ) -> None:
        """Note what rows are similar to that get numbers from a first on, at each level.

        To be called before they are stored.
        """
        if not items:
            return
        self._writer.transaction.note_insertion()
        with self._writer.transaction.before() as snapshot:
            before = CollectionReader(snapshot, self._settings.number)
            resources = Resources(self._access.memory)
            opened = Opened(self._settings, self._signer, before, resources)
            for level, bound in enumerate(self._bounds):
                neighbours = Neighbours(
                    opened,
                    choose(self._settings, Question("add", bound)),
                    items,
                    signed,
                    whole=self._method == "star",
                    gone=np.array(sorted(self._gone), np.uint32),
                    first=first,
                    stored_keys=stored_keys,
                )
                arrived = self._arrived[level] = _Arrived(first, len(items))
                for found in neighbours.in_ranges():
                    self._note_edges(level, found, first)
                    arrived.connect(found, partial(self._node_of, level))

    def settle(self) -> None:
        """Change the groups, when all items have gone and come; the last step."""
        for level in range(len(self._bounds)):
            pieces = [piece for some in self._pieces[level].values() for piece in some]
            parts = self._arrived[level].parts(pieces)
            if parts or self._was[level]:
                self._change(level, parts)
        self._log.write()

    def _node_of(self, level: int, item: int) -> Node:
        """Return what a stored item is in."""
        label = self._tables.label(components_of(level), item)
        return self._piece_of[level].get(item) or (Whole(label) if label else item)

    def _note_edges(self, level: int, found: Found, first: int) -> None:
        order = np.lexsort((found.earlier, found.later))
        weights = np.empty(0)
        if self._method == "star":
            weights = self._weights(self._bounds[level], found.values[order])
        later, earlier, equal = found.later[order], found.earlier[order], found.equal[order]
        cuts = np.append(np.flatnonzero(np.diff(later, prepend=-1)), later.size).tolist()
        for begin, end in pairwise(cuts):
            own = slice(begin, end)
            is_copy = bool(equal[own].any()) and self._method == "chain"
            edges = Edges(earlier[own].astype(np.uint32), weights[own], is_copy=is_copy)
            self._tables.set_edges(level, int(later[begin]) + first, edges)

    def _weights(self, bound: Bound, values: Float64s) -> Float64s:
        kind = self._settings.kind
        nothing = np.zeros(values.size, np.uint32)
        told = values if kind.is_distance else kind.outer_values(values)
        batch = PairBatch.of(nothing, nothing, told, is_distance=kind.is_distance)
        return self._scale(bound).weights(batch)

    def _scale(self, bound: Bound) -> Scale:
        method: Method = choose(self._settings, Question("add", bound))
        return Scale.of(method, self._settings.kind)

    # -- which group is which --------------------------------------------------------------------

    def _change(self, level: int, parts: Sequence[Sequence[Node]]) -> None:
        """Change the components of a level to what is connected now, and what is told."""
        partition = components_of(level)
        made = inherit(*_inherited(self._pieces[level], parts), self._log.next_label)
        self._log.take_labels(len(made.new))
        moved: dict[int, tuple[int, int]] = {
            item: (label, NO_GROUP) for item, (label, _) in self._was[level].items() if label
        }
        for part, label in zip(parts, made.ids, strict=True):
            for one in part:
                was = one.label if isinstance(one, Piece | Whole) else NO_GROUP
                if not isinstance(one, Whole) or was != label:
                    moved.update((item, (was, label)) for item in self._items(partition, one))
        self._relabel(partition, moved)
        if self._method == "chain":
            self._tell(level, happened(moved, made), made.aliases)
            return
        region: set[int] = set()
        for part, label in zip(parts, made.ids, strict=True):
            for one in [Whole(label)] if label else part:
                region.update(self._items(partition, one))
        self._make_stars(level, region)

    def _items(self, partition: int, node: Node) -> Sequence[int]:
        if isinstance(node, Piece):
            return node.items
        if isinstance(node, Whole):
            found: list[int] = self._tables.members(partition, node.label).tolist()
            return found
        return [node]

    def _relabel(self, partition: int, moved: dict[int, tuple[int, int]]) -> None:
        for item, (was, now) in sorted(moved.items()):
            if was != now:
                self._tables.set_label(partition, item, was, now)

    def _make_stars(self, level: int, region: set[int]) -> None:
        """Cluster components anew, and find out which star is which."""
        partition = groups_of(level, "star")
        items = np.array(sorted(region), np.uint32)
        left, right, weights = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)], [np.empty(0)]
        for number in items.tolist():
            edges = self._tables.edges(level, number)
            inside = np.isin(edges.items, items)
            left.append(edges.items[inside])
            right.append(np.full(int(inside.sum()), number, np.uint32))
            weights.append(edges.weights[inside])
        pairs = SimilarPairs.of(
            np.concatenate(left), np.concatenate(right), np.concatenate(weights)
        )
        scale = self._scale(self._bounds[level])
        room = self._access.memory // SHARE_OF_CELLS
        found = cluster(pairs, SimilarPairs.none(), Clustering("star", scale.least, room))
        stars = [tuple(sorted(group.tolist())) for group in found.groups()]
        starred = {item for star in stars for item in star}
        before = {item: self._tables.label(partition, item) for item in region}
        stars += [(item,) for item in sorted(region - starred) if before[item]]
        was = {item: told for item, (_, told) in self._was[level].items() if told}
        shares = {**dict.fromkeys(was.values(), ()), **shares_of(stars, before)}
        made = inherit(shares, list(map(len, stars)), self._log.next_label)
        self._log.take_labels(len(made.new))
        moved = {item: (label, NO_GROUP) for item, label in was.items()}
        for star, label in zip(stars, made.ids, strict=True):
            moved.update((item, (before[item], label)) for item in star)
        self._relabel(partition, moved)
        self._tell(level, happened(moved, made), made.aliases)

    # -- what is told ----------------------------------------------------------------------------

    def _tell(self, level: int, changes: Iterable[Happened], aliases: dict[int, int]) -> None:
        self._log.tell(str(self._bounds[level].fraction), changes, aliases)


def _inherited(
    pieces: Mapping[int, Sequence[Piece]], parts: Sequence[Sequence[Node]]
) -> tuple[dict[int, list[Share]], list[int]]:
    """Return where the items of each component are now, and the sizes of those now."""
    shares: dict[int, list[Share]] = {label: [] for label in pieces}
    sizes = [0] * len(parts)
    for place, part in enumerate(parts):
        for one in part:
            if isinstance(one, Piece):
                shares[one.label].append(Share(len(one.items), one.items[0], place))
                sizes[place] += len(one.items)
            elif isinstance(one, Whole):
                shares[one.label] = [Share(1, 0, place)]  # of all its items
                sizes[place] += 2
            else:
                sizes[place] += 1
    return shares, sizes
