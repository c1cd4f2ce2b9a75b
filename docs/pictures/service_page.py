"""Photographs the page of a service that is fed, as wide as a desktop and as a phone.

From the root of a clone, where a redis-server is installed::

    python docs/pictures/service_page.py --out docs/images/service

Three quarters of hepth-collab are fitted and served; the rest comes through Redis meanwhile.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from PIL import Image
from playwright.sync_api import Browser, Page
from screenshots import few_colours, started

import dygcn
from dygcn import datasets

SIZES = {"page": (1280, 900), "page-phone": (390, 844)}
_BAD = [{"src": 1}, {"src": 1, "dst": 2, "op": 7}, {"src": "x", "dst": 2}, {"src": 5, "dst": 6, "t": 1e18}]


@contextmanager
def redis_server() -> Iterator[int]:
    """Run a Redis of our own; yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("no redis-server is installed here")
    process = subprocess.Popen([program, "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def service(folder: Path, port: int, *options: str) -> Iterator[str]:
    """Serve a folder that is fed by Redis; yield the address."""
    command = [
        sys.executable,
        "-c",
        "from dygcn.cli import main; main()",
        "serve",
        str(folder),
        "--port",
        "0",
    ]
    command += ["--json", "--source", f"redis://127.0.0.1:{port}/events", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def load(
    address: str, port: int, edges: list[tuple[int, int]], known: list[tuple[int, int]]
) -> Iterator[None]:
    """Send events to Redis and read vectors, until the end of the block; a few events are bad."""
    done, draw = threading.Event(), random.Random(1)

    def write() -> None:
        stream = redis.Redis(port=port)
        for number, (a, b) in enumerate(itertools.cycle(edges)):
            event = _BAD[number // 500 % len(_BAD)] if number % 500 == 0 else {"src": a, "dst": b}
            stream.xadd("events", {"event": json.dumps(event)})
            if done.wait(0.004 * (1.5 + draw.random())):
                return

    def read() -> None:
        while not done.wait(0.01):
            kind = draw.choice(("vectors", "vectors", "nearest"))
            with urllib.request.urlopen(f"{address}/v1/{kind}/{draw.choice(known)[0]}", timeout=30):
                pass

    threads = [threading.Thread(target=one, daemon=True) for one in (write, read)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        done.set()
        for one in threads:
            one.join(5)


def photograph(browser: Browser, address: str, node: int, out: Path, scheme: str) -> None:
    """Write a picture of each width."""
    for name, (width, height) in SIZES.items():
        with _opened(browser, width, height, scheme) as page:
            page.goto(f"{address}/#{node}")
            page.wait_for_timeout(6000)
            page.click("#letters-form button")
            page.wait_for_timeout(1500)
            picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
            few_colours(picture).save(
                out / f"{name}{'' if scheme == 'light' else '-dark'}.png", optimize=True
            )


@contextmanager
def _opened(browser: Browser, width: int, height: int, scheme: str) -> Iterator[Page]:
    page = browser.new_page(
        viewport={"width": width, "height": height},
        is_mobile=width < 600,
        has_touch=width < 600,
        color_scheme="dark" if scheme == "dark" else "light",
    )
    yield page
    page.close()


def main() -> None:
    """Serve, feed, photograph."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load before the pictures")
    parser.add_argument("--schemes", nargs="+", default=["light"])
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    events = datasets.load("hepth-collab")
    edges = list(zip(events.src.tolist(), events.dst.tolist(), strict=True))
    with tempfile.TemporaryDirectory() as folder, redis_server() as port, started() as browser:
        known, late = edges[: len(edges) * 3 // 4], edges[len(edges) * 3 // 4 :]
        dygcn.fit(known).save(Path(folder) / "graph")
        with service(Path(folder) / "graph", port) as address, load(address, port, late, known):
            time.sleep(asked.seconds)
            for scheme in asked.schemes:
                photograph(browser, address, late[0][0], asked.out, scheme)


if __name__ == "__main__":
    main()
