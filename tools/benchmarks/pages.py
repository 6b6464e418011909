"""Reports: what one adds to the time of a job, and how large the page is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.starting import once
from tools.make_corpus import Corpus

TIMES = 3  # each in turn, after a first one, of which the least are told
MOST_SHARE = 0.1  # of the time of the job without a report
MOST_MEGABYTES = 2.0


def corpus_of(bench: Bench) -> Path:
    """Return a file of made texts, which the next run uses again."""
    path = bench.work / f"corpus-{bench.count}.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with unfinished.open("w", encoding="utf-8") as file:
            for key, text in Corpus(bench.count, bench.seed).documents():
                file.write(json.dumps({"id": key, "text": text}) + "\n")
        unfinished.replace(path)
    return path


@measure("pages", "what a report adds to dedupe, and how large it is")
def pages(bench: Bench) -> None:
    """Deduplicate a file of texts with a report and without one."""
    source, page = corpus_of(bench), bench.work / "report.html"
    command = (sys.executable, "-m", "simdb", "dedupe", source, "-o", bench.work / "kept.jsonl")
    times = [
        (once(*command).processor, once(*command, "--report", page).processor)
        for _ in range(TIMES + 1)
    ]
    alone, reported = (min(column) for column in zip(*times[1:], strict=True))
    more = reported - alone
    share = more / alone
    bench.add(
        Figure(
            *("pages", f"a report of dedupe of {bench.count:,} texts, of the time of the job"),
            *(100 * share, "%"),
            target=f"at most {MOST_SHARE:.0%}",
            reached=share <= MOST_SHARE,
            note=f"{more:.2f} s of processor more than {alone:.2f}",
        )
    )
    size = page.stat().st_size / 1e6
    bench.at_most("pages", "the page", size, "MB", limit=MOST_MEGABYTES)
