"""NATS JetStream, on a real server."""

import itertools
import time

import nats as client_of_nats
import pytest

from dygcn.errors import SourceError
from dygcn.serving.brokers import LoopThread
from dygcn.serving.sources import NatsSourceSettings, ReaderSource
from dygcn.serving.sources import nats as module
from dygcn.serving.sources.nats import NatsReader
from dygcn.testing import source_checks
from dygcn.testing.source_checks import SOURCE_CHECKS, check_order, check_resume
from dygcn_lab.testbed.servers import nats_server
from tests.serving.sources import reading
from tests.serving.sources.reading import Shifted, keep_reading, places_of, take

FRESH = (f"stream-{number}" for number in itertools.count())


class Publisher:
    """What other programs do to a stream."""

    def __init__(self, url):
        self.loop = LoopThread("publisher")
        self.client = self.loop.run(client_of_nats.connect(url))
        self.jet = self.client.jetstream(timeout=10)

    def make(self, stream, **options):
        self.loop.run(self.jet.add_stream(name=stream, subjects=[f"{stream}.>"], **options))

    def send(self, stream, bodies, subject="x"):
        async def acknowledged():
            for body in bodies:
                await self.jet.publish(f"{stream}.{subject}", body)

        self.loop.run(acknowledged())

    def call(self, name, *arguments, **named):
        return self.loop.run(getattr(self.jet, name)(*arguments, **named))

    def close(self):
        self.loop.run(self.client.close())
        self.loop.close()


@pytest.fixture
def publisher(nats):
    publisher = Publisher(nats.url)
    yield publisher
    publisher.close()


@pytest.fixture
def stream(publisher):
    name = next(FRESH)
    publisher.make(name)
    return name


def settings_of(server, stream, **others):
    return NatsSourceSettings(url=server.url, stream=stream, **others)


@pytest.fixture
def opened(nats):
    sources = []

    def open_source(stream, cursor=None, **others):
        sources.append(settings_of(nats, stream, **others).make())
        sources[-1].open({} if cursor is None else {f"nats:{stream}": cursor})
        return sources[-1]

    yield open_source
    for source in sources:
        source.close()


def numbered(count, begin=0):
    return [b"%d" % number for number in range(begin, begin + count)]


@pytest.mark.parametrize("name", sorted(SOURCE_CHECKS))
def test_a_stream_does_what_a_source_promises(name, nats, publisher, stream):
    settings = settings_of(nats, stream)
    SOURCE_CHECKS[name](settings.make, lambda bodies: publisher.send(stream, bodies))


@pytest.mark.parametrize("name", ["order", "resume", "limit"])
def test_a_subject_does_what_a_source_promises(name, nats, publisher, stream):
    def publish(bodies):
        for begin in range(0, len(bodies), 50):
            publisher.send(stream, [b"not this one"], subject="other")
            publisher.send(stream, bodies[begin : begin + 50])

    settings = settings_of(nats, stream, subject=f"{stream}.x")
    SOURCE_CHECKS[name](settings.make, publish)


def test_positions_are_sequences(publisher, stream, opened):
    publisher.send(stream, numbered(3))
    found = take(opened(stream, form="ndjson"), 3)
    assert [(message.stream, message.offset, message.form) for message in found] == [
        (f"nats:{stream}", position, "ndjson") for position in (1, 2, 3)
    ]


def test_thousands_of_messages(publisher, stream, opened):
    publisher.send(stream, numbered(3500))
    source = opened(stream)
    found = take(source, 3500)
    assert [message.body for message in found] == numbered(3500)
    assert source.lag() == 0


def test_the_lag_is_what_the_server_says(publisher, stream, opened):
    publisher.send(stream, numbered(10))
    source = opened(stream)
    assert source.lag() == 10
    source.read(4, 5.0)
    assert 0 < source.lag() <= 6


