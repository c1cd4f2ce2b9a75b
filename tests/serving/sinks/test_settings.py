"""Settings are strict and keep secrets; each makes its sink."""

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from dygcn.errors import MissingExtra, OptionError
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
