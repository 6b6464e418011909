"""simdb: a persistent embedded similarity database.

>>> import simdb, tempfile
>>> with simdb.open(tempfile.mkdtemp() + "/news.simdb") as db:
...     news = db.collection("news", simdb.Text(simdb.WordShingles(2)), threshold=0.5)
...     _ = news.add("a", "the quick brown fox jumps over the lazy dog")
...     [match.key for match in news.search("a quick brown fox jumps over the lazy dog")]
['a']
"""

from simdb.collection import Collection
from simdb.config import CharacterShingles, Set, StopWordShingles, Text, WordShingles
from simdb.database import Database, Snapshot
from simdb.database import open_database as open  # noqa: A004 - simdb.open, as gzip.open
from simdb.datatypes import (
    AddReport,
    AuditBin,
    AuditReport,
    CheckReport,
    Group,
    Key,
    Match,
    Matches,
    Outcome,
    Pair,
    PairBatch,
    Problem,
    Progress,
    Record,
)
from simdb.errors import (
    BadItemError,
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    KeyExistsError,
    KeyNotFoundError,
    MissingExtraError,
    NotADatabaseError,
    ReadOnlyError,
    SimdbError,
    StorageError,
    ThresholdTooLowError,
    UsageError,
)
from simdb.lsh.planning import Plan
from simdb.planning import ExactPlan, plan, plan_exact
from simdb.results import Groups, Pairs
from simdb.views import CollectionView

__all__ = [
    "AddReport",
    "AuditBin",
    "AuditReport",
    "BadItemError",
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
    "DatabaseFullError",
    "DatabaseNotFoundError",
    "ExactPlan",
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
    "Set",
    "SimdbError",
    "Snapshot",
    "StopWordShingles",
    "StorageError",
    "Text",
    "ThresholdTooLowError",
    "UsageError",
    "WordShingles",
    "open",
    "plan",
    "plan_exact",
]
