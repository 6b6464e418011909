"""Whether the pages of a file hang together, by LMDB's verifier, which does not map the file."""

from __future__ import annotations

from pathlib import Path

from simdb.storage.file import preflight
from simdb.storage.file.lmdb_errors import translated


def structure_problems(path: Path) -> list[str]:
    """Return what is wrong with the pages of a file, without handing it to LMDB."""
    with translated(path):
        preflight.inspect(path, page_problems)
    return page_problems(str(path))


def page_problems(path: str) -> list[str]:
    """Return what is wrong with the pages of a file whose meta pages are sound."""
    from lmdb import verify

    try:
        return list(verify.verify(path))  # type: ignore[no-untyped-call]
    except verify.VerifyError as error:  # of what it cannot go on after, a meta page for one
        return [str(error)]
