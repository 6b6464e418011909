"""The command that measures the recall of a collection on a sample."""

from __future__ import annotations

from math import isnan
from typing import Annotated

import typer
from msgspec import to_builtins

from simdb.cli.options import Bound
from simdb.cli.output import Working, print_fields, print_json, print_table
from simdb.cli.stores import StoredCollection
from simdb.results import AuditReport


def audit(
    *,
    stored: StoredCollection,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="The number of items to compare with all others.")
    ] = 200,
    bound: Bound,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the sample.")] = 0,
    telling: Working,
) -> None:
    """Measure the recall of a collection on a sample.

    It compares each sampled item with all others, and counts how many of the similar ones the index
    finds. A collection without a probable index is refused. Needs the extra 'statistics'.

    Example: simdb audit corpus.simdb documents --sample 500
    """
    with stored.view(stored.name) as source, telling.bar() as bar:
        kind = source.kind
        report = source.self_audit(
            sample=sample, seed=seed, progress=bar.callback, **bound.of(kind)
        )
    name = "max_distance" if kind.is_distance else "threshold"
    if telling.as_json:
        told = to_builtins(report)
        print_json({name if known == "threshold" else known: told[known] for known in told})
    else:
        _print_audit(report, name, "distance" if kind.is_distance else "similarity")


def _print_audit(report: AuditReport, bound: str, measured: str) -> None:
    interval = ""
    if report.recall_interval is not None:
        low, high = report.recall_interval
        interval = f" (95 %: {low:.4f} to {high:.4f})"
    recall = "no true pairs in the sample" if report.recall is None else f"{report.recall:.4f}"
    expected = "not known" if isnan(report.expected_recall) else f"{report.expected_recall:.4f}"
    print_fields(
        {
            "sampled": report.sampled,
            "compared with": report.compared,
            bound.replace("_", " "): f"{report.threshold:g}",
            "true pairs": report.true_pairs,
            "found": report.found_pairs,
            "recall measured": recall + interval,
            f"recall expected at the {bound.replace('_', ' ')}": expected,
            "candidates": report.candidates,
            "share of true pairs": "-" if report.precision is None else f"{report.precision:.4f}",
        }
    )
    if report.bins:
        print_table(
            (f"{measured} from ", "to ", "true pairs ", "found "),
            [
                (f"{b.lowest:.2f}", f"{b.highest:.2f}", f"{b.true_pairs:,}", f"{b.found_pairs:,}")
                for b in report.bins
            ],
        )
    if report.rules:
        print_table(
            ("rule ", "candidates ", "true ", "only by this rule "),
            [
                (r.rule, f"{r.candidates:,}", f"{r.found_pairs:,}", f"{r.added_pairs:,}")
                for r in report.rules
            ],
        )
