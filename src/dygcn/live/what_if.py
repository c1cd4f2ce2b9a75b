"""The block of a trial, and the nodes that its change would move."""

from __future__ import annotations

from contextlib import _GeneratorContextManager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from dygcn.engine.events import python_ids
from dygcn.engine.events.kinds import as_text
from dygcn.engine.models.links import norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.engine.records import Float64
    from dygcn.live.vector_view import VectorView

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
