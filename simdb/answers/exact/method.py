"""The exact method for sets of symbols: pairs in memory or by the exact index; none is missed.

Three ways find pairs. Where the symbols of all items fit into a share of the memory setting, they
are loaded and joined there (``memory``). Else the postings of the exact index are swept
(``sweep``). Few new items, and whatever asks for another measure than Jaccard's, are looked up one
by one (``probe``).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from simdb.answers import exact
from simdb.answers.buckets import are_few
from simdb.answers.compare import Ranked, compare_probe_with_documents
from simdb.answers.costs import Task
from simdb.answers.exact.memory import InMemory, bytes_of, load_both, load_for_pairs, share_of
from simdb.answers.exact.probe import Prober
from simdb.answers.method import Batches, Method, NoRoomError, ProgressCallback
from simdb.arrays import UInt32s
from simdb.errors import ConfigurationError, Remedy, ThresholdTooLowError, WrongTypeError
from simdb.exact.joins import BEGINNING, Place, Workers
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.thresholds import Threshold, admits
from simdb.forest import Forest
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.results import Matches

if TYPE_CHECKING:
    from simdb.answers.exact.sweep import Sweep

MEMORY, SWEPT, NEW = "m", "s", "n"  # ways of pairs
# Which have a floor to join at.
SYMMETRIC = (SetSimilarity.JACCARD, SetSimilarity.DICE, SetSimilarity.COSINE)
JOINED, LOOKED_UP = "mx", "px"  # ways of a join: in memory, by looking the left items up
POSTING_MET = 1e-8  # seconds
LOADED = 5.5  # how much longer it takes to load and arrange a set than to compare one
TO_SPARE = 2  # times the memory that items are expected to take
SYMBOLS_A_BYTE = 8  # at most, but of what expands: bits have one for each that is set
_criterion = lru_cache(256)(Criterion)  # one for each that is asked for, with its floor


class Exact(Method, frozen=True):
    """Answers by sets of symbols, for a threshold."""

    # What answers where the items turn out not to fit into memory: a sample may miss large ones.
    instead: Method | None = None
    name: ClassVar[str] = "exact"

    @property
    def threshold(self) -> Threshold:
        """The least similarity."""
        assert isinstance(self.bound, Threshold)
        return self.bound

    @property
    def criterion(self) -> Criterion:
        """What an exact index is asked for."""
        return _criterion(self.measure, self.threshold)

    @property
    def _floor(self) -> Threshold:
        """As which loaded sets are counted: prefixes are posted by it."""
        return self.criterion.floor or self.threshold

    def serves(self, settings: CollectionSettings) -> bool:
        """Whether the exact index of a collection answers."""
        return serves_exactly(settings, self.criterion)

    @property
    def can_resume(self) -> bool:
        """Pairs by Jaccard similarity come with tokens to go on after."""
        return self.measure is SetSimilarity.JACCARD

    def search(self, opened: Opened, item: bytes, limit: int | None) -> Matches:
        """Look an item up in the exact index."""
        criterion, signer = self.criterion, opened.signer
        symbols = signer.symbols([item])
        prober = Prober(opened, criterion)
        keys = prober.epoch.arrange(symbols).values
        if not keys.size:
            return self.answer(opened, (), 0)
        numbers = prober.candidates(keys, keys.size)
        probe = symbols if signer.kind.signs_what_it_compares else signer.features([item])
        numbers, compared, documents = compare_probe_with_documents(opened, probe, numbers)
        sizes = compared.denominators + compared.numerators - keys.size
        met = (compared.numerators >= criterion.needed_overlaps(keys.size, sizes)).nonzero()[0]
        values = self.measure.values(compared.numerators, keys.size, sizes)
        return self.matches(opened, Ranked(numbers, values, met, documents), limit)

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Yield all pairs of live items, and tokens to go on after them.

        The order depends on the store, the threshold and the memory setting, not on threads. Empty
        sets are similar to nothing.

        A join that goes on after a token does not do again what is done of joining, reading and
        comparing; what all of it depends on it does: in memory, loading all items and posting their
        prefixes; else, reading the postings and finding identical items. ConfigurationError,
        ThresholdTooLowError: the items do not fit into memory, and no exact index serves;
        NoRoomError: nor do they, and another method may answer.
        """
        token = None if self.resume is None else Token.parse(self.resume, self.threshold)
        if token is not None:
            token.require(opened, opened, since)
        if self._looks_up(opened, since, token):
            start = since if token is None else token.place.range
            token = token or Token.begin(NEW, self.threshold, opened, opened, since)
            prober = self._prober(opened)
            for batch, done in prober.pairs(opened, start=start, earlier_only=True):
                yield batch, self._written(token.after(Place(done, 0)))
            return
        way = self._way(opened, token)
        workers = Workers.within(opened.resources.pool(), opened.resources.memory)
        name, room = (MEMORY, 0) if isinstance(way, InMemory) else (SWEPT, way.room)
        if token is None:
            begun = Token.begin(name, self.threshold, opened, opened, since)
            token = replace(begun, room=room)
        for batch, place in way.pairs(workers, token.place, counted=token.counted):
            of_new = batch.since(since)
            if len(of_new):
                yield of_new, self._written(replace(token, place=place, counted=way.counted))

    def join(self, left: Opened, right: Opened) -> Batches:
        """Yield all pairs of a left and a right item, and tokens to go on after them.

        Symbols depend on the secret of a collection, so the items of the left one are cut into
        symbols as those of the right one. In memory where both fit together; else the left items
        are looked up in the exact index of the right collection. A join that goes on in memory
        loads the items again and joins the ranges that are left; one that looks items up begins at
        the first left item that was not done. ConfigurationError, ThresholdTooLowError: the items
        do not fit into memory, and no exact index of the right collection serves; NoRoomError: nor
        do they, and another method may answer.
        """
        left = replace(left, signer=right.signer)
        token = None if self.resume is None else Token.parse(self.resume, self.threshold)
        if token is not None:
            token.require(left, right)
        if self.measure in SYMMETRIC and (token is None or token.way == JOINED):
            memory, early = self._room_of_join(left, right), self.serves(right.settings)
            loaded = load_both(left, right, self._floor, memory=memory, early=early)
            if loaded is not None:
                way = InMemory(left, self.criterion, *loaded)
                token = token or Token.begin(JOINED, self.threshold, left, right)
                workers = Workers.within(left.resources.pool(), left.resources.memory)
                for batch, place in way.pairs(workers, token.place):
                    yield batch, self._written(token.after(place))
                return
            if token is not None:
                raise _no_longer_fits()
        token = token or Token.begin(LOOKED_UP, self.threshold, left, right)
        start = max(0, token.place.range)
        for batch, done in self._prober(right, left).pairs(left, start=start, earlier_only=False):
            yield batch, self._written(token.after(Place(done, 0)))

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Connect similar items; of identical ones each is connected with the first."""
        forest = Forest(opened.reader.places())
        workers = Workers.within(opened.resources.pool(), opened.resources.memory)
        for left, right in self._way(opened, None).edges(workers):
            if left.size:
                forest.connect(left, right)
        return forest.groups()

    def prober(self, opened: Opened) -> Prober:
        """What looks items up in the exact index."""
        return Prober(opened, self.criterion)

    def looked_at(self, task: Task) -> float:
        """Estimate what is met in the postings, by a sample of them, or of the items."""
        counts = task.counts
        met, keys = counts.met_postings, counts.postings_of_item
        if self._joins_in_memory(task):
            sampled = task.sampled_join(self._floor)
            return sampled.met * task.everything
        if task.looks_up:
            return task.probes * counts.met_under(keys, met)
        return counts.live * keys * max(0.0, met - 1) / 2

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to meet candidates, and to read them, or to read all."""
        found, rates = self.looked_at(task), task.rates(self.bound)
        if not self._joins_in_memory(task):
            read = task.probes * rates.scanned
            if task.looks_up:
                read = min(found, task.everything) * rates.picked
        else:
            others = task.counts.live if task.verb == "join" else 0
            read = (task.probes + others) * rates.scanned * LOADED
        return found * POSTING_MET + read

    def _joins_in_memory(self, task: Task) -> bool:
        if task.verb == "join":
            return self.measure in SYMMETRIC
        settings = task.right.settings
        serves = self.serves(settings)
        return task.verb != "search" and not (settings.kind.is_slow_to_read and serves)

    def surely_fits(self, task: Task) -> bool:
        """Whether all items may be loaded, with room to spare, or need not be."""
        right = task.right
        if not self._joins_in_memory(task) or self.serves(right.settings):
            return True
        memory = right.resources.memory
        if task.verb == "join":
            memory = self._room_of_join(task.left, right)
        most = share_of(memory) // TO_SPARE
        # As of most stores: no item is read for it.
        few = bytes_of(task.item_bytes * SYMBOLS_A_BYTE, task.items, self._floor) <= most
        if few and not right.signer.items.expands:
            return True
        return bytes_of(task.symbols(self._floor), task.items, self._floor) <= most

    def _room_of_join(self, left: Opened, right: Opened) -> int:
        """The memory by which the sides of a join are loaded.

        Where no index answers in their place they may take all of it: the spare is in that already.
        """
        memory = left.resources.memory
        return memory if self.serves(right.settings) else TO_SPARE * memory

    # -- which way -----------------------------------------------------------------------------

    def _looks_up(self, opened: Opened, since: int, token: Token | None) -> bool:
        """Whether new items are looked up one by one, rather than all items joined."""
        if token is not None:
            return token.way == NEW
        few = since > 0 and are_few(opened.reader, since)
        return few and self.serves(opened.settings)

    def _way(self, opened: Opened, token: Token | None) -> InMemory | Sweep:
        """Sweep where that is quick, else load where all fits, else sweep, or refuse.

        To sweep the postings of texts is quicker than to cut all of them into shingles if few pairs
        are met; where so many are that they cannot be counted, each text would be read many times,
        and loading all of them once is quicker.
        """
        sweep = None
        if token is None:
            serves = self.serves(opened.settings)
            sweeps_first = opened.settings.kind.is_slow_to_read and serves
            if sweeps_first:
                sweep = self._sweep(opened)
                if sweep.count():
                    return sweep
        elif token.way == SWEPT:
            return self._sweep(opened, token.room)
        loaded = load_for_pairs(opened, self._floor, early=self.serves(opened.settings))
        if loaded is not None:
            return InMemory(opened, self.criterion, loaded, loaded)
        if token is not None:
            raise _no_longer_fits()
        self._require_index(opened.settings, _too_large(opened))
        return sweep or self._sweep(opened)

    def _sweep(self, opened: Opened, room: int | None = None) -> Sweep:
        """What sweeps slices of so many postings, or of as many as have room in the memory."""
        room = exact.sweep.room_of(opened.resources.memory) if room is None else room
        return exact.sweep.Sweep(opened, self.criterion, room)

    def _prober(self, opened: Opened, probes: Opened | None = None) -> Prober:
        """What looks items up; the work counts for the collection whose items they are."""
        joins = probes is not None and probes is not opened
        self._require_index(opened.settings, _too_large(probes or opened) if joins else "")
        work = (probes or opened).work
        return Prober(replace(opened, work=work), self.criterion)

    def _require_index(self, settings: CollectionSettings, because: str) -> None:
        """Raise unless an exact index serves; ``because`` says why it is needed, if not plain."""
        if because and self.instead is not None and not self.serves(settings):
            raise NoRoomError(self.instead)
        require_index(settings, self.criterion, because)

    def _written(self, token: Token) -> str | None:
        return str(token) if self.can_resume else None


