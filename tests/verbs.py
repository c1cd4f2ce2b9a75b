"""One set of verbs for Python, the client, HTTP and the command line; a test compares the four with it."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = "columns src dst t op weight shared_ids relation"
"""Options of every verb that takes events: what a table calls its columns."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, its options, and the surfaces that have it; options are names between spaces."""

    options: str  # the same name wherever a surface has the option
    routes: tuple[str, ...] = ()  # of HTTP; none: it has no such request
    command: str = ""  # of the command line; none: it has no such command
    live: bool = True  # whether every embedding has it; else only a durable one
    client: bool = True
    durable_only: str = ""  # options that one surface alone has, or calls otherwise, and why:
    client_only: str = ""
    http_only: str = ""
    command_only: str = ""


VERBS = {
    "update": Verb(
        "events add remove remove_nodes now",
        ("POST /v1/events",),
        "update",
        durable_only="stream offset",  # where the events come from
        client_only="kinds",  # a client does not know which kinds the graph has
        http_only="client sequence expected",  # by which repeats are noticed
    ),
    "vector": Verb("node as_of", ("GET /v1/vectors/{id}",), "vector", command_only="ids out"),
    "vectors": Verb("ids as_of", ("POST /v1/vectors",)),
    "nearest": Verb(
        "node k among kind as_of",
        ("GET /v1/nearest/{id}", "POST /v1/nearest"),
        "nearest",
        http_only="ids vector",  # JSON has a field for each thing that a node may be
        command_only="ids",
    ),
    "recommend": Verb(
        "node k among exclude_linked links kind as_of",
        ("GET /v1/recommend/{id}", "POST /v1/recommend"),
        "recommend",
        command_only="linked",  # a flag says the opposite of exclude_linked
    ),
    "score": Verb(
        "a b links probability missing as_of",
        ("POST /v1/score",),
        "score",
        http_only="pairs",
    ),
    "neighbors": Verb("node limit", ("GET /v1/neighbors/{id}",)),
    "explain": Verb(
        "node shares k as_of",
        ("GET /v1/explain/{id}",),
        "explain",
        command_only="events now",  # with events, it is explain_change
    ),
    "explain_change": Verb("node events add remove now", ("POST /v1/explain-change",)),
    "what_if": Verb(
        "events add remove remove_nodes now moved vectors nearest recommend scores k links as_of",
        ("POST /v1/what-if",),
        "what-if",
        command_only="nodes ask",  # --remove-node, --ask
    ),
    "forget": Verb(
        "ids t",
        ("DELETE /v1/nodes/{id}",),
        "forget",
        live=False,
        client_only="node",  # a request forgets one
    ),
    "refit": Verb("progress", command="refit", client=False, command_only="out"),
}
