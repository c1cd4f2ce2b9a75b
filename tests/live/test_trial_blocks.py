"""Whatever ends the block of a trial, no answer ever comes from a graph that was never there."""

import copy
import gc
import sys
import threading

import numpy as np
import pytest

import dygcn
from dygcn.errors import ConcurrentUse, OpenTrial, StaleChange, TornState
from dygcn.live.guard import Guard

EDGES = [("ann", "bob"), ("bob", "cat"), ("cat", "dan"), ("dan", "ann")]


@pytest.fixture
def live():
    return dygcn.fit(EDGES, dim=4)


def check_whole_or_refused(live, digest):
    """An embedding answers as if there had been no trial, or refuses; then it can be healed."""
    try:
        assert live.digest() == digest
        assert "eve" not in live
    except (TornState, OpenTrial):
        if not live._state.torn:
            return False
    healed = live.recompute()
    assert healed.digest() == digest
    return True


def test_blocks_that_are_left_in_the_wrong_order(tmp_path):
    live = dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=4))
    live.update(add=[("dan", "bob")])
    digest = live.digest()
    outer = live.what_if(add=[("dan", "eve")])
    inner = outer.__enter__().what_if(add=[("eve", "fay")])
    inner.__enter__()
    outer.__exit__(None, None, None)
    with pytest.raises(TornState):
        live.digest()
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == digest
        assert "eve" not in again


def interrupted_lines(ask, point):
    """Raise KeyboardInterrupt at the n-th line that is executed inside of the package."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        name = frame.f_code.co_filename
        if "dygcn" not in name and "contextlib" not in name:
            return None
        if event == "line":
            count += 1
            if count == point:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        ask()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return count


def ask_once(live):
    def ask():
        with live.what_if(add=[("dan", "eve")], remove=[("ann", "bob")]) as trial:
            trial.vector("eve")

    return ask


def test_an_interrupt_at_any_line_leaves_nothing_of_a_trial_behind(live):
    ask_once(live)()  # what is imported late is there
    digest, total = live.digest(), interrupted_lines(ask_once(live), 0)
    assert total > 100
    torn, kept = 0, []
    for point in range(1, total + 1):
        tried = copy.deepcopy(live)
        tried.vectors()
        interrupted_lines(ask_once(tried), point)
        assert check_whole_or_refused(tried, digest), point
        if tried._guard.owned():
            kept.append(point)
        torn += tried._state.torn
    assert torn > 10
    assert len(kept) <= 3  # the lines that release the lock: this thread goes on, others are refused


def test_an_interrupt_that_is_not_looked_for_would_be_noticed(live, monkeypatch):
    """A guard that asks nobody whether a trial is open."""
    monkeypatch.setattr(Guard, "check", lambda self: None)
    ask_once(live)()
    digest, total = live.digest(), interrupted_lines(ask_once(live), 0)

    def goes_unnoticed(point):
        tried = copy.deepcopy(live)
        interrupted_lines(ask_once(tried), point)
        tried._state.transaction.torn = False
        return tried.digest() == digest

    assert not all(map(goes_unnoticed, range(1, total + 1)))


def test_recomputing_inside_a_trial(live):
    digest = live.digest()
    with live.what_if(add=[("dan", "eve")]) as trial:
        there = dygcn.LiveEmbedding.recompute(trial)
        assert "eve" in there
        assert there.digest() == trial.digest()
        with pytest.raises(OpenTrial):
            live.recompute()
        with pytest.raises(OpenTrial):
            copy.deepcopy(live)
        assert "eve" in trial
    assert live.digest() == digest
    there.update(add=[("eve", "fay")])
    assert "fay" not in live


def test_another_thread_never_reads_a_trial_that_is_being_taken_back(live):
    wrong, refused, stop = [], [], threading.Event()
    with live.what_if(add=[("dan", "eve")]) as trial:
        expected = trial.vectors()

    def read(trial):
        while not stop.is_set():
            try:
                if not np.array_equal(trial.vectors(), expected):
                    wrong.append(trial)
            except (ConcurrentUse, OpenTrial) as error:
                refused.append(type(error))

    for _ in range(20):
        stop.clear()
        with live.what_if(add=[("dan", "eve")]) as trial:
            reader = threading.Thread(target=read, args=(trial,))
            reader.start()
        stop.set()
        reader.join()
    assert not wrong
    assert refused


def test_a_block_that_nobody_left(live):
    digest = live.digest()
    blocks = [live.what_if(add=[("dan", "eve")])]
    blocks[0].__enter__()
    thread = threading.Thread(target=lambda: (blocks.clear(), gc.collect()))
    thread.start()
    thread.join()
    with pytest.raises((TornState, ConcurrentUse)):
        live.digest()
    assert live.recompute().digest() == digest


def test_a_trial_is_over_with_its_block_even_if_another_one_is_open(live):
    with live.what_if(add=[("dan", "eve")]) as first:
        pass
    with live.what_if(add=[("dan", "fay")]) as second:
        assert "fay" in second
        with pytest.raises(OpenTrial, match="has ended"):
            first.vectors()
        with second.what_if(add=[("fay", "gus")]) as inner:
            assert "gus" in inner
            with pytest.raises(OpenTrial, match="leave its block"):
                second.vectors()
        assert "gus" not in second
    with live.what_if() as nothing:
        assert len(nothing) == len(EDGES)
    with pytest.raises(OpenTrial):
        nothing.digest()


def test_vectors_of_events_before_a_removal_are_stale(live):
    with live.what_if(add=[("dan", "eve")], remove_nodes=["dan"]) as trial:
        with pytest.raises(StaleChange):
            trial.changes[0].vectors  # noqa: B018
        assert "eve" in trial.changes[0].ids
        assert len(trial.changes[1].vectors) == len(trial.changes[1])
