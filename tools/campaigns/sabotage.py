"""Faults planted on purpose: what finds none of them would find nothing else either."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import structs


@dataclass(frozen=True)
class Fault:
    """A fault, and the campaigns that find it.

    Attributes:
        plant: plants it in this process.
        campaigns: the number of trials, or seconds, in which a campaign finds it, by its name.
        long: planted among all with the long forms only, for to find it takes longest.
    """

    plant: Callable[[], None]
    campaigns: dict[str, int]
    long: bool = False


def plant(name: str | None) -> None:
    """Plant a fault, if one is named, in this process, which should be a child."""
    if name is not None:
        FAULTS[name].plant()


def _put_in_place(owner: Any, name: str, replacement: Any) -> None:
    setattr(owner, name, replacement)


def _opened_without(option: str) -> None:
    import lmdb

    original = lmdb.open

    def unsafe(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, option: False})

    _put_in_place(lmdb, "open", unsafe)


def _without_index_writes() -> None:
    from simdb.storage.tables.runs import RunWriter

    original = RunWriter.append
    calls = [0]

    def forgetful(self: Any, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] % 5:
            original(self, *arguments)

    _put_in_place(RunWriter, "append", forgetful)


def _without_waiting() -> None:
    from simdb.storage.file.groups import Lobby, Member

    def await_settled(_: Lobby, member: Member) -> bool:
        group = member.group
        return group is not None and group.is_held_by(member) and not group.is_settled

    _put_in_place(Lobby, "await_settled", await_settled)


def _with_narrow_products() -> None:
    import numpy as np

    from simdb.exact.thresholds import MaximumDistance

    def meets_many(self: Any, numerators: Any, denominators: Any) -> Any:
        most, unit = (np.array(part).astype(np.int64) for part in self.fraction.as_integer_ratio())
        return numerators.astype(np.int64) * unit <= most * denominators

    _put_in_place(MaximumDistance, "meets_many", meets_many)


def _without_looking_at_names() -> None:
    from simdb.storage.file import preflight

    _put_in_place(preflight, "require_same_file", lambda path, identity: None)


def _without_asking_for_the_kind() -> None:
    from simdb.ingest import add
    from simdb.opened import catalogue, opened

    def present(transaction: Any, known: Any) -> Any:
        found = catalogue.require_settings(transaction, known.name)
        return structs.replace(known, number=found.number)

    for module in (add, opened):
        _put_in_place(module, "present_settings", present)


def _with_bags_as_they_are_given() -> None:
    import numpy as np

    from simdb.kinds.bags import BagItems

    def weights(self: Any, items: Any) -> Any:
        return np.array([len(item) for item in items], np.int64)

    _put_in_place(BagItems, "weights", weights)


def _without_page_syncs() -> None:
    from tools.campaigns import shim

    shim.skip_syncs()


FAULTS = {
    "sync=False": Fault(partial(_opened_without, "sync"), {"power-fail": 12}),
    "metasync=False": Fault(partial(_opened_without, "metasync"), {"power-fail": 12}),
    "the sync of pages left out": Fault(_without_page_syncs, {"power-fail": 12}),
    # Several recordings, as on a busy machine threads of one may never have met.
    "members that do not wait for their commit": Fault(_without_waiting, {"together": 480}),
    "an index write left out": Fault(_without_index_writes, {"machine": 3, "kill": 5}),
    "products of 64 bits": Fault(_with_narrow_products, {"bounds": 20}),
    "a file that was replaced written to": Fault(_without_looking_at_names, {"names": 24}),
    "the kind of a stale handle not asked for": Fault(
        _without_asking_for_the_kind, {"maintenance": 4}
    ),
    "bags measured by their bytes": Fault(_with_bags_as_they_are_given, {"hostile": 12}, long=True),
}


def die() -> None:
    """End this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_every_step(step: Callable[[], None]) -> None:
    """Call a function before every put and deletion, and before and after every commit."""
    from simdb.storage.file.environment import WriteTransaction

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
    before(WriteTransaction, "commit", after=True)
