"""Addresses and messages of clients, shown without secrets."""

import pytest

from dygcn.errors import SourceError
from dygcn.serving.addresses import public_address, secrets_of, without
from dygcn.serving.sinks.vector_store import key_of
from dygcn.serving.sources.redis import offset_of


def test_an_address_is_shown_without_user_and_options():
    assert public_address("redis://app:p@ss@db.example:6379/2?password=hm") == "redis://db.example:6379/2"
    assert public_address("nats://token@a:4222 nats://b:4222") == "nats://a:4222 nats://b:4222"


def test_secrets_are_found_in_addresses_and_options():
    found = secrets_of("redis://app:s%21@db.example:6379", {"sasl.password": "hush", "client.id": "me"})
    assert found == ["app:s%21", "app:s!", "hush", "s%21", "s!"]
    assert without("invalid port: 's3cret'", ["s3cret"]) == "invalid port: '***'"


def test_keys_and_offsets_stay_what_they_are():
    assert key_of(-7) == "c64f8fa2-8100-576d-845b-356bd9527d47"
    assert offset_of("1794753405367-3") == (1794753405367 << 22) + 3
    with pytest.raises(SourceError, match="18446744073709551615-0 is too great; allowed is up to 2199"):
        offset_of("18446744073709551615-0")
