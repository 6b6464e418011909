"""Arrow in and out of a collection: types of columns, nulls, errors, promises in the metadata."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simdb
from simdb import arrow
from tests.support.commands import done, run
from tests.support.processes import interpreted

A, B = "the quick brown fox jumps over the lazy dog", "another text about the price of copper"


@pytest.fixture
def texts(path: Path) -> Iterator[simdb.Collection]:
    with simdb.open(path) as database:
        yield database.collection("texts", simdb.Text(), threshold=0.8, seed=1)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([A, B]),
        pa.array([A, B], pa.large_string()),
        pa.array([A, B], pa.string_view()),
        pa.array([A, B, A]).dictionary_encode()[:2],
        pa.array([A, B, A])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.string_view()))[:2],
        pa.array(["-", A, B])[1:],
    ],
    ids=["string", "large_string", "string_view", "dictionary", "dictionary of views", "slice"],
)
def test_texts_of_every_type_are_read(texts, column):
    texts.add_many(pa.table({"text": column}), item="text")
    assert [(entry.key, entry.item) for entry in texts.items()] == [(0, A), (1, B)]


def collection_of(path: Path, kind: simdb.kinds.Kind, **settings: object) -> simdb.Collection:
    database = simdb.open(path)
    return database.collection("items", kind, seed=1, **settings)  # type: ignore[arg-type]


SETS = [[3, 1, 2], [], [7]]


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (simdb.Set(), pa.array(SETS), [{1, 2, 3}, set(), {7}]),
        (simdb.Set(), pa.array(SETS, pa.large_list(pa.int32())), [{1, 2, 3}, set(), {7}]),
        (simdb.Set(), pa.array([["x", "y"], ["x"]]), [{"x", "y"}, {"x"}]),
        (simdb.Bag(), pa.array([{"x": 2}, {"y": 1}], pa.map_(pa.string(), pa.int64())), None),
        (simdb.Bits(8), pa.array([5, 6], pa.uint8()), None),
        (simdb.Bits(8), pa.array([b"\x05", b"\x06"]), None),
        (simdb.Bits(3), pa.array([[True, False, True]], pa.list_(pa.bool_(), 3)), None),
    ],
)
def test_items_of_every_type_are_those_of_python(path, kind, column, expected):
    bound = {"max_distance": 1} if kind.is_distance else {"threshold": 0.5}
    of_arrow = collection_of(path, kind, **bound)
    of_arrow.add_many(pa.table({"item": column}), item="item")
    plain = collection_of(path.with_name("plain.simdb"), kind, **bound)
    given = [dict(item) if isinstance(kind, simdb.Bag) else item for item in column.to_pylist()]
    plain.add_many(list(enumerate(given)))
    found = [entry.item for entry in of_arrow.items()]
    assert list(map(str, found)) == [str(entry.item) for entry in plain.items()]
    if expected is not None:
        assert found == expected


COLUMNS = {
    "text": (simdb.Text(), pa.array(["-", A, "", "ünïcode"])[1:]),
    "large text": (simdb.Text(), pa.array([A, "é"], pa.large_string())),
    "text view": (simdb.Text(), pa.array([A, B, A], pa.string_view())[1:]),
    "dictionary": (simdb.Text(), pa.array([A, B, A, A]).dictionary_encode()[1:3]),
    "bytes": (simdb.Bits(12), pa.array([b"\x05\xf0", b"\xff\x00"])),
    "fixed bytes": (simdb.Bits(16), pa.array([b"-_", b"ab", b"cd"], pa.binary(2))[1:]),
    "bits": (simdb.Bits(3), pa.array([[0, 1, 1], [1, 0, 0]])),
    "sets": (simdb.Set(), pa.array([[9], [3, 1, 3], [], [-7, 2**40]])[1:]),
    "vectors": (simdb.Vector(2), pa.array([[0, 1], [3, -0.0]], pa.list_(pa.float32(), 2))[1:]),
    "long vectors": (simdb.Vector(2, "euclidean"), pa.array([[0.5, 1.0], [0.0, 0.0]])),
}


@pytest.mark.parametrize(("kind", "column"), COLUMNS.values(), ids=COLUMNS.keys())
def test_sound_columns_go_in_as_they_lie_and_equal_rows(tmp_path, monkeypatch, kind, column):
    table = pa.table({"key": [f"k{n}" for n in range(len(column))], "item": column})
    one_by_one = collection_of(tmp_path / "rows.simdb", kind)
    one_by_one.add_many(zip(table["key"].to_pylist(), arrow.values(column), strict=True))
    monkeypatch.setattr(arrow.Part, "rows", None)  # nothing is read row by row
    whole = collection_of(tmp_path / "columns.simdb", kind)
    report = whole.add_many(table, key="key", item="item")
    assert report.added == len(column)
    pairs = zip(whole.items(), one_by_one.items(), strict=True)
    assert all(repr(entry) == repr(other) for entry, other in pairs)
    assert not whole.check(deep=True).problems


WRONG = {
    "not UTF-8": (simdb.Text(), pa.array([A.encode(), b"\xff", B.encode()]).view(pa.string())),
    "not finite": (simdb.Vector(2), pa.array([[1.0, 2.0], [1.0, np.nan], [0.0, 1.0]])),
    "no direction": (simdb.Vector(2), pa.array([[1.0, 2.0], [0.0, 0.0], [0.0, 1.0]])),
    "too short": (simdb.Vector(2), pa.array([[1.0, 2.0], [1.0], [0.0, 1.0]])),
    "past the end": (simdb.Bits(12), pa.array([b"ab0", b"abc"[:2], b"ab0"]).cast(pa.binary())),
    "no bit": (simdb.Bits(2), pa.array([[0, 1], [0, 2], [1, 1]])),
    "too large": (simdb.Set(), pa.array([[1], [2**64 - 1], [3]], pa.list_(pa.uint64()))),
}


@pytest.mark.parametrize(("kind", "column"), WRONG.values(), ids=WRONG.keys())
def test_a_column_with_a_wrong_item_is_told_row_by_row(path, kind, column):
    collection = collection_of(path, kind)
    report = collection.add_many(pa.table({"item": column}), item="item", on_bad="skip")
    assert report.added + report.bad == 3
    assert report.bad_rows
    assert 1 in {row for row, _ in report.bad_rows}


def test_a_null_among_the_values_of_a_dictionary_is_a_null(texts):
    places = pa.array([0, 1, 2])
    values = pa.DictionaryArray.from_arrays(places, pa.array([A, None, B]))
    numbers = pa.DictionaryArray.from_arrays(places, pa.array([7, 8, None]))
    report = texts.add_many(pa.table({"text": values}), item="text", on_bad="skip")
    assert report.bad_rows == ((1, "the column 'text' is null"),)
    table = pa.table({"id": numbers, "text": [A, A, B]})
    report = texts.add_many(table, key="id", item="text", on_bad="skip")
    assert report.bad_rows == ((2, "the column 'id' is null"),)
    assert [(entry.key, entry.item) for entry in texts.items()] == [(0, A), (2, B), (7, A), (8, A)]


def test_metadata_that_are_not_utf_8_make_a_bad_row_of_their_own(texts):
    told = pa.array([b"one", b"\xff", b"three"]).view(pa.string())
    lists = pa.array([[1, 2], [3], None])
    table = pa.table({"text": [A, A, B], "told": told, "lists": lists})
    report = texts.add_many(table, item="text", metadata=["told", "lists"], on_bad="skip")
    ((row, problem),) = report.bad_rows
    assert row == 1
    assert problem.startswith("the column 'told' is not UTF-8")
    assert [entry.metadata for entry in texts.items()] == [
        {"told": "one", "lists": [1, 2]},
        {"told": "three", "lists": None},
    ]


def test_signatures_of_64_bits_are_a_column_of_unsigned_numbers(path):
    collection = collection_of(path, simdb.Signature(2, 64), threshold=0.5)
    collection.add_many([("a", [1, 2]), ("b", [2**63 + 5, 3])])
    column = collection.to_arrow()["item"]
    assert column.type == pa.list_(pa.uint64(), 2)
    assert column.to_pylist() == [[1, 2], [2**63 + 5, 3]]
    mixed = [{"a": 2**63}, {"a": -1}]
    with pytest.raises(simdb.UsageError, match="the values of 'a' have types"):
        arrow.reader_of(lambda: iter(mixed)).read_all()


def test_vectors_are_a_column_of_the_numbers_that_are_stored(path, tmp_path):
    vectors = np.random.default_rng(5).standard_normal((300, 7)).astype(np.float32)
    collection = collection_of(path, simdb.Vector(7, "euclidean"), max_distance=1)
    collection.add_many(enumerate(vectors))
    done("export", path, "items", "-o", tmp_path / "out.parquet")
    exported = pq.read_table(tmp_path / "out.parquet")["vector"]
    for column in (collection.to_arrow()["item"], exported):
        assert column.type == pa.list_(pa.float32(), 7)
        flat = column.combine_chunks().flatten().to_numpy()
        np.testing.assert_array_equal(flat.reshape(300, 7), vectors)


def test_an_answer_without_matches_has_the_columns_of_any_other(path):
    collection = collection_of(path, simdb.Bits(8), max_distance=1)
    collection.add("x", 0)
    near, none = collection.search(0), collection.search(170)
    assert near.is_distance
    assert none.is_distance
    assert none.to_arrow().schema.names == near.to_arrow().schema.names == ["key", "distance"]
    for probes in ([170], []):
        columns = collection.search_many(probes).to_arrow().schema.names
        assert columns == ["probe", "key", "distance"]
    assert "distance" in none._repr_html_()
    assert pa.concat_tables([near.to_arrow(), none.to_arrow()]).num_rows == 1


def test_small_batches_are_stored_together_and_large_ones_in_parts(texts):
    small = pa.table({"key": range(30), "text": [f"{A} {n}" for n in range(30)]}).to_batches(7)
    reader = pa.RecordBatchReader.from_batches(small[0].schema, small)
    reports: list[simdb.Progress] = []
    texts.add_many(reader, key="key", item="text", progress=reports.append)
    assert [report.done for report in reports] == [30]
    assert [entry.key for entry in texts.items()] == list(range(30))
    table = pa.table({"key": range(100, 130), "text": [f"{B} {n}" for n in range(30)]})
    parts = list(arrow.Rows(table, arrow.Columns("text", "key")).parts(12, 2**20))
    counts = [(part.first, len(list(part.rows()))) for part in parts]
    assert counts == [(0, 12), (12, 12), (24, 6)]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 3), pa.list_(pa.float64())])
def test_vectors_are_read_from_lists(path, kind):
    vectors = [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]]
    collection = collection_of(path, simdb.Vector(3, "euclidean"), max_distance=1)
    report = collection.add_many(pa.table({"v": pa.array(vectors, kind)}), item="v", on_bad="skip")
    assert report.bad_rows == ((1, "the column 'v' is null"),)
    assert [entry.item.tolist() for entry in collection.items()] == [vectors[0], vectors[2]]


def test_a_null_in_a_list_is_a_bad_row(path):
    collection = collection_of(path, simdb.Set(), threshold=0.5)
    table = pa.table({"s": pa.array([[1, 2], [1, None]])})
    report = collection.add_many(table, item="s", on_bad="skip")
    assert (report.added, report.bad) == (1, 1)


def test_nulls_of_keys_and_items_are_bad_rows(texts):
    table = pa.table({"id": ["a", None, "c"], "text": [A, B, None]})
    report = texts.add_many(table, key="id", item="text", on_bad="skip")
    assert report.bad_rows == ((1, "the column 'id' is null"), (2, "the column 'text' is null"))
    with pytest.raises(simdb.BadItemError, match="row 1: the column 'id' is null"):
        texts.add_many(table, key="id", item="text", on_existing="skip")


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_without_rows_are_of_any_type_and_keys_of_none_are_bad_rows(texts, made):
    """Nothing says of what type they are; pandas and polars then say numbers, or nothing."""
    named: dict[str, Any] = {"key": "id", "item": "text"}
    nothing = made({"id": pa.array([], pa.null()) if made is pa.table else [], "text": []})
    assert texts.add_many(nothing, **named).rows == 0
    assert texts.dedupe(nothing, **named).rows == 0
    assert len(texts.search_many(nothing, item="text")) == 0
    assert texts.add_many(pa.table({"id": [2.5], "text": [A]}).slice(1), **named).rows == 0
    with pytest.raises(simdb.UsageError, match="no column 'body'"):
        texts.add_many(nothing, key="id", item="body")
    with pytest.raises(simdb.UsageError, match="keys are whole numbers or texts"):
        texts.add_many(made({"id": [2.5], "text": [A]}), **named)
    unknown = made({"id": [None, None], "text": [A, B]})
    report = texts.add_many(unknown, **named, on_bad="skip")
    assert report.bad_rows == ((0, "the column 'id' is null"), (1, "the column 'id' is null"))


def test_metadata_is_what_json_can_express(texts):
    table = pa.table(
        {
            "text": [A],
            "day": [datetime.date(2026, 1, 2)],
            "at": [datetime.datetime(2026, 1, 2, 3, 4)],
            "price": [decimal.Decimal("1.50")],
            "tags": [["x"]],
            "none": pa.nulls(1),
        }
    )
    texts.add_many(table, item="text", metadata=["day", "at", "price", "tags", "none"])
    assert texts.get(0).metadata == {
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:00",
        "price": "1.50",
        "tags": ["x"],
        "none": None,
    }


def of_numbers(kind: pa.DataType, *numbers: int) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.array(numbers, width).buffers()[1]])


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (of_numbers(pa.timestamp("s", "Asia/Tokyo"), 253402300799), "10000-01-01T08:59:59+09:00"),
        (of_numbers(pa.timestamp("s", "UTC"), 253402300800), "10000-01-01T00:00:00+00:00"),
        (of_numbers(pa.timestamp("us"), -62135596800_000_001), "0000-12-31T23:59:59.999999"),
        (of_numbers(pa.timestamp("s", "Mars/Olympus"), 1), "1970-01-01T00:00:01+00:00"),
        (of_numbers(pa.date32(), -719529), "-0001-12-31"),
        (of_numbers(pa.date32(), 2**31 - 1), "5881580-07-11"),
        (of_numbers(pa.date32(), -(2**31)), "-5877641-06-23"),
        (of_numbers(pa.date64(), 2_932_897 * 86_400_000), "10000-01-01"),
        (
            of_numbers(pa.timestamp("us", "UTC"), -(2**63) + 1),
            "-290308-12-21T19:59:05.224193+00:00",
        ),
        (of_numbers(pa.timestamp("us"), 2**63 - 1), "294247-01-10T04:00:54.775807"),
        (of_numbers(pa.timestamp("s"), 2**63 - 1), "292277026596-12-04T15:30:07"),
        (of_numbers(pa.timestamp("ms", "Europe/Berlin"), 10**18), "31690708-07-05T01:46:40+00:00"),
        (of_numbers(pa.timestamp("ms"), 10**15 + 5), "33658-09-27T01:46:40.005"),
        (of_numbers(pa.duration("ms"), 1), "PT0.001S"),
        (of_numbers(pa.duration("ns"), -1_500_000_001), "-PT1.500000001S"),
        (of_numbers(pa.duration("us"), 86_400_000_000), "PT86400S"),
        (of_numbers(pa.duration("s"), 2**62), f"PT{2**62}S"),
        (of_numbers(pa.time64("ns"), 1_001), "00:00:00.000001001"),
        (of_numbers(pa.time64("ns"), 3_600_000_001_000), "01:00:00.000001"),
        (of_numbers(pa.time64("ns"), 0), "00:00:00"),
    ],
)
def test_any_time_and_duration_is_text_in_iso_s_form(texts, column, told):
    table = pa.table(
        {
            "text": [A],
            "plain": column,
            "list": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), column),
            "object": pa.StructArray.from_arrays([column], ["x"]),
            "map": pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["x"]), column),
            "few": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), column),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), column),
            "one of": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [column]),
        }
    )
    names = table.column_names[1:]
    texts.add_many(table, item="text", metadata=names)
    assert texts.get(0).metadata == {
        "plain": told,
        "list": [told],
        "object": {"x": told},
        "map": [["x", told]],
        "few": told,
        "runs": told,
        "one of": told,
    }


def day_of(year: int, month: int, day: int) -> int:
    """The days since 1970-01-01: the inverse of what writes them."""
    years = year - (month < 3)
    within = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * years + years // 4 - years // 100 + years // 400 + within - 719_468


def test_days_far_from_ours_are_written_by_the_gregorian_calendar(texts):
    numbers = [*range(-(2**31), 2**31, 1_234_567), *range(-720_000, -719_000), 2_932_895, 2_932_896]
    days = of_numbers(pa.date32(), *numbers)
    column = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), days)
    written = pa.table({"text": [A], "days": column})
    texts.add_many(written, item="text", metadata=["days"])
    metadata = texts.get(0).metadata
    assert metadata is not None
    for number, told in zip(numbers, metadata["days"], strict=True):
        year, month, day = told.rsplit("-", 2)
        assert day_of(int(year), int(month), int(day)) == number
        assert len(year.lstrip("-")) >= 4
        assert 1 <= int(month) <= 12
        assert 1 <= int(day) <= 31
        if 1 <= int(year) <= 9_999:
            epoch = datetime.date(1970, 1, 1)
            assert told == (epoch + datetime.timedelta(number)).isoformat()


@pytest.mark.parametrize(
    ("unit", "least"),
    [
        ("s", "-292277022657-01-27T08:29:52"),
        ("ms", "-292275055-05-16T16:47:04.192"),
        ("us", "-290308-12-21T19:59:05.224192"),
    ],
)
def test_the_least_time_is_written_as_one(texts, unit, least):
    """Which NumPy takes for no time."""
    times = pa.array([-(2**63), -(2**63) + 1, -1], pa.timestamp(unit))
    texts.add_many(pa.table({"text": [A, B, A + B], "at": times}), item="text", metadata=["at"])
    found = [entry.metadata["at"] for entry in texts.items() if entry.metadata is not None]
    assert found[0] == least
    assert found[1][:-3] == least[:-3] < found[1][:-3] + "z"
    assert found[2].startswith("1969-12-31T23:59:59")


def test_a_stream_of_several_batches_is_read_as_it_comes(texts):
    batches = [pa.record_batch({"text": [f"{A} {i}", f"{B} {i}"]}) for i in range(50)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    assert texts.add_many(reader, item="text").added == 100
    assert texts.get(99).item == f"{B} 49"


def test_keys_of_bad_rows_are_told_where_they_can_be_read(texts):
    table = pa.table({"id": ["a", None, "c"], "text": [None, A, B]})
    told: list[simdb.Outcome] = []
    texts.add_many(table, key="id", item="text", on_bad="skip", outcomes=told.extend)
    assert [(one.key, one.action) for one in told] == [
        ("a", "bad"),
        (None, "bad"),
        ("c", "added"),
    ]


def test_arguments_that_do_not_fit_are_refused(texts):
    table = pa.table({"id": [1.5], "text": [A]})
    with pytest.raises(simdb.UsageError, match="item="):
        texts.add_many(table)
    with pytest.raises(simdb.UsageError, match="'id' is a column of double"):
        texts.add_many(table, key="id", item="text")
    with pytest.raises(simdb.UsageError, match="columns of a table"):
        texts.add_many([(1, A)], item="text")
    with pytest.raises(simdb.UsageError, match="2 columns 'x'"):
        texts.add_many(pa.Table.from_arrays([pa.array([A])] * 2, ["x", "x"]), item="x")
    assert len(texts) == 0


def test_pairs_stream_with_their_promise(texts):
    texts.add_many([("a", A), ("b", A + "!"), ("c", B)])
    table = pa.table(texts.pairs())
    assert table.to_pylist() == [
        {"left": "a", "right": "b", "similarity": next(iter(texts.pairs())).similarity}
    ]
    promise = json.loads(table.schema.metadata[b"simdb"])
    assert promise["guarantee"] == "probable"
    assert promise["expected_recall"] == texts.pairs().expected_recall


def test_columns_of_pairs_equal_the_pairs(path):
    sets = collection_of(path, simdb.Set(), threshold=0.3, exact_floor=0.3)
    random = np.random.default_rng(1)
    sets.add_many((i, random.integers(0, 30, 8).tolist()) for i in range(2_000))
    pairs = [(pair.left, pair.right, pair.similarity) for pair in sets.pairs()]
    table = sets.pairs().to_arrow()
    assert len(pairs) > 10_000
    assert list(zip(*table.to_pydict().values(), strict=True)) == pairs


def test_matches_and_groups_are_columns_too(texts):
    texts.add_many([("a", A), ("b", A + "!"), ("c", B)])
    assert pa.table(texts.search(A))["key"].to_pylist() == ["a", "b"]
    probes = pa.table({"q": [B, A]})
    found = texts.search_many(probes, item="q").to_arrow()
    assert found.select(["probe", "key"]).to_pylist() == [
        {"probe": 0, "key": "c"},
        {"probe": 1, "key": "a"},
        {"probe": 1, "key": "b"},
    ]
    assert pa.table(texts.groups()).to_pylist() == [
        {"representative": "a", "key": "a"},
        {"representative": "a", "key": "b"},
    ]


@pytest.mark.parametrize(
    "column",
    [list, pd.Series, pl.Series, pa.array, lambda items: pa.chunked_array([items[:1], items[1:]])],
)
def test_one_column_is_the_items_to_search_for(texts, column):
    texts.add_many([("a", A), ("c", B)])
    answers = texts.search_many(column([B, A]))
    assert [[match.key for match in found] for found in answers] == [["c"], ["a"]]
    with pytest.raises(simdb.UsageError, match="leave it out"):
        texts.search_many(column([B, A]), item="text")
    with pytest.raises(simdb.BadItemError, match="row 1: a text must be a str"):
        texts.search_many(column([A, None]))


def test_answers_without_rows_have_columns(texts):
    assert pa.table(texts.pairs()).column_names == ["left", "right", "similarity"]
    assert pa.table(texts.search(A)).column_names == ["key", "similarity"]
    assert texts.search_many([]).to_arrow().column_names == ["probe", "key", "similarity"]
    assert pa.table(texts.groups()).column_names == ["representative", "key"]


def test_keys_of_both_types_are_refused_as_a_column(texts):
    texts.add_many([("1", A), (1, A + "!"), ("2", A + "?")])
    with pytest.raises(simdb.UsageError, match="some keys are texts and some are numbers"):
        texts.pairs().to_arrow()
    pairs = {(pair.left, pair.right) for pair in texts.pairs()}
    assert pairs == {("1", 1), ("1", "2"), (1, "2")}


def test_without_pyarrow_the_extra_is_named_and_nothing_else_needs_it(tmp_path):
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import simdb\n"
        "class Table:\n"
        "    def __arrow_c_stream__(self, schema=None): raise AssertionError\n"
        "rows = [{'t': 'a b c d e f g h i j k'}] * 2\n"
        "assert simdb.dedupe(rows, item='t') == rows[:1]\n"
        "try: simdb.dedupe(Table(), item='t')\n"
        "except simdb.MissingExtraError as error: print(error)\n"
    )
    ran = interpreted(program, cwd=tmp_path)
    assert 'pip install "simdb-store[arrow]"' in ran.stdout


def test_without_pandas_it_is_named(texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(simdb.MissingExtraError, match="pip install pandas"):
        texts.pairs().to_pandas()


TWO_ROWS = {"id": ["a", "b"], "text": [A, B]}
TABLES = {
    "pandas": pd.DataFrame(TWO_ROWS),
    "polars": pl.DataFrame(TWO_ROWS),
    "pyarrow": pa.table(TWO_ROWS),
    "batch": pa.record_batch(TWO_ROWS),
}


@pytest.mark.parametrize("name", TABLES)
def test_where_no_column_is_named_a_table_is_not_taken_for_its_columns(texts, name):
    table = TABLES[name]
    texts.add_many(table, key="id", item="text")
    listed = ".to_pylist()" if isinstance(table, (pa.Table, pa.RecordBatch)) else ""
    calls: list[tuple[str, Callable[[Any], object]]] = [
        ("text", simdb.tune),
        ("text", lambda given: simdb.plan_exact(given, simdb.Text())),
        ("id", texts.signatures),
        ("id", lambda given: texts.delete_many(given, missing="skip")),
    ]
    for column, call in calls:
        with pytest.raises(simdb.WrongTypeError) as raised:
            call(table)
        told = f", not {type(table).__name__}: give one column of it, as frame['{column}']{listed}"
        assert str(raised.value).endswith(told)
    assert len(texts) == 2


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_column_of_a_frame_is_taken_for_what_it_has(texts, name):
    frame = TABLES[name]
    words = ("words", simdb.Text(simdb.WordShingles(1)))
    assert simdb.tune(frame["text"], tried=[words]).texts == (A, B)
    assert simdb.plan_exact(pd.Series([A, B], ["columns", "b"]), simdb.Text()).items == 2
    texts.add_many(frame, key="id", item="text")
    assert texts.delete_many(frame["id"]) == 2


def test_a_mapping_is_not_taken_for_its_keys(texts):
    calls: list[Callable[[Any], object]] = [
        simdb.tune,
        lambda given: simdb.plan_exact(given, simdb.Text()),
        texts.search_many,
    ]
    for call in calls:
        with pytest.raises(simdb.WrongTypeError, match=r"not dict, of which .* its values\(\)"):
            call({"a": A, "b": B})


def test_a_path_is_no_table(tmp_path):
    with pytest.raises(simdb.UsageError, match="not str; read the file into one"):
        simdb.dedupe("rows.parquet", item="text")


def test_every_answer_and_a_collection_become_frames(texts):
    texts.add_many([("a", A, {"n": 1}), ("b", A + "!", {"n": 2}), ("c", B, {"n": 3})])
    answers = (texts.pairs(), texts.search(A), texts.groups(), texts.search_many([A, B]))
    for answer in (*answers, texts):
        expected = answer.to_arrow().to_pylist()
        assert answer.to_pandas().to_dict("records") == expected
        assert answer.to_polars().to_dicts() == expected


@pytest.mark.parametrize("key", [1, "a"])
def test_answers_without_anything_have_the_columns_of_others(path, key):
    sets = collection_of(path, simdb.Set(), threshold=0.5)
    sets.add_many([(key, [1, 2], {"a": 1}), (key * 2, [1, 2], {"a": 1}), (key * 3, [7, 8])])
    for metadata in (False, True):
        questions: list[tuple[Callable[..., Any], list[Any], list[Any]]] = [
            (sets.search, [[1, 2]], [[99]]),
            (sets.search, [[1, 2]], [[7, 8]]),
            (sets.search_many, [[[1, 2]]], [[[99]]]),
            (sets.search_many, [[[1, 2]]], [[]]),
        ]
        for question, given, other in questions:
            some, none = (question(*one, metadata=metadata).to_arrow() for one in (given, other))
            assert len(some) == 2
            assert none.schema.equals(some.schema)
            assert ("metadata" in none.column_names) == metadata
    star: Callable[..., Any] = partial(sets.groups, method="star")
    for call in (sets.pairs, sets.groups, star):
        some, none = (call(where={"a": one}, metadata=True).to_arrow() for one in (1, 5))
        assert (none.num_rows, none.schema.equals(some.schema)) == (0, True)


def test_outcomes_without_duplicates_have_the_columns_of_others(texts):
    told: list[pa.Table] = []
    for rows in ([(1, A)], [(2, B), (3, B)]):
        texts.dedupe(rows, outcomes=lambda some: told.append(some.to_arrow()))
    assert told[0].schema == told[1].schema
    assert told[1]["duplicate_of"].to_pylist() == [None, 2]


def test_a_frame_of_a_collection_is_added_again(path):
    weighted = collection_of(path, simdb.WeightedSet(), threshold=0.5)
    weighted.add_many([(1, {1: 1.5}), (2, {2: 2.0})])
    frame = weighted.to_pandas()
    report = weighted.add_many(frame, key="key", item="item", on_existing="same")
    assert (report.rows, report.added) == (2, 0)


def duckdb_rows(query: str, **named: object) -> list[tuple[object, ...]]:
    """What DuckDB answers to a query that reads Python's variables by their names."""
    known = {"duckdb": duckdb, "query": query, **named}
    rows: list[tuple[object, ...]] = eval("duckdb.sql(query).fetchall()", known)
    return rows


