"""Policies of dedupe against their sentence: the first maximal set, in the policy's order, in
which no two are similar."""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import FrameType
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import BadItemError, UsageError, WrongTypeError
from simdb.exact import containment
from simdb.ingest import add as adding
from simdb.ingest.ordered import _InOrder
from simdb.ingest.standing import _Places
from simdb.policies import Policy
from simdb.results import Entry, Outcome, Outcomes
from tests.support.processes import interpreted

HALF = Fraction(1, 2)


def is_like(one: frozenset[int], kept: frozenset[int], measure: str) -> bool:
    common = len(one & kept)
    similar = Fraction(common, len(one | kept)) >= HALF
    contained = Fraction(common, len(one)) >= (HALF if measure == "containment" else Fraction(4, 5))
    return {"jaccard": similar, "containment": contained, "both": similar or contained}[measure]


def defined(stored: list[Entry], rows: list[Entry], best: Any, measure: str) -> dict[Any, Any]:
    """Take all in the policy's order, those stored first; keep what is like nothing kept before.

    Returns for each key what it is like that was kept before it, or None. Pairs of two that were
    stored are left as they are.
    """
    fates: dict[Any, Any] = {}
    kept: list[Entry] = []
    for row in sorted([*stored, *rows], key=best):
        like = (one for one in kept if not (row in stored and one in stored))
        first = next((one for one in like if is_like(row.item, one.item, measure)), None)
        fates[row.key] = None if first is None else first.key
        kept += [row] if first is None else []
    return fates


# What a policy says, and the same as a key of ``sorted``.
ORDERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "longest": ("longest", lambda row: -len(row.item)),
    "field": ("year desc", lambda row: -(row.metadata or {}).get("year", -1)),
    "preferred": (
        'source in web|"the wiki", number(score) asc, shortest',
        lambda row: (
            ["web", "the wiki"].index(row.metadata["source"])
            if row.metadata["source"] in ("web", "the wiki")
            else 2,
            float(row.metadata["score"]),
            len(row.item),
        ),
    ),
    "function": (lambda row: sum(row.item), lambda row: -sum(row.item)),
}


def some_rows(generator: random.Random, keys: range) -> list[Entry]:
    rows = []
    for key in keys:
        known: dict[str, Any] = {"source": generator.choice(["web", "the wiki", "x", "y"])}
        known["score"] = generator.choice(["1.5", "10", 2, "-3"])
        if generator.random() < 0.7:
            known["year"] = generator.randrange(5)
        item = frozenset(generator.sample(range(8), generator.randint(2, 5)))
        rows.append(Entry(key, item, known))
    return rows


def run(collection: Any, rows: list[Entry], policy: Any, **options: Any) -> Any:
    outcomes: list[simdb.Outcome] = []
    handed = ((row.key, row.item, row.metadata) for row in rows)
    losses: list[tuple[int, ...]] = []
    options["lost"] = lambda *numbers: losses.append(numbers)
    report = collection.dedupe(handed, policy=policy, outcomes=outcomes.extend, **options)
    assert [one.row for one in outcomes] == list(range(report.rows))
    if "measure" not in options:  # what is told before commits is what happens
        _, _, old, superseded = losses[-1]
        assert (old, superseded) == (report.duplicates_old, report.superseded)
    return report, outcomes


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("index", [{"exact_floor": "0.5"}, {"bands": 200, "rows": 1}])
def test_the_first_maximal_set_in_the_order_of_the_policy(
    tmp_path, monkeypatch, long_form, index, order
):
    policy, best = ORDERS[order]
    generator = random.Random(order)
    superseded = 0
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        for trial in range(2 if long_form else 1):
            options: dict[str, Any] = {"threshold": "0.5", "seed": trial, **index}
            collection = db.create_collection(f"c{trial}", simdb.Set(), **options)
            stored: list[Entry] = []
            for run_number in range(3):
                # Batches of all sizes: those that must be cut among them.
                monkeypatch.setattr(adding, "BATCH_ITEMS", generator.choice([1, 3, 100]))
                rows = some_rows(generator, range(20 * run_number, 20 * run_number + 14))
                fates = defined(stored, rows, best, "jaccard")
                report, outcomes = run(collection, rows, policy)
                kept = {one.key for one in outcomes if one.action == "added"}
                gone = [key for one in outcomes for key in one.superseded]
                everyone = {row.key: row for row in [*stored, *rows]}
                assert {key for key in everyone if fates[key] is None} == (
                    kept | {row.key for row in stored} - set(gone)
                )
                assert report.superseded == len(gone) == len(set(gone))
                assert all(fates[key] is not None for key in gone)
                if not stored:  # else those stored are told first
                    assert {one.key: one.duplicate_of for one in outcomes} == fates
                stored = list(collection.items())
                superseded += len(gone)
            assert collection.check(deep=True).sound
    assert superseded > 1


