"""How many rows a second a sink takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.records import Rows
from dygcn.testing.sink_model import made_up_history

if TYPE_CHECKING:
    from dygcn.serving.sinks import Sink

_AT_ONCE = 1000  # as the service writes


def rows_a_second(sink: Sink, rows: int = 10_000, dim: int = 128) -> tuple[float, float]:
    """Write new rows, then later versions of them; return the rows of a second of each.

    Parameters
    ----------
    sink
        Not open, on an empty target.
    rows, dim
        How many rows, and the size of their vectors.

    Examples
    --------
    >>> import tempfile
    >>> from dygcn.serving.sinks import ParquetSettings, make_sink
    >>> new, again = rows_a_second(make_sink(ParquetSettings(folder=tempfile.mkdtemp())), 2000, 4)
    >>> new > 0, again > 0
    (True, True)
    """
    vectors = np.random.default_rng(0).standard_normal((rows, dim)).astype(np.float32)
    speeds = []
    sink.open("int64", dim)
    try:
        for round_ in range(2):
            begun = time.perf_counter()
            for place, begin in enumerate(range(0, rows, _AT_ONCE)):
                history = made_up_history(1 + place + round_ * rows)
                ids = np.arange(begin, min(begin + _AT_ONCE, rows), dtype=np.int64)
                none = np.array([], np.int64)
                sequences = np.full(len(ids), history.sequence, np.int64)
                sink.write(Rows(ids, vectors[ids], sequences, none, none, history))
            speeds.append(rows / (time.perf_counter() - begun))
    finally:
        sink.close()
    return speeds[0], speeds[1]
