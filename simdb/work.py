"""What finding an answer costs, and what it may cost."""

from __future__ import annotations

from msgspec import Struct

from simdb.errors import OperationInterruptedError, Remedy


class Work(Struct):
    """Counters of one answer; they grow while it is found."""

    budget: int | None = None  # the most pairs that may be looked at; None for any number
    # Pairs met in buckets or in postings, each as often as it is met, or compared all with all.
    # Every other step is linear, so this is what may become too much.
    looked_at: int = 0
    too_unlike: int = 0  # of these, dropped for too few equal words of signature
    postings: int = 0  # of an exact join, symbols posted in buckets that have both sides
    looked_up: int = 0  # symbols of probes that were looked up in an exact index
    candidates: int = 0  # of exact answers, those that passed the bounds and the bitmaps
    compared: int = 0  # in full, or until the overlap was out of reach
    found: int = 0  # similar enough

    def spend(self, pairs: int) -> None:
        """Count pairs that are about to be looked at.

        Raises:
            OperationInterruptedError: the budget does not reach for them; they are not counted.
        """
        self._require(self.looked_at + pairs)
        self.looked_at += pairs

    def note(self, pairs: int) -> None:
        """Count pairs that a step has looked at, whose number was not known before.

        Raises:
            OperationInterruptedError: the budget did not reach for them.
        """
        self.looked_at += pairs
        self._require(self.looked_at)

    def _require(self, pairs: int) -> None:
        if self.budget is not None and pairs > self.budget:
            raise OperationInterruptedError(
                f"budget of {self.budget:,} pairs exceeded: {pairs:,} or more have to be looked "
                "at, each as often as it meets in a bucket or in postings; the answers given so "
                "far are right, but not complete",
                remedies=[Remedy("budget", ..., "permits more")],
            )
