"""Lines of JSON read in columns: what comes is what comes line by line, to the byte."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import simdb
from simdb.errors import BadItemError
from simdb.files import jsonl
from simdb.files.compression import InputStream
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import ColumnRows, ReadingOptions, Row

AT_ONCE = (24, 200)  # bytes of lines read together: most blocks have a few lines
BY_ID = ReadingOptions(id_field="id")
BAD = [
    b"",
    b"  \t",
    b"\r",
    b"no JSON",
    b"[]",
    b'["a"]',
    b"7",
    b'{"id": "a"}',
    b'{"text": "a"}',
    b'{"id": "a", "text": 7}',
    b'{"id": 1.5, "text": "x"}',
    b'{"id": true, "text": "x"}',
    b'{"id": null, "text": "x"}',
    b'{"id": "a", "text": "x", "n": NaN}',
    b'{"id": "a", "text": "x", "n": -Infinity}',
    b'{"id": "a", "text": "x", "n": 1e999}',
    b'{"id": "a", "text": "\\ud800"}',
    b'{"id": "a", "text": "x", "n": "\\udc00 \\ud800"}',
    b'{"id": "a", "text": "\xff"}',
    b'{"id": "a", "text": "x\x01"}',
    b'{"id": "a", "text": "x"} {"id": "b", "text": "y"}',
    b'{"id": "a", "text": "x",}',
    b'{"id": "a",',
    b'"text": "x"}',
    b'{"id": 01, "text": "x"}',
    b'{"id": "a", "text": "x", "n": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    b'{"id": "a", "text": "x", "n": ' + b"9" * 5_000 + b"}",
]
GOOD = [
    b'{"id": "a", "text": "x"}',
    b' {"id": "b", "text": "y", "n": 1, "m": {"o": [1, null, -0.0, 1e5]}} \r',
    b'{"id": 7, "text": "\\ud83d\\ude00 \\u00e9"}',
    b'{"id": "c", "text": "' + "Ünïcode 漢字 😀".encode() + b'", "by": ""}',
    b'{"id": "a", "text": "x", "id": "twice", "text": "again"}',
    b'{"id": "d", "text": "", "n": 123456789012345678901234567890}',
    b'{"id": -9223372036854775808, "text": "x", "n": 0.1, "o": 1e-400}',
    b'{"id": "12", "text": "' + b"long " * 30 + b'"}',
]
some_lines = st.lists(st.sampled_from(GOOD + BAD) | st.sampled_from(GOOD), max_size=12)
options = st.sampled_from(
    [
        BY_ID,
        ReadingOptions(),
        ReadingOptions(id_field="id", integer_keys=True),
        ReadingOptions(made_keys="content", key_prefix="p"),
        ReadingOptions(made_keys="place"),
        ReadingOptions(id_field="id", text_fields=("m.o",)),
        ReadingOptions(id_field="id", metadata=False),
    ]
)


def in_columns(content: bytes, given: ReadingOptions) -> tuple[list[Row], bytes, int]:
    """The rows that blocks have, the preamble, and how many rows came as columns."""
    reader = JsonLinesReader(InputStream("input", content), given)
    rows, taken = [], 0
    for block in reader.blocks(0):
        found = list(block.rows()) if isinstance(block, ColumnRows) else list(block)
        rows += found
        if not isinstance(block, ColumnRows):
            continue
        taken += len(found)
        middle = len(found) // 2
        halves = [block.cut(0, middle), block.cut(middle, len(found))]
        assert [key for half in halves for key in half.keys] == [row.key for row in found]
        assert [line for half in halves for line in half.lines] == [row.line for row in found]
        assert [raw for half in halves for raw in half.raws] == [row.raw for row in found]
        assert all(halves[0].is_like(half) for half in halves)
        column = halves[0].item_column(halves[1:])
        assert column is not None
        bounds, text = column.offsets.tolist(), column.values.tobytes()
        items = [text[begin:end] for begin, end in pairwise(bounds)]
        assert [item.decode() for item in items] == [row.item for row in found]
        metadata = block.metadata_of_rows() or [None] * len(found)
        assert metadata == [row.metadata if given.metadata else None for row in found]
    return rows, reader.preamble, taken


def one_by_one(content: bytes, given: ReadingOptions) -> tuple[list[Row], bytes]:
    reader = JsonLinesReader(InputStream("input", content), given)
    return list(reader), reader.preamble


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(jsonl, "_LEAST_AT_ONCE", AT_ONCE[0])
    monkeypatch.setattr(jsonl, "_MOST_AT_ONCE", AT_ONCE[1])


@given(some_lines, options, st.booleans(), st.booleans())
def test_rows_in_columns_are_those_line_by_line(lines, given_options, marked, ended):
    content = b"\xef\xbb\xbf" * marked + b"\n".join(lines) + b"\n" * ended
    rows, preamble, _ = in_columns(content, given_options)
    expected, before = one_by_one(content, given_options)
    assert list(map(shown, rows)) == list(map(shown, expected))
    assert preamble == before


def shown(row: Row) -> str:
    """A row as text, in which -0.0 is not 0, nor True 1."""
    return repr(row)


@pytest.mark.parametrize("line", GOOD, ids=range(len(GOOD)))
def test_plain_lines_are_read_in_columns(line):
    content = b"\n".join([line, b"", line])
    rows, _, taken = in_columns(content, BY_ID)
    assert taken == len(rows) == 2


@pytest.mark.parametrize("length", [198, 199, 200, 201, 202, 5_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_longer_than_the_limit_is_a_problem_wherever_it_stands(length, end):
    given = replace(ReadingOptions(), longest=AT_ONCE[1])
    long = b'{"text": "' + b"x" * (length - 12) + b'"}'
    for before in (b"", b'{"text": "a"}\n', b'{"text": "a"}\n' * 9):
        content = before + long + end + b'{"text": "z"}\n' * bool(end)
        assert in_columns(content, given)[:2] == one_by_one(content, given)


def test_what_is_no_text_is_read_line_by_line():
    content = b'{"set": [1, 2]}\n{"set": ["a"]}\n'
    for way in (
        ReadingOptions(text_fields=("set",), kind=simdb.Set()),
        ReadingOptions(text_fields=("set", "other")),
        ReadingOptions(encoding="latin-1"),
        ReadingOptions(metadata_field="more"),
    ):
        reader = JsonLinesReader(InputStream("input", content), way)
        assert not any(isinstance(block, ColumnRows) for block in reader.blocks(0))


def test_a_compressed_input_that_is_cut_is_an_error_in_columns_too(tmp_path):
    import gzip

    path = tmp_path / "in.jsonl.gz"
    rows = b"".join(json.dumps({"text": f"text {n}"}).encode() + b"\n" for n in range(9_000))
    path.write_bytes(gzip.compress(rows)[:-20])
    reader = JsonLinesReader(InputStream(str(path)), ReadingOptions())
    with reader, pytest.raises((simdb.UsageError, BadItemError), match="damaged or cut short"):
        list(reader.blocks(0))
