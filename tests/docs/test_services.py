"""The service of ``docs/services.md`` answers, in two workers of one store."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "services.md"


class RefusedError(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status_code = status


class App:
    """As much of FastAPI as tells which function answers what; the tests do without the rest."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[..., Any]] = {}

    def post(self, path: str) -> Callable[[Any], Any]:
        return lambda function: self.answers.setdefault(path, function)

    get = post


def service() -> str:
    """The module of the guide."""
    (code,) = re.findall(r"^```py\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.fixture
def workers(tmp_path, monkeypatch):
    """Two, each of which has run the module of the guide."""
    framework: Any = ModuleType("fastapi")
    framework.FastAPI, framework.HTTPException = App, RefusedError
    monkeypatch.setitem(sys.modules, "fastapi", framework)
    monkeypatch.setenv("SEEN_STORE", str(tmp_path / "seen.simdb"))
    made: list[dict[str, Any]] = [{}, {}]
    for names in made:
        exec(compile(service(), "service.py", "exec"), names)
    yield [names["app"].answers for names in made]
    for names in made:
        names["database"].close()


def test_the_service_tells_what_it_has_seen_and_where_that_went(workers):
    one, other = workers
    text = "a post about the price of copper, which went up again in London"
    first = one["/posts/{key}"]("a", {"text": text})
    assert first == {"action": "added", "like": None, "similarity": None, "group": None}
    second = other["/posts/{key}"]("b", {"text": text + "!"})
    assert (second["like"], second["group"]) == ("a", 1)
    assert one["/posts/{key}"]("b", {"text": text + "!"})["action"] == "present"
    assert one["/groups/{identity}"](1) == {"id": 1, "keys": ["a", "b"]}
    (created,) = other["/changes"]()
    assert created == {
        **{"number": 1, "action": "created", "group": 1, "other": None},
        "keys": ["a", "b"],
    }
    assert one["/changes"](since=1) == []
    cases: list[tuple[Callable[[], Any], int]] = [
        (lambda: one["/groups/{identity}"](7), 404),
        (lambda: one["/posts/{key}"]("c", {}), 422),
        (lambda: one["/posts/{key}"]("", {"text": text}), 422),
    ]
    for wrong, status in cases:
        with pytest.raises(RefusedError) as refused:
            wrong()
        assert refused.value.status_code == status


def test_the_service_answers_by_http(tmp_path, monkeypatch):
    testing = pytest.importorskip("fastapi.testclient", exc_type=ImportError)
    monkeypatch.setenv("SEEN_STORE", str(tmp_path / "seen.simdb"))
    names: dict[str, Any] = {}
    exec(compile(service(), "service.py", "exec"), names)
    client = testing.TestClient(names["app"])
    text = "a post about the price of copper, which went up again in London"
    assert client.post("/posts/a", json={"text": text}).json()["action"] == "added"
    assert client.post("/posts/b", json={"text": text + "!"}).json()["group"] == 1
    assert client.get("/groups/1").json() == {"id": 1, "keys": ["a", "b"]}
    assert [one["action"] for one in client.get("/changes").json()] == ["created"]
    assert client.get("/groups/9").status_code == 404
    assert client.post("/posts/c", json={}).status_code == 422
    names["database"].close()
