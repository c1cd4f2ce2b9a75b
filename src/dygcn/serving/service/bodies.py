"""Bodies: requests are read and decoded within limits, large answers are compressed if accepted.

zstd at level 1 is faster than gzip and makes JSON of vectors shorter (38 and 45 % of 153 kB, 1.3 and 3.8 ms),
so it is preferred. A short answer is never compressed: it would cost more time than its bytes.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from dygcn._extras import extra
from dygcn.errors import OptionError
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.settings import CurrentSettings

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response, StreamingResponse

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd


CODINGS = ("zstd", "gzip")  # as preferred
_SHORTEST = 4 << 10  # bytes of an answer that is compressed; a vector of 128 numbers has 1,550
_BESIDE = 64 << 10  # bytes from which it is done beside the event loop
_LEVEL = 1
_NEVER = re.compile(r"q=0(\.0*)?")
MOST_MEMBERS = 300  # of a body; bgzip writes one for each 64 KiB, 257 for the 16 MiB that are allowed
_FIRST_PIECE = 4 << 10  # bytes of a member that are decoded first
_WINDOW = 27  # log2 of the bytes that a zstd frame may ask for
_TEXTS = ("application/json", "application/problem+json", "text/html", "text/plain")
P = ParamSpec("P")
T = TypeVar("T")


class Bodies:
    """Counts the bytes of all bodies in memory. Lives in the event loop."""

    def __init__(self, current: CurrentSettings) -> None:
        self.current, self.held = current, 0
        self._decoding, self._turn = asyncio.Lock(), asyncio.Lock()

    async def turn(self) -> None:
        """Yield to other requests: one round of the event loop reads one chunk of all bodies."""
        async with self._turn:
            await asyncio.sleep(0)

    async def decode(self, decoder: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Decode a body in a thread, one body at a time, so that other threads stay free for queries."""
        async with self._decoding:
            return await run_in_threadpool(decoder, *args, **kwargs)

    @contextmanager
    def opened(self) -> Iterator[Body]:
        """Yield an empty body; its bytes are released at the end."""
        body = Body(self)
        try:
            yield body
        finally:
            self.held -= body.size


class Body:
    """The body of one request, chunk by chunk."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.chunks: list[bytes] = []
        self.size = 0

    def take(self, chunk: bytes) -> None:
        """Add a chunk; raise Overloaded if all bodies together would exceed the limit."""
        others = self._bodies.held - self.size
        if others and self._bodies.held + len(chunk) > self._bodies.current.limits.bodies_bytes:
            raise Overloaded(1, f"requests of {others} bytes are being read and answered already")
        self._bodies.held += len(chunk)
        self.size += len(chunk)
        self.chunks.append(chunk)


# ---- compression -------------------------------------------------------------------------------------


class TooManyMembers(OptionError):
    """A compressed body of more members than allowed."""


def decoded(body: bytes, coding: str, most: int) -> bytes | None:
    """Return the decompressed body; None if it exceeds `most` bytes, of which no more are kept.

    A decoder copies what it is given behind the end of a member (gzip) or a frame (zstd), so it is given
    little at first, and then as much as the member had so far: all copies together are as long as the body.
    """
    parts: list[bytes] = []
    left, members, rest = most, 0, memoryview(body)
    while rest:
        members += 1
        if members > MOST_MEMBERS:
            raise TooManyMembers(
                f"the body has more than {MOST_MEMBERS} {coding} members or frames; compress it as one"
            )
        decoder, given = _decoder(coding), 0
        while True:
            if given == len(rest):
                raise OptionError(f"the body is not {coding}: it ends too early")
            piece = rest[given : 2 * given + _FIRST_PIECE]
            given += len(piece)
            try:
                parts.append(decoder.decompress(piece, left + 1))
            except (zlib.error, zstd.ZstdError, OSError) as error:
                raise OptionError(f"the body is not {coding}: {error}") from None
            left -= len(parts[-1])
            if left < 0:
                return None
            if decoder.eof:
                break
        rest = rest[given - len(decoder.unused_data) :]  # another member or frame may follow
    return b"".join(parts)


def _decoder(coding: str) -> Any:
    if coding == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})


def accepted(header: str) -> str:
    """Return the coding that the client accepts; empty for none."""
    wanted = {}
    for one in header.lower().split(","):
        name, _, quality = one.partition(";")
        wanted[name.strip()] = _NEVER.fullmatch(quality.strip()) is None
    return next((coding for coding in CODINGS if wanted.get(coding)), "")


async def compressed(response: Response, header: str) -> Response:
    """Compress a response in place, if it is long enough and the client accepts that; return it."""
    if isinstance(response, StreamingResponse) or len(response.body) < _SHORTEST:
        return response
    if response.media_type is None or response.media_type.partition(";")[0] not in _TEXTS:
        return response  # Arrow: float32 hardly becomes shorter
    fields, response.body = await coded_beside(bytes(response.body), header)
    response.headers.update({**fields, "Content-Length": str(len(response.body))})
    return response


async def coded_beside(body: bytes, header: str) -> tuple[dict[str, str], bytes]:
    """Return what `coded` returns; long bodies are compressed in another thread."""
    return await run_in_threadpool(coded, body, header) if len(body) >= _BESIDE else coded(body, header)


def coded(body: bytes, header: str) -> tuple[dict[str, str], bytes]:
    """Return the response headers and the JSON body, compressed as the client accepts."""
    if len(body) < _SHORTEST:
        return {}, body
    fields, coding = {"vary": "Accept-Encoding"}, accepted(header)
    if not coding:
        return fields, body
    return {**fields, "content-encoding": coding}, _encoded(body, coding)


def _encoded(body: bytes, coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(body, _LEVEL, mtime=0)
    return bytes(zstd.compress(body, _LEVEL))
