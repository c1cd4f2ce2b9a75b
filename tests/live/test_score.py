"""The score of a link against a slow twin that keeps degrees and contacts in dicts."""

import copy
import dataclasses

import numpy as np
import pytest

import dygcn
from dygcn.engine.graph.ageing import Contacts
from dygcn.engine.models.links import (
    COUNT_HALF_LIFE,
    HEADS,
    PAST,
    TRAITS,
    LinkHead,
    count_products,
    node_traits,
)
from dygcn.engine.models.readout import read_units
from dygcn.engine.records import IdColumn
from dygcn.engine.training import Recipe
from dygcn.errors import OptionError, UnknownNode
from tests.seeded import assert_noticed

PLAIN = 1 + count_products(2) + 2 * TRAITS


def some_head(seed):
    """A head that weighs everything."""
    random = np.random.default_rng(seed)
    draw = lambda n: tuple(random.normal(size=n).round(3).tolist())  # noqa: E731
    high = tuple(random.uniform(0.1, 4, PLAIN + PAST - 2).round(3).tolist())
    return LinkHead(draw(PLAIN), draw(PLAIN + PAST), draw(2 + TRAITS), (-0.2,) * len(high), high)


SCORED = {kind: some_head(number) for number, kind in enumerate(HEADS)}


def events(seed, count=160, nodes=25, steps=8):
    """Adds, repeats and removes, in the order of their times."""
    random = np.random.default_rng(seed)
    pairs = random.integers(0, nodes, (count, 2))
    op = np.where(random.random(count) < 0.3, -1, 1)
    return {"src": pairs[:, 0], "dst": pairs[:, 1], "op": op, "t": np.sort(random.integers(0, steps, count))}


def cut(table, rows):
    return {name: column[rows] for name, column in table.items()}


def model_for(**options):
    """A fitted model, with heads that weigh everything."""
    live = dygcn.fit(events(99), dim=8, width=16, recipe=Recipe(rounds=5), **options)
    return dataclasses.replace(live.model, unit=2.0, links=SCORED, following=None)


def model_that_likes_activity():
    """A model whose score is the age of the last contacts, with a minus."""
    plain = [0.0] * PLAIN
    plain[1 + count_products(2) + 2] = -1.0
    bounds = (-99.0,) * (PLAIN + PAST - 2), (99.0,) * (PLAIN + PAST - 2)
    head = LinkHead(tuple(plain), (*plain, 0.0, 0.0, 0.0), (0.0,) * (2 + TRAITS), *bounds)
    return dataclasses.replace(model_for(), links={"new": head})


class Counter:
    """The last contact and a decayed count of contacts, of anything."""

    def __init__(self, half_life):
        self.half_life, self.last, self.count = half_life, -np.inf, 0.0

    def meet(self, t):
        late = self.last - t
        if late > 0:
            self.count += 2.0 ** (-late / self.half_life)
        else:
            self.count = self.count * (2.0 ** (late / self.half_life) if late > -np.inf else 0.0) + 1
            self.last = t

    def at(self, clock, unit):
        since = clock - self.last
        return min(since / unit, 60.0), self.count * 2.0 ** (-since / self.half_life)


class Twin:
    """Edges and contacts of nodes and of pairs, event by event."""

    def __init__(self, unit):
        self.unit, self.half_life, self.clock = unit, COUNT_HALF_LIFE * unit, -np.inf
        self.edges, self.nodes = {}, {}

    def apply(self, table):
        for a, b, op, t in zip(*(table[name].tolist() for name in ("src", "dst", "op", "t")), strict=True):
            self.clock = max(self.clock, t)
            edge = frozenset((a, b))
            if a == b or (op < 0 and edge not in self.edges):
                continue
            for node in edge:
                self.nodes.setdefault(node, Counter(self.half_life)).meet(t)
            if op > 0:
                self.edges.setdefault(edge, Counter(self.half_life)).meet(t)
            else:
                del self.edges[edge]
            here = {node for edge in self.edges for node in edge}
            self.nodes = {node: contacts for node, contacts in self.nodes.items() if node in here}

    def traits(self, node):
        degree = sum(node in edge for edge in self.edges)
        age, activity = self.nodes[node].at(self.clock, self.unit)
        return np.array([np.log1p(degree), (1 + degree) ** -0.5, np.log1p(4 * age), np.log1p(activity)])

    def past(self, a, b):
        if frozenset((a, b)) not in self.edges:
            return None
        age, count = self.edges[frozenset((a, b))].at(self.clock, self.unit)
        return np.array([np.log1p(4 * age), np.log1p(4 * count), 1.0])

    def score(self, live, a, b, head):
        state = live._state
        nodes = state.graph.find(IdColumn(np.array([a, b])))
        units = read_units(state.model, state.exact, state.graph, nodes).astype(float)
        za, zb = (live.vector(node).astype(float) for node in (a, b))
        size = np.linalg.norm(za) * np.linalg.norm(zb)
        columns = [za @ zb / size if size else 0.0]
        for i in range(len(units)):
            for j in range(i, len(units)):
                both = units[i, 0] @ units[j, 1] + units[j, 0] @ units[i, 1]
                columns.append(both / 2 if i == j else both)
        columns += [*(self.traits(a) + self.traits(b)), *np.minimum(self.traits(a), self.traits(b))]
        past, row = self.past(a, b), head.negatives
        if past is not None:
            columns, row = [*columns, *past[:-1]], head.known
        seen = [min(max(x, low), high) for x, low, high in zip(columns, head.low, head.high, strict=False)]
        return row @ np.array([1.0, *seen, *([] if past is None else [past[-1]])])


