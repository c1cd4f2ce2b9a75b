"""Places for sinks on real servers, and how to read them without a sink."""

import asyncio
import itertools
import json
import uuid
from contextlib import closing
from importlib import import_module
from pathlib import Path

import nats
import numpy as np
import psycopg
import redis
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from psycopg import sql

from dygcn.engine.records import History
from dygcn.serving.sinks import (
    KafkaSinkSettings,
    LanceSettings,
    MilvusSettings,
    NatsSinkSettings,
    ParquetSettings,
    PostgresSettings,
    QdrantSettings,
    RedisSinkSettings,
    read_rows,
)
from dygcn.serving.sinks.sink import FIELDS, from_fields
from dygcn.testing import SinkTarget
from dygcn.testing.sink_model import made_up_history, make_rows, named, replayed

_numbers = itertools.count()


def versions(held):
    """Return the version of each node."""
    return {id_: history.sequence for id_, (history, _) in held.items()}


def check_late_positions(fresh):
    """A late write of the same epoch does not take back how far the place has come."""
    place = fresh()
    with closing(place.make()) as sink:
        sink.open("int64", 4)
        sink.write(make_rows({1: 9}, dim=4, generation=5))
        sink.write(make_rows({2: 8}, dim=4, generation=5))
        sink.delete_below(0, made_up_history(7, 5))
        assert sink.open("int64", 4) == made_up_history(9, 5)
        assert versions(place.read_all()) == {1: 9, 2: 8}


def fresh_name():
    return f"t{next(_numbers)}_{uuid.uuid4().hex[:8]}"


def postgres_place(server, **options):
    settings = PostgresSettings(url=server.url, table=fresh_name(), **{"timeout": 20.0, **options})
    return SinkTarget(settings.make, lambda: read_table(server.url, settings.table), server.restart)


def read_table(url, table):
    query = sql.SQL(
        "SELECT id, to_jsonb(t) ->> 'kind', vector, generation, epoch, version, chain FROM {} t"
    ).format(sql.Identifier(*table.split(".")))
    with psycopg.connect(url) as connection, connection.cursor(binary=True) as cursor:
        rows = cursor.execute(query).fetchall()
    assert all(int.from_bytes(vector[:2]) * 4 == len(vector) - 4 for _, _, vector, *_ in rows)
    return {
        named(id_, kind): (History(*history), np.frombuffer(vector[4:], ">f4").astype("<f4"))
        for id_, kind, vector, *history in rows
    }


def redis_place(server, **options):
    settings = RedisSinkSettings(url=server.url, prefix=fresh_name(), **options)
    return SinkTarget(settings.make, lambda: read_hashes(settings), server.restart)


def read_hashes(settings):
    head = f"{settings.prefix}:node:".encode()
    held = {}
    with redis.Redis.from_url(settings.url) as client:
        kind = client.hget(f"{settings.prefix}:about", "kind")
        keys = list(client.scan_iter(match=head + b"*", count=1000))
        with client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hgetall(key)
                pipeline.ttl(key)
            answers = pipeline.execute()
    for key, fields, ttl in zip(keys, answers[::2], answers[1::2], strict=True):
        text = key.removeprefix(head).decode()
        if b"vector" in fields:
            id_ = int(text) if kind == b"int64" else text
            history = from_fields({name: fields[name.encode()].decode() for name in FIELDS})
            of = fields[b"kind"].decode() if b"kind" in fields else None
            held[named(id_, of)] = (history, np.frombuffer(fields[b"vector"], "<f4"))
            assert ttl == -1
        else:
            assert 0 < ttl <= round(settings.keep_left)
    return held


def nats_place(server, **options):
    settings = NatsSinkSettings(
        url=server.url, subject=f"rows.{fresh_name()}", create=True, timeout=20.0, **options
    )
    return SinkTarget(
        settings.make,
        lambda: replayed(body for body, _ in read_stream(server.url, settings.subject)),
        server.restart,
    )


def read_stream(url, subject):
    """Return the bodies and headers of all messages."""

    async def read():
        client = await nats.connect(url)
        try:
            stream = client.jetstream()
            name = await stream.find_stream_name_by_subject(subject)
            waiting = (await stream.stream_info(name)).state.messages
            messages, all_there = [], asyncio.Event()

            async def take(message):
                messages.append((message.data, dict(message.headers)))
                if len(messages) == waiting:
                    all_there.set()

            if waiting:
                await stream.subscribe(subject, cb=take, stream=name, ordered_consumer=True)
                await asyncio.wait_for(all_there.wait(), 30)
            return messages
        finally:
            await client.close()

    return asyncio.run(read())


