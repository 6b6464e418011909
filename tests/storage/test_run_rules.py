"""Which runs are merged, and what is told of them: each rule by itself."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
from collections import Counter

import pytest

from simdb.storage.tables import layout, runs
from simdb.storage.tables.runs import Run, RunDirectory, due_merges


def idle(number: int, entries: int, dead: int = 0, merge: int = 0) -> Run:
    return Run(number, 0, 0, 1, entries, dead, number, number, merge)


def slow_level(entries: int) -> int:
    """Count how often 128 entries must be multiplied by 8 to be more than these."""
    level, limit = 0, 128
    while entries >= limit:
        level, limit = level + 1, limit * 8
    return level


def test_runs_of_one_level_differ_by_less_than_the_fan_in():
    sizes = [0, 1, 15, 16, 127, 128, 129, 1023, 1024, 8191, 8192, 10**6, 2**30]
    assert [idle(1, size).level for size in sizes] == [slow_level(size) for size in sizes]


def test_a_directory_comes_back_as_it_was_stored():
    directory = RunDirectory(
        9, [Run(1, 2, 3, 4, 5, 6, 7, 8), Run(2, 0, 0, 1, 5, 0, 9, 9, 4, is_output=True)]
    )
    directory.merges.append(runs.Merge(4, -17))
    stored = directory.encode()
    assert layout.unpack(stored) == [
        9,
        [[1, 2, 3, 4, 5, 6, 7, 8, 0, False], [2, 0, 0, 1, 5, 0, 9, 9, 4, True]],
        [[4, -17]],
    ]
    decoded = RunDirectory.decode(stored)
    assert decoded.encode() == stored
    assert decoded.entries == 10
    assert layout.unpack(RunDirectory().encode()) == [1, [], []]
    assert RunDirectory().entries == 0


def test_numbers_of_runs_and_merges_are_given_in_order_and_never_twice():
    directory = RunDirectory()
    assert [directory.take_number() for _ in range(3)] == [1, 2, 3]
    assert RunDirectory.decode(directory.encode()).take_number() == 4


def test_the_dead_are_counted_once_and_in_the_output_of_a_merge_for_its_inputs():
    directory = RunDirectory()
    directory.runs += [
        Run(1, 0, 0, 1, 9, 0, 0, 4),
        Run(5, 0, 0, 0, 0, 0, 5, 9, 4, is_output=True),
        Run(2, 0, 0, 1, 9, 0, 5, 7, 4),
        Run(3, 0, 0, 1, 9, 0, 8, 9, 4),
        Run(6, 0, 0, 1, 9, 0, 10, 10),
    ]
    for item, entries in [(0, 1), (4, 10), (5, 100), (9, 1_000), (10, 10_000), (11, 100_000)]:
        directory.note_deleted(item, entries)
    assert [run.dead for run in directory.runs] == [11, 1_100, 0, 0, 10_000]


def due(group: list[Run]) -> list[list[int]]:
    return [[run.number for run in one] for one in due_merges(group)]


def runs_of(*sizes: int) -> list[Run]:
    return [idle(number, size) for number, size in enumerate(sizes)]


def test_as_many_successive_runs_of_a_level_as_the_fan_in_are_merged():
    assert due(runs_of(*[100] * 7)) == []
    assert due(runs_of(*[100] * 8)) == [list(range(8))]
    assert due(runs_of(*[100] * 9)) == [list(range(9))]
    assert due(runs_of(*[900] * 7, *[100] * 7)) == []
    assert due(runs_of(*[900] * 7, *[100] * 8)) == [list(range(7, 15))]
    assert due(runs_of(*[900] * 8, *[100] * 8)) == [list(range(8)), list(range(8, 16))]
    assert due([]) == []


def test_smaller_runs_are_merged_with_the_last_larger_one_behind_them():
    assert due(runs_of(900, 100)) == []
    assert due(runs_of(100, 900)) == [[0, 1]]
    assert due(runs_of(100, 900, 100)) == [[0, 1]]
    assert due(runs_of(100, 900, 100, 900, 100)) == [[0, 1, 2, 3]]
    assert due(runs_of(9_000, 100, 900, 100)) == [[1, 2]]
    assert due(runs_of(1_000_000, 9_000, 70_000, 900, 1_000, 100, 900)) == [[1, 2], [5, 6]]


def test_a_run_is_rewritten_when_more_than_three_tenths_of_it_are_dead():
    assert due([idle(0, 10, dead=3)]) == []
    assert due([idle(0, 10, dead=4)]) == [[0]]
    assert due([idle(0, 10, dead=3), idle(1, 10, dead=4), idle(2, 10, dead=4)]) == [[1], [2]]
    assert due([idle(0, 900, dead=900), *runs_of(*[100] * 8)[1:]]) == [[0]]
    # Where it is merged with others anyway, it is not rewritten by itself too.
    assert due([idle(0, 10, dead=4), *runs_of(*[100] * 9)[1:]]) == [list(range(9))]


def test_runs_that_are_being_merged_are_left_alone_and_part_those_around_them():
    busy = [idle(4, 100, merge=9), idle(5, 100, merge=9)]
    assert due([*runs_of(100, 100, 100, 100), *busy, *runs_of(*[100] * 8)[:7]]) == []
    before, after = runs_of(*[100] * 8), [idle(10 + number, 100) for number in range(8)]
    assert due([*before, *busy, *after]) == [list(range(8)), list(range(10, 18))]
    assert due([idle(0, 10, dead=9, merge=9)]) == []


def slow_due(group: list[Run]) -> list[list[int]]:
    """Look at each run anew, from the oldest on."""
    found, begin = [], 0
    while begin < len(group):
        level = group[begin].level
        larger = [end for end in range(begin, len(group)) if group[end].level > level]
        alike = begin
        while alike < len(group) and group[alike].level == level:
            alike += 1
        end = begin
        if larger:
            end = larger[-1] + 1
        elif alike - begin >= 8:
            end = alike
        elif group[begin].dead > group[begin].entries * 0.3:
            end = begin + 1
        found.append([run.number for run in group[begin:end]])
        begin = max(end, begin + 1)
    return [numbers for numbers in found if numbers]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_due_is_what_a_look_at_each_run_finds(seed):
    generator = random.Random(seed)
    found: Counter[bool] = Counter()
    for _ in range(100):
        group = [
            idle(number, entries, generator.choice([0, 0, entries * 3 // 10]))
            for number, entries in enumerate(
                generator.choice([10, 900, 9_000]) for _ in range(generator.randint(1, 24))
            )
        ]
        if generator.random() < 0.8:
            group.sort(key=lambda run: -run.entries)
        if generator.random() < 0.2:
            generator.choice(group).dead += 1
        expected = slow_due(group)
        assert due(group) == expected
        found[bool(expected)] += 1
    assert min(found.values()) >= 10


def test_smaller_runs_before_a_larger_one_are_merged_with_it():
    sizes = [100_000, 40, 20, 9_000, 30]
    group = [Run(n, 0, 0, 1, size, 0, n, n) for n, size in enumerate(sizes)]
    assert [[run.number for run in due] for due in due_merges(group)] == [[1, 2, 3]]


def test_a_run_too_much_of_which_is_dead_is_rewritten():
    group = [Run(0, 0, 0, 1, 1_000, 301, 0, 0), Run(1, 0, 0, 1, 100, 30, 1, 1)]
    assert [[run.number for run in due] for due in due_merges(group)] == [[0]]
