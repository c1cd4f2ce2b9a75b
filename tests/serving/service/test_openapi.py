"""The description of the service, and whether the service does what it says, asked by a stranger."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import get_args

import httpx
import msgspec
import numpy as np
import pytest

from dygcn.engine.records import Float64
from dygcn.schema import answers
from dygcn.serving.json_text import encode
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.openapi import describe
from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import on_loopback, serving

# Bad events are taken, and go to the dead letters. Two parameters that belong together, and places that
# have not come yet, are more than a schema can say; so are probabilities, which a model may not have, and
# changes that cannot be tried.
CONFIG = """
[warnings]
enabled = false

[[operations]]
include-name = "POST /v1/events"
checks.negative_data_rejection.enabled = false
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "409"]

[[operations]]
include-name = "POST /v1/what-if"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404"]

[[operations]]
include-name = "POST /v1/explain-change"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404"]

[[operations]]
include-name = "POST /v1/nearest"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

[[operations]]
include-name = "POST /v1/score"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

[[operations]]
include-name = "POST /v1/dead-letters/replay"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

[[operations]]
include-name = "DELETE /v1/dead-letters"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

[[operations]]
include-name = "GET /v1/changes"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]
"""


def stranger(address, folder, *options, examples=10):
    """Have schemathesis read the description and ask everything in it."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    asked = ["run", f"{address}/openapi.json", "--max-examples", str(examples), "--no-color", *options]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), *asked]
    command += ["--generation-deterministic", "--wait-for-schema", "5"]
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "tests.serving.service.fuzzing_hooks",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment, check=False
    )


def check_nothing_is_wrong(served, tmp_path, *options, examples):
    found = stranger(served.address, tmp_path, *options, examples=examples)
    assert served.get("/readyz").json() == {"ready": True, "accepting": True}
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    generated = re.search(r"(\d+) generated", found.stdout)
    assert int(generated[1]) > 300


@pytest.mark.slow
def test_a_stranger_finds_nothing_wrong(folder, tmp_path):
    with serving(on_loopback(folder())) as served:
        check_nothing_is_wrong(served, tmp_path, examples=10)


def test_a_stranger_with_a_token_finds_nothing_wrong(folder, tmp_path):
    secret, token = new_token("stranger", ["admin"])
    with serving(on_loopback(folder("string"), tokens=[token])) as served:
        check_nothing_is_wrong(served, tmp_path, "-H", f"Authorization: Bearer {secret}", examples=8)


def test_a_wrong_answer_would_be_noticed(folder, tmp_path, monkeypatch):
    """A status without its nodes, a refusal that is a server error, and a route that forgets the token."""
    secret, token = new_token("stranger", ["admin"])

    class Lessened(msgspec.Struct):
        sequence: int

    monkeypatch.setattr("dygcn.serving.service.status.StatusReport.status", lambda self: Lessened(-1))
    monkeypatch.setattr("dygcn.serving.service.status.Metrics.collect", lambda self: iter(()))
    monkeypatch.setattr(
        "dygcn.serving.service.web.RequestParser.check_count", lambda self, count, most, what: [][count]
    )
    status = "dygcn.serving.service.auth.Authorizer.status"
    with serving(on_loopback(folder(), tokens=[token], limits=Limits(ids=2))) as served:
        monkeypatch.setattr(status, lambda self, scope, authorization, host: 200)
        header = f"Authorization: Bearer {secret}"
        asked = ["--include-path", "/v1/status", "--include-path", "/v1/vectors"]
        found = stranger(served.address, tmp_path, "-H", header, *asked, examples=5)
    assert found.returncode == 1
    assert "Response violates schema" in found.stdout
    assert "Server error" in found.stdout
    assert "authentication" in found.stdout


# ---- the description itself ----------------------------------------------------------------------------


def test_every_route_is_described():
    described = describe(ROUTES)
    assert {(path, method) for path, ways in described["paths"].items() for method in ways} == {
        (route.path, route.method.lower()) for route in ROUTES
    }
    names = [one["operationId"] for ways in described["paths"].values() for one in ways.values()]
    assert len(set(names)) == len(names)
    assert json.loads(json.dumps(described)) == described


def test_every_reference_leads_somewhere():
    described = describe(ROUTES, Limits(), "int64", 8)
    schemas = described["components"]["schemas"]
    used = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(described)))
    assert used <= set(schemas)
    assert {"Event", "Problem", "Changes", "ServiceStatus"} <= used


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: f"{one.method} {one.path}")
def test_what_can_happen_is_described(route):
    result = set(map(int, describe(ROUTES)["paths"][route.path][route.method.lower()]["responses"]))
    assert {200, 421, 503} <= result
    assert ({401, 403} <= result) is (route.scope != "open")
    assert ({408, 413, 415, 429} <= result) is bool(route.forms)
    for status in (429, 503):
        answer = describe(ROUTES)["paths"][route.path][route.method.lower()]["responses"].get(str(status))
        assert answer is None or "Retry-After" in answer["headers"]


