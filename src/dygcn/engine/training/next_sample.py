"""The lists of the later training events, and the vectors of their nodes before each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import join_events, take
from dygcn.engine.events.windows import part_of
from dygcn.engine.history import History
from dygcn.engine.models import pair_products, read_units, read_vectors
from dygcn.engine.models.links import count_products
from dygcn.engine.training.link_head import first_held_out
from dygcn.engine.training.next_head import fit_next
from dygcn.engine.training.next_lists import LISTS, draw_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.models import Model, NextHead, State
    from dygcn.engine.records import EventBatch, Float64, Nodes
    from dygcn.engine.training.matrices import Recipe

BEGIN = 0.5  # of all events, after which lists are drawn


class NextSample:
    """Lists of the later training events; and products of vectors, of those that steps set aside have.

    Parameters
    ----------
    parts
        The training steps. A model whose events have no times has no lists.

    Attributes
    ----------
    history
        Has all events: lists were drawn on the way. None: there are none.
    """

    def __init__(self, model: Model, parts: Sequence[EventBatch], recipe: Recipe) -> None:
        self._parts, self._lists, self._span, self._products, self._first = parts, None, 0.0, None, 0
        self.history: History | None = None
        if model.unit is None or model.baseline is not None or len(parts) < 2:
            return
        batch = join_events(list(parts))
        assert batch.t is not None
        self._span = float(batch.t.max() - batch.t.min())
        if not self._span > 0:
            return
        ends = np.cumsum([len(part) for part in parts])
        first = first_held_out(len(parts) - 1, recipe)
        random = np.random.default_rng([model.seed, 7])
        begin = int(BEGIN * len(batch))
        self.history = History(model.ids, self._span)
        self._lists = draw_lists(self.history, batch, begin, LISTS, random)
        self._names = self.history.names
        self._first = int(ends[first]) if first > 0 else len(batch)
        if model.table is not None:
            shape = (*self._lists.candidates.shape, count_products(model.orders))
            self._products = np.zeros(shape)

    def follow(self, state: State, step: int) -> None:
        """Play a held-out step, and read the vectors of the nodes in each list just before its event.

        Vectors of a state that is older, or that knows the event, would be weighed for what they are not.
        Of the last step, events after the last list are not played.
        """
        part, seen = self._parts[step], 0
        if self._lists is not None and self._products is not None:
            before = sum(map(len, self._parts[:step]))
            events = self._lists.event - before
            for row in np.flatnonzero((events >= 0) & (events < len(part))).tolist():
                event, there = int(events[row]), self._lists.candidates[row] >= 0
                if event > seen:
                    state.apply(part_of(part, seen, event))
                    seen = event
                asker = state.graph.find(take(part.src, np.array([event])))
                others = state.graph.find(take(self._names, self._lists.candidates[row, there]))
                self._products[row, there] = products_of(state, np.concatenate((asker, others)))
        if step + 1 < len(self._parts):
            state.apply(part_of(part, seen, len(part)))

    def fit(self) -> NextHead | None:
        """Return the score of what comes next; None: there was too little to learn from."""
        if self._lists is None:
            return None
        if self._products is None:
            return fit_next(self._lists, self._span)
        held = self._lists.event >= self._first
        return fit_next(self._lists, self._span, self._products, held)


def products_of(state: State, nodes: Nodes) -> Float64:
    """Return products of the vector of the first node with those of others; zeros without a vector."""
    here = np.flatnonzero(nodes >= 0)
    found = np.zeros((len(nodes) - 1, count_products(state.model.orders)))
    if nodes[0] < 0 or len(here) < 2:
        return found
    where = state.model, state.exact, state.graph
    vectors, units = read_vectors(*where, nodes[here]), read_units(*where, nodes[here])
    ends = np.zeros(len(here) - 1, np.int64), np.arange(1, len(here))
    found[here[1:] - 1] = pair_products(vectors, units, *ends)
    return found
