"""Single steps: signatures by rows, contraction, streams, schemas."""

# mypy: allow-untyped-calls

from __future__ import annotations

import pickle  # noqa: TID251 - engines send recipes to their workers
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import simdb
from simdb import steps
from simdb.errors import ConfigurationError, UsageError, WrongTypeError
from simdb.steps import packing, streams
from simdb.steps.streams import joined, whole_groups

SETS = simdb.Set()
ELEMENTS = pa.list_(pa.int64())


@pytest.mark.parametrize("sketch", ["fast", "classical"])
@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_exercise_3_3_7_signatures_by_rows_are_those_by_columns(sketch, batch):
    """MMDS 3.3.7: the matrix is dealt by columns, which is ``sign``, or by rows."""
    recipe = simdb.Recipe.of(SETS, seed=4, sketch=sketch)
    random = np.random.default_rng(1)
    items = [random.choice(300, size, replace=False).tolist() for size in (1, 2, 5, 40, 200)]
    whole = pa.table({"number": range(5), "item": items})
    (signed,) = steps.sign(recipe, whole.to_batches())
    rows = [(number, element) for number, item in enumerate(items) for element in item]
    random.shuffle(rows)
    numbers, elements = zip(*rows, strict=True)
    long = pa.table({"number": numbers, "element": elements}).to_batches(max_chunksize=batch)
    minima = pa.Table.from_batches(list(steps.partial_minima(recipe, long)))
    ordered = minima.sort_by("number").to_batches(max_chunksize=batch)
    merged = pa.Table.from_batches(list(steps.merge_minima(recipe, ordered)))
    assert merged["number"].to_pylist() == list(range(5))
    assert merged["signature"].to_pylist() == signed["signature"].to_pylist()


def test_exercise_3_4_4_buckets_and_pairs_by_map_and_reduce():
    """MMDS 3.4.4: (a) a bucket's items come together, (b) of each item the later candidates."""
    recipe = simdb.Recipe.of(SETS, bands=3, rows=1, seed=2)
    items = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [7, 8, 9], [4, 5, 6]]
    table = pa.table({"number": range(5), "item": items})
    signed = pa.Table.from_batches(list(steps.sign(recipe, table.to_batches())))
    entries = pa.Table.from_batches(list(steps.entries(recipe, signed.to_batches())))
    assert entries.num_rows == 15
    by_bucket = entries.join(signed.select(["number", "signature"]), "number")
    by_bucket = by_bucket.select(steps.SHARED.names).sort_by(
        [("bucket", "ascending"), ("number", "ascending")]
    )
    (met,) = steps.meet(recipe, by_bucket.to_batches())
    assert sorted(zip(*(column.to_pylist() for column in met.columns), strict=True)) == [
        (0, 2),
        (1, 4),
    ]


def rows_of(batches):
    columns = pa.Table.from_batches(batches).columns if batches else []
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 3)),
        max_size=30,
        unique_by=itemgetter(0),
    ),
    st.integers(1, 40),
    st.sampled_from([1, 10, 10**6]),
    st.booleans(),
)
def test_packed_rows_are_what_rows_one_by_one_are(rows, batch, at_once, two_sided):
    """Numbers of any size, and 4 items that may be equal; however they are cut."""
    recipe = simdb.Recipe.of(SETS, bands=2, rows=1, seed=2)
    items = [[4 * item, 4 * item + 1] for _, item in rows]
    given = pa.table({"number": [n for n, _ in rows], "item": pa.array(items, ELEMENTS)})
    signed = pa.Table.from_batches(list(steps.sign(recipe, given.to_batches())), steps.SIGNED.arrow)
    batches = signed.to_batches(max_chunksize=batch)

    def through(pack, step, **options):
        packed = pa.Table.from_batches(list(pack(recipe, batches, parts=64)), steps.PACKED.arrow)
        ordered = packed.sort_by("part").to_batches(max_chunksize=batch)
        return rows_of(list(step(recipe, ordered, **options)))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packing, "AT_ONCE", at_once)
        shared = through(steps.pack_entries, steps.shared_packed)
        boundary = 2**62 if two_sided else None
        copies = through(steps.pack_digests, steps.copies_packed, boundary=boundary)
    entries = pa.Table.from_batches(list(steps.entries(recipe, batches)), steps.ENTRIES.arrow)
    whole = entries.sort_by("bucket").to_batches()
    assert shared == rows_of(list(steps.shared(recipe, whole)))
    firsts: dict[Any, int] = {}
    expected = []
    for number, item in sorted(rows):
        of = firsts.setdefault((item, two_sided and number >= 2**62), number)
        expected += [(number, of)] * (number != of)
    assert copies == expected


