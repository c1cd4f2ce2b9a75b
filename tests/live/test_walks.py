"""Walk models: rows are a part of the model, newcomers start as their neighbours, nothing is ever lost."""

import copy
import shutil

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import Walks
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.training import Recipe, fitting
from dygcn.engine.training.fitting import with_rows
from dygcn.errors import FeatureError, OptionError
from dygcn.live.durable.storage.layout import list_snapshots
from dygcn_lab.testbed.crafted import names_of_one_key
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.seeding import seeded, small_model


def communities(seed=0, size=30, links=160):
    """Return edges inside of two halves of the nodes, as (a, b, t)."""
    random = np.random.default_rng(seed)
    sides = random.integers(0, 2, links)
    pairs = random.integers(0, size, (links, 2)) + size * sides[:, None]
    return [(int(a), int(b), t) for t, (a, b) in enumerate(pairs) if a != b]


def fitted(**options):
    return dygcn.fit(communities(), dim=16, columns=("src", "dst", "t"), **options)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_the_default_knows_communities():
    live = fitted()
    assert live.model.features == "walks"
    assert (live.model.width, live.model.dim, live.model.matrices["W2"].tolist()) == (16, 16, [[0.5]])
    vectors = live.vectors(range(60))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    alike = vectors @ vectors.T
    assert alike[:30, :30].mean() > alike[:30, 30:].mean() + 0.2


def test_rows_are_written_in_eight_bits():
    live = fitted()
    x = live.features(range(60))
    scale = live.model.table.scale
    np.testing.assert_array_equal(x, np.rint(x * 128 / scale) / 128 * scale)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=0.05)


def test_a_small_graph_has_columns_of_zeros():
    live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    x = live.features(["ann", "bob", "cat"])
    assert x.shape == (3, 8)
    assert not x[:, 3:].any()


@pytest.mark.parametrize("events", [[(1, 2), (2, 3), (1, 3)], [(1, 2, 5), (2, 3, 5), (1, 3, 5)]])
def test_a_graph_without_history_has_rows(events):
    live = dygcn.fit(events, dim=4, columns=("src", "dst", "t")[: len(events[0])])
    assert len(live.model.table) == 3
    assert live.unreached == 0


def test_a_newcomer_starts_as_its_neighbours():
    live = fitted()
    live.update(add=[(1, 900), (2, 900)])
    assert np.isnan(live.features([900])).all()
    first = (live.features([1]) + live.features([2]))[0] / 2
    h = live.features(range(60))
    edges = {(a, b) for a, b, _ in communities()}
    around = [sorted({b for a, b in edges if a == n} | {a for a, b in edges if b == n}) for n in (1, 2)]
    second = np.mean([np.mean(h[some], axis=0) for some in around], axis=0)  # the newcomer is left out
    np.testing.assert_allclose(live[900], unit(unit(first) + 0.5 * unit(second)), atol=2e-6)


def test_a_newcomer_far_from_all_rows_has_signs_that_nobody_is_sent():
    live = fitted()
    live.update(add=[(900, 901), (901, 902)])
    assert live.unreached == 3
    assert set(np.unique(np.abs(live.vectors([900, 901, 902])))) == {np.float32(0.25)}
    assert abs(float(live[900] @ live[901])) < 0.9  # drawn from the id, not from each other
    before = live[900]
    live.update(add=[(902, 903)])
    np.testing.assert_array_equal(live[900], before)
    live.update(add=[(1, 900)])
    assert live.unreached == 2  # 902 and 903 are more than two steps away from the nearest row
    assert live.digest() == live.recompute().digest()


def test_a_node_that_leaves_and_returns_has_its_row_again():
    live = fitted()
    digest, vector = live.digest(), live[1].copy()
    around = [(a, b) for a, b, _ in communities() if 1 in (a, b)]
    change = live.update(remove=around)
    assert 1 not in live
    assert 1 in change.left
    live.update(add=[(5000, 5001), (5001, 5002)])  # they take the places of who left
    live.update(remove=[(5000, 5001), (5001, 5002)])
    live.update(add=around[::-1])
    np.testing.assert_array_equal(live[1], vector)
    assert live.digest() == digest


def test_removing_a_node_leaves_its_row_and_without_takes_it():
    live = fitted()
    row = live.features([1])
    live.update(remove_nodes=[1])
    live.update(add=[(1, 2)])
    np.testing.assert_array_equal(live.features([1]), row)
    other = dygcn.start(live.model.without([1, 7777]))
    other.update(add=[(1, 2)])
    assert np.isnan(other.features([1])).all()
    assert len(other.model.table) == len(live.model.table) - 1
    with pytest.raises(FeatureError, match="no rows of its own"):
        dygcn.fit(communities(), columns=("src", "dst", "t"), dim=4, features="hashed").model.without([1])


