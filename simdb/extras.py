"""What is installed: the version of simdb, and libraries that come with an extra.

Those are imported on use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from simdb import late
from simdb.errors import MissingExtraError


@cache  # to read it takes a third of the time that a new store takes
def own_version() -> str:
    """Return the version of simdb that is installed, or that none is, as of a checkout."""
    metadata = late.module("importlib.metadata")  # slow to load
    try:
        return str(metadata.version("simdb-store"))
    except metadata.PackageNotFoundError:
        return "(not installed)"


@contextmanager
def of_extra(name: str, wanted: str) -> Iterator[None]:
    """A block that imports what an extra brings.

    Args:
        name: of the extra.
        wanted: what for, with its verb: ``"Arrow tables need"``.

    Raises:
        MissingExtraError: it is not installed; the message says how to install it.
        MemoryError: there is no room to load it.
    """
    try:
        yield
    except ImportError as error:
        if str(error.name).partition(".")[0] == __package__:  # a fault of our own
            raise
        if is_for_want_of_memory(error):
            raise MemoryError(str(error)) from error
        raise MissingExtraError(
            f'{wanted} the {name} extra: pip install "simdb-store[{name}]"'
        ) from error


def is_for_want_of_memory(error: BaseException) -> bool:
    """Whether a library could not be loaded because there was no room for it."""
    told = str(error)
    return isinstance(error, ImportError) and (
        "failed to map segment" in told or "annot allocate memory" in told
    )


def require(name: str, wanted: str, *libraries: str) -> None:
    """Raise MissingExtraError, before long work that would end with it; see ``of_extra``."""
    with of_extra(name, wanted):
        for library in libraries:
            import_module(library)