def test_only_sets_of_elements_are_signed_element_by_element():
    others = simdb.Text(), simdb.Bits(64, "tanimoto"), simdb.WeightedSet(), simdb.Bag("maximum")
    for kind in others:
        recipe = simdb.Recipe.of(kind)
        for step in (steps.partial_minima, steps.merge_minima):
            with pytest.raises(ConfigurationError, match="element by element"):
                list(step(recipe, []))
    recipe = simdb.Recipe.of(SETS, cascade=simdb.And(2, simdb.Or(4)))
    with pytest.raises(ConfigurationError, match="not those of a cascade"):
        list(steps.partial_minima(recipe, []))


RECIPE = simdb.Recipe.of(SETS, threshold="0.5", seed=1)
ORDERED = steps.order_of(RECIPE, np.empty(0, np.int64))
STEPS: list[Any] = [
    *(steps.sign, steps.encode, steps.entries, steps.shared, steps.meet, steps.connect),
    *(steps.verify, steps.dedupe, steps.groups, steps.contract, steps.sample),
    *(steps.partial_minima, steps.merge_minima, steps.shared_packed, steps.copies_packed),
    *(partial(step, parts=64) for step in (steps.pack_entries, steps.pack_digests)),
    partial(steps.spread, blocks={}),
]


@pytest.mark.parametrize("given", [pa.table({"number": [0]}), [pa.table({"number": [0]})], [1], 3])
def test_what_is_no_stream_of_record_batches_is_refused_by_every_step(given):
    of_postings = (partial(step, ORDERED) for step in (steps.post, steps.meet_posted))
    for step in (*(partial(step, RECIPE) for step in STEPS), *of_postings):
        with pytest.raises(WrongTypeError, match=r"record batches, as table.to_batches\(\) makes"):
            list(step(given))
    (batch,) = pa.table({"number": [0]}).to_batches()
    with pytest.raises(WrongTypeError, match="not RecordBatch"):
        list(steps.sign(RECIPE, batch))


def test_what_is_no_recipe_is_refused_by_the_steps_that_need_one():
    (batch,) = pa.table({"number": [0], "item": [[1]]}).to_batches()
    others: tuple[Any, ...] = (SETS, ORDERED, RECIPE.to_json())
    for step in (steps.sign, steps.encode, steps.entries, steps.verify, steps.sample):
        for wrong in others:
            with pytest.raises(WrongTypeError, match=r"must be a simdb\.Recipe, not"):
                list(step(wrong, [batch]))
    of_postings: tuple[Any, ...] = (steps.post, steps.meet_posted)
    for step in of_postings:
        with pytest.raises(WrongTypeError, match="takes an Ordered, as order_of makes it"):
            list(step(RECIPE, [batch]))
    with pytest.raises(WrongTypeError, match=r"must be a simdb\.Recipe"):
        steps.order_of(others[0], np.empty(0, np.int64))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=40), st.integers(1, 4))
def test_contraction_in_ever_fewer_tasks_gives_the_components(edges, parts):
    recipe = simdb.Recipe.of(SETS, seed=1)
    sides = np.array(edges, np.int64).reshape(-1, 2).T
    vertices, labels = steps.components(*sides)
    known = [steps.LABELS.batch(*sides)]
    while parts:
        rows = pa.Table.from_batches(known)
        dealt = [rows.take(np.arange(part, rows.num_rows, parts)) for part in range(parts)]
        known = [one for part in dealt for one in steps.contract(recipe, part.to_batches())]
        known = known or [steps.LABELS.batch(np.empty(0, np.int64), np.empty(0, np.int64))]
        parts -= 1
    table = pa.Table.from_batches(known)
    found = dict(zip(table["number"].to_pylist(), table["label"].to_pylist(), strict=True))
    expected = dict(zip(vertices.tolist(), labels.tolist(), strict=True))
    assert found == {number: label for number, label in expected.items() if number != label}


