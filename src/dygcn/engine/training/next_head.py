"""Fits the score of the next event: a conditional logit over lists of the last training events.

A list is an event, and others that it might have been. Candidates are drawn from every node that can be an
answer, newcomers included: candidates drawn only from those seen already would teach the score who was drawn.
Each has the inverse of the probability with which it was drawn, so that a softmax over the list estimates the
softmax over all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.events import join_events, rows_of, take
from dygcn.engine.history import EventHistory
from dygcn.engine.history.columns import NAMES, RAW
from dygcn.engine.models.links import NextHead, count_products, next_columns, pair_products
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_units, read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.records import Bool, EventBatch, Float64, Int32, Int64, Nodes
from dygcn.engine.training.logits import list_loss, softmax
from dygcn.engine.training.matrices import Recipe
from dygcn.engine.training.samples import first_held_out

LISTS = 2_000
# Candidates of a list, at most: the asker's former partners, recent answers of others, and the rest.
FORMER, RECENT, OTHERS = 20, 15, 25
_LATELY = 400  # events whose answers are recent
_LOOKED_AT = 4096  # partners that an asker had last; of a hub, those before them are among the rest
_ABSENT = -np.inf


@dataclass(frozen=True, slots=True)
class NextLists:
    """Lists of candidates for events; each begins with the answer."""

    event: Int64  # (l,) which of the events
    raw: Float64  # (l, e, 20) see `history.columns.RAW`
    log_weight: Float64  # (l, e) of the inverse probabilities; minus infinity where a list is shorter
    candidates: Int32  # (l, e) numbers in the history; -1 where a list is shorter
    brought: Bool  # (l, e) the answer, former partners and others: all but those that only others had lately


def draw_lists(
    history: EventHistory, batch: EventBatch, begin: int, count: int, random: np.random.Generator
) -> NextLists:
    """Play timed events through an empty history, and draw lists for some, each before it is counted.

    Every end of an event can be a candidate. There are `count` lists at most, of `begin` and later events.
    """
    assert batch.t is not None
    asks, answers = history.numbered(batch)
    op, t = batch.op, batch.t.astype(np.float64) + 0.0
    counts = (op > 0) & (asks != answers)  # a loop has no answer
    chosen = np.flatnonzero(counts[begin:]) + begin
    if len(chosen) > count:
        chosen = np.sort(random.choice(chosen, count, replace=False))
    width = 1 + FORMER + RECENT + OTHERS
    raw = np.zeros((len(chosen), width, len(RAW)))
    weights = np.full((len(chosen), width), _ABSENT)
    found = np.full((len(chosen), width), -1, np.int32)
    brought = np.zeros((len(chosen), width), np.bool_)
    taken = np.zeros(len(history), np.bool_)
    played = 0

    def play(begin: int, end: int) -> None:
        history.count(asks[begin:end], answers[begin:end], op[begin:end], t[begin:end])

    for row, event in enumerate(chosen.tolist()):
        play(played, event)
        played, asker = event, int(asks[event])
        former = history.answers_of(asker, _LOOKED_AT)
        lately = answers[max(event - _LATELY, 0) : event]
        ends = np.array([answers[event], asker], np.int32)
        places, log_weight, kept = _candidates(ends, former, lately[lately >= 0], taken, random)
        raw[row, : len(places)] = history.columns(asker, places, float(t[event]))
        weights[row, : len(places)] = log_weight
        found[row, : len(places)] = places
        brought[row, : len(places)] = kept
    play(played, len(batch))
    return NextLists(chosen, raw, weights, found, brought)


def _candidates(
    ends: Int32, former: Int32, lately: Int32, taken: Bool, random: np.random.Generator
) -> tuple[Nodes, Float64, Bool]:
    """Return candidates, the answer first, the logarithms of their weights, and which are `brought`.

    `ends` are the answer and the asker, which is no candidate. `taken` is scratch, False for every node.
    """
    former = former[former != ends[0]]
    taken[ends] = taken[former] = True
    lately = _distinct(lately[~taken[lately]])
    taken[lately] = True
    rest = len(taken) - len(ends) - len(former) - len(lately)
    others = _others(taken, len(taken) - rest, random)
    taken[ends] = taken[former] = taken[lately] = False
    strata = (former, FORMER, len(former)), (lately, RECENT, len(lately)), (others, OTHERS, rest)
    drawn, weights, kept = [ends[:1]], [np.zeros(1)], [np.ones(1, np.bool_)]
    for members, most, total in strata:
        some = members if len(members) <= most else random.choice(members, most, replace=False)
        drawn.append(some.astype(np.int32))
        weights.append(np.full(len(some), np.log(total / len(some)) if len(some) else 0.0))
        kept.append(np.full(len(some), members is not lately))
    return np.concatenate(drawn), np.concatenate(weights), np.concatenate(kept)


def _others(taken: Bool, count: int, random: np.random.Generator) -> Int32:
    """Draw nodes from no other stratum."""
    if len(taken) <= 4 * count + 4 * OTHERS:
        return np.flatnonzero(~taken).astype(np.int32)
    some = _distinct(random.integers(0, len(taken), 3 * OTHERS, np.int32))
    return random.permutation(some[~taken[some]])[:OTHERS]


def _distinct(nodes: Nodes) -> Nodes:
    """Return the distinct nodes in order; faster than `numpy.unique` for few."""
    nodes = np.sort(nodes)
    return nodes[np.append(True, nodes[1:] != nodes[:-1])] if len(nodes) else nodes


BEGIN = 0.5  # of all events, after which lists are drawn


class NextSample:
    """Lists of the later training events, with products of vectors for those in held-out steps.

    A model whose events have no times has no lists, and no history; else the history has all events.
    """

    def __init__(self, model: Model, parts: Sequence[EventBatch], recipe: Recipe) -> None:
        self._parts, self._lists, self._span, self._products, self._first = parts, None, 0.0, None, 0
        self.history: EventHistory | None = None
        if model.unit is None or model.baseline is not None or len(parts) < 2:
            return
        batch = join_events(list(parts))
        assert batch.t is not None
        self._span = float(batch.t.max() - batch.t.min())
        if not self._span > 0:
            return
        ends = np.cumsum([len(part) for part in parts])
        first = first_held_out(len(parts) - 1, recipe)
        random = np.random.default_rng([model.seed, 7])
        begin = int(BEGIN * len(batch))
        self.history = EventHistory(model.ids, self._span)
        self._lists = draw_lists(self.history, batch, begin, LISTS, random)
        self._names = self.history.names
        self._first = int(ends[first]) if first > 0 else len(batch)
        if model.table is not None:
            shape = (*self._lists.candidates.shape, count_products(model.orders))
            self._products = np.zeros(shape)

    def follow(self, state: State, step: int) -> None:
        """Play a held-out step, and read the vectors of each list just before its event.

        Vectors of a state that is older, or that knows the event, would be weighed for what they are not.
        Of the last step, events after the last list are not played.
        """
        part, seen = self._parts[step], 0
        if self._lists is not None and self._products is not None:
            before = sum(map(len, self._parts[:step]))
            events = self._lists.event - before
            for row in np.flatnonzero((events >= 0) & (events < len(part))).tolist():
                event, there = int(events[row]), self._lists.candidates[row] >= 0
                if event > seen:
                    state.apply(rows_of(part, slice(seen, event)))
                    seen = event
                asker = state.graph.find(take(part.src, np.array([event])))
                others = state.graph.find(take(self._names, self._lists.candidates[row, there]))
                self._products[row, there] = products_of(state, np.concatenate((asker, others)))
        if step + 1 < len(self._parts):
            state.apply(rows_of(part, slice(seen, len(part))))

    def fit(self) -> NextHead | None:
        """Return the score of the next event; None if there are too few lists."""
        if self._lists is None:
            return None
        if self._products is None:
            return fit_next(self._lists, self._span)
        held = self._lists.event >= self._first
        return fit_next(self._lists, self._span, self._products, held)


def products_of(state: State, nodes: Nodes) -> Float64:
    """Return products of the first node's vector with the others'; zeros without a vector."""
    here = np.flatnonzero(nodes >= 0)
    found = np.zeros((len(nodes) - 1, count_products(state.model.orders)))
    if nodes[0] < 0 or len(here) < 2:
        return found
    where = state.model, state.exact, state.graph
    vectors, units = read_vectors(*where, nodes[here]), read_units(*where, nodes[here])
    ends = np.zeros(len(here) - 1, np.int64), np.arange(1, len(here))
    found[here[1:] - 1] = pair_products(vectors, units, *ends)
    return found


FEWEST = 64  # lists, below which nothing is learned
_WIDE = 6.0  # standard deviations beyond which a column is cut off
_ONE_OF = 4  # lists is learned a second time, with candidates as a user would list them
_GAIN = 0.005  # of the log-likelihood of a held-out event, above which products of vectors are looked at


def fit_next(
    lists: NextLists, span: float, products: Float64 | None = None, held: Bool | None = None
) -> NextHead | None:
    """Return the score; None if there are too few lists.

    Products, (l, e, n), of the vectors of askers and candidates become columns if the last lists are
    likelier with them, by weights that the lists before were asked for. `held` are the lists that have
    products, the last ones: vectors had not seen their events.
    """
    if len(lists.event) < FEWEST:
        return None
    columns, rows, near, plain = next_columns(lists.raw), np.arange(len(lists.event)), None, None
    if products is not None and held is not None and held.sum() >= FEWEST:
        plain, near = _asked_for(lists, columns, products, np.flatnonzero(held))
        if near is not plain:
            rows = np.flatnonzero(held)
            columns = next_columns(lists.raw[rows], products[rows])
    log_weight = lists.log_weight[rows]
    weights, low, high = _fitted(columns, log_weight, near)
    # As a user would list them: only former partners and drawn nodes, all with one weight.
    brought = np.where(lists.brought[rows[::_ONE_OF]], 0.0, -np.inf)
    seen = columns.clip(low, high)
    both = np.concatenate((seen, seen[::_ONE_OF])), np.concatenate((log_weight, brought))
    listed = softmax(*both, weights)
    size = len(NAMES)
    alone = softmax(seen[..., :size], log_weight, plain) if columns.shape[-1] > size else np.empty(0)
    return NextHead(span, *(tuple(row.tolist()) for row in (weights, listed, low, high, alone)))


def _asked_for(lists: NextLists, plain: Float64, products: Float64, places: Int64) -> tuple[Float64, Float64]:
    """Return weights without products, and with them if they help on the last third, else the same."""
    first, cut = int(places[0]), int(places[2 * len(places) // 3])
    near, without = _judged(plain, lists.log_weight, cut)
    columns = next_columns(lists.raw[first:], products[first:])
    begin = np.pad(near, (0, columns.shape[-1] - len(near)))
    wide, with_them = _judged(columns, lists.log_weight[first:], cut - first, begin)
    return near, wide if with_them < without - _GAIN else near


def _judged(
    columns: Float64, log_weight: Float64, cut: int, begin: Float64 | None = None
) -> tuple[Float64, float]:
    """Return weights fitted on the lists before `cut`, and their loss on the other lists."""
    weights, low, high = _fitted(columns[:cut], log_weight[:cut], begin)
    return weights, list_loss(columns[cut:].clip(low, high), log_weight[cut:], weights)


def _fitted(columns: Float64, log_weight: Float64, begin: Float64 | None) -> tuple[Float64, Float64, Float64]:
    seen = columns[np.isfinite(log_weight)]
    centre, spread = seen.mean(axis=0), seen.std(axis=0)
    low, high = centre - _WIDE * spread, centre + _WIDE * spread
    return softmax(columns.clip(low, high), log_weight, begin), low, high
