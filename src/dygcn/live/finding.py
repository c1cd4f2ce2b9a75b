"""From the user's ids to nodes, and what is said of an id that is not in the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dygcn.errors import EventError, OptionError, UnknownNode

if TYPE_CHECKING:
    from dygcn.engine.events.kinds import KindId, Kinds
    from dygcn.engine.models import State
    from dygcn.engine.records import Float32, IdColumn, Nodes

OneId: TypeAlias = int | str | UUID | tuple[str, int | str | UUID]
"""An id of the user's; with a kind, (kind, id) or "kind:id"."""
ManyIds: TypeAlias = (
    list[int]
    | list[str]
    | list[int | str]
    | list[UUID]
    | list[tuple[str, int | str]]
    | NDArray[np.integer[Any]]
)
"""Several ids."""
OneVector: TypeAlias = NDArray[np.floating[Any]] | list[float]
"""The numbers of a vector."""
Scored: TypeAlias = "list[tuple[int | str | KindId, float]]"
"""An answer: ids and their scores, best first."""


def check_alone(*others: object) -> None:
    """Refuse an update that removes nodes and also has events or a time: these would be two steps.

    Examples
    --------
    >>> check_alone(None, [(1, 2)])
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: remove_nodes= goes alone; make two updates, first of edges, then of nodes
    """
    if any(one is not None for one in others):
        raise OptionError("remove_nodes= goes alone; make two updates, first of edges, then of nodes")


def many_ids(state: State, ids: object, kind: str | None = None) -> IdColumn:
    """Read a list of ids; one id alone is refused."""
    known = state.graph.ids
    if isinstance(ids, str) or (known.kinds is not None and known.kinds.is_id(ids)):
        raise OptionError(f"{ids!r} is one id; pass a list of ids")
    return known.read(ids, kind)


def as_many(state: State, ids: object) -> object:
    """Return one id as a list of one, and several ids as they are."""
    kinds = state.graph.ids.kinds
    alone = isinstance(ids, int | str | np.integer) or (kinds is not None and kinds.is_id(ids))
    return [ids] if alone else ids


def one_or_more_ids(asked: object, kinds: Kinds | None = None) -> Any:
    """Return a list of ids, or one id as it is; text is one id.

    Examples
    --------
    >>> one_or_more_ids("ann"), one_or_more_ids(("ann", "bob")), one_or_more_ids(np.arange(2))
    ('ann', ['ann', 'bob'], [0, 1])
    """
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


def find_nodes(state: State, ids: object, kind: str | None = None) -> Nodes:
    """Return the nodes of ids; `kind` is that of ids without one, where they may be of several.

    Raises
    ------
    UnknownNode
        For the first id that is not in the graph now.
    OptionError
        For an array of more than one dimension.

    Examples
    --------
    >>> import dygcn
    >>> find_nodes(dygcn.fit([("ann", "bob")], dim=4)._state, ["bob", "ann"]).tolist()
    [1, 0]
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


def find_or_cold(state: State, ids: object) -> Nodes:
    """Return the nodes of ids, -1 for an id that is not in the graph."""
    return state.graph.find(many_ids(state, ids))


def find_past(state: State, ids: object) -> Nodes | None:
    """Return the numbers of ids in the history, -1 for an id that never had an event; None without one."""
    return None if state.history is None else state.history.find(many_ids(state, as_many(state, ids)))


def _ids_are(state: State) -> str:
    kinds = state.graph.ids.kinds
    if kinds is None:
        return f"its ids are {state.model.ids}"
    return f'its kinds are {", ".join(str(kinds).split(","))}, and an id is (kind, id) or "kind:id"'


def vector_or_ids(asked: object, dim: int, kinds: Kinds | None = None) -> Any:
    """Return what was meant: a vector of float32, a list of ids, or one id as it is.

    Floats are numbers of a vector, since no id is one; whole numbers are ids.

    Raises
    ------
    OptionError
        For a vector that has no direction, or is none of `dim` finite numbers.

    Examples
    --------
    >>> vector_or_ids("ann", 2), vector_or_ids(("ann", "bob"), 2), vector_or_ids([0.5, 2], 2).dtype
    ('ann', ['ann', 'bob'], dtype('float32'))
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
