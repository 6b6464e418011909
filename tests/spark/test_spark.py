"""Spark gives the answers of a collection: one session, small frames, every verb."""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
import json
import pickle  # noqa: TID251 - as Spark sends steps to its workers
import signal
import tempfile
from functools import partial
from threading import Event, Thread, get_ident
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import simdb
import simdb.spark
from simdb import steps
from simdb.cli.failures import in_options
from simdb.errors import BadItemError, ConfigurationError, MissingExtraError, UsageError
from simdb.spark import frames, sessions
from simdb.spark.answers import are_numbers, spans_of
from tests.steps.test_reference import SERVED, dropped_by, every_kind, table_of
from tests.support.commands import done, run
from tests.support.kind_cases import CASES
from tests.support.spark import listed, pairs_of

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
on_spark = pytest.mark.spark
CASE = CASES["text"]
SETS_OF_A_CASE = st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=7)
NUMBERS: list[list[int | None]] = [[4, 6, 9], [], [5, 3, 4], [2, 2], [None, 7], [6]]
COLUMNS: Any = {"key": "id", "item": "text"}
NAMED = ("doc.id", "doc.`text`", "at.0")  # Spark reads a dot as a part, a quote as an end
NAMED_COLUMNS: Any = {"key": NAMED[0], "item": NAMED[1]}


@pytest.fixture(scope="module")
def rows():
    """Texts with near copies and copies; their places in an order that is not that of the keys."""
    random = np.random.default_rng(3)
    items = CASE.many(random)
    items += [items[place] for place in random.integers(0, len(items), 9)]
    keys = [f"k{place:03}" for place in random.permutation(len(items))]
    return keys, items


@pytest.fixture(scope="module")
def embedded(tmp_path_factory, rows):
    with simdb.open(tmp_path_factory.mktemp("embedded") / "s.simdb", sync="batch") as db:
        collection = db.collection("c", CASE.kind, **CASE.bound, seed=1)
        collection.add_many(zip(*rows, strict=True))
        yield db, collection


@pytest.fixture(scope="module")
def frame(spark, rows):
    keys, items = rows
    places = pa.array(np.arange(len(keys)), pa.int64())
    made = spark.createDataFrame(pa.table(dict(zip(NAMED, (keys, items, places), strict=True))))
    return made.repartition(3, "`at.0`")  # in no order at all


@on_spark
def test_answers_are_those_of_the_embedded_store(frame, rows, embedded, tmp_path):
    spark = frame.sparkSession
    db, collection = embedded
    recipe, work = collection.recipe(), str(tmp_path / "work")
    asked = {**NAMED_COLUMNS, "recipe": recipe, "work": work, "order": NAMED[2]}
    pairs = listed(simdb.spark.pairs(frame, **asked))
    assert pairs == pairs_of(collection.pairs(guarantee="probable"), rows[0])
    assert len(pairs) > 20
    told: list[simdb.Outcome] = []
    made = db.collection("d", recipe=recipe)
    made.dedupe(zip(*rows, strict=True), outcomes=told.extend)
    db.drop_collection("d")
    dropped = [
        (one.key, one.duplicate_of, one.similarity) for one in told if one.action == "duplicate"
    ]
    assert listed(simdb.spark.dedupe(frame, **asked)) == sorted(dropped)
    for setting in ("adaptive", "ansi"):
        spark.conf.set(f"spark.sql.{setting}.enabled", "false")
    groups: dict[str, list[str]] = {}
    for key, first in listed(simdb.spark.groups(frame, **asked)):
        groups.setdefault(first, []).append(key)
    for setting in ("adaptive", "ansi"):
        spark.conf.unset(f"spark.sql.{setting}.enabled")
    expected = [list(group.keys) for group in collection.groups(guarantee="probable")]
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, expected))
    assert set(groups) == {group[0] for group in expected}
    # Nothing is made twice: what is whole stays as it is; another recipe is refused.
    stages = sorted(place.parent.name for place in (tmp_path / "work").glob("*/_SUCCESS"))
    of_pairs = "manifest signed copies shared candidates labels similar"
    assert stages == sorted(f"{of_pairs} edges connected dropped groups".split())
    with pytest.raises(ConfigurationError, match="another run"):
        simdb.spark.pairs(frame, **{**asked, "recipe": simdb.Recipe.of(CASE.kind, seed=2)})
    with pytest.raises(ConfigurationError, match="more than most=1"):
        simdb.spark.pairs(frame, **asked, most=1)


