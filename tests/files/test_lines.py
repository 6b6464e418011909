"""Rows of JSON lines and CSV: compared with the json and csv modules, and hostile input."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from simdb.errors import BadItemError
from simdb.files.compression import InputStream
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import LONGEST_RECORD, ReadingOptions, Row
from simdb.files.separated import _AT_START, SeparatedReader, _place_after, iter_records

BY_ID = ReadingOptions(id_field="id")


def stream_of(content: bytes) -> InputStream:
    return InputStream("input", content)


def json_rows(
    content: bytes, options: ReadingOptions = BY_ID, *, longest: int = LONGEST_RECORD
) -> list[Row]:
    return list(JsonLinesReader(stream_of(content), replace(options, longest=longest)))


def csv_rows(
    content: bytes, options: ReadingOptions = BY_ID, *, longest: int = LONGEST_RECORD
) -> list[Row]:
    return list(SeparatedReader(stream_of(content), replace(options, longest=longest)))


# JSON lines


def test_a_json_row_carries_key_item_metadata_and_its_bytes():
    line = b'{"id": "a1", "text": "na\xc3\xafve \\u00e9", "url": "x", "n": [1, {"deep": null}]}\r\n'

    assert json_rows(line) == [
        Row(1, "a1", "naïve é", {"url": "x", "n": [1, {"deep": None}]}, line)
    ]


def test_without_an_id_field_the_line_number_is_the_key_and_blank_lines_count():
    rows = json_rows(b'{"text": "x"}\n\n  \n{"text": "y"}', ReadingOptions())

    assert [(row.line, row.key, row.metadata) for row in rows] == [(1, 1, None), (4, 4, None)]


def test_several_text_fields_are_joined_by_a_line_end_and_are_no_metadata():
    options = ReadingOptions(text_fields=("title", "body"), id_field="id")

    (row,) = json_rows(b'{"id": 7, "title": "T", "body": "B", "more": 1.5}', options)

    assert (row.key, row.item, row.metadata) == (7, "T\nB", {"more": 1.5})


def test_a_byte_order_mark_is_the_preamble_and_not_in_the_row():
    reader = JsonLinesReader(stream_of(b'\xef\xbb\xbf{"id": 1, "text": "x"}\n'), BY_ID)

    (row,) = reader

    assert (reader.preamble, row.raw) == (b"\xef\xbb\xbf", b'{"id": 1, "text": "x"}\n')


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"{", "not JSON"),
        (b'{"id": 1, "text": "x"} {"id": 2}', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"id": 1}', "'text' is missing"),
        (b'{"text": "x"}', "'id' is missing"),
        (b'{"id": 1, "text": null}', "'text' is null"),
        (b'{"id": 1, "text": 5}', "'text' is a number"),
        (b'{"id": 1, "text": ["x"]}', "'text' is a list"),
        (b'{"id": true, "text": "x"}', "'id' is true or false"),
        (b'{"id": 1.0, "text": "x"}', "'id' is a number with a fraction"),
        (b'{"id": null, "text": "x"}', "'id' is null"),
        (b'{"id": {}, "text": "x"}', "'id' is an object"),
        (b'{"id": 1, "text": NaN}', "NaN"),
        (b'{"id": 1, "text": "x", "n": -Infinity}', "-Infinity"),
        (b'{"id": 1, "text": "x", "n": 1e999}', "too large"),
        (b'{"id": 1, "text": "x", "n": ' + b"9" * 5000 + b"}", "of more than 4,300 digits"),
        (b'{"id": 1, "text": "\xff"}', "not UTF-8: byte 0xff at position 19"),
        (b'\xff\xfe{\x00"\x00', "UTF-16"),
        (b'{"id": 1, "text": "\\ud800"}', "surrogate"),
        (b'{"id": 1, "text": "x", "m": {"\\uDFFF": 1}}', "surrogate"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"\x00", "not JSON"),
    ],
)
def test_a_line_that_is_no_row_is_a_problem_with_its_line_number(line, part):
    good = b'{"id": 0, "text": "x"}\n'

    rows = json_rows(good + line + b"\n" + good)

    assert [(row.line, row.problem is None) for row in rows] == [(1, True), (2, False), (3, True)]
    assert part in (rows[1].problem or "")
    assert rows[1].raw == line + b"\n"


def test_a_row_that_is_nested_just_less_deeply_than_can_be_read_is_a_row_or_a_bad_one():
    escaped = b'{"id": 1, "text": "\\ud83d\\ude00", "n": %b}'
    deep = [escaped % (b"[" * depth + b"]" * depth) for depth in range(800, 1_000)]

    problems = {row.problem for row in json_rows(b"\n".join(deep))}

    assert None in problems
    assert problems <= {None, "nested too deeply"}  # how deep is too deep depends on the Python


def test_the_key_of_a_row_with_a_bad_text_is_still_told():
    (row,) = json_rows(b'{"id": "a", "text": 1}')

    assert row.key == "a"


def test_whole_pairs_of_surrogate_escapes_are_one_character():
    (row,) = json_rows(b'{"id": 1, "text": "\\ud83d\\ude00 \\u0000"}')

    assert row.item == "\U0001f600 \x00"


def test_integer_keys_read_canonical_text_only():
    options = ReadingOptions(id_field="id", integer_keys=True)
    content = b"".join(
        json.dumps({"id": key, "text": "x"}).encode() + b"\n"
        for key in ["7", 8, "-9", "0", "007", "+7", "7.0", " 7", "٣", "-0", "9" * 30, ""]
    )

    rows = json_rows(content, options)

    assert [row.key for row in rows[:4]] == [7, 8, -9, 0]
    assert all("whole number" in (row.problem or "") for row in rows[4:])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"id": st.text() | st.integers(), "text": st.text()}, optional={"more": json_values}
        )
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    escaped=st.booleans(),
    last_end=st.booleans(),
)
def test_json_rows_are_what_json_reads_and_their_bytes_are_the_file(rows, end, escaped, last_end):
    lines = [json.dumps(row, ensure_ascii=escaped) for row in rows]
    content = (end.join(lines) + (end if last_end and lines else "")).encode()

    read = json_rows(content)

    assert b"".join(row.raw for row in read) == content
    assert [row.problem for row in read] == [None] * len(rows)
    assert [(row.key, row.item) for row in read] == [(row["id"], row["text"]) for row in rows]
    assert [row.metadata for row in read] == [
        {"more": row["more"]} if "more" in row else None for row in rows
    ]


@given(content=st.binary(max_size=200))
def test_no_bytes_at_all_make_the_json_reader_raise(content):
    rows = json_rows(content)

    assert all(row.problem is not None for row in rows)


@given(text=st.text(st.sampled_from("ab\n"), max_size=30), longest=st.integers(1, 6))
def test_lines_are_whole_up_to_the_limit_and_nothing_is_lost(text, longest):
    content = text.encode()

    portions = list(stream_of(content).lines(longest))

    assert b"".join(portion for portion, _ in portions) == content
    whole, wanted = [], content.splitlines(keepends=True)
    for place, (portion, complete) in enumerate(portions):
        if complete and (place == 0 or portions[place - 1][1]):
            whole.append(portion)
    assert whole == [line for line in wanted if len(line.removesuffix(b"\n")) <= longest]


@pytest.mark.parametrize("rows_of", [json_rows, csv_rows])
@pytest.mark.parametrize("length", [99, 100, 101, 102, 5000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_record_longer_than_the_limit_is_a_problem_and_its_bytes_are_dropped(
    rows_of, length, end
):
    before, after = b'{"text": "a"}\n', b'{"text": "z"}\n'
    long = b'{"text": "' + b"x" * (length - 12) + b'"}'
    if rows_of is csv_rows:
        before, after, long = b"text\na\n", b"z\n", b"y" * length
    assert len(long) == length

    rows = rows_of(before + long + end + (after if end else b""), ReadingOptions(), longest=100)

    # The end of a line is not counted, but for the \r, which is white space to JSON.
    counted = length + len(end.removesuffix(b"\n"))
    if rows_of is csv_rows:
        counted = length + len(end)
    assert (rows[1].problem is not None) == (counted > 100)
    assert (rows[1].raw == b"") == (counted > 100)
    assert [row.item for row in rows if row is not rows[1]] == (["a", "z"] if end else ["a"])
    assert [row.line - rows[0].line for row in rows] == list(range(len(rows)))


# CSV


def test_a_csv_row_carries_its_first_line_and_all_of_its_bytes():
    content = b'id,text,url\r\na,"two\r\nlines, ""quoted""",u\r\n\r\nb,x"y,\r\n'
    reader = SeparatedReader(stream_of(content), BY_ID)

    rows = list(reader)

    assert reader.preamble == b"id,text,url\r\n"
    assert rows == [
        Row(2, "a", 'two\r\nlines, "quoted"', {"url": "u"},
            b'a,"two\r\nlines, ""quoted""",u\r\n'),
        Row(5, "b", 'x"y', {"url": ""}, b'b,x"y,\r\n'),
    ]  # fmt: skip
    assert reader.fields(rows[1].raw) == {"id": "b", "text": 'x"y', "url": ""}


