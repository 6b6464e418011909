"""What each method promises of its groups, held against pairs, and against all partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.linkage.clusters import Method
from simdb.linkage.entities import Clustering, Entities, SimilarPairs, cluster

METHODS: tuple[Method, ...] = get_args(Method)
LEAST = 0.5
ROOM = 2**20


class Graph(NamedTuple):
    weights: dict[tuple[int, int], float]
    apart: set[tuple[int, int]]

    def entities(self, method: Method, earlier: Entities | None = None) -> Entities:
        pairs, apart = as_pairs(self.weights), as_pairs(dict.fromkeys(self.apart, 0.0))
        return cluster(pairs, apart, Clustering(method, LEAST, ROOM), earlier)

    def group_of(self, method: Method) -> dict[int, int]:
        made = self.entities(method)
        return dict(zip(made.items.tolist(), made.representatives.tolist(), strict=True))

    def weight(self, one: int, other: int) -> float | None:
        """None of what is apart; 0 of what is no pair."""
        pair = (min(one, other), max(one, other))
        return None if pair in self.apart else self.weights.get(pair, 0.0)


def as_pairs(weights: dict[tuple[int, int], float]) -> SimilarPairs:
    numbers = np.array([*weights], np.uint32).reshape(-1, 2)
    return SimilarPairs.of(numbers[:, 0], numbers[:, 1], np.array([*weights.values()], np.float64))


def some_graph(seed: int, *, items: int = 7, share: float = 0.5, first: int = 0) -> Graph:
    generator = random.Random(seed)
    cells = [*combinations(range(first, first + items), 2)]
    return Graph(
        {
            cell: generator.choice((0.5, 0.6, 0.75, 0.8, 1.0))
            for cell in cells
            if generator.random() < share
        },
        {cell for cell in cells if generator.random() < 0.1},
    )


GRAPHS = [
    Graph({(0, 1): 1.0, (1, 2): 1.0}, {(0, 2)}),  # whose ends are within the bound on average
    *(graph for graph in map(some_graph, range(30)) if graph.weights),
]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_together_that_is_never_the_same(method):
    for graph in GRAPHS:
        group_of = graph.group_of(method)
        for one, other in graph.apart & {*combinations(sorted(group_of), 2)}:
            assert group_of[one] != group_of[other]


def test_a_chain_joins_all_that_is_connected_and_breaks_its_weakest_link():
    weights = {(0, 1): 0.9, (1, 2): 0.6, (2, 3): 0.8}
    assert {*Graph(weights, set()).group_of("chain").values()} == {0}
    broken = Graph(weights, {(0, 3)})
    assert broken.group_of("chain") == {0: 0, 1: 0, 2: 2, 3: 2}


def test_every_item_of_a_star_is_a_pair_with_its_centre_and_none_could_have_a_better_one():
    for graph in GRAPHS:
        group_of = graph.group_of("star")
        centres = {*group_of.values()}
        for item, centre in group_of.items():
            if item == centre:
                continue
            own = graph.weight(item, centre)
            assert own
            if not graph.apart:
                assert own == max(graph.weight(item, other) or 0.0 for other in centres - {item})
        if not graph.apart:
            assert not any(graph.weight(*two) for two in combinations(centres, 2))


def mean(graph: Graph, one: list[int], other: list[int]) -> float:
    found = [graph.weight(a, b) for a in one for b in other]
    return -1.0 if None in found else sum(filter(None, found)) / len(found)


def test_by_average_groups_are_joined_as_far_as_they_are_within_the_bound_on_average():
    """Tried with weights that differ, so that it is always known which two come next."""
    for seed in range(20):
        graph = some_graph(seed)
        order = random.Random(seed).sample(range(1, 100), len(graph.weights))
        fine = [LEAST + step / 200 for step in order]
        graph = Graph(dict(zip(graph.weights, fine, strict=True)), graph.apart)
        groups = [[item] for item in sorted({item for pair in graph.weights for item in pair})]
        while len(groups) > 1:
            one, other = max(combinations(groups, 2), key=lambda two: mean(graph, *two))
            if mean(graph, one, other) < LEAST:
                break
            groups = [group for group in groups if group not in (one, other)] + [one + other]
        expected = {item: min(group) for group in groups for item in group}
        assert graph.group_of("average") == expected


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for groups in partitions(rest):
        yield [[first], *groups]
        for place, group in enumerate(groups):
            yield [*groups[:place], [first, *group], *groups[place + 1 :]]


def cost(graph: Graph, groups: list[list[int]]) -> float:
    """The weights of pairs apart, and 1 for each non-pair together; no price pays for ``apart``."""
    group_of = {item: place for place, group in enumerate(groups) for item in group}
    total = 0.0
    for one, other in combinations(group_of, 2):
        weight, together = graph.weight(one, other), group_of[one] == group_of[other]
        if weight is None:
            total += 1_000 * together
        elif together is not bool(weight):
            total += weight or 1.0
    return total


def test_the_cost_of_a_correlation_clustering_is_as_told_and_mostly_the_least_there_is():
    least = 0
    tried = [some_graph(seed, items=6) for seed in range(12)]
    for graph in tried:
        made = graph.entities("correlation")
        items, stands = made.items.tolist(), made.representatives.tolist()
        groups = [
            [item for item, own in zip(items, stands, strict=True) if own == name]
            for name in {*stands}
        ]
        assert made.cost == pytest.approx(cost(graph, groups))
        best = min(cost(graph, other) for other in partitions(items))
        assert best - 1e-9 <= made.cost <= best + 1
        least += made.cost < best + 1e-9
    assert least >= 10


@pytest.mark.parametrize("method", METHODS)
def test_going_on_is_the_same_as_beginning_anew_and_renews_only_what_is_touched(method):
    before: Any = Graph({}, set())
    for block in range(8):
        part = some_graph(100 + block, share=0.6, first=10 * block)
        before = Graph({**before.weights, **part.weights}, before.apart | part.apart)
    earlier = before.entities(method)
    new = {(2, 90): 0.9, (34, 91): 0.7, (90, 91): 0.6, (95, 96): 0.8}
    gone = {pair for pair in before.weights if 55 in pair}
    weights = {pair: weight for pair, weight in before.weights.items() if pair not in gone}
    now = Graph({**weights, **new}, before.apart ^ {(71, 73)})
    made, anew = now.entities(method, earlier), now.entities(method)
    assert made.items.tolist() == anew.items.tolist()
    assert made.representatives.tolist() == anew.representatives.tolist()
    assert 0 < made.renewed < anew.renewed


def test_groups_begin_with_what_stands_for_them_and_come_by_their_first_items():
    graph = Graph({(1, 9): 0.9, (3, 9): 0.8, (2, 4): 0.7, (4, 5): 0.7}, set())
    assert [group.tolist() for group in graph.entities("star").groups()] == [[9, 1, 3], [4, 2, 5]]
    assert [group.tolist() for group in graph.entities("chain").groups()] == [[1, 3, 9], [2, 4, 5]]
    assert Graph({}, set()).entities("star").groups() == []


def test_what_takes_too_much_room_is_refused_by_name():
    ring = {(place, place + 1): 0.8 for place in range(300)}
    with pytest.raises(ConfigurationError, match=r"301 items.*'correlation'.*method='star'"):
        Graph(ring, set()).entities("correlation")
    assert len(Graph(ring, set()).entities("star").groups()) > 100
