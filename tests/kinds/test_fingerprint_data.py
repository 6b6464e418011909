"""Real prints: rank-1 hits by alignment, and rates beside what predicts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simdb.lsh.amplification import And, Or
from tools.benchmarks import fingerprints, moved_prints, real_prints

pytestmark = pytest.mark.data


def test_alignment_finds_the_finger_of_every_print(
    data_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "repeated", lambda _: {"processor": 0.0})  # not timed
    answer = fingerprints.verification(fingerprints.VERIFIED["minutiae"], data_directory)
    assert answer["rank-1 hits"] == 80
    assert answer["missed"] < 0.08


@pytest.fixture(scope="module")
def answers(data_directory: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return what the benchmark measures and predicts of every kind; in the short form of one."""
    if request.config.getoption("--slow"):
        return real_prints.run(data_directory)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(real_prints, "FAMILIES", 16)
        patched.setattr(real_prints, "MADE_FINGERS", 150)
        return real_prints.run(data_directory, [*real_prints.KINDS][:1], fingers=40)


def test_rates_are_those_that_are_predicted(answers: dict[str, Any]) -> None:
    for name, answer in answers.items():
        for rate in real_prints.Errors._fields:
            observed, alike = answer["observed"][rate], answer["from pairs as if alike"][rate]
            assert observed == pytest.approx(answer["from pairs"][rate], rel=0.1), name
            error = answer["standard errors by jackknife over fingers"][rate]
            assert abs(observed - answer["from made prints"][rate]) < 2 * error, name
            if rate == "false_negatives":
                assert observed > 1.5 * alike, name
    plain = answers["plate grid"]
    for rate in real_prints.Errors._fields:
        assert plain["observed"][rate] == pytest.approx(plain["from squares"][rate], rel=0.1)


def test_verification_by_minutiae_leaves_few_false_positives(answers: dict[str, Any]) -> None:
    for answer in answers.values():
        for rates in answer["verified"]["minutiae"].values():
            seen, predicted = rates["observed"], rates["from pairs"]
            assert seen["false_positives"] <= rates["all pairs"]["false_positives"]
            assert seen["false_negatives"] >= rates["all pairs"]["false_negatives"]
            assert seen["false_negatives"] == pytest.approx(predicted["false_negatives"], rel=0.1)
            assert seen["false_positives"] == pytest.approx(
                predicted["false_positives"], rel=0.1, abs=0.0003
            )
        assert answer["verified"]["minutiae"]["0.15"]["observed"]["false_positives"] < 0.003
        assert answer["verified"]["minutiae"]["0.2"]["observed"]["false_positives"] == 0
    # The squares of the plate do not tell fingers apart: no threshold makes both errors small.
    for rates in answers["plate grid"]["verified"]["squares"].values():
        assert sum(rates["all pairs"].values()) > 0.8


def test_stores_of_real_prints_do_as_predicted(
    data_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_prints, "STORES", 2)
    monkeypatch.setattr(real_prints, "timed_each", lambda *_: {"p50": 0.0})
    answer = real_prints.stored(
        str(data_directory), "plate grid", measure="minutiae", work=str(tmp_path)
    )
    real = real_prints.RealPrints.read(data_directory)
    kind = real_prints.PLATE
    shares = real_prints.shares_of_pairs(kind, real)
    chances = And(kind.groups, Or(kind.functions)).probability(shares)
    expected = real_prints.Errors.of(chances, real.mated)
    assert answer["looked_at"] == pytest.approx(expected.false_positives, rel=0.1)
    lowest = answer["verified"]["0.01"]
    # Few candidates are less similar than the lowest threshold.
    assert 0 <= answer["looked_at"] - lowest["false_positives"] < 0.002
    assert lowest["false_negatives"] == pytest.approx(expected.false_negatives, rel=0.1)
    assert answer["verified"]["0.2"]["false_positives"] == 0
    assert not list(tmp_path.iterdir())


def test_prints_that_were_turned_are_found_by_triangles(
    data_directory: Path, tmp_path: Path
) -> None:
    grids, triangles, many = moved_prints.run_real(data_directory, tmp_path).values()
    assert triangles["rank-1"] >= 0.95 > grids["rank-1"]
    assert triangles["looked at"] <= 0.2 < grids["looked at"]
    assert triangles["found"] >= 0.75 > grids["found"]
    assert many["found"] > triangles["found"]


@pytest.mark.slow
def test_made_prints_that_were_turned_are_found_by_triangles(
    data_directory: Path, tmp_path: Path
) -> None:
    grids, _, many = moved_prints.run_made(data_directory, tmp_path, fingers=300).values()
    assert many["rank-1"] > 1.2 * grids["rank-1"]
    assert many["looked at"] < grids["looked at"]
