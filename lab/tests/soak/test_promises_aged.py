"""State is a function of the graph and its clock: the check in its quick size, and the bugs to notice."""

import pytest

from dygcn.live.embedding import start
from dygcn_lab.soak.promises import aged as check
from dygcn_lab.soak.promises.aged_twin import AgedTwin, aged_model, bits_of, differences, edges_of

EVENTS = [(1, 2, 0.0, 1, 1.0), (1, 3, 4.0, 1, 2.0), (2, 3, 4.5, 1, 1.0), (1, 2, 6.0, 1, 7.5)]


def test_a_walk_without_a_bug_finds_nothing_in_the_sizes_of_a_hunt():
    assert check.walk(160, 5, 20, stop_at_bad=True).bad == 0


@pytest.mark.parametrize("kinds", [True, False])
def test_the_twin_is_what_an_embedding_does(kinds):
    live, twin = start(aged_model(kinds=kinds, expire=5.0)), AgedTwin(kinds, 5.0)
    expired = 0
    for events, now in ((EVENTS, None), ([], 9.0), ([], 10.0), ([], 11.0)):
        expired += check.update(live, events, now)
        twin.apply(events, now)
        assert edges_of(live) == twin.edges
        assert not differences(live, twin)
        assert expired == twin.expired
    assert expired == 4  # one of them twice
    assert not twin.edges


def test_all_bits_notice_a_time_and_the_clock():
    digests, bits = set(), set()
    for t, now in ((1.0, 5.0), (1.5, 5.0), (1.0, 6.0)):
        live = start(aged_model())
        live.update(check.table([(1, 2, t, 1, 1.0)]), now=now)
        digests.add(live.digest())
        bits.add(bits_of(live, contacts=False))
    assert (len(digests), len(bits)) == (1, 3)


def test_batches_of_any_size_are_all_events():
    changes = [check.Change(EVENTS, 6.5), check.Change([], gone=""), check.Change(EVENTS[:1], None, "1")]
    bits = {bits_of(check.in_batches(aged_model(kinds=False), changes, size)[0]) for size in (1, 3, 100)}
    assert len(bits) == 1
