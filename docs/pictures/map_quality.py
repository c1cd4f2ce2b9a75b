"""Prints what the map of the service keeps of real graphs, beside the principal plane.

From the root of a clone::

    python docs/pictures/map_quality.py hepth-collab college-msg

For each graph: how many of the ten nearest nodes by cosine are among the ten nearest on the map, how often
the ten nearest on the map are of the node's own community, the seconds of a first map and of one that is made
again, and how far a node moves then, in widths of the map.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import dygcn
from dygcn.live.plotting import communities, neighbour_map, principal_plane
from dygcn.serving.service.node_map import NODES
from dygcn_lab.evaluation.maps import kept_neighbours


def of_own_community(place: np.ndarray, label: np.ndarray, count: int = 10) -> float:
    """Return how many of the nearest on a map have the community of the node, from 0 to 1."""
    apart = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    return float((label[np.argpartition(apart, count, axis=1)[:, :count]] == label[:, None]).mean())


def main() -> None:
    """Fit each graph, and print a line for each kind of map."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+")
    for name in parser.parse_args().names:
        live = dygcn.fit(name)
        vectors = live._vectors_of(live._state.graph.some_nodes(0, NODES))
        label, begun = communities(vectors), time.perf_counter()
        near, made = neighbour_map(vectors), time.perf_counter()
        again, ended = neighbour_map(vectors, start=near), time.perf_counter()
        for kind, place in (("plane", principal_plane(vectors)), ("map", near), ("map, again", again)):
            kept, own = kept_neighbours(vectors, place), of_own_community(place, label)
            line = f"{name}, {len(vectors)} nodes, {kind}: kept {kept:.3f}, own community {own:.3f}\n"
            sys.stdout.write(line)
        moved = np.median(np.linalg.norm(again - near, axis=1)) / np.ptp(near, axis=0).max()
        sys.stdout.write(
            f"{name}: {made - begun:.2f} s, again {ended - made:.2f} s, moved {moved:.4f} widths\n"
        )


if __name__ == "__main__":
    main()
