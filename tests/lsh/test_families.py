"""Bit sampling, random hyperplanes and random lines: what signatures depend on, what is derived."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.lsh import projections
from simdb.lsh.family import BandedFamily, derived_words
from simdb.lsh.projections import (
    BitSampling,
    RandomHyperplanes,
    RandomLines,
    derived_gaussians,
    derived_signs,
)
from tests.support import oracle
from tests.support.family_cases import BOUND, SECRET, bit_features, some_vectors, within_bound

# SHA-256 of the first directions of one secret.
GAUSSIANS = "89fc4f3b72a931aa82107132100f0bbec4653806003325844709599b251326e5"
SIGNS = "786582c1918b8e42ca10c26266e0d76a91093bd72602d2555414f9e572bbc52a"

pytestmark = pytest.mark.usefixtures("wrap_around")


# ----------------------------------------------------------------------------- what must not matter


def each_family() -> list[tuple[BandedFamily, Any]]:
    generator = np.random.default_rng(2)
    bits = bit_features(200, *generator.integers(0, 2, (50, 200)).astype(np.uint8))
    vectors = some_vectors(50, 100)
    return [
        (BitSampling(200, 6, 10, SECRET), bits),
        (RandomHyperplanes(100, 6, 10, SECRET), vectors),
        (RandomHyperplanes(100, 6, 10, SECRET, gaussian=False), vectors),
        (RandomLines(100, 4.0, 6, 10, SECRET), vectors),
    ]


def test_a_signature_does_not_depend_on_its_batch(monkeypatch):
    for family, features in each_family():
        together = family.sign(features)
        alone = np.concatenate([family.sign(features[i : i + 1]) for i in range(len(features))])
        assert (together == alone).all()
        monkeypatch.setattr(projections, "_STRETCH", 16)
        if isinstance(family, RandomHyperplanes | RandomLines):
            monkeypatch.setattr(family._projector, "_rows", 7)
            monkeypatch.setattr(family._projector, "_portion", 21)
        assert (family.sign(features) == together).all()
        monkeypatch.undo()
        assert family.sign(features[:0]).shape == (0, family.words)


def test_equal_secrets_give_equal_signatures_and_others_do_not():
    for (one, features), (other, _) in zip(each_family(), each_family(), strict=True):
        assert (one.sign(features) == other.sign(features)).all()
    gaussians = [derived_gaussians(secret, (4, 4)).tolist() for secret in (b"a", b"b")]
    assert gaussians[0] != gaussians[1]
    positions = [BitSampling(999, 2, 20, secret).positions for secret in (b"a", b"b")]
    assert (positions[0] != positions[1]).any()


def test_no_band_is_zero_and_bucket_keys_are_equal_where_bands_are():
    for family, features in each_family():
        signatures = family.sign(np.concatenate((features, features[:1])))
        bands = signatures.reshape(len(signatures), family.bands, -1)
        assert bands.any(axis=2).all()
        keys = family.bucket_keys(signatures)
        assert keys.groups is None
        assert keys.values.dtype == np.uint64
        assert keys.offsets.tolist() == list(range(0, 6 * 51 + 1, 6))
        table = keys.values.reshape(-1, 6)
        assert (table[0] == table[50]).all()
        for band in range(6):
            same = (bands[:, None, band] == bands[None, :, band]).all(axis=2)
            assert (same == (table[:, None, band] == table[None, :, band])).all()
        assert len(set(table[0].tolist())) == 6


def test_multiples_by_a_power_of_two_lie_on_the_same_sides():
    family, vectors = each_family()[1]
    assert (family.sign(vectors * np.float32(4)) == family.sign(vectors)).all()


# --------------------------------------------------------------------------------- what is derived


def test_derived_words_are_those_of_splitmix64():
    state = oracle.secret_words(SECRET, b"simdb.test", 1)[0]
    expected = []
    for number in range(1, 20):
        value = (state + number * 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        expected.append(value ^ value >> 31)
    assert derived_words(SECRET, b"simdb.test", 19).tolist() == expected


def test_gaussians_are_those_of_box_and_muller():
    words = [int(word) >> 11 for word in derived_words(SECRET, b"simdb.gaussian", 1000)]
    lengths = [math.sqrt(-2 * math.log((word + 1) / 2**53)) for word in words[:500]]
    turns = [2 * math.pi * word / 2**53 for word in words[500:]]
    expected = [length * math.cos(turn) for length, turn in zip(lengths, turns, strict=True)]
    expected += [length * math.sin(turn) for length, turn in zip(lengths, turns, strict=True)]
    assert derived_gaussians(SECRET, (10, 100)).ravel() == pytest.approx(expected, abs=2e-6)
    assert derived_gaussians(SECRET, (3, 3)).dtype == np.float32


@pytest.mark.parametrize("at_once", [1, 7, 20, 100])
def test_directions_are_the_same_however_many_are_derived_at_once(monkeypatch, at_once):
    for derived in (derived_gaussians, derived_signs):
        whole = derived(SECRET, (3, 7))
        with monkeypatch.context() as patched:
            patched.setattr(projections, "DERIVED_AT_ONCE", at_once)
            assert np.array_equal(derived(SECRET, (3, 7)), whole)


def test_gaussians_have_the_bytes_that_they_always_had():
    """A stored signature is worth nothing if another version draws other directions."""
    data = derived_gaussians(b"\0" * 32, (64, 65)).astype("<f4").tobytes()
    assert hashlib.sha256(data).hexdigest() == GAUSSIANS
    assert (
        hashlib.sha256(derived_signs(b"\0" * 32, (64, 65)).astype("<f4").tobytes()).hexdigest()
        == SIGNS
    )


def test_gaussians_are_gaussian():
    """By their first four moments, each within 4.5 of its own standard deviations."""
    values = derived_gaussians(SECRET, (256, 512)).astype(np.float64).ravel()
    root = math.sqrt(values.size)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(values**power) - mean) < BOUND * math.sqrt(variance) / root
    shares = [np.mean(values <= border) for border in (-1.0, 0.0, 2.0)]
    for share, expected in zip(shares, (0.158655, 0.5, 0.977250), strict=True):
        assert within_bound(float(share), expected, values.size)


def test_signs_are_even():
    signs = derived_signs(SECRET, (64, 64))
    assert set(signs.ravel().tolist()) == {1.0, -1.0}
    assert within_bound(float((signs > 0).mean()), 0.5, signs.size)


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(("bands", "rows"), [(0, 1), (1, 0), (64, 65)])
def test_impossible_numbers_of_functions_are_refused(bands, rows):
    message = "bands \\* rows at most 4,096"
    with pytest.raises(ConfigurationError, match=message):
        BitSampling(10, bands, rows, SECRET)
    with pytest.raises(ConfigurationError, match=message):
        RandomHyperplanes(10, bands, rows, SECRET)
    with pytest.raises(ConfigurationError, match=message):
        RandomLines(10, 1, bands, rows, SECRET)
