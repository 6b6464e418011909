"""How is a question answered? ``choose`` turns it into a method, or says what would answer it.

===========================  =============================  =======================================
asked for                    items are sets of symbols      others
===========================  =============================  =======================================
``guarantee="exact"``        ``Exact``: the exact index,    ``Scan``: every item is compared
                             for pairs also memory; a
                             search without one: ``Scan``
``guarantee="probable"``     ``Buckets``                    ``Buckets``
``"auto"``, the default      ``Exact`` if the exact index   ``Buckets``; one search beyond the plan
                             serves, else ``Buckets``       and any question without an index: scan;
                                                            pairs by what costs less, see below
===========================  =============================  =======================================

Where the buckets miss nothing (bits by Hamming distance, planned for a recall of 1), ``ChunkIndex``
answers in the place of both, exactly.

Where the measure compares two batches at once, ``Slabs`` takes the place of ``Scan``. Where it
finds near pairs without comparing all (bits, by Hamming distance), ``Pigeonhole`` takes the place
of ``Scan`` for pairs, and of ``Buckets`` too by ``"auto"``.

That is the rule. Of a collection that is there, by ``"auto"``, the method of the rule and those
that could take its place are weighed by what they say they cost (``Method.seconds``), and the
cheapest answers: never one that finds less than the collection promises. So pairs of sets, but of
texts, are joined exactly where buckets propose many, and bits are scanned where an exact index
meets many; sets are joined by containment by reading both sides once where to look up each costs
more. ``explain`` shows them.

A join of sets that is exact by the rule, but may not fit into memory without an exact index, is
answered by ``Buckets`` where the caller leaves that open (``"auto"``) and they may. So is one that
was expected to fit, and turns out not to when its items are loaded (``Exact.instead``).

``Buckets`` answer where the index is planned for the bound, or ``min_recall`` permits it; else the
question is refused, and the message names its remedies. What is compared exactly by ``"auto"`` is
so, too, where the index finds less than ``min_recall``.
"""

from __future__ import annotations

from decimal import Decimal
from math import isnan
from numbers import Real
from operator import index
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from simdb import answers  # whose other modules are imported when their methods are chosen
from simdb.answers.buckets import Buckets
from simdb.answers.costs import Task, Verb
from simdb.answers.exact.method import SYMMETRIC, Exact, require_index, serves_exactly
from simdb.answers.method import Method
from simdb.arguments import is_whole, require_choice, short
from simdb.errors import ConfigurationError, Remedy, SimdbError, ThresholdTooLowError
from simdb.exact.measures import SetSimilarity
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike, admits
from simdb.kinds import Kind
from simdb.kinds.contrast import contrast
from simdb.lsh.planning import USUAL_RECALL, PlanRequest, enough_rows
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.opened.request import can_be_planned, replanned
from simdb.results import Alternative, Explanation

AskedGuarantee: TypeAlias = Literal["auto", "exact", "probable"]

METHODS_KEPT = 256
CONTAINMENTS = (SetSimilarity.STORED_IN_PROBE, SetSimilarity.PROBE_IN_STORED)
# What the chosen method may look at before a cheaper one is looked for.
FEW_ITEMS, FEW_PAIRS = 1_000, 50_000
FEW_OF_SET = 16  # pairs of each set of symbols
LEAST_PERMITTED = 0.01  # recall, below which there is nothing to permit
FEW_OF_ALL = 100  # one of so many pairs of what is slow to prepare: to compare all takes longer


class Question(Struct, frozen=True, cache_hash=True):
    """What a caller asks a collection."""

    verb: Verb  # the call; "add" asks whether rows to be added are duplicates
    bound: Bound | None = None  # what similar enough means; None is that of the collection
    guarantee: AskedGuarantee = "auto"
    min_recall: float | None = None  # permits the probable index beyond what it is planned for
    measure: SetSimilarity = SetSimilarity.JACCARD

    @property
    def is_many_many(self) -> bool:
        """Whether pairs are asked for, of which there may be a square of the items."""
        return self.verb in ("pairs", "join", "groups")


