"""What people say of pairs: kept in the store, asked where it helps, learnt from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import simdb
from simdb.errors import ConfigurationError, DatabaseBusyError, KeyNotFoundError, WrongTypeError
from simdb.upkeep import labelling
from tests.kinds.test_record_weights import KIND, LEFT, RIGHT, SAMPLE
from tests.support.commands import done, failed, lines_of, run
from tests.support.record_stores import opened

SAID = [(1, 1, True), (2, 3, False), (4, 4, True)]


@pytest.fixture
def tables(tmp_path):
    with opened(tmp_path / "s", LEFT, RIGHT, kind=KIND, threshold="0.01") as found:
        yield found


def test_labels_are_kept_and_the_last_answer_counts(tables):
    left, right = tables
    assert left.label(SAID, other=right) == 3
    assert list(left.labels(other=right)) == SAID
    assert left.label([(1, 1, False), (4, 4, None)], other=right) == 1
    assert list(left.labels(other=right)) == [(1, 1, False), (2, 3, False)]
    assert len(left.labels()) == len(right.labels()) == 0
    # Of one collection it is the same which key comes first.
    left.label([(7, 5, True), (5, 7, False)])
    assert list(left.labels()) == [(5, 7, False)]
    left.delete(2)
    told = left.labels(other=right)
    assert (told.pairs, told.deleted) == (((1, 1, False),), ((2, 3, False),))


@pytest.mark.parametrize("call", ["rename_collection", "drop_collection"])
def test_nobody_takes_a_collection_away_between_look_up_and_label(tmp_path, monkeypatch, call):
    path, said = tmp_path / "s.simdb", labelling.said
    with simdb.open(path) as db, simdb.open(path, busy_timeout=0) as impatient:
        left, right = (db.create_collection(name, simdb.Set()) for name in ("left", "right"))
        for one in (left, right):
            one.add("k", ["x"])

        def said_meanwhile(*given):
            with suppress(DatabaseBusyError), ThreadPoolExecutor(1) as other_thread:
                names = ("right", "new")[: 1 + (call == "rename_collection")]
                other_thread.submit(getattr(impatient, call), *names).result()
            return said(*given)

        monkeypatch.setattr(labelling, "said", said_meanwhile)
        left.label([("k", "k", True)], other=right)
        assert list(left.labels(other=right)) == [("k", "k", True)]


def test_labels_are_read_before_their_collections_are_looked_up(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        left, right = (db.create_collection(name, simdb.Set()) for name in ("left", "right"))
        for one in (left, right):
            one.add("k", ["x"])

        def pairs() -> Iterator[tuple[str, str, bool]]:
            db.rename_collection("right", "new")
            yield "k", "k", True

        with db.snapshot() as before:
            stale = before["right"]
            with pytest.raises(simdb.CollectionNotFoundError, match="no collection 'right'"):
                left.label(pairs(), other=right)
            with pytest.raises(simdb.CollectionNotFoundError, match="no collection 'right'"):
                left.label([("k", "k", True)], other=stale)
        with pytest.raises(simdb.DatabaseClosedError):
            left.label([("k", "k", True)], other=stale)
        db.create_collection("right", simdb.Set()).add("k", ["y"])
        assert not any(len(left.labels(other=db[name])) for name in ("right", "new"))
        with simdb.open(tmp_path / "other.simdb") as elsewhere:
            apart = elsewhere.create_collection("apart", simdb.Set())
            with pytest.raises(KeyNotFoundError, match="'apart'"):
                left.label([("k", "k", True)], other=apart)
            apart.add("k", ["x"])
            left.label([("k", "k", True)], other=apart)
            assert len(left.labels(other=apart)) == 1


def test_bad_labels_are_refused_whole(tables):
    left, right = tables
    for call in (left.labels, left.learn, lambda other: left.label(SAID, other=other)):
        with pytest.raises(WrongTypeError, match="other must be a collection, not str"):
            call(other="right")
    with pytest.raises(WrongTypeError, match="weights must come from learn"):
        left.uncertain(3)
    for said, error, told in (
        ([(1, 1, True), (1, 9_999, True)], KeyNotFoundError, "9999 is not stored in 'c1'"),
        ([(1, 1, "yes")], WrongTypeError, "True or False"),
        ([(1, 1)], WrongTypeError, "two keys"),
        (3, WrongTypeError, "two keys and True or False, not int"),
        ([(1.5, 1, True)], WrongTypeError, "key"),
    ):
        with pytest.raises(error, match=told):
            left.label(said, other=right)
    with pytest.raises(ConfigurationError, match="1 twice"):
        left.label([(1, 1, True)])
    assert len(left.labels(other=right)) == 0
    for wrong in ({"labels": "stored"}, {"labels": "kept"}):
        with pytest.raises(ConfigurationError, match="labels"):
            left.learn(other=right, **wrong)
    for labels in (3, [3], [(1, 1, "0")], [(1, 1, None)]):
        with pytest.raises(WrongTypeError, match="True or False"):
            left.learn(labels, other=right)
    known = [(1, 1, True), (2, 3, False), (1, 1, True)]
    assert left.learn(known, other=right).pairs == 3
    with pytest.raises(ConfigurationError, match="contradictory labels: 1 and 1"):
        left.learn([*known, (1, 1, False)], other=right)
    with pytest.raises(ConfigurationError, match="contradictory labels: 4 and 3"):
        left.learn([(3, 4, True), (4, 3, False)])
    with pytest.raises(ConfigurationError, match="no labels"):
        left.calibrate("note", other=right, matched="labelled")


def test_labels_outlive_what_happens_to_a_store(tables, tmp_path):
    left, right = tables
    left.label(SAID, other=right)
    left.label([(8, 9, False)])
    left.rebuild(KIND, threshold=0.5)
    left.compact()
    with simdb.open(tmp_path / "s") as database:
        database.backup(tmp_path / "backup")
        database.dump(tmp_path / "dump")
        assert database.check(deep=True).sound
    simdb.load(tmp_path / "dump", tmp_path / "loaded")
    simdb.repair(tmp_path / "backup", tmp_path / "repaired")
    for name in ("backup", "loaded", "repaired"):
        with simdb.open(tmp_path / name, read_only=True) as other:
            assert list(other["c0"].labels(other=other["c1"])) == SAID, name
            assert list(other["c0"].labels()) == [(8, 9, False)], name
    with simdb.open(tmp_path / "loaded") as other:
        other.drop_collection("c0")
        made = other.create_collection("c0", KIND, threshold=0.5)
        assert len(made.labels()) == 0


def test_few_labels_of_uncertain_pairs_teach_more_than_none(tables):
    left, right = tables
    weights = left.learn(other=right, seed=1, sample=SAMPLE)
    asked = left.uncertain(weights, other=right, limit=6)
    distances = [abs(pair.probability - 0.5) for pair in asked]
    assert distances[0] == min(distances)
    assert left.match_probabilities(
        [pair[:2] for pair in asked], weights, other=right
    ) == pytest.approx([pair.probability for pair in asked])
    left.label([(pair.left, pair.right, pair.left == pair.right) for pair in asked], other=right)
    again = left.uncertain(weights, other=right, limit=6)
    assert not {pair[:2] for pair in again} & {pair[:2] for pair in asked}
    left.label([(1, 2, False)], other=right)
    taught = left.learn("stored", other=right, seed=1, sample=SAMPLE)
    labels = list(left.labels(other=right))

    def wrong(by: simdb.Weights) -> float:
        found = left.match_probabilities([pair[:2] for pair in labels], by, other=right)
        return float(sum(abs(own - said) for own, (_, _, said) in zip(found, labels, strict=True)))

    assert wrong(taught) < wrong(weights)
    # A level that nobody was asked about says what it said.
    before, after = ({one.name: one.levels for one in by.fields} for by in (weights, taught))
    assert after["town"][0].bits == pytest.approx(before["town"][0].bits, abs=3)
    left.delete(asked[0].left)
    assert any("lost a key" in told for told in left.learn("stored", other=right).warnings)


def test_labels_on_the_command_line(tables, tmp_path):
    store = (str(tmp_path / "s"), "c0", "--right", "c1", "--integer-keys")
    told = done("label", *store, "--limit", "4", stdin="y\nmaybe\nN\n?\nq\n")
    assert "1 of 4" in told.stdout
    assert "differs" in told.stdout
    assert "or q (quit), not 'maybe'" in told.stderr
    assert "stored: 1 match, 1 non-match; 2 pairs without an answer" in told.stderr
    shown = done("label", *store, "--show").stdout
    assert sorted(line.split("\t")[2] for line in shown.splitlines()) == ["0", "1"]
    file = tmp_path / "labels.tsv"
    file.write_text(shown + "3\t3\t1\n4\t5\t?\n")
    assert "3 labels" in done("label", *store, "--take", str(file)).stderr
    assert {"left": 3, "right": 3, "match": True} in lines_of("label", *store, "--show")
    learnt = json.loads(done("learn", *store, "--stored-labels", "--json").stdout)
    assert learnt["pairs"] == 3
    file.write_text("3\t9999\n")
    assert "9999 is not stored" in run("label", *store, "--pairs", str(file)).stderr
    file.write_text("3\t3\t1\n3\t2.9\t1\n")
    assert "line 2: the key '2.9' is not" in failed("label", *store, "--take", str(file))
    for wrong in ("null", "1.5", '["2"]'):
        rows = tmp_path / "rows.jsonl"
        rows.write_text(f'{{"left": {wrong}, "right": "2", "match": 1}}\n')
        for options in (store, store[:-1]):
            assert "rows.jsonl, line 1: " in failed("label", *options, "--take", str(rows))
    file.write_text("3\t3\t7\n")
    assert "line 1: a label is 1, 0" in failed("label", *store, "--take", str(file))
    assert "contradict" in failed("label", *store, "--show", "--take", str(file))


def test_pairs_of_a_file_are_all_there_before_the_first_is_asked_about(tmp_path):
    path = str(tmp_path / "s.simdb")
    kind = simdb.Record([simdb.Field("born", compare="date")], candidates=["born"])
    with simdb.open(path) as database:
        records, _ = (database.collection(name, kind) for name in ("c", "empty"))
        records.add_many((key, {"born": f"2001-02-0{key}"}) for key in (1, 2))
    pairs = tmp_path / "pairs.tsv"
    store = ("label", path, "c", "--integer-keys", "--pairs", str(pairs))
    pairs.write_text("1\t2\n1\t3\n")
    assert "3 is not stored in 'c'" in failed(*store, stdin="y\nn\n")
    pairs.write_text("1\t2\n2\t2\n")
    assert "about two items, not about 2 twice" in failed(*store, stdin="y\nn\n")
    pairs.write_text("1\t2\n")
    assert "2 is not stored in 'empty'" in failed(*store, "--right", "empty", stdin="y\n")
    assert not done("label", path, "c", "--show").stdout
    asked = json.loads(done(*store, "--json", stdin="y\n").stdout.splitlines()[0])
    assert asked["items"] == [{"born": "2001-02-01"}, {"born": "2001-02-02"}]
    assert done("label", path, "c", "--show").stdout == "1\t2\t1\n"


def test_pairs_of_what_has_no_fields_are_not_asked_about(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("c", simdb.Text()).add_many([("a", "a text"), ("b", "another text")])
    (pairs := tmp_path / "pairs.tsv").write_text("a\tb\n")
    command = ("label", str(tmp_path / "s.simdb"), "c", "--pairs", str(pairs))
    for form in ((), ("--json",)):
        assert "only records are labelled here, not texts" in failed(*command, *form)


def test_labels_are_of_collections_that_compare_alike(tmp_path):
    fields = [simdb.Field("name"), simdb.Field("town")]
    with simdb.open(tmp_path / "s.simdb") as database:
        records = database.collection("c", simdb.Record(fields[:1], candidates=["name"]))
        records.add("a", {"name": "ann"})
        others = database.collection("d", simdb.Record(fields, candidates=["name"]))
        others.add("b", {"name": "ann", "town": "york"})
        database.collection("e", simdb.Text()).add("b", "a text")
        with pytest.raises(simdb.ConfigurationError, match="'c' and 'd' cannot be joined"):
            records.label([("a", "b", True)], other=others)
        assert not list(records.labels(other=others))
    (pairs := tmp_path / "pairs.tsv").write_text("a\tb\n")
    for other in ("d", "e"):
        command = ("label", str(tmp_path / "s.simdb"), "c", "--pairs", str(pairs), "--right", other)
        for form in ((), ("--json",)):
            assert f"of 'c' and '{other}' are not compared alike" in failed(*command, *form)


def test_an_empty_value_is_shown_as_a_missing_one(tmp_path):
    kind = simdb.Record(
        [simdb.Field("name", compare="exact"), simdb.Field("town", compare="exact")]
    )
    with simdb.open(tmp_path / "s") as db:
        people = db.collection("c", kind, threshold=0.1)
        people.add_many([(1, {"name": "Ann", "town": ""}), (2, {"name": "Anne", "town": "York"})])
    (tmp_path / "pairs.tsv").write_text("1\t2\n")
    asked = ("label", tmp_path / "s", "--pairs", tmp_path / "pairs.tsv", "--integer-keys")
    assert "--limit is of pairs that are chosen" in failed(*asked, "--limit", 1)
    shown = done(*asked, stdin="q\n").stdout
    told = {line.split()[0]: line.split()[-1] for line in shown.splitlines()[2:]}
    assert told == {"name": "differs", "town": "missing"}
