"""What each request does with the store: one method each, of checked values, without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from http import HTTPStatus
from itertools import islice
from math import isnan
from typing import Any

import msgspec
from msgspec import Raw

import simdb
from simdb import differences
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    KeyExistsError,
    KeyNotFoundError,
    UnknownKindError,
    UsageError,
)
from simdb.files.jsonl import item_of_json
from simdb.files.rows import Elements, ReadingOptions
from simdb.kinds import Kind
from simdb.metadata import accepting
from simdb.reports import report
from simdb.serve import messages
from simdb.serve.limits import Settings, file_at
from simdb.serve.refusals import RefusedError, refusal

FACETS_TOLD = 20
LINES_TOLD = 200
CHARACTERS_TOLD = 20_000  # of each of two texts whose differences are looked for
USUAL_MATCHES, USUAL_PARTS = 10, 100  # of an answer, where a request does not say how many
LOOKED_AT = 1_000  # stored bags, of which most may be empty
REPORTED = 200  # items of the sample of a report
_OF_MATCH, _OF_KEY = 128, 64  # bytes that one takes in memory, besides its content
_AT_ONCE = 8  # of the room for an answer, the share that searches may take before it is counted
_LESS = "ask for less: a smaller limit, or fewer items at once"


class Service:
    """An open store, and what may be asked of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._limits = settings.limits
        # Another file is not opened: what is at a path without a file would be made.
        self._opened = self._open() if self._is_in_place() else None
        if not self._is_in_place():
            self.close()
            self._opened = None

    def _open(self) -> simdb.Database:
        return simdb.open(
            self.settings.store,
            read_only=not self.settings.writes,
            busy_timeout=self.settings.busy_timeout,
            threads=1,  # requests are what runs at once
            memory=self.settings.memory,
        )

    def _is_in_place(self) -> bool:
        """Whether the file at the store's path is the one that the service began with."""
        return file_at(self.settings.store) == self.settings.file

    def require_in_place(self) -> None:
        """Raise RefusedError unless the store's file is where it was."""
        if not self._is_in_place():
            raise _replaced()

    @property
    def _database(self) -> simdb.Database:
        if self._opened is None:
            raise _replaced()
        return self._opened

    def close(self) -> None:
        """Close the store, when what is under way is done."""
        if self._opened is not None:
            self._opened.close()

    def warm(self) -> None:
        """Search each collection once, so that no request waits for what a first search loads."""
        if self._opened is None:
            return
        with self._opened.snapshot() as state:
            for name in state.collection_names():
                with suppress(UsageError, StopIteration):
                    view = state[name]
                    view.search(next(view.items()).item, limit=1)

    # -- the store -----------------------------------------------------------------------------

    def health(self) -> messages.State:
        """Say that the process answers."""
        return messages.State(status="ok")

    def ready(self) -> messages.State:
        """Read the list of collections of the file that is at the store's path."""
        self.require_in_place()
        self._database.collection_names()
        return messages.State(status="ready")

    def store(self) -> messages.Store:
        """List the collections."""
        with self._database.snapshot() as state:
            told = [_told(state, name) for name in state.collection_names()]
        return messages.Store(
            name=self.settings.store.name,
            writes=self.settings.writes,
            limits=asdict(self._limits),
            collections=told,
        )

    def collection(self, name: str) -> messages.Collection:
        """Tell the settings of one collection."""
        with self._database.snapshot() as state:
            _ = state[name]
            return _told(state, name)

    def stats(self, name: str) -> dict[str, Any]:
        """Return counts, sizes and settings, as ``simdb stats`` has them."""
        return dict(self._database[name].stats())

    def report(self, name: str) -> str:
        """Return the report of a collection as a page of HTML, made of a small sample."""
        title = f"{self.settings.store.name}: {name}"
        with self._database.snapshot() as state:
            return report(state[name], sample=REPORTED, title=title)

    # -- reading -------------------------------------------------------------------------------

    def get(self, name: str, key: messages.Key) -> messages.Entry:
        """Return a stored item."""
        with self._database.snapshot() as state:
            view = state[name]
            with _in_fields([("key", key)]):
                entry = view.get(key)
            item = view.kind.plain_item(entry.item)
        metadata = None if entry.metadata is None else dict(entry.metadata)
        return messages.Entry(key=entry.key, item=item, metadata=metadata)

    def search(self, name: str, asked: messages.Search) -> messages.Matches | messages.ManyMatches:
        """Search for one item or for several, in one state of the store."""
        ways = {
            "item": bool(asked.item),
            "items": asked.items is not None,
            "key": asked.key is not None,
            "keys": asked.keys is not None,
        }
        (field,) = _the_only(ways)
        self._require_few("items", asked.items)
        self._require_few("keys", asked.keys)
        limit = self._limit(asked.limit, USUAL_MATCHES)
        keys = [asked.key] if asked.key is not None else asked.keys
        given = [asked.item] if asked.items is None else asked.items
        own: Sequence[Any] = [None] * len(given) if keys is None else keys
        without = ['"metadata": false leaves metadata out'] if asked.metadata else []
        room = self._room("limit", _LESS, *without)
        answers: list[messages.Matches] = []
        at_once = 1  # what searches find is in memory together before it is counted
        with self._database.snapshot() as state:
            view = state[name]
            items = _items(view, given, field) if keys is None else _stored(view, keys, field)
            while True:  # also without items, for what is wrong besides
                begin, left = len(answers), room.left
                with _in_items(field, begin):
                    found = view.search_many(
                        list(islice(items, at_once)),
                        **_bound(view.kind, asked),
                        limit=limit + (keys is not None),
                        guarantee=asked.guarantee,
                        min_recall=asked.min_recall,
                        measure=asked.measure,
                        where=_where(asked.where),
                        metadata=asked.metadata,
                    )
                metadata = _Metadata()
                for answer, key in zip(found, own[begin : begin + at_once], strict=True):
                    answers.append(_matches(answer, key, limit, metadata, room))
                if len(answers) == len(own):
                    break
                of_each = max(1, (left - room.left) // at_once)
                at_once = max(1, min(2 * at_once, room.most // _AT_ONCE // of_each))
        if field in ("item", "key"):
            return answers[0]
        return messages.ManyMatches(answers=answers)

    def explain(self, name: str, asked: messages.Explain) -> messages.Explanation:
        """Say why two items are similar, and mark what differs between two texts."""
        _the_only({"item": bool(asked.item), "left": asked.left is not None})
        with self._database.snapshot() as state:
            view = state[name]
            bound = _bound(view.kind, asked)
            with _in_fields([("left", asked.left), ("right", asked.right)]):
                if asked.left is not None:
                    told = view.explain_pair(asked.left, asked.right, **bound)
                else:
                    (item,) = _items(view, [asked.item], "item")
                    told = view.explain_match(item, asked.right, **bound)
        marked = None
        if all(isinstance(item, str) for item in told.items):
            one, other = (item[:CHARACTERS_TOLD] for item in told.items)
            rows = islice(differences.rows(one, other), LINES_TOLD)
            marked = [(row.left, row.mark, row.right) for row in rows]
        return messages.Explanation(
            left=told.left,
            right=told.right,
            evidence=told.to_dict(FACETS_TOLD),
            differences=marked,
        )

    # -- groups --------------------------------------------------------------------------------

    def group_of(
        self,
        name: str,
        key: messages.Key,
        threshold: str | None = None,
        max_distance: str | None = None,
    ) -> messages.Group:
        """Return the group of an item, of those that the collection keeps."""
        stored = self._database[name]
        bound = _bound(stored.kind, messages.Bound(threshold=threshold, max_distance=max_distance))
        with _in_fields([("key", key)]):
            return _group(stored.group_of(key, **bound), self._room(None))

    def group(self, name: str, identity: int) -> messages.Group:
        """Return a group by its id, or by one that was merged into it."""
        return _group(self._database[name].group(identity), self._room(None))

    def groups(
        self,
        name: str,
        after: int = 0,
        limit: int | None = None,
        threshold: str | None = None,
        max_distance: str | None = None,
    ) -> messages.Groups:
        """Return groups of two items or more that the collection keeps, by their ids."""
        wanted, stored = self._limit(limit, USUAL_PARTS), self._database[name]
        bound = _bound(stored.kind, messages.Bound(threshold=threshold, max_distance=max_distance))
        later = islice(stored.kept_groups(**bound, after=after), wanted)
        room = self._room("limit", _LESS)
        found = [_group(one, room) for one in later]
        more = len(found) == wanted
        return messages.Groups(groups=found, next=found[-1].id if more else None)

    def changes(self, name: str, since: int = 0, limit: int | None = None) -> messages.Changes:
        """Return what happened to groups after a change."""
        found = islice(self._database[name].changes(since), self._limit(limit, USUAL_PARTS))
        room = self._room("limit", _LESS)
        return messages.Changes(
            changes=[
                messages.Change(
                    number=one.number,
                    action=one.action,
                    group=one.group,
                    other=one.other,
                    keys=room.of_keys(one.keys),
                    bound=_exact(one.bound),
                )
                for one in found
            ]
        )

    # -- writing -------------------------------------------------------------------------------

    def add(self, name: str, asked: messages.Add) -> messages.Outcome | messages.Outcomes:
        """Store items, and say what each is similar to, of those stored before it."""
        _the_only({"item": bool(asked.item), "rows": asked.rows is not None})
        if asked.rows is None:
            if asked.key is None:
                raise _unfit("key", "is missing: it names the item")
            rows = [messages.Row(key=asked.key, item=asked.item, metadata=asked.metadata)]
        else:
            for field in ("key", "metadata"):
                if getattr(asked, field) is not None:
                    raise _unfit(field, "is of one item: each of the rows has its own")
            self._require_few("rows", asked.rows)
            rows = asked.rows
        stored = self._database[name]
        items = _items(stored, [row.item for row in rows], "rows" if asked.rows else "item")
        given = [(row.key, item, row.metadata) for row, item in zip(rows, items, strict=True)]
        bound = _bound(stored.kind, asked)
        with _plain_errors(alone=asked.rows is None):
            outcomes: list[simdb.Outcome] = []
            stored.add_many(
                given,
                at_once=True,
                outcomes=outcomes.extend,
                on_existing=asked.on_existing,
                on_duplicate=asked.on_duplicate,
                find_duplicates=_has_index(stored) or bound != dict.fromkeys(bound),
                **bound,
            )
        told = [_outcome(stored, one) for one in outcomes]
        return told[0] if asked.rows is None else messages.Outcomes(outcomes=told)

    def delete(self, name: str, asked: messages.Delete) -> messages.Deleted:
        """Delete items by their keys."""
        self._require_few("keys", asked.keys)
        stored = self._database[name]
        with _in_fields(_places("keys", asked.keys)):
            deleted = stored.delete_many(asked.keys, missing=asked.missing, at_once=True)
        return messages.Deleted(deleted=deleted)

    def delete_one(self, name: str, key: messages.Key) -> messages.Deleted:
        """Delete an item."""
        with _in_fields([("key", key)]):
            self._database[name].delete(key)
        return messages.Deleted(deleted=1)

    # -- limits --------------------------------------------------------------------------------

    def _require_few(self, field: str, given: Sequence[Any] | None) -> None:
        if given is not None and len(given) > self._limits.items:
            raise _unfit(
                field,
                f"are {len(given):,}, and a request may have {self._limits.items:,}",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )

    def _limit(self, given: int | None, usual: int) -> int:
        most = self._limits.matches
        if given is None:
            return min(usual, most)
        if not 1 <= given <= most:
            raise _unfit("limit", f"must be from 1 to {most:,}, not {given:,}")
        return given

    def _room(self, field: str | None, *change: str) -> _Room:
        return _Room(self.settings.most_answered, field, change)


class _Room:
    """Memory for what is answered; an answer that takes more is refused while it is collected.

    Attributes:
        most: bytes.
        field: of the request, that says how much is answered.
        change: what lets it be less.
        left: bytes of it.
    """

    def __init__(self, most: int, field: str | None, change: tuple[str, ...]) -> None:
        self.most, self.field, self.change = most, field, change
        self.left = most

    def take(self, size: int) -> None:
        """Note that so many bytes are taken; RefusedError: there were fewer."""
        self.left -= size
        if self.left < 0:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the answer takes more than {self.most:,} bytes",
                field=self.field,
                change=(*self.change, "simdb --memory MIB serve permits more"),
                name="TooLarge",
            )

    def of_keys(self, keys: Iterable[messages.Key]) -> list[messages.Key]:
        """Return keys as a list, for which there is room."""
        found = list(keys)
        self.take(sum(map(_size, found)))
        return found


def _size(key: messages.Key) -> int:
    return _OF_KEY + (len(key.encode()) if isinstance(key, str) else 0)


class _Metadata:
    """Metadata as JSON, encoded once for all matches of an item."""

    def __init__(self) -> None:
        self._known: dict[int, Raw] = {}  # by their place in memory, as long as matches have them

    def encoded(self, given: Mapping[str, Any]) -> Raw:
        """Return some as JSON."""
        found = self._known.get(id(given))
        if found is None:
            found = self._known[id(given)] = Raw(msgspec.json.encode(dict(given), enc_hook=str))
        return found


def _replaced() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the store's file was replaced or removed since the service began",
        change=("start the service again",),
    )


def _told(state: simdb.Snapshot, name: str) -> messages.Collection:
    try:
        view = state[name]
    except UnknownKindError as error:
        return messages.Collection(
            name=name,
            items=None,
            kind=None,
            like=None,
            threshold=None,
            max_distance=None,
            exact_floor=None,
            keeps_groups=False,
            problem=str(error),
        )
    try:
        next(view.changes(), None)
        keeps = True
    except ConfigurationError:
        keeps = False
    return messages.Collection(
        name=name,
        items=len(view),
        kind=view.kind.name,
        like=str(view.kind),
        threshold=_number(view.threshold),
        max_distance=_number(view.max_distance),
        exact_floor=_number(view.exact_floor),
        keeps_groups=keeps,
    )


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _items(view: simdb.CollectionView, given: Iterable[Raw], field: str) -> Iterator[Any]:
    """Yield items that are given as JSON, as the collection takes them."""
    kind = view.kind
    names = kind.field_names or ("item",)
    elements: Elements = _held(view) if kind.of_counts else "auto"
    options = ReadingOptions(text_fields=names, kind=kind, elements=elements)
    for place, raw in enumerate(given):
        where = _place(field, place)
        try:
            yield item_of_json(bytes(raw).decode(), options, where)
        except UsageError as error:
            raise _bad_item(error.problem, where) from error


@contextmanager
def _in_items(field: str, begin: int) -> Iterator[None]:
    """Let an error about an item to be searched for, of those from a place on, say which it is."""
    try:
        yield
    except BadItemError as error:
        row = error.row or 0
        problem = error.problem.removeprefix(f"row {row}: ")
        raise _bad_item(problem, _place(field, begin + row)) from error


def _place(field: str, place: int) -> str:
    """Return where a request has an item: in a field of its own, or at a place of a list."""
    return field if field == "item" else f"{field}[{place}]"


def _bad_item(problem: str, where: str) -> RefusedError:
    return RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, problem, field=where, name="BadItemError")


