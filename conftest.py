"""Kinds of tests by what they cost, the quick ones among them, and examples of kernel modules.

Every test has one kind: `unit`, or what it needs beyond the core install and some seconds. Kinds follow from
where a test stands and what it calls, so that nobody has to remember a marker. `quick` says of some tests
of the kinds `unit` and `app` that they run after every edit: see `mark_quick`.
"""

import doctest
import importlib.util
import inspect
import os
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from tests.examples import scale_examples

# Examples in kernel modules are run on what was compiled from them, which is another file.
os.environ.setdefault("PY_IGNORE_IMPORTMISMATCH", "1")

ROOT = Path(__file__).parent
_BY_PLACE = {
    "server": r"tests/serving/(sources|sinks)/test_(nats|redis|kafka|postgres|vector_stores)"
    r"|tests/serving/service/test_(openapi|model|histories)|lab/tests/testbed/test_(postgres|servers)"
    r"|tests/cli/test_(run|serve)|tests/cluster/test_ray|tests/end_to_end/|lab/tests/soak/test_shard_kills"
    r"|tests/attacks/test_raw_http",
    "soak": r"lab/tests/soak/",
    "lab": r"lab/",
    "browser": r"tests/serving/service/test_page_(in_a_browser|of_operators)|tests/docs/test_screenshots",
}
_BY_CALL = {
    "mutant": {"assert_noticed", "try_with"},
    "simulation": {"SimulatedCluster"},
    "machine": {"run_state_machine_as_test"},
    "app": {"serve", "served", "serving"},
}
_MUTANT = re.compile("noticed|mutant|seeded")
_NOT_QUICK = set((ROOT / "tests" / "not_quick.txt").read_text().splitlines())
_OTHER_PROGRAMS = {"subprocess", "Popen", "Process"}
QUICK_CASES = 2
QUICK_EXAMPLES = 5


@cache
def place_kind(path):
    """Return the kind of all tests of a file, None if it depends on what they call."""
    where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return next((kind for kind, pattern in _BY_PLACE.items() if re.match(pattern, where)), None)


@cache
def names_in(function):
    """Return what a function names, with what the functions of its module name that it calls."""
    codes, seen, names = [function.__code__], set(), set()
    while codes:
        code = codes.pop()
        seen.add(code)
        names.update(code.co_names)
        within = [one for one in code.co_consts if isinstance(one, CodeType)]
        called = (function.__globals__.get(name) for name in code.co_names)
        of_module = [
            one for one in called if isinstance(one, FunctionType) and one.__module__ == function.__module__
        ]
        codes += {*within, *(one.__code__ for one in map(inspect.unwrap, of_module))} - seen
    return names


def calls_of(item):
    """Return what a test names, and its fixtures."""
    function = getattr(item, "function", None)
    if not isinstance(function, FunctionType):
        return set()  # an example
    property_ = getattr(function, "hypothesis", None)
    inner = inspect.unwrap(function if property_ is None else property_.inner_test)
    return {*names_in(inner), *item.fixturenames}


def kind_of(item):
    """Return the kind of a test."""
    if (kind := place_kind(item.path)) is not None:
        return kind
    if _MUTANT.search(item.name):
        return "mutant"
    names = calls_of(item)
    return next((kind for kind, calls in _BY_CALL.items() if calls & names), "unit")


def mark_quick(items):
    """Mark what runs after every edit: of each test of some kinds a few cases, among them the first.

    Not a test that is `large`, starts another program, stands in a file that brings torch or in
    `tests/not_quick.txt`, and no example of `src` or `docs`. Properties are tried on `QUICK_EXAMPLES` then.
    """
    cases = defaultdict(list)
    for item in items:
        right = {"unit", "app"} & {mark.name for mark in item.own_markers}
        if right and item.get_closest_marker("large") is None and may_be_quick(item.path):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, alike in cases.items():
        if name not in _NOT_QUICK and not calls_of(alike[0]) & _OTHER_PROGRAMS:
            step = max(1, (len(alike) - 1) // (QUICK_CASES - 1))
            for item in alike[::step][:QUICK_CASES]:
                item.add_marker("quick")


@cache
def brings_much(path):
    """Say whether a file imports packages that take seconds."""
    return (
        re.search(r"^\s*(import|from) (torch|sklearn|matplotlib|ray)\b", path.read_text(), re.MULTILINE)
        is not None
    )


def pytest_collection_modifyitems(items):
    """Mark every test with its kind; full-size ones are `slow` and nothing else."""
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker(kind_of(item))
    mark_quick(items)


def pytest_ignore_collect(collection_path, config):
    """Import no file without a test in it, and, for the quick tests, none that cannot have one of them."""
    if collection_path.suffix not in (".py", ".md"):
        return None
    if not collection_path.name.startswith("test_") and ">>>" not in collection_path.read_text():
        return True
    quick = config.option.markexpr == "quick"
    return True if quick and not may_be_quick(collection_path) else None


def may_be_quick(path):
    """Say whether a file can have a quick test: not one of examples, whose import takes longer than they."""
    return path.is_relative_to(ROOT / "tests") and not place_kind(path) and not brings_much(path)


def pytest_addoption(parser):
    """Let properties be tried on fewer examples, or on more."""
    parser.addoption("--few", type=int, help="examples of a property, at most")
    parser.addoption("--many", type=int, default=1, help="times the examples that each property asks for")


def pytest_configure(config):
    """Compile what was edited of kernels that `.ci/develop` compiled; scale the examples of properties."""
    few = QUICK_EXAMPLES if config.option.markexpr == "quick" else config.option.few
    if few or config.option.many > 1:
        scale_examples(few, config.option.many)
    build, package = ROOT / "build" / "kernels", importlib.util.find_spec("dygcn")
    ours = package is not None and package.origin == str(ROOT / "src" / "dygcn" / "__init__.py")
    if ours and (build / "build.ninja").exists() and not hasattr(config, "workerinput"):
        asked = subprocess.run(["ninja", "-n", "-C", build], capture_output=True, text=True)
        if "no work to do" not in asked.stdout:
            subprocess.run(["bash", ROOT / ".ci" / "develop"], check=True)


class _Failures:
    """Names a failure when it happens: in a long run its traceback comes at the end."""

    def __init__(self, terminal):
        self._terminal = terminal

    def pytest_runtest_logreport(self, report):
        """Write the name of a test that failed."""
        if report.failed:
            self._terminal.write_line(f"\nfailed: {report.nodeid}")


def pytest_sessionstart(session):
    """Have failures named at once, by the process that prints."""
    plugins = session.config.pluginmanager
    if (terminal := plugins.get_plugin("terminalreporter")) and not hasattr(session.config, "workerinput"):
        plugins.register(_Failures(terminal))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Do not explain assertions that have to fail: where `CI` is set, pytest compares values for minutes."""
    hidden = {}
    if item.get_closest_marker("mutant"):
        hidden = {name: os.environ.pop(name) for name in ("CI", "BUILD_NUMBER") if name in os.environ}
    try:
        return (yield)
    finally:
        os.environ.update(hidden)


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
