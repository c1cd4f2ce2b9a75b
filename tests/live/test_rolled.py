"""A rolled embedding as users hold it: a state machine against the dense twin, files, health, cost."""

import dataclasses
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.graph import apply_batch
from dygcn.engine.models.folder import read_folder, write_folder
from dygcn.engine.models.model import Model, find_spec
from dygcn.errors import DamagedFolder, DriftWarning, FeatureError, NormBandWarning, OptionError
from dygcn.paper import Base, RuleOptions, Watch, plans
from dygcn.paper.spec import with_base
from dygcn_lab.testbed.graphs import GraphOracle, random_events
from tests.paper.dense_twin import DenseTwin

DIM = 4
IDS = range(9)
OPTIONS = {"published": RuleOptions(), "ours": RuleOptions("mean", "tanh", "rest", level=True)}


def model_of(rule_name, options=None, watch=None, scale=0.4, dim=DIM, seed=0):
    random = np.random.default_rng(seed)
    weights = tuple(scale * random.standard_normal((dim, dim)).astype(np.float32) for _ in range(3))
    spec = find_spec(rule_name)(options or RuleOptions(), Base(), watch or Watch())
    return Model(weights, "int64", "none", np.ones(dim), spec=spec)


def begun(rule_name, options=None, watch=None, scale=0.4, ids=IDS):
    live = dygcn.start(model_of(rule_name, options, watch, scale))
    random = np.random.default_rng(1)
    vectors = np.abs(random.standard_normal((len(ids), DIM))).astype(np.float32)
    live.restart(dygcn.Embedding(list(ids), vectors))
    return live


class RolledRules(RuleBasedStateMachine):
    """Any sequence of updates, node removals, saves and restarts: the twin agrees after each."""

    rule_name, options = "rolling", OPTIONS["published"]

    def __init__(self):
        super().__init__()
        self.live = begun(self.rule_name, self.options)
        self.oracle = GraphOracle()
        self.twin = DenseTwin(
            [w.astype(np.float64) for w in self.live.model.weights],
            range(20),
            self.options,
            self.rule_name == "spectral",
        )
        self.twin.start({}, self.vectors())

    def vectors(self):
        ids = self.live.ids().tolist()
        return dict(zip(ids, self.live.vectors(ids).astype(np.float64), strict=True))

    @rule(
        batch=st.lists(
            st.tuples(
                st.integers(0, 12),
                st.integers(0, 12),
                st.just(0.0),
                st.sampled_from([1, 1, -1]),
                st.just(1.0),
            ),
            max_size=8,
        )
    )
    def update(self, batch):
        self.twin.start(self.oracle.weights(), self.vectors())
        change = self.live.update(batch)
        self.oracle.apply(batch)
        sizes = self.twin.move_to(self.oracle.weights())
        assert change.rows == sum(sizes)

    @rule(swap=st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)))
    def gain_and_lose_equally(self, swap):
        a, b, c = swap
        if len({a, b, c}) == 3:
            self.update([(a, b, 0.0, 1, 1.0), (a, c, 0.0, -1, 1.0)])
            self.update([(a, b, 0.0, -1, 1.0), (a, c, 0.0, 1, 1.0)])

    @rule(node=st.integers(0, 12))
    def remove_a_node(self, node):
        if node in self.live:
            self.twin.start(self.oracle.weights(), self.vectors())
            self.oracle.remove_node(node)
            change = self.live.update(remove_nodes=[node])
            sizes = self.twin.move_to(self.oracle.weights(), gone=[node])
            assert change.rows == sum(sizes)
            assert node not in self.live

    @rule(batch=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5))
    def a_saved_copy_goes_on_with_the_same_bits(self, batch):
        with tempfile.TemporaryDirectory() as folder:
            self.live.save(f"{folder}/x")
            copy = dygcn.load(f"{folder}/x")
        assert copy.digest() == self.live.digest()
        copy.update(add=batch)
        self.update([(a, b, 0.0, 1, 1.0) for a, b in batch])
        assert copy.digest() == self.live.digest()

    @rule()
    def restart(self):
        self.live.restart(dygcn.Embedding([1, 2, 5], np.ones((3, DIM), np.float32)))
        self.twin.start(self.oracle.weights(), self.vectors())

    @invariant()
    def equals_the_twin(self):
        ids = self.live.ids().tolist()
        wanted = self.twin.Z[ids]
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(self.live.vectors(ids), wanted, rtol=1e-5, atol=1e-5 * scale)


