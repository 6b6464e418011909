"""A collection in a snapshot with all that answering, adding and upkeep need of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simdb.opened.catalogue import CollectionSettings
from simdb.opened.signer import Signer
from simdb.storage.collection.reader import CollectionReader
from simdb.work import Work

if TYPE_CHECKING:
    from concurrent.futures import Executor

DEFAULT_MEMORY = 2**30


@dataclass(frozen=True, slots=True)
class Resources:
    """What the database lends.

    Attributes:
        memory: bytes.
        pool: makes threads, or returns None for the caller's alone.
        require_open: raises if the database, or the snapshot, was closed.
    """

    memory: int = DEFAULT_MEMORY
    pool: Callable[[], Executor | None] = lambda: None
    require_open: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Opened:
    """A collection as one transaction sees it.

    Attributes:
        settings: what it is.
        signer: what makes features, signatures and bucket keys of its items.
        reader: what is stored.
        resources: memory and threads.
        work: what the present answer has cost, with its budget.
    """

    settings: CollectionSettings
    signer: Signer
    reader: CollectionReader
    resources: Resources = field(default_factory=Resources)
    work: Work = field(default_factory=Work)
