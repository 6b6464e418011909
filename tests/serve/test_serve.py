"""The service answers as the store does, and says what is wrong in which field."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import os
import pickle  # noqa: TID251 - workers get their settings so
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import replace

import simdb
from simdb.answers.method import keys_of_numbers
from simdb.errors import MissingExtraError
from simdb.serve import Limits, messages, serve
from simdb.serve.answers import Service
from simdb.serve.endpoints import ENDPOINTS, Endpoint
from simdb.serve.guard import Guard
from simdb.serve.limits import Settings
from simdb.serve.refusals import RefusedError
from simdb.serve.running import _bound_to
from simdb.storage.file import log
from tests.support.commands import run
from tests.support.kind_cases import ALL
from tests.support.processes import DEVNULL, ended, interpreted, started
from tests.support.serving import Client, served

HOSTILE = "</td><script>document.title='owned'</script><img src=x onerror=alert(1)>"
SERVICES = Path(__file__).parents[2] / "docs" / "services.md"
WORDS = "the quick brown fox jumps over the lazy dog near the river"
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
LIMITS = Limits(body=20_000, items=5, matches=4, seconds=20)


def filled(path: Path) -> Path:
    with simdb.open(path, threads=1) as db:
        kind = simdb.Text(simdb.WordShingles(1))
        notes = db.collection("notes", kind, threshold="0.3", groups="chain", seed=1)
        notes.add("a/ü", f"{WORDS} bank", metadata={"source": "web"})
        notes.add(7, f"{WORDS} side\n{HOSTILE}", metadata={"source": "news"})
        notes.add("far", "nothing of the kind")
        db.collection("sets 1/2", simdb.Set(), threshold="0.5", seed=1).add("s", [1, 2, 3])
        bags = db.collection("bags", simdb.Bag(), threshold="0.4", seed=1)
        bags.add("b", {1: 2, 4: 1})
    return path


ADDS_LATER = """
import simdb, sys
with simdb.open(sys.argv[1], threads=1) as db:
    db["notes"].add("later", "later")
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = filled(tmp_path_factory.mktemp("serve") / "s.simdb")
    with served(path, limits=LIMITS) as client:
        yield client


def keys_of(told: Any) -> list[Any]:
    return [match["key"] for match in told["matches"]]


# -- answers ---------------------------------------------------------------------------------------


def test_a_search_answers_what_the_store_does(client: Client) -> None:
    told = client.post("/collections/notes/search", {"item": WORDS}).told
    assert keys_of(told) == ["a/ü", 7]
    assert told["matches"][0] == {
        "key": "a/ü",
        "similarity": 10 / 11,
        "metadata": {"source": "web"},
    }
    assert 0.98 < told["expected_recall"] < 1
    exact = {"item": WORDS, "guarantee": "exact", "threshold": "9/10", "metadata": False}
    told = client.post("/collections/notes/search", exact).told
    assert told["guarantee"] == "exact"
    assert told["matches"] == [{"key": "a/ü", "similarity": 10 / 11}]
    news = {"item": WORDS, "where": {"source": ["news", "none"]}}
    assert keys_of(client.post("/collections/notes/search", news).told) == [7]
    one = {"item": WORDS, "limit": 1}
    assert keys_of(client.post("/collections/notes/search", one).told) == ["a/ü"]


