"""Is a rolled embedding still good? A norm band and a sampled check, both off by default, both ours.

A finite vector may still be wrong: runs of the paper's rules were seen to explode to 1e8 and to collapse
to 1e-3 with every value finite.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from dygcn.errors import DriftWarning, NormBandWarning
from dygcn.evaluation import auc
from dygcn.events.keys import salted
from dygcn.models import norms
from dygcn.propagation import RollingRule

if TYPE_CHECKING:
    from dygcn.models import State
    from dygcn.models.paper import Watch
    from dygcn.records import Float64, Nodes

_AT_LEAST = 30  # links; an AUC of fewer says nothing


def take_anchor(state: State) -> None:
    """Remember what vectors look like straight after a base: later checks compare with it."""
    assert state.model.paper is not None
    assert isinstance(state.rule, RollingRule)
    state.rule.anchor = _measure(state, state.model.paper.watch, 0)


def wants_restart(state: State, version: int) -> bool:
    """Check a sample, warn if it is out of bounds, and say whether a fresh base is due."""
    assert state.model.paper is not None
    assert isinstance(state.rule, RollingRule)
    watch = state.model.paper.watch
    if (watch.band is None and watch.restart == "never") or version % watch.every:
        return False
    length, score = _measure(state, watch, version)
    length_then, score_then = state.rule.anchor
    if watch.band is not None and length_then > 0:
        _check_band(length / length_then, watch.band, version)
    if watch.restart == "never" or score >= score_then - watch.tolerance:
        return False
    if watch.restart == "warn":
        warnings.warn(
            f"at version {version} sampled links have AUC {score:.3f}, at the last base {score_then:.3f}; "
            "restart() takes a fresh base",
            DriftWarning,
            stacklevel=3,
        )
    return watch.restart == "auto"


def _check_band(ratio: float, band: tuple[float, float], version: int) -> None:
    low, high = band
    if low <= ratio <= high:
        return
    what = "explodes" if ratio > high else "collapses"
    warnings.warn(
        f"the run {what}: at version {version} the mean length of the vectors is {ratio:.3g} times that "
        f"of the last base (the band is {low:g} to {high:g}); restart() takes a fresh base",
        NormBandWarning,
        stacklevel=4,
    )


def _measure(state: State, watch: Watch, version: int) -> Float64:
    """Return the mean length of sampled vectors, and the AUC of sampled links (1 if there are too few)."""
    assert isinstance(state.rule, RollingRule)
    nodes = state.graph.some_nodes(version, watch.sample)
    if len(nodes) == 0:
        return np.array([0.0, 1.0])
    length = float(norms(state.rule.vectors(nodes)).mean())
    left, right, strangers = _links(state, nodes, version)
    if len(left) < _AT_LEAST:
        return np.array([length, 1.0])
    linked, others = _cosine(state.rule, left, right), _cosine(state.rule, left, strangers)
    return np.array([length, auc(linked, others)])


def _links(state: State, nodes: Nodes, salt: int) -> tuple[Nodes, Nodes, Nodes]:
    """Return nodes, a neighbour of each, and another node that is none; ids and salt decide which."""
    graph = state.graph
    place = np.empty(graph.ids.high, np.int64)
    place[nodes] = np.arange(len(nodes))
    owner, other, weight = graph.pull.arcs(nodes)
    owner, other = owner[weight > 0], other[weight > 0]
    order = np.lexsort((salted(graph.ids.keys[other], salt), place[owner]))
    owner, first = np.unique(place[owner[order]], return_index=True)
    left, right = nodes[owner], other[order][first]
    strangers = np.roll(left, 1)
    apart = (strangers != left) & (graph.pull.look_up(left, strangers) == 0)
    return left[apart], right[apart], strangers[apart]


def _cosine(rule: RollingRule, a: Nodes, b: Nodes) -> Float64:
    x, y = rule.vectors(a).astype(np.float64), rule.vectors(b).astype(np.float64)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    dots = np.einsum("ij,ij->i", x, y)
    cosine: Float64 = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
    return cosine
