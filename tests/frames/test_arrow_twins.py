"""A table of Arrow stores what a list of its rows stores, however its columns are laid out."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import simdb
from simdb.errors import BadItemError
from tests.support.grids import some_of

LETTERS = ["a", "b", " ", "é", "Σ", "ς", "İ", "\u0301", "日本", "\U0001f600", "\0", "\n", "A", "ﬁ"]
LETTERS += ["<b>", "<p>", "&amp;", "\u2019", "12", "ß", "-", "\u00ad"]
TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())),
]
Column = tuple[Any, list[Any], list[Any]]  # a kind, items of it, types that a column may have


def texts(draw: random.Random, count: int) -> Column:
    kind = draw.choice(
        [
            simdb.Text(simdb.CharacterShingles(3)),
            simdb.Text(simdb.WordShingles(1), lowercase=True),
            simdb.Text(simdb.CharacterShingles(2), unicode="NFKC", lowercase=True),
            simdb.Text.profile("web", shingles=simdb.WordShingles(1)),
            simdb.String(ignore=["case", "diacritics", "html"]),
        ]
    )
    made = ["".join(draw.choices(LETTERS, k=draw.choice([0, 1, 3, 12, 40]))) for _ in range(count)]
    return kind, made, TEXTS


def numbers_of_bits(draw: random.Random, count: int) -> Column:
    return simdb.Bits(12), [draw.getrandbits(12) for _ in range(count)], [pa.int64(), pa.uint16()]


def bytes_of_bits(draw: random.Random, count: int) -> Column:
    made = [draw.randbytes(8 if draw.random() < 0.95 else 9) for _ in range(count)]
    return simdb.Bits(64), made, [pa.binary(), pa.large_binary()]


def vectors(draw: random.Random, count: int) -> Column:
    made = [draw.choices([0.0, 1.5, -2.25, float("nan")], [9, 9, 9, 1], k=2) for _ in range(count)]
    types = [pa.list_(pa.float32(), 2), pa.list_(pa.float64()), pa.large_list(pa.float32())]
    return simdb.Vector(2, "euclidean"), made, types


def sets_of_numbers(draw: random.Random, count: int) -> Column:
    made = [draw.choices(range(-3, 30), k=draw.randrange(6)) for _ in range(count)]
    return simdb.Set(), made, [pa.list_(pa.int64()), pa.list_(pa.int8()), pa.large_list(pa.int32())]


def bags_of_texts(draw: random.Random, count: int) -> Column:
    made = [draw.choices(["a", "é", None], [9, 9, 1], k=draw.randrange(6)) for _ in range(count)]
    return simdb.Bag("maximum"), made, [pa.list_(pa.string())]


MAKERS: list[Callable[[random.Random, int], Column]] = [
    *(texts, numbers_of_bits, bytes_of_bits, vectors, sets_of_numbers, bags_of_texts)
]


def laid_out(draw: random.Random, values: list[Any], kind: Any) -> pa.ChunkedArray:
    """A column that begins and ends within its buffers, perhaps in several chunks, one empty."""
    around = values[:1] * draw.randrange(3)
    column = pa.array([*around, *values, *around], type=kind).slice(len(around), len(values))
    cuts = sorted(draw.choices(range(len(values) + 1), k=draw.choice([0, 2])))
    chunks = [
        column.slice(begin, end - begin)
        for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True)
    ]
    return pa.chunked_array(chunks)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", some_of(range(6), 2))
def test_a_table_is_its_rows(tmp_path: Path, make: Any, seed: int) -> None:
    draw = random.Random(seed)
    count = draw.choice([0, 1, 5, 30, 200])
    kind, items, types = make(draw, count)
    items = [None if draw.random() < 0.1 else item for item in items]
    column = laid_out(draw, items, draw.choice(types))
    keys = [f"k{row}" for row in range(count)] if draw.random() < 0.5 else list(range(count))
    notes = draw.choices([None, "x", "é"], k=count)
    table = pa.table(
        {
            "key": laid_out(draw, keys, None if count else pa.int64()),
            "item": column,
            "note": laid_out(draw, notes, pa.string()),
        }
    )
    rows = zip(keys, column.to_pylist(), [{"note": note} for note in notes], strict=True)
    options: dict[str, Any] = {"max_distance" if kind.is_distance else "threshold": 1}
    options["on_bad"] = draw.choice(["skip", "error"])
    ways: list[tuple[str, Any, dict[str, Any]]] = [
        ("table", table, {"key": "key", "item": "item", "metadata": ["note"]}),
        ("rows", rows, {}),
    ]
    stored = []
    bound = {name: options.pop(name) for name in ("max_distance", "threshold") if name in options}
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=draw.choice([1, 2])) as database:
        for name, given, columns in ways:
            collection = database.collection(name, kind, seed=1, **bound)
            try:
                report = collection.add_many(given, **columns, **options)
                told: Any = report.added, report.bad, [row for row, _ in report.bad_rows]
            except BadItemError:
                told = "a bad row"
            stored.append((told, [(one.key, one.item, one.metadata) for one in collection.items()]))
    # By their words, since nan is not equal to itself.
    assert repr(stored[0]) == repr(stored[1])
