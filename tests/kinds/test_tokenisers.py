"""Tokenisers of one's own: named and versioned in the store, and missed when they are not there."""

from __future__ import annotations

import importlib
import json
from itertools import combinations, pairwise
from typing import Any

import pytest

import simdb
from simdb.answers.exact import memory
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    StorageError,
    UnknownTokeniserError,
    WrongTypeError,
)
from simdb.ingest import add as loading
from simdb.kinds import tokenisers
from simdb.kinds.text import TokenisedTexts
from simdb.kinds.tokenisers import tokeniser
from simdb.recovery import untrusted
from tests.support.commands import run
from tests.support.processes import interpreted
from tests.support.similarities import jaccard

TEXTS = [
    "The quick brown foxes jumped over the lazy dogs",
    "the quick brown fox jumps over a lazy dog",
    "A quick fox jump over the lazy dog again",
    "nothing of that at all, in no way",
    "",
]


@pytest.fixture(autouse=True)
def registered():
    """Whatever a test registers is forgotten after it."""
    before = dict(tokenisers._TOKENISERS)
    tokeniser("stems")(stems)
    yield
    tokenisers._TOKENISERS.clear()
    tokenisers._TOKENISERS.update(before)


def stems(text: str) -> list[str]:
    """Words cut after four letters, and every two of them that follow each other."""
    words = [word[:4] for word in text.lower().split()]
    return words + [" ".join(two) for two in pairwise(words)]


def test_texts_are_compared_by_what_the_function_returns(tmp_path):
    with simdb.open(tmp_path / "a.simdb") as db:
        kind = simdb.Text(simdb.Tokens("stems"))
        made = db.collection("c", kind, threshold=0.3, exact_floor=0.2)
        made.add_many(enumerate(TEXTS))
        expected = {
            (one, other): float(jaccard(stems(TEXTS[one]), stems(TEXTS[other])))
            for one, other in combinations(range(len(TEXTS)), 2)
            if jaccard(stems(TEXTS[one]), stems(TEXTS[other])) >= 0.3
        }
        assert len(expected) >= 2
        assert {(p.left, p.right): p.similarity for p in made.pairs()} == expected
        assert made.search(TEXTS[0].upper())[0].similarity == 1
        assert made.get(0).item == TEXTS[0]
        made.rebuild(simdb.Text(simdb.WordShingles(1)))
        made.rebuild(kind)
        assert {(p.left, p.right): p.similarity for p in made.pairs()} == expected
        assert made.check(deep=True).sound
        told = made.stats()["settings"]["shingles"]
        assert told == {"of": "tokens", "name": "stems", "version": "1"}


def test_the_function_sees_texts_as_the_settings_normalise_them(tmp_path):
    seen = []

    @tokeniser("noting", "2")
    def noting(text: str) -> list[str]:
        seen.append(text)
        return [text]

    with simdb.open(tmp_path / "a.simdb") as db:
        tokens = simdb.Tokens("noting", "2")
        made = db.collection("c", simdb.Text(tokens, lowercase=True, unicode="NFKC"))
        made.add(1, "  A  \ufb01ne\tDAY ")
        assert set(seen) == {"a fine day"}
        kept = db.collection("d", simdb.Text(tokens, white_space="keep"))
        seen.clear()
        kept.add(1, " A\n")
        assert set(seen) == {" A\n"}


@pytest.mark.parametrize(("threads", "most"), [(1, 2**26), (2, 2**26), (1, 50)])
def test_the_function_is_called_once_for_each_text_that_is_added(
    tmp_path, monkeypatch, threads, most
):
    seen = []

    @tokeniser("counting")
    def counting(text: str) -> list[str]:
        seen.append(text)
        return text.split()

    monkeypatch.setattr(tokenisers, "MOST_KEPT", most)
    monkeypatch.setattr(loading, "BATCH_ITEMS", 30)
    texts = [f"text {number} of {number // 7}" for number in range(100)]
    with simdb.open(tmp_path / "a.simdb", threads=threads) as db:
        made = db.collection("c", simdb.Text(simdb.Tokens("counting")))
        made.add_many(enumerate(texts))
        if most > 50:
            assert sorted(seen) == sorted(texts)
        seen.clear()
        made.add("twice", texts[3])
        assert seen == texts[3:4]
        made.add_many([("bad", 5), ("again", texts[3])], on_bad="skip")
        assert made.check(deep=True).sound
        items = made._known.signer.items
        assert isinstance(items, TokenisedTexts)
        hashes = items._hashes
        assert (hashes._made, hashes._made_bytes) == ({}, 0)


