"""What went wrong as a status and a body of JSON: what, in which field, and what to change."""

from __future__ import annotations

import re
from http import HTTPStatus

import msgspec

from simdb.errors import (
    BadItemError,
    CollectionNotFoundError,
    CorruptionError,
    DatabaseBusyError,
    DatabaseFullError,
    GroupNotFoundError,
    KeyExistsError,
    KeyNotFoundError,
    MissingExtraError,
    ReadOnlyError,
    Remedy,
    SimdbError,
    StorageError,
    ThresholdTooLowError,
    UnknownKindError,
    UsageError,
)
from simdb.serve.messages import Failure, Problem

# The first that an error is an instance of counts.
_STATUSES: tuple[tuple[type[BaseException], HTTPStatus], ...] = (
    (KeyNotFoundError, HTTPStatus.NOT_FOUND),
    (CollectionNotFoundError, HTTPStatus.NOT_FOUND),
    (GroupNotFoundError, HTTPStatus.NOT_FOUND),
    (KeyExistsError, HTTPStatus.CONFLICT),
    (ReadOnlyError, HTTPStatus.FORBIDDEN),
    (UnknownKindError, HTTPStatus.NOT_IMPLEMENTED),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DatabaseBusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DatabaseFullError, HTTPStatus.INSUFFICIENT_STORAGE),
    (MemoryError, HTTPStatus.SERVICE_UNAVAILABLE),
)
# What is told of the store's faults, whose own messages have paths and the system's words in them;
# the first that an error is an instance of counts.
_FAULTS: tuple[tuple[type[StorageError], str], ...] = (
    (DatabaseBusyError, "the store is busy; ask again later"),
    (DatabaseFullError, "no space is left for the store; nothing of this request was stored"),
    (CorruptionError, "the store is damaged; the log of the service says where"),
    (StorageError, "a fault of the store; the log of the service says which"),
)
# Fields of requests that an error may be about, which it names first then.
_FIELDS = ("threshold", "max_distance", "measure", "min_recall", "since", "after")
# What helps where a key is stored with the same digits as a number, or as a text.
_OF_OTHER_TYPE = {
    int: "?integer_key=true says that a key in the address is a number; in JSON it has no quotes",
    str: "in the address a key is a text without ?integer_key=true; in JSON it has quotes",
}
_LONGEST, _LONGEST_FIELD = 600, 60  # characters that are told: messages repeat what they were given
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_NAMED = re.compile(r"(?:unknown|required) field `([^`]*)`")


class RefusedError(Exception):
    """A request that is not carried out.

    Attributes:
        status: of the answer.
        problem: what is wrong.
        again_after: seconds after which it may be asked again, None where that does not help.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        field: str | None = None,
        change: tuple[str, ...] = (),
        again_after: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(
            type=name or status.phrase.replace(" ", ""),
            message=_cut(message, _LONGEST),
            field=None if field is None else _cut(field, _LONGEST_FIELD),
            help=[_cut(one, _LONGEST) for one in change],
        )
        self.again_after = again_after

    def body(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(Failure(error=self.problem))


def refusal(error: BaseException, field: str | None = None) -> RefusedError:
    """Return what an error is for whoever asked; faults tell nothing of their inside.

    ``field`` is the one that it is about, where who calls this knows.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, msgspec.MsgspecError | RecursionError):
        return _of_json(error)
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    status = next(found, HTTPStatus.INTERNAL_SERVER_ERROR)
    name, message, again = type(error).__name__, str(error), None
    helps: tuple[str, ...] = ()
    if isinstance(error, UsageError):
        message, field = error.problem, field or _field_of(error)
        helps = tuple(map(_in_json, error.remedies))
        if isinstance(error, KeyNotFoundError) and error.stored is not None:
            helps = (_OF_OTHER_TYPE[type(error.stored)],)
    elif isinstance(error, MemoryError):
        message, again = "out of memory; ask for less", 5
    elif isinstance(error, StorageError):
        message = next(told for kind, told in _FAULTS if isinstance(error, kind))
        if isinstance(error, DatabaseBusyError):
            again = 1
        elif isinstance(error, CorruptionError):
            helps = ("simdb check finds what is damaged, simdb repair writes what can be read",)
    elif not isinstance(error, SimdbError):
        name, message = "Fault", "a fault of the service; its log has the traceback"
    return RefusedError(status, message, field=field, change=helps, again_after=again, name=name)


def _cut(text: str, most: int) -> str:
    """Return the beginning and the end of a text that is longer than so many characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _of_json(error: BaseException) -> RefusedError:
    """Return what is wrong with the JSON of a request."""
    if isinstance(error, RecursionError):
        return RefusedError(HTTPStatus.BAD_REQUEST, "the JSON is nested too deeply", name="BadJson")
    message = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return RefusedError(
            HTTPStatus.BAD_REQUEST, f"the body is not JSON: {message}", name="BadJson"
        )
    place, named = _PLACE.search(message), _NAMED.search(message)
    path = [] if place is None else [place[1]]
    path += [] if named is None else [named[1]]
    return RefusedError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        _PLACE.sub("", message).replace("Object", "the object").replace("Expected", "expected"),
        field=".".join(path) or None,
        name="BadRequest",
    )


def _field_of(error: UsageError) -> str | None:
    """Return the field that an error is about, where that is told."""
    if isinstance(error, BadItemError | KeyExistsError) and error.row is not None:
        return f"rows[{error.row}]"
    if isinstance(error, KeyExistsError):
        return "key"
    what = re.split(r"\W", error.problem, maxsplit=1)[0]
    if isinstance(error, BadItemError):
        return what if what in ("key", "metadata") else "item"
    if what in _FIELDS or isinstance(error, ThresholdTooLowError):
        return what if what in _FIELDS else "threshold"
    for remedy in error.remedies:
        if remedy.method is None and remedy.argument is not None:
            return remedy.argument
    return None


def _in_json(remedy: Remedy) -> str:
    """Return what would help, as a field of the request or as a command."""
    if remedy.method is None:
        given = (f'"{name}": {_json_of(value)}' for name, value in remedy.arguments)
        return f"{', '.join(given)} {remedy.effect}"
    words = ["simdb", remedy.method, "STORE", "COLLECTION"]
    for name, value in remedy.arguments:
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append("..." if value is ... else str(value))
    return " ".join((*words, remedy.effect))


def _json_of(value: object) -> str:
    return "..." if value is ... else msgspec.json.encode(value, enc_hook=str).decode()
