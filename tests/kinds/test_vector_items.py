"""Vectors: what is taken as one, the stored form, and what is refused."""

from __future__ import annotations

import array
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.kinds import Vector
from simdb.kinds.vectors import MAXIMUM_DIMENSION, VectorItems

ANGLES = VectorItems(Vector(3))
DISTANCES = VectorItems(Vector(3, "euclidean"))

components = st.lists(
    st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
)


@given(components)
def test_every_form_of_a_vector_has_one_stored_form_and_comes_back(vector):
    data = np.array([x or 0.0 for x in vector], "<f4").tobytes()
    single = np.array(vector, np.float32)
    forms: list[Any] = [vector, tuple(vector), np.array(vector), single, single.astype(">f4")]
    forms += [list(single), [Fraction(x) for x in vector], [Decimal(x) for x in vector]]
    assert DISTANCES.width == len(data) == 12
    assert all(DISTANCES.encode(form) == data for form in forms)
    decoded = DISTANCES.decode(memoryview(data))
    assert decoded.dtype == np.float32
    assert decoded.tolist() == vector
    assert DISTANCES.encode(decoded) == data


def test_integers_and_doubles_become_float32():
    assert DISTANCES.decode(DISTANCES.encode([1, 2, 2**24 + 1])).tolist() == [1, 2, 2**24]
    assert DISTANCES.decode(DISTANCES.encode([10**30, 0.1, -7])).tolist() == [
        float(np.float32(1e30)),
        float(np.float32(0.1)),
        -7,
    ]
    assert DISTANCES.encode(np.array([1, 2, 3], np.uint8)) == DISTANCES.encode([1.0, 2.0, 3.0])


def test_negative_zero_is_zero():
    assert DISTANCES.encode([-0.0, 1, 0.0]) == DISTANCES.encode([0.0, 1, -0.0])
    assert DISTANCES.encode([-1e-60, 1, 0]) == DISTANCES.encode([0, 1, 0])


def test_features_are_an_array_of_float32():
    stored = [ANGLES.encode([1, 2, 3]), ANGLES.encode([4, 5, 6])]
    features = ANGLES.features([stored[0], memoryview(stored[1])])
    assert features.dtype == np.float32
    assert features.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert ANGLES.features([]).shape == (0, 3)


def test_zeros_are_a_point_and_no_direction():
    assert DISTANCES.decode(DISTANCES.encode([0, 0, 0])).tolist() == [0, 0, 0]
    with pytest.raises(BadItemError, match=r"without a direction .*: all its components are 0$"):
        ANGLES.encode([0, 0, 0])
    with pytest.raises(BadItemError, match=r"all its components are 0 in float32$"):
        ANGLES.encode([0, 1e-60, 0])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([1, 2], "have 3 components, but this one has 2"),
        ([[1, 2, 3]], "this one has 1x3"),
        (np.float32(1), "this one has no"),
        ([1, math.nan, 3], "the component nan of a vector, at position 1, is not a finite number"),
        ([1, 2, -math.inf], "the component -inf of a vector, at position 2, is not a finite"),
        ([1e39, 2, 3], r"the component 1e\+39 of a vector, at position 0, is beyond float32"),
        (np.array([1, -1e200, 3]), "at position 1, is beyond float32"),
        ([10**400, 2, 3], "cannot be read as a vector of numbers: int too large"),
        ([10**60, 2, 3], "at position 0, is beyond float32"),
        ([1, "2", 3], "the components of a vector must be numbers, not str '2' at position 1"),
        ([1, None, 3], "must be numbers, not NoneType None at position 1"),
        ([1.5, True, 3], "must be numbers, not bool True at position 1"),
        ([1, 2, np.True_], "must be numbers, not bool.* at position 2"),
        ([1, b"2", 3], "must be numbers, not bytes b'2' at position 1"),
        ([True, False, True], "must be numbers, not bool"),
        ([1, 2j, 3], "must be numbers, not complex128"),
        ([1, [2, 3], 4], "cannot be read as a vector of numbers"),
        ("123", "must be a list or an array of numbers, not str '123'"),
        (b"123", "not bytes"),
        (array.array("f", [1, 2, 3]), "not array"),
        ({1, 2, 3}, r"not set \{1, 2, 3\}"),
        (7, "not int 7"),
        (None, "not NoneType None"),
    ],
)
def test_what_is_no_vector_is_refused_with_its_reason(item, message):
    with pytest.raises(BadItemError, match=message):
        ANGLES.encode(item)


def test_a_tensor_that_gives_out_no_numbers_is_refused_with_its_reason():
    class Tensor:
        def __array__(self, *_: object, **__: object) -> None:
            raise RuntimeError("call detach() first")

    with pytest.raises(BadItemError, match=r"as a vector of numbers: call detach\(\) first"):
        ANGLES.encode(Tensor())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 11,
        b"\0" * 13,
        np.array([1, np.nan, 3], "<f4").tobytes(),
        np.array([1, np.inf, 3], "<f4").tobytes(),
        np.zeros(3, "<f4").tobytes(),
    ],
)
def test_a_damaged_vector_is_told(data):
    good = ANGLES.encode([1, 2, 3])
    with pytest.raises(CorruptionError, match="a stored vector, 1 of its batch, cannot be read"):
        ANGLES.features([good, data, good])
    with pytest.raises(CorruptionError):
        ANGLES.decode(data)


@pytest.mark.parametrize("dimension", [0, -3, 2.0, "3", True, None, MAXIMUM_DIMENSION + 1])
def test_impossible_dimensions_are_refused(dimension):
    with pytest.raises(ConfigurationError, match=r"Vector\.dimension must be a whole number from"):
        Vector(dimension)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "jaccard"}, "must be one of 'cosine', .*, not 'jaccard'"),
        ({"directions": "random"}, "must be 'gaussian' or 'signs', not 'random'"),
        ({"directions": "signs", "measure": "euclidean"}, "is only for the measure 'cosine'"),
        ({"bucket_width": 1.0}, "for measures other than 'cosine'"),
        *(
            ({"measure": "euclidean", "bucket_width": width}, "must be a number from 1e-30")
            for width in (0, -1.0, math.nan, math.inf, "1", True, 1e-31)
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Vector(3, **settings)


def test_settings_that_do_not_are_taken():
    assert Vector(3) == Vector(3, "cosine", "gaussian", None)
    assert Vector(3, "maximum", bucket_width=2).bucket_width == 2
