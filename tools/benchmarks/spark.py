"""Answers on Apache Spark, on the cores of this machine, beside the store and MLlib.

From Parquet to verified pairs, and to what dedupe removes. What Spark pays once, to start and to
plan, is left out by taking the rate between two sizes, the marginal rate. Needs the groups
``spark`` and ``dev``, and Java 17.
"""

from __future__ import annotations

from typing import Any

from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure

HERE = "tools.benchmarks.spark_jobs"
CORES = 2
MEMORY = "2g"
PARTITIONS = 8
LEAST = 50_000  # documents
QUESTIONS = ["pairs", "dedupe"]
NAIVE = [1_000, 2_000, 4_000]  # documents for MLlib
# Corpus, documents that are alike, and what can be asked: 20,000 near copies are 200 million pairs.
SKEWED: tuple[tuple[str, int, list[str]], ...] = (
    ("equal", 100_000, ["dedupe"]),
    ("footer", 50_000, ["pairs", "dedupe"]),
    ("near", 20_000, ["dedupe"]),
    ("alike", 50_000, ["dedupe"]),
)
MIB = 2**20


@measure("spark", "the same answers on Apache Spark: rates, bytes, memory")
def run(bench: Bench) -> None:
    """Ask about made documents, of three sizes."""
    counts = sorted({min(LEAST, bench.count), bench.count // 2, bench.count})
    corpora = [_made(bench, "plain", count) for count in counts]
    known = [_embedded(bench, corpus, QUESTIONS) for corpus in corpora]
    answer = _on_spark(bench, [(corpus, QUESTIONS) for corpus in corpora])
    told = answer["answers"]
    bench.details["spark"] = {"counts": counts, "embedded": known, **answer}
    for question in QUESTIONS:
        for count, own, one in zip(counts, known, told, strict=True):
            _compare(bench, f"{question} of {count:,}", own[question], one[question], count)
        if len(counts) > 1:
            for clock in ("seconds", "processor"):
                rates = [_rate(counts, side, question, clock) for side in (told, known)]
                bench.add(
                    Figure(
                        "spark",
                        f"{question}, marginal rate by {clock}",
                        rates[0],
                        "documents/s",
                        peer="the store",
                        peer_value=rates[1],
                        ratio=rates[0] / rates[1],
                        target="0.6 of the store's, by the clock",
                        reached=rates[0] >= 0.6 * rates[1] if clock == "seconds" else None,
                        note=f"{rates[0] / rates[1]:.2f} of the store's {rates[1]:,.0f}",
                    )
                )
        _bytes(bench, f"{question} of {counts[-1]:,}", told[-1][question], counts[-1], 250)
    worker = max(one[question]["worker"] for one in told for question in QUESTIONS)
    bench.at_most("spark", "a Python worker, resident", worker / MIB, "MiB", limit=400)
    heap = max(one[question]["heap"] for one in told for question in QUESTIONS)
    bench.at_most("spark", "Java's heap, in use", heap / MIB, "MiB", limit=2_048)
    _naive(bench, corpora[0], _rate(counts, told, "pairs", "seconds") if counts[1:] else None)


@measure("spark-skew", "the same of documents that are alike: equal, one footer, near, half alike")
def run_skew(bench: Bench) -> None:
    """Ask about corpora in which many documents meet."""
    for name, count, questions in SKEWED:
        corpus = _made(bench, name, min(count, bench.count))
        known = _embedded(bench, corpus, questions)
        answer = _on_spark(bench, [(corpus, questions)])
        (told,) = answer["answers"]
        bench.details[f"spark-skew, {name}"] = {"embedded": known, **answer}
        for question in questions:
            title = f"{name}, {question} of {corpus['rows']:,}"
            _compare(bench, title, known[question], told[question], corpus["rows"])
            _bytes(bench, title, told[question], corpus["rows"], 2_000)
            worker = told[question]["worker"] / MIB
            bench.add(Figure("spark-skew", f"{title}, a Python worker", worker, "MiB"))


def _made(bench: Bench, name: str, count: int) -> dict[str, Any]:
    return in_child(f"{HERE}:made", folder=str(bench.work), name=name, count=count, seed=bench.seed)


def _embedded(bench: Bench, corpus: dict[str, Any], questions: list[str]) -> dict[str, Any]:
    return in_child(
        f"{HERE}:embedded",
        cores=CORES,
        folder=corpus["folder"],
        questions=questions,
        work=str(bench.work),
    )


def _on_spark(bench: Bench, asked: list[tuple[dict[str, Any], list[str]]]) -> dict[str, Any]:
    """Ask Spark, after a question that warms it, and add to each answer what it shuffled."""
    warm = _made(bench, "plain", 2_000)
    corpora = [[warm["folder"], ["dedupe", "pairs"]]]
    corpora += [[corpus["folder"], questions] for corpus, questions in asked]
    answer = in_child(
        f"{HERE}:on_spark",
        cores=CORES,
        corpora=corpora,
        work=str(bench.work),
        partitions=PARTITIONS,
        memory=MEMORY,
    )
    if "absent" in answer:
        raise RuntimeError("this measure needs pyspark: pip install --group spark")
    stages = answer.pop("log")
    for told in answer["answers"]:
        for one in told.values():
            begun = one["ended"] - one["seconds"]
            own = [stage for stage in stages if begun <= stage.get("ended", 0) <= one["ended"]]
            one["stages"] = own
            one["shuffled"] = sum(stage.get("shuffled", 0) for stage in own)
            one["spilled"] = sum(stage.get("spilled", 0) for stage in own)
            one["heap"] = max((stage.get("heap", 0) for stage in own), default=0)
    answer["answers"] = answer["answers"][1:]
    return answer


def _compare(
    bench: Bench, title: str, own: dict[str, Any], one: dict[str, Any], count: int
) -> None:
    same = own["digest"] == one["digest"]
    bench.add(
        Figure(
            "spark",
            f"{title}, from Parquet",
            one["seconds"],
            "s",
            peer="the store",
            peer_value=own["seconds"],
            ratio=own["seconds"] / one["seconds"],
            target="the store's rows, and values",
            reached=same,
            note=f"{one['rows']:,} rows, {'as' if same else 'NOT as'} the store in "
            f"{own['seconds']:.1f} s; {1e6 * one['processor'] / count:,.0f} us of processor a "
            f"document, the store {1e6 * own['processor'] / count:,.0f}",
        )
    )


def _bytes(bench: Bench, title: str, one: dict[str, Any], count: int, limit: int) -> None:
    bench.at_most(
        "spark",
        f"{title}, shuffled",
        one["shuffled"] / count,
        "B a document",
        limit=limit,
        note=f"{one['spilled'] / count:,.0f} spilled",
    )


def _rate(counts: list[int], told: list[dict[str, Any]], question: str, clock: str) -> float:
    """Return the documents a second between the two largest sizes."""
    more: float = told[-1][question][clock] - told[-2][question][clock]
    return (counts[-1] - counts[-2]) / max(1e-9, more)


def _naive(bench: Bench, corpus: dict[str, Any], own: float | None) -> None:
    found = in_child(
        f"{HERE}:mllib",
        cores=CORES,
        folder=corpus["folder"],
        counts=NAIVE,
        work=str(bench.work),
        memory=MEMORY,
    )
    bench.details["spark, MLlib"] = found
    less, more = (found[str(count)]["seconds"] for count in NAIVE[-2:])
    rate = (NAIVE[-1] - NAIVE[-2]) / max(1e-9, more - less)
    bench.add(
        Figure(
            "spark",
            "MLlib's MinHashLSH, marginal rate",
            rate,
            "documents/s",
            ratio=None if own is None else own / rate,
            target="a hundredth of simdb's",
            reached=None if own is None else own >= 100 * rate,
            note="" if own is None else f"simdb on Spark is {own / rate:,.0f} x faster",
        )
    )