HUNT = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rule_name", ["rolling", "spectral"])
def test_any_sequence_of_changes(rule_name, options):
    machine = type("Machine", (RolledRules,), {"rule_name": rule_name, "options": OPTIONS[options]})
    run_state_machine_as_test(machine, settings=HUNT)


def test_terms_stand_in_the_order_of_ids_and_a_bug_there_is_caught(monkeypatch):
    """The seeded bug: terms in storage order, which saving and loading change."""

    def by_place(graph, position, sender, row, factor, n):
        order = np.lexsort((sender, position))
        first = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(position, minlength=n), out=first[1:])
        return plans.Mix(first, row[order].astype(np.int64), factor[order].astype(np.float64))

    assert _terms_are_the_same_after_a_load()
    monkeypatch.setattr(plans, "_mix", by_place)
    assert not _terms_are_the_same_after_a_load()


def _terms_are_the_same_after_a_load():
    events = random_events("hub", 0, nodes=40)
    live = begun("rolling", OPTIONS["ours"], ids=range(39, -1, -1))
    live.update(events[:60])
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/x")
        copy = dygcn.load(f"{folder}/x")
    terms = []
    for each in (live, copy):
        graph = each._state.graph
        plan = plans.make_plan(graph, apply_batch(graph, read_events(events[60:90])), 1, OPTIONS["ours"])
        receivers = np.repeat(plan.influence.orders[0], np.diff(plan.changes[0].first))
        names = [graph.ids.names(nodes.astype(np.int32)).values for nodes in (receivers, plan.changes[0].row)]
        order = np.argsort(names[0], kind="stable")
        terms.append([*(column[order].tolist() for column in names), plan.changes[0].factor[order].tolist()])
    return terms[0] == terms[1]


def test_rows_are_those_of_the_influenced_nodes_whatever_the_size_of_the_graph():
    events = random_events("sparse", 4, nodes=40, loops=False)
    rows = []
    for others in (0, 1000, 20_000):
        live = begun("rolling", ids=range(40))
        live.update({"src": np.arange(1000, 1000 + others), "dst": np.arange(1001, 1001 + others)})
        rows.append([live.update(events[at : at + 5]).rows for at in range(0, len(events), 5)])
    assert rows[0] == rows[1] == rows[2]
    assert min(rows[0]) >= 1


def test_the_change_says_who_moved_and_at_which_order():
    live = begun("rolling", ids=range(6))
    live.update(add=[(0, 1), (1, 2), (2, 3), (4, 5)])
    change = live.update(add=[(0, 4)])
    assert dict(zip(change.ids.tolist(), change.orders.tolist(), strict=True)) == {0: 1, 4: 1, 1: 2, 5: 2}
    assert change.rows == 4
    np.testing.assert_array_equal(change.vectors, live.vectors(change.ids))
    live = begun("spectral", ids=range(6))
    change = live.update(add=[(0, 4)])
    assert sorted(zip(change.orders.tolist(), change.ids.tolist(), strict=True)) == [
        (1, 0),
        (1, 4),
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 5),
    ]
    assert change.rows == 2 + 6


def test_events_without_effect_move_nothing():
    live = begun("rolling")
    live.update(add=[(0, 1), (1, 2)])
    before = live.digest()
    change = live.update([(0, 1, 0, 1), (5, 6, 0, 1), (5, 6, 0, -1), (7, 8, 0, -1)])
    assert (len(change), change.unchanged, change.missing) == (0, 1, 1)
    assert live.digest() == before


