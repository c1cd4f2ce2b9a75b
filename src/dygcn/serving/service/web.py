"""Declaration of routes beside their handlers, parsing of requests and writing of responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np
import pyarrow as pa

from dygcn._extras import extra
from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.events.wire_numbers import reads_slowly
from dygcn.engine.records import DEFAULT_K
from dygcn.errors import OptionError, UnknownNode
from dygcn.live.durable.feed import PLACE_PATTERN
from dygcn.live.durable.past import MOMENT_PATTERN
from dygcn.serving.json_text import encode
from dygcn.serving.service.bodies import Bodies
from dygcn.serving.service.settings import CurrentSettings

V1 = "/v1"  # before the path of every route that programs use
JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
EVENT_STREAM = "text/event-stream"
FORMS = {JSON: "json", NDJSON: "ndjson", ARROW: "arrow"}  # of events
IDS_IN_QUERY = 100  # an address has a length; bodies take more
H = TypeVar("H", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query or the path."""

    name: str
    about: str
    schema: dict[str, Any]
    required: bool = False
    most: str = ""  # the limit that is its maximum
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Route:
    """A route: allowed requests and possible responses."""

    method: str
    path: str  # with the names of its parameters in braces
    handler: str  # a method of the handlers of a resource
    about: str  # its docstring
    answer: Any = None  # a struct, or a union of them; None: text
    params: tuple[Param, ...] = ()
    body: Any = None  # a struct
    statuses: tuple[int, ...] = ()  # besides 200, and those that every route has
    takes: tuple[str, ...] = ()  # media types of the body, if it is no struct
    media: str = JSON
    scope: str = "read"

    @property
    def forms(self) -> tuple[str, ...]:
        """Media types of the body; none: there is no body."""
        return self.takes if self.body is None else (JSON,)

    @property
    def shapes(self) -> tuple[Any, ...]:
        """The structs that may come back."""
        if isinstance(self.answer, UnionType):
            return get_args(self.answer)
        return () if self.answer is None else (self.answer,)


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
COUNT, SECONDS = {**WHOLE, "minimum": 1}, {"type": "number", "minimum": 0}
NUMBER = {**WHOLE, "minimum": 0, "maximum": 2**62}
IDS = {"type": "array", "items": TEXT, "maxItems": IDS_IN_QUERY}
NAME = {**TEXT, "minLength": 1, "maxLength": 100}
CURSOR = {**TEXT, "pattern": f"^({PLACE_PATTERN})?$"}
ID = Param("id", "The node, by your own id.", {**TEXT, "minLength": 1}, True, place="path")
K = Param("k", f"How many; {DEFAULT_K} by default.", COUNT, most="k")
KIND = Param("kind", 'Of the answers, where nodes have kinds; "*": every kind.', TEXT)
AS_OF = Param(
    "as_of",
    "A moment of the past: a sequence, seconds since 1970 with a decimal point, or a time with its zone "
    "(2026-11-10T12:00Z). The answer has the digest of that moment. One moment is rebuilt at a time.",
    {**TEXT, "pattern": f"^({MOMENT_PATTERN})$"},
)


def route(request: str, answer: Any = None, params: tuple[Param, ...] = (), **more: Any) -> Callable[[H], H]:
    """Declare the route of a handler, whose docstring says what it is about; `more` are fields of `Route`."""

    def declare(handler: H) -> H:
        method, _, path = request.partition(" ")
        about = " ".join((handler.__doc__ or "").split())
        found = Route(method, path, handler.__name__, about, answer, params, **more)
        handler.route = found  # type: ignore[attr-defined]
        return handler

    return declare


with extra("serve"):
    from starlette.concurrency import run_in_threadpool as run_in_threadpool  # for all handlers
    from starlette.requests import Request
    from starlette.responses import Response

LARGE = 64 << 10  # bytes of a body that is decoded beside the event loop
_LOOKS, _BETWEEN_LOOKS = 15, 1e-3  # seconds
Id = int | str


