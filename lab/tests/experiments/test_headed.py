"""Other embeddings with our score, and what a vector database finds, on small graphs with known answers."""

import numpy as np
import pytest

import dygcn
from dygcn_lab.evaluation import VectorMethod
from dygcn_lab.evaluation.steps import Steps
from dygcn_lab.experiments import score_groups
from dygcn_lab.experiments.headed import Headed
from dygcn_lab.experiments.score_groups import recall_figures


class Circles(VectorMethod):
    """Knows the circle of every node, and notes what it was shown."""

    shown = None

    def begin(self, moments, nodes):
        type(self).shown = [*(type(self).shown or []), len(moments)]
        self.table = np.eye(4, dtype=np.float32)[np.arange(nodes) % 4]

    def follow(self, moment):
        pass

    def vectors(self):
        return self.table


def moments_of(steps=16, nodes=80):
    """Members of a circle meet, at every step."""
    random = np.random.default_rng(0)
    src = random.integers(0, nodes, 120 * steps)
    dst = (src + 4 * random.integers(1, nodes // 4, len(src))) % nodes
    step = np.repeat(np.arange(steps), 120)
    return Steps(src, dst, np.ones(len(src), np.int64), step, steps // 2).moments


def test_the_score_is_learned_before_the_embedding_sees_the_steps():
    moments, Circles.shown = moments_of(), None
    method = Headed(Circles, seed=0)
    method.begin(moments, 80)
    assert Circles.shown == [13, 16]  # three quarters of fifteen steps with a next one, then everything
    assert "all" in method.heads  # by then most members have met: few links are new
    inside, across = np.array([[0, 4], [1, 41]]), np.array([[0, 1], [1, 2]])
    assert method.score(inside, "all").min() > method.score(across, "all").max()
    np.testing.assert_array_equal(method.score(inside, "all"), method.score(inside[:, ::-1], "all"))


def test_without_a_learned_score_the_cosine_answers():
    method = Headed(Circles, seed=0)
    method.begin(moments_of(steps=2), 80)
    assert method.heads == {}
    assert method.score(np.array([[0, 4], [0, 1]]), "new-warm").tolist() == [1.0, 0.0]


@pytest.fixture(scope="module")
def live():
    moments = moments_of()
    rows = [(a, b, t) for t, m in enumerate(moments) for a, b in zip(m.src, m.dst, strict=True)]
    return dygcn.fit(rows, columns=("src", "dst", "t"), dim=16)


def test_more_candidates_never_find_less(live):
    for links in live.model.links:
        dot, again, more = (figures[0] for figures in recall_figures(live, links).values())
        assert 0 <= dot <= 1
        assert again <= more <= 1
        assert again >= dot


def test_all_candidates_find_everything(live, monkeypatch):
    monkeypatch.setattr(score_groups, "CANDIDATES", len(live))
    assert recall_figures(live, "new")["recall.reranked"] == [1.0]
