"""What was learned: one matrix for each order, the readout that uses them, and their files."""

from dygcn.models.folder import read_folder, write_folder
from dygcn.models.model import Baseline, Model
from dygcn.models.paper import Base, BaseRecipe, Paper, Watch
from dygcn.models.readout import cosines, drift, norms, read_inputs, read_vectors
from dygcn.models.state import Outcome, State, StateImage

__all__ = [
    "Base",
    "BaseRecipe",
    "Baseline",
    "Model",
    "Outcome",
    "Paper",
    "State",
    "StateImage",
    "Watch",
    "cosines",
    "drift",
    "norms",
    "read_folder",
    "read_inputs",
    "read_vectors",
    "write_folder",
]
