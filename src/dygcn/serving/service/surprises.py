"""The last events that were measured, each with how surprising it was: in memory, for pages of changes."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from dygcn.engine.events import python_ids
from dygcn.engine.models.surprise import reason_names
from dygcn.schema.answers import SurprisingEvent
from dygcn.serving.observing.metrics import distribution

if TYPE_CHECKING:
    from dygcn.engine.models import Surprises
    from dygcn.engine.records import IdColumn

MOST = 10_000  # events that are kept: some megabytes, and seconds of events at the speed of measuring
_HIGH = 0.99  # rank from which on an event is counted as surprising


class SurpriseRecord:
    """The last events that this process measured, oldest first, and counts of all of them.

    Whoever writes and whoever reads holds the embedding's lock.

    Parameters
    ----------
    floor
        The sequence up to which events are not known.
    """

    def __init__(self, floor: int = 0) -> None:
        self._floor, self._kept = floor, deque[SurprisingEvent](maxlen=MOST)
        self.values, self.high = distribution("dygcn_surprise"), 0

    def add(self, found: Surprises, sequence: int) -> None:
        """Keep and count the events of a batch, except those that add nothing."""
        ids = (python_ids(column).tolist() for column in (found.src, found.dst))
        numbers = (column.tolist() for column in (found.value, found.rank))
        for src, dst, value, rank, reasons in zip(*ids, *numbers, reason_names(found.reasons), strict=True):
            if not math.isfinite(value):
                continue
            self.values.observe(value)
            self.high += rank >= _HIGH
            if len(self._kept) == self._kept.maxlen:
                self._floor = self._kept[0].sequence
            known = None if math.isnan(rank) else rank
            self._kept.append(SurprisingEvent(sequence, src, dst, value, known, reasons))

    def forget(self, ids: IdColumn) -> None:
        """Take out the events of ids that are forgotten."""
        gone = set(python_ids(ids).tolist())
        rest = (one for one in self._kept if one.src not in gone and one.dst not in gone)
        self._kept = deque(rest, maxlen=self._kept.maxlen)

    def behind(self, sequence: int, limit: int) -> tuple[list[SurprisingEvent], int | None]:
        """Return the newest behind a sequence, oldest first, and the sequence up to which some are missing.

        Parameters
        ----------
        sequence
            What the reader was shown already.
        limit
            How many events at most.
        """
        newer = takewhile(lambda one: one.sequence > sequence, reversed(self._kept))
        found, missing = list(islice(newer, limit + 1)), self._floor
        if len(found) > limit:
            missing = found.pop().sequence
        return found[::-1], missing if missing > sequence else None
