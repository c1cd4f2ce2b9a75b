"""No error fills a screen, whatever was passed."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn import errors
from dygcn.engine.events import read_events
from dygcn.errors import DygcnError, EventError, shown

MOST = 500


class Silent:
    def __repr__(self):
        raise RuntimeError("no")


class Endless:
    def __repr__(self):
        return "line\n" * 100_000


KINDS = [type(f"Kind{n}", (), {}) for n in range(300)]
WIDE = {f"column {n}": [1] for n in range(20_000)}
UGLY = {
    "many columns": WIDE,
    "long columns": {"x" * 5_000: [1], "y" * 5_000: [2]},
    "many rows": [list(range(100_000))],
    "long text": ["x" * 1_000_000],
    "long bytes": [b"x" * 1_000_000],
    "deep": [[[[[[[[list(range(1000))] * 50] * 50] * 50]]]]],
    "large number": [10**4_000],
    "larger number": [10**5_000],
    "row of large numbers": [(10**5_000,) * 9],
    "id of large numbers": {"src": [10**5_000], "dst": [1]},
    "a repr that fails": [Silent()],
    "rows of such": [(Silent(),) * 9],
    "a repr that does not end": [Endless()],
    "a column that does not end": {"src": [Endless()], "dst": [Endless()]},
    "weights that do not end": {"src": [1], "dst": [2], "weight": [Endless()]},
    "many kinds": {"src": [kind() for kind in KINDS], "dst": [1] * 300},
    "sets": [frozenset(range(10_000))],
    "dicts": [{n: n for n in range(10_000)}, {n: n for n in range(10_000)}],
    "frames": [pd.DataFrame(np.ones((500, 50)))],
    "a frame without ends": pd.DataFrame(np.ones((500, 500))),
    "arrays": np.ones((3, 4, 5)),
    "a wide array": np.ones((9, 10_000)),
    "two long rows": np.ones((2, 10_000)),
    "structured": np.zeros(9, [("a", int), ("b", float)]),
    "path": "x" * 200 + ".csv",
    "long path": "y/" * 100_000 + "z.parquet",
    "long ending": "a." + "b" * 100_000,
    "no path": "q" * 100_000,
    "object": Endless(),
    "mapping of frames": {"src": pd.DataFrame(np.ones((500, 50))), "dst": [1]},
    "long ids": {"src": ["z" * 100_000], "dst": ["a"]},
}


def check(call, kind=DygcnError):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert 0 < len(text) <= MOST
    assert "\n" not in text


@pytest.mark.parametrize("events", UGLY)
def test_errors_are_short(events):
    check(lambda: read_events(UGLY[events]), EventError)
    check(lambda: dygcn.fit(UGLY[events]))
    check(lambda: read_events(UGLY[events], src="a" * 9_000, dst="b" * 9_000))
    check(lambda: read_events([(1, 2)], columns=UGLY[events]))


def test_the_nodes_of_networkx_are_not_all_shown():
    networkx = pytest.importorskip("networkx")
    grid = networkx.grid_2d_graph(50, 50)
    for events in (grid, grid.edges, grid.adj, grid.edges(data=True), [grid], [(grid, grid)]):
        check(lambda events=events: read_events(events), EventError)
    check(lambda: read_events(grid.edges(data="x" * 9_000)), EventError)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=30)
        | st.tuples(inner, inner, inner)
        | st.dictionaries(st.text(), inner, max_size=30)
    ),
    max_leaves=60,
)


@settings(deadline=None, max_examples=200)
@given(ANYTHING)
def test_anything_is_read_or_refused_in_short(events):
    for given_events in (events, [events], [(events, events)], {"src": [events], "dst": [events]}):
        try:
            read_events(given_events)
            reason = ""
        except DygcnError as error:
            reason = str(error)
        assert len(reason) <= MOST
    assert len(shown(events)) <= 120


def test_short_values_are_shown_as_they_are():
    for value in (1, "ann", (1, 2.5, None), ["a", b"b"], {"a": [1]}, 1e300, -(2**70)):
        assert shown(value) == repr(value)


def test_what_is_wrong_and_what_is_allowed_are_kept():
    text = str(EventError("wrong is " + "x" * 10_000 + "; allowed is y", 3))
    assert text.startswith("row 3: wrong is x")
    assert text.endswith("; allowed is y")


def test_ragged_features_are_named_by_their_row():
    for features in (([1, 2], [[1.0, 2.0], [3.0]]), {1: [1.0, 2.0], 2: [3.0]}):
        with pytest.raises(errors.FeatureError, match="row 1 has 1 values, row 0 has 2 values"):
            dygcn.fit([(1, 2)], features=features)
    with pytest.raises(errors.FeatureError, match="row 1 has no vector, row 0 has 2 values"):
        dygcn.fit([(1, 2)], features=([1, 2], [[1.0, 2.0], 3.0]))


def test_an_error_without_a_limit_would_be_noticed(monkeypatch):
    monkeypatch.setattr(errors, "_shortened", lambda reason: reason)
    with pytest.raises(AssertionError):
        test_errors_are_short("long path")


def test_unknown_nodes_and_features_are_short():
    live = dygcn.fit([("ann", "bob")], dim=4)
    for ids in (["x" * 100_000], list(range(100_000)), [tuple(range(100_000))]):
        check(lambda ids=ids: live.vectors(ids), errors.UnknownNode)
    check(lambda: dygcn.fit([(1, 2)], features=("x" * 100_000, [[1.0]])), errors.FeatureError)
