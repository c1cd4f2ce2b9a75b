"""Questions that look at much of a graph, or at one that is not there: each has a bound in rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UnsetType

from dygcn.engine.events import read_update
from dygcn.engine.events.kinds import as_text
from dygcn.engine.events.wire import decode_events, without_forgets
from dygcn.errors import OptionError, UnknownNode
from dygcn.live.finding import check_kind, linked_nodes
from dygcn.live.recommending import EVERYONE, asking_kind, links_for
from dygcn.live.scoring import to_probabilities
from dygcn.live.what_if import TrialMoves
from dygcn.schema import answers, requests
from dygcn.serving.service.cost_estimate import (
    ROWS_RANKED,
    expected_rows,
    expected_rows_of_ageing,
    expected_rows_of_removal,
    expected_rows_one_by_one,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import EventBatch, Float32, Float64, Nodes
    from dygcn.live.finding import Scored
    from dygcn.live.view import EmbeddingView
    from dygcn.serving.service.ingest_queue import TrialAnswer
    from dygcn.serving.service.service import Service

_ROWS_AN_EVENT = 200  # that count for an event which is tried by itself, however little it touches
_PATHS_A_ROW = (
    16  # paths of two edges that are counted for a recommendation, as long as it takes to rank a row
)
_MENDED = 400_000  # rows that may be ranked again under the lock, so that answers of small graphs are exact
_TWICE = 2  # a trial writes its change, and writes it back
Id = int | str


class Questions:
    """What can be asked of a service beside vectors and their neighbours.

    Nothing here changes the embedding. Each answer is of one sequence.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._live, self._graph = service, service.live, service.live._state.graph

    @property
    def _most(self) -> int:
        return self._service.current.limits.asked_rows

    # ---- the graph as it is --------------------------------------------------------------------------

    def recommend(self, wanted: requests.RecommendRequest) -> answers.Recommended:
        """Return the likeliest links of a node."""
        self._service.reads += 1
        with self._live.lock:
            how = wanted.links, wanted.exclude_linked, wanted.kind
            here, missing = (None, []) if wanted.among is None else self._sorted_out(wanted.among)
            links = links_for(self._live._state, wanted.id, *how, here)
            rows = len(self._graph) if here is None else len(here)
            self._check(rows, "name fewer nodes in `among`")
            if rows > EVERYONE:
                self._check(rows + self._rows_of_paths([wanted.id]), "name fewer nodes in `among`")
            found = self._live.recommend(
                wanted.id,
                wanted.k,
                among=here,
                exclude_linked=wanted.exclude_linked,
                links=links,
                kind=wanted.kind,
            )
            kind = self._live.model.score_kind(links)
            return answers.Recommended(self._live.sequence, wanted.id, kind, _nodes(found), missing)

    def nearest_of(self, ids: list[Id], k: int, by: str, kind: str | None = None) -> answers.NearestOf:
        """Return the nearest nodes of each of many, those left out that are not in the graph."""
        check_kind(self._graph.ids, kind)
        if by == "score":
            return self._nearest_by_score(ids, k, kind)
        self._check(len(ids) * ROWS_RANKED, "ask for fewer ids")
        queries = self._service.candidates_of(ids, k)
        with self._live.lock:
            of = []
            mend = len(queries) * len(self._graph) <= _MENDED
            for one, candidates in queries:
                found = self._service.best_of(one, candidates, k, kind, mend=mend)
                if found is not None:
                    of.append(answers.NodesOf(one, found))
            _, missing = self._sorted_out(ids)
            return answers.NearestOf(self._live.sequence, "cosine", of, missing)

    def _nearest_by_score(self, ids: list[Id], k: int, kind: str | None) -> answers.NearestOf:
        self._service.reads += 1
        with self._live.lock:
            here, missing = self._sorted_out(ids)
            rows = len(here) * len(self._graph)
            self._check(rows, "ask for fewer ids")  # before their edges are looked at
            if len(self._graph) > EVERYONE:
                self._check(rows + self._rows_of_paths(here), "ask for fewer ids")
            found = [self._live.recommend(one, k, exclude_linked=False, kind=kind) for one in here]
            of = [answers.NodesOf(one, _nodes(near)) for one, near in zip(here, found, strict=True)]
            score_kind = self._live.model.score_kind("next")
            return answers.NearestOf(self._live.sequence, score_kind, of, missing)

    def neighbors(self, node: Id, limit: int) -> answers.Neighbors:
        """Return with whom a node is linked."""
        self._service.reads += 1
        with self._live.lock:
            at = self._find(node)
            self._check(self._degree(at), "ask the embedding in Python")
            linked = self._graph.ids.sorted(linked_nodes(self._graph, at))
            names = self._service.ids_of(linked[:limit])
            return answers.Neighbors(self._live.sequence, node, len(linked), names)

    def explain(self, node: Id, k: int) -> answers.ExplainedVector:
        """Return what each neighbour adds to a vector."""
        self._service.reads += 1
        with self._live.lock:
            at = self._find(node)
            self._check(self._degree(at) * self._live.model.orders, "explain it in Python")
            found, sequence = self._live.explain(node), self._live.sequence
        names, by_order = list(map(as_text, found.neighbors[:k].tolist())), found.by_order[:k].tolist()
        of_each = found.by_neighbor.tolist()
        shares = [answers.Share(*one) for one in zip(names, of_each[:k], by_order, strict=True)]
        others = sum(of_each[k:])
        sums = float(found.vector @ found.vector), found.own, found.rounding, len(found)
        return answers.ExplainedVector(sequence, node, *sums, shares, others)

    def scores(self, pairs: list[tuple[Id, Id]], links: str, *, probability: bool) -> answers.Scores:
        """Return the scores of pairs, NaN where an id is not in the graph."""
        self._service.reads += 1
        model = self._live.model
        with self._live.lock:
            found, sequence = _scores(self._live, pairs, links), self._live.sequence
        if probability:
            return answers.Scores(sequence, "probability", to_probabilities(model, found, links))
        return answers.Scores(sequence, model.score_kind(links), found)

    # ---- the graph as it would be --------------------------------------------------------------------

    def submit_trial(self, wanted: requests.WhatIfRequest, answer: TrialAnswer) -> None:
        """Have the writing thread try a change, in its turn; `answer` gets an `answers.WhatIfAnswer`.

        Raises
        ------
        OptionError
            If the change would touch too many rows, or the questions look at too many.
        Overloaded
            If too much waits to be written.
        """
        self._service.reads += 1
        batch = self._batch_of(wanted)
        with self._live.lock:
            change = self._rows_of(batch, wanted)
            rows = _TWICE * change + self._rows_asked(wanted, 0 if batch is None else len(batch), change)
        self._check(rows, "try a smaller change, or ask less about it")
        self._service.ingest_queue.submit_work(lambda: self._try(wanted, batch), rows, answer)

    def submit_explanation(self, wanted: requests.ExplainChangeRequest, answer: TrialAnswer) -> None:
        """Have the writing thread find out which events would move a node; as `submit_trial`."""
        self._service.reads += 1
        batch = self._batch_of(wanted)
        if batch is None:
            raise OptionError("name a change: events, or add and remove")
        self._check(_ROWS_AN_EVENT * len(batch), "explain fewer events at once")  # before they are followed
        with self._live.lock:
            touched = expected_rows_one_by_one(self._live._state, batch, wanted.now, self._most)
        rows = _TWICE * touched + _ROWS_AN_EVENT * len(batch)
        self._check(rows, "explain fewer events at once")
        self._service.ingest_queue.submit_work(lambda: self._explain(wanted, batch), rows, answer)

    def _explain(self, wanted: requests.ExplainChangeRequest, batch: EventBatch) -> answers.ExplainedMove:
        with self._service.trying():
            found = self._live.explain_change(wanted.id, batch, now=wanted.now)
        whole = found.after.astype(np.float64) - found.before
        waiting, *events = (
            answers.EventMovement(float(np.linalg.norm(moved)), float(moved @ whole))
            for moved in (found.waiting, *found.by_event)
        )
        distance = float(np.linalg.norm(whole))
        return answers.ExplainedMove(self._live.sequence, wanted.id, distance, waiting, events)

    def _batch_of(self, wanted: requests.ChangeRequest) -> EventBatch | None:
        latest, kind = self._service.latest_time(), self._live.model.ids
        if wanted.now is not None and latest is not None and wanted.now > latest:
            raise OptionError(f"now is {wanted.now:g}; allowed is up to {latest:g}")
        add, remove = wanted.add, wanted.remove
        if isinstance(wanted.events, UnsetType):
            if add is None and remove is None:
                return None
            return read_update(None, add, remove, kind, self._live.model.directed)
        if add is not None or remove is not None:
            raise OptionError("pass either events or add and remove, not both")
        limit, related = self._service.current.limits.queued_events, bool(self._live.model.relations)
        found = without_forgets(
            decode_events(bytes(wanted.events), "json", kind, latest=latest, limit=limit, related=related)
        )
        if found.bad:
            raise OptionError(f"event {found.bad[0].row} cannot be tried: {found.bad[0].reason}")
        return found.batch

    def _rows_of(self, batch: EventBatch | None, wanted: requests.WhatIfRequest) -> int:
        rows, state = 0, self._live._state
        if batch is not None:
            rows = expected_rows(state, batch) + expected_rows_of_ageing(state, batch, wanted.now, self._most)
        if wanted.remove_nodes:
            nodes = self._nodes(wanted.remove_nodes)
            rows += expected_rows_of_removal(state, nodes[nodes >= 0])
        return rows

    def _rows_asked(self, wanted: requests.WhatIfRequest, events: int, change: int) -> int:
        """Return how many rows questions look at, in a graph that has grown by as much as events can add."""
        size = len(self._graph) + 2 * events
        everyone = len(wanted.nearest) + len(wanted.recommend)
        rows = everyone * (size + min(wanted.k, size)) + len(wanted.vectors) + 2 * len(wanted.scores)
        if rows <= self._most and size > EVERYONE:
            rows += self._rows_of_paths(wanted.recommend) + len(wanted.recommend) * change // _PATHS_A_ROW
        return rows

    def _rows_of_paths(self, ids: list[Id]) -> int:
        """Return how many rows paths of two edges count for, which candidates are looked for by."""
        kind, degrees = asking_kind(self._live._state), self._graph.pull.degrees
        nodes = np.array([self._graph.find_one(one, kind) for one in ids], np.int32)
        linked = (linked_nodes(self._graph, node) for node in nodes[nodes >= 0].tolist())
        return sum(int(degrees(near).sum(dtype=np.int64)) for near in linked) // _PATHS_A_ROW

    def _try(self, wanted: requests.WhatIfRequest, batch: EventBatch | None) -> answers.WhatIfAnswer:
        """Try a change and answer questions; in the writing thread, so that nobody else writes meanwhile."""
        live, k = self._live, wanted.k
        with (
            self._service.trying(),
            live.what_if(batch, remove_nodes=wanted.remove_nodes, now=wanted.now) as trial,
        ):
            moves = TrialMoves(trial)
            sizes = len(trial), trial.edge_count
            vectors: list[Float32 | None] = [
                trial.vector(one) if one in trial else None for one in wanted.vectors
            ]
            near = [_if_there(trial, one, lambda x: trial.nearest(x, k)) for one in wanted.nearest]
            best = [
                _if_there(trial, one, lambda x: trial.recommend(x, k, links=wanted.links))
                for one in wanted.recommend
            ]
            scores = _scores(trial, wanted.scores, wanted.links)
        with live.lock:
            ids, distance = moves.measure(live)
            left, sequence = moves.left(live), live.sequence
        named = zip(ids[: wanted.moved].tolist(), distance[: wanted.moved].tolist(), strict=True)
        furthest = [answers.WouldMove(one, None if math.isnan(far) else far) for one, far in named]
        kind = live.model.score_kind(wanted.links)
        about = sequence, moves.rows, *sizes, len(moves), furthest, left, kind
        return answers.WhatIfAnswer(*about, vectors, near, best, scores)

    # ---- looking up ----------------------------------------------------------------------------------

    def _find(self, node: Id) -> int:
        at = self._graph.find_one(node)
        if at < 0:
            raise UnknownNode(node)
        return at

    def _nodes(self, ids: list[Id]) -> Nodes:
        return np.array([self._graph.find_one(one) for one in ids], np.int32)

    def _sorted_out(self, ids: list[Id]) -> tuple[list[Id], list[Id]]:
        """Return the ids that are in the graph, and those that are not."""
        known = self._nodes(ids) >= 0
        here = [one for one, there in zip(ids, known, strict=True) if there]
        return here, [one for one, there in zip(ids, known, strict=True) if not there]

    def _degree(self, node: int) -> int:
        graph, one = self._graph, np.array([node], np.int32)
        return int(graph.pull.degrees(one)[0]) + (int(graph.push.degrees(one)[0]) if graph.directed else 0)

    def _check(self, rows: int, instead: str) -> None:
        if rows > self._most:
            raise OptionError(
                f"this would take about {rows} rows or more; allowed are up to {self._most} "
                f"(limits.asked_rows): {instead}, or raise the limit"
            )


def _nodes(found: Scored) -> list[answers.ScoredNode]:
    return [answers.ScoredNode(as_text(name), score) for name, score in found]


def _if_there(trial: EmbeddingView, node: Id, ask: Callable[[Id], Scored]) -> list[answers.ScoredNode] | None:
    return _nodes(ask(node)) if node in trial else None


def _scores(view: EmbeddingView, pairs: list[tuple[Id, Id]], links: str) -> Float64:
    """Return the scores of pairs, NaN where an id is not in the graph."""
    graph = view._state.graph
    first = np.array([graph.find_one(a) for a, _ in pairs], np.int32)
    second = np.array([graph.find_one(b) for _, b in pairs], np.int32)
    return np.where((first >= 0) & (second >= 0), view._scores_of(first, second, links), np.nan)