@given(
    st.lists(st.integers(0, 6), max_size=40).map(sorted),
    st.integers(1, 9),
    st.sampled_from([1, 60, 10**6]),
)
@example([0, 1, 1, 1], 2, 1)  # whose second group goes on
def test_streams_are_cut_between_groups_only(keys, batch, most):
    table = pa.table({"key": np.array(keys, np.int64)})
    pieces = list(whole_groups(table.to_batches(max_chunksize=batch), "key", most))
    assert [key for piece in pieces for key in piece["key"].to_pylist()] == keys
    found = [set(piece["key"].to_pylist()) for piece in pieces]
    assert sum(map(len, found)) == len(set(keys))
    if most == batch == 1 and len(set(keys)) == len(keys):  # large groups are held longer
        assert len(pieces) >= len(keys) // 2


def test_a_group_of_more_than_two_gibibytes_is_refused(monkeypatch):
    # As Arrow gives a column of more than its offsets reach: in two pieces.
    cut = SimpleNamespace(to_batches=lambda: [1, 2])
    pieces = SimpleNamespace(combine_chunks=lambda: cut)
    table = SimpleNamespace(from_batches=lambda _: pieces)
    library = SimpleNamespace(Table=table)
    monkeypatch.setattr(streams, "arrow", SimpleNamespace(library=lambda: library))
    parts = pa.table({"key": [1, 2]}).to_batches(max_chunksize=1)
    with pytest.raises(UsageError, match="2 GiB"):
        joined(parts)


def test_an_item_that_is_missing_in_its_group_is_noticed():
    recipe = simdb.Recipe.of(SETS, seed=1)
    batch = steps.GATHERED.batch(
        np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([-1, 1]), pa.array([b"x", None])
    )
    with pytest.raises(UsageError, match="not in its group"):
        list(steps.verify(recipe, [batch]))


def test_a_recipe_and_an_order_can_be_sent():
    recipe = simdb.Recipe.of(simdb.Text(), threshold=0.7, seed=1)
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    ordered = steps.order_of(recipe, np.array([5, 5, 7]))
    assert pickle.loads(pickle.dumps(ordered)).frequent.tolist() == [5]


@pytest.mark.parametrize("step", [steps.sign, steps.encode])
def test_numbers_below_0_and_nulls_are_refused(step):
    for wrong, told in ((-3, "0 or more, not -3"), (None, "a number of a row is null")):
        table = pa.table({"number": pa.array([1, wrong], pa.int64()), "item": [[1], [2]]})
        with pytest.raises(UsageError, match=told):
            list(step(simdb.Recipe.of(SETS, seed=1), table.to_batches()))


@pytest.mark.parametrize(
    ("step", "columns"),
    [
        (steps.sign, steps.ITEMS.names),
        (steps.encode, steps.ITEMS.names),
        (steps.entries, ["number", "signature"]),
        (steps.shared, steps.ENTRIES.names),
        (steps.meet, steps.SHARED.names),
        (steps.connect, steps.SHARED.names),
        (partial(steps.pack_entries, parts=64), ["number", "signature"]),
        (steps.shared_packed, steps.PACKED.names),
        (partial(steps.pack_digests, parts=64), ["number", "digest"]),
        (steps.copies_packed, steps.PACKED.names),
        (steps.sample, ["item"]),
        (partial(steps.spread, blocks={1: 2}), steps.GATHERED.names),
        (steps.verify, steps.GATHERED.names),
        (steps.dedupe, ["group", "number", "item"]),
        (steps.groups, ["group", "number", "item"]),
        (steps.partial_minima, ["number", "element"]),
        (steps.merge_minima, steps.MINIMA.names),
        (steps.contract, [0, 1]),
    ],
)
def test_a_column_that_is_missing_is_told_with_those_there_are(step, columns):
    recipe = simdb.Recipe.of(SETS, seed=1)
    signed = next(steps.sign(recipe, pa.table({"number": [1], "item": [[1]]}).to_batches()))
    whole = {name: signed[name] for name in ("number", "digest", "signature")}
    whole |= {name: pa.array([1, 1]) for name in ("bucket", "group", "part", "right", "size")}
    whole |= {"number": pa.array([1, 2]), "element": pa.array([1, 2]), "item": pa.array([b""] * 2)}
    whole |= {name: pa.concat_arrays([signed[name]] * 2) for name in ("digest", "signature")}
    for missing in columns:
        kept = {name: column for name, column in whole.items() if name != missing}
        if isinstance(missing, int):
            kept = {} if missing == 0 else {"left": pa.array([1, 1])}
        batch = pa.RecordBatch.from_arrays([*kept.values()], names=[*kept])
        with pytest.raises(UsageError, match=f"have no column {missing!r}; they have"):
            list(step(recipe, [batch]))