def test_true_in_a_filter_is_not_one(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        made = db.collection("c", simdb.Set())
        made.add_many((str(n), [1], {"n": n}) for n in (True, 1, 0))
    with served(tmp_path / "s.simdb") as client:
        for where, keys in ((True, ["True"]), ([False, 1.0], ["1"]), ([1, True], ["True", "1"])):
            asked = {"item": [1], "where": {"n": where}}
            assert keys_of(client.post("/collections/c/search", asked).told) == keys


def test_several_are_searched_for_at_once_and_stored_ones_by_their_keys(client: Client) -> None:
    many = client.post("/collections/notes/search", {"items": [WORDS, "else"]}).told["answers"]
    assert list(map(keys_of, many)) == [["a/ü", 7], []]
    by_key = client.post("/collections/notes/search", {"key": "a/ü", "threshold": 0.3}).told
    assert keys_of(by_key) == [7]
    both = client.post("/collections/notes/search", {"keys": [7, "far"]}).told["answers"]
    assert list(map(keys_of, both)) == [["a/ü"], []]


def test_names_with_slashes_and_numbers_as_keys_are_found(client: Client) -> None:
    item = client.get(f"/collections/notes/items/{quote('a/ü', safe='')}").told
    assert item == {"key": "a/ü", "item": f"{WORDS} bank", "metadata": {"source": "web"}}
    told = client.get("/collections/notes/items/7")
    assert told.status == 404
    assert told.error["help"][0].startswith("?integer_key=true says that a key in the address is")
    told = client.post("/collections/notes/search", {"key": "7"})
    assert told.error["help"][0].endswith("in JSON it has no quotes")
    assert client.get("/collections/notes/items/7").error["field"] == "key"
    assert client.get("/collections/notes/items/7/group").error["field"] == "key"
    assert client.ask("DELETE", "/collections/notes/items/7").error["field"] == "key"
    assert client.get("/collections/notes/items/7?integer_key=true").told["key"] == 7
    place = f"/collections/{quote('sets 1/2', safe='')}"
    assert keys_of(client.post(f"{place}/search", {"item": [3, 2, 1]}).told) == ["s"]
    assert client.get(f"{place}/items/s").told["item"] == [1, 2, 3]
    bag = client.post("/collections/bags/search", {"item": {"1": 2, "4": 1}}).told
    assert keys_of(bag) == ["b"]


@pytest.mark.parametrize("name", ["bits:40:hamming", "record", "string:alignment"])
def test_items_of_any_kind_go_out_as_they_come_in(name: str, tmp_path: Path) -> None:
    examples: Any = ALL[name].examples
    bound = "max_distance" if examples.kind.is_distance else "threshold"
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        made = db.collection("c", examples.kind, **{bound: examples.bound})
        made.add(0, examples.items[0])
    with served(tmp_path / "s.simdb") as client:
        item = client.get("/collections/c/items/0?integer_key=true").told["item"]
        added = client.post("/collections/c/items", {"key": 1, "item": item})
        assert (added.status, added.told["duplicate_of"]) == (200, 0), added.body
        assert client.get("/collections/c/items/1?integer_key=true").told["item"] == item
        found = client.post("/collections/c/search", {"item": item, "guarantee": "exact"})
        assert keys_of(found.told) == [0, 1]
        assert client.get("/collections").told["collections"][0][bound] is not None


def test_collections_are_listed_with_their_settings(client: Client) -> None:
    told = client.get("/collections").told
    assert (told["name"], told["writes"], told["limits"]["items"]) == ("s.simdb", True, 5)
    notes = told["collections"][1]
    assert (notes["name"], notes["threshold"], notes["keeps_groups"]) == ("notes", 0.3, True)
    assert client.get("/collections/notes").told == notes
    assert client.get("/collections/notes/stats").told["settings"]["threshold"] == 0.3


def test_two_items_are_explained_with_their_differences_marked(client: Client) -> None:
    told = client.post("/collections/notes/explain", {"left": "a/ü", "right": 7}).told
    assert told["evidence"]["common"] == 10
    first = told["differences"][0]
    assert first[1] == "|"
    assert ["bank", True] in first[0]
    told = client.post("/collections/notes/explain", {"item": WORDS, "right": "a/ü"}).told
    assert told["left"] is None
    assert told["evidence"]["similar"]


def test_what_comes_in_is_told_what_it_is_like_and_leaves_again(client: Client) -> None:
    place = "/collections/notes/items"
    added = client.post(place, {"key": "new", "item": f"{WORDS} bend"}).told
    assert added["action"] == "added"
    assert (added["duplicate_of"], added["similarity"]) == ("a/ü", 10 / 12)
    assert client.get(f"{place}/new/group").told["id"] == added["group"]
    again = {"key": "new", "item": "other"}
    assert client.post(place, again).told["action"] == "present"
    refused = client.post(place, {**again, "on_existing": "error"})
    assert (refused.status, refused.error["field"]) == (409, "key")
    skipped = {"key": "newer", "item": f"{WORDS} bend!", "on_duplicate": "skip", "threshold": 0.9}
    rows = {"rows": [{"key": "x", "item": "x y z"}, {"key": "y", "item": 3}]}
    assert client.post(place, {**skipped, "item": f"{WORDS} bend"}).told["action"] == "duplicate"
    wrong = client.post(place, rows)
    assert (wrong.status, wrong.error["field"]) == (422, "rows[1]")
    assert client.get(f"{place}/x").status == 404
    assert client.ask("DELETE", f"{place}/new").told == {"deleted": 1}
    assert client.ask("DELETE", f"{place}/new").status == 404
    missing = {"keys": ["new"], "missing": "skip"}
    assert client.post("/collections/notes/delete", missing).told == {"deleted": 0}
    changes = client.get("/collections/notes/changes?limit=1").told["changes"]
    assert [(one["number"], one["action"]) for one in changes] == [(1, "created")]
    group = client.get("/collections/notes/groups").told
    assert group["groups"] == [{"id": 1, "keys": ["a/ü", 7], "bound": 0.3}]
    assert client.get("/collections/notes/groups/1").told["keys"] == ["a/ü", 7]


def test_a_request_that_is_refused_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", 1)
    monkeypatch.setattr("simdb.ingest.add.SHARE_OF_MEMORY", 2**40)
    monkeypatch.setattr("simdb.collection.DELETED_AT_ONCE", 1)
    path = filled(tmp_path / "s.simdb")
    place = "/collections/notes"

    def stored() -> list[Any]:
        with simdb.open(path, read_only=True) as db:
            return [(one.key, one.item) for one in db["notes"].items()]

    before = stored()
    x = {"key": "x", "item": "one"}
    with served(path) as client:
        for rows, on_existing, wanted in (
            ([x, {**x, "item": "two"}], "error", (409, "rows[1]")),
            ([x, x], "skip", (409, "rows[1]")),
            ([x, {"key": "far", "item": "z"}], "error", (409, "rows[1]")),
            ([{**x, "key": "far"}, x, {"key": "z", "item": 5}], "replace", (422, "rows[2]")),
        ):
            body = {"rows": rows, "on_existing": on_existing}
            refused = client.post(f"{place}/items", body)
            assert (refused.status, refused.error["field"]) == wanted
        assert client.post(f"{place}/delete", {"keys": ["far", 7, "none"]}).status == 404
        assert stored() == before
        rows = [x, {"key": "y", "item": "two"}]
        told = client.post(f"{place}/items", {"rows": rows}).told["outcomes"]
        assert [one["action"] for one in told] == ["added", "added"]
        assert client.post(f"{place}/delete", {"keys": ["x", "y"]}).told == {"deleted": 2}
    assert stored() == before


def test_groups_are_told_with_the_bound_that_they_are_of(tmp_path: Path) -> None:
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as db:
        bounds: list[str | float] = ["1/3", 0.8]
        sets = db.collection("c", simdb.Set(), threshold="1/3", groups="chain", groups_at=bounds)
        sets.add_many([("a", set(range(10))), ("b", set(range(9))), ("c", set(range(6)))])
        known = [(one.number, one.bound) for one in sets.changes()]
    with served(path) as client:
        place = "/collections/c"
        wide, narrow = (
            client.get(f"{place}/groups{asked}").told["groups"] for asked in ("", "?threshold=0.8")
        )
        assert wide == client.get(f"{place}/groups?threshold=1/3").told["groups"]
        assert [(one["keys"], one["bound"]) for one in wide] == [(["a", "b", "c"], "1/3")]
        assert [(one["keys"], one["bound"]) for one in narrow] == [(["a", "b"], 0.8)]
        assert client.get(f"{place}/groups/{narrow[0]['id']}").told == narrow[0]
        for key, asked, found in (
            ("c", "", wide[0]),
            ("a", "?threshold=0.8", narrow[0]),
            ("c", "?threshold=0.8", {"id": None, "keys": ["c"], "bound": 0.8}),
        ):
            assert client.get(f"{place}/items/{key}/group{asked}").told == found
        changes = client.get(f"{place}/changes").told["changes"]
        told = [(one["number"], Fraction(str(one["bound"]))) for one in changes]
        assert told == known


def test_the_group_of_what_is_added_is_not_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "/collections/notes/items"
    monkeypatch.setattr("simdb.collection.Collection.group_of", None)
    rows = [{"key": f"many {number}", "item": f"{WORDS} bank"} for number in range(3)]
    told = client.post(place, {"rows": rows}).told["outcomes"]
    assert {one["group"] for one in told} == {1}
    keys = [row["key"] for row in rows]
    assert client.post("/collections/notes/delete", {"keys": keys}).told == {"deleted": 3}


@pytest.mark.parametrize(
    ("kind", "item"),
    [(simdb.Vector(3), [1, 2, 3]), (simdb.Bits(8), "00001111"), (simdb.String(), "text")],
    ids=["vector", "bits", "string"],
)
def test_a_collection_without_an_index_takes_items(
    tmp_path: Path, kind: simdb.kinds.Kind, item: Any
) -> None:
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as db:
        db.collection("c", kind)
    with served(path) as client:
        place = "/collections/c/items"
        assert client.post(place, {"key": "a", "item": item}).told["action"] == "added"
        body = {"rows": [{"key": "b", "item": item}], "on_duplicate": "keep"}
        assert client.post(place, body).told["outcomes"] == [{"key": "b", "action": "added"}]
        for asked in ({"max_distance": 0}, {"on_duplicate": "skip"}):
            refused = client.post(place, {"key": "c", "item": item, **asked})
            assert refused.status == 422, refused.body
        assert client.get(f"{place}/c").status == 404


def test_nobody_who_reads_waits_for_those_who_write(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    place = "/collections/notes/items"
    told = []
    with served(path) as client, simdb.open(path, threads=1) as db:
        write = {"key": "later", "item": "later"}
        writers = [
            threading.Thread(target=lambda: told.append(client.post(place, write).status))
            for _ in range(4)  # of two threads
        ]
        began = time.monotonic()
        with db._handle.write():
            for writer in writers:
                writer.start()
            time.sleep(0.3)
            assert client.get(f"{place}/far").status == 200
            assert client.get("/health").told == {"status": "ok"}
            assert client.get("/ready").status == 200
            assert client.get("/health?x=1").status == 400
            assert not told
        for writer in writers:
            writer.join()
        assert time.monotonic() - began < 8  # busy_timeout is 10
    assert told == [200] * 4


# -- what is refused -------------------------------------------------------------------------------


def test_an_item_that_the_kind_refuses_is_told_with_its_place_in_the_request(
    tmp_path: Path,
) -> None:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        db.collection("c", simdb.Vector(2), max_distance=1).add("a", [1, 2])
    wrong = {"key": "k", "item": [1, 2, 3]}
    cases: dict[str, list[tuple[str, Any]]] = {
        "item": [("search", {"item": [1, 2, 3]}), ("items", wrong)],
        "items[3]": [("search", {"items": [[1, 2]] * 3 + [[1, 2, 3], [1]]})],
        "items[0]": [("search", {"items": [[1, 2, 3]]})],
        "rows[1]": [("items", {"rows": [{"key": "b", "item": [1, 1]}, wrong]})],
    }
    with served(tmp_path / "s.simdb") as client:
        for field, asked in cases.items():
            for call, body in asked:
                refused = client.post(f"/collections/c/{call}", body)
                assert (refused.status, refused.error["type"]) == (422, "BadItemError")
                assert refused.error["field"] == field
                assert ("row" in refused.error["message"]) == field.startswith("rows")
        assert client.get("/collections/c/items/b").status == 404


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("notes/search", {"item": 3}, (422, "item", "is a number, not text")),
        ("notes/search", {"items": ["a", 3]}, (422, "items[1]", "is a number, not text")),
        ("notes/search", {"item": "a", "limits": 3}, (422, "limits", "unknown field")),
        ("notes/search", {"item": "a", "limit": "3"}, (422, "limit", "expected `int | null`")),
        ("notes/search", {"item": "a", "limit": 5}, (422, "limit", "from 1 to 4")),
        ("notes/search", {"item": "a", "limit": 0}, (422, "limit", "from 1 to 4")),
        ("notes/search", {}, (422, None, "exactly one of item, items, key, keys")),
        ("notes/search", {"items": ["a"] * 6}, (413, "items", "may have 5")),
        ("notes/search", {"item": "a", "threshold": 0.1}, (422, "threshold", "is below 0.3")),
        ("notes/search", {"item": "a", "threshold": 7}, (422, "threshold", "7")),
        ("notes/search", {"item": "a", "threshold": "1/0"}, (422, "threshold", "not '1/0'")),
        ("notes/search", {"item": "a", "max_distance": 1}, (422, "max_distance", "threshold")),
        ("notes/search", {"item": "a", "measure": "x"}, (422, "measure", "not 'x'")),
        ("notes/search", {"item": "a", "min_recall": 7}, (422, "min_recall", "not 7")),
        ("notes/search", {"item": "a", "where": {"a": {}}}, (422, "where[...]", "expected")),
        ("notes/search", {"key": "none"}, (404, "key", "is not stored")),
        (
            "notes/search",
            {"item": "a", "guarantee": "sure"},
            (422, "guarantee", "must be 'auto' or 'exact' or 'probable', not 'sure'"),
        ),
        ("notes/items", {"on_existing": "x'"}, (422, "on_existing", "or 'replace', not \"x'\"")),
        ("notes/items", {"on_duplicate": ""}, (422, "on_duplicate", "'keep' or 'skip', not ''")),
        ("notes/search", b'{"item": "a', (400, None, "not JSON")),
        ("notes/search", b'{"item": ' + b"[" * 9_000, (400, None, "JSON")),
        ("notes/search", b'{"item": "\\ud800"}', (400, None, "not JSON: it has a lone surrogate")),
        ("notes/search", b'{"items": ["\\udc00"]}', (400, None, "lone surrogate")),
        ("notes/search", b'{"item": "\\ud83d\\ude00\\ud800 "}', (400, None, "lone surrogate")),
        ("notes/search", b'{"item": "\\ud83d\\ude00', (400, None, "truncated")),
        ("notes/search", b'{"item": "\\\\ud800', (400, None, "truncated")),
        ("notes/search", b"\xff", (400, None, "not JSON")),
        ("notes/search", b'{"item": "a\xff"}', (400, None, "no UTF-8 at byte 11")),
        ("notes/search", b'{"keys": ["\xff"]}', (400, None, "no UTF-8 at byte 11")),
        ("notes/search", b'{"items": ["\xc3"]}', (400, None, "no UTF-8 at byte 12")),
        ("notes/items", b'{"key": "k", "item": "\xed\xa0\x80"}', (400, None, "no UTF-8")),
        ("none/search", {"item": "a"}, (404, None, "there are")),
        ("notes/explain", {"right": 7}, (422, None, "exactly one of item, left")),
        ("notes/items", {"item": "a"}, (422, "key", "names the item")),
        ("notes/items", {"key": "", "item": "a"}, (422, "key", "key")),
        ("notes/items", {"key": "k", "item": 1.5}, (422, "item", "not text")),
        (
            "notes/items",
            {"key": "k", "item": "a", "metadata": {"a": 2**70}},
            (422, "metadata", "metadata['a'] is a number of more than 64 bits"),
        ),
        ("notes/items", {"rows": [], "key": "k"}, (422, "key", "each of the rows has its own")),
        ("notes/items", {"rows": [], "metadata": {}}, (422, "metadata", "has its own")),
        ("notes/delete", {"keys": [1.5]}, (422, "keys[0]", "expected")),
        ("notes/delete", {"keys": ["far", "no"]}, (404, "keys[1]", "key 'no' is not stored")),
        ("notes/search", {"keys": ["7", 7, 8, 8]}, (404, "keys[0]", "but the number 7 is")),
        ("notes/search", {"keys": [7, "far", "7"]}, (404, "keys[2]", "key '7' is not stored")),
        ("notes/explain", {"left": 7, "right": "no"}, (404, "right", "key 'no' is not stored")),
        ("notes/explain", {"left": "7", "right": 7}, (404, "left", "key '7' is not stored")),
        ("notes/explain", {"item": "a", "right": 8}, (404, "right", "key 8 is not stored")),
    ],
)
def test_what_is_wrong_is_told_with_its_field(
    client: Client, path: str, body: Any, wanted: tuple[int, str | None, str]
) -> None:
    status, field, words = wanted
    answer = client.post(f"/collections/{path}", body)
    assert answer.status == status, answer.body
    assert words in answer.error["message"]
    assert answer.error.get("field") == field


