"""Pairs, joins, groups and dedupe of frames; the plans are those of ``simdb.steps.reference``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from simdb import arrow, steps
from simdb.arguments import require_whole
from simdb.errors import BadItemError, ConfigurationError, Remedy, UsageError, WrongTypeError
from simdb.exact.thresholds import ThresholdLike
from simdb.kinds import Kind
from simdb.recipe import Recipe, require_recipe
from simdb.spark import large
from simdb.spark.frames import OnBatches, Stages, folder_of, literal, mapped, together
from simdb.spark.sessions import column, functions, plain_errors
from simdb.steps.graph import PAIRS_OF_TASK, blocks_of
from simdb.steps.posting import Ordered
from simdb.steps.schemas import Schema
from simdb.steps.streams import numbers_of
from simdb.steps.verifying import told

Guarantee = Literal["probable", "exact"]
EDGES_ON_DRIVER = 50_000_000  # 16 bytes each; beyond, components are contracted by tasks
CONTRACTED_IN = 64  # tasks at first, and a quarter of them each time
SAMPLED = 20_000  # items, for an order of symbols
LISTED = 3  # keys in a message
MOST_PAIRS = 1_000_000_000
_WHOLE = ("bigint", "int", "smallint", "tinyint")
_SPAN = "least bigint, most bigint, rises boolean"


def pairs(
    frame: Any,
    kind: Kind | None = None,
    *,
    key: str,
    item: str,
    work: str,
    threshold: ThresholdLike | Literal["default"] | None = "default",
    max_distance: ThresholdLike | None = None,
    guarantee: Guarantee = "probable",
    seed: int | None = None,
    recipe: Recipe | None = None,
    order: str | None = None,
    on_bad: Literal["error", "skip"] = "error",
    most: int = MOST_PAIRS,
) -> Any:
    """Find all similar pairs of a frame: what ``Collection.pairs`` of its rows gives.

    Args:
        frame: a DataFrame of Spark.
        kind: what the items are; with ``threshold``, ``max_distance`` and ``seed`` as for
            ``Database.collection``. Or a ``recipe``, which has all of it.
        key, item: the names of its columns. Keys are whole numbers or texts, and there once.
        work: a folder for what is made on the way, wherever Spark can write. A run that was ended
            goes on there; it belongs to one input and one recipe.
        guarantee: ``"probable"`` by buckets, or ``"exact"`` by postings: of texts, sets, bags, and
            bits by Tanimoto similarity.
        order: the column that says which of two rows is the earlier, the left one of a pair; the
            key without it.
        on_bad: ``"skip"`` leaves out items that cannot be stored, and ``problems`` tells of them.
        most: pairs that may come of copies: equal items are joined once, and the pairs of all of
            them written out at the end.

    Returns:
        A DataFrame: ``left``, ``right`` (keys), ``similarity`` or ``distance``.

    Raises:
        ConfigurationError: the recipe cannot be served, or ``work`` holds another run.
        UsageError: a key is null, or there twice.
        BadItemError: an item cannot be stored.
        WrongTypeError: ``frame`` is no DataFrame of Spark, ``work`` no path, or the recipe none.
    """
    made = _recipe(recipe, kind, threshold, max_distance, seed)
    require_whole("most", most, 0, optional=False)
    run = _Run.of([frame], made, guarantee, (key, item, order), work=work, on_bad=on_bad)
    return _pairs(run, most)


def join(
    left: Any,
    right: Any,
    kind: Kind | None = None,
    *,
    key: str,
    item: str,
    work: str,
    threshold: ThresholdLike | Literal["default"] | None = "default",
    max_distance: ThresholdLike | None = None,
    guarantee: Guarantee = "probable",
    seed: int | None = None,
    recipe: Recipe | None = None,
    on_bad: Literal["error", "skip"] = "error",
    most: int = MOST_PAIRS,
) -> Any:
    """Find all similar pairs of a left and a right row, as ``Collection.join`` does.

    Both frames have the columns that are named; the keys of each are its own. See ``pairs``.
    """
    made = _recipe(recipe, kind, threshold, max_distance, seed)
    require_whole("most", most, 0, optional=False)
    run = _Run.of([left, right], made, guarantee, (key, item, None), work=work, on_bad=on_bad)
    return _pairs(run, most)


def groups(
    frame: Any,
    kind: Kind | None = None,
    *,
    key: str,
    item: str,
    work: str,
    threshold: ThresholdLike | Literal["default"] | None = "default",
    max_distance: ThresholdLike | None = None,
    guarantee: Guarantee = "probable",
    seed: int | None = None,
    recipe: Recipe | None = None,
    order: str | None = None,
    on_bad: Literal["error", "skip"] = "error",
) -> Any:
    """Find the groups of rows that are connected by similar pairs, as ``Collection.groups`` does.

    Returns:
        A DataFrame: ``key`` and ``group``, the key of the earliest of its group, of all rows that
        are similar to another. See ``pairs``; there is no list of pairs, so any number of them.
    """
    made = _recipe(recipe, kind, threshold, max_distance, seed)
    run = _Run.of([frame], made, guarantee, (key, item, order), work=work, on_bad=on_bad)
    found = run.decided("groups", large.groups, steps.GROUPED)
    f = functions()
    copies, label = run.copies, f.coalesce("first", "of").alias("first")
    grouped = found.withColumnRenamed("number", "of")
    own = copies.join(grouped, "of", "left").select("number", label)
    firsts = copies.select(f.col("of").alias("number"), f.col("of").alias("first")).distinct()
    alone = firsts.join(found.select("number"), "number", "left_anti")
    whole = found.unionByName(own).unionByName(alone)
    return run.keyed(whole, number="key", first="group").select("key", "group")


def dedupe(
    frame: Any,
    kind: Kind | None = None,
    *,
    key: str,
    item: str,
    order: str,
    work: str,
    threshold: ThresholdLike | Literal["default"] | None = "default",
    max_distance: ThresholdLike | None = None,
    guarantee: Guarantee = "probable",
    seed: int | None = None,
    recipe: Recipe | None = None,
    on_bad: Literal["error", "skip"] = "error",
) -> Any:
    """Find the rows that ``Collection.dedupe`` of the frame in the given order removes.

    A row is removed if it is similar enough to a row *kept* before it. Rows of one place in the
    order are taken by their keys.

    Returns:
        A DataFrame: ``key``, ``duplicate_of``, ``similarity`` or ``distance``; one row for each
        that is removed. ``frame.join(removed, on, "left_anti")`` is what is kept. See ``pairs``.
    """
    made = _recipe(recipe, kind, threshold, max_distance, seed)
    run = _Run.of([frame], made, guarantee, (key, item, order), work=work, on_bad=on_bad)
    found = run.decided("dropped", large.dedupe, steps.DROPPED)
    f = functions()
    dropped = found.withColumnRenamed("number", "of")
    copies = run.copies.join(dropped, "of", "left").select(
        "number",
        f.coalesce("target", "of").alias("target"),
        f.coalesce("value", f.lit(run.alike)).alias("value"),
    )
    whole = run.keyed(found.unionByName(copies), number="key", target="duplicate_of")
    return whole.select("key", "duplicate_of", f.col("value").alias(run.measured))


def sign(frame: Any, recipe: Recipe, *, key: str, item: str) -> Any:
    """Return ``key`` and ``signature`` of each row, as ``Collection.signed_reader`` has them.

    A bad item has no signature and a ``problem``.
    """
    steps.require_served(require_recipe(recipe))
    require_columns(frame, key, item)
    found = _signed(frame, recipe, (key, item, key), exact=False, side=0)
    return found.select("key", "signature", "problem")


def problems(spark: Any, work: str) -> Any:
    """Return ``key`` and ``problem`` of the rows that a run below a folder has left out."""
    with plain_errors():
        found = spark.read.parquet(literal(f"{folder_of(work)}/signed"))
    return found.where("problem is not null").select("key", "problem")


# -- one run ---------------------------------------------------------------------------------------


@dataclass
class _Run:
    """A question under way: its stages, and the frames that all plans begin with.

    Attributes:
        recipe, exact: what is asked.
        stages: where frames are written.
        items: (number, item) as they came.
        signed: (number, key, digest, signature), of good items.
        boundary: of a join, the first number of the right side.
        copies: (number, of): items that equal an earlier one, and the first of these.
    """

    recipe: Recipe
    exact: bool
    stages: Stages
    items: Any
    signed: Any
    boundary: int | None
    copies: Any = None

    @classmethod
    def of(
        cls,
        frames: list[Any],
        recipe: Recipe,
        guarantee: Guarantee,
        columns: tuple[str, str, str | None],
        *,
        work: str,
        on_bad: str,
    ) -> _Run:
        """Sign all items, find their copies, and refuse what cannot be answered."""
        exact = _is_exact(guarantee)
        require_choice(on_bad)
        steps.require_served(recipe, exact=exact)
        f = functions()
        key, item, order = columns
        named: tuple[str, str, str] = (key, item, order or key)
        for frame in frames:
            require_columns(frame, *named)
            _require_order(frame, named[2])
        stages = Stages(
            frames[0].sparkSession,
            work,
            f"{recipe.fingerprint} {guarantee} {' '.join(named)} {len(frames)}",
        )

        def all_signed() -> Any:
            _require_one_type(frames, key)
            for frame in frames:
                require_keys(frame, key)
            whole, *others = (
                _signed(frame, recipe, named, exact=exact, side=side)
                for side, frame in enumerate(frames)
            )
            for other in others:
                whole = whole.unionByName(other)
            return whole

        signed = stages("signed", all_signed)
        require_good(signed, skip=on_bad == "skip")
        by_place = len(frames) == 1 and are_numbers(signed, unique=named[2] == key)
        if by_place:
            signed = signed.withColumn("number", f.col("place").cast("bigint"))
        else:
            ordered = signed.drop("signature", "digest", "problem")
            places = ("side", "place", "key")
            rows = ordered.repartitionByRange(*places).sortWithinPartitions(*places)
            numbers = stages(
                "numbers",
                lambda: rows.select("side", "key", f.monotonically_increasing_id().alias("number")),
            )
            signed = stages("numbered", lambda: signed.join(numbers, ["side", "key"]))
        boundary = None
        if len(frames) > 1:
            (row,) = signed.where("side = 1").agg(f.min("number").alias("least")).collect()
            boundary = 2**62 if row["least"] is None else row["least"]
        good = signed.where("problem is null")
        parts = [
            frame.select(
                f.lit(side).alias("side"), column(key).alias("key"), column(item).alias("item")
            )
            for side, frame in enumerate(frames)
        ]
        if by_place:
            number = column(named[2]).cast("bigint").alias("number")
            items = frames[0].select(number, column(item).alias("item"))
        else:
            whole, *others = parts
            for other in others:
                whole = whole.unionByName(other)
            numbered = good.select("side", "key", "number")
            items = whole.join(numbered, ["side", "key"]).select("number", "item")
        run = cls(recipe, exact, stages, items, good, boundary)
        run.copies = stages("copies", run._copies)
        return run

    @property
    def measured(self) -> str:
        """What values are called."""
        return "distance" if self.recipe.kind.is_distance else "similarity"

    @property
    def alike(self) -> float:
        """The value of copies."""
        return float(told(self.recipe, np.array([self.recipe.kind.identical_value]))[0])

    @property
    def firsts(self) -> Any:
        """What is signed of items, of each class of copies the first."""
        return self.signed.join(self.copies, "number", "left_anti")

    def mapped(
        self,
        frame: Any,
        step: Callable[..., Iterator[Any]],
        schema: Schema,
        by: Ordered | None = None,
        **options: Any,
    ) -> Any:
        """Return what a step of the recipe makes of a frame."""
        return mapped(frame, step, schema, by or self.recipe, **options)

    def encoded(self) -> Any:
        """Return the canonical forms of the items that take part."""
        some = self.items.join(self.copies, "number", "left_anti")
        return self.mapped(some.select("number", "item"), steps.encode, steps.ITEMS)

    def candidates(self) -> Any:
        """Return candidate pairs, each once, as a stage."""
        if self.exact:
            return self.stages("candidates", self._posted)
        return self.stages(
            "candidates",
            lambda: self.mapped(self._shared(), steps.meet, steps.PAIRS, boundary=self.boundary),
        )

    def _copies(self) -> Any:
        """Return the items that equal an earlier one of their side, and the first of these."""
        rows = self.signed.where("digest is not null").select("number", "digest")
        packed = self._packed(rows, steps.pack_digests, 1)
        return self.mapped(packed, steps.copies_packed, steps.COPIES, boundary=self.boundary)

    def _shared(self) -> Any:
        """Return the entries of buckets with company, with signatures, whole buckets a task."""
        rows = self.firsts.select("number", "signature")

        def made() -> Any:
            packed = self._packed(rows, steps.pack_entries, self.recipe.bands)
            return self.mapped(packed, steps.shared_packed, steps.ENTRIES)

        # A stage, whose size is known: where it is small, signatures stay where they are.
        signed = self.stages("shared", made).join(rows, "number").select(*steps.SHARED.names)
        return together(signed, "bucket", "number")

    def _packed(self, rows: Any, pack: Callable[..., Iterator[Any]], each: int) -> Any:
        """Return rows packed, whole parts a task, of so many entries each."""
        parts = steps.parts_of(self.signed.count() * max(1, each))
        return together(self.mapped(rows, pack, steps.PACKED, parts=parts), "part")

    def _posted(self) -> Any:
        f = functions()
        rows = self.signed.count()
        items = self.encoded()
        some = items.sample(min(1.0, SAMPLED / max(1, rows)), seed=1)
        symbols = self.mapped(some, steps.sample, steps.SYMBOLS).toArrow()
        ordered = steps.order_of(self.recipe, numbers_of(symbols, "symbol"))
        posted = self.mapped(items, steps.post, steps.POSTINGS, ordered)
        rows_of_keys = together(posted, "key", "size", "number")
        met = self.mapped(
            rows_of_keys, steps.meet_posted, steps.PAIRS, ordered, boundary=self.boundary
        )
        return met.select(f.col("left"), f.col("right")).distinct()

    def labels(self, name: str, edges: Any) -> Any:
        """Return the component of every vertex of edges, as a stage."""
        spark = self.stages.spark

        def on_driver() -> Any:
            table = edges.select("left", "right").toArrow()
            sides = (numbers_of(table, name) for name in ("left", "right"))
            found = steps.LABELS.batch(*steps.components(*sides))
            return spark.createDataFrame(arrow.library().Table.from_batches([found]))

        def made() -> Any:
            if edges.count() <= EDGES_ON_DRIVER:
                return on_driver()
            return self._contracted(name, edges)

        return self.stages(name, made)

    def _contracted(self, name: str, edges: Any) -> Any:
        """Find components by tasks: local ones to stars, in ever fewer tasks."""
        f = functions()
        known = edges.select(f.col("left").alias("number"), f.col("right").alias("label"))
        parts = CONTRACTED_IN
        while parts:
            dealt = known.repartition(parts, "number")
            made = partial(self.mapped, dealt, steps.contract, steps.LABELS)
            known = self.stages(f"{name}-{parts}", made)
            parts //= 4
        roots = known.select(f.col("label").alias("number"), "label").distinct()
        return known.unionByName(roots)

    def gathered(self, labels: Any) -> Any:
        """Return the items of components as rows of ``steps.GATHERED``."""
        f = functions()
        chosen = self.items.join(labels, "number").select("label", "number", "item")
        encoded = self.mapped(chosen.select("number", "item"), steps.encode, steps.ITEMS)
        return encoded.join(labels, "number").select(
            f.col("label").alias("group"),
            "number",
            f.lit(-1).cast("bigint").alias("right"),
            "item",
        )

    def decided(self, name: str, step: Callable[..., Iterator[Any]], schema: Schema) -> Any:
        """Return what a step decides about whole components, as a stage."""
        if self.exact:
            edges = self.candidates()
        else:
            edges = self.stages(
                "edges", lambda: self.mapped(self._shared(), steps.connect, steps.PAIRS)
            )
        labels = self.labels("labels" if self.exact else "connected", edges)
        return self.stages(
            name,
            lambda: self.mapped(
                together(self.gathered(labels), "group", "number"), step, schema, exact=self.exact
            ),
        )

    def keyed(self, frame: Any, **columns: str) -> Any:
        """Put keys in the place of numbers: columns of the frame, and what they become."""
        f = functions()
        keys = self.signed.select("number", "key")
        for number, name in columns.items():
            own = keys.select(f.col("number").alias(number), f.col("key").alias(f"{name}_key"))
            frame = frame.join(own, number).drop(number).withColumnRenamed(f"{name}_key", name)
        return frame


def _pairs(run: _Run, most: int) -> Any:
    f = functions()
    candidates = run.candidates()

    def similar() -> Any:
        labels = run.labels("labels", candidates)
        of_left = labels.withColumnRenamed("number", "left")
        nothing = f.lit(None).cast("binary").alias("item")
        edges = candidates.join(of_left, "left").select(
            f.col("label").alias("group"), f.col("left").alias("number"), "right", nothing
        )
        gathered = run.gathered(labels).unionByName(edges)
        counts = edges.groupBy("group").count().where(f"count > {PAIRS_OF_TASK}").collect()
        if counts:
            blocks = {row["group"]: blocks_of(row["count"]) for row in counts}
            gathered = run.mapped(gathered, steps.spread, steps.GATHERED, blocks=blocks)
        return run.mapped(together(gathered, "group"), steps.verify, steps.SIMILAR)

    found = run.stages("similar", similar)
    whole = _expanded(run, found, most)
    keyed = run.keyed(whole, left="left_", right="right_")
    return keyed.select(
        f.col("left_").alias("left"),
        f.col("right_").alias("right"),
        f.col("value").alias(run.measured),
    )


def _expanded(run: _Run, found: Any, most: int) -> Any:
    """Return the pairs of all copies, of the pairs of their firsts."""
    f = functions()
    firsts = run.copies.select(f.col("of").alias("number"), "of").distinct()
    members = run.copies.unionByName(firsts)
    sizes = members.groupBy("of").agg(f.count("number").alias("size"))
    one, other = (
        sizes.select(f.col("of").alias(side), f.col("size").alias(f"{side}_size"))
        for side in ("left", "right")
    )
    sized = found.join(one, "left", "left").join(other, "right", "left")
    across = sized.select(
        f.sum(f.coalesce("left_size", f.lit(1)) * f.coalesce("right_size", f.lit(1))).alias("n")
    )
    within = sizes.select(f.sum(f.expr("size * (size - 1) div 2")).alias("n"))
    counts = [row["n"] or 0 for row in across.unionByName(within).collect()]
    if run.boundary is not None:
        counts[1] = 0
    if sum(counts) > most:
        raise ConfigurationError(
            f"there are {sum(counts):,} pairs, {counts[1]:,} of them of items that are equal, more "
            f"than most={most:,}: dedupe first, ask for groups, or permit more"
        )
    left, right = (
        members.select(f.col("of").alias(side), f.col("number").alias(f"{side}_member"))
        for side in ("left", "right")
    )
    written = found.join(left, "left", "left").join(right, "right", "left")
    ends = f.coalesce("left_member", "left"), f.coalesce("right_member", "right")
    whole = written.select(f.least(*ends).alias("left"), f.greatest(*ends).alias("right"), "value")
    if run.boundary is not None:
        return whole
    a, b = (members.select("of", f.col("number").alias(side)) for side in ("left", "right"))
    equal = a.join(b, "of").where("left < right").select("left", "right")
    return whole.unionByName(equal.withColumn("value", f.lit(run.alike)))


# -- what comes in ---------------------------------------------------------------------------------


def _recipe(
    recipe: Recipe | None,
    kind: Kind | None,
    threshold: ThresholdLike | Literal["default"] | None,
    max_distance: ThresholdLike | None,
    seed: int | None,
) -> Recipe:
    if recipe is None:
        if kind is None:
            raise UsageError("give what the items are: a kind, or a recipe")
        if seed is None:
            raise UsageError(
                "give a recipe, or a seed: with a secret that is drawn anew a run that was ended "
                "could not go on"
            )
        return Recipe.of(kind, threshold=threshold, max_distance=max_distance, seed=seed)
    if kind is not None or max_distance is not None or seed is not None or threshold != "default":
        raise UsageError("a recipe has kind, bound and secret: give none of them beside it")
    return require_recipe(recipe)


def _is_exact(guarantee: str) -> bool:
    if guarantee not in ("probable", "exact"):
        raise UsageError(f"guarantee must be 'probable' or 'exact', not {guarantee!r}")
    return guarantee == "exact"


def _require_frame(frame: Any) -> None:
    """Raise WrongTypeError unless a table is one of Spark."""
    if not hasattr(frame, "sparkSession"):
        kind = type(frame)
        raise WrongTypeError(
            f"a frame must be a DataFrame of Spark, not {kind.__module__}.{kind.__qualname__}; "
            "spark.createDataFrame makes one"
        )


def require_columns(frame: Any, key: str, *others: str) -> None:
    """Raise UsageError unless a frame has columns, the first of them one of keys."""
    _require_frame(frame)
    absent = [name for name in (key, *others) if name not in frame.columns]
    if absent:
        raise UsageError(f"there is no column {absent[0]!r}; there are: {', '.join(frame.columns)}")
    of_keys = dict(frame.dtypes)[key]
    if of_keys not in (*_WHOLE, "string"):
        raise UsageError(f"keys are whole numbers or texts: {key!r} is {of_keys}")


def _require_order(frame: Any, name: str) -> None:
    """Raise UsageError for a column by which Spark cannot sort."""
    kind = dict(frame.dtypes)[name]
    if re.search(r"\b(map<|variant\b)", kind):
        raise UsageError(f"rows cannot be ordered by {name!r}: it is {kind}")


def require_choice(on_bad: object) -> None:
    """Raise UsageError unless it is said what becomes of bad items."""
    if on_bad not in ("error", "skip"):
        raise UsageError(f"on_bad must be 'error' or 'skip', not {on_bad!r}")


def require_keys(frame: Any, key: str) -> None:
    """Raise UsageError for keys that are null, or there twice."""
    f = functions()
    keys = frame.select(column(key).alias("key"))
    # Hashes are quicker to count than texts; where none is there twice, no key is.
    hashes = f.countDistinct(f.when(f.col("key").isNotNull(), f.xxhash64("key")))
    (row,) = keys.agg(f.count(f.lit(1)).alias("rows"), hashes.alias("hashes")).collect()
    if row["rows"] == row["hashes"]:
        return
    counts = keys.groupBy("key").count()
    wrong = counts.where("key is null or count > 1").limit(LISTED).collect()
    if not wrong:
        return
    if any(row["key"] is None for row in wrong):
        raise UsageError(f"the key {key!r} of a row is null: every row needs one of its own")
    shown = ", ".join(repr(row["key"]) for row in wrong)
    raise UsageError(f"keys are there more than once: {shown}; every row needs one of its own")


def _require_one_type(frames: Sequence[Any], key: str) -> None:
    """Raise UsageError for keys that are texts in one frame and numbers in another.

    Spark would make numbers of the texts, of several the same one.
    """
    types = [frame.select(column(key).alias("key")).dtypes[0][1] for frame in frames]
    if len({name == "string" for name in types}) > 1:
        raise UsageError(
            f"the keys {key!r} are {' in one frame and '.join(types)} in the other: cast them to "
            "one type"
        )


def require_good(signed: Any, *, skip: bool) -> None:
    """Raise BadItemError for items that cannot be stored, unless they are skipped."""
    if skip:
        return
    wrong = signed.where("problem is not null").select("key", "problem")
    found = wrong.limit(LISTED).collect()
    if found:
        shown = "; ".join(f"{row['key']!r}: {row['problem']}" for row in found)
        error = BadItemError(f"{wrong.count():,} items cannot be stored; of the key {shown}")
        raise error.helped_by([Remedy("on_bad", "skip", "leaves them out")])


def _signed(
    frame: Any, recipe: Recipe, columns: tuple[str, str, str], *, exact: bool, side: int
) -> Any:
    """Return key, side, place, digest, signature and problem of each row."""
    f = functions()
    rows = frame.select(*(column(name).alias(f"_{n}") for n, name in enumerate(columns)))
    kinds = dict(rows.dtypes)
    schema = (
        f"key {kinds['_0']}, place {kinds['_2']}, digest binary, signature binary, problem string"
    )
    signed = rows.mapInArrow(OnBatches(sign_with_keys, recipe, exact=exact), schema)
    return signed.withColumn("side", f.lit(side))


def sign_with_keys(recipe: Recipe, batches: Any, *, exact: bool) -> Iterator[Any]:
    """Sign (key, item, place); the step's columns, with key and place in that of a number."""
    library = arrow.library()
    for batch in batches:
        if not batch.num_rows:
            continue
        key, item, place = batch.columns
        numbers = arrow.numbers(np.arange(batch.num_rows))
        given = library.RecordBatch.from_arrays([numbers, item], ["number", "item"])
        for signed in steps.sign(recipe, [given], exact=exact):
            names = ["digest", "signature", "problem"]
            found = [signed.column(name) for name in names]
            yield library.RecordBatch.from_arrays([key, place, *found], ["key", "place", *names])


