"""Signatures from elsewhere: read, compared as estimates, and flagged in every answer."""

from __future__ import annotations

import importlib
import json
import sys
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import simdb
from simdb.errors import BadItemError, ConfigurationError, KeyNotFoundError, WrongTypeError
from tests.support.commands import run

ROWS = 64


def some_signatures(count: int = 60) -> npt.NDArray[Any]:
    generator = np.random.default_rng(9)
    far = generator.integers(0, 2**32, (count // 2, ROWS), np.uint32)
    near = far.copy()
    for row in near:
        chosen = generator.choice(ROWS, generator.integers(0, 40), replace=False)
        row[chosen] = generator.integers(0, 2**32, chosen.size, np.uint32)
    return np.concatenate([far, near])


def pairs_of(rows: npt.NDArray[Any], least: float) -> set[tuple[int, int]]:
    return {
        (one, other)
        for one, other in combinations(range(len(rows)), 2)
        if np.count_nonzero(rows[one] == rows[other]) >= least * ROWS
    }


@pytest.fixture
def collection(tmp_path):
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        made = db.collection("c", simdb.Signature(ROWS), threshold=0.75, seed=1)
        made.add_many(enumerate(some_signatures()))
        yield made


def test_every_answer_says_that_it_is_an_estimate(collection):
    rows = some_signatures()
    expected = pairs_of(rows, 0.75)
    pairs = collection.pairs()
    assert (pairs.guarantee, pairs.expected_recall >= 0.99) == ("estimate", True)
    found = {(pair.left, pair.right) for pair in pairs}
    assert found <= expected
    assert len(found) >= len(expected) - 1 > 5
    for pair in pairs:
        equal = np.count_nonzero(rows[pair.left] == rows[pair.right])
        assert pair == simdb.Pair(pair.left, pair.right, equal / ROWS, estimated=True)
    assert repr(next(iter(pairs))).endswith(", estimated=True)")
    assert all(batch.estimated for batch in pairs.batches())
    assert "estimated by signatures" in repr(pairs)
    for threshold in (0.75, 0.3):  # by buckets, and by comparing with all
        matches = collection.search(rows[3], threshold=threshold)
        assert matches.guarantee == "estimate"
        assert all(match.estimated for match in matches)
        assert {match.key for match in matches} >= {3, 33}
    assert collection.search(rows[3][::-1].copy()).guarantee == "estimate"
    assert collection.groups().guarantee == "estimate"
    assert collection.join(collection).guarantee == "estimate"
    assert {one.guarantee for one in collection.explain("pairs").alternatives} == {"estimate"}
    added = collection.add("again", rows[0], on_duplicate="skip")
    assert (added.action, added.similarity, added.estimated) == ("duplicate", 1.0, True)


def test_what_is_exact_cannot_be_had_of_estimates(collection):
    row = some_signatures(2)[0]
    calls: list[Any] = [
        lambda: collection.search(row, guarantee="exact"),
        lambda: collection.pairs(guarantee="exact"),
        lambda: collection.groups(guarantee="exact"),
        lambda: collection.join(collection, guarantee="exact"),
    ]
    for call in calls:
        with pytest.raises(
            ConfigurationError, match="no answer is exact; for exact answers store"
        ) as why:
            call()
        assert [remedy.argument for remedy in why.value.remedies] == ["guarantee"]
    assert "exact" in collection.explain("pairs").refused
    with pytest.raises(simdb.ThresholdTooLowError) as too_low:
        collection.pairs(0.1)
    assert "guarantee" not in {remedy.argument for remedy in too_low.value.remedies}


def test_other_kinds_estimate_nothing(tmp_path):
    with simdb.open(tmp_path / "a.simdb") as db:
        made = db.collection("c", simdb.Set())
        made.add_many([(1, {1, 2}), (2, {1, 2})])
        assert [pair.estimated for pair in made.pairs()] == [False]
        assert repr(next(iter(made.pairs()))) == "Pair(left=1, right=2, similarity=1.0)"


def test_signatures_are_read_out_as_arrays(collection, tmp_path):
    rows = some_signatures()
    taken = collection.signatures([5, 0, 5])
    assert taken.dtype == np.uint32
    assert (taken == rows[[5, 0, 5]]).all()
    with pytest.raises(KeyNotFoundError, match="'no'"):
        collection.signatures([5, "no"])
    assert (collection.get(7).item == rows[7]).all()
    with simdb.open(tmp_path / "b.simdb") as db:
        sets = db.collection("s", simdb.Set(), threshold=0.8)
        sets.add_many([("a", range(100)), ("b", range(10, 110)), ("c", [])])
        sketches = sets.signatures(["a", "b", "c", "a"])
        assert sketches.dtype == np.dtype(np.uint16)
        assert sketches.shape == (4, sets.plan.signature_rows)
        assert (sketches[0] == sketches[3]).all()
        assert 0.5 < (sketches[0] == sketches[1]).mean() < 1
        exact = db.collection("e", simdb.Set(), threshold=None, exact_floor=0.5)
        exact.add("a", [1])
        with pytest.raises(ConfigurationError, match="no probable index"):
            exact.signatures(["a"])


class _Made:
    """What a library's object looks like from outside."""

    def __init__(self, rows: npt.NDArray[Any], seed: int, scheme: str) -> None:
        self.hashvalues, self.seed, self.scheme = rows, seed, scheme


class _Digested:
    def __init__(self, rows: npt.NDArray[Any], seed: int) -> None:
        self._rows, self._seed = rows, seed

    def digest(self) -> list[int]:
        return list(map(int, self._rows))

    def __getnewargs__(self) -> tuple[int, int]:
        return self._rows.size, self._seed


_Made.__module__ = "datasketch.minhash"
_Digested.__module__ = "rensa"
_Digested.__name__ = "RMinHash"


def test_objects_of_libraries_must_be_made_alike(tmp_path):
    rows = some_signatures(4)
    kind = simdb.Signature.like(_Made(rows[0], 7, "affine32"))
    assert kind == simdb.Signature(ROWS, 32, "datasketch affine32", 7)
    wide = simdb.Signature.like(_Made(rows[0].astype(np.uint64), 7, "affine64"))
    assert wide.bits == 64
    legacy = simdb.Signature.like(_Made(rows[0].astype(np.uint64), 7, "legacy"))
    assert legacy.bits == 32
    other = simdb.Signature.like(_Digested(rows[0], 42))
    assert other == simdb.Signature(ROWS, 32, "rensa RMinHash", 42)
    with simdb.open(tmp_path / "a.simdb") as db:
        made = db.collection("c", kind)
        made.add_many([(1, _Made(rows[0], 7, "affine32")), (2, rows[1]), (3, rows[2].tolist())])
        assert (made.signatures([1, 2, 3]) == rows[:3]).all()
        for wrong, message in (
            (_Made(rows[0], 8, "affine32"), "seed 8 cannot be compared with .* have 7"),
            (_Made(rows[0], 7, "legacy"), "source datasketch legacy cannot"),
            (_Made(rows[0][:9], 7, "affine32"), "length 9 cannot"),
            (_Digested(rows[0], 7), "source rensa RMinHash cannot"),
        ):
            with pytest.raises(BadItemError, match=message):
                made.add(9, wrong)
        plain = db.collection("plain", simdb.Signature(ROWS))
        plain.add(1, _Digested(rows[0], 7))
    with pytest.raises(WrongTypeError, match="MinHash of datasketch or rensa"):
        simdb.Signature.like(rows[0])


@pytest.mark.parametrize("library", ["datasketch", "rensa"])
def test_the_libraries_themselves_are_read(tmp_path, library):
    module = importlib.import_module(library)
    name = "MinHash" if library == "datasketch" else "RMinHash"
    made = []
    for words in ({"a", "b", "c"}, {"a", "b", "d"}):
        one = getattr(module, name)(num_perm=128, seed=3)
        for word in words:
            one.update(word.encode() if library == "datasketch" else [word])
        made.append(one)
    with simdb.open(tmp_path / "a.simdb") as db:
        stored = db.collection("c", simdb.Signature.like(made[0]), threshold=0.2, recall=0.9)
        stored.add_many(enumerate(made))
        (pair,) = stored.pairs(0.2, guarantee="auto")
        assert pair.similarity == made[0].jaccard(made[1])
        assert stored.kind.describe()["seed"] == 3


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (np.zeros(ROWS, np.float32), "whole numbers"),
        ([1.5] * ROWS, "whole numbers"),
        ([True] * ROWS, "whole numbers"),
        (np.zeros(ROWS - 1, np.uint32), "have 64 rows, but this one has 63"),
        (np.zeros((2, ROWS), np.uint32), "has 2x64"),
        ([-1] * ROWS, "32 bits and no sign, but -1 does not"),
        ([2**32] * ROWS, "but 4294967296 does not"),
        ([2**32 - 1] * ROWS, "the signature of an empty set"),
        ("text", "must be an array or a list of whole numbers"),
        (None, "must be an array or a list"),
    ],
)
def test_bad_items_are_refused(collection, item, message):
    with pytest.raises(BadItemError, match=message):
        collection.add("x", item)


def test_signatures_on_the_command_line(tmp_path):
    rows = some_signatures(20)
    source = tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": key, "signature": row.tolist()}) for key, row in enumerate(rows)]
    source.write_text("\n".join(lines))
    store = tmp_path / "a.simdb"
    assert run("create", store, "c", "--kind", f"signature:{ROWS}").exit_code == 0
    assert run("add", store, "c", source).exit_code == 0, sys.stderr
    found = run("pairs", store, "c", "--json")
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert told
    assert all(pair["estimated"] for pair in told)
    assert "similarities are estimates" in run("pairs", store, "c").stderr
    refused = run("pairs", store, "c", "--exact")
    assert refused.exit_code == 2
    assert "no answer is exact" in refused.stderr


def test_a_token_that_is_no_value_of_a_signature_is_refused_whatever_its_length():
    kind = simdb.Signature(length=2)
    assert kind.item_of_tokens(["18446744073709551615", "007"]) == [2**64 - 1, 7]
    for token in ("x", "-1", "\u0663", "7" * 5_000):
        with pytest.raises(BadItemError, match=f"'{token[:60]}' is not a whole number"):
            kind.item_of_tokens(["1", token])
