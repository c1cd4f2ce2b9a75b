"""Connections to Kafka, NATS and Redis, as sources and sinks share them, and a loop for asyncio clients."""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dygcn._extras import extra
from dygcn.errors import OptionError
from dygcn.serving.addresses import Settings, check_address, check_name, check_seconds, secrets_of

_Result = TypeVar("_Result")


class LoopThread:
    """Runs coroutines for synchronous callers, in one event loop per connection."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _Result], timeout: float | None = None) -> _Result:
        """Run a coroutine in the loop and return its result."""
        if self._loop.is_closed() or threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(f"{self._thread.name}: its loop is closed, or waits for itself")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except BaseException:  # an interrupt of the caller, too, must not leave the work behind
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel running coroutines, then end the thread. Safe to call twice."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # librdkafka would write to stderr


class KafkaConnection(Settings, frozen=True, kw_only=True):
    """Where a topic of Kafka is; `options` are further ones for librdkafka."""

    servers: str
    topic: str
    timeout: float
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("topic", self.topic, r"[A-Za-z0-9._-]{1,249}", "at most 249 letters, digits, ., _ and -")
        check_name("servers", self.servers, r"[^\s,@/]+(,[^\s,@/]+)*", "host:port, with commas between")
        check_seconds("timeout", self.timeout)

    def check_options(self, fixed: Set[str], harm: str) -> None:
        """Raise OptionError for options that this package sets itself."""
        if taken := ", ".join(sorted((fixed | {"bootstrap.servers"}) & self.options.keys())):
            raise OptionError(f"the options {taken} are ours: {harm}")

    def secrets(self) -> list[str]:
        """Return the secrets among the options."""
        return secrets_of("", self.options)

    def connect(self, make: Any, fixed: dict[str, Any]) -> Any:
        """Return a producer or consumer with the options and what this package sets itself."""
        return make({**self.options, "bootstrap.servers": self.servers, **fixed}, logger=_log)


class RedisConnection(Settings, frozen=True, kw_only=True):
    """Where a server of Redis is."""

    url: str
    timeout: float

    def __post_init__(self) -> None:
        check_address(self.url, ("redis", "rediss", "unix"))
        check_seconds("timeout", self.timeout)

    def connect(self, retries: int, **options: Any) -> Any:
        """Return a client, which connects with its first command."""
        with extra("redis"):
            import redis  # noqa: PLC0415
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        how = {"socket_timeout": self.timeout, "socket_connect_timeout": self.timeout, **options}
        return redis.Redis.from_url(
            self.url, retry=Retry(NoBackoff(), retries), decode_responses=False, **how
        )


class NatsConnection(Settings, frozen=True, kw_only=True):
    """Where servers of NATS are: several, with blanks between, are tried in this order."""

    url: str
    credentials: str | None = None
    timeout: float

    def __post_init__(self) -> None:
        check_address(self.url, ("nats", "tls", "ws", "wss"))
        check_seconds("timeout", self.timeout)

    @staticmethod
    def client() -> Any:
        """Return the module of the client."""
        with extra("nats"):
            import nats  # noqa: PLC0415
            import nats.aio.client  # noqa: PLC0415
            import nats.js.api  # noqa: PLC0415
            import nats.js.errors  # noqa: PLC0415
        return nats

    def errors(self) -> tuple[type[BaseException], ...]:
        """Return the errors that the client raises."""
        if self.credentials is not None:
            with extra("nats"):
                importlib.import_module("nkeys")  # the client would miss it only when it connects
        return (self.client().errors.Error, OSError, TimeoutError, ValueError, KeyError, TypeError)

    async def connect(self, name: str, lost: Callable[[], Awaitable[None]]) -> Any:
        """Connect to the first server that answers; `lost` is called when that connection ends."""
        *others, last = self.url.split()
        for server in others:
            with suppress(*self.errors()):
                return await self._connect_to(server, name, lost)
        return await self._connect_to(last, name, lost)

    async def _connect_to(self, server: str, name: str, lost: Callable[[], Awaitable[None]]) -> Any:
        client: Any = self.client().aio.client.Client()
        noted: list[BaseException] = []  # why there is no server
        connected = False

        async def note(error: Exception) -> None:
            noted.append(error)

        async def closed() -> None:
            if connected:
                await lost()

        credentials = {}
        if self.credentials is not None:
            if not Path(self.credentials).is_file():  # the client looks only when a server asks for it
                raise FileNotFoundError(f"there is no file {self.credentials!r}")
            credentials["user_credentials"] = self.credentials
        try:
            await client.connect(
                server,
                allow_reconnect=False,  # a server that comes back may have less than it had: open() compares
                max_reconnect_attempts=1,  # counts for the first connection, too, where 0 is no end
                reconnect_time_wait=0,
                connect_timeout=max(1, round(self.timeout)),
                ping_interval=10,
                max_outstanding_pings=2,
                error_cb=note,
                closed_cb=closed,
                name=name,
                **credentials,
            )
        except self.errors() as error:
            with suppress(*self.errors()):
                await client.close()
            raise (noted or [error])[-1] from None
        connected = True
        return client
