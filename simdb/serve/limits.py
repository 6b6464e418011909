"""What a service is started with: the store, and what one request may ask of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from simdb.errors import ConfigurationError

# Requests of a worker that wait for a thread, those that read and those that write apart; further
# ones are refused.
MOST_WAITING = 128
LONGEST = 10**9  # seconds for a request; threads cannot wait ten times as long


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask.

    Attributes:
        body: the most bytes that it may send.
        items: the most items in it.
        matches: the most matches of one item, and the most groups or changes of an answer.
        seconds: how long it may take.

    Raises:
        ConfigurationError: that is not above 0, or longer than can be waited for.
    """

    body: int = 8 * 2**20
    items: int = 1_000
    matches: int = 1_000
    seconds: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what nobody can wait for."""
        if not 0 < self.seconds <= LONGEST:
            raise ConfigurationError(
                f"the most time a request may take must be above 0 and at most {LONGEST:,} "
                f"seconds, not {self.seconds:g}"
            )


@dataclass(frozen=True, slots=True)
class Settings:
    """What every worker is made by.

    Attributes:
        store: the file, as an absolute path.
        writes: whether requests may add and delete.
        names: of hosts that requests may be for, besides addresses and ``localhost``.
        threads: of a worker, that answer requests which read; those which write have as many.
        memory: bytes for the work of a worker.
        busy_timeout: how long a request waits for another writer, in seconds.
        limits: of each request.
        file: which file the store was when these were made, as ``file_at`` tells it.
    """

    store: Path
    writes: bool = False
    names: tuple[str, ...] = ()
    threads: int = 2
    memory: int = 2**30
    busy_timeout: float = 10.0
    limits: Limits = field(default_factory=Limits)
    file: tuple[int, int] | None = field(init=False)

    @property
    def most_answered(self) -> int:
        """Bytes that an answer may take: a share of the memory, since several are made at once."""
        return self.memory // 8

    def __post_init__(self) -> None:
        """Note which file it is; workers get it with the rest."""
        object.__setattr__(self, "file", file_at(self.store))


def file_at(path: Path) -> tuple[int, int] | None:
    """Return which file is at a path, None for none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
