"""Shards on Ray: it places, names and restarts their processes, and carries none of their messages."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import uuid
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from typing import Any

from threadpoolctl import threadpool_limits

from dygcn._extras import extra
from dygcn.cluster.certificates import Certificates
from dygcn.cluster.logged_entries import LoggedEntries
from dygcn.cluster.messages import ShardSnapshot
from dygcn.cluster.process_front import ProcessFront
from dygcn.cluster.shard_process import ShardProcess
from dygcn.cluster.store import SnapshotFolder, fetch_folder, has_folder, leave_folder, read_note
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation.spreading import set_threads
from dygcn.errors import ClusterError, OptionError
from dygcn.live.files import load_state, take_snapshot

# Before Ray is imported: it listens on all interfaces otherwise, and reports its use to its makers.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
with extra("ray"):
    import ray
    from ray.util import (
        get_node_ip_address,
        get_placement_group,
        list_named_actors,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


_LOG = logging.getLogger("dygcn.cluster")
_MODEL = "model"  # its folder in the store
_BEAT = 0.5
_SILENCE = 3.0  # seconds without a beat, after which a process is called
_PROBE = 2.0  # seconds that it has to respond


def own_address() -> str:
    """Return the address of this machine in a Ray cluster."""
    untyped: Any = get_node_ip_address
    return str(untyped())


class ShardActor:
    """The actor that Ray starts: one shard's process, made from strings and numbers. It has no methods."""

    def __init__(self, number: int, store: str, certificates: Certificates, host: str, every: int) -> None:
        set_threads(1)
        threadpool_limits(1)
        with tempfile.TemporaryDirectory() as folder:
            fetch_folder(store, _MODEL, folder)
            model = load_state(folder)[0].model
        find_front, snapshots = partial(read_note, store), SnapshotFolder(store, number)
        about = certificates.read(), find_front, host or own_address(), every
        self._process = ShardProcess(number, model, snapshots, *about)


