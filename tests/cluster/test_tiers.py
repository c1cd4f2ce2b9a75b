"""Shards that pull: together the same bits as one process that pushes every message."""

import numpy as np
import pytest

from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SLOTS, SlotMap
from dygcn.engine.events import id_column, python_ids, read_events
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation import set_threads, spreading
from dygcn.live.files import digest_of
from dygcn.serving.service.cost_estimate import expected_rows
from dygcn_lab.testbed.divided import divide
from dygcn_lab.testbed.simulated_cluster import SimulatedCluster
from tests.cluster.test_shard import apply, apply_updates, digest, loaded_again, move, small
from tests.live.test_tiers import check_tiers, heavy_from
from tests.seeded import assert_noticed

WIDTH = 4


def model_of(random, nodes):
    about = {
        "directed": bool(random.integers(2)),
        "half_life": [None, None, 3.0][random.integers(3)],
        "unit": [None, 1.0][random.integers(2)],
        "grid": [2.0**-16, 1.0][random.integers(2)],
    }
    if random.integers(2):
        return small(**about)
    known = np.flatnonzero(random.random(nodes) < 0.8)  # some have no row, so no message either
    rows = random.standard_normal((len(known) + 1, WIDTH)).astype(np.float32)
    table = RowTable.of(id_column([*known.tolist(), nodes]), rows)
    weights = (np.ones((1, 1), np.float32),) * 3
    return Model(weights, "int64", "walks", np.full(WIDTH, table.scale), table=table, **about)


def batches(random, nodes, steps):
    """Yield events: single edges and many, with few hubs, of which some lose all edges again."""
    skew = float(random.choice([1.0, 2.0, 4.0]))
    for step in range(steps):
        count = int(random.choice([1, 1, 2, 7, 60]))
        ends = (nodes * random.random((2, count)) ** skew).astype(int)
        ends[1] = np.where(random.random(count) < 0.5, random.integers(0, nodes, count), ends[1])
        op = np.where(random.random(count) < random.choice([0.3, 0.6, 0.9]), 1, -1)
        weight = random.integers(1, 4, count) if random.random() < 0.3 else np.ones(count)
        t = step + np.sort(random.random(count))
        yield read_events({"src": ends[0], "dst": ends[1], "op": op, "weight": weight, "t": t})


def vectors_of(shards):
    """Return the vector of every node, read at its owner."""
    found = {}
    for shard in shards:
        own = shard.own_nodes()
        names = python_ids(shard.graph.ids.names(own)).tolist()
        found |= dict(zip(names, shard.reading().vectors(own), strict=True))
    return found


def moved_ids(done, shards):
    return {
        name
        for one, shard in zip(done, shards, strict=True)
        for name in python_ids(shard.graph.ids.names(one.moved.nodes)).tolist()
    }


def apply_all(shards, told):
    return [
        shard.apply({one.number: told[one.number][shard.number] for one in shards if one is not shard})
        for shard in shards
    ]


def remove(state, shards, ids):
    column = id_column(ids)
    nodes = state.graph.find(column)
    with state.changing:
        state.remove(nodes[nodes >= 0])
    apply_updates(shards, [shard.plan_removal(column) for shard in shards])


def shift_slots(random, shards):
    """Move slots, now and then to a shard that is new."""
    count = len(shards) + int(len(shards) > 1 and random.random() < 0.3)
    chosen = random.choice(SLOTS, 900, replace=False).tolist()
    move(shards, shards[0].slots.moved(chosen, int(random.integers(count))), count)


def agree(seed, bound=None, steps=25, count=None, nodes=None):
    """Play the same events on shards and in one process that pushes; return how many were heavy at most."""
    random = np.random.default_rng(seed)
    bound = int(random.choice([2, 3, 4, 8, 16])) if bound is None else bound
    nodes = int(random.integers(8, 90)) if nodes is None else nodes
    count = int(random.integers(1, 5)) if count is None else count
    model, heavy = model_of(random, nodes), 0
    with heavy_from("inf"):
        state = State(model)
    with heavy_from(bound):
        shards = [Shard(model, number, SlotMap.even(count), count) for number in range(count)]
        for step, batch in enumerate(batches(random, nodes, steps)):
            before = vectors_of(shards) if step % 4 == 1 else {}
            alone = state.apply(batch)
            done = apply_all(shards, [shard.plan(batch) for shard in shards])
            moved = moved_ids(done, shards)
            assert moved >= set(python_ids(state.graph.ids.names(alone.moved.nodes)).tolist())
            now = vectors_of(shards) if before else {}
            assert all(name in moved or np.array_equal(before.get(name), now[name]) for name in now)
            if random.random() < 0.2:
                remove(state, shards, random.integers(0, nodes, 2).tolist())
            if len(shards) > 1 and random.random() < 0.15:
                shift_slots(random, shards)
            if random.random() < 0.1:
                number = int(random.integers(len(shards)))
                shards[number] = loaded_again(shards, number)
            if step % 3 == 0 or step == steps - 1:
                assert digest(shards) == digest_of(state)
            if bound != "inf" and (step % 8 == 0 or step == steps - 1):
                for shard in shards:
                    check_tiers(shard.graph, shard.rule)
            heavy = max(heavy, *(int((shard.graph.tiers > 0).sum()) for shard in shards))
    return heavy


