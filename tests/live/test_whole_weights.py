"""Models whose weights are whole numbers: a grid of one, and room for hubs of more than 2^22 neighbours."""

import dataclasses
import json

import numpy as np
import pytest

import dygcn
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import read_events
from dygcn.engine.graph import ids, relations
from dygcn.engine.graph.relations import units_of
from dygcn.engine.graph.screening import find_refused
from dygcn.engine.models.model import Model
from dygcn.errors import CapacityError, DamagedFolder, EventError, OptionError
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle
from dygcn_lab.testbed.seeding import seeded, small_model
from dygcn_lab.testbed.shard_digest import digest_of_parts, part_of

WHOLE = {"grid": 1.0, "whole": True}


def whole_model(**options):
    return dataclasses.replace(small_model(**options), **WHOLE)


def batch(random, nodes, greatest):
    count = int(random.integers(1, 300))
    src, dst = random.integers(0, nodes, (2, count))
    src[random.random(count) < 0.4] = 0  # a hub
    op = np.where(random.random(count) < 0.3, -1, 1)
    weight = np.rint(2.0 ** (random.random(count) * np.log2(greatest)))
    rows = zip(src.tolist(), dst.tolist(), op.tolist(), weight.tolist(), strict=True)
    return [(a, b, 0, what, w) for a, b, what, w in rows]


def messages(live):
    """Return who is there, and the messages of every order."""
    state = live._state
    nodes = state.graph.nodes()
    return [live.ids(), *(part for k in range(3) for part in state.rule.messages(state.graph, nodes, k))]


@pytest.mark.parametrize("seed", range(12))
def test_without_weights_the_grid_changes_no_bit(seed):
    """Degree and sum scale alike, by a power of two."""
    random = np.random.default_rng(seed)
    features, directed = ["hashed", "walks"][seed % 2], seed % 3 == 0
    fine = small_model(features=features, directed=directed, seed=seed)
    one, other = dygcn.start(fine), dygcn.start(dataclasses.replace(fine, **WHOLE))
    for _ in range(6):
        events = batch(random, 90, 1)
        one.update(events), other.update(events)
        gone = random.integers(0, 90, 2).tolist()
        one.update(remove_nodes=gone), other.update(remove_nodes=gone)
        for mine, yours in zip(messages(one), messages(other), strict=True):
            np.testing.assert_array_equal(mine, yours)
        np.testing.assert_array_equal(one.vectors(), other.vectors())
    assert other.recompute().digest() == other.digest()


def play_whole(seed, greatest):
    random = np.random.default_rng(seed)
    live = dygcn.start(whole_model(directed=seed % 2 == 0, features=["hashed", "walks"][seed % 3 == 0]))
    oracle = GraphOracle(live.model.directed, grid=1.0)
    for _ in range(8):
        events = batch(random, 120, greatest)
        live.update(events)
        oracle.apply(events)
        assert set(live.ids().tolist()) == oracle.nodes()
        twin = twin_vectors(live, oracle.weights())
        np.testing.assert_allclose(live.vectors(live.ids()), twin, atol=1e-5, rtol=0)
        assert live.recompute().digest() == live.digest()


@pytest.mark.parametrize("greatest", [1, 9, 2**20, 2**30])
@pytest.mark.parametrize("seed", range(4))
def test_streams_of_whole_weights(seed, greatest):
    play_whole(seed, greatest)


def test_a_weight_that_is_not_whole_is_refused_and_nothing_is_applied():
    live = dygcn.start(whole_model())
    live.update([(1, 2), (2, 3)])
    before = live.digest()
    for weight in (0.5, 1.0 + 2**-20, 2.0**38, 1e300):
        with pytest.raises(CapacityError, match=r"row 1: .*carries whole numbers from 1 to 2\.74878e\+11"):
            live.update([(4, 5, 0, 1, 3.0), (5, 6, 0, 1, weight)])
    screened = find_refused(
        live._state.graph, read_events([(4, 5, 0, 1, 0.5), (5, 6, 0, 1, 2.0), (6, 7, 0, 1, 2.5)])
    )
    assert sorted(screened) == [0, 2]
    assert live.digest() == before
    live.update([(1, 2, 0, -1, 0.5)])  # of a remove, the weight is not looked at
    assert live.edge_count == 1


def test_rounding_instead_of_refusing_would_be_noticed():
    """The seeded bug: a weight of 1.000001 becomes 1, as it does on any other grid."""

    def rounds(graph, events):
        with seeded(graph, "whole", False):
            return units_of(graph, events)

    with seeded(relations, "units_of", rounds), pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_weight_that_is_not_whole_is_refused_and_nothing_is_applied()


