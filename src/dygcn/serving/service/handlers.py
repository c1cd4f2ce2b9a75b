"""What each route does: read the request, ask the service, write the answer. No logic of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from dygcn._extras import extra
from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.events.wire import decode_events, without_forgets
from dygcn.engine.events.wire_numbers import reads_slowly
from dygcn.engine.records import DEFAULT_K
from dygcn.errors import OptionError, UnknownNode
from dygcn.live.durable.offsets import CLIENT
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.schema import answers, requests
from dygcn.serving.json_text import encode
from dygcn.serving.service.body_limits import Bodies
from dygcn.serving.service.changes import Waiters, page_of, stream_changes
from dygcn.serving.service.problems import problem
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.workers import letters_of

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.types import Receive, Scope, Send

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
EVENT_STREAM = "text/event-stream"
FORMS = {JSON: "json", NDJSON: "ndjson", ARROW: "arrow"}
_LARGE = 64 << 10  # bytes that are decoded beside the event loop
_LONGEST_WAIT = 60.0
_LONGEST_NAME = 100  # of a client, in characters
_LOOKS, _BETWEEN_LOOKS = 15, 1e-3  # seconds
_SHORT = 2e-3  # seconds that the event loop waits for an update, once: most take less


class Handlers:
    """One method for each route."""

    def __init__(self, service: Service, waiters: Waiters) -> None:
        self.service, self.waiters = service, waiters
        self.kind = service.live.model.ids
        self.related = bool(service.live.model.relations)
        self.bodies = Bodies(self.limits.bodies_bytes)

    @property
    def limits(self) -> Limits:
        """The limits as they are now."""
        return self.service.current.limits

    # ---- events --------------------------------------------------------------------------------------

    async def post_events(self, request: Request) -> Response:
        """Take events in; answer when they are on disk and applied."""
        form = FORMS[content_type(request)]
        client, first, resumes = self._sender(request)
        self.service.ingest_queue.refuse_if_full()
        body = await request.body()
        latest = self.service.latest_time()
        limit, related = self.limits.queued_events, self.related
        if len(body) < _LARGE:
            decoded = decode_events(body, form, self.kind, latest=latest, limit=limit, related=related)
        else:
            decoded = await self.bodies.decode(
                decode_events, body, form, self.kind, latest=latest, limit=limit, related=related
            )
        if decoded.bad and decoded.bad[0].row < 0:
            raise OptionError(f"the body cannot be read: {decoded.bad[0].reason}")
        if client and not decoded.total:
            raise OptionError("there is no event in the request, so it has no sequence; send one at least")
        decoded = without_forgets(decoded)
        position = first + decoded.total - 1 if client else -1
        stream = f"{CLIENT}{client}" if client else ""
        named = position if client else self.service.next_letter()
        letters = tuple(letters_of(decoded.bad, stream, named))
        start = first if client else None
        part = SourceBatch(
            decoded.batch,
            stream,
            position,
            start,
            decoded.rows,
            letters,
            message=named,
            resumes=resumes,
        )
        part.check()
        receipt = await self._apply(part)
        if receipt.status == "gap":
            message = f"sequence {first} comes too early; send {receipt.expected} first"
            return problem("sequence-gap", message, expected=receipt.expected)
        if receipt.status == "forgotten":
            message = (
                f"client {client!r} was forgotten: it was silent for long, or an administrator removed it. "
                f"Its last number was {receipt.expected - 1}: go on with sequence={receipt.expected}"
                f"&expected={receipt.expected}, or begin anew with sequence 0 under another name"
            )
            return problem("forgotten-client", message, expected=receipt.expected)
        if receipt.status == "full":
            message = (
                "no more clients can be followed; reuse a client name, "
                "or have an administrator forget one (DELETE /v1/clients/NAME)"
            )
            return problem("too-many-clients", message, retry_after=60)
        bad = [answers.BadRow(one.row, one.reason) for one in decoded.bad[:10]]
        return respond(answers.Accepted(receipt.sequence, receipt.status, receipt.applied, receipt.dead, bad))

    def _sender(self, request: Request) -> tuple[str, int, bool]:
        client, sequence = request.query_params.get("client", ""), request.query_params.get("sequence", "")
        if bool(client) != bool(sequence):
            raise OptionError("client and sequence belong together: pass both, or neither")
        if len(client) > _LONGEST_NAME or not client.isprintable():
            raise OptionError(f"client is a name of up to {_LONGEST_NAME} printable characters")
        first = whole(sequence, "sequence", 0, 2**62) if client else 0
        expected = request.query_params.get("expected", "")
        if expected and (not client or whole(expected, "expected", 0, 2**62) != first):
            raise OptionError("expected is for a client that was forgotten: pass it with the same sequence")
        return client, first, bool(expected)

    async def _apply(self, part: SourceBatch) -> Receipt:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt] = loop.create_future()

        def answer(result: Receipt | BaseException) -> None:
            loop.call_soon_threadsafe(resolve, done, result)

        async for now in self._looks():
            if not now:
                await run_in_threadpool(self.service.ingest_queue.submit, part, answer)
            elif not self.service.ingest_queue.submit_now(part, answer):
                continue
            break
        return await done

    async def _looks(self) -> AsyncIterator[bool]:
        """Yield true while it is worth a look whether an update has ended; in the end false: stand in line.

        Most updates end soon, and then nobody needs a thread: one that waits for the lock would hold it while
        it waits for its turn to run, and everybody with it (reads beside a stream were ten times slower so).
        But where one long update follows the other, who only looks now and then hardly ever comes in time.
        """
        for _ in range(_LOOKS):
            yield True
            await asyncio.sleep(_BETWEEN_LOOKS)
        yield False

    # ---- vectors -------------------------------------------------------------------------------------

    async def get_vector(self, request: Request) -> Response:
        """Return the vector of one node."""
        node, as_of = self._id(request.path_params["id"]), request.query_params.get("as_of")
        if as_of is not None:
            then = await run_in_threadpool(self.service.past.vectors, as_of, [node])
            if then.missing:
                raise UnknownNode(node, f"; this is as of sequence {then.sequence}")
            vector = then.vectors[0]
            return respond(answers.OneVector(then.sequence, node, vector, then.digest, then.logged))
        far = self.service.live._far
        found = None if far else self.service.vector_now(node, _SHORT)
        if far:
            found = await run_in_threadpool(self.service.vector, node)
        async for now in self._looks():
            if found is not None:
                break
            found = (
                self.service.vector_now(node) if now else await run_in_threadpool(self.service.vector, node)
            )
        assert found is not None
        sequence, vector = found
        if vector is None:
            raise UnknownNode(node)
        return respond(answers.OneVector(sequence, node, vector))

    async def post_vectors(self, request: Request) -> Response:
        """Return the vectors of many nodes, as JSON or Arrow."""
        wanted = await self._read(request, requests.VectorsRequest)
        self._check_count(len(wanted.ids), self.limits.ids, "ids")
        as_of, moment = request.query_params.get("as_of"), {}
        if as_of is None:
            sequence, ids, vectors, missing = await run_in_threadpool(self.service.vectors, wanted.ids)
        else:
            then = await run_in_threadpool(self.service.past.vectors, as_of, wanted.ids)
            sequence, ids, vectors, missing = then.sequence, then.ids, then.vectors, then.missing
            moment = {"digest": then.digest, "logged": then.logged}
        if ARROW in request.headers.get("accept", ""):
            of = pa.int64() if self.kind == "int64" else pa.string()
            return arrow_answer({"id": pa.array(ids, of)}, vectors, sequence, **moment)
        return respond(answers.ManyVectors(sequence, ids, vectors, missing, **moment))

    async def _read(self, request: Request, kind: type[Any]) -> Any:
        """Decode the body of a question."""
        body = await request.body()
        if len(body) < _LARGE:
            return read_body(body, kind)
        return await self.bodies.decode(read_body, body, kind)

    def _id(self, text: str) -> int | str:
        return read_id(text, self.kind)

    # ---- neighbours and scores -----------------------------------------------------------------------

    async def get_nearest(self, request: Request) -> Response:
        """Return the nearest nodes of a node."""
        node, k = self._id(request.path_params["id"]), self._neighbours(request)
        kind = request.query_params.get("kind")
        found = await run_in_threadpool(self.service.nearest_to, node, k, kind)
        if found is None:
            raise UnknownNode(node)
        return respond(found)

    def _neighbours(self, request: Request) -> int:
        return whole(request.query_params.get("k", str(DEFAULT_K)), "k", 1, self.limits.k)

    def _check_count(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise OptionError(f"the request asks for {count} {what}; allowed are up to {most}")

    # ---- changes -------------------------------------------------------------------------------------

    async def get_changes(self, request: Request) -> Response:
        """Return what moved since a place: at once, after a wait, or as a stream that goes on."""
        params = request.query_params
        limit = whole(params.get("limit", "100"), "limit", 1, self.limits.page_rows)
        # A browser that comes back asks for the same address, and says in the header how far it came.
        since = request.headers.get("last-event-id") or params.get("since", "")
        if EVENT_STREAM in request.headers.get("accept", "") and request.method == "GET":
            await page_of(self.service, since, 1)  # a wrong cursor is refused before the stream begins
            self.waiters.enter()
            pages = stream_changes(self.service, self.waiters, since, limit, request.is_disconnected)
            return _Stream(pages, self.waiters.leave)
        wait = seconds(params.get("wait", "0"))
        with self.waiters.entered(wait > 0):
            changes = await self.waiters.until_news(
                lambda: self.service.page(since, limit),
                wait,
                request.is_disconnected,
                beside=self.service.live._far,
            )
        return respond(changes)

    # ---- about ---------------------------------------------------------------------------------------

    async def get_status(self, request: Request) -> Response:
        """Return everything worth knowing at a glance."""
        return respond(await run_in_threadpool(self.service.status))  # it may wait for the disk

    async def get_history(self, request: Request) -> Response:
        """Return the load of the last hour."""
        since = moment(request.query_params.get("since", "0"))
        return respond(await run_in_threadpool(self.service.load_history.since, since))

    async def delete_node(self, request: Request) -> Response:
        """Forget a node, in the writing thread."""
        node = self._id(request.path_params["id"])
        receipt = await self._written(self.service.submit_forget, node)
        return respond(answers.NodeForgotten(**dataclasses.asdict(receipt)))

    async def _written(self, submit: Any, wanted: Any) -> Any:
        """Hand work to the writing thread, and return its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def answer(result: Any) -> None:
            loop.call_soon_threadsafe(resolve, done, result)

        await run_in_threadpool(submit, wanted, answer)
        return await done

    async def delete_client(self, request: Request) -> Response:
        """Follow a client no longer."""
        name = request.path_params["id"]
        if not 0 < len(name) <= _LONGEST_NAME:
            raise OptionError(f"a client has a name of up to {_LONGEST_NAME} characters")
        position = await run_in_threadpool(self.service.live._forget_stream, f"{CLIENT}{name}")
        expected = None if position is None else position + 1
        return respond(
            answers.ClientForgotten(self.service.live.sequence, name, position is not None, expected)
        )

    async def get_alive(self, request: Request) -> Response:
        """Say that the process answers."""
        return respond(answers.Alive(True))

    async def get_ready(self, request: Request) -> Response:
        """Say whether requests should come, and why not."""
        reason = self.service.readiness.reason()
        if reason is not None:
            return problem("not-ready", reason, retry_after=1)
        return respond(answers.Ready(True, self.service.accepting))


