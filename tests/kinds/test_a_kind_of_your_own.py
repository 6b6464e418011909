"""A kind made here, against the public contract only, does all that simdb's own kinds do.

Its items are sets of intervals of whole numbers, such as the hours at which a shop is open. Two are
compared by the length that they have in common, over the length that at least one of them covers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import simdb
from simdb import kinds
from tests.support.commands import done, run
from tests.support.processes import CHECKOUT, ended

POINTS = 2_000
Pieces = npt.NDArray[np.int64]


@kinds.register
class Interval(kinds.Kind, frozen=True):
    """Sets of intervals [begin, end) of whole numbers below ``span``."""

    span: int = 1_000

    plural: ClassVar[str] = "sets of intervals"
    in_the_name: ClassVar[tuple[str, ...]] = ("span",)

    @classmethod
    def examples(cls) -> tuple[kinds.Examples, ...]:
        items = [[[place, place + 30], [place + 400, place + 450]] for place in range(0, 350, 70)]
        near = [[*item, [990, 1_000]] for item in items]
        invalid = (None, 3.5, [5], [[5, 5]], [[0, 1_001]], [["a", 3]])
        return (kinds.Examples(cls(), "0.8", items, near, invalid),)

    def make_items(self, secret: bytes) -> kinds.Items:
        return IntervalItems(self.span)

    def make_measure(self) -> kinds.Measure:
        return CommonLength()

    def make_curve(self, bound: Fraction) -> kinds.Curve:
        return kinds.JaccardCurve()

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: str, secret: bytes
    ) -> kinds.Family:
        return FirstPoints(self.span, bands, rows, secret)

    def shown_item(self, item: list[list[int]]) -> str:
        return ", ".join(f"{begin}-{end}" for begin, end in item)


class IntervalItems(kinds.Items):
    """Intervals that meet are one, and all are in order: so equal sets are equal bytes."""

    def __init__(self, span: int) -> None:
        self._span = span

    def encode(self, item: Any) -> bytes:
        pieces: list[list[int]] = []
        try:
            for begin, end in sorted(item):
                if not 0 <= begin < end <= self._span:
                    raise simdb.BadItemError(f"[{begin}, {end}) is not within 0 to {self._span}")
                if pieces and begin <= pieces[-1][1]:
                    pieces[-1][1] = max(end, pieces[-1][1])
                else:
                    pieces.append([begin, end])
        except (TypeError, ValueError) as error:
            if isinstance(error, simdb.BadItemError):
                raise
            raise simdb.BadItemError(f"{item!r} is not a list of intervals") from error
        return np.array(pieces, "<i8").tobytes()

    def decode(self, data: bytes | memoryview) -> list[list[int]]:
        (pieces,) = self.features([data])
        decoded: list[list[int]] = pieces.tolist()
        return decoded

    def features(self, items: Sequence[bytes | memoryview]) -> list[Pieces]:
        try:
            return [np.frombuffer(item, "<i8").reshape(-1, 2).astype(np.int64) for item in items]
        except ValueError as error:
            raise simdb.CorruptionError(f"stored intervals cannot be read: {error}") from error


class CommonLength(kinds.Measure):
    """Common length over covered length, in whole numbers."""

    def compare_probe(self, probe: list[Pieces], features: list[Pieces]) -> kinds.Compared:
        return self._compared([(probe[0], other) for other in features])

    def compare_pairs(
        self, features: list[Pieces], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> kinds.Compared:
        rows = zip(left.tolist(), right.tolist(), strict=True)
        return self._compared([(features[one], features[other]) for one, other in rows])

    def _compared(self, pairs: list[tuple[Pieces, Pieces]]) -> kinds.Compared:
        common = np.array([length_in_common(*pair) for pair in pairs], np.int64)
        both = [int(np.diff(one).sum() + np.diff(other).sum()) for one, other in pairs]
        return kinds.Compared(common, np.array(both, np.int64) - common)


def length_in_common(one: Pieces, other: Pieces) -> int:
    begins = np.maximum(one[:, None, 0], other[None, :, 0])
    ends = np.minimum(one[:, None, 1], other[None, :, 1])
    return int(np.maximum(ends - begins, 0).sum())


class FirstPoints(kinds.BandedFamily):
    """Which of a row of random points is the first in the set.

    The first in either of two sets is in both with a probability of their similarity.
    """

    def __init__(self, span: int, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        words = kinds.derived_words(secret, b"intervals", bands * rows * POINTS)
        self._points = (words % np.uint64(span)).astype(np.int64).reshape(-1, POINTS)

    def sign(self, features: list[Pieces]) -> npt.NDArray[np.uint16]:
        signatures = np.zeros((len(features), self.words), np.uint16)
        for place, pieces in enumerate(features):
            inside = np.zeros(self._points.shape, np.bool_)
            for begin, end in pieces.tolist():
                inside |= (self._points >= begin) & (self._points < end)
            signatures[place] = np.where(inside.any(axis=1), inside.argmax(axis=1) + 1, 0)
        return signatures


# -- what is right, by counting ------------------------------------------------------------------


def covered(item: Any) -> set[int]:
    return {number for begin, end in item for number in range(begin, end)}


def similarity(one: Any, other: Any) -> Fraction:
    return Fraction(len(covered(one) & covered(other)), len(covered(one) | covered(other)))


GENERATOR = np.random.default_rng(11)
FAR = [
    [[int(begin), int(begin) + 60] for begin in GENERATOR.choice(900, 3, replace=False)]
    for _ in range(25)
]
NEAR = [[[begin, end + 3] for begin, end in item] for item in FAR[:10]]
ITEMS: dict[Any, Any] = dict(enumerate([*FAR, *NEAR, FAR[3]]))
SIMILAR = {
    (one, other)
    for one in ITEMS
    for other in ITEMS
    if one < other and similarity(ITEMS[one], ITEMS[other]) >= Fraction(4, 5)
}
KIND = Interval(1_000)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "shops.simdb"
    with simdb.open(path) as database:
        shops = database.collection("shops", KIND, threshold="4/5", seed=1)
        assert shops.add_many(ITEMS.items()).added == len(ITEMS)
    return path


def test_it_is_searched_joined_grouped_and_audited(store):
    assert len(SIMILAR) > 10
    with simdb.open(store) as database:
        shops = database["shops"]
        assert shops.kind == KIND
        for guarantee in ("exact", "probable"):
            found = {(pair.left, pair.right) for pair in shops.pairs(guarantee=guarantee)}
            assert found <= SIMILAR
            assert len(found) >= len(SIMILAR) - 1
            for key in (0, 3, 24):
                matches = shops.search(ITEMS[key], guarantee=guarantee)
                true = {other for pair in SIMILAR if key in pair for other in pair} | {key}
                assert {match.key for match in matches} == true
                for match in matches:
                    assert match.similarity == float(similarity(ITEMS[key], ITEMS[match.key]))
        assert {frozenset(group.keys) for group in shops.groups(guarantee="exact")} >= {
            frozenset((0, 25))
        }
        other = database.collection("copy", KIND, threshold="4/5")
        other.add_many((key, ITEMS[key]) for key in range(5))
        joined = {(pair.left, pair.right) for pair in other.join(shops, guarantee="exact")}
        assert {(key, key) for key in range(5)} <= joined
        assert shops.self_audit(sample=20, seed=1).recall is not None


def test_it_is_deduplicated_replaced_deleted_compacted_and_rebuilt(store):
    with simdb.open(store) as database:
        shops = database["shops"]
        assert shops.add(100, FAR[5], on_duplicate="skip").action == "duplicate"
        report = shops.add_many([(101, [[0, 5]]), (102, [[0, 5]])], on_duplicate="skip")
        assert (report.added, report.duplicates_new) == (1, 1)
        shops.replace(101, [[5, 9], [8, 12]])
        assert shops.get(101).item == [[5, 12]]
        shops.delete(3)
        shops.compact()
        shops.rebuild(threshold=0.6)
        assert {match.key for match in shops.search(FAR[3])} == {28, 35}
        shops.rebuild(threshold=0.8, seed=2)
        assert database.check(deep=True).sound
        with pytest.raises(simdb.BadItemError, match="is not within"):
            shops.add(103, [[0, 1_001]])


def test_it_is_repaired_and_backed_up(store, tmp_path):
    report = simdb.repair(store, tmp_path / "new.simdb")
    assert report.complete
    with simdb.open(tmp_path / "new.simdb") as database:
        assert len(database["shops"]) == len(ITEMS)
        assert database.check(deep=True).sound
        database.backup(tmp_path / "copy.simdb")
    with simdb.open(tmp_path / "copy.simdb") as database:
        assert database["shops"].get(7).item == sorted(FAR[7])


class Stepped(Interval, frozen=True, kw_only=True):
    """What the class may be next year: with a setting that has no value in stores of today."""

    step: int


def test_a_class_that_has_changed_is_refused_and_nothing_is_lost(store, tmp_path, monkeypatch):
    with simdb.open(store) as database:
        database.collection("words", simdb.Set()).add("a", [1])
    before = store.read_bytes()
    monkeypatch.setitem(kinds._KINDS, "interval", Stepped)
    with simdb.open(store) as database:
        assert database["words"].get("a").item == {1}
        with pytest.raises(simdb.UnknownKindError, match="that are stored: Stepped needs step;"):
            database["shops"]
        assert "needs step" in database.check().problems[0].problem
    with pytest.raises(simdb.UnknownKindError, match="needs step"):
        simdb.repair(store, tmp_path / "new.simdb")
    assert not (tmp_path / "new.simdb").exists()
    monkeypatch.undo()
    assert store.read_bytes() == before
    with simdb.open(store) as database:
        assert len(database["shops"]) == len(ITEMS)


def test_it_is_used_from_the_command_line(tmp_path):
    path, rows = tmp_path / "s.simdb", tmp_path / "in.jsonl"
    lines = [json.dumps({"id": key, "interval": item}) for key, item in ITEMS.items()]
    rows.write_text("\n".join([*lines, '{"id": 99, "interval": [[5]]}']))
    done("create", path, "shops", "--kind", "interval:1000", "--threshold", "0.8", "--seed", 1)
    added = run("add", path, "shops", rows, "--id-field", "id", "--on-bad", "skip")
    assert added.exit_code == 0, added.stderr
    found = done("search", path, "shops", "--item", json.dumps(FAR[0]), "--json", "--exact").stdout
    assert [json.loads(line)["key"] for line in found.splitlines()] == [0, 25]
    pairs = done("pairs", path, "shops", "--json", "--exact").stdout.splitlines()
    assert {(json.loads(pair)["left"], json.loads(pair)["right"]) for pair in pairs} == SIMILAR
    assert "-" in done("search", path, "shops", "--item", json.dumps(FAR[0])).stdout
    assert '"kind": "interval"' in done("stats", path, "shops", "--json").stdout
    done("check", path, "--deep")
    done("export", path, "shops", "-o", tmp_path / "out.jsonl")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(ITEMS)
    kept = tmp_path / "kept.jsonl"
    rows.write_text("\n".join(lines))
    arguments = ("--kind", "interval:1000", "--id-field", "id", "--threshold", "0.8")
    done("dedupe", rows, "-o", kept, *arguments)
    assert len(kept.read_text().splitlines()) < len(ITEMS)
    refused = run("create", path, "x", "--kind", "interval", "--settings", '{"span": "wide"}')
    assert "Interval.span must be a whole number, not 'wide'" in refused.stderr
    assert "sets of intervals" in run("search", path, "shops", "--text", "a").stderr


# -- a process that does not know the kind -------------------------------------------------------

UNKNOWING = """
import simdb, sys
database = simdb.open(sys.argv[1])
print(database.collection_names(), len(database["words"]))
for use in (
    lambda: database["shops"],
    lambda: database.collection("shops"),
    lambda: database.drop_collection("shops"),
):
    try:
        use()
    except simdb.UnknownKindError as error:
        print(error.name, error)
