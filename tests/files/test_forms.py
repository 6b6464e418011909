"""Delimiters and encodings of CSV, fields of nested objects, and keys that are made."""

from __future__ import annotations

import csv
import gzip
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.errors import BadItemError, ConfigurationError
from simdb.files import open_rows
from simdb.files.compression import InputStream
from simdb.files.rows import ReadingOptions, Row
from simdb.files.separated import iter_records
from simdb.kinds.ratings import Liked


def rows_of(path: Path, content: bytes, **options: Any) -> list[Row]:
    path.write_bytes(content)
    with open_rows(str(path), ReadingOptions(**options)) as reader:
        return list(reader)


def test_lines_may_be_texts_and_strings_as_they_stand(tmp_path):
    content = b'an  "old", tale\r\n\nb\n'
    for kind, name in ((simdb.Text(), "a.log"), (simdb.String(), "a.txt")):
        chosen = None if name.endswith("txt") else "lines"  # a file of .txt is one text
        rows = rows_of(tmp_path / name, content, kind=kind, format=chosen)
        assert [(row.key, row.item) for row in rows] == [(1, 'an  "old", tale'), (3, "b")]
        with pytest.raises(
            ConfigurationError, match="contain no keys: the line numbers are the keys"
        ):
            ReadingOptions(kind=kind, format="lines", id_field="1")


@pytest.mark.parametrize(
    ("name", "delimiter", "mark"),
    [("a.csv", ";", ";"), ("a.csv", "\t", "\t"), ("a.tsv", None, "\t"), ("a.tsv.gz", "|", "|")],
)
def test_a_delimiter_stands_between_the_fields(tmp_path, name, delimiter, mark):
    content = 'id,text,more\na,"x, ""y""\nz","1,2"\nb,plain,\n'
    table = list(csv.reader(io.StringIO(content, newline="")))
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    packed = written.getvalue().encode()
    if name.endswith(".gz"):
        packed = gzip.compress(packed)
    rows = rows_of(tmp_path / name, packed, id_field="id", delimiter=delimiter)
    found = [(row.line, row.key, row.item, row.metadata) for row in rows]
    assert found == [(2, "a", 'x, "y"\nz', {"more": "1,2"}), (4, "b", "plain", {"more": ""})]


@given(content=st.text(st.sampled_from('a;,"\n\r'), max_size=14).map(str.encode))
def test_records_by_another_delimiter_are_those_of_the_csv_module(content):
    records = [raw for _, raw, _ in iter_records(InputStream("input", content), delimiter=";")]
    assert b"".join(records) == content
    text = io.StringIO(content.decode(), newline="")
    expected = [row for row in csv.reader(text, delimiter=";") if row]
    found = [
        next(csv.reader(io.StringIO(raw.decode(), newline=""), delimiter=";")) for raw in records
    ]
    assert [row for row in found if row] == expected


@pytest.mark.parametrize("delimiter", ['"', "", ";;", "\n", "§"])
def test_what_cannot_be_a_delimiter_is_refused(delimiter):
    with pytest.raises(ConfigurationError, match="the delimiter must be one ASCII character"):
        ReadingOptions(delimiter=delimiter)


def test_an_encoding_says_what_bytes_mean_and_they_stay_as_they_are(tmp_path):
    content = "id;text\na;naïve café\nb;Ärger\n".encode("cp1252")
    rows = rows_of(tmp_path / "a.csv", content, id_field="id", delimiter=";", encoding="cp1252")
    assert [row.item for row in rows] == ["naïve café", "Ärger"]
    assert b"".join(row.raw for row in rows) == content.partition(b"\n")[2]
    refused = rows_of(tmp_path / "a.csv", content, id_field="id", delimiter=";")
    assert refused[0].problem == "not UTF-8: byte 0xef at position 4"
    wrong = rows_of(tmp_path / "b.jsonl", b'{"text": "\x81"}\n', encoding="cp1252")
    assert wrong[0].problem == "not CP1252: byte 0x81 at position 10"
    (whole,) = rows_of(tmp_path / "c.txt", "Ärger".encode("latin-1"), encoding="latin-1")
    assert whole.item == "Ärger"


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "iso2022_jp", "utf-7", "hex", "nil"])
def test_an_encoding_that_cannot_be_cut_at_line_ends_is_refused(encoding):
    with pytest.raises(ConfigurationError, match="extends ASCII with one byte for each character"):
        ReadingOptions(encoding=encoding)


NESTED = {
    "meta": {"id": 7, "text": "one", "url": "u"},
    "messages": [{"role": "user", "content": "two"}, {"role": "model", "content": "three"}],
    "a.b": "four",
}


