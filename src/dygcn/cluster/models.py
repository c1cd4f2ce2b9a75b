"""Which models shards take, and why not the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.engine.features import Hashed, Walks
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.models import Model


def taken_features(model: Model) -> Hashed | Walks:
    """Return the features of a model, if shards take it.

    Raises
    ------
    FeatureError
        If its vectors, or its features, do not follow from model and graph.
    """
    if model.rule != "exact":
        raise FeatureError(
            f"this model has rule={model.rule!r}, whose vectors do not follow from the graph; shards take "
            "rule='exact': open the folder in one process, or fit with that"
        )
    features = model.new_features()
    if not isinstance(features, Hashed | Walks):
        raise FeatureError(
            f'this model has features="{model.features}"; shards take "hashed" and "walks", whose rows '
            "follow from the model: open the folder in one process, or fit with one of these"
        )
    return features
