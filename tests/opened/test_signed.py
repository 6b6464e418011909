"""What is signed in parts by threads is what is signed at once, its bucket keys in order."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import simdb
from simdb.batches.signer import Signer
from simdb.opened.request import IndexRequest, new_settings
from simdb.threads import Pool

TEXTS = [b"", *(f"text {number} of a few words".encode() for number in range(40))] * 2


@pytest.mark.parametrize("rows", [range(82), range(0, 82, 3), [5], []])
def test_the_order_of_bucket_keys_is_that_of_the_rows_that_are_taken(rows, monkeypatch):
    kind = simdb.Text(simdb.CharacterShingles(4))
    signer = Signer(new_settings("c", kind, IndexRequest(0.5, seed=1)))
    monkeypatch.setattr(simdb.Text, "slice_bytes", 200)
    with Pool(2, "test") as threads:
        shared = signer.start(TEXTS, threads).result()
    alone = signer.sign(TEXTS)
    assert shared.rising is not None
    assert np.array_equal(shared.rising, alone.order)
    assert np.array_equal(shared.signatures, alone.signatures)
    chosen = np.array(rows, np.int64)
    taken = shared.select(chosen)
    expected = replace(alone, rising=None).select(chosen)
    assert np.array_equal(taken.order, expected.order)
    assert np.array_equal(taken.buckets.values, expected.buckets.values)
    assert (np.diff(taken.buckets.values[taken.order].astype(object)) >= 0).all()
