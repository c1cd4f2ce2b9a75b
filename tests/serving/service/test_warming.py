"""Before a service is ready it has done once what requests ask for, and nothing of its own has changed."""

import asyncio
import subprocess
import sys

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.serving.service import app as web
from dygcn.serving.service.app import make_app
from dygcn.serving.service.lifetime import warm_up
from dygcn.serving.service.metrics import Metrics
from dygcn.serving.service.service import Service
from dygcn.serving.service.web import arrow_stream
from tests.live.test_rolled import model_of
from tests.seeded import ROOT
from tests.serving.service.conftest import EDGES
from tests.serving.service.serving import ARROW, NDJSON, on_loopback


def image(service):
    """Everything that a warm-up must leave alone."""
    live = service.live
    status = msgspec.to_builtins(service.report.status())
    del status["uptime"]
    files = {
        path.relative_to(live._folder): path.read_bytes()
        for path in live._folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")  # how far readers of the log are
    }
    cursor = live.feed.cursor
    with live.lock:
        page = live.feed.since("", 100)
    standing = (
        live.digest(),
        live.version,
        live.sequence,
        cursor,
        page.rows.ids.tolist(),
        live._log.last,
    )
    of_others = b"process_", b"dygcn_disk_free_bytes"  # whatever else runs on this machine
    metrics = [line for line in Metrics(service.report).text().splitlines() if not line.startswith(of_others)]
    return standing, dict(live.streams), status, files, metrics


def before_and_after(path):
    """Run what comes before a service is ready, except for the index, which is built beside it."""
    service = Service(on_loopback(path))
    service.start = lambda: None
    seen = [image(service)]

    async def run():
        app = make_app(service)
        async with app.router.lifespan_context(app):
            seen.append(image(service))

    asyncio.run(run())
    return seen


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_a_warm_up_changes_nothing_that_is_served(folder, kind):
    before, after = before_and_after(folder(kind))
    for was, now in zip(before, after, strict=True):
        assert now == was


@pytest.mark.parametrize(
    "touch",
    [
        lambda service: service.live.update(add=[(1, 2), (1, 9)]),
        lambda service: service.live.update(add=[(1, 2)]),
        lambda service: service.live.update(add=[(1, 3)], stream="http:warm", offset=0),
        lambda service: service.live._forget_stream("none") or service.live.feed.begin_epoch(),
        lambda service: service.reads.vector(1),
        lambda service: (service.live._folder / "warm").touch(),
    ],
    ids=["new edge", "known edge", "stream", "epoch", "counted read", "file"],
)
def test_a_warm_up_on_what_is_served_would_be_noticed(folder, monkeypatch, touch):
    served = []
    whole = Service.__init__
    monkeypatch.setattr(
        Service, "__init__", lambda self, settings: (whole(self, settings), served.append(self))[0]
    )
    monkeypatch.setattr(web, "warm_up", lambda model: touch(served[0]))
    with pytest.raises(AssertionError):
        test_a_warm_up_changes_nothing_that_is_served(folder, "int64")


# ---- what is imported ------------------------------------------------------------------------------------

_FIRST_REQUESTS = """
import sys
import dygcn.serving.service.app as web
from tests.serving.service.serving import ARROW, on_loopback, serving

folder, bodies, ids, warm = eval(sys.argv[1])
if not warm:
    web.warm_up = lambda model: None
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


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_no_request_has_to_import_anything(folder, kind):
    assert imported_late(folder(kind), kind) == []


def test_a_cold_start_would_be_noticed(folder):
    pytest.importorskip("pandas")
    assert "pandas" in imported_late(folder(), "int64", warm=False)


# ---- every model -----------------------------------------------------------------------------------------


def hashed(**options):
    return Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4), **options)


@pytest.mark.parametrize(
    "model",
    [
        lambda: hashed(),
        lambda: hashed(directed=True),
        lambda: hashed(half_life=3.0),
        lambda: hashed(unit=1.0),
        lambda: hashed(grid=64.0),
        lambda: hashed(grid=2.0**-60),
        lambda: dygcn.fit([(1, 2), (2, 3)], features=dygcn.Embedding([1, 2], np.eye(2)), orders=1).model,
        lambda: model_of("rolling"),
        lambda: model_of("spectral"),
    ],
    ids=["plain", "directed", "memory", "times", "coarse", "fine", "own vectors", "rolling", "spectral"],
)
def test_every_model_can_be_warmed_up(model, monkeypatch):
    made, applied = model(), []
    whole = State.apply
    monkeypatch.setattr(State, "apply", lambda self, batch: applied.append(len(batch)) or whole(self, batch))
    warm_up(made)
    assert applied == [1, 1, 1]