def _stored(view: simdb.CollectionView, keys: Sequence[messages.Key], field: str) -> Iterator[Any]:
    """Yield items that are stored under the keys of a request."""
    with _in_fields([("key", keys[0])] if field == "key" else _places(field, keys)):
        for key in keys:
            yield view.get(key).item


def _places(field: str, keys: Sequence[messages.Key]) -> Iterator[tuple[str, messages.Key]]:
    """Yield the keys of a list, each with its place in the request."""
    return ((f"{field}[{place}]", key) for place, key in enumerate(keys))


@contextmanager
def _in_fields(fields: Iterable[tuple[str, messages.Key | None]]) -> Iterator[None]:
    """Let an error about a key that is not stored say in which of these fields it is."""
    try:
        yield
    except KeyNotFoundError as error:
        named = (field for field, key in fields if key is not None and key == error.key)
        raise refusal(error, next(named, None)) from error


def _held(view: simdb.CollectionView) -> Elements:
    """Return what the elements of stored bags are: names of counts in JSON are always texts."""
    for entry in islice(view.items(), LOOKED_AT):
        for element in entry.item:
            return "strings" if isinstance(element, str) else "integers"
    return "auto"


def _bound(kind: Kind, asked: messages.Bound) -> dict[str, Any]:
    """Return the bound that a request names, which must be of what the kind measures."""
    wrong, right = "threshold", "max_distance"
    if not kind.is_distance:
        wrong, right = right, wrong
    if getattr(asked, wrong) is not None:
        raise _unfit(wrong, f"is not for {kind.plural}: they take {right}")
    return {right: getattr(asked, right)}