def test_the_error_on_the_page_of_services_is_what_is_answered(client: Client) -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", SERVICES.read_text(), re.MULTILINE | re.DOTALL)
    told = client.post(
        f"/collections/{quote('sets 1/2', safe='')}/search", {"item": [1], "threshold": 0.4}
    ).error
    assert told == json.loads(shown.replace("'sets'", "'sets 1/2'"))["error"]


@pytest.mark.parametrize("field", ["threshold", "measure", "guarantee", "m" * 15_000])
def test_what_is_repeated_of_a_request_is_short(client: Client, field: str) -> None:
    answer = client.post("/collections/notes/search", {"item": "a", field: "9" * 4_000})
    assert answer.status == 422
    assert answer.error["field"].startswith(field[:30])
    assert len(answer.body) < 1_000
    answer = client.post("/collections/notes/search", {"item": "a", "threshold": 1e-300})
    assert answer.error["message"].startswith("threshold 1e-300 is below 0.3")
    assert b"0000000000" not in answer.body


def test_remedies_are_in_the_words_of_requests_and_commands(client: Client) -> None:
    wanted = {"item": "a", "threshold": 0.1}
    helps = client.post("/collections/notes/search", wanted).error["help"]
    assert any(one.startswith('"guarantee": "exact"') for one in helps)
    # Alone the threshold would find no plan.
    (planned,) = (one for one in helps if one.endswith(" plans for it"))
    assert planned.startswith("simdb rebuild STORE COLLECTION --threshold 0.1 --row-budget ")
    assert any(one.startswith("simdb rebuild STORE COLLECTION --exact-floor 0.1") for one in helps)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/none", 404),
        ("/collections/", 404),
        ("/collections/notes/groups?threshold=0.7", 422),
        ("/collections/notes/groups?threshold=x", 422),
        ("/collections/notes/groups?max_distance=1", 422),
        ("/collections/notes/changes?since=3000", 422),
        ("/collections/notes/none", 404),
        ("/collections/%ff", 400),
        ("/collections/notes/groups?limit=0", 422),
        ("/collections/notes/groups?limit=x", 422),
        ("/collections/notes/changes?limit=x&limit=2", 400),
        ("/collections/notes/changes?since=0&limit=2&limit=2", 400),
        ("/collections/notes/groups?limit=null", 422),
        ("/collections/notes/changes?limit=null", 422),
        ("/collections/notes/groups?most=1", 400),
        ("/collections/notes/groups?after=99999999999999999999", 422),
        ("/collections/notes/groups/99999999999999999999", 422),
        ("/collections/notes/changes?since=99999999999999999999", 422),
        ("/collections/notes/changes?since=-1", 422),
        ("/collections/notes/groups?after=-1", 422),
        ("/collections/notes/items/99999999999999999999?integer_key=true", 422),
        ("/collections/notes/groups/99", 404),
        ("/collections/notes/items/a/b", 404),
        ("/collections/notes/items/x?integer_key=true", 422),
        ("/collections/notes/items/7.0?integer_key=true", 422),
        ("/collections/notes/items/7e0?integer_key=true", 422),
        ("/collections/bags/groups", 422),
    ],
)
def test_paths_that_lead_nowhere_are_told(client: Client, path: str, status: int) -> None:
    answer = client.get(path)
    assert (answer.status, bool(answer.error["message"])) == (status, True)
    assert ("must be a whole number" not in answer.error["message"]) >= ("999999" in path)
    about_since = "since=3" in path or "since=-" in path
    assert (answer.error.get("field") == "since") >= about_since
    assert (answer.error.get("field") == "after") >= ("after=-" in path)
    assert (answer.error.get("field") == "threshold") >= ("threshold=" in path)
    assert (answer.error.get("field") == "limit") >= ("limit=" in path)
    has_slash = path.count("/") > 4
    assert any("%2F" in one for one in answer.error.get("help", ())) == has_slash


