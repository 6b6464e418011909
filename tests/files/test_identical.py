"""Identical files are found exactly, and most of them are hardly read (MMDS 3.9.1)."""

from __future__ import annotations

import inspect
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from simdb.errors import ConfigurationError
from simdb.files import identical
from simdb.files.identical import IdenticalReport, identical_files
from simdb.results import Progress


def write(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files by name."""
    paths = []
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return paths


def names(report: IdenticalReport) -> list[tuple[str, ...]]:
    return [tuple(path.name for path in group) for group in report.groups]


def test_groups_equal_those_of_comparing_every_byte(tmp_path):
    generator = random.Random(1)
    contents: dict[str, bytes] = {}
    for number in range(300):
        size = generator.choice([0, 1, 2, 127, 128, 129, 130, 500, 5000])
        content = bytearray(generator.choice([b"a", b"b"]) * size)
        if size and generator.random() < 0.5:
            content[generator.randrange(size)] = generator.choice(b"abc")
        contents[f"{number % 7}/file{number}"] = bytes(content)
    write(tmp_path, contents)
    by_content = defaultdict(list)
    for name, stored in contents.items():
        by_content[stored].append(tmp_path / name)
    expected = sorted(tuple(sorted(group)) for group in by_content.values() if len(group) > 1)
    report = identical_files([tmp_path])
    assert list(report.groups) == expected
    assert report.files == 300
    assert report.bytes_total == sum(map(len, contents.values()))
    assert identical_files([tmp_path], positions=1).groups == report.groups


def test_a_file_of_a_size_of_its_own_is_never_opened(tmp_path):
    paths = write(tmp_path, {"a": b"x" * 1000, "b": b"x" * 1001, "c": b""})
    report = identical_files(paths)
    assert (report.bytes_read, report.files_sampled, report.files_read_in_full) == (0, 0, 0)
    assert report.groups == ()


def test_files_with_a_common_header_are_told_apart_by_a_few_bytes(tmp_path):
    header = b"<html>" * 10_000
    generator = random.Random(2)
    files = {f"page{n}": header + generator.randbytes(140_000) for n in range(20)}
    report = identical_files(write(tmp_path, files))
    assert report.groups == ()
    assert report.files_sampled == 20
    assert report.files_read_in_full == 0
    assert report.bytes_read == 20 * 8 * 16
    assert report.bytes_total == 20 * 200_000


def test_only_files_that_agree_where_they_are_sampled_are_read_in_full(tmp_path):
    generator = random.Random(3)
    same = generator.randbytes(50_000)
    files = {"one": same, "two": same, **{f"n{n}": generator.randbytes(50_000) for n in range(8)}}
    report = identical_files(write(tmp_path, files))
    assert names(report) == [("one", "two")]
    assert report.files_read_in_full == 2
    assert report.bytes_read == 10 * 8 * 16 + 2 * 50_000


def test_reading_stops_where_the_last_other_file_differs(tmp_path, monkeypatch):
    monkeypatch.setattr(identical, "_STEP", 1000)
    monkeypatch.setattr(identical, "_SAMPLE_WIDTH", 1)
    base = bytearray(b"\0" * 10_000)
    early, late = bytearray(base), bytearray(base)
    early[1500], late[9999] = 1, 1
    report = identical_files(
        write(tmp_path, {"base": bytes(base), "early": bytes(early), "late": bytes(late)}),
        positions=1,
    )
    assert report.groups == ()
    assert report.files_read_in_full == 2
    assert report.bytes_read == 3 + 2_000 + 2 * 10_000


def test_empty_files_are_identical_and_unread(tmp_path):
    report = identical_files(write(tmp_path, {"a": b"", "b": b""}))
    assert names(report) == [("a", "b")]
    assert report.bytes_read == 0


def test_names_of_one_file_are_a_group_without_reading_it(tmp_path):
    (path,) = write(tmp_path, {"a": b"x" * 500})
    os.link(path, tmp_path / "b")
    report = identical_files([tmp_path])
    assert names(report) == [("a", "b")]
    assert (report.files, report.bytes_total, report.bytes_read) == (2, 500, 0)


def test_a_file_given_twice_is_not_identical_to_itself(tmp_path):
    (path,) = write(tmp_path, {"a": b"x"})
    report = identical_files([path, str(path), tmp_path, tmp_path / "." / "a"])
    assert report.groups == ()
    assert report.files == 1


def test_symbolic_links_are_not_followed(tmp_path):
    (path,) = write(tmp_path, {"folder/a": b"x" * 500})
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder" / "loop").symlink_to(tmp_path)
    report = identical_files([tmp_path, tmp_path / "link"])
    assert report.groups == ()
    assert (report.files, report.skipped) == (1, 2)


def test_what_cannot_be_read_is_reported_and_the_rest_is_settled(tmp_path, monkeypatch):
    paths = write(tmp_path, dict.fromkeys(["a", "b", "locked", "short"], b"x" * 500))
    opened = Path.open

    def refuse(self, *arguments, **keywords):
        if self.name == "locked":
            raise PermissionError(13, "Permission denied")
        if self.name == "short":
            self.write_bytes(b"x" * 100)
        return opened(self, *arguments, **keywords)

    def write_bytes(self, content):
        with opened(self, "wb") as file:
            file.write(content)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    report = identical_files([*paths, tmp_path / "absent", "nul\0byte"])
    assert names(report) == [("a", "b")]
    reasons = {path.name: reason for path, reason in report.unreadable}
    assert reasons["locked"] == "Permission denied"
    assert reasons["absent"] == "No such file or directory"
    assert reasons["short"] == "it became shorter while it was read"
    assert "null" in reasons["nul\0byte"]


def test_progress_ends_at_the_number_of_files(tmp_path):
    calls: list[Progress] = []
    write(tmp_path, {"a": b"1", "b": b"2", "c": b"345"})
    identical_files([tmp_path], progress=calls.append)
    assert (calls[-1].done, calls[-1].total) == (3, 3)


@pytest.mark.parametrize("positions", [0, -1, True, 1.5])
def test_positions_below_one_are_refused(positions):
    with pytest.raises(ConfigurationError, match="positions must be"):
        identical_files([], positions=positions)


def test_an_empty_name_is_not_the_current_folder():
    with pytest.raises(ConfigurationError, match="the name of a file is empty"):
        identical_files([""])


def test_reads_that_bring_less_than_was_asked_for_change_nothing(tmp_path, monkeypatch):
    """A signal, or a file system, may end a read early; only an empty one is the end."""
    contents = {"a": b"x" * 5_000, "b": b"x" * 5_000, "c": b"x" * 4_999 + b"y"}
    paths = write(tmp_path, contents)
    expected = identical_files(paths)
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, place: read(file, min(size, 7), place))
    assert identical_files(paths) == expected
    assert names(expected) == [("a", "b")]


def test_folders_may_be_nested_deeper_than_python_calls(tmp_path):
    deepest = tmp_path.joinpath(*"f" * 100)
    deepest.mkdir(parents=True)
    write(deepest, dict.fromkeys(["a", "b"], b"x"))
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        report = identical_files([tmp_path])
    finally:
        sys.setrecursionlimit(usual)
    assert names(report) == [("a", "b")]


def test_a_file_that_became_shorter_between_two_reads_is_reported(tmp_path, monkeypatch):
    paths = write(tmp_path, dict.fromkeys(["a", "b"], b"x" * 500))
    read = os.pread
    monkeypatch.setattr(
        os, "pread", lambda file, size, place: read(file, min(size, 7), place) if not place else b""
    )
    report = identical_files(paths)
    assert not report.groups
    assert {reason for _, reason in report.unreadable} == {"it became shorter while it was read"}