def test_a_model_that_is_started_has_its_rows():
    live = fitted()
    other = dygcn.start(live.model)
    other.update(add=[(a, b) for a, b, _ in communities()][::-1])
    np.testing.assert_array_equal(other.vectors(range(60)), live.vectors(range(60)))


def test_files_and_copies_keep_every_bit(tmp_path):
    live = dygcn.fit(
        [(f"é{a}", f"é{b}", t) for a, b, t in communities()], columns=("src", "dst", "t"), dim=16
    )
    live.update(add=[("é1", "newcomer"), ("alone", "lonely")])
    live.save(tmp_path / "x")
    for other in (dygcn.load(tmp_path / "x"), copy.deepcopy(live), live.recompute()):
        assert other.digest() == live.digest()
        np.testing.assert_array_equal(other.vectors(other.ids()), live.vectors(live.ids()))
        assert (other.unreached, other.model.table.window) == (2, live.model.table.window)
        other.update(add=[("é2", "newcomer")])
    live.update(add=[("é2", "newcomer")])
    assert other.digest() == live.digest()


def test_a_durable_folder_comes_back(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(add=[(1, 900), (900, 901)])
        digest = live.digest()
    with dygcn.open(tmp_path / "x") as live:
        assert live.digest() == digest
        assert live.digest() == live.recompute().digest()


@pytest.mark.parametrize("memory", [None, 20.0])
def test_a_graph_that_was_played_once_is_the_one_of_all_events(monkeypatch, memory):
    """The second factorisation begins where the first one ended, and knows who came later."""
    monkeypatch.setattr(fitting, "SMALL", 0)
    events = [(a, b, t, 1 if t % 7 else -1) for a, b, t in communities(links=400, size=90)]
    events += [(500 + a, 500 + b, 400 + t, 1) for a, b, t in communities(seed=1, links=50, size=9)]
    asked = {"columns": ("src", "dst", "t", "op"), "dim": 16, "memory": memory}
    once, again = (dygcn.fit(events, **asked) for _ in range(2))
    whole = dygcn.fit(events, **asked, recipe=Recipe(held_out=0))
    for name in ("ids", "a", "b", "weight"):
        one, other = (getattr(live._state.image()[0].graph, name) for live in (once, whole))
        assert (one.values.tolist() == other.values.tolist()) if name == "ids" else (one == other).all()
    assert once.unreached == whole.unreached == 0
    assert once.digest() == again.digest()


def test_equal_graphs_give_equal_rows_whatever_the_order_of_events():
    events = [(a, b) for a, b, _ in communities()]
    one, two = (dygcn.fit(some, dim=16) for some in (events, [(b, a) for a, b in events[::-1]]))
    np.testing.assert_array_equal(one.features(range(60)), two.features(range(60)))
    assert one.digest() == two.digest()


def test_rows_of_a_directed_graph_are_those_of_both_directions():
    pairs = [(a, b) for a, b, _ in communities()]
    directed = dygcn.fit({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]}, dim=16, directed=True)
    low, count = np.unique(np.sort(np.unique(np.array(pairs), axis=0), axis=1), axis=0, return_counts=True)
    both = {"src": low[:, 0], "dst": low[:, 1], "weight": count.astype(float)}
    np.testing.assert_allclose(
        np.abs(directed.features(range(60)) @ directed.features(range(60)).T),
        np.abs(dygcn.fit(both, dim=16).features(range(60)) @ dygcn.fit(both, dim=16).features(range(60)).T),
        atol=0.05,
    )


def test_ghosts_count_with_what_is_left_of_them():
    events = [(a, b, t, 1) for a, b, t in communities()] + [(1, 2, 200, 1), (1, 2, 201, -1)]
    live = dygcn.fit(events, dim=16, memory=1.0)
    graph = live._state.graph
    _, _, weight = graph.edges()
    assert (weight < 0).sum() == 1
    without = dygcn.fit([event for event in events if event[3] > 0 and event[2] < 200], dim=16)
    assert not np.array_equal(live.model.table.rows, without.model.table.rows)


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(FeatureError, match='"walks", "hashed"'):
        dygcn.fit([(1, 2)], dim=4, features="walk")
    with pytest.raises(OptionError, match="takes base= instead"):
        dygcn.fit([(1, 2)], dim=4, rule="rolling", features="hashed")


