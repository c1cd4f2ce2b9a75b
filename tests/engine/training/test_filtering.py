"""Fitting a filter: rows, search of settings, and what becomes of them in a live embedding."""

import copy
import functools
from dataclasses import replace

import numpy as np
import pytest

import dygcn
from dygcn.engine.filter.filter import Filter
from dygcn.engine.training import filtering
from dygcn.engine.training.filtering import START, FilterRows, HistoryPairs, Search
from dygcn.errors import FeatureError, OptionError


def tastes(count=900, users=60, items=60, seed=0):
    """Return events of users who take items of one genre of three."""
    draw = np.random.default_rng(seed)
    pairs = draw.integers(0, (users, items), (count * 3, 2))
    rows = [(u, i) for u, i in pairs.tolist() if u % 3 == i % 3][:count]
    return {
        "src": [u for u, _ in rows],
        "dst": [i for _, i in rows],
        "t": [float(t) for t in range(len(rows))],
    }


@functools.cache
def fitted_once():
    return dygcn.fit(tastes(), kinds=("user", "item"), dim=8, progress=False)


def fitted():
    return copy.deepcopy(fitted_once())


def test_rows_are_those_of_a_dense_svd():
    rng = np.random.default_rng(0)
    R = (rng.random((40, 30)) < 0.3).astype(float)
    one, other = np.nonzero(R)
    pairs = HistoryPairs.of(one, other, np.zeros(len(one)), np.ones(len(one), np.int8), R.shape)
    found = FilterRows.of(pairs, seed=0)
    normalised = R * (R.sum(1) ** -0.25)[:, None] * (R.sum(0) ** -0.25)
    sizes = np.linalg.svd(normalised, compute_uv=False)
    assert np.allclose(found.sizes, sizes[: len(found.sizes)], atol=1e-5)
    wanted = normalised.T @ normalised * np.outer(R.sum(0) ** -0.25, R.sum(0) ** -0.25)
    table = found.rows * found.step.astype(float)
    assert np.abs(table * found.sizes**2 @ table.T - wanted).max() < 0.02 * np.abs(wanted).max()


def test_iterated_rows_span_what_dense_ones_do(monkeypatch):
    rng = np.random.default_rng(1)
    one, other = (rng.integers(0, 200, 4000) for _ in range(2))
    other = one % 4 * 50 + other % 50
    pairs = HistoryPairs.of(one, other, np.zeros(4000), np.ones(4000, np.int8), (200, 200))
    dense = FilterRows.of(pairs, 0)
    monkeypatch.setattr(filtering, "_DENSE", 10)
    iterated = FilterRows.of(pairs, 0)
    assert np.allclose(dense.sizes[:4], iterated.sizes[:4], rtol=1e-4)
    a, b = (np.linalg.qr((rows.rows * rows.step)[:, :4].astype(float))[0] for rows in (dense, iterated))
    assert np.linalg.svd(a.T @ b, compute_uv=False).min() > 0.99


def test_recommends_what_others_of_the_same_taste_have():
    live = fitted()
    assert live.model.filter is not None
    assert live.model.score_kind("filter") == "filter"
    for user in range(12):
        found = live.recommend(user, k=5)
        have = set(live.neighbors(("user", user)))
        assert all(item.id % 3 == user % 3 for item, score in found if score > 0)
        assert found[0][1] > 0
        assert not have & {item for item, _ in found}
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_an_item_that_is_born_later_is_recommended():
    live = fitted()
    live.update(add=[(("user", user), ("item", 999)) for user in range(0, 30, 3)], now=900.0)
    assert ("item", 999) in [item for item, _ in live.recommend(33, k=5)]


def test_somebody_new_gets_what_is_taken_lately():
    live = fitted()
    live.update(add=[(("user", 777), ("item", 4))])
    live.update(remove=[(("user", 777), ("item", 4))])
    live.update(add=[(("user", 777), ("item", 4444))])
    assert len(live.recommend(777, k=5)) == 5


def test_settings_are_searched_in_the_fitted_part_alone():
    """Nothing of a later part is read: other events there, same settings."""
    batch = tastes()
    ends = [int(0.7 * 900)]
    one = {name: column[: ends[0]] for name, column in batch.items()}
    first, again = (dygcn.fit(one, kinds=("user", "item"), dim=8, progress=False) for _ in range(2))
    assert first.model.filter.rows.tolist() == again.model.filter.rows.tolist()
    for name in ("ridge", "half_life", "trend", "degree", "paths"):
        assert getattr(first.model.filter, name) == getattr(again.model.filter, name)


