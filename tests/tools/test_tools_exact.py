"""The benchmark of the exact index: its parts, and every measure on a few items."""

from __future__ import annotations

import gzip
import importlib
import json
import random
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.ingest import postings as exact_indexing
from tests.support.processes import ended
from tools import make_corpus
from tools.benchmarks import (
    epochs,
    exact_growth,
    exact_search,
    extremes,
    joining_peers,
    joins,
    plots,
    registry,
    set_data,
    timing,
)

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench.py"
TEXTS = set_data.DataSet("texts", "text/texts.jsonl.gz", "texts", ("0.9", "0.5"))
NUMBERS = set_data.DataSet("retail", "sets/numbers.txt.gz", "numbers", ("0.6",))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a hundred short texts and two hundred sets of integers."""
    chance = random.Random(4)
    folder = tmp_path / "data"
    for name in ("text", "sets"):
        (folder / name).mkdir(parents=True)
    words = ["Near", "copy", "Öl", "text", "shingle", "set", "of", "the"]
    texts = [" ".join(chance.choices(words, k=chance.randint(0, 30))) for _ in range(60)]
    texts += [text + chance.choice(["", " x", "\n", " the end"]) for text in texts[:40]]
    with gzip.open(folder / TEXTS.file, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": 1, "text": text}) + "\n" for text in texts)
    sets = [[chance.randrange(60) for _ in range(chance.randint(1, 12))] for _ in range(150)]
    sets += [numbers[chance.randint(0, 1) :] for numbers in sets[:50]]
    with gzip.open(folder / NUMBERS.file, "wt", encoding="utf-8") as file:
        file.writelines(" ".join(map(str, numbers)) + "\n" for numbers in sets)
    return folder


@pytest.fixture
def bench(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> registry.Bench:
    """A small run whose tasks are carried out in this process."""

    def here(task: str, *, cores: int | None = None, **parameters: Any) -> Any:
        module, _, name = task.partition(":")
        try:
            answer = getattr(importlib.import_module(module), name)(**parameters)
        except ModuleNotFoundError as error:
            answer = {"absent": error.name}
        return json.loads(json.dumps(answer))

    for module in (joins, extremes, exact_search, exact_growth, epochs):
        monkeypatch.setattr(module, "in_child", here)
    monkeypatch.setattr(joins, "DATA_SETS", (TEXTS, NUMBERS))
    for module in (exact_search, epochs):
        monkeypatch.setattr(module, "QUERIES", 30)
    monkeypatch.setattr(timing, "MOST_REPEATS", 3)
    work = tmp_path / "work"
    work.mkdir()
    return registry.Bench(data=data, work=work, count=0, set_count=400, announce=lambda _line: None)


def run(bench: registry.Bench, name: str) -> dict[str, registry.Figure]:
    registry.MEASURES[name].run(bench)
    return {f"{figure.name} {figure.peer}".strip(): figure for figure in bench.figures}


def true_pairs(sets: list[set[Any]], threshold: Fraction) -> list[int]:
    return [
        left * len(sets) + right
        for left, right in combinations(range(len(sets)), 2)
        if Fraction(len(sets[left] & sets[right]), len(sets[left] | sets[right])) >= threshold
    ]


# The parts.


def test_texts_become_word_shingles_and_short_sets_take_no_part(data: Path) -> None:
    assert TEXTS.elements("One, TWO\nthree  four") == {"one two three", "two three four"}
    assert all(len(TEXTS.elements(text)) >= 1 for text in TEXTS.rows(data))
    assert all(len(set(numbers)) >= 5 for numbers in NUMBERS.rows(data))
    assert 0 < len(NUMBERS.rows(data)) < 200


def test_every_element_has_a_symbol_of_its_own() -> None:
    sets = [{"a", "b"}, set(), {"b", "c", "d"}]
    values, offsets = set_data.as_symbols(sets)
    assert offsets.tolist() == [0, 2, 2, 5]
    first, last = set(values[:2].tolist()), set(values[2:].tolist())
    assert (len(first), len(last), len(first & last)) == (2, 3, 1)


def test_differences_between_answers_are_decided_in_fractions() -> None:
    sets = set_data.as_symbols([{1, 2, 3, 4}, {1, 2, 3, 4, 5}, {1, 2, 9}, {7}])
    pair = set_data.pack_pairs([1, 0, 3], [0, 2, 2], 4)
    assert pair.tolist() == [1, 2, 11]
    right = np.array([1], np.int64)
    equal = set_data.settle(sets, Fraction(4, 5), right, right)
    assert (str(equal), equal.is_right) == ("1 pairs, equal", True)
    peer_errs = set_data.settle(sets, Fraction(4, 5), right, np.array([2], np.int64))
    assert peer_errs.is_right
    assert (peer_errs.peer_missed, peer_errs.peer_wrong) == (1, 1)
    assert peer_errs.examples == ("4/5", "2/5")
    own_errs = set_data.settle(sets, Fraction(4, 5), np.array([2], np.int64), right)
    assert (own_errs.missed, own_errs.wrong, own_errs.is_right) == (1, 1, False)
    twice = set_data.settle(sets, Fraction(4, 5), np.array([1, 1], np.int64), right)
    assert (twice.wrong, twice.is_right) == (1, False)


def test_made_sets_are_the_same_for_the_same_seed_and_some_are_near_copies() -> None:
    sets = list(set_data.made_sets(3_000, seed=2))
    assert [one.tolist() for one in set_data.made_sets(3_000, seed=2)] == [
        one.tolist() for one in sets
    ]
    assert all(1 <= one.size <= 45 and one[0] >= 1 and one[-1] < 2**20 for one in sets)
    rarest: dict[int, list[int]] = {}
    for place, one in enumerate(sets):
        rarest.setdefault(int(one[-1]), []).append(place)
    close = sum(
        Fraction(len(set(sets[a]) & set(sets[b])), len(set(sets[a]) | set(sets[b]))) >= 0.8
        for places in rarest.values()
        for a, b in combinations(places, 2)
    )
    # About 30 copies, of which most lose little and keep their rarest element.
    assert 8 <= close <= 45


def test_short_calls_are_timed_again_and_long_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    assert timing.repeated(lambda: calls.append(1))["repeats"] == timing.MOST_REPEATS
    assert len(calls) == timing.MOST_REPEATS
    monkeypatch.setattr(timing, "LONG_ENOUGH", 0)
    assert timing.repeated(lambda: calls.append(1), least=1)["repeats"] == 1
    quantiles = timing.timed_each(calls.append, [1, 2, 3])
    assert 0 <= quantiles["p50"] <= quantiles["p99"]


def test_curves_are_laid_out_and_a_missing_matplotlib_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plots.columns(("a", "bc"), [("1,000", "2")]) == ["       a  bc", "   1,000   2"]
    assert plots.whole_decades({"a": ([1, 2], [0.0062, 0]), "b": ([1], [0.05])}) == (0.001, 0.1)
    assert plots.whole_decades({"a": ([1], [10])}) == (10, 100)
    assert plots.whole_decades({"a": ([1], [0])}) is None
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    said = plots.draw(tmp_path / "x.svg", "title", {"y": {"curve": ([1, 2], [3, 4])}})
    assert "matplotlib" in said


def test_a_python_without_py_stringsimjoin_is_reported_as_absent(tmp_path: Path) -> None:
    sets, pairs = tmp_path / "sets.npz", tmp_path / "pairs.npy"
    np.savez(sets, values=np.arange(3, dtype=np.uint64), offsets=np.array([0, 3]))
    assert "absent" in joining_peers.string_sim_join(None, sets, "0.8", pairs)
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\nexit 3\n")
    failing.chmod(0o755)
    assert "failed" in joining_peers.string_sim_join(failing, sets, "0.8", pairs)["absent"]


# The measures.


def test_joins_in_memory_and_from_a_store_are_those_of_brute_force(
    bench: registry.Bench, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, list[int]] = {}
    unlink = Path.unlink

    def kept(path: Path, **options: Any) -> None:
        if path.suffix == ".npy" and path.exists():
            answers[f"{len(answers)} {path.name}"] = np.load(path).tolist()
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", kept)
    figures = run(bench, "joins")
    expected = [
        true_pairs(list(map(one.elements, one.rows(data))), Fraction(threshold))
        for one in (TEXTS, NUMBERS)
        for threshold in one.thresholds
    ]
    assert all(expected)
    for way in ("kernel", "store", "store, all cores"):
        found = [pairs for name, pairs in answers.items() if name.endswith(f"of {way}.npy")]
        assert found == expected
    for name, figure in figures.items():
        assert "NOT" not in figure.note
        assert figure.reached is None or "SetSimilaritySearch" in name
    assert "py_stringsimjoin" in figures["kernel, retail, J 0.6 py_stringsimjoin"].note
    assert not list(bench.work.glob("*.simdb"))


def test_exact_searches_find_every_planted_pair_before_and_after_compaction(
    bench: registry.Bench,
) -> None:
    bench.set_count = 700
    figures = run(bench, "exact-search")
    corpus = make_corpus.Corpus(700 + exact_search.QUERIES)
    texts = dict(corpus.documents())
    stored = [
        (texts[pair.left], texts[pair.right])
        for pair in corpus.planted_pairs()
        if int(pair.right[1:]) < 700
    ]
    for kind in exact_search.KINDS:
        for when in ("before compaction", "compacted"):
            found = figures[f"{kind}, {when}: planted pairs found"]
            assert found.reached
            assert found.value is not None
            assert found.value > 0
            assert figures[f"{kind}, {when}: bytes a posting"].value
            assert "scanned" in figures[f"{kind}, {when}, near copies, p50"].note
        joined = figures[f"{kind}, join, peak memory, setting 1,024 MiB"]
        assert joined.reached
        similar = sum(
            Fraction(len(one & other), len(one | other)) >= exact_search.THRESHOLD
            for one, other in (
                (exact_search.shingle_set(left, kind), exact_search.shingle_set(right, kind))
                for left, right in stored
            )
        )
        assert similar > 0
        assert joined.note.startswith(f"{similar} pairs of 700 documents")


def test_the_obvious_shingles_are_those_of_the_store() -> None:
    assert exact_search.shingle_set("a  b c d", "word 3-shingles") == {"a b c", "b c d"}
    assert exact_search.shingle_set("0123456789", "character 9-shingles") == {
        "012345678",
        "123456789",
    }


def test_growth_joins_every_size_and_explains_and_draws_the_curve(
    bench: registry.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Path, list[str]]] = []

    def draw(path: Path, _title: str, panels: dict[str, Any], **_options: Any) -> str:
        drawn.append((path, list(panels)))
        return ""

    monkeypatch.setattr(exact_growth, "draw", draw)
    bench.plot, bench.set_count = tmp_path / "curve.svg", 200
    figures = run(bench, "exact-growth")
    panels = ["microseconds an item", "postings scanned an item", "candidates an item"]
    assert drawn == [(tmp_path / "curve.svg", panels)]
    grown = bench.details["exact-growth, exact only"]
    assert [one["items"] for one in grown["joins"]] == [2, 4, 10, 20, 40, 100, 200]
    sets = [set(one.tolist()) for one in set_data.made_sets(200)]
    assert grown["joins"][-1]["pairs"] == len(true_pairs(sets, Fraction(4, 5)))
    assert len(grown["rates"]) == 10
    assert "insert, both probable only" in figures
    peak = figures["insert, both, peak memory, setting 1,024 MiB"]
    assert peak.reached
    assert "above that of the run" in peak.note
    assert bench.details["exact-growth, both"]["peak_above_start_of_run"] >= 0
    points = [
        {"items": n, "scanned": n * n, "candidates": n, "seconds": n, "pairs": n}
        for n in (10, 100, 1000)
    ]
    assert "to the power 1.00, its candidates to 0.00" in exact_growth.explanation(points)


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = (\n"
        "    lambda name, *more: None if name == 'matplotlib' else found(name, *more)\n"
        ")\n"
    )
    command = (sys.executable, BENCH, "extremes", "--plot", "x.svg", "--work", tmp_path)
    completed = ended(*command, code=2, variables={"PYTHONPATH": str(tmp_path)})
    assert "--plot needs matplotlib" in completed.stderr


def test_extreme_sets_are_those_described_and_are_joined(bench: registry.Bench) -> None:
    equal, common, large = (
        [set(part.tolist()) for part in np.split(values, offsets[1:-1])]
        for values, offsets in (
            extremes.equal_sets(20),
            extremes.common_symbol(20),
            extremes.two_large_sets(50),
        )
    )
    assert len(true_pairs(equal, Fraction(1))) == 190
    assert len(set.intersection(*common)) == 1
    assert {len(one) for one in common} == {10}
    assert len(set.union(*common)) == 20 * 9 + 1
    assert Fraction(len(large[0] & large[1]), len(large[0] | large[1])) == Fraction(9, 11)
    figures = run(bench, "extremes")
    assert list(figures) == list(extremes.CASES)
    found = {case: bench.details[f"extremes, {case}"]["pairs"] for case in extremes.CASES}
    sets = 400
    assert found == {
        "equal sets": sets * (sets - 1) // 2,
        "one symbol in all sets": 0,
        "two large sets": 1,
    }


@pytest.fixture
def small_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let epochs begin early, and put back what the measure changes."""
    for name, value in (("FIRST_TABLE", 60), ("LEAST_REPOSTED", 200), ("MEASURED_EVERY", 1)):
        monkeypatch.setattr(exact_indexing, name, value)
    monkeypatch.setattr(exact_indexing, "WORTH_IT", 1)
    monkeypatch.setattr(exact_indexing, "WORSE", exact_indexing.WORSE)
    monkeypatch.setattr(epochs, "STEPS", 6)
    monkeypatch.setattr(epochs, "QUERIES", 10)


@pytest.mark.usefixtures("small_epochs")
def test_the_footer_makes_buckets_long_unless_a_new_epoch_begins(bench: registry.Bench) -> None:
    bench.set_count = 300
    figures = run(bench, "epochs")
    renewed, kept = (
        bench.details["epochs, halfway"][name] for name in ("new epochs", "no new epochs")
    )
    assert len(renewed["points"]) == epochs.STEPS
    assert renewed["points"][-1]["epoch"] > kept["points"][-1]["epoch"]
    assert renewed["points"][-1]["scanned"] < kept["points"][-1]["scanned"]
    assert figures["footer halfway, join at the end no new epochs"].reached
    assert figures["footer with the first table, join at the end no new epochs"].reached


def test_the_footer_comes_where_it_is_asked_for() -> None:
    rows = epochs.texts_with_footer(10, seed=1, first=5)
    assert [text.endswith(epochs.FOOTER) for _, text in rows] == [False] * 5 + [True] * 5
    assert isinstance(epochs.KIND.shingles, simdb.WordShingles)
