"""Checks that several settings share."""

from __future__ import annotations

from simdb.errors import ConfigurationError

LARGEST = 2**31 - 1


def require_positive(name: str, value: object) -> None:
    """Raise unless a value is a whole number of at least 1, and of 32 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise ConfigurationError(
            f"{name} must be a whole number between 1 and {LARGEST:,}, not {value!r}"
        )
