"""The NATS sink on a real server: the contract, what only it has, and seeded bugs."""

import asyncio
import json
import threading
import time
from contextlib import closing
from dataclasses import replace

import nats
import pytest
from nats.js.client import JetStreamContext

from dygcn.engine.records import Rows
from dygcn.errors import MissingExtra, SinkError
from dygcn.serving.sinks import NatsSinkSettings
from dygcn.serving.sinks import nats as sink_module
from dygcn.serving.sinks.json_rows import deleted_below_message
from dygcn.serving.sinks.nats import NatsStore
from dygcn.testing.sink_checks import (
    SINK_CHECKS,
    check_below,
    check_equal_generation,
    check_interrupted,
    check_left,
    check_random_sequences,
    check_refit,
    check_repeats,
    check_restored_copy,
    check_stale_writer,
)
from dygcn.testing.sink_model import made_up_history, make_rows
from dygcn_lab.testbed.servers import nats_server
from tests.serving.service.streams import until
from tests.serving.sinks.places import fresh_name, nats_place, read_stream

DIM = 4


@pytest.fixture(scope="module")
def server():
    with nats_server() as running:
        yield running


def make(server, **options):
    return NatsSinkSettings(url=server.url, **{"create": True, "timeout": 20.0, **options}).make()


@pytest.fixture
def sink(server):
    opened = make(server, subject=f"rows.{fresh_name()}")
    opened.open("int64", DIM)
    yield opened
    opened.close()


def at_server(server, what):
    """Run something with a connection of its own."""

    async def run():
        client = await nats.connect(server.url)
        try:
            return await what(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def messages(sink):
    return read_stream(sink.store.settings.url, sink.store.settings.subject)


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(server, check):
    SINK_CHECKS[check](lambda: nats_place(server))


def test_random_sequences(server):
    check_random_sequences(lambda: nats_place(server), examples=5)


def test_what_lies_there(sink):
    rows = make_rows({7: 3}, left={8: 3}, dim=DIM, generation=9)
    rows.vectors[0] = [0.1, -0.0, 1, 1e-45]
    sink.write(rows)
    sink.delete_below(2, rows.history)
    found, at = messages(sink), rows.history
    of = f'"generation":9,"epoch":"{at.epoch}","version":3,"chain":"{at.chain}"'
    assert [body.decode() for body, _ in found] == [
        f'{{"id":7,{of},"vector":[0.1,-0.0,1.0,1e-45]}}',
        f'{{"id":8,{of},"left":true}}',
        f'{{"deleted_below":2,{of}}}',
    ]
    head = f"{sink.store.settings.subject}:{at.epoch}"
    ids = [headers.pop("Nats-Msg-Id") for _, headers in found]
    assert ids == [f"{head}:7:3", f"{head}:8:3", f"{head}:deleted_below:2:3"]
    for _, headers in found:
        assert headers.pop("Nats-Expected-Stream")
        assert headers == {
            "Dygcn-Shape": "int64:4",
            "Dygcn-Generation": "9",
            "Dygcn-Epoch": at.epoch,
            "Dygcn-Version": "3",
            "Dygcn-Chain": at.chain,
        }


def test_repeats_are_dropped_at_the_server(sink):
    rows = make_rows(dict.fromkeys(range(50), 1), left={99: 1}, dim=DIM)
    for _ in range(3):
        sink.write(rows)
    sink.delete_below(1, rows.history)
    sink.delete_below(1, rows.history)
    assert len(messages(sink)) == 52


def test_a_row_of_another_epoch_is_no_repeat(sink):
    for generation in (1, 2):
        sink.write(make_rows({1: 1}, left={2: 1}, dim=DIM, generation=generation))
        sink.delete_below(1, made_up_history(1, generation))
    assert len(messages(sink)) == 6


def test_texts_that_no_header_takes_are_ids_of_messages_like_others(server):
    sink = make(server, subject=fresh_name())
    sink.open("string", DIM)
    for _ in range(2):
        sink.write(make_rows({"a\r\nb: c": 1, "a\r\nb": 1, "": 1}, dim=DIM))
    found = messages(sink)
    assert [json.loads(body)["id"] for body, _ in found] == ["a\r\nb: c", "a\r\nb", ""]
    sink.close()


def test_two_subjects_of_one_stream_do_not_take_each_other_for_repeats(server):
    name = fresh_name()
    at_server(server, lambda stream: stream.add_stream(name=name, subjects=[f"{name}.*"]))
    sinks = [make(server, subject=f"{name}.{part}", create=False) for part in "ab"]
    for sink in sinks:
        sink.open("int64", DIM)
        sink.write(make_rows({1: 1}, dim=DIM))
        sink.delete_below(1, made_up_history(1))
    found = [headers["Nats-Msg-Id"] for _, headers in messages_of_both(server, name)]
    assert len(found) == len(set(found)) == 4
    for sink in sinks:
        sink.close()


def messages_of_both(server, name):
    async def read(stream):
        count = (await stream.stream_info(name)).state.messages
        found = [await stream.get_msg(name, seq=number + 1) for number in range(count)]
        return [(message.data, message.headers) for message in found]

    return at_server(server, read)


def test_a_message_id_without_its_subject_would_be_noticed(server, monkeypatch):
    whole = NatsStore._message_ids

    def short(self, ids, history):
        return (text.removeprefix(self.settings.subject) for text in whole(self, ids, history))

    monkeypatch.setattr(NatsStore, "_message_ids", short)
    with pytest.raises(AssertionError):
        test_two_subjects_of_one_stream_do_not_take_each_other_for_repeats(server)


def test_streams_are_found_and_made(server):
    name = fresh_name()
    without = make(server, subject=f"{name}.x", create=False)
    with pytest.raises(SinkError, match="no stream keeps this subject; make one, or set create = true"):
        without.open("int64", DIM)
    named = make(server, subject=f"{name}.x", stream=f"{name}-stream")
    named.open("int64", DIM)
    info = at_server(server, lambda stream: stream.stream_info(f"{name}-stream"))
    assert info.config.subjects == [f"{name}.x"]
    assert info.config.storage == "file"
    named.open("int64", DIM)
    without.open("int64", DIM)
    other = make(server, subject=f"{name}.x", stream="other")
    with pytest.raises(SinkError, match=f"the stream {name}-stream keeps this subject, not other"):
        other.open("int64", DIM)
    for sink in (without, named, other):
        sink.close()


def test_messages_of_others_are_not_ours(server):
    name = fresh_name()
    at_server(server, lambda stream: stream.add_stream(name=name, subjects=[name]))
    at_server(server, lambda stream: stream.publish(name, b"hello"))
    sink = make(server, subject=name)
    with pytest.raises(SinkError, match="has messages that are not ours"):
        sink.open("int64", DIM)
    sink.close()


def full_stream(server):
    name = fresh_name()
    at_server(server, lambda stream: stream.add_stream(name=name, subjects=[name], max_msgs=3, discard="new"))
    sink = make(server, subject=name)
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1, 2: 1}, dim=DIM))
    return sink


