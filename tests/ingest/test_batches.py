"""Batches end by what rows become: items, their signatures and bucket keys, their metadata."""

from __future__ import annotations

import platform
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers.exact import memory
from simdb.batches.signer import Signer
from simdb.exact.order import SymbolOrder
from simdb.ingest import add
from simdb.ingest.rows import read_batches
from simdb.kinds import Kind
from simdb.kinds.fingerprints import FingerprintItems
from tests.support.processes import interpreted
from tests.support.record_stores import scored

MEMORY = 16 * 2**20  # of which a batch has 256 KiB, an eighth of the bytes that its rows become
WORDS = simdb.Text(simdb.WordShingles(1))
PRINT = simdb.Fingerprint(2_000, 2_000, square=8, border=2, functions=16, groups=1)

# Settings with which an item of a few bytes has many bucket keys, and what each of them weighs.
MANY_KEYS: list[tuple[Kind, Any, dict[str, Any], int]] = [
    (WORDS, str, {"bands": 512, "rows": 1}, (2 * 512 + 8 * 512) // 8),
    (
        simdb.Vector(1, "euclidean"),
        lambda number: [int(number) + 1],
        {"max_distance": 1, "bands": 512, "rows": 1},
        (2 * 512 + 8 * 512) // 8,
    ),
    (
        simdb.Fingerprint(400, 600, functions=1_024, groups=4, alignment="shift"),
        lambda number: [(5 * (number % 64), number // 64, 0)],
        {},
        (8 * 64 + 8 * 4_096) // 8,  # and a word of 64 bits for prints that have none
    ),
]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[simdb.Database]:
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1, memory=MEMORY) as db:
        yield db


@pytest.mark.parametrize(("kind", "item_of", "options", "weight"), MANY_KEYS)
def test_a_batch_ends_by_the_bucket_keys_of_its_items(database, kind, item_of, options, weight):
    collection = database.collection("c", kind, seed=1, **options)
    most = MEMORY // 64 // weight
    done: list[simdb.Progress] = []
    collection.add_many(((n, item_of(n)) for n in range(3 * most)), progress=done.append)
    sizes = np.diff([0, *(step.done for step in done)])
    assert sizes.max() <= most + 1
    assert sizes.max() >= most // 2


def test_work_on_stored_items_is_cut_by_their_bucket_keys(database, monkeypatch):
    collection = database.collection("c", WORDS, seed=1, threshold=0.5, bands=16, rows=1)
    collection.add_many((n, f"a b c{n % 40}") for n in range(120))
    asked: list[Callable[[], Any]] = [
        lambda: scored(collection.pairs()),
        lambda: scored(collection.join(collection, guarantee="probable")),
        lambda: scored(collection.pairs(since=118)),
        lambda: collection.check(deep=True).sound,
    ]
    expected = [ask() for ask in asked]
    told: list[int] = []

    def few(signer: Signer, most: int) -> int:
        told.append(most)
        return 3

    monkeypatch.setattr(Signer, "most_indexed", few)
    for ask, answer in zip(asked, expected, strict=True):
        told.clear()
        assert ask() == answer
        assert told
    done: list[simdb.Progress] = []
    collection.rebuild(threshold=0.6, progress=done.append)
    assert len([step for step in done if step.task == "signing"]) >= 39


def test_an_item_is_indexed_alone_if_its_keys_take_more_than_there_is(database):
    database.collection("c", WORDS, seed=1, threshold=0.5, bands=512, rows=1)
    database.collection("exact", WORDS, seed=1, threshold=None, exact_floor=0.5)
    for name, most, expected in (("c", 1, 1), ("c", 640, 1), ("c", 1_280, 2), ("exact", 5, 5)):
        with database[name]._opened() as opened:
            assert opened.signer.most_indexed(most) == expected


def test_a_print_weighs_its_minutiae_and_its_grid():
    items = FingerprintItems(PRINT)
    stored = [items.encode([(1, 2, 3)]), items.encode([(1, 2, 3), (4, 5, 6)])]
    words = -(-250 * 250 // 64)
    assert items.features(stored).grids.shape == (2, words)
    assert items.expands
    assert items.weights(stored).tolist() == [6 + words, 12 + words]
    squares = FingerprintItems(PRINT.changed(items="squares", measure="squares"))
    assert squares.weights([squares.encode([5])]).tolist() == [squares.width]
    assert not squares.expands


@pytest.mark.parametrize(
    ("limit", "most"), [("SAMPLED_BYTES", 30_000), ("SAMPLED_SYMBOLS", 50_000)]
)
def test_an_order_of_symbols_is_made_of_as_many_items_as_fit(database, monkeypatch, limit, most):
    """Of 40 bags of 20,000 occurrences, which are some bytes each, under a limit."""
    bags = database.collection("c", simdb.Bag("maximum"), threshold=None, exact_floor=0.5)
    bags.add_many((n, {f"e{n}": 20_000}) for n in range(40))
    monkeypatch.setattr(memory, limit, most)
    counted: list[int] = []
    from_sample = SymbolOrder.from_sample

    def noted(symbols: Any) -> SymbolOrder:
        counted.append(symbols.size)
        return from_sample(symbols)

    monkeypatch.setattr(SymbolOrder, "from_sample", noted)
    with bags._opened() as opened:
        memory.sampled_order(opened.reader, opened.signer.items)
    assert 20_000 <= counted[0] <= most + 20_000


def test_metadata_counts_in_a_batch(database):
    collection = database.collection("c", WORDS, seed=1)
    done: list[simdb.Progress] = []
    rows = [(n, f"text {n}", {"page": "x" * 500_000}) for n in range(20)]
    collection.add_many(rows, progress=done.append)
    assert len(done) >= 4  # of 256 KiB, eight bytes in each of them
    assert collection.get(7).metadata == {"page": "x" * 500_000}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (WORDS, lambda n: (n, f"text {n}", {"page": "x" * 300_000})),
        (simdb.Set(), lambda n: (n, {f"{n}" * 300_000, "b"})),
        (simdb.Bag("maximum"), lambda n: (n, {f"{n}" * 300_000: 2})),
        (
            simdb.Record([simdb.Field("a"), simdb.Field("b")], candidates=["a"]),
            lambda n: (n, {"a": None, "b": f"{n % 10}" * 60_000}),
        ),
        (simdb.Bits(2**21), lambda n: (n, 2 ** (2**21 - 1) + n)),
        (WORDS, lambda n: [n, f"text {n} " * 30_000]),
    ],
)
def test_rows_are_not_read_far_ahead_of_what_is_stored(kind, row):
    """Of rows of half a megabyte and more a few at a time are held, not 500."""
    ahead = 0

    def rows() -> Iterator[Any]:
        nonlocal ahead
        for number in range(40):
            ahead += 1
            yield row(number)

    for batch in read_batches(
        rows(), kind.make_items(bytes(32)), batch_items=10_000, batch_bytes=MEMORY // 64
    ):
        ahead -= len(batch.rows)
        assert not batch.bad
        assert ahead <= 8


def test_a_batch_ends_before_the_row_that_would_be_too_much(tmp_path):
    rows = [[n, f"{n} " + "x" * 100_000] for n in range(7)]  # lists are read one by one
    most = MEMORY // 64
    batches = list(
        read_batches(rows, WORDS.make_items(bytes(32)), batch_items=10_000, batch_bytes=most)
    )
    assert [len(batch.rows) for batch in batches] == [2, 2, 2, 1]
    assert all(batch.weight <= most for batch in batches)


class Elements(frozenset[str]):
    """A set of which can be told whether anything holds it."""


@pytest.mark.parametrize("how", [{}, {"policy": "longest"}, {"on_existing": "replace"}])
def test_bad_rows_do_not_keep_their_items(database, monkeypatch, how):
    monkeypatch.setattr(add, "BATCH_ITEMS", 40)
    collection = database.collection("c", simdb.Set(), seed=1)
    handed: list[weakref.ref[Elements]] = []
    held: list[int] = []

    def rows() -> Iterator[Any]:
        for number in range(150):
            item = Elements(f"e{number + place}" for place in range(500))
            handed.append(weakref.ref(item))
            yield None, item
            held.append(sum(one() is not None for one in handed))

    store = collection.dedupe if how else collection.add_many
    assert store(rows(), on_bad="skip", **how).bad == 150
    assert max(held) <= 20  # those that are being read, and one of a batch


def test_a_batch_ends_by_what_is_told_of_bad_rows():
    rows = [ValueError("long " * 100_000) for _ in range(40)]
    found = read_batches(rows, WORDS.make_items(bytes(32)), batch_items=100, batch_bytes=2**18)
    assert [len(batch.bad) for batch in found] == [5] * 8


def test_what_duplicates_a_row_of_an_earlier_batch_came_with_the_input(database, monkeypatch):
    monkeypatch.setattr(add, "BATCH_ITEMS", 2)
    collection = database.collection("c", WORDS, seed=1)
    collection.add("old", "d e f")
    rows = [(1, "a b c"), (2, "x y z"), (3, "a b c"), (4, "d e f")]
    report = collection.add_many(rows, on_duplicate="skip")
    assert (report.duplicates_new, report.duplicates_old) == (1, 1)
    assert [(found.key, found.within_input) for found in report.duplicates] == [
        (3, True),
        (4, False),
    ]


def test_stats_tell_the_bytes_of_the_index_that_an_item_takes(database):
    collection = database.collection("c", WORDS, seed=1)
    collection.add_many((n, f"text {n}") for n in range(50))
    index = collection.stats()["index"]
    assert index["bytes_per_item"] == (index["bucket_bytes"] + index["signature_bytes"]) / 50
    assert 0 < index["bucket_bytes"] / 50 < index["bytes_per_item"]


TWO_LOADS = """
import resource, sys
import pyarrow, simdb

texts = [f"{number} of many texts " + " ".join(map(str, range(number, number + 60)))
         for number in range(10_000)]
table = pyarrow.table({"key": range(len(texts)), "text": texts})
with simdb.open(sys.argv[1], threads=1, sync="batch") as database:
    for name in "ab":
        collection = database.collection(name, simdb.Text(), threshold=0.8)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        collection.add_many(table, key="key", item="text")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of its allocator")
def test_memory_is_not_given_back_between_batches_to_be_fetched_anew(tmp_path):
    _, second = map(int, interpreted(TWO_LOADS, tmp_path / "s.simdb").stdout.split())
    assert second < 500  # pages; 2,000 where each batch fetches its own
