"""Durability: the log of events, and where snapshots lie."""

from dygcn.storage.log import (
    BARRIER,
    EVENTS,
    LONGEST_BODY,
    REFUSAL,
    DeadLetter,
    Entry,
    EventLog,
    NewEntry,
)
from dygcn.storage.packing import pack, unpack
from dygcn.storage.shelf import (
    LOG_FILE,
    FolderLock,
    clear_leftovers,
    drop_old_snapshots,
    keep_place,
    list_snapshots,
    prepare_shelf,
    read_place,
    set_aside,
    snapshot_path,
)

__all__ = [
    "BARRIER",
    "EVENTS",
    "LOG_FILE",
    "LONGEST_BODY",
    "REFUSAL",
    "DeadLetter",
    "Entry",
    "EventLog",
    "FolderLock",
    "NewEntry",
    "clear_leftovers",
    "drop_old_snapshots",
    "keep_place",
    "list_snapshots",
    "pack",
    "prepare_shelf",
    "read_place",
    "set_aside",
    "snapshot_path",
    "unpack",
]
