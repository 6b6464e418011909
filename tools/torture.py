"""Try to make simdb lose, damage or misreport something.

::

    python tools/torture.py all                     # the short forms, as the tests run them
    python tools/torture.py kill power-fail --long
    python tools/torture.py power-fail --count 5000 --seed 7
    python tools/torture.py power-fail --sabotage "sync=False"   # must fail
    python tools/torture.py planted                 # every such fault, each of which must be found

Everything follows from the seed: the same command does the same again, but for the moments at
which processes are killed. Where a failure names a seed, ``--seed`` with it and ``--count 1`` does
that trial alone. The exit code is 1 if something failed, or a planted fault was not found, 3 if
nothing could run.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

PLANTED = "planted"
MODULES = (
    *("machine", "kills", "powerfail", "together", "faults", "space", "damage"),
    *("processes", "fuzzing", "skew", "soak", "names", "maintenance", "inputs"),
    *("groups", "service"),
)


def main() -> int:
    """Run the chosen campaigns and report."""
    # The campaigns are modules of the checkout, which is not where Python looks for a script's.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tools.campaigns import registry, sabotage, shim

    for module in MODULES:
        importlib.import_module(f"tools.campaigns.{module}")
    arguments = _parse(list(registry.CAMPAIGNS), list(sabotage.FAULTS))
    tasks = _tasks(arguments)
    needs_shim = any(registry.CAMPAIGNS[task.campaign].shim for task in tasks)
    if needs_shim and not shim.is_loaded() and shim.compiler():
        with tempfile.TemporaryDirectory() as folder:
            return shim.restart_with(Path(folder), sys.argv)
    reports = {}
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        _warm_up(Path(folder))
        # The children are forks: what is loaded stays to their end too, and is neither looked
        # through again and again nor copied for it.
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        for number, task in enumerate(tasks):
            reports[task.name] = _run(task, arguments, Path(folder) / str(number))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    if all(report["skipped"] for report in reports.values()):
        return 3
    return int(
        any(
            bool(reports[task.name]["failures"]) != task.must_fail
            for task in tasks
            if not reports[task.name]["skipped"]
        )
    )


class Task(NamedTuple):
    """A campaign to run: the name of its report, its size, the fault planted for it if any."""

    name: str
    campaign: str
    size: int
    fault: str | None
    must_fail: bool


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    from tools.campaigns import registry, sabotage

    tasks = []
    names = list(registry.CAMPAIGNS) if "all" in arguments.campaigns else arguments.campaigns
    for name in names:
        if name == PLANTED:
            tasks += [
                Task(f"{campaign}: {fault}", campaign, count, fault, must_fail=True)
                for fault, planted in sabotage.FAULTS.items()
                if arguments.long or not planted.long
                for campaign, count in planted.campaigns.items()
            ]
        else:
            chosen = registry.CAMPAIGNS[name]
            count = arguments.count or (chosen.long if arguments.long else chosen.short)
            tasks.append(Task(name, name, count, arguments.sabotage, must_fail=False))
    return tasks


def _warm_up(folder: Path) -> None:
    from tools.campaigns import preparing

    warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads of libraries
    preparing.warm_up(folder)
    with preparing.small_parts():
        preparing.warm_up(folder)


def _run(task: Task, arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    from tools.campaigns import preparing, registry, shim

    chosen = registry.CAMPAIGNS[task.campaign]
    print(f"== {task.name}: {chosen.description} ({task.size:,})", flush=True)
    work.mkdir()
    run = registry.Run(arguments.seed, task.size, work, task.fault, arguments.target, verbose=True)
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
    parser.add_argument(
        "campaigns", nargs="+", choices=[*names, "all", PLANTED], metavar="CAMPAIGN"
    )
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
