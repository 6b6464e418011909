"""The look at a file before LMDB maps it: whatever is no sound store is refused, untouched."""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
import os
import struct

import lmdb
import pytest

import simdb
from simdb.errors import CorruptionError, FormatVersionError, NotADatabaseError, StorageError
from simdb.recovery.pages import DamagedFile
from simdb.storage.file import preflight
from tests.support.processes import all_answers_of, answer_of


def nothing_wrong(_path):
    return []


def something_wrong(_path):
    return ["a page is missing"]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.simdb"
    simdb.open(path).close()
    for beside in tmp_path.glob("store.simdb-*"):
        beside.unlink()
    return path


def refused(path, error):
    """Open a file that is refused; return the message. The file and its folder stay the same."""
    before = path.read_bytes() if path.is_file() else None
    neighbours = sorted(path.parent.iterdir())
    with pytest.raises(error) as caught:
        simdb.open(path)
    with pytest.raises(error):
        simdb.open(path, read_only=True)
    if before is not None:
        assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == neighbours
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"Just a text file.\n" * 1_000, b"\0" * 8_192, b"SQLite format 3\0" + bytes(9_000)],
    ids=["empty", "one byte", "text", "zeros", "sqlite"],
)
def test_a_file_that_is_no_lmdb_file_is_refused(tmp_path, content):
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    assert str(path) in refused(path, NotADatabaseError)


