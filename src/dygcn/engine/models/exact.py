"""The exact rule by name: its state follows from the model and the graph, so little is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features import Given
from dygcn.engine.models.folder import take_tensor
from dygcn.engine.models.readout import Readout
from dygcn.engine.models.specs import RuleSpec, register
from dygcn.engine.propagation import ExactRule

if TYPE_CHECKING:
    from dygcn.engine.graph import Graph
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.models.model import Model
    from dygcn.engine.propagation import Rule


@register
@dataclass(frozen=True)
class ExactSpec(RuleSpec):
    """Has no settings of its own."""

    name = "exact"
    fitting = "dygcn.engine.training.fitting"
    from_graph = True
    nodes_stay = False
    features = ("walks", "walks+given", "given", "hashed", "embedding")

    def new_rule(self, model: Model) -> ExactRule:
        """Return sums of an empty graph."""
        return ExactRule(model.new_features(), model.orders)

    def reading(self, model: Model, rule: Rule, graph: Graph) -> Readout:
        """Return what reads vectors out of messages."""
        assert isinstance(rule, ExactRule)
        return Readout(model, rule, graph)

    def read_state(self, model: Model, tensors: Tensors, nodes: int, owners: int) -> Tensors:
        """Take the features of those who own some."""
        block = model.projection
        features = take_tensor(tensors, "features", np.int32 if block is None else np.int8, 2)
        if features.shape != (owners, model.width if block is None else block.matrix.shape[1]):
            raise ValueError("features that do not fit the nodes that own them")
        if block is not None and features.min(initial=0) < -127:
            raise ValueError("features beyond what the grid can carry")
        if len(features) and (
            model.features in ("walks", "hashed") or np.abs(features).max() > 1 << Given.message_bits
        ):
            raise ValueError("features beyond what the grid can carry")
        return {"features": features}
