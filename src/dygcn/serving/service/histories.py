"""Whether a sink holds rows of our history, and what is done where it holds others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from dygcn.engine.records import History
from dygcn.errors import OtherHistory
from dygcn.serving.sinks.histories import admit, described

if TYPE_CHECKING:
    from dygcn.serving.sinks import OnOtherHistory

SAME, NEW, REWRITING, REWRITTEN, REFUSED = "same", "new", "rewriting", "rewritten", "refused"


class HistoryLog(Protocol):
    """What a sink's worker asks of the embedding that it writes out: where its log is, and what it was."""

    @property
    def history(self) -> History:
        """The position now."""

    def confirms(self, history: History) -> bool:
        """Say whether our log has this chain value at this sequence of this epoch."""

    def begin_epoch(self) -> History:
        """Begin an epoch of a greater generation: all that was written before is of another history."""


class SinkCursor(msgspec.Struct, forbid_unknown_fields=True):
    """How far a sink came, as it is kept in the folder.

    It says which history it is of: a cursor in a folder that was copied, or restored, is not that of the
    log that goes on there.
    """

    next: str = ""  # the cursor in the feed
    delete_below: int | None = None  # what the sink has from before this sequence is to go, once all is there
    history: History | None = None  # the last position that was written
    reached: int = 0  # the sequence up to which nothing is missing
    why: str = ""  # all is being written again, and why


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a worker does with a sink that it has opened."""

    history: str  # SAME, NEW or REWRITING
    why: str = ""
    anew: bool = False  # write everything, whatever the kept cursor says
    begin_epoch: bool = False  # first begin a new epoch, whose generation keeps other writers out


def judge(
    held: History | None, kept: History | None, log: HistoryLog, rule: OnOtherHistory, name: str
) -> Verdict:
    """Return what to do where a sink holds rows up to a position."""
    ours = log.history
    if held is None:
        return Verdict(NEW, f"{name} held nothing: all rows are written", anew=True)
    if (held.generation, held.epoch) == (ours.generation, ours.epoch):
        if held == kept or log.confirms(held):
            return _of_our_history(held, kept, log, name)
        of = f"a copy of this folder that went another way ({described(held)}; our log says otherwise)"
    else:
        if held.generation >= ours.generation:
            admit(held, ours, name)
        of = f"an older history ({described(held)}; ours is {described(ours)})"
    if rule == "refuse":
        raise OtherHistory(
            f'{name} holds rows of {of}, and its setting other_history is "refuse": choose another cursor, '
            'remove what is there, or set other_history = "rewrite"'
        )
    why = f"{name} held rows of {of}: all rows are written again, those of the other history are taken out"
    return Verdict(REWRITING, why, anew=True, begin_epoch=held.epoch == ours.epoch)


def _of_our_history(held: History, kept: History | None, log: HistoryLog, name: str) -> Verdict:
    """Return what to do where the sink holds rows of our history: go on, if we know from where."""
    if kept is None or (held != kept and not log.confirms(kept)):
        return Verdict(SAME, anew=True)
    if held.sequence < kept.sequence:
        why = (
            f"{name} holds rows up to sequence {held.sequence}, and sequence {kept.sequence} was written: it "
            "lost some, or was restored from a copy; all rows are written again"
        )
        return Verdict(REWRITING, why, anew=True)
    return Verdict(SAME)
