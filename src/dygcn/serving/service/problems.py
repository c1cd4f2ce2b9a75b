"""Every refusal as a problem of RFC 9457: one table of types, and the responses made from it."""

from __future__ import annotations

from dataclasses import dataclass

from dygcn import errors
from dygcn._extras import extra
from dygcn.schema import answers
from dygcn.serving.json_text import encode
from dygcn.serving.observing.request_ids import REQUEST_ID
from dygcn.serving.service.bodies import TooManyMembers
from dygcn.serving.service.ingest_queue import Closing, Overloaded

with extra("serve"):
    from starlette.responses import Response

PROBLEM_JSON = "application/problem+json"
BASE = "/problems/"  # before the name of every type; the page of the documentation has these names as anchors
_COME_AGAIN = 5  # seconds, where an error does not say it


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A type of refusal: its name and status never change, its wording may."""

    status: int
    name: str
    title: str


_TITLES: dict[int, dict[str, str]] = {  # by status and name; what a client can do is in docs/problems.md
    400: {
        "bad-option": "A part of the request is not allowed",
        "bad-event": "An event cannot be applied",
        "bad-features": "Features, or an operation, do not fit the model or its shards",
        "interrupted": "The body ended too early",
    },
    401: {"unauthorized": "A token is needed"},
    403: {"forbidden": "The token does not have the scope"},
    404: {
        "unknown-node": "The node is not in the graph",
        "unknown-past": "The moment is not kept, or still to come",
        "not-found": "There is no such route",
    },
    405: {"method-not-allowed": "The route has other methods"},
    408: {"too-slow": "The body did not come in time"},
    409: {
        "sequence-gap": "Earlier events of this client are missing",
        "forgotten-client": "The client was forgotten",
    },
    413: {
        "too-large": "The body is larger than allowed",
        "too-many-members": "The compressed body has too many parts",
    },
    415: {
        "unsupported-media-type": "The body is of another type",
        "unsupported-encoding": "The body is compressed in another way",
    },
    421: {"misdirected": "The service is not known by that host name"},
    429: {"overloaded": "Too much waits already", "too-many-clients": "No more clients can be followed"},
    500: {"internal-error": "Something broke inside the service"},
    503: {
        "closing": "The service is going down",
        "write-failed": "A write to disk failed, and events are refused",
        "storage": "The log cannot be used",
        "unavailable": "The service cannot answer this now",
        "not-ready": "The service is not ready for requests",
        "writer-gone": "The writing process does not answer",
        "too-many-connections": "There are too many connections",
    },
}
OF_ERRORS: dict[type[errors.DygcnError], str] = {  # and of what inherits from them, unless it has its own
    errors.OptionError: "bad-option",
    errors.EventError: "bad-event",
    errors.FeatureError: "bad-features",
    errors.UnknownNode: "unknown-node",
    errors.NoSuchPast: "unknown-past",
    errors.SequenceGap: "sequence-gap",
    TooManyMembers: "too-many-members",
    Overloaded: "overloaded",
    Closing: "closing",
    errors.WriteFailed: "write-failed",
    errors.StorageError: "storage",
    errors.DygcnError: "unavailable",
}
TYPES = tuple(ProblemType(status, *row) for status, rows in _TITLES.items() for row in rows.items())
BY_NAME = {one.name: one for one in TYPES}


def type_of(error: errors.DygcnError) -> ProblemType:
    """Return the problem type of an error, by its nearest base class in the table."""
    return next(BY_NAME[OF_ERRORS[kind]] for kind in type(error).__mro__ if kind in OF_ERRORS)


def problem(
    name: str,
    detail: str,
    *,
    expected: int | None = None,
    retry_after: int | None = None,
    node: int | str | None = None,
    **headers: str,
) -> Response:
    """Return a response with a problem."""
    kind, request = BY_NAME[name], REQUEST_ID.get()
    told = answers.Problem(
        BASE + name, kind.title, kind.status, detail, request or None, expected, retry_after, node
    )
    fields = {header.replace("_", "-"): value for header, value in headers.items()}
    if retry_after is not None:
        fields["Retry-After"] = str(retry_after)
    return Response(encode(told), kind.status, headers=fields, media_type=PROBLEM_JSON)


def refusal(error: errors.DygcnError) -> Response:
    """Return the response to an error."""
    kind = type_of(error)
    later = kind.status in (429, 503)
    return problem(
        kind.name,
        str(error),
        retry_after=getattr(error, "retry_after", _COME_AGAIN) if later else None,
        node=_shown(error.node) if isinstance(error, errors.UnknownNode) else None,
    )


def _shown(node: object) -> int | str:
    return node if isinstance(node, int | str) else str(node)
