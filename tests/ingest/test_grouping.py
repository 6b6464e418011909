"""Groups that a collection keeps are those computed anew, after every step of random histories."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import simdb
from simdb.batches import deciding
from simdb.ingest import add as adding
from simdb.ingest import grouping, neighbours
from simdb.opened.catalogue import KeptGroups, write_settings
from simdb.storage.collection.groups import Edges, GroupReader, GroupWriter
from simdb.storage.tables.layout import Table, owner_prefix
from simdb.upkeep import regroup
from tests.support.grouping import (
    METHODS,
    Replay,
    apply,
    require_fresh,
    require_inherited,
    state_of,
    steps,
)
from tests.support.kind_cases import ALL
from tests.support.numbers import MOST_ROOM, room_of, use_up

BOUNDS = (Fraction(1, 2), Fraction(3, 4))
INDEXES: dict[str, dict[str, Any]] = {
    "exact": {"exact_floor": "0.5", "threshold": None},
    "probable": {"threshold": "0.5", "bands": 3, "rows": 1},
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("method", METHODS)
def test_kept_groups_are_those_computed_anew(tmp_path, monkeypatch, long_form, method, index):
    for seed in range(20 if long_form else 1):
        generator = random.Random(seed)
        monkeypatch.setattr(adding, "BATCH_ITEMS", generator.choice([2, 100]))
        with simdb.open(tmp_path / f"{seed}.simdb", sync="batch", threads=1) as db:
            options: Any = {"seed": seed, "groups": method, "groups_at": BOUNDS, **INDEXES[index]}
            collection = db.create_collection("c", simdb.Set(), **options)
            replay = Replay()
            before: dict[int, set[Any]] = {}
            for step in steps(generator, 30 if long_form else 14):
                apply(collection, step)
                require_fresh(collection, BOUNDS, method)
                now = state_of(collection, BOUNDS[0])
                require_inherited(before, now, step)
                replay.take(collection.changes(replay.last))
                assert replay.present(BOUNDS[0]) == now
                assert replay.present(BOUNDS[1]) == state_of(collection, BOUNDS[1])
                before = now
                if generator.random() < 0.2:
                    collection.rebuild(groups=method, groups_at=BOUNDS)
                    assert state_of(collection, BOUNDS[0]) == now
            for alias, group in replay.aliases.items():
                if group in now:
                    assert collection.group(alias).id == group
            assert collection.check(deep=True).sound


ROWS = [(0, {1, 2, 3}), (1, {2, 3, 4}), (2, {3, 4, 5}), (9, {7, 8}), ("é", {7, 8}), (11, {20, 21})]


@pytest.fixture
def database(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db


def chained(db: simdb.Database, **options: Any) -> simdb.Collection:
    made = db.create_collection(
        "c", simdb.Set(), threshold="0.5", exact_floor="0.5", groups="chain", **options
    )
    made.add_many(ROWS)
    return made


def told(collection: simdb.CollectionView, since: int = 0) -> list[Any]:
    return [(one.action, one.group, one.other, one.keys) for one in collection.changes(since)]


def test_what_becomes_of_groups(database):
    """A life of two groups: what is asked of it, and what is told."""
    collection = chained(database)
    assert collection.group_of(1) == simdb.KeptGroup(1, (0, 1, 2), Fraction(1, 2))
    assert collection.group_of(11) == simdb.KeptGroup(None, (11,), Fraction(1, 2))
    assert [group.id for group in collection.kept_groups()] == [1, 2]
    collection.add("bridge", {3, 5, 7, 8})  # to {3, 4, 5}: 2 of 5; to {7, 8}: 2 of 4
    assert collection.group_of("bridge").id == 2
    collection.add("both", {4, 5, 3, 7})  # 3 of 4, and 3 of 5
    collection.add("between", {3, 5, 7})
    assert collection.group_of(9).id == 1
    assert collection.group(2) == collection.group(1) == collection.group_of("é")
    collection.delete_many(["between", "both"])
    assert set(collection.group_of(0).keys) == {0, 1, 2}
    assert collection.group_of(9).id == 3  # 2 is an alias for ever
    collection.replace(0, {100})
    assert (collection.group_of(0).id, collection.group_of(1).id) == (None, 1)
    collection.delete_many([1, 2])
    with pytest.raises(simdb.GroupNotFoundError, match="there is no group 2 in 'c' now"):
        collection.group(2)
    with pytest.raises(simdb.GroupNotFoundError, match="there was never a group 77"):
        collection.group(77)
    of_numpy: Any = np.int64(3)
    assert collection.group(of_numpy) == collection.group(3)
    with pytest.raises(simdb.GroupNotFoundError, match="there was never a group True"):
        collection.group(True)
    assert told(collection) == [
        ("created", 1, None, (0, 1, 2)),
        ("created", 2, None, (9, "é")),
        ("joined", 2, None, ("bridge",)),
        ("merged", 1, 2, ()),
        ("joined", 1, None, ("both",)),
        ("joined", 1, None, ("between",)),
        ("split", 1, 3, (9, "é", "bridge")),
        ("left", 1, None, ("both", "between")),
        ("left", 1, None, (0,)),
        ("left", 1, None, (1, 2)),
    ]
    assert told(collection, since=9) == [("left", 1, None, (1, 2))]


def test_ids_outlive_whatever_is_done_to_a_store(database, tmp_path):
    collection = chained(database, groups_at=["0.5", "0.9"])
    collection.add("both", {3, 4, 5, 7, 8})
    collection.delete(1)
    collection.add("last", {3, 4, 5})
    expected = (
        told(collection),
        [*collection.kept_groups()],
        [*collection.kept_groups(threshold=0.9)],
    )

    def require_same(other: simdb.CollectionView) -> None:
        assert (
            told(other),
            [*other.kept_groups()],
            [*other.kept_groups(threshold=0.9)],
        ) == expected
        assert other.check(deep=True).sound

    collection.compact()
    require_same(collection)
    collection.rebuild(seed=5)
    require_same(collection)
    database.backup(tmp_path / "copy.simdb", compact=True)
    database.dump(tmp_path / "dumped")
    simdb.load(tmp_path / "dumped", tmp_path / "loaded.simdb")
    for name in ("copy", "loaded"):
        with simdb.open(tmp_path / f"{name}.simdb") as other:
            require_same(other["c"])
            other["c"].add("more", {3, 4, 5})
            assert other["c"].check(deep=True).sound
            assert other["c"].group_of("more").id == collection.group_of("last").id
    # Kept otherwise: what is the same group keeps its id, and all is told.
    replay = Replay()
    collection.rebuild(groups="star", groups_at=["0.5"])
    assert collection.group_of("last").id == expected[1][0].id
    replay.take(collection.changes())
    assert replay.present(Fraction(1, 2)) == state_of(collection, None)
    assert replay.present(Fraction(9, 10)) == {}
    assert collection.check(deep=True).sound
    collection.rebuild(drop_groups=True)
    with pytest.raises(simdb.ConfigurationError, match="keeps no groups"):
        collection.group(1)
    collection.rebuild(groups="chain")
    assert collection.check(deep=True).sound
    database.drop_collection("c")
    assert database.check().sound


def test_ids_and_numbers_of_changes_go_on_where_groups_are_dropped_and_kept_again(
    database, tmp_path
):
    collection = database.create_collection(
        "c", simdb.Set(), threshold=None, exact_floor=0.5, groups="chain"
    )
    collection.add_many([(1, {1, 2}), (2, {1, 2}), (3, {8, 9}), (4, {8, 9})])
    assert [group.id for group in collection.kept_groups()] == [1, 2]
    collection.rebuild(drop_groups=True)
    collection.delete_many([1, 2])
    collection.rebuild(groups="chain")

    def require_going_on(other: simdb.CollectionView) -> None:
        assert [(group.id, group.keys) for group in other.kept_groups()] == [(3, (3, 4))]
        assert [change.number for change in other.changes()] == [3]
        assert told(other) == [("created", 3, None, (3, 4))]
        for since in (1, 2):
            with pytest.raises(simdb.ConfigurationError, match=r"were dropped since.* with 3"):
                told(other, since=since)
        assert told(other, since=3) == []
        with pytest.raises(simdb.GroupNotFoundError, match="no group 1 in 'c' now"):
            other.group(1)
        assert other.check(deep=True).sound

    require_going_on(collection)
    database.dump(tmp_path / "dumped")
    simdb.load(tmp_path / "dumped", tmp_path / "loaded.simdb")
    with simdb.open(tmp_path / "loaded.simdb") as other:
        require_going_on(other["c"])
    # Again, with no group left that is made anew.
    collection.rebuild(drop_groups=True)
    collection.delete_many([3, 4])
    collection.rebuild(groups="chain")
    assert told(collection) == []
    with pytest.raises(simdb.ConfigurationError, match=r"were dropped since.* with 4"):
        told(collection, since=3)
    collection.add_many([(5, {5}), (6, {5})])
    assert told(collection) == [("created", 4, None, (5, 6))]
    assert collection.check(deep=True).sound
    with database._handle.write() as transaction:
        transaction.delete(Table.META, owner_prefix(1) + b"f")
    (problem,) = collection.check().problems
    assert "1 changes of the groups are logged, and not 4" in problem.problem


def test_what_cannot_be_kept_is_refused(database):
    with pytest.raises(simdb.ThresholdTooLowError, match=r"threshold=0\.5 plans for it, or"):
        database.create_collection("x", simdb.Set(), groups="chain", groups_at=["0.5"])
    with pytest.raises(simdb.ConfigurationError, match="'chain' or 'star', not 'average'"):
        database.create_collection("x", simdb.Set(), groups="average")
    with pytest.raises(
        simdb.ConfigurationError, match="not which groups to keep; groups='chain' keeps"
    ):
        database.create_collection("x", simdb.Set(), groups_at=["0.9"])
    with pytest.raises(simdb.ConfigurationError, match="1 to 100"):
        database.create_collection("x", simdb.Set(), groups="chain", groups_at=[])
    collection = chained(database)
    with pytest.raises(simdb.ThresholdTooLowError, match=r"keeps groups at 0\.5, which an index"):
        collection.rebuild(exact_floor="0.8", drop_probable=True)
    with pytest.raises(
        simdb.ConfigurationError, match=r"^threshold 0\.75 is none .*: these are 0\.5$"
    ):
        collection.group_of(1, threshold="0.75")
    with pytest.raises(simdb.KeyNotFoundError, match="'absent'"):
        collection.group_of("absent")
    with pytest.raises(simdb.ConfigurationError, match="groups is 'chain' at"):
        database.collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5", groups="star")
    assert collection.stats()["settings"]["kept_groups"] == {"method": "chain", "bounds": [0.5]}
    with pytest.raises(simdb.ConfigurationError, match="not which groups"):
        database.create_collection("y", simdb.Set()).rebuild(groups_at=["0.9"])
    # What a group was looked for by is not left out.
    with pytest.raises(simdb.ThresholdTooLowError):
        collection.rebuild(threshold="0.9", drop_exact=True)


def test_damage_to_groups_is_found(database):
    collection = chained(database)
    with database._handle.write() as transaction:
        GroupWriter(transaction, 1).set_label(0, 5, 0, 2)
    (problem,) = collection.check().problems
    assert (problem.table, problem.record) == ("groups", "1/2")
    with database._handle.write() as transaction:
        transaction.delete(Table.META, b"\0\0\0\1m\0" + bytes(7) + b"\2" + b"\0\0\0\5")
    assert "what items say" in collection.check().problems[0].problem


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_every_kind(database, monkeypatch, long_form, method):
    """Those that are compared by distance, by bits and by rules, equal items among them."""
    monkeypatch.setattr(neighbours, "MOST_HELD", 3)
    grouped = 0
    cases = [*ALL.items()][None if long_form else METHODS.index(method) :: 1 if long_form else 2]
    for name, case in cases:
        generator = random.Random(name)
        items = [*case.items, *case.items[:3]]
        rows = [(key, generator.choice(items)) for key in range(16)]
        collection = database.create_collection(
            name, case.kind, **case.bound, groups=method, seed=1
        )
        collection.add_many(rows[:8])
        collection.add_many(rows[8:])
        if generator.random() < 0.7:
            collection.rebuild(groups=method)
        collection.delete_many(generator.sample(range(16), 5))
        fresh = {frozenset(group.keys) for group in collection.groups(method=method)}
        assert {frozenset(group.keys) for group in collection.kept_groups()} == fresh, name
        assert collection.check(deep=True).sound, name
        grouped += bool(fresh)
    assert grouped > len(cases) - 3


DISTANCES: dict[str, tuple[simdb.kinds.Kind, dict[str, Any], Callable[[random.Random], Any]]] = {
    "line": (simdb.Vector(1, "euclidean"), {"max_distance": 2}, lambda one: [one.randrange(25)]),
    "bits": (simdb.Bits(12), {"max_distance": 2}, lambda one: one.getrandbits(6)),
    "sampled": (
        simdb.Bits(12),
        {"max_distance": 1, "recall": 0.5},
        lambda one: one.getrandbits(5),
    ),
    "edits": (
        simdb.String(),
        {"max_distance": 1},
        lambda one: "abcdefgh"[: one.randrange(3, 8)],
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", DISTANCES)
def test_kept_groups_by_distance_are_those_computed_anew(tmp_path, long_form, name, method):
    """Also where the nearest centre decides, and where the index does not find all pairs."""
    kind, options, item = DISTANCES[name]
    for seed in range(6 if long_form else 1):
        generator = random.Random(f"{name} {seed}")
        with simdb.open(tmp_path / f"{seed}.simdb", sync="batch", threads=1) as db:
            collection = db.create_collection("c", kind, groups=method, seed=seed, **options)
            for step, (action, given) in enumerate(steps(generator, 12)):
                plain = [row if action == "delete" else (row[0], item(generator)) for row in given]
                apply(collection, (action, plain))
                made = collection.groups(method=method, guarantee="probable")
                fresh = {frozenset(group.keys) for group in made}
                kept = {frozenset(group.keys) for group in collection.kept_groups()}
                assert kept == fresh, (seed, step)
            assert collection.check(deep=True).sound
            db.dump(tmp_path / f"{seed}")
        simdb.load(tmp_path / f"{seed}", tmp_path / f"{seed} again.simdb")
        with simdb.open(tmp_path / f"{seed} again.simdb") as db:
            assert {frozenset(group.keys) for group in db["c"].kept_groups()} == kept


HERDS: dict[str, tuple[simdb.kinds.Kind, dict[str, Any], Callable[[int], Any]]] = {
    "buckets": (
        simdb.Set(),
        {"threshold": 0.8, "bands": 12, "rows": 1},
        lambda row: {*range(60), 100 + row},
    ),
    "sets": (
        simdb.Set(),
        {"threshold": None, "exact_floor": 0.8},
        lambda row: {*range(60), 100 + row},
    ),
    "bits": (simdb.Bits(64), {"max_distance": 2}, lambda row: 1 << row),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HERDS)
def test_pairs_of_a_batch_that_is_all_alike_are_noted_once_and_by_few_rows(
    tmp_path, monkeypatch, name, method
):
    """Not held: those of 40 rows are 780, and with the 20 that are stored 800."""
    kind, options, item = HERDS[name]
    noted: list[int] = []
    compared: list[int] = []
    note, compare = grouping.Keeper._note_edges, deciding.Comparer.compare

    def noting(self: Any, level: int, found: Any, first: int) -> None:
        noted.append(found.later.size)
        note(self, level, found, first)

    def comparing(self: Any, left: Any, right: Any) -> Any:
        compared.append(left.size)
        return compare(self, left, right)

    monkeypatch.setattr(neighbours, "MOST_HELD", 100)
    monkeypatch.setattr(grouping, "MOST_HELD", 100)
    monkeypatch.setattr(neighbours, "MOST_COMPARED", 30)
    monkeypatch.setattr(grouping.Keeper, "_note_edges", noting)
    monkeypatch.setattr(deciding.Comparer, "compare", comparing)
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", kind, groups=method, seed=1, **options)
        collection.add_many([(row, item(row)) for row in range(20)])
        compared.clear()
        collection.add_many([(row, item(row)) for row in range(20, 60)])
        assert sum(noted) == 60 * 59 // 2
        assert max(noted) <= 100
        # Ranges that had too many pairs are halved: what was compared in vain is little.
        assert sum(compared) < (2 * 780 if name == "buckets" else 1)
        assert len(collection.group_of(0).keys) == 60
        assert collection.check(deep=True).sound
        collection.delete_many([0, 30, 59])
        assert len(collection.group_of(1).keys) == 57
        assert collection.check(deep=True).sound


@pytest.mark.parametrize("index", INDEXES)
def test_of_items_that_are_equal_one_pair_each_is_noted(tmp_path, index):
    """Whether they come one by one or the groups are made anew."""
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        options: Any = {"groups": "chain", **INDEXES[index]}
        collection = db.create_collection("c", simdb.Set(), **options)
        sets = [{1, 2, 3}] * 30 + [{1, 2, 3, 4}] * 30 + [set()] * 30
        collection.add_many(enumerate(sets))
        for _ in range(2):
            with db._handle.read() as transaction:
                tables = GroupReader(transaction, 1)
                noted = [tables.edges(0, item) for item in range(90)]
            assert sum(edges.items.size for edges in noted) == 29 + 30
            assert [edges.is_copy for edges in noted] == [False, *[True] * 29] * 2 + [False] * 30
            collection.rebuild(groups="chain")
        collection.delete_many([0, 30])
        assert collection.group_of(1).keys == (*range(1, 30), *range(31, 60))
        assert collection.check(deep=True).sound


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_made_anew_with_no_room_for_the_numbers_of_items_that_are_gone(tmp_path, method):
    sets = [range(number % 20 * 4, number % 20 * 4 + 5 + number % 2) for number in range(80)]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        options: Any = {"groups": method, **INDEXES["exact"]}
        collection = db.create_collection("c", simdb.Set(), **options)
        collection.add_many(enumerate(sets[:30]))
        use_up(collection)
        collection.add_many((number, sets[number]) for number in range(30, 80))
        collection.delete_many(range(0, 80, 3))
        assert room_of(lambda: collection.rebuild(groups=method)) < MOST_ROOM
        require_fresh(collection, ("0.5",), method)
        assert room_of(lambda: collection.check(deep=True)) < MOST_ROOM
        assert collection.check(deep=True).sound
        assert len(collection.group_of(1).keys) == 3


def test_items_that_are_equal_but_not_similar_have_pairs_of_their_own(tmp_path, monkeypatch):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        options: Any = {"groups": "chain", **INDEXES["exact"]}
        collection = db.create_collection("c", simdb.Set(), **options)
        collection.add_many(enumerate([{1, 2, 3}, {2, 3, 4}, {3, 4, 5}]))
        # Stands for a kind of which an item may be similar to others and not to its equals.
        equal = np.array([0, 1, 0], np.uint32), np.zeros(3, np.int64)
        monkeypatch.setattr(regroup, "first_equal", lambda *_: equal)
        collection.rebuild(groups="chain")
        assert collection.group_of(0).keys == (0, 1, 2)
        assert collection.check(deep=True).sound


@pytest.mark.parametrize("most", [1, 10**6])
def test_the_ids_of_new_groups_do_not_depend_on_how_many_pairs_have_room(
    database, monkeypatch, most
):
    """By the later item of the first pair; what comes to a stored item first, mere copies last."""
    monkeypatch.setattr(neighbours, "MOST_HELD", most)
    collection = chained(database)
    rows = [("a", {401, 402}), ("b", {201, 202, 203, 204}), ("c", {301, 302, 303})]
    rows += [("d", {301, 302}), ("e", {201, 202, 203}), ("f", {401, 402}), ("g", {20, 21, 22})]
    collection.add_many(rows)
    assert told(collection, since=2) == [
        ("created", 3, None, (11, "g")),
        ("created", 4, None, ("c", "d")),
        ("created", 5, None, ("b", "e")),
        ("created", 6, None, ("a", "f")),
    ]


def test_pairs_without_weights_are_found(tmp_path):
    """As stars by distance had them, before they were weighed by it."""
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        kind = simdb.Vector(1, "euclidean")
        collection = db.create_collection("c", kind, max_distance=2, groups="star")
        collection.add_many([("a", [0]), ("b", [1])])
        with db._handle.write() as transaction:
            edges = Edges(np.zeros(1, np.uint32), np.array([np.nan]))
            GroupWriter(transaction, 1).set_edges(0, 1, edges)
        (problem,) = collection.check().problems
        assert "rebuild(groups='star')" in problem.problem
        collection.rebuild(groups="star")
        assert collection.check(deep=True).sound


def test_an_id_that_nothing_outside_a_commit_has_seen_is_not_said_to_have_ended(database):
    made = database.create_collection("s", simdb.Set(), threshold="0.5", groups="star", seed=1)
    made.add_many([(0, {1, 2}), (1, {1, 2}), (2, {3})])
    assert [group.id for group in made.kept_groups()] == [2]
    with pytest.raises(simdb.GroupNotFoundError, match="there is no group 1 in 's' now"):
        made.group(1)


def test_changes_since_one_that_has_not_been_are_refused(tmp_path):
    path, backup = tmp_path / "s.simdb", tmp_path / "backup.simdb"
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", simdb.Set(), threshold="0.5", groups="chain")
        assert [*collection.changes()] == []
        collection.add_many([(key, {1, 2}) for key in "ab"])
        database.backup(backup)
        collection.add_many([(key, {3, 4}) for key in "cd"])
        *_, last = collection.changes()
        assert [*collection.changes(last.number)] == []
    simdb.restore(backup, path)
    with simdb.open(path, threads=1) as database:
        collection = database["c"]
        for since in (last.number, 2**64 - 1, 2**70):
            with pytest.raises(simdb.ConfigurationError, match="after a restore"):
                next(collection.changes(since))
        assert [change.number for change in collection.changes()] == [1]


def test_the_id_of_a_group_is_told_without_reading_the_group(database, monkeypatch):
    collection = database.collection("c", simdb.Set(), threshold="0.5", groups="star")
    collection.add_many([("a", {1, 2}), ("b", {1, 2}), ("far", {7})])
    collection.add("c", {1, 2})
    wanted = [collection.group_of(key).id for key in ("a", "c", "far")]
    monkeypatch.setattr(GroupReader, "members", None)
    assert [collection.group_id(key) for key in ("a", "c", "far")] == wanted
    assert wanted[0] == wanted[1] != wanted[2] is None
    with pytest.raises(simdb.KeyNotFoundError):
        collection.group_id("none")
    with pytest.raises(simdb.ConfigurationError, match="none"):
        collection.group_id("a", threshold=0.9)


LATER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exact": ({"exact_floor": "0.5", "threshold": None}, {"exact_floor": "0.9"}),
    "probable": ({"threshold": "0.5"}, {"threshold": "0.9"}),
    "both": ({"threshold": "0.5", "exact_floor": "0.5"}, {"threshold": "0.9", "drop_exact": True}),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("index", LATER)
def test_a_rebuild_changes_index_and_groups_in_one_commit(tmp_path, index, method):
    """Groups are right at each of its commits, whoever adds meanwhile, and where it is cut off."""
    before, after = LATER[index]
    rows = [(number, {1, 2, 3, 4, 10 + number % 3}) for number in range(12)]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), groups=method, seed=1, **before)
        collection.add_many(rows)
        steps = []

        def look(now: simdb.Progress) -> None:
            steps.append(now.task)
            assert collection.check(deep=True).sound, steps
            if now.task == "signing" and len(steps) < 3:
                collection.add(f"{now.task} {len(steps)}", rows[0][1])
                collection.delete(len(steps))

        def stop(now: simdb.Progress) -> None:
            if now.task == "grouping":
                raise KeyboardInterrupt

        told = [*collection.kept_groups()]
        with pytest.raises(KeyboardInterrupt, match="has its old settings"):
            collection.rebuild(**after, groups_at=["0.9"], progress=stop)
        assert [*collection.kept_groups()] == told
        assert collection.add("then", rows[0][1]).action == "added"
        assert collection.check(deep=True).sound
        collection.rebuild(**after, groups_at=["0.9"], progress=look)
        assert (steps[0], steps[-1]) == ("signing", "grouping")
        assert collection.add("last", rows[0][1]).action == "added"
        assert collection.check(deep=True).sound
        replay = Replay()
        replay.take(collection.changes())
        assert replay.present(Fraction(9, 10)) == state_of(collection, None)
        assert replay.present(Fraction(1, 2)) == {}


def test_what_is_read_while_a_rebuild_makes_groups_is_of_the_index_before(tmp_path, monkeypatch):
    """And is not taken for the other one, which the same process reads at the same commit."""
    monkeypatch.setattr(simdb.Text, "is_slow_to_read", False)  # so that what is loaded is kept
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        options: Any = {"groups": "chain", "groups_at": ["0.5", "0.8"], **INDEXES["exact"]}
        collection = db.create_collection("c", simdb.Text(lowercase=True), **options)
        text = "one text of several words"
        met: list[int] = []
        collection.add_many([("a", text), ("b", text.upper()), ("c", text + "!")])

        def read(now: simdb.Progress) -> None:
            if now.task == "grouping":
                found = (collection.pairs(threshold="0.8", guarantee="exact") for _ in range(2))
                met.extend(len([*pairs]) for pairs in found)

        collection.rebuild(simdb.Text(lowercase=False), progress=read)
        assert {*met} == {3}
        assert [group.keys for group in collection.kept_groups(threshold="0.8")] == [("a", "c")]
        assert collection.check(deep=True).sound


def test_groups_are_made_anew_where_only_what_records_score_changes(tmp_path):
    """Which is one commit, too: there is no other index."""
    fields = {"name": 1, "end": 1}

    def scored(**weights: int) -> simdb.Record:
        given = {**fields, **weights}
        return simdb.Record(
            [simdb.kinds.Field(name, weight, "exact") for name, weight in given.items()]
        )

    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", scored(), threshold="0.5", groups="chain")
        collection.add_many([(n, {"name": f"{n // 2}", "end": f"{n % 2}"}) for n in range(4)])
        assert len([*collection.kept_groups()]) == 1

        def stop(_: simdb.Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt, match="old settings"):
            collection.rebuild(scored(name=3), progress=stop)
        assert collection.check(deep=True).sound
        collection.rebuild(scored(name=3))
        assert {group.keys for group in collection.kept_groups()} == {(0, 1), (2, 3)}
        assert collection.check(deep=True).sound


def test_bounds_that_the_index_does_not_serve_are_a_problem_and_not_an_error(database):
    """As versions left them whose rebuild was cut off before it made the groups."""
    collection = chained(database)
    settings = collection._present.settings
    with database._handle.write() as transaction:
        kept = KeptGroups("chain", (Fraction(1, 4),))
        write_settings(transaction, replace(settings, groups=kept))
    for deep in (False, True):
        (problem,) = collection.check(deep=deep).problems
        assert "rebuild(groups_at=...) keeps them at others" in problem.problem
    collection.rebuild(groups_at=["0.5"])
    assert collection.check(deep=True).sound


def test_other_measures_take_other_bounds(tmp_path):
    """A bound of distances is none of similarities; what was logged of it can be read for ever."""
    kind, other = simdb.Bits(40), simdb.Bits(40, "tanimoto")
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", kind, max_distance=2, groups="chain", seed=1)
        collection.add_many([("a", "1" * 40), ("b", "1" * 39 + "0"), ("c", "1" * 20 + "0" * 20)])
        again: tuple[dict[str, Any], ...] = ({}, {"groups": "star"})
        for given in again:
            with pytest.raises(
                simdb.ConfigurationError,
                match=r"groups at 2, and the new settings measure similarities; groups_at=",
            ):
                collection.rebuild(other, threshold="0.9", **given)
        assert collection.kind == kind
        collection.rebuild(other, threshold="0.9", groups_at=["0.9"])
        collection.rebuild(kind, max_distance=1, groups_at=[1])
        collection.rebuild(other, threshold="0.5", groups_at=["0.5"])
        replay = Replay()
        replay.take(collection.changes())
        assert [bound for bound in replay.groups if replay.present(bound)] == [Fraction(1, 2)]
        assert {*replay.groups} == {2, Fraction(9, 10), 1, Fraction(1, 2)}
        assert replay.present(Fraction(1, 2)) == state_of(collection, None)
        db.dump(tmp_path / "dumped")
        expected = told(collection)
        collection.rebuild(kind, max_distance=1, drop_groups=True)
    simdb.load(tmp_path / "dumped", tmp_path / "loaded.simdb")
    with simdb.open(tmp_path / "loaded.simdb") as db:
        assert told(db["c"]) == expected


def test_groups_after_an_id_are_the_others_and_nothing_before_them_is_read(database, monkeypatch):
    collection = database.create_collection("c", simdb.Set(), threshold="0.5", groups="chain")
    collection.add_many([(n, [n // 2]) for n in range(40)])
    every, read = [*collection.kept_groups()], 0
    assert len(every) == 20
    scanned = GroupReader._scan

    def scan(self: GroupReader, *limits: bytes) -> Iterator[tuple[bytes, Any]]:
        nonlocal read
        for record in scanned(self, *limits):
            read += 1
            yield record

    monkeypatch.setattr(GroupReader, "_scan", scan)
    for number in (0, 1, 7, 19, 20):
        after, read = every[number - 1].id or 0 if number else 0, 0
        assert [*collection.kept_groups(after=after)] == every[number:]
        assert read == 2 * len(every[number:])
    assert not [*collection.kept_groups(after=2**64)]
    for wrong in (-1, None, "1"):
        with pytest.raises(simdb.ConfigurationError, match="after must be a whole number"):
            next(collection.kept_groups(after=wrong))
