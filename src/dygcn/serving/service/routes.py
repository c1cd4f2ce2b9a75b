"""The table of routes, which web framework, authorization, metrics and OpenAPI page read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, get_args

from dygcn.engine.models.links import KINDS
from dygcn.engine.records import DEFAULT_K
from dygcn.live.durable.histories import PLACE_PATTERN
from dygcn.live.durable.past import MOMENT_PATTERN
from dygcn.schema import answers, requests

V1 = "/v1"  # before the path of every route that programs use
JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
EVENT_STREAM = "text/event-stream"
FORMS = {JSON: "json", NDJSON: "ndjson", ARROW: "arrow"}  # of events
IDS_IN_QUERY = 100  # an address has a length; bodies take more


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query or the path."""

    name: str
    about: str
    schema: dict[str, Any]
    required: bool = False
    most: str = ""  # the limit that is its maximum
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Route:
    """A route: allowed requests and possible responses."""

    request: str  # method and path
    handler: str  # a method of the handlers of a resource
    about: str
    answer: Any = None  # a struct, or a union of them; None: text
    params: tuple[Param, ...] = ()
    body: Any = None  # a struct
    statuses: tuple[int, ...] = ()  # besides 200, and those that every route has
    takes: tuple[str, ...] = ()  # media types of the body, if it is no struct
    media: str = JSON
    scope: str = "read"

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.request.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with the names of its parameters in braces."""
        return self.request.partition(" ")[2]

    @property
    def forms(self) -> tuple[str, ...]:
        """Media types of the body; none: there is no body."""
        return self.takes if self.body is None else (JSON,)

    @property
    def shapes(self) -> tuple[Any, ...]:
        """The structs that may come back."""
        if isinstance(self.answer, UnionType):
            return get_args(self.answer)
        return () if self.answer is None else (self.answer,)


_TEXT, _WHOLE, _BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_COUNT, _SECONDS = {**_WHOLE, "minimum": 1}, {"type": "number", "minimum": 0}
_NUMBER = {**_WHOLE, "minimum": 0, "maximum": 2**62}
_IDS = {"type": "array", "items": _TEXT, "maxItems": IDS_IN_QUERY}
_NAME = {**_TEXT, "minLength": 1, "maxLength": 100}
_CURSOR = {**_TEXT, "pattern": f"^({PLACE_PATTERN})?$"}
_ID = Param("id", "The node, by your own id.", {**_TEXT, "minLength": 1}, True, place="path")
_K = Param("k", f"How many; {DEFAULT_K} by default.", _COUNT, most="k")
_KIND = Param("kind", 'Of the answers, where nodes have kinds; "*": every kind.', _TEXT)
_LINKS = Param("links", "Which links the score is about.", {"enum": list(KINDS)})
_AS_OF = Param(
    "as_of",
    "A moment of the past: a sequence, seconds since 1970 with a decimal point, or a time with its zone "
    "(2026-11-10T12:00Z). The answer has the digest of that moment. One moment is rebuilt at a time.",
    {**_TEXT, "pattern": f"^({MOMENT_PATTERN})$"},
)

_WRITE = (
    Route(
        "POST /events",
        "post_events",
        "Add and remove edges. The answer comes when they are on disk and can be read. A bad event goes to "
        "the dead letters, the others are applied.",
        answers.Accepted,
        (
            Param("client", "Your name, if repeats are to be noticed: goes with sequence.", _NAME),
            Param(
                "sequence",
                "The number of the first event in this request; the next request goes on where it ends.",
                _NUMBER,
            ),
            Param(
                "expected",
                "The same number once more, where the answer was that the client is forgotten.",
                _NUMBER,
            ),
        ),
        takes=(JSON, NDJSON, ARROW),
        statuses=(409,),
    ),
)
_READ = (
    Route(
        "GET /vectors/{id}",
        "get_vector",
        "The vector of a node, now or as of a moment.",
        answers.OneVector,
        (_ID, _AS_OF),
        statuses=(404, 429),
    ),
    Route(
        "POST /vectors",
        "post_vectors",
        "The vectors of many nodes, now or as of a moment; Arrow, if you accept it.",
        answers.ManyVectors,
        (_AS_OF,),
        requests.VectorsRequest,
        (404,),
    ),
    Route(
        "GET /nearest/{id}",
        "get_nearest",
        "The nearest nodes of a node, by cosine.",
        answers.ScoredNodes,
        (_ID, _K, _KIND),
        statuses=(404,),
    ),
    Route(
        "POST /nearest",
        "post_nearest",
        "The nearest nodes to a vector, by cosine; or those of each of many nodes, by cosine or by the score "
        "of a link.",
        answers.ScoredNodes | answers.NearestOf,
        body=requests.NearestRequest,
    ),
    Route(
        "POST /score",
        "post_score",
        "How likely pairs of nodes are linked next.",
        answers.Scores,
        body=requests.ScoresRequest,
    ),
    Route(
        "GET /score/{id}",
        "get_score",
        "How likely a node is linked next with each of others.",
        answers.Scores,
        (
            _ID,
            Param("to", "The others, one parameter each.", {**_IDS, "minItems": 1}, True),
            _LINKS,
            Param("probability", "Probabilities in place of log-odds.", _BOOLEAN),
        ),
        statuses=(404,),
    ),
    Route(
        "GET /recommend/{id}",
        "get_recommended",
        "The nodes that a node is likeliest to link with, by the learned score.",
        answers.Recommended,
        (
            _ID,
            _K,
            Param("among", "Only these, one parameter each.", _IDS),
            Param("exclude_linked", "Leave out linked nodes; the default.", _BOOLEAN),
            _LINKS,
            _KIND,
        ),
        statuses=(404,),
    ),
    Route(
        "POST /recommend",
        "post_recommended",
        "The same, where `among` is too long for an address.",
        answers.Recommended,
        body=requests.RecommendRequest,
        statuses=(404,),
    ),
    Route(
        "GET /neighbors/{id}",
        "get_neighbors",
        "With how many nodes a node has an edge now, and the first of them by id.",
        answers.Neighbors,
        (_ID, Param("limit", "How many are named; 100 by default.", _COUNT, most="page_rows")),
        statuses=(404,),
    ),
    Route(
        "GET /explain/{id}",
        "get_explanation",
        "What each neighbour of a node adds to its vector, order by order.",
        answers.ExplainedVector,
        (_ID, replace(_K, about=f"How many neighbours; {DEFAULT_K} by default.")),
        statuses=(404,),
    ),
    Route(
        "POST /explain-change",
        "post_explained_change",
        "Which events of a change would move a node, and how far each. Nothing is changed.",
        answers.ExplainedMove,
        body=requests.ExplainChangeRequest,
        statuses=(404,),
    ),
    Route(
        "POST /what-if",
        "post_trial",
        "What would be after a change: which nodes move and how far, vectors, neighbours, recommendations, "
        "scores. Nothing is changed.",
        answers.WhatIfAnswer,
        body=requests.WhatIfRequest,
        statuses=(404,),
    ),
    Route(
        "GET /changes",
        "get_changes",
        "The nodes that changed after a cursor, each once: at once, after `wait` seconds at most, or, where "
        "`text/event-stream` is accepted, as a stream that goes on.",
        answers.Changes,
        (
            Param("since", "The `next` of an answer; without it, everything from the beginning.", _CURSOR),
            Param(
                "limit",
                "Rows in a page, moved and left together, and as many surprises; 100 by default.",
                _COUNT,
                most="page_rows",
            ),
            Param("wait", "Seconds to wait for news.", {**_SECONDS, "maximum": 60}),
        ),
        statuses=(429,),
    ),
    Route("GET /status", "get_status", "Everything worth knowing at a glance.", answers.ServiceStatus),
    Route(
        "GET /history",
        "get_history",
        "The load of the last hour: a sample every few seconds.",
        answers.LoadSamples,
        (Param("since", "Only samples behind it, in seconds since 1970.", _SECONDS),),
    ),
    Route(
        "GET /map",
        "get_map",
        "Some nodes in two dimensions, those with near vectors together; and where a node is among them.",
        answers.Map,
        (Param("node", "A node that is placed on the map in any case.", _TEXT),),
        statuses=(404,),
    ),
)
_ADMIN = (
    Route(
        "GET /dead-letters",
        "get_dead_letters",
        "Events that could not be applied, newest first.",
        answers.DeadLetters,
        (
            Param("limit", "How many; 100 by default.", {**_COUNT, "maximum": 1000}),
            Param("before", "Only those with a lower number.", _NUMBER),
            Param("stream", "Only those of a stream.", _TEXT),
            Param("reason", "Only those whose reason has these words in it.", _TEXT),
        ),
    ),
    Route(
        "POST /dead-letters/replay",
        "post_replay",
        "Apply dead letters again, as they are or corrected. A dead letter goes in the transaction that logs "
        "its event; one that cannot be applied stays, with its new reason.",
        answers.ReplayResult,
        body=requests.ReplayRequest,
    ),
    Route(
        "DELETE /dead-letters",
        "delete_dead_letters",
        "Discard dead letters: by number, or of a stream and a reason (1,000 at most).",
        answers.DiscardResult,
        (
            Param("number", "One parameter each.", {**_IDS, "items": _WHOLE}),
            Param("stream", "Those of a stream.", _TEXT),
            Param("reason", "Those whose reason has these words in it.", _TEXT),
        ),
    ),
    Route(
        "DELETE /nodes/{id}",
        "delete_node",
        "Forget a node: remove it from graph, model, log, snapshots, dead letters and sinks, and drop old "
        "events of it from now on. The answer comes when no file names it.",
        answers.NodeForgotten,
        (_ID,),
        statuses=(404, 429),
    ),
    Route(
        "DELETE /clients/{id}",
        "delete_client",
        "Follow a client no longer, so that another one can be followed.",
        answers.ClientForgotten,
        (Param("id", "The name of the client.", _NAME, True, place="path"),),
    ),
)
_OUTSIDE = (  # what has an address of its own by custom, in every version
    Route("GET /metrics", "get_metrics", "Counts and times for Prometheus.", media="text/plain"),
    Route("GET /livez", "get_alive", "Whether the process answers.", answers.Alive, scope="open"),
    Route("GET /readyz", "get_ready", "Whether requests should come.", answers.Ready, scope="open"),
    Route("GET /openapi.json", "get_openapi", "This description.", dict[str, Any]),
    Route("GET /", "get_page", "A page for people.", media="text/html"),
)
_IN_V1 = {"write": _WRITE, "read": _READ, "admin": _ADMIN}
ROUTES = (
    *(
        replace(one, request=f"{one.method} {V1}{one.path}", scope=scope)
        for scope, routes in _IN_V1.items()
        for one in routes
    ),
    *_OUTSIDE,
)