@on_spark
@settings(max_examples=1, phases=[Phase.generate])
@given(st.lists(SETS_OF_A_CASE, min_size=60, max_size=60), st.randoms(use_true_random=False))
def test_many_small_cases_in_one_job_are_answered_as_each_alone(spark, cases, random):
    """Exact pairs against comparing all: sets of different cases have no element in common.

    Rows that cannot be stored are left out, and told.
    """
    rows: list[tuple[int, Any]] = [
        (1_000 * case + place, [100 * case + element for element in elements])
        for case, sets in enumerate(cases)
        for place, elements in enumerate(sets)
    ]
    expected = sorted(
        (left, right, len({*one} & {*other}) / len({*one} | {*other}))
        for sets in itertools.groupby(rows, lambda row: row[0] // 1_000)
        for (left, one), (right, other) in itertools.combinations(sets[1], 2)
        if 2 * len({*one} & {*other}) >= len({*one} | {*other}) > 0
    )
    rows.append((-1, None))
    random.shuffle(rows)
    made = spark.createDataFrame(rows, "id bigint, elements array<bigint>").repartition(3)
    asked: Any = {"key": "id", "item": "elements", "threshold": 0.5, "seed": 1}
    with tempfile.TemporaryDirectory() as work:
        asked |= {"guarantee": "exact", "on_bad": "skip", "work": work}
        found = simdb.spark.pairs(made, simdb.Set(), **asked)
        assert listed(found) == expected
        assert [row["key"] for row in simdb.spark.problems(spark, work).collect()] == [-1]


@on_spark
@pytest.mark.slow
@every_kind
def test_every_kind_that_is_served_gets_the_answers_of_a_store(spark, name, exact, tmp_path):
    case = SERVED[name]
    random = np.random.default_rng(3)
    items = case.many(random)
    items += [items[place] for place in random.integers(0, len(items), 9)]
    options = {**case.bound, **({"recall": 0.99} if name == "bits:40:hamming" else {})}
    recipe = simdb.Recipe.of(case.kind, **options, seed=1)
    guarantee: Any = "exact" if exact else "probable"
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        whole = db.collection("whole", recipe=recipe)
        whole.add_many(enumerate(items))
        pairs = pairs_of(whole.pairs(guarantee=guarantee), list(range(len(items))))
        dropped = dropped_by(db.collection("kept", recipe=recipe), items)
    frame = spark.createDataFrame(table_of(case.kind, items)).repartition(3)
    asked: Any = {"recipe": recipe, "key": "number", "item": "item", "guarantee": guarantee}
    asked["work"] = str(tmp_path / "work")
    assert listed(simdb.spark.pairs(frame, **asked)) == pairs
    assert len(pairs) > len(dropped) > 8
    if not exact:
        assert listed(simdb.spark.dedupe(frame, **asked, order="number")) == dropped


@on_spark
def test_a_store_is_one_side_of_a_join_and_takes_rows_that_workers_sign(
    spark, frame, rows, embedded, tmp_path
):
    db, collection = embedded
    other = db.collection("other", recipe=collection.recipe())
    some = frame.where("`at.0` >= 20")
    report = simdb.spark.to_store(some, other, **NAMED_COLUMNS, work=str(tmp_path / "load"))
    assert report.added == len(other) == len(rows[0]) - 20
    assert other.check(deep=True).sound
    stored = simdb.spark.from_store(spark, other, str(tmp_path / "stored"))
    left = frame.where("`at.0` < 20").toDF("key", "item", "at")
    joined = simdb.spark.join(
        left,
        stored,
        recipe=other.recipe(),
        key="key",
        item="item",
        work=str(tmp_path / "join"),
    )
    first = db.collection("first", recipe=collection.recipe())
    first.add_many(list(zip(*rows, strict=True))[:20])
    assert listed(joined) == pairs_of(first.join(other, guarantee="probable")) != []


@on_spark
def test_what_cannot_be_answered_is_told_as_what_it_is(spark, tmp_path):
    kind = simdb.Set()
    columns: Any = {"key": "id", "item": "elements"}

    def asked(rows: list[Any], **options: Any) -> Any:
        made = spark.createDataFrame(rows, "id bigint, elements array<bigint>")
        options = {"seed": 1, "work": str(tmp_path / "work"), **options}
        return simdb.spark.pairs(made, kind, **columns, **options)

    with pytest.raises(UsageError, match="null"):
        asked([(None, [1, 2]), (1, [3])])
    with pytest.raises(BadItemError, match="1 items cannot be stored; of the key 2") as bad:
        asked([(1, [1, 2]), (2, None), (3, [1, 2]), (4, [7])])
    assert str(bad.value).endswith("; on_bad='skip' leaves them out")
    work = str(tmp_path / "empty")
    empty = spark.createDataFrame([], "id string, elements array<bigint>")
    with pytest.raises(UsageError, match="no column 'none'"):
        simdb.spark.pairs(empty, kind, key="none", item="elements", work=work, seed=1)
    with pytest.raises(UsageError, match="'elements' is array"):
        simdb.spark.pairs(empty, kind, key="elements", item="elements", work=work, seed=1)
    of_pandas: Any = pa.table({"id": [1], "elements": [[1]]}).to_pandas()
    told: Any
    for frame, told, problem in [
        (of_pandas, {"seed": 1}, r"a DataFrame of Spark, not pandas\.\S*DataFrame; spark\.create"),
        (empty, {"seed": 1, "work": None}, "work must be the path of a folder, not None"),
        (empty, {"recipe": "x"}, "a recipe must be a simdb.Recipe, not str"),
        (empty, {"seed": 1, "most": "x"}, "most must be a whole number of at least 0, not 'x'"),
    ]:
        own = kind if "seed" in told else None
        with pytest.raises(simdb.UsageError, match=problem):
            simdb.spark.pairs(frame, own, **{**columns, "work": work, **told})
    mapped = empty.selectExpr("*", "map('a', id) as places")
    with pytest.raises(UsageError, match="cannot be ordered by 'places': it is map<string,string>"):
        simdb.spark.dedupe(mapped, kind, **columns, order="places", work=work, seed=1)
    for wrong in ({"key": "none"}, {"item": "none"}):
        with pytest.raises(UsageError, match="no column 'none'; there are: id, elements"):
            simdb.spark.sign(empty, simdb.Recipe.of(kind, seed=1), **{**columns, **wrong})
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        stored: Any = db.collection("c", kind, threshold=0.5)
        of_none: Any = {**columns, "item": "none", "work": work}
        wrongly: list[tuple[Any, Any, str]] = [
            (empty, stored, "no column 'none'"),
            ([1], stored, "a DataFrame of Spark, not builtins.list"),
            (empty, "c", "a collection of simdb, not 'c'"),
        ]
        for given, into, problem in wrongly:
            with pytest.raises(UsageError, match=problem):
                simdb.spark.to_store(given, into, **of_none)
    with pytest.raises(UsageError, match=r"none/signed$"):
        simdb.spark.problems(spark, str(tmp_path / "none"))
    with pytest.raises(simdb.WrongTypeError, match="a DataFrame of Spark"):
        simdb.spark.sign(of_pandas, simdb.Recipe.of(kind, seed=1), **columns)


@on_spark
def test_a_folder_of_another_version_is_refused_and_a_failed_write_leaves_nothing(spark, tmp_path):
    made = spark.createDataFrame([("1f2e probable id text id 1",)], "made_by string")
    made.write.parquet(str(tmp_path / "work" / "manifest"))
    with pytest.raises(ConfigurationError, match="another version of simdb"):
        frames.Stages(spark, str(tmp_path / "work"), "1f2e probable id text id 1")
    fails = made.selectExpr("raise_error(made_by) as made_by")
    other = tmp_path / "work"
    with pytest.raises(Exception, match="already exists"):
        frames.write_all({str(tmp_path / "first"): made, str(other): made})
    assert [(other / "manifest").exists(), (tmp_path / "first").exists()] == [True, False]
    folders = [tmp_path / "removed", tmp_path / "kept"]
    with pytest.raises(Exception, match="1f2e probable"):
        frames.write_all(dict(zip(map(str, folders), (made, fails), strict=True)))
    assert not any(folder.exists() for folder in folders)


@on_spark
def test_a_folder_is_read_by_its_name_and_not_as_a_pattern(spark, tmp_path):
    for turn in range(2):  # made, and found again
        for place, name in enumerate(("run1", "run[1]")):
            stages = frames.Stages(spark, str(tmp_path / name), name)
            told = stages("told", partial(spark.range, place + turn, place + turn + 1))
            assert listed(told) == [(place,)]


@on_spark
def test_a_folder_with_files_of_others_is_refused_and_they_stay(spark, tmp_path):
    work = tmp_path / "work"
    (work / "signed").mkdir(parents=True)
    (work / "signed" / "thesis.txt").write_text("x")
    for name in ("_READ_ME", "signed/_SUCCESS"):
        (work / name).touch()
        with pytest.raises(ConfigurationError, match="work holds files that simdb has not made"):
            frames.Stages(spark, str(work), "a run")
    assert (work / "signed" / "thesis.txt").read_text() == "x"
    (work / "signed").rename(tmp_path / "thesis")
    (work / "manifest").mkdir()  # as a run that was ended leaves it
    stages = frames.Stages(spark, str(work), "a run")
    told = stages("signed", lambda: spark.range(1))
    assert listed(told) == [(0,)]


@on_spark
def test_the_command_keeps_what_the_embedded_command_keeps(spark, rows, tmp_path):
    keys, items = rows
    files = tmp_path / "in"
    files.mkdir()
    for number, part in enumerate((slice(0, 50), slice(50, None))):
        given, own = [*items[part], None], [*keys[part], f"bad {number}"]
        table = pa.table({"text": given, "id": own, "a.b": own})
        pa.parquet.write_table(table, files / f"{number}.parquet")
    out, removed = tmp_path / "out", tmp_path / "removed"
    told = done(
        *("spark", "dedupe", files, "-o", out, "--removed", removed, "--work", tmp_path / "work"),
        *("--exact", "--threshold", 0.5, "--json", "--skip-bad"),
    )
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        kept = db.collection("c", simdb.Text(), threshold=None, exact_floor=0.5)
        kept.dedupe(zip(keys, items, strict=True))
        expected = sorted(entry.key for entry in kept.items())
    read = spark.read.parquet(str(out))
    assert read.columns == ["text", "id", "a.b"]
    assert sorted(row["id"] for row in read.collect()) == expected
    counts = {"rows": len(keys) + 2, "kept": len(expected), "bad": 2, "output": str(out)}
    assert json.loads(told.stdout) == counts
    assert len(expected) < len(keys)
    assert spark.read.parquet(str(removed)).count() == len(keys) - len(expected)
    # Told at once, before anything is read or made.
    for taken in (("-o", out), ("-o", tmp_path / "new", "--removed", removed)):
        again = run("spark", "dedupe", tmp_path / "none", *taken, "--work", tmp_path / "other")
        assert (again.exit_code, f"{taken[-1]} already exists" in again.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


# -- without Spark ---------------------------------------------------------------------------------


def test_what_is_asked_for_wrongly_is_refused_before_anything_runs():
    recipe = simdb.Recipe.of(simdb.Set(), seed=1)
    asked: Any = {**COLUMNS, "work": "w"}
    for options, says in (
        ({}, "a kind, or a recipe"),
        ({"kind": simdb.Set()}, "a seed"),
        ({"recipe": recipe, "seed": 1}, "beside it"),
        ({"recipe": recipe, "guarantee": "sure"}, "guarantee"),
        ({"recipe": recipe, "on_bad": "keep"}, "on_bad"),
    ):
        with pytest.raises(UsageError, match=says):
            simdb.spark.pairs(None, **asked, **options)
    strings = simdb.Recipe.of(simdb.String(), max_distance=2)
    with pytest.raises(ConfigurationError, match="around"):
        simdb.spark.pairs(None, **asked, recipe=strings)


def test_without_java_or_pyspark_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="JAVA_HOME names"):
        sessions.require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="openjdk-17"):
        sessions.require_java()

    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name=name.partition(".")[0])

    monkeypatch.setattr(sessions, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"simdb-store\[spark\]"):
        sessions.library()


