"""Trials against a twin that never sees one: nobody can tell afterwards that a trial happened."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import dygcn
from dygcn.engine._rows import cpu_level
from dygcn.engine.events import id_column, python_ids, read_events
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.model import Model, order_weights
from dygcn.engine.models.readout import read_vectors
from dygcn.engine.models.state import RemovalTrial, State, Trial
from dygcn.errors import CapacityError, DygcnError, EventError, FeatureError, OpenTrial, TornState
from dygcn.live.files import digest_of
from dygcn.paper import RollingSpec
from dygcn_lab.testbed.seeding import random_rows
from tests.live.steps import step, take

NODE = st.integers(0, 13)
WEIGHT = st.sampled_from([0.25, 1.0, 1.0, 1.0, 2.0, 7.5])
LATE = st.sampled_from([-1.0, 0.0, 0.0, 0.5, 3.0])
EVENT = st.tuples(NODE, NODE, LATE, st.sampled_from([1, -1, 1, -1]), WEIGHT)
EVENTS = st.lists(EVENT, max_size=10)
PASSED = st.sampled_from([None, 2.5, 1.0, 0.0, 8.0])
WIDTH = 12


def model_of(strings, directed, features, half_life, unit, orders, seed=0):
    kind, random = "string" if strings else "int64", np.random.default_rng(seed)
    options = {"half_life": half_life, "unit": unit}
    if features == "walks":
        table = random_rows(kind, random, WIDTH, 14)
        weights = order_weights(orders)
        return Model(weights, kind, "walks", np.ones(WIDTH), 0, directed, table=table, **options)
    weights = tuple((random.standard_normal((WIDTH, 6)) / 4).astype(np.float32) for _ in range(orders + 1))
    return Model(weights, kind, features, np.ones(WIDTH), 0, directed, **options)


def image_bytes(state):
    """Return all of an image, array by array."""
    image, _ = state.image()
    graph = image.graph
    arrays = [getattr(graph, name) for name in graph.__slots__ if name not in ("ids", "clock")]
    arrays += [graph.ids.values, graph.ids.data, *image.tensors.values()]
    return graph.clock, [None if array is None else array.tobytes() for array in arrays]


def numbers(state):
    """Return the node of every id, who is next to get which node, clocks and counts."""
    graph, ids = state.graph, state.graph.ids
    given = ids.given()
    memory = None if graph.memory is None else (graph.memory.clock, len(graph.memory))
    contacts = None if graph.contacts is None else graph.contacts.clock
    free = ids._free[: ids._counts[1]].tolist()
    counts = len(graph), graph.edge_count, ids._counts.tolist(), ids._wasted, ids._holds
    clocks = memory, contacts
    here = graph.here.tolist(), graph._own[: ids.high].tolist(), graph.strength[: ids.high].tolist()
    return given.tolist(), python_ids(ids.names(given)).tolist(), free, counts, clocks, here


def what_is_seen(state):
    """Return what anybody can see of a state, but for the nodes of ids."""
    vectors = read_vectors(state.model, state.rule, state.graph, state.graph.nodes())
    return image_bytes(state), digest_of(state), vectors.tobytes(), state.unreached()


class Trials(RuleBasedStateMachine):
    count = 0

    @initialize(
        strings=st.booleans(),
        directed=st.booleans(),
        features=st.sampled_from(["hashed", "walks", "given"]),
        half_life=st.sampled_from([None, 2.5]),
        unit=st.sampled_from([None, 1.0]),
        orders=st.integers(1, 3),
    )
    def begin(self, **options):
        self.model = model_of(**options)
        self.strings, self.now = options["strings"], 0.0
        self.state, self.plain = State(self.model), State(self.model)
        ring = [(node, (node * node + 1) % 14, 0.0, 1, 1.0) for node in range(10)]
        self.update(ring, None)

    def ids(self, nodes):
        names = [f"n{node}" for node in nodes] if self.strings else list(nodes)
        return id_column(np.array(names, dtype=object if self.strings else np.int64))

    def batch(self, events):
        """Name the ends; most removes are of edges that there are."""
        graph, named = self.plain.graph, (lambda node: f"n{node}") if self.strings else int
        pairs = [python_ids(graph.ids.names(end)).tolist() for end in graph.edges()[:2]]
        there = sorted(zip(*pairs, strict=True))
        rows = []
        for a, b, t, op, weight in events:
            ends = named(a), named(b)
            if op < 0 and a % 4 and there:
                ends = there[(14 * a + b) % len(there)]
            rows.append((*ends, self.now + t, op, weight))
        return read_events(rows, self.model.ids)

    def later(self, passed):
        return None if passed is None else self.now + passed

    def both(self, change):
        """Make a change here and in the twin; both must say the same of it."""
        told = []
        for state in (self.state, self.plain):
            with state.changing:
                outcome = change(state)
            moved = python_ids(state.graph.ids.names(outcome.moved.nodes)).tolist()
            orders = outcome.moved.orders.tolist()
            counts = outcome.unchanged, outcome.missing, outcome.loops, outcome.moved.rows
            left = sorted(python_ids(outcome.left).tolist())
            told.append((sorted(zip(moved, orders, strict=True)), left, counts))
        assert told[0] == told[1]
        assert what_is_seen(self.state) == what_is_seen(self.plain)

    def applied(self, state, batch, now):
        state.stage(batch, now)
        return state.write()

    @rule(events=EVENTS, passed=PASSED)
    def update(self, events, passed):
        batch, now = self.batch(events), self.later(passed)
        self.both(lambda state: self.applied(state, batch, now))
        self.now = max(self.now, self.plain.graph.clock or 0.0)

    @rule(nodes=st.lists(NODE, max_size=3))
    def remove_nodes(self, nodes):
        self.both(lambda state: state.remove(self.known(state, nodes)))

    @rule(nodes=st.lists(NODE, min_size=1, max_size=4), seed=st.integers(0, 99))
    def set_features(self, nodes, seed):
        if self.model.features == "given":
            values = np.random.default_rng(seed).uniform(-1, 1, (len(nodes), WIDTH)).astype(np.float32)
            self.both(lambda state: state.set_features(self.ids(nodes), values))

    def known(self, state, nodes):
        found = state.graph.find(self.ids(nodes)) if nodes else np.empty(0, np.int32)
        return found[found >= 0]

    def entered(self, trial, change):
        """Enter a trial, compare with a state that was built for it, and leave."""
        before = what_is_seen(self.state), numbers(self.state)
        with trial as outcome:
            other = State.from_image(self.model, self.state_image)
            expected = change(other)
            assert what_is_seen(self.state) == what_is_seen(other)
            rebuilt = State.from_image(self.model, self.state.image()[0])
            assert digest_of(rebuilt) == digest_of(self.state)
            assert outcome.moved.rows >= 0
            assert sorted(python_ids(outcome.left).tolist()) == sorted(python_ids(expected.left).tolist())
            yield other
        assert (what_is_seen(self.state), numbers(self.state)) == before
        type(self).count += 1

    @property
    def state_image(self):
        """The graph as it is without the innermost trial: the twin's, unless trials are nested."""
        return self._image if self._image is not None else self.plain.image()[0]

    _image = None

    @rule(events=EVENTS, passed=PASSED)
    def try_events(self, events, passed):
        batch, now = self.batch(events), self.later(passed)
        for _ in self.entered(Trial(self.state, batch, now), lambda other: other.apply(batch, now)):
            pass

    @rule(nodes=st.lists(NODE, max_size=3))
    def try_removal(self, nodes):
        trial = RemovalTrial(self.state, self.known(self.state, nodes))
        for _ in self.entered(trial, lambda other: other.remove(self.known(other, nodes))):
            pass

    @rule(events=EVENTS, more=EVENTS, nodes=st.lists(NODE, max_size=2), passed=PASSED)
    def try_one_inside_the_other(self, events, more, nodes, passed):
        first, second, now = self.batch(events), self.batch(more), self.later(passed)
        for outer in self.entered(Trial(self.state, first), lambda other: other.apply(first)):
            self._image = outer.image()[0]
            for inner in self.entered(Trial(self.state, second, now), lambda other: other.apply(second, now)):
                self._image = inner.image()[0]
                trial = RemovalTrial(self.state, self.known(self.state, nodes))
                for _ in self.entered(trial, lambda other: other.remove(self.known(other, nodes))):
                    pass
            self._image = None

    @rule(events=EVENTS, more=EVENTS)
    def leave_by_an_exception(self, events, more):
        before = what_is_seen(self.state), numbers(self.state)
        with suppress(OpenTrial), Trial(self.state, self.batch(events)):
            self.state.apply(self.batch(more))
            raise AssertionError("an update inside a trial was not refused")
        assert (what_is_seen(self.state), numbers(self.state)) == before

    @rule(events=EVENTS)
    def refused(self, events):
        before = what_is_seen(self.state), numbers(self.state)
        for weight in (1e30, 4e6):
            batch = self.batch([*events, (90, 91, 0.0, 1, weight), (91, 92, 0.0, 1, weight)])
            with suppress(CapacityError), Trial(self.state, batch):
                pass
            assert (what_is_seen(self.state), numbers(self.state)) == before