def test_a_column_that_is_there_twice_or_holds_no_whole_numbers_is_told():
    recipe, ones = simdb.Recipe.of(SETS, seed=1), pa.array([[1]])
    for number in (pa.array([1.5]), pa.array(["a"])):
        batch = pa.RecordBatch.from_arrays([number, ones], names=["number", "item"])
        with pytest.raises(UsageError, match="'number' must hold whole numbers"):
            list(steps.sign(recipe, [batch]))
    twice = pa.RecordBatch.from_arrays(
        [pa.array([1]), ones, ones], names=["number", "item", "item"]
    )
    with pytest.raises(UsageError, match="have two columns 'item'"):
        list(steps.sign(recipe, [twice]))


@pytest.mark.parametrize(
    "edges", [([5, 6], [5]), ([0.5], [1.5]), ([[1]], [[2]]), (["a"], ["b"]), (3, 4)]
)
def test_edges_of_no_two_equal_columns_are_refused(edges: Any) -> None:
    with pytest.raises(simdb.WrongTypeError, match="edges must be two arrays of whole numbers"):
        steps.components(*edges)
    vertices, labels = steps.components([5, 6, 9], [6, 7, 9])  # type: ignore[arg-type]
    assert vertices.tolist() == [5, 6, 7, 9]
    assert labels.tolist() == [5, 5, 5, 9]


@pytest.mark.parametrize("by", [["key", "number"], ["key"], ["key", "-size", "number"]])
def test_postings_that_are_not_sorted_within_their_keys_are_refused(by):
    """Pairs would be missing."""
    recipe = simdb.Recipe.of(simdb.Set(), threshold=0.5, seed=1)
    sets = [[*range(place, place + size)] for place, size in enumerate((12, 6, 9, 7, 11, 8, 10))]
    table = pa.table({"number": range(7), "item": sets})
    items = pa.Table.from_batches(steps.encode(recipe, table.to_batches()))
    sample = pa.Table.from_batches(steps.sample(recipe, items.to_batches()))
    order = steps.order_of(recipe, sample["symbol"].to_numpy())
    posted = pa.Table.from_batches(steps.post(order, items.to_batches()))

    def met(names):
        orders = [(name.strip("-"), "descending" if "-" in name else "ascending") for name in names]
        batches = list(steps.meet_posted(order, posted.sort_by(orders).to_batches()))
        return pa.Table.from_batches(batches).group_by(["left", "right"]).aggregate([]).num_rows

    assert met(["key", "size", "number"]) == 14
    with pytest.raises(simdb.UsageError, match="not sorted by 'key', 'size' and 'number'"):
        met(by)


def test_edges_of_two_types_keep_their_digits_and_what_no_int64_holds_is_refused():
    """NumPy puts int64 and uint64 together as floats, of 53 bits."""
    left = np.array([2**53, 2**53 + 2])
    right: Any = np.array([2**53 + 1, 2**53 + 4], np.uint64)
    labels = {2**53: 2**53, 2**53 + 1: 2**53, 2**53 + 2: 2**53 + 2, 2**53 + 4: 2**53 + 2}
    for sides in ((left, right), (right, left), (left.astype(">i8"), right)):
        found = steps.components(*sides)
        assert dict(zip(*(side.tolist() for side in found), strict=True)) == labels
    edges = pa.record_batch({"left": left, "right": right})
    (stars,) = steps.contract(RECIPE, [edges])
    assert rows_of([stars]) == [(2**53 + 1, 2**53), (2**53 + 4, 2**53 + 2)]
    beyond: Any = np.array([1, 2**63], np.uint64)
    with pytest.raises(UsageError, match="has the number 9223372036854775808, which int64 cannot"):
        steps.components(left, beyond)
    for step in (steps.sign, steps.encode):
        rows = pa.record_batch({"number": beyond, "item": pa.array([[1], [2]])})
        with pytest.raises(UsageError, match="'number' has the number 9223372036854775808"):
            list(step(RECIPE, [rows]))


