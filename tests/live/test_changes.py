import numpy as np
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn.engine.propagation import influence
from dygcn.engine.training.matrices import starting_matrices
from dygcn.errors import EventError, OptionError, StaleChange, UnknownNode
from dygcn_lab.testbed.graphs import GRAPHS, random_events


def start(orders=2, width=32, dim=8, kind="int64", **settings):
    return dygcn.start(
        Model(starting_matrices(width, dim, orders, 0), kind, "hashed", np.ones(width), **settings)
    )


def messages(live):
    state = live._state
    nodes = state.graph.nodes()
    rows = [state.rule.messages(state.graph, nodes, k) for k in range(live.model.orders + 1)]
    return {
        node: [(has[i], message[i].tobytes()) for message, has in rows]
        for i, node in enumerate(live.ids().tolist())
    }


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("orders", [1, 2, 3])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
def test_only_what_moved_and_at_which_order(shape, orders, directed):
    """`ids` is exactly the set of nodes with another message, each at its lowest order, inside V_1..V_K."""
    live = start(orders, directed=directed)
    events = random_events(shape, seed=3, nodes=30)
    for at in range(0, len(events), 4):
        before = messages(live)
        change = live.update(events[at : at + 4])
        after = messages(live)
        expected = {}
        for node, rows in after.items():
            old = before.get(node, [(0, b"")] * (orders + 1))
            if node not in before:
                expected[node] = 1
            elif rows != old:
                expected[node] = next(k for k in range(orders + 1) if rows[k] != old[k])
        assert dict(zip(change.ids.tolist(), change.orders.tolist(), strict=True)) == expected
        assert directed or change.rows >= len(change)
        ends = {node for event in events[at : at + 4] for node in event[:2]}
        touched = live._state.graph.ids.find(dygcn.engine.events.id_column(sorted(ends & set(after))))
        reach = influence(live._state.graph, touched, orders)
        reached = set(np.concatenate(reach.orders).tolist())
        gone = {node for node in before if node not in after}
        if not gone:
            assert set(change._nodes.tolist()) <= reached


def test_no_effect_moves_nothing():
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    digest = live.digest()
    for change in (
        live.update(add=[(2, 1)]),
        live.update(remove=[(1, 3)]),
        live.update([(1, 9, 0, 1), (1, 9, 0, -1)]),
        live.update([]),
        live.update(),
        live.update(add=[(5, 5)]),
    ):
        assert len(change) == 0
        assert change.ids.tolist() == []
    assert live.digest() == digest
    assert live.version == 7


def test_an_edge_between_twins_that_average_the_same_moves_only_what_changed():
    """A change of degree alone pushes nothing when the message on the grid is the same."""
    live = start(orders=3)
    live.update({"src": [1, 2, 3], "dst": [2, 3, 4], "weight": [2.0, 2.0, 2.0]})
    change = live.update({"src": [1, 2, 3], "dst": [2, 3, 4], "weight": [4.0, 4.0, 4.0]})
    assert len(change) == 0
    assert change.rows > 0


def test_vectors_of_a_change_and_staleness():
    live = start()
    first = live.update(add=[(1, 2), (2, 3)])
    np.testing.assert_array_equal(first.vectors, live.vectors(first.ids))
    ids = first.ids.tolist()
    live.update(remove=[(1, 2), (2, 3)])
    live.update(add=[(7, 8), (8, 9)])
    assert first.ids.tolist() == ids
    with pytest.raises(StaleChange, match="version 1, the embedding is at 3"):
        _ = first.vectors


def test_ids_of_an_old_change_survive_recycling_without_having_been_read():
    live = start(kind="string")
    change = live.update(add=[("ann", "bob")])
    live.update(remove=[("ann", "bob")])
    live.update(add=[("cat", "dan")])
    assert sorted(change.ids) == ["ann", "bob"]


def test_one_row_alone_equals_the_same_row_among_many():
    live = start(width=256, dim=128)
    live.update(random_events("hub", 0, nodes=200))
    ids = live.ids()
    together = live.vectors(ids)
    alone = np.stack([live.vector(int(node)) for node in ids])
    assert together.tobytes() == alone.tobytes()
    assert live.vectors(ids[::-1]).tobytes() == together[::-1].tobytes()


