"""The table of kinds: which class a name stands for, in a store and on the command line.

A kind of a user's own is registered by its program, or found by name among the entry points of the
group ``simdb.kinds`` of installed packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from simdb.errors import ConfigurationError, UnknownKindError, WrongTypeError
from simdb.kinds.base import Kind, name_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

ENTRY_POINTS = "simdb.kinds"

_KINDS: dict[str, type[Kind]] = {}
_REQUIRED = ("make_items", "make_measure", "make_curve", "make_family")

K = TypeVar("K", bound=type[Kind])


def register(kind: K) -> K:
    """Make a kind known by its name; also a decorator of the class.

    Raises:
        WrongTypeError: it is not a class derived from ``Kind``.
        ConfigurationError: it lacks a method of the contract, or its name is taken by another.
    """
    if not isinstance(kind, type) or not issubclass(kind, Kind):
        raise WrongTypeError(f"a kind is a class derived from simdb.kinds.Kind, not {kind!r}")
    name = name_of(kind)
    if not name.isidentifier():
        raise ConfigurationError(f"the name of a kind must be an identifier, not {name!r}")
    for method in _REQUIRED:
        if getattr(kind, method) is getattr(Kind, method):
            raise ConfigurationError(f"the kind {name!r} must define {method}")
    taken = _KINDS.setdefault(name, kind)
    if taken is not kind and (taken.__module__, taken.__qualname__) != (
        kind.__module__,
        kind.__qualname__,
    ):
        raise ConfigurationError(f"the name {name!r} is taken by the kind {taken.__qualname__}")
    _KINDS[name] = kind  # a module that is loaded again brings its class anew
    return kind


def named(name: str) -> type[Kind]:
    """Return the class of a kind.

    Raises:
        UnknownKindError: this process knows none of that name, and no installed package brings one.
    """
    if name not in _KINDS:
        for found in _installed():
            if found.name == name:
                register(found.load())
    if name not in _KINDS:
        raise UnknownKindError(name)
    return _KINDS[name]


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # slow to load, and mostly not needed

    return entry_points(group=ENTRY_POINTS)


def known() -> dict[str, type[Kind]]:
    """Return all kinds by name: simdb's own first, then those of installed packages."""
    for found in _installed():
        if found.name not in _KINDS:
            register(found.load())
    return dict(_KINDS)


def restore(described: object) -> Kind:
    """Return the kind that ``Kind.describe`` described.

    Raises:
        UnknownKindError: this process does not know it.
        ConfigurationError: a setting is wrong; the message says where it stands.
    """
    if not isinstance(described, Mapping):
        raise ConfigurationError(f"a kind is described by a mapping, not by {described!r}")
    name = described.get("kind")
    kind = named(name if isinstance(name, str) else repr(name))
    return kind.restored(
        {setting: described[setting] for setting in described if setting != "kind"}
    )


def require(kind: object) -> Kind:
    """Return what is a registered kind.

    Raises:
        WrongTypeError: it is not one.
    """
    if not isinstance(kind, Kind):
        known = ", ".join(f"simdb.{one.__name__}" for one in _KINDS.values())
        raise WrongTypeError(f"a collection's kind must be one of {known}, not {kind!r}")
    if _KINDS.get(kind.name) is not type(kind):
        raise WrongTypeError(
            f"{type(kind).__name__} is not a registered kind: call simdb.kinds.register with it"
        )
    return kind