def test_digests_are_packed_whatever_the_type_of_numbers():
    digests = pa.array([b"x" * 16] * 2)
    packed = [
        list(
            steps.pack_digests(
                RECIPE,
                [pa.record_batch([pa.array([1, 2], kind), digests], names=["number", "digest"])],
                parts=64,
            )
        )
        for kind in (pa.int64(), pa.int32(), pa.uint8())
    ]
    assert rows_of(packed[0]) == rows_of(packed[1]) == rows_of(packed[2])


def packed_of(*rows: Any) -> Any:
    parts = np.full(len(rows), 7)
    return steps.PACKED.batch(parts, pa.array(rows, pa.binary()))


def test_packed_rows_that_are_not_whole_are_refused():
    signed = next(steps.sign(RECIPE, pa.table({"number": [1], "item": [[1, 2]]}).to_batches()))
    packs: tuple[Any, ...] = (steps.pack_entries, steps.pack_digests)
    takers = (steps.shared_packed, steps.copies_packed)
    of_both = [next(pack(RECIPE, [signed], parts=64))["entries"][0].as_py() for pack in packs]
    for step, good, other in zip(takers, of_both, of_both[::-1], strict=True):
        cut = (b"", good[:10], good[:24], good[:-1], good + b"x", bytes(24), b"\xff" * 60)
        for wrong in (*cut, other):
            told = f"row of part 7 has {len(wrong)} bytes, cut or not packed for this step"
            with pytest.raises(UsageError, match=told):
                list(step(RECIPE, [packed_of(good), packed_of(wrong)]))
        with pytest.raises(UsageError, match="'entries' is null where 'part' is 7"):
            list(step(RECIPE, [packed_of(good, None)]))
        of_texts = pa.record_batch({"part": [7], "entries": ["a"]})
        with pytest.raises(UsageError, match="'entries' must hold bytes, not string"):
            list(step(RECIPE, [of_texts]))
        by_name = pa.record_batch({"part": [7], "entries": pa.array([good]).dictionary_encode()})
        assert list(step(RECIPE, [by_name])) == list(step(RECIPE, [packed_of(good)]))


def test_digests_signatures_and_minima_of_another_length_are_told_by_their_row():
    signed = next(steps.sign(RECIPE, pa.table({"number": [1], "item": [[1]]}).to_batches()))
    for name, step in (
        ("digest", partial(steps.pack_digests, parts=64)),
        ("signature", steps.entries),
        ("minima", steps.merge_minima),
    ):
        good = bytes(840) if name == "minima" else signed[name][0].as_py()
        for wrong in (good[:-1], good + b"x", b"", 2 * good):
            rows = pa.record_batch({"number": [1, 5], name: [good, wrong]})
            told = f"'{name}' has a length of {len(wrong):,} bytes where 'number' is 5, not the"
            with pytest.raises(UsageError, match=told):
                list(step(RECIPE, [rows]))
        with pytest.raises(UsageError, match=f"'{name}' must hold bytes, not int64"):
            list(step(RECIPE, [pa.record_batch({"number": [1], name: [1]})]))
    rows = pa.record_batch({"number": [5], "minima": pa.array([None], pa.binary())})
    with pytest.raises(UsageError, match="'minima' is null where 'number' is 5"):
        list(steps.merge_minima(RECIPE, [rows]))


def test_items_that_are_null_or_no_bytes_are_told_by_their_row():
    item = next(steps.encode(RECIPE, pa.table({"number": [1], "item": [[1]]}).to_batches()))
    some: tuple[Any, ...] = (steps.verify, steps.dedupe, steps.groups, steps.sample)
    every: list[Any] = [*(partial(step, RECIPE) for step in some), partial(steps.post, ORDERED)]
    for items, told in (
        (pa.array([item["item"][0].as_py(), None, None]), "'item' is null where 'number' is 5"),
        (pa.array(["a", "b", None]), "'item' must hold bytes, not string"),
    ):
        columns = {"group": [0, 0, 0], "number": [4, 5, 4], "right": [-1, -1, 5], "item": items}
        rows = pa.record_batch(columns)
        for step in every:
            kept = rows if step.func is steps.verify else rows.slice(0, 2)
            with pytest.raises(UsageError, match=told):
                list(step([kept]))


@pytest.mark.parametrize("wrong", [["1", "2"], [1.5], None, [None], 3, [[1, 2]], "12"])
def test_symbols_that_are_no_whole_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(WrongTypeError, match="symbols must be an array of whole numbers, not"):
        steps.order_of(RECIPE, wrong)
    assert steps.order_of(RECIPE, pa.chunked_array([[3], [3, 4]])).frequent.tolist() == [3]