def _no_longer_fits() -> ConfigurationError:
    return ConfigurationError(
        "the join to be resumed was made in memory, and the items do not fit into the memory "
        "setting now; open the store with more memory"
    )


# -- which index -------------------------------------------------------------------------------


def serves_exactly(settings: CollectionSettings, criterion: Criterion) -> bool:
    """Whether the exact index of a collection misses nothing by a criterion."""
    if settings.exact_floor is None:
        return False
    floor, needed = settings.posted_floor, criterion.floor
    return floor is None or (needed is not None and floor <= needed)


def _too_large(opened: Opened) -> str:
    """Say why an index is needed where items could be compared in memory."""
    memory = opened.resources.memory >> 20
    return f"the symbols of all items do not fit into the memory setting ({memory:,} MiB), and "


def require_index(settings: CollectionSettings, criterion: Criterion, because: str = "") -> None:
    """Raise, with the remedy, unless the collection has an exact index that serves a criterion.

    ``because`` begins the message: why it needs one.
    """
    needed = criterion.floor
    shown = needed
    if needed is not None and criterion.measure is SetSimilarity.JACCARD:
        shown = Threshold(settings.kind.outer_similarity(needed.fraction))
    if not settings.is_exact:
        remedies = [Remedy("exact_floor", shown or criterion.threshold, "adds one", "rebuild")]
        buckets_serve = settings.is_probable and admits(settings.bound, criterion.threshold)
        if because and buckets_serve and criterion.measure is SetSimilarity.JACCARD:
            remedies.append(Remedy("guarantee", "probable", "asks the probable index"))
        raise ConfigurationError(
            f"{because}collection {settings.name!r} has no exact index", remedies=remedies
        )
    if serves_exactly(settings, criterion):
        return
    if needed is None:
        raise ThresholdTooLowError(
            f"{criterion.measure} needs an exact index of all symbols; collection "
            f"{settings.name!r} has none",
            remedies=[Remedy("containment", value=True, effect="makes it one", method="rebuild")],
        )
    asked = f"{criterion.threshold} ({criterion.measure}: floor {shown})"
    floor: Threshold | None = settings.posted_floor
    if floor is not None and criterion.measure is SetSimilarity.JACCARD:
        asked, floor = str(shown), Threshold(settings.kind.outer_similarity(floor.fraction))
    raise ThresholdTooLowError(
        f"{because}threshold {asked} is below the floor {floor} of the exact index of collection "
        f"{settings.name!r}",
        remedies=[Remedy("exact_floor", shown, "lowers it", "rebuild")],
    )


