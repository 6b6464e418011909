"""What the tests of the open file share."""

# mypy: allow-untyped-calls

from __future__ import annotations

from simdb.storage.file import environment as environments
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables.layout import Table

MIB = 2**20


def acquire(path, *, read_only=False, sync="batch", map_size=None, busy_timeout=10):
    return environments.acquire(
        path, read_only=read_only, sync=sync, map_size=map_size, busy_timeout=busy_timeout
    )


def put(environment, key, value=b"value", timeout=10):
    with environment.write(timeout) as transaction:
        transaction.put(Table.KEYS, key, value)


def record_count(transaction: ReadTransaction, table: Table) -> int:
    """How many records a table has."""
    return sum(1 for _ in transaction.scan(table, b""))


def get(environment, key):
    with environment.read() as transaction:
        value = transaction.get(Table.KEYS, key)
        return None if value is None else bytes(value)
