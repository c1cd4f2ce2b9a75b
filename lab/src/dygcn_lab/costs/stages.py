"""Where the time of a batch goes: reading it, the graph, gathering and adding, order by order."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any
from unittest import mock

from dygcn.engine.events import read_events
from dygcn.engine.graph import apply_batch
from dygcn.engine.propagation import spreading
from dygcn.engine.propagation.gathering import gather_part
from dygcn_lab.costs.timing import on_one_thread, undisturbed
from dygcn_lab.costs.traffic import as_users_do
from dygcn_lab.testbed.own_state import own_state

if TYPE_CHECKING:
    from dygcn.engine.records import EventBatch
    from dygcn.live.embedding import LiveEmbedding
    from dygcn_lab.costs.traffic import Stream, Traffic


@on_one_thread()
def measure_stages(
    live: LiveEmbedding, traffic: Traffic | Stream, size: int, repeats: int
) -> dict[str, float]:
    """Return the microseconds of each stage of a batch of many, the median of repeats, on one thread.

    A mark is made when an order is gathered: what lies before it is gathering (and the adding of the order
    before), what lies after the last is adding it, and listing the nodes that moved.
    """
    found: list[dict[str, float]] = []
    for _ in range(repeats):
        there, back = traffic.round(size)
        found.append(_one(live, there))
        live.update(back)
        if traffic.moves_on:
            live.update(there)
    return {name: 1e6 * statistics.median(each[name] for each in found) for name in found[0]}


def _one(live: LiveEmbedding, batch: EventBatch) -> dict[str, float]:
    state, handed = own_state(live), as_users_do(batch)
    marks: list[tuple[str, float]] = []

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    def gather(*arguments: Any) -> Any:
        gathered, order = gather_part(*arguments), len(marks) - 2
        mark(f"add order {order - 1}, gather order {order}" if order > 1 else "gather order 1")
        return gathered

    with undisturbed(), mock.patch.object(spreading, "gather_part", gather):
        mark("")
        events = read_events(handed["events"], live.model.ids)
        mark("read events")
        delta = apply_batch(state.graph, events)
        mark("ids and graph")
        state.exact.apply(state.graph, delta)
        mark(f"add order {state.exact.orders}, who moved")
    state.graph.release(delta.left)
    return {name: at - marks[i][1] for i, (name, at) in enumerate(marks[1:])}
