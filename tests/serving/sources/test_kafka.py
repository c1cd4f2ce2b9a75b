"""Kafka, on the cluster that librdkafka simulates."""

import itertools

import confluent_kafka
import pytest

from dygcn.errors import SourceError
from dygcn.serving.sources import KafkaSourceSettings
from dygcn.serving.sources.kafka import KafkaReader
from dygcn.testing import source_checks
from dygcn.testing.source_checks import SOURCE_CHECKS, check_resume
from dygcn_lab.testbed.servers import kafka_mock
from tests.serving.sources.reading import Shifted, keep_reading, places_of, take

FRESH = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def producer(kafka):
    return confluent_kafka.Producer({"bootstrap.servers": kafka.servers, "linger.ms": 0, "log_level": 0})


def send(producer, topic, bodies, partitions=(0, 1, 2, 3)):
    for body, partition in zip(bodies, itertools.cycle(partitions), strict=False):
        producer.produce(topic, body, partition=partition)
        producer.poll(0)
    assert producer.flush(20) == 0


@pytest.fixture
def topic(producer):
    name = next(FRESH)
    producer.list_topics(name, timeout=10)  # the cluster makes what it is asked for
    return name


def settings_of(kafka, topic, **others):
    return KafkaSourceSettings(servers=kafka.servers, topic=topic, **others)


@pytest.fixture
def opened(kafka):
    sources = []

    def open_source(topic, after=None, **others):
        sources.append(settings_of(kafka, topic, **others).make())
        sources[-1].open(after or {})
        return sources[-1]

    yield open_source
    for source in sources:
        source.close()


@pytest.mark.parametrize("name", sorted(SOURCE_CHECKS))
def test_a_topic_does_what_a_source_promises(name, kafka, producer, topic):
    settings = settings_of(kafka, topic)
    SOURCE_CHECKS[name](settings.make, lambda bodies: send(producer, topic, bodies))


def test_streams_are_partitions_and_positions_offsets(producer, topic, opened):
    send(producer, topic, [b"%d" % number for number in range(8)])
    found = take(opened(topic, form="ndjson"), 8)
    assert sorted((message.stream, message.offset, message.body) for message in found) == sorted(
        (f"kafka:{topic}/{number % 4}", number // 4, b"%d" % number) for number in range(8)
    )
    assert {message.form for message in found} == {"ndjson"}


def test_every_partition_has_its_own_place(producer, topic, opened):
    send(producer, topic, [b"%d" % number for number in range(40)])
    cursor = {f"kafka:{topic}/0": 9, f"kafka:{topic}/1": 4, f"kafka:{topic}/2": 0}
    found = take(opened(topic, cursor), 0 + 5 + 9 + 10)
    by_partition = {at: [m.offset for m in found if m.stream.endswith(f"/{at}")] for at in range(4)}
    assert by_partition == {0: [], 1: list(range(5, 10)), 2: list(range(1, 10)), 3: list(range(10))}


def test_the_lag_is_counted(producer, topic, opened):
    send(producer, topic, [b"x"] * 40)
    source = opened(topic)
    found = take(source, 40)
    assert len(found) == 40
    assert source.lag() in (0, None)


def test_a_record_without_a_value_is_an_empty_body(producer, topic, opened):
    producer.produce(topic, None, key=b"k", partition=0)
    producer.flush(10)
    assert take(opened(topic), 1)[0].body == b""


def test_nothing_is_committed(producer, topic, opened, kafka):
    send(producer, topic, [b"x"] * 4)
    source = opened(topic)
    take(source, 4)
    source.close()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.servers, "group.id": "dygcn", "log_level": 0}
    )
    partitions = [confluent_kafka.TopicPartition(topic, number) for number in range(4)]
    assert {found.offset for found in consumer.committed(partitions, timeout=10)} == {
        confluent_kafka.OFFSET_INVALID
    }
    consumer.close()


def test_a_place_beyond_the_end(producer, topic, opened):
    send(producer, topic, [b"x"] * 4)
    assert opened(topic, {f"kafka:{topic}/0": 0}).read(1, 0.0) is not None
    with pytest.raises(SourceError, match="partition 0 ends at 1, 8 is next: was the topic created again"):
        opened(topic, {f"kafka:{topic}/0": 7})


def test_a_place_that_was_deleted(producer, topic, opened, monkeypatch):
    """The simulated cluster deletes nothing, so what it says of the beginning is changed on its way."""
    send(producer, topic, [b"x"] * 40)
    right = KafkaReader._connect

    class Trimmed:
        def __init__(self, consumer):
            self._consumer = consumer

        def __getattr__(self, name):
            return getattr(self._consumer, name)

        def get_watermark_offsets(self, partition, **options):
            return 5, self._consumer.get_watermark_offsets(partition, **options)[1]

    monkeypatch.setattr(KafkaReader, "_connect", lambda self: Trimmed(right(self)))
    opened(topic, {f"kafka:{topic}/0": 4})
    with pytest.raises(SourceError, match=r"begins at 5, 3 is next: 2 offsets were deleted"):
        opened(topic, {f"kafka:{topic}/0": 2})


