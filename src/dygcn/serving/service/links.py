"""Queries about links: recommendations, scores, neighbours, explanations, each with a limit in rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.events.kinds import as_text
from dygcn.engine.records import DEFAULT_K, Float64
from dygcn.errors import UnknownNode
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.finding import Scored, linked_nodes
from dygcn.live.recommending import EVERYONE, links_for, to_probabilities
from dygcn.live.view import EmbeddingView
from dygcn.schema import answers, requests
from dygcn.serving.service import web
from dygcn.serving.service.cost_estimate import RowBudget, rows_of_paths
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.vectors import VectorReads, known_and_missing

Id = int | str


class LinkHandlers:
    """Recommendations, scores, neighbours and explanations; each answer is as of one sequence."""

    def __init__(
        self,
        parser: web.RequestParser,
        live: DurableEmbedding,
        reads: VectorReads,
        observations: Observations,
        budget: RowBudget,
    ) -> None:
        self._parser, self._live, self._reads = parser, live, reads
        self._seen, self._budget, self._graph = observations, budget, live._state.graph

    def recommend(self, wanted: requests.RecommendRequest) -> answers.Recommended:
        """Return the likeliest links of a node."""
        self._seen.reads += 1
        with self._live.lock:
            how = wanted.links, wanted.exclude_linked, wanted.kind
            among, missing = (None, []) if wanted.among is None else self._known(wanted.among)
            links = links_for(self._live._state, wanted.id, *how, among)
            rows = len(self._graph) if among is None else len(among)
            self._check_ranking(rows, [wanted.id], rows, "name fewer nodes in `among`")
            found = self._live.recommend(
                wanted.id,
                wanted.k,
                among=among,
                exclude_linked=wanted.exclude_linked,
                links=links,
                kind=wanted.kind,
            )
            kind = self._live.model.score_kind(links)
            return answers.Recommended(self._live.sequence, wanted.id, kind, scored_nodes(found), missing)

    def _check_ranking(self, rows: int, ids: list[Id], candidates: int, instead: str) -> None:
        """Refuse a ranking of too many rows; the costly count of paths is made only if it matters."""
        self._budget.check(rows, instead)
        if candidates > EVERYONE:
            self._budget.check(rows + rows_of_paths(self._live._state, ids), instead)

    def neighbors(self, node: Id, limit: int) -> answers.Neighbors:
        """Return the nodes that a node has an edge with."""
        self._seen.reads += 1
        with self._live.lock:
            at = self._find(node)
            self._budget.check(self._degree(at), "ask the embedding in Python")
            linked = self._graph.ids.sorted(linked_nodes(self._graph, at))
            names = self._reads.ids_of(linked[:limit])
            return answers.Neighbors(self._live.sequence, node, len(linked), names)

    def explain(self, node: Id, k: int) -> answers.ExplainedVector:
        """Return what each neighbour adds to a vector."""
        self._seen.reads += 1
        with self._live.lock:
            at = self._find(node)
            self._budget.check(self._degree(at) * self._live.model.orders, "explain it in Python")
            found, sequence = self._live.explain(node), self._live.sequence
        names, by_order = map(as_text, found.neighbors[:k].tolist()), found.by_order[:k].tolist()
        of_each = found.by_neighbor.tolist()
        shares = [answers.Share(*one) for one in zip(names, of_each[:k], by_order, strict=True)]
        sums = float(found.vector @ found.vector), found.own, found.rounding, len(found)
        return answers.ExplainedVector(sequence, node, *sums, shares, sum(of_each[k:]))

    def scores(self, pairs: list[tuple[Id, Id]], links: str, probability: bool) -> answers.Scores:
        """Return the scores of pairs, NaN where an id is not in the graph."""
        self._seen.reads += 1
        model = self._live.model
        with self._live.lock:
            found, sequence = scores_of_pairs(self._live, pairs, links), self._live.sequence
        if probability:
            return answers.Scores(sequence, "probability", to_probabilities(model, found, links))
        return answers.Scores(sequence, model.score_kind(links), found)

    def _known(self, ids: list[Id]) -> tuple[list[Id], list[Id]]:
        return known_and_missing(ids, self._reads.nodes(ids))

    def _find(self, node: Id) -> int:
        at = self._graph.find_one(node)
        if at < 0:
            raise UnknownNode(node)
        return at

    def _degree(self, node: int) -> int:
        graph, one = self._graph, np.array([node], np.int32)
        return int(graph.pull.degrees(one)[0]) + (int(graph.push.degrees(one)[0]) if graph.directed else 0)

    # ---- requests --------------------------------------------------------------------------------------

    @web.route("GET /v1/recommend/{id}", answers.Recommended, (web.ID, web.K, web.KIND), statuses=(404,))
    async def get_recommended(self, request: Request) -> Response:
        """The nodes that a node is likeliest to link with, by the learned score."""
        node, k = self._parser.node(request), self._parser.k(request)
        wanted = requests.RecommendRequest(node, k, kind=request.query_params.get("kind"))
        return await web.respond_beside(self.recommend, wanted)

    @web.route("POST /v1/recommend", answers.Recommended, body=requests.RecommendRequest, statuses=(404,))
    async def post_recommended(self, request: Request) -> Response:
        """The same, with its options: candidates, linked nodes, which score."""
        wanted = await self._parser.body(request, requests.RecommendRequest)
        self._parser.check_count(wanted.k, self._parser.limits.k, "nodes")
        self._parser.check_count(len(wanted.among or ()), self._parser.limits.ids, "ids in `among`")
        return await web.respond_beside(self.recommend, wanted)

    @web.route(
        "GET /v1/neighbors/{id}",
        answers.Neighbors,
        (web.ID, web.Param("limit", "How many are named; 100 by default.", web.COUNT, most="page_rows")),
        statuses=(404,),
    )
    async def get_neighbors(self, request: Request) -> Response:
        """With how many nodes a node has an edge now, and the first of them by id."""
        most = self._parser.limits.page_rows
        limit = web.whole(request.query_params.get("limit", "100"), "limit", 1, most)
        return await web.respond_beside(self.neighbors, self._parser.node(request), limit)

    @web.route(
        "GET /v1/explain/{id}",
        answers.ExplainedVector,
        (web.ID, replace(web.K, about=f"How many neighbours; {DEFAULT_K} by default.")),
        statuses=(404,),
    )
    async def get_explanation(self, request: Request) -> Response:
        """What each neighbour of a node adds to its vector, order by order."""
        node, k = self._parser.node(request), self._parser.k(request)
        return await web.respond_beside(self.explain, node, k)

    @web.route("POST /v1/score", answers.Scores, body=requests.ScoresRequest)
    async def post_score(self, request: Request) -> Response:
        """How likely pairs of nodes are linked next."""
        wanted = await self._parser.body(request, requests.ScoresRequest)
        self._parser.check_count(len(wanted.pairs), self._parser.limits.ids, "pairs")
        return await web.respond_beside(self.scores, wanted.pairs, wanted.links, wanted.probability)


def scored_nodes(found: Scored) -> list[answers.ScoredNode]:
    """Return (id, score) pairs as records of the answer."""
    return [answers.ScoredNode(as_text(name), score) for name, score in found]


def scores_of_pairs(view: EmbeddingView, pairs: list[tuple[Id, Id]], links: str) -> Float64:
    """Return the scores of pairs, NaN where an id is not in the graph."""
    graph = view._state.graph
    first = np.array([graph.find_one(a) for a, _ in pairs], np.int32)
    second = np.array([graph.find_one(b) for _, b in pairs], np.int32)
    return np.where((first >= 0) & (second >= 0), view._scores_of(first, second, links), np.nan)
