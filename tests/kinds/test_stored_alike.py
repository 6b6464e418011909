"""A rebuild keeps the stored items, so it refuses settings under which they would be others."""

from __future__ import annotations

from typing import Any

import pytest

import simdb
from simdb import kinds

FIELDS = [simdb.Field("a"), simdb.Field("b")]
PRINT = simdb.Fingerprint(300, 300, items="squares", measure="squares")

# A kind, an item of it, other settings, and whether the item is stored alike under them.
CASES: tuple[tuple[kinds.Kind, Any, kinds.Kind, bool], ...] = (
    (simdb.Bits(60), 7, simdb.Bits(64), False),  # of one width
    (simdb.Bits(64), 7, simdb.Bits(128), False),
    (simdb.Bits(64), 7, simdb.Bits(64, "tanimoto"), True),
    (simdb.Vector(3), [1, 2, 3], simdb.Vector(4), False),
    (simdb.Vector(3), [1, 2, 3], simdb.Vector(3, "euclidean"), True),
    (simdb.Record(FIELDS), {"a": "x"}, simdb.Record(FIELDS[::-1]), False),
    (simdb.Record(FIELDS), {"a": "x"}, simdb.Record(FIELDS, ["a"]), True),
    (PRINT, [1, 2], PRINT.changed(square=30), False),
    (PRINT, [1, 2], PRINT.changed(sectors=2), False),
    (PRINT, [1, 2], PRINT.changed(functions=9), True),
    (simdb.Fingerprint(300, 300), [(1, 2, 3)], simdb.Fingerprint(301, 300), False),
    (simdb.Fingerprint(300, 300), [(1, 2, 3)], simdb.Fingerprint(300, 301), False),
    (simdb.Fingerprint(300, 300), [(1, 2, 3)], simdb.Fingerprint(300, 300, square=30), True),
    (simdb.Text(), "some text", simdb.Text(simdb.WordShingles(1)), True),
)


@pytest.mark.parametrize(("kind", "item", "other", "alike"), CASES)
def test_a_rebuild_refuses_what_would_make_other_items_of_those_stored(
    tmp_path, kind, item, other, alike
):
    bound = {"max_distance": 1} if other.is_distance else {"threshold": 0.5}
    own = {"max_distance": 1} if kind.is_distance else {"threshold": 0.5}
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", kind, **own)
        collection.add("a", item)
        before = str(collection.get("a").item)
        if alike:
            collection.rebuild(kind=other, **bound)
            assert collection.kind == other
        else:
            with pytest.raises(simdb.ConfigurationError, match="add them to another collection"):
                collection.rebuild(kind=other, **bound)
            assert collection.kind == kind
        assert str(collection.get("a").item) == before
        assert database.check(deep=True).sound
