"""One table: decoders by name, each with inputs that were made for it, as functions of their length."""

import gzip
import struct
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from dygcn.client.retry import Response, read, read_problem, vectors_of
from dygcn.cluster.wire import unpack
from dygcn.engine.events.files import read_table
from dygcn.engine.events.wire import decode_events
from dygcn.schema import answers, requests
from dygcn.serving.service import bodies
from dygcn.serving.service.web import read_body

LONGEST = 16 << 20
ZSTD_EMPTY, ZSTD_SKIPPED = bytes.fromhex("28b52ffd2000010000"), bytes.fromhex("502a4d1800000000")


def repeated(unit, begin=b"", end=b"", between=b""):
    """Return a maker of inputs: some bytes, again and again, between others."""

    def make(length):
        times = max(1, length // (len(unit) + len(between)))
        return begin + between.join([unit] * times) + end

    return make


def nested(opening, closing=b"", begin=b"", end=b""):
    """Return a maker of inputs that are as deep as they are long."""

    def make(length):
        depth = length // (len(opening) + len(closing))
        return begin + opening * depth + closing * depth + end

    return make


# ---- compressed bodies -------------------------------------------------------------------------------


@contextmanager
def any_number_of_members():
    """Lift the bound on members, behind which what each of them costs could not be seen."""
    bound, bodies.MOST_MEMBERS = bodies.MOST_MEMBERS, 1 << 60
    try:
        yield
    finally:
        bodies.MOST_MEMBERS = bound


def decompressed(coding):
    def decode(body):
        with any_number_of_members():
            return bodies.decoded(body, coding, LONGEST)

    return decode


def deflated(block):
    """Return a maker of one gzip member of many blocks of which none holds anything."""
    trailer = b"\x01\x00\x00\xff\xff" + struct.pack("<II", zlib.crc32(b""), 0)
    return repeated(block, begin=b"\x1f\x8b\x08" + bytes(6) + b"\xff", end=trailer)


GZIP = {
    "empty members": repeated(gzip.compress(b"", mtime=0)),
    "members of a byte": repeated(gzip.compress(b" ", mtime=0)),
    "members with long names": repeated(
        b"\x1f\x8b\x08\x08" + bytes(5) + b"\xff" + b"n" * 200 + b"\x00\x03\x00" + bytes(8)
    ),
    "one long name": repeated(b"n", begin=b"\x1f\x8b\x08\x08" + bytes(5) + b"\xff"),
    "empty blocks": deflated(b"\x00\x00\x00\xff\xff"),
    "members, and one that is cut": repeated(gzip.compress(b"", mtime=0), end=b"\x1f"),
}
ZSTD = {
    "empty frames": repeated(ZSTD_EMPTY),
    "skippable frames": repeated(ZSTD_SKIPPED),
    "long skippable frames": repeated(ZSTD_SKIPPED[:4] + struct.pack("<I", 500) + bytes(500)),
    "frames that ask for much memory": repeated(bytes.fromhex("28b52ffd0088010000")),
    "empty blocks": repeated(bytes(3), begin=bytes.fromhex("28b52ffd0058"), end=b"\x01\x00\x00"),
    "frames, and one that is cut": repeated(ZSTD_EMPTY, end=ZSTD_EMPTY[:5]),
}

# ---- JSON --------------------------------------------------------------------------------------------


def events(form, kind="string", related=False):
    return lambda body: decode_events(body, form, kind, latest=10.0, related=related)


ROWS = {
    "ordinary": b'{"src":"a","dst":"b","weight":2.25}',
    "no src": b'{"dst":"b"}',
    "a weight below 0": b'{"src":"a","dst":"b","weight":-1}',
    "an id of another type": b'{"src":1,"dst":"b"}',
    "another operation": b'{"src":"a","dst":"b","op":3}',
    "no JSON": b'{"src":"a","dst":"b","weight":x}',
    "not UTF-8": b'{"src":"\xff","dst":"b"}',
    "long ids": b'{"src":"%b","dst":"b"}' % (b"x" * 300),
    "escaped ids": b'{"src":"%b","dst":"b"}' % (b"\\u00e9" * 40),
    "too late": b'{"src":"a","dst":"b","t":11}',
    "one with a time, one without": b'{"src":"a","dst":"b","t":1},{"src":"a","dst":"b"}',
    "slow numbers": b'{"src":"a","dst":"b","weight":2.2250738585072011e-308}',
    "long numbers": b'{"src":"a","dst":"b","weight":0.%b1}' % (b"0" * 300),
    "removals with bad weights": b'{"src":"a","dst":"b","op":-1,"weight":"x"}',
    "other fields": b'{"src":"a","dst":"b",%b}' % b",".join(b'"f%d":[{}]' % i for i in range(20)),
    "an object for an id": b'{"src":"a","dst":{"b":1}}',
    "rows that are lists": b"[[],[]]",
    "numbers": b"1",
}
KIND_ROWS = {
    "ordinary": b'{"src":"user:1","dst":"item:b"}',
    "kinds in fields": b'{"src":1,"src_kind":"user","dst":"b","dst_kind":"item"}',
    "kinds that are none": b'{"src":1,"src_kind":"shop","dst":"b"}',
    "ids without a number": b'{"src":"user:x","dst":"b"}',
    "ids of many digits": b'{"src":"user:%b","dst":"b"}' % (b"9" * 200),
    "many colons": b'{"src":"%b","dst":"b"}' % (b"user:" * 40),
    "forgets without a kind": b'{"op":"forget","id":7}',
}
TEXTS = {
    "deep lists": nested(b"["),
    "deep lists, closed": nested(b"[", b"]"),
    "deep objects": nested(b'{"src":'),
    "deep inside of an event": nested(b"[", b"]", begin=b'[{"src":', end=b"}]"),
    "one long string": repeated(b"x", begin=b'[{"src":"', end=b'","dst":"b"}]'),
    "one string of escapes": repeated(b"\\u00e9", begin=b'[{"src":"', end=b'","dst":"b"}]'),
    "one string without an end": repeated(b'\\"', begin=b'[{"src":"'),
    "one key, again and again": repeated(b'"src":"a"', begin=b"[{", end=b',"dst":"b"}]', between=b","),
    "other keys": repeated(b'"x":1', begin=b"[{", end=b"}]", between=b","),
    "a long number": repeated(b"9", begin=b'[{"src":"a","dst":"b","t":', end=b"}]"),
    "a long fraction": repeated(b"0", begin=b'[{"src":"a","dst":"b","t":0.', end=b"1}]"),
    "a long exponent": repeated(b"9", begin=b'[{"src":"a","dst":"b","t":1e', end=b"}]"),
    "objects without an end": repeated(b'{"a":1,', begin=b"["),
    "strings of braces, and no end": repeated(b'"{"', begin=b"[{", between=b","),
    "whitespace": repeated(b" \n\t\r"),
    "commas": repeated(b",", begin=b"[", end=b"]"),
    "quotes": repeated(b'"'),
    "backslashes": repeated(b"\\", begin=b'["'),
    "brackets that do not match": repeated(b"[}", begin=b"[", end=b"]"),
    "brackets in turn": repeated(b"[]", begin=b"[", end=b"]", between=b","),
    "zeros": repeated(b"\x00"),
}
JSON = {name: repeated(row, b"[", b"]", b",") for name, row in ROWS.items()} | TEXTS
KINDS = {name: repeated(row, b"[", b"]", b",") for name, row in KIND_ROWS.items()}
LINES = {name: repeated(row, between=b"\n") for name, row in ROWS.items()} | {
    "empty lines": repeated(b"\n"),
    "blank lines": repeated(b" \r\n"),
    "lines of a byte": repeated(b"{\n"),
    "one long line": repeated(b"x", begin=b'{"src":"', end=b'","dst":"b"}'),
    "one deep line": nested(b"["),
}
QUESTIONS = TEXTS | {
    "many ids": repeated(b'""', b'{"ids":[', b"]}", b","),
    "many numbers": repeated(b"1", b'{"ids":[', b"]}", b","),
    "slow numbers": repeated(b"1e300", b'{"ids":[', b"]}", b","),
    "one id of escapes": repeated(b"\\ud83d\\ude00", b'{"ids":["', b'"]}'),
}

# ---- Arrow -------------------------------------------------------------------------------------------


def stream(schema, write):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        write(writer)
    return sink.getvalue().to_pybytes()


def batches(rows, words=None):
    """Return a maker of streams of many small batches, each with a dictionary of its own, if it has words."""
    columns = [pa.array([f"{number}{'w' * (words or 0)}"] * rows, pa.string()) for number in range(2)]
    if words is not None:
        columns = [column.dictionary_encode() for column in columns]
    two = [pa.record_batch({"src": column, "dst": column}) for column in columns]

    def of(pairs):
        return stream(two[0].schema, lambda writer: [writer.write(one) for one in two * pairs])

    return lambda length: of(max(1, length // (len(of(2)) - len(of(1)))))


def table(**columns):
    """Return a maker of streams of one batch with many rows."""

    def make(length):
        kinds = {name: pa.string() if value is None else None for name, value in columns.items()}
        one = pa.table({name: pa.array([value], kinds[name]) for name, value in columns.items()})
        times = max(1, length // one.nbytes)
        found = pa.table({name: pa.array([value] * times, kinds[name]) for name, value in columns.items()})
        return stream(found.schema, lambda writer: writer.write_table(found))

    return make


def columns(length):
    """Return a stream of one row and many columns."""
    names = ["src", "dst", *(f"c{number}" for number in range(max(1, length // 250)))]
    found = pa.table({name: ["a"] for name in names})
    return stream(found.schema, lambda writer: writer.write_table(found))


def metadata(length):
    """Return a stream whose schema says much of itself."""
    found = pa.table({"src": ["a"], "dst": ["b"]}).replace_schema_metadata(
        {f"k{number}": "v" for number in range(length // 40)}
    )
    return stream(found.schema, lambda writer: writer.write_table(found))


def deep_columns(length):
    """Return a stream with a column of lists of lists; deeper than the format allows beyond 64."""
    kind = pa.int8()
    for _ in range(40):
        kind = pa.list_(kind)
    names = {f"c{number}": pa.nulls(1, kind) for number in range(max(1, length // 6000))}
    found = pa.table({"src": ["a"], "dst": ["b"], **names})
    return stream(found.schema, lambda writer: writer.write_table(found))


ARROW = {
    "ordinary": table(src="a", dst="b", weight=2.25),
    "batches of a row": batches(1),
    "empty batches": batches(0),
    "batches with a dictionary each": batches(1, words=300),
    "many columns": columns,
    "a long schema": metadata,
    "deep columns": deep_columns,
    "long ids": table(src="x" * 300, dst="b"),
    "weights below 0": table(src="a", dst="b", weight=-1.0),
    "empty cells": table(src=None, dst=None),
    "other operations": table(src="a", dst="b", op="change"),
    "bytes of nothing": repeated(b"\xff\xff\xff\xff\x00\x00\x00\x00"),
}

# ---- files -------------------------------------------------------------------------------------------


def from_file(ending):
    def decode(body):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"x.{ending}"
            path.write_bytes(body)
            read_table(str(path))

    return decode


CSV = {
    "ordinary": repeated(b"a,b\n", b"src,dst\n"),
    "short lines": repeated(b"1\n", b"s\n"),
    "empty lines": repeated(b"\n", b"src,dst\n"),
    "quotes": repeated(b'"""",""""\n', b"src,dst\n"),
    "quotes without an end": repeated(b'"', b'src,dst\n"'),
    "one long cell": repeated(b"x", b"src,dst\n", b",b\n"),
    "many columns": repeated(b"c,", end=b"c\n1\n"),
    "rows of many columns": repeated(b"," * 200 + b"\n", b"," * 200 + b"\n"),
    "rows of other lengths": repeated(b"a\na,b,c\n", b"src,dst\n"),
    "integers as floats": repeated(b"7.0,7.0\n", b"src,dst\n"),
    "long numbers": repeated(b"0" * 300 + b"7,1\n", b"src,dst\n"),
    "zeros": repeated(b"\x00", b"src,dst\n"),
}
FILE_LINES = {
    name: repeated(row, end=b"\n", between=b"\n")
    for name, row in ROWS.items()
    if name in ("ordinary", "no src", "long ids", "other fields", "escaped ids", "long numbers")
} | {"keys of their own": lambda length: b"".join(b'{"src":1,"k%d":1}\n' % i for i in range(length // 2000))}

# ---- the wire of shards ------------------------------------------------------------------------------


def framed(name, plain, contents=b""):
    header = msgspec.msgpack.encode([name, plain])
    return len(header).to_bytes(4, "little") + header + contents


def raw_header(make):
    """Return a maker of messages whose header is not what msgpack would write."""

    def framing(length):
        header = make(length)
        return len(header).to_bytes(4, "little") + header

    return framing


def ids(length, steps):
    """Return a message of ids whose offsets are of a kind."""
    count = length // 16
    offsets = np.asarray(steps(count), np.int64)
    text = np.zeros(max(0, int(offsets[-1])), np.uint8)
    header = [[3, len(offsets)], [4, len(text)]]
    return framed("IdColumn", header, offsets.tobytes() + text.tobytes())


WIRE = {
    "many slots": lambda length: framed("Move", [list(range(length // 3)), 1]),
    "slots of another type": lambda length: framed("Move", [["x"] * (length // 2), 1]),
    "deep": raw_header(nested(b"\x91")),
    "deep inside": raw_header(nested(b"\x91", begin=b"\x92\xa4Move\x92")),
    "maps": raw_header(repeated(b"\x81\xa1a", begin=b"\x92\xa4Move\x92")),
    "one key, again and again": raw_header(
        lambda length: b"\x92\xa4Move\xdf" + (length // 3).to_bytes(4, "big") + b"\xa1a\x01" * (length // 3)
    ),
    "empty lists": lambda length: framed("Move", [[[]] * length, 1]),
    "a long name": lambda length: framed("x" * length, []),
    "a shape of many numbers": lambda length: framed("IdColumn", [[3] + [1] * length, None]),
    "a shape of large numbers": lambda length: framed("IdColumn", [[3] + [2**63] * (length // 9), None]),
    "ids of no text": lambda length: ids(length, np.zeros),
    "ids of a byte": lambda length: ids(length, np.arange),
    "ids that go back": lambda length: ids(length, lambda count: np.arange(count)[::-1]),
    "contents of nobody": lambda length: framed("Move", [[1], 1], bytes(length)),
}

# ---- answers to a client -----------------------------------------------------------------------------


def answered(shape):
    return lambda body: read(body, shape)


VECTOR = (b'{"sequence":0,"id":"a","vector":[', b"]}", b",")
ANSWERS = TEXTS | {
    "a long vector": repeated(b"0.5", *VECTOR),
    "a vector of long numbers": repeated(b"0." + b"1" * 300, *VECTOR),
    "a vector of slow numbers": repeated(b"2.2250738585072011e-308", *VECTOR),
    "a vector of nothing": repeated(b"null", *VECTOR),
    "a vector of words": repeated(b'"x"', *VECTOR),
    "a vector of lists": repeated(b"[1]", *VECTOR),
    "a deep vector": nested(b"[", b"]", begin=b'{"sequence":0,"id":"a","vector":', end=b"}"),
    "vectors, one after the other": repeated(b'"vector":[1]', begin=b"{", end=b"}", between=b","),
}
PAGES = TEXTS | {
    "many small vectors": repeated(
        b'{"id":1,"version":1,"vector":[0.5]}',
        b'{"sequence":0,"next":"","latest":"","reset":true,"more":false,"left":[],"moved":[',
        b"]}",
        b",",
    ),
}


def many_vectors(body):
    return vectors_of(body, ["a"])


DECODERS = {
    "gzip": (decompressed("gzip"), GZIP),
    "zstd": (decompressed("zstd"), ZSTD),
    "events as JSON": (events("json"), JSON),
    "events as JSON, numbers": (
        events("json", "int64"),
        {name: JSON[name] for name in ("ordinary", "numbers")},
    ),
    "events as JSON, kinds": (events("json", "user:int64,item:string"), KINDS),
    "events as JSON, related": (
        events("json", related=True),
        {
            "ordinary": JSON["ordinary"],
            "relations": repeated(b'{"src":"a","dst":"b","relation":"view"}', b"[", b"]", b","),
            "long relations": repeated(
                b'{"src":"a","dst":"b","relation":"%b"}' % (b"x" * 300), b"[", b"]", b","
            ),
            "one long relation": repeated(b"x", begin=b'[{"src":"a","dst":"b","relation":"', end=b'"}]'),
            "deep relations": nested(
                b"[", b"]", begin=b'[{"src":"a","dst":"b","op":-1,"relation":', end=b"}]"
            ),
        },
    ),
    "events as lines": (events("ndjson"), LINES),
    "events as Arrow": (events("arrow"), ARROW),
    "events as Arrow, related": (
        events("arrow", related=True),
        {"relations": table(src="a", dst="b", relation="view"), "none": table(src="a", dst="b")},
    ),
    "questions": (lambda body: read_body(body, requests.VectorsRequest), QUESTIONS),
    "CSV files": (from_file("csv"), CSV),
    "NDJSON files": (from_file("ndjson"), FILE_LINES),
    "wire of shards": (unpack, WIRE),
    "answers: a vector": (answered(answers.OneVector), ANSWERS),
    "answers: changes": (answered(answers.Changes), PAGES),
    "answers: vectors as Arrow": (many_vectors, ARROW),
    "answers: refusals": (lambda body: read_problem(Response(400, {}, body)), TEXTS),
}
CASES = [(decoder, name) for decoder, (_, inputs) in DECODERS.items() for name in inputs]
