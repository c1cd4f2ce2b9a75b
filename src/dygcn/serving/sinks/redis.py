"""Vectors in Redis, one hash for each node."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dygcn._extras import extra
from dygcn.errors import OptionError, SinkError
from dygcn.serving.sinks.histories import FIELDS, admit, as_fields, check_history, from_fields
from dygcn.serving.sinks.settings import (
    DAY,
    YEAR,
    OnOtherHistory,
    Settings,
    check_name,
    check_seconds,
    public_address,
    secrets_of,
    without,
)
from dygcn.serving.sinks.shape import Shape, kind_of, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dygcn.engine.records import History, Rows

_Result = TypeVar("_Result")
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


class RedisSettings(Settings, frozen=True, tag="redis"):
    """Where rows go in Redis.

    Parameters
    ----------
    url
        ``redis://``, ``rediss://`` (TLS) or ``unix://``, with user, password and database if need be.
    prefix
        All keys begin with it and a colon.
    keep_left
        Seconds for which the hash of an id that left is remembered: for that long, a late repeat of an older
        write does not bring it back.
    timeout
        Seconds that connecting, and each answer, may take.
    other_history
        Action if the keys are of another history; see `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> RedisSettings(url="redis://:s3cret@cache.example/1", prefix="live")
    RedisSettings(url='redis://cache.example/1', prefix='live', keep_left=86400.0, timeout=30.0, ...)
    >>> RedisSettings(url="redis://cache.example", prefix="a:b")
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: prefix is 'a:b'; allowed is a word of letters, digits, _, . and -
    """

    url: str
    prefix: str = "dygcn"
    keep_left: float = DAY
    timeout: float = 30.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_name("prefix", self.prefix, r"[A-Za-z0-9_.-]+", "a word of letters, digits, _, . and -")
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("timeout", self.timeout, DAY)


class RedisSink:
    """A hash ``<prefix>:node:<id>`` for each node: ``vector`` as little-endian float32, and its position.

    That is ``generation``, ``epoch``, ``version`` (the sequence) and ``chain``; and ``kind``, if nodes have
    kinds. A node that left has the hash ``<prefix>:left:<SHA-256>`` instead, which does not name it and
    expires. ``<prefix>:about`` has the type of the ids, the size of the vectors and the newest position that
    was written. A write is not one transaction; each hash changes in one step, only to a later
    version, and never for an older history than that of ``<prefix>:about``.

    The settings of Redis decide whether an answered write survives its crash: with ``appendonly yes`` and
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
        self._reach = self._client.register_script(_REACH)
        self._write = self._client.register_script(_WRITE)
        self._leave = self._client.register_script(_LEAVE)
        self._delete_below = self._client.register_script(_DELETE_BELOW)

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return f"{public_address(self._settings.url)} {self._settings.prefix}"

    def open(self, ids: str, dim: int) -> History | None:
        """Connect; write down the shape, or compare it; return the newest position that was written.

        Raises
        ------
        SinkError
            If the server cannot be reached, or holds rows of another shape under this prefix.
        """
        self.close()
        shape = Shape(ids, dim)

        def compare() -> History | None:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.hsetnx(self._about, "kind", shape.ids)
                pipeline.hsetnx(self._about, "dim", dim)
                pipeline.hmget(self._about, "kind", "dim", *FIELDS)
                found = [
                    None if one is None else one.decode(errors="replace") for one in pipeline.execute()[-1]
                ]
            shape.refuse(self.name, f"{found[0]}:{found[1]}")
            return from_fields(dict(zip(FIELDS, found[2:], strict=True)))

        held = self._call(compare)
        self._shape = shape
        return held

    def write(self, rows: Rows) -> None:
        """Bring rows in and take out those that left, each unless Redis has a later version of it.

        Raises
        ------
        OtherHistory
            If Redis holds rows of a newer history; nothing was written.
        SinkError
            If not all is known to be written; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        if len(rows):
            self._in_pipelines(rows.history, self._commands(rows, shape))

    def delete_below(self, floor: int, history: History) -> None:
        """Take out every row of another epoch, and every row with a version below `floor`.

        It looks at every key of the database.
        """
        opened(self._shape, self.name)
        check_history(history, self.name)
        below = [str(floor), str(floor - 1), self._remembered]
        keys = self._client.scan_iter(match=f"{self._settings.prefix}:node:*", count=_AT_ONCE)
        self._in_pipelines(history, ((self._delete_below, key, below) for key in keys))

    def close(self) -> None:
        """Let go of the connections. Safe to call twice."""
        self._shape = None
        self._client.close()

    @property
    def _remembered(self) -> int:
        return max(1, round(self._settings.keep_left))

    @property
    def _about(self) -> bytes:
        return f"{self._settings.prefix}:about".encode()

    def _commands(self, rows: Rows, shape: Shape) -> Iterator[tuple[Any, bytes, list[Any]]]:
        prefix, little = f"{self._settings.prefix}:node:", np.dtype("<f4")
        for id_, vector in zip(rows.ids, rows.vectors, strict=True):
            kind = ["kind", kind_of(id_)] if shape.with_kinds else []
            values = ["vector", vector.astype(little).tobytes(), *kind]
            yield self._write, f"{prefix}{id_}".encode(), values
        for id_ in rows.left:
            yield self._leave, f"{prefix}{id_}".encode(), [self._remembered]

    def _in_pipelines(self, history: History, commands: Iterable[tuple[Any, bytes, list[Any]]]) -> None:
        position = list(as_fields(history).values())

        def send() -> None:
            self._reach(keys=[self._about], args=position)
            with self._client.pipeline(transaction=False) as pipeline:
                for script, key, values in commands:
                    mark = f"{self._settings.prefix}:left:{hashlib.sha256(key).hexdigest()}".encode()
                    script(keys=[key, self._about, mark], args=[*position, *values], client=pipeline)
                    if len(pipeline) >= _AT_ONCE:
                        pipeline.execute()
                pipeline.execute()

        self._call(send, history)

    def _call(self, what: Callable[[], _Result], ours: History | None = None) -> _Result:
        try:
            return what()
        except SinkError:
            raise
        except self._errors as error:
            if ours is not None and (refused := _REFUSED.search(str(error))):
                held = from_fields(dict(zip(FIELDS, refused.groups(), strict=True)))
                admit(held, ours, self.name)
            text = without(str(error), secrets_of(self._settings.url))
            raise SinkError(f"{self.name}: {type(error).__name__}: {text}") from None
