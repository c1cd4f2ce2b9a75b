"""Of which kind answers are, in a graph whose nodes have kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.models.links import FILTER
from dygcn.errors import OptionError
from dygcn.live.finding import find_nodes
from dygcn.live.recommending import allowed_nodes, linked_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.models import State
    from dygcn.engine.records import Nodes
    from dygcn.live.recommending import Among

EVERY_KIND = "*"


def of_kind(ids: IdMap, nodes: Nodes, kind: str | None) -> Nodes:
    """Return the nodes that are of a kind; None or "*": all of them."""
    check_kind(ids, kind)
    return nodes if kind is None or kind == EVERY_KIND else nodes[ids.of_kind(nodes, kind)]


def check_kind(ids: IdMap, kind: str | None) -> None:
    """Refuse what is no kind of the graph; None and "*" are allowed in any."""
    if kind is None or kind == EVERY_KIND:
        return
    if ids.kinds is None:
        raise OptionError(f"kind is {kind!r}; nodes of this graph have no kinds: fit(..., kinds=) gives them")
    ids.kinds.check(kind)


def own_kind(ids: IdMap, node: int) -> str | None:
    """Return the kind of a node."""
    if ids.kinds is None:
        return None
    kind: str = ids.shown(ids.names(np.array([node], np.int32)))[0].kind
    return kind


def grouped(ids: IdMap, nodes: Nodes, kind: str | None) -> Iterator[tuple[str | None, Nodes]]:
    """Yield the kind of answers and the nodes that want them: one kind for all, or each its own."""
    if ids.kinds is None or kind is not None:
        yield kind, nodes
        return
    for one in ids.kinds.names:
        own = nodes[ids.of_kind(nodes, one)]
        if len(own):
            yield one, own


def asking_kind(state: State) -> str | None:
    """Return the kind that an id without kind is of when recommendations are asked for: the first one."""
    kinds = state.graph.ids.kinds
    return None if kinds is None else kinds.names[0]


def links_of(
    state: State,
    node: int,
    links: str | None,
    exclude_linked: bool,
    kind: str | None,
    allowed: Nodes | None = None,
) -> str:
    """Return the score that recommendations are ranked by: the filter's where it knows asker and answers.

    Parameters
    ----------
    allowed
        Who may be an answer; None: everybody.
    """
    check_kind(state.graph.ids, kind)
    if links is not None:
        return links
    if not exclude_linked:
        return "next"
    known = state.filter is not None and state.filter.knows(state.graph, node, kind, allowed)
    return FILTER if known else "new"


def links_for(
    state: State,
    one: object,
    links: str | None,
    exclude_linked: bool,
    kind: str | None,
    among: Among = None,
) -> str:
    """Return the same for an id."""
    node = int(find_nodes(state, [one], asking_kind(state))[0])
    allowed = None if among is None else allowed_nodes(state, among)
    return links_of(state, node, links, exclude_linked, kind, allowed)


def kind_of_links(state: State, node: int, nodes: Nodes, kind: str | None) -> Nodes:
    """Return the nodes that are of a kind; None: of a kind that the neighbours of a node are of."""
    ids = state.graph.ids
    if kind is not None or ids.kinds is None:
        return of_kind(ids, nodes, kind)
    linked = linked_nodes(state.graph, node)
    wanted = [one for one in ids.kinds.names if ids.of_kind(linked, one).any()]
    return nodes[np.logical_or.reduce([ids.of_kind(nodes, one) for one in wanted])] if wanted else nodes
