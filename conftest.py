"""Kinds of tests by what they cost, and examples of kernel modules.

Every test has one kind: `unit`, or what it needs beyond the core install and some seconds. Kinds follow from
where a test stands and what it calls, so that nobody has to remember a marker.
"""

import inspect
import os
import re
from pathlib import Path

# Examples in kernel modules are run on what was compiled from them, which is another file.
os.environ.setdefault("PY_IGNORE_IMPORTMISMATCH", "1")

ROOT = Path(__file__).parent
_KINDS = {
    "soak": r"lab/tests/soak/",
    "lab": r"lab/",
    "browser": r"tests/serving/service/test_page_in_a_browser",
    "server": r"tests/serving/(sources|sinks)/test_(nats|redis|kafka|postgres)"
    r"|tests/serving/service/test_(openapi|model|histories)|tests/testing/test_(postgres|servers)"
    r"|tests/cli/test_(run|serve)|tests/end_to_end/",
}
_MUTANT = re.compile(r"assert_noticed\(|try_with\(")


def kind_of(item):
    """Return the kind of a test."""
    where = item.path.relative_to(ROOT).as_posix()
    for kind, pattern in _KINDS.items():
        if re.match(pattern, where):
            return kind
    function = getattr(item, "function", None)
    named = re.search("noticed|mutant|seeded", item.name)
    if named or (function is not None and _MUTANT.search(inspect.getsource(function))):
        return "mutant"
    return "unit"


def pytest_collection_modifyitems(items):
    """Mark every test with its kind; full-size ones are `slow` and nothing else."""
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker(kind_of(item))
