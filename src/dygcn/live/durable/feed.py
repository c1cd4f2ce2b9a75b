"""The feed of changes: each node once, however often it moved, from any cursor in the history of one log."""

from __future__ import annotations

import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events import id_column, python_ids, take
from dygcn.engine.records import Bool, History, IdColumn, Int64, Nodes, Rows
from dygcn.errors import OptionError
from dygcn.live.changed import FeedImage
from dygcn.live.durable.storage.entries import Epoch
from dygcn.live.durable.storage.erasures import Erasures
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.embedding import LiveEmbedding

_NOBODY = np.empty(0, np.int32)
MOST_LEFT = 200_000  # ids that left and are remembered
_LOOK = 1_000  # departures that a page looks at, also where few rows are asked for


@dataclass(frozen=True, slots=True)
class Page:
    """Nodes that moved after a cursor. An empty page may have more pages behind it."""

    rows: Rows
    next: str  # the cursor behind this page
    reset: bool  # forget all that you have first: what comes is everything
    more: bool  # another page is there already
    sequence: int  # the rows are as they are at this sequence
    floor: int  # with `reset`, see `Feed.since`; else 0


def without_forgotten(feed: FeedImage, floor: int, erasures: Erasures) -> tuple[FeedImage, int]:
    """Return the feed's image without forgotten ids, and its new floor.

    A reader that has not been shown the departure of such an id must resynchronise.
    """
    known = erasures.find(feed.left) < 0
    if known.all():
        return feed, floor
    floor = max(floor, int(feed.left_at[~known].max()))
    rows = np.flatnonzero(known & (feed.left_at > floor))
    return replace(feed, left=take(feed.left, rows), left_at=feed.left_at[rows]), floor


