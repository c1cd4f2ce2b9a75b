"""What `what_if` of one edge costs, in updates of the same edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import median_ratio, on_one_thread, timed, undisturbed
from dygcn_lab.costs.traffic import Traffic
from dygcn_lab.costs.updates import live_of

if TYPE_CHECKING:
    from dygcn import LiveEmbedding
    from dygcn.engine.records import EventBatch

_WARM = 20  # rounds that are not counted


def trial_ratio(name: str, width: int = 128, rounds: int = 400) -> float:
    """Return the median of what_if / update, taken one after the other, each first in half of the rounds.

    Parameters
    ----------
    name
        A graph; see `graph_events`.
    width
        Columns of the features.

    Examples
    --------
    >>> trial_ratio("rmat-1k-5k", width=16, rounds=10) > 1
    True
    """
    events = graph_events(name)
    live = live_of(events, width)
    traffic, trials, updates = Traffic(live._state.graph, events), [], []
    with undisturbed(), on_one_thread():
        for number in range(_WARM + rounds):
            there, back = traffic.round(1)
            if number % 2:
                trials.append(_try(live, there))
            updates.append(_update(live, there, back))
            if number % 2 == 0:
                trials.append(_try(live, there))
    return median_ratio(trials[_WARM:], updates[_WARM:])


def _try(live: LiveEmbedding, batch: EventBatch) -> float:
    """Return the seconds of a trial."""

    def enter_and_leave() -> None:
        with live.what_if(batch):
            pass

    return timed(enter_and_leave)


def _update(live: LiveEmbedding, there: EventBatch, back: EventBatch) -> float:
    """Return the seconds of an update, which is then taken back."""
    seconds = timed(lambda: live.update(there))
    live.update(back)
    return seconds
