"""Groups that stay themselves: which of the groups there were is each of the groups there are?

The rule, for groups before, without what is gone, and groups now, of the same items and more:

- The *heir* of a group is the group now that has most of its items; of several that with the
  first item.
- A group now stays the oldest of the groups that it is heir of; these others become aliases of it.
- What is heir of nothing is new, if it has two items or more. An item that is alone and heir of
  nothing has no group.

Ids are numbers that ascend, so the oldest group is that of the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Action: TypeAlias = Literal["created", "joined", "left", "merged", "split"]
NO_GROUP = 0


class Share(NamedTuple):
    """How many items of an earlier group are in one now, and the first of these."""

    size: int
    first: int
    group: int  # the place of the group now


class Happened(NamedTuple):
    """One change: what became of a group, by items.

    ``created``: a new group of the items. ``joined``: they came to it. ``left``: they have no group
    any more, or come to another. ``merged``: all of the ``other`` came to it, whose id is an alias
    from now on. ``split``: the items went from it to ``other``, which is new.
    """

    action: Action
    group: int
    other: int = NO_GROUP
    items: tuple[int, ...] = ()


@dataclass(slots=True)
class Inheritance:
    """Who is who: the id of each group now, which ids are aliases, and which are new."""

    ids: list[int]
    aliases: dict[int, int] = field(default_factory=dict)
    new: set[int] = field(default_factory=set)


def inherit(
    shares: Mapping[int, Sequence[Share]], sizes: Sequence[int], next_id: int
) -> Inheritance:
    """Give groups ids.

    Args:
        shares: of the id of each group before, where its items are now.
        sizes: of the groups now.
        next_id: the first id that is free.
    """
    found = Inheritance([NO_GROUP] * len(sizes))
    for before in sorted(shares):
        if shares[before]:
            heir = min(shares[before], key=lambda share: (-share.size, share.first)).group
            if found.ids[heir] == NO_GROUP:
                found.ids[heir] = before
            else:
                found.aliases[before] = found.ids[heir]
    for place, size in enumerate(sizes):
        if found.ids[place] == NO_GROUP and size > 1:
            found.ids[place] = next_id + len(found.new)
            found.new.add(found.ids[place])
    return found


def shares_of(groups: Sequence[Sequence[int]], before: Mapping[int, int]) -> dict[int, list[Share]]:
    """Return of each group before where its items are now.

    Args:
        groups: those now, their items ascending.
        before: of items, the id of the group that they were in; 0, or nothing, of none.
    """
    shares: dict[int, list[Share]] = {}
    for place, items in enumerate(groups):
        of_group: dict[int, list[int]] = {}
        for item in items:
            of_group.setdefault(before.get(item, NO_GROUP), []).append(item)
        for group, own in of_group.items():
            if group != NO_GROUP:
                shares.setdefault(group, []).append(Share(len(own), own[0], place))
    return shares


def happened(moved: Mapping[int, tuple[int, int]], inheritance: Inheritance) -> Iterator[Happened]:
    """Yield what happened, in an order in which it can be repeated.

    Args:
        moved: of each item whose id has changed, the id before and that of now.
        inheritance: of all that are named there.
    """
    for before, now in sorted(inheritance.aliases.items()):
        yield Happened("merged", now, before)
    arrived: dict[int, dict[int, list[int]]] = {}  # by the id now, by the id before
    left: dict[int, list[int]] = {}
    for item, (was, now) in sorted(moved.items()):
        before = inheritance.aliases.get(was, was)
        if before == now:
            continue
        arrived.setdefault(now, {}).setdefault(before, []).append(item)
        if before != NO_GROUP:
            left.setdefault(before, []).append(item)
    made = set(inheritance.new)  # those that are not there yet
    for now, sources in sorted(arrived.items()):
        before = max(sources)
        if now in made and before != NO_GROUP and sources.keys() <= {before, NO_GROUP}:
            items = sources.pop(before)
            gone = set(items)
            left[before] = [item for item in left[before] if item not in gone]
            made.discard(now)
            yield Happened("split", before, now, tuple(items))
    for before, others in sorted(left.items()):
        if others:
            yield Happened("left", before, items=tuple(others))
    for now, sources in sorted(arrived.items()):
        came = tuple(sorted(item for some in sources.values() for item in some))
        if now != NO_GROUP and came:
            yield Happened("created" if now in made else "joined", now, items=came)
