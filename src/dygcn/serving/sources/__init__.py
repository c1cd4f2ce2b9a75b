"""Where events come from: one file each, one contract.

======  ==================================  ==============================================================
source  stream of a message                 its position
======  ==================================  ==============================================================
nats    ``nats:<stream>``                   the sequence
redis   ``redis:<stream>``                  the id: milliseconds, then 22 bits of its sequence
kafka   ``kafka:<topic>/<partition>``       the offset
file    ``file:<name>``                     the byte behind the line
======  ==================================  ==============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dygcn.serving.sources.files import FileSettings, FileSource
from dygcn.serving.sources.kafka import KafkaSettings, KafkaSource
from dygcn.serving.sources.nats import NatsSettings, NatsSource
from dygcn.serving.sources.redis import RedisSettings, RedisSource
from dygcn.serving.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SourceSettings: TypeAlias = NatsSettings | RedisSettings | KafkaSettings | FileSettings
"""Settings of any source; in files, ``kind`` says which."""

_SOURCES: dict[type[SourceSettings], Callable[[Any], Source]] = {
    NatsSettings: NatsSource,
    RedisSettings: RedisSource,
    KafkaSettings: KafkaSource,
    FileSettings: FileSource,
}

__all__ = [
    "FileSettings",
    "FileSource",
    "KafkaSettings",
    "KafkaSource",
    "NatsSettings",
    "NatsSource",
    "RedisSettings",
    "RedisSource",
    "Source",
    "SourceSettings",
    "make_source",
]


def make_source(settings: SourceSettings) -> Source:
    """Return the source that settings describe, not open yet. Its client is imported only now.

    Raises
    ------
    MissingExtra
        If the client is not installed.

    Examples
    --------
    >>> import msgspec
    >>> settings = msgspec.convert({"kind": "file", "path": "events.ndjson"}, SourceSettings)
    >>> make_source(settings).name
    'file:events.ndjson'
    """
    return _SOURCES[type(settings)](settings)
