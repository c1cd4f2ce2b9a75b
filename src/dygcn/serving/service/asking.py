"""Handlers of routes that ask: recommendations, neighbours, explanations, scores, trials."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dygcn._extras import extra
from dygcn.engine.models import KINDS
from dygcn.errors import OptionError, UnknownNode
from dygcn.schema import requests
from dygcn.serving.service.changes import Waiters
from dygcn.serving.service.handlers import Handlers, respond, whole
from dygcn.serving.service.node_map import NodeMap
from dygcn.serving.service.questions import Questions
from dygcn.serving.service.routes import IDS_IN_QUERY
from dygcn.serving.service.service import Service

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response

Id = int | str


class Asking(Handlers):
    """The handlers, with those that ask `Questions`."""

    def __init__(self, service: Service, waiters: Waiters) -> None:
        super().__init__(service, waiters)
        self.questions = Questions(service)
        self.node_map = NodeMap(service, self.questions)

    # ---- the graph as it is --------------------------------------------------------------------------

    async def post_nearest(self, request: Request) -> Response:
        """Return the nearest nodes to a vector, or those of many nodes."""
        wanted = await self._read(request, requests.NearestRequest)
        self._check_count(wanted.k, self.limits.k, "neighbours")
        if (wanted.vector is UNSET) == (wanted.ids is UNSET):
            raise OptionError("pass either a vector or ids")
        if wanted.ids is not UNSET:
            self._check_count(len(wanted.ids), self.limits.ids, "ids")
            asked = self.questions.nearest_of, wanted.ids, wanted.k, wanted.by, wanted.kind
            return await self._answer(*asked)
        if wanted.by == "score":
            raise OptionError("by score needs ids: a vector has no degree and no contacts; use by cosine")
        return await self._answer(self.service.nearest, wanted.vector, wanted.k, wanted.kind)

    async def get_recommended(self, request: Request) -> Response:
        """Return the likeliest links of a node."""
        params = request.query_params
        among = self._ids(params.getlist("among")) if "among" in params else None
        links = params.get("links")
        wanted = requests.RecommendRequest(
            self._id(request.path_params["id"]),
            self._neighbours(request),
            among,
            flag(params.get("exclude_linked", "true"), "exclude_linked"),
            None if links is None else one_of_links(links),
            params.get("kind"),
        )
        return await self._recommend(wanted)

    async def post_recommended(self, request: Request) -> Response:
        """Return the likeliest links of a node, among many."""
        return await self._recommend(await self._read(request, requests.RecommendRequest))

    async def _recommend(self, wanted: requests.RecommendRequest) -> Response:
        self._check_count(wanted.k, self.limits.k, "nodes")
        self._check_count(len(wanted.among or ()), self.limits.ids, "ids in `among`")
        return await self._answer(self.questions.recommend, wanted)

    async def get_map(self, request: Request) -> Response:
        """Return some nodes in two dimensions, and where one of them is."""
        node = request.query_params.get("node")
        return await self._answer(self.node_map.answer, None if node is None else self._id(node))

    async def get_neighbors(self, request: Request) -> Response:
        """Return with whom a node is linked."""
        limit = whole(request.query_params.get("limit", "100"), "limit", 1, self.limits.page_rows)
        return await self._answer(self.questions.neighbors, self._id(request.path_params["id"]), limit)

    async def get_explanation(self, request: Request) -> Response:
        """Return what a vector is made of."""
        node, k = self._id(request.path_params["id"]), self._neighbours(request)
        return await self._answer(self.questions.explain, node, k)

    async def get_scores(self, request: Request) -> Response:
        """Return how likely one node is linked next with each of others."""
        params = request.query_params
        node, others = self._id(request.path_params["id"]), self._ids(params.getlist("to"))
        if not others:
            raise OptionError("name at least one other node: ?to=ID&to=ID")
        links, probability = one_of_links(params.get("links", "new")), params.get("probability", "false")
        pairs = [(node, other) for other in others]
        return await self._score(pairs, links, flag(probability, "probability"))

    async def post_score(self, request: Request) -> Response:
        """Return how likely pairs are linked next."""
        wanted = await self._read(request, requests.ScoresRequest)
        self._check_count(len(wanted.pairs), self.limits.ids, "pairs")
        return await self._score(wanted.pairs, wanted.links, wanted.probability)

    async def _score(self, pairs: list[tuple[Id, Id]], links: str, probability: bool) -> Response:
        found = await run_in_threadpool(self.questions.scores, pairs, links, probability=probability)
        return respond(found)

    # ---- the graph as it would be --------------------------------------------------------------------

    async def post_trial(self, request: Request) -> Response:
        """Return what would be after a change."""
        wanted = await self._read(request, requests.WhatIfRequest)
        self._check_count(wanted.k, self.limits.k, "neighbours")
        self._check_count(wanted.moved, self.limits.page_rows, "nodes that would move")
        lists = (wanted.vectors, wanted.nearest, wanted.recommend, wanted.scores)
        self._check_count(sum(map(len, lists)), self.limits.ids, "answers")
        self._check_count(len(wanted.remove_nodes or ()), self.limits.ids, "nodes to remove")
        return await self._try(self.questions.submit_trial, wanted)

    async def post_explanation(self, request: Request) -> Response:
        """Return which events would move a node."""
        wanted = await self._read(request, requests.ExplainChangeRequest)
        return await self._try(self.questions.submit_explanation, wanted)

    async def _try(self, submit: Any, wanted: requests.ChangeRequest) -> Response:
        """Have the writing thread try a change, and answer when it has."""
        edges = len(wanted.add or ()) + len(wanted.remove or ())
        self._check_count(edges, self.limits.queued_events, "edges")
        self.service.ingest_queue.refuse_if_full()
        return respond(await self._written(submit, wanted))

    # ---- reading requests ----------------------------------------------------------------------------

    async def _answer(self, ask: Any, *arguments: Any) -> Response:
        return respond(await run_in_threadpool(ask, *arguments))

    def _ids(self, texts: list[str]) -> list[Id]:
        """Read ids of a query; what cannot be an id of this graph stays text, and is not in it."""
        self._check_count(len(texts), IDS_IN_QUERY, "ids in its address; send more in a body")
        return [self._id_or_text(text) for text in texts]

    def _id_or_text(self, text: str) -> Id:
        try:
            return self._id(text)
        except UnknownNode:
            return text


def flag(text: str, name: str) -> bool:
    """Read yes or no from a query."""
    if text not in ("true", "false"):
        raise OptionError(f"{name} is {text[:40]!r}; allowed are true and false")
    return text == "true"


def one_of_links(text: str) -> Any:
    """Read a kind of links from a query."""
    if text not in KINDS:
        raise OptionError(f"links is {text[:40]!r}; allowed are {', '.join(KINDS)}")
    return text