def test_methods_and_forms_that_are_not_answered_are_told(client: Client) -> None:
    answer = client.ask("PUT", "/collections")
    assert (answer.status, answer.headers["Allow"] is None) == (405, False)
    form = {"Content-Type": "text/plain"}
    assert client.ask("POST", "/collections/notes/search", b"{}", form).status == 415
    for coding, status in (("gzip", 415), ("GZIP, identity", 415), ("Identity", 200), ("", 200)):
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        answer = client.ask("POST", "/collections/notes/search", {"item": WORDS}, headers)
        assert answer.status == status, answer.body
        assert status == 200 or answer.error["field"] == "Content-Encoding"
    assert client.post("/collections/notes/search", {"item": "a" * 30_000}).status == 413


def test_pages_of_others_reach_nothing(client: Client) -> None:
    own = {"Host": f"localhost:{client.port}", "Content-Type": "application/json"}
    body = {"key": "evil", "item": "evil"}
    place = "/collections/notes/items"
    for headers, status in (
        ({**own, "Host": "evil.example"}, 421),
        ({**own, "Host": ""}, 421),
        ({**own, "Origin": "http://evil.example"}, 403),
        ({**own, "Origin": "null"}, 403),
        ({**own, "Origin": "http://localhost:1"}, 403),
        ({**own, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**own, "Content-Type": "application/x-www-form-urlencoded"}, 415),
    ):
        assert client.ask("POST", place, body, headers).status == status, headers
    assert client.ask("GET", "/collections", headers={"Host": "evil.example"}).status == 421
    assert client.get(f"{place}/evil").status == 404
    same = {**own, "Origin": f"http://localhost:{client.port}", "Sec-Fetch-Site": "same-origin"}
    assert client.ask("POST", "/collections/notes/search", {"item": "a"}, same).status == 200
    for host in ("127.0.0.1", "[::1]:80", "10.1.2.3:5", "LOCALHOST."):
        assert client.ask("GET", "/health", headers={"Host": host}).status == 200, host
    given = client.get("/").headers
    assert "script-src 'self'" in given["content-security-policy"]
    assert given["access-control-allow-origin"] is None
    assert given["x-frame-options"] == "DENY"


