"""Vectors in a dict of this process."""

import threading
from dataclasses import replace

from dygcn.serving.addresses import Settings
from dygcn.serving.sinks import OnOtherHistory, StoreSink
from dygcn.serving.sinks.sink import admit, newest

TABLES = {}  # name: [shape, newest position, id -> position and vector; the vector of one that left is None]
_LOCK = threading.Lock()


class DictSettings(Settings, frozen=True, kw_only=True, tag="dict"):
    """Where rows go."""

    name: str
    other_history: OnOtherHistory = "rewrite"

    def make(self):
        """Return the sink, not open yet."""
        return StoreSink(DictStore(self))


class DictStore:
    """A dict of all rows: an older write never brings back a node that left."""

    errors, secrets, not_finite = (), (), ""

    def __init__(self, settings):
        self.name, self._table = f"dict://{settings.name}", TABLES.setdefault(settings.name, [None, None, {}])

    def connect(self, shape):
        self._table[0] = self._table[0] or shape
        shape.refuse(self.name, str(self._table[0]))

    def disconnect(self):
        pass

    def held(self):
        return self._table[1]

    def write(self, rows):
        with _LOCK:
            self._reach(rows.history)
            for id_, vector in zip(rows.ids.tolist(), rows.vectors.copy(), strict=True):
                self._put(id_, rows.history, vector)
            for id_ in rows.left.tolist():
                self._put(id_, rows.history, None)

    def delete_below(self, floor, history):
        with _LOCK:
            self._reach(history)
            _, _, rows = self._table
            for id_, (at, vector) in list(rows.items()):
                if at.epoch != history.epoch:
                    del rows[id_]
                elif vector is not None and at.sequence < floor:
                    rows[id_] = (replace(at, sequence=floor - 1), None)

    def forget_left(self):
        pass

    def _reach(self, history):
        admit(self._table[1], history, self.name)
        self._table[1] = newest([self._table[1], history])

    def _put(self, id_, history, vector):
        rows = self._table[2]
        there = rows.get(id_)
        if there is None or newest([there[0], history]) is not there[0]:
            rows[id_] = (history, vector)
