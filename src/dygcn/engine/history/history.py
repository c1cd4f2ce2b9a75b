"""A history: fading counts, rings and pairs of the events that were applied, in their order.

It is a function of the applied events in the order of the log, however they were cut into batches; removals
of edges do not undo it. It numbers ids by a table of its own, in the order of their first event: a node may
leave the graph and come back, and keeps its past.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dygcn.engine.events import join_ids, moment, rows_of, take
from dygcn.engine.graph.ids import IdMap, grown, replace_together
from dygcn.engine.graph.pairs import new_table, table_with_capacity
from dygcn.engine.history import columns, counting
from dygcn.engine.history.columns import RAW
from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Int8, Int32, Int64, Nodes
from dygcn.errors import DamagedFolder

_BLOCK = 1 << 16  # events that are numbered at once: more would be numbered in another order
_HABIT = 0.5  # of a node that never asked
_GREATEST = 1e3  # of a column
_MOST_FADING = 1 << 24  # a count of float32 goes no further
_MOST = 1 << 62  # a count must not run over soon after it is loaded
_OF_NODES = "times", "marks", "counts", "answers", "partners"  # fields of an image, and with _ of a history
_OF_PAIRS = "pair_t", "pair_gone", "pair_fast", "pair_n", "pair_dst"
_NODE_ARRAYS = *(f"_{name}" for name in _OF_NODES), "_first", "_two", "_three"
_NUMBERS = "answers", "partners", "pair_src", "pair_dst"  # hold numbers of nodes
_PAIR_ARRAYS = *(f"_{name}" for name in _OF_PAIRS), "_behind"


@dataclass(frozen=True, slots=True)
class HistoryImage:
    """A history as plain arrays: saved, and covered by its digest. Nodes are positions in `ids`."""

    ids: IdColumn  # (n,) in the order of their first event
    times: Float64  # (n, 3)
    marks: Float32  # (n, 4)
    counts: Int64  # (n, 2)
    answers: Int32  # (n, 20)
    partners: Int32  # (n, 10)
    pair_src: Int32  # (p,) in the order of their first event
    pair_dst: Int32  # (p,)
    pair_t: Float64  # (p,)
    pair_gone: Float64  # (p,)
    pair_fast: Float32  # (p,)
    pair_n: Int32  # (p,)
    clock: float

    def digest(self) -> str:
        """Return a digest of all fields."""
        found = hashlib.blake2b(digest_size=16)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, IdColumn):
                found.update(value.values.tobytes() + (b"" if value.data is None else value.data.tobytes()))
            else:
                found.update(np.asarray(value).tobytes())
        return found.hexdigest()


class EventHistory:
    """The applied events, in the form that the score of the next event reads.

    `span` is that of the events that a model was fitted on: quick counts halve in a two-hundredth of it, slow
    ones in a quarter.
    """

    def __init__(self, ids: str, span: float) -> None:
        self.ids, self.span = IdMap(ids), float(span)
        self.unit, self.fast, self.slow = self.span / 1e5, self.span / 200, self.span / 4
        self._sizes, self._clock = np.zeros(3, np.int64), np.full(1, columns.NEVER)
        self._table = new_table()
        self._times, self._marks = np.empty((0, 3)), np.empty((0, 4), np.float32)
        self._counts, self._first = np.empty((0, 2), np.int64), np.empty(0, np.int32)
        self._answers = np.empty((0, columns.ANSWERS), np.int32)
        self._partners = np.empty((0, columns.PARTNERS), np.int32)
        self._two, self._three = np.empty(0), np.empty(0)
        self._pair_t, self._pair_gone = np.empty(0), np.empty(0)
        self._pair_fast, self._pair_n = np.empty(0, np.float32), _none()
        self._pair_dst, self._behind = _none(), _none()
        one, two, three = (np.empty(columns.PARTNERS**k, np.int32) for k in (1, 2, 3))
        self._walks = one, two, three
        self._staged: tuple[EventBatch, float | None] | None = None
        self.arrays = self._handed()

    def __len__(self) -> int:
        return self.ids.high

    @property
    def names(self) -> IdColumn:
        """Ids of all nodes with an event, in the order of their first events."""
        return self.ids.names(np.arange(len(self), dtype=np.int32))

    @property
    def pairs(self) -> int:
        """The number of ordered pairs of nodes with an event."""
        return int(self._sizes[columns.PAIRS])

    @property
    def counted(self) -> int:
        """How many events were counted."""
        return int(self._sizes[columns.COUNTED])

    @property
    def clock(self) -> float:
        """The greatest time of an event or of a `now`; minus infinity before the first."""
        return float(self._clock[0])

    # ---- events ----------------------------------------------------------------------------------------

    def apply(self, batch: EventBatch, now: float | None = None) -> None:
        """Count the events of a batch."""
        self.stage(batch, now)
        self.write()

    def numbered(self, batch: EventBatch) -> tuple[Nodes, Nodes]:
        """Number both ends of events, in the order in which counting will; return the numbers."""
        found = []
        for begin in range(0, len(batch), _BLOCK):
            part = rows_of(batch, slice(begin, min(begin + _BLOCK, len(batch))))
            found.append(self._numbers(part.src, part.dst, part.op))
        src, dst = np.concatenate(found, axis=1)
        return src, dst

    def count(self, src: Nodes, dst: Nodes, op: Int8, t: Float64) -> None:
        """Count events whose ends are numbered."""
        self._reserve(self.ids.high, self.pairs)
        for begin in range(0, len(op), _BLOCK):  # room for as many new pairs as there are events
            some = slice(begin, begin + _BLOCK)
            self._reserve(self.ids.high, self.pairs + len(op[some]))
            counting.play(self.arrays, src[some], dst[some], op[some], t[some])

    def stage(self, batch: EventBatch | None, now: float | None = None) -> None:
        """Stage the batch to count next; None: nothing."""
        self._sizes[columns.PLAYED] = 0
        self._staged = None if batch is None else (batch, None if now is None else moment(now))

    @property
    def staged(self) -> EventBatch | None:
        """The staged batch."""
        return None if self._staged is None else self._staged[0]

    def write(self, before: Callable[[int, int, int, float, int], None] | None = None) -> None:
        """Count the staged batch; after an exception, a second call continues.

        `before` gets each event that counts: row, ends, time, and how many ids had one before: others are
        new.
        """
        if self._staged is None:
            return
        batch, now = self._staged
        while (start := int(self._sizes[columns.PLAYED])) < len(batch):
            part = rows_of(batch, slice(start, min(start + _BLOCK, len(batch))))
            seen, op = self.ids.high, part.op
            src, dst = self._numbers(part.src, part.dst, op)
            if part.t is None:  # it happens now, or when the last event did
                known = self.clock if now is None else float(now)
                t = np.full(len(part), 0.0 if np.isinf(known) else known)
            else:
                t = part.t.astype(np.float64) + 0.0
            if before is None:
                self.count(src, dst, op, t)
                continue
            for at in range(len(part)):
                u, v, one = int(src[at]), int(dst[at]), slice(at, at + 1)
                if op[at] > 0 and u != v:
                    before(start + at, u, v, float(t[at]), seen)
                self.count(src[one], dst[one], op[one], t[one])
                if op[at] > 0:  # a removal may name a node that a later event of the batch adds
                    seen = max(seen, u + 1, v + 1)
        if now is not None:
            self._clock[0] = max(self._clock[0], now)
        self._staged = None

    def _numbers(self, src: IdColumn, dst: IdColumn, op: Int8) -> tuple[Nodes, Nodes]:
        if src.data is None or len(op) == 1:
            return self.ids.resolve(src, dst, op)
        found, added = (self.ids.find(src), self.ids.find(dst)), op > 0
        rows = np.flatnonzero(added & ((found[0] < 0) | (found[1] < 0)))
        if not len(rows):
            return found
        # `resolve` would number all sources of text before all destinations, and cuts would show.
        ends = join_ids((take(src, rows), take(dst, rows)))
        self.ids.intern(take(ends, np.arange(len(ends)).reshape(2, -1).ravel("F")))
        return self.ids.find(src), self.ids.find(dst)

    def _reserve(self, nodes: int, pairs: int) -> None:
        fresh = {}
        have = len(self._first)
        if nodes > have:
            fresh = {name: grown(getattr(self, name), nodes) for name in _NODE_ARRAYS}
            fresh["_times"][have:] = columns.NEVER
            fresh["_first"][have:] = -1
            fresh["_marks"][have:, columns.HABIT] = _HABIT
        if pairs > len(self._pair_t):
            fresh |= {name: grown(getattr(self, name), pairs) for name in _PAIR_ARRAYS}
        table = table_with_capacity(self._table, pairs - self.pairs)
        if fresh or table is not self._table:
            replace_together(self, **fresh, _table=table)
            self.arrays = self._handed()

    def _handed(self) -> counting.HistoryArrays:
        names = *_NODE_ARRAYS[:-2], *_PAIR_ARRAYS, "_two", "_three", "_sizes", "_clock"
        arrays: list[Any] = [getattr(self, name) for name in names]
        return counting.HistoryArrays(self._table, *arrays, self.unit, self.fast, self.slow)

    # ---- reading -----------------------------------------------------------------------------------------

    def find(self, ids: object) -> Nodes:
        """Return the number of each id, -1 for one that never had an event."""
        return self.ids.find(ids if isinstance(ids, IdColumn) else self.ids.read(ids))

    def columns(self, asker: int | Nodes, candidates: Nodes, now: float | None = None) -> Float64:
        """Return `columns.RAW` of candidates for one asking node or one for each; -1 never had an event."""
        out = np.empty((len(candidates), len(RAW)))
        askers = np.full(len(candidates), asker, np.int32) if isinstance(asker, int) else asker
        when = self.clock if now is None else float(now)
        counting.describe(self.arrays, askers, candidates, when, self._walks, out)
        # No finite age has a greater logarithm; an age beyond all numbers would make what weighs nothing NaN.
        return np.minimum(out, _GREATEST, out=out)

    def answers_of(self, asker: int, most: int = 1 << 30) -> Nodes:
        """Return all distinct destinations of a node, the newest first."""
        if asker < 0:
            return _none()
        out = np.empty(min(most, self.pairs), np.int32)
        return out[: counting.partners_of(self.arrays, int(asker), out)]

    def partners_of(self, node: int) -> Nodes:
        """Return the last distinct partners of a node, in either direction."""
        if node < 0:
            return _none()
        count = min(int(self._counts[node, columns.PARTNERED]), columns.PARTNERS)
        found = np.unique(self._partners[node, :count])
        return found[found >= 0]  # below: it was forgotten

    def popular(self, most: int) -> Nodes:
        """Return the most frequent destinations, recently and overall: at most `most` of each."""
        marks, last = self._marks[: len(self)], self._times[: len(self), columns.MET]
        found = []
        for column, half_life in ((columns.FAST, self.fast), (columns.SLOW, self.slow)):
            left = marks[:, column] * np.exp2(-np.maximum(self.clock - last, 0.0) / half_life)
            count = min(most, len(left))
            found.append(np.argpartition(-left, count - 1)[:count] if count else np.empty(0, np.int64))
        return np.unique(np.concatenate(found)).astype(np.int32)

    # ---- images --------------------------------------------------------------------------------------------

    def image(self) -> HistoryImage:
        """Return a copy of everything as plain arrays."""
        n, p = len(self), self.pairs
        src = np.empty(p, np.int32)
        keys, slots, _ = self._table.arrays
        there = np.flatnonzero(keys >= 0)
        src[slots[there]] = keys[there] >> 32
        sized = dict.fromkeys(_OF_NODES, n) | dict.fromkeys(_OF_PAIRS, p)
        copies = {name: getattr(self, f"_{name}")[:size].copy() for name, size in sized.items()}
        return HistoryImage(self.names, pair_src=src, clock=self.clock, **copies)

    @classmethod
    def from_image(cls, ids: str, span: float, image: HistoryImage) -> EventHistory:
        """Build a history from its image; raise `DamagedFolder` if the image is inconsistent."""
        made, n, p = cls(ids, span), len(image.ids), len(image.pair_src)
        _check(image, n, p)
        made.ids.intern(image.ids)
        if made.ids.high != n:
            raise DamagedFolder("the saved history has an id twice")
        made._reserve(n, p)
        made._sizes[columns.PAIRS], made._clock[0] = p, image.clock
        made._sizes[columns.COUNTED] = image.counts[:, columns.ANSWERED].sum()
        for name in _OF_NODES:
            getattr(made, f"_{name}")[:n] = getattr(image, name)
        for name in _OF_PAIRS:
            getattr(made, f"_{name}")[:p] = getattr(image, name)
        if counting.chain(made.arrays, image.pair_src) != p:
            raise DamagedFolder("the saved history has a pair twice")
        return made

    def digest(self) -> str:
        """Return a digest of everything that was counted: equal events in equal order, equal digest."""
        return self.image().digest()

    def without(self, ids: IdColumn) -> EventHistory:
        """Return the history without some ids; events with other nodes stay, with that end anonymous."""
        image, gone = self.image(), np.zeros(len(self) + 1, np.bool_)
        gone[self.ids.find(ids)] = True  # -1, the last place, stands for ids that were never here
        gone[-1] = True
        place = np.cumsum(~gone) - 1
        place[gone] = -1
        kept = np.flatnonzero(~gone[:-1])
        pairs = np.flatnonzero(~(gone[image.pair_src] | gone[image.pair_dst]))
        rows = dict.fromkeys(_OF_NODES, kept) | dict.fromkeys(("pair_src", *_OF_PAIRS), pairs)
        some = {name: getattr(image, name)[chosen] for name, chosen in rows.items()}
        numbers = {name: place[some[name]].astype(np.int32) for name in _NUMBERS}
        made = replace(image, ids=take(image.ids, kept), **some | numbers)
        return EventHistory.from_image(self.ids.type, self.span, made)


def _none() -> Int32:
    return np.empty(0, np.int32)


def _check(image: HistoryImage, n: int, p: int) -> None:
    """Refuse values that loops would trust: rings and pairs with unknown nodes, counts out of range."""
    rings = (image.answers, columns.ANSWERS), (image.partners, columns.PARTNERS)
    wanted = (image.times, 3), (image.marks, 4), (image.counts, 2), *rings
    fits = all(one.shape == (n, size) for one, size in wanted)
    if not fits or not all(len(getattr(image, name)) == p for name in _OF_PAIRS):
        raise DamagedFolder("the arrays of the saved history do not belong together")
    ends = image.pair_src, image.pair_dst
    inside = all(((end >= 0) & (end < n)).all() for end in ends)
    inside = inside and all(((ring >= -1) & (ring < n)).all() for ring, _ in rings)
    habit, marks = image.marks[:, columns.HABIT], image.marks[:, columns.HABIT + 1 :]
    fading = (habit, 1), (marks, _MOST_FADING), (image.pair_fast, _MOST_FADING)
    whole = (image.counts, _MOST), (image.pair_n, columns.MOST)
    inside = inside and all(((one >= 0) & (one <= most)).all() for one, most in (*fading, *whole))
    times = image.times, image.pair_t, image.pair_gone
    inside = inside and image.clock < np.inf and all((one <= image.clock).all() for one in times)
    if not inside or not np.isfinite(image.pair_t).all():
        raise DamagedFolder("the saved history names a node that is not in it, or a number that is none")
