"""Reports: a page that is complete in itself, and shows hostile texts as texts."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.errors import MissingExtraError
from simdb.lsh import fast_sketches
from simdb.reports import Removed, charts, collection
from simdb.reports.collection import GROUPS_HELD, MEMBERS_SHOWN, RANGES, _edges
from simdb.reports.pages import PAIR_BYTES, texts_beside
from tests.support.commands import done, failed, run, write_rows
from tests.support.grids import grid
from tests.support.kind_cases import ALL
from tests.support.processes import ended

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

HOSTILE = "</td></table><script>document.title='owned'</script><img src=x onerror=alert(1)>"
CLOSES_ITSELF = {"meta", "br", "img", "input"}
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


class Page(HTMLParser):
    """A page, parsed: every tag is closed, and nothing in it loads or runs anything."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.ids = "", set[str](), list[str]()
        self._open: list[str] = []
        assert html.startswith("<!doctype html>")
        self.feed(html)
        assert self._open == []
        assert "script" not in self.tags
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in CLOSES_ITSELF:
            self._open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name != "src"
            if name == "href":
                assert value is not None
                assert value.startswith("#"), value
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in CLOSES_ITSELF:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data


def texts(count: int) -> list[dict[str, Any]]:
    """Rows of which each three are nearly the same, a bit less so from one three to the next."""
    rows = []
    for number in range(count):
        words = [f"w{number // 3}x{place}" for place in range(30)]
        words[: number % 3 * (1 + number // 12)] = [f"other{number}"] * (
            number % 3 * (1 + number // 12)
        )
        rows.append({"id": f"{number} {HOSTILE}", "text": " ".join(words) + "\n\u202e" + HOSTILE})
    return rows


@pytest.fixture
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes longer than all the rest: charts, and laws of rows that depend."""
    monkeypatch.setattr(charts, "drawn", lambda *_: "<svg></svg>")
    law = fast_sketches.agreements
    monkeypatch.setattr(fast_sketches, "agreements", lambda *given: law(*given[:2]))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with simdb.open(folder / "s.simdb", threads=1) as db:
        kind = simdb.Text(simdb.WordShingles(1))
        notes = db.collection("notes", kind, threshold="0.8", seed=1)
        notes.add_many([(row["id"], row["text"]) for row in texts(60)])
    made = done("report", folder / "s.simdb", "notes", "-o", folder / "r.html", "--json")
    assert json.loads(made.stdout)["bytes"] == (folder / "r.html").stat().st_size < 300_000
    return folder / "r.html"


def test_a_report_shows_thresholds_groups_and_pairs_and_loads_nothing(page: Path) -> None:
    html = page.read_text()
    found = Page(html)
    for part in (
        "Rows removed by each threshold",
        "Pairs by similarity",
        "Recall",
        "Groups by size",
        "Similar pairs",
        "The nearest misses",
        "Settings",
        "near misses",
        "60",
        HOSTILE,
    ):
        assert part in found.text, part
    assert {"svg", "del", "ins"} <= found.tags
    assert "default-src 'none'" in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/", "")
    assert HOSTILE not in html
    assert "\\u202e" in found.text
    assert "\u202e" not in html


def test_a_report_of_dedupe_says_what_was_removed(tmp_path: Path, no_charts: None) -> None:
    source = write_rows(tmp_path / "in.jsonl", texts(60))
    asked = (
        "dedupe",
        source,
        "--id-field",
        "id",
        "--shingles",
        "word:1",
        "--threshold",
        0.8,
        "-o",
        tmp_path / "kept.jsonl",
        "--json",
        "--report",
        tmp_path / "r.html",
    )
    counts = json.loads(done(*asked).stdout)
    found = Page((tmp_path / "r.html").read_text())
    assert str(counts["kept"]) in found.text
    for part in (
        "Near duplicates of in.jsonl",
        "Rows removed, and the rows kept",
        "removed: 1 <"[:10],
    ):
        assert part in found.text
    for name in ("r.parquet", "r.txt", "r"):
        assert "its name must end in .html" in failed(*asked[:-1], tmp_path / name)


def test_a_report_that_fails_leaves_the_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_charts: None
) -> None:
    source = write_rows(tmp_path / "in.jsonl", texts(60))
    command = ("dedupe", source, "--id-field", "id", "-o", tmp_path / "kept.jsonl")
    page = tmp_path / "r.html"
    page.write_text("of before")

    def fails(*_: Any, **__: Any) -> str:
        raise simdb.StorageError("no page today")

    with monkeypatch.context() as patched:
        patched.setattr(simdb, "report", fails)
        told = run(*command, "--report", page)
    assert told.exit_code == 3
    assert "no page today" in told.stderr
    kept = (tmp_path / "kept.jsonl").read_text()
    assert len(kept.splitlines()) > 20
    assert page.read_text() == "of before"
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "kept.jsonl", "r.html"}
    (tmp_path / "full.html").symlink_to("/dev/full")
    told = run(*command, "--report", tmp_path / "full.html")
    assert told.exit_code == 3
    assert f"{tmp_path / 'full.html'}" in told.stderr
    assert (tmp_path / "kept.jsonl").read_text() == kept
    (tmp_path / "link.html").symlink_to(tmp_path / "kept.page")
    asked = (*command[:-1], tmp_path / "kept.page", "--report", tmp_path / "link.html")
    assert "two outputs cannot both go to" in failed(*asked)


def test_a_report_may_lie_in_the_folder_that_is_made_for_the_kept_rows(
    tmp_path: Path, no_charts: None
) -> None:
    sources = [write_rows(tmp_path / f"{n}.jsonl", [{"id": n, "text": f"text {n}"}]) for n in "ab"]
    folder = tmp_path / "made"
    done("dedupe", *sources, "--id-field", "id", "-o", f"{folder}/", "--report", folder / "r.html")
    assert {path.name for path in folder.iterdir()} == {"a.jsonl", "b.jsonl", "r.html"}


def test_the_largest_groups_are_shown_beside_the_row_that_is_kept() -> None:
    seen = Removed(is_distance=False)
    for number in range(3_000):
        group = number % 100 if number < 2_000 else 100 + number % 7
        seen.note(number, f"kept {group}", 0.9, partial(str, number))
    largest = [key for key, _ in seen.groups.most_common(7)]
    assert set(largest) <= seen.members.keys()
    assert len(seen.members) == GROUPS_HELD
    assert {len(rows) for rows in seen.members.values()} == {MEMBERS_SHOWN}
    assert sum(seen.groups.values()) == 3_000


def test_no_pair_takes_more_of_the_page_than_its_share() -> None:
    ones, others = ("\n".join(f'"{n + add}" & ' * 40 for n in range(400)) for add in (0, 1_000))
    shown = texts_beside("similarity 0.1", ("a", ones), ("b", others))
    pieces = [piece for left, _, right in shown.lines for piece in (*left, *right)]
    assert sum(len(escape(text)) for text, _ in pieces) <= PAIR_BYTES
    assert ("...", False) in pieces
    equal = texts_beside("similarity 1", ("a", ones), ("b", ones + "more"))
    assert "equal in their first 6,000 characters" in equal.lines[0][0][0][0]


def test_a_report_of_tried_settings_shows_both_sides_of_each_threshold(
    tmp_path: Path, no_charts: None
) -> None:
    rows = texts(30)
    rows.append({"id": "capitals", "text": rows[0]["text"].upper()})
    source = write_rows(tmp_path / "in.jsonl", rows)
    shown = done("tune", source, "--text-field", "text", "--report", tmp_path / "t.html").stdout
    html = (tmp_path / "t.html").read_text()
    found = Page(html)
    command = shown.splitlines()[-1].strip()
    for part in (
        "Settings for in.jsonl",
        command,
        "Settings tried",
        "Threshold 0.8",
        "taken, similarity",
        "let go, similarity",
        "Where other settings disagree",
        "profile chat",
        HOSTILE,
    ):
        assert part in found.text, part
    assert {"svg", "del", "ins"} <= found.tags
    assert HOSTILE not in html
    assert "its name must end in .html" in failed("tune", source, "--report", tmp_path / "t.txt")


@pytest.mark.parametrize(
    "name",
    ["bits:40:hamming", "fingerprint:160:160", "record", "string:alignment", "weighted"],
)
def test_reports_of_other_kinds_show_what_they_are_compared_by(
    name: str, tmp_path: Path, no_charts: None
) -> None:
    examples: Any = ALL[name].examples
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        name = "max_distance" if examples.kind.is_distance else "threshold"
        bound: Any = {name: examples.bound}
        made = db.collection("c", examples.kind, **bound)
        empty = db.collection("empty", examples.kind, **bound)
        made.add_many(list(enumerate([*examples.items, *examples.near])))
        assert "Similar pairs" in Page(simdb.report(made, sample=10)).text
        assert "holds no items" in Page(simdb.report(empty)).text


def test_shingles_of_long_texts_are_not_counted_and_what_removed_rows_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_charts: None
) -> None:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        made = db.collection("c", simdb.Text(), threshold="0.5", seed=1)
        made.add_many([(row["id"], row["text"]) for row in texts(6)])
        assert "shingles: " in simdb.report(made)
        monkeypatch.setattr(collection, "LONG", 100)
        seen = Removed(is_distance=False, by="containment")
        seen.note("part", f"1 {HOSTILE}", 0.9, partial(str, "w0x1 w0x2"))
        of_parts = Page(simdb.report(made, removed=seen)).text
        assert "containment 0.900" in of_parts
        assert "as planned" not in of_parts
        html = simdb.report(made)
        assert "shingles: " not in html
        assert '<h2 id="pairs-1">Similar pairs' in html


def test_what_a_report_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="simdb-store\\[report\\]"):
        charts.sizes([("2", 1)])


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed to open the page in")
def test_a_browser_shows_the_page_without_a_word_of_complaint(page: Path, tmp_path: Path) -> None:
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    own = ("--enable-logging=stderr", "--window-size=390,800", "--dump-dom", page.as_uri())
    found = ended(BROWSER, *flags, f"--user-data-dir={tmp_path}", *own)
    assert "CONSOLE" not in found.stderr
    assert "<title>s.simdb: notes</title>" in found.stdout
    assert "<script" not in found.stdout
    assert "&lt;script&gt;document.title" in found.stdout


@pytest.mark.parametrize("threshold", ["0.502", "0.524", "0.617", "1"])
def test_no_threshold_is_rounded_beyond_what_a_similarity_can_be(tmp_path, no_charts, threshold):
    """The range down from 1, of which a sum of floats went beyond: no output was written."""
    texts = (" ".join(f"w{place}of{number // 2}" for place in range(6)) for number in range(20))
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    command = ["dedupe", source, "-o", tmp_path / "k.jsonl", "--threshold", threshold]
    done(*command, "--id-field", "id", "--report", tmp_path / "page.html")
    assert (tmp_path / "k.jsonl").read_text().count("\n") == 10
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("threshold", "as_distance"),
    grid(["0.6", "0.65", "0.7", "0.75", "0.8", "0.9", "0.95", "1"], [False, True], step=3),
)
def test_what_is_at_the_bound_is_no_near_miss(tmp_path, no_charts, threshold, as_distance):
    share, count = Fraction(threshold), 20
    with simdb.open(tmp_path / "s.simdb") as db:
        if as_distance:
            most = round(20 * (1 - share))  # bits
            made = db.collection("c", simdb.Bits(64), max_distance=most, seed=1)
            rows = [0, (1 << most) - 1, (1 << (most + 1)) - 1 << 40]  # one within, one beyond
            made.add_many((n, row.to_bytes(8, "little")) for n, row in enumerate(rows))
            true = {"within": 1, "beyond": 0}
            found = made.survey(sample=3)
            true["beyond"] = sum(value > most for value in found.values) // 2
        else:
            made = db.collection(
                "c", simdb.Set(), threshold=share, seed=1, exact_floor=0.2, sketch="classical"
            )
            wholes = [range(100 * n, 100 * n + 20) for n in range(count)]
            made.add_many(enumerate(wholes))
            made.add_many((count + n, own[: round(20 * share)]) for n, own in enumerate(wholes))
            true = {"within": count, "beyond": 0}
            found = made.survey(sample=2 * count)
        edges, cut = _edges(found)
        pairs = found.histogram(edges)
        assert len(edges) == RANGES + 1
        assert edges == sorted({*edges})
        sides = [begin >= cut for begin in edges[:-1]]
        within = sum(pair for pair, side in zip(pairs, sides, strict=True) if side != as_distance)
        assert within == pytest.approx(true["within"], rel=0.02)
        assert sum(pairs) - within == pytest.approx(true["beyond"])
        assert f"near misses: about {true['beyond']} pairs" in simdb.report(made)


def test_charts_that_are_drawn_at_once_are_those_drawn_alone():
    """Settings of matplotlib are of the whole process."""
    import matplotlib as mpl

    def drawn(number: int) -> str:
        return charts.histogram([0, 0.5, 1], [number, 2], 0.5, measured="similarity", below=False)

    before, alone = dict(mpl.rcParams), list(map(drawn, range(5)))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(drawn, range(5))) == alone
    assert dict(mpl.rcParams) == before
