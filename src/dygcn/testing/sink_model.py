"""A sink under test beside a model of its expected content, and rows to write to both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np

from dygcn.engine.records import Float32, History, Rows
from dygcn.errors import OtherHistory, SinkError
from dygcn.serving.sinks import Sink
from dygcn.serving.sinks.sink import admit, newest

NodeId: TypeAlias = int | str | tuple[str, str]
"""An id or, where rows say the kind of their node, the kind and the id."""
Held: TypeAlias = dict[NodeId, tuple[History, Float32]]
"""The content of a sink: the vector of each node, and the position of its row."""
DIM = 5


@dataclass
class SinkModel:
    """A sink as a dict, with the rules for versions and histories written as plain sentences of code."""

    known: dict[NodeId, tuple[History, Float32 | None]] = field(default_factory=dict)
    newest: History | None = None

    def write(self, rows: Rows) -> None:
        """Take each row that is newer than that of its node; raise OtherHistory for a stale writer."""
        if len(rows) == 0:
            return
        self._reach(rows.history)
        for id_, vector in zip(rows.ids.tolist(), rows.vectors, strict=True):
            self._take(id_, rows.history, vector.copy())
        for id_ in rows.left.tolist():
            self._take(id_, rows.history, None)

    def delete_below(self, floor: int, history: History) -> None:
        """Forget all other epochs; end every row below a version, as if its node had left just before."""
        self._reach(history)
        ours = {id_: row for id_, row in self.known.items() if row[0].epoch == history.epoch}
        for id_, (at, vector) in ours.items():
            if at.sequence < floor and vector is not None:
                ours[id_] = (History(at.generation, at.epoch, floor - 1, ""), None)
        self.known = ours

    def held(self) -> Held:
        """Return the nodes that are there."""
        return {id_: (at, vector) for id_, (at, vector) in self.known.items() if vector is not None}

    def _reach(self, history: History) -> None:
        admit(self.newest, history, "the model")
        self.newest = newest([self.newest, history])

    def _take(self, id_: NodeId, history: History, vector: Float32 | None) -> None:
        known = self.known.get(id_)
        if known is None or _rank(history) > _rank(known[0]):
            self.known[id_] = (history, vector)


def _rank(history: History) -> tuple[int, int]:
    return history.generation, history.sequence


def made_up_history(sequence: int, generation: int = 1, epoch: str = "", branch: str = "") -> History:
    """Return a position. Two texts `epoch` are two epochs; two texts `branch` are copies that diverged."""
    name = hashlib.sha256(f"{generation}:{epoch}".encode()).hexdigest()[:16]
    chain = hashlib.sha256(f"{name}:{branch}:{sequence}".encode()).hexdigest()[:32]
    return History(generation, name, sequence, chain)


def make_rows(
    moved: Mapping[Any, int], left: Mapping[Any, int] | None = None, *, dim: int, **history: Any
) -> Rows:
    """Return rows of ids at one version; vectors follow from ids and the position, see `made_up_history`."""
    left = left or {}
    versions = {*moved.values(), *left.values()}
    if len(versions) > 1:
        raise ValueError(f"rows of one write have one version; got {sorted(versions)}")
    at = made_up_history(versions.pop() if versions else 0, **history)
    strings = any(isinstance(id_, str) for id_ in (*moved, *left))
    vectors = np.zeros((len(moved), dim), np.float32)
    for row, id_ in enumerate(moved):
        vectors[row] = made_up_vector(id_, at, dim)
    ids, gone = (np.array(list(each), object if strings else np.int64) for each in (moved, left))
    return Rows(ids, vectors, gone, at)


def made_up_vector(id_: NodeId, history: History, dim: int) -> Float32:
    """Return any finite bits, the same each time."""
    text = f"{history.chain}:{history.sequence}:{id_}"
    bits = np.frombuffer(hashlib.shake_128(text.encode()).digest(4 * dim), np.uint32)
    vector: Float32 = bits.view(np.float32)
    return np.where(np.isfinite(vector), vector, np.float32(1.5))


def replayed(bodies: Iterable[bytes]) -> Held:
    """Return the newest row of each node from the messages of a broker, in any order.

    A reader of a sink that only appends does the same. Messages are those of
    `dygcn.serving.sinks.json_rows`. Versions are compared after generations: a later epoch begins with small
    versions again.

    Examples
    --------
    >>> def message(text, generation, version):
    ...     return b'{%b,"generation":%d,"epoch":"e%d","version":%d,"chain":"c"}' % (
    ...         text, generation, generation, version)
    >>> first, again = message(b'"id":7,"vector":[0.5]', 1, 1), message(b'"id":7,"vector":[1]', 1, 2)
    >>> {id_: (at.sequence, vector) for id_, (at, vector) in replayed([again, first, again]).items()}
    {7: (2, array([1.], dtype=float32))}
    >>> replayed([again, message(b'"deleted_below":0', 2, 1)])  # generation 2 holds nothing
    {}
    """
    known: dict[NodeId, tuple[History, Float32 | None]] = {}
    floor = 0, 0
    for body in bodies:
        message = msgspec.json.decode(body)
        at = History(message["generation"], message["epoch"], message["version"], message["chain"])
        if "deleted_below" in message:
            floor = max(floor, (at.generation, message["deleted_below"]))
            continue
        id_ = named(message["id"], message.get("kind"))
        if id_ not in known or _rank(at) > _rank(known[id_][0]):
            left = message.get("left", False)
            known[id_] = (at, None if left else np.array(message["vector"], np.float64).astype(np.float32))
    return {
        id_: (at, vector) for id_, (at, vector) in known.items() if vector is not None and _rank(at) >= floor
    }


def named(id_: Any, kind: str | None) -> NodeId:
    """Return the key in `Held` of a row with an id and, if rows say it, a kind."""
    return id_ if kind is None else (kind, id_)


@dataclass(frozen=True)
class SinkTarget:
    """An empty target of its own, and a factory of sinks that write to it.

    Parameters
    ----------
    make
        Returns a new sink, not open yet; several may write to the target.
    read_all
        Returns the content, read without the sink. For a broker, see `dygcn.testing.replayed`; for rows that
        say the kind of their node, `dygcn.testing.named`.
    interrupt
        Kills the server and starts it again with its data. Without it, no check says what a crash leaves.
    """

    make: Callable[[], Sink]
    read_all: Callable[[], Held]
    interrupt: Callable[[], None] | None = None


Fresh: TypeAlias = "Callable[[], SinkTarget]"


class SinkTrial:
    """An open sink on a new target, and the model of its expected content."""

    def __init__(self, fresh: Fresh, ids: str, dim: int = DIM) -> None:
        self.target, self.model = fresh(), SinkModel()
        self.ids, self.dim = ids, dim
        self.sink = self.target.make()
        found = self.sink.open(ids, dim)
        expect(found is None, f"a sink that holds nothing was opened, and says that it holds {found}")

    def __enter__(self) -> SinkTrial:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    def after(self, what: str, *steps: Any, **history: Any) -> None:
        """Make steps, then compare target and model.

        A step is a dict (ids that moved, at versions), two dicts (ids that moved, ids that left), a number
        (a floor for `delete_below`), a number and a position, rows, or the text ``"reopen"``.
        """
        for step in steps:
            if step == "reopen":
                self._reopen()
            elif isinstance(step, Rows):
                self._write(step)
            elif isinstance(step, int):
                self._delete_below(step, self.model.newest or made_up_history(0))
            elif isinstance(step, tuple) and isinstance(step[1], History):
                self._delete_below(*step)
            else:
                moved, left = step if isinstance(step, tuple) else (step, {})
                for version in sorted({*moved.values(), *left.values()}) or [0]:
                    at = [{id_: n for id_, n in one.items() if n == version} for one in (moved, left)]
                    self._write(make_rows(*at, dim=self.dim, **history))
        self._compare(f"after {what}")

    def _write(self, rows: Rows) -> None:
        before = replace(rows, vectors=rows.vectors.copy())  # a sink may not write to what it is given
        self.sink.write(rows)
        self.model.write(before)

    def _delete_below(self, floor: int, history: History) -> None:
        self.sink.delete_below(floor, history)
        self.model.delete_below(floor, history)

    def _reopen(self) -> None:
        """Open a new sink on the target. A broker may say an earlier position if a write came late."""
        self.sink.close()
        self.sink = self.target.make()
        found, expected = self.sink.open(self.ids, self.dim), self.model.newest
        if found is None:  # then it holds nothing, and nothing is late there
            expect(not self.model.held(), "a sink that holds rows was opened, and says that it holds nothing")
            self.model = SinkModel()
            return
        ours = expected is not None and found.epoch == expected.epoch and found.sequence <= expected.sequence
        expect(ours, f"the newest that was written is {expected}; open() says {found}")

    def _compare(self, when: str) -> None:
        expected, found = self.model.held(), self.target.read_all()
        if ":" in self.ids:
            expected = {(str(id_).partition(":")[0], str(id_)): row for id_, row in expected.items()}
        missing, beyond = (
            sorted(map(repr, one.keys() - other.keys()))[:5] or "none"
            for one, other in ((expected, found), (found, expected))
        )
        same = expected.keys() == found.keys()
        expect(same, f"{when}: missing are {missing}, not expected are {beyond}")
        for id_, (history, vector) in expected.items():
            there, stored = found[id_]
            if there != history:
                raise AssertionError(f"{when}: {id_!r} is of {there}, expected {history}")
            if np.asarray(stored, np.float32).tobytes() != vector.tobytes():
                raise AssertionError(
                    f"{when}: {id_!r} has the vector {stored}, expected {vector}, bit for bit"
                )


def expect(truth: bool, otherwise: str) -> None:
    """Raise an AssertionError that says what was expected."""
    if not truth:
        raise AssertionError(otherwise)


def expect_error(
    of: str, what: Callable[..., object], *arguments: object, kind: type[SinkError] = SinkError
) -> None:
    """Raise an AssertionError unless a call raises an error of a kind."""
    try:
        what(*arguments)
    except kind:
        return
    raise AssertionError(f"{of} was not refused with {'a ' * (kind is SinkError)}{kind.__name__}")


def expect_open(trial: SinkTrial, expected: History) -> None:
    """Open a sink beside the open one; it must return the newest position."""
    beside = trial.target.make()
    found = beside.open(trial.ids, trial.dim)
    beside.close()
    expect(found == expected, f"the newest that was written is {expected}; open() says {found}")


def expect_refused(trial: SinkTrial, sink: Sink, version: int, **history: Any) -> None:
    """Expect that neither rows nor a `delete_below` of a history are taken, and that nothing changes."""
    at = made_up_history(version, **history)
    rows = make_rows({2: version, 77: version}, {1: version}, dim=DIM, **history)
    for attempt in ("", " again"):
        expect_error(f"a write for {at}{attempt}", sink.write, rows, kind=OtherHistory)
        trial.after(f"a write for {at} was refused")
        expect_error(f"delete_below for {at}{attempt}", sink.delete_below, version, at, kind=OtherHistory)
        trial.after(f"delete_below for {at} was refused")