def test_a_check_goes_on_after_a_function_that_fails(tmp_path):
    broken: list[bool] = []

    @tokeniser("breaking")
    def breaking(text: str) -> list[str]:
        if broken:
            raise RuntimeError
        return text.split()

    with simdb.open(tmp_path / "a.simdb") as db:
        made = db.collection("c", simdb.Text(simdb.Tokens("breaking")))
        made.add_many(enumerate(["one text", "another text"]))
        broken.append(True)
        assert made.check().sound
        report = made.check(deep=True)
        assert [problem.table for problem in report.problems] == ["items", "items", "signatures"]
        assert "'breaking' failed on a text" in report.problems[2].problem


def test_texts_of_few_tokens_are_not_kept_without_end(monkeypatch):
    """As those of rows whose keys are stored, which nobody signs."""
    tokeniser("nothing")(lambda _: [])
    monkeypatch.setattr(tokenisers, "MOST_KEPT", 1_000)
    hashes = tokenisers.TokenHashes(simdb.Tokens("nothing"), b"secret")
    for number in range(50):
        hashes.look_at(b"%0100d" % number, "")
        assert sum(map(len, hashes._made)) <= 1_100


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("abc", "must return a collection of strings, not a single one, 'abc'"),
        ([1], "must return strings, not int 1"),
        (None, "failed on a text: TypeError"),
    ],
)
def test_what_a_function_does_wrong_is_the_row_s_problem(tmp_path, returned, message):
    tokeniser("wrong")(lambda text: ["fine"] if text == "fine" else returned)
    with simdb.open(tmp_path / "a.simdb") as db:
        made = db.collection("c", simdb.Text(simdb.Tokens("wrong")))
        with pytest.raises(BadItemError, match=f"row 1: the tokeniser 'wrong' {message}"):
            made.add_many([(1, "fine"), (2, "other")])
        report = made.add_many([(1, "fine"), (2, "other")], on_bad="skip")
        assert (report.added, report.bad) == (1, 1)


def test_a_store_whose_tokeniser_is_not_there_opens_and_refuses_the_collection(tmp_path):
    path = tmp_path / "a.simdb"
    with simdb.open(path) as db:
        db.collection("c", simdb.Text(simdb.Tokens("stems"))).add(1, TEXTS[0])
        for number in range(3):  # each a run of its own
            db.collection("plain", simdb.Text()).add(number, TEXTS[number])
    tokeniser("stems", "2")(stems)
    del tokenisers._TOKENISERS["stems", "1"]
    with simdb.open(path) as db:
        assert len(db["plain"]) == 3
        assert db["plain"].stats()["index"]["runs"] == 3
        message = (
            "'c' cannot be used: the tokeniser 'stems', version '1', is not known here: import"
        )
        with pytest.raises(UnknownTokeniserError, match=message) as why:
            db["c"]
        assert (why.value.name, why.value.version) == ("stems", "1")
        with pytest.raises(UnknownTokeniserError):
            db.compact()  # of which the others are compacted
        assert db["plain"].stats()["index"]["runs"] == 1
        with pytest.raises(UnknownTokeniserError):
            db.collection("new", simdb.Text(simdb.Tokens("other")))
        assert "new" not in db.collection_names()
        assert [problem.record for problem in db.check().problems] == ["c"]
        assert "not known here" in str(db.stats()["collections"])
    found = run("search", path, "c", "--text", "x")
    assert found.exit_code != 0
    assert "version '1', is not known here" in found.stderr


def test_a_text_that_the_function_refuses_now_is_lost_by_repair_and_no_other(tmp_path):
    refused = []

    @tokeniser("choosy")
    def choosy(text: str) -> list[str]:
        if text in refused:
            raise ValueError(text)
        return text.split()

    with simdb.open(tmp_path / "a.simdb") as db:
        made = db.collection("c", simdb.Text(simdb.Tokens("choosy")))
        made.add_many([("first", "one two"), ("second", "three"), (3, "four")])
    refused.append("three")
    report = simdb.repair(tmp_path / "a.simdb", tmp_path / "b.simdb")
    assert not report.complete
    assert [(one.items, one.lost, one.lost_keys) for one in report.collections] == [
        (2, 1, ("second",))
    ]
    with simdb.open(tmp_path / "b.simdb") as db:
        assert [entry.key for entry in db["c"].items()] == ["first", 3]


CUTTING = """
import simdb
@simdb.kinds.tokeniser("parts")
def parts(text): return text.split()
"""
FORGETTING = """
import sys
from simdb.kinds import tokenisers
tokenisers._TOKENISERS.clear()
sys.modules.pop("cutting")
"""


