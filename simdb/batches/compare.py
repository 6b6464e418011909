"""True similarities and distances of the items of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdb.arrays import Int64s
from simdb.batches.signer import Signer
from simdb.kinds import Compared
from simdb.ragged import slices_of, some_of

COMPARED_BYTES = 16 * 2**20  # of items whose features (eight times as many bytes) are held at once


def compare_items(
    signer: Signer, items: Sequence[bytes | memoryview], left: Int64s, right: Int64s
) -> Compared:
    """Compare ``items[left[i]]`` with ``items[right[i]]``, in parts that bound the memory."""
    used, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    chosen = some_of(items, used)
    left, right = np.split(places, 2)
    weights = signer.items.weights(chosen)
    if int(weights.sum()) <= COMPARED_BYTES:
        return signer.measure.compare_pairs(signer.features(chosen), left, right)
    parts = list(slices_of(weights[left] + weights[right], COMPARED_BYTES))
    if len(parts) == 1:  # of a single pair, which is compared however large it is
        return signer.measure.compare_pairs(signer.features(chosen), left, right)
    return Compared.together(
        [compare_items(signer, chosen, left[part], right[part]) for part in parts]
    )
