"""simdb: a persistent embedded similarity database: what is similar to this, what duplicates what?

A database is one file, a collection in it holds items of one kind: ``Text``, ``Set``, ``Bag``,
``WeightedSet``, ``Bits``, ``Vector``, ``String``, ``Record``, ``Fingerprint`` or
``Signature``. It is searched, joined, grouped and deduplicated while it grows.

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
- ``Recipe``: what a collection is made by, to make the same elsewhere.
- ``repair``: all that can be read of a damaged file. ``restore``: a backup in a store's place.
- ``SimdbError``: what every error derives from; many name their ``Remedy``.
- ``__version__``: that of simdb, a text.
"""

from __future__ import annotations

from simdb import starting  # before all others: from here on Ctrl-C ends the command quietly

# isort: split
from typing import TYPE_CHECKING, Any

from simdb import late

if TYPE_CHECKING:
    from simdb.collection import Collection, CollectionView
    from simdb.database import Database, Snapshot, load
    from simdb.database import open_database as open  # noqa: A004 - simdb.open, as gzip.open
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
        GroupNotFoundError,
        KeyExistsError,
        KeyNotFoundError,
        MissingExtraError,
        NotADatabaseError,
        NothingAlikeError,
        OperationInterruptedError,
        ReadOnlyError,
        Remedy,
        SimdbError,
        StorageError,
        ThresholdTooLowError,
        UnknownKindError,
        UnknownTokeniserError,
        UsageError,
        WrongTypeError,
    )
    from simdb.evidence import PairExplanation
    from simdb.frames import dedupe, link, pairs
    from simdb.kinds import (
        Alike,
        Bag,
        Bits,
        CharacterShingles,
        Edits,
        Equal,
        Field,
        Fingerprint,
        Near,
        Record,
        Set,
        Signature,
        StopWordShingles,
        String,
        Text,
        Tokens,
        Vector,
        WeightedSet,
        Within,
        WordShingles,
    )
    from simdb.kinds.records.proposal import Proposal, propose_record
    from simdb.lsh.amplification import And, Or
    from simdb.lsh.planning import Plan
    from simdb.planning import ExactPlan, RulePlan, plan, plan_exact, plan_rules
    from simdb.recipe import Recipe
    from simdb.recovery.repair import repair
    from simdb.recovery.restore import restore
    from simdb.reports import report, tuning_report
    from simdb.results import (
        AddReport,
        Alternative,
        Answers,
        AuditBin,
        AuditReport,
        CheckReport,
        Entry,
        Explanation,
        Group,
        GroupChange,
        Groups,
        KeptGroup,
        Key,
        Match,
        Matches,
        Outcome,
        Outcomes,
        Pair,
        PairBatch,
        Pairs,
        Problem,
        Progress,
        RepairedCollection,
        RepairReport,
        RuleAudit,
        Stats,
    )
    from simdb.tuning import Tuning, tune
    from simdb.upkeep.calibrate import Calibration
    from simdb.upkeep.labelling import Labels
    from simdb.upkeep.uncertain import UncertainPair
    from simdb.upkeep.weigh import PairEvidence, Weights

    __version__: str

__all__ = [
    "AddReport",
    "Alike",
    "Alternative",
    "And",
    "Answers",
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
    "Edits",
    "Entry",
    "Equal",
    "ExactPlan",
    "Explanation",
    "Field",
    "Fingerprint",
    "FormatVersionError",
    "Group",
    "GroupChange",
    "GroupNotFoundError",
    "Groups",
    "KeptGroup",
    "Key",
    "KeyExistsError",
    "KeyNotFoundError",
    "Labels",
    "Match",
    "Matches",
    "MissingExtraError",
    "Near",
    "NotADatabaseError",
    "NothingAlikeError",
    "OperationInterruptedError",
    "Or",
    "Outcome",
    "Outcomes",
    "Pair",
    "PairBatch",
    "PairEvidence",
    "PairExplanation",
    "Pairs",
    "Plan",
    "Problem",
    "Progress",
    "Proposal",
    "ReadOnlyError",
    "Recipe",
    "Record",
    "Remedy",
    "RepairReport",
    "RepairedCollection",
    "RuleAudit",
    "RulePlan",
    "Set",
    "Signature",
    "SimdbError",
    "Snapshot",
    "Stats",
    "StopWordShingles",
    "StorageError",
    "String",
    "Text",
    "ThresholdTooLowError",
    "Tokens",
    "Tuning",
    "UncertainPair",
    "UnknownKindError",
    "UnknownTokeniserError",
    "UsageError",
    "Vector",
    "WeightedSet",
    "Weights",
    "Within",
    "WordShingles",
    "WrongTypeError",
    "dedupe",
    "link",
    "load",
    "open",
    "pairs",
    "plan",
    "plan_exact",
    "plan_rules",
    "propose_record",
    "repair",
    "report",
    "restore",
    "tune",
    "tuning_report",
]

# Where each name is from, imported when it is asked for: a command needs few of them.
_NAMES = {
    "simdb.collection": "Collection CollectionView",
    "simdb.database": "Database Snapshot load open",
    "simdb.errors": (
        "BadItemError CollectionNotFoundError ConfigurationError CorruptionError "
        "DatabaseBusyError DatabaseClosedError DatabaseFailedError DatabaseFullError "
        "DatabaseNotFoundError FormatVersionError GroupNotFoundError KeyExistsError "
        "KeyNotFoundError MissingExtraError NotADatabaseError NothingAlikeError "
        "OperationInterruptedError ReadOnlyError Remedy SimdbError StorageError "
        "ThresholdTooLowError UnknownKindError UnknownTokeniserError UsageError WrongTypeError"
    ),
    "simdb.evidence": "PairExplanation",
    "simdb.frames": "dedupe link pairs",
    "simdb.kinds": (
        "Alike Bag Bits CharacterShingles Edits Equal Field Fingerprint Near Record Set Signature "
        "StopWordShingles String Text Tokens Vector WeightedSet Within WordShingles"
    ),
    "simdb.kinds.records.proposal": "Proposal propose_record",
    "simdb.lsh.amplification": "And Or",
    "simdb.lsh.planning": "Plan",
    "simdb.planning": "ExactPlan RulePlan plan plan_exact plan_rules",
    "simdb.recipe": "Recipe",
    "simdb.recovery.repair": "repair",
    "simdb.recovery.restore": "restore",
    "simdb.reports": "report tuning_report",
    "simdb.results": (
        "AddReport Alternative Answers AuditBin AuditReport CheckReport Entry Explanation Group "
        "GroupChange Groups KeptGroup Key Match Matches Outcome Outcomes Pair PairBatch Pairs "
        "Problem Progress RepairedCollection RepairReport RuleAudit Stats"
    ),
    "simdb.tuning": "Tuning tune",
    "simdb.upkeep.calibrate": "Calibration",
    "simdb.upkeep.labelling": "Labels",
    "simdb.upkeep.uncertain": "UncertainPair",
    "simdb.upkeep.weigh": "PairEvidence Weights",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_PARTS = ("errors", "evidence", "kernels", "kinds", "lsh", "results")

if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            starting.finish()  # who asks is no command that loads, even if it is called simdb
            module = late.module(_MODULES[name])
            value = getattr(module, "open_database" if name == "open" else name)
            globals()[name] = value
            return value
        if name == "__version__":
            return late.module("simdb.extras").own_version()
        if name in _PARTS:
            return late.module(f"simdb.{name}")
        raise AttributeError(f"module 'simdb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
