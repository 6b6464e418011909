"""Bags in files: lists with repeats, objects of counts, lines and baskets."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simdb
from simdb.errors import ConfigurationError
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions, Row


def rows_of(path: Any, content: str, **options: Any) -> list[Row]:
    path.write_text(content, encoding="utf-8")
    options = {"kind": simdb.Bag(), "text_fields": ("bag",), **options}
    with open_rows(str(path), ReadingOptions(**options)) as reader:
        return list(reader)


def items_of(path: Any, content: str, **options: Any) -> list[Any]:
    return [row.problem or row.item for row in rows_of(path, content, **options)]


def test_a_list_keeps_its_repeats_and_an_object_its_counts(tmp_path):
    content = '{"id": "x", "bag": ["a", "b", "a"], "n": 1}\n{"id": "y", "bag": {"a": 2, "b": 0}}\n'
    (one, other) = rows_of(tmp_path / "in.jsonl", content, id_field="id")
    assert (one.key, one.item, one.metadata) == ("x", ["a", "b", "a"], {"n": 1})
    assert (other.key, other.item, other.metadata) == ("y", {"a": 2, "b": 0}, None)


def test_names_of_an_object_are_integers_if_the_elements_before_them_are(tmp_path):
    path = tmp_path / "in.jsonl"
    listed, counted, words = '{"bag": [1, 1]}\n', '{"bag": {"1": 2}}\n', '{"bag": {"a": 1}}\n'
    assert items_of(path, listed + counted) == [[1, 1], {1: 2}]
    assert items_of(path, '{"bag": ["1"]}\n' + counted) == [["1"], {"1": 2}]
    assert items_of(path, '{"bag": {}}\n{"bag": []}\n' + counted) == [{}, [], {1: 2}]
    assert items_of(path, words + counted) == [{"a": 1}, {"1": 2}]
    assert items_of(path, counted, elements="strings") == [{"1": 2}]
    (_, problem) = items_of(path, counted + words)
    assert "the element 'a' is not a whole number" in problem


def test_several_fields_are_added_up(tmp_path):
    rows = [
        {"bag": ["a", "b"], "more": ["a"]},
        {"bag": {"a": 2}, "more": {"a": 1, "c": 1}},
        {"bag": ["a", "a", "b"], "more": {"a": 1}},
        {"bag": {}, "more": []},
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    found = items_of(tmp_path / "in.jsonl", content, text_fields=("bag", "more"))
    assert found == [["a", "b", "a"], {"a": 3, "c": 1}, {"a": 3, "b": 1}, []]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("text", "the field 'bag' is text, not a list, or an object or pairs of counts"),
        (None, "the field 'bag' is null"),
        (5, "is a number, not a list"),
        ({"a": 1.5}, "the count of 'a' in the field 'bag' is 1.5, not a whole number from 0"),
        ({"a": 2.0}, "not a whole number"),
        ({"a": -1}, "is -1, not a whole number"),
        ({"a": True}, "is True, not a whole number"),
        ({"a": "2"}, "not a whole number"),
        ({"a": None}, "not a whole number"),
        ({"a": [1]}, "not a whole number"),
    ],
)
def test_what_is_no_bag_is_a_problem(tmp_path, value, part):
    good = '{"bag": ["a"]}\n'
    found = items_of(tmp_path / "in.jsonl", good + json.dumps({"bag": value}) + "\n" + good)
    assert found[0] == found[2] == ["a"]
    assert part in found[1]


def test_an_object_is_no_set(tmp_path):
    (problem,) = items_of(tmp_path / "in.jsonl", '{"bag": {"a": 1}}', kind=simdb.Set())
    assert problem == "the field 'bag' is an object, not a list; name one of its own: bag.a"


@pytest.mark.parametrize("kind", [simdb.Set(), simdb.Bag()])
def test_a_line_of_json_may_be_the_list_itself(tmp_path, kind):
    (first, second) = rows_of(tmp_path / "in.jsonl", '["a", "a"]\n\n[3]\n', kind=kind)
    assert (first.line, first.key, first.item, first.metadata) == (1, 1, ["a", "a"], None)
    assert (second.key, second.item) == (3, [3])
    (problem,) = items_of(tmp_path / "in.jsonl", '["a"]\n', kind=kind, id_field="id")
    assert problem == "the field 'id' is missing; the row has 'bag'"
    (text,) = items_of(tmp_path / "in.jsonl", '["a"]\n', kind=simdb.Text())
    assert text.startswith("not a JSON object, but an array")


def test_lines_baskets_and_fields_keep_repeats(tmp_path):
    assert items_of(tmp_path / "in.dat", "1 2 1\n\n3\n") == [[1, 2, 1], [3]]
    assert items_of(tmp_path / "in.basket", "tea, milk,tea\n") == [["tea", "milk", "tea"]]
    content = "id,bag,more\nx,1 1 2,2\n"
    options: dict[str, Any] = {"text_fields": ("bag", "more"), "id_field": "id"}
    assert items_of(tmp_path / "in.csv", content, **options) == [[1, 1, 2, 2]]


def test_a_folder_and_a_text_format_are_no_bags(tmp_path):
    with pytest.raises(ConfigurationError, match="of which none is a bag"):
        open_rows(str(tmp_path), ReadingOptions(kind=simdb.Bag()))
    with pytest.raises(ConfigurationError, match="the format of bags must be one of jsonl, "):
        ReadingOptions(kind=simdb.Bag(), format="text")


@pytest.mark.parametrize(
    ("pairs", "item"),
    [
        ([["x", 1], ["1", 2]], {"x": 1, "1": 2}),
        ([[1, 1], [2, 0]], {1: 1, 2: 0}),
        ([], []),
        ([["x", 1], ["x", 2]], "an element in the field 'bag' is there twice: add its counts up"),
        ([["x", None]], "the count of 'x' in the field 'bag' is None, not a whole number from 0"),
        ([[1, -1]], "the count of '1' in the field 'bag' is -1, not a whole number from 0"),
    ],
)
def test_maps_of_tables_are_counts_and_so_are_the_lines_that_they_become(tmp_path, pairs, item):
    element = type(pairs[0][0]) if pairs else str
    kinds = {str: pa.string(), int: pa.int64()}
    column = pa.array([list(map(tuple, pairs))], pa.map_(kinds[element], pa.int64()))
    pq.write_table(pa.table({"bag": column}), tmp_path / "in.parquet")
    options = ReadingOptions(kind=simdb.Bag(), text_fields=("bag",))
    with open_rows(str(tmp_path / "in.parquet"), options) as reader:
        (row,) = reader
        assert (row.problem or row.item) == item
        assert row.problem or reader.item_in(row.raw) == item
    assert items_of(tmp_path / "in.jsonl", row.raw.decode()) == [item]
