"""Measure simdb against its targets and its peers, in one run.

::

    python tools/bench.py all --data FOLDER --json figures.json
    python tools/bench.py search open --count 100000

Install the peers with ``pip install --group bench``; one that is missing is reported as absent.
Large stores are kept in the work folder and used again by the next run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

MODULES = (
    *("headline", "ingest", "doors", "dedupe_growth", "pipelines"),
    *("growth", "latency", "memory", "kept_groups", "pages"),
    *("joins", "extremes", "exact_search", "exact_growth", "epochs"),
    *("set_ingest", "bits", "vectors", "exact_methods", "questions", "hashes"),
    *("strings", "method_peers", "alike", "distances", "compressed", "feel"),
    *("fingerprints", "records", "spark", "shinglings", "audits"),
)
LARGE_COUNT = 1_000_000


def main() -> int:
    """Run the chosen measures and report; the exit code is 1 if one failed or missed a target."""
    # The measures are modules of the checkout, which is not where Python looks for a script's.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tools.benchmarks import registry, report

    for module in MODULES:
        importlib.import_module(f"tools.benchmarks.{module}")
    arguments = _parse(registry.MEASURES)
    chosen = list(registry.MEASURES) if "all" in arguments.measures else arguments.measures
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench = registry.Bench(
        data=arguments.data,
        work=arguments.work,
        count=LARGE_COUNT if arguments.count is None else arguments.count,
        seed=arguments.seed,
        stringsimjoin=arguments.stringsimjoin,
        text_dedup=arguments.text_dedup,
        datatrove=arguments.datatrove,
        plot=arguments.plot,
    )
    if arguments.count is not None:
        bench.set_count = arguments.count
    failed = False
    for name in dict.fromkeys(chosen):
        print(f"== {name}: {registry.MEASURES[name].description}", flush=True)
        began = time.perf_counter()
        try:
            registry.MEASURES[name].run(bench)
        except (RuntimeError, FileNotFoundError) as error:
            # The figures of the other measures, some of them an hour old, must not be lost.
            print(f"   {error}", file=sys.stderr, flush=True)
            bench.details[f"{name}, failure"] = str(error)
            failed = True
        bench.details[f"{name}, seconds in all"] = time.perf_counter() - began
    print()
    print(report.table(bench.figures))
    if arguments.json is not None:
        report.write_json(arguments.json, bench, chosen)
    return int(failed or any(figure.reached is False for figure in bench.figures))


def _parse(measures: Mapping[str, object]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="measures: " + ", ".join(measures),
    )
    parser.add_argument("measures", nargs="+", choices=[*measures, "all"], metavar="MEASURE")
    data = os.environ.get("SIMDB_DATA")
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="default: SIMDB_DATA"
    )
    parser.add_argument(
        "--count",
        type=int,
        help=f"documents of a large store (default: {LARGE_COUNT:,}), and items with which the "
        "exact index grows (default: 100,000)",
    )
    for peer, package, variable in (
        ("stringsimjoin", "py_stringsimjoin", "SIMDB_STRINGSIMJOIN"),
        ("text-dedup", "text-dedup", "SIMDB_TEXT_DEDUP"),
        ("datatrove", "datatrove", "SIMDB_DATATROVE"),
    ):
        python = os.environ.get(variable)
        parser.add_argument(
            f"--{peer}",
            type=Path,
            default=Path(python) if python else None,
            metavar="PYTHON",
            help=f"a Python that has {package}; default: {variable}",
        )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="draw the curve of exact-growth here"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the made corpus")
    parser.add_argument("--json", type=Path, help="write the figures and details to this file")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "simdb-bench",
        help="folder for stores; on the disk that is to be measured",
    )
    arguments = parser.parse_args()
    if arguments.plot is not None and importlib.util.find_spec("matplotlib") is None:
        # Told now, not after the minutes that the growth takes.
        parser.error("--plot needs matplotlib: pip install --group bench")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
