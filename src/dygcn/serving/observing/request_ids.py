"""A name for every request, from the client or made here; answers, log lines and traces carry it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from itertools import count
from typing import Any

HEADER = "X-Request-Id"
LONGEST = 128  # characters
ID_HEADER = HEADER.lower().encode()
_WELL_FORMED = re.compile(rb"[\x21-\x7e]{1,%d}" % LONGEST)

Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[Scope, _Receive, _Send], Awaitable[None]]

REQUEST: ContextVar[str] = ContextVar("dygcn_request_id", default="")


def current_request_id() -> str:
    """Return the id of the request that is being answered, empty outside of one.

    It follows a request into the threads of `run_in_threadpool`, and not into the writing thread, where one
    batch is made of many requests.

    Examples
    --------
    >>> current_request_id()
    ''
    """
    return REQUEST.get()


def new_ids() -> Callable[[list[tuple[bytes, bytes]]], bytes]:
    """Return a function that takes the headers of a request and returns its id: the client's, or a new one.

    Examples
    --------
    >>> name = new_ids()
    >>> name([(b"x-request-id", b"order-7")]), name([(b"x-request-id", b"two words")])[-2:]
    (b'order-7', b'-1')
    """
    prefix, numbers = secrets.token_hex(6).encode(), count(1)  # cheaper than a random id each

    def name_of(headers: list[tuple[bytes, bytes]]) -> bytes:
        for name, value in headers:
            if name == ID_HEADER and _WELL_FORMED.fullmatch(value):
                return value
        return b"%b-%x" % (prefix, next(numbers))

    return name_of


class RequestIds:
    """An ASGI layer that gives every HTTP request an id, in its scope, its context and its answer.

    The id of a client is taken if it is 1 to 128 printable ASCII characters without blanks: it comes back in
    a header and goes into log lines.

    Parameters
    ----------
    app
        What answers.
    """

    def __init__(self, app: _App) -> None:
        self._app, self._name_of = app, new_ids()

    async def __call__(self, scope: Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = self._name_of(scope["headers"])
        text = name.decode("ascii")
        scope.setdefault("state", {})["request_id"] = text
        token = REQUEST.set(text)

        async def send_named(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (ID_HEADER, name)]
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        finally:
            REQUEST.reset(token)
