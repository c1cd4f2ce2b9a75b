"""Events from Redis Streams."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dygcn._extras import extra
from dygcn.engine.records import Message
from dygcn.errors import OptionError, SourceError
from dygcn.serving.addresses import public_address, secrets_of
from dygcn.serving.brokers import RedisConnection
from dygcn.serving.sources.source import Form, ReaderSource

_SEQUENCE_BITS = 22
_MOST_MS, _MOST_SEQUENCE = (1 << (63 - _SEQUENCE_BITS)) - 1, (1 << _SEQUENCE_BITS) - 1
_LOOK_EVERY = 1.0  # seconds between two looks at how much waits
_LONGEST_WAIT = 1.0  # seconds: a server that says nothing for longer is lost, not silent


class RedisSourceSettings(RedisConnection, frozen=True, kw_only=True, tag="redis"):
    """Which streams are read.

    >>> RedisSourceSettings(url="redis://:s3cret@cache.example/1", streams=["clicks"])
    RedisSourceSettings(url='redis://cache.example/1', timeout=10.0, streams=['clicks'], field='event', ...)
    """

    timeout: float = 10.0
    streams: list[str]  # those that are not there yet are waited for
    field: str = "event"  # of an entry, which holds the events
    form: Form = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.streams or len(set(self.streams)) < len(self.streams) or "" in self.streams:
            raise OptionError(f"streams is {self.streams!r}; allowed are one or more names, each once")

    def make(self) -> ReaderSource:
        return ReaderSource(RedisReader(self))


def offset_of(entry: str) -> int:
    """Return the offset of an entry's id: its milliseconds, then 22 bits of its sequence."""
    ms, _, sequence = entry.partition("-")
    if int(ms) > _MOST_MS or int(sequence or 0) > _MOST_SEQUENCE:
        raise SourceError(
            f"the id {entry} is too great; allowed is up to {_MOST_MS}-{_MOST_SEQUENCE} (let Redis choose)"
        )
    return (int(ms) << _SEQUENCE_BITS) + int(sequence or 0)


def entry_of(offset: int) -> str:
    """Return the id of the entry at an offset."""
    return f"{offset >> _SEQUENCE_BITS}-{offset & _MOST_SEQUENCE}"


