"""A recipe makes the same collection elsewhere, and travels as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from rich.pretty import pretty_repr

import simdb
from simdb.errors import ConfigurationError
from simdb.recipe import Recipe
from tests.support.kind_cases import CASES

TEXTS = simdb.Text(simdb.WordShingles(1))


@pytest.mark.parametrize("name", CASES)
def test_a_collection_of_a_recipe_signs_as_the_first_one_does(tmp_path, name):
    case = CASES[name]
    items = case.many(np.random.default_rng(3))[:8]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        first = db.collection("first", case.kind, **case.bound)
        recipe = Recipe.from_json(first.recipe().to_json())
        assert recipe == first.recipe()
        assert recipe.fingerprint == first.recipe().fingerprint
        other = db.collection("other", recipe=recipe)
        for collection in (first, other):
            collection.add_many(enumerate(items))
        assert other.recipe() == recipe
        if recipe.is_probable:
            assert np.array_equal(first.signatures(range(8)), other.signatures(range(8)))


def test_a_recipe_is_what_a_collection_of_the_same_arguments_is_made_by(tmp_path):
    asked: dict[str, Any] = {"threshold": 0.6, "seed": 3, "exact_floor": 0.5, "recall": 0.9}
    with simdb.open(tmp_path / "s.simdb") as db:
        assert db.collection("c", TEXTS, **asked).recipe() == Recipe.of(TEXTS, **asked)
    assert Recipe.of(TEXTS).fingerprint != Recipe.of(TEXTS).fingerprint  # secrets are drawn


def test_recipes_of_other_settings_have_other_fingerprints():
    recipe = Recipe.of(TEXTS, seed=1)
    others = [
        Recipe.of(TEXTS, seed=2),
        Recipe.of(TEXTS, seed=1, threshold=0.7),
        Recipe.of(simdb.Text(), seed=1),
        replace(recipe, unicode_version="1.0.0"),
    ]
    assert len({one.fingerprint for one in (recipe, *others)}) == 5


def test_a_secret_is_not_shown():
    recipe = Recipe.of(TEXTS, seed=1)
    assert "secret" not in repr(recipe)
    assert "secret" not in pretty_repr(recipe)
    assert recipe.secret.hex() in recipe.to_json()


def test_a_collection_of_another_recipe_is_not_opened_by_it(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        recipe = db.collection("c", TEXTS).recipe()
        assert db.collection("c", recipe=recipe).recipe() == recipe
        with pytest.raises(ConfigurationError, match="another"):
            db.collection("c", recipe=replace(recipe, secret=bytes(32)))
        with pytest.raises(ConfigurationError, match="leave the other arguments out"):
            db.collection("d", TEXTS, recipe=recipe)
        with pytest.raises(ConfigurationError, match="leave the other arguments out"):
            db.collection("d", recipe=recipe, threshold=0.5)
        assert db.collection_names() == ["c"]


@pytest.mark.parametrize(
    "change",
    [
        {"simdb_recipe": 2},
        {"kind": {"kind": "text", "shingles": "none"}},
        {"secret": "no"},
        {"secret": 7},
        {"bands": -1},
        {"threshold": "2"},
        {"threshold": 0.5},
        {"recall": "1e9"},
        {"sketch": "slow"},
        {"other": 1},
    ],
)
def test_what_is_no_recipe_is_refused(change):
    plain = json.loads(Recipe.of(TEXTS, seed=1).to_json())
    with pytest.raises(ConfigurationError):
        Recipe.from_json(json.dumps(plain | change))


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"simdb_recipe": 1}'])
def test_other_texts_are_no_recipe(text):
    with pytest.raises(ConfigurationError):
        Recipe.from_json(text)


def test_another_version_of_unicode_is_refused():
    recipe = Recipe.of(TEXTS, seed=1)
    recipe.require_same_unicode()
    with pytest.raises(ConfigurationError, match=r"1\.0\.0"):
        replace(recipe, unicode_version="1.0.0").require_same_unicode()


# -- planning for a number of items --------------------------------------------------------------


@pytest.mark.parametrize("items", [1, 10**6, 10**7, 10**9, 10**10])
def test_a_plan_for_many_items_meets_few_by_chance(items):
    chosen = simdb.plan(0.8, items=items)
    assert chosen.expected_recall(0.8) >= 0.99
    assert chosen.chance_meetings(items) <= 2
    assert simdb.Recipe.of(TEXTS, items=items).bands == chosen.bands


def test_a_plan_for_few_items_is_the_usual_one_and_more_items_take_more_rows():
    assert simdb.plan(0.8, items=10**6) == simdb.plan(0.8)
    rows = [simdb.plan(0.8, items=10**power).signature_rows for power in range(3, 12)]
    assert rows == sorted(rows)
    # By hand: sixteen bands of six rows, each equal one time in twenty.
    assert simdb.plan(0.8).chance_meetings(10**9) == pytest.approx(16e9 / 20**6, rel=1e-5)


def test_too_few_rows_for_so_many_items_are_refused():
    with pytest.raises(ConfigurationError, match="by chance"):
        simdb.plan(0.3, items=10**12)
    with pytest.raises(ConfigurationError, match="row_budget"):
        simdb.plan(0.8, items=10**9, row_budget=100)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ConfigurationError):
            simdb.plan(0.8, items=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        *({"containment": 3}, {"finds_equal": "yes"}, {"secret": ""}, {"containment": True}),
        *({"unicode_version": "x"}, {"unicode_version": ""}, {"unicode_version": "1."}),
        *({"unicode_version": 1e308}, {"unicode_version": None}, {"unicode_version": []}),
    ],
    ids=str,
)
def test_a_recipe_that_no_collection_has_is_refused(changed):
    plain = json.loads(simdb.Recipe.of(simdb.Set(), threshold=0.6, seed=1).to_json())
    with pytest.raises(simdb.ConfigurationError):
        simdb.Recipe.from_json(json.dumps({**plain, **changed}))