def test_a_node_without_edges_stays_until_it_is_removed():
    live = begun("rolling", OPTIONS["ours"])
    live.update(add=[(0, 50)])
    vector = live[50]
    change = live.update(remove=[(0, 50)])
    assert 50 in live
    assert 50 not in change.ids
    np.testing.assert_array_equal(live[50], vector)
    live.update(remove_nodes=[50])
    assert 50 not in live


def test_what_the_exact_rule_has_is_refused():
    live = begun("rolling")
    with pytest.raises(OptionError, match=r"restart\(\) takes a fresh base"):
        live.recompute()
    with pytest.raises(FeatureError, match="keeps vectors: it has no features"):
        live.set_features([1], [[1.0] * DIM])
    with pytest.raises(FeatureError, match="keeps vectors"):
        live.features([1])
    with pytest.raises(OptionError, match="never drifts"):
        dygcn.fit([(1, 2)], dim=4).restart()


def exploding(watch):
    live = begun("rolling", RuleOptions("sum", "none"), watch, scale=3.0)
    random = np.random.default_rng(2)
    pairs = random.integers(0, 9, (200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormBandWarning)
        live.update(add=pairs[:20])
    live.restart(dygcn.Embedding(list(IDS), np.ones((9, DIM))))
    return live, pairs


def test_the_norm_band_warns_of_explosion_and_collapse():
    live, pairs = exploding(Watch(band=(0.5, 2.0), every=1))
    with pytest.warns(NormBandWarning, match="the run explodes: at version .* band is 0.5 to 2"):
        live.update(add=pairs)
    live = begun("rolling", RuleOptions("sum", "none"), Watch(band=(0.5, 2.0), every=1), scale=0.01)
    with pytest.warns(NormBandWarning, match="the run collapses"):
        live.update(add=[(a, b) for a in IDS for b in range(a)])


def test_without_a_band_nothing_is_said_and_nothing_becomes_infinite():
    live, pairs = exploding(Watch())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            live.update(add=pairs[:100])
            live.update(remove=pairs[:100])
    vectors = live.vectors(live.ids())
    assert np.isfinite(vectors).all()
    assert np.abs(vectors).max() > 1e20
    assert np.isfinite(live.score(1, 2))
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/x")
        assert dygcn.load(f"{folder}/x").digest() == live.digest()


def drifting(links):
    """Two blocks with good vectors; then one update after the other scrambles them."""
    watch = Watch(links=links, every=1)
    model = model_of("rolling", RuleOptions("mean", "none"), None, scale=1.0)
    eye = np.eye(DIM, dtype=np.float32)
    base = Base("gcn", tensors={"in": eye, "out": eye})
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, base=base, watch=watch))
    live = dygcn.start(model)
    ids = np.arange(80)
    pairs = [(a, b) for a in range(80) for b in range(a) if (a < 40) == (b < 40)]
    live.update(add=pairs)
    vectors = np.zeros((80, DIM), np.float32)
    vectors[:40, 0] = vectors[40:, 1] = 1
    live.restart(dygcn.Embedding(ids, vectors))
    return live, dygcn.Embedding(ids, vectors)


def scramble(live):
    random = np.random.default_rng(0)
    pairs = random.integers(0, 80, (12, 150, 2))
    changes = [live.update(**{"remove" if i % 2 else "add": batch}) for i, batch in enumerate(pairs)]
    assert np.array_equal(changes[-1].vectors, live.vectors(changes[-1].ids))
    return changes


def test_the_sampled_check_warns():
    live, _ = drifting(0.1)
    with pytest.warns(DriftWarning, match=r"sampled links have AUC 0.\d+, at the last base 1.000"):
        scramble(live)


def test_a_warning_that_is_an_error_leaves_the_update_whole():
    live, _ = drifting(0.1)
    live.nearest(1)
    version = live.version
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DriftWarning):
            scramble(live)
    assert live.version > version
    near, score = live.nearest(1, k=1)[0]
    assert live.score(1, near) == pytest.approx(score)


