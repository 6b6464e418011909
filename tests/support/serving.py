"""A service in this process, on a thread, at a port of its own."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import uvicorn

from simdb.serve.application import Worker
from simdb.serve.limits import Limits, Settings

JSON = MappingProxyType({"Content-Type": "application/json"})


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def told(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.told["error"]


@dataclass(frozen=True)
class Client:
    port: int

    @classmethod
    def of(cls, process: subprocess.Popen[str]) -> Client:
        """A client of a service that was started with --json, once it is ready."""
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        client = cls(int(address.rpartition(":")[2].strip("/")))
        client.wait()
        return client

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = JSON,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, sent, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body)

    def wait(self) -> None:
        """Wait until it is ready."""
        for _ in range(600):
            if self.get("/ready").status == 200:
                return
            time.sleep(0.05)
        raise AssertionError("it does not become ready")


@contextmanager
def served(path: Path, *, writes: bool = True, limits: Limits | None = None) -> Iterator[Client]:
    settings = Settings(path, writes, threads=2, limits=limits or Limits())
    app = Worker(settings).application()
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="on", http="h11", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        client = Client(server.servers[0].sockets[0].getsockname()[1])
        client.wait()
        yield client
    finally:
        server.should_exit = True
        thread.join()
