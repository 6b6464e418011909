"""The measurement of coverage: what it runs, what it says, and when it fails."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json

import pytest

from tools import measure_coverage as measuring


def a_file(name, *, lines=(100, 100), branches=(10, 10), missing=((), ())):
    return {
        "summary": {
            "num_statements": lines[1],
            "covered_lines": lines[0],
            "num_branches": branches[1],
            "covered_branches": branches[0],
        },
        "missing_lines": list(missing[0]),
        "missing_branches": [list(pair) for pair in missing[1]],
    }


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Pretend that files of the kernels were measured."""
    monkeypatch.setattr(measuring, "FOLDER", tmp_path)

    def write(files):
        (tmp_path / "kernels").mkdir(exist_ok=True)
        report = {"files": {f"simdb/{name}": file for name, file in files.items()}}
        (tmp_path / "kernels" / "report.json").write_text(json.dumps(report))

    return write


def test_every_part_runs_tests_and_every_named_package_exists():
    for part in measuring.PARTS.values():
        assert len(part.test_files()) > 10
        for package in part.packages:
            assert (measuring.CHECKOUT / "simdb" / package).is_dir()


def test_every_named_file_of_tests_exists():
    folder = measuring.CHECKOUT / "tests"
    for part in measuring.PARTS.values():
        for pattern in (*part.tests, *part.left_out):
            assert list(folder.glob(pattern)), pattern


def test_the_campaigns_are_left_out():
    names = {path.name for path in measuring.PARTS["stores"].test_files()}
    assert "test_search.py" in names
    assert "test_torture.py" not in names


def test_lines_are_named_as_ranges():
    assert measuring.line_ranges([]) == []
    assert measuring.line_ranges([3, 5, 6, 7, 9]) == ["3", "5-7", "9"]


@pytest.mark.parametrize(
    ("lines", "branches", "code"),
    [((95, 100), (9, 10), 0), ((94, 100), (10, 10), 1), ((100, 100), (8, 10), 1)],
)
def test_a_package_below_a_target_is_an_exit_code(measured, monkeypatch, lines, branches, code):
    measured({"kernels/runs.py": a_file("runs", lines=lines, branches=branches)})
    monkeypatch.setattr("sys.argv", ["measure_coverage.py", "kernels", "--last"])
    assert measuring.main() == code


def test_the_files_of_a_package_are_counted_together(measured, capsys):
    measured(
        {
            "kernels/runs.py": a_file("runs", lines=(100, 100), branches=(30, 30)),
            "kernels/bits.py": a_file("bits", lines=(50, 100), branches=(0, 10)),
            "storage/tables/runs.py": a_file("other", lines=(0, 1_000)),
        }
    )
    assert not measuring.report(["kernels"], missing=False)
    row = capsys.readouterr().out.splitlines()[1]
    assert " ".join(row.split()) == "kernels 200 75.00 % 40 75.00 % 95 / 90 % NO"


def test_what_was_not_measured_meets_no_target(measured, capsys):
    assert not measuring.report(["kernels"], missing=True)
    assert capsys.readouterr().out.splitlines()[1].endswith("NO")


def test_what_no_test_runs_is_named_once(measured, capsys):
    measured(
        {
            "kernels/runs.py": a_file("runs"),
            "kernels/bits.py": a_file("bits", missing=((7, 8), ((3, 7), (5, -1), (7, 9), (9, 7)))),
        }
    )
    measuring.report(["kernels"], missing=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["simdb/kernels/bits.py: lines 7-8; branches 5->end"]


def test_an_unknown_part_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["measure_coverage.py", "doors"])
    with pytest.raises(SystemExit, match="2"):
        measuring.main()
    assert "no such part: doors" in capsys.readouterr().err


def test_a_failing_test_is_the_exit_code_though_the_targets_are_met(measured, monkeypatch, capsys):
    measured({"kernels/runs.py": a_file("runs")})
    monkeypatch.setattr(measuring, "measure", lambda name: 1)
    monkeypatch.setattr("sys.argv", ["measure_coverage.py", "kernels"])
    assert measuring.main() == 1
    assert "A test failed" in capsys.readouterr().err