def test_a_csv_header_may_follow_a_byte_order_mark_and_be_quoted():
    reader = SeparatedReader(
        stream_of(b'\xef\xbb\xbf"id","te""xt"\n1,x'), ReadingOptions(('te"xt',))
    )

    (row,) = reader

    assert reader.preamble == b'\xef\xbb\xbf"id","te""xt"\n'
    assert (row.item, row.metadata, row.raw) == ("x", {"id": "1"}, b"1,x")


def test_a_header_may_begin_with_a_mark_and_hold_the_end_of_a_line() -> None:
    reader = SeparatedReader(
        stream_of(b'\xef\xbb\xbf"id\nx",text\n1,"some\nwords"\n'),
        ReadingOptions(("text",), id_field="id\nx"),
    )
    assert [(row.key, row.item, row.line) for row in reader] == [("1", "some\nwords", 3)]


@pytest.mark.parametrize(
    ("record", "part"),
    [
        (b"a\n", "1 fields, but the header has 2"),
        (b"a,b,c\n", "3 fields"),
        (b"a,\xff\n", "not UTF-8"),
        (b'a,"\xff\n"\n', "not UTF-8"),
    ],
)
def test_a_bad_csv_record_is_a_problem_and_the_next_is_read(record, part):
    rows = csv_rows(b"id,text\n" + record + b"z,last\n")

    assert part in (rows[0].problem or "")
    assert rows[0].raw == record
    assert (rows[1].key, rows[1].item) == ("z", "last")
    assert rows[1].line == 2 + record.count(b"\n")