def test_too_few_held_out_pairs_leave_the_settings():
    live = dygcn.fit([("u1", "tea"), ("u2", "tea"), ("u2", "jam")], kinds=("user", "item"), dim=4)
    assert live.model.filter.ridge == START["ridge"]
    assert [item.id for item, _ in live.recommend("u1", k=3)] == ["jam"]


def test_one_kind_of_nodes():
    pairs = [(a, b) for a in range(30) for b in range(a + 1, 30) if a % 3 == b % 3 and (a + b) % 4]
    live = dygcn.fit(pairs, dim=8, recommend=True)
    found = live.recommend(4, k=2)
    assert all(one % 3 == 1 for one, _ in found)
    assert not {one for one, _ in found} & set(live.neighbors(4))


def test_among_and_linked_and_kind():
    live = fitted()
    among = [("item", 3), ("item", 6), ("item", 4)]
    assert {item for item, _ in live.recommend(0, k=5, among=among)} <= set(among)
    every = live.recommend(0, k=200, links="filter", exclude_linked=False)
    assert set(live.neighbors(("user", 0))) <= {item for item, _ in every}
    assert live.recommend(0, k=3, links="new") != live.recommend(0, k=3)


def test_scores_of_pairs_are_those_of_recommendations():
    live = fitted()
    found = live.recommend(0, k=5)
    items = [item for item, _ in found]
    assert live.score([("user", 0)] * 5, items, links="filter").tolist() == [score for _, score in found]


def test_a_saved_folder_answers_the_same(tmp_path):
    live = fitted()
    live.save(tmp_path / "folder")
    again = dygcn.load(tmp_path / "folder")
    assert again.recommend(5) == live.recommend(5)
    assert again.digest() == live.digest()


def test_rows_of_forgotten_ids_leave_the_model():
    live = fitted()
    gone = [("item", 3), ("item", 6)]
    model = live.model.without(gone)
    assert len(model.filter.ids) == len(live.model.filter.ids) - 2
    assert len(model.table) == len(live.model.table) - 2


def test_refit_makes_its_rows_anew():
    live = fitted()
    live.update(add=[(("user", user), ("item", 999)) for user in range(0, 30, 3)], now=900.0)
    found = live.refit().embedding
    assert len(found.model.filter.ids) == len(live.model.filter.ids) + 1
    assert found.model.filter.ridge == live.model.filter.ridge


OPTIONS = {"directed": True}, {"features": "hashed"}, {"rule": "rolling"}


@pytest.mark.parametrize("options", [{"recommend": "often"}, *({"recommend": True} | one for one in OPTIONS)])
def test_refused_options(options):
    with pytest.raises(OptionError, match="recommend"):
        dygcn.fit([(1, 2), (2, 3)], dim=4, **options)


def test_a_model_without_a_filter_says_how_to_get_one():
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    with pytest.raises(FeatureError, match="recommend=True"):
        live.recommend(1, links="filter")


def test_who_is_no_answer_is_ranked_by_the_score_of_a_link():
    """Users among whom to choose are no answers of a filter of items, and are answered all the same."""
    live, users = fitted(), [("user", n) for n in range(1, 5)]
    found = live.recommend(("user", 0), 3, among=users)
    assert found == live.recommend(("user", 0), 3, among=users, links="new")
    assert len(found) == 3


def test_an_id_that_is_not_there_scores_nothing_whatever_left_before():
    live = fitted()
    live.update(remove_nodes=[("item", 3)])
    assert live.score(("user", 0), ("item", 999), links="filter", missing="cold") == 0.0


def test_a_filter_has_no_link_vectors():
    with pytest.raises(OptionError, match="no vectors"):
        fitted().link_vectors([("user", 0)], links="filter")


def test_one_with_nothing_in_common_is_answered_by_what_is_taken_most():
    live = fitted()
    live.update(add=[(("user", 999), ("item", 999))], now=900.0)
    found = [score for _, score in live.recommend(("user", 999), 5)]
    assert min(found) > 0
    assert found == sorted(found, reverse=True)


def test_where_nodes_have_no_kinds():
    live = dygcn.fit([("a", "b"), ("c", "b"), ("c", "d"), ("e", "d")], dim=4, recommend=True)
    assert live.recommend("a", 2, kind="*") == live.recommend("a", 2)
    with pytest.raises(OptionError, match="have no kinds"):
        live.recommend("a", 2, kind="item", links="filter")
    assert live.score("a", "a", "filter") == 0.0


