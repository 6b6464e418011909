"""The command that answers questions about a store by HTTP."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from simdb.cli.output import Telling
from simdb.cli.stores import Store, settings_of
from simdb.errors import StorageError
from simdb.serve import Limits
from simdb.serve import serve as served


def serve(
    *,
    stored: Store,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; 0.0.0.0 for all addresses.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 for a free one.")
    ] = 8765,
    write: Annotated[
        bool, typer.Option("--write", help="Let requests add and delete items.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="The number of processes.")] = 1,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="HOST",
            help="Also answer requests for this host name; may be repeated.",
        ),
    ] = None,
    body: Annotated[
        int, typer.Option("--body", min=1, metavar="MIB", help="The largest request, in MiB.")
    ] = 8,
    items: Annotated[
        int, typer.Option("--items", min=1, help="The most items per request.")
    ] = 1_000,
    matches: Annotated[
        int, typer.Option("--matches", min=1, help="The most matches per item.")
    ] = 1_000,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, metavar="SECONDS", help="The most time a request may take."
        ),
    ] = 30.0,
    telling: Telling,
) -> None:
    """Answer questions about a store by HTTP and JSON, until Ctrl-C.

    The page / searches for a text and shows the differences; /api lists all requests, and
    /openapi.json describes them for programs. By default requests cannot change the store, and only
    this machine can reach it. There is no authentication: if others can reach it, put a proxy that
    authenticates in front. Needs the extra 'serve'.

    Example: simdb serve corpus.simdb --port 8765
    """
    given = settings_of(stored.context)

    def listening(address: str) -> None:
        what = "reading and writing" if write else "reading"
        told = f"{stored.path}: {what} at {address} (Ctrl-C to stop)"
        telling.tell({"store": stored.path, "address": address, "writes": write}, told)
        sys.stdout.flush()

    try:
        is_busy = served(
            Path(stored.path),
            host=host,
            port=port,
            writes=write,
            workers=workers,
            names=tuple(names or ()),
            threads=given.threads or len(os.sched_getaffinity(0)),
            memory=given.memory,
            busy_timeout=given.busy_timeout,
            untrusted=given.untrusted,
            limits=Limits(body * 2**20, items, matches, timeout),
            listening=listening,
        )
    except StorageError as error:
        causes = [getattr(error.__cause__, name, None) for name in ("errno", "code")]
        if write and errno.EROFS in causes:  # of the system, or of LMDB
            told = f"{stored.path}: the file system is read-only; leave out --write to read it"
            raise StorageError(told) from error
        raise
    if is_busy:
        os._exit(0)  # Python would wait for threads that do what nobody waits for
