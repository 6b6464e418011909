"""What callers give: checks that many functions share, with errors that name the argument."""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from numbers import Real
from operator import index
from typing import Any, Literal, TypeGuard, overload

import numpy as np

from simdb.errors import ConfigurationError, WrongTypeError

WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as text, in its usual spelling
OWNER_MAY = 0o600  # read and write: else not even who made a store could open it
_WHOLE = (int, np.integer)
_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)
_NOT_WHOLE = (bool, np.timedelta64)  # which are of the classes above, too
_LONGEST_SHOWN = 60  # characters of a text, or of what is not Python's own


class _Shown(reprlib.Repr):
    """How messages show values."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _LONGEST_SHOWN

    def repr_int(self, x: int, level: int) -> str:
        """Return a number; its size if Python does not write so many digits."""
        try:
            repr(x)  # newer versions of Python show an object by its address instead
        except ValueError:
            return f"a whole number of {x.bit_length():,} bits"
        return super().repr_int(x, level)


short = _Shown().repr  # of any value, short


def is_number(value: object) -> bool:
    """Whether a value is a number of Python or NumPy, and no truth value or time."""
    return isinstance(value, _NUMBERS) and not isinstance(value, _NOT_WHOLE)


def is_whole(value: object) -> TypeGuard[int | np.integer]:
    """Whether a value is a whole number of Python or NumPy, and no truth value or time."""
    return isinstance(value, _WHOLE) and not isinstance(value, _NOT_WHOLE)


@overload
def require_whole(
    name: str, value: int | None, least: int, most: int | None = None, *, optional: Literal[False]
) -> int: ...
@overload
def require_whole(
    name: str, value: int | None, least: int, most: int | None = None, *, optional: bool = True
) -> int | None: ...
def require_whole(
    name: str, value: object, least: int, most: int | None = None, *, optional: bool = True
) -> int | None:
    """Return a whole number within limits as Python's own; or None, where it is optional.

    ConfigurationError: it is something else.
    """
    if value is None and optional:
        return None
    number = index(value) if is_whole(value) else None
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least:,}" if most is None else f"between {least:,} and {most:,}"
        raise ConfigurationError(f"{name} must be a whole number {limits}, not {short(value)}")
    return number


def require_mode(mode: int | None) -> int | None:
    """Return the permissions of a new store, or None; ConfigurationError: they are none."""
    mode = require_whole("mode", mode, 0, 0o777)
    if mode is not None and mode & OWNER_MAY != OWNER_MAY:
        raise ConfigurationError(f"mode must let the owner read and write, as 0o600, not {mode:#o}")
    return mode


def number_within(name: str, value: Any, most: float) -> float:
    """Return a number of any type; ConfigurationError unless it is one from 0 to a limit."""
    given = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    number = nan
    if type(given) is not bool and isinstance(given, Real | Decimal):
        # Beyond what a float holds; a time of NumPy; a signalling NaN.
        with suppress(OverflowError, TypeError, ValueError):
            number = float(given)
    if not 0 <= number <= most:
        limits = "of at least 0" if most == inf else f"between 0 and {most:g}"
        raise ConfigurationError(f"{name} must be a number {limits}, not {short(value)}")
    return number


def require_once(names: Iterable[object], problem: str) -> None:
    """Raise ConfigurationError with the problem if a name is given twice."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{problem} {twice!r} twice")


def require_function(name: str, value: object, *, optional: bool = True) -> None:
    """Raise WrongTypeError unless a value can be called; or is None, where it is optional."""
    if not callable(value) and not (optional and value is None):
        wanted = "a function or None" if optional else "a function"
        raise WrongTypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def require_choice(name: str, value: object, *choices: str | None) -> None:
    """Raise ConfigurationError unless a value is one of some texts, or None if that is one."""
    is_text = isinstance(value, str)  # an array is equal to nothing, or to all
    if not (is_text or value is None) or value not in choices:
        few = len(choices) < 3
        permitted = (" or " if few else ", ").join(map(repr, choices))
        problem = f"{name} must be {'' if few else 'one of '}{permitted}, not {short(value)}"
        raise ConfigurationError(problem)


def can_be_iterated(given: Any) -> bool:
    """Whether a loop can be over a value, as not over an array without a dimension."""
    if isinstance(given, Iterable):
        return not isinstance(given, np.ndarray) or given.ndim > 0
    try:
        iter(given)  # which takes what has nothing but numbered places, too
    except TypeError:
        return False
    return not hasattr(given, "collect")  # as a query of polars, which nobody has run yet


def require_truth(name: str, value: object) -> bool:
    """Return a truth value as Python's own; WrongTypeError: it is something else."""
    if not isinstance(value, bool | np.bool_):
        raise WrongTypeError(f"{name} must be True or False, not {type(value).__name__}")
    return bool(value)


def several(name: str, given: Any, of: str | None = None) -> Iterable[Any]:
    """Return what can be iterated; WrongTypeError for anything else, and for a single text."""
    if isinstance(given, str | bytes):
        raise WrongTypeError(f"{name} must be an iterable of {of or name}, not one text")
    if not can_be_iterated(given):
        problem = f"{name} must be an iterable of {of or name}, not {type(given).__name__}"
        raise WrongTypeError(problem)
    found: Iterable[Any] = given
    return found