def test_a_message_that_was_deleted_is_passed(publisher, stream, opened):
    publisher.send(stream, numbered(5))
    publisher.call("delete_msg", stream, 3)
    assert [message.offset for message in take(opened(stream), 4)] == [1, 2, 4, 5]


def test_a_place_behind_which_messages_were_deleted(publisher, stream, opened):
    publisher.send(stream, numbered(10))
    publisher.call("purge_stream", stream, seq=5)
    assert take(opened(stream, 4), 6)[0].offset == 5
    with pytest.raises(SourceError, match="begins at 5, 3 was read"):
        opened(stream, 3)
    publisher.call("purge_stream", stream)
    assert opened(stream, 10).read(1, 0.1) == []
    with pytest.raises(SourceError, match="begins at 11, 9 was read"):
        opened(stream, 9)
    assert opened(stream).read(1, 0.1) == []


def check_trimmed_while_read(publisher, stream, opened):
    publisher.send(stream, numbered(20))
    source = opened(stream)
    assert len(source.read(4, 5.0)) == 4
    source.read(4, 5.0)
    publisher.call("purge_stream", stream, seq=15)
    with pytest.raises(SourceError, match="begins at 15"):
        keep_reading(source, 4)


def test_what_is_trimmed_while_it_is_read(publisher, stream, opened):
    check_trimmed_while_read(publisher, stream, opened)


def test_gaps_that_nobody_looks_at_would_be_noticed(publisher, stream, opened, monkeypatch):
    async def nothing(self, positions):
        pass

    monkeypatch.setattr(NatsReader, "_look_for_gaps", nothing)
    monkeypatch.setattr(reading, "PATIENCE", 2.0)
    with pytest.raises(pytest.fail.Exception):
        check_trimmed_while_read(publisher, stream, opened)


