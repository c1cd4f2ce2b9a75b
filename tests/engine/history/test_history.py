from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.engine.events import id_column, read_events
from dygcn.engine.history import EventHistory, HistoryImage, counting
from dygcn.engine.history.columns import NAMES, RAW, expanded
from dygcn.errors import DamagedFolder
from tests.engine.history.twin import Twin
from tests.seeded import assert_noticed

SPAN = 50.0
NODES = 7
event = st.tuples(
    st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 60), st.sampled_from((1, 1, 1, -1))
)
events = st.lists(event, max_size=60)


def batch_of(rows, kind="int64"):
    src, dst, t, op = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    if kind == "string":
        src, dst = [f"n{one}" for one in src], [f"n{one}" for one in dst]
    return read_events({"src": src, "dst": dst, "t": np.array(t, float), "op": op})


def played(rows, cuts=(), kind="int64"):
    history, ends = EventHistory(kind, SPAN), sorted({0, *cuts, len(rows)})
    for begin, end in pairwise(ends):
        history.apply(batch_of(rows[begin:end], kind))
    return history


def check_columns(rows, now=61.0):
    """Compare every column of every pair with the twin."""
    history, twin = played(rows), Twin(SPAN)
    twin.apply(rows)
    assert history.clock == twin.clock
    numbers = history.find(list(range(NODES + 1)))
    for u in range(NODES):
        found = history.columns(int(numbers[u]), numbers, now)
        wanted = np.array([twin.columns(u, v, now) for v in range(NODES + 1)])
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def check_cuts(rows, cuts, kind="int64"):
    """Compare two histories of the same events in other batches, to the bit."""
    whole, parts = played(rows, kind=kind), played(rows, cuts, kind)
    assert parts.digest() == whole.digest()
    numbers = np.arange(len(whole), dtype=np.int32)
    for u in range(len(whole)):
        assert whole.columns(u, numbers).tobytes() == parts.columns(u, numbers).tobytes()


@given(events)
def test_columns_are_those_of_the_twin(rows):
    check_columns(rows)


def test_rings_run_over():
    """More answers and partners than rings hold."""
    random = np.random.default_rng(0)
    rows = [(0, int(v), t, 1) for t, v in enumerate(random.integers(1, NODES, 50))]
    rows += [(int(u), 0, 50 + t, 1) for t, u in enumerate(random.integers(1, NODES, 10))]
    check_columns(rows)


@pytest.mark.parametrize("kind", ["int64", "string"])
@given(rows=events, cuts=st.lists(st.integers(0, 60), max_size=5))
def test_batches_do_not_matter(rows, cuts, kind):
    check_cuts(rows, cuts, kind)


def test_more_events_than_are_numbered_at_once():
    random = np.random.default_rng(1)
    many = 1 << 17
    table = {"src": random.integers(0, 50_000, many), "dst": random.integers(0, 50_000, many)}
    table["t"] = np.arange(many, dtype=float)
    whole, parts = (EventHistory("int64", 1e5) for _ in range(2))
    whole.apply(read_events(table))
    for begin in range(0, many, 50_000):
        parts.apply(read_events({name: column[begin : begin + 50_000] for name, column in table.items()}))
    assert whole.digest() == parts.digest()


@given(events)
def test_an_image_is_the_history(rows):
    for kind in ("int64", "string"):
        history = played(rows, kind=kind)
        again = EventHistory.from_image(kind, SPAN, history.image())
        assert again.digest() == history.digest()
        more = batch_of([(1, 2, 70, 1), (2, 9, 71, 1), (1, 2, 71, 1)], kind)
        for one in (history, again):
            one.apply(more)
        assert again.digest() == history.digest()
        for u in range(len(history)):
            assert again.answers_of(u).tolist() == history.answers_of(u).tolist()


@given(events, st.sets(st.integers(0, NODES), max_size=3))
def test_whoever_is_forgotten_has_no_name_and_the_rest_stays(rows, gone):
    history = played(rows)
    rest = history.without(id_column(sorted(gone)) if gone else id_column([NODES + 1]))
    assert (rest.find(sorted(gone)) < 0).all() if gone else rest.digest() == history.digest()
    for u in set(range(NODES)) - gone:
        before, after = int(history.find([u])[0]), int(rest.find([u])[0])
        assert (before < 0) == (after < 0)
        if before >= 0:
            kept = [v for v in range(NODES) if v not in gone]
            old, new = (one.columns(at, one.find(kept)) for one, at in ((history, before), (rest, after)))
            walks = 10  # a walk over somebody who was forgotten ends there
            np.testing.assert_array_equal(
                np.delete(old, [2, walks, 17], 1), np.delete(new, [2, walks, 17], 1)
            )
    rest.apply(batch_of([(3, 4, 80, 1), (4, 8, 81, 1)]))
    assert EventHistory.from_image("int64", SPAN, rest.image()).digest() == rest.digest()


def test_a_doubled_event_is_noticed():
    rows = [(1, 2, 1, 1), (2, 3, 2, 1)]
    assert played(rows).digest() != played([*rows, rows[-1]]).digest()
    assert played(rows).digest() == played([*rows, (1, 3, 3, -1)]).digest()  # there was no such edge


