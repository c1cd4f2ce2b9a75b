"""Vectors as messages in a stream of NATS JetStream, one for each node."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain, islice
from typing import Any

from dygcn.engine.records import History, Rows
from dygcn.errors import SinkError
from dygcn.serving.addresses import check_name, public_address, secrets_of
from dygcn.serving.brokers import LoopThread, NatsConnection
from dygcn.serving.sinks.json_rows import NOT_JSON, deleted_below_message, left_messages, row_messages
from dygcn.serving.sinks.sink import FIELDS, OnOtherHistory, Shape, StoreSink, admit, as_fields, from_fields

_IN_FLIGHT = 512  # messages that wait for their acknowledgement at once
_SHAPE = "Dygcn-Shape"
_HISTORY = {name: f"Dygcn-{name.title()}" for name in FIELDS}
_ID = "Nats-Msg-Id"


class NatsSinkSettings(NatsConnection, frozen=True, kw_only=True, tag="nats"):
    """Where rows go in NATS.

    >>> NatsSinkSettings(url="nats://me:s3cret@broker.example:4222", subject="vectors.live")
    NatsSinkSettings(url='nats://broker.example:4222', ..., subject='vectors.live', stream=None, ...)
    """

    timeout: float = 30.0  # seconds; also of each acknowledgement
    subject: str
    stream: str | None = None  # looked up without it
    create: bool = False  # the stream, on files, if none keeps the subject
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        super().__post_init__()
        words = "words with dots between, without * and >"
        check_name("subject", self.subject, r"[^\s.*>]+(\.[^\s.*>]+)*", words)
        check_name("stream", self.stream or "x", r"[^\s.*>/\\]+", "a word without . * > / and \\")

    def make(self) -> StoreSink:
        return StoreSink(NatsStore(self))


class NatsStore:
    """A stream of JSON messages, one for each node that changed or left; see `dygcn.serving.sinks.json_rows`.

    A write returns when the stream has acknowledged every message; by default the server forces its file to
    disk every two minutes (``sync_interval``). Each message has an id made of subject, epoch, node and
    version, so the stream drops repeats within its window for duplicates. A write first reads the last
    message, and is refused if that is of a newer history; messages sent at that moment still arrive.
    """

    not_finite = NOT_JSON

    def __init__(self, settings: NatsSinkSettings) -> None:
        self.settings = settings
        self.name = f"{public_address(settings.url)} {settings.subject}"
        self.errors, self.secrets = settings.errors(), secrets_of(settings.url)
        self._not_found = settings.client().js.errors.NotFoundError
        self._lost_error = settings.client().errors.ConnectionClosedError
        self._loop: LoopThread | None = None
        self._client: Any = None
        self._shape: Shape
        self._lost: asyncio.Future[None]
        self._stream = ""

    def connect(self, shape: Shape) -> None:
        self._shape = shape
        self._loop = LoopThread(f"dygcn sink {self.settings.subject}")
        self._loop.run(self._connect())

    def disconnect(self) -> None:
        loop, self._loop = self._loop, None
        client, self._client = self._client, None
        if loop is not None:
            with closing(loop), suppress(TimeoutError):
                if client is not None:
                    loop.run(client.close(), self.settings.timeout)

    def held(self) -> History | None:
        assert self._loop is not None
        return self._loop.run(self._look())

    def write(self, rows: Rows) -> None:
        bodies = chain(row_messages(rows, self._shape), left_messages(rows, self._shape))
        ids = self._message_ids(chain(rows.ids, rows.left), rows.history)
        self._publish(rows.history, zip(ids, bodies, strict=True))

    def delete_below(self, floor: int, history: History) -> None:
        id_ = f"{self.settings.subject}:{history.epoch}:deleted_below:{floor}:{history.sequence}"
        self._publish(history, [(id_, deleted_below_message(floor, history))])

    def forget_left(self) -> None:
        pass  # the stream's own limits forget

    def _message_ids(self, ids: Iterable[Any], history: History) -> Iterator[str]:
        """Yield ids of messages: a stream may keep several subjects, and an id may be any text."""
        for id_ in ids:
            text = hashlib.sha256(id_.encode()).hexdigest()[:32] if isinstance(id_, str) else id_
            yield f"{self.settings.subject}:{history.epoch}:{text}:{history.sequence}"

    def _publish(self, history: History, messages: Iterable[tuple[str, bytes]]) -> None:
        assert self._loop is not None
        self._loop.run(self._publish_all(history, iter(messages)))

    async def _publish_all(self, history: History, messages: Iterator[tuple[str, bytes]]) -> None:
        admit(await self._look(), history, self.name)
        publish = self._client.jetstream(timeout=self.settings.timeout).publish
        fields = {_HISTORY[name]: text for name, text in as_fields(history).items()}
        while window := list(islice(messages, _IN_FLIGHT)):
            waiting = set()
            for id_, body in window:
                headers = {_ID: id_, _SHAPE: str(self._shape), **fields}
                sent = publish(self.settings.subject, body, stream=self._stream, headers=headers)
                waiting.add(asyncio.ensure_future(sent))
            await self._unless_lost(waiting)

    async def _unless_lost(self, waiting: set[asyncio.Future[Any]]) -> None:
        """Wait for all; at once an error if the connection is lost: none would be answered any more."""
        together = asyncio.ensure_future(asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION))
        lost: asyncio.Future[Any] = self._lost
        await asyncio.wait({together, lost}, return_when=asyncio.FIRST_COMPLETED)
        for one in (together, *waiting):
            one.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        for answer in sorted(answers, key=lambda answer: isinstance(answer, asyncio.CancelledError)):
            if isinstance(answer, asyncio.CancelledError):
                raise self._lost_error
            if isinstance(answer, BaseException):
                raise answer

    async def _look(self) -> History | None:
        """Return the position of the last message, which must be of our shape; None if there is none."""
        try:
            last = await self._client.jsm().get_last_msg(self._stream, self.settings.subject)
        except self._not_found:
            return None
        headers = last.headers or {}
        there = from_fields({name: headers.get(header) for name, header in _HISTORY.items()})
        if there is None or _SHAPE not in headers:
            raise SinkError(f"{self.name} has messages that are not ours; choose another subject")
        self._shape.refuse(self.name, headers[_SHAPE])
        return there

    async def _connect(self) -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def note_loss() -> None:
            if not lost.done():
                lost.set_result(None)

        self._lost = lost
        self._client = await self.settings.connect("dygcn sink", note_loss)
        self._stream = await self._find_stream()

    async def _find_stream(self) -> str:
        streams, subject = self._client.jsm(), self.settings.subject
        try:
            found = str(await streams.find_stream_name_by_subject(subject))
        except self._not_found:
            if not self.settings.create:
                raise SinkError(
                    f"{self.name}: no stream keeps this subject; make one, or set create = true"
                ) from None
            found = self.settings.stream or "".join(x if x.isalnum() else "_" for x in subject)
            await streams.add_stream(name=found, subjects=[subject])
        if self.settings.stream not in (None, found):
            raise SinkError(f"{self.name}: the stream {found} keeps this subject, not {self.settings.stream}")
        return found
