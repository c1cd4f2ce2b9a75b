"""Learning the score of what comes next: a conditional logit over lists of the last training events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.history.columns import NAMES
from dygcn.engine.models.next_head import NextHead, next_columns
from dygcn.engine.training.logits import list_loss, softmax

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64, Int64
    from dygcn.engine.training.next_lists import NextLists

FEWEST = 64  # lists, below which nothing is learned
_WIDE = 6.0  # standard deviations beyond which a column is cut off
_ONE_OF = 4  # lists is learned a second time, as somebody would list its candidates
_GAIN = 0.005  # of the log-likelihood of a held-out event, above which products of vectors are looked at


def fit_next(
    lists: NextLists, span: float, products: Float64 | None = None, held: Bool | None = None
) -> NextHead | None:
    """Return the score; None: there are too few lists.

    Parameters
    ----------
    products
        (l, e, n) of the vectors of askers and candidates. They become columns if the last lists are likelier
        with them, by weights that the lists before were asked for.
    held
        (l,) the lists that have products, the last ones: vectors had not seen their events.
    """
    if len(lists.event) < FEWEST:
        return None
    columns, rows, near, plain = next_columns(lists.raw), np.arange(len(lists.event)), None, None
    if products is not None and held is not None and held.sum() >= FEWEST:
        plain, near = _asked_for(lists, columns, products, np.flatnonzero(held))
        if near is not plain:
            rows = np.flatnonzero(held)
            columns = next_columns(lists.raw[rows], products[rows])
    log_weight = lists.log_weight[rows]
    weights, low, high = _fitted(columns, log_weight, near)
    # As somebody would list them: no others but former partners and whoever was drawn, all alike.
    brought = np.where(lists.brought[rows[::_ONE_OF]], 0.0, -np.inf)
    seen = columns.clip(low, high)
    both = np.concatenate((seen, seen[::_ONE_OF])), np.concatenate((log_weight, brought))
    listed = softmax(*both, weights)
    size = len(NAMES)
    alone = softmax(seen[..., :size], log_weight, plain) if columns.shape[-1] > size else np.empty(0)
    return NextHead(span, *(tuple(row.tolist()) for row in (weights, listed, low, high, alone)))


def _asked_for(lists: NextLists, plain: Float64, products: Float64, places: Int64) -> tuple[Float64, Float64]:
    """Return what is near without products, and what is near if products help the last third.

    Both are the same array where products do not help.
    """
    first, cut = int(places[0]), int(places[2 * len(places) // 3])
    near, without = _judged(plain, lists.log_weight, cut)
    columns = next_columns(lists.raw[first:], products[first:])
    begin = np.pad(near, (0, columns.shape[-1] - len(near)))
    wide, with_them = _judged(columns, lists.log_weight[first:], cut - first, begin)
    return near, wide if with_them < without - _GAIN else near


def _judged(
    columns: Float64, log_weight: Float64, cut: int, begin: Float64 | None = None
) -> tuple[Float64, float]:
    """Return weights fitted on the lists before one, and how unlikely answers of the others are with them."""
    weights, low, high = _fitted(columns[:cut], log_weight[:cut], begin)
    return weights, list_loss(columns[cut:].clip(low, high), log_weight[cut:], weights)


def _fitted(columns: Float64, log_weight: Float64, begin: Float64 | None) -> tuple[Float64, Float64, Float64]:
    """Return weights, and the bounds of the columns."""
    low, high = _bounds(columns, log_weight)
    return softmax(columns.clip(low, high), log_weight, begin), low, high


def _bounds(columns: Float64, log_weight: Float64) -> tuple[Float64, Float64]:
    """Return the least and the greatest value of each column that counts."""
    seen = columns[np.isfinite(log_weight)]
    centre, spread = seen.mean(axis=0), seen.std(axis=0)
    return centre - _WIDE * spread, centre + _WIDE * spread
