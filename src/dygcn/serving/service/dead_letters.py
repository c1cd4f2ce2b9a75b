"""Dead letters: listed, replayed as they are or corrected, discarded."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from dygcn.live.durable.dead_letters import MOST, ChosenLetter, chosen, parts_of
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.schema import answers, requests
from dygcn.serving.service.clock import EventClock
from dygcn.serving.service.events import apply_part
from dygcn.serving.service.ingest_queue import IngestQueue
from dygcn.serving.service.routes import COUNT, IDS, IDS_IN_QUERY, NUMBER, TEXT, WHOLE, Param, route
from dygcn.serving.service.web import RequestParser, respond, respond_beside, run_in_threadpool, whole

_HIGHEST = 2**62


class DeadLetterHandlers:
    """Handlers of dead letters."""

    def __init__(
        self, parser: RequestParser, live: DurableEmbedding, queue: IngestQueue, clock: EventClock
    ) -> None:
        self._parser, self._live, self._queue, self._clock = parser, live, queue, clock

    @route(
        "GET /v1/dead-letters",
        answers.DeadLetters,
        (
            Param("limit", "How many; 100 by default.", {**COUNT, "maximum": 1000}),
            Param("before", "Only those with a lower number.", NUMBER),
            Param("stream", "Only those of a stream.", TEXT),
            Param("reason", "Only those whose reason has these words in it.", TEXT),
        ),
        scope="admin",
    )
    async def get_dead_letters(self, request: Request) -> Response:
        """Events that could not be applied, newest first."""
        params = request.query_params
        limit = whole(params.get("limit", "100"), "limit", 1, MOST)
        before = whole(params.get("before", str(_HIGHEST)), "before", 0, _HIGHEST)
        return await respond_beside(self._listed, limit, before, params.get("stream"), params.get("reason"))

    def _listed(self, limit: int, before: int, stream: str | None, reason: str | None) -> answers.DeadLetters:
        log = self._live._log
        found = log.dead_letters(limit, before, stream=stream, reason=reason)
        listed = [answers.ListedDeadLetter.of(*one) for one in found]
        return answers.DeadLetters(log.count_dead_letters(), listed)

    @route("POST /v1/dead-letters/replay", answers.ReplayResult, body=requests.ReplayRequest, scope="admin")
    async def post_replay(self, request: Request) -> Response:
        """Apply dead letters again, as they are or corrected.

        A dead letter goes in the transaction that logs its event; one that cannot be applied stays, with
        its new reason.
        """
        wanted = await self._parser.body(request, requests.ReplayRequest)
        found, missing = await run_in_threadpool(self._chosen, wanted)
        model, latest = self._live.model, self._clock.latest()
        parts = await run_in_threadpool(parts_of, found, model.ids, latest, bool(model.relations))
        receipts = [await apply_part(self._queue, part) for part in parts]
        sequence = max((one.sequence for one in receipts), default=self._live.sequence)
        applied, dead = sum(one.applied for one in receipts), sum(one.dead for one in receipts)
        return respond(answers.ReplayResult(sequence, applied, dead, missing))

    @route(
        "DELETE /v1/dead-letters",
        answers.DiscardResult,
        (
            Param("number", "One parameter each.", {**IDS, "items": WHOLE}),
            Param("stream", "Those of a stream.", TEXT),
            Param("reason", "Those whose reason has these words in it.", TEXT),
        ),
        scope="admin",
    )
    async def delete_dead_letters(self, request: Request) -> Response:
        """Discard dead letters: by number, or of a stream and a reason (1,000 at most)."""
        params = request.query_params
        numbers = [whole(one, "number", 0, _HIGHEST) for one in params.getlist("number")]
        self._parser.check_count(len(numbers), IDS_IN_QUERY, "numbers in its address")
        wanted = requests.ReplayRequest(numbers, params.get("stream"), params.get("reason"))
        found, missing = await run_in_threadpool(self._chosen, wanted)
        count = await run_in_threadpool(self._live._log.discard, [number for number, *_ in found])
        return respond(answers.DiscardResult(self._live.sequence, count, missing))

    def _chosen(self, wanted: requests.ReplayRequest) -> tuple[list[ChosenLetter], list[int]]:
        corrected = {one.number: bytes(one.event) for one in wanted.corrected}
        return chosen(self._live._log, wanted.numbers, corrected, wanted.stream, wanted.reason)
