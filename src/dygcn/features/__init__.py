"""Input features x = h_0: hashed from the id, or given by the user."""

from dygcn.features.given import Given
from dygcn.features.grid import GRID_BITS, Features, column_scales, to_grid
from dygcn.features.hashed import Hashed
from dygcn.features.tables import Embedding, read_features

__all__ = [
    "GRID_BITS",
    "Embedding",
    "Features",
    "Given",
    "Hashed",
    "column_scales",
    "read_features",
    "to_grid",
]
