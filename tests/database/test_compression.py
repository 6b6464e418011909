"""Compressed documents: the same answers in fewer bytes, and nothing else."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from typer.testing import CliRunner

import simdb
from simdb import zstandard
from simdb.cli.app import app
from simdb.errors import ConfigurationError, CorruptionError
from simdb.opened.catalogue import CollectionSettings
from simdb.ragged import ByteStrings
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables import blocks, layout
from simdb.storage.tables.layout import Table
from simdb.upkeep import repack
from simdb.zstandard import Codec
from tests.support.damage import damage_behind, repaired
from tests.support.kind_cases import CASES

Compression = Literal["zstd"] | None
BOTH: tuple[Compression, ...] = (None, "zstd")
FOLDED = 600  # so many rows are not written to the log
VOCABULARY = [f"word{number:x}" for number in range(200)]


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    monkeypatch.setattr(zstandard, "LEAST_SAMPLE", 2**13)


def rows_of(count: int = 120) -> list[tuple[int, str, dict[str, int] | None]]:
    drawn = random.Random(4)
    texts = [" ".join(drawn.choices(VOCABULARY, k=30)) for _ in range(count // 2)]
    texts += [f"{text} and one more" for text in texts]
    return [(n, text, {"n": n} if n % 2 else None) for n, text in enumerate(texts)]


def open_texts(database: simdb.Database, compression: Compression = "zstd") -> simdb.Collection:
    return database.collection("c", simdb.Text(), threshold=0.6, seed=1, compression=compression)


def filled(path: Path) -> None:
    """Make a store in a large commit and a few small ones, without the files beside it."""
    with simdb.open(path, threads=1) as database:
        texts = open_texts(database)
        texts.add_many(rows_of(FOLDED))
        texts.add("alone", rows_of()[0][1] + " of one commit", metadata={"m": "x" * 50})
        texts.add("short", "a")
        texts.replace(7, "another text " * 9)
        texts.delete_many([8, 9])
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()


def answers_of(texts: simdb.CollectionView) -> list[object]:
    entries = [(entry.key, entry.item, entry.metadata) for entry in texts.items()]
    pairs = sorted((str(pair.left), str(pair.right), pair.value) for pair in texts.pairs())
    found = [[match.key for match in texts.search(text)] for _, text, _ in rows_of()[:9]]
    return [entries, pairs, found, texts.get(1), texts.stats()["item_bytes"]]


def test_answers_are_those_of_the_same_collection_without_compression(tmp_path):
    answers, sizes = [], []
    for compression in BOTH:
        with simdb.open(tmp_path / f"{compression}.simdb", threads=2) as database:
            texts = open_texts(database, compression)
            texts.add_many(rows_of())
            texts.dedupe([("d", rows_of()[3][1]), ("e", "is like no other")], threshold=0.6)
            texts.replace(5, "instead of it")
            texts.delete(6)
            sizes.append(sum(len(value) for value in documents_of(database)))
            texts.rebuild(threshold=0.5)
            texts.compact()
            assert texts.stats()["settings"]["compression"] == compression
            assert database.check(deep=True).sound
            answers.append(answers_of(texts))
    assert answers[0][:3] == answers[1][:3]
    assert sizes[1] < 0.6 * sizes[0]


def documents_of(database: simdb.Database) -> list[bytes]:
    with database._handle.read() as transaction:
        return [bytes(value) for _, value in transaction.scan(Table.DOCUMENTS, b"")]


def test_backups_and_dumps_and_repaired_stores_are_compressed_and_equal(tmp_path, path):
    filled(path)
    with simdb.open(path) as database:
        expected = answers_of(database["c"])
        database.backup(tmp_path / "backup.simdb")
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "loaded.simdb")
    assert simdb.repair(path, tmp_path / "repaired.simdb").complete
    for name in ("backup", "loaded", "repaired"):
        with simdb.open(tmp_path / f"{name}.simdb") as database:
            texts = open_texts(database)
            assert answers_of(texts) == expected
            (document,) = (value for value in documents_of(database) if len(value) > 2_000)
            assert b"another text another text" not in document


@pytest.mark.parametrize("name", CASES)
def test_items_of_every_kind_come_back_or_are_refused_by_name(name, path):
    case = CASES[name]
    kind, rows = case.kind, list(enumerate(case.many(np.random.default_rng(5))))[:60]
    with simdb.open(path, threads=1) as database:
        if kind.make_items(b"secret").width:
            with pytest.raises(ConfigurationError, match="cannot be compressed"):
                database.collection("c", kind, **case.bound, compression="zstd")
            assert database.collection_names() == []
            return
        for compression in (None, "zstd"):
            made = database.collection(
                str(compression), kind, **case.bound, compression=compression
            )
            made.add_many(rows)
        plain, packed = (
            [(entry.key, repr(entry.item)) for entry in database[one].items()] for one in database
        )
        assert plain == packed


def test_other_names_and_other_settings_than_stored_are_refused(path):
    with simdb.open(path, threads=1) as database:
        with pytest.raises(
            ConfigurationError, match="compression must be 'zstd' or None, not 'gz'"
        ):
            database.collection("c", simdb.Text(), compression="gz")  # type: ignore
        settings = open_texts(database)._present.settings.encode()
        with pytest.raises(ConfigurationError, match="compression is zstd, not None"):
            open_texts(database, None)
    stored = layout.unpack(settings) | {"compression": "later"}
    with pytest.raises(CorruptionError, match="knows no compression 'later'"):
        CollectionSettings.decode("c", layout.pack(stored))


def test_the_first_large_batch_makes_the_only_dictionary(path, monkeypatch):
    rows = rows_of()
    with simdb.open(path, threads=1) as database:
        texts = open_texts(database)
        texts.add_many(rows[:2])
        number = texts._present.settings.number
        assert dictionaries(database, number) == []
        texts.add_many(rows[2:])
        first = dictionaries(database, number)
        assert len(first) == 2
        assert first[0][8:] == first[1][8:]
        monkeypatch.setattr(zstandard, "trained", lambda _: b"another writer's")
        with database._handle.write() as transaction:
            CollectionWriter(transaction, number).add_dictionary(b"too late")
        assert dictionaries(database, number) == first
        database.drop_collection("c")
        assert dictionaries(database, number) == []


def dictionaries(database: simdb.Database, collection: int) -> list[bytes]:
    with database._handle.read() as transaction:
        found = transaction.get_many(Table.META, layout.dictionary_keys(collection))
        return [bytes(value) for _, value in found]


def test_who_knew_a_collection_of_before_writes_what_the_new_one_can_read(path):
    with simdb.open(path, threads=1) as database, simdb.open(path, threads=1) as other:
        for compression in ("zstd", "zstd", None, "zstd"):
            known = open_texts(database, compression)
            known.add_many(rows_of())
            other.drop_collection("c")
            made = open_texts(other, "zstd" if compression is None else None)
            known.add_many(rows_of())
            assert [entry.item for entry in made.items()] == [text for _, text, _ in rows_of()]
            assert database.check(deep=True).sound
            other.drop_collection("c")


def test_what_was_compressed_for_a_dropped_collection_is_compressed_again(path):
    texts = [text for _, text, _ in rows_of(500)]

    def rows(other: simdb.Database) -> Iterator[tuple[int, str]]:
        yield from enumerate(texts)
        yield from enumerate(texts)  # ends the first batch, which is compressed
        other.drop_collection("c")
        open_texts(other)
        yield from enumerate(texts, 1_000)

    with simdb.open(path, threads=2) as database, simdb.open(path, threads=1) as other:
        open_texts(database).add_many(rows(other), on_existing="skip")
        assert [entry.item for entry in database["c"].items()] == texts * 2
        assert database.check(deep=True).sound


def test_a_damaged_record_is_told_and_lost_alone(path):
    filled(path)
    damage_behind(path, Table.DOCUMENTS)
    with simdb.open(path, threads=1) as database:
        assert {problem.table for problem in database.check().problems} == {"documents"}
        with pytest.raises(CorruptionError, match="damaged"):
            list(database["c"].items())
    report, found = repaired(path)
    assert report.collections[0].lost == 1
    assert report.collections[0].items == len(found["c"]) == FOLDED - 1


@pytest.mark.parametrize("copy", [0, 1])
def test_a_damaged_dictionary_is_told_and_repaired_from_its_copy(path, copy):
    filled(path)
    damage_behind(path, Table.META, layout.dictionary_keys(1)[copy])
    with simdb.open(path, threads=1) as database:
        assert "meta" in {problem.table for problem in database.check().problems}
        if copy == 0:
            with pytest.raises(CorruptionError, match="a record of table 0 is damaged"):
                database["c"].get(1)
        else:
            assert database["c"].get(1).item == rows_of(FOLDED)[1][1]
    report, found = repaired(path)
    assert report.complete
    assert len(found["c"]) == FOLDED


SIZE = 2**24


@pytest.mark.parametrize("told", [0, 50, SIZE - layout.LARGEST_METADATA - 1, 2**32 - 1])
def test_a_record_that_is_larger_or_smaller_than_it_says_is_told(told):
    (frame,) = Codec().frames(iter([bytes(SIZE)]))
    column, flags = ByteStrings.of([frame]), np.array([layout.ALONE], np.uint8)
    keys = ByteStrings.of([layout.encode_user_key("k")])
    record = layout.packed_records(keys, column, flags, np.array([told]))[0]
    tracemalloc.start()
    for broken in (record, record[:-1], record[:9]):
        with pytest.raises(CorruptionError, match="item number 7"):
            layout.decode_document(7, broken)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told > 50 or peak < 4 * 2**20


def test_the_command_makes_a_compressed_collection_and_shows_it(path):
    def done(*words: str) -> str:
        result = CliRunner().invoke(app, [words[0], str(path), "c", *words[1:]])
        assert result.exit_code == 0, result.output
        return result.output

    done("create", "--kind", "text", "--compression", "zstd")
    assert "zstd" in done("stats")
    done("rebuild", "--drop-compression")
    assert "zstd" not in done("stats")
    done("rebuild", "--compression", "zstd")
    assert "zstd" in done("stats")


@pytest.fixture
def small_steps(monkeypatch):
    monkeypatch.setattr(repack, "STEP_BYTES", 2**14)
    monkeypatch.setattr(blocks, "TARGET_BYTES", 2**12)


def forms_of(texts: simdb.Collection) -> set[bool]:
    """Whether stored documents are frames; the index must be the first that was made."""
    with texts._handle.read() as transaction:
        reader = CollectionReader(transaction, texts._present.settings.number)
        assert reader.manifest.index.number == 1
        found = list(reader.documents.scan())
        records = [block.record(place) for block in found for place in range(block.numbers.size)]
        return {record[5] >= layout.BY_DICTIONARY for record in records}


@pytest.mark.usefixtures("small_steps")
def test_a_rebuild_compresses_and_takes_it_back_while_others_write(path):
    rows: dict[simdb.Key, str] = {key: text for key, text, _ in rows_of(300)}
    with simdb.open(path, threads=1) as database:
        texts = open_texts(database, None)
        texts.add_many(rows_of(300))
        for compression in BOTH[::-1]:
            done: list[int] = []
            for number in range(5):  # small blocks at the end, which are joined in time
                key, text = f"{compression} {number}", f"one by one, number {number} " * 9
                rows[key] = text
                texts.add(key, text)

            def change(told: simdb.Progress, done: list[int] = done) -> None:
                done.append(told.done)
                if len(done) == 2:
                    key = next(iter(rows))
                    texts.delete(key)
                    rows[key] = rows.pop(key) + " of late"
                    texts.add(key, rows[key])

            texts.rebuild(
                compression=compression, drop_compression=compression is None, progress=change
            )
            assert len(done) > 3
            assert texts.stats()["settings"]["compression"] == compression
            assert forms_of(texts) == {compression is not None}
            assert {entry.key: entry.item for entry in texts.items()} == rows
            assert database.check(deep=True).sound
        assert len(dictionaries(database, texts._present.settings.number)) == 2


@pytest.mark.usefixtures("small_steps")
def test_a_rebuild_that_is_cut_off_leaves_documents_of_both_forms(path):
    def stop(_: simdb.Progress) -> None:
        raise ZeroDivisionError

    with simdb.open(path, threads=1) as database, simdb.open(path, threads=1) as other:
        texts = open_texts(database, None)
        texts.add_many(rows_of(300))
        before = answers_of(texts)
        for drop in (False, True):
            with pytest.raises(ZeroDivisionError):
                texts.rebuild(
                    compression=None if drop else "zstd", drop_compression=drop, progress=stop
                )
            assert forms_of(texts) == {False, True}
            assert texts.stats()["settings"]["compression"] == "zstd"
            assert answers_of(texts) == before
            assert database.check(deep=True).sound
            texts.rebuild(compression="zstd")
            assert forms_of(texts) == {True}
        with pytest.raises(simdb.StorageError, match="the rebuild was cancelled"):
            texts.rebuild(
                compression="zstd", progress=lambda _: other["c"].rebuild(drop_compression=True)
            )
        assert answers_of(texts) == before


@pytest.mark.parametrize(
    ("kind", "item_of", "most"),
    [
        (simdb.Text(), lambda number: f"{number} of many " * 1_000, 2),
        (simdb.Set(), lambda number: {number % 9}, 2**14 // repack.DOCUMENT_BYTES + 1),
        (simdb.Set(), lambda _: set(), 2**14 // repack.DOCUMENT_BYTES + 1),
    ],
)
def test_a_step_ends_within_a_block(path, monkeypatch, kind, item_of, most):
    """Of which frames have few bytes, or documents have few."""
    monkeypatch.setattr(repack, "STEP_BYTES", 2**14)
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", kind, threshold=0.6, seed=1, compression="zstd")
        collection.add_many((n, item_of(n), {"n": n} if n % 2 else None) for n in range(90))
        collection.delete_many([0, 1, 50, 89])
        expected = list(collection.items())
        for compression in BOTH * 2:
            steps: list[simdb.Progress] = []
            collection.rebuild(
                compression=compression,
                drop_compression=compression is None,
                progress=steps.append,
            )
            done = [step.done for step in steps]
            assert done[-1] == len(expected) == 86
            assert np.diff([0, *done]).max() <= most
            assert list(collection.items()) == expected
            assert database.check(deep=True).sound


def test_a_dictionary_is_trained_on_a_bounded_number_of_items(path, monkeypatch):
    monkeypatch.setattr(repack, "MOST_SAMPLED", 20)
    sampled: list[int] = []
    trained = zstandard.trained

    def noted(records: ByteStrings) -> bytes:
        sampled.append(len(records))
        return trained(records)

    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", simdb.Set(), threshold=0.6, seed=1)
        collection.add_many((number, {number}) for number in range(399))
        monkeypatch.setattr(zstandard, "trained", noted)
        collection.rebuild(compression="zstd")
    assert sampled == [21]


def test_what_cannot_be_compressed_is_refused_before_anything_is_done(path):
    with simdb.open(path, threads=1) as database:
        texts = open_texts(database)
        bits = database.collection("bits", simdb.Bits(8), max_distance=1)
        for collection, changes, told in (
            (bits, {"compression": "zstd"}, "cannot be compressed"),
            (texts, {"compression": "gz"}, "must be 'zstd' or None"),
            (texts, {"compression": "zstd", "drop_compression": True}, "contradicts"),
        ):
            before = collection.stats()["settings"]
            with pytest.raises(ConfigurationError, match=told):
                collection.rebuild(**changes)
            assert collection.stats()["settings"] == before