@pytest.mark.parametrize(("calls", "stored"), [(1, ["a"]), (2, ["a"]), (3, ["b"])])
def test_a_stop_iteration_of_what_is_told_of_losses_is_raised(tmp_path, calls, stored):
    """Also between the parts of a batch that is cut, since b takes a out, which is like c."""
    told = iter(range(calls - 1))

    def lost(*_: int) -> None:
        next(told)

    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), threshold="0.5")
        collection.add("a", {1, 2, 3})
        rows = [("b", {1, 2, 3, 4, 5}), ("c", {1, 2})]
        with pytest.raises(StopIteration):
            collection.dedupe(rows, policy="longest", lost=lost)
        assert [one.key for one in collection.items()] == stored


@pytest.mark.parametrize("measure", ["containment", "both"])
@pytest.mark.parametrize("order", [*ORDERS, "first"])
def test_by_containment_the_order_decides_too(tmp_path, monkeypatch, order, measure):
    policy, best = ORDERS.get(order, ("first", lambda row: 0))
    monkeypatch.setattr(containment, "TAKEN_AT_ONCE", 3)
    options: dict[str, Any] = {"threshold": "0.5"}
    if measure == "both":
        options["containment"] = "0.8"
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        for trial in range(2):
            rows = some_rows(random.Random(f"{order} {trial}"), range(20))
            collection = db.create_collection(f"c{trial}", simdb.Set(), exact_floor="0.5")
            _, outcomes = run(collection, rows, policy, measure=measure, **options)
            fates = defined([], rows, best, measure)
            assert {one.key: one.duplicate_of for one in outcomes} == fates
            assert [row.key for row in rows if fates[row.key] is None] == [
                entry.key for entry in collection.items()
            ]


def test_both_without_a_policy_takes_the_largest_first(tmp_path):
    rows = some_rows(random.Random(7), range(20))
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5")
        _, outcomes = run(
            collection, rows, None, measure="both", threshold="0.5", containment="0.8"
        )
        fates = defined([], rows, lambda row: -len(row.item), "both")
        assert {one.key: one.duplicate_of for one in outcomes} == fates


@pytest.mark.parametrize(("least", "dropped"), [("1/2", False), ("1/3", True), (None, False)])
def test_both_compares_bags_by_the_similarity_of_their_kind(tmp_path, least, dropped):
    """Of sums: 2 of 6 occurrences, though 2 of 4 elements."""
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.collection("c", simdb.Bag("sum"), threshold="1/2")
        rows = [("x", ["a", "b", "c"]), ("y", ["b", "c", "d"])]
        report = collection.dedupe(rows, measure="both", threshold=least, containment=1)
        assert bool(report.duplicates) == dropped
        with pytest.raises(simdb.ConfigurationError, match="cannot be"):
            collection.dedupe(rows, measure="both", threshold="0.8", containment=1)


