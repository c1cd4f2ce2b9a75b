"""Redis Streams, on a real server."""

import itertools
import time

import pytest
import redis as client_of_redis

from dygcn.errors import SourceError
from dygcn.serving.sources import RedisSourceSettings
from dygcn.serving.sources import redis as module
from dygcn.serving.sources.redis import RedisReader, entry_of, offset_of
from dygcn.testing import source_checks
from dygcn.testing.source_checks import SOURCE_CHECKS, check_resume
from dygcn_lab.testbed.servers import redis_server
from tests.serving.sources.reading import keep_reading, places_of

FRESH = (f"stream-{number}" for number in itertools.count())


@pytest.fixture
def stream():
    return next(FRESH)


@pytest.fixture
def client(redis):
    with client_of_redis.Redis.from_url(redis.url) as client:
        yield client


def settings_of(server, *streams, **others):
    return RedisSourceSettings(url=server.url, streams=list(streams), **others)


def add(client, stream, bodies, field="event", **options):
    return [client.xadd(stream, {field: body}, **options).decode() for body in bodies]


@pytest.fixture
def opened(redis):
    sources = []

    def open_source(*streams, after=None, **others):
        sources.append(settings_of(redis, *streams, **others).make())
        sources[-1].open(after or {})
        return sources[-1]

    yield open_source
    for source in sources:
        source.close()


def bodies(source, limit=100, timeout=0.0):
    return [message.body for message in source.read(limit, timeout)]


@pytest.mark.parametrize("name", sorted(SOURCE_CHECKS))
def test_a_stream_does_what_a_source_promises(name, redis, client, stream):
    settings = settings_of(redis, stream)
    SOURCE_CHECKS[name](settings.make, lambda each: add(client, stream, each))


@pytest.mark.parametrize("name", ["order", "resume", "twice", "beginning", "limit"])
def test_several_streams_do_what_a_source_promises(name, redis, client):
    streams = [next(FRESH) for _ in range(3)]
    turn = itertools.cycle(streams)

    def publish(each):
        for body in each:
            add(client, next(turn), [body])

    SOURCE_CHECKS[name](lambda: settings_of(redis, *streams).make(), publish)


def test_positions_are_ids(client, stream, opened):
    ids = add(client, stream, [b"a", b"b"])
    found = opened(stream).read(10, 1.0)
    assert [entry_of(message.offset) for message in found] == ids
    assert {message.stream for message in found} == {f"redis:{stream}"}


@pytest.mark.parametrize("entry", ["0-1", "1-0", "1794753405367-4194303", "2199023255551-4194303"])
def test_ids_and_positions_are_one_to_one(entry):
    assert entry_of(offset_of(entry)) == entry
    assert 0 <= offset_of(entry) < 2**63


@pytest.mark.parametrize(
    "entry", ["2199023255552-0", "5-4194304", "18446744073709551615-18446744073709551615"]
)
def test_ids_that_do_not_fit_are_refused(entry, client, stream, opened):
    with pytest.raises(SourceError, match="too great"):
        offset_of(entry)
    client.xadd(stream, {"event": b"x"}, id=entry)
    with pytest.raises(SourceError, match="too great"):
        opened(stream).read(1, 0.0)


def test_small_ids_are_read_from_any_place(client, stream, opened):
    ids = ["0-1", "0-2", "1-0", "1-1", "2-0"]
    for entry in ids:
        client.xadd(stream, {"event": entry}, id=entry)
    for at, entry in enumerate(ids):
        source = opened(stream, after={f"redis:{stream}": offset_of(entry)})
        assert bodies(source) == [later.encode() for later in ids[at + 1 :]]


def test_the_field_and_the_form_are_set(client, stream, opened):
    client.xadd(stream, {"other": b"no", "body": b"yes"})
    client.xadd(stream, {"other": b"no"})
    found = opened(stream, field="body", form="ndjson").read(5, 0.0)
    assert (found[0].body, found[0].form) == (b"yes", "ndjson")
    assert b"no field b'body' in {b'other': b'no'}" in found[1].body


