"""Rows made anew: beside the old ones, turned onto them, and judged on links that neither has seen."""

import copy
import dataclasses

import numpy as np
import pytest

import dygcn
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph.image import take_image
from dygcn.engine.models.state import State
from dygcn.errors import FeatureError
from dygcn.live import refitting
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.refitting import FEWEST, linked_pairs, newest_edges
from dygcn_lab.testbed.seeding import seeded

COLUMNS = ("src", "dst", "t")
NODES = 120


def events(seed=0, links=700, begin=0, first=0):
    """Return edges inside of three groups of nodes, as (a, b, t)."""
    random = np.random.default_rng(seed)
    groups = random.integers(0, 3, links) * (NODES // 3)
    pairs = first + random.integers(0, NODES // 3, (links, 2)) + groups[:, None]
    return [(int(a), int(b), begin + t) for t, (a, b) in enumerate(pairs) if a != b]


def fitted(**options):
    return dygcn.fit(events(), dim=16, columns=COLUMNS, **options)


def grown(**options):
    """Return an embedding that was followed far: as many newcomers as nodes that have a row."""
    live = fitted(**options)
    live.update(events(1, begin=1000, first=1000), columns=COLUMNS)
    live.update([(a, 1000 + a, 2000) for a in range(0, NODES, 7)], columns=COLUMNS)
    return live


def with_rotated_rows(live):
    """Return the same embedding, its rows turned at random: whatever reads them sees the same cosines."""
    table = live.model.table
    turn, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((live.model.dim, live.model.dim)))
    rows = (table.rows.astype(np.float64) / 128 * table.scale) @ turn
    turned = RowTable.of(table.ids, rows.astype(np.float32), table.window)
    model = dataclasses.replace(live.model, table=turned, scales=np.full(live.model.dim, turned.scale))
    return LiveEmbedding(State.from_image(model, live._state.image()[0]))


def image_of(live):
    image, _ = take_image(live._state.graph)
    return {
        name: getattr(image, name).tolist() for name in ("a", "b", "weight", "ghost_weight", "ghost_t")
    } | {"ids": live.ids().tolist(), "contact": image.contact.tolist(), "clock": image.clock}


def test_right_after_fit_vectors_stay_where_they_are():
    live = fitted()
    found = live.refit()
    assert found.cosine > 0.99
    assert found.cosine_p10 > 0.99
    nodes = live.ids()
    alike = np.einsum("ij,ij->i", live.vectors(nodes), found.embedding.vectors(nodes))
    assert found.cosine == pytest.approx(alike.mean(), abs=1e-6)
    assert found.cosine_p10 == pytest.approx(np.quantile(alike, 0.1), abs=1e-6)
    assert not found.gains  # the old rows know the links that the new ones are not shown


def test_new_rows_are_turned_onto_old_ones():
    live = with_rotated_rows(fitted())
    assert live.refit().cosine > 0.99


def test_rows_that_are_not_turned_would_be_noticed():
    """The seeded bug of the test above."""
    live = with_rotated_rows(fitted())
    with seeded(refitting, "alignment", lambda ids, rows, old: np.eye(rows.shape[1])):
        assert live.refit().cosine < 0.5


def test_the_old_embedding_is_left_alone():
    live = grown()
    before = live.digest(), live.version, live.vectors(live.ids()), live.model
    found = live.refit()
    assert (live.digest(), live.version, live.model) == (before[0], before[1], before[3])
    np.testing.assert_array_equal(live.vectors(live.ids()), before[2])
    digest = found.embedding.digest()
    live.update(add=[(1, 5555)])
    assert found.embedding.digest() == digest
    found.embedding.update(add=[(1, 6666)])
    assert 6666 not in live


@pytest.mark.parametrize("options", [{}, {"directed": True}, {"memory": 500.0}])
def test_the_new_embedding_has_the_same_graph_and_follows_it(options):
    live = grown(**options)
    live.update([(a, b, 3000, -1) for a, b, _ in events()[:40]])
    new = live.refit().embedding
    assert type(new) is LiveEmbedding
    assert image_of(new) == image_of(live)
    assert (new.version, new.model.links, new.model.seed) == (0, live.model.links, live.model.seed)
    assert new.digest() == new.recompute().digest()
    new.update([(1, 7777, 3001)], columns=COLUMNS)
    assert new.digest() == new.recompute().digest()


def test_newcomers_have_rows_afterwards():
    live = grown()
    found = live.refit()
    assert live.unreached > found.embedding.unreached == 0
    assert np.isnan(live.features([1001])).all()
    assert np.isfinite(found.embedding.features([1001])).all()
    assert found.gains
    assert found.auc_after > found.auc_before
    assert found.auc_after - found.auc_before > 2 * found.auc_error > 0
    assert str(found).startswith(f"Refit(gains=True, auc {found.auc_before:.3f} -> {found.auc_after:.3f} (±")


def test_equal_graphs_are_refitted_equally():
    live = grown()
    one, two = live.refit(), copy.deepcopy(live).refit()
    other = dygcn.start(live.model)  # by another way, with other numbers of nodes
    other.update([(9001, 9002, 0)], columns=COLUMNS)
    other.update(events(1, begin=1000, first=1000), columns=COLUMNS)
    other.update([(9001, 9002, 1, -1)])
    other.update(events(), columns=COLUMNS)
    other.update([(a, 1000 + a, 2000) for a in range(0, NODES, 7)], columns=COLUMNS)
    assert other.digest() == live.digest()
    for found in (two, other.refit()):
        assert found.embedding.digest() == one.embedding.digest()
        np.testing.assert_array_equal(found.embedding.model.table.rows, one.embedding.model.table.rows)
        assert (found.auc_before, found.auc_after, found.cosine) == (
            one.auc_before,
            one.auc_after,
            one.cosine,
        )


def auc_of(live, linked, others):
    linked, others = (
        np.einsum("ij,ij->i", *(live.vectors(side) for side in pairs.T)).round(6)
        for pairs in (linked, others)
    )
    return np.mean((linked[:, None] > others) + 0.5 * (linked[:, None] == others))


def test_the_comparison_is_that_of_an_embedding_without_the_held_out_links():
    live = grown()
    seen = {}

    def kept(state, linked, others, cosines=refitting._cosines):
        ids = state.graph.ids.names(np.concatenate((linked, others)).ravel()).values.tolist()
        seen["pairs"], seen["links"] = np.array(ids).reshape(-1, 2), len(linked)
        return cosines(state, linked, others)

    with seeded(refitting, "_cosines", kept):
        found = live.refit()
    linked, others = seen["pairs"][: seen["links"]], seen["pairs"][seen["links"] :]
    edges = {tuple(sorted((a, b))) for a, b, _ in events() + events(1, begin=1000, first=1000)}
    edges |= {(a, 1000 + a) for a in range(0, NODES, 7)}
    held = {tuple(sorted(pair)) for pair in linked.tolist()}
    assert len(held) == found.held_out == len(others) == FEWEST
    assert held < edges
    assert not {tuple(sorted(pair)) for pair in others.tolist()} & edges
    smaller = dygcn.start(live.model)
    smaller.update(add=sorted(edges - held))
    assert sorted(smaller) == sorted(live)
    assert found.auc_before == pytest.approx(auc_of(smaller, linked, others), abs=1e-3)
    # Turned alike, since 8 bits round otherwise after another turn, which moves the AUC of so few links.
    turned = refitting._with_new_rows(live.model, smaller._state.graph, None)
    anew = LiveEmbedding(State.from_image(turned, smaller._state.image()[0]))
    assert found.auc_after == pytest.approx(auc_of(anew, linked, others), abs=1e-3)


def test_the_newest_edges_are_held_out_and_nobody_is_left_alone():
    live = fitted()
    live.update(events(1, begin=1000, first=1000), columns=COLUMNS)
    graph = live._state.graph
    chosen = newest_edges(graph, 64, np.random.default_rng(0))
    assert (graph.ids.names(chosen.ravel()).values >= 1000).all()
    pairs = linked_pairs(graph)
    rest = {tuple(pair) for pair in pairs.tolist()} - {tuple(pair) for pair in chosen.tolist()}
    assert len(rest) == len(pairs) - 64
    assert set(np.unique(list(rest))) == set(np.unique(pairs))
    everything = newest_edges(graph, 10**6, np.random.default_rng(0))
    rest = {tuple(pair) for pair in pairs.tolist()} - {tuple(pair) for pair in everything.tolist()}
    assert set(np.unique(list(rest))) == set(np.unique(pairs))


def test_both_directions_of_a_held_out_link_are_taken_out():
    pairs = [(a, b) for a, b, _ in events()]
    live = dygcn.fit([*pairs, *((b, a) for a, b in pairs)], dim=16, directed=True)
    image, _ = take_image(live._state.graph)
    place = linked_pairs(live._state.graph)
    assert len(image.a) == 2 * len(place)
    held = np.array([[image.a[0], image.b[0]]], np.int64)
    assert len(refitting._without(image, held).a) == len(image.a) - 2


def test_a_held_out_link_leaves_no_ghost():
    live = grown(memory=1e6)
    image, _ = take_image(live._state.graph)
    held = np.array([[image.a[0], image.b[0]]], np.int64)
    graph = live.model.new_graph()
    refitting.build_graph(refitting._without(image, held), graph)
    assert len(graph.edges()[0]) == len(image.a) - 1


def test_few_links_are_not_compared():
    found = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "ann")], dim=4).refit()
    assert np.isnan([found.auc_before, found.auc_after]).all()
    assert not found.gains
    assert "too few to compare" in repr(found)


