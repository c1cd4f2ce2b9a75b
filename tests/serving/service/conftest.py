"""Folders and services for the tests of this room."""

from contextlib import ExitStack

import pytest

import dygcn
from tests.serving.service.serving import on_loopback, serving

EDGES = {
    "int64": [(1, 2), (2, 3), (3, 4), (4, 5), (1, 5)],
    "string": [("ann", "bob"), ("bob", "cat"), ("cat", "dan"), ("dan", "eve"), ("ann", "eve")],
}


@pytest.fixture(scope="session")
def models():
    return {kind: dygcn.fit(edges, dim=8).model for kind, edges in EDGES.items()}


@pytest.fixture(scope="module")
def quiet(models, tmp_path_factory):
    """One service for all tests of a module that neither write to it nor change it."""
    live = dygcn.start(models["int64"])
    live.update(add=EDGES["int64"])
    live.save(path := tmp_path_factory.mktemp("quiet") / "graph")
    with serving(on_loopback(path)) as served:
        yield served


@pytest.fixture
def folder(models, tmp_path):
    """Make a folder with a graph; return its path."""
    made = []

    def make(kind="int64", edges=None):
        live = dygcn.start(models[kind])
        edges = EDGES[kind] if edges is None else edges
        if edges:
            live.update(add=edges)
        path = tmp_path / f"graph-{len(made)}"
        live.save(path)
        made.append(path)
        return path

    return make


@pytest.fixture
def serve(folder):
    """Serve a graph over HTTP; everything is drained at the end of the test."""
    with ExitStack() as stack:

        def start(kind="int64", edges=None, *, path=None, sources=(), sinks=(), **settings):
            path = folder(kind, edges) if path is None else path
            return stack.enter_context(serving(on_loopback(path, **settings), sources=sources, sinks=sinks))

        yield start
