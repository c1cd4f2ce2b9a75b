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


def test_tokens_and_limits_of_the_file_count_and_passwords_are_not_told(folder, tmp_path):
    made = {name: new_token(name, [name]) for name in ("read", "write")}
    tokens = [
        f'[[http.tokens]]\nname = "{name}"\nsha256 = "{token.sha256}"\nscopes = ["{name}"]\n'
        for name, (_, token) in made.items()
    ]
    text = """
folder = "graph"
[http]
port = 0
[limits]
body_bytes = 30
[[sources]]
kind = "redis"
url = "redis://me:swordfish@127.0.0.1:1/0"
streams = ["clicks"]
timeout = 0.5
"""
    with Process("run", write(tmp_path / "live.toml", text + "".join(tokens)), "--json") as served:
        assert served.client.get("/v1/status").status_code == 401
        served.client.headers["authorization"] = f"Bearer {made['write'][0]}"
        assert served.post((1, 9)).status_code == 200  # a source that is away stops nobody
        assert served.post((1, 9), (1, 10)).status_code == 413
        served.client.headers["authorization"] = f"Bearer {made['read'][0]}"
        assert served.post((1, 9)).status_code == 403
        assert served.client.get("/v1/dead-letters").status_code == 403
        until(lambda: served.client.get("/v1/status").json()["sources"][0]["failures"] > 0)
        seen = served.client.get("/v1/status").text + served.client.get("/metrics").text
        code, out, err = served.end()
    assert code == 0
    assert "swordfish" not in seen + out + err
    assert "127.0.0.1:1" in seen
