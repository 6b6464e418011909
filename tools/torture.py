"""Try to make simdb lose, damage or misreport something.

::

    python tools/torture.py all                     # the short forms, as the tests run them
    python tools/torture.py kill power-fail --long
    python tools/torture.py power-fail --count 5000 --seed 7
    python tools/torture.py power-fail --sabotage "sync=False"   # must fail

Everything follows from the seed: the same command does the same again, but for the moments at
which processes are killed. Where a failure names a seed, ``--seed`` with it and ``--count 1`` does
that trial alone. The exit code is 1 if something failed, 3 if nothing could run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import tempfile
import warnings
from pathlib import Path

MODULES = (
    *("machine", "kills", "powerfail", "faults", "space", "damage"),
    *("processes", "fuzzing", "skew", "soak", "names", "maintenance", "inputs"),
)


def main() -> int:
    """Run the chosen campaigns and report."""
    # The campaigns are modules of the checkout, which is not where Python looks for a script's.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tools.campaigns import registry, sabotage, shim

    for module in MODULES:
        importlib.import_module(f"tools.campaigns.{module}")
    arguments = _parse(list(registry.CAMPAIGNS), list(sabotage.FAULTS))
    names = list(registry.CAMPAIGNS) if "all" in arguments.campaigns else arguments.campaigns
    needs_shim = any(registry.CAMPAIGNS[name].shim for name in names)
    if needs_shim and not shim.is_loaded() and shim.compiler():
        with tempfile.TemporaryDirectory() as folder:
            return shim.restart_with(Path(folder), sys.argv)
    reports = {}
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        _warm_up(Path(folder))
        for name in names:
            reports[name] = _run(name, arguments, Path(folder))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    if all(report["skipped"] for report in reports.values()):
        return 3
    return int(any(report["failures"] for report in reports.values()))


def _warm_up(folder: Path) -> None:
    from tools.campaigns import preparing

    warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads of libraries
    preparing.warm_up(folder)
    with preparing.small_parts():
        preparing.warm_up(folder)


def _run(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    from tools.campaigns import preparing, registry, shim

    chosen = registry.CAMPAIGNS[name]
    count = arguments.count or (chosen.long if arguments.long else chosen.short)
    print(f"== {name}: {chosen.description} ({count:,})", flush=True)
    work = folder / name
    work.mkdir()
    run = registry.Run(
        arguments.seed, count, work, arguments.sabotage, arguments.target, verbose=True
    )
    if chosen.shim and not shim.is_loaded():
        run.skipped = "needs a C compiler (cc) for the library that is preloaded"
    else:
        with preparing.small_parts() if chosen.small_parts else contextlib.nullcontext():
            chosen.run(run)
    report = run.report()
    for outcome, number in run.outcomes.items():
        print(f"   {number:>9,}  {outcome}")
    state = run.skipped or f"{len(run.failures)} failures"
    print(f"   {run.trials:,} trials in {report['seconds']} s: {state}", flush=True)
    return report


def _parse(names: list[str], faults: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="campaigns: " + ", ".join(names)
    )
    parser.add_argument("campaigns", nargs="+", choices=[*names, "all"], metavar="CAMPAIGN")
    parser.add_argument("--long", action="store_true", help="the long forms")
    parser.add_argument("--count", type=int, help="so many trials, or seconds, instead")
    parser.add_argument("--seed", type=int, default=1, help="what everything random follows from")
    parser.add_argument("--target", action="append", default=[], help="of fuzz: only this")
    parser.add_argument("--sabotage", choices=faults, help="a fault that must be found")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    parser.add_argument("--work", type=Path, help="folder for stores; of the file system to test")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