def nested(tmp_path: Path, fields: dict[str, Any], *names: str, **options: Any) -> Row:
    content = json.dumps(fields).encode()
    (row,) = rows_of(tmp_path / "a.jsonl", content, text_fields=names, **options)
    return row


def test_a_field_may_be_one_of_a_nested_object(tmp_path):
    row = nested(tmp_path, NESTED, "meta.text", id_field="meta.id")
    assert (row.key, row.item) == (7, "one")
    others = {name: NESTED[name] for name in ("messages", "a.b")}
    assert row.metadata == {"meta": {"url": "u"}, **others}


def test_the_values_of_a_list_of_objects_are_joined(tmp_path):
    row = nested(tmp_path, NESTED, "messages.content", "a.b")
    assert row.item == "two\nthree\nfour"
    assert row.metadata == {
        "meta": NESTED["meta"],
        "messages": [{"role": "user"}, {"role": "model"}],
    }
    sets = {"parts": [{"set": [1, 2]}, {"set": [2, 3]}]}
    assert nested(tmp_path, sets, "parts.set", kind=simdb.Set()).item == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"meta": {"x": 1}}, "the field 'meta.text' is missing"),
        ({"meta": []}, "the field 'meta.text' is missing"),
        ({"meta": [{"text": "a"}, {}]}, "the field 'meta.text' is missing"),
        ({"meta": "text"}, "the field 'meta.text' is missing"),
        ({"meta": {"text": 1}}, "the field 'meta.text' is a number, not text"),
    ],
)
def test_a_nested_field_that_is_not_there_is_a_problem(tmp_path, fields, problem):
    assert nested(tmp_path, fields, "meta.text").problem == problem


def test_one_field_may_be_the_metadata(tmp_path):
    for metadata in ({}, {"a": 1}, None):
        row = nested(tmp_path, {"text": "x", "more": metadata}, "text", metadata_field="more")
        assert (row.item, row.metadata) == ("x", metadata)
    assert nested(tmp_path, {"text": "x"}, "text", metadata_field="more").metadata is None
    for fields, problem in (
        ({"more": [1]}, "the field 'more' is a list, not an object"),
        ({"more": {}, "other": 1}, "the field 'other' is neither the key, the item nor metadata"),
    ):
        row = nested(tmp_path, {"text": "x", **fields}, "text", metadata_field="more")
        assert row.problem == problem
    with pytest.raises(ConfigurationError, match="cannot be the metadata and the key or the item"):
        ReadingOptions(metadata_field="text")


def test_a_key_is_one_value(tmp_path):
    row = nested(tmp_path, {**NESTED, "text": "x"}, "text", id_field="messages.role")
    assert row.problem == "the field 'messages.role' has 2 values, but only one is expected"


def test_made_keys_are_of_the_content_or_of_the_place(tmp_path):
    content = b'{"text": "x"}\n{"text": "y"}\r\n{"text": "x"}'
    path = tmp_path / "a.jsonl"
    first, second, third = rows_of(path, content, made_keys="content", key_prefix="p-")
    assert first.key == third.key != second.key
    assert isinstance(first.key, str)
    assert len(first.key) == len("p-") + 32
    assert rows_of(path, b'\n{"text": "x"}\n', made_keys="content", key_prefix="p-")[0].key == (
        first.key
    )
    placed = rows_of(path, content, made_keys="place")
    assert [row.key for row in placed] == [f"{path}:{line}" for line in (1, 2, 3)]
    assert rows_of(tmp_path / "b.dat", b"1 2\n", made_keys="place", kind=simdb.Set())[0].key == (
        f"{tmp_path / 'b.dat'}:1"
    )
    with pytest.raises(ConfigurationError, match="either made or taken from a field"):
        ReadingOptions(made_keys="place", id_field="id")


def test_a_header_tells_what_it_has_by_its_delimiter(tmp_path):
    with pytest.raises(BadItemError, match="no field 'text'; it has 'id~text'"):
        rows_of(tmp_path / "a.csv", b"id~text\na~b\n")
    with pytest.raises(BadItemError, match="no field 'text'; it has 'id;text'"):
        rows_of(tmp_path / "a.csv", b"id;text\na;b\n", delimiter=",")
    split = r"it has 'id;text' \(split at ';' it has 'id', 'text'\)"
    with pytest.raises(BadItemError, match=split):
        rows_of(tmp_path / "a.csv", b"id;text\na;b\n", id_field="ID")


