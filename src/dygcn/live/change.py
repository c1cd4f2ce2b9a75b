"""What one update moved, or a trial would move."""

from __future__ import annotations

import html
from contextlib import _GeneratorContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events import python_ids
from dygcn.engine.events.kinds import as_text
from dygcn.engine.graph import Graph
from dygcn.engine.models.contracts import Outcome, StateReader
from dygcn.engine.models.links import norms
from dygcn.engine.models.surprise import reason_names
from dygcn.engine.records import Bool, Changed, Float32, Float64, Int8, Nodes
from dygcn.errors import DygcnError, OptionError, StaleChange
from dygcn.live import exporting
from dygcn.live.changed import ChangeRecord
from dygcn.live.search.nearest import VectorCache
from dygcn.live.vector_view import VectorView

_SHOWN = 10  # nodes that a notebook shows
_LISTENERS = 2  # the order at which listeners move


@dataclass(frozen=True, slots=True)
class Surprise:
    """How surprising each event was, in the order of the update (of `remove` and `add`, removals first).

    Attributes
    ----------
    src, dst
        (n,) the asker, and the answer.
    value
        (n,) minus log P(dst | src) before the event; NaN for an event that adds nothing.
    rank
        (n,) share of the last hundred events of `src` that were less surprising; NaN of fewer than five.
    reasons
        Up to three columns of the history that made the event unlikely, the strongest first.
    """

    src: NDArray[Any]
    dst: NDArray[Any]
    value: Float64
    rank: Float64
    reasons: list[list[str]]

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        most = np.fmax.reduce(self.value) if len(self) else float("nan")  # removals have none
        return f"Surprise({len(self)} events, the greatest {most:.1f})"

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each event; its index is the asker."""
        reasons = np.array([", ".join(names) for names in self.reasons], object)
        columns = {"dst": self.dst, "surprise": self.value, "rank": self.rank, "reasons": reasons}
        return exporting.as_frame(self.src, columns, index="src")


class Change:
    """What one update moved: only the nodes whose state is another one now.

    Attributes
    ----------
    version
        Number of the update.
    unchanged, missing, loops
        Events without effect: adds of an edge that had that weight, removes of an edge that was not
        there, self loops.
    expired
        Edges that left by the clock (`expire` of `dygcn.fit`): no event removed them.
    rows
        Rows of state that the update added to: its cost.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=8)
    >>> change = live.update(remove=[("cat", "dan")])
    >>> sorted(zip(change.ids, change.orders.tolist())), change.left.tolist()
    ([('bob', 2), ('cat', 1)], ['dan'])
    """

    def __init__(
        self, live: VectorView, outcome: Outcome, version: int, before: Float32 | None = None
    ) -> None:
        self._live, self._before = live, before
        self._distance: Float64 | None = None
        self._moved = outcome.moved
        self._ids: NDArray[Any] | None = None
        self._ended = False  # whether nodes were removed after it, in the same trial
        self._left = outcome.left
        self.version = version
        self.unchanged = outcome.unchanged
        self.missing = outcome.missing
        self.loops = outcome.loops
        self.expired = outcome.expired
        self.rows = outcome.moved.rows
        self._surprises = outcome.surprises

    @property
    def _nodes(self) -> Nodes:
        return self._all().nodes

    @property
    def orders(self) -> Int8:
        """The order at which each of `ids` was reached.

        0 for its own features or a fresh base, 1 for the ends of a changed edge, 2 for their neighbours, and
        so on up to K.
        """
        return self._all().orders

    def _all(self) -> Changed:
        """Return the nodes that moved, neighbours of hubs included, which are looked up at the first read."""
        if len(self._moved.heavy):
            self._live._guard.run(self._look_up)
        return self._moved

    def _look_up(self) -> None:
        if not len(self._moved.heavy):
            return
        self._check_current(
            ": it reached hubs, whose neighbours are looked up when somebody asks; read ids, orders or "
            "len(change) before the next update"
        )
        self._moved = with_listeners(self._live._state.graph, self._moved)

    def _check_current(self, advice: str) -> None:
        if self._ended or self._live.version != self.version:
            raise StaleChange(
                f"this change is of version {self.version}, the embedding is at {self._live.version}{advice}"
            )

    @property
    def ids(self) -> NDArray[Any]:
        """The nodes that moved, by the user's ids."""
        if self._ids is None:
            self._all()
            self._live._guard.run(self._keep)
        assert self._ids is not None
        return self._ids

    def _end(self) -> None:
        """Compute ids and distances now: the next update replaces the state that they are read from."""
        self._look_up()
        self._keep()
        self._ended = True

    def _keep(self) -> None:
        """Read ids and distances before the next update; ids wait if neighbours of hubs are among them."""
        if self._ids is None and not len(self._moved.heavy):
            self._ids = self._live._ids_of(self._moved.nodes)
        if self._before is not None and self._distance is None:
            self._distance = norms(self._live._vectors_of(self._nodes) - self._before)

    @property
    def left(self) -> NDArray[Any]:
        """Ids that are no longer in the graph."""
        return self._live._state.graph.ids.shown(self._left).copy()

    @property
    def distance(self) -> Float64:
        """How far the vector of each of `ids` moved, (n,); NaN for a node that was not in the graph before.

        Call ``live.track(distances=True)`` before the update; an `OptionError` if that was not done.
        """
        if self._before is None:
            raise OptionError("no distances were tracked; call live.track(distances=True) before the update")
        if self._distance is None:
            self._live._guard.run(self._keep)
        assert self._distance is not None
        return self._distance

    @property
    def surprise(self) -> Surprise:
        """How surprising each event of the update was, before it happened.

        Call ``live.track(surprise=True)`` before the update; an `OptionError` if that was not done.
        """
        found = self._surprises
        if found is None:
            raise OptionError(
                "no surprises were measured; call live.track(surprise=True) before the update (a bulk load "
                "measures none)"
            )
        shown = self._live._state.graph.ids.shown
        reasons = reason_names(found.reasons)
        return Surprise(shown(found.src), shown(found.dst), found.value, found.rank, reasons)

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each of `ids`, which are its index, and its order.

        If distances were tracked, there is a column of them, too.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
        >>> live.track(distances=True)
        >>> live.update(add=[("ann", "cat")]).to_pandas().columns.tolist()
        ['order', 'distance']
        """
        columns: dict[str, NDArray[Any]] = {"order": self.orders}
        if self._before is not None:
            columns["distance"] = self.distance
        return exporting.as_frame(self.ids, columns)

    @property
    def vectors(self) -> Float32:
        """The vectors of `ids`, computed when asked for.

        Raises
        ------
        StaleChange
            After a later update: the state they belong to is gone.
        """
        self._check_current(
            "; read the vectors before the next update, or ask live.vectors(change.ids) for today's"
        )
        return self._live._guard.run(self._live._vectors_of, self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        counts = ("unchanged", "missing", "loops", "expired")
        more = "".join(f", {name}={getattr(self, name)}" for name in counts if getattr(self, name))
        hubs = len(self._moved.heavy)
        moved = f"{len(self._moved.nodes)} and neighbours of {hubs}" if hubs else str(len(self))
        return f"Change(version={self.version}, moved={moved}, left={len(self._left)}{more})"

    def _repr_html_(self) -> str:
        try:
            ids, far = self.ids, None if self._before is None else self.distance
        except DygcnError:  # of a trial that has ended
            return f"<code>{html.escape(repr(self))}</code>"
        first = np.argsort(self.orders if far is None else -far, kind="stable")[:_SHOWN]
        texts = [[str(ids[row]), str(self.orders[row])] for row in first]
        for row, cells in zip(first, texts, strict=True):
            cells += [] if far is None else ["new" if np.isnan(far[row]) else f"{far[row]:.4f}"]
        head = ["node", "order", *([] if far is None else ["distance"])]
        more = f"<p>{len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        return exporting.html_table(repr(self), texts, head) + more


def with_listeners(graph: Graph, moved: Changed) -> Changed:
    """Return the nodes that moved, with all listeners of heavy nodes whose messages changed."""
    if not len(moved.heavy):
        return moved
    listeners = np.setdiff1d(graph.push.arcs(moved.heavy)[1], moved.nodes)
    nodes = np.concatenate((moved.nodes, listeners))
    orders = np.concatenate((moved.orders, np.full(len(listeners), _LISTENERS, np.int8)))
    return Changed(nodes, orders, moved.rows)


class DistanceTracker:
    """Keeps the vectors from before an update; each update reads the vectors that the last one moved."""

    def __init__(self, state: StateReader) -> None:
        self._changes = ChangeRecord(state.graph.ids.high, 0, state.graph)
        self._cache = VectorCache(state, self._changes)
        self._position = 0
        self._here: Bool = np.zeros(0, np.bool_)
        self.begin()

    def begin(self) -> None:
        """Read the vectors that moved since the last update, before the next update changes them."""
        graph = self._cache.state.graph
        nodes = self._changes.behind(self._position).nodes
        self._cache.refresh(nodes[graph.present(nodes)])
        self._position = self._changes.last
        self._here = graph.here > 0

    def note(self, moved: Changed) -> None:
        """Record what an update moved."""
        self._changes.append(moved.nodes, 1, moved.heavy, moved.turned)

    def before(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes before the update, (n, dim); NaN for nodes that were not there."""
        known = nodes < len(self._here)
        known[known] = self._here[nodes[known]]
        rows = np.full((len(nodes), self._cache.state.model.dim), np.nan, np.float32)
        rows[known] = self._cache.arrays()[0][nodes[known]]
        return rows


