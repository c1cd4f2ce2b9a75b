"""The behaviour suite on shards: whatever an embedding does in one process, it does on several.

``python -m tests.sharded 2`` runs it with every graph divided among two shards in one process, which hand
each other the same messages as processes do. Further arguments are pytest's. Models that shards refuse (other
than two orders, features of their own) stay in one piece.
"""

import os
import subprocess
import sys

from dygcn.cluster.local_shards import divide
from dygcn.engine.models import State
from dygcn.live.durable import write_ahead
from dygcn.live.embedding import LiveEmbedding
from tests.sanitized import NOT_HERE, PLUGINS, SMALL
from tests.seeded import ROOT

EXAMPLES = 20
LOOKS_INSIDE = "not allocat"
SUITE = [
    *(
        f"tests/live/test_{name}.py"
        for name in (
            "asking",
            "cases",
            "changes",
            "clock",
            "contacts",
            "cuts",
            "departures",
            "digests",
            "event_rules",
            "exact",
            "growing",
            "hubs",
            "now",
            "one_edge",
            "reading",
            "score",
            "walks",
        )
    ),
]
"""What one process does, as users see it."""


def pytest_addoption(parser):
    parser.addoption("--shards", type=int, help="among how many shards every graph is divided")


def pytest_configure(config):
    shards = config.getoption("--shards")
    if shards is not None:
        divide_every_graph(shards)


def divide_every_graph(shards):
    """Have every embedding that is made from now on keep its graph on shards, where these take its model."""
    whole = LiveEmbedding.__init__

    def init(self, state, version=0):
        durable = sys._getframe(1).f_globals["__name__"] == write_ahead.__name__
        if type(state) is State and not durable and takes(state.model):
            state = divide(state, shards)
        whole(self, state, version)

    LiveEmbedding.__init__ = init


def takes(model):
    """Say whether shards take a model."""
    return model.rule == "exact" and model.orders == 2 and model.features in ("hashed", "walks")


def main(shards, *options):
    """Run the suite."""
    chosen = ["-k", f"{NOT_HERE} and {LOOKS_INSIDE}", "-m", SMALL, "--few", str(EXAMPLES), *SUITE]
    plugins = [*PLUGINS, "-p", "tests.sharded", "--shards", shards]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *chosen, *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
