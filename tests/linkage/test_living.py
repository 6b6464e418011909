"""Which group is which: the rule by examples, and what happened repeated on random partitions."""

from __future__ import annotations

import random

from simdb.linkage.living import NO_GROUP, happened, inherit, shares_of


def ids(groups: list[list[int]], before: dict[int, int]) -> tuple[list[int], dict[int, int]]:
    made = inherit(shares_of(groups, before), list(map(len, groups)), 10)
    return made.ids, made.aliases


def test_the_heir_has_most_of_a_group_and_the_oldest_id_stays():
    whole = dict.fromkeys((1, 2, 3, 4), 7)
    assert ids([[1, 2], [3]], whole) == ([7, NO_GROUP], {})
    assert ids([[1], [2, 3]], whole) == ([NO_GROUP, 7], {})
    assert ids([[1, 2], [3, 4]], whole) == ([7, 10], {})  # as many: the first item decides
    assert ids([[3, 4], [1, 2]], whole) == ([10, 7], {})
    assert ids([[4]], whole) == ([7], {})  # the last item keeps it
    assert ids([], whole) == ([], {})
    assert ids([[5, 6], [8]], {}) == ([10, NO_GROUP], {})
    both = {1: 9, 2: 9, 3: 4}
    assert ids([[1, 2, 3]], both) == ([4], {9: 4})
    # The younger group is no heir of the older one only because it is larger.
    assert ids([[1, 3], [2]], both) == ([4, NO_GROUP], {9: 4})


def random_partition(generator: random.Random, items: list[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for item in items:
        groups.setdefault(generator.randrange(4), []).append(item)
    return list(groups.values())


def test_what_happened_can_be_repeated():
    generator = random.Random(5)
    for _ in range(300):
        old = random_partition(generator, generator.sample(range(9), 6))
        before = {item: place for place, group in enumerate(old, 1) for item in group}
        new = random_partition(generator, sorted(generator.sample(range(9), 6)))
        made = inherit(shares_of(new, before), list(map(len, new)), 10)
        now = {item: label for label, group in zip(made.ids, new, strict=True) for item in group}
        items = before.keys() | now.keys()
        moved = {item: (before.get(item, NO_GROUP), now.get(item, NO_GROUP)) for item in items}
        groups = {label: set(group) for label, group in enumerate(old, 1)}
        for change in happened(moved, made):
            came = set(change.items)
            if change.action == "merged":
                groups[change.group] |= groups.pop(change.other)
            elif change.action == "joined":
                assert not came & groups[change.group]
                groups[change.group] |= came
            elif change.action == "created":
                assert change.group not in groups
                groups[change.group] = came
            else:
                assert came <= groups[change.group]
                groups[change.group] -= came
                if change.action == "split":
                    groups[change.other] = came
        expected = {label: set(group) for label, group in zip(made.ids, new, strict=True) if label}
        assert {label: own for label, own in groups.items() if own} == expected