def test_without_a_check_of_links_nothing_is_said():
    live, _ = drifting(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all((change.orders > 0).all() for change in scramble(live))


def test_a_base_with_too_few_links_is_compared_with_the_first_check_that_has_enough():
    watch = Watch(links=0.05, every=1)
    live = begun("rolling", OPTIONS["ours"], watch, ids=range(60))
    live.update(add=[(0, 1)])
    assert live._state.rule.anchor[1] == -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.update(add=[(a, a + 1) for a in range(59)])
    assert 0 < live._state.rule.anchor[1] <= 1


def test_chance_alone_does_not_warn():
    live, _ = drifting(0.1)
    random = np.random.default_rng(3)
    live.restart(dygcn.Embedding(np.arange(80), random.standard_normal((80, DIM))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            live.update()


def test_nothing_happened_nothing_moves_in_the_spectral_rule_either():
    live = begun("spectral", OPTIONS["ours"])
    live.update(add=[(0, 1), (1, 2)])
    before = live.digest()
    for change in (live.update(), live.update(add=[(0, 1)]), live.update(remove_nodes=[777])):
        assert (len(change), change.rows) == (0, 0)
    assert live.digest() == before
    assert len(live.update(remove=[(0, 1)])) == len(live)


def test_a_partial_embedding_reaches_everybody_who_is_linked():
    live = begun("rolling", OPTIONS["ours"])
    live.update(add=[(0, 1), (1, 2), (2, 3), (5, 6)])
    alone = live[5]
    live.restart(dygcn.Embedding([0], np.ones((1, DIM))))
    np.testing.assert_array_equal(live.vectors([0, 1, 2, 3]), np.ones((4, DIM)))
    np.testing.assert_array_equal(live[5], alone)
    with pytest.raises(OptionError, match=r"base is a str; allowed is a dygcn\.Embedding"):
        live.restart("gcn")


def test_a_sample_depends_on_ids_alone():
    live, _ = drifting(0.1)
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/x")
        copy = dygcn.load(f"{folder}/x")
    graphs = live._state.graph, copy._state.graph
    names = [graph.ids.names(graph.some_nodes(7, 20)).values.tolist() for graph in graphs]
    assert names[0] == names[1]
    assert names[0] != live._state.graph.ids.names(live._state.graph.some_nodes(8, 20)).values.tolist()
    np.testing.assert_array_equal(copy._state.rule.anchor, live._state.rule.anchor)


FILES = ("model.safetensors", "graph.safetensors")


def _base(settings, model, name, shapes):
    settings["paper"]["base"] = name
    model.update({f"base.{key}": np.ones(shape, np.float32) for key, shape in shapes.items()})


LIES = {
    "vectors that are NaN": lambda s, m, g: g["vectors"].fill(np.nan),
    "too few vectors": lambda s, m, g: g.update(vectors=g["vectors"][1:].copy()),
    "no vectors": lambda s, m, g: g.pop("vectors"),
    "an anchor of another shape": lambda s, m, g: g.update(anchor=np.zeros(2)),
    "matrices that are not square": lambda s, m, g: [
        m.update({k: m[k][:, :2].copy()}) for k in ("W0", "W1", "W2")
    ],
    "another rule": lambda s, m, g: s.update(rule="spectral"),
    "the exact rule": lambda s, m, g: s.update(rule="exact"),
    "no settings of the rule": lambda s, m, g: s.update(paper=None),
    "features": lambda s, m, g: s.update(features="hashed"),
    "an unknown aggregation": lambda s, m, g: s["paper"]["options"].update(aggregation="max"),
    "an unknown base": lambda s, m, g: s["paper"].update(base="bert"),
    "an impossible band": lambda s, m, g: s["paper"]["watch"].update(band=[3.0, 4.0]),
    "a base with NaN": lambda s, m, g: m.update({"base.in": np.full((2, 2), np.nan, np.float32)}),
    "an AUC above one": lambda s, m, g: g.update(anchor=np.array([1.0, 1.5, 0.0])),
    "tensors of no base": lambda s, m, g: m.update({"base.in": np.ones((2, DIM), np.float32)}),
    "a base without tensors": lambda s, m, g: s["paper"].update(base="gcn"),
    "a base too tall": lambda s, m, g: _base(s, m, "gcn", {"in": (2, DIM), "out": (5000, DIM)}),
    "a base too narrow": lambda s, m, g: _base(s, m, "gcn", {"in": (2, DIM), "out": (DIM, 1)}),
    "a base without rows": lambda s, m, g: _base(s, m, "gcn", {"in": (0, DIM), "out": (DIM, DIM)}),
    "a check beyond any AUC": lambda s, m, g: s["paper"]["watch"].update(links=2.0),
    "a network of junk": lambda s, m, g: _base(s, m, "gcn", {"junk": (2, 2)}),
    "endless epochs": lambda s, m, g: s["paper"]["recipe"].update(epochs=10**9),
    "an unknown tensor": lambda s, m, g: m.update(more=np.zeros(1)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_folder_that_lies_with_right_checksums_is_refused(tmp_path, lie):
    live = begun("rolling")
    live.update(add=[(0, 1), (1, 2)])
    live.save(tmp_path / "x")
    raw, files, _ = read_folder(tmp_path / "x", FILES)
    model, graph = ({k: np.array(v) for k, v in files[name].items()} for name in FILES)
    LIES[lie](raw, model, graph)
    write_folder(tmp_path / "x", raw, {FILES[0]: model, FILES[1]: graph})
    with pytest.raises(DamagedFolder):
        dygcn.load(tmp_path / "x")


def test_without_the_shape_check_a_hostile_base_would_be_loaded(tmp_path, monkeypatch):
    """The seeded bug behind the lies above: the loops that use a base do not look at its shapes."""
    live = begun("rolling")
    live.save(tmp_path / "x")
    raw, files, _ = read_folder(tmp_path / "x", FILES)
    model, graph = ({k: np.array(v) for k, v in files[name].items()} for name in FILES)
    LIES["a base too tall"](raw, model, graph)
    write_folder(tmp_path / "x", raw, {FILES[0]: model, FILES[1]: graph})
    monkeypatch.setattr("dygcn.paper.spec.check_shapes", lambda base, dim: None)
    assert dygcn.load(tmp_path / "x").model.spec.base.tensors["out"].shape == (5000, DIM)


def test_settings_survive_a_folder(tmp_path):
    watch = Watch(band=(0.2, 5.0), links=0.2, every=3)
    live = begun("spectral", OPTIONS["ours"], watch)
    eye = np.eye(DIM, dtype=np.float32)
    base = Base("gcn", live.model.spec.base.recipe, {"in": eye[:2], "out": eye})
    live._state.model = with_base(live.model, base)
    live.save(tmp_path / "x")
    spec = dygcn.load(tmp_path / "x").model.spec
    assert (spec.options, spec.watch, spec.base.name) == (OPTIONS["ours"], watch, "gcn")
    np.testing.assert_array_equal(spec.base.tensors["in"], eye[:2])


def test_string_ids_weights_direction_and_memory():
    model = dataclasses.replace(
        model_of("rolling", OPTIONS["ours"]), ids="string", directed=True, half_life=2.0
    )
    live = dygcn.start(model)
    live.restart(dygcn.Embedding(["a", "b", "c"], np.eye(3, DIM, dtype=np.float32)))
    live.update([("a", "b", 0, 1, 2.0), ("c", "d", 1, 1, 0.5)])
    assert np.abs(live["d"]).max() == 0  # it aggregates nobody
    before = live["a"]
    live.update([("a", "b", 2, -1, 1.0)])
    assert not np.array_equal(live["a"], before)  # a ghost of half the weight is left
    change = live.update(now=50)
    assert "a" not in change.ids  # its last ghost is gone: it rests
