"""Sends events exactly once: a retry carries the offset of the first try."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dygcn.client.retry import Operation, Request, Retry, read
from dygcn.engine.events import python_ids, rows_of
from dygcn.engine.records import EventBatch, IdColumn
from dygcn.errors import OptionError, SequenceGap, ServiceError
from dygcn.schema import answers

ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "/v1/events"
PART = 10_000  # events of a request: with the longest ids about 5 MB
_NEVER = 1 << 62  # a number that comes too early, whatever was sent before
_PROBE = b'[{"src":0,"dst":0}]'
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """Events of a failed call, some of which may have arrived: the first offset and a checksum."""

    first: int
    fingerprint: bytes


class Sender:
    """Sends events, and numbers them under the client's name if it has one.

    A request that is repeated has the number that it had, so the service applies it once. Events of a call
    that failed keep their numbers, too: if the same events are sent again, those that arrived are not applied
    twice.
    """

    def __init__(self, retry: Retry, name: str | None = None) -> None:
        if name is not None and not (0 < len(name) <= _LONGEST_NAME and name.isprintable()):
            raise OptionError(
                f"name is {name[:40]!r}; allowed are up to {_LONGEST_NAME} printable characters"
            )
        self.name, self._retry = name, retry
        self._next: int | None = None  # None: the service is to be asked
        self._unfinished: _Unfinished | None = None

    def send(self, batch: EventBatch) -> Operation[answers.Sent]:
        """Send a batch in parts, in order."""
        if self.name is None or not len(batch):
            return (yield from self._send_parts(batch, None, known=False))
        last, self._unfinished = self._unfinished, None
        same = last is not None and last.fingerprint == fingerprint(batch)
        if last is not None:
            self._next = last.first if same else None
        try:
            if self._next is None:
                self._next = yield from self.position()
            first = self._next
            sent = yield from self._send_parts(batch, first, known=same)
        except BaseException:  # also where no caller waits for the answer any longer
            if self._next is not None:
                self._unfinished = _Unfinished(self._next, fingerprint(batch))
            raise
        self._next = first + len(batch)
        return sent

    def position(self) -> Operation[int]:
        """Return the number of events of this name that the service has: the offset of the next one."""
        if self.name is None:
            raise OptionError("events are counted under a name: give the client one (name=...)")
        try:
            yield from self._retry.request(self._request(_PROBE, "application/json", _NEVER))
        except ServiceError as refused:
            if refused.type in ("sequence-gap", "forgotten-client") and refused.expected is not None:
                return refused.expected
            raise
        raise ServiceError("the service took an event that came too early; is it dygcn?")

    def _send_parts(self, batch: EventBatch, first: int | None, *, known: bool) -> Operation[answers.Sent]:
        sequence = applied = dead = repeated = 0
        bad: list[answers.BadRow] = []
        for begin, part in _parts(batch):
            number = None if first is None else first + begin
            one = yield from self._send_part(part, number, known=known)
            sequence = max(sequence, one.sequence)
            applied, dead = applied + one.applied, dead + one.dead
            repeated += len(part) if one.status == "repeated" else 0
            bad += [answers.BadRow(begin + row.row, row.reason) for row in one.bad]
        return answers.Sent(sequence, applied, dead, repeated, bad)

    def _send_part(
        self, part: EventBatch, first: int | None, *, known: bool, resumes: bool = False
    ) -> Operation[answers.Accepted]:
        """Send one request.

        The service may have `known` events from an earlier call. A request that `resumes` says that the
        client knows that the service has forgotten it.
        """
        request = self._request(as_arrow(part), ARROW, first, resumes=resumes)
        try:
            response = yield from self._retry.request(request, idempotent=first is not None)
        except ServiceError as refused:
            if first is None or refused.expected is None:
                raise
            if refused.type == "forgotten-client" and refused.expected == first and not resumes:
                return (yield from self._send_part(part, first, known=known, resumes=True))
            if refused.type == "forgotten-client" and refused.expected == first + len(part):
                return (yield from self._all_arrived())  # only this client sends under its name
            raise SequenceGap(f"client {self.name!r}", refused.expected, first) from refused
        found: answers.Accepted = read(response.body, answers.Accepted)
        if first is not None:
            self._check_alone(found, len(part), known=known or response.again)
        return found

    def _check_alone(self, found: answers.Accepted, events: int, *, known: bool) -> None:
        """Raise if another sender uses the name: the service then took events of this one for repeats."""
        complete = found.status == "applied" and found.applied + found.dead == events
        if not complete and not (known and found.status == "repeated"):
            raise OptionError(
                f"name is {self.name!r}, which another sender uses, too: the service had other events of the "
                "same numbers, and took these for repeats; give every sender a name of its own"
            )

    def _all_arrived(self) -> Operation[answers.Accepted]:
        found = yield from self._retry.answer(Request("GET", "/v1/status"), answers.ServiceStatus)
        return answers.Accepted(found.sequence, "repeated", 0, 0)

    def _request(self, body: bytes, form: str, first: int | None, *, resumes: bool = False) -> Request:
        query = [("client", str(self.name)), ("sequence", str(first))] if first is not None else []
        query += [("expected", str(first))] if resumes else []
        return Request("POST", EVENTS, tuple(query), body, {"Content-Type": form})


def _parts(batch: EventBatch) -> Iterator[tuple[int, EventBatch]]:
    """Yield the first row and the events of each part that a service accepts; at least one part."""
    if len(batch) <= PART:
        yield 0, batch
        return
    for begin in range(0, len(batch), PART):
        yield begin, rows_of(batch, np.arange(begin, min(begin + PART, len(batch))))


def as_arrow(batch: EventBatch) -> bytes:
    """Return events as an Arrow IPC stream."""
    columns = {"src": _ids(batch.src), "dst": _ids(batch.dst), "op": pa.array(batch.op)}
    for name, values in (("weight", batch.weight), ("t", batch.t)):
        if values is not None:
            columns[name] = pa.array(values)
    if batch.relation is not None:
        columns["relation"] = pa.array(batch.relation.names, pa.string()).take(pa.array(batch.relation.codes))
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _ids(column: IdColumn) -> pa.Array:
    return pa.array(python_ids(column), pa.int64() if column.kind == "int64" else pa.string())


def fingerprint(batch: EventBatch) -> bytes:
    """Return a checksum of events; equal only for equal events."""
    return hashlib.blake2b(as_arrow(batch), digest_size=16).digest()
