"""The commands that ask: search pairs groups plan."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from simdb.cli.options import (
    AsJson,
    Bands,
    CollectionName,
    GuaranteeText,
    IntegerKeys,
    MinRecall,
    Rows,
    StorePath,
    Threshold,
    ThresholdText,
    key_from,
    one_of,
    rational,
    settings_of,
)
from simdb.cli.output import (
    ProgressBar,
    counted,
    excerpt,
    note,
    print_json,
    print_json_line,
    print_line,
    print_table,
    shown_key,
)
from simdb.cli.stores import opened_collection, viewed_collection
from simdb.datatypes import Match
from simdb.errors import UsageError
from simdb.interchange import ReadingOptions, open_rows

if TYPE_CHECKING:
    from simdb.collection import CollectionView


def search(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    text: Annotated[
        str | None, typer.Option("--text", help="What to search for similar items of.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="The same, the text of a file; - reads it."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The same, a stored item; it is not its own match.")
    ] = None,
    threshold: ThresholdText = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="K", help="Only the K most similar.")
    ] = None,
    guarantee: GuaranteeText = "auto",
    min_recall: MinRecall = None,
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Print the stored items that are similar to a text.

    The most similar come first. With --json one object a line: key, similarity.
    """
    if sum(option is not None for option in (text, file, key)) != 1:
        raise UsageError("say what to search for with one of --text, --file and --key")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    asked = one_of("--guarantee", guarantee, "auto", "exact", "probable")
    own = key_from(key, integer_keys=integer_keys) if key is not None else None
    with viewed_collection(context, store, collection) as source:
        probe = source.get(own).item if own is not None else _probe(text, file)
        found = source.search(
            probe,
            threshold=rational(threshold),
            limit=limit + 1 if limit is not None and own is not None else limit,
            guarantee=asked,
            min_recall=min_recall,
        )
        matches = [match for match in found if own is None or match.key != own][:limit]
        if as_json:
            for match in matches:
                print_json_line({"key": match.key, "similarity": float(match.similarity)})
            return
        _print_matches(source, matches)
    note(
        f"{counted(len(matches), 'match', 'matches')}; "
        f"{_promise(found.guarantee, found.expected_recall)}",
        quiet=settings_of(context).quiet,
    )


def _probe(text: str | None, file: str | None) -> str:
    if file is None:
        return text or ""
    with open_rows(file, ReadingOptions(format="text")) as reader:
        rows = list(reader)
    if len(rows) != 1 or rows[0].item is None:
        problem = rows[0].problem if len(rows) == 1 else "a folder is not one text"
        raise UsageError(f"{file}: {problem}")
    return rows[0].item


def _print_matches(source: CollectionView, matches: list[Match]) -> None:
    rows = [
        (f"{match.similarity:.6f}", shown_key(match.key), excerpt(source.get(match.key).item))
        for match in matches
    ]
    if rows:
        print_table(("similarity ", "key", "text"), rows)


def _promise(guarantee: str, expected_recall: float) -> str:
    if guarantee == "exact":
        return "none is missing"
    return f"expected recall at the threshold {expected_recall:.4f}, above it higher"


def pairs(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    threshold: ThresholdText = None,
    guarantee: GuaranteeText = "auto",
    min_recall: MinRecall = None,
    as_json: AsJson = False,
) -> None:
    """Print all pairs of similar items.

    One a line, separated by tabs: similarity, the earlier inserted item, the later. With --json
    one object a line: left, right, similarity.
    """
    asked = one_of("--guarantee", guarantee, "auto", "exact", "probable")
    count = 0
    with opened_collection(context, store, collection, read_only=True) as source:
        found = source.pairs(rational(threshold), guarantee=asked, min_recall=min_recall)
        for pair in found:
            count += 1
            if as_json:
                print_json_line(
                    {
                        "left": pair.left,
                        "right": pair.right,
                        "similarity": float(pair.similarity),
                    }
                )
            else:
                print_line(
                    f"{pair.similarity:.6f}\t{shown_key(pair.left)}\t{shown_key(pair.right)}"
                )
        promise = _promise(found.guarantee, found.expected_recall)
    sys.stdout.flush()
    note(
        f"{counted(count, 'pair', 'pairs')}; {promise}", quiet=as_json or settings_of(context).quiet
    )


def groups(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    threshold: ThresholdText = None,
    min_recall: MinRecall = None,
    as_json: AsJson = False,
) -> None:
    """Print the groups of items that similar pairs connect.

    One a line, separated by tabs: how many, the representative (the first inserted), the others.
    With --json one object a line: representative, keys.
    """
    quiet = as_json or settings_of(context).quiet
    with (
        opened_collection(context, store, collection, read_only=True) as source,
        ProgressBar(quiet=quiet) as bar,
    ):
        found = source.groups(rational(threshold), min_recall=min_recall, progress=bar.callback)
    for group in found:
        if as_json:
            print_json_line({"representative": group.representative, "keys": list(group.keys)})
        else:
            others = [key for key in group.keys if key != group.representative]
            shown = [shown_key(key) for key in (group.representative, *others)]
            print_line("\t".join((str(len(group)), *shown)))
    sys.stdout.flush()
    note(
        f"{counted(len(found), 'group', 'groups')} of "
        f"{sum(len(group) for group in found):,} items; "
        f"{_promise(found.guarantee, found.expected_recall)}",
        quiet=quiet,
    )


def plan(
    *,
    threshold: Threshold = "0.8",
    recall: Annotated[
        str, typer.Option("--recall", metavar="SHARE", help="Share of pairs at the threshold.")
    ] = "0.99",
    bands: Bands = None,
    rows: Rows = None,
    points: Annotated[
        int, typer.Option("--points", min=2, max=1001, help="Points of the curve.")
    ] = 11,
    as_json: AsJson = False,
) -> None:
    """Show the index that a threshold and a recall lead to.

    Needs no store. Prints bands and rows, and the curve: the probability that a pair of a
    similarity is found.
    """
    import simdb

    exact_threshold = rational(threshold)
    planned = simdb.plan(
        exact_threshold, recall=rational(recall, name="recall"), bands=bands, rows=rows
    )
    similarities = [number / (points - 1) for number in range(points)]
    curve = [(similarity, planned.expected_recall(similarity)) for similarity in similarities]
    at_threshold = planned.expected_recall(exact_threshold)
    if as_json:
        print_json(
            {
                "bands": planned.bands,
                "rows": planned.rows,
                "expected_recall": at_threshold,
                "curve": [{"similarity": x, "probability": float(y)} for x, y in curve],
            }
        )
        return
    print_line(f"{planned.bands} bands of {planned.rows} rows")
    print_line(f"expected recall at the threshold {threshold}: {at_threshold:.6f}")
    print_table(
        ("similarity ", "probability to be found "),
        [(f"{x:.3f}", f"{y:.6f}") for x, y in curve],
    )
