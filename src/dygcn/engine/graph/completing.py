"""A graph whose writing was interrupted: made whole, with all of the batch or with nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.pair_buffers import PairBuffers

if TYPE_CHECKING:
    from dygcn.engine.graph.store import Graph
    from dygcn.engine.records import Nodes


def abandon(graph: Graph, *nodes: Nodes) -> None:
    """Forget nodes that a batch brought which is not written after all."""
    named = np.unique(np.concatenate(nodes))
    named = named[named >= 0]
    inside = named[named < len(graph._active)]
    here = inside[graph._active[inside] > 0]
    graph.ids.release(np.setdiff1d(named, here, assume_unique=True))


def complete(graph: Graph) -> bool:
    """Finish what an exception interrupted; say whether staged pairs were written for it.

    Afterwards the graph is whole and holds all of the interrupted batch, or nothing of it. If `complete` is
    interrupted itself, it may be called again.
    """
    graph.ids.repair()
    graph._reserve()
    graph._room = PairBuffers()
    graph._seen[:], graph._change[:] = 0, 0
    graph.pull.forget_needs()
    graph.push.forget_needs()
    if graph.memory is not None:
        graph.memory.rebuild_heap()
    staged = graph._staged
    if staged is not None:
        graph._write(staged, graph.pull.look_up(staged.a, staged.b))
    _count_again(graph)
    return staged is not None


def _count_again(graph: Graph) -> None:
    """Let the arcs and the marks of own features say who is in the graph, and forget everybody else."""
    high = graph.ids.high
    here = (graph.pull.count[:high] > 0) | (graph.push.count[:high] > 0) | (graph._own[:high] > 0)
    graph._active[:high] = here
    if graph.contacts is not None:
        times = graph.contacts.times[:high]
        times[~here] = -np.inf
        graph.contacts.counts[:high][~here] = 0
        graph.contacts.clock = max(graph.contacts.clock, times.max(initial=-np.inf))
    graph._node_count = int(here.sum())
    graph.edge_count = int((graph.edges()[2] > 0).sum())
    given = graph.ids.given()
    graph.ids.release(given[~here[given]])
