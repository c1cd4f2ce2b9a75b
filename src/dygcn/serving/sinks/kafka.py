"""Vectors as records of a Kafka topic, keyed by node."""

from __future__ import annotations

import logging
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn._extras import extra
from dygcn.errors import OptionError, OtherHistory, SinkError
from dygcn.serving.sinks.histories import FIELDS, admit, as_fields, check_history, from_fields, newest
from dygcn.serving.sinks.json_rows import deleted_below_message, row_messages
from dygcn.serving.sinks.settings import DAY, OnOtherHistory, Settings, check_name, check_seconds, without
from dygcn.serving.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.engine.records import History, Rows

DELETED_BELOW_KEY = b"\xffdeleted-below"
"""The key of the record that ends old rows: no id, because no UTF-8 text begins with this byte."""
_FIXED = {"bootstrap.servers", "enable.idempotence", "acks", "partitioner", "message.timeout.ms"}
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # librdkafka would write to stderr


class KafkaSettings(Settings, frozen=True, tag="kafka"):
    """Where rows go in Kafka.

    Parameters
    ----------
    servers
        Addresses to begin with, ``host:port``, with commas between.
    topic
        It must be there, unless the brokers make topics by themselves.
    timeout
        Seconds that connecting, and the delivery of a record with all its retries, may take.
    options
        Further ones for librdkafka, such as ``sasl.username`` and ``sasl.password``.
    other_history
        Action if the records are of another history; see `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> KafkaSettings(servers="kafka.example:9092", topic="vectors", options={"sasl.password": "s3cret"})
    KafkaSettings(servers='kafka.example:9092', ..., options={'sasl.password': '...'}, ...)
    >>> KafkaSettings(servers="kafka.example:9092", topic="vectors", options={"acks": "1"})
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: the options acks are ours: without them, writes could be lost or doubled
    """

    servers: str
    topic: str
    timeout: float = 30.0
    options: dict[str, str] = msgspec.field(default_factory=dict)
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_name("topic", self.topic, r"[A-Za-z0-9._-]{1,249}", "at most 249 letters, digits, ., _ and -")
        check_seconds("timeout", self.timeout, DAY)
        if taken := ", ".join(sorted(_FIXED & self.options.keys())):
            raise OptionError(f"the options {taken} are ours: without them, writes could be lost or doubled")


