"""Two tables linked by one command, which proposes and learns what it needs."""

from __future__ import annotations

import csv
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import simdb
from simdb.errors import NothingAlikeError
from tests.support.commands import done, failed, run, write_rows

COLUMNS = ("id", "name", "street", "town", "note")
MATCHES = {(str(number), f"r{number}") for number in range(60, 120)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two tables of 120 people, of whom 60 are in both, half of them with a letter wrong."""
    chance = random.Random(3)
    folder = tmp_path_factory.mktemp("tables")
    rows = []
    for number in range(180):
        name, street = (
            "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(2)
        )
        rows.append([str(number), name, street, f"town {number % 40}", ""])
    wrong = [[f"r{row[0]}", "x" * (place % 2) + row[1], *row[2:]] for place, row in enumerate(rows)]
    for table, some, mark in (("left", rows[:120], ","), ("right", wrong[60:], ";")):
        with (folder / f"{table}.csv").open("w", newline="") as file:
            csv.writer(file, delimiter=mark).writerows([COLUMNS, *some])
    with (folder / "right.jsonl").open("w") as file:
        for row in wrong[60:]:
            told = dict(zip(("key", *COLUMNS[1:]), row, strict=True))
            file.write(json.dumps(told) + "\n")
    return folder


def found_in(file: Path) -> set[tuple[str, str]]:
    with file.open() as lines:
        return {(row["left"], row["right"]) for row in csv.DictReader(lines)}


def test_keys_with_any_line_break_are_quoted(tmp_path):
    for side in ("left", "right"):
        (tmp_path / f"{side}.csv").write_bytes(b'id,name\n"a\rb",Anna\n"c\nd",Bert\ne,Carl\n')
    output = tmp_path / "matches.csv"
    done("link", tmp_path / "left.csv", tmp_path / "right.csv", "-o", output, "--threshold", "1")
    assert b'\n"a\rb","a\rb",1.0\n' in output.read_bytes()
    with output.open(newline="") as lines:
        assert {row["left"] for row in csv.DictReader(lines)} == {"a\rb", "c\nd", "e"}


def test_tables_are_linked_as_they_are_and_again_by_the_settings_that_were_chosen(tables, tmp_path):
    output, settings = tmp_path / "matches.csv", tmp_path / "settings.json"
    told = run("link", tables / "left.csv", tables / "right.csv", "-o", output, "--one-to-one",
               "--save-settings", settings)  # fmt: skip
    assert told.exit_code == 0, told.stderr
    assert found_in(output) == MATCHES
    with output.open() as lines:
        assert all(float(row["probability"]) >= 0.5 for row in csv.DictReader(lines))
    assert "left.csv: 120 rows, keys in the column 'id'" in told.stderr
    assert "field 'name': jaro-winkler (names)" in told.stderr
    assert (
        "column 'note' is left out because it has no value in the left and the right" in told.stderr
    )
    assert "rule name within 1 edit: about" in told.stderr
    assert "pairs match from similarity" in told.stderr
    chosen = json.loads(settings.read_text())
    assert "name: names" in chosen["about"]
    assert all(field["levels"] for field in chosen["fields"] if field["weight"])  # as is learnt
    told = run("link", tables / "left.csv", tables / "right.csv", "-o", output,
               "--settings", settings, "--save-settings", settings)  # fmt: skip
    assert "is an input" in told.stderr
    for number in (0, 1):  # before anything is read: neither has such a column
        inputs = [tables / "left.csv", tables / "right.csv"]
        told = run("link", *inputs, "-o", inputs[number], "--id-field", "absent")
        assert "is an input" in told.stderr
    again = tmp_path / "again.tsv"
    told = run("link", tables / "left.csv", tables / "right.jsonl", "-o", again, "--one-to-one",
               "--settings", settings, "--right-id-field", "key")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    with again.open() as lines:
        assert {(row["left"], row["right"]) for row in csv.DictReader(lines, delimiter="\t")} == (
            MATCHES
        )


def test_a_store_with_the_settings_that_were_saved_has_the_similarities_of_link(tmp_path):
    """Those of texts by their words depend on how frequent each word is."""
    chance, words = random.Random(5), [f"w{number}" for number in range(60)]
    titles = [" ".join(chance.choices(words, range(60), k=6)) for _ in range(80)]
    sides = [tmp_path / f"{side}.jsonl" for side in ("left", "right")]
    write_rows(sides[0], [{"id": f"l{n}", "title": titles[n]} for n in range(80)])
    write_rows(sides[1], [{"id": f"r{n}", "title": f"{titles[n]} w1"} for n in range(80)])
    linked, settings = tmp_path / "linked.jsonl", tmp_path / "settings.json"
    done("link", *sides, "-o", linked, "--threshold", 0.5, "--save-settings", settings)
    store, joined = tmp_path / "store.simdb", tmp_path / "joined.jsonl"
    for side in sides:
        done("create", store, side.stem, "--settings", settings, "--threshold", 0.5)
        done("add", store, side.stem, side, "--id-field", "id")
    done("join", store, "left", "right", "-o", joined)
    pairs = [sorted(file.read_text().splitlines()) for file in (linked, joined)]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) >= 80


def test_rules_comparisons_and_a_threshold_can_be_given(tables, tmp_path):
    told = run("link", tables / "left.csv", tables / "right.csv", "-o", tmp_path / "m.jsonl",
               "--rule", "street+town", "--rule", '[{"by": "edits", "field": "name", "edits": 2}]',
               "--compare", "street=exact", "--threshold", "0.9", "--json")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["threshold"] == 0.9
    found = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert {(pair["left"], pair["right"]) for pair in found} == MATCHES


def test_a_row_is_in_one_pair_and_no_two_that_are_apart_are(tables, tmp_path):
    (tmp_path / "apart.tsv").write_text("100\tr100\n")
    told = run("link", tables / "left.csv", tables / "right.csv", "-o", tmp_path / "m.csv",
               "--rule", "town", "--threshold", "0.3", "--one-to-one",
               "--apart", tmp_path / "apart.tsv")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    found = found_in(tmp_path / "m.csv")
    assert MATCHES - found == {("100", "r100")}
    assert len({left for left, _ in found}) == len({right for _, right in found}) == len(found)
    (tmp_path / "apart.tsv").write_text("100\tr100\nzz\tr1\n")
    told = run("link", tables / "left.csv", tables / "right.csv", "-o", tmp_path / "n.csv",
               "--rule", "town", "--threshold", "0.3", "--one-to-one",
               "--apart", tmp_path / "apart.tsv")  # fmt: skip
    assert told.exit_code == 2
    assert f"apart.tsv: 'zz' is no key of {tables / 'left.csv'}" in told.stderr


def test_a_key_of_digits_is_told_how_numbers_are_read(tmp_path):
    for name in ("left", "right"):
        rows = [{"id": number, "name": f"name {number * 7}"} for number in range(9)]
        write_rows(tmp_path / f"{name}.jsonl", rows)
    (tmp_path / "apart.tsv").write_text("0\t0\n")
    told = failed("link", tmp_path / "left.jsonl", tmp_path / "right.jsonl", "--threshold", 0.9,
                  "-o", tmp_path / "m.jsonl", "--one-to-one",
                  "--apart", tmp_path / "apart.tsv")  # fmt: skip
    assert "a .jsonl file of objects with left and right has keys as they are" in told
    write_rows(tmp_path / "apart.jsonl", [{"left": 0, "right": 0}])
    done("link", tmp_path / "left.jsonl", tmp_path / "right.jsonl", "--threshold", 0.9,
         "-o", tmp_path / "m.jsonl", "--one-to-one",
         "--apart", tmp_path / "apart.jsonl")  # fmt: skip
    pairs = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert {(pair["left"], pair["right"]) for pair in pairs} == {(n, n) for n in range(1, 9)}


def test_columns_of_one_table_are_told_and_no_others(tmp_path):
    left = [{"id": n, "name": f"name {n * 7}", "city": f"c{n % 3}"} for n in range(40)]
    right = [{"ref": n, "id": n + 1, "name": f"name {n * 7}", "tel": n} for n in range(40)]
    right[39]["city"] = "here"  # not among the rows that are drawn
    for name, rows in (("left", left), ("right", right)):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    told = done("link", tmp_path / "left.jsonl", tmp_path / "right.jsonl", "--threshold", 0.9,
                "--right-id-field", "ref", "--sample", 5, "-o", tmp_path / "m.jsonl")  # fmt: skip
    assert "column 'tel' is left out because it is only in the right table" in told.stderr
    assert told.stderr.count("is only in the") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--id-field", "town"], "the column 'town' is not unique; --id-field"),
        (["--id-field", "x"], "there is no column 'x'; there are id, name, street, town, note"),
        (["--rule", "[1"], "--rule [1: not JSON"),
        (["--rule", "[" * 100_000], "[[[: nested too deeply"),
        (["--compare", "name=exact:many"], "the tolerance 'many' is not a number"),
        (["--compare", f"name=numeric:{'[' * 100_000}"], "[[[' is not a number"),
        (["--compare", "age=exact"], "both tables have no column 'age'; they share 'name'"),
        (
            ["--settings", '{"fields": ["age"]}'],
            "column 'age', which the settings name, is missing",
        ),
        (["--settings", "{}", "--rule", "name"], "--settings contradicts --rule and --compare"),
        (["--probability", "1"], "--probability must be between 0 and 1"),
        (["--threshold", "0.5", "--probability", "0.5"], "contradict each other"),
    ],
)
def test_what_cannot_be_linked_is_said(tables, tmp_path, options, problem):
    output = tmp_path / "m.csv"
    assert problem in failed("link", tables / "left.csv", tables / "right.csv", "-o", output,
                             *options)  # fmt: skip
    assert not output.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--one-to-one", "--apart", "none.tsv"], "none.tsv"),
        (["--one-to-one", "--apart", "bad.tsv"], "bad.tsv, line 1: expected tabs between"),
        (["--save-settings", "m.csv"], "two outputs cannot both go to m.csv"),
        (["--settings", "none.json"], "none.json"),
        (["--settings", "{"], "--settings: not JSON"),
        (["--settings", "{}"], "--settings must give fields, for records"),
        (["--settings", '{"kind": "set"}'], "--settings must be of records, not of sets"),
        (["--settings", '{"fields": ["a"], "candidates": ["b"]}'], "--settings: Record.candidates"),
        (["--rule", "[1"], "--rule [1: not JSON"),
        (["--compare", "name=numeric:x"], "the tolerance 'x' is not a number"),
        (["--compare", "a=exact", "--compare", "a=edit"], "--compare names the field 'a' twice"),
    ],
)
def test_what_is_wrong_whatever_the_tables_hold_is_told_first(
    tmp_path, monkeypatch, options, problem
):
    monkeypatch.chdir(tmp_path)
    for name in ("left.csv", "right.csv", "bad.tsv"):
        Path(name).write_bytes(b"\xe4\n")
    Path("bad.tsv").write_text("a b\n")
    told = failed("link", "left.csv", "right.csv", "-o", "m.csv", *options)
    assert problem in told
    assert "--kind" not in told


def test_a_column_whose_name_has_a_plus_is_named_as_json(tmp_path):
    for side in ("left", "right"):
        rows = [{"id": n, "na+me": f"n{n * 7}", "town": f"t{n % 3}"} for n in range(9)]
        write_rows(tmp_path / f"{side}.jsonl", rows)
    asked = ("link", tmp_path / "left.jsonl", tmp_path / "right.jsonl", "--threshold", 1,
             "-o", tmp_path / "m.jsonl", "--rule")  # fmt: skip
    told = failed(*asked, "na+me")
    assert 'the one column of this name is "na+me", quotation marks included' in told
    assert "rule na+me: about 9 pairs" in done(*asked, '"na+me"').stderr
    assert "rule town and na+me: about 9 pairs" in done(*asked, '["town", "na+me"]').stderr


def test_what_to_do_where_rows_are_twice_in_a_table_is_said(tmp_path):
    chance = random.Random(3)

    def word() -> str:
        return "".join(chance.choices("abcdefghij", k=8))

    here, there = [], []
    for number in range(120):
        name, town = f"{word()} {word()}", chance.choice(["ulm", "york", "bonn", "oslo"])
        street = f"{chance.randrange(99)} {word()}"
        here += [[number, name, street, town], [1_000 + number, name, street, town]]
        there.append([number, name, word() if number % 4 == 0 else street, town])
    for table, rows in (("left", here), ("right", there)):
        with (tmp_path / f"{table}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS[:4], *rows])
    named = (tmp_path / "left.csv", tmp_path / "right.csv", "-o", tmp_path / "m.csv")
    told = failed("link", *named, "--one-to-one")
    assert "no pair matches with a probability of 0.5" in told
    assert "deduplicate that table, or leave out --one-to-one; with --threshold" in told
    assert "one-to-one" not in failed("link", *named, "--probability", "0.999999999999")
    frames = [
        [dict(zip(COLUMNS[:4], map(str, row), strict=True)) for row in rows]
        for rows in (here, there)
    ]
    problem = "no pair matches .* deduplicate that table, or leave out one_to_one; threshold="
    with pytest.raises(simdb.ConfigurationError, match=problem):
        simdb.link(*frames, item=COLUMNS[1:4], key="id", one_to_one=True)
    assert len(simdb.link(*frames, item=COLUMNS[1:4], key="id")) >= 180


def test_where_nothing_is_learnt_numbers_equal_the_texts_that_write_them(tmp_path):
    here, there, output = (tmp_path / name for name in ("here.csv", "there.jsonl", "out.csv"))
    here.write_text("id,size\n1,1.0\n2,1.50\n3,7\n4,08\n")
    there.write_text("".join(f'{{"id": "r{n}", "size": {n}}}\n' for n in (1, 1.5, 7.0, 8)))
    told = run("link", here, there, "-o", output)
    assert "only rows that are equal in all columns" in told.stderr
    assert found_in(output) == {("1", "r1"), ("2", "r1.5"), ("3", "r7.0")}


def test_a_table_that_can_be_read_but_once_is_refused(tables, tmp_path):
    told = failed("link", "-", tables / "right.csv", "-o", tmp_path / "m.csv")
    assert "read twice, which is impossible with standard input" in told
    os.mkfifo(pipe := tmp_path / "pipe.csv")
    told = failed("link", tables / "left.csv", pipe, "-o", tmp_path / "m.csv")
    assert f"impossible with {pipe}: give a file" in told
    told = failed("dedupe", pipe, "--kind", "record", "-o", tmp_path / "k.csv")
    assert f"impossible with {pipe}: give a file, or --settings" in told


def test_one_table_is_rid_of_its_duplicates_without_settings(tables, tmp_path):
    both = tmp_path / "both.csv"
    lines = (tables / "right.csv").read_text().replace(";", ",").splitlines()[1:]
    both.write_text("\n".join([(tables / "left.csv").read_text().strip(), *lines]) + "\n")
    kept, removed = tmp_path / "kept.csv", tmp_path / "removed.jsonl"
    store = ("--store", tmp_path / "s.simdb")
    told = run("dedupe", both, "--kind", "record", "-o", kept, "--removed", removed, *store)
    assert told.exit_code == 0, told.stderr
    assert "both.csv: 240 rows, keys in the column 'id'" in told.stderr
    assert "field 'name': jaro-winkler (names)" in told.stderr
    rows = [json.loads(line) for line in removed.read_text().splitlines()]
    assert {(row["duplicate_of"], row["id"]) for row in rows} == MATCHES
    again = tmp_path / "again.csv"
    for keyed in ((), ("--id-field", "id")):
        told = run("dedupe", both, "--kind", "record", *keyed, "-o", again, *store)
        assert told.exit_code == 0, told.stderr
        assert "field 'name'" not in told.stderr  # what is stored decides, of keys too
        assert again.read_text() == kept.read_text()
    made = run("dedupe", both, "--kind", "record", "--make-keys", "content", "-o", again)
    assert (made.exit_code, "keys in the column" in made.stderr) == (0, False), made.stderr
    assert again.read_text() == kept.read_text()
    told = run("dedupe", both, "--rule", "street", "--compare", "name=exact", "--threshold", "0.3",
               "-o", again)  # fmt: skip
    assert "field 'name': exact (as given)" in told.stderr
    assert "learnt" not in told.stderr
    rows_again = list(csv.DictReader(both.read_text().splitlines()))
    columns = list(COLUMNS[1:])
    with pytest.warns(UserWarning, match="column 'note' is left out because it has no value"):
        found = simdb.pairs(rows_again, item=columns, key="id")
    columns.remove("note")
    assert len(simdb.dedupe(rows_again, item=columns, key="id")) == 180
    assert {(pair["left"], pair["right"]) for pair in found} == MATCHES


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-", "--kind", "record"], "standard input"),
        (["{both}", "--rule", "name", "--settings", "{}"], "leave out --rule and --compare"),
        (["{both}", "--rule", "name", "--kind", "set"], "are only for records, not for --kind set"),
        (["{both}", "--compare", "age=exact"], "the table has no column 'age'; it has 'name'"),
        (["{both}", "--kind", "record", "--id-field", "no"], "there is no column 'no'"),
        (
            ["{both}", "--kind", "record", "--item-field", "name"],
            "--item-field are not for records",
        ),
    ],
)
def test_what_cannot_be_proposed_for_one_table_is_told(tables, tmp_path, options, problem):
    given = [one.replace("{both}", str(tables / "left.csv")) for one in options]
    assert problem in failed("dedupe", *given, "-o", tmp_path / "o.csv")


def test_tables_of_which_nothing_looks_alike_are_copied_and_linked_to_nothing(tmp_path):
    one, other, output = (tmp_path / name for name in ("one.csv", "other.csv", "out.csv"))
    rows = "id,name,town\n1,ann smith,york\n2,bob jones,leeds\n3,cyd brown,hull\n"
    for table in (rows, "id,name,town\n1,ann,york\n"):
        one.write_text(table)
        told = run("dedupe", one, "--id-field", "id", "-o", output, "--kind", "record")
        assert (told.exit_code, output.read_text()) == (0, table)
        assert "warning: " in told.stderr
    one.write_text("name,city\nann,x\nann,x\n")
    told = run("dedupe", one, "-o", output, "--kind", "record")
    assert (told.exit_code, output.read_text()) == (0, "name,city\nann,x\n")
    one.write_text(rows)
    other.write_text("id,name,town\n4,xx,kk\n5,zz,ww\n")
    told = run("link", one, other, "-o", output)
    assert (told.exit_code, output.read_text()) == (0, "left,right,similarity\n")
    assert "warning: no two rows agree in any column" in told.stderr
    one.write_text("id,name,town\n1,ann smith,york\n")
    other.write_text("id,name,town\n2,xx,york\n")
    told = run("link", one, other, "-o", output)
    assert "that both have ('name', 'town'), left out or not, count as the same" in told.stderr


@pytest.mark.parametrize("name", ["none.csv", "empty.csv", "none.jsonl", "none.parquet"])
def test_a_table_without_rows_is_copied_and_linked_to_nothing(tables, tmp_path, name):
    source, output = tmp_path / name, tmp_path / f"kept-{name}"
    source.write_text(",".join(COLUMNS) + "\n" if name == "none.csv" else "")
    if name == "none.parquet":
        names = {column: pa.array([], pa.string()) for column in COLUMNS}
        parquet.write_table(pa.table(names), source)
    for options in (["--id-field", "id"], ["--rule", "name+town"]):
        told = run("dedupe", source, "-o", output, "--kind", "record", *options)
        assert told.exit_code == 0, told.stderr
        assert told.stderr.splitlines()[0] == f"warning: {source}: there are no rows"
        if name == "none.parquet":
            assert parquet.read_table(output).equals(parquet.read_table(source))
        else:
            assert output.read_bytes() == source.read_bytes()
    store = ["--store", tmp_path / "s.simdb", "--id-field", "id"]
    assert "there are no rows" in failed("dedupe", source, "-o", output, "--kind", "record", *store)

    settings = ["--settings", '{"fields": ["name"]}', "--threshold", "0.9"]
    for sides in ((source, tables / "left.csv"), (tables / "left.csv", source)):
        for options in ([], settings):
            told = run("link", *sides, "-o", tmp_path / "pairs.csv", *options)
            assert told.exit_code == 0, told.stderr
            assert f"warning: {source}: there are no rows\n" in told.stderr
            assert (tmp_path / "pairs.csv").read_text() == "left,right,similarity\n"
    saved = ["-o", output, "--save-settings", tmp_path / "settings.json"]
    assert "there are no rows" in failed("link", tables / "left.csv", source, *saved)


def test_a_table_of_bad_rows_is_not_one_without_rows(tables, tmp_path):
    source = tmp_path / "bad.jsonl"
    source.write_text("no JSON\n")
    for command in (["dedupe", source, "--kind", "record"], ["link", source, tables / "left.csv"]):
        told = failed(*command, "-o", tmp_path / "out.jsonl")
        assert f"no row of it can be read: {source}, line 1: " in told


def test_of_too_few_columns_to_learn_from_rows_that_are_equal_match(tmp_path):
    """Every rule looks at one of two columns: what is left says nothing of who matches."""
    for side, shift in (("l", 0), ("r", 20)):
        rows = [f"{side}{n},{n * 7919 % 10_007:x}{n * 104_729:x},town {n % 7}" for n in range(60)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["id,name,town", *rows[shift:]]))
    for options in ([], ["--settings", '{"fields": ["name"]}']):
        told = run("link", tmp_path / "l.csv", tmp_path / "r.csv", "-o", tmp_path / "m.csv",
                   *options)  # fmt: skip
        assert told.exit_code == 0, told.stderr
        assert "no rule leaves two: give a threshold, or more fields; only rows that" in told.stderr
        assert found_in(tmp_path / "m.csv") == {(f"l{n}", f"r{n}") for n in range(20, 60)}


WARNING = "only rows that are equal in all columns"


def test_where_nothing_is_learnt_rows_count_as_they_are(tmp_path):
    table, kept = tmp_path / "table.jsonl", tmp_path / "kept.jsonl"
    rows: list[dict[str, Any]] = [
        {"id": 1, "name": "C++", "active": True},
        {"id": 2, "name": "C#", "active": True},
        {"id": 3, "name": "C#", "active": False},
        {"id": 4, "name": "C#", "active": None},
        {"id": 5, "name": "C#", "active": True},
        {"id": 6, "name": "C#"},
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = run("dedupe", table, "--kind", "record", "-o", kept)
    assert f"{WARNING}, left out or not, count as the same" in told.stderr, told.stderr
    assert "column 'active' is left out because it holds what is neither" in told.stderr
    assert [json.loads(line)["id"] for line in kept.read_text().splitlines()] == [1, 2, 3, 4]
    told = run("dedupe", table, "--kind", "record", "--policy", "key desc, name desc", "-o", kept)
    assert "no row has the field" not in told.stderr, told.stderr
    assert [json.loads(line)["id"] for line in kept.read_text().splitlines()] == [1, 3, 5, 6]


def test_a_column_of_dates_of_a_table_is_compared_as_dates(tmp_path):
    source, kept = tmp_path / "people.parquet", tmp_path / "kept.parquet"
    names, days = [f"ann {n // 2} lee" for n in range(60)], range(4000, 5800, 30)
    born = pa.array(days, pa.int32()).cast(pa.date32())
    parquet.write_table(pa.table({"id": range(60), "name": names, "born": born}), source)
    told = run("dedupe", source, "--kind", "record", "--threshold", "0.9", "-o", kept)
    assert "field 'born': date within 31 (dates)" in told.stderr, told.stderr


def test_a_column_of_bytes_of_a_table_is_left_out(tmp_path):
    source, out = tmp_path / "people.parquet", tmp_path / "out.parquet"
    names = [f"ann {n // 2} lee" for n in range(60)]
    hashes = [bytes([n, n // 2]) for n in range(60)]
    parquet.write_table(pa.table({"id": range(60), "name": names, "hash": hashes}), source)
    for command in (["link", source, source], ["dedupe", source, "--kind", "record"]):
        told = done(*command, "--threshold", "0.9", "-o", out)
        assert "column 'hash' is left out because it holds what is neither" in told.stderr


def test_a_bad_row_is_named_where_settings_are_given(tables, tmp_path):
    asked = ("--settings", '{"fields": [{"name": "street", "compare": "date"}, "name"]}')
    told = failed("link", tables / "left.csv", tables / "right.csv", "-o", tmp_path / "m.csv",
                  *asked)  # fmt: skip
    assert f"{tables / 'left.csv'}, line 2: the field 'street' is compared as a date" in told


@pytest.mark.parametrize("options", [[], ["--threshold", "0.8"]])
def test_bad_rows_are_left_out_and_told_with_their_places_if_that_is_asked(
    tables, tmp_path, options
):
    left, right, output = tmp_path / "left.csv", tmp_path / "right.jsonl", tmp_path / "out.csv"
    whole, lines = (tables / name for name in (left.name, right.name))
    left.write_text(whole.read_text().replace("\n61,", '\n61,"a",b,c,d,"x"y\n61,', 1))
    rows = lines.read_text().splitlines()
    large = json.dumps({"key": "large", "name": "x" * 70_000})
    right.write_text("\n".join([rows[0], "no row", *rows[1:], large, '{"name": "x"}']) + "\n")
    asked = ("link", left, right, "-o", output, "--right-id-field", "key", *options)
    assert "left.csv, line 63: " in failed(*asked)
    assert not output.exists()
    told = done(*asked, "--on-bad", "skip", "--json")
    found = json.loads(told.stdout)
    assert found["bad"] == 4
    places = [row["place"] for row in found["bad_rows"]]
    assert places == [f"{left}, line 63", *(f"{right}, line {line}" for line in (2, 122, 123))]
    assert all(place in told.stderr for place in places)
    assert found_in(output) == MATCHES
    assert found["pairs"] == len(MATCHES)
    told = done(*asked, "--on-bad", "skip")
    assert f"{len(MATCHES)} pairs in {output}; 4 bad rows left out" in told.stderr
    done("link", whole, lines, "-o", output, "--right-id-field", "key", *options)
    assert found_in(output) == MATCHES


def test_where_nothing_is_learnt_tables_of_any_format_are_linked(tmp_path):
    left, right, output = tmp_path / "left.csv", tmp_path / "right.parquet", tmp_path / "out.csv"
    left.write_text("id,name,year\n1,Jos\u00e9,1999\n2,ann,\n3,bob,2000\n")
    parquet.write_table(
        pa.table({"id": [1, 2, 3, 4], "name": ["José", "Jose", "ann", "bob"],
                  "year": [1999, 1999, None, None]}), right)  # fmt: skip
    told = run("link", left, right, "-o", output)
    assert WARNING in told.stderr, told.stderr
    assert found_in(output) == {("1", "1"), ("2", "3")}
    assert "leaves two" in failed("link", left, right, "-o", output,
                                  "--save-settings", tmp_path / "s.json")  # fmt: skip


def test_settings_are_proposed_from_the_rows_that_simdb_link_takes(tmp_path, monkeypatch):
    rows = [{"id": number, "name": f"n{number % 5000}"} for number in range(6_000)]
    names = [str(tmp_path / f"{side}.parquet") for side in ("left", "right")]
    for name in names:
        parquet.write_table(pa.Table.from_pylist(rows), name)
    looked_at: list[Any] = []

    def noted(*tables: Any, rows: Any, **_others: Any) -> Any:
        looked_at.append(([list(map(dict, some)) for some in tables], tuple(rows)))
        raise NothingAlikeError("enough is known")

    monkeypatch.setattr("simdb.cli.proposing.propose_record", noted)
    monkeypatch.setattr("simdb.frames.propose_record", noted)
    done("link", *names, "-o", tmp_path / "pairs.csv")
    with pytest.warns(UserWarning, match="enough is known"):
        simdb.link(*map(parquet.read_table, names), key="id", item=["name"])
    assert looked_at[0] == looked_at[1]
    assert [len(some) for some in looked_at[0][0]] == [5_000, 5_000]


def test_a_row_that_cannot_be_stored_is_named_where_settings_are_proposed(tmp_path):
    path, bad = tmp_path / "in.csv", tmp_path / "bad.jsonl"
    choice = random.Random(3)
    lines = ["id,name,street,born,"]
    for number in range(300):
        name, street = choice.choice(["ann", "bob", "cid", "dan"]), choice.randrange(100)
        lines.append(
            f"{number},{name} {number // 2},{street} high street,1970{number % 2 + 1:02}07,x"
        )
    lines[200] = "199,eve,9 low street,19700231,x"
    path.write_text("\n".join(lines) + "\n")
    named = ("dedupe", path, "-o", tmp_path / "kept.csv", "--kind", "record", "--id-field", "id")
    asked = (*named, "--compare", "born=date:31", "--threshold", "0.9")
    assert "in.csv, line 201: the field 'born' is '19700231'" in failed(*asked)
    told = done(*asked, "--bad", bad).stderr
    assert "column '' is left out because it has no name" in told
    (refused,) = map(json.loads, bad.read_text().splitlines())
    assert refused["line"] == 201
    rows = [dict(zip(lines[0].split(",")[:4], line.split(",")[:4], strict=True)) for line in lines]
    rows[7]["street"] = "x" * 70_000
    with pytest.raises(simdb.BadItemError, match="bytes") as caught:
        simdb.dedupe(rows[1:], key="id", item=["name", "street"], threshold=0.9)
    assert caught.value.row == 6


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
def test_settings_are_proposed_for_tables_of_any_columns(tmp_path, ending):
    rows = [{"pid": n, "name": f"n{n // 2} of x", "town": f"t{n // 2} at y"} for n in range(90)]
    path = tmp_path / f"in.{ending}"
    if ending == "jsonl":
        write_rows(path, rows)
    else:
        with pa.OSFile(str(path), "wb") as file:
            table = pa.Table.from_pylist(rows)
            if ending == "parquet":
                parquet.write_table(table, file)
            else:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
    kept = tmp_path / f"kept.{ending}"
    asked = ("dedupe", path, "-o", kept, "--kind", "record", "--id-field", "pid")
    assert "90 rows: 45 kept" in done(*asked, "--threshold", "0.9").stderr


def test_a_table_of_which_no_row_can_be_stored_is_told_by_a_value(tmp_path):
    for name, day in (("left", "19700231"), ("right", "19700105")):
        lines = [f"{n},name {n},{n} high street,{day}" for n in range(50)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,name,street,born", *lines]) + "\n")
    names = (tmp_path / "left.csv", tmp_path / "right.csv")
    for one in (names, names[::-1]):
        told = failed("link", *one, "-o", tmp_path / "pairs.csv", "--compare", "born=date:31")
        assert "'born' is '19700231'" in told


def test_names_that_differ_in_their_case_are_told_and_what_counts_where_nothing_is_learnt(tmp_path):
    """Only the country is in both tables, and three values are of too many rows."""
    for side, header in (("l", "id,Name,City,country"), ("r", "id,name,town,country")):
        rows = [f"{side}{n},n{n * 7:x} lee,c{n},{'xyz'[n % 3]}" for n in range(150)]
        (tmp_path / f"{side}.csv").write_text("\n".join([header, *rows]))
    asked = (tmp_path / "l.csv", tmp_path / "r.csv", "-o", tmp_path / "m.csv")
    told = done("link", *asked).stderr
    left_out = [line for line in told.splitlines() if "is left out because" in line]
    assert left_out == [
        "column 'Name' is left out because it is only in the left table; the right one has "
        "'name': rename one",
        "column 'City' is left out because it is only in the left table",
        "column 'name' is left out because it is only in the right table",
        "column 'town' is left out because it is only in the right table",
    ]
    assert "only rows that are equal in all columns that both have ('country') count as" in told
    refused = run("link", *asked, "--save-settings", tmp_path / "settings.json")
    assert refused.exit_code == 2
    assert "the right one has 'name'" in refused.stderr
    assert "the right one has 'name'" in done("link", *asked, "--rule", "country",
                                              "--threshold", 1).stderr  # fmt: skip


@pytest.mark.parametrize("named", [["--compare", "{}=exact"], ["--rule", "{}"]])
def test_keys_are_told_to_be_no_field(tmp_path, named):
    (tmp_path / "l.csv").write_text("id,name\n1,ann\n2,bob\n")
    (tmp_path / "r.csv").write_text("ref,name\n1,ann\n2,bob\n")
    for column, option in (("id", "--id-field"), ("ref", "--right-id-field")):
        told = failed("link", tmp_path / "l.csv", tmp_path / "r.csv", "--threshold", 1, "-o", "-",
                      *(one.format(column) for one in named))  # fmt: skip
        problem = f"column '{column}' has the keys, which are not compared; {option} names another"
        assert problem in told
