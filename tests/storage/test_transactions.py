"""Transactions: all or nothing, one snapshot, reads in the order of keys."""

# mypy: allow-untyped-calls
# ruff: noqa: PT012 - what is refused is a transaction, begun and ended

from __future__ import annotations

import random

import pytest

from simdb.errors import DatabaseClosedError, DatabaseFullError, StorageError
from simdb.storage.file import environment as environments
from simdb.storage.tables.layout import Table
from tests.support.environments import record_count


@pytest.fixture
def environment(tmp_path):
    environment = environments.acquire(
        tmp_path / "store.simdb", read_only=False, sync="batch", map_size=2**24
    )
    yield environment
    environments.release(environment)


def fill(environment, records, table=Table.KEYS):
    with environment.write(1) as transaction:
        transaction.put_many(table, *zip(*sorted(records.items()), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_floor_and_scan_answer_as_a_sorted_dict_does(environment, seed):
    generator = random.Random(seed)
    records = {
        generator.randbytes(generator.randint(1, 3)): generator.randbytes(5) for _ in range(300)
    }
    fill(environment, records)
    ordered = sorted(records.items())
    with environment.read() as transaction:
        for _ in range(200):
            probe = generator.randbytes(generator.randint(1, 4))
            below = [item for item in ordered if item[0] <= probe]
            found = transaction.floor(Table.KEYS, probe)
            if not below:
                assert found is None
            else:
                assert found is not None
                assert (bytes(found[0]), bytes(found[1])) == below[-1]
            prefix, start = probe[:1], generator.choice([None, probe])
            scanned = [
                (bytes(key), bytes(value))
                for key, value in transaction.scan(Table.KEYS, prefix, start)
            ]
            assert scanned == [
                item
                for item in ordered
                if item[0].startswith(prefix) and (start is None or item[0] >= start)
            ]


def test_tables_do_not_see_each_other(environment):
    fill(environment, {b"a": b"1"}, Table.KEYS)
    fill(environment, {b"b": b"2"}, Table.MARKS)
    with environment.read() as transaction:
        assert transaction.get(Table.KEYS, b"b") is None
        assert transaction.floor(Table.KEYS, b"z") is not None
        assert [bytes(key) for key, _ in transaction.scan(Table.MARKS, b"")] == [b"b"]
        assert record_count(transaction, Table.KEYS) == 1


def test_an_empty_table_has_no_floor_and_no_records(environment):
    with environment.read() as transaction:
        assert transaction.floor(Table.KEYS, b"a") is None
        assert list(transaction.scan(Table.KEYS, b"")) == []


def test_an_error_undoes_all_of_a_transaction_and_lets_the_next_writer_in(environment):
    fill(environment, {b"a": b"1"})
    with pytest.raises(RuntimeError), environment.write(1) as transaction:
        transaction.put(Table.KEYS, b"a", b"2")
        transaction.delete(Table.KEYS, b"a")
        transaction.put(Table.MARKS, b"b", b"3")
        raise RuntimeError
    with environment.write(0.1) as transaction:
        value = transaction.get(Table.KEYS, b"a")
        assert value is not None
        assert bytes(value) == b"1"
        assert transaction.get(Table.MARKS, b"b") is None


def test_a_writer_reads_what_it_wrote_and_nobody_else_does(environment):
    with environment.write(1) as writer:
        writer.put(Table.KEYS, b"a", b"1")
        assert writer.get(Table.KEYS, b"a") is not None
        writer.delete(Table.KEYS, b"absent")
        with environment.read() as reader:
            assert reader.get(Table.KEYS, b"a") is None
    with environment.read() as reader:
        assert reader.get(Table.KEYS, b"a") is not None


def test_the_identity_of_a_snapshot_is_the_number_of_its_commit(environment):
    with environment.read() as first, environment.read() as second:
        assert first.identity == second.identity
        fill(environment, {b"a": b"1"})
        with environment.read() as third:
            assert third.identity == first.identity + 1


def test_records_out_of_order_are_all_stored(environment):
    # LMDB's append mode would drop them without an error.
    with environment.write(1) as transaction:
        transaction.put_many(Table.KEYS, [b"b", b"a", b"c"], [b"1", b"2", b"3"])
    with environment.read() as transaction:
        assert [bytes(key) for key, _ in transaction.scan(Table.KEYS, b"")] == [b"a", b"b", b"c"]


def test_a_full_map_in_the_middle_of_a_transaction_undoes_it_with_a_clear_error(environment):
    fill(environment, {b"a": b"1"})
    with pytest.raises(DatabaseFullError, match="map_size"), environment.write(1) as transaction:
        transaction.put(Table.KEYS, b"a", b"2")
        transaction.put(Table.KEYS, b"b", bytes(2**25))
    with pytest.raises(DatabaseFullError), environment.write(1) as transaction:
        transaction.put_many(Table.KEYS, [b"c"], [bytes(2**25)])
    with environment.write(1) as transaction:
        value = transaction.get(Table.KEYS, b"a")
        assert value is not None
        assert bytes(value) == b"1"
        transaction.put(Table.KEYS, b"d", b"goes on")


def test_errors_of_lmdb_while_reading_are_errors_of_storage(environment):
    with pytest.raises(StorageError), environment.read() as transaction:
        transaction.get(Table.KEYS, b"")  # a key that LMDB refuses


def test_a_transaction_that_has_ended_says_so(environment):
    with environment.write(1) as transaction:
        transaction.put(Table.KEYS, b"a", b"1")
    assert transaction.closed
    for use in (
        lambda: transaction.get(Table.KEYS, b"a"),
        lambda: transaction.put(Table.KEYS, b"a", b"2"),
        lambda: transaction.identity,
        transaction.require_open,
    ):
        with pytest.raises(DatabaseClosedError):
            use()
    transaction.close()


def test_an_iterator_ends_with_its_snapshot(environment):
    fill(environment, {b"a": b"1", b"b": b"2"})
    with environment.read() as transaction:
        records = transaction.scan(Table.KEYS, b"")
        next(records)
    with pytest.raises(DatabaseClosedError):
        next(records)


def test_what_is_made_of_a_commit_is_kept_until_the_next(environment):
    made = iter("abcdef")

    def value(transaction):
        return transaction.remembered("letter", lambda: next(made))

    fill(environment, {b"a": b"1"})
    with environment.read() as before:
        assert value(before) == value(before) == "a"
        with environment.read() as other:
            assert value(other) == "a"
        with environment.write(1) as writing:  # what it stores may still change
            assert [value(writing), value(writing)] == ["b", "c"]
            writing.put_many(Table.KEYS, [b"b"], [b"2"])
        with environment.read() as after:
            assert value(after) == value(after) == "d"
        assert value(before) == "a"
    with environment.read() as again:
        assert value(again) == "d"


def test_a_change_that_is_given_up_leaves_what_is_made_of_the_commit_before(environment):
    fill(environment, {b"a": b"1"})
    with environment.read() as before:
        assert before.remembered("letter", lambda: "a") == "a"
    writing = environment.write(1)
    assert not writing.remembers
    with environment.read() as meanwhile:
        assert meanwhile.remembered("letter", lambda: "b") == "a"
    writing.close()
    with environment.read() as after:
        assert after.remembered("letter", lambda: "c") == "a"


def test_what_is_made_of_a_commit_is_not_kept_for_one_before(environment):
    fill(environment, {b"a": b"1"})
    with environment.read() as before:
        fill(environment, {b"b": b"1"})
        with environment.read() as after:
            assert after.remembered("letter", lambda: "a") == "a"
        with environment.read() as again:
            assert again.remembered("letter", lambda: "b") == "a"
        assert before.remembered("letter", lambda: "c") == "c"
