"""Python, the client, HTTP and the command line call the same things by the same names."""

import importlib
import inspect

import msgspec
import pytest

import dygcn
from dygcn.client import AsyncClient, Client
from dygcn.engine.events import ColumnOptions
from dygcn.serving.service.app import ROUTES
from tests.verbs import COLUMNS, VERBS

LIVE = {
    "bulk",
    "digest",
    "edge_count",
    "edges",
    "error_bound",
    "explain",
    "explain_change",
    "features",
    "ids",
    "link_vectors",
    "model",
    "nearest",
    "neighbors",
    "plot",
    "publish",
    "recommend",
    "recompute",
    "refit",
    "restart",
    "save",
    "score",
    "set_features",
    "to_arrow",
    "to_networkx",
    "to_pandas",
    "track",
    "unreached",
    "update",
    "vector",
    "vectors",
    "version",
    "what_if",
}
DURABLE = LIVE | {"close", "feed", "forget", "lock", "sequence", "snapshot", "streams"}
CLIENT_ALONE = {"changes", "close", "dead_letters", "discard", "page", "position", "ready"}
CLIENT_ALONE |= {"replay", "status"}
GENERAL = {"folder", "as_json", "form"}  # of commands: where the embedding is, how to print, how to read


def public(one):
    return {name for name in dir(one) if not name.startswith("_")}


def test_what_users_are_shown(tmp_path):
    live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    assert public(live) == LIVE
    with dygcn.open(tmp_path / "x", live) as durable:
        assert public(durable) == DURABLE
    assert public(Client) == public(AsyncClient) == CLIENT_ALONE | {n for n, v in VERBS.items() if v.client}


def options_of(method):
    names = set(inspect.signature(method).parameters) - {"self"}
    return names - {"names"} | (set(ColumnOptions.__annotations__) if "names" in names else set())


def unknown(verb, options, more=""):
    return options - set(f"{verb.options} {more}".split()) - set(COLUMNS.split())


def of_route(route):
    body = set() if route.body is None else {field.name for field in msgspec.structs.fields(route.body)}
    return {"node" if name == "id" else name for name in {param.name for param in route.params} | body}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_the_same_options_everywhere(name):
    verb = VERBS[name]
    kinds = [(dygcn.DurableEmbedding, verb.durable_only)]
    kinds += [(dygcn.LiveEmbedding, "")] if verb.live else []
    kinds += [(Client, verb.client_only), (AsyncClient, verb.client_only)] if verb.client else []
    for kind, more in kinds:
        assert not unknown(verb, options_of(getattr(kind, name)), more), kind
    routes = {f"{route.method} {route.path}": route for route in ROUTES}
    for path in verb.routes:
        assert not unknown(verb, of_route(routes[path]), f"{verb.http_only} node"), path
        if name not in (
            "update",
            "vector",
            "forget",
        ):  # events, vectors and nodes: the things, for GET and DELETE
            assert name.replace("_", "-") in path
    if verb.command:
        main = importlib.import_module("dygcn.cli.main")
        options = {param.name for param in main.main.get_command(None, verb.command).params}
        assert not unknown(verb, options - GENERAL, verb.command_only)
        assert verb.command == name.replace("_", "-")


def test_an_option_of_another_name_would_be_noticed():
    assert unknown(VERBS["nearest"], {"node", "topn"}) == {"topn"}


def test_columns_are_those_of_events():
    assert set(COLUMNS.split()) == set(ColumnOptions.__annotations__)
