"""Events from a topic of Kafka."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn._extras import extra
from dygcn.engine.records import Message
from dygcn.errors import OptionError, SourceError
from dygcn.serving.sources.settings import (
    Form,
    Settings,
    check_name,
    check_timeout,
    failure,
    not_open,
    secrets_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # librdkafka would write to stderr
_OURS = {
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "isolation.level",
    "allow.auto.create.topics",
    "error_cb",
    "logger",
}


class KafkaSettings(Settings, frozen=True, tag="kafka"):
    """Which topic is read.

    Parameters
    ----------
    servers
        Addresses to begin with, ``host:port``, with commas between.
    topic
        It must be there.
    form
        Of the value of a record.
    timeout
        Seconds that connecting may take.
    options
        Further ones for librdkafka, such as ``sasl.username`` and ``sasl.password``.

    Examples
    --------
    >>> KafkaSettings(servers="kafka.example:9092", topic="clicks", options={"sasl.password": "s3cret"})
    KafkaSettings(servers='kafka.example:9092', topic='clicks', ..., options={'sasl.password': '...'})
    """

    servers: str
    topic: str
    form: Form = "json"
    timeout: float = 10.0
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("topic", self.topic, r"[A-Za-z0-9._-]{1,249}", "at most 249 letters, digits, ., _ and -")
        check_name("servers", self.servers, r"[^\s,@/]+(,[^\s,@/]+)*", "host:port, with commas between")
        check_timeout(self.timeout)
        if taken := ", ".join(sorted(_OURS & self.options.keys())):
            raise OptionError(f"the options {taken} are ours: with others, events could be lost")


class KafkaSource:
    """All partitions of a topic, read by offset; nothing is committed, and no group is joined.

    The stream of a record is ``kafka:<topic>/<partition>``, its position the offset. Only committed
    transactions are read. Partitions that are added are noticed when it is opened again. librdkafka comes
    back by itself to brokers that were away; when all of them are, reading says so.

    Tested against the cluster that librdkafka simulates.

    Parameters
    ----------
    settings
        Where, and which.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        with extra("kafka"):
            import confluent_kafka  # noqa: PLC0415
        self._kafka = confluent_kafka
        self._settings = settings
        self._consumer: Any = None
        self._next: dict[int, int | None] = {}  # the next offset, if known
        self._failed: Any = None  # error of a partition, which is final
        self._lost: Any = None  # error of all brokers, which may come back
        self._waiting: int | None = None

    @property
    def name(self) -> str:
        """Kind and address, without secrets."""
        return f"kafka://{self._settings.servers} {self._settings.topic}"

    def open(self, after: Mapping[str, int]) -> None:
        """Connect, look up the partitions, and begin each behind its cursor.

        Raises
        ------
        SourceError
            If no broker can be reached, there is no such topic, or records behind a cursor were deleted.
        """
        self.close()
        try:
            self._consumer = self._connect()
            self._assign(self._partitions(after), after)
        except (self._kafka.KafkaException, SourceError) as error:
            self.close()
            raise self._failure(error) from None

    def read(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return up to `limit` further records, none after `timeout` seconds.

        Raises
        ------
        SourceError
            If all brokers are away, or records were deleted before they were read.
        """
        if self._consumer is None:
            raise not_open(self.name)
        try:
            messages = [] if self._failed else [self._message(one) for one in self._fetch(limit, timeout)]
            if not messages and (self._failed or self._lost):
                raise self._kafka.KafkaException(self._failed or self._lost)
            self._waiting = self._count()
        except (self._kafka.KafkaException, SourceError) as error:
            self.close()
            raise self._failure(error) from None
        return messages

    def lag(self) -> int | None:
        """Return how many records waited at the last read, where that is known."""
        return self._waiting

    def close(self) -> None:
        """Let go of the connections. Safe to call twice."""
        consumer, self._consumer = self._consumer, None
        self._next, self._failed, self._lost, self._waiting = {}, None, None, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> Any:
        settings = self._settings
        return self._kafka.Consumer(
            {
                **settings.options,
                "bootstrap.servers": settings.servers,
                "group.id": "dygcn",  # required, and not used
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "error_cb": self._note,
            },
            logger=_log,
        )

    def _partitions(self, after: Mapping[str, int]) -> list[int]:
        topic = self._settings.topic
        found = self._consumer.list_topics(topic, timeout=self._settings.timeout).topics.get(topic)
        if found is None or found.error is not None or not found.partitions:
            reason = "" if found is None or found.error is None else f": {found.error.str()}"
            raise SourceError(f"{self.name}: there is no such topic{reason}")
        partitions = sorted(found.partitions)
        for stream in after:
            known = re.fullmatch(rf"kafka:{re.escape(topic)}/(\d+)", stream)
            if known and int(known[1]) not in partitions:
                raise SourceError(
                    f"{self.name}: {stream} was read and is gone; was the topic created again? "
                    f"There are {len(partitions)} partitions now"
                )
        return partitions

    def _assign(self, partitions: list[int], after: Mapping[str, int]) -> None:
        assigned = []
        for partition in partitions:
            cursor = after.get(f"kafka:{self._settings.topic}/{partition}")
            self._next[partition] = None if cursor is None else cursor + 1
            if cursor is not None:
                self._check(partition, cursor + 1)
            begin = self._kafka.OFFSET_BEGINNING if cursor is None else cursor + 1
            assigned.append(self._kafka.TopicPartition(self._settings.topic, partition, begin))
        self._consumer.assign(assigned)

    def _check(self, partition: int, begin: int) -> None:
        low, high = self._consumer.get_watermark_offsets(
            self._kafka.TopicPartition(self._settings.topic, partition), timeout=self._settings.timeout
        )
        where = f"{self.name}: partition {partition}"
        if begin < low:
            raise SourceError(
                f"{where} begins at {low}, {begin} is next: {low - begin} offsets were deleted before they "
                "were read"
            )
        if begin > high:
            raise SourceError(f"{where} ends at {high}, {begin} is next: was the topic created again?")

    def _fetch(self, limit: int, timeout: float) -> list[Any]:
        """Wait for one record and return all that arrived; an error is raised after the good records."""
        records = self._consumer.consume(1, timeout)
        if records and limit > 1:
            records += self._consumer.consume(limit - 1, 0)
        good = [record for record in records if record.error() is None]
        self._failed = next((record.error() for record in records if record.error() is not None), None)
        if good:
            self._lost = None
        return good

    def _message(self, record: Any) -> Message:
        self._next[record.partition()] = record.offset() + 1
        stream = f"kafka:{record.topic()}/{record.partition()}"
        return Message(stream, record.offset(), record.value() or b"", self._settings.form)

    def _count(self) -> int | None:
        """Return the number of unread records, as of the brokers' last answer."""
        waiting = 0
        for partition, begin in self._next.items():
            known = self._kafka.TopicPartition(self._settings.topic, partition)
            low, high = self._consumer.get_watermark_offsets(known, cached=True)
            if high < 0:
                return None
            waiting += max(high - (max(low, 0) if begin is None else begin), 0)
        return waiting

    def _note(self, error: Any) -> None:
        if error.fatal() or error.code() in (
            self._kafka.KafkaError._ALL_BROKERS_DOWN,
            self._kafka.KafkaError._AUTHENTICATION,
        ):
            self._lost = error

    def _failure(self, error: Exception) -> SourceError:
        if isinstance(error, SourceError):
            return error
        detail: Any = error.args[0] if error.args else error
        code = detail.code() if isinstance(detail, self._kafka.KafkaError) else None
        if code in (self._kafka.KafkaError.OFFSET_OUT_OF_RANGE, self._kafka.KafkaError._AUTO_OFFSET_RESET):
            return SourceError(
                f"{self.name}: the next records are no longer there, or never were; what was not read may be "
                f"lost ({detail.str()})"
            )
        return failure(self.name, error, secrets_of("", self._settings.options))