def test_the_last_quarter_is_held_out_where_most_come_again():
    rng = np.random.default_rng(0)
    one, t = rng.integers(0, 20, 400), np.sort(rng.random(400))
    assert filtering.last_events(one, t).tolist() == (t >= t[300]).tolist()


def test_ends_of_visits_are_held_out_where_hardly_anybody_comes_again():
    one, t = np.repeat(np.arange(40), 10), np.arange(400.0)
    held = filtering.last_events(one, t).reshape(40, 10)
    assert not held[:10].any()
    assert held[10:].tolist() == [[False] * 5 + [True] * 5] * 30


def held_out(monkeypatch, table, **options):
    """Return the known pairs and the wanted ones of the search in a fit."""
    seen = []
    monkeypatch.setattr(filtering, "Search", lambda *arguments: seen.append(arguments))
    with pytest.raises(AttributeError):  # of the search that is none
        dygcn.fit(table, recommend=True, dim=4, progress=False, **options)
    before, asked, wanted, *_ = seen[0]
    known = set(zip(before.one.tolist(), before.other.tolist(), strict=True))
    return known, set(zip(asked[wanted[0]].tolist(), wanted[1].tolist(), strict=True))


@pytest.mark.parametrize("timed", [True, False])
def test_an_edge_between_two_who_ask_is_held_out_both_ways(monkeypatch, timed):
    rng = np.random.default_rng(0)
    groups = [10 * n + rng.integers(0, 20, (150, 2)) for n in range(8)]  # they come for a while
    edges = dict.fromkeys((a, b) for group in groups for a, b in group.tolist() if a < b)
    table = {"src": [a for a, _ in edges], "dst": [b for _, b in edges]}
    known, wanted = held_out(monkeypatch, table | ({"t": list(range(len(edges)))} if timed else {}))
    assert wanted
    assert known == {(b, a) for a, b in known}
    assert not known & wanted


def test_a_pair_is_held_out_however_often_it_came(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 60, (1500, 2)), axis=0)
    table = {"src": np.tile(pairs[:, 0], 3), "dst": np.tile(pairs[:, 1], 3)}
    known, wanted = held_out(monkeypatch, table, kinds=("user", "item"))
    assert 0.05 * len(pairs) < len(wanted) < 0.15 * len(pairs)
    assert not known & wanted


@pytest.mark.parametrize(("paths", "trend", "edges"), [(0.1, 0.0, 0.0), (0.3, 0.5, 0.0), (0.3, 0.5, 8.0)])
def test_a_search_ranks_as_the_filter_does(monkeypatch, paths, trend, edges):
    """The same settings and known pairs: the same candidates, and the same answers first."""
    live, table = fitted(), tastes()
    monkeypatch.setattr(filtering, "CANDIDATES", 12)
    monkeypatch.setattr("dygcn.engine.filter.filter.CANDIDATES", 12)
    monkeypatch.setattr("dygcn.engine.filter.filter._PLENTY", 1)
    span = table["t"][-1]
    lives = {"half_life": span / edges if edges else 0.0, "trend_half_life": span / 50 if trend else 0.0}
    head = replace(live.model.filter, **lives, trend=trend, paths=paths, degree=0.25, profile_half_life=0.0)
    graph, filter_ = live._state.graph, Filter(head)
    filter_.rebuild(graph)
    user, item, t = (np.array(table[name]) for name in ("src", "dst", "t"))
    before = HistoryPairs.of(user, item, t, np.ones(len(t), np.int8), (60, 60))
    search = Search(before, np.arange(60), (np.arange(60), np.arange(60)), span, span, 0)
    settings = START | {
        "edges": edges,
        "ridge": head.ridge,
        "degree": 0.25,
        "trend": trend,
        "lately": 50.0,
        "paths": paths,
    }
    scores = search._scores(settings)
    scores[search._asker, before.other[search._own]] = -np.inf
    alike = asked = 0
    for one in np.unique(user).tolist():
        node = live._find([("user", one)])[0]
        nodes, found = filter_.scores(graph, int(node), linked=False, count=5)
        first = np.argsort(-found)[:5]
        first = first[found[first] > 0]  # others have nothing in common, and come in any order
        wanted = graph.ids.shown(graph.ids.names(nodes[first])).tolist()
        alike += len({item for _, item in wanted} & set(np.argsort(-scores[one])[:5].tolist()))
        asked += len(first)
    assert alike > 0.98 * asked > 200
