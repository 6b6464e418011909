"""What typer makes of words, without pydantic where a word stays as it is.

typer checks every option by an adapter of pydantic, also what was not given and what is a text, and
importing pydantic takes longer than a search. So an adapter is made where a value needs one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from typer import core


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


def make_adapters_late() -> None:
    """Let typer make an adapter when a value needs one; versions that have none are left alone."""
    usual = getattr(core, "build_runtime_param", None)
    if usual is not None:
        vars(core)["build_runtime_param"] = lambda described: _Coercion(described, usual)