def test_answers_of_several_searches_are_a_stream_and_a_sequence(texts):
    texts.add_many([("a", A), ("b", A + "!"), ("c", B)])
    answers = texts.search_many([B, A])
    assert pa.table(answers)["probe"].to_pylist() == [0, 1, 1]
    assert duckdb_rows("select probe, key from answers", answers=answers) == [
        (0, "c"),
        (1, "a"),
        (1, "b"),
    ]
    assert answers == [texts.search(B), texts.search(A)] == [*answers]
    assert answers[1:] == [answers[1]]
    assert answers != answers[:1]
    assert repr(answers) == "<simdb answers of 2 searches, 3 matches>"


def test_duckdb_finds_pairs_and_collections_by_their_names(texts):
    texts.add_many([("a", A), ("b", A + "!", {"n": 1}), ("c", B)])
    found = {"pairs": texts.pairs()}
    for _ in range(2):  # every reading begins anew
        assert [row[:2] for row in duckdb_rows("from pairs", **found)] == [("a", "b")]
    assert duckdb_rows("select key, metadata from texts where item like 'the%'", texts=texts) == [
        ("a", None),
        ("b", '{"n": 1}'),
    ]


@pytest.mark.parametrize(
    ("kind", "items", "told"),
    [
        (simdb.Set(), [{2, 1}, set()], [[1, 2], []]),
        (simdb.Vector(2), [[0.5, 1.0]], [[0.5, 1.0]]),
        (simdb.Bits(4), ["0101"], ["0101"]),
        (
            simdb.Record([simdb.Field("name"), simdb.Field("town")]),
            [{"name": "x"}],
            [{"name": "x"}],
        ),
    ],
)
def test_a_collection_is_a_table_and_can_be_added_to_another(path, kind, items, told):
    found = collection_of(path, kind)
    assert found.to_arrow().schema.names == ["key", "item", "metadata"]
    found.add_many(enumerate(items))
    assert pa.table(found)["item"].to_pylist() == told
    with simdb.open(path.with_name("other.simdb")) as database:
        copied = database.collection("copied", kind)
        copied.add_many(pa.table(found), key="key", item="item")
        assert copied.to_arrow().equals(found.to_arrow())


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (simdb.Text(), "abc " * 8_000),
        (simdb.Set(), set(range(500))),
        (simdb.Set(), {f"{number}" * 110 for number in range(100)}),
        (simdb.WeightedSet(), {f"{number}": 1.0 for number in range(250)}),
        (simdb.Vector(8_000), np.arange(8_000)),
        (simdb.Record([simdb.Field("name"), simdb.Field("town")]), {"town": "x" * 32_000}),
        (simdb.Text(), "short"),
    ],
)
def test_a_batch_of_a_stream_ends_by_what_its_rows_take(path, monkeypatch, kind, item):
    """Of rows of 30 kB, by their item or by their metadata."""
    found = collection_of(path, kind)
    metadata = {"of": "m" * 32_000} if str(item) == "short" else None
    found.add_many((number, item, metadata) for number in range(12))
    assert len(list(pa.RecordBatchReader.from_stream(found))) == 1
    monkeypatch.setattr(arrow, "PART_BYTES", 100_000)
    batches = list(pa.RecordBatchReader.from_stream(found))
    assert [batch.num_rows for batch in batches] == [4, 4, 4]


