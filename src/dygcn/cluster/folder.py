"""The folder of a cluster: a durable folder whose graph lies in the snapshots of shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dygcn.cluster.edge_images import part_for
from dygcn.cluster.messages import Resize, ShardSnapshot
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder, is_used
from dygcn.cluster.wire import unpack
from dygcn.engine._disk import replace_own
from dygcn.errors import DamagedFolder, OptionError
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage.entries import SHARDS
from dygcn.live.durable.storage.layout import CLUSTER_FILE

if TYPE_CHECKING:
    from dygcn.cluster.logged_entries import ShardLog
    from dygcn.engine.models import Model

_FORMAT = 1


class ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """How many shards there were after a batch, and where their snapshots lie."""

    shards: int
    batch: int
    snapshots: str  # relative to the folder, or anything that fsspec knows
    format: int = _FORMAT


def read_cluster_file(folder: Path) -> ClusterFile | None:
    """Return what a folder says of its shards, None if it has none."""
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
    """Write it; when it returns, it is on disk."""
    beside = folder / f".{CLUSTER_FILE}.{os.getpid()}"
    replace_own(folder / CLUSTER_FILE, beside, msgspec.json.encode(about))


def snapshots_of(folder: Path, about: ClusterFile) -> str:
    """Return where snapshots lie."""
    return about.snapshots if "://" in about.snapshots else str((folder / about.snapshots).resolve())


def divide_folder(folder: Path, shards: int, snapshots: str | None) -> ClusterFile:
    """Make a folder of one process one of shards: from then on, only a cluster opens it.

    Raises
    ------
    FeatureError
        If shards do not take its model.
    OptionError
        If there are snapshots of other shards already, or the folder has a tolerance.
    """
    slots = SlotMap.even(shards)
    about = ClusterFile(shards, 0, "shards" if snapshots is None else snapshots)
    if snapshots is not None and is_used(snapshots_of(folder, about)):
        raise OptionError(
            f"{snapshots} holds snapshots of shards already, of another cluster or of a start that was "
            "interrupted; name another place, or remove them"
        )
    with open_folder(folder) as live:
        check_model(live.model)
        if live._tolerance > 0:
            raise OptionError(
                "this folder has a tolerance, and shards publish everything that moved; set it to 0 first"
            )
        about.batch = live._log.last_batch_id
        image = live._state.image()[0].graph
        for number in range(shards):
            store = SnapshotFolder(snapshots_of(folder, about), number)
            store.begin(ShardSnapshot(about.batch, slots, shards, part_for(image, slots, number)))
        write_cluster_file(folder, about)  # while nobody else can open it
    return about


def check_model(model: Model) -> None:
    """Refuse a model that shards do not take, and say why."""
    Shard(model, 0, SlotMap.even(1), 1)


def shards_needed(about: ClusterFile, log: ShardLog) -> int:
    """Return how many shards may be needed to come to the end of the log.

    That is more than there are at its end, if there should be fewer and not all were told so: those that stay
    wait for what those that go say of it.
    """
    most = about.shards
    for entry in log.behind(0):
        if entry.kind == SHARDS and entry.batch_id > about.batch:
            change = unpack(entry.body)
            most = max(most, change.shards) if isinstance(change, Resize) else most
    return most
