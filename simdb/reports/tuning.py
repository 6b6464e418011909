"""The report of settings that were tried on a sample."""

from __future__ import annotations

from simdb.errors import WrongTypeError
from simdb.reports import charts
from simdb.reports.pages import Section, Shown, rendered, texts_beside
from simdb.tuning import BIN, LOWEST, Example, Removal, Trial, Tuning

DISAGREEING = 2  # pairs of each setting that it alone takes, and as many that it alone lets go


def tuning_report(found: Tuning, *, title: str | None = None, command: str | None = None) -> str:
    """Return the result of ``tune`` as one page of HTML.

    The page shows the proposal and its reason, what each setting and threshold removes, pairs by
    similarity, the nearest pairs on both sides of each threshold with the differences marked, and
    pairs on which another setting disagrees.

    Args:
        found: the result of ``tune``.
        title: of the page.
        command: the command that applies the proposal, as the page shows it.

    Raises:
        WrongTypeError: it is no result of ``tune``.
        MissingExtraError: jinja2 or matplotlib is not installed (the extra ``report``).
    """
    if not isinstance(found, Tuning):
        raise WrongTypeError(f"a report of settings is of simdb.tune, not {type(found).__name__}")
    proposed = found.proposed
    return rendered(
        "tuning.html",
        title=title or "simdb: choosing settings",
        command=command,
        numbers=[
            ("rows of the sample", f"{found.rows:,}"),
            ("bytes", f"{found.bytes:,}"),
            ("setting proposed", proposed.name),
            ("threshold proposed", f"{found.threshold:g}"),
        ],
        reason=found.reason,
        thresholds=[f"{one.threshold:g}" for one in proposed.removals],
        trials=[
            {
                "name": trial.name,
                "proposed": trial is proposed,
                "cells": [
                    *(
                        f"{one.rows:,} ({one.bytes / max(1, found.bytes):.1%})"
                        for one in trial.removals
                    ),
                    *(f"{sum(trial.histogram):,}", f"{trial.keys}", f"{trial.seconds:.2f}"),
                ],
            }
            for trial in found.trials
        ],
        charts=[_histogram(found, number, trial) for number, trial in enumerate(found.trials)],
        sections=[
            *(_beside_threshold(found, one) for one in proposed.removals if one.above or one.below),
            *_disagreements(found),
        ],
    )


def _histogram(found: Tuning, number: int, trial: Trial) -> tuple[str, str, str]:
    edges = [LOWEST + BIN * place for place in range(len(trial.histogram) + 1)]
    svg = charts.histogram(
        edges,
        trial.histogram,
        found.threshold,
        measured="similarity",
        below=False,
        name=f"histogram-{number}",
    )
    return trial.name, f"{sum(trial.histogram):,} pairs", svg


def _beside_threshold(found: Tuning, removal: Removal) -> Section:
    above = [_shown(found, pair, "taken, ") for pair in removal.above]
    below = [_shown(found, pair, "let go, ") for pair in removal.below]
    about = (
        f"It removes {removal.rows:,} rows; {removal.beside:,} pairs are less than {BIN:g} away. "
        "The nearest pairs on both sides, the most similar first."
    )
    return Section(f"Threshold {removal.threshold:g}", about, [*above[::-1], *below])


def _disagreements(found: Tuning) -> list[Section]:
    """Return pairs that another setting takes and the proposed one does not, and the reverse."""
    threshold, proposed = found.threshold, found.proposed
    own = _taken(proposed, threshold)
    shown: list[Shown] = []
    for trial in found.trials:
        if any(sum(one.histogram) > len(one.pairs) for one in (trial, proposed)):
            continue  # of a pair that is not kept it is not known who takes it
        others = _taken(trial, threshold)
        for words, some, rest in (
            (f"taken by {trial.name} alone, ", others, own),
            (f"let go by {trial.name} alone, ", own, others),
        ):
            alone = [pair for places, pair in some.items() if places not in rest]
            alone.sort(key=lambda one: (-one.similarity, one.left, one.right))
            shown += [_shown(found, pair, words) for pair in alone[:DISAGREEING]]
    about = f"At {threshold:g}, by {proposed.name} and by each of the other settings."
    return [Section("Where other settings disagree", about, shown)] if shown else []


def _taken(trial: Trial, threshold: float) -> dict[tuple[int, int], Example]:
    return {
        (pair.left, pair.right): pair
        for pair in trial.pairs
        if pair.similarity >= threshold - 1e-12
    }


def _shown(found: Tuning, pair: Example, words: str) -> Shown:
    sides = [(f"row {place + 1}", found.texts[place]) for place in (pair.left, pair.right)]
    return texts_beside(f"{words}similarity {pair.similarity:.3f}", sides[0], sides[1])
