"""A loop in a thread: results and errors come back, nothing is left running."""

import asyncio
import threading
import time

import pytest

from dygcn.serving.brokers import LoopThread


@pytest.fixture
def loop():
    thread = LoopThread("a loop of a test")
    yield thread
    thread.close()


async def give(value):
    await asyncio.sleep(0)
    return value


def test_results_come_back(loop):
    assert [loop.run(give(n)) for n in range(100)] == list(range(100))


def test_errors_come_back(loop):
    async def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        loop.run(fail())
    assert loop.run(give(1)) == 1


def test_tasks_go_on_between_calls(loop):
    seen = []

    async def begin():
        async def tick():
            while True:
                seen.append(time.monotonic())
                await asyncio.sleep(0.001)

        return asyncio.ensure_future(tick())

    task = loop.run(begin())
    until = time.monotonic() + 5
    while len(seen) < 5 and time.monotonic() < until:
        time.sleep(0.002)
    assert len(seen) >= 5
    loop.close()
    assert task.cancelled()


def test_a_timeout_cancels(loop):
    cancelled = threading.Event()

    async def wait():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError):
        loop.run(wait(), timeout=0.05)
    assert cancelled.wait(5)


def test_several_callers_share_it(loop):
    results = []
    callers = [threading.Thread(target=lambda n=n: results.append(loop.run(give(n)))) for n in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(results) == list(range(20))


def test_a_coroutine_that_waits_for_its_own_loop_is_refused(loop):
    async def inner():
        return loop.run(give(1))

    with pytest.raises(RuntimeError, match="waits for itself"):
        loop.run(inner(), timeout=5)


def test_closed_twice_and_used_after(loop):
    before = threading.active_count()
    loop.close()
    loop.close()
    assert threading.active_count() == before - 1
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(give(1))


def test_cleaning_up_is_awaited(loop):
    cleaned = []

    async def begin():
        async def held():
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                cleaned.append(True)

        held_task = asyncio.ensure_future(held())
        await asyncio.sleep(0)
        return held_task

    loop.run(begin())
    loop.close()
    assert cleaned == [True]
