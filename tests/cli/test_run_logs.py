"""The log lines of `dygcn run` while a broker, a database and the disk go down, on real ones."""

import json
import re
import resource
import threading

import nats as client_of_nats
import psycopg
import pytest

import dygcn
from dygcn.serving.brokers import LoopThread
from dygcn_lab.testbed.postgres import postgres_server
from dygcn_lab.testbed.servers import nats_server
from tests.cli.processes import Process, until

SECRET = "s3cret-of-nobody"
NODE = 987_654_321  # the id of a user's node


class Logged(Process):
    """A service whose log lines are read as they come."""

    def __init__(self, *arguments):
        super().__init__(*arguments, "--json", "--log-format", "json")
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def of(self, event):
        return [line for line in list(self.lines) if line["event"] == event]

    def wait_for(self, event, count=1):
        until(lambda: len(self.of(event)) >= count)
        return self.of(event)[count - 1]

    def drain(self):
        self.process.terminate()
        self.process.wait(60)
        self._reader.join(10)


def publish(url, *bodies):
    loop = LoopThread("publisher")

    async def send():
        client = await client_of_nats.connect(url)
        jet = client.jetstream(timeout=10)
        await jet.add_stream(name="clicks", subjects=["clicks.>"])
        for body in bodies:
            await jet.publish("clicks.x", body)
        await client.close()

    loop.run(send())
    loop.close()


@pytest.fixture
def config(tmp_path):
    dygcn.fit([(1, 2), (2, 3), (3, 4)], dim=8).save(tmp_path / "graph")

    def write(*tables):
        (tmp_path / "run.toml").write_text(
            "\n".join(['folder = "graph"', "[http]", "port = 0", *tables]) + "\n"
        )
        return tmp_path / "run.toml"

    return write


def test_a_broker_and_a_database_that_go_down_are_told_once_and_come_back(config):
    with nats_server() as broker, postgres_server() as database:
        publish(broker.url, b'{"src": 1, "dst": %d}' % NODE)
        source = ["[[sources]]", 'kind = "nats"', f'url = "{broker.url.replace("//", f"//me:{SECRET}@")}"']
        sink = ["[[sinks]]", 'kind = "postgres"', f'url = "{database.url}"', "timeout = 5"]
        with Logged("run", config(*source, 'stream = "clicks"', "timeout = 2", *sink)) as served:
            connected = served.wait_for("source.connected")
            assert "clicks" in connected["source"]
            assert served.wait_for("sink.history")["history"] == "new"
            served.wait_for("sink.connected")

            def rows():
                with psycopg.connect(database.url) as reading:
                    return reading.execute("SELECT count(*) FROM dygcn_vectors").fetchone()[0]

            until(lambda: rows() == 5)
            broker.kill()
            lost = served.wait_for("source.lost")
            assert (lost["level"], lost["source"]) == ("warning", connected["source"])
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", lost["since"])
            assert lost["error"]
            database.kill()
            assert served.post((1, NODE + 1)).status_code == 200
            assert served.wait_for("sink.lost")["error"]
            broker.start()
            database.start()
            for kind in ("source", "sink"):
                back = served.wait_for(f"{kind}.recovered")
                assert back["tries"] >= 1
                assert back["seconds"] > 0
                assert len(served.of(f"{kind}.lost")) == 1  # not a line for every try
            until(lambda: rows() == 6)
            served.drain()
        said = json.dumps(served.lines)
        assert SECRET not in said
        assert str(NODE) not in said
        assert str(NODE + 1) not in said
        assert served.lines[-1]["event"] == "service.stopped"
        assert not served.of("disk.failed")


def test_a_disk_that_fails_is_told_once(config):
    with Logged("run", config()) as served:
        assert served.post((1, 9)).status_code == 200
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (1, 1))
        for _ in range(3):
            answer = served.client.post(
                "/v1/events", json=[{"src": 1, "dst": 10}], headers={"X-Request-Id": "a"}
            )
            assert answer.status_code == 503
        failed = served.wait_for("disk.failed")
        assert failed["level"] == "error"
        assert "nothing more is accepted" in failed["error"]
        served.drain()
    assert len(served.of("disk.failed")) == 1
    assert served.of("service.draining")


def test_a_level_leaves_out_what_is_below_it(config):
    with Logged("run", config("[log]", 'level = "error"')) as served:
        assert served.post((1, 9)).status_code == 200
        served.drain()
    assert served.lines == []


def test_an_overload_begins_and_a_request_is_refused(config):
    limits = ["[limits]", "queued_events = 1", "cut_events = 1"]
    with Logged("run", config(*limits)) as served:
        stop = threading.Event()

        def flood(thread):
            number = thread * 10_000_000
            while not stop.is_set():
                number += 1
                served.client.post("/v1/events", json=[{"src": number, "dst": number + 1}])

        threads = [threading.Thread(target=flood, args=(one,), daemon=True) for one in range(1, 9)]
        for thread in threads:
            thread.start()
        began = served.wait_for("overload.began")
        stop.set()
        for thread in threads:
            thread.join(20)
        assert began["queued_events"] >= 1
        assert len(served.of("overload.began")) == 1
