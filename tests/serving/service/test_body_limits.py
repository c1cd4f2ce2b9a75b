"""Bodies: all that are held together have a bound, and what was held is given back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.service.body_limits import Bodies
from dygcn.serving.service.ingest_queue import Overloaded


def test_all_bodies_together_have_a_bound():
    bodies = Bodies(10)
    with bodies.opened() as one, bodies.opened() as other:
        one.take(b"123456")
        other.take(b"1234")
        with pytest.raises(Overloaded, match="4 bytes") as error:
            one.take(b"7")
        assert error.value.retry_after == 1
        assert bodies.held == 10
    assert bodies.held == 0


def test_alone_a_body_may_be_larger():
    bodies = Bodies(10)
    with bodies.opened() as one:
        for _ in range(5):
            one.take(b"12345")
        with bodies.opened() as other, pytest.raises(Overloaded):
            other.take(b"1")
    assert bodies.held == 0


def test_an_error_gives_back_what_was_held():
    bodies = Bodies(10)
    with pytest.raises(TypeError), bodies.opened() as one:
        one.take(one.take(b"123"))
    assert bodies.held == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=6), st.booleans()), max_size=60))
def test_the_books_are_even(steps):
    bodies, open_ones = Bodies(20), {}
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
