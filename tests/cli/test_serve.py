"""`dygcn serve`, as a shell sees it: what it says, how it ends, and what it refuses."""

import signal
import socket
import subprocess
import threading

import httpx
import pytest

import dygcn
from dygcn.cli.serving import source_from
from dygcn.errors import FolderInUse, OptionError
from dygcn.serving.service.auth import new_token
from tests.cli.processes import DYGCN, Process, is_refused, until, write


@pytest.fixture(scope="session")
def model():
    return dygcn.fit([(1, 2), (2, 3), (3, 4)], dim=8).model


@pytest.fixture
def folder(model, tmp_path):
    live = dygcn.start(model)
    live.update(add=[(1, 2), (2, 3), (3, 4)])
    live.save(tmp_path / "graph")
    return tmp_path / "graph"


def tokens_file(path, *tokens):
    lines = []
    for token in tokens:
        scopes = ", ".join(f'"{scope}"' for scope in token.scopes)
        lines.append(
            f'[[http.tokens]]\nname = "{token.name}"\nsha256 = "{token.sha256}"\nscopes = [{scopes}]\n'
        )
    return write(path, "\n".join(lines))


def test_it_says_where_serves_and_drains(folder):
    with Process("serve", folder, "--port", 0, "--json") as served:
        assert served.reported["address"].startswith("http://127.0.0.1:")
        assert served.reported | {"address": ""} == {
            "address": "",
            "folder": str(folder),
            "sequence": 0,
            "nodes": 4,
            "edges": 3,
        }
        assert served.client.get("/v1/vectors/1").status_code == 200
        assert served.post((1, 9)).json()["sequence"] == 1
        assert served.client.get("/").text.startswith("<!doctype html>")
        code, out, err = served.end()
    assert (code, out) == (0, '{"stopped":true}\n')
    begun = ["service.starting", "service.ready", "index.building", "index.ready"]
    ended = ["service.draining", "snapshot.written", "service.stopped"]
    said = [line.split()[2] for line in err.splitlines()]
    assert sorted(said[:4]) == sorted(begun)
    assert said[4:] == ended
    with dygcn.open(folder) as live:
        assert 9 in live
        assert live._ahead.saved_at == live.sequence == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_answers_everything_that_was_taken(folder, how):
    with Process("serve", folder, "--port", 0, "--json") as served:
        accepted, refused = [], []

        def send(thread):
            with httpx.Client(base_url=served.reported["address"], timeout=20) as client:
                for number in range(10_000):
                    node = 1_000_000 * (thread + 1) + number
                    try:
                        answer = client.post("/v1/events", json=[{"src": 1, "dst": node}])
                    except httpx.HTTPError:
                        return
                    (accepted if answer.status_code == 200 else refused).append(node)

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(accepted) > 50)
        code, _, err = served.end(how)  # waits for a minute at most
        for thread in threads:
            thread.join(20)
    assert code == 0
    assert {line.split()[1] for line in err.splitlines()} == {"info"}
    with dygcn.open(folder) as live:
        assert all(node in live for node in accepted)
        assert len(live) >= 4 + len(accepted)


def test_killed_at_once_it_has_what_it_acknowledged(folder):
    with Process("serve", folder, "--port", 0, "--json") as served:
        for node in range(100, 120):
            assert served.post((1, node)).status_code == 200
        served.kill()
    with Process("serve", folder, "--port", 0, "--json") as served:
        assert served.reported["sequence"] == 20
        assert served.client.get("/v1/vectors/119").status_code == 200


