"""Rows with signatures that were made elsewhere are stored as if they had been signed here."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import simdb
from simdb import steps
from simdb.errors import ConfigurationError, UsageError
from tests.support.kind_cases import CASES
from tests.support.strategies import cluster_corpus

WORDS = simdb.Text(simdb.WordShingles(1))
TEXTS = [*(text for _, text in cluster_corpus(3, 30, 4)), ""]
ROWS = [(f"key {number}", text) for number, text in enumerate(TEXTS)]


def table_of(keys, items, signatures, chunk=7):
    made = pa.table({"key": keys, "item": items, "signature": signatures})
    return pa.Table.from_batches(made.to_batches(max_chunksize=chunk))


@pytest.fixture
def db(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=2) as database:
        yield database


@pytest.fixture
def exported(db):
    """A collection, and its rows with their signatures as a table."""
    source = db.collection("source", WORDS, threshold=0.5, exact_floor=0.5)
    source.add_many(ROWS)
    source.delete(ROWS[3][0])
    signed = source.signed_reader().read_all()
    entries = list(source.items())
    assert signed["key"].to_pylist() == [entry.key for entry in entries]
    items = [entry.item for entry in entries]
    return source, table_of(signed["key"], items, signed["signature"])


def test_a_collection_of_given_signatures_is_sound_and_answers_the_same(db, exported):
    source, table = exported
    made = db.collection("made", recipe=source.recipe())
    report = made.add_many(
        table, key="key", item="item", signature="signature", recipe=source.recipe()
    )
    assert report.added == len(source) == len(made)
    assert made.check(deep=True).sound
    for guarantee in ("probable", "exact"):
        pairs = [sorted(map(repr, one.pairs(guarantee=guarantee))) for one in (source, made)]
        assert pairs[0] == pairs[1] != []
    assert made.signed_reader().read_all() == source.signed_reader().read_all()


def test_bad_rows_and_duplicates_are_left_out_with_their_signatures(db, exported):
    source, table = exported
    worse = table.set_column(0, "key", pa.array([None, *table["key"].to_pylist()[1:]]))
    made = db.collection("made", recipe=source.recipe())
    named = {"key": "key", "item": "item", "signature": "signature"}
    report = made.add_many(
        worse, **named, recipe=source.recipe().fingerprint, on_bad="skip", on_duplicate="skip"
    )
    assert report.bad == 1
    assert report.duplicates_new > 0
    assert made.check(deep=True).sound


@pytest.mark.parametrize("name", ["bits:40:hamming", "vector:6:cosine", "string:levenshtein"])
def test_items_of_other_kinds_are_stored_by_their_signatures(db, name):
    case = CASES[name]
    items = case.many(np.random.default_rng(3))[:9]
    source = db.collection("source", case.kind, **case.bound)
    source.add_many(enumerate(items))
    if not source.recipe().is_probable:
        with pytest.raises(ConfigurationError):
            source.signed_reader()
        return
    plain = [source.kind.plain_item(entry.item) for entry in source.items()]
    signed = source.signed_reader().read_all()
    table = table_of(signed["key"], plain, signed["signature"])
    made = db.collection("made", recipe=source.recipe())
    columns = {"key": "key", "item": "item", "signature": "signature"}
    made.add_many(table, **columns, recipe=source.recipe())
    assert made.check(deep=True).sound
    assert made.signed_reader().read_all() == signed


def test_signatures_that_are_not_the_collections_are_refused(db, exported):
    source, table = exported
    recipe, columns = source.recipe(), {"key": "key", "item": "item"}
    other = db.collection("other", WORDS, threshold=0.5)
    with pytest.raises(ConfigurationError, match="made by the recipe"):
        other.add_many(table, **columns, signature="signature", recipe=recipe)
    made = db.collection("made", recipe=recipe)
    wrong = table.set_column(2, "signature", table["signature"].combine_chunks()[::-1])
    with pytest.raises(ConfigurationError, match="row 0 has another signature"):
        made.add_many(wrong, **columns, signature="signature", recipe=recipe)
    with pytest.raises(ConfigurationError, match="its fingerprint, 32 hexadecimal") as caught:
        made.add_many(table, **columns, signature="signature", recipe=recipe.to_json())
    assert recipe.secret.hex() not in str(caught.value)
    for column in ("key", "none"):
        with pytest.raises(UsageError):
            made.add_many(table, **columns, signature=column, recipe=recipe)
    with pytest.raises(UsageError, match="belong together"):
        made.add_many(table, **columns, signature="signature")
    with pytest.raises(UsageError, match="a table"):
        made.add_many(ROWS, signature="signature", recipe=recipe)
    exact = db.collection("exact", WORDS, threshold=None, exact_floor=0.5)
    with pytest.raises(ConfigurationError, match="nothing is signed"):
        exact.add_many(table, **columns, signature="signature", recipe=exact.recipe())
    assert len(made) == 0


def test_a_bad_item_has_no_signature_and_a_good_one_must_have_one(tmp_path):
    recipe = simdb.Recipe.of(simdb.Set(), threshold=0.6, seed=1)
    items = pa.array([[1, 2, 3], None, [4, 5, 6], [1, 2, 3, 9]], pa.list_(pa.int64()))
    table = pa.table({"number": range(4), "item": items})
    signed = pa.Table.from_batches(list(steps.sign(recipe, table.to_batches())))
    named: dict[str, Any] = {"key": "number", "item": "item", "on_bad": "skip"}
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        plain = db.collection("plain", recipe=recipe)
        given = db.collection("given", recipe=recipe)
        report = plain.add_many(table, **named)
        named |= {"signature": "signature", "recipe": recipe}
        whole = table.append_column("signature", signed["signature"])
        assert given.add_many(whole, **named) == report
        assert report.bad == 1
        assert [*given.items()] == [*plain.items()]
        lacking = pa.array([signed["signature"][0].as_py(), None, None, None], pa.binary())
        short = table.append_column("signature", lacking)
        with pytest.raises(simdb.UsageError, match="row 2 has no signature"):
            db.collection("short", recipe=recipe).add_many(short, **named)
