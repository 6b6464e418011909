"""Residues modulo 2^61 - 1 at the ends of their range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdb import kernels

MODULUS = 2**61 - 1


@pytest.mark.parametrize(
    "value", [0, 1, MODULUS - 1, MODULUS, MODULUS + 1, 2 * MODULUS - 1, 2 * MODULUS, 2**64 - 1]
)
def test_a_value_is_reduced_below_the_modulus(value):
    compiled: Any = kernels.hashes.reduced
    plain = getattr(compiled, "py_func", compiled)
    assert int(plain(np.uint64(value))) == value % MODULUS
