"""Shards in one process: all of them together are what one process is, after every batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SLOTS, SlotMap
from dygcn.engine.events import id_column, python_ids, read_events
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.errors import FeatureError, OptionError
from dygcn.live.files import digest_of
from dygcn_lab.costs.shard_filling import fill
from dygcn_lab.testbed.shard_digest import digest_of_parts, part_of

slots_of = SlotMap(np.arange(SLOTS, dtype=np.int16)).owners


def small(orders=2, **how):
    weights = (np.eye(4, dtype=np.float32),) * (orders + 1)
    return Model(weights, **{"ids": "int64", "features": "hashed", "scales": np.ones(4)} | how)


def apply_updates(shards, told):
    for shard in shards:
        shard.apply({one.number: told[one.number][shard.number] for one in shards if one is not shard})


def apply(shards, batch, now=None):
    apply_updates(shards, [shard.plan(batch, now) for shard in shards])


def move(shards, slots, count):
    """Let slots have other owners; a shard that is new is added to the list."""
    planned = [shard.plan_move(slots, count) for shard in shards]
    for shard in shards:
        told = {one.number: planned[one.number][0][shard.number] for one in shards if one is not shard}
        leaving = [images[shard.number] for _, images in planned if shard.number in images]
        shard.apply_move(told, leaving)
    if count > len(shards):
        fresh = Shard(shards[0].model, count - 1, slots, count)
        fresh.plan_move(slots, count)
        told = {one.number: planned[one.number][0][count - 1] for one in shards}
        fresh.apply_move(told, [images[count - 1] for _, images in planned if count - 1 in images])
        shards.append(fresh)


def loaded_again(shards, number):
    """Return a shard as it is after a restart: from edges of its own, and rows that the others send."""
    before = shards[number]
    again = Shard(before.model, number, before.slots, before.shards)
    again.load(before.image())
    for other, mirrors in again.mirrors().items():
        again.take_rows(shards[other].rows_for(mirrors))
    again.rebuild()
    return again


def digest(shards):
    return digest_of_parts(shards[0].model, [part_of(shard) for shard in shards])


def batches(count, nodes, seed, *, times=False):
    random = np.random.default_rng(seed)
    for step in range(count):
        n = int(random.integers(1, 30))
        columns = dict(zip(("src", "dst"), random.integers(0, nodes, (2, n)), strict=True))
        columns["op"] = random.choice([1, 1, -1], n)
        columns["weight"] = random.choice([1.0, 0.5, 3.0, 2.0**-9], n)
        if times:
            columns["t"] = step + random.random(n)
        yield read_events(columns)


EXPIRING = {"unit": 1.0, "expire": 2.5}


@pytest.mark.parametrize("shards", [1, 2, 3, 8])
@pytest.mark.parametrize("how", [{}, {"directed": True}, {"half_life": 2.0}, {"unit": 1.0}, EXPIRING])
def test_digests_are_those_of_one_process(shards, how):
    model = small(**how)
    state, parts = (
        State(model),
        [Shard(model, number, SlotMap.even(shards), shards) for number in range(shards)],
    )
    for batch in batches(20, 40, seed=shards, times="half_life" in how or "unit" in how):
        state.apply(batch)
        apply(parts, batch)
        assert digest(parts) == digest_of(state)


def test_vectors_are_those_of_one_process():
    model = small()
    state, shards = State(model), [Shard(model, number, SlotMap.even(3), 3) for number in range(3)]
    for batch in batches(10, 30, seed=5):
        state.apply(batch)
        apply(shards, batch)
    for shard in shards:
        own = shard.own_nodes()
        there = state.graph.find(shard.graph.ids.names(own))
        assert (shard.reading().vectors(own) == state.reading().vectors(there)).all()


def test_nothing_is_read_of_a_batch_that_is_only_planned():
    model = small()
    shards = [Shard(model, number, SlotMap.even(2), 2) for number in range(2)]
    first, second = batches(2, 12, seed=1)
    apply(shards, first)
    before = digest(shards)
    told = [shard.plan(second) for shard in shards]
    assert digest(shards) == before
    apply_updates(shards, told)
    assert digest(shards) != before


def test_what_moved_and_who_left_are_own_nodes_once():
    model = small()
    state, shards = State(model), [Shard(model, number, SlotMap.even(4), 4) for number in range(4)]
    for batch in batches(20, 25, seed=3):
        outcome = state.apply(batch)
        told = [shard.plan(batch) for shard in shards]
        moved, left = [], []
        for shard in shards:
            done = shard.apply({one: told[one][shard.number] for one in range(4) if one != shard.number})
            moved += python_ids(shard.graph.ids.names(done.moved.nodes)).tolist()
            left += python_ids(done.left).tolist()
        assert sorted(moved) == sorted(python_ids(state.graph.ids.names(outcome.moved.nodes)).tolist())
        assert sorted(left) == sorted(python_ids(outcome.left).tolist())


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from([1, 1, -1]),
        st.sampled_from([1.0, 0.5]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
)
HOW = st.fixed_dictionaries(
    {
        "directed": st.booleans(),
        "half_life": st.sampled_from([None, 2.0]),
        "unit": st.sampled_from([None, 1.0]),
    }
)


def counts_differ(steps, shards, how):
    """Say whether shards ever count other events without effect than one process, in batches of events."""
    model = small(**how)
    state = State(model)
    parts = [Shard(model, number, SlotMap.even(shards), shards) for number in range(shards)]
    for step in steps:
        batch = read_events(
            dict(zip(("src", "dst", "op", "weight", "t"), zip(*step, strict=True), strict=True))
        )
        alone, told = state.apply(batch), [shard.plan(batch) for shard in parts]
        done = [
            shard.apply({one: told[one][shard.number] for one in range(shards) if one != shard.number})
            for shard in parts
        ]
        counted = np.sum([one.counts[:3] for one in done], axis=0).tolist()
        if counted != [alone.unchanged, alone.missing, alone.loops]:
            return True
        assert sum(one.moved.rows for one in done) >= alone.moved.rows > 0 or not alone.moved.rows
    return False


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=4), st.sampled_from([1, 2, 3, 4]), HOW)
def test_events_without_effect_are_counted_once(steps, shards, how):
    assert not counts_differ(steps, shards, how)


def test_an_event_that_both_owners_count_would_be_noticed(monkeypatch):
    whole = Shard.stage

    def staged(self, batch, now):
        whole(self, batch, now)
        self._counted_here = np.ones_like(self._counted_here)

    monkeypatch.setattr(Shard, "stage", staged)
    assert counts_differ([[(1, 2, -1, 1.0, 0)]], 2, {})


@pytest.mark.parametrize("how", [{}, {"directed": True}, {"half_life": 2.0}])
def test_slots_move_and_shards_come(how):
    model = small(**how)
    random = np.random.default_rng(2)
    state, shards = State(model), [Shard(model, number, SlotMap.even(2), 2) for number in range(2)]
    for step, batch in enumerate(batches(25, 40, seed=7, times="half_life" in how)):
        state.apply(batch)
        apply(shards, batch)
        count = len(shards) + (step % 6 == 2)
        slots = shards[0].slots.moved(
            random.choice(SLOTS, 900, replace=False).tolist(), int(random.integers(count))
        )
        move(shards, slots, count)
        assert digest(shards) == digest_of(state)


def test_a_shard_is_rebuilt_from_edges_and_rows_of_mirrors():
    model = small(half_life=3.0)
    state, shards = State(model), [Shard(model, number, SlotMap.even(3), 3) for number in range(3)]
    for batch in batches(20, 40, seed=9, times=True):
        state.apply(batch)
        apply(shards, batch)
        shards[1] = loaded_again(shards, 1)
        assert digest(shards) == digest_of(state)


@pytest.mark.parametrize("how", [{}, {"directed": True}])
def test_shards_are_filled_with_edges_and_rows_of_mirrors(how):
    model = small(**how)
    state, shards = State(model), [Shard(model, number, SlotMap.even(3), 3) for number in range(3)]
    edges = list(batches(8, 40, seed=6))
    for batch in edges:
        state.apply(batch)
    for shard in shards:
        fill(shard, lambda: edges)
    for shard in shards:
        for other, mirrors in shard.mirrors().items():
            shard.take_rows(shards[other].rows_for(mirrors))
        shard.rebuild()
    assert digest(shards) == digest_of(state)
    for batch in batches(25, 40, seed=7):
        state.apply(batch)
        apply(shards, batch)
        assert digest(shards) == digest_of(state)


def test_a_replay_forgets_rows_of_nodes_that_moved_away_and_left():
    model, slots = small(), SlotMap.even(2)
    mine = [one for one in range(40) if slots.owners(id_column([one]))[0] == 0][:4]
    shard, state = Shard(model, 0, slots, 2), State(model)

    def replay(*events):
        batch = read_events(list(events))
        state.apply(batch)
        shard.plan(batch)
        shard.apply(None)

    replay((mine[0], mine[1]), (mine[1], mine[2]))
    shard.plan_move(slots.moved(slots_of(id_column(mine[:1])).tolist(), to=1), 2)
    shard.apply_move(None, [])
    replay((mine[0], mine[1], 0, -1))
    replay((mine[3], mine[2]))  # with the number of the one who left
    own = shard.own_nodes()
    there = state.graph.find(shard.graph.ids.names(own))
    assert len(own) == 3
    assert shard.rule.sums[0].degree[own].tolist() == state.exact.sums[0].degree[there].tolist()
    assert (shard.rule.sums[0].rows(own) == state.exact.sums[0].rows(there)).all()


def test_one_shard_goes_on_from_a_snapshot_and_becomes_two():
    model = small()
    state, shards = State(model), [Shard(model, 0, SlotMap.even(1), 1)]
    for step, batch in enumerate([read_events([(1, 2), (2, 3)]), *batches(12, 60, seed=4)]):
        state.apply(batch)
        apply(shards, batch)
        if step == 0:  # arrays have places for nodes to come
            again = Shard(model, 0, SlotMap.even(1), 1)
            again.load(shards[0].image())
            again.rebuild()
            shards = [again]
        if step == 8:
            slots = SlotMap.even(2)
            told, leaving = shards[0].plan_move(slots, 2)
            fresh = Shard(model, 1, SlotMap.even(1), 2)
            fresh.plan_move(slots, 2)
            fresh.apply_move({0: told[1]}, [leaving[1]])
            shards[0].apply_move({}, [])
            for one, other in ((0, 1), (1, 0)):
                both = [*shards, fresh]
                both[one].take_rows(both[other].rows_for(both[one].mirrors()[other]))
                both[one].rebuild()
            shards.append(fresh)
        assert digest(shards) == digest_of(state)


def test_what_shards_cannot_do_is_refused():
    with pytest.raises(OptionError, match="propagates 3 orders, and shards need 2"):
        Shard(small(orders=3), 0, SlotMap.even(2), 2)
    with pytest.raises(FeatureError, match='features="given"'):
        Shard(small(features="given"), 0, SlotMap.even(2), 2)
    with pytest.raises(OptionError, match="from 1 to 1024"):
        SlotMap.even(0)


def test_slots_are_even():
    assert SlotMap.even(2).owners(id_column([1, 2, 3, 4])).tolist() == [0, 1, 0, 1]
    counts = np.bincount(slots_of(id_column(np.arange(400_000))), minlength=SLOTS)
    assert len(counts) == SLOTS
    assert 50 < counts.min() <= counts.max() < 160
    text = slots_of(id_column([f"user-{one}" for one in range(20_000)]))
    assert np.bincount(text >> 8, minlength=16).min() > 1_000
