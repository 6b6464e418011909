"""Example 3.23 of MMDS 3.8.6: what stop-word shingles leave of an advertisement and of prose."""

from __future__ import annotations

import pytest

import simdb

ADVERTISEMENT = "Buy Sudzo."
PROSE = "I recommend that you buy Sudzo for your laundry. x"
STOP_WORDS = ("I", "that", "you", "for", "your")


def test_example_3_23_an_advertisement_has_no_shingle_and_the_sentence_has_five(tmp_path):
    """Each of the five, cut out of the sentence, is contained in it; nothing else is in it."""
    kind = simdb.Text(simdb.StopWordShingles(2, STOP_WORDS))
    shingles = ["I recommend that", "that you buy", "you buy Sudzo", "for your laundry"]
    shingles.append("your laundry. x")
    with simdb.open(tmp_path / "s.simdb") as database:
        pages = database.collection("pages", kind, exact_floor="1/5", containment=True, seed=1)
        pages.add("prose", PROSE)
        pages.add("advertisement", ADVERTISEMENT)
        for shingle in shingles:
            (match,) = pages.search(shingle, threshold="1/5")
            assert (match.key, match.similarity) == ("prose", 1 / 5)
        assert not pages.search("recommend that you are buying", threshold="1/5")
        assert not pages.search(ADVERTISEMENT, threshold="1/5")


@pytest.mark.parametrize("word", [1, None, "", "two words", "-"])
def test_what_cannot_be_a_word_is_no_stop_word(word):
    with pytest.raises(simdb.ConfigurationError, match="which never occurs as a word"):
        simdb.StopWordShingles(2, ("the", word))


@pytest.mark.parametrize(
    ("word", "settings"),
    [("don't", {}), ("3.14", {}), ("3.14", {"words": "unicode", "ignore": ("punctuation",)})],
)
def test_what_is_a_word_by_other_settings_is_no_stop_word_by_these(word, settings):
    shingles = simdb.StopWordShingles(1, (word,))
    with pytest.raises(simdb.ConfigurationError, match="which never occurs as a word"):
        simdb.Text(shingles, **settings)
    assert simdb.Text(shingles, words="unicode").shingles == shingles


NEVER_WORDS = [
    ("我们", {"words": "unicode"}),
    ("และ", {"words": "unicode"}),
    ("né", {"unicode": "NFD"}),
    ("_", {"ignore": ("punctuation",)}),
]


@pytest.mark.parametrize(("word", "settings"), NEVER_WORDS)
def test_nothing_is_made_of_stop_words_that_these_settings_leave_no_word(tmp_path, word, settings):
    kind = simdb.Text(simdb.StopWordShingles(1, ("the", word)), **settings)
    refused = pytest.raises(simdb.ConfigurationError, match="which never occurs as a word")
    with simdb.open(tmp_path / "s.simdb") as database:
        with refused:
            database.collection("c", kind)
        with refused:
            database.create_collection("c", kind)
        kept = database.collection("kept", simdb.Text())
        with refused:
            kept.rebuild(kind)
        assert database.collection_names() == ["kept"]
    with refused:
        simdb.Recipe.of(kind)


@pytest.mark.parametrize(("word", "settings"), NEVER_WORDS)
def test_what_is_stored_with_such_stop_words_opens_as_ever(tmp_path, monkeypatch, word, settings):
    kind = simdb.Text(simdb.StopWordShingles(1, ("the", word)), **settings)
    with monkeypatch.context() as earlier, simdb.open(tmp_path / "s.simdb") as database:
        earlier.setattr(simdb.Text, "require_useful", lambda self: None)
        database.collection("c", kind, threshold=0.5).add(1, "the cat and the dog")
    with simdb.open(tmp_path / "s.simdb") as database:
        for stored in (
            database["c"],
            database.collection("c", threshold=0.5),
            database.collection("c", kind, threshold=0.5),
            database.collection("copy", recipe=database["c"].recipe()),
        ):
            assert stored.kind == kind
        rows = [{"k": 2, "t": "the cat and the dog"}]
        for threshold in (None, 0.4):
            (pair,) = simdb.link(database["c"], rows, item="t", key="k", threshold=threshold)
            assert (pair["left"], pair["right"]) == (1, 2)
        database["c"].rebuild(kind, threshold=0.6)
        assert [match.key for match in database["c"].search("the cat or the dog")] == [1]
        assert simdb.Recipe.from_json(database["c"].recipe().to_json()).kind == kind


def test_what_these_settings_make_a_word_is_a_stop_word():
    shingles = simdb.StopWordShingles(1, ("don't",))
    simdb.Recipe.of(simdb.Text(shingles, ignore=("punctuation",)))  # where it is dont


@pytest.mark.parametrize("words", ["the", (), None, 5])
def test_stop_words_are_a_sequence_of_words(words):
    with pytest.raises(simdb.ConfigurationError, match="must be a sequence of words"):
        simdb.StopWordShingles(2, words)
