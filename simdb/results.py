"""Answers that are iterated: pairs and groups, with their guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simdb.datatypes import Effort, Group, Guarantee, Key, Pair, PairBatch

# Batches, what turns each into pairs with keys, and a token to go on after it.
PairSource = Callable[[], Iterator[tuple[PairBatch, Callable[[], list[Pair]], str | None]]]


class Pairs:
    """All similar pairs, found while they are iterated; every iteration begins anew.

    Attributes:
        guarantee: ``"exact"`` (none is missing) or ``"probable"``.
        expected_recall: the share of the pairs *at the threshold* expected to be found.
        token: of exact pairs, what ``pairs(..., resume=token)`` goes on from: after the last batch
            that ``batches`` has given, or the last one of which iteration has given all pairs.
    """

    def __init__(
        self,
        source: PairSource,
        guarantee: Guarantee,
        expected_recall: float,
        *,
        effort: Effort,
        compared: Callable[[], int] | None,
        token: str | None,
    ) -> None:
        self._source = source
        self._effort = effort
        self._compared = compared
        self.token = token
        self.guarantee = guarantee
        self.expected_recall = expected_recall

    def __repr__(self) -> str:
        """Describe the answer; finds nothing."""
        return (
            f"<simdb pairs, {_promise(self.guarantee, self.expected_recall)}; found by iterating>"
        )

    @property
    def looked_at(self) -> int:
        """Pairs that the last iteration has looked at so far, which ``budget`` limits.

        More than the budget where it has ended in the middle of a step.
        """
        return self._effort.pairs

    @property
    def candidates(self) -> int | None:
        """Candidates of probable pairs compared in full so far, over all iterations."""
        return None if self._compared is None else self._compared()

    def __iter__(self) -> Iterator[Pair]:
        """Yield one ``Pair`` after the other."""
        for _, pairs, token in self._source():
            yield from pairs()
            self.token = token

    def batches(self) -> Iterator[PairBatch]:
        """Yield the pairs as columns of item numbers; ``keys_of`` turns these into keys."""
        for batch, _, token in self._source():
            self.token = token
            yield batch


class Groups:
    """Groups of connected items.

    Attributes:
        guarantee: ``"exact"`` or ``"probable"``, as that of the pairs that connect them.
        expected_recall: the share of the pairs *at the threshold* expected to be found.
        looked_at: pairs that were looked at, which ``budget`` limits.
    """

    def __init__(
        self, keys: list[list[Key]], guarantee: Guarantee, expected_recall: float, looked_at: int
    ) -> None:
        self._keys = keys
        self.looked_at = looked_at
        self.guarantee = guarantee
        self.expected_recall = expected_recall

    def __repr__(self) -> str:
        """Describe the answer."""
        return f"<{len(self):,} simdb groups, {_promise(self.guarantee, self.expected_recall)}>"

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self._keys)

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups by the insertion of their first items."""
        for keys in self._keys:
            yield Group(keys[0], tuple(keys))


def _promise(guarantee: Guarantee, expected_recall: float) -> str:
    if guarantee == "exact":
        return "exact: none is missing"
    return f"probable: expected recall at the threshold {expected_recall:.4f}"
