"""Text as sets: cut into tokens, which are strings or whole numbers throughout an input."""

from __future__ import annotations

from typing import Any

from simdb.files.rows import (
    WHOLE_NUMBER,
    Elements,
    ReadingOptions,
    RowProblemError,
)
from simdb.kinds.base import shortened

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class Tokens:
    """Cuts text into the elements of sets.

    What ``"auto"`` means is decided by the first set or bag that has elements, for all of the
    input: were it decided set by set, ``1 2 3`` and ``1 2 x`` would have nothing in common.

    Attributes:
        elements: ``"integers"`` or ``"strings"``; ``"auto"`` until it is decided.
    """

    def __init__(self, options: ReadingOptions) -> None:
        self.elements: Elements = options.elements
        self._separator = options.separator
        self._told = options.elements != "auto"

    def split(self, text: str) -> list[str]:
        """Cut text at white space, or at the separator; what is empty then is no token."""
        if self._separator is None:
            return text.split()
        return present(text.split(self._separator))

    def take_example(self, elements: list[Any]) -> None:
        """Let a bag whose elements have types decide what ``"auto"`` means, if nothing has."""
        if self.elements == "auto" and elements:
            self.elements = "strings" if isinstance(elements[0], str) else "integers"

    def typed(self, tokens: list[str]) -> list[str] | list[int]:
        """Return tokens as the elements that they stand for.

        Raises:
            RowProblemError: they are to be integers, and one is not.
        """
        if self.elements == "auto" and tokens:
            integers = all(_is_integer(token) for token in tokens)
            self.elements = "integers" if integers else "strings"
        if self.elements != "integers":
            return tokens
        if all(map(WHOLE_NUMBER.fullmatch, tokens)):
            return list(map(int, tokens))
        wrong = next(token for token in tokens if not WHOLE_NUMBER.fullmatch(token))
        hint = (
            ""
            if self._told
            else ", as those before it are; where that is not meant, take all as strings"
        )
        raise RowProblemError(f"the element {shortened(wrong)} is not a whole number{hint}")


def present(tokens: list[str]) -> list[str]:
    """Return tokens without white space around them, and without those that are empty then."""
    return [stripped for token in tokens if (stripped := token.strip())]


def _is_integer(token: str) -> bool:
    return bool(WHOLE_NUMBER.fullmatch(token)) and _SMALLEST <= int(token) <= _LARGEST