def test_no_stream_starves_another(client, opened):
    streams = [next(FRESH) for _ in range(4)]
    for stream in streams:
        add(client, stream, [b"x"] * 10)
    source = opened(*streams)
    assert {message.stream for message in source.read(8, 0.0)} == {f"redis:{stream}" for stream in streams}
    assert len({source.read(1, 0.0)[0].stream for _ in range(4)}) == 4


def test_streams_that_come_later(client, opened):
    streams = [next(FRESH) for _ in range(2)]
    source = opened(*streams)
    assert (bodies(source), source.lag()) == ([], 0)
    add(client, streams[1], [b"x"])
    assert bodies(source, timeout=5.0) == [b"x"]


def test_the_lag_is_counted(client, stream, opened, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.0)
    ids = add(client, stream, [b"x"] * 10)
    source = opened(stream)
    source.read(3, 0.0)
    assert source.lag() == 7
    middle = opened(stream, after={f"redis:{stream}": offset_of(ids[4])})
    middle.read(1, 0.0)
    assert middle.lag() is None
    middle.read(100, 0.0)
    assert middle.lag() == 0
    add(client, stream, [b"y"] * 4)
    middle.read(1, 0.0)
    assert middle.lag() == 3


def test_a_place_that_was_trimmed_away(client, stream, opened):
    ids = add(client, stream, [b"%d" % i for i in range(10)])
    cursor = {f"redis:{stream}": offset_of(ids[3])}
    client.xtrim(stream, minid=ids[3], approximate=False)
    assert len(bodies(opened(stream, after=cursor))) == 6
    client.xtrim(stream, minid=ids[6], approximate=False)
    with pytest.raises(SourceError, match=f"trimmed up to {ids[3]} or beyond"):
        opened(stream, after=cursor)
    assert len(bodies(opened(stream))) == 4


def check_trimmed_while_read(client, stream, opened):
    add(client, stream, [b"%d" % i for i in range(10)])
    source = opened(stream)
    assert len(bodies(source, limit=4)) == 4
    client.xtrim(stream, maxlen=3, approximate=False)
    with pytest.raises(SourceError, match="trimmed up to"):
        source.read(10, 0.0)


def test_what_is_trimmed_while_it_is_read(client, stream, opened):
    check_trimmed_while_read(client, stream, opened)


def test_reading_behind_the_last_entry_would_be_noticed(client, stream, opened, monkeypatch):
    """The usual way: XREAD from the last id. It does not see what is missing."""

    def behind(self, name, entries, share):
        self._reached[name] = None
        return taken(self, name, entries, share)

    taken = RedisReader._taken
    monkeypatch.setattr(module, "_just_before", entry_of)
    monkeypatch.setattr(RedisReader, "_taken", behind)
    with pytest.raises(pytest.fail.Exception):
        check_trimmed_while_read(client, stream, opened)


def test_trimming_what_was_read_is_no_loss(client, stream, opened):
    ids = add(client, stream, [b"x"] * 5)
    source = opened(stream)
    assert len(bodies(source)) == 5
    client.xtrim(stream, maxlen=0, approximate=False)
    assert bodies(source) == []
    assert bodies(opened(stream, after={f"redis:{stream}": offset_of(ids[-1])})) == []


def test_entries_that_were_deleted(client, stream, opened):
    ids = add(client, stream, [b"x"] * 5)
    client.xdel(stream, ids[1])
    assert len(bodies(opened(stream, after={f"redis:{stream}": offset_of(ids[1])}))) == 3
    client.xdel(stream, ids[3])
    with pytest.raises(SourceError, match=f"after {ids[1]} were deleted, up to {ids[3]}"):
        opened(stream, after={f"redis:{stream}": offset_of(ids[1])})


