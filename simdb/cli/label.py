"""The command that asks a person whether pairs of records match, and stores the answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import simdb
from simdb.cli.options import IntegerKeys, labels_of, pairs_of_keys
from simdb.cli.output import Working, console, counted, note, print_json_line, shown_key
from simdb.cli.stores import OneOrTwo
from simdb.differences import marked, shortened
from simdb.errors import UsageError
from simdb.files.compression import STANDARD_STREAM, standard_input
from simdb.files.writing import printable
from simdb.results import Key

if TYPE_CHECKING:
    from rich.text import Text

_ASKED = 20  # pairs, if it is not said
_LONG = 500  # characters of a text whose differences are told by words
_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


def label(
    *,
    stored: OneOrTwo,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help=f"The number of pairs to ask about, the least certain first; {_ASKED} without it.",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Ask about these pairs: two keys per line separated by a tab, or .jsonl "
            "objects with left and right.",
        ),
    ] = None,
    take: Annotated[
        str | None,
        typer.Option(
            "--take",
            metavar="FILE",
            help="Ask nothing and store these answers: left key, right key and 1 or 0 (? "
            "forgets one) separated by tabs, or .jsonl objects with left, right and match.",
        ),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show", help="Ask nothing and print the stored answers, as --take reads them."
        ),
    ] = False,
    integer_keys: IntegerKeys = False,
    telling: Working,
) -> None:
    """Ask whether pairs of records match, and store the answers.

    It asks about the pairs whose answers help most: those with a probability nearest to one half,
    by weights that are learnt without labels. The fields are shown side by side with the
    differences marked. Answer y or n, ? if you cannot tell, q to quit; answers can also come from a
    file or a pipe, one per line. Each is stored at once, for 'learn --stored-labels' and 'calibrate
    --matched labelled'. Without --pairs, --take and --show it needs the extra 'statistics'.

    Example: simdb label people.simdb persons --limit 20
    """
    if sum([show, take is not None, pairs is not None]) > 1:
        raise UsageError("--show, --take and --pairs contradict each other")
    if limit is not None and (show or take is not None or pairs is not None):
        raise UsageError("--limit is of pairs that are chosen: leave it out")
    if show:
        with stored.both() as (view, partner):
            _show(view.labels(other=partner), telling)
        return
    if pairs is not None:
        require_answers_beside(pairs)
    given = None if take is None else labels_of(take, integer_keys=integer_keys, forgets=True)
    handed = None if pairs is None else pairs_of_keys(pairs, integer_keys=integer_keys)
    with stored.changed_with_other() as (source, partner):
        if given is not None:
            kept = source.label(given, other=partner)
            telling.tell({"labels": kept}, f"stored {counted(kept, 'label', 'labels')}")
            return
        if handed is None:
            with telling.bar() as bar:
                found = source.uncertain(
                    other=partner, limit=limit or _ASKED, progress=bar.callback
                )
            asked: list[_Question] = [(left, right, told) for left, right, told in found]
        else:
            if source.kind.field_names is None:
                raise UsageError(f"only records are labelled here, not {source.kind.plural}")
            if partner is not None and partner.kind != source.kind:
                raise UsageError(
                    f"the records of {source.name!r} and {partner.name!r} are not compared alike: "
                    "'simdb join' says what differs"
                )
            _require_stored(source, partner, handed)
            asked = [(left, right, None) for left, right in handed]
        counts = _ask(source, partner, asked, telling)
    told = [
        counted(counts["yes"], "match", "matches"),
        counted(counts["no"], "non-match", "non-matches"),
    ]
    left = counted(counts["left"], "pair", "pairs")
    telling.tell(counts, f"stored: {', '.join(told)}; {left} without an answer")


_Question = tuple[Key, Key, float | None]


def _show(said: simdb.Labels, telling: Working) -> None:
    for left, right, match in said:
        if telling.as_json:
            print_json_line({"left": left, "right": right, "match": match})
        else:
            print(f"{shown_key(left)}\t{shown_key(right)}\t{match:d}")
    for left, right, _ in said.deleted:
        note(f"label of {shown_key(left)} and {shown_key(right)} not used: one of them was deleted")


def _require_stored(
    source: simdb.Collection,
    partner: simdb.CollectionView | None,
    pairs: list[tuple[Key, Key]],
) -> None:
    """Require that every pair can be asked about, before the first answer is stored."""
    others = source if partner is None else partner  # which may be empty, and then is not true
    for left, right in pairs:
        source.get(left)
        others.get(right)
        if partner is None and left == right:
            raise UsageError(f"a label is about two items, not about {left!r} twice")


def _ask(
    source: simdb.Collection,
    partner: simdb.CollectionView | None,
    asked: list[_Question],
    telling: Working,
) -> dict[str, int]:
    """Show pairs, read answers and store each; return the counts."""
    counts = {"yes": 0, "no": 0, "left": 0}
    others = source if partner is None else partner
    for place, (left, right, probability) in enumerate(asked, 1):
        one, other = source.get(left), others.get(right)
        if telling.as_json:
            shown = {"left": left, "right": right, "probability": probability}
            items = [source.kind.plain_item(entry.item) for entry in (one, other)]
            print_json_line({**shown, "items": items})
            sys.stdout.flush()
        else:
            chance = "" if probability is None else f", probability {probability:.3f}"
            print(f"{place} of {len(asked)}: {shown_key(left)} and {shown_key(right)}{chance}")
            _print_side_by_side(one.item, other.item)
        answer = answered()
        if answer == "end":
            counts["left"] = counts["left"] + len(asked) - place + 1
            break
        if answer is None:
            counts["left"] += 1
        else:
            source.label([(left, right, answer)], other=partner)
            counts["yes" if answer else "no"] += 1
    return counts


def require_answers_beside(*inputs: str) -> None:
    """Raise UsageError if an input is standard input, from which answers are read."""
    own = {STANDARD_STREAM, os.path.realpath("/dev/stdin")}
    for name in inputs:
        if not own.isdisjoint((name, os.path.realpath(name))):
            raise UsageError(f"answers are read from standard input: give a file, not {name}")


def answered() -> bool | Literal["end"] | None:
    """Read an answer: None if the person cannot tell, "end" if no more follow."""
    answers = standard_input()
    while True:
        if answers.isatty():
            print("match? y n ? q: ", end="", file=sys.stderr, flush=True)
        line = answers.readline()
        said = line.strip().lower()
        if said in _ANSWERS:
            return _ANSWERS[said]
        if not line or said.startswith("q"):
            return "end"
        if said == "?":
            return None
        note(f"answer y, n, ? (cannot tell) or q (quit), not {line.strip()!r}")


# -- two records side by side ----------------------------------------------------------------------


def _print_side_by_side(one: Any, other: Any) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("", "left", "right", ""):
        table.add_column(name, overflow="fold")
    for name in dict.fromkeys([*one, *other]):
        values = one.get(name), other.get(name)
        texts = ["" if value is None else printable(str(value)) for value in values]
        verdict = "" if texts[0] == texts[1] else "differs"
        is_there = all(value is not None and str(value).strip() for value in values)
        verdict = verdict if is_there else "missing"
        table.add_row(name, *_marked(*texts), verdict)
    console().print(table)


def _marked(left: str, right: str) -> Iterator[Text]:
    """Yield both texts, with the differences in bold: characters, or words of long texts."""
    from rich.text import Text

    if max(len(left), len(right)) > _LONG:
        for pieces in map(shortened, marked(left, right)):
            yield Text.assemble(
                *((text, "bold red" if differs else "") for text, differs in pieces)
            )
        return
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    alike = matcher.get_matching_blocks()
    for place, text in enumerate((left, right)):
        shown = Text(text, style="bold red" if left != right else "")
        for block in alike:
            shown.stylize("not bold default", block[place], block[place] + block.size)
        yield shown
