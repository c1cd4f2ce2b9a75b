"""Fits a filter: rows by a truncated SVD, settings by the best answers to held-out events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from dygcn.engine.filter.head import CANDIDATES, MOST_ON_PATHS, FilterHead
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.records import Bool, EventBatch, Float32, Float64, Int8, Int32, Int64, Nodes
from dygcn.engine.training import walk_kernels
from dygcn.engine.training.samples import last_events, some_pairs
from dygcn.engine.training.walks import OVERSAMPLE, leading_block, rotation, turn_rows

Array = TypeVar("Array", "Bool", "Float32")
RANK = 128  # columns
# Settings that are tried. Half-lives are the span of the events divided by these; 0 is none.
GRID: Mapping[str, tuple[float, ...]] = {
    "edges": (0, 2, 8, 32, 128, 1000),
    "ridge": (0.3, 1, 3, 10, 30),
    "degree": (0, 0.125, 0.25, 0.375, 0.5),
    "profile": (0, 2, 8, 200, 40_000),
    "paths": (0, 0.03, 0.1, 0.3, 1, 3),
}
# The power of a trend and the half-life of its counts go together.
TRENDS = tuple({"trend": power, "lately": part} for power in (0.1, 0.5, 1) for part in (12, 50, 200, 1000))
# Where the search begins; what is taken where too little is held out.
START = {
    "edges": 0.0,
    "ridge": 3.0,
    "degree": 0.25,
    "profile": 0.0,
    "trend": 0.0,
    "lately": 50.0,
    "paths": 0.0,
}
_OF_TIMES = "edges", "profile", "trend", "lately"
_FINER = 0.5, 1.5, 2.0  # times what was found
MOST_TRIED = 41  # settings: a search takes seconds, and evidence gives every rival as many
_FEWEST = 50  # held-out pairs
_CELLS, _MOST_ASKERS = 100_000_000, 2_000  # of the scores that one setting is judged by
_DENSE = 512  # answers up to which nothing is iterated
_TOP = 10


@dataclass(frozen=True)
class HistoryPairs:
    """Distinct pairs of an asker and an answer, sorted by asker: numbers, and the newest time."""

    one: Int64
    other: Int64
    t: Float64
    sizes: tuple[int, int]  # how many can ask, how many can be an answer

    @staticmethod
    def of(one: Int64, other: Int64, t: Float64, op: Int8, sizes: tuple[int, int]) -> HistoryPairs:
        """Return the pairs that remain after events, which are in order of time."""
        keys, from_the_end = np.unique((one * sizes[1] + other)[::-1], return_index=True)
        there = op[::-1][from_the_end] > 0
        keys = keys[there]
        return HistoryPairs(keys // sizes[1], keys % sizes[1], t[::-1][from_the_end[there]], sizes)

    @property
    def keys(self) -> Int64:
        """A number for each pair, in their order."""
        return self.one * self.sizes[1] + self.other

    def some(self, chosen: Bool) -> HistoryPairs:
        """Return some of the pairs."""
        return HistoryPairs(self.one[chosen], self.other[chosen], self.t[chosen], self.sizes)

    @cached_property
    def degrees(self) -> tuple[Int64, Int64]:
        """The number of pairs of each asker and of each answer."""
        one, other = (
            np.bincount(ends, minlength=size)
            for ends, size in zip((self.one, self.other), self.sizes, strict=True)
        )
        return one, other

    @cached_property
    def _turned(self) -> Int64:
        return np.argsort(self.other, kind="stable")

    @cached_property
    def _lists(self) -> tuple[tuple[Int64, Int32], tuple[Int64, Int32]]:
        """Return where each row's pairs begin, and their columns; also for the transposed matrix."""
        side = max(self.sizes)  # loops take square matrices
        starts = [
            np.concatenate(([0], np.cumsum(np.bincount(ends, minlength=side))))
            for ends in (self.one, self.other)
        ]
        columns = self.other.astype(np.int32), self.one[self._turned].astype(np.int32)
        return (starts[0], columns[0]), (starts[1], columns[1])

    def product(self, values: Float32, table: Float32, turned: bool = False) -> Float32:
        """Return the matrix with these values (turned: its transposed) times a table."""
        start, columns = self._lists[turned]
        square = np.zeros((max(self.sizes), table.shape[1]), np.float32)
        square[: len(table)] = table
        out = np.empty_like(square)
        ordered = values[self._turned] if turned else values
        walk_kernels.multiply(start, columns, ordered.astype(np.float32), square, out, 0)
        return out[: self.sizes[0 if not turned else 1]]


