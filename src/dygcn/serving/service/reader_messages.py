"""What the writer says to a reader process: one JSON object a line, over the reader's pipe.

A reader answers with lines of `RequestCounts`: what it answered itself since it began. The first one says
that it listens.
"""

from __future__ import annotations

import msgspec

from dygcn.serving.service.settings import Http, Limits, Log

PEER = b"x-dygcn-peer"  # who asked, as a reader saw it; only the writer's own socket may bring it


class Start(msgspec.Struct, tag="start"):
    """The first line: where to listen, where the writer is, and what a reader needs for its answers."""

    listen: list[tuple[int, list[str | int]]]  # family and address
    writer: str  # path of its socket
    kind: str  # of ids
    rows: str  # handle of the shared rows; empty: there are none
    http: Http
    limits: Limits
    log: Log


class Replace(msgspec.Struct, tag="replace"):
    """Tokens, names and limits changed."""

    http: Http
    limits: Limits


class Stop(msgspec.Struct, tag="stop"):
    """Accept no more, finish what was begun within so many seconds, and end."""

    seconds: float


ToReader = Start | Replace | Stop
