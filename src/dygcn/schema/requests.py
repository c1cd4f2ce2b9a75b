"""Bodies of requests. Undeclared fields and numbers out of bounds are refused."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dygcn.engine.records import DEFAULT_K
from dygcn.schema.answers import Id

_LARGEST = 3.4028234663852886e38  # that a float32 can hold
Links = Literal["new", "all", "next", "listed", "filter"]
Query = list[Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]]


class VectorsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Ids whose vectors are wanted."""

    ids: list[Id]


class NearestRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A vector, or ids, whose neighbours are wanted."""

    vector: Query | UnsetType = UNSET
    ids: list[Id] | UnsetType = UNSET
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    kind: str | None = None  # of the answers, where nodes have kinds; by default a node's own, "*": every


class ScoresRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Pairs of nodes to score; of two pairs, the one with the higher score is likelier linked next."""

    pairs: list[tuple[Id, Id]]
    links: Links = "new"
    probability: bool = False  # instead of log-odds


class RecommendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A node, and the candidates to recommend to it; by default every node it has no edge with."""

    id: Id
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    among: list[Id] | None = None
    exclude_linked: bool = True
    links: Links | None = None  # by default "filter" or "new", and "next" where linked nodes are not left out
    kind: str | None = None  # of the answers; by default of its neighbours, "*": every


class ChangeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A change that is tried and rolled back."""

    events: msgspec.Raw | UnsetType = UNSET  # as for POST /v1/events
    add: list[tuple[Id, Id]] | None = None  # edges instead of events
    remove: list[tuple[Id, Id]] | None = None
    now: float | None = None  # the time of events without one


class ExplainChangeRequest(ChangeRequest, forbid_unknown_fields=True, kw_only=True):
    """A node, and a change of at most 1,000 events whose effect on the node is measured."""

    id: Id


class WhatIfRequest(ChangeRequest, forbid_unknown_fields=True, kw_only=True):
    """A change that is tried, and the queries to answer before it is rolled back."""

    remove_nodes: list[Id] | None = None  # with all of their edges, after the events
    moved: Annotated[int, Meta(ge=0)] = 100  # how many of the nodes that would move are named
    vectors: list[Id] = []
    nearest: list[Id] = []
    recommend: list[Id] = []
    scores: list[tuple[Id, Id]] = []
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    links: Links = "new"


class CorrectedEvent(msgspec.Struct, forbid_unknown_fields=True):
    """A dead letter, and the event to apply in its place."""

    number: Annotated[int, Meta(ge=0)]
    event: msgspec.Raw


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters to apply again: by number, corrected, or all of a stream and reason (1,000 at most)."""

    numbers: list[Annotated[int, Meta(ge=0)]] = []
    stream: str | None = None
    reason: str | None = None  # words of it
    corrected: list[CorrectedEvent] = []
