"""The benchmarks of bit vectors, vectors and fingerprints, on a few items each."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

import simdb
from simdb import kernels
from simdb.kinds.fingerprints import SquaresFamily
from tools.benchmarks import (
    bits,
    exact_methods,
    hashes,
    method_peers,
    print_stores,
    questions,
    strings,
    vectors,
)
from tools.benchmarks.print_stores import SquareStatistics
from tools.benchmarks.registry import Bench, Figure
from tools.print_rates import packed, simulated_rates

MODULES = (bits, vectors, exact_methods, strings, method_peers, print_stores, questions, hashes)
GIVEN = ("ann", "anna", "hanna", "jon", "john", "joan")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A run whose tasks are done in this process."""

    def here(task, *, cores=None, **parameters):
        module, _, name = task.partition(":")
        known = {one.HERE: one for one in MODULES}
        return getattr(known[module], name)(**parameters)

    for module in MODULES:
        monkeypatch.setattr(module, "in_child", here)
    return Bench(None, tmp_path, 600, announce=lambda _: None)


def by_name(bench: Bench) -> dict[str, Figure]:
    return {figure.name: figure for figure in bench.figures}


def test_searches_of_stored_bits_find_the_vector_itself_and_compare_all(tmp_path):
    timed = bits.stored(300, 1, str(tmp_path), memory=300)
    assert timed["compared"] == 300
    assert timed["found"] >= 1
    assert timed["found by tanimoto"] >= 1
    assert timed["bytes"] == 300 * 128
    assert min(timed["hamming"], timed["tanimoto"], timed["reading"]) > 0
    assert not list(tmp_path.iterdir())


def test_scanning_a_store_finds_exactly_the_vectors_of_a_tanimoto_similarity(tmp_path):
    generator = np.random.default_rng(4)
    base = generator.random(bits.LENGTH) < 0.1
    rows = [base ^ (generator.random(bits.LENGTH) < rate) for rate in np.linspace(0, 0.04, 60)]
    rows.append(np.zeros(bits.LENGTH, np.bool_))
    packed = [np.packbits(row).tobytes() for row in rows]
    sets = [set(np.flatnonzero(row).tolist()) for row in rows]
    expected = {
        place
        for place, other in enumerate(sets)
        if len(sets[0] & other) * 5 >= len(sets[0] | other) * 4
    }
    with simdb.open(tmp_path / "store.simdb") as database:
        kind = simdb.Bits(bits.LENGTH, measure="tanimoto")
        collection = database.collection("alike", kind, threshold=bits.SIMILAR)
        collection.add_many(enumerate(packed))
        found = collection.search(packed[0], guarantee="exact")
        assert {match.key for match in found} == expected
        assert found.candidates == 61
        assert 5 < len(expected) < 55
        assert found[0].similarity == 1.0
        # What is similar to the vector without a set bit is nothing, not even itself.
        assert not collection.search(packed[-1], guarantee="exact")


def test_many_hashes_are_judged_by_bytes_and_medians_and_all_planted_ones_found(bench, monkeypatch):
    for name, few in (("MANY", 400), ("SEARCHES", 3), ("UNTIL_FILTERED", 4), ("PLANTED", 20)):
        monkeypatch.setattr(hashes, name, few)
    hashes.hashes_of_64_bits(bench)
    figures = by_name(bench)
    assert figures["planted within 4 that are found"].value == 1
    assert (figures["index, bytes a hash"].value or 0) > 8
    medians = [figure.value for name, figure in figures.items() if name.startswith("search of")]
    assert len(medians) == 4
    assert all(medians)


def test_bits_are_judged_by_the_time_of_reading_and_by_faiss(bench, monkeypatch):
    answer = {"bytes": 100, "reading": 1.0, "reading, cached": 0.5, "hamming": 1.9}
    answer["tanimoto"] = 2.1
    monkeypatch.setattr(bits, "in_child", lambda *_, **__: answer)
    bits._stored(bench)
    assert [figure.reached for figure in bench.figures] == [True, None, False, None]
    assert bench.figures[1].peer_value is None
    answer["faiss"] = 1.4
    bench.figures.clear()
    bits._stored(bench)
    assert [figure.reached for figure in bench.figures] == [True, True, False, True]


def test_made_vectors_have_neighbours_at_known_angles():
    made = vectors.made(400, 3)
    near, far = made[:40], made[-40:]
    cosines = (near * far).sum(axis=1) / np.linalg.norm(near, axis=1) / np.linalg.norm(far, axis=1)
    angles = np.degrees(np.arccos(cosines))
    assert angles.min() > 4
    assert 30 < angles.max() < 55


def test_the_recall_of_stored_vectors_is_held_against_exact_searches(bench):
    vectors._recall(bench)
    (figure,) = bench.figures
    answer = bench.details["vectors, recall, made"]
    assert answer["count"] == 600
    assert 0 < answer["found"] <= answer["true"]
    assert answer["planned"] <= answer["true"]
    assert figure.reached


