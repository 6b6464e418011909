"""The benchmark of set ingest on a small file: what is stored, found and timed."""

from __future__ import annotations

import gzip
import random

import numpy as np
import pytest

from tests.support.similarities import jaccard
from tools.benchmarks import set_ingest
from tools.benchmarks.registry import Bench, Figure


@pytest.fixture
def folder(tmp_path):
    """A data folder with 60 baskets, every third nearly the one before."""
    generator = random.Random(3)
    baskets: list[list[int]] = []
    for number in range(60):
        basket = generator.sample(range(1_000), 12)
        baskets.append([*baskets[-1][1:], 5_000] if number % 3 == 2 else basket)
    (tmp_path / "sets").mkdir()
    with gzip.open(tmp_path / "sets" / "retail.txt.gz", "wt") as file:
        file.writelines(" ".join(map(str, basket)) + "\n" for basket in [*baskets, [1, 2]])
    return tmp_path


def test_simdb_stores_the_sets_and_finds_the_pairs_by_position(folder, tmp_path):
    pairs = tmp_path / "pairs.npy"
    answer = set_ingest.ingest_sets(str(folder), "retail", str(tmp_path), 1, str(pairs))
    assert (answer["sets"], answer["elements"]) == (60, 720)
    assert answer["processor"] > 0
    rows = set_ingest.rows_of(str(folder), "retail")
    true = [
        left * 60 + right
        for left in range(60)
        for right in range(left + 1, 60)
        if jaccard(rows[left], rows[right]) * 5 >= 4
    ]
    assert len(true) == 20
    assert set(np.load(pairs).tolist()) <= set(true)
    assert len(np.load(pairs)) >= 18


def test_both_forms_of_the_peer_tell_their_bands_and_rows(folder, tmp_path):
    pytest.importorskip("datasketch")
    documented = set_ingest.datasketch_readme(str(folder), "retail")
    fastest = set_ingest.datasketch_fastest(str(folder), "retail", str(tmp_path / "pairs.npy"))
    for answer in (documented, fastest):
        assert answer["bands"] * answer["rows"] <= set_ingest.SLOTS
        assert answer["seconds"] > 0
    assert fastest["form"] in ("directly", "in_session")
    assert np.load(tmp_path / "pairs.npy").dtype == np.int64


def test_a_missing_peer_is_reported_as_absent(folder, tmp_path, monkeypatch):
    timed = {"seconds": 2.0, "processor": 1.0, "sets": 60, "bytes": 4_096}
    answers = {"ingest_sets": timed, "datasketch_readme": {"absent": "datasketch"}}
    answers["datasketch_fastest"] = {**timed, "seconds": 9.0, "bands": 9, "rows": 13, "form": "x"}
    np.save(tmp_path / "set-ingest-retail.npy", np.array([1, 2], np.int64))
    monkeypatch.setattr(
        set_ingest,
        "in_child",
        lambda task, **_: answers.get(task.partition(":")[2], {"absent": "SetSimilaritySearch"}),
    )
    monkeypatch.setattr(set_ingest, "NAMES", ("retail",))
    bench = Bench(folder, tmp_path, 1, announce=lambda _: None)
    set_ingest.set_ingest(bench)
    by_name: dict[str, Figure] = {figure.name: figure for figure in bench.figures}
    assert by_name["retail, against datasketch, as documented"].reached is None
    assert "is not installed" in by_name["retail, against datasketch, as documented"].note
    fastest = by_name["retail, against datasketch, fastest"]
    assert (fastest.ratio, fastest.reached) == (4.5, True)
    assert "9 bands of 13 rows" in fastest.note
    with pytest.raises(FileNotFoundError, match="SIMDB_DATA"):
        set_ingest.set_ingest(Bench(None, tmp_path, 1))
