"""Arguments of odd types: each is taken as what it stands for, or refused in words."""

from __future__ import annotations

import enum
import math
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.arguments import require_choice, require_whole, several, short
from simdb.files.identical import identical_files

numpy: Any = np  # whose numbers annotations refuse
HUGE: Any = 10**5_000  # which Python does not write
SPAN: Any = np.timedelta64(1, "s")
NAMES: Any = np.array(["chain", "star"])
NUMBERS: Any = np.array([1, 2])
POINT: Any = np.array(5)  # without a dimension
RECORDS = simdb.Record([simdb.Field("a"), simdb.Field("b")], ["a"])


class Whole(int):
    pass


class Choice(enum.IntEnum):
    ONE = 1


ONE: Any = Choice.ONE


class Stores:
    """A store with a collection of texts, of vectors, of sets with groups, and of records."""

    def __init__(self, database: simdb.Database) -> None:
        self.database = database
        self.texts = database.collection("texts", simdb.Text(), seed=1)
        self.vectors = database.collection("vectors", simdb.Vector(3), max_distance=10, seed=1)
        self.sets = database.collection("sets", simdb.Set(), seed=1, groups="chain")
        self.records = database.collection("records", RECORDS, threshold=0.5, seed=1)

    def fill(self) -> None:
        self.texts.add_many((number, f"one text or another {number // 2}") for number in range(6))
        self.vectors.add_many((number, [number + 1, 2, 3]) for number in range(6))
        self.records.add_many((n, {"a": str(n // 2), "b": "x"}) for n in range(6))

    def made(self, kind: simdb.kinds.Kind | None = None, **settings: Any) -> simdb.Collection:
        """A new collection, of sets by default."""
        given = {"seed": 1, **settings}
        return self.database.collection("made", simdb.Set() if kind is None else kind, **given)


Use = Callable[[Stores], Any]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The file of a store, which is made once."""
    path = tmp_path_factory.mktemp("filled") / "s.simdb"
    with simdb.open(path) as database:
        Stores(database).fill()
    return path


@pytest.fixture
def stores(tmp_path, filled):
    with simdb.open(shutil.copy(filled, tmp_path)) as database:
        yield Stores(database)


# ------------------------------------------------------------------------------ whole numbers


@pytest.mark.parametrize("number", [5, np.int8(5), np.uint64(5), Whole(5), np.int64(5)])
def test_a_whole_number_of_any_class_is_one_of_python(number):
    taken = require_whole("limit", number, 1)
    assert taken == 5
    assert type(taken) is int


@pytest.mark.parametrize("wrong", [True, 5.0, "5", SPAN, NUMBERS, np.bool_(1), 0, -HUGE], ids=short)
def test_what_is_no_whole_number_is_refused(wrong):
    with pytest.raises(simdb.ConfigurationError, match="limit must be a whole number of at least"):
        require_whole("limit", wrong, 1)


USES: list[Use] = [
    lambda s: s.vectors.search([1, 2, 3], limit=numpy.int8(10)),
    lambda s: s.vectors.search([1, 2, 3], limit=numpy.int64(2**63 - 1)),
    lambda s: s.vectors.search([1, 2, 3], limit=numpy.uint64(2**64 - 1)),
    lambda s: s.vectors.search_many([[1, 2, 3]] * 9, limit=numpy.int8(2)),
    lambda s: s.texts.search("one text", limit=numpy.int8(10), where={"a": 1}),
    lambda s: s.texts.survey(sample=numpy.int8(5), seed=numpy.int8(1)),
    lambda s: s.texts.shares_met([(1, 2)], tries=numpy.int8(2), seed=numpy.int64(3)),
    lambda s: list(s.texts.pairs(budget=numpy.int16(1_000), since=numpy.int8(1))),
    lambda s: list(s.sets.changes(since=numpy.int8(0))),
    lambda s: s.made(bands=numpy.int64(4), rows=numpy.int8(4), seed=numpy.int64(1)),
    lambda s: s.made(row_budget=numpy.int16(64)),
    lambda s: s.made(cascade=simdb.And(numpy.int8(4), simdb.Or(numpy.int64(4)))),
    lambda s: s.made(simdb.Vector(numpy.int64(3))),
    lambda s: simdb.plan(0.8, items=numpy.int32(100)),
    lambda s: s.texts.add_many([(numpy.int8(100), "x"), (numpy.int8(101), "y")]),
]


@pytest.mark.parametrize("use", USES)
def test_numbers_of_numpy_are_taken(stores, use):
    use(stores)


def test_a_mode_and_resources_are_taken_of_any_whole_class(tmp_path):
    resources: Any = {
        "threads": numpy.int8(1),
        "memory": numpy.int64(2**30),
        "mode": numpy.int16(0o600),
    }
    with simdb.open(tmp_path / "s.simdb", **resources) as database:
        database.collection("c", simdb.Set()).add(1, [1])
    assert (tmp_path / "s.simdb").stat().st_mode & 0o777 == 0o600
    with pytest.raises(simdb.ConfigurationError, match="the owner"):
        simdb.open(tmp_path / "t.simdb", mode=numpy.int8(1))


# ----------------------------------------------------------------------- what is refused in words


REFUSED: list[Use] = [
    # times of NumPy, which are of its whole numbers
    lambda s: s.vectors.search([1, 2, 3], limit=SPAN),
    lambda s: s.texts.pairs(since=SPAN),
    lambda s: s.sets.group(SPAN),
    lambda s: s.sets.add(1, [SPAN]),
    lambda s: s.made(simdb.WeightedSet()).add(1, {"a": SPAN}),
    lambda s: s.made(simdb.Bits(8)).add(1, SPAN),
    lambda s: s.made(simdb.Bits(8)).add(1, [SPAN] * 8),
    lambda s: s.made(seed=SPAN),
    lambda s: s.texts.search("a", threshold=SPAN),
    lambda s: simdb.tune(["a", "b"], thresholds=[SPAN]),
    # numbers that Python does not write
    lambda s: s.texts.search("a", threshold=HUGE),
    lambda s: s.texts.search("a", min_recall=HUGE),
    lambda s: s.texts.search("a", limit=-HUGE),
    lambda s: s.texts.search("a", measure=HUGE),
    lambda s: s.texts.search("a", where={HUGE: 1}),
    lambda s: s.vectors.search([1, 2, 3], max_distance=-HUGE),
    lambda s: s.texts.pairs(since=HUGE),
    lambda s: s.texts.groups(apart=[HUGE]),
    lambda s: s.texts.get(HUGE),
    lambda s: s.texts.delete_many([HUGE]),
    lambda s: list(s.texts.score([(HUGE, 1)])),
    lambda s: s.texts.label([HUGE]),
    lambda s: s.texts.explain(HUGE),
    lambda s: list(s.sets.changes(since=HUGE)),
    lambda s: s.sets.group(HUGE),
    lambda s: s.sets.add(1, [HUGE]),
    lambda s: s.made(threshold=HUGE),
    lambda s: s.made(bands=HUGE, rows=2),
    lambda s: s.made(seed=HUGE),
    lambda s: s.made(groups_at=HUGE),
    lambda s: s.made(cascade=HUGE),
    lambda s: simdb.And(HUGE),
    lambda s: simdb.And(2, HUGE),
    lambda s: simdb.plan(0.8, items=HUGE),
    lambda s: simdb.plan(0.8).chance_meetings(HUGE),
    lambda s: simdb.plan_rules([{"a": 1}], RECORDS, items=HUGE),
    lambda s: simdb.tune(["a", "b"], sample=-HUGE),
    lambda s: simdb.tune(["a", "b"], tried=[HUGE]),
    lambda s: simdb.open("x.simdb", sync=HUGE),
    lambda s: simdb.open("x.simdb", busy_timeout=HUGE),
    lambda s: simdb.Vector(HUGE),
    lambda s: simdb.Field(HUGE),
    lambda s: simdb.Field("a", missing=HUGE),
    lambda s: simdb.Record(HUGE),
    lambda s: simdb.Within("a", HUGE),
    lambda s: simdb.Text(HUGE),
    lambda s: simdb.Record([simdb.Field("a")], [simdb.Alike("a", 1e-300)]),
    # arrays, which are equal to nothing, or to all
    lambda s: s.texts.search("a", guarantee=NAMES),
    lambda s: s.texts.search("a", measure=NAMES),
    lambda s: s.texts.get(NUMBERS),
    lambda s: s.texts.add(NUMBERS, "x"),
    lambda s: s.texts.add(1, "x", metadata=NUMBERS),
    lambda s: s.texts.rebuild(sketch=NAMES),
    lambda s: s.texts.dedupe([("a", "b")], measure=NAMES),
    lambda s: s.made(sketch=NAMES),
    lambda s: s.made(groups=NAMES),
    lambda s: s.made(compression=NAMES),
    lambda s: s.made(threshold=NUMBERS),
    lambda s: s.made(groups="chain", groups_at=POINT),
    lambda s: simdb.open("x.simdb", sync=NAMES),
    lambda s: simdb.dedupe([{"t": "aaa"}], item="t", show=NAMES),
    lambda s: simdb.dedupe([{"t": "aaa"}], item="t", key=NUMBERS),
    # what cannot be iterated
    lambda s: s.texts.search_many(numpy.float64(1)),
    lambda s: s.texts.add_many(ONE),
    lambda s: s.texts.add_many(POINT),
    lambda s: s.texts.delete_many(numpy.float32(1)),
    lambda s: s.texts.score(POINT),
    lambda s: s.texts.groups(apart=POINT),
    lambda s: s.texts.label(POINT),
    lambda s: s.records.learn(labels=POINT),
    lambda s: simdb.tune(numpy.float64(1)),
    lambda s: simdb.Text(ignore=POINT),
    lambda s: simdb.StopWordShingles(2, stop_words=POINT),
]


@pytest.mark.parametrize("use", REFUSED)
def test_what_cannot_be_is_refused_in_words(stores, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(simdb.UsageError) as raised:
        use(stores)
    assert len(str(raised.value)) < 500


def test_a_filter_that_contains_itself_is_refused(stores):
    inside: dict[str, Any] = {}
    inside["a"] = inside
    with pytest.raises(simdb.ConfigurationError, match="contains itself"):
        stores.texts.search("a", where=inside)


@pytest.mark.parametrize("wrong", [numpy.float64(1), ONE, POINT, 5, None, "text", b"text"])
def test_what_is_not_several_is_told_so(wrong):
    with pytest.raises(simdb.WrongTypeError, match="items must be an iterable of items"):
        several("items", wrong)


def test_a_choice_is_one_of_some_texts_or_none_where_that_is_one():
    require_choice("on_bad", "skip", "error", "skip")
    require_choice("compression", None, "zstd", None)
    for wrong in (None, 5, "other", NAMES, HUGE):
        with pytest.raises(simdb.ConfigurationError, match="on_bad must be 'error' or 'skip', not"):
            require_choice("on_bad", wrong, "error", "skip")


def test_any_value_is_shown_short():
    assert short("text") == "'text'"
    assert short(HUGE) == "a whole number of 16,610 bits"
    assert "16,610 bits" in short([HUGE])
    assert len(short("x" * 1_000)) == len(short(numpy.zeros(1_000))) == 60


# ---------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "kind",
    [
        lambda: simdb.Vector(Whole(3)),
        lambda: simdb.Signature(8, source=numpy.str_("x")),
        lambda: simdb.Bits(8, numpy.str_("hamming")),
        lambda: simdb.Text(simdb.StopWordShingles(2, stop_words=numpy.array(["the", "of"]))),
        lambda: simdb.Record([simdb.Field(numpy.str_("a"), numpy.int64(4))], [numpy.str_("a")]),
        lambda: simdb.Record(
            [simdb.Field("a", equivalents=[numpy.array(["x", "y"])], levels=[(1, numpy.int8(50))])],
            ["a"],
        ),
        lambda: simdb.Record(
            [simdb.Field("a", compare="cosine", frequencies={numpy.str_("x"): numpy.int64(3)})],
            ["a"],
        ),
    ],
)
def test_settings_of_classes_of_their_own_are_stored_as_pythons(stores, kind):
    kind = kind()
    collection = stores.made(kind, **({"max_distance": 1} if kind.is_distance else {}))
    recipe = simdb.Recipe.from_json(collection.recipe().to_json())
    assert recipe.kind == kind


@pytest.mark.parametrize(
    "make",
    [
        lambda text: simdb.Bits(8, text),
        simdb.CharacterShingles,
        lambda text: simdb.StopWordShingles(2, stop_words=[text]),
        lambda text: simdb.Text(words=text),
        lambda text: simdb.Signature(8, source=text),
        simdb.Field,
        lambda text: simdb.Field("a", equivalents=[("x", text)]),
        lambda text: simdb.Field("a", frequencies={text: 1}),
        simdb.Equal,
        lambda text: simdb.Tokens(text, "1"),
    ],
)
def test_half_a_surrogate_pair_is_no_setting(make):
    with pytest.raises(simdb.ConfigurationError):
        make("\ud800")


# -------------------------------------------------------- numbers, functions and unused arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matched": math.nan}, "matched must be a number between 0 and 1e"),
        ({"matched": -5}, "matched must be a number between 0"),
        ({"matched": 1e300}, "matched must be a number between 0"),
        ({"matched": b"x"}, "matched must be a number between 0"),
        ({"matched": "all"}, "matched must be 'labelled', not 'all'"),
        ({"random": math.inf}, "random must be a number between 0"),
        ({"random": "x"}, "random must be a number between 0"),
        ({"certain": -math.inf}, "certain must be a number between 0"),
        ({"certain": "1"}, "certain must be a number between 0"),
        ({"certain": 10**200}, "certain must be a number between 0"),
        ({"certain": NUMBERS}, "certain must be a number between 0"),
        ({"confidence": NUMBERS}, "confidence must be a number between 0 and 1"),
        ({"confidence": 1}, "confidence must be between 0 and 1, not 1"),
        ({"edges": [0, math.inf]}, "edges must be at least two numbers"),
        ({"edges": [0, HUGE]}, "edges must be at least two numbers"),
        ({"edges": NUMBERS[:1]}, "edges must be at least two numbers"),
        ({"progress": 5}, "progress must be a function or None, not int"),
        ({"field": 5}, "field must be a function, not int"),
        ({"field": None}, "field must be a function, not NoneType"),
    ],
)
def test_numbers_of_a_calibration_are_within_their_range(stores, arguments, message):
    with pytest.raises(simdb.UsageError, match=message):
        stores.records.calibrate(**{"field": "b", **arguments})


@pytest.mark.parametrize(
    "use",
    [
        lambda s, wrong: s.texts.groups(progress=wrong),
        lambda s, wrong: s.texts.groups(method="star", progress=wrong),
        lambda s, wrong: s.texts.self_audit(progress=wrong),
        lambda s, wrong: s.texts.check(progress=wrong),
        lambda s, wrong: s.records.learn(progress=wrong),
        lambda s, wrong: s.records.uncertain(progress=wrong),
        lambda s, wrong: s.database.check(progress=wrong),
        lambda s, wrong: s.database.compact(progress=wrong),
        lambda s, wrong: s.database.backup("backup.simdb", progress=wrong),
        lambda s, wrong: s.database.dump("dump", progress=wrong),
        lambda s, wrong: simdb.load("dump", "loaded.simdb", progress=wrong),
        lambda s, wrong: simdb.tune(["one", "two"], progress=wrong),
        lambda s, wrong: identical_files(["."], progress=wrong),
    ],
)
def test_progress_is_a_function_before_anything_is_done(stores, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(simdb.WrongTypeError, match="progress must be a function or None, not int"):
        use(stores, 5)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"threshold": "banana"},
        {"threshold": 2},
        {"max_distance": 3},
        {"merge": 5},
        {"merge": max},
        {"find_duplicates": None},
        {"find_duplicates": 5},
        {"find_duplicates": Counter("aab")},
    ],
)
def test_what_is_not_needed_must_be_right_as_well(stores, arguments):
    before = len(stores.texts)
    with pytest.raises(simdb.UsageError):
        stores.texts.add("key", "text", **arguments)
    with pytest.raises(simdb.UsageError):
        stores.texts.add_many([("key", "text")], **arguments)
    assert len(stores.texts) == before
    stores.texts.add("key", "text", threshold=0.9, find_duplicates=np.bool_(0))
    with pytest.raises(simdb.WrongTypeError, match="at_once must be True or False"):
        stores.texts.add_many([("other", "text")], at_once=NUMBERS)
    with pytest.raises(simdb.WrongTypeError, match="at_once must be True or False"):
        stores.texts.delete_many(["key"], at_once="no")
    for name in ("read_only", "untrusted"):
        wrong: Any = {name: "no"}
        with pytest.raises(simdb.WrongTypeError, match=f"{name} must be True or False"):
            simdb.open(stores.texts._handle.path, **wrong)
    with pytest.raises(simdb.WrongTypeError, match="one_to_one must be True or False"):
        stores.texts.join(stores.texts, one_to_one="no")
    for name in ("drop_exact", "drop_probable", "drop_compression", "drop_groups"):
        with pytest.raises(simdb.WrongTypeError, match=f"{name} must be True or False"):
            stores.texts.rebuild(**{name: "no"})
