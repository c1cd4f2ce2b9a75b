"""Vectors in Redis, one hash for each node."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import History, Rows
from dygcn.serving.addresses import DAY, YEAR, check_name, check_seconds, public_address, secrets_of
from dygcn.serving.brokers import RedisConnection
from dygcn.serving.sinks.sink import (
    FIELDS,
    OnOtherHistory,
    Shape,
    StoreSink,
    admit,
    as_fields,
    from_fields,
    kind_of,
)

_AT_ONCE = 1000  # commands on their way before their answers are read

# Numbers in Lua are doubles: above 2^53 only texts distinguish versions. A script compares the position of
# the whole sink and that of its node, since a script of another writer may run between two of ours.
_OLDER = """
local generation, epoch, version, chain = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function older(a, b) return #a < #b or (#a == #b and a < b) end
local function look(key)
  local g, e, v, c = unpack(redis.call('HMGET', key, 'generation', 'epoch', 'version', 'chain'))
  local other = g and (older(generation, g) or (g == generation and e ~= epoch))
  local forked = g == generation and e == epoch and v == version and c and c ~= chain
  if other or forked then
    return redis.error_reply('OTHERHISTORY ' .. g .. ' ' .. e .. ' ' .. v .. ' ' .. (c or '-')), false
  end
  return false, not g or older(g, generation) or older(v, version)
end
local function put(key)
  redis.call('HSET', key, 'generation', generation, 'epoch', epoch, 'version', version, 'chain', chain)
end
"""
_REACH = (
    _OLDER
    + """
local refused, newer = look(KEYS[1])
if refused then return refused end
if newer then put(KEYS[1]) end
return 1
"""
)
_LOOK = (
    _OLDER
    + """
local refused = look(KEYS[2])
if refused then return refused end
"""
)
_NEWER = (
    _LOOK
    + """
for _, key in ipairs({KEYS[1], KEYS[3]}) do
  local refused, newer = look(key)
  if refused then return refused end
  if not newer then return 0 end
end
"""
)
_WRITE = (
    _NEWER
    + """
put(KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
redis.call('DEL', KEYS[3])
return 1
"""
)
_LEAVE = (
    _NEWER
    + """
redis.call('DEL', KEYS[1])
put(KEYS[3])
redis.call('EXPIRE', KEYS[3], ARGV[5])
return 1
"""
)
_DELETE_BELOW = (
    _LOOK
    + """
local e, v = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'version'))
if not v then return 0 end
if e ~= epoch then return redis.call('DEL', KEYS[1]) end
if not older(v, ARGV[5]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[3], 'generation', generation, 'epoch', epoch, 'version', ARGV[6])
redis.call('EXPIRE', KEYS[3], ARGV[7])
return 1
"""
)
_REFUSED = re.compile(r"OTHERHISTORY (\d+) (\w+) (\d+) ([\w-]+)")


class RedisSinkSettings(RedisConnection, frozen=True, kw_only=True, tag="redis"):
    """Where rows go in Redis.

    >>> RedisSinkSettings(url="redis://:s3cret@cache.example/1", prefix="live")
    RedisSinkSettings(url='redis://cache.example/1', timeout=30.0, prefix='live', keep_left=86400.0, ...)
    """

    timeout: float = 30.0
    prefix: str = "dygcn"  # of all keys, before a colon
    keep_left: float = DAY
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("prefix", self.prefix, r"[A-Za-z0-9_.-]+", "a word of letters, digits, _, . and -")
        check_seconds("keep_left", self.keep_left, YEAR)

    def make(self) -> StoreSink:
        return StoreSink(RedisStore(self))


class RedisStore:
    """A hash ``<prefix>:node:<id>`` for each node: ``vector`` as little-endian float32, and its position.

    A node that left has the hash ``<prefix>:left:<SHA-256>`` instead, which does not name it and expires.
    ``<prefix>:about`` has the shape and the newest position. A write is not one transaction; each hash
    changes in one step, only to a later version, and never for an older history than that of
    ``<prefix>:about``.

    An answered write survives a crash of Redis with ``appendonly yes`` and ``appendfsync always``. A full
    server must refuse writes (``maxmemory-policy noeviction``), not drop our keys.
    """

    not_finite = ""

    def __init__(self, settings: RedisSinkSettings) -> None:
        with extra("redis"):
            import redis  # noqa: PLC0415
        self.settings = settings
        self.errors: tuple[type[BaseException], ...] = (redis.RedisError, OSError, ValueError)
        self.name = f"{public_address(settings.url)} {settings.prefix}"
        self.secrets = secrets_of(settings.url)
        self._about = f"{settings.prefix}:about".encode()
        self._remembered = max(1, round(settings.keep_left))
        self._client: Any = None
        self._shape: Shape
        self._held: History | None

    def connect(self, shape: Shape) -> None:
        self._shape = shape
        # One retry: a connection may have died while idle, and scripts may run twice.
        self._client = self.settings.connect(1)
        scripts = _REACH, _WRITE, _LEAVE, _DELETE_BELOW
        self._reach, self._write, self._leave, self._delete = map(self._client.register_script, scripts)
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hsetnx(self._about, "kind", shape.ids)
            pipeline.hsetnx(self._about, "dim", shape.dim)
            pipeline.hmget(self._about, "kind", "dim", *FIELDS)
            kind, dim, *held = (one and one.decode(errors="replace") for one in pipeline.execute()[-1])
        shape.refuse(self.name, f"{kind}:{dim}")
        self._held = from_fields(dict(zip(FIELDS, held, strict=True)))

    def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def held(self) -> History | None:
        """Return the newest position that was written when this store connected."""
        return self._held

    def write(self, rows: Rows) -> None:
        """Write rows and delete those that left, each unless Redis has a later version of it."""
        self._in_pipelines(rows.history, self._commands(rows))

    def delete_below(self, floor: int, history: History) -> None:
        """Delete rows of other epochs, and rows below a version. Every key of the database is looked at."""
        below = [str(floor), str(floor - 1), self._remembered]
        keys = self._client.scan_iter(match=f"{self.settings.prefix}:node:*", count=_AT_ONCE)
        self._in_pipelines(history, ((self._delete, key, below) for key in keys))

    def forget_left(self) -> None:
        pass  # hashes of ids that left expire

    def _commands(self, rows: Rows) -> Iterator[tuple[Any, bytes, list[Any]]]:
        prefix, little = f"{self.settings.prefix}:node:", np.dtype("<f4")
        for id_, vector in zip(rows.ids, rows.vectors, strict=True):
            kind = ["kind", kind_of(id_)] if self._shape.with_kinds else []
            values = ["vector", vector.astype(little).tobytes(), *kind]
            yield self._write, f"{prefix}{id_}".encode(), values
        for id_ in rows.left:
            yield self._leave, f"{prefix}{id_}".encode(), [self._remembered]

    def _in_pipelines(self, history: History, commands: Iterable[tuple[Any, bytes, list[Any]]]) -> None:
        position = list(as_fields(history).values())
        try:
            self._reach(keys=[self._about], args=position)
            with self._client.pipeline(transaction=False) as pipeline:
                for script, key, values in commands:
                    mark = f"{self.settings.prefix}:left:{hashlib.sha256(key).hexdigest()}".encode()
                    script(keys=[key, self._about, mark], args=[*position, *values], client=pipeline)
                    if len(pipeline) >= _AT_ONCE:
                        pipeline.execute()
                pipeline.execute()
        except self.errors as error:
            if refused := _REFUSED.search(str(error)):
                admit(from_fields(dict(zip(FIELDS, refused.groups(), strict=True))), history, self.name)
            raise
