"""The command that tries settings for texts on a sample, and proposes some."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import simdb
from simdb.cli.differences import LINES_SHOWN, WIDTH_WITHOUT_TERMINAL, side_by_side
from simdb.cli.inputs import Inputs, UnstoredInputs, require_no_input
from simdb.cli.label import answered, require_answers_beside
from simdb.cli.output import Working, console, counted, note, print_json, print_table
from simdb.cli.report import require_page, write_page
from simdb.cli.stores import settings_of
from simdb.errors import UsageError
from simdb.extras import require
from simdb.files.inputs import require_there, written_forms
from simdb.files.writing import promised_form
from simdb.kinds import Text
from simdb.tuning import BIN, LOWEST, THRESHOLDS, Example, Judged, Trial, Tuning, judge, to_judge
from simdb.tuning import tune as tuned


def tune(
    context: typer.Context,
    *,
    inputs: Inputs,
    reading: UnstoredInputs,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", min=2, help="The number of rows to try settings on, from the first."
        ),
    ] = 5_000,
    examples: Annotated[
        int,
        typer.Option(
            "--examples",
            min=0,
            max=10,
            help="The number of pairs to print on each side of each threshold.",
        ),
    ] = 0,
    ask: Annotated[
        int | None,
        typer.Option(
            "--ask",
            min=1,
            metavar="N",
            help="Ask whether N pairs are the same, and print the resulting precision and recall. "
            "Needs the extra 'statistics'.",
        ),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write an HTML page: what each setting removes, and pairs on both sides of "
            "each threshold. Needs the extra 'report'.",
        ),
    ] = None,
    telling: Working,
) -> None:
    """Try settings for texts on a sample of your rows.

    For several kinds of shingles, with and without case, and for each profile it prints the rows
    and bytes that each threshold removes, the number of similar pairs, and what the index costs. It
    proposes a setting and a threshold near which few pairs lie, so that a slightly different
    threshold changes little. --examples prints pairs on both sides of each threshold; --ask lets
    you judge pairs (y or n) and prints precision and recall with intervals; --report shows all of
    it on a page.

    Example: simdb tune posts.jsonl --examples 10
    """
    if ask is not None and telling.as_json:
        raise UsageError("--ask asks questions: leave out --json")
    if ask is not None:
        require("statistics", "--ask needs", "scipy")
        require_answers_beside(*inputs)
    if page is not None:
        require_page(page)
        telling.require_files(page)
    require_there(*inputs)
    require_no_input([page], inputs, reading.pattern)
    texts = reading.measured(inputs, Text(), sample, list)
    with telling.bar() as bar:
        asked = settings_of(context)
        found = tuned(
            texts,
            sample=sample,
            threads=asked.threads,
            memory=asked.memory,
            progress=bar.callback,
        )
    command = _command(inputs, reading, found)
    if page is not None:
        named = ", ".join(Path(name).name for name in inputs[:3])
        write_page(page, simdb.tuning_report(found, title=f"Settings for {named}", command=command))
    if telling.as_json:
        print_json({**_plain(found, examples, texts), "command": command})
        return
    _print_trials(found)
    for one in found.proposed.removals if examples else ():
        print(f"\nthreshold {one.threshold:g} by {found.proposed.name}: the nearest pairs")
        for pair in [*one.above[:examples][::-1], *one.below[:examples]]:
            _print_pair(pair, texts)
    if ask is not None:
        _print_judged(judge(found.proposed, _asked(found.proposed, texts, ask)))
    print(f"\n{found.reason}\nproposed:\n  {command}")


def _command(inputs: list[str], reading: UnstoredInputs, found: Tuning) -> str:
    """Return the command that removes what the proposed setting does, read as for the trials."""
    shingles, _, rest = found.proposed.name.partition(" ")
    hyphened = [name.startswith("-") and name != "-" for name in inputs]  # as options are
    names = [f"./{name}" if is_so else name for name, is_so in zip(inputs, hyphened, strict=True)]
    words = ["simdb", "dedupe", *names]
    for field in reading.text_field or ():
        words += ["--text-field", field]
    for option, value in (
        ("--id-field", reading.id_field),
        ("--format", reading.format_name),
        ("--pattern", reading.pattern),
        ("--delimiter", reading.delimiter),
        ("--encoding", reading.encoding),
    ):
        if value is not None:
            words += [option, value]
    if shingles == "profile":
        words += ["--profile", rest]
    else:
        words += ["--shingles", shingles, *["--lowercase"] * (rest == "lowercase")]
    return shlex.join(
        [*words, "--threshold", f"{found.threshold:g}", "-o", _output(inputs, reading)]
    )


def _output(inputs: list[str], reading: UnstoredInputs) -> str:
    """Return a name for the rows kept that their format allows; of several formats, a folder."""
    options = reading.of(Text())
    sources = list(reading.sources(inputs, options))
    first, *others = [written_forms(source, options) for source in sources]
    common = [form for form in first if all(form in forms for forms in others)]
    if not common:
        return "kept/"
    promised = promised_form(sources[0])
    form = promised if promised in common else common[0]
    return f"kept.{form}" if promised_form(f"kept.{form}") == form else "kept.txt"


def _print_trials(found: Tuning) -> None:
    print(f"{counted(found.rows, 'row', 'rows')} of {found.bytes:,} bytes; removed:")
    rows = []
    for trial in found.trials:
        cells = [f"{one.rows:,} ({one.bytes / max(found.bytes, 1):.1%})" for one in trial.removals]
        cells += [f"{sum(trial.histogram):,}", f"{trial.keys}", f"{trial.seconds:.2f}"]
        rows.append(["*" if trial is found.proposed else "", trial.name, *cells])
    named = [f"at {threshold:g} (bytes) " for threshold in THRESHOLDS]
    costs = ("pairs from 0.5 ", "keys ", "s / 1,000 ")
    print_table(("", "shingles", *named, *costs), rows)
    print(
        "* proposed; keys: index keys per row at 0.8; s / 1,000: processor seconds to add "
        "1,000 rows"
    )
    counts = (
        f"{LOWEST + place * BIN:.2f}: {many:,}"
        for place, many in enumerate(found.proposed.histogram)
    )
    print(f"pairs by similarity, by {found.proposed.name}: {', '.join(counts)}")


def _print_pair(pair: Example, texts: list[str]) -> None:
    screen = console()
    if not screen.is_terminal:
        screen.width = WIDTH_WITHOUT_TERMINAL
    print(f"\n{pair.similarity:.4f}")
    names = f"row {pair.left + 1}", f"row {pair.right + 1}"
    one, other = texts[pair.left], texts[pair.right]
    coloured = screen.color_system is not None
    table = side_by_side(
        names[0], one, names[1], other,
        width=screen.width, longest=LINES_SHOWN // 2, coloured=coloured,
    )  # fmt: skip
    screen.print(table)


def _asked(trial: Trial, texts: list[str], count: int) -> dict[tuple[int, int], bool]:
    """Ask whether some pairs are the same; q quits."""
    answers: dict[tuple[int, int], bool] = {}
    pairs = to_judge(trial, count)
    for number, pair in enumerate(pairs, 1):
        _print_pair(pair, texts)
        print(f"{number} of {len(pairs)}: the same?")
        answer = answered()
        if answer == "end":
            break
        if answer is not None:
            answers[pair.left, pair.right] = answer
    return answers


def _print_judged(found: list[Judged]) -> None:
    if all(one.recall_interval is None for one in found):
        note("no pair was judged the same: precision and recall are not known")
        return
    print_table(
        ("threshold ", "precision ", "95 %", "recall of pairs from 0.5 ", "95 %"),
        [
            (
                f"{one.threshold:g}",
                _share(one.precision),
                _interval(one.precision_interval),
                _share(one.recall),
                _interval(one.recall_interval),
            )
            for one in found
        ],
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def _plain(found: Tuning, examples: int, texts: list[str]) -> dict[str, Any]:
    """Return the result as JSON has it."""

    def pair(one: Example) -> dict[str, Any]:
        sides = {"left": texts[one.left], "right": texts[one.right]}
        return {"similarity": one.similarity, "rows": [one.left + 1, one.right + 1], **sides}

    return {
        "rows": found.rows,
        "bytes": found.bytes,
        "proposed": found.proposed.name,
        "threshold": found.threshold,
        "reason": found.reason,
        "trials": [
            {
                "shingles": trial.name,
                "pairs": sum(trial.histogram),
                "histogram": list(trial.histogram),
                "keys": trial.keys,
                "seconds": trial.seconds,
                "removals": [
                    {
                        "threshold": one.threshold,
                        "rows": one.rows,
                        "bytes": one.bytes,
                        "beside": one.beside,
                        "above": [pair(example) for example in one.above[:examples]],
                        "below": [pair(example) for example in one.below[:examples]],
                    }
                    for one in trial.removals
                ],
            }
            for trial in found.trials
        ],
    }