def test_a_service_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    with served(path, writes=False) as client:
        refused = client.post("/collections/notes/items", {"key": "n", "item": "n"})
        assert (refused.status, refused.error["type"]) == (403, "ReadOnlyError")
        assert "--write" in refused.error["help"][0]
        assert client.ask("DELETE", "/collections/notes/items/far").status == 403
        assert "/collections/{name}/delete" not in client.get("/openapi.json").told["paths"]
        assert client.get("/collections/notes/items/far").status == 200
        # What another process writes is seen; a file in its place is not taken for it.
        interpreted(ADDS_LATER, path)
        assert client.get("/collections/notes/items/later").status == 200
        path.rename(tmp_path / "elsewhere.simdb")
        assert client.get("/health").status == 200
        assert client.get("/ready").status == 503


@pytest.mark.parametrize("writes", [False, True])
def test_a_worker_that_finds_another_file_answers_nothing_of_it(
    tmp_path: Path, *, writes: bool
) -> None:
    path = filled(tmp_path / "s.simdb")
    settings = pickle.loads(pickle.dumps(Settings(path, writes)))  # as workers get them
    shutil.copy(path, tmp_path / "copy.simdb")
    (tmp_path / "copy.simdb").replace(path)
    asked: tuple[Callable[[Service], Any], ...] = (
        Service.ready,
        Service.store,
        lambda service: service.get("notes", "far"),
        lambda service: service.delete_one("notes", "far"),
    )
    for _ in range(2):
        service = Service(settings)
        service.warm()
        assert service.health().status == "ok"
        for one in asked:
            with pytest.raises(RefusedError, match="was replaced or removed") as refused:
                one(service)
            assert refused.value.status == 503
        service.close()
        path.unlink(missing_ok=True)
    assert not path.exists()  # it was not made again


