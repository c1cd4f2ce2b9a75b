"""From the user's ids to nodes, and what is said of an id that is not in the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import id_column, python_ids
from dygcn.errors import EventError, OptionError, UnknownNode

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.records import IdColumn, Nodes


def many_ids(ids: object) -> IdColumn:
    """Read a list of ids; one id alone is refused."""
    if isinstance(ids, str):
        raise OptionError(f"{ids!r} is one id; pass a list of ids")
    return id_column(ids)


def find_nodes(state: State, ids: object) -> Nodes:
    """Return the nodes of ids.

    Raises
    ------
    UnknownNode
        For the first id that is not in the graph now.

    Examples
    --------
    >>> import dygcn
    >>> find_nodes(dygcn.fit([("ann", "bob")], dim=4).state, ["bob", "ann"]).tolist()
    [1, 0]
    """
    if isinstance(ids, Iterable) and not isinstance(ids, Sized):
        ids = list(ids)
    try:
        column = many_ids(ids)
        nodes = state.graph.find(column) if len(column) else np.empty(0, np.int32)
    except EventError:  # an id of a type that this graph does not have cannot be in it
        one = ids[0] if isinstance(ids, list) and len(ids) == 1 else ids
        raise UnknownNode(one, f"; its ids are {state.model.kind}, one at a time or in a flat list") from None
    if len(nodes) and nodes.min() < 0:
        raise UnknownNode(python_ids(column).tolist()[int(nodes.argmin())])
    return nodes
