"""Queries to an embedding: scores of links, nearest nodes, recommendations, and trials of changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypedDict, Unpack, cast, overload

import numpy as np

from dygcn.engine.events import ColumnOptions, read_update
from dygcn.engine.models.checks import one_of
from dygcn.engine.models.contracts import StateWriter
from dygcn.engine.models.explaining import explain, explain_change
from dygcn.engine.models.links import COSINE, FILTER, link_vectors, node_traits
from dygcn.engine.models.state import RemovalTrial, State, Trial
from dygcn.engine.records import DEFAULT_K, EventBatch, Float32, Float64, Nodes
from dygcn.errors import OptionError
from dygcn.live import finding, recommending
from dygcn.live.change import Change, TrialBlock
from dygcn.live.explaining import ExplainedChange, Explanation
from dygcn.live.finding import EVERY_KIND, ManyIds, OneId, OneVector, Scored
from dygcn.live.guard import Guard, guarded
from dygcn.live.other_names import names_options
from dygcn.live.recommending import Among
from dygcn.live.search.nearest import top_k, top_k_of_each
from dygcn.live.vector_view import VectorView


class RecommendOptions(TypedDict, total=False):
    """The options of `EmbeddingView.recommend`."""

    among: Among
    exclude_linked: bool
    links: str | None
    kind: str | None


class EmbeddingView(VectorView):
    """The queries that `LiveEmbedding` and `DurableEmbedding` share, one thread at a time."""

    @overload
    def score(
        self, a: OneId, b: OneId, links: str = ..., *, probability: bool = ..., missing: str = ...
    ) -> float: ...

    @overload
    def score(
        self, a: OneId, b: ManyIds, links: str = ..., *, probability: bool = ..., missing: str = ...
    ) -> Float64: ...

    @overload
    def score(
        self, a: ManyIds, b: OneId | ManyIds, links: str = ..., *, probability: bool = ..., missing: str = ...
    ) -> Float64: ...

    @guarded
    def score(
        self, a: Any, b: Any, links: str = "new", *, probability: bool = False, missing: str = "raise"
    ) -> Any:
        """Return how likely pairs of nodes are linked next; a higher score is likelier.

        Of two ids the score is a float; with a list of ids on a side, an array, (n,). It was learned in `fit`
        from the vectors, from what each node's edges weigh, and from the contacts of the nodes and of the
        pair. A model that learned no such score (too few steps, an embedding of your own, one of the paper's
        rules) answers with the cosine, from -1 to 1; `Model.score_kind` says which it is.

        Parameters
        ----------
        a, b
            Ids, as many of one as of the other, or one id on a side.
        links
            ``"new"``: links that are not there yet, in log-odds against a random pair; ``"all"``: every link
            of the next graph, first those that are there; ``"next"``: who (b) comes next for one who asks
            (a), of everybody, from the history of events; ``"listed"``: the same for candidates that you
            list, of which more are former partners of a than of all nodes.
        probability
            Return probabilities instead of log-odds: that a pair is linked and not random, where linked and
            random pairs are equally many.
        missing
            Of an id that is not in the graph: ``"raise"``, or ``"cold"``, and it is scored as a newcomer, or
            by its history if it has one.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
        >>> live.score("ann", ["bob", "cat"]).shape, live.model.score_kind()
        ((2,), 'cosine')
        """
        one_of("missing", missing, ("raise", "cold"))
        state, cold = self._state, missing == "cold"
        a, b = (list(ids) if isinstance(ids, Iterator) else ids for ids in (a, b))  # they are read twice
        many = [finding.as_many(state, ids) for ids in (a, b)]
        first, second = (finding.find_or_cold(state, ids) if cold else self._find(ids) for ids in many)
        one, other = (finding.find_past(state, ids) if cold else None for ids in many)
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            raise OptionError(
                f"there are {len(first)} ids on one side and {len(second)} on the other; "
                "pass as many on both, or one on a side"
            )
        pairs = _as_many(first, second)
        past = None if one is None or other is None else _as_many(one, other)
        found = recommending.pair_scores(state, self._cached(), *pairs, links, past)
        found = recommending.to_probabilities(self.model, found, links) if probability else found
        return float(found[0]) if many[0] is not a and many[1] is not b else found

    @overload
    def recommend(self, node: OneId, k: int = ..., **how: Unpack[RecommendOptions]) -> Scored: ...

    @overload
    def recommend(self, node: ManyIds, k: int = ..., **how: Unpack[RecommendOptions]) -> list[Scored]: ...

    @names_options
    def recommend(
        self,
        node: Any,
        k: int = DEFAULT_K,
        *,
        among: Among = None,
        exclude_linked: bool = True,
        links: str | None = None,
        kind: str | None = None,
    ) -> Any:
        """Return the k nodes that a node is likeliest to link with, as (id, score), ties by id.

        All nodes are scored where there are at most 4,000 candidates. Where there are more, those that have
        the greatest dot products (see `link_vectors`), that are two edges away, or that are linked.

        Parameters
        ----------
        node
            An id; or a list of ids, and then a list of answers is returned, each as if its id had been asked
            alone. A node is not recommended to itself.
        k
            How many.
        among
            Only these ids; or a function that says of an id whether it may be recommended.
        exclude_linked
            Leave out nodes that have an edge with the node now.
        links
            The score, see `score`; by default ``"filter"`` where the model has one that knows who asks and
            any of `among`, else ``"new"``, and ``"next"`` where linked nodes are not left out.
        kind
            Where nodes have kinds, only nodes of this one; by default of the kinds that the node's neighbours
            have, ``"*"`` for every kind. An id without kind is then of the first kind, if that has it.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("u1", "tea"), ("u2", "tea"), ("u2", "jam"), ("u3", "oil")], dim=8)
        >>> [item for item, score in live.recommend("u1", k=1, among=["tea", "jam", "oil"])]
        ['jam']
        >>> live.recommend(["u1", "u2"], k=1)[0] == live.recommend("u1", k=1)
        True
        """
        finding.at_least("k", k, 1)
        asked = finding.one_or_more_ids(node, self._state.graph.ids.kinds)
        return self._guard.run(self._recommend, asked, k, among, exclude_linked, links, kind)

    def _recommend(
        self, asked: Any, k: int, among: Among, exclude_linked: bool, links: str | None, kind: str | None
    ) -> Any:
        many, state = isinstance(asked, list), self._state
        nodes = self._find(asked if many else [asked], recommending.asking_kind(state))
        everybody = allowed = None if among is None else recommending.allowed_nodes(state, among)
        found, of = [], EVERY_KIND if kind is None and among is not None else kind
        for me in nodes.tolist():
            chosen = recommending.links_of(state, me, links, exclude_linked, kind, allowed)
            if chosen == FILTER:
                best = recommending.filtered_nodes(state, me, k, allowed, exclude_linked, kind)
            else:
                everybody = recommending.allowed_nodes(state, None) if everybody is None else everybody
                some = recommending.kind_of_links(state, me, everybody, of)
                how = k, some, exclude_linked, chosen
                best = recommending.recommend_nodes(state, self._cached(), me, *how)
            found.append(self._answer(*best))
        return found if many else found[0]

    @guarded
    def link_vectors(self, ids: object, *, query: bool = False, links: str = "new") -> Float32:
        """Return (n, dim + 2) vectors whose dot products are scores, as far as they can be.

        For a vector database: put those of all nodes into the index, and ask it with ``query=True`` of one
        (inner product, not cosine) for a hundred candidates; then let `score` rank these. Contacts grow
        old, so refresh the index now and then.
        """
        nodes = self._find(ids)
        head = recommending.head_of(self.model, links) or COSINE
        popularity = head.popularity(node_traits(self._state.graph, nodes, self.model.unit))
        return link_vectors(self._vectors_of(nodes), popularity, head, query)

    @overload
    def nearest(
        self, node: OneId | OneVector, k: int = ..., among: Among = ..., *, kind: str | None = ...
    ) -> Scored: ...

    @overload
    def nearest(
        self, node: ManyIds, k: int = ..., among: Among = ..., *, kind: str | None = ...
    ) -> list[Scored]: ...

    @names_options
    def nearest(self, node: Any, k: int = DEFAULT_K, among: Among = None, *, kind: str | None = None) -> Any:
        """Return the k nodes nearest to a node or to a vector by cosine, as (id, cosine), ties by id.

        Parameters
        ----------
        node
            An id; a vector of `dim` floats; or a list of ids, and then a list of answers is returned, each as
            if its id had been asked alone. A node is not its own neighbour.
        k
            How many.
        among
            Only these ids, or only those for which a function is true; see `recommend`.
        kind
            Where nodes have kinds, only nodes of this one; by default of the node's own, ``"*"`` for every
            kind. Of a vector, and where `among` is given, every kind.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("dan", "eve")], dim=8)
        >>> one, other = live.nearest(["ann", "dan"], k=2)
        >>> one == live.nearest("ann", k=2), live.nearest(live["ann"], k=1)[0][0]
        (True, 'ann')
        """
        finding.at_least("k", k, 1)
        asked = finding.vector_or_ids(node, self.model.dim, self._state.graph.ids.kinds)
        return self._guard.run(self._nearest, asked, k, among, kind)

    def _nearest(self, asked: Any, k: int, among: Among, kind: str | None) -> Any:
        cache, graph = self._cached(), self._state.graph
        ids, candidates = graph.ids, np.flatnonzero(graph.here).astype(np.int32)
        if among is not None:
            candidates = recommending.allowed_nodes(self._state, among)
        kind = EVERY_KIND if kind is None and among is not None else kind
        if isinstance(asked, np.ndarray):
            return self._answer(*top_k(cache, finding.of_kind(ids, candidates, kind), asked, k))
        if isinstance(asked, list):
            found = self._find(asked)
            near: dict[int, Any] = {}
            for one, own in finding.grouped(ids, found, kind):
                best = top_k_of_each(cache, finding.of_kind(ids, candidates, one), own, k)
                near |= zip(own.tolist(), [self._answer(*each) for each in best], strict=True)
            return [near[me] for me in found.tolist()]
        me = int(self._find([asked])[0])
        some = finding.of_kind(ids, candidates, finding.own_kind(ids, me) if kind is None else kind)
        return self._answer(*top_k(cache, some[some != me], cache.one(me), k))

    def what_if(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        remove_nodes: object = None,
        now: float | None = None,
        **names: Unpack[ColumnOptions],
    ) -> TrialBlock[WhatIf]:
        """Ask what vectors, neighbours and scores would be after a change; then nothing has happened.

        Use it as ``with live.what_if(...) as trial:``; before the block, nothing is read. Inside the block,
        ask the trial; the embedding itself is refused. Afterwards the embedding is what it was, to the bit:
        digest, version, feed and log. The cost is about twice that of the update.

        Parameters
        ----------
        events, add, remove, now, **names
            As in `LiveEmbedding.update`.
        remove_nodes
            Ids to remove with all of their edges, after the events.

        Raises
        ------
        FeatureError
            With one of the paper's rules.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
        >>> before = live.digest()
        >>> with live.what_if(add=[("cat", "dan")]) as trial:
        ...     "dan" in trial, trial.neighbors("cat").tolist()
        (True, ['bob', 'dan'])
        >>> "dan" in live, live.digest() == before
        (False, True)
        """

        def read() -> EventBatch | None:
            if events is None and add is None and remove is None:
                return None if remove_nodes is not None else self._read_update(None, [], None, names)
            return self._read_update(events, add, remove, names)

        return TrialBlock(self._try, (read, remove_nodes, now), {})

    def _read_update(self, events: object, add: object, remove: object, names: ColumnOptions) -> EventBatch:
        """Read a change of the graph; ids and relations are checked against the model."""
        model = self.model
        return read_update(events, add, remove, model.ids, model.directed, model.relations, **names)

    def _try(
        self, read: Callable[[], EventBatch | None], remove_nodes: object, now: float | None
    ) -> Generator[WhatIf, None, None]:
        change = read()
        trial = WhatIf(self._state, self.version, self._guard)
        with ExitStack() as block:
            block.enter_context(self._lent())
            if change is not None:
                outcome = block.enter_context(Trial(self._own_state, change, now))
                trial.changes.append(Change(trial, outcome, trial.version))
            if remove_nodes is not None:
                for made in trial.changes:
                    made._end()  # nodes of it may leave now
                nodes = finding.find_nodes(self._state, remove_nodes)
                outcome = block.enter_context(RemovalTrial(self._own_state, nodes))
                trial.changes.append(Change(trial, outcome, trial.version))
            trial._guard.trial = self._state.transaction.trials[-1]
            try:
                yield trial
            finally:
                if not self._guard.owned():  # a block that nobody left is collected, by another thread
                    self._state.transaction.torn = True

    @guarded
    def explain(self, node: OneId, *, shares: bool = False) -> Explanation:
        """Return why the vector of a node is where it is: the share of each neighbour, order by order.

        Shares add up to the sums of the rule to the bit, and to the vector but for rounding; the exact rule
        only. See `Explanation`.

        Parameters
        ----------
        node
            The id of the node; an `UnknownNode` if it is not in the graph.
        shares
            Also return whole rows, of the sums and of the vector, for each neighbour and order.
        """
        found = explain(self._own_state, int(self._find([node])[0]), shares=shares)
        return Explanation(node, self._ids_of(found.neighbours), found)

    def explain_change(
        self,
        node: OneId,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        now: float | None = None,
        **names: Unpack[ColumnOptions],
    ) -> ExplainedChange:
        """Return which events would move the vector of a node, and how far each; nothing is changed.

        Ask before `update`. Up to 1,000 events are played one after the other, and taken back; the movement
        of an event is the vector after it minus the vector before it. So ``before + waiting + by_event``,
        added up, is ``after`` but for rounding in float64, and ``after`` is to the bit the vector that
        `update` would give. Of events that only together have an effect, the last one is given it.

        Parameters
        ----------
        node
            The node; it may come or go with the events, and counts as zero while it is not there.
        events, add, remove, now, **names
            As in `LiveEmbedding.update`; rows of ``by_event`` are in this order, removes before adds.

        Raises
        ------
        OptionError
            If there are more events.
        FeatureError
            With one of the paper's rules.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("dan", "eve")], dim=8)
        >>> found = live.explain_change("ann", add=[("dan", "gus"), ("ann", "cat")])
        >>> found.by_event.any(axis=1).tolist(), found.to_pandas()["dst"].tolist()
        ([False, True], ['gus', 'cat'])
        """
        batch = self._read_update(events, add, remove, names)
        with self._lent():
            found = explain_change(self._own_state, node, batch, now)
        shown = self._state.graph.ids.shown
        ends = shown(batch.src), shown(batch.dst)
        return ExplainedChange(
            found.before, found.after, found.waiting, found.by_event, node, *ends, batch.op
        )

    def _scores_of(
        self, first: Nodes, second: Nodes, links: str, numbers: tuple[Nodes, Nodes] | None = None
    ) -> Float64:
        return recommending.pair_scores(self._state, self._cached(), first, second, links, numbers)

    @property
    def _own_state(self) -> State:
        """The state of one process, for trials and explanations, which shards refuse."""
        return cast("State", self._state)

    def _lent(self) -> AbstractContextManager[None]:
        """Hold the locks against readers and writers, for a trial."""
        return self._guard.lent()

    def _answer(self, nodes: Nodes, scores: Iterable[float]) -> Scored:
        ids = self._ids_of(nodes).tolist()
        return [(name, float(score)) for name, score in zip(ids, scores, strict=True)]


class WhatIf(EmbeddingView):
    """What an embedding would answer after a change; made by `what_if`, and over with its block.

    Attributes
    ----------
    changes
        What the change would move: one for its events, one for nodes that it removes.
    """

    def __init__(self, state: StateWriter, version: int, outer: Guard) -> None:
        super().__init__(state, Guard(state), version)
        self._guard.lock, self._guard.waits = outer.lock, outer.waits
        self.changes: list[Change] = []


def _as_many(first: Nodes, second: Nodes) -> tuple[Nodes, Nodes]:
    """Return both at the greater of their lengths, one of which may be one."""
    one, other = np.broadcast_arrays(first, second)
    return np.ascontiguousarray(one), np.ascontiguousarray(other)
