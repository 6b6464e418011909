"""A boilerplate footer that appears: searches and joins with and without new epochs."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

import simdb
from simdb.answers.exact.method import Exact
from simdb.exact.thresholds import Threshold
from simdb.ingest import postings as exact_indexing
from simdb.work import Work
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.exact_growth import join
from tools.benchmarks.plots import columns, draw
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import timed_each
from tools.make_corpus import Corpus

HERE = "tools.benchmarks.epochs"
STEPS = 20
MOST_DOCUMENTS = 40_000  # without new epochs, a join of more takes long
QUERIES = 100
FLOOR = "0.7"
THRESHOLD = "0.8"
KIND = simdb.Text(simdb.WordShingles(3))
FOOTER = (
    "This message and whatever is attached to it are meant for the persons to whom it is "
    "addressed. If you are not one of them, tell the sender and delete it; to copy, to forward or "
    "to use it in any other way is not permitted. The views expressed are those of the author."
)


def texts_with_footer(count: int, seed: int, *, first: int) -> list[tuple[str, str]]:
    """Return documents that all end in the same footer from ``first`` on."""
    return [
        (key, text if place < first else f"{text}\n\n{FOOTER}")
        for place, (key, text) in enumerate(Corpus(count, seed).documents())
    ]


def grow(path: str, count: int, seed: int, first: int, renew: bool) -> dict[str, Any]:
    """Fill a store in steps; after each, search for the documents that come next, and count.

    Args:
        path: of the store.
        count: documents.
        seed: of the corpus.
        first: the document that is the first with the footer.
        renew: whether new epochs may begin after the first table; if not, that is prevented.
    """
    file = Path(path)
    stores.remove(file)
    if not renew:
        exact_indexing.WORSE = 10**9
    rows = texts_with_footer(count + QUERIES, seed, first=first)
    step = max(1, count // STEPS)
    points: list[dict[str, Any]] = []
    with simdb.open(file) as database:
        collection = database.collection(
            stores.NAME, KIND, threshold=None, exact_floor=FLOOR, seed=1
        )
        for start, end in itertools.pairwise([*range(0, count, step), count]):
            began = time.perf_counter()
            collection.add_many(rows[start:end])
            seconds = time.perf_counter() - began
            next_texts = [text for _, text in rows[end : end + QUERIES]]
            points.append({"items": end, "adding": seconds, **_searched(collection, next_texts)})
        joined = join(collection, THRESHOLD, repeats=1)
    stores.remove(file)
    return {"points": points, "join": joined}


@measure("epochs", "a footer that appears in up to 40,000 documents, with and without new epochs")
def epochs(bench: Bench) -> None:
    """Print the curves of a footer that comes halfway, and of one that comes with the first table.

    The latter is hard, since the first table is made from documents that do not have it.
    """
    count = min(bench.set_count, MOST_DOCUMENTS)
    for where, first in (
        ("halfway", count // 2),
        ("with the first table", min(exact_indexing.FIRST_TABLE, count // 2)),
    ):
        answers = {
            name: in_child(
                f"{HERE}:grow",
                cores=1,
                path=str(bench.work / "epochs.simdb"),
                count=count,
                seed=bench.seed,
                first=first,
                renew=renew,
            )
            for name, renew in (("new epochs", True), ("no new epochs", False))
        }
        bench.details[f"epochs, {where}"] = answers
        _print_curves(bench, where, answers)
        _add_figures(bench, where, first, answers)


def _add_figures(bench: Bench, where: str, first: int, answers: dict[str, dict[str, Any]]) -> None:
    """Compare the end with the time before the footer came, and with a store that does nothing."""
    renewed, kept = answers["new epochs"], answers["no new epochs"]
    before = [point for point in renewed["points"] if point["items"] < first][-1]
    for column, unit in (("scanned", "postings"), ("p50", "ms"), ("p99", "ms")):
        values = [one["points"][-1][column] for one in (renewed, kept)]
        is_scanned = column == "scanned"
        bench.add(
            Figure(
                "epochs",
                f"footer {where}, a search at the end, {column}",
                values[0],
                unit,
                peer="no new epochs",
                peer_value=values[1],
                ratio=values[1] / values[0] if values[0] else None,
                target="at most a tenth" if is_scanned else "",
                reached=10 * values[0] <= values[1] if is_scanned else None,
                note=f"before the footer came {before[column]:,.4g}; at worst "
                f"{max(point[column] for point in renewed['points']):,.4g}",
            )
        )
    own, other = renewed["join"], kept["join"]
    bench.add(
        Figure(
            "epochs",
            f"footer {where}, join at the end",
            own["seconds"],
            "s",
            peer="no new epochs",
            peer_value=other["seconds"],
            ratio=other["seconds"] / own["seconds"],
            target="the same pairs",
            reached=own["pairs"] == other["pairs"],
            note=f"{own['pairs']:,} pairs, without new epochs {other['pairs']:,}; scanned "
            f"{own['scanned']:,} against {other['scanned']:,}, candidates "
            f"{own['candidates']:,} against {other['candidates']:,}",
        )
    )


def _print_curves(bench: Bench, where: str, answers: dict[str, dict[str, Any]]) -> None:
    renewed, kept = (answer["points"] for answer in answers.values())
    bench.announce(f"   a footer that comes {where}:")
    headings = (
        *("items", "epoch", "scanned", "p50 ms", "items/s"),
        *("without: scanned", "p50 ms", "items/s"),
    )
    rates = [
        np.diff([0, *(point["items"] for point in points)])
        / np.array([point["adding"] for point in points])
        for points in (renewed, kept)
    ]
    rows = [
        (
            *(f"{one['items']:,}", f"{one['epoch']}", f"{one['scanned']:,.0f}"),
            *(f"{one['p50']:.3f}", f"{rate:,.0f}"),
            *(f"{other['scanned']:,.0f}", f"{other['p50']:.3f}", f"{other_rate:,.0f}"),
        )
        for one, other, rate, other_rate in zip(
            renewed, kept, rates[0].tolist(), rates[1].tolist(), strict=True
        )
    ]
    for line in columns(headings, rows):
        bench.announce(line)
    panels = {
        label: {
            name: (
                [point["items"] for point in answer["points"]],
                [point[column] for point in answer["points"]],
            )
            for name, answer in answers.items()
        }
        for label, column in (("postings scanned a search", "scanned"), ("p50 in ms", "p50"))
    }
    path = bench.work / f"epochs, {where}.svg"
    bench.announce(f"   curve: {draw(path, f'A footer that comes {where}', panels)}")


def _searched(collection: simdb.Collection, texts: list[str]) -> dict[str, Any]:
    """Search for texts, timed; count what that takes."""
    work = Work()
    method = Exact(Threshold.parse(THRESHOLD))

    def find(text: str) -> None:
        collection.search(text, threshold=THRESHOLD, guarantee="exact")

    for text in texts:
        with collection._opened() as opened:
            method.search(replace(opened, work=work), text.encode(), None)
    described = collection.stats()["exact_index"]
    return {
        **timed_each(find, texts),
        "scanned": work.looked_at / len(texts),
        "candidates": work.candidates / len(texts),
        "runs": described["runs"],
        "epoch": described["epoch"],
    }
