"""Messages that are pulled at reads: the same bits as if all had been pushed at updates."""

import copy
import os
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import dygcn
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph.tiers import exact_tiers, is_pushed
from dygcn.engine.models.model import Model, order_weights
from dygcn.engine.propagation import exact, set_threads, spreading, sums
from dygcn.live.shared.sharing import SharedRows, can_share
from tests.seeded import assert_noticed

KINDS = "hashed", "walks", "given"
WIDTH = 6


@contextmanager
def heavy_from(bound):
    """Have embeddings that are made in a block call nodes heavy from so many arcs on."""
    before = os.environ.get("DYGCN_HEAVY_FROM")
    os.environ["DYGCN_HEAVY_FROM"] = str(bound)
    try:
        yield
    finally:
        del os.environ["DYGCN_HEAVY_FROM"]
        if before is not None:
            os.environ["DYGCN_HEAVY_FROM"] = before


def model_of(random, kind, nodes):
    directed, half_life = bool(random.integers(2)), [None, None, 3.0][random.integers(3)]
    weights = tuple(random.standard_normal((WIDTH, 4)).astype(np.float32) for _ in range(3))
    about = {"directed": directed, "half_life": half_life, "grid": [2.0**-16, 1.0][random.integers(2)]}
    if kind == "walks":
        known = np.flatnonzero(random.random(nodes) < 0.8)  # some have no row, so no message either
        ids = dygcn.engine.events.id_column(known.tolist() or [0])
        rows = random.standard_normal((max(len(known), 1), WIDTH)).astype(np.float32)
        return Model(
            order_weights(2),
            "int64",
            kind,
            np.ones(WIDTH),
            table=RowTable.of(ids, rows),
            **about,
        )
    return Model(weights, "int64", kind, np.ones(WIDTH), 5, **about)


def batches(random, model, nodes, steps):
    """Yield updates: single edges and many, with few hubs, of which some lose all edges again."""
    clock, skew = 0.0, float(random.choice([1.0, 2.0, 4.0]))
    for _ in range(steps):
        clock += float(random.random())
        count = int(random.choice([1, 1, 2, 7, 60]))
        ends = (nodes * random.random((2, count)) ** skew).astype(int)
        ends[1] = np.where(random.random(count) < 0.5, random.integers(0, nodes, count), ends[1])
        op = np.where(random.random(count) < random.choice([0.3, 0.6, 0.9]), 1, -1)
        events = {"src": ends[0], "dst": ends[1], "op": op}
        if model.half_life is not None:
            events["t"] = np.full(count, clock)
        if random.random() < 0.3:
            events["weight"] = random.integers(1, 4, count)
        yield events, random.integers(0, nodes, 2).tolist() if random.random() < 0.15 else []


def check_blocks(live):
    """Tiers and the order of the arcs are what the definition says."""
    check_tiers(live._state.graph, live._state.exact)


def check_tiers(graph, rule):
    high = graph.ids.high
    for arcs in (graph.pull, graph.push):
        for node in range(high):
            others = arcs.others[arcs.start[node] :][: arcs.count[node]]
            upper = graph.tiers[others] >= max(graph.tiers[node], 1)
            assert upper[: arcs.upper[node]].all()
            assert not upper[arcs.upper[node] :].any()
    count = np.maximum(graph.pull.count, graph.push.count)[:high]
    tiers, bound = graph.tiers[:high], rule.heavy_from
    assert (count < bound << tiers.astype(np.int64)).all()
    assert ((tiers == 0) | (4 * count.astype(np.int64) >= bound << tiers.astype(np.int64))).all()
    slots = rule._heavy.rows.arrays.slot[:high]
    assert ((slots >= 0) == (tiers > 0)).all()
    hubs = np.flatnonzero(tiers).astype(np.int32)
    rows, has = rule.messages(graph, hubs, 1)
    np.testing.assert_array_equal(rule._heavy.rows.arrays.rows[slots[hubs]], rows)
    np.testing.assert_array_equal(rule._heavy.rows.arrays.has[slots[hubs]], has)


