"""The Redis sink on a real server: the contract, what only it has, and seeded bugs."""

import dataclasses
import time

import pytest
import redis

from dygcn.errors import OtherHistory, SinkError
from dygcn.serving.sinks import RedisSinkSettings
from dygcn.serving.sinks import redis as sink_module
from dygcn.testing.sink_checks import (
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
from dygcn_lab.testbed.servers import redis_server
from tests.serving.sinks.places import check_late_positions, fresh_name, read_hashes, redis_place, versions

DIM = 4


@pytest.fixture(scope="module")
def server():
    with redis_server() as running:
        yield running


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server.url) as connected:
        yield connected


@pytest.fixture
def sink(server):
    opened = RedisSinkSettings(url=server.url, prefix=fresh_name()).make()
    opened.open("int64", DIM)
    yield opened
    opened.close()


def held(sink):
    return versions(read_hashes(sink.store.settings))


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_contract(server, check):
    SINK_CHECKS[check](lambda: redis_place(server))


def test_random_sequences(server):
    check_random_sequences(lambda: redis_place(server), examples=6)


def test_what_lies_there(sink, client):
    prefix = sink.store.settings.prefix
    assert client.hgetall(f"{prefix}:about") == {b"kind": b"int64", b"dim": b"4"}
    rows = make_rows({7: 3}, left={8: 3}, dim=DIM, generation=1_700_000_000_000)
    sink.write(rows)
    at = rows.history
    of = {
        b"generation": b"1700000000000",
        b"epoch": at.epoch.encode(),
        b"version": b"3",
        b"chain": at.chain.encode(),
    }
    assert client.hgetall(f"{prefix}:about") == {b"kind": b"int64", b"dim": b"4", **of}
    assert client.hgetall(f"{prefix}:node:7") == {**of, b"vector": rows.vectors.tobytes()}
    (mark,) = client.keys(f"{prefix}:left:*")
    assert client.hgetall(mark) == of
    assert not client.exists(f"{prefix}:node:8")
    assert client.ttl(f"{prefix}:node:7") == -1
    assert 86_000 < client.ttl(mark) <= 86_400


def test_vectors_that_lie_in_memory_big_end_first_are_refused(sink):
    rows = make_rows({7: 3}, dim=DIM)
    with pytest.raises(SinkError, match="takes float32 vectors of size 4; got >f4"):
        sink.write(dataclasses.replace(rows, vectors=rows.vectors.astype(">f4")))


def test_a_node_that_comes_back_no_longer_expires(sink, client):
    sink.write(make_rows({}, left={8: 4}, dim=DIM))
    sink.write(make_rows({8: 5}, dim=DIM))
    assert client.ttl(f"{sink.store.settings.prefix}:node:8") == -1


def test_a_node_that_left_is_remembered_without_its_name(sink, client):
    sink.write(make_rows({1_234_567: 3}, dim=DIM))
    sink.write(make_rows({}, left={1_234_567: 4}, dim=DIM))
    assert client.keys(f"{sink.store.settings.prefix}:left:*")
    assert not client.keys("*1234567*")


def test_nodes_that_left_are_forgotten_in_time(server):
    sink = RedisSinkSettings(url=server.url, prefix=fresh_name(), keep_left=1).make()
    sink.open("int64", DIM)
    sink.write(make_rows({1: 1}, left={2: 1}, dim=DIM))
    sink.delete_below(2, made_up_history(2))
    with redis.Redis.from_url(server.url) as client:
        assert len(client.keys(f"{sink.store.settings.prefix}:left:*")) == 2
        until = time.monotonic() + 10
        while client.keys(f"{sink.store.settings.prefix}:left:*") and time.monotonic() < until:
            time.sleep(0.05)
        assert client.keys(f"{sink.store.settings.prefix}:left:*") == []
    sink.close()


def test_settling_leaves_others_alone(server, client):
    mine, other = (RedisSinkSettings(url=server.url, prefix=prefix).make() for prefix in ("a", "ab"))
    client.set("a:node", "somebody's")
    for sink in (mine, other):
        sink.open("int64", DIM)
        sink.write(make_rows(dict.fromkeys(range(2300), 1), dim=DIM))
    mine.write(make_rows({5: 2}, dim=DIM))
    mine.delete_below(2, made_up_history(2))
    assert held(mine) == {5: 2}
    assert len(held(other)) == 2300
    assert client.get("a:node") == b"somebody's"
    mine.close()
    other.close()


