"""What is refused before a request is looked at: by its host, its origin, its size.

A page of another site that a browser shows can send requests to this machine. It can neither read
the answers nor send JSON, as long as no header permits it, unless its own name is made to lead here
(DNS rebinding): then the name of the host is not one of ours. Addresses are no names, so nobody
can make them lead elsewhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeAlias

from starlette.datastructures import Headers
from starlette.responses import Response

from simdb.serve.limits import Settings
from simdb.serve.refusals import RefusedError

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

HARMLESS = ("GET", "HEAD")
_SMALL = 2**16  # bytes of a body that is let in always
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def refused(error: RefusedError) -> Response:
    """Return the answer to what is refused."""
    headers = {} if error.again_after is None else {"retry-after": str(error.again_after)}
    return Response(
        error.body(),
        status_code=error.status,
        media_type="application/json",
        headers=headers,
    )


class Guard:
    """An application behind a guard: each request that reaches it is for us, and small enough."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app = app
        self._limits = settings.limits
        self._names = {"localhost", *(name.lower() for name in settings.names)}
        # Bytes of bodies that have not come whole: a share of the memory, but at least of one.
        self._coming, self._most_coming = 0, max(settings.memory // 4, self._limits.body)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # As it was sent: a key may hold a slash, which is then written %2F.
        scope["path"] = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in there
                ]
            await send(message)

        try:
            self._require_ours(headers)
            if scope["method"] not in HARMLESS:
                _require_own_page(headers)
            body = await self._body(headers, receive)
        except RefusedError as error:
            await refused(error)(scope, receive, send_with_headers)
            return
        given = [body]

        async def receive_body() -> Message:
            if given:
                return {"type": "http.request", "body": given.pop(), "more_body": False}
            return await receive()

        await self._app(scope, receive_body, send_with_headers)

    def _require_ours(self, headers: Headers) -> None:
        name = _name_of(headers.get("host", ""))
        if name in self._names:
            return
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return
        raise RefusedError(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"the service does not answer for the host {name!r}",
            field="Host",
            change=("simdb serve --name NAME lets it answer for a name",),
            name="WrongHost",
        )

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body, which must come in time."""
        most = self._limits.body
        too_large = RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body is larger than {most:,} bytes",
            change=("send fewer items at once", "simdb serve --body MIB permits more"),
            name="TooLarge",
        )
        told = headers.get("content-length", "")
        if told.isascii() and told.isdigit() and int(told) > most:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(HTTPStatus.BAD_REQUEST, "the body ended early")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._coming += len(parts[-1])
                    if size > most:
                        raise too_large
                    if size > _SMALL and self._coming > self._most_coming:
                        raise RefusedError(
                            HTTPStatus.SERVICE_UNAVAILABLE,
                            "too many large requests are coming in",
                            change=("ask again later", "simdb --memory MIB serve permits more"),
                            again_after=1,
                            name="Busy",
                        )
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the body did not come within {self._limits.seconds:g} seconds",
                name="TooSlow",
            ) from None
        finally:
            self._coming -= size


def _name_of(host: str) -> str:
    """Return the name or the address in a Host header, without the port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def _require_own_page(headers: Headers) -> None:
    """Raise unless what may change something comes from no page, or from the service's own."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    own = origin is None or origin.partition("://")[2] == headers.get("host")
    if not own or site not in (None, "none", "same-origin"):
        raise RefusedError(
            HTTPStatus.FORBIDDEN,
            f"pages of another origin ({origin or site}) may send nothing here",
            field="Origin",
            name="WrongOrigin",
        )
