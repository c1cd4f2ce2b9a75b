"""Learning the score of a link: the two fits, what is drawn, and what comes out of planted graphs."""

import dataclasses

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import cut_steps, read_events, sort_by_time
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.models.choices import Choices, FitTask
from dygcn.engine.models.links import AGE, COUNT, EDGE, HEADS, KNOWN, TRAITS
from dygcn.engine.training import Recipe
from dygcn.engine.training.fitting import held_out, walk_model
from dygcn.engine.training.link_head import heads_of, read_columns, sample_links
from dygcn.engine.training.logits import LIST_PENALTY, logistic, softmax
from dygcn.engine.training.next_head import NextSample
from dygcn.engine.training.samples import NextEdges


def next_edges(rows, events):
    active, places = np.unique(np.array(rows), return_inverse=True)
    first, second = places.reshape(-1, 2).T
    return NextEdges(first, second, read_events({"src": active, "dst": active}).src)


def random_graph(seed, directed=False, nodes=40, steps=12):
    """A graph with repeats and removes, its next events, and the edges after them."""
    random = np.random.default_rng(seed)
    graph = Graph("int64", directed=directed, count_half_life=3.0, half_life=4.0)
    table = {
        "src": random.integers(0, nodes, 40 * steps),
        "dst": random.integers(0, nodes, 40 * steps),
        "t": np.repeat(np.arange(steps), 40),
        "op": np.where(random.random(40 * steps) < 0.2, -1, 1),
    }
    for step in range(steps):
        part = {name: column[table["t"] == step] for name, column in table.items()}
        graph.release(apply_batch(graph, read_events(part)).left)
    coming = {name: random.integers(0, nodes + 3, 60) for name in ("src", "dst")}
    after = linked(graph) | {tuple(sorted(pair)) for pair in zip(*coming.values(), strict=True)}
    after = {(int(a), int(b)) for a, b in after if a != b}
    return graph, coming, after, random


def linked(graph):
    a, b, weight = graph.edges()
    names = graph.ids.names(np.arange(graph.ids.high, dtype=np.int32)).values
    pairs = zip(names[a].tolist(), names[b].tolist(), weight.tolist(), strict=True)
    return {tuple(sorted((x, y))) for x, y, w in pairs if w > 0}


