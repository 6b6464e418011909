"""Steps on DataFrames, and stages: frames written below a folder, and found there again."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, permutations, product
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

from simdb import arrow
from simdb.arguments import short
from simdb.errors import ConfigurationError, UsageError, WrongTypeError
from simdb.recipe import Recipe
from simdb.spark.sessions import column, functions, library, plain_errors
from simdb.steps.posting import Ordered
from simdb.steps.schemas import Schema

BITS_OF_ROWS = 40  # of a place in files
MOST_FILES = 2**22
PATIENCE = 30.0  # seconds for tasks that were cancelled, until a folder is left as it is
A_MOMENT = 0.1  # seconds
_TYPES = {"int64": "bigint", "int32": "int", "double": "double", "binary": "binary"}
PLAN = 3  # of the stages: those of another are not understood
_MANIFEST = "made_by string"
_ALL_BUT_MANIFEST = "/[!._m]*"  # of which an ended run may have left a part
_PATTERN = re.compile(r"[\[\]{}*?\\]")  # in what Spark reads; it writes to paths as they are


class OnBatches:
    """A step as ``mapInArrow`` takes it: what is sent to the workers is its name and a recipe."""

    def __init__(
        self, step: Callable[..., Iterator[Any]], by: Recipe | Ordered, **options: Any
    ) -> None:
        self._step = step
        self._options = options
        recipe = by if isinstance(by, Recipe) else by.recipe
        self._recipe = recipe.to_json()
        self._frequent = None if isinstance(by, Recipe) else by.frequent

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Run the step on the batches of a task."""
        recipe = _recipe(self._recipe)
        by = recipe if self._frequent is None else Ordered(recipe, self._frequent)
        yield from self._step(by, batches, **self._options)
        arrow.library().default_memory_pool().release_unused()  # a worker lives on, for other tasks


@lru_cache(maxsize=8)
def _recipe(text: str) -> Recipe:
    return Recipe.from_json(text)


def ddl(schema: Schema) -> str:
    """Return a schema in Spark's words."""
    named = ((name, _TYPES.get(kind, kind)) for name, kind in schema.columns)
    return ", ".join(f"`{name}` {kind}" for name, kind in named)


def mapped(
    frame: Any,
    step: Callable[..., Iterator[Any]],
    schema: Schema,
    by: Recipe | Ordered,
    **options: Any,
) -> Any:
    """Return what a step makes of a frame."""
    return frame.mapInArrow(OnBatches(step, by, **options), ddl(schema))


def in_file_order(frame: Any, name: str) -> Any:
    """Add a column that orders rows as their Parquet files hold them, files by their names.

    It is a whole number, so that nothing has to be sorted by it. The files are those of now: a row
    of one that comes later is an error, when the frame is read.

    Raises:
        UsageError: the frame is of no files, or of too many.
    """
    f = functions()
    files = sorted(frame.inputFiles())
    if not files:
        raise UsageError("the frame is not read from files: order by one of its columns")
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files):,} files are more than {MOST_FILES:,}: order by a column")
    # Spark writes the place of a local file in two ways.
    known = {
        path: number << BITS_OF_ROWS
        for number, file in enumerate(files)
        for path in (file, file.replace("file:///", "file:/", 1))
    }
    path, begin = f"{name}_file", f"{name}_begin"
    begins = frame.sparkSession.createDataFrame(
        list(known.items()), f"`{path}` string, `{begin}` bigint"
    )
    file, row = f.col("_metadata.file_path"), f.col("_metadata.row_index")
    placed = frame.select("*", file.alias(path), row.alias(name))
    whole = placed.join(f.broadcast(begins), path, "left")
    came_later = f.raise_error(f.concat(f.lit("a file that came later: "), column(path)))
    first = f.coalesce(column(begin), came_later)
    return whole.select(*map(column, frame.columns), (first + column(name)).alias(name))


def together(frame: Any, key: str, *others: str) -> Any:
    """Bring the rows of one key to one task, sorted by it and then by others."""
    return frame.repartition(key).sortWithinPartitions(key, *others)


def literal(path: str) -> str:
    """Return a path so that Spark reads it as it stands, and not as a pattern of several."""
    return _PATTERN.sub(r"\\\g<0>", path)


def folder_of(work: object) -> str:
    """Return a folder as Spark writes to it.

    Raises:
        UsageError: it is the root of all.
        WrongTypeError: it is no path.
    """
    if not isinstance(work, str | os.PathLike):
        raise WrongTypeError(f"work must be the path of a folder, not {short(work)}")
    folder = str(work).rstrip("/")
    if not folder or folder.endswith(":"):
        raise UsageError(f"{short(work)} names no folder: name a new one, below another")
    return folder


def require_apart(folders: Sequence[str], inputs: Iterable[str] = ()) -> None:
    """Raise UsageError if a folder is another, or holds it or an input: what befalls one, does all.

    Known by their names, and links on this machine: nothing asks Spark.
    """
    for outer, inner in chain(permutations(folders, 2), product(folders, inputs)):
        whole, part = _spelled(outer), _spelled(inner)
        if part == whole or part.startswith(f"{whole}/"):
            how = "is" if part == whole else "lies in"
            raise UsageError(f"{inner} {how} {outer}: name another folder, outside of it")


