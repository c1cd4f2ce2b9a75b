"""One table of pgvector, several histories: a refitted model, and a folder that is restored from a copy."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dygcn
from dygcn._extras import extra
from dygcn.serving.service import workers as workers
from dygcn.serving.service.service import Service
from dygcn.serving.service.workers import SAME, Verdict
from dygcn.serving.sinks import PostgresSettings
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.testbed.postgres import postgres_server
from dygcn_lab.testbed.seeding import seeded
from dygcn_lab.testbed.served import on_loopback, served

_PATIENCE, _TRIES = 120.0, 2  # seconds; failures of a sink after which it will not catch up
_TABLE = "vectors"


def _model(nodes: int, seed: int) -> dygcn.LiveEmbedding:
    random = np.random.default_rng(0)
    src, dst = random.integers(0, nodes, (2, 4 * nodes))
    ring = np.arange(nodes)
    events = {"src": np.append(src, ring), "dst": np.append(dst, (ring + 1) % nodes)}
    return dygcn.fit(events, dim=16, width=32, seed=seed)


class Table:
    """The table, read as whoever uses the vectors reads it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def differences(self, live: dygcn.EmbeddingView) -> int:
        """Return how many rows are not those that are served: other bits, missing, or too many."""
        with extra("postgres"):
            import psycopg  # noqa: PLC0415 - an extra

        with psycopg.connect(self.url) as connection:
            rows = connection.execute(f"SELECT id, vector::text FROM {_TABLE}").fetchall()
        found = {id_: np.array(json.loads(text), np.float32).tobytes() for id_, text in rows}
        ids = live.ids().tolist()
        right = dict(zip(ids, map(bytes, live.vectors(ids)), strict=True))
        return sum(found.get(id_) != right.get(id_) for id_ in found.keys() | right.keys())


def _caught_up(service: Service) -> dict[str, Any]:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        sink = service.report.status().sinks[0]
        if sink["behind"] == 0 and sink["history"] not in (None, "rewriting") and sink["failure"] is None:
            return sink
        if sink["failures"] > _TRIES:
            break
        time.sleep(0.05)
    raise AssertionError(f"the sink does not catch up: {service.report.status().sinks}")


def _serve(folder: Path, table: Table, events: int, first: int) -> tuple[int, str]:
    """Serve a folder until the sink has all; return the rows that differ, and what `/v1/status` says."""
    sink = PostgresSettings(url=table.url, table=_TABLE)
    with served(msgspec.structs.replace(on_loopback(folder), sinks=[sink])) as one:
        _caught_up(one.service)
        for number in range(events):
            one.service.live.update(add=[(first + number, number)])
            for wake in one.service.listeners:
                wake()
        said = _caught_up(one.service)
        with one.service.live.lock:
            return table.differences(one.service.live), str(said["history"])


def play(folder: Path, table: Table, nodes: int) -> dict[str, dict[str, Any]]:
    """Write the histories into the table, one after the other; return what each left."""
    figures: dict[str, dict[str, Any]] = {}

    def note(name: str, found: tuple[int, str]) -> None:
        figures[name] = {"rows that differ": found[0], "status": found[1]}

    _model(nodes, seed=0).save(folder / "first")
    note("the first model", _serve(folder / "first", table, 40, 10 * nodes))
    _model(nodes, seed=1).save(folder / "second")
    note("refitted, into the same table", _serve(folder / "second", table, 10, 20 * nodes))
    shutil.copytree(folder / "second", folder / "backup")
    note("it goes on", _serve(folder / "second", table, 30, 30 * nodes))
    shutil.copytree(folder / "backup", folder / "restored")
    note("a copy is put in its place, and goes on", _serve(folder / "restored", table, 30, 40 * nodes))
    return figures


def _play(nodes: int) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name, postgres_server() as database:
        return play(Path(name), Table(database.url), nodes)


def _never_another(*_: object) -> Verdict:
    """The seeded bug: whatever a sink holds is taken for ours."""
    return Verdict(SAME)


def look(size: int, seed: int) -> Found:
    """Write several histories of so many nodes into one table, then see whether a bug would be noticed."""
    del seed
    figures = _play(size)
    with seeded(workers, "judge", _never_another):
        try:
            caught = _bad(_play(min(size, 300))) > 0
        except AssertionError:  # the sink refuses, and never catches up
            caught = True
    return Found(size, _bad(figures), caught, figures)


def _bad(figures: dict[str, dict[str, Any]]) -> int:
    return sum(one["rows that differ"] for one in figures.values())


CHECK = Check(
    "refit",
    300,
    2_000,
    "histories have an identity",
    "a refit into the same table of pgvector, and a copy of the folder that goes on in its place",
    "whatever a sink holds is taken for ours",
    look,
)
