"""Edit distances by bits are those of the table, at the ends of words of 64 rows too."""

from __future__ import annotations

import random

import numpy as np
import pytest

from simdb import kernels
from tests.support import oracle
from tests.support.twins import as_strings

LENGTHS = (1, 2, 31, 63, 64, 65, 66, 127, 128, 129)


def edited(generator: random.Random, text: str, edits: int) -> str:
    """A text with some neighbours swapped, and letters put in, taken out and replaced."""
    letters = list(text)
    for _ in range(edits):
        place = generator.randrange(len(letters) + 1)
        if generator.random() < 0.6 and place + 1 < len(letters):
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
        else:
            letters[place : place + generator.randrange(2)] = generator.choice(["", "x", "é"])
    return "".join(letters)


@pytest.mark.parametrize("measure", ["levenshtein", "alignment"])
@pytest.mark.parametrize("length", LENGTHS)
def test_distances_by_bits_are_those_of_the_table(length: int, measure: str) -> None:
    generator = random.Random(length)
    text = "".join(generator.choice("abcdé𝄞") for _ in range(length))
    others = [edited(generator, text, edits) for edits in (0, 1, 2, 5, 20) for _ in range(2)]
    # Neighbours are swapped over the end of each word.
    others += [
        text[: place - 1] + text[place : place + 1] + text[place - 1] + text[place + 1 :]
        for place in range(1, length)
        if length < 64 or place % 64 in {0, 1, 63}
    ][:8]
    others += ["", text[::-1], text * 2]
    transposes = measure == "alignment"
    number = kernels.strings.ALIGNMENT if transposes else kernels.strings.LEVENSHTEIN
    expected = [oracle.edits(text, other, transposes=transposes) for other in others]
    probe, strings = as_strings([text]), as_strings(others)
    for most in (2 * length, max(expected) // 2):
        limits = kernels.strings.Limits(most, 0, 1, 6, 0)
        rows, distances, _ = kernels.strings.scan(probe, strings, limits, number, 0)
        within = [row for row, apart in enumerate(expected) if apart <= most]
        assert rows.tolist() == within
        assert distances.tolist() == [expected[row] for row in within]
    rows = np.arange(len(others))
    found = kernels.strings.compare_rows(probe, strings, np.zeros_like(rows), rows, number)
    assert found[0].tolist() == expected