QUICK = settings(
    max_examples=40, stateful_step_count=18, deadline=None, suppress_health_check=list(HealthCheck)
)
LONG = settings(QUICK, max_examples=1500, stateful_step_count=25)
HUNT = settings(
    QUICK,
    max_examples=400,
    phases=[Phase.generate],
    derandomize=True,
    report_multiple_bugs=False,
    database=None,
    print_blob=False,
)


def test_nobody_can_tell_that_there_was_a_trial():
    Trials.count = 0
    run_state_machine_as_test(Trials, settings=QUICK)
    assert Trials.count > 100


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_nobody_can_tell_that_there_were_ten_thousand_trials():
    Trials.count = 0
    while Trials.count < 10_000:
        run_state_machine_as_test(Trials, settings=LONG)


# ---- seeded bugs -------------------------------------------------------------------------------------------


def contact_counts_are_forgotten(monkeypatch):
    whole = Transaction.note_before

    def note_before(self, *pairs):
        whole(self, *pairs)
        self.trials[-1].pairs.count = np.zeros_like(self.trials[-1].pairs.count)

    monkeypatch.setattr(Transaction, "note_before", note_before)


def contacts_of_nodes_are_forgotten(monkeypatch):
    whole = Transaction.note_before

    def note_before(self, *pairs):
        whole(self, *pairs)
        self.trials[-1].pairs.touched = None

    monkeypatch.setattr(Transaction, "note_before", note_before)


