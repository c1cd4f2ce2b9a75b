"""What all settings have in common, and how a source is made of them."""

import subprocess
import sys

import msgspec
import pytest

from dygcn.errors import MissingExtra, OptionError, SourceError
from dygcn.serving.addresses import failure, public_address, secrets_of
from dygcn.serving.sources import (
    FileSettings,
    KafkaSourceSettings,
    NatsSourceSettings,
    ReaderSource,
    RedisSourceSettings,
    read_source,
)

WRITTEN = {
    "nats": ({"url": "nats://x:4222", "stream": "s"}, NatsSourceSettings),
    "redis": ({"url": "redis://x", "streams": ["a", "b"]}, RedisSourceSettings),
    "kafka": ({"servers": "x:9092,y:9092", "topic": "t"}, KafkaSourceSettings),
    "file": ({"path": "events.ndjson"}, FileSettings),
}


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_settings_are_read_by_their_kind(kind):
    written, settings = WRITTEN[kind]
    found = read_source({"kind": kind, **written})
    assert type(found) is settings
    assert found.form == ("ndjson" if kind == "file" else "json")
    assert type(found.make()) is ReaderSource
    assert read_source(msgspec.json.decode(msgspec.json.encode(found))) == found


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_unknown_names_and_forms_are_refused(kind):
    written = {"kind": kind, **WRITTEN[kind][0]}
    with pytest.raises(ValueError, match="fro"):
        read_source({**written, "fro": "json"})
    with pytest.raises(ValueError, match="csv"):
        read_source({**written, "form": "csv"})
    with pytest.raises(ValueError, match="kind"):
        read_source(WRITTEN[kind][0])


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_a_source_that_was_never_open(kind):
    source = read_source({"kind": kind, **WRITTEN[kind][0]}).make()
    assert source.lag() is None
    assert source.name
    source.close()
    source.close()
    with pytest.raises(SourceError, match="not open; call open"):
        source.read(1, 0.0)


WRONG = {
    ("nats", "stream"): ["a.b"],
    ("nats", "subject"): ["a b"],
    ("nats", "timeout"): [-1.0],
    ("nats", "url"): ["redis://x"],
    ("redis", "streams"): [[], ["a", "a"], [""]],
    ("redis", "url"): ["http://x"],
    ("redis", "timeout"): [0],
    ("kafka", "topic"): ["a/b"],
    ("kafka", "servers"): ["user:pw@host:9092"],
    ("kafka", "timeout"): [0.0],
    ("kafka", "options"): [{"enable.auto.commit": "true"}],
}


@pytest.mark.parametrize(
    ("kind", "field", "value"), [(*where, value) for where, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_named(kind, field, value):
    written, settings = WRITTEN[kind]
    with pytest.raises(OptionError, match=field):
        settings(**{**written, field: value})


def test_no_client_is_imported_before_it_is_needed():
    code = (
        "import sys; import dygcn.serving.sources, dygcn.testing; "
        "from dygcn.serving.sources import *; FileSettings(path='x').make(); "
        "print([name for name in ('nats', 'redis', 'confluent_kafka') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("kind", "module"), [("nats", "nats"), ("redis", "redis"), ("kafka", "confluent_kafka")]
)
def test_a_missing_client_says_what_to_install(kind, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf'pip install "dygcn\[{kind}\]"'):
        read_source({"kind": kind, **WRITTEN[kind][0]}).make()


URLS = {
    "redis://app:s3cret@host:1/2?password=hush#x": "redis://host:1/2",
    "redis://:p@ss:w@host": "redis://host",
    "nats://t0ken@host:1 tls://me:s3cret@other": "nats://host:1 tls://other",
    "nats://me:a b@host": "nats://host",
    "unix:///run/redis.sock?db=1": "unix:///run/redis.sock",
    "s3cret": "...",
}


@pytest.mark.parametrize("url", sorted(URLS))
def test_addresses_are_shown_without_secrets(url):
    assert public_address(url) == URLS[url]


@pytest.mark.parametrize("url", sorted(set(URLS) - {"s3cret"}))
def test_what_a_client_says_is_shown_without_secrets(url):
    said = failure(SourceError, "here", ValueError(f"cannot use {url}\nat  all"), secrets_of(url))
    for secret in ("s3cret", "hush", "p@ss", "t0ken", "a b"):
        assert secret not in str(said)
    assert str(said).startswith("here: ValueError: cannot use")
    assert isinstance(said, SourceError)


def test_addresses_are_checked_and_never_shown():
    for url in ("", "host", "http://me:s3cret@host", "nats://", "nats://me:s3cret@", "nats://a b"):
        with pytest.raises(OptionError) as caught:
            NatsSourceSettings(url=url, stream="s")
        assert "s3cret" not in str(caught.value)


def test_a_showing_of_passwords_would_be_noticed(monkeypatch):
    monkeypatch.setattr("dygcn.serving.addresses.public_address", lambda url: url)
    shown = repr(RedisSourceSettings(url="redis://app:s3cret@host", streams=["a"]))
    assert "s3cret" in shown