print(*[problem.problem for problem in database.check().problems])
database.close()
from simdb.cli import main
for command in (["stats", sys.argv[1]], ["search", sys.argv[1], "shops", "--item", "[]"]):
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as ended:
        code = ended.code
sys.exit(code)
"""


def outside(*arguments: object, folders: Sequence[Path] = ()) -> Any:
    """Run Python in a process of its own, with folders of packages."""
    found_in = os.pathsep.join(map(str, (CHECKOUT, *folders)))
    return ended(sys.executable, *arguments, code=None, variables={"PYTHONPATH": found_in}, cwd="/")


def test_a_process_that_does_not_know_it_refuses_it_by_name(store):
    with simdb.open(store) as database:
        database.collection("words", simdb.Set()).add("a", [1])
    before = store.read_bytes()
    told = outside("-c", UNKNOWING, store)
    first, *printed = told.stdout.splitlines()
    assert first == "['shops', 'words'] 1"
    assert all(line.startswith("interval collection 'shops' ") for line in printed[:3])
    assert all("the kind 'interval' is not known here" in line for line in printed[:4])
    assert "shops" in "".join(printed[4:])
    assert told.returncode == 2
    assert "the kind 'interval' is not known here" in told.stderr
    assert store.read_bytes() == before


def test_an_installed_package_brings_it(store, tmp_path):
    described = tmp_path / "shops-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: shops\nVersion: 1.0\n")
    entry = "interval = tests.kinds.test_a_kind_of_your_own:Interval"
    (described / "entry_points.txt").write_text(f"[simdb.kinds]\n{entry}\n")
    found = outside(
        "-m", "simdb", "search", store, "shops", "--item", json.dumps(FAR[0]), folders=[tmp_path]
    )
    assert "25" in found.stdout, found.stderr


def test_a_package_that_cannot_be_loaded_is_named_where_it_is_asked_for(tmp_path):
    described = tmp_path / "other-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[simdb.kinds]\nbroken = no_such_module:X\n")
    store = tmp_path / "s.simdb"
    with simdb.open(store) as database:
        database.collection("c", simdb.Set()).add("a", [1])
    program = """
