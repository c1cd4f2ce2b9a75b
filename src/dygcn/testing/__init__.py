"""The contracts of sources and sinks, as checks for tests of your own.

`check_source` checks a source of your own, `check_sink` a sink. No client of a server is imported here.
"""

from dygcn.testing.sink_checks import SINK_CHECKS, check_sink
from dygcn.testing.sink_model import SinkTarget, named, replayed
from dygcn.testing.source_checks import SOURCE_CHECKS, check_source

__all__ = ["SINK_CHECKS", "SOURCE_CHECKS", "SinkTarget", "check_sink", "check_source", "named", "replayed"]