def test_for_people_it_says_the_same(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*DYGCN, "serve", str(folder), "--port", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "4 nodes, 3 edges, sequence 0\n"
        assert f"http://127.0.0.1:{port}/" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert out == "stopped; everything is on disk\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_a_folder_that_is_missing(tmp_path):
    is_refused(["serve", tmp_path / "nothing", "--port", 0], 1, tmp_path / "nothing", "does not exist")


def test_a_folder_that_is_something_else(tmp_path):
    write(tmp_path / "file", "hello")
    is_refused(["serve", tmp_path / "file", "--port", 0], 1, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    is_refused(["serve", tmp_path / "empty", "--port", 0], 1, tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) in ([], [tmp_path / "empty" / "lock"])


def test_a_port_in_use(folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        is_refused(["serve", folder, "--port", port], 2, str(port), "in use")
    with dygcn.open(folder):
        pass  # it was let go


@pytest.mark.parametrize("port", [-1, 65536, "http"])
def test_a_port_that_is_none(folder, port):
    is_refused(["serve", folder, "--port", port], 2, "port")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "vectors.example", ""])
def test_an_address_that_others_can_reach_needs_a_token(folder, host):
    is_refused(["serve", folder, "--host", host, "--port", 0], 2, "there is no token", "dygcn token")


def test_an_address_that_is_not_ours(folder, tmp_path):
    _, token = new_token("boss", ["admin"])
    file = tokens_file(tmp_path / "tokens.toml", token)
    for host in ("203.0.113.1", "no such host", "x" * 300):
        is_refused(["serve", folder, "--host", host, "--port", 0, "--tokens", file], 2, "cannot listen")


def test_with_a_token_any_address_will_do(folder, tmp_path):
    secret, token = new_token("boss", ["admin"])
    file = tokens_file(tmp_path / "tokens.toml", token)
    with Process("serve", folder, "--host", "0.0.0.0", "--port", 0, "--tokens", file, "--json") as served:
        address = served.reported["address"].replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{address}/v1/status", timeout=60).status_code == 401
        assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
        answer = httpx.get(f"{address}/v1/status", headers={"authorization": f"Bearer {secret}"}, timeout=60)
        assert answer.status_code == 200
        _, out, err = served.end()
        assert secret not in out + err
        assert token.sha256 not in out + err


def test_ipv6(folder):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("there is no IPv6 here")
    with Process("serve", folder, "--host", "::1", "--port", 0, "--json") as served:
        assert served.reported["address"].startswith("http://[::1]:")
        assert served.client.get("/v1/status").status_code == 200


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "allowed is [[http.tokens]]"),
        ("[http]\ntokens = []", "has no [[http.tokens]]"),
        ('[[http.token]]\nname = "a"', "token"),
        ('[[tokens]]\nname = "a"', "allowed is [[http.tokens]]"),
        ('[[http.tokens]]\nname = "a"\nsha256 = "00"\nscopes = []', "64 lower-case"),
        ('[[http.tokens]]\nname = "a"\nsecret = "hunter2"\nscopes = []', "secret"),
        ('[[http.tokens]]\nname = "a"\nsha256 = "00"\nscopes = ["root"]', "root"),
        ("[[tokens", "cannot be read as tokens"),
    ],
)
def test_tokens_that_are_none(folder, tmp_path, text, named):
    file = write(tmp_path / "tokens.toml", text)
    said = is_refused(["serve", folder, "--port", 0, "--tokens", file], 2, named)
    assert "hunter2" not in said


def test_a_file_of_tokens_that_is_missing(folder, tmp_path):
    is_refused(["serve", folder, "--port", 0, "--tokens", tmp_path / "none"], 2, tmp_path / "none")


@pytest.mark.parametrize("source", ["ftp://here/there", "redis://", "redis://127.0.0.1", "nats:///x"])
def test_a_source_that_is_none(folder, source):
    is_refused(["serve", folder, "--port", 0, "--source", source], 2, "is not a source")


def test_a_password_in_a_source_is_not_told(folder):
    said = is_refused(["serve", folder, "--port", 0, "--source", "ftp://me:swordfish@here/there"], 2)
    assert "swordfish" not in said


def test_a_file_that_grows_is_a_source_of_a_folder_that_is_in_use(folder, tmp_path):
    file = write(tmp_path / "events.ndjson", '{"src": 1, "dst": 50}\n{"src": 1}\n')
    with Process("serve", folder, "--port", 0, "--source", file, "--json") as served:
        until(lambda: served.client.get("/v1/vectors/50").status_code == 200)
        is_refused(["serve", folder, "--port", 0], 1, folder, "is open already")
        with pytest.raises(FolderInUse):
            dygcn.open(folder)
        with file.open("a") as growing:
            growing.write('{"src": 1, "dst": 51}\n')
        until(lambda: served.client.get("/v1/vectors/51").status_code == 200)
        assert served.client.get("/v1/dead-letters").json()["total"] == 1
        assert served.end()[0] == 0


def test_a_source_in_one_word():
    assert source_from("events.ndjson").path == "events.ndjson"
    assert source_from("redis://127.0.0.1:6379/clicks").streams == ["clicks"]
    for word in ("ftp://here", "nats://here", "kafka:///topic"):
        with pytest.raises(OptionError, match="is not a source"):
            source_from(word)
