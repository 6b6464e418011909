"""Settings of records, their stored form, and what is refused."""

from __future__ import annotations

import datetime
import struct
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.kinds.records import Equal, Field, Record, RecordFamily
from simdb.kinds.records import items as record_values
from simdb.kinds.records.items import (
    PLAIN,
    RecordItems,
    chained,
    lower_and_alphanumeric,
    lower_and_collapsed,
)

KINDS = Record(
    fields=(
        Field("name"),
        Field("born", compare="date"),
        Field("height", compare="numeric", tolerance=2.5),
        Field("code", compare="exact"),
        Field("note", 0),
    ),
    candidates=("name", ("born", Equal("code", "digits"))),
)
ITEMS = RecordItems(KINDS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DATES = st.dates()
values = {
    "name": TEXT | st.integers(-(2**63), 2**63 - 1),
    "born": DATES
    | DATES.map(str)
    | DATES.map(lambda date: str(date).replace("-", ""))
    | st.just(""),
    "height": st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**9), 10**9)
    | st.sampled_from(["1.5", " 2e3 ", " "]),
    "code": TEXT,
    "note": TEXT,
}
records = st.fixed_dictionaries({}, optional={name: st.none() | of for name, of in values.items()})


@given(records)
def test_every_value_comes_back_as_it_was_given(record):
    data = ITEMS.encode(record)
    back = ITEMS.decode(memoryview(data))
    assert back == record
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in record.items()
    }
    assert list(back) == [field.name for field in KINDS.fields if field.name in record]


@given(records, records)
def test_equal_records_are_equal_bytes(one, other):
    def typed(record: dict[str, object]) -> dict[str, str]:
        return {name: repr(value) for name, value in record.items()}  # 0.0 is not -0.0

    assert (ITEMS.encode(one) == ITEMS.encode(other)) == (typed(one) == typed(other))
    assert ITEMS.encode(dict(reversed(one.items()))) == ITEMS.encode(one)


def test_numpy_values_are_taken_as_pythons():
    record = {"name": np.str_("ann"), "height": np.float32(1.5), "code": np.str_("é")}
    back = ITEMS.decode(ITEMS.encode({**record, "note": np.int64(3)}))
    assert back == {"name": "ann", "height": 1.5, "code": "é", "note": 3}
    assert [type(value) for value in back.values()] == [str, float, str, int]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("ann", "a record must be a mapping of field names to values, not str 'ann'"),
        ([("name", "ann")], "must be a mapping"),
        ({"nmae": "ann"}, "a field 'nmae', but the fields are name, born, height, code, note"),
        ({1: "ann"}, "a field 1, but the fields are"),
        ({"name": float("nan")}, "'name' is nan, not a number; use None for a missing value"),
        ({"height": float("inf")}, "'height' is inf"),
        ({"name": 1.5}, "'name' is compared as text: .* not float 1.5"),
        ({"name": datetime.date(2001, 1, 1)}, "'name' is compared as text"),
        ({"name": True}, "'name' must be a string, a number, a date or None, not bool True"),
        ({"name": b"ann"}, "'name' must be .* not bytes b'ann'"),
        ({"name": ["ann"]}, "'name' must be .* not list"),
        ({"name": 2**63}, "'name' is 9223372036854775808, beyond 64 bits; give a string"),
        ({"name": "a\ud800"}, r"'name' holds half a surrogate pair, U\+D800, at position 1"),
        ({"name": "é" * 40_000}, "'name' has 80,000 bytes in UTF-8, more than the 65,535"),
        ({"name": "e" * 65_536}, "'name' has 65,536 bytes in UTF-8"),
        ({"height": "tall"}, "'height' is compared as a number, but 'tall' is not a number"),
        ({"height": "1_000"}, "'height' is compared as a number"),
        ({"height": "\u0663"}, "'height' is compared as a number"),
        ({"height": "nan"}, "'height' is compared as a number, but 'nan' is not a number"),
        ({"height": datetime.date(2001, 1, 1)}, "'height' is compared as a number"),
        ({"born": "19450493"}, "'born' is '19450493', which is not a valid date: "),
        ({"born": 20010229}, "'born' is 20010229, which is not a valid date: "),
        ({"born": "00000101"}, "'born' is '00000101', which is not a valid date"),
        ({"born": "yesterday"}, "'born' is compared as a date, but 'yesterday' is not one; write"),
        ({"born": "2001-1231"}, "'born' is compared as a date"),
        ({"born": 2001.0}, "'born' is compared as a date"),
        ({"born": datetime.datetime(2001, 1, 1)}, "'born' must be .* not datetime"),
    ],
)
def test_what_is_no_record_is_refused_and_the_field_is_named(record, message):
    with pytest.raises(BadItemError, match=message):
        ITEMS.encode(record)


