"""The questions about recommendations, made of data sets.

``online-retail`` by time: the last fifth of the events; what is asked for are items that were taken before
it, by users who took something before it. ``online-retail, born``: fitted on three fifths, one fifth follows,
and the last fifth is asked about: items whose first event is in the fifth that followed, ranked among all
items, or among each other. The same for ``movielens-small``, and the last fifth of each user's events. The
splits of LightGCN are as published, at 20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from dygcn.engine.records import Bool
from dygcn_lab.evaluation.recommending import Events, Question, ask

K, OFFICIAL_K = 10, 20
_FOLLOWED, _ASKED = 0.6, 0.8  # shares of the events after which these parts begin


def read(folder: Path, *, filters: Any = None) -> tuple[Events, Any]:
    """Return the events of a folder in the order of their times, and the table.

    Users and items are numbered by the folder's table of nodes, users first.
    """
    kinds = pq.read_table(folder / "nodes.parquet", columns=["kind"])["kind"].to_numpy(zero_copy_only=False)
    users = int((kinds == "user").sum())
    table = pq.read_table(folder / "edges.parquet", filters=filters)
    if "t" in table.column_names:
        table = table.take(np.argsort(table["t"].to_numpy(), kind="stable"))
    user, item = (table[name].to_numpy().astype(np.int64) for name in ("src", "dst"))
    t = table["t"].to_numpy().astype(np.float64) if "t" in table.column_names else None
    return Events(user, item - users, t, users, len(kinds) - users), table


def by_time(name: str, events: Events) -> Question:
    """Ask about the last fifth of the events."""
    known, later = _cut(events, _ASKED)
    return ask(name, known, known, later, K, _taken(known))


def born(name: str, events: Events) -> Question:
    """Ask about the last fifth, for items whose first event came after the fit."""
    fitted, known, later = _cut(events, _FOLLOWED)[0], *_cut(events, _ASKED)
    return ask(name, fitted, known, later, K, _taken(known) & ~_taken(fitted))


def among_born(name: str, events: Events) -> Question:
    """Ask the same, with these items as the only candidates."""
    question = born(name, events)
    items = _taken(question.known) & ~_taken(question.fitted)
    return replace(question, among=items)


def by_user(name: str, events: Events) -> Question:
    """Ask about the last fifth of the events of each user."""
    order = np.argsort(events.user, kind="stable")
    sizes = np.bincount(events.user, minlength=events.users)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    later = np.zeros(len(order), np.bool_)
    later[order] = place >= (_ASKED * sizes).astype(np.int64)[events.user[order]]
    known = events.part(~later)
    return ask(name, known, known, events.part(later), K, _taken(known))


def _cut(events: Events, share: float) -> tuple[Events, Events]:
    old = events.times < events.times[int(share * len(events))]
    return events.part(old), events.part(~old)


def _taken(events: Events) -> Bool:
    taken: Bool = np.bincount(events.item, minlength=events.items) > 0
    return taken


def _split(name: str, folder: Path) -> Question:
    events, table = read(folder)
    test = table["split"].to_numpy() == 1
    known = events.part(~test)
    return ask(name, known, known, events.part(test), OFFICIAL_K, official=True)


def _valid(name: str, folder: Path) -> Question:
    """Ask about the part of the training edges that LightGCN++ holds out; the test part is not read."""
    events, table = read(folder, filters=[("split", "==", 0)])
    valid = table["valid"].to_numpy() == 1
    known = events.part(~valid)
    return ask(name, known, known, events.part(valid), OFFICIAL_K, official=True)


def _timed(make: Callable[[str, Events], Question]) -> Callable[[str, Path], Question]:
    return lambda name, folder: make(name, read(folder)[0])


QUESTIONS: dict[str, tuple[str, Callable[[str, Path], Question]]] = {
    "online-retail": ("online-retail", _timed(by_time)),
    "online-retail, born": ("online-retail", _timed(born)),
    "online-retail, among the born": ("online-retail", _timed(among_born)),
    "movielens-small": ("movielens-small", _timed(by_user)),
    "movielens-small, time": ("movielens-small", _timed(by_time)),
    "movielens-small, born": ("movielens-small", _timed(born)),
    "movielens-small, among the born": ("movielens-small", _timed(among_born)),
    "lightgcn-lastfm": ("lightgcn-lastfm", _split),
    "lightgcn-gowalla": ("lightgcn-gowalla", _split),
    "lightgcn-gowalla, valid": ("lightgcn-gowalla", _valid),
}
SEALED = "lightgcn-gowalla", *(name for name in QUESTIONS if name.startswith("movielens-small"))


def question_of(name: str, folder: Path, *, unsealed: bool = False) -> Question:
    """Return a question by its name; one that is read once, at the end, only where that is said."""
    if name in SEALED and not unsealed:
        raise ValueError(f"{name} is read once, when nothing is chosen any more; say --unsealed then")
    where, make = QUESTIONS[name]
    return make(name, folder / where)
