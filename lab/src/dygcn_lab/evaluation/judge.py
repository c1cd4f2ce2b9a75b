"""The judge: asks a method the same questions at every step, whatever the method is.

Figures are lists over the tested steps, by name. ``cosine.auc.all.uniform`` reads: scored by the cosine of
the vectors, AUC, all edges of the next graph, uniform negatives. A method with a score of its own has the
same figures once more under ``score``. Every kind of question is drawn by a generator of its own, so that a
new kind leaves the others what they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dygcn.engine.measures import auc, pair_cosines, unit_rows
from dygcn.engine.records import Bool, Float32, Float64, Int64
from dygcn.errors import DygcnError
from dygcn_lab.evaluation.classes import FrozenClassifier, HeldOutClassifier
from dygcn_lab.evaluation.links import (
    NEGATIVES,
    TASKS,
    LinkQuestion,
    ask_links,
    ask_never,
    best_bar,
    f1_above,
    median_bar,
    with_mixed_ends,
)
from dygcn_lab.evaluation.method import Method
from dygcn_lab.evaluation.reconstruction import precision_at
from dygcn_lab.evaluation.seen import Seen
from dygcn_lab.evaluation.stability import motion
from dygcn_lab.evaluation.steps import Moment

Score = Callable[[Int64, str], Float64 | None]

Figures = dict[str, list[float]]
COSINE, OWN = "cosine", "score"
# What draws what, behind the seed and the step; all and new-warm links are drawn by seed and step alone.
_BARS, _NEVER, _ENDS, _HALVES = 1, 2, 3, 6


@dataclass
class Judge:
    """Questions of one history, the same for every method with the same seed.

    Parameters
    ----------
    moments
        The whole history.
    nodes
        Nodes are numbered from 0 to one less than this.
    fitted
        The last moment that a method is fitted on: thresholds and classifiers are chosen there, too.
    labels
        (nodes,) classes, below 0 where unknown; None: no classification.
    """

    moments: Sequence[Moment]
    nodes: int
    fitted: int
    seed: int = 0
    labels: Int64 | None = None
    figures: Figures = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bars: dict[str, float] = {}
        self._classifier: FrozenClassifier | None = None
        self._halves: HeldOutClassifier | None = None
        self._seen = Seen(self.moments, self.nodes)
        self._before: Float32 | None = None

    def train(self, vectors: Float32 | None, score: Score) -> None:
        """Choose thresholds and fit the classifier on what is known when fitting ends.

        The threshold is the best one for the edges of the last fitted graph itself.
        """
        edges = self.moments[self.fitted].edges
        drawn = ask_links(edges[:0], edges, self.nodes, self._random(self.fitted, _BARS))["all"]
        question = {"all": with_mixed_ends(drawn, self._random(self.fitted, _ENDS))}
        for name, ask in _scorers(vectors, score).items():
            self._bars[name] = best_bar(*_answers(ask, question, "all", "uniform"))
        if vectors is not None and self.labels is not None:
            active, random = self._active(self.fitted), self._random(self.fitted, _HALVES)
            self._classifier = FrozenClassifier(vectors, self.labels, active)
            self._halves = HeldOutClassifier(vectors, self.labels, active, random)
        self._before = None if vectors is None else vectors.copy()

    def look(self, step: int, vectors: Float32 | None, score: Score, seconds: float | None = None) -> None:
        """Judge the state after a step: links by the next graph, everything else by this one."""
        random = np.random.default_rng([self.seed, step])
        questions = self._questions(step, random)
        for name, ask in _scorers(vectors, score).items():
            self._links(name, ask, questions)
        if vectors is not None:
            self._embedding(step, vectors, random)
        if seconds is not None:
            self._note("seconds", seconds)

    def _questions(self, step: int, random: np.random.Generator) -> dict[str, LinkQuestion]:
        now, coming = self.moments[step].edges, self.moments[step + 1].edges
        questions = ask_links(now, coming, self.nodes, random)
        seen = self._seen.upto(step)
        questions["never"] = ask_never(now, coming, seen, self.nodes, self._random(step, _NEVER))
        ends = self._random(step, _ENDS)
        return {task: with_mixed_ends(question, ends) for task, question in questions.items()}

    def _links(self, name: str, ask: Score, questions: dict[str, LinkQuestion]) -> None:
        for task in TASKS:
            for kind in NEGATIVES:
                answers = _answers(ask, questions, task, kind)
                known = min(map(len, answers)) > 0
                self._note(f"{name}.auc.{task}.{kind}", auc(*answers) if known else float("nan"))
                if task == "all" and kind == "uniform":
                    self._note(f"{name}.f1.median", f1_above(median_bar(*answers), *answers))
                    if name in self._bars:
                        self._note(f"{name}.f1.trained", f1_above(self._bars[name], *answers))

    def _embedding(self, step: int, vectors: Float32, random: np.random.Generator) -> None:
        self._note("reconstruction", precision_at(vectors, self.moments[step].edges, random))
        if self._classifier is not None:
            everyone, late = self._classifier.accuracy(vectors, self._active(step))
            self._note("accuracy", everyone)
            self._note("accuracy.newcomers", late)
        if self._halves is not None:
            for figure, value in self._halves.accuracy(vectors, self._active(step)).items():
                self._note(f"accuracy.{figure}", value)
        if self._before is not None:
            moved = motion(self._before, vectors, self.moments[step])
            self._note("rewritten", moved.rewritten)
            self._note("untouched", moved.untouched)
            self._before = vectors.copy()

    def _random(self, step: int, kind: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, step, kind])

    def _active(self, step: int) -> Bool:
        active = np.zeros(self.nodes, np.bool_)
        active[self.moments[step].edges.ravel()] = True
        return active

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


def _scorers(vectors: Float32 | None, score: Score) -> dict[str, Score]:
    """Return what can answer: the cosine where there are vectors, the method's own score where it has one."""
    found: dict[str, Score] = {}
    if vectors is not None:
        units = unit_rows(vectors)
        found[COSINE] = lambda pairs, task: pair_cosines(units, pairs)
    if score(np.empty((0, 2), np.int64), "all") is not None:
        found[OWN] = score
    return found


