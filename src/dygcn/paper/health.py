"""Health checks of a rolled embedding: a norm band and a sampled AUC, off by default, not in the paper.

A finite vector may still be wrong: runs of the paper's rules were seen to explode to 1e8 and to collapse
to 1e-3 with every value finite.
"""

from __future__ import annotations

import warnings

import numpy as np

from dygcn.engine.events.keys import salted
from dygcn.engine.measures import auc
from dygcn.engine.models.links import norms
from dygcn.engine.models.state import State
from dygcn.engine.records import Float64, Nodes
from dygcn.errors import DriftWarning, NormBandWarning
from dygcn.paper.options import Watch
from dygcn.paper.rolling import RollingRule

_AT_LEAST = 30  # links; an AUC of fewer says nothing
_NEGATIVES = 5  # for each link


def take_anchor(state: State, watch: Watch) -> None:
    """Store statistics of the vectors right after a base, for later checks to compare with."""
    rule = rolled(state)
    score, _ = _score(state, rule, watch, 0)
    rule.anchor = np.array([_length(state, rule, watch, 0), score, 0.0])


def wants_restart(state: State, watch: Watch, version: int) -> bool:
    """Count an update; when due, check a sample, warn, and return whether to compute a fresh base."""
    rule = rolled(state)
    rule.anchor[2] += 1
    if rule.anchor[2] % watch.every:
        return False
    due = watch.restart != "never" and _drifted(state, rule, watch, version)
    if watch.band is not None and rule.anchor[0] > 0:
        _check_band(_length(state, rule, watch, version) / rule.anchor[0], watch.band, version)
    return due and watch.restart == "auto"


def rolled(state: State) -> RollingRule:
    """Return the rule of a state, checked to be one of the paper's."""
    assert isinstance(state.rule, RollingRule)
    return state.rule


def _drifted(state: State, rule: RollingRule, watch: Watch, version: int) -> bool:
    """Return whether links score significantly worse than at the last base."""
    score, links = _score(state, rule, watch, version)
    then = rule.anchor[1]
    if score < 0:
        return False
    if then < 0:  # the base had too few links to say: compare with now
        rule.anchor[1] = score
        return False
    chance = 2 * np.sqrt((score * (1 - score) + then * (1 - then)) / links)
    if score >= then - watch.tolerance - chance:
        return False
    if watch.restart == "warn":
        warnings.warn(
            f"at version {version} sampled links have AUC {score:.3f}, at the last base {then:.3f}; "
            "restart() takes a fresh base",
            DriftWarning,
            stacklevel=5,
        )
    return True


def _check_band(ratio: float, band: tuple[float, float], version: int) -> None:
    low, high = band
    if low <= ratio <= high:
        return
    what = "explodes" if ratio > high else "collapses"
    warnings.warn(
        f"the run {what}: at version {version} the mean length of the vectors is {ratio:.3g} times that "
        f"of the last base (the band is {low:g} to {high:g}); restart() takes a fresh base",
        NormBandWarning,
        stacklevel=5,
    )


def _length(state: State, rule: RollingRule, watch: Watch, salt: int) -> float:
    nodes = state.graph.some_nodes(salt, watch.sample)
    return float(norms(rule.vectors(nodes)).mean()) if len(nodes) else 0.0


def _score(state: State, rule: RollingRule, watch: Watch, salt: int) -> tuple[float, int]:
    """Return the AUC of sampled links against negatives (-1 if there are too few), and how many links."""
    nodes = state.graph.some_nodes(salt, watch.sample)
    left, right, negatives = _links(state, nodes, salt)
    if len(left) < _AT_LEAST:
        return -1.0, len(left)
    linked = _cosine(rule, left, right)
    others = np.concatenate([_cosine(rule, left, column) for column in negatives])
    return auc(linked, others), len(left)


def _links(state: State, nodes: Nodes, salt: int) -> tuple[Nodes, Nodes, list[Nodes]]:
    """Return nodes, a neighbour of each, and non-neighbours, sampled by ids and salt."""
    graph = state.graph
    place = np.empty(graph.ids.high, np.int64)
    place[nodes] = np.arange(len(nodes))
    owner, other, weight = graph.pull.arcs(nodes)
    owner, other = owner[weight > 0], other[weight > 0]
    order = np.lexsort((salted(graph.ids.keys[other], salt), place[owner]))
    owner, first = np.unique(place[owner[order]], return_index=True)
    left, right = nodes[owner], other[order][first]
    negatives = [np.roll(left, shift) for shift in range(1, _NEGATIVES + 1)]
    for column in negatives:  # one that is no negative is replaced by the first that is
        near = (column == left) | (graph.pull.look_up(left, column) != 0)
        column[near] = negatives[0][near]
    apart = (negatives[0] != left) & (graph.pull.look_up(left, negatives[0]) == 0)
    return left[apart], right[apart], [column[apart] for column in negatives]


def _cosine(rule: RollingRule, a: Nodes, b: Nodes) -> Float64:
    x, y = rule.vectors(a).astype(np.float64), rule.vectors(b).astype(np.float64)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    dots = np.einsum("ij,ij->i", x, y)
    cosine: Float64 = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
    return cosine
