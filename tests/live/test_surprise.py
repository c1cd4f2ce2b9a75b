"""How surprising events are: before each, the same over cuts, and near to the sum over everybody."""

import copy
from itertools import pairwise

import numpy as np
import pytest

import dygcn
from dygcn.engine.history.columns import RAW
from dygcn.errors import FeatureError, OptionError
from tests.live.test_history import NODES, played, table


@pytest.fixture(scope="module")
def model():
    return dygcn.fit(table(0, 2000), dim=8, progress=False).model


def measured(model, cuts):
    live = played(model, [0, 500])
    live.track(surprise=True)
    found = [live.update(table(begin, end)).surprise for begin, end in pairwise(cuts)]
    return live, np.concatenate([one.value for one in found]), np.concatenate([one.rank for one in found])


def exact(live, u, v, now):
    """Minus log P over everybody that had an event, and the answer."""
    history, head = live._state.history, live.model.following
    numbers = history.find([v, *(one for one in known_ids(history) if one != v)])
    scores = head.parts(history.columns(int(history.find([u])[0]), numbers, now)).sum(axis=1)
    most = scores.max()
    return np.log(np.exp(scores - most).sum()) + most - scores[0]


def known_ids(history):
    return history.ids.names(np.arange(len(history), dtype=np.int32)).values.tolist()


def test_nothing_is_measured_unless_asked_for(model):
    live = played(model, [0, 300])
    with pytest.raises(OptionError, match=r"track\(surprise=True\)"):
        _ = live.update(table(300, 301)).surprise
    live.track(surprise=True)
    assert len(live.update(table(301, 303)).surprise) == 2
    live.track(surprise=False)
    with pytest.raises(OptionError, match=r"track\(surprise=True\)"):
        _ = live.update(table(303, 304)).surprise


def test_cuts_do_not_matter(model):
    one, values, ranks = measured(model, [500, 700])
    other, again, ranked = measured(model, [500, 501, 560, 600, 700])
    np.testing.assert_array_equal(values, again)
    np.testing.assert_array_equal(ranks, ranked)
    assert (
        one.digest(history=True) == other.digest(history=True) == played(model, [0, 700]).digest(history=True)
    )


def test_a_removal_does_not_bring_whom_a_later_event_brings(model):
    rows = [(7000, 7001, 500.0, -1), (7002, 7003, 500.0, 1), (3, 7003, 501.0, 1), (7000, 7001, 502.0, 1)]
    found = []
    for cuts in ([0, 4], [0, 1, 2, 3, 4]):
        live = played(model, [0, 500])
        live.track(surprise=True)
        parts = [
            live.update(rows[a:b], columns=("src", "dst", "t", "op")).surprise for a, b in pairwise(cuts)
        ]
        found.append(np.concatenate([one.value for one in parts]))
    np.testing.assert_array_equal(*found)


def test_it_is_measured_before_the_event(model):
    """A repeat inside of a batch is less surprising than the first time."""
    live = played(model, [0, 500])
    live.track(surprise=True)
    rows = {"src": [3] * 5, "dst": [100 + NODES - 1] * 5, "t": np.arange(5) + 500.0}
    value = live.update(rows).surprise.value
    assert value[0] > value[1] > value[-1]


def test_the_sum_over_some_is_near_to_the_sum_over_everybody(model):
    """The graph is small, so nearly everybody is drawn."""
    live = played(model, [0, 500])
    live.track(surprise=True)
    rows = table(500, 560)
    errors = []
    for row in range(60):
        u, v, t = (rows[name][row] for name in ("src", "dst", "t"))
        wanted = exact(live, int(u), int(v), float(t))
        found = live.update({"src": [u], "dst": [v], "t": [t]}).surprise.value[0]
        errors.append(found - wanted)
    assert np.abs(errors).max() < 0.2


def test_newcomers_are_surprising_and_finite(model):
    live = played(model, [0, 500])
    live.track(surprise=True)
    found = live.update(
        {"src": [3, 7000, 7001], "dst": [7002, 100, 7003], "t": [500.0, 501.0, 502.0]}
    ).surprise
    assert np.isfinite(found.value).all()
    assert np.isnan(found.rank[1:]).all()


def test_removals_and_loops_have_none(model):
    live = played(model, [0, 500])
    live.track(surprise=True)
    found = live.update({"src": [3, 3], "dst": [100, 3], "t": [500.0, 500.0], "op": [-1, 1]}).surprise
    assert np.isnan(found.value).all()
    assert found.reasons == [[], []]
    rows = {"src": [3, 3], "dst": [100, 101], "t": [501.0, 501.0], "op": [-1, 1]}
    assert "nan" not in repr(live.update(rows).surprise)


def test_what_is_odd_ranks_high_and_says_why(model):
    live = played(model, [0, 1500])
    live.track(surprise=True)
    live.update(table(1500, 2000))
    own = table(0, 2000)
    mine = own["dst"][own["src"] == 3]
    usual, count = np.unique(mine, return_counts=True)
    never = next(v for v in range(100, 100 + NODES) if v not in usual)
    t = 2000.0
    found = live.update({"src": [3, 3], "dst": [usual[count.argmax()], never], "t": [t, t]}).surprise
    assert found.value[1] > found.value[0] + 1
    assert found.rank[1] > 0.9 > found.rank[0]
    assert set(found.reasons[1]) <= set(RAW)
    assert found.reasons[1]
    frame = found.to_pandas()
    assert frame.columns.tolist() == ["dst", "surprise", "rank", "reasons"]
    assert "2 events" in repr(found)


def test_reasons_are_of_the_event_and_not_of_its_rivals(model):
    """Whoever never met has the pair against it; no other pair has it against it that it is one."""
    live = played(model, [0, 1500])
    live.track(surprise=True)
    rows, before = table(1500, 1800), table(0, 1500)
    found = live.update(rows).surprise.reasons
    met = set(zip(before["src"].tolist(), before["dst"].tolist(), strict=True))
    for u, v, reasons in zip(rows["src"].tolist(), rows["dst"].tolist(), found, strict=True):
        if (u, v) in met:
            assert not {"pair known", "linked either way"} & set(reasons)
        else:
            assert {"pair known", "pair count"} & set(reasons)
        met.add((u, v))
    stranger = live.update({"src": [3], "dst": [7000], "t": [1800.0]}).surprise.reasons[0]
    assert {"answer slow count", "answer age"} & set(stranger)


def test_a_model_without_times_refuses():
    live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    with pytest.raises(FeatureError, match="with times"):
        live.track(surprise=True)


def test_a_copy_goes_its_own_way(model):
    live = played(model, [0, 500])
    before = live.digest(history=True)
    other = copy.deepcopy(live)
    other.update(table(500, 520))
    assert live.digest(history=True) == before
    assert other.digest(history=True) == played(model, [0, 520]).digest(history=True)


def test_a_durable_folder_measures_too(model, tmp_path):
    with dygcn.open(tmp_path / "live", dygcn.start(model)) as live:
        live.update(table(0, 500))
        live.track(surprise=True)
        assert np.isfinite(live.update(table(500, 510)).surprise.value).all()
