"""Collections of a store: settings come back, numbers are not reused too early, nothing is left."""

# mypy: allow-untyped-calls

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import pytest

import simdb
from simdb.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    UnknownKindError,
)
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.request import IndexRequest, new_settings
from simdb.recipe import secret_of
from simdb.storage.file import environment as environments
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, collection_key, manifest_key
from tests.support.environments import record_count

KINDS = [
    simdb.Text(),
    simdb.Text(simdb.CharacterShingles(3), lowercase=True, white_space="keep", unicode="NFKD"),
    simdb.Text(simdb.WordShingles(2), unicode="keep"),
    simdb.Text(simdb.StopWordShingles(3, ("the", "to"))),
    simdb.Set(),
    simdb.Bag("maximum"),
    simdb.Bits(64, "tanimoto"),
    simdb.Record([simdb.Field("a", equivalents=[("x", "y")]), simdb.Field("b")], ["a", ("a", "b")]),
]


def settings(name="news", kind=KINDS[0], seed=1):
    request = IndexRequest(0.8, seed=seed)
    return new_settings(name, kind, request)


def create(environment, name, kind=KINDS[0]):
    with environment.write(1) as transaction:
        return catalogue.create(transaction, settings(name, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_settings_come_back_as_they_were(environment, kind):
    created = create(environment, "Zeitung 新聞", kind)
    with environment.read() as transaction:
        assert catalogue.require_settings(transaction, "Zeitung 新聞") == created
    assert created.kind == kind
    assert created.threshold == Fraction(4, 5)
    assert created.number == 1


def test_names_are_listed_sorted_and_an_absent_one_is_answered_with_them(environment):
    for name in ("b", "a", "ä"):
        create(environment, name)
    with environment.read() as transaction:
        assert catalogue.names(transaction) == ["a", "b", "ä"]
        assert catalogue.settings_of(transaction, "c") is None
        with pytest.raises(CollectionNotFoundError, match="'a', 'b', 'ä'"):
            catalogue.require_settings(transaction, "c")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "é" * 101])
def test_names_that_cannot_be_are_refused(name):
    with pytest.raises(ConfigurationError):
        catalogue.check_name(name)


@pytest.mark.parametrize("name", [None, 1, b"bytes"])
def test_names_of_other_types_are_refused(name):
    with pytest.raises(TypeError):
        catalogue.check_name(name)


def test_a_seed_gives_one_secret_and_none_gives_another_each_time():
    assert secret_of(1) == secret_of(1) != secret_of(2)
    assert secret_of(None) != secret_of(None)
    assert {len(secret_of(seed)) for seed in (None, 0, -1, 10**30)} == {32}


@pytest.mark.parametrize("seed", [True, 1.0, "1"])
def test_a_seed_of_another_type_is_refused(seed):
    with pytest.raises(ConfigurationError):
        secret_of(seed)


def test_collections_get_numbers_of_their_own(environment):
    assert [create(environment, name).number for name in "abc"] == [1, 2, 3]


def test_a_dropped_collection_is_forgotten_at_once_and_removed_in_steps(environment):
    dropped = create(environment, "a")
    kept = create(environment, "b")
    with environment.write(1) as transaction:
        for owner in (dropped.number, kept.number):
            for record in range(100):
                key = owner.to_bytes(4, "big") + record.to_bytes(4, "big")
                transaction.put(Table.DOCUMENTS, key, b"x" * 100)
        catalogue.drop(transaction, "a")
        assert catalogue.names(transaction) == ["b"]
        assert transaction.get(Table.META, manifest_key(dropped.number)) is None
    steps = 0
    more = True
    while more:
        with environment.write(1) as transaction:
            before = record_count(transaction, Table.DOCUMENTS)
            more = catalogue.collect_garbage(transaction, 1_000)
            assert before - record_count(transaction, Table.DOCUMENTS) <= 10
        steps += 1
    assert steps >= 10
    with environment.read() as transaction:
        keys = [bytes(key) for key, _ in transaction.scan(Table.DOCUMENTS, b"")]
        assert len(keys) == 100
        assert {key[:4] for key in keys} == {kept.number.to_bytes(4, "big")}
        assert catalogue.garbage(transaction) == []


