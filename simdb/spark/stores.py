"""Stores and frames: rows of a store as a frame, and rows of a frame into a store."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

from simdb import arrow
from simdb.arguments import short
from simdb.collection import Collection, CollectionView
from simdb.errors import UsageError, WrongTypeError
from simdb.results import AddReport
from simdb.spark.answers import (
    require_choice,
    require_columns,
    require_good,
    require_keys,
    sign,
)
from simdb.spark.frames import Stages, literal
from simdb.spark.sessions import column


def from_store(spark: Any, collection: CollectionView, folder: str) -> Any:
    """Return the rows of a collection as a frame: ``key``, ``item`` and ``metadata``.

    They are written as Parquet into a new folder that the workers can read; if this fails, the
    folder goes again. With ``collection.recipe()`` a frame is joined with them as the store would
    join it.
    """
    target = Path(folder)
    library = arrow.library()
    _require_collection(collection)
    if target.exists():
        raise UsageError(f"{target} already exists; name a new folder")
    target.mkdir(parents=True)
    try:
        reader = library.RecordBatchReader.from_stream(collection)
        with arrow.parquet().ParquetWriter(target / "items.parquet", reader.schema) as file:
            for batch in reader:
                file.write_batch(batch)
        return spark.read.parquet(literal(str(target)))
    except BaseException:
        rmtree(target)
        raise


def _require_collection(collection: object) -> None:
    """Raise WrongTypeError for what is no collection."""
    if not isinstance(collection, CollectionView):
        raise WrongTypeError(f"give a collection of simdb, not {short(collection)}")


def to_store(
    frame: Any,
    collection: Collection,
    *,
    key: str,
    item: str,
    work: str,
    on_bad: Literal["error", "skip"] = "error",
) -> AddReport:
    """Store the rows of a frame; the workers sign them, this process only writes.

    Args:
        frame: a DataFrame, as for ``pairs``.
        collection: of the store, opened here.
        key, item: the columns.
        work: a new folder that the workers and this process both see.
        on_bad: ``"skip"`` leaves out items that cannot be stored.

    Raises:
        UsageError: a key is null or there twice, or the folder is not seen here.
        BadItemError: items cannot be stored; the message names their keys.
    """
    require_choice(on_bad)
    _require_collection(collection)
    require_columns(frame, key, item)
    recipe = collection.recipe()
    stages = Stages(frame.sparkSession, work, f"{recipe.fingerprint} to_store {key} {item}")

    def all_signed() -> Any:
        require_keys(frame, key)
        return sign(frame, recipe, key=key, item=item)

    def rows() -> Any:
        named = frame.select(column(key).alias("key"), column(item).alias("item"))
        good = signed.where("problem is null")
        return good.join(named, "key").select("key", "item", "signature")

    signed = stages("signed", all_signed)
    require_good(signed, skip=on_bad == "skip")
    stages("kept", rows)
    files = sorted(Path(stages.path("kept")).glob("*.parquet"))
    if not files:
        raise UsageError(f"{work} cannot be read by this process: name a folder that both see")
    with ExitStack() as opened:
        sources = [opened.enter_context(arrow.parquet().ParquetFile(file)) for file in files]
        batches = chain.from_iterable(source.iter_batches() for source in sources)
        whole = arrow.library().RecordBatchReader.from_batches(sources[0].schema_arrow, batches)
        return collection.add_many(
            whole,
            key="key",
            item="item",
            signature="signature",
            recipe=recipe,
            on_existing="skip",
        )
