"""The public names, their documentation, and what importing them costs."""

from __future__ import annotations

import copy
import inspect
import json
import pickle  # noqa: TID251 - that users may pickle answers
from collections.abc import Sequence
from importlib import metadata

import pytest

import simdb
from tests.support.commands import run
from tests.support.processes import interpreted

NAMES = [
    "AddReport",
    "Alike",
    "Alternative",
    "And",
    "Answers",
    "AuditBin",
    "AuditReport",
    "BadItemError",
    "Bag",
    "Bits",
    "Calibration",
    "CharacterShingles",
    "CheckReport",
    "Collection",
    "CollectionNotFoundError",
    "CollectionView",
    "ConfigurationError",
    "CorruptionError",
    "Database",
    "DatabaseBusyError",
    "DatabaseClosedError",
    "DatabaseFailedError",
    "DatabaseFullError",
    "DatabaseNotFoundError",
    "Edits",
    "Entry",
    "Equal",
    "ExactPlan",
    "Explanation",
    "Field",
    "Fingerprint",
    "FormatVersionError",
    "Group",
    "GroupChange",
    "GroupNotFoundError",
    "Groups",
    "KeptGroup",
    "Key",
    "KeyExistsError",
    "KeyNotFoundError",
    "Labels",
    "Match",
    "Matches",
    "MissingExtraError",
    "Near",
    "NotADatabaseError",
    "NothingAlikeError",
    "OperationInterruptedError",
    "Or",
    "Outcome",
    "Outcomes",
    "Pair",
    "PairBatch",
    "PairEvidence",
    "PairExplanation",
    "Pairs",
    "Plan",
    "Problem",
    "Progress",
    "Proposal",
    "ReadOnlyError",
    "Recipe",
    "Record",
    "Remedy",
    "RepairReport",
    "RepairedCollection",
    "RuleAudit",
    "RulePlan",
    "Set",
    "Signature",
    "SimdbError",
    "Snapshot",
    "Stats",
    "StopWordShingles",
    "StorageError",
    "String",
    "Text",
    "ThresholdTooLowError",
    "Tokens",
    "Tuning",
    "UncertainPair",
    "UnknownKindError",
    "UnknownTokeniserError",
    "UsageError",
    "Vector",
    "WeightedSet",
    "Weights",
    "Within",
    "WordShingles",
    "WrongTypeError",
    "dedupe",
    "link",
    "load",
    "open",
    "pairs",
    "plan",
    "plan_exact",
    "plan_rules",
    "propose_record",
    "repair",
    "report",
    "restore",
    "tune",
    "tuning_report",
]


def test_the_public_names_are_these_and_sorted():
    assert simdb.__all__ == NAMES
    assert sorted(simdb.__all__) == simdb.__all__


def test_the_version_is_that_which_is_installed_and_that_of_the_command():
    assert simdb.__version__ == metadata.version("simdb-store")
    assert "__version__" in dir(simdb)
    assert run("--version").stdout == f"simdb {simdb.__version__}\n"


@pytest.mark.parametrize("name", [name for name in simdb.__all__ if name != "Key"])
def test_every_public_name_is_documented(name):
    value = getattr(simdb, name)
    assert inspect.getdoc(value)
    if not inspect.isclass(value):
        return
    for member_name, member in inspect.getmembers(value):
        if member_name.startswith("_") or hasattr(Exception, member_name):
            continue
        if inspect.isfunction(member) or isinstance(member, property):
            assert inspect.getdoc(member), f"{name}.{member_name}"


def test_every_public_method_has_complete_annotations():
    for name in simdb.__all__:
        value = getattr(simdb, name)
        if not inspect.isclass(value) or not value.__module__.startswith("simdb"):
            continue
        for member_name, member in inspect.getmembers(value, inspect.isfunction):
            if member_name.startswith("_") or hasattr(Sequence, member_name):
                continue
            signature = inspect.signature(member)
            assert signature.return_annotation is not inspect.Signature.empty, member_name
            for parameter in list(signature.parameters.values())[1:]:
                assert parameter.annotation is not inspect.Parameter.empty, member_name


