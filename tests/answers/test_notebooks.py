"""Pictures in notebooks: plans, audits, groups and pairs, with what a store holds escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import simdb

HOSTILE = "<script>alert(1)</script>&\"'"


class Parsed(HTMLParser):
    """The tags and the text of a page; what is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_answers_draw_themselves_in_notebooks(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.collection("c", simdb.Set(), seed=1)
        sets.add_many((f"{n} {HOSTILE}", [*range(30), n]) for n in range(40))
        pairs = sets.pairs(guarantee="exact")
        token = pairs.token
        drawn = {
            "pairs": Parsed(pairs._repr_html_()),
            "matches": Parsed(sets.search([*range(30)])._repr_html_()),
            "groups": Parsed(sets.groups()._repr_html_()),
            "plan": Parsed(sets.plan._repr_html_()),
            "audit": Parsed(sets.self_audit(sample=5)._repr_html_()),
        }
        assert pairs.token == token
        assert "the first 20 pairs" in drawn["pairs"].text
        assert "0 pairs" in Parsed(sets.pairs(threshold=1)._repr_html_()).text
        assert "40 matches, the best 20 of them" in drawn["matches"].text
        for name in ("pairs", "matches", "groups"):
            assert HOSTILE in drawn[name].text
        assert "1 group of 40 items" in drawn["groups"].text
        assert "recall measured" in drawn["audit"].text
        assert "svg" in drawn["plan"].tags
        assert all("script" not in one.tags for one in drawn.values())
        people = db.collection("p", simdb.Record([simdb.Field("name")]), threshold="0.8")
        people.add_many((n, {"name": "Ann"}) for n in range(3))
        assert "by rule" in Parsed(people.self_audit()._repr_html_()).text
        assert "made for" in Parsed(people.plan._repr_html_()).text
