"""Durability: the log of events, and where snapshots lie."""

from dygcn.live.durable.storage.entries import (
    BARRIER,
    EPOCH,
    EVENTS,
    FLUSH,
    FORGET,
    REFUSAL,
    SHARDS,
    TOLERANCE,
    NewEntry,
)
from dygcn.live.durable.storage.epochs import Epoch
from dygcn.live.durable.storage.layout import (
    CURSORS,
    KEPT,
    LOCK_FILE,
    LOG_FILE,
    FolderLock,
    clear_leftovers,
    drop_old_snapshots,
    drop_snapshots,
    keep_cursor,
    list_snapshots,
    own_bytes,
    prepare_layout,
    read_cursor,
    set_aside,
    snapshot_path,
)
from dygcn.live.durable.storage.letters import DeadLetter, events_of
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.storage.packing import pack, pack_tolerance, unpack, unpack_tolerance
from dygcn.live.durable.storage.retention import KEEP_LOG, KeepLog, OldSnapshot
from dygcn.live.durable.storage.tables import Entry

__all__ = [
    "BARRIER",
    "CURSORS",
    "EPOCH",
    "EVENTS",
    "FLUSH",
    "FORGET",
    "KEEP_LOG",
    "KEPT",
    "LOCK_FILE",
    "LOG_FILE",
    "REFUSAL",
    "SHARDS",
    "TOLERANCE",
    "DeadLetter",
    "Entry",
    "Epoch",
    "EventLog",
    "FolderLock",
    "KeepLog",
    "NewEntry",
    "OldSnapshot",
    "clear_leftovers",
    "drop_old_snapshots",
    "drop_snapshots",
    "events_of",
    "keep_cursor",
    "list_snapshots",
    "own_bytes",
    "pack",
    "pack_tolerance",
    "prepare_layout",
    "read_cursor",
    "set_aside",
    "snapshot_path",
    "unpack",
    "unpack_tolerance",
]
