"""Full maps, files that may not grow, and little address space."""

# mypy: allow-untyped-calls
# ruff: noqa: PT012 - what is refused is a transaction, begun and ended

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import resource
import signal
import sys
import time

import pytest

import simdb
from simdb.errors import DatabaseFullError, StorageError
from simdb.storage.file import creation
from simdb.storage.file import environment as environments
from simdb.storage.tables.layout import Table
from tests.support.environments import MIB, acquire, get, put
from tests.support.processes import Child, answer_of, interpreted


def fill(environment):
    """Write until the map is full; return how many records were committed."""
    count = 0
    with pytest.raises(DatabaseFullError, match="map_size"):
        for count in range(10_000):
            put(environment, b"%06d" % count, b"x" * 40_000)
    return count


def test_a_full_map_refuses_writes_keeps_all_commits_and_takes_more_with_a_larger_one(path):
    environment = acquire(path, map_size=2 * MIB)
    count = fill(environment)
    assert count > 20
    with pytest.raises(DatabaseFullError):
        put(environment, b"more", b"x" * 400_000)
    assert all(get(environment, b"%06d" % number) for number in range(count))
    assert get(environment, b"more") is None
    environments.release(environment)
    larger = acquire(path, map_size=4 * MIB)
    put(larger, b"more", b"x" * 400_000)
    assert get(larger, b"more")
    environments.release(larger)


def test_a_full_collection_takes_more_after_deleting_and_compacting_or_with_a_larger_map(path):
    text = "some words of a text that fills the file quickly "
    with simdb.open(path, map_size=4 * MIB) as database:
        texts = database.collection("texts", simdb.Text())
        count = 0
        with pytest.raises(DatabaseFullError):
            for count in range(10_000):
                texts.add(count, f"{count} {text * 400}")
        assert len(texts) == count
        assert database.check(deep=True).sound
        assert texts.search(f"{count // 2} {text * 400}")[0].value > 0.99
        database.backup(path.with_name("copy.simdb"), compact=True)
    with simdb.open(path, map_size=8 * MIB) as database:
        texts = database["texts"]
        texts.delete_many(range(count))
        texts.compact()
        assert database.check(deep=True).sound
        texts.add("new", text)
        assert [match.key for match in texts.search(text)] == ["new"]


def test_a_compact_copy_of_what_was_full_once_takes_as_many_items_as_a_new_one(path):
    def filled(database):
        sets = database.collection("c", simdb.Set(), exact_floor=0.6)
        with pytest.raises(DatabaseFullError):
            for begin in range(0, 10**6, 200):
                rows = ((key, range(20 * key, 20 * key + 20)) for key in range(begin, begin + 200))
                sets.add_many(rows, at_once=True)
        return len(sets)

    copy = path.with_name("copy.simdb")
    with simdb.open(path, map_size=4 * MIB, threads=1) as database:
        count = filled(database)
        for begin in range(0, count, 1_000):
            database["c"].delete_many(range(begin, min(count, begin + 1_000)))
        database["c"].compact()
        database.backup(copy, compact=True)
    path.unlink()
    simdb.restore(copy, path)
    with simdb.open(path, map_size=4 * MIB, threads=1) as database:
        assert filled(database) >= count > 0


def test_a_limit_on_file_size_leaves_the_last_commit(path):
    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, 3 * MIB))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        environment = acquire(path)
        for count in range(10_000):
            try:
                put(environment, b"%06d" % count, b"x" * 40_000)
            except StorageError:  # a short write is what LMDB calls an input/output error
                break
        stored = sum(get(environment, b"%06d" % number) is not None for number in range(count))
        put(environment, b"small", timeout=1)
        return (stored == count, count > 20, get(environment, b"%06d" % count))

    assert answer_of(work) == "(True, True, None)"
    environment = acquire(path)
    assert get(environment, b"small")
    environments.release(environment)


