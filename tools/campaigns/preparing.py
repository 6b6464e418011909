"""What is done before campaigns: parts are made small, and everything is compiled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import simdb
from tools.campaigns import subjects


@contextmanager
def small_parts() -> Iterator[None]:
    """Make chunks, blocks, merges and epochs small, so that little data meets all of them."""
    from simdb import zstandard
    from simdb.ingest import postings as exact_indexing
    from simdb.storage.tables import blocks, runs

    knobs = (
        (runs, "CHUNK_ENTRIES", 256),
        (runs, "SMALL_MERGE", 128),
        (runs, "FAN_IN", 4),
        (blocks, "TARGET_BYTES", 4_096),
        (blocks, "ITEM_BLOCK_BYTES", 1_024),
        (zstandard, "LEAST_SAMPLE", 1_024),
        (zstandard, "SAMPLE_PER_BYTE", 2),
        (exact_indexing, "FIRST_TABLE", 60),
        (exact_indexing, "LEAST_REPOSTED", 20),
        (exact_indexing, "MEASURED_EVERY", 4),
        (exact_indexing, "WORTH_IT", 10),
        (exact_indexing, "BASELINE_AFTER", 4),
        (exact_indexing, "WORSE", 1),
    )
    before = [getattr(module, name) for module, name, _ in knobs]
    for module, name, value in knobs:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(knobs, before, strict=True):
            setattr(module, name, value)


def warm_up(folder: Path) -> None:
    """Have everything compiled before children are forked, and leave no store open."""
    generator = random.Random(0)
    path = folder / "warm.simdb"
    with simdb.open(path, threads=1) as database:
        model = subjects.make(database)
        for _ in range(25):
            change = subjects.draw(generator, model)
            subjects.carry_out(database, change)
            subjects.apply(model, change)
        for name in subjects.SUBJECTS:
            subjects.carry_out(database, (name, "compact", []))
        assert not list(subjects.differences(database, model, generator, probes=10))
        for name in subjects.SUBJECTS:
            list(database[name].pairs())
    for file in folder.glob("warm.simdb*"):
        file.unlink()
