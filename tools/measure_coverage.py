"""Measure how much of each package the tests run, in lines and branches, against the targets.

::

    python3 tools/run.py coverage               # both parts, and the table
    python3 tools/run.py coverage --missing     # also what no test runs, file by file
    python3 tools/run.py coverage kernels       # one part only
    python3 tools/run.py coverage --last        # the table of the last measurement again

The kernels are compiled, and nothing sees which of their lines run. So they are measured in a
part of their own with the compiler off, by the tests that are quick enough without it. Child
processes of the tests are measured too, unless a test kills them.

The exit code is 1 if a package is below its target, or if a test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import coverage

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = CHECKOUT / "build" / "coverage"
LEAST_LINES = 95  # per cent
LEAST_BRANCHES = 90  # per cent


@dataclass(frozen=True)
class Part:
    """Packages that are measured together, by which tests, and how these are run."""

    packages: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def test_files(self) -> list[Path]:
        """Return the files of tests that the patterns name, but for those left out."""
        folder = CHECKOUT / "tests"
        found = {path for pattern in self.tests for path in folder.glob(pattern)}
        return sorted(found.difference(*(folder.glob(pattern) for pattern in self.left_out)))


# Those that call kernels with little data, but for a few tests of much.
KERNEL_TESTS = (
    *("test_bag_items.py", "test_bag_measures.py", "test_banding.py", "test_bits_items.py"),
    *("test_bits_measures.py", "test_bucket_kernels.py", "test_exact_criteria.py"),
    *("test_exact_join.py", "test_exact_order.py", "test_families.py"),
    *("test_family_rates.py", "test_family_words.py", "test_fingerprint_family.py"),
    *("test_fingerprint_items.py", "test_fingerprint_measure.py", "test_mmds_families.py"),
    *("test_mmds_minhash.py", "test_overlaps.py", "test_run_views.py", "test_set_items.py"),
    *("test_shingling.py", "test_sketching.py", "test_vector_measures.py"),
)
TOO_SLOW = (
    "test_fingerprint_family.py::"
    "test_candidates_over_many_choices_of_functions_are_as_the_shared_squares_say",
    "test_fingerprint_measure.py::test_as_many_minutiae_as_can_be_in_one_place_are_no_trouble",
)

PARTS = {
    "stores": Part(
        packages=("storage", "exact", "lsh", "engine"),
        tests=("test_*.py",),
        # The campaigns, and what tests doors, tools and sources, say nothing about these packages
        # that the tests of stores do not say in less time.
        left_out=(
            *("test_torture.py", "test_cli_*.py", "test_tools*.py", "test_programs.py"),
            *(
                "test_architecture.py",
                "test_threshold_products.py",
                "test_docs.py",
                "test_plotting.py",
                "test_interchange_*.py",
            ),
        ),
    ),
    "kernels": Part(
        packages=("kernels",),
        tests=KERNEL_TESTS,
        settings={"NUMBA_DISABLE_JIT": "1"},
        # Unsigned numbers of NumPy warn where the compiled ones wrap around, as they are meant to.
        options=(
            *("-W", "ignore:overflow encountered:RuntimeWarning"),
            *(f"--deselect=tests/{test}" for test in TOO_SLOW),
        ),
    ),
}


@dataclass(frozen=True)
class File:
    """What was run of one module."""

    name: str
    lines: int
    lines_run: int
    branches: int
    branches_run: int
    missing_lines: tuple[int, ...]
    missing_branches: tuple[tuple[int, int], ...]

    def missing(self) -> str:
        """Return the lines and branches that were not run, or "" if there are none.

        A branch is "12->15"; one that leaves the function is "12->end". Those from or to a line
        that was not run are left out.
        """
        lines = ", ".join(line_ranges(self.missing_lines))
        branches = ", ".join(
            f"{start}->{end if end > 0 else 'end'}"
            for start, end in self.missing_branches
            if not {start, end} & set(self.missing_lines)
        )
        named = ((lines, f"lines {lines}"), (branches, f"branches {branches}"))
        return "; ".join(words for found, words in named if found)


def line_ranges(numbers: Iterable[int]) -> list[str]:
    """Return ascending line numbers as "3" and "5-8"."""
    ranges = []
    for _, members in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in members]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ranges


def share(run: int, of: int) -> float:
    """Return per cent; what has nothing to run is run whole."""
    return 100 * run / of if of else 100.0


def row(package: str, files: list[File]) -> tuple[str, bool]:
    """Return the row of the table for a package, and whether it meets the target."""
    lines, branches = sum(file.lines for file in files), sum(file.branches for file in files)
    line_share = share(sum(file.lines_run for file in files), lines)
    branch_share = share(sum(file.branches_run for file in files), branches)
    met = bool(files) and line_share >= LEAST_LINES and branch_share >= LEAST_BRANCHES
    cells = f"{package:<8} {lines:>6,} {line_share:>7.2f} % {branches:>9,} {branch_share:>7.2f} %"
    return f"{cells}   {LEAST_LINES} / {LEAST_BRANCHES} %  {'yes' if met else 'NO'}", met


def measure(name: str) -> int:
    """Run the tests of one part under measurement and return their exit code."""
    part = PARTS[name]
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = ",".join(str(CHECKOUT / "simdb" / package) for package in part.packages)
    command = [
        *(sys.executable, "-m", "coverage", "run", f"--source={sources}"),
        *(f"--data-file={folder / 'data'}", f"--rcfile={CHECKOUT / 'pyproject.toml'}"),
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", *part.options),
        *map(str, part.test_files()),
    ]
    # This checkout comes before an installed simdb, in child processes too.
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {**os.environ, **part.settings, "PYTHONPATH": os.pathsep.join(paths)}
    print(f"== {name}: {len(part.test_files())} files of tests", flush=True)
    began = time.monotonic()
    code = subprocess.run(command, cwd=CHECKOUT, env=settings, check=False).returncode
    print(f"== {name}: {time.monotonic() - began:,.0f} s", flush=True)
    measured = coverage.Coverage(str(folder / "data"), config_file=str(CHECKOUT / "pyproject.toml"))
    measured.combine([str(folder)])
    measured.json_report(outfile=str(folder / "report.json"))
    return code


def read(name: str) -> dict[str, list[File]]:
    """Return what was measured of each package of a part; no files where nothing was."""
    try:
        report = json.loads((FOLDER / name / "report.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {package: [] for package in PARTS[name].packages}
    return {
        package: [
            as_file(path, measured)
            for path, measured in report["files"].items()
            if Path(path).parts[:2] == ("simdb", package)
        ]
        for package in PARTS[name].packages
    }


def as_file(path: str, measured: dict[str, Any]) -> File:
    """Read one file of a report of coverage.py."""
    summary = measured["summary"]
    return File(
        path,
        summary["num_statements"],
        summary["covered_lines"],
        summary["num_branches"],
        summary["covered_branches"],
        tuple(measured["missing_lines"]),
        tuple((start, end) for start, end in measured["missing_branches"]),
    )


def report(names: Iterable[str], *, missing: bool) -> bool:
    """Print the table and return whether every package meets its target."""
    packages = {package: files for name in names for package, files in read(name).items()}
    rows = [row(package, files) for package, files in packages.items()]
    print("package   lines       run  branches       run   target     met")
    for line, _ in rows:
        print(line)
    if missing:
        for file in (file for files in packages.values() for file in files):
            if file.missing():
                print(f"{file.name}: {file.missing()}")
    return all(met for _, met in rows)


def main() -> int:
    """Measure the chosen parts and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--missing", action="store_true", help="name what no test runs")
    parser.add_argument("--last", action="store_true", help="report the last measurement again")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    names = arguments.parts or list(PARTS)
    codes = [] if arguments.last else [measure(name) for name in names]
    met = report(names, missing=arguments.missing)
    if any(codes):
        print("A test failed: the figures are of a run that was not sound.", file=sys.stderr)
    return int(any(codes) or not met)


if __name__ == "__main__":
    sys.exit(main())
