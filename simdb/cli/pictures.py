"""Pictures in files: SVG or PNG by the suffix, and the same file for the same picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from simdb.errors import UsageError
from simdb.extras import require
from simdb.files.writing import Output, require_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".svg", ".png")


def require_picture(name: str, what: str) -> None:
    """Raise unless a picture can be drawn into a file of this name, before long work for it.

    Args:
        name: of the file.
        what: is drawn, in words, for messages.
    """
    path = Path(name)
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{what} is drawn as {' or '.join(_SUFFIXES)}, not as {path.name!r}")
    require("plot", f"a picture of {what} needs", "matplotlib")
    require_folders(name)


@contextmanager
def picture(file: Output, *, height: float = 4.5) -> Iterator[Figure]:
    """Yield a figure that is written to an open file when it is drawn; see ``require_picture``.

    Args:
        file: whose name says the form.
        height: in inches, of 7 in width.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Text as text, and names of the parts without chance.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "simdb"}):
        figure = Figure(figsize=(7, height), layout="constrained")
        yield figure
        form = Path(file.target).suffix.lower()[1:]
        metadata = {"Date": None} if form == "svg" else None
        figure.savefig(file.file, format=form, metadata=metadata)
