"""Handlers of dead letters: listed, replayed (mended or as they are), discarded."""

from __future__ import annotations

from dygcn._extras import extra
from dygcn.live.durable.dead_letters import MOST, ChosenLetter, chosen, parts_of
from dygcn.schema import answers, requests
from dygcn.serving.service.asking import Asking
from dygcn.serving.service.handlers import respond, whole
from dygcn.serving.service.routes import IDS_IN_QUERY

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response

_HIGHEST = 2**62


class Mending(Asking):
    """The handlers, with those of dead letters."""

    async def get_dead_letters(self, request: Request) -> Response:
        """Return events that could not be applied."""
        params = request.query_params
        limit = whole(params.get("limit", "100"), "limit", 1, MOST)
        before = whole(params.get("before", str(_HIGHEST)), "before", 0, _HIGHEST)
        asked = limit, before, params.get("stream"), params.get("reason")
        return respond(await run_in_threadpool(self.service.letters, *asked))

    async def post_replay(self, request: Request) -> Response:
        """Apply dead letters again; those that cannot be applied stay, with their new reason."""
        wanted = await self._read(request, requests.ReplayRequest)
        found, missing = await run_in_threadpool(self._chosen, wanted)
        model, latest = self.service.live.model, self.service.latest_time()
        parts = await run_in_threadpool(parts_of, found, model.ids, latest, bool(model.relations))
        receipts = [await self._apply(part) for part in parts]
        sequence = max((one.sequence for one in receipts), default=self.service.live.sequence)
        applied, dead = sum(one.applied for one in receipts), sum(one.dead for one in receipts)
        return respond(answers.ReplayResult(sequence, applied, dead, missing))

    async def delete_dead_letters(self, request: Request) -> Response:
        """Discard dead letters."""
        params = request.query_params
        numbers = [whole(one, "number", 0, _HIGHEST) for one in params.getlist("number")]
        self._check_count(len(numbers), IDS_IN_QUERY, "numbers in its address")
        wanted = requests.ReplayRequest(numbers, params.get("stream"), params.get("reason"))
        found, missing = await run_in_threadpool(self._chosen, wanted)
        count = await run_in_threadpool(self.service.live._log.discard, [number for number, *_ in found])
        return respond(answers.DiscardResult(self.service.live.sequence, count, missing))

    def _chosen(self, wanted: requests.ReplayRequest) -> tuple[list[ChosenLetter], list[int]]:
        mended = {one.number: bytes(one.event) for one in wanted.mended}
        return chosen(self.service.live._log, wanted.numbers, mended, wanted.stream, wanted.reason)
