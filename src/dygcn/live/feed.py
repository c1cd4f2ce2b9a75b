"""What moved since: every node once, however often it moved, from any place in the sequence."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import OptionError
from dygcn.events import python_ids
from dygcn.graph.ids import grown
from dygcn.records import History, Int64, Nodes, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.live.embedding import LiveEmbedding
    from dygcn.records import IdColumn

MOST_LEFT = 200_000  # ids that left and are remembered
_ALL = (1 << 31) - 1  # behind every node


@dataclass(frozen=True, slots=True)
class Page:
    """Part of what moved behind a place."""

    rows: Rows
    next: str  # the place behind this page
    reset: bool  # forget all that you have first: what left before is no longer known
    more: bool  # another page is there already
    sequence: int  # the vectors are those of this sequence
    floor: int  # nothing is known of what moved before this one


class Feed:
    """The sequence at which each node moved last, and which ids left when.

    A place is a sequence, or a sequence and a node where a page ended between two nodes; then it also names
    the run of the program, since nodes are numbered anew in each. The empty place is before everything.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> feed = Feed(live, floor=0)
    >>> change = live.update(add=[("cat", "dan")])
    >>> feed.note(live.state.graph.nodes(), live.state.graph.ids.names(live.state.graph.nodes()[:0]), 1)
    >>> page = feed.since("0", limit=3)
    >>> page.rows.ids.tolist(), page.more, feed.since(page.next, limit=3).rows.ids.tolist()
    (['ann', 'bob', 'cat'], True, ['dan'])
    """

    def __init__(self, live: LiveEmbedding, floor: int) -> None:
        self._live = live
        self._run = secrets.token_hex(4)
        self._moved_at: Int64 = np.full(live.state.graph.ids.high, floor, np.int64)
        self._left: dict[int | str, int] = {}
        self.floor = floor
        self.sequence = floor

    def note(self, nodes: Nodes, left: IdColumn, sequence: int) -> None:
        """Say which nodes moved and which ids left at a sequence."""
        self.sequence = sequence
        self._moved_at = grown(self._moved_at, self._live.state.graph.ids.high)
        self._moved_at[nodes] = sequence
        if len(left) == 0:
            return
        for one in python_ids(left).tolist():
            self._left.pop(one, None)
            self._left[one] = sequence
        if len(self._left) > MOST_LEFT:
            self.forget(list(self._left.values())[len(self._left) // 4])

    def reach(self, sequence: int) -> None:
        """Say that nothing moved up to a sequence."""
        self.sequence = sequence

    def forget(self, sequence: int) -> None:
        """Know no longer who left up to a sequence: readers that have not come so far begin anew."""
        self.floor = max(self.floor, sequence)
        self._left = {one: at for one, at in self._left.items() if at > self.floor}
        np.maximum(self._moved_at, self.floor, out=self._moved_at)  # else a new beginning would miss some

    def since(self, place: str, limit: int) -> Page:
        """Return up to `limit` nodes that moved behind a place, and the ids that left until there.

        Raises
        ------
        OptionError
            If it is not a place, or lies behind the last sequence; or if the limit is less than one.
        """
        if limit < 1:
            raise OptionError(f"limit is {limit}; allowed is a whole number, 1 or more")
        after, node = self._read(place) if place else (-1, _ALL)
        reset = after < self.floor
        if reset:
            after, node = self.floor - 1, _ALL
        graph = self._live.state.graph
        moved_at = self._moved_at[: graph.ids.high]
        waiting = np.flatnonzero(moved_at >= after).astype(np.int32)
        waiting = waiting[(moved_at[waiting] > after) | (waiting > node)]
        waiting = waiting[graph.present(waiting)]
        chosen = _first(waiting, moved_at, limit)
        more = len(chosen) < len(waiting)
        place, upto = str(self.sequence), self.sequence
        if more:
            last = chosen[-1]
            upto = int(moved_at[last])
            place = f"{upto}.{last}.{self._run}"
        told = after if node == _ALL else after - 1  # where a page ended inside a sequence, it is told again
        return Page(self._rows(chosen, told, upto), place, reset, more, self.sequence, self.floor)

    def _rows(self, chosen: Nodes, after: int, upto: int) -> Rows:
        live = self._live
        gone = [(one, at) for one, at in self._left_behind(after) if at <= upto and one not in live]
        left: NDArray[Any] = np.array(
            [one for one, _ in gone], np.int64 if live.model.kind == "int64" else object
        )
        history = getattr(live, "history", None) or History(0, "0" * 16, self.sequence, "0" * 32)
        return Rows(
            python_ids(live.names(chosen)),
            live.vectors_of(chosen),
            np.full(len(chosen), history.sequence, np.int64),
            left,
            np.full(len(left), history.sequence, np.int64),
            history,
        )

    def _left_behind(self, after: int) -> list[tuple[int | str, int]]:
        found = []
        for one, at in reversed(self._left.items()):  # the last to leave stands last
            if at <= after:
                break
            found.append((one, at))
        return found[::-1]

    def _read(self, place: str) -> tuple[int, int]:
        parts = place.split(".")
        numbers = [int(part) for part in parts[:2] if part.isascii() and part.isdigit() and len(part) < 19]
        if len(numbers) != len(parts[:2]) or len(parts) not in (1, 3):
            raise OptionError(
                f"{place[:60]!r} is not a place in the sequence; "
                "allowed is a sequence such as 0, or the 'next' of an earlier answer"
            )
        after, node = numbers[0], numbers[1] if len(numbers) == 2 else _ALL
        if after > self.sequence:
            raise OptionError(f"sequence {after} has not come yet; the last one is {self.sequence}")
        if len(parts) == 3 and parts[2] != self._run:
            return after - 1, _ALL  # -1 at the beginning: not even the first page is known to be whole
        return after, node


def _first(waiting: Nodes, moved_at: Int64, limit: int) -> Nodes:
    """Return the first nodes by when they moved, then by their number, in that order."""
    if len(waiting) > limit:
        bar = np.partition(moved_at[waiting], limit - 1)[limit - 1]
        before, level = waiting[moved_at[waiting] < bar], waiting[moved_at[waiting] == bar]
        waiting = np.concatenate((before, level[: limit - len(before)]))
    return waiting[np.lexsort((waiting, moved_at[waiting]))]
