"""The command that prints all pairs of similar items, and the printing of pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from simdb.cli.options import Budget, Carrying, Explain, Question, Where, tell_unmet
from simdb.cli.output import (
    FACETS_TOLD,
    Answering,
    ProgressBar,
    counted,
    measured,
    note,
    print_json_line,
    print_reasons,
    promise,
    promised,
    shown_key,
)
from simdb.cli.stores import StoredCollection
from simdb.evidence import PairExplanation
from simdb.files.writing import printable
from simdb.kinds import Kind
from simdb.metadata import expressible, json_text
from simdb.results import Key, Pair, Pairs

Why: TypeAlias = Callable[[Key, Key], PairExplanation]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="TOKEN", help="Continue an exact answer from the token it printed."
    ),
]


def pairs(
    *,
    stored: StoredCollection,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            rich_help_panel=Question.HEADING,
            metavar="jaccard|dice|cosine|overlap",
            help="The measure of similarity; all but jaccard are exact.",
        ),
    ] = "jaccard",
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            rich_help_panel=Where.HEADING,
            metavar="N",
            min=0,
            help="Only pairs with an item added since N, which 'simdb add --json' printed.",
        ),
    ] = None,
    among: Carrying,
    resume: Resume = None,
    budget: Budget = None,
    explain: Explain = False,
    telling: Answering,
) -> None:
    """Print all pairs of similar items.

    One pair per line, separated by tabs: similarity or distance, the item inserted earlier, the
    one inserted later, and with --since new-new or old-new. With --json, one object per line: left,
    right, similarity or distance, and sides, left_metadata and right_metadata on request. If an
    exact answer is interrupted or fails, a token for --resume is printed on standard error.

    Example: simdb pairs corpus.simdb documents --threshold 0.9 --json
    """
    with stored.view(stored.name) as source, telling.bar() as bar:
        asked = {**question.of(source.kind), **among.given()}
        found = source.pairs(measure=measure, since=since, resume=resume, budget=budget, **asked)
        within = question.of_reasons(measure, telling.note) if explain else {}
        why = partial(source.explain_pair, **within) if explain else None
        show_pairs(found, source.kind, telling, bar, why=why)
    tell_unmet(asked, telling.note)


def show_pairs(
    found: Pairs,
    kind: Kind,
    telling: Answering,
    bar: ProgressBar,
    *,
    of_join: bool = False,
    why: Why | None = None,
) -> None:
    """Print pairs as they are found, then their number and what may be missing.

    If an answer ends early, the message says how to continue. ``why`` explains a pair, by its keys.
    """
    if why is not None:
        telling.require_lines()
    lines = (_told(pair, why) for pair in found)
    count = telling.write(
        bar.each("pairs", lines), found.to_reader, told=lambda count: bar.advance("pairs", count)
    )
    if count is None:
        count = _print_pairs(found, telling, bar, why)
    words = f"{counted(count, 'pair', 'pairs')}; {promise(found, kind, of_join=of_join)}"
    telling.told(count, words, **promised(found))


def _print_pairs(found: Pairs, telling: Answering, bar: ProgressBar, why: Why | None) -> int:
    given = token = found.token
    count = again = 0  # pairs printed, and those of them that come again after the token
    try:
        for pair in bar.each("pairs", found):
            if token != found.token:
                sys.stdout.flush()  # a token must not stand for what could not be written
                token, again = found.token, 0
            if telling.as_json:
                print_json_line(_told(pair, why))
            else:
                print("\t".join(_in_words(pair)))
                if why is not None:
                    print_reasons(why(pair.left, pair.right))
            count += 1
            again += 1
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("; ".join(["interrupted", *_how_to_go_on(token, again)])) from None
    except BrokenPipeError:
        raise
    except Exception:
        if count or token != given:  # else what was given may be what is wrong
            for hint in _how_to_go_on(token, again):
                note(hint)
        raise
    return count


def _told(pair: Pair, why: Why | None = None) -> dict[str, Any]:
    """Return a pair as JSON has it."""
    told: dict[str, Any] = {"left": pair.left, "right": pair.right, **measured(pair)}
    names = ("sides", "left_metadata", "right_metadata")
    beside = {name: expressible(getattr(pair, name)) for name in names}
    reasons = {} if why is None else {"evidence": why(pair.left, pair.right).to_dict(FACETS_TOLD)}
    return told | {name: value for name, value in beside.items() if value is not None} | reasons


def _in_words(pair: Pair) -> list[str]:
    """Return the fields of a pair as they are printed for people."""
    fields = [f"{pair.value:.6f}", shown_key(pair.left), shown_key(pair.right)]
    if pair.sides is not None:
        fields.append(pair.sides)
    if pair.left_metadata is not None or pair.right_metadata is not None:
        fields += [printable(json_text(one)) for one in (pair.left_metadata, pair.right_metadata)]
    return fields


def _how_to_go_on(token: str | None, again: int) -> list[str]:
    if token is None:
        return []
    repeated = counted(again, "printed pair is", "printed pairs are")
    return [f"continue with --resume {token}", *[f"the last {repeated} repeated"] * (again > 0)]
