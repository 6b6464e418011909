"""Searches for many items at once: the answers of single ones, in every kind."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import buckets, compare
from tests.support.kind_cases import ALL, CASES


@pytest.mark.parametrize("many_met", [0, 10**9])
@pytest.mark.parametrize("name", CASES)
def test_many_searches_answer_as_single_ones_do(tmp_path, monkeypatch, name, many_met):
    """With small parts and small buckets, so that every part of the work ends somewhere."""
    monkeypatch.setattr(buckets, "MANY_MET", many_met)
    monkeypatch.setattr(buckets, "PROBED_AT_ONCE", 7)
    monkeypatch.setattr(buckets, "LARGE_BUCKET", 2)
    case = CASES[name]
    items = case.many(np.random.default_rng(5))
    with simdb.open(tmp_path / "s.simdb", threads=2) as db:
        collection = db.collection("c", case.kind, seed=1, **case.bound)
        collection.add_many(enumerate(items[5:] * 2))
        collection.delete_many([0, 9, 20])
        options = {**case.bound, "guarantee": "probable", "limit": 3}
        probes = items[::2]
        answers = collection.search_many(probes, **options)
        single = [collection.search(probe, **options) for probe in probes]
    assert list(answers) == single
    assert [one.candidates for one in answers] == [one.candidates for one in single]
    assert sum(map(len, answers)) > len(probes)


def test_records_are_compared_with_many_probes_in_one_call(tmp_path, monkeypatch):
    monkeypatch.setattr("simdb.answers.scan.PAIRS_COMPARED", 100)
    kind = simdb.Record([simdb.Field("a", compare="words"), simdb.Field("b")], candidates=[["b"]])
    rows = [{"a": f"x{n % 3} y{n % 7} z", "b": f"b{n % 5}"} for n in range(40)]
    calls: list[int] = []
    options: dict[str, Any] = {"guarantee": "exact", "metadata": True}
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=0.5)
        collection.add_many((n, row, {"even": n % 2 == 0}) for n, row in enumerate(rows))
        collection.delete_many([0, 9, 20])
        measure = type(collection._present.signer.measure)
        compared = measure.compare_between

        def counted(self, ones, others, left, right):
            calls.append(left.size)
            return compared(self, ones, others, left, right)

        monkeypatch.setattr(measure, "compare_between", counted)
        asks: list[dict[str, Any]] = [{}, {"limit": 3}, {"where": {"even": True}, "limit": 2}]
        for asked in asks:
            single = [collection.search(row, **options, **asked) for row in rows]
            calls.clear()
            answers = collection.search_many(rows, **options, **asked)
            assert list(answers) == single
            assert [one.candidates for one in answers] == [37] * 40
            assert max(calls) == 2 * 37  # of probes that are compared with all
            assert sum(calls) == 40 * 37


def test_many_searches_read_a_bucket_of_equal_items_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "SHARE_OF_MET", 2**24)
    monkeypatch.setattr(buckets, "PAIRS_COMPARED", 128)
    compared = []
    plain = compare.comparisons

    def counted(opened, items, rows, numbers, **options):
        compared.append(numbers.size)
        return plain(opened, items, rows, numbers, **options)

    monkeypatch.setattr(buckets, "comparisons", counted)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), seed=1)
        collection.add_many([(key, {1, 2, 3}) for key in range(100)])
        answers = collection.search_many([{1, 2, 3}, {7}, {1, 2, 3}, {1, 2, 3}])
    assert [len(matches) for matches in answers] == [100, 0, 100, 100]
    assert max(compared) <= 200


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_that_threads_do_are_answered_as_one(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(buckets, "LEAST_PROBED", 2)
    items = [{number, number + 1, number + 2, number + 3} for number in range(60)]
    with simdb.open(tmp_path / "s.simdb", threads=threads) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.6, seed=1)
        collection.add_many(enumerate(items))
        probes = [*items, {-1}, *items]
        answers = collection.search_many(probes)
        assert list(answers) == [collection.search(one) for one in probes]


def test_what_fails_between_parts_ends_what_threads_have_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "LEAST_PROBED", 1)
    begun, ended = [], []
    plain = compare.Comparison.result

    def slow(comparison):
        begun.append(1)
        time.sleep(0.05)
        ended.append(1)
        return plain(comparison)

    def failing(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(compare.Comparison, "result", slow)
    with simdb.open(tmp_path / "s.simdb", threads=2) as db:
        collection = db.collection("c", simdb.Set(), seed=1)
        collection.add_many((key, {1, 2, key}) for key in range(20))
        monkeypatch.setattr(buckets.Buckets, "matches_of_many", failing)
        with pytest.raises(ZeroDivisionError):
            collection.search_many([{1, 2, key} for key in range(20)])
        assert 0 < len(begun) == len(ended) < 20


@pytest.mark.parametrize("name", ALL)
def test_no_items_have_no_answers(tmp_path, name):
    case = ALL[name]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", case.kind, seed=1, **case.bound)
        assert list(collection.search_many([])) == []
        collection.add_many(enumerate(case.items))
        for guarantee in ("auto", "probable") if case.kind.estimates else ("auto", "exact"):
            assert list(collection.search_many(iter(()), guarantee=guarantee)) == []


def test_many_searches_tell_of_the_collection_that_they_saw(tmp_path):
    """The filter stands for another thread that changes the collection meanwhile."""
    levenshtein = simdb.String("levenshtein")
    db = simdb.open(tmp_path / "s.simdb", threads=1)
    collection = db.collection("c", levenshtein, max_distance=1)
    collection.add_many([("a", "hello"), ("b", "hallo")])

    def rebuilt():
        normalised = simdb.String("levenshtein", normalised=True)
        db["c"].rebuild(normalised, threshold=0.5)

    def dropped():
        db.drop_collection("c")
        db.close()

    for change, measured in ((rebuilt, "distance"), (dropped, "similarity")):
        due = [change]

        def accepted(_, due=due):
            if due:
                due.pop()()
            return True

        answers = collection.search_many(["hello"], where=accepted)
        assert answers.to_arrow().column_names == ["probe", "key", measured]
        assert len(answers[0]) == 2


def test_one_text_is_not_taken_for_its_letters(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text())
        for one in ("hello", b"hello"):
            with pytest.raises(simdb.WrongTypeError, match=r"items must be .*, not one text"):
                collection.search_many(one)
        with pytest.raises(simdb.UsageError, match="the items are a list: leave it out"):
            collection.search_many(["hello"], item="text")
