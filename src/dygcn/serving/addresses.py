"""Settings with an address: unknown names are errors, and secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote

import msgspec

from dygcn.errors import OptionError


class Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, tag_field="kind"):
    """Settings of one source or sink. They are shown without passwords, and an unknown name is refused."""

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        if "url" in shown:
            shown["url"] = public_address(shown["url"])
        if "options" in shown:
            shown["options"] = dict.fromkeys(shown["options"], "...")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def public_address(url: str) -> str:
    """Return an address, or several with blanks between, without user, password and options.

    Examples
    --------
    >>> public_address("redis://app:p@ss@db.example:6379/2?password=hm")
    'redis://db.example:6379/2'
    >>> public_address("nats://token@a:4222 nats://b:4222")
    'nats://a:4222 nats://b:4222'
    """
    return " ".join(f"{scheme}://{host}" for scheme, _, host, _ in _parts(url)) or "..."


def secrets_of(url: str, options: dict[str, str] | None = None) -> list[str]:
    """Return the secrets of an address and of a client's options, the longest first.

    Examples
    --------
    >>> secrets_of("redis://app:s%21@db.example:6379", {"sasl.password": "hush", "client.id": "me"})
    ['app:s%21', 'app:s!', 'hush', 's%21', 's!']
    """
    found = {value for name, value in (options or {}).items() if re.search("pass|secret|key|token", name)}
    for _, user, _, query in _parts(url):
        found |= {user, user.partition(":")[2], *(value for _, value in parse_qsl(query))}
    found |= {unquote(secret) for secret in found}
    return sorted(found - {""}, key=lambda secret: (-len(secret), secret))


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a client's message in one line, with stars instead of every secret.

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
    """Raise an OptionError unless a time is above 0 and at most `most`."""
    if not 0 < value <= most:
        raise OptionError(f"{what} is {value!r}; allowed are seconds above 0, at most {most:g}")


def check_address(url: str, schemes: tuple[str, ...]) -> None:
    """Raise an OptionError unless an address has one of the schemes. It is not shown: see `Settings`."""
    parts = _parts(url)
    whole = bool(parts) and len(parts) == len(url.split())
    if not whole or not all(scheme in schemes and host for scheme, _, host, _ in parts):
        allowed = " or ".join(f"{scheme}://" for scheme in schemes)
        raise OptionError(f"url is not an address that begins with {allowed} (a blank in it is written %20)")


def _parts(url: str) -> list[tuple[str, str, str, str]]:
    """Return scheme, user with password, host with path, and query of each address."""
    words = url.split()
    if not all("://" in word for word in words):
        words = [url]  # a blank in a password, unwisely
    parts = []
    for word in words:
        scheme, _, rest = word.partition("://")
        user, _, host = rest.rpartition("@")
        host, _, query = host.partition("?")
        parts.append((scheme, user, host, query))
    return parts if "://" in url else []
