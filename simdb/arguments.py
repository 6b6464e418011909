"""What callers give: checks that many functions share, with errors that name the argument."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from math import inf, nan
from numbers import Real
from typing import Any

import numpy as np

from simdb.errors import ConfigurationError, WrongTypeError


def require_whole(
    name: str, value: object, least: int, most: int | None = None, *, optional: bool = True
) -> None:
    """Raise unless a value is a whole number within limits; or None, where it is optional."""
    if value is None and optional:
        return
    if (
        not isinstance(value, int | np.integer)
        or isinstance(value, bool)
        or value < least
        or (most is not None and value > most)
    ):
        limits = f"of at least {least:,}" if most is None else f"between {least:,} and {most:,}"
        raise ConfigurationError(f"{name} must be a whole number {limits}, not {value!r}")


def number_within(name: str, value: Any, least: float, most: float = inf) -> float:
    """Return a number of any type; ConfigurationError unless it is one within limits."""
    given = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    number = nan
    if type(given) is not bool and isinstance(given, Real | Decimal):
        with suppress(OverflowError, ValueError):  # beyond what a float holds; a signalling NaN
            number = float(given)
    if not least <= number <= most:
        limits = f"of at least {least:g}" if most == inf else f"between {least:g} and {most:g}"
        raise ConfigurationError(f"{name} must be a number {limits}, not {value!r}")
    return number


def require_function(name: str, value: object) -> None:
    """Raise WrongTypeError unless a value can be called, or is None."""
    if value is not None and not callable(value):
        raise WrongTypeError(f"{name} must be a function or None, not {type(value).__name__}")


def several(name: str, given: Any, of: str | None = None) -> Iterable[Any]:
    """Return what can be iterated; WrongTypeError for anything else, and for a single text."""
    if isinstance(given, str | bytes):
        raise WrongTypeError(f"{name} must be an iterable of {of or name}, not one text")
    # Python also iterates what has nothing but numbered places.
    if not isinstance(given, Iterable) and not hasattr(type(given), "__getitem__"):
        problem = f"{name} must be an iterable of {of or name}, not {type(given).__name__}"
        raise WrongTypeError(problem)
    found: Iterable[Any] = given
    return found