def clocks_are_forgotten(monkeypatch):
    monkeypatch.setattr(Transaction, "_set_clocks", lambda self, before: None)


def ids_are_released(monkeypatch):
    monkeypatch.setattr(IdMap, "hold", lambda self: self._counts.tolist())
    monkeypatch.setattr(IdMap, "let_go", lambda self, before: None)


def arrivals_are_not_released(monkeypatch):
    def let_go(self, before):
        self._holds -= 1

    monkeypatch.setattr(IdMap, "let_go", let_go)


def ghosts_that_grow_old_are_forgotten(monkeypatch):
    def staged_pairs(self):
        return self._distinct(self.events.src, self.events.dst)

    monkeypatch.setattr(Transaction, "staged_pairs", staged_pairs)


def own_features_are_forgotten(monkeypatch):
    whole = Transaction.note_before

    def note_before(self, *pairs):
        whole(self, *pairs)
        self.trials[-1].pairs.own = None

    monkeypatch.setattr(Transaction, "note_before", note_before)


MUTANTS = [
    contact_counts_are_forgotten,
    contacts_of_nodes_are_forgotten,
    clocks_are_forgotten,
    ids_are_released,
    arrivals_are_not_released,
    ghosts_that_grow_old_are_forgotten,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda value: value.__name__)
def test_a_seeded_bug_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DygcnError)):
        run_state_machine_as_test(Trials, settings=HUNT)


def test_steps_show_the_seeded_bug_of_own_features(monkeypatch):
    options = {"strings": False, "directed": False, "half_life": None, "unit": None, "orders": 2}
    steps = [
        step("begin", features="given", **options),
        step("set_features", nodes=[3, 12], seed=0),
        step("try_removal", nodes=[3, 12]),
    ]
    take(Trials, steps)
    own_features_are_forgotten(monkeypatch)
    with pytest.raises(AssertionError):
        take(Trials, steps)


# ---- interrupts --------------------------------------------------------------------------------------------

ENGINE = str(Path(dygcn.__file__).parent / "engine")


class Interrupted(BaseException):
    pass