def test_keys_of_both_types_are_no_column_of_a_collection(texts):
    texts.add_many([("a", A), (1, B)])
    with pytest.raises(simdb.UsageError, match="the values of 'key' have types that no one Arrow"):
        texts.to_arrow()


def test_a_stream_of_a_collection_is_of_one_state(path):
    """What comes after its schema is known would lose fields, or end it."""
    people = simdb.Record([simdb.Field("name"), simdb.Field("town")])
    with simdb.open(path) as database:
        collection = database.collection("c", people)
        collection.add(1, {"name": "x"})
        expected = collection.to_arrow()
        stream = pa.RecordBatchReader.from_stream(collection)
        collection.add("second", {"name": "y", "town": "z"})
        database.drop_collection("c")
        assert stream.read_all().equals(expected)


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_a_stream_of_a_collection_gives_its_state_back(path, monkeypatch, batches):
    """When it has ended, and when it is dropped, of whatever was read before."""
    monkeypatch.setattr(arrow, "BATCH_ROWS", 1)
    with simdb.open(path) as database:
        collection = database.collection("texts", simdb.Text())
        collection.add_many([("a", A), ("b", B)])
        stream = pa.RecordBatchReader.from_stream(collection)
        assert database.stats()["store"]["snapshots"] == 1
        assert len(list(itertools.islice(stream, batches))) == min(batches, 2)
        if batches < 3:
            del stream
        assert database.stats()["store"]["snapshots"] == 0


