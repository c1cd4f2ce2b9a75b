"""Reads of an embedding; every read sees all of an update, or nothing of it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
import pyarrow as pa

from dygcn.engine.features.inputs import GRID_BITS
from dygcn.live import exporting, plotting
from dygcn.live.changed import ChangeRecord
from dygcn.live.files import digest_of, take_snapshot
from dygcn.live.finding import OneId, find_nodes, linked_nodes
from dygcn.live.guard import Guard, guarded
from dygcn.live.other_names import ATTRIBUTES, no_attribute
from dygcn.live.search.nearest import VectorCache

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dygcn.engine.models.contracts import StateWriter
    from dygcn.engine.models.model import Model
    from dygcn.engine.records import Float32, Float64, IdColumn, Nodes
    from dygcn.live.changed import Announcer


class VectorView:
    """Vectors, graph and description of an embedding; `EmbeddingView` adds what is computed from vectors."""

    def __init__(self, state: StateWriter, guard: Guard, version: int = 0) -> None:
        self._state, self._guard, self._version = state, guard, version
        self._cache: VectorCache | None = None

    if not TYPE_CHECKING:  # a type checker is to know the names that are there, and no others

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(type(self).__name__, name, ATTRIBUTES)

    # ---- reading -----------------------------------------------------------------------------------

    @guarded
    def vector(self, node: OneId) -> Float32:
        """Return the vector of one node, (dim,). An unknown id is a KeyError."""
        at = self._state.graph.find_one(node)
        row: Float32 = self._cached().one(at) if at >= 0 else self._vectors_of(self._find([node]))[0]
        return row

    def __getitem__(self, node: OneId | list[int] | list[str] | NDArray[Any]) -> Float32:
        return self.vectors(node) if isinstance(node, list | np.ndarray) else self.vector(node)

    @guarded
    def vectors(self, ids: object = None) -> Float32:
        """Return the vectors of nodes, (n, dim), float32; without `ids` of all, in the order of `ids()`.

        An unknown id is a KeyError.
        """
        return self._vectors_of(self._nodes(ids))

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
        return self._ids_of(self._state.graph.nodes())

    @guarded
    def features(self, ids: object) -> Float32:
        """Return the input features x of nodes, (n, width); NaN where a node has none."""
        graph, rule = self._state.graph, self._state.exact
        nodes = self._find(ids)
        rows, has = rule.messages(graph, nodes, 0)
        x = (rows * (self.model.scales * 2.0**-GRID_BITS)).astype(np.float32)
        x[has == 0] = np.nan
        return x

    # ---- the graph ---------------------------------------------------------------------------------

    @guarded
    def neighbors(self, node: OneId) -> NDArray[Any]:
        """Return the ids that a node has an edge with now, in either direction, sorted.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("ann", "cat")], dim=4)
        >>> live.neighbors("ann").tolist()
        ['bob', 'cat']
        """
        graph = self._state.graph
        return self._ids_of(graph.ids.sorted(linked_nodes(graph, self._find([node])[0])))

    @guarded
    def edges(self) -> pa.Table:
        """Return a table of `src`, `dst` and `weight`, sorted; `dygcn.fit` takes it back.

        An undirected edge is there once. Removed edges that a memory still weighs are left out.

        Examples
        --------
        >>> import dygcn
        >>> dygcn.fit([("bob", "ann"), ("bob", "cat")], dim=4).edges().to_pylist()[0]
        {'src': 'ann', 'dst': 'bob', 'weight': 1.0}
        """
        return exporting.edge_table(self._state.graph)

    # ---- in the types of others ----------------------------------------------------------------------

    @guarded
    def to_arrow(self, ids: object = None) -> pa.Table:
        """Return a table of `id` and `vector`, and of `kind` where nodes have some, of given nodes or of all.

        Examples
        --------
        >>> import dygcn
        >>> dygcn.fit([("ann", "bob")], dim=4).to_arrow().column_names
        ['id', 'vector']
        """
        nodes = self._nodes(ids)
        flat = pa.array(self._vectors_of(nodes).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, self.model.dim)
        return pa.table(exporting.id_columns(self._state.graph.ids, nodes) | {"vector": vectors})

    @guarded
    def to_pandas(self, ids: object = None) -> Any:
        """Return a pandas frame with a row for each node; its index is the id, its columns are numbers.

        Needs pandas.

        Parameters
        ----------
        ids
            Which nodes, in this order; by default all, in the order of `ids()`.

        Examples
        --------
        >>> import dygcn
        >>> dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4).to_pandas(["cat", "ann"]).index.tolist()
        ['cat', 'ann']
        """
        nodes = self._nodes(ids)
        return exporting.as_frame(self._ids_of(nodes), self._vectors_of(nodes))

    @guarded
    def to_networkx(self) -> Any:
        """Return the graph as a networkx Graph, or a DiGraph, with weights."""
        return exporting.as_networkx(self._state.graph)

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        raise TypeError("an embedding is no array: use live.vectors() for vectors, live.ids() for ids")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an embedding cannot be pickled: live.save(path) writes one, and dygcn.load(path) reads it"
        )

    # ---- describing --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many updates were applied; of a durable embedding, the id of the last batch."""
        return self._version

    @guarded
    def error_bound(self, ids: object) -> Float64:
        """Return a bound of the distance of each node's vector from the one published last, (n,)."""
        nodes, announcer = self._find(ids), self._announces()
        return np.zeros(len(nodes)) if announcer is None else announcer.error_bound(nodes)

    @property
    def model(self) -> Model:
        """Everything that was fitted, without the graph; `dygcn.start` runs it over an empty one."""
        return self._state.model

    @property
    def edge_count(self) -> int:
        """The number of edges in the graph."""
        return self._guard.run(lambda: self._state.graph.edge_count)

    @property
    def unreached(self) -> int:
        """The number of nodes that no row of a walk model reaches: their vectors are random signs."""
        return self._guard.run(lambda: self._state.unreached())

    @guarded
    def plot(self, ids: object = None, *, names: int = 5, communities: int = 8, ax: Any = None) -> Any:
        """Draw a map in two dimensions: nodes with near vectors lie together, communities have colours.

        Kinds have signs. Of many edges, some are drawn. Needs matplotlib (extra ``plot``).

        Parameters
        ----------
        ids
            Which nodes; by default the 2,000 with the most edges.
        names
            How many of the busiest nodes are named; a name that would lie over one before it is left out.
        communities
            Into how many the vectors are divided.
        ax
            Axes of matplotlib to draw into.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn into.
        """
        nodes = plotting.busiest(self._state) if ids is None else self._find(ids)
        vectors, asked = self._vectors_of(nodes), ids is not None
        return plotting.plot_map(self._state, nodes, vectors, names, ax, communities, asked=asked)

    @overload
    def digest(self) -> str: ...

    @overload
    def digest(self, *, history: bool) -> str | None: ...

    def digest(self, *, history: bool = False) -> str | None:
        """Return a hex digest of graph and state, or of the history that scores of what comes next read.

        With the exact rule the first is equal for equal graphs, whatever their history; with the paper's
        rules, for equal histories cut into equal batches. The second, None without a history, is equal for
        equal events in equal order, however they were cut into batches: it also notices an event that was
        applied twice.
        """
        state = self._state
        if not history:
            return self._guard.run(digest_of, state)
        return self._guard.run(lambda: None if state.history is None else state.history.digest())

    @guarded
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save model and graph to a folder, in one step. See `dygcn.load`."""
        take_snapshot(self._state, self.version).write(path)

    def __repr__(self) -> str:
        name, model = type(self).__name__, self.model
        if self._state.torn:
            return f"{name}(torn: an update was interrupted; live.recompute() gives a whole one)"
        return (
            f"{name}(nodes={len(self)}, edges={self.edge_count}, dim={model.dim}, "
            f"orders={model.orders}, rule={model.rule!r}, version={self.version})"
        )

    def _repr_html_(self) -> str:
        if self._state.torn:
            return f"<code>{html.escape(repr(self))}</code>"
        model = self.model
        rows = {
            "nodes": f"{len(self):,}",
            "edges": f"{self.edge_count:,}",
            "vectors": f"{model.dim} numbers, {model.orders} orders, rule {model.rule}",
            "ids": model.ids.replace(",", ", "),
            "version": f"{self.version:,}",
        }
        return exporting.html_table(type(self).__name__, rows.items())

    # ---- for the other modules of this wing -----------------------------------------------------------

    @property
    def _tolerance(self) -> float:
        """The distance a hub's message may move before its neighbours count as moved; see `publish`."""
        announcer = self._announces()
        return 0.0 if announcer is None else announcer.tolerance

    def _announces(self) -> Announcer | None:
        """Return the announcer, which decides what moves are published; None: all moves are."""
        return None

    def _names(self, nodes: Nodes) -> IdColumn:
        return self._state.graph.ids.names(nodes)

    def _ids_of(self, nodes: Nodes) -> NDArray[Any]:
        """Return the user's ids of nodes; with kinds, ids are tuples."""
        return self._state.graph.ids.shown(self._names(nodes))

    def _vectors_of(self, nodes: Nodes) -> Float32:
        self._state.check()
        return self._state.reading().vectors(nodes)

    def _change_record(self) -> ChangeRecord:
        """Return the record of changes; it is empty in a view that never changes."""
        return ChangeRecord(self._state.graph.ids.high)

    def _cached(self) -> VectorCache:
        if self._cache is None:
            self._cache = VectorCache(self._state, self._change_record())
        return self._cache

    def _nodes(self, ids: object) -> Nodes:
        return self._state.graph.nodes() if ids is None else self._find(ids)

    def _find(self, ids: object, kind: str | None = None) -> Nodes:
        return find_nodes(self._state, ids, kind)
