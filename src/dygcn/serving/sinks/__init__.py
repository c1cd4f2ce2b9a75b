"""Where vectors go: one file for each kind, one contract; docs/service.md has a table of the kinds.

Every row says which history it is of (see `dygcn.engine.records.History`). No sink takes rows of an older
history than those that it holds. An older version of a row is refused by databases, left by `read_rows` of
Parquet, and dropped by the readers of NATS and Kafka.
"""

from __future__ import annotations

from typing import Any

from dygcn.serving.addresses import read_by_kind
from dygcn.serving.sinks.kafka import KafkaSinkSettings
from dygcn.serving.sinks.lancedb import LanceSettings
from dygcn.serving.sinks.milvus import MilvusSettings
from dygcn.serving.sinks.nats import NatsSinkSettings
from dygcn.serving.sinks.parquet import ParquetSettings, read_rows
from dygcn.serving.sinks.postgres import PostgresSettings
from dygcn.serving.sinks.qdrant import QdrantSettings
from dygcn.serving.sinks.redis import RedisSinkSettings
from dygcn.serving.sinks.sink import OnOtherHistory, Sink, SinkSettings, StoreSink

SINKS: dict[str, type[Any]] = {  # our settings by their `kind`
    "postgres": PostgresSettings,
    "redis": RedisSinkSettings,
    "qdrant": QdrantSettings,
    "milvus": MilvusSettings,
    "lancedb": LanceSettings,
    "parquet": ParquetSettings,
    "nats": NatsSinkSettings,
    "kafka": KafkaSinkSettings,
}
GROUP = "dygcn.sinks"  # the group of entry points for settings of other distributions

__all__ = [
    "GROUP",
    "SINKS",
    "KafkaSinkSettings",
    "LanceSettings",
    "MilvusSettings",
    "NatsSinkSettings",
    "OnOtherHistory",
    "ParquetSettings",
    "PostgresSettings",
    "QdrantSettings",
    "RedisSinkSettings",
    "Sink",
    "SinkSettings",
    "StoreSink",
    "read_rows",
    "read_sink",
]


def read_sink(raw: Any) -> SinkSettings:
    """Return the settings that one table of a settings file describes.

    >>> read_sink({"kind": "parquet", "folder": "vectors"})
    ParquetSettings(folder='vectors', other_history='rewrite')
    """
    settings: SinkSettings = read_by_kind(raw, SINKS, GROUP)
    return settings
