"""The writer's side: rows lie in memory files that other processes map. Linux only.

Each complete change of the state is published, with a list of the arrays.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeGuard

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.engine._native import compiled
from dygcn.engine.features.inputs import Hashed, Walks
from dygcn.engine.graph import ticks
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.ticks import publish
from dygcn.engine.models.contracts import StateReader
from dygcn.engine.models.readout import read_plan
from dygcn.engine.models.state import State
from dygcn.engine.propagation import ExactRule
from dygcn.engine.propagation.pulling import Pulls
from dygcn.engine.records import UInt64


def can_share(state: StateReader) -> TypeGuard[State]:
    """Return whether other processes can read the vectors of a state.

    They can on Linux, with compiled loops (which write in an order that others may rely on), if the rule is
    the exact one and its features are looked up rather than stored.
    """
    rule = getattr(state, "rule", None)  # shards have none
    if not sys.platform.startswith("linux") or not _is_compiled():
        return False
    return isinstance(rule, ExactRule) and read_plan(state.model, rule) is not None


def _is_compiled() -> bool:
    return compiled or not ticks.__file__.endswith(".py")


class SharedRows:
    """Puts the rows of a state into shared memory, and publishes every complete change."""

    def __init__(self, state: State, sequence: Callable[[], int]) -> None:
        self._state, self._sequence = state, sequence
        self._segments = memory = Segments()
        self._now = np.ones(1, np.int64)
        self._words = memory.zeros(WORDS, np.int64)
        self._list = memory.zeros(LIST_ROOM, np.uint8)
        state.share(memory.zeros, self._now)
        self._arrays: tuple[object, ...] = ()
        self._fixed: dict[str, Any] = {}  # the files of these arrays are open while they are here
        self._share_model()
        state.transaction.after = self.publish
        self.publish()

    def handle(self) -> bytes:
        """Return the handle that `RowReader` takes."""
        place = self._segments.place
        return msgspec.json.encode(Handle(os.getpid(), place(self._words), place(self._list)))

    def publish(self) -> None:
        """Publish the current state to readers."""
        graph, rule = self._state.graph, self._state.exact
        if self._state.model is not self._model:
            self._share_hashes()
        pulls = rule.pulls(graph)
        arrays = graph.ids.arrays, graph.node_arrays, pulls, *(sums.arrays for sums in rule.sums)
        if arrays != self._arrays:
            self._list_arrays(graph.ids, pulls)
            self._arrays = arrays
        tick = int(self._now[0])
        self._words[SEQUENCES + tick % KEPT] = self._sequence()
        publish(self._words, TICK, tick)
        self._now[0] = tick + 1

    def close(self) -> None:
        """Stop publishing."""
        self._state.transaction.after = None

    def _share_hashes(self) -> None:
        """Remove forgotten ids from the shared table of rows; none of these ids is in the graph."""
        self._hashes[...] = self._features.unit_table(self._state.graph.ids).arrays[0]
        self._model = self._state.model

    def _share_model(self) -> None:
        """Copy the constant parts of the model, once; only hashes may change, see `_share_hashes`."""
        state, memory = self._state, self._segments
        features, plan = state.exact.features, read_plan(state.model, state.exact)
        assert isinstance(features, Hashed | Walks)
        assert plan is not None
        self._features, self._model = features, state.model
        table = features.unit_table(state.graph.ids)
        units = [memory.copied(array) for array in table.arrays]
        weights = [memory.copied(np.ascontiguousarray(matrix)) for matrix in plan.weights]
        scales, secret = memory.copied(plan.scales), memory.copied(state.graph.ids.secret)
        self._hashes: UInt64 = units[0]
        self._fixed = {
            "kind": state.model.ids,
            "numbers": (plan.seed, plan.floor, plan.dim, plan.mixed, plan.message_shift),
            "weights": weights,
            "scales": scales,
            "secret": secret,
            "hashed": table.hashed,
            "unit_seed": table.seed,
            "units": units,
        }

    def _list_arrays(self, ids: IdMap, pulls: Pulls | None) -> None:
        graph, orders = self._state.graph, []
        for sums in self._state.exact.sums:
            rows = sums.degree, sums.slot, sums.narrow, sums.wide
            orders.append(OrderArrays(*rows, sums.ticks.arrays[0], sums.scale, sums.limit))
        active, node_stamps = graph.shared_arrays
        pulled = None if pulls is None else _pulled_arrays(pulls)
        listed = SharedArrays(
            **self._fixed,
            ids=ids.read_arrays(),
            active=active,
            stamps=node_stamps,
            orders=orders,
            pulled=pulled,
        )
        text = np.frombuffer(msgspec.json.encode(listed, enc_hook=self._segments.place), np.uint8)
        generation = int(self._words[GENERATION])
        publish(self._words, GENERATION, generation + 1)
        self._list[: len(text)] = text
        self._words[LIST_BYTES] = len(text)
        publish(self._words, GENERATION, generation + 2)


def _pulled_arrays(pulls: Pulls) -> PulledArrays:
    arcs, heavy, shift = pulls.arrays
    slot, rows, has, *_, earlier = heavy.arrays
    *before, ticks = earlier.arrays
    return PulledArrays(list(arcs.arrays), slot, rows, has, before, ticks.arrays[0], shift)


_HEAD = 64  # bytes before an array: its serial number, and the rest of a cache line


class Place(msgspec.Struct, frozen=True):
    """Where another process finds an array: a file descriptor, and the serial number in that file."""

    fd: int  # -1: the array is empty
    serial: int
    kind: str
    shape: tuple[int, ...]


class Segments:
    """Allocates arrays, a memory file each. A file is closed when this process drops its array."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, int]] = {}  # address of an array -> its file and serial number

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> NDArray[Any]:
        """Return an array of zeros, in a memory file of its own; replaces `numpy.zeros`."""
        count, kind = int(np.prod(shape)), np.dtype(kind)
        if count == 0:
            return np.zeros(shape, kind)
        fd, serial = os.memfd_create("dygcn"), secrets.randbits(62)
        os.ftruncate(fd, _HEAD + count * kind.itemsize)
        memory = mmap.mmap(fd, 0)
        np.frombuffer(memory, np.int64, 1)[0] = serial
        array = np.frombuffer(memory, kind, count, _HEAD).reshape(shape)
        address = array.ctypes.data
        self._files[address] = fd, serial
        weakref.finalize(memory, _forget, self._files, address)
        return array

    def place(self, array: NDArray[Any]) -> Place:
        """Return the place of an array that this object allocated."""
        fd, serial = self._files[array.ctypes.data] if array.size else (-1, 0)
        return Place(fd, serial, array.dtype.str, array.shape)

    def copied(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array, which other processes can map."""
        fresh = self.zeros(array.shape, array.dtype)
        fresh[...] = array
        return fresh


def _forget(files: dict[int, tuple[int, int]], address: int) -> None:
    fd, _ = files.pop(address)
    os.close(fd)


def attach(process: int, place: Place) -> NDArray[Any]:
    """Map an array of another process.

    What this process writes to it stays invisible to other processes.
    """
    if place.fd < 0:
        return np.zeros(place.shape, place.kind)
    fd = os.open(f"/proc/{process}/fd/{place.fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Private, yet pages that are not written here are those of the file, and show what is written there.
        memory = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
    except ValueError as error:  # another file has the number by now
        raise OSError(str(error)) from None
    finally:
        os.close(fd)
    count, kind = int(np.prod(place.shape)), np.dtype(place.kind)
    if len(memory) != _HEAD + count * kind.itemsize:
        raise OSError("the array was replaced")
    if np.frombuffer(memory, np.int64, 1)[0] != place.serial:
        raise OSError("the array was replaced")
    return np.frombuffer(memory, kind, count, _HEAD).reshape(place.shape)


GENERATION = 0  # of the list of arrays; odd while it is written
TICK = 1  # the last whole change of the state
LIST_BYTES = 2  # of the list of arrays
SEQUENCES = 64  # from here on: the sequence of each of the last ticks, at the tick modulo `KEPT`
KEPT = 1024
WORDS = SEQUENCES + KEPT
LIST_ROOM = 1 << 18  # bytes


class Handle(msgspec.Struct, frozen=True):
    """The facts with which a process finds the rows of another."""

    process: int
    words: Place
    list: Place


class OrderArrays(msgspec.Struct, frozen=True):
    """The arrays with the sums of one order."""

    degree: NDArray[Any]
    slot: NDArray[Any]
    narrow: NDArray[Any]
    wide: NDArray[Any]
    stamps: NDArray[Any]
    scale: float
    limit: int


class PulledArrays(msgspec.Struct, frozen=True):
    """Arrays that readers add to the sums of the last order: arcs, heavy nodes' messages now and before."""

    arcs: list[NDArray[Any]]
    slot: NDArray[Any]
    rows: NDArray[Any]
    has: NDArray[Any]
    earlier: list[NDArray[Any]]
    stamps: NDArray[Any]
    shift: int


class SharedArrays(msgspec.Struct, frozen=True):
    """Every array that vectors are computed from (in JSON, its place), and the numbers of the model."""

    kind: str
    numbers: tuple[int, float, int, bool, int]  # seed, floor, dim, mixed and message_shift of a `ReadPlan`
    weights: list[NDArray[Any]]
    scales: NDArray[Any]
    secret: NDArray[Any]
    hashed: bool
    unit_seed: int
    units: list[NDArray[Any]]  # for looking up features, or for drawing them
    ids: dict[str, NDArray[Any]]
    active: NDArray[Any]
    stamps: NDArray[Any]
    orders: list[OrderArrays]
    pulled: PulledArrays | None
