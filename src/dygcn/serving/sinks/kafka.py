"""Vectors as records of a Kafka topic, keyed by node."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain
from typing import Any

from dygcn._extras import extra
from dygcn.engine.records import History, Rows
from dygcn.errors import SinkError
from dygcn.serving.addresses import without
from dygcn.serving.brokers import KafkaConnection
from dygcn.serving.sinks.json_rows import NOT_JSON, deleted_below_message, row_messages
from dygcn.serving.sinks.sink import (
    FIELDS,
    OnOtherHistory,
    Shape,
    StoreSink,
    admit,
    as_fields,
    from_fields,
    newest,
)

DELETED_BELOW_KEY = b"\xffdeleted-below"
"""The key of the record that ends old rows: no id, because no UTF-8 text begins with this byte."""
_FIXED = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2",  # as Java clients do; the default of librdkafka scatters empty keys
}


class KafkaSinkSettings(KafkaConnection, frozen=True, kw_only=True, tag="kafka"):
    """Where rows go in Kafka.

    >>> KafkaSinkSettings(servers="kafka.example:9092", topic="vectors", options={"sasl.password": "s3cret"})
    KafkaSinkSettings(servers='kafka.example:9092', ..., options={'sasl.password': '...'}, ...)
    """

    timeout: float = 30.0  # seconds; also of the delivery of a record with all its retries
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = _FIXED.keys() | {"message.timeout.ms"}
        self.check_options(fixed, "without them, writes could be lost or doubled")

    def make(self) -> StoreSink:
        return StoreSink(KafkaStore(self))


class KafkaStore:
    """A topic with a JSON record for every node that changed; a null value for one that left.

    Shape and position are in the headers of every record. Each `delete_below` is a record with the key
    `DELETED_BELOW_KEY` in every partition. A write returns when all replicas that are in step have every
    record. It first checks whether others have written since; records sent at that very moment still arrive,
    and compaction keeps the last record of a key, not the newest one. So one writer at a time.
    """

    not_finite = NOT_JSON

    def __init__(self, settings: KafkaSinkSettings) -> None:
        with extra("kafka"):
            import confluent_kafka  # noqa: PLC0415
        self.settings, self._kafka = settings, confluent_kafka
        self.name = f"kafka://{settings.servers}/{settings.topic}"
        self.errors: tuple[type[BaseException], ...] = (confluent_kafka.KafkaException, BufferError)
        self.secrets = settings.secrets()
        self._producer: Any = None
        self._consumer: Any = None
        self._shape: Shape
        self._ends: dict[int, int] = {}  # partition: the offset behind the last record that we know
        self._newest: History | None = None
        self._failed: str | None = None

    def connect(self, shape: Shape) -> None:
        self._shape = shape
        sent = {**_FIXED, "message.timeout.ms": round(1000 * self.settings.timeout), "linger.ms": 5}
        self._producer = self.settings.connect(self._kafka.Producer, sent)
        topics = self._producer.list_topics(self.settings.topic, self.settings.timeout).topics
        topic = topics[self.settings.topic]
        if topic.error is not None:
            raise self._kafka.KafkaException(topic.error)
        self._ends = dict.fromkeys(topic.partitions, 0)
        read = {
            "group.id": "dygcn-sink",  # required, and not used: nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "fetch.wait.max.ms": 50,  # the last record is there
        }
        self._consumer = self.settings.connect(self._kafka.Consumer, read)
        self._look()

    def disconnect(self) -> None:
        """Close the connections; the caller writes unsent records again."""
        producer, self._producer = self._producer, None
        consumer, self._consumer = self._consumer, None
        self._newest = None
        if producer is not None:
            producer.purge()
        if consumer is not None:
            consumer.close()

    def held(self) -> History | None:
        """Return the newest of the last records' positions."""
        return self._newest

    def write(self, rows: Rows) -> None:
        keys = (str(id_).encode() for id_ in chain(rows.ids, rows.left))
        values = chain(row_messages(rows, self._shape), (None for _ in rows.left))
        self._deliver(rows.history, ((key, value, -1) for key, value in zip(keys, values, strict=True)))

    def delete_below(self, floor: int, history: History) -> None:
        value = deleted_below_message(floor, history)
        self._deliver(history, ((DELETED_BELOW_KEY, value, partition) for partition in sorted(self._ends)))

    def forget_left(self) -> None:
        pass  # compaction forgets

    def _look(self) -> None:
        """Read the last record of every partition that others have written to."""
        last = []
        for partition, known in self._ends.items():
            found = self._kafka.TopicPartition(self.settings.topic, partition)
            low, high = self._consumer.get_watermark_offsets(found, timeout=self.settings.timeout)
            if high > max(low, known):
                found.offset = high - 1
                last.append(found)
        if not last:
            return
        self._consumer.assign(last)
        until = time.monotonic() + self.settings.timeout
        missing = {found.partition for found in last}
        while missing:
            record = self._consumer.poll(max(0.0, until - time.monotonic()))
            if record is None:
                raise SinkError(f"{self.name}: the last records could not be read in time")
            if record.error() is not None:
                raise self._kafka.KafkaException(record.error())
            self._read(record)
            missing.discard(record.partition())
        self._consumer.unassign()

    def _read(self, record: Any) -> None:
        """Take shape and position from the headers of a record."""
        headers = {name: value.decode(errors="replace") for name, value in record.headers() or [] if value}
        there = from_fields({name: headers.get(name) for name in FIELDS})
        if there is None or "shape" not in headers:
            raise SinkError(f"{self.name} has records that are not ours; choose another topic")
        self._shape.refuse(self.name, headers["shape"])
        self._newest = newest([self._newest, there])
        self._ends[record.partition()] = record.offset() + 1

    def _deliver(self, history: History, records: Iterable[tuple[bytes, bytes | None, int]]) -> None:
        self._failed = None
        headers = [(name, text.encode()) for name, text in as_fields(history).items()]
        headers.append(("shape", str(self._shape).encode()))
        self._look()
        admit(self._newest, history, self.name)
        for key, value, partition in records:
            self._produce(headers, key, value, partition)
        missing = self._producer.flush(2 * self.settings.timeout)
        if missing or self._failed is not None:
            raise SinkError(f"{self.name}: {self._failed or f'{missing} records were not delivered in time'}")
        self._newest = newest([self._newest, history])

    def _produce(
        self, headers: list[tuple[str, bytes]], key: bytes, value: bytes | None, partition: int
    ) -> None:
        until = time.monotonic() + self.settings.timeout
        while True:
            try:
                self._producer.produce(
                    self.settings.topic, value, key, partition, self._note, headers=headers
                )
            except BufferError:  # its queue is full
                if time.monotonic() > until:
                    raise
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _note(self, error: Any, record: Any) -> None:
        if error is None:
            self._ends[record.partition()] = max(self._ends[record.partition()], record.offset() + 1)
        elif self._failed is None:
            self._failed = without(str(error), self.secrets)