class KafkaSink:
    """A topic with a record for every node that changed or left.

    The key is the id as text, the value JSON (see `dygcn.serving.sinks.json_rows`), or null for a node that
    left, so that a compacted topic forgets it. The headers ``shape``, ``generation``, ``epoch``, ``version``
    and ``chain`` are on every record. Each `delete_below` is a record with the key
    `DELETED_BELOW_KEY` in every partition. Partitions are chosen by murmur2, as Java clients do. A write
    returns when all replicas that are in step have every record.

    Each write first checks whether others have written since, and is refused if the last record of a
    partition is of a newer history. Records already sent at that moment still arrive; readers drop them by
    their generation. Compaction keeps the last record of a key, not the newest one. So one writer at a time.

    Tested against the cluster that librdkafka simulates.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        with extra("kafka"):
            import confluent_kafka  # noqa: PLC0415
        self._settings, self._kafka = settings, confluent_kafka
        self._shape: Shape | None = None
        self._producer: Any = None
        self._consumer: Any = None
        self._ends: dict[int, int] = {}  # partition: the offset behind the last record that we know
        self._held: History | None = None
        self._failed: str | None = None

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return f"kafka://{self._settings.servers}/{self._settings.topic}"

    def open(self, ids: str, dim: int) -> History | None:
        """Connect, read the last record of each partition, and return the newest position of them.

        Raises
        ------
        SinkError
            If no broker can be reached, there is no such topic, or it holds rows of another shape.
        """
        self.close()
        shape = Shape(ids, dim)
        self._connect(shape)
        self._shape = shape
        return self._held

    def write(self, rows: Rows) -> None:
        """Produce a record for every row and for every id that left, and wait until all are delivered.

        Raises
        ------
        OtherHistory
            If the topic holds records of a newer history; nothing was produced.
        SinkError
            If not all are known to be delivered; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        if len(rows) == 0:
            return
        keys = (str(id_).encode() for id_ in chain(rows.ids, rows.left))
        values = chain(row_messages(rows, shape, self.name), (None for _ in rows.left))
        records = ((key, value, -1) for key, value in zip(keys, values, strict=True))
        self._deliver(shape, rows.history, records)

    def delete_below(self, floor: int, history: History) -> None:
        """Produce to every partition that rows of other epochs are gone, and rows below `floor`."""
        shape = opened(self._shape, self.name)
        check_history(history, self.name)
        value = deleted_below_message(floor, history)
        self._connect(shape)
        self._deliver(
            shape, history, ((DELETED_BELOW_KEY, value, partition) for partition in sorted(self._ends))
        )

    def close(self) -> None:
        """Let go of the connections. Safe to call twice."""
        self._shape = None
        self._disconnect()

    def _connect(self, shape: Shape) -> None:
        if self._producer is not None:
            return
        try:
            self._producer = self._kafka.Producer(
                {
                    **self._settings.options,
                    "bootstrap.servers": self._settings.servers,
                    "enable.idempotence": True,
                    "acks": "all",
                    "partitioner": "murmur2",  # the default scatters an empty key
                    "message.timeout.ms": round(1000 * self._settings.timeout),
                    "linger.ms": 5,
                },
                logger=_log,
            )
            topics = self._producer.list_topics(self._settings.topic, self._settings.timeout).topics
            topic = topics[self._settings.topic]
            if topic.error is not None:
                raise self._kafka.KafkaException(topic.error)
            self._ends = dict.fromkeys(topic.partitions, 0)
            self._consumer = self._make_consumer()
            self._look(shape)
        except (self._kafka.KafkaException, SinkError) as error:
            self._disconnect()
            raise self._sink_error(error) from None

    def _make_consumer(self) -> Any:
        return self._kafka.Consumer(
            {
                **self._settings.options,
                "bootstrap.servers": self._settings.servers,
                "group.id": "dygcn-sink",  # demanded, and not used: nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "fetch.wait.max.ms": 50,  # the last record is there
            },
            logger=_log,
        )

    def _look(self, shape: Shape) -> None:
        """Read the last record of every partition that others have written to: it says shape and position."""
        last = []
        for partition, known in self._ends.items():
            found = self._kafka.TopicPartition(self._settings.topic, partition)
            low, high = self._consumer.get_watermark_offsets(found, timeout=self._settings.timeout)
            if high > max(low, known):
                found.offset = high - 1
                last.append(found)
        if not last:
            return
        self._consumer.assign(last)
        until = time.monotonic() + self._settings.timeout
        missing = {found.partition for found in last}
        while missing:
            record = self._consumer.poll(max(0.0, until - time.monotonic()))
            if record is None:
                raise SinkError(f"{self.name}: the last records could not be read in time")
            if record.error() is not None:
                raise self._kafka.KafkaException(record.error())
            self._read(record, shape)
            missing.discard(record.partition())
        self._consumer.unassign()

    def _read(self, record: Any, shape: Shape) -> None:
        headers = {name: value.decode(errors="replace") for name, value in record.headers() or [] if value}
        there = from_fields({name: headers.get(name) for name in FIELDS})
        if there is None or "shape" not in headers:
            raise SinkError(f"{self.name} has records that are not ours; choose another topic")
        shape.refuse(self.name, headers["shape"])
        self._held = newest([self._held, there])
        self._ends[record.partition()] = record.offset() + 1

    def _deliver(
        self, shape: Shape, history: History, records: Iterable[tuple[bytes, bytes | None, int]]
    ) -> None:
        self._connect(shape)
        self._failed = None
        headers = [(name, text.encode()) for name, text in as_fields(history).items()]
        headers.append(("shape", str(shape).encode()))
        try:
            self._look(shape)
            admit(self._held, history, self.name)
            for key, value, partition in records:
                self._produce(headers, key, value, partition)
            missing = self._producer.flush(2 * self._settings.timeout)
        except OtherHistory:
            raise
        except (self._kafka.KafkaException, BufferError) as error:
            self._disconnect()
            raise self._sink_error(error) from None
        except BaseException:
            self._disconnect()
            raise
        if missing or self._failed is not None:
            self._disconnect()
            raise SinkError(f"{self.name}: {self._failed or f'{missing} records were not delivered in time'}")
        self._held = newest([self._held, history])

    def _produce(
        self, headers: list[tuple[str, bytes]], key: bytes, value: bytes | None, partition: int
    ) -> None:
        until = time.monotonic() + self._settings.timeout
        while True:
            try:
                self._producer.produce(
                    self._settings.topic, value, key, partition, self._note, headers=headers
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
            self._failed = self._said(error)

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        consumer, self._consumer = self._consumer, None
        self._held = None
        if producer is not None:
            producer.purge()  # the caller writes unsent records again
        if consumer is not None:
            consumer.close()

    def _said(self, error: object) -> str:
        secret = [
            value for name, value in self._settings.options.items() if "password" in name or "secret" in name
        ]
        return without(str(error), secret)

    def _sink_error(self, error: Exception) -> SinkError:
        if isinstance(error, SinkError):
            return error
        return SinkError(f"{self.name}: {type(error).__name__}: {self._said(error)}")
