"""identical on the command line: groups, counts of what was read, exit codes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.support.commands import done, run

SIZE = 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = random.Random(3)
    content = {name: generator.randbytes(SIZE) for name in "abc"}
    place = tmp_path / "files"
    (place / "sub").mkdir(parents=True)
    for name, data in content.items():
        (place / name).write_bytes(data)
    (place / "sub" / "copy of a").write_bytes(content["a"])
    (place / "sub" / "b\tx\x1b").write_bytes(content["b"])
    (place / "alone").write_bytes(generator.randbytes(77))
    return place


def test_groups_are_lines_and_the_summary_says_what_was_read(folder):
    result = done("identical", folder)
    assert result.stdout.splitlines() == [
        f"2\t{folder}/a\t{folder}/sub/copy of a",
        f"2\t{folder}/b\t{folder}/sub/b\\tx\\x1b",
    ]
    assert result.stderr.startswith("2 groups of 4 files, among 6; read ")
    assert f" of {5 * SIZE + 77:,} bytes" in result.stderr
    assert "4 files in full" in result.stderr


def test_json_is_one_object_with_all_counts(folder):
    report = json.loads(done("identical", folder, "--json").stdout)
    assert report["groups"] == [
        [f"{folder}/a", f"{folder}/sub/copy of a"],
        [f"{folder}/b", f"{folder}/sub/b\tx\x1b"],
    ]
    assert (report["files"], report["files_sampled"], report["files_read_in_full"]) == (6, 5, 4)
    # Eight places of sixteen bytes of each of equal size, and the colliding ones in full.
    assert report["bytes_read"] == 5 * 8 * 16 + 4 * SIZE
    assert report["bytes_total"] == 5 * SIZE + 77
    assert (report["unreadable"], report["skipped"]) == ([], 0)


def test_files_may_be_named_one_by_one_and_the_places_chosen(folder):
    result = done("identical", folder / "a", folder / "sub" / "copy of a", folder / "c",
                  "--positions", 2, "--json")  # fmt: skip
    report = json.loads(result.stdout)
    assert len(report["groups"]) == 1
    assert report["bytes_read"] == 3 * 2 * 16 + 2 * SIZE


def test_links_are_passed_by_and_told(folder):
    (folder / "link").symlink_to(folder / "a")
    assert "1 link or special file skipped" in done("identical", folder).stderr


def test_what_is_not_there_is_exit_code_2(folder):
    result = run("identical", folder, folder / "absent")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert run("identical", folder, "--positions", 0).exit_code == 2
    assert run("identical").exit_code == 2


def test_what_cannot_be_read_is_told_and_exit_code_1(folder, monkeypatch):
    refused = folder / "a"
    opened = Path.open

    def open_or_refuse(self: Path, *arguments: object, **options: object) -> object:
        if self == refused:
            raise PermissionError(13, "Permission denied", os.fspath(self))
        return opened(self, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", open_or_refuse)
    shown, printed = run("identical", folder), run("identical", folder, "--json")
    assert (shown.exit_code, printed.exit_code) == (1, 1)
    assert f"{refused}: Permission denied" in shown.stderr
    assert json.loads(printed.stdout)["unreadable"] == [
        {"path": str(refused), "problem": "Permission denied"}
    ]
    assert len(json.loads(printed.stdout)["groups"]) == 1