def _where(given: dict[str, Any] | None) -> Callable[[Mapping[str, Any] | None], bool] | None:
    if given is None:
        return None
    return accepting({name: v if isinstance(v, list) else [v] for name, v in given.items()})


def _matches(
    answer: simdb.Matches, own: messages.Key | None, limit: int, metadata: _Metadata, room: _Room
) -> messages.Matches:
    others = (one for one in answer if (one.key, type(one.key)) != (own, type(own)))
    found: list[messages.Match] = []
    for one in islice(others, limit):
        told: Any = None if one.metadata is None else metadata.encoded(one.metadata)
        room.take(_OF_MATCH + _size(one.key) + (0 if told is None else len(memoryview(told))))
        found.append(
            messages.Match(
                key=one.key,
                similarity=one.similarity,
                distance=one.distance,
                estimated=one.estimated,
                metadata=told,
            )
        )
    recall = answer.expected_recall
    return messages.Matches(
        matches=found,
        guarantee=answer.guarantee,
        expected_recall=None if isnan(recall) else recall,
    )


def _group(found: simdb.KeptGroup, room: _Room) -> messages.Group:
    keys = room.of_keys(found.keys)
    return messages.Group(id=found.id, keys=keys, bound=_exact(found.bound))


def _exact(bound: Fraction) -> messages.Number:
    """Return a bound of groups as a request may give it: text where no decimals are equal to it."""
    told = float(bound)
    return told if Fraction(repr(told)) == bound else str(bound)