T = TypeVar("T")


class TrialBlock(_GeneratorContextManager[T]):
    """The block of a trial, made by `what_if`: ``with`` opens it and gives a `WhatIf`, leaving it ends it.

    Entered and left by the code of `contextlib.contextmanager` alone: an interrupt has no more lines to come
    between.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> live.what_if(add=[("cat", "dan")])
    TrialBlock(use it as: with live.what_if(...) as trial:)
    """

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"what_if opens a block, which has no {name!r}; "
            f"use it as: with live.what_if(...) as trial: trial.{name}",
            name=name,
            obj=self,
        )

    def __repr__(self) -> str:
        return "TrialBlock(use it as: with live.what_if(...) as trial:)"


class TrialMoves:
    """The nodes that a trial moves, and how far: made inside its block, measured after it."""

    def __init__(self, trial: Any) -> None:  # a `WhatIf`, whose module needs this one
        graph, changes = trial._state.graph, trial.changes
        nodes = np.unique(np.concatenate([np.empty(0, np.int32), *(change._nodes for change in changes)]))
        nodes = nodes[graph.present(nodes)]
        self._names, self._after = trial._names(nodes), trial._vectors_of(nodes)
        self._left = {as_text(name) for change in changes for name in change.left.tolist()}
        self.rows = sum(change.rows for change in changes)
        self.unchanged = sum(change.unchanged for change in changes)
        self.missing = sum(change.missing for change in changes)

    def __len__(self) -> int:
        return len(self._names)

    def measure(self, live: VectorView) -> tuple[NDArray[Any], Float64]:
        """Return ids and how far each would move, the furthest first; new nodes come last, with NaN."""
        before = np.full_like(self._after, np.nan)
        if len(self):
            nodes = live._state.graph.find(self._names)
            before[nodes >= 0] = live._vectors_of(nodes[nodes >= 0])
        distance = norms(self._after - before)
        ids = python_ids(self._names)  # with kinds as text, which can be sorted
        order = np.lexsort((ids, -distance))
        return ids[order], distance[order]

    def left(self, live: VectorView) -> list[int | str]:
        """Return the ids that would no longer be in the graph."""
        return sorted(name for name in self._left if name in live)
