"""How large the map is, how much of it is used, and when it must grow.

The map is larger than insertions may fill (``with_reserve``), so that deleting works when they may
not any more. Functions that take an ``environment`` mean LMDB's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simdb.errors import DatabaseFullError

PLENTY_OF_ROOM = 2**36
LARGEST_PAGE = 2**16
LARGEST_MAP = 2**40
SMALLEST_MAP = 2**28
FREE_MAP_SHARE = 16  # a writer finds at least one sixteenth of the map free, or it is grown
RESERVE_SHARE = 20  # so much is added to the map for deleting, within the next two bounds
SMALLEST_RESERVE = 2**22  # a few chunks and blocks beside their copies; or as much as the map
LARGEST_RESERVE = 2**30


def with_reserve(size: int) -> int:
    """Return the size of a map of which insertions may fill so many bytes."""
    return size + min(LARGEST_RESERVE, max(size // RESERVE_SHARE, min(size, SMALLEST_RESERVE)))


def without_reserve(size: int) -> int:
    """Return how many bytes of a map insertions may fill."""
    share = size // (RESERVE_SHARE + 1)
    return size - min(LARGEST_RESERVE, max(share, min(size // 2, SMALLEST_RESERVE)))


def used_bytes(environment: Any) -> int:
    """Return the bytes up to the last page that was ever used."""
    pages: int = environment.info()["last_pgno"] + 1
    size: int = environment.stat()["psize"]
    return pages * size


def has_plenty_of_room(environment: Any) -> bool:
    """Return whether so much of the map is unused that no single transaction could fill it."""
    information = environment.info()
    unused: int = information["map_size"] - (information["last_pgno"] + 1) * LARGEST_PAGE
    return unused > PLENTY_OF_ROOM


def pages_in_use(environment: Any, tables: Iterable[dict[str, int]]) -> int:
    """Return the pages of all tables, given LMDB's figures of each."""
    parts = ("branch_pages", "leaf_pages", "overflow_pages")
    return sum(table[part] for table in (environment.stat(), *tables) for part in parts)


def room_to_rewrite(environment: Any, pages: int) -> int:
    """Return the bytes of the map that can surely be used for large values.

    Those past the last page that was ever used; or, where a quarter of the map is free, half of
    that, however scattered.

    Args:
        environment: LMDB's.
        pages: in use.
    """
    size: int = environment.info()["map_size"]
    after = size - used_bytes(environment)
    free = size - pages * environment.stat()["psize"]
    return max(after, free // 2 if free > size // 4 else 0)


def require_reserve(path: Path, environment: Any, *, before: int, after: int) -> None:
    """Raise if insertions leave too little of the map for deleting.

    Args:
        path: of the store.
        environment: LMDB's.
        before: pages in use when they began.
        after: pages in use now.

    Raises:
        DatabaseFullError: they do.
    """
    information = environment.info()
    limit = without_reserve(information["map_size"]) // environment.stat()["psize"]
    # Free pages may be too scattered for a large value: then the file grows instead.
    end = information["last_pgno"] + 1 + max(0, after - before)
    if after > limit or (end > limit and after > limit // 2):
        raise DatabaseFullError(
            f"{path}: the map is full, but for what is kept for deleting; delete items, "
            "or open with a larger map_size"
        )


def grown_size(environment: Any) -> int | None:
    """Return the size of a larger map if this one is nearly full, else None."""
    limit = without_reserve(environment.info()["map_size"])
    if used_bytes(environment) < limit - limit // FREE_MAP_SHARE:
        return None
    return with_reserve(2 * limit)


def usage(environment: Any) -> dict[str, Any]:
    """Return how much of the map is used, and the snapshots that keep pages from being reused."""
    information = environment.info()
    readers = environment.readers().splitlines()[1:]
    snapshots = [int(line.split()[-1]) for line in readers if line.split()[-1].isdigit()]
    commits = information["last_txnid"]
    return {
        "used_bytes": (information["last_pgno"] + 1) * environment.stat()["psize"],
        "map_bytes": without_reserve(information["map_size"]),
        "commits": commits,
        "snapshots": len(snapshots),
        "oldest_snapshot_commits": commits - min(snapshots) if snapshots else 0,
    }
