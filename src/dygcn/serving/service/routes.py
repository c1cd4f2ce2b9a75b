"""Every route, once: the web framework, the doors, the metrics and the OpenAPI page all read this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dygcn.live.durable.histories import PLACE_PATTERN
from dygcn.serving.service import answers

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Param:
    """A part of the path or of the query."""

    name: str
    place: str  # path or query
    about: str
    schema: dict[str, Any]
    required: bool = False
    most: str = ""  # the limit that is its maximum


@dataclass(frozen=True, slots=True)
class Route:
    """What may be asked, by whom, and what comes back."""

    method: str
    path: str
    scope: str
    handler: str  # a method of `Handlers`
    about: str
    answer: Any = None  # a struct, or None for text
    params: tuple[Param, ...] = ()
    body: Any = None
    forms: tuple[str, ...] = ()  # what the body may be
    statuses: tuple[int, ...] = ()  # besides 200, and those that every route has
    media: str = JSON


_ID = Param("id", "path", "The node, by your own id.", {"type": "string", "minLength": 1}, True)
_WHOLE = {"type": "integer"}
_COUNT = {"type": "integer", "minimum": 1}
_PLACE = {"type": "string", "pattern": f"^({PLACE_PATTERN})?$"}
_CLIENT = {"type": "string", "minLength": 1, "maxLength": 100}

ROUTES = (
    Route(
        "POST",
        "/events",
        "write",
        "post_events",
        "Add and remove edges. The answer comes when they are on disk and can be read. A bad event goes to "
        "the dead letters, the others are applied.",
        answers.Accepted,
        (
            Param("client", "query", "Your name, if repeats are to be noticed: goes with sequence.", _CLIENT),
            Param(
                "sequence",
                "query",
                "The number of the first event in this request; the next request goes on where it ends.",
                {**_WHOLE, "minimum": 0, "maximum": 2**62},
            ),
            Param(
                "expected",
                "query",
                "The same number once more, where the answer was that the client is forgotten.",
                {**_WHOLE, "minimum": 0, "maximum": 2**62},
            ),
        ),
        forms=(JSON, NDJSON, ARROW),
        statuses=(400, 409),
    ),
    Route(
        "GET",
        "/vectors/{id}",
        "read",
        "get_vector",
        "The vector of a node.",
        answers.OneVector,
        (_ID,),
        statuses=(404,),
    ),
    Route(
        "POST",
        "/vectors",
        "read",
        "post_vectors",
        "The vectors of many nodes; Arrow, if you accept it.",
        answers.ManyVectors,
        body=answers.WantedVectors,
        forms=(JSON,),
        statuses=(400,),
    ),
    Route(
        "GET",
        "/nearest/{id}",
        "read",
        "get_nearest",
        "The nearest nodes of a node, by cosine.",
        answers.Neighbours,
        (_ID, Param("k", "query", "How many; 10 by default.", _COUNT, most="neighbours")),
        statuses=(400, 404),
    ),
    Route(
        "POST",
        "/nearest",
        "read",
        "post_nearest",
        "The nearest nodes to a vector, by cosine.",
        answers.Neighbours,
        body=answers.WantedNeighbours,
        forms=(JSON,),
        statuses=(400,),
    ),
    Route(
        "POST",
        "/score",
        "read",
        "post_score",
        "How likely pairs of nodes are linked next.",
        answers.Scores,
        body=answers.WantedScores,
        forms=(JSON,),
        statuses=(400,),
    ),
    Route(
        "GET",
        "/changes",
        "read",
        "get_changes",
        "What moved behind a place, each node once: at once, after `wait` seconds at most, or, where "
        "`text/event-stream` is accepted, as a stream that goes on.",
        answers.Changes,
        (
            Param(
                "since",
                "query",
                "The `next` of an answer; without it, everything from the beginning.",
                _PLACE,
            ),
            Param(
                "limit",
                "query",
                "Rows in a page, moved and left together; 100 by default.",
                _COUNT,
                most="page_rows",
            ),
            Param(
                "wait", "query", "Seconds to wait for news.", {"type": "number", "minimum": 0, "maximum": 60}
            ),
        ),
        statuses=(400, 429),
    ),
    Route("GET", "/status", "read", "get_status", "Everything worth knowing at a glance.", answers.Status),
    Route("GET", "/map", "read", "get_map", "Some nodes in two dimensions.", answers.Map),
    Route(
        "GET",
        "/dead-letters",
        "admin",
        "get_dead_letters",
        "Events that could not be applied, newest first.",
        answers.Letters,
        (
            Param("limit", "query", "How many; 100 by default.", {**_COUNT, "maximum": 1000}),
            Param(
                "before",
                "query",
                "Only those with a lower number.",
                {**_WHOLE, "minimum": 0, "maximum": 2**62},
            ),
        ),
        statuses=(400,),
    ),
    Route(
        "DELETE",
        "/clients/{id}",
        "admin",
        "delete_client",
        "Follow a client no longer, so that another one has its place.",
        answers.Forgotten,
        (Param("id", "path", "The name of the client.", _CLIENT, True),),
        statuses=(400,),
    ),
    Route("GET", "/metrics", "read", "get_metrics", "Counts and times for Prometheus.", media="text/plain"),
    Route("GET", "/healthz", "open", "get_health", "Whether the service lives.", answers.Health),
    Route("GET", "/openapi.json", "read", "get_openapi", "This description.", dict[str, Any]),
    Route("GET", "/", "read", "get_page", "A page for people.", media="text/html"),
)
