"""Input features x = h_0: made by `fit`, hashed from the id, or given by the user."""

from dygcn.engine.features import hashed as _hashed
from dygcn.engine.features import walks as _walks
from dygcn.engine.features.blocks import Blocks
from dygcn.engine.features.given import Given
from dygcn.engine.features.grid import GRID_BITS, Features, Names, column_scales, to_grid
from dygcn.engine.features.hashed import Hashed
from dygcn.engine.features.tables import Embedding, read_features
from dygcn.engine.features.walks import RowTable, Walks

CANNOT_BE_SET = {"walks": _walks.CANNOT_BE_SET, "hashed": _hashed.CANNOT_BE_SET}

__all__ = [
    "CANNOT_BE_SET",
    "GRID_BITS",
    "Blocks",
    "Embedding",
    "Features",
    "Given",
    "Hashed",
    "Names",
    "RowTable",
    "Walks",
    "column_scales",
    "read_features",
    "to_grid",
]
