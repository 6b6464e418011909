"""The table of what can be asked: from it requests are routed, and the OpenAPI page is made."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from types import UnionType
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from simdb.serve import messages
from simdb.serve.answers import Service
from simdb.serve.refusals import RefusedError

OPENAPI = "3.1.0"
_GREATEST = 2**63 - 1  # number of anything that is stored
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,59}")  # in its usual spelling; too large ones, too
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_UNKNOWN_CHOICE = re.compile(r"Invalid enum value (.*) - at `\$\.(\w+)`", re.DOTALL)
_WHOLE = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One thing that can be asked.

    Attributes:
        method, path: of the request; names in braces are texts, percent-encoded.
        answer: a method of ``Service``; its arguments are those names, what may follow a question
            mark, and ``asked``, the body.
        writes: whether it changes the store.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    answer: Callable[..., Any]
    writes: bool = False

    @property
    def name(self) -> str:
        """Its name, unique in the table."""
        return self.answer.__name__

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return inspect.cleandoc(self.answer.__doc__ or "").partition("\n")[0]

    @property
    def types(self) -> dict[str, Any]:
        """The types of its arguments and, as ``return``, of its answer."""
        return _types(self.answer)

    @property
    def options(self) -> dict[str, Any]:
        """The types of what may follow a question mark."""
        return {
            name: told
            for name, told in self.types.items()
            if name not in ("asked", "return") and f"{{{name}}}" not in self.path
        } | ({"integer_key": bool} if "{key}" in self.path else {})


@cache
def _types(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


ENDPOINTS = (
    Endpoint("GET", "/health", Service.health),
    Endpoint("GET", "/ready", Service.ready),
    Endpoint("GET", "/collections", Service.store),
    Endpoint("GET", "/collections/{name}", Service.collection),
    Endpoint("GET", "/collections/{name}/stats", Service.stats),
    Endpoint("GET", "/collections/{name}/report", Service.report),
    Endpoint("GET", "/collections/{name}/items/{key}", Service.get),
    Endpoint("GET", "/collections/{name}/items/{key}/group", Service.group_of),
    Endpoint("GET", "/collections/{name}/groups", Service.groups),
    Endpoint("GET", "/collections/{name}/groups/{identity}", Service.group),
    Endpoint("GET", "/collections/{name}/changes", Service.changes),
    Endpoint("POST", "/collections/{name}/search", Service.search),
    Endpoint("POST", "/collections/{name}/explain", Service.explain),
    Endpoint("POST", "/collections/{name}/items", Service.add, writes=True),
    Endpoint("POST", "/collections/{name}/delete", Service.delete, writes=True),
    Endpoint("DELETE", "/collections/{name}/items/{key}", Service.delete_one, writes=True),
)
_ABOUT = {
    "name": "The name of the collection.",
    "key": "The key of an item.",
    "identity": "The id of a group.",
    "integer_key": "The key is a whole number, not a text.",
    "after": "Only groups with a greater id.",
    "since": "Only changes after the one of this number.",
    "limit": "At most so many.",
    "threshold": "The least similarity of the groups, one of those that the collection keeps "
    "groups at; the widest if not given.",
    "max_distance": "The largest distance, likewise.",
}
_QUERIED = {bool: "boolean", str | None: "string"}  # what may follow a question mark; else numbers
_REFERENCE = "#/components/schemas/{name}"


def described(version: str, *, writes: bool) -> dict[str, Any]:
    """Return the table as OpenAPI, without what changes a store that is only read."""
    permitted = [one for one in ENDPOINTS if writes or not one.writes]
    bodies = [one.types["asked"] for one in permitted if "asked" in one.types]
    answers = [told for one in permitted for told in _alternatives(one.types["return"])]
    types = [*bodies, *answers, messages.Failure]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in permitted:
        operation: dict[str, Any] = {
            "operationId": one.name,
            "summary": one.summary,
            "parameters": list(_parameters(one)),
            "responses": {
                "200": _response("The answer.", one, schema_of),
                "default": {
                    "description": "What is wrong, in which field, and what to change.",
                    "content": {"application/json": {"schema": schema_of[str(messages.Failure)]}},
                },
            },
        }
        if "asked" in one.types:
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": schema_of[str(one.types["asked"])]}},
            }
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "simdb",
            "version": version,
            "description": "What is similar to this, and what duplicates what.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _response(about: str, one: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    told = _alternatives(one.types["return"])
    form = "text/html" if str in told else "application/json"
    schemas = [schema_of[str(each)] for each in told]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"description": about, "content": {form: {"schema": schema}}}


def _alternatives(told: Any) -> tuple[Any, ...]:
    """Return the types that an answer has, one for each form of the request."""
    return get_args(told) if isinstance(told, UnionType) else (told,)


def _parameters(one: Endpoint) -> Any:
    defaults = inspect.signature(one.answer).parameters
    for name in one.types:
        if f"{{{name}}}" in one.path:
            kind = "integer" if one.types[name] is int else "string"
            yield {
                **{"name": name, "in": "path", "required": True, "schema": {"type": kind}},
                "description": _ABOUT[name],
            }
    for name, told in one.options.items():
        schema: dict[str, Any] = {"type": _QUERIED.get(told, "integer")}
        default = defaults[name].default if name in defaults else False
        if default is not None:  # which no such type has
            schema["default"] = default
        yield {"name": name, "in": "query", "schema": schema, "description": _ABOUT[name]}


def arguments_of(
    one: Endpoint, path: dict[str, str], query: list[tuple[str, str]], body: bytes
) -> dict[str, Any]:
    """Return the arguments that a request gives, checked; those of a query may not be repeated.

    Raises:
        RefusedError, msgspec.MsgspecError: one of them is not as it should be.
    """
    options = dict(query)
    unknown = options.keys() - one.options.keys()
    if unknown:
        known = ", ".join(one.options) or "none"
        raise RefusedError(
            HTTPStatus.BAD_REQUEST,
            f"there is no parameter {min(unknown)!r}; there are: {known}",
            field=min(unknown),
            name="BadRequest",
        )
    for name, count in Counter(name for name, _ in query).items():
        if count > 1:
            raise RefusedError(
                HTTPStatus.BAD_REQUEST,
                f"{name} is given {count} times",
                field=name,
                name="BadRequest",
            )
    given: dict[str, Any] = {**path, **options}
    for name, text in given.items():
        wanted = {**one.types, **one.options}[name]
        if wanted in (str | int, str | None):  # a key, a bound
            continue
        if wanted is not str:
            try:
                # Only what is left out is None.
                given[name] = (
                    msgspec.convert(text, bool, strict=False)
                    if wanted is bool
                    else _whole_number(text)
                )
            except (msgspec.ValidationError, ValueError):
                what = "true or false" if wanted is bool else "a whole number"
                raise RefusedError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"{name} must be {what}, not {text[:60]!r}",
                    field=name,
                    name="BadRequest",
                ) from None
            if given[name] > _GREATEST:
                raise RefusedError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"{name} must be at most {_GREATEST:,}, not {text[:60]}",
                    field=name,
                    name="BadRequest",
                )
    if given.pop("integer_key", False):
        try:
            given["key"] = _whole_number(given["key"])
        except ValueError:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"the key {given['key'][:60]!r} is not a whole number",
                field="key",
                name="BadRequest",
            ) from None
    if "asked" in one.types:
        given["asked"] = _read(body, one.types["asked"])
    return given


def _whole_number(text: str) -> int:
    """Return a number in its usual spelling; ValueError: it is none."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _read(body: bytes, wanted: Any) -> Any:
    """Read JSON; what is skipped to be read later must be UTF-8, too."""
    try:
        body.decode()
        return msgspec.json.decode(body, type=wanted)
    except UnicodeDecodeError as error:
        raise _bad_json(f"the body is not JSON: no UTF-8 at byte {error.start:,}") from None
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN_CHOICE.fullmatch(str(error))
        if unknown is None:
            raise
        given, field = unknown.groups()
        choices = " or ".join(map(repr, get_args(_types(wanted)[field])))
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{field} must be {choices}, not {given}",
            field=field,
            name="BadRequest",
        ) from None
    except msgspec.DecodeError:
        if _HALF.search(_WHOLE.sub(b"", body)):
            raise _bad_json(
                "the body is not JSON: it has a lone surrogate, half of the escape of a character"
            ) from None
        raise


def _bad_json(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, message, name="BadJson")
