"""Which bands and rows a stored collection can have: those that planning gives its kind."""

from __future__ import annotations

from simdb import config
from simdb.lsh.family import MAXIMUM_FUNCTIONS


def require_possible(kind: config.Kind, bands: object, rows: object) -> None:
    """Refuse bands and rows that ``kinds.plan_of`` never gives, however little is indexed yet.

    Raises:
        ValueError: they are such; memory is taken by them, so nothing must be made of them.
    """
    if type(bands) is not int or type(rows) is not int or not _is_possible(kind, bands, rows):
        raise ValueError(f"no index of {type(kind).__name__} has {bands!r} bands of {rows!r} rows")


def _is_possible(kind: config.Kind, bands: int, rows: int) -> bool:
    if bands == rows == 0:  # no probable index
        return True
    if isinstance(kind, config.Record):
        return (bands, rows) == (len(kind.rules), 1)
    if isinstance(kind, config.Fingerprint):
        return (bands, rows) == (kind.groups, kind.functions)
    return bands > 0 and rows > 0 and bands * rows <= MAXIMUM_FUNCTIONS
