"""The judge against methods whose answers are known, and ways to cheat that it must notice."""

import numpy as np
import pytest

from dygcn.errors import DygcnError
from dygcn_lab.evaluation import Judge, VectorMethod, judge_method
from dygcn_lab.evaluation.reconstruction import precision_at
from dygcn_lab.evaluation.steps import Steps


def growing_communities(seed=0, steps=8, size=60):
    """Two communities whose members find each other; every step brings new edges and some newcomers."""
    random = np.random.default_rng(seed)
    src, dst, step = [], [], []
    for at in range(steps):
        here = 40 + 2 * at
        for _ in range(400 if at == 0 else 60):
            a, b = random.integers(0, here, 2)
            if a % 2 == b % 2 or random.random() < 0.05:
                src.append(a)
                dst.append(b)
                step.append(at)
    columns = (np.array(column, np.int64) for column in (src, dst, np.ones(len(src)), step))
    return Steps(*columns, fitted=steps // 2)


class Known(VectorMethod):
    """Knows the community of every node, and says when it is asked."""

    def __init__(self, turn=0.0):
        self.turn, self.seen = turn, []

    def begin(self, moments, nodes):
        self.nodes, self.angle = nodes, 0.0
        self.seen += list(moments)

    def follow(self, moment):
        self.angle += self.turn
        self.seen.append(moment)

    def vectors(self):
        angle = self.angle + (np.arange(self.nodes) % 2) * np.pi / 2
        return np.stack((np.cos(angle), np.sin(angle)), axis=1).astype(np.float32)


def test_a_method_that_knows_is_near_the_top():
    steps = growing_communities()
    figures, _ = judge_method(Known(), steps.moments, steps.nodes, steps.fitted)
    tested = len(steps.tested)
    assert all(len(series) == tested for series in figures.values())
    assert np.mean(figures["cosine.auc.all.uniform"]) > 0.7
    assert np.mean(figures["cosine.auc.new-warm.uniform"]) > 0.7
    assert np.mean(figures["rewritten"]) == 0
    assert "score.auc.all.uniform" not in figures


def test_nobody_sees_the_graph_that_judges_it():
    steps = growing_communities()
    method = Known()
    judge_method(method, steps.moments, steps.nodes, steps.fitted)
    assert len(method.seen) == len(steps.moments) - 1  # never the last one
    assert all(a is b for a, b in zip(method.seen, steps.moments, strict=False))


def test_turning_vectors_age_a_frozen_classifier_but_no_cosine():
    steps = growing_communities()
    labels = np.arange(steps.nodes) % 2
    still, _ = judge_method(Known(), steps.moments, steps.nodes, steps.fitted, labels=labels)
    turned, _ = judge_method(Known(1.0), steps.moments, steps.nodes, steps.fitted, labels=labels)
    assert np.mean(still["accuracy"]) == 1.0
    assert np.mean(turned["accuracy"]) < 0.8
    assert still["cosine.auc.all.uniform"] == turned["cosine.auc.all.uniform"]
    assert np.mean(still["untouched"]) == 0.0
    assert np.nanmean(turned["untouched"]) == pytest.approx(1 - np.cos(1.0), abs=1e-4)


def test_the_same_questions_for_every_method():
    steps = growing_communities()
    runs = [judge_method(Known(), steps.moments, steps.nodes, steps.fitted, seed=3)[0] for _ in range(2)]
    for name, series in runs[0].items():
        if name != "seconds":
            np.testing.assert_equal(series, runs[1][name])


def test_a_score_of_its_own_stands_beside_the_cosine():
    steps = growing_communities()

    class Own(Known):
        def score(self, pairs, task):
            return (pairs[:, 0] % 2 == pairs[:, 1] % 2).astype(np.float64)

    figures, _ = judge_method(Own(), steps.moments, steps.nodes, steps.fitted)
    assert np.allclose(figures["score.auc.all.uniform"], figures["cosine.auc.all.uniform"])


def test_thresholds_come_from_training_alone():
    """Seeded: a threshold that is chosen again at every test step would hide that scores moved."""
    steps = growing_communities()

    class Drifting(Known):
        def score(self, pairs, task):
            return (pairs[:, 0] % 2 == pairs[:, 1] % 2) + 10.0 * (len(self.seen) - steps.fitted - 1)

    figures, _ = judge_method(Drifting(), steps.moments, steps.nodes, steps.fitted)
    assert np.mean(figures["score.f1.trained"]) < np.mean(figures["cosine.f1.trained"])
    assert np.allclose(figures["score.auc.all.uniform"], figures["cosine.auc.all.uniform"])


def test_reconstruction_counts_edges_among_the_best_pairs():
    random = np.random.default_rng(0)
    edges = np.array([(2 * i, 2 * i + 1) for i in range(50)])
    vectors = random.normal(size=(100, 32)).astype(np.float32)
    assert precision_at(vectors, edges, random) < 0.2
    vectors[1::2] = vectors[::2]
    assert precision_at(vectors, edges, random) == 1.0
    assert precision_at(vectors, edges, random, k=10) == 1.0


def test_a_step_without_new_links_has_no_figure_for_them():
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    columns = (*edges.T, np.ones(3, np.int64), np.zeros(3, np.int64))
    steps = Steps(*(np.concatenate((column, column[:1])) for column in columns), fitted=0)
    steps.step[-1] = 3
    judge = Judge(steps.moments, steps.nodes, 0)
    judge.look(1, np.eye(4, dtype=np.float32), lambda pairs, task: None)
    assert np.isnan(judge.figures["cosine.auc.new-warm.uniform"][0])


def test_scores_that_are_no_numbers_are_refused():
    steps = growing_communities()

    class Broken(Known):
        def score(self, pairs, task):
            return np.full(len(pairs), np.nan)

    with pytest.raises(DygcnError, match="NaN or infinity"):
        judge_method(Broken(), steps.moments, steps.nodes, steps.fitted)
