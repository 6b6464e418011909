"""Files called ``.json``: arrays and objects of any number of lines, and lines of JSON."""

import io
import json
import random
from typing import Any

import pytest

from simdb.errors import UsageError
from simdb.files import open_rows
from simdb.files.json_arrays import _Lines
from simdb.files.rows import ReadingOptions
from tests.support.commands import done, failed, lines_of

ROWS = [
    {"id": 1, "text": 'a "quoted" text, with [brackets] and {braces} \\ and \n'},
    {"id": 2, "text": "an accent é and a line separator \u2028", "more": {"deep": [1, [2, {}]]}},
    {"id": 3, "text": "a"},
]


class _Drops:
    """Bytes that come a few at a time."""

    def __init__(self, content: bytes, choice: random.Random) -> None:
        self._rest = io.BytesIO(content)
        self._choice = choice

    def read(self, _size: int) -> bytes:
        return self._rest.read(self._choice.choice([1, 1, 2, 3, 7, 50]))


def _value(choice: random.Random, depth: int = 0) -> Any:
    kind = choice.randrange(3 if depth > 3 else 5)
    if kind < 2:
        return "".join(choice.choices('ab"\\\n,[]{}é\u2028 /\t', k=choice.randrange(9)))
    if kind == 2:
        return choice.choice([1, -2.5e10, True, None, 12345678901234567890])
    values = [_value(choice, depth + 1) for _ in range(choice.randrange(4))]
    return values if kind == 3 else {f'k{place}"': value for place, value in enumerate(values)}


@pytest.mark.parametrize("seed", range(60))
def test_elements_become_lines_whatever_stands_between_them_and_however_they_come(seed):
    choice = random.Random(seed)
    for _ in range(10):
        is_array = choice.random() < 0.7
        values: list[Any] = [_value(choice) for _ in range(choice.randrange(6))]
        if not is_array:
            values = [{"value": value} for value in values] or [{}]
        form: dict[str, Any] = {
            "indent": choice.choice([None, 0, 1, "\t"]),
            "ensure_ascii": choice.random() < 0.5,
            "separators": choice.choice([None, (",", ":"), (" , ", " : ")]),
        }
        if is_array:
            text = json.dumps(values, **form)
        else:
            text = choice.choice(["", "\n", " "]).join(json.dumps(one, **form) for one in values)
        text = choice.choice(["", "\n ", " "]) + text + choice.choice(["", "\n", " \r\n\n"])
        content = text.replace("\n", choice.choice(["\n", "\r\n"])).encode()

        lines = io.BufferedReader(_Lines(_Drops(content, choice), "x")).read().splitlines()
        assert [json.loads(line) for line in lines] == values

        cut = content.rstrip()[: choice.randrange(len(content.strip()))]
        if is_array and cut.strip():
            with pytest.raises(UsageError, match="cut short"):
                io.BufferedReader(_Lines(_Drops(cut, choice), "x")).read()


@pytest.mark.parametrize("seed", range(5))
def test_a_blank_that_tells_two_values_apart_is_kept_however_they_come(seed):
    drops = _Drops(b"[1 2, 3\n \n4 , 56]", random.Random(seed))
    assert io.BufferedReader(_Lines(drops, "x")).read() == b"1 2\n3 4\n56\n"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS),
        "\ufeff\n " + json.dumps(ROWS, indent=2),
        "\n".join(json.dumps(row, indent=2) for row in ROWS),
        "".join(json.dumps(row) + "\n" for row in ROWS),
    ],
    ids=["array", "indented", "objects", "lines"],
)
def test_json_is_read_as_its_first_characters_tell(tmp_path, content):
    path = tmp_path / "in.json"
    path.write_text(content)
    with open_rows(str(path), ReadingOptions(id_field="id")) as reader:
        rows = list(reader)
    assert [(row.line, row.key, row.item) for row in rows] == [
        (place, row["id"], row["text"]) for place, row in enumerate(ROWS, 1)
    ]
    assert [reader.fields(row.raw) for row in rows] == ROWS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('[{"text": "a"}, {"text": "b"', "in.json: cut short in row 2"),
        ('[{"text": "a"},', "in.json: cut short in row 2"),
        ("[", "in.json: cut short in row 1"),
        ('{\n"text": "a"', "in.json: cut short in row 1"),
        ('[{"text": "a"}]\n[{"text": "b"}]', "something follows the end of the array"),
        ('[{"text": "a"},]', "in.json, row 2: the element is empty"),
        ('[,{"text": "a"}]', "in.json, row 1: the element is empty"),
        ('[{"text": "a\nb"}]', "in.json, row 1: the element has a line end within a text"),
        ('[{"text": "a\\\nb"}]', "in.json, row 1: the element has a line end within a text"),
    ],
)
def test_arrays_that_are_none_are_no_inputs(tmp_path, content, problem):
    path = tmp_path / "in.json"
    path.write_text(content)
    kept = tmp_path / "kept.json"
    assert problem in failed("dedupe", path, "-o", kept, "--on-bad", "skip")
    assert not kept.exists()