def test_rows_that_are_stored_already_are_themselves(tmp_path):
    rows = [Entry("a", {1, 2, 3}, {"n": 1}), Entry("b", {1, 2, 3, 4}, {"n": 2})]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5")
        run(collection, rows[:1], "n desc")
        for _ in range(2):  # the second time nothing changes
            report, outcomes = run(collection, rows, "n desc")
            assert [entry.key for entry in collection.items()] == ["b"]
            assert outcomes[0].duplicate_of == "b"
        assert (report.present, report.superseded) == (1, 0)
        # A key that comes twice in an input with two contents is bad, the later one in the order.
        twice = [Entry("x", {7, 8}, {"n": 1}), Entry("x", {8, 9, 10}, {"n": 2})]
        _, outcomes = run(collection, twice, "n desc", on_bad="skip")
        assert [one.action for one in outcomes] == ["bad", "added"]
        # And a row of other content takes the place of what its key had.
        report, _ = run(collection, [Entry("b", {1, 2}, None)], "n desc", on_existing="replace")
        assert (report.replaced, collection.get("b").item) == (1, {1, 2})


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("", "empty"),
        ("year", "asc"),
        ("year up", "asc"),
        ("year desc longest", "'longest' after a term"),
        ("log(year) desc", "no log"),
        ("number(year desc", "parenthesis"),
        ("year in", "policy ends where a value"),
        ("year desc,", "policy ends where a field"),
        ("year ; desc", "';"),
        ("first, longest", "nothing can follow 'first'"),
        ("longest, first, year desc", "nothing can follow 'first'"),
        (r'"\x" desc', "JSON"),
    ],
)
def test_a_policy_that_cannot_be_read_says_why(policy, told):
    with pytest.raises(UsageError, match=told):
        Policy(policy)


def test_what_a_policy_looks_at():
    row = Entry("k", {"name": "Ann", "n": 3}, {"a.b": 1, "c": {"d": "x"}, "flag": True})
    assert Policy("a.b asc").place(row) == ((0, 1),)
    assert Policy("c.d asc").place(row) == Policy('"c.d" asc').place(row) == ((0, "x"),)
    assert Policy("flag in false|true").place(row) == ((1,),)
    of_names = Policy("length(name) desc, longest", of_records=True)
    assert of_names.place(row) == ((0, -3), (0, -3))
    assert of_names.fields_of(row) == {"name"}
    assert Policy("no desc, number(no) asc").place(row) == ((1,), (1,))
    assert Policy("key asc").place(row) == ((0, "k"),)
    assert not Policy("first").is_order
    assert Policy("c.d desc, a.b asc").fields == ("c.d", "a.b")
    with pytest.raises(WrongTypeError, match="not a int"):
        Policy(3)  # type: ignore[arg-type]


def better(policy: Policy, one: object, other: object) -> object:
    """Return the one of two values of a field that comes first."""
    places = [policy.place(Entry(0, None, {"f": value})) for value in (one, other)]
    return (one, other)[policy.order(places)[0]]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("PT777600S", "PT2592000S"),
        ("-PT5S", "PT0.000000001S"),
        ("-PT5S", "-PT4.5S"),
        ("2024-01-01T08:00:00+09:00", "2024-01-01T01:00:00+00:00"),
        ("2024-10-27T02:30:00+02:00", "2024-10-27T02:15:00+01:00"),
        ("2024-01-01T00:00:00.123456788Z", "2024-01-01T00:00:00.123456789Z"),
        ("1969-12-31T23:59:59.5", "1970-01-01"),
        ("P9D", "P10D"),
        ("PT9H", "PT10H"),
        ("PT1H30M", "PT91M"),
        ("P1W", "P8D"),
        ("PT1.5H", "PT91M"),
        ("PT0.10000000000000000000000000000000001S", "PT0.10000000000000000000000000000000002S"),
        (
            "2024-01-01T00:00:00.10000000000000000000000000000001",
            "2024-01-01T00:00:00.10000000000000000000000000000002",
        ),
        ("P1M", "P31D"),
        ("-P1Y", "P1D"),
        ("P1DT-1S", "P1D"),
        ("PT1,5S", "PT1.6S"),
        ("09:30", "10:00:00"),
        ("20240101", "2024-01-02"),
        ("20240101T235959", "2024-01-02"),
        ("2024-W01-1", "2024-01-02"),
        ("2024-01-01T23Z", "2024-01-01T24:00:00"),
        ("2024-01-01T24:00:00", "2024-01-02T00:00:00.1"),
        ("9999-12-31T23:59:59", "10000-01-01"),
        ("-0044-03-15", "0001-01-01"),
        ("-0001-12-31", "0000-01-01"),
        ("1999-12-31", "12024-01-01T00:00:00+00:00"),
    ],
)
def test_times_are_compared_by_when_they_are(less, more):
    assert better(Policy("time(f) asc"), more, less) == less
    assert better(Policy("f desc").reading({"f": "time"}), less, more) == more


