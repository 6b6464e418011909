"""Bad thresholds, settings, kinds and options: each has a clear error, and harms nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from tests.support import guarded_stores
from tests.support.guarded_stores import WORDS

# The fixtures of this module.
database, collection = guarded_stores.database, guarded_stores.collection


@pytest.mark.parametrize(
    "threshold",
    [0, -0.5, 1.0000001, 2, math.nan, math.inf, True, "abc", "", "1/0", "-1/2", "1e-999999999"],
)
def test_a_threshold_outside_0_to_1_is_a_configuration_error(database, collection, threshold):
    for use in (
        lambda: collection.search("x", threshold=threshold),
        lambda: collection.search_many(["x"], threshold=threshold),
        lambda: collection.pairs(threshold),
        lambda: collection.groups(threshold),
        lambda: collection.add("a", "x", threshold=threshold, find_duplicates=True),
        lambda: collection.add_many([], threshold=threshold, on_duplicate="skip"),
        lambda: collection.dedupe([("a", "x")], threshold=threshold),
        lambda: collection.self_audit(threshold=threshold),
        lambda: collection.rebuild(threshold=threshold),
        lambda: database.collection("new", WORDS, threshold=threshold),
        lambda: simdb.plan(threshold),
    ):
        with pytest.raises(simdb.ConfigurationError, match="threshold"):
            use()
    assert database.collection_names() == ["c"]
    assert len(collection) == 1


@pytest.mark.parametrize("threshold", [[0.8], 0.8j, b"0.8", object()])
def test_a_threshold_of_another_type_is_a_type_error(database, collection, threshold):
    for use in (
        lambda: collection.search("x", threshold=threshold),
        lambda: collection.pairs(threshold),
        lambda: database.collection("new", WORDS, threshold=threshold),
        lambda: simdb.plan(threshold),
    ):
        with pytest.raises(TypeError, match="threshold"):
            use()


@pytest.mark.parametrize("threshold", [1, 1.0, "1", "4/5", ".8", Decimal("0.8"), Fraction(1, 1)])
def test_thresholds_may_be_written_in_many_ways(collection, threshold):
    assert collection.search("what was stored before", threshold=threshold)


@pytest.mark.parametrize(
    "options",
    [
        {"recall": 0},
        {"recall": 1},
        {"recall": 1.01},
        {"recall": math.nan},
        {"bands": 0},
        {"bands": -1},
        {"bands": 1.5},
        {"rows": True},
        {"rows": "5"},
        {"bands": 100_000, "rows": 100_000},
        {"bands": 1},
        {"threshold": 0.01},
        {"sketch": "slow"},
        {"seed": "secret"},
        {"seed": 1.5},
        {"seed": True},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_configuration_errors(database, options):
    with pytest.raises(simdb.ConfigurationError):
        database.collection("new", WORDS, **options)
    assert "new" not in database


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (simdb.CharacterShingles, {"size": 0}),
        (simdb.CharacterShingles, {"size": -1}),
        (simdb.CharacterShingles, {"size": 2.5}),
        (simdb.CharacterShingles, {"size": True}),
        (simdb.WordShingles, {"size": "3"}),
        (simdb.StopWordShingles, {"following": 0}),
        (simdb.StopWordShingles, {"stop_words": "the"}),
        (simdb.StopWordShingles, {"stop_words": ()}),
        (simdb.Text, {"shingles": "character"}),
        (simdb.Text, {"shingles": 9}),
        (simdb.Text, {"white_space": "drop"}),
        (simdb.Text, {"unicode": "nfc"}),
    ],
)
def test_kinds_that_cannot_be_are_configuration_errors(make, arguments):
    with pytest.raises(simdb.ConfigurationError):
        make(**arguments)


@pytest.mark.parametrize("kind", ["text", simdb.Text, simdb.CharacterShingles(9), 5])
def test_a_kind_of_another_type_is_a_type_error(database, kind):
    with pytest.raises(TypeError, match="kind"):
        database.collection("new", kind)
    with pytest.raises(TypeError, match="kind"):
        database.create_collection("new", kind)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("add", {"on_existing": "ignore"}),
        ("add", {"on_duplicate": "drop"}),
        ("add", {"on_existing": None}),
        ("add_many", {"on_bad": "ignore"}),
        ("add_many", {"on_bad": True}),
        ("dedupe", {"on_bad": "drop"}),
        ("search", {"limit": 0}),
        ("search", {"limit": -1}),
        ("search", {"limit": True}),
        ("search", {"guarantee": "maybe"}),
        ("search", {"threshold": 0.4, "min_recall": math.nan}),
        ("search", {"threshold": 0.4, "min_recall": 1.5}),
        ("search", {"threshold": 0.4, "min_recall": -0.1}),
        ("pairs", {"guarantee": None}),
        ("delete_many", {"missing": "ignore"}),
    ],
)
def test_options_that_are_not_known_are_configuration_errors(collection, method, options):
    arguments = {
        "add": ("a", "x"),
        "add_many": ([("a", "x")],),
        "dedupe": ([("a", "x")],),
        "search": ("x",),
        "pairs": (),
        "delete_many": (["kept"],),
    }
    with pytest.raises(simdb.ConfigurationError):
        getattr(collection, method)(*arguments[method], **options)
    assert len(collection) == 1


@pytest.mark.parametrize("number", [1.5, "3", [1], np.float64(2), math.inf])
def test_a_number_of_another_type_is_a_configuration_error(collection, number):
    with pytest.raises(simdb.ConfigurationError, match="limit must be a whole number"):
        collection.search("what was stored before", limit=number)
    with pytest.raises(simdb.ConfigurationError, match="sample must be a whole number"):
        collection.self_audit(sample=number)
    with pytest.raises(simdb.ConfigurationError, match="min_recall"):
        collection.search("what was stored before", threshold=0.1, min_recall=str(number))


def test_a_limit_may_be_a_number_of_numpy(collection):
    assert len(collection.search("what was stored before", limit=np.int64(1))) == 1


@pytest.mark.parametrize("numbers", [[-1], [2**32], [0, 2**40], np.array([-1])])
def test_a_number_that_no_item_can_have_is_not_stored(collection, numbers):
    with pytest.raises(simdb.KeyNotFoundError, match="is not an item number"):
        collection.keys_of(numbers)


@pytest.mark.parametrize("numbers", [["a"], [0.0], [2**70], [None]])
def test_item_numbers_are_whole_numbers(collection, numbers):
    with pytest.raises(simdb.WrongTypeError, match="whole numbers"):
        collection.keys_of(numbers)
    assert collection.keys_of([]) == []
    assert collection.keys_of([0]) == ["kept"]


@pytest.mark.parametrize(
    ("key", "item", "metadata"),
    [
        ("", "x", None),
        (2**64, "x", None),
        ("a", None, None),
        ("a", "x", {"b": object()}),
        ("a", "x", 5),
        (None, "x", None),
    ],
)
def test_an_error_about_a_single_item_names_no_row(collection, key, item, metadata):
    use: Any
    for use in (
        lambda: collection.add(key, item, metadata=metadata),
        lambda: collection.replace("kept" if key == "a" else key, item, metadata=metadata),
    ):
        with pytest.raises(simdb.UsageError) as caught:
            use()
        assert not str(caught.value).startswith("row")
        assert getattr(caught.value, "row", None) is None


def test_a_wrong_type_is_an_error_of_simdb_and_of_python(collection, database):
    use: Any
    for use in (
        lambda: collection.get(1.5),
        lambda: collection.add(b"a", "x"),
        lambda: collection.delete_many("text"),
        lambda: database.collection(5, WORDS),
        lambda: database.collection("new", "text"),
    ):
        with pytest.raises(simdb.WrongTypeError) as caught:
            use()
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "kind", [simdb.Vector(2), simdb.Bits(8), simdb.String(), simdb.Signature(4)]
)
def test_an_exact_index_is_planned_only_for_what_has_one(kind):
    with pytest.raises(simdb.ConfigurationError, match="has no exact index"):
        simdb.plan_exact([[1, 0]], kind)


def test_settings_that_differ_are_told_as_they_were_given(tmp_path):
    kind = simdb.Bag("sum")
    assert simdb.plan_exact([["a", "b"]], kind, exact_floor="0.3").floor == Fraction(3, 10)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        given: dict[str, Any] = {"threshold": 0.4, "exact_floor": 0.3, "groups": "chain"}
        db.collection("c", kind, **given, groups_at=[0.42])
        with pytest.raises(simdb.ConfigurationError, match=r"exact_floor is 0\.3, not None"):
            db.collection("c", kind, threshold=0.4)
        with pytest.raises(simdb.ConfigurationError, match=r"at 0\.42, not 'chain' at 0\.45"):
            db.collection("c", kind, **given, groups_at=[0.45])


def test_of_an_index_that_there_is_not_no_bound_is_told(tmp_path):
    def refused(*settings: Any, **bounds: Any) -> Any:
        with pytest.raises(simdb.ConfigurationError) as caught:
            db.collection(*settings, **bounds)
        return caught.value.problem

    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        kind = simdb.Vector(2, "euclidean")
        db.collection("all", kind)
        db.collection("near", kind, max_distance=5)
        assert refused("all", kind, max_distance=5).endswith("max_distance is None, not 5")
        assert refused("near", kind).endswith("max_distance is 5, not None")
        exact: dict[str, Any] = {"threshold": None, "exact_floor": 0.8}
        db.collection("exact", simdb.Set(), **exact)
        assert refused("exact", simdb.Set()).endswith("threshold is None, not 0.8")
        exact["exact_floor"] = 0.7
        assert refused("exact", simdb.Set(), **exact).endswith("exact_floor is 0.8, not 0.7")


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_a_seed_must_be_a_whole_number(tmp_path, seed):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.5)
        collection.add_many((n, f"text number {n}") for n in range(9))
        for call in (collection.self_audit, collection.survey, collection.learn):
            with pytest.raises(simdb.ConfigurationError, match="seed must be a whole number"):
                call(seed=seed)


@pytest.mark.parametrize("recipe", ["{}", {}, 5])
def test_a_recipe_of_another_type_is_a_type_error(database, collection, recipe):
    own = collection.recipe()
    use: Any
    for use in (
        lambda: database.collection("new", recipe=recipe),
        lambda: own.signs_alike(recipe),
    ):
        with pytest.raises(simdb.WrongTypeError, match=r"a recipe must be a simdb\.Recipe, not"):
            use()
    with pytest.raises(simdb.WrongTypeError, match=r"plan\.expected_recall takes numbers"):
        own.expected_recall(0.8)
    planned = collection.plan.expected_recall(collection.threshold)
    assert own.expected_recall(own.bound) == planned
    assert database.collection_names() == ["c"]


def test_a_recipe_that_is_nested_too_deep_is_none():
    with pytest.raises(simdb.ConfigurationError, match="not a recipe"):
        simdb.Recipe.from_json("[" * 200_000)


def test_what_a_recipe_does_not_contain_may_be_given_beside_it(database, collection):
    own = collection.recipe()
    made = database.collection("n", recipe=own, groups="chain", groups_at=[0.9], compression="zstd")
    assert made.stats()["settings"]["kept_groups"] == {"method": "chain", "bounds": [0.9]}
    with pytest.raises(simdb.ConfigurationError, match="leave the other arguments out"):
        database.collection("o", recipe=own, recall=0.9)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (None, "kind must be one of"),
        (5, "kind must be one of"),
        (simdb.Set, r"kind must be a call such as Set\(\), not the class"),
        (simdb.Vector, r"kind must be a call such as Vector\(dimension\), not the class"),
    ],
)
def test_what_is_no_kind_is_refused_by_all_that_take_one(collection, kind, told):
    use: Any
    for use in (
        lambda: simdb.plan_exact([{1}], kind),
        lambda: simdb.plan_rules([{"a": "x"}], kind),
        *([] if kind is None else [lambda: collection.rebuild(kind)]),
    ):
        with pytest.raises(simdb.WrongTypeError, match=told):
            use()


@pytest.mark.parametrize("number", [-3, 0, 1.5, True, "9"])
def test_numbers_of_records_are_whole_numbers(number):
    record, row = simdb.Record([simdb.Field("a")]), {"a": "x"}
    with pytest.raises(simdb.ConfigurationError, match=r"^items must be a whole number"):
        simdb.plan_rules([row], record, items=number)
    with pytest.raises(simdb.ConfigurationError, match=r"^other_items must be a whole number"):
        simdb.plan_rules([row], record, other=[row], other_items=number)


@pytest.mark.parametrize("memory", [None, 0, 2**20, 1.5e9, True])
def test_a_memory_setting_that_cannot_be_is_refused_at_once(tmp_path, memory):
    with pytest.raises(simdb.ConfigurationError, match="memory must be a whole number"):
        simdb.open(tmp_path / "new.simdb", memory=memory)
    assert not (tmp_path / "new.simdb").exists()


def test_a_memory_setting_beyond_all_there_is_takes_no_more_than_there_is(tmp_path):
    rows = [(key, f"a b c {key % 50} {key}") for key in range(400)]
    found = []
    for given in (2**30, 2**50, 2**63, 10**30):
        with simdb.open(tmp_path / f"{given}.simdb", memory=given) as db:
            made = db.create_collection("c", WORDS, threshold=0.6, exact_floor=0.6, seed=1)
            made.add_many(rows)
            probable = list(made.pairs(guarantee="probable"))
            assert made.dedupe([("new", "a b c 1 1")]).duplicates_old == 1
            found.append((probable, list(made.pairs(guarantee="exact")), list(made.groups())))
    assert all(one == found[0] for one in found)
    assert found[0][0]


def test_a_report_is_of_a_collection_and_settings_of_a_tuning(database, collection):
    wrong: Any
    for wrong in (5, None, database):
        with pytest.raises(simdb.WrongTypeError, match="a report is of a collection"):
            simdb.report(wrong)
        with pytest.raises(simdb.WrongTypeError, match=r"of simdb\.tune"):
            simdb.tuning_report(wrong)
    for wrong_number in ({"sample": 0}, {"sample": 1.5}, {"seed": "x"}):
        with pytest.raises(simdb.ConfigurationError, match="must be a whole number"):
            simdb.report(collection, **wrong_number)


def test_what_is_tried_are_names_and_settings():
    texts, wrong = ["a b c d"] * 2, [{"x": simdb.Text()}, [simdb.Text()], 5, [], ["ab"], [("a", 1)]]
    wrong += [[("set", simdb.Set())], [("string", simdb.String())]]
    for tried in wrong:
        with pytest.raises(simdb.WrongTypeError, match="tried must be pairs of a name and a"):
            simdb.tune(texts, tried=tried)  # type: ignore[arg-type]


def test_settings_without_a_kind_are_those_that_the_collection_has(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        made = database.collection("c", WORDS, threshold=0.8, exact_floor=0.5, groups="chain")
        assert database.collection("c").recipe() == made.recipe()
        assert database.collection("c", exact_floor=0.5, groups="chain").recipe() == made.recipe()
        for options in ({"threshold": 0.3}, {"bands": 7, "rows": 3}, {"groups": "star"}):
            with pytest.raises(simdb.ConfigurationError, match="settings"):
                database.collection("c", **options)
        with pytest.raises(simdb.CollectionNotFoundError):
            database.collection("d", threshold=0.3)


def test_false_candidates_are_for_the_planning_of_an_index_alone(collection):
    for options in ({}, {"groups": "chain"}, {"compression": "zstd"}):
        with pytest.raises(simdb.ConfigurationError, match="false_candidates"):
            collection.rebuild(false_candidates=1e-9, **options)
