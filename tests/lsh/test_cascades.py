"""Cascades of AND and OR that index: their buckets, their candidates and their curve (MMDS 3.6.3).

The definition is ``agrees``: an AND of members that all agree, an OR of members of which one does.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.errors import ConfigurationError, CorruptionError, UsageError
from simdb.lsh.amplification import Construction, of_layers, parse_construction
from simdb.lsh.cascades import MOST_KEYS, Cascade, CascadeFamily
from simdb.lsh.curves import JaccardCurve
from simdb.lsh.family import MinHash, SymbolSets
from simdb.opened import catalogue
from tests.support.grids import grid
from tests.support.similarities import jaccard

CASCADES = [
    simdb.And(4, simdb.Or(4)),
    simdb.And(2, simdb.Or(3, simdb.And(2))),
    simdb.Or(3, simdb.And(2, simdb.Or(4, simdb.And(2)))),
    simdb.And(2, simdb.Or(2, simdb.And(2, simdb.Or(3)))),
]
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "set": (simdb.Set(), {"threshold": 0.5}),
    "text": (simdb.Text(simdb.CharacterShingles(2)), {"threshold": 0.5}),
    "bag": (simdb.Bag("maximum"), {"threshold": 0.5}),
    "hamming": (simdb.Bits(40), {"max_distance": 8}),
    "tanimoto": (simdb.Bits(40, "tanimoto"), {"threshold": 0.5}),
    "cosine": (simdb.Vector(5), {"max_distance": 40}),
    "euclidean": (simdb.Vector(5, "euclidean"), {"max_distance": 2}),
}


def agrees(construction: Construction, functions: list[bool]) -> bool:
    """Whether two items agree that agree in these base functions, by the definition."""
    if isinstance(construction, simdb.And):
        size, combine = len(functions) // construction.rows, all
    elif isinstance(construction, simdb.Or):
        size, combine = len(functions) // construction.bands, any
    else:
        return functions[0]
    parts = (functions[begin : begin + size] for begin in range(0, len(functions), size))
    return combine(agrees(construction.inner, part) for part in parts)


constructions = st.recursive(
    st.builds(simdb.And, st.integers(1, 3)) | st.builds(simdb.Or, st.integers(1, 3)),
    lambda inner: (
        st.builds(simdb.And, st.integers(1, 3), inner)
        | st.builds(simdb.Or, st.integers(1, 3), inner)
    ),
    max_leaves=3,
)


@given(constructions, st.data())
def test_keys_propose_what_the_cascade_holds_and_all_members_keyed_nothing_else(tree, data):
    cascade = Cascade.of(tree)
    members = [layer.members for layer in cascade.layers if layer.combine is simdb.And]
    keyed = tuple(data.draw(st.integers(1, most)) for most in members)
    cascade = replace(cascade, keyed=keyed)
    functions = cascade.atoms * cascade.rows
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    single = generator.random((20, functions)) < generator.random((20, 1)) ** 0.3
    agreeing = np.asarray(single.reshape(20, cascade.atoms, cascade.rows).all(axis=2))
    expected = [agrees(tree, row) for row in single.tolist()]
    assert cascade.holds(agreeing).tolist() == expected
    if cascade.key_count > MOST_KEYS:
        return
    clauses = cascade.clauses()
    assert len(clauses) == cascade.key_count
    proposed = np.any(agreeing[:, clauses].all(axis=2), axis=1)
    assert (proposed >= np.array(expected)).all()
    if keyed == tuple(members):
        assert proposed.tolist() == expected
    if functions > 1:
        assert parse_construction(str(cascade.construction)) == cascade.construction


@pytest.mark.parametrize("cascade", CASCADES, ids=str)
@pytest.mark.parametrize("similarity", [0.4, 0.7, 0.9])
def test_pairs_are_candidates_as_often_as_the_formula_says(cascade, similarity):
    planned = Cascade.of(cascade).planned(JaccardCurve(), 0.5)
    total, pairs = 200, 1_500
    common = round(2 * total * similarity / (1 + similarity))
    generator = np.random.default_rng(5)
    values = generator.integers(0, 2**63, (pairs, 2 * total), np.uint64)
    values[:, total : total + common] = values[:, :common]
    sets = SymbolSets(values.ravel(), np.arange(0, values.size + 1, total))
    true = common / (2 * total - common)
    found = 0
    for secret in (b"one", b"two"):
        inner = MinHash("classical", planned.atoms, planned.rows, secret)
        family = CascadeFamily(inner, planned)
        signatures = family.sign(sets)
        left, right = signatures[::2], signatures[1::2]
        keys = family.bucket_keys(signatures).values.reshape(pairs, 2, -1)
        shares = (keys[:, 0] == keys[:, 1]).any(axis=1)
        held = family.are_candidates(left, right)
        assert (shares >= held).all()
        found += int((shares & held).sum())
    stated = cascade.probability(true)
    # Pairs are of different sets: only the functions are the same for all of a secret.
    assert (
        abs(found / (2 * pairs) - stated)
        < 4.5 * (stated * (1 - stated) / (2 * pairs)) ** 0.5 + 1e-9
    )


def items_of(name: str, count: int = 60) -> list[Any]:
    generator = np.random.default_rng(8)
    if name in ("cosine", "euclidean"):
        return [*generator.normal(size=(count, 5)).tolist()]
    if name in ("hamming", "tanimoto"):
        rows = generator.integers(0, 2, (count // 2, 40))
        near = rows ^ (generator.random(rows.shape) < 0.15)
        return ["".join(map(str, row)) for row in [*rows.tolist(), *near.tolist()]]
    letters = "abcdefghijklmnop"
    words = ["".join(generator.choice(list(letters), 14)) for _ in range(count // 3)]
    words += [word[2:] + "xy" for word in words] + [word + word[:5] for word in words]
    return words if name == "text" else [list(word) for word in words]


@pytest.mark.parametrize(("name", "cascade"), grid(KINDS, CASCADES[:3], step=2), ids=str)
def test_every_question_is_answered_by_the_pairs_that_the_cascade_holds(tmp_path, name, cascade):
    kind, bound = KINDS[name]
    items = items_of(name)
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        made = db.create_collection("c", kind, **bound, recall=0.01, cascade=cascade, seed=1)
        made.add_many(enumerate(items))
        settings = made._present.settings
        signer = made._present.signer
        family = kind.make_family(
            settings.threshold,
            bands=settings.bands,
            rows=settings.rows,
            sketch="fast",
            secret=settings.secret,
        )
        assert isinstance(family, simdb.kinds.BandedFamily)
        signatures = family.sign(signer.hashed([signer.items.encode(item) for item in items]))
        needed = family.needed_matches(settings.threshold)
        true: set[Any] = {(p.left, p.right) for p in made.pairs(guarantee="exact")}
        bands = signatures.reshape(len(items), family.bands, -1)
        expected = {
            (one, other)
            for one, other in true
            if (signatures[one] == signatures[other]).sum() >= needed
            and agrees(_around(cascade), (bands[one] == bands[other]).all(axis=1).tolist())
        }
        assert expected
        assert {(p.left, p.right) for p in made.pairs(guarantee="probable")} == expected
        for key in range(0, len(items), 7):
            found = {m.key for m in made.search(items[key], guarantee="probable")}
            assert found - {key} == {a + b - key for a, b in expected if key in (a, b)}
        other = db.create_collection("d", kind, **bound, recall=0.01, cascade=cascade, seed=1)
        other.add_many(enumerate(items))
        joined: set[Any] = {(p.left, p.right) for p in made.join(other, guarantee="probable")}
        assert {(one, two) for one, two in joined if one < two} == expected
        grouped = {
            pair
            for group in made.groups(guarantee="probable")
            for pair in combinations(group.keys, 2)
        }
        assert expected <= grouped
        third = db.create_collection("e", kind, **bound, recall=0.01, cascade=cascade, seed=1)
        third.dedupe(enumerate(items))
        kept: list[int] = []
        for key in range(len(items)):
            if not any((earlier, key) in expected for earlier in kept):
                kept.append(key)
        assert [entry.key for entry in third.items()] == kept
        assert made.check(deep=True).sound


def _around(cascade: Construction) -> Construction:
    """A cascade whose innermost AND is one function."""
    return of_layers(Cascade.of(cascade).layers)


def test_it_is_stored_reopened_rebuilt_audited_and_dumped(tmp_path):
    cascade = simdb.And(2, simdb.Or(12, simdb.And(3)))
    items = items_of("set", 90)
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        made = db.collection("c", simdb.Set(), threshold=0.6, recall=0.8, cascade=cascade)
        made.add_many(enumerate(items))
        pairs = set(made.pairs())
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        made = db["c"]
        assert str(made.plan.cascade) == "And(2, Or(12, And(3)))"
        assert set(made.pairs()) == pairs
        assert made.stats()["settings"]["cascade"] == str(cascade)
        assert made.self_audit().expected_recall == made.plan.expected_recall(0.6)
        assert made.plan.expected_recall(0.6) == pytest.approx(cascade.probability(0.6) - 1e-4)
        with pytest.raises(ConfigurationError, match="cascade is And"):
            db.collection("c", simdb.Set(), threshold=0.6, recall=0.8)
        db.collection("c", simdb.Set(), threshold=0.6, recall=0.8, cascade=cascade)
        made.rebuild(threshold=0.7)
        assert str(made.plan.cascade) == str(cascade)
        made.rebuild(cascade=simdb.Or(20, simdb.And(4)))
        assert (made.plan.cascade, made.plan.bands, made.plan.rows) == (None, 20, 4)
        made.rebuild(cascade=cascade)
        made.rebuild(bands=10, rows=3)
        assert made.plan.cascade is None
        made.rebuild(cascade=cascade)
        assert made.check(deep=True).sound
        db.dump(tmp_path / "dumped")
    simdb.load(tmp_path / "dumped", tmp_path / "b.simdb")
    with simdb.open(tmp_path / "b.simdb", threads=1) as db:
        assert str(db["c"].plan.cascade) == str(cascade)
        assert set(db["c"].pairs(0.7)) <= pairs


def test_banding_is_a_cascade():
    assert simdb.plan(0.8, cascade=simdb.Or(16, simdb.And(6))) == simdb.plan(0.8)
    planned = simdb.plan(0.8, recall=0.9, cascade=simdb.And(4, simdb.Or(4, simdb.And(2))))
    assert planned.fixed_points() == [pytest.approx(0.6647, abs=1e-4)]
    found = planned.sensitivity(0.2, 0.6)
    assert found.near_probability == pytest.approx((1 - (1 - 0.8**2) ** 4) ** 4)
    assert found.far_probability == pytest.approx((1 - (1 - 0.4**2) ** 4) ** 4)


def test_what_cannot_be_is_refused(tmp_path):
    too_strict = simdb.And(4, simdb.Or(2))
    with pytest.raises(ConfigurationError, match=r"finds 0\.8492 at threshold 0\.8.*recall=0\.849"):
        simdb.plan(0.8, cascade=too_strict)
    assert simdb.plan(0.8, cascade=too_strict, recall=0.849).cascade is not None
    with pytest.raises(ConfigurationError, match=r"recall 0\.99: take a larger OR") as caught:
        simdb.plan(0.8, cascade=simdb.And(100))  # less than any recall that can be asked for
    assert "recall=0" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="leave out bands"):
        simdb.plan(0.8, cascade=too_strict, bands=3)
    with pytest.raises(ConfigurationError, match="has 10,000 base functions, more than the 4,096"):
        simdb.plan(0.8, cascade=simdb.Or(100, simdb.And(100)))
    with pytest.raises(ConfigurationError, match="a cascade must consist of"):
        simdb.plan(0.8, cascade=cast("Any", "And(2)"))
    with pytest.raises(ConfigurationError, match="holds another And or Or, not 3"):
        simdb.And(2, cast("Any", 3))
    with simdb.open(tmp_path / "a.simdb") as db:
        for kind in (simdb.Record([simdb.Field("a")]), simdb.Fingerprint(300, 300)):
            with pytest.raises(ConfigurationError, match="not bands"):
                db.collection("c", kind, threshold=0.5, cascade=too_strict)
        with pytest.raises(ConfigurationError, match="a cascade needs a threshold"):
            db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5, cascade=too_strict)
        with pytest.raises(ConfigurationError, match="leave these out"):
            db.collection("c", simdb.Bits(64), max_distance=3, recall=1, cascade=too_strict)
        assert db.collection_names() == []
    for text in ("", "And", "And(2", "And(2))", "Or(x)", "And(4, 4)", "Nor(3)", "Or(1" * 99):
        with pytest.raises(UsageError, match="a cascade is written as"):
            parse_construction(text)


@pytest.mark.parametrize(
    "stored",
    [
        {"form": "And(4, Or(4))", "keyed": [5]},
        {"form": "And(4, Or(4))", "keyed": [0]},
        {"form": "And(4, Or(4))", "keyed": [True]},
        {"form": "And(4, Or(4))", "keyed": [1, 1]},
        {"form": "And(4, Or(8))", "keyed": [1]},
        {"form": "And(4096, Or(4096))", "keyed": [1]},
        {"form": "Or(4, And(4))", "keyed": []},
        {"form": "()", "keyed": [1]},
        {"keyed": [1]},
        7,
    ],
)
def test_a_stored_cascade_that_cannot_be_is_damage(tmp_path, stored, monkeypatch):
    with simdb.open(tmp_path / "a.simdb") as db:
        cascade = simdb.And(4, simdb.Or(4))
        settings = db.collection("c", simdb.Set(), cascade=cascade)._present.settings
    monkeypatch.setattr(Cascade, "encode", lambda _: stored)
    with pytest.raises(CorruptionError, match="settings of collection 'c' cannot be read"):
        catalogue.CollectionSettings.decode("c", settings.encode())


def test_keys_are_as_many_as_cost_least_and_never_too_many():
    for form in ("And(4, Or(4))", "And(9, Or(4, And(2)))", "And(3, Or(1000))", "Or(4096)"):
        cascade = Cascade.of(parse_construction(form)).planned(
            JaccardCurve(), float(Fraction(4, 5))
        )
        assert cascade.key_count <= max(MOST_KEYS, 4096)
        assert cascade.clauses().max() < cascade.atoms


def test_true_pairs_at_the_bound_are_found_as_often_as_stated(tmp_path):
    """Over the functions of many secrets, the share found is the curve at the threshold."""
    cascade = simdb.And(3, simdb.Or(4, simdb.And(2)))
    one, other = set(range(30)), set(range(10, 40))
    similarity = jaccard(one, other)
    stated = cascade.probability(float(similarity))
    found = 0
    with simdb.open(tmp_path / "a.simdb", sync="batch") as db:
        for seed in range(60):
            made = db.create_collection(
                f"c{seed}",
                simdb.Set(),
                threshold=similarity,
                recall=0.1,
                cascade=cascade,
                seed=seed,
                sketch="classical",
            )
            made.add(1, one)
            found += len(made.search(other, guarantee="probable"))
    assert abs(found / 60 - stated) < 4.5 * (stated * (1 - stated) / 60) ** 0.5
