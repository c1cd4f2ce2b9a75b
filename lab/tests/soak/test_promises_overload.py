"""Overload sheds: the check at its small size, that it can fail, and the parts that it is made of."""

import asyncio
import math

import msgspec
import numpy as np
import pytest

import dygcn
from dygcn.serving.service.settings import Limits
from dygcn_lab.soak.promises import overload
from dygcn_lab.soak.promises.overload import Seen, limits_for, slow, wrong
from dygcn_lab.soak.promises.overload_sender import HUB, NEW, Connections, Plan, Sent, send
from dygcn_lab.testbed.seeding import small_model
from dygcn_lab.testbed.served import on_loopback, served

SPOKES = 5_000


# ---- what is sent ----------------------------------------------------------------------------------------


def test_no_two_requests_have_an_edge_in_common():
    plan = Plan("", SPOKES, 0, 1.0)
    edges = np.concatenate([plan.edges(number) for number in range(300)])
    assert len(np.unique(overload._keys(edges))) == len(edges) == 60_000
    assert (edges[:, 0] != edges[:, 1]).all()
    hub = edges[(edges == HUB).any(axis=1)]
    assert len(hub) == 300 // plan.hub_every
    assert (hub[:, 1] >= NEW).all()
    spokes = np.stack((np.zeros(SPOKES, np.int64), np.arange(1, SPOKES + 1)), axis=1)
    assert not np.isin(overload._keys(edges), overload._keys(spokes)).any()


@pytest.fixture
def graph(tmp_path):
    live = dygcn.start(small_model())
    live.bulk([np.stack((np.zeros(SPOKES, np.int64), np.arange(1, SPOKES + 1)), axis=1)])
    live.save(tmp_path / "graph")
    with served(on_loopback(tmp_path / "graph")) as one:
        yield one


def test_requests_leave_on_time(graph):
    sent = asyncio.run(send(Plan(graph.address, SPOKES, 10, 1.0, rate=40.0)))
    assert sorted(one.number for one in sent) == list(range(10, 50))
    assert {one.status for one in sent} == {200}
    assert [one.due for one in sorted(sent, key=lambda one: one.number)] == pytest.approx(
        [place / 40 for place in range(40)]
    )
    assert graph.service.live.edge_count == SPOKES + 40 * 200


def test_without_a_rate_as_many_as_are_answered(graph):
    sent = asyncio.run(send(Plan(graph.address, SPOKES, 0, 0.5, workers=3)))
    assert sorted(one.number for one in sent) == list(range(len(sent)))
    assert len(sent) > 5


def test_a_service_that_is_not_there_is_no_answer():
    sent = asyncio.run(send(Plan("http://127.0.0.1:1", SPOKES, 0, 0.1, rate=50.0)))
    assert {one.status for one in sent} == {0}


def test_refusals_are_told_with_their_time(graph):
    with graph.service.live._ahead._writing:  # the writer is held up, and the queue fills
        service = graph.service
        limits = Limits(queued_events=1_000)
        service.current.replace(msgspec.structs.replace(service.settings, limits=limits))
        sent = asyncio.run(asyncio.wait_for(_until_shed(graph.address), 30))
    assert sent.status == 429
    assert sent.told_when


async def _until_shed(address):
    """Send until one is refused; return what became of it."""
    plan, sender = Plan(address, SPOKES, 0, 1.0), Connections(address)
    waiting = {asyncio.create_task(sender.post(plan.body(number))) for number in range(12)}
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for status, figures in (task.result() for task in done):
            if status == 429:
                await _hang_up(sender, waiting)
                return Sent(0, status, 0.0, 0.0, figures)


async def _hang_up(sender, waiting):
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    sender.close()
    await asyncio.sleep(0.05)  # for the loop to close what was let go


# ---- what is judged --------------------------------------------------------------------------------------


def good():
    """Return what is seen of a service that keeps every promise."""
    seen = Seen(SPOKES, capacity=100, calm_p99=0.01, offered=300, before=100, most=150, normal_after=1)
    seen.pressed = [Sent(i, 200, i / 300, 0.1) for i in range(100)]
    seen.pressed += [Sent(i, 429, i / 300, 0.01, True) for i in range(100, 300)]
    seen.sent, seen.reads = seen.pressed, [0.01] * 100
    return seen


def test_a_good_service_passes():
    assert slow(good()) == []
    assert wrong(good()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"most": 1_000.0},
        {"reads": [0.01] * 98 + [0.5] * 2},
        {"reads": []},
        {"failed_reads": 1},
        {"normal_after": 11.0},
        {"normal_after": math.inf},
        {"pressed": [Sent(1, 200, 0.0, 3.0)]},
    ],
)
def test_what_is_slow_is_noticed(change):
    seen = good()
    for name, value in change.items():
        setattr(seen, name, value)
    assert slow(seen)


@pytest.mark.parametrize(
    "change",
    [
        {"lost": 1},
        {"ghosts": 1},
        {"code": 1},
        {"offered": 150},
        {"pressed": [Sent(1, 200, 0.0, 0.1)]},
        {"pressed": [Sent(1, 429, 0.0, 0.1, True)]},
        {"pressed": [Sent(1, 200, 0.0, 0.1), Sent(2, 429, 0.0, 0.1, False)]},
        {"pressed": [Sent(1, 200, 0.0, 0.1), Sent(2, 429, 0.0, 0.1, True), Sent(3, 500, 0.0, 0.1)]},
        {"pressed": [Sent(1, 200, 0.0, 0.1), Sent(2, 429, 0.0, 0.1, True), Sent(3, 0, 0.0, 0.1)]},
    ],
)
def test_what_is_wrong_is_noticed(change):
    seen = good()
    for name, value in change.items():
        setattr(seen, name, value)
    assert wrong(seen)


def test_the_graph_may_grow_by_what_is_accepted():
    seen = good()
    assert seen.allowed == pytest.approx(100 + overload.MORE_MEMORY + 100 * 200 * overload.AN_EVENT)


def test_the_queue_is_small_and_the_hub_counts():
    limits = limits_for(100_000)
    assert limits["queued_events"] // Plan("", 1, 0, 0).events == 25
    assert limits["queued_rows"] // 100_000 == 10
