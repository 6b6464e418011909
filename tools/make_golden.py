"""Make the golden database: a small store of the present format, and what it must answer.

A released format must stay readable, so one such store of each is kept under ``tests/golden``
(until 1.0 the format may change, and this store with it)::

    python tools/make_golden.py

writes ``tests/golden/format-N.simdb`` and ``.json``; what a later version adds to a format goes to
a store beside it (``--name format-2b``). The contents are the same every time, the UUID is
not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import simdb
from simdb import zstandard
from simdb.storage.file.creation import FORMAT_VERSION

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
SEED = 1
LARGEST_FILE = 200_000  # bytes

WORDS = (
    *("river", "mountain", "letter", "window", "garden", "market", "winter", "summer", "bridge"),
    *("straße", "façade", "naïve", "über", "søndag", "žena", "łódź", "ελλάδα", "жизнь"),
    *("東京", "大阪", "नमस्ते", "سلام", "🦜", "🌍", "silver", "paper", "morning", "machine"),
    *("number", "signal", "pattern", "measure", "record", "segment", "similar", "copy", "bucket"),
)


PEOPLE = simdb.Record(
    fields=[
        simdb.Field("name", weight=200, equivalents=[("bill", "william")]),
        simdb.Field("year", weight=100, compare="numeric"),
    ],
    candidates=[simdb.Equal("name", "last-word"), simdb.Equal("year")],
)


def make_text(generator: random.Random) -> str:
    """Return a text of some dozen words."""
    return " ".join(generator.choice(WORDS) for _ in range(generator.randint(12, 60)))


def change_text(generator: random.Random, text: str) -> str:
    """Return a near copy: one word of it is another."""
    words = text.split(" ")
    words[generator.randrange(len(words))] = generator.choice(WORDS)
    return " ".join(words)


def fill(database: simdb.Database) -> None:
    """Make two collections by several commits, with deletions and a replacement."""
    generator = random.Random(SEED)
    news = database.collection(
        "news", simdb.Text(simdb.CharacterShingles(5)), threshold=0.7, seed=SEED
    )
    texts = [make_text(generator) for _ in range(30)]
    texts += [change_text(generator, text) for text in texts[:12]]
    news.add_many((f"n{number}", text) for number, text in enumerate(texts[:25]))
    for number, text in enumerate(texts[25:], 25):
        news.add(number, text, metadata={"number": number, "tags": ["é", None, 1.5]})
    news.add("empty", "")
    news.add("short", "ab")
    news.delete("n3")
    news.delete_many(["n7", 30])
    news.replace("n5", texts[6])

    notes = database.collection(
        "notes Ελλάδα",
        simdb.Text(simdb.WordShingles(2), lowercase=True, unicode="NFKC"),
        threshold="1/2",
        recall=0.95,
        sketch="classical",
        seed=SEED,
    )
    notes.add_many((-number, text.upper()) for number, text in enumerate(texts[:20]))
    notes.add_many((number, change_text(generator, texts[number])) for number in range(1, 20))

    baskets = database.collection("baskets", simdb.Set(), threshold=0.8, exact_floor=0.5, seed=SEED)
    baskets.add_many((number, set(range(number % 7, number % 7 + 9))) for number in range(12))
    baskets.add_many((number, {1, number, number + 1, 2**40}) for number in range(12, 20))
    baskets.add("nothing", [])
    baskets.delete(4)

    bags = database.collection("bags", simdb.Bag("sum"), threshold=0.4, exact_floor=0.3, seed=SEED)
    bags.add_many((number, [1, 1, 2, number % 3]) for number in range(8))
    flags = database.collection("flags", simdb.Bits(20), max_distance=3, seed=SEED)
    flags.add_many(
        (number, number * 37 if number < 7 else 37 ^ 1 << number) for number in range(10)
    )
    flags.delete(2)
    points = database.collection("points", simdb.Vector(3), max_distance=15, seed=SEED)
    points.add_many((number, [1.0, number / 8, -0.5]) for number in range(10))
    people = database.collection("people", PEOPLE, threshold=0.6, seed=SEED)
    people.add_many(
        (number, {"name": name, "year": 1950 + number})
        for number, name in enumerate(("Bill Ode", "William Ode", "Bill Odé", "Ann Li"))
    )
    # The next two have a value for no rule, and find each other all the same.
    people.add_many((key, {"name": "...", "year": None}) for key in ("x", "y"))
    prints = database.collection("prints", simdb.Fingerprint(300, 300), threshold=0.4, seed=SEED)
    prints.add_many((number, [(150.0, 150.0 + number // 2, 10.0)]) for number in range(4))
    archive = database.collection(
        "archive", simdb.Text(), threshold=0.6, seed=SEED, compression="zstd"
    )
    with mock.patch.object(zstandard, "LEAST_SAMPLE", 1_000):  # a dictionary from few texts
        archive.add_many((number, text, {"n": number}) for number, text in enumerate(texts))
    archive.add("short", "ab")  # a frame would make it longer
    archive.delete(2)


def contents(database: simdb.Database) -> dict[str, Any]:
    """Return everything that a store must answer, as JSON values."""
    collections = {}
    for name in database.collection_names():
        collection = database[name]
        collections[name] = {
            "kind": repr(collection.kind),
            "threshold": str(collection.threshold),
            "max_distance": str(collection.max_distance),
            "bands": collection.plan.bands,
            "rows": collection.plan.rows,
            "items": [
                [record.key, _as_json(record.item), record.metadata]
                for record in collection.items()
            ],
            "pairs": sorted(
                ([pair.left, pair.right, *_measured(pair)] for pair in collection.pairs()),
                key=repr,
            ),
            "exact pairs": _exact_pairs(collection),
            "stats": {
                name: collection.stats()[name]
                for name in ("items", "deleted_not_yet_dropped", "item_bytes", "item_numbers_used")
            },
            "runs": collection.stats()["index"]["runs"],
        }
    return {"collections": collections}


def _measured(pair: simdb.Pair) -> list[float]:
    """Return the similarity, or the distance, of a pair; angles to some digits."""
    return [round(pair.value, 9)]


def _as_json(item: Any) -> Any:
    if isinstance(item, str | dict) and not isinstance(item, Counter):
        return item
    if isinstance(item, Counter):
        return sorted(item.elements())
    if isinstance(item, np.ndarray):
        return item.tolist()
    return [list(each) if isinstance(each, tuple) else each for each in sorted(item)]


def _exact_pairs(collection: simdb.Collection) -> list[list[Any]]:
    """Return the pairs at the floor of the exact index; none without one."""
    if collection.exact_floor is None:
        return []
    found = collection.pairs(collection.exact_floor, guarantee="exact")
    return sorted(([pair.left, pair.right, *_measured(pair)] for pair in found), key=repr)


def main(arguments: list[str] | None = None) -> int:
    """Write the store and its contents."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    parser.add_argument(
        "--name", default=f"format-{FORMAT_VERSION}", help="of a store beside that of the format"
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    store = options.folder / f"{options.name}.simdb"
    with (
        tempfile.TemporaryDirectory() as scratch,
        simdb.open(Path(scratch) / "store.simdb", threads=1) as database,
    ):
        fill(database)
        expected = contents(database)
        store.unlink(missing_ok=True)
        database.backup(store, compact=True)
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    store.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    size = store.stat().st_size
    print(f"{store}: {size:,} bytes")
    return 0 if size <= LARGEST_FILE else 1


if __name__ == "__main__":
    sys.exit(main())
