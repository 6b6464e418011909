"""Checks that several settings share."""

from __future__ import annotations

from simdb.errors import ConfigurationError

LARGEST = 2**53  # sums with lengths of items stay far from the end of 64 bits


def require_positive(name: str, value: object) -> None:
    """Raise unless a value is a whole number of at least 1 that kernels can count with."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise ConfigurationError(
            f"{name} must be a whole number of at least 1 and at most {LARGEST:,}, not {value!r}"
        )


def is_number(value: object) -> bool:
    """Return whether a value is a number, which True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise unless a value is None, or a whole number within limits."""
    if value is None:
        return
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < least
        or (most is not None and value > most)
    ):
        limits = f"of at least {least:,}" if most is None else f"between {least:,} and {most:,}"
        raise ConfigurationError(f"{name} must be a whole number {limits}, not {value!r}")
