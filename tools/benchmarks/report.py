"""The report of a run: a table for people and JSON for programs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.benchmarks.registry import Bench, Figure

PACKAGES = (
    *("simdb-store", "numpy", "numba", "lmdb", "scipy"),
    *("rensa", "datasketch", "pylance", "SetSimilaritySearch"),
)
HEADINGS = ("measure", "figure", "peer", "ratio", "target", "reached", "beside it")


def machine() -> dict[str, Any]:
    """Describe the machine and the versions that the figures belong to."""
    processors = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    memory = [line.split()[1] for line in _lines(Path("/proc/meminfo")) if "MemTotal" in line]
    return {
        "system": platform.platform(),
        "processor": processors[0] if processors else platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": int(memory[0]) * 1024 if memory else None,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def table(figures: list[Figure]) -> str:
    """Lay the figures out in columns."""
    rows = [HEADINGS, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def write_json(path: Path, bench: Bench, measures: list[str]) -> None:
    """Write everything that the table shows, and the details behind it."""
    content = {
        "machine": machine(),
        "parameters": {
            "measures": measures,
            "count": bench.count,
            "seed": bench.seed,
            "data": [] if bench.data is None else [path.name for path in bench.real_files()],
        },
        "figures": [asdict(figure) for figure in bench.figures],
        "details": bench.details,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        f"{figure.measure}: {figure.name}",
        _amount(figure.value, figure.unit),
        f"{figure.peer} {_amount(figure.peer_value, figure.unit)}" if figure.peer else "",
        "" if figure.ratio is None else f"{figure.ratio:,.2f}",
        figure.target,
        "" if figure.reached is None else ("yes" if figure.reached else "NO"),
        figure.note,
    )


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "absent"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f} {unit}".rstrip()
    return f"{value:.4g} {unit}".rstrip()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
