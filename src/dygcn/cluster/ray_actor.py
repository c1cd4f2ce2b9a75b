"""What Ray starts: a process of one shard, from strings and numbers."""

from __future__ import annotations

import os
from functools import partial

from threadpoolctl import threadpool_limits

from dygcn._extras import extra
from dygcn._late import late
from dygcn.cluster.shard_process import ShardProcess
from dygcn.cluster.store import SnapshotFolder, read_note
from dygcn.engine.propagation.threads import set_threads
from dygcn.live.files import load_state


def own_address() -> str:
    """Return the address of this machine in a Ray cluster."""
    with extra("ray"):
        return str(late("ray.util").get_node_ip_address())


class ShardActor:
    """A shard, and nothing that is called while it works.

    Parameters
    ----------
    number, every
        As in `Worker`.
    model
        The saved folder of an embedding with that model.
    store
        Where snapshots are kept, and where it is written who is the front.
    secret
        As in `Post`.
    host
        The address to listen at; empty: that of the machine.
    """

    def __init__(self, number: int, model: str, store: str, secret: str, host: str, every: int) -> None:
        set_threads(1)
        threadpool_limits(1)
        self._process = ShardProcess(
            number,
            load_state(model)[0].model,
            SnapshotFolder(store, number),
            secret,
            partial(read_note, store),
            host or own_address(),
            every,
        )

    def pid(self) -> int:
        """Return the process."""
        return os.getpid()
