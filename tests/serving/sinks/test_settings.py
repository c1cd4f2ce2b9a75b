"""Settings are strict and keep secrets; each makes its sink."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from dygcn.errors import MissingExtra, OptionError, SinkError
from dygcn.serving.addresses import check_seconds, public_address, secrets_of, without
from dygcn.serving.sinks import (
    KafkaSinkSettings,
    LanceSettings,
    MilvusSettings,
    NatsSinkSettings,
    ParquetSettings,
    PostgresSettings,
    QdrantSettings,
    RedisSinkSettings,
    StoreSink,
    read_sink,
)
from dygcn.testing.sink_model import make_rows

EACH = {
    "postgres": ({"url": "postgresql://db/live"}, PostgresSettings, "postgres://db/live/dygcn_vectors"),
    "nats": ({"url": "nats://broker", "subject": "rows"}, NatsSinkSettings, "nats://broker rows"),
    "redis": ({"url": "redis://cache/1"}, RedisSinkSettings, "redis://cache/1 dygcn"),
    "kafka": ({"servers": "a:1,b:2", "topic": "rows"}, KafkaSinkSettings, "kafka://a:1,b:2/rows"),
    "parquet": ({"folder": "/there"}, ParquetSettings, "parquet:///there"),
    "qdrant": ({"url": "https://k3y@db:6333"}, QdrantSettings, "qdrant://db:6333/dygcn_vectors"),
    "milvus": ({"url": "http://db:19530"}, MilvusSettings, "milvus://db:19530/dygcn_vectors"),
    "lancedb": ({"folder": "/there"}, LanceSettings, "lancedb:///there/dygcn_vectors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EACH)
def test_each_kind_has_its_sink(kind):
    fields, settings_class, name = EACH[kind]
    read = read_sink({"kind": kind, **fields})
    assert type(read) is settings_class
    assert read_sink(msgspec.json.decode(msgspec.json.encode(read))) == read
    sink = read.make()
    assert type(sink) is StoreSink
    assert sink.name == name
    sink.close()


@pytest.mark.parametrize("kind", EACH)
def test_unknown_names_are_refused(kind):
    fields, *_ = EACH[kind]
    with pytest.raises(ValueError, match="unknown field `tabel`"):
        read_sink({"kind": kind, **fields, "tabel": "x"})


@pytest.mark.parametrize("kind", EACH)
def test_what_is_needed_is_needed(kind):
    with pytest.raises(ValueError, match="missing required field"):
        read_sink({"kind": kind})


WRONG = {
    ("nats", "subject"): ["", "a..b", "a b", "a.>"],
    ("nats", "stream"): ["a.b"],
    ("nats", "url"): ["localhost:4222", ""],
    ("nats", "timeout"): [0],
    ("redis", "prefix"): ["", "a:b", "a*", "a b", "[a]", "é"],
    ("kafka", "topic"): ["", "a b", "a/b", "x" * 250, "é"],
    ("postgres", "table"): ["", "a b", 'a"b', "a.b.c", "1a", "x" * 56, "a;", ".a", "é"],
}


@pytest.mark.parametrize(
    ("kind", "field", "value"), [(*where, value) for where, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_named(kind, field, value):
    fields, settings_class, _ = EACH[kind]
    with pytest.raises(OptionError, match=f"{field} is"):
        settings_class(**{**fields, field: value})


UNREADABLE = {
    "redis": ["redis://:s3cret@host:s3cret", "http://:s3cret@host", "s3cret"],
    "qdrant": ["http://s3cret@host:x", "ftp://s3cret@host", "s3cret"],
    "milvus": ["http://s3cret@host:x", "ftp://s3cret@host", "s3cret"],
    "postgres": [
        "postgresql://me:s3cret/1@host/x",
        "host=there pass=s3cret",
        "postgresql://[me:s3cret",
        "dbname=s3cret@x",
    ],
}


@pytest.mark.parametrize(("kind", "url"), [(kind, url) for kind, urls in UNREADABLE.items() for url in urls])
def test_an_address_that_cannot_be_read_shows_no_secret(kind, url):
    with pytest.raises(OptionError, match="url is not an address") as error:
        EACH[kind][1](url=url).make()
    assert "s3cret" not in f"{error.value} {error.value.__cause__}"


def test_numbers_that_are_not_finite_are_refused_by_name():
    """By the sink, whatever its store: one in memory stands for all that say why they cannot keep them."""
    reasons = {kind: read_sink({"kind": kind, **fields}).make().store for kind, (fields, *_) in EACH.items()}
    assert {kind for kind, store in reasons.items() if not store.not_finite} == {"redis", "parquet"}
    for store in reasons.values():
        store.connect, store.write, store.forget_left = (lambda *_: None,) * 3
        store.held = lambda: None
        sink, rows = StoreSink(store), make_rows({1: 1, 77: 1}, dim=4)
        sink.open("int64", 4)
        rows.vectors[1, 2] = np.nan
        if store.not_finite:
            with pytest.raises(SinkError, match="the vector of 77 is not finite, and ") as error:
                sink.write(rows)
            assert store.not_finite in str(error.value)
        else:
            sink.write(rows)


@pytest.mark.parametrize("kind", EACH)
def test_what_is_done_with_another_history_is_a_setting(kind):
    fields, *_ = EACH[kind]
    assert read_sink({"kind": kind, **fields}).other_history == "rewrite"
    read = read_sink({"kind": kind, **fields, "other_history": "refuse"})
    assert read.other_history == "refuse"
    with pytest.raises(ValueError, match="Invalid enum value 'keep'"):
        read_sink({"kind": kind, **fields, "other_history": "keep"})


def test_unknown_kinds_are_refused():
    with pytest.raises(OptionError, match=r"'mongo' is unknown; allowed are postgres, .*'dygcn.sinks'"):
        read_sink({"kind": "mongo"})


def test_bad_values_are_refused_where_files_are_read():
    with pytest.raises(ValueError, match="table is 'a b'"):
        read_sink({"kind": "postgres", "url": "", "table": "a b"})
    with pytest.raises(ValueError, match="index"):
        read_sink({"kind": "postgres", "url": "", "index": "ivfflat"})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e6])
def test_seconds(seconds):
    with pytest.raises(OptionError, match=r"timeout is .*; allowed are seconds above 0, at most 86400"):
        check_seconds("timeout", seconds, 86_400)


PASSWORDS = draw.text(
    draw.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=4, max_size=12
).filter(lambda text: text not in "redis://me@db.example:6379/2")


@settings(deadline=None)
@given(PASSWORDS)
def test_no_password_is_ever_shown(password):
    url = f"redis://me:{password}@db.example:6379/2"
    assert public_address(url) == "redis://db.example:6379/2"
    assert password in secrets_of(url)
    said = without(f"cannot read {url}: {password!s}", secrets_of(url))
    assert password not in said


def test_addresses():
    assert public_address("nats://a nats://b:1") == "nats://a nats://b:1"
    assert public_address("redis://:pass word@db") == "redis://db"
    assert public_address("redis://db/0?password=s3cret") == "redis://db/0"
    assert public_address("host=db password=s3cret") == "..."
    assert public_address("unix:///run/redis.sock?db=1") == "unix:///run/redis.sock"
    assert secrets_of("redis://db") == []


def test_what_clients_say_becomes_one_line():
    assert without("first\n  second\tthird", []) == "first second third"


def test_clients_are_imported_only_when_a_sink_is_made():
    code = (
        "import sys, dygcn.serving.sinks\n"
        "clients = {'psycopg', 'nats', 'redis', 'confluent_kafka', 'qdrant_client', 'pymilvus', 'lancedb'}\n"
        "clients |= {'numba', 'torch'}\n"
        "sys.exit(', '.join(clients & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("postgres", "psycopg"),
        ("nats", "nats"),
        ("redis", "redis"),
        ("kafka", "confluent_kafka"),
        ("qdrant", "qdrant_client"),
        ("milvus", "pymilvus"),
        ("lancedb", "lancedb"),
    ],
)
def test_a_missing_client_says_what_to_install(monkeypatch, kind, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(package), *sys.meta_path])
    fields, *_ = EACH[kind]
    with pytest.raises(
        MissingExtra, match=rf'{package} is not installed. Run: pip install "dygcn\[{kind}\]"'
    ):
        read_sink({"kind": kind, **fields}).make()


class Missing:
    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
