"""Records: settings, values and stored form, points, and the rules that propose candidates."""

from __future__ import annotations

from simdb.kinds.records.settings import Equal, Field, Record

__all__ = ["Equal", "Field", "Record"]