BASE = dygcn.Embedding([1, 2, 3], np.eye(3, 4, dtype=np.float32))


@pytest.mark.filterwarnings("ignore::dygcn.errors.TrainingWarning")
@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({"features": "hashed"}, "features='hashed'; fit again on the events"),
        ({"features": {1: [1.0], 2: [2.0]}}, "features='given'; fit again"),
        ({"features": dygcn.Embedding([1, 2], np.eye(2, dtype=np.float32))}, "features='embedding'; fit"),
        ({"rule": "rolling", "base": BASE}, r"restart\(\) puts a fresh base"),
    ],
)
def test_other_models_are_refused(options, result):
    options = {"dim": 4} | options if not isinstance(options.get("features"), dygcn.Embedding) else options
    live = dygcn.fit([(1, 2), (2, 3)], **options)
    with pytest.raises(FeatureError, match=result):
        live.refit()


def test_a_graph_without_edges_is_refused():
    with pytest.raises(FeatureError, match="no edge now"):
        dygcn.start(fitted().model).refit()


def test_a_tolerance_is_kept():
    live = grown()
    live.publish(tolerance=0.1)
    new = live.refit().embedding
    assert new._tolerance == 0.1
    assert new.digest() == new.recompute().digest()


def test_a_durable_embedding_is_only_read(tmp_path):
    with dygcn.open(tmp_path / "x", fitted()) as live:
        live.update([(1, 900, 2000), (900, 901, 2001)], columns=COLUMNS)
        before = live.digest(), live.version, live.sequence, live.feed.history, live._log.last
        files = {file: file.read_bytes() for file in sorted(live._folder.rglob("*")) if file.is_file()}
        found = live.refit()
        assert (live.digest(), live.version, live.sequence, live.feed.history, live._log.last) == before
        after = {file: file.read_bytes() for file in sorted(live._folder.rglob("*")) if file.is_file()}
        assert after == files
        assert type(found.embedding) is LiveEmbedding
        with dygcn.open(tmp_path / "y", found.embedding) as new:
            assert sorted(new) == sorted(live)
            assert not new.feed.confirms(live.feed.history)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_graph_without_strangers_is_not_compared(missing):
    """Of a complete graph every pair is linked; with one edge less, one pair of negatives is all there is."""
    first, second = np.triu_indices(20, 1)
    found = dygcn.fit({"src": first[missing:], "dst": second[missing:]}, dim=16).refit()
    assert np.isnan([found.auc_before, found.auc_after, found.auc_error]).all()
    assert not found.gains
    assert "too few to compare" in str(found)


def test_strangers_count_once():
    """A pair that is drawn twenty times is one pair: else the error of the gain looks too small."""
    image = fitted()._state.image()[0].graph
    held = np.stack((image.a, image.b), axis=1).astype(np.int64)
    drawn = refitting._negatives(image, np.repeat(held, 20, axis=0), np.random.default_rng(0))
    assert len(np.unique(np.sort(drawn, axis=1), axis=0)) == len(drawn) < 20 * len(held)
