"""The past of a durable folder: vectors as of an earlier moment, from a snapshot and the log after it."""

from __future__ import annotations

import math
import re
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import numpy as np

from dygcn import errors
from dygcn.engine.models.state import State
from dygcn.live.durable.recovery import batches, logged_batches, newest_good
from dygcn.live.durable.snapshots import KEEP_LOG, KeepLog
from dygcn.live.durable.storage import times
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.storage.erasures import Erasures
from dygcn.live.durable.storage.layout import LOG_FILE, check_log, list_snapshots
from dygcn.live.durable.storage.sqlite_file import LogReader
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.guard import Guard
from dygcn.live.view import EmbeddingView

# A sequence; seconds since 1970; a datetime with a zone; or either as text, the time in ISO 8601.
AsOf: TypeAlias = int | float | str | datetime
_DATE = "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_ZONE = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
MOMENT_PATTERN = rf"now|[0-9]{{1,18}}(\.[0-9]{{0,9}})?|{_DATE}(T{_TIME})?{_ZONE}"
_ALLOWED = (
    "allowed is a sequence (a whole number, 0 or more), or a time: a datetime with a zone, seconds since "
    "1970 as a float, or text such as '2026-11-10T12:00Z' or 'now'"
)
_TRIES, _BETWEEN = 5, 0.05  # seconds: the writer deletes old snapshots, then log entries before them


class PastEmbedding(EmbeddingView):
    """The embedding of a folder as it was, for reading alone; made by `dygcn.open(folder, as_of=...)`.

    It is in memory: whatever becomes of the folder, it stays as it is. Threads may share it.

    Attributes
    ----------
    sequence
        The last entry of the log that the vectors reflect.
    logged
        When that entry was logged, a datetime in UTC; of sequence 0, when the log was made.
    keep_log
        How much of its past the folder keeps now: a span such as ``"7d"``, or a size such as ``"256MB"``.
    redacted
        Whether ids were forgotten since: they are not in it, and a digest that was noted then is void.
    """

    def __init__(
        self,
        state: State,
        version: int,
        sequence: int,
        logged: datetime,
        keep_log: str,
        redacted: bool = False,
    ) -> None:
        super().__init__(state, Guard(state), version)
        self._guard.waits = True
        self.sequence, self.logged, self.keep_log, self.redacted = sequence, logged, keep_log, redacted

    recompute, refit = LiveEmbedding.recompute, LiveEmbedding.refit


def open_past(folder: Path, as_of: object) -> PastEmbedding:
    """Return the embedding as it was at a sequence, or after the last batch logged by a time.

    Nothing is locked and nothing is written, so another process may write meanwhile. What it drops while it
    is read here is looked for anew.
    """
    moment = read_moment(as_of)
    if not folder.is_dir():
        raise errors.MissingFolder(f"{folder} does not exist; check the name")
    check_log(folder)
    if not (folder / LOG_FILE).exists():
        raise errors.FolderError(
            f"{folder} has no {LOG_FILE}, so it has no past: it was saved once. dygcn.open(folder) makes it "
            "durable from now on"
        )
    for left in reversed(range(_TRIES)):
        before = list_snapshots(folder)
        try:
            with closing(LogReader(folder / LOG_FILE)) as log:
                return _as_of(folder, log, *moment)
        except (errors.DamagedFolder, errors.DamagedLog):
            if not left or (before == list_snapshots(folder) and left < _TRIES - 1):
                raise
            time.sleep(_BETWEEN)
    raise AssertionError("unreachable")


def _as_of(folder: Path, log: LogReader, sequence: int | None, moment: int | None) -> PastEmbedding:
    if moment is not None:
        if moment > max(times.clock(), log.time_at(log.last) or 0):
            raise errors.NoSuchPast(f"{_shown(moment)} is still to come; {_reach(folder, log)}")
        sequence = log.last_before(moment)
        if sequence is None:
            raise _too_far_back(_shown(moment), folder, log)
    sequence = log.last if sequence is None else sequence
    if sequence > log.last:
        raise errors.NoSuchPast(f"sequence {sequence} is still to come; {_reach(folder, log)}")
    upto = _last_whole(log, sequence)
    state, version = _rebuilt(folder, log, upto)
    reflected = min(sequence, upto)
    logged = times.as_datetime(log.time_at(reflected) or 0)
    redacted = Erasures(folder).last_sequence > reflected
    return PastEmbedding(state, version, reflected, logged, _kept(log), redacted)


def _kept(log: LogReader) -> str:
    try:
        return str(KeepLog.read(log.keep_log or KEEP_LOG))
    except errors.OptionError:  # opening the folder reports it; the past can be read all the same
        return str(log.keep_log)


def _shown(moment: int) -> str:
    return times.as_datetime(min(max(moment, 0), times.LATEST)).isoformat()


