"""The help in the guide to the command line is that of the commands."""

from __future__ import annotations

from tools.make_help import GUIDE, MARK, whole_help


def test_the_help_in_the_guide_is_that_of_the_commands():
    _, _, written = GUIDE.read_text(encoding="utf-8").partition(MARK)
    assert written == whole_help(), "run: .venv/bin/python -m tools.make_help"
