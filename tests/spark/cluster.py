"""A program of its own: the answers of another Spark than that of a test, and of the store.

``python -m tests.spark.cluster FOLDER MASTER`` prints one line of JSON: how many rows each question
was answered with, whether they are the store's, and how many executors were killed meanwhile. The
master ``connect`` is a server of Spark Connect on this machine; of ``local-cluster[...]`` the first
executor that has workers is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import simdb
import simdb.spark
from tools.make_corpus import documents

RECIPE = simdb.Recipe.of(simdb.Text(simdb.CharacterShingles(9)), threshold=0.8, seed=1)
COUNT = 3_000


def answer(folder: Path, master: str) -> dict[str, Any]:
    """Ask the store and Spark the same of one corpus."""
    keys, texts = zip(*documents(COUNT, seed=5), strict=True)
    places = np.random.default_rng(1).permutation(COUNT)
    path = folder / "in.parquet"
    pa.parquet.write_table(pa.table({"key": keys, "text": texts, "at": places}), path)
    spark = session(master)
    frame = spark.read.parquet(str(path)).repartition(5)
    killed: list[int] = []
    if master.startswith("local-cluster"):
        threading.Thread(target=kill_one, args=(killed,), daemon=True).start()
    asked: dict[str, Any] = {"recipe": RECIPE, "key": "key", "item": "text", "order": "at"}
    asked["work"] = str(folder / "work")
    found = {
        name: sorted(map(tuple, getattr(simdb.spark, name)(frame, **asked).collect()))
        for name in ("dedupe", "pairs")
    }
    spark.stop()
    in_order = [(keys[place], texts[place]) for place in np.argsort(places)]
    expected = stored(folder, in_order)
    told = {name: [len(rows), rows == expected[name]] for name, rows in found.items()}
    return {**told, "killed": len(killed)}


def session(master: str) -> Any:
    """Return a session of a master, or of a server that is started here."""
    few = {"spark.sql.shuffle.partitions": "4"}
    if master == "connect":
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # nothing asks the network for a name
        builder = SparkSession.builder.remote("local[2]")
        for name, value in few.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    settings: dict[str, Any] = {name.replace(".", "__"): value for name, value in few.items()}
    return simdb.spark.local_session(
        memory="1g", master=master, spark__executor__memory="1g", **settings
    )


def stored(folder: Path, rows: list[tuple[str, str]]) -> dict[str, list[Any]]:
    """Return what a store answers to the same questions."""
    place: dict[Any, int] = {key: number for number, (key, _) in enumerate(rows)}
    dropped: list[simdb.Outcome] = []
    with simdb.open(folder / "s.simdb", sync="batch") as db:
        db.collection("kept", recipe=RECIPE).dedupe(rows, outcomes=dropped.extend)
        whole = db.collection("whole", recipe=RECIPE)
        whole.add_many(rows)
        pairs = [
            (*sorted((pair.left, pair.right), key=place.__getitem__), pair.value)
            for pair in whole.pairs(guarantee="probable")
        ]
    removed = [one for one in dropped if one.action == "duplicate"]
    return {
        "dedupe": sorted((one.key, one.duplicate_of, one.similarity) for one in removed),
        "pairs": sorted(pairs),
    }


def kill_one(killed: list[int]) -> None:
    """Kill the first executor below this process that has Python workers, once it has some."""
    while not killed:
        parents, names = processes()
        for worker, name in names.items():
            executor = parents.get(worker, 0)
            is_executor = "CoarseGrainedExecutorBackend" in names.get(executor, "")
            if "pyspark.daemon" in name and is_executor and is_below(executor, parents):
                os.kill(executor, signal.SIGKILL)
                killed.append(executor)
                break


def is_below(process: int, parents: dict[int, int]) -> bool:
    """Whether a process descends from this one."""
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def processes() -> tuple[dict[int, int], dict[int, str]]:
    """Return the parent and the command line of every process."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        try:
            number = int(entry.name)
            stat = (entry / "stat").read_text()
            names[number] = (entry / "cmdline").read_text()
            parents[number] = int(stat[stat.rindex(")") + 2 :].split()[1])
        except (OSError, ValueError):
            continue  # not a process, or one that has ended
    return parents, names


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(Path(sys.argv[1]), sys.argv[2])) + "\n")