def interrupt_at(nth, work):
    """Raise an exception at the n-th line of the engine that `work` comes to; say whether there was one."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(ENGINE):
            return None
        if event == "line":
            lines += 1
            if lines == nth:
                raise Interrupted
        return trace

    known = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interrupted:
        return True
    finally:
        sys.settrace(known)
    return False


def small_state(half_life, features):
    state = State(model_of(False, False, features, half_life, 1.0, 2))
    if features == "given":
        state.set_features(id_column([1, 2, 3, 60]), np.eye(4, WIDTH, dtype=np.float32))
    state.apply(read_events([(i, i + 1, 0.1 * i) for i in range(5)], columns=("src", "dst", "t")))
    gone = [(0, 1, 0.6, -1), (3, 4, 0.7, -1)]
    state.apply(read_events(gone, columns=("src", "dst", "t", "op")))
    return state


def whole_of(state):
    """Return what is seen of a state that a torn one heals to."""
    return what_is_seen(State.from_image(state.model, state.image()[0]))


KINDS = [(None, "hashed", False), (None, "given", True), (2.5, "given", False), (2.5, "hashed", True)]


COMPILED = pytest.mark.skipif(cpu_level() == "none", reason="an interrupt could come inside a loop")


@COMPILED
@pytest.mark.parametrize(("half_life", "features", "removal"), KINDS)
def test_an_interrupt_at_some_lines_leaves_what_was_before(half_life, features, removal):
    check_interrupts(half_life, features, removal, every=5)


@COMPILED
@pytest.mark.slow
@pytest.mark.parametrize(("half_life", "features", "removal"), KINDS)
def test_an_interrupt_at_any_line_leaves_what_was_before(half_life, features, removal):
    check_interrupts(half_life, features, removal, every=1)


def check_interrupts(half_life, features, removal, every):
    batch = read_events(
        [(0, 9, 9.0, 1), (1, 2, 9.0, -1), (2, 1, 9.0, 1), (4, 5, 9.0, -1)], columns=("src", "dst", "t", "op")
    )
    nth, torn = 0, 0
    while True:
        nth += every
        state = small_state(half_life, features)
        before, expected = numbers(state), what_is_seen(state)

        def work(state=state):
            trial = RemovalTrial(state, state.graph.nodes()[1:3]) if removal else Trial(state, batch)
            with Trial(state, batch), trial:
                pass

        came = interrupt_at(nth, work)
        if state.torn or state.transaction.trials:
            torn += state.torn
            state.complete()
            assert whole_of(state) == expected
        else:
            assert (what_is_seen(state), numbers(state)) == (expected, before)
        if not came:
            break
    assert torn > 100 // every


def test_a_torn_trial_refuses_and_is_completed_to_what_was_before(monkeypatch):
    state = small_state(2.5, "given")
    expected = what_is_seen(state)

    def fail(*_):
        raise MemoryError("no room, on purpose")

    with pytest.raises(MemoryError), Trial(state, read_events([(0, 9), (1, 60)]), 3.0):
        monkeypatch.setattr(type(state.rule), "apply", fail)
    monkeypatch.undo()
    assert state.torn
    with pytest.raises(TornState), Trial(state, read_events([(0, 9)]), 3.0):
        pass
    state.complete()
    assert whole_of(state) == expected


# ---- refusals ----------------------------------------------------------------------------------------------


def rolling_state():
    """Return a state of one of the paper's rules."""
    weights = tuple(np.eye(4, dtype=np.float32) for _ in range(3))
    state = State(Model(weights, "int64", "none", np.ones(4), spec=RollingSpec()))
    state.apply(read_events([(1, 2), (2, 3)]))
    return state


def test_rules_of_the_paper_are_refused():
    state = rolling_state()
    with pytest.raises(FeatureError, match="rolling rule"), Trial(state, read_events([(1, 3)])):
        pass
    with pytest.raises(FeatureError, match="rolling rule"), RemovalTrial(state, state.graph.nodes()):
        pass
    assert not state.torn


def test_a_bad_batch_is_refused_and_nothing_changed():
    state = small_state(2.5, "hashed")
    before = what_is_seen(state), numbers(state)
    for batch in (read_events([("ann", "bob")]), read_events([(1, 70)])):
        with pytest.raises(EventError), Trial(state, batch):
            pass
        assert (what_is_seen(state), numbers(state)) == before


def test_nodes_that_moved_back_are_told():
    state = small_state(None, "hashed")
    trial = Trial(state, read_events([(1, 9)]))
    with trial as outcome:
        moved = set(outcome.moved.nodes.tolist())
    arrived = moved - set(state.graph.nodes().tolist())
    assert set(trial.restored.nodes.tolist()) == moved - arrived
