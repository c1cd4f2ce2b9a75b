"""What the settings of every sink have in common: strict, and silent about secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY, YEAR = 86_400.0, 31_536_000.0
_SHOWN = re.compile(r"(?P<scheme>[a-z+]+://)?(?:(?P<secret>.*)@)?(?P<rest>[^?#]*).*", re.DOTALL)


class Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, tag_field="kind"):
    """Settings of one sink. They are shown without passwords, and an unknown name is refused."""

    def __repr__(self) -> str:
        shown = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "url":
                value = public_address(value)
            elif name == "options":
                value = dict.fromkeys(value, "...")
            shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def public_address(url: str) -> str:
    """Return an address (or several, with blanks between) without user, password and options.

    Examples
    --------
    >>> public_address("redis://app:s3cret@db.example:6379/2?timeout=1")
    'redis://db.example:6379/2'
    >>> public_address("nats://me:p@ss/word@a:4222 nats://b:4222")
    'nats://a:4222 nats://b:4222'
    """
    if "://" not in url:
        return "..."  # key=value pairs, say: a password may be anywhere
    return " ".join(f"{found['scheme'] or ''}{found['rest']}" for found in _read(url))


def secrets_of(url: str) -> tuple[str, ...]:
    """Return what of an address must never be shown, as it stands and decoded, the longest first.

    Examples
    --------
    >>> secrets_of("redis://app:s%21@db.example:6379")
    ('app:s%21', 'app:s!', 's%21', 's!')
    """
    secrets = set()
    for found in _read(url):
        whole = found["secret"] or ""
        secrets |= {whole, whole.partition(":")[2]}
    return tuple(sorted({*secrets, *map(unquote, secrets)} - {""}, key=lambda text: (-len(text), text)))


def without(text: str, secrets: Iterable[str]) -> str:
    """Return what a client said, with stars in the place of every secret.

    Examples
    --------
    >>> without("invalid port: 's3cret'", ["s3cret"])
    "invalid port: '***'"
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return " ".join(text.split())


def check_name(what: str, value: str, pattern: str, allowed: str) -> None:
    """Raise an OptionError unless a name is of the allowed form."""
    if not re.fullmatch(pattern, value):
        raise OptionError(f"{what} is {value!r}; allowed is {allowed}")


def check_seconds(what: str, value: float, most: float) -> None:
    """Raise an OptionError unless a time is above 0 and not beyond what is allowed."""
    if not 0 < value <= most:
        raise OptionError(f"{what} is {value!r}; allowed are seconds above 0, at most {most:g}")


def _read(url: str) -> list[re.Match[str]]:
    parts = url.split()
    if not all("://" in part for part in parts):
        parts = [url]  # a blank in a password, unwisely
    return [found for part in parts if (found := _SHOWN.fullmatch(part))]