def test_outcomes_are_a_table(texts):
    seen: list[simdb.Outcomes] = []
    rows = [("a", A), ("b", A + "!"), ("c", None)]
    report = texts.dedupe(rows, on_bad="skip", outcomes=seen.append)
    (found,) = seen
    assert found.to_arrow().select(["row", "key", "action", "duplicate_of"]).to_pylist() == [
        {"row": 0, "key": "a", "action": "added", "duplicate_of": None},
        {"row": 1, "key": "b", "action": "duplicate", "duplicate_of": "a"},
        {"row": 2, "key": "c", "action": "bad", "duplicate_of": None},
    ]
    assert simdb.Outcomes(report.duplicates).to_polars()["within_input"].to_list() == [True]
    assert simdb.Outcomes().to_arrow().schema.names == found.to_arrow().schema.names


def test_pairs_of_new_items_tell_the_side_that_is_new(texts):
    texts.add("a", A)
    since = texts.checkpoint()
    texts.add("b", A + "!")
    promise = json.loads(texts.pairs(since=since).to_arrow().schema.metadata[b"simdb"])
    assert (promise["since"], promise["new"]) == (since, "right")


def test_structs_with_a_name_twice_are_refused(texts, tmp_path):
    twice = pa.StructArray.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["a", "a"])
    listed = pa.ListArray.from_arrays([0, 1], twice)
    told = "the column 'm' has 2 fields 'a': rename them"
    for column in (twice, listed):
        table = pa.table({"text": [A], "m": column})
        with pytest.raises(simdb.UsageError, match=told):
            texts.add_many(table, item="text", metadata="m")
        with pytest.raises(simdb.UsageError, match=told):
            simdb.pairs(table, item="m", kind=simdb.WeightedSet(), threshold=0.5)
        assert simdb.dedupe(table, item="text").num_rows == 1
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    done("create", tmp_path / "s.simdb", "c")
    added = run("add", tmp_path / "s.simdb", "c", tmp_path / "in.arrow")
    assert added.exit_code != 0
    assert f"in.arrow: {told}" in added.stderr


