"""What finding an answer costs, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass

from simdb.errors import OperationInterruptedError, Remedy


@dataclass(slots=True)
class Work:
    """Counters of one answer; they grow while it is found.

    Attributes:
        budget: the most pairs that may be looked at; None for any number.
        looked_at: pairs met in buckets or in postings, each as often as it is met, or compared all
            with all. Every other step is linear, so this is what may become too much.
        too_unlike: of these, dropped for too few equal words of signature.
        postings: of an exact join, symbols posted in buckets that have both sides.
        looked_up: symbols of probes that were looked up in an exact index.
        candidates: of exact answers, those that passed the bounds on postings and the bitmaps.
        compared: compared in full, or until the overlap was out of reach.
        found: similar enough.
    """

    budget: int | None = None
    looked_at: int = 0
    too_unlike: int = 0
    postings: int = 0
    looked_up: int = 0
    candidates: int = 0
    compared: int = 0
    found: int = 0

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
                f"at least {pairs:,} pairs have to be looked at, more than the budget of "
                f"{self.budget:,}; what was given before is right, but not all",
                remedies=[Remedy("budget", ..., "permits more")],
            )
