"""The command that compiles all kernels in advance."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb import kinds, starting
from simdb.cli.output import AsJson, Quiet, counted, note, print_json
from simdb.errors import UsageError
from simdb.warming import warm as warming


def warm(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND]...", help="Only for these kinds.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compile the kernels that simdb came without, so that no later call has to.

    An installed simdb has them all, but for processors without AVX2; one that is installed to be
    edited has none. Compiled kernels are stored beside simdb, or in the user's cache if that folder
    cannot be written, and serve every Python on processors of the same kind. All kinds take a
    minute or two, texts a few seconds; existing kernels are not compiled again.

    Example: simdb warm text
    """
    own = {kind.examples()[0].kind.name: kind for kind in kinds.OWN}
    for name in names or ():
        if name not in own:
            raise UsageError(f"there is no kind {name!r}; there are {', '.join(own)}")
    starting.before_compiling.clear()  # that is what was asked for
    ready = []
    for name in warming([own[name] for name in names or own]):
        ready.append(name)
        if not quiet:
            note(f"{name}: ready")
    if as_json:
        print_json({"kinds": ready})
    elif not quiet:
        note(f"{counted(len(ready), 'kind', 'kinds')} ready")
