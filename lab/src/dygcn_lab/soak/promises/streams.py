"""The same events by every way in, the service killed on the way: one digest, the same rows in pgvector."""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

import dygcn
from dygcn._extras import extra
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.storage.entries import Kind, unpack
from dygcn.live.durable.storage.layout import LOG_FILE
from dygcn.live.durable.storage.log import EventLog
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.testbed.graphs import random_events
from dygcn_lab.testbed.postgres import PostgresServer, postgres_server
from dygcn_lab.testbed.served import served_process
from dygcn_lab.testbed.servers import kafka_mock, nats_server, redis_server

_EACH = 10  # events of a message
_PATIENCE = 60.0
Publish = Callable[[Sequence[bytes]], None]


@dataclass(frozen=True, slots=True)
class Way:
    """A way in: what the settings say of it, and how messages are put there."""

    name: str
    source: str  # TOML; empty: HTTP
    publish: Publish | None


@contextmanager
def ways(folder: Path) -> Iterator[list[Way]]:
    """Start every broker, and yield all ways in."""
    with extra("nats"), extra("redis"), extra("kafka"):
        import redis  # noqa: PLC0415 - extras
        from confluent_kafka import Producer  # noqa: PLC0415

    with ExitStack() as stack:
        nats, store = stack.enter_context(nats_server()), stack.enter_context(redis_server())
        kafka = stack.enter_context(kafka_mock())
        client = stack.enter_context(redis.Redis.from_url(store.url))
        producer = Producer({"bootstrap.servers": kafka.servers, "acks": "all", "log_level": 0})
        file = folder / "events.ndjson"
        file.touch()

        def to_redis(bodies: Sequence[bytes]) -> None:
            for body in bodies:
                client.xadd("events", {"event": body})

        def to_kafka(bodies: Sequence[bytes]) -> None:
            for body in bodies:
                producer.produce("events", body, partition=0)
            producer.flush(_PATIENCE)

        def to_file(bodies: Sequence[bytes]) -> None:
            with file.open("ab") as stream:
                for body in bodies:
                    for event in msgspec.json.decode(body):
                        stream.write(msgspec.json.encode(event) + b"\n")

        yield [
            Way("http", "", None),
            Way("nats", f'kind = "nats"\nurl = "{nats.url}"\nstream = "EVENTS"', _to_nats(nats.url)),
            Way("redis", f'kind = "redis"\nurl = "{store.url}"\nstreams = ["events"]', to_redis),
            Way("kafka", f'kind = "kafka"\nservers = "{kafka.servers}"\ntopic = "events"', to_kafka),
            Way("file", f'kind = "file"\npath = "{file}"', to_file),
        ]


def _to_nats(url: str) -> Publish:
    with extra("nats"):
        import asyncio  # noqa: PLC0415

        import nats  # noqa: PLC0415 - an extra

    async def send(bodies: Sequence[bytes]) -> None:
        client = await nats.connect(url)
        stream = client.jetstream()
        await stream.add_stream(name="EVENTS", subjects=["events"])
        for body in bodies:
            await stream.publish("events", body)
        await client.close()

    return lambda bodies: asyncio.run(send(bodies))


class Sender:
    """Sends messages over HTTP, again and again until each is acknowledged."""

    def __init__(self) -> None:
        self.done = 0

    def send(self, address: str, bodies: Sequence[bytes], until: int) -> None:
        """Go on where it stopped; return when the service is gone, or all is sent."""
        with httpx.Client(base_url=address, timeout=10.0) as client:
            while self.done < until:
                params: dict[str, str | int] = {"client": "sender", "sequence": self.done * _EACH}
                try:
                    answer = client.post(
                        "/v1/events",
                        params=params,
                        content=bodies[self.done],
                        headers={"content-type": "application/json"},
                    )
                except httpx.HTTPError:
                    return
                if answer.status_code != 200:
                    raise AssertionError(f"{answer.status_code}: {answer.text}")
                self.done += 1


def run_way(
    way: Way,
    folder: Path,
    database: PostgresServer,
    bodies: Sequence[bytes],
    kills: int,
    seed: int,
    bug: str,
) -> dict[str, Any]:
    """Send everything one way, killing the service on the way; return what came of it."""
    chance, sender = random.Random(seed), Sender()
    table = f"{way.name}{bug}".replace("-", "_")
    live_folder = folder / table
    _begin().save(live_folder)
    tables = f"[[sources]]\n{way.source}\n" if way.source else ""
    tables += f'[[sinks]]\nkind = "postgres"\nurl = "{database.url}"\ntable = "{table}"'
    cuts = np.linspace(0, len(bodies), kills + 2).astype(int).tolist()
    code = 1
    for number, (first, last) in enumerate(pairwise(cuts)):
        if way.publish is not None and not bug:
            way.publish(bodies[first:last])
        with served_process(live_folder, tables=tables, bug=bug and f"{__name__}:{bug}") as one:
            if number < kills:
                until = time.monotonic() + chance.uniform(0.0, 0.4)
                if way.publish is None:
                    sender.send(one.address, bodies, last - 1)
                time.sleep(max(until - time.monotonic(), 0.0))  # then it is killed
            else:
                if way.publish is None:
                    sender.send(one.address, bodies, last)
                _wait_until_read(one.address)
                code, _ = one.drain()
    with dygcn.open(live_folder) as live:
        figures = {"digest": live.digest(), "rows": _same_rows(database.url, table, live)}
    return figures | {"events": _events_in(live_folder), "exit": code}