class Whole(int):
    pass


@pytest.mark.parametrize("value", [HTTPStatus.OK, Whole(200), np.int16(200)])
def test_whole_numbers_of_other_classes_are_taken_as_pythons(value):
    assert ITEMS.encode({"name": value}) == ITEMS.encode({"name": 200})
    assert type(ITEMS.decode(ITEMS.encode({"name": value}))["name"]) is int


@pytest.mark.parametrize("value", [Whole(2**63), Whole(-(2**63) - 1)])
def test_whole_numbers_of_other_classes_have_64_bits(value):
    with pytest.raises(BadItemError, match="beyond 64 bits"):
        ITEMS.encode({"name": value})


def test_a_value_that_cannot_be_read_is_stored_and_missing_if_the_settings_say_so():
    settings = Record(
        fields=[
            Field("born", compare="date", invalid="missing"),
            Field("height", compare="numeric", invalid="missing"),
            Field("name", invalid="missing"),
        ]
    )
    items = RecordItems(settings)
    record = {"born": "19450493", "height": "tall", "name": 1.5}
    assert items.decode(items.encode(record)) == record
    columns = items.features([items.encode(record)]).columns
    assert {name: column.codes.tolist() for name, column in columns.items()} == {
        "born": [-1],
        "height": [-1],
        "name": [-1],
    }


def test_features_have_each_prepared_value_once():
    rows = [
        {"name": " Ann  LEE ", "born": "20011231", "height": "1.50", "note": "x"},
        {"name": "ann lee", "born": datetime.date(2001, 12, 31), "height": 1.5},
        {"name": "bob", "born": 20011231, "height": -0.0},
        {"name": " ", "born": None, "height": 0},
        {"name": 7, "height": " ", "born": ""},
    ]
    features = ITEMS.features([ITEMS.encode(row) for row in rows])
    assert len(features) == 5
    assert list(features.columns) == ["name", "born", "height", "code"]  # note is not compared
    name, born, height, code = features.columns.values()
    assert (name.codes.tolist(), name.values) == ([0, 0, 1, -1, 2], ["ann lee", "bob", "7"])
    day = datetime.date(2001, 12, 31).toordinal()
    assert (born.codes.tolist(), born.values) == ([0, 0, 0, -1, -1], [str(day)])
    assert born.canonical == ["2001-12-31"]
    assert born.numbers == [day]
    assert (height.codes.tolist(), height.values) == ([0, 0, 1, 1, -1], ["3/2", "0"])
    assert height.canonical == ["1.5", "0.0"]
    assert (code.codes.tolist(), code.values) == ([-1] * 5, [])
    assert not len(ITEMS.features([]))


@given(st.binary(max_size=60) | st.tuples(records, st.integers(0, 80), st.binary(max_size=9)))
def test_damaged_records_are_corruption_and_nothing_else(damage):
    if isinstance(damage, bytes):
        data = damage
    else:
        record, place, other = damage
        data = ITEMS.encode(record)
        data = data[:place] + other + data[place + len(other) :]
    for read in (ITEMS.decode, lambda given: ITEMS.features([given])):
        try:
            read(data)
        except CorruptionError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(4),
        bytes(6),
        b"\x09" + bytes(4),
        b"\x02" + bytes(4) + struct.pack("<H", 3) + b"an",
        b"\x02" + bytes(4) + struct.pack("<H", 1) + b"ann",
        b"\x02" + bytes(4) + struct.pack("<H", 1) + b"\xff",
        b"\x00\x05\x00\x00\x00" + struct.pack("<I", 0),
        b"\x00\x05\x00\x00\x00" + struct.pack("<I", 2**32 - 1),
    ],
)
def test_bytes_that_no_record_has_are_corruption(data):
    with pytest.raises(CorruptionError):
        ITEMS.decode(data)
    with pytest.raises(CorruptionError):
        ITEMS.features([data])