def test_a_folder_is_refused(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "regular file" in refused(folder, NotADatabaseError)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in refused(tmp_path / "pipe", NotADatabaseError)


@pytest.mark.parametrize("table", [None, b"documents"])
def test_an_lmdb_file_of_another_program_is_refused(tmp_path, table):
    path = tmp_path / "foreign"
    with lmdb.open(str(path), subdir=False, max_dbs=4, lib_version=0) as foreign:
        database = foreign.open_db(table)
        with foreign.begin(write=True) as transaction:
            transaction.put(b"simdb", b"something", db=database)
    (tmp_path / "foreign-lock").unlink()
    assert "another program" in refused(path, NotADatabaseError)


def test_the_lock_file_of_another_program_stays(tmp_path):
    path = tmp_path / "foreign"
    lmdb.open(str(path), subdir=False, lib_version=0).close()
    refused(path, NotADatabaseError)
    assert (tmp_path / "foreign-lock").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_lock_file_stays(tmp_path, read_only):
    """LMDB would write over it, as over another store of that name."""
    with simdb.open(tmp_path / "s") as database:
        database.collection("c", simdb.Set(), threshold=0.5)
    other = tmp_path / "s-lock"
    other.unlink()
    for content in (b"what I thought today\n", (tmp_path / "s").read_bytes()):
        other.write_bytes(content)
        with pytest.raises(StorageError, match="s-lock is no lock file"):
            simdb.open(tmp_path / "s", read_only=read_only)
        assert other.read_bytes() == content
    for content in (b"", bytes(100)):  # as one that somebody is about to write
        other.write_bytes(content)
        simdb.open(tmp_path / "s", read_only=read_only).close()


def test_another_data_format_of_lmdb_is_refused_by_its_number(tmp_path):
    path = tmp_path / "newer"
    lmdb.open(str(path), subdir=False, lib_version=1).close()
    (tmp_path / "newer-lock").unlink()
    assert "data format" in refused(path, FormatVersionError)


def test_every_shorter_file_is_refused_or_whole(store):
    content = store.read_bytes()
    cut = store.with_name("cut.simdb")
    for size in [
        0,
        1,
        20,
        151,
        152,
        4_095,
        4_096,
        4_200,
        8_191,
        *range(8_192, len(content), 4_096),
    ]:
        cut.write_bytes(content[:size])
        refused(cut, (NotADatabaseError, CorruptionError))
    cut.write_bytes(content)
    simdb.open(cut).close()


def test_a_truncated_store_is_refused_with_its_sizes(store):
    with simdb.open(store) as database:
        texts = database.collection("texts", simdb.Text())
        texts.add_many((number, f"text number {number} " * 50) for number in range(2_000))
    for beside in store.parent.glob("store.simdb-*"):
        beside.unlink()
    os.truncate(store, store.stat().st_size // 2)
    assert "truncated" in refused(store, CorruptionError)


def change_meta(path, offset, value):
    with path.open("r+b") as file:
        for page in (0, 4_096):
            file.seek(page + offset)
            file.write(value)


@pytest.mark.parametrize("size", [0, 1, 255, 3_000, 2**17, 2**32 - 1])
def test_an_impossible_page_size_is_damage(store, size):
    change_meta(store, 40, struct.pack("<I", size))
    assert "page size" in refused(store, CorruptionError)


def test_a_damaged_second_meta_page_is_damage(store):
    with store.open("r+b") as file:
        file.seek(4_096 + 16)
        file.write(b"\0\0\0\0")
    assert "second meta page" in refused(store, CorruptionError)


def test_the_newer_meta_page_decides_how_long_the_file_must_be(tmp_path):
    path = tmp_path / "file"

    def meta(last_page, transaction):
        none = 2**64 - 1  # tables without a page
        return struct.pack(
            *("<16x I I 16x I 36x Q 40x Q Q Q", 0xBEEFC0DE, 1, 4_096, none, none),
            *(last_page, transaction),
        ).ljust(4_096, b"\0")

    for first, second, is_whole in [
        ((1, 6), (9, 5), True),
        ((9, 6), (1, 5), False),
        ((1, 4), (9, 5), False),
        ((9, 4), (1, 5), True),
    ]:
        path.write_bytes(meta(*first) + meta(*second))
        if is_whole:
            preflight.inspect(path, something_wrong)
        else:
            with pytest.raises(CorruptionError, match="truncated"):
                preflight.inspect(path, something_wrong)
            preflight.inspect(path, nothing_wrong)  # pages freed again may be missing


def test_a_missing_file_is_not_made_up(tmp_path):
    with pytest.raises(simdb.DatabaseNotFoundError):
        simdb.open(tmp_path / "absent.simdb", read_only=True)
    with pytest.raises(simdb.DatabaseNotFoundError):
        simdb.open(tmp_path / "no folder" / "store.simdb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        (0, 0, True),
        (0, 1, True),
        (2, 1, True),
        (2, 3, True),
        (10, 11, True),
        (2, 5, False),
        (6, 3, False),
        (3, 2, False),
        (1, 0, False),
        (2**60, 7, False),
    ],
)
def test_meta_pages_are_of_commits_that_follow_each_other(first, second, agree):
    assert (preflight.contradiction(first, second) == "") is agree


def test_a_store_whose_newer_meta_page_seems_older_is_refused_not_taken_back(store):
    with simdb.open(store) as database:
        collection = database.collection("c", simdb.Text())
        for number in range(3):
            collection.add(number, f"the last commit but {2 - number}")
    data = bytearray(store.read_bytes())
    places = (144, 4_096 + 144)
    newer = max(places, key=lambda place: struct.unpack_from("<Q", data, place)[0])
    struct.pack_into("<Q", data, newer, struct.unpack_from("<Q", data, newer)[0] % 2)
    store.write_bytes(data)
    for beside in store.parent.glob("store.simdb-*"):
        beside.unlink()
    assert "the last commit may be lost" in refused(store, CorruptionError)
    report = simdb.repair(store, store.with_name("new.simdb"))
    assert not report.certain


def test_copies_of_stores_have_meta_pages_that_agree(store):
    with simdb.open(store) as database:
        for number in range(3):
            database.collection(f"c{number}", simdb.Text())
            for compact in (False, True):
                target = store.with_name(f"{number}-{compact}.simdb")
                database.backup(target, compact=compact)
                preflight.inspect(target, nothing_wrong)


# -- pages that opening reads ------------------------------------------------------------------


@pytest.fixture
def roots(tmp_path):
    """A store with a table of every depth up to two, and the first pages of its tables by name."""
    path = tmp_path / "store.simdb"
    with simdb.open(path, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), seed=1)
        for first in range(0, 400, 100):
            collection.add_many(
                (number, [number, number + 1]) for number in range(first, first + 100)
            )
        collection.delete_many(range(30))
    with DamagedFile(path) as file, path.open("rb") as opened:
        meta = preflight.newest_meta(path, opened.fileno())
        found = {table.name: page for table, page in file.roots.items() if page < 2**63}
    return path, {"free": meta.free.root, "main": meta.main.root, **found}


