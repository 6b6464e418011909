"""Kinds of items on the command line: their names, their settings, and how items are shown."""

from __future__ import annotations

from typing import Any, Literal

from simdb.cli.options import one_of, text_kind
from simdb.config import Kind, Set, Text
from simdb.errors import ConfigurationError

KindName = Literal["text", "set"]


def name_of(kind: Kind) -> KindName:
    """Return what the command line calls a kind."""
    return "set" if isinstance(kind, Set) else "text"


def kind_from(
    name: str,
    shingles: str | None,
    lowercase: bool | None,
    white_space: str | None,
    unicode: str | None,
) -> Kind:
    """Return the kind of a name, with the settings that were given."""
    base = Set() if one_of("--kind", name, "text", "set") == "set" else Text()
    return changed_kind(base, shingles, lowercase, white_space, unicode)


def changed_kind(
    base: Kind,
    shingles: str | None,
    lowercase: bool | None,
    white_space: str | None,
    unicode: str | None,
) -> Kind:
    """Return a kind with the given settings changed.

    Raises:
        ConfigurationError: a setting of texts for something else.
    """
    if isinstance(base, Text):
        return text_kind(base, shingles, lowercase, white_space, unicode)
    given = {
        "--shingles": shingles,
        "--lowercase": lowercase,
        "--white-space": white_space,
        "--unicode": unicode,
    }
    for option, value in given.items():
        if value is not None:
            raise ConfigurationError(f"{option} is a setting of texts, not of {name_of(base)}s")
    return base


def plain_item(item: Any) -> Any:  # noqa: ANN401 - the class depends on the kind
    """Return an item as JSON can hold it: sets as sorted lists."""
    return sorted(item) if isinstance(item, frozenset) else item


def shown_item(item: Any) -> str:  # noqa: ANN401 likewise
    """Return an item as text for people: the elements of a set between blanks."""
    if isinstance(item, frozenset):
        return " ".join(map(str, sorted(item)))
    return str(item)
