"""Where events come from: one file each, one contract; each reader says what stream and offset are."""

from __future__ import annotations

from typing import Any

from dygcn.serving.addresses import read_by_kind
from dygcn.serving.sources.files import FileSettings
from dygcn.serving.sources.kafka import KafkaSourceSettings
from dygcn.serving.sources.nats import NatsSourceSettings
from dygcn.serving.sources.redis import RedisSourceSettings
from dygcn.serving.sources.source import ReaderSource, Source, SourceSettings

SOURCES: dict[str, type[Any]] = {  # our settings by their `kind`
    "nats": NatsSourceSettings,
    "redis": RedisSourceSettings,
    "kafka": KafkaSourceSettings,
    "file": FileSettings,
}
GROUP = "dygcn.sources"  # the group of entry points for settings of other distributions

__all__ = [
    "GROUP",
    "SOURCES",
    "FileSettings",
    "KafkaSourceSettings",
    "NatsSourceSettings",
    "ReaderSource",
    "RedisSourceSettings",
    "Source",
    "SourceSettings",
    "read_source",
]


def read_source(raw: Any) -> SourceSettings:
    """Return the settings that one table of a settings file describes.

    >>> read_source({"kind": "file", "path": "events.ndjson"})
    FileSettings(path='events.ndjson', pattern='*.ndjson', form='ndjson')
    """
    settings: SourceSettings = read_by_kind(raw, SOURCES, GROUP)
    return settings
