"""Threads that wait to write a little share one commit, and none of them pays for another."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import simdb
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.file import groups
from simdb.storage.file.environment import Environment, WriteTransaction
from simdb.storage.file.groups import Group
from simdb.storage.file.log import Log
from tests.support.threads import Call

PATIENCE = 20.0  # seconds


@pytest.fixture
def collection(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        made = database.create_collection("c", simdb.Set(), threshold=0.5, seed=1)
        made.add("first", [1, 2, 3])
        yield made


def commits(collection: simdb.Collection) -> int:
    """The number of the last commit: each is synced once."""
    return int(collection._handle.environment.statistics()["commits"])


@contextmanager
def held_up(collection: simdb.Collection, calls: list[Call]) -> Iterator[None]:
    """Hold the right to write until all calls that the block begins wait for it."""
    environment: Environment = collection._handle.environment
    with environment.write(PATIENCE):
        yield
        deadline = time.monotonic() + PATIENCE
        while len(environment.lobby._waiting) < len(calls) - 1:  # and one waits for the writer lock
            assert time.monotonic() < deadline
            time.sleep(0.001)
    for call in calls:
        call.join(PATIENCE)
        assert not call.is_alive()


def all_at_once(collection: simdb.Collection, *work: Callable[[], Any]) -> list[Call]:
    """Make calls that all wait for the right to write before the first has it, in this order."""
    calls: list[Call] = []
    with held_up(collection, calls):
        for number, one in enumerate(work):
            calls.append(Call(one))
            deadline = time.monotonic() + PATIENCE
            while collection._handle.environment.lobby._first is None or (
                len(collection._handle.environment.lobby._waiting) < number
            ):
                assert time.monotonic() < deadline
                time.sleep(0.001)
    return calls


def adding(collection: simdb.Collection, key: str, item: list[int], **options: Any) -> Any:
    """A call that adds one row, which is not added with those of others: see ``test_together``."""

    def work() -> simdb.Outcome:
        outcomes: list[simdb.Outcome] = []
        collection.add_many([(key, item)], outcomes=outcomes.extend, **options)
        return outcomes[0]

    return work


def require_whole(collection: simdb.Collection, keys: set[str]) -> None:
    assert {item.key for item in collection.items()} == keys
    assert len(collection) == len(keys)
    assert not collection.check(deep=True).problems


def require_usable(collection: simdb.Collection) -> None:
    """What comes later is written at once, and nobody is waited for."""
    collection.add("later", [50, 51])
    assert collection.get("later").item == {50, 51}
    assert collection._handle.environment.lobby._first is None


def test_those_who_wait_share_one_commit(collection):
    before = commits(collection)
    calls = all_at_once(
        collection, *(adding(collection, str(number), [number, 60]) for number in range(6))
    )
    assert [call.answer.action for call in calls] == ["added"] * 6
    assert commits(collection) == before + 1
    require_whole(collection, {"first", *map(str, range(6))})
    assert [item.key for item in collection.items()] == ["first", *map(str, range(6))]


def test_one_who_is_alone_makes_a_commit_of_its_own(collection):
    before = commits(collection)
    for number in range(3):
        collection.add(number, [number])
    assert commits(collection) == before + 3


def test_each_sees_what_those_before_it_in_the_commit_have_done(collection):
    before = commits(collection)
    calls = all_at_once(
        collection,
        adding(collection, "a", [10, 11, 12]),
        adding(collection, "a", [13]),  # stored meanwhile
        adding(collection, "b", [10, 11, 12], on_duplicate="skip"),
        lambda: collection.delete("a"),
        adding(collection, "a", [14]),
        lambda: collection.delete("absent"),
        adding(collection, "c", [10, 11, 12], on_duplicate="skip"),
    )
    assert isinstance(calls[1].error, simdb.KeyExistsError)
    assert isinstance(calls[5].error, simdb.KeyNotFoundError)
    assert calls[2].answer.duplicate_of == "a"
    assert calls[6].answer.action == "added"  # what was like it is gone
    assert [call.error for call in (calls[0], *calls[2:5], calls[6])] == [None] * 5
    assert commits(collection) == before + 1
    require_whole(collection, {"first", "a", "c"})
    require_usable(collection)


def test_nothing_is_returned_before_the_commit(collection, monkeypatch):
    done: list[int] = []
    commit = WriteTransaction.commit

    def slow(self: WriteTransaction) -> None:
        time.sleep(0.05)
        assert not done
        commit(self)
        done.append(1)

    def told(key: str) -> Callable[[], None]:
        def call() -> None:
            with pytest.raises(simdb.KeyExistsError):
                collection.add(key, [7])
            assert done

        return call

    monkeypatch.setattr(WriteTransaction, "commit", slow)
    lobby = collection._handle.environment.lobby
    leader = threading.Event()
    save = CollectionWriter.save

    def waited_for(self: CollectionWriter) -> None:
        leader.set()
        while not lobby._waiting:
            time.sleep(0.001)
        save(self)

    monkeypatch.setattr(CollectionWriter, "save", waited_for)
    first = Call(adding(collection, "a", [1]))
    leader.wait(PATIENCE)
    second = Call(told("a"))
    for call in (first, second):
        call.join(PATIENCE)
    assert (first.error, second.error, done) == (None, None, [1])


def test_a_commit_that_fails_fails_for_all_and_leaves_nothing(collection, monkeypatch):
    with monkeypatch.context() as patched:

        def full(_: WriteTransaction) -> None:
            raise simdb.DatabaseFullError("full")

        patched.setattr(WriteTransaction, "_append", full)
        calls = all_at_once(
            collection, *(adding(collection, str(number), [number]) for number in range(3))
        )
    assert [type(call.error) for call in calls] == [simdb.DatabaseFullError] * 3
    assert len({id(call.error) for call in calls}) == 3
    require_whole(collection, {"first"})
    require_usable(collection)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_who_is_interrupted_while_it_works_takes_nobody_with_it(collection, monkeypatch, place):
    save = CollectionWriter.save

    def interrupted(self: CollectionWriter) -> None:
        save(self)
        if self.manifest.live == 2 + place and interrupts:
            interrupts.pop()
            raise KeyboardInterrupt

    interrupts = [1]
    monkeypatch.setattr(CollectionWriter, "save", interrupted)
    calls = all_at_once(
        collection,
        *(adding(collection, str(number), [number]) for number in range(place + 1)),
        adding(collection, "last", [9]),
    )
    assert [type(call.error) for call in calls] == [
        *[type(None)] * place,
        KeyboardInterrupt,
        type(None),
    ]
    require_whole(collection, {"first", *map(str, range(place)), "last"})
    require_usable(collection)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, ValueError])
@pytest.mark.parametrize("after", [False, True])
def test_another_commits_for_one_that_is_interrupted(collection, monkeypatch, after, error):
    """By what the handler of a signal raises, which is of that call alone."""
    commit, interrupts = WriteTransaction.commit, [1]

    def interrupted(self: WriteTransaction) -> None:
        if after:
            commit(self)
        if interrupts and self.member is not None:
            interrupts.pop()
            raise error
        if not after:
            commit(self)

    before = commits(collection)
    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, "commit", interrupted)
        calls = all_at_once(
            collection, *(adding(collection, str(number), [number]) for number in range(3))
        )
    assert [type(call.error) for call in calls] == [*[type(None)] * 2, error]
    assert commits(collection) == before + 1
    require_whole(collection, {"first", "0", "1", "2"})
    require_usable(collection)


@contextmanager
def raised_after(
    monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException | type, *, is_large: bool
) -> Iterator[pytest.MonkeyPatch]:
    """Let the first shared commit, or the first of much, raise an error once that step is done."""
    done, raised = getattr(WriteTransaction, step), [1]

    def failing(self: WriteTransaction, *arguments: Any) -> None:
        done(self, *arguments)
        if raised and self.member is not None and self._is_direct >= is_large:
            raised.pop()
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, step, failing)
        yield patched


def little_and_much(collection: simdb.Collection, *, is_large: bool) -> list[Callable[[], Any]]:
    """Two calls, of which the second may write more than a commit holds back."""
    much = list(range(10**6, 10**6 + 20_000)) if is_large else [2]
    return [adding(collection, "0", [1]), adding(collection, "1", much)]


@pytest.mark.parametrize("error", [MemoryError, TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize("is_large", [False, True])
def test_what_is_raised_after_the_commit_is_of_that_call_alone(
    collection, monkeypatch, is_large, error
):
    later = [adding(collection, "2", [3])] * is_large
    with raised_after(monkeypatch, "_commit_noted", error, is_large=is_large):
        calls = all_at_once(collection, *little_and_much(collection, is_large=is_large), *later)
    assert [type(call.error) for call in calls] == [
        type(None),
        error,
        *[type(None)] * is_large,
    ]
    require_whole(collection, {"first", "0", "1", *["2"] * is_large})
    require_usable(collection)


@pytest.mark.parametrize("is_large", [False, True])
def test_where_the_system_fails_to_write_none_is_told_of_a_commit(
    collection, monkeypatch, is_large
):
    """Although the file may show it, as long as the system has not forgotten it."""
    later = adding(collection, "2", [3])
    gone = OSError(errno.EIO, "the disk is gone")
    with raised_after(monkeypatch, "commit", gone, is_large=is_large):
        calls = all_at_once(collection, *little_and_much(collection, is_large=is_large), later)
    assert [type(call.error) for call in calls] == [simdb.DatabaseFailedError] * 3


def test_who_settles_a_group_keeps_nobody_from_writing(collection, monkeypatch):
    """Which has the gate when it begins to write, and whoever settled must pass it."""
    settle = groups.Lobby.settle

    def settled(self: groups.Lobby, *arguments: Any) -> None:
        settle(self, *arguments)
        time.sleep(0.2)

    monkeypatch.setattr(groups, "MOST_MEMBERS", 2)
    interrupted = raised_after(monkeypatch, "_commit_noted", KeyboardInterrupt, is_large=False)
    with interrupted as patched:
        patched.setattr(groups.Lobby, "settle", settled)
        calls = all_at_once(
            collection, *(adding(collection, str(number), [number]) for number in range(5))
        )
    assert [type(call.error) for call in calls].count(KeyboardInterrupt) == 1
    require_whole(collection, {"first", *map(str, range(5))})
    require_usable(collection)


@pytest.mark.parametrize("error", [MemoryError, TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize("step", ["segments", "emptied"])
def test_who_fails_amid_writing_much_leaves_nothing_of_it(collection, monkeypatch, step, error):
    """Nor does the commit of those before it, which comes after."""
    done = getattr(Log, step)

    def failing(self: Log, *arguments: Any) -> Any:
        if any(len(value or b"") > 20_000 for one in self.tables for value in one.values.values()):
            raise error
        return done(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Log, step, failing)
        large = list(range(10**6, 10**6 + 20_000))
        calls = all_at_once(
            collection, adding(collection, "0", [1]), adding(collection, "large", large)
        )
    assert [type(call.error) for call in calls] == [type(None), error]
    require_whole(collection, {"first", "0"})
    require_usable(collection)


def test_nothing_is_remembered_of_a_group_of_which_all_are_interrupted(collection, monkeypatch):
    """The second has read what the first changed, of which the number of the run comes again."""
    save, await_settled = CollectionWriter.save, groups.Lobby.await_settled

    def saved(self: CollectionWriter) -> None:
        save(self)
        if self.manifest.live == 3:
            raise KeyboardInterrupt

    def awaited(self: groups.Lobby, member: groups.Member) -> bool:
        if member.group is not None and member.group.entered:
            raise KeyboardInterrupt
        return await_settled(self, member)

    with monkeypatch.context() as patched:
        patched.setattr(CollectionWriter, "save", saved)
        patched.setattr(groups.Lobby, "await_settled", awaited)
        calls = all_at_once(
            collection,
            adding(collection, "0", [10, 11, 12]),
            adding(collection, "1", [10, 11, 12, 13, 14, 15, 16], on_duplicate="skip"),
        )
    assert [type(call.error) for call in calls] == [KeyboardInterrupt] * 2
    assert [item.key for item in collection.items()] == ["first"]
    collection.add("later", [20, 21, 22])
    assert [match.key for match in collection.search([20, 21, 22])] == ["later"]
    require_whole(collection, {"first", "later"})


@pytest.mark.parametrize("fails", [False, True])
def test_who_writes_much_commits_for_all_or_leaves_them_as_they_were(
    collection, monkeypatch, fails
):
    commit = WriteTransaction.commit

    def failing(self: WriteTransaction) -> None:
        if self._is_direct:
            raise simdb.DatabaseFullError("full")
        commit(self)

    if fails:
        monkeypatch.setattr(WriteTransaction, "commit", failing)
    before = commits(collection)
    calls = all_at_once(
        collection,
        adding(collection, "0", [1]),
        adding(collection, "large", list(range(10**6, 10**6 + 20_000))),
        adding(collection, "2", [2]),
    )
    failures = [None, simdb.DatabaseFullError if fails else None, None]
    assert [call.error and type(call.error) for call in calls] == failures
    assert commits(collection) == before + (1 if fails else 2)
    monkeypatch.undo()
    require_whole(collection, {"first", "0", "2"} | ({"large"} if not fails else set()))
    require_usable(collection)


def test_no_more_are_let_in_than_leave_others_their_turn(collection, monkeypatch):
    monkeypatch.setattr(groups, "MOST_MEMBERS", 1)
    before = commits(collection)
    all_at_once(collection, *(adding(collection, str(number), [number]) for number in range(4)))
    assert commits(collection) == before + 2
    require_whole(collection, {"first", *map(str, range(4))})


def test_who_waits_too_long_is_told_so_and_the_others_go_on(collection):
    with simdb.open(collection._handle.path, threads=1, busy_timeout=0.05) as hasty:
        calls: list[Call] = []
        with held_up(collection, calls):
            patient = Call(adding(collection, "a", [4]))
            time.sleep(0.02)
            late = Call(adding(hasty["c"], "b", [5]))
            late.join(PATIENCE)
        patient.join(PATIENCE)
    assert isinstance(late.error, simdb.DatabaseBusyError)
    require_whole(collection, {"first", "a"})
    require_usable(collection)


def test_a_child_forked_while_some_wait_writes_when_it_may(collection):
    environment: Environment = collection._handle.environment
    with environment.write(PATIENCE):
        calls = [Call(adding(collection, str(number), [number])) for number in range(2)]
        while not environment.lobby._waiting:
            time.sleep(0.001)
        child = os.fork()
        if not child:
            code = 1
            try:
                collection.add("child", [9])
                code = 0
            finally:
                os._exit(code)
    for call in calls:
        call.join(PATIENCE)
    assert os.waitpid(child, 0)[1] == 0
    require_whole(collection, {"first", "0", "1", "child"})


def test_a_group_is_settled_when_nobody_is_left_who_waits():
    group, member = Group(), groups.Member()
    member.group = group
    group.hold(member)
    group.end_part(member)
    assert group.is_settled
