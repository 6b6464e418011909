"""What the beginning of an input tells: its delimiter, its form, however few bytes come at once."""

import io
from typing import Any

import pytest

from simdb.errors import BadItemError, UsageError
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions


class _Parts(io.RawIOBase):
    """Bytes as a pipe gives them, of which ``given`` counts the parts."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._parts[self.given] if self.given < len(self._parts) else b""
        self.given += bool(part)
        buffer[: len(part)] = part
        return len(part)


@pytest.fixture
def piped(monkeypatch):
    def to_standard_input(*parts: bytes) -> _Parts:
        pipe = _Parts(list(parts))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(pipe)))
        return pipe

    return to_standard_input


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", b"te|xt;id\n|a b c;1\n"),
        ("csv", b"\xef|\xbb\xbf\r|\n|te|xt;id\r|\n|a b c;1\n"),
        ("csv", b'"a|\nb"|;text;id\n|x;a b c;1'),
        ("csv", b"sep|=;|\r\n|text;id\na b c;1\n"),
        ("json", b'|\n|[|{"text": "a b c", "id": "1"}|]'),
        ("json", b'\xef|\xbb\xbf{| |\n|"text": "a b c", "id": "1"}'),
        ("json", b'{|"text": "a b c", "id": "1"}\n'),
    ],
)
def test_what_the_beginning_tells_does_not_depend_on_how_it_comes(piped, form, content):
    options = ReadingOptions(format=form, id_field="id")
    for parts in (content.split(b"|"), [bytes([one]) for one in content if one != ord("|")]):
        piped(*filter(None, parts))
        with open_rows("-", options) as reader:
            assert [(row.key, row.item, row.problem) for row in reader] == [("1", "a b c", None)]


@pytest.mark.parametrize("content", [b'{|\n"text": "a b"}\n', b' |[|{"text": "a b"}|]'])
def test_json_over_several_lines_is_told_however_it_comes(piped, content):
    piped(*content.split(b"|"))
    with pytest.raises(UsageError, match="JSON over several lines"):
        open_rows("-", ReadingOptions())


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("csv", [b"te", b"xt\n", b"a b c\n", b"d e f\n", b"g\n"]),
        ("csv", [b'size 5",text\n', b"1,a b c\n", b"2,d e f\n", b"3,g\n"]),
        ("json", [b"{", b'"text": "a b c"}\n', b'{"text": "d e f"}\n', b'{"text": "g"}\n']),
        ("jsonl", [b"{", b'"text": "a b c"}\n', b'{"text": "d e f"}\n', b'{"text": "g"}\n']),
    ],
)
def test_rows_are_given_as_they_come(piped, form, parts):
    pipe = piped(*parts)
    with open_rows("-", ReadingOptions(format=form)) as reader:
        assert next(iter(reader)).item == "a b c"
        assert pipe.given < len(parts)


def test_a_wide_header_tells_the_delimiter_and_a_message_names_a_few_of_it(tmp_path):
    names = [f"column_{number:04}" for number in range(800)]
    path = tmp_path / "wide.csv"
    path.write_text(";".join([*names, "text"]) + "\n" + ";" * 800 + "hello world\n")
    with open_rows(str(path), ReadingOptions()) as reader:
        assert [row.item for row in reader] == ["hello world"]
    told = r"it has 'column_0000', .*'column_0019', \.\.\.$"
    other = ReadingOptions(delimiter=";", text_fields=("body",))
    with open_rows(str(path), other) as reader, pytest.raises(BadItemError, match=told):
        list(reader)


def test_a_header_longer_than_any_field_may_be_tells_its_delimiter(tmp_path):
    wide = b";".join([b"text", *(b"column_%06d" % number for number in range(10_000))])
    (tmp_path / "wide.csv").write_bytes(wide + b"\na b" + b";" * 10_000)
    with open_rows(str(tmp_path / "wide.csv"), ReadingOptions()) as reader:
        assert next(iter(reader)).item == "a b"


@pytest.mark.parametrize("parts", [1, 2, 50])
def test_lines_of_arrays_are_no_one_array_however_they_come(piped, parts):
    content = b'[{"text": "a b"}]\n[{"text": "c d"}]\n'
    size = -(-len(content) // parts)
    piped(*(content[begin : begin + size] for begin in range(0, len(content), size)))
    with open_rows("-", ReadingOptions(format="jsonl")) as reader:
        assert [row.item for row in reader] == [None, None]