@pytest.mark.usefixtures("forked_reader")
def test_what_verifies_an_untrusted_store_knows_tokenisers_by_their_modules(tmp_path, monkeypatch):
    (tmp_path / "cutting.py").write_text(CUTTING)
    monkeypatch.syspath_prepend(tmp_path)
    cutting = importlib.import_module("cutting")
    # A fork knows what its parent knows, unlike the process that it stands for.
    monkeypatch.setattr(untrusted, "_PROGRAM", FORGETTING + untrusted._PROGRAM)
    path = tmp_path / "a.simdb"
    with simdb.open(path) as db:
        db.collection("c", simdb.Text(simdb.Tokens("parts"))).add(1, "one two")
    with simdb.open(path, untrusted=True) as db:
        assert [match.key for match in db["c"].search("two one", threshold=1)] == [1]
    cutting.parts.__module__ = "__main__"
    with pytest.raises(
        StorageError, match=r"cannot be verified: .* the tokeniser 'parts'.* program"
    ):
        simdb.open(path, untrusted=True)


def test_texts_of_more_tokens_than_letters_may_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "BYTES_A_SYMBOL", 2**24 // 2_000)
    tokeniser("many")(lambda text: [f"{text} {number}" for number in range(100)])
    with simdb.open(tmp_path / "a.simdb", memory=2**24) as db:
        made = db.collection("c", simdb.Text(simdb.Tokens("many")), threshold=0.8)
        made.add_many(enumerate("abcdefghij"))
        assert made.join(made).guarantee == "probable"


def test_names_are_taken_once():
    with pytest.raises(ConfigurationError, match=r"is already tests.*stems: give another version"):
        tokeniser("stems")(lambda text: text.split())
    tokeniser("stems")(stems)  # as a module that is loaded again
    for number in (2, 2, 4):  # functions of one place, which cut differently
        made = tokeniser("grams of a test")
        if number == 2:
            made(lambda text, size=number: [text[:size]])
            continue
        with pytest.raises(ConfigurationError, match="give another version"):
            made(lambda text, size=number: [text[:size]])

    def grams(size: int) -> Any:
        return lambda text: [text[begin : begin + size] for begin in range(len(text))]

    tokeniser("closures of a test")(grams(2))
    tokeniser("closures of a test")(grams(2))

    def nested(left_out: set[str]) -> Any:
        def cut(text: str) -> list[str]:
            return [*filter(None, map(kept, text.split()))] or cut("")

        def kept(word: str) -> str:
            return "" if word in left_out else word

        return tokeniser("functions of a test")(cut)

    nested({"a"})
    nested({"a"})
    with pytest.raises(ConfigurationError, match="give another version"):
        nested({"b"})
    with pytest.raises(ConfigurationError, match="give another version"):
        tokeniser("closures of a test")(grams(4))
    wrong: Any = 7
    with pytest.raises(WrongTypeError, match="a function that takes a text"):
        tokeniser("seven")(wrong)
    with pytest.raises(ConfigurationError, match=r"Text\.shingles: Expected str, got int"):
        simdb.Text.restored({"shingles": {"of": "tokens", "name": 3}})


def test_the_command_line_takes_those_of_installed_packages(tmp_path):
    """A package brings one as an entry point; here a folder on the path of a new process."""
    (tmp_path / "brought.py").write_text(
        "import simdb\n"
        "@simdb.kinds.tokeniser('letters', '3')\n"
        "def letters(text):\n    return list(text)\n"
    )
    about = tmp_path / "brought-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[simdb.tokenisers]\nletters = brought\n")
    program = (
        "import sys, simdb; sys.path.append(sys.argv[1])\n"
        "with simdb.open(sys.argv[1] + '/a.simdb') as db:\n"
        "    kind = simdb.Text.restored(simdb.Text.prepared({'shingles': 'tokens:letters:3'}))\n"
        "    made = db.collection('c', kind)\n"
        "    made.add_many([(1, 'abc'), (2, 'cba')])\n"
        "    print([pair.similarity for pair in made.pairs()])\n"
    )
    assert json.loads(interpreted(program, tmp_path).stdout) == [1.0]


def test_a_tokeniser_that_returns_something_else_among_strings_is_told(tmp_path):
    mixed: Any = lambda text: ["a", None]  # noqa: E731
    simdb.kinds.tokeniser("mixed", version="1")(mixed)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(simdb.Tokens("mixed", "1")))
        with pytest.raises(simdb.BadItemError, match="'mixed' must return strings, not None"):
            collection.add(1, "x")


@pytest.mark.parametrize(("name", "version"), [("n", 1), ("", "1"), (5, "1")])
def test_a_name_that_no_collection_can_have_is_not_registered(name, version):
    with pytest.raises(simdb.ConfigurationError, match="must be"):
        tokeniser(name, version)(str.split)
