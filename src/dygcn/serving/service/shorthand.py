"""A source in one word, for the command line: an address whose last part names the stream."""

from __future__ import annotations

from dygcn.errors import OptionError
from dygcn.serving.sources import (
    FileSettings,
    KafkaSourceSettings,
    NatsSourceSettings,
    RedisSourceSettings,
    SourceSettings,
)

_ALLOWED = (
    "redis://HOST:PORT/STREAM, nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, "
    "or the path of an NDJSON file that grows"
)


def source_from(text: str) -> SourceSettings:
    """Read a source from one word; what it cannot say goes into a settings file."""
    scheme, colon, rest = text.partition("://")
    if not colon:
        return FileSettings(path=text)
    place, _, name = rest.partition("/")
    if scheme in ("redis", "nats", "kafka") and place and name:
        if scheme == "redis":
            return RedisSourceSettings(url=f"redis://{place}", streams=[name])
        if scheme == "nats":
            return NatsSourceSettings(url=f"nats://{place}", stream=name)
        return KafkaSourceSettings(servers=place, topic=name)
    raise OptionError(f"{scheme + '://...'!r} is not a source; allowed is {_ALLOWED}")
