"""Starting a service: the store, the port, the processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import simdb
from simdb.errors import ConfigurationError, DatabaseNotFoundError, StorageError
from simdb.extras import of_extra
from simdb.serve.limits import Limits, Settings

BACKLOG = 2_048  # connections that wait to be accepted
SMALLEST_MEMORY = 16 * 2**20


def serve(
    store: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    writes: bool = False,
    workers: int = 1,
    names: tuple[str, ...] = (),
    threads: int = 2,
    memory: int = 2**30,
    busy_timeout: float = 10.0,
    untrusted: bool = False,
    limits: Limits | None = None,
    listening: Callable[[str], None] = lambda _: None,
) -> bool:
    """Answer requests until Ctrl-C, SIGTERM or SIGHUP; what is under way is completed.

    Args:
        store: the file.
        host, port: where to listen; port 0 takes a free one.
        writes: let requests add and delete. Every worker may; one writes at a time.
        workers: processes that answer.
        names: of hosts that requests may be for, besides addresses and ``localhost``.
        threads: of each worker.
        memory: bytes for work, of all workers together.
        busy_timeout: how long a request waits for another writer, in seconds.
        untrusted: verify the file first, as ``simdb.open`` does; no worker opens another one.
        limits: of each request.
        listening: called with the address of the page once the port is ours.

    Returns:
        Whether threads of this process still do what took too long and nobody waits for. They
        cannot be ended but with the process, and Python waits for them when it ends.

    Raises:
        MissingExtraError: starlette or uvicorn is not installed.
        ConfigurationError: the port is taken, or cannot be listened at.
        StorageError: the store cannot be opened.
    """
    with of_extra("serve", "a service needs"):
        from simdb.serve.application import Worker
        from simdb.serve.processes import Workers, answer, server_of
    path = Path(store).absolute()
    try:
        path.stat()  # Path.exists passes over circles of links
    except (FileNotFoundError, NotADirectoryError):
        told = f"{path}: there is no such store; simdb create makes one"
        raise DatabaseNotFoundError(told) from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    settings = Settings(
        path,
        writes,
        (*names, host),
        threads,
        max(memory // workers, SMALLEST_MEMORY),
        busy_timeout,
        Limits() if limits is None else limits,
    )
    with simdb.open(
        path, read_only=not writes, busy_timeout=busy_timeout, untrusted=untrusted
    ) as database:
        database.collection_names()  # what cannot be opened is told here, once
    is_busy = False
    with _bound_to(host, port) as listener:
        listening(_address(listener))
        if workers > 1:
            began = Workers(workers, settings, listener).answer()
        else:
            worker = Worker(settings)
            began = answer(server_of(worker), listener)
            is_busy = worker.is_busy
    if not began:
        raise StorageError("the service could not begin; what is said above is why")
    return is_busy


def _bound_to(host: str, port: int) -> socket.socket:
    """Return a socket that listens; ConfigurationError says why there is none."""
    if not 0 <= port <= 65_535:
        raise ConfigurationError(f"the port must be from 0 to 65,535, not {port:,}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        of_name = isinstance(error, socket.gaierror) or error.errno is None
        why = str(error.strerror) if of_name else os.strerror(error.errno or 0)
        raise ConfigurationError(
            f"cannot listen on port {port} of {host}: {why}; another port may be free, and "
            "port 0 takes one that is"
        ) from error
    # Connections have it from here. Without it the body of an answer waits for the client to
    # acknowledge the headers, which clients put off for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
