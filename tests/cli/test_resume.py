"""An answer in pairs that ends early says how to go on, and goes on there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.cli import pairs
from simdb.cli.output import print_json_line
from simdb.errors import CorruptionError
from simdb.exact import joins
from tests.support.commands import lines_of, run

ROWS = [(key, list(range(key % 7, 30 + key % 5))) for key in range(40)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(joins, "RANGE_WEIGHT", 8)
    monkeypatch.setattr(joins, "CHUNK", 16)
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5).add_many(ROWS)
    return path


def printing_fails_after(
    lines: int, error: type[BaseException]
) -> Callable[[dict[str, Any]], None]:
    printed = count()

    def print_or_fail(fields: dict[str, Any]) -> None:
        if next(printed) == lines:
            raise error("no more")
        print_json_line(fields)

    return print_or_fail


@pytest.mark.parametrize(
    ("command", "error"),
    [(("pairs", "c", "--exact"), KeyboardInterrupt), (("join", "c", "c"), CorruptionError)],
)
def test_pairs_that_were_left_off_go_on_with_the_token_that_was_printed(
    command: tuple[str, ...], error: type[BaseException], store: Path, monkeypatch: Any
) -> None:
    name, *rest = command
    arguments = (name, store, *rest, "--threshold", 0.7, "--json")
    whole = [json.dumps(row) for row in lines_of(*arguments)]
    for lines in (0, 5, 100, len(whole) - 1):
        with monkeypatch.context() as patched:
            patched.setattr(pairs, "print_json_line", printing_fails_after(lines, error))
            ended = run(*arguments)
        assert ended.exit_code == (130 if error is KeyboardInterrupt else 3)
        printed = ended.stdout.splitlines()
        assert len(printed) == lines
        token = re.search(r"continue with --resume (\S+?)[;\s]", ended.stderr)
        if token is None:
            assert lines < 20
            continue
        again = re.search(r"the last (\d+) printed pairs? (?:is|are) repeated", ended.stderr)
        first = lines - (int(again.group(1)) if again else 0)
        left = [json.dumps(row) for row in lines_of(*arguments, "--resume", token.group(1))]
        assert printed[:first] + left == whole


def test_a_token_of_something_else_is_refused(store: Path) -> None:
    for token in ("nonsense", "mx:7/10:1:1:0:1"):
        refused = run("pairs", store, "c", "--exact", "--threshold", 0.7, "--resume", token)
        assert refused.exit_code == 2
        assert "resume token" in refused.stderr


def test_pairs_since_an_item_number_are_those_that_came_later(store: Path) -> None:
    rows = lines_of("pairs", store, "c", "--threshold", 0.9, "--since", 30)
    every = lines_of("pairs", store, "c", "--threshold", 0.9)
    for row in rows:
        assert row.pop("sides") == ("new-new" if row["left"] >= 30 else "old-new")
    assert sorted(map(str, rows)) == sorted(str(row) for row in every if row["right"] >= 30)
    assert 0 < len(rows) < len(every)


def test_nothing_is_to_be_continued_with_what_is_no_token(store: Path) -> None:
    refused = run("pairs", store, "c", "--exact", "--threshold", 0.7, "--resume", "nonsense")
    assert refused.stderr == "simdb: 'nonsense' is not a resume token\n"