def power(degree: Int64, exponent: float) -> Float32:
    """Return numbers of edges to a power; 0 where there are none."""
    raised: Float64 = np.where(degree > 0, np.maximum(degree, 1.0) ** exponent, 0.0)
    return raised.astype(np.float32)


@dataclass(frozen=True)
class FilterRows:
    """Rows of 8 bits, the step of each column, and the singular values."""

    rows: Int8
    step: Float32
    sizes: Float64

    @staticmethod
    def of(pairs: HistoryPairs, seed: int) -> FilterRows:
        """Factorise ``D_one^-1/4 R D_other^-1/4``; a row has the root of its number of edges in it, too."""
        one, other = (power(degree, -0.25) for degree in pairs.degrees)
        values = one[pairs.one] * other[pairs.other]

        def squared(block: Float32) -> Float32:
            return pairs.product(values, pairs.product(values, block), turned=True)

        vectors, squares = _leading(squared, pairs.sizes, seed)
        table = vectors * other[:, None]
        step = np.maximum(np.abs(table).max(axis=0, initial=0.0), 1e-12) / np.float32(127)
        return FilterRows(np.rint(table / step).astype(np.int8), step.astype(np.float32), np.sqrt(squares))

    def weights(self, ridge: float) -> Float32:
        """Return the weight of each column's product."""
        if len(self.sizes) == 0:
            return np.empty(0, np.float32)
        beyond = ridge * self.sizes[min(63, len(self.sizes) - 1)] ** 2
        found: Float64 = self.step.astype(np.float64) ** 2 / (self.sizes**2 + beyond)
        return found.astype(np.float32)


def _leading(
    squared: Callable[[Float32], Float32], sizes: tuple[int, int], seed: int
) -> tuple[Float32, Float64]:
    if sizes[1] <= _DENSE:
        whole = squared(np.eye(sizes[1], dtype=np.float32)).astype(np.float64)
        found, vectors = np.linalg.eigh((whole + whole.T) / 2)
        keep = np.argsort(-found)[: min(RANK, int((found > 1e-6).sum()))]
        return vectors[:, keep].astype(np.float32), found[keep]

    def multiply(block: Float32) -> None:
        block[:] = squared(block)

    rank = min(RANK, sizes[0], sizes[1] - OVERSAMPLE)
    block = leading_block(multiply, sizes[1], rank, seed)
    turn_rows(block, rotation(block, rank))
    values = np.sqrt((block[:, :rank].astype(np.float64) ** 2).sum(axis=0))
    real = values > 1e-6
    return (block[:, :rank][:, real] / values[real]).astype(np.float32), values[real]


