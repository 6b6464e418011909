"""Scores of records calibrated by a field that is not scored, beside what they mean (MMDS 3.8.3).

Rules and weights are set by hand, with the tables and their answers at hand: what a score means is
estimated whatever it is made of. No F1 is reported of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simdb.kinds.records import Equal, Field, Record
from tools.benchmarks.record_data import VENUES, Task
from tools.benchmarks.record_stores import pairs_of, positions, stored

PLAIN = ("unaccented", "lowercase", "alphanumeric")
# fmt: off
STREETS = (
    ("street", "st", "sts"), ("avenue", "ave", "aves"), ("boulevard", "blvd", "blv"),
    ("road", "rd"), ("highway", "hwy"), ("drive", "dr"), ("parkway", "pkwy"), ("place", "pl"),
    ("square", "sq"), ("west", "w"), ("east", "e"), ("north", "n"), ("south", "s"),
    ("1st", "first"), ("2nd", "second"), ("3rd", "third"), ("4th", "fourth"), ("5th", "fifth"),
    ("6th", "sixth"), ("7th", "seventh"), ("8th", "eighth"), ("9th", "ninth"), ("10th", "tenth"),
)
# fmt: on


def person_field(name: str, weight: int, tolerance: int) -> Field:
    """Return a field of a person; one that is missing speaks neither for a match nor against."""
    return Field(name, weight, tolerance=tolerance, missing="ignore")


PUBLICATIONS = Record(
    fields=(
        Field("title", 100, "words", prepare=PLAIN),
        Field("authors", 50, "words", prepare=PLAIN),
        Field("venue", 100, "exact", prepare=PLAIN, equivalents=VENUES),
        Field("year", 100, "exact"),
    ),
    candidates=(
        (Equal("title", ("first:20",)),),
        (Equal("title", ("last:20",)),),
        (Equal("authors", ("sorted-words",)),),
        (Equal("authors", ("first-word",)), Equal("year"), Equal("venue")),
    ),
)
PEOPLE = Record(
    fields=(
        person_field("given_name", 60, 3),
        person_field("surname", 60, 3),
        person_field("street_number", 30, 2),
        person_field("address_1", 60, 5),
        person_field("address_2", 40, 5),
        person_field("suburb", 50, 5),
        person_field("postcode", 50, 2),
        person_field("state", 20, 1),
        person_field("date_of_birth", 100, 3),
        person_field("soc_sec_id", 100, 3),
    ),
    candidates=(
        (Equal("soc_sec_id"),),
        (Equal("date_of_birth"),),
        (Equal("given_name"), Equal("surname")),
        (Equal("surname"), Equal("postcode")),
        (Equal("given_name"), Equal("postcode")),
        (Equal("address_1"), Equal("street_number")),
        (Equal("address_1"), Equal("suburb")),
    ),
)
RESTAURANTS = Record(
    fields=(
        Field("name", 100, "words", prepare=PLAIN),
        Field("address", 100, "words", prepare=PLAIN, equivalents=STREETS),
        Field("city", 20, "words", prepare=PLAIN),
    ),
    candidates=(
        (Equal("name"),),
        (Equal("name", ("first-word",)),),
        (Equal("name", ("last-word",)),),
        (Equal("address", ("digits",)),),
    ),
)
SET_BY_HAND = {
    "fodors_zagat": RESTAURANTS,
    "dblp_acm": PUBLICATIONS,
    "febrl1": PEOPLE,
    "febrl4": PEOPLE,
}
# The fields that scores are calibrated by, which are then not scored.
CALIBRATED = {"dblp_acm": "year", "febrl4": "state"}
SURE = 0.95  # the score from which on pairs are taken for matches


def calibrated(
    task: Task, unscored: str, folder: Path
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Estimate the matches at each score from a field that is not scored, beside the truth.

    Returned with the warnings of the estimate.
    """
    chosen = SET_BY_HAND[task.name]
    settings = Record(
        fields=[
            field.changed(weight=0, missing=0) if field.name == unscored else field
            for field in chosen.fields
        ],
        candidates=[
            rule for rule in chosen.rules if all(unscored not in part.names for part in rule)
        ],
    )
    with stored(task, settings, "0.1", folder) as collections:
        first, *others = collections
        result = first.calibrate(unscored, other=others[0] if others else None, certain=SURE)
        scored = pairs_of(collections)
    table: list[dict[str, Any]] = []
    for bucket in result.buckets:
        last = bucket is result.buckets[-1]
        true = [
            positions(pair) in task.truth
            for pair in scored
            if bucket.low <= pair.value and (pair.value < bucket.high or last)
        ]
        if true:
            table.append(
                {
                    "from": bucket.low,
                    "to": bucket.high,
                    "pairs": len(true),
                    "estimated": round(bucket.fraction, 3),
                    "interval": [round(bucket.fraction_low, 3), round(bucket.fraction_high, 3)],
                    "true": round(sum(true) / len(true), 3),
                }
            )
    return table, result.warnings