def check_out_of_range(producer, topic, opened, monkeypatch):
    """A cursor that is not looked at first: the broker refuses it, and nothing else is read instead."""
    send(producer, topic, [b"x"] * 4)
    monkeypatch.setattr(KafkaReader, "_check", lambda self, partition, begin: None)
    source = opened(topic, {f"kafka:{topic}/0": 1000})
    found = []
    with pytest.raises(SourceError, match="no longer there"):
        keep_reading(source, found=found)
    assert all(message.stream != f"kafka:{topic}/0" for message in found)


def test_offsets_out_of_range(producer, topic, opened, monkeypatch):
    check_out_of_range(producer, topic, opened, monkeypatch)


def test_beginning_elsewhere_would_be_noticed(producer, topic, opened, monkeypatch):
    """What every other program does: where the offset is gone, go on at the beginning or the end."""
    monkeypatch.setattr("tests.serving.sources.reading.PATIENCE", 3.0)
    right = confluent_kafka.Consumer

    def lenient(options, **others):
        return right({**options, "auto.offset.reset": "earliest"}, **others)

    monkeypatch.setattr(confluent_kafka, "Consumer", lenient)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_out_of_range(producer, topic, opened, monkeypatch)


def test_an_error_of_one_partition_is_not_forgotten(producer, topic, opened, monkeypatch):
    """Good records of others come first, and then it is raised, whatever else came meanwhile."""
    send(producer, topic, [b"x"] * 40)
    source = opened(topic)
    found = take(source, 40)

    class Failed:
        def error(self):
            return confluent_kafka.KafkaError(confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)

    class Consumer:
        def __init__(self, consumer):
            self._consumer, self._failed = consumer, [Failed()]

        def __getattr__(self, name):
            return getattr(self._consumer, name)

        def consume(self, count, timeout):
            failed, self._failed = self._failed, []
            return [*self._consumer.consume(count, 10.0 if failed else timeout), *failed]

    source.reader._consumer = Consumer(source.reader._consumer)
    send(producer, topic, [b"y"] * 4)
    assert len(source.read(10, 5.0)) >= 1
    with pytest.raises(SourceError, match="no longer there"):
        source.read(10, 5.0)
    assert len(found) == 40


def test_a_partition_that_is_gone(topic, opened):
    with pytest.raises(SourceError, match=rf"kafka:{topic}/9 was read and is gone.* 4 partitions now"):
        opened(topic, {f"kafka:{topic}/9": 1})
    opened(topic, {f"kafka:{topic}-2/9": 1, f"nats:{topic}/9": 1})


def test_partitions_that_are_new_are_read_from_their_beginning(producer, topic, opened, monkeypatch):
    """The simulated cluster makes all partitions at once, so at first only two of them are looked at."""
    monkeypatch.setattr(KafkaReader, "_partitions", lambda self, after: [0, 1])
    send(producer, topic, [b"%d" % number for number in range(40)])
    source = opened(topic)
    found = take(source, 20)
    assert source.read(10, 0.3) == []
    monkeypatch.undo()
    source.open(places_of(found))
    more = take(source, 20)
    assert {message.stream for message in more} == {f"kafka:{topic}/2", f"kafka:{topic}/3"}
    assert len({message.body for message in [*found, *more]}) == 40


def test_no_password_is_shown(kafka):
    options = {"sasl.password": "s3cret", "nonsense": "1"}
    settings = KafkaSourceSettings(servers=kafka.servers, topic="t", options=options)
    source = settings.make()
    assert "s3cret" not in source.name + repr(settings)
    with pytest.raises(SourceError, match="nonsense") as caught:
        source.open({})
    assert "s3cret" not in str(caught.value)


def test_nobody_is_there():
    with kafka_mock() as cluster:
        servers = cluster.servers
    source = KafkaSourceSettings(servers=servers, topic="t", timeout=2.0).make()
    with pytest.raises(SourceError):
        source.open({})
    source.close()


def test_a_cluster_that_goes_away_is_told():
    with kafka_mock() as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
        send(producer, "t", [b"x"] * 8)
        source = KafkaSourceSettings(servers=cluster.servers, topic="t", timeout=2.0).make()
        source.open({})
        found = take(source, 8)
        cluster.kill()
        with pytest.raises(SourceError, match="ALL_BROKERS_DOWN"):
            keep_reading(source)
        with pytest.raises(SourceError, match="not open"):
            source.read(1, 0.0)
        with pytest.raises(SourceError):
            source.open(places_of(found))
        producer.purge()


@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_place_would_be_noticed(by, kafka, producer, topic, monkeypatch):
    monkeypatch.setattr(source_checks, "PATIENCE", 2.0)
    with pytest.raises((AssertionError, SourceError)):
        check_resume(
            lambda: Shifted(KafkaReader(settings_of(kafka, topic)), by),
            lambda each: send(producer, topic, each),
        )
