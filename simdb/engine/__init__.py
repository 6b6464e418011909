"""The engine's modules by the names they had; goes when all import what they use."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simdb.answers import answer as answering
    from simdb.answers import choose as serving
    from simdb.answers import compare as comparing
    from simdb.answers import scan as scanning
    from simdb.answers.buckets import groups as grouping
    from simdb.answers.buckets import join as crossing
    from simdb.answers.buckets import pairs as joining
    from simdb.answers.buckets import search as searching
    from simdb.answers.exact import arrange as exact_arranging
    from simdb.answers.exact import candidates as exact_candidates
    from simdb.answers.exact import classes as exact_classes
    from simdb.answers.exact import join as exact_crossing
    from simdb.answers.exact import load as exact_loading
    from simdb.answers.exact import measures as exact_measuring
    from simdb.answers.exact import pairs as exact_joining
    from simdb.answers.exact import probe as exact_probing
    from simdb.answers.exact import search as exact_searching
    from simdb.answers.exact import slices as exact_slicing
    from simdb.answers.exact import sweep as exact_sweeping
    from simdb.answers.exact import tokens as exact_tokens
    from simdb.ingest import add as indexing
    from simdb.ingest import dedupe as deduplicating
    from simdb.ingest import postings as exact_indexing
    from simdb.ingest import rows as reading_rows
    from simdb.opened import catalogue as catalogue
    from simdb.opened import settings as settings
    from simdb.opened import signer as signing
    from simdb.upkeep import audit as auditing
    from simdb.upkeep import calibrate as calibrating
    from simdb.upkeep import check as checking
    from simdb.upkeep import exact_plan as exact_planning
    from simdb.upkeep import rebuild as maintaining
    from simdb.upkeep import stats as describing

_HOMES = {
    "answering": "simdb.answers.answer",
    "auditing": "simdb.upkeep.audit",
    "calibrating": "simdb.upkeep.calibrate",
    "catalogue": "simdb.opened.catalogue",
    "checking": "simdb.upkeep.check",
    "comparing": "simdb.answers.compare",
    "crossing": "simdb.answers.buckets.join",
    "deduplicating": "simdb.ingest.dedupe",
    "describing": "simdb.upkeep.stats",
    "exact_arranging": "simdb.answers.exact.arrange",
    "exact_candidates": "simdb.answers.exact.candidates",
    "exact_classes": "simdb.answers.exact.classes",
    "exact_crossing": "simdb.answers.exact.join",
    "exact_indexing": "simdb.ingest.postings",
    "exact_joining": "simdb.answers.exact.pairs",
    "exact_loading": "simdb.answers.exact.load",
    "exact_measuring": "simdb.answers.exact.measures",
    "exact_planning": "simdb.upkeep.exact_plan",
    "exact_probing": "simdb.answers.exact.probe",
    "exact_searching": "simdb.answers.exact.search",
    "exact_slicing": "simdb.answers.exact.slices",
    "exact_sweeping": "simdb.answers.exact.sweep",
    "exact_tokens": "simdb.answers.exact.tokens",
    "grouping": "simdb.answers.buckets.groups",
    "indexing": "simdb.ingest.add",
    "joining": "simdb.answers.buckets.pairs",
    "maintaining": "simdb.upkeep.rebuild",
    "reading_rows": "simdb.ingest.rows",
    "scanning": "simdb.answers.scan",
    "searching": "simdb.answers.buckets.search",
    "serving": "simdb.answers.choose",
    "settings": "simdb.opened.settings",
    "signing": "simdb.opened.signer",
}
__all__ = [
    "answering",
    "auditing",
    "calibrating",
    "catalogue",
    "checking",
    "comparing",
    "crossing",
    "deduplicating",
    "describing",
    "exact_arranging",
    "exact_candidates",
    "exact_classes",
    "exact_crossing",
    "exact_indexing",
    "exact_joining",
    "exact_loading",
    "exact_measuring",
    "exact_planning",
    "exact_probing",
    "exact_searching",
    "exact_slicing",
    "exact_sweeping",
    "exact_tokens",
    "grouping",
    "indexing",
    "joining",
    "maintaining",
    "reading_rows",
    "scanning",
    "searching",
    "serving",
    "settings",
    "signing",
]


def __getattr__(name: str) -> ModuleType:
    if name in _HOMES:
        return importlib.import_module(_HOMES[name])
    raise AttributeError(f"module 'simdb.engine' has no attribute {name!r}")
