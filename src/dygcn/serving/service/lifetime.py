"""Start and end of a service: warm-up, readiness, and one deadline for the drain."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from dygcn.engine.events.wire import decode_events
from dygcn.engine.models.links import KINDS
from dygcn.engine.models.state import State
from dygcn.errors import DygcnError
from dygcn.live.changed import ChangeRecord
from dygcn.live.scoring import pair_scores
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import VectorCache, top_k
from dygcn.serving.service.web import arrow_answer, arrow_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.models.model import Model
    from dygcn.live.durable.embedding import DurableEmbedding
    from dygcn.serving.service.observations import Observations

_LOG = logging.getLogger(__name__)
_FOR_REQUESTS, _LONGEST_FOR_REQUESTS = 0.3, 10.0  # of the whole; seconds
_FOR_SOURCES = 0.5  # of the whole, with what went before
_TO_CLOSE, _LONGEST_TO_CLOSE = 0.25, 1.0  # of the whole, at the end; seconds
_BETWEEN = 0.2  # seconds between two tries
_IDS: dict[str, tuple[int | str, int | str]] = {"int64": (0, 1), "string": ("0", "1")}
_TYPES = {"int64": pa.int64(), "string": pa.string()}


class Drain:
    """The deadline of a drain."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self.until = float("inf")

    @property
    def begun(self) -> bool:
        """Whether the drain has begun."""
        return self.until < float("inf")

    @property
    def left(self) -> float:
        """The seconds left; infinite before the drain begins."""
        return self.until - self._clock()

    @property
    def for_requests(self) -> float:
        """The seconds for requests in progress; after them, connections are cut."""
        return min(_FOR_REQUESTS * self.seconds, _LONGEST_FOR_REQUESTS)

    @property
    def sources_until(self) -> float:
        """The moment until which a drain waits for sources."""
        return self.until - (1 - _FOR_SOURCES) * self.seconds

    @property
    def sinks_until(self) -> float:
        """The moment until which a drain waits for sinks, so that time is left to close the folder."""
        return self.until - min(_TO_CLOSE * self.seconds, _LONGEST_TO_CLOSE)

    def begin(self) -> None:
        """Set the deadline, the first time."""
        if not self.begun:
            self.until = self._clock() + self.seconds

    def enforce(self) -> None:
        """Begin the drain, and end the process at the deadline in any case. For a process of its own only.

        What was acknowledged is in the log, so nothing is lost; the next start replays what is behind the
        last snapshot.
        """
        self.begin()
        threading.Thread(target=self._enforce, name="dygcn-deadline", daemon=True).start()

    def _enforce(self) -> None:
        time.sleep(max(self.left, 0.0))
        _LOG.error("the drain took longer than %g s; the rest is left to the next start", self.seconds)
        _leave(1)


def leave_behind(names: Sequence[str]) -> None:
    """End the process without waiting for threads that cannot be interrupted, such as C code."""
    if names:
        _LOG.warning("the process ends without waiting for: %s", ", ".join(names))
        atexit.register(_leave, 0)


def leave_now(code: int) -> None:
    """End the process immediately, as a crash would."""
    _LOG.error("asked to stop a second time: the process ends at once")
    _leave(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


# ---- the beginning ------------------------------------------------------------------------------------


class Readiness:
    """Probes the service like a request, until it answers.

    The machine code of a write is warm by then: `warm_up` wrote to a graph of its own, in every form.
    """

    def __init__(
        self, live: DurableEmbedding, drain: Drain, probe: Callable[[], None], observations: Observations
    ) -> None:
        self._live, self._drain, self._probe, self._seen = live, drain, probe, observations
        self._reason: str | None = "the service starts"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dygcn-ready", daemon=True)

    def start(self) -> None:
        """Begin to probe."""
        self._thread.start()

    def stop(self) -> None:
        """Stop probing."""
        self._stop.set()

    def reason(self) -> str | None:
        """Return why requests should not come; None: the service is ready. Never waits."""
        if self._drain.begun:
            return "the service is going down"
        if self._is_torn():
            return "an update was cut off within the state; restart the service"
        return self._reason

    def _is_torn(self) -> bool:
        """Return whether an update was interrupted; a running update holds the lock, and is not."""
        live = self._live
        if not live._state.torn or not live.lock.acquire(blocking=False):
            return False
        try:
            return live._state.torn
        finally:
            live.lock.release()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._probe()
            except DygcnError as error:
                self._reason = f"a read or a search is not answered yet: {error}"
                self._stop.wait(_BETWEEN)
            else:
                self._reason = None
                self._seen.begun_serving()
                return


# ---- warming ---------------------------------------------------------------------------------------------


def warm_up(model: Model) -> None:
    """Write, read, search and score once on a separate graph, in every form that requests have.

    What is imported on first use is imported then (pandas, too, where it is installed: pyarrow looks for it),
    and compiled loops are in memory.
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