def test_every_error_derives_from_what_one_would_expect():
    expected: dict[str, tuple[type[BaseException], ...]] = {
        "BadItemError": (simdb.UsageError, ValueError),
        "ConfigurationError": (simdb.UsageError, ValueError),
        "NothingAlikeError": (simdb.ConfigurationError,),
        "KeyExistsError": (simdb.UsageError, LookupError),
        "KeyNotFoundError": (simdb.UsageError, LookupError),
        "GroupNotFoundError": (simdb.UsageError, LookupError),
        "CollectionNotFoundError": (simdb.UsageError, LookupError),
        "ThresholdTooLowError": (simdb.UsageError, ValueError),
        "WrongTypeError": (simdb.UsageError, TypeError),
        "MissingExtraError": (simdb.UsageError, ImportError),
        "OperationInterruptedError": (simdb.UsageError,),
        "UnknownKindError": (simdb.UsageError, LookupError),
        "UnknownTokeniserError": (simdb.UsageError, LookupError),
        "DatabaseClosedError": (simdb.UsageError,),
        "ReadOnlyError": (simdb.UsageError,),
        "DatabaseNotFoundError": (simdb.StorageError, FileNotFoundError),
        "NotADatabaseError": (simdb.StorageError,),
        "FormatVersionError": (simdb.StorageError,),
        "CorruptionError": (simdb.StorageError,),
        "DatabaseFailedError": (simdb.StorageError,),
        "DatabaseFullError": (simdb.StorageError,),
        "DatabaseBusyError": (simdb.StorageError,),
        "UsageError": (simdb.SimdbError,),
        "StorageError": (simdb.SimdbError,),
        "SimdbError": (Exception,),
    }
    assert set(expected) == {name for name in simdb.__all__ if name.endswith("Error")}
    for name, bases in expected.items():
        assert issubclass(getattr(simdb, name), bases)
        assert not issubclass(getattr(simdb, name), KeyError)


def test_every_error_survives_being_sent_to_another_process():
    remedies = [simdb.Remedy("threshold", 0.5, "plans for it", "rebuild")]
    errors: list[simdb.SimdbError] = [
        simdb.UnknownKindError("lab.Thing", "collection 'c' cannot be used: "),
        simdb.UnknownTokeniserError("stems", "2"),
        simdb.BadItemError("no text", row=3),
        simdb.KeyExistsError("there", remedies=remedies, row=1, key="a", within_input=True),
        simdb.KeyNotFoundError("not there", key="7", stored=7),
        simdb.MissingExtraError("no pyarrow"),
        *(getattr(simdb, name)("it") for name in simdb.__all__ if name.endswith("FoundError")),
    ]
    for error in errors:
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(other), str(other)) == (type(error), str(error))
            assert other.__dict__ == error.__dict__
            assert getattr(other, "msg", None) == getattr(error, "msg", None)


