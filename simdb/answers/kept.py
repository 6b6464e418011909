"""The groups that a collection keeps: of an item, by id, and what happened to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby, islice
from operator import index, itemgetter

import numpy as np
from msgspec.structs import replace

from simdb.answers.choose import Question, choose
from simdb.answers.method import keys_of_numbers, not_stored
from simdb.arguments import can_be_iterated, is_whole, require_choice, short
from simdb.errors import (
    ConfigurationError,
    GroupNotFoundError,
    Remedy,
    ThresholdTooLowError,
    WrongTypeError,
)
from simdb.exact.thresholds import Bound, ThresholdLike
from simdb.kinds import Kind
from simdb.opened.catalogue import (
    GROUP_METHODS,
    MOST_LEVELS,
    CollectionSettings,
    GroupMethod,
    KeptGroups,
)
from simdb.opened.opened import Opened
from simdb.results import GroupAction, GroupChange, KeptGroup, Key
from simdb.storage.collection.groups import GroupReader
from simdb.storage.tables.layout import decode_user_key, encode_user_key

ACTIONS: tuple[GroupAction, ...] = ("created", "joined", "left", "merged", "split")

_OF_OTHER_BOUNDS = [
    Remedy("groups_at", ..., "keeps them at other bounds"),
    Remedy("drop_groups", value=True, effect="keeps none"),
]

GROUPS_AT_ONCE = 256  # whose keys are read together


def components_of(level: int) -> int:
    """Return the partition of a level into what its edges connect."""
    return 2 * level


def groups_of(level: int, method: str) -> int:
    """Return the partition of a level into the groups that are told."""
    return 2 * level + (method == "star")


def kept_by(settings: CollectionSettings) -> KeptGroups:
    """Return which groups a collection keeps; ConfigurationError if none."""
    if settings.groups is None:
        raise ConfigurationError(
            f"the collection {settings.name!r} keeps no groups",
            remedies=[Remedy("groups", "chain", "lets it keep them", "rebuild")],
        )
    return settings.groups


def listed(bounds: Iterable[ThresholdLike]) -> list[ThresholdLike]:
    """Return the bounds that a caller asks for; WrongTypeError: it is no list of them."""
    is_several = not isinstance(bounds, str | bytes) and can_be_iterated(bounds)
    found = [*bounds] if is_several else []
    if not is_several or any(bound is None for bound in found):
        raise WrongTypeError(f"groups_at takes several bounds, such as [0.8], not {short(bounds)}")
    return found


def kept_groups_of(
    settings: CollectionSettings,
    method: GroupMethod | None,
    bounds: Iterable[ThresholdLike] | None,
) -> KeptGroups:
    """Return what a caller asks to be kept; what is not said stays, or is the collection's bound.

    ConfigurationError: no such method, or what is added is not looked for at one of the bounds.
    """
    present = settings.groups
    if present is not None:
        method = method or present.method
        if bounds is None:
            bounds = [told_bound(settings, one) for one in present.bounds]
    if method is None:
        raise ConfigurationError(
            "bounds for kept groups are given, but not which groups to keep",
            remedies=[
                Remedy("groups", "chain", "keeps everything that is connected together"),
                Remedy("groups", "star", "keeps items within the bound of a centre together"),
            ],
        )
    require_choice("groups", method, *GROUP_METHODS)
    kind, given = settings.kind, None if bounds is None else listed(bounds)
    if given == [] or (given is not None and len(given) > MOST_LEVELS):
        raise ConfigurationError(
            f"groups are kept at 1 to {MOST_LEVELS} bounds, not at {len(given)}"
        )
    if given is None:
        found = {choose(settings, Question("add", None)).bound.fraction}
    else:
        found = {_parsed(kind, bound).fraction for bound in given}
    kept = KeptGroups(method, tuple(sorted(found, reverse=kind.is_distance)))
    try:
        require_served(settings, kept)
    except ThresholdTooLowError as error:
        # What would help is an argument of the same call.
        remedies = [replace(one, method=None) for one in error.remedies if one.method == "rebuild"]
        problem = f"groups cannot be kept there: {error.problem}"
        raise ThresholdTooLowError(problem, remedies=remedies) from error
    return kept


def require_served(settings: CollectionSettings, kept: KeptGroups) -> None:
    """Raise unless what is added is looked for within each of the bounds of groups."""
    for bound in kept.bounds:
        choose(settings, Question("add", settings.kind.bound_of(bound)))


def require_same_measure(settings: CollectionSettings, kind: Kind) -> None:
    """Raise ConfigurationError if the bounds of kept groups are no bounds of another kind."""
    if settings.groups is not None and kind.is_distance != settings.kind.is_distance:
        measured = "distances" if kind.is_distance else "similarities"
        raise ConfigurationError(
            f"the collection {settings.name!r} keeps groups at {shown_bounds(settings)}, and the "
            f"new settings measure {measured}",
            remedies=_OF_OTHER_BOUNDS,
        )


def require_still_served(settings: CollectionSettings, kept: KeptGroups) -> None:
    """Raise unless other settings of a collection serve the groups that it keeps already."""
    try:
        require_served(settings, kept)
    except ThresholdTooLowError as error:
        raise ThresholdTooLowError(
            f"the collection {settings.name!r} keeps groups at {shown_bounds(settings)}, "
            "which an index of these settings does not serve",
            remedies=_OF_OTHER_BOUNDS,
        ) from error


def _parsed(kind: Kind, bound: ThresholdLike) -> Bound:
    found = kind.parse_bound(*((None, bound) if kind.is_distance else (bound, None)))
    assert found is not None
    return found


def level_of(settings: CollectionSettings, bound: Bound | None) -> int:
    """Return the level of a bound, of none the first; ConfigurationError if there is none."""
    kept = kept_by(settings)
    if bound is None:
        return 0
    if bound.fraction not in kept.bounds:
        argument = "max_distance" if settings.kind.is_distance else "threshold"
        raise ConfigurationError(
            f"{argument} {settings.kind.outer_bound(bound)} is none that the collection "
            f"{settings.name!r} keeps groups at: these are {shown_bounds(settings)}"
        )
    return kept.bounds.index(bound.fraction)


def shown_bounds(settings: CollectionSettings) -> str:
    """Return the bounds of groups as people write them."""
    kind = settings.kind
    return ", ".join(str(kind.outer_bound(kind.bound_of(one))) for one in kept_by(settings).bounds)


def told_bound(settings: CollectionSettings, bound: Fraction) -> Fraction:
    """Return a bound of groups as the caller knows it."""
    return settings.kind.outer_bound(settings.kind.bound_of(bound)).fraction


def _logged_bound(settings: CollectionSettings, bound: Fraction) -> Fraction:
    """Return a bound of the log as the caller knows it.

    One that the kind does not have is of a time when the collection measured something else.
    """
    try:
        return told_bound(settings, bound)
    except ConfigurationError:
        return bound


def group_of(opened: Opened, key: Key, bound: Bound | None) -> KeptGroup:
    """Return the group of an item, of that item alone if it is in none."""
    level, number, label = _labelled(opened, key, bound)
    if label:
        return _group(opened, level, label)
    told = told_bound(opened.settings, kept_by(opened.settings).bounds[level])
    keys = keys_of_numbers(opened.reader, np.array([number], np.uint32))
    return KeptGroup(None, tuple(keys), told)


def group_id(opened: Opened, key: Key, bound: Bound | None) -> int | None:
    """Return the id of the group of an item, None if it is in none; nothing else of it is read."""
    return _labelled(opened, key, bound)[2] or None


def _labelled(opened: Opened, key: Key, bound: Bound | None) -> tuple[int, int, int]:
    """Return the level of a bound, the number of an item, and its label there, 0 for none."""
    level = level_of(opened.settings, bound)
    number = opened.reader.find(encode_user_key(key))
    if number is None:
        raise not_stored(opened.reader, opened.settings.name, key)
    partition = groups_of(level, kept_by(opened.settings).method)
    return level, number, _tables(opened).label(partition, number)


def group(opened: Opened, identity: int) -> KeptGroup:
    """Return a group by its id, or by one that is an alias of it."""
    settings, tables = opened.settings, _tables(opened)
    kept = kept_by(settings)
    if is_whole(identity) and 0 < identity < 2**63:
        label = tables.alias(index(identity))
        for level in range(len(kept.bounds)):
            if tables.members(groups_of(level, kept.method), label).size:
                return _group(opened, level, label)
        if identity < tables.state()[0]:  # perhaps of a step within a commit
            raise GroupNotFoundError(f"there is no group {identity} in {settings.name!r} now")
    raise GroupNotFoundError(f"there was never a group {short(identity)} in {settings.name!r}")


def all_groups(opened: Opened, bound: Bound | None, after: int) -> Iterator[KeptGroup]:
    """Yield the groups of two items or more with a greater id than one, by their ids."""
    level = level_of(opened.settings, bound)
    partition = groups_of(level, kept_by(opened.settings).method)
    told = told_bound(opened.settings, kept_by(opened.settings).bounds[level])
    members = groupby(_tables(opened).all_members(partition, after), key=itemgetter(0))
    groups = ((label, [number for _, number in pairs]) for label, pairs in members)
    several = (group for group in groups if len(group[1]) > 1)
    while some := list(islice(several, GROUPS_AT_ONCE)):
        numbers = np.array([number for _, own in some for number in own], np.uint32)
        keys = iter(keys_of_numbers(opened.reader, numbers))
        for label, own in some:
            yield KeptGroup(label, tuple(islice(keys, len(own))), told)


def changes(opened: Opened, since: int) -> Iterator[GroupChange]:
    """Yield what happened to groups after a change, in the order in which it did."""
    settings, tables = opened.settings, _tables(opened)
    kept_by(settings)
    last = tables.state()[1] - 1
    if since > last:
        raise ConfigurationError(
            f"since={short(since)} is beyond the last change of the groups of {settings.name!r}, "
            f"which is {last}: the store is an earlier state, as after a restore, or another one; "
            "begin again from 0"
        )
    first = tables.first_change()
    if 0 < since < first:
        raise ConfigurationError(
            f"since={since} is a change of groups of {settings.name!r} that were dropped since; "
            f"those of the present ones begin with {first}: begin again from 0"
        )
    for number, (action, bound, group, other, keys) in tables.changes(since + 1):
        yield GroupChange(
            number,
            ACTIONS[action],
            group,
            other or None,
            tuple(map(decode_user_key, keys)),
            _logged_bound(settings, Fraction(bound)),
        )


def _group(opened: Opened, level: int, label: int) -> KeptGroup:
    kept = kept_by(opened.settings)
    numbers = _tables(opened).members(groups_of(level, kept.method), label)
    keys = keys_of_numbers(opened.reader, numbers)
    return KeptGroup(label, tuple(keys), told_bound(opened.settings, kept.bounds[level]))


def _tables(opened: Opened) -> GroupReader:
    return GroupReader(opened.reader.transaction, opened.reader.number)
