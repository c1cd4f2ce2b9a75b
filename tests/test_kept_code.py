"""Machine code on disk is used again, unless the source of any kernel has changed."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import dygcn
from dygcn._jit import kernel_sources, sources_digest
from tests.seeded import with_line

PACKAGE = Path(dygcn.__file__).parent
INNER = """
from dygcn._jit import inlined, kernel
from dygcn.graph.plain import STEP

@inlined
def more(x):
    return x + STEP

@kernel
def apart(x):
    return x + STEP
"""
OUTER = """
from dygcn._jit import kernel
from dygcn.graph.inner import apart, more

@kernel
def outer(x):
    return 100 * more(x) + apart(x)
"""
ASK = """
from dygcn.graph.outer import outer
found = outer(1)
stats = outer.stats
hits, misses = sum(stats.cache_hits.values()), sum(stats.cache_misses.values())
print(found, hits, misses, type(outer._cache).__name__, stats.cache_path)
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, without machine code, with two kernels of which one holds the other."""
    left_out = shutil.ignore_patterns("__pycache__", "shipped")
    package = Path(shutil.copytree(PACKAGE, tmp_path / "copy" / "dygcn", ignore=left_out))
    (package / "graph" / "plain.py").write_text("STEP = 1\n")
    (package / "graph" / "inner.py").write_text(INNER)
    (package / "graph" / "outer.py").write_text(OUTER)
    return package


def run(package, script, **environment):
    """Run a script with a copy of the package; machine code is kept in its folders unless told otherwise."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    env |= {"PYTHONPATH": str(package.parent), "DYGCN_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def ask(package, **environment):
    """Return what the outer kernel says, whether its machine code was on disk, and where it is now."""
    found, hits, misses, cache, *place = run(package, ASK, **environment)
    assert int(hits) + int(misses) in (0, 1)
    assert cache in ("_Kept", "NullCache")
    return int(found), hits == "1", place[0] if place else ""


def change(file, line, other):
    file.write_text(with_line(file.read_text(), line, other))


def test_machine_code_is_used_again(copy):
    assert ask(copy)[:2] == (202, False)
    assert ask(copy) == (202, True, str(copy / "graph" / "__pycache__"))


def changed_elsewhere(package):
    """Change a function that the kernel holds, then a constant of a module without kernels."""
    assert ask(package)[:2] == (202, False)
    source = (package / "graph" / "inner.py").read_text()
    (package / "graph" / "inner.py").write_text(source.replace("return x + STEP", "return x + 2 * STEP"))
    assert ask(package)[0] == 303
    (package / "graph" / "plain.py").write_text("STEP = 2\n")
    assert ask(package)[0] == 505


def test_a_change_of_another_file_is_noticed(copy):
    changed_elsewhere(copy)


def test_a_stamp_without_the_other_files_would_be_noticed(copy):
    change(
        copy / "_jit.py",
        "sources_digest(),",
        "'no digest',",
    )
    with pytest.raises(AssertionError, match="303"):
        changed_elsewhere(copy)


def test_a_new_answer_from_the_graph_after_a_change_of_its_loops(copy):
    """`writing.apply_events` holds a copy of `delta.play`."""
    script = (
        "from dygcn.events import read_events\n"
        "from dygcn.graph import Graph\n"
        "graph = Graph('int64')\n"
        "graph.apply(read_events([(1, 2), (2, 3)]))\n"
        "print(graph.apply(read_events([(1, 3, 0, -1)] * 70)).missing)\n"
    )
    assert run(copy, script, NUMBA_OPT="0") == ["70"]  # to compile sooner
    delta = copy / "graph" / "delta.py"
    assert delta.read_text().count("missing += 1\n") == 2
    delta.write_text(delta.read_text().replace("missing += 1\n", "missing += 1000\n"))
    assert run(copy, script, NUMBA_OPT="0") == ["70000"]


def test_a_change_of_what_holds_no_kernel_keeps_the_code(copy):
    assert ask(copy)[:2] == (202, False)
    for file in ("cli/main.py", "live/embedding.py", "service/app.py"):
        (copy / file).write_text((copy / file).read_text() + "\n# more\n")
    (copy / "graph" / ".#inner.py").symlink_to("nowhere")  # an editor's
    assert ask(copy)[:2] == (202, True)


def test_the_user_says_where(copy, tmp_path):
    for hit in (False, True):
        found, was_there, place = ask(copy, NUMBA_CACHE_DIR=str(tmp_path / "mine"))
        assert (found, was_there) == (202, hit)
        assert Path(place).parent == tmp_path / "mine"
    assert not list(copy.rglob("*.nbi"))


def test_where_the_package_cannot_be_written_the_user_s_cache_is(copy, tmp_path):
    (copy / "graph" / "__pycache__").write_text("in the way")
    for hit in (False, True):
        found, was_there, place = ask(copy, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert (found, was_there) == (202, hit)
        assert tmp_path / "cache" in Path(place).parents


def test_where_nothing_can_be_written_nothing_is_kept(copy):
    for file in ("__pycache__", "graph/__pycache__"):
        (copy / file).write_text("in the way")
    for _ in range(2):
        assert ask(copy, XDG_CACHE_HOME="/dev/null", HOME="/dev/null") == (202, False, "None")


def imported_names(file):
    """Return the names that a module takes from elsewhere, and from which module."""
    lines = [line for line in ast.parse(file.read_text()).body if isinstance(line, ast.ImportFrom)]
    return {name.asname or name.name: (line.module, name.name) for line in lines for name in line.names}


def kernels():
    """Yield every kernel of the package with its file."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if b"dygcn._jit import" in file.read_bytes():
            name = ".".join(("dygcn", *file.relative_to(PACKAGE).with_suffix("").parts))
            for one in vars(importlib.import_module(name)).values():
                if isinstance(one, Dispatcher) and one.py_func.__module__ == name:
                    yield file, one


def test_whatever_kernels_take_from_elsewhere_is_in_the_digest():
    sources, seen = set(kernel_sources()), set()
    for file, one in kernels():
        assert file.relative_to(PACKAGE).as_posix() in sources
        names = imported_names(file)
        for module, name in (names[used] for used in one.py_func.__code__.co_names if used in names):
            if module.startswith("dygcn"):
                parts = module.split(".")[1:]
                places = {
                    "/".join(parts) + ".py",
                    "/".join((*parts, "__init__.py")),
                    "/".join((*parts, name)) + ".py",
                }
                assert places & sources, (file, name)
                seen.add(name)
    assert {"mix", "FAR", "play", "page"} <= seen


def test_the_digest_is_of_names_and_contents(copy):
    script = "from dygcn._jit import sources_digest; print(sources_digest())"
    found = {sources_digest()}
    for number, action in enumerate(
        (
            lambda: None,
            lambda: (copy / "graph" / "inner.py").rename(copy / "graph" / "within.py"),
            lambda: (copy / "graph" / "plain.py").write_text("STEP = 3\n"),
            lambda: (copy / "live" / "loops.py").write_text("from dygcn._jit import kernel\n"),
            lambda: (copy / "live" / "loops.py").unlink(),
        )
    ):
        action()
        found |= set(run(copy, script))
        assert len(found) == min(number + 2, 5)