class Feed:
    """The changes after a cursor: which nodes moved when, and which ids left when.

    Snapshots hold it, so it outlives the program: a reader goes on where it was.

    A cursor says which position of which history its reader was shown. Where the log does not confirm that
    position, the reader was shown another history (that of a copy of the folder, say), and begins anew.

    A page shows departures first, then nodes by when they moved last. So a cursor inside a run of pages holds
    two positions, and each page is true as a whole at its own sequence: a change after an id was shown has a
    later number or sequence, which no position has passed.
    """

    def __init__(
        self,
        live: LiveEmbedding,
        histories: Histories,
        erasures: Erasures,
        sequence: int,
        floor: int,  # the sequence up to which departures are unknown
        image: FeedImage | None,  # moves and departures so far; None: every present node moved now
        begin_epoch: Callable[[], History],
    ) -> None:
        self._begin_epoch = begin_epoch
        self._live, self._histories, self._erasures = live, histories, erasures
        self._run = secrets.token_hex(8)
        self.sequence = sequence
        if image is None:
            self._changes = live._change_record(sequence)
            self._departures = Departures(floor, MOST_LEFT)
            return
        graph = live._state.graph
        moved: Int64 = np.full(graph.ids.high, sequence, np.int64)
        moved[graph.nodes()] = image.moved
        self._changes = live._change_record(moved)
        self._departures = Departures(floor, MOST_LEFT, image.left, image.left_at)

    def image(self, nodes: Nodes) -> tuple[FeedImage, int]:
        """Return the image to save, for nodes in this order, and the floor of known departures."""
        run, moved = self._departures.everything(), self._changes.sequences_of(nodes)
        unsaid, floor = self._live._unsaid(), self._departures.floor
        if run is None:
            return FeedImage(moved, self._live._names(nodes[:0]), np.empty(0, np.int64), unsaid), floor
        return without_forgotten(FeedImage(moved, run.ids, run.sequences, unsaid), floor, self._erasures)

    @property
    def history(self) -> History:
        """The position that the vectors reflect: epoch, sequence, and the log's chain value there."""
        with self._live._guard.lock:
            return self._histories.known(self.sequence)

    def confirms(self, history: History) -> bool:
        """Return whether a position belongs to this history; False if it is too old to be known."""
        with self._live._guard.lock:
            return self._histories.confirm(history)

    def begin_epoch(self) -> History:
        """Begin a new epoch and return its first position; readers and sinks of the old epoch start over."""
        return self._begin_epoch()

    @property
    def cursor(self) -> str:
        """The cursor after everything that happened so far."""
        return str(FeedCursor.of(self.history))

    # ---- writing -----------------------------------------------------------------------------------

    def note(self, nodes: Nodes, left: IdColumn, sequence: int, heavy: Nodes = _NOBODY) -> None:
        """Record the nodes that moved at a sequence, listeners of heavy ones too, and the ids that left."""
        self.sequence = sequence
        self._changes.announce(nodes, sequence, heavy)
        self._departures.note(left, sequence, self._gone)

    def reach(self, sequence: int) -> None:
        """Record that nothing moved up to a sequence."""
        self.sequence = sequence

    def forget(self, sequence: int) -> None:
        """Record that unknown ids left up to a sequence, so all readers must resynchronise."""
        self._departures.miss(sequence)

    # ---- reading -----------------------------------------------------------------------------------

    def since(self, cursor: str, limit: int) -> Page:
        """Return up to `limit` rows, moved and left together, that the reader at a cursor has not seen.

        Parameters
        ----------
        cursor
            The `next` of an earlier page. The empty text, a bare number, and a cursor of another history are
            before everything: the page has `reset`, and what left before it is not listed.
        limit
            Rows in the page.

        Returns
        -------
        Page
            With `reset`, `floor` is the sequence at which this new beginning was made. Once a page has no
            more behind it, all that is there was shown as of `floor` or a later sequence of this epoch: a
            sink may take out what it has from before `floor`, and what it has of another epoch.

        Raises
        ------
        OptionError
            If the text is no cursor, or if the limit is less than one.
        """
        if limit < 1:
            raise OptionError(f"limit is {limit}; allowed is a whole number, 1 or more")
        with self._live._guard.lock:  # a page is of one sequence
            return self._page(cursor, limit)

    def _page(self, cursor: str, limit: int) -> Page:
        found = self._find(FeedCursor.read(cursor))
        page_position = found or PagePosition(-1, ALL_NODES, self._departures.last, self._run)
        left, page_position, more = self._next_departures(page_position, limit)
        nodes: Nodes = np.empty(0, np.int32)
        if not more:
            nodes, page_position, more = self._next_nodes(page_position, limit - len(left))
        history = self.history
        behind = FeedCursor.of(history, page_position if more else None)
        reset = found is None
        floor = history.sequence if reset else 0
        return Page(self._rows(nodes, left, history), str(behind), reset, more, history.sequence, floor)

    def _find(self, cursor: FeedCursor | None) -> PagePosition | None:
        """Return the position of the reader at a cursor; None if it must resynchronise."""
        if cursor is None or cursor.sequence > self.sequence or not self._histories.confirm_cursor(cursor):
            return None
        inside, departures = cursor.page_position, self._departures
        if inside is not None and inside.run == self._run:
            return inside if inside.left >= departures.forgotten else None
        upto = cursor.sequence
        if inside is not None:  # of a run that is over: all before the sequence that it was in was shown
            upto = min(inside.upto if inside.node == ALL_NODES else inside.upto - 1, upto)
        if upto < departures.floor:
            return None
        return PagePosition(upto, ALL_NODES, departures.number_at(upto), self._run)

    def _next_departures(
        self, page_position: PagePosition, limit: int
    ) -> tuple[NDArray[Any], PagePosition, bool]:
        """Return the next ids that left for good, the position after them, and whether more follow."""
        departures = self._departures
        most = max(limit, _LOOK)
        found = departures.behind(page_position.left, most)
        if found is None:
            return python_ids(self._live._names(np.empty(0, np.int32))), page_position, False
        gone = np.flatnonzero(self._gone(found.ids))
        reached = int(found.numbers[gone[limit - 1] if len(gone) > limit else -1])
        more = len(gone) > limit or departures.behind(reached, 1) is not None
        left = dict.fromkeys(python_ids(take(found.ids, gone[:limit])).tolist())  # some left twice
        ids: NDArray[Any] = np.array(list(left), np.int64 if found.ids.data is None else object)
        return ids, replace(page_position, left=reached), more

    def _next_nodes(self, page_position: PagePosition, limit: int) -> tuple[Nodes, PagePosition, bool]:
        """Return the next nodes that moved, the position after them, and whether more follow."""
        behind = self._changes.position_at(page_position.upto, page_position.node)
        found = self._changes.behind(behind, limit + 1, self._live._state.graph.present)
        chosen = found.nodes[:limit]
        if len(chosen):
            upto, node = int(found.sequences[len(chosen) - 1]), int(chosen[-1])
            page_position = replace(page_position, upto=upto, node=node)
        return chosen, page_position, len(found.nodes) > limit

    def _gone(self, ids: IdColumn) -> Bool:
        return self._live._state.graph.find(ids) < 0

    def _rows(self, nodes: Nodes, left: NDArray[Any], history: History) -> Rows:
        live = self._live
        return Rows(python_ids(live._names(nodes)), live._vectors_of(nodes), left, history)


