"""Input features x = h_0: made by `fit`, hashed from the id, or given by the user."""

from dygcn.engine.features.inputs import (
    CANNOT_BE_SET,
    GRID_BITS,
    ROW_BITS,
    Blocks,
    Features,
    Given,
    Hashed,
    RowTable,
    Walks,
    column_scales,
    rows_on_grid,
    to_grid,
)
from dygcn.engine.features.tables import Embedding, NodeColumns, NodeTable, read_features, read_nodes

__all__ = [
    "CANNOT_BE_SET",
    "GRID_BITS",
    "ROW_BITS",
    "Blocks",
    "Embedding",
    "Features",
    "Given",
    "Hashed",
    "NodeColumns",
    "NodeTable",
    "RowTable",
    "Walks",
    "column_scales",
    "read_features",
    "read_nodes",
    "rows_on_grid",
    "to_grid",
]
