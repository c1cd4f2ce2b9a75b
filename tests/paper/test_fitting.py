"""Training of the paper's rules: the same equations as the live path, the paper's loss, every option."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch

import dygcn
from dygcn.engine.events import cut_steps, read_events, sort_by_time
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.measures import auc
from dygcn.engine.models.choices import Choices
from dygcn.engine.models.state import State
from dygcn.errors import FeatureError, OptionError, TrainingWarning
from dygcn.paper import (
    BaseRecipe,
    RollingRecipe,
    RollingRule,
    RuleOptions,
    SpectralRule,
    Watch,
    equations,
    fitting,
)
from dygcn.paper.bases import base_vectors, fit_base, keep_last, play_history, snapshot_of
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.fitting import new_model
from dygcn.paper.training import LinkLoss, TorchArrays, descend, draw, first_matrices, fit_rolled
from dygcn_lab.evaluation.steps import Snapshots
from dygcn_lab.testbed.graphs import random_events
from tests.linked import link_auc
from tests.paper.dense_twin import hat

DIM = 6
QUICK = RollingRecipe(rounds=20, base=BaseRecipe(epochs=20))
QUICK_STEADY = dataclasses.replace(
    RollingRecipe.steady(2),
    rounds=20,
    base=dataclasses.replace(RollingRecipe.steady().base, epochs=20, warm=5),
)

ONCE = dataclasses.replace(QUICK_STEADY, base=dataclasses.replace(QUICK_STEADY.base, once=True))


def growing_blocks(steps=12, groups=6, size=12, seed=0):
    """Communities whose members meet more and more, and some noise."""
    random = np.random.default_rng(seed)
    rows = []
    for t in range(steps):
        for _ in range(60):
            group = int(random.integers(groups))
            a, b = (group * size + random.choice(size, 2, replace=False)).tolist()
            rows.append((a, b, t, 1))
        rows.append((*random.integers(0, groups * size, 2).tolist(), t, 1))
    return rows


@pytest.fixture(scope="module")
def blocks():
    return growing_blocks()


def table(rng, count):
    return rng.standard_normal((count, DIM)).astype(np.float32)


@pytest.mark.parametrize("kind", [RollingRule, SpectralRule])
@pytest.mark.parametrize("options", [RuleOptions(), RuleOptions("mean", "tanh", "rest", level=True)])
def test_torch_and_the_live_path_compute_the_same_update(kind, options):
    random = np.random.default_rng(1)
    graph, events = Graph("int64", stay=True), random_events("sparse", 3, nodes=30)
    apply_batch(graph, read_events(events[:50]))
    weights = [table(random, DIM) / 2 for _ in range(3)]
    rule = kind(weights, options)
    nodes = graph.nodes()
    rule.restart(graph, nodes, table(random, len(nodes)), nodes[:0])
    for at in range(50, len(events), 9):
        delta = apply_batch(graph, read_events(events[at : at + 9]))
        before = np.zeros((graph.ids.high, DIM), np.float32)
        before[: len(rule._table)] = rule._table[: graph.ids.high]
        rule.apply(graph, delta)
        plan = rule.plan(graph, delta)
        found = equations.advance(
            TorchArrays(),
            plan,
            torch.from_numpy(before),
            [torch.from_numpy(w) for w in weights],
            options,
        )
        here = graph.nodes()
        scale = max(1.0, float(np.abs(rule.vectors(here)).max()))
        np.testing.assert_allclose(found.numpy()[here], rule.vectors(here), atol=2e-5 * scale)


def test_the_derivative_of_a_weighted_sum():
    random = np.random.default_rng(0)
    graph = Graph("int64")
    apply_batch(graph, read_events(random_events("hub", 0, nodes=8, loops=False)))
    mix = snapshot_of(graph, "mean").mix
    x = torch.tensor(random.standard_normal((len(graph), 3)), dtype=torch.float32, requires_grad=True)
    weight = torch.tensor(random.standard_normal((len(graph), 3)), dtype=torch.float32)
    (TorchArrays().combine(mix, x) * weight).sum().backward()
    dense = np.stack([NumpyArrays().combine(mix, row[:, None])[:, 0] for row in np.eye(len(graph))], axis=1)
    np.testing.assert_allclose(x.grad.numpy(), dense.T @ weight.numpy(), atol=1e-5)


def test_the_loss_is_eq_neg():
    random = np.random.default_rng(0)
    z = torch.tensor(random.standard_normal((5, 3)), dtype=torch.float32)
    left, right, negatives = np.array([0, 1]), np.array([2, 3]), np.array([4, 0])
    found = float(LinkLoss("dot")(z, left, right, negatives))
    v, u, n = (z.numpy()[rows].astype(np.float64) for rows in (left, right, negatives))

    def sigma(x):
        return 1 / (1 + np.exp(-x))

    wanted = -(np.log(sigma((v * u).sum(1))) + np.log(1 - sigma((v * n).sum(1)))).mean()
    assert found == pytest.approx(wanted, rel=1e-5)
    cosine = LinkLoss("cosine", temperature=3.0)
    near, far = (3 * (v * x).sum(1) / np.linalg.norm(v, axis=1) / np.linalg.norm(x, axis=1) for x in (u, n))
    wanted = -(np.log(sigma(near)) + np.log(1 - sigma(far))).mean()
    assert float(cosine(z, left, right, negatives).detach()) == pytest.approx(wanted, rel=1e-5)
    assert cosine.parameters
    assert not LinkLoss("dot").parameters


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_the_base_is_two_layers_of_the_papers_gcn(aggregation):
    graph = Graph("int64")
    apply_batch(graph, read_events(random_events("hub", 1, nodes=15, weighted=False, loops=False)))
    snapshot = snapshot_of(graph, aggregation)
    recipe = BaseRecipe(aggregation, epochs=3)
    base = fit_base([snapshot], DIM, recipe, 0)
    n = len(graph)
    A = np.zeros((n, n))
    A[snapshot.pairs[:, 0], snapshot.pairs[:, 1]] = A[snapshot.pairs[:, 1], snapshot.pairs[:, 0]] = 1
    X = np.eye(len(base.tensors["in"]))[A.sum(axis=1).astype(int)]  # one-hot degrees
    hidden = np.maximum(hat(A, aggregation) @ X @ base.tensors["in"], 0)
    wanted = np.maximum(hat(A, aggregation) @ hidden @ base.tensors["out"], 0)
    np.testing.assert_allclose(base_vectors(base, snapshot), wanted, rtol=1e-4, atol=1e-5)
    unit = dataclasses.replace(base, recipe=dataclasses.replace(recipe, unit=True, output="none"))
    np.testing.assert_allclose(np.linalg.norm(base_vectors(unit, snapshot), axis=1), 1, rtol=1e-5)


def test_a_base_can_go_on_from_the_last_one(blocks):
    graph = Graph("int64")
    apply_batch(graph, read_events(blocks))
    snapshot = snapshot_of(graph, "sum")
    first = fit_base([snapshot], DIM, BaseRecipe(epochs=5, once=False, warm=1, rate=1e-4), 0)
    after = fit_base([snapshot], DIM, first.recipe, 0, first)
    again = fit_base([snapshot], DIM, dataclasses.replace(first.recipe, warm=0), 0, first)
    assert after.recipe == first.recipe
    assert 0 < np.abs(after.tensors["out"] - first.tensors["out"]).max() < 1e-3
    np.testing.assert_array_equal(again.tensors["out"], first.tensors["out"])  # from scratch, same seed


def test_a_node_without_an_edge_keeps_its_last_base():
    graph = Graph("int64", stay=True)
    snapshots = []
    for rows in ([(1, 2), (2, 3)], [(1, 2, 0, -1)], [(1, 3)]):
        apply_batch(graph, read_events(rows))
        snapshots.append(snapshot_of(graph, "sum"))
    tables = [np.full((3, 1), step, np.float32) for step in range(3)]
    kept = keep_last(snapshots, tables)
    assert [rows.ravel().tolist() for rows in kept] == [[0, 0, 0], [0, 1, 1], [2, 2, 2]]


def prepared(blocks, rule, recipe):
    batch = sort_by_time(read_events(blocks))
    model = new_model(batch, Choices(DIM, 2, rule, None, 0, 256, False), "gcn", recipe)
    history = play_history(model, cut_steps(batch, None), recipe.base.aggregation)
    base = fit_base(history.snapshots, DIM, recipe.base, 0)
    return history, [base_vectors(base, snapshot) for snapshot in history.snapshots]


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
def test_the_bound_holds_after_training(blocks, rule):
    recipe = dataclasses.replace(QUICK_STEADY, bound=0.7, rate=0.1)
    history, tables = prepared(blocks, rule, recipe)
    spectral = rule == "spectral"
    start = first_matrices(DIM, 1 if spectral else 2, spectral, "identity", 0)
    weights = fit_rolled(history, tables, start, recipe, spectral, 0)
    limits = [0.7] * 2 + [0.35 if spectral else 0.7]
    for matrix, limit in zip(weights, limits, strict=True):
        assert np.linalg.norm(matrix, 2) <= limit * (1 + 1e-4)
    free = fit_rolled(history, tables, start, dataclasses.replace(recipe, bound=None), spectral, 0)
    assert max(np.linalg.norm(matrix, 2) for matrix in free) > 0.7


def test_the_degree_table_grows_with_the_graph(blocks):
    """A warm base keeps the table of its first snapshot, and all later degrees looked the same in it."""
    live = dygcn.fit(blocks, dim=16, rule="rolling", base="gcn", recipe=QUICK_STEADY)
    table = live.model.spec.base.tensors["in"]
    degrees = live._state.graph.pull.count[live._state.graph.nodes()]
    assert len(table) == degrees.max() + 1
    vectors = live.vectors(live.ids())
    assert np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).min() > 1e-4
    live.update(add=[(0, other) for other in range(1, 72)])
    live.restart()
    assert len(live.model.spec.base.tensors["in"]) == 72


def test_a_spectral_run_keeps_its_length(blocks):
    exact = dygcn.fit(blocks[:300], dim=16, features="hashed")
    how = {"rule": "spectral", "base": dygcn.Embedding(exact.ids(), exact.vectors(exact.ids()))}
    live = dygcn.fit(blocks[:300], recipe=QUICK_STEADY, **how)
    start = np.linalg.norm(live.vectors(live.ids()), axis=1).mean()
    for row in blocks[300:]:
        live.update(add=[row[:2]])
    length = np.linalg.norm(live.vectors(live.ids()), axis=1).mean()
    assert 0.1 < length / start < 10
    plain = dataclasses.replace(QUICK_STEADY, options=RuleOptions("mean", "none", "rest"))
    other = dygcn.fit(blocks[:300], recipe=plain, **how)
    for each in (other, dygcn.fit(blocks[:300], recipe=QUICK_STEADY, **how)):
        each.update(add=[row[:2] for row in blocks[300:330]])
        cosines = [each.score(1, b) for b in (2, 3, 30, 50)]
        if each is other:
            wanted = cosines
    np.testing.assert_allclose(cosines, wanted, atol=1e-3)  # one number for all changes no cosine


def test_training_helps_on_its_own_loss(blocks):
    recipe = dataclasses.replace(QUICK_STEADY, rounds=150)
    history, tables = prepared(blocks, "rolling", recipe)
    start = first_matrices(DIM, 2, False, "glorot", 0)
    trained = fit_rolled(history, tables, start, recipe, False, 0)
    loss, random = LinkLoss("cosine"), np.random.default_rng(5)
    last = history.snapshots[-1]
    drawn = draw(last.nodes[last.pairs].astype(np.int64), last.nodes, 2000, random)
    values = []
    for weights in (start, trained):
        z = torch.zeros((history.high, DIM))
        z[torch.from_numpy(history.snapshots[-2].nodes.astype(np.int64))] = torch.from_numpy(tables[-2])
        z = equations.advance(
            TorchArrays(),
            history.plans[-1],
            z,
            [torch.from_numpy(w) for w in weights],
            RuleOptions("mean", "none"),
        )
        values.append(float(loss(z, *drawn).detach()))
    assert values[1] < values[0] - 0.1


def test_too_little_to_learn_from_leaves_the_starting_matrices():
    with pytest.warns(TrainingWarning, match="the matrices stay as they started: 0 linked pairs"):
        live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4, rule="rolling", base="gcn", recipe=QUICK)
    start = first_matrices(4, 2, False, "glorot", 0)
    for matrix, begun in zip(live.model.weights, start, strict=True):
        np.testing.assert_array_equal(matrix, begun)


def test_labels_can_replace_the_paper_s_loss(blocks):
    """The class hides in one short coordinate of the base: only a task loss makes it longer."""
    random = np.random.default_rng(3)
    vectors = random.standard_normal((72, 5))
    vectors[:, 4] = np.where(np.arange(72) % 2, 0.5, -0.5)
    mine = dygcn.Embedding(np.arange(72), vectors)
    classes = {node: "odd" if node % 2 else "even" for node in range(72)}
    recipe = dataclasses.replace(QUICK_STEADY, rounds=200, link_weight=0.0, rollout=1, bound=None, rate=1e-2)
    scores = []
    for labels in (None, classes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if labels is None else "error", TrainingWarning)
            live = dygcn.fit(blocks, rule="rolling", base=mine, labels=labels, recipe=recipe)
        live.update(add=[row[:2] for row in growing_blocks(3, seed=9)])
        scores.append(same_class_auc(live, classes))
    assert scores[1] > scores[0] + 0.1, scores


def same_class_auc(live, classes):
    ids = live.ids().tolist()
    z = live.vectors(ids)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    same = np.array([[classes[a] == classes[b] for b in ids] for a in ids])
    scores, off = z @ z.T, ~np.eye(len(ids), dtype=bool)
    return auc(scores[same & off].astype(np.float64), scores[~same].astype(np.float64))


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
@pytest.mark.parametrize("base", ["gcn", "exact"])
def test_every_base_through_the_front_door(blocks, rule, base):
    graph = Snapshots()
    rows = np.array(blocks)
    edges = graph.apply(rows[:, 0], rows[:, 1], rows[:, 3])
    recipe = dataclasses.replace(QUICK_STEADY, base=dataclasses.replace(QUICK_STEADY.base, epochs=150))
    exact = dygcn.fit(blocks, dim=16, features="hashed")
    mine = dygcn.Embedding(exact.ids(), exact.vectors(exact.ids()))
    live = dygcn.fit(blocks, dim=16, rule=rule, base="gcn" if base == "gcn" else mine, recipe=recipe)
    assert list(live.model.matrices) == (["W0", "W1", "Ws"] if rule == "spectral" else ["W0", "W1", "W2"])
    change = live.update(add=[(0, 1000)])
    assert 1000 in live
    assert np.linalg.norm(live[1000]) > 0
    assert len(change) == (len(live) if rule == "spectral" else change.rows)
    vectors = np.zeros((2000, 16), np.float32)
    vectors[live.ids()] = live.vectors(live.ids())
    assert np.isfinite(vectors).all()
    assert vectors[live.ids()].std(axis=0).min() > 0
    if base == "exact":  # degrees do not tell these communities apart, ids do
        assert link_auc(vectors, edges, np.random.default_rng(0)) > 0.75
    drifted = live.digest()
    live.restart(None if base == "gcn" else mine)
    assert live.digest() != drifted


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
def test_an_embedding_as_base(blocks, rule):
    random = np.random.default_rng(0)
    mine = dygcn.Embedding(np.arange(80), random.standard_normal((80, 5)))
    live = dygcn.fit(blocks, rule=rule, base=mine, recipe=QUICK_STEADY)
    assert live.model.dim == 5
    assert 79 in live  # it has a vector, and no edge
    np.testing.assert_array_equal(live.vectors(range(80)), mine.vectors)
    live.update(add=[(0, 1000), (1000, 3)])
    assert np.linalg.norm(live[1000]) > 0
    with pytest.raises(OptionError, match=r"bring fresh ones, restart\(dygcn.Embedding"):
        live.restart()
    live.restart(mine)
    np.testing.assert_array_equal(live.vectors(range(80)), mine.vectors)
    with pytest.raises(FeatureError, match="columns; this model has int64 ids and dim 5"):
        live.restart(dygcn.Embedding([1], [[1.0]]))


def test_trained_on_every_snapshot_or_once(blocks):
    each = dataclasses.replace(QUICK, base=BaseRecipe(epochs=5, once=False))
    live = dygcn.fit(blocks, dim=8, rule="rolling", recipe=each)
    before = live.vectors(live.ids())
    live.restart()  # trains on the last snapshot again, from the same seed
    np.testing.assert_allclose(live.vectors(live.ids()), before, atol=1e-6)


def test_a_long_history_is_cut_to_what_fits(blocks, monkeypatch):
    seen = []
    whole = fitting.play_history
    monkeypatch.setattr(
        fitting, "play_history", lambda m, parts, *a: (seen.append(parts), whole(m, parts, *a))[1]
    )
    dygcn.fit(blocks, dim=8, rule="rolling", recipe=QUICK)
    monkeypatch.setattr(fitting, "LARGEST_HISTORY", 1 << 19)
    with pytest.warns(TrainingWarning, match=r"the first \d of 12 steps are joined into one"):
        assert len(dygcn.fit(blocks, dim=8, rule="rolling", recipe=QUICK)) == 72
    assert len(seen[0]) == 12
    assert 3 <= len(seen[1]) < 12
    assert sum(len(part) for part in seen[1]) == len(blocks)
    np.testing.assert_array_equal(seen[1][-1].t, seen[0][-1].t)


def test_options_are_refused_by_name(blocks):
    with pytest.raises(OptionError, match="aggregation is 'max'; known: sum, mean"):
        BaseRecipe("max")
    with pytest.raises(OptionError, match="loss is 'l2'; known: dot, cosine"):
        RollingRecipe(loss="l2")
    with pytest.raises(OptionError, match="bound is -1"):
        RollingRecipe(bound=-1)
    with pytest.raises(OptionError, match="rollout"):
        RollingRecipe(rollout=0)
    with pytest.raises(OptionError, match="band is"):
        Watch(band=(2, 3))
    with pytest.raises(OptionError, match="every is 0; allowed is a whole number from 1"):
        Watch(every=0)
    with pytest.raises(OptionError, match="links is 2; allowed is a number above 0 and at most 1"):
        Watch(links=2)
    with pytest.raises(OptionError, match="band is"):
        Watch(band=(0.1, float("nan")))
    with pytest.raises(OptionError, match="epochs is -5"):
        BaseRecipe(epochs=-5)
    with pytest.raises(OptionError, match="rate is 0; allowed is a number above 0"):
        RollingRecipe(rate=0)
    with pytest.raises(OptionError, match=r"rollout is 2.5; allowed is a whole number"):
        RollingRecipe(rollout=2.5)
    with pytest.raises(OptionError, match="activation is 'sin'"):
        dygcn.fit(blocks, rule="rolling", recipe=RollingRecipe(RuleOptions("sum", "sin")))
    with pytest.raises(OptionError, match="base is 'bert'; known: 'gcn', or"):
        dygcn.fit(blocks, rule="rolling", base="bert")
    with pytest.raises(OptionError, match="base= is for the rules 'rolling' and 'spectral'"):
        dygcn.fit(blocks, base="gcn")
    with pytest.raises(OptionError, match="labels= is for the rules"):
        dygcn.fit(blocks, labels={1: 2})
    with pytest.raises(OptionError, match="takes base= instead"):
        dygcn.fit(blocks, rule="spectral", features={1: [2.0]})
    with pytest.raises(OptionError, match="recipe is a RollingRecipe; the rule 'exact' takes a Recipe"):
        dygcn.fit(blocks, recipe=RollingRecipe())
    with pytest.raises(OptionError, match="labels is a dict"):
        dygcn.fit(blocks, rule="rolling", labels=[1, 2], recipe=QUICK)
    with pytest.raises(OptionError, match="labels have string ids"):
        dygcn.fit(blocks, rule="rolling", labels={"ann": 2}, recipe=QUICK)
    for options in ({"options": None}, {"base": 3}, {"watch": "auto"}):
        with pytest.raises(OptionError, match=f"{next(iter(options))} is .*; allowed is a"):
            RollingRecipe(**options)
    with pytest.raises(OptionError, match=r"known: 'gcn', or a dygcn\.Embedding"):
        dygcn.fit(blocks, rule="rolling", base=np.ones((3, 3)))
    with pytest.raises(FeatureError, match="the embedding has string ids, the events int64 ones"):
        dygcn.fit(blocks, rule="rolling", base=dygcn.Embedding(["a"], [[1.0]]), recipe=QUICK)


def test_gradients_that_are_not_finite_are_said(blocks):
    heavy = [(*row[:3], 1, 1e30) for row in blocks]
    with pytest.warns(TrainingWarning, match="rounds gave no finite gradient"):
        dygcn.fit(heavy, dim=8, rule="rolling", recipe=QUICK)


def test_a_large_gradient_is_shortened_not_lost():
    weight = torch.zeros(2, requires_grad=True)
    descend([weight], [], 20, 0.1, lambda i: (1e25 * weight).sum())
    assert float(weight.detach().max()) < -0.1


def test_a_sink_of_a_directed_graph_has_a_base():
    rows = [(user, 100 + (user * 7 + t) % 9, t, 1) for t in range(8) for user in range(40)]
    for rule in ("rolling", "spectral"):
        live = dygcn.fit(rows, dim=8, rule=rule, directed=True, recipe=QUICK_STEADY)
        assert np.linalg.norm(live.vectors(live.ids()), axis=1).min() > 0
        live.restart()


def test_a_restart_is_the_base_that_was_fitted_ghosts_included(blocks):
    gone = [(a, b, 12, -1) for a, b, _, _ in blocks[::9] if a != b]
    live = dygcn.fit(blocks + gone, dim=8, rule="rolling", memory=3.0, recipe=ONCE)
    before = live.vectors(live.ids())
    live.restart()
    np.testing.assert_allclose(live.vectors(live.ids()), before, atol=1e-6)


def test_a_loaded_copy_restarts_with_the_same_bits(blocks, tmp_path):
    live = dygcn.fit(blocks[::-1], dim=8, rule="rolling", recipe=QUICK_STEADY)
    live.save(tmp_path / "x")
    copy = dygcn.load(tmp_path / "x")
    first = live.model.spec.base.tensors["out"]
    for each in (live, copy):
        each.update(add=[(1, 500)])
        each.restart()
    np.testing.assert_allclose(copy.vectors(live.ids()), live.vectors(live.ids()), atol=1e-5)
    assert np.abs(live.model.spec.base.tensors["out"] - first).max() > 0  # trained on, and kept


def test_a_graph_that_is_empty_for_a_while(blocks):
    rows = [(1, 2, 0, 1), (2, 3, 0, 1), (1, 2, 1, -1), (2, 3, 1, -1)] + [
        (a, b, t + 2, o) for a, b, t, o in blocks
    ]
    assert len(dygcn.fit(rows, dim=8, rule="spectral", recipe=QUICK_STEADY)) == 72


def test_models_of_the_paper_start_empty_and_take_a_base(blocks):
    live = dygcn.fit(blocks, dim=8, rule="rolling", recipe=QUICK_STEADY)
    other = dygcn.start(live.model)
    other.update(add=[(1, 2), (2, 3), (3, 1)])
    assert np.abs(other.vectors([1, 2, 3])).max() == 0
    other.restart()
    assert np.linalg.norm(other[1]) > 0
    assert isinstance(other._state, State)