def are_numbers(signed: Any, *, unique: bool) -> bool:
    """Whether places can be numbers as they are: whole, not negative, each there once.

    Args:
        signed: the rows.
        unique: they are keys, which are there once.
    """
    if dict(signed.dtypes)["place"] not in _WHOLE:
        return False
    f = functions()
    places = signed.select(f.col("place").cast("bigint").alias("place"))
    spans = sorted(map(tuple, places.mapInArrow(spans_of, _SPAN).collect()))
    if any(least < 0 for least, *_ in spans):
        return False
    # Those of files rise from row to row: then none is there twice, and nothing need be counted.
    rising = all(rises for *_, rises in spans)
    if unique or (rising and all(one[1] < other[0] for one, other in pairwise(spans))):
        return True
    rows, distinct = f.count(f.lit(1)), f.countDistinct("place")
    (row,) = places.agg(rows.alias("rows"), distinct.alias("places")).collect()
    return bool(row["rows"] == row["places"])


def spans_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the least and most of the numbers of a batch, -1 for none, and whether they rise."""
    for batch in batches:
        if batch.num_rows:
            numbers = arrow.numbers_in(batch.column(0).fill_null(-1))
            rises = bool((numbers[1:] > numbers[:-1]).all())
            ends = {"least": [int(numbers.min())], "most": [int(numbers.max())]}
            yield arrow.library().RecordBatch.from_pydict({**ends, "rises": [rises]})
