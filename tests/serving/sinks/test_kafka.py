"""The Kafka sink on the cluster that librdkafka simulates: the contract, what only it has, seeded bugs."""

import json

import numpy as np
import pytest
from confluent_kafka import Producer

from dygcn.errors import OptionError, SinkError
from dygcn.serving.sinks import KafkaSinkSettings
from dygcn.serving.sinks import kafka as sink_module
from dygcn.serving.sinks.json_rows import deleted_below_message
from dygcn.serving.sinks.kafka import DELETED_BELOW_KEY, KafkaStore
from dygcn.serving.sinks.sink import FIELDS, from_fields
from dygcn.testing.sink_checks import (
    ODD_IDS,
    SINK_CHECKS,
    check_below,
    check_equal_generation,
    check_left,
    check_random_sequences,
    check_refit,
    check_repeats,
    check_restored_copy,
    check_rows_say_their_history,
    check_stale_writer,
)
from dygcn.testing.sink_model import made_up_history, make_rows
from dygcn_lab.testbed.servers import kafka_mock
from tests.serving.sinks.places import fresh_name, kafka_place, read_held, read_topic

DIM = 4


@pytest.fixture(scope="module")
def cluster():
    with kafka_mock() as running:
        yield running


def make(cluster, **options):
    options = {"topic": fresh_name(), "timeout": 20.0, **options}
    return KafkaSinkSettings(servers=cluster.servers, **options).make()


@pytest.fixture
def sink(cluster):
    opened = make(cluster)
    opened.open("int64", DIM)
    yield opened
    opened.close()


def records(sink):
    return read_topic(sink.store.settings.servers, sink.store.settings.topic)


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(cluster, check):
    SINK_CHECKS[check](lambda: kafka_place(cluster))


def test_random_sequences(cluster):
    check_random_sequences(lambda: kafka_place(cluster), examples=3)


def test_what_lies_there(sink):
    rows = make_rows({7: 3}, left={8: 3}, dim=DIM, generation=9)
    rows.vectors[0] = [0.1, -0.0, 1, 1e-45]
    sink.write(rows)
    found = {record.key(): record for record in records(sink)}
    assert found.keys() == {b"7", b"8"}
    at = rows.history
    of = f'"generation":9,"epoch":"{at.epoch}","version":3,"chain":"{at.chain}"'
    assert found[b"7"].value().decode() == f'{{"id":7,{of},"vector":[0.1,-0.0,1.0,1e-45]}}'
    assert found[b"8"].value() is None
    for record in found.values():
        assert dict(record.headers()) == {
            "generation": b"9",
            "epoch": at.epoch.encode(),
            "version": b"3",
            "chain": at.chain.encode(),
            "shape": b"int64:4",
        }


def test_every_partition_is_told_what_was_settled(sink):
    at = made_up_history(8)
    sink.delete_below(7, at)
    found = records(sink)
    assert sorted(record.partition() for record in found) == [0, 1, 2, 3]
    assert {record.key() for record in found} == {DELETED_BELOW_KEY}
    assert {record.value() for record in found} == {deleted_below_message(7, at)}


def test_what_others_wrote_is_read_once(cluster, monkeypatch):
    reads = []
    read = KafkaStore._read
    monkeypatch.setattr(KafkaStore, "_read", lambda self, record: (reads.append(record), read(self, record)))
    topic = fresh_name()
    mine, other = make(cluster, topic=topic), make(cluster, topic=topic)
    for sink in (mine, other):
        assert sink.open("int64", DIM) is None
    for version in range(1, 6):
        mine.write(make_rows({1: version, 2: version}, dim=DIM))
    assert reads == []
    other.write(make_rows({1: 6}, dim=DIM))
    seen = len(reads)
    assert 0 < seen <= 2
    other.write(make_rows({1: 7}, dim=DIM))
    assert len(reads) == seen
    mine.write(make_rows({1: 8}, dim=DIM))
    assert len(reads) == seen + 1
    mine.close()
    other.close()


