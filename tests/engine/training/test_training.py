import numpy as np
import pytest

import dygcn
from dygcn.engine.events import cut_steps, read_events
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.training import Recipe
from dygcn.engine.training.matrices import StepSample, fit_matrices, link_loss, starting_matrices
from dygcn.engine.training.samples import collect_samples
from dygcn.errors import EventError, OptionError


def test_gradient_of_the_loss_by_finite_differences():
    random = np.random.default_rng(0)
    left, right, negatives = (random.normal(size=(n, 5)) for n in (4, 4, 6))
    apart = random.random((4, 6)) < 0.8
    found = link_loss(left, right, negatives, apart, 7.0, -1.5)
    for array, gradient in ((left, found.left), (right, found.right), (negatives, found.negatives)):
        for index in np.ndindex(*array.shape):
            kept = array[index]
            values = []
            for step in (1e-6, -1e-6):
                array[index] = kept + step
                values.append(link_loss(left, right, negatives, apart, 7.0, -1.5).loss)
            array[index] = kept
            assert (values[0] - values[1]) / 2e-6 == pytest.approx(gradient[index], abs=1e-7)
    up, down = (link_loss(left, right, negatives, apart, 7.0, -1.5 + s).loss for s in (1e-6, -1e-6))
    assert (up - down) / 2e-6 == pytest.approx(found.bias, abs=1e-7)
    up, down = (link_loss(left, right, negatives, apart, 7.0 * np.exp(s), -1.5).loss for s in (1e-6, -1e-6))
    assert (up - down) / 2e-6 == pytest.approx(found.sharpness, abs=1e-7)


def blocks(seed=0, groups=6, size=15, noise=60):
    random = np.random.default_rng(seed)
    pairs = [
        (g * size + a, g * size + b)
        for g in range(groups)
        for a in range(size)
        for b in range(a)
        if random.random() < 0.4
    ]
    pairs += [tuple(pair) for pair in random.integers(0, groups * size, (noise, 2)).tolist()]
    random.shuffle(pairs)
    return [tuple(pair) for pair in pairs]


def test_training_lowers_the_loss_of_links_that_come():
    events = blocks()
    steps = cut_steps(read_events(events), 8)
    model = Model(starting_matrices(64, 16, 2, 0), "int64", "hashed", np.ones(64))
    samples = collect_samples(State(model), steps, seed=0)
    assert len(samples) == 7
    start = np.concatenate(model.weights)
    trained = fit_matrices(samples, start, Recipe(rounds=150), seed=0)

    def loss(matrices):
        total = 0.0
        for sample in samples:
            z = sample.inputs.astype(np.float32) @ matrices
            a, b = z[sample.pairs[:, 0]], z[sample.pairs[:, 1]]
            negatives = z[sample.pool]
            total += link_loss(a, b, negatives, np.ones((len(a), len(negatives)), bool), 6.0, 0.0).loss
        return total

    assert loss(trained) < 0.95 * loss(start)


def test_samples_hold_the_messages_at_t_and_the_edges_at_t_plus_1():
    steps = [read_events([(1, 2), (2, 3)]), read_events([(1, 3, 1, 1), (2, 3, 1, -1), (1, 9, 1, 1)])]
    state = State(Model(starting_matrices(16, 4, 1, 0), "int64", "hashed", np.ones(16)))
    (sample,) = collect_samples(state, steps, seed=0)
    assert isinstance(sample, StepSample)
    assert len(sample.pairs) == 2  # 1-2 stays, 1-3 comes, 1-9 was unknown at t
    assert sample.inputs.shape == (3, 32)
    assert state.graph.edge_count == 3


def test_large_graphs_are_sampled_within_the_limit(monkeypatch):
    monkeypatch.setattr("dygcn.engine.training.samples.LARGEST_SAMPLE", 0)
    random = np.random.default_rng(0)
    pairs = random.integers(0, 4000, (9000, 2))
    steps = cut_steps(read_events({"src": pairs[:, 0], "dst": pairs[:, 1]}), 3)
    state = State(Model(starting_matrices(8, 4, 1, 0), "int64", "hashed", np.ones(8)))
    for sample in collect_samples(state, steps, seed=0):
        assert len(sample.inputs) <= 1000
        assert len(sample.pairs) >= 333
        assert len(sample.pool) == 333


def test_fit_is_repeatable_and_seeds_differ():
    events = blocks()
    kwargs = {"dim": 8, "width": 32, "features": "hashed", "recipe": Recipe(rounds=20)}
    one, two, other = (dygcn.fit(events, seed=seed, **kwargs) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.vectors(one.ids()), two.vectors(two.ids()))
    assert not np.array_equal(one.model.matrices["W1"], other.model.matrices["W1"])


