"""Vectors of nodes, now or as of an earlier moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.events import python_ids
from dygcn.engine.records import Float32, Nodes
from dygcn.errors import NoSuchPast, UnknownNode
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.past import PastEmbedding, open_past, read_moment
from dygcn.schema import answers, requests
from dygcn.serving.service import web
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.observations import Observations

_UNTIL_STRAIGHT = 0.25  # seconds of waiting for an update, after which a shard is read without the lock
_SHORT = 2e-3  # seconds that the event loop waits for an update, once: most take less
_COME_AGAIN = 5  # seconds
Id = int | str


def known_and_missing(ids: list[Id], nodes: Nodes) -> tuple[list[Id], list[Id]]:
    """Return the ids that are in the graph, and those that are not."""
    known = (nodes >= 0).tolist()
    here = [one for one, found in zip(ids, known, strict=True) if found]
    return here, [one for one, found in zip(ids, known, strict=True) if not found]


class VectorReads:
    """Current vectors. Every read takes the embedding's lock, so none sees half an update."""

    def __init__(self, live: DurableEmbedding, observations: Observations) -> None:
        self._live, self._seen = live, observations
        self._graph, self._cache = live._state.graph, live._cached()

    def vector(self, node: Id) -> tuple[int, Float32 | None]:
        """Return the sequence and the vector of a node; None for the vector if it is not in the graph."""
        self._seen.reads += 1
        if not self._live.lock.acquire(timeout=_UNTIL_STRAIGHT):
            straight = self._live._read_straight(node)
            if straight is not None:
                return straight
            self._live.lock.acquire()
        try:
            return self._live.sequence, self.find(node)[1]
        finally:
            self._live.lock.release()

    def vector_now(self, node: Id, wait: float = 0.0) -> tuple[int, Float32 | None] | None:
        """Return what `vector` returns; None if that would wait longer than `wait` for an update."""
        if not self._live.lock.acquire(timeout=wait):
            return None
        try:
            return self.vector(node)
        finally:
            self._live.lock.release()

    def vectors(self, ids: list[Id]) -> answers.ManyVectors:
        """Return the vectors of the ids that are in the graph."""
        self._seen.reads += 1
        with self._live.lock:
            nodes = self.nodes(ids)
            vectors = self._cache.refresh(nodes[nodes >= 0])[0]
            here, missing = known_and_missing(ids, nodes)
            return answers.ManyVectors(self._live.sequence, here, vectors, missing)

    def find(self, node: Id) -> tuple[int, Float32 | None]:
        """Return the number and the vector of a node; (below 0, None) if it is not in the graph."""
        with self._live.lock:
            at = self._graph.find_one(node)
            return at, self._cache.one(at) if at >= 0 else None

    def nodes(self, ids: Sequence[Id]) -> Nodes:
        """Return the numbers of nodes; below 0 for ids that are not in the graph."""
        return np.array([self._graph.find_one(one) for one in ids], np.int32)

    def ids_of(self, nodes: Nodes) -> list[Id]:
        """Return the user's ids of nodes."""
        found: list[Id] = python_ids(self._graph.ids.names(nodes)).tolist()
        return found


# ---- the past ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    as_of: str
    embedding: PastEmbedding
    digest: str
    forgotten: int  # ids, when it was rebuilt


class PastReads:
    """Vectors as of earlier moments: one is rebuilt at a time, the last one is cached. Writers go on."""

    def __init__(self, live: DurableEmbedding) -> None:
        self._live = live
        self._kept: _Rebuilt | None = None
        self._rebuilding = threading.Lock()

    def vectors(self, as_of: str, ids: list[Id]) -> answers.ManyVectors:
        """Return the vectors of nodes as of a sequence or a time."""
        kept = self._at(as_of)
        then = kept.embedding
        with then._guard.lock:
            nodes = np.array([then._state.graph.find_one(one) for one in ids], np.int32)
            vectors = then._vectors_of(nodes[nodes >= 0])
        here, missing = known_and_missing(ids, nodes)
        logged = then.logged.isoformat().replace("+00:00", "Z")  # a plus is a space in an address
        return answers.ManyVectors(then.sequence, here, vectors, missing, kept.digest, logged)

    def _at(self, as_of: str) -> _Rebuilt:
        kept, forgotten = self._kept, self._live._forgetting.summary().ids
        if kept is not None and kept.as_of == as_of and kept.forgotten == forgotten:
            return kept
        sequence, moment = read_moment(as_of)
        if sequence is not None and sequence > self._live.sequence:
            raise NoSuchPast(f"sequence {sequence} is still to come; the last is {self._live.sequence}")
        if not self._rebuilding.acquire(blocking=False):
            raise Overloaded(_COME_AGAIN, "another moment of the past is being rebuilt")
        try:
            self._kept = None  # two of them would be in memory
            embedding = open_past(Path(self._live._folder), as_of)
            found = _Rebuilt(as_of, embedding, embedding.digest(), forgotten)
            later = moment is not None and moment < self._live._log.last_logged  # and so are all to come
            if as_of.strip() != "now" and (moment is None or later):
                self._kept = found
            return found
        finally:
            self._rebuilding.release()


class VectorHandlers:
    """Handlers of vectors."""

    def __init__(self, parser: web.RequestParser, reads: VectorReads, past: PastReads, *, far: bool) -> None:
        self._parser, self._reads, self._past = parser, reads, past
        self._far = far  # a read may wait for another process

    @web.route("GET /v1/vectors/{id}", answers.OneVector, (web.ID, web.AS_OF), statuses=(404, 429))
    async def get_vector(self, request: Request) -> Response:
        """The vector of a node, now or as of a moment."""
        node, as_of = self._parser.node(request), request.query_params.get("as_of")
        if as_of is not None:
            then = await web.run_in_threadpool(self._past.vectors, as_of, [node])
            if then.missing:
                raise UnknownNode(node, f"; this is as of sequence {then.sequence}")
            return web.respond(
                answers.OneVector(then.sequence, node, then.vectors[0], then.digest, then.logged)
            )
        sequence, vector = await self._vector_of(node)
        if vector is None:
            raise UnknownNode(node)
        return web.respond(answers.OneVector(sequence, node, vector))

    async def _vector_of(self, node: Id) -> tuple[int, Float32 | None]:
        found = None if self._far else self._reads.vector_now(node, _SHORT)
        if found is None and not self._far:
            async for now in web.looks():
                found = self._reads.vector_now(node) if now else None
                if found is not None:
                    break
        return await web.run_in_threadpool(self._reads.vector, node) if found is None else found

    @web.route(
        "POST /v1/vectors", answers.ManyVectors, (web.AS_OF,), body=requests.VectorsRequest, statuses=(404,)
    )
    async def post_vectors(self, request: Request) -> Response:
        """The vectors of many nodes, now or as of a moment; Arrow, if you accept it."""
        wanted = await self._parser.body(request, requests.VectorsRequest)
        self._parser.check_count(len(wanted.ids), self._parser.limits.ids, "ids")
        as_of = request.query_params.get("as_of")
        if as_of is None:
            found = await web.run_in_threadpool(self._reads.vectors, wanted.ids)
        else:
            found = await web.run_in_threadpool(self._past.vectors, as_of, wanted.ids)
        if web.ARROW not in request.headers.get("accept", ""):
            return web.respond(found)
        kind = pa.int64() if self._parser.kind == "int64" else pa.string()
        moment = {name: text for name in ("digest", "logged") if (text := getattr(found, name)) is not None}
        return web.arrow_answer({"id": pa.array(found.ids, kind)}, found.vectors, found.sequence, **moment)