def test_a_write_is_told_that_the_file_was_moved_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path / "s.simdb")
    with served(path) as client:
        path.rename(tmp_path / "moved.simdb")
        for told in (
            client.get("/ready"),
            client.post("/collections/notes/items", {"rows": [{"key": "new", "item": "new"}]}),
        ):
            assert told.status == 503
            assert "was replaced or removed" in told.error["message"]
            assert told.error["help"] == ["start the service again"]
    assert f"POST /collections/notes/items: {path} was removed" in caplog.text


def test_what_takes_too_long_or_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def late(self: Service, name: str) -> messages.State:
        """Wait."""
        return messages.State(status=str(held.wait(20)))

    def fails(self: Service, name: str) -> messages.State:
        """Fail."""
        raise RuntimeError(f"secret {name}")

    def delete(self: Service, name: str) -> messages.Deleted:
        """Wait."""
        return messages.Deleted(deleted=held.wait(20))

    def delete_one(self: Service, name: str) -> messages.Deleted:
        """Wait."""
        return messages.Deleted(deleted=held.wait(20))

    broken = tuple(
        Endpoint("GET", f"/{one.__name__}/{{name}}", one, writes=True)
        for one in (late, fails, delete, delete_one)
    )
    monkeypatch.setattr("simdb.serve.application.ENDPOINTS", (*ENDPOINTS, *broken))
    with served(filled(tmp_path / "s.simdb"), limits=Limits(seconds=0.3)) as client:
        words = {"delete": '"missing": "skip"', "delete_one": "404 says that it is"}
        for name, word in words.items():
            message = client.get(f"/{name}/a").error["message"]
            assert "may be deleted all the same" in message
            assert word in message
        held.set()
        time.sleep(0.05)
        held.clear()
        answer = client.get("/late/a")
        held.set()
        assert (answer.status, answer.error["type"]) == (504, "TooSlow")
        assert "it may be stored all the same" in answer.error["message"]
        answer = client.get("/fails/a")
        assert (answer.status, answer.error["type"]) == (500, "Fault")
        assert b"secret" not in answer.body


def test_bodies_that_are_coming_in_take_bounded_memory(tmp_path: Path) -> None:
    """However many clients send half of one; small ones are let in all the same."""
    settings = Settings(tmp_path / "s.simdb", memory=16 * 2**20, limits=Limits(body=2**22))
    taken: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        taken.append(len((await receive())["body"]))

    async def ask(guard: Guard, *parts: int, ended: asyncio.Event) -> list[Any]:
        given, answers = list(parts), []

        async def receive() -> dict[str, Any]:
            if not given:
                await ended.wait()
                return {"type": "http.request", "body": b"", "more_body": False}
            return {"type": "http.request", "body": bytes(given.pop()), "more_body": True}

        async def send(message: Any) -> None:
            answers.append(message)

        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        await guard(scope, receive, send)
        return [message["status"] for message in answers if "status" in message]

    async def both() -> None:
        guard, ended = Guard(app, settings), asyncio.Event()
        halves = asyncio.create_task(ask(guard, 2**21, 2**20, ended=ended))
        for _ in range(3):
            await asyncio.sleep(0)
        assert await ask(guard, 2**21, ended=ended) == [503]
        small = asyncio.create_task(ask(guard, 2**16, ended=ended))
        await asyncio.sleep(0)
        ended.set()
        assert [await halves, await small] == [[], []]
        assert await ask(guard, 2**21, ended=ended) == []

    asyncio.run(both())
    assert sorted(taken) == [2**16, 2**21, 2**21 + 2**20]