class Asked(Struct, frozen=True):
    """The arguments of a call that asks what is similar, as they were given."""

    threshold: ThresholdLike | None
    max_distance: ThresholdLike | None
    guarantee: AskedGuarantee
    min_recall: float | None
    measure: str = SetSimilarity.JACCARD

    def question(self, verb: Verb, settings: CollectionSettings) -> Question:
        """Read them; ConfigurationError: one is not possible for the kind, or for the call.

        Remembered, since to read a threshold takes a good part of a quick search.
        """
        read = self.threshold, self.max_distance, self.min_recall
        name = verb, self, *map(type, read)  # True and 1 are equal, and not read alike
        try:
            known: Question | None = settings.questions.get(name)
        except TypeError:  # what has no hash is refused by the name of its argument
            return self._read(verb, settings.kind)
        if known is None:
            known = self._read(verb, settings.kind)
            if len(settings.questions) >= METHODS_KEPT:
                settings.questions.clear()
            settings.questions[name] = known
        return known

    def _read(self, verb: Verb, kind: Kind) -> Question:
        threshold, max_distance = self.threshold, self.max_distance
        guarantee, min_recall, measure = self.guarantee, self.min_recall, self.measure
        require_choice("guarantee", guarantee, "auto", "exact", "probable")
        if min_recall is not None and not _is_share(min_recall):
            raise ConfigurationError(f"min_recall must be between 0 and 1, not {short(min_recall)}")
        wanted = SetSimilarity.JACCARD
        is_usual = isinstance(measure, str) and measure == wanted
        if not is_usual and not kind.has_symbols:
            raise ConfigurationError(
                f"measure must be left out: {kind.plural} have only one measure"
            )
        try:
            if not is_usual:  # as few questions are
                wanted = SetSimilarity(measure)
        except ValueError:
            names = ", ".join(repr(str(known)) for known in SetSimilarity)
            raise ConfigurationError(
                f"measure must be one of {names}, not {short(measure)}"
            ) from None
        symmetric = (*SYMMETRIC, SetSimilarity.OVERLAP)
        if verb == "pairs" and wanted not in symmetric:
            known = ", ".join(repr(str(one)) for one in symmetric)
            raise ConfigurationError(
                f"measure must be one of {known}, not {str(wanted)!r}, which depends on the order "
                "of two items; join() has a left and a right one"
            )
        if verb == "groups" and wanted is not SetSimilarity.JACCARD:
            raise ConfigurationError(f"groups() has only one measure; leave out {str(wanted)!r}")
        bound: Bound | None = None
        if threshold is None and max_distance is None:
            pass  # the bound of the collection
        elif wanted is SetSimilarity.JACCARD or threshold is None or kind.is_distance:
            bound = kind.parse_bound(threshold, max_distance)
        else:  # only Jaccard's similarity may have another scale inside
            kind.parse_bound(None, max_distance)
            bound = Threshold.parse(threshold)
        return Question(verb, bound, guarantee, min_recall, wanted)


def _is_share(value: Any) -> bool:
    """Whether a value is a number from 0 to 1, of whatever type."""
    is_number = isinstance(value, Real | Decimal)
    try:
        return is_number and 0 <= value <= 1
    except ArithmeticError:  # some that are no number cannot be compared
        return False


def choose(
    settings: CollectionSettings,
    question: Question,
    right: Opened | None = None,
    left: Opened | None = None,
) -> Method:
    """Choose how a question is answered, under the settings of a collection; of a join, the right.

    Given that collection, and of a join the left one too, a cheaper method may be taken, by their
    counts, that misses no more; else the table above decides alone. ConfigurationError: there is
    no such index. ThresholdTooLowError: none that may answer serves the bound; names the remedy.
    """
    if question.min_recall is not None:
        return _within_memory(_choose(settings, question), settings, question, right, left)
    # Remembered, since the recall of a plan takes as long to compute as a quick search.
    sizes = [None if side is None else side.size_class for side in (right, left)]
    asked = question, *sizes
    method: Method | None = settings.methods.get(asked)
    if method is None:
        method = _choose(settings, question)
        if right is not None:
            method = _cheapest(method, question, Task(question.verb, left or right, right))
        if len(settings.methods) >= METHODS_KEPT:
            settings.methods.clear()
        settings.methods[asked] = method
    return _within_memory(method, settings, question, right, left)


def _within_memory(
    method: Method,
    settings: CollectionSettings,
    question: Question,
    right: Opened | None,
    left: Opened | None,
) -> Method:
    """Take buckets, if they may answer, in the place of an exact join that may not fit into memory.

    If one that is expected to fit does not, they answer instead. It is not remembered: that depends
    on the memory of a handle, and on what is on the left.
    """
    may_choose = question.guarantee == "auto" and question.measure is SetSimilarity.JACCARD
    if right is None or not (question.is_many_many and may_choose):
        return method
    task = Task(question.verb, left or right, right)
    if not isinstance(method, Exact) or method.serves(settings):
        return method
    try:
        buckets = _choose(settings, replace(question, guarantee="probable"))
    except (ConfigurationError, ThresholdTooLowError):
        return method
    return replace(method, instead=buckets) if method.surely_fits(task) else buckets


