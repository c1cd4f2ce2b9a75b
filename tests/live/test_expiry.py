"""Edges that leave by the clock: a dict of edges and last times, against everything around an update."""

import dataclasses
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.graph.image import take_image
from dygcn.errors import CapacityError, DamagedFolder, EventError, OptionError
from dygcn_lab.testbed.seeding import small_model
from tests.attacks.invariants import check_invariants

DAY = 86_400.0
RELATIONS = {"view": 1.0, "buy": 4.0, "none": 0.0}
NAMES = tuple(RELATIONS)
HUNT = settings(
    max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
MODELS = {
    "plain": {},
    "directed": {"directed": True},
    "relations": {"relations": dict(sorted(RELATIONS.items()))},
    "kinds": {"ids": "user:int64,item:int64"},
    "walks": {"features": "walks"},
}


def model_of(how, expire=5.0):
    options = dict(MODELS[how])
    plain = small_model(features=options.pop("features", "hashed"), directed=options.pop("directed", False))
    return dataclasses.replace(plain, unit=1.0, expire=expire, **options)


class Twin:
    """Edges by pair: the time of the last contact, and what each relation adds."""

    def __init__(self, how, expire=5.0):
        self.how, self.expire, self.clock, self.expired = how, expire, -np.inf, 0
        self.edges = {}

    def pass_to(self, now):
        self.clock = max(self.clock, now)
        due = [pair for pair, (last, _) in self.edges.items() if last + self.expire <= self.clock]
        self.expired += len(due)
        for pair in due:
            del self.edges[pair]

    def apply(self, events, now=None):
        for src, dst, t, op, name in events:
            when = t if t is not None else self.clock if now is None else now
            self.pass_to(when)
            self.happen(src, dst, when, op, name)
            self.pass_to(when)
        if now is not None:
            self.pass_to(now)

    def happen(self, src, dst, t, op, name):
        if self.how == "kinds":
            pair = ("user", src), ("item", dst)
        elif src == dst:
            return
        else:
            pair = (src, dst) if self.how == "directed" else (min(src, dst), max(src, dst))
        last, parts = self.edges.get(pair, (-np.inf, {}))
        weight = RELATIONS[name] if self.how == "relations" else 1.0
        key, before = name if self.how == "relations" else None, dict(parts)
        if op < 0 or not weight:
            parts.pop(key, None)
        else:
            parts[key] = weight
        if op < 0 and before == parts:
            return  # it was not there
        if parts:
            self.edges[pair] = max(last, t), parts
        else:
            self.edges.pop(pair, None)

    def remove(self, node):
        self.edges = {pair: held for pair, held in self.edges.items() if node not in pair}

    def weights(self):
        return {pair: sum(parts.values()) for pair, (_, parts) in self.edges.items()}


def table(events, how, *, timed=True):
    names = ("src", "dst", "t", "op", "relation")
    columns = dict(zip(names, map(list, zip(*events, strict=True)), strict=True))
    if how != "relations":
        del columns["relation"]
    if not timed:
        del columns["t"]
    return columns


def edges_of(live):
    graph = live._state.graph
    a, b, weight = graph.edges()
    names = [graph.ids.shown(graph.ids.names(ends)).tolist() for ends in (a, b)]
    found = {}
    for one, other, w in zip(*names, weight.tolist(), strict=True):
        pair = (one, other) if live.model.directed else tuple(sorted((one, other)))
        if live.model.ids.startswith("user"):
            pair = tuple(sorted((one, other), reverse=True))
        found[pair] = w * graph.grid
    return found


NODE = st.integers(0, 5)
EVENT = st.tuples(
    NODE, NODE, st.sampled_from([0.0, 0.0, 0.5, 3.0]), st.sampled_from([0.0, 0.0, 1.0, 4.0, 5.0, 30.0]),
    st.sampled_from([1, 1, 1, -1]), st.sampled_from(NAMES),
)  # fmt: skip
EVENTS = st.lists(EVENT, min_size=1, max_size=15)
CUTS = st.lists(st.integers(0, 20), max_size=4)
LATER = st.sampled_from([0.0, 0.5, 4.0, 5.0, 100.0])
STEP = st.one_of(
    st.tuples(st.just("events"), EVENTS, CUTS),
    st.tuples(st.just("events"), EVENTS, CUTS),
    st.tuples(st.just("until"), EVENTS, LATER),
    st.tuples(st.just("untimed"), EVENTS, st.none() | LATER),
    st.tuples(st.just("wait"), LATER, st.none()),
    st.tuples(st.just("remove"), NODE, st.none()),
    st.tuples(st.just("again"), st.none(), st.none()),
)
INSIDE = st.one_of(
    STEP, st.tuples(st.just("trial"), EVENTS, LATER), st.tuples(st.just("refused"), EVENTS, st.none())
)
STEPS = st.lists(INSIDE, min_size=1, max_size=6)


class Player:
    """An embedding and its twin, with events cut in one way."""

    def __init__(self, how, folder, cut):
        self.how, self.folder, self.cut = how, folder, cut
        self.live, self.twin = dygcn.start(model_of(how)), Twin(how)
        self.time, self.expired = 0.0, 0
        if folder is not None:
            self.live = dygcn.open(folder, self.live)
        self.live.update(now=0.0)
        self.twin.pass_to(0.0)

    def dated(self, events):
        found, time = [], self.time
        for src, dst, passed, late, op, name in events:
            time += passed
            found.append((src, dst, time - late, op, name))
        return found, time

    def update(self, *args, **options):
        self.expired += self.live.update(*args, **options).expired

    def step(self, kind, what, more):
        getattr(self, kind)(what, more)
        assert edges_of(self.live) == self.twin.weights()
        assert self.expired == self.twin.expired
        assert self.live._state.graph.clock == self.twin.clock

    def events(self, what, cuts):
        events, self.time = self.dated(what)
        for part in self.cut(events, cuts):
            self.update(table(part, self.how))
        self.twin.apply(events)

    def until(self, what, later):
        events, time = self.dated(what)
        self.time = time + later
        self.update(table(events, self.how), now=self.time)
        self.twin.apply(events, self.time)

    def untimed(self, what, later):
        now = None if later is None else self.time + later
        events = [(*event[:2], None, *event[4:]) for event in what]
        for part in self.cut(events, [3]):
            self.update(table(part, self.how, timed=False), now=now)
        self.twin.apply(events, now)
        self.time = max(self.time, self.twin.clock)

    def wait(self, later, _):
        self.time += later
        self.update(now=self.time)
        self.twin.pass_to(self.time)

    def remove(self, node, _):
        name = ("user", node) if self.how == "kinds" else node
        self.live.update(remove_nodes=[name])
        self.twin.remove(name)

    def again(self, *_):
        before = self.live.digest()
        if self.folder is None:
            self.live.save(self.folder_beside)
            self.live = dygcn.load(self.folder_beside)
        else:
            self.live._let_go()
            self.live = dygcn.open(self.folder)
        assert self.live.digest() == before

    def trial(self, what, later):
        events, time = self.dated(what)
        before, twin = self.live.digest(), Twin(self.how)
        twin.edges = {pair: (last, dict(parts)) for pair, (last, parts) in self.twin.edges.items()}
        twin.clock = self.twin.clock
        image = take_image(self.live._state.graph)[0]
        with ExitStack() as trials:
            live = self.live
            for part in self.cut(events, [3, 5]):
                live = trials.enter_context(live.what_if(table(part, self.how)))
            live = trials.enter_context(live.what_if(now=time + later))
            twin.apply(events, time + later)
            assert edges_of(live) == twin.weights()
        assert self.live.digest() == before
        after = take_image(self.live._state.graph)[0]
        for name in ("contact", "activity", "pair_t", "pair_count"):
            np.testing.assert_array_equal(getattr(after, name), getattr(image, name))

    def refused(self, what, _):
        """The batch lets everything expire, and ends in a node that would carry too much."""
        events, _ = self.dated(what)
        events += [(0, dst, self.time + 100.0, 1, "buy") for dst in (90, 91, 92)]
        heavy = table(events, self.how) | {"weight": [1.0] * len(what) + [1.6e6] * 3}
        if self.folder is None:
            with pytest.raises(CapacityError):
                self.update(heavy)


def as_drawn(events, cuts):
    bounds = [0, *sorted(cut % (len(events) + 1) for cut in cuts), len(events)]
    return [events[begin:end] for begin, end in pairwise(bounds) if begin < end]


def one_by_one(events, _):
    return [[event] for event in events]


def in_one(events, _):
    return [events]


def agree(how, steps, folder, durable=False, inside=True):
    players = [
        Player(how, folder / f"{at}" if durable else None, cut)
        for at, cut in enumerate((as_drawn, one_by_one, in_one))
    ]
    for at, player in enumerate(players):
        player.folder_beside = folder / f"saved {at}"
    for step in steps:
        for player in players:
            player.step(*step)
        lives = [player.live for player in players]
        if not inside:
            continue
        for live in lives:
            check_invariants(live)
        assert len({live.digest() for live in lives} | {lives[0].recompute().digest()}) == 1
        images = [take_image(live._state.graph)[0] for live in lives]
        for image in images[1:]:
            for name in ("contact", "activity", "pair_t", "pair_count"):
                np.testing.assert_array_equal(getattr(image, name), getattr(images[0], name))
    for player in players:
        if durable:
            player.live.close()


@pytest.mark.parametrize("how", MODELS)
def test_a_history_with_trials_in_any_cuts_is_its_twin(how, tmp_path_factory):
    @HUNT
    @given(STEPS)
    def hunt(steps):
        agree(how, steps, tmp_path_factory.mktemp("x"))

    hunt()


@pytest.mark.parametrize("how", ["directed", "relations", "kinds"])
def test_a_history_in_any_cuts_is_its_twin(how, tmp_path_factory):
    """On shards, too, when these are tried."""

    @settings(HUNT, max_examples=10)
    @given(st.lists(STEP, min_size=1, max_size=6))
    def hunt(steps):
        agree(how, steps, tmp_path_factory.mktemp("x"), inside=False)

    hunt()


@pytest.mark.parametrize("how", ["plain", "relations"])
def test_a_restart_with_trials_in_any_place_is_its_twin(how, tmp_path_factory):
    @settings(HUNT, max_examples=8)
    @given(STEPS)
    def hunt(steps):
        agree(how, steps, tmp_path_factory.mktemp("x"), durable=True)

    hunt()


# ---- from the front door ---------------------------------------------------------------------------------


def shop(random, days, count=1000):
    """Views of things, spread over days."""
    t = np.sort(random.uniform(0, days * DAY, count)).round()
    return {"src": random.integers(0, 60, count), "dst": random.integers(100, 180, count), "t": t}


@pytest.mark.parametrize(
    ("features", "span"),
    [("hashed", "90d"), ("walks", 90 * DAY), ("walks", timedelta(90)), ("walks", np.timedelta64(90, "D"))],
)
def test_a_fit_ends_with_the_edges_of_now(span, features):
    events = shop(np.random.default_rng(1), 400)
    live = dygcn.fit(events, dim=8, features=features, expire=span)
    twin = Twin("plain", 90 * DAY)
    twin.apply(
        [(a, b, t, 1, None) for a, b, t in zip(*(events[name].tolist() for name in events), strict=True)]
    )
    assert edges_of(live) == twin.weights()
    assert live.model.expire == 90 * DAY
    assert "expire=7.776e+06" in repr(live.model)


def test_all_of_one_time_can_expire():
    live = dygcn.fit({"src": [1, 2], "dst": [2, 3], "t": [7, 7]}, dim=4, expire=3)
    assert live.update(now=10).expired == 2
    assert len(live) == 0


def test_ten_years_of_views_stay_as_many_as_of_ninety_days():
    random = np.random.default_rng(2)
    events = shop(random, 3650, 6000)
    live = dygcn.start(dataclasses.replace(model_of("plain", 90 * DAY), unit=DAY))
    twin, most, expired = Twin("plain", 90 * DAY), 0, 0
    bounds = np.cumsum(random.integers(1, 200, 200))
    for begin, end in pairwise([0, *bounds[bounds < 6000].tolist(), 6000]):
        part = {name: column[begin:end] for name, column in events.items()}
        expired += live.update(part).expired
        rows = zip(*(column.tolist() for column in part.values()), strict=True)
        twin.apply([(a, b, t, 1, None) for a, b, t in rows])
        most = max(most, live.edge_count)
        assert live.edge_count == len(twin.edges)
    assert edges_of(live) == twin.weights()
    assert expired == twin.expired > 5000
    assert most < 6000 * 90 / 3650 * 1.5
    assert live.digest() == live.recompute().digest()
    assert live._state.graph.expiry.arrays.arrays[-1][1] < 2 * 6000


def test_the_change_says_how_many_left():
    live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]}, dim=4, expire=5)
    change = live.update({"src": [9], "dst": [8], "t": [6]})
    assert (change.expired, change.missing, change.unchanged) == (2, 0, 0)
    assert "expired=2" in repr(change)
    assert sorted(change.left.tolist()) == [1, 2]
    live.update(now=100)
    done = live.bulk([{"src": [1], "dst": [2], "t": [101]}, {"src": [3], "dst": [4], "t": [110]}])
    assert done.expired == 1


