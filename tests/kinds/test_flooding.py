"""Whoever chooses the texts cannot choose what collides, and equal texts cost no squares."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import simdb
from tests.support.strategies import found_groups, work_of

WORDS = simdb.Text(simdb.WordShingles(1))


def bucket_keys(collection: Any, texts: Any) -> Any:
    """Return the bucket keys of texts as a collection computes them."""
    signed = collection._present.signer.sign([text.encode() for text in texts])
    return signed.buckets.values.reshape(len(texts), -1)


def test_without_a_seed_two_stores_sign_differently_and_with_one_the_same(tmp_path):
    texts = [f"some text {number} of several words" for number in range(20)]
    keys = {}
    choices: dict[str, dict[str, Any]]
    choices = {"secret": {}, "seeded": {"seed": 5}, "other": {"seed": 6}}
    with simdb.open(tmp_path / "s.simdb") as db, simdb.open(tmp_path / "t.simdb") as other:
        for name, options in choices.items():
            for number, store in enumerate((db, other)):
                collection = store.create_collection(name, WORDS, threshold=0.8, **options)
                keys[name, number] = bucket_keys(collection, texts)
    assert (keys["seeded", 0] == keys["seeded", 1]).all()
    assert not np.isin(keys["secret", 0], keys["secret", 1]).any()
    assert not np.isin(keys["seeded", 0], keys["other", 0]).any()
    assert not np.isin(keys["secret", 0], keys["seeded", 0]).any()


def test_a_secret_stays_with_the_store_and_changes_only_by_a_seed(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        before = bucket_keys(db.collection("c", WORDS), ["some text"])
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        assert (bucket_keys(collection, ["some text"]) == before).all()
        collection.rebuild()
        assert (bucket_keys(collection, ["some text"]) == before).all()
        collection.rebuild(seed=1)
        assert not (bucket_keys(collection, ["some text"]) == before).any()


def test_texts_chosen_to_collide_under_one_key_do_not_collide_under_another(tmp_path):
    """An attacker who knows the seed of one store gathers texts that share a bucket there."""
    generator = random.Random(1)
    options: dict[str, Any] = {"threshold": 0.5, "bands": 4, "rows": 1}
    texts = [" ".join(f"w{generator.randrange(10**6)}" for _ in range(8)) for _ in range(30_000)]
    with simdb.open(tmp_path / "s.simdb") as db:
        known = db.collection("known", WORDS, seed=1, **options)
        secret = db.collection("secret", WORDS, **options)
        keys = bucket_keys(known, texts)
        # Rows are kept as 16 bits, so a word that wins a row is worth a bucket.
        values, counts = np.unique(keys[:, 0], return_counts=True)
        common = values[np.argsort(counts)[-400:]]
        chosen = [text for text, key in zip(texts, keys[:, 0], strict=True) if key in common]
        assert len(chosen) > 800

        def largest_share(collection: Any) -> Any:
            present = bucket_keys(collection, chosen)
            return sum(
                float((np.unique(band, return_counts=True)[1] - 1).sum()) for band in present.T[:1]
            ) / len(chosen)

        assert largest_share(known) > 0.5
        assert largest_share(secret) < 0.05


def test_thousands_of_equal_and_of_empty_items_do_not_make_answers_quadratic(tmp_path):
    count = 2_000
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8, seed=1)
        collection.add_many((number, "equal in all of them") for number in range(count))
        collection.add_many((f"empty {number}", "") for number in range(count))
        collection.add_many(
            (f"other {number}", f"other{number} text{number}") for number in range(200)
        )
        assert found_groups(collection) == [tuple(range(count))]
        work = work_of(collection, "groups")
        assert work.compared <= 16 * count
        assert work.looked_at <= 16 * count
        # A search proposes every item once, however many buckets it shares; empty ones never.
        matches = collection.search("equal in all of them")
        assert matches.candidates == len(matches) == count
        assert [match.key for match in matches] == list(range(count))
        assert collection.search("equal in all of them", limit=3).candidates == count
        assert collection.search("other7 text7").candidates == 1
        assert collection.search("").candidates == 0
        outcome = collection.add("new", "equal in all of them", on_duplicate="skip")
        assert outcome.duplicate_of == 0
        index = collection.stats()["index"]
        assert index["bucket_entries"] == 16 * (count + 200)
