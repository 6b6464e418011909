"""Checks that several settings share."""

from __future__ import annotations

from simdb.errors import ConfigurationError


def require_positive(name: str, value: object) -> None:
    """Raise unless a value is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")
