"""A deletion request on real servers: Redis streams in, PostgreSQL and Redis out, every way back tried."""

import json
import shutil
import time

import psycopg
import pytest
import redis

import dygcn
from dygcn.client import Client
from dygcn.live.durable.opening import restore
from dygcn.serving.sinks import PostgresSettings, RedisSinkSettings
from dygcn.serving.sources import RedisSourceSettings
from dygcn_lab.testbed.postgres import postgres_server
from dygcn_lab.testbed.servers import redis_server
from tests.live.durable.test_forgetting import NAME, files_with, fitted
from tests.serving.service.serving import on_loopback, serving

NOW = time.time()


@pytest.fixture(scope="module")
def servers():
    with postgres_server() as postgres, redis_server() as broker, redis.Redis.from_url(broker.url) as client:
        yield postgres, broker, client


def settings_of(folder, servers, *, table, streams=("clicks", "late")):
    postgres, broker, _ = servers
    return on_loopback(
        folder,
        time_unit="s",
        sources=[RedisSourceSettings(url=broker.url, streams=list(streams))],
        sinks=[
            PostgresSettings(url=postgres.url, table=table),
            RedisSinkSettings(url=broker.url, prefix=table),
        ],
    )


def add(client, stream, *events):
    client.xadd(stream, {"event": json.dumps(list(events))})


def edge(a, b, t):
    return {"src": a, "dst": b, "t": t}


def until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def rows_of(servers, table):
    """Return the ids in PostgreSQL, and how often the name is anywhere in its tables and in Redis' rows."""
    postgres, _, client = servers
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass(%s)", [f"{table}_history"]).fetchone()[0] is None:
            return set(), -1  # the sink has not opened yet
        ids = {one for (one,) in connection.execute(f"SELECT id FROM {table}")}
        found = sum(
            connection.execute(
                f"SELECT count(*) FROM {each} AS t WHERE t::text LIKE %s", [f"%{NAME}%"]
            ).fetchone()[0]
            for each in (table, f"{table}_left", f"{table}_history")
        )
    return ids, found + len(client.keys(f"{table}*{NAME}*"))


def caught_up(served, client, stream):
    """Say whether the last entry of a stream is applied."""
    ms, sequence = client.xinfo_stream(stream)["last-generated-id"].decode().split("-")
    last = (int(ms) << 22) + int(sequence)
    return served.service.live.streams.get(f"redis:{stream}", -1) >= last


def test_a_deletion_request(tmp_path, servers):
    *_, client = servers
    old, new = tmp_path / "old", tmp_path / "new"
    dygcn.open(old, fitted()).close()
    add(
        client,
        "clicks",
        edge("ann", NAME, NOW - 60),
        edge(NAME, "zoe", NOW - 50),
        edge("zoe", "ann", NOW - 40),
    )
    with serving(settings_of(old, servers, table="people")) as served:
        until(
            lambda: "zoe" in served.service.live and NAME in rows_of(servers, "people")[0], "the first rows"
        )
        served.service.live.snapshot()
    shutil.copytree(old, tmp_path / "backup")
    with serving(settings_of(old, servers, table="people")) as served:
        bad = served.post([{"op": "forget", "id": NAME}]).json()
        assert "DELETE /v1/nodes" in bad["bad"][0]["reason"]
        with Client(served.address) as asking:
            receipt = asking.forget(NAME)
        assert receipt.found == 1
        assert receipt.digest_before != receipt.digest_after == served.service.live.digest()
        assert served.get(f"/v1/vectors/{NAME}").status_code == 404
        until(lambda: rows_of(servers, "people")[1] == 0, "the rows in sinks go")
        add(client, "late", edge(NAME, "ann", NOW - 45), edge("ann", "ida", NOW - 45))  # a slow partition
        until(lambda: caught_up(served, client, "late"), "the late stream")
        assert NAME not in served.service.live
        assert "ida" in served.service.live
        assert "dygcn_old_events_total 1.0" in served.get("/metrics").text
    assert files_with(old) == []
    # Refit into a new folder, and serve that: no source brings the person back.
    with dygcn.open(old) as live:
        dygcn.open(new, live.refit().embedding, after=live).close()
    with serving(settings_of(new, servers, table="people")) as served:
        until(lambda: {"ann", "ida"} <= rows_of(servers, "people")[0], "rows of the new model")
        assert NAME not in served.service.live
        # Everything from the start, as if offsets were lost.
        served.service.live._offsets.streams.clear()
        for source in served.service.sources:
            source._source.close()
        until(lambda: caught_up(served, client, "clicks"), "the replay")
        assert NAME not in served.service.live
        assert rows_of(servers, "people")[1] == 0
        add(client, "clicks", edge(NAME, "ann", time.time()))  # somebody new, of that name
        until(lambda: NAME in rows_of(servers, "people")[0], "a new event does come in")
        add(client, "clicks", {"op": "forget", "id": NAME})
        until(lambda: rows_of(servers, "people")[1] == 0, "an event of a broker forgets")
        until(lambda: files_with(new) == [], "an event of a broker redacts files")
    # An older backup, with the later forgets.
    restore(tmp_path / "backup", tmp_path / "restored", forgets=old)
    assert files_with(tmp_path / "restored") == []
    with serving(settings_of(tmp_path / "restored", servers, table="restored")) as served:
        # A new person of that name comes and is forgotten, by events that the folder reads again.
        for stream in ("clicks", "late"):
            until(lambda: caught_up(served, client, stream), "the events since the backup")  # noqa: B023
        assert NAME not in served.service.live
        until(lambda: "ida" in rows_of(servers, "restored")[0], "rows")
        until(lambda: rows_of(servers, "restored")[1] == 0, "no row of that name")
