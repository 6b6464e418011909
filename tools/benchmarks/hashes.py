"""Many hashes of 64 bits in one store: bytes a hash, searches within 4 bits, planted ones found.

A search is timed in the first hundreds of a state of the store and once some thousands have paid
for the bitmap of stored keys that the later ones ask.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure

HERE = "tools.benchmarks.hashes"
MANY, NEAR, PLANTED = 23_500_000, 4, 1_000
SEARCHES = 500  # of each kind
UNTIL_FILTERED = 4_000
BYTES, SECONDS = 40, 1e-3  # a hash, and the median of a search


def made(many: int, seed: int) -> Any:
    """Random hashes, the last of them planted at 1 to ``NEAR`` bits from the first."""
    generator = np.random.default_rng(seed)
    hashes = generator.integers(0, 2**64, many, dtype=np.uint64)
    planted = min(PLANTED, many // 2)
    near = hashes[:planted].copy()
    for place in range(planted):
        bits = generator.choice(64, generator.integers(1, NEAR + 1), replace=False)
        near[place] ^= np.bitwise_or.reduce(np.uint64(1) << bits.astype(np.uint64))
    hashes[many - planted :] = near
    return hashes


def timed(stored: simdb.Collection, probes: Any) -> list[float]:
    """Return the processor seconds of a search of each probe."""
    spent = []
    for probe in probes:
        item = probe.tobytes()
        begun = time.process_time()
        stored.search(item)
        spent.append(time.process_time() - begun)
    return spent


def lookups(many: int, seed: int, work: str) -> dict[str, Any]:
    """Store hashes and search for stored and new ones, first and once searches are filtered."""
    hashes = made(many, seed)
    generator = np.random.default_rng(seed + 1)
    planted = min(PLANTED, many // 2)

    def rows() -> Iterator[tuple[int, bytes]]:
        width = hashes.itemsize
        packed = hashes.tobytes()
        return ((place, packed[place * width : (place + 1) * width]) for place in range(many))

    def probes(count: int) -> tuple[Any, Any]:
        new = generator.integers(0, 2**64, count, dtype=np.uint64)
        return hashes[generator.integers(0, many, count)], new

    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "h.simdb", sync="batch", threads=1) as database,
    ):
        stored = database.collection("h", simdb.Bits(64), max_distance=NEAR)
        begun = time.process_time()
        stored.add_many(rows())
        added = time.process_time() - begun
        stored.compact()
        database.backup(Path(folder) / "c.simdb", compact=True)
        size = (Path(folder) / "c.simdb").stat().st_size
        with simdb.open(Path(folder) / "c.simdb", read_only=True) as compacted:
            asked = compacted["h"]
            asked.search(hashes[0].tobytes())
            first = {
                name: timed(asked, chosen)
                for name, chosen in zip(("stored", "new"), probes(SEARCHES), strict=True)
            }
            for some in probes(UNTIL_FILTERED // 2):
                timed(asked, some)
            filtered = {
                name: timed(asked, chosen)
                for name, chosen in zip(("stored", "new"), probes(SEARCHES), strict=True)
            }
            found = sum(
                many - planted + place
                in {match.key for match in asked.search(hashes[place].tobytes())}
                for place in range(planted)
            )
            index = asked.stats()["index"]["bytes_per_item"]
    return {
        "bytes": index,
        "bytes in all": size / many,
        "added": added,
        "first": first,
        "filtered": filtered,
        "recall": found / planted,
    }


@measure("hashes", f"searches among {MANY:,} hashes of 64 bits within {NEAR}, one core")
def hashes_of_64_bits(bench: Bench) -> None:
    """Report bytes a hash, times of searches, and the share of planted hashes that is found."""
    answer = in_child(f"{HERE}:lookups", cores=1, many=MANY, seed=bench.seed, work=str(bench.work))
    bench.details["hashes"] = answer
    bench.at_most("hashes", "index, bytes a hash", answer["bytes"], "bytes", limit=BYTES)
    bench.add(Figure("hashes", "compacted copy, bytes a hash", answer["bytes in all"], "bytes"))
    bench.add(Figure("hashes", f"adding {MANY:,}", answer["added"], "s"))
    for state in ("first", "filtered"):
        for name, spent in answer[state].items():
            median, late = np.quantile(spent, (0.5, 0.99)).tolist()
            asked = f"search of a {name} hash, {state}"
            note = f"p99 {late * 1e3:.2f} ms"
            limit = SECONDS * 1e3
            bench.at_most("hashes", asked, median * 1e3, "ms", limit=limit, note=note)
    bench.add(Figure("hashes", f"planted within {NEAR} that are found", answer["recall"], "recall"))
