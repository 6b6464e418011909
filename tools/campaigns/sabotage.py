"""Faults planted on purpose: what finds none of them would find nothing else either."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

FAULTS = (
    *("sync=False", "metasync=False", "the sync of pages left out", "an index write left out"),
    "products of 64 bits",
)


def plant(fault: str | None) -> None:
    """Plant a fault in this process, which should be a child."""
    if fault in {"sync=False", "metasync=False"}:
        _opened_without(fault.removesuffix("=False"))
    elif fault == "the sync of pages left out":
        from tools.campaigns import shim

        shim.skip_syncs()
    elif fault == "an index write left out":
        _without_index_writes()
    elif fault == "products of 64 bits":
        _with_narrow_products()


def _opened_without(option: str) -> None:
    import lmdb

    original = lmdb.open

    def unsafe(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, option: False})

    setattr(lmdb, "open", unsafe)  # noqa: B010 - it is a class to mypy


def _without_index_writes() -> None:
    from simdb.storage.tables.runs import RunWriter

    original = RunWriter.append
    calls = [0]

    def forgetful(self: Any, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] % 5:
            original(self, *arguments)

    setattr(RunWriter, "append", forgetful)  # noqa: B010 - another signature to mypy


def _with_narrow_products() -> None:
    import numpy as np

    from simdb.exact.thresholds import MaximumDistance

    def meets_many(self: Any, numerators: Any, denominators: Any) -> Any:
        most, unit = (np.array(part).astype(np.int64) for part in self.fraction.as_integer_ratio())
        return numerators.astype(np.int64) * unit <= most * denominators

    setattr(MaximumDistance, "meets_many", meets_many)  # noqa: B010


def die() -> None:
    """End this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_every_step(step: Callable[[], None]) -> None:
    """Call a function before every put and deletion, and before and after every commit."""
    from simdb.storage.file.environment import Environment, WriteTransaction

    def before(owner: Any, name: str, *, after: bool = False) -> None:
        original = getattr(owner, name)

        def stepping(*arguments: Any, **options: Any) -> Any:
            step()
            result = original(*arguments, **options)
            if after:
                step()
            return result

        setattr(owner, name, stepping)

    for name in ("put", "put_many", "delete"):
        before(WriteTransaction, name)
    before(Environment, "commit", after=True)
