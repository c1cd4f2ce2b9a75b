"""LiveEmbedding: vectors of a graph that never stops changing."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dygcn._late import late
from dygcn.engine.events import python_ids, read_events, read_update, single_pair
from dygcn.engine.features import CANNOT_BE_SET, GRID_BITS, Embedding, read_features
from dygcn.engine.models import Model, Outcome, State, StateImage, link_vectors, node_traits, read_vectors
from dygcn.engine.models.checks import read_tolerance
from dygcn.engine.models.links import COSINE
from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Nodes
from dygcn.errors import FeatureError, OptionError
from dygcn.live.change import Change
from dygcn.live.changed import ChangeRecord
from dygcn.live.clock import warn_of_jump
from dygcn.live.digest import digest_of
from dygcn.live.files import take_snapshot
from dygcn.live.finding import find_nodes, many_ids
from dygcn.live.guard import Guard, guarded
from dygcn.live.scoring import head_of, pair_scores
from dygcn.live.search.nearest import VectorCache, top_k

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dygcn.engine.training.samples import Progress
    from dygcn.live import refitting
else:  # it brings all of training, and most who load an embedding never fit one
    refitting = late("dygcn.live.refitting")


class LiveEmbedding:
    """A fitted embedding that follows its graph. Made by `dygcn.fit`, `dygcn.start` and `dygcn.load`.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=16)
    >>> change = live.update(add=[("cat", "dan")])
    >>> "dan" in live, len(live), live["dan"].shape, live.version
    (True, 4, (16,), 1)
    """

    def __init__(self, state: State, version: int = 0) -> None:
        self._state = state
        self.guard = Guard(state)
        self._version = version
        self._changes: ChangeRecord | None = None  # until somebody reads it
        self._cache: VectorCache | None = None
        self._latest: weakref.ReferenceType[Change] | None = None

    # ---- changing ----------------------------------------------------------------------------------

    @guarded
    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        now: float | None = None,
        columns: Sequence[str] | None = None,
    ) -> Change:
        """Apply changes of the graph and return what moved.

        Parameters
        ----------
        events
            Anything that `dygcn.fit` takes as events, in order of arrival; the last one on an edge wins.
        add, remove
            Edges instead of events; removes come first. An added edge that exists gets the new weight.
        now
            The time: it moves the clock, and dates events without `t`. Without it they happen when the last
            one did; a model with memory refuses them.
        columns
            What the columns of tuples, lists or arrays are, as in `dygcn.fit`; for `add` and `remove` alike.

        Returns
        -------
        Change
            Only what moved; its vectors are computed when asked for.

        Raises
        ------
        EventError
            If a row is bad; then the whole batch was left alone.

        Warns
        -----
        ClockWarning
            If a time is so far ahead of all before it that it may be in another unit.
        """
        pair = single_pair(add, remove) if events is None and now is None and columns is None else None
        edge = None if pair is None else self._state.find_edge(*pair)
        if edge is not None:
            return self._apply(edge, now)
        batch = read_update(events, add, remove, self._state.model.kind, columns)
        if now is not None or batch.t is not None:
            warn_of_jump(self._state, batch, now)
        return self._apply(batch, now)

    def _apply(self, batch: EventBatch | tuple[int, int, int], now: float | None) -> Change:
        """Apply events, or one edge by its nodes."""
        self._keep_latest_ids()
        state = self._state
        with state.transaction:
            if isinstance(batch, EventBatch):
                state.stage(batch, now)
            else:
                state.stage_edge(batch)
            outcome = state.write()
            change = self._changed(outcome)
        # What follows may warn, and a warning may be an error: the update is whole before it.
        due = state.model.spec.after_update(state, outcome, self._version)
        if due is not None:
            with state.changing:
                change = self._note(due())
        return change

    @guarded
    def bulk(self, parts: Iterable[object], columns: Sequence[str] | None = None) -> Change:
        """Load a large graph: apply events part by part, and compute all messages once, at the end.

        What `update` does for one batch after the other, faster when most of the graph changes. All nodes
        count as moved, and ids that left in between are not told. The exact rule only; if a part is bad, the
        parts before it stay. `columns` is for every part.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.start(dygcn.fit([(1, 2), (2, 3)], dim=8).model)
        >>> len(live.bulk([[(1, 2)], [(2, 3), (3, 4)]]))
        4
        """
        self._keep_latest_ids()
        _ = self._state.exact
        with self._state.changing:
            read = (read_events(part, self.model.kind, columns) for part in parts)
            outcome, failure = self._state.bulk(read)
            change = self._changed(outcome)
        if failure is not None:
            raise failure
        return change

    @guarded
    def set_features(self, ids: object, values: object) -> Change:
        """Give nodes features of their own, or replace them; a node needs no edge to have some."""
        if self.model.features in CANNOT_BE_SET:
            raise FeatureError(CANNOT_BE_SET[self.model.features])
        _ = self._state.exact  # the paper's rules have none
        column, matrix = read_features((ids, values))
        if matrix.shape[1] != self.model.width:
            raise FeatureError(
                f"values have {matrix.shape[1]} columns; this model has width {self.model.width}"
            )
        self._keep_latest_ids()
        with self._state.changing:
            return self._changed(self._state.set_features(column, matrix))

    @guarded
    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors: for the paper's rules, whose vectors drift.

        Parameters
        ----------
        base
            Vectors of your own. Without it the base that was fitted is computed on the graph as it is now
            (a base that is trained on every snapshot is trained, which needs the extra ``torch``).
        """
        take = self.model.spec.restart(self._state, base)
        self._keep_latest_ids()
        with self._state.changing:
            return self._changed(take())

    @guarded
    def tolerate(self, tolerance: float) -> Change:
        """Withhold changes of messages that are too small to matter, so that hubs cost less.

        A change of a node's message reaches the node's neighbours only once all that was withheld of it is
        longer than `tolerance`, where a feature vector has length one. No message of order 2 is then further
        than that from the exact one, of order 3 not further than twice that, and so on; `error_bound` says
        how far for each node. Lowering the tolerance publishes everything first; 0 is exact again.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([(0, spoke) for spoke in range(1, 200)], dim=8)
        >>> _ = live.tolerate(0.05)
        >>> change = live.update(add=[(0, 200)])    # the hub's message hardly moves
        >>> change.rows
        4
        >>> _ = live.flush()
        >>> live.digest() == live.recompute().digest()
        True
        """
        allowed = read_tolerance(tolerance)
        self._keep_latest_ids()
        with self._state.changing:
            return self._changed(self._state.tolerate(allowed))

    @guarded
    def flush(self) -> Change:
        """Publish every change that a tolerance withheld: the state is exact after it, to the bit."""
        self._keep_latest_ids()
        with self._state.changing:
            return self._changed(self._state.flush())

    @guarded
    def remove_nodes(self, ids: object) -> Change:
        """Remove nodes with their edges, their features and what is remembered of removed edges.

        Ids that are not in the graph are counted in ``change.missing``.
        """
        column = many_ids(ids)
        nodes = self._state.graph.find(column) if len(column) else np.empty(0, np.int32)
        known = nodes[nodes >= 0]
        self._keep_latest_ids()
        with self._state.changing:
            outcome = self._state.remove(known)
            outcome.missing = len(nodes) - len(known)
            return self._changed(outcome)

    def _keep_latest_ids(self) -> None:
        """Let the last change look up its ids while its nodes still have them."""
        latest = self._latest() if self._latest is not None else None
        if latest is not None:
            latest.keep_ids()

    def _changed(self, outcome: Outcome) -> Change:
        self._version += 1
        return self._note(outcome)

    def _note(self, outcome: Outcome) -> Change:
        """Write down who moved; return the change that belongs to this version."""
        if self._changes is not None:
            self._changes.append(outcome.moved.nodes, self._version)
        return self._change_of(outcome)

    def _change_of(self, outcome: Outcome) -> Change:
        change = Change(self, outcome, self._version)
        self._latest = weakref.ref(change)
        return change

    # ---- reading -----------------------------------------------------------------------------------

    @guarded
    def vector(self, node: int | str) -> Float32:
        """Return the vector of one node, (dim,). An unknown id is a KeyError."""
        at = self._state.graph.find_one(node)
        row: Float32 = self.cached().one(at) if at >= 0 else self.vectors_of(self._find([node]))[0]
        return row

    def __getitem__(self, node: int | str) -> Float32:
        return self.vector(node)

    @guarded
    def vectors(self, ids: object) -> Float32:
        """Return the vectors of nodes, (n, dim), float32. An unknown id is a KeyError."""
        return self.vectors_of(self._find(ids))

    @guarded
    def __contains__(self, node: object) -> bool:
        return self._state.graph.find_one(node) >= 0

    @guarded
    def __len__(self) -> int:
        return len(self._state.graph)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids().tolist())

    @guarded
    def ids(self) -> NDArray[Any]:
        """Return the ids of all nodes that have an edge or features of their own, sorted."""
        return python_ids(self.names(self._state.graph.nodes()))

    @guarded
    def features(self, ids: object) -> Float32:
        """Return the input features x of nodes, (n, width); NaN where a node has none."""
        graph, rule = self._state.graph, self._state.exact
        nodes = self._find(ids)
        rows, has = rule.messages(graph, nodes, 0)
        x = (rows * (self.model.scales * 2.0**-GRID_BITS)).astype(np.float32)
        x[has == 0] = np.nan
        return x

    @guarded
    def to_arrow(self, ids: object = None) -> pa.Table:
        """Return a table of `id` and `vector`, of the given nodes or of all.

        Examples
        --------
        >>> import dygcn
        >>> dygcn.fit([("ann", "bob")], dim=4).to_arrow().column_names
        ['id', 'vector']
        """
        nodes = self._state.graph.nodes() if ids is None else self._find(ids)
        flat = pa.array(self.vectors_of(nodes).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, self.model.dim)
        return pa.table({"id": pa.array(python_ids(self.names(nodes))), "vector": vectors})

    def score(self, a: int | str, b: int | str, links: str = "new") -> float:
        """Return how likely two nodes are linked next; see `scores`."""
        return float(self.scores([a], [b], links)[0])

    @guarded
    def scores(self, a: object, b: object, links: str = "new") -> Float64:
        """Return how likely pairs of nodes are linked next, (n,); a higher score is likelier.

        Learned in `fit` from the vectors, from what each node's edges weigh, and from the contacts of the
        nodes and of the pair. A model that learned no such score (too few steps, an embedding of your own,
        one of the paper's rules) answers with the cosine, from -1 to 1.

        Parameters
        ----------
        a, b
            Ids, as many of one as of the other.
        links
            ``"new"``: links that are not there yet, in log-odds against a random pair; ``"all"``: every link
            of the next graph, first those that are there; ``"next"``: for ranking who comes next.
        """
        first, second = self._find(a), self._find(b)
        if len(first) != len(second):
            raise OptionError(f"there are {len(first)} ids on one side and {len(second)} on the other")
        return self.scores_of(first, second, links)

    @guarded
    def link_vectors(self, ids: object, *, query: bool = False, links: str = "new") -> Float32:
        """Return (n, dim + 2) vectors whose dot products are scores, as far as they can be.

        For a vector database: put those of all nodes into the index, and ask it with ``query=True`` of one
        (inner product, not cosine) for a hundred candidates; then let `scores` rank these. Contacts grow
        old, so refresh the index now and then.
        """
        nodes = self._find(ids)
        head = head_of(self.model, links) or COSINE
        popularity = head.popularity(node_traits(self._state.graph, nodes, self.model.unit))
        return link_vectors(self.vectors_of(nodes), popularity, head, query)

    @guarded
    def nearest(
        self, node: int | str, k: int = 5, among: Iterable[int | str] | None = None
    ) -> list[tuple[int | str, float]]:
        """Return the k nodes nearest to a node by cosine, as (id, score), ties by id.

        Parameters
        ----------
        node
            The node; it is not its own neighbour.
        k
            How many.
        among
            Only these ids, if given.
        """
        if not isinstance(k, int | np.integer) or k < 1:
            raise OptionError(f"k is {k!r}; allowed is a whole number, 1 or more")
        me, cache = int(self._find([node])[0]), self.cached()
        everyone = self._state.graph.here
        candidates = np.flatnonzero(everyone).astype(np.int32) if among is None else self._find(among)
        nodes, scores = top_k(cache, candidates[candidates != me], cache.one(me), k)
        return list(zip(python_ids(self.names(nodes)).tolist(), scores.tolist(), strict=True))

    # ---- describing --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many updates were applied."""
        return self._version

    @property
    def tolerance(self) -> float:
        """How long a change may be that is withheld; see `tolerate`."""
        return self._state.rule.tolerance

    @guarded
    def error_bound(self, ids: object) -> Float64:
        """Return how far the message of the last order of each node can be from the exact one, (n,).

        In lengths of a feature vector; from what is withheld now, so 0 where nothing is.
        """
        return self._state.exact.error_bound(self._state.graph, self._find(ids))

    @property
    def model(self) -> Model:
        """Everything that was fitted, without the graph; `dygcn.start` runs it over an empty one."""
        return self._state.model

    @property
    def weights(self) -> Mapping[str, Float32]:
        """The matrices by name, rows times matrix: ``W0..WK``; for the spectral rule W0, W1, Ws."""
        return dict(zip(self.model.weight_names, self.model.weights, strict=True))

    @property
    def edge_count(self) -> int:
        """How many edges the graph has now."""
        return self.guard.run(lambda: self._state.graph.edge_count)

    @property
    def unreached(self) -> int:
        """How many nodes no row of a walk model reaches: these read as random signs, drawn from the id."""
        return self.guard.run(lambda: self._state.unreached())

    @property
    def clock(self) -> float | None:
        """The greatest time seen, for a model that was fitted with times."""
        return self.guard.run(lambda: self._state.graph.clock)

    @guarded
    def digest(self) -> str:
        """Return a hex digest of graph and state.

        With the exact rule it is equal for equal graphs, whatever their history; with the paper's rules, for
        equal histories cut into equal batches.
        """
        return digest_of(self._state)

    def recompute(self) -> LiveEmbedding:
        """Return a new embedding, built from scratch from the same model and graph (exact rule only).

        It also heals what an interrupted update left: the new embedding is that of the graph with all of the
        update, or with nothing of it.
        """
        if not self.model.spec.from_graph:
            raise OptionError(
                f"the vectors of the {self.model.rule} rule do not follow from the graph alone; "
                "restart() takes a fresh base"
            )
        image = self.guard.run_torn(self._whole_image)
        return LiveEmbedding(State.from_image(self.model, image), self._version)

    def refit(self, progress: Progress | None = None) -> refitting.Refit:
        """Make the rows of a walk model anew, beside these; see `Refit`. Nothing here is changed."""
        return refitting.refit(self, LiveEmbedding, progress)

    def _whole_image(self) -> StateImage:
        if self._state.torn:
            self._state.complete()
        return self._state.image()[0]

    @guarded
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save model and graph to a folder, in one step. See `dygcn.load`."""
        take_snapshot(self._state, self._version).write(path)

    def __repr__(self) -> str:
        if self._state.torn:
            return "LiveEmbedding(torn: an update was interrupted; live.recompute() gives a whole one)"
        return (
            f"LiveEmbedding(nodes={len(self)}, edges={self.edge_count}, dim={self.model.dim}, "
            f"orders={self.model.orders}, rule={self.model.rule!r}, version={self.version})"
        )

    # ---- for the other modules of this room -----------------------------------------------------------

    @property
    def state(self) -> State:
        """Graph and rule. Not for changing."""
        return self._state

    def names(self, nodes: Nodes) -> IdColumn:
        """Return the user's ids of nodes."""
        return self._state.graph.ids.names(nodes)

    def vectors_of(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes."""
        self._state.check()
        return read_vectors(self.model, self._state.rule, self._state.graph, nodes)

    def scores_of(self, first: Nodes, second: Nodes, links: str) -> Float64:
        """Return the scores of pairs of nodes; below 0 stands for a node that is not there yet."""
        return pair_scores(self._state, self.cached(), first, second, links)

    def changes(self, sequence: int = 0) -> ChangeRecord:
        """Return who moved when; all that moved before the first call did so at `sequence`."""
        if self._changes is None:
            self._changes = ChangeRecord(self._state.graph.ids.high, sequence)
        return self._changes

    def cached(self) -> VectorCache:
        """Return the vectors that were read and did not move since."""
        if self._cache is None:
            self._cache = VectorCache(self._state, self.changes())
        return self._cache

    def _find(self, ids: object) -> Nodes:
        return find_nodes(self._state, ids)
