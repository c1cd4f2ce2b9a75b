"""Vectors as messages in a stream of NATS JetStream, one for each node."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dygcn._extras import extra
from dygcn.errors import SinkError
from dygcn.serving.event_loop import LoopThread
from dygcn.serving.sinks.histories import FIELDS, admit, as_fields, check_history, from_fields
from dygcn.serving.sinks.json_rows import deleted_below_message, left_messages, row_messages
from dygcn.serving.sinks.settings import (
    DAY,
    OnOtherHistory,
    Settings,
    check_name,
    check_seconds,
    public_address,
    secrets_of,
    without,
)
from dygcn.serving.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from dygcn.engine.records import History, Rows

_IN_FLIGHT = 512  # messages that wait for their acknowledgement at once
_SHAPE = "Dygcn-Shape"
_HISTORY = {name: f"Dygcn-{name.title()}" for name in FIELDS}
_ID = "Nats-Msg-Id"
_Result = TypeVar("_Result")


class NatsSettings(Settings, frozen=True, tag="nats"):
    """Where rows go in NATS.

    Parameters
    ----------
    url
        ``nats://`` or ``tls://``, with user and password if need be; several with blanks between are tried
        in this order.
    subject
        Of every message.
    stream
        Name of the stream that keeps the subject. Without it, it is looked up.
    create
        Make the stream, on files, if nobody keeps the subject. Without, that is an error.
    credentials
        Path of a credentials file.
    timeout
        Seconds that connecting, and each acknowledgement, may take.
    other_history
        Action if the messages are of another history; see
        `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> NatsSettings(url="nats://me:s3cret@broker.example:4222", subject="vectors.live")
    NatsSettings(url='nats://broker.example:4222', subject='vectors.live', stream=None, ...)
    >>> NatsSettings(url="nats://broker.example:4222", subject="vectors.*")
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: subject is 'vectors.*'; allowed is words with dots between, without * and >
    """

    url: str
    subject: str
    stream: str | None = None
    create: bool = False
    credentials: str | None = None
    timeout: float = 30.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        if not self.url.split() or not all("://" in part for part in self.url.split()):
            check_name("url", "...", "", "nats://host:port, or several with blanks between")
        words = "words with dots between, without * and >"
        check_name("subject", self.subject, r"[^\s.*>]+(\.[^\s.*>]+)*", words)
        if self.stream is not None:
            check_name("stream", self.stream, r"[^\s.*>/\\]+", "a word without . * > / and \\")
        check_seconds("timeout", self.timeout, DAY)


class NatsSink:
    """A stream of JSON messages, one for each node that changed or left; see `dygcn.serving.sinks.json_rows`.

    A write returns when the stream has acknowledged every message. Each has an id made of subject, epoch,
    node and version, so the stream drops repeats within its window for duplicates, and readers drop
    later ones. The headers ``Dygcn-Shape``, ``Dygcn-Generation``, ``Dygcn-Epoch``, ``Dygcn-Version``
    and ``Dygcn-Chain`` are on every message.

    Each write first reads the last message, and is refused if that is of a newer history. Messages
    already sent at that moment still arrive; readers drop them by their generation.

    The server decides how durable an acknowledged message is: by default it is in a file, which
    is forced to disk every two minutes (``sync_interval``), on as many servers as the stream has
    replicas.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: NatsSettings) -> None:
        with extra("nats"):
            import nats  # noqa: PLC0415
            from nats.aio.client import Client  # noqa: PLC0415
            from nats.js import errors  # noqa: PLC0415

            if settings.credentials is not None:
                importlib.import_module("nkeys")  # the client would miss it only when it connects
        self._settings = settings
        self._nats, self._make_client, self._not_found = nats, Client, errors.NotFoundError
        self._errors = (nats.errors.Error, OSError, TimeoutError, ValueError, KeyError, TypeError)
        self._shape: Shape | None = None
        self._loop: LoopThread | None = None
        self._client: Any = None
        self._lost: asyncio.Future[None]
        self._noted: Exception | None = None
        self._stream = ""

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return f"{public_address(self._settings.url)} {self._settings.subject}"

    def open(self, ids: str, dim: int) -> History | None:
        """Connect, find or make the stream, and return the position of its last message.

        Raises
        ------
        SinkError
            If no server can be reached, nobody keeps the subject, or the stream holds rows of another shape.
        """
        self.close()
        shape = Shape(ids, dim)
        self._loop = LoopThread(f"dygcn sink {self._settings.subject}")
        try:
            held = self._run(self._look(shape))
        except SinkError:
            self.close()
            raise
        self._shape = shape
        return held

    def write(self, rows: Rows) -> None:
        """Publish a message for every row and for every id that left, and wait for all acknowledgements.

        Raises
        ------
        OtherHistory
            If the last message is of a newer history; nothing was published.
        SinkError
            If not all are known to be stored; the caller may write the same rows again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        if len(rows) == 0:
            return
        bodies = chain(row_messages(rows, shape, self.name), left_messages(rows, shape))
        ids = self._message_ids(chain(rows.ids, rows.left), rows.history)
        self._run(self._publish(shape, rows.history, zip(ids, bodies, strict=True)))

    def delete_below(self, floor: int, history: History) -> None:
        """Publish that rows of other epochs are gone, and rows below `floor` that did not come again."""
        shape = opened(self._shape, self.name)
        check_history(history, self.name)
        id_ = f"{self._settings.subject}:{history.epoch}:deleted_below:{floor}:{history.sequence}"
        self._run(self._publish(shape, history, [(id_, deleted_below_message(floor, history))]))

    def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        self._shape = None
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self._disconnect(), self._settings.timeout)
            except TimeoutError:
                pass
            finally:
                loop.close()

    def _message_ids(self, ids: Iterable[Any], history: History) -> Iterator[str]:
        """Yield ids of messages: a stream may keep several subjects, and an id may be any text."""
        for id_ in ids:
            text = hashlib.sha256(id_.encode()).hexdigest()[:32] if isinstance(id_, str) else id_
            yield f"{self._settings.subject}:{history.epoch}:{text}:{history.sequence}"

    async def _publish(self, shape: Shape, history: History, messages: Iterable[tuple[str, bytes]]) -> None:
        admit(await self._look(shape), history, self.name)
        stream = self._client.jetstream(timeout=self._settings.timeout)
        headers = {_SHAPE: str(shape), **{_HISTORY[name]: text for name, text in as_fields(history).items()}}
        remaining = iter(messages)
        while window := list(islice(remaining, _IN_FLIGHT)):
            waiting = {
                asyncio.ensure_future(
                    stream.publish(
                        self._settings.subject, body, stream=self._stream, headers={_ID: id_, **headers}
                    )
                )
                for id_, body in window
            }
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
                raise self._nats.errors.ConnectionClosedError
            if isinstance(answer, BaseException):
                raise answer

    async def _look(self, shape: Shape) -> History | None:
        """Return the position of the last message, which must be of our shape; None if there is none."""
        if self._client is None:
            self._client = await self._connect()
            self._stream = await self._find_stream()
        try:
            last = await self._client.jsm().get_last_msg(self._stream, self._settings.subject)
        except self._not_found:
            return None
        headers = last.headers or {}
        there = from_fields({name: headers.get(header) for name, header in _HISTORY.items()})
        if there is None or _SHAPE not in headers:
            raise SinkError(f"{self.name} has messages that are not ours; choose another subject")
        shape.refuse(self.name, headers[_SHAPE])
        return there

    async def _connect(self) -> Any:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost = lost

        async def note_loss() -> None:
            if not lost.done():
                lost.set_result(None)

        async def note_error(error: Exception) -> None:
            self._noted = error

        options: dict[str, Any] = {}
        if self._settings.credentials is not None:
            # The client looks for the file only when a server asks for it.
            if not Path(self._settings.credentials).is_file():
                raise SinkError(f"{self.name}: there is no file {self._settings.credentials!r}")
            options["user_credentials"] = self._settings.credentials
        client = self._make_client()
        try:
            await client.connect(
                self._settings.url.split(),
                name="dygcn sink",
                dont_randomize=True,
                allow_reconnect=False,  # the next call does, and compares shapes again
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(self._settings.timeout)),
                error_cb=note_error,
                disconnected_cb=note_loss,
                **options,
            )
        except BaseException:
            await client.close()
            raise
        return client

    async def _find_stream(self) -> str:
        streams, subject = self._client.jsm(), self._settings.subject
        try:
            found = str(await streams.find_stream_name_by_subject(subject))
        except self._not_found:
            if not self._settings.create:
                raise SinkError(
                    f"{self.name}: no stream keeps this subject; make one, or set create = true"
                ) from None
            found = self._settings.stream or "".join(x if x.isalnum() else "_" for x in subject)
            await streams.add_stream(name=found, subjects=[subject])
        if self._settings.stream not in (None, found):
            raise SinkError(
                f"{self.name}: the stream {found} keeps this subject, not {self._settings.stream}"
            )
        return found

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        if self._loop is None:
            coroutine.close()
            raise SinkError(f"{self.name} is not open; call open() first")
        try:
            return self._loop.run(coroutine)
        except BaseException as error:
            self._loop.run(self._disconnect(), self._settings.timeout)  # the next call begins afresh
            if isinstance(error, SinkError) or not isinstance(error, self._errors):
                raise
            if isinstance(error, self._nats.errors.NoServersError):
                error = self._noted or error  # why there are none
            text = without(str(error), secrets_of(self._settings.url))
            raise SinkError(f"{self.name}: {type(error).__name__}: {text}") from None
