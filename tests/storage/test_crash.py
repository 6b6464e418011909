"""kill -9 under load: what was acknowledged is there, what was under way is there whole or not.

A child works through the public API and says what it begins and what has returned; the parent
kills it at a random moment, opens the store again and compares it with what it was told. The
long form goes on for more rounds; every seed is printed.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import random
import signal
import time

import pytest

import simdb
from tests.support.processes import Child

WORDS = [f"word{number}" for number in range(300)]
KIND = simdb.Text(simdb.CharacterShingles(7))


def new_text(generator):
    return " ".join(generator.choice(WORDS) for _ in range(generator.choice([3, 30, 30, 400])))


def next_change(generator, known):
    """Return a random change: a verb, and a list of (key, text) or of keys."""
    choice = generator.random()
    new = f"k{generator.getrandbits(60)}"
    present = sorted(known)
    if choice < 0.5 or len(present) < 5:
        return "add", [(new, new_text(generator))]
    if choice < 0.7:
        count = generator.choice([2, 20, 100])
        return "add_many", [(f"{new}-{number}", new_text(generator)) for number in range(count)]
    if choice < 0.8:
        return "replace", [(generator.choice(present), new_text(generator))]
    if choice < 0.9:
        return "delete", [generator.choice(present)]
    return "delete_many", generator.sample(present, min(len(present), 15))


def apply(known, verb, rows):
    """Make a change in a dict."""
    if verb.startswith("delete"):
        for key in rows:
            del known[key]
    else:
        known.update(rows)


def carry_out(collection, verb, rows):
    """Make a change in a collection."""
    if verb == "add_many":
        collection.add_many(rows)
    elif verb == "delete_many":
        collection.delete_many(rows)
    elif verb == "delete":
        collection.delete(rows[0])
    else:
        getattr(collection, verb)(*rows[0])


def work(path, seed, known):
    """Return what a child does until it is killed."""

    def changes(child):
        generator = random.Random(seed)
        with simdb.open(path, threads=1) as database:
            collection = database["texts"]
            while True:
                verb, rows = next_change(generator, known)
                child.say(json.dumps(["begin", verb, rows]))
                carry_out(collection, verb, rows)
                apply(known, verb, rows)
                child.say(json.dumps(["done"]))
                if generator.random() < 0.02:
                    child.say(json.dumps(["begin", "compact", []]))
                    collection.compact()
                    child.say(json.dumps(["done"]))

    return changes


def replay(lines, known):
    """Return what the store must hold, and what it may hold instead: a change was under way."""
    pending = None
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # the last line was cut short
            break
        if event[0] == "begin":
            pending = event[1:]
        else:
            assert pending is not None
            if pending[0] != "compact":
                apply(known, *pending)
            pending = None
    instead = dict(known)
    if pending is not None and pending[0] != "compact":
        apply(instead, *pending)
    return instead


def run_rounds(path, rounds, first_seed, longest):
    known: dict[str, str] = {}
    with simdb.open(path, threads=1) as database:
        database.collection("texts", KIND, threshold=0.6, seed=1).add("first", "the first text")
    known["first"] = "the first text"
    acknowledged = under_way = 0
    for seed in range(first_seed, first_seed + rounds):
        print("seed", seed)  # noqa: T201 - shown when the test fails
        generator = random.Random(seed)
        child = Child(work(path, seed, dict(known)))
        lines = [child.hear()]
        time.sleep(generator.random() ** 2 * longest)
        child.signal(signal.SIGKILL)
        lines += child.hear_all()
        assert child.end() == -signal.SIGKILL
        instead = replay(lines, known)
        acknowledged += len(lines) // 2
        with simdb.open(path, threads=1) as database:
            texts = database["texts"]
            stored = {str(record.key): record.item for record in texts.items()}
            assert stored in (known, instead)
            under_way += stored != known
            known = stored
            assert len(texts) == len(known)
            assert database.check(deep=True).problems == ()
            for key in generator.sample(sorted(known), min(len(known), 10)):
                assert texts.get(key).item == known[key]
                assert key in [match.key for match in texts.search(known[key], threshold=1)]
    return acknowledged, under_way


@pytest.fixture(scope="module", autouse=True)
def _compiled(tmp_path_factory):
    """Have everything compiled before the first child is forked."""
    path = tmp_path_factory.mktemp("warm") / "warm.simdb"
    generator = random.Random(0)
    with simdb.open(path, threads=1) as database:
        texts = database.collection("texts", KIND, threshold=0.6)
        texts.add_many((number, new_text(generator)) for number in range(200))
        texts.replace(5, "another text")
        texts.search("another text")
        texts.delete_many(range(50))
        texts.compact()
        assert database.check(deep=True).sound


def test_no_acknowledged_change_is_lost_and_none_is_seen_by_half(tmp_path):
    acknowledged, _ = run_rounds(tmp_path / "store.simdb", 6, 1_000, 0.15)
    assert acknowledged > 6  # at least one in each round


@pytest.mark.slow
def test_many_kills_later_nothing_is_lost(tmp_path):
    acknowledged, under_way = run_rounds(tmp_path / "store.simdb", 400, 50_000, 0.5)
    assert acknowledged > 2_000
    assert under_way > 0


def test_a_child_that_fails_says_so(tmp_path):
    # The harness can fail: a change that the store refuses ends the child, which is told.
    child = Child(work(tmp_path / "absent" / "store.simdb", 1, {}))
    assert child.hear().startswith("DatabaseNotFoundError")
    assert child.end() == 1
