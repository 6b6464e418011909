"""The help in the guide to the command line is that of the commands."""

from __future__ import annotations

import pytest

from tools.make_help import GUIDE, MARK, page, whole_help


def test_the_help_in_the_guide_is_that_of_the_commands():
    _, _, written = GUIDE.read_text(encoding="utf-8").partition(MARK)
    assert written == whole_help(), "run: .venv/bin/python -m tools.make_help"


@pytest.mark.parametrize(
    ("command", "extras"),
    [
        ("dedupe", ("report", "statistics")),
        ("link", ("arrow", "statistics")),
        *((name, ("arrow",)) for name in ("search", "pairs", "score", "export", "dump", "load")),
        *((name, ("arrow", "statistics")) for name in ("join", "groups")),
        *((name, ("statistics",)) for name in ("audit", "calibrate", "label")),
        ("learn", ("plot", "statistics")),
        ("tune", ("report", "statistics")),
        ("plan", ("plot",)),
        ("report", ("report",)),
        ("serve", ("serve",)),
        ("spark", ("spark",)),
    ],
    ids=str,
)
def test_the_help_of_a_command_names_the_extras_of_its_steps(command, extras):
    told = " ".join(" ".join(page(command)).split())
    assert [extra for extra in extras if f"extra '{extra}'" not in told] == []