# -- resuming ----------------------------------------------------------------------------------


def _state_of(opened: Opened) -> tuple[int, int, int]:
    """Return what tells a state of a collection from all others, but for one of a file copied."""
    reader = opened.reader
    history = crc32(reader.transaction.environment.history)
    return reader.number, reader.manifest.changes, history


class Token(Struct, frozen=True):
    """Where pairs that were left off go on. The same state gives the same ranges and batches."""

    way: str  # how they were found: ``MEMORY``, ``SWEPT``, ``NEW``, ``JOINED`` or ``LOOKED_UP``
    threshold: Threshold
    # What they are pairs of: the number of the collection (if swept, of the epoch), of the commits
    # that had changed it, and of the history of the store; of a join, of both sides.
    state: tuple[int, ...]
    since: int = 0  # pairs of two items of lower numbers are left out
    place: Place = BEGINNING  # of items looked up, those of numbers lower than its range are done
    counted: bool = False  # if swept, ranges are parts of all candidates, not slices of postings
    room: int = 0  # if swept, postings of a slice

    def __str__(self) -> str:
        state = ",".join(map(str, self.state))
        numbers = self.since, *self.place, int(self.counted), self.room
        return ":".join([self.way, str(self.threshold.fraction), state, *map(str, numbers)])

    @classmethod
    def parse(cls, text: str, threshold: Threshold) -> Token:
        """Read a token; ConfigurationError if it is not one, or of a join at another threshold."""
        if not isinstance(text, str):
            raise WrongTypeError(f"a resume token is a str, not {type(text).__name__}")
        try:
            way, fraction, told, *fields = text.split(":")
            state = tuple(map(int, told.split(",")))
            since, reached, batches, counted, room = map(int, fields)
            own = Threshold(Fraction(fraction))
        except (ValueError, ArithmeticError):
            way = ""
        if way not in (MEMORY, SWEPT, NEW, JOINED, LOOKED_UP):
            raise ConfigurationError(f"{text[:60]!r} is not a resume token") from None
        if own != threshold:
            raise ConfigurationError(
                f"the resume token belongs to a join at {own}, not at {threshold}"
            )
        place = Place(reached, batches)
        return cls(way, own, state, since, place, counted=bool(counted), room=room)

    @classmethod
    def begin(
        cls, way: str, threshold: Threshold, left: Opened, right: Opened, since: int = 0
    ) -> Token:
        """Make the token of the beginning; of the pairs of one collection both are the same."""
        exact = left.reader.manifest.index.exact
        if way in (JOINED, LOOKED_UP):
            return cls(way, threshold, (*_state_of(left), *_state_of(right)))
        number, *others = _state_of(left)
        if way == SWEPT:
            number = -1 if exact is None else exact.current.number
        return cls(way, threshold, (number, *others), since)

    def after(self, place: Place) -> Token:
        """The token when more is done."""
        return replace(self, place=place)

    def require(self, left: Opened, right: Opened, since: int = 0) -> None:
        """Raise ConfigurationError unless it is of this join, or these pairs, as they are now."""
        of_join = left is not right
        if (self.way in (JOINED, LOOKED_UP)) is not of_join:
            other = "not one" if of_join else "one"
            raise ConfigurationError(f"the resume token is {other} of a join of two collections")
        if self.since != since:
            raise ConfigurationError(
                f"the resume token belongs to pairs since {self.since}, not since {since}"
            )
        if self.state != Token.begin(self.way, self.threshold, left, right).state:
            raise ConfigurationError(
                "a collection has changed since the resume token was made, or the token is of "
                "other ones; start the join again"
                if of_join
                else "the collection has changed since the resume token was made; start again"
            )
