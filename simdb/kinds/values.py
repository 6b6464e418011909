"""Kinds of items as plain values, as they are stored, and what is a kind at all."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from simdb import config
from simdb.errors import WrongTypeError

_SHINGLES: dict[str, type[config.Shingles]] = {
    "character": config.CharacterShingles,
    "word": config.WordShingles,
    "stop-word": config.StopWordShingles,
}
_KINDS: dict[str, type[config.Kind]] = {
    "text": config.Text,
    "set": config.Set,
    "bag": config.Bag,
    "bits": config.Bits,
    "vector": config.Vector,
    "record": config.Record,
    "fingerprint": config.Fingerprint,
}


def kind_name(kind: config.Kind) -> str:
    """Return the name of a kind: ``"text"``, ``"set"`` and so on."""
    return next(name for name, known in _KINDS.items() if isinstance(kind, known))


def describe_kind(kind: config.Kind) -> dict[str, Any]:
    """Return a kind of item as plain values."""
    described = {"kind": kind_name(kind), **asdict(kind)}
    if isinstance(kind, config.Text):
        name = next(name for name, known in _SHINGLES.items() if isinstance(kind.shingles, known))
        described["shingles"] = {"of": name, **described["shingles"]}
    return described


def restore_kind(described: dict[str, Any]) -> config.Kind:
    """Return the kind that ``describe_kind`` described.

    Raises:
        KeyError, TypeError: it is none that this version knows.
    """
    settings = dict(described)
    name = settings.pop("kind")
    if name == "text":
        shingles = dict(settings.pop("shingles"))
        settings["shingles"] = _SHINGLES[shingles.pop("of")](**shingles)
    if name == "record":
        settings["fields"] = [config.Field(**field) for field in settings["fields"]]
        settings["candidates"] = [
            tuple(config.Equal(**equal) for equal in rule) for rule in settings["candidates"]
        ]
    return _KINDS[name](**settings)


def require_kind(kind: object) -> config.Kind:
    """Return what is a kind of item.

    Raises:
        WrongTypeError: it is none.
    """
    if not isinstance(kind, tuple(_KINDS.values())):
        known = ", ".join(f"simdb.{known.__name__}" for known in _KINDS.values())
        raise WrongTypeError(f"a collection's kind must be one of {known}, not {kind!r}")
    return cast("config.Kind", kind)
