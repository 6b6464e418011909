"""The command that learns how much each field of records says about a match."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from simdb import Weights, kinds
from simdb.cli.inputs import require_no_input
from simdb.cli.options import IntegerKeys, key_from, labels_of
from simdb.cli.output import Working, counted, note, print_json, print_table, shown_key
from simdb.cli.pictures import require_picture
from simdb.cli.stores import OneOrTwo
from simdb.cli.waterfall import draw_waterfall, print_waterfall
from simdb.errors import UsageError
from simdb.files.writing import written_together


def learn(
    *,
    stored: OneOrTwo,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Learn from labelled pairs: left key, right key and 1 or 0 separated by tabs, "
            "or .jsonl objects with left, right and match.",
        ),
    ] = None,
    stored_labels: Annotated[
        bool,
        typer.Option(
            "--stored-labels", help="Learn from the answers that 'simdb label' has stored."
        ),
    ] = False,
    sample: Annotated[
        int,
        typer.Option("--sample", min=1, help="The number of random pairs to compare with."),
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the random pairs.")] = 0,
    probability: Annotated[
        float,
        typer.Option(
            "--probability",
            help="Print the threshold from which pairs match with this probability.",
        ),
    ] = 0.5,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--pair",
            metavar="LEFT RIGHT",
            help="Show what each field of two records is evidence of.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="With --pair: draw a waterfall chart into an .svg or .png file (extra 'plot').",
        ),
    ] = None,
    integer_keys: IntegerKeys = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the settings here, for 'simdb rebuild --settings'.",
        ),
    ] = None,
    telling: Working,
) -> None:
    """Learn how much each field of records says about a match.

    For each level of agreement of a field it prints the evidence in bits and, without labels, the
    shares of the matches and of the other pairs at that level. The settings it writes give 100
    points per bit. The collection is not changed. Needs the extra 'statistics'.

    Example: simdb learn people.simdb persons --probability 0.9 -o settings.json
    """
    if plot is not None and pair is None:
        raise UsageError("--plot draws the evidence for a pair: give two keys with --pair")
    if stored_labels and labels is not None:
        raise UsageError("--labels and --stored-labels contradict each other")
    said: Any = "stored" if stored_labels else None
    outputs = telling.require_files(output, plot)
    if plot is not None:
        require_picture(plot, "a waterfall")
    if labels is not None:
        require_no_input(outputs, [labels])
        said = labels_of(labels, integer_keys=integer_keys)
    with stored.both() as (source, partner), telling.bar() as bar:
        found = source.learn(
            said,
            other=partner,
            sample=sample,
            seed=seed,
            progress=bar.callback,
        )
        evidence = None
        if pair is not None:
            one, another = (key_from(key, integer_keys=integer_keys) for key in pair)
            evidence = source.explain_pair(one, another, found, other=partner)
    threshold = found.threshold(probability)
    settings = {"kind": kinds.name_of(type(found.kind)), **found.kind.describe()}
    with written_together(*outputs) as files:
        opened = dict(zip(outputs, files, strict=True))
        if output is not None:
            opened[output].write(json.dumps(settings, indent=2).encode() + b"\n")
        if plot is not None and pair is not None and evidence is not None:
            draw_waterfall(opened[plot], evidence, " and ".join(map(shown_key, pair)))
    if telling.as_json:
        told = {
            name: part for name, part in asdict(found).items() if name not in ("kind", "counted")
        }
        told |= {"probability": probability, "threshold": float(threshold), "settings": settings}
        print_json(told if evidence is None else {**told, "evidence": asdict(evidence)})
        return
    _print(found)
    print(f"pairs match with probability {probability:g} from similarity {float(threshold):g}")
    if evidence is not None:
        print_waterfall(evidence)
    for warning in found.warnings:
        note(f"warning: {warning}")


def _print(found: Weights) -> None:
    is_labelled = all(level.m is None for field in found.fields for level in field.levels)
    headings = ("field", "from ", *(() if is_labelled else ("of matches ", "of others ")), "bits ")
    rows = []
    for field in found.fields:
        for level in field.levels:
            shares = [f"{share:.2g}" for share in (level.m, level.u) if share is not None]
            rows.append((field.name, f"{level.least:g}", *shares, f"{level.bits:+.2f}"))
    print_table(headings, rows)
    of_person, about = ("labelled ", "") if is_labelled else ("", "about ")
    pairs = counted(found.pairs, f"{of_person}pair", f"{of_person}pairs")
    print(f"{pairs}, {about}{found.matches:,.0f} of them matches; prior {found.prior:+.2f} bits")
