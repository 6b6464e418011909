"""The command that shows two items side by side, and why they are similar or not."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli import differences
from simdb.cli.options import Bound, IntegerKeys, key_from
from simdb.cli.output import Telling, print_json, shown_key
from simdb.cli.stores import OneOrTwo
from simdb.errors import KeyNotFoundError
from simdb.files.writing import printable


def show(
    *,
    stored: OneOrTwo,
    one: Annotated[str, typer.Argument(metavar="A", help="The key of an item.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The key of another item.")],
    bound: Bound,
    integer_keys: IntegerKeys = False,
    lines: Annotated[
        int, typer.Option("--lines", min=1, metavar="N", help="Print at most this many lines.")
    ] = differences.LINES_SHOWN,
    telling: Telling,
) -> None:
    """Show two items side by side, and why they are similar or not.

    Texts are shown line by line with the differing words in colour, other kinds by their elements,
    bits, minutiae or fields. Above are the similarity, the parts of the indexes that both share,
    and the probability that the index finds the pair. --json prints all of that, and every
    shingle, element or field that differs.

    Example: simdb show corpus.simdb documents a17 a18
    """
    with stored.both() as (source, partner):
        kind = source.kind
        keys = [key_from(text, integer_keys=integer_keys) for text in (one, other)]
        try:
            told = source.explain_pair(keys[0], keys[1], other=partner, **bound.of(kind))
        except KeyNotFoundError as error:
            if error.stored is not None:
                raise
            raise KeyNotFoundError(
                f"{error}; rows that simdb dedupe removes are not stored: "
                "--removed FILE --with-kept writes them beside the rows they duplicate",
                key=error.key,
            ) from error
    if telling.as_json:
        print_json({"left": told.left, "right": told.right, **told.to_dict()})
        return
    of_facets = isinstance(told.items[0], str)  # whose differences stand below anyway
    for line in told.lines(3 if of_facets else 0):
        print(printable(line))
    print()
    names = shown_key(told.left), shown_key(told.right)
    differences.show(told, names, longest=lines)
