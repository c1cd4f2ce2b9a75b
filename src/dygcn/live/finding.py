"""Finds the nodes of the user's ids, and words the errors for ids that are not in the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.kinds import KindId, Kinds
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.contracts import StateReader
from dygcn.engine.records import Float32, IdColumn, Nodes
from dygcn.errors import EventError, OptionError, UnknownNode, shown

OneId: TypeAlias = int | str | UUID | tuple[str, int | str | UUID]
"""An id of the user's; with a kind, (kind, id) or "kind:id"."""
ManyIds: TypeAlias = (
    list[int]
    | list[str]
    | list[int | str]
    | list[UUID]
    | list[tuple[str, int | str]]
    | NDArray[np.integer[Any]]
)  # several ids
OneVector: TypeAlias = NDArray[np.floating[Any]] | list[float]  # the numbers of a vector
Scored: TypeAlias = "list[tuple[int | str | KindId, float]]"  # an answer: ids and their scores, best first


EVERY_KIND = "*"


def at_least(name: str, value: object, least: int) -> None:
    """Raise an OptionError unless the value is a whole number, `least` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name} is {shown(value)}; allowed is a whole number, {least} or more")


def check_alone(*others: object) -> None:
    """Refuse an update that both removes nodes and has events or a time: it would be two steps."""
    if any(one is not None for one in others):
        raise OptionError("remove_nodes= goes alone; make two updates, first of edges, then of nodes")


def check_parts(parts: object) -> None:
    """Refuse what `bulk` cannot go through."""
    if not isinstance(parts, Iterable):
        raise OptionError(f"parts is {shown(parts)}; allowed are several tables of events, in a list")


def many_ids(state: StateReader, ids: object, kind: str | None = None) -> IdColumn:
    """Read a list of ids; one id alone is refused."""
    known = state.graph.ids
    if isinstance(ids, str) or (known.kinds is not None and known.kinds.is_id(ids)):
        raise OptionError(f"{ids!r} is one id; pass a list of ids")
    return known.read(ids, kind)


def as_many(state: StateReader, ids: object) -> object:
    """Return a single id as a list of one, and a list of ids unchanged."""
    kinds = state.graph.ids.kinds
    alone = isinstance(ids, int | str | UUID | np.integer) or (kinds is not None and kinds.is_id(ids))
    return [ids] if alone else ids


def one_or_more_ids(asked: object, kinds: Kinds | None = None) -> Any:
    """Return a list of ids, or a single id unchanged; text is a single id."""
    _check_flat(asked)
    if isinstance(asked, str | bytes) or not isinstance(asked, Iterable):
        return asked
    if kinds is not None and kinds.is_id(asked):
        return asked
    return asked.tolist() if isinstance(asked, np.ndarray) else list(asked)


def _check_flat(ids: object) -> None:
    dimensions = getattr(ids, "ndim", 1)
    if isinstance(dimensions, int) and dimensions > 1:
        raise OptionError(f"the ids have {dimensions} dimensions; pass one id, or a flat list of ids")


def find_nodes(state: StateReader, ids: object, kind: str | None = None) -> Nodes:
    """Return the nodes of ids; raise UnknownNode for the first that is not in the graph.

    `kind` is that of ids without one, where they may be of several.
    """
    if isinstance(ids, Iterable) and not isinstance(ids, Sized):
        ids = list(ids)
    _check_flat(ids)
    try:
        column = many_ids(state, ids, kind)
        nodes = state.graph.find(column) if len(column) else np.empty(0, np.int32)
    except EventError:  # an id of a type that this graph does not have cannot be in it
        one = ids[0] if isinstance(ids, list) and len(ids) == 1 else ids
        raise UnknownNode(one, f"; {_ids_are(state)}, one at a time or in a flat list") from None
    if len(nodes) and nodes.min() < 0:
        raise UnknownNode(state.graph.ids.shown(column).tolist()[int(nodes.argmin())])
    return nodes


def find_or_cold(state: StateReader, ids: object) -> Nodes:
    """Return the nodes of ids, -1 for an id that is not in the graph."""
    return state.graph.find(many_ids(state, ids))


def find_past(state: StateReader, ids: object) -> Nodes | None:
    """Return the numbers of ids in the history, -1 for an id that never had an event; None without one."""
    return None if state.history is None else state.history.find(many_ids(state, as_many(state, ids)))


def _ids_are(state: StateReader) -> str:
    kinds = state.graph.ids.kinds
    if kinds is None:
        return f"its ids are {state.model.ids}"
    return f'its kinds are {", ".join(str(kinds).split(","))}, and an id is (kind, id) or "kind:id"'


def vector_or_ids(asked: object, dim: int, kinds: Kinds | None = None) -> Any:
    """Return a vector of float32, a list of ids, or a single id unchanged.

    Floats are numbers of a vector, since no id is one; whole numbers are ids.
    """
    if isinstance(asked, str | bytes) or not isinstance(asked, Iterable):
        return asked
    if kinds is not None and kinds.is_id(asked):
        return asked
    values = asked.tolist() if isinstance(asked, np.ndarray) else list(asked)
    if getattr(asked, "ndim", 1) > 1:
        raise OptionError(
            f"{asked.ndim} dimensions are too many; pass an id, a list of ids, or one vector"  # type: ignore[attr-defined]
        )
    if not any(isinstance(one, float | np.floating) for one in values):
        return values
    return _checked_vector(values, dim)


def _checked_vector(values: list[Any], dim: int) -> Float32:
    if len(values) != dim:
        raise OptionError(f"the vector has {len(values)} numbers; vectors of this embedding have {dim}")
    try:
        with np.errstate(over="ignore"):  # what is too large is not finite, and refused
            vector = np.array(values, np.float32)
    except (TypeError, ValueError):
        raise OptionError("the vector holds something else than numbers; ids and floats do not mix") from None
    if not np.isfinite(vector).all():
        raise OptionError("the vector holds numbers that are not finite in float32")
    if not vector.any():
        raise OptionError("the vector is zero, so it has no direction and no node is nearest to it")
    return vector


def linked_nodes(graph: Graph, node: int) -> Nodes:
    """Return the nodes that a node has an edge with now, in either direction; ghosts are not edges."""
    me = np.array([node], np.int32)
    sides = (graph.pull, graph.push) if graph.directed else (graph.pull,)
    found = [other[weight > 0] for _, other, weight in (side.arcs(me) for side in sides)]
    return np.unique(np.concatenate(found))


def of_kind(ids: IdMap, nodes: Nodes, kind: str | None) -> Nodes:
    """Return the nodes that are of a kind; None or "*": all of them."""
    check_kind(ids, kind)
    return nodes if kind is None or kind == EVERY_KIND else nodes[ids.of_kind(nodes, kind)]


def check_kind(ids: IdMap, kind: str | None) -> None:
    """Refuse a kind that the graph does not have; None and "*" are allowed in any."""
    if kind is None or kind == EVERY_KIND:
        return
    if ids.kinds is None:
        raise OptionError(f"kind is {kind!r}; nodes of this graph have no kinds: fit(..., kinds=) gives them")
    ids.kinds.check(kind)


def own_kind(ids: IdMap, node: int) -> str | None:
    """Return the kind of a node; None in a graph without kinds."""
    if ids.kinds is None:
        return None
    kind: str = ids.shown(ids.names(np.array([node], np.int32)))[0].kind
    return kind


def grouped(ids: IdMap, nodes: Nodes, kind: str | None) -> Iterator[tuple[str | None, Nodes]]:
    """Yield (kind of answers, query nodes): `kind` for all, or without it each node's own kind."""
    if ids.kinds is None or kind is not None:
        yield kind, nodes
        return
    for one in ids.kinds.names:
        own = nodes[ids.of_kind(nodes, one)]
        if len(own):
            yield one, own
