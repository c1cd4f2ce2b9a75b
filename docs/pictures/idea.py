"""Draws the picture of the idea: an edge arrives, its orders 1 and 2 change, everything else stays.

Run it from the root of a clone: ``python docs/pictures/idea.py``. Who changes is what `update` returns.
Letters are large, since a phone shows the picture at a third of its width.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import matplotlib
import networkx as nx
import numpy as np

import dygcn

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

TARGET = Path(__file__).parents[1] / "images" / "idea.png"
COLOURS = {0: "#c3c9cf", 1: "#c0392b", 2: "#e8964f"}
SIZES = {0: 75, 1: 300, 2: 190}
LETTERS = 19


def scattered_graph() -> tuple[nx.Graph, dict[int, np.ndarray]]:
    """Return nodes scattered over a plane, each linked with its two nearest, and where they lie."""
    rows, columns = 7, 8
    draw = np.random.default_rng(5)
    corners = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).reshape(-1, 2)
    points = corners + draw.uniform(-0.33, 0.33, corners.shape)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    graph = nx.Graph()
    for node, near in enumerate(np.argsort(apart, axis=1)[:, 1:3]):
        graph.add_edges_from((node, int(other)) for other in near)
    for one, other in pairwise(list(nx.connected_components(graph))):  # one bridge between two pieces
        graph.add_edge(*min(((a, b) for a in one for b in other), key=lambda ends: apart[ends]))
    return graph, dict(enumerate(points))


def new_edge(graph: nx.Graph, place: dict[int, np.ndarray]) -> tuple[int, int]:
    """Return two nodes with three neighbours or more, between which a long line passes no other node."""
    ends = [node for node in graph if graph.degree[node] >= 3]
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    far = [(a, b) for a in ends for b in ends if a < b and steps[a][b] > 5 and 2 < _length(place, a, b) < 3.6]
    return max(far, key=lambda edge: _clearance(place, *edge))


def _length(place: dict[int, np.ndarray], a: int, b: int) -> float:
    return float(np.linalg.norm(place[a] - place[b]))


def _clearance(place: dict[int, np.ndarray], a: int, b: int) -> float:
    """Return how far the line from a to b keeps from every other node."""
    others = np.array([point for node, point in place.items() if node not in (a, b)])
    line = place[a] + np.linspace(0, 1, 50)[:, None] * (place[b] - place[a])
    return float(np.linalg.norm(others[:, None] - line[None], axis=2).min())


def draw(
    graph: nx.Graph, place: dict[int, np.ndarray], orders: dict[int, int], edge: tuple[int, int], ax: Axes
) -> None:
    """Draw one moment: nodes in the colour of the order that reached them."""
    nx.draw_networkx_edges(graph, place, ax=ax, edge_color="#cfd4d9", width=1.3)
    style = "solid" if orders else (0, (2.5, 1.5))
    nx.draw_networkx_edges(graph, place, [edge], ax=ax, edge_color=COLOURS[1], width=3.5, style=style)
    for order, colour in COLOURS.items():
        nodes = [node for node in graph if orders.get(node, 0) == order]
        size = SIZES[order]
        nx.draw_networkx_nodes(graph, place, nodes, ax=ax, node_color=colour, node_size=size, linewidths=0)
    ax.margins(0.06)
    ax.axis("off")


def main() -> None:
    """Draw both moments side by side."""
    graph, place = scattered_graph()
    live = dygcn.fit(graph.edges, dim=16)
    edge = new_edge(graph, place)
    before = len(live)
    change = live.update(add=[edge])
    orders = dict(zip(change.ids.tolist(), change.orders.tolist(), strict=True))
    graph.add_edge(*edge)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    draw(graph, place, {}, edge, axes[0])
    draw(graph, place, orders, edge, axes[1])
    axes[0].set_title("An edge arrives", fontsize=LETTERS)
    axes[1].set_title(f"{len(orders)} vectors change, {before - len(orders)} stay", fontsize=LETTERS)
    words = {1: "order 1: its ends", 2: "order 2: their neighbours"}
    dots = [axes[1].scatter([], [], s=SIZES[order], color=COLOURS[order]) for order in words]
    figure.legend(dots, words.values(), loc="outside lower center", ncols=2, fontsize=LETTERS, frameon=False)
    figure.savefig(TARGET, dpi=110, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
