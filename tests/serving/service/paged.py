"""A service for the tests of the page, in a process of its own, and ids that could do harm."""

import json
import random
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote

IMAGE = "<img src=x onerror=alert(1)>"
HOSTILE = [
    IMAGE,
    "</script><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "a/b?c#d%2F&k=0",
    '","id":9007199254740993,"',
    "..",
    ".",
    "",
    " ",
    "\u202egnirts",
    "x" * 250,
    "ünï 漢字 🙂",
]
LARGE = [2**53 + 1, 2**53 + 3, -(2**53) - 1, 2**63 - 1, -(2**63) + 1, 2**60 + 1]
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Served:
    """`dygcn serve` in a process of its own."""

    def __init__(self, folder, port=0, *options):
        self.folder = folder
        code = "from dygcn.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", str(folder), "--port", str(port), "--json", *options],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]

    def post(self, events):
        body = json.dumps(events).encode()
        request = urllib.request.Request(
            f"{self.address}/v1/events", body, {"Content-Type": "application/json"}
        )
        with _open(request, timeout=60) as answer:
            return json.load(answer)

    def get(self, path):
        with _open(f"{self.address}/v1/{path}", timeout=60) as answer:
            return json.load(answer)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.stdout.close()

    @contextmanager
    def fed(self, ids):
        """Send events all the time, from another thread."""
        done, draw, sent = threading.Event(), random.Random(5), []

        def feed():
            while not done.wait(0.05):
                new = [f"new {len(sent)}"] if isinstance(ids[0], str) else [10**6 + len(sent)]
                self.post([{"src": draw.choice(ids), "dst": one} for one in (draw.choice(ids), *new)])
                self.get(f"vectors/{quote(str(ids[len(sent) % 5]), safe='')}")
                sent.append(2)

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield sent
        finally:
            done.set()
            thread.join()


def people(kind):
    named = [f"p{i}" if kind == "string" else i for i in range(40)]
    return named + (HOSTILE if kind == "string" else LARGE)
