"""The small-graph behaviour suite, on kernels that were not compiled: they must do the same, to the bit.

``python -m tests.uncompiled`` runs it on the package that is installed; if that was compiled, on a copy of it
that is not. Further arguments are pytest's.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dygcn.engine._rows import cpu_level
from tests.sanitized import NOT_HERE, PLUGINS, SMALL
from tests.seeded import ROOT, copy_uncompiled, elsewhere

EXAMPLES = 10
SUITE = [
    "tests/engine/test_rows.py",
    *(f"tests/engine/events/test_{name}.py" for name in ("keys", "wire_numbers")),
    "tests/engine/features",
    *(
        f"tests/engine/graph/test_{name}.py"
        for name in ("adjacency", "contacts", "hashing", "ids", "screening", "store")
    ),
    *(f"tests/engine/propagation/test_{name}.py" for name in ("at_once", "exact", "pulling", "sums")),
    "tests/paper/test_rolling.py",
    *(
        f"tests/live/test_{name}.py"
        for name in ("cases", "changes", "contacts", "copies", "cuts", "departures", "digests", "event_rules")
    ),
    *(f"tests/live/test_{name}.py" for name in ("features", "growing", "one_edge", "rolled", "walks")),
]
"""Properties and behaviour of the kernels and of what is built on them, on graphs of some hundred nodes."""
START = """
import dygcn, pytest, sys
from dygcn.engine._rows import cpu_level
assert cpu_level() == "none", dygcn.__file__
sys.exit(pytest.main(sys.argv[1:]))
"""


def main(*options):
    """Run the suite in a process that finds no compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        found = [] if cpu_level() == "none" else [copy_uncompiled(Path(folder))]
        path = os.pathsep.join(str(place) for place in [*found, ROOT])
        chosen = ["-k", NOT_HERE, "-m", SMALL, "--few", str(EXAMPLES), *SUITE]
        done = subprocess.run(
            [sys.executable, "-c", START, "-q", *PLUGINS, *chosen, *options],
            cwd=ROOT,
            env={**os.environ, **elsewhere(), "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
