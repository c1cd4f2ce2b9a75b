"""Learning the score of what comes next: a conditional logit over lists of the last training events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.history.columns import NAMES
from dygcn.engine.models.next_head import NextHead, next_columns
from dygcn.engine.training.logits import list_loss, softmax

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64
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
    if products is None or held is None or not _asked_for(lists, products, held):
        rows, columns = np.arange(len(lists.event)), next_columns(lists.raw)
    else:
        rows = np.flatnonzero(held)
        columns = next_columns(lists.raw[rows], products[rows])
    log_weight = lists.log_weight[rows]
    weights, low, high = _fitted(columns, log_weight)
    # As somebody would list them: no others but former partners and whoever was drawn, all alike.
    brought = np.where(lists.brought[rows[::_ONE_OF]], 0.0, -np.inf)
    seen = columns.clip(low, high)
    listed = softmax(np.concatenate((seen, seen[::_ONE_OF])), np.concatenate((log_weight, brought)))
    size = len(NAMES)
    alone = softmax(seen[..., :size], log_weight) if columns.shape[-1] > size else np.empty(0)
    return NextHead(span, *(tuple(row.tolist()) for row in (weights, listed, low, high, alone)))


def _asked_for(lists: NextLists, products: Float64, held: Bool) -> bool:
    """Say whether the last third of the lists with products is likelier with these."""
    places = np.flatnonzero(held)
    if len(places) < FEWEST:
        return False
    cut = int(places[2 * len(places) // 3])
    losses = []
    for columns, first in ((next_columns(lists.raw), 0), (next_columns(lists.raw, products), places[0])):
        weights, low, high = _fitted(columns[first:cut], lists.log_weight[first:cut])
        losses.append(list_loss(columns[cut:].clip(low, high), lists.log_weight[cut:], weights))
    return losses[1] < losses[0] - _GAIN


def _fitted(columns: Float64, log_weight: Float64) -> tuple[Float64, Float64, Float64]:
    """Return weights, and the bounds of the columns."""
    low, high = _bounds(columns, log_weight)
    return softmax(columns.clip(low, high), log_weight), low, high


def _bounds(columns: Float64, log_weight: Float64) -> tuple[Float64, Float64]:
    """Return the least and the greatest value of each column that counts."""
    seen = columns[np.isfinite(log_weight)]
    centre, spread = seen.mean(axis=0), seen.std(axis=0)
    return centre - _WIDE * spread, centre + _WIDE * spread
