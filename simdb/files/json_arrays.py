"""JSON as files called ``.json`` have it: one array, or objects, over any number of lines."""

from __future__ import annotations

import io
import re
from typing import Any

from simdb.errors import Remedy, UsageError
from simdb.files.compression import InputStream
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import BYTE_ORDER_MARK, ReadingOptions

_AT_ONCE = 2**18
_SPACE = re.compile(rb"[ \t\r\n]*+")
_TEXT = re.compile(rb'[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+')  # up to its quote
# Within an element: up to a bracket, or a text whose end is not there.
_PLAIN = re.compile(rb'(?:[^][{}"]++|"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+")*+')
_LINE_END = re.compile(rb"[\r\n][ \t\r\n]*+")
_SCALAR = re.compile(rb'[^][{}", \t\r\n]++')
# No line of JSON lines is a bracket alone, and none an array of objects, after which nothing comes.
_OF_SEVERAL_LINES = re.compile(
    rb"[ \t\r\n]*+(?:[{\[][ \t\r]*+\n|\[[ \t]*+\{[^\n]*+\n?+[ \t\r\n]*+\Z)"
)
_BEGINNING = re.compile(rb"[ \t\r\n]*+(?:(?P<first>\[)|\{[ \t\r]*+\n)")
# What has come when these can tell: of an array that may be a line the whole line, and of one of
# objects whether anything comes after it.
_FIRST = rb"(?:\xef\xbb\xbf)?+[ \t\r\n]*+(?:\[%b|\{[ \t\r]*+[^ \t\r]|[^ \t\r\n[{\xef])"
_WHOLE = rb"(?:(?![ \t]*+\{)[^\n]*+\n|[^\n]*+\n[ \t\r\n]*+[^ \t\r\n])"
_BEGUN, _BEGUN_LINE = (re.compile(_FIRST % rest) for rest in (b"", _WHOLE))


def _end(pattern: re.Pattern[bytes], data: bytes, begin: int) -> int:
    """Return where what matches from a place on ends, that place where nothing does."""
    found = pattern.match(data, begin)
    return begin if found is None else found.end()


def lines_reader(stream: InputStream, options: ReadingOptions) -> JsonLinesReader:
    """Return a reader of JSON lines; UsageError where the content is no line of it."""
    if _OF_SEVERAL_LINES.match(stream.peek(_BEGUN_LINE).removeprefix(BYTE_ORDER_MARK)):
        raise UsageError(
            f"{stream.name}: the content is one JSON array or JSON over several lines",
            remedies=[Remedy("format", "json", "reads it")],
        )
    return JsonLinesReader(stream, options)


class JsonReader(JsonLinesReader):
    """Rows of JSON: the elements of one array, objects of several lines each, or JSON lines.

    The first characters tell which. In all but lines what is said of a line is said of an element
    or object: its place, from 1, is its number, and its bytes are put on one line. What is cut
    short, or followed by something, or has an empty element or a line end within a text, is no
    input at all.
    """

    def __init__(self, stream: InputStream, options: ReadingOptions) -> None:
        super().__init__(stream, options)
        peeked = stream.peek(_BEGUN)
        found = _BEGINNING.match(peeked.removeprefix(BYTE_ORDER_MARK))
        self.is_array = found is not None and found["first"] == b"["
        self._is_of_lines = found is None
        if found is not None:
            if peeked.startswith(BYTE_ORDER_MARK):
                stream.read(len(BYTE_ORDER_MARK))
            stream.change(_Lines)

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return super().place(line) if self._is_of_lines else f"{self.source}, row {line}"


