"""The log: small commits write little, and everybody reads the tables through it."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
from pathlib import Path

import pytest

import simdb
from simdb.errors import CorruptionError, FormatVersionError
from simdb.recovery.pages import DamagedFile
from simdb.storage.file import creation, log, preflight
from simdb.storage.file import environment as environments
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.file.log import Log
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from tests.support.environments import acquire, get, put
from tests.support.grids import some_of
from tests.support.processes import Child, answer_of

SETS = simdb.Set()
GOLDEN = Path(__file__).parents[1] / "golden" / "format-2.simdb"


@pytest.fixture
def environment(path):
    environment = acquire(path)
    yield environment
    environments.release(environment)


@pytest.fixture
def folds(monkeypatch):
    """The commits that fold the log, noted as they do."""
    noted: list[int] = []
    fold = WriteTransaction._fold

    def noting(transaction):
        noted.append(transaction.identity)
        fold(transaction)

    monkeypatch.setattr(WriteTransaction, "_fold", noting)
    return noted


def small(monkeypatch, generator):
    """Let logs end early, each at another size."""
    monkeypatch.setattr(log, "MOST_SEGMENTS", generator.choice([1, 2, 5]))
    monkeypatch.setattr(log, "MOST_BYTES", generator.choice([500, 3_000, 2**18]))
    monkeypatch.setattr(log, "MOST_RECORDS", generator.choice([10, 50, 1_024]))
    monkeypatch.setattr(log, "LARGEST_HEAD", generator.choice([100, 300, 2_000]))
    monkeypatch.setattr(log, "LARGEST_COMMIT", generator.choice([200, 1_000, 2**16]))


# -- what transactions read ------------------------------------------------------------------------


def compare(transaction, tables, generator):
    """Hold all that a transaction can read against dicts."""
    for table, records in tables.items():
        ordered = sorted(records.items())
        assert [(key, bytes(value)) for key, value in transaction.scan(table, b"")] == ordered
        keys = [generator.randbytes(2) for _ in range(4)] + list(records)[:4]
        found = {key: bytes(value) for key, value in transaction.get_many(table, keys)}
        assert found == {key: records[key] for key in keys if key in records}
        for key in keys:
            value = transaction.get(table, key)
            assert (None if value is None else bytes(value)) == records.get(key)
            floor = transaction.floor(table, key)
            expected = max((item for item in ordered if item[0] <= key), default=None)
            assert (None if floor is None else (floor[0], bytes(floor[1]))) == expected
            scanned = [name for name, _ in transaction.scan(table, key[:1], key)]
            assert scanned == [name for name, _ in ordered if name[:1] == key[:1] and name >= key]


def change(transaction, tables, generator):
    """Change something, in a transaction and in dicts."""
    table = generator.choice(list(tables))
    records = tables[table]
    stored = sorted(records)
    for _ in range(generator.choice([1, 3, 20])):
        key = generator.randbytes(2)
        if stored and generator.random() < 0.4:
            key = generator.choice(stored)
        if generator.random() < 0.3:
            transaction.delete(table, key)
            records.pop(key, None)
        else:
            records[key] = generator.randbytes(generator.choice([0, 5, 100]))
            transaction.put(table, key, bytearray(records[key]))
    if generator.random() < 0.2:
        many = {generator.randbytes(2): generator.randbytes(9) for _ in range(10)}
        transaction.put_many(table, *zip(*sorted(many.items()), strict=True))
        records.update(many)


class AbortError(Exception):
    """Ends a transaction."""


def abort():
    raise AbortError


@pytest.mark.parametrize("seed", some_of(range(8), 4))
def test_everybody_reads_what_a_dict_holds_whatever_is_in_the_log(path, monkeypatch, folds, seed):
    generator = random.Random(seed)
    small(monkeypatch, generator)
    tables: dict[Table, dict[bytes, bytes]] = {Table.KEYS: {}, Table.BANDS: {}}
    environment = acquire(path)
    snapshots = []
    for _ in range(100):
        before = {table: dict(records) for table, records in tables.items()}
        try:
            with environment.write(1) as transaction:
                for _ in range(generator.choice([1, 1, 3])):
                    change(transaction, tables, generator)
                    if generator.random() < 0.3:
                        compare(transaction, tables, generator)
                if generator.random() < 0.1:
                    abort()
        except AbortError:
            tables = before
        with environment.read() as transaction:
            compare(transaction, tables, generator)
        if generator.random() < 0.1:
            held = {table: dict(records) for table, records in tables.items()}
            snapshots.append((environment.read(), held))
        if generator.random() < 0.1:
            environment.caches.clear()
        if generator.random() < 0.03:
            for snapshot, _ in snapshots:
                snapshot.close()
            snapshots = []
            environments.release(environment)
            environment = acquire(path)
    for snapshot, held in snapshots:  # read for the first time, or again
        compare(snapshot, held, generator)
        snapshot.close()
    environments.release(environment)
    assert folds
    with DamagedFile(path) as file:
        assert file.problems == []
        for table, records in tables.items():
            assert list(file.records(table)) == sorted(records.items())


def test_records_that_outgrow_the_log_while_they_are_put_fold_it_once(environment, folds):
    keys = [bytes([number]) for number in range(100)]
    values = [bytes(log.LARGEST_COMMIT // 10)] * len(keys)
    assert len(keys) * log.COST < log.LARGEST_COMMIT < sum(map(len, values))
    with environment.write(1) as transaction:
        transaction.put_many(Table.KEYS, keys, values)
    assert len(folds) == 1
    with environment.read() as transaction:
        assert [bytes(value) for _, value in transaction.scan(Table.KEYS, b"")] == values


@pytest.mark.parametrize("seed", some_of([1, 0, 2], 3))
def test_two_processes_that_write_in_turn_read_what_a_dict_holds(path, monkeypatch, seed):
    generator = random.Random(seed)
    small(monkeypatch, generator)

    def work(child):
        mine = acquire(path)
        while order := child.hear():
            key, size = order.split()
            if size == "?":
                child.say(len(get(mine, key.encode()) or b""))
            else:
                put(mine, key.encode(), b"x" * int(size))
                child.say("done")
        environments.release(mine)

    child = Child(work)
    environment = acquire(path)
    sizes: dict[str, int] = {}
    for _ in range(200):
        key = f"k{generator.randrange(40)}"
        size = generator.choice([1, 30, 400])
        sizes[key] = size
        if generator.random() < 0.5:
            put(environment, key.encode(), b"x" * size)
            asked = generator.choice(sorted(sizes))
            child.say(f"{asked} ?")
            assert int(child.hear()) == sizes[asked]
        else:
            child.say(f"{key} {size}")
            assert child.hear() == "done"
        assert {name: len(get(environment, name.encode())) for name in sizes} == sizes
    child.say("")
    assert child.end() == 0
    environments.release(environment)


def test_a_snapshot_that_is_first_read_late_sees_no_later_commit(environment):
    put(environment, b"a", b"1")
    early = environment.read()
    put(environment, b"a", b"2")
    put(environment, b"b", b"2")
    assert get(environment, b"b") == b"2"
    assert bytes(early.get(Table.KEYS, b"a") or b"") == b"1"
    assert early.get(Table.KEYS, b"b") is None
    early.close()


def test_an_ended_snapshot_reads_nothing_from_the_log(environment):
    put(environment, b"a", b"1")
    snapshot = environment.read()
    scan = snapshot.scan(Table.KEYS, b"")
    assert next(scan)[0] == b"a"
    snapshot.close()
    for use in (
        lambda: snapshot.get(Table.KEYS, b"a"),
        lambda: snapshot.get_many(Table.KEYS, [b"a"]),
        lambda: snapshot.floor(Table.KEYS, b"a"),
        lambda: next(scan),
    ):
        with pytest.raises(simdb.DatabaseClosedError):
            use()


# -- how much is written ---------------------------------------------------------------------------


def written_by_this_process():
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


@pytest.mark.parametrize("items", [0, 2_000])
def test_a_small_add_writes_16_kb_at_most_and_on_average(path, items):
    generator = random.Random(1)

    def row():
        return {generator.randrange(100_000) for _ in range(12)}

    with simdb.open(path, threads=1) as database:
        sets = database.collection("c", SETS, threshold=0.8, seed=1)
        sets.add_many((f"k{number}", row()) for number in range(items))
        sets.add("first", row())
        written = []
        for number in range(200):
            before = written_by_this_process()
            sets.add(f"n{number}", row())
            written.append(written_by_this_process() - before)
    assert statistics.median(written) <= 12_500
    assert statistics.mean(written) <= 16_000


def test_a_small_add_grows_the_file_by_little_while_a_snapshot_is_open(path):
    generator = random.Random(1)
    with simdb.open(path, threads=1) as database:
        sets = database.collection("c", SETS, threshold=0.8, seed=1)
        sets.add_many((f"k{n}", {generator.randrange(10**5) for _ in range(12)}) for n in range(9))
        with database.snapshot():
            before = path.stat().st_size
            for number in range(150):
                sets.add(number, {generator.randrange(100_000) for _ in range(12)})
            assert path.stat().st_size - before <= 150 * 20_000


def test_the_main_table_stays_one_page_however_full_the_log_is(path):
    generator = random.Random(1)
    with simdb.open(path, threads=1) as database:
        sets = database.collection("c", SETS, threshold=0.8, seed=1)
        for number in range(200):
            sets.add(
                number, {generator.randrange(100_000) for _ in range(generator.choice([3, 90]))}
            )
            with path.open("rb") as file:
                assert preflight.newest_meta(path, file.fileno()).main.depth == 1


# -- when it is folded -----------------------------------------------------------------------------


def test_a_large_commit_is_written_to_the_tables_and_folds_the_log(environment, folds):
    put(environment, b"a", b"1")
    assert not folds
    put(environment, b"b", b"x" * log.LARGEST_COMMIT)
    assert len(folds) == 1
    assert environment.caches["log"].tables[Table.KEYS].keys == []
    assert get(environment, b"a") == b"1"
    put(environment, b"a", b"2")
    assert len(folds) == 1
    assert get(environment, b"a") == b"2"


def test_a_map_without_room_to_fold_gets_no_log(path, folds):
    environment = acquire(path, map_size=2**22)
    put(environment, b"a", b"1")
    assert len(folds) == 1
    assert "log" not in environment.caches
    environments.release(environment)
    environment = acquire(path)
    put(environment, b"b", b"1")
    assert len(folds) == 1
    environments.release(environment)
    environment = acquire(path, map_size=2**22)
    put(environment, b"c", b"1")
    assert len(folds) == 1  # there is one already, which would take more pages to fold
    assert [get(environment, key) for key in (b"a", b"b", b"c")] == [b"1"] * 3
    environments.release(environment)


def test_a_nearly_full_disk_puts_folding_off(environment, folds, monkeypatch):
    monkeypatch.setattr(log, "MOST_SEGMENTS", 1)
    monkeypatch.setattr(preflight, "is_full", lambda _, needed: needed > 0)
    for number in range(20):
        put(environment, b"%d" % number, b"x" * 900)
    assert not folds
    monkeypatch.undo()
    for number in range(200):
        put(environment, b"%d" % number, b"y" * 900)
    assert {get(environment, b"%d" % number) for number in range(200)} == {b"y" * 900}


def test_a_key_that_no_table_takes_is_refused_and_leaves_nothing(environment):
    put(environment, b"a", b"1")
    for key in (b"", b"k" * (log.LONGEST_KEY + 1)):
        with pytest.raises(simdb.StorageError):
            put(environment, key)
    put(environment, b"k" * log.LONGEST_KEY, b"2")
    assert get(environment, b"k" * log.LONGEST_KEY) == b"2"


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_killed_at_a_fold_leaves_all_or_nothing_of_it(path, monkeypatch, seed):
    monkeypatch.setattr(log, "MOST_SEGMENTS", 2)
    environments.release(acquire(path))

    def work(child):
        environment = acquire(path)
        fold = WriteTransaction._fold
        count = 0

        def killed(transaction):
            fold(transaction)
            if count >= 40:
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(WriteTransaction, "_fold", killed)
        for count in range(400):
            put(environment, b"%d" % (count * (seed + 1) % 97), b"x" * (300 + count))
            child.say(count)

    child = Child(work)
    told = child.hear_all()
    assert child.end() == -signal.SIGKILL
    assert len(told) >= 40
    expected = {b"%d" % (count * (seed + 1) % 97): 300 + count for count in range(len(told))}
    environment = acquire(path)
    assert {key: len(get(environment, key)) for key in expected} == expected
    environments.release(environment)


# -- what has a log, and what is done with it ------------------------------------------------------


@pytest.fixture
def logged(path):
    """A store of 60 items, the last 20 of them in the log, with deletions and replacements."""
    with simdb.open(path, threads=1) as database:
        sets = database.collection("c", SETS, threshold=0.5, exact_floor=0.5, seed=1)
        sets.add_many((number, range(number, number + 300)) for number in range(40))
        for number in range(40, 60):
            sets.add(number, range(number, number + 5), metadata={"n": number})
        sets.delete_many([3, 41])
        sets.replace(5, [1, 2, 3])
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    with DamagedFile(path) as file:
        assert file._logged[Table.KEYS].keys
    return path


def contents(path):
    with simdb.open(path, threads=1) as database:
        assert database.check(deep=True).problems == ()
        sets = database["c"]
        found = {record.key: (sorted(record.item), record.metadata) for record in sets.items()}
        assert all(key in {m.key for m in sets.search(item)} for key, (item, _) in found.items())
        return found


@pytest.mark.usefixtures("forked_reader")
def test_a_copy_a_dump_a_repair_and_maintenance_take_the_log_along(logged, tmp_path):
    expected = contents(logged)
    assert len(expected) == 58
    with simdb.open(logged, threads=1) as database:
        database.backup(tmp_path / "plain.simdb")
        database.backup(tmp_path / "compact.simdb", compact=True)
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "loaded.simdb")
    report = simdb.repair(logged, tmp_path / "repaired.simdb", threads=1)
    assert report.certain
    assert not report.problems
    for name in ("plain", "compact", "loaded", "repaired"):
        assert contents(tmp_path / f"{name}.simdb") == expected
    simdb.open(logged, untrusted=True).close()
    with simdb.open(logged, threads=1) as database:
        database["c"].compact()
        database["c"].rebuild(threshold=0.6)
    assert contents(logged) == expected
    with simdb.open(logged, threads=1) as database:
        database.drop_collection("c")
        assert list(database) == []
        database.collection("c", SETS).add(1, [1])
        assert len(database["c"]) == 1


def place_of(path, key):
    """Where the value of a record of the main table lies in a file: of the newest commit."""
    with DamagedFile(path) as file:
        meta = file._read_metas()[1]
        assert meta is not None
        value = next(value for name, value, _ in file._walk("", meta.root) if name == key)
    return path.read_bytes().index(value), len(value)


@pytest.mark.parametrize("which", ["head", "segment"])
def test_damage_to_the_log_is_told_and_what_is_whole_is_repaired(logged, tmp_path, which):
    expected = contents(logged)
    with DamagedFile(logged) as file:
        main = file._read_metas()[1]
        assert main is not None
        keys = [key for key, _, _ in file._walk("", main.root) if log.is_log(key)]
    place, size = place_of(logged, keys[0 if which == "head" else -1])
    with logged.open("r+b") as changed:
        changed.seek(place + size - 9)
        changed.write(b"damaged")
    with simdb.open(logged, threads=1) as database:
        assert not database.check().sound
        with pytest.raises(CorruptionError, match="repair"):
            list(database["c"].items())
    new = tmp_path / "new.simdb"
    report = simdb.repair(logged, new, threads=1)
    assert report.problems
    assert not report.certain
    (part,) = report.collections
    assert part.uncertain == part.items
    found = contents(new)
    assert {key: value for key, value in found.items() if key in expected} == {
        key: expected[key] if key != 5 else found[key] for key in found if key in expected
    }
    assert set(range(40)) - {3} <= set(found)


def test_a_segment_that_is_gone_is_told(logged):
    environment = acquire(logged)
    with environment.write(1) as transaction:
        head = transaction._main(log.HEAD_KEY)
        place = log.decode(log.HEAD_KEY, head)[0]
        assert place.end > place.first
        transaction._transaction.delete(log.segment_key(place.first))
    with environment.read() as transaction, pytest.raises(CorruptionError, match="missing"):
        transaction.get(Table.META, layout.HEADER_KEY)
    environments.release(environment)


@pytest.mark.parametrize(
    "changes",
    [
        *([(9, b"k", b"v")], [(0, b"", b"v")], [(0, b"k" * 512, None)], [(0, b"k")], 7),
    ],
)
def test_a_log_that_nobody_could_have_written_is_refused(changes):
    record = log.encode(log.HEAD_KEY, log.Place(1, 0, 0, 0), changes)
    with pytest.raises(CorruptionError, match="log"):
        Log.load(record, Log(), bytes)


def format_of(path):
    environment = acquire(path)
    with environment.read() as transaction:
        value = transaction.get(Table.META, layout.HEADER_KEY)
        assert value is not None
        header = layout.unpack(layout.unseal(Table.META, layout.HEADER_KEY, value))
    environments.release(environment)
    return header["format"]


def test_a_store_of_the_format_before_becomes_one_of_this_when_its_log_begins(path, monkeypatch):
    shutil.copyfile(GOLDEN, path)
    path.chmod(0o600)
    with simdb.open(path, threads=1) as database:
        database["news"].search("a text")
    assert format_of(path) == creation.FORMAT_WITHOUT_LOG
    environment = acquire(path)
    put(environment, b"large", b"x" * log.LARGEST_COMMIT)
    environments.release(environment)
    assert format_of(path) == creation.FORMAT_WITHOUT_LOG
    environment = acquire(path)
    with environment.write(1) as transaction:
        transaction.delete(Table.KEYS, b"large")
    environments.release(environment)
    assert format_of(path) == creation.FORMAT_VERSION
    with simdb.open(path, threads=1) as database:
        assert database.check(deep=True).sound
    monkeypatch.setattr(creation, "FORMAT_VERSION", creation.FORMAT_WITHOUT_LOG)  # as it was
    assert answer_of(lambda: simdb.open(path)).startswith(FormatVersionError.__name__)