def _has_index(stored: simdb.Collection) -> bool:
    """Whether what an item duplicates can be looked up, and not only by reading all items."""
    bounds = stored.threshold, stored.max_distance, stored.exact_floor
    return any(bound is not None for bound in bounds)


def _outcome(stored: simdb.Collection, one: simdb.Outcome) -> messages.Outcome:
    group = None
    held = one.duplicate_of if one.action == "duplicate" else one.key
    with suppress(UsageError):  # no groups are kept, or the item is gone by now
        assert held is not None
        group = stored.group_id(held)
    fields = ("key", "action", "duplicate_of", "similarity", "distance", "estimated")
    return messages.Outcome(**{name: getattr(one, name) for name in fields}, group=group)


@contextmanager
def _plain_errors(*, alone: bool) -> Iterator[None]:
    """Let an error about the only row be about the item."""
    try:
        yield
    except BadItemError as error:
        if alone:
            raise BadItemError(error.problem.removeprefix("row 0: ")) from error
        raise
    except KeyExistsError as error:
        if alone:
            error.row = None
        raise


def _the_only(ways: dict[str, bool]) -> list[str]:
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        names = ", ".join(ways)
        raise _unfit(
            None, f"exactly one of {names} must be given, not {', '.join(given) or 'none'}"
        )
    return given


def _unfit(
    field: str | None,
    message: str,
    status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY,
) -> RefusedError:
    text = message if field is None else f"{field} {message}"
    return RefusedError(status, text, field=field, name="BadRequest")