def test_numbers_keep_all_their_digits():
    one, other = "0.1000000000000000000000000000000001", "0.1000000000000000000000000000000002"
    for policy in (Policy("number(f) desc"), Policy("f desc").reading({"f": "number"})):
        assert better(policy, one, other) == other
        assert better(policy, "9.50", "10.00") == "10.00"
        assert better(policy, 0.1, "0.1") == 0.1  # as good as the later one
    assert better(Policy("f desc"), "9.50", "10.00") == "9.50"  # texts are texts
    wrong = ["soon", "P", "PT", "P1DT", "2024-02-30", "2024-01-01T25:00", "12", "1:2", "+01:00"]
    wrong += ["2024-01-01T", "2024-01-01+99:00", "2024-01-01T00:00+02:"]
    for text in wrong:
        with pytest.raises(BadItemError, match=f"'{re.escape(text)}' is not a time"):
            better(Policy("time(f) asc"), text, "2024-01-01")


@pytest.mark.parametrize(
    ("value", "name"),
    [(5.0, "5"), (5, "5"), (5.5, "5.5"), (True, "True"), (True, "true"), (False, "False")],
)
def test_a_preferred_value_has_the_names_that_it_is_written_with(value, name):
    assert better(Policy(f"f in {name}"), "other", value) == value


def test_a_row_without_the_field_has_no_name_among_preferred_ones():
    assert better(Policy("f in null"), "other", None) == "other"
    assert better(Policy("f in null"), None, "null") == "null"


def test_a_field_may_have_an_empty_name():
    short, long = Entry(0, "a", {"": 2}), Entry(1, "abc", {"": 1})
    policy = Policy('"" desc')
    assert policy.fields == ("",)
    assert policy.place(short) < policy.place(long)


