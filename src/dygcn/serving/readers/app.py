"""The requests that a reader answers: current vectors. All other requests are forwarded to the writer.

Refusals, too, are the writer's: a reader sends nothing but answers and, where the writer is gone, 503.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from dygcn._extras import extra
from dygcn.engine.records import Float32
from dygcn.errors import OptionError, UnknownNode
from dygcn.live.shared import RowReader
from dygcn.schema.requests import VectorsRequest
from dygcn.serving.json_text import encode, vector_text
from dygcn.serving.observing.metrics import RequestCounts
from dygcn.serving.readers.upstream import Writer
from dygcn.serving.service.auth import Authorizer
from dygcn.serving.service.bodies import Bodies, Body, coded, coded_beside
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.settings import CurrentSettings
from dygcn.serving.service.web import ARROW, JSON, V1, read_body, read_id

with extra("serve"):
    from starlette.types import Receive, Scope, Send


ONE, MANY = f"{V1}/vectors/{{id}}", f"{V1}/vectors"
_AT_ONCE = 256  # vectors that are read or encoded before other requests have their turn
Answer = tuple[dict[str, str], bytes]  # headers besides type and length, and the body
_TYPE = (b"content-type", JSON.encode())


class ReaderApp:
    """The application of a reader: a plain ASGI callable with a short path to a vector."""

    def __init__(self, rows: RowReader | None, writer: Writer, current: CurrentSettings, kind: str) -> None:
        self._rows, self._writer, self._current, self._kind = rows, writer, current, kind
        self._one = ONE.removesuffix("{id}")
        self.prefix = self._one.encode()
        self.counts = RequestCounts()  # what was answered here since the process began
        self._bodies = Bodies(current)
        current.watch(self._follow_settings)

    def _follow_settings(self) -> None:
        self._authorizer = Authorizer(self._current.http)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or forward the request to the writer."""
        begun, method, path = time.perf_counter(), scope["method"], scope["path"]
        if not scope["query_string"]:
            if method == "GET" and path.startswith(self._one):
                answer = self._vector(path[len(self._one) :], scope["headers"], begun)
                if answer is not None:
                    await _respond(send, *answer)
                    return
            elif method == "POST" and path == MANY:
                await self._post_vectors(scope, receive, send, begun)
                return
        await self._writer.forward(scope, receive, send)

    def answer(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> Answer | None:
        """Return the answer for one node's path, without query or escapes; None: use the ASGI path."""
        return self._vector(url[len(self.prefix) :].decode("ascii"), headers, time.perf_counter())

    def _vector(self, text: str, headers: list[tuple[bytes, bytes]], begun: float) -> Answer | None:
        """Return the answer for one node; None: ask the writer."""
        firsts = _firsts(headers)
        if self._rows is None or not self._may_read(firsts):
            return None
        try:
            node = read_id(text, self._kind)
        except UnknownNode:
            return None
        found = self._rows.vector(node)
        if found is None or found[1] is None:
            return None
        body = b'{"sequence":%d,"id":%b,"vector":%b}' % (found[0], encode(node), vector_text(found[1]))
        answer = coded(body, _accepted(firsts))
        self.counts.count(ONE, 200, time.perf_counter() - begun)
        return answer

    def _may_read(self, headers: dict[bytes, bytes]) -> bool:
        authorization, host = headers.get(b"authorization"), headers.get(b"host")
        return self._authorizer.allows_read(authorization, host)

    # ---- many vectors --------------------------------------------------------------------------------

    async def _post_vectors(self, scope: Scope, receive: Receive, send: Send, begun: float) -> None:
        headers = _firsts(scope["headers"])
        if not self._is_ours(headers):
            await self._writer.forward(scope, receive, send)
            return
        with self._bodies.opened() as body:
            whole = await self._read(receive, body)
            if whole is None:
                return
            read = b"".join(body.chunks)
            answer = await self._vectors(read) if whole else None
            if answer is None:
                await self._writer.forward(scope, receive, send, read, whole=whole)
                return
            self.counts.count(MANY, 200, time.perf_counter() - begun)
            await _respond(send, *await coded_beside(answer, _accepted(headers)))

    def _is_ours(self, headers: dict[bytes, bytes]) -> bool:
        form = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        length = headers.get(b"content-length", b"")
        return (
            form == _TYPE[1]
            and ARROW.encode() not in headers.get(b"accept", b"")
            and b"content-encoding" not in headers
            and length.isdigit()
            and int(length) <= self._current.limits.body_bytes
            and self._may_read(headers)
        )

    async def _read(self, receive: Receive, body: Body) -> bool | None:
        """Read the body. True: complete. False: too large, stream it to the writer. None: the client left."""
        more, chunk = True, b""
        try:
            async with asyncio.timeout(self._current.limits.seconds_to_send):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    more, chunk = message.get("more_body", False), message.get("body", b"")
                    body.take(chunk)
        except TimeoutError:
            pass
        except Overloaded:
            body.chunks.append(chunk)  # it cannot be received twice
        return not more

    async def _vectors(self, body: bytes) -> bytes | None:
        """Return the answer for many nodes; None: ask the writer."""
        try:
            ids = read_body(body, VectorsRequest).ids
        except OptionError:
            return None
        if self._rows is None or len(ids) > self._current.limits.ids:
            return None
        if len(ids) <= _AT_ONCE:
            found = self._rows.vectors(ids)
        else:
            found = await asyncio.get_running_loop().run_in_executor(None, self._rows.vectors, ids)
        return None if found is None else await _many(*found)


def _firsts(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the first header of each name: the one that the writer uses."""
    return dict(reversed(headers))


async def _many(sequence: int, ids: list[Any], vectors: Float32, missing: list[Any]) -> bytes:
    """Encode many vectors in parts, so that other requests are answered in between."""
    parts = [b'{"sequence":%d,"ids":%b,"vectors":[' % (sequence, encode(ids))]
    for first in range(0, len(vectors), _AT_ONCE):
        text = vector_text(vectors[first : first + _AT_ONCE])
        parts += [b"," if first else b"", text[1:-1]]
        await asyncio.sleep(0)
    parts.append(b'],"missing":%b}' % encode(missing))
    return b"".join(parts)


def _accepted(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"accept-encoding", b"").decode("latin-1")


async def _respond(send: Send, fields: dict[str, str], answer: bytes) -> None:
    headers = [_TYPE, (b"content-length", b"%d" % len(answer))]
    headers += [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
