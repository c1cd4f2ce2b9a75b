"""For tests, ours and yours: slow twins of everything fast, and small graphs with known traps.

`check_source` checks a source of your own, `check_sink` a sink. No client of a server is imported here.
"""

from dygcn.testing.dense import dense_messages, dense_vectors, twin_vectors
from dygcn.testing.graphs import GRAPHS, GraphOracle, random_events
from dygcn.testing.sink_checks import SINK_CHECKS, check_sink
from dygcn.testing.sink_model import SinkTarget, named, replayed
from dygcn.testing.source_checks import SOURCE_CHECKS, check_source

__all__ = [
    "GRAPHS",
    "SINK_CHECKS",
    "SOURCE_CHECKS",
    "GraphOracle",
    "SinkTarget",
    "check_sink",
    "check_source",
    "dense_messages",
    "dense_vectors",
    "named",
    "random_events",
    "replayed",
    "twin_vectors",
]