class Search:
    """Measures settings on the pairs that came after the known ones."""

    # before: The pairs that are known.
    # asked, wanted: Who is asked, in order; pairs that came later, in order: the place of one among
    #   the asked, the answer.
    # now, span: When it is asked, and how long the events before took.

    def __init__(
        self,
        before: HistoryPairs,
        asked: Int64,
        wanted: tuple[Int64, Int64],
        now: float,
        span: float,
        seed: int,
    ) -> None:
        self._before, self._asked, self._now, self._span = before, asked, now, span
        self._wanted = wanted
        self._rows = FilterRows.of(before, seed)
        self._table = self._rows.rows * self._rows.step
        first, last = (np.searchsorted(before.one, asked, side) for side in ("left", "right"))
        counts = last - first
        self._own = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(
            counts.sum()
        )
        self._asker = np.repeat(np.arange(len(asked)), counts)
        self._kept: dict[str, tuple[float, Any]] = {}

    def settings(self, timed: bool) -> dict[str, float]:
        """Return the best settings found by a coordinate search."""
        best, value = dict(START), self.value(START)
        tried = {tuple(best.items())}
        for other in chain(*(options(best, timed) for options in (_coarse, _coarse, _finer, _finer))):
            if tuple(other.items()) in tried or len(tried) == MOST_TRIED:
                continue
            tried.add(tuple(other.items()))
            if (found := self.value(other)) > value + 1e-6:
                best.update(other)
                value = found
        return best

    def value(self, settings: Mapping[str, float]) -> float:
        """Return the mean over askers of NDCG plus recall at 10."""
        scores, (place, answer) = self._scores(settings), self._wanted
        scores[self._asker, self._before.other[self._own]] = -np.inf
        found, counts = scores[place, answer], np.bincount(place, minlength=len(scores))
        ends = np.cumsum(counts).tolist()
        scores.sort(axis=1)
        slices = map(slice, [0, *ends], ends)
        below = [row.searchsorted(found[some]) for row, some in zip(scores, slices, strict=True)]
        ranks = scores.shape[1] - np.concatenate(below)  # from 1; of equal scores, the last
        gains, most = 1.0 / np.log2(np.arange(2, _TOP + 2)), np.minimum(counts, _TOP)
        hits = np.where(
            ranks <= _TOP, gains[np.minimum(ranks, _TOP) - 1] / np.cumsum(gains)[most - 1][place], 0.0
        )
        hits += (ranks <= _TOP) / most[place]
        return float(hits.sum() / len(scores))

    def _scores(self, settings: Mapping[str, float]) -> Float32:
        degree = power(self._before.degrees[1], -settings["degree"])
        query = self._profiles(settings["profile"]) * (
            self._rows.weights(settings["ridge"]) / self._rows.step**2
        )
        found: Float32 = query @ (self._answers(settings["edges"]) * degree[:, None]).T
        if settings["paths"]:
            paths, ends = self._paths(settings["edges"]), power(self._before.degrees[1], -0.5)
            found += paths * (np.float32(settings["paths"]) * ends)
        if settings["trend"]:
            recent = self._recent(settings["lately"])
            trend = ((0.1 + recent / max(recent.mean(), 1e-300)) ** settings["trend"]).astype(np.float32)
            np.multiply(found, trend, out=found, where=found > 0)
        if settings["paths"]:
            np.copyto(found, -np.inf, where=self._left_out(settings["edges"]))
        return found

    def _ages(self, part: float) -> Float32:
        if not part:
            return np.ones(len(self._before.t), np.float32)
        return np.exp2((self._before.t - self._now) * (part / self._span)).astype(np.float32)

    def _remember(self, name: str, part: float, made: Callable[[], Array]) -> Array:
        """Return the cached value for this part; compute it if the part is another one."""
        if self._kept.get(name, (None,))[0] != part:
            self._kept[name] = part, made()
        found: Array = self._kept[name][1]
        return found

    def _answers(self, part: float) -> Float32:
        def made() -> Float32:
            pairs = self._before
            told = (
                pairs.product(np.ones(len(pairs.t), np.float32), self._table)
                * power(pairs.degrees[0], -0.5)[:, None]
            )
            return pairs.product(self._ages(part), told, turned=True)

        return self._remember("answers", part, made)

    def _recent(self, part: float) -> Float32:
        weights = self._ages(part)
        return np.bincount(self._before.other, weights, self._before.sizes[1]).astype(np.float32)

    def _profiles(self, part: float) -> Float32:
        def made() -> Float32:
            pairs, counts = self._before, self._before.degrees[0]
            some = counts[counts > 0]
            newest = np.maximum.reduceat(pairs.t, np.cumsum(some) - some).repeat(some)
            ages = np.exp2((pairs.t - newest) * (part / self._span))
            return pairs.product(ages.astype(np.float32), self._table)[self._asked]

        return self._remember("profiles", part, made)

    def _left_out(self, part: float) -> Bool:
        """Mark answers that are not candidates."""

        def made() -> Bool:
            paths = self._paths(part) * power(self._before.degrees[1], -0.5)
            paths[self._asker, self._before.other[self._own]] = 0.0
            marked = np.zeros(paths.shape, np.bool_)
            for row in np.flatnonzero(np.count_nonzero(paths, axis=1) > CANDIDATES):
                marked[row] = paths[row] < np.sort(paths[row])[-CANDIDATES]
            return marked

        return self._remember("left out", part, made)

    def _paths(self, part: float) -> Float32:
        def made() -> Float32:
            pairs, (out, into) = self._before, self._before.degrees
            mass = np.where(into <= MOST_ON_PATHS, power(into, -0.5), np.float32(0))
            passed = np.where(out <= MOST_ON_PATHS, power(out, -0.5), np.float32(0))
            ones, ages, found = np.ones(len(pairs.t), np.float32), self._ages(part), []
            for begin in range(0, len(self._asked), 64):
                own = np.zeros((pairs.sizes[1], min(64, len(self._asked) - begin)), np.float32)
                some = (self._asker >= begin) & (self._asker < begin + 64)
                own[pairs.other[self._own[some]], self._asker[some] - begin] = 1.0
                met = pairs.product(ones, own * mass[:, None]) * passed[:, None]
                found.append(pairs.product(ages, met, turned=True).T)
            return np.ascontiguousarray(np.concatenate(found))

        return self._remember("paths", part, made)


