"""Trials of changes in the writing thread: their results, and which events would move a node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import UnsetType
from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.events import read_update
from dygcn.engine.events.wire import decode_events, without_forgets
from dygcn.engine.records import EventBatch
from dygcn.errors import OptionError
from dygcn.live.change import TrialMoves
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.finding import Scored
from dygcn.live.recommending import EVERYONE
from dygcn.schema import answers, requests
from dygcn.serving.service.cost_estimate import (
    PATHS_A_ROW,
    RowBudget,
    expected_rows,
    expected_rows_of_ageing,
    expected_rows_of_removal,
    expected_rows_one_by_one,
    rows_of_paths,
)
from dygcn.serving.service.ingest_queue import Answer, EventClock, IngestQueue
from dygcn.serving.service.links import scored_nodes, scores_of_pairs
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.web import RequestParser, respond, route, written

_ROWS_AN_EVENT = 200  # that count for an event which is tried by itself, however little it touches
_TWICE = 2  # a trial writes its change, and writes it back
Id = int | str


class TrialHandlers:
    """Changes that are tried in the writing thread, one at a time, and rolled back."""

    def __init__(
        self,
        parser: RequestParser,
        live: DurableEmbedding,
        queue: IngestQueue,
        clock: EventClock,
        observations: Observations,
        budget: RowBudget,
    ) -> None:
        self._parser, self._live, self._queue, self._clock = parser, live, queue, clock
        self._seen, self._budget = observations, budget

    def submit_trial(self, wanted: requests.WhatIfRequest, answer: Answer) -> None:
        """Queue the trial of a change; `answer` gets an `answers.WhatIfAnswer`, or an exception."""
        self._seen.reads += 1
        batch = self._batch_of(wanted)
        with self._live.lock:
            change = self._rows_of(batch, wanted)
            rows = _TWICE * change + self._rows_queried(wanted, 0 if batch is None else len(batch), change)
        self._budget.check(rows, "try a smaller change, or ask less about it")
        self._queue.submit_work(lambda: self._try(wanted, batch), rows, answer)

    def submit_explanation(self, wanted: requests.ExplainChangeRequest, answer: Answer) -> None:
        """Queue the explanation of a change; `answer` gets an `answers.ExplainedMove`, or an exception."""
        self._seen.reads += 1
        batch = self._batch_of(wanted)
        if batch is None:
            raise OptionError("name a change: events, or add and remove")
        fewer, most = "explain fewer events at once", self._budget.current.limits.query_rows
        self._budget.check(_ROWS_AN_EVENT * len(batch), fewer)  # before they are followed
        with self._live.lock:
            touched = expected_rows_one_by_one(self._live._state, batch, wanted.now, most)
        rows = _TWICE * touched + _ROWS_AN_EVENT * len(batch)
        self._budget.check(rows, fewer)
        self._queue.submit_work(lambda: self._explain(wanted, batch), rows, answer)

    def _explain(self, wanted: requests.ExplainChangeRequest, batch: EventBatch) -> answers.ExplainedMove:
        with self._clock.during_trial():
            found = self._live.explain_change(wanted.id, batch, now=wanted.now)
        whole = found.after.astype(np.float64) - found.before
        waiting, *events = (
            answers.EventMovement(float(np.linalg.norm(moved)), float(moved @ whole))
            for moved in (found.waiting, *found.by_event)
        )
        distance = float(np.linalg.norm(whole))
        return answers.ExplainedMove(self._live.sequence, wanted.id, distance, waiting, events)

    def _batch_of(self, wanted: requests.ChangeRequest) -> EventBatch | None:
        latest, model = self._clock.latest(), self._live.model
        if wanted.now is not None and latest is not None and wanted.now > latest:
            raise OptionError(f"now is {wanted.now:g}; allowed is up to {latest:g}")
        edges = wanted.add is not None or wanted.remove is not None
        if isinstance(wanted.events, UnsetType):
            if not edges:
                return None
            return read_update(None, wanted.add, wanted.remove, model.ids, model.directed)
        if edges:
            raise OptionError("pass either events or add and remove, not both")
        limit, related = self._budget.current.limits.queued_events, bool(model.relations)
        body = bytes(wanted.events)
        found = decode_events(body, "json", model.ids, latest=latest, limit=limit, related=related)
        found = without_forgets(found)
        if found.bad:
            raise OptionError(f"event {found.bad[0].row} cannot be tried: {found.bad[0].reason}")
        return found.batch

    def _rows_of(self, batch: EventBatch | None, wanted: requests.WhatIfRequest) -> int:
        rows, state = 0, self._live._state
        if batch is not None:
            ageing = expected_rows_of_ageing(state, batch, wanted.now, self._budget.current.limits.query_rows)
            rows = expected_rows(state, batch) + ageing
        if wanted.remove_nodes:
            nodes = np.array([state.graph.find_one(one) for one in wanted.remove_nodes], np.int32)
            rows += expected_rows_of_removal(state, nodes[nodes >= 0])
        return rows

    def _rows_queried(self, wanted: requests.WhatIfRequest, events: int, change: int) -> int:
        """Return the rows that the queries read, in a graph grown by as much as the events can add."""
        state = self._live._state
        size = len(state.graph) + 2 * events
        searches = len(wanted.nearest) + len(wanted.recommend)
        rows = searches * (size + min(wanted.k, size)) + len(wanted.vectors) + 2 * len(wanted.scores)
        if rows <= self._budget.current.limits.query_rows and size > EVERYONE:
            rows += rows_of_paths(state, wanted.recommend) + len(wanted.recommend) * change // PATHS_A_ROW
        return rows

    def _try(self, wanted: requests.WhatIfRequest, batch: EventBatch | None) -> answers.WhatIfAnswer:
        """Try a change and answer queries, in the writing thread, so that no other write comes between."""
        live, k = self._live, wanted.k
        tried = live.what_if(batch, remove_nodes=wanted.remove_nodes, now=wanted.now)
        with self._clock.during_trial(), tried as trial:

            def each(ids: list[Id], ask: Callable[[Id], Scored]) -> list[list[answers.ScoredNode] | None]:
                return [scored_nodes(ask(one)) if one in trial else None for one in ids]

            moves = TrialMoves(trial)
            sizes = len(trial), trial.edge_count
            vectors = [trial.vector(one) if one in trial else None for one in wanted.vectors]
            near = each(wanted.nearest, lambda one: trial.nearest(one, k))
            best = each(wanted.recommend, lambda one: trial.recommend(one, k, links=wanted.links))
            scores = scores_of_pairs(trial, wanted.scores, wanted.links)
        with live.lock:
            ids, distance = moves.measure(live)
            left, sequence = moves.left(live), live.sequence
        named = zip(ids[: wanted.moved].tolist(), distance[: wanted.moved].tolist(), strict=True)
        furthest = [answers.WouldMove(one, None if math.isnan(far) else far) for one, far in named]
        kind = live.model.score_kind(wanted.links)
        about = sequence, moves.rows, *sizes, len(moves), furthest, left, kind
        return answers.WhatIfAnswer(*about, vectors, near, best, scores)

    @route("POST /v1/what-if", answers.WhatIfAnswer, body=requests.WhatIfRequest, statuses=(404,))
    async def post_trial(self, request: Request) -> Response:
        """What would be after a change. Nothing is changed.

        Which nodes move and how far, vectors, neighbours, recommendations, scores.
        """
        wanted = await self._parser.body(request, requests.WhatIfRequest)
        limits, check = self._parser.limits, self._parser.check_count
        check(wanted.k, limits.k, "neighbours")
        check(wanted.moved, limits.page_rows, "nodes that would move")
        lists = (wanted.vectors, wanted.nearest, wanted.recommend, wanted.scores)
        check(sum(map(len, lists)), limits.ids, "answers")
        check(len(wanted.remove_nodes or ()), limits.ids, "nodes to remove")
        return await self._submit(self.submit_trial, wanted)

    @route(
        "POST /v1/explain-change", answers.ExplainedMove, body=requests.ExplainChangeRequest, statuses=(404,)
    )
    async def post_explained_change(self, request: Request) -> Response:
        """Which events of a change would move a node, and how far each. Nothing is changed."""
        wanted = await self._parser.body(request, requests.ExplainChangeRequest)
        return await self._submit(self.submit_explanation, wanted)

    async def _submit(self, submit: Callable[..., None], wanted: Any) -> Response:
        edges = len(wanted.add or ()) + len(wanted.remove or ())
        self._parser.check_count(edges, self._parser.limits.queued_events, "edges")
        self._queue.refuse_if_full()
        return respond(await written(submit, wanted))
