"""Small limits, so that little data meets what large runs do."""

# mypy: allow-untyped-calls

from __future__ import annotations

import pytest

from simdb.storage.tables import runs


@pytest.fixture
def small_runs(monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(runs, "FAN_IN", 3)
    monkeypatch.setattr(runs, "SMALL_MERGE", 8)