class RayShards(ProcessFront):
    """The processes of shards, as actors of a Ray cluster; this process is their front (see there).

    The actors outlive this process: another such object, with the same folder and store, finds them by their
    names, which begin with `name`. `address` is that of the Ray cluster; None: that of ``RAY_ADDRESS``, or a
    new one that ends with this process. An empty `host` is the address of each machine. Ray reserves `cpus`
    for each shard. Raises `OptionError` if there are several machines and no certificates: a key does not
    travel.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: str,
        model: Model,
        log: LoggedEntries,
        shards: Iterable[int] = (),
        *,
        name: str = "dygcn",
        address: str | None = None,
        host: str = "127.0.0.1",
        cpus: float = 1.0,
        every: int = 1_000,
        certificates: Certificates | None = None,
    ) -> None:
        self._store, self._host = store, host
        of_store = blake2b(store.encode(), digest_size=4).hexdigest()  # of one store, one cluster
        self._name = f"{name}-{of_store}"
        self._cpus, self._every = cpus, every
        self._joined = not ray.is_initialized()
        self._ours = _join_ray(address, self._name)
        if certificates is None:
            _check_one_machine()
        _leave_model(store, model)
        numbers = sorted(shards)
        super().__init__(folder, store, log, numbers, host or own_address(), certificates)
        self._end_others(numbers)
        self._start(numbers)
        self._watching = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._watching.start()

    # ---- processes -------------------------------------------------------------------------------------

    def add(self, number: int, snapshot: ShardSnapshot) -> None:
        """Begin a shard with a snapshot, and start a process for it."""
        SnapshotFolder(self._store, number).begin(snapshot)
        self.registry.want(number)
        self._start([number])

    def _start(self, numbers: list[int]) -> None:
        missing = [number for number in numbers if self._actor(number) is None]
        if not missing:
            return
        # Without a group, actors that are started again would not be spread over the machines any more.
        room = max(self._cpus, 0.001) if not self._ours else 0.001
        group = placement_group(
            [{"CPU": room}] * len(missing),
            strategy="SPREAD",
            name=f"{self._name}-{uuid.uuid4().hex}",
            lifetime="detached",
        )
        for index, number in enumerate(missing):
            ray.remote(ShardActor).options(
                name=self._name_of(number),
                namespace=self._name,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=index
                ),
            ).remote(number, self._store, self.certificates, self._host, self._every)

    def _end_others(self, numbers: list[int]) -> None:
        """Kill actors that an earlier front left half added: Ray would restart them forever."""
        wanted = {self._name_of(number) for number in numbers}
        for one in list_named_actors(all_namespaces=True):
            if one["namespace"] == self._name and one["name"] not in wanted:
                ray.kill(ray.get_actor(one["name"], namespace=self._name))

    def _name_of(self, number: int) -> str:
        return f"{self._name}-shard-{number}"

    def _actor(self, number: int) -> Any:
        try:
            return ray.get_actor(self._name_of(number), namespace=self._name)
        except ValueError:
            return None

    def _watch(self) -> None:
        """Kill processes that run but do not reply, so that Ray starts new ones."""
        while not self._ending.wait(_BEAT):
            for number in self.registry.silent(_SILENCE):
                location = self.registry.location(number)
                if location is None or not self.post.hangs(location, _PROBE):
                    continue  # it starts, or is dead, and Ray knows
                actor = self._actor(number)
                if actor is not None:
                    _LOG.warning("shard %d is silent, and is started again", number)
                    ray.kill(actor, no_restart=False)

    def retire(self, number: int) -> None:
        """End the process of a shard that owns nothing any more."""
        self.registry.forget(number)
        actor = self._actor(number)
        if actor is not None:
            ray.kill(actor)

    def leave(self) -> None:
        """End the front, and leave the shards to the next one."""
        self._ending.set()
        self._watching.join()
        super().leave()
        if self._joined:
            ray.shutdown()

    def close(self) -> None:
        """End all processes."""
        self._ending.set()
        self._watching.join()
        for number in sorted(self.registry.wanted):
            self.retire(number)
        for about in placement_group_table().values():
            if about["name"].startswith(f"{self._name}-") and about["state"] != "REMOVED":
                remove_placement_group(get_placement_group(about["name"]))
        self.leave()


def _leave_model(store: str, model: Model) -> None:
    if has_folder(store, _MODEL):
        return
    with tempfile.TemporaryDirectory() as folder:
        take_snapshot(State(model), 0).write(f"{folder}/{_MODEL}")
        leave_folder(store, _MODEL, f"{folder}/{_MODEL}")


def _check_one_machine() -> None:
    untyped: Any = ray
    addresses = {str(node["NodeManagerAddress"]) for node in untyped.nodes() if node["Alive"]}
    others = sorted(one for one in addresses - {own_address()} if not one.startswith("127."))
    if others:
        raise OptionError(
            f"the Ray cluster has other machines, too ({others[0]}): give certificate, key and ca, which are "
            "files on every machine, in [shards] or to cluster.launch; docs/scale.md says how they are made"
        )


def _join_ray(address: str | None, name: str) -> bool:
    """Connect to a Ray cluster; return whether it was started by this call."""
    how: dict[str, Any] = {"namespace": name, "log_to_driver": False}
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    if address:  # never one that happens to run here: it may be anyone's
        try:
            ray.init(address=address, **how)
        except ConnectionError:
            raise ClusterError(f"there is no Ray cluster at {address}") from None
        return False
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            num_cpus=1,
            _node_ip_address="127.0.0.1",
            _system_config={"kill_worker_timeout_milliseconds": 500},  # for one that is stopped
            **how,
        )
    except Exception as error:  # Ray has no class of its own for it
        raise ClusterError(
            f"Ray did not start on this machine ({error}); try again when it is less busy"
        ) from error
    return True