def test_empty_lines_before_a_header_are_in_no_output(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\ufeff\n\r\nid,text\n\na,b\n", newline="")
    with open_rows(str(path), ReadingOptions()) as reader:
        assert [row.raw for row in reader] == [b"a,b\n"]
        assert reader.preamble == b"id,text\n"


@pytest.mark.parametrize(
    ("header", "name", "told"),
    [
        ("id,text", "a.csv", None),
        ("id;text", "a.csv", "';' separates its fields"),
        ('"id"|"a, b"|text', "a.csv", "'|' separates its fields"),
        ("id\ttext", "a.csv", "a tab separates its fields"),
        ("id\ttext", "a.tsv", None),
        ("id,text", "a.tsv", "',' separates its fields"),
        ("text", "a.csv", None),  # alone, and so by any
    ],
)
def test_the_header_tells_the_delimiter_and_what_was_taken_is_said(tmp_path, header, name, told):
    path = tmp_path / name
    row = header.replace('"', "").replace("a, b", "x").replace("text", "words")
    path.write_text(f"\ufeff{header}\n{row}\n")
    with open_rows(str(path), ReadingOptions()) as reader:
        assert [row.item for row in reader] == ["words"]
        assert [note.removeprefix(f"{path}: ") for note in reader.notes] == (
            [f"{told}, by its header"] if told else []
        )


@pytest.mark.parametrize("mark", [";", "\t", "|", ",", ":"])
@pytest.mark.parametrize("delimiter", [None, "same"])
@pytest.mark.parametrize("named", ["sep=,", '"SEP=,"'])
def test_what_excel_adds_to_a_table_is_no_data(tmp_path, mark, delimiter, named):
    """A line that names the delimiter, and columns at the end without names and values."""
    header = f"\ufeff{named}\r\nid,text,,\r\n"
    rows = ["1,one,,\r\n", "2,two,\r\n", "sep=,\r\n", "3,three,,x\r\n"]
    content = "".join([header, *rows]).replace(",", mark)
    path = tmp_path / "a.csv"
    path.write_text(content, newline="")
    given = None if delimiter is None else mark
    options = ReadingOptions(id_field="id", delimiter=given, metadata=True)
    with open_rows(str(path), options) as reader:
        found = list(reader)
        assert reader.preamble.decode() == header.replace(",", mark)
        assert reader.notes == []
    assert [row.item for row in found] == ["one", "two", "", None]
    assert not found[0].metadata
    assert "a value in column 4, which the header does not name" in str(found[3].problem)


def test_ratings_may_have_columns_without_names(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("u,m,r,,\n1,a,5,,\n1,b,4,\n2,a,5,,x\n")
    options = ReadingOptions(
        kind=simdb.Set(),
        id_field="u",
        text_fields=("m",),
        rating_field="r",
        ratings=Liked(Fraction(3)),
    )
    with open_rows(str(path), options) as reader:
        bad, row = reader
        assert reader.unnamed == 2
        assert reader.fields(row.raw) == {
            "ratings": [{"u": "1", "m": "a", "r": "5"}, {"u": "1", "m": "b", "r": "4"}]
        }
    assert isinstance(row.item, list)
    assert sorted(row.item) == ["a", "b"]
    assert "a value in column 5" in str(bad.problem)


def test_one_column_without_a_name_is_a_field(tmp_path):
    for content in (b"id,text,\n1,one,x\n", b",id,text\nx,1,one\n"):
        (row,) = rows_of(tmp_path / "a.csv", content, id_field="id", metadata=True)
        assert row.metadata == {"": "x"}
    with pytest.raises(BadItemError, match="names the field '' twice"):
        rows_of(tmp_path / "a.csv", b",id,text,\nx,1,one,y\n")


@pytest.mark.parametrize("raw", [True, False])
def test_bytes_of_ratings_are_held_only_where_rows_need_them(tmp_path, raw):
    path = tmp_path / "ratings.csv"
    path.write_text("u,m,r\n1,a,5\n2,b,4\n1,c,4")
    fields: Any = {"id_field": "u", "text_fields": ("m",), "rating_field": "r"}
    options = ReadingOptions(kind=simdb.Set(), ratings=Liked(Fraction(3)), raw=raw, **fields)
    with open_rows(str(path), options) as reader:
        rows = [(row.line, row.key, row.item, row.raw) for row in reader]
    raws = [b"1,a,5\n1,c,4\n", b"2,b,4\n"] if raw else [b"", b""]
    assert rows == [(2, "1", ["a", "c"], raws[0]), (3, "2", ["b"], raws[1])]
