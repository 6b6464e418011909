"""What differs between two texts: line by line, and word by word within lines that differ."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

CONTEXT = 2  # equal lines shown beside a difference
GAP = ("...", " ", "...")  # in the place of equal lines that are left out
MOST_WORDS = 2_000  # of each side that are aligned; the time may grow with the square
MOST_COMPARED = 2**29  # elements of both sides, each with each, which take an eighth of it in bytes
_WORD = re.compile(r"\S+\s*|\s+")

# Pieces of a line, each with whether the other side lacks it there.
Marked: TypeAlias = list[tuple[str, bool]]


class Row(NamedTuple):
    """A line of either text, and a mark: blank, ``<``, ``>`` or ``|``; see ``aligned``."""

    left: Marked
    mark: str
    right: Marked


def aligned(left: str, right: str) -> Iterator[tuple[str, str, str]]:
    """Yield rows of left line, mark and right line.

    The mark is a blank where the lines are equal, ``<`` or ``>`` where only one side has the line
    and ``|`` where they differ. Of long equal runs only the lines beside a difference are given.
    Where very many lines are alike, as empty ones are, those between a common beginning and a
    common end all count as different.
    """
    left_lines, right_lines = left.split("\n"), right.split("\n")
    last = None
    for group in _matcher(left_lines, right_lines).get_grouped_opcodes(CONTEXT):
        if last is not None or group[0][1] > 0:
            yield GAP
        for _, left_from, left_to, right_from, right_to in group:
            for step in range(max(left_to - left_from, right_to - right_from)):
                has_left, has_right = left_from + step < left_to, right_from + step < right_to
                left_line = left_lines[left_from + step] if has_left else ""
                right_line = right_lines[right_from + step] if has_right else ""
                mark = _mark(has_left=has_left, has_right=has_right, equal=left_line == right_line)
                yield left_line, mark, right_line
        last = group[-1]
    if last is not None and last[2] < len(left_lines):
        yield GAP


def _common_ends(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """Return how long the common beginning is, and the common end of what is left."""
    begin, end = 0, 0
    shorter = min(len(left), len(right))
    while begin < shorter and left[begin] == right[begin]:
        begin += 1
    while end < shorter - begin and left[-1 - end] == right[-1 - end]:
        end += 1
    return begin, end


def _mark(*, has_left: bool, has_right: bool, equal: bool) -> str:
    if not has_right:
        return "<"
    if not has_left:
        return ">"
    return " " if equal else "|"


def rows(left: str, right: str) -> Iterator[Row]:
    """Yield the rows of ``aligned``; in lines that differ the words that do are marked."""
    for one, mark, other in aligned(left, right):
        if mark == "|":
            ones, others = marked(one, other)
            yield Row(ones, mark, others)
        else:
            changed = mark != " "
            yield Row([(one, changed)] if one else [], mark, [(other, changed)] if other else [])


def marked(left: str, right: str) -> tuple[Marked, Marked]:
    """Return the pieces of two texts, marked where the other lacks them; joined they are the texts.

    Of texts with more than 2,000 words that differ, beside a common beginning and end, all between
    these is marked.
    """
    ones, others = _WORD.findall(left), _WORD.findall(right)
    # White space after a word does not make it another one.
    one_keys, other_keys = [[word.split() for word in side] for side in (ones, others)]
    begin, end = _common_ends(one_keys, other_keys)
    middles = one_keys[begin : len(ones) - end], other_keys[begin : len(others) - end]
    equal = [(begin, begin, 0)] if max(map(len, middles)) > MOST_WORDS else _equal(*middles)
    left_places: set[int] = {*range(begin), *range(len(ones) - end, len(ones))}
    right_places: set[int] = {*range(begin), *range(len(others) - end, len(others))}
    for one, other, size in equal:
        left_places.update(range(begin + one, begin + one + size))
        right_places.update(range(begin + other, begin + other + size))
    return _joined(ones, left_places), _joined(others, right_places)


def _equal(left: Sequence[list[str]], right: Sequence[list[str]]) -> list[tuple[int, int, int]]:
    keys: dict[tuple[str, ...], int] = {}
    ones, others = (
        [keys.setdefault(tuple(word), len(keys)) for word in side] for side in (left, right)
    )
    blocks = _matcher(ones, others).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks]


def _matcher(left: Sequence[Hashable], right: Sequence[Hashable]) -> Any:
    """Return what aligns two sequences, by their longest common subsequence if they are short.

    ``difflib`` aligns longer ones of which hardly an element is twice; of others in which much is
    alike here and there it would take time that grows with the third power, so all between a common
    beginning and end counts as different.
    """
    numbers: dict[Hashable, int] = {}
    ones, others = (
        [numbers.setdefault(one, len(numbers)) for one in side] for side in (left, right)
    )
    begin, end = _common_ends(ones, others)
    middles = ones[begin : len(ones) - end], others[begin : len(others) - end]
    blocks = [(0, 0, begin)]
    if len(middles[0]) * len(middles[1]) <= MOST_COMPARED:
        from rapidfuzz.distance import LCSseq  # only where texts are shown

        found = [tuple(block) for block in LCSseq.opcodes(*middles).as_matching_blocks()]
    elif _equal_pairs(*middles) <= len(left) + len(right):
        inner = difflib.SequenceMatcher(None, *middles, autojunk=False)
        found = [tuple(block) for block in inner.get_matching_blocks()]
    else:
        found = []
    blocks += [(begin + one, begin + other, size) for one, other, size in found]
    blocks.append((len(ones) - end, len(others) - end, end))
    joined: list[tuple[int, int, int]] = []
    for one, other, size in blocks:
        last = joined[-1] if joined else (0, 0, 0)
        if joined and (last[0] + last[2], last[1] + last[2]) == (one, other):
            joined[-1] = (last[0], last[1], last[2] + size)
        elif size:
            joined.append((one, other, size))
    matcher: Any = difflib.SequenceMatcher(None, ones, others, autojunk=False)
    matcher.matching_blocks = [difflib.Match(*block) for block in joined if block[2]]
    matcher.matching_blocks.append(difflib.Match(len(ones), len(others), 0))
    return matcher


def _equal_pairs(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    many = Counter(right)
    return sum(many[one] for one in left)


def _joined(words: Sequence[str], equal: set[int]) -> Marked:
    pieces: Marked = []
    for place, word in enumerate(words):
        changed = place not in equal
        if pieces and pieces[-1][1] == changed:
            pieces[-1] = pieces[-1][0] + word, changed
        else:
            pieces.append((word, changed))
    return pieces


def shortened(pieces: Marked, context: int = 80, longest: int = 600) -> Marked:
    """Return pieces with what is far from any that is marked left out, and the end of long ones."""
    kept: Marked = []
    for place, (text, changed) in enumerate(pieces):
        shown = text
        if changed and len(text) > longest:
            shown = f"{text[:longest]} … ({len(text) - longest:,} more characters)"
        elif not changed and len(text) > 2 * context:
            before = text[:context] if place else ""
            after = text[-context:] if place < len(pieces) - 1 else ""
            shown = f"{before} … {after}" if before or after else text[: 2 * context] + " …"
        kept.append((shown, changed))
    return kept
