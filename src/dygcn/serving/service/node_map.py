"""A map of some nodes in two dimensions, computed beside the writer and cached while little changes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.records import DEFAULT_K, Float32, Float64, Int64
from dygcn.errors import OptionError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.plotting import communities, keep_labels, neighbour_map, place_beside, turn_onto, unit_rows
from dygcn.schema import answers
from dygcn.serving.service.links import LinkHandlers
from dygcn.serving.service.nearest import NearestSearch
from dygcn.serving.service.vectors import VectorReads
from dygcn.serving.service.web import TEXT, Param, RequestParser, respond_beside, route

NODES, COMMUNITIES = 2_000, 8
_LINKED = 30  # nodes beside one that is asked for
_LEAST_AGE, _SHARE = 2.0, 0.1  # seconds, and of a core that new maps may take
Id = int | str


@dataclass(frozen=True, slots=True)
class _Made:
    sequence: int
    total: int  # nodes of the graph
    ids: list[Id]
    rows: dict[Id, int]
    vectors: Float32
    place: Float64
    label: Int64
    again_at: float  # by the monotonic clock


def points_of(ids: list[Id], place: Float64, label: Int64) -> list[answers.MapPoint]:
    """Return nodes as they are drawn."""
    drawn = zip(ids, place.round(3).tolist(), label.tolist(), strict=True)
    return [answers.MapPoint(one, x, y, community) for one, (x, y), community in drawn]


class MapHandlers:
    """The map of some nodes, cached; one request at a time computes a new one, the others get the last.

    The writer is held up only while vectors are copied. A new map begins with the places of the last one, so
    that nodes stay where they were unless their vectors moved.
    """

    def __init__(
        self,
        parser: RequestParser,
        live: DurableEmbedding,
        reads: VectorReads,
        search: NearestSearch,
        links: LinkHandlers,
    ) -> None:
        self._parser, self._live, self._reads, self._search, self._links = parser, live, reads, search, links
        self._making = threading.Lock()
        self._made: _Made | None = None

    def answer(self, node: Id | None = None) -> answers.Map:
        """Return the map and, if a node is given, its point, even if it is not among the drawn nodes."""
        made = self._latest()
        chosen = None if node is None else self._beside(made, node)
        return answers.Map(
            made.sequence, made.total, COMMUNITIES, points_of(made.ids, made.place, made.label), chosen
        )

    @route(
        "GET /v1/map",
        answers.Map,
        (Param("node", "A node that is placed on the map in any case.", TEXT),),
        statuses=(404,),
    )
    async def get_map(self, request: Request) -> Response:
        """Some nodes in two dimensions, those with near vectors together; and where a node is among them."""
        node = request.query_params.get("node")
        return await respond_beside(self.answer, None if node is None else self._parser.id(node))

    def _latest(self) -> _Made:
        made = self._made
        if made is not None and (made.sequence == self._live.sequence or time.monotonic() < made.again_at):
            return made
        if not self._making.acquire(blocking=made is None):
            assert made is not None
            return made
        try:
            if self._made is made:
                self._made = self._make(made)
            assert self._made is not None
            return self._made
        finally:
            self._making.release()

    def _make(self, before: _Made | None) -> _Made:
        live, begun = self._live, time.thread_time()
        with live.lock:
            nodes = live._state.graph.some_nodes(0, NODES)
            vectors, ids = live._vectors_of(nodes), self._reads.ids_of(nodes)
            sequence, total = live.sequence, len(live._state.graph)
        place, label = _laid_out(ids, vectors, before)
        again_at = time.monotonic() + max(_LEAST_AGE, (time.thread_time() - begun) / _SHARE)
        return _Made(
            sequence, total, ids, {one: i for i, one in enumerate(ids)}, vectors, place, label, again_at
        )

    def _beside(self, made: _Made, node: Id) -> answers.ChosenNode:
        """Return a node with its nearest and linked nodes, each with a place on the map."""
        near = self._search.nearest_to(node, DEFAULT_K)
        try:
            linked = self._links.neighbors(node, _LINKED).neighbors
        except OptionError:  # too many to look at
            linked = []
        near_ids = [one.id for one in near.nodes]
        found = self._reads.vectors(list(dict.fromkeys((node, *near_ids, *linked))))
        points = points_of(found.ids, *_placed(made, found.ids, found.vectors))
        return answers.ChosenNode(found.sequence, node, points, near_ids, linked)


def _laid_out(ids: list[Id], vectors: Float32, before: _Made | None) -> tuple[Float64, Int64]:
    """Return places and communities of nodes, close to those of the previous map."""
    label = communities(vectors, COMMUNITIES)
    at = np.array([-1 if before is None else before.rows.get(one, -1) for one in ids], np.int64)
    known = at >= 0
    if before is None or 2 * known.sum() < max(len(ids), len(before.ids)) or not known.any():
        return neighbour_map(vectors), label
    start = np.zeros((len(ids), 2))
    start[known] = before.place[at[known]]
    start[~known] = place_beside(vectors[known], start[known], vectors[~known])
    place = turn_onto(neighbour_map(vectors, start=start), start, known)
    then = np.full(len(ids), -1, np.int64)
    then[known] = before.label[at[known]]
    return place, keep_labels(label, then, COMMUNITIES)


def _placed(made: _Made, ids: list[Id], vectors: Float32) -> tuple[Float64, Int64]:
    """Return the places of nodes: their own on the map, else beside their nearest drawn nodes."""
    if not made.ids:
        return np.zeros((len(ids), 2)), np.zeros(len(ids), np.int64)
    place = place_beside(made.vectors, made.place, vectors)
    label = made.label[(unit_rows(vectors) @ unit_rows(made.vectors).T).argmax(axis=1)]
    for row, one in enumerate(ids):
        at = made.rows.get(one)
        if at is not None:
            place[row], label[row] = made.place[at], made.label[at]
    return place, label
