"""Kinds of items: what a collection holds, how it is compared, and how it is indexed.

A setting changes what is similar to what, so a stored collection is never opened under others:
``database.collection`` refuses, and ``rebuild`` signs the stored items anew under new ones.
"""

from __future__ import annotations

from simdb.kinds.bags import Bag
from simdb.kinds.base import (
    Compared,
    Items,
    Kind,
    Measure,
    Settings,
    SymbolKind,
    name_of,
)
from simdb.kinds.bits import Bits
from simdb.kinds.fingerprints import Fingerprint
from simdb.kinds.records import Equal, Field, Record
from simdb.kinds.registry import known, named, register, require, restore
from simdb.kinds.sets import Set
from simdb.kinds.text import (
    ENGLISH_STOP_WORDS,
    CharacterShingles,
    Shingles,
    StopWordShingles,
    Text,
    WordShingles,
)
from simdb.kinds.vectors import Vector
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import BandedFamily, BucketKeys, Family, SketchScheme, derived_words
from simdb.lsh.symbols import SymbolSets, secret_words

__all__ = [
    "ENGLISH_STOP_WORDS",
    "Bag",
    "BandedFamily",
    "Bits",
    "BucketKeys",
    "CharacterShingles",
    "Compared",
    "Curve",
    "Equal",
    "Family",
    "Field",
    "Fingerprint",
    "Items",
    "JaccardCurve",
    "Kind",
    "Measure",
    "Record",
    "Set",
    "Settings",
    "Shingles",
    "SketchScheme",
    "StopWordShingles",
    "SymbolKind",
    "SymbolSets",
    "Text",
    "Vector",
    "WordShingles",
    "derived_words",
    "known",
    "name_of",
    "named",
    "register",
    "require",
    "restore",
    "secret_words",
]

for _kind in (Text, Set, Bag, Bits, Vector, Record, Fingerprint):
    register(_kind)
