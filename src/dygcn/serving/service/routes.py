"""Every route, once: the web framework, the doors, the metrics and the OpenAPI page all read this table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, get_args

from dygcn.engine.models import KINDS
from dygcn.engine.records import DEFAULT_K
from dygcn.live.durable.histories import PLACE_PATTERN
from dygcn.live.durable.past import MOMENT_PATTERN
from dygcn.schema import answers, requests

V1 = "/v1"  # before the path of every route that programs ask
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
    answer: Any = None  # a struct, or a union of them; None: text
    params: tuple[Param, ...] = ()
    body: Any = None
    forms: tuple[str, ...] = ()  # what the body may be
    statuses: tuple[int, ...] = ()  # besides 200, and those that every route has
    media: str = JSON

    @property
    def answers(self) -> tuple[Any, ...]:
        """What may come back, each by itself."""
        return (
            get_args(self.answer)
            if isinstance(self.answer, UnionType)
            else (self.answer,)
            if self.answer
            else ()
        )


_ID = Param("id", "path", "The node, by your own id.", {"type": "string", "minLength": 1}, True)
_AS_OF = Param(
    "as_of",
    "query",
    "A moment of the past: a sequence, seconds since 1970 with a decimal point, or a time with its zone "
    "(2026-11-10T12:00Z). The answer has the digest of that moment. One moment is rebuilt at a time.",
    {"type": "string", "pattern": f"^({MOMENT_PATTERN})$"},
)
_WHOLE = {"type": "integer"}
_COUNT = {"type": "integer", "minimum": 1}
IDS_IN_QUERY = 100  # an address has a length; bodies take more
_IDS = {"type": "array", "items": {"type": "string"}, "maxItems": IDS_IN_QUERY}
_LINKS = Param("links", "query", "Which links the score is about.", {"enum": list(KINDS)})
_PLACE = {"type": "string", "pattern": f"^({PLACE_PATTERN})?$"}
_CLIENT = {"type": "string", "minLength": 1, "maxLength": 100}

_KIND = Param("kind", "query", 'Of the answers, where nodes have kinds; "*": every kind.', {"type": "string"})

_API = (
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
        "The vector of a node, now or as of a moment.",
        answers.OneVector,
        (_ID, _AS_OF),
        statuses=(400, 404, 429),
    ),
    Route(
        "POST",
        "/vectors",
        "read",
        "post_vectors",
        "The vectors of many nodes, now or as of a moment; Arrow, if you accept it.",
        answers.ManyVectors,
        (_AS_OF,),
        body=requests.VectorsRequest,
        forms=(JSON,),
        statuses=(400, 404),
    ),
    Route(
        "GET",
        "/nearest/{id}",
        "read",
        "get_nearest",
        "The nearest nodes of a node, by cosine.",
        answers.ScoredNodes,
        (_ID, Param("k", "query", f"How many; {DEFAULT_K} by default.", _COUNT, most="k"), _KIND),
        statuses=(400, 404),
    ),
    Route(
        "POST",
        "/nearest",
        "read",
        "post_nearest",
        "The nearest nodes to a vector, by cosine; or those of each of many nodes, by cosine or by the score "
        "of a link.",
        answers.ScoredNodes | answers.NearestOf,
        body=requests.NearestRequest,
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
        body=requests.ScoresRequest,
        forms=(JSON,),
        statuses=(400,),
    ),
    Route(
        "GET",
        "/scores/{id}",
        "read",
        "get_scores",
        "How likely a node is linked next with each of others.",
        answers.Scores,
        (
            _ID,
            Param("to", "query", "The others, one parameter each.", {**_IDS, "minItems": 1}, True),
            _LINKS,
            Param("probability", "query", "Probabilities in place of log-odds.", {"type": "boolean"}),
        ),
        statuses=(400, 404),
    ),
    Route(
        "GET",
        "/recommend/{id}",
        "read",
        "get_recommended",
        "The nodes that a node is likeliest to link with, by the learned score.",
        answers.Recommended,
        (
            _ID,
            Param("k", "query", f"How many; {DEFAULT_K} by default.", _COUNT, most="k"),
            Param("among", "query", "Only these, one parameter each.", _IDS),
            Param("exclude_linked", "query", "Leave out who is linked; the default.", {"type": "boolean"}),
            _LINKS,
            _KIND,
        ),
        statuses=(400, 404),
    ),
    Route(
        "POST",
        "/recommend",
        "read",
        "post_recommended",
        "The same, where `among` is too long for an address.",
        answers.Recommended,
        body=requests.RecommendRequest,
        forms=(JSON,),
        statuses=(400, 404),
    ),
    Route(
        "GET",
        "/neighbors/{id}",
        "read",
        "get_neighbors",
        "With how many nodes a node has an edge now, and the first of them by id.",
        answers.Neighbors,
        (_ID, Param("limit", "query", "How many are named; 100 by default.", _COUNT, most="page_rows")),
        statuses=(400, 404),
    ),
    Route(
        "GET",
        "/explain/{id}",
        "read",
        "get_explanation",
        "What each neighbour of a node adds to its vector, order by order.",
        answers.ExplainedVector,
        (_ID, Param("k", "query", f"How many neighbours; {DEFAULT_K} by default.", _COUNT, most="k")),
        statuses=(400, 404),
    ),
    Route(
        "POST",
        "/explain",
        "read",
        "post_explanation",
        "Which events of a change would move a node, and how far each. Nothing is changed.",
        answers.ExplainedMove,
        body=requests.ExplainChangeRequest,
        forms=(JSON,),
        statuses=(400, 404),
    ),
    Route(
        "POST",
        "/what-if",
        "read",
        "post_trial",
        "What would be after a change: who moves and how far, vectors, neighbours, recommendations, scores. "
        "Nothing is changed.",
        answers.WhatIfAnswer,
        body=requests.WhatIfRequest,
        forms=(JSON,),
        statuses=(400, 404),
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
                "Rows in a page, moved and left together, and as many surprises; 100 by default.",
                _COUNT,
                most="page_rows",
            ),
            Param(
                "wait", "query", "Seconds to wait for news.", {"type": "number", "minimum": 0, "maximum": 60}
            ),
        ),
        statuses=(400, 429),
    ),
    Route(
        "GET", "/status", "read", "get_status", "Everything worth knowing at a glance.", answers.ServiceStatus
    ),
    Route(
        "GET",
        "/history",
        "read",
        "get_history",
        "The load of the last hour: a sample every few seconds.",
        answers.LoadSamples,
        (
            Param(
                "since",
                "query",
                "Only samples behind it, in seconds since 1970.",
                {"type": "number", "minimum": 0},
            ),
        ),
        statuses=(400,),
    ),
    Route(
        "GET",
        "/map",
        "read",
        "get_map",
        "Some nodes in two dimensions, those with near vectors together; and where a node is among them.",
        answers.Map,
        (Param("node", "query", "A node that is placed on the map in any case.", {"type": "string"}),),
        statuses=(400, 404),
    ),
    Route(
        "GET",
        "/dead-letters",
        "admin",
        "get_dead_letters",
        "Events that could not be applied, newest first.",
        answers.DeadLetters,
        (
            Param("limit", "query", "How many; 100 by default.", {**_COUNT, "maximum": 1000}),
            Param(
                "before",
                "query",
                "Only those with a lower number.",
                {**_WHOLE, "minimum": 0, "maximum": 2**62},
            ),
            Param("stream", "query", "Only those of a stream.", {"type": "string"}),
            Param("reason", "query", "Only those whose reason has these words in it.", {"type": "string"}),
        ),
        statuses=(400,),
    ),
    Route(
        "POST",
        "/dead-letters/replay",
        "admin",
        "post_replay",
        "Apply dead letters again, as they are or mended. A letter goes in the transaction that logs its "
        "event; one that cannot be applied stays, with its new reason.",
        answers.ReplayResult,
        body=requests.ReplayRequest,
        forms=(JSON,),
        statuses=(400,),
    ),
    Route(
        "DELETE",
        "/dead-letters",
        "admin",
        "delete_dead_letters",
        "Discard dead letters: by number, or of a stream and a reason (1,000 at most).",
        answers.DiscardResult,
        (
            Param("number", "query", "One parameter each.", {**_IDS, "items": _WHOLE}),
            Param("stream", "query", "Those of a stream.", {"type": "string"}),
            Param("reason", "query", "Those whose reason has these words in it.", {"type": "string"}),
        ),
        statuses=(400,),
    ),
    Route(
        "DELETE",
        "/nodes/{id}",
        "admin",
        "delete_node",
        "Forget a node: remove it from graph, model, log, snapshots, dead letters and sinks, and drop old "
        "events of it from now on. The answer comes when no file names it.",
        answers.NodeForgotten,
        (_ID,),
        statuses=(400, 404, 429),
    ),
    Route(
        "DELETE",
        "/clients/{id}",
        "admin",
        "delete_client",
        "Follow a client no longer, so that another one has its place.",
        answers.ClientForgotten,
        (Param("id", "path", "The name of the client.", _CLIENT, True),),
        statuses=(400,),
    ),
)
_OUTSIDE = (  # what has an address of its own by custom, in every version
    Route("GET", "/metrics", "read", "get_metrics", "Counts and times for Prometheus.", media="text/plain"),
    Route("GET", "/livez", "open", "get_alive", "Whether the process answers.", answers.Alive),
    Route("GET", "/readyz", "open", "get_ready", "Whether requests should come.", answers.Ready),
    Route("GET", "/openapi.json", "read", "get_openapi", "This description.", dict[str, Any]),
    Route("GET", "/", "read", "get_page", "A page for people.", media="text/html"),
)
ROUTES = (*(replace(route, path=V1 + route.path) for route in _API), *_OUTSIDE)