def test_a_full_server_is_an_error_and_nothing_is_lost(sink, client):
    sink.write(make_rows({1: 1}, dim=DIM))
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(SinkError, match=r"OutOfMemory|OOM"):
            sink.write(make_rows({1: 2, 2: 2}, dim=DIM))
    finally:
        client.config_set("maxmemory", 0)
    sink.write(make_rows({1: 2, 2: 2}, dim=DIM))
    assert held(sink) == {1: 2, 2: 2}


def test_scripts_that_the_server_forgot_are_sent_again(sink, client):
    sink.write(make_rows({1: 1}, dim=DIM))
    client.script_flush()
    sink.write(make_rows({1: 2}, left={2: 2}, dim=DIM))
    client.script_flush()
    sink.delete_below(2, made_up_history(2))
    assert held(sink) == {1: 2}


def test_a_server_that_forgot_everything_is_filled_again(sink, client):
    sink.write(make_rows({1: 1}, dim=DIM))
    client.flushdb()
    assert sink.open("int64", DIM) is None
    sink.write(make_rows({1: 1}, dim=DIM))
    assert held(sink) == {1: 1}


def test_a_place_that_does_not_say_its_history_is_asked_node_by_node(sink, client):
    sink.write(make_rows({1: 1, 2: 1}, dim=DIM, generation=5))
    client.delete(f"{sink.store.settings.prefix}:about")
    assert sink.open("int64", DIM) is None
    with pytest.raises(OtherHistory, match=r"newer history \(generation 5"):
        sink.write(make_rows({1: 9}, dim=DIM))
    assert held(sink) == {1: 1, 2: 1}


def test_rows_of_a_newer_history_that_come_in_between_are_not_touched(sink, client, monkeypatch):
    """A stale writer has passed its first look; then the newer history comes, then its rows."""
    monkeypatch.setattr(sink_module, "_AT_ONCE", 2)
    other = sink.store.settings.make()
    other.open("int64", DIM)
    execute, parts = redis.client.Pipeline.execute, []

    def watch(self, raise_on_error=True):
        parts.append(len(self))
        if len(parts) == 2:
            monkeypatch.setattr(redis.client.Pipeline, "execute", execute)
            other.write(make_rows({3: 2, 5: 2}, dim=DIM, generation=2))
        return execute(self, raise_on_error)

    monkeypatch.setattr(redis.client.Pipeline, "execute", watch)
    with pytest.raises(OtherHistory, match="newer history"):
        sink.write(make_rows(dict.fromkeys(range(8), 7), dim=DIM))
    assert parts == [2, 2]
    assert held(sink) == {0: 7, 1: 7, 3: 2, 5: 2}
    other.close()


def test_keys_of_another_type_are_an_error(sink, client):
    client.set(f"{sink.store.settings.prefix}:node:1", "somebody's")
    with pytest.raises(SinkError, match=r"WRONGTYPE|wrong kind"):
        sink.write(make_rows({1: 1}, dim=DIM))
    client.delete(f"{sink.store.settings.prefix}:node:1")
    client.delete(f"{sink.store.settings.prefix}:about")
    client.set(f"{sink.store.settings.prefix}:about", "somebody's")
    with pytest.raises(SinkError, match=r"WRONGTYPE|wrong kind"):
        sink.open("int64", DIM)


def test_passwords_are_not_shown():
    with redis_server("--requirepass", "right-s3cret") as server:
        place = server.url.removeprefix("redis://")
        wrong = RedisSinkSettings(url=f"redis://:wrong-s3cret@{place}/0").make()
        with pytest.raises(SinkError) as error:
            wrong.open("int64", DIM)
        assert "s3cret" not in f"{error.value} {error.value.__cause__} {wrong.name} {wrong.store.settings}"
        right = RedisSinkSettings(url=f"redis://:right-s3cret@{place}/0").make()
        right.open("int64", DIM)
        right.write(make_rows({1: 1}, dim=DIM))
        assert held(right) == {1: 1}
        assert right.name == f"redis://{place}/0 dygcn"
        right.close()
        wrong.close()


def test_nobody_there():
    sink = RedisSinkSettings(url="redis://127.0.0.1:1/0", timeout=2).make()
    with pytest.raises(SinkError, match=r"redis://127.0.0.1:1/0 dygcn: ConnectionError"):
        sink.open("int64", DIM)
    sink.close()


def replace(monkeypatch, script, right, wrong):
    text = getattr(sink_module, script)
    assert right in text
    monkeypatch.setattr(sink_module, script, text.replace(right, wrong))