def disagreement(seed, batch=7, late=False):
    """Play events in batches, and return how far live and twin are apart."""
    live, table = dygcn.start(model_for()), events(seed)
    twin = Twin(live.model.unit)
    if late:  # some batches tell of things that were long ago
        table["t"] = np.random.default_rng(seed).permutation(table["t"])
    worst = 0.0
    for first in range(0, len(table["src"]), batch):
        part = cut(table, slice(first, first + batch))
        live.update(part)
        twin.apply(part)
        assert sorted(live) == sorted(twin.nodes)
        here = live.ids()
        if len(here) > 1:
            a, b = np.repeat(here[:8], 3), np.random.default_rng(first).choice(here, 3 * len(here[:8]))
            a, b = a[a != b], b[a != b]
            for links, head in SCORED.items():
                expected = [twin.score(live, x, y, head) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
                worst = max(worst, np.abs(live.score(a, b, links) - expected).max(initial=0.0))
                assert live.score(a, b, links).tolist() == live.score(b, a, links).tolist()
    return worst


@pytest.mark.parametrize("seed", range(25))
def test_scores_equal_the_twin(seed):
    assert disagreement(seed) < 1e-5


@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_the_twin_when_events_come_late(seed):
    assert disagreement(seed, late=True) < 1e-5


def noticed(seed):
    try:
        return disagreement(seed) > 1e-3
    except RuntimeWarning:  # the logarithm of a contact in the future
        return True


def test_a_newcomer_inherits_nothing():
    """Nodes are recycled: it could have the contacts of a node that left."""
    live = dygcn.start(model_for())
    live.update({"src": [1, 2], "dst": [2, 3], "t": [9.0, 9.0]})
    live.update(remove_nodes=[3])
    live.update({"src": [1], "dst": [4], "t": [2.0]})
    graph = live._state.graph
    assert graph.contacts.of(graph.find(graph.ids.names(graph.nodes())))[0].tolist()[-1] == 2.0


def test_contacts_that_outlive_their_node_are_noticed(tmp_path):
    line = "if not now and len(graph.nodes.last) > 0:"
    assert_noticed(tmp_path, "dygcn.engine.graph.delta", line, "if False:", test_a_newcomer_inherits_nothing)


def test_the_twin_notices_a_clock_that_stands_still(monkeypatch):
    monkeypatch.setattr(
        Contacts, "since", lambda self, nodes: 7.0 - self.of(nodes)[0]
    )  # the last event's time
    assert noticed(0)


@pytest.mark.parametrize("batch", [1, 3, 50, 1000])
def test_batches_do_not_matter(batch):
    table, model = events(5), model_for()
    whole, parts = dygcn.start(model), dygcn.start(model)
    whole.update(table)
    for first in range(0, len(table["src"]), batch):
        parts.update(cut(table, slice(first, first + batch)))
    ids = whole.ids()
    np.testing.assert_array_equal(whole.score(ids[:-1], ids[1:]), parts.score(ids[:-1], ids[1:]))
    assert whole.digest() == parts.digest()


def test_saved_copied_and_recomputed_scores_are_the_same(tmp_path):
    live = dygcn.start(model_for())
    live.update(events(3))
    live.save(tmp_path / "graph.dygcn")
    ids = live.ids()
    expected = live.score(ids[:-1], ids[1:])
    for other in (dygcn.load(tmp_path / "graph.dygcn"), copy.deepcopy(live), live.recompute()):
        np.testing.assert_array_equal(other.score(ids[:-1], ids[1:]), expected)
        other.update(add=[(1, 2)], now=20.0)
        assert other._state.graph.clock == 20.0
    assert live._state.graph.clock == 7.0


def test_time_passes_without_events():
    live = dygcn.start(model_that_likes_activity())
    live.update({"src": [1, 2], "dst": [2, 3], "t": [0.0, 1.0]})
    before = live.score(1, 3)
    live.update(now=9.0)
    assert live.score(1, 3) < before  # both are longer ago
    waited = live.score(1, 3)
    live.update(add=[(1, 2)], now=9.0)  # a repeated contact is one, too
    assert waited < live.score(1, 3) < before


def test_events_without_a_time_happen_when_the_last_one_did():
    live = dygcn.start(model_for())
    live.update({"src": [1], "dst": [2], "t": [5.0]})
    live.update(add=[(2, 3)])
    graph = live._state.graph
    assert graph.contacts.since(graph.nodes()).tolist() == [0.0, 0.0, 0.0]


def test_a_model_that_never_saw_a_time_can_be_saved(tmp_path):
    live = dygcn.start(model_for())
    live.update(add=[(1, 2), (2, 3)])
    assert live._state.graph.clock is None
    live.save(tmp_path / "graph.dygcn")
    for other in (dygcn.load(tmp_path / "graph.dygcn"), live.recompute()):
        assert other.score(1, 3) == live.score(1, 3)
    live.update(add=[(3, 4)], now=2.0)
    assert live.recompute().score(1, 4) == live.score(1, 4)


def test_directed_graphs_see_both_directions():
    live = dygcn.start(model_for(directed=True))
    live.update({"src": [1, 2, 3, 9], "dst": [5, 5, 5, 1], "t": [0.0, 0.0, 1.0, 1.0]})
    graph = live._state.graph
    sink = graph.find(graph.ids.names(graph.nodes()))[live.ids().tolist().index(5)]
    traits = node_traits(graph, np.array([sink, -1], np.int32), 2.0)
    np.testing.assert_allclose(traits[:, :3], [[np.log1p(3), 0.5, 0.0], [0.0, 1.0, np.log1p(240.0)]])
    assert traits[1, 3] == 0.0 < traits[0, 3]
    assert live.score(5, 9) == live.score(9, 5)


def test_dot_products_of_link_vectors_are_what_a_dot_product_can_say():
    live = dygcn.start(model_for())
    live.update(events(4))
    ids, vectors = live.ids(), live.vectors(live.ids()).astype(float)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    graph = live._state.graph
    traits = node_traits(graph, graph.find(IdColumn(ids)), live.model.unit)
    for links, head in SCORED.items():
        index, query = live.link_vectors(ids, links=links), live.link_vectors(ids, query=True, links=links)
        assert index.shape == (len(ids), live.model.dim + 2)
        bias, cosine, *terms = head.dot
        own = traits @ np.array(terms)
        expected = cosine * units @ units.T + own[:, None] + own[None, :] + bias
        np.testing.assert_allclose(query @ index.T, expected, atol=1e-4)


def test_a_fit_learns_what_it_should():
    """Nodes that were busy a moment ago make the new links here, whatever their vectors say."""
    random = np.random.default_rng(0)
    rows = [(*random.choice(300, 2, replace=False), 0) for _ in range(900)]
    for step in range(1, 24):
        busy = 10 * step % 290 + np.arange(12)
        rows += [(*random.choice(busy, 2, replace=False), step) for _ in range(40)]
    live = dygcn.fit(rows, columns=("src", "dst", "t"), dim=16, width=32, recipe=Recipe(rounds=60))
    assert set(live.model.links) == set(HEADS)
    assert live.model.links["new"].dot[2 + 2] < -0.3  # of the age
    assert live.model.unit == 1.0


def test_without_a_score_the_cosine_answers():
    live = dygcn.fit(events(1), dim=8, recipe=Recipe(rounds=5, held_out=0.0))
    assert live.model.links == {}
    ids = live.ids()
    vectors = live.vectors(ids)
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(live.score(ids[:-1], ids[1:]), (units[:-1] * units[1:]).sum(axis=1), atol=1e-6)
    assert live.link_vectors(ids).shape == (len(ids), 10)


def test_errors_say_what_to_do():
    live = dygcn.fit(events(1), dim=8, recipe=Recipe(rounds=5))
    with pytest.raises(OptionError, match="links is 'old'; known: new, all, next, listed"):
        live.score(1, 2, links="old")
    with pytest.raises(OptionError, match="2 ids on one side and 3 on the other"):
        live.score([1, 2], [3, 4, 5])
    with pytest.raises(UnknownNode):
        live.score(1, 12345)
    with pytest.raises(OptionError, match="held_out"):
        Recipe(held_out=1.0)