def test_numbers_of_what_is_not_yet_removed_are_not_given_again(environment):
    first = create(environment, "a")
    with environment.write(1) as transaction:
        catalogue.drop(transaction, "a")
    second = create(environment, "a")
    assert second.number != first.number
    with environment.write(1) as transaction:
        owners = {owner for table, owner in catalogue.garbage(transaction) if table is Table.BANDS}
        fresh = catalogue.new_index(transaction, second)
        assert fresh.number not in owners


def test_what_is_used_is_taken_off_the_list_of_garbage(environment):
    owned = [(Table.SIGNATURES, 7), (Table.BANDS, 7)]
    with environment.write(1) as transaction:
        catalogue.add_garbage(transaction, [*owned, (Table.KEYS, 9)])
        catalogue.keep_from_garbage(transaction, owned)
        assert catalogue.garbage(transaction) == [(Table.KEYS, 9)]


def test_whoever_builds_an_index_keeps_no_collection_of_the_same_number_from_being_removed(
    environment,
):
    dropped = create(environment, "a")
    index, of_collection = (Table.BANDS, dropped.number), (Table.DOCUMENTS, dropped.number)
    with environment.write(1) as transaction:
        for table, owner in (index, of_collection):
            transaction.put(table, owner.to_bytes(4, "big") + b"key", b"record")
        catalogue.add_garbage(transaction, [index, of_collection])
        with closing(environment.reserve([dropped.number])):
            assert catalogue.is_being_built(transaction)
            assert not catalogue.collect_garbage(transaction, 1_000)
            assert catalogue.garbage(transaction) == [index]
            assert record_count(transaction, Table.DOCUMENTS) == 0
            assert record_count(transaction, Table.BANDS) == 1
        assert not catalogue.is_being_built(transaction)
        assert not catalogue.collect_garbage(transaction, 1_000)
        assert catalogue.garbage(transaction) == []


def test_a_dropped_collection_leaves_nothing_of_groups_that_were_dropped_before(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        made = database.create_collection("c", simdb.Set(), threshold=0.5, groups="chain")
        made.add_many((number, [1, 2]) for number in range(2))
        made.rebuild(drop_groups=True)
        database.drop_collection("c")
        database.compact()
        with database._handle.read() as transaction:
            left = [bytes(key) for key, _ in transaction.scan(Table.META, b"")]
    assert not [key for key in left if key.startswith(layout.owner_prefix(1))]


def test_damaged_settings_are_damage(environment):
    create(environment, "a")
    key = collection_key("a")
    for payload in (layout.pack({"number": 1}), layout.pack([1, 2]), layout.pack({"kind": 5})):
        with environment.write(1) as transaction:
            transaction.put(Table.META, key, layout.seal(Table.META, key, payload))
        with environment.read() as transaction, pytest.raises(CorruptionError):
            catalogue.require_settings(transaction, "a")
    with environment.write(1) as transaction:
        transaction.put(Table.META, key, b"not sealed")
    with environment.read() as transaction, pytest.raises(CorruptionError):
        catalogue.settings_of(transaction, "a")


def test_a_kind_of_a_later_version_is_refused(environment):
    stored = layout.unpack(settings().encode())
    stored["kind"]["kind"] = "hologram"
    with pytest.raises(UnknownKindError, match="hologram"):
        CollectionSettings.decode("news", layout.pack(stored))


def test_every_flipped_byte_of_the_meta_table_is_damage_or_changes_nothing(tmp_path):
    path = tmp_path / "store.simdb"
    with simdb.open(path, threads=1) as database:
        texts = database.collection("texts", simdb.Text(), threshold=0.8)
        texts.add("a", "a text that is long enough to have some shingles")
    environment = environments.acquire(path, read_only=False, sync="full", map_size=None)
    with environment.read() as transaction:
        records = [
            (bytes(key), bytes(value))
            for key, value in transaction.scan(Table.META, b"")
            if bytes(key) in (collection_key("texts"), manifest_key(1))
        ]
    assert len(records) == 2
    for key, value in records:
        for position in range(0, len(value), 3):
            damaged = bytearray(value)
            damaged[position] ^= 0x10
            with environment.write(1) as transaction:
                transaction.put(Table.META, key, bytes(damaged))
            with simdb.open(path) as database, pytest.raises(CorruptionError):
                database["texts"].get("a")
        with environment.write(1) as transaction:
            transaction.put(Table.META, key, value)
    environments.release(environment)
    with simdb.open(path) as database:
        assert database.check(deep=True).sound
