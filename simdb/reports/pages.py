"""Pages: what every report is rendered with, and two items side by side on one.

A page needs no other file and no network: styles are in it, charts are SVG, and there is no
script. All that comes from a store is escaped by the templates, characters that cannot be seen are
shown by their codes, and a content-security policy lets nothing be loaded or run even so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import islice
from typing import Any, TypeAlias

from simdb.differences import Marked, rows, shortened
from simdb.evidence import Facet, PairExplanation, in_words
from simdb.extras import of_extra, own_version
from simdb.notebooks import visible

PAIR_BYTES = 12_000  # of the page, that one pair takes: so some hundred pairs take two megabytes
LINES_SHOWN = 30
FACET_SHOWN = 200  # characters
EQUAL_SHOWN = 240  # characters of two texts that are equal
CHARACTERS_SHOWN = 6_000  # of a text, of which what differs is looked for
_MARK = len("<del></del>")
_ROW = len("<tr><td></td><td></td></tr>")

Line: TypeAlias = tuple[Marked, str, Marked]


@dataclass(frozen=True, slots=True)
class Shown:
    """Two items side by side: lines with pieces, each marked or not."""

    left: str
    right: str
    value: str
    lines: Sequence[Line]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Some pairs under a title."""

    title: str
    about: str
    pairs: Sequence[Shown]


def rendered(template: str, **shown: Any) -> str:
    """Return a page.

    Raises:
        MissingExtraError: jinja2 is not installed (the extra ``report``).
    """
    text: str = _environment().get_template(template).render(made=_made(), **shown)
    return text


@cache
def _environment() -> Any:
    with of_extra("report", "a report needs"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    return Environment(
        loader=PackageLoader("simdb.reports", "templates"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _made() -> str:
    """By what the page was made."""
    import platform  # which is needed for nothing else

    return f"simdb {own_version()}, Python {platform.python_version()}"


def beside(told: PairExplanation, left: str, right: str) -> Shown:
    """Return two items side by side, by what they are compared by, or line by line if texts."""
    one, other = told.items
    value = f"{told.measured} {told.value:.3f}"
    note = f"{told.unit}: {told.counted('left', 'right')}" if told.parts else ""
    if isinstance(one, str) and isinstance(other, str):
        return texts_beside(value, (left, one), (right, other), note)
    return Shown(left, right, value, list(_fitting(_facets(told))), note)


def texts_beside(
    value: str, left: tuple[str, str], right: tuple[str, str], note: str = ""
) -> Shown:
    """Return two texts side by side, each given with its name."""
    (left_name, one), (right_name, other) = left, right
    compared = rows(one[:CHARACTERS_SHOWN], other[:CHARACTERS_SHOWN])
    lines: list[Line] = [
        (shortened(row.left), row.mark, shortened(row.right))
        for row in islice(compared, LINES_SHOWN)
    ]
    if not lines:
        equal = "equal" if one == other else f"equal in their first {CHARACTERS_SHOWN:,} characters"
        beginning = " ".join(one[:CHARACTERS_SHOWN].split())[:EQUAL_SHOWN]
        lines = [([(f"({equal}) {beginning}", False)], " ", [(f"({equal})", False)])]
    return Shown(left_name, right_name, value, list(_fitting(lines)), note)


def _facets(told: PairExplanation) -> Iterable[Line]:
    """Yield what two items are compared by, what differs first."""
    ordered = [*told.differing, *(facet for facet in told.facets if facet.agrees)]
    # That a set has an element once, or a vector a bit, is said by naming it.
    amounts = any(
        side not in (None, 1) for facet in told.facets for side in (facet.left, facet.right)
    )
    for facet in ordered[:LINES_SHOWN]:
        equal = facet.agrees
        sides = [
            [(_of_side(facet, side, amounts=amounts), not equal)]
            for side in (facet.left, facet.right)
        ]
        yield sides[0], " " if equal else "|", sides[1]
    if len(ordered) > LINES_SHOWN:
        more = [(f"... {len(ordered) - LINES_SHOWN:,} more", False)]
        yield more, " ", []


def _of_side(facet: Facet, side: Any, *, amounts: bool) -> str:
    """Return what one item has of a facet."""
    if side is None:
        return "-"
    named = in_words(facet.what)
    told = f"{named}: {in_words(side)}" if amounts and side != facet.what else named
    return told[:FACET_SHOWN]


def _fitting(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines up to what a pair may take of the page; the last one may be cut short."""
    left_over = PAIR_BYTES
    for left, mark, right in lines:
        left_over -= _ROW
        sides = []
        for pieces in (left, right):
            side: Marked = []
            for text, changed in pieces:
                size = len(escape(visible(text)).encode("utf-8", "replace")) + _MARK * changed
                if size > left_over:
                    side.append(("...", False))
                    left_over = 0
                    break
                side.append((text, changed))
                left_over -= size
            sides.append(side)
        yield sides[0], mark, sides[1]
        if left_over <= 0:
            return
