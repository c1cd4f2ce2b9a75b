"""The capacity model beside graphs that are cut by chance, and beside what was measured; its page."""

import copy
import dataclasses
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.errors import OptionError
from dygcn_lab.costs import capacity, capacity_page
from dygcn_lab.costs.capacity import Constants, Degrees, Demand, Machine
from dygcn_lab.costs.graphs import steady
from dygcn_lab.testbed.seeding import seeded, small_model

ROOT = Path(__file__).parents[3]
CONSTANTS = Constants(500.0, 100.0, 30.0, 4.0, 17.0, 74.0, 30.0, 3e6, 17.0, 9.0, 16.0, 4e-4, 9.0, 1e-7, 1e3)


def pairs(nodes, count, seed):
    a, b = steady(nodes, count, seed)
    both = np.stack((np.minimum(a, b), np.maximum(a, b)), 1)
    return np.unique(both[both[:, 0] != both[:, 1]], axis=0)


def apply(shards, events):
    """Apply events to shards; return the messages that have something in them."""
    told = [shard.plan(events) for shard in shards]
    for shard in shards:
        shard.apply({other: one[shard.number] for other, one in enumerate(told) if other != shard.number})
    return [message for one in told for message in one.values() if len(message.node) + len(message.new)]


def run_shards(counts, batch):
    """Return a graph that was loaded and changed, shards of it, and what was told and should have been."""
    edges, random = pairs(1_500, 9_000, 1), np.random.default_rng(2)
    loaded = read_events(edges[random.permutation(len(edges))[:6_000]])
    graph, model = Graph("int64"), small_model()
    many = {
        count: [Shard(model, number, SlotMap.even(count), count) for number in range(count)]
        for count in counts
    }
    apply_batch(graph, loaded)
    for shards in many.values():
        apply(shards, loaded)
    guess, found = (dict.fromkeys(counts, capacity.Told()) for _ in range(2))
    for _ in range(12):
        chosen, op = edges[random.integers(0, len(edges), batch)], random.choice([-1, 1], batch)
        events = read_events({"src": chosen[:, 0], "dst": chosen[:, 1], "op": op})
        delta = apply_batch(graph, events)
        touched = capacity_page.touched_by(delta, graph)
        graph.release(delta.left)
        for count, shards in many.items():
            guess[count] += capacity.told_of(touched, count)
            told = apply(shards, events)
            changes, first = (sum(len(getattr(one, name)) for one in told) for name in ("change", "degree"))
            found[count] += capacity.Told(changes, first, len(told))
    return graph, many, guess, found


def check_told(batch):
    _, _, guess, found = run_shards([2, 4, 8], batch)
    for shards, told in found.items():
        for name in ("changes", "first_rows", "messages"):
            count = getattr(told, name)
            right = pytest.approx(count, rel=0.02, abs=4 * math.sqrt(count))
            assert getattr(guess[shards], name) == right, name


@pytest.mark.parametrize("batch", [4, 300])
def test_what_shards_tell_each_other_follows_from_degrees(batch):
    """Within what chance allows: who owns a node is decided by a hash."""
    check_told(batch)


def test_a_wrong_chance_would_be_noticed():
    """The seeded bug: a shard is told of changes at nodes whose other end it owns, too."""
    right = capacity._kept
    with (
        seeded(capacity, "_kept", lambda b, a, u, g: right(b + 1, a + 1, u + 1, g) / g),
        pytest.raises(AssertionError, match="changes"),
    ):
        check_told(300)


def test_mirrors_and_arcs_follow_from_degrees():
    graph, many, *_ = run_shards([1, 2, 4, 8], 50)
    degrees = Degrees.of(graph.pull.count[graph.nodes()].astype(np.int64))
    for count, shards in many.items():
        mirrors = sum(len(ids) for shard in shards for ids in shard.mirrors().values())
        arcs = sum(int(shard.graph.pull.count.sum()) for shard in shards)
        assert capacity.mirrors(degrees, count) == pytest.approx(mirrors, rel=0.03)
        assert capacity.arcs_held(degrees.arcs, count) == pytest.approx(arcs, rel=0.03)