def test_bytes_are_refused_as_metadata_before_any_row(texts):
    table = pa.table({"text": [A], "image": [{"bytes": b"\0"}]})
    with pytest.raises(simdb.UsageError, match="metadata='image' is a column of struct"):
        texts.add_many(table, item="text", metadata="image")
    assert len(texts) == 0


def test_stats_are_a_table_of_names_and_values(texts):
    texts.add_many([(1, A), (2, B)])
    found = texts.stats()
    table = found.to_arrow()
    values = dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert json.loads(values["items"]) == 2
    assert json.loads(values["settings.threshold"]) == found["settings"]["threshold"]
    assert json.loads(values["settings.shingles.size"]) == 9
    assert found.to_polars().columns == ["name", "value"]


def test_only_the_columns_that_are_named_are_read(texts):
    frame = pd.DataFrame({"k": ["a", "b"], 7: [A, B], "odd": [object(), {2}]})
    texts.add_many(frame, key="k", item="7")
    assert [(entry.key, entry.item) for entry in texts.items()] == [("a", A), ("b", B)]
    mixed = pd.DataFrame({"k": ["c", "d"], "t": [A + " more", 5]})
    assert texts.add_many(mixed, key="k", item="t", on_bad="skip").bad == 1


def test_columns_of_no_pairs_have_the_types_of_the_keys(path):
    with simdb.open(path) as db:
        numbered = db.collection("numbered", simdb.Text(), threshold=0.8)
        named = db.collection("named", simdb.Text(), threshold=0.8)
        numbered.add(5, A)
        named.add("x", B + " and nothing like the other")
        for found, types in (
            (numbered.pairs(), (pa.int64(), pa.int64())),
            (named.pairs(), (pa.string(), pa.string())),
            (numbered.join(named), (pa.int64(), pa.string())),
            (named.join(numbered), (pa.string(), pa.int64())),
            (numbered.score([]), (pa.int64(), pa.int64())),
        ):
            assert found.to_arrow().schema.types == [*types, pa.float64()]


