"""Where the time of a batch goes: reading it, the graph, gathering and adding, order by order."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from dygcn.engine.events import read_events
from dygcn.engine.graph import apply_batch
from dygcn_lab.costs.timing import on_one_thread, undisturbed
from dygcn_lab.costs.traffic import as_users_do

if TYPE_CHECKING:
    from dygcn.engine.records import Additions, EventBatch
    from dygcn.live import LiveEmbedding
    from dygcn_lab.costs.traffic import Stream, Traffic


@on_one_thread()
def measure_stages(
    live: LiveEmbedding, traffic: Traffic | Stream, size: int, repeats: int
) -> dict[str, float]:
    """Return the microseconds of each stage of a batch of many, the median of repeats, on one thread.

    Between two orders the rule tells what it is about to add: what lies before that is gathering (and the
    adding of the order before), what lies after the last is adding it, and telling who moved.
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
    state, handed = live._state, as_users_do(batch)
    marks: list[tuple[str, float]] = []

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    def result(additions: Additions) -> None:
        before = f"add order {additions.order - 1}, " if additions.order > 1 else ""
        mark(f"{before}gather order {additions.order}")

    with undisturbed():
        mark("")
        events = read_events(handed["events"], live.model.ids)
        mark("read events")
        delta = apply_batch(state.graph, events)
        mark("ids and graph")
        state.exact.watch(result)
        state.exact.apply(state.graph, delta)
        mark(f"add order {state.exact.orders}, who moved")
    state.exact.watch(None)
    state.graph.release(delta.left)
    return {name: at - marks[i][1] for i, (name, at) in enumerate(marks[1:])}
