"""How many modules an ordinary call passes through, counted: ``docs/design.md`` draws the walks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import simdb
from simdb.kernels.compiler import Kernel

PACKAGE = Path(simdb.__file__).resolve().parent
DESIGN = PACKAGE.parent / "docs" / "design.md"
CAPS = {"search": 21, "pairs": 23}
WORDS = [f"word{number % 7}{number}" for number in range(40)]
TEXTS = [" ".join(WORDS[start : start + 12]) for start in range(20)] * 2
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "texts": (simdb.Text(), TEXTS),
    "sets": (simdb.Set(), [text.split() for text in TEXTS]),
}


def walk(call: Callable[[], Any]) -> list[str]:
    """The modules of simdb whose functions are entered, in the order of their first entry."""
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        called = frame.f_locals.get("self")
        code = frame.f_code
        if isinstance(called, Kernel):  # which runs outside of Python
            code = called.py_func.__code__
        name = code.co_filename
        if event == "call" and name.startswith(f"{PACKAGE}/"):
            entered[name[len(f"{PACKAGE}/") :]] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered)


@pytest.fixture(params=KINDS)
def walks(request, tmp_path):
    """The walks of a search, of exact pairs and of adding, each of which was made before."""
    kind, items = KINDS[request.param]
    rows = iter(enumerate(items * 9))
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, seed=1)  # other buckets, other walks

        def add(count: int = 20) -> None:
            collection.add_many([next(rows) for _ in range(count)])

        calls: dict[str, Callable[[], Any]] = {
            "add_many": add,
            "search": lambda: collection.search(items[0]),
            "pairs": lambda: list(collection.pairs(guarantee="exact")),
        }
        for call in calls.values():
            call()
            call()
        add(1)  # of what was asked of one state before some is kept: pairs are asked first
        calls["search"]()
        return {name: walk(call) for name, call in reversed(calls.items())}


def test_a_call_passes_through_few_modules(walks):
    for name, modules in walks.items():
        sys.stdout.write("\n  ".join([f"\n{name}: {len(modules)}", *modules]))  # shown by -s
    for name, most in CAPS.items():
        assert len(walks[name]) <= most, walks[name]


def drawn(call: str) -> set[str]:
    """The modules that the document draws in the walk of a call."""
    (section,) = re.findall(
        rf"^#### The walk of `{call}`\n(.*?)(?=^##)", DESIGN.read_text("utf-8"), re.M | re.S
    )
    return set(re.findall(r"\b[a-z_/]+\.py", section))


@pytest.mark.parametrize("walks", ["texts"], indirect=True)
def test_the_walks_are_drawn_as_they_are(walks):
    for call, modules in walks.items():
        assert drawn(call) == set(modules), call
