"""Collections that used many item numbers which no item has any more, and what these cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import simdb
from simdb.storage.collection.writer import CollectionWriter

GONE = 2**22
MOST_ROOM = GONE  # less than a byte a number: the mark that it is deleted is one bit


def use_up(collection: simdb.Collection) -> None:
    """Use so many item numbers as if items had come, gone, and been compacted."""
    with collection._handle.write() as transaction:
        writer = CollectionWriter(transaction, collection._present.settings.number)
        writer.take_numbers(GONE)
        writer.save()


def room_of(call: Callable[[], Any]) -> int:
    """Return the most bytes that a call held at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