def _begin() -> dygcn.LiveEmbedding:
    return dygcn.fit([(0, 1), (1, 2)], dim=16)


def _wait_until_read(address: str) -> None:
    until = time.monotonic() + _PATIENCE
    seen, quiet = -1, 0
    while quiet < 4:
        status = httpx.get(f"{address}/v1/status", timeout=10.0).json()
        waits = any(source["lag"] != 0 for source in status["sources"]) or status["queue"]["events"]
        behind = any(sink["behind"] for sink in status["sinks"])
        quiet = quiet + 1 if status["sequence"] == seen and not waits and not behind else 0
        seen = status["sequence"]
        if time.monotonic() > until:
            raise AssertionError(f"not everything was read: {status['sources']} {status['sinks']}")
        time.sleep(0.1)


def _events_in(folder: Path) -> int:
    log = EventLog(folder / LOG_FILE)
    try:
        entries = [entry for entry in log.entries(0, log.genesis) if entry.kind == Kind.EVENTS]
    finally:
        log.close()
    return sum(len(unpack(entry.body)[0]) for entry in entries)


def _same_rows(url: str, table: str, live: DurableEmbedding) -> bool:
    """Say whether the table holds every vector, bit for bit, and nothing else."""
    with extra("postgres"):
        import psycopg  # noqa: PLC0415 - an extra

    with psycopg.connect(url) as connection:
        query = f'SELECT id, vector::text FROM "{table}" WHERE vector IS NOT NULL ORDER BY id'
        rows = connection.execute(query).fetchall()
    ids = live.ids().tolist()
    if [row[0] for row in rows] != ids:
        return False
    found = np.array([json.loads(row[1]) for row in rows], np.float32).reshape(len(ids), -1)
    return found.tobytes() == live.vectors(ids).tobytes()


def look(size: int, seed: int) -> Found:
    """Kill the service so often on every way in."""
    events = [
        {"src": a, "dst": b, "op": op}
        for shift in range(4 if size < 5 else 40)
        for a, b, _, op, _ in random_events("hub", seed + shift, nodes=60, weighted=False, loops=False)
    ]
    events = events[: len(events) // _EACH * _EACH]
    bodies = [msgspec.json.encode(events[i : i + _EACH]) for i in range(0, len(events), _EACH)]
    expected = _begin()
    expected.update([(e["src"], e["dst"], 0, e["op"]) for e in events])
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, postgres_server() as database, ways(Path(name)) as found:
        for way in found:
            figures[way.name] = run_way(way, Path(name), database, bodies, size, seed, "")
        redis_way = next(way for way in found if way.name == "redis")
        broken = run_way(redis_way, Path(name), database, bodies, size, seed, "forget_offsets")
    digest = expected.digest()
    wrong = {name: _wrong(one, digest, len(events)) for name, one in figures.items()}
    shown = {"events": len(events), "mutant_events": broken["events"], "wrong": wrong}
    caught = bool(_wrong(broken, digest, len(events)))
    return Found(size, sum(map(len, wrong.values())), caught, shown)


def _wrong(one: dict[str, Any], digest: str, events: int) -> list[str]:
    """Return what is not as it should be."""
    found = {
        "digest": one["digest"] != digest,
        "rows in pgvector": not one["rows"],
        f"{one['events']} events applied": one["events"] != events,
        f"exit code {one['exit']}": one["exit"] != 0,
    }
    return [name for name, wrong in found.items() if wrong]


CHECK = Check(
    "streams",
    1,
    5,
    "exactly once",
    "one stream by HTTP, NATS, Redis, Kafka (mock) and file into pgvector; kills on each way",
    "the place of a stream is not kept with the state",
    look,
)


def forget_offsets() -> None:
    """The seeded bug: entries are logged without their stream and offset."""
    keep = DurableEmbedding._commit

    def forget(self: DurableEmbedding, parts: Any) -> Any:
        return keep(self, [dataclasses.replace(part, stream="", offset=-1) for part in parts])

    DurableEmbedding._commit = forget  # type: ignore[method-assign]
