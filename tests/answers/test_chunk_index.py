"""Bit vectors in an index that misses nothing: every question beside a double loop."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

import simdb
from simdb.answers import buckets, costs
from simdb.ingest import dedupe
from simdb.storage.tables.views import KeyFilter, RunView
from tests.support.grids import some_of
from tests.support.histories import added_in_two_parts

LENGTH, MOST = 70, 5
KIND = simdb.Bits(LENGTH)


def numbers_near(seed: int, count: int = 200) -> list[int]:
    """Around a few centres, so that many are near, many too far, and some equal."""
    generator = random.Random(seed)
    centres = [generator.getrandbits(LENGTH) for _ in range(12)]
    return [
        generator.choice(centres) ^ sum({1 << generator.randrange(LENGTH) for _ in range(flips)})
        for flips in (generator.randrange(5) for _ in range(count))
    ]


def apart(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def near(probe: int, rows: dict[int, int], most: int) -> list[tuple[int, float]]:
    found = [(key, float(apart(probe, row))) for key, row in rows.items()]
    return sorted((pair for pair in found if pair[1] <= most), key=lambda pair: pair[::-1])


@pytest.fixture(params=[{}, {"bands": 6}, {"bands": 2, "rows": 12}], ids=str)
def collection(tmp_path, request):
    """As it is planned, with a chunk more than bits may differ, and with few small chunks."""
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db.collection("c", KIND, max_distance=MOST, recall=1, seed=1, **request.param)


@pytest.fixture
def rows(collection):
    return added_in_two_parts(collection, numbers_near(1))


@pytest.mark.parametrize("most", [MOST, 3, 0])
def test_searches_are_those_of_a_loop(collection, rows, most):
    probes = [*numbers_near(1)[:30], *numbers_near(2)[:5]]
    answers = collection.search_many(probes, max_distance=most)
    for probe, found in zip(probes, answers, strict=True):
        assert [(match.key, match.distance) for match in found] == near(probe, rows, most)
        assert (found.guarantee, found.expected_recall) == ("exact", 1)
    asked = collection.search(probes[0], max_distance=most, guarantee="probable")
    assert list(asked) == list(answers[0])


def test_beyond_its_distance_everything_is_compared(collection, rows):
    found = collection.search(rows[0], max_distance=20)
    assert [(match.key, match.distance) for match in found] == near(rows[0], rows, 20)
    assert found.guarantee == "exact"
    assert collection.pairs(max_distance=MOST + 1).guarantee == "exact"
    with pytest.raises(simdb.ThresholdTooLowError):
        collection.search(rows[0], max_distance=20, guarantee="probable")


def test_beyond_the_plan_of_sampled_bits_pairs_joins_and_groups_are_exact(tmp_path):
    with simdb.open(tmp_path / "sampled.simdb", sync="batch", threads=1) as db:
        collection = db.collection("c", KIND, max_distance=MOST, recall=0.9, seed=1)
        added_in_two_parts(collection, numbers_near(1))
        for ask in (collection.pairs, collection.groups, partial(collection.join, collection)):
            answer, wanted = (
                ask(max_distance=MOST + 1, guarantee=guarantee) for guarantee in ("auto", "exact")
            )
            assert answer.guarantee == "exact"
            assert list(answer) == list(wanted)


def test_pairs_and_groups_are_those_of_a_double_loop(collection, rows):
    pairs = collection.pairs()
    found = [(pair.left, pair.right, pair.distance) for pair in pairs]
    expected = {
        (one, other, float(apart(a, b)))
        for one, a in rows.items()
        for other, b in rows.items()
        if one < other and apart(a, b) <= MOST
    }
    assert len(found) == len(set(found))
    assert set(found) == expected
    group_of = {key: key for key in rows}
    for one, other, _ in sorted(expected):
        gone, stays = group_of[other], group_of[one]
        group_of = {key: stays if own == gone else own for key, own in group_of.items()}
    wanted: dict[int, set[int]] = {}
    for key, own in group_of.items():
        wanted.setdefault(own, set()).add(key)
    groups = collection.groups()
    assert groups.guarantee == pairs.guarantee == "exact"
    assert sorted(sorted(group.keys) for group in groups) == sorted(
        sorted(members) for members in wanted.values() if len(members) > 1
    )


def test_few_new_items_are_looked_up(collection, rows):
    filler = random.Random(9)
    collection.add_many((1_000 + n, filler.getrandbits(LENGTH)) for n in range(300))
    since = collection.checkpoint()
    added = dict(enumerate(numbers_near(1)[:10], start=2_000))
    collection.add_many(added.items())
    pairs = collection.pairs(since=since)
    found = {(pair.left, pair.right, pair.distance) for pair in pairs}
    expected = {
        (one, other, float(apart(row, new)))
        for other, new in added.items()
        for one, row in (rows | added).items()
        if one < other and apart(row, new) <= MOST
    }
    assert found == expected
    assert pairs.looked_at < 310 * len(added)  # and not all with all


@pytest.mark.parametrize("count", [5, 120])
def test_few_left_items_are_looked_up_and_many_sorted(collection, rows, count, tmp_path):
    with simdb.open(tmp_path / "other.simdb", sync="batch", threads=1) as db:
        left = db.collection("left", KIND)
        own = dict(enumerate(numbers_near(1, count)))
        left.add_many(own.items())
        found = [(pair.left, pair.right, pair.distance) for pair in left.join(collection)]
    expected = {
        (one, other, float(apart(a, b)))
        for one, a in own.items()
        for other, b in rows.items()
        if apart(a, b) <= MOST
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("portion", some_of([7, 1, 200], 2))
def test_duplicates_are_those_of_the_definition(collection, portion):
    """A row is a duplicate of the first row kept before it that is near enough."""
    rows = numbers_near(4)
    kept: dict[int, int] = {}
    expected: list[Any] = []
    for key, row in enumerate(rows):
        target = next((one for one, other in kept.items() if apart(row, other) <= MOST), None)
        expected.append(target)
        if target is None:
            kept[key] = row
    outcomes: list[simdb.Outcome] = []
    numbered = list(enumerate(rows))
    for begin in range(0, len(rows), portion):
        collection.add_many(
            numbered[begin : begin + portion], on_duplicate="skip", outcomes=outcomes.extend
        )
    assert [outcome.duplicate_of for outcome in outcomes] == expected
    assert [outcome.distance for outcome in outcomes] == [
        None if target is None else float(apart(row, rows[target]))
        for row, target in zip(rows, expected, strict=True)
    ]
    assert sorted(entry.key for entry in collection.items()) == sorted(kept)


def test_no_more_are_looked_up_at_once_than_there_is_room_for_their_keys(tmp_path, monkeypatch):
    """Each of these vectors has thousands of keys, and the smallest memory setting no room."""
    looked_up: list[int] = []

    def propose(reader: Any, signed: Any, *arguments: Any, **options: Any) -> Any:
        looked_up.append(signed.buckets.values.size)
        return buckets.propose(reader, signed, *arguments, **options)

    monkeypatch.setattr(dedupe, "propose", propose)
    generator = random.Random(3)
    rows = [(key, generator.randbytes(128)) for key in range(300)]
    near = [(key + 300, bytes([row[0] ^ 7]) + row[1:]) for key, row in rows[::3]]
    with simdb.open(tmp_path / "s.simdb", threads=1, memory=2**24) as db:
        made = db.collection("c", simdb.Bits(1024), max_distance=100, recall=1, seed=1)
        made.add_many(rows)
        report = made.dedupe(near)
        assert [one.duplicate_of for one in report.duplicates] == [key for key, _ in rows[::3]]
        room = 2**24 // 8  # bytes
        assert max(looked_up) * 8 <= room
        assert len(looked_up) > 5


def test_an_index_that_misses_nothing_is_checked_rebuilt_and_audited(collection, rows):
    assert collection.check(deep=True).problems == ()
    assert collection.self_audit(sample=50).recall == 1
    collection.compact()
    collection.rebuild(max_distance=2)
    assert collection.search(rows[0]).guarantee == "exact"
    assert [match.key for match in collection.search(rows[0])] == [
        key for key, _ in near(rows[0], rows, 2)
    ]
    collection.rebuild(max_distance=8, recall=0.9)
    assert collection.search(rows[0], guarantee="probable").guarantee == "probable"


def test_a_search_looks_at_few(tmp_path, monkeypatch):
    rates = costs.Rates(scanned=1e-8, picked=1e-6, joined=1e-8)
    monkeypatch.setattr(costs, "rates_of", lambda *_: rates)  # not those of a busy machine
    generator = random.Random(3)
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        hashes = db.collection("h", simdb.Bits(64), max_distance=8, recall=1)
        rows = [generator.getrandbits(64) for _ in range(1_500)]
        hashes.add_many((number, f"{row:016x}") for number, row in enumerate(rows))
        asked = f"{rows[7] ^ 0x8001_0101_0100_0110:016X}"
        assert hashes.search(asked).candidates == 1_500  # less work than 696 buckets of 1,500
        found = hashes.search(asked, guarantee="probable")
        assert found.guarantee == "exact"
        assert [(match.key, match.distance) for match in found] == [(7, 7.0)]
        assert found.candidates < 30


def test_equal_items_are_grouped_without_comparing_all_of_them(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        hashes = db.collection("h", simdb.Bits(64), max_distance=4, recall=1)
        hashes.add_many((number, number % 2 << 40) for number in range(1_000))
        groups = hashes.groups()
        assert [len(group.keys) for group in groups] == [1_000]
        assert groups.looked_at <= 1


def test_pairs_of_many_new_items_are_those_of_new_items_only(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        hashes = db.collection("h", simdb.Bits(64), max_distance=4, recall=1)
        hashes.add_many((number, number) for number in range(16))
        since = hashes.checkpoint()
        hashes.add_many([(16, 2**60), (17, 2**60 - 1)])
        found, every = hashes.pairs(since=since), hashes.pairs()
        pairs = {(pair.left, pair.right) for pair in found}
        assert pairs == {(number, 16) for number in range(15)}
        assert len(list(every)) == 16 * 15 // 2 + len(pairs)
        assert found.looked_at < every.looked_at / 2


def test_it_is_what_bits_get_where_it_is_quick_and_small(tmp_path):
    asked: list[tuple[simdb.Bits, int, dict[str, Any], float]] = [
        (simdb.Bits(64), 8, {}, 1),
        (simdb.Bits(256), 24, {}, 1),
        (simdb.Bits(64), 10, {}, 0.99),  # too many buckets to look into
        (simdb.Bits(64), 16, {}, 0.99),  # which chunks cannot serve at all
        (simdb.Bits(1024), 10, {}, 0.99),  # more bucket keys than bands
        (simdb.Bits(64), 4, {"recall": 0.9}, 0.9),
        (simdb.Bits(64), 4, {"bands": 20, "rows": 20}, 0.99),
    ]
    with simdb.open(tmp_path / "s.simdb") as db:
        for number, (kind, most, options, recall) in enumerate(asked):
            made = db.collection(str(number), kind, max_distance=most, **options)
            assert float(made.recall) == recall
            again = db.collection(str(number), kind, max_distance=most, **options)
            assert again.recall == made.recall


def test_a_collection_made_with_sampled_bits_is_opened_as_it_is(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        made = db.collection("c", KIND, max_distance=MOST, recall=0.99, seed=1)
        made.add_many(enumerate(numbers_near(1)))
        again = db.collection("c", KIND, max_distance=MOST)
        assert float(again.recall) == 0.99
        assert again.search(numbers_near(1)[0], guarantee="probable").guarantee == "probable"
        with pytest.raises(simdb.ConfigurationError, match="recall"):
            db.collection("c", KIND, max_distance=MOST, recall=1)
        again.rebuild(recall=1)
        assert db.collection("c", KIND, max_distance=MOST).pairs().guarantee == "exact"
        with pytest.raises(simdb.ConfigurationError, match="recall 1 within 40"):
            again.rebuild(max_distance=40)
        again.rebuild(max_distance=40, recall=0.99)


def test_searches_of_one_state_ask_a_filter_of_the_stored_keys(collection, rows, monkeypatch):
    """What it was made of is what it is asked about: after a change it is another one."""
    made = []

    def noted(view: RunView, most_bytes: int) -> KeyFilter:
        made.append(key_filter(view, most_bytes))
        return made[-1]

    key_filter = RunView.key_filter
    monkeypatch.setattr(RunView, "key_filter", noted)
    monkeypatch.setattr(buckets, "MANY_KEYS", 1)
    monkeypatch.setattr(buckets, "MARKED_A_KEY", 64)
    probes, old = [*numbers_near(1)[:20], *numbers_near(2)[:10]], dict(rows)
    path = collection._handle.path
    with simdb.open(path, sync="batch") as database, database.snapshot() as state:
        before = state["c"]
        for number in range(3):
            for probe in probes:
                found = collection.search(probe, guarantee="probable")
                assert [(match.key, match.distance) for match in found] == near(probe, rows, MOST)
            assert len(made) == number + 1
            collection.delete(number)
            del rows[number]
            collection.add(1_000 + number, probes[-1])
            rows[1_000 + number] = probes[-1]
            collection.compact()
        for probe in probes:  # the snapshot of before has what is gone by now
            found = before.search(probe, guarantee="probable")
            assert [(match.key, match.distance) for match in found] == near(probe, old, MOST)


def test_few_searches_make_no_filter(collection, rows, monkeypatch):
    monkeypatch.setattr(RunView, "key_filter", lambda *_: pytest.fail("a filter was made"))
    monkeypatch.setattr(buckets, "MANY_KEYS", 1)
    monkeypatch.setattr(buckets, "MARKED_A_KEY", 1e-4)
    assert collection.search(rows[0], guarantee="probable")[0].key == 0


def test_damage_that_a_search_does_not_meet_does_not_end_it(collection, rows, monkeypatch):
    tried = []

    def damaged(*_: Any) -> KeyFilter:
        tried.append(1)
        raise simdb.CorruptionError("a chunk is damaged")

    monkeypatch.setattr(RunView, "key_filter", damaged)
    monkeypatch.setattr(buckets, "MANY_KEYS", 1)
    for _ in range(60):
        assert collection.search(rows[0], guarantee="probable")[0].key == 0
    assert tried == [1]