def test_a_command_names_the_option_that_skips_bad_rows():
    error = BadItemError("bad").helped_by([simdb.errors.Remedy("on_bad", "skip", "leaves it out")])
    assert (str(error), in_options(error)) == (
        "bad; on_bad='skip' leaves it out",
        "bad; --skip-bad leaves it out",
    )


def test_an_interruption_waits_until_java_is_up():
    before = signal.getsignal(signal.SIGINT)
    reached = []

    def start(*, is_up: bool) -> None:
        with sessions._without_interrupts(lambda: is_up):
            signal.raise_signal(signal.SIGINT)
            reached.append(is_up)

    for is_up in (False, True):
        with pytest.raises(KeyboardInterrupt):
            start(is_up=is_up)
        assert signal.getsignal(signal.SIGINT) is before
    assert reached == [False]


def test_an_error_of_a_task_is_raised_as_what_it_is():
    trace = "Traceback ...\nsimdb.errors.UsageError: the rows are not sorted\n\n at java"
    with pytest.raises(UsageError, match=r"^the rows are not sorted$"), sessions.plain_errors():
        raise RuntimeError(trace)
    paths = (
        "[PATH_NOT_FOUND] Path does not exist: file:/a.b. SQLSTATE: 42K03",
        '[PATH_ALREADY_EXISTS] Path file:/a.b already exists. Set mode as "overwrite" to ...',
    )
    for text in paths:
        with pytest.raises(UsageError, match=r"/a\.b( already exists)?$"), sessions.plain_errors():
            raise RuntimeError(text)
    for text, says in (
        ("file:/a is not a Parquet file. Expected magic number", "file:/a is not a Parquet file"),
        (
            "[FAILED_READ_FILE] Encountered error while reading file file:/a b.  SQLSTATE: KD",
            "a b c",
        ),
        (
            "Encountered error while reading file file:/a b. Could not read footer.",
            "a b cannot be r",
        ),
        ("Parent path is not a directory: file:/a\n at", "file:/a is not a folder"),
        (
            "Mkdirs failed to create file:/a/_temporary/0 (exists=false)",
            "file:/a cannot be written",
        ),
        ("[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet.", "no Parquet file"),
    ):
        with pytest.raises(UsageError, match=says), sessions.plain_errors():
            raise RuntimeError(text)
    for other in ("simdb.errors.Nothing: x", "boom"):
        with pytest.raises(RuntimeError), sessions.plain_errors():
            raise RuntimeError(other)