def _too_far_back(moment: str, folder: Path, log: LogReader) -> errors.NoSuchPast:
    return errors.NoSuchPast(
        f"{moment} is further back than is kept: {_reach(folder, log)}; to keep more from now on, open it "
        "with keep_log='30d', say, or keep_log='2GB'"
    )


def _reach(folder: Path, log: LogReader) -> str:
    """Return a text with the range of sequences and times that the folder can show."""
    snapshots = [sequence for sequence, _ in list_snapshots(folder)]
    begun = [0] if log.first <= 1 else []
    kept = min(
        [sequence for sequence in snapshots if log.first <= sequence <= log.last] + begun, default=None
    )
    if kept is None:
        return "nothing of its past is kept"
    ends = [f"{at} ({_shown(log.time_at(at) or 0)})" for at in (kept, log.last)]
    return f"{folder} holds its past from sequence {ends[0]} to {ends[1]}"


def _last_whole(log: LogReader, sequence: int) -> int:
    """Return the end of the last batch complete at a sequence, or its refusal if it has one."""
    here, following = log.entry(sequence), log.entry(sequence + 1)
    if here is None or following is None:
        return sequence
    if following.kind == Kind.REFUSAL and following.body == str(here.batch_id).encode():
        return sequence + 1
    while here is not None and here.batch_id == following.batch_id:  # never served: in the middle of a batch
        sequence -= 1
        here = log.entry(sequence)
    return sequence


def _rebuilt(folder: Path, log: LogReader, sequence: int) -> tuple[State, int]:
    """Load the newest good snapshot up to a sequence, and replay the log from there.

    Where all follows from the graph, the batches are applied to the graph alone.
    """
    places = [
        (at, path)
        for at, path in [*list_snapshots(folder), (0, folder)]
        if at <= sequence and log.chain_at(at) is not None and (at or log.first <= 1)
    ]
    if not places:
        raise _too_far_back(f"sequence {sequence}", folder, log)
    begin = newest_good(folder, log, places=places)
    state, version, from_graph = begin.state, begin.version, begin.state.model.spec.from_graph
    live = LiveEmbedding(state, version)
    live._on_change = lambda _: version
    entries = log.entries(begin.position.sequence, bytes.fromhex(begin.position.chain), sequence)
    for one in batches(logged_batches(entries), lambda: from_graph):
        last = one.logged_batches[-1][-1]
        if last.kind == Kind.BARRIER:
            raise errors.NoSuchPast(
                f"the change of sequence {last.seq} was not over yet: whoever has the folder open is making "
                "it, or died over it; ask again later, or for an earlier sequence"
            )
        if last.kind == Kind.FORGET:
            continue
        before, version = version, last.batch_id
        try:
            (state.apply_to_graph if from_graph else live._apply)(one.batch, one.now)
        except errors.EventError:
            if one.certain:
                raise
            version = before  # it is refused, and the refusal is not in the log yet
        except Warning:  # it was shown when it happened, and what it is about is done
            pass
    if from_graph:
        state.rebuild()
    return state, version


def read_moment(as_of: object) -> tuple[int | None, int | None]:
    """Return a sequence or a time in microseconds; the other one is None, and both for now.

    Now is whatever the log holds, also where the machine's clock was set back since.
    """
    if isinstance(as_of, str):
        if as_of.strip() == "now":
            return None, None
        as_of = _from_text(as_of.strip())
    if isinstance(as_of, int | np.integer) and not isinstance(as_of, bool) and 0 <= as_of < 1 << 62:
        return int(as_of), None
    if isinstance(as_of, float | np.floating) and math.isfinite(as_of):
        return None, math.floor(float(as_of) * 1e6)
    if isinstance(as_of, datetime):
        if as_of.utcoffset() is None:
            text = as_of.isoformat()
            raise errors.OptionError(f"as_of is {text}, which names no time zone; {_zoned(as_of)}")
        return None, times.from_datetime(as_of)
    raise errors.OptionError(f"as_of is {as_of!r}; {_ALLOWED}")


def _zoned(moment: datetime) -> str:
    """Return the text of the same moment with a time zone."""
    text, here = moment.isoformat(), moment.astimezone().strftime("%z")
    return f"say which: '{text}Z' for UTC, or '{text}{here[:3]}:{here[3:5]}' for the zone of this machine"


def _from_text(text: str) -> int | float | datetime:
    if re.fullmatch(f"{_DATE}{_ZONE}", text):
        text = f"{text[:10]}T00:00{text[10:]}"
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    try:
        return float(text) if re.fullmatch(r"[0-9]{1,18}\.[0-9]{0,9}", text) else datetime.fromisoformat(text)
    except ValueError:
        raise errors.OptionError(f"as_of is {text[:100]!r}; {_ALLOWED}") from None
