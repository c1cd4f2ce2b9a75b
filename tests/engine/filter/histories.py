"""Random histories of a filter, beside its twin: what tests and seeded bugs run."""

import copy
import sys
from itertools import pairwise

import numpy as np

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.filter import filter, head, loops
from dygcn.engine.filter.head import FilterHead
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State, Trial
from dygcn_lab.testbed.dense_filter import dense_sums, sums_of

WIDTH = 5
USERS, ITEMS = [f"user:{n}" for n in range(7)], [f"item:{n}" for n in range(6)]
PEOPLE = [f"p{n}" for n in range(8)]


def new_state(kinds=True, half_life=2.0, trend=1.0, timed=True, memory=None, expire=None):
    """Return an empty state with a filter; one node of every side has no row."""
    answers = ITEMS if kinds else PEOPLE
    rng = np.random.default_rng(3)
    rows = rng.integers(-127, 128, (len(answers) - 1, WIDTH)).astype(np.int8)
    probe = read_events({"src": answers[:-1], "dst": answers[:-1]}, "string").src
    lives = (half_life, trend) if timed else (0.0, 0.0)
    sides = (("user",), ("item",)) if kinds else ((), ())
    head = FilterHead(probe, rows, np.ones(WIDTH, np.float32), 3.0, *lives, 1.0, 1.5, 0.25, 0.1, *sides)
    ids = "user:string,item:string" if kinds else "string"
    return State(
        Model(
            (np.eye(4, dtype=np.float32),) * 3,
            ids,
            "hashed",
            np.ones(4),
            half_life=memory,
            unit=1.0 if timed else None,
            expire=expire,
            filter=head,
        )
    )


def apply(state, events, now=None):
    """Apply (src, dst, t, op) events as one batch."""
    if events:
        src, dst, t, op = (list(column) for column in zip(*events, strict=True))
    else:
        src, dst, t, op = [], [], [], []
    columns = {"src": src, "dst": dst, "op": op} | ({"t": t} if state.model.unit is not None else {})
    if not events:
        return state.apply(read_events([], state.model.ids), now)
    return state.apply(read_events(columns, state.model.ids), now)


def expected(state):
    """Return the sums of the twin from the graph's own edges, in the order of ids."""
    graph, head = state.graph, state.model.filter
    a, b, weight = graph.edges()
    there = weight > 0
    names = graph.ids.names(np.arange(graph.ids.high, dtype=np.int32))
    name = dict(enumerate(_texts(names)))
    times = [None] * int(there.sum())
    if graph.contacts is not None:
        times = graph.pull.look_up_contacts(a[there], b[there])[1].tolist()
    edges = {}
    for one, other, t in zip(a[there].tolist(), b[there].tolist(), times, strict=True):
        for u, v in ((name[one], name[other]), (name[other], name[one])):
            if not head.asks or (u.startswith("user") and v.startswith("item")):
                edges[u, v] = t
    rows = dict(zip(_texts(head.ids), head.rows.tolist(), strict=True))
    clock = None if graph.contacts is None or np.isinf(graph.contacts.clock) else graph.contacts.clock
    return dense_sums(edges, rows, WIDTH, (head.half_life, head.trend_half_life), clock)


def _texts(column):
    offsets, data = column.values.tolist(), column.data.tobytes()
    return [data[begin:end].decode() for begin, end in pairwise(offsets)]


def check(state):
    """Compare all sums with the twin, and with a filter built anew."""
    graph, filter_ = state.graph, state.filter
    found, wanted = sums_of(filter_, graph), expected(state)
    nodes = _texts(graph.ids.names(graph.nodes()))
    asking = [one for one in nodes if not state.model.filter.asks or one.startswith("user")]
    answering = [one for one in nodes if not state.model.filter.asks or one.startswith("item")]
    zero = [0] * WIDTH
    for name in ("taste", "said"):
        assert found[name].tolist() == [wanted[name].get(one, zero) for one in asking], name
    assert found["total"].tolist() == [wanted["total"].get(one, zero) for one in answering], "total"
    assert found["recent"].tolist() == [wanted["recent"].get(one, 0) for one in answering], "recent"
    again = copy.deepcopy(filter_)
    again.rebuild(graph)
    for name, rows in sums_of(again, graph).items():
        assert rows.tolist() == found[name].tolist(), f"{name} of a rebuilt filter"
    for node in {*graph.nodes()[:3].tolist(), *graph.nodes()[-2:].tolist()}:
        assert scores_of(filter_, graph, node) == scores_of(again, graph, node)
    assert not filter_._taste[filter_._asker < 0].any()
    assert not filter_._said[filter_._asker < 0].any()
    assert not filter_._total[filter_._answer < 0].any()


def scores_of(filter_, graph, node):
    """Return the score of everybody who can be an answer."""
    nodes, scores = filter_.scores(graph, node)
    return {one: score for one, score in zip(nodes.tolist(), scores.tolist(), strict=True) if one >= 0}


