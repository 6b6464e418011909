"""What the tests of damaged files share: stores, damage to them, and their repair."""

# mypy: allow-untyped-calls

from __future__ import annotations

import simdb

WORDS = simdb.Text(simdb.WordShingles(1))


def filled(path, count=200):
    """Make a store of so many texts, without the files beside it."""
    with simdb.open(path, threads=1) as database:
        texts = database.collection("c", WORDS, threshold=0.5, exact_floor=0.5, seed=1)
        texts.add_many((f"k{number}", f"text number {number} of many") for number in range(count))
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()


def damage_behind(path, table, prefix=b""):
    """Flip a bit at the end of a table's first value, past whoever has the store open."""
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.read() as transaction:
            content = bytes(next(transaction.scan(table, prefix))[1])
    changed = bytearray(content)
    changed[-1] ^= 1
    data = path.read_bytes().replace(content, bytes(changed))
    with path.open("r+b") as file:
        file.write(data)


def repaired(path):
    """Repair a store; return the report and what the new store holds."""
    new = path.with_name("new.simdb")
    report = simdb.repair(path, new, threads=1)
    with simdb.open(new, threads=1) as database:
        assert database.check(deep=True).sound
        return report, {
            name: {record.key: record.item for record in database[name].items()}
            for name in database
        }