def _coarse(best: dict[str, float], timed: bool) -> Iterator[dict[str, float]]:
    """Yield the best settings so far with one of them replaced; `best` may change in between."""
    for name, values in GRID.items():
        for value in values if timed or name not in _OF_TIMES else ():
            yield best | {name: value}
        for changed in TRENDS if name == "degree" and timed else ():
            yield best | changed


def _finer(best: dict[str, float], timed: bool) -> Iterator[dict[str, float]]:
    """Yield the best settings with one slightly smaller or greater; a setting that is off stays off."""
    for name in START:
        for factor in _FINER if (timed or name not in _OF_TIMES) and name != "degree" else ():
            yield best | ({name: best[name] * factor} if name != "lately" or best["trend"] else {})


# ---- from events to a head ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ends:
    """Askers and answers by kind, numbered in the order of their ids."""

    ids: IdMap
    asks: tuple[str, ...]  # kinds; empty where nodes have none
    answers: tuple[str, ...]

    @staticmethod
    def of(ids: IdMap, src: Nodes, dst: Nodes) -> _Ends:
        """Take the kinds of sources as askers, those of destinations as answers."""
        known, ends = () if ids.kinds is None else ids.kinds.names, (np.unique(src), np.unique(dst))
        asks, answers = (tuple(kind for kind in known if ids.of_kind(nodes, kind).any()) for nodes in ends)
        return _Ends(ids, asks, answers)

    def pairs(self, a: Nodes, b: Nodes) -> tuple[Int64, tuple[Int64, Int64], tuple[Nodes, Nodes]]:
        """Return rows of pairs from an asker to an answer, the numbers of both, and the node of each number.

        Without kinds a pair is two, one in each direction. Numbers are in the order of the ids.
        """
        one, other = np.concatenate((a, b)), np.concatenate((b, a))
        rows = np.tile(np.arange(len(a)), 2)
        able = one != other
        for ends, kinds in ((one, self.asks), (other, self.answers)):
            if kinds:
                able &= np.logical_or.reduce([self.ids.of_kind(ends, kind) for kind in kinds])
        order = np.flatnonzero(able)[np.argsort(rows[able], kind="stable")]
        known = tuple(self.ids.sorted(np.unique(ends[order]).astype(np.int32)) for ends in (one, other))
        place = np.zeros((2, self.ids.high), np.int64)
        for numbers, nodes in zip(place, known, strict=True):
            numbers[nodes] = np.arange(len(nodes))
        return rows[order], (place[0][one[order]], place[1][other[order]]), (known[0], known[1])


