"""The short forms of all campaigns of tools/torture.py, and that they find what is planted."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time

import pytest

import simdb
from simdb import kinds
from tests.support.campaigns import NAMES, PLANTED, PROCESSES, TORTURE, Torture
from tests.support.processes import ended
from tools.campaigns import children, kills, powerfail, registry, sabotage, shim, subjects

needs_compiler = pytest.mark.skipif(shim.compiler() is None, reason="needs a C compiler (cc)")


def torture(folder, *arguments):
    """Run campaigns; return what they report, and their exit code."""
    process = Torture(folder, *arguments)
    try:
        return process.reported()
    finally:
        process.stop()


@pytest.mark.campaign
@pytest.mark.parametrize("names", PROCESSES, ids=lambda names: f"{names[0]}, {len(names)}")
def test_the_short_forms_of_campaigns_find_what_is_planted_and_nothing_else(tmp_path, names):
    reports, code = torture(tmp_path, *names)
    planted = {name: report for name, report in reports.items() if report["sabotage"]}
    assert reports.keys() - planted.keys() == set(names) - {PLANTED}
    for name, report in reports.items():
        assert bool(report["failures"]) == (name in planted) or report["skipped"], name
        assert report["failures"] or report["trials"] > 0 or report["skipped"]
    if PLANTED in names:
        quick = {name for name, fault in sabotage.FAULTS.items() if not fault.long}
        assert {report["sabotage"] for report in planted.values()} == quick
    assert code in (0, 3)


@pytest.mark.slow
def test_every_fault_that_is_planted_is_found(tmp_path):
    reports, code = torture(tmp_path, PLANTED, "--long")
    assert {report["sabotage"] for report in reports.values()} == set(sabotage.FAULTS)
    assert all(report["failures"] or report["skipped"] for report in reports.values())
    assert code == 0


@pytest.mark.slow
@needs_compiler
def test_a_kill_at_every_step_of_a_store_loses_nothing(tmp_path):
    reports, _ = torture(tmp_path, "kill-points", "--count", str(kills.STEPS_A_STORE))
    assert reports["kill-points"]["failures"] == []


def test_no_campaign_is_left_out():
    refused = ended(sys.executable, TORTURE, "none", code=2)
    choices = refused.stderr.partition("choose from")[2]
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", choices)) == {*NAMES, "all", PLANTED}


# -- the harness -----------------------------------------------------------------------------------


def test_a_child_that_dies_or_fails_is_told_from_one_that_does_not():
    def fail():
        raise ValueError("for a reason")

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    assert children.answer(lambda: 5).answers == [5]
    failed = children.answer(fail)
    assert failed.error.startswith("ValueError: for a reason")
    assert not failed.died
    died = children.answer(die)
    assert died.how == "SIGKILL"
    assert children.Child(lambda _: time.sleep(9)).end(0.1).how == "SIGALRM"


def call(what, offset=0, data=b"", *, durable=False):
    return shim.Call(what, 1, offset, 0, durable, data)


def test_an_image_keeps_what_was_synced_and_any_part_of_the_rest():
    write, sync = shim.WRITE, shim.SYNC
    calls = [
        call(write, 0, b"a" * 1_024),
        call(sync),
        call(write, 1_024, b"b" * 1_024),
        call(write, 2_048, b"c" * 4, durable=True),
    ]
    images = {powerfail.image_after(b"", calls, random.Random(seed)) for seed in range(300)}
    assert all(image[:1_024] == b"a" * 1_024 and image[2_048:] == b"cccc" for image in images)
    assert {image[1_024:2_048].count(b"b") for image in images} == {0, 512, 1_024}


def test_every_kind_of_item_has_a_subject_that_can_be_stored(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        model = subjects.make(database)
        generator = random.Random(1)
        for name, subject in subjects.SUBJECTS.items():
            rows = [[str(number), subject.value(generator)] for number in range(5)]
            subjects.carry_out(database, (name, "add_many", rows))
            subjects.apply(model, (name, "add_many", rows))
        assert list(subjects.differences(database, model, generator)) == []
        model["texts"]["0"] = "another text"
        assert list(subjects.differences(database, model, generator))


def test_campaigns_work_on_every_kind_of_item_within_a_few_seeds():
    assert {type(subject.kind) for subject in subjects.SUBJECTS.values()} == {*kinds.OWN}
    of_stores = [subjects.some(seed) for seed in range(4)]
    assert {name for names in of_stores for name in names} == {*subjects.SUBJECTS}
    assert {*subjects.STEPPED} < {*subjects.SUBJECTS}
    assert all(len({*names}) == subjects.A_STORE for names in of_stores)


def test_failures_are_kept_and_counted(tmp_path):
    run = registry.Run(seed=1, count=1, work=tmp_path)
    for number in range(100):
        run.fail(str(number))
    report = run.report()
    assert len(report["failures"]) == registry.FAILURES_KEPT
    assert report["outcomes"] == {"FAILED": 100}
