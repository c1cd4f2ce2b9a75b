"""Who is let in: what is new, what was applied before, what comes too early, and who has no place."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dygcn.engine.events import moment
from dygcn.live.durable import offsets as budgets
from dygcn.live.durable.offsets import StreamOffsets, is_client
from dygcn.live.durable.source_batch import (
    APPLIED,
    FORGOTTEN,
    FULL,
    GAP,
    REPEATED,
    Receipt,
    SourceBatch,
)


class Screened(NamedTuple):
    """What is to become of parts."""

    receipts: list[Receipt]  # one for each part
    fresh: list[tuple[SourceBatch, Receipt]]  # those to apply, without what was applied before
    leaving: list[str]  # clients to forget first, so that others have their places
    repeated: list[str]  # streams that sent what was applied before


def screen(parts: Sequence[SourceBatch], offsets: StreamOffsets) -> Screened:
    """Look at parts in order of arrival; nothing changes yet."""
    admission = _Admission(offsets, {part.stream for part in parts})
    found = Screened([], [], admission.leaving, [])
    reached: dict[str, int] = {}
    for part in parts:
        part.check()
        if part.now is not None:
            part = dataclasses.replace(part, now=moment(part.now))
        receipt = Receipt(APPLIED)
        found.receipts.append(receipt)
        if part.stream:
            here = part.stream in reached or part.stream in offsets.streams
            last = reached[part.stream] if part.stream in reached else offsets.last_of(part.stream)
            receipt.status, receipt.expected = _judge(part, last, here)
            if receipt.status == REPEATED and part.stream in offsets.streams:
                found.repeated.append(part.stream)
            if receipt.status == APPLIED and not here and not admission.admit(part.stream):
                receipt.status = FULL
            if receipt.status != APPLIED:
                continue
            part = part if last is None else part.after(last)
            reached[part.stream] = part.offset
        found.fresh.append((part, receipt))
    return found


def _judge(part: SourceBatch, last: int | None, here: bool) -> tuple[str, int]:
    """Return what is to become of a part, and the number that is expected instead of its own."""
    if part.first is None:
        return (REPEATED, 0) if last is not None and part.offset <= last else (APPLIED, 0)
    expected = 0 if last is None else last + 1  # what overtakes the first of its own would hide it
    if last is not None and not here and not (part.resumes and part.first == expected):
        return FORGOTTEN, expected
    if part.offset < expected:
        return REPEATED, 0
    return (GAP, expected) if part.first > expected else (APPLIED, 0)


@dataclass(slots=True)
class _Admission:
    """Who comes and who goes in one transaction."""

    offsets: StreamOffsets
    busy: Container[str]  # streams that take part, and are not silent
    leaving: list[str] = field(default_factory=list)
    brokers: int = 0  # streams that came and are no clients
    clients: int = 0  # that came, less those that go
    _silent: Iterator[str] | None = None

    def admit(self, stream: str) -> bool:
        """Give a place to a stream that has none: that of a silent client, if there is no other."""
        clients = self.offsets.clients
        if not is_client(stream):
            fits = len(self.offsets.streams) - clients + self.brokers < budgets.MOST_STREAMS
            self.brokers += fits
            return fits
        if clients + self.clients >= budgets.MOST_CLIENTS and not self._let_go():
            return False
        self.clients += 1
        return True

    def _let_go(self) -> bool:
        if self._silent is None:
            self._silent = self.offsets.silent()
        for name in self._silent:
            if name not in self.busy:
                self.leaving.append(name)
                self.clients -= 1
                return True
        return False