def fit_filter(batch: EventBatch, graph: Graph, seed: int) -> FilterHead:
    """Return the filter fitted on a history in order of time; the graph is that at its end."""
    ids = IdMap(graph.ids.type)
    src, dst = ids.intern(batch.src), ids.intern(batch.dst)
    ends = _Ends.of(ids, src, dst)
    found, span = _found_settings(ends, batch, src, dst, seed)

    def life(name: str) -> float:
        return span / found[name] if found[name] and graph.contacts is not None else 0.0

    lives = life("edges"), life("lately") if found["trend"] else 0.0, found["trend"], life("profile")
    nobody = graph.ids.names(np.empty(0, np.int32)), np.empty((0, 0), np.int8), np.empty(0, np.float32)
    head = FilterHead(
        *nobody, found["ridge"], *lives, found["degree"], found["paths"], ends.asks, ends.answers
    )
    return with_filter_rows(head, graph, seed)


def with_filter_rows(head: FilterHead, graph: Graph, seed: int) -> FilterHead:
    """Return a filter with the same settings, and new rows from a graph."""
    a, b, weight = graph.edges()
    ends = _Ends(graph.ids, head.asks, head.answers)
    _, (one, other), (asking, answering) = ends.pairs(a[weight > 0], b[weight > 0])
    yes, sizes = np.ones(len(one), np.int8), (len(asking), len(answering))
    found = FilterRows.of(HistoryPairs.of(one, other, np.zeros(len(one)), yes, sizes), seed)
    known = np.flatnonzero(found.rows.any(axis=1))
    rows = np.ascontiguousarray(found.rows[known])
    return replace(head, ids=graph.ids.names(answering[known]), rows=rows, weights=found.weights(head.ridge))


def _found_settings(
    ends: _Ends, batch: EventBatch, src: Nodes, dst: Nodes, seed: int
) -> tuple[dict[str, float], float]:
    """Return the settings that best answer the last events, and the time span of the history."""
    rows, (one, other), (asking, answering) = ends.pairs(src, dst)
    sizes, op = (len(asking), len(answering)), batch.op[rows]
    t = np.zeros(len(rows)) if batch.t is None else batch.t[rows].astype(np.float64)
    span, random = float(t[-1] - t[0]) if len(t) else 0.0, np.random.default_rng((seed, 9))
    held = last_events(one, t) if span > 0 else some_pairs(src, dst, random)[rows]
    held = np.isin(rows, rows[held])  # both directions of an edge between two askers
    before, later = (
        HistoryPairs.of(one[some], other[some], t[some], op[some], sizes) for some in (~held, held)
    )
    out, into = before.degrees
    new = (out[later.one] > 0) & (into[later.other] > 0) & ~np.isin(later.keys, before.keys)
    fresh = later.some(new)
    asked = np.unique(fresh.one)
    if len(fresh.t) < _FEWEST:
        return dict(START), span
    most = min(_MOST_ASKERS, max(_CELLS // sizes[1], 1))
    asked = np.sort(random.choice(asked, min(most, len(asked)), replace=False))
    place, able = np.searchsorted(asked, fresh.one), np.isin(fresh.one, asked)
    wanted = place[able], fresh.other[able]
    search = Search(before, asked, wanted, float(before.t.max()), span or 1.0, seed)
    return search.settings(timed=span > 0), span