def test_texts_are_read_together_as_one_by_one():
    items = RecordItems(Record(fields=[Field("name"), Field("town")]))
    rows = [{"name": "ann", "town": "ulm"}, {"name": "", "town": "bonn"}, {"name": "b", "town": ""}]
    stored = [items.encode(row) for row in rows]

    def read(data: list[bytes]) -> list[list[str | None]]:
        columns = items.features(data).columns.values()
        return [[[*one.values, None][code] for code in one.codes[:3]] for one in columns]

    expected = [["ann", None, "b"], ["ulm", "bonn", None]]
    for other in ([], [{"name": "zoë", "town": "york"}], [{"name": "eve"}]):
        assert read([*stored, *map(items.encode, other)]) == expected
    moved = [stored[0][:-1], stored[1][:6] + b"x" + stored[1][6:], stored[2]]
    for damaged in (moved, [*stored, stored[0][:4]], [stored[0] + b"x", stored[1][:-1]]):
        with pytest.raises(CorruptionError):
            read(damaged)


def test_a_stored_value_that_its_field_refuses_is_corruption():
    loose = RecordItems(Record(fields=[Field("name"), Field("born"), *KINDS.fields[2:]]))
    with pytest.raises(CorruptionError, match="'born' is compared as a date"):
        ITEMS.features([loose.encode({"born": "yesterday"})])


# -- transformations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (("lowercase",), "ÉCOLE", "école"),
        (("unaccented",), "plain", "plain"),
        (("unaccented",), "Bjørn Müller ﬁ", "Bjørn Muller fi"),
        (("collapse",), " a\t b\u00a0 c ", "a b c"),
        (("alphanumeric",), "O'Neil--Smith_Jr. ", "O Neil Smith Jr"),
        (("digits",), "+1 (415) 555-0123", "14155550123"),
        (("letters",), "12 Main St.", "MainSt"),
        (("sorted-words",), "c a  b", "a b c"),
        (("first-word",), " Ann Lee", "Ann"),
        (("last-word",), "Ann Lee ", "Lee"),
        (("first-word",), " ", ""),
        (("last-word",), "", ""),
        (("initials",), "John Fitzgerald Kennedy", "JFK"),
        (("first:4",), "Clinton", "Clin"),
        (("last:4",), "Clinton", "nton"),
        (("first:4",), "Li", "Li"),
        (("lowercase", "collapse"), " A  B ", "a b"),
        (("lowercase", "alphanumeric", "first-word", "first:2"), "MC-Donald", "mc"),
    ],
)
def test_transformations_do_what_they_say(names, given, expected):
    chain = record_values.chained(names)
    assert chain(given) == expected


def test_equivalents_replace_whole_words_the_longer_first():
    field = Field(
        "name",
        equivalents=[("William", "Bill", "Billy Bob"), ("new york city", "new york", "NYC")],
    )
    replaced = record_values.Equivalents(field).replaced
    assert replaced("bill billy billings") == "william billy billings"
    assert replaced("billy bob bill") == "william william"
    assert replaced("hotel nyc, new york city") == "hotel new york city, new york city"


@pytest.mark.parametrize(
    ("equivalents", "message"),
    [
        ([("a", "b"), ("c", "A ")], "'A ' is in two groups of equivalents"),
        ([("a", " ")], "of the equivalent ' ' the preparation leaves nothing"),
    ],
)
def test_equivalents_that_contradict_each_other_are_refused(equivalents, message):
    with pytest.raises(ConfigurationError, match=message):
        Field("name", equivalents=equivalents)


# What a caller gives is not always what is declared.
ANY_FIELD: Any = Field
ANY_EQUAL: Any = Equal
ANY_RECORD: Any = Record


# -- settings ------------------------------------------------------------------------------------


