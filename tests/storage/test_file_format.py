"""docs/file-format.md says what the code writes, and stores of every released format are read."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import re
import shutil
import uuid
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import simdb
from simdb import kinds
from simdb.opened.catalogue import CollectionSettings
from simdb.storage.collection.manifest import (
    COLUMNS,
    EpochManifest,
    ExactManifest,
    IndexManifest,
    Manifest,
)
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file import creation, log
from simdb.storage.file import environment as environments
from simdb.storage.tables import layout, runs
from simdb.storage.tables.blocks import BlockWriter, Tail
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import Merge, Run, RunDirectory
from tools import make_golden

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENT = CHECKOUT / "docs" / "file-format.md"
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("format-*.simdb"))


def document(key: bytes, item: bytes, metadata: bytes) -> bytes:
    return layout.DOCUMENT_HEADER.pack(len(item), len(key)) + key + item + metadata


# -- the examples of the document ------------------------------------------------------------------


def documented():
    """Return the examples of the document: name to bytes."""
    blocks = re.findall(
        r"^```hex (.+)\n((?:.*\n)*?)```$", DOCUMENT.read_text("utf-8"), re.MULTILINE
    )
    return {
        name: bytes.fromhex("".join(line.split("|")[0] for line in body.splitlines()))
        for name, body in blocks
    }


def sealed(table, key, payload):
    return layout.seal(table, key, payload)


def block_of(tmp_path, table, owner, *, width, numbers, records):
    """Return the value that a block writer stores."""
    store = environments.acquire(
        tmp_path / f"{table.name}.simdb", read_only=False, sync="batch", map_size=None
    )
    with store.write(1) as transaction:
        writer = BlockWriter(transaction, table, owner, Tail(), width=width)
        writer.append(np.array(numbers, np.uint32), records)
        value = transaction.get(table, layout.pack_numbered(owner, numbers[0]))
        assert value is not None
        stored = bytes(value)
    environments.release(store)
    return stored


def header_payload():
    return layout.pack(
        {
            "magic": creation.MAGIC,
            "format": creation.FORMAT_VERSION,
            "uuid": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
            "lmdb": [0, 9, 36],
            "created_by": "simdb-store 0.1.0",
        }
    )


def settings_payload():
    return CollectionSettings(
        name="news",
        number=1,
        kind=simdb.Text(simdb.CharacterShingles(9)),
        threshold=Fraction(4, 5),
        recall=Fraction(99, 100),
        bands=16,
        rows=6,
        sketch="fast",
        secret=bytes(range(32)),
        unicode_version="14.0.0",
    ).encode()


def state():
    runs = [
        Run(770, 2, 40, 3, 24, 0, 0, 1, merge=769),
        Run(772, 0, 0, 1, 32, 16, 2, 2, merge=769),
    ]
    output = Run(773, 0, 0, 1, 24, 16, 0, 2, merge=769, is_output=True)
    bands = RunDirectory(774, [output, *runs], [Merge(769, 64)])
    index = IndexManifest(2, 192, 16, bands, [(0, 416), (2, 216)])
    return Manifest(3, 2, 1, 26, 4, index, [(0, 164)])


def exact():
    epoch = EpochManifest(3, 2, 9, 0, RunDirectory(1_024, [Run(1_024, 0, 0, 1, 2, 0, 0, 1)], []))
    return ExactManifest(epoch, None, [], 2, 2, 1, 0.5, 0.5)


def examples(tmp_path):
    """Return what the code writes for every example of the document."""
    documents = [
        document(layout.encode_user_key("a1"), b"caf\xc3\xa9", b""),
        document(layout.encode_user_key(7), b"tea", layout.pack({"n": 1})),
    ]
    chunk_key = layout.pack_chunk(2, 772, 0)
    posting_key = layout.pack_chunk(3, 1_024, 0)
    number_name = layout.owner_prefix(1) + layout.encode_user_key("a1")
    bitmap = bytearray(1_024)
    bitmap[0] = 0b10
    marks_key = layout.pack_numbered(1, 0)
    symbols_key = layout.pack_numbered(3, 0)
    return {
        "key of the header": layout.HEADER_KEY,
        "key of settings": layout.collection_key("news"),
        "key of a manifest": layout.manifest_key(1),
        "key of the garbage": layout.GARBAGE_KEY,
        "key of a block": layout.pack_numbered(1, 300),
        "key of a text": layout.owner_prefix(1) + layout.encode_user_key("a1"),
        "key of an integer": layout.owner_prefix(1) + layout.encode_user_key(-2),
        "key of a chunk": chunk_key,
        "key of a segment": log.segment_key(7),
        "head": log.encode(
            log.HEAD_KEY,
            log.Place(300, 5, 8, 8_192),
            [
                (Table.KEYS, layout.owner_prefix(1) + layout.encode_user_key("a11"), None),
                (Table.BANDS, layout.owner_prefix(2), b"\1\2\3"),
            ],
        ),
        "header": sealed(Table.META, layout.HEADER_KEY, header_payload()),
        "settings": sealed(Table.META, layout.collection_key("news"), settings_payload()),
        "manifest": sealed(Table.META, layout.manifest_key(1), state().encode()),
        "exact manifest": exact().encode(),
        "garbage": sealed(Table.META, layout.GARBAGE_KEY, layout.pack([[5, 2], [6, 2]])),
        "group of an item": sealed(
            Table.META,
            layout.owner_prefix(1) + b"i" + bytes([0, 0, 0, 0, 5]),
            (7).to_bytes(8, "little"),
        ),
        "item number": sealed(Table.KEYS, number_name, (0).to_bytes(4, "little")),
        "document": documents[0],
        "block of documents": block_of(
            tmp_path, Table.DOCUMENTS, 1, width=0, numbers=[0, 2], records=documents
        ),
        "block of signatures": block_of(
            tmp_path,
            Table.SIGNATURES,
            2,
            width=4,
            numbers=[0, 1, 2],
            records=[b"\1\0\2\0", b"\3\0\4\0", b"\5\0\6\0"],
        ),
        "first marks": sealed(Table.MARKS, marks_key, bytes(bitmap))[:16],
        "chunk": runs.encode_chunk(
            Table.BANDS,
            chunk_key,
            np.array([0x1122334455667788, 2**64 - 1], np.uint64),
            np.array([[2, 1]], np.uint32),
        ),
        "postings": runs.encode_chunk(
            Table.POSTINGS,
            posting_key,
            np.array([5, 9], np.uint64),
            np.array([[3, 4], [1, 2], [0, 1]], np.uint32),
        ),
        "symbols": sealed(Table.SYMBOLS, symbols_key, np.array([9, 5], np.uint64).tobytes()),
    }


def test_every_example_of_the_document_is_what_the_code_writes(tmp_path):
    written = examples(tmp_path)
    read = documented()
    assert set(read) == set(written)
    for name, data in written.items():
        assert read[name].hex(" ") == data.hex(" "), name


def test_the_example_of_the_manifest_can_be_read():
    payload = memoryview(documented()["manifest"])[8:]
    decoded = Manifest.decode(payload)
    assert decoded.encode() == state().encode()
    assert [run.number for run in decoded.index.bands.runs] == [773, 770, 772]


def test_the_document_names_every_table_with_its_number():
    text = DOCUMENT.read_text("utf-8")
    for table in Table:
        assert re.search(rf"^\| {table.value} \| `{table.name.lower()}` ", text, re.MULTILINE), (
            table
        )


def test_the_document_names_the_present_format_and_every_field():
    text = DOCUMENT.read_text("utf-8")
    assert f"format {creation.FORMAT_VERSION}" in text
    assert f"{COLUMNS} columns" in text
    for name in [*layout.unpack(header_payload()), *layout.unpack(settings_payload())]:
        assert f"`{name}`" in text, name
    for described in (
        Run,
        Merge,
        RunDirectory,
        IndexManifest,
        Manifest,
        EpochManifest,
        ExactManifest,
    ):
        for name in described.__struct_fields__:
            assert f"`{name}`" in text, (described, name)


def test_the_header_of_a_new_store_has_the_documented_fields():
    assert list(creation.new_header((0, 9, 36))) == list(layout.unpack(header_payload()))


# -- golden stores ---------------------------------------------------------------------------------


def test_there_is_a_golden_store_of_the_present_format():
    assert f"format-{creation.FORMAT_VERSION}.simdb" in [path.name for path in GOLDEN]
    assert all(path.stat().st_size <= make_golden.LARGEST_FILE for path in GOLDEN)


@pytest.fixture(params=GOLDEN, ids=[path.stem for path in GOLDEN])
def golden(request, tmp_path):
    """A copy of a golden store, and what it must answer."""
    copy = tmp_path / request.param.name
    shutil.copyfile(request.param, copy)
    return copy, {"collections": written(request.param.with_suffix(".json"))["collections"]}


def written(path):
    """What a golden store must answer; settings that kinds got later have their defaults."""
    expected = json.loads(path.read_text("utf-8"))
    for collection in expected["collections"].values():
        collection["kind"] = repr(
            eval(collection["kind"], {name: getattr(kinds, name) for name in kinds.__all__})
        )
    return expected


def test_a_golden_store_answers_what_it_answered_when_it_was_made(golden):
    path, expected = golden
    with simdb.open(path, read_only=True) as database:
        assert database.check(deep=True).problems == ()
        assert make_golden.contents(database) == expected


def test_a_golden_store_finds_each_of_its_items(golden):
    path, expected = golden
    with simdb.open(path, read_only=True) as database:
        for name, collection in expected["collections"].items():
            for key, item, _ in collection["items"]:
                matches = {match.key: match for match in database[name].search(item)}
                if item:
                    found = matches[key]
                    assert found.distance == 0 or found.similarity in (1, 1 / 2, 2 / 3)


def test_a_golden_store_is_worked_with_like_a_new_one(golden):
    path, expected = golden
    with simdb.open(path) as database:
        for name, collection in expected["collections"].items():
            texts = database[name]
            before = len(texts)
            copies = [item for _, item, _ in collection["items"]]
            texts.add_many((f"copy of {number}", item) for number, item in enumerate(copies))
            assert len(texts) == before + len(copies)
            pairs = {(pair.left, pair.right) for pair in texts.pairs()}
            for number, (key, item, _) in enumerate(collection["items"]):
                assert not item or (key, f"copy of {number}") in pairs
            texts.delete_many(key for key, _, _ in collection["items"])
            texts.compact()
        assert database.check(deep=True).problems == ()
    with simdb.open(path, read_only=True) as database:
        assert database.check(deep=True).problems == ()


def test_a_golden_store_has_what_makes_it_worth_keeping(golden):
    _, expected = golden
    collections = expected["collections"].values()
    items = [item for collection in collections for item in collection["items"]]
    assert len({collection["kind"] for collection in collections}) >= 2
    assert {type(key) for key, _, _ in items} == {int, str}
    assert any(metadata for _, _, metadata in items)
    assert any(isinstance(item, str) and not item.isascii() for _, item, _ in items)
    assert any(collection["runs"] > 1 for collection in collections)
    assert any(collection["stats"]["deleted_not_yet_dropped"] for collection in collections)
    assert all(collection["pairs"] for collection in collections)


def test_the_maker_makes_the_same_contents_again(tmp_path, capsys):
    assert make_golden.main(["--folder", str(tmp_path)]) == 0
    assert "format-" in capsys.readouterr().out
    made = json.loads(next(tmp_path.glob("*.json")).read_text("utf-8"))
    assert made == written(GOLDEN[-1].with_suffix(".json"))


def test_the_last_golden_store_has_documents_compressed_by_a_dictionary_and_not(tmp_path):
    copy = shutil.copyfile(GOLDEN[-1], tmp_path / "s.simdb")
    with simdb.open(copy, read_only=True) as database, database._handle.read() as transaction:
        settings = database["archive"]._present.settings
        reader = CollectionReader(transaction, settings.number)
        found = list(reader.documents.scan())
        records = [block.record(place) for block in found for place in range(block.numbers.size)]
        assert settings.compression == "zstd"
        assert reader.codec().dictionary
        assert {record[5] for record in records} == {0, layout.BY_DICTIONARY}
