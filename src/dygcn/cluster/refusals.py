"""Errors of another process as bytes and back: the same class with the same attributes, whoever raised it."""

from __future__ import annotations

import inspect

import msgspec

from dygcn import errors
from dygcn.errors import ClusterError, DygcnError

_Value = str | int | float | bool | None
_Refusal = tuple[str, list[_Value], dict[str, _Value]]  # class, arguments, attributes
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(_Refusal).decode

CLASSES = {
    name: one for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, DygcnError)
}
"""Every class of the error tree, by its name."""


def pack_refusal(error: DygcnError) -> bytes:
    """Return an error as bytes.

    Examples
    --------
    >>> from dygcn.errors import CapacityError
    >>> again = unpack_refusal(pack_refusal(CapacityError("too heavy", row=3)))
    >>> type(again).__name__, str(again), again.row
    ('CapacityError', 'row 3: too heavy', 3)
    """
    attributes = {name: _plain(value) for name, value in vars(error).items()}
    return _encode((type(error).__name__, [_plain(value) for value in error.args], attributes))


def unpack_refusal(body: bytes) -> DygcnError:
    """Return an error from its bytes; a `ClusterError` if they cannot be read, or name a class of nobody."""
    try:
        name, arguments, attributes = _decode(body)
    except msgspec.MsgspecError as error:
        return ClusterError(f"a refusal of another process cannot be read: {error}")
    kind = CLASSES.get(name)
    if kind is None:
        return ClusterError(f"{name}: {', '.join(map(str, arguments))}")
    refusal = kind.__new__(kind, *arguments)
    refusal.args = tuple(arguments)  # not by __init__, which made these of what it was given
    vars(refusal).update(attributes)
    return refusal


def _plain(value: object) -> _Value:
    """Return a value that msgpack has, or its text."""
    if isinstance(value, float | bool | None) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    return str(value).encode(errors="replace").decode()
