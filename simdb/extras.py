"""What is installed: the version of simdb, and libraries that come with an extra.

Those are imported on use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from simdb import late
from simdb.errors import MissingExtraError, SimdbError


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
    """A block that imports what an extra brings, as ``optional`` does.

    Args:
        name: of the extra.
        wanted: what for, with its verb: ``"Arrow tables need"``.
    """
    with optional(f"{wanted} the {name} extra", f'"simdb-store[{name}]"'):
        yield


@contextmanager
def optional(needed: str, installed_as: str) -> Iterator[None]:
    """A block that imports an optional library, and perhaps modules of simdb that import it.

    Args:
        needed: what needs what, as in ``"to_pandas needs pandas"``.
        installed_as: what pip calls it.

    Raises:
        MissingExtraError: it is not installed; the message says how to install it. Or it is, but
            cannot be loaded; the message says why.
        MemoryError: there is no room to load it.
    """
    try:
        yield
    except SimdbError:
        raise
    except ImportError as error:
        name = str(error.name)
        if name.partition(".")[0] == __package__:  # a fault of our own
            raise
        if is_for_want_of_memory(error):
            raise MemoryError(str(error)) from error
        if isinstance(error, ModuleNotFoundError) and "." not in name:
            raise MissingExtraError(f"{needed}: pip install {installed_as}") from error
        raise _broken(needed, error) from error
    except Exception as error:
        if not _is_of_library(error):
            raise
        raise _broken(needed, error) from error


def _broken(needed: str, error: Exception) -> MissingExtraError:
    told = f"{needed}, which is installed but cannot be loaded: {type(error).__name__}: {error}"
    return MissingExtraError(told)


def _is_of_library(error: Exception) -> bool:
    """Whether a library that could not be loaded raised it; else simdb, or a handler of signals.

    What a handler raises is an exception of the program's own, or ``is_of_handler``.
    """
    if isinstance(error, MemoryError) or type(error).__module__ != "builtins":
        return False
    if is_of_handler(error):
        return False
    # Below the two frames of ``optional``, and of the block, those that raised it.
    walked = late.module("traceback").walk_tb(error.__traceback__)
    frames = [frame for frame, _ in walked]
    raised_in = str(frames[-1].f_globals.get("__name__"))
    return raised_in.partition(".")[0] != __package__ or len(frames) <= 3


def is_of_handler(error: BaseException | None) -> bool:
    """Whether it is a TimeoutError of a handler of signals: those of the system have a number."""
    return isinstance(error, TimeoutError) and error.errno is None


def is_for_want_of_memory(error: BaseException) -> bool:
    """Whether a library could not be loaded because there was no room for it."""
    told = str(error)
    return isinstance(error, ImportError) and (
        "failed to map segment" in told or "annot allocate memory" in told
    )


def require(name: str, wanted: str, *libraries: str) -> None:
    """Raise MissingExtraError, before long work that would end with it; see ``optional``."""
    with of_extra(name, wanted):
        for library in libraries:
            import_module(library)
