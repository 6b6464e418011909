"""simdb: a persistent embedded similarity database: what is similar to this, what duplicates what?

A database is one file, a collection in it holds items of one kind: ``Text``, ``Set``, ``Bag``,
``Bits``, ``Vector``, ``Record`` or ``Fingerprint``. It is searched, joined, grouped and
deduplicated while it grows.

>>> import simdb, tempfile
>>> with simdb.open(tempfile.mkdtemp() + "/news.simdb") as db:
...     news = db.collection("news", simdb.Text(simdb.WordShingles(2)), threshold=0.5)
...     _ = news.add("a", "the quick brown fox jumps over the lazy dog")
...     [match.key for match in news.search("a quick brown fox jumps over the lazy dog")]
['a']

Kinds that measure a distance take ``max_distance`` where others take ``threshold``:

>>> with simdb.open(tempfile.mkdtemp() + "/images.simdb") as db:
...     images = db.collection("images", simdb.Bits(64), max_distance=8)
...     _ = images.add("cat", 0xF0F0F0F0F0F0F0F0)
...     images.search(0xF0F0F0F0F0F0F0F1)[0]
Match(key='cat', distance=1.0)

Where to look:

- ``open``, ``Database``: open a file; make, list and drop collections; back up, check.
- ``Collection``: ``add``, ``add_many``, ``dedupe``, ``replace``, ``delete``; ``search``, ``pairs``,
  ``groups``, ``join``; ``rebuild``, ``self_audit``. ``CollectionView``: one of a snapshot.
- ``Match``, ``Pair``, ``Group``, ``Entry``, ``Outcome``, ``AddReport``: what they return.
- ``plan``, ``plan_exact``: what an index will find, and take, before it is made.
- ``repair``: all that can be read of a damaged file.
- ``SimdbError``: what every error derives from; many name their ``Remedy``.
"""

from __future__ import annotations

# Nothing is imported before it is used: the command line can be quiet about Ctrl-C in an import
# only where it begins that itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from simdb.collection import Collection
    from simdb.config import (
        Bag,
        Bits,
        CharacterShingles,
        Equal,
        Field,
        Fingerprint,
        Record,
        Set,
        StopWordShingles,
        Text,
        Vector,
        WordShingles,
    )
    from simdb.database import Database, Snapshot
    from simdb.database import open_database as open  # noqa: A004 - simdb.open, as gzip.open
    from simdb.datatypes import (
        AddReport,
        AuditBin,
        AuditReport,
        CheckReport,
        Entry,
        Group,
        Key,
        Match,
        Matches,
        Outcome,
        Pair,
        PairBatch,
        Problem,
        Progress,
        RepairedCollection,
        RepairReport,
    )
    from simdb.errors import (
        BadItemError,
        CollectionNotFoundError,
        ConfigurationError,
        CorruptionError,
        DatabaseBusyError,
        DatabaseClosedError,
        DatabaseFailedError,
        DatabaseFullError,
        DatabaseNotFoundError,
        FormatVersionError,
        KeyExistsError,
        KeyNotFoundError,
        MissingExtraError,
        NotADatabaseError,
        ReadOnlyError,
        Remedy,
        SimdbError,
        StorageError,
        ThresholdTooLowError,
        UsageError,
        WrongTypeError,
    )
    from simdb.lsh.planning import Plan
    from simdb.measures.calibration import Calibration
    from simdb.planning import ExactPlan, plan, plan_exact
    from simdb.repairing import repair
    from simdb.results import Groups, Pairs
    from simdb.views import CollectionView

__all__ = [
    "AddReport",
    "AuditBin",
    "AuditReport",
    "BadItemError",
    "Bag",
    "Bits",
    "Calibration",
    "CharacterShingles",
    "CheckReport",
    "Collection",
    "CollectionNotFoundError",
    "CollectionView",
    "ConfigurationError",
    "CorruptionError",
    "Database",
    "DatabaseBusyError",
    "DatabaseClosedError",
    "DatabaseFailedError",
    "DatabaseFullError",
    "DatabaseNotFoundError",
    "Entry",
    "Equal",
    "ExactPlan",
    "Field",
    "Fingerprint",
    "FormatVersionError",
    "Group",
    "Groups",
    "Key",
    "KeyExistsError",
    "KeyNotFoundError",
    "Match",
    "Matches",
    "MissingExtraError",
    "NotADatabaseError",
    "Outcome",
    "Pair",
    "PairBatch",
    "Pairs",
    "Plan",
    "Problem",
    "Progress",
    "ReadOnlyError",
    "Record",
    "Remedy",
    "RepairReport",
    "RepairedCollection",
    "Set",
    "SimdbError",
    "Snapshot",
    "StopWordShingles",
    "StorageError",
    "Text",
    "ThresholdTooLowError",
    "UsageError",
    "Vector",
    "WordShingles",
    "WrongTypeError",
    "open",
    "plan",
    "plan_exact",
    "repair",
]

_HOMES = {
    "Collection": "collection",
    **dict.fromkeys(
        (
            "Bag",
            "Bits",
            "CharacterShingles",
            "Equal",
            "Field",
            "Fingerprint",
            "Record",
            "Set",
            "StopWordShingles",
            "Text",
            "Vector",
            "WordShingles",
        ),
        "config",
    ),
    **dict.fromkeys(("Database", "Snapshot", "open"), "database"),
    "Calibration": "measures.calibration",
    "Plan": "lsh.planning",
    **dict.fromkeys(("ExactPlan", "plan", "plan_exact"), "planning"),
    "repair": "repairing",
    **dict.fromkeys(("Groups", "Pairs"), "results"),
    "CollectionView": "views",
}


_SUBMODULES = ("config", "datatypes", "errors")  # whose names are asked for as simdb.errors.…


if not TYPE_CHECKING:  # or else any name would be one

    def __getattr__(name: str) -> object:
        import importlib

        if name in _SUBMODULES:
            return importlib.import_module(f"simdb.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'simdb' has no attribute {name!r}")
        of_errors = name.endswith("Error") or name == "Remedy"
        home = "errors" if of_errors else _HOMES.get(name, "datatypes")
        module = importlib.import_module(f"simdb.{home}")
        value = globals()[name] = getattr(module, "open_database" if name == "open" else name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