def random_events(rng, count, kinds, now, jump):
    """Return events whose times wander up, some of them late, and the time afterwards."""
    events = []
    for _ in range(count):
        now += float(rng.exponential(jump)) if rng.random() < 0.7 else 0.0
        t = now - float(rng.exponential(4 * jump)) if rng.random() < 0.2 else now
        src, dst = (
            (rng.choice(USERS), rng.choice(ITEMS)) if kinds else rng.choice(PEOPLE, 2, replace=False).tolist()
        )
        events.append((str(src), str(dst), t, 1 if rng.random() < 0.8 else -1))
    return events, now


def play(seed, kinds=True, timed=True, memory=None, expire=None, batches=12):
    """Play a random history with trials, jumps of the clock and removed nodes; compare after each step."""
    rng, now = np.random.default_rng(seed), float(np.random.default_rng(seed).normal() * 50)
    state = new_state(kinds, timed=timed, memory=memory, expire=expire)
    whole = []
    for _ in range(batches):
        jump = float(rng.choice([0.01, 0.3, 5.0, 60.0]))
        events, now = random_events(rng, int(rng.integers(0, 9)), kinds, now, jump)
        if timed and rng.random() < 0.15:
            with Trial(state, read_events([], state.model.ids), now + 40.0):
                check(state)
        if rng.random() < 0.3 and events:
            columns = dict(zip(("src", "dst", "t", "op"), map(list, zip(*events, strict=True)), strict=True))
            with Trial(state, read_events(columns if timed else columns | {"t": None}, state.model.ids)):
                if rng.random() < 0.5:
                    check(state)
            if rng.random() < 0.5:
                check(state)
        apply(state, events)
        whole.append(events)
        if rng.random() < 0.1 and len(state.graph):
            with state.changing:
                state.remove(state.graph.nodes()[:1])
            whole = []
        if rng.random() < 0.6:
            check(state)
    check(state)
    return state


def cut_two_ways(seed, kinds=True):
    """Apply one history in two cuts, one of them with reads between: the same sums and the same answers."""
    rng = np.random.default_rng(seed)
    events, _ = random_events(rng, 60, kinds, 0.0, float(rng.choice([0.05, 1.0, 10.0])))
    one, other = new_state(kinds), new_state(kinds)
    apply(one, events)
    for begin in range(0, len(events), 7):
        apply(other, events[begin : begin + 7])
        if rng.random() < 0.5:
            sums_of(other.filter, other.graph)
    check(one)
    check(other)
    a, b = (sums_of(state.filter, state.graph) for state in (one, other))
    for name in a:
        assert a[name].tolist() == b[name].tolist(), name


def read_interrupted(first, beyond=400):
    """Interrupt a question at one line of the filter after the other, while it computes everything anew."""
    for line in range(first, beyond):
        rng, state = np.random.default_rng(1), new_state()
        events, now = random_events(rng, 30, True, 0.0, 0.5)
        apply(state, events)
        with Trial(state, read_events([], state.model.ids), now + 40.0):
            sums_of(state.filter, state.graph)
        whole = not interrupted_at(line, state.filter.scores, state.graph, int(state.graph.nodes()[0]))
        apply(state, [("user:9", "item:3", now + 1, 1), ("user:1", "item:9", now + 1, 1)])
        newcomer = state.graph.find_one("9", "user")
        assert newcomer >= 0
        assert state.filter.knows(state.graph, newcomer, None)
        check(state)
        if whole:
            return
    raise AssertionError(f"a question has more than {beyond} lines")


class Interrupted(BaseException):
    """No error that anyone expects."""


