"""What waits in a file is what was given, and takes little memory."""

from __future__ import annotations

import io
import tempfile
import tracemalloc

from simdb.files.spilled import Spilled, SpilledKeys
from simdb.results import Key


def test_keys_that_wait_in_a_file_come_back_as_they_were():
    keys: list[Key] = ["a", "", "7", 7, -(2**70), "é\n\x00", "\ud800", *map(str, range(50))]
    with tempfile.TemporaryFile() as file:
        raws, known, others = Spilled(file), SpilledKeys(Spilled(file)), SpilledKeys(Spilled(file))
        for key in keys:
            raws.append(b"a row")
            known.append(key)
            others.extend([key, key])
        assert [*known] == keys
        assert [*map(type, known)] == [*map(type, keys)]
        assert [*known[3:9]] == keys[3:9]
        assert [*others[::2]] == keys
        assert [*raws] == [b"a row"] * len(keys)


def test_sequences_take_turns_with_a_file_that_is_read_between():
    with tempfile.TemporaryFile() as file:
        one, other = SpilledKeys(Spilled(file)), SpilledKeys(Spilled(file))
        for key in range(5):
            one.append(key)
            other.append(f"key {key}")
            assert (len(one), one[key], other[key]) == (key + 1, key, f"key {key}")
        assert [*one] == [0, 1, 2, 3, 4]
        assert [*other] == [f"key {key}" for key in range(5)]


def test_keys_that_come_one_by_one_are_written_together():
    class Counted(io.BytesIO):
        seeks = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            self.seeks += 1
            return super().seek(offset, whence)

    file = Counted()
    known = SpilledKeys(Spilled(file))
    for row in range(1_000):
        known.append(row)
    assert file.seeks == 1
    assert (len(known), known[999]) == (1_000, 999)


def test_keys_that_wait_in_a_file_take_a_few_bytes_of_memory():
    with tempfile.TemporaryFile() as file:
        known = SpilledKeys(Spilled(file))
        tracemalloc.start()
        try:
            for row in range(1_000):
                known.append(f"{row:0400}")
            assert tracemalloc.get_traced_memory()[0] < 40 * 1_000
        finally:
            tracemalloc.stop()
