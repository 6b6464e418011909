"""What people said of pairs, as it is stored: the labels whose keys are there, and the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdb.answers.method import number_of
from simdb.arguments import is_whole, several, short
from simdb.errors import ConfigurationError, WrongTypeError
from simdb.opened.labels import Label, of_collection
from simdb.opened.opened import Opened
from simdb.results import Key
from simdb.storage.collection.reader import stored_settings
from simdb.storage.tables.layout import encode_user_key

Labelled = tuple[Key, Key, bool]
Said = tuple[Key, Key, bool | None]  # None forgets what was said
_OF = "triples of two keys and True or False"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of pairs; iterating gives (left key, right key, whether they match), sorted by keys.

    Attributes:
        pairs: the labels whose keys are both stored.
        deleted: labels with a key that is no longer stored; they are kept but do not count.
    """

    pairs: tuple[Labelled, ...]
    deleted: tuple[Labelled, ...] = ()

    def __iter__(self) -> Iterator[Labelled]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def require(self) -> Labels:
        """Return them; ConfigurationError if there are none."""
        if self.pairs:
            return self
        lost = f" of whose keys all are stored ({len(self.deleted):,} have lost one)"
        raise ConfigurationError(
            f"there are no labels{lost if self.deleted else ''}: Collection.label, or simdb label, "
            "stores what is said about pairs"
        )

    @property
    def doubts(self) -> list[str]:
        """What is to be warned of."""
        count = len(self.deleted)
        told = f"{count:,} labelled {'pair has' if count == 1 else 'pairs have'} lost a key"
        return [f"{told}, and count for nothing"] if count else []


def other_name(left: Opened, right: Opened) -> str:
    """Return how labels name the collection of right keys; one of another store with a line end.

    No name of a collection has one: to rename or drop a namesake here leaves these labels alone.
    """
    if left is right:
        return ""
    own, other = (side.reader.transaction.environment for side in (left, right))
    return right.settings.name + "\n" * (own is not other)


def stored(left: Opened, right: Opened) -> Labels:
    """Return the labels of pairs of two collections, or of one."""
    other = {other_name(left, right)}
    if stored_settings(left.reader.transaction, right.settings.name) is None:
        other.add(right.settings.name)  # of another store, as earlier versions have named it
    found: tuple[list[Labelled], list[Labelled]] = [], []
    for label in of_collection(left.reader.transaction, left.settings.number):
        if label.other in other:
            there = all(
                side.reader.find(encode_user_key(key)) is not None
                for side, key in ((left, label.left), (right, label.right))
            )
            found[not there].append((label.left, label.right, label.match))
    ordered = (sorted(part, key=_in_order) for part in found)
    return Labels(*map(tuple, ordered))


def _in_order(labelled: Labelled) -> tuple[bytes, bytes]:
    return encode_user_key(labelled[0]), encode_user_key(labelled[1])


def read(given: Iterable[tuple[Key, Key, bool | None]]) -> list[Said]:
    """Read what a caller says of pairs; WrongTypeError: something is no label."""
    return list(map(_read, several("labels", given, _OF)))


def said(left: Opened, right: Opened, given: list[Said]) -> tuple[list[Label], list[Label]]:
    """Return what is to be kept, and what to be forgotten, of what is said of pairs.

    KeyNotFoundError: a key of a label to be kept is not stored. ConfigurationError: an item is said
    to match itself, or not to.
    """
    other = other_name(left, right)
    kept: dict[bytes, Label] = {}
    forgotten: dict[bytes, Label] = {}
    for one, another, match in given:
        label = Label.of(other, one, another, match=bool(match))
        if match is None:
            kept.pop(label.name, None)
            forgotten[label.name] = label
            continue
        numbers = number_of(left, one), number_of(right, another)
        if left is right and numbers[0] == numbers[1]:
            raise ConfigurationError(f"a label is about two items, not about {one!r} twice")
        forgotten.pop(label.name, None)
        kept[label.name] = label
    return list(kept.values()), list(forgotten.values())


def to_learn_from(given: Iterable[tuple[Key, Key, bool]], *, is_one: bool) -> Iterator[Labelled]:
    """Yield labels that a caller gives, of pairs of two collections or of one.

    WrongTypeError: something is no label. ConfigurationError: two labels contradict each other.
    """
    known: dict[tuple[Key, Key] | frozenset[Key], bool] = {}
    for label in several("labels", given, _OF):
        one, another, match = _read(label)
        if match is None:
            raise WrongTypeError(f"a label to learn from must be True or False, not {short(label)}")
        pair = frozenset((one, another)) if is_one else (one, another)
        if known.setdefault(pair, match) != match:
            raise ConfigurationError(
                f"contradictory labels: {one!r} and {another!r} match, and do not match"
            )
        yield one, another, match


def _read(given: Any) -> Said:
    try:
        left, right, match = given
    except (TypeError, ValueError):
        left = right = match = given
    is_number = is_whole(match) and match in (0, 1)
    if match is not None and not is_number and not isinstance(match, bool | np.bool_):
        raise WrongTypeError(
            f"a label must be two keys and True or False, or None to forget it, not {short(given)}"
        )
    for key in (left, right):
        encode_user_key(key)
    return left, right, None if match is None else bool(match)
