"""Reads of the graph, exports and questions, against slow versions and against the libraries they are for."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import dygcn
from dygcn.errors import MissingExtra, OptionError, UnknownNode
from dygcn.live import exporting, plotting, recommending, view
from dygcn.live.search import nearest as nearest_module
from tests.live.search.test_index import with_a_bug

EDGES = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("dan", "eve"), ("eve", "ann")]


@pytest.fixture
def live():
    return dygcn.fit(EDGES, dim=8)


@pytest.fixture(scope="module")
def learned():
    """An embedding that learned scores: circles that keep meeting."""
    random = np.random.default_rng(0)
    circle = random.integers(0, 8, 300)
    rows = [
        (int(a), int(b), t)
        for t in range(30)
        for a, b in random.integers(0, 300, (200, 2))
        if a != b and (circle[a] == circle[b] or random.random() < 0.1)
    ]
    found = dygcn.fit(rows, columns=("src", "dst", "t"), dim=16)
    assert "new" in found.model.links
    return found


# ---- the graph ---------------------------------------------------------------------------------------------


def test_neighbors_and_degree(live):
    assert live.neighbors("ann").tolist() == ["bob", "cat", "eve"]
    assert len(live.neighbors("ann")) == 3
    live.update(remove=[("ann", "bob")])
    assert live.neighbors("ann").tolist() == ["cat", "eve"]
    with pytest.raises(UnknownNode):
        live.neighbors("zoe")


def test_neighbors_of_a_directed_graph_are_those_of_both_directions():
    live = dygcn.fit([(1, 2), (3, 1), (4, 5)], dim=4, directed=True)
    assert live.neighbors(1).tolist() == [2, 3]
    assert live.edges().to_pydict() == {"src": [1, 3, 4], "dst": [2, 1, 5], "weight": [1.0, 1.0, 1.0]}


def test_a_removed_edge_that_is_remembered_is_no_edge():
    rows = [(1, 2, 0.0), (2, 3, 0.0), (3, 1, 1.0)]
    live = dygcn.fit(rows, columns=("src", "dst", "t"), dim=4, memory=5.0)
    live.update(remove=[(1, 2)], now=2.0)
    assert live.neighbors(1).tolist() == [3]
    assert live.edges().num_rows == live.edge_count == 2
    assert live.edges().column("src").to_pylist() == [1, 2]
    assert live.edges().column("dst").to_pylist() == [3, 3]


def test_edges_are_taken_back(live):
    live.update([("ann", "bob", 0.5)], columns=("src", "dst", "weight"))
    again = dygcn.start(live.model)
    again.update(live.edges())
    assert again.digest() == live.digest()


# ---- in the types of others --------------------------------------------------------------------------------


def test_vectors_of_all(live):
    assert np.array_equal(live.vectors(), live.vectors(live.ids()))
    assert np.array_equal(live.to_pandas(["cat"]).to_numpy(), live.vectors(["cat"]))


def test_to_pandas(live):
    frame = live.to_pandas()
    assert frame.index.tolist() == live.ids().tolist()
    assert frame.index.name == "id"
    assert np.array_equal(frame.loc["dan"].to_numpy(), live["dan"])


def test_networkx_takes_the_edges(live):
    networkx = pytest.importorskip("networkx")
    graph = live.to_networkx()
    assert networkx.is_connected(graph)
    assert sorted(map(sorted, graph.edges)) == sorted(map(sorted, EDGES))
    assert graph["ann"]["bob"]["weight"] == 1.0


def test_gensim_takes_the_vectors(live):
    models = pytest.importorskip("gensim.models")
    keyed = models.KeyedVectors(live.model.dim)
    keyed.add_vectors(list(live), live.vectors())
    assert np.array_equal(keyed["bob"], live["bob"])
    assert {name for name, _ in keyed.most_similar("ann", topn=2)} == {n for n, _ in live.nearest("ann", 2)}


def test_a_missing_library_is_named(live, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(exporting.importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match="pip install pandas"):
        live.to_pandas()


def test_numpy_does_not_take_ids_for_vectors(live):
    with pytest.raises(TypeError, match=r"live.vectors\(\)"):
        np.asarray(live)


def test_pickle_is_refused_before_and_after_an_update(live):
    for _ in range(2):
        with pytest.raises(TypeError, match=r"live.save\(path\)"):
            pickle.dumps(live)
        live.update(add=[("ann", "gus")])


def test_a_deep_copy_goes_its_own_way(live):
    change = live.update(add=[("ann", "gus")])
    other = copy.deepcopy(live)
    other.update(remove=[("ann", "gus")])
    assert "gus" in live
    assert "gus" not in other
    assert change.ids.tolist()
    assert (live.version, other.version) == (1, 2)


# ---- scores ------------------------------------------------------------------------------------------------


def test_one_id_on_a_side_is_scored_with_all_of_the_other(learned):
    many = [5, 9, 13]
    expected = learned.score([1, 1, 1], many)
    assert np.array_equal(learned.score(1, many), expected)
    assert np.array_equal(learned.score([1], many), expected)
    assert np.array_equal(learned.score(many, 1), learned.score(many, [1, 1, 1]))
    with pytest.raises(OptionError, match="one on a side"):
        learned.score([1, 2], many)


def test_kinds_of_scores(learned, live):
    assert [learned.model.score_kind(links) for links in ("new", "all", "next")] == [
        "log-odds",
        "rank",
        "rank",
    ]
    assert live.model.score_kind() == "cosine"
    odds = learned.score(1, [5, 9])
    assert np.allclose(learned.score(1, [5, 9], probability=True), 1 / (1 + np.exp(-odds)))
    assert 0 < learned.score(1, 5, probability=True) < 1
    for embedding, links in ((learned, "next"), (live, "new")):
        with pytest.raises(OptionError, match="no probabilities"):
            embedding.score(*embedding.ids()[:2].tolist(), links, probability=True)


# ---- nearest -----------------------------------------------------------------------------------------------


def slow_nearest(live, query, k, allowed):
    """Rank by the cosine of float64, number by number; equal cosines by id."""
    one = np.asarray(query, np.float64)
    found = []
    for name in sorted(allowed):
        other = live[name].astype(np.float64)
        size = np.linalg.norm(one) * np.linalg.norm(other)
        found.append((name, float(one @ other / size) if size else 0.0))
    return sorted(found, key=lambda pair: -round(pair[1], 12))[:k]


def assert_like(found, expected):
    """Ids in the same order, scores but for rounding."""
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert np.allclose([score for _, score in found], [score for _, score in expected], atol=1e-12)


def check_nearest_of_many(live, k=7):
    ids = live.ids().tolist()
    many = live.nearest(ids, k)
    assert many == [live.nearest(one, k) for one in ids]
    few = ids[::3]
    restricted = live.nearest(ids, k, among=few)
    assert restricted == [live.nearest(one, k, among=few) for one in ids]
    for one, found in list(zip(ids, many, strict=True))[:20]:
        assert_like(found, slow_nearest(live, live[one], k, [other for other in ids if other != one]))


def test_the_nearest_of_many_nodes_are_those_of_each(learned, monkeypatch):
    check_nearest_of_many(learned)
    monkeypatch.setattr(nearest_module, "_PRODUCTS", 1000)  # some blocks
    check_nearest_of_many(learned)


def test_equals_are_ranked_by_id_also_where_many_are_asked():
    """Leaves of one hub have one vector."""
    leaves = [f"leaf{i:02}" for i in range(40)]
    rows = np.array([[1.0, 0.0]] + [[0.3, 0.7]] * 40, np.float32)
    live = dygcn.fit([("hub", leaf) for leaf in leaves], dim=8, features=(["hub", *leaves], rows))
    found = live.nearest(["leaf07", "hub", "leaf07"], 5)
    assert found[0] == found[2] == live.nearest("leaf07", 5)
    assert [name for name, _ in found[0]] == ["leaf00", "leaf01", "leaf02", "leaf03", "leaf04"]
    check_nearest_of_many(live, 3)
    check_nearest_of_many(live, 100)


def check_nearest_of_many_and_of_equals(live):
    check_nearest_of_many(live)
    test_equals_are_ranked_by_id_also_where_many_are_asked()


MANY_MUTANTS = {
    "no slack": (
        "bar = np.partition(row, last)[last] - slack if len(row) else 0.0",
        "bar = np.partition(row, last)[last] + 1e-7",
    ),
    "oneself counts": (
        "yield top_k(cache, found[found != node], query, k)",
        "yield top_k(cache, found, query, k)",
    ),
    "the first of a block for all": (
        "yield top_k(cache, found[found != node], query, k)",
        "yield top_k(cache, found[found != node], queries[0], k)",
    ),
    "one too few": (
        "last = max(len(everyone) - k, 0)",
        "last = max(len(everyone) - k + 1, 0) % len(everyone)",
    ),
}


@pytest.mark.parametrize("mutant", MANY_MUTANTS)
def test_a_wrong_search_for_many_would_be_noticed(mutant, learned, monkeypatch):
    wrong = with_a_bug(nearest_module, *MANY_MUTANTS[mutant])
    monkeypatch.setattr(view, "top_k_of_each", wrong.top_k_of_each)
    with pytest.raises(AssertionError):
        check_nearest_of_many_and_of_equals(learned)


def test_the_nearest_to_a_vector(learned):
    random, ids = np.random.default_rng(1), learned.ids().tolist()
    for _ in range(20):
        query = random.standard_normal(16)
        expected = slow_nearest(learned, query.astype(np.float32), 5, ids)
        assert_like(learned.nearest(query, 5), expected)
        assert_like(learned.nearest((query * 1000).tolist(), 5), expected)
        even = [one for one in ids if one % 2 == 0]
        assert learned.nearest(query, 5, among=even) == learned.nearest(query, 5, lambda one: one % 2 == 0)
    assert learned.nearest(learned[7], 1)[0][0] == 7
    assert learned.nearest([], 5) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.zeros(16), "no direction"),
        (np.ones(15), "15 numbers; vectors of this embedding have 16"),
        ([0.5] * 17, "17 numbers"),
        ([0.5] * 15 + [np.nan], "not finite"),
        ([1e39] * 16, "not finite"),
        ([0.5] * 15 + ["ann"], "do not mix"),
        (np.ones((2, 16)), "dimensions"),
    ],
)
def test_what_is_no_vector_is_refused(learned, wrong, said):
    with pytest.raises(OptionError, match=said):
        learned.nearest(wrong)


def test_the_nearest_of_an_unknown_node_are_refused(learned):
    with pytest.raises(UnknownNode):
        learned.nearest([3, 999_999])


# ---- recommending ------------------------------------------------------------------------------------------


def slow_recommend(live, node, k, allowed, links):
    others = [one for one in allowed if one != node]
    scored = sorted(zip(others, live.score(node, others, links), strict=True), key=lambda pair: -pair[1])
    return [(name, float(score)) for name, score in scored[:k]]


@pytest.mark.parametrize("links", ["new", "all", "next", "listed"])
def test_recommendations_are_the_best_of_everyone(learned, links):
    for node in (0, 17, 150):
        linked = set(learned.neighbors(node).tolist())
        free = [one for one in learned.ids().tolist() if one not in linked]
        assert learned.recommend(node, 7, links=links) == slow_recommend(learned, node, 7, free, links)
        everyone = learned.ids().tolist()
        found = learned.recommend(node, 7, links=links, exclude_linked=False)
        assert found == slow_recommend(learned, node, 7, everyone, links)


def test_recommendations_are_restricted_to_a_set_or_by_a_function(learned):
    even = [one for one in learned.ids().tolist() if one % 2 == 0]
    by_set = learned.recommend(3, 5, among=even)
    assert by_set == learned.recommend(3, 5, among=lambda one: one % 2 == 0)
    assert all(name % 2 == 0 for name, _ in by_set)


def test_recommendations_of_many_candidates_are_nearly_those_of_everyone(learned, monkeypatch):
    expected = {node: {name for name, _ in learned.recommend(node)} for node in range(0, 300, 5)}
    monkeypatch.setattr(recommending, "EVERYONE", 50)
    monkeypatch.setattr(recommending, "_BY_DOT", (60, 60))
    monkeypatch.setattr(recommending, "_BY_PATH", 60)
    found = {node: {name for name, _ in learned.recommend(node)} for node in expected}
    recall = np.mean([len(found[node] & expected[node]) / len(expected[node]) for node in expected])
    assert recall >= 0.95
    assert all(len(one) == 10 for one in found.values())


def test_recommendations_fall_back_to_cosines(live):
    best = live.recommend("dan", 1)
    assert best == [(name, score) for name, score in live.nearest("dan") if name != "eve"][:1]


@pytest.mark.parametrize("many", [tuple, np.array, iter])
def test_recommendations_of_many_are_those_of_each(learned, many):
    expected = [learned.recommend(node, 3, among=range(200)) for node in (5, 9, 5)]
    assert learned.recommend(many([5, 9, 5]), 3, among=range(200)) == expected
    assert learned.recommend([]) == []
    with pytest.raises(UnknownNode, match=r"^12345 is not"):
        learned.recommend([5, 12345])


@pytest.mark.parametrize("edges", [[(1, 2), (2, 3)], [("a", "b"), ("b", "c")]])
def test_ids_in_two_dimensions_are_refused(edges):
    live = dygcn.fit(edges, dim=4)
    ids = live.ids()
    uses = [
        live.recommend,
        live.vectors,
        lambda one: live.score(one, ids),
        lambda one: live.score(ids, one),
    ]
    for use in uses:
        for wrong in (ids[:, None], np.stack([ids, ids])):
            with pytest.raises(OptionError, match="2 dimensions; pass one id, or a flat list"):
                use(wrong)
    with pytest.raises(UnknownNode, match=r"its ids are (int64|string), one at a time or in a flat list"):
        live.recommend([ids.tolist()])


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_count_that_is_none_is_refused(live, k):
    with pytest.raises(OptionError, match="whole number"):
        live.recommend("ann", k)
    with pytest.raises(OptionError, match="whole number"):
        live.nearest("ann", k)


def test_a_generator_of_ids_is_for_all_that_are_asked(live):
    items = ["bob", "cat", "dan"]
    for ask in (live.nearest, live.recommend):
        for ids in (["ann", "eve", "ann"], "ann"):
            assert ask(ids, 2, among=(one for one in items)) == ask(ids, 2, among=items)


# ---- seeing ------------------------------------------------------------------------------------------------


def test_a_map_puts_neighbours_together(learned):
    pytest.importorskip("matplotlib").use("Agg")
    ax = learned.plot(names=3)
    dots = ax.collections[0].get_offsets()
    assert dots.shape == (len(learned), 2)
    assert np.isfinite(dots).all()
    assert [text.get_text() for text in ax.texts] == [
        str(name)
        for name in sorted(learned.ids().tolist(), key=lambda one: (-len(learned.neighbors(one)), one))[:3]
    ]
    rows = learned.ids().tolist()
    near = [[rows.index(name) for name, _ in learned.nearest(node, 3)] for node in rows[:50]]
    random = np.random.default_rng(0).integers(0, len(rows), (50, 3))
    away = [np.linalg.norm(dots[i] - dots[others], axis=1).mean() for i, others in enumerate(near)]
    far = [np.linalg.norm(dots[i] - dots[others], axis=1).mean() for i, others in enumerate(random)]
    assert np.mean(away) < 0.5 * np.mean(far)


def test_names_on_a_map_do_not_lie_over_each_other(learned):
    pytest.importorskip("matplotlib").use("Agg")
    ax = learned.plot(names=200)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) > 5
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    busiest = min(learned.ids().tolist(), key=lambda one: (-len(learned.neighbors(one)), one))
    assert ax.texts[0].get_text() == str(busiest)


def test_a_map_of_named_nodes_does_not_call_them_the_busiest(learned, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    assert learned.plot([1, 2, 3]).get_title().startswith(f"3 nodes of {len(learned)};")
    assert learned.plot().get_title().startswith(f"{len(learned)} nodes of {len(learned)};")
    monkeypatch.setattr(plotting, "busiest", lambda state: state.graph.nodes()[:7])
    assert learned.plot().get_title().startswith(f"7 busiest nodes of {len(learned)};")


def test_maps_of_very_few_nodes():
    pytest.importorskip("matplotlib").use("Agg")
    live = dygcn.fit([("ann", "bob")], dim=4)
    assert live.plot().collections[0].get_offsets().shape == (2, 2)
    assert live.plot(["ann"]).collections[0].get_offsets().shape == (1, 2)
    assert plotting.communities(np.zeros((0, 3), np.float32)).shape == (0,)
    assert plotting.principal_plane(np.zeros((0, 3), np.float32)).shape == (0, 2)


def test_a_notebook_shows_a_table(live):
    shown = live._repr_html_()
    assert "<td>nodes</td><td>5</td>" in shown
    assert len(shown) < 1000
