"""The answers of a collection on Apache Spark, for what one machine cannot hold.

DataFrames in, DataFrames out, by what classic Spark and Spark Connect both have: Spark sorts, joins
and moves rows, ``simdb.steps`` decide. For one recipe the pairs, groups and removed rows are those
of the embedded store, similarity for similarity, whatever the partitions or the order of rows.
The extra ``spark`` installs it; every worker needs simdb too. See ``docs/spark.md``.
"""

from __future__ import annotations

from simdb.spark.answers import dedupe, groups, join, pairs, problems, sign
from simdb.spark.frames import in_file_order
from simdb.spark.sessions import local_session, session
from simdb.spark.stores import from_store, to_store

__all__ = [
    "dedupe",
    "from_store",
    "groups",
    "in_file_order",
    "join",
    "local_session",
    "pairs",
    "problems",
    "session",
    "sign",
    "to_store",
]
