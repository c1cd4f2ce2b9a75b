"""What the score of a link costs: time beside the cosine, bytes, and what keeping contacts adds to an update.

Two models at work on one graph: one that looks at times and has a head for each kind of link, and the same
one without either, whose score is the cosine. Rows and heads are random: trained ones cost the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dygcn._progress import Notify
from dygcn.engine.events import cut_steps, sort_by_time
from dygcn.engine.history.columns import NAMES
from dygcn.engine.models.choices import time_unit
from dygcn.engine.models.links import PAST, TRAITS, LinkHead, NextHead, count_products
from dygcn.engine.models.model import Model
from dygcn.engine.records import EventBatch
from dygcn.live.embedding import LiveEmbedding, start
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.kinds import DIM, random_walks
from dygcn_lab.costs.timing import load_average, median_ratio, parts_of, spread, timed, undisturbed
from dygcn_lab.costs.traffic import Traffic, as_users_do

GRAPHS, SMALL_GRAPHS = ("hepth-collab", "power-law-170k-1m"), ("hepth-collab", "power-law-2k-20k")
PAIRS = {1: 1000, 100: 300, 10_000: 40}  # pairs at once, and how often
BATCHES = {1: 4000, 1000: 200}  # events of a batch, and how many batches
_FEW = 8  # of each, where it has to be quick
_WARM = 4  # that are not counted
_MOMENT = 1e-3  # training steps between two batches
Lives: TypeAlias = tuple[LiveEmbedding, LiveEmbedding, LiveEmbedding]
"""With times and heads, without, and a copy of that."""


def measure_score(
    graphs: Sequence[str] = (), *, quick: bool = False, notify: Notify | None = None
) -> dict[str, Any]:
    """Measure bytes, updates and scores on each graph; quick: on a small random one, with few repeats."""
    names = list(graphs or (SMALL_GRAPHS if quick else GRAPHS))
    rows, sizes, updates = [], [], []
    for name, tell in parts_of(names, notify):
        tell(0, 3, "loading the graph")
        events = dated_events(name)
        lives = loaded(events)
        about = {"graph": name, "nodes": len(lives[0]), "edges": lives[0].edge_count}
        sizes.append({**about, **bytes_of(lives)})
        tell(1, 3, "updating")
        updates += [
            {**about, **update_costs(lives, events, *each)} for each in _repeats(BATCHES, quick).items()
        ]
        tell(2, 3, "scoring")
        rows += [{**about, **score_costs(lives, *each)} for each in _repeats(PAIRS, quick).items()]
    load = load_average()
    return {"kind": "score", "load_average": load, "rows": rows, "updates": updates, "bytes": sizes}


def _repeats(often: Mapping[int, int], quick: bool) -> dict[int, int]:
    return {size: min(count, _FEW) if quick else count for size, count in often.items()}


def dated_events(name: str) -> EventBatch:
    """Return the events of a graph with their times, or with their order as times."""
    events = graph_events(name, 0)
    if events.t is None:
        events = dataclasses.replace(events, t=np.arange(len(events), dtype=np.float64))
    return sort_by_time(events)


def loaded(events: EventBatch, dim: int = DIM, orders: int = 2) -> Lives:
    """Return a model with times and heads at work on a graph, and the same model without, twice."""
    model = random_walks(events, dim, orders)
    head = random_head(orders)
    following = random_next_head(events, orders)
    unit = time_unit(cut_steps(events))
    scored = dataclasses.replace(model, unit=unit, links={"new": head}, following=following)
    bare = dataclasses.replace(events, t=None)
    return _at_work(scored, events), _at_work(model, bare), _at_work(model, bare)


def _at_work(model: Model, events: EventBatch) -> LiveEmbedding:
    live = start(model)
    live.bulk([events])
    return live


def random_head(orders: int) -> LinkHead:
    """Return a head with as many numbers as one that was learned."""
    strangers = 1 + count_products(orders) + 2 * TRAITS
    random = np.random.default_rng(3)
    sizes = strangers, strangers + PAST, 2 + TRAITS
    rows, known, dot = (tuple(random.normal(size=size).tolist()) for size in sizes)
    bounds = strangers + PAST - 2
    return LinkHead(rows, known, dot, (0.0,) * bounds, (1.0,) * bounds)


def random_next_head(events: EventBatch, orders: int) -> NextHead:
    """Return a score of what comes next with as many numbers as one that was learned, products included."""
    size = len(NAMES) + 2 * count_products(orders)
    assert events.t is not None
    weights = tuple(np.random.default_rng(4).normal(size=size).tolist())
    span = float(events.t.max() - events.t.min())
    return NextHead(span, weights, weights, (-1e3,) * size, (1e3,) * size)


def bytes_of(lives: Lives) -> dict[str, float]:
    """Return bytes an edge and a node, and how many numbers a head has."""
    arcs, without = (_pool_bytes(live) / live.edge_count for live in lives[:2])
    contacts, head = lives[0]._state.graph.contacts, lives[0].model.links["new"]
    assert contacts is not None
    return {
        "arcs_with": arcs,
        "arcs_without": without,
        "pair_state": arcs - without,
        "activity": (contacts.times.nbytes + contacts.counts.nbytes) / len(lives[0]),
        "numbers": sum(len(getattr(head, field.name)) for field in dataclasses.fields(head)),
    }


def _pool_bytes(live: LiveEmbedding) -> int:
    arcs = live._state.graph.pull
    return sum(array.nbytes for array in (arcs.others, arcs.weights, arcs.times, arcs.counts))


def update_costs(lives: Lives, events: EventBatch, size: int, repeats: int) -> dict[str, float]:
    """Time the same batches on all, in another order each round.

    What the copy takes beside its twin says how much of a difference is the machine's.
    """
    batches = _dated_batches(lives[0], events, size, _WARM + repeats)
    random, found = np.random.default_rng(4), np.empty((len(lives), len(batches)))
    with undisturbed():
        for number, (dated, bare) in enumerate(batches):
            if number % 2 == 0:  # the second of a round takes back the first
                order = random.permutation(len(lives))
            for which in order:
                found[which, number] = timed(partial(lives[which].update, **(bare if which else dated)))
    scored, without, copy = found[:, _WARM:]
    return {
        "batch": size,
        "with_us": spread(scored).median,
        "without_us": spread(without).median,
        "times_as_long": median_ratio(scored, without),
        "times_of_a_copy": median_ratio(copy, without),
    }


def _dated_batches(
    live: LiveEmbedding, events: EventBatch, size: int, count: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Draw batches before any is timed: drawing looks at the graph, which brings it into the caches."""
    clock, unit = live._state.graph.clock, live.model.unit
    assert clock is not None
    assert unit is not None
    traffic = Traffic(live._state.graph, events)
    return [
        handed_over(batch, clock + number * _MOMENT * unit)
        for number, batch in enumerate(traffic.rounds(size, -(-count // 2)), 1)
    ]


def handed_over(batch: EventBatch, now: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `update` with a time and without, as users write them."""
    without = as_users_do(batch)
    if len(batch) == 1:
        return {**without, "now": now}, without
    return {"events": {**without["events"], "t": np.full(len(batch), now)}}, without


def score_costs(lives: Lives, pairs: int, repeats: int) -> dict[str, float]:
    """Time scores of so many pairs at once, kinds by turns; vectors are kept from before.

    Each call has pairs of its own, so that none finds what another brought into the caches.
    """
    for live in lives[:2]:
        live._cached().refresh(live._state.graph.nodes())
    asked = {"cosine": (lives[1], "new"), "new": (lives[0], "new"), "next": (lives[0], "next")}
    ids, random = lives[0].ids(), np.random.default_rng(2)
    found: dict[str, list[float]] = {name: [] for name in asked}
    with undisturbed():
        for number in range(-_WARM, repeats):
            for name, (live, links) in asked.items():
                took = timed(partial(live.score, *_drawn(ids, pairs, random), links))
                if number >= 0:
                    found[name].append(took / pairs)
    times = {f"times_{name}": median_ratio(found[name], found["cosine"]) for name in ("new", "next")}
    return {"pairs": pairs, **{f"{name}_us": spread(found[name]).median for name in asked}, **times}


def _drawn(ids: NDArray[Any], pairs: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Draw one pair, one node and a hundred others, or any pairs, as users hand them over."""
    a, b = ids[random.integers(len(ids), size=(2, pairs))]
    if pairs == 1:
        return a.tolist(), b.tolist()
    return (np.repeat(a[:1], pairs), b) if pairs == 100 else (a, b)
