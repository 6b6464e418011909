"""Programs that people write, and that must just work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.ingest import add as loading
from simdb.kinds import distances
from tests.support.processes import Child, forked, started
from tests.support.strategies import set_text

WORDS = simdb.Text(simdb.WordShingles(1))
SETTINGS: dict[str, Any] = {"threshold": 0.6, "seed": 1}


def news_of(db: Any) -> Any:
    return db.collection("news", WORDS, **SETTINGS)


# ------------------------------------------------------------------------------- data frames


@pytest.mark.heavy
def test_a_data_frame_is_added_with_a_missing_text_reported(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "other": [1.5, 2.5, 3.5, 4.5],
            "id": np.array([10, 11, 12, 13], np.int64),
            "text": ["one two three", float("nan"), "one two three four", "five six"],
        }
    )
    rows = frame[["id", "text"]]
    with simdb.open(tmp_path / "s.simdb") as db:
        news = news_of(db)
        with pytest.raises(simdb.BadItemError, match=r"row 1: .*nan.*missing"):
            news.add_many(rows.itertuples(index=False))
        assert len(news) == 0
        report = news.add_many(rows.itertuples(index=False), on_bad="skip", find_duplicates=True)
        assert (report.added, report.bad, report.duplicates_new) == (3, 1, 1)
        assert report.bad_rows[0][0] == 1
        assert [(type(r.key), r.key) for r in news.items()] == [(int, 10), (int, 12), (int, 13)]
        assert 10 in news
        assert np.int64(10) in news
        report = news.add_many(rows.dropna().itertuples(index=False), on_existing="skip")
        assert (report.rows, report.present) == (3, 3)


@pytest.mark.heavy
def test_numpy_and_pandas_keys_are_plain_keys(tmp_path):
    pandas = pytest.importorskip("pandas")
    names = pandas.Series(["a", "b"])
    with simdb.open(tmp_path / "s.simdb") as db:
        news = news_of(db)
        news.add_many(zip(names, ["x y", "z"], strict=True))
        news.add_many(zip(np.array(["c", "d"]), np.array(["x y", "q"]), strict=True))
        news.add_many(zip(np.arange(3, dtype=np.uint8), ["1", "2", "3"], strict=True))
        keys = [record.key for record in news.items()]
        assert keys == ["a", "b", "c", "d", 0, 1, 2]
        assert {type(key) for key in keys} == {str, int}
        assert type(news.get("c").item) is str
        assert news.delete_many(np.array(["a", "b"])) == 2
        assert news.delete_many(pandas.Series([0, 1])) == 2


class Streamed:
    """A table that can do nothing but give its rows as a stream of Arrow."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Batch:
    """A batch that can do nothing but give its rows as an array of Arrow."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


# The type checker reads this, too: what can be given is annotated so.
def test_tables_and_answers_are_given_as_they_are(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"key": [1, 2, 3], "text": ["one two three", "one two three", "other words"]}
    table, batch = Streamed(pyarrow.table(columns)), Batch(pyarrow.record_batch(columns))
    with simdb.open(tmp_path / "s.simdb") as db:
        news: simdb.Collection = db.collection("news", WORDS, threshold=0.6, seed=1)
        assert news.add_many(table, key="key", item="text").added == 3
        assert news.dedupe(batch, key="key", item="text", on_existing="keep").rows == 3
        assert len(news.search_many(batch, item="text")) == 3
        pairs: simdb.Pairs = news.pairs()
        found: list[simdb.Pair] = list(news.score(pairs))
        assert [(pair.left, pair.right) for pair in found] == [(1, 2)]
        assert list(news.score(found)) == list(news.score([(1, 2)])) == found
        assert list(news.score(Streamed(pairs.to_arrow()))) == found
        shares: list[float] = news.shares_met(found)
        assert shares == news.shares_met(pairs) == news.shares_met(Streamed(pairs.to_arrow()))


def test_distances_are_of_lists_and_of_arrays() -> None:
    one, other = np.array([1.0, 0.0]), np.array([0, 1])
    assert distances.angle(one, other) == distances.angle([1, 0], [0, 1]) == 90
    assert distances.lr_distance(one, other, 1) == distances.lr_distance([1, 0], [0, 1], 1) == 2
    assert distances.hamming_distance(one, other) == 2


# ------------------------------------------------------------------------ changing while reading


def test_deleting_inside_a_loop_over_pairs(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        news = news_of(db)
        news.add_many((number, set_text([number // 5])) for number in range(100))
        for pair in news.pairs():
            if pair.right in news:
                news.delete(pair.right)
        assert [record.key for record in news.items()] == list(range(0, 100, 5))
        assert not list(news.pairs())
        assert db.check(deep=True).sound


def test_deleting_many_from_a_generator_over_the_items(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        news = news_of(db)
        news.add_many((number, f"text {number}") for number in range(100))
        assert news.delete_many(r.key for r in news.items() if "7" in r.item) == 19
        assert not [record for record in news.items() if "7" in record.item]
        assert db.check(deep=True).sound


def test_adding_and_replacing_inside_a_loop_over_items_and_from_a_search(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 3)
    with simdb.open(tmp_path / "s.simdb") as db:
        news = news_of(db)
        news.add_many((number, f"text {number}") for number in range(10))
        for record in news.items():
            news.replace(record.key, record.item.upper())
            news.add(f"copy {record.key}", record.item)
        assert len(news) == 20
        # Rows that are made by reading the same store, while they are being added.
        report = news.add_many((f"again {r.key}", r.item) for r in news.items())
        assert report.added == 20
        assert [match.key for match in news.search("TEXT 3")] == [3, "again 3"]


# ------------------------------------------------------------------------------ running again


def test_a_script_that_runs_a_second_time(tmp_path):
    program = """
        import sys, simdb
        with simdb.open(sys.argv[1]) as db:
            news = db.collection("news", simdb.Text(simdb.WordShingles(2)), threshold=0.5)
            rows = [("a", "one two three four"), ("b", "one two three"), ("c", "five six")]
            report = news.add_many(rows, on_existing="skip")
            print(report.added, report.present, len(news))
            print([m.key for m in news.search("one two three four")], len(list(news.pairs())))
    """
    first, second = (forked(dedent(program), tmp_path / "s.simdb").stdout for _ in range(2))
    assert first == "3 0 3\n['a', 'b'] 1\n"
    assert second == "0 3 3\n['a', 'b'] 1\n"


# --------------------------------------------------------------------------- several processes


def serve(path: Any, requests: Any, answers: Any) -> Any:
    """A worker of a web service: opened once, then asked again and again."""
    with simdb.open(path) as db:
        news = db["news"]
        answers.put("ready")
        while (text := requests.get(timeout=60)) is not None:
            matches = news.search(text)
            with db.snapshot() as state:
                assert len(list(state["news"].items())) == len(state["news"])
            answers.put([match.key for match in matches])


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_of_a_web_service_read_while_another_process_adds(tmp_path, method):
    context = multiprocessing.get_context(method)
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        news = news_of(db)
        news.add("first", "one two three")
        queues = [(context.Queue(), context.Queue()) for _ in range(2)]
        workers = [context.Process(target=serve, args=(path, *pair)) for pair in queues]
        for worker in workers:
            worker.start()
        try:
            for _, answers in queues:
                assert answers.get(timeout=60) == "ready"
            expected: list[Any] = ["first"]
            for number in range(12):
                news.add(number, "one two three")
                expected.append(number)
                if number % 4 == 3:
                    news.delete(number)
                    expected.pop()
                if number == 7:
                    news.compact()
                if number == 9:
                    news.rebuild(threshold=0.7)
                for requests, _ in queues:
                    requests.put("one two three")
                for _, answers in queues:
                    assert answers.get(timeout=60) == expected
        finally:
            for requests, _ in queues:
                requests.put(None)
            for worker in workers:
                worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert db.check(deep=True).sound


def test_a_fork_after_open_works_in_parent_and_children(tmp_path):
    """The usual web server: the application is loaded, then workers are forked."""
    program = """
        import os, sys, simdb
        db = simdb.open(sys.argv[1], threads=2)
        news = db.collection("news", simdb.Text(simdb.WordShingles(1)), threshold=0.6)
        news.add_many((n, f"before {n}") for n in range(100))
        news.search("before 1")
        children = []
        for child in range(3):
            pid = os.fork()
            if pid == 0:
                assert [m.key for m in news.search("before 1")] == [1]
                news.add_many((f"{child} {n}", f"child {child} {n}") for n in range(20))
                assert f"{child} 19" in news
                assert len(list(news.items())) >= 120
                db.close()
                os._exit(0)
            children.append(pid)
        news.add("parent", "of all of them")
        print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
        print(len(news), news.search("of all of them")[0].key, db.check(deep=True).sound)
        db.close()
    """
    told = forked(dedent(program), tmp_path / "s.simdb").stdout
    assert told == "[0, 0, 0]\n161 parent True\n"


def test_a_child_forked_in_the_middle_of_a_read_opens_the_store_anew(tmp_path):
    program = """
        import os, sys, simdb
        db = simdb.open(sys.argv[1])
        news = db.collection("news", simdb.Text(simdb.WordShingles(1)), threshold=0.6)
        news.add_many((n, f"text {n}") for n in range(5))
        items = news.items()
        next(items)
        pid = os.fork()
        if pid == 0:
            found = [match.key for match in news.search("text 1")]
            try:
                next(items)  # the parent's snapshot, which the child has no part in
            except simdb.DatabaseClosedError as error:
                os._exit(0 if found == [1] and "fork" in str(error) else 2)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, len(list(items)), [m.key for m in news.search("text 1")])
    """
    assert forked(dedent(program), tmp_path / "s.simdb").stdout == "0 4 [1]\n"


def test_a_child_forked_while_another_thread_adds_closes_the_store(tmp_path):
    program = """
        import os, sys, threading, simdb
        db = simdb.open(sys.argv[1])
        collection = db.collection("c", simdb.Set())
        collection.add(1, {1, 2})
        begun, ended = threading.Event(), threading.Event()

        def rows():
            yield 2, {3, 4}
            begun.set()
            ended.wait()

        adding = threading.Thread(target=collection.add_many, args=(rows(),))
        adding.start()
        begun.wait()
        pid = os.fork()
        if pid == 0:
            found = len(collection)
            db.close()
            with open("/proc/self/maps") as maps:
                is_mapped = sys.argv[1] in maps.read()
            simdb.open(sys.argv[1], sync="batch").close()
            os._exit(10 * found + is_mapped)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended.set()
        adding.join()
        print(code, len(collection))
    """
    assert forked(dedent(program), tmp_path / "s.simdb").stdout == "10 2\n"


@pytest.mark.heavy
def test_two_processes_that_add_at_once_both_succeed(tmp_path, monkeypatch):
    path = tmp_path / "s.simdb"

    def add(child: Child, name: str) -> None:
        with simdb.open(path, busy_timeout=60, sync="batch") as db:
            news = news_of(db)
            report = news.add_many((f"{name} {n}", f"common{n} words{n}") for n in range(300))
            for n in range(30):
                news.replace(f"{name} {n}", f"other{n} {name}{n}")
            news.delete_many(f"{name} {n}" for n in range(30, 60))
            child.say(report.added)

    monkeypatch.setattr(loading, "BATCH_ITEMS", 20)
    processes = [Child(partial(add, name=name)) for name in ("left", "right")]
    with simdb.open(path, busy_timeout=60) as db:
        news = news_of(db)
        while not all(process.ended() for process in processes):
            with db.snapshot() as state:
                assert len(list(state["news"].items())) == len(state["news"])
            time.sleep(0.05)
        assert [process.hear() for process in processes] == ["300", "300"]
        assert [process.end() for process in processes] == [0, 0]
        assert len(news) == 2 * 270
        found = [(pair.left.split()[1], pair.right.split()[1]) for pair in news.pairs()]
        assert all(left == right for left, right in found)
        assert len(found) == 240
        assert db.check(deep=True).sound


def test_ctrl_c_while_waiting_for_another_writer(tmp_path):
    """With the default settings: the wait ends at once, and the store stays usable."""
    path = tmp_path / "s.simdb"
    program = """
        import sys, simdb
        db = simdb.open(sys.argv[1], busy_timeout=None)
        news = db["news"]
        news.search("one two")  # what is imported on first use is imported now
        news.add_many([])
        print("open", flush=True)
        sys.stdin.readline()
        try:
            print("waiting", flush=True)
            news.add("waiter", "text")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print([m.key for m in news.search("one two")], "waiter" in news, flush=True)
        sys.stdin.readline()
        news.add("waiter", "text")
        print("waiter" in news)
        db.close()
    """
    with simdb.open(path) as db:
        news = news_of(db)
        news.add("first", "one two")
        waiter = started(sys.executable, "-c", dedent(program), path)
        assert waiter.stdout is not None
        assert waiter.stdin is not None
        assert waiter.stdout.readline() == "open\n"
        with db._handle.environment.write(10):
            waiter.stdin.write("go on\n")
            waiter.stdin.flush()
            assert waiter.stdout.readline() == "waiting\n"
            time.sleep(0.3)
            assert waiter.poll() is None
            begin = time.monotonic()
            os.kill(waiter.pid, signal.SIGINT)
            assert waiter.stdout.readline() == "interrupted\n"
            assert time.monotonic() - begin < 2
            assert waiter.stdout.readline() == "['first'] False\n"
        output, errors = waiter.communicate("go on\n", timeout=30)
        assert (waiter.returncode, output) == (0, "True\n"), errors
        assert "waiter" in news
        assert db.check(deep=True).sound


def test_a_writer_waits_no_longer_than_it_was_told(tmp_path):
    with simdb.open(tmp_path / "s.simdb", busy_timeout=0.2) as db:
        news = news_of(db)
        with db._handle.environment.write(10):
            failures = []

            def add() -> Any:
                begin = time.monotonic()
                with pytest.raises(simdb.DatabaseBusyError, match="busy_timeout"):
                    news.add("a", "text")
                failures.append(time.monotonic() - begin)

            thread = threading.Thread(target=add)
            thread.start()
            thread.join(10)
            assert len(failures) == 1
            assert 0.1 < failures[0] < 5
        news.add("a", "text")
        assert len(news) == 1


def test_a_read_after_a_fork_waits_for_a_writer_no_longer_than_it_was_told(tmp_path):
    with simdb.open(tmp_path / "s.simdb", busy_timeout=0.2) as db:
        news = news_of(db)
        news.add("first", "one two")

        def write(own: Child) -> None:
            with db._handle.environment.write(10):
                own.say("writing")
                own.hear()

        child = Child(write)
        assert child.hear() == "writing"
        for read in (partial(news.search, "one two"), db.stats):
            begin = time.monotonic()
            with pytest.raises(simdb.DatabaseBusyError, match="busy_timeout"):
                read()
            assert time.monotonic() - begin < 5
        child.say("end")
        assert child.end() == 0
        assert [match.key for match in news.search("one two")] == ["first"]


@pytest.mark.heavy
def test_a_process_killed_in_the_middle_of_an_add_leaves_its_last_commit(tmp_path):
    path = tmp_path / "s.simdb"
    program = """
        import os, signal, sys, simdb
        from simdb.ingest import add as loading
        loading.BATCH_ITEMS = 50
        with simdb.open(sys.argv[1]) as db:
            news = db.collection("news", simdb.Text(simdb.WordShingles(1)), threshold=0.6)
            def rows():
                for n in range(1000):
                    if n == 425:
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield n, f"text {n}"
            news.add_many(rows())
    """
    forked(dedent(program), path, code=-signal.SIGKILL)
    with simdb.open(path) as db:
        news = db["news"]
        assert len(news) in (350, 400)  # a batch may be signed while the next one is read
        assert db.check(deep=True).sound
        report = news.add_many(((n, f"text {n}") for n in range(1000)), on_existing="skip")
        assert report.present + report.added == 1_000
        assert [record.key for record in news.items()] == list(range(1_000))
        assert db.check(deep=True).sound