OLDER = "if not newer then return 0 end"
AS_DOUBLES = "local function older(a, b) return tonumber(a) < tonumber(b) end"
AS_TEXTS = "local function older(a, b) return a < b end"
AS_THEY_ARE = "local function older(a, b) return #a < #b or (#a == #b and a < b) end"
FENCE = "local refused = look(KEYS[2])\nif refused then return refused end"
VERSION_ALONE = "not g or older(v, version)"
MUTANTS = {
    "an older row wins": ("_WRITE", OLDER, "", check_repeats),
    "versions are compared as doubles": ("_WRITE", AS_THEY_ARE, AS_DOUBLES, check_repeats),
    "versions are compared as texts": ("_WRITE", AS_THEY_ARE, AS_TEXTS, check_repeats),
    "a late leaving wins": ("_LEAVE", OLDER, "", check_left),
    "nobody remembers who left": ("_LEAVE", "put(KEYS[3])", "", check_left),
    "nodes that left are still there": ("_LEAVE", "redis.call('DEL', KEYS[1])", "", check_left),
    "deleting forgets": ("_DELETE_BELOW", "if not older(v, ARGV[5])", "if v", check_below),
    "deleting takes too much": ("_DELETE_BELOW", "if not older(v, ARGV[5])", "if false", check_below),
    "nobody remembers the floor": ("_DELETE_BELOW", "return 1", "redis.call('DEL', KEYS[3])", check_below),
    "marks of who left are not looked at": ("_WRITE", "{KEYS[1], KEYS[3]}", "{KEYS[1]}", check_left),
    "a row of an older generation stays": (
        "_WRITE", "not g or older(g, generation) or older(v, version)", VERSION_ALONE, check_refit,
    ),
    "a leaving ends no row of an older generation": (
        "_LEAVE", "not g or older(g, generation) or older(v, version)", VERSION_ALONE, check_refit,
    ),
    "deleting looks at versions alone": ("_DELETE_BELOW", "if e ~= epoch then", "if false then", check_refit),
    "the position is not kept": ("_REACH", "if newer then", "if false then", check_rows_say_their_history),
    "an older position is kept": ("_REACH", "if newer then", "if true then", check_late_positions),
    "epochs are not compared": ("_REACH", "g == generation and e ~= epoch", "false", check_equal_generation),
    "generations are compared as doubles": ("_REACH", AS_THEY_ARE, AS_DOUBLES, check_rows_say_their_history),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_would_be_noticed(server, monkeypatch, mutant):
    script, right, wrong, check = MUTANTS[mutant]
    replace(monkeypatch, script, right, wrong)
    with pytest.raises(AssertionError):
        check(lambda: redis_place(server))


@pytest.mark.parametrize(
    ("kept", "check"),
    [
        ("false", check_stale_writer),
        ("false", check_equal_generation),
        ("false", check_restored_copy),
        ("other", check_restored_copy),
        ("forked", check_stale_writer),
    ],
)
def test_a_place_without_a_fence_would_be_noticed(server, monkeypatch, kept, check):
    for script in ("_REACH", "_WRITE", "_LEAVE", "_DELETE_BELOW"):
        replace(monkeypatch, script, "if other or forked then", f"if {kept} then")
    with pytest.raises(AssertionError, match="was not refused with OtherHistory"):
        check(lambda: redis_place(server))


def test_a_fence_that_stands_only_before_the_first_row_would_be_noticed(server, client, monkeypatch):
    replace(monkeypatch, "_WRITE", FENCE, "")
    sink = RedisSinkSettings(url=server.url, prefix=fresh_name()).make()
    sink.open("int64", DIM)
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as meanwhile:
        test_rows_of_a_newer_history_that_come_in_between_are_not_touched(sink, client, meanwhile)
    sink.close()


def test_a_late_write_does_not_take_the_position_back(server):
    check_late_positions(lambda: redis_place(server))


def test_answers_that_nobody_reads_would_be_noticed(sink, client, monkeypatch):
    execute = redis.client.Pipeline.execute
    monkeypatch.setattr(redis.client.Pipeline, "execute", lambda self: execute(self, raise_on_error=False))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_keys_of_another_type_are_an_error(sink, client)


def test_a_scan_that_ends_early_would_be_noticed(server, monkeypatch):
    scan = redis.Redis.scan_iter
    monkeypatch.setattr(redis.Redis, "scan_iter", lambda self, **how: list(scan(self, **how))[:1000])
    with pytest.raises(AssertionError):
        check_below(lambda: redis_place(server))
