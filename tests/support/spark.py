"""Answers as sorted rows, of a collection and of Spark."""

from __future__ import annotations

from typing import Any


def pairs_of(answer: Any, order: Any = None) -> list[Any]:
    places = {key: place for place, key in enumerate(order or [])}
    rows = [(pair.left, pair.right, pair.value) for pair in answer]
    if order:
        rows = [
            (*sorted((left, right), key=places.__getitem__), value) for left, right, value in rows
        ]
    return sorted(rows)


def listed(answer: Any) -> list[Any]:
    return sorted(map(tuple, answer.collect()))