@pytest.mark.parametrize(("features", "most"), [("hashed", 2**38), ("given", 2**36)])
def test_a_sum_is_refused_where_integers_end(features, most):
    table = {"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]} if features == "given" else features
    live = dygcn.fit([(1, 2), (2, 3)], dim=8, features=table, whole_weights=True)
    half = float(most // 2)
    live.update([(1, 2, 0, 1, half), (1, 3, 0, 1, half - 1)])
    assert live.recompute().digest() == live.digest()
    before = live.digest()
    with pytest.raises(CapacityError, match=r"scale the weights down and fit again$"):
        live.update([(1, 4)])
    assert live.digest() == before
    live.update([(1, 3, 0, 1, half - 2), (1, 4, 0, 1, 1.0)])
    assert live.recompute().digest() == live.digest()


def test_fit_asks_for_whole_weights():
    with pytest.raises(EventError, match=r"row 1: weight is 0\.5; with whole_weights=True"):
        dygcn.fit([(1, 2, 0, 1, 2.0), (2, 3, 0, 1, 0.5)], dim=8, whole_weights=True)
    with pytest.raises(OptionError, match="whole_weights=True does not go with memory="):
        dygcn.fit([(1, 2, 0, 1), (2, 3, 1, 1)], dim=8, memory=2.0, whole_weights=True)
    live = dygcn.fit([(1, 2, 0, 1, 2.0), (2, 3, 0, 1, 3.0), (1, 2, 0, -1, 0.5)], dim=8, whole_weights=True)
    assert (live.model.grid, live.model.whole) == (1.0, True)


@pytest.mark.parametrize("features", ["walks", "hashed"])
def test_a_fit_without_weights_gives_the_same_vectors_on_either_grid(features):
    random = np.random.default_rng(4)
    src, dst = random.integers(0, 60, (2, 400))
    events = {"src": src, "dst": dst, "t": np.arange(400) // 40}
    fine, whole = (dygcn.fit(events, dim=8, features=features, whole_weights=w) for w in (False, True))
    assert fine.model.grid == 2.0**-16
    np.testing.assert_array_equal(fine.vectors(), whole.vectors())
    pairs = random.integers(0, 60, (2, 50))
    np.testing.assert_array_equal(*(live.score(*pairs) for live in (fine, whole)))


def test_the_option_is_saved_and_other_folders_do_not_know_it(tmp_path):
    whole, fine = dygcn.start(whole_model()), dygcn.start(small_model())
    for live, name in ((whole, "whole"), (fine, "fine")):
        live.update([(1, 2), (2, 3)])
        live.save(tmp_path / name)
        settings = json.loads((tmp_path / name / "manifest.json").read_text())["settings"]
        assert ("whole_weights" in settings) == (name == "whole")
    again = dygcn.load(tmp_path / "whole")
    assert again.digest() == whole.digest()
    with pytest.raises(CapacityError, match="whole_weights"):
        again.update([(1, 4, 0, 1, 0.5)])
    dygcn.load(tmp_path / "fine").update([(1, 4, 0, 1, 0.5)])


def test_a_folder_of_whole_weights_has_a_grid_of_one(tmp_path):
    wrong = dygcn.start(dataclasses.replace(small_model(), whole=True))
    wrong.update([(1, 2)])
    wrong.save(tmp_path / "wrong")
    with pytest.raises(DamagedFolder, match="whole weights on another grid"):
        dygcn.load(tmp_path / "wrong")


@pytest.mark.parametrize("names", [int, str])
def test_more_nodes_than_a_block_of_arcs_may_hold_are_refused(names):
    live = dygcn.start(small_model("int64" if names is int else "string"))
    live.update([(names(0), names(node)) for node in range(1, 9)])
    before = live.digest()
    with seeded(ids, "GREATEST_NODES", 100), pytest.raises(CapacityError, match="one process numbers 100"):
        live.update([(names(0), names(node)) for node in range(1, 200)])
    assert live.digest() == before
    assert len(live._state.graph.ids) == len(live) == 9
    live.update([(names(0), names(node)) for node in range(1, 200)])
    assert live.recompute().digest() == live.digest()


LEAVES = (1 << 22) + 1000


def star(**options):
    """Return an embedding of narrow rows, and a hub with more leaves than the usual grid carries."""
    weights = tuple(np.eye(8, dtype=np.float32) for _ in range(3))
    live = dygcn.start(Model(weights, "int64", "hashed", np.ones(8), **options))
    return live, {"src": np.zeros(LEAVES, np.int64), "dst": np.arange(1, LEAVES + 1)}


@pytest.mark.slow
def test_a_hub_of_more_than_four_million_neighbours():
    live, events = star(**WHOLE)
    live.update(events)
    live.update(add=[(0, LEAVES + 1), (0, LEAVES + 2)], remove=[(0, 5)])  # all at the hub, one by one
    assert (len(live), live.edge_count) == (LEAVES + 2, LEAVES + 1)
    assert live.recompute().digest() == live.digest()


@pytest.mark.large
def test_the_usual_grid_refuses_such_a_hub():
    live, events = star()
    with pytest.raises(CapacityError, match="whole_weights=True gives hubs room"):
        live.update(events)
    assert len(live) == 0


@pytest.mark.parametrize("features", ["hashed", "walks"])
def test_shards_of_whole_weights_have_the_digest_of_one_process(features):
    model, random = whole_model(features=features), np.random.default_rng(3)
    live, shards = dygcn.start(model), [Shard(model, number, SlotMap.even(3), 3) for number in range(3)]
    for _ in range(6):
        events = read_events(batch(random, 90, 2**30))
        live.update(events)
        told = [shard.plan(events) for shard in shards]
        for shard in shards:
            shard.apply({other: one[shard.number] for other, one in enumerate(told) if other != shard.number})
    assert digest_of_parts(model, [part_of(shard) for shard in shards]) == live.digest()
