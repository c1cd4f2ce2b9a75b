"""The declaration of a route, beside its handler; authorization, metrics and OpenAPI page read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, get_args

from dygcn.engine.models.links import KINDS
from dygcn.engine.records import DEFAULT_K
from dygcn.live.durable.feed import PLACE_PATTERN
from dygcn.live.durable.past import MOMENT_PATTERN

V1 = "/v1"  # before the path of every route that programs use
JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
EVENT_STREAM = "text/event-stream"
FORMS = {JSON: "json", NDJSON: "ndjson", ARROW: "arrow"}  # of events
IDS_IN_QUERY = 100  # an address has a length; bodies take more
H = TypeVar("H", bound=Callable[..., Any])


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

    method: str
    path: str  # with the names of its parameters in braces
    handler: str  # a method of the handlers of a resource
    about: str  # its docstring
    answer: Any = None  # a struct, or a union of them; None: text
    params: tuple[Param, ...] = ()
    body: Any = None  # a struct
    statuses: tuple[int, ...] = ()  # besides 200, and those that every route has
    takes: tuple[str, ...] = ()  # media types of the body, if it is no struct
    media: str = JSON
    scope: str = "read"

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


TEXT, WHOLE, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
COUNT, SECONDS = {**WHOLE, "minimum": 1}, {"type": "number", "minimum": 0}
NUMBER = {**WHOLE, "minimum": 0, "maximum": 2**62}
IDS = {"type": "array", "items": TEXT, "maxItems": IDS_IN_QUERY}
NAME = {**TEXT, "minLength": 1, "maxLength": 100}
CURSOR = {**TEXT, "pattern": f"^({PLACE_PATTERN})?$"}
ID = Param("id", "The node, by your own id.", {**TEXT, "minLength": 1}, True, place="path")
K = Param("k", f"How many; {DEFAULT_K} by default.", COUNT, most="k")
KIND = Param("kind", 'Of the answers, where nodes have kinds; "*": every kind.', TEXT)
LINKS = Param("links", "Which links the score is about.", {"enum": list(KINDS)})
AS_OF = Param(
    "as_of",
    "A moment of the past: a sequence, seconds since 1970 with a decimal point, or a time with its zone "
    "(2026-11-10T12:00Z). The answer has the digest of that moment. One moment is rebuilt at a time.",
    {**TEXT, "pattern": f"^({MOMENT_PATTERN})$"},
)


def route(request: str, answer: Any = None, params: tuple[Param, ...] = (), **more: Any) -> Callable[[H], H]:
    """Declare the route of a handler, whose docstring says what it is about; `more` are fields of `Route`."""

    def declare(handler: H) -> H:
        method, _, path = request.partition(" ")
        about = " ".join((handler.__doc__ or "").split())
        found = Route(method, path, handler.__name__, about, answer, params, **more)
        handler.route = found  # type: ignore[attr-defined]
        return handler

    return declare
