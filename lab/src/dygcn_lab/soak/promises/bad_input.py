"""Bad events among good ones, and random bytes for every parser, over HTTP.

Requests of a thousand events in all three forms, one event in a thousand bad: everything else is applied, and
each bad one lies in the table of dead letters with its stream, its place and its row. Then the parsers are
fed with what nobody would send: every answer is a refusal with a name, or a success, never a failure.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa

import dygcn
from dygcn.client import Client
from dygcn.engine.events import wire
from dygcn.errors import EventError, OptionError
from dygcn.live.durable.storage import dead_letters
from dygcn.schema.answers import Problem
from dygcn.serving.service import app, events, web
from dygcn.serving.service.problems import PROBLEM_JSON
from dygcn.serving.service.settings import parse_settings
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.mangling import SETTINGS, mangled, questions
from dygcn_lab.testbed.seeding import seeded, small_model
from dygcn_lab.testbed.served import Served, on_loopback, served

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
STREAM = "http:sender"
_REQUEST = 1_000  # events
_ONE_IN = 1_000
_REFUSALS = {400, 404, 405, 408, 409, 413, 415, 429}
Event = dict[str, Any]


@dataclass
class InputTally(Tally):
    """What was sent, and what became of it."""

    events: int = 0
    applied: int = 0
    dead: int = 0
    fuzzed: int = 0


def bad_event(node: int, form: str, drawn: random.Random) -> Event:
    """Return an event that cannot be applied; in Arrow, whose columns have types, only its cells are bad."""
    ways: list[Event] = [
        {"src": node, "dst": 0, "weight": 0.0},
        {"src": node, "dst": 0, "weight": -1.0},
        {"src": node, "dst": 0, "weight": 1e30},  # read well, and more than sums can carry
        {"src": node, "dst": 0, "op": 3},
        {"src": node, "dst": None},
    ]
    if form != ARROW:
        ways += [
            {"src": node},
            {"src": node + 0.5, "dst": 0},
            {"src": "ann", "dst": 0},
            {"src": True, "dst": 0},
        ]
    return drawn.choice(ways)


def as_body(events: list[Event], form: str) -> bytes:
    """Write events as the body of a request."""
    if form == JSON:
        return msgspec.json.encode(events)
    if form == NDJSON:
        return b"\n".join(map(msgspec.json.encode, events))
    columns = {
        "src": pa.array([event["src"] for event in events], pa.int64()),
        "dst": pa.array([event["dst"] for event in events], pa.int64()),
        "op": pa.array([event.get("op", 1) for event in events], pa.int8()),
        "weight": pa.array([event.get("weight", 1.0) for event in events], pa.float64()),
    }
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def send_events(address: str, size: int, seed: int, tally: InputTally) -> None:
    """Send good events and bad ones, and compare what became of them with what was sent."""
    drawn = random.Random(seed)
    bad = set(drawn.sample(range(size), size // _ONE_IN))
    expected: set[tuple[str, int, int]] = set()
    with httpx.Client(base_url=address, timeout=60) as client:
        begun = client.get("/v1/status").json()["edges"]
        for start in range(0, size, _REQUEST):
            form = (JSON, NDJSON, ARROW)[start // _REQUEST % 3]
            numbers = range(start, min(start + _REQUEST, size))
            events = [
                bad_event(10 + n, form, drawn) if n in bad else {"src": 10 + n, "dst": n % 7} for n in numbers
            ]
            rows = [row for row, n in enumerate(numbers) if n in bad]
            expected |= {(STREAM, numbers[-1], row) for row in rows}
            params: dict[str, str | int] = {"client": "sender", "sequence": start}
            headers = {"content-type": form}
            answer = client.post("/v1/events", content=as_body(events, form), params=params, headers=headers)
            tally.events += len(events)
            if answer.status_code != 200:
                said = f"a request with {len(rows)} bad events was answered with {answer.status_code}"
                tally.check(False, said)
                continue
            figures = answer.json()
            tally.applied += figures["applied"]
            tally.dead += figures["dead"]
            if (figures["applied"], figures["dead"]) != (len(events) - len(rows), len(rows)):
                tally.check(False, f"of {len(events)} events with {len(rows)} bad ones: {answer.text[:200]}")
        if client.get("/v1/status").json()["edges"] - begun != size - len(bad):
            tally.check(False, "the graph does not have an edge for every good event")
    with Client(address) as asking:
        letters = asking.dead_letters(limit=None).dead_letters
    found = {(one.stream, one.offset, one.row) for one in letters}
    said = f"dead letters: {len(expected - found)} are missing, {len(found - expected)} too many"
    tally.check(found == expected, said)


def fuzz(address: str, count: int, seed: int, tally: InputTally) -> None:
    """Ask what nobody would ask; every answer must be one that is described."""
    drawn = random.Random(seed)
    with httpx.Client(base_url=address, timeout=60) as client:
        for method, url, headers, body in questions(drawn, count):
            tally.fuzzed += 1
            try:
                answer = client.request(method, url, headers=headers, content=body)
            except httpx.HTTPError as error:
                tally.check(False, f"{method} {url[:60]!r}: {type(error).__name__}")
                continue
            if answer.status_code != 200 and not _is_refusal(answer):
                shown = f"{answer.status_code} {answer.text[:100]}"
                tally.check(False, f"{method} {url[:60]!r} with {body[:60]!r}: {shown}")
        if client.get("/readyz").json() != {"ready": True, "accepting": True}:
            tally.check(False, "the service does not take events any more")


def _is_refusal(answer: httpx.Response) -> bool:
    """Say whether an answer refuses by name."""
    if answer.status_code not in _REFUSALS:
        return False
    try:
        told = msgspec.json.decode(answer.content, type=Problem)
    except msgspec.DecodeError:
        return False
    return told.status == answer.status_code and answer.headers["content-type"] == PROBLEM_JSON


def fuzz_settings(count: int, seed: int, tally: InputTally) -> None:
    """Read mangled settings: they are settings, or an error that says so."""
    drawn = random.Random(seed)
    for _ in range(count):
        tally.fuzzed += 1
        text = mangled(SETTINGS, drawn).decode("utf-8", "replace")
        try:
            parse_settings(text)
        except OptionError:
            continue
        except Exception as error:  # what must not be
            tally.check(False, f"settings {text[:60]!r}: {type(error).__name__}")


def put_to_the_test(size: int, seed: int) -> InputTally:
    """Serve a small graph, send events, then nonsense."""
    tally = InputTally()
    with _graph() as one:
        send_events(one.address, size, seed, tally)
        fuzz(one.address, size // 10, seed, tally)
        fuzz_settings(size // 10, seed, tally)
    return tally


@contextmanager
def _graph() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        live = dygcn.start(small_model())
        live.update(add=[(0, 1), (1, 2)])
        path = Path(folder, "graph")
        live.save(path)
        with served(on_loopback(path)) as one:
            yield one


# ---- bugs that must be noticed ------------------------------------------------------------------------


def _stops_its_request(*args: Any, **kwargs: Any) -> Any:
    found = wire.decode_events(*args, **kwargs)
    if found.bad:
        raise EventError(found.bad[0].reason, found.bad[0].row)
    return found


def _not_caught(body: bytes, kind: type[Any]) -> Any:
    return msgspec.json.decode(body, type=kind)


_BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a bad row stops its request": (events, "decode_events", _stops_its_request),
    "dead letters are dropped": (dead_letters, "bury", lambda db, dead: None),
    "an error of a parser is not caught": (web, "read_body", _not_caught),
}


def notices(bug: str, seed: int) -> bool:
    """Say whether a bug is noticed."""
    with ExitStack() as stack:
        stack.enter_context(seeded(*_BUGS[bug]))
        stack.enter_context(seeded(app, "note", lambda *_, **__: None))
        return bool(put_to_the_test(3 * _REQUEST, seed).bad)


def look(size: int, seed: int) -> Found:
    """Send so many events, and a tenth as many pieces of nonsense to each kind of parser."""
    tally = put_to_the_test(size, seed)
    figures = {
        "events": tally.events,
        "applied": tally.applied,
        "dead letters": tally.dead,
        "pieces of nonsense": tally.fuzzed,
    }
    caught = {bug: notices(bug, seed) for bug in _BUGS}
    return Found(size, tally.bad, all(caught.values()), figures, tally.notes, tally.dead == size // _ONE_IN)


CHECK = Check(
    "bad_input",
    6_000,
    100_000,
    "bad input stops nobody",
    "one bad event in a thousand, and nonsense for every parser",
    "; ".join(_BUGS),
    look,
)
