"""The writer's side: rows lie in shared memory, and each complete change of the state is published."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec
import numpy as np

from dygcn.engine._native import compiled
from dygcn.engine.features.inputs import Hashed, Walks
from dygcn.engine.graph import ticks
from dygcn.engine.graph.ticks import publish
from dygcn.engine.models.readout import read_plan
from dygcn.engine.propagation import ExactRule
from dygcn.live.shared import segments

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.models.state import State
    from dygcn.engine.propagation.pulling import Pulls
    from dygcn.engine.records import UInt64


def can_share(state: StateReader) -> TypeGuard[State]:
    """Return whether other processes can read the vectors of a state.

    They can on Linux, with compiled loops (which write in an order that others may rely on), if the rule is
    the exact one and its features are looked up rather than stored.
    """
    rule = getattr(state, "rule", None)  # shards have none
    if not sys.platform.startswith("linux") or not _is_compiled():
        return False
    return isinstance(rule, ExactRule) and read_plan(state.model, rule) is not None


def _is_compiled() -> bool:
    return compiled or not ticks.__file__.endswith(".py")


class SharedRows:
    """Puts the rows of a state into shared memory, and publishes every complete change."""

    def __init__(self, state: State, sequence: Callable[[], int]) -> None:
        self._state, self._sequence = state, sequence
        self._segments = memory = segments.Segments()
        self._now = np.ones(1, np.int64)
        self._words = memory.zeros(segments.WORDS, np.int64)
        self._list = memory.zeros(segments.LIST_ROOM, np.uint8)
        state.share(memory.zeros, self._now)
        self._arrays: tuple[object, ...] = ()
        self._fixed: dict[str, Any] = {}  # the files of these arrays are open while they are here
        self._share_model()
        state.transaction.after = self.publish
        self.publish()

    def handle(self) -> bytes:
        """Return the handle that `RowReader` takes."""
        place = self._segments.place
        return msgspec.json.encode(segments.Handle(os.getpid(), place(self._words), place(self._list)))

    def publish(self) -> None:
        """Publish the current state to readers."""
        graph, rule = self._state.graph, self._state.exact
        if self._state.model is not self._model:
            self._share_hashes()
        pulls = rule.pulls(graph)
        arrays = graph.ids.arrays, graph.node_arrays, pulls, *(sums.arrays for sums in rule.sums)
        if arrays != self._arrays:
            self._list_arrays(graph.ids, pulls)
            self._arrays = arrays
        tick = int(self._now[0])
        self._words[segments.SEQUENCES + tick % segments.KEPT] = self._sequence()
        publish(self._words, segments.TICK, tick)
        self._now[0] = tick + 1

    def close(self) -> None:
        """Stop publishing."""
        self._state.transaction.after = None

    def _share_hashes(self) -> None:
        """Remove forgotten ids from the shared table of rows; none of these ids is in the graph."""
        self._hashes[...] = self._features.unit_table(self._state.graph.ids).arrays[0]
        self._model = self._state.model

    def _share_model(self) -> None:
        """Copy the constant parts of the model, once; only hashes may change, see `_share_hashes`."""
        state, memory = self._state, self._segments
        features, plan = state.exact.features, read_plan(state.model, state.exact)
        assert isinstance(features, Hashed | Walks)
        assert plan is not None
        self._features, self._model = features, state.model
        table = features.unit_table(state.graph.ids)
        units = [memory.copied(array) for array in table.arrays]
        weights = [memory.copied(np.ascontiguousarray(matrix)) for matrix in plan.weights]
        scales, secret = memory.copied(plan.scales), memory.copied(state.graph.ids.secret)
        self._hashes: UInt64 = units[0]
        self._fixed = {
            "kind": state.model.ids,
            "seed": plan.seed,
            "floor": plan.floor,
            "dim": plan.dim,
            "mixed": plan.mixed,
            "message_shift": plan.message_shift,
            "weights": weights,
            "scales": scales,
            "secret": secret,
            "hashed": table.hashed,
            "unit_seed": table.seed,
            "units": units,
        }

    def _list_arrays(self, ids: IdMap, pulls: Pulls | None) -> None:
        graph, orders = self._state.graph, []
        for sums in self._state.exact.sums:
            rows = sums.degree, sums.slot, sums.narrow, sums.wide
            orders.append(segments.OrderArrays(*rows, sums.ticks.arrays[0], sums.scale, sums.limit))
        active, node_stamps = graph.shared_arrays
        pulled = None if pulls is None else _pulled_arrays(pulls)
        listed = segments.SharedArrays(
            **self._fixed,
            ids=ids.read_arrays(),
            active=active,
            stamps=node_stamps,
            orders=orders,
            pulled=pulled,
        )
        text = np.frombuffer(msgspec.json.encode(listed, enc_hook=self._segments.place), np.uint8)
        generation = int(self._words[segments.GENERATION])
        publish(self._words, segments.GENERATION, generation + 1)
        self._list[: len(text)] = text
        self._words[segments.LIST_BYTES] = len(text)
        publish(self._words, segments.GENERATION, generation + 2)


def _pulled_arrays(pulls: Pulls) -> segments.PulledArrays:
    arcs, heavy, shift = pulls.arrays
    slot, rows, has, *_, earlier = heavy.arrays
    *before, ticks = earlier.arrays
    return segments.PulledArrays(list(arcs.arrays), slot, rows, has, before, ticks.arrays[0], shift)
