"""What the documents show works: their Python runs and prints what they say, links lead on."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import simdb
from simdb import collection, frames, results
from simdb.answers import choose
from simdb.kinds import tokenisers
from simdb.opened import catalogue

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PYTHON_BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL
)
NOT_RUN = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)  # it takes long
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")


def python_blocks() -> Iterator[Any]:
    """Yield each block of Python, with the block of text that follows it as what it prints."""
    for document in DOCUMENTS:
        for number, (block, printed) in enumerate(PYTHON_BLOCK.findall(document.read_text())):
            yield pytest.param(block, printed, id=f"{document.name}-{number}")


@pytest.mark.parametrize(("block", "printed"), list(python_blocks()))
def test_a_python_block_runs_twice_in_an_empty_folder(block, printed, tmp_path, monkeypatch):
    """Twice, since a script is run again tomorrow on the store of today, if it leaves one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tokenisers, "_TOKENISERS", dict(tokenisers._TOKENISERS))
    code = compile(block, "block.py", "exec")
    for _ in range(2):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, {"__name__": "__main__"})
        assert not printed or output.getvalue() == printed
        if not any(tmp_path.iterdir()):
            return


def test_every_example_of_a_kind_shows_what_it_prints():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "kinds.md").read_text())
    assert len(blocks) >= 10
    assert all(printed for _, printed in blocks)


def test_the_reference_has_every_class_and_function_and_an_example_of_it():
    pages = [page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")]
    given = [(name, getattr(simdb, name)) for name in simdb.__all__]
    public = {name: value for name, value in given if callable(value) and value is not simdb.Key}
    stated = set(re.findall(r"^\.\. auto\w+:: simdb\.(\w+)$", "\n".join(pages), re.MULTILINE))
    assert set(public) <= stated
    shown = " ".join(block + said for page in pages for block, said in PYTHON_BLOCK.findall(page))
    shown += " ".join(block for page in pages for block in NOT_RUN.findall(page))
    errors = {name for name, value in public.items() if is_error(value)}
    assert set(public) - errors <= set(re.findall(r"\w+", shown))


def test_the_page_of_types_lists_the_choices_that_there_are():
    page = (ROOT / "docs" / "reference" / "types.md").read_text()
    choices = {
        "OnExisting": collection.OnExisting,
        "OnDuplicate": collection.OnDuplicate,
        "OnBad": collection.OnBad,
        "DedupeMeasure": collection.DedupeMeasure,
        "Show": frames.Show,
        "AskedGuarantee": choose.AskedGuarantee,
        "Guarantee": results.Guarantee,
        "GroupMethod": catalogue.GroupMethod,
    }
    for name, choice in choices.items():
        (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
        assert tuple(re.findall(r'"(\w+)"', row)) == get_args(choice)


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, simdb.SimdbError)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = HEADING.findall(document.read_text())
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_to_files_and_headings_that_exist(document):
    for name, anchor in LINK.findall(document.read_text()):
        target = document.parent / name if name else document
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


def test_the_two_commands_at_the_top_of_the_readme_exist():
    top = (ROOT / "README.md").read_text().split("## ")[0]
    commands = re.findall(r"^python3 (\S+) (\w+)", top, re.MULTILINE)
    assert [command for _, command in commands] == ["demo", "test"]
    for script, command in commands:
        assert f'"{command}"' in (ROOT / script).read_text()
