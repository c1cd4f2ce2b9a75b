"""What the answers about the map look like."""

from __future__ import annotations

import msgspec

from dygcn.serving.service.answers import Id, Sequence


class Point(msgspec.Struct):
    """A node on the map."""

    id: Id
    x: float
    y: float
    community: int


class ChosenNode(msgspec.Struct):
    """A node on the map with those near it; who is not among the drawn ones lies beside their nearest."""

    sequence: Sequence
    id: Id
    points: list[Point]  # the node is the first one
    near: list[Id]  # by cosine, nearest first
    linked: list[Id]  # the first of them by id


class Map(msgspec.Struct):
    """Some nodes in two dimensions, those with near vectors together, in communities of near vectors."""

    sequence: Sequence
    nodes: int  # of the graph
    communities: int  # numbered from 0
    points: list[Point]
    chosen: ChosenNode | None
