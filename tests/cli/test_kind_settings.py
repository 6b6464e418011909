"""Kinds as options describe them: by names, and as JSON."""

from __future__ import annotations

import json

import pytest

import simdb
from simdb.cli.options import Bound
from simdb.cli.settings import KindOptions
from simdb.errors import ConfigurationError, UsageError
from tests.support.commands import done, run

RECORD = {
    "fields": [{"name": "name", "tolerance": 5}, "town", {"name": "age", "compare": "numeric"}],
    "candidates": ["town"],
}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, simdb.Text()),
        ({"kind": "text", "settings": '{"shingles": "word:2"}'}, simdb.Text(simdb.WordShingles(2))),
        (
            {"settings": '{"shingles": {"of": "stop-word", "following": 1}, "lowercase": true}'},
            simdb.Text(simdb.StopWordShingles(1), lowercase=True),
        ),
        ({"settings": '{"unicode": "keep"}', "shingles": "character:4"},
         simdb.Text(simdb.CharacterShingles(4), unicode="keep")),
        ({"profile": "web"}, simdb.Text.profile("web")),
        ({"profile": "chat", "shingles": "word:2", "words": "unicode", "ignore": "html, case"},
         simdb.Text(
             simdb.WordShingles(2), unicode="NFKC", ignore=("html", "case"), words="unicode"
         )),
        ({"profile": "news", "shingles": "character:4"},
         simdb.Text.profile("news", shingles=simdb.CharacterShingles(4))),
        ({"kind": "string", "ignore": "case"}, simdb.String(ignore=["case"])),
        ({"kind": "set"}, simdb.Set()),
        ({"kind": "bag"}, simdb.Bag()),
        ({"kind": "bag:maximum"}, simdb.Bag("maximum")),
        ({"kind": "bits:64:tanimoto"}, simdb.Bits(64, "tanimoto")),
        ({"kind": "bits", "settings": '{"length": 9}'}, simdb.Bits(9)),
        (
            {"kind": "vector:3", "settings": '{"measure": "manhattan"}'},
            simdb.Vector(3, "manhattan"),
        ),
        ({"settings": '{"kind": "vector", "dimension": 2}'}, simdb.Vector(2)),
        ({"kind": "fingerprint:300:200"}, simdb.Fingerprint(300, 200)),
        (
            {"settings": json.dumps({"kind": "record", **RECORD})},
            simdb.Record(
                [
                    simdb.Field("name", tolerance=5),
                    simdb.Field("town"),
                    simdb.Field("age", compare="numeric"),
                ],
                ["town"],
            ),
        ),
        (
            {"kind": "record", "settings": '{"fields": ["a", "b"], "candidates": '
             '[["a", {"field": "b", "transformations": ["first:2"]}]]}'},
            simdb.Record(
                [simdb.Field("a"), simdb.Field("b")], [("a", simdb.Equal("b", ["first:2"]))]
            ),
        ),
    ],
)  # fmt: skip
def test_kinds_are_described_by_names_and_json(options, kind):
    assert KindOptions(**options).new() == kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "image"}, "--kind must be text or set"),
        ({"kind": "bits"}, "--kind bits needs length"),
        ({"kind": "record"}, "--kind record needs fields"),
        ({"kind": "vector:many"}, "the dimension must be a whole number"),
        ({"kind": "set:3"}, "--kind takes at most set"),
        ({"kind": "vector:3:cosine:4"}, "--kind takes at most vector:DIMENSION:MEASURE"),
        ({"kind": "vector:0"}, "--kind vector:0: the dimension must be a whole number from 1"),
        ({"kind": "bag:most"}, "--kind bag:most: the union must be"),
        ({"kind": "bits:8", "settings": '{"length": 9}'}, "both give length"),
        ({"kind": "bits:8", "settings": '{"kind": "set"}'}, "--kind says bits"),
        ({"settings": '{"kind": "sets"}'}, "the kind of --settings"),
        ({"settings": '{"kind": ["set"]}'}, "the kind of --settings"),
        ({"settings": '{"kind": "set"'}, "--settings: not JSON"),
        (
            {"settings": '{"fields": ["a"], "fields": ["b"]}'},
            "an object has the name 'fields' twice",
        ),
        ({"settings": '{"kind": "record"}'}, "--settings must give fields, for records"),
        ({"settings": '{"kind": "record", "fields": []}'}, "--settings: Record.fields must be"),
        ({"settings": '{"colour": 3}'}, "Text has no setting 'colour'; it has shingles"),
        ({"settings": '{"shingles": 3}'}, "shingles must be"),
        (
            {"settings": '{"shingles": {"of": "word", "sizes": 3}}'},
            "unknown field sizes",
        ),
        ({"kind": "record", "settings": '{"fields": {}}'}, "fields: Expected array, got object"),
        (
            {"kind": "record", "settings": '{"fields": [3]}'},
            r"got int - at \$\[0\]",
        ),
        (
            {"kind": "record", "settings": '{"fields": [{"weight": 3}]}'},
            "required field name",
        ),
        ({"kind": "record", "settings": '{"fields": [{"name": "a", "w": 3}]}'}, "unknown field w"),
        (
            {"kind": "record", "settings": '{"fields": ["a"], "candidates": "a"}'},
            "Expected array",
        ),
        (
            {"kind": "record", "settings": '{"fields": ["a"], "candidates": ["b"]}'},
            "names the field",
        ),
        ({"kind": "vector:3", "lowercase": True}, "--lowercase is a setting of texts, not of vect"),
    ],
)
def test_wrong_settings_name_the_option(options, message):
    with pytest.raises(UsageError, match=message):
        KindOptions(**options).new()


def test_settings_come_from_a_file(tmp_path):
    path = tmp_path / "kind.json"
    path.write_text('\ufeff{"kind": "bits", "length": 12}', encoding="utf-8")
    assert KindOptions(settings=str(path)).new() == simdb.Bits(12)
    path.write_text("[]")
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        KindOptions(settings=str(path)).new()
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        KindOptions(settings=str(path)).new()
    path.unlink()
    refused = run("create", tmp_path / "s.simdb", "c", "--settings", path)
    assert refused.exit_code == 2
    assert "kind.json" in refused.stderr


def test_changed_settings_keep_the_others(tmp_path):
    base = simdb.Vector(3, "euclidean", bucket_width=2.0)
    changed = KindOptions(settings='{"bucket_width": 3.0}').changed(base)
    assert changed == simdb.Vector(3, "euclidean", bucket_width=3.0)
    with pytest.raises(ConfigurationError, match="holds vectors"):
        KindOptions(kind="set").changed(base)
    path = tmp_path / "s.simdb"
    done("create", path, "c", "--kind", "bits:8", "--max-distance", 1)
    done("rebuild", path, "c", "--settings", '{"measure": "tanimoto"}', "--threshold", "0.5")
    assert "tanimoto" in done("stats", path, "c", "--json").stdout
    assert run("rebuild", path, "c", "--settings", '{"length": 9}').exit_code == 2


def test_bounds_are_taken_as_they_are_written():
    assert Bound("1/3", None).of(simdb.Set())["threshold"].denominator == 3
    assert Bound(None, "0.1").of(simdb.Vector(2))["max_distance"].denominator == 10
    assert Bound(None, None).of(simdb.Vector(2)) == {}
    for wrong in ("-1", "nan", "far"):
        with pytest.raises(UsageError, match="--max-distance must be"):
            Bound(None, wrong)
