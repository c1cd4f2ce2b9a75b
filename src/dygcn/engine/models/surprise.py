"""Surprise of events: minus log P(v | u) before each, from columns that need no vectors.

The sum over all candidates would cost as much as there are nodes. So it is exact over those that the asker
had before and its last partners in either direction, and of the others 256 are drawn, by a hash of how many
events were counted: the same ones however events are cut into batches. Each event is measured, and only then
counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.events.keys import salted
from dygcn.engine.graph.ids import grown
from dygcn.engine.history import EventHistory
from dygcn.engine.history.columns import KNOWN, RAW
from dygcn.engine.models.links import NextHead
from dygcn.engine.records import Float32, Float64, IdColumn, Int8, Int64, Nodes

DRAWN = 256
FORMER = 1024  # partners of an asker at most that are summed exactly, the newest
RECENT = 100  # surprises of an asker that a new one is compared with
FEWEST = 5  # of them, below which nothing is compared
REASONS = 3
LEAST = 0.1  # of log P that a reason costs
_SALT = 0x5EED


@dataclass(frozen=True, slots=True)
class Surprises:
    """The surprise of each event of a batch."""

    src: IdColumn  # (n,) askers
    dst: IdColumn  # (n,) answers
    value: Float64  # (n,) minus log P; NaN for an event that adds nothing
    rank: Float64  # (n,) share of the asker's own last events that were less surprising; NaN of too few
    reasons: Int8  # (n, 3) columns that lowered P most, see `history.columns.RAW`; -1 for none


class SurpriseMeter:
    """Measures events while it counts them for the history; the head scores candidates."""

    def __init__(self, history: EventHistory, head: NextHead) -> None:
        self._history, self._head = history, head
        self._rings: Float32 = np.empty((0, RECENT), np.float32)
        self._counts: Int64 = np.empty(0, np.int64)
        self._keys = np.arange(DRAWN, dtype=np.uint64)

    def write(self) -> Surprises | None:
        """Count the history's staged events one by one; return the surprise of each."""
        batch = self._history.staged
        if batch is None:
            return None
        count = len(batch)
        value, rank = np.full(count, np.nan), np.full(count, np.nan)
        reasons = np.full((count, REASONS), -1, np.int8)
        found = Surprises(batch.src, batch.dst, value, rank, reasons)
        self._history.write(lambda *event: self._measure(found, *event))
        return found

    def _measure(self, found: Surprises, row: int, asker: int, answer: int, now: float, seen: int) -> None:
        """Measure one event before it is counted; `seen` is the number of ids with an earlier event."""
        history, head = self._history, self._head
        u, v = (node if node < seen else -1 for node in (asker, answer))
        former = np.union1d(history.answers_of(u, FORMER), history.partners_of(u))
        others, weight = self._others(seen, former, u, v)
        first = np.array([v], np.int32)
        candidates = np.concatenate((first, former[former != v], others))
        raw = history.columns(u, candidates, now)
        parts = head.parts(raw)
        scores = parts.sum(axis=1)
        most = scores.max()
        share = np.exp(scores - most)
        share[len(candidates) - len(others) :] *= weight
        total = share.sum()
        value = float(np.log(total) + most - scores[0])
        found.value[row] = value
        lower = scores[0] - self._likelier(raw[0], share @ raw / total)
        order = np.argsort(lower, kind="stable")[:REASONS]
        found.reasons[row] = np.where(lower[order] < -LEAST, order, -1)
        found.rank[row] = self._rank(asker, value)

    def _likelier(self, raw: Float64, usual: Float64) -> Float64:
        """Return the event's score with each single column replaced by its usual value.

        What single weights add would say less: weights of columns that go together undo each other.
        """
        rows = np.tile(raw, (len(raw), 1))
        np.fill_diagonal(rows, usual)
        rows[KNOWN, KNOWN] = max(usual[KNOWN], raw[KNOWN])  # being linked never counts against an event
        found: Float64 = self._head.parts(rows).sum(axis=1)
        return found

    def _others(self, seen: int, former: Nodes, asker: int, answer: int) -> tuple[Nodes, float]:
        """Return a sample of nodes that the asker never met, and how many nodes each stands for."""
        if seen == 0:
            return np.empty(0, np.int32), 1.0
        drawn = salted(self._keys, _SALT + DRAWN * self._history.counted) % np.uint64(seen)
        known = np.union1d(former, [node for node in (asker, answer) if node >= 0])
        others = np.setdiff1d(drawn.astype(np.int32), known)
        rest = seen - len(known)
        return others, max(rest, 0) / max(len(others), 1)

    def _rank(self, asker: int, value: float) -> float:
        """Rank a surprise among the asker's last ones, and store it."""
        if asker >= len(self._counts):
            self._rings, self._counts = grown(self._rings, asker + 1), grown(self._counts, asker + 1)
        count = int(self._counts[asker])
        last = self._rings[asker, : min(count, RECENT)]
        kept = np.float32(value)
        share = float(((last < kept).sum() + (last == kept).sum() / 2) / max(len(last), 1))
        self._rings[asker, count % RECENT] = kept
        self._counts[asker] += 1
        return share if len(last) >= FEWEST else float("nan")


def reason_names(reasons: Int8) -> list[list[str]]:
    """Return the names of the columns that lowered P, for each event."""
    return [[RAW[at] for at in row if at >= 0] for row in reasons.tolist()]
