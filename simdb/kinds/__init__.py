"""Kinds of items: what a collection holds, how it is compared, and how it is indexed.

Here is the table of them: which class a name stands for, in a store and on the command line. A kind
of a user's own is registered by its program, or found by name among the entry points of the group
``simdb.kinds`` of installed packages.

A setting changes what is similar to what, so a stored collection is never opened under others:
``database.collection`` refuses, and ``rebuild`` signs the stored items anew under new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from simdb import late
from simdb.arguments import short
from simdb.errors import ConfigurationError, UnknownKindError, WrongTypeError
from simdb.kinds import tokenisers
from simdb.kinds.base import (
    Compared,
    Examples,
    Items,
    Kind,
    Measure,
    PairedMeasure,
    Settings,
    SymbolKind,
    loaded,
    name_of,
)
from simdb.kinds.tokenisers import Tokens, tokeniser
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import (
    BandedFamily,
    BucketKeys,
    Family,
    SketchScheme,
    SymbolSets,
    derived_words,
    secret_words,
)

if TYPE_CHECKING:
    from simdb.kinds.bags import Bag
    from simdb.kinds.bits import Bits
    from simdb.kinds.fingerprints import Fingerprint
    from simdb.kinds.records import Alike, Edits, Equal, Field, Near, Record, Within
    from simdb.kinds.sets import Set
    from simdb.kinds.signatures import Signature
    from simdb.kinds.string import String
    from simdb.kinds.text import (
        ENGLISH_STOP_WORDS,
        CharacterShingles,
        Shingles,
        StopWordShingles,
        Text,
        WordShingles,
    )
    from simdb.kinds.vectors import Vector
    from simdb.kinds.weighted import WeightedSet

    OWN: tuple[type[Kind], ...]  # simdb's own

__all__ = [
    "ENGLISH_STOP_WORDS",
    "OWN",
    "Alike",
    "Bag",
    "BandedFamily",
    "Bits",
    "BucketKeys",
    "CharacterShingles",
    "Compared",
    "Curve",
    "Edits",
    "Equal",
    "Examples",
    "Family",
    "Field",
    "Fingerprint",
    "Items",
    "JaccardCurve",
    "Kind",
    "Measure",
    "Near",
    "PairedMeasure",
    "Record",
    "Set",
    "Settings",
    "Shingles",
    "Signature",
    "SketchScheme",
    "StopWordShingles",
    "String",
    "SymbolKind",
    "SymbolSets",
    "Text",
    "Tokens",
    "Vector",
    "WeightedSet",
    "Within",
    "WordShingles",
    "derived_words",
    "known",
    "name_of",
    "named",
    "register",
    "require",
    "restore",
    "secret_words",
    "tokeniser",
]

ENTRY_POINTS = "simdb.kinds"

# Where names are from that are imported when they are asked for: most stores have one kind.
_NAMES = {
    "bags": ("Bag",),
    "bits": ("Bits",),
    "fingerprints": ("Fingerprint",),
    "records": ("Alike", "Edits", "Equal", "Field", "Near", "Record", "Within"),
    "sets": ("Set",),
    "signatures": ("Signature",),
    "string": ("String",),
    "text": (
        *("ENGLISH_STOP_WORDS", "CharacterShingles", "Shingles", "StopWordShingles", "Text"),
        "WordShingles",
    ),
    "vectors": ("Vector",),
    "weighted": ("WeightedSet",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
# The classes of simdb's own kinds, by the names that stand for them.
_OWN = {
    "text": "Text",
    "set": "Set",
    "bag": "Bag",
    "weighted": "WeightedSet",
    "bits": "Bits",
    "vector": "Vector",
    "string": "String",
    "record": "Record",
    "fingerprint": "Fingerprint",
    "signature": "Signature",
}
# Those that are registered, simdb's own when they are first asked for.
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
        raise WrongTypeError(f"a kind is a class derived from simdb.kinds.Kind, not {short(kind)}")
    name = name_of(kind)
    if not name.isidentifier():
        raise ConfigurationError(f"the name of a kind must be an identifier, not {short(name)}")
    for method in _REQUIRED:
        if getattr(kind, method) is getattr(Kind, method):
            raise ConfigurationError(f"the kind {name!r} must define {method}")
    taken = _registered(name) or kind
    if (taken.__module__, taken.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ConfigurationError(f"the name {name!r} is taken by the kind {taken.__qualname__}")
    _KINDS[name] = kind  # a module that is loaded again brings its class anew
    return kind


def named(name: str) -> type[Kind]:
    """Return the class of a kind; UnknownKindError if no package here brings one of that name."""
    kind = _registered(name) or known(name).get(name)
    if kind is None:
        raise UnknownKindError(name)
    return kind


def _registered(name: str) -> type[Kind] | None:
    """Return the class of a kind that is registered, as simdb's own are from the start."""
    if name in _OWN and name not in _KINDS:
        _KINDS[name] = _imported(_OWN[name])
    return _KINDS.get(name)


