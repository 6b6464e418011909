"""What typer makes of words, without pydantic where a word stays as it is.

typer checks every option by an adapter of pydantic, also what was not given and what is a text, and
importing pydantic takes longer than a search. So an adapter is made where a value needs one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_origin

from typer import core

from simdb.errors import UsageError


class _Coercion:
    """How a parameter becomes a value."""

    def __init__(self, described: Any, usual: Callable[[Any], Any]) -> None:
        self._described = described
        self._usual = usual

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of what was given, or of a default."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        kind = self._described.annotation
        if kind == list[str] and all(type(one) is str for one in value):
            return list(value)
        if _stays(value, kind):
            return value
        return self._usual(self._described).coerce(value, param=param, ctx=ctx)


def _stays(value: Any, kind: Any) -> bool:
    """Whether a value is what it shall become; a number is so as a default alone."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind in {str, bool, int, float} and type(value) is kind


def refusing_repetition(parser: Any) -> Any:
    """Let the parser of a command refuse an option of one value that is given more than once.

    Of several values the last would win. The parser notes a parameter each time that it is given.
    """
    parse = parser.parse_args

    def parse_args(args: list[str]) -> tuple[Any, list[str], Sequence[Any]]:
        values, rest, given = parse(args)
        for parameter, times in Counter(given).items():
            is_one = parameter.param_type_name == "option" and not parameter.is_flag
            if is_one and times > 1 and not parameter.multiple:
                raise UsageError(f"{parameter.opts[0]} takes one value, but is given {times} times")
        return values, rest, given

    parser.parse_args = parse_args
    return parser


def make_adapters_late() -> None:
    """Let typer make an adapter when a value needs one; versions that have none are left alone."""
    usual = getattr(core, "build_runtime_param", None)
    if usual is not None:
        vars(core)["build_runtime_param"] = lambda described: _Coercion(described, usual)