def test_elements_that_are_no_rows_are_bad_ones(tmp_path):
    path = tmp_path / "in.json"
    path.write_text('[{"text": "a"}, 1 2, {"text": }, {"tex": "b"}, [1\n2], {"text": "c"}}, "d"]')
    bad = tmp_path / "bad.jsonl"
    done("dedupe", path, "-o", tmp_path / "kept.jsonl", "--bad", bad)
    told = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [one["line"] for one in told] == [2, 3, 4, 5, 6, 7]
    assert f"{path}, row 2: " in failed("dedupe", path, "-o", tmp_path / "kept.jsonl")


def test_what_is_no_object_among_objects_is_a_row_of_its_own(tmp_path):
    path = tmp_path / "in.json"
    path.write_text('{\n"text": "a b"\n}\n["junk"]\n7 {\n"text": "c d"}')
    bad = tmp_path / "bad.jsonl"
    done("dedupe", path, "-o", tmp_path / "kept.jsonl", "--bad", bad)
    assert [json.loads(line)["line"] for line in bad.read_text().splitlines()] == [2, 3]
    kept = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in kept] == ["a b", "c d"]


def test_lines_that_are_arrays_are_bad_rows_and_the_others_are_read(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('[{"text": "a b"}]\n{"text": "c d"}\n')
    told = done("dedupe", path, "-o", tmp_path / "kept.jsonl", "--on-bad", "skip").stderr
    assert "line 1: not a JSON object, but an array" in told


def test_an_empty_file_may_come_before_an_empty_array(tmp_path):
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text("[]")
    done("dedupe", tmp_path / "a.json", tmp_path / "b.json", "-o", tmp_path / "kept.json")
    assert json.loads((tmp_path / "kept.json").read_text()) == []


def test_kept_elements_are_an_array_where_the_name_says_so_and_lines_elsewhere(tmp_path):
    path = tmp_path / "in.json"
    rows = [*ROWS, {**ROWS[0], "id": 4}]
    path.write_text(json.dumps(rows, indent=1))
    kept, removed = tmp_path / "kept.json", tmp_path / "removed.jsonl"
    done("dedupe", path, "--id-field", "id", "-o", kept, "--removed", removed)
    assert json.loads(kept.read_text()) == ROWS
    (told,) = map(json.loads, removed.read_text().splitlines())
    assert (told["line"], told["row"]) == (4, rows[3])

    lines = tmp_path / "kept.jsonl"
    done("dedupe", path, "--id-field", "id", "-o", lines)
    assert [json.loads(line) for line in lines.read_text().splitlines()] == ROWS
    done("dedupe", lines, "--id-field", "id", "-o", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == lines.read_bytes()  # lines stay lines


def test_arrays_are_shards_and_an_empty_one_stays_one(tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for name, rows in {"a.json": ROWS[:2], "b.json": ROWS[:1], "c.json": []}.items():
        (shards / name).write_text(json.dumps(rows))
    (shards / "d.json").write_text(json.dumps(ROWS[2]))  # a line
    done("dedupe", shards, "-o", f"{tmp_path / 'out'}/", "--yes")
    kept = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert kept == {"a.json": ROWS[:2], "b.json": [], "c.json": [], "d.json": ROWS[2]}


def test_every_row_of_an_array_is_searched_for(tmp_path):
    path, store = tmp_path / "in.json", tmp_path / "s.simdb"
    path.write_text(json.dumps(ROWS))
    done("create", store, "c", "--shingles", "character:3")
    done("add", store, "c", path, "--id-field", "id")
    found = lines_of("search", store, "c", "--input", path, "--id-field", "id", "--json")
    assert [(one["probe"], one["key"]) for one in found] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("content", [json.dumps(ROWS), json.dumps(ROWS[0], indent=1)])
def test_json_that_is_not_lines_is_told_of_its_format(tmp_path, content):
    path, kept = tmp_path / "in.jsonl", tmp_path / "kept.jsonl"
    path.write_text(content)
    told = failed("dedupe", path, "-o", kept, "--on-bad", "skip")
    assert "--format json reads it" in told
    done("dedupe", "-", "-o", kept, "--format", "json", stdin=content)
    assert json.loads(kept.read_text().splitlines()[0]) == ROWS[0]


def test_lists_that_are_lines_are_told_of_their_format(tmp_path):
    path, store = tmp_path / "in.json", tmp_path / "s.simdb"
    path.write_text("[1, 2]\n[3, 4]\n")
    done("create", store, "c", "--kind", "set")
    assert "--format jsonl reads lines" in failed("add", store, "c", path, "--make-keys", "place")
    done("add", store, "c", path, "--make-keys", "place", "--format", "jsonl")
