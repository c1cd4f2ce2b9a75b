"""Every route with no token, with wrong ones, with nonsense and with each scope: the status that is due.

Then what lies beside the routes: paths and methods that are not there, addresses that others can reach, and
whether a token is found anywhere but in the hands of who has it.
"""

from __future__ import annotations

import base64
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import dygcn
from dygcn.errors import OptionError
from dygcn.serving.service import app
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.auth import Authorizer, new_token
from dygcn.serving.service.problems import problem
from dygcn.serving.service.settings import Http, Scope, ServiceSettings, Token
from dygcn.serving.service.web import JSON, Route
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.testbed.plain_http import Answer, PlainClient
from dygcn_lab.testbed.seeding import seeded, small_model
from dygcn_lab.testbed.served import on_loopback, served, served_process

SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
NAMES = [911_000_001 + i for i in range(5)]  # nodes by which it would be noticed that the graph is told of
_BODIES = {
    "/v1/events": b"[]",
    "/v1/vectors": b'{"ids": [1]}',
    "/v1/nearest": b'{"vector": [1, 1, 1, 1, 1, 1, 1, 1]}',
    "/v1/score": b'{"pairs": [[1, 2]]}',
    "/v1/recommend": b'{"id": 911000001}',
    "/v1/explain-change": b'{"id": 911000001, "add": [[1, 2]]}',
    "/v1/dead-letters/replay": b'{"numbers": [1]}',
    "/v1/what-if": b'{"add": [[1, 2]]}',
}
_QUERIES = {"/v1/dead-letters": "?stream=nobody"}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW")
_NO = {401: "unauthorized", 403: "forbidden", 421: "misdirected"}
_NOWHERE = ("/nothing", "/v1/status/", "/admin", "/.env", "/docs", "/x/../v1/status", "/metrics;x")
_HOSTS = ("0.0.0.0", "::", "", "10.0.0.1", "192.168.1.1", "vectors.example", "127.0.0.1.example")
_WRONG = ("", "Bearer", "Bearer ", "Basic", "Basic !", "Basic Og==", "Digest x", "Negotiate", "\xff")


@dataclass
class DoorTally(Tally):
    """How many doors were tried, and which ones opened to the wrong people."""

    tried: int = 0

    def check(self, right: bool, what: str) -> None:
        """Count a try."""
        self.tried += 1
        super().check(right, what)


@dataclass(frozen=True)
class Keys:
    """A token for each scope, and what the settings know of them."""

    secrets: dict[Scope, str]
    tokens: tuple[Token, ...]

    @classmethod
    def made(cls) -> Keys:
        """Make new ones."""
        both = {scope: new_token(scope, [scope]) for scope in SCOPES}
        secrets = {scope: secret for scope, (secret, _) in both.items()}
        return cls(secrets, tuple(token for _, token in both.values()))

    def headers(self, drawn: random.Random, count: int) -> Iterator[tuple[str, str | None, Scope | None]]:
        """Yield what it is, an Authorization header, and the scope that it truly has."""
        yield "no token", None, None
        for scope, secret in self.secrets.items():
            yield scope, f"Bearer {secret}", scope
            yield f"{scope} as a password", _basic("me", secret), scope
            yield f"{scope} without its kind", secret, None
            yield f"{scope} as a name", _basic(secret, ""), None
            yield f"{scope}, cut", f"Bearer {secret[:-1]}", None
            yield f"{scope}, longer", f"Bearer {secret}x", None
            yield f"{scope}, twice", f"Bearer {secret},{secret}", None
        for token in self.tokens:
            yield f"the hash of {token.name}", f"Bearer {token.sha256}", None
        for wrong in _WRONG:
            yield repr(wrong), wrong, None
        for _ in range(count):
            yield "nonsense", _nonsense(drawn), None

    def are_in(self, data: bytes, *, hashes: bool = True) -> bool:
        """Say whether one of them, or of their hashes, is found in something."""
        hidden = [*self.secrets.values(), *(token.sha256 for token in self.tokens if hashes)]
        return any(one.encode() in data for one in hidden)


def _basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def _nonsense(drawn: random.Random) -> str:
    letters = bytes(drawn.randrange(32, 127) for _ in range(drawn.randrange(60))).decode()
    coded = base64.b64encode(letters.encode()).decode()
    return drawn.choice(("", "Bearer ", "Basic ", f"Basic {coded}")) + letters


def due(route: Route, scope: Scope | None) -> int:
    """Return the status that is due to whoever has a token of a scope."""
    if route.scope == "open":
        return 200
    if scope is None:
        return 401
    return 200 if scope in (route.scope, "admin") else 403


def ask(client: PlainClient, route: Route, header: str | None, method: str = "") -> Answer:
    """Ask a route something that it answers."""
    headers = {} if header is None else {"authorization": header}
    body = _BODIES.get(route.path) if route.forms else None
    if body is not None:
        headers["content-type"] = JSON
    path = _path(route) + _QUERIES.get(route.path, "")
    return client.request(method or route.method, path, body, headers)


def _path(route: Route) -> str:
    return route.path.replace("{id}", str(NAMES[0]))


