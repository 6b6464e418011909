"""What requests and answers consist of: checked, and described by the OpenAPI page, from here."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct, field

Key: TypeAlias = str | int
Number: TypeAlias = float | str
Plain: TypeAlias = str | int | float | bool | None


class Bound(Struct, forbid_unknown_fields=True, kw_only=True):
    """What similar enough means; the collection's own bound if not given.

    ``threshold`` is the least similarity, ``max_distance`` the largest distance, whichever the
    collection measures: a number, or a text such as "4/5".
    """

    threshold: Number | None = None
    max_distance: Number | None = None


class Search(Bound):
    """What to search for: exactly one of ``item``, ``items``, ``key`` and ``keys``.

    ``item`` is as in a line of JSON: a text, a list of elements, numbers or bits, an object of the
    fields of a record. ``key`` is that of a stored item, which is not its own match. ``where``
    names metadata that a match must have; a list stands for any of its values. ``limit`` is 10 if
    not given.
    """

    item: Raw = field(default_factory=Raw)
    items: list[Raw] | None = None
    key: Key | None = None
    keys: list[Key] | None = None
    limit: int | None = None
    guarantee: Literal["auto", "exact", "probable"] = "auto"
    min_recall: float | None = None
    measure: str = "jaccard"
    where: dict[str, Plain | list[Plain]] | None = None
    metadata: bool = True


class Row(Struct, forbid_unknown_fields=True, kw_only=True):
    """An item to store under a key."""

    key: Key
    item: Raw
    metadata: dict[str, Any] | None = None


class Add(Bound):
    """Items to store: one as ``key``, ``item`` and ``metadata``, or several as ``rows``.

    Each is told what it is similar to, of those stored before it; a collection without an index
    is asked that only if ``on_duplicate`` is "skip" or a bound is given. With "skip" what is
    similar to a stored item is not stored. All rows are stored, or none; a key may come once.
    """

    key: Key | None = None
    item: Raw = field(default_factory=Raw)
    metadata: dict[str, Any] | None = None
    rows: list[Row] | None = None
    on_existing: Literal["error", "skip", "replace"] = "skip"
    on_duplicate: Literal["keep", "skip"] = "keep"


class Delete(Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of items to delete; all are deleted, or none."""

    keys: list[Key]
    missing: Literal["error", "skip"] = "error"


class Explain(Bound):
    """Two items to compare: the stored one ``right``, and ``left``, or ``item`` not stored."""

    right: Key
    left: Key | None = None
    item: Raw = field(default_factory=Raw)


# -- answers ---------------------------------------------------------------------------------------


class Match(Struct, kw_only=True, omit_defaults=True):
    """A stored item that is similar, by its similarity or its distance."""

    key: Key
    similarity: float | None = None
    distance: float | None = None
    estimated: bool = False
    metadata: dict[str, Any] | None = None


class Matches(Struct, kw_only=True):
    """The best matches first; ``expected_recall`` is null where none can be stated."""

    matches: list[Match]
    guarantee: Literal["exact", "probable", "estimate"]
    expected_recall: float | None


class ManyMatches(Struct, kw_only=True):
    """The matches of each item, in the order of the request."""

    answers: list[Matches]


class Entry(Struct, kw_only=True):
    """A stored item."""

    key: Key
    item: Any
    metadata: dict[str, Any] | None


class Outcome(Struct, kw_only=True, omit_defaults=True):
    """What became of an item, and the first stored item that it is similar to."""

    key: Key
    action: Literal["added", "replaced", "present", "duplicate"]
    duplicate_of: Key | None = None
    similarity: float | None = None
    distance: float | None = None
    estimated: bool = False
    group: int | None = None


class Outcomes(Struct, kw_only=True):
    """What became of each item, in the order of the request."""

    outcomes: list[Outcome]


class Deleted(Struct, kw_only=True):
    """How many items were deleted."""

    deleted: int


class Group(Struct, kw_only=True):
    """A group that the collection keeps; the id is null of an item that is in none.

    ``bound`` is the least similarity, or the largest distance, of the pairs that it is made of; a
    text such as "1/3" where no decimals are equal to it.
    """

    id: int | None
    keys: list[Key]
    bound: Number


class Groups(Struct, kw_only=True):
    """Groups by their ids; ``next`` is what ``after`` continues with, null at the end."""

    groups: list[Group]
    next: int | None


class Change(Struct, kw_only=True):
    """What happened to a group that the collection keeps, at the bound of that group."""

    number: int
    action: Literal["created", "joined", "left", "merged", "split"]
    group: int
    other: int | None
    keys: list[Key]
    bound: Number


class Changes(Struct, kw_only=True):
    """Changes in their order; go on with ``since`` the last number.

    A ``since`` that is beyond the last change, as after a restore, or of groups that were dropped
    since is refused: begin again from 0.
    """

    changes: list[Change]


class Explanation(Struct, kw_only=True):
    """Why two items are similar, or not.

    ``evidence`` counts what they have in common. Of texts, ``differences`` has a row for each line:
    pieces of the left one, a mark (blank where equal, | where not, < or > where one side lacks the
    line), pieces of the right one; each piece with whether the other side lacks it.
    """

    left: Key | None
    right: Key
    evidence: dict[str, Any]
    differences: list[tuple[list[tuple[str, bool]], str, list[tuple[str, bool]]]] | None


class Collection(Struct, kw_only=True):
    """A collection: how many items of which kind, and its settings."""

    name: str
    items: int | None
    kind: str | None
    like: str | None
    threshold: float | None
    max_distance: float | None
    exact_floor: float | None
    keeps_groups: bool
    problem: str | None = None


class Store(Struct, kw_only=True):
    """The collections of the store, what requests may do, and their limits."""

    name: str
    writes: bool
    limits: dict[str, float]
    collections: list[Collection]


class State(Struct, kw_only=True):
    """Whether the service is as asked for."""

    status: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """What is wrong, in which field, and what would help."""

    type: str
    message: str
    field: str | None = None
    help: list[str] = msgspec.field(default_factory=list)


class Failure(Struct, kw_only=True):
    """The body of every answer that is none."""

    error: Problem