class RedisReader:
    """Entries of one or more streams, read by id, without a consumer group.

    The stream of an entry is ``redis:<name>``. Each read begins *at* the entry that was read last: as long as
    that one is still there, nothing after it was trimmed. So trim a stream at or before the offset that was
    reached (``XTRIM ... MINID`` keeps the entry it names), and let the server keep what it was given
    (``appendonly yes``).
    """

    def __init__(self, settings: RedisSourceSettings) -> None:
        with extra("redis"):
            import redis  # noqa: PLC0415
        self._settings = settings
        self.name = f"{public_address(settings.url)} {' '.join(settings.streams)}"
        self.errors: tuple[type[BaseException], ...] = (redis.RedisError, OSError, ValueError)
        self.secrets = secrets_of(settings.url)
        self._client: Any = None
        self._turn = 0
        self._looked = 0.0
        self._forget()

    def _forget(self) -> None:
        self._reached: dict[str, int | None] = {}
        self._counted: dict[str, int | None] = {}  # entries of each stream up to the offset, where known
        self._waiting: int | None = None

    def connect(self, after: Mapping[str, int]) -> None:
        # A lost connection must be seen: a server that comes back may have less than it had.
        timeout = self._settings.timeout + _LONGEST_WAIT
        self._client = self._settings.connect(
            0, single_connection_client=True, socket_timeout=timeout, protocol=2
        )
        for stream in self._settings.streams:
            self._reached[stream] = after.get(f"redis:{stream}")
            self._check(stream, deleted=True)

    def disconnect(self) -> None:
        client, self._client = self._client, None
        self._forget()
        if client is not None:
            with suppress(*self.errors):
                client.close()

    def fetch(self, limit: int, timeout: float) -> Sequence[Message]:
        until = time.monotonic() + timeout
        while True:
            messages = self._read(limit)
            self._look()
            left = until - time.monotonic()
            if messages or left <= 0:
                return messages
            self._wait(min(left, _LONGEST_WAIT))

    def lag(self) -> int | None:
        return self._waiting

    def _read(self, limit: int) -> list[Message]:
        """Return the entries that exist now, with a fair share for each stream."""
        names = self._settings.streams
        self._turn = (self._turn + 1) % len(names)
        names = (names[self._turn :] + names[: self._turn])[:limit]
        share = max(limit // len(names), 1)
        begin = {name: "0-0" if (at := self._reached[name]) is None else _just_before(at) for name in names}
        found = {name.decode(): entries for name, entries in self._client.xread(begin, count=share + 1) or []}
        messages: list[Message] = []
        for name in names:
            messages += self._taken(name, found.get(name, []), share)
        return messages

    def _taken(self, name: str, entries: list[Any], share: int) -> list[Message]:
        reached = self._reached[name]
        if reached is not None:
            if entries and offset_of(entries[0][0].decode()) == reached:
                entries = entries[1:]
            else:
                self._check(name)
        field = self._settings.field.encode()
        messages = [
            Message(f"redis:{name}", offset_of(entry.decode()), _body(fields, field), self._settings.form)
            for entry, fields in entries[:share]
        ]
        if messages:
            self._reached[name] = messages[-1].offset
            counted = self._counted.get(name)
            self._counted[name] = None if counted is None else counted + len(messages)
        return messages

    def _wait(self, seconds: float) -> None:
        offsets = {name: entry_of(self._reached[name] or 0) for name in self._settings.streams}
        self._client.xread(offsets, count=1, block=max(int(seconds * 1000), 1))

    def _check(self, name: str, deleted: bool = False) -> None:
        """Raise SourceError if entries after our offset are gone, as far as the server can tell."""
        about, reached = self._about(name), self._reached[name]
        if about is None:
            if reached is not None:
                raise SourceError(f"{self.name}: the stream {name} is gone, with what was not read of it")
            return
        last = offset_of(about["last-generated-id"].decode())
        self._counted[name] = self._count(about, reached, last)
        if reached is None or reached == last:
            return
        at = entry_of(reached)
        if last < reached:
            raise SourceError(
                f"{self.name}: the stream {name} ends before {at}, which was read: it was created again, "
                "or restored from an older copy"
            )
        first = about["first-entry"]
        if first is None or offset_of(first[0].decode()) > reached:
            raise SourceError(
                f"{self.name}: {name} was trimmed up to {at} or beyond, and unread entries may be "
                "lost; keep the entry that was read last"
            )
        tombstone = about.get("max-deleted-entry-id", b"0-0").decode()
        if deleted and offset_of(tombstone) > reached:
            raise SourceError(f"{self.name}: entries of {name} after {at} were deleted, up to {tombstone}")

    def _look(self) -> None:
        """Count unread entries, now and then."""
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return
        self._looked = time.monotonic()
        waiting: int | None = 0
        for name, reached in self._reached.items():
            about = self._about(name)
            if about is None or offset_of(about["last-generated-id"].decode()) == reached:
                self._counted[name] = 0 if about is None else about.get("entries-added")
                continue
            counted = self._counted.get(name)
            if counted is None or waiting is None or "entries-added" not in about:
                waiting = None
            else:
                waiting += max(about["entries-added"] - counted, 0)
        self._waiting = waiting

    def _count(self, about: dict[str, Any], reached: int | None, last: int) -> int | None:
        added: int | None = about.get("entries-added")
        if added is None or (reached is not None and reached != last):
            return None
        return added - int(about["length"]) if reached is None else added

    def _about(self, name: str) -> dict[str, Any] | None:
        """Return the server's facts about a stream; None if it does not exist."""
        if not self._client.exists(name):
            return None
        kind = self._client.type(name)
        if kind != b"stream":
            raise SourceError(f"{self.name}: {name} is not a stream but a {kind.decode()}")
        answer = self._client.execute_command("XINFO STREAM", name)
        pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
        return {key.decode() if isinstance(key, bytes) else key: value for key, value in pairs}


def _just_before(offset: int) -> str:
    """Return the id after which the entry at an offset is the first that can be."""
    if offset & _MOST_SEQUENCE:
        return entry_of(offset - 1)
    ms = offset >> _SEQUENCE_BITS
    return f"{ms - 1}-{2**64 - 1}" if ms else "0-0"


def _body(fields: dict[bytes, bytes] | None, field: bytes) -> bytes:
    """Return the events of an entry; without that field, a text that no form can decode."""
    found = (fields or {}).get(field)
    return f"no field {field!r} in {fields!r:.500}".encode() if found is None else found
