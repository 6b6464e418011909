"""Whether an output would be read the next time, by the names of inputs alone."""

from __future__ import annotations

import pytest

from simdb.files.inputs import is_read_within


@pytest.mark.parametrize(
    ("place", "source", "expected"),
    [
        ("-", "*", False),
        ("kept.jsonl", "*.jsonl", True),
        ("kept.parquet", "*.jsonl", False),
        ("deep/kept.jsonl", "deep/**/*.jsonl", True),
        ("deep/a/b/kept.jsonl", "deep/**/*.jsonl", True),
        ("deep/a/kept.jsonl", "deep/*.jsonl", False),
        ("other/kept.jsonl", "deep/**/*.jsonl", False),
        ("deep/../deep/kept.jsonl", "deep/*.jsonl", True),
        ("deep/kept.jsonl", "other/../deep/*.jsonl", True),
        ("deep/kept.jsonl", "link/*.jsonl", True),
        ("link/kept.jsonl", "deep/*.jsonl", True),
        ("link/kept.jsonl", "*/kept.jsonl", True),
        ("other/kept.jsonl", "link/*.jsonl", False),
    ],
)
def test_a_pattern_reads_what_it_matches(tmp_path, monkeypatch, place, source, expected):
    monkeypatch.chdir(tmp_path)
    for folder in ("deep", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to("deep")
    assert is_read_within(place, source) is expected
