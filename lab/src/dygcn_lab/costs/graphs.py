"""Graphs to measure on: real ones by name, and random ones of any size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from dygcn.datasets import events_by_name
from dygcn.engine.events import read_events
from dygcn.engine.records import EventBatch, Float, IdColumn, Int64
from dygcn.errors import OptionError

OGBN_ARXIV = (169_343, 1_040_000)  # nodes and edges of the power law
DEGREES = (4, 1000)  # least and greatest expected degree of `steady`
_UNITS = {"k": 1_000, "m": 1_000_000}
_COUNT = r"[0-9]+(?:\.[0-9]+)?[km]?"
PART = 4_000_000  # pairs that are drawn at once, where the graph is not wanted as one batch
_SPARE = (1.05, 1.3, 3.0)
_AT_ONCE = 1 << 16  # pairs of R-MAT
_SKEW = (0.57, 0.76, 0.95)  # R-MAT's a, a + b, a + b + c: Chakrabarti, Zhan and Faloutsos 2004


Draw: TypeAlias = "Callable[..., tuple[Int64, Int64]]"
"""Takes nodes, pairs, seed and part."""


def graph_events(name: str, seed: int = 0) -> EventBatch:
    """Return the events of a graph by name.

    `name`: a data set (`dygcn.datasets.names`), a path, or a random graph: ``power-law`` (of ogbn-arxiv's
    size), ``power-law-50k-300k``, ``rmat-1m-10m``, ``steady-1m-10m``, with so many nodes and edges (fewer
    edges where so many hardly fit, and no node without one).
    """
    random = random_graph(name)
    if random is None:
        return read_events(events_by_name(name))
    draw, nodes, edges = random
    for spare in _SPARE:  # some pairs are loops or equal
        events = distinct_edges(*draw(nodes, round(spare * edges), seed), edges)
        if len(events) == edges:
            break
    return events


def random_graph(name: str) -> tuple[Draw, int, int] | None:
    """Return how the pairs of a random graph are drawn, and its nodes and edges; None: it is another one."""
    random = re.fullmatch(rf"(power-law|rmat|steady)(?:-({_COUNT})-({_COUNT}))?", name.lower())
    if random is None:
        return None
    kind, nodes, edges = random.groups()
    size = OGBN_ARXIV if nodes is None else (count_of(nodes), count_of(edges))
    return {"power-law": power_law, "rmat": rmat, "steady": steady}[kind], *size


def graph_parts(name: str, seed: int, missing: Callable[[], int]) -> Iterator[EventBatch]:
    """Yield the events of a random graph in parts, as long as `missing` says that edges are missing."""
    random = random_graph(name)
    assert random is not None
    draw, nodes, _ = random
    part = 0
    while (more := missing()) > 0:
        yield distinct_edges(*draw(nodes, min(PART, more + 1), seed, part), PART)
        part += 1


def count_of(text: str) -> int:
    """Read a number with a unit."""
    if re.fullmatch(_COUNT, text.lower()) is None:
        raise OptionError(f"{text!r} is no number; allowed are 5000, 300k, 1.5m and the like")
    unit = text[-1:].lower()
    return round(float(text[:-1]) * _UNITS[unit]) if unit in _UNITS else round(float(text))


def distinct_edges(a: Int64, b: Int64, most: int) -> EventBatch:
    """Return at most so many of the pairs as events, each once, without loops, in the order they came."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    keys = (low << 32 | high)[low != high]
    del a, b, low, high
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(keys), np.bool_)
    ranked = keys[order]
    new[order[1:]] = ranked[1:] != ranked[:-1]
    del order, ranked
    keys = keys[new][:most]
    if len(keys) == 0:
        raise OptionError("a graph needs two nodes and one edge at least")
    return EventBatch(IdColumn(keys >> 32), IdColumn(keys & 0xFFFFFFFF), np.ones(len(keys), np.int8))


def power_law(nodes: int, pairs: int, seed: int = 0, part: int = 0) -> tuple[Int64, Int64]:
    """Draw pairs whose ends are chosen with chance ~ rank^-0.6."""
    return _pairs_by_chance(np.arange(1.0, nodes + 1) ** -0.6, pairs, seed, part)


def steady(nodes: int, pairs: int, seed: int = 0, part: int = 0) -> tuple[Int64, Int64]:
    """Draw pairs so that degrees have one distribution at any size: a power law between two bounds.

    Expected degrees are quantiles of ``p(d) ~ d^-2.5`` on `DEGREES`, scaled to the mean that was asked for;
    what grows with the graph is the number of nodes of each degree, not the degree of the largest.
    """
    low, high = DEGREES
    at = (np.arange(nodes) + 0.5) / nodes
    degree = (low**-1.5 - at * (low**-1.5 - high**-1.5)) ** (-1 / 1.5)
    return _pairs_by_chance(degree, pairs, seed, part)


def _pairs_by_chance(chance: Float, pairs: int, seed: int, part: int) -> tuple[Int64, Int64]:
    total = chance.cumsum()
    shuffle = np.random.default_rng(seed).permutation(len(total))
    random = np.random.default_rng([seed, part, 1])
    ends = []
    for _ in range(2):
        found = np.searchsorted(total, random.random(pairs) * total[-1])
        ends.append(shuffle[found.clip(max=len(total) - 1)])
    return ends[0], ends[1]


def rmat(nodes: int, pairs: int, seed: int = 0, part: int = 0) -> tuple[Int64, Int64]:
    """Draw pairs as R-MAT does; ids that fall outside are folded back in."""
    bits = max(1, int(nodes - 1).bit_length())
    a, b = _rmat_pairs(pairs, bits, np.random.default_rng([seed, part, 1]), *_SKEW)
    return a % nodes, b % nodes


def _rmat_pairs(
    count: int, bits: int, random: np.random.Generator, first: float, second: float, third: float
) -> tuple[Int64, Int64]:
    a, b = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for start in range(0, count, _AT_ONCE):
        some = slice(start, min(start + _AT_ONCE, count))
        draws = random.random((some.stop - start, bits))
        lower = draws >= second
        right = ((first <= draws) & (draws < second)) | (draws >= third)
        for bit in range(bits):
            a[some] = 2 * a[some] + lower[:, bit]
            b[some] = 2 * b[some] + right[:, bit]
    return a, b
