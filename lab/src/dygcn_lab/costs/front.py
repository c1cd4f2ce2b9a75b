"""What shards cost beside additions: messages with and without TLS, moved ids, the memory of the front.

``python -m dygcn_lab.costs.front`` writes results/shards/front.json, in the root of the repository. Bytes are
counts; times are of the CPU, and those that are compared are measured in turns.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from dygcn.cluster.certificates import NAME, made_in
from dygcn.cluster.messages import Events
from dygcn.cluster.queries import OutcomeReply
from dygcn.cluster.wire import pack, unpack
from dygcn.engine.events import id_column, read_events, rows_of, sort_by_time
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.shards import Shards, batches_of
from dygcn_lab.costs.timing import load_average
from dygcn_lab.report.blocks import write_json
from dygcn_lab.testbed.divided import divide
from dygcn_lab.testbed.seeding import own_state

TOLD = "changes", "first_rows", "messages", "bytes"
FRONT = Path("results/shards/front.json")
_ROUNDS, _CALLS, _BODY = 9, 300, 100
_MOVED = 1_000_000
_IN_INDEX = 8  # bytes of an id there, beside its vector in float32


class _Sink(flight.FlightServerBase):  # type: ignore[misc]
    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Take a message, as a shard does."""
        action.body.to_pybytes()
        return iter([])


@contextmanager
def _line(secure: bool) -> Iterator[Callable[[], float]]:
    """Yield a function that sends messages; it returns the microseconds of CPU of one, of both ends."""
    with tempfile.TemporaryDirectory() as folder:
        mine = made_in(Path(folder)).read()
    shown: dict[str, Any] = {
        "tls_certificates": [(mine.certificate, mine.key)],
        "verify_client": True,
        "root_certificates": mine.ca,
    }
    show = {"tls_root_certs": mine.ca, "cert_chain": mine.certificate, "private_key": mine.key}
    kind = "grpc+tls" if secure else "grpc"
    body, options = pa.py_buffer(b"x" * _BODY), flight.FlightCallOptions(timeout=60)
    with _Sink(f"{kind}://127.0.0.1:0", **(shown if secure else {})) as server:
        how = show | {"override_hostname": NAME} if secure else {}
        client = flight.FlightClient(f"{kind}://127.0.0.1:{server.port}", **how)

        def send() -> float:
            began = time.process_time()
            for _ in range(_CALLS):
                list(client.do_action(flight.Action("send", body), options))
            return (time.process_time() - began) / _CALLS * 1e6

        send()
        yield send
        client.close()


def messages() -> dict[str, float]:
    """Return what a small message takes with TLS and without, in turns."""
    with _line(False) as plain, _line(True) as secure:
        both = [(plain(), secure()) for _ in range(_ROUNDS)]
    return {
        "cpu_us_without_tls": statistics.median(one for one, _ in both),
        "cpu_us": statistics.median(one for _, one in both),
        "ratio_of_tls": statistics.median(after / before for before, after in both),
    }


def moved() -> dict[str, float]:
    """Return what an id that moved takes on its way to the front, and there."""
    front = divide(own_state(fit([(0, 1), (1, 2)], dim=8, progress=False)), 1)
    ids, orders = id_column(np.arange(_MOVED)), np.ones(_MOVED, np.int8)
    none = id_column(np.empty(0, np.int64))
    body = pack(OutcomeReply(1, True, ids, orders, 0, none, 0))
    front.queries.processes, front._commit = _Moved(body), lambda entry: 1  # type: ignore[assignment]
    entry, took = Events(read_events([]), None), []
    for _ in range(_ROUNDS):  # in the first one ids are new, which the median leaves out
        began = time.thread_time()
        assert len(front.follow(entry).moved.nodes) == _MOVED
        took.append((time.thread_time() - began) / _MOVED * 1e9)
    return {"ns": statistics.median(took), "bytes": len(body) / _MOVED}


class _Moved:
    """In the place of a shard: every id moves with every batch."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def query(self, queries: dict[int, Any]) -> dict[int, Any]:
        return {number: unpack(self._body) for number in queries}


def default_model() -> dict[str, Any]:
    """Return what the default model takes: counts and bytes of what is told, its table in each shard."""
    events = sort_by_time(graph_events("as-733"))
    half = len(events) // 2
    first = rows_of(events, np.arange(half))
    live = fit({"src": first.src.values, "dst": first.dst.values, "op": first.op}, progress=False)
    shards = Shards(live.model, 2)
    shards.apply(first, counted=False)
    for batch in batches_of(rows_of(events, np.arange(half, len(events))), 1_000):
        shards.apply(batch)
    return {
        "dim": live.model.dim,
        "told": {name: getattr(shards.counts, name) for name in TOLD},
        "table_bytes_a_row": _table_bytes(live),
        "front_bytes_a_node": _cache_bytes(live) + 4 * live.model.dim + _IN_INDEX,
    }


def _table_bytes(live: LiveEmbedding) -> float:
    features: Any = live.model.new_features()
    arrays = features.unit_table(live._state.graph.ids).arrays
    return float(sum(one.nbytes for one in arrays) / len(features.table.rows))


def _cache_bytes(live: LiveEmbedding) -> float:
    live.nearest(next(iter(live)), 1)
    held = [value for value in vars(live._cached()).values() if isinstance(value, np.ndarray)]
    return sum(value.nbytes for value in held) / len(live)


def main() -> None:
    """Measure, and write."""
    found = {"messages": messages(), "moved": moved(), "default_model": default_model()}
    write_json(found | {"load_average": load_average()}, FRONT)


if __name__ == "__main__":
    main()
