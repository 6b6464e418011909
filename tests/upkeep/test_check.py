"""check: sound stores are called sound, and what contradicts itself is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdb
from simdb.batches.signer import Signer
from simdb.opened import catalogue
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.file.environment import Environment
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, collection_key, owner_prefix
from simdb.upkeep import check
from tests.support.strategies import SURE, set_text

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def database(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, set_text(range(number, number + 9))) for number in range(50))
        collection.add_many([("empty", ""), ("blank", " . ")])
        collection.delete_many([3, 40])
        yield db


def writer_of(db: Any) -> Any:
    environment: Environment = db._handle.environment
    transaction = environment.write(1)
    settings = catalogue.require_settings(transaction, "c")
    return transaction, CollectionWriter(transaction, settings.number), settings


def problems(db: Any, *, deep: Any = False) -> Any:
    report = db.check(deep=deep)
    assert not report.sound
    return {(problem.table, problem.problem) for problem in report.problems}


def test_a_sound_store_is_called_sound(database):
    told: list[simdb.Progress] = []
    for deep in (False, True):
        report = database.check(deep=deep, progress=told.append)
        assert report.sound
        assert report.problems == ()
        assert report.records > 50 * 40
    assert told
    assert database["c"].check() == database.check()


def test_an_empty_store_is_sound(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        assert db.check(deep=True) == simdb.CheckReport(0, ())
        db.collection("c", WORDS)
        assert db.check(deep=True).sound


def test_a_key_that_leads_to_another_item_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        prefix = owner_prefix(writer.number)
        name = next(bytes(key) for key, _ in transaction.scan(Table.KEYS, prefix))
        value = layout.seal(Table.KEYS, name, (17).to_bytes(4, "little"))
        transaction.put(Table.KEYS, name, value)
    assert ("keys", "the key of the item does not lead to it") in problems(database)


def test_a_key_without_an_item_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        name = owner_prefix(writer.number) + b"\x02surplus"
        transaction.put(Table.KEYS, name, layout.seal(Table.KEYS, name, bytes(4)))
    assert ("keys", "51 keys for 50 items") in problems(database)


def test_wrong_counts_in_the_state_are_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        writer.manifest.item_bytes += 1
        writer.save()
    found = problems(database)
    assert any(table == "documents" and "the state says" in text for table, text in found)


def test_a_changed_record_is_found_by_its_checksum_and_the_rest_is_still_checked(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        prefix = owner_prefix(writer.number)
        key, value = next(transaction.scan(Table.DOCUMENTS, prefix))
        key, changed = bytes(key), bytearray(value)
        changed[-1] ^= 1
        transaction.put(Table.DOCUMENTS, key, bytes(changed))
    report = database.check()
    assert any(p.table == "documents" and "damaged" in p.problem for p in report.problems)
    assert report.records > 50 * 40


def test_an_entry_in_a_foreign_bucket_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        index = writer.index_writer(writer.manifest.index)
        index.bands.append(np.array([12345], np.uint64), np.array([[7]], np.uint32), 7, 7)
        writer.save()
    found = problems(database)
    assert ("bands", "an entry does not belong to the item") in found
    assert any("expected" in text for _, text in found)


def test_a_signature_of_another_text_is_found_only_by_a_deep_check(database):
    collection = database["c"]
    transaction, writer, settings = writer_of(database)
    with transaction:
        signed = Signer(settings).sign([b"quite another text"])
        number = np.array([writer.take_numbers(1)], np.uint32)
        from simdb.ingest.add import insert_rows
        from simdb.ingest.rows import read_batches

        writer.manifest.next_number -= 1
        batch = next(
            iter(
                read_batches(
                    [("odd", "what is stored")],
                    Signer(settings).items,
                    batch_items=1,
                    batch_bytes=1,
                )
            )
        )
        assert insert_rows(writer, batch, signed, [0]) == int(number[0])
        writer.save()
    assert len(collection) == 51
    assert database.check().sound
    assert problems(database, deep=True) == {("signatures", "is not the signature of the item")}
    collection.rebuild()
    assert database.check(deep=True).sound


def test_a_deep_check_signs_few_bytes_of_items_at_once(tmp_path, monkeypatch):
    """Of a block of signatures, whose items may have any size."""
    monkeypatch.setattr(check, "RECOMPUTED_BYTES", 20_000)
    signed: list[int] = []
    sign = Signer.sign

    def noted(self: Signer, items: Any, *others: Any) -> Any:
        signed.append(sum(map(len, items)))
        return sign(self, items, *others)

    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", WORDS, **SURE).add_many((n, f"{n} " * 2_000) for n in range(10, 40))
        monkeypatch.setattr(Signer, "sign", noted)
        assert db.check(deep=True).sound
    assert sum(signed) == 30 * 6_000
    assert max(signed) <= 20_000


@pytest.mark.parametrize(
    ("kind", "error"),
    [(5, simdb.CorruptionError), ({"kind": "unknown"}, simdb.UnknownKindError)],
)
def test_settings_that_cannot_be_read_are_a_problem_not_an_error(database, kind, error):
    transaction, writer, settings = writer_of(database)
    with transaction:
        key = collection_key("c")
        payload = layout.pack({"number": settings.number, "kind": kind})
        transaction.put(Table.META, key, layout.seal(Table.META, key, payload))
        assert writer.number == settings.number
    report = database.check()
    assert [(problem.table, problem.record) for problem in report.problems] == [("meta", "c")]
    with pytest.raises(error, match="'c'"):
        database["c"]
