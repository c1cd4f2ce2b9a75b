"""Links never seen, labels held out, ends in random order: what each is, and who must fail it."""

import numpy as np
import pytest

from dygcn.engine.measures import PairSet
from dygcn_lab.evaluation import VectorMethod, judge_method
from dygcn_lab.evaluation.classes import HeldOutClassifier
from dygcn_lab.evaluation.following import mean_ranks
from dygcn_lab.evaluation.links import ask_links, ask_never
from dygcn_lab.evaluation.seen import Seen
from dygcn_lab.evaluation.steps import Steps

NODES = 60


def coming_and_going(seed=0, steps=10, losing=True):
    """Random links of which some go, some come back, and some come and go inside one step."""
    random = np.random.default_rng(seed)
    rows, here = [], set()
    for at in range(steps):
        for _ in range(150 if at == 0 else 40):
            a, b = random.integers(0, NODES, 2).tolist()
            rows.append((a, b, 1, at))
            here.add((min(a, b), max(a, b)))
            if losing and random.random() < 0.2:
                rows.append((a, b, -1, at))
        if losing and at:
            for a, b in random.permutation(sorted(here))[:15].tolist():
                rows.append((b, a, -1, at))
    columns = np.array(rows, np.int64).T
    return Steps(*columns, fitted=steps // 2)


class Scorer(VectorMethod):
    """Scores as a function says, from what was shown so far."""

    def __init__(self, says=lambda pairs, task, past: np.zeros(len(pairs))):
        self.says, self.past = says, []

    def begin(self, moments, nodes):
        self.past = list(moments)

    def follow(self, moment):
        self.past.append(moment)

    def vectors(self):
        return None

    def score(self, pairs, task):
        return self.says(pairs, task, self.past)


def judged(says, steps, **options):
    figures, _ = judge_method(Scorer(says), steps.moments, steps.nodes, steps.fitted, **options)
    return {name: np.array(series) for name, series in figures.items()}


def ever_linked(pairs, task, past):
    """Knows repeats and nothing else."""
    seen = Seen(past, NODES).upto(len(past) - 1)
    return seen.has(pairs[:, 0], pairs[:, 1]).astype(float)


def slow_seen(moments):
    pairs = set()
    for moment in moments:
        for a, b, op in zip(moment.src.tolist(), moment.dst.tolist(), moment.op.tolist(), strict=True):
            if op > 0 and a != b:
                pairs.add((min(a, b), max(a, b)))
    return pairs


@pytest.mark.parametrize("seed", range(10))
def test_never_seen_is_what_it_says(seed):
    steps = coming_and_going(seed)
    moments, seen = steps.moments, Seen(steps.moments, NODES)
    for step in range(len(moments) - 1):
        now, coming = moments[step].edges, moments[step + 1].edges
        known, warm = slow_seen(moments[: step + 1]), set(now.ravel().tolist())
        question = ask_never(now, coming, seen.upto(step), NODES, np.random.default_rng(step))
        asked = set(map(tuple, question.linked.tolist()))
        assert asked == {(a, b) for a, b in coming.tolist() if (a, b) not in known and {a, b} <= warm}
        for pairs in question.negatives.values():
            for a, b in np.sort(pairs, axis=1).tolist():
                assert a != b
                assert {a, b} <= warm
                assert (a, b) not in known
                assert (a, b) not in set(map(tuple, coming.tolist()))


def test_pairs_seen_can_be_asked_for_an_earlier_moment_again():
    moments = coming_and_going().moments
    seen = Seen(moments, NODES)
    seen.upto(6)
    everyone = np.array([(a, b) for a in range(NODES) for b in range(a + 1, NODES)])
    found = everyone[seen.upto(2).has(*everyone.T)]
    assert set(map(tuple, found.tolist())) == slow_seen(moments[:3])


def test_a_graph_that_keeps_its_edges_has_no_returns():
    moments = coming_and_going(losing=False).moments
    seen = Seen(moments, NODES)
    for step in range(len(moments) - 1):
        now, coming = moments[step].edges, moments[step + 1].edges
        fresh = ask_links(now, coming, NODES, np.random.default_rng(0))["new-warm"]
        never = ask_never(now, coming, seen.upto(step), NODES, np.random.default_rng(0))
        np.testing.assert_array_equal(fresh.linked, never.linked)


def test_who_knows_repeats_alone_fails_links_never_seen():
    figures = judged(ever_linked, coming_and_going())
    assert figures["score.auc.all.uniform"].mean() > 0.8
    assert figures["score.auc.new-warm.uniform"].mean() > 0.52  # links that return
    assert (figures["score.auc.never.uniform"] == 0.5).all()
    assert (figures["score.auc.never.degree"] == 0.5).all()


def test_returns_that_count_as_never_seen_are_caught(monkeypatch):
    """Seeded: pairs that are gone are forgotten, as if only the present graph had been seen."""

    def upto(self, step):
        return PairSet(self._moments[step].edges, self._nodes)

    monkeypatch.setattr(Seen, "upto", upto)
    with pytest.raises(AssertionError):
        test_never_seen_is_what_it_says(0)


def test_pairs_of_the_next_moment_that_count_as_seen_are_caught(monkeypatch):
    """Seeded: the pairs seen so far hold those of the next step."""
    right = Seen.upto
    monkeypatch.setattr(Seen, "upto", lambda self, step: right(self, step + 1))
    with pytest.raises(AssertionError):
        test_never_seen_is_what_it_says(0)


LINKS = [
    f"score.auc.{task}.{kind}" for task in ("all", "new-warm", "never") for kind in ("uniform", "degree")
]


def lower_first(pairs, task, past):
    """Cheats: edges of a graph come with the lower end first."""
    return (pairs[:, 0] < pairs[:, 1]).astype(float)


def test_the_order_of_the_ends_tells_nothing():
    figures = judged(lower_first, coming_and_going(steps=30))
    for name in LINKS:
        spread = 0.15 if "all" not in name else 0.05
        assert abs(np.nanmean(figures[name]) - 0.5) < spread, name


def test_ends_that_are_not_mixed_are_caught(monkeypatch):
    """Seeded: pairs are handed over as they are drawn."""
    monkeypatch.setattr("dygcn_lab.evaluation.judge.with_mixed_ends", lambda question, random: question)
    with pytest.raises(AssertionError):
        test_the_order_of_the_ends_tells_nothing()


def test_nobody_can_look_at_the_moment_that_judges_it():
    """When a question of step t is asked, the method has been handed the moments up to t and no other."""
    steps = coming_and_going()
    handed = []

    def says(pairs, task, past):
        handed.append(len(past))
        assert all(a is b for a, b in zip(past, steps.moments, strict=False))
        return np.zeros(len(pairs))

    judged(says, steps)
    assert min(handed) == steps.fitted + 1
    assert max(handed) == len(steps.moments) - 1
    assert handed == sorted(handed)


def future(steps):
    """Return a score that knows the next moment, whichever that is."""

    def says(pairs, task, past):
        coming = steps.moments[min(len(past), len(steps.moments) - 1)]
        known = PairSet(coming.edges, NODES)
        return known.has(pairs[:, 0], pairs[:, 1]).astype(float)

    return says


def test_who_knows_everything_gets_everything():
    steps = coming_and_going()
    figures = judged(future(steps), steps)
    for name in LINKS:
        assert np.nanmin(figures[name]) == 1.0, name


def present(pairs, task, past):
    """Knows the last moment that it was shown: everything, if that were the one that judges."""
    edges = PairSet(past[-1].edges, NODES)
    return edges.has(pairs[:, 0], pairs[:, 1]).astype(float)


def test_a_judge_that_shows_the_next_moment_is_caught(monkeypatch):
    """Seeded: the judge asks about the moment that the method has been shown."""
    steps = coming_and_going()
    assert judged(present, steps)["score.auc.all.uniform"].max() < 1.0
    from dygcn_lab.evaluation.judge import Judge  # noqa: PLC0415

    right = Judge.look
    monkeypatch.setattr(Judge, "look", lambda self, step, *rest: right(self, step - 1, *rest))
    assert judged(present, steps)["score.auc.all.uniform"].min() == 1.0


def test_a_constant_score_is_worth_nothing():
    steps = coming_and_going()
    figures = judged(lambda pairs, task, past: np.zeros(len(pairs)), steps)
    for name in LINKS:
        assert (figures[name] == 0.5).all()


def test_the_middle_of_a_hundred_rivals():
    answers, others = np.zeros(3), np.zeros((3, 100))
    nobody = np.zeros(others.shape, bool)
    assert (mean_ranks(answers, others, nobody) == 51).all()
    assert (mean_ranks(answers, others, ~nobody) == 1).all()
    assert (mean_ranks(answers - 1, others, nobody) == 101).all()


def test_questions_that_were_there_before_are_drawn_as_before():
    """Figures of these questions lie in finished cells; another draw would make them incomparable."""
    steps = coming_and_going(3)
    figures = judged(lambda pairs, task, past: (pairs.sum(axis=1) * 7919 % 101).astype(float), steps, seed=5)
    for step, found in zip(steps.tested, figures["score.auc.all.uniform"], strict=True):
        now, coming = steps.moments[step].edges, steps.moments[step + 1].edges
        asked = ask_links(now, coming, steps.nodes, np.random.default_rng([5, step]))["all"]
        linked, others = (
            pairs.sum(axis=1) * 7919 % 101 for pairs in (asked.linked, asked.negatives["uniform"])
        )
        slow = np.mean([(a > b) + 0.5 * (a == b) for a in linked for b in others])
        assert found == pytest.approx(slow)


def test_half_of_the_labels_is_held_out():
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    active = np.arange(200) < 150
    noise = random.normal(size=(200, 300)).astype(np.float32)  # nothing to learn, much to remember
    classifier = HeldOutClassifier(noise, labels, active, np.random.default_rng(1))
    found = classifier.accuracy(noise, np.ones(200, bool))
    assert found["held-out"] < 0.7
    assert found["held-out.newcomers"] < 0.7
    result = np.stack((labels, 1 - labels), axis=1).astype(np.float32)
    found = HeldOutClassifier(result, labels, active, np.random.default_rng(1)).accuracy(result, active)
    assert found["held-out"] == 1.0
    assert np.isnan(found["held-out.newcomers"])


def test_labels_that_were_fitted_on_are_caught(monkeypatch):
    """Seeded: the classifier is asked for the nodes that it was fitted on."""
    right = HeldOutClassifier.accuracy

    def accuracy(self, vectors, active):
        self._used = ~self._used & self._old
        return right(self, vectors, active)

    monkeypatch.setattr(HeldOutClassifier, "accuracy", accuracy)
    with pytest.raises(AssertionError):
        test_half_of_the_labels_is_held_out()


def test_one_class_is_the_majority():
    labels = np.array([0] * 9 + [1])
    vectors = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    active = np.arange(10) < 8
    found = HeldOutClassifier(vectors, labels, active, np.random.default_rng(0)).accuracy(
        vectors, np.ones(10, bool)
    )
    assert found == {"held-out": 1.0, "held-out.newcomers": 0.5, "majority": 1.0, "majority.newcomers": 0.5}
