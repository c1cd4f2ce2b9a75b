"""Compressed requests are decoded within the bound of a body; large answers are compressed."""

import gzip
import sys
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.errors import OptionError
from dygcn.serving.service import bodies
from dygcn.serving.service.bodies import CODINGS, MOST_MEMBERS, TooManyMembers, accepted, decoded
from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import is_problem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACK = {"gzip": gzip.compress, "zstd": zstd.compress}
EVENTS = [{"src": 1, "dst": node} for node in range(100, 200)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=3), st.sampled_from(CODINGS))
def test_what_was_packed_comes_back(parts, coding):
    whole, packed = b"".join(parts), b"".join(PACK[coding](part) for part in parts)
    assert decoded(packed, coding, len(whole)) == whole
    if whole:
        assert decoded(packed, coding, len(whole) - 1) is None
        with pytest.raises(OptionError, match=coding):
            decoded(packed[:-1], coding, len(whole) + 10)


@pytest.mark.parametrize("coding", CODINGS)
def test_what_is_not_packed_is_refused(coding):
    with pytest.raises(OptionError, match=f"not {coding}"):
        decoded(b"[{}]", coding, 100)


def peak(bomb, coding, most):
    tracemalloc.start()
    try:
        assert decoded(bomb, coding, most) is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_takes_no_memory(coding):
    bomb = PACK[coding](bytes(64 << 20))
    assert len(bomb) < 100_000
    assert peak(bomb, coding, 1 << 20) < 8 << 20


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_that_goes_off_would_be_noticed(coding, monkeypatch):
    class Unbounded:
        def __init__(self, real):
            self._real = real

        def decompress(self, body, most):
            return self._real.decompress(body)

    made = bodies._decoder
    monkeypatch.setattr(bodies, "_decoder", lambda name: Unbounded(made(name)))
    with pytest.raises(AssertionError):
        test_a_bomb_takes_no_memory(coding)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_may_have_some_members(coding):
    assert decoded(PACK[coding](b"ab") * MOST_MEMBERS, coding, 1000) == b"ab" * MOST_MEMBERS
    with pytest.raises(TooManyMembers, match=f"{MOST_MEMBERS} {coding}"):
        decoded(PACK[coding](b"ab") * (MOST_MEMBERS + 1), coding, 1000)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/vectors"])
@pytest.mark.parametrize("coding", CODINGS)
def test_too_many_members_are_refused_by_name(serve, coding, path):
    headers = {"content-type": "application/json", "content-encoding": coding}
    answer = serve().client.post(path, content=PACK[coding](b"") * (MOST_MEMBERS + 1), headers=headers)
    assert "compress it as one" in is_problem(answer, 413, "too-many-members")


@pytest.mark.parametrize("coding", CODINGS)
def test_requests_may_be_compressed(serve, coding):
    served = serve()
    headers = {"content-type": "application/json", "content-encoding": coding}
    body = PACK[coding](msgspec.json.encode(EVENTS))
    answer = served.client.post("/v1/events", content=body, headers=headers)
    assert answer.json()["applied"] == len(EVENTS)
    assert is_problem(served.client.post("/v1/events", content=b"[]", headers=headers), 400, "bad-option")
    assert served.service.live.sequence == 1


@pytest.mark.parametrize("coding", CODINGS)
def test_the_bound_of_a_body_holds_for_what_it_becomes(serve, coding):
    served = serve(limits=Limits(body_bytes=10_000))
    headers = {"content-type": "application/json", "content-encoding": coding}
    body = PACK[coding](b"[" + b" " * 20_000 + b"]")
    is_problem(served.client.post("/v1/events", content=body, headers=headers), 413, "too-large")


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "x"])
def test_other_codings_are_refused_by_name(serve, coding):
    headers = {"content-type": "application/json", "content-encoding": coding}
    answer = serve().client.post("/v1/events", content=b"[]", headers=headers)
    assert "gzip" in is_problem(answer, 415, "unsupported-encoding")
    assert answer.headers["accept-encoding"] == "zstd, gzip"


def ask(served, path, coding):
    return served.client.get(path, headers={"accept-encoding": coding})


@pytest.mark.parametrize("coding", CODINGS)
def test_large_answers_are_compressed_and_small_ones_are_not(serve, coding):
    served = serve()
    served.post(EVENTS)
    plain = ask(served, "/v1/changes?limit=1000", "identity")
    with served.client.stream("GET", "/v1/changes?limit=1000", headers={"accept-encoding": coding}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == coding
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) == len(raw) < len(plain.content)
    assert decoded(raw, coding, 1 << 24) == plain.content
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in ask(served, "/v1/vectors/1", coding).headers
    assert "content-encoding" not in ask(served, "/v1/vectors/nobody", coding).headers


def test_a_stream_is_not_compressed(serve):
    headers = {"accept": "text/event-stream", "accept-encoding": "gzip"}
    with serve().client.stream("GET", "/v1/changes", headers=headers) as stream:
        assert "content-encoding" not in stream.headers
        assert next(stream.iter_raw()).startswith(b": here")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("*", ""),
        ("GZIP", "gzip"),
        ("zstd;q=0.0,gzip", "gzip"),
        ("gzip;q=1.0, zstd;q=0.001", "zstd"),
        ("br", ""),
    ],
)
def test_what_is_accepted(header, found):
    assert accepted(header) == found
