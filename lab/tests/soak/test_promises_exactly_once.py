"""Exactly once: the check in its quick size, and the bugs it must notice."""

from random import Random

import pytest

from dygcn.live.durable import source_batch
from dygcn.live.durable.source_batch import GAP, SourceBatch
from dygcn_lab.soak.promises import exactly_once as check
from dygcn_lab.testbed.seeding import seeded


def a_new_client_may_begin_anywhere(parts, followed):
    """What overtakes the first of its own hides it: the first one is then taken for a repeat."""
    for part in parts:
        if part.first is not None and part.stream not in followed.streams:
            followed.reach(part.stream, part.first - 1)
    return SCREEN(parts, followed)


def gaps_are_jumped(parts, followed):
    screened = SCREEN(parts, followed)
    for part, receipt in zip(parts, screened.receipts, strict=True):
        if receipt.status == GAP:
            receipt.status = "applied"
            screened.fresh.append((part, receipt))
    return screened


def overlaps_are_applied_again(self, last):
    return self


SCREEN = source_batch.screen


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (source_batch, "screen", check.nothing_is_a_repeat),
        (source_batch, "screen", a_new_client_may_begin_anywhere),
        (source_batch, "screen", gaps_are_jumped),
        (SourceBatch, "after", overlaps_are_applied_again),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_other_bugs_would_be_noticed(owner, name, wrong):
    with seeded(owner, name, wrong):
        assert any(check.deliver(2000, seed).bad for seed in range(3))


def test_everything_is_sent_three_times():
    for name in ("http:ann", "nats:clicks"):
        sender, random = check.Sender(name, 0, 500, Random(0)), Random(1)
        positions = [part.offset for part in sender.deliveries(random)]
        assert sorted(positions) == sorted([position for _, _, position in sender.parts] * check.TIMES)
        assert sum(length for _, length, _ in sender.parts) == 500
        assert (positions == sorted(positions)) is False


def test_streams_touch_no_pair_of_another():
    senders = [
        check.Sender(name, n, 400, Random(n)) for n, name in enumerate(check._CLIENTS + check._BROKERS)
    ]
    pairs = [{event[:2] for event in sender.events} for sender in senders]
    assert sum(map(len, pairs)) == len(set.union(*pairs))
    assert all(len(some) > 100 for some in pairs)
