"""Tables that are drawn without rich look as rich's do."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simdb.cli import tables

CELLS = st.text(st.sampled_from("ab 1.ü…"), max_size=6).map(str.strip)


class Stream(io.StringIO):
    """Standard output, of a terminal or of a pipe."""

    encoding: Any = "utf-8"
    terminal = False

    def isatty(self) -> bool:
        return self.terminal


def by_rich(columns: list[str], rows: list[list[str]], width: int, *, terminal: bool) -> str:
    table = Table(show_header=bool(columns))
    for column in columns:
        right = column.endswith(" ")
        table.add_column(Text(column.strip()), justify="right" if right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=terminal, highlight=False).print(table)
    return out.getvalue()


@given(
    st.integers(1, 3).flatmap(
        lambda size: st.lists(st.lists(CELLS, min_size=size, max_size=size), min_size=1, max_size=3)
    ),
    st.booleans(),
)
def test_a_simple_table_is_drawn_as_rich_draws_it(rows, has_head):
    columns = [f"name{place}{' ' * (place % 2)}" for place in range(len(rows[0])) if has_head]
    assert tables.drawn(columns, rows, Stream()) == by_rich(columns, rows, 500, terminal=False)[:-1]


def test_the_head_is_bold_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Stream, "terminal", True)
    drawn = tables.drawn(["a "], [["12"]], Stream())
    assert drawn is not None
    told = by_rich(["a "], [["12"]], 80, terminal=True)
    assert drawn.replace("\x1b[1m", "").replace("\x1b[0m", "") in told.replace(
        "\x1b[1m", ""
    ).replace("\x1b[0m", "")
    assert drawn.splitlines()[1] == "┃\x1b[1m  a \x1b[0m┃"


@pytest.mark.parametrize("cell", ["a\nb", "日本", "e\u0301", "\x1b[1m", "x" * 498])
def test_what_is_not_simple_is_left_to_rich(cell):
    assert tables.drawn([], [[cell]], Stream()) is None


def test_odd_terminals_and_encodings_are_left_to_rich(monkeypatch):
    assert tables.drawn([], [], Stream()) is None
    monkeypatch.setattr(Stream, "encoding", "latin-1")
    assert tables.drawn([], [["a"]], Stream()) is None
    monkeypatch.setattr(Stream, "encoding", "utf-8")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert tables.drawn([], [["a"]], Stream()) is None
    monkeypatch.setattr(Stream, "terminal", True)
    monkeypatch.setenv("TERM", "dumb")
    assert tables.drawn([], [["a"]], Stream()) is None
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((4, 9)))
    assert tables.drawn([], [["a"]], Stream()) is None
