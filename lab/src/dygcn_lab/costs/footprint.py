"""What a graph and its state need of memory: bytes by part from degrees alone, and what the process has."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any

import numpy as np

from dygcn.engine.graph.constants import FEW, SMALLEST_BLOCK
from dygcn.engine.models.model import Model
from dygcn.engine.propagation.sums import Sums
from dygcn.engine.records import Int64

ARC = 4 + 8  # other end, weight
CONTACT = 8 + 4  # last contact and count, of a node or beside an arc, in a model that looks at times
HUB_ARC = 8 + 4  # key, slot
NODE = {
    "ids": 8 + 8 + 8 + 4 + 1,  # the id, its key, its hash, free places, a mark; beside the table
    "adjacency": 8 + 4 + 4 + 1 + 4,  # where, how many, room, a mark, room for counting
    "marks": 8 + 8 + 3 + 4 + 1,  # strength, its change, three marks; place and mark of an update
}
SUM = 8 + 4  # degree and slot, for each order


def predict(degrees: Int64, model: Model) -> dict[str, int]:
    """Return the bytes that a graph with int64 ids and unit weights needs, by part.

    Examples
    --------
    >>> import dygcn
    >>> model = dygcn.fit([(1, 2), (2, 3)], dim=8, width=64, features="hashed").model
    >>> predict(np.full(1000, 6), model)
    {'ids': 37192, 'adjacency': 21000, 'arcs': 96000, 'hubs': 192, 'marks': 24000, 'sums': 344000}
    """
    nodes = len(degrees)
    blocks = np.maximum(2 ** np.ceil(np.log2(np.maximum(degrees, 1))), SMALLEST_BLOCK)
    hubs = int(degrees[degrees > FEW].sum())
    contact = 0 if model.unit is None else CONTACT
    return {
        "ids": NODE["ids"] * nodes + 4 * _table(2 * nodes),
        "adjacency": NODE["adjacency"] * nodes,
        "arcs": (ARC + contact) * int(blocks[degrees > 0].sum()),
        "hubs": HUB_ARC * _table(3 * hubs // 2),
        "marks": (NODE["marks"] + contact) * nodes,
        "sums": _sums(degrees, model),
    }


def _table(need: int) -> int:
    """Return how long an open-addressing table is that was grown to this."""
    return max(16, 1 << max(need, 1).bit_length())


def _sums(degrees: Int64, model: Model) -> int:
    features, total = model.new_features(), 0
    one = max(round(1.0 / model.grid), 1)
    shift = one.bit_length() - 1
    for order in range(model.orders):
        bits = features.message_bits, features.message_shift if order == 0 else 0
        sums = Sums(model.width, *bits)
        sums.layout(shift, one)
        wide = int((degrees * one >= sums.limit).sum())
        narrow = model.width * sums.narrow.dtype.itemsize if sums.limit else 0
        total += len(degrees) * (narrow + SUM) + wide * (8 * model.width + 4)
    return total


def resident_bytes() -> int:
    """Return the memory that the process has now; 0 where the system does not tell (other than Linux).

    Examples
    --------
    >>> resident_bytes() >= 0
    True
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # what was freed, and the C library keeps for later, is held by nobody
        trim(0)
    return _status("VmRSS")


def _status(field: str) -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            result: dict[str, Any] = dict(line.split(":", 1) for line in lines)
    except OSError:
        return 0
    return 1024 * int(result[field].split()[0])


def peak_bytes() -> int:
    """Return the most memory that the process ever had, or 0."""
    return _status("VmHWM")


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process that still runs; 0 where the system does not tell.

    Examples
    --------
    >>> processor_seconds(os.getpid()) >= 0
    True
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
