"""An id for every request, from the client or made here; answers, log lines and traces carry it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from itertools import count
from typing import Any

ID_HEADER = b"x-request-id"
LONGEST = 128  # characters
_WELL_FORMED = re.compile(rb"[\x21-\x7e]{1,%d}" % LONGEST)

Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[Scope, _Receive, _Send], Awaitable[None]]

REQUEST_ID: ContextVar[str] = ContextVar("dygcn_request_id", default="")
"""The id of the present request, empty outside of one.

It follows a request into the threads of `run_in_threadpool`, and not into the writing thread, where one batch
is made of many requests.
"""


def new_ids() -> Callable[[list[tuple[bytes, bytes]]], bytes]:
    """Return a function from the headers of a request to its id: the client's, or a new one."""
    prefix, numbers = secrets.token_hex(6).encode(), count(1)  # cheaper than a random id each

    def name_of(headers: list[tuple[bytes, bytes]]) -> bytes:
        for name, value in headers:
            if name == ID_HEADER and _WELL_FORMED.fullmatch(value):
                return value
        return b"%b-%x" % (prefix, next(numbers))

    return name_of


def _accept(scope: Scope) -> None:
    return None


class RequestIds:
    """An ASGI layer that gives every HTTP request an id, in its scope, its context and its answer.

    `refusal` may return another application, which answers a request instead.

    The id of a client is taken if it is 1 to 128 printable ASCII characters without blanks: it comes back in
    a header and goes into log lines.
    """

    def __init__(self, app: _App, refusal: Callable[[Scope], _App | None] = _accept) -> None:
        self._app, self._refusal, self._name_of = app, refusal, new_ids()

    async def __call__(self, scope: Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = self._name_of(scope["headers"])
        text = name.decode("ascii")
        scope.setdefault("state", {})["request_id"] = text
        token = REQUEST_ID.set(text)

        async def send_named(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (ID_HEADER, name)]
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, receive, send_named)
        finally:
            REQUEST_ID.reset(token)
