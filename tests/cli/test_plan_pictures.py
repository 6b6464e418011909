"""The picture of a plan, in the terms of its kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.kind_cases import ALL

MARK = re.compile(rb">((?:threshold|largest distance|fixed point|steepest)[^<]*)<")


def marks(file: Path, *options: str) -> list[str]:
    """Return the marks of the picture that ``simdb plan`` draws."""
    result = run("plan", *options, "--points", "2", "--plot", str(file))
    assert result.exit_code == 0, result.stderr
    return [mark.decode().split()[0] for mark in MARK.findall(file.read_bytes())]


@pytest.mark.parametrize(
    "options",
    [
        ("--kind", "text", "--threshold", "0.8"),
        ("--kind", "bits:64:tanimoto", "--threshold", "0.7"),
    ],
    ids=lambda options: options[1],
)
def test_a_similarity_is_marked_by_its_threshold(options, tmp_path):
    pytest.importorskip("matplotlib")
    assert marks(tmp_path / "plan.svg", *options) == ["threshold", "fixed", "steepest"]


@pytest.mark.parametrize("kind", ["bits:64", "vector:10:euclidean"])
def test_a_distance_is_marked_by_the_largest(kind, tmp_path):
    pytest.importorskip("matplotlib")
    options = ("--kind", kind, "--max-distance", "5", "--recall", "0.99")
    found = marks(tmp_path / "plan.svg", *options)
    assert found == ["largest", "fixed", "steepest"]


def test_the_same_plan_is_drawn_as_png(tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "plan.png"
    marks(file, "--kind", "vector:10", "--max-distance", "20")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_what_has_no_curve_is_refused(tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "curve.svg"
    assert run("plan", *ALL["fingerprint:160:160"].new, "--plot", target).exit_code == 2
    assert run("plan", "--exact", "--plot", target).exit_code == 2
    assert run("plan", "--plot", tmp_path / "curve.pdf").exit_code == 2
    assert run("plan", "--kind", "vector:3", "--exact").exit_code == 2
    assert run("plan", "--kind", "vector:3").exit_code == 2
