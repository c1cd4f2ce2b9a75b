import numpy as np
import pytest

from dygcn.errors import OptionError
from dygcn_lab.costs.bare import Bare
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of


@pytest.fixture
def busy():
    """A graph with hubs, so that there are narrow rows and wide ones."""
    events = graph_events("power-law-2k-10k")
    live = live_of(events, width=16, dim=8)
    return live, Traffic(live._state.graph, events)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_there_and_back_is_the_same_graph(busy, size):
    live, traffic = busy
    before = live.digest()
    for _ in range(4):
        there, back = traffic.round(size)
        assert len(there) == len(back) == size
        change = live.update(**as_users_do(there))
        assert (change.missing, change.unchanged, change.loops) == (0, 0, 0)
        assert live.digest() != before
        change = live.update(**as_users_do(back))
        assert (change.missing, change.unchanged, change.loops) == (0, 0, 0)
        assert live.digest() == before


def test_adds_are_new_and_removes_are_there(busy):
    live, traffic = busy
    graph = live._state.graph
    there, _ = traffic.round(400)
    known = graph.pull.look_up(graph.find(there.src), graph.find(there.dst)) > 0
    np.testing.assert_array_equal(known, there.op < 0)
    assert (there.op < 0).sum() == 200
    ends = np.sort(np.stack((graph.find(there.src), graph.find(there.dst))), axis=0)
    assert len(np.unique(ends, axis=1).T) == 400


def test_single_changes_are_adds_and_removes(busy):
    _, traffic = busy
    assert {int(traffic.round(1)[0].op[0]) for _ in range(30)} == {-1, 1}


def test_a_graph_can_be_too_small():
    events = graph_events("power-law-20-30")
    live = live_of(events, width=8, dim=8)
    with pytest.raises(OptionError, match="too small or too dense"):
        Traffic(live._state.graph, events).round(1000)


def copies(rule):
    return [(sums.narrow.copy(), sums.wide.copy()) for sums in rule.sums]


@pytest.mark.parametrize("size", [1, 50, 1000])
def test_bare_does_the_additions_of_the_update(busy, size):
    """From the values before, its rows come to what the state's rows are after: the same additions."""
    live, traffic = busy
    rule = live._state.exact
    bare = Bare(rule)
    for _ in range(9):  # until no row outgrows its place: then bare would begin from other rows
        there, _ = traffic.round(size)
        before, slots = copies(rule), [sums.slot.copy() for sums in rule.sums]
        added = bare.watch(lambda there=there: live.update(**as_users_do(there)))
        assert added > 0
        if all(np.array_equal(sums.slot, slot) for sums, slot in zip(rule.sums, slots, strict=True)):
            break
    else:
        pytest.fail("rows moved in every round")
    assert any((slot >= 0).any() for slot in slots)
    for mine, theirs in zip(bare.rows, before, strict=True):
        for rows, values in zip(mine, theirs, strict=True):
            rows[...] = values
    assert bare.repeat(bare.kept) >= 0
    moved = 0
    for mine, now, was in zip(bare.rows, copies(rule), before, strict=True):
        for rows, values, old in zip(mine, now, was, strict=True):
            np.testing.assert_array_equal(rows, values)
            moved += int((values != old).any(axis=1).sum())
    assert moved > 0


def test_bare_forgets_what_it_watched_before(busy):
    live, traffic = busy
    bare = Bare(live._state.exact)
    there, back = traffic.round(100)
    first = bare.watch(lambda: live.update(**as_users_do(there)))
    second = bare.watch(lambda: live.update(**as_users_do(back)))
    assert 0.5 < first / second < 2
    live.update(**as_users_do(there))  # nobody watches
    assert bare.watch(lambda: None) == 0
