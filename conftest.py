"""Kinds of tests by what they cost, and examples of kernel modules.

Every test has one kind: `unit`, or what it needs beyond the core install and some seconds. Kinds follow from
where a test stands and what it calls, so that nobody has to remember a marker.
"""

import doctest
import inspect
import os
import re
from pathlib import Path

import pytest

# Examples in kernel modules are run on what was compiled from them, which is another file.
os.environ.setdefault("PY_IGNORE_IMPORTMISMATCH", "1")

ROOT = Path(__file__).parent
_KINDS = {
    "server": r"tests/serving/(sources|sinks)/test_(nats|redis|kafka|postgres|vector_stores)"
    r"|tests/serving/service/test_(openapi|model|histories)|tests/testing/test_(postgres|servers)"
    r"|tests/cli/test_(run|serve)|tests/cluster/test_ray|tests/end_to_end/|lab/tests/soak/test_shard_kills"
    r"|tests/attacks/test_raw_http",
    "soak": r"lab/tests/soak/",
    "lab": r"lab/",
    "browser": r"tests/serving/service/test_page_in_a_browser|tests/docs/test_screenshots",
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


# ---- optional packages -------------------------------------------------------------------------------------
# A test that needs one which is not installed is skipped, by its name. CI has all of them, and says so by
# DYGCN_COMPLETE: there a missing one is an error.

_MISSING = re.compile(r"No module named '([\w.]+)'|([\w.]+) is not installed. Run: pip install")
_OURS = re.compile(r"dygcn|tests\b")


def missing_package(error):
    """Return the name of the package that an import lacked, None if the error is another one."""
    found = None if os.environ.get("DYGCN_COMPLETE") else _MISSING.search(str(error))
    name = None if found is None else (found[1] or found[2]).partition(".")[0]
    return None if name is None or _OURS.match(name) else name


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file that cannot be imported for want of an optional package."""
    report = yield
    if report.failed and (name := missing_package(report.longrepr)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {name} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip a test that comes to such an import."""
    report = yield
    if report.failed and isinstance(call.excinfo.value, ImportError | doctest.UnexpectedException):
        error = getattr(call.excinfo.value, "exc_info", (None, call.excinfo.value))[1]
        if isinstance(error, ImportError) and (name := missing_package(error)):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {name} is not installed")
    return report
