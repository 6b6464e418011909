"""Pictures in files: SVG or PNG by the suffix, and the same file for the same picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from simdb.errors import UsageError
from simdb.extras import of_extra
from simdb.files.writing import written_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".svg", ".png")


@contextmanager
def picture(path: Path, what: str, *, height: float = 4.5) -> Iterator[Figure]:
    """Yield a figure that is written to a file when it is drawn; the file appears complete.

    Args:
        path: of the file.
        what: is drawn, in words, for messages.
        height: in inches, of 7 in width.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{what} is drawn as {' or '.join(_SUFFIXES)}, not as {path.name!r}")
    with of_extra("plot", f"a picture of {what} needs"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    # Text as text, and names of the parts without chance.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "simdb"}):
        figure = Figure(figsize=(7, height), layout="constrained")
        yield figure
        form = path.suffix.lower()[1:]
        with written_together(str(path)) as (file,):
            metadata = {"Date": None} if form == "svg" else None
            figure.savefig(file.file, format=form, metadata=metadata)