def try_routes(client: PlainClient, keys: Keys, drawn: random.Random, count: int, tally: DoorTally) -> None:
    """Try every route with every header."""
    for route in sorted(ROUTES, key=lambda one: one.method == "DELETE"):  # what others ask for goes last
        methods = (route.method, "HEAD") if route.method == "GET" else (route.method,)
        for what, header, scope in keys.headers(drawn, count // len(ROUTES)):
            for method in methods:
                answer, expected = ask(client, route, header, method), due(route, scope)
                tried = f"{method} {route.path} with {what}"
                tally.check(answer.status == expected, f"{tried}: {answer.status}, and {expected} is due")
                if expected != 200:
                    tally.check(_says_nothing(answer), f"{tried} tells something")


def _says_nothing(answer: Answer) -> bool:
    """Say whether an answer holds nothing of the graph."""
    return not any(str(name) in answer.text for name in NAMES)


def try_nowhere(client: PlainClient, keys: Keys, tally: DoorTally) -> None:
    """Try paths and methods that are not there, with and without a token: the answers are the same."""
    admin = {"authorization": f"Bearer {keys.secrets['admin']}"}
    for path in (*_NOWHERE, *map(_path, ROUTES)):
        known = {route.method for route in ROUTES if _path(route) == path}
        for method in _METHODS:
            if method in known or (method == "HEAD" and "GET" in known):
                continue
            name = {"x-request-id": "the-same"}  # the answer has it
            stranger = client.request(method, path, headers=name)
            boss = client.request(method, path, headers=admin | name)
            tally.check(stranger.status in (400, 404, 405), f"{method} {path}: {stranger.status}")
            same = (stranger.status, stranger.body) == (boss.status, boss.body)
            tally.check(same and _says_nothing(stranger), f"{method} {path} tells a stranger something")


def try_secrets(client: PlainClient, keys: Keys, tally: DoorTally) -> None:
    """Look for tokens and their hashes in everything that the service says."""
    admin = f"Bearer {keys.secrets['admin']}"
    for route in ROUTES:
        for header in (None, admin, f"{admin}x"):
            answer = ask(client, route, header)
            said = answer.body + str(answer.headers).encode()
            tally.check(not keys.are_in(said), f"{route.path} tells a token or its hash")


def try_everything(address: str, keys: Keys, seed: int, count: int, tally: DoorTally) -> None:
    """Try all doors of a service."""
    with PlainClient(address) as client:
        try_routes(client, keys, random.Random(seed), count, tally)
        try_nowhere(client, keys, tally)
        try_secrets(client, keys, tally)


def try_addresses(folder: Path, tally: DoorTally) -> None:
    """Try to serve without a token where others can reach it; the last time by the command itself."""
    for host in _HOSTS:
        try:
            with served(ServiceSettings(folder=str(folder), http=Http(host=host, port=0))):
                refused = False
        except OptionError:
            refused = True
        tally.check(refused, f"{host!r} is served without a token")
    command = [sys.executable, "-c", "from dygcn.cli import main; main()", "serve", str(folder)]
    done = subprocess.run([*command, "--host", "0.0.0.0", "--port", "0"], capture_output=True, timeout=120)
    said = done.stderr.decode(errors="replace")
    tally.check(done.returncode == 2 and "no token" in said, f"the command served without a token: {said}")


def put_to_the_test(size: int, seed: int) -> DoorTally:
    """Try the doors of a service in a process of its own; then look at its files, and at what it said."""
    tally, keys = DoorTally(), Keys.made()
    with tempfile.TemporaryDirectory() as workdir:
        folder = _graph(Path(workdir))
        with served_process(folder, tokens=keys.tokens) as one:
            try_everything(one.address, keys, seed, size, tally)
            code, said = one.drain()
        tally.check(code == 0, f"it ended with {code}")
        tally.check(not keys.are_in(said.encode()), "a token is in the log of the service")
        for file in filter(Path.is_file, folder.rglob("*")):
            tally.check(not keys.are_in(file.read_bytes()), f"a token is in {file.name}")
        config = Path(workdir, "graph.toml").read_bytes()
        tally.check(not keys.are_in(config, hashes=False), "a token is in the settings")
        try_addresses(folder, tally)
    return tally


def _graph(workdir: Path) -> Path:
    live = dygcn.start(small_model())
    live.update(add=[*pairwise(NAMES), (1, 2)])
    live.save(workdir / "graph")
    return workdir / "graph"


# ---- bugs that must be noticed ------------------------------------------------------------------------


def _opened(path: str) -> tuple[Route, ...]:
    return tuple(replace(route, scope="open") if route.path == path else route for route in ROUTES)


_STATUS = Authorizer.status


def _any_known(self: Authorizer, scope: str, authorization: str | None, host: str | None) -> int:
    status = _STATUS(self, scope, authorization, host)
    return 200 if status == 403 else status


_BUGS: dict[str, tuple[Any, str, Any]] = {
    "a route forgets to ask": (app, "ROUTES", _opened("/v1/map")),
    "any token opens every door": (Authorizer, "status", _any_known),
    "the hash of a token is a token": (sys.modules[Authorizer.__module__], "hashed", lambda secret: secret),
    "a refusal tells what is there": (app, "denied", lambda status: problem(_NO[status], str(NAMES))),
}


def notices(bug: str, seed: int) -> bool:
    """Say whether a bug is noticed."""
    tally, keys = DoorTally(), Keys.made()
    with tempfile.TemporaryDirectory() as workdir, ExitStack() as stack:
        folder = _graph(Path(workdir))
        stack.enter_context(seeded(*_BUGS[bug]))
        one = stack.enter_context(served(on_loopback(folder, tokens=keys.tokens)))
        try_everything(one.address, keys, seed, 0, tally)
    return tally.bad > 0


def look(size: int, seed: int) -> Found:
    """Try every door, and so many headers of nonsense."""
    tally = put_to_the_test(size, seed)
    caught = {bug: notices(bug, seed) for bug in _BUGS}
    figures = {"routes": len(ROUTES), "doors tried": tally.tried}
    return Found(size, tally.bad, all(caught.values()), figures, tally.notes)


CHECK = Check(
    "doors",
    300,
    20_000,
    "nobody gets in",
    "every route with every kind of token, and with nonsense",
    "; ".join(_BUGS),
    look,
)
