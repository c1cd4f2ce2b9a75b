"""The state of an embedding whose graph is in this process, with the rule itself and not its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.engine.models.state import State

if TYPE_CHECKING:
    from dygcn.live.view import EmbeddingView


def own_state(live: EmbeddingView) -> State:
    """Return the state of an embedding, which must not be on shards.

    Examples
    --------
    >>> import dygcn
    >>> own_state(dygcn.fit([(1, 2), (2, 3)], dim=4)).exact.orders
    2
    """
    state = live._state
    if not isinstance(state, State):
        raise TypeError(f"the state of a {type(live).__name__} is in other processes")
    return state