class _Lines(io.RawIOBase):
    """The elements of an array, or objects one after another, each on a line of its own.

    No more of one than a piece is in memory. Brackets are counted, and what they hold is not looked
    at: who reads a line tells whether that is JSON. Line ends, none of which may be within a text,
    become blanks.

    Args:
        stored: the bytes.
        name: of the input, for messages.
    """

    def __init__(self, stored: Any, name: str) -> None:
        self._stored = stored
        self._name = name
        self._is_array = False
        self._depth = 0  # of brackets that are open: 1 between elements, also without an array
        self._number = 1  # of the element
        self._has_content = False  # the element, so far
        self._in_text = False
        self._is_closed = False
        self._given = b""  # and not looked at yet
        self._made = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._made:
            given = self._stored.read(_AT_ONCE)
            self._made = memoryview(self._lines(given) if given else self._last())
            if not given:
                break
        size = min(len(buffer), len(self._made))
        buffer[:size], self._made = self._made[:size], self._made[size:]
        return size

    def _lines(self, given: bytes) -> bytes:
        """Return what more bytes add to the lines."""
        data = self._given + given
        made: list[bytes] = []
        begin, end = -1, 0
        while begin < end < len(data):
            begin = end
            if self._in_text:
                end = self._text(data, begin, made)
            elif self._depth > 1:
                end = self._inside(data, begin, made)
            else:
                end = self._between(data, begin, made)
        self._given = data[end:]
        return b"".join(made)

    def _text(self, data: bytes, begin: int, made: list[bytes]) -> int:
        """Take the rest of a text, as far as it is there."""
        end = _end(_TEXT, data, begin)
        if data.startswith(b'"', end):
            self._in_text = False
            end += 1
        elif data[end:] not in (b"", b"\\"):
            raise self._broken("has a line end within a text")
        made.append(data[begin:end])
        return end

    def _inside(self, data: bytes, begin: int, made: list[bytes]) -> int:
        """Take a part of an element that has brackets of its own."""
        end = _end(_PLAIN, data, begin)
        part, what = data[begin:end], data[end : end + 1]
        if b"\n" in part or b"\r" in part:
            part = _LINE_END.sub(b" ", part)
        made += part, what
        if what == b'"':
            self._in_text = True
        elif what:
            self._depth += 1 if what in b"{[" else -1
            if self._depth == 1 and not self._is_array:
                self._end_element(made)
        return end + len(what)

    def _between(self, data: bytes, begin: int, made: list[bytes]) -> int:
        """Take what stands between elements, or an element without brackets, or the first one."""
        end = _end(_SPACE, data, begin)
        what = data[end : end + 1]
        if not what:
            return max(begin, end - 1)  # a blank is left, to tell what follows from what was before
        if self._is_closed:
            raise UsageError(
                f"{self._name}: something follows the end of the array",
                remedies=[Remedy("format", "jsonl", "reads lines, of which each is a row")],
            )
        if not self._depth:
            self._depth, self._is_array = 1, what == b"["
            if self._is_array:
                return end + 1
        if self._is_array and what in b",]":
            self._is_closed = what == b"]"
            if not self._has_content and (self._number > 1 or not self._is_closed):
                raise self._broken("is empty")
            self._end_element(made)
            return end + 1
        if what == b"{" and not self._is_array:
            self._end_element(made)
        elif end > begin and self._has_content:
            made.append(b" ")  # as between two numbers, which are not one
        self._has_content = True
        self._in_text = what == b'"'
        self._depth += what in b"{["
        after = max(_end(_SCALAR, data, end), end + 1)
        made.append(data[end:after])
        return after

    def _end_element(self, made: list[bytes]) -> None:
        if self._has_content:
            made.append(b"\n")
            self._has_content = False
            self._number += 1

    def _last(self) -> bytes:
        """Return what the end adds to the lines."""
        if not self._is_closed if self._is_array else self._depth > 1 or self._in_text:
            raise UsageError(f"{self._name}: cut short in row {self._number:,}")
        made: list[bytes] = []
        self._end_element(made)
        return b"".join(made)

    def _broken(self, problem: str) -> UsageError:
        return UsageError(f"{self._name}, row {self._number:,}: the element {problem}")
