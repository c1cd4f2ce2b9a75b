"""Positions in the history of one log: a reader with any other position has seen another history."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dygcn.engine.records import History
from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.live.durable.storage.entries import Epoch
    from dygcn.live.durable.storage.log import EventLog

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