class Unwritable:
    def __repr__(self):
        raise RuntimeError("on purpose")


def test_lookups_and_their_errors():
    live = start(kind="string")
    live.update(add=[("ann", "bob"), ("bob", "cat")])
    assert live["ann"].dtype == np.float32
    assert ("ann" in live, "zed" in live, 7 in live, None in live) == (True, False, False, False)
    for unknown in ("zed", 7, 1.5, None):
        with pytest.raises(KeyError):
            live[unknown]
    with pytest.raises(UnknownNode, match="'zed' is not in the graph now"):
        live.vectors(["ann", "zed"])
    for unwritable in (10**5000, Unwritable()):
        with pytest.raises(UnknownNode, match=r"<.*> is not in the graph now"):
            live[unwritable]
    with pytest.raises(OptionError, match="one id"):
        live.vectors("ann")
    with pytest.raises(OptionError, match="model is 'a/folder'"):
        dygcn.start("a/folder")
    assert live.vectors([]).shape == (0, 8)
    with pytest.raises(OptionError, match="not both"):
        live.update([("a", "b")], add=[("a", "b")])
    with pytest.raises(EventError, match="one type a graph"):
        live.update(add=[(1, 2)])


def test_nearest_and_score():
    live = start(dim=16)
    live.update(random_events("sparse", 1, nodes=60))
    ids = live.ids().tolist()
    z = live.vectors(ids).astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    me = ids[4]
    expected = sorted(((-float(z[4] @ row), node) for node, row in zip(ids, z, strict=True) if node != me))
    found = live.nearest(me, k=7)
    assert [node for node, _ in found] == [node for _, node in expected[:7]]
    np.testing.assert_allclose(
        [score for _, score in found], [-score for score, _ in expected[:7]], atol=1e-6
    )
    assert found[0][1] == live.score(me, found[0][0])
    assert {node for node, _ in live.nearest(me, k=99, among=ids[:6])} == set(ids[:6]) - {me}
    live.update(remove=[(me, found[0][0])])
    live.update(add=[(me, 999)])
    again = dict(live.nearest(me, k=len(live)))
    assert set(again) == set(live.ids().tolist()) - {me}
    assert all(again[node] == live.score(me, node) for node in list(again)[:20])
    with pytest.raises(OptionError, match="k is 0"):
        live.nearest(me, k=0)


def test_ties_are_broken_by_id():
    live = start()
    live.update(add=[(50, leaf) for leaf in (9, 3, 7, 1)])
    weights = tuple(np.zeros_like(w) if k == 0 else w for k, w in enumerate(live.model.weights))
    twins = dygcn.LiveEmbedding(live._state)
    twins._state.model = Model(weights, "int64", "hashed", np.ones(32))
    assert [node for node, _ in twins.nearest(3, k=3)] == [1, 7, 9]


def test_arrow_out():
    live = start(dim=8)
    live.update(add=[(3, 1), (1, 2)])
    table = live.to_arrow()
    assert table.column("id").to_pylist() == [1, 2, 3]
    np.testing.assert_array_equal(np.stack(table.column("vector").to_numpy()), live.vectors([1, 2, 3]))
    assert live.to_arrow([2]).num_rows == 1
    assert len(live.to_arrow().to_pandas()) == 3


def test_huge_batches_are_whole():
    """All or nothing, one net effect: an edge that comes and goes inside one moves nobody."""
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    digest = live.digest()
    middle = [(1, 2, 0, 1)] * 140_000
    change = live.update([(1, 9, 0, 1), *middle, (1, 9, 0, -1)])
    assert len(change) == 0
    assert live.digest() == digest
    heavy = [(5, 100 + i, 0, 1, 2.0**20) for i in range(3)]
    padded = [(*event, 1.0) for event in middle]
    with pytest.raises(EventError):
        live.update([(7, 8, 0, 1, 1.0), *padded, *heavy, (1, 2, 0, 1, 1e30)])
    assert live.digest() == digest
    assert 7 not in live
