"""Settings of sets and bags (MMDS 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simdb.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Set:
    """Sets of integers, or of strings, compared by Jaccard similarity (MMDS 3.1.1).

    An item is any collection of either: ``{1, 2}``, ``["milk", "bread"]``, an array of integers.
    Its order and its repeats do not count; ``get`` returns a ``frozenset``.
    """


@dataclass(frozen=True, slots=True)
class Bag:
    """Bags of integers, or of strings, compared by Jaccard similarity of bags (MMDS 3.1.3).

    An item is a collection in which elements may occur several times, ``["milk", "milk", "tea"]``,
    or a mapping of elements to counts, ``{"milk": 2, "tea": 1}``; ``get`` returns a ``Counter``.
    The intersection counts an element as often as the bag with fewer of it does.

    Attributes:
        union: ``"sum"`` counts an element as often as both bags together do, so that no similarity
            exceeds 1/2; ``"maximum"`` as often as the bag with more of it does, so that equal bags
            have similarity 1 (the footnote of 3.1.3).
    """

    union: Literal["sum", "maximum"] = "sum"

    def __post_init__(self) -> None:
        if self.union not in ("sum", "maximum"):
            raise ConfigurationError(f"Bag.union must be 'sum' or 'maximum', not {self.union!r}")
