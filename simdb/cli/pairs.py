"""The command that prints all pairs of similar items, and how answers in pairs are printed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from simdb.cli.options import Budget, Question
from simdb.cli.output import (
    Answering,
    ProgressBar,
    counted,
    measured,
    note,
    print_json_line,
    promise,
    promised,
    shown_key,
)
from simdb.cli.stores import StoredCollection
from simdb.kinds import Kind
from simdb.results import Pairs

Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="TOKEN", help="Go on where an exact answer was left off."),
]


def pairs(
    *,
    stored: StoredCollection,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            metavar="jaccard|dice|cosine|overlap",
            help="Of similarity; by all but the first no pair is missing.",
        ),
    ] = "jaccard",
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="N", help="Only pairs that came with items added since."),
    ] = None,
    resume: Resume = None,
    budget: Budget = None,
    telling: Answering,
) -> None:
    """Print all pairs of similar items.

    One a line, separated by tabs: similarity or distance, the earlier inserted item, the later.
    With --json one object a line: left, right, and similarity or distance. If an exact answer is
    interrupted or fails, the token to go on with, by --resume, is printed on standard error.
    """
    with stored.viewed() as source, telling.bar() as bar:
        asked = question.of(source.kind)
        found = source.pairs(measure=measure, since=since, resume=resume, budget=budget, **asked)
        show_pairs(found, source.kind, telling, bar)


def show_pairs(
    found: Pairs, kind: Kind, telling: Answering, bar: ProgressBar, *, of_join: bool = False
) -> None:
    """Print pairs as they are found, and then how many there were, and what may be missing.

    What ends an answer early says how to go on.
    """
    lines = ({"left": pair.left, "right": pair.right, **measured(pair)} for pair in found)
    count = telling.write(
        bar.each("pairs", lines), found.to_reader, told=lambda count: bar.advance("pairs", count)
    )
    if count is None:
        count = _print_pairs(found, telling, bar)
    words = f"{counted(count, 'pair', 'pairs')}; {promise(found, kind, of_join=of_join)}"
    telling.told(count, words, **promised(found))


def _print_pairs(found: Pairs, telling: Answering, bar: ProgressBar) -> int:
    token = found.token
    count = again = 0  # pairs printed, and those of them that come again after the token
    try:
        for pair in bar.each("pairs", found):
            if token != found.token:
                sys.stdout.flush()  # a token must not stand for what could not be written
                token, again = found.token, 0
            if telling.as_json:
                print_json_line({"left": pair.left, "right": pair.right, **measured(pair)})
            else:
                left, right = shown_key(pair.left), shown_key(pair.right)
                print(f"{pair.value:.6f}\t{left}\t{right}")
            count += 1
            again += 1
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("; ".join(["interrupted", *_how_to_go_on(token, again)])) from None
    except BrokenPipeError:
        raise
    except Exception:
        for hint in _how_to_go_on(token, again):
            note(hint)
        raise
    return count


def _how_to_go_on(token: str | None, again: int) -> list[str]:
    if token is None:
        return []
    repeated = counted(again, "pair printed comes", "pairs printed come")
    return [f"go on with --resume {token}", *[f"the last {repeated} again"] * (again > 0)]
