"""Vectors as records of a Kafka topic, keyed by node."""

from __future__ import annotations

import logging
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn._extras import extra
from dygcn.errors import OptionError, SinkError
from dygcn.sinks.json_rows import row_messages, settled_message
from dygcn.sinks.settings import DAY, Settings, check_name, check_seconds, without
from dygcn.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.records import Rows

SETTLED_KEY = b"\xffsettled"
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

    Examples
    --------
    >>> KafkaSettings(servers="kafka.example:9092", topic="vectors", options={"sasl.password": "s3cret"})
    KafkaSettings(servers='kafka.example:9092', topic='vectors', ..., options={'sasl.password': '...'})
    >>> KafkaSettings(servers="kafka.example:9092", topic="vectors", options={"acks": "1"})
    Traceback (most recent call last):
    ...
    dygcn.errors.OptionError: the options acks are ours: without them, writes could be lost or doubled
    """

    servers: str
    topic: str
    timeout: float = 30.0
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("topic", self.topic, r"[A-Za-z0-9._-]{1,249}", "at most 249 letters, digits, ., _ and -")
        check_seconds("timeout", self.timeout, DAY)
        if taken := ", ".join(sorted(_FIXED & self.options.keys())):
            raise OptionError(f"the options {taken} are ours: without them, writes could be lost or doubled")


class KafkaSink:
    """A topic with a record for every node that moved or left.

    The key is the id as text, the value JSON (see `dygcn.sinks.json_rows`), or null for a node that left, so
    that a compacted topic forgets it. The headers ``version`` and ``shape`` are on every record. A settled
    version is a record with the key `SETTLED_KEY` in every partition. Partitions are chosen by murmur2, as
    Java clients do. A write returns when all replicas that are in step have every record.

    Compaction keeps the last record of a key, not the one of the highest version. So one writer at a time:
    one that was thought dead and goes on writing cannot be refused here, only noticed by whoever reads.

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
        self._partitions: list[int] = []
        self._failed: str | None = None

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return f"kafka://{self._settings.servers}/{self._settings.topic}"

    def open(self, kind: str, dim: int) -> None:
        """Connect, and compare with the last record of each partition.

        Raises
        ------
        SinkError
            If no broker can be reached, there is no such topic, or it holds rows of another shape.
        """
        self.close()
        shape = Shape(kind, dim)
        self._connect(shape)
        self._shape = shape

    def write(self, rows: Rows) -> None:
        """Produce a record for every row and for every id that left, and wait until all are delivered.

        Raises
        ------
        SinkError
            If not all are known to be delivered; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        ids = chain(
            zip(rows.ids, rows.versions, strict=True), zip(rows.left, rows.left_versions, strict=True)
        )
        values = chain(row_messages(rows, self.name), (None for _ in rows.left))
        self._deliver(
            shape,
            (
                (str(id_).encode(), value, int(version), -1)
                for (id_, version), value in zip(ids, values, strict=True)
            ),
        )

    def settle(self, floor: int) -> None:
        """Produce to every partition that each row below `floor` that did not come again is gone."""
        shape, value = opened(self._shape, self.name), settled_message(floor)
        self._connect(shape)
        self._deliver(shape, ((SETTLED_KEY, value, floor, partition) for partition in self._partitions))

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
            self._partitions = sorted(topic.partitions)
            self._compare(shape)
        except (self._kafka.KafkaException, SinkError) as error:
            self._disconnect()
            raise self._sink_error(error) from None

    def _compare(self, shape: Shape) -> None:
        """Read the last record of every partition: each says the shape of its vector."""
        consumer = self._kafka.Consumer(
            {
                **self._settings.options,
                "bootstrap.servers": self._settings.servers,
                "group.id": "dygcn-sink",  # demanded, and not used: nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": False,
            },
            logger=_log,
        )
        try:
            last = []
            for partition in self._partitions:
                place = self._kafka.TopicPartition(self._settings.topic, partition)
                low, high = consumer.get_watermark_offsets(place, timeout=self._settings.timeout)
                if high > low:
                    place.offset = high - 1
                    last.append(place)
            consumer.assign(last)
            until = time.monotonic() + self._settings.timeout
            for _ in last:
                record = consumer.poll(max(0.0, until - time.monotonic()))
                if record is None:
                    raise SinkError(f"{self.name}: the last records could not be read in time")
                if record.error() is not None:
                    raise self._kafka.KafkaException(record.error())
                there: Any = dict(record.headers() or []).get("shape")
                if there is None:
                    raise SinkError(f"{self.name} has records that are not ours; choose another topic")
                shape.refuse(self.name, there.decode(errors="replace"))
        finally:
            consumer.close()

    def _deliver(self, shape: Shape, records: Iterable[tuple[bytes, bytes | None, int, int]]) -> None:
        self._connect(shape)
        self._failed = None
        try:
            for key, value, version, partition in records:
                self._produce(shape, key, value, version, partition)
            missing = self._producer.flush(2 * self._settings.timeout)
        except (self._kafka.KafkaException, BufferError) as error:
            self._disconnect()
            raise self._sink_error(error) from None
        except BaseException:
            self._disconnect()
            raise
        if missing or self._failed is not None:
            self._disconnect()
            raise SinkError(f"{self.name}: {self._failed or f'{missing} records were not delivered in time'}")

    def _produce(self, shape: Shape, key: bytes, value: bytes | None, version: int, partition: int) -> None:
        headers = [("version", b"%d" % version), ("shape", str(shape).encode())]
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

    def _note(self, error: Any, _: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = self._said(error)

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()  # what still waits comes again

    def _said(self, error: object) -> str:
        secret = [
            value for name, value in self._settings.options.items() if "password" in name or "secret" in name
        ]
        return without(str(error), secret)

    def _sink_error(self, error: Exception) -> SinkError:
        if isinstance(error, SinkError):
            return error
        return SinkError(f"{self.name}: {type(error).__name__}: {self._said(error)}")