class _Stream(StreamingResponse):
    """An answer that goes on; `ended` is called however it ends, also before its first line."""

    def __init__(self, pages: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(pages, media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"})
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def read_id(text: str, kind: str) -> int | str:
    """Read an id from a path.

    Raises
    ------
    UnknownNode
        If it is no id of that kind.
    """
    if kind != "int64":
        return text
    digits = text.removeprefix("-")
    whole_number = digits.isascii() and digits.isdigit() and len(digits) <= 19
    if not whole_number or not -(2**63) <= int(text) < 2**63:
        raise UnknownNode(text, "; its ids are int64")
    return int(text)


def resolve(done: asyncio.Future[Any], result: Any) -> None:
    """Give a waiting request its answer, unless it went away."""
    if done.done():
        return
    if isinstance(result, BaseException):
        done.set_exception(result)
    else:
        done.set_result(result)


def respond(answer: Any, status: int = 200) -> Response:
    """Return an answer as JSON."""
    return Response(encode(answer), status, media_type=JSON)


def arrow_answer(columns: dict[str, pa.Array], vectors: Any, sequence: int, **moment: str) -> Response:
    """Return vectors as an Arrow stream; its metadata has the sequence, and the moment of the past."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float32())
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    table = pa.table(columns).replace_schema_metadata({"sequence": str(sequence), **moment})
    return Response(arrow_stream(table), media_type=ARROW)


def arrow_stream(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_body(body: bytes, kind: type[Any]) -> Any:
    """Decode JSON of a known shape."""
    if reads_slowly(body):
        raise OptionError("the body has too many numbers with exponents of three digits; send plain numbers")
    try:
        return msgspec.json.decode(body, type=kind)
    except NOT_READ as error:
        known = ", ".join(getattr(kind, "__struct_fields__", ()))
        unknown = known and "unknown field" in str(error) and "- at" not in str(error)
        hint = f"; known are {known}" if unknown else ""
        raise OptionError(f"the body cannot be read: {error}{hint}") from None


def content_type(request: Request) -> str:
    """Return the type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def whole(text: str, name: str, least: int, most: int) -> int:
    """Read a whole number from a query."""
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise OptionError(f"{name} is {text[:40]!r}; allowed is a whole number from {least} to {most}")


def seconds(text: str) -> float:
    """Read a time to wait from a query."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _LONGEST_WAIT:
        raise OptionError(f"wait is {text[:40]!r}; allowed are seconds from 0 to {_LONGEST_WAIT:g}")
    return found


def moment(text: str) -> float:
    """Read a time from a query, in seconds since 1970."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise OptionError(f"since is {text[:40]!r}; allowed are seconds since 1970")
    return found


Handler = Callable[[Request], Any]
