"""Every refusal as a problem of RFC 9457: one table of types, and the answer that is made from it."""

from __future__ import annotations

from dataclasses import dataclass

from dygcn._extras import extra
from dygcn.errors import (
    DygcnError,
    EventError,
    FeatureError,
    NoSuchPast,
    OptionError,
    SequenceGap,
    StorageError,
    UnknownNode,
    WriteFailed,
)
from dygcn.schema import answers
from dygcn.serving.json_text import encode
from dygcn.serving.observing.request_ids import current_request_id
from dygcn.serving.service.bodies import TooManyMembers
from dygcn.serving.service.ingest_queue import Closing, Overloaded

with extra("serve"):
    from starlette.responses import Response

PROBLEM_JSON = "application/problem+json"
BASE = "/problems/"  # before the name of every type; the page of the documentation has these names as anchors
_COME_AGAIN = 5  # seconds, where an error does not say it


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A reason for a refusal: its name and status never change, its words may."""

    name: str
    status: int
    title: str
    remedy: str  # what whoever asked can do
    errors: tuple[type[DygcnError], ...] = ()  # and what inherits from them, unless another type has it


TYPES = (
    ProblemType(
        "bad-option", 400, "A part of the request is not allowed", "Mend what `detail` names.", (OptionError,)
    ),
    ProblemType(
        "bad-event", 400, "An event cannot be applied", "Mend the event; nothing was changed.", (EventError,)
    ),
    ProblemType(
        "bad-features",
        400,
        "Features, or an operation on them, do not fit the model",
        "Ask for what the model can do.",
        (FeatureError,),
    ),
    ProblemType("interrupted", 400, "The body ended too early", "Send the request again."),
    ProblemType("unauthorized", 401, "A token is needed", "Send a token that the settings name."),
    ProblemType(
        "forbidden", 403, "The token does not have the scope", "Use a token with the scope of the route."
    ),
    ProblemType(
        "unknown-node",
        404,
        "The node is not in the graph",
        "`node` has the id. It may come with a later event.",
        (UnknownNode,),
    ),
    ProblemType(
        "unknown-past",
        404,
        "The moment is not kept, or still to come",
        "Ask for a later moment, or keep more of the log.",
        (NoSuchPast,),
    ),
    ProblemType("not-found", 404, "There is no such route", "`detail` lists the routes."),
    ProblemType("method-not-allowed", 405, "The route has other methods", "See the header Allow."),
    ProblemType("too-slow", 408, "The body did not come in time", "Send it faster, or in parts."),
    ProblemType(
        "sequence-gap",
        409,
        "Earlier events of this client are missing",
        "Go on with the sequence `expected`.",
        (SequenceGap,),
    ),
    ProblemType(
        "forgotten-client",
        409,
        "The client was forgotten",
        "Go on with `expected` as sequence and as expected, if you know that all before it arrived.",
    ),
    ProblemType("too-large", 413, "The body is larger than allowed", "Send it in parts."),
    ProblemType(
        "too-many-members",
        413,
        "The compressed body has too many parts",
        "Compress it as one gzip member or zstd frame.",
        (TooManyMembers,),
    ),
    ProblemType("unsupported-media-type", 415, "The body is of another type", "Send what `detail` names."),
    ProblemType(
        "unsupported-encoding",
        415,
        "The body is compressed in another way",
        "Send gzip, zstd, or no `Content-Encoding`.",
    ),
    ProblemType(
        "misdirected", 421, "The service is not known by that host name", "Add the name to `http.names`."
    ),
    ProblemType(
        "overloaded",
        429,
        "Too much waits already",
        "Come again after `retry_after` seconds.",
        (Overloaded,),
    ),
    ProblemType(
        "too-many-clients",
        429,
        "No more clients can be followed",
        "Reuse a name, or have an administrator forget one.",
    ),
    ProblemType("internal-error", 500, "Something broke inside the service", "Its log says what."),
    ProblemType("closing", 503, "The service is going down", "Come again when it is back.", (Closing,)),
    ProblemType(
        "write-failed",
        503,
        "A write to disk failed, and events are refused",
        "Mend the disk and restart the service; acknowledged events are safe, reads go on.",
        (WriteFailed,),
    ),
    ProblemType("storage", 503, "The log cannot be used", "See the log of the service.", (StorageError,)),
    ProblemType("unavailable", 503, "The service cannot answer this now", "See `detail`.", (DygcnError,)),
    ProblemType("not-ready", 503, "The service is not ready for requests", "Come again; `detail` says why."),
    ProblemType("writer-gone", 503, "The writing process does not answer", "Come again; see the log."),
    ProblemType(
        "too-many-connections", 503, "There are too many connections", "Close some, or raise the limit."
    ),
)
BY_NAME = {one.name: one for one in TYPES}
_BY_ERROR = {error: one for one in TYPES for error in one.errors}


def type_of(error: DygcnError) -> ProblemType:
    """Return the type of an error: that of its nearest class."""
    return next(_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR)


def problem(
    name: str,
    detail: str,
    *,
    expected: int | None = None,
    retry_after: int | None = None,
    node: int | str | None = None,
    **headers: str,
) -> Response:
    """Return a refusal."""
    kind, request = BY_NAME[name], current_request_id()
    told = answers.Problem(
        BASE + name, kind.title, kind.status, detail, request or None, expected, retry_after, node
    )
    fields = {header.replace("_", "-"): value for header, value in headers.items()}
    if retry_after is not None:
        fields["Retry-After"] = str(retry_after)
    return Response(encode(told), kind.status, headers=fields, media_type=PROBLEM_JSON)


def refusal(error: DygcnError) -> Response:
    """Return the refusal that an error means."""
    kind = type_of(error)
    later = kind.status in (429, 503)
    return problem(
        kind.name,
        str(error),
        retry_after=getattr(error, "retry_after", _COME_AGAIN) if later else None,
        node=_shown(error.node) if isinstance(error, UnknownNode) else None,
    )


def _shown(node: object) -> int | str:
    return node if isinstance(node, int | str) else str(node)
