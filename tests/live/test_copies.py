"""A copy goes its own way: kernels are handed holders of arrays, and these must be the copy's own."""

import copy

import numpy as np
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn_lab.testbed.graphs import random_events
from tests.seeded import assert_noticed

WIDTH = 12


def fresh(orders, features="hashed", half_life=None):
    weights = (np.eye(WIDTH, 4, dtype=np.float32),) * (orders + 1)
    return dygcn.start(Model(weights, "int64", features, np.ones(WIDTH), half_life=half_life))


def parts_of(thing, known):
    """Everything of ours that a thing is made of."""
    if id(thing) in known:
        return
    known[id(thing)] = thing
    if isinstance(thing, dict):
        inside = thing.values()
    elif isinstance(thing, list | tuple):
        inside = thing
    elif type(thing).__module__.startswith("dygcn"):
        inside = [
            getattr(thing, name)
            for name in (*getattr(thing, "__slots__", ()), *getattr(thing, "__dict__", ()))
        ]
    else:
        return
    for part in inside:
        parts_of(part, known)


def held(live):
    """Where the arrays lie that kernels are handed."""
    known = {}
    parts_of(live._state, known)
    arrays = [array for part in known.values() for array in arrays_of(part)]
    assert len(arrays) > 10
    return {array.ctypes.data for array in arrays if array.size}


def arrays_of(holder):
    inside = getattr(holder, "arrays", ())
    return [one for one in inside if isinstance(one, np.ndarray)] if isinstance(inside, tuple) else []


def copy_of(live):
    """A copy; one that would write to memory of the original is refused before it does."""
    other = copy.deepcopy(live)
    assert not held(live) & held(other)
    return other


@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("half_life", [None, 3.0])
@pytest.mark.parametrize("orders", [1, 2, 3])
def test_a_copy_and_its_original_do_not_meet(orders, half_life, batch):
    events = random_events("hub", 5, nodes=30)
    first, second = events[: len(events) // 2], events[len(events) // 2 :]
    live, expected = fresh(orders, half_life=half_life), fresh(orders, half_life=half_life)
    live.update(first)
    before = live.digest()
    other = copy_of(live)
    for start in range(0, len(second), batch):
        other.update(second[start : start + batch])
    assert live.digest() == before == live.recompute().digest()
    assert len(live._state.graph.ids) == len(live)
    expected.update(events)
    assert other.digest() == expected.digest() == other.recompute().digest()
    del other
    live.update(second)
    assert live.digest() == expected.digest()


def test_a_copy_with_features_of_its_own():
    live = fresh(2, "given")
    live.update([(1, 2), (2, 3)])
    live.set_features([1, 2, 3], np.eye(3, WIDTH, dtype=np.float32))
    before, other = live.digest(), copy_of(live)
    other.set_features([2], np.ones((1, WIDTH), np.float32))
    other.update(add=[(3, 4)])
    other.update(remove_nodes=[1])
    assert live.digest() == before == live.recompute().digest()
    assert other.digest() == other.recompute().digest() != before


def test_a_copy_that_keeps_arrays_would_be_noticed(tmp_path):
    """The mutant: a holder is copied as it stands."""
    line = "def __reduce__(self) -> tuple[type[Holder], tuple[Any, ...]]:"
    wrong = f"def __deepcopy__(self, memo):\n    return self\n\n{line}"
    hunt = test_a_copy_and_its_original_do_not_meet
    assert_noticed(tmp_path, "dygcn.engine._holder", line, wrong, hunt, 2, None, 7)
