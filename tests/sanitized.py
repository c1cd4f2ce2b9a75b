"""Kernels in builds that notice what an ordinary one does not: wrong indices, overruns, use after free.

``python -m tests.sanitized memory`` builds with every index checked and with gcc's sanitizers for addresses
and undefined behaviour, runs the tests of kernels and the hub streams, then compiles faults in, one by one,
and asks that each is caught. ``thread`` runs updates by several threads under the thread sanitizer. What
``--help`` does not know is handed to pytest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.seeded import ROOT, copy_sources, elsewhere, with_line

BUILDS = {"memory": ["-Dchecked=true", "-Db_sanitize=address,undefined"], "thread": ["-Db_sanitize=thread"]}
DEBUG = ["-Dcompiled=enabled", "-Doptimization=0", "-Ddebug=true", "-Db_lundef=false"]
LIBRARIES = {"memory": ["libasan.so"], "thread": ["libtsan.so"]}
KERNEL_TESTS = ["tests/engine/test_rows.py", "tests/engine/graph", "tests/engine/propagation"]
KERNEL_TESTS += ["tests/paper/test_rolling.py"]
KERNEL_TESTS += ["tests/engine/filter/test_filter.py::test_any_history"]
KERNEL_TESTS += ["tests/live/test_hubs.py", "tests/live/test_one_edge.py"]
OTHER_TESTS = [f"tests/live/test_{name}.py" for name in ("contacts", "cuts", "exact", "rolled", "walks")]
PLUGINS = ["-p", "no:cacheprovider", "-p", "tests.counted"]
NOT_HERE = "not notice and not caught"  # what is tried on uncompiled copies anyway
SMALL = "not slow and not large"
NOT_IN_THREADS = f"{NOT_HERE} and not forked"  # the thread sanitizer starts no threads after a fork
THREAD_TESTS = ["tests/engine/propagation/test_threads.py"]


@dataclass
class Fault:
    """A line that is wrong in C, the test that runs into it, and what the sanitizer says."""

    name: str
    file: str
    line: str
    wrong: str
    test: str
    said: str


MEMORY_FAULTS = [
    Fault(
        "an overrun by one element",
        "src/dygcn/engine/_products.h",
        "for (ptrdiff_t j = 0; j < n; j++) out[(first + i) * n + j] = (float)(row[j] * inverse);",
        "for (ptrdiff_t j = 0; j <= n; j++) out[(first + i) * n + j] = (float)(row[j] * inverse);",
        "tests/engine/test_rows.py",
        "AddressSanitizer: heap-buffer-overflow",
    ),
    Fault(
        "use after growth",
        "src/dygcn/engine/_rows.pyx",
        "self.data = <char *>&self.owner[0] if self.owner.shape[0] else NULL",
        "self.data = <char *>&self.owner[0] if self.owner.shape[0] else NULL\nself.owner = self.array = None",
        "tests/engine/test_rows.py::test_a_block_outlives_the_growth_of_its_array",
        "AddressSanitizer: heap-use-after-free",
    ),
    Fault(
        "an index that is one too large",
        "src/dygcn/engine/graph/ids_kernels.py",
        "out[i] = _find_int(ids, values[i])",
        "out[i + 1] = _find_int(ids, values[i])",
        "tests/engine/graph/test_ids.py",
        "IndexError: Out of bounds on buffer access",
    ),
    Fault(
        "a lost bit",
        "src/dygcn/engine/graph/transaction.py",
        "graph.note_bits(events.weight)",
        "if graph.weight_shift == 30:\n    graph.note_bits(events.weight)",
        "tests/live/test_cuts.py::test_a_restart_that_joins_cuts_is_exact",
        "assert again.digest() == before == again.recompute().digest()",
    ),
]
THREAD_FAULTS = [
    Fault(
        "two threads at one row",
        "src/dygcn/engine/propagation/gathering.py",
        "_list_pushes(frontier, arcs.push, arcs.shift, mine, sums, marks, work)",
        "_list_pushes(frontier, arcs.push, arcs.shift, (1 << 30) - 1, sums, marks, work)",
        "tests/engine/propagation/test_threads.py::test_any_number_of_threads_gives_the_same_bits",
        "ThreadSanitizer: data race",
    ),
]
FAULTS = {"memory": MEMORY_FAULTS, "thread": THREAD_FAULTS}


class Tree:
    """A copy of the sources, and an installation of what was built from it."""

    def __init__(self, folder, kind):
        self.sources, self._build, self.installed = folder / "sources", folder / "build", folder / "installed"
        self.kind = kind
        shutil.rmtree(self.sources, ignore_errors=True)
        copy_sources(self.sources)
        if self._build.exists():
            return
        options = [*BUILDS[kind], *DEBUG, f"-Dpython.platlibdir={self.installed}"]
        self._run("meson", "setup", *options, self._build, self.sources)

    def build(self):
        """Compile what changed."""
        self._run("meson", "install", "-C", self._build)

    @staticmethod
    def _run(*command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def test(self, *arguments, **options):
        """Run tests on it."""
        preloaded = [
            subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
            for name in [*LIBRARIES[self.kind], "libstdc++.so.6"]
        ]
        env = {
            **os.environ,
            **elsewhere(),
            "ASAN_OPTIONS": "detect_leaks=0",
            "LD_PRELOAD": " ".join(preloaded),
            "OMP_NUM_THREADS": "1",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": f"{self.installed}:{ROOT}",
            "TSAN_OPTIONS": "halt_on_error=1",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        }
        start = f"import dygcn, pytest, sys; assert dygcn.__file__.startswith({str(self.installed)!r}); "
        start += "sys.exit(pytest.main(sys.argv[1:]))"
        always = ["-q", "-x", "--capture=sys", *PLUGINS]  # sanitizers write to what stderr really is
        return subprocess.run(
            [sys.executable, "-c", start, *always, *arguments], env=env, cwd=ROOT, **options
        )


def try_fault(tree, fault):
    """Compile a fault in, see it caught, and take it out again."""
    file = tree.sources / fault.file
    right = file.read_text()
    file.write_text(with_line(right, fault.line, fault.wrong))
    try:
        tree.build()
        done = tree.test(fault.test, capture_output=True, text=True)
    finally:
        file.write_text(right)
    said = done.stdout + done.stderr
    assert done.returncode != 0, f"{fault.name}: not caught"
    assert fault.said in said, f"{fault.name}: {said}"
    print(f"caught: {fault.name}, by {fault.test}: {fault.said}", flush=True)


def main(kind, folder, kept, tests, *options):
    """Build, run the tests, and try the faults."""
    tree = Tree(Path(folder), kind)
    tree.build()
    left_out = NOT_IN_THREADS if kind == "thread" else NOT_HERE
    done = tree.test("-k", left_out, *options, *tests)
    if done.returncode:
        sys.exit(done.returncode)
    try:
        for fault in FAULTS[kind]:
            try_fault(tree, fault)
    finally:
        if kept:
            tree.build()  # no fault stays in the folder: its file is newer now than any copy will be


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=BUILDS)
    parser.add_argument("--folder", help="where what was built is kept")
    parser.add_argument(
        "--whole", action="store_true", help="also large tests, and those of what is built on kernels"
    )
    result, rest = parser.parse_known_args()
    chosen = THREAD_TESTS if result.kind == "thread" else KERNEL_TESTS + OTHER_TESTS * result.whole
    sizes = [] if result.whole else ["-m", SMALL]
    with tempfile.TemporaryDirectory() as another:
        main(result.kind, result.folder or another, bool(result.folder), chosen, *sizes, *rest)
