"""The service of ``docs/services.md`` answers by HTTP, in two workers of one store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import simdb

GUIDE = Path(__file__).parents[2] / "docs" / "services.md"
TEXT = "a post about the price of copper, which went up again in London"


@pytest.fixture
def workers(tmp_path, monkeypatch):
    """Two, each of which has run the module of the guide."""
    (code,) = re.findall(r"^```py\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("SEEN_STORE", str(tmp_path / "seen.simdb"))
    made: list[dict[str, Any]] = [{}, {}]
    for names in made:
        exec(compile(code, "service.py", "exec"), names)
    yield [TestClient(names["app"]) for names in made]
    for names in made:
        names["database"].close()


def test_the_service_tells_what_it_has_seen_and_where_that_went(workers):
    one, other = workers
    first = one.post("/posts/a", json={"text": TEXT}).json()
    assert first == {"action": "added", "like": None, "similarity": None, "group": None}
    second = other.post("/posts/b", json={"text": TEXT + "!"}).json()
    assert (second["like"], second["group"]) == ("a", 1)
    assert one.post("/posts/b", json={"text": TEXT + "!"}).json()["action"] == "present"
    assert one.get("/groups/1").json() == {"id": 1, "keys": ["a", "b"]}
    (created,) = other.get("/changes").json()
    assert created == {
        **{"number": 1, "action": "created", "group": 1, "other": None},
        **{"keys": ["a", "b"], "bound": 0.8},
    }
    assert one.get("/changes?since=1").json() == []
    assert one.get("/changes?since=-1").status_code == 422
    assert one.get("/changes?since=2").status_code == 422
    assert one.get("/groups/7").status_code == 404
    assert one.post("/posts/c", json={}).status_code == 422
    assert one.post(f"/posts/{'k' * 5_000}", json={"text": TEXT}).status_code == 422


def test_two_that_remember_at_the_same_time_lose_no_fact(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "memory.py", "exec"), names)
    one, other = names["Memory"]("shared.simdb"), names["Memory"]("shared.simdb")
    # As if each asked before the other had stored anything.
    monkeypatch.setattr(simdb.Collection, "checkpoint", lambda _: 0)
    assert one.remember("the cat sleeps on the roof", "here") == "added"
    assert other.remember("copper costs more than zinc", "there") == "added"
    assert other.recall("where does the cat sleep")
    for memory in (names["memory"], one, other):
        memory._database.close()
