"""The mutation tool finds which changes of a module its tests notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutation

SCRIPT = Path(mutation.__file__)

MODULE = '''
"""A toy."""

def larger(left: int | None, right: int) -> int:
    if left is None:
        return right
    return left if left > right else right
'''
TESTS = """
import toy

def test_the_larger_one_is_returned():
    assert toy.larger(1, 2) == toy.larger(2, 1) == toy.larger(2, 2) == 2
"""


def changed(name: str, source: str) -> list[str]:
    """Give the lines that an operator makes of the lines of a module."""
    pytest.importorskip("cosmic_ray")
    lines = set(source.splitlines())
    return [
        line.strip()
        for mutant in mutation.mutants(source)
        if mutant.operator == name
        for line in mutant.text.splitlines()
        if line not in lines
    ]


def test_statements_of_functions_are_removed_one_at_a_time():
    source = (
        '"""Doc."""\nA = 1\n\n\ndef f(a):\n    """Doc."""\n    a += 1\n    del a\n    return 3\n'
    )
    pytest.importorskip("cosmic_ray")
    removed = [mutant for mutant in mutation.mutants(source) if "Remover" in mutant.operator]
    assert [mutant.text for mutant in removed] == [
        source.replace("a += 1", "pass"),
        source.replace("return 3", "pass"),
    ]
    assert [mutant.line for mutant in removed] == [7, 9]


def test_numbers_and_operators_are_exchanged_but_not_what_only_type_checkers_read():
    source = (
        "from typing import TypeAlias\n"
        "Number: TypeAlias = 'int | float'\n"
        "def f(a: tuple[int | 1]) -> int | 2:\n"
        "    b: int | 3 = a + 4\n"
        "    return a is b\n"
    )
    assert changed("NumberReplacer", source) == ["b: int | 3 = a + 5", "b: int | 3 = a + 3"]
    assert changed("ReplaceBinaryOperator_Add_Sub", source) == ["b: int | 3 = a - 4"]
    assert changed("ReplaceBinaryOperator_BitOr_BitAnd", source) == []
    assert changed("ReplaceComparisonOperator_Is_IsNot", source) == ["return a is not b"]
    assert changed("ReplaceComparisonOperator_Is_Eq", source) == []


def test_a_sample_follows_from_its_seed():
    many = [mutation.Mutant("some", number, "") for number in range(100)]
    sample = mutation.sample_of(many, 10, 1)
    assert len(sample) == 10
    assert sample == sorted(sample, key=lambda mutant: mutant.line)
    assert sample == mutation.sample_of(many, 10, 1) != mutation.sample_of(many, 10, 2)
    assert mutation.sample_of(many, None, 1) == mutation.sample_of(many, 200, 1) == many


def examined(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("cosmic_ray")
    folder.joinpath("toy.py").write_text(MODULE)
    folder.joinpath("test_toy.py").write_text(tests)
    return subprocess.run(
        [sys.executable, SCRIPT, "--module", "toy", "--tests", str(folder / "test_toy.py")],
        env={"PYTHONPATH": str(folder), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_the_tests_do_not_try_survives_and_the_file_stays_as_it_is(tmp_path):
    outcome = examined(tmp_path, TESTS)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    # None is never tried, and of two equal numbers either is the larger one.
    assert [line for line in outcome.stdout.splitlines() if line.startswith("      +")] == [
        "      +        pass",
        "      +    return left if left >= right else right",
    ]
    assert tmp_path.joinpath("toy.py").read_text() == MODULE


def test_tests_that_do_not_import_the_module_are_refused(tmp_path):
    outcome = examined(tmp_path, "def test_one(): pass")
    assert outcome.returncode == 1
    assert "no test imports toy" in outcome.stderr
