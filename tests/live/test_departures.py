"""The record of who left: bounded, in order, and what it drops nobody needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import id_column, python_ids
from dygcn.live.durable.feed import Departures

STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 12), max_size=6, unique=True), st.lists(st.integers(0, 12), max_size=6)
    ),
    max_size=40,
)


@pytest.mark.parametrize("strings", [False, True], ids=["numbers", "strings"])
@settings(deadline=None, max_examples=150)
@given(steps=STEPS, most=st.integers(1, 12), look=st.integers(1, 5))
def test_every_reader_hears_of_everyone_who_is_gone(strings, steps, most, look):
    """From any sequence above the floor: all that left since and did not come back, as they left."""
    departures, gone, left_at = Departures(0, most), set(), {}

    def is_gone(ids):
        return np.array([one in gone for one in python_ids(ids).tolist()], np.bool_)

    for sequence, (leave, back) in enumerate(steps, 1):
        names = [f"n{one}" if strings else one for one in leave]
        gone -= {f"n{one}" if strings else one for one in back}
        names = [one for one in names if one not in gone]
        gone |= set(names)
        left_at |= dict.fromkeys(names, sequence)
        if names:
            departures.note(id_column(names), sequence, is_gone)
        assert len(departures) <= most
        for since in range(departures.floor, sequence + 1):
            assert heard(departures, since, look, is_gone) == {one for one in gone if left_at[one] > since}


def heard(departures, since, look, is_gone):
    number, found, last = departures.number_at(since), [], []
    while (run := departures.behind(number, look)) is not None:
        assert 0 < len(run.numbers) <= look
        assert run.sequences.min() > since
        last += run.numbers.tolist()
        number = last[-1]
        ids = python_ids(run.ids)
        found += ids[is_gone(run.ids)].tolist()
    assert last == sorted(set(last))
    assert not last or last[-1] <= departures.last
    return set(found)


def everyone(ids):
    return np.ones(len(ids), np.bool_)


def test_what_is_forgotten_has_a_number(monkeypatch):
    departures = Departures(3, 4)
    departures.note(id_column([1, 2]), 5, everyone)
    departures.note(id_column([3, 4]), 6, everyone)
    assert (departures.floor, departures.forgotten, departures.last) == (3, 0, 4)
    departures.note(id_column([5]), 7, everyone)
    assert (departures.floor, departures.forgotten, len(departures)) == (5, 2, 3)
    departures.miss(8)
    assert (departures.floor, departures.forgotten, len(departures), departures.last) == (8, 6, 0, 6)
    departures.note(id_column([7]), 9, everyone)
    assert python_ids(departures.behind(departures.forgotten, 9).ids).tolist() == [7]


def test_those_who_came_back_go_first():
    departures = Departures(0, 4)
    departures.note(id_column([1, 2, 3, 4]), 1, everyone)
    departures.note(id_column([5]), 2, lambda ids: ids.values > 2)
    assert (departures.floor, departures.forgotten, len(departures)) == (0, 0, 3)