def test_a_tolerance_keeps_moves_back_and_reads_are_exact(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "4")
    live, twin = fitted(), fitted()
    live.publish(tolerance=0.2)
    told = live.vectors(range(60))
    for node in range(40):
        for one in (live, twin):
            change = one.update(add=[(node, (node + 20) % 60)])
            if one is live:
                told[change.ids] = change.vectors
        assert (live.vectors(range(60)) == twin.vectors(range(60))).all()
        bound = live.error_bound(range(60))
        assert (np.linalg.norm(live.vectors(range(60)) - told, axis=1) <= bound + 1e-6).all()
    assert (live.vectors(range(60)) != told).any()
    change = live.publish()
    told[change.ids] = change.vectors
    assert (live.vectors(range(60)) == told).all()


def test_ids_that_share_a_public_key_do_not_share_a_row():
    victim, *others = names_of_one_key(8)
    live = dygcn.fit([(victim, "ann"), ("ann", "bob"), ("bob", victim)], dim=8)
    live.update(add=[(other, "zoe") for other in others])
    assert np.isfinite(live.features([victim])).all()
    assert np.isnan(live.features(others)).all()


def test_rows_by_public_keys_would_be_noticed():
    """The mutant of the test above: all of these ids would have the victim's row."""
    victim, *others = names_of_one_key(8)
    live = dygcn.fit([(victim, "ann"), ("ann", "bob"), ("bob", victim)], dim=8)
    names = IdMap("string")
    nodes = names.intern(id_column(others))
    names.hashes = names.keys
    names.hashes_of = lambda column: np.full(len(column), names.keys[nodes[0]])
    assert Walks(live.model.table).units(nodes, names)[1].all()


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_a_newcomer_that_is_counted_would_be_noticed(kind):
    """The seeded bug: a node without a row counts as a neighbour whose row is zero."""
    live = dygcn.start(small_model(kind, features="walks"))
    name = (lambda node: f"n{node}") if kind == "string" else int
    pairs = np.unique(np.sort(np.random.default_rng(0).integers(0, 30, (50, 2)), axis=1), axis=0)
    edges = {(name(a), name(b)): 1.0 for a, b in pairs.tolist() if a != b}

    def differs():
        live.update(remove=list(edges))
        live.update(add=list(edges))
        return np.abs(live.vectors(live.ids()) - twin_vectors(live, edges)).max() > 1e-4

    assert not differs()
    edges |= {(name(4), name(node)): 1.0 for node in range(200, 300)}  # too many for the one compiled call
    assert not differs()
    found = Walks.units

    def counted(self, nodes, names):
        return found(self, nodes, names)[0], np.ones(len(nodes), np.int64)

    live.update(remove=list(edges))
    with seeded(Walks, "units", counted):
        live.update(add=list(edges))
    assert np.abs(live.vectors(live.ids()) - twin_vectors(live, edges)).max() > 1e-4


def test_rows_are_made_of_the_graph_at_the_end_of_the_events():
    live = fitted(recipe=Recipe(held_out=0.0))
    again = with_rows(live.model, live._state.graph)
    np.testing.assert_array_equal(again.table.rows, live.model.table.rows)


@pytest.mark.parametrize("least", [0, 1 << 30])
def test_a_snapshot_shares_a_large_model_file_and_is_whole_by_itself(tmp_path, monkeypatch, least):
    monkeypatch.setattr("dygcn.engine.models.folder.WORTH_A_LINK", least)
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update(add=[(1, 900)])
        live.snapshot()
        (_, place), *_ = list_snapshots(live._folder)
        files = [folder / "model.safetensors" for folder in (live._folder, place)]
        assert files[0].samefile(files[1]) == (least == 0)
        digest = live.digest()
    copied = shutil.copytree(place, tmp_path / "elsewhere")
    assert dygcn.load(copied).digest() == digest
    for name in ("manifest.json", "model.safetensors", "graph.safetensors"):
        (tmp_path / "x" / name).unlink()
    with dygcn.open(tmp_path / "x") as live:
        assert live.digest() == digest


def test_a_model_file_that_was_damaged_is_not_shared(tmp_path, monkeypatch):
    monkeypatch.setattr("dygcn.engine.models.folder.WORTH_A_LINK", 0)
    with dygcn.open(tmp_path / "x", fitted()) as live:
        file = live._folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"!")
        live.update(add=[(1, 900)])
        live.snapshot()
        digest = live.digest()
    with dygcn.open(tmp_path / "x") as live:
        assert live.digest() == digest


def test_one_id_is_not_a_list_of_ids():
    model = dygcn.fit([("a", "b"), ("b", "c"), ("ab", "c")], dim=4).model
    with pytest.raises(FeatureError, match="'ab' is one id"):
        model.without("ab")


def test_copies_share_the_rows():
    live = fitted()
    live.update(add=[(1, 900)])
    other = copy.deepcopy(live)
    assert other.model.table is live.model.table
    rows = other._state.exact.features.unit_table(other._state.graph.ids).arrays[2]
    assert np.shares_memory(rows, live.model.table.rows)
