"""Keys of ids are a part of the saved format: features are drawn from them."""

import hashlib

import numpy as np
import pytest

from dygcn.engine.events import id_column
from dygcn.engine.events.keys import keys_of_ints, salted
from dygcn.engine.graph.ids import IdMap

MASK = (1 << 64) - 1
NUMBERS = np.concatenate((np.arange(-500, 498), [2**63 - 1, -(2**63)]))
NAMES = [f"né {n} " + "x" * (n % 40) for n in range(999)] + [""]


def mixed(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def fnv_1a(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & MASK
    return state


def string_keys():
    ids = IdMap("string")
    ids.intern(id_column(NAMES))
    return ids.keys[: len(NAMES)]


@pytest.mark.parametrize(
    ("keys", "digest"),
    [
        (lambda: keys_of_ints(NUMBERS), "b2b03ac66b8f0b20"),
        (string_keys, "1183b2a7ee0926ea"),
        (lambda: salted(string_keys(), 12345), "510b87d5b9e85b7a"),
    ],
    ids=["integers", "strings", "salted"],
)
def test_keys_are_those_of_every_version(keys, digest):
    assert hashlib.sha256(keys().astype("<u8").tobytes()).hexdigest()[:16] == digest


def test_keys_are_what_they_are_said_to_be():
    numbers = [mixed(number & MASK) for number in NUMBERS.tolist()]
    assert keys_of_ints(NUMBERS).tolist() == numbers
    assert string_keys().tolist() == [mixed(fnv_1a(name.encode())) for name in NAMES]
    for salt in (0, 5, -1):
        assert salted(keys_of_ints(NUMBERS), salt).tolist() == [mixed(key + salt & MASK) for key in numbers]
