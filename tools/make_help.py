"""Writes the help of all commands into ``docs/command-line.md``, from the commands themselves.

.venv/bin/python -m tools.make_help
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from simdb.cli.app import COMMANDS, function_of
from simdb.cli.options import grouped

GUIDE = Path(__file__).parents[1] / "docs" / "command-line.md"
MARK = "<!-- what follows is made by tools/make_help.py -->\n"
WIDTH = 100
OF_ALL = {"as_json", "quiet", "progress"}  # told once, for all commands


def whole_help() -> str:
    """Return the section: the help of each command, group by group."""
    parts = []
    for group, names in COMMANDS.items():
        pages = "\n\n".join("\n".join(page(name)) for name in names)
        parts.append(f"\n### {group}\n\n```text\n{pages}\n```\n")
    return "".join(parts)


def page(name: str) -> Iterator[str]:
    """Yield the lines of the help of a command."""
    command = grouped(function_of(name))
    told = [
        (*get_args(parameter.annotation), parameter)
        for parameter in inspect.signature(command).parameters.values()
        if get_args(parameter.annotation) and parameter.name not in OF_ALL
    ]
    places = []
    for kind, info, parameter in told:
        if not names_of(info):
            place = spelled(kind, info, parameter)
            if takes_several(kind) and place != "COLLECTION" and not place.endswith("..."):
                place += "..."
            optional = parameter.default is not inspect.Parameter.empty
            places.append(f"[{place}]" if optional else place)
    yield " ".join(["simdb", name, *places])
    for paragraph in inspect.cleandoc(command.__doc__ or "").split("\n\n"):
        yield from wrapped(" ".join(paragraph.split()), 4)
        yield ""
    for kind, info, parameter in told:
        yield from wrapped(spelled(kind, info, parameter), 4)
        yield from wrapped(info.help, 8)


def takes_several(kind: Any) -> bool:
    """Whether what is given for a type is a list."""
    return list in {get_origin(one) or one for one in (kind, *get_args(kind))}


def spelled(kind: Any, info: Any, parameter: inspect.Parameter) -> str:
    """Return an argument or option as it is written, with what it takes and its default."""
    names = names_of(info)
    if not names:
        return str(info.metavar or "|".join(choices(kind)))
    words = [", ".join(names)]
    if bool not in {kind, *get_args(kind)}:
        of_number = {int, float} & {kind, *get_args(kind)}
        words.append(info.metavar or "|".join(choices(kind)) or ("N" if of_number else "NAME"))
    if parameter.default is inspect.Parameter.empty:
        words.append("(required)")
    elif parameter.default not in (None, False):
        words.append(f"({parameter.default})")
    return " ".join(words)


def names_of(info: Any) -> list[str]:
    """Return the names of an option, none of an argument."""
    # Where an option is an annotation, typer keeps the first name as if it were a default.
    return [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]


def choices(kind: Any) -> list[str]:
    """Return the words that an option takes one of; none where it takes anything."""
    kinds = [kind, *get_args(kind)]
    return [word for one in kinds if get_origin(one) is Literal for word in get_args(one)]


def wrapped(text: str, margin: int) -> list[str]:
    """Return text as lines that fit, with a margin."""
    blanks = " " * margin
    return textwrap.wrap(
        text, WIDTH, initial_indent=blanks, subsequent_indent=blanks, break_on_hyphens=False
    )


def main() -> None:
    """Write the guide anew, with the help of the commands as they are."""
    before, _, _ = GUIDE.read_text(encoding="utf-8").partition(MARK)
    GUIDE.write_text(f"{before}{MARK}{whole_help()}", encoding="utf-8")


if __name__ == "__main__":
    main()