def test_a_relation_of_duckdb_is_read_whatever_else_its_connection_is_asked(texts):
    connection = duckdb.connect()
    query = "SELECT i AS id, 'a text of the row ' || i AS body FROM range({}) rows(i)"
    rows = connection.sql(query.format(20_000))
    asked: list[object] = []
    texts.add_many(
        rows,
        key="id",
        item="body",
        outcomes=lambda _: asked.append(connection.sql("SELECT 42").fetchall()),
    )
    assert len(texts) == 20_000
    assert asked
    reader = arrow.of_duckdb(connection.sql(query.format(5_000)))  # of who asks nothing else
    assert [batch.num_rows for batch in reader] == [2048, 2048, 904]


def test_what_duckdb_could_not_compute_is_told(texts):
    failing = duckdb.sql(
        "SELECT i AS id, if(i > 9000, error('no'), 'x') AS body FROM range(9999) r(i)"
    )
    with pytest.raises(simdb.UsageError, match=r"cannot be read after [0-9,]+ rows: .*no"):
        texts.add_many(failing, key="id", item="body")


def test_columns_of_duckdb_of_one_name_stay_apart():
    """Also where another column is one that Arrow would change."""
    given: Any = duckdb.sql(
        "SELECT 1 AS id, 2 AS id, '1010'::BIT AS flags, 'one two three' AS text"
    )
    assert simdb.dedupe(given, item="text").fetchall() == given.fetchall()