def test_what_is_open_says_that_it_cannot_be_sent(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("c", simdb.Set(), threshold=0.5, seed=1)
        collection.add_many([("a", [1, 2, 3]), ("b", [1, 2, 3, 4])])
        with db.snapshot() as state:
            found = collection.pairs(), collection.pairs(guarantee="exact"), state["c"].pairs()
            for open_one in (db, collection, collection.search, state, state["c"], *found):
                for send in (pickle.dumps, copy.deepcopy):
                    with pytest.raises(simdb.WrongTypeError, match=r"open .*s\.simdb again"):
                        send(open_one)
        assert len(copy.copy(collection)) == 2
        recipe = collection.recipe()
        assert pickle.loads(pickle.dumps(recipe)) == recipe == copy.deepcopy(recipe)


def loaded_by(script: str, **variables: str) -> set[str]:
    command = f"{script}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(interpreted(command, variables=variables).stdout.splitlines()[-1]))


def test_importing_loads_no_compiler_and_nothing_of_the_command_line():
    modules = loaded_by("import simdb")
    slow = {"numba", "llvmlite", "scipy", "typer", "rich", "click", "backports", "pandas"}
    assert not modules & slow
    assert not [name for name in modules if name.startswith(("simdb.cli", "simdb.files"))]


def test_opening_planning_and_counting_load_no_compiler(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", simdb.Text()).add("a", "some text")
    modules = loaded_by(
        f"""
import simdb
simdb.plan(0.8)
with simdb.open({str(tmp_path / "s.simdb")!r}) as db:
    news = db["c"]
    assert len(news) == 1 and "a" in news
    news.get("a"), list(news.items()), news.stats(), db.stats()
"""
    )
    assert not modules & {"numba", "llvmlite", "scipy"}


def test_nothing_is_compiled_where_python_fills_memory_that_is_freed(tmp_path):
    modules = loaded_by(
        f"""
import simdb
with simdb.open({str(tmp_path / "s.simdb")!r}) as db:
    news = db.collection("c", simdb.Text())
    news.add("a", "some text")
    assert len(news.search("some text")) == 1
""",
        PYTHONDEVMODE="1",
    )
    assert not modules & {"numba", "llvmlite", "scipy"}


@pytest.mark.parametrize("kind", ["similarity", "distance"])
def test_answers_are_equal_to_themselves_also_after_pickling(tmp_path, kind):
    with simdb.open(tmp_path / "s.simdb") as db:
        if kind == "similarity":
            collection = db.create_collection("c", simdb.Set(), threshold=0.5, seed=1)
            rows: list[tuple[str, object]] = [("a", [1, 2, 3]), ("b", [1, 2, 3, 4])]
        else:
            collection = db.create_collection("c", simdb.Bits(64), max_distance=3, seed=1)
            rows = [("a", 1), ("b", 3)]
        collection.add_many(rows)
        pairs, matches = list(collection.pairs()), collection.search(rows[0][1])
        batches = [list(collection.pairs()), pickle.loads(pickle.dumps(pairs))]
        assert batches == [pairs, pairs]
        assert matches == collection.search(rows[0][1]) == pickle.loads(pickle.dumps(matches))
        assert len({*pairs, *batches[0], *batches[1]}) == 1
        other = {"similarity": "distance", "distance": "similarity"}[kind]
        for found in (*pairs, *matches):
            assert getattr(found, other) is None
            assert found.value == getattr(found, kind)


def test_matches_whose_recall_nobody_can_state_are_equal_too():
    one = simdb.Matches((simdb.Match("a", 1.0),), "probable", float("nan"), 3)
    assert one == pickle.loads(pickle.dumps(one))
    assert one != simdb.Matches((), "probable", float("nan"), 3)


def test_results_are_frozen():
    for record in (
        simdb.Entry("a", "b"),
        simdb.Match("a", 0.5),
        simdb.Pair("a", "b", 0.5),
        simdb.Group("a", ("a", "b")),
        simdb.Outcome(0, "a", "added"),
        simdb.AddReport(),
    ):
        with pytest.raises(AttributeError):
            setattr(record, record.__match_args__[0], "other")


def test_names_and_reprs_help(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("news", simdb.Text())
        assert repr(collection) == f"<simdb collection 'news' of {tmp_path / 's.simdb'}>"
        assert str(tmp_path / "s.simdb") in repr(db)
        assert collection.name == "news"
        assert list(db) == db.collection_names() == ["news"]
        assert len(db) == 1
        assert db
        assert "news" in db
        assert "other" not in db
        assert 5 not in db
        json.dumps(db.stats())
        assert db.stats()["collections"][0]["name"] == "news"


def test_answers_describe_themselves_without_being_asked(tmp_path, monkeypatch):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("news", simdb.Text(), seed=1, exact_floor=0.9)
        collection.add_many([("a", "one text"), ("b", "one text"), ("c", "another")])
        groups = collection.groups(0.8)
        probable, exact = collection.pairs(0.8), collection.pairs(0.9)

        def refuse(*arguments: object, **options: object) -> None:
            raise AssertionError("a query was run")

        monkeypatch.setattr(simdb.CollectionView, "_opened", refuse)
        recall = f"{probable.expected_recall:.4f}"
        assert (
            repr(exact)
            == "<simdb pairs, exact: none is missing; found by iterating, counted by count()>"
        )
        assert "probable" in repr(probable)
        assert recall in repr(probable)
        assert repr(groups).startswith("<simdb groups, 1; probable")
        assert recall in repr(groups)


def test_plans_as_data():
    plan = simdb.plan(0.8)
    assert plan.expected_recall(0.8) >= 0.99
    assert plan.curve().shape == (101, 2)
    assert simdb.plan(0.5, bands=40, rows=2).signature_rows == 80


def test_reports_print_what_says_something_and_the_start_of_long_lists():
    assert repr(simdb.results.AddReport(rows=3, added=3)) == "AddReport(rows=3, added=3)"
    assert repr(simdb.results.AddReport()) == "AddReport(rows=0)"
    duplicates = [
        simdb.results.Outcome(row, 0, "duplicate", duplicate_of=0, similarity=0.0)
        for row in range(100_000)
    ]
    report = simdb.results.AddReport(rows=100_000, duplicates=tuple(duplicates))
    assert len(report) == len(duplicates)
    assert simdb.results.AddReport()
    assert repr(report) == "AddReport(rows=100000)"
    told = repr(simdb.results.AddReport(rows=9, bad_rows=((1, "no text"),) * 9))
    assert told.endswith("... 9 in all))")
    assert repr(duplicates[1]).startswith("Outcome(row=1, key=0, action='duplicate', dupl")


def test_a_key_that_is_not_stored_as_a_text_but_as_a_number_is_told_so_and_the_other_way(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        sets = db.collection("sets", simdb.Set(), threshold=0.5)
        sets.add_many([(1, {1, 2}), ("2", {1, 3})])
        for key, other, told in (("1", 1, "but the number 1 is"), (2, "2", "but the text '2' is")):
            for ask in (sets.get, lambda key: sets.explain_pair(key, key)):
                with pytest.raises(simdb.KeyNotFoundError, match=told) as refused:
                    ask(key)
                assert (refused.value.key, refused.value.stored) == (key, other)
        for key in ("9", "01", "9" * 19, 10):
            with pytest.raises(simdb.KeyNotFoundError) as refused:
                sets.get(key)
            assert (refused.value.key, refused.value.stored) == (key, None)
