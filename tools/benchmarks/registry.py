"""What a measure is, and the figures that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

REAL_DATA = ("text/reuters21578.jsonl.gz", "text/newsgroups20.jsonl.gz")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report.

    Attributes:
        measure: name of the measure that it belongs to.
        name: what was measured.
        value: how much of it, in ``unit``.
        peer: what it is compared with.
        peer_value: the peer's figure, in ``unit``.
        ratio: how many times better than the peer, above 1 is better.
        target: what issue and design ask for, in words.
        reached: whether that is so; None where nothing is asked or it could not be measured.
        note: recall, precision, and what else belongs beside the figure.
    """

    measure: str
    name: str
    value: float | None
    unit: str
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    target: str = ""
    reached: bool | None = None
    note: str = ""


@dataclass(slots=True)
class Bench:
    """One run: where the data and the scratch files are, how large, and the figures so far.

    Attributes:
        count: documents of the large stores.
        set_count: items of the stores that the exact index grows with.
        stringsimjoin, text_dedup, datatrove: Pythons that have these peers.
        plot: where the curve of the exact index's growth is drawn; None is the work folder.
    """

    data: Path | None
    work: Path
    count: int
    seed: int = 0
    set_count: int = 100_000
    stringsimjoin: Path | None = None
    text_dedup: Path | None = None
    datatrove: Path | None = None
    plot: Path | None = None
    fresh: bool = False
    figures: list[Figure] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    announce: Callable[[str], None] = print

    def add(self, figure: Figure) -> None:
        """Add a figure and announce it."""
        self.figures.append(figure)
        shown = "absent" if figure.value is None else f"{figure.value:,.4g} {figure.unit}"
        self.announce(f"   {figure.measure}: {figure.name}: {shown} {figure.note}")

    def at_most(
        self, measure: str, name: str, value: float, unit: str, *, limit: float, note: str = ""
    ) -> None:
        """Add a figure that must not exceed a limit."""
        target, reached = f"at most {limit:,.4g}", value <= limit
        self.add(Figure(measure, name, value, unit, target=target, reached=reached, note=note))

    def real_files(self) -> list[Path]:
        """Return the files of real text, or raise FileNotFoundError saying how to name them."""
        if self.data is None:
            raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
        return [self.data / name for name in REAL_DATA]


Run: TypeAlias = Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Measure:
    """A subcommand of the benchmark."""

    name: str
    description: str
    run: Run


MEASURES: dict[str, Measure] = {}


def measure(name: str, description: str) -> Callable[[Run], Run]:
    """Register a function as the measure ``name``; measures run in the order of registration.

    Functions that are registered under one name are one measure, and run one after the other.
    """

    def register(run: Run) -> Run:
        earlier = MEASURES.get(name)
        if earlier is None:
            MEASURES[name] = Measure(name, description, run)
            return run

        def both(bench: Bench) -> None:
            earlier.run(bench)
            run(bench)

        MEASURES[name] = Measure(name, f"{earlier.description}; {description}", both)
        return run

    return register