def test_progress_is_told():
    result = []
    hashed = {"features": "hashed", "width": 16, "recipe": Recipe(rounds=3)}
    dygcn.fit(blocks(), dim=4, **hashed, progress=lambda *step: result.append(step))
    assert {what for _, _, what in result} == {"playing events", "training"}
    assert result[-1] == (3, 3, "training")


def test_steps():
    batch = read_events([(i, i + 1, i // 10) for i in range(100)], columns=("src", "dst", "t"))
    assert len(cut_steps(batch)) == 10
    assert [len(part) for part in cut_steps(batch, 3)] == [33, 34, 33]
    assert [len(part) for part in cut_steps(batch, [4, 6])] == [50, 20, 30]
    many = read_events([(i, i + 1, i) for i in range(1000)], columns=("src", "dst", "t"))
    assert len(cut_steps(many)) == 40
    untimed = read_events([(i, i + 1) for i in range(1000)])
    assert len(cut_steps(untimed)) == 40
    for wrong in (2.5, "x", [float("nan")], [10**400], [None], 101):
        with pytest.raises(
            OptionError, match="allowed is 1 to 100, the number of events, or the values of t"
        ):
            cut_steps(batch, wrong)
    with pytest.raises(OptionError, match="no t"):
        cut_steps(untimed, [3, 4])
    with pytest.raises(OptionError, match="steps is 0"):
        cut_steps(untimed, 0)


def test_fit_sorts_by_time_and_update_does_not():
    events = [(1, 2, 5.0, -1), (1, 2, 1.0, 1), (2, 3, 2.0, 1)]
    live = dygcn.fit(events, dim=4)
    assert live.edge_count == 1
    live.update(events)
    assert live.edge_count == 2


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"dim": 0}, OptionError, "dim is 0"),
        ({"orders": 0}, OptionError, "orders is 0"),
        ({"orders": 2.5}, OptionError, "whole number"),
        ({"rule": "magic"}, OptionError, "known: exact"),
        ({"memory": 0.0}, OptionError, "half-life above 0"),
        ({"memory": "x"}, OptionError, "half-life above 0"),
        ({"memory": 10**400}, OptionError, "half-life above 0"),
        ({"dim": 10**5000}, OptionError, "from 1 to 16384"),
        *(
            ({"steps": wrong}, OptionError, "allowed is 1 to 2, the number of events")
            for wrong in (0, 3, 1_700_000_000, 1 << 70)
        ),
        ({"seed": -1}, OptionError, "seed is -1"),
        ({"dim": True}, OptionError, "dim is True"),
        ({"memory": 3.0}, EventError, "column t"),
        ({"width": 10**6}, OptionError, "width"),
    ],
)
def test_options_are_checked(options, error, reason):
    with pytest.raises(error, match=reason):
        dygcn.fit([(1, 2), (2, 3)], **options)


def test_nothing_to_fit_on():
    with pytest.raises(EventError, match="no events"):
        dygcn.fit([])


@pytest.mark.parametrize("scale", [1e-80, 1e-6, 1.0, 1e6, 1e80])
def test_the_grid_of_the_weights_follows_them(scale, tmp_path):
    live = dygcn.fit({"src": [1, 2], "dst": [2, 3], "weight": [scale, 3 * scale]}, dim=4)
    assert live.model.grid <= scale / 1e5
    assert live.update({"src": [5], "dst": [6], "weight": [1000 * scale]}).ids.tolist() == [5, 6]
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest()


def test_heavy_tails_are_carried():
    weights = np.random.default_rng(0).pareto(0.7, 3000) + 1e-3
    pairs = np.random.default_rng(1).integers(0, 200, (3000, 2))
    events = {"src": pairs[:, 0], "dst": pairs[:, 1], "weight": weights}
    assert len(dygcn.fit(events, dim=4, recipe=Recipe(rounds=1))) == 200


def test_without_weights_a_node_may_have_four_million_neighbours():
    live = dygcn.fit([(1, 2)], dim=4)
    graph = live._state.graph
    assert graph.limit * graph.grid == 2**22


def test_narrow_features_and_wide_vectors():
    first, *_ = starting_matrices(4, 9, 1, 0)
    np.testing.assert_allclose(first @ first.T, np.eye(4), atol=1e-6)
    live = dygcn.fit([(1, 2), (2, 3)], dim=9, features=([1, 2, 3], np.eye(3, 4)))
    assert live[1].shape == (9,)