def check_same(live, twin):
    assert live.digest() == twin.digest()
    if len(live):
        np.testing.assert_array_equal(live.vectors(), twin.vectors())
        some = live.ids()[:3]
        for node in some.tolist():
            np.testing.assert_array_equal(live[node], twin[node])


def agree(seed, bound=None, steps=25, nodes=None):
    """Play the same updates with tiers and without; return how many nodes were heavy in the end."""
    random = np.random.default_rng(seed)
    bound = int(random.choice([2, 3, 4, 8, 32])) if bound is None else bound
    nodes = int(random.integers(8, 90)) if nodes is None else nodes
    kind = KINDS[seed % 3]
    model = model_of(random, kind, nodes)
    with heavy_from(bound):
        live = dygcn.start(model)
    with heavy_from("inf"):
        twin = dygcn.start(model)
    for step, (events, gone) in enumerate(batches(random, model, nodes, steps)):
        values = random.standard_normal((2, WIDTH)).astype(np.float32)
        before = {}
        if step % 4 == 1 and len(live):
            before = dict(zip(live.ids().tolist(), live.vectors(), strict=True))
        changes = [each.update(events) for each in (live, twin)]
        assert changes[0].left.tolist() == changes[1].left.tolist()
        listed = set(changes[0].ids.tolist())
        assert listed >= set(changes[1].ids.tolist())
        if before:
            for node, vector in zip(live.ids().tolist(), live.vectors(), strict=True):
                assert node in listed or np.array_equal(before[node], vector)
        for each in (live, twin):
            if gone:
                each.update(remove_nodes=gone)
            if kind == "given" and step % 5 == 0:
                each.set_features([0, 1], values)
        if step % 3 == 0 or step == steps - 1:
            check_same(live, twin)
        if step % 8 == 0 or step == steps - 1:
            check_blocks(live)
    assert live.recompute().digest() == live.digest()
    return int((live._state.graph.tiers > 0).sum())


@pytest.mark.parametrize("seed", range(60))
def test_pulled_and_pushed_messages_give_the_same_bits(seed):
    agree(seed)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(6))
def test_the_same_at_the_bound_that_is_the_default(seed):
    agree(seed, bound=sums.HEAVY_FROM, nodes=700, steps=120)


def test_the_tiers_are_those_of_the_definition():
    counts = np.arange(1, 5000)
    tiers = exact_tiers(counts, 4)
    assert all((tier == 0) == (count < 4) for count, tier in zip(counts, tiers, strict=True))
    heavies = tiers > 0
    low = 4 << (tiers[heavies].astype(int) - 1)
    assert ((low <= counts[heavies]) & (counts[heavies] < 2 * low)).all()
    senders, receivers = np.array([0, 0, 1, 1, 2]), np.array([0, 3, 1, 2, 1])
    assert is_pushed(senders, receivers).tolist() == [True, True, False, True, False]


def star(bound, spokes, **about):
    with heavy_from(bound):
        live = dygcn.start(
            Model((np.eye(WIDTH, dtype=np.float32),) * 3, "int64", "hashed", np.ones(WIDTH), **about)
        )
    live.update(
        [(0, spoke) for spoke in range(1, spokes + 1)] + [(spoke, spoke + 1) for spoke in range(1, spokes)]
    )
    return live


@pytest.mark.parametrize("boundary", [4, 8, 16, 32, 64])
def test_an_edge_that_comes_and_goes_at_a_boundary_changes_the_tier_once(boundary, monkeypatch):
    live = star(4, boundary - 1)
    changes, whole = [], exact.set_tiers
    monkeypatch.setattr(exact, "set_tiers", lambda *given: changes.append(given) or whole(*given))
    for _ in range(20):
        live.update(add=[(0, boundary)])
        assert live.digest() == live.recompute().digest()
        live.update(remove=[(0, boundary)])
    live.update(add=[(0, boundary)])
    assert len([given for given in changes if 0 in given[1]]) <= 1 + 21  # recompute divides anew, by itself
    assert len([1 for _, nodes, _ in changes if len(nodes) == 1 and nodes[0] == 0]) <= 2


