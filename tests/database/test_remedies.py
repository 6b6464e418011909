"""Errors that know what would help: in the words of the API, and of the command line."""

from __future__ import annotations

import copy
from ast import Call, literal_eval, parse
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import simdb
from simdb import kinds
from simdb.cli.failures import in_options
from simdb.exact.thresholds import Threshold, decimal
from simdb.serve.refusals import refusal

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def collection(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("c", WORDS, threshold=0.8)
        collection.add("a", "one two three")
        yield collection


def refused(use: Any) -> simdb.UsageError:
    with pytest.raises(simdb.UsageError) as caught:
        use()
    return caught.value


def arguments_of(remedy: simdb.Remedy) -> dict[str, Any]:
    """The arguments that a remedy names, as whoever pastes the message gives them."""
    message = str(remedy).removesuffix(f" {remedy.effect}")
    if remedy.method is not None:
        message = message.removeprefix(f"{remedy.method}(").removesuffix(")")
    call = parse(f"called({message})", mode="eval").body
    assert isinstance(call, Call)
    return {str(one.arg): literal_eval(one.value) for one in call.keywords}


def test_a_remedy_is_a_call_or_an_argument():
    assert str(simdb.Remedy("on_existing", "skip", "leaves it")) == "on_existing='skip' leaves it"
    assert str(simdb.Remedy("threshold", 0.5, "does", "rebuild")) == "rebuild(threshold=0.5) does"
    assert str(simdb.Remedy(None, None, "opens it", "collection")) == "collection() opens it"


def test_what_takes_keys_from_elsewhere_is_a_whole_call(collection):
    collection.note_key_source("the field 'id'")
    error = refused(lambda: collection.note_key_source("the field 'url'"))
    told = """; note_key_source(source="the field 'url'", also=True) takes both"""
    assert str(error).endswith(told)
    (remedy,) = error.remedies
    assert remedy.method == "note_key_source"
    collection.note_key_source(**dict(remedy.arguments))
    collection.note_key_source("the field 'url'")


def test_numbers_that_no_float_is_are_quoted_for_python_only(collection):
    for value in (Fraction(1, 3), Threshold(Fraction(1, 3)), "1/3"):
        remedy = simdb.Remedy("threshold", value, "plans for it", "rebuild")
        assert str(remedy) == "rebuild(threshold='1/3') plans for it"
        error = simdb.ConfigurationError("no", remedies=[remedy])
        assert "--threshold 1/3 plans" in in_options(error)
        assert "--threshold 1/3 plans" in refusal(error).problem.help[0]
    finest = Threshold(Fraction(12_345_678_901_234_567, 10**17))
    assert simdb.Remedy("x", finest, "is").shown_value == "'0.12345678901234567'"
    assert [simdb.Remedy("x", v, "is").shown_value for v in (0.1 + 0.2, 10**20, True)] == [
        "0.30000000000000004",
        "100000000000000000000",
        "True",
    ]
    remedy = refused(lambda: list(collection.pairs("1/3"))).remedies[0]
    collection.rebuild(**arguments_of(remedy))
    assert list(collection.pairs("1/3")) == []


@pytest.mark.parametrize(
    ("wanted", "call"),
    [
        ({"threshold": 0.6}, "rebuild(threshold=0.6)"),
        ({"threshold": "2/3"}, "rebuild(threshold='2/3')"),
        ({"recall": 0.95}, "rebuild(recall=0.95)"),
        ({"sketch": "classical"}, "rebuild(sketch='classical')"),
        ({"exact_floor": 0.7}, "rebuild(exact_floor=0.7)"),
        ({"compression": "zstd"}, "rebuild(compression='zstd')"),
        ({"bands": 9, "rows": 3}, "rebuild()"),
        ({"groups": "chain"}, "rebuild()"),
    ],
)
def test_what_changes_a_collection_to_what_is_asked_for_has_the_setting(tmp_path, wanted, call):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("c", WORDS, threshold=0.8)
        remedy = refused(lambda: db.collection("c", WORDS, **wanted)).remedies[1]
        assert str(remedy) == f"{call} changes them"
        if remedy.arguments:
            collection.rebuild(**arguments_of(remedy))
            db.collection("c", WORDS, **wanted)


def test_the_distance_asked_for_is_named_as_one(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Bits(64), max_distance=3)
        remedy = refused(lambda: db.collection("c", max_distance=5)).remedies[1]
        assert arguments_of(remedy) == {"max_distance": 5}
        collection.rebuild(**arguments_of(remedy))
        assert db.collection("c", max_distance=5).max_distance == 5


def test_the_message_is_the_problem_and_the_remedies():
    remedies = [
        simdb.Remedy("threshold", 0.5, "plans for it", "rebuild"),
        simdb.Remedy(None, None, "opens it", "collection"),
        simdb.Remedy("guarantee", "exact", "misses nothing"),
        simdb.Remedy("containment", value=True, effect="posts all", method="rebuild"),
        simdb.Remedy("threshold", 0.1, "finds it", "rebuild", (("row_budget", 9), ("x", "a"))),
    ]
    error = simdb.ConfigurationError("it is wrong", remedies=remedies)
    assert str(error) == (
        "it is wrong; rebuild(threshold=0.5) plans for it, or collection() opens it, or "
        "guarantee='exact' misses nothing, or rebuild(containment=True) posts all, or "
        "rebuild(threshold=0.1, row_budget=9, x='a') finds it"
    )
    # What has no command is left out.
    assert in_options(error) == (
        "it is wrong; simdb rebuild STORE COLLECTION --threshold 0.5 plans for it, or --exact "
        "misses nothing, or simdb rebuild STORE COLLECTION --containment posts all, or simdb "
        "rebuild STORE COLLECTION --threshold 0.1 --row-budget 9 --x a finds it"
    )
    assert str(copy.copy(error)) == str(error)
    assert copy.copy(error).remedies == tuple(remedies)
    plain = simdb.ConfigurationError("it is wrong")
    assert str(plain) == plain.problem == in_options(plain) == "it is wrong"


def test_a_threshold_that_is_too_low_for_a_question_names_all_that_would_serve_it(collection):
    for use in (collection.pairs, collection.groups):
        told = str(refused(lambda use=use: use(0.5)))
        assert "rebuild(threshold=0.5) plans for it" in told
        assert "rebuild(exact_floor=0.5)" in told
        assert "guarantee='exact' misses nothing" in told
        assert "min_recall=0." in told
    told = str(refused(lambda: collection.search("one", threshold=0.5)))
    assert "min_recall=0." in told
    assert "rebuild(exact_floor=0.5)" in told
    assert "guarantee='exact' misses nothing" in told


def test_a_threshold_that_is_too_low_for_adding_names_what_adding_takes(collection):
    for use in (
        lambda: collection.dedupe([("b", "one")], threshold=0.5),
        lambda: collection.add("b", "one", find_duplicates=True, threshold=0.5),
        lambda: collection.add_many([("b", "one")], on_duplicate="skip", threshold=0.5),
    ):
        error = refused(use)
        assert isinstance(error, simdb.ThresholdTooLowError)
        assert "rebuild(threshold=0.5)" in str(error)
        assert "rebuild(exact_floor=0.5)" in str(error)
        assert "min_recall" not in str(error)
        assert "guarantee" not in str(error)
    collection.rebuild(exact_floor=0.5)
    assert collection.add("b", "one two", find_duplicates=True, threshold=0.5).duplicate_of == "a"


BITS = (simdb.Bits(64), {"max_distance": 3}, "0" * 16)
CASCADE = {"cascade": simdb.Or(16, simdb.And(2, simdb.Or(2, simdb.And(2))))}


@pytest.mark.parametrize(
    ("made", "asked", "further"),
    [
        ((simdb.WeightedSet(), {}, {"a": 1.0}), {"threshold": 0.2}, {"row_budget": 228}),
        ((simdb.WeightedSet(), {}, {"a": 1.0}), {"threshold": 0.01}, {"row_budget": 460}),
        ((simdb.Set(), {}, ["a"]), {"threshold": 0.2}, {"row_budget": 228}),
        ((simdb.Set(), CASCADE, ["a"]), {"threshold": 0.5}, {"row_budget": 128}),
        ((simdb.Signature(256), {}, [*range(256)]), {"threshold": 0.2}, {"row_budget": 226}),
        (BITS, {"max_distance": 30}, {"recall": 0.99}),
        (BITS, {"max_distance": 60}, {"recall": 0.99, "row_budget": 2354}),
    ],
)
def test_a_rebuild_that_takes_more_than_the_bound_is_named_with_all_of_it(
    tmp_path, made, asked, further
):
    kind, planned, item = made
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", kind, **planned)
        remedy = refused(lambda: collection.dedupe([("b", item)], **asked)).remedies[0]
        assert (remedy.method, dict(remedy.further)) == ("rebuild", further)
        with pytest.raises(simdb.ConfigurationError):
            collection.rebuild(**asked)
        collection.rebuild(**asked, **further)
        assert collection.dedupe([("b", item)], **asked).added == 1


def test_where_probable_answers_are_asked_for_no_exact_index_is_named(collection):
    error = refused(lambda: collection.search("one", threshold=0.5, guarantee="probable"))
    assert [remedy.argument for remedy in error.remedies] == [
        "threshold",
        "guarantee",
        "min_recall",
    ]
    collection.rebuild(exact_floor=0.3)
    again = refused(lambda: collection.search("one", threshold=0.5, guarantee="probable"))
    assert again.remedies == error.remedies


def test_an_index_that_is_missing_is_named_with_the_bound_that_is_asked_for(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.create_collection("sets", simdb.Set(), threshold=None, exact_floor=0.05)
        told = refused(lambda: sets.search(["a"], guarantee="probable")).remedies[-1]
        assert (str(told.value), dict(told.further)) == ("0.05", {"row_budget": 3_688})
        asked: Any = {"guarantee": "probable", "threshold": 0.04}
        told = refused(lambda: sets.search(["a"], **asked)).remedies[-1]
        sets.rebuild(**arguments_of(told))
        assert not sets.search(["a"], **asked)
        vectors = db.create_collection("vectors", simdb.Vector(2))
        told = refused(lambda: vectors.search([1, 2], guarantee="probable")).remedies[0]
        assert (told.argument, told.value) == ("max_distance", ...)
        asked = {"guarantee": "probable", "max_distance": 80}
        told = refused(lambda: vectors.search([1, 2], **asked)).remedies[0]
        vectors.rebuild(**arguments_of(told))
        assert not vectors.search([1, 2], **asked)
        recipe = simdb.Recipe.of(simdb.Set(), threshold=None, exact_floor=0.05)
        assert str(refused(lambda: recipe.plan)).endswith("rebuild(threshold=...) adds one")


def test_a_plan_is_refused_in_the_similarities_that_the_caller_knows(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        bags = db.create_collection("c", simdb.Bag("sum"), threshold=0.4)
        assert "at threshold 0.1 cannot" in str(refused(lambda: bags.rebuild(threshold=0.1)))
        loose = simdb.Or(2, simdb.And(2))
        told = str(refused(lambda: bags.rebuild(threshold=0.1, cascade=loose)))
        assert "at threshold 0.1, less" in told


EXAMPLES = [examples for kind in kinds.OWN for examples in kind.examples()]
EDITS, SHARES = (0, 2, 5, 9, 16, 39), ("1/100", 0.05, 0.1, 0.2, "1/3", 0.4, 0.5, "5/6", 0.9, 1)
BOUNDS = {"bits": EDITS, "string": EDITS, "vector": (0.1, "1/7", 2, "10/3", 20, 90, 170)}
GUARANTEES = ("auto", "exact", "probable")
VERBS = ("search", "pairs", "groups", "join", "dedupe")
MEASURES = ("dice", "cosine", "overlap", "stored-in-probe", "probe-in-stored")


def random_bound(kind: kinds.Kind, chance: Random) -> dict[str, Any]:
    if kind.is_distance:
        return {"max_distance": chance.choice(BOUNDS[kind.name])}
    inner = Fraction(str(chance.choice(SHARES)))
    return {"threshold": decimal(kind.outer_similarity(inner))}


def random_settings(kind: kinds.Kind, chance: Random) -> dict[str, Any]:
    made: dict[str, Any] = {} if kind.is_distance else {"threshold": None}
    if chance.random() < 0.8:
        made = random_bound(kind, chance) | chance.choice(
            [{}, {}, {"row_budget": 500}, {"row_budget": 3_000}, {"bands": 30, "rows": 2}, CASCADE]
        )
    if kind.has_symbols and chance.random() < 0.6:
        made["exact_floor"] = random_bound(kind, chance)["threshold"]
    return made


def random_question(kind: kinds.Kind, chance: Random) -> tuple[str, dict[str, Any]]:
    verb, asked = chance.choice(VERBS), random_bound(kind, chance)
    if verb != "dedupe":
        asked["guarantee"] = chance.choice(GUARANTEES[::2] if kind.estimates else GUARANTEES)
        if kind.has_symbols and verb != "groups" and chance.random() < 0.2:
            asked["measure"] = chance.choice(MEASURES[: 3 if verb == "pairs" else 5])
    return verb, asked


def answer(collection: simdb.Collection, verb: str, item: Any, **asked: Any) -> None:
    if verb == "search":
        list(collection.search(item, **asked))
    elif verb == "join":
        list(collection.join(collection, **asked))
    elif verb == "dedupe":
        collection.dedupe([], **asked)
    else:
        list(getattr(collection, verb)(**asked))


@pytest.mark.parametrize("examples", EXAMPLES, ids=lambda examples: str(examples.kind)[:30])
def test_each_remedy_of_a_refused_question_lets_it_be_answered(tmp_path, examples):
    chance, kind = Random(7), examples.kind
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as db:

        def made(settings: dict[str, Any]) -> simdb.Collection:
            if "c" in db:
                db.drop_collection("c")
            return db.create_collection("c", kind, seed=1, **settings)

        for _ in range(20):
            settings = random_settings(kind, chance)
            verb, asked = random_question(kind, chance)
            try:
                collection = made(settings)
            except simdb.ConfigurationError:
                continue
            try:
                answer(collection, verb, examples.items[0], **asked)
            except simdb.UsageError as error:
                remedies = list(error.remedies)
            else:
                continue
            for remedy in remedies:
                collection, given = made(settings), arguments_of(remedy)
                if remedy.method is None:
                    answer(collection, verb, examples.items[0], **(asked | given))
                else:
                    collection.rebuild(**given)
                    answer(collection, verb, examples.items[0], **asked)


def test_where_no_index_can_be_planned_the_message_says_so(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", simdb.String(), max_distance=3)
        error = refused(lambda: collection.dedupe([("b", "x")], max_distance=3_000))
        assert str(error).endswith("is planned, and no index can be planned for it")
        bare = db.create_collection("bare", simdb.String())
        error = refused(lambda: bare.dedupe([("b", "x")], max_distance=3_000))
        assert str(error).endswith(
            "has no index for probable answers, and none can be planned for 3000"
        )
        asked: Any = {"max_distance": 3_000, "guarantee": "probable"}
        assert refused(lambda: bare.search("x", **asked)).remedies[0].value == "exact"


def test_below_both_indexes_the_message_names_both(collection):
    collection.rebuild(exact_floor=0.6)
    told = str(refused(lambda: collection.dedupe([("b", "one")], threshold=0.5)))
    assert "rebuild(threshold=0.5)" in told
    assert "rebuild(exact_floor=0.5)" in told


def test_a_key_that_is_stored_names_what_to_do_with_it(collection):
    error = refused(lambda: collection.add("a", "other"))
    assert isinstance(error, simdb.KeyExistsError)
    assert error.key == "a"
    assert not error.within_input
    assert error.problem == "key 'a' is stored already"
    assert "on_existing='skip' leaves it" in str(error)
    assert "on_existing='replace' overwrites it" in str(error)
    assert "--on-existing skip leaves it" in in_options(error)


def test_a_key_that_comes_again_with_other_content_is_told_from_a_stored_one(collection):
    error = refused(lambda: collection.dedupe([("b", "one"), ("c", "two"), ("b", "three")]))
    assert isinstance(error, simdb.KeyExistsError)
    assert (error.row, error.key, error.within_input) == (2, "b", True)
    assert "came earlier in the input with other content" in str(error)
    outcomes: list[simdb.Outcome] = []
    collection.dedupe(
        [("a", "new"), ("d", "x"), ("d", "y")], on_bad="skip", outcomes=outcomes.extend
    )
    assert [(outcome.action, outcome.within_input) for outcome in outcomes] == [
        ("bad", False),
        ("added", None),
        ("bad", True),
    ]
    assert "is stored with other content" in str(outcomes[0].problem)
    assert "came earlier" in str(outcomes[2].problem)


def test_an_error_of_ones_own_needs_no_message():
    class OwnError(simdb.SimdbError):
        pass

    assert (str(OwnError()), OwnError().remedies) == ("", ())
