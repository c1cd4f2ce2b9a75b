"""The transformer for scikit-learn: its contract, as scikit-learn checks it, and what is ours."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import dygcn
from dygcn.errors import EventError
from tests.end_to_end.test_core_install import HIDE

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, check_transformer_general

from dygcn.sklearn import NodeEmbedder

EDGES = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("dan", "eve"), ("eve", "fay"), ("fay", "dan")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("features", ["hashed", pytest.param("walks", marks=pytest.mark.slow)])
def test_every_check_of_scikit_learn_passes(features):
    """None is expected to fail; that of the array API needs an environment variable."""
    done = check_estimator(NodeEmbedder(dim=8, features=features), on_skip=None)
    assert {one["check_name"] for one in done if one["status"] != "passed"} <= {"check_array_api_input"}
    assert len(done) > 40


@pytest.mark.filterwarnings("ignore")
def test_the_checks_would_notice(monkeypatch):
    monkeypatch.setattr(NodeEmbedder, "transform", lambda self, X: np.zeros((3, 2)))
    with pytest.raises(AssertionError):
        check_transformer_general("NodeEmbedder", NodeEmbedder(dim=4))


def test_vectors_are_those_of_the_graph():
    live = dygcn.fit(EDGES, dim=8)
    for graph in (EDGES, live):
        embedder = NodeEmbedder(graph, dim=8).fit([["ann"], ["bob"]])
        assert np.array_equal(embedder.transform([["fay"], ["ann"]]), live.vectors(["fay", "ann"]))
    both = embedder.fit([["ann", "bob"]]).transform([["ann", "bob"], ["dan", "ann"]])
    assert np.array_equal(both, np.hstack((live.vectors(["ann", "dan"]), live.vectors(["bob", "ann"]))))
    assert len(embedder.get_feature_names_out()) == 16


def test_rows_of_two_columns_are_edges():
    embedder = NodeEmbedder(dim=8).fit(EDGES)
    assert np.array_equal(embedder.vectors_, dygcn.fit(EDGES, dim=8).vectors())
    assert embedder.embedding_.edge_count == 6
    three = NodeEmbedder(dim=8).fit([["ann", "bob", "cat"], ["dan", "dan", "dan"]])
    assert three.embedding_.edge_count == 3
    assert not three.transform([["dan", "dan", "ann"]])[0, :16].any()
    with pytest.raises(ValueError, match="pass graph="):
        NodeEmbedder().fit([["ann"]])


def test_an_id_that_is_not_in_the_graph():
    for unknown in ("zed", 7):
        with pytest.raises(ValueError, match="handle_unknown='zeros'"):
            NodeEmbedder(EDGES, dim=8).fit([["ann"]]).transform([[unknown]])
        assert (
            not NodeEmbedder(EDGES, dim=8, handle_unknown="zeros").fit([["ann"]]).transform([[unknown]]).any()
        )
    with pytest.raises(ValueError, match=r"0\.5 is neither"):
        NodeEmbedder().fit([[0.5, 1.0]])
    with pytest.raises(dygcn.DygcnError, match="allowed are 'error' and 'zeros'"):
        NodeEmbedder(EDGES, handle_unknown="ignore").fit([["ann"]])
    with pytest.raises(NotFittedError):
        NodeEmbedder(EDGES).transform([["ann"]])


def test_a_fitted_pipeline_is_pickled_without_the_embedding():
    X, y = [[name] for name in ("ann", "bob", "dan", "eve")], [0, 0, 1, 1]
    fitted = make_pipeline(NodeEmbedder(EDGES, dim=8), LogisticRegression()).fit(X, y)
    data = pickle.dumps(fitted)
    assert b"LiveEmbedding" not in data
    again = pickle.loads(data)  # noqa: S301, bytes of our own
    assert again.predict([["cat"], ["fay"]]).tolist() == [0, 1]
    assert hasattr(fitted[0], "embedding_")
    assert not hasattr(again[0], "embedding_")
    assert np.array_equal(clone(again[0]).fit(X).transform(X), fitted[0].transform(X))
    with pytest.raises(TypeError, match=r"live.save\(path\)"):
        pickle.dumps(NodeEmbedder(dygcn.fit(EDGES, dim=8)))


def test_nodes_are_classified_in_cross_validation():
    nx = pytest.importorskip("networkx")
    graph = nx.karate_club_graph()
    X = [[node] for node in graph]
    y = [graph.nodes[node]["club"] for node in graph]
    found = cross_val_score(make_pipeline(NodeEmbedder(graph, dim=16), LogisticRegression()), X, y, cv=4)
    assert found.mean() > 0.9


def test_a_missing_scikit_learn_is_named():
    script = HIDE + "import dygcn\ndygcn.sklearn"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 'sklearn is not installed. Run: pip install "dygcn[sklearn]"' in done.stderr


def test_an_embedding_is_shared_by_clones_and_left_out_of_pickles(tmp_path):
    with dygcn.open(tmp_path / "x", dygcn.fit(EDGES, dim=8)) as live:
        pipeline = make_pipeline(NodeEmbedder(live), LogisticRegression())
        copied = clone(pipeline).set_output(transform="default")
        assert copied[0].graph is live
        assert clone(NodeEmbedder(live).set_output(transform="pandas"))._sklearn_output_config
        copied.fit([["ann"], ["dan"]], ["left", "right"])
        again = pickle.loads(pickle.dumps(copied))  # noqa: S301
        assert again.predict([["bob"], ["eve"]]).tolist() == ["left", "right"]
        with pytest.raises(ValueError, match=r"set_params\(graph="):
            again.fit([["ann"], ["dan"]], ["left", "right"])


def test_columns_of_other_names_have_their_way():
    table = {"user": ["ann", "bob"], "item": ["tea", "tea"]}
    with pytest.raises(EventError, match=r"NodeEmbedder\(dygcn.fit\(table, src="):
        NodeEmbedder(table).fit([["ann"]])


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([[1e30], [2e30]]),
        np.array([[2.0**53], [1.0]]),
        np.array([[2**63 + 5], [1]], np.uint64),
        np.array([[2**70], [1]], object),
        np.array([[-(2**63) - 1], [1]], object),
        np.array([[1e30], [1]], object),
        np.array([[None], ["ann"]], object),
        np.array([[None], [1]], object),
    ],
)
def test_what_is_not_one_id_is_refused(wrong):
    """Two numbers would be one node, a large one negative, and None a node of that name."""
    first = repr(wrong.tolist()[0][0])
    with pytest.raises(ValueError, match=f"{re.escape(first)} is not an id"):
        NodeEmbedder(EDGES, dim=8, handle_unknown="zeros").fit(wrong)


def test_large_whole_numbers_are_ids():
    ids = [[2**63 - 1], [-(2**63)], [2**53 + 1]]
    live = dygcn.fit([(2**63 - 1, -(2**63)), (2**53 + 1, 2**53)], dim=4)
    for given in (np.array(ids), np.array(ids, object)):
        np.testing.assert_array_equal(
            NodeEmbedder(live).fit_transform(given), live.vectors([a for (a,) in ids])
        )
    unsigned = np.array([[2**63 - 1]], np.uint64)
    np.testing.assert_array_equal(NodeEmbedder(live).fit_transform(unsigned), live.vectors([2**63 - 1]))