def few_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(print_stores, "SIMULATED_SQUARES", 300_000)
    monkeypatch.setattr(print_stores, "SIMULATED_PAIRS", 300_000)
    monkeypatch.setattr(print_stores, "MADE_TOGETHER", 250)
    monkeypatch.setattr(print_stores, "STORED_TOGETHER", 500)
    monkeypatch.setattr(print_stores, "MOST_QUERIES", 400)
    monkeypatch.setattr(print_stores, "QUERIES", 40)


def test_look_ups_in_a_store_of_made_prints_are_as_predicted(bench, monkeypatch):
    few_prints(monkeypatch)
    print_stores.add_store(bench, "uniform", SquareStatistics.uniform(300), limit=1e4)
    title = "600 prints of 300 squares, uniform"
    figures = by_name(bench)
    assert figures[f"{title}, build"].value
    assert figures[f"{title}, look-up, p50"].reached
    answer = bench.details[f"fingerprints, {title}"]
    assert answer["compared by brute force"] == 600
    assert answer["look-ups"] == 120  # 40 of each part
    # Candidates of one print vary with how full it is, and with the functions of the store.
    assert answer["share"] == pytest.approx(answer["expected"], rel=0.2)
    assert answer["share"] == pytest.approx(answer["simulated"]["looked_at"], rel=0.2)
    assert answer["rank-1 hits"] == answer["found"] == 1 - answer["false negatives"]
    assert answer["false negatives"] < 0.15
    (kept,) = bench.work.glob("*.simdb")
    bench.figures.clear()
    print_stores.add_store(bench, "uniform", SquareStatistics.uniform(300))
    assert f"{title}, build" not in by_name(bench)
    assert kept.exists()


def test_look_ups_of_measured_statistics_are_as_simulated(bench, monkeypatch):
    few_prints(monkeypatch)
    random = np.random.default_rng(5)
    densities = random.uniform(0.1, 0.5, 150)
    statistics = SquareStatistics(densities, 0.5 + densities / 2, np.array([0.6, 1.0, 1.4]))
    assert statistics.plain() == SquareStatistics.of_plain(statistics.plain()).plain()
    print_stores.add_store(bench, "uneven", statistics)
    answer = bench.details["fingerprints, 600 prints of 150 squares, uneven"]
    assert answer["expected"] is None
    assert answer["share"] == pytest.approx(answer["simulated"]["looked_at"], rel=0.2)
    missed = answer["simulated"]["false_negatives"]
    assert answer["false negatives"] == pytest.approx(missed, abs=0.12)


def test_made_prints_are_the_same_in_every_part_and_of_the_density():
    statistics = SquareStatistics.uniform(2_000)
    made, wanted = statistics.made(0, 100, 1)
    again, _ = statistics.made(0, 100, 1)
    other, _ = statistics.made(250, 100, 1)
    assert np.array_equal(made, again)
    assert not np.array_equal(made, other)
    assert wanted.shape == made.shape
    assert abs(made.mean() - 0.2) < 0.005  # standard error 0.0009


def test_probes_are_second_prints_of_stored_ones():
    statistics = SquareStatistics.uniform(2_000)
    probes = print_stores.Probes.made(statistics, 5_000, 3)
    assert len(probes.owners) == print_stores.MOST_QUERIES // 2  # 5 of 10 parts
    assert len(set(probes.owners)) == len(probes.owners)
    for place in (0, 1, 500):
        own = probes.owners[place]
        part = own - own % print_stores.MADE_TOGETHER
        made, _ = statistics.made(part, print_stores.MADE_TOGETHER, 3)
        assert np.array_equal(made[own - part], probes.first[place])
    assert abs(probes.second[probes.first].mean() - print_stores.KEPT) < 0.01
    assert abs(probes.second.mean() - 0.2) < 0.01


def test_large_grids_have_as_many_squares_as_were_asked_for():
    for squares in (225, 1_000, 10_000):
        columns, rows = print_stores.squares_kind(squares).plate_grid
        assert columns * rows == squares


def test_the_simulation_that_stores_are_held_against_is_near_the_books_share():
    family = SquaresFamily(print_stores.squares_kind(10_000), b"test")
    rates = simulated_rates(family, np.full(10_000, 0.2), np.full(10_000, 0.8), prints=500)
    assert abs(rates.looked_at / print_stores.BOOK_SHARE - 1) < 0.15