# ---- ids that left ---------------------------------------------------------------------------------------

Gone: TypeAlias = Callable[[IdColumn], Bool]  # says of each id whether it is not in the graph now


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive departures."""

    numbers: Int64  # (n,) growing; with gaps where some were dropped
    sequences: Int64  # (n,) at which each id left, growing
    ids: IdColumn  # (n,)


class Departures:
    """A record of ids that left, the earliest first; each departure has a number of its own."""

    def __init__(
        self, floor: int, most: int, ids: IdColumn | None = None, sequences: Int64 | None = None
    ) -> None:
        self._most, self.floor = most, floor
        self._ids: list[int | str] = [] if ids is None else python_ids(ids).tolist()
        self._sequences: list[int] = [] if sequences is None else sequences.tolist()
        self.last = len(self._ids)  # the number of the last departure
        self._numbers = list(range(1, self.last + 1))
        self.forgotten = 0  # the number of the last one that is no longer known

    def __len__(self) -> int:
        return len(self._ids)

    def everything(self) -> Run | None:
        """Return all departures kept, in order; None if there are none."""
        return self.behind(0, len(self))

    def note(self, ids: IdColumn, sequence: int, gone: Gone) -> None:
        """Record the ids that left at a sequence."""
        if len(ids) == 0:
            return
        self._ids += python_ids(ids).tolist()
        self._sequences += [sequence] * len(ids)
        self._numbers += range(self.last + 1, self.last + 1 + len(ids))
        self.last += len(ids)
        if len(self) > self._most:
            self._reserve(gone)

    def _reserve(self, gone: Gone) -> None:
        """Drop departures of ids that came back or left again; if over 3/4 stay, drop the oldest, too."""
        rows = np.flatnonzero(gone(id_column(self._ids))).tolist()
        self._keep(sorted({self._ids[row]: row for row in rows}.values()))
        too_many = len(self) - 3 * self._most // 4
        if too_many > 0:
            self.forget(self._sequences[too_many - 1])

    def _keep(self, rows: Iterable[int]) -> None:
        kept = list(rows)
        self._ids = [self._ids[row] for row in kept]
        self._sequences = [self._sequences[row] for row in kept]
        self._numbers = [self._numbers[row] for row in kept]

    def forget(self, sequence: int) -> None:
        """Drop departures up to a sequence."""
        self.floor = max(self.floor, sequence)
        self.forgotten = max(self.forgotten, self.number_at(sequence))
        self._keep(range(bisect_right(self._sequences, sequence), len(self)))

    def miss(self, sequence: int) -> None:
        """Record that unknown ids left at a sequence, so every reader must resynchronise."""
        self.last += 1
        self.floor, self.forgotten = sequence, self.last
        self._keep(())

    def number_at(self, sequence: int) -> int:
        """Return a number below all departures after a sequence, and not below any up to it."""
        after = bisect_right(self._sequences, sequence)
        return self._numbers[after] - 1 if after < len(self) else self.last

    def behind(self, number: int, most: int) -> Run | None:
        """Return the next departures after a number, at most so many; None if there are none."""
        start = bisect_right(self._numbers, number)
        some = slice(start, start + most)
        if start == len(self) or not most:
            return None
        numbers, sequences = np.array(self._numbers[some]), np.array(self._sequences[some])
        return Run(numbers, sequences, id_column(self._ids[some]))


_CHAIN = 16  # digits of the chain value in a cursor
_NUMBER, _WORD = "[0-9]{1,18}", "[0-9a-f]{16}"
_INSIDE = f"[.]{_NUMBER}[.]{_NUMBER}[.]{_NUMBER}[.]{_WORD}"
PLACE_PATTERN = f"{_NUMBER}|{_WORD}[.]{_NUMBER}[.]{_WORD}({_INSIDE})?"
ALL_NODES = (1 << 31) - 1  # behind every node


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The position of a reader inside a run of pages: the nodes and departures that it has seen."""

    upto: int  # nodes that moved last before this sequence
    node: int  # and at it, up to this node
    left: int  # departures up to this number
    run: str = ""  # of the program: nodes and departures are numbered anew in each


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """The fields of a cursor's text."""

    epoch: str
    sequence: int
    chain: str  # the first digits of the chain value
    page_position: PagePosition | None = None  # None: everything up to the sequence was shown

    @classmethod
    def of(cls, history: History, page_position: PagePosition | None = None) -> FeedCursor:
        """Return the cursor of a reader that has seen everything up to a position."""
        return cls(history.epoch, history.sequence, history.chain[:_CHAIN], page_position)

    def __str__(self) -> str:
        text = f"{self.epoch}.{self.sequence}.{self.chain}"
        inside = self.page_position
        return text if inside is None else f"{text}.{inside.upto}.{inside.node}.{inside.left}.{inside.run}"

    @classmethod
    def read(cls, text: str) -> FeedCursor | None:
        """Parse a cursor's text; None if it names no history: an empty text, or a bare number."""
        if text and re.fullmatch(PLACE_PATTERN, text) is None:
            raise OptionError(
                f"{text[:100]!r} is not a cursor in the feed; allowed is the 'next' of an earlier answer, or "
                "nothing at all, for everything from the beginning"
            )
        epoch, *rest = text.split(".")
        if not rest:
            return None
        sequence, chain, *inside = rest
        if not inside:
            return cls(epoch, int(sequence), chain)
        upto, node, left, run = inside
        return cls(epoch, int(sequence), chain, PagePosition(int(upto), int(node), int(left), run))