import sys
from typer.testing import CliRunner
from simdb.cli.app import app
for words in (["export", sys.argv[1], "c"],
              ["create", sys.argv[1], "d", "--kind", "none"],
              ["create", sys.argv[1], "d", "--kind", "broken"]):
    ran = CliRunner().invoke(app, words)
    print(ran.exit_code, ran.stderr.splitlines()[-1])
"""
    told = outside("-c", program, store, folders=[tmp_path]).stdout.splitlines()
    assert [line[0] for line in told] == ["0", "2", "2"], told
    assert "exported 1 item" in told[0]
    assert "or broken, not 'none'" in told[1]
    assert "the package other says that it brings" in told[2]


@kinds.register
class Letters(kinds.SymbolKind, frozen=True):
    """Texts by their letters; made wrongly where ``wrong`` says so."""

    wrong: str = ""

    def make_items(self, secret: bytes) -> kinds.Items:
        return LettersItems(self.wrong)


class LettersItems(kinds.Items):
    def __init__(self, wrong: str) -> None:
        self._wrong = wrong

    def encode(self, item: str) -> Any:
        return item if self._wrong == "text" else item.encode()

    def decode(self, data: bytes | memoryview) -> str:
        return str(data, "utf-8")

    def features(self, items: Sequence[bytes | memoryview]) -> Any:
        if self._wrong == "list":
            return [list(item) for item in items]
        if self._wrong == "nothing":
            return None
        values = np.frombuffer(b"".join(items), np.uint8)
        offsets = np.cumsum([0, *map(len, items)])
        if self._wrong == "few":
            offsets = offsets[:: len(items)]
        if self._wrong == "beyond":
            offsets = offsets + 1
        return kinds.SymbolSets(values.astype("i8" if self._wrong == "signed" else "u8"), offsets)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("text", "LettersItems.encode must return bytes, not str"),
        ("list", "the kind Letters.* must have SymbolSets as features, not list"),
        ("nothing", "LettersItems.features must return a batch of 1 items, not no length"),
        ("few", "LettersItems.features must return a batch of 2 items, not 1"),
        ("beyond", "LettersItems.features must return offsets of SymbolSets from 0"),
        ("signed", "LettersItems.features must return values of SymbolSets .* of uint64"),
    ],
)
def test_what_breaks_the_contract_is_named(tmp_path, wrong, message):
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", Letters(wrong), seed=1)
        with pytest.raises(simdb.UsageError, match=message):
            collection.add_many([("a", "abc"), ("b", "abd")][: 1 if wrong == "nothing" else 2])
        assert not len(collection)


def test_a_stop_iteration_amid_many_items_is_raised(tmp_path, monkeypatch):
    collection: Any
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", Letters(), seed=1)
        monkeypatch.setattr(LettersItems, "encode", lambda _, item: next(iter(item)).encode())
        with pytest.raises(StopIteration):
            collection.search_many(["abc", "", "abd"])


def test_a_kind_that_names_no_symbols_tells_none(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", Letters(), exact_floor=0.5, seed=1)
        collection.add_many([("a", "abc"), ("b", "abcd")])
        told = collection.explain_pair("a", "b")
        assert "None" not in str(told)
        assert "rare symbols" in told.met_by


def test_what_is_not_a_whole_kind_is_refused():
    class Half(kinds.Kind, frozen=True):
        pass

    with pytest.raises(simdb.ConfigurationError, match="'half' must define make_items"):
        kinds.register(Half)
    with pytest.raises(simdb.WrongTypeError, match="derived from"):
        kinds.register(int)  # type: ignore[type-var]

    class Set(kinds.SymbolKind, frozen=True):
        def make_items(self, secret: bytes) -> kinds.Items:
            return IntervalItems(1)

    with pytest.raises(simdb.ConfigurationError, match="'set' is taken"):
        kinds.register(Set)

    class Unregistered(Set, frozen=True):
        pass

    with pytest.raises(simdb.WrongTypeError, match="not a registered kind"):
        kinds.require(Unregistered())
