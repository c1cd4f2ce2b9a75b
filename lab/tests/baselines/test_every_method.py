"""What every baseline must do, whatever it is."""

import ast
from pathlib import Path

import numpy as np
import pytest

import dygcn_lab.baselines
from dygcn.engine.measures import auc, pair_cosines, unit_rows
from dygcn_lab.baselines import BASELINES
from dygcn_lab.evaluation import judge_method
from dygcn_lab.evaluation.steps import Moment

from .planted import NODES, communities, history, sides

DIM = 16
QUICK = {"gcn": {"epochs": 60}, "graphsage": {"steps": 60}, "dne": {"epochs": 40}, "dynwalks": {"epochs": 2}}
EMBEDDINGS = [name for name, spec in BASELINES.items() if spec.vectors]
FLOORS = {"cleora": 0.58}  # whitening: of 16 directions that count alike, one holds the communities
STRUCTURAL = {"gcn", "graphsage"}  # degrees tell them nothing about two communities that are alike


def make(name, seed=0, dim=DIM):
    method = BASELINES[name].factory(seed, dim)
    for option, value in QUICK.get(name, {}).items():
        assert hasattr(method, option)
        setattr(method, option, value)
    return method


def led(name, moments: list[Moment], fitted: int, nodes: int = NODES, seed=0):
    method = make(name, seed)
    method.begin(moments[: fitted + 1], nodes)
    for moment in moments[fitted + 1 :]:
        method.follow(moment)
    return method


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_vectors_tell_communities_apart(name):
    moments = communities()
    vectors = led(name, moments, 3).vectors()
    assert vectors.shape == (NODES, DIM)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert vectors[np.unique(moments[-1].edges)].any(axis=1).all()
    same, apart = sides(np.random.default_rng(1), moments[-1].edges)
    units = unit_rows(vectors)
    found = auc(pair_cosines(units, same), pair_cosines(units, apart))
    if name not in STRUCTURAL:
        assert found > FLOORS.get(name, 0.7), found


@pytest.mark.parametrize("name", sorted(STRUCTURAL))
def test_layers_on_degrees_tell_a_dense_part_from_a_thin_one(name):
    ring = [(node, 40 + (node - 39) % 80, 1) for node in range(40, 120)]
    crowd = [(a, b, 1) for a, b in np.random.default_rng(2).integers(0, 40, (300, 2)).tolist() if a != b]
    vectors = led(name, history([ring + crowd[:-5], crowd[-5:]]), 0).vectors()
    pairs = np.random.default_rng(3).integers(0, NODES, (300, 2))
    across = (pairs < 40).any(axis=1) & (pairs >= 40).any(axis=1)
    units = unit_rows(vectors)
    assert auc(pair_cosines(units, pairs[~across]), pair_cosines(units, pairs[across])) > 0.9


@pytest.mark.parametrize("name", BASELINES)
def test_the_judge_leads_it(name):
    figures, seconds = judge_method(make(name), communities(), NODES, 3)
    kind = "cosine" if BASELINES[name].vectors else "score"
    assert len(figures[f"{kind}.auc.all.uniform"]) == 2
    assert np.isfinite(figures[f"{kind}.auc.all.uniform"]).all()
    assert seconds > 0


@pytest.mark.parametrize("name", BASELINES)
def test_same_seed_same_result(name):
    moments = communities(4)
    once, again = (led(name, moments, 1) for _ in range(2))
    if BASELINES[name].vectors:
        np.testing.assert_array_equal(once.vectors(), again.vectors())
    else:
        pairs = moments[-1].edges
        np.testing.assert_array_equal(once.score(pairs, "all"), again.score(pairs, "all"))


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_seeds_differ(name):
    if name == "timers":
        pytest.skip("a decomposition draws nothing")
    moments = communities(3)
    assert not np.array_equal(led(name, moments, 1).vectors(), led(name, moments, 1, seed=1).vectors())


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("fitted", [0, 1, 2])
def test_graphs_that_nearly_vanish(name, fitted):
    """One edge, none, a star, an outage, the way back, and steps in which nothing happens."""
    star = [(0, leaf, 1) for leaf in range(1, 12)]
    moments = history(
        [
            [(0, 1, 1)],
            [(0, 1, -1)],
            star,
            [],
            [(node, other, -1) for node, other, _ in star[1:]],
            [*star, (20, 21, 1), (3, 4, 1)],
            [],
            [(20, 21, -1)],
        ]
    )
    method = make(name)
    method.begin(moments[: fitted + 1], 30)
    for moment in moments[fitted + 1 :]:
        method.follow(moment)
        vectors = method.vectors()
        if vectors is None:
            assert np.isfinite(method.score(moment.edges, "all")).all()
        else:
            assert vectors.shape == (30, DIM)
            assert np.isfinite(vectors).all()
            assert not vectors[25:].any()
    none = method.score(np.empty((0, 2), np.int64), "all")
    assert none is None or len(none) == 0


@pytest.mark.parametrize("name", BASELINES)
def test_a_history_of_one_node(name):
    empty = np.empty(0, np.int64)
    moment = Moment(empty, empty, empty, np.empty((0, 2), np.int64))
    method = make(name)
    method.begin([moment], 1)
    method.follow(moment)
    vectors = method.vectors()
    assert vectors is None or not vectors.any()


def test_registry_is_complete():
    assert set(BASELINES) == {
        "degree-product",
        "common-neighbours",
        "resource-allocation",
        "popularity",
        "degree-contact",
        "edgebank",
        "edgebank-window",
        "edgebank-recency",
        "gcn",
        "graphsage",
        "timers",
        "dne",
        "dynwalks",
        "fastrp",
        "cleora",
    }
    for name, spec in BASELINES.items():
        assert spec.description
        assert spec.reference
        assert BASELINES[name].factory(seed=1) is not BASELINES[name].factory(seed=1)


def test_no_baseline_borrows_our_engine():
    allowed = {"dygcn.engine.records", "dygcn.errors", "dygcn._extras"}
    for path in Path(dygcn_lab.baselines.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, path.name
                names = [node.module or ""]
            for name in names:
                ours = name.split(".")[0] == "dygcn"
                friend = name in allowed or name.startswith(("dygcn_lab.baselines", "dygcn_lab.evaluation"))
                assert not ours or friend, f"{path.name} imports {name}"