def test_no_id_has_the_key_of_what_was_settled():
    with pytest.raises(UnicodeDecodeError):
        DELETED_BELOW_KEY.decode()


def test_all_records_of_a_node_are_in_one_partition(cluster):
    sink = make(cluster)
    sink.open("string", DIM)
    for version in range(1, 6):
        sink.write(make_rows(dict.fromkeys(ODD_IDS, version), dim=DIM))
    places = {}
    for record in records(sink):
        places.setdefault(record.key(), []).append(
            (record.partition(), json.loads(record.value())["version"])
        )
    assert len(places) == len(ODD_IDS)
    for found in places.values():
        assert len({partition for partition, _ in found}) == 1
        assert [version for _, version in found] == [1, 2, 3, 4, 5]
    assert len({found[0][0] for found in places.values()}) > 1
    sink.close()


def test_partitions_are_those_that_java_would_choose(cluster):
    sink = make(cluster)
    sink.open("string", DIM)
    sink.write(make_rows({"21": 1, "foobar": 1, "a-little-bit-long-string": 1}, dim=DIM))
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for record in records(sink):
        assert record.partition() == (hashes[record.key()] & 0x7FFFFFFF) % 4
    sink.close()


def test_records_of_others_are_not_ours(cluster):
    topic = fresh_name()
    producer = Producer({"bootstrap.servers": cluster.servers})
    producer.produce(topic, b"hello")
    assert producer.flush(10) == 0
    sink = make(cluster, topic=topic)
    with pytest.raises(SinkError, match="has records that are not ours"):
        sink.open("int64", DIM)
    sink.close()


def test_too_large_a_record_is_an_error_and_the_sink_goes_on(cluster):
    sink = make(cluster)
    sink.open("int64", 200_000)
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        sink.write(make_rows({1: 1}, dim=200_000))
    small = make_rows({2: 1}, dim=200_000)
    small.vectors[:] = 1
    sink.write(small)
    assert [record.key() for record in records(sink)] == [b"2"]
    sink.close()


def test_more_records_than_the_queue_holds(cluster):
    sink = make(cluster, options={"queue.buffering.max.messages": "100"})
    sink.open("int64", DIM)
    sink.write(make_rows(dict.fromkeys(range(3000), 1), dim=DIM))
    assert len(read_held(cluster.servers, sink.store.settings.topic)) == 3000
    sink.close()


def write_to_a_dead_cluster():
    with kafka_mock() as cluster:
        sink = make(cluster, timeout=5.0)
        sink.open("int64", DIM)
        sink.write(make_rows({1: 1}, dim=DIM))
        sink.store._look = lambda: None  # the cluster dies between the look and the records
        cluster.kill()
        with pytest.raises(SinkError, match="_MSG_TIMED_OUT"):
            sink.write(make_rows({1: 2}, dim=DIM))
        with pytest.raises(SinkError, match="_TRANSPORT"):
            sink.write(make_rows({1: 2}, dim=DIM))
        with pytest.raises(SinkError, match="_TRANSPORT"):
            sink.delete_below(3, made_up_history(3))
        sink.close()


def test_a_cluster_that_died_is_an_error():
    write_to_a_dead_cluster()


def test_a_cluster_that_died_before_a_write_is_an_error():
    with kafka_mock() as cluster:
        sink = make(cluster, timeout=1.5)
        sink.open("int64", DIM)
        sink.write(make_rows({1: 1}, dim=DIM))
        cluster.kill()
        with pytest.raises(SinkError, match="Failed to get watermark offsets"):
            sink.write(make_rows({1: 2}, dim=DIM))
        sink.close()


class Impatient(Producer):
    """A client that does not wait until records are delivered."""

    def flush(self, timeout=0.0):
        return 0


