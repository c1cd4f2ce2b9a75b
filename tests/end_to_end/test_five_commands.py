"""From `pip install` to a live page fed by a broker: the commands of the README, run as they stand there.

Only addresses are others, so that nothing else on the machine is met. Where `DYGCN_PLAIN` names an empty
environment and `DYGCN_WHEEL` the built package, that is installed there; else the package under test is used.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from dygcn_lab.testbed.servers import free_port

ROOT = Path(__file__).parents[2]
PLAIN, WHEEL = os.environ.get("DYGCN_PLAIN"), os.environ.get("DYGCN_WHEEL")


def commands(page):
    """Return the five commands of a page."""
    text = (ROOT / page).read_text()
    block = next(b for b in re.findall(r"```console\n(.*?)```", text, re.DOTALL) if "redis-server" in b)
    return [line.removeprefix("$ ") for line in block.strip().splitlines()]


def test_the_readme_and_the_docs_say_the_same():
    assert commands("README.md") == commands("docs/service.md")
    assert len(commands("README.md")) == 5


@pytest.fixture
def shell(tmp_path):
    folder = PLAIN or str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{folder}:/usr/sbin:{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)
    started = []

    def run(command, background=False):
        if background:
            started.append(
                subprocess.Popen(f"exec {command}", shell=True, cwd=tmp_path, env=env, stdout=subprocess.PIPE)
            )
            return started[-1]
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(address):
    with urlopen(address, timeout=10) as answer:
        return answer.read().decode()


def until(check, patience=60.0):
    end = time.monotonic() + patience
    while True:
        try:
            found = check()
        except URLError:
            found = None
        if found:
            return found
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def test_five_commands_lead_to_a_live_page_that_a_broker_feeds(shell):
    install, redis, fit, serve, add = commands("README.md")
    broker, port = free_port(), free_port()
    assert install == 'pip install "dygcn[serve,redis]"'
    if PLAIN:
        shell(install.replace("dygcn[", f"{WHEEL}["))
    shell(redis.replace("redis-server", f"redis-server --port {broker} --bind 127.0.0.1 --save ''"))
    try:
        shell(fit)
        service = shell(serve.replace("6379", str(broker)) + f" --port {port}", background=True)
        address = f"http://127.0.0.1:{port}"
        until(lambda: ask(f"{address}/livez"))
        before = json.loads(ask(f"{address}/v1/status"))
        shell(add.replace("redis-cli", f"redis-cli -p {broker}"))
        # The edge is applied before the broker is told, so the message may be counted a moment later.
        after = until(
            lambda: (s := json.loads(ask(f"{address}/v1/status"))) and s["sources"][0]["messages"] and s
        )
        assert after["edges"] == before["edges"] + 1
        assert after["sources"][0]["messages"] == 1
        assert set(after["moved_last"]) >= {1, 99}
        assert json.loads(ask(f"{address}/v1/vectors/99"))["sequence"] == 1
        assert "<title>dygcn" in ask(f"{address}/")
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=60) == 0
    finally:
        shell(f"redis-cli -p {broker} shutdown nosave || true")
