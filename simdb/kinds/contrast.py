"""What differs between two settings, in words: for messages that refuse one for the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simdb.kinds.base import Kind, Settings

MOST_NAMED = 5  # differences in one message
LONGEST_SHOWN = 60  # characters of a value


def contrast(present: Kind, wanted: Kind) -> str:
    """Name the settings that differ, with both values: ``"shingles.size is 9, not 2"``.

    Different kinds differ in that alone: ``"it holds texts, not sets"``. Equal ones in nothing.
    """
    if type(present) is not type(wanted):
        if present.plural == wanted.plural:
            return f"its kind is {present.name}, not {wanted.name}"
        return f"it holds {present.plural}, not {wanted.plural}"
    found = list(_differences("", present, wanted))
    more = len(found) - MOST_NAMED
    if more > 0:
        found[MOST_NAMED:] = [f"{more} more {'differs' if more == 1 else 'differ'}"]
    return "; ".join(found)


def difference(setting: str, present: object, wanted: object) -> str:
    """Say what one setting is and what it is not; only that it differs where values are long."""
    shown, other = _shown(present), _shown(wanted)
    if shown == other or max(len(shown), len(other)) > LONGEST_SHOWN:
        return f"{setting} differs"
    return f"{setting} is {shown}, not {other}"


def _differences(path: str, present: object, wanted: object) -> Iterator[str]:
    """Yield what differs at a path of settings within settings."""
    if present == wanted:
        return
    ones, others = _parts(present), _parts(wanted)
    if ones and type(present) is type(wanted):
        if list(ones) != list(others):
            yield f"{path} are {', '.join(ones)}, not {', '.join(others)}"
        for name in ones:
            if name in others:
                inner = f"{path}.{name}" if path else name
                yield from _differences(inner, ones[name], others[name])
    else:
        yield difference(path, present, wanted)


def _parts(value: object) -> dict[str, object]:
    """Return settings by name, or named ones such as the fields of a record; else nothing."""
    if isinstance(value, Settings):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    parts = value if isinstance(value, Sequence) else ()
    names = [getattr(part, "name", None) for part in parts]
    return {} if None in names else dict(zip(map(str, names), parts, strict=True))


def _shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, Settings):
        return str(value)
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)