class Histories:
    """The positions of one log in its present epoch, as far back as the log knows its chain values.

    An entry whose change could not be written to a snapshot is refused when the folder is opened again. Until
    then readers were shown a change that never took place: the position does not belong to this history.
    """

    def __init__(self, log: EventLog, epoch: Epoch, refused: Iterable[int] = ()) -> None:
        self._log = log
        self.epoch = epoch
        self._refused = set(refused)

    def refuse(self, sequences: Iterable[int]) -> None:
        """Record entries whose change readers saw before it was refused."""
        self._refused.update(sequences)

    def refused(self) -> list[int]:
        """Return the refused entries that the log still knows."""
        self._refused = {one for one in self._refused if self._log.chain_at(one) is not None}
        return sorted(self._refused)

    def at(self, sequence: int) -> History | None:
        """Return the position at a sequence; None if the log has none there, or has forgotten it."""
        chain = self._log.chain_at(sequence)
        if chain is None:
            return None
        return History(self.epoch.generation, self.epoch.id, sequence, chain.hex())

    def known(self, sequence: int) -> History:
        """Return the position at a sequence whose chain value the log knows, such as the last one."""
        history = self.at(sequence)
        assert history is not None, f"the log does not know its own entry {sequence}"
        return history

    def confirm(self, history: History) -> bool:
        """Return whether a position belongs to this history."""
        return history.sequence not in self._refused and self.at(history.sequence) == history

    def confirm_cursor(self, cursor: FeedCursor) -> bool:
        """Return whether the reader at a cursor has seen this history."""
        if cursor.sequence in self._refused:
            return False
        ours = self.at(cursor.sequence) if cursor.epoch == self.epoch.id else None
        return ours is not None and ours.chain[:_CHAIN] == cursor.chain
