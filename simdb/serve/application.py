"""The application that a worker runs: routes, threads, time limits, pages."""

from __future__ import annotations

import asyncio
import html
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simdb.errors import SimdbError, StorageError
from simdb.extras import own_version
from simdb.serve.answers import Service
from simdb.serve.endpoints import ENDPOINTS, Endpoint, arguments_of, described
from simdb.serve.guard import Guard, refused
from simdb.serve.limits import MOST_WAITING, Settings
from simdb.serve.refusals import RefusedError, refusal

T = TypeVar("T")
_MOST_SLASHES = 4  # of a path that is looked up by a key
OWN_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report has its styles in itself, and no script.
REPORT_PAGE = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_PARTS = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
# What is said of a write that took too long, and goes on.
_DONE_ANYWAY = {
    "add": '; it may be stored all the same: ask again with "on_existing": "skip"',
    "delete": '; they may be deleted all the same: ask again with "missing": "skip"',
    "delete_one": "; it may be deleted all the same: asked again, 404 says that it is",
}
_ERRORS = (RefusedError, SimdbError, msgspec.MsgspecError, RecursionError, MemoryError, Exception)
_log = logging.getLogger("simdb.serve")


class _Lane:
    """Threads, and the work that waits for them or is being done by them."""

    def __init__(self, threads: int, name: str) -> None:
        self.threads = ThreadPoolExecutor(threads, name)
        self.under_way: set[Future[Any]] = set()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have a thread do some work."""
        running = self.threads.submit(work)
        self.under_way.add(running)
        running.add_done_callback(self.under_way.discard)
        return running


class Worker:
    """What one process has: the store, threads, and the application that asks them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._service: Service | None = None
        self._reads = _Lane(settings.threads, "simdb-serve")
        self._writes = _Lane(settings.threads, "simdb-serve-write")
        # Whether it is ready does not wait for searches, of which some may go on unheard.
        self._checks = _Lane(1, "simdb-serve-ready")
        self._is_warm = False
        self._parts = {name: files("simdb.serve").joinpath(name).read_bytes() for name in _PARTS}
        self._description = described(own_version(), writes=settings.writes)

    @property
    def grace(self) -> int:
        """Seconds that are enough for what is under way when it is to end."""
        return int(self._settings.limits.seconds) + 1

    @property
    def is_busy(self) -> bool:
        """Whether threads do something; only the end of the process ends that."""
        return any(not one.done() for lane in self._lanes for one in tuple(lane.under_way))

    @property
    def _lanes(self) -> tuple[_Lane, ...]:
        return self._reads, self._writes, self._checks

    def application(self) -> Guard:
        """Return the application."""
        routes = [
            Route("/", partial(self._part, "page.html")),
            Route("/page.css", partial(self._part, "page.css")),
            Route("/page.js", partial(self._part, "page.js")),
            Route("/openapi.json", self._openapi),
            Route("/api", self._api),
            *(
                Route(one.path, partial(self._answer, one), methods=[one.method])
                for one in ENDPOINTS
            ),
        ]
        app = Starlette(
            routes=_by_path(routes),
            lifespan=self._opened,
            exception_handlers={HTTPException: _of_http, **dict.fromkeys(_ERRORS, _of_error)},
        )
        app.router.redirect_slashes = False  # such an answer has no body of JSON
        return Guard(app, self._settings)

    @asynccontextmanager
    async def _opened(self, _: Starlette) -> AsyncIterator[None]:
        opening = self._writes.submit(partial(Service, self._settings))
        self._service = await asyncio.wrap_future(opening)
        warming = asyncio.wrap_future(self._reads.submit(self._service.warm))
        warming.add_done_callback(self._warmed)
        patience = 0  # a second Ctrl-C waits for nothing, and ends this at the yield
        try:
            yield
            patience = self.grace
        finally:
            self._end(patience)

    def _end(self, patience: float) -> None:
        """Wait for writes, and close the store unless it is still read, for nobody."""
        for lane in self._lanes:
            lane.threads.shutdown(wait=False, cancel_futures=True)
        wait(self._writes.under_way, timeout=patience)
        if not self.is_busy and self._service is not None:
            self._service.close()

    def _warmed(self, done: asyncio.Future[None]) -> None:
        self._is_warm = True
        error = None if done.cancelled() else done.exception()
        if error is not None:
            _log.error("the first searches failed", exc_info=error)

    # -- requests ------------------------------------------------------------------------------

    async def _answer(self, one: Endpoint, request: Request) -> Response:
        if one.writes and not self._settings.writes:
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                "the service only reads",
                change=("simdb serve --write lets it add and delete",),
                name="ReadOnlyError",
            )
        if one.answer is Service.ready and not self._is_warm:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the first searches are under way",
                again_after=1,
                name="NotReady",
            )
        if "asked" in one.types and not _is_json(request):
            raise RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "the body must be JSON, and its Content-Type application/json",
                field="Content-Type",
                name="NotJson",
            )
        if "asked" in one.types and (coding := _coding(request)) != "identity":
            raise RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the body must be sent as it is, not encoded as {coding!r}",
                field="Content-Encoding",
                name="Encoded",
            )
        body = await request.body()
        if one.answer is Service.health:  # without waiting for a thread
            return self._worked(one, request, body)
        return await self._in_time(partial(self._worked, one, request, body), one)

    def _worked(self, one: Endpoint, request: Request, body: bytes) -> Response:
        """Do what is asked and return its answer."""
        path = {name: _decoded(name, text) for name, text in request.path_params.items()}
        given = arguments_of(one, path, request.query_params.multi_items(), body)
        assert self._service is not None
        try:
            told = one.answer(self._service, **given)
        except StorageError:
            self._service.require_in_place()
            raise
        if isinstance(told, str):
            policy = {"content-security-policy": REPORT_PAGE}
            return Response(told, media_type="text/html", headers=policy)
        return Response(msgspec.json.encode(told, enc_hook=str), media_type="application/json")

    async def _in_time(self, work: Callable[[], T], one: Endpoint) -> T:
        """Return what a thread makes, unless that takes too long, or too many are waiting.

        Writes wait for each other, and for other processes: they have threads of their own, so that
        nobody who reads waits for them.
        """
        lane = self._writes if one.writes else self._reads
        if one.answer is Service.ready:
            lane = self._checks
        if len(lane.under_way) >= MOST_WAITING:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{len(lane.under_way)} requests are waiting",
                change=("ask again later", "simdb serve --workers N starts more workers"),
                again_after=1,
                name="Busy",
            )
        running = lane.submit(work)
        answer = asyncio.wrap_future(running)
        answer.add_done_callback(_note)
        seconds = self._settings.limits.seconds
        if (await asyncio.wait({answer}, timeout=seconds))[0]:
            return answer.result()
        begun = not running.cancel()  # a thread that has begun goes on
        message = f"there was no answer within {seconds:g} seconds"
        if one.writes and begun:
            message += _DONE_ANYWAY.get(one.name, _DONE_ANYWAY["add"])
        raise RefusedError(
            HTTPStatus.GATEWAY_TIMEOUT,
            message,
            change=("ask for less", "simdb serve --timeout SECONDS permits more"),
            name="TooSlow",
        )

    # -- pages ---------------------------------------------------------------------------------

    async def _part(self, name: str, _: Request) -> Response:
        policy = {"content-security-policy": OWN_PAGE}
        return Response(self._parts[name], media_type=_PARTS[name], headers=policy)

    async def _openapi(self, _: Request) -> Response:
        return Response(msgspec.json.encode(self._description), media_type="application/json")

    async def _api(self, _: Request) -> Response:
        policy = {"content-security-policy": OWN_PAGE}
        return Response(_api_page(self._description), media_type="text/html", headers=policy)


