"""Settings with an address: found by their kind, unknown names are errors, secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from dygcn._extras import load_plugin
from dygcn.errors import OptionError

DAY, YEAR = 86_400.0, 31_536_000.0
_Error = TypeVar("_Error", bound=Exception)


class Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, tag_field="kind"):
    """Settings of one source or sink, shown without passwords; docs/configuration.md describes all keys."""

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        if "url" in shown:
            shown["url"] = public_address(shown["url"])
        if "options" in shown:
            shown["options"] = dict.fromkeys(shown["options"], "...")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def public_address(url: str) -> str:
    """Return an address, or several with blanks between, without user, password and options."""
    return " ".join(f"{scheme}://{host}" for scheme, _, host, _ in _parts(url)) or "..."


def secrets_of(url: str, options: dict[str, str] | None = None) -> list[str]:
    """Return the secrets of an address and of a client's options, the longest first."""
    found = {value for name, value in (options or {}).items() if re.search("pass|secret|key|token", name)}
    for _, user, _, query in _parts(url):
        found |= {user, user.partition(":")[2], *(value for _, value in parse_qsl(query))}
    found |= {unquote(secret) for secret in found}
    return sorted(found - {""}, key=lambda secret: (-len(secret), secret))


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the message of a client in one line, with stars instead of every secret."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return " ".join(text.split())


def failure(kind: type[_Error], name: str, error: BaseException, secrets: Iterable[str] = ()) -> _Error:
    """Return the error of a client as an error of `kind` that names the source or sink."""
    text = without(str(error), secrets)
    return kind(f"{name}: {type(error).__name__}{': ' if text else ''}{text[:500]}")


class Connector(Protocol):
    """What `errors_of` has to know of a client."""

    name: str
    errors: tuple[type[BaseException], ...]
    """Errors of the client's library, which become a SinkError or a SourceError."""
    secrets: list[str]
    """Texts that no error may show."""

    def disconnect(self) -> None:
        """Release all resources. Safe to call twice, and without a connection."""


@contextmanager
def errors_of(client: Connector, kind: type[Exception], close: Callable[[], None]) -> Iterator[None]:
    """Close after every error; raise errors of the client's library as errors of `kind`."""
    try:
        yield
    except BaseException as error:
        close()
        if isinstance(error, kind) or not isinstance(error, client.errors):
            raise
        raise failure(kind, client.name, error, client.secrets) from None


def read_by_kind(raw: Any, known: Mapping[str, type[Any]], group: str) -> Any:
    """Return the settings of a source or sink; kinds of other distributions are entry points of `group`."""
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"Expected a table with the key `kind`, one of {', '.join(known)}")
    try:
        return msgspec.convert(raw, known[kind] if kind in known else load_plugin(group, kind, known))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # the caller adds where it stands


def check_name(what: str, value: str, pattern: str, allowed: str) -> None:
    """Raise OptionError unless a name matches a pattern."""
    if not re.fullmatch(pattern, value):
        raise OptionError(f"{what} is {value!r}; allowed is {allowed}")


def check_seconds(what: str, value: float, most: float = DAY) -> None:
    """Raise OptionError unless a time is above 0 and at most `most`."""
    if not 0 < value <= most:
        raise OptionError(f"{what} is {value!r}; allowed are seconds above 0, at most {most:g}")


def check_address(url: str, schemes: tuple[str, ...]) -> None:
    """Raise OptionError unless the URL scheme is supported and the port a number.

    The message omits the URL, which may contain a password.
    """
    if not _is_address(url, schemes):
        allowed = " or ".join(f"{scheme}://" for scheme in schemes)
        raise OptionError(f"url is not an address that begins with {allowed} (a blank in it is written %20)")


def _is_address(url: str, schemes: tuple[str, ...]) -> bool:
    parts = _parts(url)
    try:
        ports = [urlsplit(f"//{host}").port for _, _, host, _ in parts]
    except ValueError:
        return False
    return 0 < len(ports) == len(url.split()) and all(
        scheme in schemes and host for scheme, _, host, _ in parts
    )


def endpoint(url: str, port: int) -> str:
    """Return scheme, host, port and path of an address, without user and password."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or port}{parts.path}"


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
