"""Where vectors go: one file each, one contract.

========  ====================================================  ======================================
sink      what it keeps                                         an older version
========  ====================================================  ======================================
postgres  a row for each node, in a table of pgvector           is refused
redis     a hash for each node                                  is refused
qdrant    a point for each node, in a collection                is refused
milvus    an entity for each node, in a collection              is left out, by one writer at a time
lancedb   a row for each node, in a table                       is refused
parquet   a file for each write; `read_rows` gives the newest   is there, and not read
nats      a JSON message for each change, in a stream           is there, for the reader to drop
kafka     a JSON record for each change, keyed by node          is there, for the reader to drop
========  ====================================================  ======================================

Every row says which history it is of (see `dygcn.engine.records.History`). No sink takes rows of an older
history than those that it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dygcn.serving.sinks.kafka import KafkaSettings, KafkaSink
from dygcn.serving.sinks.lancedb import LanceSettings, LanceSink
from dygcn.serving.sinks.milvus import MilvusSettings, MilvusSink
from dygcn.serving.sinks.nats import NatsSettings, NatsSink
from dygcn.serving.sinks.parquet import ParquetSettings, ParquetSink, read_rows
from dygcn.serving.sinks.postgres import PostgresSettings, PostgresSink
from dygcn.serving.sinks.qdrant import QdrantSettings, QdrantSink
from dygcn.serving.sinks.redis import RedisSettings, RedisSink
from dygcn.serving.sinks.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SinkSettings: TypeAlias = (
    PostgresSettings
    | NatsSettings
    | RedisSettings
    | KafkaSettings
    | ParquetSettings
    | QdrantSettings
    | MilvusSettings
    | LanceSettings
)
"""Settings of any sink; in files, ``kind`` says which."""

_SINKS: dict[type[SinkSettings], Callable[[Any], Sink]] = {
    PostgresSettings: PostgresSink,
    NatsSettings: NatsSink,
    RedisSettings: RedisSink,
    KafkaSettings: KafkaSink,
    ParquetSettings: ParquetSink,
    QdrantSettings: QdrantSink,
    MilvusSettings: MilvusSink,
    LanceSettings: LanceSink,
}

__all__ = [
    "KafkaSettings",
    "KafkaSink",
    "LanceSettings",
    "LanceSink",
    "MilvusSettings",
    "MilvusSink",
    "NatsSettings",
    "NatsSink",
    "ParquetSettings",
    "ParquetSink",
    "PostgresSettings",
    "PostgresSink",
    "QdrantSettings",
    "QdrantSink",
    "RedisSettings",
    "RedisSink",
    "Sink",
    "SinkSettings",
    "make_sink",
    "read_rows",
]


def make_sink(settings: SinkSettings) -> Sink:
    """Return the sink that settings describe, not open yet. Its client is imported only now.

    Raises
    ------
    MissingExtra
        If the client is not installed.

    Examples
    --------
    >>> import msgspec
    >>> settings = msgspec.convert({"kind": "parquet", "folder": "vectors"}, SinkSettings)
    >>> make_sink(settings).name
    'parquet:///.../vectors'
    """
    return _SINKS[type(settings)](settings)
