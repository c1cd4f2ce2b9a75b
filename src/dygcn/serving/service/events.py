"""Handlers of events and their dead letters, of nodes to forget, and of clients to forget."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.events.wire import decode_events, without_forgets
from dygcn.errors import OptionError
from dygcn.live.durable.dead_letters import MOST, ChosenLetter, chosen, parts_of
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import CLIENT, FULL, Receipt, SourceBatch
from dygcn.schema import answers, requests
from dygcn.serving.service import web
from dygcn.serving.service.ingest_queue import EventClock, IngestQueue, dead_letters_of
from dygcn.serving.service.problems import problem

_LONGEST_NAME = 100  # of a client, in characters
_HIGHEST = 2**62


async def apply_part(queue: IngestQueue, part: SourceBatch) -> Receipt:
    """Put a part into the queue; return its receipt once it is applied."""
    awaited = web.Awaited()
    async for now in web.looks():
        if not now:
            await web.run_in_threadpool(queue.submit, part, awaited.answer)
        elif not queue.submit(part, awaited.answer, blocking=False):
            continue
        break
    receipt: Receipt = await awaited.result
    return receipt


class EventHandlers:
    """Handlers of events and their dead letters, and of nodes and clients to forget."""

    def __init__(
        self, parser: web.RequestParser, live: DurableEmbedding, queue: IngestQueue, clock: EventClock
    ) -> None:
        self._parser, self._live, self._queue, self._clock = parser, live, queue, clock
        self._related = bool(live.model.relations)
        self._numbers = count(time.time_ns())  # of requests without one, which tell their dead letters apart

    @web.route(
        "POST /v1/events",
        answers.Accepted,
        (
            web.Param("client", "Your name, if repeats are to be noticed: goes with sequence.", web.NAME),
            web.Param(
                "sequence",
                "The number of the first event in this request; the next request goes on where it ends.",
                web.NUMBER,
            ),
            web.Param(
                "expected",
                "The same number once more, where the answer was that the client is forgotten.",
                web.NUMBER,
            ),
        ),
        statuses=(409,),
        takes=(web.JSON, web.NDJSON, web.ARROW),
        scope="write",
    )
    async def post_events(self, request: Request) -> Response:
        """Add and remove edges. The answer comes when they are on disk and can be read.

        A bad event goes to the dead letters, the others are applied.
        """
        form = web.FORMS[web.content_type(request)]
        client, first, resumes = _sender(request)
        self._queue.refuse_if_full()
        body = await request.body()
        found = await self._decoded(body, form)
        if found.bad and found.bad[0].row < 0:
            raise OptionError(f"the body cannot be read: {found.bad[0].reason}")
        if client and not found.total:
            raise OptionError("there is no event in the request, so it has no sequence; send one at least")
        found = without_forgets(found)
        offset = first + found.total - 1 if client else -1
        stream = f"{CLIENT}{client}" if client else ""
        message = offset if client else next(self._numbers)
        part = SourceBatch(
            found.batch,
            stream,
            offset,
            first if client else None,
            found.rows,
            tuple(dead_letters_of(found.bad, stream, message)),
            message=message,
            resumes=resumes,
        )
        part.check()
        receipt = await apply_part(self._queue, part)
        if receipt.status in _REFUSALS:
            kind, detail = _REFUSALS[receipt.status]
            expected = receipt.expected
            detail = detail.format(client=client, first=first, last=expected - 1, expected=expected)
            if receipt.status == FULL:
                return problem(kind, detail, retry_after=60)
            return problem(kind, detail, expected=expected)
        bad = [answers.BadRow(one.row, one.reason) for one in found.bad[:10]]
        return web.respond(
            answers.Accepted(receipt.sequence, receipt.status, receipt.applied, receipt.dead, bad)
        )

    async def _decoded(self, body: bytes, form: str) -> Any:
        options: dict[str, Any] = {
            "latest": self._clock.latest(),
            "limit": self._parser.limits.queued_events,
            "related": self._related,
        }
        if len(body) < web.LARGE:
            return decode_events(body, form, self._parser.kind, **options)
        return await self._parser.bodies.decode(decode_events, body, form, self._parser.kind, **options)

    @web.route("DELETE /v1/nodes/{id}", answers.NodeForgotten, (web.ID,), statuses=(404, 429), scope="admin")
    async def delete_node(self, request: Request) -> Response:
        """Forget a node. The answer comes when no file names it.

        It is removed from graph, model, log, snapshots, dead letters and sinks, and old events of it are
        dropped from now on.
        """
        node, now = self._parser.node(request), self._clock.now()

        def submit(answer: Callable[[Any], None]) -> None:
            self._queue.submit_work(lambda: self._live.forget([node], t=now), 1, answer, changes=True)

        receipt = await web.written(submit)
        return web.respond(answers.NodeForgotten(**dataclasses.asdict(receipt)))

    @web.route(
        "DELETE /v1/clients/{id}",
        answers.ClientForgotten,
        (web.Param("id", "The name of the client.", web.NAME, True, place="path"),),
        scope="admin",
    )
    async def delete_client(self, request: Request) -> Response:
        """Follow a client no longer, so that another one can be followed."""
        name = request.path_params["id"]
        if not 0 < len(name) <= _LONGEST_NAME:
            raise OptionError(f"a client has a name of up to {_LONGEST_NAME} characters")
        offset = await web.run_in_threadpool(self._live._forget_stream, f"{CLIENT}{name}")
        expected = None if offset is None else offset + 1
        return web.respond(answers.ClientForgotten(self._live.sequence, name, offset is not None, expected))

    # ---- dead letters ----------------------------------------------------------------------------------

    @web.route(
        "GET /v1/dead-letters",
        answers.DeadLetters,
        (
            web.Param("limit", "How many; 100 by default.", {**web.COUNT, "maximum": 1000}),
            web.Param("before", "Only those with a lower number.", web.NUMBER),
            web.Param("stream", "Only those of a stream.", web.TEXT),
            web.Param("reason", "Only those whose reason has these words in it.", web.TEXT),
        ),
        scope="admin",
    )
    async def get_dead_letters(self, request: Request) -> Response:
        """Events that could not be applied, newest first."""
        params = request.query_params
        limit = web.whole(params.get("limit", "100"), "limit", 1, MOST)
        before = web.whole(params.get("before", str(_HIGHEST)), "before", 0, _HIGHEST)
        return await web.respond_beside(
            self._listed, limit, before, params.get("stream"), params.get("reason")
        )

    def _listed(self, limit: int, before: int, stream: str | None, reason: str | None) -> answers.DeadLetters:
        log = self._live._log
        found = log.dead_letters(limit, before, stream=stream, reason=reason)
        listed = [answers.ListedDeadLetter.of(*one) for one in found]
        return answers.DeadLetters(log.count_dead_letters(), listed)

    @web.route(
        "POST /v1/dead-letters/replay", answers.ReplayResult, body=requests.ReplayRequest, scope="admin"
    )
    async def post_replay(self, request: Request) -> Response:
        """Apply dead letters again, as they are or corrected.

        A dead letter goes in the transaction that logs its event; one that cannot be applied stays, with
        its new reason.
        """
        wanted = await self._parser.body(request, requests.ReplayRequest)
        found, missing = await web.run_in_threadpool(self._chosen, wanted)
        model, latest = self._live.model, self._clock.latest()
        parts = await web.run_in_threadpool(parts_of, found, model.ids, latest, bool(model.relations))
        receipts = [await apply_part(self._queue, part) for part in parts]
        sequence = max((one.sequence for one in receipts), default=self._live.sequence)
        applied, dead = sum(one.applied for one in receipts), sum(one.dead for one in receipts)
        return web.respond(answers.ReplayResult(sequence, applied, dead, missing))

    @web.route(
        "DELETE /v1/dead-letters",
        answers.DiscardResult,
        (
            web.Param("number", "One parameter each.", {**web.IDS, "items": web.WHOLE}),
            web.Param("stream", "Those of a stream.", web.TEXT),
            web.Param("reason", "Those whose reason has these words in it.", web.TEXT),
        ),
        scope="admin",
    )
    async def delete_dead_letters(self, request: Request) -> Response:
        """Discard dead letters: by number, or of a stream and a reason (1,000 at most)."""
        params = request.query_params
        numbers = [web.whole(one, "number", 0, _HIGHEST) for one in params.getlist("number")]
        self._parser.check_count(len(numbers), web.IDS_IN_QUERY, "numbers in its address")
        wanted = requests.ReplayRequest(numbers, params.get("stream"), params.get("reason"))
        found, missing = await web.run_in_threadpool(self._chosen, wanted)
        count = await web.run_in_threadpool(self._live._log.discard, [number for number, *_ in found])
        return web.respond(answers.DiscardResult(self._live.sequence, count, missing))

    def _chosen(self, wanted: requests.ReplayRequest) -> tuple[list[ChosenLetter], list[int]]:
        corrected = {one.number: bytes(one.event) for one in wanted.corrected}
        return chosen(self._live._log, wanted.numbers, corrected, wanted.stream, wanted.reason)


def _sender(request: Request) -> tuple[str, int, bool]:
    """Return the client's name, the offset of its first event, and whether it knows that it was forgotten."""
    client, sequence = request.query_params.get("client", ""), request.query_params.get("sequence", "")
    if bool(client) != bool(sequence):
        raise OptionError("client and sequence belong together: pass both, or neither")
    if len(client) > _LONGEST_NAME or not client.isprintable():
        raise OptionError(f"client is a name of up to {_LONGEST_NAME} printable characters")
    first = web.whole(sequence, "sequence", 0, _HIGHEST) if client else 0
    expected = request.query_params.get("expected", "")
    if expected and (not client or web.whole(expected, "expected", 0, _HIGHEST) != first):
        raise OptionError("expected is for a client that was forgotten: pass it with the same sequence")
    return client, first, bool(expected)


_REFUSALS = {  # by the status of a receipt: type and detail of the problem
    "gap": ("sequence-gap", "sequence {first} comes too early; send {expected} first"),
    "forgotten": (
        "forgotten-client",
        "client {client!r} was forgotten: it was silent for long, or an administrator removed it. "
        "Its last number was {last}: go on with sequence={expected}&expected={expected}, "
        "or begin anew with sequence 0 under another name",
    ),
    FULL: (
        "too-many-clients",
        "no more clients can be followed; reuse a client name, "
        "or have an administrator forget one (DELETE /v1/clients/NAME)",
    ),
}
