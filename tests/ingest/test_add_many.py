"""Adding: every combination of policies against one row after the other, and what is reported."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import simdb
from simdb.ingest import add as loading
from tests.support import oracle
from tests.support.strategies import SURE, set_text

WORDS = simdb.Text(simdb.WordShingles(1))
HALF = Fraction(1, 2)


@pytest.fixture
def collection(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        yield db.collection("c", WORDS, **SURE)


def contents(collection: Any) -> Any:
    return {record.key: record.item for record in collection.items()}


def one_by_one(rows: Any, stored: Any, *, on_existing: Any, on_duplicate: Any, looks: Any) -> Any:
    """Add row after row to a dict; return what becomes of each."""
    told: list[Any] = []
    for key, text in rows:
        if not isinstance(text, str):
            told.append(("bad", None, None))
            continue
        if key in stored and on_existing in ("error", "skip"):
            told.append(("present" if on_existing == "skip" else "bad", None, None))
            continue
        similar = (
            (other, oracle.text_similarity(text, old, WORDS))
            for other, old in stored.items()
            if other != key
        )
        first = next(((k, float(s)) for k, s in similar if s >= HALF), (None, None))
        if not looks:
            first = (None, None)
        if on_duplicate == "skip" and first[0] is not None:
            told.append(("duplicate", *first))
            continue
        told.append(("replaced" if key in stored else "added", *first))
        stored.pop(key, None)
        stored[key] = text
    return told


@pytest.mark.parametrize(("batch", "seeds"), [(10_000, [0]), (5, [1]), (1, [2])])
@pytest.mark.parametrize(
    ("on_existing", "on_duplicate", "find_duplicates"),
    [
        choice
        for choice in product(("error", "skip", "replace"), ("keep", "skip"), (False, True))
        # Rows that replace while others are looked for: see the tests below.
        if choice[0] != "replace" or choice[1:] == ("keep", False)
    ],
)
def test_every_policy_does_what_adding_row_after_row_does(  # noqa: PLR0917 - fixtures
    tmp_path, monkeypatch, long_form, batch, seeds, on_existing, on_duplicate, find_duplicates
):
    monkeypatch.setattr(loading, "BATCH_ITEMS", batch)
    for seed in range(4) if long_form else seeds:
        generator = random.Random(seed)
        rows = []
        for number in range(40):
            base = generator.randrange(6) * 100
            words = [base + n for n in range(10)]
            words[generator.randrange(10)] = base + generator.randrange(50)
            key = generator.choice([number, generator.randrange(20), str(generator.randrange(9))])
            rows.append((key, set_text(words) if generator.random() < 0.95 else None))
        stored: dict[Any, str] = {}
        with simdb.open(tmp_path / f"{seed}.simdb", sync="batch") as db:
            collection = db.collection("c", WORDS, **SURE)
            for part in (rows[:15], rows[15:]):
                expected = one_by_one(
                    part,
                    stored,
                    on_existing=on_existing,
                    on_duplicate=on_duplicate,
                    looks=find_duplicates or on_duplicate == "skip",
                )
                outcomes: list[simdb.Outcome] = []
                report = collection.add_many(
                    part,
                    on_existing=on_existing,
                    on_duplicate=on_duplicate,
                    find_duplicates=find_duplicates,
                    on_bad="skip",
                    outcomes=outcomes.extend,
                )
                told = [(one.action, one.duplicate_of, one.similarity) for one in outcomes]
                assert told == expected
                assert [one.row for one in outcomes] == list(range(len(part)))
                assert list(contents(collection).items()) == list(stored.items())
                actions = [one.action for one in outcomes]
                assert report.rows == len(part)
                assert report.added == actions.count("added")
                assert report.replaced == actions.count("replaced")
                assert report.present == actions.count("present")
                assert report.bad == actions.count("bad") == len(report.bad_rows)
                found = [one for one in outcomes if one.duplicate_of is not None]
                assert report.duplicates == tuple(found)
                assert report.duplicates_new == sum(one.within_input is True for one in found)
                assert report.duplicates_old == sum(one.within_input is False for one in found)
            assert collection.check(deep=True).sound


def test_add_says_what_it_duplicates_only_when_asked(collection):
    collection.add("a", "one two three four")
    assert collection.add("b", "one two three four").duplicate_of is None
    assert collection.add("c", "one two three", find_duplicates=True) == simdb.Outcome(
        0, "c", "added", "a", 0.75, within_input=False
    )
    assert collection.add("d", "one two three", on_duplicate="skip").action == "duplicate"
    assert "d" not in collection
    assert collection.add(
        "e", "one two three", on_duplicate="skip", threshold=0.8
    ) == simdb.Outcome(0, "e", "duplicate", "c", 1.0, within_input=False)
    assert collection.add("a", "new", on_existing="skip").action == "present"
    assert collection.add("a", "new", on_existing="replace").action == "replaced"
    assert contents(collection) == {
        "b": "one two three four",
        "c": "one two three",
        "a": "new",
    }


def test_an_item_never_duplicates_its_own_older_version(collection):
    collection.add("a", "one two three four")
    outcome = collection.add("a", "one two three", on_existing="replace", on_duplicate="skip")
    assert (outcome.action, outcome.duplicate_of) == ("replaced", None)
    collection.add("b", "five six seven")
    outcome = collection.add("b", "one two three", on_existing="replace", on_duplicate="skip")
    assert (outcome.action, outcome.duplicate_of) == ("duplicate", "a")
    assert contents(collection) == {"a": "one two three", "b": "five six seven"}


def test_a_row_that_is_not_stored_makes_no_later_row_a_duplicate(collection):
    collection.add("a", "one two three")
    rows = [("a", "other words here"), ("b", "other words here")]
    collection.add_many(rows, on_existing="skip", on_duplicate="skip")
    assert contents(collection) == {"a": "one two three", "b": "other words here"}
    rows = [("a", "again other ones"), ("c", "again other ones")]
    report = collection.add_many(rows, on_bad="skip", find_duplicates=True)
    assert (report.bad, report.added, report.duplicates) == (1, 1, ())


def test_new_new_and_new_old_duplicates_are_told_apart_with_both_keys(collection):
    collection.add("old", "one two three four")
    rows = [("x", "one two three"), ("y", "k l m n"), ("z", "k l m n o")]
    report = collection.add_many(rows, find_duplicates=True)
    assert (report.added, report.duplicates_old, report.duplicates_new) == (3, 1, 1)
    assert report.duplicates == (
        simdb.Outcome(0, "x", "added", "old", 0.75, within_input=False),
        simdb.Outcome(2, "z", "added", "y", 0.8, within_input=True),
    )


def test_a_key_that_comes_twice_in_the_input_is_an_existing_key_the_second_time(collection):
    rows = [("a", "1"), ("b", "2"), ("a", "3")]
    with pytest.raises(simdb.KeyExistsError) as caught:
        collection.add_many(rows)
    assert caught.value.row == 2
    assert contents(collection) == {"a": "1", "b": "2"}
    assert collection.add_many(rows, on_existing="skip").present == 3
    assert collection.add_many(rows, on_existing="replace").replaced == 3
    assert contents(collection) == {"b": "2", "a": "3"}


def test_an_error_names_the_row_and_nothing_of_its_batch_is_stored(collection, monkeypatch):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 4)
    rows = [(number, f"text {number}") for number in range(10)]
    bad = [*rows[:6], ("x", None), *rows[6:]]
    for given, row in ((bad, 6), ([*rows[:5], (), *rows[5:]], 5)):
        with pytest.raises(simdb.BadItemError, match=f"row {row}: ") as caught:
            collection.add_many(iter(given), on_existing="skip")
        assert caught.value.row == row
        assert len(collection) == 4
    with pytest.raises(simdb.KeyExistsError) as caught_existing:
        collection.add_many([(20, "a"), (3, "b")])
    assert caught_existing.value.row == 1
    assert len(collection) == 4
    report = collection.add_many(bad, on_existing="skip", on_bad="skip")
    assert (report.added, report.present, report.bad) == (6, 4, 1)
    assert [row for row, _ in report.bad_rows] == [6]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_iterable_itself_passes_through_and_whole_batches_are_stored(
    tmp_path, monkeypatch, threads
):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 10)

    def rows() -> Any:
        for number in range(100):
            if number == 35:
                raise ZeroDivisionError("of the caller")
            yield number, f"text {number}"

    heard: list[simdb.Outcome] = []
    with simdb.open(tmp_path / "s.simdb", threads=threads) as db:
        collection = db.collection("c", WORDS)
        with pytest.raises(ZeroDivisionError, match="of the caller"):
            collection.add_many(rows(), outcomes=heard.extend)
        assert len(collection) == len(heard) == 30
        assert collection.check(deep=True).sound


def test_progress_and_outcomes_are_told_after_every_commit(collection, monkeypatch):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 4)
    seen: list[Any] = []
    collection.add_many(
        ((number, "text") for number in range(10)),
        progress=lambda progress: seen.append((progress.done, len(collection))),
        outcomes=lambda outcomes: seen.append([outcome.row for outcome in outcomes]),
    )
    assert seen == [[0, 1, 2, 3], (4, 4), [4, 5, 6, 7], (8, 8), [8, 9], (10, 10)]


def test_an_error_of_a_callback_ends_the_work_and_keeps_what_was_committed(collection, monkeypatch):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 4)

    def fail(_: Any) -> Any:
        raise ZeroDivisionError

    for options in ({"progress": fail}, {"outcomes": fail}):
        before = len(collection)
        with pytest.raises(ZeroDivisionError):
            collection.add_many(((before + n, "text") for n in range(10)), **options)
        assert len(collection) == before + 4
    assert collection.check(deep=True).sound


def test_no_rows_are_no_work(collection):
    nothing: Any
    for nothing in ([], (), iter([]), {}, np.empty((0, 2), object)):
        assert collection.add_many(nothing) == simdb.AddReport()
        assert collection.dedupe(nothing) == simdb.AddReport()
    assert len(collection) == 0


def test_rows_may_be_tuples_lists_arrays_named_tuples_and_entries(collection):
    collection.add_many([(1, "a"), [2, "b"], (3, "c", None), [4, "d", {"n": 1}]])
    collection.add_many(np.array([["x", "e"], ["y", "f"]]))
    collection.add_many({5: "g", 6: "h"}.items())
    collection.add_many(zip(range(7, 9), "ij", strict=True))
    assert list(contents(collection).values()) == list("abcdefghij")
    assert collection.get(4).metadata == {"n": 1}
    stored = list(collection.items())
    collection.delete_many([entry.key for entry in stored])
    report = collection.add_many([simdb.Entry(20, 5), *stored], on_bad="skip")
    assert [row for row, _ in report.bad_rows] == [0]
    assert list(collection.items()) == stored


@pytest.mark.parametrize(
    "row",
    [
        "ab",
        b"ab",
        5,
        None,
        (),
        ("a",),
        ("a", "b", None, None),
        {"id": 1, "text": "b"},
        {"a", "b"},
        object(),
        ("a", "b", "metadata"),
        iter(("a", "b")),
    ],
)
def test_rows_of_another_shape_are_bad(collection, row):
    with pytest.raises(simdb.BadItemError, match="row 1: ") as caught:
        collection.add_many([("good", "text"), row])
    assert caught.value.row == 1
    report = collection.add_many([("good", "text"), row], on_bad="skip")
    assert (report.rows, report.added, report.bad) == (2, 1, 1)
    assert contents(collection) == {"good": "text"}


def test_what_is_no_iterable_of_rows_is_a_type_error(collection):
    for wrong in (5, "text", b"text"):
        with pytest.raises(simdb.WrongTypeError, match="rows must be an iterable of rows"):
            collection.add_many(wrong)
    assert len(collection) == 0


def test_only_the_first_thousand_bad_rows_are_kept_and_all_are_counted(collection):
    report = collection.add_many(((n, None) for n in range(1_500)), on_bad="skip")
    assert report.bad == 1_500
    assert [row for row, _ in report.bad_rows] == list(range(1_000))


def test_a_batch_ends_where_the_memory_setting_says(tmp_path):
    """Of 16 MiB a batch has a 64th, 256 KiB: 1 MB of texts takes at least 4 commits."""
    told: list[simdb.Progress] = []
    with simdb.open(tmp_path / "s.simdb", memory=16 * 2**20) as db:
        collection = db.collection("c", WORDS)
        collection.add_many(((n, f"{n} " * 10_000) for n in range(40)), progress=told.append)
        assert len(told) >= 4
        assert len(collection) == 40


def test_every_thread_count_stores_the_same(tmp_path):
    rows = [(number, set_text(range(number, number + 30))) for number in range(500)]
    signatures = []
    for threads in (1, 2, 5):
        with simdb.open(tmp_path / f"{threads}.simdb", threads=threads) as db:
            collection = db.collection("c", WORDS, threshold=0.8, seed=1)
            collection.add_many(rows)
            assert collection.check(deep=True).sound
            signatures.append(sorted((p.left, p.right, p.similarity) for p in collection.pairs()))
    assert signatures[0] == signatures[1] == signatures[2]


def test_rows_that_are_stored_with_the_same_content_are_left_out(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set())
        collection.add_many([("a", {1, 2}, {"n": 1}), ("b", {3})])
        report = collection.add_many([("a", {2, 1}, {"n": 1}), ("c", {4})], on_existing="same")
        assert (report.added, report.present) == (1, 1)
        with pytest.raises(simdb.KeyExistsError, match="stored with other content"):
            collection.add_many([("a", {1}, {"n": 1})], on_existing="same")
        assert collection.add("b", {3}, on_existing="same").action == "present"
        report = collection.add_many([("z", {5}), ("z", {5})], on_existing="same")
        assert (report.added, report.present, len(report)) == (1, 1, 0)
        with pytest.raises(
            simdb.KeyExistsError, match=r"other content; on_existing='replace' [a-z ]+$"
        ):
            collection.add("b", {4}, on_existing="same")


# -- all rows at once ------------------------------------------------------------------------------


def added_at_once(collection: simdb.Collection, rows: Any, **options: Any) -> list[simdb.Outcome]:
    outcomes: list[simdb.Outcome] = []
    collection.add_many(rows, at_once=True, outcomes=outcomes.extend, **options)
    return outcomes


def test_rows_are_all_added_at_once_or_none(collection, monkeypatch):
    monkeypatch.setattr(loading, "BATCH_ITEMS", 2)
    monkeypatch.setattr(loading, "SHARE_OF_MEMORY", 2**40)
    collection.add("kept", "some words")
    rows: list[Any] = [(number, f"row number {number}", {"n": number}) for number in range(7)]
    wrong: list[tuple[Any, str, Any, str]] = [
        (("kept", "other"), "error", simdb.KeyExistsError, "stored already"),
        ((3, "other"), "error", simdb.KeyExistsError, "came before"),
        ((3, "other"), "skip", simdb.KeyExistsError, "came before"),
        ((3, "other"), "replace", simdb.KeyExistsError, "came before"),
        (("new", 5), "replace", simdb.BadItemError, "a text must be a str"),
        (("", "text"), "skip", simdb.BadItemError, "key"),
    ]
    for last, on_existing, error, message in wrong:
        with pytest.raises(error, match=message) as raised:
            added_at_once(collection, [*rows, last], on_existing=on_existing)
        assert (raised.value.row, len(collection)) == (7, 1)
    with pytest.raises(simdb.ConfigurationError, match="leave out merge="):
        added_at_once(collection, rows, on_duplicate="merge", merge=lambda one, _: one)
    told = added_at_once(collection, [*rows, ("kept", "newer")], on_existing="replace")
    assert [one.action for one in told] == ["added"] * 7 + ["replaced"]
    assert [one.row for one in told] == [*range(8)]
    assert contents(collection) == dict([row[:2] for row in rows]) | {"kept": "newer"}
    again = [*rows, ("z", "row number 3")]
    told = added_at_once(collection, again, on_existing="skip", on_duplicate="skip")
    assert [one.action for one in told] == ["present"] * 7 + ["duplicate"]
    assert (told[7].duplicate_of, added_at_once(collection, [])) == (0, [])
    table = pa.table({"id": [20, 21, 20], "text": ["a b c", "d e f", "g h i"]})
    with pytest.raises(simdb.KeyExistsError, match="came before"):
        collection.add_many(table, key="id", item="text", at_once=True)
    assert collection.add_many(table[:2], key="id", item="text", at_once=True).added == 2


def test_rows_that_decide_about_each_other_for_long_are_not_cut(collection, monkeypatch):
    monkeypatch.setattr("simdb.ingest.dedupe.MOST_ROUNDS", 0)
    collection.add_many([("a", "one two"), ("b", "three four")])
    rows = [("a", "three four"), ("b", "five six")]
    with pytest.raises(simdb.ConfigurationError, match="several calls"):
        added_at_once(collection, rows, on_existing="replace", on_duplicate="skip")
    assert contents(collection) == {"a": "one two", "b": "three four"}


def test_a_large_input_is_one_transaction(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1, memory=2**24) as db:
        kept = db.collection("c", simdb.Set(), threshold=0.5, exact_floor=0.5, groups="chain")
        rows = [(number, {number, number + 1}) for number in range(10_000)]
        with pytest.raises(simdb.KeyExistsError, match="came before"):
            added_at_once(kept, [*rows, rows[0]])
        assert not len(kept)
        before = db.stats()["store"]["commits"]
        assert {one.action for one in added_at_once(kept, rows)} == {"added"}
        with pytest.raises(simdb.KeyNotFoundError):
            kept.delete_many([*range(10_000), 10_000], at_once=True)
        assert len(kept) == kept.delete_many(range(10_000), at_once=True) == 10_000
        assert db.stats()["store"]["commits"] == before + 2
        assert db.check(deep=True).sound


@pytest.mark.parametrize("batch", [1, 2, 10_000])
def test_what_resembles_a_row_of_the_input_is_said_to_though_that_row_comes_again(
    tmp_path, monkeypatch, batch
):
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", batch)
    one, other = set(range(10)), set(range(50, 60))
    rows = [("a", one), ("c", other), ("c", other), ("b", one), ("a", one)]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set())
        outcomes: list[Any] = []
        report = collection.add_many(
            rows, on_existing="skip", find_duplicates=True, outcomes=outcomes.extend
        )
    assert (report.duplicates_new, report.duplicates_old) == (1, 0)
    assert [outcome.within_input for outcome in outcomes if outcome.key == "b"] == [True]


def test_a_key_that_comes_twice_is_told_as_such(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        sets = database.collection("c", simdb.Set(), threshold=0.5)
        with pytest.raises(simdb.KeyExistsError, match="'p' came earlier in the input") as told:
            sets.add_many([("p", [1, 2]), ("q", [3, 4]), ("p", [5, 6])])
        assert (told.value.row, told.value.within_input) == (2, True)
        with pytest.raises(simdb.KeyExistsError, match="'q' is stored already") as told:
            sets.add_many([("r", [1, 2]), ("q", [5, 6])])
        assert not told.value.within_input