def test_what_the_service_allows_is_in_it(serve):
    limits = Limits(ids=7, k=8, page_rows=9)
    served = serve("string", limits=limits)
    described = served.get("/openapi.json").json()
    schemas = described["components"]["schemas"]
    assert schemas["Event"]["properties"]["src"]["type"] == "string"
    vector = schemas["NearestRequest"]["properties"]["vector"]
    assert (vector["minItems"], vector["maxItems"]) == (8, 8)
    assert schemas["NearestRequest"]["properties"]["k"]["maximum"] == 8
    assert schemas["VectorsRequest"]["properties"]["ids"]["maxItems"] == 7
    parameters = {
        (path, one["name"]): one["schema"].get("maximum")
        for path, ways in described["paths"].items()
        for way in ways.values()
        for one in way["parameters"]
    }
    assert parameters["/v1/nearest/{id}", "k"] == 8
    assert parameters["/v1/changes", "limit"] == 9


def test_who_may_is_in_it(folder):
    for guarded, expected in ((True, 2), (False, 0), (None, 3)):
        described = describe(ROUTES, guarded=guarded)["paths"]
        for route in ROUTES:
            security = described[route.path][route.method.lower()].get("security")
            assert (security is None) if route.scope == "open" else len(security) == expected


def as_array(kind, values):
    return np.array(values, np.float64 if kind == Float64 else np.float32)


def as_a_client(body, shape):
    """Decode an answer to one of its shapes."""
    for one in get_args(shape) if isinstance(shape, UnionType) else (shape,):
        with suppress(msgspec.ValidationError):
            return msgspec.json.decode(body, type=one, dec_hook=as_array)
    raise AssertionError(f"{body[:100]} is no {shape}")


def test_answers_are_what_is_described(serve):
    """Every answer of a quiet service, read back into the struct that the description was made from."""
    served = serve("string")
    served.post([{"src": "x", "dst": "y"}, {"src": 1}])
    asked = {
        "get_vector": served.get("/v1/vectors/ann"),
        "post_vectors": served.ask("/v1/vectors", {"ids": ["ann", "nobody"]}),
        "get_nearest": served.get("/v1/nearest/ann"),
        "post_nearest": served.ask("/v1/nearest", {"vector": [1.0] * 8}),
        "post_score": served.ask("/v1/score", {"pairs": [["ann", "bob"], ["ann", "nobody"]]}),
        "get_recommended": served.get("/v1/recommend/ann"),
        "post_recommended": served.ask("/v1/recommend", {"id": "ann", "among": ["cat", "nobody"]}),
        "get_neighbors": served.get("/v1/neighbors/ann"),
        "get_explanation": served.get("/v1/explain/ann"),
        "post_explained_change": served.ask("/v1/explain-change", {"id": "ann", "add": [["ann", "cat"]]}),
        "post_trial": served.ask(
            "/v1/what-if", {"add": [["ann", "cat"]], "vectors": ["ann"], "nearest": ["zoe"]}
        ),
        "get_changes": served.get("/v1/changes"),
        "get_status": served.get("/v1/status"),
        "get_history": served.get("/v1/history"),
        "get_map": served.get("/v1/map", node="ann"),
        "get_dead_letters": served.get("/v1/dead-letters"),
        "get_alive": served.get("/livez"),
        "get_ready": served.get("/readyz"),
        "get_openapi": served.get("/openapi.json"),
        "post_events": served.post([{"src": "x", "dst": "y"}]),
        "post_replay": served.ask("/v1/dead-letters/replay", {"stream": "nobody"}),
        "delete_dead_letters": served.client.delete("/v1/dead-letters?number=99"),
        "delete_client": served.client.delete("/v1/clients/nobody"),
        "delete_node": served.client.delete("/v1/nodes/nobody"),
    }
    structs = {route.handler: route.answer for route in ROUTES if route.answer is not None}
    assert set(asked) == set(structs)
    for name, answer in asked.items():
        assert answer.status_code == 200
        found = as_a_client(answer.content, structs[name])
        again = msgspec.json.decode(encode(found))
        assert again == answer.json()  # nothing more, nothing less
    refused = msgspec.json.decode(served.get("/v1/vectors/nobody").content, type=answers.Problem)
    assert refused.type == "/problems/unknown-node"
    assert refused.node == "nobody"


def test_the_description_needs_the_scope_read(folder):
    secret, token = new_token("writer", ["write"])
    with serving(on_loopback(folder(), tokens=[token])) as served:
        headers = {"authorization": f"Bearer {secret}"}
        assert httpx.get(f"{served.address}/openapi.json", timeout=60).status_code == 401
        assert httpx.get(f"{served.address}/openapi.json", headers=headers, timeout=60).status_code == 403
