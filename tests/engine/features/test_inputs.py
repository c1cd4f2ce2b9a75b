"""Features on the grid, and tables of nodes: what is saved does not change."""

import numpy as np
import pytest

from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import Given, Hashed, RowTable, Walks, to_grid
from dygcn.engine.features.tables import NodeColumns, place_of, read_nodes
from dygcn.engine.graph.ids import IdMap
from dygcn.errors import FeatureError


def test_places_of_values_are_a_part_of_the_saved_format():
    assert (place_of("town", "Rome"), place_of("town", "Oslo")) == ((28, 1), (150, -1))


def test_columns_of_nodes_become_features():
    table = read_nodes({"id": ["ann", "bob"], "age": [30, 50], "town": ["Rome", None]})
    found = NodeColumns.of(table)
    assert (found.forms, found.means, found.scales) == (("number", "value"), (40.0, 0.0), (10.0, 1.0))
    features = found.encode(table)
    assert features[:, :2].round(3).tolist() == np.float32([[-0.707, 0.707], [0.707, 0.707]]).tolist()
    assert (features[0, 2 + 28], np.abs(features[:, 2:]).sum()) == (1.0, 1.0)


def test_values_are_rounded_to_the_grid():
    scales = np.array([1.0, 2.0])
    assert to_grid(np.array([[0.5, -2.0]], np.float32), scales).tolist() == [[2**23, -(2**24)]]
    with pytest.raises(FeatureError, match="4 times the fitted scale"):
        to_grid(np.array([[4.5, 0.0]], np.float32), scales)


def test_rows_of_every_kind_of_features():
    names = IdMap("int64")
    nodes = names.intern(id_column([7, 8]))
    table = RowTable.of(id_column([7]), np.array([[0.5, -0.25]], np.float32))
    assert (table.rows.tolist(), table.scale) == ([[127, -64]], 0.5)
    rows, has = Walks(table).units(nodes, names)
    assert (rows.tolist(), has.tolist()) == ([[127, -64], [0, 0]], [1, 0])
    both = Given(np.array([0.5, 0.5, 1.0]), table)
    both.own.put(nodes[1:], np.array([[5]], np.int8), np.ones(1, np.bool_))
    rows, has = both.units(nodes, names)
    assert (rows.tolist(), has.tolist()) == ([[127, -64, 0], [0, 0, 5]], [1, 1])
    hashed = Hashed(4, seed=0)
    rows, has = hashed.units(nodes, names)
    assert (np.abs(rows.astype(np.int32) << hashed.message_shift) == 2**24).all()
    assert has.tolist() == [1, 1]
    own = Given(np.ones(2))
    own.own.put(nodes[:1], np.array([[3, 4]], np.int32), np.ones(1, np.bool_))
    rows, has = own.units(nodes, names)
    assert (rows.tolist(), has.tolist(), rows.dtype) == ([[3, 4], [0, 0]], [1, 0], np.int32)
