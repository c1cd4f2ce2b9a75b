"""The behaviour suite on shards: whatever an embedding does in one process, it does on several.

``python -m tests.sharded 2`` runs it with every graph divided among two shards in one process, which hand
each other the same messages as processes do. Further arguments are pytest's. Models that shards refuse (other
than two orders, features of their own) stay in one piece.
"""

import os
import subprocess
import sys

import msgspec

from dygcn.cli.serving import open_embedding
from dygcn.cluster.front import FrontState
from dygcn.engine.models.state import State
from dygcn.errors import FolderError
from dygcn.live.durable import write_ahead
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.files import load_snapshot
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Shards
from dygcn_lab.testbed import served
from dygcn_lab.testbed.divided import divide
from tests.sanitized import NOT_HERE, PLUGINS, SMALL
from tests.seeded import ROOT

EXAMPLES = 20
LOOK_INSIDE = [  # at arrays of one process, or interrupt its loops
    "allocat",
    "interrupted",
    "keeps_nothing",
    "could_not_be_made",
    "copy_shares",
    "few_calls",
    "nothing_is_stale",
    "bulk_leaves",
    "at_which_order",
    "ties_are_broken",
    "rows_are_made_of",
    "from_the_sources_to_the_disk",  # opens the folder in one process afterwards
]
REFUSED = [
    "tolerance",
    "test_now",
    "what_if",
    "trial",
    "explain_change",
    "refit",
]  # by shards, with the reason
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
            "expiry",
            "growing",
            "hubs",
            "kinds",
            "now",
            "one_edge",
            "reading",
            "score",
            "walks",
        )
    ),
    *(f"tests/serving/service/test_{name}.py" for name in ("service", "app", "changes", "handlers_reading")),
]
"""What one process does, as users see it, and the service that is opened in this process."""


def pytest_addoption(parser):
    parser.addoption("--shards", type=int, help="among how many shards every graph is divided")
    parser.addoption("--lie", action="store_true", help="let shards lie")


def pytest_configure(config):
    shards = config.getoption("--shards")
    if shards is not None:
        divide_every_graph(shards)
    if config.getoption("--lie"):
        lie()


def divide_every_graph(shards):
    """Have every embedding that is made from now on keep its graph on shards, where these take its model."""
    whole = LiveEmbedding.__init__

    def init(self, state, version=0):
        durable = sys._getframe(1).f_globals["__name__"] == write_ahead.__name__
        if type(state) is State and not durable and takes(state.model):
            state = divide(state, shards)
        whole(self, state, version)

    def opened(settings):
        kept = read_settings_of(settings.folder)
        if settings.shards is None and settings.http.readers == 0 and kept is not None and takes(kept):
            settings = msgspec.structs.replace(settings, shards=Shards(count=shards, on="here"))
        return open_embedding(settings)

    LiveEmbedding.__init__ = init
    served.open_embedding = opened
    Service.__init__.__defaults__ = (opened,)


def read_settings_of(folder):
    """Return the model of a folder that is saved, None if there is none that can be read."""
    try:
        return load_snapshot(folder)[0].model
    except FolderError:
        return None


def takes(model):
    """Say whether shards take a model."""
    return model.rule == "exact" and model.orders == 2 and model.features in ("hashed", "walks")


def lie():
    """Seed a bug: shards negate what they are asked for."""
    whole = FrontState.vectors
    FrontState.vectors = lambda self, nodes: -whole(self, nodes)


def main(shards, *options, few=EXAMPLES, bug=False):
    """Run the suite, or the files that are named."""
    files = [option for option in options if option.startswith("tests/")]
    others = [option for option in options if option not in files]
    left_out = [NOT_HERE, *(f"not {one}" for one in (*LOOK_INSIDE, *REFUSED))]
    chosen = ["-k", " and ".join(left_out), "-m", SMALL, "--few", str(few), *(files or SUITE)]
    plugins = [*PLUGINS, "-p", "tests.sharded", "--shards", shards, *(["--lie"] if bug else [])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *chosen, *others],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
