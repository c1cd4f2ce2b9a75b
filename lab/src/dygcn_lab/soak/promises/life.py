"""One life of a process that writes to a durable folder: what it is told to do, and what it tells."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from itertools import pairwise

import msgspec

from dygcn.errors import DygcnError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage import log
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.storage.layout import LOG_FILE
from dygcn_lab.soak.promises import points
from dygcn_lab.soak.promises.aged_twin import bits_of
from dygcn_lab.soak.promises.disk_trace import DiskTrace
from dygcn_lab.soak.promises.script import STREAM, Script


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """One life: what to write where, and how it ends."""

    folder: str
    seed: int
    rule: str = "exact"
    others: int = 19
    done: int = -1  # the last step that was acknowledged
    until: int = 40  # the first step that is not written
    again: int = 3  # steps before that are sent once more
    every: int = 40  # events between two snapshots
    journal: int = log.LONGEST_JOURNAL  # bytes of SQLite's journal before they are put in their place
    close: bool = True  # in the end; if not, it dies there
    leave: bool = False  # without closing, when a write has failed
    point: str = ""  # where to die
    count: int = 1  # and at which time of being there
    seconds: float | None = None  # after which it is killed
    trace: str = ""  # where to record what it does to the disk
    fault: str = ""  # what goes wrong with an operation on the disk
    nth: int = 0  # and with which
    bug: str = ""


class Event(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Something that a life tells."""

    what: str  # refused (to open), recovered, begun, acknowledged, failed, closed, ended
    step: int = -1
    digest: str = ""
    doubles: int = 0  # messages that stand in the log twice
    error: str = ""  # the name of its class
    text: str = ""
    on: str = ""  # the operation that was made to fail
    seconds: float = -1.0  # from the fault until writes were refused
    refused: int = 0  # writes that were tried after it and refused
    accepted: int = 0  # and those that were not
    answered: bool = True  # reads
    operations: int = 0
    status: int = 0  # of the process


class Life:
    """Opens a folder, goes on where it stands, and tells what is acknowledged after each request."""

    def __init__(self, order: Order, say: Callable[[Event], None]) -> None:
        self.order, self._say = order, say
        self.script = Script(order.seed, order.rule, order.others)
        self.trace = DiskTrace() if order.trace or order.fault else None
        self._left = order.count  # times of being where nothing is acknowledged yet

    def run(self) -> None:
        """Live."""
        order = self.order
        self._prepare()
        try:
            live = open_folder(order.folder, snapshot_every=order.every)
        except DygcnError as error:
            self.say(self._report("refused", error))
            return
        self.say(Event("recovered", self._position(live), bits_of(live), self._doubles()))
        try:
            self._write(live)
            if not order.close:
                self._die()
            live.close()
            if live._log.failure is not None:
                raise live._log.failure
            self.say(self._report("closed", step=self._position(live), digest=bits_of(live)))
        except DygcnError as error:
            self._after_failure(live, error)

    def _prepare(self) -> None:
        order = self.order
        log.LONGEST_JOURNAL = order.journal
        if order.bug:
            points.BUGS[order.bug]()
        if order.point:
            points.die_at(order.point, order.count, self._die)
        if self.trace is not None:
            self.trace.watch(order.folder, order.trace)
            if order.fault:
                self.trace.fail(order.nth, order.fault)

    def _write(self, live: DurableEmbedding) -> None:
        script, order = self.script, self.order
        resume = max(self._position(live), order.done) + 1
        number = script.before(resume, order.again)
        while number < order.until:
            group = [one for one in script.group(number) if one >= number]
            if script.is_message(number) or number >= resume:
                self.say(Event("begun", group[-1]))
                statuses = script.send(live, group)
                if not set(statuses) <= {"applied", "repeated"}:
                    self.say(Event("failed", group[-1], error="Receipt", text=str(statuses)))
                self._before_acknowledging()
                self.say(Event("acknowledged", group[-1]))
            number = group[-1] + 1

    def _before_acknowledging(self) -> None:
        if self.order.point == points.ACKNOWLEDGED:
            self._left -= 1
            if self._left == 0:
                self._die()

    def _die(self) -> None:
        if self.trace is not None:
            self.trace.die()
        points.kill_myself()

    @staticmethod
    def _position(live: DurableEmbedding) -> int:
        return live.streams.get(STREAM, -1)

    def _doubles(self) -> int:
        """Count the messages that stand in the log twice, without being refused."""
        if self.order.trace or self.order.fault:
            return 0
        db = sqlite3.connect(f"file:{self.order.folder}/{LOG_FILE}?mode=ro", uri=True)
        try:
            rows = db.execute("SELECT batch_id, kind, position, body FROM entries ORDER BY seq").fetchall()
        finally:
            db.close()
        refused = {int(body) for _, kind, _, body in rows if kind == Kind.REFUSAL}
        positions = [at for batch_id, _, at, _ in rows if at >= 0 and batch_id not in refused]
        return sum(after <= before for before, after in pairwise(positions))

    def say(self, said: Event) -> None:
        """Tell the one who ordered, and the trace."""
        if self.trace is not None:
            self.trace.note(msgspec.json.encode(said).decode())
        self._say(said)

    # ---- after a failure ---------------------------------------------------------------------------------

    def _report(self, what: str, error: DygcnError | None = None, step: int = -1, digest: str = "") -> Event:
        """Return what became of it, and of the operation that was made to fail."""
        report = Event(what, step, digest)
        if error is not None:
            report.error, report.text = type(error).__name__, str(error)
        if self.trace is not None:
            report.operations, fault = self.trace.operations, self.trace.fault()
            if fault is not None:
                report.on, report.seconds = fault.on, time.monotonic() - fault.at
        return report

    def _after_failure(self, live: DurableEmbedding, error: DygcnError) -> None:
        report = self._report("failed", error)
        for attempt in (self._ingest, self._update):
            try:
                attempt(live)
                report.accepted += 1
            except DygcnError as refusal:
                report.refused += type(refusal).__name__ == "WriteFailed"
        report.answered = self._answers(live)
        self.say(report)
        if not self.order.leave:
            live.close()

    def _ingest(self, live: DurableEmbedding) -> None:
        self.script.send(live, [self.order.until + 1000 * self.script.others])

    @staticmethod
    def _update(live: DurableEmbedding) -> None:
        live.update(add=[(1, 2)])

    @staticmethod
    def _answers(live: DurableEmbedding) -> bool:
        ids = live.ids()
        return len(live.vectors(ids)) == len(ids) and len(live.digest()) == 64
