"""Events from a topic of Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dygcn._extras import extra
from dygcn.engine.records import Message
from dygcn.errors import SourceError
from dygcn.serving.brokers import KafkaConnection
from dygcn.serving.sources.source import Form, ReaderSource

_FIXED = {
    "group.id": "dygcn",  # required, and not used
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
}


class KafkaSourceSettings(KafkaConnection, frozen=True, kw_only=True, tag="kafka"):
    """Which topic is read.

    >>> KafkaSourceSettings(servers="kafka.example:9092", topic="clicks", options={"sasl.password": "s3cret"})
    KafkaSourceSettings(servers='kafka.example:9092', ..., options={'sasl.password': '...'}, form='json')
    """

    timeout: float = 10.0
    form: Form = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_options(_FIXED.keys() | {"error_cb", "logger"}, "with others, events could be lost")

    def make(self) -> ReaderSource:
        return ReaderSource(KafkaReader(self))


class KafkaReader:
    """All partitions of a topic, read by offset; nothing is committed, and no group is joined.

    The stream of a record is ``kafka:<topic>/<partition>``. Only committed transactions are read. Partitions
    that are added are noticed when it is opened again. librdkafka comes back by itself to brokers that were
    away; when all of them are, reading says so.

    Tested against the cluster that librdkafka simulates.
    """

    def __init__(self, settings: KafkaSourceSettings) -> None:
        with extra("kafka"):
            import confluent_kafka  # noqa: PLC0415
        self._kafka, self._settings = confluent_kafka, settings
        self.name = f"kafka://{settings.servers} {settings.topic}"
        self.errors: tuple[type[BaseException], ...] = (confluent_kafka.KafkaException,)
        self.secrets = settings.secrets()
        self._consumer: Any = None
        self._forget()

    def _forget(self) -> None:
        self._next: dict[int, int | None] = {}  # the next offset, if known
        self._failed: Any = None  # error of a partition, which is final
        self._lost: Any = None  # error of all brokers, which may come back
        self._waiting: int | None = None

    def connect(self, after: Mapping[str, int]) -> None:
        self._consumer = self._connect()
        self._assign(self._partitions(after), after)

    def fetch(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return up to `limit` further records; an error is raised after the good records before it."""
        messages = [] if self._failed else [self._message(one) for one in self._consume(limit, timeout)]
        if not messages and (error := self._failed or self._lost):
            if error.code() in (
                self._kafka.KafkaError.OFFSET_OUT_OF_RANGE,
                self._kafka.KafkaError._AUTO_OFFSET_RESET,
            ):
                raise SourceError(
                    f"{self.name}: the next records are no longer there, or never were; unread records may "
                    f"be lost ({error.str()})"
                )
            raise self._kafka.KafkaException(error)
        self._waiting = self._count()
        return messages

    def lag(self) -> int | None:
        return self._waiting

    def disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._forget()
        if consumer is not None:
            consumer.close()

    def _connect(self) -> Any:
        return self._settings.connect(self._kafka.Consumer, {**_FIXED, "error_cb": self._note})

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
            offset = after.get(f"kafka:{self._settings.topic}/{partition}")
            begin = self._next[partition] = None if offset is None else offset + 1
            if begin is None:
                begin = self._kafka.OFFSET_BEGINNING
            else:
                self._check(partition, begin)
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

    def _consume(self, limit: int, timeout: float) -> list[Any]:
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
