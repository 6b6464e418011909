"""What a campaign is, and what it reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAILURES_KEPT = 50


@dataclass
class Campaign:
    """A named campaign.

    Attributes:
        name, description: for the command line.
        short, long: trials of the two forms; seconds where ``timed``.
        run: does it.
        shim: needs the preloaded library that records and fails calls.
        timed: its size is a number of seconds.
        small_parts: blocks, chunks, merges and epochs are made small for it.
    """

    name: str
    description: str
    short: int
    long: int
    run: Callable[[Run], None]
    shim: bool = False
    timed: bool = False
    small_parts: bool = True


@dataclass
class Run:
    """One run of a campaign: what it is given, and what it found.

    Attributes:
        seed: everything random follows from it. Trial n of a campaign with independent trials is
            trial 0 of ``seed + n``, so that one that failed can be seen again alone.
        count: how many trials, or seconds.
        work: an empty folder.
        sabotage: a fault planted on purpose, which the campaign has to find; None for none.
        targets: of fuzzing, only those named so; all if none is.
        trials: done so far.
        outcomes: how often each thing happened that is no failure.
        failures: what must not have happened, each with what is needed to see it again.
        skipped: why it could not run.
    """

    seed: int
    count: int
    work: Path
    sabotage: str | None = None
    targets: Sequence[str] = ()
    verbose: bool = False
    trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    skipped: str | None = None
    began: float = field(default_factory=time.perf_counter)

    @property
    def is_over(self) -> bool:
        """Whether a fault that was planted has been found, which no further trial need do."""
        return self.sabotage is not None and bool(self.failures)

    def trial(self, outcome: str = "") -> None:
        """Count a trial."""
        self.trials += 1
        if outcome:
            self.outcomes[outcome] += 1

    def fail(self, what: str) -> None:
        """Note a failure."""
        self.outcomes["FAILED"] += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(what)
        if self.verbose:
            print("   FAILED", what, flush=True)

    def report(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "seed": self.seed,
            "count": self.count,
            "sabotage": self.sabotage,
            "trials": self.trials,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": self.failures,
            "skipped": self.skipped,
            "seconds": round(time.perf_counter() - self.began, 1),
        }


CAMPAIGNS: dict[str, Campaign] = {}


def campaign(
    name: str,
    description: str,
    *,
    short: int,
    long: int,
    shim: bool = False,
    timed: bool = False,
    small_parts: bool = True,
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a function as a campaign."""

    def register(function: Callable[[Run], None]) -> Callable[[Run], None]:
        CAMPAIGNS[name] = Campaign(
            name, description, short, long, function, shim, timed, small_parts
        )
        return function

    return register