def test_answers_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many matches with large metadata are asked for; those that fit are all told."""
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as db:
        made = db.collection("c", simdb.Set(), threshold="0.5", groups="chain", seed=1)
        made.add_many((n, [1, 2, 3], {"n": n, "more": "x" * 2_000}) for n in range(60))
        made.add_many((n, [7, 8, 9]) for n in range(60, 120))  # another group
    service = Service(Settings(path, memory=16 * 2**20))
    every = messages.Search(keys=list(range(60)), limit=60)
    with pytest.raises(RefusedError, match=r"takes more than 2,097,152 bytes") as refused:
        service.search("c", every)
    told = refused.value.problem
    assert (refused.value.status, told.field, told.type) == (413, "limit", "TooLarge")
    assert [one.partition(" ")[0] for one in told.help] == ["ask", '"metadata":', "simdb"]
    few: Any = service.search("c", messages.Search(keys=[5, 3], limit=60))
    answers: Any = service.search("c", replace(every, metadata=False))  # some searches at once
    for own, one in enumerate(answers.answers):
        assert [match.key for match in one.matches] == [n for n in range(60) if n != own]
    found = msgspec.json.decode(msgspec.json.encode(few))["answers"]
    assert [match["metadata"]["n"] for match in found[1]["matches"]][:5] == [0, 1, 2, 4, 5]
    monkeypatch.setattr(Settings, "most_answered", 5_000)
    for ask in (service.groups, service.changes):
        with pytest.raises(RefusedError, match="takes more than 5,000 bytes") as refused:
            ask("c")
        assert refused.value.problem.field == "limit"
        assert b'"keys":[0,1,2,' in msgspec.json.encode(ask("c", limit=1))
    monkeypatch.setattr(Settings, "most_answered", 3_000)
    for one in (partial(service.group, "c", 1), partial(service.group_of, "c", 7)):
        with pytest.raises(RefusedError, match="takes more than 3,000 bytes"):
            one()
    service.close()


FAULTS = [
    simdb.DatabaseBusyError("/secret/s.simdb: another writer has held the store for 10 s"),
    simdb.DatabaseFullError("/secret/s.simdb: no space is left (mdb_txn_commit: secret)"),
    simdb.StorageError("/secret/s.simdb was replaced by another file while it was open"),
    simdb.CorruptionError("/secret/s.simdb is damaged: secret"),
]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_faults_of_the_store_are_told_to_the_log_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: simdb.StorageError,
) -> None:
    def fails(self: Service, name: str) -> messages.State:
        """Fail."""
        raise error

    broken = Endpoint("GET", "/fails/{name}", fails)
    monkeypatch.setattr("simdb.serve.application.ENDPOINTS", (*ENDPOINTS, broken))
    with served(filled(tmp_path / "s.simdb")) as client:
        answer = client.get("/fails/a")
    assert answer.status in (500, 503, 507)
    assert answer.error["type"] == type(error).__name__
    assert b"secret" not in answer.body
    assert f"GET /fails/a: {error}" in caplog.text


# -- the page and its description ------------------------------------------------------------------


def test_the_description_names_all_that_can_be_asked(client: Client) -> None:
    told = client.get("/openapi.json").told
    assert told["openapi"].startswith("3.1")
    assert set(told["paths"]) == {one.path for one in ENDPOINTS}
    text = json.dumps(told)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in told["components"]["schemas"], name
    groups = told["paths"]["/collections/{name}/groups"]["get"]["parameters"]
    types = {one["name"]: one["schema"]["type"] for one in groups}
    assert types["threshold"] == types["max_distance"] == "string"
    for name in ("Group", "Change"):
        assert "bound" in told["components"]["schemas"][name]["required"]
    operations = [one for methods in told["paths"].values() for one in methods.values()]
    of_type = {"string": str, "integer": int, "boolean": bool}
    for schema in (each["schema"] for one in operations for each in one["parameters"]):
        assert type(schema.get("default", of_type[schema["type"]]())) is of_type[schema["type"]]
    assert len({one["operationId"] for one in operations}) == len(operations) == len(ENDPOINTS)
    assert all(one["summary"].endswith(".") for one in operations)
    page = client.get("/api").body.decode()
    assert "/collections/{name}/search" in page
    assert "http" not in page.replace("https://", "")
    assert "<script" not in page


def test_the_page_and_the_report_load_nothing_from_elsewhere(client: Client) -> None:
    for name in ("/", "/page.css", "/page.js"):
        answer = client.get(name)
        assert answer.status == 200
        assert b"//" not in answer.body.replace(b"// All", b"").replace(b"// answers", b"")
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    report = client.get("/collections/notes/report")
    assert report.headers["content-type"].startswith("text/html")
    assert "script-src" not in report.headers["content-security-policy"]
    assert HOSTILE not in report.body.decode()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed to open the page in")
def test_a_browser_shows_what_is_similar_with_the_differences_marked(
    client: Client, tmp_path: Path
) -> None:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags += ["--enable-logging=stderr", "--window-size=390,900", "--virtual-time-budget=8000"]
    question = f"collection=notes&item={quote(f'{WORDS} side')}"
    address = f"http://127.0.0.1:{client.port}/?{question}"
    found = ended(BROWSER, *flags, f"--user-data-dir={tmp_path}", "--dump-dom", address)
    assert "CONSOLE" not in found.stderr
    assert "<title>s.simdb</title>" in found.stdout
    assert "&lt;script&gt;document.title" in found.stdout
    assert "<img" not in found.stdout
    assert "<ins>bank</ins>" in found.stdout
    assert "<del>side</del>" in found.stdout
    assert "group 1, 2 items" in found.stdout
    assert "2 matches; of the items just similar enough" in found.stdout
    assert "items of kind text, similar from 0.3" in found.stdout


# -- starting and ending ---------------------------------------------------------------------------


def test_what_cannot_be_served_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path / "s.simdb")
    absent = run("serve", tmp_path / "none.simdb")
    assert (absent.exit_code, "there is no such store" in absent.stderr) == (3, True)
    other = tmp_path / "other.txt"
    other.write_text("no store" * 1_000)
    assert run("serve", other).exit_code == 3

    def refused_by_system(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr("lmdb.open", refused_by_system)
        told = run("serve", path, "--write")
    assert (told.exit_code, "read-only; leave out --write" in told.stderr) == (3, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("serve", path, "--port", port)
    assert refused.exit_code == 2
    assert f"port {port} of 127.0.0.1: Address already in use" in refused.stderr
    assert "cannot listen" in run("serve", path, "--host", "no.such.host.invalid").stderr
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "simdb.serve.processes", raising=False)
    with pytest.raises(MissingExtraError, match="simdb-store\\[serve\\]"):
        serve(path)


@pytest.mark.parametrize("seconds", ["inf", "1e10", "1e300"])
def test_a_time_that_nobody_can_wait_for_is_refused(tmp_path: Path, seconds: str) -> None:
    path = filled(tmp_path / "s.simdb")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # what would be served ends here
        port = taken.getsockname()[1]
        refused = run("serve", path, "--port", port, "--timeout", seconds)
    assert refused.exit_code == 2
    assert "a request may take must be above 0 and at most 1,000,000,000 seconds" in refused.stderr


@pytest.mark.usefixtures("forked_reader")
def test_a_damaged_store_that_is_not_trusted_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LARGEST_COMMIT", 0)  # of a log, damage is always told
    path = filled(tmp_path / "s.simdb")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # what would be served ends here
        asked = ("--untrusted", "serve", path, "--port", taken.getsockname()[1])
        assert run(*asked).exit_code == 2
        path.write_bytes(path.read_bytes().replace(b"of the kind", b"of the mind"))
        refused = run(*asked)
    assert (refused.exit_code, "is damaged" in refused.stderr) == (3, True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the children of a process in /proc")
def test_a_worker_that_is_held_up_is_not_replaced_and_keeps_its_connections(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    arguments = ("serve", path, "--port", 0, "--workers", 2, "--json")
    process = started(sys.executable, "-m", "simdb", *arguments, stdin=DEVNULL)
    try:
        client = Client.of(process)
        kept = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split()
        for number, seconds in ((signal.SIGCONT, 0), (signal.SIGSTOP, 7), (signal.SIGCONT, 1)):
            for worker in workers:
                os.kill(int(worker), number)
            time.sleep(seconds)  # uvicorn waits for 5, unless told otherwise
            if number != signal.SIGSTOP:
                kept.request("GET", "/ready")
                assert kept.getresponse().read()
        kept.close()
        assert children.read_text().split() == workers
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_answers_do_not_wait_for_the_client_to_acknowledge_their_headers() -> None:
    with _bound_to("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.close()
        accepted.close()


def refuses_soon(client: Client) -> bool:
    """Whether connections that come later than a few seconds are refused, and not lost."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", client.port)).close()
        except ConnectionRefusedError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        pytest.param(signal.SIGTERM, 2, marks=pytest.mark.slow),
        (signal.SIGINT, 1),
        pytest.param(signal.SIGHUP, 1, marks=pytest.mark.slow),
        (signal.SIGHUP, 2),
        pytest.param(signal.SIGKILL, 2, marks=pytest.mark.slow),
    ],
)
def test_workers_answer_until_a_signal_ends_them(
    tmp_path: Path, number: signal.Signals, workers: int
) -> None:
    path = filled(tmp_path / "s.simdb")
    arguments = ("serve", path, "--port", 0, "--write", "--workers", workers, "--json")
    process = started(sys.executable, "-m", "simdb", *arguments, stdin=DEVNULL)
    place, told = "/collections/notes/items", []
    try:
        client = Client.of(process)
        for key in range(6):
            added = client.post(place, {"key": key, "item": f"text {key}"})
            assert added.told["action"] == "added"
            assert client.get(f"{place}/{key}?integer_key=1").status == 200
        writes = {"key": "late", "item": "late"}
        writer = threading.Thread(target=lambda: told.append(client.post(place, writes).status))
        if number == signal.SIGKILL:
            process.kill()
        else:
            with simdb.open(path, threads=1) as db, db._handle.write():
                writer.start()
                time.sleep(0.3)
                process.send_signal(number)
                assert refuses_soon(client)
                assert process.poll() is None
            writer.join()
            assert told == [200]  # what is under way is answered
        said = process.communicate(timeout=30)  # ends when the last worker has
    finally:
        process.kill()
    assert process.returncode == (-9 if number == signal.SIGKILL else 0)
    assert said == ("", "")
    with pytest.raises(ConnectionRefusedError):
        client.get("/health")
    with simdb.open(path, threads=1) as db:
        assert len(db["notes"]) == 9 + len(told)
        assert not db.check(deep=True).problems


def test_a_page_of_groups_reads_none_of_the_pages_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as db:
        sets = db.collection("c", simdb.Set(), threshold=0.5, groups="chain", seed=1)
        sets.add_many([(n, [n // 2]) for n in range(20)])
        every = [one.id for one in sets.kept_groups()]
    read = 0

    def counted(reader: Any, numbers: Any) -> Any:
        nonlocal read
        read += len(numbers)
        return keys_of_numbers(reader, numbers)

    monkeypatch.setattr("simdb.answers.kept.keys_of_numbers", counted)
    monkeypatch.setattr("simdb.answers.kept.GROUPS_AT_ONCE", 1)
    service, told = Service(Settings(path)), []
    after: int | None = 0
    while after is not None:
        page = service.groups("c", after, 3)
        told += [one.id for one in page.groups]
        after = page.next
    service.close()
    assert told == every
    assert read == 20
