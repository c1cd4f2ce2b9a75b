"""An embedding as it would be."""

from __future__ import annotations

from contextlib import _GeneratorContextManager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dygcn.engine.events import python_ids
from dygcn.engine.events.kinds import as_text
from dygcn.engine.models import norms
from dygcn.live.changed import ChangeRecord
from dygcn.live.guard import Guard
from dygcn.live.search.nearest import VectorCache
from dygcn.live.view import EmbeddingView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.engine.models import State
    from dygcn.engine.records import Float64
    from dygcn.live.change import Change


class WhatIf(EmbeddingView):
    """What an embedding would answer after a change; made by `what_if`, and over with its block.

    Attributes
    ----------
    changes
        What the change would move: one for its events, one for nodes that it removes.
    """

    def __init__(self, state: State, version: int, outer: Guard) -> None:
        super().__init__(state, Guard(state))
        self._guard.lock, self._guard.waits = outer.lock, outer.waits
        self._version = version
        self._cache: VectorCache | None = None
        self.changes: list[Change] = []

    @property
    def version(self) -> int:
        """The version of the embedding that the trial is of."""
        return self._version

    def _cached(self) -> VectorCache:
        """Return vectors of the trial: none of those of the embedding itself is touched."""
        if self._cache is None:
            self._cache = VectorCache(self._state, ChangeRecord(self._state.graph.ids.high))
        return self._cache


class TrialBlock(_GeneratorContextManager[WhatIf]):
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


class Moves:
    """Who would move in a trial, and how far: made inside its block, measured after it.

    Attributes
    ----------
    rows
        Rows of state that the change adds to: its cost.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> with live.what_if(add=[("ann", "cat"), ("cat", "dan")]) as trial:
    ...     moves = Moves(trial)
    >>> ids, distance = moves.measure(live)
    >>> ids[-1], np.isnan(distance).tolist()
    ('dan', [False, False, False, True])
    """

    def __init__(self, trial: WhatIf) -> None:
        graph = trial._state.graph
        moved = [np.empty(0, np.int32), *(change.nodes for change in trial.changes)]
        nodes = np.unique(np.concatenate(moved))
        nodes = nodes[graph.present(nodes)]
        self._names, self._after = trial._names(nodes), trial._vectors_of(nodes)
        self._left = [as_text(name) for change in trial.changes for name in change.left.tolist()]
        self.rows = sum(change.rows for change in trial.changes)
        self.unchanged = sum(change.unchanged for change in trial.changes)
        self.missing = sum(change.missing for change in trial.changes)

    def __len__(self) -> int:
        return len(self._names)

    def measure(self, live: EmbeddingView) -> tuple[NDArray[Any], Float64]:
        """Return ids and how far each would move, the furthest first; NaN, and last, for one that is new."""
        before = np.full_like(self._after, np.nan)
        if len(self):
            nodes = live._state.graph.find(self._names)
            before[nodes >= 0] = live._vectors_of(nodes[nodes >= 0])
        distance = norms(self._after - before)
        ids = python_ids(self._names)  # with kinds as text, which can be sorted
        order = np.lexsort((ids, -distance))
        return ids[order], distance[order]

    def left(self, live: EmbeddingView) -> list[int | str]:
        """Return ids of the embedding that would no longer be there."""
        return sorted(name for name in set(self._left) if name in live)
