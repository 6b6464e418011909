"""Growth to a million documents: does the rate hold, and how many bytes does the index take."""

from __future__ import annotations

from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.stores import large_store


@measure("growth", "rate, index bytes and file size while a store grows to --count documents")
def growth(bench: Bench) -> None:
    """Build the large store, which the measures after this one use."""
    _, built = large_store(bench, fresh=True)
    bench.details["growth"] = built
    rates = [
        min(built["window"], bench.count - number * built["window"]) / seconds
        for number, seconds in enumerate(built["window_seconds"])
    ]
    bench.add(
        Figure(
            "growth",
            "whole",
            bench.count / sum(built["window_seconds"]),
            "documents/s",
            note="by windows: " + " ".join(f"{rate:,.0f}" for rate in rates),
        )
    )
    if len(rates) > 2:
        bench.add(
            Figure(
                "growth",
                "last window against the second",
                rates[-1],
                "documents/s",
                peer="100k to 200k",
                peer_value=rates[1],
                ratio=rates[-1] / rates[1],
                target="at least 0.7",
                reached=rates[-1] >= 0.7 * rates[1],
            )
        )
    tables = {name: size / bench.count for name, size in built["tables"].items()}
    live = sum(size for name, size in tables.items() if name not in {"documents", "keys"})
    note = " ".join(f"{name} {size:.1f}" for name, size in tables.items() if size)
    bench.at_most("growth", "live index", live, "bytes/document", limit=450, note=note)
    note = f"file {built['file_bytes']:,}, documents {built['document_bytes']:,} bytes"
    excess = built["worst_excess"]
    name = "file above the documents, at worst"
    bench.at_most("growth", name, excess, "bytes/document", limit=650, note=note)
