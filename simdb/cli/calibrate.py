"""The command that estimates how many pairs of each score are true matches."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from simdb import Calibration
from simdb.cli.options import rational
from simdb.cli.output import Working, note, print_json, print_table
from simdb.cli.stores import OneOrTwo
from simdb.errors import UsageError


def calibrate(
    *,
    stored: OneOrTwo,
    field: Annotated[
        str,
        typer.Argument(
            metavar="FIELD", help="A field of the records that is not scored and is in no rule."
        ),
    ],
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="The lowest score (the collection's threshold).",
        ),
    ] = None,
    edges: Annotated[
        str | None,
        typer.Option(
            "--edges", metavar="0.5,0.8,1", help="The edges of the score buckets (0.05 apart)."
        ),
    ] = None,
    certain: Annotated[
        float, typer.Option("--certain", help="The score from which pairs certainly match.")
    ] = 1.0,
    matched: Annotated[
        str | None,
        typer.Option(
            "--matched",
            metavar="NUMBER",
            help="The mean difference of true matches if it is known, or 'labelled' for that of "
            "the pairs labelled as matches.",
        ),
    ] = None,
    random: Annotated[
        float | None,
        typer.Option("--random", help="The mean difference of random pairs, if it is known."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="The number of random pairs to measure it.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="The seed of all random choices.")] = 0,
    confidence: Annotated[
        float, typer.Option("--confidence", help="The confidence of the intervals.")
    ] = 0.95,
    precision: Annotated[
        float,
        typer.Option(
            "--precision", help="Print the score from which this share of the pairs match."
        ),
    ] = 0.99,
    telling: Working,
) -> None:
    """Estimate what share of the pairs of each score match.

    It needs no labels, but a field that is not scored. If this field differs by h0 on average
    between true matches and by h1 between random pairs, then (h1 - h) / (h1 - h0) of the pairs that
    differ by h match. A warning on standard error says if the pairs contradict the assumption that
    the field depends on the match alone. Needs the extra 'statistics'.

    Example: simdb calibrate people.simdb persons birth_year
    """
    with stored.both() as (source, partner), telling.bar() as bar:
        found = source.calibrate(
            field,
            other=partner,
            threshold=None if threshold is None else rational(threshold),
            edges=None if edges is None else _numbers(edges),
            certain=certain,
            matched=_matched(matched),
            random=random,
            sample=sample,
            seed=seed,
            confidence=confidence,
            progress=bar.callback,
        )
        lowest = found.threshold_for(precision)
    if telling.as_json:
        told = dataclasses.asdict(found)
        wanted = {"precision": precision, "threshold": lowest}
        print_json({**told, **wanted, "warnings": list(found.warnings)})
        return
    _print(found, precision, lowest)
    for warning in found.warnings:
        note(f"warning: {warning}")


def _matched(text: str | None) -> Any:
    try:
        return text if text in (None, "labelled") else float(text)
    except ValueError:
        raise UsageError(f"--matched must be a number or 'labelled', not {text!r}") from None


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--edges must be numbers separated by commas, not {text!r}") from None


def _print(found: Calibration, precision: float, lowest: float | None) -> None:
    print_table(
        ("score from ", "to ", "pairs ", "difference ", "match ", "interval", "rising "),
        [_row(bucket) for bucket in found.buckets if bucket.pairs],
    )
    print(f"difference of true matches: {found.matched.value:.4g}")
    print(f"difference of random pairs: {found.random.value:.4g}")
    if found.test is None:
        print("does it depend on the match alone? not tested; a lower --certain may allow it")
    else:
        print(
            f"does it depend on the match alone? F = {found.test.statistic:.3g}, "
            f"p = {found.test.p_value:.2g}, by {found.test.pairs:,} pairs that certainly match"
        )
    where = "at no score" if lowest is None else f"from score {lowest:g}"
    print(f"{precision:.1%} of the pairs match {where}")


def _row(bucket: Any) -> tuple[str, ...]:
    return (
        f"{bucket.low:.3g}",
        f"{bucket.high:.3g}",
        f"{bucket.pairs:,}",
        f"{bucket.difference:.4g}",
        f"{bucket.fraction:.1%}",
        f"{bucket.fraction_low:.1%} to {bucket.fraction_high:.1%}",
        f"{bucket.fitted:.1%}",
    )
