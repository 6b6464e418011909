"""Libraries that not everyone installs: each comes with an extra, and is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from simdb.errors import MissingExtraError


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