def _spelled(path: str) -> str:
    """Return a path in the one spelling of all that name the same."""
    path = re.sub(r"^(file:)?/+", "/", folder_of(path))
    of_a_service = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path)
    return posixpath.normpath(path) if of_a_service else str(Path(path).resolve())


class Stages:
    """Frames below a folder: each is made once, and taken from there by a run that comes again.

    A stage is whole when Spark has put its ``_SUCCESS`` there; one without is made again. What was
    there before simdb's manifest is not simdb's to replace, nor to take for a stage.

    Args:
        spark: the session.
        work: the folder, wherever Spark can write.
        made_by: what all of it is made by: another run in the folder is refused.

    Raises:
        ConfigurationError: the folder holds stages of something else, or what is not simdb's.
        UsageError: it is the root of all.
        WrongTypeError: it is no path.
    """

    def __init__(self, spark: Any, work: str, made_by: str) -> None:
        self.spark = spark
        self._work = folder_of(work)
        manifest = f"{self._work}/manifest"
        rows = _rows_of(spark, manifest)
        mark = f"plan {PLAN} "
        made_by = mark + made_by
        others = {str(row["made_by"]) for row in rows} - {made_by}
        if any(not other.startswith(mark) for other in others):
            raise ConfigurationError(
                f"{work} holds stages that another version of simdb has made, which this one "
                "cannot go on with: name another folder, or remove it"
            )
        if others:
            raise ConfigurationError(
                f"{work} holds stages of another run ({', '.join(sorted(others))}; this is "
                f"{made_by}): name another folder, or remove it"
            )
        if not rows:
            if exists(spark, self._work, _ALL_BUT_MANIFEST):
                raise ConfigurationError(
                    f"{work} holds files that simdb has not made, which stages could replace: name "
                    "a new folder"
                )
            told = spark.createDataFrame([(made_by,)], _MANIFEST)
            with plain_errors():
                told.coalesce(1).write.mode("append").parquet(manifest)

    def path(self, name: str) -> str:
        """Return where a stage is."""
        return f"{self._work}/{name}"

    def __call__(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a stage, which is made and written if it is not there."""
        target = self.path(name)
        if exists(self.spark, f"{target}/_SUCCESS"):
            return self.spark.read.parquet(literal(target))
        with plain_errors():
            made = make()
            # Signatures and digests are all different: a dictionary of them is only tried.
            writer = made.write.mode("overwrite").option("parquet.enable.dictionary", "false")
            writer.parquet(target)
        read = self.spark.read.schema(made.schema)  # no job to find that out
        return read.parquet(literal(target))


def write_all(frames: Mapping[str, Any]) -> None:
    """Write frames as Parquet into new folders; where one fails, none of them stays.

    A folder that another program has made by then is not touched. Over Spark Connect, which has no
    call that removes a folder, a note of the error names those that stay.
    """
    begun: list[str] = []
    try:
        for path, frame in frames.items():
            begun.append(path)
            _written(frame, path)
    except BaseException as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            begun.pop()  # another program has made it
        for path in begun:
            if not _removed(frames[path].sparkSession, path):
                error.add_note(f"{path} is not whole, or of no use alone: remove it")
        raise


def _written(frame: Any, path: str) -> None:
    """Write a frame into a new folder; when it is interrupted, what is under way ends before.

    So it is a thread that waits for Spark, and this one for that.
    """
    failed: list[BaseException] = []
    ended = Event()  # Python 3.11 takes a thread whose join was interrupted for ended

    def write() -> None:
        try:
            frame.write.mode("errorifexists").parquet(path)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
        ended.set()

    spark = frame.sparkSession
    thread = library("pyspark").InheritableThread(write, session=spark, daemon=True)
    try:
        thread.start()
        ended.wait()
    except BaseException:
        late = monotonic() + PATIENCE
        while not ended.wait(A_MOMENT) and monotonic() < late:
            spark.interruptAll()  # also what has begun only now
        raise
    if failed:
        raise failed[0]


def _removed(spark: Any, path: str) -> bool:
    """Remove a folder, once no task can write there any more; tell whether that was possible."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        return not exists(spark, path)
    place = java.org.apache.hadoop.fs.Path(path)
    files = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    with_all_below = True
    late = monotonic() + PATIENCE
    while monotonic() < late:
        was_busy = _is_busy(spark)  # before it is deleted: who works yet may make it again
        files.delete(place, with_all_below)
        if not (was_busy or files.exists(place)):
            return True
        sleep(A_MOMENT)
    return not files.exists(place)


def _is_busy(spark: Any) -> bool:
    """Whether tasks run, of a job that has failed or was cancelled too."""
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return any(executor.numRunningTasks() for executor in executors)


def exists(spark: Any, path: str, below: str = "") -> bool:
    """Whether there is a file or a folder, or one of a pattern below it, wherever Spark reads."""
    try:
        _ = spark.read.format("text").load(literal(path) + below).columns
    except library("pyspark.errors").AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return True


def _rows_of(spark: Any, path: str) -> list[Any]:
    """Return the rows of a small table, none where there is no such folder."""
    if not exists(spark, path):
        return []
    rows: list[Any] = spark.read.schema(_MANIFEST).parquet(literal(path)).collect()
    return rows
