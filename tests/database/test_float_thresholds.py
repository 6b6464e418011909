"""Thresholds met by floats, and largest distances, against their definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.exact.thresholds import MaximumDistance, Threshold


def test_floats_meet_a_threshold_in_doubles():
    """Cosines and the like are no fractions: they are compared as they are."""
    threshold = Threshold.parse(0.75)
    met = threshold.meets_many(np.array([3.0, 2.9, 0.0, 0.75]), np.array([4.0, 4.0, 0.0, 1.0]))
    assert met.tolist() == [True, False, False, True]
    assert met.dtype == np.bool_


@pytest.mark.parametrize("value", [True, np.True_, -1, -0.5, "-1/2", "x", "nan", "1/0"])
def test_a_largest_distance_below_zero_is_refused_with_its_value(value):
    with pytest.raises(ConfigurationError, match="reach must be a number of at least 0, not"):
        MaximumDistance.parse(value, name="reach")


def test_a_largest_distance_may_be_zero():
    assert MaximumDistance.parse(0).fraction == 0
    assert MaximumDistance.parse("1/3").fraction == Fraction(1, 3)
