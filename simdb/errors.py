"""Every exception that simdb raises on purpose.

::

    SimdbError
      UsageError                     what the caller asked for cannot be done
        ConfigurationError             (ValueError) a setting is wrong or contradicts the stored one
        BadItemError                   (ValueError) an item, key or row cannot be stored or searched
        KeyExistsError                 (LookupError) the key is stored already
        KeyNotFoundError               (LookupError) the key is not stored
        CollectionNotFoundError        (LookupError) the collection is not stored
        ThresholdTooLowError           (ValueError) below what the index serves
        DatabaseClosedError            used after close
        ReadOnlyError                  a write to a database opened read-only
        MissingExtraError              (ImportError) an optional library is not installed
        OperationInterruptedError      a limit of the caller ended the work early
      StorageError                   the file, the disk or another process is in the way
        DatabaseNotFoundError          (FileNotFoundError) no such file
        NotADatabaseError              the file is something else
        FormatVersionError             written by another version of the format
        CorruptionError                a record does not match its checksum
        DatabaseFullError              the disk or the map is full
        DatabaseBusyError              another process writes and ``busy_timeout`` has passed

Wrong *types* stay ``TypeError``. Lookups derive from ``LookupError`` and not ``KeyError``, since
``KeyError`` prints its message quoted.
"""

from __future__ import annotations


class SimdbError(Exception):
    """The base of every exception that simdb raises on purpose."""


class UsageError(SimdbError):
    """What the caller asked for cannot be done; the store is untouched."""


class ConfigurationError(UsageError, ValueError):
    """A setting is wrong, or contradicts the stored one."""


class BadItemError(UsageError, ValueError):
    """An item, a key or a row cannot be stored or searched.

    Attributes:
        row: position of the row in the input, counted from 0, where there is one.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class KeyExistsError(UsageError, LookupError):
    """The key is stored already.

    Attributes:
        row: position of the row in the input, counted from 0, where there is one.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class KeyNotFoundError(UsageError, LookupError):
    """The key is not stored."""


class CollectionNotFoundError(UsageError, LookupError):
    """The collection is not stored."""


class ThresholdTooLowError(UsageError, ValueError):
    """The threshold is below what the index serves; the message names the remedy."""


class DatabaseClosedError(UsageError):
    """The database, or the snapshot, was used after it was closed."""


class ReadOnlyError(UsageError):
    """A write to a database, or a snapshot, that was opened for reading."""


class MissingExtraError(UsageError, ImportError):
    """An optional library is not installed; the message names the extra that brings it."""


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


class DatabaseFullError(StorageError):
    """The disk or the reserved map is full; nothing of the failed write was stored."""


class DatabaseBusyError(StorageError):
    """Another writer held the store for longer than ``busy_timeout``."""
