"""What can be read of an embedding: every read sees all of an update, or nothing of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dygcn._late import late
from dygcn.engine.events import python_ids
from dygcn.engine.features import GRID_BITS
from dygcn.engine.models import Model, State, StateImage, link_vectors, node_traits, read_vectors
from dygcn.engine.models.links import COSINE
from dygcn.engine.records import Float32, Float64, IdColumn, Nodes
from dygcn.errors import OptionError
from dygcn.live.digest import digest_of
from dygcn.live.files import take_snapshot
from dygcn.live.finding import find_nodes
from dygcn.live.guard import Guard, guarded
from dygcn.live.scoring import head_of, pair_scores
from dygcn.live.search.nearest import VectorCache, top_k

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dygcn.engine.training.samples import Progress
    from dygcn.live import embedding, refitting
else:  # the second brings all of training, and most who load an embedding never fit one
    embedding, refitting = late("dygcn.live.embedding"), late("dygcn.live.refitting")


class EmbeddingView(ABC):
    """All that a `LiveEmbedding` and a `DurableEmbedding` answer, one thread at a time.

    Attributes
    ----------
    state
        Graph and rule. Not for changing.
    """

    def __init__(self, state: State, guard: Guard) -> None:
        self._state = self.state = state
        self.guard = guard

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
    @abstractmethod
    def version(self) -> int:
        """How many updates were applied; of a durable embedding, the id of the last batch."""

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

    def recompute(self) -> embedding.LiveEmbedding:
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
        return embedding.LiveEmbedding(State.from_image(self.model, image), self.version)

    def refit(self, progress: Progress | None = None) -> refitting.Refit:
        """Make the rows of a walk model anew, beside these; see `Refit`. Nothing here is changed."""
        return refitting.refit(self, progress)

    def _whole_image(self) -> StateImage:
        if self._state.torn:
            self._state.complete()
        return self._state.image()[0]

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

    # ---- for the other modules of this room -----------------------------------------------------------

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

    @abstractmethod
    def cached(self) -> VectorCache:
        """Return the vectors that were read and did not move since."""

    def _find(self, ids: object) -> Nodes:
        return find_nodes(self._state, ids)
