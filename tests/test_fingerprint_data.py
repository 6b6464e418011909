"""Real prints: rank-1 hits by alignment, and rates beside the simulated whole of AND and OR."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmarks import fingerprints

pytestmark = pytest.mark.data


def test_alignment_finds_the_finger_of_every_print(data_directory: Path) -> None:
    answer = fingerprints.verification(fingerprints.VERIFIED["minutiae"], data_directory)
    assert answer["rank-1 hits"] == 80
    assert answer["missed"] < 0.08


def test_rates_are_those_of_the_simulation(data_directory: Path) -> None:
    answers = fingerprints.run(data_directory)
    plain = answers["plate grid"]
    for rate in ("looked_at", "false_negatives"):
        assert plain["measured"][rate] == pytest.approx(plain["predicted"][rate], rel=0.1)
        for name, answer in answers.items():
            error = answer["standard errors by jackknife over fingers"][rate]
            apart = abs(answer["measured"][rate] - answer["predicted"][rate])
            assert apart < 2 * error, name
