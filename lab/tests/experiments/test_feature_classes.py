"""The measurement of features, on a graph that is small and made up."""

import numpy as np
import pytest

from dygcn_lab.experiments import feature_classes
from dygcn_lab.experiments.feature_classes import Labelled, accuracies, judge_fit, judge_newcomers

pytest.importorskip("sklearn")


def made_up(as_table):
    """Three communities with few links, whose features say which one."""
    random = np.random.default_rng(0)
    labels = np.arange(240) % 3
    ends = random.integers(0, 240, (900, 2))
    ends = ends[(labels[ends[:, 0]] == labels[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    if as_table:
        names = np.array(["a", "b", "c"], object)[labels]
        return Labelled(*ends.T, labels, nodes={"town": names, "age": random.normal(size=240)})
    matrix = np.eye(3, dtype=np.float32)[labels] + random.normal(size=(240, 3)).astype(np.float32) * 0.1
    return Labelled(*ends.T, labels, matrix)


@pytest.mark.parametrize("as_table", [True, False])
def test_features_that_say_the_class_are_found(as_table):
    data = made_up(as_table)
    nodes, late = judge_fit(data), judge_newcomers(data)
    assert nodes["walks+given"]["accuracy"] > 0.95
    assert late["walks+given"]["accuracy"] > 0.95
    assert late["walks+given, before any edge"]["accuracy"] > 0.95
    assert "| cora |" not in feature_classes.table({})


def test_no_label_that_is_asked_for_is_learned():
    """A classifier that saw the labels of newcomers would know their random classes by heart."""
    random = np.random.default_rng(1)
    labels, late = random.integers(0, 2, 400), np.arange(300, 400)
    vectors = np.eye(400, dtype=np.float32) * 100
    assert np.mean(accuracies(vectors, labels, late)) < 0.7
