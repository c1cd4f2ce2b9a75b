"""Questions about any nodes: each goes to the owners, and the answers come back in the order asked."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dygcn.cluster import questions as ask
from dygcn.engine.events import join_ids, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.cluster.processes import ShardProcesses
    from dygcn.cluster.slots import SlotMap
    from dygcn.engine.records import Float32, IdColumn, Int8, Int64

    _Parts = list[tuple[Any, Int64]]  # answers, and which of the rows asked for each is about


class Asking:
    """Asks shards as of one batch. Columns that are asked for have one row at least.

    Attributes
    ----------
    at
        The batch that answers must reflect.
    slots, shards
        Who owns which node after it.
    """

    def __init__(self, processes: ShardProcesses, slots: SlotMap, shards: int, at: int = 0) -> None:
        self.processes, self.slots, self.shards, self.at = processes, slots, shards, at

    def everyone(self, question: ask.Question) -> list[Any]:
        """Ask all shards the same; return the answers by number."""
        answers = self.processes.ask(dict.fromkeys(range(self.shards), question))
        return [answers[number] for number in range(self.shards)]

    def vectors(self, ids: IdColumn) -> tuple[Int8, Float32]:
        """Return which ids are in the graph, and the vectors of those."""
        parts = self._owners(ids, lambda rows: ask.AskVectors(self.at, take(ids, rows)))
        here = np.zeros(len(ids), np.int8)
        for answer, rows in parts:
            here[rows] = answer.here
        found = np.concatenate([rows[answer.here > 0] for answer, rows in parts])
        return here, np.concatenate([answer.vectors for answer, _ in parts])[np.argsort(found)]

    def rows(self, ids: IdColumn, order: int, *, sums: bool = False) -> ask.Rows:
        """Return messages, or sums, of nodes."""
        parts = self._owners(ids, lambda rows: ask.AskRows(self.at, take(ids, rows), order, sums))
        return cast("ask.Rows", _joined(parts))

    def nodes(self, ids: IdColumn) -> ask.NodeFacts:
        """Return what the graph knows of nodes."""
        parts = self._owners(ids, lambda rows: ask.AskNodes(self.at, take(ids, rows)))
        return cast("ask.NodeFacts", _joined(parts))

    def pairs(self, a: IdColumn, b: IdColumn) -> ask.PairFacts:
        """Return what pairs are."""
        parts = self._owners(a, lambda rows: ask.AskPairs(self.at, take(a, rows), take(b, rows)))
        return cast("ask.PairFacts", _joined(parts))

    def arcs(self, ids: IdColumn, *, push: bool) -> tuple[Int64, IdColumn, Int64]:
        """Return how many arcs each node has, and all of them in the order of the nodes."""
        parts = self._owners(ids, lambda rows: ask.AskArcs(self.at, take(ids, rows), push))
        counts = np.zeros(len(ids), np.int64)
        for answer, rows in parts:
            counts[rows] = answer.counts
        order = np.argsort(
            np.concatenate([np.repeat(rows, one.counts) for one, rows in parts]), kind="stable"
        )
        weight = np.concatenate([one.weight for one, _ in parts])
        return counts, take(join_ids([one.other for one, _ in parts]), order), weight[order]

    def _owners(self, ids: IdColumn, question: Callable[[Int64], ask.Question]) -> _Parts:
        """Ask each owner about its own; return answers, and which rows they are about."""
        owner = self.slots.owners(ids)
        rows = {int(number): np.flatnonzero(owner == number) for number in np.unique(owner)}
        answers = self.processes.ask({number: question(some) for number, some in rows.items()})
        return [(answers[number], some) for number, some in rows.items()]


def _joined(parts: _Parts) -> Any:
    """Return answers as one, their columns in the order asked."""
    one = parts[0][0]
    order = np.argsort(np.concatenate([rows for _, rows in parts]))
    columns = {
        field.name: np.concatenate([getattr(answer, field.name) for answer, _ in parts])[order]
        for field in fields(one)
        if field.name != "position"
    }
    return type(one)(one.position, **columns)