def test_an_interrupted_batch_goes_on_where_it_was(monkeypatch):
    rows = [(u, u + 1, u, 1) for u in range(20)]
    history = EventHistory("int64", SPAN)
    history.stage(batch_of(rows))
    play = counting.play

    def stop_after(*arguments):
        play(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(counting, "play", stop_after)
    with pytest.raises(KeyboardInterrupt):
        history.write()
    monkeypatch.undo()
    history.write()
    assert history.digest() == played(rows).digest()


def test_events_without_times_happen_with_the_last():
    history = EventHistory("int64", SPAN)
    history.apply(read_events([(1, 2)]))
    assert history.clock == 0.0
    history.apply(batch_of([(1, 3, 7, 1)]))
    history.apply(read_events([(1, 4)]))
    assert history.clock == 7.0
    history.apply(read_events([(1, 5)]), now=9.0)
    assert history.clock == 9.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("answers", lambda one: one + 100),
        ("pair_dst", lambda one: one - 100),
        ("pair_src", lambda one: np.zeros_like(one)),
        ("marks", lambda one: one * np.nan),
        ("marks", lambda one: one - 2),
        ("marks", lambda one: one + 2**25),
        ("counts", lambda one: one - 100),
        ("counts", lambda one: one + (2**63 - 100)),
        ("pair_fast", lambda one: one - 2),
        ("pair_n", lambda one: one - 2),
        ("pair_t", lambda one: one + 1),
        ("clock", lambda one: -np.inf),
        ("clock", lambda one: np.inf),
        ("times", lambda one: one[:, :2]),
        ("pair_n", lambda one: one[:-1]),
    ],
)
def test_a_damaged_image_is_refused(name, change):
    image = played([(1, 2, 1, 1), (1, 3, 2, 1), (2, 3, 2, 1)]).image()
    parts = {field: getattr(image, field) for field in HistoryImage.__dataclass_fields__}
    if name == "pair_src":
        parts["pair_dst"] = np.ones_like(parts["pair_dst"])
    parts[name] = change(parts[name])
    with pytest.raises(DamagedFolder):
        EventHistory.from_image("int64", SPAN, HistoryImage(**parts))


def test_names_of_columns_fit():
    assert len(RAW) == played([(1, 2, 3, 1)]).columns(0, np.array([1], np.int32)).shape[1]
    assert expanded(np.zeros((2, 3, len(RAW)))).shape == (2, 3, len(NAMES))


def hunt_columns(seed):
    random = np.random.default_rng(seed)
    ends = random.integers(0, (NODES, NODES - 1, 60), (40, 3))  # the last node only asks
    rows = [(int(u), int(v), int(t), 1) for u, v, t in ends]
    check_columns(rows)
    check_cuts(rows, (7, 20))
    test_a_doubled_event_is_noticed()


BUGS = [
    ("of.times[v, FIRST] = max(of.times[v, FIRST], t)", "of.times[v, FIRST] = t"),
    ("of.marks[v, SLOW] = count_after(of.times[v, MET], of.marks[v, SLOW], t, of.slow)", "pass"),
    ("of.pair_n[pair] += 1", "of.pair_n[pair] = 1"),
    ("if two[i] != u:", "if two[i] >= 0:"),
    ("_step_between(of, v, u)", "pass"),
    ("if there < 0 or age < out[row, 1]:", "if there < 0:"),
    ("out[row, 16] = 1.0", "out[row, 16] = 0.0"),
]


@pytest.mark.parametrize(("line", "wrong"), BUGS)
def test_a_seeded_bug_is_noticed(tmp_path, line, wrong):
    assert_noticed(tmp_path, "dygcn.engine.history.counting", line, wrong, hunt_columns, 3)


def test_counts_do_not_run_over():
    """A node with more events than 32 bits count goes on in its ring, and a pair is counted no further."""
    few = [(1, 2, 1, 1), (1, 3, 2, 1), (2, 3, 2, 1)]
    image = played(few).image()
    counts, pairs = image.counts + (2**31 - 2) // 20 * 20, np.full_like(image.pair_n, 2**31 - 1)
    parts = {field: getattr(image, field) for field in HistoryImage.__dataclass_fields__}
    history = EventHistory.from_image(
        "int64", SPAN, HistoryImage(**{**parts, "counts": counts, "pair_n": pairs})
    )
    history.apply(batch_of([(1, 2, t, 1) for t in range(3, 60)]))
    after = history.image()
    assert after.counts.max() > 2**31
    assert after.pair_n.max() == 2**31 - 1
    assert np.isfinite(history.columns(0, np.arange(3, dtype=np.int32))).all()


def test_last_partners_are_of_either_direction_and_not_forgotten():
    history = played([(1, 2, 1, 1), (3, 1, 2, 1), (1, 2, 3, 1), (4, 5, 4, 1)])
    one, two, three = history.find([1, 2, 3]).tolist()
    assert history.partners_of(one).tolist() == sorted([two, three])
    assert history.partners_of(-1).tolist() == []
    less = history.without(history.ids.read([2]))
    assert less.ids.names(less.partners_of(int(less.find([1])[0]))).values.tolist() == [3]