def items_in(path, *, read_only=False):
    """How many items an opened copy holds, or the name of what is raised instead."""
    try:
        with simdb.open(path, read_only=read_only) as database:
            return str(len(list(database["c"].items())))
    except simdb.SimdbError as error:
        return type(error).__name__
    finally:
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()


def test_the_first_pages_of_sound_files_are_told_from_those_of_torn_copies(roots):
    path, pages = roots
    content = path.read_bytes()
    assert {"free", "main", "KEYS", "META", "DOCUMENTS"} < set(pages)
    torn = [(name, other) for name in pages for other in set(pages.values()) - {pages[name]}]

    def work(child):
        for name, other in torn:
            page = pages[name]
            changed = bytearray(content)
            changed[page * 4_096 + 8 : (page + 1) * 4_096] = content[other * 4_096 + 8 :][:4_088]
            copy = path.with_name("copy.simdb")
            copy.write_bytes(changed)
            child.say(items_in(copy))

    told = dict(zip(torn, all_answers_of(work), strict=True))  # nothing has ended the process
    assert set(told.values()) <= {"CorruptionError", "NotADatabaseError", "370"}
    assert {said for (name, _), said in told.items() if name in ("free", "main", "KEYS")} == {
        "CorruptionError"
    }


def test_a_copy_made_while_the_file_was_written_to_is_refused_or_whole(tmp_path):
    path, images, expected = tmp_path / "store.simdb", [], []
    with simdb.open(path, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), seed=1)
        for step in range(40):
            collection.add_many((50 * step + place, [step, place]) for place in range(1 + step % 7))
            images.append(path.read_bytes())
            expected.append(len(collection))
    torn = list(itertools.product(range(0, 36, 3), (2, 4, 8, 16), (1, 3)))

    def work(child):
        for step, begin, later in torn:
            copy = path.with_name("copy.simdb")
            copy.write_bytes(images[step][: begin * 4_096] + images[step + later][begin * 4_096 :])
            child.say(items_in(copy, read_only=True))

    told = all_answers_of(work)
    for (step, _, _), said in zip(torn, told, strict=True):
        assert said in ("CorruptionError", str(expected[step]))
    assert told.count("CorruptionError") > 4


@pytest.mark.parametrize("name", ["main", "META", "KEYS"])
def test_a_root_that_is_a_branch_of_one_page_does_not_end_the_process(roots, name):
    path, pages = roots
    with path.open("r+b") as file:
        file.seek(pages[name] * 4_096 + 10)
        file.write(struct.pack("<2H", preflight.BRANCH, preflight.PAGE_HEADER + 2))
    assert answer_of(lambda: simdb.open(path).close()).startswith("CorruptionError")


def test_a_table_that_leads_back_to_the_tables_is_not_followed_for_ever(roots):
    path, pages = roots
    content = bytearray(path.read_bytes())
    main = pages["main"] * 4_096
    place = content.index(struct.pack("<Q", pages["META"]), content.index(b"meta", main))
    content[place - 8 : place + 8] = struct.pack("<2Q", 10, pages["main"])  # entries and root
    path.write_bytes(content)
    assert answer_of(lambda: simdb.open(path).close()).partition(":")[0] in (
        "CorruptionError",
        "NotADatabaseError",
    )
