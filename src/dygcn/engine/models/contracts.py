"""The contracts of a state, which one process and the front of shards both implement for `live`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dygcn.engine.features.inputs import Features
    from dygcn.engine.filter.filter import Filter
    from dygcn.engine.graph import Graph
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.graph.transaction import Transaction
    from dygcn.engine.history import EventHistory, HistoryImage
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.models.model import Model
    from dygcn.engine.models.surprise import Surprises
    from dygcn.engine.propagation import Rule
    from dygcn.engine.records import Changed, EventBatch, Float32, GraphDelta, IdColumn, Int32, Int64, Nodes


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
class Outcome:
    """The effect of one batch."""

    moved: Changed
    left: IdColumn  # ids that are no longer in the graph
    unchanged: int = 0
    missing: int = 0
    loops: int = 0
    surprises: Surprises | None = None  # where they are tracked
    expired: int = 0  # edges that left by the clock


@dataclass(frozen=True, slots=True)
class StateImage:
    """The part of a state that does not follow from the model, without internal ids."""

    graph: GraphImage
    tensors: Tensors  # what the rule adds: x of the nodes that own some, or every vector
    history: HistoryImage | None = None  # where the model looks at one

    def arranged(self) -> StateImage:
        """Return the same with the edges in order."""
        return StateImage(self.graph.arranged(), self.tensors, self.history)


class Reading(Protocol):
    """Reads vectors of one state."""

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""


class Messages(Protocol):
    """The messages of a state of the exact rule; on shards, each call waits for their owners."""

    features: Features  # where h_0 comes from
    orders: int  # K, how far a change is propagated

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, (n, width), and 1 where a node has one, (n,)."""

    def whole_sums(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int64, Int64]:
        """Return degrees and sums of nodes, on the grid."""

    def pushes(self, graph: Graph, nodes: Nodes) -> Int32:
        """Return a bound on the number of neighbours that each node's message is pushed to."""


class StateReader(Protocol):
    """A state that can only be read."""

    model: Model
    rule: Rule  # what is kept of every node
    history: EventHistory | None  # the past events, where the model looks at them
    filter: Filter | None  # the sums that recommendations are read from

    @property
    def graph(self) -> Graph:
        """The graph; on shards, queries about edges wait for their owners."""

    @property
    def exact(self) -> Messages:
        """The messages; raise FeatureError for a rule that stores vectors."""

    @property
    def past_ids(self) -> IdColumn | None:
        """Ids of all nodes that ever had an event; None without a history."""

    @property
    def torn(self) -> bool:
        """Whether a change is in progress, or was interrupted by an exception."""

    def check(self) -> None:
        """Raise `TornState` if an exception interrupted a change."""

    def reading(self) -> Reading:
        """Return a reader of vectors."""

    def unreached(self) -> int:
        """Return how many nodes of a walk model no row reaches, 0 for any other model."""

    def image(self) -> tuple[StateImage, Nodes]:
        """Return the state without internal ids, and the nodes in the same order."""

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Return the image with unsorted edges, in arrays of its own."""

    def to_save(self) -> StateReader:
        """Return the state that a snapshot of a durable folder holds."""


class StateWriter(StateReader, Protocol):
    """A state that can be changed, by one thread at a time."""

    transaction: Transaction  # every change is made in it

    @property
    def changing(self) -> AbstractContextManager[object]:
        """The transaction, for a change that stages nothing: an exception leaves the state torn."""

    def stage(self, batch: EventBatch, now: float | None = None) -> None:
        """Check events and reserve capacity; raise EventError if one is bad."""

    def find_edge(self, a: object, b: object, op: int) -> tuple[int, int, int] | None:
        """Return an edge of weight one, without a time, by its nodes; None: stage it as a batch."""

    def stage_edge(self, edge: tuple[int, int, int]) -> None:
        """Stage an edge that `find_edge` returned."""

    def write(self) -> Outcome:
        """Write what is staged."""

    def bulk(self, batches: Iterable[EventBatch]) -> tuple[Outcome, Exception | None]:
        """Apply batches, then compute the state once; also return the error that stopped them, if any."""

    def set_features(self, ids: IdColumn, values: Float32) -> Outcome:
        """Give nodes features of their own, or replace them."""

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges, ghosts and features."""

    def apply_to_graph(self, batch: EventBatch, now: float | None = None) -> tuple[GraphDelta, IdColumn]:
        """Apply events to the graph alone; return the ids that left. Then call `rebuild`."""

    def rebuild(self) -> None:
        """Recompute the state from the graph."""

    def complete(self) -> None:
        """Finish an interrupted change of the graph; the state stays torn."""

    def forget_rows(self, ids: IdColumn) -> None:
        """Remove the rows of ids from the model; none of the ids may be in the graph."""

    def forget_past(self, ids: IdColumn) -> None:
        """Remove ids from the history."""

    def track_surprise(self, on: bool) -> None:
        """Measure how surprising events are from now on, or stop."""