def test_a_print_with_functions_of_one_group_alone_has_no_candidates(tmp_path):
    random = np.random.default_rng(8)
    with simdb.open(tmp_path / "prints.simdb") as database:
        kind = print_stores.squares_kind(200)
        collection = database.collection("prints", kind, threshold=0.01, seed=1)
        many = random.random((50, 200)) < 0.4
        collection.add_many(enumerate([np.flatnonzero(row).tolist() for row in many]))
        with collection._opened() as opened:
            signer = opened.signer
            family = signer.family
        assert isinstance(family, SquaresFamily)
        for group in (0, 1):
            (squares,) = family.functions[group * 1_024 : group * 1_024 + 1].tolist()
            signature = packed(family, np.isin(np.arange(200), squares)[np.newaxis])
            numbers, _ = kernels.fingerprints.members(family.yes(signature))
            assert set((numbers // 1_024).tolist()) == {group}
            assert collection.search(squares).candidates == 0


def test_exact_answers_about_hashes_and_vectors_are_reported_beside_their_peers(bench, monkeypatch):
    monkeypatch.setattr(exact_methods, "HASHES", 300)
    monkeypatch.setattr(exact_methods, "PROBES", 5)
    monkeypatch.setattr(exact_methods, "SHAPES", ((60, 3),))
    monkeypatch.setattr(exact_methods, "TEXTS", 300)
    monkeypatch.setattr(exact_methods, "PASSAGES", 20)
    monkeypatch.setattr(exact_methods, "processor", lambda work: (work(), 2.0)[1])
    exact_methods.exact_methods(bench)
    figures = by_name(bench)
    assert len(figures) == 8
    assert figures["which of 300 texts contain one of 20 passages"].reached
    assert bench.details["passages"]["found"] >= 10
    assert bench.details["hashes within 4"]["pairs found"] >= 4
    assert figures["pairs of 60 x 3"].reached


def test_questions_say_what_answers_them_and_what_was_expected(bench, monkeypatch):
    sizes = {"HASHES": 300, "NEAR": (4,), "IMAGES": 60, "PIXELS": 9, "SETS": 300, "PRINTS": 200}
    for name, value in sizes.items():
        monkeypatch.setattr(questions, name, value)
    monkeypatch.setattr(questions, "processor", lambda work: (work(), 2.0)[1])
    questions.questions(bench)
    notes = {figure.name: figure.note for figure in bench.figures}
    assert len(notes) == 8
    assert notes["pairs of 300 hashes within 4"].startswith("chunk index: expected")
    assert "looked at" in notes["pairs of 60 images by manhattan distance"]
    jaccard = bench.details["pairs of 300 sets by Dice at 0.9"]
    assert jaccard["found"] == jaccard["jaccard found"]


def test_libraries_are_compared_with_and_absent_ones_are_said_to_be(bench, monkeypatch):
    sizes = {"HASHES": 300, "WEIGHTED": 40, "TEXTS": 60, "PASSAGES": 20}
    for name, value in sizes.items():
        monkeypatch.setattr(method_peers, name, value)
    monkeypatch.setattr(method_peers, "molecules", lambda **_: {"absent": "rdkit"})

    def importing(name):
        if name in ("sketchsort", "faiss"):
            raise ModuleNotFoundError(name=name)
        return importlib.import_module(name)

    monkeypatch.setattr(method_peers, "importlib", SimpleNamespace(import_module=importing))
    method_peers.method_peers(bench)
    assert [(figure.peer, figure.peer_value is None) for figure in bench.figures] == [
        ("", True),
        ("sketchsort", True),
        ("faiss IndexBinaryHash", True),
        ("faiss IndexBinaryMultiHash", True),
        ("datasketch", False),
        ("sketchsort", True),
        ("LSH Ensemble of datasketch", False),
    ]
    assert bench.figures[0].note == "rdkit is not installed"
    assert "sketchsort: not installed" in bench.figures[1].note
    for task in ("hashes", "weighted", "containment"):
        own = bench.details[task]["simdb"]
        assert own["precision"] == 1
        assert own["recall"] >= 0.9
        assert own["found"] >= 1


def test_names_within_few_edits_are_searched_and_joined_beside_their_peers(
    bench, tmp_path, monkeypatch
):
    (tmp_path / "records").mkdir()
    rows = [f"{number}, {name}, {name[::-1]}son" for number, name in enumerate(GIVEN)]
    for table in strings.TABLES:
        (tmp_path / table).write_text("rec_id, given_name, surname\n" + "\n".join(rows) + "\n")
    for name, value in {"EDITS": (1, 3), "PROBES": 9, "PROBES_OF_PEERS": 4}.items():
        monkeypatch.setattr(strings, name, value)
    bench.data = tmp_path
    strings.strings(bench)
    found = by_name(bench)
    assert set(found) == {
        *(f"{what}, 18 names within 1" for what in ("search", "pairs", "insert")),
        *(f"{what}, 18 names within 3" for what in ("search", "insert")),
        *(f"the 10 nearest of 18 names within {edits}" for edits in (1, 3)),
    }
    for edits in (1, 3):
        assert bench.details[f"names within {edits}"]["recall"] == 1
        assert bench.details[f"names within {edits}"]["wrong"] == 0