def test_rows_of_a_store_that_are_not_written_leave_no_folder(tmp_path):
    wrong: Any = "a name"
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        mixed = db.collection("c", simdb.Set(), threshold=0.5)
        mixed.add_many([(1, [1, 2]), ("a", [1, 2])])
        for collection, says in ((mixed, "no one Arrow column"), (wrong, "a collection of simdb")):
            with pytest.raises(UsageError, match=says):
                simdb.spark.from_store(None, collection, str(tmp_path / "stored"))
            assert not (tmp_path / "stored").exists()


def test_the_root_of_all_is_no_folder_for_stages():
    for root in ("", "/", "//", "file:///"):
        with pytest.raises(UsageError, match="names no folder"):
            frames.Stages(None, root, "a run")
    assert frames.folder_of("s3a://bucket/run1/") == "s3a://bucket/run1"


def test_a_folder_is_asked_for_files_of_others_before_anything_is_written(monkeypatch):
    asked = []

    def exists(spark, path, below=""):
        asked.append(frames.literal(path) + below)
        return bool(below)

    monkeypatch.setattr(frames, "exists", exists)
    with pytest.raises(ConfigurationError, match="holds files that simdb has not made"):
        frames.Stages(None, "w/run[1]", "a run")
    assert asked == [r"w/run\[1\]/manifest", r"w/run\[1\]/[!._m]*"]


