"""The command that runs on Apache Spark."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import typer

import simdb
from simdb.cli.options import Bound
from simdb.cli.output import Telling
from simdb.cli.settings import KindOptions
from simdb.errors import UsageError

_PLACE = "place in the files"  # of a row, a column of the command's own; messages name it


def spark(
    *,
    verb: Annotated[
        Literal["dedupe"],
        typer.Argument(metavar="dedupe", help="dedupe copies rows without near duplicates."),
    ],
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Parquet files or folders, as Spark reads them."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write the kept rows here, as Parquet."
        ),
    ],
    work: Annotated[
        str,
        typer.Option(
            "--work",
            metavar="FOLDER",
            help="The folder for intermediate results; a run that was stopped continues from "
            "there.",
        ),
    ],
    removed: Annotated[
        str | None,
        typer.Option(
            "--removed",
            metavar="FOLDER",
            help="Write the removed rows here with the reason, as Parquet.",
        ),
    ] = None,
    id_field: Annotated[
        str, typer.Option("--id-field", metavar="COLUMN", help="The column of the keys.")
    ] = "id",
    item_field: Annotated[
        str | None,
        typer.Option(
            "--item-field",
            metavar="COLUMN",
            help="The column of the items (named like their kind).",
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="COLUMN",
            help="The column that says which row comes first (the order of the files).",
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Miss nothing; for texts, sets and bags.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the hash functions.")] = 1,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that cannot be stored.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Where Spark runs (this machine, all cores)."),
    ] = None,
    memory: Annotated[
        str,
        typer.Option("--driver-memory", metavar="SIZE", help="The memory of Spark's Java process."),
    ] = "2g",
    described: KindOptions,
    bound: Bound,
    telling: Telling,
) -> None:
    """Deduplicate on Apache Spark, with the same answers.

    It is for data that one machine cannot hold. It needs Java 17 and the extra 'spark', here and on
    all workers. To run on a cluster, submit it:
    spark-submit .../simdb/spark/__main__.py dedupe INPUT -o FOLDER --work FOLDER

    Example: simdb spark dedupe posts.parquet --id-field id -o kept --work stages
    """
    del verb  # there is one
    from simdb import spark as on_spark
    from simdb.spark.answers import require_columns
    from simdb.spark.frames import exists, literal, require_apart, write_all
    from simdb.spark.sessions import column, plain_errors

    written = [output] if removed is None else [removed, output]
    require_apart([work, *written], inputs)
    kind = described.new()
    item = item_field or kind.name
    # What spark-submit has started knows its master.
    submitted = master is None and "PYSPARK_GATEWAY_PORT" in os.environ
    session: Any = on_spark.session(submitted=submitted, master=master, memory=memory)
    with plain_errors():
        for folder in written:
            if exists(session, folder):
                raise UsageError(f"{folder} already exists: name another folder, or remove it")
        read = session.read.parquet(*inputs)
        require_columns(read, id_field, item)  # before there is one of the command's own
        frame, place = read, order
        if place is None:
            place = _PLACE
            while place in read.columns:
                place += "'"
            frame = on_spark.in_file_order(read, place)
        recipe = simdb.Recipe.of(kind, **bound.of(kind), seed=seed)
        dropped = on_spark.dedupe(
            frame,
            recipe=recipe,
            key=id_field,
            item=item,
            order=place,
            work=work,
            guarantee="exact" if exact else "probable",
            on_bad="skip" if skip_bad else "error",
        )
        away = dropped.select(dropped["key"].alias(id_field))
        if skip_bad:
            bad = on_spark.problems(session, work)
            away = away.unionByName(bad.select(bad["key"].alias(id_field)))
        kept = read.join(away, id_field, "left_anti").select(*map(column, read.columns))
        write_all(dict(zip(written, [dropped, kept][-len(written) :], strict=True)))
        counts = {"rows": read.count(), "kept": session.read.parquet(literal(output)).count()}
        told = f"{counts['rows']:,} rows, {counts['kept']:,} of them kept in {output}"
        if skip_bad:
            counts["bad"] = bad.count()
            told += f"; {counts['bad']:,} could not be stored and were left out"
    telling.tell({**counts, "output": output}, told)
