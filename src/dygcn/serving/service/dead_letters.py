"""Dead letters: listed, replayed as they are or corrected, discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._extras import extra
from dygcn.live.durable.dead_letters import MOST, ChosenLetter, chosen, parts_of
from dygcn.schema import answers, requests
from dygcn.serving.service.events import apply_part
from dygcn.serving.service.routes import IDS_IN_QUERY
from dygcn.serving.service.web import RequestParser, respond, respond_beside, whole

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response

if TYPE_CHECKING:
    from dygcn.live.durable.embedding import DurableEmbedding
    from dygcn.serving.service.clock import EventClock
    from dygcn.serving.service.ingest_queue import IngestQueue

_HIGHEST = 2**62


class DeadLetterHandlers:
    """Handlers of dead letters."""

    def __init__(
        self, parser: RequestParser, live: DurableEmbedding, queue: IngestQueue, clock: EventClock
    ) -> None:
        self._parser, self._live, self._queue, self._clock = parser, live, queue, clock

    async def get_dead_letters(self, request: Request) -> Response:
        """Return events that could not be applied, newest first."""
        params = request.query_params
        limit = whole(params.get("limit", "100"), "limit", 1, MOST)
        before = whole(params.get("before", str(_HIGHEST)), "before", 0, _HIGHEST)
        return await respond_beside(self._listed, limit, before, params.get("stream"), params.get("reason"))

    def _listed(self, limit: int, before: int, stream: str | None, reason: str | None) -> answers.DeadLetters:
        log = self._live._log
        found = log.dead_letters(limit, before, stream=stream, reason=reason)
        listed = [answers.ListedDeadLetter.of(*one) for one in found]
        return answers.DeadLetters(log.count_dead_letters(), listed)

    async def post_replay(self, request: Request) -> Response:
        """Apply dead letters again; those that cannot be applied stay, with their new reason."""
        wanted = await self._parser.body(request, requests.ReplayRequest)
        found, missing = await run_in_threadpool(self._chosen, wanted)
        model, latest = self._live.model, self._clock.latest()
        parts = await run_in_threadpool(parts_of, found, model.ids, latest, bool(model.relations))
        receipts = [await apply_part(self._queue, part) for part in parts]
        sequence = max((one.sequence for one in receipts), default=self._live.sequence)
        applied, dead = sum(one.applied for one in receipts), sum(one.dead for one in receipts)
        return respond(answers.ReplayResult(sequence, applied, dead, missing))

    async def delete_dead_letters(self, request: Request) -> Response:
        """Discard dead letters."""
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
