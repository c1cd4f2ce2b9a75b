"""Arrays are replaced when they grow: what loops are handed must be those that are used now."""

import numpy as np

import dygcn
from dygcn.engine.models.model import Model


def held(live):
    """Everything that loops are handed, and the arrays that should be in it."""
    graph, rule = live._state.graph, live._state.rule
    ids, spreading = graph.ids, rule._spreading
    names = ids._values, ids._lengths, ids._arena, ids._free, ids._counts, ids._alive, ids.secret
    yield ids.arrays, (ids._table, ids.keys, ids.hashes, *names)
    for arcs in (graph.pull, graph.push):
        blocks = arcs.start, arcs.count, arcs._room, arcs.others, arcs.weights, arcs._hub, arcs._extra
        yield arcs.arrays, (*blocks, arcs._heads, arcs._tail, arcs._table, arcs.times, arcs.counts)
    marks = graph._own, graph._active, graph._seen
    contacts = graph.contacts.times, graph.contacts.counts
    yield graph.node_arrays, (graph.strength, graph._change, *marks, *contacts)
    for sums in rule.sums:
        yield sums.arrays, (sums.degree, sums.slot, sums.narrow, sums.wide, sums._free, sums._counts)
    buffers, plan = rule._buffers, rule._plan_of_now(graph)
    arcs, tools, step = plan.arrays[0], plan.arrays[3], plan.arrays[5]
    given = buffers.few, graph.pull.arrays, graph.push.arrays, graph.weight_shift
    yield Parts((arcs.changes, arcs.pull, arcs.push, arcs.shift)), given
    heavy = rule._heavy.rows
    yield Parts(tools.arrays), (buffers.works[0], spreading.marks, buffers.reached, heavy)
    scratch = arcs, buffers.start, buffers.wanted, tools, rule.heavy_from, step
    yield Parts(plan.arrays), (*scratch, rule.features.unit_table(ids), ids.arrays)
    arcs = graph.pull.arrays, graph.push.arrays
    yield plan.arrays[-1], (graph.buffers.arrays, *arcs, graph.node_arrays)
    for order, sums in enumerate(rule.sums, 1):
        yield Parts(step.arrays), (sums.arrays, buffers.buffer(order, order == rule.orders))
        step = step.arrays[-1]


class Parts:
    """Of what loops are handed: other such things, in the place of arrays."""

    def __init__(self, parts):
        self.arrays = parts


def stale(live):
    """What holds other arrays than those that are used."""
    return [
        one
        for one, arrays in held(live)
        if any(kept is not used for kept, used in zip(one.arrays, arrays, strict=False))
    ]


def start():
    weights = (np.eye(5, 3, dtype=np.float32),) * 3
    return dygcn.start(Model(weights, "int64", "hashed", np.ones(5), unit=1.0))


def test_nothing_is_stale():
    """Nodes, arcs, hubs and wide rows grow a little with every update."""
    live, random, known = start(), np.random.default_rng(0), 0
    for step in range(60):
        known += int(random.integers(1, 40))
        pairs = random.integers(0, known, (int(random.choice([1, 10, 150])), 2))
        pairs[::2, 0] = step % 3
        live.update({"src": pairs[:, 0], "dst": pairs[:, 1], "t": np.full(len(pairs), float(step))})
        assert not stale(live)
    assert live.recompute().digest() == live.digest()


def test_what_is_stale_would_be_noticed():
    """The mutant: degrees are replaced, and what loops are handed is not. (None may run after it.)"""
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    sums = live._state.rule.sums[0]
    assert not stale(live)
    sums.degree = sums.degree.copy()
    assert stale(live) == [sums.arrays]
