"""What a process may be doing when it is told to end: called in it, before it begins."""

import sys
import time

from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.search.index import NearestIndex
from dygcn.serving.service.lifetime import Drain
from dygcn.serving.service.node_map import MapHandlers
from dygcn.serving.service.service import Service
from dygcn.serving.sinks import StoreSink
from dygcn.serving.sources import ReaderSource

LONG = 600.0  # seconds: longer than any test waits


def hang(*asked, **named):
    """Say that it is reached, then do not come back for long."""
    sys.stdout.write("it hangs\n")
    sys.stdout.flush()
    time.sleep(LONG)


def index_is_built():
    NearestIndex._build = hang


def sink_hangs():
    StoreSink.write = hang


def source_hangs():
    ReaderSource.read = hang


def request_hangs():
    MapHandlers.answer = hang


def writer_hangs():
    DurableEmbedding._ingest = hang


def nobody_watches():
    """The seeded bug: a sink that hangs, and no deadline."""
    sink_hangs()
    Service.stop = lambda self: hang()
    Drain._enforce = lambda self: None