def test_folders_that_hold_one_another_or_an_input_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "out")
    out, work = tmp_path / "out", tmp_path / "work"
    for options, says in (
        (("-o", out, "--work", out), "is"),
        (("-o", out, "--work", f"{out}/w"), "lies in"),
        (("-o", work / "kept", "--work", work), "lies in"),
        (("-o", out, "--work", work, "--removed", f"file://{out}/"), "is"),
        (("-o", out, "--work", work, "--removed", tmp_path / "link" / "r"), "lies in"),
        (("-o", out, "--work", work, "--removed", work / "dropped"), "lies in"),
        (("-o", out, "--work", tmp_path), "lies in"),
        (("-o", out, "--work", tmp_path / "in" / ".."), "lies in"),
        (("-o", "", "--work", work), "names no folder"),
    ):
        told = run("spark", "dedupe", tmp_path / "in", *options)
        assert (told.exit_code, says in told.stderr) == (2, True), told.stderr
    frames.require_apart(["s3a://b/out", "s3a://b/out2", "/b/out", "out"], ["s3a://b", "b/*.x"])
    with pytest.raises(UsageError, match="lies in"):
        frames.require_apart(["s3a://b/out", "s3a://b//x/../out/w/"])


@pytest.fixture
def plain_threads(monkeypatch):
    """Let frames be written in threads as Python makes them, which need no Spark."""

    def plain(write: Any, *, session: Any, daemon: bool) -> Thread:
        return Thread(target=write, daemon=daemon)

    monkeypatch.setattr(frames, "library", Mock(return_value=Mock(InheritableThread=plain)))


