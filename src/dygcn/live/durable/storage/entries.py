"""Entries of the log: their kinds, and the checksum by which each is chained to all before it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dygcn.errors import DamagedLog
from dygcn.live.durable.storage import times
from dygcn.live.durable.storage.redaction import is_redacted
from dygcn.live.durable.storage.tables import RESTORE, Entry

EVENTS, REFUSAL, BARRIER, FORGET = "events", "refusal", "barrier", "forget"
EPOCH, TOLERANCE, FLUSH, SHARDS = "epoch", "tolerance", "flush", "shards"
KINDS = (EVENTS, REFUSAL, BARRIER, FORGET, EPOCH, TOLERANCE, FLUSH, SHARDS)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be appended."""

    kind: str  # of KINDS; REFUSAL: of a batch that cannot be applied, BARRIER: of what is in a snapshot
    stream: str = ""  # where it came from; "" where nobody asked for repeats to be noticed
    position: int = -1  # its place in that stream; -1: none, or only a part of what has that place
    body: bytes = b""


def chained(chain: bytes, seq: int, batch_id: int, entry: NewEntry | Entry) -> bytes:
    """Return the checksum of an entry and of all before it."""
    digest = hashlib.blake2b(chain, digest_size=16)
    head = (
        f"{seq} {batch_id} {entry.kind} {entry.position} {len(entry.stream)} {entry.stream} {len(entry.body)}"
    )
    digest.update(head.encode())
    digest.update(entry.body)
    return digest.digest()


def check_entry(path: Path, entry: Entry, expected: int, chain: bytes) -> bytes:
    """Return the chain value of an entry, which is the next one and what was written."""
    whole = (
        entry.seq == expected
        and isinstance(entry.batch_id, int)
        and 0 <= entry.batch_id < 1 << 62
        and entry.kind in KINDS
        and isinstance(entry.stream, str)
        and isinstance(entry.position, int)
        and entry.position >= -1
        and isinstance(entry.body, bytes)
        and (entry.chain == chained(chain, entry.seq, entry.batch_id, entry) or is_redacted(entry))
        and times.is_time(entry.logged)
        and entry.seal == times.seal(entry.chain, entry.logged)
    )
    if not whole:
        raise DamagedLog(f"{path}: entry {expected} is not what was written, or is missing; {RESTORE}")
    return entry.chain