def test_a_stream_that_is_gone_or_made_anew(client, stream, opened):
    ids = add(client, stream, [b"x"] * 3)
    source, cursor = opened(stream), {f"redis:{stream}": offset_of(ids[-1])}
    assert len(bodies(source)) == 3
    client.delete(stream)
    with pytest.raises(SourceError, match="is gone"):
        opened(stream, after=cursor)
    with pytest.raises(SourceError, match="is gone"):
        source.read(1, 0.0)
    client.xadd(stream, {"event": b"x"}, id="5-0")
    with pytest.raises(SourceError, match="created again"):
        opened(stream, after=cursor)


def test_what_is_no_stream(client, stream, opened):
    client.set(stream, "text")
    with pytest.raises(SourceError, match="not a stream but a string"):
        opened(stream)


def test_no_password_is_shown():
    with redis_server("--requirepass", "s3cret") as server:
        host = f"{server.host}:{server.port}"
        settings = RedisSourceSettings(url=f"redis://:s3cret@{host}", streams=["a"])
        good = settings.make()
        good.open({})
        good.close()
        assert "s3cret" not in good.name + repr(settings)
        for user in (":wr0ng@", "", "who:wr0ng@"):
            with pytest.raises(SourceError) as caught:
                RedisSourceSettings(url=f"redis://{user}{host}", streams=["a"]).make().open({})
            assert "wr0ng" not in str(caught.value)
            assert caught.value.__cause__ is None


def test_nobody_is_there():
    with redis_server() as server:
        settings = settings_of(server, "a")
    with pytest.raises(SourceError, match="refused"):
        settings.make().open({})


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_nothing_is_lost_when_the_server_comes_back(how):
    with redis_server() as server:
        source, found, cursor = settings_of(server, "a").make(), [], {}
        expected = [b"%d" % number for number in range(90)]
        for begin in range(0, 90, 30):
            with client_of_redis.Redis.from_url(server.url) as client:
                add(client, "a", expected[begin : begin + 30])
            source.open(cursor)
            part = source.read(20, 5.0)
            found += part
            cursor = places_of(found)
            getattr(server, how)()
            with pytest.raises(SourceError):
                keep_reading(source)
            with pytest.raises(SourceError, match="not open"):
                source.read(1, 0.0)
            with pytest.raises(SourceError):
                source.open(cursor)
            server.start()
        source.open(cursor)
        found += source.read(100, 5.0)
        source.close()
        assert [message.body for message in found] == expected


def test_a_restart_between_two_reads_is_seen():
    """A server that comes back may have less than it had: open() compares."""
    with redis_server() as server:
        source = settings_of(server, "a").make()
        source.open({})
        source.read(1, 0.0)
        server.restart()
        time.sleep(0.05)
        with pytest.raises(SourceError):
            source.read(1, 0.0)
        source.close()


def test_a_server_that_lost_its_data_is_seen():
    with redis_server("--appendonly", "no") as server:
        with client_of_redis.Redis.from_url(server.url) as client:
            cursor = {"redis:a": offset_of(add(client, "a", [b"x"])[0])}
        server.restart()
        with pytest.raises(SourceError, match="is gone"):
            settings_of(server, "a").make().open(cursor)


@pytest.mark.parametrize("bug", ["one too far", "one too early"])
def test_a_wrong_place_would_be_noticed(bug, redis, client, stream, monkeypatch):
    def shifted(self, after):
        opened_right(self, after)
        reached = self._reached[stream]
        ids = [offset_of(entry.decode()) for entry, _ in client.xrange(stream)]
        if reached in ids:
            at = ids.index(reached) + (1 if bug == "one too far" else -1)
            self._reached[stream] = ids[min(max(at, 0), len(ids) - 1)]

    opened_right = RedisReader.connect
    monkeypatch.setattr(source_checks, "PATIENCE", 2.0)
    monkeypatch.setattr(RedisReader, "connect", shifted)
    with pytest.raises(AssertionError, match="behind that"):
        check_resume(lambda: settings_of(redis, stream).make(), lambda each: add(client, stream, each))