def test_a_stream_that_refuses_is_an_error(server):
    sink = full_stream(server)
    with pytest.raises(SinkError, match="maximum messages exceeded"):
        sink.write(make_rows({3: 1, 4: 1}, dim=DIM))
    name = sink.store.settings.subject
    at_server(
        server, lambda stream: stream.update_stream(name=name, subjects=[name], max_msgs=9, discard="new")
    )
    sink.write(make_rows({3: 1, 4: 1}, dim=DIM))
    assert len(messages(sink)) == 4
    sink.close()


def test_acknowledgements_that_nobody_awaits_would_be_noticed(server, monkeypatch):
    async def publish(self, subject, payload, timeout=None, stream=None, headers=None):
        await self._nc.publish(subject, payload, headers=headers)

    monkeypatch.setattr(JetStreamContext, "publish", publish)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_stream_that_refuses_is_an_error(server)


def test_too_large_a_message_is_an_error(server):
    sink = make(server, subject=fresh_name())
    sink.open("int64", 200_000)
    with pytest.raises(SinkError, match="maximum payload exceeded"):
        sink.write(make_rows({1: 1}, dim=200_000))
    sink.close()


def test_a_write_to_a_server_that_dies_does_not_wait_for_its_time_to_run_out():
    with nats_server() as server:
        sink = make(server, subject="rows", timeout=600)
        sink.open("int64", DIM)
        rows = make_rows(dict.fromkeys(range(5_000), 1), dim=DIM)
        killer = threading.Timer(0.2, server.kill)
        killer.start()
        began = time.monotonic()
        with pytest.raises(SinkError, match="connection closed"):
            write_on(sink, rows)
        assert time.monotonic() - began < 600
        killer.join()
        with pytest.raises(SinkError):
            sink.write(rows)
        server.start()
        sink.write(rows)
        assert len({json.loads(body)["id"] for body, _ in messages(sink)}) == 5_000
        sink.close()


def write_on(sink, rows):
    while True:
        sink.write(rows)


def test_the_first_address_that_answers_is_taken(server):
    urls = f"nats://127.0.0.1:1 nats://127.0.0.1:2 {server.url}"
    sink = NatsSinkSettings(url=urls, subject=fresh_name(), create=True).make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1}, dim=DIM))
    assert sink.name == f"{urls} {sink.store.settings.subject}"
    sink.close()


def test_nobody_there():
    sink = NatsSinkSettings(url="nats://127.0.0.1:1", subject="rows", timeout=2).make()
    with pytest.raises(SinkError, match=r"nats://127.0.0.1:1 rows: "):
        sink.open("int64", DIM)
    with pytest.raises(SinkError, match="not open"):
        sink.write(make_rows({1: 1}, dim=DIM))
    sink.close()


