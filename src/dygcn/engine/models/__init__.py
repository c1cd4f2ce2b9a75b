"""What was learned: one matrix for each order, the readout that uses them, and their files."""

from dygcn.engine.models.cosines import cosines, norms, pair_cosines
from dygcn.engine.models.folder import read_folder, write_folder
from dygcn.engine.models.links import KINDS, LinkHead, link_vectors, node_traits, pair_columns, pair_pasts
from dygcn.engine.models.model import Baseline, Model
from dygcn.engine.models.paper import Base, BaseRecipe, Paper, Watch
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.models.readout import drift, read_inputs, read_units, read_vectors
from dygcn.engine.models.state import Outcome, State, StateImage

__all__ = [
    "KINDS",
    "Base",
    "BaseRecipe",
    "Baseline",
    "LinkHead",
    "Model",
    "Outcome",
    "Paper",
    "State",
    "StateImage",
    "Watch",
    "cosines",
    "drift",
    "link_vectors",
    "node_traits",
    "norms",
    "pair_columns",
    "pair_cosines",
    "pair_pasts",
    "read_folder",
    "read_inputs",
    "read_units",
    "read_vectors",
    "to_units",
    "write_folder",
]