def _note(answer: asyncio.Future[Any]) -> None:
    """Look at an answer that nobody waits for any more, too: asyncio reports errors unseen."""
    if not answer.cancelled():
        answer.exception()


def _by_path(routes: list[Route]) -> list[Route]:
    """Return routes, those of one path as one, which then knows all methods that there are."""
    found: dict[str, list[Route]] = {}
    for one in routes:
        found.setdefault(one.path, []).append(one)
    return [several[0] if len(several) == 1 else _together(several) for several in found.values()]


def _together(several: list[Route]) -> Route:
    by_method = {method: one.endpoint for one in several for method in one.methods or ()}

    async def answer(request: Request) -> Response:
        found: Response = await by_method[request.method](request)
        return found

    return Route(several[0].path, answer, methods=list(by_method))


def _is_json(request: Request) -> bool:
    form = request.headers.get("content-type", "").partition(";")[0]
    return form.strip().lower() == "application/json"


def _coding(request: Request) -> str:
    return request.headers.get("content-encoding", "").strip().lower() or "identity"


def _decoded(name: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST, f"{name} is not UTF-8", field=name, name="BadRequest"
        ) from None


async def _of_error(request: Request, error: Exception) -> Response:
    """Answer with what went wrong; a fault is told to the log besides, by who calls this."""
    fault = error.__context__ if isinstance(error, RefusedError) else error
    if isinstance(fault, StorageError):
        _log.error("%s %s: %s", request.method, request.url.path, fault)
    return refused(refusal(error))


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    message, change = error.detail, ["/api lists what can be asked"]
    if status == HTTPStatus.NOT_FOUND:
        message = f"there is nothing at {request.url.path}"
        if request.url.path.count("/") > _MOST_SLASHES:
            change.insert(0, "a slash in a name or a key is written %2F")
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"{request.url.path} takes {allowed}, not {request.method}"
    answer = refused(RefusedError(status, message, change=tuple(change)))
    answer.headers.update(error.headers or {})
    return answer