def test_an_event_at_a_hub_adds_to_few_rows():
    """However great the hub: among light spokes, to those of the edge's ends alone."""
    rows = []
    for spokes in (300, 3000):
        live = star(16, spokes)
        rows.append(live.update(add=[(0, spokes + 5)]).rows)
    assert rows[0] == rows[1] < 20


@pytest.mark.parametrize("seed", range(4))
def test_a_trial_changes_no_tier_and_no_bit(seed):
    random = np.random.default_rng(seed)
    live = star(4, 30, directed=bool(seed % 2))
    live.update([(int(a), int(b)) for a, b in random.integers(0, 30, (60, 2))])
    tiers, digest = live._state.graph.tiers.copy(), live.digest()
    kept = {node: live[node] for node in live.ids().tolist()}
    added = [(0, 100 + at) for at in range(200)]
    removed = [(0, spoke) for spoke in range(1, 29)]
    with live.what_if(add=added, remove=removed, remove_nodes=[3]) as trial:
        assert len(trial.changes[0]) > 200
        vectors = trial.vectors()
    again = copy.deepcopy(live)
    again.update(add=added, remove=removed)
    again.update(remove_nodes=[3])
    np.testing.assert_array_equal(vectors, again.vectors())
    assert live.digest() == digest
    np.testing.assert_array_equal(live._state.graph.tiers[: len(tiers)], tiers)
    for node, vector in kept.items():
        np.testing.assert_array_equal(live[node], vector)
    check_blocks(live)


def test_vectors_that_were_kept_are_read_again_when_a_hub_moved():
    """Also if the hub is light when they are read, and was heavy when it moved."""
    live = star(4, 40)
    kept = live.vectors()  # fills no cache
    for node in live.ids().tolist():
        live[node]
    live.update(add=[(0, 50)])
    live.update(remove=[(0, spoke) for spoke in range(5, 41)])
    live.update(remove=[(0, spoke) for spoke in range(2, 5)] + [(0, 50)])
    assert live._state.graph.tiers[live._state.graph.find_one(0)] == 0
    for node in live.ids().tolist():
        np.testing.assert_array_equal(live[node], live.vectors([node])[0])
    assert len(kept) >= len(live)


def test_a_saved_folder_does_not_depend_on_tiers(tmp_path):
    live = star(4, 30)
    live.save(tmp_path / "live")
    with heavy_from("inf"):
        loaded = dygcn.load(tmp_path / "live")
    assert not loaded._state.graph.tiers.any()
    assert loaded.digest() == live.digest()
    with heavy_from(2):
        assert dygcn.load(tmp_path / "live").digest() == live.digest()


def test_threads_and_spans_do_not_matter(monkeypatch):
    monkeypatch.setattr(spreading, "SHARED", 1)
    set_threads(3)
    try:
        for seed in range(6):
            agree(seed, bound=3)
    finally:
        set_threads(None)


def interrupt(live, change, line):
    """Make a change, interrupted at a line of the code that settles tiers; return whether it came so far."""
    files = "tiers.py", "sums.py", "exact.py"
    count = 0

    def trace(frame, event, _):
        nonlocal count
        name = frame.f_code.co_name
        if not frame.f_code.co_filename.endswith(files) or name in ("__init__", "__reduce__"):
            return None if event == "call" and not frame.f_code.co_filename.endswith(files) else trace
        if event == "line":
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return trace

    known = sys.gettrace()
    sys.settrace(trace)
    try:
        live.update(**change)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(known)
    return False


