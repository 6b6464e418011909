"""Fingerprints: settings, stored form, similarity, and the functions that propose candidates."""

from __future__ import annotations

from simdb.kinds.fingerprints.settings import Fingerprint

__all__ = ["Fingerprint"]