def test_a_quoted_field_that_never_ends_is_a_problem():
    rows = csv_rows(b'id,text\na,x\nb,"y\nc,z\n')

    assert [(row.line, row.problem) for row in rows] == [
        (2, None),
        (3, "the file ends inside a quoted field"),
    ]


def test_an_endless_quoted_field_is_dropped_while_its_end_is_still_found():
    rows = csv_rows(b'id,text\na,"' + b"y\n" * 100 + b'"" ,""\n"\nb,z\n', longest=50)

    assert [(row.line, row.key) for row in rows] == [(2, None), (104, "b")]
    assert rows[0].raw == b""


def test_a_line_longer_than_the_limit_inside_quotes_keeps_its_place():
    rows = csv_rows(b'id,text\na,"' + b'x""' * 500_000 + b'\n"\nb,z\n', longest=50)

    assert [(row.line, row.key) for row in rows] == [(2, None), (4, "b")]


def test_csv_fields_longer_than_the_limit_of_the_csv_module_are_read():
    (row,) = csv_rows(b"id,text\n1," + b"x" * 300_000)

    assert isinstance(row.item, str)
    assert len(row.item) == 300_000


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"id,other\n", "no field 'text'"),
        (b"id,text,text\n", "twice"),
        (b"id,\xff\n", "not UTF-8"),
        (b'id,"text\n', "ends inside a quoted field"),
    ],
)
def test_a_header_that_cannot_serve_ends_the_reading(header, part):
    with pytest.raises(BadItemError, match=part):
        csv_rows(header + b"1,x,y\n" if b'"' not in header else header)


