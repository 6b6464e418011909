"""Text as vectors, bit vectors and fingerprints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from simdb.files.rows import Item, ReadingOptions, RowProblemError, shortened

_HEXADECIMAL = re.compile(r"0[xX]([0-9a-fA-F]+)")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_MINUTIA = (3, 4)  # numbers on a line: x, y, direction, and maybe a quality


def number_tokens(tokens: list[str], options: ReadingOptions) -> Item:
    """Return tokens as the vector or the bit vector that they spell together."""
    if options.kind == "bits":
        return bits_of_text("".join(tokens), options.length)
    return [number(token) for token in tokens]


def number(token: str) -> float:
    """Return the number that a token spells."""
    if not _NUMBER.fullmatch(token):
        raise RowProblemError(f"{shortened(token)} is not a number")
    return float(token)


def bits_of_text(text: str, length: int) -> str | int:
    """Return bits in text; hexadecimal ones as the whole number whose highest bit comes first.

    Of hexadecimal digits there must be as many as the length has, so that none is forgotten; what
    is no bit in other text is left to the collection, which says where it stands.
    """
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        return text
    digits = -(-length // 4)
    if len(found[1]) != digits:
        raise RowProblemError(
            f"{shortened(text)} has {len(found[1]):,} hexadecimal digits, but {length:,} bits have "
            f"{digits:,}"
        )
    return int(found[1], 16)


def behind_one_another(parts: list[Item]) -> Item:
    """Return vectors, bit vectors or fingerprints of several fields as one."""
    if len(parts) == 1:
        return parts[0]
    joined: list[Any] = []
    for part in parts:
        if isinstance(part, int):
            raise RowProblemError("hexadecimal bits must be in one field")
        joined += list(map(_bit, part)) if isinstance(part, str) else list(part)
    return joined


def _bit(character: str) -> int:
    if character not in "01":
        raise RowProblemError(f"{shortened(character)} is no bit")
    return int(character)


def print_of_text(text: str, *, squares: bool) -> list[Any]:
    """Return the fingerprint in a file: a minutia a line, or numbers of squares.

    A minutia is x, y and direction in degrees between white space; a fourth number, which other
    programs write, is its quality and does not count.
    """
    if squares:
        return [_square(token) for token in text.split()]
    lines = enumerate(text.splitlines(), 1)
    return [_minutia(place, line.split()) for place, line in lines if line.strip()]


def _square(token: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(token):
        raise RowProblemError(f"{shortened(token)} is no number of a square")
    return int(token)


def _minutia(place: int, tokens: Sequence[str]) -> list[float]:
    if len(tokens) not in _MINUTIA:
        raise RowProblemError(
            f"line {place} has {len(tokens)} numbers: a minutia is x, y and direction"
        )
    try:
        return [number(token) for token in tokens][:3]
    except RowProblemError as problem:
        raise RowProblemError(f"line {place}: {problem}") from None
