"""A collection of another one's recipe, and plans for a number of items, on the command line."""

from __future__ import annotations

import json

import simdb
from tests.support.commands import done, run


def test_a_collection_is_made_by_the_recipe_of_another_one(tmp_path):
    first, second, file = tmp_path / "a.simdb", tmp_path / "b.simdb", tmp_path / "recipe.json"
    done("create", first, "c", "--kind", "set", "--threshold", 0.6, "--exact-floor", 0.5)
    file.write_text(done("recipe", first, "c").stdout)
    assert "threshold 0.6" in done("create", second, "d", "--recipe", file).stderr
    with simdb.open(first) as one, simdb.open(second) as other:
        assert one["c"].recipe() == other["d"].recipe()
    for wrong in (["--kind", "set"], ["--threshold", 0.5], ["--bands", 3], ["--exact-only"]):
        assert (
            "leave the other options out"
            in run("create", second, "e", "--recipe", file, *wrong).stderr
        )
    assert "exists" in run("create", second, "d", "--recipe", file).stderr
    assert "No such file" in run("create", second, "e", "--recipe", tmp_path / "none").stderr
    file.write_bytes(b"\xff\xfe\xff")
    assert "this is not a recipe" in run("create", second, "e", "--recipe", file).stderr
    file.write_text("{}")
    assert "this is not a recipe" in run("create", second, "e", "--recipe", file).stderr


def test_a_plan_for_many_items_tells_how_many_meet_by_chance():
    usual = json.loads(done("plan", "--json").stdout)
    assert usual["chance_meetings"] is None
    many = json.loads(done("plan", "--items", 10**9, "--json").stdout)
    assert (many["bands"], many["rows"]) == (26, 8)
    assert many["chance_meetings"] < 2
    assert "by chance among 1,000,000,000: 1.02" in done("plan", "--items", 10**9).stdout
