"""What Ray starts: a process of one shard, from strings and numbers."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from dygcn._extras import extra
from dygcn._late import late
from dygcn.cluster.shard_process import ShardProcess
from dygcn.cluster.store import SnapshotFolder, fetch_folder, read_note
from dygcn.engine.propagation.threads import set_threads
from dygcn.live.files import load_state

if TYPE_CHECKING:
    from dygcn.cluster.certificates import Certificates
    from dygcn.engine.models import Model

MODEL = "model"  # its folder in the store


def own_address() -> str:
    """Return the address of this machine in a Ray cluster."""
    with extra("ray"):
        return str(late("ray.util").get_node_ip_address())


def _model_in(store: str) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        fetch_folder(store, MODEL, folder)
        return load_state(folder)[0].model


class ShardActor:
    """A shard, and nothing that is called while it works.

    Parameters
    ----------
    number, every
        As in `Worker`.
    store
        Where snapshots are kept, the model, and where it is written who is the front.
    certificates
        Names of files on the machine where this runs.
    host
        The address to listen at; empty: that of the machine.
    """

    def __init__(self, number: int, store: str, certificates: Certificates, host: str, every: int) -> None:
        set_threads(1)
        threadpool_limits(1)
        self._process = ShardProcess(
            number,
            _model_in(store),
            SnapshotFolder(store, number),
            certificates.read(),
            partial(read_note, store),
            host or own_address(),
            every,
        )

    def pid(self) -> int:
        """Return the process."""
        return os.getpid()