def kafka_place(cluster, **options):
    settings = KafkaSinkSettings(servers=cluster.servers, topic=fresh_name(), timeout=20.0, **options)
    return SinkTarget(settings.make, lambda: read_held(cluster.servers, settings.topic))


def read_held(servers, topic):
    return replayed(record_body(record) for record in read_topic(servers, topic))


def record_body(record):
    """Return what a record says as JSON, also where a key without value says that a node left."""
    if record.value() is not None:
        return record.value()
    headers = dict(record.headers())
    ids, _, _ = headers["shape"].rpartition(b":")
    key = record.key() if ids == b"int64" else json.dumps(record.key().decode()).encode()
    kind = b'"kind":"%b",' % record.key().partition(b":")[0] if ids == b"kind:string" else b""
    of = b'"generation":%b,"epoch":"%b","version":%b,"chain":"%b"' % tuple(headers[name] for name in FIELDS)
    return b'{"id":%b,%b%b,"left":true}' % (key, kind, of)


def read_topic(servers, topic):
    """Return all records of all partitions."""
    partitions = Producer({"bootstrap.servers": servers}).list_topics(topic, 10).topics[topic].partitions
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "a test",
            "fetch.wait.max.ms": 5,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records, ended = [], set()
        while len(ended) < len(partitions):
            for record in consumer.consume(1000, 0.02):
                if record.error() is None:
                    records.append(record)
                elif record.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(record.partition())
                else:
                    raise AssertionError(record.error())
        return records
    finally:
        consumer.close()


def parquet_place(folder):
    settings = ParquetSettings(folder=str(Path(folder) / fresh_name()))
    return SinkTarget(settings.make, lambda: read_files(settings.folder))


def read_files(folder):
    table = read_rows(folder)
    assert [name for name in table.column_names if name != "kind"] == ["id", *FIELDS, "vector"]
    return held_in(table)


def held_in(table):
    """Return what a table of Arrow holds."""
    ids = table["id"].to_pylist()
    if "kind" in table.column_names:
        ids = list(map(named, ids, table["kind"].to_pylist()))
    histories = [History(*row.values()) for row in table.select(FIELDS).to_pylist()]
    flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return dict(zip(ids, zip(histories, flat.reshape(len(ids), -1), strict=True), strict=True)) if ids else {}


def lance_place(folder, **options):
    settings = LanceSettings(folder=str(Path(folder) / fresh_name()), table="rows", **options)
    return SinkTarget(settings.make, lambda: read_lance(settings.folder))


def read_lance(folder):
    lancedb = import_module("lancedb")  # takes a second, and most sinks need none of it
    table = lancedb.connect(folder).open_table("rows").to_arrow()
    assert [name for name in table.column_names if name != "kind"] == ["id", "vector", *FIELDS]
    return held_in(table)


def milvus_place(file, **options):
    """A collection in a file of Milvus Lite."""
    settings = MilvusSettings(url=f"file://{file}", collection=fresh_name(), **options)
    return SinkTarget(settings.make, lambda: read_milvus(file, settings.collection))


def read_milvus(file, collection):
    with closing(import_module("pymilvus").MilvusClient(str(file))) as client:
        client.load_collection(collection)
        rows = client.query(
            collection,
            filter="version >= 0",
            output_fields=["*"],
            consistency_level="Strong",
        )
    return {
        named(row["id"], row.get("kind")): (History(*(row[field] for field in FIELDS)), row["vector"])
        for row in rows
    }


class LocalQdrant:
    """Qdrant as its client has it in memory: no server can be had as a package. Its sinks share it."""

    def __init__(self):
        self.client = import_module("qdrant_client").QdrantClient(":memory:")

    def __getattr__(self, name):
        return getattr(self.client, name)

    def close(self):
        """Stay open: it is closed with the test."""


def qdrant_place(local, **options):
    """A collection of a local Qdrant; whoever calls has seen to it that sinks connect to it."""
    settings = QdrantSettings(
        url="http://qdrant.example", collection=fresh_name(), **{"distance": "dot", **options}
    )
    return SinkTarget(settings.make, lambda: read_qdrant(local.client, settings.collection))


def read_qdrant(client, collection):
    held, offset = {}, None
    while True:
        points, offset = client.scroll(collection, limit=1000, with_vectors=True, offset=offset)
        for point in points:
            history = History(*(point.payload[field] for field in FIELDS))
            id_ = named(point.payload["id"], point.payload.get("kind"))
            held[id_] = (history, np.asarray(point.vector, np.float32))
        if offset is None:
            return held