def test_additions_are_those_that_were_measured():
    scale = msgspec.json.decode((ROOT / capacity_page.SCALE).read_bytes())
    (row,) = (one for one in scale["rows"] if one["graph"] == "steady-100000-1000000")
    degrees = Degrees.of(np.bincount(pairs(100_000, 1_000_000, 0).ravel()))
    assert capacity.additions(degrees, 1) == pytest.approx(row["rows_of_a_single_edge"], rel=0.1)
    assert capacity.additions(degrees, row["events"]) == pytest.approx(row["additions_per_event"], rel=0.1)


def test_degrees_of_a_power_law_are_what_was_asked_for():
    for nodes, arcs, greatest in ((1e9, 2e11, 1e8), (1e8, 2e9, 5e3), (1e3, 1.5e3, 10.0)):
        degrees = Degrees.power_law(nodes, arcs, greatest)
        assert degrees.nodes.sum() == pytest.approx(nodes)
        assert degrees.arcs == pytest.approx(arcs, rel=1e-3)
        assert degrees.degree.max() <= greatest
    with pytest.raises(OptionError, match=r"0\.5 arcs a node"):
        Degrees.power_law(10, 5, 3)


def test_more_shards_cost_more_memory_and_the_fewest_are_taken():
    degrees = Degrees.power_law(1e9, 2e11, 5e3)
    demand, machine = Demand(degrees, 1e4), Machine()
    found, reason = capacity.fewest(demand, CONSTANTS, machine)
    assert reason == ""
    fewer = capacity.needs(demand, CONSTANTS, machine, found.shards // 2)
    assert capacity.why_not(fewer, demand, CONSTANTS, machine)
    assert sum(fewer.memory) < sum(found.memory)
    assert found.machines >= math.ceil(sum(found.memory) / (machine.memory * machine.filled))
    found, reason = capacity.fewest(Demand(degrees, 1e9), CONSTANTS, machine)
    assert found is None
    assert reason.startswith("additions up to")
    assert reason.endswith("messages up to 4,096 shards")


def test_messages_and_the_front_are_counted():
    """What cost nothing in the model was too little of in the clusters: see the numbers by hand."""
    demand, machine = Demand(Degrees.power_law(1e6, 2e7, 1e3), 1e4), Machine()
    found = capacity.needs(demand, CONSTANTS, machine, 128)
    assert found.messages * CONSTANTS.message_seconds == pytest.approx(127 * 10 * 4e-4)
    assert found.moved == min(capacity.additions(demand.degrees, 1_000), found.own / 1_000)
    assert capacity.front_lacks(found, demand, CONSTANTS, machine) == ""
    slow = dataclasses.replace(CONSTANTS, moved_seconds=1.01 / (1e4 * found.moved))
    assert capacity.front_lacks(found, demand, slow, machine) == "the front: moved ids"
    assert capacity.why_not(found, demand, CONSTANTS, machine) == ""
    slow = dataclasses.replace(CONSTANTS, message_seconds=1.01 / (127 * 10))
    assert capacity.why_not(found, demand, slow, machine) == "messages"


def run(name, nodes, *lines):
    """Return a run in which everything costs what CONSTANTS say, and exact predictions of it."""
    rows, guesses = [], []
    for shards, mirrors, *counts in lines:
        told = dict(zip(("changes", "first_rows", "messages"), counts, strict=True))
        carried = capacity.bytes_told(CONSTANTS, capacity.Told(*counts))
        said = {f"{one}_an_event": value for one, value in (told | {"bytes": carried}).items()}
        rows.append(
            {"shards": shards, "mirrors_a_node": mirrors / nodes, "rows_a_shard": 40 / shards, **said}
        )
        guesses.append({"mirrors": mirrors, "rows": 40, **told})
    return {"dataset": name, "batch": 10, "nodes": nodes, "rows": rows}, {"rows": guesses}


RUNS, GUESSES = zip(
    run("a", 10, (1, 0, 0, 0, 0), (2, 9, 1, 2, 0.1)),
    run("b", 99, (2, 50, 3, 1, 0.2), (4, 80, 5, 1, 0.9)),
    strict=True,
)
HELD = {"lists": 1240, "ids": 100, "marks": 50, "order 1": 50, "order 2": 4000, "arcs": 1000, "hubs": 200}
LARGE = {
    "nodes": 10,
    "edges": 20,
    "shards": 2,
    "batches": 1,
    "batch": 1,
    "parts": {"bytes": HELD | {"holders": 140}},
    "counts": {"own": 10, "mirrors": 5, "arcs of own": 30, "arcs of mirrors": 10},
}
PREDICTED = {"runs": GUESSES, "large": [{"own": 10, "mirrors": 5, "arcs": 40}]}
SPEED = {"rows": [{"events_per_second": 1e4, "additions_per_event": 300.0}]}
DISK = {"log_bytes_per_event": 17.0, "bytes_per_node": 9.0, "bytes_per_edge": 16.0}
FRONT = {
    "messages": {"cpu_us": 400.0},
    "moved": {"bytes": 9.0, "ns": 100.0},
    "default_model": {"front_bytes_a_node": 1e3},
}


def test_constants_are_found_again():
    found = capacity_page.read_constants(RUNS, [LARGE], SPEED, DISK, FRONT)
    np.testing.assert_allclose(dataclasses.astuple(found), dataclasses.astuple(CONSTANTS), rtol=1e-6)


def test_a_prediction_is_compared_with_what_was_measured():
    text = capacity_page.checked_table(RUNS, [LARGE], PREDICTED, CONSTANTS)
    assert text.endswith("22 of 22 are within 20 %.")
    wrong = copy.deepcopy(PREDICTED)
    wrong["runs"][1]["rows"][1]["mirrors"] *= 2
    wrong["large"][0]["own"] *= 2
    text = capacity_page.checked_table(RUNS, [LARGE], wrong, CONSTANTS)
    assert text.endswith("20 of 22 are within 20 %.")


def test_a_graph_of_a_law_is_predicted_from_it():
    found = capacity_page.predict_large(LARGE | {"nodes": 2000, "edges": 20_000, "shards": 4})
    ends = (2000 * np.random.default_rng(1).random((20_000, 2)) ** 2.5).astype(np.int64)
    edges = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    degrees = Degrees.of(np.bincount(edges.ravel()))
    assert found["own"] == pytest.approx(degrees.nodes.sum(), rel=0.02)
    assert found["mirrors"] == pytest.approx(capacity.mirrors(degrees, 4), rel=0.03)


def test_a_data_set_is_replayed_as_it_was_cut():
    """Without shards between them, all that is told is nothing, and all rows are those of one process."""
    line = {"shards": 1, "changes_an_event": 0.0, "rows_of_one_process": 7}
    for batch in (None, 50):
        case = {"dataset": "hepth-collab", "batch": batch, "counted": 0.1, "half_life": 3.0, "rows": [line]}
        (found,) = capacity_page.predict(case)["rows"]
        assert (found["changes"], found["mirrors"], found["rows"]) == (0, 0, 7)
        assert found["arcs"] > found["own"] > 0


def test_the_page_is_current():
    assert capacity_page.page(ROOT) == (ROOT / capacity_page.PAGE).read_text(encoding="utf-8")


def test_every_size_has_a_line():
    machine = Machine()
    for table, lines in ((capacity_page.memory_table, 6), (capacity_page.rates_table, 18)):
        assert table(CONSTANTS, machine).count("nodes, 1") == lines
