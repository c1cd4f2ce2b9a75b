"""SIGHUP: tokens and limits are read again by a running process, which lives on whatever is in the file."""

import signal
import time

import httpx

from dygcn.serving.service.auth import new_token
from dygcn_lab.testbed.served import served_process
from tests.cli.processes import Process
from tests.serving.service.streams import until


def rewrite(path, *replaced):
    """Change the settings file of a service in a process."""
    config = path.with_name(f"{path.name}.toml")
    text = config.read_text()
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return config


def test_tokens_are_exchanged_and_a_bad_file_is_refused(folder):
    old, first = new_token("old", ["read"])
    new, second = new_token("new", ["read"])
    path = folder()

    def status(secret):
        headers = {"authorization": f"Bearer {secret}"}
        return httpx.get(f"{one.address}/v1/status", headers=headers, timeout=60).status_code

    with served_process(path, {"ids": 5}, (first,)) as one:
        assert (status(old), status(new)) == (200, 401)
        rewrite(path, (first.sha256, "no hash"))
        one.send(signal.SIGHUP)
        until(lambda: "settings.refused" in one.said)
        assert (status(old), status(new)) == (200, 401)
        rewrite(path, ("no hash", second.sha256), ("ids = 5", "ids = 1"))
        one.send(signal.SIGHUP)
        until(lambda: status(new) == 200)
        assert status(old) == 401
        asked = {"json": {"ids": [1, 2]}, "headers": {"authorization": f"Bearer {new}"}}
        assert httpx.post(f"{one.address}/v1/vectors", **asked, timeout=60).status_code == 400
        code, said = one.drain()
    assert code == 0
    for secret in (old, new, first.sha256, second.sha256):
        assert secret not in said


def test_a_signal_while_the_log_is_replayed_is_no_loss(folder, tmp_path):
    """It came between two reads of the settings; the options of the command line are no change of them."""
    config = tmp_path / "settings.toml"
    config.write_text(f'folder = "{folder()}"\n[http]\nport = 0\n')
    slow = (
        "from dygcn.cli import serving\n"
        + """
import os, signal
opened = serving.open_embedding
def open_embedding(settings):
    os.kill(os.getpid(), signal.SIGHUP)
    return opened(settings)
serving.open_embedding = open_embedding
from dygcn.cli import main
main()
"""
    )
    with Process("run", config, "--json", "--log-level", "debug", script=slow) as served:
        until(lambda: served.client.get("/livez").status_code == 200)
        time.sleep(0.3)
        code, _, said = served.end()
    assert code == 0
    assert "settings.reloaded" in said
    assert "a restart is needed" not in said


def test_without_a_file_the_service_lives_on(folder):
    with Process("serve", folder(), "--port", 0, "--json") as served:
        served.process.send_signal(signal.SIGHUP)
        assert served.client.get("/livez").status_code == 200
        code, _, said = served.end()
    assert code == 0
    assert "no settings file" in said