def test_settings_are_kept_as_plain_tuples():
    settings = Record(
        fields=[Field("name", prepare=["lowercase"], equivalents=[["a", "b"]]), Field("phone", 0)],
        candidates=["name", Equal("phone", "digits"), ["name", Equal("phone", ["last:4"])]],
    )
    assert settings.candidates == (
        (Equal("name", ()),),
        (Equal("phone", ("digits",)),),
        (Equal("name"), Equal("phone", ("last:4",))),
    )
    assert settings.fields[0].equivalents == (("a", "b"),)
    assert hash(settings) == hash(Record(settings.fields, settings.candidates))
    assert " and ".join(map(str, settings.rules[2])) == "name and phone last:4"
    assert Record([Field("a"), Field("b", 0)]).candidates == ((Equal("a"),),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ANY_FIELD(""), "Field.name must be a string"),
        (lambda: ANY_FIELD(3), "Field.name must be a string, not 3"),
        (lambda: ANY_FIELD("a", 1.5), "weight must be a whole number from 0 to 1,000,000, not 1.5"),
        (lambda: ANY_FIELD("a", True), "weight must be"),
        (lambda: ANY_FIELD("a", -1), "weight must be"),
        (lambda: ANY_FIELD("a", compare="jaro"), "must be one of .*'edit', .* not 'jaro'"),
        (
            lambda: ANY_FIELD("a", tolerance=0),
            "tolerance must be a number above 0 and at most 1,000,000, not 0",
        ),
        (lambda: ANY_FIELD("a", tolerance=float("nan")), "tolerance must be a number above 0"),
        (lambda: ANY_FIELD("a", tolerance="4"), "tolerance must be a number above 0"),
        (lambda: ANY_FIELD("a", tolerance=2.5), "tolerance of 'edit' must be a whole number"),
        (lambda: ANY_FIELD("a", tolerance=70_000), "whole number of at most 65,535, not 70000"),
        (
            lambda: ANY_FIELD("a", missing=101),
            "missing must be 'ignore' or points from 0 to .* 100",
        ),
        (
            lambda: ANY_FIELD("a", missing="zero"),
            "missing must be a whole number .* or .ignore.",
        ),
        (lambda: ANY_FIELD("a", missing=0.5), "missing must be"),
        (lambda: ANY_FIELD("a", frequent={"x": 101}), "points from 0 up to the weight of 100"),
        (lambda: ANY_FIELD("a", frequent={"x": -1}), "points from 0 up to the weight of 100"),
        (
            lambda: ANY_FIELD("a", invalid="keep"),
            "invalid must be 'missing' or 'refuse', not 'keep'",
        ),
        (lambda: ANY_FIELD("a", prepare=["upper"]), "prepare names 'upper', which is none of"),
        (lambda: ANY_FIELD("a", prepare=["first:0"]), "prepare names 'first:0'"),
        (lambda: ANY_FIELD("a", prepare=["first"]), "prepare names 'first'"),
        (lambda: ANY_FIELD("a", prepare=[1]), "prepare names 1"),
        (lambda: ANY_FIELD("a", prepare=None), "prepare must be a sequence of names, not None"),
        (lambda: ANY_FIELD("a", equivalents=["bill"]), "equivalents must be groups of two strings"),
        (lambda: ANY_FIELD("a", equivalents=[("bill",)]), "equivalents must be groups"),
        (lambda: ANY_FIELD("a", equivalents=[("a", 1)]), "equivalents must be groups"),
        (lambda: ANY_FIELD("a", equivalents="ab"), "equivalents must be groups"),
        (
            lambda: ANY_FIELD("a", compare="date", equivalents=[("a", "b")]),
            "equivalents are for texts, not for compare='date'",
        ),
        (lambda: ANY_EQUAL(3), "Equal.field must be a string, not 3"),
        (lambda: ANY_EQUAL("a", "rhyme"), r"Equal\('a'\) names 'rhyme'"),
        (lambda: ANY_RECORD([]), "Record.fields must be a sequence of Field"),
        (lambda: ANY_RECORD(ANY_FIELD("a")), "Record.fields must be a sequence of Field"),
        (lambda: ANY_RECORD(["a"]), "Record.fields must be a sequence of Field"),
        (lambda: ANY_RECORD([ANY_FIELD("a"), ANY_FIELD("a")]), "has the field 'a' twice"),
        (lambda: ANY_RECORD([ANY_FIELD("a", 0)]), "must contain a field with a weight above 0"),
        (
            lambda: ANY_RECORD([ANY_FIELD(str(n)) for n in range(65)]),
            "fields has 65 fields, but a record has at most 64",
        ),
        (
            lambda: ANY_RECORD([ANY_FIELD("a")], ["a"] * 65),
            "candidates has 65 rules, but a record has at most 64",
        ),
        (
            lambda: ANY_RECORD([ANY_FIELD("a")], "a"),
            "must be a sequence of rules, not 'a'; put it into",
        ),
        (lambda: ANY_RECORD([ANY_FIELD("a")], ANY_EQUAL("a")), "must be a sequence of rules"),
        (lambda: ANY_RECORD([ANY_FIELD("a")], ["b"]), "names the field 'b', but the fields are a"),
        (lambda: ANY_RECORD([ANY_FIELD("a")], [()]), "a rule must name a field"),
        (
            lambda: ANY_RECORD([ANY_FIELD("a")], [3]),
            "a rule must be an Equal, a field's name or a tuple",
        ),
        (lambda: ANY_RECORD([ANY_FIELD("a")], [(3,)]), "a rule consists of Equal, Within, Near, "),
        (
            lambda: ANY_RECORD([ANY_FIELD("a")], large_bucket=0),
            "large_bucket must be a whole number",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_the_longest_settings_can_be_signed():
    settings = Record([Field(f"field{n}") for n in range(64)])
    items, family = RecordItems(settings), RecordFamily(settings, b"secret")
    data = items.encode({field.name: "é" * 32_767 for field in settings.fields})
    assert family.sign(items.features([data])).shape == (1, 256)


@settings(max_examples=60)
@given(st.lists(st.text("aB É\n\x1c\t._1", max_size=4), max_size=3))
def test_texts_are_prepared_together_as_one_by_one(texts):
    assert lower_and_collapsed(texts) == [" ".join(text.lower().split()) for text in texts]
    assert lower_and_alphanumeric(texts) == list(map(chained(PLAIN), texts))


@pytest.mark.parametrize("value", ["B_1 é", "b 1 e", "", None, 7])
def test_records_have_the_features_that_they_have_once_stored(value):
    number = Field("number", compare="numeric", invalid="missing")
    items = RecordItems(Record([Field("name", prepare=PLAIN), Field("town"), number]))
    records = [{"name": "A-b", "town": value}, {"name": value}, {"number": value, "town": None}]
    records += [{"number": "7.0"}, {"name": "a  B", "town": "", "number": "x"}]
    direct, stored = items.features_of(records), items.features(list(map(items.encode, records)))
    assert len(direct) == len(stored)
    for name, column in stored.columns.items():
        assert direct.columns[name].values == column.values
        assert direct.columns[name].codes.tolist() == column.codes.tolist()


@pytest.mark.parametrize(
    "wrong", [{"name": "x" * 65_536}, {"name": "\ud800"}, {"nam": "x"}, {"age": "x"}]
)
def test_records_that_cannot_be_stored_have_no_features(wrong):
    with pytest.raises(BadItemError):
        RecordItems(Record([Field("name"), Field("age", compare="numeric")])).features_of([wrong])


def test_a_list_is_a_text_where_the_field_has_a_separator():
    items = RecordItems(Record([Field("tags", compare="words", separator=";"), Field("name")]))
    given = items.encode({"tags": ["data mining", "sketches"], "name": "a"})
    assert given == items.encode({"tags": "data mining;sketches", "name": "a"})
    assert items.decode(items.encode({"tags": []})) == {"tags": ""}
    for wrong, told in (
        ({"tags": ["a;b"]}, "without the separator"),
        ({"tags": ["a", 1]}, "without the separator"),
        ({"name": ["a"]}, "must be a string, a number"),
    ):
        with pytest.raises(BadItemError, match=told):
            items.encode(wrong)


def test_a_list_stays_the_list_that_it_was():
    items = RecordItems(Record([Field("tags", compare="words", separator="||")]))
    assert items.encode({"tags": ["a", "|b"]}) == items.encode({"tags": "a|||b"})
    with pytest.raises(BadItemError, match="another one when it is joined"):
        items.encode({"tags": ["a|", "b"]})


@pytest.mark.parametrize("compare", ["words", "intersect", "overlap", "cosine"])
def test_a_text_of_separators_alone_is_missing(compare):
    record = Record([Field("tags", compare=compare, separator=";"), Field("name")])
    items = RecordItems(record)
    rows = [{"tags": tags, "name": "a"} for tags in (["", ""], ";", " ; ;", [""], None, "a;")]
    tags = items.features([items.encode(row) for row in rows]).columns["tags"]
    assert [code >= 0 for code in tags.codes.tolist()] == [False] * 5 + [True]