@pytest.mark.parametrize("content", [b"", b"\n", b"id,text", b"id,text\n\n"])
def test_a_csv_file_without_records_has_no_rows(content):
    assert csv_rows(content) == []


csv_bytes = st.text(st.sampled_from('ab,"\n\r" é'), max_size=40)


@given(text=csv_bytes)
def test_csv_records_are_those_of_the_csv_module_and_their_bytes_are_the_file(text):
    records = list(iter_records(stream_of(text.encode())))

    assert b"".join(raw for _, raw, _ in records) == text.encode()
    split = [next(csv.reader(io.StringIO(raw.decode(), newline=""))) for _, raw, _ in records]
    assert split == list(csv.reader(io.StringIO(text, newline="")))
    starts = [0]
    for _, raw, _ in records:
        starts.append(starts[-1] + len(raw.splitlines()))
    assert [line for line, _, _ in records] == [start + 1 for start in starts[:-1]]


@given(text=csv_bytes)
def test_a_place_in_a_csv_record_is_the_same_however_it_was_read(text):
    content = text.encode()
    whole = _place_after(_AT_START, content)

    for cut in range(len(content)):
        assert _place_after(_place_after(_AT_START, content[:cut]), content[cut:]) == whole


@given(
    rows=st.lists(st.tuples(st.text(), st.text()), max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_csv_rows_are_what_was_written(rows, end):
    target = io.StringIO(newline="")
    csv.writer(target, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *rows])
    content = target.getvalue().encode("utf-8")

    read = csv_rows(content)

    assert [(row.key, row.item) for row in read if row.problem is None] == rows


@given(content=st.binary(max_size=100))
def test_no_bytes_at_all_make_the_csv_reader_raise_after_its_header(content):
    rows = csv_rows(b"id,text\n" + content)

    assert b"".join(row.raw for row in rows) == b"".join(
        raw for _, raw, _ in iter_records(stream_of(content)) if raw.strip(b"\r\n")
    )


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("chunk", [1, 2, 7, 2**20])
def test_lines_that_end_in_carriage_returns_alone_make_no_long_record(monkeypatch, end, chunk):
    monkeypatch.setattr("simdb.files.compression._CHUNK", chunk)
    rows = [
        f'{number},"{"x" * (number % 5)}{end if number % 7 == 0 else ""}"' for number in range(60)
    ]
    content = "".join(row + end for row in rows)
    records = list(iter_records(stream_of(content.encode()), longest=20))
    assert [raw.decode() for _, raw, _ in records] == [row + end for row in rows]
    assert {problem for *_, problem in records} == {None}
    lines = [1]
    for row in rows:
        lines.append(lines[-1] + 1 + row.count(end))
    assert [line for line, *_ in records] == lines[:-1]


@given(text=csv_bytes, longest=st.integers(1, 12), chunk=st.sampled_from([1, 2, 5, 2**20]))
def test_records_begin_where_they_do_however_long_they_may_be(text, longest, chunk):
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr("simdb.files.compression._CHUNK", chunk)
        content = text.encode()
        whole = list(iter_records(stream_of(content)))
        cut = list(iter_records(stream_of(content), longest=longest))
    assert [line for line, *_ in cut] == [line for line, *_ in whole]
    for (_, raw, problem), (_, expected, _) in zip(cut, whole, strict=True):
        assert problem is not None or raw == expected
        assert len(expected) <= longest or "longer" in (problem or "")
