"""What a bad row is told with: its place, its name, and what is wrong in the terms of its file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run

EUCLIDEAN = ("--kind", "vector:3:euclidean", "--max-distance", "1")
PRINTS = ("--kind", "fingerprint:100:100")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.simdb"


def told(store: Path, kind: tuple[str, ...], *arguments: object) -> list[str]:
    """Return what ``add --on-bad skip`` tells of bad rows, by a new collection."""
    created = run("create", store, "c", *kind)
    assert created.exit_code == 0, created.stderr
    added = run("add", store, "c", *arguments, "--on-bad", "skip")
    assert added.exit_code == 0, added.stderr
    return added.stderr.splitlines()[:-1]


def test_a_file_in_a_folder_is_named_whoever_finds_what_is_wrong(store, tmp_path):
    folder = tmp_path / "prints"
    folder.mkdir()
    for name, content in (("a", "1 2 3\n"), ("b", "1 2\n"), ("c", ""), ("d", "500 2 3\n")):
        (folder / f"{name}.xyt").write_text(content)
    assert told(store, PRINTS, folder) == [
        f"{folder}, file 2: 'b.xyt': line 1 has 2 numbers: a minutia needs x, y and direction",
        f"{folder}, file 3: 'c.xyt': a fingerprint must have at least one minutia",
        f"{folder}, file 4: 'd.xyt': minutia 0 at (500.0, 2.0) lies off the plate, which is 100 x "
        "100 from (0, 0)",
    ]
    (folder / "b.xyt").unlink()
    refused = run("add", store, "c", folder, "--on-existing", "replace")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"simdb: {folder}, file 2: 'c.xyt': a fingerprint must have")


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        ([1, True, 3], "the components of a vector must be numbers, not bool True at position 1"),
        ([1, "2", 3], "the components of a vector must be numbers, not str '2' at position 1"),
        ([None, 2, 3], "the components of a vector must be numbers, not NoneType None at position"),
        ([1, 2], "the vectors of this collection have 3 components, but this one has 2"),
    ],
)
def test_a_vector_of_mixed_types_is_told_by_line_and_position(vector, problem, store, tmp_path):
    lines = [{"vector": [1, 2, 3]}, {"vector": vector}, {"vector": [4, 5, 6]}]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (line,) = told(store, EUCLIDEAN, source)
    assert line.startswith(f"{source}, line 2: {problem}")
    assert len(run("export", store, "c").stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("count", "shown"), [(-2, "-2"), (1.5, "1.5"), ("3", "'3'"), (True, "True"), (None, "None")]
)
def test_a_count_is_shown_as_what_it_is(count, shown, store, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"bag": {"milk": count}}) + "\n")
    assert told(store, ("--kind", "bag"), source) == [
        f"{source}, line 1: the count of 'milk' in the field 'bag' is {shown}, not a whole number "
        "from 0"
    ]


def test_half_a_star_is_shown_as_it_was_written(store, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("user,film,rating\nann,Alien,2.5\nann,Brazil,-1\nann,Clue,3\n")
    options = ("--ratings", "stars", "--id-field", "user", "--item-field", "film")
    stars = "a number of stars must be a whole number from 0 on, not"
    assert told(store, ("--kind", "bag"), source, *options) == [
        f"{source}, line 2: {stars} 2.5: multiply half stars by 2",
        f"{source}, line 3: {stars} -1: multiply half stars by 2",
    ]


def test_what_is_wrong_with_an_array_is_said_once(store, tmp_path):
    run("create", store, "c", *EUCLIDEAN)
    named, nonsense = tmp_path / "named.npz", tmp_path / "nonsense.npy"
    np.savez(named, one=np.ones((2, 3)), other=np.ones((2, 3)))
    nonsense.write_bytes(b"nonsense")
    missing = "there is no array 'vector'; there are 'one', 'other'"
    assert run("add", store, "c", named).stderr == f"simdb: {named}: {missing}\n"
    begun = "not a NumPy file, by its first bytes"
    assert run("add", store, "c", nonsense).stderr == f"simdb: {nonsense}: {begun}\n"


def test_keys_of_an_array_that_cannot_be_listed_are_told_apart(store, tmp_path):
    run("create", store, "c", *EUCLIDEAN)
    source = tmp_path / "named.npz"
    for key, told in (("", "key '' takes 0 bytes"), ("a\u2028", "contains a line break")):
        np.savez(source, vector=np.ones((1, 3)), id=np.array([key]))
        assert told in run("add", store, "c", source, "--id-field", "id").stderr
