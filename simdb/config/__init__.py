"""Settings: what a collection holds and how it is indexed. Stored with the collection.

A setting changes what is similar to what, so a stored collection is never opened under others:
``database.collection`` refuses, and ``rebuild`` signs the stored items anew under new ones.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from simdb.config.fingerprints import Fingerprint
from simdb.config.records import Equal, Field, Record
from simdb.config.sets import Bag, Set
from simdb.config.texts import (
    ENGLISH_STOP_WORDS,
    CharacterShingles,
    Shingles,
    StopWordShingles,
    Text,
    WordShingles,
)
from simdb.config.vectors import Bits, Vector

__all__ = [
    "ENGLISH_STOP_WORDS",
    "Bag",
    "Bits",
    "CharacterShingles",
    "Equal",
    "Field",
    "Fingerprint",
    "Kind",
    "Record",
    "Set",
    "Shingles",
    "SketchScheme",
    "StopWordShingles",
    "Text",
    "Vector",
    "WordShingles",
]

Kind: TypeAlias = Text | Set | Bag | Bits | Vector | Record | Fingerprint

SketchScheme: TypeAlias = Literal["fast", "classical"]
