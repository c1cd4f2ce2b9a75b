"""What a service does before it says that it is ready, so that no first request has to wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from dygcn.engine.events.wire import decode_events
from dygcn.engine.models import KINDS, State
from dygcn.live.changed import ChangeRecord
from dygcn.live.scoring import pair_scores
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import VectorCache, top_k
from dygcn.serving.service.handlers import arrow_answer, arrow_stream

if TYPE_CHECKING:
    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.models import Model

_IDS: dict[str, tuple[int | str, int | str]] = {"int64": (0, 1), "string": ("0", "1")}
_TYPES = {"int64": pa.int64(), "string": pa.string()}


def warm_up(model: Model) -> None:
    """Write, read, search and score once, in every form that requests have, on a graph of its own.

    What is imported on first use is imported then (pandas, too, where it is installed: pyarrow looks for it),
    and compiled loops are in memory.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    >>> warm_up(live.model)
    >>> sorted(live), live.version
    (['ann', 'bob', 'cat'], 0)
    """
    state = State(model)
    for form, body in _bodies(state).items():
        state.apply(decode_events(body, form, model.ids, related=bool(model.relations)).batch)
    nodes, cache = state.graph.nodes(), VectorCache(state, ChangeRecord(state.graph.ids.high))
    vectors, _ = cache.refresh(nodes)
    top_k(cache, NearestIndex(cache).candidates(vectors[0], 1, int(nodes[0])), vectors[0], 1)
    for links in KINDS if state.filter is not None else KINDS[:-1]:
        pair_scores(state, cache, nodes[:1], nodes[1:], links)
    arrow_answer({"id": pa.array(["0", "1"])}, vectors, 0)


def _ends(ids: IdMap) -> tuple[int | str, int | str]:
    if ids.kinds is None:
        return _IDS[ids.kind]
    return f"{ids.kinds.names[0]}:0", f"{ids.kinds.names[1]}:1"


def _bodies(state: State) -> dict[str, bytes]:
    """Return form -> a message with one event, of a weight that the model carries."""
    graph = state.graph
    src, dst = (pa.array([one], _TYPES[graph.ids.kind]) for one in _ends(graph.ids))
    weight = max(graph.grid, min(1.0, graph.limit * graph.grid / 4))
    table = pa.table({"src": src, "dst": dst, "weight": [weight], "t": [0.0]})
    if graph.relations is not None:
        heaviest = int(graph.relations.weights.argmax())
        table = table.set_column(2, "weight", [[weight / graph.relations.weights[heaviest]]])
        table = table.append_column("relation", [[graph.relations.names[heaviest]]])
    events = table.to_pylist()
    return {
        "json": msgspec.json.encode(events),
        "ndjson": msgspec.json.encode(events[0]),
        "arrow": arrow_stream(table),
    }
