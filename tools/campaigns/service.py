"""A service with several workers: one client writes, seven read, and every answer is checked."""

from __future__ import annotations

import http.client
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import simdb
from tools.campaigns import children
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

WORKERS = 2
CLIENTS = 8  # the first one writes
STILL = 600  # sets that nobody changes, alike by threes
PLACES = 40  # triples of equal sets that the writer adds, replaces and deletes
WORDS = 12
BOUND = 0.5
STORE = "store.simdb"


@cache
def _still(number: int) -> set[int]:
    generator = random.Random(f"still {number // 3}")
    own = set(generator.sample(range(10**6), WORDS))
    return own | {10**7 + number * 10 + extra for extra in range(number % 3)}


def _alike(probe: set[int]) -> dict[str, float]:
    """Return the true answer to a search among the sets that nobody changes."""
    found = {}
    for number in range(STILL):
        item = _still(number)
        similarity = len(item & probe) / len(item | probe)
        if similarity >= BOUND:
            found[str(number)] = similarity
    return found


def _moving(place: int, version: int) -> list[int]:
    """Return the set that a place holds in a version: its three items always agree."""
    generator = random.Random(f"moving {place} {version}")
    return sorted(generator.sample(range(2 * 10**7, 3 * 10**7), WORDS))


class _Client:
    """One connection, and how long its answers took."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.milliseconds: Counter[str] = Counter()

    def ask(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> Any:
        """Return the answer; None where there may be nothing, and is nothing."""
        sent = None if body is None else json.dumps(body)
        begun = time.perf_counter()
        self._connection.request(method, path, sent, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        told = answer.read()
        took = round((time.perf_counter() - begun) * 1_000)
        self.milliseconds[f"{'writes' if 'items' in path and body else 'reads'} {took}"] += 1
        if missing and answer.status == 404:
            return None
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {answer.status} {told[:300]!r}")
        return json.loads(told)


def _write(port: int, seed: str, until: float, say: Say) -> None:
    """Add, replace and delete triples of equal sets, each triple in one request."""
    generator = random.Random(f"{seed} writer")
    client = _Client(port)
    versions: dict[int, int] = {}
    while time.monotonic() < until:
        place = generator.randrange(PLACES)
        keys = [f"{place}/{copy}" for copy in range(3)]
        if place in versions and generator.random() < 0.2:
            if client.ask("POST", "/collections/moving/delete", {"keys": keys})["deleted"] != 3:
                raise AssertionError(f"not all of {keys} were deleted")
            del versions[place]
            continue
        version = versions.get(place, generator.randrange(1_000)) + 1
        rows = [
            {"key": key, "item": _moving(place, version), "metadata": {"version": version}}
            for key in keys
        ]
        body = {"rows": rows, "on_existing": "replace"}
        told = client.ask("POST", "/collections/moving/items", body)["outcomes"]
        wanted = "replaced" if place in versions else "added"
        if {one["action"] for one in told} != {wanted}:
            raise AssertionError(f"{keys}: {told}")
        versions[place] = version
        # What a worker has stored, all workers have.
        entry = client.ask("GET", f"/collections/moving/items/{quote(keys[0], safe='')}")
        if entry["metadata"] != {"version": version}:
            raise AssertionError(f"{keys[0]} is not as it was stored: {entry}")
    say({"stored": [len(versions) * 3], "milliseconds": client.milliseconds})


def _read(port: int, seed: str, number: int, until: float, say: Say) -> None:
    """Search what nobody changes, and what the writer does: all of a triple, or nothing."""
    generator = random.Random(f"{seed} reader {number}")
    client = _Client(port)
    while time.monotonic() < until:
        probe = _still(generator.randrange(STILL)) | {generator.randrange(10**6)}
        body = {"item": sorted(probe), "guarantee": "exact", "limit": 100}
        found = client.ask("POST", "/collections/still/search", body)["matches"]
        if {one["key"]: one["similarity"] for one in found} != _alike(probe):
            raise AssertionError(f"a search for {sorted(probe)} found {found}")
        place = generator.randrange(PLACES)
        keys = [f"{place}/{copy}" for copy in range(3)]
        path = f"/collections/moving/items/{quote(generator.choice(keys), safe='')}"
        entry = client.ask("GET", path, missing=True)
        if entry is None:
            continue
        item = _moving(place, entry["metadata"]["version"])
        if entry["item"] != item:
            raise AssertionError(f"another item was seen: {entry}")
        body = {"item": item, "threshold": 1, "guarantee": "exact"}
        found = client.ask("POST", "/collections/moving/search", body)["matches"]
        if {one["key"] for one in found} not in (set(), set(keys)):
            raise AssertionError(f"half a change was seen: {keys} {found}")
    say({"milliseconds": client.milliseconds})


def _build(path: Path) -> None:
    with simdb.open(path, threads=1) as database:
        sets: dict[str, Any] = {"threshold": None, "exact_floor": BOUND}
        still = database.collection("still", simdb.Set(), **sets)
        still.add_many((str(number), _still(number)) for number in range(STILL))
        database.collection("moving", simdb.Set(), **sets)


def _quantile(counts: Counter[int], share: float) -> int:
    """Return the milliseconds within which so many were answered."""
    left = share * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


@campaign(
    "service",
    "simdb serve with 2 workers: 8 clients, of which one writes; every answer is checked",
    short=2,
    long=300,
    timed=True,
    small_parts=False,
)
def service(run: Run) -> None:
    """Let clients ask a service for so many seconds, and end it by SIGTERM."""
    path = run.work / STORE
    children.answer(lambda: _build(path))
    command = [sys.executable, "-m", "simdb", "serve", str(path), "--port", "0", "--json"]
    command += ["--write", "--workers", str(WORKERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            _ask_all(run, int(address.rpartition(":")[2].strip("/")))
            server.send_signal(signal.SIGTERM)
            if server.wait(60) != 0:
                run.fail(f"the service ended with {server.returncode}")
        finally:
            server.kill()
    ending = children.answer(lambda: _problem(path, run.outcomes["items stored at the end"]))
    if ending.answers != [""]:
        run.fail(str(ending.answers or ending.how))


def _ask_all(run: Run, port: int) -> None:
    first = _Client(port)
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        try:
            first.ask("GET", "/ready")
            break
        except AssertionError:
            time.sleep(0.1)
    until = time.monotonic() + run.count
    seed = str(run.seed)
    works = [partial(_write, port, seed, until)]
    works += [partial(_read, port, seed, number, until) for number in range(1, CLIENTS)]
    clients = list(map(children.Child, works))
    took: dict[str, Counter[int]] = {"reads": Counter(), "writes": Counter()}
    for number, client in enumerate(clients):
        ending = client.end(60 + run.count)
        if ending.died or ending.error:
            run.fail(f"client {number}: {ending.how}")
        for answer in ending.answers:
            for name, count in answer["milliseconds"].items():
                what, value = name.split()
                took[what][int(value)] += count
            run.outcomes["items stored at the end"] += sum(answer.get("stored", ()))
    for what, counts in took.items():
        run.outcomes[what] = counts.total()
        for share, name in ((0.5, "p50"), (0.99, "p99"), (1, "longest")):
            run.outcomes[f"{what}, {name}, ms"] = _quantile(counts, share)
    run.trials = took["reads"].total() + took["writes"].total()


def _problem(path: Path, stored: int) -> str:
    """Return what is wrong with the store in the end, empty if nothing is."""
    with simdb.open(path, threads=1) as database:
        problems = database.check(deep=True).problems
        count = len(database["moving"])
    if count != stored:
        return f"{count} items are stored, not {stored}"
    return str(problems[0]) if problems else ""