def _api_page(description: dict[str, Any]) -> str:
    """Return the description as a page."""
    schemas = description["components"]["schemas"]
    parts = []
    for path, methods in description["paths"].items():
        for method, one in methods.items():
            body = one.get("requestBody")
            rows = [
                (each["name"], f"in the {each['in']}", each["description"])
                for each in one["parameters"]
            ]
            about = ""
            if body is not None:
                name = _named(body["content"]["application/json"]["schema"])
                about = schemas[name].get("description", "")
                rows += [
                    (
                        field,
                        _type_of(told),
                        "required" if field in schemas[name].get("required", ()) else "",
                    )
                    for field, told in schemas[name]["properties"].items()
                ]
            answer = next(iter(one["responses"]["200"]["content"].values()))["schema"]
            table = "".join(
                f"<tr><th scope=row><code>{html.escape(a)}</code><td>{html.escape(b)}"
                f"<td>{html.escape(c)}"
                for a, b, c in rows
            )
            parts.append(
                f"<section class=card><h2><b>{method.upper()}</b> <code>{html.escape(path)}</code>"
                f"</h2><p>{html.escape(one['summary'])}</p><p class=quiet>{html.escape(about)}</p>"
                f"<div class=wide><table>{table}</table></div>"
                f"<p class=quiet>Answers: {html.escape(_type_of(answer))}</p></section>"
            )
    kinds = "".join(
        f"<section class=card><h2>{html.escape(name)}</h2>"
        f"<p class=quiet>{html.escape(told.get('description', ''))}</p><div class=wide><table>"
        + "".join(
            f"<tr><th scope=row><code>{html.escape(field)}</code><td>{html.escape(_type_of(what))}"
            for field, what in told.get("properties", {}).items()
        )
        + "</table></div></section>"
        for name, told in sorted(schemas.items())
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><title>simdb: what can be asked</title>'
        '<link rel="stylesheet" href="page.css"></head><body><main><h1>What can be asked</h1>'
        '<p class="quiet"><a href="openapi.json">openapi.json</a> says the same for programs. '
        '<a href="./">The page to try it</a></p>'
        f"{''.join(parts)}<h1>What requests and answers consist of</h1>{kinds}"
        "</main></body></html>"
    )


def _named(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type_of(schema: dict[str, Any]) -> str:
    """Return the type that a schema says, in a few words."""
    if "$ref" in schema:
        return _named(schema)
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(map(_type_of, schema["anyOf"]))
    if schema.get("type") == "array" and "items" in schema and schema["items"]:
        return f"list of {_type_of(schema['items'])}"
    return str(schema.get("type", "any"))
