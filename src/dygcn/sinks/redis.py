"""Vectors in Redis, one hash for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.errors import OptionError, SinkError
from dygcn.sinks.settings import (
    DAY,
    YEAR,
    Settings,
    check_name,
    check_seconds,
    public_address,
    secrets_of,
    without,
)
from dygcn.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dygcn.records import Rows

_AT_ONCE = 1000  # commands on their way before their answers are read

# Numbers in Lua are doubles: beyond 2^53 only texts tell versions apart.
_OLDER = """
local function older(a, b) return #a < #b or (#a == #b and a < b) end
local have = redis.call('HGET', KEYS[1], 'version')
"""
_WRITE = (
    _OLDER
    + """
if have and not older(have, ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'vector', ARGV[2])
redis.call('PERSIST', KEYS[1])
return 1
"""
)
_LEAVE = (
    _OLDER
    + """
if have and not older(have, ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1])
redis.call('HDEL', KEYS[1], 'vector')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
)
_SETTLE = (
    _OLDER
    + """
if not have or not older(have, ARGV[1]) or redis.call('HDEL', KEYS[1], 'vector') == 0 then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
)


class RedisSettings(Settings, frozen=True, tag="redis"):
    """Where rows go in Redis.

    Parameters
    ----------
    url
        ``redis://``, ``rediss://`` (TLS) or ``unix://``, with user, password and database if need be.
    prefix
        All keys begin with it and a colon.
    keep_left
        Seconds for which an id that left is remembered: for that long, a late repeat of an older write does
        not bring it back.
    timeout
        Seconds that connecting, and each answer, may take.

    Examples
    --------
    >>> RedisSettings(url="redis://:s3cret@cache.example/1", prefix="live")
    RedisSettings(url='redis://cache.example/1', prefix='live', keep_left=86400.0, timeout=30.0)
    >>> RedisSettings(url="redis://cache.example", prefix="a:b")
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: prefix is 'a:b'; allowed is a word of letters, digits, _, . and -
    """

    url: str
    prefix: str = "dygcn"
    keep_left: float = DAY
    timeout: float = 30.0

    def __post_init__(self) -> None:
        check_name("prefix", self.prefix, r"[A-Za-z0-9_.-]+", "a word of letters, digits, _, . and -")
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout, DAY)


class RedisSink:
    """A hash ``<prefix>:node:<id>`` for each node: ``version``, and ``vector`` as little-endian float32.

    ``<prefix>:about`` says the kind of the ids and the size of the vectors. A hash without ``vector`` is a
    node that left: it ends by itself. A write is not one transaction; each hash changes in one step, and only
    to a later version.

    Whether an answered write survives a crash of Redis is decided there: with ``appendonly yes`` and
    ``appendfsync always`` it does; by default the last second may be lost, and without an append-only file
    more. A full server must refuse writes (``maxmemory-policy noeviction``), not drop our keys.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: RedisSettings) -> None:
        with extra("redis"):
            import redis  # noqa: PLC0415
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        self._settings = settings
        self._errors = (redis.RedisError, OSError)
        self._shape: Shape | None = None
        try:
            self._client: Any = redis.Redis.from_url(
                settings.url,
                socket_timeout=settings.timeout,
                socket_connect_timeout=settings.timeout,
                retry=Retry(NoBackoff(), 1),  # a connection that died while idle; every script may run twice
                decode_responses=False,
            )
        except (ValueError, TypeError):
            raise OptionError(
                "url is not an address of Redis; allowed are redis://host:port/database, rediss:// and unix://"
            ) from None
        self._write = self._client.register_script(_WRITE)
        self._leave = self._client.register_script(_LEAVE)
        self._settle = self._client.register_script(_SETTLE)

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return f"{public_address(self._settings.url)} {self._settings.prefix}"

    def open(self, kind: str, dim: int) -> None:
        """Connect; write down kind and size, or compare them with what is there.

        Raises
        ------
        SinkError
            If the server cannot be reached, or holds rows of another shape under this prefix.
        """
        self.close()
        shape, key = Shape(kind, dim), f"{self._settings.prefix}:about"

        def compare() -> None:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.hsetnx(key, "kind", kind)
                pipeline.hsetnx(key, "dim", dim)
                pipeline.hmget(key, "kind", "dim")
                there = b":".join(pipeline.execute()[-1])
            shape.refuse(self.name, there.decode(errors="replace"))

        self._call(compare)
        self._shape = shape

    def write(self, rows: Rows) -> None:
        """Bring rows in and take out those that left, each unless Redis has a later version of it.

        Raises
        ------
        SinkError
            If not all is known to be written; the same rows may come again.
        """
        opened(self._shape, self.name).check(rows, self.name)
        self._in_pipelines(self._commands(rows))

    def settle(self, floor: int) -> None:
        """Take out every row with a version below `floor`; it looks at every key of the database."""
        opened(self._shape, self.name)
        below = [str(floor), str(floor - 1), self._remembered]
        keys = self._client.scan_iter(match=f"{self._settings.prefix}:node:*", count=_AT_ONCE)
        self._in_pipelines((self._settle, key, below) for key in keys)

    def close(self) -> None:
        """Let go of the connections. Safe to call twice."""
        self._shape = None
        self._client.close()

    @property
    def _remembered(self) -> int:
        return max(1, round(self._settings.keep_left))

    def _commands(self, rows: Rows) -> Iterator[tuple[Any, bytes, list[Any]]]:
        prefix, little = f"{self._settings.prefix}:node:", np.dtype("<f4")
        for id_, version, vector in zip(rows.ids, rows.versions, rows.vectors, strict=True):
            yield self._write, f"{prefix}{id_}".encode(), [str(version), vector.astype(little).tobytes()]
        for id_, version in zip(rows.left, rows.left_versions, strict=True):
            yield self._leave, f"{prefix}{id_}".encode(), [str(version), self._remembered]

    def _in_pipelines(self, commands: Iterable[tuple[Any, bytes, list[Any]]]) -> None:
        def send() -> None:
            with self._client.pipeline(transaction=False) as pipeline:
                for script, key, values in commands:
                    script(keys=[key], args=values, client=pipeline)
                    if len(pipeline) >= _AT_ONCE:
                        pipeline.execute()
                pipeline.execute()

        self._call(send)

    def _call(self, what: Callable[[], None]) -> None:
        try:
            what()
        except SinkError:
            raise
        except self._errors as error:
            said = without(str(error), secrets_of(self._settings.url))
            raise SinkError(f"{self.name}: {type(error).__name__}: {said}") from None