@pytest.mark.parametrize("block", range(10))
def test_pulled_and_pushed_messages_give_the_same_bits(block):
    assert sum(agree(seed) for seed in range(6 * block, 6 * block + 6)) > 0


def test_the_same_where_nobody_is_heavy():
    assert sum(agree(seed, bound="inf") for seed in range(3)) == 0


@pytest.mark.large
def test_the_same_at_the_bound_that_is_the_default():
    for seed in (4, 7):
        assert agree(seed, bound=128, nodes=700, steps=120, count=2) > 0


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(spreading, "SHARED", 1)
    set_threads(3)
    try:
        for seed in range(4):
            agree(seed, bound=3)
    finally:
        set_threads(None)


@pytest.mark.parametrize("bound", ["2", "4"])
def test_every_simulated_run_ends_right(bound, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", bound)
    for seed in range(12):
        run = SimulatedCluster(seed)
        run.run()
        assert not run.wrong, (seed, run.wrong, run.weather)


def star(bound, spokes, count):
    with heavy_from(bound):
        shards = [Shard(small(), number, SlotMap.even(count), count) for number in range(count)]
    edges = [(0, spoke) for spoke in range(1, spokes + 1)]
    apply(shards, read_events(edges + [(spoke, spoke + 1) for spoke in range(1, spokes)]))
    return shards


def rows_of_an_event(shards, event):
    told = [shard.plan(read_events([event])) for shard in shards]
    changes = sum(len(one.change) for each in told for one in each.values())
    return sum(one.moved.rows for one in apply_all(shards, told)), changes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_event_at_a_hub_adds_to_few_rows(count):
    """However great the hub is; and each other shard is told of it once."""
    for spokes in (300, 3000):
        shards = star(16, spokes, count)
        rows, changes = rows_of_an_event(shards, (0, spokes + 5))
        assert rows < 20
        assert changes <= count - 1
    pushing = star("inf", 300, count)
    assert rows_of_an_event(pushing, (0, 305))[0] > 300


def test_who_pulls_from_a_hub_has_moved():
    shards = star(16, 300, 2)
    told = [shard.plan(read_events([(0, 305)])) for shard in shards]
    assert moved_ids(apply_all(shards, told), shards) == {*range(301), 305}


def test_a_front_expects_what_an_event_at_a_hub_costs():
    """Not more than shards push: they have fewer arcs of a light node than make one heavy."""
    expected = []
    for bound in (16, "inf"):
        with heavy_from(bound):
            state = State(small())
            state.apply(read_events([(0, spoke) for spoke in range(1, 301)]))
            front = divide(state, 2)
        expected.append(expected_rows(front, read_events([(0, 999)])))
        assert expected_rows(front, read_events([(1, 999)])) == 3
    assert expected == [2 + 2 * 16, 2 + 300]


def test_a_mirror_that_nobody_aggregates_is_light_again():
    """Also if the node with its number is another one then."""
    shards = star(4, 40, 2)
    state = State(small())
    edges = [(0, spoke) for spoke in range(1, 41)] + [(spoke, spoke + 1) for spoke in range(1, 40)]
    state.apply(read_events(edges))
    for events in (
        [(0, spoke, 0, -1) for spoke in range(1, 41)],
        [(100 + spoke, spoke) for spoke in range(40)],
        [(0, spoke) for spoke in range(1, 41)],
    ):
        state.apply(read_events(events))
        apply(shards, read_events(events))
        assert digest(shards) == digest_of(state)
        for shard in shards:
            check_tiers(shard.graph, shard.rule)


# ---- seeded bugs -----------------------------------------------------------------------------------------


MUTANTS = {
    "rows of heavy mirrors do not follow first rows": (
        "propagation.mirrored",
        "self._heavy.renew(nodes, *messages)",
        "pass",
    ),
    "arcs turn at mirrors, too": (
        "propagation.mirrored",
        "at_own = self.own[receiver] > 0  # mirrors have no sum of order 2",
        "at_own = receiver >= 0",
    ),
    "tiers are not settled": ("propagation.mirrored", "self._settle(graph, delta.touched)", "pass"),
    "no message is kept after a restart": (
        "propagation.mirrored",
        "self._heavy.put(heavy, *self.messages(graph, heavy, 1))",
        "self._heavy.put(heavy, *(0 * each for each in self.messages(graph, heavy, 1)))",
    ),
    "sums of a shard hold all messages": (
        "propagation.mirrored",
        "self.sums[1] = Sums(*about, pooled=True, partial=self.pulls_some)  # in a list that is shared",
        "self.sums[1] = Sums(*about, pooled=True)",
    ),
    "who pulls what moved is not listed": (
        "propagation.mirrored",
        "pulling = next_ring(changed.heavy, seen, *graph.push.lists[:3])",
        "pulling = changed.heavy[:0]",
    ),
    "a cached message is stale": (
        "propagation.pulling",
        "add_row(heavy.rows, at, frontier.table, frontier.row[i], 1)",
        "pass",
    ),
}


def hunt():
    for seed in range(40):
        agree(seed, steps=12, nodes=20, bound=2 + seed % 3, count=2)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_seeded_bug_would_be_noticed(mutant, tmp_path):
    module, line, wrong = MUTANTS[mutant]
    assert_noticed(tmp_path, f"dygcn.engine.{module}", line, wrong, hunt)