@pytest.mark.usefixtures("plain_threads")
def test_a_write_that_is_interrupted_has_ended_before_its_folder_is_removed(monkeypatch):
    main, cancelled, frame = get_ident(), Event(), Mock()
    order: list[str] = []

    def write(path: str) -> None:
        signal.pthread_kill(main, signal.SIGINT)
        cancelled.wait(60)
        order.append("written")

    frame.write.mode.return_value.parquet.side_effect = write
    frame.sparkSession.interruptAll.side_effect = cancelled.set
    monkeypatch.setattr(frames, "_removed", lambda spark, path: order.append(path))
    with pytest.raises(KeyboardInterrupt):
        frames.write_all({"a": frame})
    assert order == ["written", "a"]


@pytest.mark.usefixtures("plain_threads")
def test_a_folder_that_another_program_has_made_meanwhile_stays(monkeypatch):
    def frame(error: Exception | None = None) -> Any:
        made = Mock()
        made.write.mode.return_value.parquet.side_effect = error
        return made

    there = RuntimeError("[PATH_ALREADY_EXISTS] Path file:/b already exists.")
    for error, gone in ((there, ["a"]), (RuntimeError("no space"), ["a", "b"])):
        removed = Mock()
        monkeypatch.setattr(frames, "_removed", removed)
        with pytest.raises(RuntimeError):
            frames.write_all({"a": frame(), "b": frame(error)})
        assert [call.args[1] for call in removed.call_args_list] == gone


