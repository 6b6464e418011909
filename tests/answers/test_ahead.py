"""Calls that threads make ahead of the one who asks for their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from simdb.answers.ahead import MOST_AHEAD, done_ahead
from simdb.threads import Pool


@pytest.fixture(params=[None, 1, 3])
def pool(request):
    if request.param is None:
        yield None
        return
    with Pool(request.param, "test") as threads:
        yield threads


@pytest.mark.parametrize("count", [0, 1, MOST_AHEAD, 50])
def test_results_come_in_the_order_of_the_calls(pool, count):
    assert list(done_ahead((partial(int, one) for one in range(count)), pool)) == [*range(count)]


def test_what_a_call_raises_comes_in_its_place(pool):
    done = done_ahead((partial(divmod, 6, one) for one in (3, 2, 0, 1)), pool)
    assert [next(done), next(done)] == [(2, 0), (3, 0)]
    with pytest.raises(ZeroDivisionError):
        next(done)


def test_calls_are_asked_for_in_the_thread_of_the_caller_and_few_ahead(pool):
    asked = []

    def calls() -> Iterator[Callable[[], int]]:
        for one in range(10):
            asked.append(threading.get_ident())
            yield partial(int, one)

    with closing(done_ahead(calls(), pool)) as done:
        assert next(done) == 0
        assert len(asked) == (1 if pool is None else MOST_AHEAD + 1)
    assert set(asked) == {threading.get_ident()}


def test_what_has_begun_has_ended_when_nobody_asks_for_more():
    begun, ended, may_end = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    with Pool(1, "test") as pool:
        calls: list[Callable[[], object]] = [lambda: 0, slow, slow, slow]
        done = done_ahead(calls, pool)
        assert next(done) == 0
        assert begun.wait(10)
        threading.Timer(0.05, may_end.set).start()
        done.close()
        assert ended.is_set()