def interrupted_at(nth, work, *arguments):
    """Call, and raise an exception at the n-th line of the filter; say whether there was one."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_filename != filter.__file__:
            return None
        lines += event == "line"
        if event == "line" and lines == nth:
            raise Interrupted
        return trace

    known = sys.gettrace()
    sys.settrace(trace)
    try:
        work(*arguments)
    except Interrupted:
        return True
    finally:
        sys.settrace(known)
    return False


def answers_without_edges(count=100):
    """Let answers come and go that have no edge: the mean count of all is another one at once."""
    state = new_state()
    apply(state, [("user:0", "item:0", 1.0, 1), ("user:1", "item:0", 1.0, 1), ("user:1", "item:1", 1.0, 1)])
    check(state)
    names = [f"item:new {n}" for n in range(count)]
    batch = read_events({"src": ["user:0"] * count, "dst": names}, state.model.ids)
    nodes = state.graph.ids.resolve(batch.src, batch.dst, batch.op)[1]
    state.graph.reserve()
    with state.changing:
        state.transaction.set_own(nodes)
    check(state)
    with state.changing:
        state.transaction.release(state.transaction.remove(nodes[1:]).left)
    check(state)


def far_apart(far):
    """Let times be as far away as can be, before and behind."""
    state = new_state()
    apply(state, [("user:0", "item:0", -far, 1), ("user:1", "item:0", 1.0, 1), ("user:1", "item:1", 1.0, 1)])
    check(state)
    with Trial(state, read_events([], state.model.ids), far):
        check(state)
    check(state)
    apply(state, [("user:0", "item:1", far, 1)])
    check(state)


def paths_of(state, node):
    """Return what paths over an answer and another who asks weigh, walked one after the other."""
    filter_, graph = state.filter, state.graph
    sums_of(filter_, graph)

    def linked(node):
        me = np.array([node], np.int32)
        _, other, weight = graph.pull.arcs(me)
        times = graph.pull.contacts(me)[0]
        return [(one, t) for one, w, t in zip(other.tolist(), weight, times.tolist(), strict=True) if w > 0]

    found = np.zeros(filter_._high[1], np.int64)
    for answer, _ in linked(node):
        for other, _ in linked(answer):
            ends = [float(len(linked(one))) ** -0.5 for one in (answer, other)]
            mass = round(head.PATH_UNIT * ends[0] * ends[1])
            for last, t in linked(other) if other != node else ():
                found[filter_._answers[last]] += mass * loops.weight_of(filter_.arrays, head.SUMS, t)
    return found


def check_paths(seed):
    """Compare paths with those that are walked one after the other."""
    rng, state = np.random.default_rng(seed), new_state()
    apply(state, random_events(rng, 60, True, 0.0, 0.1)[0])
    filter_, graph = state.filter, state.graph
    for node in graph.nodes()[graph.ids.of_kind(graph.nodes(), "user")].tolist():
        wanted, found = paths_of(state, node), np.zeros(filter_._high[1], np.int64)
        passing = np.zeros(filter_._high[0], np.int64)
        reached = np.full(len(found), -1)
        arrays = filter_.arrays, graph.pull.arrays
        count = loops.walk_paths(*arrays, node, filter_._roots, passing, found, reached)
        assert found.tolist() == wanted.tolist()
        assert sorted(reached[:count].tolist()) == np.flatnonzero(wanted).tolist()
        assert not passing.any()


def ten_years(half_life=2.0, days=3650):
    """Let ten years pass at a half-life of two days: no sum runs over, and all are those of the twin."""
    rng, state = np.random.default_rng(0), new_state(half_life=half_life)
    for day in range(days):
        t = 20_000.0 + day + rng.random(3)
        apply(state, [(str(rng.choice(USERS)), str(rng.choice(ITEMS)), float(one), 1) for one in np.sort(t)])
        if day % 365 == 0:
            check(state)
    check(state)
    found = sums_of(state.filter, state.graph)
    assert np.abs(found["total"]).max() < 1 << 50
    assert found["recent"].max() > 0


def reopened(tmp_path, seed):
    """Save and load a state between events: the same sums as of one that was never saved."""
    rng = np.random.default_rng(seed)
    events, _ = random_events(rng, 50, True, 0.0, 1.0)
    live = dygcn.LiveEmbedding(new_state())
    twin = new_state()
    for begin in range(0, len(events), 10):
        part = events[begin : begin + 10]
        apply(live._state, part)
        apply(twin, part)
        live.save(tmp_path / "folder")
        live = dygcn.load(tmp_path / "folder")
        a, b = (sums_of(state.filter, state.graph) for state in (live._state, twin))
        for name in a:
            assert a[name].tolist() == b[name].tolist(), name


def check_candidates(seed):
    """Where few are wanted, those that paths weigh most have the scores that they have without candidates."""
    rng, state = np.random.default_rng(seed), new_state()
    apply(state, random_events(rng, 60, True, 0.0, 0.1)[0])
    graph, filter_, many = state.graph, state.filter, head.CANDIDATES

    def scores(node, linked, count):
        found = filter_.scores(graph, node, linked, None, count)
        return dict(zip(*(one.tolist() for one in found), strict=True))

    sums_of(filter_, graph)
    tried = 0
    for node in graph.nodes()[graph.ids.of_kind(graph.nodes(), "user")].tolist():
        (weights, reached), own = filter_._paths(graph, node), filter_._own(graph, node)[0]
        free = {int(filter_._answer[row]): weights[row] for row in reached.tolist() if row not in own}
        if len(free) <= 2:
            continue
        least = sorted(free.values(), reverse=True)[1]
        wanted = {one for one, weight in free.items() if weight >= least}
        tried += len(wanted) < len(free)
        for linked in (False, True):
            filter.CANDIDATES, filter._PLENTY = many, 10
            every = scores(node, linked, 1)
            filter.CANDIDATES, filter._PLENTY = 2, 1
            some = wanted | set(filter_._answer[own].tolist()) if linked else wanted
            assert scores(node, linked, 2) == {one: every[one] for one in some}
            assert scores(node, linked, 0) == scores(node, linked, 3) == every
    filter.CANDIDATES, filter._PLENTY = many, 10
    assert tried