@pytest.mark.parametrize("span", ["soon", "d", 0, -1.0, np.inf, "90 days", 10**400])
def test_a_span_that_is_none_is_refused(span):
    with pytest.raises(OptionError, match="expire is"):
        dygcn.fit({"src": [1, 2], "dst": [2, 3], "t": [0, 1]}, dim=4, expire=span)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"memory": 3.0}, "expire= does not go with memory="),
        ({"rule": "rolling"}, "expire= is for rule='exact'"),
    ],
)
def test_what_it_does_not_go_with(other, said):
    with pytest.raises(OptionError, match=said):
        dygcn.fit({"src": [1, 2], "dst": [2, 3], "t": [0, 1]}, dim=4, expire="90d", **other)


def test_events_without_times_never_expire():
    with pytest.raises(EventError, match="expire= needs the column t"):
        dygcn.fit([(1, 2), (2, 3)], dim=4, expire="90d")


def test_a_saved_span_that_could_not_be_made_is_refused(tmp_path):
    live = dygcn.start(model_of("plain"))
    object.__setattr__(live.model, "expire", -1.0)
    live.save(tmp_path / "x")
    with pytest.raises(DamagedFolder, match=r"expire -1\.0"):
        dygcn.load(tmp_path / "x")


def test_whoever_asks_or_enters_a_trial_does_not_move_the_clock():
    live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]}, dim=4, expire=5)
    before = live.digest()
    live.score(1, 2), live.nearest(1), live.vectors()
    with live.what_if(now=1000) as trial:
        assert trial.edge_count == 0
    assert live.digest() == before
    assert live._state.graph.clock == 2


def test_explain_change_adds_up_with_edges_that_leave():
    live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]}, dim=8, expire=5, features="hashed")
    found = live.explain_change(3, {"src": [3, 1], "dst": [9, 2], "t": [3, 6]}, now=6.5)
    before = live.vector(3)
    live.update({"src": [3, 1], "dst": [9, 2], "t": [3, 6]}, now=6.5)
    np.testing.assert_allclose(before + found.waiting + found.by_event.sum(axis=0), live.vector(3), atol=1e-5)