def test_steps_are_sent_with_their_recipe():
    recipe = simdb.Recipe.of(simdb.Set(), threshold=0.5, seed=1)
    table = pa.table({"number": [0, 1], "item": [[1, 2], [2, 3]]})
    step = pickle.loads(pickle.dumps(frames.OnBatches(steps.encode, recipe)))
    (items,) = step(table.to_batches())
    ordered = steps.order_of(recipe, np.array([1, 1]))
    posting = pickle.loads(pickle.dumps(frames.OnBatches(steps.post, ordered)))
    (posted,) = posting([items])
    assert posted.schema.names == steps.POSTINGS.names
    assert frames.ddl(steps.POSTINGS).startswith("`key` bigint, `number` bigint, `position` int")


def test_numbers_that_rise_are_told_from_ones_that_do_not():
    batches = [pa.record_batch({"place": pa.array(one, pa.int64())}) for one in NUMBERS]
    told = [tuple(next(iter(row)) for row in one.to_pydict().values()) for one in spans_of(batches)]
    assert told == [(4, 9, True), (3, 5, False), (2, 2, False), (-1, 7, True), (6, 6, True)]


@on_spark
def test_places_that_number_rows_are_told_by_their_ends_or_counted(spark, tmp_path):
    for place, rows in enumerate(([3, 4], [7, 9], [1, 2])):
        file = tmp_path / f"a %41 {place}.parquet"
        pyarrow.parquet.write_table(pa.table({"id": pa.array(rows, pa.int64())}), file)
    read = spark.read.parquet(str(tmp_path))
    placed = frames.in_file_order(read, "at").orderBy("at").collect()
    assert [row["id"] for row in placed] == [3, 4, 7, 9, 1, 2]
    for rows, numbers in (
        ([1, 2, 3], True),
        ([1, 2, 2], False),
        ([3, 1, 2], True),
        ([-1, 2], False),
    ):
        one = spark.createDataFrame(pa.table({"place": pa.array(rows, pa.int64())}))
        assert are_numbers(one, unique=False) is numbers
    with pytest.raises(UsageError, match="not read from files"):
        frames.in_file_order(spark.range(3), "at")


@on_spark
def test_keys_of_two_types_are_not_made_one(spark, tmp_path):
    texts = [("1", "some words of a text"), ("01", "other words than those of that")]
    left = spark.createDataFrame(texts, "id string, text string")
    right = spark.createDataFrame([(1, texts[0][1])], "id int, text string")
    asked: Any = {**COLUMNS, "threshold": 0.8, "seed": 1}
    for number, sides in enumerate(((left, right), (right, left))):
        with pytest.raises(simdb.UsageError, match="in one frame and"):
            simdb.spark.join(*sides, kind=simdb.Text(), **asked, work=str(tmp_path / f"{number}"))


@on_spark
def test_what_cannot_be_stored_of_a_frame_is_told_and_nothing_is_stored(spark, tmp_path):
    good = [(f"k{number}", f"text number {number} of some words") for number in range(20)]
    wrong: list[tuple[tuple[Any, Any], type[Exception], str]] = [
        (("k3", "another text of that key"), simdb.UsageError, "more than once: 'k3'"),
        (("bad", None), simdb.BadItemError, "'bad'"),
    ]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8)
        for number, (row, error, told) in enumerate(wrong):
            frame = spark.createDataFrame([*good, row], "id string, text string")
            work = str(tmp_path / f"work{number}")
            with pytest.raises(error, match=told):
                simdb.spark.to_store(frame, collection, **COLUMNS, work=work)
        assert len(collection) == 0
        report = simdb.spark.to_store(frame, collection, **COLUMNS, work=work, on_bad="skip")
        assert report.added == len(collection) == len(good)
        assert collection.check(deep=True).sound