def draw(seed, directed=False):
    graph, coming, after, random = random_graph(seed, directed)
    seen = []

    def read(nodes):
        seen.append(graph.ids.names(nodes).values)
        return np.ones((len(nodes), 2), np.float32), np.ones((3, len(nodes), 2), np.float32)

    sample = sample_links(graph, 1.0, next_edges(sorted(after), coming), 200, random, read)
    return graph, coming, after, sample, np.append(seen[0], -1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_what_they_are_called(seed, directed):
    graph, _coming, after, sample, names = draw(seed, directed)
    now = linked(graph)
    for kind, pairs in sample.pairs.items():
        ends = [
            tuple(sorted((int(names[a]), int(names[b]))))
            for a, b in zip(pairs.first, pairs.second, strict=True)
        ]
        for pair, truth, past in zip(ends, pairs.marked, pairs.pasts, strict=True):
            assert not truth or pair in after or -1 in pair
            assert truth or pair not in after
            assert (past[EDGE] > 0) == (pair in now)
            assert past[KNOWN] >= past[EDGE]
            if kind == "new":
                assert pair not in now
                assert -1 not in pair
    assert sample.traits[-1].tolist() == [0.0, 1.0, np.log1p(240.0), 0.0]


def test_the_softmax_ends_where_its_slope_is_zero():
    random = np.random.default_rng(2)
    columns, weight = random.normal(size=(60, 8, 3)) * [1, 5, 0.1], random.uniform(0, 3, (60, 8))
    weight[random.random((60, 8)) < 0.2] = -np.inf
    weight[:, 0] = 0.0
    columns[:, 0] += [0.5, -3.0, 0.0]
    scale = columns[np.isfinite(weight)].std(axis=0)

    def loss(found):
        scores = columns @ found + weight
        chosen = scores[:, 0] - np.log(np.exp(scores).sum(axis=1))
        return LIST_PENALTY * ((found * scale) ** 2).sum() - chosen.mean()

    found = softmax(columns, weight)
    for i in range(3):
        step = np.eye(3)[i] * 1e-4 / scale[i]
        assert abs(loss(found + step) - loss(found - step)) < 1e-7
    assert loss(found) < loss(np.zeros(3))


def test_columns_that_say_nothing_get_nothing():
    random = np.random.default_rng(0)
    columns = np.stack((random.normal(size=500), np.full(500, 7.0)), axis=1)
    assert logistic(columns, (columns[:, 0] > 0).astype(float))[2] == 0.0
    lists = np.stack((random.normal(size=(50, 4)), np.ones((50, 4))), axis=2)
    assert softmax(lists, np.zeros((50, 4)))[1] == 0.0


def planted(seed=0, steps=16, nodes=120):
    """Members of a circle meet, half of the time somebody that they have just met."""
    random = np.random.default_rng(seed)
    circle, last, rows = random.integers(0, 4, nodes), {}, []
    for step in range(steps):
        for _ in range(120):
            a = int(random.integers(0, nodes))
            b = last.get(a) if random.random() < 0.5 else None
            if b is None:
                b = int(random.choice(np.flatnonzero(circle == circle[a])))
            if a != b:
                rows.append((a, b, step + random.random()))
                last[a] = last[b] = b
                last[b] = a
    return rows, circle


@pytest.fixture(scope="module")
def live():
    rows, _ = planted()
    return dygcn.fit(rows, columns=("src", "dst", "t"), dim=16, steps=list(range(1, 16)))


def test_a_fit_learns_every_kind(live):
    assert set(live.model.links) == {"new", "all"}
    assert all(len(head.negatives) == 1 + 7 + 2 * TRAITS for head in live.model.links.values())


def test_edges_come_first_among_all_links(live):
    graph = live._state.graph
    ids = live.ids()
    scores = live.score(np.repeat(ids[:20], len(ids)), np.tile(ids, 20), links="all")
    nodes = graph.find(read_events({"src": ids, "dst": ids}).src)
    link = graph.pair_contacts(np.repeat(nodes[:20], len(ids)), np.tile(nodes, 20))[0]
    assert scores[link > 0].min() > scores[link == 0].max()


def gap_between_edges_and_others(seed, change=lambda head: head):
    """Let newcomers arrive, and return how far the least edge scores above every other pair."""
    random = np.random.default_rng(seed)
    pairs, t = random.integers(0, 60, (2500, 2)), np.sort(random.uniform(0, 20, 2500))
    live = dygcn.fit({"src": pairs[:, 0], "dst": pairs[:, 1], "t": t}, dim=16, steps=10)
    live._state.model = dataclasses.replace(live.model, links={"all": change(live.model.links["all"])})
    live.update({"src": [900, 902], "dst": [901, 903], "t": [20.5, 21.0]})
    ids, graph = live.ids(), live._state.graph
    nodes = graph.find(read_events({"src": ids, "dst": ids}).src)
    first, second = np.repeat(np.arange(len(ids)), len(ids)), np.tile(np.arange(len(ids)), len(ids))
    link = graph.pair_contacts(nodes[first], nodes[second])[0]
    scores = live.score(ids[first], ids[second], links="all")
    return scores[link > 0].min() - scores[link <= 0].max()


@pytest.mark.parametrize("seed", range(3))
def test_edges_come_first_whoever_arrives(seed):
    """Newcomers are far from everything that was seen in training: a line would say anything of them."""
    assert gap_between_edges_and_others(seed) > 0


def test_a_head_without_bounds_is_noticed():
    """Seeded: columns may be anything, and an edge counts 30 log-odds more."""

    def unbounded(head):
        far = (-1e9,) * len(head.low), (1e9,) * len(head.high)
        return dataclasses.replace(head, known=(*head.known[:-1], 30.0), low=far[0], high=far[1])

    assert min(gap_between_edges_and_others(seed, unbounded) for seed in range(3)) < 0


def test_columns_without_any_spread_get_nothing():
    samples = held_out_samples(planted(4)[0])
    pairs = [read_columns(samples, None, kind) for kind in HEADS]
    for columns in pairs:
        columns.plain[:, 1 : -2 * TRAITS] = 0.0
    for head in heads_of(*pairs).values():
        assert head.negatives[1]
        assert any(head.negatives[8:])
        assert not any(head.negatives[2:8])


def held_out_samples(rows):
    batch = sort_by_time(read_events(rows, columns=("src", "dst", "t")))
    parts = cut_steps(batch, list(range(1, 16)))
    task = FitTask(batch, parts, Choices(16, 2, "exact", None, 0, 256, False))
    model = walk_model(task)
    return held_out(model, task, Recipe(), NextSample(model, parts, Recipe())).samples


def test_without_times_no_column_speaks_of_them():
    rows, _ = planted(5)
    live = dygcn.fit([(a, b) for a, b, _ in rows], dim=16, steps=16)
    assert live.model.unit is None
    for head in live.model.links.values():
        assert head.known[-3:-1] == (0.0, 0.0)
        assert head.negatives[1 + 7 + 2 : 1 + 7 + 4] == (0.0, 0.0)
    assert np.isfinite(live.score(live.ids()[:-1], live.ids()[1:], links="next")).all()


def test_samples_have_pasts(live):
    samples = held_out_samples(planted(6)[0])
    columns = read_columns(samples, None, "all")
    known = columns.pasts[:, KNOWN] > 0
    assert known.any()
    assert (columns.pasts[known, COUNT] > 0).all()
    assert not columns.pasts[~known].any()
    assert (columns.pasts[:, AGE] >= 0).all()