def _cheapest(method: Method, question: Question, task: Task) -> Method:
    """Take the cheaper of a method and its alternative; if both cost the same, the method.

    Where little is to be looked at, nothing is measured: what is quick stays what it is.
    """
    other = _alternative(method, question, task.right)
    if other is None or method.steps(task) <= _few(question, task):
        return method
    return min(method, other, key=lambda one: one.seconds(task))


def _few(question: Question, task: Task) -> float:
    """How much the chosen method may look at before a cheaper one is looked for."""
    if not question.is_many_many:
        return FEW_ITEMS
    if task.right.settings.kind.has_symbols:  # to load them all is worth it for many pairs each
        return max(FEW_PAIRS, FEW_OF_SET * task.counts.live)
    if task.right.signer.measure.is_slow_to_prepare:
        return max(FEW_PAIRS, task.everything / FEW_OF_ALL)
    return FEW_PAIRS


def _alternative(method: Method, question: Question, right: Opened) -> Method | None:
    """What could answer in the place of a chosen method, as well as the collection promises.

    Connecting groups, buckets compare no more pairs of equal items than there are items. What is
    added is looked for in an index.
    """
    if question.verb in ("groups", "add"):
        return None
    if question.measure is not SetSimilarity.JACCARD:
        looks_up = question.measure in CONTAINMENTS and type(method) is Exact
        is_join = question.verb == "join"
        return _whole_sets(method.bound, question.measure) if is_join and looks_up else None
    settings, is_free = right.settings, question.guarantee == "auto"
    if settings.kind.has_symbols:
        return _alternative_of_sets(method, question, right)
    if not is_free:
        return None
    bound = method.bound
    other = _comparing(settings.kind, bound, many=question.is_many_many)
    if type(other) is not type(method):
        return other
    is_planned = settings.is_probable and admits(settings.bound, bound)
    return Buckets(bound, settings.expected_recall(bound)) if is_planned else None


def _alternative_of_sets(method: Method, question: Question, right: Opened) -> Method | None:
    """What could answer in the place of an index of sets: a scan in place, or a join in memory.

    Of what a search meets, signatures and positions drop most before any item is read, of which
    counts say nothing: so an index of items that do not lie in place is left to answer. To join
    all sets exactly is often quicker than to compare all that buckets propose, but for texts,
    whose symbols are slow to make.
    """
    if question.verb == "search" and isinstance(method, Exact) and right.reader.items is not None:
        return answers.scan.Scan(method.bound)
    is_probable = question.guarantee == "auto" and isinstance(method, Buckets)
    if question.verb == "pairs" and is_probable and not right.settings.kind.is_slow_to_read:
        return Exact(method.bound)
    return None


def explain(question: Question, left: Opened, right: Opened) -> Explanation:
    """Say how a question is answered, how else it could be, and what each is expected to cost."""
    settings = right.settings
    chosen = choose(settings, question, right, left)
    methods: dict[type[Method], Method] = {type(chosen): chosen}
    refused: dict[str, str] = {}
    guarantees: tuple[AskedGuarantee, ...] = ("auto", "exact", "probable")
    for guarantee in guarantees:
        asked = replace(question, guarantee=guarantee)
        try:
            method = _choose(settings, asked)
        except SimdbError as error:
            refused[guarantee] = str(error)
            continue
        other = _alternative(method, asked, right)
        for one in (method, other or method):
            methods.setdefault(type(one), one)
    task = Task(question.verb, left, right)
    alternatives = [
        Alternative(
            one.name,
            one.promise(settings.kind),
            one.recall,
            one.looked_at(task),
            one.seconds(task),
            chosen=one is chosen,
        )
        for one in methods.values()
    ]
    return Explanation(question.verb, right.reader.manifest.live, tuple(alternatives), refused)


