"""A history, and the score that looks at it, in the files of a folder."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.history import HistoryImage
from dygcn.engine.history.columns import NAMES
from dygcn.engine.models.folder import take_tensor
from dygcn.engine.models.links import count_products
from dygcn.live.id_tensors import id_tensors, take_ids

if TYPE_CHECKING:
    from dygcn.engine.models import NextHead
    from dygcn.engine.models.folder import Tensors

_HISTORY: dict[str, tuple[Any, int]] = {
    "times": (np.float64, 2),
    "marks": (np.float32, 2),
    "counts": (np.int64, 2),
    "answers": (np.int32, 2),
    "partners": (np.int32, 2),
    "pair_src": (np.int32, 1),
    "pair_dst": (np.int32, 1),
    "pair_t": (np.float64, 1),
    "pair_gone": (np.float64, 1),
    "pair_fast": (np.float32, 1),
    "pair_n": (np.int32, 1),
}
_SPANS = 1e-200, 1e200  # times in any unit; no part of a span is zero, no multiple infinite


def clock_of(history: HistoryImage) -> float | None:
    """Return the clock of a history, None before its first event: JSON has no infinity."""
    return history.clock if math.isfinite(history.clock) else None


def history_tensors(history: HistoryImage | None) -> Tensors:
    """Return the tensors of a history."""
    if history is None:
        return {}
    arrays = {f"history_{name}": getattr(history, name) for name in _HISTORY}
    return {**id_tensors("history_ids", history.ids), **arrays}


def read_history(ids: str, clock: float | None, tensors: Tensors) -> HistoryImage:
    """Take a history out of the tensors of a file."""
    names = take_ids(tensors, "history_ids", ids)
    arrays: list[Any] = [take_tensor(tensors, f"history_{name}", *how) for name, how in _HISTORY.items()]
    arrays.append(-math.inf if clock is None else clock)
    return HistoryImage(names, *arrays)


def checked_next(head: NextHead, orders: int) -> NextHead:
    """Return the score of what comes next; a ValueError if no model has it."""
    rows = head.weights, head.listed, head.low, head.high
    sizes = set(map(len, rows))
    allowed = len(NAMES), len(NAMES) + 2 * count_products(orders)
    numbers = [number for row in (*rows, head.alone) for number in row]
    tame = all(abs(number) < 1e18 for number in numbers) and _SPANS[0] < head.span < _SPANS[1]
    alone = len(head.alone) == (len(NAMES) if head.products else 0)
    if (
        not alone
        or len(sizes) > 1
        or not sizes <= set(allowed)
        or not tame
        or any(map(operator.gt, head.low, head.high))
    ):
        raise ValueError("a score of what comes next that does not fit")
    return head