def test_a_stream_that_is_not_there_or_made_anew(publisher, stream, opened, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    publisher.send(stream, numbered(5))
    with pytest.raises(SourceError, match="ends at 5, 7 was read: it was created again"):
        opened(stream, 7)
    source = opened(stream, 5, timeout=1.0)
    publisher.call("delete_stream", stream)
    with pytest.raises(SourceError, match=r"never answered|no more messages"):
        keep_reading(source)
    with pytest.raises(SourceError, match="NotFound"):
        opened(stream, 5)


def test_a_consumer_that_the_server_forgot(publisher, stream, opened, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    publisher.send(stream, numbered(5))
    source = opened(stream, timeout=1.0)
    assert len(source.read(2, 5.0)) == 2
    publisher.call("delete_consumer", stream, source.reader._consumer)
    with pytest.raises(SourceError, match=r"never answered|no more messages"):
        keep_reading(source)
    assert len(take(opened(stream, 2), 3)) == 3


def test_a_request_that_ran_out_is_asked_again(publisher, stream, opened, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    source = opened(stream)
    assert source.read(5, 0.5) == []
    assert source.read(5, 0.5) == []
    publisher.send(stream, [b"x"])
    assert [message.body for message in source.read(5, 5.0)] == [b"x"]


def check_requests_that_end_in_silence(publisher, stream, opened, monkeypatch, wait=60.0):
    """The server drops a request without a word if a message comes just as it runs out."""

    async def deaf(self, message):
        if message.reply:  # a message, not the end of a request
            await arrive(self, message)

    arrive = NatsReader._arrive
    monkeypatch.setattr(NatsReader, "_arrive", deaf)
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    source = opened(stream)
    for number in range(4):
        time.sleep(0.3)  # the server has given up the request, and nobody told us
        publisher.send(stream, [b"%d" % number])
        assert [message.body for message in source.read(1, wait)] == [b"%d" % number]


def test_requests_that_end_in_silence_are_asked_again(publisher, stream, opened, monkeypatch):
    check_requests_that_end_in_silence(publisher, stream, opened, monkeypatch)


def test_waiting_for_the_end_of_a_request_would_be_noticed(publisher, stream, opened, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 60.0)
    with pytest.raises(AssertionError):
        check_requests_that_end_in_silence(publisher, stream, opened, monkeypatch, wait=2.0)


def test_a_delivery_that_was_lost_is_noticed(publisher, stream, opened, monkeypatch):
    """Nothing acknowledges, so what a client drops never comes again by itself."""

    async def forgetful(self, message):
        dropped.append(message)
        if len(dropped) != 3:
            await arrive(self, message)

    dropped, arrive = [], NatsReader._arrive
    monkeypatch.setattr(NatsReader, "_arrive", forgetful)
    publisher.send(stream, numbered(5))
    source, found = opened(stream), []
    with pytest.raises(SourceError, match="1 messages were lost on their way"):
        keep_reading(source, found=found)
    assert [message.offset for message in found] == [1, 2]
    monkeypatch.undo()
    assert [message.offset for message in take(opened(stream, 2), 3)] == [3, 4, 5]


def test_no_password_is_shown():
    with nats_server("--user", "app", "--pass", "s3cret") as server:
        url = f"nats://app:s3cret@{server.host}:{server.port}"
        publisher = Publisher(url)
        publisher.make("a")
        publisher.close()
        settings = NatsSourceSettings(url=url, stream="a")
        good = settings.make()
        good.open({})
        good.close()
        assert "s3cret" not in good.name + repr(settings)
        for wrong in ("app:wr0ng@", ""):
            with pytest.raises(SourceError) as caught:
                NatsSourceSettings(url=url.replace("app:s3cret@", wrong), stream="a").make().open({})
            assert "wr0ng" not in str(caught.value)
            assert caught.value.__cause__ is None


def test_the_first_server_that_answers_is_taken(nats, publisher, stream):
    publisher.send(stream, [b"x"])
    with nats_server() as gone:
        away = gone.url
    source = NatsSourceSettings(url=f"{away} {nats.url}", stream=stream).make()
    source.open({})
    assert len(take(source, 1)) == 1
    source.close()
    with pytest.raises(SourceError):
        NatsSourceSettings(url=away, stream=stream).make().open({})


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_nothing_is_lost_when_the_server_comes_back(how):
    with nats_server() as server:
        source, found, cursor = settings_of(server, "a").make(), [], {}
        for begin in range(0, 90, 30):
            publisher = Publisher(server.url)
            if not begin:
                publisher.make("a")
            publisher.send("a", numbered(30, begin))
            source.open(cursor)
            found += source.read(20, 5.0)
            getattr(server, how)()
            with pytest.raises(SourceError):
                keep_reading(source, found=found)
            cursor = places_of(found)
            with pytest.raises(SourceError, match="not open"):
                source.read(1, 0.0)
            with pytest.raises(SourceError):
                source.open(cursor)
            server.start()
            publisher.close()
        source.open(cursor)
        found += take(source, 90 - len(found))
        source.close()
        assert [message.body for message in found] == numbered(90)
        assert [message.offset for message in found] == list(range(1, 91))


class NotOrdered(NatsReader):
    def fetch(self, limit, timeout):
        return super().fetch(limit, timeout)[::-1]


@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_place_would_be_noticed(by, nats, publisher, stream, monkeypatch):
    monkeypatch.setattr(source_checks, "PATIENCE", 2.0)
    publisher.send(stream, [b"before"])
    with pytest.raises((AssertionError, SourceError)):
        check_resume(
            lambda: Shifted(NatsReader(settings_of(nats, stream)), by),
            lambda each: publisher.send(stream, each),
        )


def test_a_wrong_order_would_be_noticed(nats, publisher, stream):
    with pytest.raises(AssertionError, match="order"):
        check_order(
            lambda: ReaderSource(NotOrdered(settings_of(nats, stream))),
            lambda each: publisher.send(stream, each),
        )


def test_no_loop_is_left_behind(stream, opened):
    source = opened(stream)
    loop = source.reader._loop._loop
    source.close()
    assert loop.is_closed()
