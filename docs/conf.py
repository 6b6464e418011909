"""How Sphinx makes the site of these pages: ``python3 tools/run.py check``."""

import importlib.metadata
from typing import Any

from pygments.lexers.special import TextLexer

project = "simdb"
release = importlib.metadata.version("simdb-store")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "simdb"
html_show_copyright = False
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
napoleon_use_rtype = False

# Pages of the root that have a page of the site, which includes them.
ROOT_PAGES = {"SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md"}


def _to_pages_of_the_site(_app: Any, name: str, source: list[str]) -> None:
    """Let links to pages of the root lead to those that include them."""
    up = "../" * name.count("/")
    for root, page in ROOT_PAGES.items():
        source[0] = source[0].replace(f"](../{up}{root}", f"]({up}{page}")


# What callers get and do not make, so that the arguments of the class tell them nothing.
RETURNED = ("simdb.results", "simdb.evidence", "simdb.collection", "simdb.database", "simdb.upkeep")


def _without_arguments(_app: Any, what: str, _name: str, value: Any, *_rest: Any) -> Any:
    """Leave the signature out of classes that calls return."""
    is_returned = what == "class" and value.__module__.startswith(RETURNED)
    return ("", None) if is_returned and not issubclass(value, dict) else None


def setup(app: Any) -> None:
    """Tell Sphinx what is special here."""
    app.add_lexer("hex", TextLexer)
    app.connect("source-read", _to_pages_of_the_site)
    app.connect("autodoc-process-signature", _without_arguments)
