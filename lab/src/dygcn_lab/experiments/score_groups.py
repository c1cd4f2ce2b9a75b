"""Cells of the learned score: the default of `fit`, its parts, and other embeddings with the same score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dygcn.engine.events import cut_steps, read_events, sort_by_time
from dygcn.engine.models.choices import Choices, FitTask
from dygcn.engine.models.links import HEADS, TRAITS
from dygcn.engine.records import Bool, Float64, Int64
from dygcn.engine.training import Recipe
from dygcn.engine.training.fitting import held_out, walk_model
from dygcn.engine.training.link_head import PairColumns, heads_of, read_columns
from dygcn.engine.training.next_head import NextSample
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.baselines import BASELINES
from dygcn_lab.evaluation import Method
from dygcn_lab.evaluation.steps import Moment
from dygcn_lab.experiments.cells import Record
from dygcn_lab.experiments.headed import Headed
from dygcn_lab.experiments.ours import HALF_LIVES, Exact, SharedFit, choose, event_table

if TYPE_CHECKING:
    from dygcn_lab.experiments.groups import Task

DIM = 128  # the default of `fit`
_HALF_LIVES: dict[tuple[str, bool], float | None] = {}  # chosen once, used for every seed and every rival
HEADED = ("dynwalks", "fastrp", "cleora")
WITHOUT = {"without vectors": 0, "without products of orders": 1}
"""Rows of the table of parts -> the first product of vectors that the score may not look at."""


def score(task: Task) -> dict[str, Record]:
    """The score of the default of `fit`; where edges go, with a half-life chosen in training, and without."""
    half_life = half_life_of(task)
    methods: dict[str, Method] = {"score": _ours(task, half_life)}
    if half_life is not None:
        methods["score, no memory"] = _ours(task, None)
    notes = {"memory": half_life}
    return {
        name: msgspec.structs.replace(task.judge(method), notes=notes) for name, method in methods.items()
    }


def _ours(task: Task, half_life: float | None) -> Exact:
    return Exact(SharedFit(task.seed, dim=DIM, memory=half_life, **task.settings))


def half_life_of(task: Task) -> float | None:
    """Return the half-life whose score tells new links best on the last quarter of the fitted steps."""
    moments, key = task.steps.moments[: task.steps.fitted + 1], (task.dataset, task.quick)
    if all((moment.op > 0).all() for moment in moments):
        return None
    if key not in _HALF_LIVES:
        figure, nodes = "score.auc.new-warm.uniform", task.steps.nodes
        asked = "memory", HALF_LIVES, figure
        _HALF_LIVES[key] = choose(moments, nodes, Recipe(), *asked, dim=DIM, features="walks")
    return _HALF_LIVES[key]


def parts(task: Task) -> dict[str, Record]:
    """The score without one part of it after the other, each fitted anew on the same held-out pairs."""
    moments = task.steps.moments[: task.steps.fitted + 1]
    half_life = half_life_of(task)
    fitting = SharedFit(task.seed, dim=DIM, memory=half_life)
    samples = _samples(moments, task.seed, half_life)
    found = {}
    for name, first in WITHOUT.items():
        heads = heads_of(*(without_products(read_columns(samples, None, kind), first) for kind in HEADS))
        found[name] = task.judge(Exact(partial(_with_heads, fitting, heads)))
    return found


def without_products(pairs: PairColumns, first: int) -> PairColumns:
    """Return the columns of pairs, with zeros in all products of vectors from the first one given."""
    plain = pairs.plain.copy()
    plain[:, first : -2 * TRAITS] = 0.0
    return dataclasses.replace(pairs, plain=plain)


def _samples(moments: Sequence[Moment], seed: int, half_life: float | None) -> Any:
    choices = Choices(DIM, 2, "exact", half_life, seed, 256, False)
    batch = sort_by_time(read_events(event_table(moments)))
    steps = cut_steps(batch, list(range(len(moments))))
    task, recipe = FitTask(batch, steps, choices), Recipe()
    blank = walk_model(task)
    return held_out(blank, task, recipe, NextSample(blank, steps, recipe)).samples


def _with_heads(fitting: SharedFit, heads: Any, moments: Sequence[Moment]) -> LiveEmbedding:
    live = fitting(moments)
    live._state.model = dataclasses.replace(live.model, links=heads)
    return live


def headed(name: str) -> Callable[[Task], dict[str, Record]]:
    """Another embedding, scored by the cosine of its vectors and by our score over them."""

    def run(task: Task) -> dict[str, Record]:
        make = partial(BASELINES[name].factory, task.seed, dim=DIM, **task.baseline_options(name))
        return {name: task.judge(Headed(make, task.seed, half_life_of(task)))}

    return run


def recall(task: Task) -> dict[str, Record]:
    """How many of the ten best nodes by the whole score a vector database finds."""
    live = SharedFit(task.seed, dim=DIM, memory=half_life_of(task))(
        task.steps.moments[: task.steps.fitted + 1]
    )
    return {links: Record(recall_figures(live, links)) for links in live.model.links}


QUERIES = 200
BEST = 10
CANDIDATES = 100  # that are scored again


def recall_figures(live: LiveEmbedding, links: str, seed: int = 0) -> dict[str, list[float | None]]:
    """Return recall at 10 against scoring everyone: by dot products, and with the first 100 scored again.

    For new links, everyone is every node that the query is not linked with; for the other kinds its
    neighbours count, too. A third figure adds the query's neighbours, and ghosts of some, to the candidates.
    """
    ids, random = live.ids(), np.random.default_rng(seed)
    index = live.link_vectors(ids, links=links)
    found: dict[str, list[float]] = {
        "recall.dot": [],
        "recall.reranked": [],
        "recall.with-neighbours": [],
    }
    for place in random.choice(len(ids), min(QUERIES, len(ids)), replace=False).tolist():
        others = np.flatnonzero(np.arange(len(ids)) != place)
        near_by, linked = _neighbours(live, place)
        if links == "new":
            others = np.setdiff1d(others, near_by[linked])
        whole = live.score(np.repeat(ids[place], len(others)), ids[others], links)
        best = others[_first(whole, BEST)]
        dots = index[others] @ live.link_vectors(ids[[place]], query=True, links=links)[0]
        near = _first(dots.astype(np.float64), CANDIDATES)
        more = np.union1d(near, np.flatnonzero(np.isin(others, near_by)))
        found["recall.dot"].append(_share(best, others[near[:BEST]]))
        found["recall.reranked"].append(_share(best, others[near[_first(whole[near], BEST)]]))
        found["recall.with-neighbours"].append(_share(best, others[more[_first(whole[more], BEST)]]))
    return {name: [float(np.mean(shares))] for name, shares in found.items()}


def _neighbours(live: LiveEmbedding, place: int) -> tuple[Int64, Bool]:
    """Return where the nodes stand that a node has an edge with, or a ghost of one, and which an edge."""
    graph = live._state.graph
    nodes = graph.nodes()  # in the order of ids
    place_of = np.empty(graph.ids.high, np.int64)
    place_of[nodes] = np.arange(len(nodes))
    _, others, weights = graph.pull.arcs(nodes[[place]])
    return place_of[others], weights > 0


def _first(scores: Float64, count: int) -> Int64:
    return np.argsort(-scores, kind="stable")[:count]


def _share(best: Int64, found: Int64) -> float:
    return len(np.intersect1d(best, found)) / max(len(best), 1)
