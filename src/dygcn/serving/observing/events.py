"""Every change of state that a service logs: its name, its level, and what it means."""

from __future__ import annotations

import logging
from dataclasses import dataclass

_LOG = logging.getLogger("dygcn.service")
_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Event:
    """A change of state."""

    level: int
    about: str


EVENTS = {
    "service.starting": Event(_INFO, "the folder is open; what the log held is applied"),
    "service.recovered": Event(
        _WARNING, "the folder was opened without parts that are damaged; `damage` lists them"
    ),
    "service.ready": Event(_INFO, "requests are answered"),
    "service.draining": Event(_INFO, "nothing new is taken, what waits is applied"),
    "service.stopped": Event(_INFO, "everything is on disk, the folder is free"),
    "settings.reloaded": Event(_INFO, "the settings were read again; `changed` lists the keys that differ"),
    "settings.refused": Event(_ERROR, "the settings were read again and cannot be used; the old ones stay"),
    "reader.died": Event(_ERROR, "a reader process ended by itself"),
    "disk.failed": Event(_ERROR, "a write failed; events are refused until the service is started again"),
    "snapshot.written": Event(_INFO, "a snapshot is on disk"),
    "snapshot.failed": Event(_ERROR, "a snapshot could not be written"),
    "index.building": Event(_INFO, "the index of neighbours is being built"),
    "index.ready": Event(_INFO, "the index of neighbours holds every node"),
    "index.failed": Event(_ERROR, "the index of neighbours cannot be kept up"),
    "source.connected": Event(_INFO, "a source is read"),
    "source.lost": Event(_WARNING, "a source cannot be read; it is tried again"),
    "source.still_lost": Event(_WARNING, "the same, a minute later and every minute"),
    "source.recovered": Event(_INFO, "a source is read again"),
    "sink.connected": Event(_INFO, "a sink is written"),
    "sink.lost": Event(_WARNING, "a sink cannot be written; it is tried again"),
    "sink.still_lost": Event(_WARNING, "the same, a minute later and every minute"),
    "sink.recovered": Event(_INFO, "a sink is written again"),
    "sink.history": Event(_INFO, "whose rows a sink holds: same, new, rewriting or rewritten"),
    "sink.refused": Event(_ERROR, "a sink holds rows of another history, and is not written"),
    "overload.began": Event(_WARNING, "the queue is full; requests are refused with 429"),
    "overload.ended": Event(_INFO, "no request was refused for ten seconds"),
    "rejection.began": Event(_ERROR, "too many of the last events became dead letters"),
    "rejection.ended": Event(_INFO, "events are applied again"),
    "request.failed": Event(_ERROR, "an error inside the service; the answer was 500"),
}


def note(event: str, *, exc_info: BaseException | None = None, **fields: object) -> None:
    """Log a change of state.

    Parameters
    ----------
    event
        A name of `EVENTS`.
    fields
        What the line tells beside it. Never a token, and never an id of a node.

    Examples
    --------
    >>> note("snapshot.written", sequence=7, seconds=0.2)
    >>> note("something.else")
    Traceback (most recent call last):
    ...
    KeyError: 'something.else'
    """
    level = EVENTS[event].level
    if _LOG.isEnabledFor(level):
        _LOG.log(level, event, exc_info=exc_info, extra={"fields": fields})


def settings_reloaded(changed: list[str]) -> None:
    """Log that the settings were read again, and which keys differ; never their values."""
    note("settings.reloaded", changed=" ".join(changed) or "nothing")


def settings_refused(error: Exception) -> None:
    """Log that the settings were read again and cannot be used."""
    note("settings.refused", error=str(error))


def reader_died(process: int, code: int | None) -> None:
    """Log that a reader process ended by itself."""
    note("reader.died", process=process, exit_code=code)


def as_table() -> str:
    """Return the events as a table in Markdown, for the page on monitoring."""
    lines = ["| event | level | meaning |", "|---|---|---|"]
    for name, event in EVENTS.items():
        lines.append(f"| `{name}` | {logging.getLevelName(event.level).lower()} | {event.about} |")
    return "\n".join(lines)
