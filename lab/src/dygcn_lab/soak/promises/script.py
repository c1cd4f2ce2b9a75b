"""What the fault tests write: steps that a seed decides, and the state that is right after each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dygcn.engine.events import id_column, join_events, read_events
from dygcn.engine.models.model import ExactSpec, Model
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch
from dygcn.errors import EventError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.embedding import LiveEmbedding
from dygcn.paper import RollingSpec, RuleOptions, adopt
from dygcn_lab.soak.promises.aged_twin import KINDS, aged_model, bits_of

STREAM = "steps"
EVENTS, REFUSED, BULK, FEATURES, REMOVAL = "events", "refused", "bulk", "features", "removal"
_NODES, _DIM = 24, 4
# Where contacts are counted, a bulk load that is made twice counts twice.
_OTHERS = {"exact": (BULK, FEATURES, REMOVAL), "aged": (REMOVAL,), "rolling": ()}


@dataclass(frozen=True, slots=True)
class Script:
    """Endless steps. Most are messages of a stream, at a position that is their number.

    `seed`: decides every step; `rule`: ``"exact"``; ``"aged"``, the same with sums of a filter that grow old
    and edges that expire; or ``"rolling"``, where other cuts of the same events show in the vectors;
    `others`: one step in so many is no message but a change that only a snapshot keeps; 0: none.
    """

    seed: int
    rule: str = "exact"
    others: int = 19

    def kind(self, number: int) -> str:
        """Return what a step is: a message, one that cannot be applied, or another change."""
        others = _OTHERS[self.rule]
        if others and self.others and number % self.others == self.others - 1:
            return others[number // self.others % len(others)]
        return REFUSED if number % 13 == 7 else EVENTS

    def is_message(self, number: int) -> bool:
        """Say whether a step has a position in the stream."""
        return self.kind(number) in (EVENTS, REFUSED)

    def begins(self, number: int) -> bool:
        """Say whether a step is sent in a request of its own, not with the one before it."""
        alone = number == 0 or {self.kind(number - 1), self.kind(number)} != {EVENTS}
        return alone or self._random(number, 1).random() < 0.6

    def group(self, number: int) -> list[int]:
        """Return a step and those that are sent with it."""
        group = [number]
        while not self.begins(group[-1] + 1):
            group.append(group[-1] + 1)
        return group

    def before(self, number: int, steps: int) -> int:
        """Return where the request begins that holds the step so many steps earlier."""
        number = max(number - steps, 0)
        while not self.begins(number):
            number -= 1
        return number

    def last_message(self, number: int) -> int:
        """Return the last message among the steps up to a number, -1 if there is none."""
        while number >= 0 and not self.is_message(number):
            number -= 1
        return number

    def batch(self, number: int) -> EventBatch:
        """Return the events of a step."""
        random = self._random(number, 0)
        if self.kind(number) == REFUSED:
            return read_events([(1, 2, 0.0, 1, 1e30)], self._ids)
        count = int(random.integers(1, 6))
        ends = random.integers(0, _NODES, (count, 2)).tolist()
        ops = np.where(random.random(count) < 0.7, 1, -1).tolist()
        weights = random.integers(1, 9, count).tolist()
        t, aged = self._time(number), self.rule == "aged"
        late = random.integers(0, 5, count).tolist() if aged else [0.0] * count
        columns = zip(ends, ops, weights, late, strict=True)
        rows = [(a, b, t - before, op, float(w)) for (a, b), op, w, before in columns]
        # A weight that only this step sets: no two states are the same, and an old message shows if it is
        # applied once more.
        rows.append((_NODES + number % 3, 0, t, 1, 1.0 + number % 4096))
        return read_events(rows, self._ids)

    def now(self, number: int) -> float | None:
        """Return the time to which the clock comes with a step; None: as far as its events say."""
        aged = self.rule == "aged" and self.kind(number) == EVENTS
        return self._time(number) + 4.0 if aged and number % 9 == 4 else None

    def _time(self, number: int) -> float:
        """Return when a step happens: now and then so late that all edges before it have expired."""
        return number / 2 + 30.0 * (number // 25) if self.rule == "aged" else 0.0

    @property
    def _ids(self) -> str | None:
        return KINDS if self.rule == "aged" else None

    def _random(self, number: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, number, purpose))

    def send(self, live: DurableEmbedding, group: list[int]) -> list[str]:
        """Do the steps of a request; return what became of each."""
        if self.is_message(group[0]):
            parts = [SourceBatch(self.batch(one), STREAM, one, now=self.now(one)) for one in group]
            return [receipt.status for receipt in live._ingest(parts)]
        self._change(live, group[0])
        return ["applied"]

    def _change(self, live: LiveEmbedding | DurableEmbedding, number: int) -> None:
        """Make a change that is no message; made twice, it has no further effect."""
        random, kind = self._random(number, 0), self.kind(number)
        nodes = random.choice(_NODES, 3, replace=False)
        if kind == BULK:
            live.bulk([self.batch(number)])
        elif kind == FEATURES:
            live.set_features(nodes, random.integers(-3, 4, (3, _DIM)).astype(np.float32))
        else:
            users = [("user", n) for n in nodes.tolist()]  # most have expired; item 0 is of the step before
            live.update(remove_nodes=[("item", 0), *users] if self.rule == "aged" else nodes)

    def begin(self) -> LiveEmbedding:
        """Return what a folder begins with: a small model that nobody trained, and a graph."""
        if self.rule == "aged":
            state = State(aged_model(self.seed, nodes=_NODES))
            state.apply(read_events([(i, (i + 1) % _NODES, 0.0, 1, 1.0) for i in range(_NODES)], KINDS))
            return LiveEmbedding(state)
        random = np.random.default_rng((self.seed, 1 << 40))
        matrices = tuple(random.normal(0, 0.4, (_DIM, _DIM)).astype(np.float32) for _ in range(3))
        exact = self.rule == "exact"
        spec = ExactSpec() if exact else RollingSpec(RuleOptions(aggregation="mean", activation="tanh"))
        model = Model(matrices, "int64", "given" if exact else "none", np.ones(_DIM), spec=spec)
        state = State(model)
        state.apply(read_events([(i, (i + 1) % _NODES) for i in range(_NODES)]))
        values = random.uniform(-1, 1, (_NODES, _DIM)).astype(np.float32)
        if exact:
            state.set_features(id_column(range(_NODES)), values)
        else:
            adopt(state, id_column(range(_NODES)), values)
        return LiveEmbedding(state)


@dataclass(slots=True)
class History:
    """The digest of all bits after every step of a script, from a run in memory that nothing interrupts."""

    script: Script
    _digests: dict[int, str] = field(default_factory=dict)
    _live: LiveEmbedding | None = None
    _next: int = 0

    def digest(self, number: int) -> str:
        """Return the digest after a step; "" where it is not the last one of its request."""
        if self._live is None:
            self._live = self.script.begin()
            self._digests[-1] = bits_of(self._live)
        while self._next <= number:
            self._advance(self._live)
        return self._digests.get(number, "")

    def _advance(self, live: LiveEmbedding) -> None:
        script, group = self.script, self.script.group(self._next)
        if not script.is_message(group[0]):
            script._change(live, group[0])
        elif script.rule == "rolling":
            self._apply(live, join_events([script.batch(number) for number in group]))
        else:
            for number in group:
                self._apply(live, script.batch(number), script.now(number))
                self._digests[number] = bits_of(live)
        self._digests[group[-1]] = bits_of(live)
        self._next = group[-1] + 1

    @staticmethod
    def _apply(live: LiveEmbedding, batch: EventBatch, now: float | None = None) -> None:
        try:
            live._apply(batch, now)
        except EventError:
            return

    def place(self, digest: str, position: int, first: int, last: int) -> int | None:
        """Return the step, from `first` to `last`, after which state and position are these; None: none."""
        for number in range(last, first - 1, -1):
            if self.digest(number) == digest and self.script.last_message(number) == position:
                return number
        return None
