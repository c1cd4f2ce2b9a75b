"""One thread of BLAS while it is asked for, and as many as before after that."""

import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dygcn
from dygcn.engine._blas import one_blas_thread

CROSSED = """
import sys, threading
import numpy, threadpoolctl
from dygcn.engine._blas import one_blas_thread
if sys.argv[1] == "wrong":
    one_blas_thread = lambda: threadpoolctl.threadpool_limits(1, "blas")
pools = threadpoolctl.threadpool_info
threads = lambda: {pool["num_threads"] for pool in pools() if pool["user_api"] == "blas"}
before = threads()
first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
def first():
    with one_blas_thread():
        first_is_in.set()
        second_is_in.wait(60)
        seen.append(threads())
    first_is_out.set()
def second():
    first_is_in.wait(60)
    with one_blas_thread():
        second_is_in.set()
        first_is_out.wait(60)
seen = []
both = [threading.Thread(target=call) for call in (first, second)]
for thread in both: thread.start()
for thread in both: thread.join()
print(before, seen, threads())
"""


def threads():
    """Return how many threads numpy has; other packages may bring in a BLAS of their own."""
    return {pool["num_threads"] for pool in threadpool_info() if "numpy" in pool["filepath"]}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, "blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has no threads")
        yield


@pytest.mark.usefixtures("two_threads")
def test_one_thread_inside_and_as_many_as_before_after_it():
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_fit_keeps_to_one_thread():
    seen = []
    dygcn.fit([(1, 2), (2, 3)], dim=4, width=16, progress=lambda *_: seen.append(threads()))
    assert seen
    assert all(found == {1} for found in seen)
    assert threads() == {2}


def run_crossed(which):
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", CROSSED, which]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_two_that_cross_leave_what_they_found():
    """The first to come leaves first."""
    found = run_crossed("right")
    if not found.startswith("{2}"):
        pytest.skip("this BLAS has no threads")
    assert found == "{2} [{1}] {2}"
    assert run_crossed("wrong") == "{2} [{1}] {1}"  # the seeded bug: each puts back what it found
