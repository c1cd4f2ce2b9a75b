"""The folder of a cluster: a durable folder whose graph lies in the snapshots of shards."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dygcn.cluster.edge_images import part_for
from dygcn.cluster.logged_entries import ShardLog
from dygcn.cluster.messages import Resize, ShardSnapshot
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder, is_used
from dygcn.cluster.wire import unpack
from dygcn.engine._disk import replace_own
from dygcn.errors import DamagedFolder, OptionError
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.storage.layout import CLUSTER_FILE

_FORMAT = 2


class ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """How many shards there were after a batch, and the folder of their snapshots."""

    shards: int
    batch: int
    snapshots: str  # relative to the folder, or anything that fsspec knows
    format: int = _FORMAT


def read_cluster_file(folder: Path) -> ClusterFile | None:
    """Return the cluster file of a folder, None if it has no shards."""
    file = folder / CLUSTER_FILE
    try:
        found = msgspec.json.decode(file.read_bytes(), type=ClusterFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise DamagedFolder(f"{file} cannot be read: {error}; restore a copy") from None
    if found.format != _FORMAT:
        raise DamagedFolder(f"{file} has format {found.format}; this version reads {_FORMAT}")
    return found


def write_cluster_file(folder: Path, about: ClusterFile) -> None:
    """Write the file; when this returns, it is on disk."""
    beside = folder / f".{CLUSTER_FILE}.{os.getpid()}"
    replace_own(folder / CLUSTER_FILE, beside, msgspec.json.encode(about))


def snapshots_of(folder: Path, about: ClusterFile) -> str:
    """Return the folder or address of snapshots."""
    return about.snapshots if "://" in about.snapshots else str((folder / about.snapshots).resolve())


def divide_folder(folder: Path, shards: int, snapshots: str | None) -> ClusterFile:
    """Divide the graph of a folder among shards; from then on, only a cluster can open it."""
    slots = SlotMap.even(shards)
    about = ClusterFile(shards, 0, "shards" if snapshots is None else snapshots)
    if snapshots is not None and is_used(snapshots_of(folder, about)):
        raise OptionError(
            f"{snapshots} holds snapshots of shards already, of another cluster or of a start that was "
            "interrupted; name another place, or remove them"
        )
    with open_folder(folder) as live:
        Shard(live.model, 0, SlotMap.even(1), 1)  # which refuses a model that shards do not take
        if live._tolerance > 0:
            raise OptionError(
                "this folder has a tolerance, and shards publish everything that moved; set it to 0 first"
            )
        about.batch = live._log.last_batch_id
        image = live._state.image()[0].graph
        for number in range(shards):
            store = SnapshotFolder(snapshots_of(folder, about), number)
            store.begin(ShardSnapshot(about.batch, slots, shards, part_for(image, slots, number)))
        write_cluster_file(folder, about)  # while no other process can open it
    return about


def shards_needed(about: ClusterFile, log: ShardLog) -> int:
    """Return the number of shards that reading the log to its end may need.

    That is more than there are at its end if not all shards applied the entry with fewer: those that stay
    wait for updates of those that go.
    """
    most = about.shards
    for entry in log.behind(0):
        if entry.kind == Kind.SHARDS and entry.batch_id > about.batch:
            change = unpack(entry.body)
            most = max(most, change.shards) if isinstance(change, Resize) else most
    return most
