"""An HTTP client that also sends malformed requests, which the usual ones refuse."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]  # by names in lower case
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


class PlainClient:
    """One connection to a service, opened again when it was closed. Not for several threads at once.

    `address`: such as ``http://127.0.0.1:8470``; `timeout`: seconds to wait for each answer.
    """

    def __init__(self, address: str, timeout: float = 60.0) -> None:
        place = urlsplit(address)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and return the answer.

        Raises `OSError` if the connection breaks; the next request opens another.
        """
        try:
            self._connection.request(method, path, body, dict(headers or {}))
            found = self._connection.getresponse()
            content = found.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ConnectionError(f"{method} {path[:60]}: {type(error).__name__} {error}") from None
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, content)

    def __enter__(self) -> PlainClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
