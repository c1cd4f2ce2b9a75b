"""What was learned: one matrix for each order, the readout that uses them, and their files."""

from dygcn.engine.models.choices import find_fitting
from dygcn.engine.models.contracts import (
    Outcome,
    Reading,
    StateImage,
    StateReader,
    StateWriter,
    drifting_spec,
)
from dygcn.engine.models.explaining import Movement, Shares, explain, explain_change
from dygcn.engine.models.folder import read_folder, write_folder
from dygcn.engine.models.links import (
    KINDS,
    LinkHead,
    NextHead,
    cosines,
    link_vectors,
    node_traits,
    norms,
    pair_columns,
    pair_cosines,
    pair_pasts,
    pair_products,
)
from dygcn.engine.models.model import (
    RULES,
    Baseline,
    ExactSpec,
    Model,
    RuleSpec,
    find_spec,
    register,
    rule_names,
)
from dygcn.engine.models.projection import Projection, feature_rows, principal_directions
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.models.readout import drift, read_inputs, read_units, read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.models.surprise import Surprises
from dygcn.engine.models.trial import RemovalTrial, Trial

__all__ = [
    "KINDS",
    "RULES",
    "Baseline",
    "ExactSpec",
    "LinkHead",
    "Model",
    "Movement",
    "NextHead",
    "Outcome",
    "Projection",
    "Reading",
    "RemovalTrial",
    "RuleSpec",
    "Shares",
    "State",
    "StateImage",
    "StateReader",
    "StateWriter",
    "Surprises",
    "Trial",
    "cosines",
    "drift",
    "drifting_spec",
    "explain",
    "explain_change",
    "feature_rows",
    "find_fitting",
    "find_spec",
    "link_vectors",
    "node_traits",
    "norms",
    "pair_columns",
    "pair_cosines",
    "pair_pasts",
    "pair_products",
    "principal_directions",
    "read_folder",
    "read_inputs",
    "read_units",
    "read_vectors",
    "register",
    "rule_names",
    "to_units",
    "write_folder",
]
