"""The OpenAPI description, generated from the routes and from the types of requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dygcn import __version__
from dygcn.engine.events.kinds import kinds_of
from dygcn.schema import VERSION, answers
from dygcn.serving.service.cost_estimate import ROWS_RANKED
from dygcn.serving.service.problems import BASE, PROBLEM_JSON, TYPES
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.web import ARROW, JSON, NDJSON, Route

_RETRY = {"Retry-After": {"description": "Seconds to stay away.", "schema": {"type": "integer"}}}
_TOKEN: list[dict[str, Any]] = [{"bearer": []}, {"basic": []}]
_SECURITY = {True: _TOKEN, False: [], None: [*_TOKEN, {}]}
_ID_SCHEMAS = {
    "int64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "string": {"type": "string", "maxLength": 256},
}


def describe(
    routes: Sequence[Route],
    limits: Limits | None = None,
    kind: str | None = None,
    dim: int | None = None,
    *,
    guarded: bool | None = None,
) -> dict[str, Any]:
    """Return the description as OpenAPI 3.1."""
    limits = Limits() if limits is None else limits
    shapes = {shape: shape for route in routes for shape in (*route.shapes, route.body) if shape is not None}
    schemas, components = msgspec.json.schema_components(
        [*shapes, answers.Problem], schema_hook=_array, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip([*shapes, answers.Problem], schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known, limits)
        if route.scope != "open":
            paths[route.path][route.method.lower()]["security"] = _SECURITY[guarded]
    components["Problem"]["properties"]["type"]["enum"] = [BASE + one.name for one in TYPES]
    _bound(components, limits, dim)
    if kind is not None:
        _name_kinds(paths, components, kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dygcn",
            "version": __version__,
            "x-schema": VERSION,
            "description": "Live node embeddings for graphs that never stop changing.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Event": _event(kind)},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _array(kind: Any) -> dict[str, Any]:
    """Return the schema of a NumPy array whose field does not say more."""
    if kind is not np.ndarray:
        raise NotImplementedError
    return {"type": "array", "items": {"type": "number"}}


def _event(kind: str | None) -> dict[str, Any]:
    kinds = None if kind is None else kinds_of(kind)
    node = {"oneOf": list(_ID_SCHEMAS.values())} if kind is None or kinds is not None else _ID_SCHEMAS[kind]
    more: dict[str, Any] = {}
    if kinds is not None:
        more = {end: {"enum": [*kinds.names, None]} for end in ("src_kind", "dst_kind")}
    return {
        "type": "object",
        "required": ["src", "dst"],
        "properties": {
            "src": node,
            "dst": node,
            "op": {"enum": [1, -1, "add", "remove"], "description": "+1 adds or replaces, -1 removes."},
            "weight": {"type": "number", "exclusiveMinimum": 0},
            "t": {"type": "number"},
            "relation": {"type": "string", "description": "Of a model with relations: which one."},
            **more,
        },
    }


def _bound(components: dict[str, Any], limits: Limits, dim: int | None) -> None:
    components["VectorsRequest"]["properties"]["ids"]["maxItems"] = limits.ids
    components["ScoresRequest"]["properties"]["pairs"]["maxItems"] = limits.ids
    wanted = components["NearestRequest"]["properties"]
    wanted["k"]["maximum"] = limits.k
    wanted["ids"]["maxItems"] = min(limits.ids, limits.query_rows // ROWS_RANKED)
    components["NearestRequest"]["oneOf"] = [
        {"required": ["vector"], "not": {"required": ["ids"]}},
        {"required": ["ids"], "not": {"required": ["vector"]}},
    ]
    if dim is not None:
        wanted["vector"] |= {"minItems": dim, "maxItems": dim}
    components["RecommendRequest"]["properties"]["k"]["maximum"] = limits.k
    trial = components["WhatIfRequest"]["properties"]
    events = {"type": "array", "items": {"$ref": "#/components/schemas/Event"}}
    trial["events"] = components["ExplainChangeRequest"]["properties"]["events"] = events
    trial["k"]["maximum"], trial["moved"]["maximum"] = limits.k, limits.page_rows


def _name_kinds(paths: dict[str, Any], components: dict[str, Any], ids: str) -> None:
    """Write the kinds of the graph into the schemas; "*" is every kind, also in a graph without kinds."""
    known = kinds_of(ids)
    names = ["*", *(() if known is None else known.names)]
    for route in paths.values():
        for operation in route.values():
            for param in operation["parameters"]:
                if param["name"] == "kind":
                    param["schema"] = {"enum": names}
    for wanted in ("NearestRequest", "RecommendRequest"):
        components[wanted]["properties"]["kind"] = {"enum": [*names, None], "default": None}


def _statuses(route: Route) -> list[int]:
    statuses = {*route.statuses, 400, 421, 503}
    if route.scope != "open":
        statuses |= {401, 403}
    if route.forms:
        statuses |= {408, 413, 415, 429}
    return sorted(statuses)


def _reasons(status: int) -> str:
    return " ".join(f"{one.title} (`{BASE}{one.name}`)." for one in TYPES if one.status == status)


def _operation(route: Route, known: dict[Any, Any], limits: Limits) -> dict[str, Any]:
    shapes = [known[shape] for shape in route.shapes] or [{"type": "string"}]
    content = {route.media: {"schema": shapes[0] if len(shapes) == 1 else {"anyOf": shapes}}}
    if route.handler == "post_vectors":
        content[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    if route.handler == "get_changes":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    refused = {PROBLEM_JSON: {"schema": known[answers.Problem]}}
    operation: dict[str, Any] = {
        "operationId": route.handler,
        "summary": route.about,
        "parameters": [
            {
                "name": param.name,
                "in": param.place,
                "required": param.required,
                "description": param.about,
                "schema": param.schema | ({"maximum": getattr(limits, param.most)} if param.most else {}),
            }
            for param in route.params
        ],
        "responses": {
            "200": {"description": "Done.", "content": content},
            **{
                str(code): {
                    "description": _reasons(code),
                    "content": refused,
                    **({"headers": _RETRY} if code in (429, 503) else {}),
                }
                for code in _statuses(route)
            },
        },
    }
    if route.forms:
        operation["requestBody"] = {
            "required": True,
            "content": {f: _form(route, f, known) for f in route.forms},
        }
    if route.scope != "open":
        operation["description"] = f"Needs the scope {route.scope!r}, where tokens are set."
    return operation


def _form(route: Route, form: str, known: dict[Any, Any]) -> dict[str, Any]:
    event = {"$ref": "#/components/schemas/Event"}
    if route.body is not None:
        return {"schema": known[route.body]}
    if form == JSON:
        return {"schema": {"oneOf": [event, {"type": "array", "items": event}]}}
    return {"schema": {"type": "string", **({} if form == NDJSON else {"format": "binary"})}}
