"""Change one place of a module at a time and see whether its tests notice.

::

    python tools/mutation.py                        # the bounds, the runs and the keys
    python tools/mutation.py keys --sample 20 --seed 7
    python tools/mutation.py --module simdb.lsh.curves --tests tests/lsh/test_curves.py

The changes are those of Cosmic Ray (in the group ``dev``) and the removal of a statement. No
file is changed: one process runs the tests once, so that everything is imported and compiled, and
is forked for each mutant, which imports the changed text in place of the module. A mutant is killed
if a test fails or the process ends, also by running or taking memory far beyond what the tests
need. The same command makes the same mutants in the same order, and Hypothesis is seeded. The exit
code is 1 if fewer than 85 % of a group are killed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import importlib.machinery
import importlib.util
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
LEAST_SHARE = 0.85
MEMORY = 6 * 2**30  # bytes of data that a mutant may have
# What imports no module that is mutated is kept, so that kernels are loaded once.
KEPT = ("simdb.kernels", "simdb.errors", "simdb.config", "simdb.results")
COLUMNS = ("mutants", "killed", "timeout", "survived")

# An operator is replaced by its relatives only: others mostly raise TypeError, which any test that
# runs the line notices, so they would only make the share of killed ones look better.
BINARY = {"Add_Sub", "Sub_Add", "Mul_Add", "Mul_FloorDiv", "Div_Mul", "FloorDiv_Mul", "Mod_Mul"}
BINARY |= {"Pow_Mul", "LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr"}
BINARY |= {"BitXor_BitOr"}
LEFT_OUT = {"VariableReplacer", "VariableInserter"}  # these need to be told a variable


@dataclass(frozen=True)
class Target:
    """A module and the tests that speak about it."""

    group: str
    module: str
    tests: tuple[str, ...]


RUN_TESTS = [
    "tests/storage/test_run_rules.py",
    "tests/storage/test_run_merges.py",
    "tests/storage/test_runs.py",
]
RUN_TESTS += ["tests/storage/test_run_damage.py"]
SLOW_RUNS = ["chunks_read", "known_to", "flipped", "snapshot", "stay_log", "several", "giant"]
SLOW_RUNS += [f"changes[{seed}]" for seed in range(2, 6)]
TARGETS = (
    Target("bounds", "simdb.exact.thresholds", ("tests/exact/test_thresholds.py",)),
    Target("bounds", "simdb.exact.measures", ("tests/exact/test_measures.py",)),
    Target("bounds", "simdb.exact.order", ("tests/exact/test_order.py",)),
    Target(
        "runs",
        "simdb.storage.tables.runs",
        (*RUN_TESTS, "-k", " and ".join(f"not {name}" for name in SLOW_RUNS)),
    ),
    Target("keys", "simdb.storage.tables.layout", ("tests/storage/test_keys.py",)),
    Target("keys", "simdb.lsh.family", ("tests/lsh/test_bucket_keys.py",)),
    Target("keys", "simdb.lsh.banding", ("tests/lsh/test_banding.py",)),
)


@dataclass(frozen=True)
class Mutant:
    """The text of a module with one change."""

    operator: str
    line: int
    text: str


class StatementRemover:
    """An operator for Cosmic Ray: a statement of a function becomes ``pass``."""

    removed = ("expr_stmt", "atom_expr", "return_stmt", "raise_stmt", "yield_expr")

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield where a statement begins and ends."""
        is_one = node.type == "simple_stmt" and node.children[0].type in self.removed
        if is_one and node.search_ancestor("funcdef"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """Return ``pass`` as it would stand there."""
        nothing = import_module("parso").parse("pass\n").children[0]
        nothing.get_first_leaf().prefix = node.get_first_leaf().prefix
        return nothing


def operators() -> dict[str, Any]:
    """Return the operators by name, in a fixed order."""
    plugins = import_module("cosmic_ray.plugins")
    chosen: dict[str, Any] = {"StatementRemover": StatementRemover()}
    for full_name in sorted(plugins.operator_names()):
        name = full_name.removeprefix("core/")
        kind, _, change = name.partition("_")
        if kind == "ReplaceBinaryOperator" and change not in BINARY:
            continue
        if kind == "ReplaceComparisonOperator" and change.count("Is") == 1:
            continue  # identity for equality or the other way round
        if name not in LEFT_OUT:
            chosen[name] = plugins.get_operator(full_name)()
    return chosen


def unread(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where there is only what type checkers read: annotations and names of types."""
    nodes: list[Any] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign):
            names_a_type = ast.unparse(node.annotation) == "TypeAlias"
            nodes.append(node if names_a_type else node.annotation)
        elif isinstance(node, ast.arg):
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            nodes.append(node.returns)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in nodes
        if node is not None
    ]


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module that compile, each text once, by line."""
    mutating = import_module("cosmic_ray.mutating")
    nodes = list(_nodes(import_module("parso").parse(source)))
    not_changed = unread(source)
    found: dict[str, Mutant] = {}
    for name, operator in operators().items():
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (begin, end) in enumerate(places):
            if any(first <= begin and end <= last for first, last in not_changed):
                continue
            # AttributeError: Cosmic Ray 8.7 cannot exchange an exception of a dotted name.
            with suppress(SyntaxError, AttributeError), warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                text = mutating.mutate_code(source, operator, occurrence)
                compile(text, "mutant", "exec")
                if text != source:
                    found.setdefault(text, Mutant(name, begin[0], text))
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _nodes(node: Any) -> Iterator[Any]:
    yield node  # before what is in it, as Cosmic Ray counts
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def sample_of(mutants: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """Return so many of them, in their order."""
    if size is None or size >= len(mutants):
        return mutants
    return [mutants[n] for n in sorted(random.Random(seed).sample(range(len(mutants)), size))]


class Replaced(importlib.machinery.SourceFileLoader):
    """Finds and loads one module, with another text than that of its file."""

    text = ""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Find the module if it is that one."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, _fullname: str) -> CodeType:
        """Compile the text."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Order:
    """A plugin of pytest: tests that killed a mutant go first, the last one before all others.

    Neighbouring mutants mostly fail in the same test, so few tests are run.
    """

    def __init__(self, note: Path) -> None:
        self._note = note
        self._killers: dict[str, int] = {}
        self._learned = 0

    def learn(self) -> None:
        """Read which test failed, in a child that has ended."""
        if self._note.exists():
            killer = self._note.read_text(encoding="utf-8")
            self._learned += 1
            self._killers[killer] = self._learned
            self._note.unlink()

    def pytest_collection(self) -> None:
        """Let Hypothesis stop at the first failure: nobody reads the simplest one."""
        if "hypothesis" in sys.modules:
            hypothesis = sys.modules["hypothesis"]
            phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
            hypothesis.settings.register_profile("mutation", hypothesis.settings(), phases=phases)
            hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Sort the tests."""
        items.sort(key=lambda item: -self._killers.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note which test failed."""
        if report.failed:
            self._note.write_text(report.nodeid, encoding="utf-8")


class Laboratory:
    """Runs the tests of one target on mutants of its module."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        spec = importlib.util.find_spec(target.module)
        assert spec is not None, f"there is no module {target.module}"
        assert spec.origin is not None, f"{target.module} has no file"
        self._path = spec.origin
        self.source = Path(spec.origin).read_text(encoding="utf-8")
        self._arguments = ["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider"]
        self._arguments += [f"--basetemp={folder / 'pytest'}", *target.tests]
        self._order = Order(folder / "killer")
        # First in this process itself: what the tests load stays loaded in its children.
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            failed = self._run_tests()
        assert not failed, f"the tests of {target.module} fail without any change"
        roots = {"tests", target.module.partition(".")[0], *(Path(t).stem for t in target.tests)}
        for name in list(sys.modules):
            if name.partition(".")[0] in roots and not name.startswith(KEPT):
                del sys.modules[name]
        gc.freeze()  # pytest collects garbage at its end, and need not look at all this
        self._timeout, began = 600.0, time.monotonic()
        assert self.outcome(self.source) == "survived", "a copy without any change was killed"
        self.seconds = time.monotonic() - began
        self._timeout = 10 + 4 * self.seconds
        assert self.outcome("raise ImportError") == "killed", f"no test imports {target.module}"

    def _run_tests(self) -> int:
        import pytest

        return int(pytest.main(self._arguments, plugins=[self._order]))

    def outcome(self, text: str) -> str:
        """Run the tests on a text in place of the module: killed, survived or timeout."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numerical libraries
            child = os.fork()
        if not child:
            self._be_mutant(text)
        deadline = time.monotonic() + self._timeout
        ended = (0, 0)
        while not ended[0] and time.monotonic() < deadline:
            time.sleep(0.005)
            ended = os.waitpid(child, os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # also what a killed test left running
        self._order.learn()
        if not ended[0]:
            os.waitpid(child, 0)
            return "timeout"
        return "killed" if ended[1] else "survived"

    def _be_mutant(self, text: str) -> None:
        code = 1
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            replaced = Replaced(self.target.module, self._path)
            replaced.text = text
            sys.meta_path.insert(0, replaced)
            code = self._run_tests()
        finally:
            os._exit(code)

    def examine(self, tried: list[Mutant]) -> Counter[str]:
        """Try mutants, and print those that survive with what was changed."""
        counts = Counter(mutants=len(tried))
        for mutant in tried:
            outcome = self.outcome(mutant.text)
            counts[outcome] += 1
            if outcome == "survived":
                print(f"   line {mutant.line}, {mutant.operator}")
                texts = self.source.splitlines(), mutant.text.splitlines()
                for line in list(difflib.unified_diff(*texts, "", "", "", "", 0, ""))[3:]:
                    print(f"      {line}", flush=True)
        return counts


def share_of(counts: Counter[str]) -> float:
    """Return the share of mutants that were noticed."""
    return 1 - counts["survived"] / max(1, counts["mutants"])


def main() -> int:
    """Examine the chosen groups, or one module, and report."""
    arguments = _parse()
    os.chdir(CHECKOUT)
    sys.path.insert(0, str(CHECKOUT))
    os.environ["HYPOTHESIS_PROFILE"] = "ci"
    if importlib.util.find_spec("cosmic_ray") is None:
        print("this needs Cosmic Ray: python3 tools/run.py setup", file=sys.stderr)
        return 3
    targets = [target for target in TARGETS if target.group in arguments.groups]
    if arguments.module:
        targets = [Target(arguments.module, arguments.module, tuple(arguments.tests))]
    modules: dict[str, Counter[str]] = {}
    groups: dict[str, Counter[str]] = {}
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            laboratory = Laboratory(target, Path(folder))
            tried = sample_of(mutants(laboratory.source), arguments.sample, arguments.seed)
            seconds = f"{laboratory.seconds:.1f} s a run"
            print(f"== {target.module}: {len(tried)} mutants, {seconds}", flush=True)
            counts = modules[target.module] = laboratory.examine(tried)
            groups.setdefault(f"all of {target.group}", Counter()).update(counts)
    print(f"{'':<30}" + "".join(f"{column:>10}" for column in COLUMNS) + f"{'share':>10}")
    for name, counts in (modules | groups).items():
        numbers = "".join(f"{counts[column]:>10,}" for column in COLUMNS)
        print(f"{name:<30}{numbers}{share_of(counts):>10.1%}")
    return int(any(share_of(counts) < LEAST_SHARE for counts in groups.values()))


def _parse() -> argparse.Namespace:
    names = sorted({target.group for target in TARGETS})
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(names))
    parser.add_argument("--sample", type=int, help="so many mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="which ones these are")
    parser.add_argument("--module", help="another module instead, with --tests")
    parser.add_argument("--tests", nargs="+", default=[], help="arguments of pytest")
    arguments = parser.parse_args()
    arguments.groups = arguments.groups or names
    if set(arguments.groups) - set(names) or bool(arguments.module) != bool(arguments.tests):
        parser.error(f"groups are {', '.join(names)}; --module and --tests belong together")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
