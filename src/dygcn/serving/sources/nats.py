"""Events from a stream of NATS JetStream."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dygcn.engine.records import Message
from dygcn.errors import SourceError
from dygcn.serving.addresses import check_name, public_address, secrets_of
from dygcn.serving.brokers import LoopThread, NatsConnection
from dygcn.serving.sources.source import Form, ReaderSource

_PULL = 1_000  # messages requested at once, at most
_PATIENCE = 5.0  # seconds that the server keeps a request for messages
_GRACE = 0.5  # seconds after which a request that the server should have ended is taken for lost
_UNANSWERED = 3  # lost requests in a row after which stream or consumer counts as gone
_IDLE = 300.0  # seconds without a read after which the server forgets us
_OVER = {"404", "408"}  # the end of a request: no messages, no more time


class NatsSourceSettings(NatsConnection, frozen=True, kw_only=True, tag="nats"):
    """Which stream is read.

    >>> NatsSourceSettings(url="nats://me:s3cret@broker.example:4222", stream="clicks")
    NatsSourceSettings(url='nats://broker.example:4222', ..., stream='clicks', subject=None, form='json')
    """

    timeout: float = 10.0
    stream: str
    subject: str | None = None  # only messages of it; ``*`` and ``>`` stand for others
    form: Form = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("stream", self.stream, r"[^\s.*>/\\]+", "a word without . * > / and \\")
        check_name("subject", self.subject or "x", r"[^\s.]+(\.[^\s.]+)*", "words with dots between")

    def make(self) -> ReaderSource:
        return ReaderSource(NatsReader(self))


class NatsReader:
    """Messages of one stream, read by sequence through a consumer that acknowledges nothing.

    The stream of a message is ``nats:<stream>``, its offset the sequence. The consumer lives in the memory
    of the server, and every `connect` creates a new one. Without a subject every sequence is expected, and
    one that is missing because the stream was trimmed is an error. With a subject only `connect` can detect
    that: give such a stream a retention that is longer than the longest silence.
    """

    def __init__(self, settings: NatsSourceSettings) -> None:
        self._api, self._settings = settings.client().js.api, settings
        self.name = f"{public_address(settings.url)} {settings.stream}"
        self.errors, self.secrets = settings.errors(), secrets_of(settings.url)
        self._loop: LoopThread | None = None
        self._client: Any = None
        self._forget()

    def _forget(self) -> None:
        self._consumer = self._inbox = ""
        self._reached = 0  # the last sequence that was read
        self._delivered = 0  # messages that the consumer has sent us
        self._requested = 0  # messages that the server may still send us
        self._requested_at = 0.0
        self._unanswered = 0
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._news = asyncio.Event()
        self._broken: str | None = None
        self._waiting: int | None = None

    def connect(self, after: Mapping[str, int]) -> None:
        self._loop = LoopThread(f"dygcn source {self._settings.stream}")
        offset = after.get(f"nats:{self._settings.stream}")
        timeout = 4 * self._settings.timeout * len(self._settings.url.split())
        self._loop.run(self._open(offset), timeout)

    def fetch(self, limit: int, timeout: float) -> Sequence[Message]:
        assert self._loop is not None
        found = self._loop.run(self._read(limit, timeout), timeout + 4 * self._settings.timeout)
        stream, form = f"nats:{self._settings.stream}", self._settings.form
        return [Message(stream, offset, body, form) for offset, body in found]

    def lag(self) -> int | None:
        """Return the number of unread messages, as of the last one that arrived."""
        waiting = self._waiting
        return None if waiting is None else waiting + len(self._arrived)

    def disconnect(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            with suppress(*self.errors):
                loop.run(self._close(), 2 * self._settings.timeout)
            loop.close()
        self._client = None
        self._forget()

    async def _open(self, offset: int | None) -> None:
        self._forget()
        self._client = await self._settings.connect("dygcn source", self._lost)
        streams = self._client.jsm(timeout=self._settings.timeout)
        state = (await streams.stream_info(self._settings.stream)).state
        self._reached = 0 if offset is None else offset
        if offset is not None:
            self._check(state, offset)
        begin = max(self._reached + 1, 1)
        config = self._api.ConsumerConfig(
            name=self._client.new_inbox().rpartition(".")[2],
            deliver_policy=self._api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=begin,
            ack_policy=self._api.AckPolicy.NONE,
            filter_subject=self._settings.subject,
            inactive_threshold=_IDLE,
            mem_storage=True,
            num_replicas=1,
        )
        made = await streams.add_consumer(self._settings.stream, config)
        self._consumer, self._waiting = made.name, made.num_pending
        self._inbox = self._client.new_inbox()
        # The server never sends more than was requested, so the client needs no limit that drops messages.
        await self._client.subscribe(
            self._inbox, cb=self._arrive, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        if self._consumer and client.is_connected:
            with suppress(*self.errors):  # the server forgets it by itself
                await client.jsm(timeout=1).delete_consumer(self._settings.stream, self._consumer)
        await client.close()

    async def _lost(self) -> None:
        self._break("the connection was lost")

    def _break(self, reason: str) -> None:
        self._broken = self._broken or reason
        self._news.set()

    async def _arrive(self, message: Any) -> None:
        self._unanswered = 0
        status = (message.headers or {}).get(self._api.Header.STATUS)
        if status is not None and not message.reply:
            if status not in _OVER:
                reason = (message.headers or {}).get(self._api.Header.DESCRIPTION, "")
                self._break(f"the server sends no more messages: {status} {reason}")
            self._requested = 0
            self._news.set()
            return
        about = message.metadata
        self._delivered += 1
        if about.sequence.consumer != self._delivered:
            self._break(f"{about.sequence.consumer - self._delivered} messages were lost on their way")
            return
        self._requested = max(self._requested - 1, 0)
        self._waiting = about.num_pending
        self._arrived.append((about.sequence.stream, message.data))
        self._news.set()

    async def _read(self, limit: int, timeout: float) -> list[tuple[int, bytes]]:
        until = time.monotonic() + timeout
        while True:
            self._news.clear()  # before the check: a message that comes during the request must wake us
            if self._arrived or self._broken is not None:
                break
            await self._ask(limit)
            now = time.monotonic()
            if now >= until:
                return []
            wake = max(min(until, self._requested_at + _PATIENCE + _GRACE) - now, 0.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wake)
        if not self._arrived:
            raise SourceError(f"{self.name}: {self._broken}")
        found = [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]
        if not self._arrived and self._broken is None:
            await self._ask(limit)  # more is on its way while these are worked on
        await self._look_for_gaps([offset for offset, _ in found])
        self._reached = found[-1][0]
        return found

    async def _ask(self, limit: int) -> None:
        """Request messages, unless an earlier request is still open.

        The server may never answer that a request has expired: one that expires just as a message arrives is
        silently dropped (nats-server 2.9), and so are requests to a consumer that is gone.
        """
        if self._requested:
            if time.monotonic() < self._requested_at + _PATIENCE + _GRACE:
                return
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                self._break("requests were never answered; stream or consumer may be gone")
                return
        self._requested, self._requested_at = min(limit, _PULL), time.monotonic()
        request = {"batch": self._requested, "expires": int(_PATIENCE * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._settings.stream}.{self._consumer}"
        await self._client.publish(subject, json.dumps(request).encode(), self._inbox)

    async def _look_for_gaps(self, offsets: list[int]) -> None:
        """Raise a SourceError if a sequence is missing because the stream was trimmed beyond our offset."""
        if self._settings.subject is not None or offsets[-1] - self._reached == len(offsets):
            return
        streams = self._client.jsm(timeout=self._settings.timeout)
        if self._reached:
            self._check((await streams.stream_info(self._settings.stream)).state, self._reached)

    def _check(self, state: Any, offset: int) -> None:
        if state.first_seq > offset + 1:
            raise SourceError(
                f"{self.name}: the stream begins at {state.first_seq}, {offset} was read: messages between "
                "them were deleted before they were read"
            )
        if state.last_seq < offset:
            raise SourceError(
                f"{self.name}: the stream ends at {state.last_seq}, {offset} was read: it was created again, "
                "or restored from an older copy"
            )