def test_passwords_are_not_shown():
    with nats_server("--user", "me", "--pass", "right-s3cret") as server:
        place = server.url.removeprefix("nats://")
        wrong = NatsSinkSettings(url=f"nats://me:wrong-s3cret@{place}", subject="rows", create=True).make()

        def says_why():  # unless the server hangs up before its refusal is read
            with pytest.raises(SinkError) as error:
                wrong.open("int64", DIM)
            assert (
                "s3cret" not in f"{error.value} {error.value.__cause__} {wrong.name} {wrong.store.settings}"
            )
            return "authorization" in str(error.value).lower()

        until(says_why)
        right = NatsSinkSettings(url=f"nats://me:right-s3cret@{place}", subject="rows", create=True).make()
        right.open("int64", DIM)
        right.write(make_rows({1: 1}, dim=DIM))
        assert right.name == f"nats://{place} rows"
        right.close()
        wrong.close()


def test_credentials_that_are_not_there_are_an_error(server, tmp_path):
    with pytest.raises((SinkError, MissingExtra), match=r"none\.creds|nkeys is not installed"):
        make(server, subject=fresh_name(), credentials=str(tmp_path / "none.creds")).open("int64", DIM)


def test_no_thread_stays_behind(server):
    before = threading.active_count()
    sink = make(server, subject=fresh_name())
    for _ in range(3):
        sink.open("int64", DIM)
    assert threading.active_count() == before + 1
    with pytest.raises(SinkError):
        sink.open("float", DIM)
    sink.close()
    assert threading.active_count() == before


def check_same_versions(fresh):
    """A refit whose sequences are those of the old model."""
    place = fresh()
    with closing(place.make()) as sink:
        sink.open("int64", DIM)
        for generation in (1, 2):
            sink.write(make_rows({1: 1, 2: 1}, dim=DIM, generation=generation))
        sink.delete_below(0, made_up_history(1, 2))
    assert {at.generation for at, _ in place.read_all().values()} == {2}


def test_a_refit_with_the_same_versions(server):
    check_same_versions(lambda: nats_place(server))


def leaving_is_not_said(monkeypatch):
    monkeypatch.setattr(
        sink_module,
        "left_messages",
        lambda rows, shape: [deleted_below_message(0, made_up_history(0, 0)) for _ in rows.left],
    )


def settling_is_not_said(monkeypatch):
    monkeypatch.setattr(
        sink_module,
        "deleted_below_message",
        lambda floor, history: deleted_below_message(0, made_up_history(0, 0)),
    )


def the_epoch_is_not_in_the_message_id(monkeypatch):
    whole = NatsStore._message_ids
    monkeypatch.setattr(
        NatsStore,
        "_message_ids",
        lambda self, ids, history: whole(self, ids, replace(history, epoch="0" * 16)),
    )


def messages_say_no_generation(monkeypatch):
    for name in ("row_messages", "left_messages", "deleted_below_message"):
        monkeypatch.setattr(sink_module, name, flattened(getattr(sink_module, name)))


def flattened(whole):
    """Say all in one generation, as messages did that knew of none."""

    def flat(what, *rest):
        if isinstance(what, Rows):
            return whole(replace(what, history=replace(what.history, generation=1)), *rest)
        return whole(what, *(replace(one, generation=1) for one in rest))

    return flat


def nobody_is_refused(monkeypatch):
    monkeypatch.setattr(sink_module, "admit", lambda held, ours, name: None)


def nobody_looks_again(monkeypatch):
    """Look at the last message when a connection is made, and never again."""
    look = NatsStore._look

    async def look_once(self):
        if not hasattr(self, "seen"):
            self.seen = await look(self)
        return self.seen

    monkeypatch.setattr(NatsStore, "_look", look_once)


def the_version_is_not_in_the_message_id(monkeypatch):
    whole = NatsStore._message_ids

    def short(self, ids, history):
        return (text.rpartition(":")[0] for text in whole(self, ids, history))

    monkeypatch.setattr(NatsStore, "_message_ids", short)


def the_first_window_is_enough(monkeypatch):
    whole = NatsStore._publish

    def publish(self, history, messages):
        whole(self, history, list(messages)[:1000])

    monkeypatch.setattr(NatsStore, "_publish", publish)


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (leaving_is_not_said, check_left),
        (settling_is_not_said, check_below),
        (the_version_is_not_in_the_message_id, check_repeats),
        (the_first_window_is_enough, check_below),
        (the_epoch_is_not_in_the_message_id, check_same_versions),
        (messages_say_no_generation, check_refit),
        (nobody_is_refused, check_stale_writer),
        (nobody_is_refused, check_equal_generation),
        (nobody_is_refused, check_restored_copy),
        (nobody_looks_again, check_stale_writer),
    ],
)
def test_mutant_would_be_noticed(server, monkeypatch, mutant, check):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(lambda: nats_place(server))


def test_a_connection_that_is_not_made_again_would_be_noticed(server, monkeypatch):
    monkeypatch.setattr("dygcn.testing.sink_checks.PATIENCE", 1.0)

    with monkeypatch.context() as meanwhile:
        connect = NatsStore.connect  # keep the dead connection
        meanwhile.setattr(NatsStore, "disconnect", lambda self: None)
        meanwhile.setattr(NatsStore, "connect", lambda self, shape: self._client or connect(self, shape))
        with pytest.raises(SinkError):
            check_interrupted(lambda: nats_place(server))
