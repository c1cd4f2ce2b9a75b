"""Requests that nobody would send: bytes at random, and good requests with something wrong in them."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from urllib.parse import quote, quote_from_bytes

import pyarrow as pa

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
Question = tuple[str, str, dict[str, str], bytes]  # method, address, headers, body


def _arrow() -> bytes:
    table = pa.table(
        {"src": [1, 2, 3], "dst": [2, 3, 4], "op": pa.array([1, -1, 1], pa.int8()), "t": [1, 2, 3]}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


SETTINGS = (
    b'folder = "friends"\ntime_unit = "ms"\nsnapshot_every = 1000\n[http]\nhost = "127.0.0.1"\nport = 8080\n'
    b'names = ["a.example"]\n[[http.tokens]]\nname = "a"\nsha256 = "' + b"0" * 64 + b'"\nscopes = ["read"]\n'
    b'[limits]\nbody_bytes = 1000\nseconds_to_send = 1.5\n[[sinks]]\nkind = "parquet"\nfolder = "out"\n'
)
_EVENTS = b'[{"src": 1, "dst": 2, "op": 1, "weight": 1.5, "t": 7}, {"src": 3, "dst": 4, "op": "remove"}]'
_LINES = b'{"src": 1, "dst": 2}\n{"src": 2, "dst": 3, "weight": 2}\n'
_VECTOR = b'{"vector": [0.5, -1, 2e3, 0, 0, 0, 0, 1], "k": 3}'
_GOOD: tuple[tuple[str, str, bytes], ...] = (
    ("/v1/events", JSON, _EVENTS),
    ("/v1/events", NDJSON, _LINES),
    ("/v1/events", ARROW, _arrow()),
    ("/v1/events?client=a&sequence=0", JSON, _EVENTS),
    ("/v1/vectors", JSON, b'{"ids": [0, 1, 9007199254740993, "ann"]}'),
    ("/v1/score", JSON, b'{"pairs": [[0, 1], [1, "ann"]], "links": "all"}'),
    ("/v1/nearest", JSON, _VECTOR),
)
_ASKED = (
    "/v1/changes?since=0&limit=10&wait=0",
    "/v1/nearest/1?k=3",
    "/v1/dead-letters?limit=10&before=5",
    "/v1/vectors/1",
    "/v1/status?x=1",
    "/v1/map",
    "/",
)
_PIECES = (
    *(b"null", b"true", b"NaN", b"Infinity", b"-0", b"1e999", b"-1", b"9223372036854775808", b"1e308", b'"'),
    *(
        b"[" * 50,
        b"{" * 50,
        b"\\u0000",
        b"\\ud800",
        b"\xff\xfe",
        b"\x00",
        b'{"src":',
        b"0" * 400,
        b"\r\n",
        b",",
    ),
    *(b"[]", b"{}", b"ARROW1", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"=", b"]]", b"'''", b"%", b"#"),
)


def mangled(good: bytes, drawn: random.Random) -> bytes:
    """Return bytes with something wrong in them, or others altogether."""
    if drawn.random() < 0.1:
        return drawn.randbytes(drawn.randrange(200))
    data = bytearray(good)
    for _ in range(drawn.randint(1, 3)):
        at, end = sorted(drawn.randrange(len(data) + 1) for _ in range(2))
        how = drawn.randrange(6)
        if how == 0:
            del data[at:end]
        elif how == 1:
            data[at:at] = drawn.choice(_PIECES)
        elif how == 2:
            data[at:end] = drawn.choice(_PIECES)
        elif how == 3 and data:
            place = drawn.randrange(len(data))
            data[place] ^= 1 << drawn.randrange(8)
        elif how == 4:
            data[at:at] = data[at:end]
        else:
            del data[at:]
    return bytes(data)


def questions(drawn: random.Random, count: int) -> Iterator[Question]:
    """Yield requests with mangled bodies, queries, paths and types."""
    for _ in range(count):
        if drawn.random() < 0.3:
            yield "GET", _mangled_address(drawn.choice(_ASKED), drawn), _headers(drawn), b""
            continue
        address, form, body = drawn.choice(_GOOD)
        if drawn.random() < 0.1:
            form = drawn.choice((JSON, NDJSON, ARROW, "text/plain", "", "application/json;" + "x" * 100))
        if "?" in address and drawn.random() < 0.5:
            yield "POST", _mangled_address(address, drawn), {"content-type": form}, body
        else:
            yield "POST", address, {"content-type": form}, mangled(body, drawn)


def _mangled_address(address: str, drawn: random.Random) -> str:
    """Return an address whose query, or last part, is another."""
    path, mark, query = address.partition("?")
    if mark and drawn.random() < 0.8:
        name, _, value = drawn.choice(query.split("&")).partition("=")
        return f"{path}?{name}={quote_from_bytes(mangled(value.encode(), drawn))}"
    head, _, last = path.rpartition("/")
    return f"{head}/{quote_from_bytes(mangled(last.encode() or b'1', drawn))}"


def _headers(drawn: random.Random) -> dict[str, str]:
    if drawn.random() < 0.7:
        return {}
    word = "".join(drawn.choices(string.printable[:95], k=drawn.randrange(30))).strip()
    return {drawn.choice(("last-event-id", "accept", "x-other")): quote(word)}
