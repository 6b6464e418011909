"""The command that prints all pairs of similar items, and how answers in pairs are printed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from simdb.cli.options import AsJson, Bound, Budget, CollectionName, Question, Quiet, StorePath
from simdb.cli.output import counted, measured, note, print_json_line, promise, shown_key
from simdb.cli.stores import opened_collection
from simdb.results import Pairs

Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="TOKEN", help="Go on where an exact answer was left off."),
]


def pairs(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    bound: Bound,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            metavar="jaccard|dice|cosine",
            help="Of similarity; all but jaccard need an exact index.",
        ),
    ] = "jaccard",
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="N", help="Only pairs that came with items added since."),
    ] = None,
    resume: Resume = None,
    budget: Budget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print all pairs of similar items.

    One a line, separated by tabs: similarity or distance, the earlier inserted item, the later.
    With --json one object a line: left, right, and similarity or distance. If an exact answer is
    interrupted or fails, the token to go on with, by --resume, is printed on standard error.
    """
    with opened_collection(context, store, collection, read_only=True) as source:
        found = source.pairs(
            measure=measure,
            since=since,
            resume=resume,
            budget=budget,
            **question.asked(),
            **bound.of(source.kind),
        )
        count = print_pairs(found, as_json=as_json)
        of_distance = source.kind.is_distance
    tell_pairs(found, count, of_distance=of_distance, quiet=quiet)


@dataclass(slots=True)
class _Printed:
    """How far an answer is printed: pairs, a token, and the pairs that come again after it."""

    pairs: int = 0
    token: str | None = None
    again: int = 0

    def hint(self) -> list[str]:
        """Say how to go on, if anything is done."""
        if self.token is None:
            return []
        repeated = counted(self.again, "pair printed comes", "pairs printed come")
        return [f"go on with --resume {self.token}"] + [f"the last {repeated} again"] * (
            self.again > 0
        )


def print_pairs(found: Pairs, *, as_json: bool) -> int:
    """Print pairs as they are found; return how many."""
    printed = _Printed(token=found.token)
    with _resumable(printed):
        for pair in found:
            if printed.token != found.token:
                sys.stdout.flush()  # a token must not stand for what could not be written
                printed.token, printed.again = found.token, 0
            value = measured(pair)
            if as_json:
                print_json_line({"left": pair.left, "right": pair.right, **value})
            else:
                left, right = shown_key(pair.left), shown_key(pair.right)
                print(f"{next(iter(value.values())):.6f}\t{left}\t{right}")
            printed.pairs += 1
            printed.again += 1
        sys.stdout.flush()
    return printed.pairs


@contextlib.contextmanager
def _resumable(printed: _Printed) -> Iterator[None]:
    """Let what ends an answer early say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("; ".join(["interrupted", *printed.hint()])) from None
    except BrokenPipeError:
        raise
    except Exception:
        for hint in printed.hint():
            note(hint)
        raise


def tell_pairs(
    found: Pairs, count: int, *, of_distance: bool, quiet: bool, of_join: bool = False
) -> None:
    """Tell how many there were, and what may be missing."""
    promised = promise(
        found.guarantee, found.expected_recall, of_distance=of_distance, of_join=of_join
    )
    note(f"{counted(count, 'pair', 'pairs')}; {promised}", quiet=quiet)
