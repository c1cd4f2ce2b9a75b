"""Batches one after the other are one batch, and nothing else."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import join_events, python_ids, read_events, rows_of
from dygcn.engine.records import RelationColumn
from dygcn.errors import EventError

EVENT = st.tuples(
    st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 9), st.sampled_from([1, -1]), st.floats(0.5, 9)
)


def dated(*rows):
    return read_events(list(rows), columns=("src", "dst", "t"))


def listed(batch):
    """Events as tuples, a weight of one where there is none."""
    weight = np.ones(len(batch)) if batch.weight is None else batch.weight
    t = [None] * len(batch) if batch.t is None else batch.t.tolist()
    ids = python_ids(batch.src).tolist(), python_ids(batch.dst).tolist()
    return list(zip(*ids, t, batch.op.tolist(), weight.tolist(), strict=True))


@settings(deadline=None)
@given(
    st.lists(st.lists(EVENT, max_size=5), min_size=1, max_size=6),
    st.sampled_from([2, 3, 4, 5]),
    st.booleans(),
)
def test_the_events_of_all_in_order(lists, columns, strings):
    def shown(event):
        ends = tuple(f"n{end}" for end in event[:2]) if strings else event[:2]
        return (*ends, *event[2:])[:columns]

    names = ("src", "dst", "t", "op", "weight")[:columns]
    batches = [read_events([shown(event) for event in events], columns=names) for events in lists]
    joined = join_events(batches)
    assert listed(joined) == [event for batch in batches for event in listed(batch)]
    if any(lists):
        assert joined.src.kind == ("string" if strings else "int64")


@settings(deadline=None)
@given(st.lists(EVENT, min_size=1, max_size=12), st.sets(st.integers(1, 11)))
def test_cutting_and_joining_is_nothing(events, places):
    batch = read_events(events)
    cuts = [0, *sorted(place for place in places if place < len(events)), len(events)]
    parts = [rows_of(batch, np.arange(a, b)) for a, b in itertools.pairwise(cuts)]
    joined = join_events(parts)
    assert listed(joined) == listed(batch)
    assert joined.t.dtype == batch.t.dtype


def test_one_batch_is_itself():
    batch = read_events([(1, 2)])
    empty = read_events([])
    assert join_events([batch]) is batch
    assert join_events([empty, batch, empty]) is batch
    assert len(join_events([empty, empty])) == 0


def test_empty_batches_have_no_type():
    assert join_events([read_events([]), read_events([("a", "b")])]).src.kind == "string"
    empty = rows_of(dated((1, 2, 3.0)), np.empty(0, np.int64))
    assert listed(join_events([empty, read_events([("a", "b")]), read_events([("b", "c")])]))[1][0] == "b"


def test_weights_of_some_are_one_for_the_others():
    joined = join_events([read_events([(1, 2, 0, 1, 3.0)]), dated((3, 4, 0))])
    assert joined.weight.tolist() == [3.0, 1.0]
    assert join_events([read_events([(1, 2)]), read_events([(3, 4)])]).weight is None


def test_times_of_two_types_are_times():
    joined = join_events([dated((1, 2, 5)), dated((3, 4, 0.5))])
    assert joined.t.tolist() == [5.0, 0.5]
    whole = join_events([dated((1, 2, 2**62)), dated((3, 4, 2**62 + 1))])
    assert whole.t.tolist() == [2**62, 2**62 + 1]


def test_what_cannot_be_one_batch():
    with pytest.raises(EventError, match="different types"):
        join_events([read_events([(1, 2)]), read_events([("a", "b")])])
    with pytest.raises(EventError, match="some batches are dated"):
        join_events([read_events([(1, 2)]), dated((1, 2, 3))])


@pytest.mark.parametrize("shape", [int, str])
def test_parts_are_rows_without_a_copy(shape):
    ends = [shape(10**number) for number in range(9)]
    table = {"src": ends, "dst": ends[::-1], "t": range(9), "weight": np.arange(1.0, 10.0)}
    codes = RelationColumn(np.arange(9, dtype=np.int16) % 3, ("a", "b", "c"))
    batch = dataclasses.replace(read_events(table), relation=codes)
    parts = [rows_of(batch, slice(begin, end)) for begin, end in itertools.pairwise((0, 0, 2, 7, 9))]
    for part, rows in zip(parts, ([], [0, 1], range(2, 7), [7, 8]), strict=True):
        assert listed(part) == listed(rows_of(batch, np.array(rows, np.int64)))
        assert part.relation.codes.tolist() == batch.relation.codes[list(rows)].tolist()
    assert listed(join_events(parts)) == listed(batch)
