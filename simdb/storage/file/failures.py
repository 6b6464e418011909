"""Nothing is written after a write that failed in a way which only opening the file anew mends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from simdb.errors import DatabaseFailedError
from simdb.storage.file.lmdb_errors import translated


class FailureLatch:
    """Remembers such a failure of one open file.

    Attributes:
        error: the last one; None if there was none.
    """

    def __init__(self, path: Path) -> None:
        self.error: DatabaseFailedError | None = None
        self._path = path

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Translate errors of LMDB and of the system, and remember one that is such a failure."""
        try:
            with translated(self._path):
                yield
        except DatabaseFailedError as error:
            self.error = error
            raise

    def require_none(self) -> None:
        """Raise if there was one.

        Raises:
            DatabaseFailedError: the same again.
        """
        if self.error is not None:
            raise DatabaseFailedError(str(self.error))
