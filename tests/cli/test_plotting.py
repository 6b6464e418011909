"""Pictures of S-curves: what is marked, and the files."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from simdb.cli.plan import curve_of, draw_curve
from simdb.errors import MissingExtraError, UsageError
from simdb.lsh.amplification import And, Or, fixed_point, steepest
from simdb.lsh.curves import line_probability

BANDING = Or(16, And(6))


def test_a_curve_over_the_similarity_has_its_marks():
    curve = curve_of(BANDING, bound=0.8)
    assert curve.points[0].tolist() == [0, 0]
    assert curve.points[-1].tolist() == [1, 1]
    assert curve.points[250] == pytest.approx([0.5, 1 - (1 - 0.5**6) ** 16])
    point, slope = steepest(BANDING)
    assert (curve.bound, curve.slope) == (0.8, slope)
    assert curve.fixed_point == pytest.approx(fixed_point(BANDING))
    assert curve.steepest == pytest.approx(point)


def test_a_curve_over_a_distance_falls_and_has_its_marks_where_the_probability_is_theirs():
    curve = curve_of(BANDING, 20, lambda distance: line_probability(distance, 4))
    assert (np.diff(curve.points[:, 1]) <= 0).all()
    assert curve.bound is None
    assert curve.fixed_point is not None
    assert curve.steepest is not None
    assert line_probability(curve.fixed_point, 4) == pytest.approx(fixed_point(BANDING), abs=1e-4)
    assert line_probability(curve.steepest, 4) == pytest.approx(steepest(BANDING)[0], abs=1e-4)


def test_what_does_not_lie_on_the_axis_is_not_marked():
    assert curve_of(Or(3)).fixed_point is None
    narrow = curve_of(BANDING, 0.3)
    assert (narrow.fixed_point, narrow.steepest) == (None, None)


@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG")])
def test_a_curve_is_drawn_into_a_file(tmp_path, name, begins):
    pytest.importorskip("matplotlib")
    curve = curve_of(BANDING, bound=0.8)
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        draw_curve(folder / name, curve, title="16 bands of 6 rows")
    drawn = (tmp_path / "one" / name).read_bytes()
    assert drawn.startswith(begins)
    assert drawn == (tmp_path / "other" / name).read_bytes()
    if name.endswith(".svg"):
        texts = ("similarity", "16 bands of 6 rows", "threshold 0.8", "fixed point 0.6", "steepest")
        assert all(text.encode() in drawn for text in texts)


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"drawn as \.svg or \.png, not as 'a\.pdf'"):
        draw_curve(tmp_path / "a.pdf", curve_of(BANDING))
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "simdb-store\[plot\]"'):
        draw_curve(tmp_path / "a.svg", curve_of(BANDING))