@pytest.mark.parametrize("function", ["number", "time"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_blank_text_is_no_number_and_no_time(function, direction):
    value = {"number": "-3", "time": "2024-01-01"}[function]
    policies = (
        Policy(f"{function}(f) {direction}"),
        Policy(f"f {direction}").reading({"f": function}),
    )
    for blank, policy in itertools.product(("", "  ", None), policies):
        assert better(policy, blank, value) == value
    assert better(Policy("f asc"), value, "") == ""  # a text like others


def test_a_term_that_fails_decides_nothing_where_bad_rows_are_skipped(tmp_path):
    rows = [
        Entry(0, {1, 2}, {"of": "a", "n": "7"}),
        Entry(1, {1, 2}, {"of": "b", "n": "x"}),
        Entry(2, {1, 2}, {"of": "b", "n": "1"}),
    ]
    kept = {"of in b, number(n) desc": 2, "of desc, number(n) asc, key desc": 2}
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        for policy, key in kept.items():
            for some, best in ((rows, key), (rows[:2], 1)):
                collection = db.create_collection("c", simdb.Set(), exact_floor="0.5")
                with pytest.raises(BadItemError, match="'x' is not a number"):
                    run(collection, some, policy)
                run(collection, some, policy, on_bad="skip")
                assert [entry.key for entry in collection.items()] == [best]
                db.drop_collection("c")


@pytest.mark.parametrize("on_bad", ["skip", "error"])
def test_a_time_out_amid_a_term_of_a_policy_is_raised_as_it_is(tmp_path, on_bad):
    """A handler of a signal raises it: it was taken for a row whose time cannot be read."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_time":
            sys.setprofile(None)
            raise TimeoutError("time is up")

    rows = [Entry(0, {1, 2}, {"t": "2020-01-01"}), Entry(1, {1, 2}, {"t": "2021-01-01"})]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), exact_floor="0.5")
        sys.setprofile(profile)
        try:
            with pytest.raises(TimeoutError, match="time is up"):
                run(collection, rows, "time(t) desc", on_bad=on_bad)
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("text", ["1_0", "\u0663", "1e1_0"])
def test_a_policy_reads_texts_as_numbers_where_fields_of_records_do(tmp_path, text):
    rows = [Entry(0, {1, 2}, {"n": text}), Entry(1, {1, 2}, {"n": " 3 "})]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), exact_floor="0.5")
        with pytest.raises(BadItemError, match=f"'{text}' is not a number"):
            run(collection, rows, "number(n) desc")


def test_a_policy_that_fails_stores_nothing(tmp_path):
    rows = [Entry(0, {1, 2}, {"n": "7"}), Entry(1, {3, 4}, {"n": "x"}), Entry(2, {5}, {"n": 9})]
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        collection = db.create_collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5")
        with pytest.raises(BadItemError, match=r"row 1: .* key 1: 'x' is not a number") as caught:
            run(collection, rows, "number(n) desc")
        assert caught.value.row == 1
        with pytest.raises(BadItemError, match=r"row 0: .* 'missing'"):
            run(collection, rows, lambda row: row.metadata["missing"])
        with pytest.raises(UsageError, match=r"a text in some rows.*number\(NAME\)"):
            run(collection, rows, "n asc")
        with pytest.raises(UsageError, match="values that cannot be compared"):
            run(collection, rows, lambda row: np.array([row.key, 0]))
        assert not len(collection)
        # Where bad rows are skipped, a row without a place comes last, and is no bad row.
        like = [*rows, Entry(3, {3, 4}, {"n": "1"})]
        report, outcomes = run(collection, like, "number(n) desc", on_bad="skip")
        assert (report.bad, outcomes[1].duplicate_of) == (0, 3)


def test_a_stored_item_that_the_policy_fails_for_comes_last(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        for policy in ("number(n) desc", "n desc", lambda row: int(row.metadata["n"])):
            collection = db.collection("c", simdb.Set(), threshold="0.5")
            collection.add("odd", {1, 2}, metadata={"n": "x"})
            rows = [Entry(number, {10 * number + 7}, {"n": 9}) for number in range(20)]
            run(collection, [*rows, Entry("new", {1, 2}, {"n": 1})], policy)
            assert {"new", 0, 19} <= {entry.key for entry in collection.items()}
            assert "odd" not in collection
            db.drop_collection("c")


def test_a_value_that_is_no_number_comes_last(tmp_path):
    values = {"a": 1.0, "b": math.nan, "c": 3, "d": np.float32("nan"), "e": Decimal("snan")}
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5)
        rows = [(key, {1, 2}) for key in values]
        collection.dedupe(rows, policy=lambda row: values[row.key])
        assert [entry.key for entry in collection.items()] == ["c"]


@pytest.mark.parametrize("least", [0, 0.0, "0", 2])
def test_a_share_that_cannot_be_contained_is_refused(tmp_path, least):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5)
        with pytest.raises(simdb.ConfigurationError, match="above 0 and at most 1"):
            collection.dedupe([("a", {1})], measure="both", containment=least)


FULL = """
import random, resource, simdb, sys
import simdb.ingest.add
simdb.ingest.add.BATCH_ITEMS = int(sys.argv[2])
with simdb.open(sys.argv[1], threads=1) as database:
    collection = database.collection("c", simdb.Set(), threshold=0.8)
    rows = [(n, {random.randrange(10**9) for _ in range(10)}, {"f": 1}) for n in range(9_000)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        collection.dedupe(rows, policy="longest")
    except simdb.DatabaseFullError as error:
        print("full", len(collection))
"""


@pytest.mark.parametrize("batch", [50, 10_000])  # bytes that wait to be written, and many at once
def test_rows_that_wait_on_a_full_disk_are_a_full_database(tmp_path, batch):
    assert interpreted(FULL, tmp_path / "s.simdb", batch).stdout.split() == ["full", "0"]


@pytest.mark.parametrize("policy", ["longest", "shortest", "length(item) desc", "length(item) asc"])
def test_numbers_of_a_record_make_it_no_longer(tmp_path, policy):
    fields = [simdb.Field("code", compare="exact"), simdb.Field("year", compare="numeric")]
    kind = simdb.Record([*fields, simdb.Field("name")], candidates=["code"])
    rows = [
        ("full", {"code": 7, "name": "John Smith of York", "year": 1999}),
        ("bare", {"code": 7, "year": 1999}),
    ]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=0.5)
        collection.dedupe(rows, policy=policy)
        expected = "full" if policy in ("longest", "length(item) desc") else "bare"
        assert [entry.key for entry in collection.items()] == [expected]


@pytest.mark.parametrize("kind", [simdb.Bag(), simdb.WeightedSet()])
def test_elements_of_a_bag_are_no_fields(tmp_path, kind):
    rows = [("a", {"key": 3, "date": 1, "x": 1}, None), ("b", {"key": 2, "x": 1}, {"date": 9})]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        for policy in ("key desc", "date asc"):
            collection = db.create_collection(policy, kind, threshold=0.3, recall=0.9, seed=1)
            collection.dedupe(rows, policy=policy)
            assert [entry.key for entry in collection.items()] == ["b"]
    assert Policy("date asc").fields_of(Entry(*rows[0])) == set()


def test_numbers_in_texts_keep_all_their_digits(tmp_path):
    rows = [(n, {1, 2}, {"t": f"170000000012345678{n}"}) for n in range(8, 10)]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5)
        collection.dedupe(rows, policy="number(t) desc")
        assert [entry.key for entry in collection.items()] == [9]


@pytest.mark.parametrize("on_existing", ["replace", "keep"])
@pytest.mark.parametrize("policy", [None, "n desc", "longest"])
def test_what_is_removed_resembles_what_is_kept_and_a_rerun_changes_nothing(
    tmp_path, monkeypatch, long_form, policy, on_existing
):
    """Also where rows come again with other items, with other metadata, or with both."""
    generator = random.Random(f"{policy} {on_existing}")
    updated = 0
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        for trial in range(6 if long_form else 1):
            options: dict[str, Any] = {"threshold": "0.5", "exact_floor": "0.5", "seed": trial}
            collection = db.create_collection(f"c{trial}", simdb.Set(), **options)
            items: dict[int, frozenset[int]] = {}
            for _ in range(4):
                monkeypatch.setattr(adding, "BATCH_ITEMS", generator.choice([1, 3, 100]))
                rows = []
                for key in generator.sample(range(25), 12):
                    if key not in items or generator.random() < 0.4:
                        items[key] = frozenset(generator.sample(range(9), generator.randint(2, 5)))
                    rows.append(Entry(key, items[key], {"n": generator.randrange(9)}))
                given = {row.key: row for row in rows}
                report, outcomes = run(collection, rows, policy, on_existing=on_existing)
                updated += report.replaced
                stored = {entry.key: entry for entry in collection.items()}
                for one in outcomes:
                    if one.action != "duplicate":
                        assert stored[one.key].item == given[one.key].item
                        if on_existing == "replace":
                            assert stored[one.key].metadata == given[one.key].metadata
                    elif one.similarity is not None:
                        like = stored[one.duplicate_of].item
                        assert is_like(given[one.key].item, like, "jaccard")
                        assert on_existing == "keep" or one.key not in stored
                assert collection.pairs(guarantee="exact").count() == 0
                if (
                    policy and on_existing == "keep"
                ):  # a better row may free the key of one left out
                    continue
                again, outcomes_again = run(collection, rows, policy, on_existing=on_existing)
                assert (again.added, again.replaced, again.superseded) == (0, 0, 0)
                told = [(one.key, one.action == "duplicate") for one in outcomes]
                assert [(one.key, one.action == "duplicate") for one in outcomes_again] == told
            assert collection.check(deep=True).sound
    assert updated > 3 or on_existing == "keep"


@pytest.mark.parametrize(
    "how", [{"on_existing": "replace"}, {"policy": "length(item) desc"}, {"on_existing": "keep"}]
)
def test_outcomes_come_in_the_order_of_the_input_however_rows_wait(
    tmp_path, monkeypatch, long_form, how
):
    """Bad rows too, and where keys come again, which parts batches."""
    for seed in range(20 if long_form else 3):
        generator = random.Random(seed)
        monkeypatch.setattr(adding, "BATCH_ITEMS", generator.choice([1, 2, 3, 5]))
        rows = [
            (
                max(0, number - generator.choice([0, 0, 1])),
                generator.choice([{number, number + 1, number + 2}, {number % 5, 1, 2}, "bad"]),
            )
            for number in range(25)
        ]
        with simdb.open(tmp_path / f"{seed}.simdb", threads=1) as db:
            collection = db.collection("c", simdb.Set(), threshold=0.5, exact_floor=0.5)
            collection.add_many([(key, {key % 5, 1, 3}) for key in range(0, 25, 3)])
            outcomes: list[Any] = []
            collection.dedupe(rows, on_bad="skip", outcomes=outcomes.extend, **how)
        assert [outcome.row for outcome in outcomes] == list(range(25))
        for (_, item), outcome in zip(rows, outcomes, strict=True):
            assert item != "bad" or outcome.action == "bad"


@pytest.mark.parametrize("batch", [1, 10_000])
@pytest.mark.parametrize("on_existing", ["keep", "error"])
def test_a_stored_item_that_stays_does_not_go_for_a_better_row(
    tmp_path, monkeypatch, on_existing, batch
):
    """Else its key would be free in a second run, for the row that the first one dropped."""
    monkeypatch.setattr(adding, "BATCH_ITEMS", batch)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5, exact_floor=0.5)
        collection.add_many([("k", set(range(10)), {"q": 1}), ("m", set(range(50, 60)), {"q": 1})])
        rows: list[Any] = [
            ("k", set(range(20, 30)), {"q": 9}),
            ("r", set(range(11)), {"q": 5}),
            ("n", set(range(50, 61)), {"q": 5}),
        ]
        for _ in range(2):
            collection.dedupe(rows, policy="number(q) desc", on_existing=on_existing, on_bad="skip")
            assert {entry.key for entry in collection.items()} == {"k", "n"}
            assert collection.get("k").item == set(range(10))


@pytest.mark.parametrize("other", [None, Decimal("0.1"), 2**60 + 1, "a text"])
def test_places_as_columns_are_those_of_the_rows(other):
    """Whole numbers, fractions and what is missing or preferred; then what no column holds."""
    generator = random.Random(7)
    order = Policy("x in a|b, y asc")
    drawn = [0.5, 1, -3, True, math.inf, -math.inf, 2**53]
    rows: list[Any] = [
        ((generator.randrange(3),), generator.choice([(1,), (0, generator.choice(drawn))]))
        for _ in range(300)
    ]
    if other is not None:
        rows = [(choice, part) for choice, part in rows if other != "a text" or part == (1,)]
        rows[len(rows) // 2] = ((0,), (0, other))
    places = _Places()
    for row in rows:
        places.append(row)
    assert [places[row] for row in range(len(places))] == rows
    assert places.sequence(order).tolist() == order.order(rows)


def test_a_place_by_a_number_takes_few_bytes():
    """It was two tuples and a number: memory beyond the setting, in proportion to the rows."""
    places = _Places()
    tracemalloc.start()
    try:
        for row in range(5_000):
            places.append(((0, row + 0.5),))
        assert tracemalloc.get_traced_memory()[0] < 20 * 5_000
    finally:
        tracemalloc.stop()


def test_a_removed_row_that_waits_does_not_hold_its_key():
    """It did: half a kilobyte a row of long keys, beyond the setting."""
    rows = 2_000
    told = _InOrder(rows)
    tracemalloc.start()
    try:
        for row in range(rows):
            key = f"{row:0400}"
            one = Outcome(row, key, "duplicate", duplicate_of="k", similarity=1.0)
            told.note(Outcomes.of_columns([row], [key], ["duplicate"], {0: one}))
        assert tracemalloc.get_traced_memory()[0] < 400 * rows
    finally:
        tracemalloc.stop()