def test_numbers_below_0_are_refused_wherever_rows_come_in():
    signed = next(steps.sign(RECIPE, pa.table({"number": [1], "item": [[1]]}).to_batches()))
    rows = {name: signed[name] for name in ("digest", "signature")}
    batch = pa.record_batch(rows | {"number": [-3], "element": [1]})
    packs = [partial(step, parts=64) for step in (steps.pack_entries, steps.pack_digests)]
    every: Any = (steps.partial_minima, steps.entries, *packs)
    for step in every:
        with pytest.raises(UsageError, match="0 or more, not -3"):
            list(step(RECIPE, [batch]))
    some: tuple[Any, ...] = (0, -1, None, "a")
    for parts in some:
        with pytest.raises(ConfigurationError, match="parts must be a whole number between 1"):
            list(steps.pack_digests(RECIPE, [signed], parts=parts))


@pytest.mark.parametrize(("position", "size"), [(0, 3), (4, 3), (1, -1)])
def test_postings_beyond_their_sets_are_refused(position, size):
    columns = (np.array(column) for column in ([1, 1], [1, 2], [1, position], [3, size], [0, 0]))
    with pytest.raises(UsageError, match="'position' that is not from 1 to its 'size'"):
        list(steps.meet_posted(ORDERED, [steps.POSTINGS.batch(*columns)]))


def test_batches_of_a_task_that_differ_are_refused():
    batches = [
        pa.record_batch({"bucket": pa.array([1], kind)}) for kind in (pa.int64(), pa.int32())
    ]
    with pytest.raises(UsageError, match="the batches of a task cannot be put together"):
        list(steps.shared(RECIPE, batches))


def test_views_of_texts_and_bytes_are_taken_as_what_they_view():
    """As polars hands them over; pyarrow cannot pick rows from them."""
    items = pa.table({"number": [3, 1, 2], "item": [["a"], ["a", "b"], ["a"]]})
    (signed,) = steps.sign(RECIPE, items.to_batches())
    batches = [signed, signed.slice(1, 1)]
    views = [
        pa.record_batch(
            {name: one[name].cast(pa.binary_view()) for name in ("digest", "signature")}
        ).append_column("number", one["number"])
        for one in batches
    ]
    packs = [partial(step, parts=64) for step in (steps.pack_entries, steps.pack_digests)]
    every: Any = (steps.entries, *packs)
    for step in every:
        assert rows_of(list(step(RECIPE, views))) == rows_of(list(step(RECIPE, batches)))
    elements = pa.record_batch({"number": [3, 1, 1], "element": pa.array(["a", "b", "a"])})
    viewed = elements.set_column(1, "element", elements["element"].cast(pa.string_view()))
    minima = [rows_of(list(steps.partial_minima(RECIPE, [one]))) for one in (elements, viewed)]
    assert minima[0] == minima[1]


def test_shared_and_spread_give_their_schema_whatever_the_types_of_what_they_take():
    small = pa.array([5, 5, 6], pa.int32())
    (entries,) = steps.shared(RECIPE, [pa.record_batch({"number": [1, 2, 3], "bucket": small})])
    assert entries.schema == steps.ENTRIES.arrow
    assert rows_of([entries]) == [(5, 1), (5, 2)]
    columns = {"item": pa.array([b"x", b"y", None], pa.large_binary()), "right": [-1, -1, 2]}
    rows = pa.record_batch(columns | {"number": pa.array([1, 2, 1], pa.uint64()), "group": small})
    for blocks in ({}, {5: 2}, {5: 2, 6: 2}):
        spread = list(steps.spread(RECIPE, [rows], blocks=blocks))
        assert {batch.schema for batch in spread} == {steps.GATHERED.arrow}


@pytest.mark.parametrize("step", [steps.meet, steps.connect])
def test_buckets_of_another_recipe_than_the_signatures_are_refused(step):
    other = simdb.Recipe.of(SETS, threshold="0.5", seed=2)
    table = pa.table({"number": [1, 2], "item": [[1, 2], [1, 2]]})
    (signed,) = steps.sign(other, table.to_batches())
    shared = steps.SHARED.batch(np.array([7, 7]), np.array([1, 2]), signed["signature"])
    with pytest.raises(UsageError, match="they are of two recipes"):
        list(step(other, [shared]))
