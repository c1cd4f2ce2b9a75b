"""`dygcn run`: everything that a file can say, and what happens where it says something else."""

import pytest

import dygcn
from dygcn.serving.service.auth import new_token
from dygcn.serving.sinks import read_rows
from tests.cli.processes import Process, is_refused, until, write
from tests.cli.test_serve import folder, model

__all__ = ["folder", "model"]  # fixtures


def test_sources_in_vectors_out_http_beside(folder, tmp_path):
    events = write(tmp_path / "events.ndjson", "".join(f'{{"src": 1, "dst": {n}}}\n' for n in range(50, 90)))
    config = write(
        tmp_path / "live.toml",
        """
folder = "graph"

[http]
port = 0

[[sources]]
kind = "file"
path = "events.ndjson"

[[sinks]]
kind = "parquet"
folder = "vectors"
""",
    )
    with Process("run", config, "--json", cwd=tmp_path) as served:
        assert served.reported["folder"] == str(folder)
        until(lambda: served.client.get("/v1/vectors/89").status_code == 200)
        assert served.post((1, 100)).status_code == 200
        with events.open("a") as growing:
            growing.write('{"src": 1, "dst": 101}\n')
        until(lambda: served.client.get("/v1/vectors/101").status_code == 200)
        assert {one["failure"] for one in served.client.get("/v1/status").json()["sources"]} == {None}
        assert served.end()[0] == 0
    with dygcn.open(folder) as live:
        rows = read_rows(tmp_path / "vectors")
        assert set(rows["id"].to_pylist()) == set(live)
        assert {100, 101} <= set(live)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('folder = "graph"\nprot = 8080', "prot"),
        ('folder = "graph"\n[http]\nprot = 8080', "prot"),
        ('folder = "graph"\n[limits]\nbody = 1', "body"),
        ('folder = "graph"\n[[tokens]]\nname = "a"', "tokens"),
        ('folder = "graph"\n[[sinks]]\nkind = "parquet"\nfolder = "x"\nfoldre = "y"', "foldre"),
        ('folder = "graph"\n[[sources]]\nkind = "file"\npath = "x"\npaht = "y"', "paht"),
        ('folder = "graph"\n[[sources]]\nkind = "smoke"', "smoke"),
        ('folder = "graph"\n[http]\nhost = "0.0.0.0"', "there is no token"),
        ('folder = "graph"\n[http]\nport = 99999', "http.port"),
        ('folder = "graph"\n[limits]\nqueued_events = 0', "limits.queued_events"),
        ("port = 1", "port"),
        ("folder =", "cannot be used"),
    ],
)
def test_what_is_wrong_is_named(folder, tmp_path, text, named):
    config = write(tmp_path / "live.toml", text)
    is_refused(["run", config], 2, named)


def test_files_and_folders_that_are_missing(tmp_path):
    is_refused(["run", tmp_path / "none.toml"], 2, tmp_path / "none.toml")
    config = write(tmp_path / "live.toml", 'folder = "nothing"\n[http]\nport = 0')
    is_refused(["run", config], 1, tmp_path / "nothing")


def test_passwords_are_not_told(folder, tmp_path):
    config = write(
        tmp_path / "live.toml",
        """
folder = "graph"
[http]
port = 0
[[sources]]
kind = "redis"
url = "redis://me:swordfish@127.0.0.1:1/0"
streams = ["clicks"]
timeout = 0.5
""",
    )
    with Process("run", config, "--json") as served:
        until(lambda: served.client.get("/v1/status").json()["sources"][0]["failures"] > 0)
        seen = served.client.get("/v1/status").text + served.client.get("/metrics").text
        assert served.post((1, 9)).status_code == 200  # a source that is away stops nobody
        code, out, err = served.end()
    assert code == 0
    assert "swordfish" not in seen + out + err
    assert "127.0.0.1:1" in seen


def test_tokens_of_the_file_are_asked_for(folder, tmp_path):
    secret, token = new_token("reader", ["read"])
    text = (
        f'folder = "graph"\n[http]\nport = 0\n[[http.tokens]]\nname = "reader"\nsha256 = "{token.sha256}"\n'
    )
    config = write(tmp_path / "live.toml", text + 'scopes = ["read"]\n')
    with Process("run", config, "--json") as served:
        assert served.client.get("/v1/status").status_code == 401
        served.client.headers["authorization"] = f"Bearer {secret}"
        assert served.client.get("/v1/status").status_code == 200
        assert served.post((1, 9)).status_code == 403
        assert served.client.get("/v1/dead-letters").status_code == 403


def test_limits_of_the_file_count(folder, tmp_path):
    config = write(tmp_path / "live.toml", 'folder = "graph"\n[http]\nport = 0\n[limits]\nbody_bytes = 30')
    with Process("run", config, "--json") as served:
        assert served.post((1, 9)).status_code == 200
        assert served.post((1, 9), (1, 10)).status_code == 413