def _answers(ask: Score, questions: dict[str, LinkQuestion], task: str, kind: str) -> tuple[Float64, Float64]:
    question = questions[task]
    return _scores(ask, question.linked, task), _scores(ask, question.negatives[kind], task)


def _scores(ask: Score, pairs: Int64, task: str) -> Float64:
    scores = ask(pairs, task)
    assert scores is not None
    if not np.isfinite(scores).all():
        raise DygcnError("a method scored a pair with NaN or infinity; no AUC can be told from that")
    return scores


def judge_method(
    method: Method,
    moments: Sequence[Moment],
    nodes: int,
    fitted: int,
    *,
    seed: int = 0,
    labels: Int64 | None = None,
    tested: range | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Figures, float]:
    """Fit a method on the first half, lead it through the second, and judge it at every step.

    Parameters
    ----------
    tested
        Steps that are judged; None: every one that was not fitted on and has a next one.

    Returns
    -------
    figures
        Lists over the tested steps, by name.
    seconds
        That fitting took.
    """
    judge = Judge(moments, nodes, fitted, seed, labels)
    begun = time.perf_counter()
    method.begin(moments[: fitted + 1], nodes)
    took = time.perf_counter() - begun
    judge.train(method.vectors(), method.score)
    tested = range(fitted + 1, len(moments) - 1) if tested is None else tested
    for done, step in enumerate(tested, 1):
        begun = time.perf_counter()
        method.follow(moments[step])
        vectors = method.vectors()
        judge.look(step, vectors, method.score, time.perf_counter() - begun)
        if progress is not None:
            progress(done, len(tested), "following the graph")
    return judge.figures, took
