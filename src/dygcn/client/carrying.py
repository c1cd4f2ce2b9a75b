"""What both clients share: where the service is, who asks, and requests in the words of httpx."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dygcn._extras import extra
from dygcn.client.questions import Questions
from dygcn.client.steps import Lost, Reply, Request
from dygcn.client.trying import Trying
from dygcn.errors import OptionError

with extra("client"):
    import httpx

TOKEN = "DYGCN_TOKEN"
_TO_CONNECT = 5.0  # seconds
# Idle connections are given up before the service closes them (after 5 s): a request on one that is being
# closed gets no answer, and without a name nobody would know whether it arrived.
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Settings:
    """The arguments of a client, checked.

    Parameters
    ----------
    url
        Such as ``"http://127.0.0.1:8470"``.
    name
        Under which events are counted, so that none is applied twice; one sender, one name.
    token
        By default that of the environment variable DYGCN_TOKEN, if there is one.
    timeout
        Seconds for a request, its repeats included.
    """

    def __init__(self, url: str, name: str | None, token: str | None, timeout: float) -> None:
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise OptionError("url is none; allowed is one as http://127.0.0.1:8470")
        if place.username is not None or place.password is not None:
            raise OptionError("url has a user or a password in it; pass a token as token=, or in DYGCN_TOKEN")
        if not timeout > 0:
            raise OptionError(f"timeout is {timeout}; allowed are seconds above 0")
        token = os.environ.get(TOKEN) if token is None else token
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise OptionError("the token has characters that no token has; copy what `dygcn token` printed")
        self.url, self.questions = url.rstrip("/"), Questions(Trying(timeout), name)
        self.headers = {"User-Agent": "dygcn-client"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.shown = f"({self.url!r}{'' if name is None else f', name={name!r}'})"


def signature_of(operation: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a method that returns the result of an operation."""
    found = inspect.signature(operation)
    result = str(found.return_annotation).removeprefix("Operation[").removesuffix("]")
    return found.replace(return_annotation=result)


def as_httpx(request: Request) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    return {
        "method": request.method,
        "url": request.path,
        "params": list(request.query),
        "content": request.body,
        "headers": dict(request.headers),
        "timeout": httpx.Timeout(request.seconds, connect=min(_TO_CONNECT, request.seconds)),
    }


def reply_of(response: httpx.Response) -> Reply:
    """Return what the service answered."""
    return Reply(response.status_code, response.headers, response.content)


def lost_by(error: httpx.RequestError) -> Lost:
    """Return what is known of a request without an answer."""
    return Lost(f"{type(error).__name__} {error}".strip(), sent=not isinstance(error, _NOT_SENT))
