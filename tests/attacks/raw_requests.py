"""Requests as bytes that no library would send, and the statuses of the answers that are due to each."""

import base64

from dygcn.serving.service.auth import new_token

SECRETS = {scope: new_token(scope, [scope]) for scope in ("read", "write", "admin")}
TOKENS = tuple(token for _, token in SECRETS.values())
READ, WRITE = (f"Authorization: Bearer {SECRETS[scope][0]}" for scope in ("read", "write"))
IDS = ["n1", "n2", "../../etc/passwd", "a/b", "é€", "a b", "a%2Fb", "x\r\nInjected: 1", "q?x=1", "..", "."]
EVENT, ASKED = b'[{"src":"n1","dst":"n2"}]', b'{"ids": ["n1"] }'
VECTOR, MANY = "/v1/vectors/", "/v1/vectors"


def head(path, *headers, method="GET", version="1.1", host="Host: x", who=READ):
    """A request without a body."""
    lines = [f"{method} {path} HTTP/{version}", *(line for line in (host, who, *headers) if line), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def vector(node, *headers, **options):
    return head(VECTOR + node, *headers, **options)


def many(*headers, body=ASKED, length=True):
    """A request for many vectors."""
    lengths = [f"Content-Length: {len(body)}"] if length else []
    return head(MANY, "Content-Type: application/json", *lengths, *headers, method="POST") + body


def chunked(coding="chunked", sent=b"10\r\n" + ASKED + b"\r\n0\r\n\r\n", *headers):
    return many(f"Transfer-Encoding: {coding}", *headers, body=sent, length=False)


def post(path, body, *headers, who=READ):
    told = f"Content-Length: {len(body)}"
    return head(path, "Content-Type: application/json", told, *headers, method="POST", who=who) + body


INSIDE = b"DELETE /v1/clients/x HTTP/1.1\r\nHost: x\r\n\r\n"
PASSWORD = base64.b64encode(b":" + SECRETS["read"][0].encode()).decode()
QUALITIES = ",".join(f"gzip;q=0.{i}" for i in range(3_000))
NEXT = vector("n1")
OK, NO, GONE, BAD, CUT_OFF = [200], [401], [404], [400], []

REQUESTS = {
    # ---- who asks ----------------------------------------------------------------------------------------
    "a read": (vector("n1"), OK),
    "no token": (vector("n1", who=""), NO),
    "a token of another scope": (vector("n1", who=WRITE), [403]),
    "a good token, then a bad one": (vector("n1", "Authorization: Bearer no"), OK),
    "a bad token, then a good one": (vector("n1", READ, who="Authorization: Bearer no"), NO),
    "an absolute address without a token": (head(f"http://evil{VECTOR}n1", who=""), NO),
    "a token in small letters": (vector("n1", who=READ.replace("Bearer", "bearer")), OK),
    "a tab before the token": (vector("n1", who=READ.replace("Bearer ", "Bearer\t")), NO),
    "an empty token": (vector("n1", who="Authorization: bearer "), NO),
    "a token as a password": (vector("n1", who=f"Authorization: Basic {PASSWORD}"), OK),
    "a folded token": (vector("n1", who=READ.replace(": ", ":\r\n ")), BAD),
    "events with a token for reading": (post("/v1/events", EVENT), [403]),
    "tokens in turns": ((vector("n1") + vector("n1", who="")) * 10, (OK + NO) * 10),
    # ---- which node --------------------------------------------------------------------------------------
    "a letter in percent": (vector("%6e1"), OK),
    "a slash in percent": (vector("a%2Fb"), OK),
    "a slash": (vector("a/b"), OK),
    "percent in percent": (vector("a%252Fb"), OK),
    "raw UTF-8": (vector("é€"), BAD),
    "UTF-8 in percent": (vector("%C3%A9%E2%82%AC"), OK),
    "no UTF-8 in percent": (vector("%ff%fe"), GONE),
    "the folder above": (vector(".."), OK),
    "this folder": (vector("."), OK),
    "a path": (vector("../../etc/passwd"), OK),
    "a path in percent": (vector("..%2F..%2Fetc%2Fpasswd"), OK),
    "an end of line in percent": (vector("x%0d%0aInjected:%201"), OK),
    "nobody": (vector(""), GONE),
    "a question mark in percent": (vector("q%3Fx=1"), OK),
    "a question mark": (vector("n1?"), OK),
    "a semicolon": (vector("n1;x"), GONE),
    "60,000 letters": (vector("a" * 60_000), GONE),
    "two slashes": (head("//v1/vectors/n1"), GONE),
    # ---- the first line ----------------------------------------------------------------------------------
    "no host": (vector("n1", host=""), OK),
    "two hosts": (vector("n1", "Host: y"), OK),
    "an absolute address": (head(f"http://evil{VECTOR}n1"), OK),
    "1.0": (vector("n1", version="1.0"), OK),
    "1.0 that stays": (vector("n1", "Connection: keep-alive", version="1.0") + NEXT, OK),
    "1.2": (vector("n1", version="1.2"), BAD),
    "9.9": (vector("n1", version="9.9"), BAD),
    "a space": (vector("a b"), BAD),
    "a tab": (vector("n1").replace(b"GET ", b"GET\t"), BAD),
    "ends of lines without their first half": (vector("n1").replace(b"\r", b""), BAD),
    "a nought": (vector("n1\0"), BAD),
    "a method in small letters": (vector("n1", method="get"), BAD),
    "HEAD": (vector("n1", method="HEAD") + NEXT, OK * 2),
    "OPTIONS": (head("*", method="OPTIONS"), GONE),
    "CONNECT": (head("a:80", method="CONNECT") + NEXT, BAD),
    "TRACE": (vector("n1", method="TRACE"), [405]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00" + b"a" * 100, BAD),
    # ---- headers -----------------------------------------------------------------------------------------
    "a long header": (vector("n1", "X: " + "a" * 200_000), CUT_OFF),
    "9,000 headers": (vector("n1", *(f"X{i}: 1" for i in range(9_000))), OK),
    "a bare return": (vector("n1").replace(b"Host: x\r\n", b"Host: x\r"), BAD),
    "control characters": (vector("n1", 'X-Request-ID: a\x01\x02"\\'), BAD),
    "a long name of a request": (vector("n1", "X-Request-ID: " + "a" * 4_000), OK),
    "a forged peer": (vector("n1", "X-Dygcn-Peer: 1.2.3.4 zz"), OK),
    "codings": (vector("n1", "Accept-Encoding: gzip, zstd"), OK),
    "3,000 codings": (vector("n1", f"Accept-Encoding: {QUALITIES}"), OK),
    "an end": (vector("n1", "Connection: close"), OK),
    "an upgrade to HTTP/2": (vector("n1", "Connection: Upgrade", "Upgrade: h2c") + NEXT, OK),
    "an upgrade to a socket": (vector("n1", "Connection: Upgrade", "Upgrade: websocket"), OK),
    "50 at once": (NEXT * 50, OK * 50),
    "two kinds at once": ((NEXT + head("/v1/nearest/n1")) * 10, OK * 20),
    # ---- where a body ends -------------------------------------------------------------------------------
    "a body that nobody wants": (vector("n1", "Content-Length: 5") + b"hello" + NEXT, OK * 2),
    "a request in a body": (vector("n1", f"Content-Length: {len(INSIDE)}") + INSIDE + NEXT, OK * 2),
    "chunks that nobody wants": (
        vector("n1", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n" + NEXT,
        OK * 2,
    ),
    "a body that does not come": (vector("n1", "Content-Length: 50") + b"hello", OK),
    "a length and chunks": (
        chunked("chunked", b"10\r\n" + ASKED + b"\r\n0\r\n\r\n", "Content-Length: 4"),
        BAD,
    ),
    "two lengths": (many("Content-Length: 10"), BAD),
    "one length twice": (many(f"Content-Length: {len(ASKED)}"), BAD),
    "a length with a sign": (many("Content-Length: +16", length=False), BAD),
    "a length below nought": (many("Content-Length: -1", length=False), BAD),
    "a length of 2^63": (many(f"Content-Length: {1 << 63}", length=False), [413]),
    "a length of 23 digits": (many("Content-Length: " + "9" * 23, length=False), BAD),
    "a coding that is none": (many("Transfer-Encoding: identity"), BAD),
    "a coding that nobody knows": (many("Transfer-Encoding: xchunked"), BAD),
    "two codings": (chunked("gzip, chunked"), OK),
    "a space before the colon": (many("Transfer-Encoding : chunked"), BAD),
    "a chunk with an extension": (chunked("chunked", b"10;a=b\r\n" + ASKED + b"\r\n0\r\n\r\n"), OK),
    "a trailer": (chunked("chunked", b"10\r\n" + ASKED + b"\r\n0\r\nX-Dygcn-Peer: 1.2.3.4 5\r\n\r\n"), OK),
    "a chunk below nought": (chunked("chunked", b"-1\r\n\r\n0\r\n\r\n"), BAD),
    "a chunk of 2^64 - 1": (chunked("chunked", b"f" * 16 + b"\r\nab\r\n0\r\n\r\n"), [408]),
    "an expectation": (many("Expect: 100-continue"), [100, 200]),
    "events with an upgrade": (
        post("/v1/events", EVENT, "Connection: Upgrade", "Upgrade: x", who=WRITE),
        BAD,
    ),
    # ---- what a body says --------------------------------------------------------------------------------
    "100,000 brackets": (many(body=b"[" * 100_000), BAD),
    "no UTF-8": (many(body=b'{"ids":["\xff"]}'), BAD),
    "half a character": (many(body=b'{"ids":["\\ud800"]}'), BAD),
    "nought as a name": (many(body=b'{"ids":["\\u0000"]}'), OK),
    "names and numbers": (many(body=b'{"ids":["a",1]}'), OK),
    "a name twice": (many(body=b'{"ids":["n1","n1"]}'), OK),
}