class RequestParser:
    """Reads ids, numbers and bodies of requests, within the current limits."""

    def __init__(self, current: CurrentSettings, kind: str) -> None:
        self.kind, self.limits, self.bodies = kind, current.limits, Bodies(current)

        def follow_settings() -> None:
            self.limits = current.limits

        current.watch(follow_settings)

    def id(self, text: str) -> Id:
        """Parse an id of this graph."""
        return read_id(text, self.kind)

    def node(self, request: Request) -> Id:
        """Parse the id in the path."""
        return read_id(request.path_params["id"], self.kind)

    def k(self, request: Request) -> int:
        """Parse k, the number of nodes to return."""
        return whole(request.query_params.get("k", str(DEFAULT_K)), "k", 1, self.limits.k)

    async def body(self, request: Request, shape: type[Any]) -> Any:
        """Decode a body; a large one in a thread."""
        body = await request.body()
        if len(body) < LARGE:
            return read_body(body, shape)
        return await self.bodies.decode(read_body, body, shape)

    def check_count(self, count: int, most: int, what: str) -> None:
        """Refuse a request for too many items."""
        if count > most:
            raise OptionError(f"the request asks for {count} {what}; allowed are up to {most}")


# ---- requests ----------------------------------------------------------------------------------------


def read_id(text: str, kind: str) -> Id:
    """Parse an id from a path; raise UnknownNode if it is no id of the graph's type."""
    if kind != "int64":
        return text
    digits = text.removeprefix("-")
    whole_number = digits.isascii() and digits.isdigit() and len(digits) <= 19
    if not whole_number or not -(2**63) <= int(text) < 2**63:
        raise UnknownNode(text, "; its ids are int64")
    return int(text)


def read_body(body: bytes, shape: type[Any]) -> Any:
    """Decode JSON of a given type."""
    if reads_slowly(body):
        raise OptionError("the body has too many numbers with exponents of three digits; send plain numbers")
    try:
        return msgspec.json.decode(body, type=shape)
    except NOT_READ as error:
        known = ", ".join(getattr(shape, "__struct_fields__", ()))
        unknown = known and "unknown field" in str(error) and "- at" not in str(error)
        hint = f"; known are {known}" if unknown else ""
        raise OptionError(f"the body cannot be read: {error}{hint}") from None


def content_type(request: Request) -> str:
    """Return the media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def whole(text: str, name: str, least: int, most: int) -> int:
    """Parse an integer of a query."""
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise OptionError(f"{name} is {text[:40]!r}; allowed is a whole number from {least} to {most}")


def seconds(text: str, name: str, most: float, allowed: str) -> float:
    """Parse seconds of a query."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= most:
        raise OptionError(f"{name} is {text[:40]!r}; allowed are seconds {allowed}")
    return found


# ---- responses ---------------------------------------------------------------------------------------


def respond(answer: Any) -> Response:
    """Return an answer as JSON."""
    return Response(encode(answer), media_type=JSON)


async def respond_beside(ask: Callable[..., Any], *arguments: Any) -> Response:
    """Call a function in a thread, and return its result as JSON."""
    return respond(await run_in_threadpool(ask, *arguments))


def arrow_answer(columns: dict[str, pa.Array], vectors: Any, sequence: int, **moment: str) -> Response:
    """Return vectors as an Arrow stream; its metadata has the sequence, and the moment if past."""
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


# ---- waiting for the writing thread ------------------------------------------------------------------


class Awaited:
    """The result of another thread, awaited by a request in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self._loop.create_future()

    def answer(self, result: Any) -> None:
        """Set the result, or an exception, from any thread."""
        self._loop.call_soon_threadsafe(self._resolve, result)

    def _resolve(self, result: Any) -> None:
        if self.result.done():  # the request went away
            return
        if isinstance(result, BaseException):
            self.result.set_exception(result)
        else:
            self.result.set_result(result)


async def written(submit: Callable[..., Any], *arguments: Any) -> Any:
    """Queue work for the writing thread with a callback, and return its result."""
    awaited = Awaited()
    await run_in_threadpool(submit, *arguments, awaited.answer)
    return await awaited.result


async def looks() -> AsyncIterator[bool]:
    """Yield True while polling for the end of an update pays, then False: wait in a thread.

    Most updates end soon. A thread that waits for the lock would hold it while it waits for its turn to run,
    and every other request with it: reads beside a stream were ten times slower so. But where one long update
    follows the other, looking now and then hardly ever comes in time.
    """
    for _ in range(_LOOKS):
        yield True
        await asyncio.sleep(_BETWEEN_LOOKS)
    yield False
