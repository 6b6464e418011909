"""Metadata that cannot be stored is refused at once, however it is put together."""

# mypy: allow-untyped-calls

from __future__ import annotations

import time
from typing import Any

import msgpack
import pytest

from simdb.errors import BadItemError
from simdb.ingest import rows
from simdb.storage.tables import layout
from tests.support import guarded_stores

database = guarded_stores.database
collection = guarded_stores.collection

LIMIT = layout.LARGEST_METADATA
PATIENCE = 30.0  # seconds; each of these took minutes, or for ever


def twice_itself() -> Any:
    value: list[Any] = []
    value.extend([value, value])
    return value


def map_of_itself() -> Any:
    value: dict[str, Any] = {}
    value.update(a=value, b=value)
    return value


def doubled(times: int) -> Any:
    value: Any = [1]
    for _ in range(times):
        value = [value, value]
    return value


def spread(depth: int, width: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value] * width
    return value


ENDLESS = {
    "a list twice in itself": twice_itself,
    "a map twice in itself": map_of_itself,
    "50 levels of a pair of one list": lambda: doubled(50),
    "27e9 leaves, 4 deep": lambda: spread(4, 406, 1),
    "a million times one long text": lambda: ["x" * 10**6] * 10**6,
    "a million times long bytes": lambda: [b"x" * 10**6] * 10**6,
    "a million times a view of long bytes": lambda: [memoryview(b"x" * 10**6)] * 10**6,
    "a million times a map with a long name": lambda: [{"n" * 10**6: 1}] * 500_000,
}


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_would_be_endless_or_huge_is_refused_at_once(collection, monkeypatch, make):
    limit = LIMIT // 16
    monkeypatch.setattr(layout, "LARGEST_METADATA", limit)
    metadata = {"a": make()}
    before = time.monotonic()
    with pytest.raises(BadItemError, match=f"takes more than {limit:,} bytes"):
        collection.add("k", "hello", metadata=metadata)
    report = collection.add_many([("k", "hello", metadata)], on_bad="skip")
    assert time.monotonic() - before < PATIENCE
    assert report.bad == 1
    assert "k" not in collection


def test_what_is_once_in_itself_is_nested_too_deeply(collection):
    value: list[Any] = []
    value.append(value)
    with pytest.raises(BadItemError, match="nested deeper than 64"):
        collection.add("k", "hello", metadata={"a": value})


def test_what_just_fits_is_stored_though_its_parts_are_shared(collection, monkeypatch):
    limit = LIMIT // 64
    monkeypatch.setattr(layout, "LARGEST_METADATA", limit)
    part = [0, "", {"": ""}]
    largest = {"a": [part] * ((limit - 8) // len(layout.pack(part)))}
    assert limit - 16 < len(layout.pack(largest)) <= limit
    collection.add("k", "hello", metadata=largest)
    assert collection.get("k").metadata == largest
    flat = {"a": [0] * (limit - 16)}
    collection.add("l", "hello", metadata=flat)
    assert collection.get("l").metadata == flat


@pytest.mark.parametrize(
    "make",
    [
        lambda: [0] * LIMIT,
        lambda: "x" * LIMIT,
        lambda: b"x" * LIMIT,
        lambda: {str(name): 1 for name in range(2**18)},
    ],
    ids=["list", "text", "bytes", "names"],
)
def test_what_is_just_too_large_is_refused(collection, make):
    with pytest.raises(BadItemError, match="metadata"):
        collection.add("k", "hello", metadata={"a": make()})
    assert "k" not in collection


def test_the_least_bytes_are_never_more_than_the_packed_ones(monkeypatch):
    some: list[Any] = [[], {}, [[]], {"": {}}, ["é", b"a", {"é": ["a", 1, None, 2.5, (1,)]}], "a"]
    for value in some:
        monkeypatch.setattr(layout, "LARGEST_METADATA", len(layout.pack(value)))
        layout.nesting(value)


def test_extension_types_which_could_not_be_read_again_are_refused(collection):
    with pytest.raises(BadItemError, match="extension types"):
        collection.add("k", "hello", metadata={"a": [msgpack.ExtType(5, b"x")]})
    assert "k" not in collection


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"a": float("nan")}, r"metadata\['a'\] is nan"),
        ({"a": [1, {"b": float("-inf")}]}, r"metadata\['a'\]\[1\]\['b'\] is -inf"),
        ({"a": b"raw"}, r"metadata\['a'\] is bytes"),
        ({"a": (bytearray(b"raw"),)}, r"metadata\['a'\]\[0\] is bytes"),
        ({"a": {1: 2}}, r"must be str, not 1 in metadata\['a'\]"),
    ],
)
def test_what_json_cannot_express_is_refused_where_it_stands(collection, metadata, path):
    with pytest.raises(BadItemError, match=path):
        collection.add("k", "hello", metadata=metadata)
    report = collection.add_many([("k", "hello", metadata), ("l", "hello", {})], on_bad="skip")
    assert (report.bad, report.added) == (1, 1)
    assert collection.get("l").metadata == {}


def test_what_an_earlier_version_has_stored_is_sound(collection, monkeypatch):
    monkeypatch.setattr(rows, "_require_storable", lambda *_, **options: None)
    collection.add("k", "hello", metadata={"a": [float("inf"), b"raw"]})
    monkeypatch.undo()
    assert collection.check(deep=True).sound
    assert collection.get("k").metadata == {"a": [float("inf"), b"raw"]}