def _choose(settings: CollectionSettings, question: Question) -> Method:
    wanted, kind = question.guarantee, settings.kind
    if kind.estimates and wanted == "exact":
        raise ConfigurationError(
            f"collection {settings.name!r} holds signatures only, from which similarities are "
            "estimated, so no answer is exact; for exact answers store the items themselves",
            remedies=[Remedy("guarantee", "auto", "answers by estimates")],
        )
    asks_nothing = question.bound is None and question.measure is SetSimilarity.JACCARD
    if question.is_many_many and asks_nothing and kind.is_distance and not settings.is_probable:
        # Pairs within the largest distance of all are a square of the collection.
        raise ConfigurationError(
            f"collection {settings.name!r} was created without a max_distance to find pairs within",
            remedies=[Remedy("max_distance", ..., "says how far apart pairs may be")],
        )
    by_jaccard = question.measure is SetSimilarity.JACCARD
    own = settings.bound if by_jaccard else kind.outer_bound(settings.bound)
    bound = question.bound or own
    if not kind.has_symbols:
        return _choose_without_symbols(settings, question, bound)
    exact = Exact(bound, measure=question.measure)
    joins_whole = question.verb == "pairs" and question.measure is SetSimilarity.OVERLAP
    serves = serves_exactly(settings, exact.criterion) and not joins_whole
    needs_index = not (question.is_many_many and question.measure in SYMMETRIC)
    if wanted == "exact":
        if serves or not needs_index:
            return exact
        return answers.scan.Scan(bound) if by_jaccard else _whole_sets(bound, question.measure)
    if wanted == "auto" and (serves or (question.verb == "join" and not needs_index)):
        return exact
    if by_jaccard and settings.is_probable:
        return _choose_buckets(settings, question, bound)
    if wanted == "probable":
        can_exactly = settings.is_exact or not by_jaccard
        helps = [Remedy("guarantee", "exact", "misses nothing")] if can_exactly else []
        of_measure = f" for {question.measure} similarity"
        if by_jaccard:
            helps += _planning_remedies(settings, bound, "adds one")
            of_measure = ""
        raise ConfigurationError(
            f"collection {settings.name!r} has no probable index{of_measure}",
            remedies=helps,
        )
    if by_jaccard:
        require_index(settings, exact.criterion)
    return _whole_sets(bound, question.measure) if needs_index else exact


def _whole_sets(bound: Bound, measure: SetSimilarity) -> Method:
    return answers.exact.whole.WholeSets(bound, measure=measure)


def _choose_without_symbols(
    settings: CollectionSettings, question: Question, bound: Bound
) -> Method:
    """Choose for a kind whose exact answers come from comparing with everything."""
    adding, wanted = question.verb == "add", question.guarantee
    if not settings.is_probable and (adding or wanted == "probable"):
        helps = [settings.kind.index_remedy]
        if question.bound is not None or not settings.kind.is_distance:
            helps = _planning_remedies(settings, bound, "adds one")
        shown = settings.kind.outer_bound(bound)
        nothing = "" if helps else f", and none can be planned for {shown}"
        if not adding and not settings.kind.estimates:
            helps.append(Remedy("guarantee", "exact", "misses nothing"))
        raise ConfigurationError(
            f"collection {settings.name!r} has no index for probable answers{nothing}",
            remedies=helps,
        )
    if settings.is_complete and admits(settings.bound, bound):
        return answers.slabs.ChunkIndex(bound)
    exact = _comparing(settings.kind, bound, many=question.is_many_many)
    if wanted == "exact" or not settings.is_probable:
        return exact
    if wanted == "auto" and not adding:
        is_beyond = not admits(settings.bound, bound)
        # Connecting groups, buckets compare no more pairs of equal items than there are items.
        is_first = exact.sorts and (is_beyond or question.verb != "groups")
        is_only = is_beyond and question.verb == "search"
        # Where the index finds as much as is asked for, it answers.
        permitted = None if question.min_recall is None else _permitted(settings, question, bound)
        if settings.is_complete or ((is_first or is_only) and permitted is None):
            return exact
        if permitted is not None:
            return permitted
    return _choose_buckets(settings, question, bound)


def _comparing(kind: Kind, bound: Bound, *, many: bool) -> Method:
    """Compare with everything, as well as the measure can."""
    share = kind.share_looked_at(bound.fraction)
    if share is None:
        return answers.scan.Scan(bound)
    return answers.slabs.Pigeonhole(bound) if many and share < 1 else answers.slabs.Slabs(bound)


def _can_be_planned(settings: CollectionSettings, bound: Bound, **further: Any) -> bool:
    """Whether a rebuild for a bound, alone or with further arguments, would find a plan."""
    asked = PlanRequest(**{"recall": settings.recall, **further})
    return can_be_planned(settings.kind, bound, replanned(settings, settings.kind, bound, asked))


