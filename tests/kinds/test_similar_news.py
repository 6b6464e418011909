"""Pages with the same news article and other surroundings: stop-word shingles (MMDS 3.2.4, 3.8.6).

A page is about half an article and half what a newspaper puts around it. Shingles that begin with a
stop word come from the article nearly alone, so that pages with one article are alike and pages of
one newspaper are not; character shingles see no difference between the halves.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import simdb
from simdb import kinds
from simdb.kinds.base import SetMeasure
from simdb.kinds.text import TextItems
from tests.support import oracle

SECRET = b"secret"
STOP_WORDS = kinds.Text(kinds.StopWordShingles(2), lowercase=True)
CHARACTERS = kinds.Text(kinds.CharacterShingles(10), lowercase=True)

ARTICLES = (
    "A spokesperson for the Sudzo Corporation revealed today that studies have shown it is good "
    "for people to buy Sudzo products. The studies were done by the laboratory of the company in "
    "Ohio, and none of them has been printed in a journal, but she said that all of the data "
    "would be given to anyone who asked for it before the end of the year.",
    "Heavy rain in the north of the country has closed more than a hundred roads, and the army "
    "was called in to help with the evacuation of three villages on the river. Nobody was hurt, "
    "the governor said at a meeting with reporters, but it could be weeks before the bridges are "
    "safe to use and the farmers can return to what is left of their fields.",
    "The central bank left its rates as they are, which most of the traders had expected, and it "
    "hinted that there would be no change for the rest of the winter. Prices in the shops rose by "
    "less than in any month since the spring, so that the board has the time to wait and to see "
    "how the new taxes work, its chairman told a committee of the senate.",
)
NEWSPAPERS = (
    "Gotham Courier | Subscribe | Weather 61F cloudy | Sports scores | Classified ads | Crossword "
    "| Mets 5, Cubs 2 | Senate vote tonight | Cheap flights Miami | Buy Sudzo | Movie times "
    "| Subway delays Line 7 | Best pizza Brooklyn | Contact us | Jobs | Real estate | Obituaries "
    "| Horoscope | Lottery numbers 4 11 23 | Archive 1987 | Newsletter | Terms | Privacy",
    "Valley Herald - Home - Local - Obits - Photos - Video - High school football - Tractor sale "
    "- Tomato festival Saturday - Fire crews rescue cat - Coupons - 20% off tires - Dental plan "
    "- Marketplace - Pickup trucks - Puppies free - Church listings - Radio schedule - Recipes "
    "- Plum pie - School lunch menus - Garage sales - Log in - Mobile app - Advertise - Help",
)


@dataclass(frozen=True)
class Compared:
    """Similarities of pages: one article and two newspapers, and the other way round."""

    same_article: npt.NDArray[np.float64]
    same_surroundings: npt.NDArray[np.float64]

    @property
    def told_apart(self) -> float:
        """How often a page with the same article is more similar than one of the newspaper."""
        higher = self.same_article[:, None] > self.same_surroundings[None, :]
        return float(higher.mean())


def wrapped(article: str, surroundings: Sequence[str]) -> str:
    """Return a page: two thirds of the surroundings, the article, the rest of them."""
    cut = 2 * len(surroundings) // 3
    return "\n".join([*surroundings[:cut], "", article, "", *surroundings[cut:]])


def pages_of(
    articles: Sequence[str], newspapers: Sequence[Sequence[str]]
) -> list[tuple[int, int, str]]:
    """Return every article in every newspaper, as (article, newspaper, page)."""
    return [
        (i, j, wrapped(article, surroundings))
        for i, article in enumerate(articles)
        for j, surroundings in enumerate(newspapers)
    ]


def compared(kind: kinds.Text, pages: list[tuple[int, int, str]]) -> Compared:
    items = TextItems(kind, SECRET)
    with np.errstate(over="ignore"):
        features = items.symbols([items.encode(page) for _, _, page in pages])
    answers = []
    for same, other in ((0, 1), (1, 0)):
        pairs = [
            pair
            for pair in combinations(range(len(pages)), 2)
            if pages[pair[0]][same] == pages[pair[1]][same]
            and pages[pair[0]][other] != pages[pair[1]][other]
        ]
        left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
        with np.errstate(over="ignore"):
            answers.append(SetMeasure().compare_pairs(features, left, right).values())
    return Compared(*answers)


# Made pages.


def test_the_advertisement_of_example_3_5_has_no_shingles_and_the_sentence_has():
    items = TextItems(STOP_WORDS, SECRET)
    with np.errstate(over="ignore"):
        symbols = items.symbols([b"Buy Sudzo", ARTICLES[0].encode()])
    assert np.diff(symbols.offsets).tolist()[0] == 0
    assert ("a", "spokesperson", "for") in oracle.shingle_set(ARTICLES[0], STOP_WORDS)
    assert ("the", "sudzo", "corporation") in oracle.shingle_set(ARTICLES[0], STOP_WORDS)


def test_stop_word_shingles_prefer_the_article_where_characters_do_not():
    pages = pages_of(ARTICLES, [[newspaper] for newspaper in NEWSPAPERS])
    by_stop_words = compared(STOP_WORDS, pages)
    assert by_stop_words.same_article.min() > 0.9
    assert by_stop_words.same_surroundings.max() < 0.1
    by_characters = compared(CHARACTERS, pages)
    # Half of the shingles are common either way: the Jaccard similarity is a third (3.8.6).
    assert abs(by_characters.same_article - 1 / 3).max() < 0.02
    assert abs(by_characters.same_surroundings - 1 / 3).max() < 0.02
    assert by_characters.told_apart == 0.0


def test_other_words_and_another_number_of_following_words_can_be_chosen():
    pages = pages_of(ARTICLES, [[newspaper] for newspaper in NEWSPAPERS])
    for shingles in (
        kinds.StopWordShingles(1),
        kinds.StopWordShingles(3),
        kinds.StopWordShingles(2, ("the", "of", "and", "to", "in", "that", "it")),
    ):
        answer = compared(kinds.Text(shingles, lowercase=True), pages)
        assert answer.told_apart == 1.0
    # Words of menus instead of prose: nothing of the articles is left.
    menus = kinds.StopWordShingles(2, ("home", "local", "sports", "weather", "jobs", "tires"))
    answer = compared(kinds.Text(menus, lowercase=True), pages)
    assert answer.same_article.max() == 0.0
    assert answer.same_surroundings.min() == 1.0


def test_a_shortened_article_is_still_found_by_a_search_and_the_newspaper_is_not(tmp_path):
    pages = pages_of(ARTICLES, [[newspaper] for newspaper in NEWSPAPERS])
    shortened = wrapped(ARTICLES[1].rpartition(",")[0], ["Harbor Gazette | Boats | Tides 6:15"])
    with simdb.open(tmp_path / "news.simdb") as database:
        collection = database.collection("news", STOP_WORDS, threshold=0.4, seed=1)
        collection.add_many((f"{article} {newspaper}", page) for article, newspaper, page in pages)
        found = {match.key: match.similarity for match in collection.search(shortened)}
        assert set(found) == {"1 0", "1 1"}
        for key, similarity in found.items():
            page = next(page for i, j, page in pages if f"{i} {j}" == key)
            assert similarity == float(oracle.text_similarity(shortened, page, STOP_WORDS))
        groups = {frozenset(group.keys) for group in collection.groups(0.6)}
    assert groups == {frozenset({f"{article} 0", f"{article} 1"}) for article in range(3)}


# Real ones.


def rows_of(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(folder / "text" / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, islice(lines, 3_000))


@pytest.fixture(scope="module")
def real_pages(data_directory: Path) -> list[tuple[int, int, str]]:
    """Twelve stories of Reuters in eight newspapers, half article and half surroundings.

    Odd newspapers are surrounded by Reuters' own headlines of other stories, even ones by subjects
    and organisations of newsgroups.
    """
    generator = random.Random(1)
    stories, headlines, lines = [], [], []
    for row in rows_of(data_directory, "reuters21578.jsonl.gz"):
        text = row["text"]
        headlines.append(row["title"] or "")
        is_prose = sum(map(str.isdigit, text)) * 50 < len(text)
        if 2_000 < len(text) < 2_600 and is_prose:
            stories.append(text)
    for row in rows_of(data_directory, "newsgroups20.jsonl.gz"):
        for line in row["text"].partition("\n\n")[0].splitlines():
            name, _, value = line.partition(": ")
            if name in ("Subject", "Organization"):
                lines.append(value.removeprefix("Re: "))
    newspapers = []
    for number in range(8):
        short = [line for line in (headlines if number % 2 else lines) if 10 < len(line) < 80]
        surroundings: list[str] = []
        while sum(map(len, surroundings)) + len(surroundings) < 2_300:
            surroundings.append(generator.choice(short))
        newspapers.append(surroundings)
    return pages_of(generator.sample(stories, 12), newspapers)


@pytest.mark.data
def test_real_stories_are_told_from_real_surroundings_by_stop_words_only(real_pages):
    by_stop_words = compared(STOP_WORDS, real_pages)
    assert by_stop_words.same_article.size == 12 * 28
    assert by_stop_words.same_surroundings.size == 8 * 66
    assert by_stop_words.same_article.min() > 0.4
    assert by_stop_words.same_surroundings.max() < 0.3
    by_characters = compared(CHARACTERS, real_pages)
    assert by_characters.told_apart < 0.3
    assert by_characters.same_article.mean() < by_characters.same_surroundings.mean()


@pytest.mark.data
def test_a_collection_groups_real_pages_by_their_stories(real_pages, tmp_path):
    with simdb.open(tmp_path / "news.simdb") as database:
        collection = database.collection("news", STOP_WORDS, threshold=0.35, seed=1)
        collection.add_many((f"{story} {place}", page) for story, place, page in real_pages)
        groups = {frozenset(group.keys) for group in collection.groups()}
    assert groups == {frozenset(f"{story} {place}" for place in range(8)) for story in range(12)}
