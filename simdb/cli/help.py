"""The help of commands: options under the headings of their groups, what they take in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from simdb.cli.coercion import refusing_repetition

_TYPE = re.compile(r"<([^<>]*)>")
_LEAST = re.compile(r"x>=([\d.]+)")
_BETWEEN = re.compile(r"([\d.]+)<=x<=([\d.]+)")
# What typer says of a Python type, and what stands for it.
_WORDS = {"str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER"}


class Command(TyperCommand):
    """A command with grouped options in its help."""

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which takes an option of one value once."""
        return refusing_repetition(super().make_parser(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write the arguments; there is one collection at most, though it is parsed as a list."""
        pieces = super().collect_usage_pieces(ctx)
        return ["[COLLECTION]" if piece == "[COLLECTION]..." else piece for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, its own options, and then group by group those it shares."""
        write_options(self.get_params(ctx), ctx, formatter)


def write_options(parameters: Iterable[Any], ctx: Any, formatter: Any) -> None:
    """Write parameters of a command under their headings, what they take in words."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in parameters:
        told = parameter.get_help_record(ctx)
        if told is None:
            continue
        heading = getattr(parameter, "rich_help_panel", None) or "Options"
        name = _TYPE.sub(lambda found: _WORDS.get(found[1], found[1]), told[0])
        if parameter.param_type_name == "argument":
            heading, name = "Arguments", _TYPE.sub("", told[0]).strip()
        text = _LEAST.sub(r"at least \1", _BETWEEN.sub(r"\1 to \2", told[1]))
        sections.setdefault(heading, []).append((name, text))
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
