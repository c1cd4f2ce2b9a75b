"""Bodies: all that are held together have a bound, and what was held is given back."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.service.bodies import Bodies
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.settings import CurrentSettings, Limits, ServiceSettings


def bodies_of(most):
    return Bodies(CurrentSettings(ServiceSettings(folder="", limits=Limits(bodies_bytes=most))))


def test_all_bodies_together_have_a_bound():
    bodies = bodies_of(10)
    with bodies.opened() as one, bodies.opened() as other:
        one.take(b"123456")
        other.take(b"1234")
        with pytest.raises(Overloaded, match="4 bytes") as error:
            one.take(b"7")
        assert error.value.retry_after == 1
        assert bodies.held == 10
    assert bodies.held == 0


def test_alone_a_body_may_be_larger():
    bodies = bodies_of(10)
    with bodies.opened() as one:
        for _ in range(5):
            one.take(b"12345")
        with bodies.opened() as other, pytest.raises(Overloaded):
            other.take(b"1")
    assert bodies.held == 0


def test_an_error_gives_back_what_was_held():
    bodies = bodies_of(10)
    with pytest.raises(TypeError), bodies.opened() as one:
        one.take(one.take(b"123"))
    assert bodies.held == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=6), st.booleans()), max_size=60))
def test_the_books_are_even(steps):
    bodies, open_ones = bodies_of(20), {}
    for number, chunk, close in steps:
        if close and number in open_ones:
            open_ones.pop(number)[0].__exit__(None, None, None)
            continue
        if number not in open_ones:
            opened = bodies.opened()
            open_ones[number] = opened, opened.__enter__()
        try:
            open_ones[number][1].take(chunk)
        except Overloaded:
            assert bodies.held + len(chunk) > 20
        sizes = [body.size for _, body in open_ones.values()]
        assert bodies.held == sum(sizes)
        assert bodies.held <= 20 or sorted(sizes)[-2:-1] in ([], [0])
    for opened, _ in open_ones.values():
        opened.__exit__(None, None, None)
    assert bodies.held == 0


def test_many_bodies_are_decoded_one_after_the_other():
    """Sixty at once would take every thread, and questions would wait for all of them."""
    entered, most, lock = 0, 0, threading.Lock()
    meanwhile = threading.Barrier(2)

    def decoder(wait):
        nonlocal entered, most
        with lock:
            entered += 1
            most = max(most, entered)
        if wait:
            meanwhile.wait(60)
        with lock:
            entered -= 1

    async def flood():
        bodies = bodies_of(10)
        decoding = [asyncio.create_task(bodies.decode(decoder, number == 0)) for number in range(60)]
        await asyncio.to_thread(meanwhile.wait, 60)  # another thread runs while the first body is decoded
        await asyncio.gather(*decoding)

    asyncio.run(flood())
    assert (entered, most) == (0, 1)


def test_one_chunk_is_read_in_each_round_of_the_event_loop():
    rounds, read = 0, []

    async def count():
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async def receive(bodies, chunks):
        for _ in range(chunks):
            read.append(rounds)
            await bodies.turn()

    async def all_bodies():
        bodies, counting = bodies_of(10), asyncio.create_task(count())
        await asyncio.gather(*(receive(bodies, 20) for _ in range(5)))
        counting.cancel()

    asyncio.run(all_bodies())
    later = read[5:]  # each body had a first chunk before there were turns
    assert len(later) == 95
    assert max(map(later.count, later)) <= 1