def test_short_batches_are_put_together_up_to_both_limits(monkeypatch):
    """Each is looked at once, however many there are; none is put to one that fills its part."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.string())])
    sizes = [*[1] * 30, 50, 1, 1, 200, 1]
    texts = ["x" * 10] * 30 + ["x" * 10, "y", "y", "z", "z"]
    batches = [
        pa.record_batch([[0] * size, [text] * size], schema=schema)
        for size, text in zip(sizes, texts, strict=True)
    ]

    def parts(most_rows: int, most_bytes: int) -> list[Any]:
        given = pa.RecordBatchReader.from_batches(schema, batches)
        rows: Any = arrow.Rows(given, arrow.Columns.named("k", "t", ()))
        return [part.batch for part in rows.parts(most_rows, most_bytes)]

    assert [part.num_rows for part in parts(60, 10**6)] == [30, 52, 60, 60, 60, 20, 1]
    by_size = parts(1_000, 300)
    assert sum(part.num_rows for part in by_size) == sum(sizes)
    assert all(part.nbytes <= 300 or part.num_rows in (50, 200) for part in by_size)


def test_batches_are_put_together_whose_categories_need_larger_numbers():
    """Each has a hundred of its own, and numbers of 8 bits have room for 128."""
    batches = [
        pa.record_batch([list(map(str, some))], ["t"]).cast(
            pa.schema([("t", pa.dictionary(pa.int8(), pa.string()))])
        )
        for some in (range(100), range(100, 200))
    ]
    rows: Any = arrow.Rows(pa.Table.from_batches(batches), arrow.Columns.named(None, "t", ()))
    (part,) = rows.parts(1_000, 10**6)
    assert part.batch.column("t").to_pylist() == list(map(str, range(200)))


def test_a_filter_takes_what_tables_keep_as_text(texts):
    day, price = datetime.date(2020, 1, 1), decimal.Decimal("1.50")
    rows = pa.table({"k": ["a", "b"], "t": [A, B], "day": [day, None], "price": [None, price]})
    texts.add_many(rows, key="k", item="t", metadata=["day", "price"])
    for where, key in (({"day": day}, "a"), ({"price": {price}}, "b"), ({"day": str(day)}, "a")):
        assert [match.key for match in texts.search(A if key == "a" else B, where=where)] == [key]
        assert not texts.search(B if key == "a" else A, where=where)
    at = np.datetime64("2020-01-01T05:00")
    timed = pd.DataFrame({"k": ["c"], "t": ["of another time"], "at": [at]})
    texts.add_many(timed, key="k", item="t", metadata="at")
    for same in (at, timed["at"][0], timed["at"].to_numpy()[0]):
        assert [match.key for match in texts.search("of another time", where={"at": same})] == ["c"]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.bool_(), pa.int8(), pa.uint16(), pa.int64(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    ],
    ids=str,
)
def test_numbers_of_arrow_are_those_that_pyarrow_has_itself(kind: Any) -> None:
    """Also those that begin within an array, or within a byte of truths."""
    whole = pa.array([number % 3 == 0 for number in range(40)], pa.bool_())
    if kind != pa.bool_():
        whole = pa.array(np.arange(40, dtype=kind.to_pandas_dtype()), kind)
    for begin, count in ((0, 40), (0, 0), (40, 0), (3, 20), (8, 8), (13, 3), (39, 1)):
        part = whole.slice(begin, count)
        found = arrow.numbers_in(part)
        assert found.dtype == kind.to_pandas_dtype()
        assert found.tolist() == part.to_pylist()
    assert arrow.numbers_in(pa.array([], kind)).size == 0
    for chunks in ([], [whole.slice(3)], [whole.slice(9), whole.slice(2, 5)]):
        joined = pa.chunked_array(chunks, kind)
        assert arrow.numbers_in(joined).tolist() == joined.to_pylist()
    assert arrow.numbers_in(pa.array([None, 1, None]).slice(1).is_null()).tolist() == [False, True]


MADE = [
    ([], None),
    ([], pa.string()),
    ([None, None], None),
    (["a", None, "é한", ""], None),
    (["x", None] * 9, pa.large_string()),
    ([1, None, -5, 2**62], None),
    ([2**63, None], pa.uint64()),
    ([1.5, None, float("inf")], None),
    ([True, None, False] * 7, None),
    ([[1], None, [], [None, 2]], None),
    ([["a"], ["b", "c"]], pa.list_(pa.string())),
    ([[[1.5]], []], None),
    ([np.ones(3, np.float32)] * 2, pa.list_(pa.float32(), 3)),
    (np.arange(10)[::2], None),
    (np.ones(3, np.float32), None),
]
LEFT = [  # to pyarrow, which takes some and refuses others
    ([1, 2.5], None),
    ([[1], [2.5]], None),
    ([{"a": 1}], None),
    ([b"a"], pa.binary()),
    (np.array([True]), None),
    ([np.ones(3, np.float32), None], pa.list_(pa.float32(), 3)),
    ([np.ones(2, np.float32)], pa.list_(pa.float32(), 3)),
    ([2**63], None),
    ([-1], pa.uint64()),
    (["\ud800"], None),
    (["a", 1], None),
    ([[1], 2], None),
]


def _made(make: Any, values: Any, kind: Any) -> Any:
    try:
        made = make(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        return type(error), str(error)
    made.validate(full=True)
    return made, made.type


def test_columns_are_as_pyarrow_makes_them(monkeypatch):
    wanted = [_made(pa.array, *one) for one in MADE + LEFT]
    assert [_made(arrow.column, *one) for one in MADE + LEFT] == wanted
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert [_made(arrow.column, *one) for one in MADE + LEFT] == wanted
    monkeypatch.delattr(pa, "array")  # which would import pandas
    assert [_made(arrow.column, *one) for one in MADE] == wanted[: len(MADE)]
    assert str(arrow.column([-0.0, None])[0]) == "-0.0"


def test_tables_are_written_without_pandas(tmp_path, monkeypatch):
    """To import it took longer than to write a small table."""
    rows = [(key, f"{A} {A} {key}", {"n": [key], "s": str(key)}) for key in range(9)]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        texts = db.collection("t", simdb.Text(), threshold=0.5, seed=1)
        texts.add_many(rows)
        told = [dict(row.metadata or {}, key=row.key, item=row.item) for row in texts.items()]
        monkeypatch.delattr(pa, "array")
        monkeypatch.delitem(sys.modules, "pandas", raising=False)
        assert texts.pairs().to_arrow().num_rows > 9
        assert texts.pairs(metadata=True).to_arrow().num_rows > 9
        assert texts.groups().to_arrow().num_rows == 9
        assert arrow.reader_of(lambda: told, "key").read_all().to_pylist() == told
        db.dump(tmp_path / "dumped")