def _planned_with(settings: CollectionSettings, bound: Bound) -> dict[str, Any] | None:
    """Return with which further arguments a rebuild would find a plan; None if with none."""
    recall: dict[str, Any] = {"recall": USUAL_RECALL} if settings.is_complete else {}
    if recall and _can_be_planned(settings, bound, **recall):
        return recall
    asked = PlanRequest(**{"recall": settings.recall, **recall})
    curve = settings.kind.make_curve(bound.fraction)
    for budget in enough_rows(bound.fraction, asked, curve):
        # Of a cascade, whose place a budget takes, the usual one may be enough.
        further = {**recall, "row_budget": max(budget or 0, curve.row_budget)}
        if budget is not None and _can_be_planned(settings, bound, **further):
            return further
    return None


def _planning_remedies(settings: CollectionSettings, bound: Bound, effect: str) -> list[Remedy]:
    """Name the rebuild that plans for a bound, with all it takes; nothing if none does."""
    further = {} if _can_be_planned(settings, bound) else _planned_with(settings, bound)
    if further is None:
        return []
    told = tuple(
        (name, float(value) if name == "recall" else value) for name, value in further.items()
    )
    shown, remedy = settings.kind.outer_bound(bound), settings.kind.index_remedy
    return [replace(remedy, value=shown, effect=effect, further=told)]


def _permitted(settings: CollectionSettings, question: Question, bound: Bound) -> Buckets | None:
    """Answer by the probable index if it is planned for the bound, or the caller permits it."""
    recall, asked = settings.expected_recall(bound), question.min_recall
    may = admits(settings.bound, bound) or (asked is not None and recall >= float(asked))
    return Buckets(bound, recall) if may else None


def _choose_buckets(settings: CollectionSettings, question: Question, bound: Bound) -> Buckets:
    """Answer by the probable index if it may; else say what would answer."""
    if permitted := _permitted(settings, question, bound):
        return permitted
    own, asked = settings.bound, question.min_recall
    recall = settings.expected_recall(bound)
    argument = "max_distance" if settings.kind.is_distance else "threshold"
    shown, planned = settings.kind.outer_bound(bound), settings.kind.outer_bound(own)
    remedies = _planning_remedies(settings, bound, "plans for it")
    if settings.kind.has_symbols and question.guarantee != "probable":
        remedies.append(Remedy("exact_floor", shown, "misses nothing from there on", "rebuild"))
    if question.verb != "add":  # which takes neither a guarantee nor a recall
        if not settings.kind.estimates:
            remedies.append(Remedy("guarantee", "exact", "misses nothing"))
        if recall >= LEAST_PERMITTED:
            remedies.append(Remedy("min_recall", int(recall * 100) / 100, "permits it"))
    less = "" if asked is None else f", less than the {asked:g} asked for"
    finds = "" if isnan(recall) else f"; at {shown} it finds {recall:.1%}{less}"
    if not remedies:
        finds += ", and no index can be planned for it"
    beyond = "above" if settings.kind.is_distance else "below"
    floor = settings.posted_floor
    if floor is not None:
        serves = settings.kind.outer_bound(floor)
        finds += f" (its exact index serves {serves} and above)"
    raise ThresholdTooLowError(
        f"{argument} {shown} is {beyond} {planned}, for which collection {settings.name!r} is "
        f"planned{finds}",
        remedies=remedies,
    )


def require_resumable(method: Method, question: Question) -> None:
    """Raise ConfigurationError unless the pairs that answer come with tokens to go on after."""
    if question.measure is not SetSimilarity.JACCARD:
        raise ConfigurationError(
            f"only pairs by Jaccard similarity can be resumed, not pairs by {question.measure}"
        )
    if not method.can_resume:
        answers = "joins" if question.verb == "join" else "pairs"
        raise ConfigurationError(f"only exact {answers} of sets of symbols can be resumed")


def require_alike(left: CollectionSettings, right: CollectionSettings) -> None:
    """Raise ConfigurationError unless the items of both collections are of one kind."""
    if left.kind != right.kind:
        raise ConfigurationError(
            f"collections {left.name!r} and {right.name!r} cannot be joined, as their settings "
            f"differ: for {left.name!r} {contrast(left.kind, right.kind)}"
        )


def read_since(since: object) -> int:
    """Read the item number that pairs are wanted from; ConfigurationError if it is none."""
    if (
        not is_whole(since) or not 0 <= since < 2**32  # item numbers have 32 bits
    ):
        raise ConfigurationError(
            f"since must come from checkpoint() or an AddReport, but is {short(since)}"
        )
    return index(since)