def known(wanted: str | None = None) -> dict[str, type[Kind]]:
    """Return all kinds by name: simdb's own first, then those of installed packages.

    Of these only the one that is ``wanted`` is loaded, if it is named.
    """
    for found in _entry_points():
        if found.name not in {*_OWN, *_KINDS} and wanted in (None, found.name):
            register(loaded(found))
    return _all_registered()


def names() -> list[str]:
    """Return the names of all kinds, those of installed packages included, which are not loaded."""
    others = (found.name for found in _entry_points())
    return list(dict.fromkeys([*_OWN, *_KINDS, *others]))


def _entry_points() -> Any:
    metadata = late.module("importlib.metadata")  # slow to load, and mostly not needed
    return metadata.entry_points(group=ENTRY_POINTS)


def _all_registered() -> dict[str, type[Kind]]:
    return {name: named(name) for name in {**_OWN, **_KINDS}}


def defining_modules() -> list[str]:
    """Return the modules that define the kinds and tokenisers registered here, but simdb's own.

    The program that is run is not among them: nothing can import it.
    """
    others = (kind for name, kind in _KINDS.items() if name not in _OWN)
    registered = [*others, *tokenisers.known()]
    modules = {getattr(one, "__module__", None) or "__main__" for one in registered}
    return sorted(modules - {"__main__"})


def restore(described: object) -> Kind:
    """Return the kind that ``Kind.describe`` described.

    Raises:
        UnknownKindError: this process does not know it; or, of a kind that is not simdb's own, its
            class does not take the settings.
        ConfigurationError: a setting is wrong; the message says where it stands.
    """
    if not isinstance(described, Mapping):
        raise ConfigurationError(f"a kind is described by a mapping, not by {described!r}")
    name = described.get("kind")
    kind = named(name if isinstance(name, str) else repr(name))
    settings = {setting: described[setting] for setting in described if setting != "kind"}
    if name in _OWN:
        return kind.restored(settings)
    try:
        return kind.restored(settings)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise UnknownKindError(str(name), why=str(error)) from error


def require(kind: object) -> Kind:
    """Check that ``kind`` is of a registered kind, and return it; WrongTypeError if it is not."""
    if isinstance(kind, type) and issubclass(kind, Kind):
        call = f"{kind.__name__}({', '.join(kind.needed())})"
        raise WrongTypeError(f"a collection's kind must be a call such as {call}, not the class")
    if not isinstance(kind, Kind):
        some = ", ".join(f"simdb.{one.__name__}" for one in _all_registered().values())
        raise WrongTypeError(f"a collection's kind must be one of {some}, not {short(kind)}")
    if _registered(kind.name) is not type(kind):
        raise WrongTypeError(
            f"{type(kind).__name__} is not a registered kind: call simdb.kinds.register with it"
        )
    return kind


def _imported(name: str) -> Any:
    return getattr(late.module(f"simdb.kinds.{_MODULES[name]}"), name)


if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name == "OWN":
            return tuple(map(named, _OWN))
        if name in _MODULES:
            return _imported(name)
        raise AttributeError(f"module 'simdb.kinds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
