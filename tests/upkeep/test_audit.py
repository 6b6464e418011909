"""The self-audit against brute force."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

import simdb
from simdb.upkeep import audit
from tests.support import oracle
from tests.support.strategies import SURE, cluster_corpus, pair_of_similarity, similar_pairs

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(4, 5)])
def test_an_audit_of_everything_counts_the_true_pairs_and_those_found(tmp_path, threshold):
    stored = [(number, text) for number, (_, text) in enumerate(cluster_corpus(3, 10, 12))]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.5, bands=5, rows=3, seed=3)
        collection.add_many([*stored, ("e", ""), ("gone", stored[0][1])])
        collection.delete("gone")
        truth = similar_pairs(stored, WORDS, threshold)
        found = len(list(collection.pairs(threshold)))
        report = collection.self_audit(sample=10_000, threshold=threshold)
        assert report.sampled == report.compared == len(stored) + 1
        # Each pair is met from both sides.
        assert (report.true_pairs, report.found_pairs) == (2 * len(truth), 2 * found)
        assert 0 < found < len(truth)
        assert report.recall == found / len(truth)
        assert report.recall_interval is not None
        low, high = report.recall_interval
        assert 0 <= low < report.recall < high <= 1
        assert report.expected_recall == collection.plan.expected_recall(threshold)
        assert report.precision == report.found_pairs / report.candidates
        assert sum(part.true_pairs for part in report.bins) == report.true_pairs
        assert sum(part.found_pairs for part in report.bins) == report.found_pairs
        assert report.bins[0].lowest == float(threshold)
        assert report.bins[-1].highest == 1.0


def test_an_item_is_no_candidate_of_its_own(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([(1, "a b c"), (2, "a b c"), (3, "d e f")])
        report = collection.self_audit(sample=3)
        assert (report.candidates, report.found_pairs, report.precision) == (2, 2, 1.0)


def test_an_audit_of_a_sample_is_of_that_sample(tmp_path):
    stored = [(number, text) for number, (_, text) in enumerate(cluster_corpus(4, 20, 10))]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(stored)
        report = collection.self_audit(sample=20, seed=1)
        assert report.sampled == 20
        assert report.compared == len(stored)
        assert report.recall == 1.0
        assert 0 < report.true_pairs < 2 * len(similar_pairs(stored, WORDS, Fraction(1, 2)))
        assert collection.self_audit(sample=20, seed=1) == report
        assert collection.self_audit(sample=20, seed=2) != report


def test_an_audit_without_pairs_has_no_recall(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        report = collection.self_audit()
        assert (report.sampled, report.true_pairs, report.recall) == (0, 0, None)
        assert (report.precision, report.recall_interval) == (None, None)
        collection.add_many([(1, "a"), (2, "b"), (3, "")])
        report = collection.self_audit()
        assert (report.sampled, report.true_pairs, report.recall) == (3, 0, None)


def test_the_recall_measured_is_near_the_recall_promised(tmp_path):
    """300 pairs of similarity 0.8 planned for 0.9: within 4.5 standard deviations, 0.08."""
    generator = random.Random(2)
    rows: list[str] = []
    for number in range(300):
        rows += pair_of_similarity(generator, Fraction(4, 5), 40, 100 * number)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8, recall=0.9, seed=6)
        collection.add_many(enumerate(rows))
        report = collection.self_audit(sample=600)
        assert report.true_pairs == 600
        assert report.recall is not None
        assert abs(report.recall - report.expected_recall) < 0.08
        assert [part.true_pairs for part in report.bins] == [600] + [0] * (len(report.bins) - 1)


def test_repeated_shingles_count_once(tmp_path):
    texts = ["a a a b", "a b b", "a b c"]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(enumerate(texts))
        assert oracle.text_similarity(texts[0], texts[1], WORDS) == 1
        assert collection.self_audit(threshold=1).true_pairs == 2
        assert collection.self_audit(threshold="2/3").true_pairs == 6


@pytest.mark.parametrize("sample", [0, -1, True])
def test_a_sample_has_at_least_one_item(tmp_path, sample):
    with simdb.open(tmp_path / "s.simdb") as db, pytest.raises(simdb.ConfigurationError):
        db.collection("c", WORDS).self_audit(sample=sample)


def test_progress_is_told(tmp_path):
    told: list[simdb.Progress] = []
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        collection.add_many((n, f"word{n}") for n in range(10))
        collection.self_audit(progress=told.append)
    assert told[-1].done == told[-1].total == 10


def test_an_audit_after_deleting_and_compacting_sees_the_items_that_are_left(tmp_path):
    """Compacting takes the marks back, so holes in the item numbers say nothing any more."""
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        texts = db.collection("texts", simdb.Text(simdb.WordShingles(1)), seed=1)
        texts.add_many((n, " ".join(f"w{n}x{m}" for m in range(9))) for n in range(300))
        texts.delete_many(range(0, 300, 10))
        texts.compact()
        report = texts.self_audit(sample=200)
        assert (report.sampled, report.true_pairs, report.compared) == (200, 0, 270)


def test_the_interval_holds_the_truth_where_items_come_in_clusters(tmp_path):
    """Pairs of a cluster are found or missed together; 95 % of 40 samples, less 3 deviations."""
    generator = random.Random(2)
    rows: list[list[int]] = []
    for _ in range(8):
        core = generator.sample(range(10**9), 20)
        rows += [core + generator.sample(range(10**9), 5) for _ in range(40)]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.6, recall=0.9, seed=4)
        collection.add_many(enumerate(rows))
        truth = set(collection.pairs(guarantee="exact"))
        recall = len(truth & set(collection.pairs(guarantee="probable"))) / len(truth)
        assert recall < 1
        held = 0
        for seed in range(40):
            interval = collection.self_audit(sample=60, seed=seed).recall_interval
            assert interval is not None
            held += interval[0] <= recall <= interval[1]
        assert held >= 34


def test_where_all_is_found_the_interval_is_that_of_the_items():
    sure = audit.recall_interval(Counter({1: 100, 2: 100}), Counter({1: 100, 2: 100}))
    assert sure[1] == 1
    assert sure[0] < 0.1  # two items tell little, though they have 200 pairs
    single = audit.recall_interval(Counter(dict.fromkeys(range(100), 1)), Counter())
    assert single[0] == 0
    assert 0.03 < single[1] < 0.05


def test_a_single_item_with_pairs_has_an_interval():
    assert 15 - 15 / 22 * 22 != 0  # what is rounded varies
    low, high = audit.recall_interval(Counter({7: 22}), Counter({7: 15}))
    assert 0 <= low < 15 / 22 < high <= 1
