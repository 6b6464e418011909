"""Reports: pages of HTML, each complete in itself, that show a collection, a job or a choice."""

from __future__ import annotations

from simdb.reports.collection import Removed, report
from simdb.reports.tuning import tuning_report

__all__ = ["Removed", "report", "tuning_report"]