@pytest.mark.large
@pytest.mark.parametrize(
    "change", [{"add": [(0, 40), (0, 41)]}, {"remove": [(0, spoke) for spoke in range(2, 15)]}]
)
def test_an_interrupt_at_any_line_of_a_flip_leaves_what_can_be_healed(change):
    """With all of the change, or with nothing of it."""
    before = star(4, 15)
    after = copy.deepcopy(before)
    after.update(**change)
    assert (before._state.graph.tiers[:1] != after._state.graph.tiers[:1]).all()
    digests, line = {before.digest(), after.digest()}, 0
    while True:
        line += 1
        live = copy.deepcopy(before)
        if not interrupt(live, change, line):
            break
        healed = live.recompute()
        assert healed.digest() in digests, line
        healed.update(add=[(0, 60)])
        assert healed.digest() == healed.recompute().digest()
        check_blocks(healed)
    assert line > 50


MUTANTS = {
    "a row of a flip is left out": (
        "graph.tiers",
        "turned = np.flatnonzero(was != will)",
        "turned = np.flatnonzero(was != will)[:-1]",
    ),
    "a flip looks at nobody whom it hears": (
        "graph.tiers",
        "rest = ~np.isin(other, nodes)  # those between two of the nodes are listed already",
        "rest = np.zeros(len(other), bool)",
    ),
    "a cached message is stale": (
        "propagation.pulling",
        "add_row(heavy.rows, at, frontier.table, frontier.row[i], 1)",
        "pass",
    ),
    "a pulled neighbour without a message counts": (
        "propagation.pulling",
        "degree += (weight if weight > 0 else -weight) * heavy.has[at]",
        "degree += weight if weight > 0 else -weight",
    ),
    "what changes over a pulled arc is pushed": ("propagation.gathering", "change = 0", "pass"),
    "an arc stays where it was when its end is heavy": (
        "graph.arcs",
        "if slot >= 0 and wanted != (slot < arcs.upper[node]):",
        "if False:",
    ),
    "an arc to a heavy node is written behind the others": (
        "graph.arcs",
        "if is_upper(arcs, node, other):",
        "if False:",
    ),
    "who pulls is not listed when a hub moves": (
        "propagation.pulling",
        "if push.count[frontier.nodes[i]] > 0:",
        "if False:",
    ),
}


def hunt():
    for seed in range(30):
        agree(seed, steps=12, nodes=20, bound=2 + seed % 3)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_seeded_bug_would_be_noticed(mutant, tmp_path):
    module, line, wrong = MUTANTS[mutant]
    assert_noticed(tmp_path, f"dygcn.engine.{module}", line, wrong, hunt)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="rows are shared on Linux")
def test_heavy_nodes_are_heavy_where_other_processes_read():
    """Arcs and messages lie in shared memory then, those of nodes that come later, too."""
    live = star(4, 60)
    digest = live.digest()
    for node in live.ids().tolist():
        live[node]
    if not can_share(live._state):
        pytest.skip("loops are not compiled")
    rows = SharedRows(live._state, lambda: 1)
    try:
        assert live._state.graph.tiers.any()
        assert live.digest() == digest
        random = np.random.default_rng(0)
        for _ in range(20):
            live.update(add=[(int(a), int(b)) for a, b in random.integers(0, 3_000, (100, 2)) if a != b])
            assert live._state.graph.tiers.any()
        assert live.digest() == live.recompute().digest()
        for node in live.ids()[:50].tolist():
            np.testing.assert_array_equal(live[node], live.vectors([node])[0])
    finally:
        rows.close()


def test_without_hubs_only_what_moved_is_listed():
    live = dygcn.start(Model((np.eye(WIDTH, dtype=np.float32),) * 3, "int64", "given", np.ones(WIDTH)))
    live.set_features([1, 2], np.ones((2, WIDTH), np.float32))
    live.update(add=[(1, 2), (2, 3), (3, 4)])
    before = {node: live[node] for node in live.ids().tolist()}
    change = live.update(add=[(4, 5)])
    moved = {node for node in before if not np.array_equal(before[node], live[node])}
    assert set(change.ids.tolist()) - {5} == moved