def test_a_write_that_does_not_wait_for_delivery_would_be_noticed(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Producer", Impatient)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        write_to_a_dead_cluster()


def test_errors_of_delivery_that_nobody_reads_would_be_noticed(monkeypatch):
    monkeypatch.setattr(KafkaStore, "_note", lambda self, error, record: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        write_to_a_dead_cluster()


def test_nobody_there_and_no_secret_shown():
    options = {"sasl.username": "me", "sasl.password": "s3cret", "security.protocol": "SASL_PLAINTEXT"}
    options["sasl.mechanism"] = "PLAIN"
    sink = KafkaSinkSettings(servers="127.0.0.1:1", topic="rows", timeout=0.5, options=options).make()
    with pytest.raises(SinkError, match=r"kafka://127.0.0.1:1/rows: ") as error:
        sink.open("int64", DIM)
    assert "s3cret" not in f"{error.value} {error.value.__cause__} {sink.name} {sink.store.settings}"
    sink.close()


def test_options_that_librdkafka_does_not_know_are_an_error():
    sink = KafkaSinkSettings(servers="127.0.0.1:1", topic="rows", options={"sasl.passwort": "s3cret"}).make()
    with pytest.raises(SinkError, match=r"sasl\.passwort") as error:
        sink.open("int64", DIM)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("option", ["acks", "enable.idempotence", "bootstrap.servers", "partitioner"])
def test_options_that_are_ours(option):
    with pytest.raises(OptionError, match="writes could be lost or doubled"):
        KafkaSinkSettings(servers="here:9092", topic="rows", options={option: "0"})


def leaving_is_not_said(monkeypatch):
    whole = KafkaStore._produce

    def produce(self, headers, key, value, partition):
        if value is not None:
            whole(self, headers, key, value, partition)

    monkeypatch.setattr(KafkaStore, "_produce", produce)


def settling_is_not_said(monkeypatch):
    monkeypatch.setattr(
        sink_module,
        "deleted_below_message",
        lambda floor, history: deleted_below_message(0, made_up_history(0, 0)),
    )


def every_version_is_the_first(monkeypatch):
    whole = KafkaStore._produce

    def produce(self, headers, key, value, partition):
        whole(self, [*headers, ("version", b"1")], key, value, partition)

    monkeypatch.setattr(KafkaStore, "_produce", produce)


def a_leaving_says_no_generation(monkeypatch):
    whole = KafkaStore._produce

    def produce(self, headers, key, value, partition):
        whole(self, [*headers, ("generation", b"1")] if value is None else headers, key, value, partition)

    monkeypatch.setattr(KafkaStore, "_produce", produce)


def nobody_is_refused(monkeypatch):
    monkeypatch.setattr(sink_module, "admit", lambda held, ours, name: None)


def nobody_looks_again(monkeypatch):
    """Look at the last records when a connection is made, and never again."""
    look = KafkaStore._look

    def look_once(self):
        if not any(self._ends.values()) and self._newest is None:
            look(self)

    monkeypatch.setattr(KafkaStore, "_look", look_once)


def the_first_partition_is_enough(monkeypatch):
    read = KafkaStore._read

    def read_first(self, record):
        if record.partition() == 0:
            read(self, record)

    monkeypatch.setattr(KafkaStore, "_read", read_first)


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (leaving_is_not_said, check_left),
        (settling_is_not_said, check_below),
        (every_version_is_the_first, check_left),
        (a_leaving_says_no_generation, check_refit),
        (nobody_is_refused, check_stale_writer),
        (nobody_is_refused, check_equal_generation),
        (nobody_is_refused, check_restored_copy),
        (nobody_looks_again, check_stale_writer),
        (the_first_partition_is_enough, check_rows_say_their_history),
    ],
)
def test_mutant_would_be_noticed(cluster, monkeypatch, mutant, check):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(lambda: kafka_place(cluster))


def test_a_reader_that_takes_the_last_instead_of_the_newest_would_be_noticed(cluster, monkeypatch):
    def last(bodies):
        held = {}
        for body in bodies:
            message = json.loads(body)
            if "vector" in message:
                at = from_fields({name: str(message[name]) for name in FIELDS})
                held[message["id"]] = (at, np.array(message["vector"]).astype(np.float32))
        return held

    monkeypatch.setattr("tests.serving.sinks.places.replayed", last)
    with pytest.raises(AssertionError):
        check_repeats(lambda: kafka_place(cluster))
