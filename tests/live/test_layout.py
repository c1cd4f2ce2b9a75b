"""Maps of vectors: near directions lie together, more than in the principal plane, and stay there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dygcn
from dygcn.live import plotting
from dygcn.live.plotting import (
    communities,
    keep_labels,
    neighbour_map,
    place_beside,
    principal_plane,
    turn_onto,
    unit_rows,
)
from dygcn_lab.evaluation.maps import kept_neighbours


def planted(groups=6, size=40, dim=32, noise=0.8, seed=0):
    """Return vectors around some directions, and the direction of each."""
    draw = np.random.default_rng(seed)
    centres = unit_rows(draw.normal(size=(groups, dim)))
    label = np.repeat(np.arange(groups), size)
    vectors = centres[label] + noise * draw.normal(size=(len(label), dim)) / np.sqrt(dim)
    return vectors.astype(np.float32), label


def in_plane(place, count=10):
    apart = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    return np.argpartition(apart, count, axis=1)[:, :count]


def test_points_of_one_community_lie_together():
    vectors, label = planted()
    together = {
        kind.__name__: (label[in_plane(kind(vectors))] == label[:, None]).mean()
        for kind in (neighbour_map, principal_plane)
    }
    assert together["neighbour_map"] > 0.98
    assert together["neighbour_map"] > together["principal_plane"] + 0.1
    place = neighbour_map(vectors)
    inside = np.mean(
        [np.linalg.norm(place[label == one] - place[label == one].mean(0), axis=1).mean() for one in range(6)]
    )
    middles = np.array([place[label == one].mean(axis=0) for one in range(6)])
    between = np.linalg.norm(middles[:, None] - middles[None], axis=2)[np.triu_indices(6, 1)]
    assert between.min() > 2 * inside


def test_a_map_without_pulls_would_be_noticed(monkeypatch):
    vectors, label = planted()
    monkeypatch.setattr(plotting, "_sums", lambda rows, values, n: np.zeros((n, 2)))
    assert (label[in_plane(neighbour_map(vectors))] == label[:, None]).mean() < 0.9


def test_a_real_graph_keeps_more_neighbours_than_its_principal_plane():
    live = dygcn.fit("hepth-collab", dim=64)
    vectors = live._vectors_of(live._state.graph.some_nodes(0, 1000))
    plane, near = (kept_neighbours(vectors, kind(vectors)) for kind in (principal_plane, neighbour_map))
    assert near > 0.35
    assert near > 3 * plane


def test_a_map_that_is_made_again_stays():
    vectors, _ = planted()
    first = neighbour_map(vectors)
    again = neighbour_map(vectors, start=first)
    moved, wide = np.linalg.norm(again - first, axis=1), np.ptp(first, axis=0).max()
    assert np.median(moved) < 0.05 * wide
    assert kept_neighbours(vectors, again) > 0.9 * kept_neighbours(vectors, first)


@given(st.integers(0, 2**32 - 1), st.integers(3, 30))
def test_turned_places_are_turned_back(seed, count):
    draw = np.random.default_rng(seed)
    before, known = draw.normal(size=(count, 2)), np.arange(count) < max(3, count // 2)
    angle = draw.uniform(0, 7)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn * [1, draw.choice([-1, 1])]
    assert turn_onto(before @ turn + draw.normal(size=2), before, known) == pytest.approx(before, abs=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_renamed_communities_are_the_same_ones(seed):
    draw = np.random.default_rng(seed)
    label, name = draw.integers(0, 5, 60), draw.permutation(5)
    label[:5] = np.arange(5)
    before = np.where(draw.random(60) < 0.1, -1, name[label])
    before[:5] = name
    found = keep_labels(label, before, 5)
    assert (found == name[label]).all()
    assert sorted(set(found)) == sorted(set(name))


def test_a_row_lies_beside_its_own_community():
    vectors, label = planted()
    others, wanted = planted(size=5)
    place = neighbour_map(vectors)
    found = place_beside(vectors, place, others)
    far = np.linalg.norm(found[:, None] - place[None], axis=2)
    assert (label[far.argmin(axis=1)] == wanted).mean() > 0.95
    assert place_beside(vectors[:0], place[:0], others).tolist() == [[0, 0]] * len(others)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 11])
def test_few_rows_have_a_map(count):
    vectors = np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)
    assert neighbour_map(vectors).shape == (count, 2)
    assert np.isfinite(neighbour_map(np.ones_like(vectors))).all()
    assert len(communities(vectors)) == count
