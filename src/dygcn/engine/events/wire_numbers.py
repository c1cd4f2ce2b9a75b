"""Counts numbers that would take the JSON decoder a thousand times longer than others, before it runs.

A decimal number near the ends of the range of floats (1e300, 1e-310) is read in 20 to 40 us, where others
take 0.03: six bytes of a body would hold the interpreter for as long as six kilobytes of ordinary events.
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Bytes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython


FEW, BYTES_A_NUMBER = 16, 2048  # numbers that any body may have, and one more for so many bytes
_QUOTE, _ESCAPE, _PLUS, _MINUS, _ZERO, _NINE = 34, 92, 43, 45, 48, 57  # bytes of "\\+-09
_LOWER, _UPPER = 101, 69  # e, E


def count_long_exponents(data: Bytes) -> int:
    """Count the numbers of a JSON text, outside of strings, with a three-digit exponent or longer."""
    with cython.nogil:
        found = _count(data)
    return found


def _count(data: Bytes) -> int:
    found, at, size, inside = 0, 0, len(data), False
    while at < size:
        sign = data[at]
        if inside:
            if sign == _ESCAPE:
                at += 1
            elif sign == _QUOTE:
                inside = False
        elif sign == _QUOTE:
            inside = True
        elif sign in (_LOWER, _UPPER):
            if at + 1 < size and data[at + 1] in (_PLUS, _MINUS):
                at += 1
            digits = 0
            while at + 1 < size and _ZERO <= data[at + 1] <= _NINE:
                digits += 1
                at += 1
            found += digits >= 3
        at += 1
    return found


def reads_slowly(body: bytes) -> bool:
    """Return whether a JSON text has too many numbers with long exponents for its length."""
    if len(body) < 5 * FEW:  # too short for so many
        return False
    return count_long_exponents(np.frombuffer(body, np.uint8)) > FEW + len(body) // BYTES_A_NUMBER
