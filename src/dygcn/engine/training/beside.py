"""Features that stand beside walk rows: read, projected, and weighed by what held-out links say of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events.kinds import stored_type
from dygcn.engine.features import read_features
from dygcn.engine.features.nodes import NodeColumns, NodeTable
from dygcn.engine.models import Model, Projection, principal_directions
from dygcn.engine.training.link_head import cosine_auc
from dygcn.errors import FeatureError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import Float32, IdColumn
    from dygcn.engine.training.link_samples import LinkSample

SHARES = (0.1, 0.3, 0.5, 0.7)
"""Of a vector's squared length that the features may have."""
ENOUGH = 0.002
"""The smallest share is taken whose AUC is at most so far below the best."""


@dataclass(frozen=True, eq=False)
class Beside:
    """Given features, and how they become a block."""

    ids: IdColumn
    values: Float32  # (n, columns of x)
    projection: Projection


def read_beside(features: list[object], ids: str, dim: int, seed: int) -> Beside | None:
    """Read ``["walks", x]``; None: there are walks alone.

    Parameters
    ----------
    ids
        Type of the ids of the events.
    dim
        Columns of a vector: at most half of them are for the features, and as many as x has directions.
    """
    others = [one for one in features if not (isinstance(one, str) and one == "walks")]
    if len(others) == len(features) or len(others) > 1:
        raise FeatureError(
            f'a list of features is ["walks", x], one table x beside the rows of walks; this one has '
            f"{len(features) - len(others)} times walks and {len(others)} others: join tables into one"
        )
    if not others:
        return None
    columns, (column, values) = None, (None, None)
    if isinstance(others[0], NodeTable):
        columns = NodeColumns.of(others[0])
        column, values = others[0].ids, columns.encode(others[0])
    else:
        column, values = read_features(others[0], ids)
    if len(column) and column.kind != stored_type(ids):
        raise FeatureError(f"features have {column.kind} ids, the events {ids} ones; one type a graph")
    if dim < 2:
        raise OptionError(f"dim is {dim}; with features beside walks it is 2 or more: each needs a column")
    found = principal_directions(values, dim // 2, seed)
    return Beside(column, values, dataclasses.replace(found, columns=columns))


def choose_share(model: Model, samples: Sequence[LinkSample]) -> tuple[Model, Sequence[LinkSample]]:
    """Return the model with the share of features that predicts held-out links best, and samples to match.

    The share stays as it is where there are too few held-out links.
    """
    tried = {}
    for share in SHARES:
        other = _with_share(model, share)
        weighed = [_weighed(sample, model, other) for sample in samples]
        tried[share] = cosine_auc(weighed, None), other, weighed
    best = max(auc for auc, *_ in tried.values())
    if np.isnan(best):
        return model, samples
    _, chosen, weighed = next(one for one in tried.values() if one[0] >= best - ENOUGH)
    return chosen, weighed


def _with_share(model: Model, share: float) -> Model:
    assert model.projection is not None
    return dataclasses.replace(model, projection=dataclasses.replace(model.projection, share=share))


def _weighed(sample: LinkSample, old: Model, new: Model) -> LinkSample:
    """Return a sample as the new model would have read it: each block has another length."""
    factors = np.ones(old.width, np.float32)
    for (columns, before), (_, after) in zip(old.blocks, new.blocks, strict=True):
        factors[columns] = after / before
    assert sample.vectors is not None
    return dataclasses.replace(sample, vectors=sample.vectors * factors, units=sample.units * factors)
