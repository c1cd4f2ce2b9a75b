"""No request of a service that is ready has to import anything."""

import subprocess
import sys

import msgspec
import pyarrow as pa
import pytest

from dygcn.serving.service.web import arrow_stream
from tests.seeded import ROOT
from tests.serving.service.conftest import EDGES
from tests.serving.service.serving import ARROW, NDJSON

_FIRST_REQUESTS = """
import sys
import dygcn.serving.service.app as web
from tests.serving.service.serving import ARROW, on_loopback, serving

folder, bodies, ids, warm = eval(sys.argv[1])
if not warm:
    web.warm_up = lambda: None
with serving(on_loopback(folder)) as served:
    assert served.get("/livez").status_code == 200
    known = set(sys.modules)
    for form, body in bodies.items():
        assert served.post(body, form=form).json()["applied"] == 1
    paths = [f"/v1/{name}" for name in (f"vectors/{ids[0]}", f"nearest/{ids[0]}", "changes", "status", "map")]
    for path in (*paths, "/metrics"):
        assert served.get(path).status_code == 200
    for accept in ("application/json", ARROW):
        assert served.ask("/v1/vectors", {"ids": ids}, accept=accept).status_code == 200
    assert served.ask("/v1/nearest", {"vector": [0.5] * 8}).status_code == 200
    assert served.ask("/v1/score", {"pairs": [ids]}).status_code == 200
    print(*sorted(set(sys.modules) - known))
"""


def imported_late(path, kind, *, warm=True):
    """Return the modules that requests import from a service that is ready."""
    src, dst = EDGES[kind][0]
    event = {"src": src, "dst": dst}
    bodies = {
        "application/json": msgspec.json.encode([event]),
        NDJSON: msgspec.json.encode(event),
        ARROW: arrow_stream(pa.Table.from_pylist([event])),
    }
    result = repr((str(path), bodies, [src, dst], warm))
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_REQUESTS, result], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_no_request_has_to_import_anything(folder):
    assert imported_late(folder("string"), "string") == []


def test_a_cold_start_would_be_noticed(folder):
    pytest.importorskip("pandas")
    assert "pandas" in imported_late(folder(), "int64", warm=False)
