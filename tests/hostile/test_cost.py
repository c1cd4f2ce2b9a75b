"""Inputs that were made to be slow: the cost of decoders grows with their length, not with its square.

Processor time at five sizes, each twice the one before. The bound lies between linear (1) and
quadratic (2), so that noise does not fail the test; `python -m tests.hostile` holds decoders to 1.1.
"""

import time
import zlib

import pytest

from dygcn.serving.service import bodies
from tests.hostile.decoders import DECODERS, GZIP, decompressed
from tests.hostile.growth import growth

CLEARLY_MORE = 1.5
TRIES = 3  # whatever else runs on the machine may disturb one of them


def too_steep(decode, make):
    """Return the exponent of a cost that grows clearly faster than its input, each time; else None."""
    exponents = []
    for _ in range(TRIES):
        exponents.append(growth(decode, make, repeats=3, enough=0.05).exponent)
        if exponents[-1] <= CLEARLY_MORE:
            return None
    return min(exponents)


@pytest.mark.parametrize("decoder", DECODERS)
def test_cost_grows_with_the_length_of_the_input(decoder):
    decode, inputs = DECODERS[decoder]
    steep = {name: too_steep(decode, make) for name, make in inputs.items()}
    assert {name: exponent for name, exponent in steep.items() if exponent is not None} == {}


def rest_copied_for_each_member(body, coding, most):
    """The seeded bug: `decoded` as it was, which copies all that follows a member."""
    parts = []
    while body:
        decoder = bodies._decoder(coding)
        parts.append(decoder.decompress(body, most + 1))
        body = decoder.unused_data
    return b"".join(parts)


class Counting:
    """A decoder that counts the bytes that it was given."""

    def __init__(self, total):
        self._real, self.total = zlib.decompressobj(16 + zlib.MAX_WBITS), total

    def decompress(self, piece, most):
        self.total[0] += len(piece)
        return self._real.decompress(piece, most)

    def __getattr__(self, name):
        return getattr(self._real, name)


def count_bytes(monkeypatch):
    """Have decoders of gzip count the bytes that they are given, and return the counter."""
    total = [0]
    monkeypatch.setattr(bodies, "_decoder", lambda coding: Counting(total))
    return total


def test_a_copy_of_the_rest_for_each_member_would_be_noticed(monkeypatch):
    """The clock counts bytes, so that the machine has no say."""
    total = count_bytes(monkeypatch)
    monkeypatch.setattr(time, "process_time", lambda: total[0] / 1e9)
    make = GZIP["empty members"]
    assert too_steep(decompressed("gzip"), make) is None
    monkeypatch.setattr(bodies, "decoded", rest_copied_for_each_member)
    assert too_steep(decompressed("gzip"), make) > CLEARLY_MORE


def test_members_are_given_to_a_decoder_about_once(monkeypatch):
    """Counted, so that no clock is needed: long members are read once, short ones a piece each."""
    total = count_bytes(monkeypatch)
    piece = bodies._FIRST_PIECE
    for name in ("empty members", "members with long names"):
        for length in (64 << 10, 256 << 10):
            body, total[0] = GZIP[name](length), 0
            decompressed("gzip")(body)
            members = body.count(b"\x1f\x8b\x08")
            assert total[0] <= 2 * len(body) + members * piece
