"""The service on shards answers while a batch waits for one of them."""

import threading
from urllib.request import urlopen

import msgspec
import pytest

import dygcn
from dygcn.cluster.embedding import ClusterEmbedding
from dygcn.serving.service.settings import Shards
from dygcn_lab.testbed.served import on_loopback, served


def ask_while_a_batch_waits(folder, path, seconds):
    """Hold the lock, as a batch does that waits for a shard, and ask; return whether the service lives."""
    dygcn.fit([("a", "b"), ("b", "c")], dim=8).save(folder)
    shards = Shards(count=2, on="here")
    with served(msgspec.structs.replace(on_loopback(str(folder)), shards=shards)) as here:
        got = []
        asking = threading.Thread(target=lambda: got.append(urlopen(here.address + path, timeout=60).status))
        with here.service.live.lock:
            asking.start()
            asking.join(1.0)
            assert not got or "vectors" in path
            try:
                lives = urlopen(here.address + "/livez", timeout=seconds).status == 200
            except TimeoutError:
                lives = False
        asking.join(60)
        assert got == [200]
        return lives


@pytest.mark.parametrize("path", ["/v1/changes", "/v1/vectors/a"])
def test_the_service_lives_while_a_batch_waits(tmp_path, path):
    assert ask_while_a_batch_waits(tmp_path / "x", path, 60)


def test_an_event_loop_that_waits_for_shards_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(ClusterEmbedding, "_far", False)
    assert not ask_while_a_batch_waits(tmp_path / "x", "/v1/changes", 2)
