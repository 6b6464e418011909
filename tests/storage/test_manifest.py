"""What the manifest counts of an exact index, and the record of an epoch's frequent symbols."""

from __future__ import annotations

import numpy as np
import pytest

from simdb.errors import CorruptionError
from simdb.storage.collection.manifest import EpochManifest, ExactManifest, decode_frequent
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, pack_numbered


@pytest.mark.parametrize(
    ("items", "entries", "expected"), [(0, 0, 0), (3, 6, 2), (3, 7, 3), (10, 1, 1)]
)
def test_a_deleted_item_leaves_at_least_as_many_postings_as_items_have(items, entries, expected):
    counted = ExactManifest(EpochManifest(1), posted_items=items, posted_entries=entries)
    assert counted.entries_per_item == expected


def test_an_order_of_fewer_symbols_than_its_epoch_has_is_cut_short():
    epoch = EpochManifest(3, frequent=3)
    symbols = np.array([7, 5, 9], np.uint64)
    key = pack_numbered(epoch.number, 0)
    whole, part = (
        memoryview(layout.seal(Table.SYMBOLS, key, some.tobytes()))
        for some in (symbols, symbols[:2])
    )
    assert decode_frequent(epoch, whole).tolist() == [7, 5, 9]
    with pytest.raises(CorruptionError, match="cut short"):
        decode_frequent(epoch, part)