def limited_address_space(megabytes):
    """Allow this process so much address space beside what it has."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file on a disk
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + megabytes * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def test_little_address_space_makes_the_map_smaller(path):
    with contextlib.suppress(ModuleNotFoundError):  # else there must be room for it, too
        importlib.import_module("simdb.kernels.compiling")

    def work():
        limited_address_space(700)
        environment = acquire(path)
        put(environment, b"a")
        return (environment.statistics()["map_bytes"] // MIB, get(environment, b"a"))

    megabytes, value = answer_of(work).strip("()").split(", ")
    assert 64 <= int(megabytes) <= 700
    assert value == "b'value'"


def test_little_address_space_is_enough_where_nothing_compiles(path, monkeypatch):
    """As where the wheel is installed, without numba: there is no room to compile needed either."""
    environments.release(acquire(path))
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    def work():
        limited_address_space(creation.ROOM_TO_WORK // MIB + 128)
        put(acquire(path), b"a")
        return "numba" in sys.modules

    assert answer_of(work) == "False"


def test_too_little_address_space_is_a_clear_error(path):
    environments.release(acquire(path))

    def work():
        limited_address_space(100)
        acquire(path)

    assert answer_of(work).startswith("StorageError")


LIMITED = """
import resource, sys
import simdb
if sys.argv[2] != "0":
    limit = int(sys.argv[2]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    with simdb.open(sys.argv[1]) as database:
        texts = database.collection("c", simdb.Text())
        texts.add_many((number, f"text number {number} of some") for number in range(200))
        print(len(texts.search("text number 7 of some")), len(list(texts.pairs())) > 0)
except simdb.StorageError as error:
    print(error)
"""


@pytest.mark.heavy
def test_a_limit_on_address_space_is_enough_for_all_or_an_error_says_how_much_would_be(tmp_path):
    def told(limit: int) -> str:
        return interpreted(LIMITED, tmp_path / f"s{limit}", limit).stdout

    answer = told(0)  # and kernels are compiled, which takes more than loading them
    said = told(600 * 1_024)
    assert "address space" in said
    enough = int(re.findall(r"ulimit -v (\d+)", said)[0])
    assert 600 * 1_024 < enough < 1_200 * 1_024
    assert told(enough + 16_384) == answer  # pages that the dynamic loader maps now or then


@pytest.mark.parametrize(("more", "grows"), [(900, True), (120, False)])
def test_a_map_that_fills_up_grows_while_the_system_gives_space(path, monkeypatch, more, grows):
    monkeypatch.setattr(creation, "SMALLEST_MAP", 32 * MIB)
    monkeypatch.setattr(creation, "LARGEST_MAP", 64 * MIB)

    def work():
        environment = acquire(path)
        limited_address_space(more - 64)
        outcome = "grown"
        try:
            for number in range(30):
                put(environment, b"%d" % number, b"x" * (5 * MIB - 5_000))
        except DatabaseFullError:
            outcome = "full"
        stored = [get(environment, b"%d" % number) is not None for number in range(30)]
        put(environment, b"0", b"small")
        return (outcome, stored[: stored.count(True)].count(True) >= 12, get(environment, b"0"))

    assert answer_of(work) == f"({'grown' if grows else 'full'!r}, True, b'small')"


def test_a_map_is_not_moved_under_a_snapshot(path, monkeypatch):
    monkeypatch.setattr(creation, "SMALLEST_MAP", 4 * MIB)
    monkeypatch.setattr(creation, "LARGEST_MAP", 4 * MIB)
    environment = acquire(path)
    put(environment, b"a", b"a" * 100_000)
    with environment.read() as transaction:
        view = transaction.get(Table.KEYS, b"a")
        assert view is not None
        began = time.monotonic()
        with pytest.raises(DatabaseFullError):
            for number in range(100):
                put(environment, b"b%d" % number, b"x" * 100_000)
        assert time.monotonic() - began < 5
        assert bytes(view) == b"a" * 100_000
    for number in range(100):
        put(environment, b"c%d" % number, b"x" * 100_000)
    assert environment.statistics()["map_bytes"] >= 8 * MIB
    environments.release(environment)


def test_a_process_adopts_a_file_that_another_has_grown_past_its_map(path, monkeypatch):
    monkeypatch.setattr(creation, "LARGEST_MAP", 2 * MIB)
    environments.release(acquire(path))

    def work(child):
        child.hear()
        monkeypatch.setattr(creation, "LARGEST_MAP", 64 * MIB)
        other = acquire(path)
        for number in range(100):
            put(other, b"%d" % number, b"x" * 100_000)
        child.say("grown")

    # Forked first: a fork closes the file, and what opens it again maps all of it.
    child = Child(work)
    environment = acquire(path)
    put(environment, b"a")
    mapped = environment.generation
    child.say("go")
    assert child.hear() == "grown"
    assert child.end() == 0
    assert path.stat().st_size > 100 * 100_000
    assert len(get(environment, b"99") or b"") == 100_000
    assert environment.generation == mapped + 1
    put(environment, b"b")
    environments.release(environment)
