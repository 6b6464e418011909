"""Filters on metadata, metadata in answers, and which side of a pair is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import simdb
from simdb.errors import ConfigurationError, WrongTypeError
from simdb.metadata import accepting, are_equal
from tests.support.commands import done, lines_of, run

TEXT = "a text of some words that are read by all who like to"
SOURCES = ("web", "news", None)
# Six of a block are alike; of each three, one has no metadata.
ROWS: list[tuple[Any, list[int], dict[str, Any] | None]] = [
    (
        number,
        [*range(100 * (number // 6), 100 * (number // 6) + 19), 10_000 + number],
        None if number % 3 == 2 else {"source": SOURCES[number % 3], "year": 2000 + number % 2},
    )
    for number in range(60)
]
KNOWN: dict[Any, Any] = {key: metadata for key, _, metadata in ROWS}
FILTERS: list[Any] = [
    {"source": "web"},
    {"source": {"web", "news"}, "year": 2001},
    {"source": None},
    lambda metadata: metadata is not None and metadata["year"] > 2000,
]


def is_chosen(where: Any, metadata: dict[str, Any] | None) -> bool:
    if callable(where):
        return bool(where(metadata))
    return all(
        (metadata or {}).get(name) in (wanted if isinstance(wanted, set) else [wanted])
        for name, wanted in where.items()
    )


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        yield db


@pytest.mark.parametrize(
    ("where", "guarantee"),
    list(zip(FILTERS, ["exact", "probable"] * 2, strict=True)),
    ids=["one", "several", "none", "function"],
)
def test_a_filtered_answer_is_that_of_a_collection_of_those_items(
    db: simdb.Database, where: Any, guarantee: Any
) -> None:
    settings: dict[str, Any] = {"threshold": "0.8", "exact_floor": "0.8", "seed": 1}
    some = [row for row in ROWS if is_chosen(where, row[2])]
    whole, part = (db.collection(name, simdb.Set(), **settings) for name in ("whole", "part"))
    whole.add_many(ROWS)
    part.add_many(some)
    asked: dict[str, Any] = {"guarantee": guarantee}
    items = [row[1] for row in ROWS[:12]]
    for limit in (None, 1, 3):
        found = whole.search_many(items, limit=limit, where=where, metadata=True, **asked)
        expected = part.search_many(items, limit=limit, metadata=True, **asked)
        assert [one.matches for one in found] == [one.matches for one in expected]
        alone = whole.search(items[0], limit=limit, where=where, metadata=True, **asked)
        assert alone.matches == found[0].matches
    assert all(match.metadata == KNOWN[match.key] for one in found for match in one)
    pairs = list(whole.pairs(where=where, metadata=True, **asked))
    assert sorted(pairs, key=repr) == sorted(part.pairs(metadata=True, **asked), key=repr)
    assert pairs
    assert all(pair.right_metadata == KNOWN[pair.right] for pair in pairs)
    for method in ("chain", "star"):
        groups = list(whole.groups(where=where, method=method, metadata=True, **asked))
        assert groups == list(part.groups(method=method, metadata=True, **asked))
        assert groups
        assert all(group.metadata[0] == KNOWN[group.representative] for group in groups)
    joined = whole.join(part, where=where, other_where={"year": 2001}, one_to_one=True, **asked)
    chosen = part.join(part, other_where={"year": 2001}, one_to_one=True, **asked)
    assert list(joined) == list(chosen)


def test_metadata_are_decoded_once_and_only_of_what_is_similar(db: simdb.Database) -> None:
    asked: list[Any] = []
    collection = db.collection("c", simdb.Set(), compression="zstd")
    collection.add_many(ROWS)

    def where(metadata: Any) -> bool:
        asked.append(metadata)
        return True

    found = collection.search(ROWS[0][1], where=where)
    assert len(found) == 6
    assert len(asked) == 5  # two of them have none


def test_pairs_say_which_side_is_new(db: simdb.Database) -> None:
    old, other = db.collection("old", simdb.Set()), db.collection("other", simdb.Set())
    old.add_many(ROWS[:9])
    mark = old.checkpoint()
    old.add_many(ROWS[9:12])
    other.add_many(ROWS[3:6])
    other_mark = other.checkpoint()
    other.add_many(ROWS[9:12])
    pairs = old.pairs(since=mark)
    told: dict[Any, Any] = {(pair.left, pair.right): pair.sides for pair in pairs}
    assert len(told) == 12
    assert all(
        sides == ("new-new" if min(keys) >= 9 else "old-new") for keys, sides in told.items()
    )
    assert pairs.to_arrow()["sides"].to_pylist() == list(told.values())
    assert old.pairs(since=old.checkpoint()).to_arrow().column_names[-1] == "sides"
    assert {pair.sides for pair in old.pairs()} == {None}
    joined: dict[Any, Any] = {(one.left, one.right): one.sides for one in old.join(other)}
    assert set(joined.values()) == {None}
    for since, other_since in ((mark, None), (None, other_mark), (mark, other_mark)):
        named = {
            (left, right): f"{'new' if since and left >= 9 else 'old'}-"
            f"{'new' if other_since and right >= 9 else 'old'}"
            for left, right in joined
        }
        expected = {keys: sides for keys, sides in named.items() if sides != "old-old"}
        found = old.join(other, since=since, other_since=other_since)
        assert {(one.left, one.right): one.sides for one in found} == expected


def test_tables_have_metadata_as_json(db: simdb.Database) -> None:
    collection = db.collection("c", simdb.Set())
    collection.add_many(ROWS[:6])
    table = collection.pairs(metadata=True).to_arrow()
    matches = collection.search(ROWS[0][1], metadata=True).to_arrow()
    groups = collection.groups(metadata=True).to_arrow()
    for answer, key, column in (
        (table, "left", "left_metadata"),
        (matches, "key", "metadata"),
        (groups, "key", "metadata"),
    ):
        told = [None if one is None else json.loads(one) for one in answer[column].to_pylist()]
        assert told == [KNOWN[one] for one in answer[key].to_pylist()]
        assert any(told)


def test_what_is_no_filter_is_refused(db: simdb.Database) -> None:
    collection = db.collection("c", simdb.Set())
    collection.add_many(ROWS[:6])
    with pytest.raises(WrongTypeError, match="where must be a mapping"):
        collection.pairs(where="source=web")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be texts, not 3"):
        collection.search([1], where={3: 4})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="cover all items"):
        collection.groups(method="star", where={"a": 1}, earlier=collection.groups(method="star"))
    with pytest.raises(ZeroDivisionError):
        collection.search(ROWS[0][1], where=lambda _: 1 / 0)


def test_commands_filter_and_tell_metadata(db: simdb.Database, tmp_path: Path) -> None:
    collection = db.collection("c", simdb.Set())
    collection.add_many([(str(key), item, metadata) for key, item, metadata in ROWS[:12]])
    db.close()
    path = tmp_path / "s.simdb"
    found = lines_of("search", path, "c", "--key", "0", "--where", "source=web", "--limit", 1)
    told: Any = ROWS[3][2]
    assert found == [{"key": "3", "similarity": 19 / 21, "metadata": told}]
    both = ("--where", "source=web", "--where", "source=news", "--where", "year=2001")
    pairs = lines_of("pairs", path, "c", *both, "--since", 6, "--metadata")
    assert [(one["left"], one["right"], one["sides"]) for one in pairs] == [("7", "9", "new-new")]
    assert pairs[0]["right_metadata"] == ROWS[9][2]
    shown = done("pairs", path, "c", *both, "--since", 6).stdout
    assert shown == "0.904762\t7\t9\tnew-new\n"
    groups = lines_of("groups", path, "c", *both, "--metadata")
    assert groups[0] == {
        "representative": "1",
        "keys": ["1", "3"],
        "metadata": [ROWS[1][2], ROWS[3][2]],
    }
    joined = lines_of(
        "join",
        path,
        "c",
        "c",
        "--where",
        "year=2000",
        "--right-where",
        "source=news",
        "--right-since",
        6,
    )
    assert {(one["sides"], int(one["left"]) % 2, int(one["right"]) % 3) for one in joined} == {
        ("old-new", 0, 1)
    }
    wrong = run("pairs", path, "c", "--where", "source")
    assert wrong.exit_code == 2
    assert "NAME=VALUE" in wrong.stderr


def test_true_is_not_one_as_in_json(db: simdb.Database, tmp_path: Path) -> None:
    collection = db.collection("c", simdb.Set())
    values: dict[str, Any] = {
        "true": True,
        "one": 1,
        "half": 1.0,
        "false": False,
        "zero": 0,
        "list": [True],
        "ones": [1],
        "object": {"n": 0},
    }
    collection.add_many((key, [1], {"flag": value}) for key, value in values.items())

    def found(value: Any) -> set[Any]:
        return {match.key for match in collection.search([1], where={"flag": value})}

    assert found(True) == found(np.True_) == {"true"}
    assert found(1) == found(1.0) == found(np.int64(1)) == {"one", "half"}
    assert found({True, 0}) == {"true", "zero"}
    assert found([True]) == {"list"}
    assert found([1]) == {"ones"}
    assert found({"n": False}) == set()
    pairs = collection.pairs(where={"flag": {False, 1}})
    assert {key for pair in pairs for key in (pair.left, pair.right)} == {"false", "one", "half"}
    db.close()
    path = tmp_path / "s.simdb"
    for text, keys in (("true", {"true"}), ("1", {"one", "half"}), ("0", {"zero"})):
        told = lines_of("search", path, "c", "--item", "[1]", "--where", f"flag={text}")
        assert {match["key"] for match in told} == keys


def test_arrays_and_tuples_are_compared_as_metadata_have_them(db: simdb.Database) -> None:
    collection = db.collection("c", simdb.Set())
    collection.add_many([("a", [1], {"at": (1, 2)}), ("b", [1], {"at": [3]}), ("c", [1])])

    def found(value: object) -> list[object]:
        return [match.key for match in collection.search([1], where={"at": value})]

    assert found((1, 2)) == found([1, 2]) == found(np.array([1, 2])) == ["a"]
    assert found({(1, 2), (3,)}) == ["a", "b"]
    collection.add("d", [1], metadata={"at": [[1, 2], {"n": [3]}]})
    assert found([np.array([1, 2]), {"n": (3,)}]) == ["d"]
    assert found(None) == ["c"]


def test_a_filter_reads_values_as_tables_have_them(tmp_path: Path) -> None:
    days = np.array(["2000-01-01", "2000-01-02"], "M8[D]")
    columns: dict[str, Any] = {"size": [np.inf, 1.0], "day": days, "at": days.astype("M8[ns]")}
    table = pa.table({"id": [1, 2], "text": [TEXT, f"{TEXT}!"], **columns})
    with simdb.open(tmp_path / "db.simdb") as opened:
        texts = opened.collection("texts", simdb.Text(), threshold=0.8)
        texts.add_many(table, key="id", item="text", metadata=list(columns))

        def found(**where: Any) -> list[simdb.Key]:
            return [match.key for match in texts.search(TEXT, where=where)]

        assert found(size=np.inf) == [1]
        assert found(day=days[1]) == found(at=columns["at"][1]) == [2]
        assert found(day=days[1].item()) == [2]
        texts.add(3, TEXT, metadata={"days": ["2000-01-01", "2000-01-02"]})
        assert found(days=days) == [3]


def test_a_filter_accepts_what_equals_a_value_in_json() -> None:
    values: list[Any] = [0, 1, 1.0, True, False, None, "1", "a", [], [1], [True], {"a": 1}]
    values += [{"a": True}, {"a": [1.0]}, b"1", 2**70, -0.0, [[1], None], {}]
    for size in (1, 3, len(values)):
        for begin in range(len(values)):
            wanted = (values[begin:] + values[:begin])[:size]
            accepts = accepting({"name": wanted})
            for held in values:
                expected = any(are_equal(held, value) for value in wanted)
                assert accepts({"name": held, "other": 1}) == expected, (held, wanted)
            assert accepts(None) == accepts({}) == (None in wanted)


def test_a_filter_compares_with_one_of_many_values() -> None:
    compared: list[str] = []

    class Noted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(self)
            return str(self) == other

    wanted = [Noted(number) for number in range(100)]
    accepts = accepting({"name": wanted, "flag": [True]})
    compared.clear()
    assert accepts({"name": "77", "flag": True})
    assert not accepts({"name": "100", "flag": True})
    assert len(compared) <= 1
