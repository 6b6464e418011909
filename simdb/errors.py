"""Every exception that simdb raises on purpose: a ``UsageError`` or a ``StorageError``.

Lookups derive from ``LookupError`` and not ``KeyError``, since ``KeyError`` prints its message
quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

from msgspec import Struct

_LONGEST = 16  # decimal number that a float surely prints as it was written: 15 digits


class Remedy(Struct, frozen=True):
    """A call or an argument that would avoid an error, which each interface words in its own way.

    Attributes:
        argument: the argument of ``method``; None if it takes none.
        value: the value of the argument.
        effect: what it does, as in "rebuild(threshold=0.5) plans for it".
        method: the method to call; None if the argument belongs to the call that failed.
        further: arguments that go with it, each with its value.
    """

    argument: str | None
    value: object
    effect: str
    method: str | None = None
    further: tuple[tuple[str, object], ...] = ()

    @property
    def arguments(self) -> tuple[tuple[str, object], ...]:
        """All arguments, each with its value."""
        return (() if self.argument is None else ((self.argument, self.value),)) + self.further

    @property
    def shown_value(self) -> str:
        """The value as it is written in Python; three dots where any would do."""
        return _in_python(self.value)

    def __str__(self) -> str:
        """Put it into the words of the Python API."""
        given = ", ".join(f"{name}={_in_python(value)}" for name, value in self.arguments)
        call = given if self.method is None else f"{self.method}({given})"
        return f"{call} {self.effect}"


def _in_python(value: object) -> str:
    if value is ...:
        return "..."
    text = str(value)
    # Python would compute a quotient, and read more digits, as the float next to it.
    is_inexact = not isinstance(value, int | float) and ("/" in text or len(text) > _LONGEST)
    return repr(text) if isinstance(value, str) or is_inexact else text


class SimdbError(Exception):
    """The base of every exception that simdb raises on purpose.

    Attributes:
        problem: what is wrong; the message without the remedies.
        remedies: what would avoid the error; the message ends with them.
    """

    def __init__(self, problem: str = "", *, remedies: Sequence[Remedy] = ()) -> None:
        super().__init__(_message(problem, remedies))
        self.problem = problem
        self.remedies = tuple(remedies)

    def __reduce__(self) -> tuple[Any, ...]:
        """Tell how it is copied: as it is, since a message is not what it was made of."""
        return _copied, (type(self), self.args, self.__dict__)


def _copied(of: type[SimdbError], given: tuple[Any, ...], fields: dict[str, Any]) -> SimdbError:
    error = of.__new__(of, *given)
    super(SimdbError, error).__init__(*given)  # of what each is besides, such as ImportError
    error.__dict__.update(fields)
    return error


class UsageError(SimdbError):
    """What the caller asked for cannot be done; nothing of the call, or of its batch, is stored.

    A call that stores in batches keeps those before the one that fails.
    """

    def helped_by(self, remedies: Sequence[Remedy]) -> Self:
        """Return the same error with other remedies."""
        error = copy(self)
        error.args = (_message(self.problem, remedies),)
        error.remedies = tuple(remedies)
        return error

    def about(self, what: str) -> Self:
        """Return the same error that says what it is about."""
        error = copy(self)
        error.args = (f"{what}: {self}",)
        error.problem = f"{what}: {self.problem}"
        return error


def _message(problem: str, remedies: Sequence[Remedy]) -> str:
    helps = ", or ".join(map(str, remedies))
    return f"{problem}; {helps}" if helps else problem


class ConfigurationError(UsageError, ValueError):
    """A setting is wrong, or contradicts the stored one."""


class NothingAlikeError(ConfigurationError):
    """No two records look alike, or too many do: nothing can be proposed, or learnt, from them.

    Attributes:
        left_out: why columns are not fields, which the message does not name.
    """

    def __init__(self, problem: str, *, left_out: Mapping[str, str] | None = None) -> None:
        super().__init__(problem)
        self.left_out = dict(left_out or {})


class WrongTypeError(UsageError, TypeError):
    """A key, a name or a setting has the wrong type."""


class BadItemError(UsageError, ValueError):
    """An item, a key or a row cannot be stored or searched.

    Attributes:
        row: position of the row in the input, counted from 0, if there is one.
        key: that of the row, if a row of a table says what its problem is.
    """

    def __init__(self, problem: str, *, row: int | None = None, key: Any = None) -> None:
        super().__init__(problem)
        self.row = row
        self.key = key


class KeyExistsError(UsageError, LookupError):
    """The key is stored already.

    Attributes:
        row: position of the row in the input, counted from 0, if there is one.
        key: the key.
        within_input: whether the stored item came with the same input.
    """

    def __init__(
        self,
        problem: str,
        *,
        remedies: Sequence[Remedy] = (),
        row: int | None = None,
        key: str | int | None = None,
        within_input: bool = False,
    ) -> None:
        super().__init__(problem, remedies=remedies)
        self.row = row
        self.key = key
        self.within_input = within_input


class KeyNotFoundError(UsageError, LookupError):
    """The key is not stored.

    Attributes:
        key: the key; None if an item was looked for by its number.
        stored: a stored key with the same digits but of the other type, number or text; or None.
    """

    def __init__(
        self, problem: str, *, key: str | int | None = None, stored: str | int | None = None
    ) -> None:
        super().__init__(problem)
        self.key = key
        self.stored = stored


class GroupNotFoundError(UsageError, LookupError):
    """No group has that id, or it has ended."""


class CollectionNotFoundError(UsageError, LookupError):
    """The collection is not stored."""


class ThresholdTooLowError(UsageError, ValueError):
    """The threshold is below what the index serves; the message names the remedy."""


class DatabaseClosedError(UsageError):
    """The database, or the snapshot, was used after it was closed."""


class ReadOnlyError(UsageError):
    """A write to a database, or a snapshot, that was opened for reading only."""


class UnknownKindError(UsageError, LookupError):
    """A collection holds items of a kind that this process does not know.

    Or its class is known, but has changed, so that it does not take the settings that are stored.

    Attributes:
        name: of the kind.
        why: what its class says of the settings; None where it is not known.
    """

    def __init__(self, name: str, where: str = "", *, why: str | None = None) -> None:
        problem = (
            f"the kind {name!r} is not known here: import the module that registers it, or install "
            "the package that provides it"
        )
        if why is not None:
            problem = (
                f"the class of the kind {name!r} does not take the settings that are stored: "
                f"{why}; use the class that they were made with, or let it take them, too"
            )
        super().__init__(where + problem)
        self.name = name
        self.why = why


class UnknownTokeniserError(UnknownKindError):
    """A collection cuts texts by a tokeniser that this process does not know.

    Attributes:
        name, version: of the tokeniser.
    """

    def __init__(self, name: str, version: str, where: str = "") -> None:
        UsageError.__init__(
            self,
            f"{where}the tokeniser {name!r}, version {version!r}, is not known here: import the "
            "module that registers it with simdb.kinds.tokeniser, or install the package that "
            "provides it",
        )
        self.name = name
        self.why = None
        self.version = version


class MissingExtraError(UsageError, ImportError):
    """An optional library is not installed, or cannot be loaded; the message names its extra."""


class OperationInterruptedError(UsageError):
    """A limit that the caller set ended the work before it was complete."""


class StorageError(SimdbError):
    """The file, the disk or another process is in the way; the last commit is intact."""


class DatabaseNotFoundError(StorageError, FileNotFoundError):
    """There is no such file."""


class NotADatabaseError(StorageError):
    """The file exists but is not a simdb store."""


class FormatVersionError(StorageError):
    """The file was written by another version of the format."""


class CorruptionError(StorageError):
    """A record does not match its checksum, or the structure contradicts itself."""


class DatabaseFailedError(StorageError):
    """The system failed to read or write; nothing is written before the store is opened again.

    Everything that earlier calls have stored is intact and can be read. Opening the store again
    shows whether the failed write was stored.
    """


class DatabaseFullError(StorageError):
    """The disk or the reserved map is full; nothing of the failed write was stored."""


class DatabaseBusyError(StorageError):
    """Another writer held the store for longer than ``busy_timeout``."""
